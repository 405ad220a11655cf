package store

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/boocode/filestore/internal/vfs"
)

// Lock files are never deleted: deleting one lets two processes hold "the"
// lock on two inodes. Order, for whoever takes several: epoch, pack, journal.
const (
	journalLock = "locks/journal"
	probeLock   = "locks/probe"
)

func epochLock(n uint64) string { return fmt.Sprintf("locks/epoch-%d", n) }

// openLock opens a lock file, creating it if need be.
func openLock(fsys vfs.FS, name string) (vfs.File, error) {
	return fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
}

// lock waits for the lock on f until ctx ends. It polls, since a flock that
// waits in the kernel cannot be called off; holders keep it for a sync or two.
func lock(ctx context.Context, f vfs.File, mode vfs.LockMode) error {
	for wait := 50 * time.Microsecond; ; wait = min(wait*2, 5*time.Millisecond) {
		ok, err := f.TryLock(mode)
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for a lock: %w", context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

// withLock runs fn while it holds the lock on a lock file.
func withLock(ctx context.Context, fsys vfs.FS, name string, fn func() error) error {
	f, err := openLock(fsys, name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := lock(ctx, f, vfs.Exclusive); err != nil {
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
	if both, err := b.TryLock(vfs.Exclusive); both || err != nil {
		return fmt.Errorf("%w: two holders at once (%v)", ErrNoLocks, err)
	}
	return nil
}
