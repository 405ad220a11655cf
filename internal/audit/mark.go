package audit

import (
	"context"

	"github.com/boocode/filestore/internal/cas"
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
		return false, m.lost(p, m.live.AddBlob(p.id, int64(p.item.Size)))
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
