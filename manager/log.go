package manager

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
// entry of a step itself if the runtime has told its ID and not added it. If it
// has done neither, the tree falls behind: it is forgotten, and the records lead
// until RebuildIndex is called again.
//
// Steps that another session has recorded, as after a fork, are kept for this
// session as well, so that it does not depend on the other.
func (m *FileSnapshotManager) RebuildIndex(ctx context.Context, entries *session.Tree) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if entries == nil {
		return fmt.Errorf("rebuild the index of session %q: no tree of entries", m.opts.Session)
	}
	m.given, m.turnOf, m.turnLeaf = entries, 0, ""
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
	if m.given != nil || m.opts.SessionFile == "" {
		return m.given, nil
	}
	if m.file == nil {
		file, err := session.OpenFile(ctx, m.opts.SessionFile)
		if errors.Is(err, fs.ErrNotExist) && !m.opts.ReadOnly {
			return session.NewTree(session.Header{}), nil // pi writes it with the first answer
		}
		if err != nil {
			return nil, err
		}
		m.file = file
	} else if err := m.file.Refresh(ctx); err != nil {
		return nil, err
	}
	return m.file.Tree(), nil
}

// leaf returns where the session stands: where the last turn was said to
// begin, until the log goes on, or else at the log's leaf.
func (m *FileSnapshotManager) leaf(log *session.Tree) string {
	if leaf := log.Leaf(); m.turnLeaf == "" || leaf != m.turnLeafAt {
		return leaf
	}
	return m.turnLeaf
}

// adopt names the entries of steps that the runtime did not, and pins what the
// log names and this session has no records of its own for.
func (m *FileSnapshotManager) adopt(ctx context.Context, entries *session.Tree) error {
	if _, err := entries.Path(m.leaf(entries)); err != nil {
		return err
	}
	want := make(map[store.State]bool)
	for e := range entries.Entries() {
		if m.data(e) == nil {
			continue
		}
		s, err := m.stepOf(ctx, e)
		if err != nil {
			return err
		}
		if err := m.needs(ctx, s, want); err != nil {
			return err
		}
		if s.record != nil && s.Session == m.opts.Session && s.Worktree == m.project.Worktree() && s.Entry == "" {
			if err := m.bind(ctx, s.record, e.ID); err != nil {
				return err
			}
		}
	}
	return m.pin(ctx, want)
}

// needs adds the states of a step that is not this session's to a set.
func (m *FileSnapshotManager) needs(ctx context.Context, s *step, want map[store.State]bool) error {
	if s.record == nil { // the log is all that knows it
		for _, id := range []*store.ID{&s.data.SnapshotTreeHash, s.data.BaselineTreeHash} {
			if id == nil {
				continue
			}
			if err := m.hasTree(ctx, *id, s.entry); err == nil {
				want[store.State{Tree: *id}] = true
			} else if !errors.Is(err, ErrUnknown) {
				return err
			}
		}
		return nil
	}
	if s.Session == m.opts.Session && s.Worktree == m.project.Worktree() {
		return nil
	}
	for _, state := range append([]store.State{s.Base, s.State()}, s.Also...) {
		want[state] = true
	}
	start, err := m.stepAt(ctx, s.start())
	if err == nil {
		want[start.State()] = true
	}
	return err
}

// pin records states as ones that this session needs, so that they are kept as
// long as it is.
func (m *FileSnapshotManager) pin(ctx context.Context, want map[store.State]bool) error {
	delete(want, store.State{})
	head, err := m.newest(ctx, m.opts.Session)
	if err != nil {
		return err
	}
	if head != nil {
		for _, seq := range append(slices.Clone(head.data.Pins), head.Seq) {
			r, err := m.record(ctx, seq)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			if err == nil && r.Kind == kindPin {
				for _, state := range r.Also {
					delete(want, state)
				}
			}
		}
	}
	if len(want) == 0 {
		return nil
	}
	r := &record{Snapshot: &store.Snapshot{Kind: kindPin, Also: slices.SortedFunc(maps.Keys(want), func(a, b store.State) int {
		return cmp.Or(bytes.Compare(a.Tree[:], b.Tree[:]), bytes.Compare(a.Coverage[:], b.Coverage[:]))
	})}}
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

// logSteps returns our step-snapshot entries on the path to an entry. One that
// the log was given late counts where it belongs, not where it stands.
func (m *FileSnapshotManager) logSteps(log *session.Tree, id string) ([]*session.Entry, error) {
	path, err := log.Path(id)
	if err != nil {
		return nil, err
	}
	on := make(map[string]bool, len(path))
	for _, e := range path {
		on[e.ID] = true
	}
	steps := slices.DeleteFunc(path, func(e *session.Entry) bool { return m.data(e) == nil || m.isLate(e) })
	for _, e := range m.lateSteps(log) {
		if d := m.data(e); on[d.AboveEntryID] {
			i := slices.IndexFunc(steps, func(s *session.Entry) bool { return m.data(s).SnapshotSeq > d.SnapshotSeq })
			if i < 0 {
				i = len(steps)
			}
			steps = slices.Insert(steps, i, e)
		}
	}
	return steps, nil
}

// isLate reports whether an entry is a step that the log was given late.
func (m *FileSnapshotManager) isLate(e *session.Entry) bool {
	d := m.data(e)
	return d != nil && d.AboveEntryID != ""
}

// lateSteps returns the steps that a log was given late.
func (m *FileSnapshotManager) lateSteps(log *session.Tree) []*session.Entry {
	if n := log.Len(); m.late.log != log || m.late.n != n {
		m.late.log, m.late.n, m.late.steps = log, n, nil
		for e := range log.Entries() {
			if m.isLate(e) {
				m.late.steps = append(m.late.steps, e)
			}
		}
	}
	return m.late.steps
}

// stepBelow returns the first step below an entry, before the next message of
// the agent or the user.
func (m *FileSnapshotManager) stepBelow(log *session.Tree, e *session.Entry) *session.Entry {
	return m.search(log, e, func(e *session.Entry) bool {
		return e.Type == "message" && (e.Role == "assistant" || e.Role == "user")
	})
}

// firstBelow returns the first step below an entry.
func (m *FileSnapshotManager) firstBelow(log *session.Tree, e *session.Entry) *session.Entry {
	return m.search(log, e, func(*session.Entry) bool { return false })
}

// search looks for a step below an entry, in the order of the file and no
// further than where stop holds.
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
		if m.data(e) != nil && !m.isLate(e) {
			return e
		}
		queue = append(log.Children(e.ID), queue...)
	}
	for _, late := range m.lateSteps(log) {
		if seen[m.data(late).AboveEntryID] {
			return late
		}
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

// endOfTurn returns the last entry of the turn that began behind an entry:
// the last one below it that comes before what the user said next.
func endOfTurn(log *session.Tree, leaf string) string {
	last := leaf
	below := map[string]bool{leaf: true}
	for e := range log.Entries() {
		if below[e.ParentID] && (e.Type != "message" || e.Role != "user") {
			below[e.ID], last = true, e.ID
		}
	}
	return last
}
