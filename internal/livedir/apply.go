package livedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/tree"
)

// Save puts what a plan will overwrite or delete into the sink. What is not as
// the plan has it any more, or cannot be read, is not to be changed then, and
// the plan says so from now on.
func (p *Plan) Save(ctx context.Context, root *Root, to Sink) error {
	done := progress.Of(ctx)
	done.Begin(p.phase("saving", isChanged, was))
	root.distinguish(p.paths)
	for i := range p.Items {
		it := &p.Items[i]
		if !isChanged(it) {
			continue
		}
		now, err := root.Entry(ctx, it.Path, to)
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		switch {
		case isFatal(err):
			return fmt.Errorf("save %q: %w", it.Path, err)
		case err != nil:
			it.Do, it.Why = rollback.Failed, err.Error()
		case !same(now, it.Now):
			it.Do, it.Why, it.Dirty = rollback.Skipped, describe(it.Now, now), true
		}
		done.Count(1, sizeOf(now))
	}
	return root.fresh()
}

// paths yields the paths of a plan.
func (p *Plan) paths(yield func(string) bool) {
	for i := range p.Items {
		if !yield(p.Items[i].Path) {
			return
		}
	}
}

// phase returns a phase of the work on a plan: on the items that are meant, of each of
// which the content of one entry is read or written.
func (p *Plan) phase(name string, means func(*rollback.Item) bool, of func(*rollback.Item) *tree.Entry) progress.Phase {
	phase := progress.Phase{Name: name, Unit: "file"}
	for i := range p.Items {
		if it := &p.Items[i]; means(it) {
			phase.Items++
			phase.Bytes += sizeOf(of(it))
		}
	}
	return phase
}

func isChanged(it *rollback.Item) bool  { return isRestored(it) || isDeleted(it) }
func isRestored(it *rollback.Item) bool { return it.Do == rollback.Restore }
func isDeleted(it *rollback.Item) bool  { return it.Do == rollback.Delete }
func isWritten(it *rollback.Item) bool  { return isRestored(it) && hasContent(it.New) }

func was(it *rollback.Item) *tree.Entry  { return it.Now }
func will(it *rollback.Item) *tree.Entry { return it.New }

// sizeOf returns how many bytes are read or written of an entry.
func sizeOf(e *tree.Entry) int64 {
	if !hasContent(e) {
		return 0
	}
	return e.Size
}

// isFatal reports whether an error is not of a file, but of the disk.
func isFatal(err error) bool {
	fatal := []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS}
	return slices.ContainsFunc(fatal, func(f error) bool { return errors.Is(err, f) })
}

// Changes reports whether a plan changes anything.
func (p *Plan) Changes() bool {
	return len(p.Moves) > 0 || slices.ContainsFunc(p.Items, func(it rollback.Item) bool { return isChanged(&it) })
}

// Count returns how many paths get an action.
func (p *Plan) Count(do rollback.Action) int {
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
// All new content is written, in a directory of its own or beside the files, before
// the first of them is replaced; where that fails for want of space or by an
// error of the device, nothing is changed and the error is returned. A file is
// replaced in one step, so that a reader finds the old one or the new one. id
// is part of the names: letters and digits that no other restore has.
//
// An error leaves files that were replaced and others that were not, as a crash
// does: see [Sweep].
func (p *Plan) Apply(ctx context.Context, root *Root, g trees.BlobGetter, id string) error {
	a := &applier{ctx: ctx, plan: p, root: root, g: g, id: id, dirs: make(map[string]bool),
		opened: make(map[string]uint16), made: make(map[string]uint16), fits: make(map[string]bool),
		hash: trees.NewOverlay(nil), done: progress.Of(ctx)}
	err := errors.Join(a.apply(), root.fresh())
	a.noteMade()
	if err != nil {
		err = fmt.Errorf("restore: %w", err)
	}
	return err
}

type applier struct {
	ctx  context.Context
	plan *Plan
	root *Root
	g    trees.BlobGetter
	id   string
	hash Sink
	done *progress.Progress // nil: nobody wants to know

	making  *making         // nil: all is made beside its path
	madeOf  map[string]int  // files of which others are made, and the items of those
	ready   []prepared      // new content, by item
	touched []bool          // something may lie aside of the item
	spelt   map[string]bool // paths of which another may be a spelling
	doubted map[string]bool // the same of the directories that they are in
	cleared map[int]bool    // items that clearWay has deleted: what is there by now may be another spelling
	mu      sync.Mutex
	dirs    map[string]bool   // directories in which names have changed; guarded by mu
	fits    map[string]bool   // whether what is made for a directory may lie in making; guarded by mu
	opened  map[string]uint16 // modes of directories that were made writable
	made    map[string]uint16 // directories that this restore has made, and the modes that they are to have
}

// prepared says where the new content of an item lies until it gets its name.
type prepared struct {
	side   vfs.Dir // of a.making; nil: in dir
	dir    string  // where it belongs, or the nearest directory above that was there
	note   string
	linked bool // what it replaces may have other names
}

// changes notes that names change in a directory.
func (a *applier) changes(dir string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dirs[dir] = true
}

func (a *applier) newName(i int) string { return newName(a.id, a.plan.Items[i].Path) }
func (a *applier) oldName(i int) string { return oldName(a.id, a.plan.Items[i].Path) }

func (a *applier) apply() error {
	a.ready, a.touched = make([]prepared, len(a.plan.Items)), make([]bool, len(a.plan.Items))
	a.madeOf, a.cleared = make(map[string]int), make(map[int]bool)
	a.root.spellings = nil // what is restored may come to lie in a directory that keeps its spelling
	a.spelt = spellings(a.plan.paths)
	a.doubted = spellings(func(yield func(string) bool) {
		for p := range a.plan.paths {
			if up, _ := trees.Split(p); !yield(up) {
				return
			}
		}
	})
	for i, it := range a.plan.Items {
		if it.From != "" {
			a.madeOf[it.From] = i
		}
	}
	// What is in the way of something may have to be moved first, and what is
	// moved into a directory that is in the place of a file, afterwards.
	for _, step := range []func() error{a.open, a.room, a.prepare, a.move, a.clearWay, a.restore, a.move, a.remove} {
		if err := errors.Join(a.root.fresh(), step()); err != nil {
			return errors.Join(err, a.sweep(), a.setModes())
		}
	}
	for _, step := range []func() error{a.sweep, a.setModes, a.sync, a.verify} {
		if err := errors.Join(a.root.fresh(), step()); err != nil {
			return err
		}
	}
	return nil
}

// fail records that an item cannot be done, if err says so. The error is returned if
// it is one that ends the restore.
func (a *applier) fail(it *rollback.Item, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(a.ctx); cause != nil {
		return cause
	}
	if isFatal(err) {
		return fmt.Errorf("%q: %w", it.Path, err)
	}
	it.Do, it.Why = rollback.Failed, err.Error()
	return nil
}

// skip records that an item stays, since it is not as it was found.
func (a *applier) skip(it *rollback.Item, now *tree.Entry) {
	it.Do, it.Why, it.Dirty = rollback.Skipped, describe(it.Now, now), true
}

// find returns the index of a path's item.
func (p *Plan) find(path string) (int, bool) {
	return slices.BinarySearchFunc(p.Items, path, func(it rollback.Item, path string) int {
		return trees.ComparePaths(it.Path, path)
	})
}

// move moves what goes along with directories, as far as that can be done.
func (a *applier) move() error {
	for i := range a.plan.Moves {
		mv := &a.plan.Moves[i]
		err := a.moveOne(mv)
		if cause := context.Cause(a.ctx); cause != nil {
			return cause
		}
		if isFatal(err) {
			return fmt.Errorf("move %q to %q: %w", mv.From, mv.To, err)
		}
		if mv.Why = ""; err != nil {
			mv.Why = err.Error()
		}
	}
	return nil
}

// moveOne moves something to a name that is free, unless that is done already.
func (a *applier) moveOne(mv *rollback.Move) error {
	upFrom, nameFrom := trees.Split(mv.From)
	upTo, nameTo := trees.Split(mv.To)
	if to, err := a.root.stat(mv.To); err != nil || to != nil && to.Ino == mv.Inode {
		return err
	}
	if err := a.mkdirAll(upTo); err != nil {
		return err
	}
	other := &Root{dir: a.root.dir} // both directories are open at once
	from, err := other.enter(upFrom)
	if err != nil {
		return errors.Join(err, other.leave(0))
	}
	var st vfs.Stat
	if err = from.Lstat(nameFrom, &st); err == nil && st.Ino != mv.Inode {
		err = errors.New("it was replaced meanwhile")
	}
	if err != nil {
		return errors.Join(err, other.leave(0))
	}
	to, err := a.root.enter(upTo)
	if err == nil {
		a.changes(upFrom)
		a.changes(upTo)
		err = renameFree(from, nameFrom, to, nameTo)
	}
	return errors.Join(err, other.leave(0))
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

// noteMade notes which directories were made that no item restores.
func (a *applier) noteMade() {
	a.plan.Made = nil
	for _, path := range slices.SortedFunc(maps.Keys(a.made), trees.ComparePaths) {
		if i, ok := a.plan.find(path); ok && a.plan.Items[i].Do == rollback.Restore &&
			a.plan.Items[i].New.Mode.IsDir() {
			continue
		}
		a.plan.Made = append(a.plan.Made, Made{path, tree.ModeDir | tree.Mode(a.made[path])})
	}
}

// perm returns the permission bits of a directory that is made: those that are
// wanted if a directory is wanted there, otherwise those that mkdir would give it.
func (a *applier) perm(path string) uint16 {
	if i, ok := a.plan.find(path); ok && a.plan.Items[i].New != nil && a.plan.Items[i].New.Mode.IsDir() {
		return uint16(a.plan.Items[i].New.Mode & 0o777)
	}
	i, ok := slices.BinarySearchFunc(a.plan.Made, path, func(m Made, path string) int {
		return trees.ComparePaths(m.Path, path)
	})
	if ok {
		return uint16(a.plan.Made[i].Mode & 0o777)
	}
	return 0o777 &^ vfs.Umask()
}

// mkdirAll makes the directories of a path that are not there.
func (a *applier) mkdirAll(path string) error {
	if path == "" {
		return nil
	}
	if _, err := a.root.enter(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	up, name := trees.Split(path)
	if err := a.mkdirAll(up); err != nil {
		return err
	}
	parent, err := a.root.enter(up)
	if err != nil {
		return err
	}
	perm := a.perm(path)
	if err := checkVCS(parent, name, &tree.Entry{Mode: tree.ModeDir}); err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	// Until it is full it must be writable.
	err = parent.Mkdir(name, perm|0o700)
	switch {
	case err == nil:
		a.changes(up)
		a.made[path] = perm
	case errors.Is(err, fs.ErrExist): // somebody else was faster
		_, err = a.root.enter(path)
	}
	return err
}

// open makes directories writable in which names are to change, where this
// process may do that. setModes takes it back.
func (a *applier) open() error {
	if os.Geteuid() == 0 {
		return nil // for which modes mean nothing
	}
	seen := make(map[string]bool)
	for i := range a.plan.Items {
		it := &a.plan.Items[i]
		up, _ := trees.Split(it.Path)
		if it.Do != rollback.Restore && it.Do != rollback.Delete || seen[up] {
			continue
		}
		seen[up] = true
		dir, err := a.root.enter(up)
		var st vfs.Stat
		if err == nil {
			err = dir.Stat(&st)
		}
		if err == nil && up != "" && st.Perm&0o300 != 0o300 && dir.Chmod(st.Perm|0o700) == nil {
			a.opened[up] = st.Perm
		}
	}
	return nil
}

// unopen gives the entry of a directory that open has made writable the mode that
// it had.
func (a *applier) unopen(path string, e *tree.Entry) {
	if perm, opened := a.opened[path]; opened && e != nil && e.Mode == tree.ModeDir|tree.Mode(perm)|0o700 {
		e.Mode = tree.ModeDir | tree.Mode(perm)
	}
}

// workers is how many files are written at once: syncs wait for the disk, not
// for a core.
const workers = 8

// prepare writes all new content.
func (a *applier) prepare() error {
	a.done.Begin(a.plan.phase("writing", isWritten, will))
	group, ctx := errgroup.WithContext(a.ctx)
	group.SetLimit(workers)
	for i := range a.plan.Items {
		it := &a.plan.Items[i]
		if !isWritten(it) {
			continue
		}
		group.Go(func() error {
			root := &Root{dir: a.root.dir}
			var err error
			a.ready[i], err = a.write(ctx, root, i, false)
			a.done.Count(1, it.New.Size)
			return a.fail(it, errors.Join(err, root.leave(0)))
		})
	}
	return group.Wait()
}

// write writes the new content of an item, where it is to lie meanwhile; beside: in the
// directory where it belongs or, if that is not there yet, in the nearest one above it.
func (a *applier) write(ctx context.Context, root *Root, i int, beside bool) (prepared, error) {
	it := &a.plan.Items[i]
	at, name := trees.Split(it.Path)
	dir, err := root.enter(at)
	for at != "" && (isGone(err) || a.doubted[at] && !beside) { // which may go, being there in another spelling
		at, _ = trees.Split(at)
		name = ""
		dir, err = root.enter(at)
	}
	if err != nil {
		return prepared{}, err
	}
	ready, side := prepared{dir: at}, dir
	if !beside {
		if side = a.sideOf(it, at, dir); side != dir {
			ready.side = side
		}
	}
	if it.New.Mode.Kind() == tree.ModeSymlink {
		target, err := a.g.Get(ctx, object.Blob, it.New.ID)
		if err != nil {
			return prepared{}, err
		}
		err = side.Symlink(string(target), a.newName(i))
		a.touched[i] = err == nil
		return ready, err
	}
	w, err := side.Create(a.newName(i), 0o600)
	if err != nil {
		return prepared{}, err
	}
	a.touched[i] = true
	_, err = trees.CopyFile(ctx, a.g, w, it.New)
	if err == nil && name != "" && it.Now != nil && it.Now.Mode.Kind() == tree.ModeFile {
		err = inherit(dir, name, w, &ready)
	}
	if err == nil {
		err = w.Chmod(uint16(it.New.Mode & 0o777))
	}
	if err == nil {
		err = w.Sync()
	}
	return ready, errors.Join(err, w.Close())
}

// inherit gives a new file what the one that it replaces has beside content, permission
// bits and privileges, and notes what stays with the old one.
func inherit(dir vfs.Dir, name string, w vfs.Writer, ready *prepared) error {
	old, err := dir.Open(name, nil)
	if err != nil {
		ready.linked = true
		return nil // it is looked at again before it is replaced
	}
	names, privileged, err := w.Inherit(old)
	ready.linked = names != 1
	var notes []string
	if names > 1 {
		notes = append(notes, fmt.Sprintf("it had %d names, which stay with the old content", names))
	}
	if privileged {
		notes = append(notes, "it had set-id bits or capabilities, which other content does not get")
	}
	ready.note = strings.Join(notes, "; ")
	return errors.Join(err, old.Close())
}

// replaces reports whether an item makes something else of a directory.
func (a *applier) replaces(it *rollback.Item) bool {
	return it.Do == rollback.Restore && it.Now != nil && it.Now.Mode.IsDir() && hasContent(it.New)
}

// clearWay deletes what is in directories that become something else, and what may be
// another spelling of a path that is restored.
func (a *applier) clearWay() error {
	var replaced []string
	for i := range a.plan.Items {
		if it := &a.plan.Items[i]; a.replaces(it) {
			replaced = append(replaced, it.Path)
		}
	}
	for i := range slices.Backward(a.plan.Items) {
		it := &a.plan.Items[i]
		if it.Do != rollback.Delete || !a.spelt[it.Path] && !slices.ContainsFunc(replaced, func(dir string) bool {
			_, in := trees.Below(it.Path, dir)
			return in
		}) {
			continue
		}
		if err := a.delete(i); err != nil {
			return err
		}
		a.cleared[i] = true
	}
	return nil
}

// restore gives all items what is wanted, parents first, and last the files of
// which the directory was there all the time: of those several at once, but not
// two names of one file, since what is done to one changes what is told of the
// other.
func (a *applier) restore() error {
	a.done.Begin(a.plan.phase("replacing", isRestored, was))
	var files []int
	for i := range a.plan.Items {
		it := &a.plan.Items[i]
		if it.Do != rollback.Restore {
			continue
		}
		up, _ := trees.Split(it.Path)
		var err error
		switch {
		case it.New.Mode.IsDir():
			err = a.restoreDir(i)
		case a.ready[i].dir == up && !a.ready[i].linked && !a.replaces(it):
			files = append(files, i)
			continue
		default:
			err = a.restoreFile(a.root, i)
		}
		a.done.Count(1, sizeOf(it.Now))
		if err := a.fail(it, err); err != nil {
			return err
		}
	}
	if len(files) == 0 {
		return nil
	}
	group, ctx := errgroup.WithContext(a.ctx)
	for some := range slices.Chunk(files, (len(files)+workers-1)/workers) {
		group.Go(func() error {
			root := &Root{dir: a.root.dir}
			for _, i := range some {
				it := &a.plan.Items[i]
				if err := a.fail(it, a.restoreFile(root, i)); err != nil {
					return errors.Join(err, root.leave(0))
				}
				a.done.Count(1, sizeOf(it.Now))
				if ctx.Err() != nil { // another one has failed
					break
				}
			}
			return root.leave(0)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return context.Cause(a.ctx)
}

// restoreDir makes a directory. Its mode comes last: see setModes.
func (a *applier) restoreDir(i int) error {
	it := &a.plan.Items[i]
	up, name := trees.Split(it.Path)
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
	a.unopen(it.Path, now)
	_, made := a.made[it.Path]
	if isDir := now != nil && now.Mode.IsDir(); !same(now, it.Now) && !made {
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
	if err := dir.Mkdir(a.newName(i), uint16(it.New.Mode&0o777)|0o700); err != nil {
		return err
	}
	a.ready[i] = prepared{dir: up}
	return a.swap(i, dir, dir, name)
}

// restoreFile puts new content in its place. If that is to get another directory
// first, root is the applier's.
func (a *applier) restoreFile(root *Root, i int) error {
	it := &a.plan.Items[i]
	up, name := trees.Split(it.Path)
	isNew := a.ready[i].dir != up // the directory was not there before
	if isNew {
		if err := a.mkdirAll(up); err != nil {
			return err
		}
	}
	it.Note = a.ready[i].note
	dir, err := root.enter(up)
	if err != nil {
		return err
	}
	side := a.ready[i].side
	if side != nil && isNew && a.sideOf(it, up, dir) != side {
		if dir, err = a.writeBeside(root, i); err != nil {
			return err
		}
		side = nil
	} else if side == nil && isNew {
		other := &Root{dir: a.root.dir}
		from, err := other.enter(a.ready[i].dir)
		if err == nil {
			err = from.Rename(a.newName(i), dir, a.newName(i), vfs.NoReplace)
		}
		if errors.Is(err, errors.ErrUnsupported) { // between two directories: it is written anew
			if err = from.Remove(a.newName(i)); err == nil {
				a.ready[i], err = a.write(a.ctx, root, i, true)
			}
			if err == nil {
				dir, err = root.enter(up)
			}
		}
		if err := errors.Join(err, other.leave(0)); err != nil {
			return err
		}
		a.ready[i].dir = up
	}
	a.changes(up)
	if side == nil {
		side = dir
	}
	err = a.put(i, side, dir, name)
	if side != dir && errors.Is(err, errors.ErrUnsupported) { // it is of another file system by now
		if dir, err = a.writeBeside(root, i); err == nil {
			err = a.put(i, dir, dir, name)
		}
	}
	if it.Now == nil && errors.Is(err, fs.ErrExist) {
		now, err := entryIn(a.ctx, dir, name, a.hash)
		if err != nil {
			return err
		}
		a.skip(it, now)
		return nil
	}
	return err
}

// put puts what is ready in side under its name.
func (a *applier) put(i int, side, dir vfs.Dir, name string) error {
	if a.plan.Items[i].Now != nil {
		return a.swap(i, side, dir, name)
	}
	err := checkVCS(dir, name, a.plan.Items[i].New)
	if err == nil {
		err = renameFree(side, a.newName(i), dir, name)
	}
	a.touched[i] = err != nil
	return err
}

// writeBeside writes the new content of an item again, beside its path: it cannot be
// renamed to there from where it is. It returns the path's directory.
func (a *applier) writeBeside(root *Root, i int) (vfs.Dir, error) {
	for _, name := range []string{a.newName(i), a.oldName(i)} { // under either by now
		made, err := entryIn(a.ctx, a.making, name, a.hash)
		switch {
		case err != nil:
			return nil, err
		case made == nil:
			continue
		case !same(made, a.plan.Items[i].New): // it was put aside there: see sweep
			return nil, errors.New("it cannot be exchanged with its new content")
		}
		if err := a.making.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	var err error
	if a.ready[i], err = a.write(a.ctx, root, i, true); err != nil {
		return nil, err
	}
	up, _ := trees.Split(a.plan.Items[i].Path)
	return root.enter(up)
}

// swap puts what is ready in side in the place of what is there, unless that is not
// what the plan found. Both change places in one step, and only then the old
// content is looked at: so nothing that somebody writes meanwhile is lost.
func (a *applier) swap(i int, side, dir vfs.Dir, name string) error {
	it := &a.plan.Items[i]
	a.changes(a.ready[i].dir)
	if err := renameFree(side, a.newName(i), side, a.oldName(i)); err != nil {
		return err
	}
	err := side.Rename(a.oldName(i), dir, name, vfs.Exchange)
	if errors.Is(err, errors.ErrUnsupported) {
		return a.replace(i, side, dir, name)
	}
	if errors.Is(err, fs.ErrNotExist) { // deleted meanwhile
		a.skip(it, nil)
		return nil
	}
	if err != nil {
		return err
	}
	put, expected := it.New, it.Now // by us into its place, and what that should have been
	for range 10 {
		old, err := entryIn(a.ctx, side, a.oldName(i), a.hash)
		if err != nil {
			return errors.Join(err, side.Rename(a.oldName(i), dir, name, vfs.Exchange))
		}
		a.unopen(it.Path, old)
		if same(old, expected) {
			err := side.Remove(a.oldName(i))
			a.touched[i] = err != nil
			if err == nil || old == nil || !old.Mode.IsDir() {
				return err
			}
			it.Do, it.Why = rollback.Failed, err.Error() // it is not empty
		}
		// Somebody has written: back it goes, and what we put there should
		// come out again.
		if it.Do == rollback.Restore {
			a.skip(it, old)
		}
		if err := side.Rename(a.oldName(i), dir, name, vfs.Exchange); err != nil {
			return err
		}
		put, expected = old, put
	}
	return errors.New("it is written all the time")
}

// replace is swap where two names cannot change places in one step.
func (a *applier) replace(i int, side, dir vfs.Dir, name string) error {
	it := &a.plan.Items[i]
	old, err := entryIn(a.ctx, dir, name, a.hash)
	a.unopen(it.Path, old)
	switch {
	case err != nil:
		return err
	case !same(old, it.Now):
		a.skip(it, old)
		return nil
	case old.Mode.IsDir():
		if err := dir.RemoveDir(name); err != nil {
			return err
		}
	case it.New.Mode.IsDir():
		if err := dir.Remove(name); err != nil {
			return err
		}
	}
	return side.Rename(a.oldName(i), dir, name, vfs.Replace)
}

// remove deletes what is to go, what is in a directory before it.
func (a *applier) remove() error {
	a.done.Begin(a.plan.phase("deleting", isDeleted, was))
	for i := range slices.Backward(a.plan.Items) {
		if it := &a.plan.Items[i]; it.Do == rollback.Delete && !a.cleared[i] {
			if err := a.delete(i); err != nil {
				return err
			}
			a.done.Count(1, sizeOf(it.Now))
		}
	}
	return nil
}

func (a *applier) delete(i int) error {
	it := &a.plan.Items[i]
	if j, ok := a.madeOf[it.Path]; ok && a.plan.Items[j].Do != rollback.Restore {
		keepSource(it, &a.plan.Items[j])
		return nil
	}
	return a.fail(it, a.tryDelete(i))
}

// tryDelete deletes one path, unless it is not what the plan found: it is put
// aside first, and looked at then.
func (a *applier) tryDelete(i int) error {
	it := &a.plan.Items[i]
	up, name := trees.Split(it.Path)
	dir, err := a.root.enter(up)
	if isGone(err) {
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
	a.changes(up)
	if st.Kind == vfs.Directory {
		return a.removeDir(it, dir, name)
	}
	a.touched[i] = true
	side := a.sideOf(it, up, dir)
	err = renameFree(dir, name, side, a.oldName(i))
	if side != dir && errors.Is(err, errors.ErrUnsupported) { // it is of another file system by now
		side = dir
		err = renameFree(dir, name, side, a.oldName(i))
	}
	if err != nil {
		return err
	}
	old, err := entryIn(a.ctx, side, a.oldName(i), a.hash)
	if err == nil && same(old, it.Now) {
		err = side.Remove(a.oldName(i))
		a.touched[i] = err != nil
		return err
	}
	if err == nil {
		a.skip(it, old)
	}
	return errors.Join(err, renameFree(side, a.oldName(i), dir, name))
}

// removeDir deletes a directory if it is empty.
func (a *applier) removeDir(it *rollback.Item, dir vfs.Dir, name string) error {
	if !it.Now.Mode.IsDir() {
		a.skip(it, &tree.Entry{Mode: tree.ModeDir})
		return nil
	}
	err := dir.RemoveDir(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	names, lerr := a.root.list(it.Path)
	if err != nil && lerr == nil && len(names) > 0 {
		slices.Sort(names)
		it.Do, it.Why = rollback.Kept, fmt.Sprintf("it is not empty: it holds %q", names[0])
		return nil
	}
	return err
}

// setModes gives directories their permission bits, which may forbid to write
// into them.
func (a *applier) setModes() error {
	for i := range slices.Backward(a.plan.Items) {
		it := &a.plan.Items[i]
		perm, opened := a.opened[it.Path]
		switch {
		case it.Do == rollback.Restore && it.New.Mode.IsDir():
			if now := a.otherMode(it); now != nil {
				a.skip(it, now)
				delete(a.opened, it.Path)
				continue
			}
			perm = uint16(it.New.Mode & 0o777)
		case !opened:
			continue
		}
		delete(a.opened, it.Path)
		err := a.setMode(it.Path, perm)
		if isGone(err) && (it.Do == rollback.Delete || a.replaces(it)) {
			continue
		}
		if err := a.fail(it, err); err != nil {
			return err
		}
	}
	rest := maps.Clone(a.opened)
	for path, perm := range a.made {
		if i, ok := a.plan.find(path); !ok || a.plan.Items[i].Do != rollback.Restore {
			rest[path] = perm
		}
	}
	for _, path := range slices.Backward(slices.SortedFunc(maps.Keys(rest), trees.ComparePaths)) {
		if err := a.setMode(path, rest[path]); err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

// otherMode returns a directory that was there before and whose mode somebody has changed since
// the plan was made, nil if nobody has.
func (a *applier) otherMode(it *rollback.Item) *tree.Entry {
	if _, made := a.made[it.Path]; made || it.Now == nil || !it.Now.Mode.IsDir() {
		return nil
	}
	st, err := a.root.stat(it.Path)
	if err != nil || st == nil || st.Kind != vfs.Directory { // setMode says why
		return nil
	}
	now := &tree.Entry{Mode: tree.ModeDir | tree.Mode(st.Perm)}
	if a.unopen(it.Path, now); same(now, it.Now) || same(now, it.New) {
		return nil
	}
	return now
}

// setMode gives a directory its permission bits, if it is there.
func (a *applier) setMode(path string, perm uint16) error {
	dir, err := a.root.enter(path)
	var st vfs.Stat
	if err == nil {
		err = dir.Stat(&st)
	}
	if err == nil && st.Perm != perm {
		a.changes(path)
		err = dir.Chmod(perm)
	}
	return err
}

// sync makes the names durable. Neighbours follow each other, so that a directory is opened from the one
// that it is in and not from the root: 2,000 levels would be two million opens.
func (a *applier) sync() error {
	dirs := slices.Sorted(maps.Keys(a.dirs))
	var group errgroup.Group
	for part := range slices.Chunk(dirs, len(dirs)/workers+1) {
		group.Go(func() error {
			root := &Root{dir: a.root.dir}
			var errs []error
			for _, path := range part {
				dir, err := root.enter(path)
				if err == nil {
					err = dir.Sync()
				}
				if !isGone(err) { // gone since
					errs = append(errs, err)
				}
			}
			return errors.Join(append(errs, root.leave(0))...)
		})
	}
	return group.Wait()
}

// verify looks whether all paths are as they were wanted.
func (a *applier) verify() error {
	a.done.Begin(a.plan.phase("verifying", isChanged, will))
	for i := range a.plan.Items {
		it := &a.plan.Items[i]
		if !isChanged(it) {
			continue
		}
		if a.cleared[i] { // another spelling of it may be there by now
			a.done.Count(1, 0)
			continue
		}
		now, err := a.root.Entry(a.ctx, it.Path, a.hash)
		want := it.New
		if it.Do == rollback.Delete {
			want = nil
		}
		if err == nil && !same(now, want) {
			err = errors.New("it was changed again right after")
		}
		a.done.Count(1, sizeOf(now))
		if err := a.fail(it, err); err != nil {
			return err
		}
	}
	return nil
}

// maxSweeps is how often a directory is looked for that was moved away while it was
// restored: a program that has something else there for a moment is done by then.
const maxSweeps = 20

// sweep removes what was prepared and not used.
func (a *applier) sweep() error {
	s := &sweeper{context.WithoutCancel(a.ctx), a.root, a.making, a.id, a.hash, true}
	var errs []error
	for i := range a.plan.Items {
		it := &a.plan.Items[i]
		if !a.touched[i] {
			continue
		}
		err := s.path(it.Path, it.Now, it.New)
		for n := 0; n < maxSweeps && errors.Is(err, ErrAside); n++ {
			time.Sleep(time.Millisecond)
			if err = a.root.fresh(); err == nil {
				err = s.path(it.Path, it.Now, it.New)
			}
		}
		if errors.Is(err, ErrAside) {
			it.Do, it.Why = rollback.Failed, err.Error()
		} else {
			errs = append(errs, err)
		}
	}
	if a.making != nil {
		err := a.making.remove(a.root)
		if a.making = nil; errors.Is(err, ErrAside) {
			a.plan.Stays = err.Error()
		} else {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
