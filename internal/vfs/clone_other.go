//go:build !linux

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// ShareContent gives a file that is being written, and is empty, the content of another without copying it: both
// have the same blocks until one is changed. Where the file system cannot, the error matches errors.ErrUnsupported.
func ShareContent(Writer, Reader) error { return errors.ErrUnsupported }

// SyncAll makes durable all that was written into the files of a directory.
func SyncAll(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.OpenFile(name, os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(ignoreUnsupported(f.Sync()), f.Close())
	})
}

// ignoreUnsupported drops the error of a file that is open for reading alone, and so cannot be synced on Windows.
func ignoreUnsupported(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
