package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// wants are what the paths of a restore are to become.
type wants struct {
	m       *FileSnapshotManager
	ctx     context.Context
	line    *line
	tip     *record // where the files stand
	target  *Point
	reached *store.State // from which the turns went that are undone: the target, or what became of it before
	g       tree.Getter  // of trees, also of those of the disk

	paths       map[string]*want
	notCaptured map[string]bool // paths that changed only in what was captured of them
}

type want struct {
	rollback.Want
	at   store.State // in which Path was as it is wanted
	left store.State // in which Old was seen last, for the directories above
	by   *record     // step that found New

	unknown bool        // New is not known: it was not captured
	seen    *tree.Entry // what it was when it was captured again
	real    bool        // it was changed, and not only captured or left out
	known   bool        // Old is what is expected
}

// path returns the want of a path.
func (ws *wants) path(p string) (w *want, isNew bool) {
	w, ok := ws.paths[p]
	if !ok {
		w = &want{Want: rollback.Want{Path: p}}
		ws.paths[p] = w
	}
	return w, !ok
}

// withLeft is byTurns, with what the newest restore, which led to where the files
// stand, did not get done.
func (ws *wants) withLeft(last *record) error {
	err := ws.byTurns()
	if err != nil || last == nil || len(last.data.Left) == 0 || last.data.Prev != ws.tip.Seq {
		return err
	}
	before := *ws
	before.paths, before.notCaptured = make(map[string]*want), make(map[string]bool)
	if before.tip, err = ws.m.stepAt(ws.ctx, last.data.LeftFrom, last.Session); err != nil {
		return err
	}
	if err := before.byTurns(); err != nil {
		return err
	}
	for _, p := range last.data.Left {
		if w := before.paths[string(p)]; w != nil && ws.paths[string(p)] == nil {
			ws.paths[string(p)] = w
		}
	}
	return nil
}

// byTurns collects the paths that turns changed between where the files stand
// and the target. Those that are undone go to what they were before the first
// of them, those that are done again to what the last of them left.
func (ws *wants) byTurns() error {
	to, err := ws.m.stepOn(ws.ctx, ws.target)
	if err != nil {
		return fmt.Errorf("%w; name files, or ask for all of it", err)
	}
	back, forth, err := ws.line.way(ws.ctx, ws.tip, to)
	if err != nil {
		return err
	}
	for _, r := range back {
		ws.reached = &r.Base
		err := ws.eachChange(r, func(c *change) error {
			w, isNew := ws.path(c.path)
			w.real = w.real || c.status != tree.Captured && (isNew || c.status != tree.Uncaptured)
			if c.status == tree.Captured { // what it was before is not known
				w.New, w.at, w.by, w.unknown, w.seen = nil, r.Base, r, true, c.new
				return nil
			}
			left, found := c.new, w.New
			if c.status == tree.Uncaptured {
				left = c.old
			}
			if w.unknown {
				found = w.seen
			}
			if !isNew && !same(left, found) {
				mine, err := ws.restoredBetween(r, w.by, c.path, found)
				if err != nil {
					return err
				}
				if !mine && w.Doubt == "" {
					w.Doubt = "mixed: somebody else has changed it between two of the turns"
				}
			}
			w.New, w.at, w.by, w.unknown = c.old, r.Base, r, false
			w.doubt(c)
			w.Created = c.old == nil
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, r := range forth {
		err := ws.eachChange(r, func(c *change) error {
			w, _ := ws.path(c.path)
			w.real = true
			if c.status == tree.Uncaptured { // what it became is not known
				w.New, w.at, w.unknown = nil, r.State(), true
				return nil
			}
			w.New, w.at, w.unknown = c.new, r.State(), false
			w.doubt(c)
			w.Created = c.new == nil
			return nil
		})
		if err != nil {
			return err
		}
	}
	for p, w := range ws.paths {
		switch {
		case w.unknown:
			ws.notCaptured[p] = true
			delete(ws.paths, p)
		case !w.real && w.Doubt == "": // it was left out, and then captured as it had been
			delete(ws.paths, p)
		}
	}
	return nil
}

func (w *want) doubt(c *change) {
	switch {
	case w.Doubt != "":
	case c.owner == Contested:
		w.Doubt = "contested: it may have been another session, or the user"
	case c.mixed:
		w.Doubt = "mixed: somebody else has changed it during the turn"
	}
}

// same reports whether two entries are the same; nil is nothing.
func same(a, b *tree.Entry) bool { return netStatus(a, b) == 0 }

// eachChange calls fn for what a step did on the disk. A directory that took
// the place of a file is seen as such, and a file that took one's.
func (ws *wants) eachChange(r *record, fn func(*change) error) error {
	changes, err := ws.m.changes(ws.ctx, r)
	if err != nil {
		return fmt.Errorf("turn %d: %w", r.turn(), err)
	}
	for i := range changes {
		c := &changes[i]
		if c.old == nil {
			if c.old, err = ws.entry(r.Base, c.path, r.logged == nil); err != nil {
				return err
			}
		}
		if c.new == nil {
			if c.new, err = ws.entry(r.State(), c.path, r.logged == nil); err != nil {
				return err
			}
		}
		if err := fn(c); err != nil {
			return err
		}
	}
	return nil
}

// entry returns what a state has at a path, nil for nothing. With dirsOnly what
// is no directory counts as nothing.
func (ws *wants) entry(s store.State, p string, dirsOnly bool) (*tree.Entry, error) {
	if s.Tree.IsZero() {
		return nil, nil
	}
	e, err := tree.Lookup(ws.ctx, ws.g, s.Tree, p)
	if errors.Is(err, fs.ErrNotExist) || err == nil && dirsOnly && !e.Mode.IsDir() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &e, nil
}

// restoredBetween reports whether a restore of the session, between two of its
// steps, left a path as the newer one found it: then it was nobody else.
func (ws *wants) restoredBetween(older, newer *record, p string, found *tree.Entry) (bool, error) {
	head, err := ws.m.newest(ws.ctx, ws.m.opts.Session)
	if err != nil || head == nil {
		return false, err
	}
	for r, err := range ws.m.ownBack(ws.ctx, head) {
		if err != nil || r.Seq <= older.Seq {
			return false, err
		}
		if r.Kind != kindRestore || r.Seq >= newer.Seq {
			continue
		}
		before, err := ws.entry(r.Base, p, false)
		if err != nil {
			return false, err
		}
		left, err := ws.entry(r.State(), p, false)
		if err != nil {
			return false, err
		}
		if same(left, found) && !same(before, left) {
			return true, nil
		}
	}
	return false, nil
}

// ownBack yields the records of a session, newest first.
func (m *FileSnapshotManager) ownBack(ctx context.Context, head *record) func(func(*record, error) bool) {
	return func(yield func(*record, error) bool) {
		for r := head; r != nil; {
			if !yield(r, nil) || r.Parent == 0 {
				return
			}
			var err error
			if r, err = m.before(ctx, r); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// exactly collects all paths that differ between the target and the disk.
func (ws *wants) exactly(disk store.State, g tree.Getter, match func(string) bool) error {
	ws.g = g
	for d, err := range tree.Compare(ws.ctx, g, ws.target.State, disk) {
		if err != nil {
			return err
		}
		switch {
		case !match(d.Path):
		case d.Status == tree.Captured || d.Status == tree.Uncaptured:
			ws.notCaptured[d.Path] = true
		default:
			w, isNew := ws.path(d.Path)
			if isNew { // of a path that a directory replaces there are two
				w.New, w.Old = d.Old, d.New
			} else {
				w.New, w.Old = cmp.Or(w.New, d.Old), cmp.Or(w.Old, d.New)
			}
			// A directory that is not empty is not listed.
			if w.New == nil {
				if w.New, err = ws.entry(ws.target.State, d.Path, true); err != nil {
					return err
				}
			}
			if w.Old == nil {
				if w.Old, err = ws.entry(disk, d.Path, true); err != nil {
					return err
				}
			}
			w.at, w.left, w.known, w.Created = ws.target.State, disk, true, true
		}
	}
	return nil
}

// expect fills in what is expected to be at each path: what the session's
// newest turn or restore that changed it has left there; if none has, what was
// there when the session began.
func (ws *wants) expect() error {
	open := make(map[string]*want)
	for p, w := range ws.paths {
		if !w.known {
			open[p] = w
		}
	}
	head, err := ws.m.newest(ws.ctx, ws.m.opts.Session)
	if err != nil {
		return err
	}
	var start *record
	for r, err := range ws.m.ownBack(ws.ctx, head) {
		if err == nil && r.Pruned {
			break
		}
		if err == nil {
			err = ws.left(r, open)
		}
		if err != nil {
			return err
		}
		if r.Kind == kindStart {
			start = r
		}
		if len(open) == 0 {
			return nil
		}
	}
	for p, w := range open {
		w.known = true
		if start == nil || start.Tree.IsZero() {
			w.Doubt = unknownDoubt
			continue
		}
		if w.Old, err = ws.entry(start.State(), p, false); err != nil {
			return err
		}
		w.left = start.State()
		out, err := tree.IsOmitted(ws.ctx, ws.m.tree.pages, start.Coverage, p)
		if err != nil {
			return err
		}
		if out && w.Old == nil {
			w.Doubt = unknownDoubt
		}
	}
	return nil
}

const unknownDoubt = "unknown: nothing says what it was"

// left settles what a step or a restore has left at paths that are still open.
func (ws *wants) left(r *record, open map[string]*want) error {
	settle := func(p string, e *tree.Entry) error {
		w := open[p]
		if w == nil {
			return nil
		}
		if e == nil { // or a directory that is not empty
			var err error
			if e, err = ws.entry(r.State(), p, true); err != nil {
				return err
			}
		}
		w.Old, w.left, w.known = e, r.State(), true
		delete(open, p)
		return nil
	}
	switch r.Kind {
	case kindStep:
		return ws.eachChange(r, func(c *change) error {
			if w := open[c.path]; w != nil && c.status == tree.Uncaptured {
				w.Doubt, w.known = unknownDoubt, true
				delete(open, c.path)
			}
			return settle(c.path, c.new)
		})
	case kindRestore:
		for c, err := range tree.Diff(ws.ctx, ws.m.tree.pages, r.Base.Tree, r.Tree) {
			if err == nil {
				err = settle(c.Path, c.New)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

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
			wanted, err := ws.entry(w.at, up, true)
			if err != nil {
				return err
			}
			if known != nil { // it would go, if nothing were wanted in it
				known.New, known.Parent, known.Created = wanted, true, false
				continue
			}
			d := &want{Want: rollback.Want{Path: up, New: wanted}, at: w.at, left: w.left, known: true}
			switch {
			case wanted != nil && w.New != nil:
				d.Parent = true
			case wanted != nil || holds[up]:
				continue // it stays
			default:
				if d.Old, err = ws.entry(w.left, up, true); err != nil {
					return err
				}
				if d.Created = true; d.Old == nil {
					continue
				}
			}
			ws.paths[up] = d
		}
	}
	return nil
}

// keep marks what the target knew to be there and had not captured.
func (ws *wants) keep() error {
	for p, w := range ws.paths {
		out, err := tree.IsOmitted(ws.ctx, ws.m.tree.pages, ws.target.State.Coverage, p)
		if errors.Is(err, store.ErrPruned) && ws.reached != nil {
			out, err = tree.IsOmitted(ws.ctx, ws.m.tree.pages, ws.reached.Coverage, p)
		}
		if err != nil {
			return err
		}
		switch {
		case !out:
		case w.New == nil:
			w.Keep = "it was there at the target, but not captured"
		case !w.New.Mode.IsDir():
			ws.notCaptured[p] = true
			delete(ws.paths, p)
		}
	}
	return nil
}

// list returns the wants for package rollback.
func (ws *wants) list() []rollback.Want {
	var list []rollback.Want
	for _, w := range ws.paths {
		list = append(list, w.Want)
	}
	return list
}

// matcher returns which paths patterns stand for: a path, all below a
// directory, or a glob as path.Match has it, in which ** stands for any number
// of names. A path that is there is no glob.
func (m *FileSnapshotManager) matcher(patterns []string, isThere func(string) (bool, error)) (func(string) bool, error) {
	var clean, globs []string
	for _, p := range patterns {
		if p == "" {
			return nil, fmt.Errorf("path %q: it is empty", p)
		}
		rel, err := m.TreePath(p)
		if err != nil {
			return nil, err
		}
		if rel == "." {
			_, err := isThere(".")
			return func(string) bool { return true }, err
		}
		for name := range strings.SplitSeq(rel, "/") {
			if slices.Contains(vcsNames, name) {
				return nil, fmt.Errorf("path %q: %w: the insides of a repository are its own", p, ErrOutside)
			}
		}
		there, err := isThere(rel)
		if err != nil {
			return nil, err
		}
		if clean = append(clean, rel); !there && isGlob(rel) {
			if _, err := path.Match(rel, ""); err != nil {
				return nil, fmt.Errorf("path %q: %w", p, err)
			}
			globs = append(globs, rel)
		}
	}
	return func(name string) bool {
		for _, p := range clean {
			if name == p || strings.HasPrefix(name, p+"/") {
				return true
			}
		}
		return slices.ContainsFunc(globs, func(g string) bool { return matchGlob(strings.Split(g, "/"), strings.Split(name, "/")) })
	}, nil
}

// vcsNames are directories that version control systems keep as their own.
var vcsNames = []string{".git", ".hg", ".svn", ".jj"}

// matchGlob matches names with patterns, one by one. What is below a match
// matches, too.
func matchGlob(pattern, names []string) bool {
	for len(pattern) > 0 {
		if pattern[0] == "**" {
			for i := range len(names) + 1 {
				if matchGlob(pattern[1:], names[i:]) {
					return true
				}
			}
			return false
		}
		if len(names) == 0 {
			return false
		}
		if ok, err := path.Match(pattern[0], names[0]); err != nil || !ok {
			return false
		}
		pattern, names = pattern[1:], names[1:]
	}
	return true
}

func isGlob(p string) bool { return strings.ContainsAny(p, "*?[\\") }
