package audit

import (
	"context"
	"iter"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
)

// A Hurt is a snapshot that cannot be restored as it was.
type Hurt struct {
	Snapshot *store.Snapshot
	Problems []trees.Problem // in its tree, and in the other states that it keeps: of each path one
	Lost     []store.ID      // all contents and directories that it lacks
}

// Hurt yields the snapshots that will not be whole, newest first, with all
// their paths that are hurt: also those that they share. A loss that was accepted is
// none. Each pair is a Hurt and nil, or a zero Hurt and the error that ends the
// sequence.
func (m *Mender) Hurt(ctx context.Context) iter.Seq2[Hurt, error] {
	return hurt(ctx, m.s, m, func(ctx context.Context, p *place) error {
		if ok, err := m.has(ctx, p.id); ok || err != nil {
			return err
		}
		if was, err := m.s.Forgotten(p.id); was || err != nil && !trees.IsLoss(err) {
			return err
		}
		return store.ErrNotFound
	})
}

// Hurts is [Mender.Hurt] of a store as it is, in which objects are as they
// should be or are not there: after a repair.
func Hurts(ctx context.Context, s *cas.Store) iter.Seq2[Hurt, error] {
	return hurt(ctx, s, s, NewChecker(s).blob)
}

// hurt yields the snapshots that lack something, where g reads the trees and blob
// says what is wrong with a blob.
func hurt(
	ctx context.Context, s *cas.Store, g trees.Getter, blob func(context.Context, *place) error,
) iter.Seq2[Hurt, error] {
	bad := func(p *place, err error) ([]trees.Problem, error) {
		if !trees.IsLoss(err) {
			return nil, err
		}
		if _, ok := s.AcceptedObject(p.id); ok {
			return nil, nil
		}
		return []trees.Problem{{ID: p.id, Err: p.said(err)}}, nil
	}
	problems := &lister[trees.Problem]{bad: bad, known: make(map[store.ID][]trees.Problem),
		blob: func(ctx context.Context, p *place) ([]trees.Problem, error) {
			return bad(p, blob(ctx, p))
		},
		in: func(dir string, p trees.Problem) trees.Problem {
			return trees.Problem{Path: below(dir, p.Path), ID: p.ID, Err: p.Err}
		},
	}
	return func(yield func(Hurt, error) bool) {
		done := progress.Of(ctx)
		done.Begin(progress.Phase{Name: "checking", Unit: "snapshot"})
		for snap, err := range s.Snapshots(ctx) {
			done.Count(1, 0)
			var one Hurt
			if err == nil {
				one, err = hurtOf(ctx, g, snap, problems)
			}
			if err != nil {
				yield(Hurt{}, err)
				return
			}
			if len(one.Problems) > 0 && !yield(one, nil) {
				return
			}
		}
	}
}

func hurtOf(ctx context.Context, g trees.Getter, snap *store.Snapshot, problems *lister[trees.Problem]) (Hurt, error) {
	out := Hurt{Snapshot: snap}
	seen, lost := make(map[string]bool), make(map[store.ID]bool)
	list, err := problems.list(func(v visitor) error { return walkSnapshot(ctx, g, snap, byDirectory, v) })
	for _, p := range list {
		if !lost[p.ID] {
			lost[p.ID] = true
			out.Lost = append(out.Lost, p.ID)
		}
		if !seen[p.Path] {
			seen[p.Path] = true
			out.Problems = append(out.Problems, p)
		}
	}
	return out, err
}
