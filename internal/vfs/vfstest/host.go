package vfstest

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/boocode/filestore/internal/vfs"
)

// HasLinks reports whether this process can make symbolic links: on Windows not every user can.
var HasLinks = sync.OnceValue(func() bool {
	dir, err := os.MkdirTemp("", "links")
	if err != nil {
		return false
	}
	defer os.RemoveAll(dir)
	link := filepath.Join(dir, "link")
	if os.Symlink("nowhere", link) != nil {
		return false
	}
	_, err = os.Readlink(link)
	return err == nil // Wine says that it has made one, and has not
})

// NeedLinks skips a test that has nothing to say where this process cannot make symbolic links.
func NeedLinks(t testing.TB) {
	t.Helper()
	if !HasLinks() {
		t.Skip("this user of this system can make no symbolic links")
	}
}

// NeedRename skips a test of what a system can do only that renames between two directories in
// this way.
func NeedRename(t testing.TB, mode vfs.RenameMode) {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "sub"), 0o755),
		os.WriteFile(filepath.Join(dir, "a"), nil, 0o644),
		os.WriteFile(filepath.Join(dir, "sub/b"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	from, err := vfs.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := from.OpenDir("sub")
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	newname := "b"
	if mode == vfs.NoReplace {
		newname = "c"
	}
	if err = from.Rename("a", to, newname, mode); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("the system cannot rename so between two directories")
	} else if err != nil {
		t.Fatal(err)
	}
}
