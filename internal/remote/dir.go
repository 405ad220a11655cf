package remote

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Dir is a [Backend] in a directory: on a disk that is carried about, or a file system that
// several machines mount. An object is a file; a hard link is what gives it its name, which
// of several is done by one. What a crash leaves is in .tmp, and goes a day later.
//
// Who may write into the directory may use all that is put into it: that is for its owner alone,
// unless the group or all may write there. That they may read it is mostly the umask's doing.
type Dir struct {
	root string
	mode fs.FileMode // of the directories in it
}

// onlyOwner is the mode of directories that are for nobody else.
const onlyOwner fs.FileMode = 0o700

// tmpName has files being written. No key begins with a dot.
const tmpName = ".tmp"

// OpenDir returns the Backend in a directory, which must be there.
func OpenDir(root string) (*Dir, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	st, err := os.Stat(root)
	if err == nil && !st.IsDir() {
		err = &fs.PathError{Op: "open", Path: root, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return &Dir{root, sharedMode(st.Mode())}, nil
}

// sharedMode returns the mode of what is made in a directory.
func sharedMode(root fs.FileMode) fs.FileMode {
	mode := onlyOwner
	if root&0o020 != 0 {
		mode |= 0o070 | root&fs.ModeSetgid
	}
	if root&0o002 != 0 {
		mode |= 0o007
	}
	return mode
}

// Root returns the directory.
func (d *Dir) Root() string { return d.root }

func (d *Dir) path(key string) (string, error) {
	if err := CheckKey(key); err != nil {
		return "", err
	}
	return filepath.Join(d.root, filepath.FromSlash(key)), nil
}

// Create implements [Backend].
func (d *Dir) Create(ctx context.Context, key string, data []byte) error {
	return d.put(ctx, key, data, func(tmp, name string) error {
		err := os.Link(tmp, name)
		if errors.Is(err, fs.ErrExist) {
			return ErrExists
		}
		return errors.Join(err, os.Remove(tmp))
	})
}

// Overwrite implements [Backend].
func (d *Dir) Overwrite(ctx context.Context, key string, data []byte) error {
	return d.put(ctx, key, data, os.Rename)
}

// put writes a file, whole and synced under another name, before it gets its own by name.
func (d *Dir) put(ctx context.Context, key string, data []byte, name func(tmp, name string) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	to, err := d.path(key)
	if err != nil {
		return err
	}
	tmp, err := d.writeTmp(data)
	if err == nil {
		put := func() error {
			if err := d.makeDirs(filepath.Dir(to)); err != nil {
				return err
			}
			return name(tmp, to)
		}
		if err = put(); errors.Is(err, fs.ErrPermission) && d.mode != onlyOwner {
			time.Sleep(20 * time.Millisecond) // another has just made the directory, and opens it next
			err = put()
		}
	}
	if err == nil {
		return said("create", key, syncDir(filepath.Dir(to)))
	}
	if tmp != "" {
		os.Remove(tmp) // it goes later if it cannot now
	}
	return said("create", key, err)
}

// writeTmp writes a file that has no key yet, durably.
func (d *Dir) writeTmp(data []byte) (name string, err error) {
	dir := filepath.Join(d.root, tmpName)
	if err := d.makeDir(dir); err != nil {
		return "", err
	}
	var random [16]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	name = filepath.Join(dir, hex.EncodeToString(random[:]))
	const own = 0o600
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, own)
	if err != nil {
		return "", err
	}
	if mode := d.mode & 0o666; mode != own {
		err = f.Chmod(mode)
	}
	if err == nil {
		_, err = f.Write(data)
	}
	// The bytes before the name: it may reach the disk first.
	return name, errors.Join(cmp.Or(err, f.Sync()), f.Close())
}

// makeDirs makes a directory below the root, and those above it, durably.
func (d *Dir) makeDirs(dir string) error {
	if _, err := os.Stat(dir); err == nil || dir == d.root {
		return err
	}
	if err := d.makeDirs(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := d.makeDir(dir); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// makeDir makes a directory, unless it is there, for those who may use it.
func (d *Dir) makeDir(name string) error {
	err := os.Mkdir(name, onlyOwner)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil || d.mode == onlyOwner {
		return err
	}
	return os.Chmod(name, d.mode) // without the umask
}

func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // it has no such thing
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// said adds to an error what was to be done, and what it means to who asks for a [Backend].
func said(op, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist) && op != "create":
		err = ErrNoKey
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, fs.ErrPermission),
		errors.Is(err, syscall.EROFS), errors.Is(err, errors.ErrUnsupported), errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return fmt.Errorf("%s %s: %w", op, key, err)
}

// Get implements [Backend].
func (d *Dir) Get(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	name, err := d.path(key)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is not waited for
	if err != nil {
		return nil, said("get", key, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil {
		err = isObject(st)
	}
	if err != nil {
		return nil, said("get", key, err)
	}
	rest := max(st.Size()-off, 0)
	if n < 0 || n > rest {
		n = rest
	}
	if n > MaxObject {
		return nil, fmt.Errorf("%w: get %s: it has %d bytes, the limit is %d", ErrRefused, key, n, MaxObject)
	}
	b := make([]byte, n)
	got, err := f.ReadAt(b, off)
	if err == io.EOF && int64(got) == n {
		err = nil
	}
	if err != nil {
		return nil, said("get", key, err)
	}
	return b, nil
}

// isObject refuses what others who may write into the directory have put in an object's place.
func isObject(st fs.FileInfo) error {
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is not a regular file", ErrRefused, st.Name())
	}
	return nil
}

// Stat implements [Backend].
func (d *Dir) Stat(ctx context.Context, key string) (int64, error) {
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	name, err := d.path(key)
	if err != nil {
		return 0, err
	}
	st, err := os.Stat(name)
	if err == nil {
		err = isObject(st)
	}
	if err != nil {
		return 0, said("stat", key, err)
	}
	return st.Size(), nil
}

// Delete implements [Backend].
func (d *Dir) Delete(ctx context.Context, key string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	name, err := d.path(key)
	if err != nil {
		return err
	}
	err = os.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = syncDir(filepath.Dir(name))
	}
	return said("delete", key, err)
}

// List implements [Backend].
func (d *Dir) List(ctx context.Context, prefix, after string) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		w := &dirList{ctx: ctx, prefix: prefix, after: after, yield: yield}
		if _, err := w.dir(d.root, ""); err != nil {
			yield(Item{}, fmt.Errorf("list %s: %w", prefix, err))
		}
	}
}

type dirList struct {
	ctx           context.Context
	prefix, after string
	yield         func(Item, error) bool
}

// dir lists what is in a directory, whose keys begin with at. It reports false if nobody
// wants more.
func (w *dirList) dir(name, at string) (goOn bool, err error) {
	if err := context.Cause(w.ctx); err != nil {
		return false, err
	}
	list, err := os.ReadDir(name)
	if errors.Is(err, fs.ErrNotExist) && at != "" { // removed meanwhile
		return true, nil
	}
	if err != nil {
		return false, err
	}
	key := func(e fs.DirEntry) string { // a directory sorts as its keys do
		if e.IsDir() {
			return e.Name() + "/"
		}
		return e.Name()
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return cmp.Compare(key(a), key(b)) })
	for _, e := range list {
		k := at + key(e)
		if e.Name()[0] == '.' || !strings.HasPrefix(k, w.prefix) && !(e.IsDir() && strings.HasPrefix(w.prefix, k)) {
			continue
		}
		if e.IsDir() {
			if k < w.after && !strings.HasPrefix(w.after, k) {
				continue
			}
			if goOn, err := w.dir(filepath.Join(name, e.Name()), k); err != nil || !goOn {
				return false, err
			}
			continue
		}
		st, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) || k <= w.after {
			continue
		}
		if err != nil {
			return false, err
		}
		if !w.yield(Item{k, st.Size()}, nil) {
			return false, nil
		}
	}
	return true, nil
}

// Sweep removes what is left of writers that were killed.
func (d *Dir) Sweep() error {
	list, err := os.ReadDir(filepath.Join(d.root, tmpName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var errs []error
	for _, e := range list {
		st, err := e.Info()
		if err == nil && time.Since(st.ModTime()) > 24*time.Hour {
			errs = append(errs, os.Remove(filepath.Join(d.root, tmpName, e.Name())))
		}
	}
	return errors.Join(append(errs, err)...)
}
