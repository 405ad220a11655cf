package vfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

const (
	// unlinkIsDir is the error of an unlink of a directory.
	unlinkIsDir = unix.EISDIR
	// noAttribute is the error of an extended attribute that is not there.
	noAttribute = unix.ENODATA
)

func fsync(fd int) error { return retry(func() error { return unix.Fsync(fd) }) }

// renameat moves a name from one directory to another.
func renameat(from int, name string, to int, newname string, mode RenameMode) error {
	flags := map[RenameMode]uint{NoReplace: unix.RENAME_NOREPLACE, Exchange: unix.RENAME_EXCHANGE}[mode]
	err := retry(func() error { return unix.Renameat2(from, name, to, newname, flags) })
	if flags != 0 && (err == unix.EINVAL || err == unix.ENOSYS) { // of the file system, of the kernel
		err = errors.ErrUnsupported
	}
	return err
}
