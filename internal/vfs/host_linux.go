package vfs

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// CoarseTime returns the clock that the kernel stamps files with, in
// nanoseconds since 1970: what is written from now on gets no earlier stamp.
// (Since 6.13 a stamp may be finer and so later than this clock, never
// earlier.)
func CoarseTime() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ts); err != nil {
		return 0 // then nothing is old enough to be trusted
	}
	return ts.Nano()
}

// Local reports whether the file system under a directory is one that stamps
// files and directories with this machine's clock at each change. Elsewhere
// stamps may come from another clock, or late.
func Local(path string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return false
	}
	return isLocal(&st)
}

func isLocal(st *unix.Statfs_t) bool {
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC,
		unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
		return true
	}
	return false
}

// Space returns how many bytes a user may still write to the file system under
// a directory, and how many it has.
func Space(path string) (free, total int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
}

// Umask returns the permission bits that the process leaves out of files and
// directories that it makes: the usual ones if the system does not say.
func Umask() uint16 {
	// umask(2) tells only by setting another, for all threads.
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return usualUmask
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "Umask:"); ok {
			mask, err := strconv.ParseUint(strings.TrimSpace(text), 8, 16)
			if err != nil {
				break
			}
			return uint16(mask) & 0o777
		}
	}
	return usualUmask
}

// remote are file systems whose locks, renames and syncs are those of a server
// or a program, or that have none.
var remote = map[uint32]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "CIFS",
	unix.SMB2_SUPER_MAGIC: "SMB",
	unix.FUSE_SUPER_MAGIC: "FUSE", unix.V9FS_MAGIC: "9P", unix.CEPH_SUPER_MAGIC: "Ceph",
	unix.AFS_SUPER_MAGIC: "AFS", unix.AFS_FS_MAGIC: "AFS",
	unix.CODA_SUPER_MAGIC: "Coda", unix.MSDOS_SUPER_MAGIC: "FAT", unix.EXFAT_SUPER_MAGIC: "exFAT",
}

// Remote returns the name of the file system under a directory if it is one
// whose locks, renames and syncs cannot be counted on; else "".
func Remote(path string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return ""
	}
	return remote[uint32(st.Type)]
}

// BootID identifies the running boot of the machine; "" if unknown.
var BootID = sync.OnceValue(func() string { return lineOf("/proc/sys/kernel/random/boot_id") })

// MachineID identifies the installed system; "" if unknown. A container has its own,
// or none.
var MachineID = sync.OnceValue(func() string { return lineOf("/etc/machine-id") })

// lineOf returns what a file of one line says; "" if it cannot be read.
func lineOf(name string) string {
	b, _ := os.ReadFile(name)
	return strings.TrimSpace(string(b))
}

// born returns when a file was made, 0 where the file system does not say.
func born(path string, _ fs.FileInfo) int64 {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}

// statOf returns what the system said about a file.
func statOf(fi fs.FileInfo) Stat {
	sys := fi.Sys().(*syscall.Stat_t)
	return Stat{
		Size:  fi.Size(),
		Mtime: sys.Mtim.Nano(),
		Ctime: sys.Ctim.Nano(),
		Ino:   sys.Ino,
		Dev:   uint64(sys.Dev),
		Perm:  uint16(fi.Mode().Perm()),
		Kind:  KindOf(fi.Mode()),
	}
}

// syncData makes content and size durable. Timestamps may be lost, which
// saves the write of an inode that did not grow.
func syncData(f *os.File) error {
	return control(f, "fdatasync", func(fd uintptr) error {
		return retry(func() error { return unix.Fdatasync(int(fd)) })
	})
}

func exchange(a, b string) error {
	err := retry(func() error { return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) })
	if err == unix.EINVAL || err == unix.ENOSYS { // of the file system, of the kernel
		return errors.ErrUnsupported
	}
	return err
}
