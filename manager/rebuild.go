package manager

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// Rebuild adds to a plan the turns that the journal has lost and a session's log
// names: our own logs, those that other records of the store name, and logs, files of
// runtimes. What the state was is known from there if the store still has it, and
// what the turn changed; not what was left out, for which the nearest record's
// coverage stands. Restores, and looks between turns, are in no log.
func Rebuild(ctx context.Context, s *store.Store, plan *store.RepairPlan, logs []string) error {
	steps, err := namedRecords(ctx, s.FS())
	if err != nil {
		return err
	}
	steps = slices.DeleteFunc(steps, func(n namedRecord) bool { return n.step == nil })
	var known []*store.Snapshot
	seen := make(map[string]bool)
	for snap, err := range s.Snapshots(ctx) {
		if err != nil {
			return err
		}
		known = append(known, snap)
		// A log that is not named is that of the session with its ID.
		for _, name := range append(slices.Clone(logs), snap.Log) {
			if name == "" || seen[name+"\x00"+snap.Worktree+snap.Session] {
				continue
			}
			seen[name+"\x00"+snap.Worktree+snap.Session] = true
			log, err := session.OpenFile(ctx, name)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil || name != snap.Log && log.Tree().Header().ID != snap.Session {
				continue
			}
			steps = append(steps, stepsIn(log.Tree(), namedRecord{file: name, worktree: snap.Worktree, session: snap.Session})...)
		}
	}
	slices.SortStableFunc(steps, func(a, b namedRecord) int { return cmp.Compare(a.seq, b.seq) })
	r := &rebuild{s: s, made: make(map[uint64]*record), known: known}
	for _, n := range steps {
		if plan.HasRecord(n.seq) {
			continue
		}
		snap, err := r.step(ctx, &n)
		if err != nil {
			return err
		}
		if snap != nil {
			plan.AddRecord(n.file, snap)
		}
	}
	return nil
}

// stepsIn returns the turns that a log names, as n has it.
func stepsIn(log *session.Tree, n namedRecord) (list []namedRecord) {
	for e := range log.Entries() {
		if e.Type != "custom" || e.CustomType != session.StepSnapshot {
			continue
		}
		if d := parseStep(e); d != nil && d.SnapshotSeq != 0 {
			n.seq, n.step, n.entry, n.log = d.SnapshotSeq, d, e, log
			list = append(list, n)
		}
	}
	return list
}

// A rebuild makes records anew, the oldest first.
type rebuild struct {
	s      *store.Store
	known  []*store.Snapshot // that the journal has, newest first
	made   map[uint64]*record
	spares *store.Spares
}

// step returns the record that a log names, nil if it is there, or its tree is not.
func (r *rebuild) step(ctx context.Context, n *namedRecord) (*store.Snapshot, error) {
	if _, err := r.s.Snapshot(ctx, n.seq); !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if ok, err := r.hasTree(ctx, n.step.SnapshotTreeHash); !ok || err != nil {
		return nil, err
	}
	d := n.step
	// A turn before it may be lost, too: then a line begins here.
	rec := &record{Snapshot: &store.Snapshot{Seq: n.seq, Tree: d.SnapshotTreeHash, Time: n.entry.Timestamp, Worktree: n.worktree, Session: n.session,
		Kind: kindStart, Entry: n.entry.ID, Above: n.entry.ParentID}}
	rec.data = recordData{Told: true, Next: d.TurnIndex + 1}
	near := r.near(n)
	if near != nil {
		rec.Root, rec.Coverage = near.Root, near.Coverage
	}
	if strings.HasPrefix(n.file, "worktrees/") {
		rec.data.Own = true
	} else {
		rec.Log = n.file
	}
	prev, err := r.prev(ctx, n)
	if err != nil {
		return nil, err
	}
	if prev != nil {
		rec.Kind, rec.Parent = kindStep, prev.Seq
		x := &rec.data
		x.Prev, x.Jump, x.Depth, x.Start, x.Begin = prev.Seq, prev.Seq, prev.data.Depth+1, prev.start(), prev.begin()
		x.Turn, x.RuntimeTurn, x.Interrupted, x.Partial = d.TurnIndex, d.RuntimeTurnIndex, d.Interrupted, d.Partial
		if d.Diff != nil {
			x.Counts, x.Unknown = d.Diff.counts(), d.Diff.Unknown
		}
		there := false
		if d.BaselineTreeHash != nil {
			if there, err = r.hasTree(ctx, *d.BaselineTreeHash); err != nil {
				return nil, err
			}
		}
		if there {
			rec.Base = store.State{Tree: *d.BaselineTreeHash, Coverage: rec.Coverage}
			rec.setParts([]stretch{{rec.Base, rec.State(), d.Contested != nil}}, rec.State())
		} else {
			x.Unknown = "what was there before is lost"
		}
	}
	rec.write()
	r.made[n.seq] = rec
	return rec.Snapshot, nil
}

// near returns the record of the worktree that is nearest to one that is lost.
func (r *rebuild) near(n *namedRecord) (near *store.Snapshot) {
	for _, snap := range r.known {
		if snap.Worktree != n.worktree || snap.Pruned {
			continue
		}
		if near = snap; snap.Seq < n.seq {
			break
		}
	}
	return near
}

// prev returns the turn, or the start, before a turn in its log, if its record is
// there or was made; nil if not.
func (r *rebuild) prev(ctx context.Context, n *namedRecord) (*record, error) {
	path, err := n.log.Path(n.entry.ParentID)
	if err != nil { // a log may have lost something, too
		return nil, nil
	}
	for _, e := range slices.Backward(path) {
		if e.Type != "custom" || e.CustomType != session.StepSnapshot {
			continue
		}
		d := parseStep(e)
		if d == nil || d.SnapshotSeq == 0 || d.SnapshotSeq >= n.seq {
			return nil, nil
		}
		if rec := r.made[d.SnapshotSeq]; rec != nil {
			return rec, nil
		}
		snap, err := r.s.Snapshot(ctx, d.SnapshotSeq)
		if errors.Is(err, store.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		rec, err := readRecord(snap)
		if err != nil || rec.Worktree != n.worktree || rec.Session != n.session || !rec.isStep() {
			return nil, nil
		}
		return rec, nil
	}
	return nil, nil
}

// hasTree reports whether the root of a tree is anywhere in the store.
func (r *rebuild) hasTree(ctx context.Context, id store.ID) (bool, error) {
	_, err := r.s.Get(ctx, store.Tree, id)
	if err == nil || !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrCorrupt) {
		return err == nil, err
	}
	if r.spares == nil {
		if r.spares, err = r.s.Spares(ctx); err != nil {
			return false, err
		}
	}
	_, err = r.spares.Find(ctx, io.Discard, store.Tree, id)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
