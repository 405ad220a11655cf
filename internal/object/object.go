// Package object has what the packages below the manager know of an object of the
// store: its kind, how that is hashed, and where damage lies.
package object

import (
	"fmt"
	"slices"
	"sync"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/store"
)

// A Kind says what an object is to its users, and with that how it is
// hashed. The store itself does not look inside.
type Kind uint8

const (
	Blob     Kind = 1 // the content of a file, or the target of a symbolic link
	Tree     Kind = 3 // one page of a directory; 2 is the list form of a blob on disk
	Coverage Kind = 4 // one page of what a capture left out
)

func (k Kind) String() string {
	switch k {
	case Blob:
		return "blob"
	case Tree:
		return "tree"
	case Coverage:
		return "coverage"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Contexts of derive-key mode: hard-coded, globally unique, application
// specific, as the BLAKE3 paper (§2.3) asks. They are part of the format.
const (
	treeContext     = "github.com/boocode/filestore 2026-11-21 tree v1"
	coverageContext = "github.com/boocode/filestore 2026-11-21 coverage v1"
)

// hashers keep the state of each mode, since a hasher is some 10 kB and
// deriving a key costs a compression.
var (
	wholeHashers    = sync.Pool{New: func() any { return blake3.New() }}
	treeHashers     = sync.Pool{New: func() any { return blake3.NewDeriveKey(treeContext) }}
	coverageHashers = sync.Pool{New: func() any { return blake3.NewDeriveKey(coverageContext) }}
)

func hashersOf(k Kind) *sync.Pool {
	switch k {
	case Tree:
		return &treeHashers
	case Coverage:
		return &coverageHashers
	}
	return &wholeHashers
}

// Hash returns the ID that content of this kind has.
func Hash(k Kind, content []byte) store.ID {
	pool := hashersOf(k)
	h := pool.Get().(*blake3.Hasher)
	h.Reset()
	h.Write(content)
	var id store.ID
	h.Sum(id[:0])
	pool.Put(h)
	return id
}

// A CorruptError locates damage in a file of the store. It matches [store.ErrCorrupt].
type CorruptError struct {
	Path string // file, relative to the store
	Off  int64  // offset of the damaged structure in the file
	Err  error  // what is wrong with it
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s at offset %d: %v", e.Path, e.Off, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Is reports that the error is store.ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == store.ErrCorrupt }

// States returns all states that a snapshot keeps, newest first; none if it was
// pruned.
func States(s *store.Snapshot) []store.State {
	if s.Pruned {
		return nil
	}
	list := []store.State{s.State()}
	for _, also := range slices.Backward(s.Also) {
		list = append(list, also)
	}
	if !s.Base.IsZero() {
		list = append(list, s.Base)
	}
	return list
}
