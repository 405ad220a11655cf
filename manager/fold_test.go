package manager

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
)

// spelling returns what is in the directory: paths, and for files what is in them.
func (b *bench) spelling() string {
	b.Helper()
	var list []string
	err := filepath.WalkDir(b.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == b.dir {
			return err
		}
		path, err := filepath.Rel(b.dir, name)
		if err == nil && !d.IsDir() {
			var content []byte
			content, err = os.ReadFile(name)
			path += "=" + string(content)
		}
		list = append(list, filepath.ToSlash(path))
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func (b *bench) rename(from, to string) {
	b.Helper()
	if strings.EqualFold(from, to) {
		vfstest.NeedRespelling(b)
	}
	if err := os.Rename(filepath.Join(b.dir, from), filepath.Join(b.dir, to)); err != nil {
		b.Fatal(err)
	}
}

// TestFold: in a directory that finds names in any spelling, a restore puts back the
// spelling that was there, and loses no file that has another by now; an undo, too.
func TestFold(t *testing.T) {
	const nfc, nfd = "caf\u00e9", "cafe\u0301"
	for _, c := range []struct {
		name string
		has  map[string]string
		turn func(b *bench)
		user func(b *bench)
		back string // what is there after the restore
		kept bool   // of which something was skipped
	}{
		{name: "a file gets another spelling", has: map[string]string{"readme.md": "1"},
			turn: func(b *bench) { b.rename("readme.md", "README.md") },
			back: "readme.md=1"},
		{name: "and another content", has: map[string]string{"readme.md": "1", "x": "x"},
			turn: func(b *bench) { b.rename("readme.md", "README.md"); b.write("README.md", "2") },
			back: "readme.md=1 x=x"},
		{name: "an accent", has: map[string]string{nfc: "1"},
			turn: func(b *bench) { b.rename(nfc, nfd) },
			back: nfc + "=1"},
		{name: "a file goes, another comes", has: map[string]string{"a": "1"},
			turn: func(b *bench) { b.remove("a"); b.write("A", "2") },
			back: "a=1"},
		{name: "a directory", has: map[string]string{"src/a": "1", "src/b/c": "2", "x": "x"},
			turn: func(b *bench) { b.rename("src", "Src") },
			back: "src src/a=1 src/b src/b/c=2 x=x"},
		{name: "a directory, in which the user puts something", has: map[string]string{"src/a": "1"},
			turn: func(b *bench) { b.rename("src", "Src") },
			user: func(b *bench) { b.write("Src/mine", "mine") },
			back: "Src Src/a=1 Src/mine=mine"},
		{name: "the user has changed it since", has: map[string]string{"a": "1\n"},
			turn: func(b *bench) { b.rename("a", "A") },
			user: func(b *bench) { b.write("A", "1\nmine\n") },
			back: "a=1\nmine\n"},
		{name: "the user gives it back its spelling", has: map[string]string{"a": "1"},
			turn: func(b *bench) { b.rename("a", "A") },
			user: func(b *bench) { b.rename("A", "a") },
			back: "a=1"},
		{name: "the user has made one in the place of one that went", has: map[string]string{"a": "1"},
			turn: func(b *bench) { b.remove("a") },
			user: func(b *bench) { b.write("A", "mine") },
			back: "A=mine", kept: true},
	} {
		fold := func(t *testing.T, seen func(vfs.Dir) vfs.Dir) {
			b := newBench(t)
			for name, content := range c.has {
				b.write(name, content)
			}
			m := b.open("s")
			m.openDir = func(path string) (vfs.Dir, error) {
				d, err := vfs.OpenDir(path)
				if err != nil {
					return nil, err
				}
				return seen(vfstest.Fold(d)), nil
			}
			b.initialize(m)
			b.turn(m, func() { c.turn(b) })
			if c.user != nil {
				c.user(b)
			}
			before := b.spelling()
			r, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "@~1", OnDirty: rollback.Merge})
			if err != nil {
				t.Fatal(err)
			}
			if got := b.spelling(); got != c.back {
				t.Errorf("after the restore there is %q, want %q: %+v", got, c.back, r)
			}
			if skipped := len(r.Skipped)+len(r.Conflicts) > 0; skipped != c.kept {
				t.Errorf("skipped %v, conflicts %v, want some: %v", r.Skipped, r.Conflicts, c.kept)
			}
			if len(r.Failed) > 0 {
				t.Errorf("failed: %v", r.Failed)
			}
			if len(r.Restored)+len(r.Deleted) == 0 {
				return
			}
			if _, err := m.Undo(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if got := b.spelling(); got != before && c.user == nil {
				t.Errorf("after the undo there is %q, want %q", got, before)
			}
		}
		t.Run(c.name, func(t *testing.T) { fold(t, func(d vfs.Dir) vfs.Dir { return d }) })
		t.Run(c.name+", by package os", func(t *testing.T) { fold(t, func(d vfs.Dir) vfs.Dir { return &osDir{d} }) })
	}
}

// An osDir can do what package os can: a file gets another name within its directory, and
// changes places with none.
type osDir struct{ vfs.Dir }

func (d *osDir) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.Dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &osDir{sub}, nil
}

func (d *osDir) Rename(name string, to vfs.Dir, newname string, mode vfs.RenameMode) error {
	if to != vfs.Dir(d) || mode == vfs.Exchange {
		return &fs.PathError{Op: "rename", Path: name, Err: errors.ErrUnsupported}
	}
	return d.Dir.Rename(name, d.Dir, newname, mode)
}

func (d *osDir) Heritage() (string, error) { return "", nil }
