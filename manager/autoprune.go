package manager

import (
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
	b, err := os.ReadFile(name)
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
		MaxCopy: autoCopy, Wait: 10 * time.Second}, nil
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
	if free, _, err := vfs.Space(storeDir); err == nil {
		keep.MaxCopy = min(keep.MaxCopy, max(free/2, 1))
	}
	plan, err := PlanPrune(ctx, s, keep, nil)
	if err != nil || len(plan.Dropped) == 0 && plan.Free < worthwhile {
		return nil, err
	}
	return plan.Do(ctx)
}

// care prunes the stores that an engine has open, until it is closed.
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
		dirs := make(map[string]bool)
		for _, wt := range e.trees {
			dirs[wt.dir] = true
		}
		e.mu.Unlock()
		for dir := range dirs {
			r, err := AutoPrune(ctx, dir, e.opts.Logger)
			switch {
			case ctx.Err() != nil:
			case err != nil:
				e.opts.Logger.Warn("store not pruned", "path", dir, "err", err)
			case r != nil:
				e.opts.Logger.Info("store pruned", "path", dir, "snapshots", r.Dropped, "freed", r.Freed)
			}
		}
	}
}

// ErrNoSpace: the disk of the store is nearly full, and nothing is captured.
var ErrNoSpace = errors.New("the disk is nearly full")

const (
	// minFree is what is left free for others, and for restores: by default so
	// many bytes, or a part of a small disk.
	minFree     = 256 << 20
	minFreePart = 50
)

// checkSpace returns an error if less than want bytes are free where a store is; 0
// is the default, a negative number no limit.
func checkSpace(storeDir string, want int64) error {
	free, total, err := vfs.Space(storeDir)
	if err != nil || want < 0 {
		return nil
	}
	if want == 0 {
		want = min(minFree, total/minFreePart)
	}
	if free < want {
		return fmt.Errorf("%w: %d bytes are free where %s is, and below %d nothing is captured", ErrNoSpace, free, storeDir, want)
	}
	return nil
}
