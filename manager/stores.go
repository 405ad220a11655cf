package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// A StoreInfo says what a store is of and what is in it.
type StoreInfo struct {
	Dir       string
	Name      string         // the last part of Dir
	Project   string         // path of the project
	Presence  Presence       // of the project's directory
	MovedTo   string         // where the directory seems to be now, if it is gone; "": not found
	Worktrees []WorktreeInfo // directories with a history in it, the project's own first
	LastUsed  time.Time      // when something was recorded last; when it was made, if nothing was
	Bytes     int64          // length of all files
	Snapshots int            // that were not pruned
	Labelled  int            // of those, with a name
	Sessions  int            // that have such
	Err       error          // why it is not known what is in it
}

// A WorktreeInfo is a directory with a history.
type WorktreeInfo struct {
	Root     string
	Presence Presence
}

// A Presence says whether a directory is there.
type Presence string

const (
	There     Presence = "there"
	Gone      Presence = "gone"
	Elsewhere Presence = "elsewhere" // its path is one of another view of the file system: a container's, say
	NotSeen   Presence = "unknown"   // it may be on a disk that is not there, or nobody may look
)

func presence(p *placed) Presence {
	root := string(p.Root)
	if st, err := os.Stat(root); err == nil && st.IsDir() {
		return There
	}
	switch {
	case p.View != "" && p.View != ourView():
		return Elsewhere
	case p.isDeleted():
		return Gone
	}
	return NotSeen
}

// Stores lists the stores in a directory, the one that was used last first. What
// cannot be read of one is its Err. Nothing is written.
func Stores(ctx context.Context, storeRoot string) ([]StoreInfo, error) {
	names, err := storeNames(storeRoot)
	if err != nil {
		return nil, err
	}
	var list []StoreInfo
	for _, name := range names {
		info, err := DescribeStore(ctx, filepath.Join(storeRoot, name))
		if errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile, or never was made
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		info.Err = err
		list = append(list, *info)
	}
	slices.SortStableFunc(list, func(a, b StoreInfo) int { return b.LastUsed.Compare(a.LastUsed) })
	return list, nil
}

// DescribeStore finds out what a store is of and what is in it. With an error what
// is known so far is returned, too.
func DescribeStore(ctx context.Context, dir string) (*StoreInfo, error) {
	info := &StoreInfo{Dir: dir, Name: filepath.Base(dir)}
	fsys := vfs.OS(dir)
	info.Presence = NotSeen
	d, err := store.Describe(fsys)
	if err != nil {
		return info, store.OwnerOf(dir, err)
	}
	info.Project, info.LastUsed = d.Root, d.Created
	main := &placed{Root: []byte(d.Root)}
	ps, err := readPlaces(fsys, d.Moved)
	if err == nil && ps.Main != nil {
		main = ps.Main
	}
	info.Presence = presence(main)
	if info.Presence == Gone {
		info.MovedTo = main.movedTo()
	}
	var berr error
	if info.Bytes, berr = bytesBelow(dir); berr != nil || err != nil {
		return info, errors.Join(err, berr)
	}
	s, err := store.Open(ctx, dir, &store.Options{ReadOnly: true})
	if err != nil {
		return info, err
	}
	defer s.Close()
	sessions, roots := make(map[[2]string]bool), make(map[string]bool)
	first := true
	for snap, err := range s.Snapshots(ctx) {
		if err != nil {
			return info, err
		}
		if first {
			info.LastUsed, first = snap.Time, false
		}
		if snap.Pruned {
			continue
		}
		info.Snapshots++
		if snap.Label != "" {
			info.Labelled++
		}
		if snap.Session != editSession || !IsEdit(snap) {
			sessions[[2]string{snap.Worktree, snap.Session}] = true
		}
		if p := ps.worktreeOf(snap); !roots[string(p.Root)] {
			roots[string(p.Root)] = true
			info.Worktrees = append(info.Worktrees, WorktreeInfo{string(p.Root), presence(p)})
		}
	}
	info.Sessions = len(sessions)
	slices.SortFunc(info.Worktrees, func(a, b WorktreeInfo) int {
		return cmp.Or(-compareBool(a.Root == d.Root, b.Root == d.Root), cmp.Compare(a.Root, b.Root))
	})
	return info, nil
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// bytesBelow returns the length of all files in a directory.
func bytesBelow(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var fi fs.FileInfo
			if fi, err = e.Info(); err == nil {
				sum += fi.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) { // replaced or taken away meanwhile
			return nil
		}
		return err
	})
	return sum, err
}

// RemoveStore removes a store with all that is in it. The error matches
// [store.ErrBusy] if somebody has it open, [store.ErrOwner] if it is another user's.
func RemoveStore(ctx context.Context, dir string) error {
	if err := store.CheckOwner(dir); err != nil {
		return err
	}
	h, err := store.Hold(ctx, vfs.OS(filepath.Dir(dir)), filepath.Base(dir))
	if err != nil {
		return err
	}
	defer h.Close()
	return h.Remove()
}

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
	lock, err := root.OpenFile(siblingsLock, os.O_RDWR|os.O_CREATE, 0o600)
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
	return errors.Join(lookAtSiblings(ctx, storeRoot, keep, now, log), store.Sweep(root))
}

func lookAtSiblings(ctx context.Context, storeRoot string, keep *Retention, now time.Time, log *slog.Logger) error {
	names, err := storeNames(storeRoot)
	if err != nil {
		return err
	}
	var marks siblings
	if b, err := vfs.ReadOwn(filepath.Join(storeRoot, siblingsName)); err == nil {
		if json.Unmarshal(b, &marks) != nil {
			marks = siblings{}
		}
	}
	if marks.Gone == nil {
		marks.Gone = make(map[string]time.Time)
	}
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
		case !allGone(filepath.Join(storeRoot, name)):
			delete(marks.Gone, name)
		case !known || since.After(now):
			marks.Gone[name] = now
		case now.Sub(since) > keep.KeepDeleted:
			due = append(due, name)
		}
	}
	b, err := json.Marshal(&marks)
	if err == nil {
		err = writeBeside(storeRoot, siblingsName, b)
	}
	if err != nil {
		return err
	}
	for _, name := range due {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		dir := filepath.Join(storeRoot, name)
		r, removed, err := pruneGone(ctx, dir, keep, log)
		switch {
		case errors.Is(err, store.ErrBusy): // the next day then
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

// allGone reports whether all directories of a store were deleted. That costs one
// stat if the project is there, as a rule.
func allGone(dir string) bool {
	fsys := vfs.OS(dir)
	d, err := store.Describe(fsys)
	if err != nil || d.Root == "" || !missing(d.Root) {
		return false
	}
	ps, err := readPlaces(fsys, d.Moved)
	if err != nil {
		return false
	}
	main := &placed{Root: []byte(d.Root), View: ourView()}
	if ps.Main != nil {
		main = ps.Main
	}
	if !main.isGone() {
		return false
	}
	return !slices.ContainsFunc(ps.Worktrees, func(p placed) bool { return !p.isGone() })
}

// pruneGone prunes the store of a directory that is gone, and removes it if nothing
// stays in it.
func pruneGone(ctx context.Context, dir string, keep *Retention, log *slog.Logger) (r *store.PruneResult, removed bool,
	err error) {
	s, err := store.Open(ctx, dir, &store.Options{Logger: log})
	if err != nil {
		return nil, false, err
	}
	plan, err := PlanPrune(ctx, s, keep, nil)
	if err == nil && len(plan.Dropped) > 0 && plan.Kept > 0 { // else there is nothing to do, or all of it goes below
		r, err = plan.Do(ctx)
	}
	if err == nil && plan.Kept == 0 && len(plan.Problems) > 0 {
		err = fmt.Errorf("%w: %q: %v", ErrDamaged, plan.Problems[0].Path, plan.Problems[0].Err)
	}
	if err = errors.Join(err, s.Close()); err != nil || plan.Kept > 0 {
		return r, false, err
	}
	h, err := store.Hold(ctx, vfs.OS(filepath.Dir(dir)), filepath.Base(dir))
	if err != nil {
		return nil, false, err
	}
	defer h.Close()
	if !allGone(dir) { // somebody came meanwhile
		return nil, false, nil
	}
	return nil, true, h.Remove()
}

// writeBeside replaces a file beside the stores.
func writeBeside(dir, name string, b []byte) error {
	f, err := os.CreateTemp(dir, name+".")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Projects lists the paths of projects that have a store and whose directories are
// as wanted.
func Projects(storeRoot string, want func(Presence) bool) []string {
	names, _ := storeNames(storeRoot)
	var list []string
	for _, name := range names {
		fsys := vfs.OS(filepath.Join(storeRoot, name))
		d, err := store.Describe(fsys)
		if err != nil || d.Root == "" {
			continue
		}
		main := &placed{Root: []byte(d.Root)}
		if ps, err := readPlaces(fsys, d.Moved); err == nil && ps.Main != nil {
			main = ps.Main
		}
		if want(presence(main)) {
			list = append(list, d.Root)
		}
	}
	slices.Sort(list)
	return list
}
