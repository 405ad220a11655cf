package main

import (
	"context"
	"errors"
	"strings"

	"github.com/boocode/filestore/manager"
)

// resolve finds what a REV stands for. The error of one that is unknown says which may be meant.
func (p *place) resolve(ctx context.Context, text string) (*manager.Point, error) {
	point, err := p.resolveAsIs(ctx, text)
	return point, p.hintNear(ctx, text, err)
}

// resolveAsIs is resolve for what may be no REV.
func (p *place) resolveAsIs(ctx context.Context, text string) (*manager.Point, error) {
	// Entries and trees are found whatever session they belong to.
	base, _, _ := strings.Cut(text, "~")
	if base == "start" || strings.HasPrefix(text, "@") || strings.HasPrefix(text, "turn:") ||
		p.app.flags.sessionFile != "" {
		if err := p.chooseSession(ctx); err != nil {
			return nil, err
		}
	}
	point, err := p.m.Resolve(ctx, text)
	if errors.Is(err, manager.ErrNoSession) && p.app.flags.session == "" && p.app.flags.sessionFile == "" {
		err = p.noSnapshots(ctx)
	}
	return point, err
}

// resolveSnapshot finds the snapshot that a REV stands for.
func (p *place) resolveSnapshot(ctx context.Context, text string) (*manager.Point, error) {
	point, err := p.resolve(ctx, text)
	if err == nil && point.Snapshot != nil {
		err = p.nameAnew(point)
	}
	if err == nil && point.Snapshot == nil {
		err = refuse("'snapctl ls' and 'snapctl diff' take it",
			"revision %q: only its tree is in this store, not the snapshot", text)
	}
	return point, err
}

// nameAnew sees to it that a snapshot has the label that it was given last.
func (p *place) nameAnew(point *manager.Point) error {
	labels, err := p.store.LastLabels()
	if label, ok := labels[point.Snapshot.Seq]; ok {
		s := *point.Snapshot
		s.Label, point.Snapshot = label, &s
	}
	return err
}
