package vfs

import (
	"io/fs"
	"os"
	"strings"
)

// CheckName returns an error unless name is one component of a path: what the
// system would take for a path, or for the directory itself, leads elsewhere.
func CheckName(op, name string) error {
	if name == "" || name == "." || name == ".." ||
		strings.IndexByte(name, '/') >= 0 ||
		strings.IndexByte(name, 0) >= 0 ||
		os.PathSeparator != '/' && strings.IndexByte(name, os.PathSeparator) >= 0 {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return nil
}
