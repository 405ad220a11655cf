package vfs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ShareContent gives a file that is being written, and is empty, the content of another without copying it: both
// have the same blocks until one is changed. Where the file system cannot, the error matches errors.ErrUnsupported.
func ShareContent(w Writer, from Reader) error {
	to, ok := w.(*fdWriter)
	src, sok := from.(*fdReader)
	if !ok || !sok {
		return errors.ErrUnsupported
	}
	err := retry(func() error { return unix.IoctlFileClone(to.fd, src.fd) })
	switch err {
	case nil:
		return nil
	case unix.EOPNOTSUPP, unix.ENOTTY, unix.EXDEV, unix.EINVAL, unix.ENOSYS:
		err = fmt.Errorf("%w (%w)", err, errors.ErrUnsupported)
	}
	return pathError("share", to.name, err)
}

// SyncAll makes durable all that was written into the file system of a directory.
func SyncAll(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return pathError("open", dir, err)
	}
	defer unix.Close(fd)
	if err := unix.Syncfs(fd); err != nil {
		return pathError("sync", dir, err)
	}
	return nil
}
