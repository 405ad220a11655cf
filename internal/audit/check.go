package audit

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
)

// A Checker verifies that trees are complete. It looks once at what several of them
// share.
type Checker struct {
	s        *cas.Store
	done     map[store.ID]bool
	problems []trees.Problem // of the snapshot that is being checked
}

// NewChecker returns a Checker for the trees of a store.
func NewChecker(s *cas.Store) *Checker {
	return &Checker{s: s, done: make(map[store.ID]bool)}
}

// Snapshot reads all directories that a snapshot keeps and makes sure that every
// blob is there or was forgotten; contents are the business of [cas.Store.Check].
// Losses that were accepted are listed, too. An error means that the check could
// not be done.
func (c *Checker) Snapshot(ctx context.Context, snap *store.Snapshot) ([]trees.Problem, error) {
	c.problems = nil
	if err := walkSnapshot(ctx, c.s, snap, byDirectory, c); err != nil {
		return nil, err
	}
	return c.problems, nil
}

func (c *Checker) enter(ctx context.Context, p *place) (goOn bool, err error) {
	if p.isBlob() {
		return false, c.lost(p, c.blob(ctx, p.id))
	}
	again := c.done[p.id]
	c.done[p.id] = true
	return !again, nil
}

func (c *Checker) lost(p *place, err error) error {
	if !trees.IsLoss(err) {
		return err
	}
	at, _ := c.s.AcceptedObject(p.id)
	err = p.said(err)
	c.problems = append(c.problems, trees.Problem{Path: p.path(), ID: p.id, Err: err, At: at})
	return nil
}

func (c *Checker) leave(*place) {}

// blob makes sure that a blob is there.
func (c *Checker) blob(ctx context.Context, id store.ID) error {
	if c.done[id] {
		return nil
	}
	ok, err := c.s.HasOrPromised(id)
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

// IsWhole reports whether all that a state needs is there for a writer to count
// on. A tree that no snapshot names may have lost what is in it to a prune.
func IsWhole(ctx context.Context, s *cas.Store, w *cas.Writer, state store.State) (bool, error) {
	err := walk(ctx, s, state, byPage, &wholeness{w, make(map[store.ID]bool)})
	if err == errNotWhole {
		return false, nil
	}
	return err == nil, err
}

// errNotWhole ends a walk that has found something missing.
var errNotWhole = errors.New("something is missing")

type wholeness struct {
	w    *cas.Writer
	seen map[store.ID]bool
}

func (v *wholeness) enter(_ context.Context, p *place) (goOn bool, err error) {
	if v.seen[p.id] {
		return false, nil
	}
	v.seen[p.id] = true
	ok, err := v.w.HasOrPromised(p.id)
	if err == nil && !ok {
		err = errNotWhole
	}
	return !p.isBlob(), err
}

func (v *wholeness) lost(_ *place, err error) error {
	if trees.IsLoss(err) {
		return errNotWhole
	}
	return err
}

func (v *wholeness) leave(*place) {}
