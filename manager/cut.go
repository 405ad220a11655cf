package manager

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/internal/standing"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/tree"
)

// This file is about cuts in merges: see package standing. A turn that is in with cuts has
// done less: merges take what it left without them for what it left.

// A pathCuts is what was taken back of changes at a path, what of that stays so, whatever
// becomes of the changes that go and come, and what is to be.
type pathCuts struct{ now, stay, then []history.Cut }

// cutsAt returns that of a path at which changes go and come.
func (a *aim) cutsAt(ctx context.Context, tip *record, p string) (c pathCuts, err error) {
	oldest, any := uint64(math.MaxUint64), len(a.goes.cuts[p]) > 0 || a.standings.Cut[p]
	for _, side := range [][]standing.StepChange{a.back[p], a.forth[p]} {
		for _, sc := range side {
			for _, cut := range append(sc.By.CutAt(p), history.Cut{Turn: sc.By.Seq}) {
				oldest = min(oldest, cut.Turn)
			}
		}
	}
	if !any {
		return c, nil
	}
	if c.now, err = a.standings.Line.CutsIn(ctx, tip, p, oldest); err != nil {
		return c, err
	}
	c.stay = slices.Clone(c.now)
	for _, sc := range a.back[p] {
		c.stay = merging.CutsBut(c.stay, sc.By.CutAt(p))
	}
	c.then = slices.Clone(c.stay)
	for _, sc := range a.forth[p] {
		c.then = append(c.then, sc.By.CutAt(p)...)
	}
	c.then = append(c.then, a.goes.cuts[p]...)
	return c, nil
}

// stepsOf returns what is to be done to take back what a change did, or to do it: goes
// and comes say whether it is in now, and then. Of one that stays in, that is what was cut
// out of it.
func (x *restore) stepsOf(ctx context.Context, sc standing.StepChange, cuts pathCuts, goes, comes bool) (
	steps []merging.Step,
	err error) {
	list, err := x.m.windowsOf(ctx, sc.By, sc.Change)
	if err != nil {
		return nil, err
	}
	before, over, isOver, err := x.windowsBefore(ctx, sc, list)
	if err != nil {
		return nil, err
	}
	for i, w := range list {
		part := &merging.Part{Found: w.Base, Left: w.Theirs}
		if isOver && i == 0 {
			part.Found = over
		}
		part.Cut = history.Cut{Path: []byte(sc.Change.Path), Turn: sc.By.Seq}
		if before+len(list) > 1 {
			part.Cut.Window = before + i + 1
		}
		part.Now, part.Stay, part.Then = part.All(), part.CutsOf(cuts.stay), part.All()
		if goes {
			part.Now = part.CutsOf(cuts.now)
		}
		if comes {
			part.Then = part.CutsOf(cuts.then)
		}
		st := merging.Step{Of: sc.By, Comes: !goes, Part: part}
		if st.Base, err = x.merger().Without(ctx, sc.Change.Path, part.Found, part.Left, part.Now); err != nil {
			return nil, err
		}
		if st.Theirs, err = x.merger().Without(ctx, sc.Change.Path, part.Found, part.Left, part.Then); err != nil {
			return nil, err
		}
		if isOver && i == 0 { // what was done up to the look stays
			if st.Part = nil; !goes {
				st.Base = w.Base
			}
			if !comes {
				st.Theirs = w.Base
			}
		}
		steps = append(steps, st)
	}
	if goes {
		slices.Reverse(steps)
	}
	return steps, nil
}

// windowsBefore returns how many windows of a turn came before those of what is left of it
// behind a look, which are in a list; and what the first of them had found, if it goes over
// the look.
func (x *restore) windowsBefore(ctx context.Context, sc standing.StepChange, list []merging.Step) (n int,
	over *tree.Entry,
	isOver bool, err error) {
	if sc.By.Behind == nil || len(list) == 0 {
		return 0, nil, false, nil
	}
	turn, err := x.m.records.Record(ctx, sc.By.Seq)
	if err != nil {
		return 0, nil, false, err
	}
	all, err := x.m.piecesAt(ctx, turn, sc.Change.Path)
	if n = len(all) - len(list); n < 0 || err != nil {
		return 0, nil, false, err
	}
	over, err = trees.EntryAt(ctx, x.m.tree.pages, all[n].from.Tree, sc.Change.Path)
	return n, over, !trees.Same(over, list[0].Base), err
}

// isAbout notes a turn of which something goes or comes.
func (a *aim) isAbout(r *record) {
	if !slices.ContainsFunc(a.about, func(o *record) bool { return history.IsSame(o, r) }) {
		a.about = append(a.about, r)
	}
}

// recut returns what is to be done where a restore that took back parts of changes is
// taken back, or done again (isBack says which), and some of these stay in: what it took
// back comes again the older change first, and goes the newer first. The steps of those
// that go or come have it; so have those of before, the changes before it in the list.
func (x *restore) recut(ctx context.Context, a *aim, at *record, j standing.StepChange, isBack bool, cuts pathCuts,
	before []standing.StepChange) (steps []merging.Step, err error) {
	p := j.Change.Path
	seen := make(map[uint64]bool)
	for _, sc := range before {
		for _, c := range sc.By.CutAt(p) {
			seen[c.Turn] = true
		}
	}
	rests := make(map[uint64]standing.StepChange) // of turns of which the part before a look stays in
	for _, sc := range slices.Concat(a.back[p], a.forth[p]) {
		if sc.By.Behind != nil {
			rests[sc.By.Seq] = sc
		} else {
			seen[sc.By.Seq] = true
		}
	}
	oldest := uint64(math.MaxUint64)
	for _, c := range j.By.CutAt(p) {
		if oldest = min(oldest, c.Turn); rests[c.Turn].By != nil {
			oldest = min(oldest, rests[c.Turn].By.Behind.Seq)
		}
	}
	in, err := a.standings.Line.InAt(ctx, at, p, oldest)
	if err != nil {
		return nil, err
	}
	newest := func(a, b history.Cut) int { return cmp.Compare(b.Turn, a.Turn) }
	for _, c := range slices.SortedFunc(slices.Values(j.By.CutAt(p)), newest) {
		rest, isRest := rests[c.Turn]
		if seen[c.Turn] || !standing.HasRecord(in, c.Turn) && !(isRest && standing.HasRecord(in, rest.By.Behind.Seq)) {
			continue
		}
		seen[c.Turn] = true
		list, err := x.cutSteps(ctx, a, c.Turn, p, cuts)
		if err == nil && isRest { // its windows have steps of their own
			var windows []merging.Step
			windows, err = x.m.windowsOf(ctx, rest.By, rest.Change)
			list = list[min(len(windows), len(list)):]
		}
		if err != nil {
			return nil, err
		}
		steps = append(steps, list...)
	}
	if isBack {
		slices.Reverse(steps)
	}
	return steps, nil
}

// cutSteps returns the steps of a turn at a path that was cut there.
func (x *restore) cutSteps(ctx context.Context, a *aim, turn uint64, path string, cuts pathCuts) (
	steps []merging.Step, err error) {
	r, err := x.m.records.Record(ctx, turn)
	if err != nil {
		return nil, err
	}
	sc := standing.StepChange{By: r}
	if sc.Change, err = a.standings.At(ctx, r, path); err != nil {
		return nil, err
	}
	if sc.Change == nil {
		return nil, merging.ErrCut
	}
	a.isAbout(r)
	return x.stepsOf(ctx, sc, cuts, true, true)
}
