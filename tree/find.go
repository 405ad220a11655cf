package tree

import (
	"context"
	"errors"
	"io/fs"

	"github.com/boocode/filestore/store"
)

// A Finder finds contents in trees. What several trees share is read once. What
// is missing or damaged has none. It is for one goroutine.
type Finder struct {
	g     Getter
	want  map[store.ID]bool // nil: all
	known map[store.ID][]WalkEntry
}

// NewFinder returns a Finder for some blobs, or for all if ids is nil.
func NewFinder(g Getter, ids map[store.ID]bool) *Finder {
	return &Finder{g: g, want: ids, known: make(map[store.ID][]WalkEntry)}
}

// Find returns the files and links below a tree that have one of the blobs, in
// order of path. The caller must not change the list.
func (f *Finder) Find(ctx context.Context, id store.ID) ([]WalkEntry, error) {
	if list, ok := f.known[id]; ok {
		return list, nil
	}
	var list []WalkEntry
	for e, err := range Entries(ctx, f.g, id) {
		if IsLoss(err) {
			break
		}
		if err != nil {
			return nil, err
		}
		if !e.Mode.IsDir() {
			if f.want == nil || f.want[e.ID] {
				list = append(list, WalkEntry{e.Name, e})
			}
			continue
		}
		below, err := f.Find(ctx, e.ID)
		if err != nil {
			return nil, err
		}
		for _, w := range below {
			list = append(list, WalkEntry{join(e.Name, w.Path), w.Entry})
		}
	}
	f.known[id] = list
	return list, nil
}

// At returns the file or link at a path below a tree, or all below a directory,
// with paths from the tree; none if there is nothing.
func (f *Finder) At(ctx context.Context, id store.ID, path string) ([]WalkEntry, error) {
	e, err := Lookup(ctx, f.g, id, path)
	if errors.Is(err, fs.ErrNotExist) || IsLoss(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !e.Mode.IsDir() {
		return []WalkEntry{{path, e}}, nil
	}
	below, err := f.Find(ctx, e.ID)
	if path == "" {
		return below, err
	}
	list := make([]WalkEntry, len(below))
	for i, w := range below {
		list[i] = WalkEntry{join(path, w.Path), w.Entry}
	}
	return list, err
}
