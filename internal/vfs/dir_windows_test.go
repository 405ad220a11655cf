package vfs_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/boocode/filestore/internal/vfs"
)

// testDirUnix checks what needs links, fifos and permission bits.
func testDirUnix(*testing.T, dirOpener) {}

// What no file can be called is not there.
func TestNoName(t *testing.T) {
	d, err := vfs.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	_, derr := d.OpenDir("*")
	_, ferr := d.Open("*.nope", nil)
	for i, err := range []error{d.Lstat("*.nope", new(vfs.Stat)), derr, ferr, d.Lstat("a:b", new(vfs.Stat)),
		d.Lstat("a\xff", new(vfs.Stat))} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// What the system takes for the name of another file does not become that file.
func TestOtherName(t *testing.T) {
	d, err := vfs.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	write := func(name, content string) error {
		w, err := d.Create(name, 0o600)
		if err != nil {
			return err
		}
		_, err = io.WriteString(w, content)
		return errors.Join(err, w.Close())
	}
	for _, name := range []string{"a", "a\ufffd", "new"} {
		if err := write(name, name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a.", "a ", "a:b", "a\xff", "a\x01"} {
		for op, err := range map[string]error{"create": write(name, "other"), "mkdir": d.Mkdir(name, 0o755),
			"rename": d.Rename("new", d, name, vfs.Replace), "remove": d.Remove(name)} {
			if err == nil {
				t.Errorf("%s %q: nil, want an error", op, name)
			}
		}
	}
	if err := d.Lstat("a.", new(vfs.Stat)); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("lstat: %v, want an error that does not say that nothing is there", err)
	}
	var names []string
	err = d.ReadNames(func(name []byte, _ vfs.Kind) { names = append(names, string(name)) })
	if slices.Sort(names); err != nil || !slices.Equal(names, []string{"a", "a\ufffd", "new"}) {
		t.Errorf("names %q, %v", names, err)
	}
}

// A read-only file is replaced, and deleted, as on any other system.
func TestReplaceReadOnly(t *testing.T) {
	dir := t.TempDir()
	d, err := vfs.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for name, perm := range map[string]fs.FileMode{"old": 0o444, "new": 0o444} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), perm); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Rename("new", d, "old", vfs.Replace); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "old")); err != nil || string(b) != "new" {
		t.Errorf("it holds %q, %v", b, err)
	}
	if err := d.Remove("old"); err != nil {
		t.Error(err)
	}
}
