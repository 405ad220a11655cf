package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// openRootDir opens a directory with nothing but package os. It is OpenDir
// where there is no better one, and compiled everywhere to be tested.
func openRootDir(path string) (Dir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &rootDir{root}, nil
}

type rootDir struct{ root *os.Root }

// errSwapped is returned where a name was replaced between the look at it and
// its opening.
var errSwapped = errors.New("replaced while being opened")

func (d *rootDir) Stat(st *Stat) (err error) {
	*st, err = statRoot(d.root)
	return err
}

func (d *rootDir) ReadNames(fn func(name []byte, kind Kind)) error {
	f, err := d.root.Open(".") // anew, so each listing starts at the beginning
	if err != nil {
		return err
	}
	defer f.Close()
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

func (d *rootDir) Lstat(name string, st *Stat) error {
	if err := CheckName("lstat", name); err != nil {
		return err
	}
	fi, err := d.lstat(name)
	if err != nil {
		return err
	}
	*st = statOf(fi)
	return nil
}

// errNoName is the error of names that a system knows and no file has.
var errNoName = fmt.Errorf("%w: no file has such a name", ErrImpossible)

// lstat describes a name. One that no file can have, as "*" on Windows, is not there.
func (d *rootDir) lstat(name string) (fs.FileInfo, error) {
	err := systemName(name)
	if err == errNoName {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, &fs.PathError{Op: "lstat", Path: name, Err: err}
	}
	return d.root.Lstat(name)
}

// checkSystemName returns an error unless name is one component of a path that the system
// takes as it is.
func checkSystemName(op, name string) error {
	if err := CheckName(op, name); err != nil {
		return err
	}
	if err := systemName(name); err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

func (d *rootDir) OpenDir(name string) (Dir, error) {
	if err := CheckName("open", name); err != nil {
		return nil, err
	}
	seen, err := d.lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	sub, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	got, err := sub.Lstat(".")
	if err == nil && !os.SameFile(seen, got) {
		err = &fs.PathError{Op: "open", Path: name, Err: errSwapped}
	}
	if err != nil {
		sub.Close()
		return nil, err
	}
	return &rootDir{sub}, nil
}

func (d *rootDir) Open(name string, st *Stat) (Reader, error) {
	if err := CheckName("open", name); err != nil {
		return nil, err
	}
	seen, err := d.lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	f, err := d.root.OpenFile(name, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, err
	}
	got, err := f.Stat()
	if err == nil && !os.SameFile(seen, got) {
		err = &fs.PathError{Op: "open", Path: name, Err: errSwapped}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	if st != nil {
		*st = statOf(got)
	}
	return &rootReader{f}, nil
}

func (d *rootDir) Readlink(name string) (string, error) {
	if err := checkSystemName("readlink", name); err != nil {
		return "", err
	}
	return d.root.Readlink(name)
}

func (d *rootDir) Mkdir(name string, perm uint16) error {
	if err := checkSystemName("mkdir", name); err != nil {
		return err
	}
	if err := d.root.Mkdir(name, 0o700); err != nil {
		return err
	}
	sub, err := d.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(sub.Chmod(perm), sub.Close())
}

func (d *rootDir) Create(name string, perm uint16) (Writer, error) {
	if err := checkSystemName("create", name); err != nil {
		return nil, err
	}
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(perm)&fs.ModePerm|0o600)
	if err != nil {
		return nil, err
	}
	return &rootWriter{f}, nil
}

func (d *rootDir) Symlink(target, name string) error {
	if err := checkSystemName("symlink", name); err != nil {
		return err
	}
	err := d.root.Symlink(target, name)
	if err != nil && hasNoLinks(err) {
		err = &fs.PathError{Op: "symlink", Path: name, Err: fmt.Errorf("%w: %w", ErrImpossible, err)}
	}
	return err
}

func (d *rootDir) Rename(name string, to Dir, newname string, mode RenameMode) error {
	if err := errors.Join(checkSystemName("rename", name), checkSystemName("rename", newname)); err != nil {
		return err
	}
	err := errors.ErrUnsupported
	switch {
	case to != Dir(d):
	case mode == Replace:
		return renameIn(d.root, name, newname)
	case mode == NoReplace:
		err = renameFree(d.root, name, newname)
	}
	if err != nil {
		err = &fs.PathError{Op: "rename", Path: name, Err: err}
	}
	return err
}

// Heritage is not known: files can be renamed within one directory only.
func (d *rootDir) Heritage() (string, error) { return "", nil }

// TryLock takes no lock: no system has one on directories but those with another Dir.
func (d *rootDir) TryLock(LockMode) (bool, error) { return true, nil }

// IsPrivate says so of every directory: package os does not tell who may do what.
func (d *rootDir) IsPrivate() (bool, error) { return true, nil }

func (d *rootDir) RemoveDir(name string) error {
	fi, err := d.lstat(name)
	if err == nil && !fi.IsDir() {
		err = &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return err
	}
	return d.Remove(name)
}

func (d *rootDir) Remove(name string) error {
	if err := checkSystemName("remove", name); err != nil {
		return err
	}
	return d.root.Remove(name)
}

func (d *rootDir) Chmod(perm uint16) error {
	fi, err := d.root.Lstat(".")
	if err != nil {
		return err
	}
	special := fi.Mode() & (fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
	return d.root.Chmod(".", special|fs.FileMode(perm)&fs.ModePerm)
}

func (d *rootDir) Sync() error {
	return syncRoot(d.root)
}

func (d *rootDir) Close() error {
	return d.root.Close()
}

type rootReader struct{ *os.File }

func (r *rootReader) Stat(st *Stat) error {
	fi, err := r.File.Stat()
	if err != nil {
		return err
	}
	*st = statOf(fi)
	return nil
}

type rootWriter struct{ *os.File }

// Inherit does nothing: package os knows of no more than a file's mode.
func (w *rootWriter) Inherit(Reader) (int, bool, error) { return 0, false, nil }

func (w *rootWriter) Chmod(perm uint16) error {
	return w.File.Chmod(fs.FileMode(perm) & fs.ModePerm)
}
