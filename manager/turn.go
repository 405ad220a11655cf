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
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// Initialize looks at the directory at the start of a session, or when it is
// taken up again. What has changed since the session's newest snapshot is
// nobody's turn: Result.Offline has it. A turn that was cut off is closed as
// interrupted. Where the runtime has a log of the session, RebuildIndex goes
// first.
func (m *FileSnapshotManager) Initialize(ctx context.Context) (*Result, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := m.adoptFile(ctx); err != nil {
		return nil, fmt.Errorf("initialize session %q: %w", m.opts.Session, err)
	}
	result, err := m.look(ctx, m.turnOptions(), func(o *look) error {
		if err := m.begin(ctx, o); err != nil {
			return err
		}
		err := m.closeCutOff(ctx, o)
		if errors.Is(err, ErrTurnOpen) {
			return nil // its process will end it
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("initialize session %q: %w", m.opts.Session, err)
	}
	return result, nil
}

// begin records how the directory was found; for a new session, as its start.
// What has changed since the session looked last, in nobody's turn, is offline,
// whoever found it.
func (m *FileSnapshotManager) begin(ctx context.Context, o *look) error {
	if head := o.head; head != nil {
		if err := m.found(ctx, o, kindBase); err != nil {
			return err
		}
		since := &openTurn{After: head.Seq, Base: head.State()} // of no session: while nobody's window was open
		list, err := m.stretches(ctx, o.newestSeq(), since, false)
		if err != nil {
			return err
		}
		changes, err := changesOf(ctx, m.tree.pages, slices.DeleteFunc(list, func(s stretch) bool { return s.contested }), nil, nil)
		own, _ := diffsOf(changes)
		own.Unknown, err = lost(err)
		o.result.Offline = own.orNil()
		return err
	}
	r, err := m.startRecord(ctx, o)
	if err != nil {
		return err
	}
	return m.commit(ctx, o, r)
}

// startRecord returns the record of a session's start, to be committed. A session
// whose log goes on from another one's begins where that stood.
func (m *FileSnapshotManager) startRecord(ctx context.Context, o *look) (*record, error) {
	r := &record{Snapshot: &store.Snapshot{Kind: kindStart}}
	if o.hasChanged() {
		r.data.Windows = o.windows
	}
	if o.last != nil {
		r.Base = o.last.State()
	}
	log, err := m.entries(ctx)
	if err != nil || log == nil {
		return r, err
	}
	l, err := m.lineOf(ctx, log)
	if err != nil {
		return nil, err
	}
	at, err := l.forkedAt(ctx)
	if at == nil || err != nil {
		return r, err
	}
	r.data.Fork, r.data.Start, r.data.Depth = at.Seq, at.start(), at.data.Depth
	r.data.Next, err = (&line{m: m}).nextTurn(ctx, at)
	return r, err
}

// closeCutOff closes the session's open turn if it was cut off; what was found
// changed must have been recorded. The error matches [ErrTurnOpen] if it is
// another process's, which is alive.
func (m *FileSnapshotManager) closeCutOff(ctx context.Context, o *look) error {
	t := o.turns.of(m.opts.Session)
	if t == nil || m.isOurs(t) {
		return nil
	}
	if err := m.notOurs(t); !errors.Is(err, ErrNoTurn) {
		return err
	}
	return m.interrupt(ctx, o, t)
}

// A Turn is what a runtime may say of a turn that begins.
type Turn struct {
	Leaf         string // session entry that it builds on; default: where the last one left off
	RuntimeIndex *int   // the runtime's own number for it; default none

	// Continues says that the turn goes on with the prompt of the one before: a
	// runtime may announce each call of a model. Both have one number then, and
	// are taken back together.
	Continues bool
}

// OnTurnStart looks at the directory and opens a turn. A turn that is open
// already, since it never ended, is closed as interrupted: what it did not
// claim is contested. turn may be nil.
//
// The error matches [ErrTurnOpen] if the turn that is open belongs to another
// process, which is alive, and [ErrLocked] if no turn may begin: see [NoTurns].
func (m *FileSnapshotManager) OnTurnStart(ctx context.Context, turn *Turn) (*Result, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if turn == nil {
		turn = new(Turn)
	}
	if err := m.knowsLeaf(ctx, turn.Leaf); err != nil {
		return nil, fmt.Errorf("start a turn of session %q: %w", m.opts.Session, err)
	}
	held := m.held != nil // by a turn that is open
	turnLeaf, turnLeafAt := m.turnLeaf, m.turnLeafAt
	result, err := m.look(ctx, m.turnOptions(), func(o *look) error {
		if err := m.checkNoTurns(); err != nil {
			return err
		}
		if old := o.turns.of(m.opts.Session); old != nil && !m.isOurs(old) {
			if err := m.notOurs(old); !errors.Is(err, ErrNoTurn) {
				return err
			}
		}
		if err := m.hold(ctx); err != nil {
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
			ToolWindows: m.opts.ToolWindows, Held: m.held != nil, Boot: vfs.BootID(), Seen: time.Now()}
		for _, other := range o.turns.Open {
			next.Foreign = addPaths(next.Foreign, other.Claims)
		}
		l, err := m.line(ctx)
		if err != nil {
			return err
		}
		if l.log != nil {
			if turn.Leaf != "" {
				m.turnLeaf, m.turnLeafAt = turn.Leaf, l.log.Leaf()
			}
			next.Leaf, next.LeafAt = m.leaf(l.log), l.log.Leaf()
		}
		if next.Prev, next.Turn, err = l.position(ctx, o.w); err != nil {
			return err
		}
		if turn.Continues {
			last, err := m.stepAt(ctx, o.head.step(), m.opts.Session)
			if err != nil {
				return err
			}
			if last.Session == m.opts.Session && last.turn() == next.Turn-1 && last.turn() >= 0 {
				next.Turn--
			}
		}
		o.turns.Open = append(o.turns.Open, next)
		return nil
	})
	if err != nil {
		if !held {
			m.release()
		}
		m.turnLeaf, m.turnLeafAt = turnLeaf, turnLeafAt
		return nil, fmt.Errorf("start a turn of session %q: %w", m.opts.Session, err)
	}
	return result, nil
}

// interrupt closes a turn that was cut off. What is on the disk now is
// recorded.
func (m *FileSnapshotManager) interrupt(ctx context.Context, o *look, t *openTurn) error {
	recorded, err := m.isRecorded(ctx, o, t)
	if err != nil {
		return err
	}
	if recorded {
		o.turns.remove(t)
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
	r := &record{Snapshot: new(store.Snapshot), data: recordData{Interrupted: true}}
	if _, err = m.step(ctx, o, t, join(list), r, false); err == nil && r.Seq == 0 {
		err = m.empty(ctx, o, t)
	}
	if err == nil {
		o.turns.remove(t)
	}
	return err
}

// empty records a turn that changed nothing: it has a number, and is one of those
// that @~N counts. No log is told of it.
func (m *FileSnapshotManager) empty(ctx context.Context, o *look, t *openTurn) error {
	if err := m.found(ctx, o, kindBase); err != nil { // what is captured may have changed, or others have
		return err
	}
	r := &record{Snapshot: &store.Snapshot{Kind: kindEmpty, Base: t.Base}}
	r.data.Turn, r.data.RuntimeTurn, r.data.Prev, r.data.Told = t.Turn, t.RuntimeTurn, t.Prev, true
	if log, err := m.entries(ctx); err == nil && log != nil {
		r.Above = m.leaf(log)
		if r.Entry, err = m.endsAt(ctx, log, r.Above); err != nil {
			return err
		}
	}
	was := o.result.Snapshot
	err := m.commit(ctx, o, r)
	o.result.Snapshot = was
	return err
}

// isRecorded reports whether the step of an open turn is there: whoever
// recorded it did not get to saying that the turn has ended.
func (m *FileSnapshotManager) isRecorded(ctx context.Context, o *look, t *openTurn) (bool, error) {
	last, err := m.stepAt(ctx, o.head.step(), m.opts.Session)
	if err != nil {
		return false, err
	}
	return last.isTurn() && last.Seq > t.After && last.data.Turn == t.Turn && last.data.Prev == t.Prev, nil
}

// step records a turn, unless it has changed nothing and need not be recorded. What
// is captured no more, or is now, is a change: the state is another.
func (m *FileSnapshotManager) step(ctx context.Context, o *look, t *openTurn, list []stretch, r *record, always bool) ([]change, error) {
	claims, foreign := newPathSet(t.Claims), newPathSet(t.Foreign)
	changes, err := changesOf(ctx, m.tree.pages, list, claims, foreign)
	r.data.Unknown, err = lost(err)
	if err != nil || len(changes) == 0 && r.data.Unknown == "" && !always {
		return nil, err
	}
	r.Kind, r.Base = kindStep, t.Base
	r.setParts(list, o.state)
	own, _ := diffsOf(changes)
	r.data.Counts = own.counts()
	r.data.Turn, r.data.RuntimeTurn, r.data.Prev = t.Turn, t.RuntimeTurn, t.Prev
	r.data.Claims, r.data.Foreign = t.Claims, t.Foreign
	log, err := m.entries(ctx)
	switch {
	case err != nil:
		return nil, err
	case log != nil && r.data.Interrupted: // the session may have gone elsewhere since
		r.Above = endOfTurn(log, t.Leaf)
	case log != nil:
		r.Above = m.leaf(log)
	}
	return changes, m.commit(ctx, o, r)
}

// endsAt returns the entry by which a turn that changed nothing can be found: the
// leaf of the log, if it tells of no other turn.
func (m *FileSnapshotManager) endsAt(ctx context.Context, log *session.Tree, leaf string) (string, error) {
	if e, ok := log.Entry(leaf); !ok || e.Type != "message" {
		return "", nil
	}
	for s, err := range m.store.ByEntry(ctx, leaf) {
		if err != nil || s.Entry == leaf {
			return "", err
		}
	}
	return leaf, nil
}

// OnToolStart says that a tool of the turn begins; what it is called is the
// runtime's business, but no two may run under one name. Only where
// [Options.ToolWindows] is set. What it finds changed since the last look, while
// no window was open, is in Result.Offline.
//
// The error matches [ErrNoTurn] if no turn is open.
func (m *FileSnapshotManager) OnToolStart(ctx context.Context, tool string) (*Result, error) {
	result, err := m.lookInTurn(ctx, func(o *look, t *openTurn) error {
		if err := m.found(ctx, o, kindBase); err != nil {
			return err
		}
		if slices.Contains(t.Tools, tool) {
			return errors.New("it runs already")
		}
		t.Tools = append(t.Tools, tool)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("start tool %q: %w", tool, err)
	}
	return result, nil
}

// OnToolEnd says that a tool has ended, well or not. A tool that still runs
// when its turn ends has ended with it. Errors are those of OnToolStart.
func (m *FileSnapshotManager) OnToolEnd(ctx context.Context, tool string) (*Result, error) {
	result, err := m.lookInTurn(ctx, func(o *look, t *openTurn) error {
		if err := m.found(ctx, o, kindTool); err != nil {
			return err
		}
		i := slices.Index(t.Tools, tool)
		if i < 0 {
			return errors.New("it does not run")
		}
		t.Tools = slices.Delete(t.Tools, i, i+1)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("end tool %q: %w", tool, err)
	}
	return result, nil
}

// OnToolsRefused says that tools that were said to start have not been run, and
// will not be: what has changed since the last look is not their doing. Those that
// do not run are passed over. Other errors are those of OnToolStart.
func (m *FileSnapshotManager) OnToolsRefused(ctx context.Context, tools ...string) (*Result, error) {
	result, err := m.lookInTurn(ctx, func(o *look, t *openTurn) error {
		t.Tools = slices.DeleteFunc(t.Tools, func(tool string) bool { return slices.Contains(tools, tool) })
		o.windows = o.who()
		return m.found(ctx, o, kindBase)
	})
	if err != nil {
		return nil, fmt.Errorf("refuse tools %q: %w", tools, err)
	}
	return result, nil
}

// lookInTurn looks at the directory for the turn that is open, which has tool
// windows.
func (m *FileSnapshotManager) lookInTurn(ctx context.Context, fn func(*look, *openTurn) error) (*Result, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return m.look(ctx, m.turnOptions(), func(o *look) error {
		t := o.turns.of(m.opts.Session)
		if t != nil && !m.isOurs(t) {
			return m.notOurs(t)
		}
		switch {
		case t == nil:
			return ErrNoTurn
		case !t.ToolWindows:
			return errors.New("the turn was opened without tool windows")
		}
		return fn(o, t)
	})
}

// Claim says that the turn that is open writes these files, or has written
// them: they are its own, whoever else is at work. A directory stands for all
// that is in it. Paths are relative to the session's directory, or absolute.
// Best is to claim before writing: a turn of another session that has ended by
// then has booked as contested what it could not know.
//
// Errors match [ErrNoTurn], [ErrTurnOpen] and [ErrOutside].
func (m *FileSnapshotManager) Claim(ctx context.Context, paths ...string) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	var list [][]byte
	for _, p := range paths {
		rel, err := m.relative(p)
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		list = append(list, []byte(rel))
	}
	err = m.withTurns(ctx, func(t *turns) error {
		mine := t.of(m.opts.Session)
		switch {
		case mine == nil:
			return ErrNoTurn
		case !m.isOurs(mine):
			return m.notOurs(mine)
		}
		mine.hear()
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

// notOurs returns the error of who would go on with a turn that is not this
// manager's. One that was cut off is closed by the next look that may.
func (m *FileSnapshotManager) notOurs(t *openTurn) error {
	alive := t.End == 0
	if alive {
		var err error
		if alive, err = m.isAlive(t); err != nil {
			return err
		}
	}
	if !alive {
		return fmt.Errorf("%w: it was cut off", ErrNoTurn)
	}
	return ErrTurnOpen
}

func addPaths(set, paths [][]byte) [][]byte {
	for _, p := range paths {
		if !slices.ContainsFunc(set, func(q []byte) bool { return string(p) == string(q) }) {
			set = append(set, p)
		}
	}
	return set
}

// TreePath returns a path as trees have it, "." for the session's directory. The
// path is relative to that directory, or absolute; the error matches
// [ErrOutside] if it leads out.
func (m *FileSnapshotManager) TreePath(p string) (string, error) {
	rel := filepath.ToSlash(p)
	if filepath.IsAbs(p) {
		below := func(p string) bool {
			r, err := filepath.Rel(m.project.Root, p)
			rel = filepath.ToSlash(r)
			return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
		}
		if !below(p) && !below(realPath(p)) {
			if real, err := filepath.EvalSymlinks(p); err == nil && real == m.project.Root {
				return ".", nil
			}
			return "", fmt.Errorf("path %q: %w", p, ErrOutside)
		}
	}
	if rel = path.Clean(rel); rel == ".." || strings.HasPrefix(rel, "../") {
		return "", fmt.Errorf("path %q: %w", p, ErrOutside)
	}
	return rel, nil
}

// relative returns the path of something in the directory as trees have it.
func (m *FileSnapshotManager) relative(p string) (string, error) {
	rel, err := m.TreePath(p)
	if err == nil && rel == "." {
		err = fmt.Errorf("path %q: %w", p, ErrOutside)
	}
	return rel, err
}

// realPath resolves the symbolic links in the directories above a path, as far
// as they exist.
func realPath(p string) string {
	dir, rest := filepath.Dir(p), filepath.Base(p)
	for {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		up := filepath.Dir(dir)
		if up == dir {
			return p
		}
		dir, rest = up, filepath.Join(filepath.Base(dir), rest)
	}
}

// OnTurnEnd looks at the directory, records what the turn has changed and has
// it appended to the session's log. Where no turn was opened, it is one that
// began with the session's newest snapshot. A turn that changed nothing is
// recorded as such, and no log is told of it.
//
// With a nil append the step goes to our own log of the session.
//
// An error of append is returned together with a Result. With any other error
// there is none, and the turn is still open: end it again. The error matches
// [ErrTurnOpen] if the turn belongs to another process.
func (m *FileSnapshotManager) OnTurnEnd(ctx context.Context, append AppendFunc) (*Result, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	result, err := m.endTurn(ctx, m.turnOptions(), append == nil, nil)
	if err != nil {
		return nil, fmt.Errorf("end a turn of session %q: %w", m.opts.Session, err)
	}
	ctx = context.WithoutCancel(ctx) // it is recorded
	if append == nil {
		err = m.appendOwn(ctx, result.head, true)
	} else {
		err = m.tell(ctx, result, append)
	}
	if err != nil {
		return result, fmt.Errorf("log a turn of session %q: %w", m.opts.Session, err)
	}
	return result, nil
}

// maxOffers is how many older steps EndTurn offers at a time.
const maxOffers = 20

// EndTurn is OnTurnEnd for a runtime that appends to its log by itself: it
// returns the steps that it has not heard of, oldest first, which are offered
// again until Told says that the log has them, or the log itself does. There are
// at most 20 beside the turn's own.
func (m *FileSnapshotManager) EndTurn(ctx context.Context) (*Result, []*StepSnapshotData, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	result, err := m.endTurn(ctx, m.turnOptions(), false, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("end a turn of session %q: %w", m.opts.Session, err)
	}
	ctx = context.WithoutCancel(ctx) // it is recorded
	var list []*StepSnapshotData
	l, err := m.line(ctx)
	if err == nil {
		for o, oerr := range m.offers(ctx, l, result, maxOffers) {
			if err = oerr; err != nil {
				break
			}
			list = append(list, o.data)
		}
	}
	if err != nil {
		return result, list, fmt.Errorf("steps for the log of session %q: %w", m.opts.Session, err)
	}
	return result, list, nil
}

// SnapshotOptions are the choices at [FileSnapshotManager.Snapshot]. The zero
// value is the default.
type SnapshotOptions struct {
	Label    string         // name of the snapshot; one with a name is recorded even if nothing changed
	Partial  bool           // over a limit, take what fits; otherwise that is a *tree.BudgetError
	Progress *tree.Progress // counted up during the capture; default none
}

// Snapshot records the directory for people who work without a runtime: what
// has changed since the session's newest snapshot, and in no other session's
// turn, is a turn. It goes to our own log of the session. opts may be nil.
//
// The error matches [ErrTurnOpen] if a turn of the session is open.
func (m *FileSnapshotManager) Snapshot(ctx context.Context, opts *SnapshotOptions) (*Result, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if opts == nil {
		opts = new(SnapshotOptions)
	}
	capture := &tree.CaptureOptions{Limits: m.opts.Limits, Partial: opts.Partial, Progress: opts.Progress}
	result, err := m.endTurn(ctx, capture, true, opts)
	if err != nil {
		return nil, err
	}
	return result, m.appendOwn(context.WithoutCancel(ctx), result.head, false)
}

// endTurn records the end of a turn. The step gets an entry ID of ours if the
// log is ours. A snapshot that somebody asked for is recorded whenever the
// directory is not as it was, whoever changed it.
func (m *FileSnapshotManager) endTurn(ctx context.Context, opts *tree.CaptureOptions, ours bool, asked *SnapshotOptions) (*Result, error) {
	if asked != nil { // where a runtime keeps a log, the step waits for it
		log, err := m.entries(ctx)
		if err != nil {
			return nil, err
		}
		ours = log == nil
	}
	result, err := m.look(ctx, opts, func(o *look) error {
		entry := ""
		if ours {
			var err error
			if entry, err = unusedID(o.w.HasEntry); err != nil {
				return err
			}
		}
		newEntry := func(r *record) *record {
			if asked != nil {
				r.Label = asked.Label
			}
			if ours {
				r.Entry, r.data.Told, r.data.Own = entry, true, true
			}
			return r
		}
		if o.head == nil { // the first look at the session
			r, err := m.startRecord(ctx, o)
			if err != nil {
				return err
			}
			newEntry(r)
			if err := m.commit(ctx, o, r); err != nil {
				return err
			}
			if asked != nil || ours {
				o.result.EntryID, o.result.Data = r.Entry, m.dataOf(r, nil, "")
			}
			return nil
		}
		open := o.turns.of(m.opts.Session)
		t, err := m.turnToEnd(ctx, o)
		if err != nil {
			return err
		}
		announced, wasCutOff := t != nil, t == nil && open != nil
		if !announced {
			t = &openTurn{Session: m.opts.Session, After: o.head.Seq, Base: o.head.State()}
			l, err := m.line(ctx)
			if err != nil {
				return err
			}
			if t.Prev, t.Turn, err = l.position(ctx, o.w); err != nil {
				return err
			}
			if len(o.windows) == 0 {
				o.windows = []string{m.opts.Session}
			}
		}
		list, err := m.stretches(ctx, o.newestSeq(), t, announced)
		if err != nil {
			return err
		}
		var changes []change
		r := newEntry(&record{Snapshot: new(store.Snapshot)})
		if mine := slices.Contains(o.windows, m.opts.Session); o.hasChanged() && mine {
			list = join(append(list, stretch{o.last.State(), o.state, len(o.windows) > 1}))
			r.data.Windows = o.windows
		} else if err := m.found(ctx, o, kindBase); err != nil {
			return err
		}
		newest, err := m.newestStep(ctx, o.head)
		if err != nil {
			return err
		}
		if last, err := m.lastRestore(ctx, o.head); err != nil {
			return err
		} else if last != nil && last.Seq > newest.Seq {
			newest = last
		}
		always := asked != nil && (asked.Label != "" || o.state.Tree != newest.Tree)
		if changes, err = m.step(ctx, o, t, list, r, always); err != nil {
			return err
		}
		if r.Seq != 0 {
			o.result.EntryID, o.result.Data = r.Entry, m.dataOf(r, changes, r.data.Unknown)
		} else if asked == nil && !wasCutOff {
			err = m.empty(ctx, o, t)
		} else {
			err = m.found(ctx, o, kindBase)
		}
		if err == nil && announced {
			o.turns.remove(t)
		}
		return err
	})
	if err == nil {
		m.release()
	}
	return result, err
}

// turnToEnd returns the open turn that is to end now, nil if there is none.
func (m *FileSnapshotManager) turnToEnd(ctx context.Context, o *look) (*openTurn, error) {
	t := o.turns.of(m.opts.Session)
	if t == nil {
		return nil, nil
	}
	if m.isOurs(t) {
		if m.turnLeaf == "" && t.Leaf != t.LeafAt { // another process was told so
			m.turnLeaf, m.turnLeafAt = t.Leaf, t.LeafAt
		}
		recorded, err := m.isRecorded(ctx, o, t)
		if recorded { // but the end could not be written
			o.turns.remove(t)
			t = nil
		}
		return t, err
	}
	if err := m.notOurs(t); !errors.Is(err, ErrNoTurn) {
		return nil, err
	}
	if err := m.found(ctx, o, kindBase); err != nil {
		return nil, err
	}
	return nil, m.closeCutOff(ctx, o)
}
