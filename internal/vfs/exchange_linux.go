package vfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

func exchange(a, b string) error {
	err := retry(func() error { return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) })
	if err == unix.EINVAL || err == unix.ENOSYS { // of the file system, of the kernel
		return errors.ErrUnsupported
	}
	return err
}
