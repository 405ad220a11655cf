package cas

import (
	"errors"
	"fmt"

	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/store"
)

// Live is a set of objects that are to stay.
type Live struct {
	s      *Store
	seen   map[[pack.PrefixSize]byte]bool // and whether a pack that has it was seen
	forget map[store.ID]bool              // these are not taken up
}

// Add takes up an object, and reports whether it is new.
func (l *Live) Add(id store.ID) bool {
	prefix := [pack.PrefixSize]byte(id[:])
	if _, ok := l.seen[prefix]; ok || l.forget[id] {
		return false
	}
	l.seen[prefix] = false
	return true
}

// AddBlob takes up a file's content of some length, with its chunks. The error
// matches [ErrNotFound] if it is missing.
func (l *Live) AddBlob(id store.ID, size int64) error {
	if !l.Add(id) {
		return nil
	}
	if size < int64(pack.MinChunked) {
		if there, err := l.s.Has(id); there || err != nil {
			return err
		}
	}
	o, err := l.s.Stored(object.Blob, id) // which looks again at what others have stored since
	if errors.Is(err, store.ErrForgotten) {
		return nil
	}
	for _, chunk := range o.Chunks {
		if err := l.addChunk(id, chunk); err != nil {
			return err
		}
	}
	return err
}

// addChunk takes up a chunk of a blob.
func (l *Live) addChunk(id, chunk store.ID) error {
	if l.forget[chunk] {
		return fmt.Errorf("blob %s is a part of %s, which stays: forget that, too", chunk.Short(), id)
	}
	l.Add(chunk)
	return nil
}

func (l *Live) has(id store.ID) bool {
	_, ok := l.seen[[pack.PrefixSize]byte(id[:])]
	return ok
}
