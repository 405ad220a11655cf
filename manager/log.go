package manager

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// RebuildIndex takes up the entries of the session's log from the runtime: the
// entries that steps were given, and the paths between them. leaf is where the
// session stands; "" is before the first entry. The manager keeps the tree,
// and reads from it what the runtime adds.
//
// Steps that another session has recorded, as after a fork, are kept for this
// session as well, so that it does not depend on the other.
func (m *FileSnapshotManager) RebuildIndex(ctx context.Context, entries *session.Tree) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.given, m.turn = entries, 0
	if m.opts.ReadOnly {
		return nil
	}
	if err := m.adopt(ctx, entries); err != nil {
		return fmt.Errorf("rebuild the index of session %q: %w", m.opts.Session, err)
	}
	return nil
}

// entries returns the session's log, nil if there is none but the records.
func (m *FileSnapshotManager) entries(ctx context.Context) (*session.Tree, error) {
	if m.given != nil {
		return m.given, nil
	}
	if m.file == nil {
		return nil, nil
	}
	if err := m.file.Refresh(ctx); err != nil {
		return nil, err
	}
	return m.file.Tree(), nil
}

// adopt names the entries of steps that the runtime did not, and pins the
// steps of other sessions.
func (m *FileSnapshotManager) adopt(ctx context.Context, entries *session.Tree) error {
	path, err := entries.Path(entries.Leaf())
	if err != nil {
		return err
	}
	var foreign []*step
	for _, e := range path {
		s, err := m.stepOf(ctx, e)
		if err != nil || s == nil || s.record == nil {
			if err != nil {
				m.log.Warn("step-snapshot not known", "entry", e.ID, "err", err)
			}
			continue
		}
		switch {
		case s.Session != m.opts.Session || s.Worktree != m.project.Worktree():
			foreign = append(foreign, s)
		case s.Entry == "":
			if err := m.bind(ctx, s.record, e.ID); err != nil {
				return err
			}
		}
	}
	return m.pin(ctx, foreign)
}

// pin records the states of other sessions' steps as this session's as well,
// so that they are kept as long as either needs them.
func (m *FileSnapshotManager) pin(ctx context.Context, steps []*step) error {
	r := &record{Snapshot: &store.Snapshot{Kind: kindPin}}
	for _, s := range steps {
		r.data.Pinned = max(r.data.Pinned, s.Seq)
		r.Also = append(append(r.Also, s.Base, s.State()), s.Also...)
	}
	head, err := m.newest(ctx, m.opts.Session)
	if err != nil || len(steps) == 0 || head != nil && head.data.Pinned >= r.data.Pinned {
		return err
	}
	slices.SortFunc(r.Also, func(a, b store.State) int {
		return cmp.Or(bytes.Compare(a.Tree[:], b.Tree[:]), bytes.Compare(a.Coverage[:], b.Coverage[:]))
	})
	r.Also = slices.Compact(r.Also)
	_, err = m.look(ctx, m.turnOptions(), func(o *look) error {
		if err := m.begin(ctx, o); err != nil {
			return err
		}
		return m.commit(ctx, o, r)
	})
	return err
}

// stepOf returns the step that an entry of the log stands for, nil if it is no
// step-snapshot. The error matches [ErrUnknown] if its data is not what we
// write.
func (m *FileSnapshotManager) stepOf(ctx context.Context, e *session.Entry) (*step, error) {
	if e.Type != "custom" || e.CustomType != session.StepSnapshot {
		return nil, nil
	}
	d := new(StepSnapshotData)
	if err := json.Unmarshal(e.Data, d); err != nil || d.SnapshotTreeHash.IsZero() {
		return nil, fmt.Errorf("step-snapshot %q: %w: its data is not ours: %v", e.ID, ErrUnknown, err)
	}
	s := &step{entry: e.ID, data: d}
	if d.SnapshotSeq == 0 {
		return s, nil
	}
	r, err := m.record(ctx, d.SnapshotSeq)
	switch {
	case errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrFormat): // an entry from elsewhere
	case err != nil:
		return nil, err
	case r.Tree == d.SnapshotTreeHash && r.isStep():
		s.record = r
	}
	return s, nil
}

// logSteps returns the step-snapshot entries on the path to an entry.
func logSteps(log *session.Tree, id string) ([]*session.Entry, error) {
	path, err := log.Path(id)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(path, func(e *session.Entry) bool {
		return e.Type != "custom" || e.CustomType != session.StepSnapshot
	}), nil
}

// stepBelow returns the first step-snapshot below an entry, before the next
// message of the agent or the user.
func stepBelow(log *session.Tree, e *session.Entry) *session.Entry {
	return search(log, e, func(e *session.Entry) bool {
		return e.Type == "message" && (e.Role == "assistant" || e.Role == "user")
	})
}

// firstBelow returns the first step-snapshot below an entry.
func firstBelow(log *session.Tree, e *session.Entry) *session.Entry {
	return search(log, e, func(*session.Entry) bool { return false })
}

// search looks for a step-snapshot below an entry, in the order of the file
// and no further than where stop holds.
func search(log *session.Tree, e *session.Entry, stop func(*session.Entry) bool) *session.Entry {
	seen := map[string]bool{e.ID: true} // parents may form a cycle
	queue := slices.Clone(log.Children(e.ID))
	for len(queue) > 0 {
		e := queue[0]
		queue = queue[1:]
		if seen[e.ID] || stop(e) {
			continue
		}
		seen[e.ID] = true
		if e.Type == "custom" && e.CustomType == session.StepSnapshot {
			return e
		}
		queue = append(log.Children(e.ID), queue...)
	}
	return nil
}
