package store

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/boocode/filestore/internal/vfs"
)

// Lock files are never deleted, but those of epochs that are over: deleting one lets two processes hold "the"
// lock on two inodes. Order, for whoever takes several: repair, epoch, pack,
// journal.
const (
	repairLock  = "locks/repair"
	journalLock = "locks/journal"
	probeLock   = "locks/probe"
)

func epochLock(n uint64) string { return fmt.Sprintf("locks/epoch-%d", n) }

// openLock opens a lock file, creating it if need be.
func openLock(fsys vfs.FS, name string) (vfs.File, error) {
	return fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
}

// maxWait bounds the wait for a lock that is held for a sync or two: by then
// its holder has been stopped, or its disk has.
const maxWait = 30 * time.Second

// withLock runs fn while it holds the lock on a lock file.
func withLock(ctx context.Context, fsys vfs.FS, name string, fn func() error) error {
	f, err := openLock(fsys, name)
	if err != nil {
		return err
	}
	defer f.Close()
	wait, cancel := context.WithTimeoutCause(ctx, maxWait, fmt.Errorf("another process has held it for %v", maxWait))
	defer cancel()
	if err := vfs.Lock(wait, f, vfs.Exclusive); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return fn()
}

// probeLocks finds out whether the file system's locks exclude anyone: some
// network and user-space file systems grant them to all.
func probeLocks(fsys vfs.FS) error {
	a, err := openLock(fsys, probeLock)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := openLock(fsys, probeLock)
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
	return nil
}
