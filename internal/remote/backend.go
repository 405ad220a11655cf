// Package remote is what is asked of a place far away that keeps objects: a bucket on S3, or
// a directory that several machines reach. [Backend] has six methods; whoever can do them
// atomically is good enough, which [Probe] finds out. [Sure] asks again where an answer was
// lost, and knows what it did.
//
// It does not know what is in the objects. docs/reference/format-remote.md §2 has their keys.
// A Backend may be used from several goroutines; many processes on many machines may use what
// it stands for.
package remote

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
)

var (
	// ErrExists: there is an object with that key already.
	ErrExists = errors.New("exists already")
	// ErrNoKey: there is no object with that key.
	ErrNoKey = errors.New("not there")
	// ErrRefused: whoever keeps the objects says no, and would say so again: to who asks, to
	// the bucket, or for want of space. Any other error leaves open whether it was done.
	ErrRefused = errors.New("refused")
)

// MaxObject bounds an object: a longer one is not read. Entries and packs are far below it.
const MaxObject = 1 << 30

// A Backend keeps objects under keys. See [CheckKey] for what may be one.
//
// What has returned nil is durable, and everybody sees it from then on. Errors match
// [ErrExists], [ErrNoKey] or [ErrRefused]; after any other it is not known what was done.
type Backend interface {
	// Create makes an object, whole or not at all. Of several who create one key, one is the
	// first; the others get an error that matches ErrExists.
	Create(ctx context.Context, key string, data []byte) error
	// Overwrite makes an object, or puts another into its place.
	Overwrite(ctx context.Context, key string, data []byte) error
	// Get returns n bytes of an object from an offset on, fewer at its end; all if n is
	// negative. The slice is the caller's. It refuses more than MaxObject.
	Get(ctx context.Context, key string, off, n int64) ([]byte, error)
	// Stat returns the length of an object.
	Stat(ctx context.Context, key string) (int64, error)
	// List yields the objects whose keys begin with a prefix, in the order of the bytes of
	// their keys, from behind one. Each pair is an item and nil, or the zero Item and the
	// error that ends the sequence.
	List(ctx context.Context, prefix, after string) iter.Seq2[Item, error]
	// Delete removes an object. That it is not there is no error.
	Delete(ctx context.Context, key string) error
}

// An Item is an object in a list.
type Item struct {
	Key  string
	Size int64
}

// maxKeyPart bounds each part of a key: so long a name may be on all file systems.
const maxKeyPart = 200

// CheckKey returns an error if a text is no key: parts of 1 to 200 letters, digits and ._-
// with slashes between them, of which none begins with a dot.
func CheckKey(key string) error {
	for part := range strings.SplitSeq(key, "/") {
		if part == "" || len(part) > maxKeyPart || part[0] == '.' {
			return fmt.Errorf("%w: key %q", ErrRefused, key)
		}
		for _, c := range []byte(part) {
			switch {
			case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
			default:
				return fmt.Errorf("%w: key %q", ErrRefused, key)
			}
		}
	}
	return nil
}

// IsUnsure reports whether an error of a [Backend] leaves open whether it was done.
func IsUnsure(err error) bool {
	return err != nil && !errors.Is(err, ErrExists) && !errors.Is(err, ErrNoKey) && !errors.Is(err, ErrRefused)
}
