package cas

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/vfs"
)

// use takes a share of [layout.UseLock], as all do who have a store open: whoever moves or
// removes the whole store can know that nobody has. It is nil, without an error, where a reader
// finds no such file: a store that was only read since it was made by an older
// program, or one that cannot be written; or where locks do not work.
func use(ctx context.Context, fsys vfs.FS, readOnly bool) (vfs.File, error) {
	flag := os.O_RDWR | os.O_CREATE
	if readOnly {
		flag = os.O_RDONLY
	}
	f, err := fsys.OpenFile(layout.UseLock, flag, 0o600)
	if readOnly && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeoutCause(ctx, layout.MaxWait,
		fmt.Errorf("another program has been moving or removing the store for %v", layout.MaxWait))
	defer cancel()
	err = vfs.Lock(wait, f, vfs.Shared)
	if errors.Is(err, errors.ErrUnsupported) { // so nobody can hold it
		if readOnly {
			return nil, f.Close()
		}
		err = fmt.Errorf("%w: %v", layout.ErrNoLocks, err)
	}
	if err == nil {
		err = isThere(fsys, f)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", layout.UseLock, err)
	}
	return f, nil
}

// hold takes over a share, nil if there is none. From here on the store finds out if its
// directory is removed, or another takes its place: its files are known by their names, so
// it would write into that, and appends to a journal that nobody reads.
func (s *Store) hold(lock vfs.File) {
	if s.share = lock; lock == nil {
		return
	}
	s.there = func() error {
		err := isThere(s.fsys, lock)
		if errors.Is(err, fs.ErrNotExist) {
			err = layout.ErrGone
		}
		return err
	}
	s.jmu.Lock()
	defer s.jmu.Unlock()
	s.j.There = s.there
}

// isThere returns an error that matches fs.ErrNotExist unless an open lock file is
// the one at its path: else the store was moved, or removed, before it was locked.
func isThere(fsys vfs.FS, lock vfs.File) error {
	open, err := lock.Stat()
	if err != nil {
		return err
	}
	st, err := fsys.Stat(layout.UseLock)
	if err == nil && (st.Ino != open.Ino || st.Dev != open.Dev) {
		err = &fs.PathError{Op: "lock", Path: layout.UseLock, Err: fs.ErrNotExist}
	}
	return err
}

// holdWait is how long [Hold] waits for those who have a store open: a command
// that looks is done by then, and who stays is not worth waiting for.
const holdWait = 2 * time.Second

// A Held is the sole use of a store: nobody has it open, and who wants to open it
// waits. It is not for more than moving or removing the whole of it.
type Held struct {
	stores vfs.FS
	name   string
	lock   vfs.File
}

// Hold takes the sole use of the store that has a name in the directory stores.
// The error matches [ErrBusy] if somebody has it open, fs.ErrNotExist if there is
// none.
func Hold(ctx context.Context, stores vfs.FS, name string) (*Held, error) {
	h := &Held{stores: stores, name: name}
	fsys := h.fs()
	f, err := fsys.OpenFile(layout.UseLock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("hold store %s: %w", name, err)
	}
	wait, cancel := context.WithTimeoutCause(ctx, holdWait, errInUse)
	defer cancel()
	if err = vfs.Lock(wait, f, vfs.Exclusive); err == nil {
		err = isThere(fsys, f)
	}
	if err != nil {
		f.Close()
		if errors.Is(err, errInUse) {
			err = fmt.Errorf("%w: %w", ErrBusy, errInUse)
		}
		return nil, fmt.Errorf("hold store %s: %w", name, err)
	}
	h.lock = f
	return h, nil
}

var errInUse = errors.New("another process has it open")

func (h *Held) fs() vfs.FS { return vfs.Sub(h.stores, h.name) }

// Close gives the store back.
func (h *Held) Close() error { return h.lock.Close() }

// Rename gives the store another name. Programs that do not know of it may only
// read the store from then on. Whatever comes between, the store is whole under
// one of the two names.
//
// The error matches fs.ErrExist if something has the new name.
func (h *Held) Rename(name string) error {
	// A program that does not know of it would begin another line for the directory,
	// and prune the one that there is, for its old path is gone.
	err := Mark(h.fs(), FeatureMoved)
	if err == nil {
		_, err = h.stores.Stat(name)
		switch {
		case err == nil:
			err = &fs.PathError{Op: "rename", Path: name, Err: fs.ErrExist}
		case errors.Is(err, fs.ErrNotExist):
			err = nil
		}
	}
	if err == nil {
		err = h.stores.Rename(h.name, name)
	}
	if err == nil {
		h.name = name
		err = h.stores.SyncDir(".")
	}
	if err != nil {
		return fmt.Errorf("rename store %s: %w", h.name, err)
	}
	return nil
}

// removedPrefix is how names begin of stores that are being removed.
const removedPrefix = ".removed-"

// Remove removes the store with all that is in it. It is gone from the first step
// on: what a crash leaves has a name that no store has, and [Sweep] removes it.
func (h *Held) Remove() error {
	name := removedPrefix + layout.RandomName()
	err := h.stores.Rename(h.name, name)
	if err == nil {
		err = h.stores.SyncDir(".")
	}
	if err == nil && removeAll(h.stores, name) != nil {
		// What is open may keep its name, on Windows, and so the lock the directory that it is in.
		err = errors.Join(h.lock.Close(), removeAll(h.stores, name))
	}
	if err != nil {
		return fmt.Errorf("remove store %s: %w", h.name, err)
	}
	return nil
}

// Sweep removes what is left of stores that were being removed when a process was
// killed.
func Sweep(stores vfs.FS) error {
	names, err := stores.ReadDir(".")
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if strings.HasPrefix(name, removedPrefix) {
			errs = append(errs, removeAll(stores, name))
		}
	}
	return errors.Join(errs...)
}

// removeAll removes a directory with all below it. Another may do so, too.
func removeAll(fsys vfs.FS, dir string) error {
	st, err := fsys.Stat(dir)
	if err == nil && st.Kind == vfs.Directory {
		var names []string
		names, err = fsys.ReadDir(dir)
		for _, name := range names {
			if err == nil {
				err = removeAll(fsys, dir+"/"+name)
			}
		}
	}
	if err == nil {
		err = fsys.Remove(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
