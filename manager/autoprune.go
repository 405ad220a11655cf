package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

const (
	// pruneEvery is how often a store is pruned by itself at most.
	pruneEvery = 24 * time.Hour
	// autoTime and autoCopy bound what that takes.
	autoTime = 5 * time.Minute
	autoCopy = 256 << 20
	// worthwhile is how many bytes must come of it, if no snapshot goes.
	worthwhile = 16 << 20

	autoLock      = "locks/autoprune" // its time stamp is that of the last try
	retentionName = "retention.json"
)

// retentionFile is the file retention.json beside the stores, by which the user
// says what stays (docs/cli.md). What it does not say is as in defaultRetention.
type retentionFile struct {
	Auto            bool    `json:"auto"` // false: stores are not pruned by themselves
	KeepLast        int     `json:"keepLast"`
	KeepWithinDays  float64 `json:"keepWithinDays"`
	KeepDeletedDays float64 `json:"keepDeletedDays"`
	MaxBytes        int64   `json:"maxBytes"`
}

// defaultRetention keeps more than anybody has been seen to ask for: it is there
// to bound what nobody looks after.
var defaultRetention = retentionFile{Auto: true, KeepLast: 1000, KeepWithinDays: 365, KeepDeletedDays: 30}

// readRetention reads what is to stay of the stores in a directory; nil: they
// are not to be pruned by themselves.
func readRetention(storeRoot string) (*Retention, error) {
	f := defaultRetention
	name := filepath.Join(storeRoot, retentionName)
	b, err := vfs.ReadOwn(name)
	if err == nil {
		err = json.Unmarshal(b, &f)
		if err == nil && (f.KeepLast < 0 || f.KeepWithinDays < 0 || f.KeepDeletedDays < 0 || f.MaxBytes < 0) {
			err = errors.New("a number below 0")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if !f.Auto {
		return nil, nil
	}
	days := func(n float64) time.Duration { return time.Duration(min(n, 100*365) * 24 * float64(time.Hour)) }
	return &Retention{KeepLast: f.KeepLast, KeepWithin: days(f.KeepWithinDays), KeepDeleted: days(f.KeepDeletedDays), MaxBytes: f.MaxBytes,
		MaxCopy: autoCopy, Wait: 10 * time.Second, Alone: true}, nil
}

// IsPruneDue reports whether the store in a directory should be pruned by itself:
// nobody has tried for a day.
func IsPruneDue(storeDir string) bool {
	st, err := os.Stat(filepath.Join(storeDir, autoLock))
	if errors.Is(err, fs.ErrNotExist) {
		st, err = os.Stat(filepath.Join(storeDir, "FORMAT"))
	}
	return err == nil && time.Since(st.ModTime()) > pruneEvery
}

// AutoPrune prunes the store in a directory by what retention.json beside it says,
// if that is due and worth it. It gives up after some minutes, when somebody
// writes for long, or if the store is damaged: until the next day then.
func AutoPrune(ctx context.Context, storeDir string, log *slog.Logger) (r *store.PruneResult, err error) {
	if !IsPruneDue(storeDir) {
		return nil, nil
	}
	defer func() {
		if err != nil && !errors.Is(err, store.ErrBusy) && !errors.Is(err, context.Canceled) {
			ChangeHealth(storeDir, func(h *Health) { h.NoteFailure(fmt.Errorf("prune: %w", err), time.Now()) }) // nobody may hear of it else
		}
	}()
	before, _ := os.Stat(filepath.Join(storeDir, autoLock))
	ctx, cancel := context.WithTimeout(ctx, autoTime)
	defer cancel()
	s, err := store.Open(ctx, storeDir, &store.Options{Logger: log})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	lock, err := s.FS().OpenFile(autoLock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if ok, err := lock.TryLock(vfs.Exclusive); !ok || err != nil {
		return nil, err
	}
	if now, err := os.Stat(filepath.Join(storeDir, autoLock)); err != nil || before != nil && !now.ModTime().Equal(before.ModTime()) {
		return nil, err // another was faster
	}
	now := time.Now()
	if err := os.Chtimes(filepath.Join(storeDir, autoLock), now, now); err != nil {
		return nil, err
	}
	keep, err := readRetention(filepath.Dir(storeDir))
	if keep == nil || err != nil {
		return nil, err
	}
	plan, err := PlanPrune(ctx, s, keep, nil)
	if err != nil || len(plan.Dropped) == 0 && plan.Free < worthwhile {
		return nil, err
	}
	return plan.Do(ctx)
}

// care prunes the stores that an engine has open, and checks a part of them while
// nobody uses it, until it is closed.
func (e *Engine) care(ctx context.Context) {
	const look = 10 * time.Minute
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		e.mu.Lock()
		dirs, used := make(map[string]bool), false
		for _, wt := range e.trees {
			dirs[wt.dir] = true
			used = used || wt.managers > 0
		}
		e.mu.Unlock()
		if err := AutoPruneSiblings(ctx, e.opts.StoreRoot, e.opts.Logger); err != nil && ctx.Err() == nil {
			e.opts.Logger.Warn("other stores not looked at", "path", e.opts.StoreRoot, "err", err)
		}
		for dir := range dirs {
			r, err := AutoPrune(ctx, dir, e.opts.Logger)
			switch {
			case ctx.Err() != nil:
			case err != nil:
				e.opts.Logger.Warn("store not pruned", "path", dir, "err", err)
			case r != nil:
				e.opts.Logger.Info("store pruned", "path", dir, "snapshots", r.Dropped, "freed", r.Freed)
			}
			if used { // a turn is not to wait for the disk
				continue
			}
			if err := checkPart(ctx, dir, e.opts.Logger); err != nil && ctx.Err() == nil {
				e.opts.Logger.Warn("store not checked", "path", dir, "err", err)
			}
		}
	}
}

const (
	// minFree is what is left free for others, and for restores: by default so
	// many bytes, or a part of a small disk.
	minFree     = 256 << 20
	minFreePart = 50
)

// reserve returns how many bytes are to stay free where a store is, if want is what
// the user has said: 0 is the default, a negative number no limit.
func reserve(s *store.Store, want int64) int64 {
	_, total, err := s.FS().Space()
	if err != nil || want < 0 {
		return 0
	}
	return cmp.Or(want, min(minFree, total/minFreePart))
}

// checkSpace returns an error if fewer bytes are free where a store is.
func checkSpace(s *store.Store, storeDir string, keep int64) error {
	free, _, err := s.FS().Space()
	if err == nil && free < keep {
		return &store.SpaceError{Dir: storeDir, Free: free, Keep: keep}
	}
	return nil
}
