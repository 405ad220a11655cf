package manager

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// This file is [rollback.Merge]. A dirty file becomes what is on the disk with the
// changes that go taken back, newest first, and those that come done, oldest first:
// each is one merge. All of it is found out before anything is written. Files that were
// moved are in moved.go.

// maxMerged is the size of a text, in bytes, above which it is not merged, maxMergedLines how
// many lines the three texts of a merge may have. Each takes some 50 bytes meanwhile: three
// texts of 10 MiB that are nothing but line ends took 1.5 GB and 6 s.
const (
	maxMerged      = 10 << 20
	maxMergedLines = 4 << 20
)

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
	a.merges = merges{clashes: make(map[string]*clash), parted: make(map[string]*partial),
		moved: make(map[string]string), gaveUp: make(map[string]bool), replaced: make(map[string]bool)}
	byPath := make(map[string]*livedir.Want)
	for i := range wants {
		byPath[wants[i].Path] = &wants[i]
	}
	mv, more, err := x.follow(ctx, a, plan, byPath)
	if err != nil {
		return nil, err
	}
	again := len(mv.done) > 0
	for i := range plan.Items {
		it := &plan.Items[i]
		w := byPath[it.Path]
		isUntold := it.Do == rollback.Kept && w.Keep == whyUntold
		if mv.done[it.Path] || w.Out != "" || !isUntold && (it.Do != rollback.Skipped || !it.Dirty) {
			continue
		}
		steps, err := x.mergeSteps(ctx, a, x.tip, w)
		if lost, ok := errors.AsType[*lostStep](err); ok {
			a.clashes[w.Path] = &clash{want: w, disk: it.Now, why: whyLost, isWhole: true, lost: lost.err,
				parts: []clashPart{{&lost.step, nil}}}
			continue
		}
		if err == nil && len(steps) > 0 {
			again = true
			err = x.merge(ctx, a, w, it, steps)
		}
		if err != nil {
			return nil, fmt.Errorf("merge %q: %w", it.Path, err)
		}
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

// A mergeStep is a change that goes or comes at a path: what leads from base to theirs
// is done to what is there.
type mergeStep struct {
	base, theirs *tree.Entry
	of           *record   // the turn, or the restore
	comes        bool      // it is done, and not taken back
	part         *stepPart // the window of a change that it is about; nil: it is about more, or about less
}

// A lostStep is the error of mergeSteps where the store has lost what a step is made of,
// or somebody has forgotten it.
type lostStep struct {
	step mergeStep // as far as it is known
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
func (x *restore) mergeSteps(ctx context.Context, a *aim, at *record, w *livedir.Want) (steps []mergeStep, err error) {
	if a.undone != nil {
		return []mergeStep{{base: w.Old, theirs: w.New, of: a.undoes}}, nil
	}
	if known := a.expected[w.Path]; known != nil && known.Doubt != "" && !known.mixed {
		return nil, nil
	}
	cuts, err := a.cutsAt(ctx, at, w.Path)
	if err != nil {
		return nil, err
	}
	back, forth := a.back[w.Path], a.forth[w.Path]
	var again []mergeStep // of older changes, of which lines come once those that go are gone
	for i, sc := range slices.Concat(back, forth) {
		var list []mergeStep
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
		}
		if trees.IsLoss(err) || errors.Is(err, store.ErrForgotten) {
			return nil, &lostStep{mergeStep{base: sc.Change.New, theirs: sc.Change.Old, of: sc.By}, err}
		}
		if err != nil {
			return nil, err
		}
		if isBack && sc.By.IsJoint() {
			again = append(again, list...)
		} else {
			steps = append(steps, list...)
		}
		if i == len(back)-1 {
			steps = append(steps, again...)
		}
	}
	return steps, nil
}

// windowsOf returns what a change of a turn did, in steps where somebody else has
// changed the path between its windows.
func (m *FileSnapshotManager) windowsOf(ctx context.Context, r *record, c *windows.Change) (list []mergeStep,
	err error) {
	if !c.Mixed {
		return []mergeStep{{base: c.Old, theirs: c.New}}, nil
	}
	pieces, err := m.piecesAt(ctx, r, c.Path)
	if err != nil {
		return nil, err
	}
	for _, p := range pieces {
		var st mergeStep
		if st.base, err = trees.EntryAt(ctx, m.tree.pages, p.from.Tree, c.Path); err == nil {
			st.theirs, err = trees.EntryAt(ctx, m.tree.pages, p.to.Tree, c.Path)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, st)
	}
	return list, nil
}

// A merging is a path while it is merged.
type merging struct {
	x    *restore
	ctx  context.Context
	path string
	disk *tree.Entry // what is there; nil: nothing

	now      *tree.Entry // what has become of it
	isWhole  bool        // that is what a step leads to, and not made of what others changed
	isMerged bool        // its content is text, made from the others of texts to the first of them
	text     []byte
	texts    [][]byte
	found    []byte // the text of the disk

	done     []stepDone // what came of each step
	isUntold bool       // of which no record can say what is in then, if not all is done
	isVague  bool       // of which it is not known what came of it
	clash    *clash     // what could not be done of it; nil: all was
	given    [][]byte   // lines of conflicts that were given up
	lost     error      // why a content cannot be read
}

// merge has a path become what is there with steps done to it. Where one is in the way
// of what is there, the path stays, and the want says why.
func (x *restore) merge(ctx context.Context, a *aim, w *livedir.Want, it *rollback.Item, steps []mergeStep) error {
	mg, err := x.mergeAll(ctx, w.Path, it.Now, steps)
	if err == nil && mg.clash != nil && a.undone != nil {
		if steps, err = a.undone.steps(w); len(steps) > 0 && err == nil {
			mg, err = x.mergeAll(ctx, w.Path, it.Now, steps)
		}
	}
	if err != nil {
		return err
	}
	if c := mg.clash; c != nil {
		c.want, c.disk = w, it.Now
		a.clashes[w.Path] = c
		if c.isWhole = trees.Same(mg.now, it.Now); c.isWhole {
			return nil
		}
		a.parted[w.Path] = mg.partial(a.back[w.Path], a.forth[w.Path])
	}
	if mg.isMerged {
		if err := mg.keep(); err != nil {
			return err
		}
	}
	doubt := ""
	if it.Dirty || !trees.Same(it.Now, w.Old) {
		doubt = it.Why
	}
	w.Old, w.New, w.Doubt, w.Held, w.Keep, w.Lost = it.Now, mg.now, doubt, "", "", ""
	w.Merged, w.Created, a.replaced[w.Path] = true, mg.now == nil, mg.isWhole
	a.gaveUp[w.Path] = mg.isWhole || len(mg.given) > 0
	return nil
}

// mergeAll does steps to what is at a path. What cannot be done of it, in part or as a whole,
// is the clash of the result.
func (x *restore) mergeAll(ctx context.Context, p string, disk *tree.Entry, steps []mergeStep) (*merging, error) {
	mg := &merging{x: x, ctx: ctx, path: p, disk: disk, now: disk}
	for i := range steps {
		why, err := mg.step(&steps[i])
		if err != nil {
			return nil, err
		}
		if why != "" { // all or nothing
			mg.now, mg.clash = disk, &clash{why: why, parts: []clashPart{{&steps[i], nil}}, lost: mg.lost}
			break
		}
	}
	if mg.clash != nil && mg.isUntold && x.opts.OnConflict != rollback.ConflictMarkers {
		mg.now = disk
	}
	return mg, nil
}

// step does one step. why is what a [Conflict] has if it cannot be done to the file as a
// whole, "": it was, but for the lines that the merging notes.
func (mg *merging) step(st *mergeStep) (why string, err error) {
	parts := 0
	if mg.clash != nil {
		parts = len(mg.clash.parts)
	}
	why, err = mg.stepOf(st)
	if mg.clash == nil || len(mg.clash.parts) == parts {
		mg.isUntold = mg.isUntold || st.part == nil
		mg.done = append(mg.done, st.done())
	}
	if why != "" && why != whyLost && why != whyMarkers && mg.x.opts.OnConflict == rollback.ConflictTheirs {
		mg.become(st.theirs)
		return "", err
	}
	return why, err
}

// become has the file become another one as a whole, whatever it was merged to.
func (mg *merging) become(e *tree.Entry) {
	mg.take(e)
	mg.isWhole = true
}

// take has the file be another one, which need not be in the store yet.
func (mg *merging) take(e *tree.Entry) {
	mg.now, mg.isMerged, mg.given = e, false, nil
	if mg.isMade(e) {
		mg.text, mg.isMerged = mg.x.texts[e.ID], true
		mg.texts, mg.found = [][]byte{nil, mg.text}, nil
	}
}

func (mg *merging) stepOf(st *mergeStep) (why string, err error) {
	ours, base, theirs := mg.now, st.base, st.theirs
	switch {
	case trees.Same(ours, base) && (!isFile(ours) || !mg.isMade(theirs)):
		mg.take(theirs)
		mg.noClash()
		return "", nil
	case trees.Same(ours, theirs):
		mg.noClash()
		return "", nil
	case trees.Same(base, theirs):
		return "", nil
	case ours == nil:
		return whyUserDeleted, nil
	case theirs == nil:
		return whyMade, nil
	case base == nil:
		return whyDeleted, nil
	case !isFile(ours) || !isFile(base) || !isFile(theirs):
		return whyKind, nil
	}
	e := *ours
	if ours.Mode == base.Mode {
		e.Mode = theirs.Mode
	}
	switch {
	case base.ID == theirs.ID, ours.ID == theirs.ID:
	case ours.ID == base.ID && !mg.isMade(theirs):
		e.ID, e.Size, mg.isMerged = theirs.ID, theirs.Size, false
	default:
		if why, err = mg.mergeText(st); why != "" || err != nil {
			return why, err
		}
		e.ID, e.Size = object.Hash(object.Blob, mg.text), int64(len(mg.text))
	}
	mg.now = &e
	return "", nil
}

// noClash notes that nothing is there any more of what was in conflict.
func (mg *merging) noClash() {
	if mg.clash != nil {
		for i, d := range mg.done {
			mg.done[i] = d.st.done()
		}
	}
	mg.clash = nil
}

// mergeText merges the texts of a step into text.
func (mg *merging) mergeText(st *mergeStep) (why string, err error) {
	var texts [3][]byte
	lines := 0
	for i, e := range []*tree.Entry{mg.now, st.base, st.theirs} {
		if e.Size > maxMerged {
			return whyLarge, nil
		}
		if i == 0 && mg.isMerged {
			texts[i] = mg.text
		} else if texts[i], err = mg.read(e); err != nil {
			if cause := context.Cause(mg.ctx); cause != nil {
				return "", cause
			}
			mg.lost = err
			return whyLost, nil
		}
		if bytes.IndexByte(texts[i][:min(len(texts[i]), 8000)], 0) >= 0 {
			return whyBinary, nil
		}
		if lines += bytes.Count(texts[i], []byte("\n")); lines > maxMergedLines {
			return whyLarge, nil
		}
	}
	ours, base, theirs := texts[0], texts[1], texts[2]
	if !mg.isMerged {
		if is, err := mg.x.isMarked(mg.ctx, mg.path, ours); is || err != nil {
			return whyMarkers, err
		}
	}
	if !mg.isMerged {
		mg.texts, mg.found, mg.given = [][]byte{ours}, ours, nil
		if mg.disk == nil { // a turn deleted it, which is taken back
			mg.found = nil
		} else if mg.now.ID != mg.disk.ID {
			if mg.found, err = mg.read(mg.disk); err != nil {
				return "", err
			}
		}
	}
	mg.texts, mg.isMerged = append(mg.texts, base, theirs), true
	return mg.mergeLines(st, base, ours, theirs)
}

// mergeLines merges three texts into text.
func (mg *merging) mergeLines(st *mergeStep, base, ours, theirs []byte) (why string, err error) {
	how := mg.x.opts.OnConflict
	m := patch.Merge(base, ours, theirs, &patch.MergeOptions{Theirs: how == rollback.ConflictTheirs})
	if mg.text = m.Text; len(m.Conflicts) == 0 {
		return "", nil
	}
	if how == rollback.ConflictTheirs {
		for _, c := range m.Conflicts {
			mg.given = append(mg.given, c.Ours.Text)
		}
		return "", nil
	}
	if how != rollback.ConflictMarkers && !hasCommon(m.Text, ours, theirs) {
		return whyLines, nil
	}
	if err := mg.noteInPart(st, base, ours, theirs, m.Text); err != nil {
		return "", err
	}
	if mg.clash == nil {
		mg.clash = &clash{why: whyLines}
	}
	part := clashPart{step: st}
	for _, c := range m.Conflicts {
		part.places = append(part.places, c.Base.Lines)
	}
	mg.clash.parts = append(mg.clash.parts, part)
	if how == rollback.ConflictMarkers {
		base, theirs := "after "+st.whose(), "before "+st.whose()
		if st.comes {
			base, theirs = theirs, base
		}
		mg.text = m.Markers("now", base, theirs)
		signs, lines := markersIn(mg.text[m.Conflicts[0].Result.Bytes.Start:])
		mg.clash.signs, mg.texts = append(mg.clash.signs, signs), append(mg.texts, lines)
	}
	return "", nil
}

// noteInPart notes what came of a step that was done in part.
func (mg *merging) noteInPart(st *mergeStep, base, ours, theirs, text []byte) error {
	if st.part == nil {
		mg.isUntold = true
		return nil
	}
	isMode := mg.now.Mode == st.base.Mode || mg.now.Mode == st.theirs.Mode
	d, ok, err := st.inPart(mg.ctx, mg.x.m, isMode, base, ours, theirs, text)
	switch {
	case ok && err == nil:
		mg.done = append(mg.done, d)
	case st.comes || st.part.isPutBack(): // it would be there, and not be in
		mg.isUntold = true
	default: // it is tried again, and is there no more
		mg.isVague = true
	}
	return err
}

// hasCommon reports whether a text that was merged in part has each line that both sides
// have. Else a change has moved lines of somebody's, which would go from where they are by
// now and, being in conflict there, not come where they were.
func hasCommon(text, ours, theirs []byte) bool {
	has := make(map[string]bool)
	for line := range bytes.Lines(text) {
		has[guardLine(line)] = true
	}
	wanted := make(map[string]bool)
	for line := range bytes.Lines(theirs) {
		wanted[guardLine(line)] = true
	}
	for line := range bytes.Lines(ours) {
		if l := guardLine(line); wanted[l] && !has[l] {
			return false
		}
	}
	return true
}

// isMade reports whether the content of a file may be nowhere: it is what a turn would have
// left without some lines.
func (mg *merging) isMade(e *tree.Entry) bool {
	if e == nil {
		return false
	}
	_, ok := mg.x.texts[e.ID]
	return ok
}

// read reads the content of a file: of the disk, if that is there, else of the store.
func (mg *merging) read(e *tree.Entry) ([]byte, error) {
	if text, ok := mg.x.texts[e.ID]; ok {
		return text, nil
	}
	if mg.disk != nil && e.ID == mg.disk.ID {
		to := &textSink{Sink: trees.NewOverlay(nil)}
		if now, err := mg.x.root.Entry(mg.ctx, mg.path, to); err == nil && now != nil && now.ID == e.ID {
			return to.text, nil
		}
	}
	var b bytes.Buffer
	_, err := mg.x.m.store.CopyBlob(mg.ctx, &b, e.ID)
	return b.Bytes(), err
}

// keep puts what was merged into the store, unless nothing is to be changed, and has
// the guard look at it.
func (mg *merging) keep() error {
	x := mg.x
	if err := checkMerged(mg.text, mg.texts[0], mg.texts[1:], mg.given); err != nil {
		return err
	}
	x.addMerged(mg.now.ID, mg.path, len(textdiff.Edits(mg.found, mg.text)))
	if x.opts.Preview {
		return nil
	}
	_, err := x.o.w.Put(object.Blob, mg.text)
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

// A textSink keeps the newest text that it was given, up to maxMerged.
type textSink struct {
	livedir.Sink
	text []byte
}

func (s *textSink) PutReader(r io.Reader) (store.ID, int64, error) {
	var err error
	if s.text, err = io.ReadAll(io.LimitReader(r, maxMerged+1)); err != nil {
		return store.ID{}, 0, err
	}
	return s.Sink.PutReader(bytes.NewReader(s.text))
}
