package audit

import (
	"context"
	"fmt"
	"iter"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A place is where a walk of all that a state needs stands: at a page of a directory
// or of a directory's coverage, or at the content of a file or link.
type place struct {
	kind object.Kind // of the object; Blob: of a file or link, whose chunks are not places
	id   store.ID
	dir  string      // path of the directory it is in, and
	name string      // its name there; "": the directory itself, or a page of it
	item *trees.Item // that led here; nil: none, it is the top of a tree or coverage

	r     *trees.PageReader // of the page; nil: it is a blob
	root  store.ID          // of the page: of its directory
	level int               // of the page that led here, if that is one of the same directory; 0: this is the root
}

// A visitor is told where a walk comes by. What it finds out below a place it
// keeps on a stack of its own: enter puts it there, leave takes it.
type visitor interface {
	// enter is told of every place, and says whether to go on to what it leads to. A
	// blob leads to nothing.
	enter(ctx context.Context, p *place) (goOn bool, err error)
	// lost is told why it cannot be read to what a place leads, or the rest of it.
	// With nil the walk goes on beside the place.
	lost(p *place, err error) error
	// leave is told of a place that was entered, after all that it leads to.
	leave(p *place)
}

// A way is how a walk goes on from a place.
type way func(*place, context.Context) iter.Seq2[*place, error]

// Marking and counting need each page; checking needs to see a directory as a whole,
// of which the pages must be in order.
var (
	byPage      way = (*place).pages
	byDirectory way = (*place).entries
)

// walk visits all that a state needs: its tree, even if that is zero, and its
// coverage, if it has any.
func walk(ctx context.Context, g trees.Getter, state store.State, by way, v visitor) error {
	if err := topOf(trees.TreeReader(g), state.Tree).visit(ctx, by, v); err != nil || state.Coverage.IsZero() {
		return err
	}
	return topOf(trees.CoverageReader(g), state.Coverage).visit(ctx, by, v)
}

// walkSnapshot visits all that a snapshot needs: its states, and its note.
func walkSnapshot(ctx context.Context, g trees.Getter, snap *store.Snapshot, by way, v visitor) error {
	for _, state := range object.States(snap) {
		if err := walk(ctx, g, state, by, v); err != nil {
			return err
		}
	}
	if snap.Pruned || snap.Note.IsZero() {
		return nil
	}
	return noteOf(snap).visit(ctx, by, v)
}

// noteOf returns the place of a snapshot's note.
func noteOf(snap *store.Snapshot) *place {
	return &place{kind: object.Blob, id: snap.Note, root: snap.Note, item: new(trees.Item)}
}

// isNote reports whether the place is a snapshot's note, which is at no path.
func (p *place) isNote() bool { return p.isBlob() && p.name == "" }

// said is an error of reading what is at the place, as people are told it.
func (p *place) said(err error) error {
	if err != nil && p.isNote() {
		return fmt.Errorf("what its turn was for: %w", err)
	}
	return err
}

// topOf returns the place where the walk of a tree or coverage begins.
func topOf(r trees.PageReader, id store.ID) *place {
	return &place{kind: r.Kind, id: id, r: &r, root: id}
}

// visit visits a place and all that it leads to.
func (p *place) visit(ctx context.Context, by way, v visitor) error {
	goOn, err := v.enter(ctx, p)
	if goOn && err == nil {
		err = p.visitBelow(ctx, by, v)
	}
	return err
}

// visitBelow is a function of its own because a loop over a way allocates: blobs, of
// which there are most, do without.
func (p *place) visitBelow(ctx context.Context, by way, v visitor) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for next, err := range by(p, ctx) {
		if err != nil {
			if err := v.lost(p, err); err != nil {
				return err
			}
			break
		}
		if err := next.visit(ctx, by, v); err != nil {
			return err
		}
	}
	v.leave(p)
	return nil
}

// path returns the path of the file or directory that the place is of.
func (p *place) path() string { return trees.Join(p.dir, p.name) }

// isBlob reports whether the place is the content of a file or link.
func (p *place) isBlob() bool { return p.r == nil }

// size returns the length of the content of a file or link; 0 of any other place.
func (p *place) size() int64 {
	if !p.isBlob() {
		return 0
	}
	return int64(p.item.Size)
}

// isPart reports whether the place is a page of a directory, but not its root.
func (p *place) isPart() bool { return p.level > 0 }

// to makes p the place to which an item leads, and reports whether there is one. The
// item is of a page of from, which has a level; dir is the path of its directory.
func (p *place) to(from *place, it *trees.Item, level int, dir string) bool {
	*p = place{kind: from.kind, id: it.ID, dir: dir, item: it, r: from.r, root: it.ID}
	if level > 0 {
		p.root, p.level = from.root, level
		return true
	}
	p.name = it.Name
	if p.kind == object.Coverage {
		return !it.ID.IsZero() // zero: nothing is said of what is in it
	}
	if !tree.Mode(it.Attr).IsDir() {
		p.kind, p.r = object.Blob, nil
	}
	return true
}

// pages yields what one page leads to: pages of the same directory, and the
// roots of directories and the blobs that are in it. Each pair is a place, valid
// until the next, and nil. If the page cannot be read, the only pair is nil and the
// error.
func (p *place) pages(ctx context.Context) iter.Seq2[*place, error] {
	return func(yield func(*place, error) bool) {
		next, dir := new(place), p.path()
		if err := trees.CheckDir(dir); err != nil {
			yield(nil, err)
			return
		}
		var above *trees.Item
		if p.isPart() {
			above = p.item
		}
		level, items, err := p.r.Page(ctx, p.id, above, p.level)
		if err != nil {
			yield(nil, err)
			return
		}
		for i := range items {
			if next.to(p, &items[i], level, dir) && !yield(next, nil) {
				return
			}
		}
	}
}

// entries yields the directories and blobs that are in the directory of which p
// is the root. Each pair is a place, valid until the next, and nil; or nil and
// the error that ends the sequence.
func (p *place) entries(ctx context.Context) iter.Seq2[*place, error] {
	return func(yield func(*place, error) bool) {
		next, it, dir := new(place), new(trees.Item), p.path()
		if err := trees.CheckDir(dir); err != nil {
			yield(nil, err)
			return
		}
		for one, err := range p.r.Items(ctx, p.id) {
			if err != nil {
				yield(nil, err)
				return
			}
			*it = one
			if next.to(p, it, 0, dir) && !yield(next, nil) {
				return
			}
		}
	}
}
