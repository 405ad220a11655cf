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
	"github.com/boocode/filestore/tree"
)

// Names of what lies aside of a path while it is restored: beside it, or in the directory
// for that.

// newSuffix is how names end of new content.
const newSuffix = ".new"

// prefix is how all names of a restore begin.
func prefix(id string) string { return ".boo-" + id + "-" }

// newName is the name of new content before it is in place.
func newName(id, path string) string {
	return prefix(id) + object.Hash(object.Blob, []byte(path)).Short() + newSuffix
}

// oldName is the name of what was at a path, until it was looked at.
func oldName(id, path string) string {
	return prefix(id) + object.Hash(object.Blob, []byte(path)).Short() + ".old"
}

// Sweep puts a directory in order in which a restore was cut off by a crash or
// an error: with the same wants and the same id as that had, files that lie
// aside of their paths go, or go back to where they were. After it NewPlan finds
// each path as it was or as it is wanted. An error matches [ErrAside] if nothing
// else went wrong.
func Sweep(ctx context.Context, root *Root, wants []Want, id string) error {
	making, err := openMaking(root, id)
	if err != nil {
		return fmt.Errorf("clear up after a restore: %w", err)
	}
	s := &sweeper{ctx: ctx, root: root, making: making, id: id, hash: trees.NewOverlay(nil)}
	var errs []error
	for _, w := range wants {
		errs = append(errs, s.path(w.Path, w.Old, w.New))
	}
	if making != nil {
		errs = append(errs, making.remove(root), root.dir.Sync())
	}
	errs = append(errs, root.fresh())
	// An error of the disk is told alone, so that it does not pass for the other.
	for _, err := range errs {
		if err != nil && !errors.Is(err, ErrAside) {
			return fmt.Errorf("clear up after a restore: %w", err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clear up after a restore: %w", err)
	}
	return nil
}

// Abandon clears up after a restore of which nobody knows any more what it wanted. Of the files in
// its directory those that were to come go, if the store has what they hold. The others are the user's
// from then on: git and captures see them. An error matches [ErrAside] if there are some, and nothing
// else went wrong.
func Abandon(ctx context.Context, root *Root, id string, blobs trees.BlobGetter) error {
	making, err := openMaking(root, id)
	if err != nil || making == nil {
		return err
	}
	var names []string
	err = making.ReadNames(func(name []byte, _ vfs.Kind) {
		if s := string(name); strings.HasPrefix(s, prefix(id)) && strings.HasSuffix(s, newSuffix) {
			names = append(names, s)
		}
	})
	for _, name := range names {
		e, eerr := entryIn(ctx, making, name, trees.NewOverlay(nil))
		if eerr != nil || e == nil || e.Mode.IsDir() {
			err = errors.Join(err, eerr)
			continue
		}
		if _, gerr := blobs.CopyBlob(ctx, io.Discard, e.ID); gerr == nil {
			err = errors.Join(err, making.Remove(name))
		}
	}
	if err == nil {
		err = making.remove(root)
	} else {
		err = errors.Join(err, making.Close())
	}
	return errors.Join(err, root.dir.Sync())
}

type sweeper struct {
	ctx    context.Context
	root   *Root
	making *making // nil: there is none
	id     string
	hash   Sink
	put    bool // something was put beside the path: a directory that is none now is not done
}

// path puts in order what lies aside of a path that was old and is to become new. New content may
// lie there of one that is to be deleted, too: of a way back that was cut off.
func (s *sweeper) path(path string, old, new *tree.Entry) error {
	if err := s.inMaking(path, old, new); err != nil {
		return err
	}
	up, _ := trees.Split(path)
	var unseen error                          // of a directory that cannot be looked into now
	for at := up; ; at, _ = trees.Split(at) { // new content may lie further up
		dir, err := s.root.enter(at)
		var notDir *notDirError
		switch {
		case s.put && errors.As(err, &notDir): // somebody has moved it, and may move it back
			unseen = fmt.Errorf("%q: what was prepared may be %w: %w", path, ErrAside, err)
		case isGone(err): // nothing was put there
		case errors.Is(err, fs.ErrPermission):
			return fmt.Errorf("%q: what may be %w: %w", path, ErrAside, err)
		case err != nil:
			return err
		default:
			if err := dir.Remove(newName(s.id, path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if at == up {
				if err := s.aside(dir, dir, path, old, new); err != nil {
					return err
				}
			}
		}
		if at == "" {
			return unseen
		}
	}
}

// inMaking puts in order what lies of a path in the directory for that.
func (s *sweeper) inMaking(path string, old, new *tree.Entry) error {
	if s.making == nil {
		return nil
	}
	if err := s.making.Remove(newName(s.id, path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var st vfs.Stat
	err := s.making.Lstat(oldName(s.id, path), &st)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	up, _ := trees.Split(path)
	dir, err := s.root.enter(up)
	if err == nil {
		return s.aside(s.making.Dir, dir, path, old, new)
	}
	if !isGone(err) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	aside, aerr := entryIn(s.ctx, s.making, oldName(s.id, path), s.hash)
	if aerr != nil {
		return aerr
	}
	if same(aside, new) || same(aside, old) { // the store has both
		return s.making.Remove(oldName(s.id, path))
	}
	return fmt.Errorf("%w: %w", s.leave(s.making.Dir, s.root.dir, "", path, "what it held"), err)
}

// leave says that something which nobody else has is left of a path, and has it lie where
// it is seen and captured: in dir, which is at up.
func (s *sweeper) leave(side, dir vfs.Dir, up, path, what string) error {
	name := oldName(s.id, path)
	where := trees.Join(up, name)
	var err error
	if side != dir {
		if renameFree(side, name, dir, name) != nil {
			where = trees.Join(s.making.name, name)
		} else {
			err = dir.Sync()
		}
	}
	return errors.Join(fmt.Errorf("%q: %s is %w in %q", path, what, ErrAside, where), err)
}

// aside puts in order what was put aside from a name, into side. Nothing that somebody
// wrote at the last moment is deleted.
func (s *sweeper) aside(side, dir vfs.Dir, path string, old, new *tree.Entry) error {
	up, name := trees.Split(path)
	asideName := oldName(s.id, path)
	aside, err := entryIn(s.ctx, side, asideName, s.hash)
	if err != nil || aside == nil {
		return err
	}
	now, err := entryIn(s.ctx, dir, name, s.hash)
	switch {
	case err != nil:
		return err
	case now == nil:
		err := renameFree(side, asideName, dir, name)
		if side != dir && errors.Is(err, errors.ErrUnsupported) { // it is of another file system by now
			return s.leave(side, dir, up, path, "what it held")
		}
		return errors.Join(err, dir.Sync())
	case same(aside, new), same(aside, old): // the store has both
		err := side.Remove(asideName)
		if err == nil || !aside.Mode.IsDir() {
			return errors.Join(err, side.Sync())
		}
		// Something is in it: put there meanwhile, or its deletion did not survive
		// a power cut. Back it goes.
	}
	if same(now, new) {
		if err := side.Rename(asideName, dir, name, vfs.Exchange); err != nil {
			return err
		}
		if out, err := entryIn(s.ctx, side, asideName, s.hash); err != nil || !same(out, new) {
			return errors.Join(err, s.leave(side, dir, up, path, "another version"))
		}
		return errors.Join(side.Remove(asideName), dir.Sync())
	}
	return s.leave(side, dir, up, path, "what it held")
}
