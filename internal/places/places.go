// Package places knows which directory is which: where the store of a directory is, under
// which identity the store knows it, whether it was moved, and whose history goes on in it
// then. It lists, describes and removes stores.
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
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// PlacesName is the file of a store that says which directory each of its worktrees
// is (docs/reference/format.md §2).
const FileName = "places"

// Version is that of the file.
const Version = 1

// places is the file. A worktree that it does not know is called by the hash of its
// path, as one that was never moved is.
type File struct {
	Version   int     `json:"v"`
	Main      *Place  `json:"main,omitempty"` // what the store is of
	Worktrees []Place `json:"worktrees"`
}

// A placed is a directory as it was found last.
type Place struct {
	ID   string       `json:"id,omitempty"` // of the worktree
	Root []byte       `json:"root"`         // real path
	Dir  vfs.Identity `json:"dir"`
	Git  *PlaceGit    `json:"git,omitempty"` // of a linked working tree
	View string       `json:"view"`          // in which Root is its path: see ourView
}

// A placedGit is the git directory of a linked working tree, which stays where it
// is when the working tree is moved.
type PlaceGit struct {
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
	return capture.PathHash(fmt.Sprint(id.Ino, " ", id.Born, " ", vfs.MachineID()))[:16]
})

// ReadFile reads the file of a store. One that is damaged counts as absent unless
// something was moved.
func ReadFile(fsys vfs.FS, moved bool) (*File, error) {
	ps := new(File)
	b, err := vfs.ReadFile(fsys, FileName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &File{Version: Version}, nil
	case err != nil:
		return nil, err
	}
	if b, err = cas.CutSum(b); err == nil {
		err = json.Unmarshal(b, ps)
	}
	switch {
	case err != nil && moved:
		return nil, &object.CorruptError{Path: FileName, Err: err}
	case err != nil:
		return &File{Version: Version}, nil
	case ps.Version != Version:
		return nil, fmt.Errorf("%s: %w: version %d", FileName, store.ErrFormat, ps.Version)
	}
	return ps, nil
}

// Check reports what is damaged in the file of a store that says which
// directory each of its worktrees is; nil if nothing is. A store goes on without the
// file, unless something was moved: then nothing opens it as long as it is damaged.
func Check(s *cas.Store) (*object.CorruptError, error) {
	_, err := ReadFile(s.FS(), true)
	if damage, ok := errors.AsType[*object.CorruptError](err); ok {
		return damage, nil
	}
	if errors.Is(err, store.ErrFormat) { // it is whole
		return nil, nil
	}
	return nil, err
}

// Repair moves the file into quarantine if it is damaged. Whoever opens the
// store to write next writes down anew where its own directory is.
func Repair(ctx context.Context, s *cas.Store) error {
	fsys := s.FS()
	return layout.WithLock(ctx, fsys, layout.PlacesLock, func() error {
		if damage, err := Check(s); damage == nil || err != nil { // somebody was faster
			return err
		}
		return layout.Quarantine(fsys, FileName)
	})
}

// Of reads what a store says of its directories.
func Of(fsys vfs.FS) (*File, *cas.Description, error) {
	d, err := cas.Describe(fsys)
	if err != nil {
		return nil, nil, err
	}
	ps, err := ReadFile(fsys, d.Moved)
	return ps, d, err
}

// ChangePlaces replaces the file if fn changes what it says.
func ChangePlaces(ctx context.Context, fsys vfs.FS, fn func(*File, *cas.Description) error) error {
	return layout.WithLock(ctx, fsys, layout.PlacesLock, func() error {
		ps, d, err := Of(fsys)
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
		return layout.WriteFile(fsys, FileName, cas.AppendSum(after))
	})
}

// main returns what the store is of, as it was found last.
func (ps *File) main(d *cas.Description) *Place {
	if ps == nil || ps.Main == nil {
		return &Place{Root: []byte(d.Root), View: ourView()}
	}
	return ps.Main
}

// byID returns the worktree with an identity, nil if it is not known.
func (ps *File) byID(id string) *Place {
	return ps.first(func(p Place) bool { return p.ID == id })
}

// byRoot returns the worktree at a path, nil if it is not known.
func (ps *File) byRoot(root string) *Place {
	return ps.first(func(p Place) bool { return string(p.Root) == root })
}

func (ps *File) first(is func(Place) bool) *Place {
	if i := slices.IndexFunc(ps.Worktrees, is); i >= 0 {
		return &ps.Worktrees[i]
	}
	return nil
}

// add returns the worktree with an identity, which it adds if it is not known.
func (ps *File) add(id string) *Place {
	if p := ps.byID(id); p != nil {
		return p
	}
	ps.Worktrees = append(ps.Worktrees, Place{ID: id})
	return &ps.Worktrees[len(ps.Worktrees)-1]
}

// newID returns what the worktree at a path is called that the file does not know:
// by the hash of the path, unless a worktree has that name which was there before.
func (ps *File) newID(root string) string {
	id := capture.PathHash(root)
	for i := 1; ps.byID(id) != nil; i++ {
		id = capture.PathHash(root + "\x00" + strconv.Itoa(i))
	}
	return id
}

// lookAt describes a directory that is there.
func lookAt(p *capture.Project) Place {
	d := Place{Root: []byte(p.Root), View: ourView()}
	d.Dir, _ = vfs.Identify(p.Root) // else it is not recognised
	if git, linked := p.GitDir(); linked {
		id, _ := vfs.Identify(git)
		d.Git = &PlaceGit{Path: []byte(git), Name: filepath.Base(git), Dir: id}
	}
	return d
}

// lookMain describes what a project belongs to.
func lookMain(p *capture.Project) Place {
	d := Place{Root: []byte(p.Main), View: ourView()}
	d.Dir, _ = vfs.Identify(p.Main)
	return d
}

// mayBe reports whether a directory may be the one that was found before, and sure
// whether it is.
func (d *Place) mayBe(before *Place) (may, sure bool) {
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
func standingOf(now, before *Place) standing {
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
func (ps *File) find(now *Place, root string) (id string, from *Place, how standing) {
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
func (ps *File) reroot(from, to string) {
	if ps.byID(capture.PathHash(from)) == nil && ps.byRoot(to) == nil { // older stores know nothing of their worktrees
		ps.Worktrees = append(ps.Worktrees, Place{ID: capture.PathHash(from), Root: []byte(from), View: ourView()})
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
	ps.Main = cmp.Or(ps.Main, new(Place))
	ps.setRoot(ps.Main, to)
}

// setRoot notes where a directory is now.
func (ps *File) setRoot(p *Place, root string) {
	id, git := p.ID, p.Git
	*p = Place{ID: id, Root: []byte(root), Git: git, View: ourView()}
	p.Dir, _ = vfs.Identify(root)
}

// restBelow returns the rest of a path that is dir, or below it.
func restBelow(path, dir string) (rest string, ok bool) {
	if path == dir {
		return "", true
	}
	return strings.CutPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
}

// update takes over what was found, but not who sees it where all else is the same.
func (p *Place) update(now *Place) {
	view := now.View
	if p.View != "" && p.Dir.IsSure(now.Dir) && string(p.Root) == string(now.Root) {
		view = p.View
	}
	id := p.ID
	*p = *now
	p.ID, p.View = id, view
}

// worktreeOf returns the directory that a record is of.
func (ps *File) worktreeOf(s *store.Snapshot) *Place {
	if p := ps.byID(strings.TrimSuffix(s.Worktree, history.EditSuffix)); p != nil {
		return p
	}
	return &Place{Root: []byte(s.Root), View: ourView()}
}

// IsGone reports whether a worktree was deleted, as far as can be seen: not if its
// path is another in this view, or it was moved to where it can be found. root is
// its path where the file does not know it.
func (ps *File) IsGone(id, root string) bool {
	p := ps.byID(strings.TrimSuffix(id, history.EditSuffix))
	if p == nil {
		return IsDeleted(root)
	}
	return p.IsGone()
}

func (p *Place) IsGone() bool {
	return p.View == ourView() && p.isDeleted() && p.movedTo() == ""
}

// isDeleted reports whether nothing is at the path, and not because a disk is not
// mounted: the directory was on the same as what is left of its path.
func (p *Place) isDeleted() bool {
	root := string(p.Root)
	if p.Dir.Ino == 0 || !filepath.IsAbs(root) || !missing(root) {
		return IsDeleted(root)
	}
	for at := filepath.Dir(root); ; at = filepath.Dir(at) {
		if id, err := vfs.Identify(at); err == nil {
			return id.Dev == p.Dir.Dev || IsDeleted(root)
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
func (p *Place) movedTo() string {
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

// IsDeleted reports whether a file or directory was deleted, as far as can be
// seen: what is missing on a disk that is not mounted was not. Of such a disk an
// empty directory is left, or none.
func IsDeleted(name string) bool {
	if !filepath.IsAbs(name) {
		return false
	}
	for _, disks := range []string{"/media/", "/run/media/", "/mnt/", "/Volumes/"} {
		if strings.HasPrefix(name, disks) {
			return false
		}
	}
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return false
	}
	defer dir.Close()
	some, err := dir.Readdirnames(1)
	return err == nil && len(some) > 0
}

// AllGone reports whether all directories of a store were deleted. That costs one
// stat if the project is there, as a rule.
func AllGone(dir string) bool {
	fsys := vfs.OS(dir)
	d, err := cas.Describe(fsys)
	if err != nil || d.Root == "" || !missing(d.Root) {
		return false
	}
	ps, err := ReadFile(fsys, d.Moved)
	isThere := func(p Place) bool { return !p.IsGone() }
	return err == nil && ps.main(d).IsGone() && !slices.ContainsFunc(ps.Worktrees, isThere)
}
