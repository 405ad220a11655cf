package livedir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A Sink takes the content of files. [*cas.Writer] is one that keeps it,
// [*trees.Overlay] one that only tells the IDs.
type Sink interface {
	Put(kind object.Kind, content []byte) (store.ID, error)
	PutReader(r io.Reader) (store.ID, int64, error)
}

// A Root is an open directory that files are brought back into. Paths are
// relative to it, slash-separated and raw, and are looked up name by name: no
// symbolic link is followed. It is for one goroutine.
type Root struct {
	dir  vfs.Dir
	path string    // of the directories that are open
	open []vfs.Dir // one for each name in path

	spellings map[string]bool            // see distinguish
	names     map[string]map[string]bool // in directories, by path
}

// OpenRoot opens a directory.
func OpenRoot(path string) (*Root, error) {
	dir, err := vfs.OpenDir(path)
	if err != nil {
		return nil, err
	}
	return NewRoot(dir), nil
}

// NewRoot returns the Root of an open directory, which it closes.
func NewRoot(dir vfs.Dir) *Root { return &Root{dir: dir} }

// Close closes the directory.
func (r *Root) Close() error {
	return errors.Join(r.leave(0), r.dir.Close())
}

// leave closes all open directories but the first n.
func (r *Root) leave(n int) error {
	var errs []error
	for _, d := range r.open[n:] {
		errs = append(errs, d.Close())
	}
	r.open = r.open[:n]
	r.path = strings.Join(strings.SplitN(r.path, "/", n+1)[:n], "/")
	return errors.Join(errs...)
}

// enter opens the directory at a path; "" is the root. It stays open until
// another is entered. The error matches [fs.ErrNotExist], or is a notDirError if the
// path leads through something else than directories.
func (r *Root) enter(path string) (vfs.Dir, error) {
	var names []string
	if path != "" {
		names = strings.Split(path, "/")
	}
	same := 0
	for i, old := range strings.Split(r.path, "/") {
		if i >= len(r.open) || i >= len(names) || names[i] != old {
			break
		}
		same++
	}
	if err := r.leave(same); err != nil {
		return nil, err
	}
	dir := r.dir
	if same > 0 {
		dir = r.open[same-1]
	}
	for _, name := range names[same:] {
		if trees.SpellsVCS(dir, name) {
			return nil, &notDirError{trees.Join(r.path, name), spellsVCS}
		}
		sub, err := dir.OpenDir(name)
		if err != nil {
			var st vfs.Stat
			if dir.Lstat(name, &st) == nil && st.Kind != vfs.Directory {
				err = &notDirError{trees.Join(r.path, name), kindName(st.Kind) + ", not a directory"}
			}
			return nil, err
		}
		r.open = append(r.open, sub)
		r.path = trees.Join(r.path, name)
		dir = sub
	}
	return dir, nil
}

// fresh forgets the open directories, so that the next path is looked up
// anew.
func (r *Root) fresh() error {
	r.names = nil
	return r.leave(0)
}

// A notDirError says that a path leads through something that is no directory.
type notDirError struct {
	path string
	is   string // what it is
}

// spellsVCS is what a name is that the disk takes for a repository's: see trees.SpellsVCS.
const spellsVCS = "another spelling of what is a repository's own"

// checkVCS returns an error if a name in a directory finds a repository, or would once it is
// what is wanted there: what is free is tried with a directory, as no reader takes that for one.
func checkVCS(dir vfs.Dir, name string, wanted *tree.Entry) error {
	of := trees.LikeVCS(name)
	if of == "" {
		return nil
	}
	is := trees.SpellsVCS(dir, name)
	if !is && wanted != nil && trees.IsVCS(of, wanted.Mode.IsDir()) && dir.Mkdir(name, 0o700) == nil {
		is = trees.SpellsVCS(dir, name)
		if err := dir.RemoveDir(name); err != nil {
			return err
		}
	}
	if is {
		return fmt.Errorf("it is %s", spellsVCS)
	}
	return nil
}

func (e *notDirError) Error() string {
	return fmt.Sprintf("%q is %s", e.path, e.is)
}

// kindName says in words what a name in a directory is.
func kindName(k vfs.Kind) string {
	switch k {
	case vfs.Regular:
		return "a file"
	case vfs.Directory:
		return "a directory"
	case vfs.Symlink:
		return "a symbolic link"
	}
	return "a device, a socket or a pipe"
}

// errSpecial is returned for what cannot be kept.
var errSpecial = errors.New("a device, a socket or a pipe")

// Entry tells what is at a path, nil for nothing. Content goes to the sink. Of
// a directory the ID is that of an empty one. If a parent of the path is no directory,
// there is nothing.
func (r *Root) Entry(ctx context.Context, path string, to Sink) (*tree.Entry, error) {
	e, err := r.entry(ctx, path, to)
	if isGone(err) {
		err = nil
	}
	return e, err
}

// entry is like Entry, but a parent that is missing, or is no directory, is an error. A
// missing last name still is nothing.
func (r *Root) entry(ctx context.Context, path string, to Sink) (*tree.Entry, error) {
	up, name := trees.Split(path)
	dir, err := r.enter(up)
	if err != nil {
		return nil, err
	}
	if err := checkVCS(dir, name, nil); err != nil {
		return nil, err
	}
	e, err := entryIn(ctx, dir, name, to)
	if e == nil || !r.spellings[path] {
		return e, err
	}
	if is, err := r.isSpelt(path); !is || err != nil {
		return nil, err
	}
	return e, nil
}

// entryIn is Entry for a name in an open directory.
func entryIn(ctx context.Context, dir vfs.Dir, name string, to Sink) (*tree.Entry, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	var st vfs.Stat
	err := dir.Lstat(name, &st)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	e := &tree.Entry{Name: name}
	switch st.Kind {
	case vfs.Directory:
		e.Mode, e.ID = tree.ModeDir|tree.Mode(st.Perm), trees.Empty
	case vfs.Symlink:
		target, err := dir.Readlink(name)
		if err != nil {
			return nil, err
		}
		e.Mode, e.Size = tree.ModeSymlink|0o777, int64(len(target))
		e.ID, err = to.Put(object.Blob, []byte(target))
		return e, err
	case vfs.Regular:
		return e, fileIn(dir, e, to)
	default:
		return nil, fmt.Errorf("%q: %w", name, errSpecial)
	}
	return e, nil
}

// fileIn fills in the entry of a regular file. One that changes while it is
// read is an error.
func fileIn(dir vfs.Dir, e *tree.Entry, to Sink) error {
	var before, after vfs.Stat
	f, err := dir.Open(e.Name, &before)
	if err != nil {
		return err
	}
	defer f.Close()
	e.ID, e.Size, err = to.PutReader(f)
	if err == nil {
		err = f.Stat(&after)
	}
	if err == nil && (before != after || e.Size != after.Size) {
		err = fmt.Errorf("%q: it changes while it is read", e.Name)
	}
	e.Mode = tree.ModeFile | tree.Mode(after.Perm)
	return err
}

// stat describes what is at a path, nil if there is nothing.
func (r *Root) stat(path string) (*vfs.Stat, error) {
	up, name := trees.Split(path)
	dir, err := r.enter(up)
	var st vfs.Stat
	if err == nil {
		err = dir.Lstat(name, &st)
	}
	switch {
	case isGone(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &st, nil
}

// isGone reports whether an error says that there is nothing at a path: its
// name, or a directory above it, is not there or is something else.
func isGone(err error) bool {
	_, notDir := errors.AsType[*notDirError](err)
	return notDir || errors.Is(err, fs.ErrNotExist)
}

// list returns the names in a directory.
func (r *Root) list(path string) ([]string, error) {
	dir, err := r.enter(path)
	if err != nil {
		return nil, err
	}
	var names []string
	err = dir.ReadNames(func(name []byte, _ vfs.Kind) { names = append(names, string(name)) })
	return names, err
}

// same reports whether two entries are the same in all that the system keeps. Of
// directories that is the mode.
func same(a, b *tree.Entry) bool {
	if a == nil || b == nil {
		return a == b
	}
	return kept(a.Mode) == kept(b.Mode) && (a.Mode.IsDir() || a.ID == b.ID)
}

// kept returns what the system keeps of a mode: one of a store that was written elsewhere
// may have more.
func kept(m tree.Mode) tree.Mode {
	kind := vfs.Regular
	switch m.Kind() {
	case tree.ModeDir:
		kind = vfs.Directory
	case tree.ModeSymlink:
		kind = vfs.Symlink
	}
	return m.Kind() | tree.Mode(vfs.KeptPerm(kind, uint16(m&0o777)))
}

// hasContent reports whether there is a file or a link.
func hasContent(e *tree.Entry) bool { return e != nil && !e.Mode.IsDir() }
