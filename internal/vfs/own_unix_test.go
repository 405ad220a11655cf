//go:build unix

package vfs

import (
	"errors"
	"os"
	"path/filepath"
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
