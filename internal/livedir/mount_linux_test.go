package livedir

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/boocode/filestore/rollback"
)

// A directory that was moved to another file system goes back, but for what is
// not known of it.
func TestMovedAcrossDevices(t *testing.T) {
	b := newBench(t)
	disk := filepath.Join(b.dir, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m,mode=755"); err != nil {
		t.Skip("another file system needs root:", err)
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	left := world{"disk/lib": "dir 755", "disk/lib/a": "file 644 a", "disk/lib/b": "file 644 b"}
	wanted := world{"lib": "dir 755", "lib/a": "file 644 a", "lib/b": "file 644 b"}
	left.add(t, b.dir)
	world{"disk/lib/loose": "file 644 x"}.add(t, b.dir)
	p := b.plan(b.wants(left, wanted), rollback.Skip, "disk/lib/loose")
	b.apply(p)
	if len(p.Moves) != 1 || p.Moves[0].Why == "" {
		t.Errorf("moves %v", p.Moves)
	}
	wanted["disk"], wanted["disk/lib"], wanted["disk/lib/loose"] = "dir 755", "dir 755", "file 644 x"
	b.expect(wanted)
}
