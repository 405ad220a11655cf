package cas

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/vfs"
)

// checkOwner refuses a directory of another user that is to be written to,
// also to root: what root adds there the owner cannot read. So it does a link that
// another user has put in its place, wherever that leads. A directory that holds no
// store yet is fresh.
func checkOwner(dir string) (fresh bool, err error) {
	link, err := os.Lstat(dir)
	if err != nil {
		return false, OwnerOf(dir, err)
	}
	if owner, self, ok := vfs.Owners(link); ok && owner != self && owner != 0 && link.Mode().Type() == fs.ModeSymlink {
		return false, &OwnerError{Path: dir, What: "the link in the place of the directory", Owner: owner, Self: self}
	}
	top, err := os.Stat(dir)
	if err != nil {
		return false, OwnerOf(dir, err)
	}
	st, err := os.Stat(filepath.Join(dir, layout.FormatName))
	fresh = errors.Is(err, fs.ErrNotExist)
	if err != nil && !fresh {
		return false, OwnerOf(dir, err)
	}
	for what, fi := range map[string]fs.FileInfo{"the directory": top, layout.FormatName: st} {
		if fi == nil {
			continue
		}
		if owner, self, ok := vfs.Owners(fi); ok && owner != self {
			return false, &OwnerError{Path: dir, What: what, Owner: owner, Self: self}
		}
	}
	return fresh, nil
}

// CheckOwner returns an [*OwnerError] if a store is another user's, to root, too.
func CheckOwner(dir string) error {
	_, err := checkOwner(dir)
	return err
}

// OwnerOf returns why a directory of stores, or a store, could not be opened: if it
// was for permissions, and the directory, or the first above it that can be looked
// at, is another user's, the error is an [*OwnerError]; else, or if there is no such
// directory, it is err.
func OwnerOf(dir string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	for at := dir; ; at = filepath.Dir(at) {
		st, serr := os.Stat(at)
		if errors.Is(serr, fs.ErrPermission) && at != filepath.Dir(at) {
			continue
		}
		if serr != nil {
			return err
		}
		if owner, self, ok := vfs.Owners(st); ok && owner != self {
			return &OwnerError{Path: at, What: "the directory", Owner: owner, Self: self, Err: err}
		}
		return err
	}
}

// closePlace closes the directory of a store to other users: what lies in it
// never was for them.
func closePlace(dir string, fresh bool, log *slog.Logger) {
	st, err := os.Stat(dir)
	const others = 0o077
	if err != nil || !vfs.HasOwners || st.Mode().Perm()&others == 0 {
		return
	}
	perm := st.Mode().Perm()
	err = os.Chmod(dir, perm&^others)
	switch {
	case err != nil:
		log.Warn("other users may enter the store", "path", dir, "mode", perm.String(), "err", err)
	case perm&0o022 != 0 && !fresh:
		log.Warn("other users could write to the store: it is closed to them now", "path", dir, "mode", perm.String())
	}
}

// probeRename finds out whether a rename replaces what has the new name: all
// that is written whole counts on it.
func probeRename(fsys vfs.FS) error {
	from, to := "tmp/"+layout.RandomName(), "tmp/"+layout.RandomName()
	err := func() error {
		for i, name := range []string{to, from} {
			f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(make([]byte, i), 0)
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
		}
		if err := fsys.Rename(from, to); err != nil {
			if errors.Is(err, fs.ErrExist) {
				err = fmt.Errorf("%w: %v", ErrNoRename, err)
			}
			return err
		}
		st, err := fsys.Stat(to)
		if err == nil && st.Size != 1 {
			err = fmt.Errorf("%w: the old file is still there", ErrNoRename)
		}
		if err != nil {
			return err
		}
		_, err = fsys.Stat(from)
		if err == nil {
			return fmt.Errorf("%w: the file has both names", ErrNoRename)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}()
	for _, name := range []string{from, to} {
		fsys.Remove(name) // may not be there
	}
	return err
}

// Concerns lists what is wrong with the place of a store, for people: a file
// system that is not this machine's own, and files that other users may
// read or change, or that are another user's. None of it is damage.
func Concerns(dir string) ([]string, error) {
	var list []string
	if name := vfs.Remote(dir); name != "" {
		list = append(list, fmt.Sprintf("the store is on %s, not on a local disk: locks, renames and syncs are as "+
			"good as that is", name))
	}
	top, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if perm := top.Mode().Perm(); vfs.HasOwners && perm&0o077 != 0 {
		list = append(list, fmt.Sprintf("other users may enter the store (mode %v): the next command that writes "+
			"changes that", perm))
	}
	owner, _, ok := vfs.Owners(top)
	foreign := 0
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if other, _, _ := vfs.Owners(fi); ok && other != owner && name != dir {
			foreign++
		}
		return nil
	})
	if foreign > 0 {
		list = append(list, fmt.Sprintf("%d files in the store are not user %d's, who owns it", foreign, owner))
	}
	return list, err
}
