package vfstest

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/boocode/filestore/internal/vfs"
)

// Fold returns a view of a directory in which names are found whatever the case of their
// letters, and whether an accent on an e is a character of its own, as on most disks of
// macOS and Windows. A name that is made keeps its spelling. Two names in the directory that
// are one in the view are not what any disk has: do not make such.
func Fold(d vfs.Dir) vfs.Dir { return &foldDir{d} }

type foldDir struct{ vfs.Dir }

// Fd returns the descriptor of the directory, of a system that has such.
func (d *foldDir) Fd() int { return d.Dir.(interface{ Fd() int }).Fd() }

var accents = strings.NewReplacer("e\u0301", "\u00e9", "E\u0301", "\u00c9")

// Same reports whether two names are one in a view of [Fold].
func Same(a, b string) bool { return strings.EqualFold(accents.Replace(a), accents.Replace(b)) }

// spelt returns a name as the directory has it, or as it is if there is no such.
func (d *foldDir) spelt(name string) string {
	found := name
	d.ReadNames(func(n []byte, _ vfs.Kind) { // of what cannot be read the caller learns
		if Same(string(n), name) {
			found = string(n)
		}
	})
	return found
}

func (d *foldDir) Lstat(name string, st *vfs.Stat) error { return d.Dir.Lstat(d.spelt(name), st) }

func (d *foldDir) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.Dir.OpenDir(d.spelt(name))
	if err != nil {
		return nil, err
	}
	return &foldDir{sub}, nil
}

func (d *foldDir) Open(name string, st *vfs.Stat) (vfs.Reader, error) {
	return d.Dir.Open(d.spelt(name), st)
}

func (d *foldDir) Readlink(name string) (string, error) { return d.Dir.Readlink(d.spelt(name)) }

func (d *foldDir) Mkdir(name string, perm uint16) error { return d.Dir.Mkdir(d.spelt(name), perm) }

func (d *foldDir) Create(name string, perm uint16) (vfs.Writer, error) {
	return d.Dir.Create(d.spelt(name), perm)
}

func (d *foldDir) Symlink(target, name string) error { return d.Dir.Symlink(target, d.spelt(name)) }

func (d *foldDir) Remove(name string) error { return d.Dir.Remove(d.spelt(name)) }

func (d *foldDir) RemoveDir(name string) error { return d.Dir.RemoveDir(d.spelt(name)) }

func (d *foldDir) Rename(name string, to vfs.Dir, newname string, mode vfs.RenameMode) error {
	other, ok := to.(*foldDir)
	if !ok {
		return &fs.PathError{Op: "rename", Path: name, Err: errors.ErrUnsupported}
	}
	from, target := d.spelt(name), other.spelt(newname)
	if from == target && d.Dir == other.Dir { // a name gets another spelling
		target = newname
	}
	return d.Dir.Rename(from, other.Dir, target, mode)
}
