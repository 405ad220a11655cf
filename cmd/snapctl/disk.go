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
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// captureDisk finds out what is on the disk now, and what a capture leaves out of it, and
// stores nothing. The Getter knows the trees of the state and all that the store holds.
func (p *place) captureDisk(ctx context.Context, limits tree.Limits) (*manager.Point, trees.Getter, *leftOut, error) {
	if _, err := os.Stat(p.project.Root); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil, nil, p.app.noRoot(p.project.Root)
	}
	limits.NewBytes, limits.Files = -1, -1 // nothing is kept of it
	shown, stop := p.app.showProgress(ctx)
	r, g, err := inside.Of(p.m).Disk(shown, &capture.Options{Limits: limits})
	stop()
	if err != nil {
		return nil, nil, nil, err
	}
	left, err := readLeftOut(ctx, g, r.Coverage)
	return &manager.Point{State: store.State{Tree: r.Tree, Coverage: r.Coverage}}, g, left, err
}
