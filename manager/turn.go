package manager

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// Initialize looks at the directory at the start of a session, or when it is
// taken up again. What has changed since the session's newest snapshot is
// nobody's turn: Result.Offline has it.
func (m *FileSnapshotManager) Initialize(ctx context.Context) (*Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	result, err := m.look(ctx, m.turnOptions(), func(o *look) error {
		return m.begin(ctx, o)
	})
	if err != nil {
		return nil, fmt.Errorf("initialize session %q: %w", m.opts.Session, err)
	}
	return result, nil
}

// begin records how the directory was found; for a new session, as its start.
func (m *FileSnapshotManager) begin(ctx context.Context, o *look) error {
	if o.head != nil {
		return m.found(ctx, o, kindBase)
	}
	r := &record{Snapshot: &store.Snapshot{Kind: kindStart}}
	if o.changed {
		r.data.Windows = o.windows
	}
	if o.last != nil {
		r.Base = o.last.State()
	}
	return m.commit(ctx, o, r)
}

// A Turn is what a runtime may say of a turn that begins.
type Turn struct {
	Leaf         string // session entry that it builds on; default: where the last one left off
	RuntimeIndex *int   // the runtime's own number for it; default none
}

// OnTurnStart looks at the directory and opens a turn. A turn that is open
// already, since it never ended, is closed as interrupted: what it did not
// claim is contested. turn may be nil.
//
// The error matches [ErrTurnOpen] if the turn that is open belongs to another
// process, which is alive.
func (m *FileSnapshotManager) OnTurnStart(ctx context.Context, turn *Turn) (*Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if turn == nil {
		turn = new(Turn)
	}
	result, err := m.look(ctx, m.turnOptions(), func(o *look) error {
		if err := m.hold(); err != nil {
			return err
		}
		if err := m.begin(ctx, o); err != nil {
			return err
		}
		if old := o.turns.of(m.opts.Session); old != nil {
			if err := m.interrupt(ctx, o, old); err != nil {
				return err
			}
		}
		next := &openTurn{Session: m.opts.Session, RuntimeTurn: turn.RuntimeIndex, After: o.newestSeq(), Base: o.state,
			Above: turn.Leaf, ToolWindows: m.opts.ToolWindows, Held: m.held != nil, Boot: vfs.BootID(), Seen: time.Now()}
		var err error
		if next.Prev, next.Turn, err = m.position(ctx, o.head, turn.Leaf); err != nil {
			return err
		}
		o.turns.Open = append(o.turns.Open, next)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("start a turn of session %q: %w", m.opts.Session, err)
	}
	return result, nil
}

// hold takes the session's lock for a turn, unless the turn may end in another
// process.
func (m *FileSnapshotManager) hold() (err error) {
	if m.opts.Detached || m.held != nil {
		return nil
	}
	if m.held, err = m.lockSession(m.opts.Session); err == nil && m.held == nil {
		err = ErrTurnOpen
	}
	return err
}

// interrupt closes a turn that was cut off. What is on the disk now is
// recorded.
func (m *FileSnapshotManager) interrupt(ctx context.Context, o *look, t *openTurn) error {
	last, err := m.record(ctx, o.head.step())
	if err != nil {
		return err
	}
	if last.Seq > t.After && last.data.Turn == t.Turn && last.data.Prev == t.Prev {
		o.turns.remove(t) // cut off when its step was recorded already
		return nil
	}
	if t.End == 0 {
		t.End = max(o.newestSeq(), 1)
	}
	list, err := m.stretches(ctx, o.newestSeq(), t, true)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].contested = true
	}
	_, err = m.step(ctx, o, t, join(list), &record{Snapshot: new(store.Snapshot), data: recordData{Interrupted: true}}, false)
	if err == nil {
		o.turns.remove(t)
	}
	return err
}

// step records a turn, unless it has changed nothing and need not be recorded.
func (m *FileSnapshotManager) step(ctx context.Context, o *look, t *openTurn, list []stretch, r *record, always bool) ([]change, error) {
	claims, foreign := newPathSet(t.Claims), newPathSet(t.Foreign)
	changes, err := changesOf(ctx, m.store, list, claims, foreign)
	if err != nil || !isReal(changes) && !always {
		return nil, err
	}
	r.Kind, r.Base = kindStep, t.Base
	r.setParts(list, o.state)
	own, _ := diffsOf(changes)
	r.data.Counts = own.counts()
	r.data.Turn, r.data.RuntimeTurn, r.data.Prev = t.Turn, t.RuntimeTurn, t.Prev
	r.data.Claims, r.data.Foreign = t.Claims, t.Foreign
	r.Above = t.Above
	return changes, m.commit(ctx, o, r)
}

// OnToolStart says that a tool of the turn begins; what it is called is the
// runtime's business, but no two may run under one name. Only where
// [Options.ToolWindows] is set.
func (m *FileSnapshotManager) OnToolStart(ctx context.Context, tool string) error {
	return m.onTool(ctx, "start", tool, kindBase, func(t *openTurn) error {
		if slices.Contains(t.Tools, tool) {
			return errors.New("it runs already")
		}
		t.Tools = append(t.Tools, tool)
		return nil
	})
}

// OnToolEnd says that a tool has ended.
func (m *FileSnapshotManager) OnToolEnd(ctx context.Context, tool string) error {
	return m.onTool(ctx, "end", tool, kindTool, func(t *openTurn) error {
		i := slices.Index(t.Tools, tool)
		if i < 0 {
			return errors.New("it does not run")
		}
		t.Tools = slices.Delete(t.Tools, i, i+1)
		return nil
	})
}

func (m *FileSnapshotManager) onTool(ctx context.Context, what, tool, kind string, fn func(*openTurn) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.look(ctx, m.turnOptions(), func(o *look) error {
		t := o.turns.of(m.opts.Session)
		switch {
		case t == nil:
			return ErrNoTurn
		case !t.ToolWindows:
			return errors.New("the turn was opened without tool windows")
		}
		if err := m.found(ctx, o, kind); err != nil {
			return err
		}
		t.Seen = time.Now()
		return fn(t)
	})
	if err != nil {
		return fmt.Errorf("%s tool %q: %w", what, tool, err)
	}
	return nil
}

// Claim says that the turn that is open writes these files, or has written
// them: they are its own, whoever else is at work. Paths are relative to the
// session's directory, or absolute.
//
// Errors match [ErrNoTurn] and [ErrOutside].
func (m *FileSnapshotManager) Claim(ctx context.Context, paths ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list [][]byte
	for _, p := range paths {
		rel, err := m.relative(p)
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		list = append(list, []byte(rel))
	}
	err := m.withTurns(ctx, func(t *turns) error {
		mine := t.of(m.opts.Session)
		if mine == nil {
			return ErrNoTurn
		}
		mine.Seen = time.Now()
		mine.Claims = addPaths(mine.Claims, list)
		for _, o := range t.Open {
			if o != mine {
				o.Foreign = addPaths(o.Foreign, list)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	return nil
}

func addPaths(set, paths [][]byte) [][]byte {
	for _, p := range paths {
		if !slices.ContainsFunc(set, func(q []byte) bool { return string(p) == string(q) }) {
			set = append(set, p)
		}
	}
	return set
}

// relative returns a path as trees have it.
func (m *FileSnapshotManager) relative(p string) (string, error) {
	rel := filepath.ToSlash(p)
	if filepath.IsAbs(p) {
		r, err := filepath.Rel(m.project.Root, p)
		if err != nil {
			return "", fmt.Errorf("path %q: %w", p, ErrOutside)
		}
		rel = filepath.ToSlash(r)
	}
	rel = path.Clean(rel)
	if rel == "." || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", fmt.Errorf("path %q: %w", p, ErrOutside)
	}
	return rel, nil
}

// OnTurnEnd looks at the directory, records what the turn has changed and has
// it appended to the session's log. Where no turn was opened, it is one that
// began with the session's newest snapshot. A turn that changed nothing is
// counted and not recorded.
//
// With a nil append the step goes to our own log of the session.
//
// An error of append is returned together with a Result; with any other error
// there is none, the turn is still open and nothing was recorded.
func (m *FileSnapshotManager) OnTurnEnd(ctx context.Context, append AppendFunc) (*Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	result, err := m.endTurn(ctx, m.turnOptions(), append == nil, nil)
	if err != nil {
		return nil, fmt.Errorf("end a turn of session %q: %w", m.opts.Session, err)
	}
	if append == nil {
		err = m.appendOwn(ctx)
	} else {
		err = m.tell(ctx, result, append)
	}
	if err != nil {
		return result, fmt.Errorf("log a turn of session %q: %w", m.opts.Session, err)
	}
	return result, nil
}

// SnapshotOptions are the choices at [FileSnapshotManager.Snapshot]. The zero
// value is the default.
type SnapshotOptions struct {
	Label    string         // name of the snapshot; one with a name is recorded even if nothing changed
	Partial  bool           // over a limit, take what fits; otherwise that is a *tree.BudgetError
	Progress *tree.Progress // counted up during the capture; default none
}

// Snapshot records the directory for people who work without a runtime: what
// has changed since the session's newest snapshot is a turn. It goes to our
// own log of the session. opts may be nil.
func (m *FileSnapshotManager) Snapshot(ctx context.Context, opts *SnapshotOptions) (*Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if opts == nil {
		opts = new(SnapshotOptions)
	}
	capture := &tree.CaptureOptions{Limits: m.opts.Limits, Partial: opts.Partial, Progress: opts.Progress}
	result, err := m.endTurn(ctx, capture, true, opts)
	if err != nil {
		return nil, err
	}
	return result, m.appendOwn(ctx)
}

// endTurn records the end of a turn. The step gets an entry ID of ours if the
// log is ours. A snapshot that somebody asked for is recorded whenever the
// directory is not as it was, whoever changed it.
func (m *FileSnapshotManager) endTurn(ctx context.Context, opts *tree.CaptureOptions, ours bool, asked *SnapshotOptions) (*Result, error) {
	entry, err := m.newEntryID(ctx)
	if err != nil {
		return nil, err
	}
	result, err := m.look(ctx, opts, func(o *look) error {
		newEntry := func(r *record) *record {
			if asked != nil {
				r.Label = asked.Label
			}
			if ours {
				r.Entry, r.data.Told = entry, true
			}
			return r
		}
		t := o.turns.of(m.opts.Session)
		announced := t != nil
		switch {
		case o.head == nil: // the first of all
			r := newEntry(&record{Snapshot: &store.Snapshot{Kind: kindStart}})
			r.data.Windows = o.windows
			if o.last != nil {
				r.Base = o.last.State()
			}
			if err := m.commit(ctx, o, r); err != nil {
				return err
			}
			o.result.EntryID, o.result.Data = r.Entry, m.dataOf(r, nil)
			return nil
		case !announced:
			t = &openTurn{Session: m.opts.Session, After: o.head.Seq, Base: o.head.State()}
			var err error
			if t.Prev, t.Turn, err = m.position(ctx, o.head, ""); err != nil {
				return err
			}
			o.windows = append(o.windows, m.opts.Session)
		}
		list, err := m.stretches(ctx, o.newestSeq(), t, announced)
		if err != nil {
			return err
		}
		var changes []change
		r := newEntry(&record{Snapshot: new(store.Snapshot)})
		if mine := slices.Contains(o.windows, m.opts.Session); o.changed && mine {
			list = join(append(list, stretch{o.last.State(), o.state, len(o.windows) > 1}))
			r.data.Windows = o.windows
		} else if err := m.found(ctx, o, kindBase); err != nil {
			return err
		}
		always := asked != nil && (asked.Label != "" || o.state.Tree != o.result.Since.State.Tree)
		if changes, err = m.step(ctx, o, t, list, r, always); err != nil {
			return err
		}
		if r.Seq != 0 {
			o.result.EntryID, o.result.Data = r.Entry, m.dataOf(r, changes)
		} else if err := m.found(ctx, o, kindBase); err != nil { // only what is captured has changed
			return err
		}
		if announced {
			o.turns.remove(t)
		}
		m.turn, m.turnOf = t.Turn+1, o.head.step()
		return nil
	})
	if err == nil && m.held != nil {
		m.held.Close() // it never fails on a lock
		m.held = nil
	}
	return result, err
}
