package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/boocode/filestore/internal/change"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/similar"
	"github.com/boocode/filestore/internal/standing"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// This file follows files that were moved, for [rollback.Merge]. One that a change has
// moved, and that somebody has edited since, is merged and put where it belongs without
// the change, if nothing is there; both paths stay if there is a conflict. One that a
// change has edited, and that somebody else has moved since, is merged where it is by now,
// if a look has seen it move. A file is taken for one that was moved as in diffs: see
// [similar.PairRenames].

// A mover finds the files of a restore that were moved.
type mover struct {
	x    *restore
	ctx  context.Context
	a    *aim
	want map[string]*livedir.Want
	item map[string]*rollback.Item

	steps map[string][]merging.Step // of paths at which something comes or goes
	done  map[string]bool           // paths that are settled
}

// follow merges files of a plan that were moved. Paths that mv has done need not be looked at
// any more; more is what is wanted besides.
func (x *restore) follow(ctx context.Context, a *aim, plan *livedir.Plan, byPath map[string]*livedir.Want) (
	mv *mover, more []livedir.Want, err error,
) {
	mv = &mover{x: x, ctx: ctx, a: a, want: byPath, item: make(map[string]*rollback.Item),
		steps: make(map[string][]merging.Step), done: make(map[string]bool)}
	var edited, gone []string
	for i := range plan.Items {
		it := &plan.Items[i]
		w := byPath[it.Path]
		mv.item[it.Path] = it
		isDirty := it.Do == rollback.Skipped && it.Dirty && w.Held == "" && w.Out == "" && w.Keep == ""
		switch {
		case !isDirty && !a.comesOnOthers(it):
		case trees.IsFile(it.Now) && w.New == nil:
			edited = append(edited, it.Path)
		case it.Now == nil && trees.IsFile(w.New):
			gone = append(gone, it.Path)
		}
	}
	if len(edited) > 0 {
		if err := mv.byChanges(edited); err != nil {
			return nil, nil, err
		}
	}
	if len(gone) > 0 {
		more, err = mv.byOthers(gone)
	}
	return mv, more, err
}

// comesOnOthers reports whether a file is to be made anew of changes of which the first was made
// on a file that nobody expects at its path: somebody else's, who may have moved it since.
func (a *aim) comesOnOthers(it *rollback.Item) bool {
	forth := a.forth[it.Path]
	return it.Do == rollback.Restore && it.Now == nil && trees.IsFile(it.New) && len(a.back[it.Path]) == 0 &&
		len(forth) > 0 && trees.IsFile(forth[0].Change.Old)
}

// byChanges merges files that a change has moved and that were edited since.
func (mv *mover) byChanges(edited []string) error {
	for p, w := range mv.want {
		it := mv.item[p]
		if it == nil || w.Parent || w.Keep != "" || w.Lost != "" || it.Now != nil && !trees.IsFile(it.Now) {
			continue
		}
		steps, err := mv.mergeSteps(w)
		if err != nil {
			return err
		}
		if len(steps) > 0 {
			mv.steps[p] = steps
		}
	}
	pairs := make(map[*record]map[string]string)
	for _, p := range edited {
		to, steps := p, slices.Clone(mv.steps[p])
		for len(steps) > 0 && steps[len(steps)-1].Theirs == nil {
			last := &steps[len(steps)-1]
			if pairs[last.Of] == nil {
				found, err := mv.pairs(last.Of)
				if err != nil {
					return err
				}
				pairs[last.Of] = found
			}
			next, ok := pairs[last.Of][to]
			if !ok || mv.item[next].Now != nil {
				break
			}
			last.Theirs, last.Part = mv.steps[next][0].Theirs, nil
			to, steps = next, append(steps, mv.steps[next][1:]...)
		}
		w := mv.want[to]
		if to == p || !trees.IsFile(w.New) || w.Held != "" || w.Out != "" || mv.done[to] {
			if mv.a.carried[p] != "" && len(steps) > 0 { // without any it stays
				if err := mv.stay(p, steps); err != nil {
					return fmt.Errorf("merge %q: %w", p, err)
				}
			}
			continue
		}
		if err := mv.bring(p, to, steps); err != nil {
			return fmt.Errorf("merge %q: %w", p, err)
		}
	}
	return nil
}

// mergeSteps is that of the restore. There are none where something of them is lost.
func (mv *mover) mergeSteps(w *livedir.Want) ([]merging.Step, error) {
	steps, err := mv.x.mergeSteps(mv.ctx, mv.a, mv.x.tip, w)
	if _, ok := errors.AsType[*lostStep](err); ok {
		return nil, nil
	}
	if err != nil {
		err = fmt.Errorf("merge %q: %w", w.Path, err)
	}
	return steps, err
}

// pairs returns, by the path at which a file goes with a change, the one at which it
// comes.
func (mv *mover) pairs(of *record) (map[string]string, error) {
	var going, coming []similar.Candidate
	for p, steps := range mv.steps {
		if first := &steps[0]; history.IsSame(first.Of, of) && first.Base == nil && trees.IsFile(first.Theirs) {
			coming = append(coming, mv.candidate(p, first.Theirs))
		}
		if last := &steps[len(steps)-1]; history.IsSame(last.Of, of) && last.Theirs == nil && trees.IsFile(last.Base) {
			going = append(going, mv.candidate(p, last.Base))
		}
	}
	if history.IsSame(of, mv.a.undoes) {
		return mv.movedBack(of, going, coming)
	}
	return chained(going, coming)
}

// chained is renames for paths of which some are on both sides, since the file was moved on from
// there: first those at which it is by now, then those from which it came to these. At one path
// it was not moved.
func chained(going, coming []similar.Candidate) (map[string]string, error) {
	isAt := func(p string) func(similar.Candidate) bool {
		return func(c similar.Candidate) bool { return c.Name == p }
	}
	isOn := func(c similar.Candidate) bool { return slices.ContainsFunc(coming, isAt(c.Name)) }
	ahead := slices.DeleteFunc(slices.Clone(going), isOn)
	pairs := make(map[string]string)
	for isLast := false; !isLast; {
		if isLast = len(ahead) == 0; isLast { // nothing is at these any more
			isPaired := func(c similar.Candidate) bool { return pairs[c.Name] != "" }
			ahead = slices.DeleteFunc(slices.Clone(going), isPaired)
		}
		found, err := renames(ahead, coming)
		if err != nil {
			return nil, err
		}
		ahead = nil
		for from, to := range found {
			if from == to {
				continue
			}
			pairs[from], coming = to, slices.DeleteFunc(slices.Clone(coming), isAt(to))
			if i := slices.IndexFunc(going, isAt(to)); i >= 0 {
				ahead = append(ahead, going[i])
			}
		}
	}
	return pairs, nil
}

// movedBack is pairs for a restore that is taken back. It had not moved what it put back,
// unless a change that it took back, or did again, was a move.
func (mv *mover) movedBack(of *record, going, coming []similar.Candidate) (map[string]string, error) {
	at := make(map[string]string)
	for _, c := range going {
		at[c.Name] = c.Name
	}
	windows, err := mv.windowsOf(of)
	for _, w := range slices.Backward(windows) {
		w.went, w.came = w.came, w.went
		err = errors.Join(err, w.move(at))
	}
	maps.DeleteFunc(at, func(_, to string) bool {
		return !slices.ContainsFunc(coming, func(c similar.Candidate) bool { return c.Name == to })
	})
	return at, err
}

// renames returns, by the path at which a file goes, the one at which it comes.
func renames(going, coming []similar.Candidate) (map[string]string, error) {
	list, _, err := similar.PairRenames(going, coming, nil)
	pairs := make(map[string]string)
	for _, r := range list {
		pairs[going[r.Removed].Name] = coming[r.Added].Name
	}
	return pairs, err
}

// carry doubts files that a change which goes has made by moving others, if somebody, or nobody
// knows who, had changed those before, and they do not become what it found: what that somebody
// wrote is in the file that goes.
func (x *restore) carry(ctx context.Context, a *aim) error {
	var from []string // paths at which such a file was
	for p, list := range a.back {
		w, newest := a.expected[p], newestTurn(list)
		if w == nil || newest == nil || newest.Change.New != nil {
			continue
		}
		_, found, err := x.m.endsOf(ctx, *newest)
		if err != nil {
			return err
		}
		if trees.Same(w.New, found) {
			continue
		}
		if w.mixed || isBroken(list) || slices.ContainsFunc(list, isContested) {
			from = append(from, p)
		}
	}
	slices.Sort(from)
	mv := &mover{x: x, ctx: ctx, a: a}
	pairs := make(map[*record]map[string]string)
	a.carried = make(map[string]string)
	for len(from) > 0 {
		p, by := from[0], newestTurn(a.back[from[0]]).By
		from = from[1:]
		if pairs[by] == nil {
			found, err := mv.movedBy(by)
			if err != nil {
				return err
			}
			pairs[by] = found
		}
		to, ok := pairs[by][p]
		w := a.expected[to]
		if !ok || a.carried[to] != "" || w == nil { // nothing is to come back there: it stays
			continue
		}
		if a.carried[to] = p; w.Doubt == "" {
			w.mix(cmp.Or(a.expected[p].Doubt, fmt.Sprintf("it was changed at %q by a turn that stays", p)))
		}
		if newestTurn(a.back[to]).Change.New == nil { // it was moved on
			from = append(from, to)
		}
	}
	for i := range a.wants {
		if w := &a.wants[i]; a.carried[w.Path] != "" {
			w.Doubt = a.expected[w.Path].Doubt
		}
	}
	return nil
}

// leftBy returns the paths that a plan leaves as they are, and those of which it writes
// nothing from which changes that go have moved files that it leaves: whoever takes these
// changes back again is to know of the move.
func (a *aim) leftBy(plan *livedir.Plan) map[string]bool {
	left, written := make(map[string]bool), make(map[string]bool)
	for _, it := range plan.Items {
		left[it.Path], written[it.Path] = change.IsLeft(it), it.Do != livedir.Nothing
	}
	for found := true; found; {
		found = false
		for to, from := range a.carried {
			if left[to] && !written[from] && !left[from] {
				left[from], found = true, true
			}
		}
	}
	return left
}

// isBroken reports whether changes at a path, the newest first, do not follow on one another.
func isBroken(list []standing.StepChange) bool {
	for i, older := range list[1:] {
		if !trees.Same(list[i].Change.Old, older.Change.New) {
			return true
		}
	}
	return false
}

// newestTurn returns the first of changes that is a turn's, and not a cut behind it; nil: none is.
func newestTurn(list []standing.StepChange) *standing.StepChange {
	i := slices.IndexFunc(list, func(sc standing.StepChange) bool { return !sc.By.IsJoint() })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// movedBy returns, by the path at which a change that goes found a file that it moved, the
// one to which it did so, if other changes found it there, or made it.
func (mv *mover) movedBy(r *record) (map[string]string, error) {
	var went, came []similar.Candidate
	for p, list := range mv.a.back {
		newest, oldest := newestTurn(list), list[len(list)-1]
		if newest != nil && history.IsSame(newest.By, r) && newest.Change.New == nil {
			_, found, err := mv.x.m.endsOf(mv.ctx, *newest)
			if err != nil {
				return nil, err
			}
			if trees.IsFile(found) {
				went = append(went, mv.candidate(p, found))
				continue
			}
		}
		if history.IsSame(oldest.By, r) && oldest.Change.Old == nil {
			left, _, err := mv.x.m.endsOf(mv.ctx, oldest)
			if err != nil {
				return nil, err
			}
			if trees.IsFile(left) {
				came = append(came, mv.candidate(p, left))
			}
		}
	}
	return renames(went, came)
}

// endsOf returns what the first window of a change left, and what the last one found: in
// between somebody else may have changed the path.
func (m *FileSnapshotManager) endsOf(ctx context.Context, sc standing.StepChange) (left, found *tree.Entry, err error) {
	if sc.By.IsJoint() || !sc.Change.Mixed {
		return sc.Change.New, sc.Change.Old, nil
	}
	windows, err := m.windowsOf(ctx, sc.By, sc.Change)
	if err != nil || len(windows) == 0 {
		return sc.Change.New, sc.Change.Old, err
	}
	return windows[0].Theirs, windows[len(windows)-1].Base, nil
}

func (mv *mover) candidate(p string, e *tree.Entry) similar.Candidate {
	return mv.x.m.movedFile(mv.ctx, p, e)
}

// movedFile returns a file of which another may be the same, moved. One that cannot be
// read is like none.
func (m *FileSnapshotManager) movedFile(ctx context.Context, p string, e *tree.Entry) similar.Candidate {
	c := similar.Candidate{Name: p, ID: e.ID.String(), Mode: uint32(e.Mode), Size: e.Size}
	if e.Size > merging.MaxText {
		return c
	}
	c.Load = func() ([]byte, error) {
		text, err := m.store.Get(ctx, object.Blob, e.ID)
		if err != nil {
			return nil, context.Cause(ctx)
		}
		return text, nil
	}
	return c
}

// bring has what is at one path become what is at another, with steps done to it.
func (mv *mover) bring(from, to string, steps []merging.Step) error {
	it, w, source := mv.item[from], mv.want[to], mv.want[from]
	mv.done[from], mv.done[to] = true, true
	mg, err := mv.merged(from, it.Now, steps)
	if err != nil {
		return err
	}
	if c := mg.Clash; c != nil {
		c.IsWhole = true
		mv.a.clashes[from] = &clash{Clash: c, want: source, disk: it.Now,
			note: fmt.Sprintf(", and it was moved from %q", to)}
		w.Held = fmt.Sprintf("it is to be made of %q, which is in conflict", from)
		return nil
	}
	now := *mg.Now
	now.Name = path.Base(to)
	source.Old, source.Doubt, source.Merged, source.Created = it.Now, it.Why, true, true
	w.New, w.Old, w.Doubt, w.Merged, w.From = &now, nil, fmt.Sprintf("%q was changed since", from), true, from
	mv.x.hunks[to] = mv.x.hunks[from]
	return nil
}

// stay has a file stay that would be deleted with what somebody wrote in it before it was
// moved, unless that is given up. What is contested is not.
func (mv *mover) stay(p string, steps []merging.Step) error {
	isOurs := true
	for from := mv.a.carried[p]; from != ""; from = mv.a.carried[from] {
		isOurs = isOurs && !slices.ContainsFunc(mv.a.back[from], isContested)
	}
	if mv.x.opts.OnConflict == rollback.ConflictTheirs && isOurs {
		return nil
	}
	it := mv.item[p]
	mg, err := mv.x.merger().Merge(mv.ctx, p, it.Now, steps)
	if err != nil {
		return err
	}
	c := mg.Clash
	if c == nil {
		c = &merging.Clash{Why: merging.WhyMade, Parts: []merging.ClashPart{{Step: &steps[len(steps)-1]}}}
	}
	c.IsWhole = true
	mv.done[p], mv.a.clashes[p] = true, &clash{Clash: c, want: mv.want[p], disk: it.Now}
	return nil
}

// A recordKey names a record, of which there may be several copies.
type recordKey struct {
	seq   uint64
	entry string
}

func keyOf(r *record) recordKey {
	if r.Seq != 0 {
		return recordKey{seq: r.Seq}
	}
	return recordKey{entry: r.Entry}
}

// keepSources keeps files that a step would delete since it moves them to where there is a
// conflict: they would be at neither place. It reports whether there are any.
func (mv *mover) keepSources() (found bool, err error) {
	coming, err := mv.notComing()
	if len(coming) == 0 || err != nil {
		return false, err
	}
	going := make(map[recordKey][]similar.Candidate)
	for p, it := range mv.item {
		if it.Do != rollback.Delete || !trees.IsFile(it.Now) {
			continue
		}
		steps, err := mv.mergeSteps(mv.want[p])
		if err != nil {
			return false, err
		}
		if len(steps) == 0 {
			continue
		}
		last := &steps[len(steps)-1]
		if of := keyOf(last.Of); len(coming[of]) > 0 && last.Theirs == nil && trees.IsFile(last.Base) {
			going[of] = append(going[of], mv.candidate(p, last.Base))
		}
	}
	for of, list := range going {
		pairs, err := renames(list, coming[of])
		if err != nil {
			return false, err
		}
		for from, to := range pairs {
			mv.want[from].Held, found = fmt.Sprintf("it is to be moved to %q, which is in conflict", to), true
		}
	}
	return found, nil
}

// notComing returns the files that changes which go, or come, would make, and that are not made
// since there is a conflict, nobody knows whose they are, or they are lost: by change.
func (mv *mover) notComing() (coming map[recordKey][]similar.Candidate, err error) {
	coming = make(map[recordKey][]similar.Candidate)
	add := func(of *record, p string, before, after *tree.Entry) {
		if before == nil && trees.IsFile(after) {
			coming[keyOf(of)] = append(coming[keyOf(of)], mv.candidate(p, after))
		}
	}
	for p, c := range mv.a.clashes {
		if !c.IsWhole || mv.done[p] {
			continue
		}
		steps, err := mv.mergeSteps(mv.want[p])
		if err != nil {
			return nil, err
		}
		for _, st := range steps {
			add(st.Of, p, st.Base, st.Theirs)
		}
	}
	for p, it := range mv.item {
		w := mv.want[p]
		if w == nil || w.Merged || it.Now != nil || it.Do == rollback.Restore || mv.done[p] || mv.a.clashes[p] != nil ||
			!trees.IsFile(w.New) {
			continue
		}
		for _, sc := range mv.a.back[p] {
			add(sc.By, p, sc.Change.New, sc.Change.Old)
		}
		for _, sc := range mv.a.forth[p] {
			add(sc.By, p, sc.Change.Old, sc.Change.New)
		}
	}
	return coming, nil
}

// merged does steps to what is at a path. What cannot be done of it, in part or as a
// whole, is the clash of the result.
func (mv *mover) merged(p string, disk *tree.Entry, steps []merging.Step) (*merging.Path, error) {
	mg, err := mv.x.merger().Merge(mv.ctx, p, disk, steps)
	if err != nil || mg.Clash != nil {
		return mg, err
	}
	switch {
	case !trees.IsFile(mg.Now):
		mg.Clash = &merging.Clash{Why: merging.WhyKind, Parts: []merging.ClashPart{{Step: &steps[len(steps)-1]}}}
	case mg.IsMerged:
		return mg, mv.x.keep(mv.ctx, p, mg)
	default:
		mv.x.addMerged(mg.Now.ID, p, 0)
		if trees.Same(mg.Now, disk) {
			return mg, mv.x.keepFound(mv.ctx, p)
		}
	}
	return mg, nil
}

// byOthers merges files that a change has edited and that somebody else has moved since.
func (mv *mover) byOthers(gone []string) (more []livedir.Want, err error) {
	var paths []string
	for _, p := range gone {
		if mv.done[p] {
			continue
		}
		steps, err := mv.mergeSteps(mv.want[p])
		if err != nil {
			return nil, err
		}
		made := func(st merging.Step) bool { return !trees.IsFile(st.Base) || !trees.IsFile(st.Theirs) }
		if mv.steps[p] = steps; len(steps) > 0 && !slices.ContainsFunc(steps, made) {
			paths = append(paths, p)
		}
	}
	if len(paths) == 0 {
		return nil, nil
	}
	moved, err := mv.seenMoving(paths)
	if err != nil {
		return nil, err
	}
	for _, p := range paths {
		to, ok := moved[p]
		if !ok || mv.want[to] != nil || mv.a.moved[to] != "" {
			continue
		}
		disk, err := mv.x.root.Entry(mv.ctx, to, trees.NewOverlay(nil))
		if cause := context.Cause(mv.ctx); cause != nil {
			return nil, cause
		}
		if err != nil || !trees.IsFile(disk) {
			continue
		}
		mg, err := mv.merged(to, disk, mv.steps[p])
		if err != nil {
			return nil, fmt.Errorf("merge %q: %w", to, err)
		}
		w := mv.want[p]
		if mv.done[p] = true; mg.Clash != nil {
			mg.Clash.IsWhole = true
			mv.a.clashes[p] = &clash{Clash: mg.Clash, want: w, note: fmt.Sprintf(", and it is at %q now", to)}
			continue
		}
		mv.a.moved[to] = p
		w.Old, w.New, w.Doubt = nil, nil, "" // all is done at the other path
		more = append(more, livedir.Want{Path: to, Old: disk, New: mg.Now, Merged: true,
			Doubt: fmt.Sprintf("it was moved from %q since", p)})
	}
	return more, nil
}

// A window is what went and what came between two records that follow one another, or
// with a change.
type window struct {
	seq        uint64 // of the newer one, or of the restore that takes the change back
	went, came []similar.Candidate
}

// seenMoving returns where files are by now that others have moved since they were
// changed, as far as that was seen.
func (mv *mover) seenMoving(paths []string) (map[string]string, error) {
	m := mv.x.m
	oldest := mv.x.o.newestSeq()
	for _, p := range paths {
		oldest = min(oldest, mv.steps[p][0].Of.Seq)
	}
	var windows []window // the newest first
	var newer *record
	for r, err := range m.records.Since(mv.ctx, mv.x.o.newestSeq(), max(oldest, 1)-1) {
		if err != nil {
			return nil, err
		}
		if newer != nil {
			list, err := mv.windows(r, newer)
			if err != nil {
				return nil, err
			}
			slices.Reverse(list)
			windows = append(windows, list...)
		}
		newer = r
	}
	at := make(map[string]string) // by where a file is
	for _, w := range slices.Backward(windows) {
		for _, p := range paths {
			if mv.steps[p][0].Of.Seq < w.seq && at[p] == "" {
				at[p] = p
			}
		}
		if err := w.move(at); err != nil {
			return nil, err
		}
	}
	for p, to := range at {
		if p == to || to == nowhere {
			delete(at, p)
		}
	}
	return at, nil
}

// nowhere is where a file is that has gone, and come nowhere else.
const nowhere = "\x00"

// move has files follow what moved in a window. at says where each of them is.
func (w *window) move(at map[string]string) error {
	var pairs map[string]string
	for p, from := range at {
		if !slices.ContainsFunc(w.went, func(c similar.Candidate) bool { return c.Name == from }) {
			continue
		}
		if pairs == nil {
			var err error
			if pairs, err = renames(w.went, w.came); err != nil {
				return err
			}
		}
		if at[p] = nowhere; pairs[from] != "" {
			at[p] = pairs[from]
		}
	}
	return nil
}

// windows returns the windows between two records that follow one another in which something
// may have been moved, the oldest first. What a restore has put back was not moved there from
// where something went, unless a change that it takes back, or does again, says so.
func (mv *mover) windows(r, newer *record) ([]window, error) {
	w, err := mv.window(r, newer)
	if err != nil || len(w.went) == 0 || len(w.came) == 0 {
		return nil, err
	}
	if newer.Kind != history.KindRestore {
		return []window{w}, nil
	}
	list, err := mv.windowsOf(newer)
	w.came = nil
	return append(list, w), err
}

// windowsOf returns what went and what came with each change that a restore took back, or did
// again, in that order; nothing if that is not known any more.
func (mv *mover) windowsOf(r *record) ([]window, error) {
	l := mv.x.m.byRecords()
	from, err := l.Records.StepAt(mv.ctx, r.Facts.From, r.Session)
	if err != nil {
		return nil, err
	}
	to, err := l.Records.StepAt(mv.ctx, r.Position(), r.Session)
	if err != nil {
		return nil, err
	}
	back, forth, err := l.Paths(mv.x.m.tree.pages).Between(mv.ctx, from, to)
	if trees.IsLoss(err) || errors.Is(err, store.ErrPruned) {
		return nil, nil
	}
	goes, comes := mv.changesAs(r.Seq, back), mv.changesAs(r.Seq, forth)
	slices.Reverse(goes)
	for i, w := range goes {
		goes[i].went, goes[i].came = w.came, w.went
	}
	return append(goes, comes...), err
}

// changesAs returns what went and what came with each of some changes, the oldest first.
func (mv *mover) changesAs(seq uint64, changes map[string][]standing.StepChange) (list []window) {
	by := make(map[uint64]*window)
	for p, steps := range changes {
		for _, sc := range steps {
			w := by[sc.By.Seq]
			if w == nil {
				w = &window{seq: seq}
				by[sc.By.Seq] = w
			}
			switch c := sc.Change; {
			case c.New == nil && trees.IsFile(c.Old):
				w.went = append(w.went, mv.candidate(p, c.Old))
			case c.Old == nil && trees.IsFile(c.New):
				w.came = append(w.came, mv.candidate(p, c.New))
			}
		}
	}
	for _, seq := range slices.Sorted(maps.Keys(by)) {
		list = append(list, *by[seq])
	}
	return list
}

// window returns what went and what came between two records that follow one another.
func (mv *mover) window(r, newer *record) (w window, err error) {
	w.seq = newer.Seq
	for d, err := range trees.Compare(mv.ctx, mv.x.m.tree.pages, r.State(), newer.State()) {
		switch {
		case err != nil:
			return w, err
		case d.Status == tree.Deleted && trees.IsFile(d.Old):
			w.went = append(w.went, mv.candidate(d.Path, d.Old))
		case d.Status == tree.Added && trees.IsFile(d.New):
			w.came = append(w.came, mv.candidate(d.Path, d.New))
		}
	}
	return w, nil
}
