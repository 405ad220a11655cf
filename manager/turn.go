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

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// Initialize looks at the directory at the start of a session, or when it is
// taken up again. What has changed since the session's newest snapshot is
// nobody's turn: Result.Offline has it. A turn that was cut off is closed as
// interrupted: Result.Data has it, if it changed something. Where the runtime has
// a log of the session, RebuildIndex goes first.
func (m *FileSnapshotManager) Initialize(ctx context.Context) (result *Result, err error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("initialize: %w", err)
	}
	defer unlock()
	defer annotate(&err, "initialize session %q", m.opts.Session)
	if err := m.adoptFile(ctx); err != nil {
		return nil, err
	}
	o, err := m.look(ctx, m.turnOptions())
	if err != nil {
		return nil, err
	}
	defer func() { result = o.end(ctx, &err) }()
	if err := m.begin(ctx, o); err != nil {
		return nil, err
	}
	if err := m.closeCutOff(ctx, o); !errors.Is(err, ErrTurnOpen) { // its process will end it
		o.result.Data = o.cutOff
		return nil, err
	}
	return nil, nil
}

// begin records how the directory was found; for a new session, as its start.
// What has changed since the session looked last, in nobody's turn, is offline,
// whoever found it.
func (m *FileSnapshotManager) begin(ctx context.Context, o *look) error {
	if head := o.head; head != nil {
		if err := m.found(ctx, o, history.KindBase); err != nil {
			return err
		}
		since := &history.OpenTurn{After: head.Seq, Base: head.State()} // of no session: while nobody's window was open
		list, err := windows.Stretches(ctx, m.records, o.newestSeq(), since, false)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(s history.Stretch) bool { return s.Contested })
		changes, err := windows.ChangesOf(ctx, m.tree.pages, list, nil, nil)
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
	r := &record{Snapshot: &store.Snapshot{Kind: history.KindStart}}
	if o.hasChanged() {
		r.Facts.Windows = o.windows
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
	r.Facts.Fork, r.Facts.Start, r.Facts.Depth = at.Seq, at.Start(), at.Facts.Depth
	r.Facts.Next, err = m.byRecords().nextTurn(ctx, at)
	return r, err
}

// closeCutOff closes the session's open turn if it was cut off; what was found
// changed must have been recorded. The error matches [ErrTurnOpen] if it is
// another process's, which is alive.
func (m *FileSnapshotManager) closeCutOff(ctx context.Context, o *look) error {
	t := o.turns.Of(m.opts.Session)
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
	// Leaf is the session entry that it builds on; default: where the last one left off.
	Leaf         string `json:"leaf,omitempty"`
	RuntimeIndex *int   `json:"runtimeTurnIndex,omitempty"` // the runtime's own number for it; default none

	// Title is what the turn is to do, such as the user's prompt, for people. At most 4 KiB
	// of it are kept, and can be forgotten. Agent and Model are the program that runs the
	// turn and the model that it asks, at most 128 bytes of each.
	Title string `json:"title,omitempty"`
	Agent string `json:"agent,omitempty"`
	Model string `json:"model,omitempty"`

	// SinceLast has Result.SinceLast say what was taken back since the session's last turn.
	SinceLast bool `json:"sinceLast,omitempty"`

	// Continues says that the turn goes on with the prompt of the one before: a
	// runtime may announce each call of a model. Both have one number then, and
	// are taken back together.
	Continues bool `json:"continues,omitempty"`
}

// OnTurnStart looks at the directory and opens a turn. A turn that is open
// already, since it never ended, is closed as interrupted: what it did not
// claim is contested, but for what had changed when one of its tools began or ended
// last. turn may be nil.
//
// The error matches [ErrTurnOpen] if the turn that is open belongs to another
// process, which is alive, and still so after some tenths of a second: an engine
// takes a moment to see that its client is gone. It matches [ErrLocked] if no turn
// may begin: see [NoTurns].
func (m *FileSnapshotManager) OnTurnStart(ctx context.Context, turn *Turn) (result *Result, err error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("start a turn: %w", err)
	}
	defer unlock()
	defer annotate(&err, "start a turn of session %q", m.opts.Session)
	if turn == nil {
		turn = new(Turn)
	}
	if err := m.knowsLeaf(ctx, turn.Leaf); err != nil {
		return nil, err
	}
	for patience := time.Now().Add(300 * time.Millisecond); ; {
		result, err = m.startTurn(ctx, turn)
		if !errors.Is(err, ErrTurnOpen) || time.Now().After(patience) {
			return result, err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return result, err
		}
	}
}

// startTurn is OnTurnStart, without the patience.
func (m *FileSnapshotManager) startTurn(ctx context.Context, turn *Turn) (result *Result, err error) {
	o, err := m.look(ctx, m.turnOptions())
	if err != nil {
		return nil, err
	}
	held, turnLeaf, turnLeafAt := m.held, m.turnLeaf, m.turnLeafAt // of a turn that is open
	defer func() {
		if result = o.end(ctx, &err); err != nil {
			if held == nil {
				m.release()
			}
			m.turnLeaf, m.turnLeafAt = turnLeaf, turnLeafAt
		}
	}()
	if err := m.checkNoTurns(); err != nil {
		return nil, err
	}
	old := o.turns.Of(m.opts.Session)
	if old != nil && !m.isOurs(old) {
		if err := m.notOurs(old); !errors.Is(err, ErrNoTurn) {
			return nil, err
		}
	}
	if err := m.hold(ctx); err != nil {
		return nil, err
	}
	if turn.SinceLast {
		o.tellSinceLast(ctx, o.head)
	}
	if err := m.begin(ctx, o); err != nil {
		return nil, err
	}
	if old != nil {
		if err := m.interrupt(ctx, o, old); err != nil {
			return nil, err
		}
	}
	next, err := m.nextTurn(ctx, o, turn)
	if err == nil {
		o.turns.Open = append(o.turns.Open, next)
	}
	return nil, err
}

// nextTurn returns the turn that begins.
func (m *FileSnapshotManager) nextTurn(ctx context.Context, o *look, turn *Turn) (*history.OpenTurn, error) {
	next := &history.OpenTurn{Session: m.opts.Session, RuntimeTurn: turn.RuntimeIndex, ToolWindows: m.opts.ToolWindows,
		After: o.newestSeq(), Base: o.state, Held: m.held != nil, Boot: vfs.BootID(), Seen: time.Now(),
		Began: time.Now()}
	for _, other := range o.turns.Open {
		next.Foreign = history.AddPaths(next.Foreign, other.Claims)
	}
	l, err := m.line(ctx)
	if err != nil {
		return nil, err
	}
	if l.log != nil {
		if turn.Leaf != "" {
			m.turnLeaf, m.turnLeafAt = turn.Leaf, l.log.Leaf()
		}
		next.Leaf, next.LeafAt = m.leaf(l.log), l.log.Leaf()
	}
	if next.Prev, next.Turn, err = l.position(ctx, o.w, o.turns); err != nil {
		return nil, err
	}
	var goesOn *record
	if turn.Continues {
		last, err := m.records.StepAt(ctx, o.head.Step(), m.opts.Session)
		if err != nil {
			return nil, err
		}
		if last.Session == m.opts.Session && last.Turn() == next.Turn-1 && last.Turn() >= 0 {
			next.Turn--
			goesOn = last
		}
	}
	m.describe(ctx, next, turn, goesOn)
	return next, nil
}

// interrupt closes a turn that was cut off. What is on the disk now is recorded. Whose
// it is what changed since a tool of the turn began or ended last is not known.
func (m *FileSnapshotManager) interrupt(ctx context.Context, o *look, t *history.OpenTurn) error {
	recorded, err := m.isRecorded(ctx, o, t)
	if err != nil {
		return err
	}
	if recorded {
		o.turns.Remove(t)
		return nil
	}
	if t.End == 0 {
		t.End = max(o.newestSeq(), 1)
	}
	known, rest, err := m.untilCutOff(ctx, o, t)
	if err != nil {
		return err
	}
	list, err := windows.Stretches(ctx, m.records, o.newestSeq(), rest, true)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].Contested = true
	}
	r := &record{Snapshot: new(store.Snapshot)}
	r.Facts.Interrupted, r.Facts.Known = true, t.Known
	changes, err := m.step(ctx, o, t, windows.Join(append(known, list...)), r, false)
	if err == nil && r.Seq != 0 {
		o.cutOff = m.dataOf(r, changes, r.Facts.Unknown)
	} else if err == nil {
		_, err = m.empty(ctx, o, t, false)
	}
	if err == nil {
		o.turns.Remove(t)
	}
	return err
}

// untilCutOff returns the stretches of a turn that was cut off up to where it is known
// which windows it had, and the turn from there on.
func (m *FileSnapshotManager) untilCutOff(ctx context.Context, o *look, t *history.OpenTurn) (
	known []history.Stretch, rest *history.OpenTurn, err error) {
	for r, err := range m.records.Since(ctx, o.newestSeq(), t.After) {
		if err != nil {
			return nil, nil, err
		}
		if r.Seq == t.Known {
			known, err = windows.Stretches(ctx, m.records, r.Seq, t, true)
			return known, &history.OpenTurn{Session: t.Session, After: r.Seq, Base: r.State(), End: t.End}, err
		}
	}
	return nil, t, nil
}

// empty records a turn that changed nothing: it has a number, and is one of those
// that @~N counts. No log is told of it. A turn that was divided is one by what it has
// done before: the record is nil then. The turn may go on behind it.
func (m *FileSnapshotManager) empty(ctx context.Context, o *look, t *history.OpenTurn, goesOn bool) (*record, error) {
	if err := m.found(ctx, o, history.KindBase); err != nil { // what is captured may have changed, or others have
		return nil, err
	}
	r := &record{Snapshot: &store.Snapshot{Kind: history.KindEmpty, Base: t.Base}}
	r.Facts.Turn, r.Facts.RuntimeTurn, r.Facts.Prev, r.Facts.Told = t.Turn, t.RuntimeTurn, t.Prev, true
	r.Facts.GoesOn = goesOn
	if err := o.putTitle(r, t); err != nil {
		return nil, err
	}
	log, err := m.entries(ctx)
	if err != nil {
		return nil, err
	}
	if log != nil {
		r.Above = m.leaf(log)
		r.Entry, err = m.endsAt(ctx, log, r.Above)
	}
	if err != nil {
		return nil, err
	}
	if log == nil || goesOn {
		before, err := m.records.StepAt(ctx, t.Prev, m.opts.Session)
		if err == nil {
			before, err = m.byRecords().LastTurn(ctx, before)
		}
		if err != nil || r.WithSession(m.opts.Session).IsSameTurn(before) {
			return nil, err
		}
	}
	was := o.result.Snapshot
	err = m.commit(ctx, o, r)
	o.result.Snapshot = was
	return r, err
}

// isRecorded reports whether the step of an open turn is there: whoever
// recorded it did not get to saying that the turn has ended.
func (m *FileSnapshotManager) isRecorded(ctx context.Context, o *look, t *history.OpenTurn) (bool, error) {
	last, err := m.records.StepAt(ctx, o.head.Step(), m.opts.Session)
	if err != nil {
		return false, err
	}
	return last.IsTurn() && last.Seq > t.After && last.Facts.Turn == t.Turn && last.Facts.Prev == t.Prev, nil
}

// step records a turn, unless it has changed nothing and need not be recorded. What
// is captured no more, or is now, is a change: the state is another.
func (m *FileSnapshotManager) step(ctx context.Context, o *look, t *history.OpenTurn, list []history.Stretch,
	r *record, always bool) ([]windows.Change, error) {
	claims, foreign := windows.NewPathSet(t.Claims), windows.NewPathSet(t.Foreign)
	changes, err := windows.ChangesOf(ctx, m.tree.pages, list, claims, foreign)
	r.Facts.Unknown, err = lost(err)
	if err != nil || len(changes) == 0 && r.Facts.Unknown == "" && !always {
		return nil, err
	}
	r.Kind, r.Base = history.KindStep, t.Base
	r.SetParts(list, o.state)
	own, _ := diffsOf(changes)
	r.Facts.Counts = own.counts()
	r.Facts.Turn, r.Facts.RuntimeTurn, r.Facts.Prev = t.Turn, t.RuntimeTurn, t.Prev
	if t.ToolWindows || !t.Began.IsZero() { // it was announced
		r.Facts.Since = max(t.After, 1)
	}
	r.Facts.Claims, r.Facts.Foreign = t.Claims, t.Foreign
	if err := o.putTitle(r, t); err != nil {
		return nil, err
	}
	log, err := m.entries(ctx)
	switch {
	case err != nil:
		return nil, err
	case log != nil && r.Facts.Interrupted: // the session may have gone elsewhere since
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
	return m.lookInTurn(ctx, fmt.Sprintf("start tool %q", tool), func(o *look, t *history.OpenTurn) error {
		if err := m.found(ctx, o, history.KindBase); err != nil {
			return err
		}
		if slices.Contains(t.Tools, tool) {
			return history.ErrToolRuns
		}
		t.Tools, t.ToolBegan = append(t.Tools, tool), time.Now()
		return nil
	})
}

// OnToolEnd says that a tool has ended, well or not. A tool that still runs
// when its turn ends has ended with it. Errors are those of OnToolStart.
func (m *FileSnapshotManager) OnToolEnd(ctx context.Context, tool string) (*Result, error) {
	return m.lookInTurn(ctx, fmt.Sprintf("end tool %q", tool), func(o *look, t *history.OpenTurn) error {
		if err := m.found(ctx, o, history.KindTool); err != nil {
			return err
		}
		if !slices.Contains(t.Tools, tool) {
			return history.ErrNoTool
		}
		t.EndTools(tool)
		return nil
	})
}

// OnToolsRefused says that tools that were said to start have not been run, and
// will not be: what has changed since the last look is not their doing. Those that
// do not run are passed over. Other errors are those of OnToolStart.
func (m *FileSnapshotManager) OnToolsRefused(ctx context.Context, tools ...string) (*Result, error) {
	return m.lookInTurn(ctx, fmt.Sprintf("refuse tools %q", tools), func(o *look, t *history.OpenTurn) error {
		t.EndTools(tools...)
		o.windows = o.who()
		return m.found(ctx, o, history.KindBase)
	})
}

// lookInTurn looks at the directory for the turn that is open, which has tool
// windows, to do what an error names.
func (m *FileSnapshotManager) lookInTurn(ctx context.Context, what string,
	fn func(*look, *history.OpenTurn) error) (result *Result, err error) {
	defer annotate(&err, "%s", what)
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	o, err := m.look(ctx, m.turnOptions())
	if err != nil {
		return nil, err
	}
	defer func() { result = o.end(ctx, &err) }()
	t := o.turns.Of(m.opts.Session)
	switch {
	case t == nil:
		return nil, ErrNoTurn
	case !m.isOurs(t):
		return nil, m.notOurs(t)
	case !t.ToolWindows:
		return nil, history.ErrNoWindows
	}
	if err = fn(o, t); err == nil {
		t.Known = o.newestSeq()
	}
	return nil, err
}

// Claim says that the turn that is open writes these files, or has written
// them: they are its own, whoever else is at work. A directory stands for all
// that is in it. Paths are relative to the session's directory, or absolute.
// With [Options.ToolWindows] that holds until no tool of the turn runs: what
// several sessions may have done to the files later is contested. What changes
// while none runs is the user's, whether it is claimed or not.
// Best is to claim before writing: a turn of another session that has ended by
// then has booked as contested what it could not know.
//
// Errors match [ErrNoTurn], [ErrTurnOpen] and [ErrOutside].
func (m *FileSnapshotManager) Claim(ctx context.Context, paths ...string) (err error) {
	defer annotate(&err, "claim")
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	var list [][]byte
	for _, p := range paths {
		rel, err := m.relative(p)
		if err != nil {
			return err
		}
		list = append(list, []byte(rel))
	}
	return m.withTurns(ctx, func(t *history.Turns) error {
		mine := t.Of(m.opts.Session)
		switch {
		case mine == nil:
			return ErrNoTurn
		case !m.isOurs(mine):
			return m.notOurs(mine)
		}
		mine.Hear()
		mine.Claim(list)
		for _, o := range t.Open {
			if o != mine {
				o.Foreign = history.AddPaths(o.Foreign, list)
			}
		}
		return nil
	})
}

// annotate says in an error, if there is one, what could not be done.
func annotate(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *err)
	}
}

// notOurs returns the error of who would go on with a turn that is not this
// manager's. One that was cut off is closed by the next look that may.
func (m *FileSnapshotManager) notOurs(t *history.OpenTurn) error {
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
	return openError(t)
}

// treePath returns a path as trees have it, "." for the session's directory. The
// path is relative to that directory, or absolute; the error matches
// [ErrOutside] if it leads out, and inside.ErrPath if it has a NUL.
func (m *FileSnapshotManager) treePath(p string) (string, error) {
	if strings.Contains(p, "\x00") {
		return "", fmt.Errorf("path %q: it has a NUL: %w", p, inside.ErrPath)
	}
	rel := filepath.ToSlash(p)
	if filepath.IsAbs(p) || filepath.VolumeName(p) != "" || strings.HasPrefix(rel, "/") { // Windows: C:x, /x
		below := func(p string) bool {
			r, err := filepath.Rel(m.project.Root, p)
			rel = filepath.ToSlash(r)
			return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
		}
		if !below(p) && !below(vfs.RealPath(p)) {
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
	rel, err := m.treePath(p)
	if err == nil && rel == "." {
		err = fmt.Errorf("path %q: %w", p, ErrOutside)
	}
	return rel, err
}

// OnTurnEnd looks at the directory, records what the turn has changed and has
// it appended to the session's log. Where no turn was opened, it is one that
// began with the session's newest snapshot. A turn that changed nothing is
// recorded as such, and no log is told of it.
//
// With a nil append no runtime keeps a log of the session: the step has an entry of
// ours, and snapctl sessions --export writes them into a file.
//
// An error of append is returned together with a Result. With any other error
// there is none, and the turn is still open: end it again. The error matches
// [ErrTurnOpen] if the turn belongs to another process.
func (m *FileSnapshotManager) OnTurnEnd(ctx context.Context, append AppendFunc) (*Result, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("end a turn: %w", err)
	}
	defer unlock()
	result, err := m.endTurn(ctx, m.turnOptions(), append == nil, nil)
	if err != nil {
		return nil, fmt.Errorf("end a turn of session %q: %w", m.opts.Session, err)
	}
	ctx = context.WithoutCancel(ctx) // it is recorded
	if append == nil {
		err = m.nameUntold(ctx, result.head)
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
		return nil, nil, fmt.Errorf("end a turn: %w", err)
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
	Label   string // name of the snapshot; one with a name is recorded even if nothing changed
	EndTurn bool   // end the session's open turn, unless its process is alive and holds it
	Partial bool   // over a limit, take what fits; otherwise the error matches tree.ErrBudget
}

// Snapshot records the directory for people who work without a runtime: what
// has changed since the session's newest snapshot, and in no other session's
// turn, is a turn, with an entry of ours. opts may be nil.
//
// The error matches [ErrTurnOpen] if a turn of the session is open, unless it is
// divided: see [Options].
func (m *FileSnapshotManager) Snapshot(ctx context.Context, opts *SnapshotOptions) (*Result, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	defer unlock()
	if opts == nil {
		opts = new(SnapshotOptions)
	}
	m.mayEnd = opts.EndTurn
	defer func() { m.mayEnd = false }()
	capture := &capture.Options{Limits: m.opts.Limits, Partial: opts.Partial}
	return m.endTurn(ctx, capture, true, opts)
}

// endTurn records the end of a turn. The step gets an entry ID of ours if the
// log is ours. A snapshot that somebody asked for is recorded whenever the
// directory is not as it was, whoever changed it.
func (m *FileSnapshotManager) endTurn(ctx context.Context, opts *capture.Options, ours bool,
	asked *SnapshotOptions) (result *Result, err error) {
	if asked != nil { // where a runtime keeps a log, the step waits for it
		log, err := m.entries(ctx)
		if err != nil {
			return nil, err
		}
		ours = log == nil
	}
	o, err := m.look(ctx, opts)
	if err != nil {
		return nil, err
	}
	defer func() {
		if result = o.end(ctx, &err); err == nil {
			m.release()
			result.Secrets = m.tellSecrets(ctx, result.Tree)
		}
	}()
	e := &turnEnd{look: o, asked: asked}
	if ours {
		if e.entry, err = unusedID(o.w.HasEntry); err != nil {
			return nil, err
		}
	}
	return nil, e.record(ctx)
}

// A turnEnd is the end of a turn while it is being recorded.
type turnEnd struct {
	*look
	asked *SnapshotOptions // somebody asked for a snapshot; nil: a runtime ends its turn
	entry string           // of the step, if no runtime keeps a log; else ""

	turn      *history.OpenTurn // that ends
	announced bool              // it was opened
	cutOff    bool              // one was open that had been cut off, and is closed by now
}

// record records the step, or what is known where there is none, and closes the turn.
func (e *turnEnd) record(ctx context.Context) error {
	if e.head == nil {
		return e.recordStart(ctx)
	}
	if err := e.findTurn(ctx); err != nil {
		return err
	}
	r, list, err := e.stretches(ctx)
	if err != nil {
		return err
	}
	always, err := e.isWanted(ctx)
	if err != nil {
		return err
	}
	r.Facts.GoesOn = e.announced && e.asked != nil && e.divisible() == e.turn
	changes, err := e.m.step(ctx, e.look, e.turn, list, r, always)
	if err != nil {
		return err
	}
	switch {
	case r.Seq != 0:
		e.result.EntryID, e.result.Data = r.Entry, e.m.dataOf(r, changes, r.Facts.Unknown)
	case e.asked == nil && !e.cutOff:
		_, err = e.m.empty(ctx, e.look, e.turn, false)
	default:
		err = e.m.found(ctx, e.look, history.KindBase)
	}
	if err != nil || !e.announced {
		return err
	}
	switch {
	case !r.Facts.GoesOn:
		e.turns.Remove(e.turn)
	case r.Seq != 0:
		e.goOn(e.turn)
	}
	return nil
}

// name gives a record its label and its entry.
func (e *turnEnd) name(r *record) *record {
	if e.asked != nil {
		r.Label = e.asked.Label
	}
	if e.entry != "" {
		r.Entry, r.Facts.Told, r.Facts.Own = e.entry, true, true
	}
	return r
}

// recordStart records the first look at the session.
func (e *turnEnd) recordStart(ctx context.Context) error {
	r, err := e.m.startRecord(ctx, e.look)
	if err == nil {
		err = e.m.commit(ctx, e.look, e.name(r))
	}
	if err == nil && (e.asked != nil || e.entry != "") {
		e.result.EntryID, e.result.Data = r.Entry, e.m.dataOf(r, nil, "")
	}
	return err
}

// findTurn finds the turn that ends: the one that was opened, or else one that began with
// the session's newest record.
func (e *turnEnd) findTurn(ctx context.Context) (err error) {
	m := e.m
	open := e.turns.Of(m.opts.Session)
	if e.turn, err = m.turnToEnd(ctx, e.look); err != nil {
		return err
	}
	e.announced, e.cutOff = e.turn != nil, e.turn == nil && open != nil
	if e.announced && e.asked != nil && !e.asked.EndTurn && e.divisible() == nil {
		return openError(open)
	} else if e.announced {
		return nil
	}
	e.turn = &history.OpenTurn{Session: m.opts.Session, After: e.head.Seq, Base: e.head.State()}
	l, err := m.line(ctx)
	if err != nil {
		return err
	}
	if len(e.windows) == 0 {
		e.windows = []string{m.opts.Session}
	}
	e.turn.Prev, e.turn.Turn, err = l.position(ctx, e.w, e.turns)
	return err
}

// stretches returns the stretches of the turn, and the record that they are to be in. What
// has changed since the last look is one of them if the turn may be its cause; else it is
// recorded.
func (e *turnEnd) stretches(ctx context.Context) (*record, []history.Stretch, error) {
	list, err := windows.Stretches(ctx, e.m.records, e.newestSeq(), e.turn, e.announced)
	if err != nil {
		return nil, nil, err
	}
	r := e.name(&record{Snapshot: new(store.Snapshot)})
	if e.hasChanged() && slices.Contains(e.windows, e.m.opts.Session) {
		last := history.Stretch{From: e.last.State(), To: e.state, Contested: len(e.windows) > 1}
		list = windows.Join(append(list, last))
		r.Facts.Windows = e.windows
		return r, list, nil
	}
	return r, list, e.m.found(ctx, e.look, history.KindBase)
}

// isWanted reports whether a step is wanted though the turn has changed nothing: somebody
// asked for it by a name, or where the directory is not as it was left.
func (e *turnEnd) isWanted(ctx context.Context) (bool, error) {
	if e.asked == nil {
		return false, nil
	}
	newest, err := e.m.newestStep(ctx, e.head)
	if err != nil {
		return false, err
	}
	last, err := e.m.records.LastRestore(ctx, e.head)
	if err == nil && last != nil && last.Seq > newest.Seq {
		newest = last
	}
	return e.asked.Label != "" || e.state.Tree != newest.Tree, err
}

// turnToEnd returns the open turn that is to end now, nil if there is none.
func (m *FileSnapshotManager) turnToEnd(ctx context.Context, o *look) (*history.OpenTurn, error) {
	t := o.turns.Of(m.opts.Session)
	if t == nil {
		return nil, nil
	}
	if m.isOurs(t) {
		if m.turnLeaf == "" && t.Leaf != t.LeafAt { // another process was told so
			m.turnLeaf, m.turnLeafAt = t.Leaf, t.LeafAt
		}
		recorded, err := m.isRecorded(ctx, o, t)
		if recorded { // but the end could not be written
			o.turns.Remove(t)
			t = nil
		}
		return t, err
	}
	if err := m.notOurs(t); !errors.Is(err, ErrNoTurn) {
		return nil, err
	}
	if err := m.found(ctx, o, history.KindBase); err != nil {
		return nil, err
	}
	return nil, m.closeCutOff(ctx, o)
}
