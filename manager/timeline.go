package manager

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/boocode/filestore/store"
)

// A Moment is a line of a session's timeline: a turn that changed something,
// the start of the session, a restore, or what was found changed that no turn
// did.
type Moment struct {
	EntryID     string // of a turn or a start; "": not known
	TurnIndex   int    // of a turn; -1 of the others
	Kind        string // "step", "start", "restore", "undo", "redo", or "base" for what no turn did
	Added       int    // paths that it added
	Modified    int    // and so on
	Deleted     int
	Unknown     string          // why these three are not known, as in Diff
	Interrupted bool            // the turn was cut off
	Partial     bool            // a limit was reached
	Tree        store.ID        // what the files were then
	Snapshot    *store.Snapshot // nil: the log has it, the store has not

	m *FileSnapshotManager // nil: nothing has changed it
	r *record
}

// Changes lists what a turn did, or what was found changed that none did.
func (mo *Moment) Changes(ctx context.Context) (own, contested *Diff, err error) {
	if mo.m == nil {
		return NewDiff(), NewDiff(), nil
	}
	mo.m.mu.Lock()
	defer mo.m.mu.Unlock()
	return mo.m.changesIn(ctx, mo.r)
}

// changesIn is [Moment.Changes].
func (m *FileSnapshotManager) changesIn(ctx context.Context, r *record) (own, contested *Diff, err error) {
	contested = NewDiff()
	if r.Kind == kindStep {
		var changes []change
		changes, err = m.changes(ctx, r)
		own, contested = diffsOf(changes)
	} else {
		own, err = m.diff(ctx, r.Base, r.State())
	}
	own.Unknown, err = lost(err)
	return own, contested, err
}

// Timeline yields what happened on the path to where the session stands,
// newest first, with what was found between that no turn did, wherever the
// session stood then. Each pair is a moment and nil, or nil and the error that ends
// the sequence.
func (m *FileSnapshotManager) Timeline(ctx context.Context) iter.Seq2[*Moment, error] {
	return func(yield func(*Moment, error) bool) {
		// The caller may ask the manager between two moments.
		m.mu.Lock()
		defer m.mu.Unlock()
		unlocked := func(mo *Moment, err error) bool {
			if err == nil && mo.Unknown != "" {
				if err = mo.recount(ctx); err != nil {
					mo = nil
				}
			}
			m.mu.Unlock()
			defer m.mu.Lock()
			return yield(mo, err)
		}
		l, err := m.line(ctx)
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			unlocked(nil, err)
			return
		}
		l.timeline(ctx, unlocked)
	}
}

// timeline yields the steps that have led to where the session stands, and
// what it found between them.
func (l *line) timeline(ctx context.Context, yield func(*Moment, error) bool) {
	newer, err := l.m.newest(ctx, l.m.opts.Session)
	if err != nil {
		yield(nil, err)
		return
	}
	r, err := l.newest(ctx)
	if l.log != nil && errors.Is(err, ErrNoSession) {
		return // nothing has happened yet
	}
	for ; r != nil || err != nil; r, err = l.prev(ctx, r) {
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			yield(nil, err)
			return
		}
		if r.Seq != 0 {
			if !l.m.between(ctx, r, newer, yield) {
				return
			}
			newer = r
		} else if r.Kind == kindStart && !l.m.between(ctx, r, newer, yield) {
			return
		}
		if !r.State().IsZero() && !yield(l.m.momentOf(r), nil) { // a start may be lost
			return
		}
	}
}

// before returns the session's record before another; nil if all are lost.
func (m *FileSnapshotManager) before(ctx context.Context, r *record) (*record, error) {
	return m.recordOrBefore(ctx, r.Parent, func(s *store.Snapshot) bool { return s.Session == r.Session })
}

// isOffline reports whether a record is of changes that no turn made.
func (r *record) isOffline() bool {
	return (r.Kind == kindBase || r.Kind == kindIntent) && len(r.data.Windows) == 0 && (r.data.Counts != [3]int{} || r.data.Unknown != "")
}

func (m *FileSnapshotManager) momentOf(r *record) *Moment {
	kind := r.Kind
	switch {
	case kind == kindIntent: // what it found
		kind = kindBase
	case kind == kindRestore && r.data.Undoes != 0:
		if kind = "redo"; r.data.Tops == topsRedo {
			kind = "undo"
		}
	}
	mo := &Moment{EntryID: r.Entry, TurnIndex: r.turn(), Kind: kind, Unknown: r.data.Unknown, Interrupted: r.data.Interrupted, Partial: r.data.Partial, Tree: r.Tree}
	mo.count(r.data.Counts)
	if r.Seq != 0 {
		mo.Snapshot = r.Snapshot
	}
	if r.Kind != kindStart {
		mo.m, mo.r = m, r
	}
	return mo
}

func (mo *Moment) count(counts [3]int) {
	mo.Added, mo.Modified, mo.Deleted = counts[0], counts[1], counts[2]
}

// recount takes back that the changes are not known, if they are by now: the
// store may have been repaired since.
func (mo *Moment) recount(ctx context.Context) error {
	own, _, err := mo.m.changesIn(ctx, mo.r)
	if err == nil && own.Unknown == "" {
		mo.count(own.counts())
		mo.Unknown = ""
	}
	return err
}

// between yields what the session of r found changed after a step that no turn
// did, and what it restored, down from r. It reports whether to go on.
func (m *FileSnapshotManager) between(ctx context.Context, after, r *record, yield func(*Moment, error) bool) bool {
	for r != nil && r.Seq > after.Seq {
		if (r.isOffline() || r.Kind == kindRestore && r.data.Counts != [3]int{}) && !yield(m.momentOf(r), nil) {
			return false
		}
		if r.Parent == 0 {
			break
		}
		var err error
		if r, err = m.before(ctx, r); err != nil {
			yield(nil, err)
			return false
		}
	}
	return true
}

// A SessionInfo is a session that has recorded something in the store.
type SessionInfo struct {
	Session  string
	Worktree string    // identity of its directory
	Root     string    // path of that
	Began    time.Time // zero: not known
	Last     time.Time // when it recorded something last
	Steps    int       // turns that changed something, on the path to where it stands
	Turns    int       // turns that it has had at least
	Open     bool      // a turn of it is open
	EntryID  string    // of its newest step
}

// Sessions lists the sessions of the manager's directory, or of all that share
// the store, the one that recorded something last first; not those of which
// nothing was kept.
func (m *FileSnapshotManager) Sessions(ctx context.Context, all bool) ([]SessionInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	open, _, err := m.readTurns()
	if err != nil {
		return nil, err
	}
	var list []SessionInfo
	for s, err := range m.store.Sessions(ctx) {
		if err != nil {
			return nil, err
		}
		mine := s.Worktree == m.project.Worktree()
		if !all && !mine || IsEdit(s) || s.Pruned {
			continue
		}
		info := SessionInfo{Session: s.Session, Worktree: s.Worktree, Root: s.Root, Last: s.Time}
		if t := open.of(s.Session); mine && t != nil {
			if info.Open, err = m.isOpen(t); err != nil {
				return nil, err
			}
		}
		if err := m.fillInfo(ctx, &info, s); err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrFormat) {
			return nil, err
		}
		list = append(list, info)
	}
	return list, nil
}

// fillInfo fills in what the records say of a session whose newest is s.
func (m *FileSnapshotManager) fillInfo(ctx context.Context, info *SessionInfo, s *store.Snapshot) error {
	r, err := readRecord(s)
	if err != nil {
		return err
	}
	if r, err = m.record(ctx, r.step()); err != nil {
		return err
	}
	info.Steps, info.EntryID, info.Turns = r.data.Depth, r.Entry, r.turn()+1
	if r, err = m.record(ctx, r.start()); err != nil {
		return err
	}
	info.Began = r.Time
	return nil
}

// OpenTurns lists the sessions that have a turn open in the directory.
func (m *FileSnapshotManager) OpenTurns() ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, _, err := m.readTurns()
	if err != nil {
		return nil, err
	}
	var list []string
	for _, o := range t.Open {
		if open, err := m.isOpen(o); err != nil {
			return nil, err
		} else if open {
			list = append(list, o.Session)
		}
	}
	return list, nil
}

// OpenTools lists the tools that run in the session's turn, which may be none.
func (m *FileSnapshotManager) OpenTools() ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, _, err := m.readTurns()
	if err != nil {
		return nil, err
	}
	if o := t.of(m.opts.Session); o != nil {
		return o.Tools, nil
	}
	return nil, nil
}

// isOpen reports whether a turn may still go on.
func (m *FileSnapshotManager) isOpen(t *openTurn) (bool, error) {
	if t.End != 0 || t.Session == m.opts.Session && m.isOurs(t) {
		return t.End == 0, nil
	}
	return m.isAlive(t)
}
