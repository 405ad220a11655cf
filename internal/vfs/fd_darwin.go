package vfs

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// unlinkIsDir is the error of an unlink of a directory.
	unlinkIsDir = unix.EPERM
	// noAttribute is the error of an extended attribute that is not there.
	noAttribute = unix.ENOATTR
)

// fsync makes a file durable: fsync(2) leaves it in the disk's own cache, which a power cut
// empties. A file system that has no such call, as of a server, gets the lesser one.
func fsync(fd int) error {
	err := retry(func() error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
		return err
	})
	if err == unix.ENOTSUP || err == unix.ENOTTY || err == unix.EINVAL {
		err = retry(func() error { return unix.Fsync(fd) })
	}
	return err
}

// renameat moves a name from one directory to another.
func renameat(from int, name string, to int, newname string, mode RenameMode) error {
	flags := map[RenameMode]uint32{NoReplace: unix.RENAME_EXCL, Exchange: unix.RENAME_SWAP}[mode]
	err := retry(func() error { return unix.RenameatxNp(from, name, to, newname, flags) })
	if flags != 0 && (err == unix.EINVAL || err == unix.ENOTSUP) { // of the file system
		err = errors.ErrUnsupported
	}
	return err
}

// ReadNames opens the directory anew, so that each listing starts at the beginning.
func (d *fdDir) ReadNames(fn func(name []byte, kind Kind)) error {
	fd, err := openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return pathError("readdir", d.name, err)
	}
	f := os.NewFile(uintptr(fd), d.name)
	defer f.Close() // nothing was written through it
	for {
		entries, err := f.ReadDir(1024)
		for _, e := range entries {
			fn([]byte(e.Name()), KindOf(e.Type()))
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Heritage is not known: files also get the entries of an access control list that are to be
// inherited, and no call tells them by a descriptor.
func (d *fdDir) Heritage() (string, error) { return "", nil }
