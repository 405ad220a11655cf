package vfs

import (
	"errors"
	"io/fs"
)

// ReplaceFile gives the file tmp the name of another, if there is one, by Exchange
// where that can be: then tmp is the other file afterwards.
func ReplaceFile(fsys FS, tmp, name string) error {
	err := fsys.Exchange(tmp, name)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrNotExist) {
		err = fsys.Rename(tmp, name)
	}
	return err
}
