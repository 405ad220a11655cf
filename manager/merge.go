package manager

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/hunks"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/standing"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// This file is [rollback.Merge]. A dirty file becomes what is on the disk with the
// changes that go taken back, newest first, and those that come done, oldest first:
// each is one merge. All of it is found out before anything is written. Files that were
// moved are in moved.go.

// newPlan compares the wants of an aim with the disk, and has dirty files merged
// where that is the policy. With another one, or where paths are to be as at the target,
// they are wanted as they are.
func (x *restore) newPlan(ctx context.Context, a *aim, opts *livedir.Options) (*livedir.Plan, error) {
	if !a.whole {
		if err := x.carry(ctx, a); err != nil {
			return nil, err
		}
	}
	plan, err := livedir.NewPlan(ctx, x.root, a.wants, opts)
	if err != nil || opts.Policy != rollback.Merge || a.whole {
		return plan, err
	}
	wants := slices.Clone(a.wants)
	a.merges = merges{clashes: make(map[string]*clash), parted: make(map[string]*merging.Partial),
		moved: make(map[string]string), gaveUp: make(map[string]bool), replaced: make(map[string]bool)}
	byPath := make(map[string]*livedir.Want)
	for i := range wants {
		byPath[wants[i].Path] = &wants[i]
	}
	mv, more, err := x.follow(ctx, a, plan, byPath)
	if err != nil {
		return nil, err
	}
	again, err := x.mergeAll(ctx, a, plan, mv, byPath)
	if err != nil {
		return nil, err
	}
	keeps, err := mv.keepSources()
	if err != nil {
		return nil, err
	}
	if err := x.blame(ctx, a); err != nil {
		return nil, err
	}
	if !again && !keeps {
		return plan, nil
	}
	return livedir.NewPlan(ctx, x.root, append(wants, more...), opts)
}

// mergeAll merges the dirty files of a plan. It reports whether there is anything to plan anew.
func (x *restore) mergeAll(
	ctx context.Context, a *aim, plan *livedir.Plan, mv *mover, byPath map[string]*livedir.Want,
) (again bool, err error) {
	again = len(mv.done) > 0
	for i := range plan.Items {
		it := &plan.Items[i]
		w := byPath[it.Path]
		isUntold := it.Do == rollback.Kept && w.Keep == whyUntold
		isSo := it.Do == livedir.Nothing && a.mayBeMadeSo(it)
		if mv.done[it.Path] || w.Out != "" || !isUntold && !isSo && (it.Do != rollback.Skipped || !it.Dirty) {
			continue
		}
		steps, err := x.mergeSteps(ctx, a, x.tip, w)
		if isSo && !x.mayCome(ctx, it, steps, err) {
			continue
		}
		if lost, ok := errors.AsType[*lostStep](err); ok {
			a.clashes[w.Path] = &clash{want: w, disk: it.Now, Clash: &merging.Clash{Why: merging.WhyLost, IsWhole: true,
				Lost:  lost.err,
				Parts: []merging.ClashPart{{Step: &lost.step}}}}
			continue
		}
		if err == nil && len(steps) > 0 {
			again = true
			if err = x.m.store.Prefetch(ctx, contentsOf(steps)); err == nil {
				err = x.merge(ctx, a, w, it, steps)
			}
		}
		if c := a.clashes[w.Path]; isSo && c != nil && it.Now == nil {
			c.note = fmt.Sprintf(", and %s deleted it, which 'revert' takes back alone", steps[0].Whose())
		}
		// What is noted as missed is fetched, with what others need.
		if err != nil && (!cas.IsPromised(err) || anyAbsent(ctx) == nil) {
			return false, fmt.Errorf("merge %q: %w", it.Path, err)
		}
	}
	return again, anyAbsent(ctx)
}

// mayBeMadeSo reports whether what is at a path that is as it is wanted is all the changes' that
// are in: then a change may have taken away there what others did, and that comes when it goes.
func (a *aim) mayBeMadeSo(it *rollback.Item) bool {
	for _, from := range a.carried { // it is at another path by now
		if from == it.Path {
			return false
		}
	}
	w := a.expected[it.Path]
	return w != nil && !w.left.IsZero() && trees.Same(it.Now, w.Old) && (w.mixed || w.Keep == whyUntold)
}

// mayCome reports whether what is at a path that is as it is wanted was left so by the first of
// steps, or the error of one is not that somebody has forgotten what it took away: nobody
// wants that to come.
func (x *restore) mayCome(ctx context.Context, it *rollback.Item, steps []merging.Step, err error) bool {
	if err == nil && len(steps) > 0 {
		if !trees.Same(it.Now, steps[0].Base) { // an undo, or a restore, has left it
			return false
		}
		if trees.IsFile(steps[0].Theirs) {
			_, err = x.Text(ctx, it.Path, it.Now, steps[0].Theirs)
		}
	}
	if lost, ok := errors.AsType[*lostStep](err); ok {
		err = lost.err
	}
	return !errors.Is(err, store.ErrForgotten)
}

// A lostStep is the error of mergeSteps where the store has lost what a step is made of,
// or somebody has forgotten it.
type lostStep struct {
	step merging.Step // as far as it is known
	err  error
}

func (e *lostStep) Error() string { return e.err.Error() }

// unlessLost returns an error, but nil of a step that is lost.
func unlessLost(err error) error {
	if _, ok := errors.AsType[*lostStep](err); ok {
		return nil
	}
	return err
}

// mergeSteps returns what is to be done at a dirty path, in that order, where files stand
// at a position; nothing if that is not known, or is not all the session's.
func (x *restore) mergeSteps(ctx context.Context, a *aim, at *record, w *livedir.Want) (steps []merging.Step,
	err error) {
	if a.undone != nil {
		return []merging.Step{{Base: w.Old, Theirs: w.New, Of: a.undoes}}, nil
	}
	if known := a.expected[w.Path]; known != nil && known.Doubt != "" && !known.mixed {
		return nil, nil
	}
	cuts, err := a.cutsAt(ctx, at, w.Path)
	if err != nil {
		return nil, err
	}
	back, forth := a.back[w.Path], a.forth[w.Path]
	var again []merging.Step // of older changes, of which lines come once those that go are gone
	for i, sc := range slices.Concat(back, forth) {
		var list []merging.Step
		isBack := i < len(back)
		switch c := sc.Change; {
		case c.Owner == windows.Contested || c.Status == tree.Captured || c.Status == tree.Uncaptured:
			return nil, nil
		case sc.By.IsJoint():
			list, err = x.recut(ctx, a, at, sc, isBack, cuts, slices.Concat(back, forth)[:i])
		default:
			isCut := func(c history.Cut) bool { return c.Turn == sc.By.Seq }
			stays := isBack && slices.ContainsFunc(a.goes.cuts[w.Path], isCut)
			list, err = x.stepsOf(ctx, sc, cuts, isBack, !isBack || stays)
			if err == nil && x.opts.OnConflict == rollback.ConflictTheirs {
				err = x.outOf(ctx, a, at, sc, isBack, list)
			}
		}
		if trees.IsLoss(err) || errors.Is(err, store.ErrForgotten) {
			return nil, &lostStep{merging.Step{Base: sc.Change.New, Theirs: sc.Change.Old, Of: sc.By}, err}
		}
		if err != nil {
			return nil, err
		}
		if isBack && sc.By.IsJoint() {
			again = append(again, list...)
			slices.SortStableFunc(again, func(a, b merging.Step) int { return cmp.Compare(a.Of.Seq, b.Of.Seq) })
			continue
		}
		for !isBack && len(again) > 0 && again[0].Of.Seq < sc.By.Seq { // before what was done on it
			steps, again = append(steps, again[0]), again[1:]
		}
		steps = append(steps, list...)
	}
	return append(steps, again...), nil
}

// outOf notes in the steps of a change what it was made on and is out by then, or is cut. What
// goes with a change that goes has steps of its own behind those.
func (x *restore) outOf(ctx context.Context, a *aim, at *record, sc standing.StepChange, isBack bool,
	steps []merging.Step) error {
	l, p := a.standings.Line, sc.Change.Path
	before, err := l.FoundBy(ctx, sc.By)
	if before == nil || err != nil {
		return err
	}
	since, out, err := l.Between(ctx, at, before, p, nil)
	if err != nil {
		return err
	}
	for _, o := range a.back[p] { // which is out once it comes
		if !isBack && !o.By.IsJoint() && !standing.HasRecord(since, o.By.Seq) {
			out = append(out, o.By)
		}
	}
	turns, isOut, err := x.turnsOut(ctx, a, sc, before, since, out)
	if err != nil {
		return err
	}
	for i := range steps {
		steps[i].Out = earlierCut(steps, i)
	}
	if len(turns) == 0 {
		return nil
	}
	var cuts pathCuts
	oldest := turns[len(turns)-1].Seq
	if cuts.now, err = l.CutsIn(ctx, before, p, oldest); err != nil {
		return err
	}
	if cuts.then, err = l.CutsIn(ctx, at, p, oldest); err != nil {
		return err
	}
	var list []merging.Step
	for _, r := range turns {
		of := standing.StepChange{By: r}
		if of.Change, err = a.standings.At(ctx, r, p); err != nil {
			return err
		}
		if of.Change == nil {
			continue
		}
		a.isAbout(r)
		undo, err := x.stepsOf(ctx, of, cuts, true, !isOut[r.Seq])
		if err != nil {
			return err
		}
		list = append(list, undo...)
	}
	for i := range steps {
		steps[i].Out = append(steps[i].Out, list...)
	}
	return nil
}

// turnsOut returns the turns that were in before a change, and of which all is out, or something
// is cut, by now, newest first. What is in now differs from what was in then by the records of
// since, which have come, and those of out.
func (x *restore) turnsOut(ctx context.Context, a *aim, sc standing.StepChange, before *record, since, out []*record) (
	turns []*record, isOut map[uint64]bool, err error) {
	p := sc.Change.Path
	comes := func(r *record) bool {
		return slices.ContainsFunc(a.forth[p], func(o standing.StepChange) bool { return history.IsSame(o.By, r) })
	}
	isOut = make(map[uint64]bool)
	for _, r := range out {
		if r.Seq != 0 && !r.IsJoint() && !comes(r) {
			turns, isOut[r.Seq] = append(turns, r), true
		}
	}
	for _, r := range since { // what was cut of others
		for _, c := range r.CutAt(p) {
			if c.Turn >= sc.By.Seq || isOut[c.Turn] || standing.HasRecord(turns, c.Turn) {
				continue
			}
			turn, err := x.m.records.Record(ctx, c.Turn)
			if err != nil {
				return nil, nil, err
			}
			was, err := a.standings.Line.Trail(before, p).Find(ctx, turn)
			if err != nil {
				return nil, nil, err
			}
			if was != nil { // else it has come since, and the change was not made on it
				turns = append(turns, turn)
			}
		}
	}
	slices.SortFunc(turns, func(a, b *record) int { return cmp.Compare(b.Seq, a.Seq) })
	return turns, isOut, nil
}

// earlierCut returns what is cut of windows of a change before the one of a step, as steps that
// take it back, newest first.
func earlierCut(steps []merging.Step, i int) (list []merging.Step) {
	older := steps[i+1:]
	if steps[i].Comes {
		older = slices.Clone(steps[:i])
		slices.Reverse(older)
	}
	for _, st := range older {
		is := st.Base
		if st.Comes {
			is = st.Theirs
		}
		if st.Part != nil && !trees.Same(is, st.Part.Left) {
			list = append(list, merging.Step{Base: st.Part.Left, Theirs: is, Of: st.Of})
		}
	}
	return list
}

// windowsOf returns what a change of a turn did, in steps where somebody else has
// changed the path between its windows.
func (m *FileSnapshotManager) windowsOf(ctx context.Context, r *record, c *windows.Change) (list []merging.Step,
	err error) {
	if !c.Mixed {
		return []merging.Step{{Base: c.Old, Theirs: c.New}}, nil
	}
	pieces, err := m.piecesAt(ctx, r, c.Path)
	if err != nil {
		return nil, err
	}
	for _, p := range pieces {
		var st merging.Step
		if st.Base, err = trees.EntryAt(ctx, m.tree.pages, p.from.Tree, c.Path); err == nil {
			st.Theirs, err = trees.EntryAt(ctx, m.tree.pages, p.to.Tree, c.Path)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, st)
	}
	return list, nil
}

// merge has a path become what is there with steps done to it. Where one is in the way
// of what is there, the path stays, and the want says why.
func (x *restore) merge(ctx context.Context, a *aim, w *livedir.Want, it *rollback.Item, steps []merging.Step) error {
	mg, err := x.merger().Merge(ctx, w.Path, it.Now, steps)
	if err == nil && mg.Clash != nil && a.undone != nil {
		if steps, err = a.undone.steps(w); len(steps) > 0 && err == nil {
			mg, err = x.merger().Merge(ctx, w.Path, it.Now, steps)
		}
	}
	if err != nil {
		return err
	}
	if c := mg.Clash; c != nil && c.Why == merging.WhyUserDeleted && w.New == nil && w.Keep == "" {
		mg.Now, mg.IsMerged, mg.Clash = nil, false, nil // it was gone before it was made again, and is to be
	}
	if mg.Clash != nil {
		c := &clash{Clash: mg.Clash, want: w, disk: it.Now}
		a.clashes[w.Path] = c
		if c.IsWhole = trees.Same(mg.Now, it.Now); c.IsWhole {
			w.Clash = true
			return nil
		}
		if a.parted[w.Path], err = x.partial(ctx, a, w.Path, mg); err != nil {
			return err
		}
	}
	switch {
	case mg.IsMerged:
		err = x.keep(ctx, w.Path, mg)
	case trees.IsFile(mg.Now) && trees.Same(mg.Now, it.Now):
		err = x.keepFound(ctx, w.Path)
	}
	if err != nil {
		return err
	}
	doubt := ""
	switch {
	case it.Do == livedir.Nothing:
		doubt = w.Doubt
	case it.Dirty, !trees.Same(it.Now, w.Old):
		doubt = it.Why
	}
	w.Old, w.New, w.Doubt, w.Held, w.Keep, w.Lost = it.Now, mg.Now, doubt, "", "", ""
	w.Merged, w.Created, a.replaced[w.Path] = true, mg.Now == nil, mg.IsWhole
	a.gaveUp[w.Path] = mg.GaveUp
	return nil
}

// partial returns where a path stands of which not all was done. What was cut of turns that come
// before they went does not come with them.
func (x *restore) partial(ctx context.Context, a *aim, p string, mg *merging.Path) (*merging.Partial, error) {
	part := mg.Partial(a.back[p], a.forth[p])
	l, err := x.m.line(ctx)
	if err != nil {
		return nil, err
	}
	void, err := l.VoidCuts(ctx, x.tip, p, part.With)
	part.Without = append(part.Without, void...)
	return part, err
}

// merger returns what merges the paths of the restore.
func (x *restore) merger() *merging.Merger {
	if x.mr == nil {
		x.mr = &merging.Merger{Source: x, OnConflict: x.opts.OnConflict}
	}
	return x.mr
}

// Text is how a merge reads what a file holds.
func (x *restore) Text(ctx context.Context, p string, disk, e *tree.Entry) ([]byte, error) {
	return x.m.text(ctx, x.root, p, disk, e)
}

// text reads the content of a file: of a directory, if disk is what is there and has it, else of the
// store.
func (m *FileSnapshotManager) text(ctx context.Context, root *livedir.Root, p string, disk, e *tree.Entry) (
	[]byte, error) {
	if disk != nil && e.ID == disk.ID {
		to := &textSink{Sink: trees.NewOverlay(nil)}
		if now, err := root.Entry(ctx, p, to); err == nil && now != nil && now.ID == e.ID &&
			now.Size == int64(len(to.text)) {
			return to.text, nil
		}
	}
	var b bytes.Buffer
	_, err := trees.CopyFile(ctx, m.store, &b, e)
	return b.Bytes(), err
}

// State returns what a file was, as the store has it.
func (x *restore) State(ctx context.Context, p string, e *tree.Entry) (hunks.State, error) {
	return x.m.hunkState(ctx, p, e)
}

// Rest returns what a window of a change did but for cuts of it.
func (x *restore) Rest(ctx context.Context, p *merging.Part, cuts []history.Cut) ([]history.Cut, error) {
	f := &hunkedFile{path: string(p.Cut.Path), old: p.Found, new: p.Left, cuts: cuts}
	if err := x.m.divideHunks(ctx, f); err != nil {
		return nil, err
	}
	rest := new(picked)
	err := rest.pick(f, p.Cut.Turn, nil)
	return rest.cuts, err
}

// keepFound puts what is at a path into the store, where merging has nothing to change: the record of
// the restore has it, as of a path that is as it is wanted, and nobody may have looked since.
func (x *restore) keepFound(ctx context.Context, p string) error {
	if x.opts.Preview {
		return nil
	}
	_, err := x.root.Entry(ctx, p, x.o.w)
	return err
}

// keep puts what a path was merged to into the store, unless nothing is to be changed, and
// has the guard look at it.
func (x *restore) keep(ctx context.Context, p string, mg *merging.Path) error {
	if err := checkMerged(mg.Text, mg.Texts[0], mg.Texts[1:], mg.Given); err != nil {
		return err
	}
	x.addMerged(mg.Now.ID, p, len(textdiff.Edits(mg.Found, mg.Text)))
	if x.opts.Preview {
		inside.TellMerged(ctx, mg.Now.ID, mg.Text)
		return nil
	}
	_, err := x.o.w.Put(object.Blob, mg.Text)
	return err
}

// addMerged notes a text that a path is merged to, and at how many places it is changed
// for that.
func (x *restore) addMerged(id store.ID, p string, places int) {
	if x.merged == nil {
		x.merged, x.hunks = make(map[store.ID]bool), make(map[string]int)
	}
	x.merged[id], x.hunks[p] = true, places
}

// A textSink keeps the newest text that it was given, or the start of one that is too large to be
// merged.
type textSink struct {
	livedir.Sink
	text []byte
}

func (s *textSink) PutReader(r io.Reader) (store.ID, int64, error) {
	var err error
	if s.text, err = io.ReadAll(io.LimitReader(r, merging.MaxText+1)); err != nil {
		return store.ID{}, 0, err
	}
	return s.Sink.PutReader(io.MultiReader(bytes.NewReader(s.text), r))
}
