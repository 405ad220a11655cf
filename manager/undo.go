package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// Undo takes back the session's newest restore that was not taken back yet: the
// files that it changed are again as they were before it. The options Target,
// Paths and Exact say nothing here; opts may be nil. The error matches
// [ErrNothing] if there is none.
func (m *FileSnapshotManager) Undo(ctx context.Context, opts *RestoreOptions) (*RestoreResult, error) {
	result, err := m.takeBack(ctx, opts, topsRedo)
	if err != nil {
		err = fmt.Errorf("undo: %w", err)
	}
	return result, err
}

// Redo takes back the newest Undo after which nothing was restored. The rest
// is as with Undo.
func (m *FileSnapshotManager) Redo(ctx context.Context, opts *RestoreOptions) (*RestoreResult, error) {
	result, err := m.takeBack(ctx, opts, topsUndo)
	if err != nil {
		err = fmt.Errorf("redo: %w", err)
	}
	return result, err
}

// takeBack takes back the restore that comes next in one list. The new one
// comes next in the other.
func (m *FileSnapshotManager) takeBack(ctx context.Context, opts *RestoreOptions, to string) (*RestoreResult, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if opts == nil {
		opts = new(RestoreOptions)
	}
	x := &restore{m: m, policy: opts.OnDirty, preview: opts.Preview, force: opts.Force, append: opts.Append, list: to, always: true,
		label: opts.Label, expressly: opts.OnDirty == rollback.Overwrite}
	return x.run(ctx, func(o *look) error {
		head, err := m.newest(ctx, m.opts.Session)
		if err != nil {
			return err
		}
		if head == nil {
			return ErrNothing
		}
		last, err := m.lastRestore(ctx, head)
		if err != nil {
			return err
		}
		if last == nil {
			return ErrNothing
		}
		if x.tip, err = m.stepAt(ctx, head.position(), m.opts.Session); err != nil {
			return err
		}
		from := &x.undo // the list that it is taken from
		if x.undo, x.redo = last.undo(), last.redo(); to == topsUndo {
			from = &x.redo
		}
		var past []uint64
		x.held = nil
		for list := *from; list.first() != 0; {
			r, err := m.record(ctx, list.first())
			if err != nil {
				return err
			}
			below := r.below()
			if len(list.past) > 0 {
				below = backList{list.past[1:], list.next}
			}
			if err := x.takeBack(ctx, r); err != nil {
				return err
			}
			taken := takenBack(r.Snapshot)
			if opts.Past {
				if taken.Left, err = x.stays(ctx, o); err != nil {
					return err
				}
			}
			if len(taken.Left) == 0 {
				x.result.Undoes, x.again, *from = &taken, list.behind(past), below.behind(past)
				return nil
			}
			if err := x.hold(ctx); err != nil {
				return err
			}
			x.result.Passed, past, list = append(x.result.Passed, taken), append(past, r.Seq), below
		}
		if len(past) > 0 {
			return &PassedError{x.result.Passed}
		}
		return ErrNothing
	})
}

func takenBack(s *store.Snapshot) TakenBack {
	return TakenBack{Session: s.Session, EntryID: s.Entry, SnapshotSeq: s.Seq, Time: s.Time.UTC()}
}

// takeBack finds out what is to be done to take back a restore.
func (x *restore) takeBack(ctx context.Context, r *record) (err error) {
	m := x.m
	x.undoes, x.moves, x.wants, x.untouched, x.oldLeaf, x.newLeaf = r, r.movesBack(), nil, nil, nil, nil
	// A navigation is taken back with the conversation, unless that has gone on
	// since.
	if r.data.NewLeaf != nil && m.standsAt(r) {
		x.oldLeaf, x.newLeaf = r.data.NewLeaf, r.data.OldLeaf
	}
	for c, err := range tree.Diff(ctx, m.tree.pages, r.Tree, r.Base.Tree) {
		if err != nil {
			return err
		}
		x.wants = append(x.wants, wantOf(&c))
	}
	if x.wants, err = m.withParents(ctx, x.wants, r.Base.Tree); err != nil {
		return err
	}
	if err := x.aimBack(ctx); err != nil {
		return err
	}
	return x.holdOn(ctx)
}

// paths returns those that the restore that is to be taken back wrote, or of
// which it moved what is in; of one that was taken back in part those that are left.
func (x *restore) paths(ctx context.Context) (map[string]bool, error) {
	list, err := x.rest(ctx)
	if list != nil || err != nil {
		return list, err
	}
	m, r := x.m, x.undoes
	list = make(map[string]bool)
	for c, err := range tree.Diff(ctx, m.tree.pages, r.Tree, r.Base.Tree) {
		if err != nil {
			return nil, err
		}
		list[c.Path] = true
	}
	from, err := m.stepAt(ctx, r.data.From, r.Session)
	if err != nil {
		return nil, err
	}
	to, err := m.stepAt(ctx, r.position(), r.Session)
	if err != nil {
		return nil, err
	}
	l, err := m.line(ctx)
	if err != nil {
		return nil, err
	}
	back, forth, err := l.standings(m.tree.pages).paths(ctx, to, from)
	for _, moved := range []map[string][]stepChange{back, forth} {
		for p := range moved {
			list[p] = true
		}
	}
	return list, err
}

// hold notes that the restore that would be taken back is passed over: its paths
// stay as they are while older ones are taken back.
func (x *restore) hold(ctx context.Context) error {
	list, err := x.paths(ctx)
	if x.held == nil {
		x.held = make(map[string]bool)
	}
	maps.Copy(x.held, list)
	return err
}

// holdOn leaves alone what a restore that was passed over is still to give back:
// else changes would come without those that they were made on.
func (x *restore) holdOn(ctx context.Context) error {
	if len(x.held) == 0 {
		return nil
	}
	list, err := x.paths(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(list, func(p string, _ bool) bool { return !x.held[p] })
	x.goes.along = slices.DeleteFunc(x.goes.along, func(p string) bool { return list[p] })
	maps.DeleteFunc(x.goes.apart, func(p string, _ *apart) bool { return list[p] })
	x.untouched = slices.AppendSeq(x.untouched, maps.Keys(list))
	hold := func(w *rollback.Want) { w.Held, w.Hidden = "a later restore, which stays, has changed it", true }
	for i := range x.wants {
		if w := &x.wants[i]; list[w.Path] {
			hold(w)
			delete(list, w.Path)
		}
	}
	for p := range list { // nothing was written there
		e, err := entryIn(ctx, x.m.tree.pages, x.undoes.Base, p, false)
		if err != nil {
			return err
		}
		w := rollback.Want{Path: p, Old: e, New: e, Created: true}
		hold(&w)
		x.wants = append(x.wants, w)
	}
	return nil
}

// stays returns the paths at which the restore that is to be taken back was left by
// an undo, or would be left now at all of its paths; none if neither is so.
func (x *restore) stays(ctx context.Context, o *look) ([]string, error) {
	rest, err := x.rest(ctx)
	if err != nil || len(rest) > 0 {
		return slices.Sorted(maps.Keys(rest)), err
	}
	root, err := x.m.openRoot()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	plan, err := x.plan(ctx, root, o)
	if err != nil || plan.Aborted || plan.Changes() || x.newLeaf != nil {
		return nil, err
	}
	var left []string
	for _, it := range plan.Items {
		if it.Do == rollback.Skipped || it.Do == rollback.Failed {
			left = append(left, it.Path)
		}
	}
	return left, nil
}

// aimBack notes where the files stand after a restore was taken back: where they
// stood before it. If something has come since, it stays: what the restore took
// back comes to it, and what the restore brought goes.
func (x *restore) aimBack(ctx context.Context) error {
	m, r := x.m, x.undoes
	from, err := m.stepAt(ctx, r.data.From, r.Session)
	if err != nil {
		return err
	}
	to, err := m.stepAt(ctx, r.position(), r.Session)
	if err != nil {
		return err
	}
	l, err := m.line(ctx)
	if err != nil {
		return err
	}
	x.goes = goes{from: x.tip.Seq, to: from.Seq, depth: from.data.Depth, leftFrom: x.tip.Seq}
	if isSame(x.tip, to) {
		x.goes.back, x.goes.forth, err = l.between(ctx, x.tip, from, "", nil)
		return err
	}
	came, went, err := l.between(ctx, to, from, "", nil)
	if err != nil {
		return err
	}
	x.goes = goes{from: x.tip.Seq, to: x.tip.Seq, depth: x.tip.data.Depth, tookFrom: from.Seq, leftFrom: x.tip.Seq}
	for _, turn := range slices.Backward(went) {
		on, err := l.isOn(ctx, x.tip, turn)
		if err == nil && !on && turn.behind != nil { // its rest does not put it on the line
			on, err = l.isOn(ctx, x.tip, turn.behind)
			on = !on
		}
		if err != nil {
			return err
		}
		if !on {
			x.goes.with, x.goes.forth = append(x.goes.with, turn.Seq), append(x.goes.forth, turn)
			if turn.behind != nil {
				x.goes.without = append(x.goes.without, turn.behind.Seq)
			}
		}
	}
	for _, turn := range came {
		on, err := l.onLine(ctx, x.tip, turn)
		if err != nil {
			return err
		}
		if on != nil { // it may be there in part, or whole by now
			x.goes.without, x.goes.back = append(x.goes.without, on.Seq), append(x.goes.back, turn)
			if turn.behind != nil { // of which the rest goes
				x.goes.with = append(x.goes.with, turn.behind.Seq)
			}
		}
	}
	return x.comeAlong(ctx, l, from, to)
}

// comeAlong finds the paths that stand where they stood before the restore that is
// taken back though nothing was written to them: no turn since has changed them.
// Those that one has changed stay where they are, unless they are written to.
func (x *restore) comeAlong(ctx context.Context, l *line, from, to *record) error {
	s := l.standings(x.m.tree.pages)
	back, forth, err := s.paths(ctx, to, from)
	if err != nil {
		return err
	}
	gone, came, err := s.paths(ctx, to, x.tip)
	if err != nil {
		return err
	}
	rest, err := x.rest(ctx)
	if err != nil {
		return err
	}
	var since []string
	for _, list := range []map[string][]stepChange{back, forth} {
		for p := range list {
			switch {
			case rest != nil && !rest[p]:
			case gone[p] == nil && came[p] == nil:
				x.goes.along = append(x.goes.along, p)
			default:
				since = append(since, p)
			}
		}
	}
	if err := x.standApart(ctx, s, since, back, forth); err != nil {
		return err
	}
	x.wants = slices.DeleteFunc(x.wants, func(w rollback.Want) bool { return rest != nil && !rest[w.Path] })
	for i := range x.wants {
		w := &x.wants[i]
		if list := came[w.Path]; len(list) > 0 {
			if x.goes.apart[w.Path] == nil {
				x.untouched = append(x.untouched, w.Path)
			}
			last := list[len(list)-1]
			w.Held = fmt.Sprintf("turn %d has changed it since", last.r.turn())
			for _, sc := range list {
				if sc.c.new == nil {
					w.Held = fmt.Sprintf("turn %d has deleted it since", sc.r.turn())
					w.Hidden = back[w.Path] != nil
				}
			}
		}
	}
	return nil
}

// standApart notes of paths that a turn has changed since what is in there if
// nothing has to be written to them: what that turn did, and what the restore took
// back.
func (x *restore) standApart(ctx context.Context, s *standings, paths []string, back, forth map[string][]stepChange) error {
	slices.Sort(paths)
	x.goes.apart = make(map[string]*apart)
	for _, p := range slices.Compact(paths) {
		a := &apart{From: x.tip.Seq}
		for _, sc := range back[p] {
			if a.Without = append(a.Without, sc.r.Seq); sc.r.behind != nil { // of which the rest goes
				a.With = append(a.With, sc.r.behind.Seq)
			}
		}
		for _, sc := range slices.Backward(forth[p]) {
			if a.With = append(a.With, sc.r.Seq); sc.r.behind != nil {
				a.Without = append(a.Without, sc.r.behind.Seq)
			}
		}
		in, err := s.inAt(ctx, x.tip, p, slices.Min(slices.Concat(a.With, a.Without)))
		if err != nil {
			return err
		}
		a.Without = slices.DeleteFunc(a.Without, func(seq uint64) bool { return !in[seq] })
		a.With = slices.DeleteFunc(a.With, func(seq uint64) bool { return in[seq] })
		if len(a.With)+len(a.Without) > 0 {
			x.goes.apart[p] = a
		}
	}
	if len(x.goes.apart) == 0 {
		return nil
	}
	return x.knownApart(ctx, s)
}

// knownApart finds out at which of the paths that stand apart what is there is
// expected: what was there before the restore, and after it, and is now, was.
func (x *restore) knownApart(ctx context.Context, s *standings) error {
	r := x.undoes
	seen := make(map[string]int)
	for _, c := range []struct {
		at uint64
		is store.State
	}{{r.data.From, r.Base}, {r.position(), r.State()}, {x.tip.Seq, store.State{}}} {
		at, err := x.m.stepAt(ctx, c.at, r.Session)
		if err != nil {
			return err
		}
		ws := &wants{m: x.m, ctx: ctx, g: x.m.tree.pages}
		err = s.newest(ctx, at, slices.Collect(maps.Keys(x.goes.apart)), func(p string, sc *stepChange, start *record) error {
			want, state, err := ws.expectedOf(p, sc, start)
			if err != nil || state.IsZero() {
				return err
			}
			var e *tree.Entry
			if c.is.IsZero() {
				e, err = x.entryOnDisk(ctx, p)
			} else {
				e, err = ws.entry(c.is, p, false)
			}
			if err == nil && same(e, want) {
				seen[p]++
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for p, a := range x.goes.apart {
		a.Known = seen[p] == 3
	}
	return nil
}

// rest returns the paths that an undo of the same restore has left alone: they are
// what is still to be taken back; nil if there was none.
func (x *restore) rest(ctx context.Context) (map[string]bool, error) {
	head, err := x.m.newest(ctx, x.m.opts.Session)
	if err != nil {
		return nil, err
	}
	r, err := x.m.lastRestore(ctx, head)
	for ; r != nil && err == nil && r.Seq > x.undoes.Seq; r, err = x.m.restoreBefore(ctx, r) {
		if r.data.Undoes != x.undoes.Seq {
			continue
		}
		rest := make(map[string]bool)
		for _, p := range r.data.Left {
			rest[string(p)] = true
		}
		return rest, nil
	}
	return nil, err
}

// Restores returns the records of the restores of the session that Undo and
// Redo would take back, and of one that was cut off in the directory, of
// whatever session; nil where there is none.
func (m *FileSnapshotManager) Restores(ctx context.Context) (undo, redo, cutOff *store.Snapshot, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, err := m.newest(ctx, store.AnySession)
	if err != nil {
		return nil, nil, nil, err
	}
	if last != nil && last.Kind == kindIntent {
		cutOff = last.Snapshot
	}
	head, err := m.newest(ctx, m.opts.Session)
	if err != nil {
		return nil, nil, nil, err
	}
	if last, err = m.lastRestore(ctx, head); err != nil || last == nil {
		return nil, nil, cutOff, err
	}
	for s, list := range map[**store.Snapshot]backList{&undo: last.undo(), &redo: last.redo()} {
		if *s, err = m.firstOf(ctx, list); err != nil {
			return nil, nil, nil, err
		}
	}
	return undo, redo, cutOff, nil
}

// firstOf returns the record of what is taken back next of a list, nil if nothing
// is.
func (m *FileSnapshotManager) firstOf(ctx context.Context, list backList) (*store.Snapshot, error) {
	if list.first() == 0 {
		return nil, nil
	}
	r, err := m.record(ctx, list.first())
	if err != nil {
		return nil, err
	}
	return r.Snapshot, nil
}

// NextBack returns the restores that Undo, or with redo Redo, would take back next
// in the sessions of the manager's directory, at most one of each, the newest
// first. One that was cut off comes first: it is brought to its end before.
func (m *FileSnapshotManager) NextBack(ctx context.Context, redo bool) ([]TakenBack, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []TakenBack
	for s, err := range m.store.Sessions(ctx) {
		if err != nil {
			return nil, err
		}
		if s.Worktree != m.project.Worktree() || IsEdit(s) || s.Pruned {
			continue
		}
		head, err := readRecord(s)
		if err != nil {
			return nil, err
		}
		last := head // of one that was cut off its intent says what will be on the lists
		if head.Kind != kindIntent {
			if last, err = m.lastRestore(ctx, head); err != nil {
				return nil, err
			}
		}
		if last == nil {
			continue
		}
		back := last.undo()
		if redo {
			back = last.redo()
		}
		first, err := m.firstOf(ctx, back)
		if errors.Is(err, store.ErrNotFound) {
			m.log.Warn("record is lost: see the store's check", "seq", back.first(), "session", s.Session)
			continue
		}
		if err != nil {
			return nil, err
		}
		if first != nil {
			list = append(list, takenBack(first))
		}
	}
	slices.SortFunc(list, func(a, b TakenBack) int { return cmp.Compare(b.SnapshotSeq, a.SnapshotSeq) })
	return list, nil
}

// standsAt reports whether the conversation is where a navigation has led, or at
// the entry that says so.
func (m *FileSnapshotManager) standsAt(r *record) bool {
	if m.given == nil {
		return false
	}
	leaf := m.leaf(m.given)
	return leaf == *r.data.NewLeaf || r.Entry != "" && leaf == r.Entry
}

// lastRestore returns the session's newest restore, nil if there is none.
func (m *FileSnapshotManager) lastRestore(ctx context.Context, head *record) (*record, error) {
	if head == nil || head.Kind == kindRestore {
		return head, nil
	}
	return m.restoreBefore(ctx, head)
}

// restoreBefore returns the session's newest restore before a record, nil if
// there is none.
func (m *FileSnapshotManager) restoreBefore(ctx context.Context, head *record) (*record, error) {
	if head.data.Restored == 0 {
		return nil, nil
	}
	return m.recordOrBefore(ctx, head.data.Restored, func(s *store.Snapshot) bool {
		return s.Session == head.Session && s.Kind == kindRestore
	})
}
