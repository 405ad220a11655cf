// Package scratch is a directory that becomes one state of a worktree after another, for
// commands that are run in each. What is in it already is not written again: a step costs
// one look at each captured path, and writes the files that differ.
//
// [Open] makes the directory, [Dir.Become] makes it a state, [Dir.Remove] takes it away. It
// is for one process and one goroutine, and nothing in it is synced: whoever finds a
// directory that somebody else has left removes it.
//
// Commands own what they make. What is there and is no path of the state stays, so that
// builds are incremental, unless it is in the way of one. Files of the state that a command
// has changed, replaced or deleted are put back. No file shares its inode with the store or
// the user's directory, and no symbolic link is followed: whatever a command puts in the
// place of a directory, nothing outside is written.
package scratch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// Names below the path of a Dir.
const (
	treeName  = "tree"  // what commands see
	clockName = "clock" // what the time of the file system is read from
)

// A Dir is a directory that becomes one state after another.
type Dir struct {
	path string
	root *node
}

// A node is a directory of the state, and what was put into it.
type node struct {
	tree  store.ID // whose entries these are; zero: there are none
	names map[string]*known
}

// A known is a name that the state has.
type known struct {
	tree.Entry            // that it is to be
	was        tree.Entry // of a file or a link: that was put there last
	stat       vfs.Stat   // right after that; zero: only the content tells whether it is as it was
	sub        *node      // of a directory
}

// Open makes the directory at path, which only its user can enter, and whose parent is there.
// If path is there, what it holds counts as what the state at has, as far as the contents of
// the files say so; at is zero if nobody knows of any.
func Open(ctx context.Context, path string, g trees.Getter, at store.ID) (*Dir, error) {
	for _, dir := range []string{path, filepath.Join(path, treeName)} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("open scratch directory: %w", err)
		}
	}
	d := &Dir{path: path, root: new(node)}
	if at.IsZero() {
		return d, nil
	}
	if err := d.root.load(ctx, g, at, -len("/")); err != nil {
		return nil, fmt.Errorf("open scratch directory: %w", err)
	}
	return d, nil
}

// load fills a node, whose path has a length, with what a tree has. Directories that cannot be read stay unknown.
func (n *node) load(ctx context.Context, g trees.Getter, id store.ID, path int) error {
	n.tree, n.names = id, make(map[string]*known)
	for e, err := range trees.Entries(ctx, g, id) {
		if trees.IsLoss(err) {
			n.tree = store.ID{}
			return nil
		}
		if err != nil {
			return err
		}
		k := &known{Entry: e, was: e}
		if n.names[e.Name] = k; e.Mode.IsDir() {
			k.sub = new(node)
			if path := path + len("/") + len(e.Name); path <= trees.MaxDir {
				err = k.sub.load(ctx, g, e.ID, path)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Tree returns the path of the directory in which commands are run.
func (d *Dir) Tree() string { return TreeOf(d.path) }

// TreeOf returns the path of the directory in which commands are run, of the Dir at path.
func TreeOf(path string) string { return filepath.Join(path, treeName) }

// Options are the choices at [Dir.Become]. The zero value is the default.
type Options struct {
	Clean bool              // remove what is no path of the state, too
	Links map[string]string // symbolic links that are there in any state, by path: their targets
}

// A Change is what it took to make a directory a state.
type Change struct {
	Files   int64 // files and links that were written
	Bytes   int64 // of files that were written
	Removed int64 // files, links and directories that were removed
	PutBack int64 // of all these, what had been changed since it was put there

	// Missing is what the state has and the directory has not: the store has lost it, or it
	// was forgotten on purpose ([store.ErrForgotten]). In the order of paths.
	Missing []trees.Problem
}

// Become makes the directory what a tree has. Files that are as they were put there keep their
// times; those that are written have a later time than anything that a command has made
// before.
//
// An error leaves a directory that is no state: Become can be called again, with any tree.
func (d *Dir) Become(ctx context.Context, g trees.BlobGetter, id store.ID, opts *Options) (*Change, error) {
	if opts == nil {
		opts = new(Options)
	}
	c, err := d.become(ctx, g, id, opts)
	if err != nil {
		return nil, fmt.Errorf("scratch directory %q: %w", d.Tree(), err)
	}
	return c, nil
}

func (d *Dir) become(ctx context.Context, g trees.BlobGetter, id store.ID, opts *Options) (*Change, error) {
	aside, err := vfs.OpenDir(d.path)
	if err != nil {
		return nil, err
	}
	defer aside.Close()
	ended, err := now(aside)
	if err != nil {
		return nil, err
	}
	root, err := vfs.OpenDir(d.Tree())
	if err != nil {
		return nil, err
	}
	defer root.Close()
	s := newStep(ctx, g, opts)
	s.await = func() error { return later(ctx, aside, ended) }
	if err := s.run(root, d.root, id); err != nil {
		return nil, err
	}
	written, err := now(aside)
	if err != nil {
		return nil, err
	}
	for _, k := range s.noted {
		if k.stat.Ctime >= written { // a change that follows may have the same time
			k.stat = vfs.Stat{}
		}
	}
	return s.result(), nil
}

// now returns what time it is to the file system.
func now(dir vfs.Dir) (int64, error) {
	if err := dir.Remove(clockName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	f, err := dir.Create(clockName, 0o600)
	if err != nil {
		return 0, err
	}
	var st vfs.Stat
	err = dir.Lstat(clockName, &st)
	return st.Ctime, errors.Join(err, f.Close())
}

// maxWait bounds how long the clock of the file system is waited for. Linux counts in
// steps of 1 to 10 ms; there are file systems that count in seconds.
const maxWait = 30 * time.Millisecond

// later waits until the clock of the file system shows a later time than t. To make, what has
// the same time as a product is not newer than it, and needs no building.
func later(ctx context.Context, dir vfs.Dir, t int64) error {
	for until := time.Now().Add(maxWait); time.Now().Before(until); time.Sleep(time.Millisecond / 2) {
		at, err := now(dir)
		if err != nil || at > t {
			return err
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes the directory with all that is in it.
func (d *Dir) Remove() error { return Remove(d.path) }

// Remove removes the directory of a Dir that may have been left by somebody else, or is not
// there.
func Remove(path string) error {
	parent, err := vfs.OpenDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove scratch directory: %w", err)
	}
	defer parent.Close()
	if err := removeAll(parent, filepath.Base(path)); err != nil {
		return fmt.Errorf("remove scratch directory %q: %w", path, err)
	}
	return nil
}

// removeAll removes a name and all that is below it, also from directories that forbid it.
func removeAll(dir vfs.Dir, name string) error {
	err := dir.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var st vfs.Stat
	if lerr := dir.Lstat(name, &st); lerr != nil || st.Kind != vfs.Directory {
		return err
	}
	if err := emptyDir(dir, name); err != nil {
		return err
	}
	return dir.Remove(name)
}

func emptyDir(dir vfs.Dir, name string) error {
	sub, err := dir.OpenDir(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	if err := sub.Chmod(0o700); err != nil {
		return err
	}
	var names []string
	if err := sub.ReadNames(func(name []byte, _ vfs.Kind) { names = append(names, string(name)) }); err != nil {
		return err
	}
	for _, name := range names {
		if err := removeAll(sub, name); err != nil {
			return err
		}
	}
	return nil
}
