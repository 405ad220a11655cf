package places

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/tree"
)

// A Location says where the history of a directory is.
type Location struct {
	Project *capture.Project // the directory, as its store knows it
	Dir     string           // of the store, which may not be there
	Gone    bool             // the directory is not there: what is recorded of it can be read
	Moved   *Moved           // its history is that of a path that is gone: see [Adopt]; nil: it is not

	known Place // the directory, with the path under which the store knows it
}

// A Moved says that a directory is one that a store knows under a path that is gone.
type Moved struct {
	From  string // the path that is gone
	To    string // path of the same directory now
	Store string // directory of the store
	Sure  bool   // it is the same directory: else only its number is, which may have been given out again

	worktree string // identity of the one worktree that was moved; "": all of the store
}

// lenStoreName is how long the name of a store's directory is: [capture.PathHash] of the path
// of its project.
const lenStoreName = 32

// isStoreName reports whether the directory of a store may be called so, or have a name that
// begins so, of least characters.
func isStoreName(name string, least int) bool {
	return len(name) >= least && len(name) <= lenStoreName && strings.Trim(name, "0123456789abcdef") == ""
}

// storeNames lists the stores in a directory.
func Names(storeRoot string) ([]string, error) {
	names, err := vfs.OS(storeRoot).ReadDir(".")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !isStoreName(name, lenStoreName) })
	return names, cas.OwnerOf(storeRoot, err)
}

// Locate finds out where the history of a directory is, of the stores in storeRoot.
// It writes nothing. Where the directory is not there, it is looked for by its path;
// the error matches [fs.ErrNotExist] if no store knows that.
func Locate(storeRoot, root string) (*Location, error) {
	p, err := capture.FindProject(root)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return locateGone(storeRoot, root, err)
	}
	if err != nil {
		return nil, err
	}
	return LocateProject(storeRoot, p)
}

// LocateProject is Locate for a directory whose project is found, which is the Location's
// from now on.
func LocateProject(storeRoot string, p *capture.Project) (*Location, error) {
	loc := &Location{Project: p, Dir: filepath.Join(storeRoot, p.Hash()), known: lookAt(p)}
	loc.known.ID = p.Worktree
	fsys := vfs.OS(loc.Dir)
	d, err := cas.Describe(fsys)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return loc, loc.search(storeRoot)
	case err != nil: // whoever opens the store says it better
		return loc, nil
	}
	ps, err := ReadFile(fsys, d.Moved)
	if err != nil { // which directory has which history is not known
		return nil, fmt.Errorf("store %s: %w", loc.Dir, err)
	}
	// A store that is given another path knows it before (ADR 23), and one of which FORMAT has a
	// wrong bit has the right path here.
	if d.Root != "" && d.Root != p.Main && !d.Moved && string(ps.main(d).Root) != p.Main {
		return nil, &OtherProjectError{Store: loc.Dir, Root: d.Root, Main: p.Main}
	}
	loc.among(ps, d)
	return loc, nil
}

// among finds the directory among those that its store knows.
func (loc *Location) among(ps *File, d *cas.Description) {
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
	p.Worktree = id
}

// search looks for the directory in other stores than that of its path.
func (loc *Location) search(storeRoot string) error {
	names, err := Names(storeRoot)
	if err != nil {
		return nil // as above
	}
	p, main := loc.Project, lookMain(loc.Project)
	for _, name := range names {
		dir := filepath.Join(storeRoot, name)
		ps, d, err := Of(vfs.OS(dir))
		if err != nil || ps.Main == nil || cas.CheckOwner(dir) != nil { // root does not go by what others say
			continue
		}
		how := standingOf(&main, ps.Main)
		if how == moved || how == moveLike && loc.Moved == nil {
			loc.Moved = &Moved{From: d.Root, To: p.Main, Store: dir, Sure: how == moved}
			continue
		}
		var known *Place // another of its paths
		root := ""       // this one, as the store would say it
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
		p.Main, p.Worktree = d.Root, loc.known.ID
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
	path = vfs.RealPath(path)
	if d, err := cas.Describe(vfs.OS(filepath.Join(storeRoot, capture.PathHash(path)))); err == nil && d.Root == path {
		return gone(filepath.Join(storeRoot, capture.PathHash(path)), path)
	}
	names, _ := Names(storeRoot)
	for _, name := range names {
		dir := filepath.Join(storeRoot, name)
		ps, d, err := Of(vfs.OS(dir))
		if err != nil {
			continue
		}
		if _, ok := restBelow(path, d.Root); ok && capture.PathHash(d.Root) != name { // a move there was cut off
			continue
		}
		known := ps.byRoot(path) != nil
		if !known && ps.byID(capture.PathHash(path)) == nil { // a worktree of an older store
			_, err := os.Stat(filepath.Join(dir, layout.Worktree(capture.PathHash(path)).Dir()))
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
	ps, d, err := Of(vfs.OS(dir))
	if err != nil {
		return nil, err
	}
	id := capture.PathHash(path)
	if p := ps.byRoot(path); p != nil {
		id = p.ID
	}
	p := &capture.Project{Project: tree.Project{Root: path, Main: d.Root, Worktree: id}}
	return &Location{Project: p, Dir: dir, Gone: true}, nil
}

// Note writes down where a directory is, in its store, which is open. A move of the
// store that was cut off is brought to its end.
func (loc *Location) Note(ctx context.Context, fsys vfs.FS) error {
	d, err := settle(ctx, fsys, loc.Project.Main)
	if err != nil {
		return err
	}
	ps, err := ReadFile(fsys, d.Moved)
	if err != nil {
		return err
	}
	main := lookMain(loc.Project)
	if main.Dir.Ino == 0 || loc.known.Dir.Ino == 0 { // nothing is known by which to find it again
		return nil
	}
	if ps.Main != nil && ps.byID(loc.known.ID) != nil {
		before, err := json.Marshal(ps)
		if err != nil {
			return err
		}
		ps.noteBoth(loc, &main)
		if after, err := json.Marshal(ps); err != nil || string(after) == string(before) { // as a rule
			return err
		}
	}
	return ChangePlaces(ctx, fsys, func(ps *File, _ *cas.Description) error {
		ps.noteBoth(loc, &main)
		return nil
	})
}

func (ps *File) noteBoth(loc *Location, main *Place) {
	ps.add(loc.known.ID).update(&loc.known)
	ps.Main = cmp.Or(ps.Main, new(Place))
	if main.Dir.Ino != 0 {
		ps.Main.update(main)
	}
}

// settle brings the move of a store to the project main to its end, when it has its
// new name, and returns what it says of itself. Done twice it changes nothing.
func settle(ctx context.Context, fsys vfs.FS, main string) (*cas.Description, error) {
	d, err := cas.Describe(fsys)
	if err != nil || d.Root == main || d.Root == "" {
		return d, err
	}
	err = ChangePlaces(ctx, fsys, func(ps *File, d *cas.Description) error {
		if d.Root != main {
			ps.reroot(d.Root, main)
		}
		return nil
	})
	if err == nil {
		err = cas.SetRoot(fsys, main)
	}
	if err != nil {
		return nil, err
	}
	return cas.Describe(fsys)
}

// SomeGone reports whether there is a store of a project whose directory is not
// there. It looks at a thousand stores at most.
func SomeGone(storeRoot string) bool {
	names, _ := Names(storeRoot)
	for _, name := range names[:min(len(names), 1000)] {
		d, err := cas.Describe(vfs.OS(filepath.Join(storeRoot, name)))
		if err == nil && d.Root != "" && missing(d.Root) {
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
	s, err := cas.Open(ctx, loc.Dir, &cas.Options{Root: loc.Project.Main})
	if err != nil {
		return "", err
	}
	return loc.Dir, errors.Join(loc.Note(ctx, s.FS()), s.Close())
}
