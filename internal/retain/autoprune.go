package retain

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

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/health"
	"github.com/boocode/filestore/internal/vfs"
)

const (
	// pruneEvery is how often a store is pruned by itself at most.
	pruneEvery = 24 * time.Hour
	// autoTime and autoCopy bound what that takes.
	autoTime = 5 * time.Minute
	autoCopy = 256 << 20
	// worthwhile is how many bytes must come of it, if no snapshot goes.
	worthwhile = 16 << 20

	retentionName = "retention.json"
)

// retentionFile is the file retention.json beside the stores, by which the user
// says what stays (docs/reference/cli.md). What it does not say is as in defaultRetention.
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
	return &Retention{KeepLast: f.KeepLast, KeepWithin: days(f.KeepWithinDays),
		KeepDeleted: days(f.KeepDeletedDays), MaxBytes: f.MaxBytes,
		MaxCopy: autoCopy, Wait: 10 * time.Second, Alone: true}, nil
}

// IsPruneDue reports whether the store in a directory should be pruned by itself:
// nobody has tried for a day.
func IsPruneDue(storeDir string) bool {
	st, err := os.Stat(filepath.Join(storeDir, layout.AutoLock))
	if errors.Is(err, fs.ErrNotExist) {
		st, err = os.Stat(filepath.Join(storeDir, layout.FormatName))
	}
	return err == nil && time.Since(st.ModTime()) > pruneEvery
}

// AutoPrune prunes the store in a directory by what retention.json beside it says,
// if that is due and worth it. It gives up after some minutes, when somebody
// writes for long, or if the store is damaged: until the next day then.
func AutoPrune(ctx context.Context, storeDir string, log *slog.Logger) (r *cas.PruneResult, err error) {
	if !IsPruneDue(storeDir) {
		return nil, nil
	}
	defer func() {
		if err != nil && !errors.Is(err, cas.ErrBusy) && !errors.Is(err, context.Canceled) {
			health.Change(storeDir, func(h *health.Health) { // else nobody may hear of it
				h.NoteFailure(fmt.Errorf("prune: %w", err), time.Now())
			})
		}
	}()
	before, _ := os.Stat(filepath.Join(storeDir, layout.AutoLock))
	ctx, cancel := context.WithTimeout(ctx, autoTime)
	defer cancel()
	s, err := cas.Open(ctx, storeDir, &cas.Options{Logger: log})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	lock, err := layout.OpenLock(s.FS(), layout.AutoLock)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if ok, err := lock.TryLock(vfs.Exclusive); !ok || err != nil {
		return nil, err
	}
	tried, err := os.Stat(filepath.Join(storeDir, layout.AutoLock))
	if err != nil || before != nil && !tried.ModTime().Equal(before.ModTime()) {
		return nil, err // another was faster
	}
	now := time.Now()
	if err := os.Chtimes(filepath.Join(storeDir, layout.AutoLock), now, now); err != nil {
		return nil, err
	}
	keep, err := readRetention(filepath.Dir(storeDir))
	if keep == nil || err != nil {
		return nil, err
	}
	plan, err := PlanPrune(ctx, s, keep)
	if err != nil {
		return nil, err
	}
	if len(plan.Dropped) > 0 || plan.Free >= worthwhile {
		if r, err = plan.Do(ctx); err != nil {
			return r, err
		}
	}
	c, err := compactSealed(ctx, s, new(int64), 1)
	if c != nil && c.Packs > 0 {
		r = cmp.Or(r, new(cas.PruneResult))
		r.Freed += c.Freed
	}
	return r, err
}
