//go:build unix

package vfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/vfs"
)

// testDirUnix checks what needs links, fifos and permission bits.
func testDirUnix(t *testing.T, open dirOpener) {
	t.Run("Links", func(t *testing.T) { testDirLinks(t, open) })
	t.Run("RootLink", func(t *testing.T) { testDirRootLink(t, open) })
	t.Run("LongLink", func(t *testing.T) { testDirLongLink(t, open) })
	t.Run("Special", func(t *testing.T) { testDirSpecial(t, open) })
	t.Run("RawNames", func(t *testing.T) { testDirRawNames(t, open) })
	t.Run("Deep", func(t *testing.T) { testDirDeep(t, open) })
	t.Run("Perm", func(t *testing.T) { testDirPerm(t, open) })
	t.Run("Moved", func(t *testing.T) { testDirMoved(t, open) })
}

// testDirLinks checks that no method follows a link, wherever it leads.
func testDirLinks(t *testing.T, open dirOpener) {
	path := t.TempDir()
	outside := t.TempDir()
	for _, dir := range []string{path, outside} {
		err := errors.Join(
			os.Mkdir(filepath.Join(dir, "sub"), 0o700),
			os.WriteFile(filepath.Join(dir, "file"), []byte("hello"), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range []string{
		"file", "sub", "dangling", ".", "link",
		outside, filepath.Join(outside, "file"), filepath.Join(outside, "dangling"),
	} {
		t.Run(filepath.Base(target), func(t *testing.T) {
			d := mustOpen(t, open, path)
			if err := d.Symlink(target, "link"); err != nil {
				t.Fatal(err)
			}
			defer os.Remove(filepath.Join(path, "link"))

			var st vfs.Stat
			if err := d.Lstat("link", &st); err != nil || st.Kind != vfs.Symlink || st.Size != int64(len(target)) {
				t.Errorf("Lstat = %+v, %v", st, err)
			}
			if got, err := d.Readlink("link"); got != target || err != nil {
				t.Errorf("Readlink = %q, %v; want %q", got, err, target)
			}
			if want := fmt.Sprintf("%q %d", "link", vfs.Symlink); !slices.Contains(listing(t, d), want) {
				t.Errorf("ReadNames does not have %s", want)
			}
			if _, err := d.Open("link", nil); !errors.Is(err, vfs.ErrNotRegular) {
				t.Errorf("Open: %v, want %v", err, vfs.ErrNotRegular)
			}
			if _, err := d.OpenDir("link"); err == nil {
				t.Error("OpenDir followed the link")
			}
			if _, err := d.Create("link", 0o600); !errors.Is(err, fs.ErrExist) {
				t.Errorf("Create: %v, want %v", err, fs.ErrExist)
			}
			if err := d.Mkdir("link", 0o711); !errors.Is(err, fs.ErrExist) {
				t.Errorf("Mkdir: %v, want %v", err, fs.ErrExist)
			}
			if err := d.Symlink("other", "link"); !errors.Is(err, fs.ErrExist) {
				t.Errorf("Symlink: %v, want %v", err, fs.ErrExist)
			}
			for _, dir := range []string{path, outside} {
				if _, err := os.Lstat(filepath.Join(dir, "dangling")); err == nil {
					t.Errorf("%s/dangling was created through the link", dir)
				}
				fi, err := os.Lstat(filepath.Join(dir, "sub"))
				if err != nil || fi.Mode().Perm() != 0o700 {
					t.Errorf("sub is now %v, %v", fi.Mode(), err)
				}
			}
		})
	}
}

// testDirRootLink checks that the path itself may lead through links.
func testDirRootLink(t *testing.T, open dirOpener) {
	path := t.TempDir()
	err := errors.Join(
		os.Mkdir(filepath.Join(path, "real"), 0o700),
		os.WriteFile(filepath.Join(path, "real", "file"), []byte("hello"), 0o600),
		os.Symlink("real", filepath.Join(path, "link")))
	if err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, mustOpen(t, open, filepath.Join(path, "link")), "file"); got != "hello" {
		t.Errorf("content = %q, want %q", got, "hello")
	}
}

func testDirLongLink(t *testing.T, open dirOpener) {
	d := mustOpen(t, open, t.TempDir())
	for _, n := range []int{1, 255, 256, 257, 1000} { // around the first buffer
		name, target := fmt.Sprint(n), strings.Repeat("t", n)
		if err := d.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
		if got, err := d.Readlink(name); got != target || err != nil {
			t.Errorf("Readlink = %d bytes, %v; want %d", len(got), err, n)
		}
	}
	if err := d.Symlink("x", strings.Repeat("n", 255)); err != nil {
		t.Error(err)
	}
	if _, err := d.Readlink("1"); err != nil {
		t.Error(err)
	}
	write(t, d, "file", "")
	if _, err := d.Readlink("file"); err == nil {
		t.Error("Readlink of a file succeeded")
	}
}

// testDirSpecial would hang if the fifo were opened in the plain way.
func testDirSpecial(t *testing.T, open dirOpener) {
	path, err := os.MkdirTemp("", "vfs") // short: the path of a socket is at most 104 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(path) })
	if err := syscall.Mkfifo(filepath.Join(path, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(path, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	d := mustOpen(t, open, path)
	want := []string{fmt.Sprintf("%q %d", "fifo", vfs.Special), fmt.Sprintf("%q %d", "socket", vfs.Special)}
	if diff := cmp.Diff(want, listing(t, d)); diff != "" {
		t.Errorf("ReadNames (-want +got):\n%s", diff)
	}
	for _, name := range []string{"fifo", "socket"} {
		var st vfs.Stat
		if err := d.Lstat(name, &st); err != nil || st.Kind != vfs.Special {
			t.Errorf("Lstat(%q) = %+v, %v", name, st, err)
		}
		if _, err := d.Open(name, nil); !errors.Is(err, vfs.ErrNotRegular) {
			t.Errorf("Open(%q): %v, want %v", name, err, vfs.ErrNotRegular)
		}
		if _, err := d.OpenDir(name); err == nil {
			t.Errorf("OpenDir(%q) succeeded", name)
		}
		if _, err := d.Create(name, 0o600); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Create(%q): %v", name, err)
		}
	}
	var st vfs.Stat
	dev := mustOpen(t, open, "/dev")
	if err := dev.Lstat("null", &st); err != nil || st.Kind != vfs.Special {
		t.Errorf("Lstat of /dev/null = %+v, %v", st, err)
	}
	if _, err := dev.Open("null", nil); !errors.Is(err, vfs.ErrNotRegular) {
		t.Errorf("Open of /dev/null: %v", err)
	}
}

// testDirRawNames checks that names are bytes.
func testDirRawNames(t *testing.T, open dirOpener) {
	names := []string{
		"new\nline", "tab\t", " ", "...", "-rf", "back\\slash", "ünï", "*",
		strings.Repeat("n", 254), strings.Repeat("n", 255),
	}
	if runtime.GOOS == "linux" { // macOS refuses these
		names = append(names, "\xff\xfe", "a\x80", strings.Repeat("\xff", 255))
	}
	d := mustOpen(t, open, t.TempDir())
	var want []string
	for i, name := range names {
		content := fmt.Sprint("content ", i)
		write(t, d, name, content)
		want = append(want, fmt.Sprintf("%q %d", name, vfs.Regular))
		var st vfs.Stat
		if err := d.Lstat(name, &st); err != nil || st.Size != int64(len(content)) {
			t.Errorf("Lstat(%q) = %+v, %v", name, st, err)
		}
		if got := readAll(t, d, name); got != content {
			t.Errorf("content of %q = %q, want %q", name, got, content)
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, listing(t, d)); diff != "" {
		t.Errorf("ReadNames (-want +got):\n%s", diff)
	}
	for _, n := range []int{256, 5000} {
		for call, err := range namedCalls(d, strings.Repeat("n", n)) {
			if !errors.Is(err, syscall.ENAMETOOLONG) {
				t.Errorf("%s of a name of %d bytes: %v, want %v", call, n, err, syscall.ENAMETOOLONG)
			}
		}
	}
}

// testDirDeep goes to where a path would be too long for the system.
func testDirDeep(t *testing.T, open dirOpener) {
	const depth = 25 // times 201 bytes, above 4,096
	name := strings.Repeat("d", 200)
	d := mustOpen(t, open, t.TempDir())
	for range depth {
		if err := d.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		sub, err := d.OpenDir(name)
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		d = sub
	}
	write(t, d, "file", "deep")
	if got := readAll(t, d, "file"); got != "deep" {
		t.Errorf("content = %q, want %q", got, "deep")
	}
	if got, want := listing(t, d), []string{fmt.Sprintf("%q %d", "file", vfs.Regular)}; !slices.Equal(got, want) {
		t.Errorf("ReadNames = %q, want %q", got, want)
	}
}

func testDirPerm(t *testing.T, open dirOpener) {
	defer syscall.Umask(syscall.Umask(0o077))
	path := t.TempDir()
	d := mustOpen(t, open, path)
	perm := func(name string) fs.FileMode {
		fi, err := os.Lstat(filepath.Join(path, name))
		if err != nil {
			t.Fatal(err)
		}
		return fi.Mode()
	}

	if err := d.Mkdir("sub", 0o775); err != nil {
		t.Fatal(err)
	}
	if got, want := perm("sub"), fs.ModeDir|0o775; got != want {
		t.Errorf("after Mkdir 0o775: %v, want %v", got, want)
	}
	sub, err := d.OpenDir("sub")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if err := os.Chmod(filepath.Join(path, "sub"), 0o775|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	if err := sub.Chmod(0o710); err != nil {
		t.Fatal(err)
	}
	if got, want := perm("sub"), fs.ModeDir|fs.ModeSetgid|0o710; got != want {
		t.Errorf("after Chmod 0o710: %v, want %v", got, want)
	}

	testCreatedPerm(t, d, perm)
}

// testCreatedPerm checks that a file has no more than what it was created with, and exactly what Chmod says then:
// whether the umask has taken something, or nothing was to be done.
func testCreatedPerm(t *testing.T, d vfs.Dir, perm func(name string) fs.FileMode) {
	for _, bits := range []uint16{0, 0o200, 0o444, 0o467, 0o600, 0o644, 0o666, 0o755, 0o777} {
		for _, then := range []uint16{bits, 0o467} {
			w, err := d.Create("file", bits)
			if err != nil {
				t.Fatal(err)
			}
			if got := perm("file"); got&^(fs.FileMode(bits)|0o600) != 0 || got&0o600 != 0o600 {
				t.Errorf("after Create with %o: %v", bits, got)
			}
			if err := errors.Join(w.Chmod(then), w.Sync(), w.Close()); err != nil {
				t.Fatal(err)
			}
			if got, want := perm("file"), fs.FileMode(then); got != want {
				t.Errorf("after Create with %o and Chmod %o: %v", bits, then, got)
			}
			var st vfs.Stat
			if err := d.Lstat("file", &st); err != nil || st.Perm != then {
				t.Errorf("Lstat = %+v, %v; want Perm %o", st, err, then)
			}
			if err := d.Remove("file"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// testDirMoved checks that a Dir is the directory, not its path.
func testDirMoved(t *testing.T, open dirOpener) {
	path := t.TempDir()
	d := mustOpen(t, open, path)
	if err := d.Mkdir("sub", 0o700); err != nil {
		t.Fatal(err)
	}
	sub, err := d.OpenDir("sub")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	old, moved := filepath.Join(path, "sub"), filepath.Join(path, "moved")
	if err := errors.Join(os.Rename(old, moved), os.Mkdir(old, 0o700)); err != nil {
		t.Fatal(err)
	}
	write(t, sub, "file", "hello")
	if _, err := os.Stat(filepath.Join(moved, "file")); err != nil {
		t.Error(err)
	}
}
