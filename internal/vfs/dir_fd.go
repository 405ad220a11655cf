//go:build linux || darwin

package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

// OpenDir opens a directory. Symbolic links in path are followed; names looked
// up in the Dir are not.
//
// Dir, Reader and Writer hold bare descriptors, which nothing but Close frees.
// Close must not run beside another method.
func OpenDir(path string) (Dir, error) {
	fd := -1
	err := retry(func() (err error) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, pathError("open", path, err)
	}
	return &fdDir{fdFile{fd: fd, name: path}}, nil
}

// A fdFile is an open descriptor, -1 once it is closed.
type fdFile struct {
	fd   int
	name string // for errors
}

func (f *fdFile) Stat(st *Stat) error {
	var sys unix.Stat_t
	if err := retry(func() error { return unix.Fstat(f.fd, &sys) }); err != nil {
		return pathError("stat", f.name, err)
	}
	fillStat(st, &sys)
	return nil
}

func (f *fdFile) Sync() error {
	if err := fsync(f.fd); err != nil {
		return pathError("fsync", f.name, err)
	}
	return nil
}

// Close is not retried when a signal interrupts it: the descriptor is free by
// then, and may be another file's already.
func (f *fdFile) Close() error {
	err := unix.Close(f.fd)
	f.fd = -1
	if err != nil {
		return pathError("close", f.name, err)
	}
	return nil
}

// Chmod sets the permission bits and leaves set-user-id, set-group-id and
// sticky as they are. To look whether they are right takes a third of the time of setting them.
func (f *fdFile) Chmod(perm uint16) error {
	var sys unix.Stat_t
	err := retry(func() error { return unix.Fstat(f.fd, &sys) })
	if err == nil && uint32(sys.Mode)&0o777 != uint32(perm)&0o777 {
		mode := uint32(sys.Mode)&0o7000 | uint32(perm)&0o777
		err = retry(func() error { return unix.Fchmod(f.fd, mode) })
	}
	if err != nil {
		return pathError("chmod", f.name, err)
	}
	return nil
}

func (d *fdDir) TryLock(mode LockMode) (bool, error) {
	switch err := flock(d.fd, mode); err {
	case nil:
		return true, nil
	case unix.EWOULDBLOCK:
		return false, nil
	default:
		return false, pathError("lock", d.name, err)
	}
}

// A fdDir looks names up relative to its descriptor, so that nothing it
// does depends on where the directory lies or how long its path is.
type fdDir struct{ fdFile }

// Fd returns the descriptor, which is the directory's until it is closed.
func (d *fdDir) Fd() int { return d.fd }

func (d *fdDir) Lstat(name string, st *Stat) error {
	if err := CheckName("lstat", name); err != nil {
		return err
	}
	var sys unix.Stat_t
	if err := lstatat(d.fd, name, &sys); err != nil {
		return pathError("lstat", name, err)
	}
	fillStat(st, &sys)
	return nil
}

func (d *fdDir) OpenDir(name string) (Dir, error) {
	if err := CheckName("open", name); err != nil {
		return nil, err
	}
	fd, err := openat(d.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &fdDir{fdFile{fd: fd, name: name}}, nil
}

func (d *fdDir) Open(name string, st *Stat) (Reader, error) {
	if err := CheckName("open", name); err != nil {
		return nil, err
	}
	// O_NONBLOCK keeps the open of a fifo from waiting for a writer and that
	// of most devices from doing anything. What was opened is known only now.
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := openat(d.fd, name, flags, 0)
	switch err {
	case nil:
	case unix.ELOOP, unix.ENXIO, unix.ENODEV, unix.EOPNOTSUPP: // a link; a socket or a device; a device; a socket
		return nil, pathError("open", name, ErrNotRegular)
	default:
		return nil, pathError("open", name, err)
	}
	var sys unix.Stat_t
	err = retry(func() error { return unix.Fstat(fd, &sys) })
	if err == nil && sys.Mode&unix.S_IFMT != unix.S_IFREG {
		err = ErrNotRegular
	}
	if err != nil {
		unix.Close(fd)
		return nil, pathError("open", name, err)
	}
	if st != nil {
		fillStat(st, &sys)
	}
	return &fdReader{fdFile{fd: fd, name: name}}, nil
}

func (d *fdDir) Readlink(name string) (string, error) {
	if err := CheckName("readlink", name); err != nil {
		return "", err
	}
	// The size of a link is 0 on some file systems, so ask until it fits.
	for buf := make([]byte, 256); ; buf = make([]byte, 2*len(buf)) {
		var n int
		err := retry(func() (err error) {
			n, err = unix.Readlinkat(d.fd, name, buf)
			return err
		})
		if err != nil {
			return "", pathError("readlink", name, err)
		}
		if n < len(buf) {
			return string(buf[:n]), nil
		}
	}
}

func (d *fdDir) Mkdir(name string, perm uint16) error {
	if err := CheckName("mkdir", name); err != nil {
		return err
	}
	if err := retry(func() error { return unix.Mkdirat(d.fd, name, 0o700) }); err != nil {
		return pathError("mkdir", name, err)
	}
	// Through a descriptor, because fchmodat would follow a link that took
	// the place of the new directory.
	sub, err := d.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(sub.Chmod(perm), sub.Close())
}

func (d *fdDir) Create(name string, perm uint16) (Writer, error) {
	if err := CheckName("create", name); err != nil {
		return nil, err
	}
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := openat(d.fd, name, flags, uint32(perm)&0o777|0o600)
	if err != nil {
		return nil, pathError("create", name, err)
	}
	return &fdWriter{fdFile{fd: fd, name: name}}, nil
}

func (d *fdDir) Symlink(target, name string) error {
	if err := CheckName("symlink", name); err != nil {
		return err
	}
	if err := retry(func() error { return unix.Symlinkat(target, d.fd, name) }); err != nil {
		return pathError("symlink", name, err)
	}
	return nil
}

func (d *fdDir) Rename(name string, to Dir, newname string, mode RenameMode) error {
	if err := errors.Join(CheckName("rename", name), CheckName("rename", newname)); err != nil {
		return err
	}
	dir, ok := to.(*fdDir)
	if !ok {
		return pathError("rename", name, errors.ErrUnsupported)
	}
	err := renameat(d.fd, name, dir.fd, newname, mode)
	if err == unix.EXDEV {
		err = fmt.Errorf("%w (%w)", err, errors.ErrUnsupported)
	}
	if err != nil {
		return pathError("rename", name, err)
	}
	return nil
}

func (d *fdDir) IsPrivate() (bool, error) {
	var sys unix.Stat_t
	if err := retry(func() error { return unix.Fstat(d.fd, &sys) }); err != nil {
		return false, pathError("stat", d.name, err)
	}
	return int(sys.Uid) == unix.Geteuid() && sys.Mode&0o077 == 0, nil
}

func (d *fdDir) RemoveDir(name string) error {
	if err := CheckName("remove", name); err != nil {
		return err
	}
	if err := retry(func() error { return unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR) }); err != nil {
		return pathError("remove", name, err)
	}
	return nil
}

func (d *fdDir) Remove(name string) error {
	if err := CheckName("remove", name); err != nil {
		return err
	}
	err := retry(func() error { return unix.Unlinkat(d.fd, name, 0) })
	if err == unlinkIsDir {
		// Where that says something else, too, it may be no directory after all.
		if derr := retry(func() error { return unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR) }); derr != unix.ENOTDIR {
			err = derr
		}
	}
	if err != nil {
		return pathError("remove", name, err)
	}
	return nil
}

type fdReader struct{ fdFile }

func (r *fdReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, err := unix.Read(r.fd, p)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, pathError("read", r.name, err)
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

type fdWriter struct{ fdFile }

func (w *fdWriter) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := unix.Write(w.fd, p[done:])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return done, pathError("write", w.name, err)
		case n == 0:
			return done, pathError("write", w.name, io.ErrShortWrite)
		}
		done += n
	}
	return done, nil
}

func (w *fdWriter) Inherit(from Reader) (names int, privileged bool, err error) {
	r, ok := from.(*fdReader)
	if !ok {
		return 0, false, pathError("inherit", w.name, errors.ErrUnsupported)
	}
	var old, own unix.Stat_t
	err = errors.Join(retry(func() error { return unix.Fstat(r.fd, &old) }),
		retry(func() error { return unix.Fstat(w.fd, &own) }))
	if err == nil && (old.Uid != own.Uid || old.Gid != own.Gid) {
		err = allowed(retry(func() error { return unix.Fchown(w.fd, int(old.Uid), int(old.Gid)) }))
	}
	privileged = uint32(old.Mode)&(unix.S_ISUID|unix.S_ISGID) != 0
	if err == nil {
		var capable bool
		capable, err = copyAttributes(r.fd, w.fd)
		privileged = privileged || capable
	}
	if err != nil {
		return 0, false, pathError("inherit", w.name, err)
	}
	return int(old.Nlink), privileged, nil
}

// capabilities is the attribute that has what a program may do whoever starts it.
const capabilities = "security.capability"

// copyAttributes copies the extended attributes of a file, without those that
// this process may not set, and without its capabilities. It reports whether it has some.
func copyAttributes(from, to int) (capable bool, err error) {
	var names []byte
	for size := 1024; names == nil; size *= 2 {
		buf := make([]byte, size)
		n, err := unix.Flistxattr(from, buf)
		switch {
		case err == unix.ERANGE:
		case err != nil:
			return false, allowed(err)
		default:
			names = buf[:n]
		}
	}
	for name := range bytes.SplitSeq(names, []byte{0}) {
		if len(name) == 0 {
			continue
		}
		if string(name) == capabilities {
			capable = true
			continue
		}
		value := make([]byte, 64<<10) // Linux has no longer ones
		n, err := unix.Fgetxattr(from, string(name), value)
		if err == unix.ERANGE {
			if n, err = unix.Fgetxattr(from, string(name), nil); err == nil {
				value = make([]byte, n)
				n, err = unix.Fgetxattr(from, string(name), value)
			}
		}
		if err == nil {
			err = unix.Fsetxattr(to, string(name), value[:n], 0)
		}
		if err := allowed(err); err != nil {
			return false, err
		}
	}
	return capable, nil
}

// allowed drops an error that says that this process may not do a thing, or
// that the file system has none.
func allowed(err error) error {
	switch err {
	case unix.EPERM, unix.EACCES, unix.ENOTSUP, noAttribute:
		return nil
	}
	return err
}

func fillStat(st *Stat, sys *unix.Stat_t) {
	*st = Stat{
		Size:  sys.Size,
		Mtime: sys.Mtim.Nano(),
		Ctime: sys.Ctim.Nano(),
		Ino:   sys.Ino,
		Dev:   uint64(sys.Dev),
		Perm:  uint16(sys.Mode & 0o777),
	}
	switch sys.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		st.Kind, st.Linked = Regular, sys.Nlink > 1
	case unix.S_IFDIR:
		st.Kind = Directory
	case unix.S_IFLNK:
		st.Kind = Symlink
	default:
		st.Kind = Special
	}
}

// pathError returns err with what was done to what.
func pathError(op, name string, err error) error {
	if err == unix.EBADF { // the -1 of a closed fdFile
		err = fs.ErrClosed
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
