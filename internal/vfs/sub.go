package vfs

import (
	"io/fs"
	"path"
)

// Sub returns the FS of a directory in an FS, which need not exist yet.
func Sub(fsys FS, dir string) FS { return subFS{fsys, dir} }

type subFS struct {
	fsys FS
	dir  string
}

// name returns what the FS above calls a file. What is no name stays none.
func (s subFS) name(name string) string {
	if !fs.ValidPath(name) {
		return name
	}
	return path.Join(s.dir, name)
}

func (s subFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	return s.fsys.OpenFile(s.name(name), flag, perm)
}

func (s subFS) Mkdir(name string, perm fs.FileMode) error { return s.fsys.Mkdir(s.name(name), perm) }

func (s subFS) Rename(oldname, newname string) error {
	return s.fsys.Rename(s.name(oldname), s.name(newname))
}

func (s subFS) Exchange(a, b string) error { return s.fsys.Exchange(s.name(a), s.name(b)) }

func (s subFS) Remove(name string) error { return s.fsys.Remove(s.name(name)) }

func (s subFS) ReadDir(name string) ([]string, error) { return s.fsys.ReadDir(s.name(name)) }

func (s subFS) Stat(name string) (Stat, error) { return s.fsys.Stat(s.name(name)) }

func (s subFS) SyncDir(name string) error { return s.fsys.SyncDir(s.name(name)) }

func (s subFS) Space() (free, total int64, err error) { return s.fsys.Space() }
