package tree

import (
	"context"
	"errors"
	"iter"

	"github.com/boocode/filestore/store"
)

// IsLoss reports whether an error of reading trees or blobs means that the store
// has lost something, not that it could not be looked at.
func IsLoss(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) || errors.Is(err, errPage)
}

// A place is where a walk of what a state needs stands: at a page of a directory
// or of a directory's coverage, or at the content of a file or link.
type place struct {
	kind store.Kind // of the object; Blob: of a file or link, whose chunks are not places
	id   store.ID
	dir  string // path of the directory it is in, and
	name string // its name there; "": the directory itself, or a page of it
	item *item  // that led here; nil: none, it is the top of a tree or coverage

	r     *pageReader // of the page; nil: it is a blob
	root  store.ID    // of the page: of its directory
	level int         // of the page that led here, if that is one of the same directory; 0: this is the root
}

// reach returns the places where a walk of a state begins: its tree, even if
// that is zero, and its coverage, if it has any.
func reach(g Getter, state store.State) []place {
	r := trees(g)
	tops := []place{{kind: r.kind, id: state.Tree, r: &r, root: state.Tree}}
	if !state.Coverage.IsZero() {
		r := coverages(g)
		tops = append(tops, place{kind: r.kind, id: state.Coverage, r: &r, root: state.Coverage})
	}
	return tops
}

// path returns the path of the file or directory that the place is of.
func (p *place) path() string {
	if p.name == "" {
		return p.dir
	}
	return join(p.dir, p.name)
}

// isBlob reports whether the place is the content of a file or link.
func (p *place) isBlob() bool { return p.r == nil }

// isPart reports whether the place is a page of a directory, but not its root.
func (p *place) isPart() bool { return p.level > 0 }

// to makes p the place to which an item of a page of from leads, and reports
// whether there is one. level is that of the page, dir the path of its directory.
func (p *place) to(from *place, it *item, level int, dir string) bool {
	*p = place{kind: from.kind, id: it.id, dir: dir, item: it, r: from.r, root: it.id}
	if level > 0 {
		p.root, p.level = from.root, level
		return true
	}
	p.name = it.name
	if p.kind == store.Coverage {
		return !it.id.IsZero() // zero: nothing is said of what is in it
	}
	if !Mode(it.attr).IsDir() {
		p.kind, p.r = store.Blob, nil
	}
	return true
}

// pages yields what one page leads to: pages of the same directory, and the
// roots of directories and the blobs that are in it. Each pair is a place, valid
// until the next, and nil; or nil and the error of reading the page, which is all
// then.
func (p *place) pages(ctx context.Context) iter.Seq2[*place, error] {
	return func(yield func(*place, error) bool) {
		var above *item
		if p.isPart() {
			above = p.item
		}
		level, items, err := p.r.page(ctx, p.id, above, p.level)
		if err != nil {
			yield(nil, err)
			return
		}
		next, dir := new(place), p.path()
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
		next, it, dir := new(place), new(item), p.path()
		for one, err := range p.r.items(ctx, p.id) {
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
