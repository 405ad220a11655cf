package manager

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/boocode/filestore/internal/change"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/internal/standing"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// Undo takes back the session's newest restore that was not taken back yet: the
// files that it changed are again as they were before it. opts may be nil. The error
// matches [ErrNothing] if there is none, [store.ErrPruned] if what was there before it is not
// kept any more.
func (m *FileSnapshotManager) Undo(ctx context.Context, opts *UndoOptions) (*RestoreResult, error) {
	return restoring(ctx, m, "undo", func(ctx context.Context) (*RestoreResult, error) {
		return m.takeBack(ctx, opts, history.TopsRedo)
	})
}

// Redo takes back the newest Undo after which nothing was restored. The rest
// is as with Undo.
func (m *FileSnapshotManager) Redo(ctx context.Context, opts *UndoOptions) (*RestoreResult, error) {
	return restoring(ctx, m, "redo", func(ctx context.Context) (*RestoreResult, error) {
		return m.takeBack(ctx, opts, history.TopsUndo)
	})
}

// takeBack takes back the restore that comes next in one list. The new one
// comes next in the other.
func (m *FileSnapshotManager) takeBack(ctx context.Context, opts *UndoOptions, to string) (*RestoreResult, error) {
	opts = cmp.Or(opts, new(UndoOptions))
	x := &restore{m: m, asked: asked{list: to, always: true, expressly: opts.OnDirty == rollback.Overwrite,
		opts: RestoreOptions{OnDirty: opts.OnDirty, Preview: opts.Preview, Force: opts.Force, EndTurn: opts.EndTurn,
			Label: opts.Label, Append: opts.Append}}}
	return x.run(ctx, func() error { return x.takeBackNext(ctx, opts.Past) })
}

// takeBackNext finds out what is to be done to take back the restore that comes next
// in its list, or with past the first of which not only a part can be taken back.
func (x *restore) takeBackNext(ctx context.Context, past bool) error {
	last, err := x.begin(ctx)
	if err != nil {
		return err
	}
	nothing := ErrNothing
	if x.list == history.TopsUndo {
		nothing = errNothingAgain
	}
	if last == nil {
		return x.m.orLost(ctx, nothing)
	}
	if err := x.lostSince(ctx, last); err != nil {
		return err
	}
	from := &x.undo // the list that it is taken from
	if x.undo, x.redo = last.Lists(); x.list == history.TopsUndo {
		from = &x.redo
	}
	var passed []uint64
	held := make(map[string]bool) // paths of those that were passed over
	for list := *from; list.First() != 0; {
		r, err := x.m.wholeRestore(ctx, list.First())
		if err != nil {
			return err
		}
		below := r.Below()
		if len(list.Past) > 0 {
			below = history.BackList{Past: list.Past[1:], Next: list.Next}
		}
		u, err := x.undone(ctx, r, last)
		if err != nil {
			return err
		}
		if err := u.aimAt(held); err != nil {
			return err
		}
		taken := takenBack(r.Snapshot)
		if past {
			if taken.Left, err = u.stays(); err != nil {
				return err
			}
		}
		if len(taken.Left) == 0 {
			x.result.Undoes, x.again, *from = &taken, list.Behind(passed), below.Behind(passed)
			return nil
		}
		// Its paths stay as they are while older ones are taken back.
		paths, err := u.paths()
		if err != nil {
			return err
		}
		maps.Copy(held, paths)
		x.result.Passed, passed, list = append(x.result.Passed, taken), append(passed, r.Seq), below
	}
	if len(passed) > 0 {
		return passedError(x.result.Passed)
	}
	return x.m.orLost(ctx, nothing)
}

// lostSince returns an error if records of the worktree are lost that came after one: a restore may have
// been among them.
func (x *restore) lostSince(ctx context.Context, r *record) error {
	isSince := func(seq uint64) bool { return seq > r.Seq }
	if !slices.ContainsFunc(x.o.turns.Lost, isSince) {
		return nil
	}
	lost, err := history.LostRecords(ctx, x.m.store)
	for _, l := range lost {
		if isSince(l.Seq) && l.Accepted.IsZero() && slices.Contains(x.o.turns.Lost, l.Seq) {
			return fmt.Errorf("what was restored last is not known: %w", l.Damage)
		}
	}
	return err
}

// wholeRestore returns the record of a restore that can be taken back: what was there before it is
// not pruned.
func (m *FileSnapshotManager) wholeRestore(ctx context.Context, seq uint64) (*record, error) {
	r, err := m.records.Record(ctx, seq)
	if err == nil && r.Pruned {
		err = fmt.Errorf("the restore of %s: the snapshot of what was there before it %w",
			r.Time.Local().Format(time.DateTime), store.ErrPruned)
	}
	return r, err
}

func takenBack(s *store.Snapshot) TakenBack {
	return TakenBack{Session: s.Session, EntryID: s.Entry, SnapshotSeq: s.Seq, Time: s.Time.UTC()}
}

// An undone is a restore that is to be taken back.
type undone struct {
	*record
	x        *restore // that takes it back
	ctx      context.Context
	l        *line
	from, to *record // where the files stood before it, and after it

	// Paths that an undo of it has left alone: only these are still to be taken back.
	// nil: there was no undo.
	rest  map[string]bool
	again []*record // undos of it, the newest first

	moved *undoneMoves // nil: not known yet
}

// undoneMoves are the changes that go and come at paths when a restore is taken back.
type undoneMoves struct {
	s           *standing.Paths
	back, forth map[string][]standing.StepChange
	inPart      map[string]bool // paths at which an undo has done a part of it
}

// undone finds out about a restore that is to be taken back. last is the session's
// newest restore.
func (x *restore) undone(ctx context.Context, r, last *record) (*undone, error) {
	m := x.m
	l, err := m.line(ctx)
	if err != nil {
		return nil, err
	}
	u := &undone{record: r, x: x, ctx: ctx, l: l}
	if u.from, err = m.records.StepAt(ctx, r.Facts.From, r.Session); err != nil {
		return nil, err
	}
	if u.to, err = m.records.StepAt(ctx, r.Position(), r.Session); err != nil {
		return nil, err
	}
	for again := last; again != nil && again.Seq > r.Seq; {
		if again.Facts.Undoes == r.Seq {
			if u.rest == nil {
				u.rest = make(map[string]bool)
				for _, p := range again.Facts.Left {
					u.rest[string(p)] = true
				}
			}
			u.again = append(u.again, again)
		}
		if again, err = m.records.RestoreBefore(ctx, again); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// aimAt finds out what is to be done to take it back. Of the paths that are held a
// restore that was passed over is still to give something back.
func (u *undone) aimAt(held map[string]bool) (err error) {
	x, g := u.x, u.x.m.tree.pages
	x.aim = aim{undoes: u.record, undone: u, moves: change.Reverse(u.Moves())}
	x.oldLeaf, x.newLeaf = nil, nil
	// A navigation is taken back with the conversation, unless that has gone on
	// since.
	if u.Facts.NewLeaf != nil && x.m.standsAt(u.record) {
		x.oldLeaf, x.newLeaf = u.Facts.NewLeaf, u.Facts.OldLeaf
	}
	if x.wants, err = change.Between(u.ctx, g, u.Tree, u.Base.Tree); err != nil {
		return err
	}
	if x.wants, err = change.WithParents(u.ctx, g, x.wants, u.Base.Tree); err != nil {
		return err
	}
	if err := u.standAfter(); err != nil || len(held) == 0 {
		return err
	}
	return u.hold(held)
}

// paths returns those that it wrote, or of which it moved what is in; of one that was
// taken back in part those that are left.
func (u *undone) paths() (map[string]bool, error) {
	if u.rest != nil {
		return maps.Clone(u.rest), nil
	}
	list := make(map[string]bool)
	for c, err := range trees.Diff(u.ctx, u.x.m.tree.pages, u.Tree, u.Base.Tree) {
		if err != nil {
			return nil, err
		}
		list[c.Path] = true
	}
	moved, err := u.moves()
	if err != nil {
		return nil, err
	}
	for _, side := range []map[string][]standing.StepChange{moved.back, moved.forth} {
		for p := range side {
			list[p] = true
		}
	}
	return list, nil
}

// moves finds out what goes and comes when it is taken back, less what undos have done of
// that in part.
func (u *undone) moves() (*undoneMoves, error) {
	if u.moved != nil {
		return u.moved, nil
	}
	mv := &undoneMoves{s: u.l.Paths(u.x.m.tree.pages), inPart: make(map[string]bool)}
	var err error
	if mv.back, mv.forth, err = mv.s.Between(u.ctx, u.to, u.from); err != nil {
		return nil, err
	}
	for _, again := range slices.Backward(u.again) {
		for _, left := range again.Facts.Left {
			p := string(left)
			way := again.Way(p)
			if again.CutAt(p) == nil && again.StandsApart(p) == nil {
				continue
			}
			mv.inPart[p] = true
			isIn := func(list []uint64) func(standing.StepChange) bool {
				return func(sc standing.StepChange) bool { return slices.Contains(list, sc.By.Seq) }
			}
			mv.forth[p] = slices.DeleteFunc(slices.Clone(mv.forth[p]), isIn(way.With))
			mv.back[p] = slices.DeleteFunc(slices.Clone(mv.back[p]), isIn(way.Without))
			if c, err := mv.s.At(u.ctx, again, p); err != nil {
				return nil, err
			} else if c != nil {
				mv.back[p] = slices.Insert(mv.back[p], 0, standing.StepChange{By: again, Change: c})
				mv.s.Cut[p] = true
			}
		}
	}
	u.moved = mv
	return mv, nil
}

// steps returns what is to be done at a dirty path change by change, if that is all that it
// has done there, or is left of it; else nothing.
func (u *undone) steps(w *livedir.Want) (steps []merging.Step, err error) {
	mv, err := u.moves()
	if err != nil {
		return nil, err
	}
	p, x := w.Path, u.x
	a := &aim{standings: mv.s, back: mv.back, forth: mv.forth}
	x.aim.back, x.aim.forth = mv.back, mv.forth
	if !mv.inPart[p] {
		if is, err := u.isByChanges(a, w); !is || err != nil {
			return nil, err
		}
	}
	if steps, err = x.mergeSteps(u.ctx, a, x.tip, w); err != nil {
		return nil, unlessLost(err)
	}
	for _, st := range steps {
		x.isAbout(st.Of)
	}
	return steps, nil
}

// isByChanges reports whether what is to be done at a path is what leads from what the
// restore left to what it found, and nothing of it was done since.
func (u *undone) isByChanges(a *aim, w *livedir.Want) (is bool, err error) {
	x, p := u.x, w.Path
	oldest := uint64(math.MaxUint64)
	for _, sc := range slices.Concat(a.back[p], a.forth[p]) {
		oldest = min(oldest, sc.By.Seq)
	}
	in, err := a.standings.Line.InAt(u.ctx, x.tip, p, oldest)
	isOut := func(sc standing.StepChange) bool { return !standing.HasRecord(in, sc.By.Seq) }
	isIn := func(sc standing.StepChange) bool { return sc.By.Behind == nil && !isOut(sc) }
	if err != nil || slices.ContainsFunc(a.back[p], isOut) || slices.ContainsFunc(a.forth[p], isIn) {
		return false, err
	}
	steps, err := x.mergeSteps(u.ctx, a, u.to, w)
	if err != nil || len(steps) == 0 {
		return false, unlessLost(err)
	}
	mg, err := x.merger().Merge(u.ctx, p, w.Old, steps)
	return err == nil && mg.Clash == nil && trees.Same(mg.Now, w.New), err
}

// hold leaves alone those of its paths that are held: else changes would come without
// those that they were made on.
func (u *undone) hold(held map[string]bool) error {
	x := u.x
	list, err := u.paths()
	if err != nil {
		return err
	}
	maps.DeleteFunc(list, func(p string, _ bool) bool { return !held[p] })
	x.goes.along = slices.DeleteFunc(x.goes.along, func(p string) bool { return list[p] })
	maps.DeleteFunc(x.goes.apart, func(p string, _ *history.Apart) bool { return list[p] })
	x.untouched = slices.AppendSeq(x.untouched, maps.Keys(list))
	wanted := make(map[string]bool)
	for i := range x.wants {
		wanted[x.wants[i].Path] = true
	}
	for p := range list {
		if wanted[p] {
			continue
		}
		e, err := trees.EntryAt(u.ctx, x.m.tree.pages, u.Base.Tree, p) // nothing was written there
		if err != nil {
			return err
		}
		x.wants = append(x.wants, livedir.Want{Path: p, Old: e, New: e, Created: true})
	}
	for i := range x.wants {
		if w := &x.wants[i]; list[w.Path] {
			w.Held, w.Hidden = "a later restore, which stays, has changed it", true
		}
	}
	return nil
}

// stays returns the paths at which an undo has left it alone, or at which it would be
// left alone now if that is so of all its paths; none if neither is so.
func (u *undone) stays() ([]string, error) {
	if len(u.rest) > 0 {
		return slices.Sorted(maps.Keys(u.rest)), nil
	}
	plan, err := u.x.plan(u.ctx)
	if err != nil || plan.Aborted || plan.Changes() || u.x.newLeaf != nil {
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

// standAfter notes where the files stand after it was taken back: where they
// stood before it. If something has come since, it stays: what the restore took
// back comes to it, and what the restore brought goes.
func (u *undone) standAfter() error {
	x, l, ctx, from, to := u.x, u.l, u.ctx, u.from, u.to
	var err error
	x.goes = goes{from: x.tip.Seq, to: from.Seq, depth: from.Facts.Depth, leftFrom: x.tip.Seq}
	if history.IsSame(x.tip, to) {
		x.goes.back, x.goes.forth, err = l.Between(ctx, x.tip, from, "", nil)
		return err
	}
	came, went, err := l.Between(ctx, to, from, "", nil)
	if err != nil {
		return err
	}
	x.goes = goes{from: x.tip.Seq, to: x.tip.Seq, depth: x.tip.Facts.Depth, tookFrom: from.Seq, leftFrom: x.tip.Seq}
	for _, turn := range slices.Backward(went) {
		on, err := l.IsOn(ctx, x.tip, turn)
		if err == nil && !on && turn.Behind != nil { // its rest does not put it on the line
			on, err = l.IsOn(ctx, x.tip, turn.Behind)
			on = !on
		}
		if err != nil {
			return err
		}
		if !on {
			x.goes.with, x.goes.forth = append(x.goes.with, turn.Seq), append(x.goes.forth, turn)
			if turn.Behind != nil {
				x.goes.without = append(x.goes.without, turn.Behind.Seq)
			}
		}
	}
	for _, turn := range came {
		on, err := l.OnLine(ctx, x.tip, turn)
		if err != nil {
			return err
		}
		if on != nil { // it may be there in part, or whole by now
			x.goes.without, x.goes.back = append(x.goes.without, on.Seq), append(x.goes.back, turn)
			if turn.Behind != nil { // of which the rest goes
				x.goes.with = append(x.goes.with, turn.Behind.Seq)
			}
		}
	}
	return u.comeAlong()
}

// comeAlong finds the paths that stand where they stood before the restore that is
// taken back though nothing was written to them: no turn since has changed them.
// Those that one has changed stay where they are, unless they are written to.
func (u *undone) comeAlong() error {
	x, rest := u.x, u.rest
	moved, err := u.moves()
	if err != nil {
		return err
	}
	s, back, forth := moved.s, moved.back, moved.forth
	gone, came, err := s.Between(u.ctx, u.to, x.tip)
	if err != nil {
		return err
	}
	var since []string
	for _, list := range []map[string][]standing.StepChange{back, forth} {
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
	if err := u.standApart(s, since, back, forth); err != nil {
		return err
	}
	if err := u.knownApart(s, came); err != nil {
		return err
	}
	x.wants = slices.DeleteFunc(x.wants, func(w livedir.Want) bool { return rest != nil && !rest[w.Path] })
	for i := range x.wants {
		w := &x.wants[i]
		if list := came[w.Path]; len(list) > 0 {
			if x.goes.apart[w.Path] == nil {
				x.untouched = append(x.untouched, w.Path)
			}
			slices.Reverse(list)
			w.Held = list[0].By.Deed() + " has changed it since"
			if list[0].Change.New == nil {
				w.Held = list[0].By.Deed() + " has deleted it since"
			}
			by, err := s.DeletedOver(u.ctx, w.Path, list, back[w.Path])
			if err != nil {
				return err
			}
			if by != nil {
				w.Held, w.Hidden = by.By.Deed()+" has deleted it since", true
				x.hide(w.Path, by.By)
			}
			if a := x.goes.apart[w.Path]; w.Hidden && a != nil {
				told, err := s.IsTold(u.ctx, x.tip, w.Path, a)
				if err != nil {
					return err
				}
				w.Hidden = !told
			}
		}
	}
	return nil
}

// standApart notes of paths that a turn has changed since what is in there if
// nothing has to be written to them: what that turn did, and what the restore took
// back.
func (u *undone) standApart(s *standing.Paths, paths []string, back, forth map[string][]standing.StepChange) error {
	x := u.x
	slices.Sort(paths)
	x.goes.apart = make(map[string]*history.Apart)
	for _, p := range slices.Compact(paths) {
		a := &history.Apart{From: x.tip.Seq}
		for _, sc := range back[p] {
			if a.Without = append(a.Without, sc.By.Seq); sc.By.Behind != nil { // of which the rest goes
				a.With = append(a.With, sc.By.Behind.Seq)
			}
		}
		for _, sc := range slices.Backward(forth[p]) {
			if a.With = append(a.With, sc.By.Seq); sc.By.Behind != nil {
				a.Without = append(a.Without, sc.By.Behind.Seq)
			}
		}
		in, err := u.l.InAt(u.ctx, x.tip, p, slices.Min(slices.Concat(a.With, a.Without)))
		if err != nil {
			return err
		}
		a.Without = slices.DeleteFunc(a.Without, func(seq uint64) bool { return !standing.HasRecord(in, seq) })
		a.With = slices.DeleteFunc(a.With, func(seq uint64) bool { return standing.HasRecord(in, seq) })
		if len(a.With)+len(a.Without) > 0 {
			x.goes.apart[p] = a
		}
	}
	return nil
}

// knownApart finds out at which of the paths that stand apart what is there is expected: what
// was there before the restore, and after it, and is now, was. An undo, or a redo, has not looked
// at a path that it did not write to: so what has come since it has to have found that, too. Every
// other restore has looked at each path that it moved.
func (u *undone) knownApart(s *standing.Paths, came map[string][]standing.StepChange) error {
	x, ctx := u.x, u.ctx
	if len(x.goes.apart) == 0 {
		return nil
	}
	seen := make(map[string]int)
	for _, c := range []struct {
		at *record
		is store.State
	}{{u.from, u.Base}, {u.to, u.State()}, {x.tip, store.State{}}} {
		ws := &wants{m: x.m, ctx: ctx, g: x.m.tree.pages}
		paths := slices.Collect(maps.Keys(x.goes.apart))
		err := s.Newest(ctx, c.at, paths, func(p string, sc *standing.StepChange, start *record) error {
			want, state, err := ws.expectedOf(p, sc, start)
			if err != nil || state.IsZero() {
				return err
			}
			var e *tree.Entry
			if c.is.IsZero() {
				e, err = x.root.Entry(ctx, p, trees.NewOverlay(nil))
			} else {
				e, err = trees.EntryAt(ws.ctx, ws.g, c.is.Tree, p)
			}
			if err != nil || !trees.Same(e, want) {
				return err
			}
			if c.at == u.to && u.Facts.Undoes != 0 && len(came[p]) > 0 && !trees.Same(came[p][0].Change.Old, want) {
				found, err := trees.EntryAt(ws.ctx, ws.g, u.Base.Tree, p)
				if err != nil || trees.Same(found, e) { // it wrote nothing
					return err
				}
			}
			seen[p]++
			return nil
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

// firstOf returns the record of what is taken back next of a list, nil if nothing
// is.
func (m *FileSnapshotManager) firstOf(ctx context.Context, list history.BackList) (*store.Snapshot, error) {
	if list.First() == 0 {
		return nil, nil
	}
	r, err := m.records.Record(ctx, list.First())
	if err != nil {
		return nil, err
	}
	return r.Snapshot, nil
}

// standsAt reports whether the conversation is where a navigation has led, or at
// the entry that says so.
func (m *FileSnapshotManager) standsAt(r *record) bool {
	if m.given == nil {
		return false
	}
	leaf := m.leaf(m.given)
	return leaf == *r.Facts.NewLeaf || r.Entry != "" && leaf == r.Entry
}
