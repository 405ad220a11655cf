package vfstest

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	"github.com/boocode/filestore/internal/vfs"
)

// ErrInjected is what every failure made by a Fault matches.
var ErrInjected = errors.New("injected fault")

// A Fault makes one operation fail. The operations of all views that it was
// given to count together, in the order in which they start: every call of a
// method counts, but for Unlock and Space, which never fail.
//
// What fails has no effect, with three exceptions. A write writes the first
// half of its bytes. A Close closes, and gives the lock back. ReadNames gives
// the first name before it fails.
//
// The zero Fault fails the first operation.
type Fault struct {
	At     int64 // the operation that fails, counted from 0; none if negative
	Sticky bool  // fail all operations after that too, as if the disk were gone
	Err    error // matched by the failure beside ErrInjected; default none

	// Trace, unless nil, is called before each operation with the name of the
	// method, by the goroutine that called it. The name is the path from the
	// view given to WithFault or WithFaultDir; of a Rename, "old -> new".
	Trace func(op, name string)

	// Fails, unless nil, says which operations fail beside that at At.
	Fails func(op, name string) bool

	count  atomic.Int64
	fired  atomic.Bool
	broken atomic.Bool
}

// Break makes all operations fail from now on, of whichever goroutine: Trace may
// call it for the operation that it is told of.
func (f *Fault) Break() { f.broken.Store(true) }

// Fired reports whether an operation has failed.
func (f *Fault) Fired() bool { return f.fired.Load() }

// Count returns how many operations were started.
func (f *Fault) Count() int64 { return f.count.Load() }

// next counts an operation and returns the error with which it fails, if any.
func (f *Fault) next(op, name string) error {
	if f.Trace != nil {
		f.Trace(op, name)
	}
	n := f.count.Add(1) - 1
	chosen := f.Fails != nil && f.Fails(op, name)
	if !chosen && !f.broken.Load() && (f.At < 0 || n < f.At || n > f.At && !f.Sticky) {
		return nil
	}
	f.fired.Store(true)
	err := ErrInjected
	if f.Err != nil {
		err = fmt.Errorf("%w: %w", ErrInjected, f.Err)
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// WithFault returns fsys with the failures of f, also in the Files it opens.
func WithFault(fsys vfs.FS, f *Fault) vfs.FS {
	return &faultFS{fsys, f}
}

type faultFS struct {
	fsys  vfs.FS
	fault *Fault
}

func (v *faultFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if err := v.fault.next("OpenFile", name); err != nil {
		return nil, err
	}
	file, err := v.fsys.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &faultFile{file, v.fault, name}, nil
}

func (v *faultFS) Mkdir(name string, perm fs.FileMode) error {
	if err := v.fault.next("Mkdir", name); err != nil {
		return err
	}
	return v.fsys.Mkdir(name, perm)
}

func (v *faultFS) Rename(oldname, newname string) error {
	if err := v.fault.next("Rename", oldname+" -> "+newname); err != nil {
		return err
	}
	return v.fsys.Rename(oldname, newname)
}

func (v *faultFS) Exchange(a, b string) error {
	if err := v.fault.next("Exchange", a+" <-> "+b); err != nil {
		return err
	}
	return v.fsys.Exchange(a, b)
}

func (v *faultFS) Remove(name string) error {
	if err := v.fault.next("Remove", name); err != nil {
		return err
	}
	return v.fsys.Remove(name)
}

func (v *faultFS) ReadDir(name string) ([]string, error) {
	if err := v.fault.next("ReadDir", name); err != nil {
		return nil, err
	}
	return v.fsys.ReadDir(name)
}

func (v *faultFS) Stat(name string) (vfs.Stat, error) {
	if err := v.fault.next("Stat", name); err != nil {
		return vfs.Stat{}, err
	}
	return v.fsys.Stat(name)
}

func (v *faultFS) SyncDir(name string) error {
	if err := v.fault.next("SyncDir", name); err != nil {
		return err
	}
	return v.fsys.SyncDir(name)
}

func (v *faultFS) Space() (free, total int64, err error) { return v.fsys.Space() }

type faultFile struct {
	file  vfs.File
	fault *Fault
	name  string
}

func (v *faultFile) ReadAt(p []byte, off int64) (int, error) {
	if err := v.fault.next("ReadAt", v.name); err != nil {
		return 0, err
	}
	return v.file.ReadAt(p, off)
}

func (v *faultFile) WriteAt(p []byte, off int64) (int, error) {
	if err := v.fault.next("WriteAt", v.name); err != nil {
		n, _ := v.file.WriteAt(p[:len(p)/2], off)
		return n, err
	}
	return v.file.WriteAt(p, off)
}

func (v *faultFile) Stat() (vfs.Stat, error) {
	if err := v.fault.next("Stat", v.name); err != nil {
		return vfs.Stat{}, err
	}
	return v.file.Stat()
}

func (v *faultFile) Sync() error {
	if err := v.fault.next("Sync", v.name); err != nil {
		return err
	}
	return v.file.Sync()
}

func (v *faultFile) Truncate(size int64) error {
	if err := v.fault.next("Truncate", v.name); err != nil {
		return err
	}
	return v.file.Truncate(size)
}

func (v *faultFile) TryLock(mode vfs.LockMode) (bool, error) {
	if err := v.fault.next("TryLock", v.name); err != nil {
		return false, err
	}
	return v.file.TryLock(mode)
}

func (v *faultFile) Unlock() error {
	return v.file.Unlock()
}

func (v *faultFile) Close() error {
	err := v.fault.next("Close", v.name)
	return errors.Join(err, v.file.Close())
}

// WithFaultDir returns d with the failures of f, also in the Dirs, Readers and
// Writers it opens.
func WithFaultDir(d vfs.Dir, f *Fault) vfs.Dir {
	return &faultDir{d, f, "."}
}

type faultDir struct {
	dir   vfs.Dir
	fault *Fault
	path  string
}

// join returns the path of a name. It does not clean, because what the name
// says is for the Dir to judge.
func (v *faultDir) join(name string) string {
	if v.path == "." {
		return name
	}
	return v.path + "/" + name
}

func (v *faultDir) Stat(st *vfs.Stat) error {
	if err := v.fault.next("Stat", v.path); err != nil {
		return err
	}
	return v.dir.Stat(st)
}

func (v *faultDir) ReadNames(fn func(name []byte, kind vfs.Kind)) error {
	if err := v.fault.next("ReadNames", v.path); err != nil {
		first := true
		listErr := v.dir.ReadNames(func(name []byte, kind vfs.Kind) {
			if first {
				fn(name, kind)
			}
			first = false
		})
		return errors.Join(err, listErr)
	}
	return v.dir.ReadNames(fn)
}

func (v *faultDir) Lstat(name string, st *vfs.Stat) error {
	if err := v.fault.next("Lstat", v.join(name)); err != nil {
		return err
	}
	return v.dir.Lstat(name, st)
}

func (v *faultDir) OpenDir(name string) (vfs.Dir, error) {
	path := v.join(name)
	if err := v.fault.next("OpenDir", path); err != nil {
		return nil, err
	}
	sub, err := v.dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &faultDir{sub, v.fault, path}, nil
}

func (v *faultDir) Open(name string, st *vfs.Stat) (vfs.Reader, error) {
	path := v.join(name)
	if err := v.fault.next("Open", path); err != nil {
		return nil, err
	}
	r, err := v.dir.Open(name, st)
	if err != nil {
		return nil, err
	}
	return &faultReader{r, v.fault, path}, nil
}

func (v *faultDir) Readlink(name string) (string, error) {
	if err := v.fault.next("Readlink", v.join(name)); err != nil {
		return "", err
	}
	return v.dir.Readlink(name)
}

func (v *faultDir) Mkdir(name string, perm uint16) error {
	if err := v.fault.next("Mkdir", v.join(name)); err != nil {
		return err
	}
	return v.dir.Mkdir(name, perm)
}

func (v *faultDir) Create(name string, perm uint16) (vfs.Writer, error) {
	path := v.join(name)
	if err := v.fault.next("Create", path); err != nil {
		return nil, err
	}
	w, err := v.dir.Create(name, perm)
	if err != nil {
		return nil, err
	}
	return &faultWriter{w, v.fault, path}, nil
}

func (v *faultDir) Symlink(target, name string) error {
	if err := v.fault.next("Symlink", v.join(name)); err != nil {
		return err
	}
	return v.dir.Symlink(target, name)
}

func (v *faultDir) Rename(name string, to vfs.Dir, newname string, mode vfs.RenameMode) error {
	dir, path := to, newname
	if f, ok := to.(*faultDir); ok {
		dir, path = f.dir, f.join(newname)
	}
	if err := v.fault.next("Rename", v.join(name)+" -> "+path); err != nil {
		return err
	}
	return v.dir.Rename(name, dir, newname, mode)
}

func (v *faultDir) Heritage() (string, error) {
	if err := v.fault.next("Heritage", v.path); err != nil {
		return "", err
	}
	return v.dir.Heritage()
}

func (v *faultDir) TryLock(mode vfs.LockMode) (bool, error) {
	if err := v.fault.next("TryLock", v.path); err != nil {
		return false, err
	}
	return v.dir.TryLock(mode)
}

func (v *faultDir) IsPrivate() (bool, error) { return v.dir.IsPrivate() }

func (v *faultDir) RemoveDir(name string) error {
	if err := v.fault.next("Remove", v.join(name)); err != nil {
		return err
	}
	return v.dir.RemoveDir(name)
}

func (v *faultDir) Remove(name string) error {
	if err := v.fault.next("Remove", v.join(name)); err != nil {
		return err
	}
	return v.dir.Remove(name)
}

func (v *faultDir) Chmod(perm uint16) error {
	if err := v.fault.next("Chmod", v.path); err != nil {
		return err
	}
	return v.dir.Chmod(perm)
}

func (v *faultDir) Sync() error {
	if err := v.fault.next("Sync", v.path); err != nil {
		return err
	}
	return v.dir.Sync()
}

func (v *faultDir) Close() error {
	err := v.fault.next("Close", v.path)
	return errors.Join(err, v.dir.Close())
}

type faultReader struct {
	r     vfs.Reader
	fault *Fault
	path  string
}

func (v *faultReader) Read(p []byte) (int, error) {
	if err := v.fault.next("Read", v.path); err != nil {
		return 0, err
	}
	return v.r.Read(p)
}

func (v *faultReader) Stat(st *vfs.Stat) error {
	if err := v.fault.next("Stat", v.path); err != nil {
		return err
	}
	return v.r.Stat(st)
}

func (v *faultReader) Close() error {
	err := v.fault.next("Close", v.path)
	return errors.Join(err, v.r.Close())
}

type faultWriter struct {
	w     vfs.Writer
	fault *Fault
	path  string
}

func (v *faultWriter) Write(p []byte) (int, error) {
	if err := v.fault.next("Write", v.path); err != nil {
		n, _ := v.w.Write(p[:len(p)/2])
		return n, err
	}
	return v.w.Write(p)
}

func (v *faultWriter) Inherit(from vfs.Reader) (int, bool, error) {
	if err := v.fault.next("Inherit", v.path); err != nil {
		return 0, false, err
	}
	if f, ok := from.(*faultReader); ok {
		from = f.r
	}
	return v.w.Inherit(from)
}

func (v *faultWriter) Chmod(perm uint16) error {
	if err := v.fault.next("Chmod", v.path); err != nil {
		return err
	}
	return v.w.Chmod(perm)
}

func (v *faultWriter) Sync() error {
	if err := v.fault.next("Sync", v.path); err != nil {
		return err
	}
	return v.w.Sync()
}

func (v *faultWriter) Close() error {
	err := v.fault.next("Close", v.path)
	return errors.Join(err, v.w.Close())
}
