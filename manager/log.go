package manager

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/sessionlog"
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
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if entries == nil {
		return fmt.Errorf("rebuild the index of session %q: no tree of entries", m.opts.Session)
	}
	m.forget()
	m.given = entries
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
		file, err := sessionlog.OpenFile(ctx, m.opts.SessionFile)
		if (errors.Is(err, fs.ErrNotExist) || errors.Is(err, sessionlog.ErrNotBegun)) && !m.opts.ReadOnly {
			return session.NewTree(), nil // pi writes it with the first answer
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

// adoptFile is adopt for a log that is a file.
func (m *FileSnapshotManager) adoptFile(ctx context.Context) error {
	if m.given != nil || m.opts.SessionFile == "" || m.opts.Session == "" {
		return nil
	}
	log, err := m.entries(ctx)
	if err != nil {
		return err
	}
	return m.adopt(ctx, log)
}

// adopt names the entries of steps that the runtime did not, and pins what the
// log names and this session has no records of its own for.
func (m *FileSnapshotManager) adopt(ctx context.Context, entries *session.Tree) error {
	if _, err := entries.Path(m.leaf(entries)); err != nil {
		return err
	}
	l, err := m.lineOf(ctx, entries)
	if err != nil {
		return err
	}
	want := make(map[store.State]bool)
	for e := range entries.Entries() {
		if m.stepIn(e) == nil {
			continue
		}
		r, err := l.stepOf(ctx, e)
		if err != nil {
			return err
		}
		if err := m.needs(ctx, r, want); err != nil {
			return err
		}
		if r.Seq != 0 && r.Session == m.opts.Session && r.Worktree == m.project.Worktree {
			if err := m.adoptEntry(ctx, r); err != nil {
				return err
			}
		}
	}
	return m.pin(ctx, want)
}

// adoptEntry records the entry that a log has for a step, if none is on record.
func (m *FileSnapshotManager) adoptEntry(ctx context.Context, r *record) error {
	old, err := m.records.Record(ctx, r.Seq)
	if err != nil || old.Entry != "" {
		return err
	}
	return m.bind(ctx, old, r.Entry, true)
}

// needs adds the states of a step that is not this session's to a set, false for
// what only the log names.
func (m *FileSnapshotManager) needs(ctx context.Context, r *record, want map[store.State]bool) error {
	if r.Seq == 0 { // the log is all that knows it
		for _, state := range []store.State{r.Base, r.State()} {
			if state.IsZero() {
				continue
			}
			if err := m.hasTree(ctx, state.Tree, r.Entry); err == nil {
				if _, ok := want[state]; !ok { // perhaps a record has it, too
					want[state] = false
				}
			} else if !errors.Is(err, ErrUnknown) {
				return err
			}
		}
		return nil
	}
	if r.Session == m.opts.Session && r.Worktree == m.project.Worktree || r.Pruned {
		return nil
	}
	for _, state := range append([]store.State{r.Base, r.State()}, r.Also...) {
		want[state] = true
	}
	start, err := m.records.StepAt(ctx, r.Start(), r.Session)
	if err == nil && !start.Pruned {
		want[start.State()] = true
	}
	return err
}

// pin records states as ones that this session needs, so that they are kept as
// long as it is.
func (m *FileSnapshotManager) pin(ctx context.Context, want map[store.State]bool) (err error) {
	delete(want, store.State{})
	head, err := m.records.Newest(m.opts.Session)
	if err != nil {
		return err
	}
	if head != nil {
		for _, seq := range append(slices.Clone(head.Facts.Pins), head.Seq) {
			r, err := m.records.Record(ctx, seq)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			if err == nil && r.Kind == history.KindPin {
				for _, state := range r.Also {
					delete(want, state)
				}
			}
		}
	}
	if len(want) == 0 {
		return nil
	}
	o, err := m.lookKeeping(ctx, m.turnOptions(), 0) // as for a restore
	if err != nil {
		return err
	}
	defer func() { o.end(ctx, &err) }()
	if err := m.begin(ctx, o); err != nil {
		return err
	}
	for state, recorded := range want {
		if recorded {
			continue
		}
		if whole, err := audit.IsWhole(ctx, m.store, o.w, state); err != nil {
			return err
		} else if !whole {
			delete(want, state)
		}
	}
	if len(want) == 0 {
		return nil
	}
	also := slices.SortedFunc(maps.Keys(want), func(a, b store.State) int {
		return cmp.Or(bytes.Compare(a.Tree[:], b.Tree[:]), bytes.Compare(a.Coverage[:], b.Coverage[:]))
	})
	return m.commit(ctx, o, &record{Snapshot: &store.Snapshot{Kind: history.KindPin, Also: also}})
}

// stepIn returns what a step-snapshot entry says in short, nil if the entry is
// none or another program's.
func (m *FileSnapshotManager) stepIn(e *session.Entry) *history.Step {
	if e.Type != "custom" || e.CustomType != sessionlog.StepSnapshot {
		return nil
	}
	s, ok := m.steps[e]
	if !ok {
		if s = history.ParseStep(e); s == nil {
			m.log.Warn("step-snapshot is not ours", "entry", e.ID)
		}
		m.steps[e] = s
	}
	return s
}

// A logIndex finds the steps of a log.
type logIndex struct {
	log   *session.Tree
	n     int                         // changes of the log that it has seen
	bySeq map[uint64]*session.Entry   // the first one of each record
	late  map[string][]*session.Entry // those that were told late, by the entry that they belong behind
}

// index returns the index of the line's log.
func (l *line) index() *logIndex {
	m := l.m
	n := l.log.Changes()
	if m.index == nil || m.index.log != l.log || m.index.n != n {
		ix := &logIndex{l.log, n, make(map[uint64]*session.Entry), make(map[string][]*session.Entry)}
		for e := range l.log.Entries() {
			s := m.stepIn(e)
			if s == nil {
				continue
			}
			if s.Seq != 0 && ix.bySeq[s.Seq] == nil {
				ix.bySeq[s.Seq] = e
			}
			if s.Late {
				ix.late[s.Above] = append(ix.late[s.Above], e)
			}
		}
		m.index = ix
	}
	return m.index
}

// stepBelow returns the first step below an entry, before the next message of
// the agent or the user; nil if there is none.
func (l *line) stepBelow(ctx context.Context, e *session.Entry) (*record, error) {
	return l.search(ctx, e, false, func(e *session.Entry) bool {
		return e.Type == "message" && (e.Role == "assistant" || e.Role == "user")
	})
}

// firstBelow returns the first step below an entry, nil if there is none.
func (l *line) firstBelow(ctx context.Context, e *session.Entry) (*record, error) {
	return l.search(ctx, e, false, func(*session.Entry) bool { return false })
}

// search looks for a step below an entry, in the order of the file and no
// further than where stop holds; those that were told late, or not yet, come
// behind the others, unless the oldest one is asked for.
func (l *line) search(ctx context.Context, e *session.Entry, oldest bool,
	stop func(*session.Entry) bool) (*record, error) {
	var first *record
	seen := map[string]bool{e.ID: true} // parents may form a cycle
	queue := slices.Clone(l.log.Children(e.ID))
	for len(queue) > 0 {
		e := queue[0]
		queue = queue[1:]
		if seen[e.ID] || stop(e) {
			continue
		}
		seen[e.ID] = true
		r, err := l.standing(ctx, e)
		if err != nil || r != nil && (!oldest || r.Seq == 0) {
			return r, err
		}
		if r != nil && (first == nil || r.Seq < first.Seq) {
			first = r
		}
		queue = append(l.log.Children(e.ID), queue...)
	}
	head, err := l.m.records.Newest(l.m.opts.Session)
	if err != nil {
		return nil, err
	}
	untold, err := l.m.records.Untold(ctx, head)
	if err != nil {
		return nil, err
	}
	for _, r := range untold {
		if seen[r.Above] && (first == nil || r.Seq < first.Seq) {
			first = r
		}
	}
	for above := range seen {
		for _, e := range l.index().late[above] {
			r, err := l.stepOf(ctx, e)
			if err != nil {
				return nil, err
			}
			if first == nil || r.Seq < first.Seq {
				first = r
			}
		}
	}
	return first, nil
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

// endOfTurn returns the last entry of the turn that began behind an entry: the
// last one below it that comes before what the user said next. The turn's own
// message of the user may be there already, or come first below it. Of several
// branches it is the one that has a message first.
func endOfTurn(log *session.Tree, leaf string) string {
	last, asked, talks := leaf, false, false
	if e, ok := log.Entry(leaf); ok {
		asked = isUser(e)
	}
	for range log.Changes() {
		var next *session.Entry
		for _, e := range log.Children(last) {
			if isUser(e) && asked {
				continue
			}
			if next == nil || next.Type != "message" && e.Type == "message" {
				next = e
			}
		}
		if next == nil {
			break
		}
		asked, talks, last = asked || next.Type == "message", talks || next.Type == "message", next.ID
	}
	if !talks { // what lies there may be another branch's
		return leaf
	}
	return last
}

func isUser(e *session.Entry) bool { return e.Type == "message" && e.Role == "user" }
