package manager

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// madeBy returns the directories that a plan makes for what it puts into them, in
// order of path.
func madeBy(plan *rollback.Plan) (paths []string) {
	for _, made := range plan.Made {
		paths = append(paths, made.Path)
	}
	for _, it := range plan.Items {
		if it.Parent && it.Do == rollback.Restore && it.Now == nil {
			paths = append(paths, it.Path)
		}
	}
	slices.SortFunc(paths, tree.ComparePaths)
	return paths
}

// editMade adds to edits, which are of paths of a plan, the directories that no
// item of it restores: as they are made, or that they are not there yet.
func editMade(edits []tree.Edit, plan *rollback.Plan, made bool) []tree.Edit {
	if len(plan.Made) == 0 {
		return edits
	}
	at := make(map[string]int)
	for i, e := range edits {
		at[e.Path] = i
	}
	for _, d := range plan.Made {
		e := tree.Edit{Path: d.Path}
		if made {
			e.New = &tree.Entry{Name: path.Base(d.Path), Mode: d.Mode, ID: tree.Empty}
		}
		if i, ok := at[d.Path]; ok {
			edits[i] = e
		} else {
			edits = append(edits, e)
		}
	}
	return edits
}

// withParents adds to what leads to a tree the directories above that the tree
// has: those that somebody has removed are made as they were.
func (m *FileSnapshotManager) withParents(ctx context.Context, wants []rollback.Want, to store.ID) ([]rollback.Want, error) {
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
			e, err := tree.Lookup(ctx, m.tree.pages, to, up)
			if errors.Is(err, fs.ErrNotExist) || err == nil && !e.Mode.IsDir() {
				break
			}
			if err != nil {
				return nil, err
			}
			all = append(all, rollback.Want{Path: up, New: &e, Parent: true})
		}
	}
	return all, nil
}
