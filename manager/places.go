package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// PlacesName is the file of a store that says which directory each of its worktrees
// is (docs/format.md §2).
const PlacesName = "places"

const (
	placesVersion = 1
	placesLock    = "locks/places"
)

// places is the file. A worktree that it does not know is called by the hash of its
// path, as one that was never moved is.
type places struct {
	Version   int      `json:"v"`
	Main      *placed  `json:"main,omitempty"` // what the store is of
	Worktrees []placed `json:"worktrees"`
}

// A placed is a directory as it was found last.
type placed struct {
	ID   string       `json:"id,omitempty"` // of the worktree
	Root []byte       `json:"root"`         // real path
	Dir  vfs.Identity `json:"dir"`
	Git  *placedGit   `json:"git,omitempty"` // of a linked working tree
	View string       `json:"view"`          // in which Root is its path: see ourView
}

// A placedGit is the git directory of a linked working tree, which stays where it
// is when the working tree is moved.
type placedGit struct {
	Path []byte       `json:"path"`
	Name string       `json:"name"` // below .git/worktrees
	Dir  vfs.Identity `json:"dir"`
}

// ourView tells this view of the file system from others: in a container the same
// directory has another path, and that its own is not to be seen says nothing. It
// is a hash of the identity of the root directory, without the number of the device,
// which a boot may change, and of that of the machine.
var ourView = sync.OnceValue(func() string {
	id, err := vfs.Identify(string(filepath.Separator))
	if err != nil || id.Ino == 0 {
		return ""
	}
	return tree.PathHash(fmt.Sprint(id.Ino, " ", id.Born, " ", vfs.MachineID()))[:16]
})

// readPlaces reads the file of a store. One that is damaged counts as absent unless
// something was moved.
func readPlaces(fsys vfs.FS, moved bool) (*places, error) {
	ps := new(places)
	b, err := vfs.ReadFile(fsys, PlacesName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &places{Version: placesVersion}, nil
	case err != nil:
		return nil, err
	}
	switch err := decodePlaces(b, ps); {
	case err != nil && moved:
		return nil, damagedPlaces(err)
	case err != nil:
		return &places{Version: placesVersion}, nil
	case ps.Version != placesVersion:
		return nil, fmt.Errorf("%s: %w: version %d", PlacesName, store.ErrFormat, ps.Version)
	}
	return ps, nil
}

// decodePlaces reads the file.
func decodePlaces(b []byte, ps *places) error {
	b, err := store.CutSum(b)
	if err == nil {
		err = json.Unmarshal(b, ps)
	}
	return err
}

func damagedPlaces(err error) *store.CorruptError {
	return &store.CorruptError{Path: PlacesName, Err: err}
}

// CheckPlaces reports what is damaged in the file of a store that says which
// directory each of its worktrees is; nil if nothing is. A store goes on without the
// file, unless something was moved: then nothing opens it as long as it is damaged.
func CheckPlaces(s *store.Store) (*store.CorruptError, error) {
	b, err := vfs.ReadFile(s.FS(), PlacesName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := decodePlaces(b, new(places)); err != nil {
		return damagedPlaces(err), nil
	}
	return nil, nil
}

// RepairPlaces moves the file into quarantine if it is damaged. Whoever opens the
// store to write next writes down anew where its own directory is.
func RepairPlaces(ctx context.Context, s *store.Store) error {
	fsys := s.FS()
	lock, err := fsys.OpenFile(placesLock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := vfs.Lock(ctx, lock, vfs.Exclusive); err != nil {
		return fmt.Errorf("%s: %w", placesLock, err)
	}
	if damage, err := CheckPlaces(s); damage == nil || err != nil { // somebody was faster
		return err
	}
	if err := fsys.Rename(PlacesName, "quarantine/"+PlacesName+"-"+newRestoreID()); err != nil {
		return err
	}
	return errors.Join(fsys.SyncDir("quarantine"), fsys.SyncDir("."))
}

// placesOf reads what a store says of its directories.
func placesOf(fsys vfs.FS) (*places, *store.Description, error) {
	d, err := store.Describe(fsys)
	if err != nil {
		return nil, nil, err
	}
	ps, err := readPlaces(fsys, d.Moved)
	return ps, d, err
}

// changePlaces replaces the file if fn changes what it says.
func changePlaces(ctx context.Context, fsys vfs.FS, fn func(*places, *store.Description) error) error {
	lock, err := fsys.OpenFile(placesLock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := vfs.Lock(ctx, lock, vfs.Exclusive); err != nil {
		return fmt.Errorf("%s: %w", placesLock, err)
	}
	ps, d, err := placesOf(fsys)
	if err != nil {
		return err
	}
	before, err := json.Marshal(ps)
	if err == nil {
		err = fn(ps, d)
	}
	if err != nil {
		return err
	}
	after, err := json.Marshal(ps)
	if err != nil || string(after) == string(before) {
		return err
	}
	return store.WriteFile(fsys, PlacesName, store.AppendSum(after))
}

// byID returns the worktree with an identity, nil if it is not known.
func (ps *places) byID(id string) *placed {
	for i := range ps.Worktrees {
		if ps.Worktrees[i].ID == id {
			return &ps.Worktrees[i]
		}
	}
	return nil
}

// byRoot returns the worktree at a path, nil if it is not known.
func (ps *places) byRoot(root string) *placed {
	for i := range ps.Worktrees {
		if string(ps.Worktrees[i].Root) == root {
			return &ps.Worktrees[i]
		}
	}
	return nil
}

// newID returns what the worktree at a path is called that the file does not know:
// by the hash of the path, unless a worktree has that name which was there before.
func (ps *places) newID(root string) string {
	id := tree.PathHash(root)
	for i := 1; ps.byID(id) != nil; i++ {
		id = tree.PathHash(root + "\x00" + strconv.Itoa(i))
	}
	return id
}

// lookAt describes a directory that is there.
func lookAt(p *tree.Project) placed {
	d := placed{Root: []byte(p.Root), View: ourView()}
	d.Dir, _ = vfs.Identify(p.Root) // else it is not recognised
	if git, linked := p.GitDir(); linked {
		id, _ := vfs.Identify(git)
		d.Git = &placedGit{Path: []byte(git), Name: filepath.Base(git), Dir: id}
	}
	return d
}

// lookMain describes what a project belongs to.
func lookMain(p *tree.Project) placed {
	d := placed{Root: []byte(p.Main), View: ourView()}
	d.Dir, _ = vfs.Identify(p.Main)
	return d
}

// mayBe reports whether a directory may be the one that was found before, and sure
// whether it is.
func (d *placed) mayBe(before *placed) (may, sure bool) {
	if d.Git != nil && before.Git != nil && d.Git.Dir.IsSure(before.Git.Dir) {
		return true, true
	}
	return d.Dir.MayBe(before.Dir), d.Dir.IsSure(before.Dir)
}

// A standing is what a directory that was found before is to one that is there.
type standing int

const (
	other    standing = iota // another directory
	here                     // the same, which has several paths
	moved                    // surely the same, and the path that is known is gone
	moveLike                 // perhaps
)

// standingOf finds out what a directory that was found before is to one that is
// there, under another path.
func standingOf(now, before *placed) standing {
	may, sure := now.mayBe(before)
	if !may {
		return other
	}
	root := string(before.Root)
	a, err := os.Stat(root)
	if err == nil {
		if b, err := os.Stat(string(now.Root)); err == nil && os.SameFile(a, b) {
			return here
		}
		return other // something else is there now
	}
	switch {
	case before.View != now.View && sure:
		return here // where we cannot see it
	case before.View != now.View || !missing(root):
		return other
	case sure:
		return moved
	}
	return moveLike
}

// missing reports whether nothing is at a path.
func missing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// find returns what a store calls the directory now, which it knows under the path
// root or, if at all, under another; from is not nil if that is gone.
func (ps *places) find(now *placed, root string) (id string, from *placed, how standing) {
	if p := ps.byRoot(root); p != nil {
		return p.ID, nil, here
	}
	for i := range ps.Worktrees {
		p := &ps.Worktrees[i]
		switch how := standingOf(now, p); how {
		case here:
			return p.ID, nil, how
		case moved, moveLike:
			if from == nil || how == moved {
				from = p
			}
		}
	}
	if from != nil {
		return ps.newID(root), from, standingOf(now, from)
	}
	return ps.newID(root), nil, other
}

// reroot notes that what was at one path is at another, with all that was below it
// and went along. Done twice it changes nothing.
func (ps *places) reroot(from, to string) {
	if ps.byID(tree.PathHash(from)) == nil && ps.byRoot(to) == nil { // older stores know nothing of their worktrees
		ps.Worktrees = append(ps.Worktrees, placed{ID: tree.PathHash(from), Root: []byte(from), View: ourView()})
	}
	for i := range ps.Worktrees {
		p := &ps.Worktrees[i]
		rest, ok := restBelow(string(p.Root), from)
		root := filepath.Join(to, rest)
		if !ok || ps.byRoot(root) != nil || !missing(string(p.Root)) {
			continue
		}
		if st, err := os.Stat(root); err != nil || !st.IsDir() {
			continue // it did not go along
		}
		ps.setRoot(p, root)
	}
	if ps.Main == nil {
		ps.Main = new(placed)
	}
	ps.setRoot(ps.Main, to)
}

// setRoot notes where a directory is now.
func (ps *places) setRoot(p *placed, root string) {
	id, git := p.ID, p.Git
	*p = placed{ID: id, Root: []byte(root), Git: git, View: ourView()}
	p.Dir, _ = vfs.Identify(root)
}

// restBelow returns the rest of a path that is dir, or below it.
func restBelow(path, dir string) (rest string, ok bool) {
	if path == dir {
		return "", true
	}
	return strings.CutPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
}

// note writes down what was found of a directory.
func (ps *places) note(id string, now *placed) {
	p := ps.byID(id)
	if p == nil {
		ps.Worktrees = append(ps.Worktrees, placed{ID: id})
		p = &ps.Worktrees[len(ps.Worktrees)-1]
	}
	p.update(now)
}

// update takes over what was found, but not who sees it where all else is the same.
func (p *placed) update(now *placed) {
	view := now.View
	if p.View != "" && p.Dir.IsSure(now.Dir) && string(p.Root) == string(now.Root) {
		view = p.View
	}
	id := p.ID
	*p = *now
	p.ID, p.View = id, view
}

// worktreeOf returns the directory that a record is of.
func (ps *places) worktreeOf(s *store.Snapshot) *placed {
	if p := ps.byID(strings.TrimSuffix(s.Worktree, editSuffix)); p != nil {
		return p
	}
	return &placed{Root: []byte(s.Root), View: ourView()}
}

// isGone reports whether a worktree was deleted, as far as can be seen: not if its
// path is another in this view, or it was moved to where it can be found. root is
// its path where the file does not know it.
func (ps *places) isGone(id, root string) bool {
	p := ps.byID(strings.TrimSuffix(id, editSuffix))
	if p == nil {
		return isDeleted(root)
	}
	return p.isGone()
}

func (p *placed) isGone() bool {
	return p.View == ourView() && p.isDeleted() && p.movedTo() == ""
}

// isDeleted reports whether nothing is at the path, and not because a disk is not
// mounted: the directory was on the same as what is left of its path.
func (p *placed) isDeleted() bool {
	root := string(p.Root)
	if p.Dir.Ino == 0 || !filepath.IsAbs(root) || !missing(root) {
		return isDeleted(root)
	}
	for at := filepath.Dir(root); ; at = filepath.Dir(at) {
		if id, err := vfs.Identify(at); err == nil {
			return id.Dev == p.Dir.Dev || isDeleted(root)
		} else if at == filepath.Dir(at) {
			return false
		}
	}
}

// maxBeside is how many names are looked at for a directory that was renamed.
const maxBeside = 4096

// movedTo returns where a directory is that is not at its path any more, if that is
// easy to find: git knows where its working trees are, and what was renamed is
// often where it was.
func (p *placed) movedTo() string {
	if p.Git != nil {
		b, err := os.ReadFile(filepath.Join(string(p.Git.Path), "gitdir"))
		if id, ierr := vfs.Identify(string(p.Git.Path)); err == nil && ierr == nil && id.MayBe(p.Git.Dir) {
			link := strings.TrimRight(string(b), "\r\n")
			if !filepath.IsAbs(link) {
				link = filepath.Join(string(p.Git.Path), link)
			}
			if root := filepath.Dir(link); root != string(p.Root) && !missing(link) {
				return root
			}
		}
	}
	dir := filepath.Dir(string(p.Root))
	d, err := os.Open(dir)
	if err != nil {
		return ""
	}
	defer d.Close()
	names, _ := d.ReadDir(maxBeside)
	for _, e := range names {
		if !e.IsDir() {
			continue
		}
		name := filepath.Join(dir, e.Name())
		if id, err := vfs.Identify(name); err == nil && id.MayBe(p.Dir) {
			return name
		}
	}
	return ""
}
