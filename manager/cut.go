package manager

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/hunks"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/standing"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
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
		c.stay = cutsBut(c.stay, sc.By.CutAt(p))
	}
	c.then = slices.Clone(c.stay)
	for _, sc := range a.forth[p] {
		c.then = append(c.then, sc.By.CutAt(p)...)
	}
	c.then = append(c.then, a.goes.cuts[p]...)
	return c, nil
}

// cutsBut returns cuts but for those of another list.
func cutsBut(list, but []history.Cut) []history.Cut {
	return slices.DeleteFunc(slices.Clone(list), func(c history.Cut) bool {
		return slices.ContainsFunc(but, func(o history.Cut) bool { return reflect.DeepEqual(o, c) })
	})
}

// isOut reports whether cuts take back all that a window of a change did.
func isOut(cuts []history.Cut) bool {
	return slices.ContainsFunc(cuts, func(c history.Cut) bool { return c.Whole })
}

// cutsOfWindow returns those of a window of a turn.
func cutsOfWindow(list []history.Cut, turn uint64, window int) (of []history.Cut) {
	for _, c := range list {
		if c.Turn == turn && c.Window == window {
			of = append(of, c)
		}
	}
	return of
}

// errCut: a cut is not of what the turn left.
var errCut = fmt.Errorf("%w: lines were taken back that the turn has not left", store.ErrCorrupt)

// without returns what a window of a turn would have left without some lines: found is what
// it found. The text is kept in x.texts.
func (x *restore) without(ctx context.Context, p string, found, left *tree.Entry, cuts []history.Cut) (*tree.Entry,
	error) {
	if len(cuts) == 0 {
		return left, nil
	}
	if isOut(cuts) {
		return found, nil
	}
	e := *left
	var spans []history.Span
	for _, c := range cuts {
		if c.Mode {
			e.Mode = found.Mode
		}
		spans = append(spans, c.Spans...)
	}
	if len(spans) == 0 {
		return &e, nil
	}
	before, err := x.m.hunkState(ctx, p, found)
	if err != nil {
		return nil, err
	}
	after, err := x.m.hunkState(ctx, p, left)
	if err != nil {
		return nil, err
	}
	if before.Opaque || after.Opaque {
		return nil, fmt.Errorf("lines of it were taken back: a content %w", store.ErrForgotten)
	}
	list, ok := hunks.Of(before.Text, after.Text, sortSpans(spans))
	if !ok {
		return nil, errCut
	}
	text := hunks.TakenBack(after.Text, list, func(*hunks.Hunk) bool { return true })
	if e.ID, e.Size = object.Hash(object.Blob, text), int64(len(text)); x.texts == nil {
		x.texts = make(map[store.ID][]byte)
	}
	x.texts[e.ID] = text
	return &e, nil
}

// stepsOf returns what is to be done to take back what a change did, or to do it: goes
// and comes say whether it is in now, and then. Of one that stays in, that is what was cut
// out of it.
func (x *restore) stepsOf(ctx context.Context, sc standing.StepChange, cuts pathCuts, goes, comes bool) (
	steps []mergeStep,
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
		part := &stepPart{found: w.base, left: w.theirs}
		if isOver && i == 0 {
			part.found = over
		}
		part.cut = history.Cut{Path: []byte(sc.Change.Path), Turn: sc.By.Seq}
		if before+len(list) > 1 {
			part.cut.Window = before + i + 1
		}
		part.now, part.stay, part.then = part.all(), part.of(cuts.stay), part.all()
		if goes {
			part.now = part.of(cuts.now)
		}
		if comes {
			part.then = part.of(cuts.then)
		}
		st := mergeStep{of: sc.By, comes: !goes, part: part}
		if st.base, err = x.without(ctx, sc.Change.Path, part.found, part.left, part.now); err != nil {
			return nil, err
		}
		if st.theirs, err = x.without(ctx, sc.Change.Path, part.found, part.left, part.then); err != nil {
			return nil, err
		}
		if isOver && i == 0 { // what was done up to the look stays
			if st.part = nil; !goes {
				st.base = w.base
			}
			if !comes {
				st.theirs = w.base
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
func (x *restore) windowsBefore(ctx context.Context, sc standing.StepChange, list []mergeStep) (n int, over *tree.Entry,
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
	return n, over, !trees.Same(over, list[0].base), err
}

// A stepPart is the window of a change that a step is about.
type stepPart struct {
	cut         history.Cut // of nothing
	found, left *tree.Entry

	// What is out of it before the step, what of that is so by cuts that stay, and what is
	// out then.
	now, stay, then []history.Cut
}

// all returns a cut of all that the window did.
func (p *stepPart) all() []history.Cut {
	c := p.cut
	c.Whole = true
	return []history.Cut{c}
}

// of returns those cuts that are of the window.
func (p *stepPart) of(list []history.Cut) []history.Cut {
	return cutsOfWindow(list, p.cut.Turn, p.cut.Window)
}

// isPutBack reports whether lines of a change that is in come that were out of it.
func (p *stepPart) isPutBack() bool { return !isOut(p.then) && len(cutsBut(p.now, p.then)) > 0 }

// A stepDone is what came of a step.
type stepDone struct {
	st   *mergeStep
	out  []history.Cut // what is out of the change then, but for what is by cuts that stay
	some bool          // something of it was done
}

// done returns what came of a step that was done.
func (st *mergeStep) done() stepDone {
	p := st.part
	d := stepDone{st: st, some: true}
	switch {
	case p == nil || isOut(p.stay):
	case isOut(p.then):
		d.out = p.all()
	default:
		d.out = cutsBut(p.then, p.stay)
	}
	return d
}

// spans returns the lines that are out before the step, and then.
func (p *stepPart) spans(ctx context.Context, m *FileSnapshotManager) (now, then []history.Span, err error) {
	sides := [2][]history.Span{spansOf(p.now), spansOf(p.then)}
	for i, cuts := range [][]history.Cut{p.now, p.then} {
		if !isOut(cuts) {
			continue
		}
		f := &hunkedFile{path: string(p.cut.Path), old: p.found, new: p.left, cuts: [][]history.Cut{p.then, p.now}[i]}
		if err := m.divideHunks(ctx, f); err != nil {
			return nil, nil, err
		}
		rest := new(picked)
		if err := rest.pick(f, p.cut.Turn, nil); err != nil {
			return nil, nil, err
		}
		sides[i] = sortSpans(slices.Concat(sides[1-i], spansOf(rest.cuts)))
	}
	return sides[0], sides[1], nil
}

// spansOf returns the lines of cuts, in order.
func spansOf(cuts []history.Cut) (list []history.Span) {
	for _, c := range cuts {
		list = append(list, c.Spans...)
	}
	return sortSpans(list)
}

func sortSpans(list []history.Span) []history.Span {
	slices.SortFunc(list, func(a, b history.Span) int { return slices.Compare(a[:], b[:]) })
	return list
}

// whereSpan returns the lines of a span in what a window would have left without others,
// which are in order.
func whereSpan(s history.Span, out []history.Span) (start, end int) {
	start = s[0]
	for _, o := range out {
		switch slices.Compare(o[:], s[:]) {
		case 0:
			return start, start + s[3] - s[2]
		case 1:
			return start, start + s[1] - s[0]
		}
		start += o[3] - o[2] - (o[1] - o[0])
	}
	return start, start + s[1] - s[0]
}

// isModeOut reports whether the mode of a window is out by cuts.
func (p *stepPart) isModeOut(cuts []history.Cut) bool {
	if isOut(cuts) {
		return isFile(p.found) && isFile(p.left) && p.found.Mode != p.left.Mode
	}
	return slices.ContainsFunc(cuts, func(c history.Cut) bool { return c.Mode })
}

// inPart returns what came of a step that is in conflict with ours: text is that without
// the lines in conflict. Not ok: it is not known which these are.
func (st *mergeStep) inPart(ctx context.Context, m *FileSnapshotManager, isMode bool, base, ours, theirs,
	text []byte) (d stepDone, ok bool, err error) {
	p := st.part
	now, then, err := p.spans(ctx, m)
	if err != nil {
		return d, false, err
	}
	var all, moved, at []history.Span // all that are out, those that go or come, where they are in base and theirs
	for _, s := range slices.Compact(sortSpans(slices.Concat(now, then))) {
		if all = append(all, s); slices.Contains(now, s) != slices.Contains(then, s) {
			a, b := whereSpan(s, now)
			c, d := whereSpan(s, then)
			moved, at = append(moved, s), append(at, history.Span{a, b, c, d})
		}
	}
	is, merged, ok := hunks.Partly(base, ours, theirs, at)
	if !ok || !bytes.Equal(merged, text) {
		return d, false, nil
	}
	done := make(map[history.Span]bool)
	for i, s := range moved {
		done[s] = is[i]
	}
	d = stepDone{st: st, some: slices.Contains(is, true) || isMode && p.isModeOut(p.now) != p.isModeOut(p.then)}
	if isOut(p.stay) {
		return d, true, nil
	}
	cut, stay := p.cut, spansOf(p.stay)
	for _, s := range all {
		isOut := slices.Contains(now, s)
		if done[s] {
			isOut = slices.Contains(then, s)
		}
		if isOut && !slices.Contains(stay, s) {
			cut.Spans = append(cut.Spans, s)
		}
	}
	mode := p.now
	if isMode {
		mode = p.then
	}
	cut.Mode = p.isModeOut(mode) && !p.isModeOut(p.stay)
	if cut.Mode || len(cut.Spans) > 0 {
		d.out = []history.Cut{cut}
	}
	return d, true, nil
}

// A partial is where a path stands at which not all was done that was to be.
type partial struct {
	with, without []uint64 // turns and cuts by which what is in differs from what was
	cuts          []history.Cut
}

// partial returns that of what was merged. The changes that go stay in, those that come are
// in if something of their turn has come, and what is out of them is cut; cuts that go, or
// come, are said anew.
func (mg *merging) partial(back, forth []standing.StepChange) *partial {
	isCut := func(sc standing.StepChange) bool { return sc.By.IsJoint() }
	if (mg.isUntold || mg.isVague) && slices.ContainsFunc(back, isCut) {
		return new(partial)
	}
	came := make(map[uint64]bool)
	p := new(partial)
	for _, d := range mg.done {
		if r := d.st.of; d.st.comes && d.some && !came[r.Seq] {
			came[r.Seq] = true
			if p.with = append(p.with, r.Seq); r.Behind != nil { // which has been in
				p.without = append(p.without, r.Behind.Seq)
			}
		}
	}
	slices.SortFunc(p.with, func(a, b uint64) int { return cmp.Compare(b, a) })
	for _, d := range mg.done {
		if !d.st.comes || came[d.st.of.Seq] {
			p.cuts = append(p.cuts, d.out...)
		}
	}
	for _, sc := range slices.Concat(back, forth) { // one that comes may be on the way, with its turn
		if isCut(sc) {
			p.without = append(p.without, sc.By.Seq)
		}
	}
	return p
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
	before []standing.StepChange) (steps []mergeStep, err error) {
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
		r, err := x.m.records.Record(ctx, c.Turn)
		if err != nil {
			return nil, err
		}
		sc := standing.StepChange{By: r}
		if sc.Change, err = a.standings.At(ctx, r, p); err != nil {
			return nil, err
		}
		if sc.Change == nil {
			return nil, errCut
		}
		a.isAbout(r)
		list, err := x.stepsOf(ctx, sc, cuts, true, true)
		if err == nil && isRest { // its windows have steps of their own
			var windows []mergeStep
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
