package livedir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/tree"
)

// Files are made, and put aside, in one directory below the root, so that nobody meets
// them among their own: neither watchers of a build nor git, since the directory holds a
// .gitignore with which git ignores all of it. As long as the restore runs it holds the
// lock on the directory: by that a capture tells it from a directory of the user's that has
// such a name. A file is renamed from there to its place
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

// errHeld: somebody else holds the lock on the directory, and does not give it back.
var errHeld = errors.New("another process holds the lock on it")

// openMaking opens the directory of a restore, and takes the lock on it; nil if there is none. One
// in which another user can exchange files is none: who may write into the root could put it there,
// and by it files into directories where only we may write.
func openMaking(root *Root, id string) (*making, error) {
	name := trees.MakingName(id)
	dir, err := root.dir.OpenDir(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if own, err := dir.IsPrivate(); err != nil || !own {
		return nil, errors.Join(err, dir.Close())
	}
	// A capture has the lock for a moment, to see whether it is free.
	for range maxLocks {
		var got bool
		if got, err = dir.TryLock(vfs.Exclusive); got || err != nil {
			break
		}
		err = errHeld
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%q: %w", name, err), dir.Close())
	}
	return &making{Dir: dir, name: name}, nil
}

// maxLocks is how often the lock on the directory is asked for, a millisecond apart.
const maxLocks = 1000

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
	w, err := m.Create(ignoreName, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, ignoreAll)
	return errors.Join(err, w.Close())
}

// remove removes the directory and closes it. If something is in it that is not of the
// restore, it stays, and the error matches [ErrAside]: it is the user's from now on, and git
// and captures see it.
func (m *making) remove(root *Root) error {
	err := m.removeIgnore()
	if err == nil {
		err = root.dir.Remove(m.name)
	}
	if errors.Is(err, fs.ErrExist) {
		err = staysError(m.name)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, m.Close())
}

// A staysError is the name of a directory of a restore that is not empty at its end.
type staysError string

func (e staysError) Error() string {
	return fmt.Sprintf("directory %q of the restore stays, since something is in it", string(e))
}

func (e staysError) Is(target error) bool { return target == ErrAside }

// removeIgnore removes what ignore has made, also if a crash has cut it off or left zeros in
// it. What somebody else has made of it stays.
func (m *making) removeIgnore() error {
	r, err := m.Open(ignoreName, nil)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, vfs.ErrNotRegular) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(len(ignoreAll))+1))
	isOurs := strings.HasPrefix(ignoreAll, strings.TrimRight(string(text), "\x00"))
	if err = errors.Join(err, r.Close()); err != nil || !isOurs {
		return err
	}
	return m.Remove(ignoreName)
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
