package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/change"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/standing"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// findOut finds out what a restore to a target is to do.
func (x *restore) findOut(ctx context.Context) error {
	m := x.m
	target, err := m.resolve(ctx, x.opts.Target)
	if err != nil {
		return err
	}
	isWhole := x.opts.Exact || len(x.opts.Paths) > 0
	if target.n > 0 && isWhole && len(x.opts.Hunks) == 0 { // it names the end of a turn, as when it is read
		target = target.moment()
	}
	if err := m.checkPlace(target.Snapshot); err != nil {
		return err
	}
	if err := x.checkHead(target.Snapshot); err != nil {
		return err
	}
	l, err := m.line(ctx)
	if err != nil {
		return err
	}
	last, err := x.begin(ctx)
	if err != nil {
		return err
	}
	if x.tip == nil {
		return m.noSession(ctx)
	}
	x.undo, _ = last.Lists()
	if target, err = x.reach(ctx, l, target); err != nil {
		return err
	}
	if x.aim, err = x.aimAt(ctx, l, target); err != nil {
		return err
	}
	x.result.NotCaptured, x.result.Differing = x.notCaptured, x.differing
	if isWhole || len(x.opts.Hunks) > 0 {
		return nil
	}
	return x.compareSame(ctx, l)
}

// begin finds out where the files stand, tip, nil if the session has no step, and
// returns the session's newest restore, nil if there is none.
func (x *restore) begin(ctx context.Context) (last *record, err error) {
	m := x.m
	head, err := m.records.Newest(m.opts.Session)
	if err != nil || head == nil || head.Position() == 0 {
		return nil, err
	}
	if x.tip, err = m.records.StepAt(ctx, head.Position(), m.opts.Session); err != nil {
		return nil, err
	}
	return m.records.LastRestore(ctx, head)
}

// checkHead refuses a restore across a change of the commit that is checked
// out, unless that is wanted.
func (x *restore) checkHead(s *store.Snapshot) error {
	if s == nil {
		return nil
	}
	head, err := x.m.project.Head()
	if err != nil {
		return err
	}
	if head == "" && len(s.Origin) > 0 { // a clone has the files, and no repository of which a commit could differ
		return nil
	}
	if x.result.HeadChanged = s.Head != head; s.Head != head && !x.opts.AcrossHead && !x.opts.Preview {
		return fmt.Errorf("%w: %s then, %s now", ErrHeadChanged, shortHead(s.Head), shortHead(head))
	}
	return nil
}

func shortHead(h string) string {
	if h == "" {
		return "none"
	}
	return h[:min(len(h), 12)]
}

// disk finds out what is in the directory, and records nothing.
func (m *FileSnapshotManager) disk(ctx context.Context) (store.State, trees.Getter, error) {
	overlay := trees.NewOverlay(m.store)
	r, err := m.engine.capture(ctx, m.tree, overlay, &capture.Options{Limits: m.opts.Limits, Partial: true})
	if err != nil {
		return store.State{}, nil, err
	}
	return store.State{Tree: r.Tree, Coverage: r.Coverage}, overlay, nil
}

// countDiffering counts what differs between a target and the disk.
func (m *FileSnapshotManager) countDiffering(ctx context.Context, target *Point) (n int, err error) {
	disk, g, err := m.disk(ctx)
	if err != nil {
		return 0, err
	}
	for d, err := range trees.Compare(ctx, g, target.State, disk) {
		if err != nil {
			return 0, err
		}
		if d.Status != tree.Captured && d.Status != tree.Uncaptured {
			n++
		}
	}
	return n, nil
}

// aimAt finds out what a restore to a target is to do, and where the files stand
// afterwards.
func (x *restore) aimAt(ctx context.Context, l *line, target *Point) (aim, error) {
	ws := x.newWants(ctx, l)
	if ws.target = target; len(x.opts.Hunks) > 0 {
		if all, err := ws.hunksBack(); err != nil {
			return aim{}, err
		} else if !all {
			return ws.finish()
		}
	}
	isNamed := len(x.opts.Paths) > 0 && len(x.opts.Hunks) == 0
	ws.aim = aim{standings: ws.standings, target: target, whole: isNamed || x.opts.Exact,
		goes: goes{from: x.tip.Seq, to: x.tip.Seq, depth: x.tip.Facts.Depth}}
	var err error
	switch {
	case isNamed:
		err = ws.named()
	case x.opts.Exact:
		err = ws.exactly(func(string) bool { return true })
	case target.n > 0:
		err = ws.newestTurns()
	case target.at == nil:
		err = fmt.Errorf("%w: no turn of this session left it; name files, or ask for all of it", ErrUnknown)
	default:
		err = ws.between(target.at)
	}
	if err == nil {
		err = ws.standAfter(isNamed)
	}
	if err == nil && !ws.whole && len(ws.paths) == 0 {
		ws.differing, err = x.m.countDiffering(ctx, target)
	}
	if err != nil {
		return aim{}, err
	}
	return ws.finish()
}

// newWants returns the wants of a restore, none yet.
func (x *restore) newWants(ctx context.Context, l *line) *wants {
	return &wants{m: x.m, asked: &x.asked, tip: x.tip, root: x.root, ctx: ctx, line: l, g: x.m.tree.pages,
		aim:   aim{standings: l.Paths(x.m.tree.pages)},
		paths: make(map[string]*want), unseen: make(map[string]bool)}
}

// finish returns the aim that the wants come to, with what is expected at their paths.
func (ws *wants) finish() (aim, error) {
	if err := errors.Join(ws.expect(), ws.addDirs(), ws.keep()); err != nil {
		return aim{}, err
	}
	ws.expected = ws.paths
	for _, w := range ws.paths {
		ws.wants = append(ws.wants, w.Want)
	}
	for p := range ws.unseen {
		ws.untouched = append(ws.untouched, p)
		if ws.paths[p] == nil {
			ws.notCaptured = append(ws.notCaptured, p)
		}
	}
	slices.Sort(ws.notCaptured)
	return ws.aim, nil
}

// newestTurns wants what the newest turns of the line did to be taken back, if
// they did anything.
func (ws *wants) newestTurns() error {
	s, p, tip := ws.standings, ws.target, ws.tip
	if p.gone == nil {
		joints := false // paths may go their own way
		gone, _, err := s.Line.Between(ws.ctx, tip, p.at, "", func(*record) { joints = true })
		if err != nil {
			return err
		}
		if !joints {
			back, _, err := s.Between(ws.ctx, tip, p.at)
			if err == nil && len(back) == 0 {
				err = ws.nothingIn(gone)
			}
			return errors.Join(err, ws.undo(back, nil, p.at))
		}
		q := *p
		q.at, q.gone, ws.target = nil, gone, &q
	}
	back, also, err := s.BackOf(ws.ctx, tip, ws.target.gone)
	if err != nil {
		return err
	}
	if len(back) == 0 {
		return ws.nothingIn(ws.target.gone)
	}
	ws.goes.without = also
	return ws.undo(back, nil, nil)
}

// nothingIn says that the newest turns changed nothing, and which did.
func (ws *wants) nothingIn(gone []*record) error {
	if len(gone) == 0 {
		return nil
	}
	which := fmt.Sprintf("turn %d", gone[0].Turn())
	if n := gone[len(gone)-1].Turn(); n != gone[0].Turn() {
		which = fmt.Sprintf("turns %d to %d", n, gone[0].Turn())
	}
	n := 0
	var last *record
	for t := ws.standings.Line.Trail(ws.tip, ""); ; {
		r, err := t.Next(ws.ctx)
		if err != nil {
			return err
		}
		if r == nil {
			return fmt.Errorf("%s %w, and neither did a turn before", which, ErrChangedNothing)
		}
		if last == nil || !r.IsSameTurn(last) {
			n++
		}
		last = r
		list, err := ws.standings.Of(ws.ctx, r)
		if err != nil {
			return err
		}
		if len(list) > 0 {
			return fmt.Errorf("%s %w; the newest that did is turn %d, which @~%d takes back",
				which, ErrChangedNothing, r.Turn(), n)
		}
	}
}

// compareSame refuses a restore to a tree that several moments had, if it were
// another one for each: nothing says which of them is meant.
func (x *restore) compareSame(ctx context.Context, l *line) error {
	same := x.target.same
	if len(same) == 0 {
		return nil
	}
	one, err := x.effects(ctx, &x.aim)
	if err != nil {
		return err
	}
	for _, o := range same[:min(len(same), maxSame)] {
		other, err := x.aimAt(ctx, l, o)
		if err != nil {
			return err
		}
		two, err := x.effects(ctx, &other)
		if err != nil {
			return err
		}
		if !slices.EqualFunc(one, two, isSameEffect) {
			return fmt.Errorf("%w: turn %d and turn %d both left that state, "+
				"and to go back to one is not to go back to the other: name one",
				ErrAmbiguous, o.TurnIndex, x.target.TurnIndex)
		}
	}
	return nil
}

// maxSame bounds how many moments with the same tree are compared: more are taken
// for alike. Each costs a plan.
const maxSame = 32

// effects returns the items of a plan that say something.
func (x *restore) effects(ctx context.Context, a *aim) ([]rollback.Item, error) {
	plan, err := x.newPlan(ctx, a, &livedir.Options{Policy: x.opts.OnDirty})
	if err != nil {
		return nil, err
	}
	saysNothing := func(it rollback.Item) bool { return it.Do == livedir.Nothing || it.Parent }
	return slices.DeleteFunc(plan.Items, saysNothing), nil
}

// isSameEffect reports whether two items have the same effect.
func isSameEffect(a, b rollback.Item) bool {
	return a.Path == b.Path && a.Do == b.Do && (change.IsLeft(a) || trees.Same(a.New, b.New))
}

// standAfter notes where the files stand after the restore, which is of named paths or
// of all.
func (ws *wants) standAfter(named bool) error {
	at := ws.target.at
	switch {
	case at == nil && ws.target.gone != nil:
		for _, r := range ws.target.gone {
			ws.goes.without = append(ws.goes.without, r.Seq)
		}
		slices.Sort(ws.goes.without)
		slices.Reverse(ws.goes.without)
		ws.goes.leftFrom, ws.goes.back = ws.tip.Seq, ws.target.gone
		return nil
	case at == nil: // bytes of others: they are the user's from now on
		return nil
	}
	l := ws.line
	to, err := l.recorded(ws.ctx, at)
	if err != nil {
		return err
	}
	if ws.goes.back, ws.goes.forth, err = l.Between(ws.ctx, ws.tip, at, "", nil); err != nil {
		return err
	}
	if !named {
		ws.goes.to, ws.goes.depth, ws.goes.leftFrom = to, at.Facts.Depth, ws.tip.Seq
		return nil
	}
	for i, r := range ws.goes.back {
		if r.Behind == nil {
			continue
		}
		if list, err := ws.standings.Of(ws.ctx, r.Behind); err != nil {
			return err
		} else if len(list) == 0 { // so what goes is all of the turn
			whole := *r
			whole.Behind, ws.goes.back[i] = nil, &whole
		}
	}
	ws.goes.tookFrom = to
	ws.goes.pathsBack, ws.goes.pathsForth, err = ws.standings.Between(ws.ctx, ws.tip, at)
	if err != nil {
		return err
	}
	ws.goBehind()
	return ws.goesElsewhere()
}

// goesElsewhere adds to the turns that may leave the line those that are on the target's,
// too, if nothing of them is in but at paths where they are not in there.
func (ws *wants) goesElsewhere() error {
	s, g := ws.standings, &ws.goes
	asked, listed := make(map[uint64]bool), make(map[uint64]bool)
	for _, r := range g.back {
		asked[r.Seq], listed[r.Seq] = true, true
	}
	for _, list := range g.pathsBack {
		for _, sc := range list {
			if asked[sc.By.Seq] {
				continue
			}
			asked[sc.By.Seq] = true
			on, err := s.Line.OnLine(ws.ctx, ws.tip, sc.By)
			if err == nil && on != nil && !listed[on.Seq] {
				listed[on.Seq] = true
				var stays bool
				if stays, err = ws.staysElsewhere(on); !stays {
					g.back = append(g.back, on)
				}
			}
			if err != nil {
				return err
			}
		}
	}
	slices.SortFunc(g.back, func(a, b *record) int { return cmp.Compare(b.Seq, a.Seq) })
	return ws.staysOnLine()
}

// staysOnLine takes out of the turns that may leave the line those of which all goes that is
// not in at the target, and of which more is in at both.
func (ws *wants) staysOnLine() error {
	g := &ws.goes
	goes := make(map[uint64]bool) // turns of which something goes, but not at paths that stay as they are
	for p, list := range g.pathsBack {
		for _, sc := range list {
			is, known := goes[sc.By.Seq]
			goes[sc.By.Seq] = (is || !known) && ws.paths[p] != nil
		}
	}
	var stay []*record
	for _, r := range g.back {
		if !goes[r.Seq] || r.Behind != nil {
			continue
		}
		if stays, err := ws.staysElsewhere(r); err != nil {
			return err
		} else if stays {
			stay = append(stay, r)
		}
	}
	g.back = slices.DeleteFunc(g.back, func(r *record) bool { return slices.Contains(stay, r) })
	return nil
}

// staysElsewhere reports whether a turn is in at a path where it does not go.
func (ws *wants) staysElsewhere(turn *record) (bool, error) {
	list, err := ws.standings.Of(ws.ctx, turn)
	if err != nil {
		return false, err
	}
	for p := range list {
		isOf := func(sc standing.StepChange) bool {
			return history.IsSame(sc.By, turn) || sc.By.EndsAt(turn) || turn.EndsAt(sc.By)
		}
		if slices.ContainsFunc(ws.goes.pathsBack[p], isOf) {
			continue
		}
		in, err := ws.standings.Line.Trail(ws.tip, p).Find(ws.ctx, turn)
		if in != nil || err != nil {
			return true, err
		}
	}
	return false, nil
}

// named wants what patterns stand for to be as at the target.
func (ws *wants) named() error {
	opts := &ws.asked.opts
	files, missing, found := !opts.Exact, "", false
	look := func(rel string) (bool, error) {
		if rel == "." {
			files, found = false, true
			return true, nil
		}
		then, err := trees.EntryAt(ws.ctx, ws.g, ws.target.State.Tree, rel)
		if err != nil {
			return false, err
		}
		now, err := ws.root.Entry(ws.ctx, rel, trees.NewOverlay(nil))
		if err != nil {
			return false, err
		}
		switch there := then != nil || now != nil; {
		case !there && !isGlob(rel):
			missing = rel
			return false, nil
		case !there || then != nil && then.Mode.IsDir() || now != nil && now.Mode.IsDir():
			files, found = false, found || there
			return there, nil
		}
		w := ws.path(rel)
		w.New, w.at, w.Created = then, ws.target.State, true
		w.known = now == nil // it is named, so it is made
		return true, nil
	}
	match, err := ws.m.matcher(opts.Paths, look)
	switch {
	case err != nil:
		return err
	case missing != "":
		return fmt.Errorf("path %q: %w, neither at the target nor in the directory", missing, ErrUnknown)
	case files && len(ws.paths) > 0:
		return nil
	}
	clear(ws.paths)
	if err := ws.exactly(match); err != nil {
		return err
	}
	if !found && len(ws.paths)+len(ws.unseen) == 0 { // of globs alone
		if is, err := ws.isAny(match); err != nil {
			return err
		} else if !is {
			return fmt.Errorf("%q: %w: no path that is captured matches, neither at the target nor in the directory",
				opts.Paths, ErrUnknown)
		}
	}
	return nil
}

// exactly wants all paths for which match holds to be as at the target. What is there
// is expected, unless dirty files are to be looked at.
func (ws *wants) exactly(match func(string) bool) error {
	opts := &ws.asked.opts
	disk, g, err := ws.m.disk(ws.ctx)
	if err != nil {
		return err
	}
	ws.g, ws.disk = g, disk
	for d, err := range trees.Compare(ws.ctx, g, ws.target.State, disk) {
		if err != nil {
			return err
		}
		if !match(d.Path) {
			continue
		}
		if d.Status == tree.Captured || d.Status == tree.Uncaptured && !ws.asked.expressly {
			ws.unseen[d.Path] = true
			continue
		}
		w := ws.path(d.Path) // of a path that a directory replaces there are two
		w.New, w.Old = cmp.Or(w.New, d.Old), cmp.Or(w.Old, d.New)
		// A directory that is not empty is not listed.
		if w.New == nil {
			if w.New, err = trees.DirAt(ws.ctx, ws.g, ws.target.State.Tree, d.Path); err != nil {
				return err
			}
		}
		if w.Old == nil {
			if w.Old, err = trees.DirAt(ws.ctx, ws.g, disk.Tree, d.Path); err != nil {
				return err
			}
		}
		w.at, w.left, w.known, w.Created = ws.target.State, disk, true, true
	}
	for _, w := range ws.paths {
		if opts.Exact && opts.OnDirty != rollback.Overwrite ||
			!opts.Exact && w.Old != nil { // what is named and not there is made
			w.known, w.Old = false, nil
		}
	}
	return nil
}

// isAny reports whether any path is at the target, or in the directory, for which
// match holds.
func (ws *wants) isAny(match func(string) bool) (bool, error) {
	for _, s := range []store.State{ws.target.State, ws.disk} {
		for e, err := range trees.Walk(ws.ctx, ws.g, s.Tree) {
			if err != nil || match(e.Path) {
				return err == nil, err
			}
		}
	}
	return false, nil
}

// matcher returns which paths patterns stand for: a path, all below a
// directory, or a glob. A path that is there is no glob.
func (m *FileSnapshotManager) matcher(
	patterns []string, isThere func(string) (bool, error),
) (func(string) bool, error) {
	var clean []string
	var globs []*glob
	for _, p := range patterns {
		if p == "" {
			return nil, fmt.Errorf("path %q: it is empty: %w", p, inside.ErrPath)
		}
		rel, err := m.treePath(p)
		if err != nil {
			return nil, err
		}
		if rel == "." {
			_, err := isThere(".")
			return func(string) bool { return true }, err
		}
		if m.isVCS(rel) {
			return nil, fmt.Errorf("path %q: %w: the insides of a repository are its own", p, ErrOutside)
		}
		there, err := isThere(rel)
		if err != nil {
			return nil, err
		}
		if clean = append(clean, rel); !there && isGlob(rel) {
			g, err := newGlob(rel)
			if err != nil {
				return nil, err
			}
			globs = append(globs, g)
		}
	}
	return func(name string) bool {
		for _, p := range clean {
			if name == p || strings.HasPrefix(name, p+"/") {
				return true
			}
		}
		return slices.ContainsFunc(globs, func(g *glob) bool { return g.match(name) })
	}, nil
}
