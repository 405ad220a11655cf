package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/standing"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// A record is one of the store's, or what a log tells of one elsewhere.
type record = history.Record

// loggedData returns what a log has of a step that only it knows, nil if that is another
// program's.
func loggedData(r *record) *StepSnapshotData {
	d := new(StepSnapshotData)
	if json.Unmarshal(r.Logged, d) != nil {
		return nil
	}
	return d
}

// A line tells which steps lead to a place in the session. The records know:
// each step names the one before it. A log, where there is one, says where its
// entries are on the line, and has steps that were recorded elsewhere.
type line struct {
	*standing.Line
	m          *FileSnapshotManager
	log        *session.Tree // nil: there is none
	hasWaiting bool          // there are steps that do not stand where they belong in the log
}

// byRecords returns a line by the records, whatever a log says.
func (m *FileSnapshotManager) byRecords() *line {
	return &line{Line: &standing.Line{Records: m.records, Pages: m.tree.pages, Logged: loggedChanges}, m: m}
}

// line returns the session's line.
func (m *FileSnapshotManager) line(ctx context.Context) (*line, error) {
	log, err := m.entries(ctx)
	if err != nil || log == nil {
		return m.byRecords(), err
	}
	return m.lineOf(ctx, log)
}

// lineOf returns the session's line by a log.
func (m *FileSnapshotManager) lineOf(ctx context.Context, log *session.Tree) (*line, error) {
	l := m.byRecords()
	l.log, l.Before = log, l.before
	head, err := m.records.Newest(m.opts.Session)
	if err != nil {
		return nil, err
	}
	untold, err := m.records.NewestUntold(ctx, head)
	l.hasWaiting = untold != 0 || len(l.index().late) > 0
	return l, err
}

// tip returns the record at which the session's files stand: a turn, a look
// within one, the start, or a joint; nil if nothing is known of any. The records
// say so, wherever the conversation is. Only of a session that has recorded no
// turn here the log says it: that came from elsewhere.
func (l *line) tip(ctx context.Context) (*record, error) {
	head, err := l.m.records.Newest(l.m.opts.Session)
	if err != nil {
		return nil, err
	}
	var tip *record
	if head != nil && head.Position() != 0 {
		if tip, err = l.m.records.StepAt(ctx, head.Position(), head.Session); err != nil {
			return nil, err
		}
	}
	if l.log == nil || tip != nil && (tip.Kind != history.KindStart || tip.Facts.Fork != 0 || head.Next() > 0 ||
		head.Facts.Restored != 0) {
		return tip, nil
	}
	if r, err := l.at(ctx, l.m.leaf(l.log), true); r != nil || err != nil {
		return r, err
	}
	return tip, nil
}

// at returns the newest step on the path to an entry of the log, nil if there
// is none. after says to count what was done behind the last entry, too. The
// error is that of [session.Tree.Path].
func (l *line) at(ctx context.Context, id string, after bool) (*record, error) {
	path, err := l.log.Path(id)
	if err != nil {
		return nil, err
	}
	var tip *record
	standing := -1 // where on the path
	for i, e := range slices.Backward(path) {
		if tip, err = l.standing(ctx, e); err != nil {
			return nil, err
		}
		if tip != nil {
			standing = i
			break
		}
	}
	// Behind it come steps that the log was given late, or not yet.
	waiting, err := l.waiting(ctx, path, after)
	if err != nil || len(waiting) == 0 {
		return tip, err
	}
	behind, err := l.recorded(ctx, tip)
	if err != nil {
		return nil, err
	}
	for _, r := range waiting {
		if tip != nil && tip.Seq == 0 && slices.IndexFunc(path,
			func(e *session.Entry) bool { return e.ID == r.Above }) < standing {
			continue // it comes before what only the log has
		}
		if r.Seq > behind {
			tip, behind = r, r.Seq
		}
	}
	return tip, nil
}

// recorded returns the number of the newest step at or before tip that is on
// record, or of the session's start; 0: there is none.
func (l *line) recorded(ctx context.Context, tip *record) (uint64, error) {
	var err error
	for tip != nil && tip.Seq == 0 {
		if tip, err = l.Prev(ctx, tip); err != nil {
			return 0, err
		}
	}
	if tip != nil {
		return tip.Seq, nil
	}
	head, err := l.m.records.Newest(l.m.opts.Session)
	if err != nil || head == nil {
		return 0, err
	}
	return head.Begin(), nil
}

// waiting returns the steps that belong to a path of the log, but do not stand
// there: it was given them late, or not yet. They are in order. after says to
// count those behind the last entry of the path, too.
func (l *line) waiting(ctx context.Context, path []*session.Entry, after bool) ([]*record, error) {
	on := make(map[string]bool, len(path))
	for _, e := range path {
		on[e.ID] = true
	}
	id := ""
	if len(path) > 0 {
		id = path[len(path)-1].ID
	}
	head, err := l.m.records.Newest(l.m.opts.Session)
	if err != nil {
		return nil, err
	}
	untold, err := l.m.records.Untold(ctx, head)
	if err != nil {
		return nil, err
	}
	full := path
	if !after {
		path = path[:max(len(path)-1, 0)]
		delete(on, id)
	}
	list := slices.DeleteFunc(untold, func(r *record) bool { return r.Above != "" && !on[r.Above] })
	for i := range len(path) + 1 { // behind nothing, or behind an entry
		above, next := "", ""
		if i > 0 {
			above = path[i-1].ID
		}
		if i < len(full) {
			next = full[i].ID
		}
		for _, late := range l.index().late[above] {
			if l.elsewhere(late, above, next) {
				continue
			}
			r, err := l.stepOf(ctx, late)
			if err != nil {
				return nil, err
			}
			if r.Seq != 0 {
				list = append(list, r)
			}
		}
	}
	slices.SortFunc(list, func(a, b *record) int { return cmp.Compare(a.Seq, b.Seq) })
	return list, nil
}

// elsewhere reports whether a step that was told late went down another branch
// from the entry above it than the one that goes on with next: the log has it
// there.
func (l *line) elsewhere(late *session.Entry, above, next string) bool {
	path, err := l.log.Path(late.ID)
	if err != nil || next == "" || late.ID == next {
		return false
	}
	at := 0
	if above != "" {
		if at = slices.IndexFunc(path, func(e *session.Entry) bool { return e.ID == above }) + 1; at == 0 {
			return false
		}
	}
	return path[at].ID != next
}

// standing returns the step that an entry stands for where it is in the log;
// nil if it is none, or was told late.
func (l *line) standing(ctx context.Context, e *session.Entry) (*record, error) {
	if s := l.m.stepIn(e); s == nil || s.Late {
		return nil, nil
	}
	return l.stepOf(ctx, e)
}

// stepOf returns the step that an entry of the log stands for. The error
// matches [ErrUnknown] if it is none, or another program's.
func (l *line) stepOf(ctx context.Context, e *session.Entry) (*record, error) {
	s := l.m.stepIn(e)
	if s == nil {
		return nil, fmt.Errorf("step-snapshot %q: %w: its data is not ours", e.ID, ErrUnknown)
	}
	if s.Seq != 0 {
		r, err := l.m.records.Record(ctx, s.Seq)
		switch {
		case errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrFormat): // an entry from elsewhere
		case err != nil:
			return nil, err
		case s.IsOf(r):
			return r.WithEntry(e.ID), nil
		}
	}
	r := &record{Snapshot: &store.Snapshot{Kind: history.KindStep, Entry: e.ID, Tree: s.Tree,
		Base: store.State{Tree: s.Base}}}
	r.Facts.Turn, r.Facts.Counts, r.Facts.Unknown, r.Logged = s.Turn, s.Counts, s.Unknown, e.Data
	if loggedData(r) == nil {
		return nil, fmt.Errorf("step-snapshot %q: %w: its data is not ours", e.ID, ErrUnknown)
	}
	return r, nil
}

// before returns the step, or the start, before another: prev, unless the log has one
// between them. prev is nil for a step that only the log has.
func (l *line) before(ctx context.Context, r, prev *record) (*record, error) {
	if prev == nil {
		return l.beforeLogged(ctx, r)
	}
	if e := l.entryOf(prev); e != nil {
		prev = prev.WithEntry(e.ID)
	}
	place := r.Above
	if e, ok := l.log.Entry(r.Entry); ok && l.stands(r) {
		place = e.ParentID
	}
	above, err := l.above(ctx, place)
	if err != nil || above == nil || above.Seq != 0 {
		return prev, err
	}
	// The log has one of its own there.
	path, err := l.log.Path(above.Entry)
	if err != nil {
		return nil, err
	}
	if prev.Kind == history.KindStep && !l.stands(prev) && !slices.ContainsFunc(path,
		func(e *session.Entry) bool { return e.ID == prev.Above }) {
		return prev, nil // which comes behind it
	}
	return above, nil
}

// beforeLogged returns the step before one that only the log has, or the start.
func (l *line) beforeLogged(ctx context.Context, r *record) (*record, error) {
	e, _ := l.log.Entry(r.Entry)
	prev, err := l.above(ctx, e.ParentID)
	if err == nil && l.hasWaiting {
		prev, err = l.at(ctx, e.ParentID, true)
	}
	if prev == nil && err == nil {
		prev = history.MadeUpStart(r)
	}
	return prev, err
}

// above returns the step that stands nearest above an entry of the log, or on
// it; nil if there is none.
func (l *line) above(ctx context.Context, id string) (*record, error) {
	for range l.log.Changes() { // parents may form a cycle
		e, ok := l.log.Entry(id)
		if !ok {
			break
		}
		if r, err := l.standing(ctx, e); r != nil || err != nil {
			return r, err
		}
		id = e.ParentID
	}
	return nil, nil
}

// stands reports whether the log has a step where it belongs.
func (l *line) stands(r *record) bool {
	e, ok := l.log.Entry(r.Entry)
	if !ok {
		return false
	}
	s := l.m.stepIn(e)
	return s != nil && !s.Late
}

// entryOf returns the entry that the log has of a step, nil if it has none.
func (l *line) entryOf(r *record) *session.Entry {
	e := l.index().bySeq[r.Seq]
	if e == nil || !l.m.stepIn(e).IsOf(r) {
		return nil
	}
	return e
}

// start returns where the session began; after a fork, where the session did
// that it was forked from.
func (l *line) start(ctx context.Context) (*record, error) {
	if l.log != nil {
		path, err := l.log.Path(l.m.leaf(l.log))
		if err != nil {
			return nil, err
		}
		for _, e := range path {
			r, err := l.standing(ctx, e)
			if err != nil {
				return nil, err
			}
			if r != nil {
				return l.startOf(ctx, r)
			}
		}
	}
	tip, err := l.tip(ctx)
	if err != nil {
		return nil, err
	}
	if tip == nil {
		return nil, l.m.noSession(ctx)
	}
	return l.startOf(ctx, tip)
}

// startOf returns the start of the line whose first step is r, or on which r
// is if no log has steps before it.
func (l *line) startOf(ctx context.Context, r *record) (*record, error) {
	if r.Seq != 0 && r.Start() != 0 {
		return l.m.records.StepAt(ctx, r.Start(), r.Session)
	}
	if r.Base.IsZero() {
		return nil, fmt.Errorf("start of session %q: %w", l.m.opts.Session, ErrUnknown)
	}
	if err := l.m.hasTree(ctx, r.Base.Tree, r.Entry); err != nil {
		return nil, err
	}
	return history.MadeUpStart(r), nil
}

// forkedAt returns the position of another session from which the log goes on,
// nil if it does not: what its newest turn or restore on the path to the leaf has
// left.
func (l *line) forkedAt(ctx context.Context) (*record, error) {
	path, err := l.log.Path(l.m.leaf(l.log))
	if err != nil {
		return nil, err
	}
	for _, e := range slices.Backward(path) {
		r, err := l.standing(ctx, e)
		if r == nil && err == nil {
			r, err = l.restoreOf(ctx, e)
		}
		if r == nil && err == nil {
			r, err = l.emptyOf(ctx, e)
		}
		if err != nil {
			return nil, err
		}
		if r == nil {
			continue
		}
		if r.Seq == 0 || r.Session == l.m.opts.Session {
			return nil, nil
		}
		return l.m.records.StepAt(ctx, r.Position(), r.Session)
	}
	return nil, nil
}

// emptyOf returns the turn that changed nothing and ended at an entry of the log,
// nil if there is none. The log has no entry of its own for it.
func (l *line) emptyOf(ctx context.Context, e *session.Entry) (*record, error) {
	for s, err := range l.m.store.ByEntry(ctx, e.ID) {
		if err != nil {
			return nil, err
		}
		if s.Entry == e.ID && s.Kind == history.KindEmpty && s.Worktree == l.m.project.Worktree && !s.Pruned {
			return history.Read(s)
		}
	}
	return nil, nil
}

// restoreOf returns the restore that an entry of the log stands for, nil if it is
// none of this store's.
func (l *line) restoreOf(ctx context.Context, e *session.Entry) (*record, error) {
	d := new(unrevertPointData)
	if e.Type != "custom" || e.CustomType != sessionlog.UnrevertPoint || json.Unmarshal(e.Data, d) != nil ||
		d.SnapshotSeq == 0 {
		return nil, nil
	}
	r, err := l.m.records.Record(ctx, d.SnapshotSeq)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrFormat) ||
		err == nil && (r.Kind != history.KindRestore || r.Tree != d.TreeHash) {
		return nil, nil
	}
	return r, err
}
