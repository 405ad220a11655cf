package main

import (
	"context"
	"errors"
	"strings"

	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
)

// A rev is what a REV argument stands for.
type rev struct {
	*manager.Point
	disk bool // what is on the disk now; its State is set once it was captured
}

// resolve finds what a REV stands for.
func (p *place) resolve(ctx context.Context, text string) (rev, error) {
	// Entries and trees are found whatever session they belong to.
	if text == "start" || strings.HasPrefix(text, "@") || strings.HasPrefix(text, "turn:") ||
		p.app.flags.sessionFile != "" {
		if err := p.chooseSession(ctx); err != nil {
			return rev{}, err
		}
	}
	point, err := p.m.Resolve(ctx, text)
	if errors.Is(err, manager.ErrNoSession) && p.app.flags.session == "" && p.app.flags.sessionFile == "" {
		err = p.app.noSnapshots(p.project)
	}
	return rev{Point: point}, err
}

// resolveSnapshot finds the snapshot that a REV stands for.
func (p *place) resolveSnapshot(ctx context.Context, text string) (*manager.Point, error) {
	r, err := p.resolve(ctx, text)
	if err == nil && r.Snapshot == nil {
		err = refuse("'snapctl ls' and 'snapctl diff' take it",
			"revision %q: only its tree is in this store, not the snapshot", text)
	}
	return r.Point, err
}

// state returns the state of a rev.
func (r *rev) state() store.State { return r.State }
