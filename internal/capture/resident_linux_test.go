package capture

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

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
