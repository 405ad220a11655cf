package layout

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/boocode/filestore/internal/vfs"
)

// OpenLock opens a lock file, creating it if need be.
func OpenLock(fsys vfs.FS, name string) (vfs.File, error) {
	return fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
}

// Lock waits for the lock on a lock file, and holds it until the file is closed.
func Lock(ctx context.Context, fsys vfs.FS, name string) (vfs.File, error) {
	f, err := OpenLock(fsys, name)
	if err != nil {
		return nil, err
	}
	if err := vfs.Lock(ctx, f, vfs.Exclusive); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// MaxWait bounds the wait for a lock that is held for a sync or two: by then
// its holder has been stopped, or its disk has.
const MaxWait = 30 * time.Second

// WithLock runs fn while it holds the lock on a lock file.
func WithLock(ctx context.Context, fsys vfs.FS, name string, fn func() error) error {
	wait, cancel := context.WithTimeoutCause(ctx, MaxWait, fmt.Errorf("another process has held it for %v", MaxWait))
	defer cancel()
	f, err := Lock(wait, fsys, name)
	if err != nil {
		return err
	}
	defer f.Close()
	return fn()
}

// ProbeLocks finds out whether the file system's locks exclude anyone: some
// network and user-space file systems grant them to all. What it has found in this boot
// of the machine it takes from the lock file, unless the disk is remote: that may have
// been mounted again, in another way.
func ProbeLocks(fsys vfs.FS, remote bool) error {
	a, err := OpenLock(fsys, ProbeLock)
	if err != nil {
		return err
	}
	defer a.Close()
	var found []byte
	if st, err := a.Stat(); err == nil && !remote && vfs.BootID() != "" {
		found = fmt.Appendf(nil, "%s %x\n", vfs.BootID(), st.Dev)
		was := make([]byte, len(found))
		if _, err := a.ReadAt(was, 0); err == nil && string(was) == string(found) {
			return nil
		}
	}
	b, err := OpenLock(fsys, ProbeLock)
	if err != nil {
		return err
	}
	defer b.Close()
	got, err := a.TryLock(vfs.Exclusive)
	if err != nil {
		return fmt.Errorf("%w: %v", ErrNoLocks, err)
	}
	if !got {
		return nil // somebody else is probing: they do exclude
	}
	both, err := b.TryLock(vfs.Exclusive)
	if err != nil {
		return fmt.Errorf("%w: %v", ErrNoLocks, err)
	}
	if both {
		return fmt.Errorf("%w: two holders at once", ErrNoLocks)
	}
	if found != nil {
		a.WriteAt(found, 0) // if it cannot, the next process tries the locks again
	}
	return nil
}
