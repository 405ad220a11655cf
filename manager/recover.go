package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/boocode/filestore/internal/vfs"
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
	wants, err := m.wantsBetween(ctx, before.Tree, after.Tree)
	if err != nil {
		return nil, err
	}
	if err := rollback.Sweep(ctx, root, wants, intent.data.ID); errors.Is(err, rollback.ErrAside) {
		m.log.Warn("something of a restore that was cut off is left", "err", err)
	} else if err != nil {
		return nil, err
	}
	from, to, moves := before, after, intent.moves()
	if !forward {
		from, to, moves = after, before, intent.movesBack()
	}
	if wants, err = m.wantsBetween(ctx, from.Tree, to.Tree); err == nil {
		err = acceptHalfMade(ctx, root, wants)
	}
	if err != nil {
		return nil, err
	}
	plan, err := rollback.NewPlan(ctx, root, wants, &rollback.Options{Moves: moves})
	if err == nil {
		err = plan.Save(ctx, root, o.w)
	}
	if err == nil {
		err = plan.Apply(ctx, root, m.store, intent.data.ID)
	}
	if err != nil {
		return nil, err
	}
	// What was not done is as it was. Whatever somebody did meanwhile is found
	// by the next look.
	var edits []tree.Edit
	left := make(map[string]bool)
	for _, it := range plan.Items {
		e := it.New
		if isLeft(it) {
			left[it.Path] = true
			was, err := tree.Lookup(ctx, m.tree.pages, from.Tree, it.Path)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			if e = &was; err != nil {
				e = nil
			}
		}
		edits = append(edits, tree.Edit{Path: it.Path, New: e})
	}
	id, err := tree.Patch(ctx, m.tree.pages, o.w, to.Tree, editMade(edits, plan, true))
	if err != nil {
		return nil, err
	}
	r := &record{Snapshot: &store.Snapshot{Kind: kindRestore, Base: before, Label: intent.Label}, data: intent.data}
	d := &r.data
	d.Windows, d.Counts = nil, countsOf(plan)
	if !forward {
		last, err := m.lastRestore(ctx, intent)
		if err != nil {
			return nil, err
		}
		d.Prev, d.Undoes, d.Tops, d.Below = d.From, 0, topsNone, 0
		d.setBack(backList{}, backList{})
		d.Moves, d.OldLeaf, d.NewLeaf, d.Depth = nil, nil, nil, 0
		d.stay()
		if last != nil {
			d.setBack(last.undo(), last.redo())
		}
	} else {
		d.leave(left)
	}
	if d.Own {
		if r.Entry, err = unusedID(o.w.HasEntry); err != nil {
			return nil, err
		}
	}
	return plan, m.commitAt(ctx, o, r, store.State{Tree: id, Coverage: before.Coverage})
}

// leave notes that paths which a restore was about stand where they stood: somebody
// has changed them while it was cut off.
func (d *recordData) leave(left map[string]bool) {
	d.Took = slices.DeleteFunc(d.Took, func(p []byte) bool { return left[string(p)] })
	if d.Prev == d.From || len(left) == 0 {
		return
	}
	for _, p := range d.Left {
		left[string(p)] = true
	}
	d.Left, d.LeftFrom = pathBytes(left, nil), d.From
}

// wantsBetween returns what leads from one state to another.
func (m *FileSnapshotManager) wantsBetween(ctx context.Context, from, to store.ID) ([]rollback.Want, error) {
	var wants []rollback.Want
	for c, err := range tree.Diff(ctx, m.tree.pages, from, to) {
		if err != nil {
			return nil, err
		}
		wants = append(wants, wantOf(&c))
	}
	return wants, nil
}

// acceptHalfMade takes directories for as they should be that a restore has made
// or opened and not got round to give their modes.
func acceptHalfMade(ctx context.Context, root *rollback.Root, wants []rollback.Want) error {
	for i := range wants {
		w := &wants[i]
		made := w.New
		if made == nil || !made.Mode.IsDir() {
			made = w.Old
		}
		if made == nil || !made.Mode.IsDir() {
			continue
		}
		now, err := root.Entry(ctx, w.Path, tree.NewOverlay(nil))
		if err != nil {
			return err
		}
		if now != nil && (now.Mode == made.Mode|0o700 || now.Mode == tree.ModeDir|0o700) {
			w.Old, w.Parent = now, false
		}
	}
	return nil
}

// recover brings a restore to its end that was cut off, of whatever session;
// nil if there is none. An edit that was cut off it takes back.
func (m *FileSnapshotManager) recover(ctx context.Context, o *look, forward bool) (*rollback.Plan, error) {
	edit, err := readNewestEdit(o.w.Newest(m.editWorktree(), editSession))
	if err == nil {
		err = m.recoverEdit(ctx, edit)
	}
	if err != nil { // the next edit refuses; a turn need not wait for it
		m.log.Warn("an edit is half done", "err", err)
	}
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

// CutOff says whether something was cut off in the directory, so that files may
// be half of each state: a restore, which [FileSnapshotManager.FinishRestore]
// brings to its end, or an edit, which the next edit or turn takes back. What is
// being done right now is not cut off.
func (m *FileSnapshotManager) CutOff(ctx context.Context) (restore, edit bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lock, err := m.store.FS().OpenFile(m.wtDir()+"/turns.lock", os.O_RDONLY, 0)
	if err == nil {
		defer lock.Close()
		if free, err := lock.TryLock(vfs.Shared); !free || err != nil {
			return false, false, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, false, err
	}
	last, err := m.newest(ctx, store.AnySession)
	if err != nil {
		return false, false, err
	}
	e, err := m.newestEdit(ctx)
	return last != nil && last.Kind == kindIntent && !last.Pruned, e != nil && e.Kind == kindEditIntent && !e.Pruned, err
}

// FinishRestore brings a restore to its end that was cut off in the directory,
// by a crash or an error: forward to what was wanted or, with abort, back to
// what was before. Whoever records a turn does the former by itself. The error
// matches [ErrNothing] if there is none.
func (m *FileSnapshotManager) FinishRestore(ctx context.Context, abort bool) (*RestoreResult, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	x := &restore{m: m, result: newRestoreResult()}
	m.store.MakeRoom(false)
	defer m.store.KeepBallast()
	err = m.withTurns(ctx, func(t *turns) error {
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
