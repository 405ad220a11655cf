package vfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

// A dirOpener is OpenDir or another maker of Dirs that keeps its contract.
type dirOpener func(path string) (vfs.Dir, error)

func TestDir(t *testing.T)     { testDir(t, vfs.OpenDir) }
func TestRootDir(t *testing.T) { testDir(t, vfs.OpenRootDir) }

// TestFaultDir checks that a fault that never fires is not noticed.
func TestFaultDir(t *testing.T) {
	testDir(t, func(path string) (vfs.Dir, error) {
		d, err := vfs.OpenDir(path)
		if err != nil {
			return nil, err
		}
		return vfstest.WithFaultDir(d, &vfstest.Fault{At: -1}), nil
	})
}

// testDir checks the contract of Dir.
func testDir(t *testing.T, open dirOpener) {
	t.Run("ReadWrite", func(t *testing.T) { testDirReadWrite(t, open) })
	t.Run("ReadNames", func(t *testing.T) { testDirReadNames(t, open) })
	t.Run("Lstat", func(t *testing.T) { testDirLstat(t, open) })
	t.Run("BadNames", func(t *testing.T) { testDirBadNames(t, open) })
	t.Run("Missing", func(t *testing.T) { testDirMissing(t, open) })
	t.Run("Rename", func(t *testing.T) { testDirRename(t, open) })
	t.Run("Remove", func(t *testing.T) { testDirRemove(t, open) })
	testDirUnix(t, open)
}

// mustOpen opens the directory at path for the time of the test.
func mustOpen(t testing.TB, open dirOpener, path string) vfs.Dir {
	t.Helper()
	d, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// listing returns what ReadNames calls its function with, sorted.
func listing(t testing.TB, d vfs.Dir) []string {
	t.Helper()
	var names []string
	err := d.ReadNames(func(name []byte, kind vfs.Kind) {
		names = append(names, fmt.Sprintf("%q %d", name, kind))
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// readAll returns the content that d has under name.
func readAll(t *testing.T, d vfs.Dir, name string) string {
	t.Helper()
	r, err := d.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// write creates a file.
func write(t *testing.T, d vfs.Dir, name, content string) {
	t.Helper()
	w, err := d.Create(name, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.WriteString(w, content)
	if n != len(content) {
		t.Errorf("Write(%d bytes) = %d", len(content), n)
	}
	if err := errors.Join(err, w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
}

func testDirReadWrite(t *testing.T, open dirOpener) {
	d := mustOpen(t, open, t.TempDir())
	if err := d.Mkdir("sub", 0o755); err != nil {
		t.Fatal(err)
	}
	sub, err := d.OpenDir("sub")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	write(t, sub, "file", "hello")
	if err := errors.Join(sub.Sync(), d.Sync()); err != nil {
		t.Error(err)
	}
	if got := readAll(t, sub, "file"); got != "hello" {
		t.Errorf("content = %q, want %q", got, "hello")
	}

	if _, err := sub.Create("file", 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create of a file that exists: %v", err)
	}
	if err := d.Mkdir("sub", 0o755); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Mkdir of a directory that exists: %v", err)
	}
	if _, err := d.Open("sub", nil); !errors.Is(err, vfs.ErrNotRegular) {
		t.Errorf("Open of a directory: %v", err)
	}
	if _, err := sub.OpenDir("file"); err == nil {
		t.Error("OpenDir of a file succeeded")
	}
}

func testDirReadNames(t *testing.T, open dirOpener) {
	path := t.TempDir()
	var want []string
	for i := range 1100 { // more than one buffer of each kind
		name := fmt.Sprintf("file-%04d%s", i, strings.Repeat("-", 30))
		if err := os.WriteFile(filepath.Join(path, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("%q %d", name, vfs.Regular))
	}
	if err := os.Mkdir(filepath.Join(path, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	want = append(want, fmt.Sprintf("%q %d", "sub", vfs.Directory))

	d := mustOpen(t, open, path)
	for range 2 { // each listing starts at the beginning
		if diff := cmp.Diff(want, listing(t, d)); diff != "" {
			t.Errorf("ReadNames (-want +got):\n%s", diff)
		}
	}
	if got := listing(t, mustOpen(t, open, t.TempDir())); got != nil {
		t.Errorf("ReadNames of an empty directory: %q", got)
	}
}

func testDirLstat(t *testing.T, open dirOpener) {
	path := t.TempDir()
	file := filepath.Join(path, "file")
	if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Lstat(file)
	if err != nil {
		t.Fatal(err)
	}
	want := vfs.StatOf(fi)
	if want.Size != 5 || want.Mtime == 0 || want.Ctime == 0 || want.Kind != vfs.Regular {
		t.Errorf("statOf a file of 5 bytes = %+v", want)
	}

	d := mustOpen(t, open, path)
	var got vfs.Stat
	if err := d.Lstat("file", &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Lstat (-want +got):\n%s", diff)
	}
	got = vfs.Stat{}
	r, err := d.Open("file", &got)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Open (-want +got):\n%s", diff)
	}
	got = vfs.Stat{}
	if err := r.Stat(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Stat of the Reader (-want +got):\n%s", diff)
	}

	if fi, err = os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	if err := d.Stat(&got); err != nil {
		t.Fatal(err)
	}
	want = vfs.StatOf(fi)
	if want.Ino == 0 { // only the directory itself may tell it
		got.Ino = 0
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Stat of the Dir (-want +got):\n%s", diff)
	}
}

// namedCalls calls every method that takes a name.
func namedCalls(d vfs.Dir, name string) map[string]error {
	calls := make(map[string]error)
	calls["Lstat"] = d.Lstat(name, new(vfs.Stat))
	_, calls["OpenDir"] = d.OpenDir(name)
	_, calls["Open"] = d.Open(name, nil)
	_, calls["Readlink"] = d.Readlink(name)
	calls["Mkdir"] = d.Mkdir(name, 0o700)
	_, calls["Create"] = d.Create(name, 0o600)
	calls["Symlink"] = d.Symlink("target", name)
	calls["Rename"] = d.Rename(name, d, "other", vfs.Replace)
	calls["Remove"] = d.Remove(name)
	return calls
}

func testDirBadNames(t *testing.T, open dirOpener) {
	path := t.TempDir()
	if err := os.Mkdir(filepath.Join(path, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := mustOpen(t, open, path)
	for _, name := range []string{"", ".", "..", "/", "sub/", "/sub", "sub/x", "../x", "x\x00", "\x00"} {
		for call, err := range namedCalls(d, name) {
			if !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%s(%q): %v, want %v", call, name, err, fs.ErrInvalid)
			}
		}
	}
	if diff := cmp.Diff([]string{`"sub" 2`}, listing(t, d)); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
}

func testDirMissing(t *testing.T, open dirOpener) {
	if _, err := open(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening a missing directory: %v", err)
	}
	d := mustOpen(t, open, t.TempDir())
	calls := map[string]error{"Lstat": d.Lstat("missing", new(vfs.Stat))}
	_, calls["OpenDir"] = d.OpenDir("missing")
	_, calls["Open"] = d.Open("missing", nil)
	_, calls["Readlink"] = d.Readlink("missing")
	for call, err := range calls {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of a missing name: %v", call, err)
		}
	}
}

// testDirRename checks the modes of Rename, as far as a Dir has them.
func testDirRename(t *testing.T, open dirOpener) {
	for _, mode := range []vfs.RenameMode{vfs.Replace, vfs.NoReplace, vfs.Exchange} {
		for _, across := range []bool{false, true} {
			path := t.TempDir()
			if err := os.Mkdir(filepath.Join(path, "sub"), 0o700); err != nil {
				t.Fatal(err)
			}
			d := mustOpen(t, open, path)
			to := d
			if across {
				sub, err := d.OpenDir("sub")
				if err != nil {
					t.Fatal(err)
				}
				defer sub.Close()
				to = sub
			}
			write(t, d, "a", "a")
			write(t, to, "b", "b")
			err := d.Rename("a", to, "b", mode)
			if errors.Is(err, errors.ErrUnsupported) && (across || mode != vfs.Replace) {
				t.Logf("mode %d, across %v: %v", mode, across, err)
				continue
			}
			wantA, wantB := "", "a"
			switch mode {
			case vfs.NoReplace:
				wantA, wantB = "a", "b"
				if !errors.Is(err, fs.ErrExist) {
					t.Errorf("NoReplace of a file: %v, want %v", err, fs.ErrExist)
				}
				if err := d.Rename("a", to, "c", mode); err != nil || readAll(t, to, "c") != "a" {
					t.Errorf("NoReplace of nothing: %v", err)
				}
				wantA = ""
			case vfs.Exchange:
				wantA = "b"
				fallthrough
			default:
				if err != nil {
					t.Fatalf("mode %d, across %v: %v", mode, across, err)
				}
			}
			if got := readAll(t, to, "b"); got != wantB {
				t.Errorf("mode %d, across %v: b holds %q, want %q", mode, across, got, wantB)
			}
			if wantA == "" {
				if err := d.Lstat("a", new(vfs.Stat)); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("mode %d, across %v: a is still there: %v", mode, across, err)
				}
			} else if got := readAll(t, d, "a"); got != wantA {
				t.Errorf("mode %d, across %v: a holds %q, want %q", mode, across, got, wantA)
			}
		}
	}
	d := mustOpen(t, open, t.TempDir())
	write(t, d, "a", "a")
	for _, bad := range []string{"", "..", "x/y", "x\x00"} {
		if err := d.Rename("a", d, bad, vfs.Replace); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Rename to %q: %v, want %v", bad, err, fs.ErrInvalid)
		}
	}
}

func testDirRemove(t *testing.T, open dirOpener) {
	path := t.TempDir()
	d := mustOpen(t, open, path)
	if err := errors.Join(os.MkdirAll(filepath.Join(path, "full", "x"), 0o700),
		os.Mkdir(filepath.Join(path, "empty"), 0o700)); err != nil {
		t.Fatal(err)
	}
	write(t, d, "file", "x")
	if err := errors.Join(d.Remove("file"), d.Remove("empty")); err != nil {
		t.Error(err)
	}
	if err := d.Remove("full"); err == nil {
		t.Error("a directory that is not empty was removed")
	}
	if diff := cmp.Diff([]string{`"full" 2`}, listing(t, d)); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
}
