package places

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/vfs"
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

func (p *Place) Presence() Presence {
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
	names, err := Names(storeRoot)
	if err != nil {
		return nil, err
	}
	var list []StoreInfo
	for _, name := range names {
		info, err := Describe(ctx, filepath.Join(storeRoot, name))
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
func Describe(ctx context.Context, dir string) (*StoreInfo, error) {
	info := &StoreInfo{Dir: dir, Name: filepath.Base(dir)}
	fsys := vfs.OS(dir)
	info.Presence = NotSeen
	d, err := cas.Describe(fsys)
	if err != nil {
		return info, cas.OwnerOf(dir, err)
	}
	info.Project, info.LastUsed = d.Root, d.Created
	ps, err := ReadFile(fsys, d.Moved)
	main := ps.main(d)
	info.Presence = main.Presence()
	if info.Presence == Gone {
		info.MovedTo = main.movedTo()
	}
	var berr error
	if info.Bytes, berr = BytesBelow(dir); berr != nil || err != nil {
		return info, errors.Join(err, berr)
	}
	s, err := cas.Open(ctx, dir, &cas.Options{ReadOnly: true})
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
		if snap.Session != history.EditSession || !history.IsEdit(snap) {
			sessions[[2]string{snap.Worktree, snap.Session}] = true
		}
		if p := ps.worktreeOf(snap); !roots[string(p.Root)] {
			roots[string(p.Root)] = true
			info.Worktrees = append(info.Worktrees, WorktreeInfo{string(p.Root), p.Presence()})
		}
	}
	info.Sessions = len(sessions)
	slices.SortFunc(info.Worktrees, func(a, b WorktreeInfo) int {
		if a.Root == d.Root {
			return -1
		} else if b.Root == d.Root {
			return 1
		}
		return cmp.Compare(a.Root, b.Root)
	})
	return info, nil
}

// BytesBelow returns the length of all files in a directory.
func BytesBelow(dir string) (sum int64, err error) {
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
func Remove(ctx context.Context, dir string) error {
	if err := cas.CheckOwner(dir); err != nil {
		return err
	}
	h, err := cas.Hold(ctx, vfs.OS(filepath.Dir(dir)), filepath.Base(dir))
	if err != nil {
		return err
	}
	defer h.Close()
	return h.Remove()
}

// Projects lists the paths of projects that have a store and whose directories are
// as wanted.
func Projects(storeRoot string, want func(Presence) bool) []string {
	names, _ := Names(storeRoot)
	var list []string
	for _, name := range names {
		fsys := vfs.OS(filepath.Join(storeRoot, name))
		d, err := cas.Describe(fsys)
		if err != nil || d.Root == "" {
			continue
		}
		if ps, _ := ReadFile(fsys, d.Moved); want(ps.main(d).Presence()) {
			list = append(list, d.Root)
		}
	}
	slices.Sort(list)
	return list
}
