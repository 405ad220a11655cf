package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// captureDisk finds out what is on the disk now and stores nothing. The
// Getter knows the trees of the result and all that the store holds.
func (p *place) captureDisk(ctx context.Context, limits tree.Limits) (*tree.Result, tree.Getter, error) {
	limits.NewBytes, limits.Files = -1, -1 // nothing is kept of it
	progress := new(tree.Progress)
	stop := p.app.showProgress(progress, "read")
	r, g, err := p.m.Disk(ctx, &tree.CaptureOptions{Limits: limits, Progress: progress})
	stop()
	return r, sound{g}, err
}

// readDisk returns the content of a file, or the target of a link, that a
// capture has seen below root.
func readDisk(root, path string, e *tree.Entry) ([]byte, error) {
	b, err := readBelow(root, path, e)
	if err == nil && store.Hash(store.Blob, b) != e.ID {
		return nil, &failure{exitEnvironment, fmt.Errorf("%q: changed while it was read", path), "run it again"}
	}
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	return b, nil
}

// readBelow goes down one name at a time, so that no symbolic link that came
// meanwhile leads it astray.
func readBelow(root, path string, e *tree.Entry) ([]byte, error) {
	dir, err := vfs.OpenDir(root)
	if err != nil {
		return nil, err
	}
	defer func() { dir.Close() }()
	for {
		name, rest, ok := strings.Cut(path, "/")
		if !ok {
			break
		}
		next, err := dir.OpenDir(name)
		if err != nil {
			return nil, err
		}
		dir.Close()
		dir, path = next, rest
	}
	if e.Mode.IsSymlink() {
		target, err := dir.Readlink(path)
		return []byte(target), err
	}
	f, err := dir.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, e.Size+1)) // one more: a file that has grown shows
}
