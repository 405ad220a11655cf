// Package filediff compares what a file holds in two states of a directory: its lines
// are counted and shown, unless it is too large for that, or was forgotten.
package filediff

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/textdiff"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// MaxText is above which size, in bytes, a file counts as binary: its lines are
// not compared, and its content is not returned.
const MaxText = 10 << 20

// A Reader returns the content of a file, or the target of a link.
type Reader func(ctx context.Context, path string, e *tree.Entry) ([]byte, error)

// InStore reads what the store holds.
func InStore(g interface {
	Get(ctx context.Context, kind object.Kind, id store.ID) ([]byte, error)
}) Reader {
	return func(ctx context.Context, _ string, e *tree.Entry) ([]byte, error) {
		return g.Get(ctx, object.Blob, e.ID)
	}
}

// File returns a file or a link as package textdiff takes it, an absent one for nil and
// for a directory. Where it is too large, or was forgotten, its hash stands for its
// content.
func File(ctx context.Context, read Reader, path string, e *tree.Entry) (textdiff.File, error) {
	if e == nil || e.Mode.IsDir() {
		return textdiff.File{}, nil
	}
	f := textdiff.File{Name: path, Mode: GitMode(e.Mode)}
	err := store.ErrForgotten
	if e.Size <= MaxText {
		f.Content, err = read(ctx, path, e)
	}
	if errors.Is(err, store.ErrForgotten) {
		f.Content, f.Opaque, err = e.ID[:], true, nil
	}
	return f, err
}

// Files returns both sides of a difference. The old one was at from.
func Files(ctx context.Context, readOld, readNew Reader, from string, c *tree.Difference) (
	old, new textdiff.File, err error) {
	if old, err = File(ctx, readOld, from, c.Old); err == nil {
		new, err = File(ctx, readNew, c.Path, c.New)
	}
	return old, new, err
}

// A Stat counts the lines of a difference.
type Stat struct {
	Added, Deleted int
	Binary         bool // no text, too large for one, or forgotten: nothing was counted
}

// Count counts the lines by which two files differ.
func Count(old, new textdiff.File) (s Stat) {
	if s.Binary = old.Opaque || new.Opaque; !s.Binary {
		s.Added, s.Deleted, s.Binary = textdiff.Stat(old.Content, new.Content)
	}
	return s
}

// GitMode returns a mode as git writes it: there, links have no permission bits.
func GitMode(m tree.Mode) uint32 {
	if m.Kind() == tree.ModeSymlink {
		m = tree.ModeSymlink
	}
	return uint32(m)
}

// ErrStale: a file is not what it was when it was looked at.
var ErrStale = errors.New("changed since")

// OnDisk reads what a capture has seen in a directory. The error matches [ErrStale] if
// it is another by now.
func OnDisk(root string) Reader {
	return func(_ context.Context, path string, e *tree.Entry) ([]byte, error) {
		b, err := readBelow(root, path, e.Size)
		if err == nil && object.Hash(object.Blob, b) != e.ID {
			return nil, fmt.Errorf("%q: %w it was looked at", path, ErrStale)
		}
		if err != nil {
			return nil, fmt.Errorf("read %q: %w", path, err)
		}
		return b, nil
	}
}

// readBelow returns the content of a file of a size or a link, or one byte more of a
// file that has grown.
func readBelow(root, path string, size int64) ([]byte, error) {
	dir, err := vfs.OpenDir(root)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, err := vfs.OpenBelow(dir, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, size+1))
}
