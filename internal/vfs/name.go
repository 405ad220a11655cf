package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// CheckName returns an error unless name is one component of a path: what the
// system would take for a path, or for the directory itself, leads elsewhere.
func CheckName(op, name string) error {
	if name == "" || name == "." || name == ".." ||
		strings.IndexByte(name, '/') >= 0 ||
		strings.IndexByte(name, 0) >= 0 {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if os.PathSeparator != '/' && strings.IndexByte(name, os.PathSeparator) >= 0 {
		return &fs.PathError{Op: op, Path: name, Err: errSeparator}
	}
	return nil
}

// errSeparator is of a name that elsewhere a file may have.
var errSeparator = fmt.Errorf("%w: it has a separator: %w", ErrImpossible, fs.ErrInvalid)

// RealPath resolves the symbolic links in the directories above a path, as far
// as they exist, and as the system takes a path of that length.
func RealPath(p string) string {
	dir, rest := filepath.Dir(p), filepath.Base(p)
	const longest = 4095 // Linux's PATH_MAX, without the NUL; elsewhere it is less
	if i := strings.LastIndexByte(dir[:min(len(dir), longest)], filepath.Separator); len(dir) > longest && i > 0 {
		// At once: each of thousands of tries looks at all levels.
		dir, rest = dir[:i], filepath.Join(dir[i+1:], rest)
	}
	for {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		up := filepath.Dir(dir)
		if up == dir {
			return p
		}
		dir, rest = up, filepath.Join(filepath.Base(dir), rest)
	}
}

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
