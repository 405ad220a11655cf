package vfs

import (
	"errors"
	"io"
	"strings"
	"syscall"
)

// OpenBelow opens the file at a slash-separated path below a directory, or what the
// link there holds. It goes down one name at a time and never through a link.
func OpenBelow(dir Dir, path string) (io.ReadCloser, error) {
	if name, rest, ok := strings.Cut(path, "/"); ok {
		sub, err := dir.OpenDir(name)
		if err != nil {
			return nil, err
		}
		defer sub.Close()
		return OpenBelow(sub, rest)
	}
	f, err := dir.Open(path, nil)
	if !errors.Is(err, ErrNotRegular) {
		return f, err
	}
	target, lerr := dir.Readlink(path)
	if errors.Is(lerr, syscall.EINVAL) { // nor is it a link
		return nil, err
	}
	return io.NopCloser(strings.NewReader(target)), lerr
}
