package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A Location says where the history of a directory is.
type Location struct {
	Project *tree.Project // the directory, as its store knows it
	Dir     string        // of the store, which may not be there
	Gone    bool          // the directory is not there: what is recorded of it can be read
	Moved   *Moved        // its history is that of a path that is gone: see [Adopt]; nil: it is not

	known placed // the directory, with the path under which the store knows it
}

// A Moved says that a directory is one that a store knows under a path that is gone.
type Moved struct {
	From  string // the path that is gone
	To    string // path of the same directory now
	Store string // directory of the store
	Sure  bool   // it is the same directory: else only its number is, which may have been given out again

	worktree string // identity of the one worktree that was moved; "": all of the store
}

// storeName is what the directory of a store is called: [tree.PathHash] of the path
// of its project.
var storeName = regexp.MustCompile(`^[0-9a-f]{32}$`)

// storeNames lists the stores in a directory.
func storeNames(storeRoot string) ([]string, error) {
	names, err := vfs.OS(storeRoot).ReadDir(".")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []string
	for _, name := range names {
		if storeName.MatchString(name) {
			list = append(list, name)
		}
	}
	return list, store.OwnerOf(storeRoot, err)
}

// Locate finds out where the history of a directory is, of the stores in storeRoot.
// It writes nothing. Where the directory is not there, it is looked for by its path;
// the error matches [fs.ErrNotExist] if no store knows that.
func Locate(storeRoot, root string) (*Location, error) {
	p, err := tree.FindProject(root)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return locateGone(storeRoot, root, err)
	}
	if err != nil {
		return nil, err
	}
	loc := &Location{Project: p, Dir: filepath.Join(storeRoot, p.Hash()), known: lookAt(p)}
	loc.known.ID = p.Worktree()
	fsys := vfs.OS(loc.Dir)
	d, err := store.Describe(fsys)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return loc, loc.search(storeRoot)
	case err != nil: // whoever opens the store says it better
		return loc, nil
	}
	ps, err := readPlaces(fsys, d.Moved)
	if err != nil { // which directory has which history is not known
		return nil, fmt.Errorf("store %s: %w", loc.Dir, err)
	}
	// A store that is given another path knows it before (ADR 23).
	if d.Root != "" && d.Root != p.Main && !d.Moved {
		return nil, &OtherProjectError{Store: loc.Dir, Root: d.Root, Main: p.Main}
	}
	loc.among(ps, d)
	return loc, nil
}

// among finds the directory among those that its store knows.
func (loc *Location) among(ps *places, d *store.Description) {
	p := loc.Project
	if d.Root != "" && d.Root != p.Main { // it has come here, and that was cut off before it said so
		ps.reroot(d.Root, p.Main)
	}
	id, from, how := ps.find(&loc.known, p.Root)
	if from != nil {
		loc.Moved = &Moved{From: string(from.Root), To: p.Root, Store: loc.Dir, Sure: how == moved, worktree: from.ID}
	}
	loc.known.ID = id
	if old := ps.byID(id); old != nil { // a path that it has, too, is not noted
		loc.known.Root = old.Root
	}
	p.Known(p.Main, id)
}

// search looks for the directory in other stores than that of its path.
func (loc *Location) search(storeRoot string) error {
	names, err := storeNames(storeRoot)
	if err != nil {
		return nil // as above
	}
	p, main := loc.Project, lookMain(loc.Project)
	for _, name := range names {
		dir := filepath.Join(storeRoot, name)
		ps, d, err := placesOf(vfs.OS(dir))
		if err != nil || ps.Main == nil || store.CheckOwner(dir) != nil { // root reads what others say, and does not go by it
			continue
		}
		how := standingOf(&main, ps.Main)
		if how == moved || how == moveLike && loc.Moved == nil {
			loc.Moved = &Moved{From: d.Root, To: p.Main, Store: dir, Sure: how == moved}
			continue
		}
		var known *placed // another of its paths
		root := ""        // this one, as the store would say it
		if rest, ok := restBelow(p.Root, p.Main); ok && how == here {
			root = filepath.Join(d.Root, rest)
			known = ps.byRoot(root)
		}
		for i := range ps.Worktrees {
			if w := &ps.Worktrees[i]; known == nil && standingOf(&loc.known, w) == here {
				known = w
			}
		}
		if known == nil && root == "" {
			continue
		}
		loc.Moved, loc.Dir = nil, dir
		if known != nil {
			loc.known.ID, loc.known.Root, loc.known.View = known.ID, known.Root, known.View
		} else {
			loc.known.ID, loc.known.Root, loc.known.View = ps.newID(root), []byte(root), ps.Main.View
		}
		p.Known(d.Root, loc.known.ID)
		return nil
	}
	return nil
}

// locateGone finds the store that knows a directory which is not there.
func locateGone(storeRoot, root string, why error) (*Location, error) {
	path, err := filepath.Abs(root)
	if err != nil {
		return nil, why
	}
	path = realPath(path)
	if d, err := store.Describe(vfs.OS(filepath.Join(storeRoot, tree.PathHash(path)))); err == nil && d.Root == path {
		return gone(filepath.Join(storeRoot, tree.PathHash(path)), path)
	}
	names, _ := storeNames(storeRoot)
	for _, name := range names {
		dir := filepath.Join(storeRoot, name)
		ps, d, err := placesOf(vfs.OS(dir))
		if err != nil {
			continue
		}
		if _, ok := restBelow(path, d.Root); ok && tree.PathHash(d.Root) != name { // it is elsewhere, and that was cut off
			continue
		}
		known := ps.byRoot(path) != nil
		if !known && ps.byID(tree.PathHash(path)) == nil { // a worktree of an older store
			_, err := os.Stat(filepath.Join(dir, "worktrees", tree.PathHash(path)))
			known = err == nil
		}
		if known {
			return gone(dir, path)
		}
	}
	return nil, why
}

// gone returns the location of a directory that a store knows and that is not there.
func gone(dir, path string) (*Location, error) {
	ps, d, err := placesOf(vfs.OS(dir))
	if err != nil {
		return nil, err
	}
	id := tree.PathHash(path)
	if p := ps.byRoot(path); p != nil {
		id = p.ID
	}
	p := &tree.Project{Root: path}
	p.Known(d.Root, id)
	return &Location{Project: p, Dir: dir, Gone: true}, nil
}

// note writes down where a directory is, in its store, which is open. A move of the
// store that was cut off is brought to its end.
func (loc *Location) note(ctx context.Context, fsys vfs.FS) error {
	if err := settle(ctx, fsys, loc.Project.Main); err != nil {
		return err
	}
	ps, _, err := placesOf(fsys)
	if err != nil {
		return err
	}
	main := lookMain(loc.Project)
	if main.Dir.Ino == 0 || loc.known.Dir.Ino == 0 { // nothing is known by which to find it again
		return nil
	}
	if ps.Main != nil && ps.byID(loc.known.ID) != nil {
		before := encode(ps)
		ps.noteBoth(loc, &main)
		if string(encode(ps)) == string(before) { // as a rule
			return nil
		}
	}
	return changePlaces(ctx, fsys, func(ps *places, _ *store.Description) error {
		ps.noteBoth(loc, &main)
		return nil
	})
}

func (ps *places) noteBoth(loc *Location, main *placed) {
	ps.note(loc.known.ID, &loc.known)
	if ps.Main == nil {
		ps.Main = new(placed)
	}
	if main.Dir.Ino != 0 {
		ps.Main.update(main)
	}
}

// settle brings the move of a store to the project main to its end, when it has its
// new name. Done twice it changes nothing.
func settle(ctx context.Context, fsys vfs.FS, main string) error {
	d, err := store.Describe(fsys)
	if err != nil || d.Root == main || d.Root == "" {
		return err
	}
	err = changePlaces(ctx, fsys, func(ps *places, d *store.Description) error {
		if d.Root != main {
			ps.reroot(d.Root, main)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return store.SetRoot(fsys, main)
}

// SomeGone reports whether there is a store of a project whose directory is not
// there. It looks at a thousand stores at most.
func SomeGone(storeRoot string) bool {
	names, _ := storeNames(storeRoot)
	for _, name := range names[:min(len(names), maxSiblings)] {
		if d, err := store.Describe(vfs.OS(filepath.Join(storeRoot, name))); err == nil && d.Root != "" && missing(d.Root) {
			return true
		}
	}
	return false
}

// BeginFresh has a directory that was moved begin a history of its own, with a store
// of its own, and leaves the other where it is. It returns the directory of the new
// store.
func BeginFresh(ctx context.Context, storeRoot, root string) (string, error) {
	loc, err := Locate(storeRoot, root)
	if err == nil && loc.Gone {
		err = &fs.PathError{Op: "open", Path: root, Err: fs.ErrNotExist}
	}
	if err != nil {
		return "", err
	}
	s, err := store.Open(ctx, loc.Dir, &store.Options{Root: loc.Project.Main})
	if err != nil {
		return "", err
	}
	return loc.Dir, errors.Join(loc.note(ctx, s.FS()), s.Close())
}
