package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// finish ends a restore that was cut off: forward, or back to what was before.
// What has been changed meanwhile by somebody else stays.
func (m *FileSnapshotManager) finish(ctx context.Context, o *look, intent *record, forward bool) (*rollback.Plan, error) {
	root, err := m.openRoot()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	before, after := intent.State(), intent.Also[0]
	wants, err := m.unfinished(ctx, root, intent)
	if err != nil {
		return nil, err
	}
	if err := rollback.Sweep(ctx, root, wants, intent.data.ID); err != nil {
		m.log.Warn("something of a restore that was cut off is left", "err", err)
	}
	if !forward {
		if wants, err = m.backward(ctx, root, intent, wants); err != nil {
			return nil, err
		}
	}
	var plan *rollback.Plan
	for {
		plan, err = rollback.NewPlan(ctx, root, wants, rollback.Skip)
		if err == nil {
			err = plan.Save(ctx, root, o.w)
		}
		if err == nil {
			err = plan.Apply(ctx, root, m.store, intent.data.ID)
		}
		if !errors.Is(err, rollback.ErrMove) || root.NoMoves {
			break
		}
		root.NoMoves = true // and once more
	}
	if err != nil {
		return nil, err
	}
	// Whatever somebody did meanwhile is found by the next look.
	var edits []tree.Edit
	for _, it := range plan.Items {
		e := it.New
		if it.Do != rollback.Restore && it.Do != rollback.Delete && it.Do != rollback.Nothing {
			e = it.Now
		}
		edits = append(edits, tree.Edit{Path: it.Path, New: e})
	}
	base := before.Tree
	if forward {
		base = after.Tree
	}
	id, err := tree.Patch(ctx, m.store, o.w, base, edits)
	if err != nil {
		return nil, err
	}
	r := &record{Snapshot: &store.Snapshot{Kind: kindRestore, Base: before, Label: intent.Label}, data: intent.data}
	r.data.Windows, r.data.Counts = nil, countsOf(plan)
	if !forward {
		last, err := m.lastRestore(ctx, intent)
		if err != nil {
			return nil, err
		}
		r.data.Prev, r.data.Undoes, r.data.Tops, r.data.Below, r.data.Undo, r.data.Redo = r.data.From, 0, topsNone, 0, 0, 0
		if last != nil {
			r.data.Undo, r.data.Redo = last.undo(), last.redo()
		}
	}
	if r.data.Own {
		if r.Entry, err = m.newEntryID(ctx); err != nil {
			return nil, err
		}
	}
	return plan, m.commitAt(ctx, o, r, store.State{Tree: id, Coverage: before.Coverage})
}

// unfinished returns what a restore that was cut off wanted, as the disk is
// now: directories may have been moved already.
func (m *FileSnapshotManager) unfinished(ctx context.Context, root *rollback.Root, intent *record) ([]rollback.Want, error) {
	before, after := intent.State(), intent.Also[0]
	moves, err := m.movedAlready(ctx, root, intent)
	if err != nil {
		return nil, err
	}
	var wants []rollback.Want
	there := make(map[string]bool)
	was := make(map[string]*tree.Entry) // what a move has put at a path
	for c, err := range tree.Diff(ctx, m.store, before.Tree, after.Tree) {
		if err != nil {
			return nil, err
		}
		w := wantOf(&c)
		for _, mv := range moves {
			if rest, ok := below(c.Path, mv.From); ok {
				was[mv.To+rest], w.Old = c.Old, nil
			}
		}
		wants, there[c.Path] = append(wants, w), true
	}
	for i := range wants {
		if old, ok := was[wants[i].Path]; ok {
			wants[i].Old = old
		}
	}
	for path, old := range was {
		if !there[path] {
			wants = append(wants, rollback.Want{Path: path, Old: old, Created: true})
		}
	}
	return wants, nil
}

// movedAlready returns the moves of a restore that were done before it was cut
// off.
func (m *FileSnapshotManager) movedAlready(ctx context.Context, root *rollback.Root, intent *record) (moves []rollback.Move, err error) {
	for _, mv := range intent.data.Moves {
		from, err := root.Entry(ctx, string(mv[0]), tree.NewOverlay(nil))
		if err != nil {
			return nil, err
		}
		to, err := root.Entry(ctx, string(mv[1]), tree.NewOverlay(nil))
		if err != nil {
			return nil, err
		}
		if from == nil && to != nil {
			moves = append(moves, rollback.Move{From: string(mv[0]), To: string(mv[1])})
		}
	}
	return moves, nil
}

// backward moves directories back, and returns what leads back from where a
// restore was cut off.
func (m *FileSnapshotManager) backward(ctx context.Context, root *rollback.Root, intent *record, forward []rollback.Want) ([]rollback.Want, error) {
	moves, err := m.movedAlready(ctx, root, intent)
	if err != nil {
		return nil, err
	}
	for _, mv := range slices.Backward(moves) {
		if err := root.Move(mv.To, mv.From); err != nil {
			return nil, err
		}
	}
	wanted := make(map[string]*tree.Entry) // what may be at a path by now
	for _, w := range forward {
		for _, mv := range moves {
			if rest, ok := below(w.Path, mv.To); ok {
				wanted[mv.From+rest] = w.New
			}
		}
	}
	var wants []rollback.Want
	for c, err := range tree.Diff(ctx, m.store, intent.Tree, intent.Also[0].Tree) {
		if err != nil {
			return nil, err
		}
		back := wantOf(&tree.Change{Path: c.Path, Old: c.New, New: c.Old})
		if new, ok := wanted[c.Path]; ok {
			back.Old = new
		}
		for _, mv := range moves {
			if _, ok := below(c.Path, mv.To); ok {
				back.Old = nil
			}
		}
		wants = append(wants, back)
	}
	return wants, nil
}

// below reports whether a path is a directory or in it, and returns the rest of
// the path with its slash.
func below(path, dir string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, dir)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// recover brings a restore to its end that was cut off, of whatever session;
// nil if there is none.
func (m *FileSnapshotManager) recover(ctx context.Context, o *look, forward bool) (*rollback.Plan, error) {
	if o.last == nil || o.last.Kind != kindIntent {
		return nil, nil
	}
	intent := o.last
	theirs := *o
	theirs.session, theirs.head = intent.Session, intent
	plan, err := m.finish(ctx, &theirs, intent, forward)
	if err != nil {
		return nil, fmt.Errorf("a restore of session %q was cut off, and cannot be finished: %w", intent.Session, err)
	}
	m.log.Warn("a restore that was cut off was finished", "session", intent.Session, "forward", forward)
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
	m.mu.Lock()
	defer m.mu.Unlock()
	x := &restore{m: m, result: newRestoreResult()}
	err := m.withTurns(ctx, func(t *turns) error {
		o, err := m.under(ctx, t)
		if err != nil {
			return err
		}
		defer o.close(m)
		plan, err := m.recover(ctx, o, !abort)
		if err != nil {
			return err
		}
		if plan == nil {
			return fmt.Errorf("%w: no restore was cut off", ErrNothing)
		}
		x.fill(plan)
		x.result.Snapshot = o.last.Snapshot
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("finish a restore: %w", err)
	}
	return x.result, nil
}

// wantOf returns what brings about a change. A directory that comes with
// something in it is there only for that.
func wantOf(c *tree.Change) rollback.Want {
	parent := c.Old == nil && c.New.Mode.IsDir() && c.New.ID != tree.Empty
	return rollback.Want{Path: c.Path, Old: c.Old, New: c.New, Created: true, Parent: parent}
}
