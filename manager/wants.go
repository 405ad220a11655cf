package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/standing"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// wants find out what the paths of a restore are to become.
type wants struct {
	aim // what comes of them

	m     *FileSnapshotManager
	asked *asked        // what is wanted of the restore
	tip   *record       // where the files stand before it
	root  *livedir.Root // the session's directory

	ctx     context.Context
	line    *line
	reached *record      // the oldest turn that is undone, which began at what had become of the target; nil: none is
	g       trees.Getter // of trees, also of those of the disk

	// of turns that are taken back by name: changes that came later, newest first
	stays map[string][]standing.StepChange

	disk store.State // if all of it was compared with the target

	paths  map[string]*want
	unseen map[string]bool // paths that changed only in what was captured of them
}

type want struct {
	livedir.Want
	at   store.State // in which Path was as it is wanted
	left store.State // in which Old was seen last, for the directories above
	by   *record     // step that found New

	unknown bool        // New is not known: it was not captured
	seen    *tree.Entry // what it was when it was captured again
	real    bool        // it was changed, and not only captured or left out
	mixed   bool        // the doubt is what others have changed: which changes are in is known
	known   bool        // Old is what is expected
	isKnown bool        // and the session left it there, or found it
	after   int         // the turn that left it; -1: none, it was there when the session began
	behind  string      // of a path that is named: says what goes of what others did; "": nothing is known to
}

// path returns the want of a path.
func (ws *wants) path(p string) *want {
	w, ok := ws.paths[p]
	if !ok {
		w = &want{Want: livedir.Want{Path: p}}
		ws.paths[p] = w
	}
	return w
}

// between collects the paths that stand elsewhere at the target than where the
// files stand. Those at which changes go, and none come, go to what the first of
// them found; those at which changes come to what the last of them left.
func (ws *wants) between(to *record) error {
	back, forth, err := ws.standings.Between(ws.ctx, ws.tip, to)
	if err != nil {
		return err
	}
	return ws.undo(back, forth, to)
}

// undo collects the paths of changes: those to take back, newest first, and those
// to do then, oldest first. to is the position to which that leads, nil if it is none.
func (ws *wants) undo(back, forth map[string][]standing.StepChange, to *record) error {
	about := make(map[*record]bool)
	for _, side := range []map[string][]standing.StepChange{back, forth} {
		for _, list := range side {
			for _, sc := range list {
				about[sc.By] = true
			}
		}
	}
	ws.about, ws.back, ws.forth = slices.Collect(maps.Keys(about)), back, forth
	for p, list := range back {
		w := ws.path(p)
		for i, sc := range list {
			if !ws.standings.Own[p] {
				w.takeBack(sc, i == 0)
			}
			if ws.reached == nil || sc.By.Seq != 0 && sc.By.Seq < ws.reached.Seq {
				ws.reached = sc.By
			}
		}
	}
	for p, list := range forth {
		w := ws.path(p)
		for _, sc := range list {
			if !ws.standings.Own[p] {
				w.do(sc)
			}
		}
	}
	for p := range ws.standings.Own {
		if w := ws.paths[p]; w != nil {
			if err := ws.goOwnWay(w, back[p], forth[p], to); err != nil {
				return err
			}
		}
	}
	if err := ws.foundMore(back, forth); err != nil {
		return err
	}
	for p, w := range ws.paths {
		switch {
		case w.unknown:
			ws.unseen[p] = true
			delete(ws.paths, p)
		case !w.real && w.Doubt == "": // it was left out, and then captured as it had been
			delete(ws.paths, p)
		}
	}
	return nil
}

// goOwnWay wants a path that has gone its own way, here or at the target, to stand
// where it is to: its changes need not have been made on top of one another. Where
// changes only go, and nothing else stays in than what the first of them found, it
// goes to that; else to what is expected there. to is the target, nil if it is no
// position.
func (ws *wants) goOwnWay(w *want, back, forth []standing.StepChange, to *record) error {
	s := ws.standings
	for i, sc := range back {
		w.real = w.real || isReal(sc.Change, i == 0)
	}
	if len(forth) > 0 {
		w.do(forth[len(forth)-1])
	}
	found := false
	if len(back) > 0 && len(forth) == 0 {
		first := back[len(back)-1]
		w.takeBack(first, true)
		before, err := s.Line.FoundBy(ws.ctx, first.By)
		if err != nil || before == nil {
			return err
		}
		if found, err = s.Alike(ws.ctx, s.Without(ws.tip, w.Path, back), s.Line.Trail(before, w.Path)); err != nil {
			return err
		}
	}
	if !found {
		t := s.Without(ws.tip, w.Path, back)
		if to != nil {
			t = s.Line.Trail(to, w.Path)
		}
		err := s.NewestOn(ws.ctx, t, func(p string, sc *standing.StepChange, start *record) error {
			e, state, err := ws.expectedOf(p, sc, start)
			if err == nil && state.IsZero() {
				return ws.untold(w, back, forth)
			}
			w.New, w.at, w.Created, w.unknown = e, state, e == nil, false
			if sc != nil {
				start = sc.By
			}
			ws.stay = append(ws.stay, start)
			return err
		})
		if err != nil {
			return err
		}
	}
	if len(back) == 0 {
		return nil
	}
	for _, sc := range back {
		w.doubt(sc.By, sc.Change)
	}
	return ws.foundMoreSince(w, back[len(back)-1].By, found)
}

// untold wants of a path what follows from its changes, where no moment says it. What
// a turn that stays has deleted since stays deleted, and keeps what it hides.
func (ws *wants) untold(w *want, back, forth []standing.StepChange) error {
	by, err := ws.standings.DeletedOver(ws.ctx, w.Path, ws.stays[w.Path], back)
	if err != nil {
		return err
	}
	if by != nil {
		w.Held, w.Hidden = hiddenBy(*by, back[len(back)-1]), true
		ws.hide(w.Path, by.By)
		return nil
	}
	return ws.oneByOne(w, back, forth)
}

// hide notes that a path is left alone since a turn has deleted it.
func (a *aim) hide(p string, by *record) {
	if a.hidden == nil {
		a.hidden = make(map[string]*record)
	}
	a.hidden[p] = by
}

// hiddenBy says that a change lies under what another turn has deleted, or left out.
func hiddenBy(by, hidden standing.StepChange) string {
	has, did := "deleted", "changed"
	if by.Change.Status == tree.Uncaptured {
		has = "left out of the snapshots"
	}
	if hidden.Change.Old == nil {
		did = "made"
	}
	return fmt.Sprintf("hidden by turn %d, which has %s what turn %d %s", by.By.Turn(), has, hidden.By.Turn(), did)
}

// oneByOne wants of a path what is there without changes, newest first, and with
// others then: each has to have left, or found, all that is expected there.
func (ws *wants) oneByOne(w *want, back, forth []standing.StepChange) error {
	type move struct {
		from, to *tree.Entry
		at       store.State
	}
	var moves []move
	for _, sc := range back {
		moves = append(moves, move{sc.Change.New, sc.Change.Old, sc.By.Base})
	}
	for _, sc := range forth {
		moves = append(moves, move{sc.Change.Old, sc.Change.New, sc.By.State()})
	}
	return ws.standings.NewestOf(ws.ctx, ws.tip, w.Path, func(p string, sc *standing.StepChange,
		start *record) error {
		e, at, err := ws.expectedOf(p, sc, start)
		if err != nil {
			return err
		}
		w.Keep = whyUntold
		for _, m := range moves {
			switch {
			case at.IsZero(), !trees.Same(e, m.from) && !trees.Same(e, m.to):
				return nil
			case trees.Same(e, m.from):
				e, at = m.to, m.at
			}
		}
		w.Keep, w.New, w.at, w.Created, w.unknown = "", e, at, e == nil, false
		return nil
	})
}

const whyUntold = "it is not known what the file would be without the changes that are taken back"

// foundMoreSince doubts a path at which a turn that is in, from one that goes on,
// has found something else than was expected there. What the first has found does
// not matter if the path goes back to that.
func (ws *wants) foundMoreSince(w *want, first *record, found bool) error {
	var newer standing.StepChange // the one before
	for t := ws.standings.Line.Trail(ws.tip, w.Path); w.Doubt == ""; {
		r, err := t.Next(ws.ctx)
		if r == nil || err != nil {
			return err
		}
		isFirst := history.IsSame(r, first)
		if isFirst {
			r = first // or what is left of it
		}
		c, err := ws.standings.At(ws.ctx, r, w.Path)
		if err != nil {
			return err
		}
		isAnew, err := ws.standings.Line.SaysAnew(ws.ctx, r, w.Path)
		if err != nil {
			return err
		}
		switch {
		case c == nil:
		case isWithCut(w.Path, newer, r) && !trees.Same(newer.Change.Old, c.New):
			w.mix("you, or another session, changed it since " + r.Deed())
		case isFirst && found:
		case c.Mixed, isAnew:
			w.mix(mixedWithin)
		default:
			err = ws.foundMoreAt(r, []string{w.Path}, func(string) *tree.Entry { return c.Old })
		}
		newer = standing.StepChange{By: r, Change: c}
		if err == nil && r.IsJoint() {
			err = ws.foundMoreBelow(w, r)
		}
		if isFirst || err != nil {
			return err
		}
	}
	return nil
}

// isWithCut reports whether a record came in at a path with a cut, which then did not find what the
// record has left, but what was there.
func isWithCut(p string, cut standing.StepChange, r *record) bool {
	if cut.Change == nil || !cut.By.IsJoint() {
		return false
	}
	a := cut.By.StandsApart(p)
	return a != nil && slices.Contains(a.With, r.Seq)
}

// foundMoreBelow doubts a path at which a turn had found something else than was expected there,
// and went with a cut: what it had found is in what the cut has left.
func (ws *wants) foundMoreBelow(w *want, cut *record) error {
	a := cut.StandsApart(w.Path)
	if a == nil {
		return nil
	}
	for _, seq := range a.Without {
		r, err := ws.m.records.Record(ws.ctx, seq)
		if err != nil || w.Doubt != "" {
			return err
		}
		if r.IsJoint() {
			continue
		}
		c, err := ws.standings.At(ws.ctx, r, w.Path)
		switch {
		case err != nil:
			return err
		case c == nil:
		case c.Mixed:
			w.mix(mixedWithin)
		default:
			err = ws.foundMoreAt(r, []string{w.Path}, func(string) *tree.Entry { return c.Old })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// foundMore looks at paths at which changes go and others come: what the first
// that goes has found is overwritten then, so it has to be what was expected there.
func (ws *wants) foundMore(back, forth map[string][]standing.StepChange) error {
	first := make(map[*record][]string) // paths, by the first turn that goes
	for p := range forth {
		if list := back[p]; len(list) > 0 && ws.paths[p].Doubt == "" && !ws.standings.Own[p] {
			r := list[len(list)-1].By
			first[r] = append(first[r], p)
		}
	}
	for r, paths := range first {
		err := ws.foundMoreAt(r, paths, func(p string) *tree.Entry { return back[p][len(back[p])-1].Change.Old })
		if err != nil {
			return err
		}
	}
	return nil
}

// foundMoreAt doubts the paths at which a turn has found something else than was
// expected there.
func (ws *wants) foundMoreAt(r *record, paths []string, found func(p string) *tree.Entry) error {
	before, err := ws.standings.Line.FoundBy(ws.ctx, r)
	if before == nil || err != nil {
		return err
	}
	return ws.standings.Newest(ws.ctx, before, paths, func(p string, sc *standing.StepChange, start *record) error {
		e, state, err := ws.expectedOf(p, sc, start)
		switch {
		case err != nil:
		case sc == nil && start == nil:
			ws.paths[p].Doubt = unknownBefore + r.Deed()
			ws.paths[p].mixed = true
		case !state.IsZero() && !trees.Same(e, found(p)):
			ws.paths[p].mix("you, or another session, changed it before " + r.Deed())
		}
		return err
	})
}

// expectedOf returns what the newest change that is in left at a path, and the
// state in which it was seen; a zero one if that is not known.
func (ws *wants) expectedOf(p string, sc *standing.StepChange, start *record) (e *tree.Entry, s store.State,
	err error) {
	switch {
	case sc != nil && sc.Change.Status == tree.Uncaptured:
		return nil, s, nil
	case sc != nil:
		if e, s = sc.Change.New, sc.By.State(); e == nil { // or a directory that is not empty
			e, err = trees.DirAt(ws.ctx, ws.g, s.Tree, p)
		}
		return e, s, err
	case start == nil || start.Tree.IsZero():
		return nil, s, nil
	}
	if e, err = trees.EntryAt(ws.ctx, ws.g, start.Tree, p); e != nil || err != nil {
		return e, start.State(), err
	}
	if out, err := trees.IsOmitted(ws.ctx, ws.m.tree.pages, start.Coverage, p); out || err != nil {
		return nil, s, err
	}
	return nil, start.State(), nil
}

// isReal reports whether a path was changed, and not only captured or left out.
func isReal(c *windows.Change, isNewest bool) bool {
	return c.Status != tree.Captured && (isNewest || c.Status != tree.Uncaptured)
}

// takeBack notes that a change goes, the first of its path or one before those
// that it was told of.
func (w *want) takeBack(sc standing.StepChange, isNewest bool) {
	r, c := sc.By, sc.Change
	w.real = w.real || isReal(c, isNewest)
	if c.Status == tree.Captured { // what it was before is not known
		w.New, w.at, w.by, w.unknown, w.seen = nil, r.Base, r, true, c.New
		return
	}
	left, found := c.New, w.New
	if c.Status == tree.Uncaptured {
		left = c.Old
	}
	if w.unknown {
		found = w.seen
	}
	if !isNewest && !trees.Same(left, found) && w.Doubt == "" {
		w.mix(mixedDoubt(r, w.by))
	}
	w.New, w.at, w.by, w.unknown = c.Old, r.Base, r, false
	w.doubt(r, c)
	w.Created = c.Old == nil
}

// mixedDoubt says that somebody has changed a path between two turns.
func mixedDoubt(older, newer *record) string {
	if older.Turn() < 0 || newer.Turn() < 0 || older.Turn() == newer.Turn() {
		return "you, or another session, changed it between two of the turns"
	}
	return fmt.Sprintf("you, or another session, changed it between turn %d and turn %d", older.Turn(), newer.Turn())
}

// goBehind notes at paths that are named what others have changed there between the target
// and here: no turn that goes has done that, and it goes all the same.
func (ws *wants) goBehind() {
	at := ws.target.at
	for p, list := range ws.goes.pathsBack {
		w := ws.paths[p]
		if w == nil || ws.standings.Own[p] {
			continue
		}
		var turns want // what taking back turns alone would come to
		for i, sc := range list {
			turns.takeBack(sc, i == 0)
		}
		why := ""
		switch first := list[len(list)-1].By; {
		case turns.mixed:
			why = turns.Doubt
		case turns.unknown || len(ws.goes.pathsForth[p]) > 0 || trees.Same(turns.New, w.New):
			continue
		case at.Turn() < 0:
			why = "you, or another session, changed it before " + first.Deed()
		case at.Turn() == first.Turn():
			why = mixedWithin
		default:
			why = mixedDoubt(at, first)
		}
		w.behind = "this goes back behind what " + strings.Replace(why, "changed it", "changed", 1)
	}
}

// do notes that a change comes, behind those that it was told of.
func (w *want) do(sc standing.StepChange) {
	r, c := sc.By, sc.Change
	w.real = true
	if c.Status == tree.Uncaptured { // what it became is not known
		w.New, w.at, w.unknown = nil, r.State(), true
		return
	}
	w.New, w.at, w.unknown = c.New, r.State(), false
	if c.Owner == windows.Contested { // what it found does not matter: that is not where it goes
		w.doubt(r, c)
	}
	w.Created = c.New == nil
}

func (w *want) doubt(r *record, c *windows.Change) {
	switch {
	case w.Doubt != "":
	case c.Owner == windows.Contested && r.Facts.Interrupted:
		w.Doubt = fmt.Sprintf("contested: turn %d was cut off, and it is not known who changed the file since",
			r.Turn())
	case c.Owner == windows.Contested:
		w.Doubt = "contested: it may have been another session, or the user"
	case c.Mixed:
		w.mix(mixedWithin)
	}
}

const mixedWithin = "you, or another session, changed it during the turn"

// mix notes that a change found, or left, what somebody else has changed.
func (w *want) mix(why string) { w.Doubt, w.mixed = why, true }

// expect fills in what is expected to be at each path: what the newest change left
// that is in there; if none is, what was there when the session began.
func (ws *wants) expect() error {
	var paths []string
	for p, w := range ws.paths {
		if !w.known {
			paths = append(paths, p)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	return ws.standings.Newest(ws.ctx, ws.tip, paths, func(p string, sc *standing.StepChange, start *record) (
		err error) {
		w := ws.paths[p]
		w.known = true
		if w.Old, w.left, err = ws.expectedOf(p, sc, start); w.left.IsZero() {
			if w.Doubt, w.mixed = unknownDoubt, true; sc != nil && sc.Change.Status == tree.Uncaptured {
				w.Doubt = uncapturedDoubt
			}
		} else if w.isKnown, w.after = w.Doubt == "", -1; sc != nil && err == nil {
			var r *record
			if r, err = ws.standings.TurnOf(ws.ctx, sc); err == nil {
				w.after = r.Turn()
			}
		}
		return err
	})
}

const unknownBefore = "unknown: it is not known what it was before "

const unknownDoubt = "unknown: its expected content is not on record, so it is not known who changed it"

const uncapturedDoubt = "unknown: it is not captured any more, so it is not known who changed it since"

// addDirs adds the directories above the paths: those that are to be there
// again, and those that go with what is in them.
func (ws *wants) addDirs() error {
	holds := make(map[string]bool) // directories in which something is wanted
	for p, w := range ws.paths {
		for up := path.Dir(p); w.New != nil && up != "." && !holds[up]; up = path.Dir(up) {
			holds[up] = true
		}
	}
	for _, p := range slices.Sorted(maps.Keys(ws.paths)) {
		w := ws.paths[p]
		for up := path.Dir(p); up != "."; up = path.Dir(up) {
			known := ws.paths[up]
			if known != nil && (known.New != nil || w.New == nil) {
				continue
			}
			wanted, err := trees.DirAt(ws.ctx, ws.g, w.at.Tree, up)
			if err != nil {
				return err
			}
			if known != nil { // it would go, if nothing were wanted in it
				known.New, known.Parent, known.Created = wanted, true, false
				continue
			}
			d := &want{Want: livedir.Want{Path: up, New: wanted}, at: w.at, left: w.left, known: true}
			switch {
			case wanted != nil && w.New != nil:
				d.Parent = true
			case wanted != nil || holds[up]:
				continue // it stays
			default:
				if d.Old, err = trees.DirAt(ws.ctx, ws.g, w.left.Tree, up); err != nil {
					return err
				}
				if d.Created, d.Follows = true, ws.asked.reverts != nil; d.Old == nil {
					continue
				}
			}
			ws.paths[up] = d
		}
	}
	return nil
}

// keep protects paths that were there at the target and not captured, as they were
// ignored or too large: what they held is not in the store, so to delete them would lose it.
func (ws *wants) keep() error {
	git, err := ws.m.checkout()
	if err != nil {
		return err
	}
	for p, w := range ws.paths {
		then := w.at
		if ws.target != nil {
			then = ws.target.State
		}
		why, err := trees.WhyOmitted(ws.ctx, ws.m.tree.pages, then.Coverage, p)
		if errors.Is(err, store.ErrPruned) && ws.reached != nil {
			why, err = trees.WhyOmitted(ws.ctx, ws.m.tree.pages, ws.reached.Base.Coverage, p)
		}
		if err != nil {
			return err
		}
		switch {
		case why == 0:
		case why == trees.Sparse: // it was not there
			if w.New == nil && git.Holds(p) {
				w.Keep = whyBroughtBack
			}
		case w.New == nil:
			w.Keep = "it was there at the target, but not captured"
		case !w.New.Mode.IsDir():
			ws.unseen[p] = true
			delete(ws.paths, p)
		}
	}
	return nil
}
