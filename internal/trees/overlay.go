package trees

import (
	"context"
	"io"
	"sync"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/store"
)

// An Overlay is a [Sink] that stores nothing: it hashes what it is given and
// keeps the trees in memory. So a capture into it tells what is on the disk
// now, at the cost of what has changed.
//
// Its Get finds the trees that it was given, and everything else in the
// store below.
type Overlay struct {
	base Base

	mu    sync.Mutex // guards pages
	pages map[store.ID][]byte
}

// A Base is what an [Overlay] lies over. [*cas.Store] is one.
type Base interface {
	Getter
	Has(id store.ID) (bool, error)
}

// NewOverlay returns an empty overlay over a store.
func NewOverlay(base Base) *Overlay {
	return &Overlay{base: base, pages: make(map[store.ID][]byte)}
}

// Put keeps a tree in memory; of a blob it only tells the ID.
func (o *Overlay) Put(kind object.Kind, content []byte) (store.ID, error) {
	id := object.Hash(kind, content)
	if kind != object.Blob {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.pages[id] = append([]byte(nil), content...)
	}
	return id, nil
}

// PutReader tells the ID of a blob.
func (o *Overlay) PutReader(r io.Reader) (store.ID, int64, error) { return HashBlob(r) }

// HashBlob returns the ID and the length of all that r gives, as a blob.
func HashBlob(r io.Reader) (id store.ID, n int64, err error) {
	h := blake3.New()
	n, err = io.Copy(h, r)
	h.Sum(id[:0])
	return id, n, err
}

// HasAll reports whether an object is in memory or in the store; which chunks of a content are there matters to
// who stores it.
func (o *Overlay) HasAll(id store.ID, _ int64) (bool, error) {
	o.mu.Lock()
	_, ok := o.pages[id]
	o.mu.Unlock()
	if ok {
		return true, nil
	}
	return o.base.Has(id)
}

// Get returns a tree from memory, or any object from the store.
func (o *Overlay) Get(ctx context.Context, kind object.Kind, id store.ID) ([]byte, error) {
	o.mu.Lock()
	page, ok := o.pages[id]
	o.mu.Unlock()
	if ok {
		return page, nil
	}
	return o.base.Get(ctx, kind, id)
}
