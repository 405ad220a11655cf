package trees

import (
	"errors"

	"github.com/boocode/filestore/internal/similar"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A Rename pairs two of a list of differences: a file that was deleted and one
// that was added.
type Rename struct {
	From, To   int // indexes in the list
	Similarity int // in percent; 100: the same content
}

// Renames finds files that were moved: added ones with the content, or half of
// it, of deleted ones. Files above maxSize are only compared by their IDs. load
// returns the content of one side of a difference. cut says that there were too
// many files to compare all: see [similar.PairRenames].
func Renames(diffs []tree.Difference, maxSize int64, load func(*tree.Difference, *tree.Entry) ([]byte, error)) (
	list []Rename, cut bool, err error,
) {
	candidate := func(d *tree.Difference, e *tree.Entry) similar.Candidate {
		c := similar.Candidate{Name: d.Path, ID: e.ID.String(), Mode: uint32(e.Mode), Size: e.Size}
		if e.Size <= maxSize {
			c.Load = func() ([]byte, error) {
				content, err := load(d, e)
				if errors.Is(err, store.ErrForgotten) { // it is like nothing else
					return nil, nil
				}
				return content, err
			}
		}
		return c
	}
	var removed, added []similar.Candidate
	var from, to []int
	for i := range diffs {
		d := &diffs[i]
		switch {
		case d.Status == 0 || ModeOf(d).IsDir():
		case d.Status == tree.Deleted:
			removed, from = append(removed, candidate(d, d.Old)), append(from, i)
		case d.Status == tree.Added:
			added, to = append(added, candidate(d, d.New)), append(to, i)
		}
	}
	pairs, cut, err := similar.PairRenames(removed, added, nil)
	for _, p := range pairs {
		list = append(list, Rename{from[p.Removed], to[p.Added], p.Similarity})
	}
	return list, cut, err
}
