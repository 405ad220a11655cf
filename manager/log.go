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
// entries that steps were given, and the paths between them. The session stands
// at the leaf of the tree. Call it before Initialize, with an empty tree for a
// new session if its conversation may have branches.
//
// The manager keeps the tree. It reads from it what the runtime adds, adds the
// entry of a step itself if the runtime has told its ID and not added it, and
// moves the leaf to where [Turn] says that a turn begins.
//
// Steps that another session has recorded, as after a fork, are kept for this
// session as well, so that it does not depend on the other.
func (m *FileSnapshotManager) RebuildIndex(ctx context.Context, entries *session.Tree) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if entries == nil {
		return fmt.Errorf("rebuild the index of session %q: no tree of entries", m.opts.Session)
	}
	m.given, m.turnOf = entries, 0
	clear(m.parsed)
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
	steps, err := m.logSteps(entries, entries.Leaf())
	if err != nil {
		return err
	}
	var foreign []*step
	for _, e := range steps {
		s, err := m.stepOf(ctx, e)
		switch {
		case err != nil:
			return err
		case s.record == nil:
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

// data returns the data of a step-snapshot entry, nil if the entry is none or
// another program's: a log may have been written by several.
func (m *FileSnapshotManager) data(e *session.Entry) *StepSnapshotData {
	if e.Type != "custom" || e.CustomType != session.StepSnapshot {
		return nil
	}
	d, ok := m.parsed[e]
	if !ok {
		d = new(StepSnapshotData)
		if err := json.Unmarshal(e.Data, d); err != nil || d.SnapshotTreeHash.IsZero() || d.TurnIndex < 0 || d.TurnIndex > maxTurn {
			d = nil
			m.log.Warn("step-snapshot is not ours", "entry", e.ID, "err", err)
		}
		if len(m.parsed) >= maxLoaded {
			clear(m.parsed)
		}
		m.parsed[e] = d
	}
	return d
}

// maxTurn is above any turn that a session can have had.
const maxTurn = 1 << 31

// stepOf returns the step that an entry of the log stands for. The error
// matches [ErrUnknown] if it is none, or another program's.
func (m *FileSnapshotManager) stepOf(ctx context.Context, e *session.Entry) (*step, error) {
	d := m.data(e)
	if d == nil {
		return nil, fmt.Errorf("step-snapshot %q: %w: its data is not ours", e.ID, ErrUnknown)
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

// logSteps returns our step-snapshot entries on the path to an entry.
func (m *FileSnapshotManager) logSteps(log *session.Tree, id string) ([]*session.Entry, error) {
	path, err := log.Path(id)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(path, func(e *session.Entry) bool { return m.data(e) == nil }), nil
}

// stepBelow returns the first step-snapshot below an entry, before the next
// message of the agent or the user.
func (m *FileSnapshotManager) stepBelow(log *session.Tree, e *session.Entry) *session.Entry {
	return m.search(log, e, func(e *session.Entry) bool {
		return e.Type == "message" && (e.Role == "assistant" || e.Role == "user")
	})
}

// firstBelow returns the first step-snapshot below an entry.
func (m *FileSnapshotManager) firstBelow(log *session.Tree, e *session.Entry) *session.Entry {
	return m.search(log, e, func(*session.Entry) bool { return false })
}

// search looks for a step-snapshot below an entry, in the order of the file
// and no further than where stop holds.
func (m *FileSnapshotManager) search(log *session.Tree, e *session.Entry, stop func(*session.Entry) bool) *session.Entry {
	seen := map[string]bool{e.ID: true} // parents may form a cycle
	queue := slices.Clone(log.Children(e.ID))
	for len(queue) > 0 {
		e := queue[0]
		queue = queue[1:]
		if seen[e.ID] || stop(e) {
			continue
		}
		seen[e.ID] = true
		if m.data(e) != nil {
			return e
		}
		queue = append(log.Children(e.ID), queue...)
	}
	return nil
}

// knowsLeaf reports as an error that the log has no entry by the name of a
// turn's leaf.
func (m *FileSnapshotManager) knowsLeaf(ctx context.Context, leaf string) error {
	log, err := m.entries(ctx)
	if err != nil || log == nil || leaf == "" {
		return err
	}
	_, err = log.Path(leaf)
	return err
}
