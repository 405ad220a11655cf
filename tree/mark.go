package tree

import (
	"context"

	"github.com/boocode/filestore/store"
)

// A Marker tells a prune what trees need. What several trees share is read once.
// It is for one goroutine.
type Marker struct {
	s        *store.Store
	problems []Problem
}

// NewMarker returns a Marker for the trees of a store.
func NewMarker(s *store.Store) *Marker { return &Marker{s: s} }

// Mark adds all that a state needs to live. What is missing or damaged is no
// error, but listed in [Marker.Problems].
func (m *Marker) Mark(ctx context.Context, live *store.Live, state store.State) error {
	for _, top := range reach(m.s, state) {
		if top.id.IsZero() {
			continue
		}
		if err := m.visit(ctx, live, &top); err != nil {
			return err
		}
	}
	return nil
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

// visit marks what a place is and all that it leads to.
func (m *Marker) visit(ctx context.Context, live *store.Live, p *place) error {
	if p.isBlob() {
		return m.lost(p, p.id, live.AddBlob(p.id, int64(p.item.size)))
	}
	if !live.Add(p.id) {
		return nil
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for next, err := range p.pages(ctx) {
		if err != nil {
			return m.lost(p, p.root, err)
		}
		if err := m.visit(ctx, live, next); err != nil {
			return err
		}
	}
	return nil
}

// lost makes a note of what is missing or damaged. Other errors it returns.
func (m *Marker) lost(p *place, id store.ID, err error) error {
	if !IsLoss(err) {
		return err
	}
	if _, ok := m.s.AcceptedObject(id); !ok {
		m.problems = append(m.problems, Problem{Path: p.path(), ID: id, Err: err})
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
	for _, top := range reach(s, state) {
		if whole, err := isWhole(ctx, has, &top); !whole || err != nil {
			return false, err
		}
	}
	return true, nil
}

// isWhole is IsWhole for a place and all that it leads to.
func isWhole(ctx context.Context, has func(store.ID) (bool, error), p *place) (bool, error) {
	if ok, err := has(p.id); !ok || err != nil || p.isBlob() {
		return ok && err == nil, err
	}
	for next, err := range p.pages(ctx) {
		if IsLoss(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if whole, err := isWhole(ctx, has, next); !whole || err != nil {
			return false, err
		}
	}
	return true, nil
}
