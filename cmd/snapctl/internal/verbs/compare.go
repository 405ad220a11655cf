package verbs

import (
	"cmp"
	"context"
	"iter"

	"github.com/boocode/filestore/internal/filediff"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/tree"
)

// A Comparison is how two states of a directory differ, or what a turn did, with what
// files hold before and after.
type Comparison struct {
	Old, New Side
	Trees    trees.Getter      // of both sides; it has all that the store holds, too
	Turn     *manager.TurnDiff // its changes are what is compared; nil: the two sides

	root string
}

// A Side is one of the two.
type Side struct {
	*manager.Point
	OnDisk bool // its files are in the directory, and Point has the state that a capture has seen there
}

// NewComparison returns one for a directory's manager, of which the sides are not known yet.
func NewComparison(m *manager.FileSnapshotManager) *Comparison {
	return &Comparison{Trees: inside.Store(m), root: m.Project().Root}
}

// Changes yields what differs, in order of path. It yields a change and nil, or no
// change and the error that ends it.
func (c *Comparison) Changes(ctx context.Context) iter.Seq2[manager.TurnChange, error] {
	return func(yield func(manager.TurnChange, error) bool) {
		if c.Turn != nil {
			for _, change := range c.Turn.Changes {
				if !yield(change, nil) {
					return
				}
			}
			return
		}
		for d, err := range trees.Compare(ctx, c.Trees, c.Old.State, c.New.State) {
			if !yield(manager.TurnChange{Difference: d}, err) {
				return
			}
		}
	}
}

// Files returns both sides of a change of a file that was at from, "" if it was not
// moved. The error matches [manager.ErrStale] if a file in the directory has changed
// since it was captured.
func (c *Comparison) Files(ctx context.Context, from string, d *tree.Difference) (old, new textdiff.File, err error) {
	return filediff.Files(ctx, c.reader(&c.Old), c.reader(&c.New), cmp.Or(from, d.Path), d)
}

// Content returns what one side of a change holds, d.Old or d.New.
func (c *Comparison) Content(ctx context.Context, d *tree.Difference, side *tree.Entry) ([]byte, error) {
	if side == d.Old {
		return c.reader(&c.Old)(ctx, d.Path, side)
	}
	return c.reader(&c.New)(ctx, d.Path, side)
}

func (c *Comparison) reader(s *Side) filediff.Reader {
	if s.OnDisk {
		return filediff.OnDisk(c.root)
	}
	return filediff.InStore(c.Trees)
}
