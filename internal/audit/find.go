package audit

import (
	"context"
	"errors"
	"io/fs"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
)

// A Finder finds contents in trees. It reads a directory once, however many trees
// share it, and passes over what is missing or damaged. It is for one goroutine.
type Finder struct {
	g     trees.Getter
	files lister[trees.WalkEntry]
}

// NewFinder returns a Finder for some blobs, or for all if ids is nil.
func NewFinder(g trees.Getter, ids map[store.ID]bool) *Finder {
	return &Finder{g, lister[trees.WalkEntry]{
		known: make(map[store.ID][]trees.WalkEntry),
		blob: func(_ context.Context, p *place) ([]trees.WalkEntry, error) {
			if ids != nil && !ids[p.id] {
				return nil, nil
			}
			return []trees.WalkEntry{{Entry: p.item.Entry()}}, nil
		},
		bad: func(_ *place, err error) ([]trees.WalkEntry, error) {
			if trees.IsLoss(err) {
				err = nil
			}
			return nil, err
		},
		in: inDir,
	}}
}

// Find returns the files and links below a tree that have one of the blobs, in
// order of path. The caller must not change the list.
func (f *Finder) Find(ctx context.Context, id store.ID) ([]trees.WalkEntry, error) {
	if list, ok := f.files.known[id]; ok {
		return list, nil
	}
	return f.files.list(func(v visitor) error { return walk(ctx, f.g, store.State{Tree: id}, byDirectory, v) })
}

// inDir is an entry as the directory above it has it.
func inDir(dir string, w trees.WalkEntry) trees.WalkEntry {
	return trees.WalkEntry{Path: below(dir, w.Path), Entry: w.Entry}
}

// At returns the file or link at a path below a tree, or all below a directory,
// with paths from the tree; none if there is nothing.
func (f *Finder) At(ctx context.Context, id store.ID, path string) ([]trees.WalkEntry, error) {
	e, err := trees.Lookup(ctx, f.g, id, path)
	if errors.Is(err, fs.ErrNotExist) || trees.IsLoss(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !e.Mode.IsDir() {
		return []trees.WalkEntry{{Path: path, Entry: e}}, nil
	}
	below, err := f.Find(ctx, e.ID)
	list := make([]trees.WalkEntry, len(below))
	for i, w := range below {
		list[i] = inDir(path, w)
	}
	return list, err
}
