package audit

import (
	"context"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
)

// A lister is a visitor that lists something of what trees hold. It remembers the
// list of each tree, with paths relative to that, so that a tree costs one look
// however many others share it.
type lister[T any] struct {
	blob func(ctx context.Context, p *place) ([]T, error) // what there is to list of a file or link
	bad  func(p *place, err error) ([]T, error)           // and of a directory that cannot be read to its end
	in   func(dir string, one T) T                        // what is listed in dir, as the directory above lists it

	known map[store.ID][]T
	lists [][]T // of the directories above that are being visited; the first is of all
}

// list returns what there is to list of what walk has the lister visit, by directory.
func (l *lister[T]) list(walk func(visitor) error) ([]T, error) {
	l.lists = [][]T{nil}
	err := walk(l)
	return l.lists[0], err
}

func (l *lister[T]) enter(ctx context.Context, p *place) (goOn bool, err error) {
	if p.isBlob() {
		list, err := l.blob(ctx, p)
		l.add(p, list)
		return false, err
	}
	if list, ok := l.known[p.id]; ok {
		l.add(p, list)
		return false, nil
	}
	l.lists = append(l.lists, nil)
	return true, nil
}

func (l *lister[T]) lost(p *place, err error) error {
	list, err := l.bad(p, err)
	top := &l.lists[len(l.lists)-1]
	*top = append(*top, list...)
	return err
}

func (l *lister[T]) leave(p *place) {
	list := l.lists[len(l.lists)-1]
	l.lists = l.lists[:len(l.lists)-1]
	l.known[p.id] = list
	l.add(p, list)
}

// add adds what is listed of a place to the directory above.
func (l *lister[T]) add(p *place, list []T) {
	top := &l.lists[len(l.lists)-1]
	for _, one := range list {
		if p.name != "" { // else it is the top
			one = l.in(p.name, one)
		}
		*top = append(*top, one)
	}
}

// below returns the path of what is listed of a place, under the place's name: "" is
// the place itself.
func below(name, path string) string {
	if path == "" {
		return name
	}
	return trees.Join(name, path)
}
