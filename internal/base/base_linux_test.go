package base

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/boocode/filestore/internal/vfs"
)

func needRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: it takes root")
	}
}

// TestReflink has a base and clones be on XFS, where files share blocks: they take no space, and are files of their
// own.
func TestReflink(t *testing.T) {
	needRoot(t)
	disk := filepath.Join(t.TempDir(), "disk")
	f, err := os.Create(disk)
	if err != nil {
		t.Fatal(err)
	}
	const size = 320 << 20 // mkfs.xfs makes no smaller one
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	f.Close()
	at := t.TempDir()
	for _, c := range [][]string{{"mkfs.xfs", "-q", "-m", "reflink=1", disk}, {"mount", "-o", "loop", disk, at}} {
		if out, err := exec.CommandContext(t.Context(), c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: no XFS here: %v: %v, %s", c, err, out)
		}
	}
	defer exec.Command("umount", at).Run()
	x := take(t)
	b := x.make(t, filepath.Join(at, "base"))
	free := func() int64 {
		if err := vfs.SyncAll(at); err != nil {
			t.Fatal(err)
		}
		n, _, err := vfs.Space(at)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := free()
	const clones = 4
	for i := range clones {
		dir := filepath.Join(at, string(rune('a'+i)))
		if n := len(x.clone(t, b, dir)); n != len(sample) {
			t.Errorf("%d of %d files came from the base", n, len(sample))
		}
	}
	if took := before - free(); took > bigSize/4 {
		t.Errorf("%d clones take %d bytes, of files with %d each", clones, took, bigSize)
	}
	if b.copying.Load() {
		t.Error("files were copied")
	}
	if err := os.WriteFile(filepath.Join(at, "a", "d", "big"), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := len(x.clone(t, b, filepath.Join(at, "last"))); n != len(sample) {
		t.Errorf("%d of %d files came from the base, of which a clone was changed", n, len(sample))
	}
}

// TestOverlay has the base be in the lower directory of an overlay, and the clone in that: what was made below is
// known above.
func TestOverlay(t *testing.T) {
	needRoot(t)
	above := t.TempDir()
	dirs := make(map[string]string)
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		dirs[name] = filepath.Join(above, name)
		if err := os.Mkdir(dirs[name], 0o755); err != nil {
			t.Fatal(err)
		}
	}
	x := take(t)
	x.make(t, filepath.Join(dirs["lower"], "base"))
	err := unix.Mount("overlay", dirs["merged"], "overlay", 0,
		"lowerdir="+dirs["lower"]+",upperdir="+dirs["upper"]+",workdir="+dirs["work"])
	if err != nil {
		t.Skip("SKIPPED: no overlay here:", err)
	}
	defer unix.Unmount(dirs["merged"], 0)
	base := filepath.Join(dirs["merged"], "base")
	b, err := Open(base)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(x.clone(t, b, filepath.Join(dirs["merged"], "one"))); n != len(sample) {
		t.Errorf("%d of %d files came from the base", n, len(sample))
	}
	if err := os.WriteFile(filepath.Join(base, filesName, "a"), []byte("TEXT of a"), 0o640); err != nil {
		t.Fatal(err)
	}
	if n := len(x.clone(t, b, filepath.Join(dirs["merged"], "two"))); n != len(sample)-1 {
		t.Errorf("%d of %d files came from the base, of which one was changed above", n, len(sample))
	}
}
