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
	s     *store.Store
	done  map[store.ID]bool
	trees pageReader
	cover pageReader
}

// NewChecker returns a Checker for the trees of a store.
func NewChecker(s *store.Store) *Checker {
	return &Checker{s: s, done: make(map[store.ID]bool),
		trees: trees(s), cover: pageReader{s, store.Coverage, validOmission, nil}}
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
	report := func(path string, id store.ID, err error) error {
		if IsLoss(err) {
			at, _ := c.s.AcceptedObject(id)
			problems = append(problems, Problem{path, id, err, at})
			return nil
		}
		return err
	}
	for _, state := range snap.States() {
		err = c.dir(ctx, "", state.Tree, report)
		if err == nil && !state.Coverage.IsZero() {
			err = c.coverage(ctx, "", state.Coverage, report)
		}
		if err != nil {
			return nil, err
		}
	}
	return problems, nil
}

func (c *Checker) dir(ctx context.Context, path string, id store.ID, report func(string, store.ID, error) error) error {
	if c.done[id] {
		return nil
	}
	c.done[id] = true
	for it, err := range c.trees.items(ctx, id) {
		if err != nil {
			return report(path, id, err)
		}
		e := itemEntry(&it)
		if e.Mode.IsDir() {
			err = c.dir(ctx, join(path, e.Name), e.ID, report)
		} else {
			err = c.blob(ctx, e.ID)
		}
		if err != nil {
			if err := report(join(path, e.Name), e.ID, err); err != nil {
				return err
			}
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

func (c *Checker) coverage(ctx context.Context, path string, id store.ID, report func(string, store.ID, error) error) error {
	if c.done[id] {
		return nil
	}
	c.done[id] = true
	for it, err := range c.cover.items(ctx, id) {
		if err != nil {
			return report(path, id, err)
		}
		if !it.id.IsZero() {
			if err := c.coverage(ctx, join(path, it.name), it.id, report); err != nil {
				return err
			}
		}
	}
	return nil
}
