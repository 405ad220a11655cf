package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/boocode/filestore/store"
)

// A Checker verifies that trees are complete. What several trees share is
// looked at once.
type Checker struct {
	s    *store.Store
	done map[store.ID]bool
}

// NewChecker returns a Checker for the trees of a store.
func NewChecker(s *store.Store) *Checker {
	return &Checker{s: s, done: make(map[store.ID]bool)}
}

// A Problem is a path of a snapshot that cannot be restored as it was.
type Problem struct {
	Path string
	ID   store.ID  // of the content or directory that is lost; zero: it is another problem
	Err  error     // matches store.ErrNotFound or store.ErrCorrupt
	At   time.Time // when the loss was accepted; zero: it was not
}

// Snapshot reads all directories that a snapshot keeps and makes sure that every
// blob is there or was forgotten; contents are the business of [store.Store.Check]. Losses
// that were accepted are listed, too. An error means that the check could not be done.
func (c *Checker) Snapshot(ctx context.Context, snap *store.Snapshot) (problems []Problem, err error) {
	report := func(p *place, err error) error {
		if IsLoss(err) {
			at, _ := c.s.AcceptedObject(p.id)
			problems = append(problems, Problem{p.path(), p.id, err, at})
			return nil
		}
		return err
	}
	for _, state := range snap.States() {
		for _, top := range reach(c.s, state) {
			if err := c.visit(ctx, &top, report); err != nil {
				return nil, err
			}
		}
	}
	return problems, nil
}

func (c *Checker) visit(ctx context.Context, p *place, report func(*place, error) error) error {
	if p.isBlob() {
		return report(p, c.blob(ctx, p.id))
	}
	if c.done[p.id] {
		return nil
	}
	c.done[p.id] = true
	for next, err := range p.entries(ctx) {
		if err != nil {
			return report(p, err)
		}
		if err := c.visit(ctx, next, report); err != nil {
			return err
		}
	}
	return nil
}

func (c *Checker) blob(ctx context.Context, id store.ID) error {
	if c.done[id] {
		return nil
	}
	ok, err := c.s.Has(id)
	if err == nil && !ok { // unless somebody has stored it since we looked
		_, err = c.s.CopyBlob(ctx, io.Discard, id)
	}
	if errors.Is(err, store.ErrForgotten) {
		err = nil
	}
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("blob %s: %w", id.Short(), store.ErrNotFound)
	}
	c.done[id] = err == nil
	return err
}
