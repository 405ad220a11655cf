package manager

import (
	"context"
	"fmt"

	"github.com/boocode/filestore/internal/change"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
)

// Ended records what became of a restore that was cut off.
func (x *restore) Ended(ctx context.Context, to change.Direction, now store.State, plan *livedir.Plan) (err error) {
	intent := x.intent
	r := &record{Snapshot: &store.Snapshot{Kind: history.KindRestore, Base: intent.State(), Label: intent.Label}}
	r.Facts = intent.Facts
	d := &r.Facts
	d.Windows, d.Counts = nil, countsOf(plan)
	if to == change.Forward {
		left := make(map[string]bool)
		for _, it := range plan.Items {
			if change.IsLeft(it) {
				left[it.Path] = true
			}
		}
		d.Leave(left)
	} else {
		d.Prev, d.Undoes, d.Tops, d.Below = d.From, 0, history.TopsNone, 0
		d.Reverts, d.Marked = nil, nil
		d.Moves, d.OldLeaf, d.NewLeaf, d.Depth = nil, nil, nil, 0
		d.Stay()
		last, err := x.m.records.LastRestore(ctx, intent)
		if err != nil {
			return err
		}
		d.SetBack(last.Lists())
	}
	if d.Own {
		if r.Entry, err = unusedID(x.o.w.HasEntry); err != nil {
			return err
		}
	}
	if err := x.m.commitAt(ctx, x.o, r, now); err != nil {
		return err
	}
	x.o.moveTurn()
	return nil
}

// recover brings a restore to its end that was cut off, of whatever session;
// nil if there is none. An edit that was cut off it takes back.
func (m *FileSnapshotManager) recover(ctx context.Context, o *look, to change.Direction) (*livedir.Plan, error) {
	edit, err := readNewestEdit(o.w.Newest(m.editWorktree(), history.EditSession))
	if err == nil {
		err = m.recoverEdit(ctx, edit)
	}
	if err != nil { // the next edit refuses; a turn need not wait for it
		m.log.Warn("an edit is half done", "err", err)
	}
	if o.last == nil || o.last.Kind != history.KindIntent {
		return nil, nil
	}
	plan, err := m.endCutOff(ctx, o, func(c *change.Change) (*livedir.Plan, error) { return c.End(ctx, to) })
	if trees.IsLoss(err) {
		err = fmt.Errorf("%w: %w", history.ErrUnfinished, err)
	}
	if err != nil {
		return nil, fmt.Errorf("a restore of session %q was cut off, and cannot be finished: %w", o.last.Session, err)
	}
	done := "brought to its end"
	if to == change.Back {
		done = "taken back"
	}
	m.log.Warn("a restore that was cut off was "+done, "session", o.last.Session)
	return plan, nil
}

// endCutOff has end end the restore that was cut off, which is what was recorded last.
func (m *FileSnapshotManager) endCutOff(
	ctx context.Context, o *look, end func(*change.Change) (*livedir.Plan, error),
) (*livedir.Plan, error) {
	intent := o.last
	theirs := *o
	theirs.session, theirs.head = intent.Session, intent
	root, err := m.openRoot()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	c := m.newChange(root, o.w, &restore{m: m, o: &theirs, intent: intent})
	c.ID, c.Before, c.After, c.Moves = intent.Facts.ID, intent.State(), intent.Also[0], intent.Moves()
	plan, err := end(c)
	if err != nil {
		return nil, err
	}
	o.last = theirs.last
	if o.session == intent.Session {
		o.head = theirs.head
	}
	return plan, nil
}

// FinishRestore brings a restore to its end that was cut off in the directory,
// by a crash or an error: forward to what was wanted or, with abort, back to
// what was before. Whoever records a turn does the former by itself. The error
// matches [ErrNothing] if there is none.
func (m *FileSnapshotManager) FinishRestore(ctx context.Context, abort bool) (*RestoreResult, error) {
	return restoring(ctx, m, "finish a restore", func(ctx context.Context) (*RestoreResult, error) {
		x := &restore{m: m, result: newRestoreResult()}
		m.store.MakeRoom(false)
		defer m.store.KeepBallast()
		err := m.withLook(ctx, func(o *look) error {
			plan, err := m.recover(ctx, o, change.Direction(!abort))
			if err == nil && plan == nil {
				err = fmt.Errorf("%w: no restore was cut off", ErrNothing)
			}
			if err != nil {
				return err
			}
			x.fill(plan, nil, nil)
			x.result.Snapshot = o.last.Snapshot
			if tops := o.last.Facts.Tops; tops != history.TopsNone {
				x.result.TakenBackBy = tops
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		return x.result, nil
	})
}

// withLook calls fn with a look without a capture, under the lock on the worktree's
// turns.
func (m *FileSnapshotManager) withLook(ctx context.Context, fn func(*look) error) error {
	return m.withTurns(ctx, func(t *history.Turns) error {
		o, err := m.under(ctx, t)
		if err != nil {
			return err
		}
		defer o.close()
		return fn(o)
	})
}
