package history

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// Rebuild adds to a plan the turns that the journal has lost and a session's log
// names: our own logs, those that other records of the store name, and logs, files of
// runtimes. What the state was is known from there if the store still has it, and
// what the turn changed; not what was left out, for which the nearest record's
// coverage stands. Restores, and looks between turns, are in no log.
func Rebuild(ctx context.Context, s *cas.Store, plan *cas.RepairPlan, logs []string) error {
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
			log, err := sessionlog.OpenFile(ctx, name)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil || name != snap.Log && log.Header().ID != snap.Session {
				continue
			}
			n := namedRecord{file: name, worktree: snap.Worktree, session: snap.Session}
			steps = append(steps, stepsIn(log.Tree(), n)...)
		}
	}
	slices.SortStableFunc(steps, func(a, b namedRecord) int { return cmp.Compare(a.seq, b.seq) })
	r := &rebuild{s: s, plan: plan, known: known}
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
		if d := ParseStep(e); d != nil && d.Seq != 0 {
			n.seq, n.step, n.entry, n.log = d.Seq, d, e, log
			list = append(list, n)
		}
	}
	return list
}

// A rebuild makes records anew, the oldest first.
type rebuild struct {
	s      *cas.Store
	plan   *cas.RepairPlan   // which has what was made
	known  []*store.Snapshot // that the journal has, newest first
	spares *cas.Spares
}

// step returns the record that a log names, nil if it is there, or its tree is not.
func (r *rebuild) step(ctx context.Context, n *namedRecord) (*store.Snapshot, error) {
	if _, err := r.s.Snapshot(ctx, n.seq); !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if ok, err := r.hasTree(ctx, n.step.Tree); !ok || err != nil {
		return nil, err
	}
	d := n.step
	// A turn before it may be lost, too: then a line begins here.
	rec := &Record{Snapshot: &store.Snapshot{Seq: n.seq, Tree: d.Tree, Time: n.entry.Timestamp,
		Worktree: n.worktree, Session: n.session,
		Kind: KindStart, Entry: n.entry.ID, Above: n.entry.ParentID}}
	rec.Facts.Told, rec.Facts.Next = true, d.Turn+1
	near := r.near(n)
	if near != nil {
		rec.Root, rec.Coverage = near.Root, near.Coverage
	}
	if strings.HasPrefix(n.file, layout.Worktrees+"/") {
		rec.Facts.Own = true
	} else {
		rec.Log = n.file
	}
	prev, err := r.prev(ctx, n)
	if err != nil {
		return nil, err
	}
	if prev != nil {
		rec.Kind, rec.Parent = KindStep, prev.Seq
		x := &rec.Facts
		x.Prev, x.Jump, x.Depth, x.Start, x.Begin = prev.Seq, prev.Seq, prev.Facts.Depth+1, prev.Start(), prev.Begin()
		x.Turn, x.RuntimeTurn, x.Interrupted, x.Partial = d.Turn, d.RuntimeTurn, d.Interrupted, d.Partial
		x.Counts, x.Unknown = d.Counts, d.Unknown
		there := false
		if !d.Base.IsZero() {
			if there, err = r.hasTree(ctx, d.Base); err != nil {
				return nil, err
			}
		}
		if there {
			rec.Base = store.State{Tree: d.Base, Coverage: rec.Coverage}
			rec.SetParts([]Stretch{{rec.Base, rec.State(), d.Contested}}, rec.State())
		} else {
			x.Unknown = "what was there before is lost"
		}
	}
	rec.Write()
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
// there or comes back; nil if not.
func (r *rebuild) prev(ctx context.Context, n *namedRecord) (*Record, error) {
	path, err := n.log.Path(n.entry.ParentID)
	if err != nil { // a log may have lost something, too
		return nil, nil
	}
	for _, e := range slices.Backward(path) {
		if e.Type != "custom" || e.CustomType != sessionlog.StepSnapshot {
			continue
		}
		d := ParseStep(e)
		if d == nil || d.Seq == 0 || d.Seq >= n.seq {
			return nil, nil
		}
		snap, err := r.plan.Record(d.Seq)
		if snap == nil && err == nil {
			snap, err = r.s.Snapshot(ctx, d.Seq)
		}
		if errors.Is(err, store.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		rec, err := Read(snap)
		if err != nil || rec.Worktree != n.worktree || rec.Session != n.session || !rec.IsStep() {
			return nil, nil
		}
		return rec, nil
	}
	return nil, nil
}

// hasTree reports whether the root of a tree is anywhere in the store.
func (r *rebuild) hasTree(ctx context.Context, id store.ID) (bool, error) {
	_, err := r.s.Get(ctx, object.Tree, id)
	if err == nil || !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrCorrupt) {
		return err == nil, err
	}
	if r.spares == nil {
		if r.spares, err = r.s.Spares(ctx); err != nil {
			return false, err
		}
	}
	_, err = r.spares.Find(ctx, io.Discard, object.Tree, id)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
