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

	on *record // the step, or the start; nil: what Snapshot stands on, or a tree
}

// step returns the step that the point is, nil if it is none.
func (p *Point) step() *record {
	if p.on == nil || p.on.Kind != kindStep {
		return nil
	}
	return p.on
}

// pointOf returns the point of a step, or of a start.
func pointOf(r *record) *Point {
	p := &Point{State: r.State(), EntryID: r.Entry, TurnIndex: r.turn(), on: r}
	if r.Seq != 0 {
		p.Snapshot = r.Snapshot
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
	l, err := m.line(ctx)
	if err != nil {
		return nil, err
	}
	if rev == "start" {
		return l.startPoint(ctx)
	}
	if n, ok := generations(rev); ok {
		return l.nthLast(ctx, n)
	}
	if digits, ok := strings.CutPrefix(rev, "turn:"); ok {
		n, err := parseNumber(digits)
		if err != nil {
			return nil, fmt.Errorf("turn %q: %w: want a number from 0", digits, ErrUnknown)
		}
		return l.atTurn(ctx, n)
	}
	if l.log == nil {
		return m.named(ctx, rev)
	}
	if e, ok := l.log.Entry(rev); ok {
		return l.atEntry(ctx, e)
	}
	if len(rev) < minPrefix {
		return nil, fmt.Errorf("revision %q: %w", rev, ErrUnknown)
	}
	p, perr := m.named(ctx, rev)
	e, err := l.log.Find(rev)
	switch {
	case errors.Is(err, session.ErrUnknownEntry):
		return p, perr
	case err != nil:
		return nil, err
	case perr == nil && p.EntryID != e.ID:
		return nil, fmt.Errorf("revision %q: %w: entry %s, tree %s", rev, ErrAmbiguous, e.ID, p.State.Tree.Short())
	}
	return l.atEntry(ctx, e)
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
	n, err := parseNumber(digits)
	return n, err == nil
}

// parseNumber reads a number that is not negative, without a sign.
func parseNumber(digits string) (int, error) {
	n, err := strconv.ParseUint(digits, 10, 31)
	return int(n), err
}

// startPoint returns the start of the session.
func (l *line) startPoint(ctx context.Context) (*Point, error) {
	r, err := l.start(ctx)
	if err != nil {
		return nil, err
	}
	return pointOf(r), nil
}

// newest is tip, but it is an error if there is none.
func (l *line) newest(ctx context.Context) (*record, error) {
	r, err := l.tip(ctx)
	if r == nil && err == nil {
		err = fmt.Errorf("session %q: %w", l.m.opts.Session, ErrNoSession)
	}
	return r, err
}

// nthLast returns the step n before the newest on the path to the leaf.
func (l *line) nthLast(ctx context.Context, n int) (*Point, error) {
	r, err := l.newest(ctx)
	if err != nil {
		return nil, err
	}
	depth := r.data.Depth // of the records; a log may have more
	have := 0
	r, err = l.ancestor(ctx, r, func(r *record) bool {
		if l.log == nil {
			have = depth - r.data.Depth
			return have >= n
		}
		have++
		return have > n
	})
	if err != nil {
		return nil, err
	}
	if l.log != nil {
		have--
	}
	if have < n {
		return nil, fmt.Errorf("revision @~%d: %w: session %q has %d snapshots", n, ErrUnknown, l.m.opts.Session, have+1)
	}
	return l.stepPoint(ctx, r)
}

// stepPoint returns the point of a step whose tree is in the store.
func (l *line) stepPoint(ctx context.Context, r *record) (*Point, error) {
	if r.Seq == 0 {
		if err := l.m.hasTree(ctx, r.Tree, r.Entry); err != nil {
			return nil, err
		}
	}
	return pointOf(r), nil
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
func (l *line) atTurn(ctx context.Context, n int) (*Point, error) {
	tip, err := l.newest(ctx)
	if err != nil {
		return nil, err
	}
	_, turns, err := l.position(ctx)
	if err != nil {
		return nil, err
	}
	if n >= turns {
		return nil, fmt.Errorf("turn %d: %w: session %q has had %d so far", n, ErrUnknown, l.m.opts.Session, turns)
	}
	r, err := l.ancestor(ctx, tip, func(r *record) bool { return r.turn() <= n })
	if err != nil {
		return nil, err
	}
	return l.stepPoint(ctx, r)
}

// atEntry returns the point that an entry of the log stands for. A message of
// the agent and a result of its tools stand for the step behind them, which is
// appended when the turn ends; anything else for what was before it.
func (l *line) atEntry(ctx context.Context, e *session.Entry) (*Point, error) {
	if _, err := l.log.Path(e.ID); err != nil {
		return nil, err
	}
	if e.Type == "custom" && e.CustomType == session.StepSnapshot {
		r, err := l.stepOf(ctx, e)
		if err != nil {
			return nil, err
		}
		return l.stepPoint(ctx, r)
	}
	if e.Type == "message" && (e.Role == "assistant" || e.Role == "toolResult") {
		r, err := l.stepBelow(ctx, e)
		if err != nil {
			return nil, err
		}
		if r != nil {
			return l.stepPoint(ctx, r)
		}
	}
	r, err := l.at(ctx, e.ID, false)
	if err != nil {
		return nil, err
	}
	if r != nil {
		return l.stepPoint(ctx, r)
	}
	// Before all steps: where the first one below began.
	first, err := l.firstBelow(ctx, e)
	if err != nil {
		return nil, err
	}
	if first == nil {
		p, err := l.startPoint(ctx)
		if errors.Is(err, ErrNoSession) {
			err = fmt.Errorf("entry %q: %w: nothing says what the files were", e.ID, ErrUnknown)
		}
		return p, err
	}
	r, err = l.startOf(ctx, first)
	if err != nil {
		return nil, err
	}
	return pointOf(r), nil
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
	return pointOf(r), nil
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
		if IsEdit(s) {
			continue
		}
		if s.Pruned { // another may have the same tree
			unknown = fmt.Errorf("revision %q: the snapshot %w", rev, store.ErrPruned)
			continue
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

// position returns the number of the step that a turn would build on, or of
// the start, and how many turns have led there. Of those that changed nothing
// only this manager knows, as long as it lives.
func (l *line) position(ctx context.Context) (prev uint64, turns int, err error) {
	tip, err := l.tip(ctx)
	if err != nil {
		return 0, 0, err
	}
	if tip != nil {
		turns = tip.turn() + 1
	}
	if prev, err = l.recorded(ctx, tip); err != nil {
		return 0, 0, err
	}
	// A restore may have left the log where it stood.
	if head, err := l.m.newest(ctx, l.m.opts.Session); err != nil {
		return 0, 0, err
	} else if head != nil && l.log != nil {
		last, err := l.m.lastRestore(ctx, head)
		if err != nil {
			return 0, 0, err
		}
		if last != nil && last.Seq > prev && last.data.At == prev {
			return last.data.Prev, turns, nil
		}
	}
	if l.m.turnOf == prev {
		here, err := l.isBelow(l.m.turnLeafOf)
		if err != nil {
			return 0, 0, err
		}
		if here {
			turns = max(turns, l.m.turn)
		}
	}
	return prev, turns, nil
}

// diff lists what differs between two states.
func (m *FileSnapshotManager) diff(ctx context.Context, old, new store.State) (*Diff, error) {
	diff := NewDiff()
	for d, err := range tree.Compare(ctx, m.tree.pages, old, new) {
		if err != nil {
			return diff, err
		}
		diff.Add(d.Path, d.Status)
	}
	return diff, nil
}

// A lossError is one that a log tells of.
type lossError string

func (e lossError) Error() string        { return string(e) }
func (e lossError) Is(target error) bool { return target == store.ErrNotFound }

// lost returns what [Diff.Unknown] says after a comparison, and an error that is
// not about something lost: a directory is recorded also if nobody can tell any
// more what it was before.
func lost(err error) (unknown string, other error) {
	if tree.IsLoss(err) {
		return err.Error(), nil
	}
	return "", err
}

// changes returns what a step changed, as the store recorded it or, where it
// has not, as the log says.
func (m *FileSnapshotManager) changes(ctx context.Context, r *record) ([]change, error) {
	if r.logged == nil {
		return changesOf(ctx, m.tree.pages, r.stretches(), newPathSet(r.data.Claims), newPathSet(r.data.Foreign))
	}
	if d := r.logged.Diff; d != nil && d.Unknown != "" {
		return nil, lossError("what it changed is not known: " + d.Unknown)
	}
	var changes []change
	for _, part := range []struct {
		diff  *Diff
		owner Owner
	}{{r.logged.Diff, OwnTurn}, {r.logged.Contested, Contested}} {
		if part.diff == nil {
			continue
		}
		for path, status := range part.diff.Paths() {
			changes = append(changes, change{path: path, status: status, owner: part.owner})
		}
	}
	return changes, nil
}
