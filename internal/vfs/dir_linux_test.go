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
// content and permission bits.
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
	names, err := w.Inherit(r)
	if err := errors.Join(err, w.Chmod(0o711), w.Close()); err != nil || names != 2 {
		t.Errorf("%d names, %v; want 2", names, err)
	}
	var was, is unix.Stat_t
	if err := errors.Join(unix.Stat(old, &was), unix.Stat(filepath.Join(path, "new"), &is)); err != nil {
		t.Fatal(err)
	}
	if is.Mode != unix.S_IFREG|0o4711 || is.Uid != was.Uid || is.Gid != was.Gid {
		t.Errorf("mode %o, owner %d:%d; want 4711, %d:%d", is.Mode, is.Uid, is.Gid, was.Uid, was.Gid)
	}
	value := make([]byte, 100)
	n, err := unix.Getxattr(filepath.Join(path, "new"), "user.comment", value)
	if err != nil || string(value[:n]) != "kept" {
		t.Errorf("attribute is %q, %v", value[:max(n, 0)], err)
	}
}
