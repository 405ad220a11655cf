package tree

import (
	"context"
	"errors"

	"github.com/boocode/filestore/store"
)

// A Marker tells a prune what trees need. What several trees share is read once.
// It is for one goroutine.
type Marker struct {
	s        *store.Store
	trees    pageReader
	cover    pageReader
	problems []Problem
}

// NewMarker returns a Marker for the trees of a store.
func NewMarker(s *store.Store) *Marker {
	return &Marker{s: s, trees: trees(s), cover: pageReader{s, store.Coverage, validOmission, nil}}
}

// Mark adds all that a state needs to live. What is missing or damaged is no
// error, but listed in [Marker.Problems].
func (m *Marker) Mark(ctx context.Context, live *store.Live, state store.State) error {
	if !state.Tree.IsZero() {
		if err := m.page(ctx, live, m.trees, state.Tree, state.Tree, nil, 0, ""); err != nil {
			return err
		}
	}
	if state.Coverage.IsZero() {
		return nil
	}
	return m.page(ctx, live, m.cover, state.Coverage, state.Coverage, nil, 0, "")
}

// MarkSnapshot adds all that a snapshot needs to live: see
// [store.PruneOptions].
func (m *Marker) MarkSnapshot(ctx context.Context, live *store.Live, snap *store.Snapshot) error {
	for _, state := range snap.States() {
		if err := m.Mark(ctx, live, state); err != nil {
			return err
		}
	}
	return nil
}

// Problems lists what was missing or damaged, with the path where it was met
// first, but for losses that were accepted. What that needs is not known.
func (m *Marker) Problems() []Problem { return m.problems }

// page marks a page of a directory and all below it. above is as in [pageReader.page].
func (m *Marker) page(ctx context.Context, live *store.Live, r pageReader, dir, id store.ID, above *item, level int, path string) error {
	if !live.Add(id) {
		return nil
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	level, items, err := r.page(ctx, id, above, level)
	if err != nil {
		return m.lost(path, dir, err)
	}
	for i := range items {
		it := &items[i]
		switch {
		case level > 0:
			err = m.page(ctx, live, r, dir, it.id, it, level, path)
		case r.kind == store.Coverage && it.id.IsZero(): // nothing is said of what is in it
		case r.kind == store.Coverage || Mode(it.attr).IsDir():
			err = m.page(ctx, live, r, it.id, it.id, nil, 0, join(path, it.name))
		default:
			if err = live.AddBlob(it.id, int64(it.size)); err != nil {
				err = m.lost(join(path, it.name), it.id, err)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lost makes a note of what is missing or damaged. Other errors it returns.
func (m *Marker) lost(path string, id store.ID, err error) error {
	if !IsLoss(err) {
		return err
	}
	if _, ok := m.s.AcceptedObject(id); !ok {
		m.problems = append(m.problems, Problem{Path: path, ID: id, Err: err})
	}
	return nil
}

// IsWhole reports whether all that a state needs is there for a writer to count
// on. A tree that no snapshot names may have lost what is in it to a prune.
func IsWhole(ctx context.Context, s *store.Store, w *store.Writer, state store.State) (bool, error) {
	seen := make(map[store.ID]bool)
	has := func(id store.ID) (bool, error) {
		if seen[id] {
			return true, nil
		}
		seen[id] = true
		return w.Has(id)
	}
	whole, err := isWhole(ctx, trees(s), has, state.Tree, nil, 0)
	if whole && err == nil && !state.Coverage.IsZero() {
		whole, err = isWhole(ctx, pageReader{s, store.Coverage, validOmission, nil}, has, state.Coverage, nil, 0)
	}
	return whole, err
}

// isWhole is IsWhole for a page and all below it; above is as in [pageReader.page].
func isWhole(ctx context.Context, r pageReader, has func(store.ID) (bool, error), id store.ID, above *item, level int) (bool, error) {
	if ok, err := has(id); !ok || err != nil {
		return false, err
	}
	level, items, err := r.page(ctx, id, above, level)
	if err != nil {
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) || errors.Is(err, errPage) {
			err = nil
		}
		return false, err
	}
	for i := range items {
		it := &items[i]
		whole := true
		switch {
		case level > 0:
			whole, err = isWhole(ctx, r, has, it.id, it, level)
		case r.kind == store.Coverage && it.id.IsZero(): // nothing is said of what is in it
		case r.kind == store.Coverage || Mode(it.attr).IsDir():
			whole, err = isWhole(ctx, r, has, it.id, nil, 0)
		default:
			whole, err = has(it.id)
		}
		if !whole || err != nil {
			return false, err
		}
	}
	return true, nil
}
