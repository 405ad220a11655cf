package merging

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/hunks"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/standing"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// CutsBut returns cuts but for those of another list.
func CutsBut(list, but []history.Cut) []history.Cut {
	return slices.DeleteFunc(slices.Clone(list), func(c history.Cut) bool {
		return slices.ContainsFunc(but, func(o history.Cut) bool { return reflect.DeepEqual(o, c) })
	})
}

// IsOut reports whether cuts take back all that a window of a change did.
func IsOut(cuts []history.Cut) bool {
	return slices.ContainsFunc(cuts, func(c history.Cut) bool { return c.Whole })
}

// CutsOfWindow returns those of a window of a turn.
func CutsOfWindow(list []history.Cut, turn uint64, window int) (of []history.Cut) {
	for _, c := range list {
		if c.Turn == turn && c.Window == window {
			of = append(of, c)
		}
	}
	return of
}

// ErrCut: a cut is not of what the turn left.
var ErrCut = fmt.Errorf("%w: lines were taken back that the turn has not left", store.ErrCorrupt)

// Without returns what a window of a turn would have left without some lines: found is what
// it found. The text is kept.
func (mr *Merger) Without(ctx context.Context, p string, found, left *tree.Entry, cuts []history.Cut) (*tree.Entry,
	error) {
	if len(cuts) == 0 {
		return left, nil
	}
	if IsOut(cuts) {
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
	before, err := mr.Source.State(ctx, p, found)
	if err != nil {
		return nil, err
	}
	after, err := mr.Source.State(ctx, p, left)
	if err != nil {
		return nil, err
	}
	if before.Opaque || after.Opaque {
		return nil, fmt.Errorf("lines of it were taken back: a content %w", store.ErrForgotten)
	}
	list, ok := hunks.Of(before.Text, after.Text, sortSpans(spans))
	if !ok {
		return nil, ErrCut
	}
	text := hunks.TakenBack(after.Text, list, func(*hunks.Hunk) bool { return true })
	e.ID, e.Size = object.Hash(object.Blob, text), int64(len(text))
	mr.keep(e.ID, text)
	return &e, nil
}

// SpansOf returns the lines of cuts, in order.
func SpansOf(cuts []history.Cut) (list []history.Span) {
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

// spans returns the lines that are out before the step, and then.
func (p *Part) spans(ctx context.Context, from Source) (now, then []history.Span, err error) {
	sides := [2][]history.Span{SpansOf(p.Now), SpansOf(p.Then)}
	for i, cuts := range [][]history.Cut{p.Now, p.Then} {
		if !IsOut(cuts) {
			continue
		}
		rest, err := from.Rest(ctx, p, [][]history.Cut{p.Then, p.Now}[i])
		if err != nil {
			return nil, nil, err
		}
		sides[i] = sortSpans(slices.Concat(sides[1-i], SpansOf(rest)))
	}
	return sides[0], sides[1], nil
}

// inPart returns what came of a step that is in conflict with ours: text is that without
// the lines in conflict. Not ok: it is not known which these are.
func (st *Step) inPart(ctx context.Context, from Source, isMode bool, base, ours, theirs,
	text []byte) (d stepDone, ok bool, err error) {
	p := st.Part
	now, then, err := p.spans(ctx, from)
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
	d = stepDone{st: st, some: slices.Contains(is, true) || isMode && p.isModeOut(p.Now) != p.isModeOut(p.Then)}
	if IsOut(p.Stay) {
		return d, true, nil
	}
	cut, stay := p.Cut, SpansOf(p.Stay)
	for _, s := range all {
		isOut := slices.Contains(now, s)
		if done[s] {
			isOut = slices.Contains(then, s)
		}
		if isOut && !slices.Contains(stay, s) {
			cut.Spans = append(cut.Spans, s)
		}
	}
	mode := p.Now
	if isMode {
		mode = p.Then
	}
	cut.Mode = p.isModeOut(mode) && !p.isModeOut(p.Stay)
	if cut.Mode || len(cut.Spans) > 0 {
		d.out = []history.Cut{cut}
	}
	return d, true, nil
}

// A Partial is where a path stands at which not all was done that was to be.
type Partial struct {
	With, Without []uint64 // turns and cuts by which what is in differs from what was
	Cuts          []history.Cut
}

// Partial returns that of what was merged. The changes that go stay in, those that come are
// in if something of their turn has come, and what is out of them is cut; cuts that go, or
// come, are said anew.
func (mg *Path) Partial(back, forth []standing.StepChange) *Partial {
	isCut := func(sc standing.StepChange) bool { return sc.By.IsJoint() }
	if (mg.isUntold || mg.isVague) && slices.ContainsFunc(back, isCut) {
		return new(Partial)
	}
	came := make(map[uint64]bool)
	p := new(Partial)
	for _, d := range mg.done {
		if r := d.st.Of; d.st.Comes && d.some && !came[r.Seq] {
			came[r.Seq] = true
			if p.With = append(p.With, r.Seq); r.Behind != nil { // which has been in
				p.Without = append(p.Without, r.Behind.Seq)
			}
		}
	}
	slices.SortFunc(p.With, func(a, b uint64) int { return cmp.Compare(b, a) })
	for _, d := range mg.done {
		if !d.st.Comes || came[d.st.Of.Seq] {
			p.Cuts = append(p.Cuts, d.out...)
		}
	}
	for _, sc := range slices.Concat(back, forth) { // one that comes may be on the way, with its turn
		if isCut(sc) {
			p.Without = append(p.Without, sc.By.Seq)
		}
	}
	return p
}
