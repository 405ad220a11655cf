package filediff

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/tree"
)

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
