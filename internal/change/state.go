package change

import (
	"context"
	"path"
	"slices"

	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// Between returns what leads from one tree to another. A directory that comes with
// something in it is there only for that.
func Between(ctx context.Context, g trees.Getter, from, to store.ID) ([]livedir.Want, error) {
	var wants []livedir.Want
	for c, err := range trees.Diff(ctx, g, from, to) {
		if err != nil {
			return nil, err
		}
		parent := c.Old == nil && c.New.Mode.IsDir() && c.New.ID != trees.Empty
		wants = append(wants, livedir.Want{Path: c.Path, Old: c.Old, New: c.New, Created: true, Parent: parent})
	}
	return wants, nil
}

// WithParents adds to what leads to a tree the directories above that the tree
// has: those that somebody has removed are made as they were.
func WithParents(ctx context.Context, g trees.Getter, wants []livedir.Want, to store.ID) ([]livedir.Want, error) {
	known := make(map[string]bool)
	for _, w := range wants {
		known[w.Path] = true
	}
	all := wants
	for _, w := range wants {
		if w.New == nil {
			continue
		}
		for up := path.Dir(w.Path); up != "." && !known[up]; up = path.Dir(up) {
			known[up] = true
			e, err := trees.EntryAt(ctx, g, to, up)
			if err != nil {
				return nil, err
			}
			if e == nil || !e.Mode.IsDir() {
				break
			}
			all = append(all, livedir.Want{Path: up, New: e, Parent: true})
		}
	}
	return all, nil
}

// Reverse returns what takes moves back.
func Reverse(moves []rollback.Move) (back []rollback.Move) {
	for _, mv := range slices.Backward(moves) {
		back = append(back, rollback.Move{From: mv.To, To: mv.From, Inode: mv.Inode})
	}
	return back
}

// IsLeft reports whether an item is not done.
func IsLeft(it rollback.Item) bool {
	return it.Do == rollback.Skipped || it.Do == rollback.Failed || it.Do == rollback.Kept
}

// state stores a state with what the plan changes in it: before it does, or after
// it has made its changes.
func (c *Change) state(ctx context.Context, s store.State, made bool) (store.State, error) {
	var edits []trees.Edit
	for i := range c.Plan.Items {
		it := &c.Plan.Items[i]
		e := it.Now
		switch it.Do {
		case livedir.Nothing: // it may have become that since somebody looked
			if it.Parent && e != nil && !e.Mode.IsDir() { // somebody has put it there, and nobody has saved it
				continue
			}
			if e != nil && !e.Mode.IsDir() { // of directories also where it is ignored
				if out, err := trees.IsOmitted(ctx, c.Pages, s.Coverage, it.Path); err != nil {
					return s, err
				} else if out {
					continue
				}
			}
			edits = append(edits, trees.Edit{Path: it.Path, New: e})
		case rollback.Restore, rollback.Delete:
			if made {
				e = it.New
			}
			// A directory that goes, or becomes a file, holds nothing but what the
			// plan knows.
			edits = append(edits, trees.Edit{Path: it.Path, New: e, Bare: it.New == nil || !it.New.Mode.IsDir()})
		}
	}
	id, err := trees.Patch(ctx, c.Pages, c.Writer, s.Tree, addMade(edits, c.Plan, made))
	return store.State{Tree: id, Coverage: s.Coverage}, err
}

// addMade adds to edits, which are of paths of a plan, the directories that no
// item of it restores: as they are made, or that they are not there yet. edits is in
// order of path.
func addMade(edits []trees.Edit, plan *livedir.Plan, made bool) []trees.Edit {
	known := edits
	for _, d := range plan.Made {
		e := trees.Edit{Path: d.Path}
		if made {
			e.New = &tree.Entry{Name: path.Base(d.Path), Mode: d.Mode, ID: trees.Empty}
		}
		i, ok := slices.BinarySearchFunc(known, d.Path, func(of trees.Edit, path string) int {
			return trees.ComparePaths(of.Path, path)
		})
		if ok {
			known[i] = e
		} else {
			edits = append(edits, e)
		}
	}
	return edits
}
