package vfs

import (
	"context"
	"fmt"
	"time"
)

// Lock waits for the lock on f until ctx ends. It polls, since a lock that
// waits in the kernel cannot be called off.
func Lock(ctx context.Context, f File, mode LockMode) error {
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
