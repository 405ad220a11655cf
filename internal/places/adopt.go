package places

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// AdoptOptions are the choices at [Adopt].
type AdoptOptions struct {
	StoreRoot string // directory of the stores; it must be given

	// From says whose history is to go on: the path that the directory had, or the
	// name of its store, or 4 and more characters of it. Default: that of the
	// directory that it is, which must be recognised.
	From string

	Disk func(dir string) vfs.FS // of the store root; default vfs.OS
}

// PlanAdopt finds out whose history goes on in a directory if it is adopted. It
// writes nothing.
//
// Errors match [ErrNotMoved], [ErrStillThere] for a path of which the directory is
// there, [ErrHasHistory] for a directory that has one; [history.ErrUnknown] and
// [history.ErrAmbiguous] are about opts.From.
func PlanAdopt(ctx context.Context, root string, opts *AdoptOptions) (*Moved, error) {
	loc, err := Locate(opts.StoreRoot, root)
	if err == nil && loc.Gone {
		err = &fs.PathError{Op: "adopt", Path: root, Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, err
	}
	mv := loc.Moved
	if opts.From != "" {
		mv, err = loc.named(opts)
	} else if mv == nil {
		err = fmt.Errorf("%q: %w", loc.Project.Root, ErrNotMoved)
	}
	if err == nil {
		err = mv.check(ctx, loc, opts)
	}
	if err != nil {
		return nil, fmt.Errorf("adopt: %w", err)
	}
	return mv, nil
}

// Adopt has the history of a path that is gone go on in the directory of the plan.
// All that the store has goes along: sessions, names, lists of undo, what was seen
// of files. It is in one place or the other, whatever comes between, and Adopt, or
// whoever opens it to write, brings the rest to its end.
//
// The error matches [store.ErrBusy] if somebody has the store open, [store.ErrOwner]
// if it is another user's.
func Adopt(ctx context.Context, mv *Moved, opts *AdoptOptions) error {
	if err := adopt(ctx, mv, opts); err != nil {
		return fmt.Errorf("adopt %q: %w", mv.From, err)
	}
	return nil
}

func (o *AdoptOptions) fs() vfs.FS {
	if o.Disk != nil {
		return o.Disk(o.StoreRoot)
	}
	return vfs.OS(o.StoreRoot)
}

func adopt(ctx context.Context, mv *Moved, opts *AdoptOptions) error {
	if err := cas.CheckOwner(mv.Store); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	stores, name := opts.fs(), filepath.Base(mv.Store)
	if mv.worktree != "" {
		return adoptWorktree(ctx, vfs.Sub(stores, name), mv)
	}
	to := capture.PathHash(mv.To)
	if name == to { // it was cut off
		_, err := settle(ctx, vfs.Sub(stores, to), mv.To)
		return err
	}
	_, err := stores.Stat(to)
	if err == nil {
		var empty bool
		if empty, err = removeIfEmpty(ctx, stores, to); err == nil && !empty {
			err = &KeptError{mv.From, fmt.Errorf("%q %w", mv.To, ErrHasHistory)}
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	h, err := cas.Hold(ctx, stores, name)
	if err != nil {
		return err
	}
	defer h.Close()
	fsys := vfs.Sub(stores, name)
	if err := listWorktrees(ctx, fsys); err != nil {
		return err
	}
	if err := h.Rename(to); err != nil {
		return err
	}
	_, err = settle(ctx, vfs.Sub(stores, to), mv.To)
	return err
}

// adoptWorktree says that a worktree of a store is at another path.
func adoptWorktree(ctx context.Context, fsys vfs.FS, mv *Moved) error {
	if err := cas.Mark(fsys, cas.FeatureMoved); err != nil {
		return err
	}
	return ChangePlaces(ctx, fsys, func(ps *File, _ *cas.Description) error {
		ps.Worktrees = slices.DeleteFunc(ps.Worktrees, func(p Place) bool { // one that has nothing: see check
			return string(p.Root) == mv.To && p.ID != mv.worktree
		})
		ps.setRoot(ps.add(mv.worktree), mv.To)
		return nil
	})
}

// listWorktrees writes down the worktrees that only the records of a store know.
func listWorktrees(ctx context.Context, fsys vfs.FS) error {
	s, err := cas.OpenFS(ctx, fsys, &cas.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer s.Close()
	roots := make(map[string]string)
	for snap, err := range s.Snapshots(ctx) {
		if err != nil {
			return err
		}
		id := strings.TrimSuffix(snap.Worktree, history.EditSuffix)
		if _, ok := roots[id]; !ok && snap.Root != "" {
			roots[id] = snap.Root
		}
	}
	return ChangePlaces(ctx, fsys, func(ps *File, _ *cas.Description) error {
		for id, root := range roots {
			if ps.byID(id) == nil && ps.byRoot(root) == nil {
				ps.setRoot(ps.add(id), root)
			}
		}
		return nil
	})
}

// removeIfEmpty removes a store in which no snapshot is.
func removeIfEmpty(ctx context.Context, stores vfs.FS, name string) (bool, error) {
	h, err := cas.Hold(ctx, stores, name)
	if errors.Is(err, fs.ErrNotExist) { // a directory, but no store
		err = stores.Remove(name)
		return err == nil, err
	}
	if err != nil {
		return false, err
	}
	defer h.Close()
	some, err := hasSnapshots(ctx, vfs.Sub(stores, name))
	if some || err != nil {
		return false, err
	}
	return true, h.Remove()
}

// hasSnapshots reports whether a store has a snapshot that was not pruned.
func hasSnapshots(ctx context.Context, fsys vfs.FS) (bool, error) {
	s, err := cas.OpenFS(ctx, fsys, &cas.Options{ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) { // it was never made whole
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer s.Close()
	if list, err := history.JournalDamage(ctx, s); err != nil || len(list) > 0 { // where some may have been
		return true, err
	}
	for snap, err := range s.Snapshots(ctx) {
		if err != nil || !snap.Pruned {
			return true, err
		}
	}
	return false, nil
}

// check returns why a history cannot go on in a directory.
func (mv *Moved) check(ctx context.Context, loc *Location, opts *AdoptOptions) error {
	if !missing(mv.From) {
		return &KeptError{mv.From, fmt.Errorf("%q %w", mv.From, ErrStillThere)}
	}
	stores := opts.fs()
	if mv.worktree == "" {
		to := capture.PathHash(mv.To)
		if filepath.Base(mv.Store) == to {
			return nil
		}
		some, err := hasSnapshots(ctx, vfs.Sub(stores, to))
		if some && err == nil {
			err = mv.taken()
		}
		return err
	}
	s, err := cas.OpenFS(ctx, vfs.Sub(stores, filepath.Base(mv.Store)), &cas.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer s.Close()
	snap, err := s.Newest(ctx, loc.known.ID, cas.AnySession)
	if err == nil && loc.known.ID != mv.worktree && !snap.Pruned {
		return mv.taken()
	}
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return err
}

func (mv *Moved) taken() error {
	return &KeptError{mv.From, fmt.Errorf("%q %w; that of %q is kept, too", mv.To, ErrHasHistory, mv.From)}
}

// named finds what the user calls the directory whose history is to go on.
func (loc *Location) named(opts *AdoptOptions) (*Moved, error) {
	dir, path, err := Find(opts.StoreRoot, opts.From)
	if err != nil {
		return nil, err
	}
	p := loc.Project
	ps, d, err := Of(vfs.OS(dir))
	if err != nil {
		return nil, err
	}
	switch {
	case dir == loc.Dir && d.Root != p.Main: // it was cut off
		return &Moved{From: d.Root, To: p.Main, Store: dir}, nil
	case dir == loc.Dir: // one of its worktrees
		id := capture.PathHash(path)
		if old := ps.byRoot(path); old != nil {
			id = old.ID
		}
		if path == p.Root {
			return nil, &KeptError{path, fmt.Errorf("%q %w", path, ErrStillThere)}
		}
		return &Moved{From: path, To: p.Root, Store: dir, Sure: loc.isMoved(path), worktree: id}, nil
	case path != d.Root && missing(path):
		return nil, fmt.Errorf("%q: is a worktree of %q, whose store has it: %w", path, d.Root, ErrNotMoved)
	}
	return &Moved{From: d.Root, To: p.Main, Store: dir, Sure: loc.isMoved(d.Root)}, nil
}

// isMoved reports whether the directory was surely at a path.
func (loc *Location) isMoved(path string) bool {
	return loc.Moved != nil && loc.Moved.Sure && loc.Moved.From == path
}

// leastOfName is how much of a store's name is enough, if it fits one only.
const leastOfName = 4

// Find finds the store that somebody names: by the path of its project, or of
// one of its worktrees, or by its name, or 4 and more characters of that. path is
// that of the project, or of the worktree that was named. The error matches
// [history.ErrUnknown] or [history.ErrAmbiguous].
func Find(storeRoot, name string) (dir, path string, err error) {
	if !strings.ContainsRune(name, os.PathSeparator) && isStoreName(name, leastOfName) {
		names, err := Names(storeRoot)
		if err != nil {
			return "", "", err
		}
		fit := slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, name) })
		if len(fit) > 1 {
			return "", "", fmt.Errorf("store %q: %w: %s", name, history.ErrAmbiguous, strings.Join(fit, ", "))
		}
		if len(fit) == 1 {
			dir = filepath.Join(storeRoot, fit[0])
			d, err := cas.Describe(vfs.OS(dir))
			if err != nil {
				return "", "", fmt.Errorf("store %s: %w", fit[0], err)
			}
			return dir, d.Root, nil
		}
	}
	if real, err := filepath.Abs(name); err == nil && filepath.Dir(real) == storeRoot {
		if d, err := cas.Describe(vfs.OS(real)); err == nil {
			return real, d.Root, nil
		}
	}
	if loc, err := Locate(storeRoot, name); err == nil {
		if _, err := cas.Describe(vfs.OS(loc.Dir)); err == nil {
			return loc.Dir, loc.Project.Root, nil
		}
	}
	return "", "", fmt.Errorf("store of %q: %w", name, history.ErrUnknown)
}

// IsWhole reports whether all of the store goes along, and not one worktree in it
// that is at another path.
func (mv *Moved) IsWhole() bool { return mv.worktree == "" }
