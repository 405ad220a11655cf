package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/tree"
)

// captureDisk finds out what is on the disk now and stores nothing. The
// Getter knows the trees of the result and all that the store holds.
func (p *place) captureDisk(ctx context.Context, limits tree.Limits) (*tree.Result, tree.Getter, error) {
	if _, err := os.Stat(p.project.Root); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil, p.app.noRoot(p.project.Root)
	}
	limits.NewBytes, limits.Files = -1, -1 // nothing is kept of it
	progress := new(tree.Progress)
	stop := p.app.showProgress(progress, "read")
	r, g, err := p.m.Disk(ctx, &tree.CaptureOptions{Limits: limits, Progress: progress})
	stop()
	return r, sound{g}, err
}

// readDisk returns the content of a file, or the target of a link, that a
// capture has seen.
func readDisk(m *manager.FileSnapshotManager, path string, e *tree.Entry) ([]byte, error) {
	b, err := m.DiskContent(path, e)
	if errors.Is(err, manager.ErrStale) {
		err = &failure{exitEnvironment, err, "run it again"}
	}
	return b, err
}
