package store

import (
	"encoding/hex"
	"fmt"
)

// An ID names an object by the BLAKE3-256 hash of its content. IDs are plain
// values: compare them with ==, use them as map keys. The zero ID names no
// object.
//
// The ID of a blob is the plain hash of its bytes, the one that b3sum prints.
// Trees and coverage are hashed in BLAKE3's derive-key mode, so that no file
// content can pose as one of them.
type ID [32]byte

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
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (id *ID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseID(string(b))
	return err
}
