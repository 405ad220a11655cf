package manager

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A guard compares the finished plan of a restore, as a whole, with what was
// asked for. It is there for faults of ours: whatever resolves a name, finds out
// what is in where, and makes the plan, a plan that says something else than the
// user did must not touch a file. So it shares no code with these: it reads the
// trees of what it was told, and nothing else. What it finds wrong is an internal
// error, and nothing has been changed then.
type guard struct {
	ctx context.Context
	g   trees.Getter

	whole  bool              // the directory, or paths, are to be as the target has them, whoever changed them
	target store.State       // that was named; zero: of an undo
	undone *guardedUndo      // what an undo takes back; nil: it is none
	turns  []guardedTurn     // whose changes go or come, of a restore of what turns did
	merged map[store.ID]bool // what checkMerged was content with, where files are merged
	moved  map[string]string // files that somebody has moved: where the turns have changed them
	stay   []guardedTurn     // that have left what is there then; nothing is touched for their sake
}

// A guardedTurn is a turn by the states between which it had windows.
type guardedTurn struct {
	number int
	parts  [][2]store.ID // trees
}

// A guardedUndo is the restore that is taken back, by its trees.
type guardedUndo struct{ before, after store.ID }

// guardOf returns the guard of a restore.
func (x *restore) guardOf(ctx context.Context, g trees.Getter) *guard {
	gd := &guard{ctx: ctx, g: g, whole: x.whole}
	if x.undoes != nil {
		gd.undone = &guardedUndo{x.undoes.Base.Tree, x.undoes.Tree}
	}
	if x.target != nil {
		gd.target = x.target.State
	}
	gd.merged, gd.moved = x.merged, x.moved
	gd.turns, gd.stay = guardedTurns(x.about), guardedTurns(x.stay)
	return gd
}

func guardedTurns(list []*record) (turns []guardedTurn) {
	for _, r := range list {
		t := guardedTurn{number: r.Turn()}
		if r.Logged != nil || r.Behind != nil || !r.IsTurn() {
			t.parts = append(t.parts, [2]store.ID{r.Base.Tree, r.Tree})
		}
		for _, p := range r.Facts.Parts {
			t.parts = append(t.parts, [2]store.ID{r.StateAt(p.From).Tree, r.StateAt(p.To).Tree})
		}
		turns = append(turns, t)
	}
	return turns
}

// check looks at a plan. The error says what is wrong with it.
func (gd *guard) check(plan *livedir.Plan) error {
	becomes := make(map[string]*tree.Entry) // paths that are written or go
	for i := range plan.Items {
		it := &plan.Items[i]
		if it.Do != rollback.Restore && it.Do != rollback.Delete {
			continue
		}
		becomes[it.Path] = it.New
		if it.Do == rollback.Delete && it.New != nil {
			return gd.wrong(it.Path, "would be deleted though something is wanted there")
		}
		if it.Parent || it.New != nil && it.New.Mode.IsDir() || it.New == nil && it.Now != nil && it.Now.Mode.IsDir() {
			continue // directories follow what is in them
		}
		if err := gd.checkItem(it); err != nil {
			return err
		}
	}
	seen := make(map[string]bool) // directories that are no files, nor is one above them
	for p, e := range becomes {
		for up := p; e != nil; seen[up] = true {
			i := strings.LastIndexByte(up, '/')
			if i < 0 || seen[up[:i]] {
				break
			}
			up = up[:i]
			if above := becomes[up]; above != nil && !above.Mode.IsDir() {
				return gd.wrong(p, fmt.Sprintf("would be written below %q, which is to be a file", up))
			}
		}
	}
	return nil
}

// checkItem requires that a file becomes what one of those states had that were
// named: nothing else comes into it, and nothing is touched that none is about.
func (gd *guard) checkItem(it *rollback.Item) error {
	var allowed []store.ID
	switch {
	case gd.whole:
		allowed = []store.ID{gd.target.Tree}
	default:
		if gd.undone != nil {
			allowed = []store.ID{gd.undone.before}
		}
		for _, t := range gd.turns {
			for _, part := range t.parts {
				changed, err := gd.differs(part[0], part[1], cmp.Or(gd.moved[it.Path], it.Path))
				if err != nil {
					return err
				}
				if changed {
					allowed = append(allowed, part[0], part[1])
				}
			}
		}
		if len(allowed) == 0 {
			return gd.wrong(it.Path,
				"would be changed, though none of the turns that are taken back or put back has changed it")
		}
		for _, t := range gd.stay {
			for _, part := range t.parts {
				allowed = append(allowed, part[1])
			}
		}
	}
	for _, id := range allowed {
		e, err := gd.at(id, it.Path)
		if err != nil {
			return err
		}
		if guardSame(e, it.New) || it.Merged && e != nil && it.New != nil && e.ID == it.New.ID {
			return nil
		}
	}
	if it.Merged && it.New != nil && !gd.whole && (gd.merged[it.New.ID] || it.Now != nil && it.New.ID == it.Now.ID) {
		return nil
	}
	return gd.wrong(it.Path, "would become what it was at no moment that was named")
}

func (gd *guard) wrong(p, what string) error {
	return fmt.Errorf("internal error: %q %s: nothing was changed; please report it", p, what)
}

// differs reports whether two trees have something else at a path, or at a
// directory above it.
func (gd *guard) differs(a, b store.ID, p string) (bool, error) {
	x, err := gd.at(a, p)
	if err != nil {
		return false, err
	}
	y, err := gd.at(b, p)
	return !guardSame(x, y), err
}

// at returns the file that a tree has at a path, nil for none.
func (gd *guard) at(id store.ID, p string) (*tree.Entry, error) {
	if id.IsZero() {
		return nil, nil
	}
	e, err := trees.Lookup(gd.ctx, gd.g, id, p)
	if errors.Is(err, fs.ErrNotExist) || err == nil && e.Mode.IsDir() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &e, nil
}

func guardSame(a, b *tree.Entry) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Mode == b.Mode && a.ID == b.ID
}

// listed requires that a plan lists every directory that it makes.
func (gd *guard) listed(plan *livedir.Plan) error {
	for i := range plan.Items {
		it := &plan.Items[i]
		if it.Do != rollback.Restore || it.Now != nil {
			continue
		}
		up := path.Dir(it.Path)
		if up == "." {
			continue
		}
		j, ok := slices.BinarySearchFunc(plan.Items, up, func(o rollback.Item, p string) int {
			return trees.ComparePaths(o.Path, p)
		})
		made := slices.ContainsFunc(plan.Made, func(m livedir.Made) bool { return m.Path == up })
		if ok && !made && plan.Items[j].Now == nil && plan.Items[j].Do != rollback.Restore {
			return gd.wrong(it.Path, fmt.Sprintf("would be written into %q, which is not there and is not made", up))
		}
	}
	return nil
}

// checkMerged looks at what was merged into a text of the disk, from texts that are on
// record. Each line is one that one of them has; and each that only the disk had is
// there still, as often, but for those in given. Line ends do not count.
func checkMerged(text, disk []byte, recorded, given [][]byte) error {
	known := make(map[string]bool)
	for _, t := range recorded {
		for line := range bytes.Lines(t) {
			known[merging.Bare(line)] = true
		}
	}
	own := make(map[string]int) // lines that only the disk had, less those that are left
	for line := range bytes.Lines(disk) {
		if l := merging.Bare(line); !known[l] {
			own[l]++
		}
	}
	for _, t := range append(given, text) {
		for line := range bytes.Lines(t) {
			if l := merging.Bare(line); !known[l] {
				own[l]--
			}
		}
	}
	for line, n := range own {
		if n != 0 {
			return fmt.Errorf("internal error: the line %.80q would be there %d times less: "+
				"nothing was changed; please report it", line, n)
		}
	}
	return nil
}
