package vfs

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// CoarseTime returns 0: by which clock a volume stamps files was not tried, so none is old
// enough to be trusted by it alone.
func CoarseTime() int64 { return 0 }

// Local reports false, for the same reason.
func Local(path string) bool { return false }

// Space returns how many bytes a user may still write to the file system under
// a directory, and how many it has.
func Space(path string) (free, total int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil
}

// remote are file systems whose locks, renames and syncs are those of a server
// or a program, or that have none.
var remote = map[string]string{
	"nfs": "NFS", "smbfs": "SMB", "afpfs": "AFP", "webdav": "WebDAV", "ftp": "FTP", "msdos": "FAT", "exfat": "exFAT",
	"macfuse": "FUSE", "osxfuse": "FUSE", "fusefs": "FUSE", "virtiofs": "virtiofs",
}

// Remote returns the name of the file system under a directory if it is one
// whose locks, renames and syncs cannot be counted on; else "".
func Remote(path string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return ""
	}
	return remote[unix.ByteSliceToString(st.Fstypename[:])]
}

// BootID identifies the running boot of the machine; "" if unknown.
var BootID = sync.OnceValue(func() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
})

// MachineID returns "": the system is unknown.
func MachineID() string { return "" }

// Umask returns the permission bits that the process leaves out of files and
// directories that it makes. Here it is the usual ones: the system tells only by
// setting others, for all threads.
func Umask() uint16 { return usualUmask }

// syncData makes content and size durable: package os asks for F_FULLFSYNC.
func syncData(f *os.File) error { return f.Sync() }

func exchange(a, b string) error {
	err := retry(func() error { return unix.RenamexNp(a, b, unix.RENAME_SWAP) })
	if err == unix.EINVAL || err == unix.ENOTSUP { // of the file system
		return errors.ErrUnsupported
	}
	return err
}
