package manager

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/boocode/filestore/internal/change"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/standing"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
)

// Intend records what the restore is about to do, and what the user has changed
// before.
func (x *restore) Intend(ctx context.Context, c *change.Change) error {
	o := x.o
	r := x.record(history.KindIntent, o.last.State(), c.Plan)
	r.Also = []store.State{c.After}
	r.Facts.ID, r.Facts.Windows = c.ID, o.windows
	if len(o.windows) == 0 {
		diff, err := x.m.diff(ctx, o.last.State(), c.Before)
		if err != nil {
			return err
		}
		r.Facts.Counts = diff.counts()
	}
	x.intent = r
	return x.m.commitAt(ctx, o, r, c.Before)
}

// Done records what the restore has done.
func (x *restore) Done(ctx context.Context, c *change.Change) (err error) {
	r := x.record(history.KindRestore, c.Before, c.Plan)
	if x.isOwn() {
		if r.Entry, err = x.m.newEntryID(ctx); err != nil {
			return err
		}
	}
	r.Facts.ID, r.Facts.Counts = c.ID, countsOf(c.Plan)
	x.done = r
	if err := x.m.commitAt(ctx, x.o, r, c.After); err != nil {
		return err
	}
	x.o.moveTurn()
	return nil
}

// record returns a record of the restore that builds on a state.
func (x *restore) record(kind string, base store.State, plan *livedir.Plan) *record {
	r := &record{Snapshot: &store.Snapshot{Kind: kind, Base: base, Label: x.opts.Label}}
	d := &r.Facts
	d.Own, d.OldLeaf, d.NewLeaf, d.Moves = x.isOwn(), x.oldLeaf, x.newLeaf, movesOf(plan)
	if x.note(d, plan); !plan.Changes() && x.undoes == nil { // the conversation goes alone
		d.Pos, d.Depth = x.tip.Seq, 0
		d.Stay()
	}
	undo, redo := x.undo, x.redo
	if x.undoes != nil {
		d.Undoes = x.undoes.Seq
		// What was left alone stays on its list.
		if slices.ContainsFunc(plan.Items, isStill) && x.opts.OnDirty != rollback.Overwrite {
			if x.list == history.TopsRedo {
				undo = x.again
			} else {
				redo = x.again
			}
		}
	}
	d.Marked = x.markedIn(plan)
	d.SetBack(undo, redo)
	if d.Tops = cmp.Or(x.list, history.TopsUndo); d.Tops == history.TopsUndo {
		d.Below = d.Undo
	} else {
		d.Below = d.Redo
	}
	return r
}

// isStill reports whether something of a path is still to be done by who takes the same
// back again.
func isStill(it rollback.Item) bool {
	return it.Do == rollback.Skipped || it.Do == rollback.Failed || it.IsPart()
}

// countsOf returns how many paths a plan adds, modifies and deletes.
func countsOf(plan *livedir.Plan) (n [3]int) {
	for _, it := range plan.Items {
		switch {
		case it.Parent:
		case it.Do == rollback.Restore && it.Now == nil:
			n[0]++
		case it.Do == rollback.Restore:
			n[1]++
		case it.Do == rollback.Delete:
			n[2]++
		}
	}
	return n
}

// note puts into a record where files stand after a plan.
func (x *restore) note(d *history.Facts, plan *livedir.Plan) {
	g := &x.goes
	d.From, d.Prev, d.With, d.Without = g.from, g.to, slices.Clone(g.with), slices.Clone(g.without)
	left, skipped, done := x.outcome(plan)
	for _, p := range slices.Sorted(maps.Keys(g.cuts)) {
		if !left[p] {
			d.Cuts = append(d.Cuts, g.cuts[p]...)
		}
	}
	if g.reverts {
		x.noteKnown(plan)
		d.Reverts, d.Apart = x.reverts, apartBut(g.apart, left, nil)
		if d.Reverts == nil {
			d.Reverts = g.chosen
		}
	} else {
		d.Apart = apartBut(g.apart, left, done)
	}
	x.noteParted(d, plan)
	if x.undoes != nil { // what is as it is to be stays, and no undo has to go on with it
		if rest := history.PathBytes(left, skipped); len(rest) > 0 {
			d.Apart = append(d.Apart, history.Apart{Paths: rest, From: g.leftFrom})
		}
		left = skipped
	}
	if g.leftFrom != 0 {
		if d.Left = history.PathBytes(left, nil); len(d.Left) > 0 {
			d.LeftFrom = g.leftFrom
		}
	}
	if g.reverts {
		g.settle(d, done)
	}
	if g.tookFrom != 0 {
		for _, p := range g.along {
			done[p] = done[p] || !left[p]
		}
		maps.DeleteFunc(done, func(_ string, is bool) bool { return !is })
		d.Took = history.PathBytes(done, nil)
		g.settle(d, done)
	}
	if d.IsJoint() {
		d.TookFrom = g.tookFrom
		if d.Depth = max(0, g.depth+len(d.With)-len(d.Without)); g.reverts {
			d.Depth = max(0, g.depth-len(numbersOf(g.back, d.Without)))
		}
	}
}

// outcome returns the paths that a plan leaves where they stood, those of them that it would have
// changed, and those that it brings to where the restore goes.
func (x *restore) outcome(plan *livedir.Plan) (left, skipped, done map[string]bool) {
	left, skipped, done = make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for _, p := range x.untouched {
		left[p] = true
	}
	stays := x.leftBy(plan)
	for _, it := range plan.Items {
		switch {
		case stays[it.Path], it.IsPart():
			left[it.Path], skipped[it.Path] = true, true
		case it.Parent, x.undoes != nil && (it.Do == livedir.Nothing || it.Merged) &&
			(left[it.Path] || x.goes.apart[it.Path] != nil):
		default:
			done[it.Path] = true
			delete(left, it.Path)
		}
	}
	return left, skipped, done
}

// noteParted notes where the paths stand at which not all was done that was to be.
func (x *restore) noteParted(d *history.Facts, plan *livedir.Plan) {
	apart := make(map[string]*history.Apart)
	for i := range plan.Items {
		it := &plan.Items[i]
		if part := x.parted[it.Path]; it.IsPart() && part != nil {
			if d.Cuts = append(d.Cuts, part.Cuts...); len(part.With)+len(part.Without) > 0 {
				apart[it.Path] = &history.Apart{From: x.goes.from, With: part.With, Without: part.Without}
			}
		}
	}
	d.Apart = append(d.Apart, apartBut(apart, nil, nil)...)
}

// noteKnown notes at which paths that stand apart after turns were taken back what is
// there is expected: all that it was made of was, and nothing was given up for it.
func (x *restore) noteKnown(plan *livedir.Plan) {
	for _, it := range plan.Items {
		if a := x.goes.apart[it.Path]; a != nil && len(a.With)+len(a.Without) > 0 {
			w := x.expected[it.Path]
			isOwn := w != nil && w.Doubt == "" && it.From == "" // what is made of a file that was moved is others', too
			a.Known = isOwn && trees.Same(it.Now, w.Old) && !x.gaveUp[it.Path]
		}
	}
}

// numbersOf returns the numbers of those turns that a list names.
func numbersOf(turns []*record, list []uint64) []int {
	isOther := func(r *record) bool { return !slices.Contains(list, r.Seq) }
	return numbers(slices.DeleteFunc(slices.Clone(turns), isOther))
}

// goes says where files stand after a restore.
type goes struct {
	from, to uint64 // the position before it, and the one to which it goes
	depth    int    // of the latter

	// Paths that are left alone stand where they stood, at leftFrom; of a restore
	// of some paths only, those stand at tookFrom. 0: there are none.
	leftFrom, tookFrom uint64
	// Paths that need not be touched and stand at tookFrom then, too, or where no
	// other position does.
	along   []string
	apart   map[string]*history.Apart
	took    map[string]map[uint64]bool // turns of which all goes at a path, if single hunks were asked for
	cuts    map[string][]history.Cut   // parts of changes that go; the rest of each stays in
	chosen  []int                      // numbers of the turns of which single hunks were asked for
	reverts bool                       // turns go by name: paths of which other turns stay in stand apart then

	with, without         []uint64                         // the turns by which its line differs from that of to
	back, forth           []*record                        // turns that go, and that come, on the line
	pathsBack, pathsForth map[string][]standing.StepChange // at each path, of a restore of some paths
}

// apartBut returns what a record says of the paths that stand apart: neither left
// alone nor done. Those of which the same is to be said are told of together.
func apartBut(apart map[string]*history.Apart, left, done map[string]bool) (list []history.Apart) {
	for _, p := range slices.Sorted(maps.Keys(apart)) {
		a := apart[p]
		if left[p] || done[p] {
			continue
		}
		i := slices.IndexFunc(list, func(b history.Apart) bool {
			return b.Known == a.Known && b.From == a.From &&
				slices.Equal(b.With, a.With) && slices.Equal(b.Without, a.Without)
		})
		if i < 0 {
			i = len(list)
			list = append(list, *a)
		}
		list[i].Paths = append(list[i].Paths, []byte(p))
	}
	return list
}

// settle notes which turns are on the line after a restore of some paths: one of
// which nothing is in any more is not, one of which something comes is.
func (g *goes) settle(d *history.Facts, took map[string]bool) {
	if g.pathsBack == nil && g.pathsForth == nil {
		return
	}
	stays, comes := make(map[uint64]bool), make(map[uint64]bool)
	parts := make(map[int][]*record) // by turn: it, and looks within it, that are in at a path
	for p, list := range g.pathsBack {
		for _, sc := range list {
			if _, seen := stays[sc.By.Seq]; !seen {
				parts[sc.By.Turn()] = append(parts[sc.By.Turn()], sc.By)
			}
			stays[sc.By.Seq] = stays[sc.By.Seq] || !took[p] || g.took != nil && !g.took[p][sc.By.Seq]
		}
	}
	for p, list := range g.pathsForth {
		for _, sc := range list {
			comes[sc.By.Seq] = comes[sc.By.Seq] || took[p]
		}
	}
	d.With, d.Without = nil, nil
	for _, r := range g.back {
		in, some := stays[r.Seq]
		for _, o := range parts[r.Turn()] { // it may be on the line in part, and whole at a path, or the reverse
			if o.EndsAt(r) || r.EndsAt(o) {
				in, some = in || stays[o.Seq], true
			}
		}
		if some && !in && r.Behind == nil {
			d.Without = append(d.Without, r.Seq)
		}
	}
	for _, r := range slices.Backward(g.forth) {
		if !comes[r.Seq] {
			continue
		}
		if d.With = append(d.With, r.Seq); r.Behind != nil { // in place of the part that was there
			d.Without = append(d.Without, r.Behind.Seq)
		}
	}
}

// madeBy returns the directories that a plan makes for what it puts into them, in
// order of path.
func madeBy(plan *livedir.Plan) (paths []string) {
	for _, made := range plan.Made {
		paths = append(paths, made.Path)
	}
	for _, it := range plan.Items {
		if it.Parent && it.Do == rollback.Restore && it.Now == nil {
			paths = append(paths, it.Path)
		}
	}
	slices.SortFunc(paths, trees.ComparePaths)
	return paths
}

// movesOf returns the moves of a plan that were done, or are to be done.
func movesOf(plan *livedir.Plan) (moves []history.Move) {
	for _, mv := range plan.Carried() {
		if mv.Why == "" {
			moves = append(moves, history.Move{From: []byte(mv.From), To: []byte(mv.To), Inode: mv.Inode})
		}
	}
	return moves
}
