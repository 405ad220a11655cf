package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// An onlyPaths is the paths that a clone is to write, none of which is in another.
type onlyPaths []string

func newOnly(paths []string) (o onlyPaths) {
	var clean []string
	for _, p := range paths {
		clean = append(clean, strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(p)), "/"))
	}
	slices.Sort(clean)
	for _, p := range slices.Compact(clean) {
		if p == "" { // the root
			return nil
		}
		if !slices.ContainsFunc(o, func(above string) bool { return strings.HasPrefix(p, above+"/") }) {
			o = append(o, p)
		}
	}
	return o
}

// has reports whether a path is to be written.
func (o onlyPaths) has(p string) bool {
	return len(o) == 0 || slices.ContainsFunc(o, func(q string) bool { return p == q || strings.HasPrefix(p, q+"/") })
}

// isAbove reports whether something in a directory is to be written.
func (o onlyPaths) isAbove(dir string) bool {
	return slices.ContainsFunc(o, func(q string) bool { return strings.HasPrefix(q, dir+"/") })
}

// missing returns the paths that a tree does not have.
func (o onlyPaths) missing(ctx context.Context, g trees.Getter, root store.ID) (list []string, err error) {
	for _, p := range o {
		if _, err := trees.Lookup(ctx, g, root, p); errors.Is(err, fs.ErrNotExist) {
			list = append(list, p)
		} else if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// left returns what of a tree is not to be written.
func (o onlyPaths) left(ctx context.Context, g trees.Getter, root store.ID) (*layout.Left, error) {
	l := new(layout.Left)
	var in func(dir string, id store.ID) error
	in = func(dir string, id store.ID) error {
		for e, err := range trees.Entries(ctx, g, id) {
			if err != nil {
				return err
			}
			p := trees.Join(dir, e.Name)
			switch {
			case o.has(p):
			case !e.Mode.IsDir():
				l.Paths = append(l.Paths, p)
				if e.Mode.Kind() == tree.ModeSymlink {
					l.Links = append(l.Links, p)
				}
			case o.isAbove(p):
				if err := in(p, e.ID); err != nil {
					return err
				}
			default:
				l.Paths = append(l.Paths, p+"/")
			}
		}
		return nil
	}
	return l, in("", root)
}

// prefetch brings what of a tree is at a remote, with other contents, in few requests.
func (o onlyPaths) prefetch(ctx context.Context, s *cas.Store, root store.ID, ids ...store.ID) error {
	if any, err := s.AnyPromised(); !any || err != nil {
		return err
	}
	for e, err := range trees.Walk(ctx, s, root) {
		if err != nil {
			return err
		}
		if !e.Mode.IsDir() && o.has(e.Path) {
			ids = append(ids, e.ID)
		}
	}
	return s.Prefetch(ctx, ids)
}

// export writes the paths of a tree into a directory that is empty.
func (o onlyPaths) export(ctx context.Context, s *cas.Store, root store.ID, dir string) (*trees.ExportResult, error) {
	all := new(trees.ExportResult)
	for _, p := range o {
		e, err := trees.Lookup(ctx, s, root, p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		at := filepath.Join(dir, filepath.FromSlash(p))
		if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
			return nil, err
		}
		r := new(trees.ExportResult)
		if e.Mode.IsDir() {
			if r, err = trees.Export(ctx, s, e.ID, at); err == nil {
				err = os.Chmod(at, fs.FileMode(e.Mode&0o777))
			}
		} else {
			r.Files = 1
			err = writeOne(ctx, s, filepath.Dir(at), &e)
		}
		if err != nil {
			return nil, err
		}
		all.Files, all.Dirs, all.Symlinks, all.Bytes = all.Files+r.Files, all.Dirs+r.Dirs, all.Symlinks+r.Symlinks,
			all.Bytes+r.Bytes
		for _, f := range r.Forgotten {
			all.Forgotten = append(all.Forgotten, trees.Join(p, f))
		}
		for _, l := range r.Lost {
			l.Path = trees.Join(p, l.Path)
			all.Lost = append(all.Lost, l)
		}
		for _, l := range r.Refused {
			l.Path = trees.Join(p, l.Path)
			all.Refused = append(all.Refused, l)
		}
	}
	return all, o.chmod(ctx, s, root, dir)
}

// writeOne writes one file or link.
func writeOne(ctx context.Context, s *cas.Store, dir string, e *tree.Entry) error {
	d, err := vfs.OpenDir(dir)
	if err != nil {
		return err
	}
	_, err = trees.WriteEntry(ctx, s, d, e)
	return errors.Join(err, d.Close())
}

// chmod gives the directories around the paths their permission bits, the deepest first.
func (o onlyPaths) chmod(ctx context.Context, s *cas.Store, root store.ID, dir string) error {
	var above []string
	for _, p := range o {
		for p = path.Dir(p); p != "."; p = path.Dir(p) {
			above = append(above, p)
		}
	}
	slices.Sort(above)
	for _, p := range slices.Backward(slices.Compact(above)) {
		e, err := trees.Lookup(ctx, s, root, p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.Chmod(filepath.Join(dir, filepath.FromSlash(p)), fs.FileMode(e.Mode&0o777))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
