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

// NeedGone skips a test of what is deleted while it is open, where its name stays until it is
// closed.
func NeedGone(t testing.TB) {
	t.Helper()
	fsys := vfs.OS(t.TempDir())
	f, err := fsys.OpenFile("f", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := fsys.Remove("f"); err != nil {
		t.Fatal(err)
	}
	if names, err := fsys.ReadDir("."); err != nil {
		t.Fatal(err)
	} else if len(names) > 0 {
		t.Skip("what is open stays in its directory when it is deleted")
	}
}

// NeedCase skips a test of names that differ in case alone where the disk has no two such.
func NeedCase(t testing.TB) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "A")); err == nil {
		t.Skip("a name is found in any case here")
	}
}

// NeedRespelling skips a test of names that get another spelling, where the system says that
// they have got it, and leaves them as they are.
func NeedRespelling(t testing.TB) {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "a"), nil, 0o644),
		os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "A"))); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if names[0].Name() != "A" {
		t.Skip("a name does not get other capitals here")
	}
}

// KeepsPerm reports whether the system keeps these permission bits of a file.
func KeepsPerm(perm uint16) bool { return vfs.KeptPerm(vfs.Regular, perm) == perm }

// NeedPerm skips a test of permission bits that the system does not keep.
func NeedPerm(t testing.TB, perm uint16) {
	t.Helper()
	if !KeepsPerm(perm) {
		t.Skipf("a file does not keep the permission bits %o here", perm)
	}
}
