package livedir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/tree"
)

// Files are made, and put aside, in one directory below the root, so that nobody meets
// them among their own: neither watchers of a build nor git, since the directory holds a
// .gitignore with which git ignores all of it. A file is renamed from there to its place
// only if that makes no difference to it: see [vfs.Dir.Heritage]. Else it is made beside
// its path, as are directories, which only who may write into them can move.

// A making is the directory in which the files of one restore are made.
type making struct {
	vfs.Dir
	name     string // below the root
	heritage string // to be known before files are made in it
}

const (
	ignoreName = ".gitignore"
	ignoreAll  = "*\n"
)

// openMaking opens the directory of a restore that has begun before; nil if there is none.
func openMaking(root *Root, id string) (*making, error) {
	name := trees.MakingName(id)
	dir, err := root.dir.OpenDir(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &making{Dir: dir, name: name}, nil
}

// newMaking makes the directory of a restore. Where that cannot be done, or would be of no
// use, it returns nil; an error is one of the disk.
func newMaking(root *Root, id string) (*making, error) {
	if heritage, err := root.dir.Heritage(); err != nil || heritage == "" {
		return nil, nil
	}
	name := trees.MakingName(id)
	err := root.dir.Mkdir(name, 0o700)
	var m *making
	if err == nil || errors.Is(err, fs.ErrExist) { // left by what is taken back now
		if m, err = openMaking(root, id); err == nil && m != nil {
			if m.heritage, err = m.Heritage(); err == nil {
				err = m.ignore()
			}
		}
	}
	if err == nil {
		return m, nil
	}
	if m != nil {
		err = errors.Join(err, m.remove(root))
	} else {
		root.dir.Remove(name) // which stays if it is not empty
	}
	if isFatal(err) {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	return nil, nil
}

// ignore has git ignore what is in the directory.
func (m *making) ignore() error {
	w, err := m.Create(ignoreName)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, ignoreAll)
	return errors.Join(err, w.Close())
}

// remove removes the directory, unless something is in it that somebody may want, and
// closes it.
func (m *making) remove(root *Root) error {
	err := m.Remove(ignoreName)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = root.dir.Remove(m.name)
	}
	if errors.Is(err, fs.ErrExist) { // it is not empty
		err = m.ignore()
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, m.Close())
}

// room makes the directory for the files of this restore.
func (a *applier) room() (err error) {
	for i := range a.plan.Items {
		if it := &a.plan.Items[i]; isWritten(it) || isDeleted(it) && hasContent(it.Now) {
			if a.making, err = newMaking(a.root, a.id); a.making != nil {
				a.changes("")
			}
			return err
		}
	}
	return nil
}

// sideOf returns where what becomes of a path lies meanwhile, of which dir is the
// directory, or the nearest above it.
func (a *applier) sideOf(it *rollback.Item, path string, dir vfs.Dir) vfs.Dir {
	if a.making == nil || isDir(it.Now) || isDir(it.New) {
		return dir
	}
	a.mu.Lock()
	fits, known := a.fits[path]
	a.mu.Unlock()
	if !known {
		heritage, err := dir.Heritage()
		fits = err == nil && heritage == a.making.heritage
		a.mu.Lock()
		a.fits[path] = fits
		a.mu.Unlock()
	}
	if fits {
		return a.making.Dir
	}
	return dir
}

func isDir(e *tree.Entry) bool { return e != nil && e.Mode.IsDir() }
