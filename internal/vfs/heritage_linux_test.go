package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Directories have the same heritage if files that are made in them get the same, and can
// be renamed from one to the other.
func TestHeritage(t *testing.T) {
	base := t.TempDir()
	heritage := func(name string) string {
		t.Helper()
		d, err := OpenDir(filepath.Join(base, name))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		h, err := d.Heritage()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	plain := heritage(".")
	if plain == "" {
		if Local(base) {
			t.Error("nothing is known of a directory of a local file system")
		}
		return // as of all directories of this file system
	}
	// u::rwx,g::r-x,o::r-x
	acl := []byte{2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 4, 0, 5, 0, 255, 255, 255, 255, 32, 0, 5, 0, 255, 255,
		255, 255}
	mount := func(source, fstype string, flags uintptr) func(string) error {
		return func(path string) error {
			err := unix.Mount(source, path, fstype, flags, "")
			if err == nil {
				t.Cleanup(func() { unix.Unmount(path, unix.MNT_DETACH) })
			}
			return err
		}
	}
	for _, tt := range []struct {
		name   string
		change func(path string) error
		same   bool
	}{
		{"plain", func(string) error { return nil }, true},
		{"mode", func(path string) error { return os.Chmod(path, 0o500) }, true},
		{"setgid", func(path string) error { return os.Chmod(path, 0o755|os.ModeSetgid) }, false},
		{"acl", func(path string) error { return unix.Setxattr(path, "system.posix_acl_default", acl, 0) }, false},
		{"noatime", func(path string) error {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0x80)
		}, false},
		{"bind", mount(base, "", unix.MS_BIND), false},
		{"tmpfs", mount("tmpfs", "tmpfs", 0), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(base, tt.name)
			if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := tt.change(path); err != nil {
				t.Skip("that cannot be had here:", err)
			}
			if got := heritage(tt.name); (got == plain) != tt.same {
				t.Errorf("%q, plain %q, want the same: %v", got, plain, tt.same)
			}
		})
	}
}

// On a mount with option grpid a file gets the group of its directory.
func TestHasGrpid(t *testing.T) {
	const list = "25 30 0:23 / /sys rw,nosuid - sysfs sysfs rw\n" +
		"61 30 7:0 / /mnt/a\\040-\\040b rw,relatime shared:7 - ext4 /dev/loop0 rw,grpid,errors=continue\n" +
		"62 30 7:1 / /mnt/grpid rw,relatime - ext4 /dev/grpid rw,nogrpid\n" +
		"6 30 7:2 / /mnt/c rw - xfs /dev/loop2 rw,attr2,grpid\n" + "7 30 7:2 / /mnt/d rw - cut\n"
	for mount, want := range map[uint64]bool{25: false, 61: true, 62: false, 6: true, 7: true, 99: true} {
		if got := hasGrpid(list, mount); got != want {
			t.Errorf("mount %d: %v, want %v", mount, got, want)
		}
	}
}
