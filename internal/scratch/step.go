package scratch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A step makes a directory another state. Each directory is for one goroutine.
type step struct {
	ctx   context.Context
	g     trees.BlobGetter
	clean bool
	links map[string]string
	group *errgroup.Group
	await func() error // before the first file is written; sync.OnceValue
	done  *progress.Progress

	files, bytes, removed, putBack atomic.Int64

	mu      sync.Mutex // guards the rest
	missing []trees.Problem
	noted   []*known // whose stat is new
}

func newStep(ctx context.Context, g trees.BlobGetter, opts *Options) *step {
	s := &step{g: g, clean: opts.Clean, links: opts.Links, done: progress.Of(ctx)}
	s.group, s.ctx = errgroup.WithContext(ctx)
	s.group.SetLimit(runtime.GOMAXPROCS(0)) // looking at files keeps a core busy, and so does writing them
	return s
}

func (s *step) run(root vfs.Dir, n *node, id store.ID) error {
	s.await = sync.OnceValue(s.await)
	d := &opened{root, 0o700, 0o700}
	err := s.dir(d, "", n, id)
	if err := errors.Join(err, s.group.Wait()); err != nil {
		return err
	}
	for path, target := range s.links {
		if err := s.link(d, n, path, target); err != nil {
			return fmt.Errorf("link %q: %w", path, err)
		}
	}
	return nil
}

func (s *step) result() *Change {
	slices.SortFunc(s.missing, func(a, b trees.Problem) int { return trees.ComparePaths(a.Path, b.Path) })
	return &Change{Files: s.files.Load(), Bytes: s.bytes.Load(), Removed: s.removed.Load(),
		PutBack: s.putBack.Load(), Missing: s.missing}
}

// miss takes up what the store does not have, and returns any other error.
func (s *step) miss(path string, err error) error {
	if !trees.IsLoss(err) && !errors.Is(err, store.ErrForgotten) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missing = append(s.missing, trees.Problem{Path: path, Err: err})
	return nil
}

// isVCS reports whether the disk would find a name as the insides of a version control system: it is missing then.
func (s *step) isVCS(d *opened, path string, k *known) (bool, error) {
	if trees.LikeVCS(k.Name) == "" {
		return false, nil
	}
	err := d.change()
	if err == nil {
		err = trees.CheckVCS(d, &k.Entry)
	}
	if !errors.Is(err, vfs.ErrImpossible) {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missing = append(s.missing, trees.Problem{Path: trees.Join(path, k.Name), Err: err})
	return true, nil
}

// An opened is an open directory, with the permission bits that it has and is to have: these
// may forbid to write into it.
type opened struct {
	vfs.Dir
	now, perm uint16
}

// change makes the directory one that can be written into.
func (d *opened) change() error {
	if d.now&0o700 == 0o700 {
		return nil
	}
	d.now |= 0o700
	return d.Chmod(d.now)
}

// settle gives the directory the permission bits that it is to have.
func (d *opened) settle() error {
	if d.now == d.perm {
		return nil
	}
	return d.Chmod(d.perm)
}

// dir makes a directory what a tree has.
func (s *step) dir(d *opened, path string, n *node, id store.ID) error {
	if err := context.Cause(s.ctx); err != nil {
		return err
	}
	if n.tree != id || n.names == nil {
		if err := s.turn(d, path, n, id); err != nil {
			return err
		}
	}
	if s.clean {
		if err := s.sweep(d, n); err != nil {
			return err
		}
	}
	for _, k := range n.names {
		is, err := s.isVCS(d, path, k)
		switch {
		case is || err != nil:
		case k.Mode.IsDir():
			err = s.subdir(d, path, k)
		default:
			err = s.file(d, path, k)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// turn has the names of a directory be those of a tree: what is not in it goes. What the
// store has lost of the tree is missing, and the names stay.
func (s *step) turn(d *opened, path string, n *node, id store.ID) error {
	if err := trees.CheckDir(path); err != nil {
		return s.miss(path, err)
	}
	names := make(map[string]*known)
	for e, err := range trees.Entries(s.ctx, s.g, id) {
		if err != nil {
			if path == "" { // without the root there is nothing
				return err
			}
			return s.miss(path, err)
		}
		k := n.names[e.Name]
		if k == nil || k.Mode.IsDir() != e.Mode.IsDir() {
			k = new(known)
		}
		k.Entry = e
		names[e.Name] = k
	}
	for name, k := range n.names {
		if names[name] != k {
			if err := s.remove(d, k); err != nil {
				return fmt.Errorf("%q: %w", trees.Join(path, name), err)
			}
		}
	}
	n.tree, n.names = id, names
	return nil
}

// remove removes what was put at a name. A directory stays if anything else is in it.
func (s *step) remove(d *opened, k *known) error {
	if err := d.change(); err != nil {
		return err
	}
	if !k.Mode.IsDir() {
		return s.clear(d, k.Name)
	}
	sub, err := s.open(d, k.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil && isOther(d, k.Name):
		return s.clear(d, k.Name)
	case err != nil:
		return err
	}
	if k.sub != nil {
		for _, k := range k.sub.names {
			if err := s.remove(sub, k); err != nil {
				return errors.Join(err, sub.Close())
			}
		}
	}
	if err := sub.Close(); err != nil {
		return err
	}
	err = d.Remove(k.Name)
	switch {
	case err == nil:
		s.removed.Add(1)
	case errors.Is(err, fs.ErrExist): // it is not empty
		return nil
	}
	return err
}

// clear removes whatever is at a name.
func (s *step) clear(d *opened, name string) error {
	var st vfs.Stat
	err := d.Lstat(name, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = d.change()
	}
	if err == nil {
		err = removeAll(d, name)
	}
	if err == nil {
		s.removed.Add(1)
	}
	return err
}

// open opens a directory below another.
func (s *step) open(d *opened, name string) (*opened, error) {
	sub, err := d.OpenDir(name)
	if err != nil {
		return nil, err
	}
	var st vfs.Stat
	if err := sub.Stat(&st); err != nil {
		return nil, errors.Join(err, sub.Close())
	}
	return &opened{sub, st.Perm, st.Perm}, nil
}

// isOther reports whether there is something else than a directory at a name.
func isOther(d *opened, name string) bool {
	var st vfs.Stat
	return d.Lstat(name, &st) == nil && st.Kind != vfs.Directory
}

// subdir makes a directory what its entry says, on another goroutine if one is free.
func (s *step) subdir(d *opened, path string, k *known) error {
	path = trees.Join(path, k.Name)
	sub, err := s.open(d, k.Name)
	if err != nil && isOther(d, k.Name) {
		if cerr := s.clear(d, k.Name); cerr != nil {
			return fmt.Errorf("%q: %w", path, cerr)
		}
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err = d.change(); err == nil {
			err = d.Mkdir(k.Name, 0o700)
		}
		if err == nil {
			sub, err = s.open(d, k.Name)
		}
		k.sub = nil
	}
	if err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	if sub.perm = uint16(k.Mode & 0o777); k.sub == nil {
		k.sub = new(node)
	}
	fill := func() error {
		return errors.Join(s.dir(sub, path, k.sub, k.ID), sub.settle(), sub.Close())
	}
	if s.group.TryGo(fill) {
		return nil
	}
	return fill()
}

// file makes a name the file, or the link, that its entry says.
func (s *step) file(d *opened, path string, k *known) error {
	var st vfs.Stat
	err := d.Lstat(k.Name, &st)
	isThere := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	wasPut := k.was.ID == k.ID && k.was.Mode == k.Mode
	if isThere && wasPut {
		same := k.stat == st
		if !same {
			if same, err = s.holds(d, k, &st); err != nil {
				return fmt.Errorf("%q: %w", trees.Join(path, k.Name), err)
			}
			if same {
				s.note(k, st)
			}
		}
		if same {
			return nil
		}
	}
	k.was, k.stat = tree.Entry{}, vfs.Stat{}
	err = errors.Join(s.await(), d.change())
	if err == nil && isThere {
		err = removeAll(d, k.Name)
	}
	if err != nil {
		return fmt.Errorf("%q: %w", trees.Join(path, k.Name), err)
	}
	n, err := trees.WriteEntry(s.ctx, s.g, d, &k.Entry)
	if err != nil {
		return s.miss(trees.Join(path, k.Name), err)
	}
	if wasPut {
		s.putBack.Add(1)
	}
	s.files.Add(1)
	s.bytes.Add(n)
	s.done.Count(1, n)
	k.was = k.Entry
	if err := d.Lstat(k.Name, &st); err != nil {
		return err
	}
	s.note(k, st)
	return nil
}

// note notes how a name looks that is as it is to be.
func (s *step) note(k *known, st vfs.Stat) {
	k.stat = st
	s.mu.Lock()
	s.noted = append(s.noted, k)
	s.mu.Unlock()
}

// holds reads whether a name holds what its entry says, with the same permission bits.
func (s *step) holds(d *opened, k *known, st *vfs.Stat) (bool, error) {
	switch {
	case k.Mode.Kind() == tree.ModeSymlink:
		if st.Kind != vfs.Symlink {
			return false, nil
		}
		target, err := d.Readlink(k.Name)
		return object.Hash(object.Blob, []byte(target)) == k.ID, err
	case st.Kind != vfs.Regular || st.Size != k.Size || st.Perm != uint16(k.Mode&0o777):
		return false, nil
	}
	f, err := d.Open(k.Name, st)
	if errors.Is(err, fs.ErrPermission) { // its owner may not read it: it is not as it was put there
		return false, nil
	}
	if err != nil {
		return false, err
	}
	id, _, err := trees.HashBlob(f)
	return id == k.ID, errors.Join(err, f.Close())
}

// sweep removes what is in a directory and is no name of its tree.
func (s *step) sweep(d *opened, n *node) error {
	var extra []string
	err := d.ReadNames(func(name []byte, _ vfs.Kind) {
		if n.names[string(name)] == nil {
			extra = append(extra, string(name))
		}
	})
	for _, name := range extra {
		if err == nil {
			err = s.clear(d, name)
		}
	}
	return err
}

// ErrCaptured is returned for a link at a path that the state has.
var ErrCaptured = errors.New("it was captured, and comes from the snapshot")

// link makes a symbolic link, and the directories that it is in. n is nil outside of the state.
func (s *step) link(d *opened, n *node, path, target string) error {
	name, rest, isBelow := strings.Cut(path, "/")
	var k *known
	if n != nil {
		k = n.names[name]
	}
	if k != nil && !(isBelow && k.Mode.IsDir()) {
		return ErrCaptured
	}
	if isBelow {
		n = nil
		if k != nil {
			n = k.sub
		}
		sub, err := s.open(d, name)
		if errors.Is(err, fs.ErrNotExist) {
			if err = errors.Join(d.change(), d.Mkdir(name, 0o755)); err == nil {
				sub, err = s.open(d, name)
			}
		}
		if err != nil {
			return err
		}
		return errors.Join(s.link(sub, n, rest, target), sub.settle(), sub.Close())
	}
	if is, err := d.Readlink(name); err == nil && is == target {
		return nil
	}
	return errors.Join(d.change(), s.clear(d, name), d.Symlink(target, name))
}
