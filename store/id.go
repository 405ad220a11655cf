package store

import (
	"encoding/hex"
	"fmt"
	"sync"

	"github.com/zeebo/blake3"
)

// An ID names an object by the BLAKE3-256 hash of its content. IDs are plain
// values: compare them with ==, use them as map keys. The zero ID names no
// object.
//
// The ID of a blob is the plain hash of its bytes, the one that b3sum prints.
// Trees and coverage are hashed in BLAKE3's derive-key mode, so that no file
// content can pose as one of them.
type ID [32]byte

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
func Hash(k Kind, content []byte) ID {
	pool := hashersOf(k)
	h := pool.Get().(*blake3.Hasher)
	h.Reset()
	h.Write(content)
	var id ID
	h.Sum(id[:0])
	pool.Put(h)
	return id
}

// ParseID parses 64 hex digits of either case; [ID.String] writes lower case.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != hex.EncodedLen(len(id)) {
		return ID{}, fmt.Errorf("object ID %q: want %d hex digits, have %d", s, hex.EncodedLen(len(id)), len(s))
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return ID{}, fmt.Errorf("object ID %q: %w", s, err)
	}
	return id, nil
}

// String returns the 64 hex digits of id.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Short returns the first 12 hex digits of id, for people.
func (id ID) Short() string { return hex.EncodeToString(id[:6]) }

// IsZero reports whether id is the zero ID.
func (id ID) IsZero() bool { return id == ID{} }

// MarshalText writes the 64 hex digits of id.
func (id ID) MarshalText() ([]byte, error) { return id.AppendText(nil) }

// AppendText appends the 64 hex digits of id to b.
func (id ID) AppendText(b []byte) ([]byte, error) { return hex.AppendEncode(b, id[:]), nil }

// UnmarshalText reads what MarshalText writes.
func (id *ID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseID(string(b))
	return err
}
