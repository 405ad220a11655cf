package manager

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A Result is what came of looking at the directory.
type Result struct {
	EntryID string            // session entry of the step; "": none, or the runtime did not say
	Data    *StepSnapshotData // of the step; nil: the turn changed nothing
	Offline *Diff             // what was found changed that is no turn's doing; nil: nothing

	Tree     store.ID         // of the directory
	Since    *Point           // where the session stood before; nil: this is its start
	Snapshot *store.Snapshot  // what was recorded last; nil: nothing changed
	Capture  *tree.Result     // what was found, and what was left out
	Written  store.WriteStats // what it added to the store
}

// An observation is a capture under the lock on the worktree's turns.
type observation struct {
	turns   *turns
	w       *store.Writer
	capture *tree.Result
	state   store.State // of the directory now
	last    *record     // newest record of the worktree, of any session; nil: none
	head    *record     // newest of this session; nil: none
	windows []string    // open until now
	changed bool        // the tree is not that of last
	result  *Result
}

// observe captures the directory and calls fn to record what was found. The
// caller holds mu.
func (m *FileSnapshotManager) observe(ctx context.Context, opts *tree.CaptureOptions, fn func(*observation) error) (*Result, error) {
	ws, err := m.workspace()
	if err != nil {
		return nil, err
	}
	o := &observation{result: new(Result)}
	err = m.withTurns(ctx, func(t *turns) (err error) {
		o.turns = t
		if o.w, err = m.store.Begin(ctx); err != nil {
			return err
		}
		defer func() {
			o.result.Written = o.w.Stats()
			// What was put and not committed stays, for the next try.
			if cerr := o.w.Close(); cerr != nil {
				m.log.Debug("writer not closed cleanly", "err", cerr)
			}
		}()
		if o.capture, err = ws.Capture(ctx, o.w, opts); err != nil {
			return err
		}
		o.state = store.State{Tree: o.capture.Tree, Coverage: o.capture.Coverage}
		if o.last, err = m.newest(ctx, store.AnySession); err != nil {
			return err
		}
		if o.head, err = m.newest(ctx, m.opts.Session); err != nil {
			return err
		}
		if o.head != nil && o.head.step() != 0 {
			r, err := m.record(ctx, o.head.step())
			if err != nil {
				return err
			}
			o.result.Since = pointOf(&step{entry: r.Entry, record: r})
		}
		o.windows = t.windows()
		o.changed = o.last == nil || o.last.Tree != o.state.Tree
		if err := fn(o); err != nil {
			return err
		}
		return m.bury(t, o.newestSeq())
	})
	if err != nil {
		return nil, err
	}
	o.result.Tree, o.result.Capture = o.state.Tree, o.capture
	return o.result, nil
}

// turnOptions are those of a capture that belongs to a turn: over a limit, it
// takes what fits.
func (m *FileSnapshotManager) turnOptions() *tree.CaptureOptions {
	limits := m.opts.Limits
	if limits.Time == 0 {
		limits.Time = defaultTime
	}
	return &tree.CaptureOptions{Limits: limits, Partial: true}
}

// newest returns the newest record of a session in the worktree, nil if there
// is none.
func (m *FileSnapshotManager) newest(ctx context.Context, session string) (*record, error) {
	s, err := m.store.Newest(ctx, m.project.Worktree(), session)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return readRecord(s)
}

// newestSeq returns the number of the worktree's newest record.
func (o *observation) newestSeq() uint64 {
	if o.last == nil {
		return 0
	}
	return o.last.Seq
}

// found records that the directory has changed since the last record, unless
// it has not. The record is of the given kind and becomes o.last.
func (m *FileSnapshotManager) found(ctx context.Context, o *observation, kind string) error {
	if !o.changed {
		return nil
	}
	if len(o.windows) == 0 && o.last != nil {
		diff, err := m.diff(ctx, o.last.State(), o.state)
		if err != nil {
			return err
		}
		o.result.Offline = diff.orNil()
	}
	r := &record{Snapshot: &store.Snapshot{Kind: kind}}
	r.data.Windows = o.windows
	if d := o.result.Offline; d != nil {
		r.data.Counts = d.counts()
	}
	if o.last != nil {
		r.Base = o.last.State()
	}
	return m.commit(ctx, o, r)
}

// commit records the state that was observed. The record brings its kind and
// what is special to it.
func (m *FileSnapshotManager) commit(ctx context.Context, o *observation, r *record) error {
	r.Tree, r.Coverage, r.Time = o.state.Tree, o.state.Coverage, time.Now()
	r.Worktree, r.Root, r.Session = m.project.Worktree(), m.project.Root, m.opts.Session
	head, err := m.project.Head()
	if err != nil { // it is only for people
		m.log.Warn("git commit not recorded", "root", m.project.Root, "err", err)
	}
	r.Head = head
	r.data.After = o.newestSeq()
	if r.data.Partial = o.capture.Partial; o.head != nil {
		r.Parent = o.head.Seq
		r.data.Pinned = max(r.data.Pinned, o.head.data.Pinned)
		if r.data.Prev == 0 {
			r.data.Prev = o.head.step()
		}
		prev, err := m.record(ctx, r.data.Prev)
		if err != nil {
			return err
		}
		r.data.Start = prev.start()
	}
	if r.Kind == kindStep {
		if err := m.link(ctx, r); err != nil {
			return err
		}
	}
	r.write()
	if err := o.w.Commit(ctx, r.Snapshot, r.Parent); err != nil {
		return err
	}
	o.last, o.head, o.changed, o.result.Snapshot = r, r, false, r.Snapshot
	return nil
}

// Initialize looks at the directory at the start of a session, or when it is
// taken up again. What has changed since the session's newest snapshot is
// nobody's turn: Result.Offline has it.
func (m *FileSnapshotManager) Initialize(ctx context.Context) (*Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	result, err := m.observe(ctx, m.turnOptions(), func(o *observation) error {
		return m.begin(ctx, o)
	})
	if err != nil {
		return nil, fmt.Errorf("initialize session %q: %w", m.opts.Session, err)
	}
	return result, nil
}

// begin records how the directory was found; for a new session, as its start.
func (m *FileSnapshotManager) begin(ctx context.Context, o *observation) error {
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
	result, err := m.observe(ctx, m.turnOptions(), func(o *observation) error {
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
func (m *FileSnapshotManager) interrupt(ctx context.Context, o *observation, t *openTurn) error {
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
func (m *FileSnapshotManager) step(ctx context.Context, o *observation, t *openTurn, list []stretch, r *record, always bool) ([]change, error) {
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
	_, err := m.observe(ctx, m.turnOptions(), func(o *observation) error {
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

// An AppendFunc appends the data of a step to the runtime's session log, as
// that of a custom entry of type step-snapshot, and returns the entry's ID. A
// runtime that does not know the ID returns "": RebuildIndex finds it later.
// It is called by the goroutine that called OnTurnEnd, and may not call the
// manager. An error leaves the step recorded, and it is offered again at the
// end of the next turn.
type AppendFunc func(ctx context.Context, data *StepSnapshotData) (entryID string, err error)

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
	result, err := m.observe(ctx, opts, func(o *observation) error {
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

// newEntryID returns an ID that no entry in the store has: 8 hex digits, as pi
// has them.
func (m *FileSnapshotManager) newEntryID(ctx context.Context) (string, error) {
	for {
		var b [4]byte
		rand.Read(b[:]) // never fails (crypto/rand)
		id := hex.EncodeToString(b[:])
		used := false
		for _, err := range m.store.ByEntry(ctx, id) {
			if err != nil {
				return "", err
			}
			used = true
		}
		if !used {
			return id, nil
		}
	}
}

// dataOf returns the data of a step's entry.
func (m *FileSnapshotManager) dataOf(r *record, changes []change) *StepSnapshotData {
	own, contested := diffsOf(changes)
	d := &StepSnapshotData{SnapshotTreeHash: r.Tree, Diff: own.orNil(), Contested: contested.orNil(), TurnIndex: r.data.Turn,
		RuntimeTurnIndex: r.data.RuntimeTurn, SnapshotSeq: r.Seq, Interrupted: r.data.Interrupted, Partial: r.data.Partial}
	if r.Kind == kindStep {
		d.BaselineTreeHash = &r.Base.Tree
	}
	return d
}

// tell gives the runtime the steps that it has not heard of, oldest first.
func (m *FileSnapshotManager) tell(ctx context.Context, result *Result, append AppendFunc) error {
	untold, err := m.untold(ctx)
	if err != nil {
		return err
	}
	for _, r := range slices.Backward(untold) {
		data := result.Data
		if data == nil || data.SnapshotSeq != r.Seq {
			changes, err := m.changes(ctx, r)
			if err != nil {
				return err
			}
			data = m.dataOf(r, changes)
		}
		id, err := append(ctx, data)
		if err != nil {
			return err
		}
		if err := m.bind(ctx, r, id); err != nil {
			return err
		}
		if data == result.Data {
			result.EntryID = id
		}
		if m.given == nil || id == "" {
			continue
		}
		if _, ok := m.given.Entry(id); !ok { // the runtime does not keep the tree up to date
			m.given.Add(session.Entry{ID: id, ParentID: m.given.Leaf(), Type: "custom", CustomType: session.StepSnapshot, Data: encode(data)})
		}
	}
	return nil
}

// untold returns the steps that no log has an entry for, newest first.
func (m *FileSnapshotManager) untold(ctx context.Context) ([]*record, error) {
	head, err := m.newest(ctx, m.opts.Session)
	if err != nil || head == nil {
		return nil, err
	}
	var list []*record
	for r, err := range m.back(ctx, head.step()) {
		if err != nil {
			return nil, err
		}
		if r.data.Told || r.Kind == kindStart {
			break
		}
		list = append(list, r)
	}
	return list, nil
}

// bind records which entry of the runtime's log a step has.
func (m *FileSnapshotManager) bind(ctx context.Context, r *record, entry string) error {
	amended := &record{new(store.Snapshot), r.data}
	*amended.Snapshot = *r.Snapshot
	amended.Entry, amended.data.Told = entry, true
	amended.write()
	if err := m.store.Amend(ctx, amended.Snapshot); err != nil {
		return err
	}
	m.loaded[r.Seq] = amended
	return nil
}

// appendOwn writes the steps that our own log of the session lacks.
func (m *FileSnapshotManager) appendOwn(ctx context.Context) error {
	if m.own == nil {
		log, err := session.OpenLog(ctx, m.store.FS(), m.sessionsDir()+"/"+m.opts.Session+".jsonl",
			&session.Header{ID: m.opts.Session, CWD: m.project.Root})
		if err != nil {
			return err
		}
		m.own = log
	}
	head, err := m.newest(ctx, m.opts.Session)
	if err != nil || head == nil {
		return err
	}
	if err := m.own.Refresh(ctx); err != nil {
		return err
	}
	var missing []*record
	parent := ""
	for r, err := range m.back(ctx, head.step()) {
		if err != nil {
			return err
		}
		if r.Entry == "" {
			continue // a start, or a step that the runtime has told nobody the entry of
		}
		if _, ok := m.own.Tree().Entry(r.Entry); ok {
			parent = r.Entry
			break
		}
		missing = append(missing, r)
	}
	var entries []session.Entry
	for _, r := range slices.Backward(missing) {
		changes, err := m.changes(ctx, r)
		if err != nil {
			return err
		}
		entries = append(entries, session.Entry{ID: r.Entry, ParentID: parent, Type: "custom", CustomType: session.StepSnapshot,
			Timestamp: r.Time, Data: encode(m.dataOf(r, changes))})
		parent = r.Entry
	}
	if len(entries) == 0 {
		return nil
	}
	return m.own.Append(ctx, entries...)
}
