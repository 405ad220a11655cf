package manager

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/change"
	"github.com/boocode/filestore/internal/health"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/secrets"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A Result is what came of looking at the directory.
type Result struct {
	EntryID string            // session entry of the step; "": none, or the runtime did not say
	Data    *StepSnapshotData // of the step; nil: the turn changed nothing, or it was the first look at the session
	Offline *Diff             // what this look found changed that is no turn's doing; nil: nothing

	// SinceLast is what the user took back, or put back, since the session's last turn, in
	// one line of at most 400 bytes for the model. Paths are quoted, and cut. Only of a turn
	// that asked for it; "": nothing, or it is not known.
	SinceLast string

	// Secrets are paths of files that were captured and seem to hold secrets, such as .env or a
	// private key, each once in a session. Only at the end of a turn, and of a snapshot.
	Secrets []string

	Tree     store.ID        // of the directory
	Since    *Point          // the session's newest step before; nil: this is its start
	Snapshot *store.Snapshot // what was recorded last; nil: nothing changed
	Capture  *tree.Result    // what was found, and what was left out

	NewObjects  int   // that it added to the store
	StoredBytes int64 // by which the store has grown

	head *record // newest of the session; nil: none
}

// A look is what a manager sees of its directory, and records, while it has the lock on
// the worktree's turns. Whoever has begun one ends it.
type look struct {
	m       *FileSnapshotManager
	held    *heldTurns // nil: withTurns has them
	turns   *history.Turns
	w       *cas.Writer
	capture *tree.Result      // nil: the directory was not captured
	state   store.State       // of the directory now
	last    *record           // newest record of the worktree, of any session; nil: none
	after   uint64            // number of last, if prune took what it held: last is nil then; else 0
	parent  uint64            // the same of the session's newest
	session string            // that records
	head    *record           // newest of this session; nil: none
	windows []string          // open until now
	divides bool              // an open turn that the manager may end is divided
	noted   bool              // how it ends is remembered for all processes
	cutOff  *StepSnapshotData // of a turn that was closed as interrupted, if it changed something
	result  *Result
}

// look begins a look that captures the directory. It stops before the disk is full. Of
// errors in a row that keep everything from being recorded the first is told in full: see
// [health.NotRecordedError]. The caller holds mu until the look has ended.
func (m *FileSnapshotManager) look(ctx context.Context, opts *capture.Options) (*look, error) {
	keep := m.store.Reserve(m.opts.MinFree)
	err := m.store.CheckSpace(m.tree.dir, keep)
	if err == nil {
		var o *look
		if o, err = m.lookKeeping(ctx, opts, keep); err == nil {
			o.noted = true
			return o, nil
		}
	}
	return nil, m.noteLook(ctx, err)
}

// lookKeeping is look that keeps so many bytes free, and tells each error in full.
func (m *FileSnapshotManager) lookKeeping(ctx context.Context, opts *capture.Options, keep int64) (*look, error) {
	if m.opts.Session == "" {
		return nil, errors.New("no session is named: see Options.Session")
	}
	held, err := m.holdTurns(ctx)
	if err != nil {
		return nil, err
	}
	o, err := m.under(ctx, held.Turns)
	if err != nil {
		return nil, held.release(err)
	}
	o.held = held
	if err = o.see(ctx, opts, keep); err != nil {
		o.end(ctx, &err)
		return nil, err
	}
	return o, nil
}

// see captures the directory, and finds out whose doing it may be what has changed.
func (o *look) see(ctx context.Context, opts *capture.Options, keep int64) error {
	m := o.m
	if _, err := m.recover(ctx, o, change.Forward); err != nil {
		return err
	}
	o.w.KeepFree(keep, m.tree.dir)
	m.store.Distrust(health.Read(m.tree.dir).Remembered()...) // what a check has found is stored again
	alone := *opts
	alone.Alone = true
	capture, err := o.take(ctx, &alone)
	if err != nil {
		return err
	}
	o.state = store.State{Tree: capture.Tree, Coverage: capture.Coverage}
	if o.head != nil && o.head.Step() != 0 {
		if o.result.Since, err = m.sincePoint(ctx, o.head); err != nil {
			return err
		}
	}
	if own := o.turns.Of(m.opts.Session); own != nil && m.isOurs(own) {
		own.Hear()
		o.windows = o.who()
	}
	o.capture = capture
	return o.dispute(ctx)
}

// dispute has all who may have made a change claim its path, if somebody has claimed it and
// nobody does now: an edit tool wrote the file, and has ended; what a command did to it later,
// of this session or of another one, is anybody's. A turn that does not tell of tools may claim
// what it has written until it ends. So nothing is claimed in its place, unless the change would
// be taken for that of another turn, which claimed the path and is not at work.
func (o *look) dispute(ctx context.Context) error {
	if len(o.windows) < 2 || o.last == nil {
		return nil
	}
	var atWork []*history.OpenTurn
	var claims, now [][]byte
	foreign := make(map[*history.OpenTurn]windows.PathSet) // what others claimed of turns that do not tell of tools
	for _, t := range o.turns.Open {
		if !slices.Contains(o.windows, t.Session) {
			continue
		}
		atWork, now = append(atWork, t), append(now, t.ClaimsNow()...)
		if t.ToolWindows {
			claims = slices.Concat(claims, t.Claims, t.Foreign)
		} else if len(t.Foreign) > 0 {
			foreign[t] = windows.NewPathSet(t.Foreign)
		}
	}
	if len(claims) == 0 && len(foreign) == 0 {
		return nil
	}
	claimed, writes := windows.NewPathSet(claims), windows.NewPathSet(now)
	for d, err := range trees.Compare(ctx, o.m.tree.pages, o.last.State(), o.state) {
		if err != nil {
			_, err = lost(err)
			return err
		}
		for _, t := range atWork {
			if (claimed.Has(d.Path) || foreign[t].Has(d.Path)) && !writes.Has(d.Path) {
				t.Dispute(d.Path)
			}
		}
	}
	return nil
}

// take captures the directory. Queries need not wait meanwhile, so the manager's mu is
// free; nobody else changes the worktree.
func (o *look) take(ctx context.Context, opts *capture.Options) (*tree.Result, error) {
	m := o.m
	m.mu.Unlock()
	defer m.mu.Lock()
	m.capturing.Store(true)
	defer m.capturing.Store(false)
	return m.engine.capture(ctx, m.tree, o.w, opts)
}

// end ends a look: what was put is durable, the open turns are as it leaves them, and
// others may look. It returns what came of the look, nil with an error, and adds to the
// error what went wrong at the end.
func (o *look) end(ctx context.Context, err *error) *Result {
	m := o.m
	if *err == nil {
		*err = m.bury(o.turns, o.newestSeq())
	}
	o.close()
	*err = o.held.release(*err)
	if o.noted {
		*err = m.noteLook(ctx, *err)
	}
	if *err != nil {
		return nil
	}
	o.result.Tree, o.result.Capture, o.result.head = o.state.Tree, o.capture, o.head
	return o.result
}

// under begins a look under the lock on the worktree's turns, without a
// capture. Close it.
func (m *FileSnapshotManager) under(ctx context.Context, t *history.Turns) (*look, error) {
	o := &look{m: m, turns: t, session: m.opts.Session, result: new(Result)}
	var err error
	if o.w, err = m.store.Begin(ctx); err != nil {
		return nil, err
	}
	if o.last, err = m.records.NewestIn(o.w, cas.AnySession); err == nil {
		o.head, err = m.records.NewestIn(o.w, m.opts.Session)
	}
	if err != nil {
		o.close()
		return nil, err
	}
	// After a prune that has dropped all of it, a directory or a session begins
	// anew: what it was is not known.
	if o.last != nil && o.last.Pruned {
		o.after, o.last = o.last.Seq, nil
	}
	if o.head != nil && o.head.Pruned {
		o.parent, o.head = o.head.Seq, nil
	}
	if err := o.catchUp(ctx); err != nil {
		o.close()
		return nil, err
	}
	o.windows = o.who()
	if t.Last > o.newestSeq() && !slices.Contains(t.Lost, t.Last) {
		t.Lost = append(t.Lost, t.Last)
		m.warnDamage(ctx)
	}
	m.store.Skip(t.Last)
	return o, nil
}

// close ends the writing of a look, and says what it added to the store.
func (o *look) close() {
	o.turns.Last = max(o.turns.Last, o.newestSeq())
	// What was put and not committed stays, for the next try.
	if err := o.w.Close(); err != nil {
		o.m.log.Debug("writer not closed cleanly", "err", err)
	}
	added := o.w.Stats()
	o.result.NewObjects, o.result.StoredBytes = added.Objects, added.Stored
}

// who returns the sessions that may be the cause of what has changed since the
// last record.
func (o *look) who() []string {
	windows := o.turns.Windows()
	if o.turns.Last > o.newestSeq() { // damage took what was recorded last
		windows = append(windows, history.Nobody)
	}
	return windows
}

// turnOptions are those of a capture that belongs to a turn: over a limit, it
// takes what fits.
func (m *FileSnapshotManager) turnOptions() *capture.Options {
	limits := m.opts.Limits
	if limits.Time == 0 {
		limits.Time = defaultTime
	}
	return &capture.Options{Limits: limits, Partial: true}
}

// newestSeq returns the number of the worktree's newest record.
func (o *look) newestSeq() uint64 {
	if o.last == nil {
		return o.after
	}
	return o.last.Seq
}

// sincePoint returns the point since which changes of a session are told: its
// newest turn that changed something, in the state that a restore after it has
// left.
func (m *FileSnapshotManager) sincePoint(ctx context.Context, head *record) (*Point, error) {
	r, err := m.newestStep(ctx, head)
	if err != nil {
		return nil, err
	}
	p := pointOf(r)
	last, err := m.records.LastRestore(ctx, head)
	if err == nil && last != nil && last.Seq > r.Seq && !last.State().IsZero() && !last.Pruned {
		p.State = last.State()
	}
	return p, err
}

// newestStep returns the newest turn before a record that changed something, or
// what the session began with.
func (m *FileSnapshotManager) newestStep(ctx context.Context, r *record) (*record, error) {
	l := m.byRecords()
	r, err := m.records.StepAt(ctx, r.Step(), r.Session)
	for err == nil && r.Kind != history.KindStep {
		var before *record
		if before, err = l.StepBefore(ctx, r); before == nil {
			break
		}
		r = before
	}
	return r, err
}

// hasChanged reports whether the tree is not that of the last record.
func (o *look) hasChanged() bool { return o.last == nil || o.last.Tree != o.state.Tree }

// found records that the directory has changed since the last record, unless
// it has not. What was left out counts: who sees it captured later must know
// that it was there. The record is of the given kind and becomes o.last.
func (m *FileSnapshotManager) found(ctx context.Context, o *look, kind string) error {
	if o.last != nil && o.last.State() == o.state {
		return nil
	}
	r := &record{Snapshot: &store.Snapshot{Kind: kind}}
	r.Facts.Windows = o.windows
	isOffline, isNobodys := len(o.windows) == 0, slices.Equal(o.windows, []string{history.Nobody})
	if o.last != nil && (isOffline || isNobodys) {
		diff, err := m.diff(ctx, o.last.State(), o.state)
		diff.Unknown, err = lost(err)
		if err != nil {
			return err
		}
		if isOffline {
			o.result.Offline = diff.orNil()
		}
		r.Facts.Counts, r.Facts.Unknown = diff.counts(), diff.Unknown
	}
	if o.last != nil {
		r.Base = o.last.State()
		if err := m.within(ctx, o, r); err != nil {
			return err
		}
	}
	return m.commit(ctx, o, r)
}

// within makes a look one within the session's turn, if one with tools is open: a
// restore may go there, so it has what the turn has done so far.
func (m *FileSnapshotManager) within(ctx context.Context, o *look, r *record) error {
	t := o.turns.Of(m.opts.Session)
	if t == nil || o.head == nil || !t.ToolWindows || !m.isOurs(t) || t.End != 0 {
		return nil
	}
	d := &r.Facts
	d.Within, d.Turn, d.RuntimeTurn, d.Prev = max(t.After, 1), t.Turn, t.RuntimeTurn, t.Prev
	d.Claims, d.Foreign = t.Claims, t.Foreign
	var list []history.Stretch // up to the look before, which has them
	since := t
	if before := o.head; before.Facts.Within == d.Within && before.IsSameTurn(r.WithSession(m.opts.Session)) {
		list = before.Stretches()
		since = &history.OpenTurn{Session: m.opts.Session, After: before.Seq, Base: before.State()}
	}
	more, err := windows.Stretches(ctx, m.records, o.newestSeq(), since, true)
	if err != nil {
		return err
	}
	list = append(list, more...)
	if slices.Contains(o.windows, m.opts.Session) {
		list = append(list, history.Stretch{From: o.last.State(), To: o.state, Contested: len(o.windows) > 1})
	}
	r.SetParts(windows.Join(list), o.state)
	return nil
}

// commit records the state that was seen. The record brings its kind and
// what is special to it.
func (m *FileSnapshotManager) commit(ctx context.Context, o *look, r *record) error {
	r.Facts.Partial = o.capture.Partial
	return m.commitAt(ctx, o, r, o.state)
}

// commitAt records a state of the directory.
func (m *FileSnapshotManager) commitAt(ctx context.Context, o *look, r *record, s store.State) error {
	r.Tree, r.Coverage, r.Time = s.Tree, s.Coverage, time.Now()
	r.Worktree, r.Root, r.Session, r.Log = m.project.Worktree, m.project.Root, o.session, m.opts.SessionFile
	if o.session != m.opts.Session && o.head != nil { // a restore of theirs is brought to its end
		r.Log = o.head.Log
	}
	head, err := m.project.Head()
	if err != nil { // it is only for people
		m.log.Warn("git commit not recorded", "root", m.project.Root, "err", err)
	}
	r.Head = head
	r.Facts.After, r.Parent = o.newestSeq(), o.parent
	if o.head != nil {
		if err := m.follow(ctx, o.head, r); err != nil {
			return err
		}
	}
	if r.IsTurn() || r.Facts.Within != 0 {
		if err := m.byRecords().Link(ctx, r); err != nil {
			return err
		}
	}
	r.Write()
	if err := o.w.Commit(ctx, r.Snapshot, r.Parent); err != nil {
		return err
	}
	o.last, o.head, o.result.Snapshot = r, r, r.Snapshot
	return nil
}

// follow makes a record the one behind the session's newest: it has the place of that on
// the session's lines, unless it brings its own.
func (m *FileSnapshotManager) follow(ctx context.Context, head, r *record) error {
	d, steps := &r.Facts, m.byRecords()
	r.Parent = head.Seq
	if d.Pins = head.Facts.Pins; head.Kind == history.KindPin {
		d.Pins = append(slices.Clone(d.Pins), head.Seq)
	}
	if d.Restored = head.Facts.Restored; head.Kind == history.KindRestore {
		d.Restored = head.Seq
	}
	if d.First = head.Facts.First; d.First == 0 && !head.Note.IsZero() {
		d.First = head.Seq
	}
	if d.Prev == 0 {
		d.Prev = head.Step()
	}
	prev, err := m.records.StepAt(ctx, d.Prev, r.Session)
	if err != nil {
		return err
	}
	d.Prev, d.Start, d.Begin = prev.Seq, prev.Start(), head.Begin()
	if d.Next, err = steps.nextTurn(ctx, head); err != nil {
		return err
	}
	d.Next = r.Next()
	if r.Kind == history.KindEmpty || r.IsJoint() {
		step := prev
		if prev.Kind != history.KindStep && prev.Kind != history.KindStart {
			step, err = steps.StepBefore(ctx, prev)
		}
		if err != nil {
			return err
		}
		if step != nil {
			d.Step = step.Seq
		}
	}
	switch r.Kind {
	case history.KindBase, history.KindTool, history.KindPin:
		if pos := head.Position(); pos != d.Prev {
			d.Pos = pos
		}
	}
	if r.Kind == history.KindRestore && d.Restored != 0 {
		marked, err := m.newestMarked(ctx, head)
		if err != nil {
			return err
		}
		if d.Marks = d.Begin; marked != nil {
			d.Marks = marked.Seq
		}
	}
	d.Untold, err = m.records.NewestUntold(ctx, head)
	return err
}

// tellSecrets returns the files in a tree that seem to hold secrets, but for those that
// the session was told of before. What goes wrong is no harm to the turn.
func (m *FileSnapshotManager) tellSecrets(ctx context.Context, root store.ID) []string {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // another process that hangs may have the list
	defer cancel()
	paths, err := secrets.Tell(ctx, m.store.FS(), m.place(), m.opts.Session, func(path string) (bool, error) {
		e, err := trees.EntryAt(ctx, m.store, root, path)
		return e != nil, err
	})
	if err != nil {
		m.log.Warn("it is not known which files seem to hold secrets", "root", m.project.Root, "err", err)
	}
	return paths
}
