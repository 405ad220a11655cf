package audit

import (
	"context"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
)

// A Marker tells a prune what trees need. What several trees share is read once.
// It is for one goroutine.
type Marker struct {
	s        *cas.Store
	problems []trees.Problem
}

// NewMarker returns a Marker for the trees of a store.
func NewMarker(s *cas.Store) *Marker { return &Marker{s: s} }

// MarkSnapshot adds all that a snapshot needs to live: see [cas.PruneOptions]. What is
// missing or damaged is no error, but listed in [Marker.Problems].
func (m *Marker) MarkSnapshot(ctx context.Context, live *cas.Live, snap *store.Snapshot) error {
	progress.Of(ctx).Count(1, 0)
	return walkSnapshot(ctx, m.s, snap, byPage, &marking{m, live})
}

// Problems lists what was missing or damaged, but for losses that were accepted, with
// the path at which a mark met it first. What a lost object leads to is not known.
func (m *Marker) Problems() []trees.Problem { return m.problems }

// A marking is one walk of a Marker.
type marking struct {
	*Marker
	live *cas.Live
}

func (m *marking) enter(_ context.Context, p *place) (goOn bool, err error) {
	m.live.At(p.dir, p.name)
	switch {
	case p.isNote(): // nothing else hangs on one that is lost
		m.live.Add(p.id)
		return false, nil
	case p.isBlob():
		return false, m.lost(p, m.live.AddBlob(p.id, p.size()))
	case p.id.IsZero(): // no tree
		return false, nil
	}
	return m.live.Add(p.id), nil
}

// lost makes a note of what is missing or damaged. Other errors it returns.
func (m *marking) lost(p *place, err error) error {
	if err == nil || !trees.IsLoss(err) {
		return err
	}
	if _, ok := m.s.AcceptedObject(p.root); !ok {
		m.problems = append(m.problems, trees.Problem{Path: p.path(), ID: p.root, Err: err})
	}
	return nil
}

func (m *marking) leave(*place) {}

// MarkNear adds of what a snapshot needs that which the next one is likely to need, too: what is in
// directories that differ, and what is not there any more. Of directories that are the same it adds the names
// alone, and does not look into them. So a mark of next meets what the first has not, and perhaps some more:
// content that is in another place of a directory that has not changed.
func (m *Marker) MarkNear(ctx context.Context, live *cas.Live, had, next *store.Snapshot) error {
	w := &marking{m, live}
	if had.Pruned {
		return nil
	}
	tree, coverage := trees.TreeReader(m.s), trees.CoverageReader(m.s)
	for _, state := range object.States(next) {
		if err := w.near(ctx, topOf(tree, had.Tree), topOf(tree, state.Tree)); err != nil {
			return err
		}
		if err := w.near(ctx, topOf(coverage, had.Coverage), topOf(coverage, state.Coverage)); err != nil {
			return err
		}
	}
	return nil
}

// near is [Marker.MarkNear] of a page and what has become of it.
func (m *marking) near(ctx context.Context, had, now *place) error {
	if had.id.IsZero() {
		return nil
	}
	m.live.Add(had.id)
	if had.id == now.id {
		return nil
	}
	old, err := m.below(ctx, had)
	if err != nil {
		return err
	}
	all, err := m.below(ctx, now)
	if err != nil {
		return err
	}
	type key struct {
		name   string
		level  int
		isBlob bool
	}
	is, became := make(map[store.ID]bool), make(map[key]*place)
	for i := range all {
		p := &all[i]
		is[p.id], became[key{p.item.Name, p.level, p.isBlob()}] = true, p
	}
	for i := range old {
		p := &old[i]
		switch to := became[key{p.item.Name, p.level, p.isBlob()}]; {
		case is[p.id]:
			m.live.Add(p.id)
		case to != nil && !p.isBlob():
			err = m.near(ctx, p, to)
		default: // the next may have it elsewhere, or parts of it
			err = p.visit(ctx, byPage, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// below returns the places to which a page leads; none if that is lost.
func (m *marking) below(ctx context.Context, p *place) (list []place, err error) {
	if p.id.IsZero() {
		return nil, nil
	}
	for next, err := range p.pages(ctx) {
		if err != nil {
			return nil, m.lost(p, err)
		}
		list = append(list, *next)
	}
	return list, nil
}
