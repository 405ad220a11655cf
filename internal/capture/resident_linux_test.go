package capture

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

// TestResidentMounts: what is mounted in the tree, or was, is seen.
func TestResidentMounts(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(root, "a/f"), "one")
	write(t, filepath.Join(root, "b/f"), "two")
	write(t, filepath.Join(root, "c/f"), "three")
	write(t, filepath.Join(outside, "f"), "four")
	s := openStore(t, vfstest.NewMem())
	ws := openResident(t, s, root, 0)
	check := func(what string) {
		t.Helper()
		got := snapshot(t, s, ws, nil)
		want, g := scratch(t, s, root)
		sameResult(t, what, g, got, want)
	}
	check("no mounts")
	b, f := filepath.Join(root, "b"), filepath.Join(root, "c/f")
	if err := unix.Mount("tmpfs", b, "tmpfs", 0, ""); err != nil {
		t.Skip("may not mount: ", err)
	}
	check("a file system")
	if err := unix.Unmount(b, 0); err != nil {
		t.Fatal(err)
	}
	check("none again")
	if err := unix.Mount(filepath.Join(root, "a"), b, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(b, unix.MNT_DETACH)
	check("a directory at two places")
	for _, name := range []string{"a/f", "b/f"} {
		write(t, filepath.Join(root, name), "by "+name)
		check(name)
	}
	if err := unix.Mount(filepath.Join(outside, "f"), f, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(f, unix.MNT_DETACH)
	check("a file from outside")
	if err := os.WriteFile(filepath.Join(outside, "f"), []byte("there"), 0o644); err != nil {
		t.Fatal(err)
	}
	check("written outside")
}

// TestResidentFold: where a name is found in any spelling, the watcher's names are not taken
// for those of the directory.
func TestResidentFold(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "readme.md"), "one")
	write(t, filepath.Join(root, "sub/\u00e9t\u00e9"), "two")
	write(t, filepath.Join(root, "sub/other"), "three")
	s := openStore(t, vfstest.NewMem())
	ws := openResident(t, s, root, 0)
	ws.openDir = func(path string) (vfs.Dir, error) {
		d, err := vfs.OpenDir(path)
		if err != nil {
			return nil, err
		}
		return vfstest.Fold(d), nil
	}
	snapshot(t, s, ws, nil)
	for _, to := range [][2]string{
		{"readme.md", "README.md"}, {"README.md", "Readme.md"}, {"sub/\u00e9t\u00e9", "sub/\u00c9t\u00e9"},
		{"sub", "Sub"}, {"Sub/other", "Sub/new"}, {"Readme.md", "Sub/readme.MD"},
	} {
		if err := os.Rename(filepath.Join(root, to[0]), filepath.Join(root, to[1])); err != nil {
			t.Fatal(err)
		}
		got := snapshot(t, s, ws, nil)
		want, g := scratch(t, s, root)
		sameResult(t, "renamed to "+to[1], g, got, want)
	}
	if n := ws.WatchStats(); n.Full > 3 {
		t.Errorf("%d of %d captures looked at all files, want 3 at most", n.Full, n.Captures)
	}
}

// A watched directory below thousands of others: the path of each is made at once, and not
// by one string for each level: that took 4 s, and 5,000 levels 20.
func TestResidentDeep(t *testing.T) {
	testseed.Sequential(t)
	root := t.TempDir()
	f, err := os.Open(root)
	for i := 0; err == nil && i < 3000; i++ {
		var r *os.Root
		if r, err = os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err != nil {
			break
		}
		err = r.Mkdir("d", 0o755)
		f.Close()
		if err == nil {
			f, err = r.Open("d")
		}
		r.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	s := openStore(t, vfstest.NewMem())
	ws := openResident(t, s, root, 0)
	got := snapshot(t, s, ws, nil)
	want, g := scratch(t, s, root)
	sameResult(t, "3,000 levels", g, got, want)
	if got.Dirs != 3001 {
		t.Errorf("%d directories, want 3001", got.Dirs)
	}
}
