package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
)

// A ForeignError says that a file is another user's, and neither this one's nor
// root's.
type ForeignError struct {
	Owner, Self int // numbers of users
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("it belongs to user %d, this is user %d", e.Owner, e.Self)
}

// Is reports that the error is fs.ErrPermission.
func (e *ForeignError) Is(target error) bool { return target == fs.ErrPermission }

// OpenOwn opens a regular file of this user, or of root, at a place where others
// may have put one. Where the name is a link, a fifo or the like, the error matches
// [ErrNotRegular]; where the file is another user's, it is a [*ForeignError]. flag
// is as that of os.OpenFile.
func OpenOwn(name string, flag int, perm fs.FileMode) (*os.File, error) {
	f, fi, err := openDirect(name, flag, perm)
	if err != nil {
		return nil, err
	}
	if err := checkOwn(name, fi); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// checkOwn returns an error if a file is another user's.
func checkOwn(name string, fi fs.FileInfo) error {
	if owner, self, ok := Owners(fi); ok && owner != self && owner != 0 {
		return &fs.PathError{Op: "open", Path: name, Err: &ForeignError{owner, self}}
	}
	return nil
}

// ReadOwn returns the content of a file of this user, or of root; see [OpenOwn].
func ReadOwn(name string) ([]byte, error) {
	f, err := OpenOwn(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// openDirect opens a regular file, not following a link.
func openDirect(name string, flag int, perm fs.FileMode) (*os.File, fs.FileInfo, error) {
	f, err := openFile(name, flag|openDirectly, perm)
	if err != nil {
		if isLink(err) {
			if fi, lerr := os.Lstat(name); lerr == nil && fi.Mode().Type() == fs.ModeSymlink {
				err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
			}
		}
		return nil, nil, err
	}
	// A directory opens for reading like a file and fails only later.
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}
