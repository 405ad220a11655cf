package manager

import (
	"context"
	"fmt"

	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// Undo takes back the session's newest restore that was not taken back yet: the
// files that it changed are again as they were before it. The options Target,
// Paths and Exact say nothing here; opts may be nil. The error matches
// [ErrNothing] if there is none.
func (m *FileSnapshotManager) Undo(ctx context.Context, opts *RestoreOptions) (*RestoreResult, error) {
	result, err := m.takeBack(ctx, opts, topsRedo)
	if err != nil {
		err = fmt.Errorf("undo: %w", err)
	}
	return result, err
}

// Redo takes back the newest Undo after which nothing was restored. The rest
// is as with Undo.
func (m *FileSnapshotManager) Redo(ctx context.Context, opts *RestoreOptions) (*RestoreResult, error) {
	result, err := m.takeBack(ctx, opts, topsUndo)
	if err != nil {
		err = fmt.Errorf("redo: %w", err)
	}
	return result, err
}

// takeBack takes back the restore that comes next in one list. The new one
// comes next in the other.
func (m *FileSnapshotManager) takeBack(ctx context.Context, opts *RestoreOptions, to string) (*RestoreResult, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if opts == nil {
		opts = new(RestoreOptions)
	}
	policy := opts.OnDirty
	if policy == "" {
		policy = rollback.Skip
	}
	x := &restore{m: m, policy: policy, preview: opts.Preview, force: opts.Force, append: opts.Append, list: to, always: true, label: opts.Label}
	return x.run(ctx, func() error {
		head, err := m.newest(ctx, m.opts.Session)
		if err != nil {
			return err
		}
		last, err := m.lastRestore(ctx, head)
		if err != nil {
			return err
		}
		if last == nil {
			return ErrNothing
		}
		seq := last.undo()
		if to == topsUndo {
			seq = last.redo()
		}
		if seq == 0 {
			return ErrNothing
		}
		r, err := m.record(ctx, seq)
		if err != nil {
			return err
		}
		// A navigation is taken back with the conversation, unless that has
		// gone on since.
		if r.data.NewLeaf != nil && m.standsAt(r) {
			x.oldLeaf, x.newLeaf = r.data.NewLeaf, r.data.OldLeaf
		}
		x.undoes, x.from, x.to = r, head.position(), r.data.From
		if to == topsRedo {
			x.undo, x.redo = r.data.Below, last.redo()
		} else {
			x.undo, x.redo = last.undo(), r.data.Below
		}
		x.moves = r.movesBack()
		before, err := m.restoreBefore(ctx, r)
		if err != nil {
			return err
		}
		if before != nil && before.data.Prev == x.to {
			x.left, x.leftFrom = before.data.Left, before.data.LeftFrom
		}
		for c, err := range tree.Diff(ctx, m.tree.pages, r.Tree, r.Base.Tree) {
			if err != nil {
				return err
			}
			x.wants = append(x.wants, wantOf(&c))
		}
		return nil
	})
}

// Restores returns the records of the restores of the session that Undo and
// Redo would take back, and of one that was cut off in the directory, of
// whatever session; nil where there is none.
func (m *FileSnapshotManager) Restores(ctx context.Context) (undo, redo, cutOff *store.Snapshot, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, err := m.newest(ctx, store.AnySession)
	if err != nil {
		return nil, nil, nil, err
	}
	if last != nil && last.Kind == kindIntent {
		cutOff = last.Snapshot
	}
	head, err := m.newest(ctx, m.opts.Session)
	if err != nil {
		return nil, nil, nil, err
	}
	if last, err = m.lastRestore(ctx, head); err != nil || last == nil {
		return nil, nil, cutOff, err
	}
	for seq, s := range map[uint64]**store.Snapshot{last.undo(): &undo, last.redo(): &redo} {
		if seq == 0 {
			continue
		}
		r, err := m.record(ctx, seq)
		if err != nil {
			return nil, nil, nil, err
		}
		*s = r.Snapshot
	}
	return undo, redo, cutOff, nil
}

// standsAt reports whether the conversation is where a navigation has led, or at
// the entry that says so.
func (m *FileSnapshotManager) standsAt(r *record) bool {
	if m.given == nil {
		return false
	}
	leaf := m.leaf(m.given)
	return leaf == *r.data.NewLeaf || r.Entry != "" && leaf == r.Entry
}

// lastRestore returns the session's newest restore, nil if there is none.
func (m *FileSnapshotManager) lastRestore(ctx context.Context, head *record) (*record, error) {
	if head == nil || head.Kind == kindRestore {
		return head, nil
	}
	return m.restoreBefore(ctx, head)
}

// restoreBefore returns the session's newest restore before a record, nil if
// there is none.
func (m *FileSnapshotManager) restoreBefore(ctx context.Context, head *record) (*record, error) {
	if head.data.Restored == 0 {
		return nil, nil
	}
	return m.recordOrBefore(ctx, head.data.Restored, func(s *store.Snapshot) bool {
		return s.Session == head.Session && s.Kind == kindRestore
	})
}
