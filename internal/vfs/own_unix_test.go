//go:build unix

package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenOwn: what others may have put in the place of a file is neither read nor
// written, by either way to open one.
func TestOpenOwn(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(path("file"), []byte("one"), 0o600), os.Symlink("file", path("link")),
		os.Symlink("none", path("dangling")),
		os.Mkdir(path("dir"), 0o700), unix.Mkfifo(path("fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if b, err := ReadOwn(path("file")); err != nil || string(b) != "one" {
		t.Errorf("ReadOwn: %q, %v", b, err)
	}
	for _, name := range []string{"link", "dangling", "dir", "fifo"} {
		if _, err := ReadOwn(path(name)); !errors.Is(err, ErrNotRegular) {
			t.Errorf("ReadOwn(%s): %v, want %v", name, err, ErrNotRegular)
		}
		if _, err := OS(dir).OpenFile(name, os.O_RDONLY, 0); !errors.Is(err, ErrNotRegular) {
			t.Errorf("OpenFile(%s): %v, want %v", name, err, ErrNotRegular)
		}
	}
	for _, name := range []string{"link", "dangling"} {
		if _, err := OpenOwn(path(name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); !errors.Is(err, ErrNotRegular) {
			t.Errorf("OpenOwn(%s) to append: %v, want %v", name, err, ErrNotRegular)
		}
		if _, err := OS(dir).OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600); !errors.Is(err, ErrNotRegular) {
			t.Errorf("OpenFile(%s) to write: %v, want %v", name, err, ErrNotRegular)
		}
	}
	if _, err := os.Lstat(path("none")); err == nil {
		t.Error("a file was made where a link leads")
	}
}

// TestForeign: a file of another user is refused by name, but root may read all.
func TestForeign(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: to give files to another user takes root")
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	if err := errors.Join(os.WriteFile(name, []byte("one"), 0o666), os.Chown(name, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, err error) {
		t.Helper()
		foreign, ok := errors.AsType[*ForeignError](err)
		if !ok || foreign.Owner != 65534 || foreign.Self != 0 {
			t.Errorf("%s: %v, want a ForeignError", what, err)
		}
	}
	_, err := ReadOwn(name)
	refused("ReadOwn", err)
	_, err = OS(dir).OpenFile("file", os.O_RDWR, 0)
	refused("OpenFile to write", err)
	f, err := OS(dir).OpenFile("file", os.O_RDONLY, 0)
	if err != nil {
		t.Fatalf("OpenFile to read, as root: %v", err)
	}
	f.Close()
}

// TestRealPathDeep: a path that is longer than the system takes costs no more than one that
// is not. Each level that is given up was looked up from the root once: that took minutes.
func TestRealPathDeep(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(root+"/real", 0o700), os.Symlink("real", root+"/link")); err != nil {
		t.Fatal(err)
	}
	const levels = 5000
	fd, err := unix.Open(root+"/real", unix.O_RDONLY, 0)
	for i := 0; err == nil && i < levels; i++ {
		var next int
		if err = unix.Mkdirat(fd, "d", 0o700); err == nil {
			next, err = unix.Openat(fd, "d", unix.O_RDONLY, 0)
		}
		unix.Close(fd)
		fd = next
	}
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	below := strings.Repeat("/d", levels) + "/f"
	if got := RealPath(root + "/link" + below); got != root+"/real"+below {
		t.Errorf("RealPath returns %d bytes that begin with %q, want those of %q", len(got), got[:len(root)+9],
			root+"/real/d")
	}
}
