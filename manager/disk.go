package manager

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// Disk finds out what is in the directory now and stores nothing. The Getter
// knows the trees of the result and all that the store holds.
func (m *FileSnapshotManager) Disk(ctx context.Context, opts *tree.CaptureOptions) (*tree.Result, tree.Getter, error) {
	overlay := tree.NewOverlay(m.store)
	r, err := m.engine.capture(ctx, m.tree, overlay, opts)
	return r, overlay, err
}

// DiskContent returns the content of a file, or the target of a link, that Disk
// has seen. The error matches [ErrStale] if it is another by now.
func (m *FileSnapshotManager) DiskContent(path string, e *tree.Entry) ([]byte, error) {
	b, err := readBelow(m.project.Root, path, e)
	if err == nil && store.Hash(store.Blob, b) != e.ID {
		return nil, fmt.Errorf("%q: %w it was looked at", path, ErrStale)
	}
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	return b, nil
}

// readBelow goes down one name at a time, so that no symbolic link that came
// meanwhile leads it astray.
func readBelow(root, path string, e *tree.Entry) ([]byte, error) {
	dir, err := vfs.OpenDir(root)
	if err != nil {
		return nil, err
	}
	defer func() { dir.Close() }()
	for {
		name, rest, ok := strings.Cut(path, "/")
		if !ok {
			break
		}
		next, err := dir.OpenDir(name)
		if err != nil {
			return nil, err
		}
		dir.Close()
		dir, path = next, rest
	}
	if e.Mode.IsSymlink() {
		target, err := dir.Readlink(path)
		return []byte(target), err
	}
	f, err := dir.Open(path, nil)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, e.Size+1)) // one more: a file that has grown shows
}
