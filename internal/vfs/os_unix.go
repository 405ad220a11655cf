//go:build unix

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// retry runs fn until a signal no longer interrupts it.
func retry(fn func() error) error {
	for {
		if err := fn(); err != unix.EINTR {
			return err
		}
	}
}

// systemName returns an error if no file can have a name: there is no such name.
func systemName(string) error { return nil }

// hasNoLinks reports whether an error says that this process can make no links: each can.
func hasNoLinks(error) bool { return false }

// statRoot describes a directory.
func statRoot(root *os.Root) (Stat, error) {
	fi, err := root.Lstat(".")
	if err != nil {
		return Stat{}, err
	}
	return statOf(fi), nil
}

// renameIn renames a file within a directory.
func renameIn(root *os.Root, name, newname string) error { return root.Rename(name, newname) }

// renameFree renames a file to a name that is free: package os cannot do that.
func renameFree(*os.Root, string, string) error { return errors.ErrUnsupported }

func tryLock(f *os.File, mode LockMode) (bool, error) {
	err := control(f, "lock", func(fd uintptr) error { return flock(int(fd), mode) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func flock(fd int, mode LockMode) error {
	how := unix.LOCK_SH
	if mode == Exclusive {
		how = unix.LOCK_EX
	}
	return retry(func() error { return unix.Flock(fd, how|unix.LOCK_NB) })
}

func unlock(f *os.File) error {
	return control(f, "unlock", func(fd uintptr) error {
		return retry(func() error { return unix.Flock(int(fd), unix.LOCK_UN) })
	})
}

func syncDir(path string) error {
	d, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer d.Close() // nothing was written through it
	return d.Sync()
}

// openNonblock keeps the open of a fifo from waiting, and that of a terminal
// from making it ours.
const openNonblock = unix.O_NONBLOCK | unix.O_NOCTTY

func syncRoot(r *os.Root) error {
	d, err := r.Open(".")
	if err != nil {
		return err
	}
	defer d.Close() // nothing was written through it
	return d.Sync()
}

// KeptPerm returns what the system keeps of the permission bits of a name: all.
func KeptPerm(_ Kind, perm uint16) uint16 { return perm & 0o777 }

// HasOwners says whether files have an owner that is a number.
const HasOwners = true

// Owners returns whose a file is, and who this process is.
func Owners(fi fs.FileInfo) (owner, self int, ok bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), os.Geteuid(), true
}

// openDirectly keeps an open from following a link, and that of a fifo from
// waiting.
const openDirectly = openNonblock | unix.O_NOFOLLOW

// isLink reports whether an open failed because of a link that it does not follow.
func isLink(err error) bool {
	return errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EMLINK) // FreeBSD's
}

func openFile(path string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(path, flag, perm)
}

func (o osFS) rename(oldname, newname string) error {
	return os.Rename(filepath.Join(o.dir, oldname), filepath.Join(o.dir, newname))
}

func statAt(_ string, fi fs.FileInfo) (Stat, error)     { return statOf(fi), nil }
func statOpen(_ *os.File, fi fs.FileInfo) (Stat, error) { return statOf(fi), nil }
