package trees

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A Change is a path at which two trees differ.
type Change struct {
	Path string
	Old  *tree.Entry // nil: the path is new
	New  *tree.Entry // nil: the path is gone
}

// Diff yields where two trees differ, in order of path, a directory before
// what it holds. A directory is a change of its own if it is on one side
// only or its mode differs; what it holds follows in either case. Equal
// subtrees, and equal pages of large directories, are not read, so the cost
// follows the difference. A zero ID stands for no tree at all.
//
// Each pair is a change and nil, or a zero Change and the error that ends
// the sequence.
func Diff(ctx context.Context, g Getter, old, new store.ID) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		d := differ{ctx: ctx, r: TreeReader(g), yield: yield}
		d.dirs("", old, new)
	}
}

type differ struct {
	ctx   context.Context
	r     PageReader
	yield func(Change, error) bool
}

// dirs compares two directories, either of which may be absent. Like the
// other methods it reports whether to go on.
func (d *differ) dirs(path string, old, new store.ID) bool {
	if old == new {
		return true
	}
	if err := CheckDir(path); err != nil {
		d.yield(Change{}, err)
		return false
	}
	a, b := d.side(old), d.side(new)
	for {
		aok, err := a.load(d.ctx)
		if err != nil {
			return d.fail(path, err)
		}
		bok, err := b.load(d.ctx)
		if err != nil {
			return d.fail(path, err)
		}
		if !aok && !bok {
			return true
		}
		if !d.step(path, a, b, aok, bok) {
			return false
		}
	}
}

// side returns a cursor over a directory, at its end if there is none.
func (d *differ) side(id store.ID) *cursor {
	c := newCursor(d.r, id)
	c.begun = id.IsZero()
	return c
}

// step compares what the cursors stand on, entries or pages, and moves them.
func (d *differ) step(path string, a, b *cursor, aok, bok bool) bool {
	switch {
	case !aok:
		return d.one(path, b, false)
	case !bok:
		return d.one(path, a, true)
	}
	x, y := a.item(), b.item()
	if a.level() == b.level() && x.Name == y.Name && x.ID == y.ID && x.Attr == y.Attr && x.Size == y.Size {
		a.next()
		b.next()
		return true
	}
	// The entry with the lesser name is on one side only. A page is another matter:
	// behind its first name it may have the one that the other side stands on.
	switch order := strings.Compare(x.Name, y.Name); {
	case order < 0 && a.level() == 0:
		return d.one(path, a, true)
	case order > 0 && b.level() == 0:
		return d.one(path, b, false)
	case a.level() > b.level() || a.level() > 0 && order < 0:
		a.descend()
		return true
	case b.level() > a.level() || b.level() > 0 && order > 0:
		b.descend()
		return true
	case a.level() > 0:
		a.descend()
		b.descend()
		return true
	}
	old, new := x.Entry(), y.Entry()
	a.next()
	b.next()
	return d.both(Join(path, old.Name), &old, &new)
}

// one handles an item that is on one side only.
func (d *differ) one(path string, c *cursor, isOld bool) bool {
	if c.level() > 0 {
		c.descend()
		return true
	}
	e := c.item().Entry()
	c.next()
	if isOld {
		return d.both(Join(path, e.Name), &e, nil)
	}
	return d.both(Join(path, e.Name), nil, &e)
}

// both reports the change at one path, and then those below it.
func (d *differ) both(path string, old, new *tree.Entry) bool {
	var oldDir, newDir store.ID
	if old != nil && old.Mode.IsDir() {
		oldDir = old.ID
	}
	if new != nil && new.Mode.IsDir() {
		newDir = new.ID
	}
	sameDir := !oldDir.IsZero() && !newDir.IsZero() && old.Mode == new.Mode
	if !sameDir && !d.yield(Change{path, old, new}, nil) {
		return false
	}
	return d.dirs(path, oldDir, newDir)
}

func (d *differ) fail(path string, err error) bool {
	d.yield(Change{}, fmt.Errorf("directory %q: %w", cmp.Or(path, "."), err))
	return false
}

// ModeOf returns that of the side of a difference that is there, the new one if both are.
func ModeOf(d *tree.Difference) tree.Mode { return cmp.Or(d.New, d.Old).Mode }
