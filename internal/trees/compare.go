package trees

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/boocode/filestore/internal/similar"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// Compare yields what became of the paths from one state to another, in order
// of path. Unlike [Diff] it tells what came or went on the disk from what only
// a rule or a limit let in or kept out. Each pair is a difference and nil, or a
// zero one and the error that ends the sequence.
func Compare(ctx context.Context, g Getter, old, new store.State) iter.Seq2[tree.Difference, error] {
	return func(yield func(tree.Difference, error) bool) {
		before, after := newLeftOut(g, old.Coverage), newLeftOut(g, new.Coverage)
		for c, err := range Diff(ctx, g, old.Tree, new.Tree) {
			if err != nil {
				yield(tree.Difference{}, err)
				return
			}
			for _, d := range differences(c) {
				if err := classify(ctx, &d, before, after); err != nil {
					yield(tree.Difference{}, err)
					return
				}
				if !yield(d, nil) {
					return
				}
			}
		}
	}
}

// CompareAt yields what [Compare] says of one path, at the cost of looking it
// up in both states.
func CompareAt(ctx context.Context, g Getter, old, new store.State, path string) iter.Seq2[tree.Difference, error] {
	return func(yield func(tree.Difference, error) bool) {
		c := Change{Path: path}
		var err error
		if c.Old, err = EntryAt(ctx, g, old.Tree, path); err == nil {
			c.New, err = EntryAt(ctx, g, new.Tree, path)
		}
		if err != nil {
			yield(tree.Difference{}, err)
			return
		}
		if c.Old == nil && c.New == nil {
			return
		}
		if c.Old != nil && c.New != nil && c.Old.Mode == c.New.Mode && (c.Old.ID == c.New.ID || c.Old.Mode.IsDir()) {
			return
		}
		before, after := newLeftOut(g, old.Coverage), newLeftOut(g, new.Coverage)
		for _, d := range differences(c) {
			err := classify(ctx, &d, before, after)
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// differences returns what to say of one change: nothing, one difference, or
// for a directory that replaces something or is replaced, up to two.
func differences(c Change) []tree.Difference {
	if c.Old != nil && c.New != nil && c.Old.Mode.IsDir() == c.New.Mode.IsDir() {
		s := tree.Modified
		if c.Old.Mode.Kind() != c.New.Mode.Kind() {
			s = tree.Retyped
		}
		return []tree.Difference{{Status: s, Path: c.Path, Old: c.Old, New: c.New}}
	}
	var list []tree.Difference
	if c.Old != nil && isShown(c.Old) {
		list = append(list, tree.Difference{Status: tree.Deleted, Path: c.Path, Old: c.Old})
	}
	if c.New != nil && isShown(c.New) {
		list = append(list, tree.Difference{Status: tree.Added, Path: c.Path, New: c.New})
	}
	return list
}

// isShown reports whether an entry that comes or goes is a difference of its
// own.
func isShown(e *tree.Entry) bool { return !e.Mode.IsDir() || e.ID == Empty }

func classify(ctx context.Context, d *tree.Difference, before, after *leftOut) error {
	without, with, status := before, after, tree.Captured // the sides on which it is not, and is
	switch d.Status {
	case tree.Added:
	case tree.Deleted:
		without, with, status = after, before, tree.Uncaptured
	default:
		return nil
	}
	why, err := without.why(ctx, d.Path)
	if why == Sparse && err == nil {
		// Git has it taken out on both sides: who put it there, or deleted
		// it, was not git.
		var still Reason
		if still, err = with.why(ctx, d.Path); still == Sparse {
			why = 0
		}
	}
	if why != 0 && err == nil {
		d.Status = status
	}
	return err
}

// IsOmitted reports whether a path, or a directory above it, was there and was
// left out. It reads what the directories above it leave out, and no more.
func IsOmitted(ctx context.Context, g Getter, coverage store.ID, path string) (bool, error) {
	why, err := WhyOmitted(ctx, g, coverage, path)
	return why != 0 && why != Sparse, err
}

// WhyOmitted returns why a path, or a directory above it, was left out; 0: it
// was not. With [Sparse] git had taken it out, or all around it: it was not there,
// unless the tree has it.
func WhyOmitted(ctx context.Context, g Getter, coverage store.ID, path string) (Reason, error) {
	return newLeftOut(g, coverage).why(ctx, path)
}

// leftOut looks up what was left out of a state. Paths of one directory after
// each other cost little.
type leftOut struct {
	r    PageReader
	root store.ID // zero: nothing was left out

	dir string   // of the path that was looked up last
	id  store.ID // what was left out in dir; zero: nothing
	out Reason   // why dir was left out, or one above it; 0: it was not
}

func newLeftOut(g Getter, coverage store.ID) *leftOut {
	r := CoverageReader(g)
	if r.known == nil { // many paths are in one directory
		r.known = NewPages(nil)
	}
	return &leftOut{r: r, root: coverage, id: coverage}
}

// why returns why a path, or a directory above it, was left out; 0: it was not. A
// path with a socket or device in its place counts as gone.
func (o *leftOut) why(ctx context.Context, path string) (Reason, error) {
	dir, name := Split(path)
	if dir != o.dir {
		if err := o.enter(ctx, dir); err != nil {
			return 0, err
		}
	}
	it, err := o.find(ctx, name)
	switch {
	case err != nil:
		return 0, err
	case it == nil || it.reason() == 0:
		return o.out, nil
	case it.reason() == NotFile:
		return 0, nil
	}
	return it.reason(), nil
}

// enter finds what was left out in a directory.
func (o *leftOut) enter(ctx context.Context, dir string) error {
	o.dir, o.id, o.out = dir, o.root, 0
	if dir == "" {
		return nil
	}
	for name := range strings.SplitSeq(dir, "/") {
		it, err := o.find(ctx, name)
		if err != nil {
			o.dir, o.id = "", o.root
			return err
		}
		o.id = store.ID{}
		if it == nil {
			return nil
		}
		o.id = it.ID
		if it.reason() != 0 && it.kind() == vfs.Directory {
			o.out = it.reason()
		}
	}
	return nil
}

// find returns what coverage says of a name in the directory, nil for nothing.
func (o *leftOut) find(ctx context.Context, name string) (*Item, error) {
	if o.id.IsZero() {
		return nil, nil
	}
	it, ok, err := o.r.find(ctx, o.id, name)
	if err != nil || !ok {
		return nil, err
	}
	return &it, nil
}

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
