package tree

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"strings"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// A Status says what became of a path. Its value is the letter that people
// see.
type Status byte

const (
	Added      Status = 'A'
	Modified   Status = 'M' // content or permission bits
	Retyped    Status = 'T' // from file to link or back
	Deleted    Status = 'D'
	Captured   Status = 'a' // was there before, but left out; or git has put it there, which had taken it out
	Uncaptured Status = 'd' // still there, but left out now; or git has taken it out
)

// String returns the status as a word; Retyped is "modified", too.
func (s Status) String() string {
	switch s {
	case Added:
		return "added"
	case Modified, Retyped:
		return "modified"
	case Deleted:
		return "deleted"
	case Captured:
		return "captured"
	case Uncaptured:
		return "uncaptured"
	}
	return "unknown"
}

// A Difference is a path that is not the same in two states. A directory is
// one only if its permission bits differ or if it comes or goes empty: what a
// directory holds speaks for it.
type Difference struct {
	Status   Status
	Path     string
	Old, New *Entry // nil: absent
}

// Mode returns that of the side that is there, the new one if both are.
func (d *Difference) Mode() Mode {
	if d.New != nil {
		return d.New.Mode
	}
	return d.Old.Mode
}

// Compare yields what became of the paths from one state to another, in order
// of path. Unlike [Diff] it tells what came or went on the disk from what only
// a rule or a limit let in or kept out. Each pair is a difference and nil, or a
// zero one and the error that ends the sequence.
func Compare(ctx context.Context, g Getter, old, new store.State) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		before, after := newLeftOut(g, old.Coverage), newLeftOut(g, new.Coverage)
		for c, err := range Diff(ctx, g, old.Tree, new.Tree) {
			if err != nil {
				yield(Difference{}, err)
				return
			}
			for _, d := range differences(c) {
				if err := d.classify(ctx, before, after); err != nil {
					yield(Difference{}, err)
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
func CompareAt(ctx context.Context, g Getter, old, new store.State, path string) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		c := Change{Path: path}
		var err error
		if c.Old, err = lookup(ctx, g, old.Tree, path); err == nil {
			c.New, err = lookup(ctx, g, new.Tree, path)
		}
		if err != nil {
			yield(Difference{}, err)
			return
		}
		if c.Old == nil && c.New == nil || c.Old != nil && c.New != nil && c.Old.Mode == c.New.Mode && (c.Old.ID == c.New.ID || c.Old.Mode.IsDir()) {
			return
		}
		before, after := newLeftOut(g, old.Coverage), newLeftOut(g, new.Coverage)
		for _, d := range differences(c) {
			err := d.classify(ctx, before, after)
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// lookup is Lookup that returns nil where there is nothing.
func lookup(ctx context.Context, g Getter, root store.ID, path string) (*Entry, error) {
	e, err := Lookup(ctx, g, root, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &e, err
}

// differences returns what to say of one change: nothing, one difference, or
// for a directory that replaces something or is replaced, up to two.
func differences(c Change) []Difference {
	if c.Old != nil && c.New != nil && c.Old.Mode.IsDir() == c.New.Mode.IsDir() {
		s := Modified
		if c.Old.Mode.Kind() != c.New.Mode.Kind() {
			s = Retyped
		}
		return []Difference{{s, c.Path, c.Old, c.New}}
	}
	var list []Difference
	if c.Old != nil && isShown(c.Old) {
		list = append(list, Difference{Deleted, c.Path, c.Old, nil})
	}
	if c.New != nil && isShown(c.New) {
		list = append(list, Difference{Added, c.Path, nil, c.New})
	}
	return list
}

// isShown reports whether an entry that comes or goes is a difference of its
// own.
func isShown(e *Entry) bool { return !e.Mode.IsDir() || e.ID == Empty }

func (d *Difference) classify(ctx context.Context, before, after *leftOut) error {
	without, with, status := before, after, Captured // the sides on which it is not, and is
	switch d.Status {
	case Added:
	case Deleted:
		without, with, status = after, before, Uncaptured
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
	r    pageReader
	root store.ID // zero: nothing was left out

	dir string   // of the path that was looked up last
	id  store.ID // what was left out in dir; zero: nothing
	out Reason   // why dir was left out, or one above it; 0: it was not
}

func newLeftOut(g Getter, coverage store.ID) *leftOut {
	r := coverages(g)
	if r.known == nil { // many paths are in one directory
		r.known = NewPages(nil)
	}
	return &leftOut{r: r, root: coverage, id: coverage}
}

// why returns why a path, or a directory above it, was left out; 0: it was not.
// What is no file now is gone as one.
func (o *leftOut) why(ctx context.Context, path string) (Reason, error) {
	dir, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir, name = path[:i], path[i+1:]
	}
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
		o.id = it.id
		if it.reason() != 0 && vfs.Kind(it.attr>>8) == vfs.Directory {
			o.out = it.reason()
		}
	}
	return nil
}

// find returns what coverage says of a name in the directory, nil for nothing.
func (o *leftOut) find(ctx context.Context, name string) (*item, error) {
	if o.id.IsZero() {
		return nil, nil
	}
	it, ok, err := o.r.find(ctx, o.id, name)
	if err != nil || !ok {
		return nil, err
	}
	return &it, nil
}
