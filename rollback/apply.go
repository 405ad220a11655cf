package rollback

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// Save puts what a plan will overwrite or delete into the sink. What is not as
// the plan has it any more, or cannot be read, is not to be changed then, and
// the plan says so from now on.
//
// A directory that was to be moved and in which something is not so any more is
// an error.
func (p *Plan) Save(ctx context.Context, root *Root, to Sink) error {
	planned := make(map[string]bool)
	for _, it := range p.Items {
		planned[it.Path] = it.Do == Restore || it.Do == Delete
	}
	if err := p.check(ctx, root, to); err != nil {
		return err
	}
	for _, mv := range p.Moves {
		for _, it := range p.Items {
			if _, in := below(it.Path, mv.From); in && planned[it.Path] && it.Do != Restore && it.Do != Delete {
				return fmt.Errorf("%q: %s, while a restore was about to move %q", it.Path, it.Why, mv.From)
			}
		}
	}
	return nil
}

// check looks whether all that is to be changed is as the plan has it.
func (p *Plan) check(ctx context.Context, root *Root, to Sink) error {
	for i := range p.Items {
		it := &p.Items[i]
		if it.Do != Restore && it.Do != Delete {
			continue
		}
		now, err := root.Entry(ctx, it.Path, to)
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		switch {
		case err != nil:
			it.Do, it.Why = Failed, err.Error()
		case !same(now, it.Now):
			it.Do, it.Why, it.Dirty = Skipped, describe(it.Now, now), true
		}
	}
	return nil
}

// Changes reports whether a plan changes anything.
func (p *Plan) Changes() bool {
	return len(p.Moves) > 0 || slices.ContainsFunc(p.Items, func(i Item) bool { return i.Do == Restore || i.Do == Delete })
}

// Count returns how many paths get an action.
func (p *Plan) Count(do Action) int {
	n := 0
	for _, it := range p.Items {
		if it.Do == do {
			n++
		}
	}
	return n
}

// Apply does what a plan says. Each path is looked at once more right before it
// is changed: one that is not as the plan has it stays, and the plan says so
// afterwards, as it does of what failed. What is restored is read again.
//
// All new content is written, beside the files and under other names, before
// the first of them is replaced; where that fails for want of space or by an
// error of the device, nothing is changed and the error is returned. A file is
// replaced in one step, so that a reader finds the old one or the new one. id
// is part of the names: letters and digits that no other restore has.
//
// An error leaves files that were replaced and others that were not, as a crash
// does: see [Sweep].
func (p *Plan) Apply(ctx context.Context, root *Root, g tree.BlobGetter, id string) error {
	a := &applier{ctx: ctx, plan: p, root: root, g: g, id: id, dirs: make(map[string]bool), made: make(map[string]bool), hash: tree.NewOverlay(nil)}
	err := a.apply()
	if err != nil {
		err = fmt.Errorf("restore: %w", err)
	}
	return err
}

type applier struct {
	ctx  context.Context
	plan *Plan
	root *Root
	g    tree.BlobGetter
	id   string
	hash Sink

	ready   []prepared      // new content, by item
	touched []bool          // something may lie beside the item's path
	dirs    map[string]bool // directories in which names have changed
	made    map[string]bool // directories that this restore has made
}

// prepared says where the new content of an item lies until it gets its name.
type prepared struct {
	dir  string // in which directory
	note string
}

func (a *applier) newName(i int) string { return newName(a.id, a.plan.Items[i].Path) }
func (a *applier) oldName(i int) string { return oldName(a.id, a.plan.Items[i].Path) }

func (a *applier) apply() error {
	a.ready, a.touched = make([]prepared, len(a.plan.Items)), make([]bool, len(a.plan.Items))
	if err := a.move(); err != nil {
		return err
	}
	if err := a.prepare(); err != nil {
		return errors.Join(err, a.sweep(), a.moveBack())
	}
	steps := []func() error{a.clearWay, a.restore, a.remove, a.setModes, a.sweep, a.sync, a.verify}
	for _, step := range steps {
		if err := errors.Join(a.root.fresh(), step()); err != nil {
			return errors.Join(err, a.sweep())
		}
	}
	return nil
}

// fail records that an item cannot be done. The error is returned if it is one
// that ends the restore.
func (a *applier) fail(it *Item, err error) error {
	if cause := context.Cause(a.ctx); cause != nil {
		return cause
	}
	for _, fatal := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS} {
		if errors.Is(err, fatal) {
			return fmt.Errorf("%q: %w", it.Path, err)
		}
	}
	it.Do, it.Why = Failed, err.Error()
	return nil
}

// skip records that an item stays, since it is not as it was found.
func (a *applier) skip(it *Item, now *tree.Entry) {
	it.Do, it.Why, it.Dirty = Skipped, describe(a.expected(it), now), true
}

// expected returns what an item should find where it is: what the plan found,
// or what a move has put there.
func (a *applier) expected(it *Item) *tree.Entry {
	for _, mv := range a.plan.Moves {
		if rest, ok := below(it.Path, mv.To); ok {
			i, found := a.plan.find(mv.From + rest)
			if !found {
				return nil
			}
			return a.plan.Items[i].Now
		}
		if _, ok := below(it.Path, mv.From); ok {
			return nil
		}
	}
	return it.Now
}

// find returns the index of a path's item.
func (p *Plan) find(path string) (int, bool) {
	return slices.BinarySearchFunc(p.Items, path, func(it Item, path string) int { return comparePaths(it.Path, path) })
}

// ErrMove: a directory cannot be moved back. Nothing was changed; a plan for a
// Root without moves goes file by file.
var ErrMove = errors.New("a directory cannot be moved back")

// move moves directories back. One that cannot be is an error: what the plan
// says of its content is not so then.
func (a *applier) move() error {
	for i, mv := range a.plan.Moves {
		err := a.rename(mv.From, mv.To)
		if err != nil {
			a.plan.Moves = a.plan.Moves[:i]
			return errors.Join(fmt.Errorf("%w: %q to %q: %w", ErrMove, mv.From, mv.To, err), a.moveBack())
		}
	}
	return nil
}

// moveBack undoes move.
func (a *applier) moveBack() error {
	var errs []error
	for _, mv := range slices.Backward(a.plan.Moves) {
		errs = append(errs, a.rename(mv.To, mv.From))
	}
	return errors.Join(errs...)
}

// rename moves a directory to a name that is free.
func (a *applier) rename(from, to string) error {
	upFrom, _ := split(from)
	upTo, _ := split(to)
	if err := a.mkdirAll(upTo); err != nil {
		return err
	}
	a.dirs[upFrom], a.dirs[upTo] = true, true
	return a.root.Move(from, to)
}

// Move moves a directory to a name that is free, in a directory that is there.
func (r *Root) Move(from, to string) error {
	upFrom, nameFrom := split(from)
	upTo, nameTo := split(to)
	other := &Root{dir: r.dir} // both directories are open at once
	dirFrom, err := other.enter(upFrom)
	if err != nil {
		return errors.Join(err, other.leave(0))
	}
	dirTo, err := r.enter(upTo)
	if err == nil {
		err = renameFree(dirFrom, nameFrom, dirTo, nameTo)
	}
	if err == nil {
		err = errors.Join(dirTo.Sync(), dirFrom.Sync())
	}
	return errors.Join(err, other.leave(0), r.fresh())
}

// renameFree moves a name to one that is free; otherwise the error matches
// fs.ErrExist. Where the system cannot do that in one step, somebody may take
// the name between the look at it and the move.
func renameFree(from vfs.Dir, name string, to vfs.Dir, newname string) error {
	err := from.Rename(name, to, newname, vfs.NoReplace)
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	var st vfs.Stat
	switch err := to.Lstat(newname, &st); {
	case err == nil:
		return &fs.PathError{Op: "rename", Path: newname, Err: fs.ErrExist}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return from.Rename(name, to, newname, vfs.Replace)
}

// mkdirAll makes the directories of a path that are not there, with the modes
// that the plan has for them.
func (a *applier) mkdirAll(path string) error {
	if path == "" {
		return nil
	}
	dir, err := a.root.enter(path)
	if dir != nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	up, name := split(path)
	if err := a.mkdirAll(up); err != nil {
		return err
	}
	parent, err := a.root.enter(up)
	if err != nil {
		return err
	}
	perm := uint16(0o755)
	if i, ok := a.plan.find(path); ok && a.plan.Items[i].New != nil {
		perm = a.plan.Items[i].New.Mode.Perm()
	}
	a.dirs[up], a.made[path] = true, true
	// Until it is full it must be writable.
	return parent.Mkdir(name, perm|0o700)
}

// workers is how many files are written at once: syncs wait for the disk, not
// for a core.
const workers = 8

// prepare writes all new content.
func (a *applier) prepare() error {
	group, ctx := errgroup.WithContext(a.ctx)
	group.SetLimit(workers)
	errs := make([]error, len(a.plan.Items))
	for i := range a.plan.Items {
		it := &a.plan.Items[i]
		if it.Do != Restore || !hasContent(it.New) || same(a.expected(it), it.New) {
			continue
		}
		a.touched[i] = true
		group.Go(func() error {
			root := &Root{dir: a.root.dir}
			var err error
			a.ready[i], err = a.write(ctx, root, i)
			errs[i] = errors.Join(err, root.leave(0))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, err := range errs {
		if err != nil {
			if err := a.fail(&a.plan.Items[i], err); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes the new content of an item, in the directory where it belongs
// or, if that is not there yet, in the nearest one above it.
func (a *applier) write(ctx context.Context, root *Root, i int) (prepared, error) {
	it := &a.plan.Items[i]
	at, name := split(it.Path)
	dir, err := root.enter(at)
	var notDir *notDirError
	for errors.Is(err, fs.ErrNotExist) || errors.As(err, &notDir) {
		at, _ = split(at)
		name = ""
		dir, err = root.enter(at)
	}
	if err != nil {
		return prepared{}, err
	}
	ready := prepared{dir: at}
	if it.New.Mode.IsSymlink() {
		target, err := a.g.Get(ctx, store.Blob, it.New.ID)
		if err != nil {
			return prepared{}, err
		}
		return ready, dir.Symlink(string(target), a.newName(i))
	}
	w, err := dir.Create(a.newName(i))
	if err != nil {
		return prepared{}, err
	}
	_, err = a.g.CopyBlob(ctx, w, it.New.ID)
	if old := a.expected(it); err == nil && name != "" && old != nil && old.Mode.IsFile() {
		ready.note, err = inherit(dir, name, w)
	}
	if err == nil {
		err = w.Chmod(it.New.Mode.Perm())
	}
	if err == nil {
		err = w.Sync()
	}
	return ready, errors.Join(err, w.Close())
}

// inherit gives a new file what the one that it replaces has beside content
// and permission bits. It returns what of that cannot be.
func inherit(dir vfs.Dir, name string, w vfs.Writer) (note string, err error) {
	old, err := dir.Open(name)
	if err != nil {
		return "", nil // it is looked at again before it is replaced
	}
	names, err := w.Inherit(old)
	if names > 1 {
		note = fmt.Sprintf("it had %d names, which stay with the old content", names)
	}
	return note, errors.Join(err, old.Close())
}

// replaces reports whether an item makes something else of a directory.
func (a *applier) replaces(it *Item) bool {
	old := a.expected(it)
	return it.Do == Restore && old != nil && old.Mode.IsDir() && hasContent(it.New)
}

// clearWay deletes what is in directories that become something else.
func (a *applier) clearWay() error {
	for i := range slices.Backward(a.plan.Items) {
		it := &a.plan.Items[i]
		if it.Do != Delete {
			continue
		}
		for up, _ := split(it.Path); up != ""; up, _ = split(up) {
			j, ok := a.plan.find(up)
			if !ok || !a.replaces(&a.plan.Items[j]) {
				continue
			}
			if err := a.delete(i); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// restore gives all items what is wanted, parents first.
func (a *applier) restore() error {
	for i := range a.plan.Items {
		it := &a.plan.Items[i]
		if it.Do != Restore || same(a.expected(it), it.New) {
			continue
		}
		var err error
		if it.New.Mode.IsDir() {
			err = a.restoreDir(i)
		} else {
			err = a.restoreFile(i)
		}
		if err != nil {
			if err := a.fail(it, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// restoreDir makes a directory. Its mode comes last: see setModes.
func (a *applier) restoreDir(i int) error {
	it := &a.plan.Items[i]
	up, name := split(it.Path)
	if err := a.mkdirAll(up); err != nil {
		return err
	}
	dir, err := a.root.enter(up)
	if err != nil {
		return err
	}
	now, err := entryIn(a.ctx, dir, name, a.hash)
	if err != nil {
		return err
	}
	if isDir := now != nil && now.Mode.IsDir(); !same(now, a.expected(it)) && !a.made[it.Path] {
		if it.Parent && isDir { // somebody else has made it: that will do
			it.Do = Nothing
		} else {
			a.skip(it, now)
		}
		return nil
	}
	switch {
	case now == nil:
		return a.mkdirAll(it.Path)
	case now.Mode.IsDir():
		return nil
	}
	a.touched[i] = true
	if err := dir.Mkdir(a.newName(i), it.New.Mode.Perm()|0o700); err != nil {
		return err
	}
	a.ready[i] = prepared{dir: up}
	return a.swap(i, dir, name)
}

// restoreFile puts new content in its place.
func (a *applier) restoreFile(i int) error {
	it := &a.plan.Items[i]
	up, name := split(it.Path)
	if err := a.mkdirAll(up); err != nil {
		return err
	}
	it.Note = a.ready[i].note
	dir, err := a.root.enter(up)
	if err != nil {
		return err
	}
	if a.ready[i].dir != up { // the directory was not there before
		other := &Root{dir: a.root.dir}
		from, err := other.enter(a.ready[i].dir)
		if err == nil {
			err = from.Rename(a.newName(i), dir, a.newName(i), vfs.NoReplace)
		}
		if errors.Is(err, errors.ErrUnsupported) { // between two directories: it is written anew
			if err = from.Remove(a.newName(i)); err == nil {
				a.ready[i], err = a.write(a.ctx, a.root, i)
			}
			if err == nil {
				dir, err = a.root.enter(up)
			}
		}
		if err := errors.Join(err, other.leave(0)); err != nil {
			return err
		}
		a.ready[i].dir = up
	}
	a.dirs[up] = true
	if a.expected(it) != nil {
		return a.swap(i, dir, name)
	}
	err = renameFree(dir, a.newName(i), dir, name)
	a.touched[i] = err != nil
	if errors.Is(err, fs.ErrExist) {
		now, err := entryIn(a.ctx, dir, name, a.hash)
		if err != nil {
			return err
		}
		a.skip(it, now)
		return nil
	}
	return err
}

// swap puts what is ready in the place of what is there, unless that is not
// what the plan found. Both change places in one step, and only then the old
// content is looked at: so nothing that somebody writes meanwhile is lost.
func (a *applier) swap(i int, dir vfs.Dir, name string) error {
	it := &a.plan.Items[i]
	a.dirs[a.ready[i].dir] = true
	if err := dir.Rename(a.newName(i), dir, a.oldName(i), vfs.Replace); err != nil {
		return err
	}
	err := dir.Rename(a.oldName(i), dir, name, vfs.Exchange)
	if errors.Is(err, errors.ErrUnsupported) {
		return a.replace(i, dir, name)
	}
	if errors.Is(err, fs.ErrNotExist) { // deleted meanwhile
		a.skip(it, nil)
		return nil
	}
	if err != nil {
		return err
	}
	put, expected := it.New, a.expected(it) // by us into its place, and what that should have been
	for range 10 {
		old, err := entryIn(a.ctx, dir, a.oldName(i), a.hash)
		if err != nil {
			return errors.Join(err, dir.Rename(a.oldName(i), dir, name, vfs.Exchange))
		}
		if same(old, expected) {
			err := dir.Remove(a.oldName(i))
			a.touched[i] = err != nil
			if err == nil || old == nil || !old.Mode.IsDir() {
				return err
			}
			it.Do, it.Why = Failed, err.Error() // it is not empty
		}
		// Somebody has written: back it goes, and what we put there should
		// come out again.
		if it.Do == Restore {
			a.skip(it, old)
		}
		if err := dir.Rename(a.oldName(i), dir, name, vfs.Exchange); err != nil {
			return err
		}
		put, expected = old, put
	}
	return errors.New("it is written all the time")
}

// replace is swap where two names cannot change places in one step.
func (a *applier) replace(i int, dir vfs.Dir, name string) error {
	it := &a.plan.Items[i]
	old, err := entryIn(a.ctx, dir, name, a.hash)
	switch {
	case err != nil:
		return err
	case !same(old, a.expected(it)):
		a.skip(it, old)
		return nil
	case old.Mode.IsDir() || it.New.Mode.IsDir():
		if err := dir.Remove(name); err != nil {
			return err
		}
	}
	return dir.Rename(a.oldName(i), dir, name, vfs.Replace)
}

// remove deletes what is to go, what is in a directory before it.
func (a *applier) remove() error {
	for i := range slices.Backward(a.plan.Items) {
		if it := &a.plan.Items[i]; it.Do == Delete && a.expected(it) != nil {
			if err := a.delete(i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *applier) delete(i int) error {
	it := &a.plan.Items[i]
	err := a.tryDelete(i)
	if err != nil {
		return a.fail(it, err)
	}
	return nil
}

// tryDelete deletes one path, unless it is not what the plan found: it is put
// aside first, and looked at then.
func (a *applier) tryDelete(i int) error {
	it := &a.plan.Items[i]
	up, name := split(it.Path)
	dir, err := a.root.enter(up)
	var notDir *notDirError
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &notDir) {
		return nil // gone with what it was in
	}
	if err != nil {
		return err
	}
	var st vfs.Stat
	if err := dir.Lstat(name, &st); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	a.dirs[up] = true
	if st.Kind == vfs.Directory {
		return a.removeDir(it, dir, name)
	}
	a.touched[i] = true
	if err := renameFree(dir, name, dir, a.oldName(i)); err != nil {
		return err
	}
	old, err := entryIn(a.ctx, dir, a.oldName(i), a.hash)
	if err == nil && same(old, a.expected(it)) {
		err = dir.Remove(a.oldName(i))
		a.touched[i] = err != nil
		return err
	}
	if err == nil {
		a.skip(it, old)
	}
	return errors.Join(err, renameFree(dir, a.oldName(i), dir, name))
}

// removeDir deletes a directory if it is empty.
func (a *applier) removeDir(it *Item, dir vfs.Dir, name string) error {
	if old := a.expected(it); old == nil || !old.Mode.IsDir() {
		a.skip(it, &tree.Entry{Mode: tree.ModeDir})
		return nil
	}
	err := dir.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	names, lerr := a.root.list(it.Path)
	if err != nil && lerr == nil && len(names) > 0 {
		slices.Sort(names)
		it.Do, it.Why = Kept, fmt.Sprintf("it is not empty: it holds %q", names[0])
		return nil
	}
	return err
}

// setModes gives directories their permission bits, which may forbid to write
// into them.
func (a *applier) setModes() error {
	for i := range slices.Backward(a.plan.Items) {
		it := &a.plan.Items[i]
		if it.Do != Restore || !it.New.Mode.IsDir() {
			continue
		}
		dir, err := a.root.enter(it.Path)
		var st vfs.Stat
		if err == nil {
			err = dir.Stat(&st)
		}
		if err == nil && st.Perm != it.New.Mode.Perm() {
			a.dirs[it.Path] = true
			err = dir.Chmod(it.New.Mode.Perm())
		}
		if err != nil {
			if err := a.fail(it, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// sync makes the names durable.
func (a *applier) sync() error {
	var group errgroup.Group
	group.SetLimit(workers)
	for path := range a.dirs {
		group.Go(func() error {
			root := &Root{dir: a.root.dir}
			dir, err := root.enter(path)
			if err == nil {
				err = dir.Sync()
			}
			var notDir *notDirError
			if errors.Is(err, fs.ErrNotExist) || errors.As(err, &notDir) {
				err = nil // gone since
			}
			return errors.Join(err, root.leave(0))
		})
	}
	return group.Wait()
}

// verify looks whether all paths are as they were wanted.
func (a *applier) verify() error {
	for i := range a.plan.Items {
		it := &a.plan.Items[i]
		if it.Do != Restore && it.Do != Delete {
			continue
		}
		now, err := a.root.Entry(a.ctx, it.Path, a.hash)
		want := it.New
		if it.Do == Delete {
			want = nil
		}
		if err == nil && !same(now, want) {
			err = errors.New("it was changed again right after")
		}
		if err != nil {
			if err := a.fail(it, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweep removes what was prepared and not used.
func (a *applier) sweep() error {
	s := &sweeper{context.WithoutCancel(a.ctx), a.root, a.id, a.hash}
	var errs []error
	for i := range a.plan.Items {
		if it := &a.plan.Items[i]; a.touched[i] {
			errs = append(errs, s.path(it.Path, a.expected(it), it.New))
		}
	}
	return errors.Join(errs...)
}
