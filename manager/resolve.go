package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A Point is a moment in a session at which the files are known.
type Point struct {
	State     store.State
	EntryID   string          // session entry of the step; "": the start, or no entry is known
	TurnIndex int             // of the step; -1: the start of the session, or a tree that is no step's
	Snapshot  *store.Snapshot // what the store recorded of it; nil: nothing

	step    *step  // nil: the start, or a tree
	isStart bool   // the start of the session, if Snapshot does not say so
	entry   string // in a log: the path to the point ends here; "": before all
}

// A step is a turn that has changed something, as the store recorded it or,
// where it has not, as a log has it.
type step struct {
	entry string
	*record
	data *StepSnapshotData // of the log, if there is no record
}

func (s *step) state() store.State {
	if s.record != nil {
		return s.State()
	}
	return store.State{Tree: s.data.SnapshotTreeHash}
}

func (s *step) turn() int {
	if s.record != nil {
		return s.record.data.Turn
	}
	return s.data.TurnIndex
}

// pointOf returns the point of a step.
func pointOf(s *step) *Point {
	p := &Point{State: s.state(), EntryID: s.entry, TurnIndex: s.turn(), step: s, entry: s.entry}
	if s.record != nil {
		p.Snapshot = s.Snapshot
		if s.Kind == kindStart {
			p.TurnIndex, p.step = -1, nil
		}
	}
	return p
}

// Resolve finds a point of the session by what people call it: "start", "@"
// for the newest step on the path to the leaf, "@~N" for the one N steps
// before, "turn:N", an entry, or a tree. Entries and trees may be abbreviated to
// 4 characters or more, if that fits only one.
//
// Errors match [ErrUnknown], [ErrAmbiguous], [ErrOtherSession], [ErrNoSession]
// and those of package session.
func (m *FileSnapshotManager) Resolve(ctx context.Context, rev string) (*Point, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.resolve(ctx, rev)
}

// resolve is Resolve for who holds mu.
func (m *FileSnapshotManager) resolve(ctx context.Context, rev string) (*Point, error) {
	p, err := m.find(ctx, rev)
	if err == nil && p.State.IsZero() {
		err = fmt.Errorf("revision %q: %w: its record is lost", rev, ErrUnknown)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// find is resolve, but what it finds may be a start that is lost.
func (m *FileSnapshotManager) find(ctx context.Context, rev string) (*Point, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	log, err := m.entries(ctx)
	if err != nil {
		return nil, err
	}
	if rev == "start" {
		return m.startPoint(ctx, log)
	}
	if n, ok := generations(rev); ok {
		return m.nthLast(ctx, log, n)
	}
	if digits, ok := strings.CutPrefix(rev, "turn:"); ok {
		n, err := strconv.Atoi(digits)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("turn %q: %w: want a number from 0", digits, ErrUnknown)
		}
		return m.atTurn(ctx, log, n)
	}
	if log == nil {
		return m.named(ctx, rev)
	}
	if e, ok := log.Entry(rev); ok {
		return m.atEntry(ctx, log, e)
	}
	if len(rev) < minPrefix {
		return nil, fmt.Errorf("revision %q: %w", rev, ErrUnknown)
	}
	p, perr := m.named(ctx, rev)
	e, err := log.Find(rev)
	switch {
	case errors.Is(err, session.ErrUnknownEntry):
		return p, perr
	case err != nil:
		return nil, err
	case perr == nil && p.EntryID != e.ID:
		return nil, fmt.Errorf("revision %q: %w: entry %s, tree %s", rev, ErrAmbiguous, e.ID, p.State.Tree.Short())
	}
	return m.atEntry(ctx, log, e)
}

// generations reads @, @~ or @~N.
func generations(rev string) (n int, ok bool) {
	if rev == "@" {
		return 0, true
	}
	digits, ok := strings.CutPrefix(rev, "@~")
	if !ok || digits == "" {
		return 1, ok
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 0
}

// startPoint returns the start of the session.
func (m *FileSnapshotManager) startPoint(ctx context.Context, log *session.Tree) (*Point, error) {
	if log != nil {
		// A fork starts where the session started that it was forked from.
		steps, err := m.logSteps(log, m.leaf(log))
		if err != nil {
			return nil, err
		}
		if len(steps) > 0 {
			return m.startOf(ctx, steps[0])
		}
	}
	r, err := m.head(ctx)
	if err != nil {
		return nil, err
	}
	if r, err = m.stepAt(ctx, r.start()); err != nil {
		return nil, err
	}
	p := pointOf(&step{entry: r.Entry, record: r})
	p.entry = ""
	return p, nil
}

// startOf returns the start of the line whose first step is e.
func (m *FileSnapshotManager) startOf(ctx context.Context, e *session.Entry) (*Point, error) {
	s, err := m.stepOf(ctx, e)
	if err != nil {
		return nil, err
	}
	switch {
	case s.record != nil && s.start() != 0:
		r, err := m.stepAt(ctx, s.start())
		if err != nil {
			return nil, err
		}
		return &Point{State: r.State(), TurnIndex: -1, Snapshot: r.Snapshot}, nil
	case s.data.BaselineTreeHash != nil:
		if err := m.hasTree(ctx, *s.data.BaselineTreeHash, e.ID); err != nil {
			return nil, err
		}
		return &Point{State: store.State{Tree: *s.data.BaselineTreeHash}, TurnIndex: -1, isStart: true}, nil
	}
	return nil, fmt.Errorf("start of session %q: %w", m.opts.Session, ErrUnknown)
}

// nthLast returns the step n before the newest on the path to the leaf.
func (m *FileSnapshotManager) nthLast(ctx context.Context, log *session.Tree, n int) (*Point, error) {
	tooFar := func(have int) error {
		return fmt.Errorf("revision @~%d: %w: session %q has %d snapshots", n, ErrUnknown, m.opts.Session, have+1)
	}
	if log != nil {
		steps, err := m.logSteps(log, m.leaf(log))
		if err != nil {
			return nil, err
		}
		switch {
		case n < len(steps):
			return m.stepPoint(ctx, steps[len(steps)-1-n])
		case n == len(steps):
			return m.startPoint(ctx, log)
		}
		return nil, tooFar(len(steps))
	}
	r, err := m.head(ctx)
	if err != nil {
		return nil, err
	}
	depth := r.data.Depth - n
	if depth < 0 {
		return nil, tooFar(r.data.Depth)
	}
	r, err = m.ancestor(ctx, r, func(r *record) bool { return r.data.Depth <= depth })
	if err != nil {
		return nil, err
	}
	return pointOf(&step{entry: r.Entry, record: r}), nil
}

func (m *FileSnapshotManager) stepPoint(ctx context.Context, e *session.Entry) (*Point, error) {
	s, err := m.stepOf(ctx, e)
	if err == nil && s.record == nil {
		err = m.hasTree(ctx, s.data.SnapshotTreeHash, e.ID)
	}
	if err != nil {
		return nil, err
	}
	p := pointOf(s)
	if m.isLate(e) {
		p.entry = m.data(e).AboveEntryID
	}
	return p, nil
}

// hasTree reports as an error that the tree of a step is not in the store: the
// log comes from elsewhere.
func (m *FileSnapshotManager) hasTree(ctx context.Context, id store.ID, entry string) error {
	_, err := m.store.Get(ctx, store.Tree, id)
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("step-snapshot %q: tree %s: %w in this store", entry, id.Short(), ErrUnknown)
	}
	return err
}

// atTurn returns the state after turn n on the path to the leaf: if the turn
// changed nothing, the step before it.
func (m *FileSnapshotManager) atTurn(ctx context.Context, log *session.Tree, n int) (*Point, error) {
	var newest *Point
	var err error
	if newest, err = m.nthLast(ctx, log, 0); err != nil {
		return nil, err
	}
	head, err := m.newest(ctx, m.opts.Session)
	if err != nil {
		return nil, err
	}
	if _, turns, err := m.positionOf(ctx, log, head); err != nil {
		return nil, err
	} else if n >= turns {
		return nil, fmt.Errorf("turn %d: %w: session %q has had %d so far", n, ErrUnknown, m.opts.Session, turns)
	}
	if newest.TurnIndex <= n {
		return newest, nil
	}
	if log == nil {
		r, err := m.ancestor(ctx, newest.step.record, func(r *record) bool { return r.Kind == kindStart || r.data.Turn <= n })
		if err != nil {
			return nil, err
		}
		return pointOf(&step{entry: r.Entry, record: r}), nil
	}
	steps, err := m.logSteps(log, m.leaf(log))
	if err != nil {
		return nil, err
	}
	for _, e := range slices.Backward(steps) {
		p, err := m.stepPoint(ctx, e)
		if err != nil {
			return nil, err
		}
		if p.TurnIndex <= n {
			return p, nil
		}
	}
	return m.startPoint(ctx, log)
}

// atEntry returns the point that an entry of the log stands for. A message of
// the agent and a result of its tools stand for the step behind them, which is
// appended when the turn ends; anything else for what was before it.
func (m *FileSnapshotManager) atEntry(ctx context.Context, log *session.Tree, e *session.Entry) (*Point, error) {
	if e.Type == "custom" && e.CustomType == session.StepSnapshot {
		return m.stepPoint(ctx, e)
	}
	if e.Type == "message" && (e.Role == "assistant" || e.Role == "toolResult") {
		if below := m.stepBelow(log, e); below != nil {
			return m.stepPoint(ctx, below)
		}
	}
	steps, err := m.logSteps(log, e.ID)
	if err != nil {
		return nil, err
	}
	if len(steps) > 0 {
		return m.stepPoint(ctx, steps[len(steps)-1])
	}
	// Before all steps: where the first one below began.
	if first := m.firstBelow(log, e); first != nil {
		p, err := m.startOf(ctx, first)
		if err == nil {
			p.entry = e.ID
		}
		return p, err
	}
	p, err := m.startPoint(ctx, log)
	if errors.Is(err, ErrNoSession) {
		err = fmt.Errorf("entry %q: %w: nothing says what the files were", e.ID, ErrUnknown)
	}
	return p, err
}

// named finds a step by its entry, or a tree, in the store.
func (m *FileSnapshotManager) named(ctx context.Context, rev string) (*Point, error) {
	var found []*store.Snapshot
	var other, elsewhere *store.Snapshot // of another session, of another worktree
	for s, err := range m.store.ByEntry(ctx, rev) {
		switch {
		case err != nil:
			return nil, err
		case !m.opts.AnySession && (s.Worktree != m.project.Worktree() || s.Session != m.opts.Session):
			if s.Entry == rev {
				other = s
			}
		case s.Entry == rev && s.Worktree != m.project.Worktree():
			if elsewhere == nil {
				elsewhere = s
			}
		case s.Entry == rev:
			return m.recordPoint(s)
		case !slices.ContainsFunc(found, func(f *store.Snapshot) bool { return f.Entry == s.Entry }):
			found = append(found, s)
		}
	}
	if elsewhere != nil {
		return m.recordPoint(elsewhere)
	}
	if other != nil {
		return nil, fmt.Errorf("entry %q: %w: of %q in %q", rev, ErrOtherSession, other.Session, other.Root)
	}
	p, terr := m.namedTree(ctx, rev)
	switch {
	case len(found) == 0 || len(rev) < minPrefix:
		return p, terr
	case len(found) > 1 || p != nil:
		var names []string
		for _, s := range found {
			names = append(names, s.Entry)
		}
		if p != nil {
			names = append(names, "tree "+p.State.Tree.Short())
		}
		return nil, fmt.Errorf("revision %q: %w: %s", rev, ErrAmbiguous, strings.Join(names, ", "))
	}
	return m.recordPoint(found[0])
}

func (m *FileSnapshotManager) recordPoint(s *store.Snapshot) (*Point, error) {
	r, err := readRecord(s)
	if err != nil {
		return nil, err
	}
	if !r.isStep() {
		return &Point{State: r.State(), TurnIndex: -1, Snapshot: r.Snapshot}, nil
	}
	return pointOf(&step{entry: r.Entry, record: r}), nil
}

// minPrefix is how much of a name is enough, if it fits one only.
const minPrefix = 4

// namedTree finds a tree. One of this directory goes before those of others.
func (m *FileSnapshotManager) namedTree(ctx context.Context, rev string) (*Point, error) {
	prefix := strings.ToLower(rev)
	unknown := fmt.Errorf("revision %q: %w", rev, ErrUnknown)
	if len(prefix) < minPrefix || len(prefix) > 64 || strings.Trim(prefix, "0123456789abcdef") != "" {
		return nil, unknown
	}
	found := make(map[store.ID]*store.Snapshot)
	var names []string
	for s, err := range m.store.ByTree(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		old := found[s.Tree]
		if old == nil {
			names = append(names, s.Tree.Short())
		}
		if old == nil || old.Worktree != m.project.Worktree() && s.Worktree == m.project.Worktree() {
			found[s.Tree] = s
		}
	}
	if len(found) > 1 {
		slices.Sort(names)
		return nil, fmt.Errorf("revision %q: %w: %s", rev, ErrAmbiguous, strings.Join(names, ", "))
	}
	for _, s := range found {
		return m.recordPoint(s)
	}
	id, err := store.ParseID(prefix)
	if err != nil {
		return nil, unknown
	}
	if _, err := m.store.Get(ctx, store.Tree, id); errors.Is(err, store.ErrNotFound) {
		return nil, unknown
	} else if err != nil {
		return nil, err
	}
	return &Point{State: store.State{Tree: id}, TurnIndex: -1}, nil
}

// position returns the step that a new turn builds on and the turn's index.
// leaf is the entry that the runtime named; "" for where it left off.
func (m *FileSnapshotManager) position(ctx context.Context, head *record, leaf string) (prev uint64, turn int, err error) {
	log, err := m.entries(ctx)
	if err != nil {
		return 0, 0, err
	}
	if log != nil && leaf != "" {
		m.turnLeaf, m.turnLeafAt = leaf, log.Leaf()
	}
	return m.positionOf(ctx, log, head)
}

// positionOf returns the newest step on the path to the leaf, or the start,
// and how many turns have led there. Of those that changed nothing only this
// manager knows, as long as it lives. head is the session's newest record.
func (m *FileSnapshotManager) positionOf(ctx context.Context, log *session.Tree, head *record) (prev uint64, turns int, err error) {
	if log == nil {
		r, err := m.stepAt(ctx, head.step())
		if err != nil {
			return 0, 0, err
		}
		if prev = r.Seq; r.Kind == kindStep {
			turns = r.data.Turn + 1
		}
	} else {
		if prev, turns, err = m.positionIn(ctx, log); err != nil {
			return 0, 0, err
		}
		if prev == 0 && head != nil {
			prev = head.start()
		}
		// Steps that the log has not been given yet come behind.
		untold, err := m.untold(ctx, head)
		if err != nil {
			return 0, 0, err
		}
		path, err := log.Path(m.leaf(log))
		if err != nil {
			return 0, 0, err
		}
		onPath := func(id string) bool {
			return id == "" || slices.ContainsFunc(path, func(e *session.Entry) bool { return e.ID == id })
		}
		for _, r := range untold {
			if r.data.Prev == prev && onPath(r.Above) {
				prev, turns = r.Seq, max(turns, r.data.Turn+1)
			}
		}
	}
	if m.turnOf == prev {
		turns = max(turns, m.turn)
	}
	return prev, turns, nil
}

// positionIn returns the newest recorded step on the path to a log's leaf, 0
// if there is none, and how many turns the log says have led there.
func (m *FileSnapshotManager) positionIn(ctx context.Context, log *session.Tree) (prev uint64, turns int, err error) {
	steps, err := m.logSteps(log, m.leaf(log))
	if err != nil {
		return 0, 0, err
	}
	for _, e := range slices.Backward(steps) {
		s, err := m.stepOf(ctx, e)
		if err != nil {
			return 0, 0, err
		}
		turns = max(turns, s.turn()+1)
		if s.record != nil {
			return s.Seq, turns, nil
		}
	}
	return 0, turns, nil
}

// diff lists what differs between two states.
func (m *FileSnapshotManager) diff(ctx context.Context, old, new store.State) (*Diff, error) {
	diff := NewDiff()
	for d, err := range tree.Compare(ctx, m.store, old, new) {
		if err != nil {
			return nil, err
		}
		diff.Add(d.Path, d.Status)
	}
	return diff, nil
}

// changes returns what a step changed.
func (m *FileSnapshotManager) changes(ctx context.Context, r *record) ([]change, error) {
	return changesOf(ctx, m.store, r.stretches(), newPathSet(r.data.Claims), newPathSet(r.data.Foreign))
}
