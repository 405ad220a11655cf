package manager

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/hunks"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// This file is about cuts: restores that took back a part of what turns did at a path,
// while the rest of it stays in. The record of such a restore, a joint, names the turns
// and the lines. At the path it is a change itself, from what the restore found to what it
// left, which is in behind those of the turns: it can be taken back, as by a restore to a
// moment before it, and it is void where the turns are not in. A turn that is in with cuts
// has done less: merges take what it left without them for what it left.

// cutAt returns what a joint says was taken back of changes at a path, nil if nothing.
func (r *record) cutAt(p string) []history.Cut {
	if r.cuts == nil {
		r.cuts = make(map[string][]history.Cut)
		for _, c := range r.Facts.Cuts {
			r.cuts[string(c.Path)] = append(r.cuts[string(c.Path)], c)
		}
	}
	return r.cuts[p]
}

// tellsOf reports whether a joint says anything of a path.
func (r *record) tellsOf(p string) bool { return r.way(p) != nil || r.cutAt(p) != nil }

// hasCut reports whether a turn is in from which a joint takes something back.
func (t *trail) hasCut(j *record) bool {
	return slices.ContainsFunc(j.cutAt(t.path), func(c history.Cut) bool { return !t.without[c.Turn] })
}

// cutsOf returns what a restore did that took back parts of changes, by path.
func (s *standings) cutsOf(ctx context.Context, j *record) (map[string]*pathChange, error) {
	list := make(map[string]*pathChange)
	for _, cut := range j.Facts.Cuts {
		p := string(cut.Path)
		if list[p] != nil {
			continue
		}
		c := &pathChange{path: p, status: tree.Modified, owner: OwnTurn}
		var err error
		if c.old, err = entryIn(ctx, s.g, j.Base, p, false); err == nil {
			c.new, err = entryIn(ctx, s.g, j.State(), p, false)
		}
		if err != nil {
			return nil, err
		}
		list[p] = c
	}
	return list, nil
}

// withoutLoose returns changes that go, newest first, but for cuts of others: these stay.
func withoutLoose(list []stepChange) []stepChange {
	return slices.DeleteFunc(list, func(sc stepChange) bool {
		return sc.r.IsJoint() && !sc.cutsOnly(list, func(*record) bool { return true })
	})
}

// cutsOnly reports whether a change is a cut of nothing but what turns did for which
// is holds, and which are in a list.
func (sc *stepChange) cutsOnly(list []stepChange, is func(*record) bool) bool {
	return sc.r.IsJoint() && !slices.ContainsFunc(sc.r.cutAt(sc.c.path), func(c history.Cut) bool {
		return !slices.ContainsFunc(list, func(o stepChange) bool { return o.r.Seq == c.Turn && is(o.r) })
	})
}

// deed says what made a change: a turn, or the restore that took back a part of one.
func (r *record) deed() string {
	if r.IsJoint() {
		return "a restore of a part of it"
	}
	return fmt.Sprintf("turn %d", r.Turn())
}

// turnOf returns the turn that made a change, or one of those that it cuts.
func (s *standings) turnOf(ctx context.Context, sc *stepChange) (*record, error) {
	if cuts := sc.r.cutAt(sc.c.path); sc.r.IsJoint() && len(cuts) > 0 {
		return s.l.m.stepAt(ctx, cuts[0].Turn, sc.r.Session)
	}
	return sc.r, nil
}

// cutsIn returns what was taken back of changes at a path that are in at a position, of
// those from a record on, newest first.
func (s *standings) cutsIn(ctx context.Context, at *record, p string, from uint64) (list []history.Cut, err error) {
	for t := s.l.trail(at, p); ; {
		r, err := t.next(ctx)
		if r == nil || err != nil || r.Seq < from {
			return list, err
		}
		if r.IsJoint() {
			list = append(list, r.cutAt(p)...)
		}
	}
}

// staysAt returns what stays in at a path when changes go, the newest of them first: what
// came behind the oldest of these.
func (s *standings) staysAt(ctx context.Context, at *record, p string, goes []stepChange) (list []stepChange,
	err error) {
	for t := s.l.trail(at, p); ; {
		r, err := t.next(ctx)
		if r == nil || err != nil || r.Seq < goes[len(goes)-1].r.Seq {
			return list, err
		}
		c, err := s.at(ctx, r, p)
		if err != nil {
			return nil, err
		}
		if c != nil && !slices.ContainsFunc(goes, func(sc stepChange) bool { return sc.r.Seq == r.Seq }) {
			list = append(list, stepChange{r, c})
		}
	}
}

// A pathCuts is what was taken back of changes at a path, and what is to be.
type pathCuts struct{ now, then []history.Cut }

// cutsAt returns that of a path at which changes go and come.
func (a *aim) cutsAt(ctx context.Context, tip *record, p string) (c pathCuts, err error) {
	oldest, any := uint64(math.MaxUint64), len(a.goes.cuts[p]) > 0 || a.standings.cut[p]
	for _, side := range [][]stepChange{a.back[p], a.forth[p]} {
		for _, sc := range side {
			for _, cut := range append(sc.r.cutAt(p), history.Cut{Turn: sc.r.Seq}) {
				oldest = min(oldest, cut.Turn)
			}
		}
	}
	if !any {
		return c, nil
	}
	if c.now, err = a.standings.cutsIn(ctx, tip, p, oldest); err != nil {
		return c, err
	}
	c.then = slices.Clone(c.now)
	for _, sc := range a.back[p] {
		if sc.r.IsJoint() {
			for _, gone := range sc.r.cutAt(p) {
				c.then = slices.DeleteFunc(c.then, func(o history.Cut) bool { return reflect.DeepEqual(o, gone) })
			}
		}
	}
	for _, sc := range a.forth[p] {
		if sc.r.IsJoint() {
			c.then = append(c.then, sc.r.cutAt(p)...)
		}
	}
	c.then = append(c.then, a.goes.cuts[p]...)
	return c, nil
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
	if slices.ContainsFunc(cuts, func(c history.Cut) bool { return c.Whole }) {
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
	slices.SortFunc(spans, func(a, b history.Span) int { return slices.Compare(a[:], b[:]) })
	list, ok := hunks.Of(before.Text, after.Text, spans)
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
func (x *restore) stepsOf(ctx context.Context, sc stepChange, cuts pathCuts, goes, comes bool) (steps []mergeStep,
	err error) {
	list, err := x.m.windowsOf(ctx, sc.r, sc.c)
	if err != nil {
		return nil, err
	}
	for i, w := range list {
		part := &stepPart{found: w.base, left: w.theirs}
		part.cut = history.Cut{Path: []byte(sc.c.path), Turn: sc.r.Seq}
		if len(list) > 1 {
			part.cut.Window = i + 1
		}
		part.now = cutsOfWindow(cuts.now, sc.r.Seq, part.cut.Window)
		part.then = cutsOfWindow(cuts.then, sc.r.Seq, part.cut.Window)
		st := mergeStep{base: part.found, theirs: part.found, of: sc.r, comes: !goes}
		if goes {
			if st.base, err = x.without(ctx, sc.c.path, part.found, part.left, part.now); err != nil {
				return nil, err
			}
			st.part = part
		}
		if comes {
			if st.theirs, err = x.without(ctx, sc.c.path, part.found, part.left, part.then); err != nil {
				return nil, err
			}
		}
		part.isAll = !comes
		steps = append(steps, st)
	}
	if goes {
		slices.Reverse(steps)
	}
	return steps, nil
}

// A stepPart is the window of a change that a step takes back, or some of it.
type stepPart struct {
	found, left *tree.Entry
	now, then   []history.Cut // what was taken back of it before the step, and is then
	isAll       bool          // all of it goes
	cut         history.Cut   // of nothing
}

// whole returns a cut of all that the step takes back.
func (p *stepPart) whole() []history.Cut {
	if !p.isAll {
		return slices.DeleteFunc(slices.Clone(p.then), func(c history.Cut) bool {
			return slices.ContainsFunc(p.now, func(o history.Cut) bool { return reflect.DeepEqual(o, c) })
		})
	}
	c := p.cut
	c.Whole = true
	return []history.Cut{c}
}

// spans returns the lines that the step takes back.
func (p *stepPart) spans(ctx context.Context, m *FileSnapshotManager) (list []history.Span, err error) {
	if !p.isAll {
		for _, c := range p.whole() {
			list = append(list, c.Spans...)
		}
		return list, nil
	}
	f := &hunkedFile{path: string(p.cut.Path), old: p.found, new: p.left, cuts: p.now}
	if err := m.divideHunks(ctx, f); err != nil {
		return nil, err
	}
	pk := new(picked)
	err = pk.pick(f, p.cut.Turn, nil)
	for _, c := range pk.cuts {
		list = append(list, c.Spans...)
	}
	return list, err
}

// clean returns a cut of those lines that a step takes back which are not in conflict with
// ours, nil if they are not known: base is the text without what was taken back before,
// and text what came of the merge.
func (p *stepPart) clean(ctx context.Context, m *FileSnapshotManager, base, ours, text []byte) ([]history.Cut,
	error) {
	spans, err := p.spans(ctx, m)
	if err != nil {
		return nil, err
	}
	found, err := m.hunkState(ctx, string(p.cut.Path), p.found)
	if err != nil {
		return nil, err
	}
	moved := make([]history.Span, len(spans)) // as they are in base
	for i, s := range spans {
		for _, c := range p.now {
			for _, o := range c.Spans {
				if by := o[3] - o[2] - (o[1] - o[0]); o[0] < s[0] {
					moved[i][0], moved[i][1] = moved[i][0]+by, moved[i][1]+by
				}
			}
		}
		moved[i][0], moved[i][1], moved[i][2], moved[i][3] = moved[i][0]+s[0], moved[i][1]+s[1], s[2], s[3]
	}
	list, ok := hunks.Of(found.Text, base, moved)
	if !ok {
		return nil, nil
	}
	file := func(text []byte) hunks.State { return hunks.State{Mode: tree.ModeFile, Text: text} }
	places := hunks.Places(hunks.State{}, file(base), file(ours), list)
	cut, i := p.cut, 0
	cut.Mode = p.isAll && p.found.Mode != p.left.Mode
	theirs := hunks.TakenBack(base, list, func(*hunks.Hunk) bool {
		goes := places[i].Outcome != hunks.Conflict
		if goes {
			cut.Spans = append(cut.Spans, spans[i])
		}
		i++
		return goes
	})
	merged := patch.Merge(base, ours, theirs, nil)
	if len(merged.Conflicts) > 0 || text != nil && !bytes.Equal(merged.Text, text) || !cut.Mode && len(cut.Spans) == 0 {
		return nil, nil
	}
	return []history.Cut{cut}, nil
}

// recut returns what is to be done where a restore that took back parts of changes is
// taken back, or done again, and some of these stay in. The steps of those that go or
// come have it; so have those of before, the changes before it in the list.
func (x *restore) recut(ctx context.Context, a *aim, j stepChange, cuts pathCuts, before []stepChange) (
	steps []mergeStep, err error) {
	p := j.c.path
	seen := make(map[uint64]bool)
	for _, sc := range before {
		for _, c := range sc.r.cutAt(p) {
			seen[c.Turn] = true
		}
	}
	for _, list := range [][]stepChange{a.back[p], a.forth[p]} {
		for _, sc := range list {
			seen[sc.r.Seq] = true
		}
	}
	for _, c := range j.r.cutAt(p) {
		if seen[c.Turn] {
			continue
		}
		seen[c.Turn] = true
		r, err := x.m.record(ctx, c.Turn)
		if err != nil {
			return nil, err
		}
		sc := stepChange{r: r}
		if sc.c, err = a.standings.at(ctx, r, p); err != nil {
			return nil, err
		}
		if sc.c == nil {
			return nil, errCut
		}
		if !slices.ContainsFunc(a.about, func(o *record) bool { return isSame(o, r) }) {
			a.about = append(a.about, r)
		}
		list, err := x.stepsOf(ctx, sc, cuts, true, true)
		if err != nil {
			return nil, err
		}
		steps = append(steps, list...)
	}
	return steps, nil
}
