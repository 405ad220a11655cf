package manager

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A Result is what came of looking at the directory.
type Result struct {
	EntryID string            // session entry of the step; "": none, or the runtime did not say
	Data    *StepSnapshotData // of the step; nil: the turn changed nothing, or it was the first look at the session
	Offline *Diff             // what this look found changed that is no turn's doing; nil: nothing

	Tree     store.ID         // of the directory
	Since    *Point           // the session's newest step before; nil: this is its start
	Snapshot *store.Snapshot  // what was recorded last; nil: nothing changed
	Capture  *tree.Result     // what was found, and what was left out
	Written  store.WriteStats // what it added to the store

	head *record // newest of the session; nil: none
}

// A look is a capture under the lock on the worktree's turns.
type look struct {
	turns   *turns
	w       *store.Writer
	capture *tree.Result
	state   store.State // of the directory now
	last    *record     // newest record of the worktree, of any session; nil: none
	after   uint64      // its number, if it was pruned
	parent  uint64      // number of the session's newest, if it was
	session string      // that records
	head    *record     // newest of this session; nil: none
	windows []string    // open until now
	result  *Result
}

// look captures the directory and calls fn to record what was found. It stops
// before the disk is full. Of errors in a row that keep everything from being
// recorded the first is told in full: see [NotRecordedError]. The caller holds mu.
func (m *FileSnapshotManager) look(ctx context.Context, opts *tree.CaptureOptions, fn func(*look) error) (r *Result, err error) {
	keep := reserve(m.store, m.opts.MinFree)
	if err = checkSpace(m.store, m.tree.dir, keep); err == nil {
		r, err = m.lookKeeping(ctx, opts, keep, fn)
	}
	return r, m.noteLook(ctx, err)
}

// lookAnyway is look for a restore, which may take the last bytes there are.
func (m *FileSnapshotManager) lookAnyway(ctx context.Context, opts *tree.CaptureOptions, fn func(*look) error) (*Result, error) {
	return m.lookKeeping(ctx, opts, 0, fn)
}

// lookKeeping is look that keeps so many bytes free.
func (m *FileSnapshotManager) lookKeeping(ctx context.Context, opts *tree.CaptureOptions, keep int64, fn func(*look) error) (*Result, error) {
	if m.opts.Session == "" {
		return nil, errors.New("no session is named: see UseSession")
	}
	var o *look
	err := m.withTurns(ctx, func(t *turns) (err error) {
		if o, err = m.under(ctx, t); err != nil {
			return err
		}
		defer o.close(m)
		if _, err := m.recover(ctx, o, true); err != nil {
			return err
		}
		o.w.KeepFree(keep, m.tree.dir)
		m.store.Distrust(ReadHealth(m.tree.dir).bad()...) // what a check has found is stored again
		if o.capture, err = m.captureUnlocked(ctx, o.w, opts); err != nil {
			return err
		}
		o.state = store.State{Tree: o.capture.Tree, Coverage: o.capture.Coverage}
		if o.head != nil && o.head.step() != 0 {
			if o.result.Since, err = m.sincePoint(ctx, o.head); err != nil {
				return err
			}
		}
		if own := t.of(m.opts.Session); own != nil && m.isOurs(own) {
			own.hear()
			o.windows = o.who()
		}
		if err := fn(o); err != nil {
			return err
		}
		return m.bury(t, o.newestSeq())
	})
	if err != nil {
		return nil, err
	}
	o.result.Tree, o.result.Capture, o.result.head = o.state.Tree, o.capture, o.head
	return o.result, nil
}

// captureUnlocked captures the directory without mu, which the caller holds:
// queries need not wait, and nobody else changes the worktree.
func (m *FileSnapshotManager) captureUnlocked(ctx context.Context, w *store.Writer, opts *tree.CaptureOptions) (*tree.Result, error) {
	m.mu.Unlock()
	defer m.mu.Lock()
	m.capturing.Store(true)
	defer m.capturing.Store(false)
	return m.engine.capture(ctx, m.tree, w, opts)
}

// under begins a look under the lock on the worktree's turns, without a
// capture. Close it.
func (m *FileSnapshotManager) under(ctx context.Context, t *turns) (*look, error) {
	o := &look{turns: t, session: m.opts.Session, result: new(Result)}
	var err error
	if o.w, err = m.store.Begin(ctx); err != nil {
		return nil, err
	}
	if o.last, err = m.newestIn(o.w, store.AnySession); err == nil {
		o.head, err = m.newestIn(o.w, m.opts.Session)
	}
	if err != nil {
		o.close(m)
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
	o.windows = o.who()
	if t.Last > o.newestSeq() && !slices.Contains(t.Lost, t.Last) {
		t.Lost = append(t.Lost, t.Last)
	}
	m.store.Skip(t.Last)
	return o, nil
}

// close ends a look, and says what it added to the store.
func (o *look) close(m *FileSnapshotManager) {
	o.turns.Last = max(o.turns.Last, o.newestSeq())
	o.result.Written = o.w.Stats()
	// What was put and not committed stays, for the next try.
	if err := o.w.Close(); err != nil {
		m.log.Debug("writer not closed cleanly", "err", err)
	}
}

// who returns the sessions that may be the cause of what has changed since the
// last record.
func (o *look) who() []string {
	windows := o.turns.windows()
	if o.turns.Last > o.newestSeq() { // damage took what was recorded last
		windows = append(windows, nobody)
	}
	return windows
}

// turnOptions are those of a capture that belongs to a turn: over a limit, it
// takes what fits.
func (m *FileSnapshotManager) turnOptions() *tree.CaptureOptions {
	limits := m.opts.Limits
	if limits.Time == 0 {
		limits.Time = defaultTime
	}
	return &tree.CaptureOptions{Limits: limits, Partial: true, Progress: &m.progress}
}

// newest returns the newest record of a session in the worktree, nil if there
// is none.
func (m *FileSnapshotManager) newest(ctx context.Context, session string) (*record, error) {
	epoch, err := m.store.Epoch()
	if err != nil {
		return nil, err
	}
	s, err := m.store.Newest(ctx, m.project.Worktree(), session)
	return m.newestOf(epoch, s, err)
}

// newestIn is newest as of when a look began, which nobody can have changed since: it
// holds the lock on the turns.
func (m *FileSnapshotManager) newestIn(w *store.Writer, session string) (*record, error) {
	s, err := w.Newest(m.project.Worktree(), session)
	return m.newestOf(w.Epoch(), s, err)
}

func (m *FileSnapshotManager) newestOf(epoch uint64, s *store.Snapshot, err error) (*record, error) {
	if epoch != m.epoch { // what is remembered may have been pruned
		clear(m.loaded)
		m.epoch = epoch
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return readRecord(s)
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
	last, err := m.lastRestore(ctx, head)
	if err == nil && last != nil && last.Seq > r.Seq && !last.State().IsZero() && !last.Pruned {
		p.State = last.State()
	}
	return p, err
}

// newestStep returns the newest turn before a record that changed something, or
// what the session began with.
func (m *FileSnapshotManager) newestStep(ctx context.Context, r *record) (*record, error) {
	l := &line{m: m}
	r, err := m.stepAt(ctx, r.step(), r.Session)
	for err == nil && r.Kind != kindStep {
		var before *record
		if before, err = l.stepBefore(ctx, r); before == nil {
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
	if len(o.windows) == 0 && o.last != nil {
		diff, err := m.diff(ctx, o.last.State(), o.state)
		diff.Unknown, err = lost(err)
		if err != nil {
			return err
		}
		o.result.Offline = diff.orNil()
	}
	r := &record{Snapshot: &store.Snapshot{Kind: kind}}
	r.data.Windows = o.windows
	if d := o.result.Offline; d != nil {
		r.data.Counts, r.data.Unknown = d.counts(), d.Unknown
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
	t := o.turns.of(m.opts.Session)
	if t == nil || o.head == nil || !t.ToolWindows || !m.isOurs(t) || t.End != 0 {
		return nil
	}
	d := &r.data
	d.Within, d.Turn, d.RuntimeTurn, d.Prev, d.Claims, d.Foreign = max(t.After, 1), t.Turn, t.RuntimeTurn, t.Prev, t.Claims, t.Foreign
	var list []stretch // up to the look before, which has them
	since := t
	if before := o.head; before.data.Within == d.Within && before.isSameTurn(r.withSession(m.opts.Session)) {
		list, since = before.stretches(), &openTurn{Session: m.opts.Session, After: before.Seq, Base: before.State()}
	}
	more, err := m.stretches(ctx, o.newestSeq(), since, true)
	if err != nil {
		return err
	}
	list = append(list, more...)
	if slices.Contains(o.windows, m.opts.Session) {
		list = append(list, stretch{o.last.State(), o.state, len(o.windows) > 1})
	}
	r.setParts(join(list), o.state)
	return nil
}

// commit records the state that was seen. The record brings its kind and
// what is special to it.
func (m *FileSnapshotManager) commit(ctx context.Context, o *look, r *record) error {
	r.data.Partial = o.capture.Partial
	return m.commitAt(ctx, o, r, o.state)
}

// commitAt records a state of the directory.
func (m *FileSnapshotManager) commitAt(ctx context.Context, o *look, r *record, s store.State) error {
	r.Tree, r.Coverage, r.Time = s.Tree, s.Coverage, time.Now()
	r.Worktree, r.Root, r.Session, r.Log = m.project.Worktree(), m.project.Root, o.session, m.opts.SessionFile
	if o.session != m.opts.Session && o.head != nil { // a restore of theirs is brought to its end
		r.Log = o.head.Log
	}
	head, err := m.project.Head()
	if err != nil { // it is only for people
		m.log.Warn("git commit not recorded", "root", m.project.Root, "err", err)
	}
	r.Head = head
	r.data.After, r.Parent = o.newestSeq(), o.parent
	if o.head != nil {
		r.Parent = o.head.Seq
		if r.data.Pins = o.head.data.Pins; o.head.Kind == kindPin {
			r.data.Pins = append(slices.Clone(r.data.Pins), o.head.Seq)
		}
		if r.data.Prev == 0 {
			r.data.Prev = o.head.step()
		}
		prev, err := m.stepAt(ctx, r.data.Prev, o.session)
		if err != nil {
			return err
		}
		r.data.Prev, r.data.Start, r.data.Begin = prev.Seq, prev.start(), o.head.begin()
		if r.data.Next, err = (&line{m: m}).nextTurn(ctx, o.head); err != nil {
			return err
		}
		r.data.Next = r.next()
		if r.Kind == kindEmpty || r.isJoint() {
			step, err := prev, error(nil)
			if prev.Kind != kindStep && prev.Kind != kindStart {
				step, err = (&line{m: m}).stepBefore(ctx, prev)
			}
			if err != nil {
				return err
			}
			if step != nil {
				r.data.Step = step.Seq
			}
		}
		if r.data.Untold, err = m.newestUntold(ctx, o.head); err != nil {
			return err
		}
		if pos := o.head.position(); (r.Kind == kindBase || r.Kind == kindTool || r.Kind == kindPin) && pos != r.data.Prev {
			r.data.Pos = pos
		}
		if r.data.Restored = o.head.data.Restored; o.head.Kind == kindRestore {
			r.data.Restored = o.head.Seq
		}
	}
	if r.isTurn() || r.data.Within != 0 {
		if err := m.link(ctx, r); err != nil {
			return err
		}
	}
	r.write()
	if err := o.w.Commit(ctx, r.Snapshot, r.Parent); err != nil {
		return err
	}
	o.last, o.head, o.result.Snapshot = r, r, r.Snapshot
	return nil
}
