package retain

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/vfs"
)

const (
	// siblingsEvery is how often the stores beside one that is used are looked at.
	siblingsEvery = 24 * time.Hour
	// maxSiblings is how many of them, at most: the others come the next days.
	maxSiblings = 1000

	siblingsLock = "siblings.lock" // its time stamp is that of the last look
	siblingsName = "siblings.json"
)

// siblings is what is remembered from one look to the next. It is derived: without it
// stores whose directories are gone stay longer.
type siblings struct {
	Next string               `json:"next"` // name of the store where the next look begins
	Gone map[string]time.Time `json:"gone"` // since when the directories of a store have been seen to be gone
}

func readSiblings(storeRoot string) (marks siblings) {
	b, err := vfs.ReadOwn(filepath.Join(storeRoot, siblingsName))
	if err != nil || json.Unmarshal(b, &marks) != nil || marks.Gone == nil {
		return siblings{Gone: make(map[string]time.Time)}
	}
	return marks
}

func (s *siblings) write(storeRoot string) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	// Others may write there: no name that they know is one into which to write.
	f, err := os.CreateTemp(storeRoot, siblingsName+".new-")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(storeRoot, siblingsName))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// AutoPruneSiblings looks at the stores in a directory, once a day at most, and
// prunes those of which all directories have been gone for as long as
// retention.json says. What has a name stays; a store in which nothing stays is
// removed. A look costs a few stats for each store, of a thousand at most.
func AutoPruneSiblings(ctx context.Context, storeRoot string, log *slog.Logger) error {
	name := filepath.Join(storeRoot, siblingsLock)
	if st, err := os.Stat(name); err == nil && time.Since(st.ModTime()) < siblingsEvery {
		return nil
	}
	root := vfs.OS(storeRoot)
	lock, err := layout.OpenLock(root, siblingsLock)
	if err != nil {
		return err
	}
	defer lock.Close()
	if ok, err := lock.TryLock(vfs.Exclusive); !ok || err != nil {
		return err
	}
	now := time.Now()
	if err := os.Chtimes(name, now, now); err != nil {
		return err
	}
	keep, err := readRetention(storeRoot)
	if keep == nil || err != nil || keep.KeepDeleted == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, autoTime)
	defer cancel()
	return errors.Join(lookAtSiblings(ctx, storeRoot, keep, now, log), cas.Sweep(root))
}

func lookAtSiblings(ctx context.Context, storeRoot string, keep *Retention, now time.Time, log *slog.Logger) error {
	names, err := places.Names(storeRoot)
	if err != nil {
		return err
	}
	marks := readSiblings(storeRoot)
	maps.DeleteFunc(marks.Gone, func(name string, _ time.Time) bool { return !slices.Contains(names, name) })
	at, _ := slices.BinarySearch(names, marks.Next)
	names = append(slices.Clone(names[at:]), names[:at]...)
	marks.Next = ""
	if len(names) > maxSiblings {
		marks.Next = names[maxSiblings]
		names = names[:maxSiblings]
	}
	var due []string
	for _, name := range names {
		since, known := marks.Gone[name]
		switch {
		case !places.AllGone(filepath.Join(storeRoot, name)):
			delete(marks.Gone, name)
		case !known || since.After(now):
			marks.Gone[name] = now
		case now.Sub(since) > keep.KeepDeleted:
			due = append(due, name)
		}
	}
	if err := marks.write(storeRoot); err != nil {
		return err
	}
	for _, name := range due {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		dir := filepath.Join(storeRoot, name)
		r, removed, err := pruneGone(ctx, dir, keep, log)
		switch {
		case errors.Is(err, cas.ErrBusy): // the next day then
		case err != nil:
			log.Warn("store of a directory that is gone not pruned", "path", dir, "err", err)
		case removed:
			log.Info("store of a directory that is gone removed", "path", dir)
		case r != nil:
			log.Info("store of a directory that is gone pruned", "path", dir, "snapshots", r.Dropped, "freed", r.Freed)
		}
	}
	return nil
}

// pruneGone prunes the store of a directory that is gone, and removes it if nothing
// stays in it.
func pruneGone(
	ctx context.Context, dir string, keep *Retention, log *slog.Logger,
) (r *cas.PruneResult, removed bool, err error) {
	s, err := cas.Open(ctx, dir, &cas.Options{Logger: log})
	if err != nil {
		return nil, false, err
	}
	plan, err := PlanPrune(ctx, s, keep)
	if err == nil && len(plan.Dropped) > 0 && plan.Kept > 0 { // else there is nothing to do, or all of it goes below
		r, err = plan.Do(ctx)
	}
	if err == nil && plan.Kept == 0 && len(plan.Problems) > 0 {
		err = damagedBy(plan.Problems[0])
	}
	if err = errors.Join(err, s.Close()); err != nil || plan.Kept > 0 {
		return r, false, err
	}
	h, err := cas.Hold(ctx, vfs.OS(filepath.Dir(dir)), filepath.Base(dir))
	if err != nil {
		return nil, false, err
	}
	defer h.Close()
	if !places.AllGone(dir) { // somebody came meanwhile
		return nil, false, nil
	}
	return nil, true, h.Remove()
}
