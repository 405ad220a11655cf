package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/tree"
)

// captureDisk finds out what is on the disk now and stores nothing. The
// Getter knows the trees of the result and all that the store holds.
func (p *place) captureDisk(ctx context.Context, limits tree.Limits) (*tree.Result, trees.Getter, error) {
	if _, err := os.Stat(p.project.Root); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil, p.app.noRoot(p.project.Root)
	}
	limits.NewBytes, limits.Files = -1, -1 // nothing is kept of it
	progress := new(tree.Progress)
	stop := p.app.showProgress(progress, "read")
	r, g, err := inside.Of(p.m).Disk(ctx, &capture.Options{Limits: limits, Progress: progress})
	stop()
	return r, g, err
}
