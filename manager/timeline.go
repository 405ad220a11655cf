package manager

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// A Moment is a line of a session's timeline: a turn that changed something,
// the start of the session, or what was found changed that no turn did.
type Moment struct {
	EntryID     string // of a turn or a start; "": not known
	TurnIndex   int    // of a turn; -1 of the others
	Kind        string // "step", "start", or "base" for what no turn did
	Added       int    // paths that it added
	Modified    int    // and so on
	Deleted     int
	Interrupted bool            // the turn was cut off
	Partial     bool            // a limit was reached
	Tree        store.ID        // what the files were then
	Snapshot    *store.Snapshot // nil: the log has it, the store has not

	changes func(context.Context) ([]change, error)
}

// Changes lists what a turn did, with whose it is.
func (mo *Moment) Changes(ctx context.Context) (own, contested *Diff, err error) {
	if mo.changes == nil {
		return NewDiff(), NewDiff(), nil
	}
	changes, err := mo.changes(ctx)
	own, contested = diffsOf(changes)
	return own, contested, err
}

// Timeline yields what happened on the path to where the session stands,
// newest first. Each pair is a moment and nil, or nil and the error that ends
// the sequence.
func (m *FileSnapshotManager) Timeline(ctx context.Context) iter.Seq2[*Moment, error] {
	return func(yield func(*Moment, error) bool) {
		// The caller may ask the manager between two moments.
		m.mu.Lock()
		defer m.mu.Unlock()
		unlocked := func(mo *Moment, err error) bool {
			m.mu.Unlock()
			defer m.mu.Lock()
			return yield(mo, err)
		}
		log, err := m.entries(ctx)
		switch err = errors.Join(err, context.Cause(ctx)); {
		case err != nil:
			unlocked(nil, err)
		case log != nil:
			m.timelineOf(ctx, log, unlocked)
		default:
			m.timeline(ctx, unlocked)
		}
	}
}

// timeline yields the records of the session that are on its line of steps,
// and what was found between them.
func (m *FileSnapshotManager) timeline(ctx context.Context, yield func(*Moment, error) bool) {
	head, err := m.newest(ctx, m.opts.Session)
	if err == nil && head == nil {
		err = fmt.Errorf("session %q: %w", m.opts.Session, ErrNoSession)
	}
	if err != nil {
		yield(nil, err)
		return
	}
	next := head.step()
	for r := head; ; {
		onLine := r.isStep() && r.Seq == next
		if onLine {
			next = r.data.Prev
		}
		if (onLine || r.isOffline()) && !yield(m.momentOf(r), nil) {
			return
		}
		if r.Parent == 0 {
			return
		}
		above := r
		r, err = m.before(ctx, r)
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			yield(nil, err)
			return
		}
		if r == nil {
			return // the rest is lost
		}
		if r.Seq < next && next < above.Seq { // and so is the step that was to come
			if r.isStep() {
				next = r.Seq
			} else {
				next = r.data.Prev
			}
		}
	}
}

// before returns the session's record before another; nil if all are lost.
func (m *FileSnapshotManager) before(ctx context.Context, r *record) (*record, error) {
	return m.recordOrBefore(ctx, r.Parent, func(s *store.Snapshot) bool { return s.Session == r.Session })
}

// isOffline reports whether a record is of changes that no turn made.
func (r *record) isOffline() bool {
	return r.Kind == kindBase && len(r.data.Windows) == 0 && r.data.Counts != [3]int{}
}

func (m *FileSnapshotManager) momentOf(r *record) *Moment {
	mo := &Moment{EntryID: r.Entry, TurnIndex: -1, Kind: r.Kind, Added: r.data.Counts[0], Modified: r.data.Counts[1],
		Deleted: r.data.Counts[2], Interrupted: r.data.Interrupted, Partial: r.data.Partial, Tree: r.Tree, Snapshot: r.Snapshot}
	if r.Kind == kindStep {
		mo.TurnIndex = r.data.Turn
		mo.changes = func(ctx context.Context) ([]change, error) { return m.lockedChanges(ctx, &step{record: r}) }
	}
	return mo
}

// timelineOf yields the steps on the path to the leaf of a log, and what this
// session found between them.
func (m *FileSnapshotManager) timelineOf(ctx context.Context, log *session.Tree, yield func(*Moment, error) bool) {
	steps, err := m.logSteps(log, m.leaf(log))
	if err != nil {
		yield(nil, err)
		return
	}
	newer, err := m.newest(ctx, m.opts.Session)
	if err != nil {
		yield(nil, err)
		return
	}
	for _, e := range slices.Backward(steps) {
		s, err := m.stepOf(ctx, e)
		if err != nil {
			yield(nil, err)
			return
		}
		if s.record != nil {
			if !m.offlineBetween(ctx, s.record, newer, yield) {
				return
			}
			newer = s.record
		}
		if !yield(m.momentAt(s), nil) {
			return
		}
	}
	p, err := m.startPoint(ctx, log)
	if errors.Is(err, ErrUnknown) || errors.Is(err, ErrNoSession) {
		return // nothing says
	}
	if err != nil {
		yield(nil, err)
		return
	}
	if p.Snapshot != nil {
		yield(&Moment{EntryID: p.EntryID, TurnIndex: -1, Kind: kindStart, Tree: p.State.Tree, Snapshot: p.Snapshot}, nil)
		return
	}
	yield(&Moment{TurnIndex: -1, Kind: kindStart, Tree: p.State.Tree}, nil)
}

// offlineBetween yields what the session found changed after a record that no
// turn did, down from a newer one. It reports whether to go on.
func (m *FileSnapshotManager) offlineBetween(ctx context.Context, after, r *record, yield func(*Moment, error) bool) bool {
	for r != nil && r.Seq > after.Seq && r.Session == after.Session {
		if r.isOffline() && !yield(m.momentOf(r), nil) {
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

// momentAt returns the moment of a step of the log.
func (m *FileSnapshotManager) momentAt(s *step) *Moment {
	if s.record != nil {
		mo := m.momentOf(s.record)
		mo.EntryID = s.entry
		return mo
	}
	mo := &Moment{EntryID: s.entry, TurnIndex: s.turn(), Kind: kindStep, Tree: s.data.SnapshotTreeHash}
	mo.changes = func(ctx context.Context) ([]change, error) { return m.lockedChanges(ctx, s) }
	if d := s.data.Diff; d != nil {
		mo.Added, mo.Modified, mo.Deleted = len(d.Added), len(d.Modified), len(d.Deleted)
	}
	return mo
}

func (m *FileSnapshotManager) lockedChanges(ctx context.Context, s *step) ([]change, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stepChanges(ctx, s)
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
// the store, the one that recorded something last first.
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
		if !all && !mine {
			continue
		}
		info := SessionInfo{Session: s.Session, Worktree: s.Worktree, Root: s.Root, Last: s.Time}
		if t := open.of(s.Session); mine && t != nil {
			if info.Open, err = m.isOpen(t); err != nil {
				return nil, err
			}
		}
		r, err := readRecord(s)
		if err != nil {
			return nil, err
		}
		if r, err = m.stepAt(ctx, r.step()); err != nil {
			return nil, err
		}
		info.Steps, info.EntryID = r.data.Depth, r.Entry
		if r.Kind == kindStep {
			info.Turns = r.data.Turn + 1
		}
		if r, err = m.stepAt(ctx, r.start()); err != nil {
			return nil, err
		}
		info.Began = r.Time
		list = append(list, info)
	}
	return list, nil
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

// isOpen reports whether a turn may still go on.
func (m *FileSnapshotManager) isOpen(t *openTurn) (bool, error) {
	if t.End != 0 || t.Session == m.opts.Session && m.isOurs(t) {
		return t.End == 0, nil
	}
	return m.isAlive(t)
}
