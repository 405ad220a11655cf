package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// OS returns the FS of the operating system rooted at dir, which need not
// exist yet. Permissions are subject to the umask.
//
// A file that is a symbolic link is not opened. Nor is one of another user, but by
// root, who may read all.
func OS(dir string) FS {
	return osFS{dir}
}

type osFS struct{ dir string }

// path returns where name lies on disk.
func (o osFS) path(op, name string) (string, error) {
	if err := CheckPath(op, name); err != nil {
		return "", err
	}
	return filepath.Join(o.dir, filepath.FromSlash(name)), nil
}

func (o osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	if err := CheckOpen(name, flag); err != nil {
		return nil, err
	}
	path, err := o.path("open", name)
	if err != nil {
		return nil, err
	}
	f, fi, err := openDirect(path, flag, perm)
	if err != nil {
		return nil, err
	}
	if err := checkOwn(path, fi); err != nil {
		if mayRead := os.Geteuid() == 0 && flag&os.O_RDWR == 0; !mayRead {
			f.Close()
			return nil, err
		}
	}
	return &osFile{File: f}, nil
}

func (o osFS) Mkdir(name string, perm fs.FileMode) error {
	path, err := o.path("mkdir", name)
	if err != nil {
		return err
	}
	return os.Mkdir(path, perm)
}

func (o osFS) Rename(oldname, newname string) error {
	from, err := o.path("rename", oldname)
	if err != nil {
		return err
	}
	to, err := o.path("rename", newname)
	if err != nil {
		return err
	}
	err = o.rename(oldname, newname)
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		// An FS promises a PathError; os has a type of its own here.
		return &fs.PathError{Op: "rename", Path: from, Err: fmt.Errorf("to %s: %w", to, link.Err)}
	}
	return err
}

func (o osFS) Exchange(a, b string) error {
	from, err := o.path("exchange", a)
	if err != nil {
		return err
	}
	to, err := o.path("exchange", b)
	if err != nil {
		return err
	}
	if err := exchange(from, to); err != nil {
		return &fs.PathError{Op: "exchange", Path: from, Err: fmt.Errorf("with %s: %w", to, err)}
	}
	return nil
}

func (o osFS) Remove(name string) error {
	path, err := o.path("remove", name)
	if err != nil {
		return err
	}
	return os.Remove(path)
}

func (o osFS) ReadDir(name string) ([]string, error) {
	path, err := o.path("readdir", name)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (o osFS) Stat(name string) (Stat, error) {
	path, err := o.path("stat", name)
	if err != nil {
		return Stat{}, err
	}
	fi, err := os.Lstat(path)
	if err != nil {
		return Stat{}, err
	}
	return statAt(path, fi)
}

func (o osFS) SyncDir(name string) error {
	path, err := o.path("sync", name)
	if err != nil {
		return err
	}
	return syncDir(path)
}

func (o osFS) Space() (free, total int64, err error) { return Space(o.dir) }

// An osFile is an open file. ReadAt, WriteAt, Truncate and Close are those of
// os.File; the lock goes with the descriptor.
type osFile struct{ *os.File }

func (f *osFile) Stat() (Stat, error) {
	fi, err := f.File.Stat()
	if err != nil {
		return Stat{}, err
	}
	return statOpen(f.File, fi)
}

func (f *osFile) Sync() error {
	return syncData(f.File)
}

func (f *osFile) TryLock(mode LockMode) (bool, error) {
	return tryLock(f.File, mode)
}

func (f *osFile) Unlock() error {
	return unlock(f.File)
}

// control runs fn on the descriptor of f, which stays open meanwhile, and
// makes what fn returns a PathError.
func control(f *os.File, op string, fn func(fd uintptr) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if conn.Control(func(fd uintptr) { err = fn(fd) }) != nil {
		err = fs.ErrClosed // the one reason, though its own error does not match it
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: err}
	}
	return nil
}

// KindOf returns what a file mode says about a name.
func KindOf(mode fs.FileMode) Kind {
	switch mode.Type() {
	case 0:
		return Regular
	case fs.ModeDir:
		return Directory
	case fs.ModeSymlink:
		return Symlink
	}
	return Special
}

// CheckPath returns an error unless name is one an FS takes.
func CheckPath(op, name string) error {
	if !fs.ValidPath(name) {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return nil
}

// CheckOpen returns an error unless name and flag are what OpenFile takes.
func CheckOpen(name string, flag int) error {
	const known = os.O_RDONLY | os.O_RDWR | os.O_CREATE | os.O_EXCL | os.O_TRUNC
	truncReadOnly := flag&os.O_TRUNC != 0 && flag&os.O_RDWR == 0
	if flag&^known != 0 || truncReadOnly {
		return &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return CheckPath("open", name)
}
