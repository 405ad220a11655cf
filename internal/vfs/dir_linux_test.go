package vfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/boocode/filestore/internal/vfs"
)

func TestLstatAllocs(t *testing.T) {
	d := mustOpen(t, vfs.OpenDir, t.TempDir())
	write(t, d, "file", "hello")
	var st vfs.Stat
	allocs := testing.AllocsPerRun(100, func() {
		if err := d.Lstat("file", &st); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("Lstat allocates %v times", allocs)
	}
	// Open allocates the Reader that it returns.
	allocs = testing.AllocsPerRun(100, func() {
		r, err := d.Open("file", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
	})
	if allocs > 1 {
		t.Errorf("Open allocates %v times", allocs)
	}
}

func TestDirClosed(t *testing.T) {
	d, err := vfs.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	// The system gives the descriptor to the next that opens, which no method
	// may reach.
	mustOpen(t, vfs.OpenDir, t.TempDir())
	calls := namedCalls(d, "file")
	calls["Stat"] = d.Stat(new(vfs.Stat))
	calls["ReadNames"] = d.ReadNames(func([]byte, vfs.Kind) {})
	calls["Chmod"] = d.Chmod(0o700)
	calls["Sync"] = d.Sync()
	calls["Close"] = d.Close()
	for call, err := range calls {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s of a closed Dir: %v, want %v", call, err, fs.ErrClosed)
		}
	}
}

func BenchmarkLstat(b *testing.B) {
	path := b.TempDir()
	if err := os.WriteFile(filepath.Join(path, "file.go"), nil, 0o600); err != nil {
		b.Fatal(err)
	}
	d := mustOpen(b, vfs.OpenDir, path)
	var st vfs.Stat
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Lstat("file.go", &st); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadNames(b *testing.B) {
	const files = 1000
	path := b.TempDir()
	for i := range files {
		if err := os.WriteFile(filepath.Join(path, fmt.Sprintf("file-%d.go", i)), nil, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	d := mustOpen(b, vfs.OpenDir, path)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		if err := d.ReadNames(func([]byte, vfs.Kind) { n++ }); err != nil || n != files {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*files), "ns/name")
}

// TestInherit checks that a file takes over what another has beside its
// content, permission bits and privileges.
func TestInherit(t *testing.T) {
	path := t.TempDir()
	d := mustOpen(t, vfs.OpenDir, path)
	write(t, d, "old", "x")
	old := filepath.Join(path, "old")
	if err := os.Link(old, filepath.Join(path, "second")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(old, "user.comment", []byte("kept"), 0); err != nil {
		t.Skip("no extended attributes here:", err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(old, 1234, 1235); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Chmod(old, 0o4750); err != nil {
		t.Fatal(err)
	}
	r, err := d.Open("old", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w, err := d.Create("new", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	names, privileged, err := w.Inherit(r)
	if err := errors.Join(err, w.Chmod(0o711), w.Close()); err != nil || names != 2 || !privileged {
		t.Errorf("%d names, %v, %v; want 2, with privileges", names, privileged, err)
	}
	var was, is unix.Stat_t
	if err := errors.Join(unix.Stat(old, &was), unix.Stat(filepath.Join(path, "new"), &is)); err != nil {
		t.Fatal(err)
	}
	if is.Mode != unix.S_IFREG|0o711 || is.Uid != was.Uid || is.Gid != was.Gid {
		t.Errorf("mode %o, owner %d:%d; want 711, %d:%d", is.Mode, is.Uid, is.Gid, was.Uid, was.Gid)
	}
	value := make([]byte, 100)
	n, err := unix.Getxattr(filepath.Join(path, "new"), "user.comment", value)
	if err != nil || string(value[:n]) != "kept" {
		t.Errorf("attribute is %q, %v", value[:max(n, 0)], err)
	}
}

// TestInheritNoCapabilities checks that a file does not get what the content of another was
// trusted with.
func TestInheritNoCapabilities(t *testing.T) {
	path := t.TempDir()
	d := mustOpen(t, vfs.OpenDir, path)
	write(t, d, "old", "trusted")
	// CAP_NET_RAW, permitted and effective, in version 2.
	value := []byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	if err := unix.Setxattr(filepath.Join(path, "old"), "security.capability", value, 0); err != nil {
		t.Skip("no capabilities of files here:", err)
	}
	r, err := d.Open("old", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w, err := d.Create("new", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, privileged, err := w.Inherit(r)
	if err := errors.Join(err, w.Close()); err != nil || !privileged {
		t.Errorf("privileged is %v, %v", privileged, err)
	}
	if n, err := unix.Getxattr(filepath.Join(path, "new"), "security.capability", value); err != unix.ENODATA {
		t.Errorf("the new file has capabilities: %d bytes, %v", n, err)
	}
}

// TestIsPrivate checks that a directory in which others can make names, or that is theirs, is told.
func TestIsPrivate(t *testing.T) {
	top := t.TempDir()
	path := filepath.Join(top, "dir")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	d := mustOpen(t, vfs.OpenDir, path)
	check := func(what string, want bool) {
		t.Helper()
		if is, err := d.IsPrivate(); is != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", what, is, err, want)
		}
	}
	check("0700", true)
	for _, mode := range []uint32{0o710, 0o720, 0o701, 0o702, 0o1777} {
		if err := unix.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprintf("%o", mode), false)
	}
	if err := unix.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Chown(path, 1234, -1) == nil {
		check("of another user", false)
	}
}
