package rollback

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A directory that was moved to another file system goes back file by file.
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
	b.apply(b.plan(b.wants(left, wanted), Skip))
	wanted["disk"] = "dir 755"
	b.expect(wanted)
}
