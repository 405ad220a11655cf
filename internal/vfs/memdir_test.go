package vfs_test

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

// TestMemDir checks the contract of Dir, but for what looks at the disk behind it.
func TestMemDir(t *testing.T) {
	t.Run("ReadWrite", func(t *testing.T) { testDirReadWrite(t, loadMem) })
	t.Run("ReadNames", func(t *testing.T) { testDirReadNames(t, loadMem) })
	t.Run("BadNames", func(t *testing.T) { testDirBadNames(t, loadMem) })
	t.Run("Missing", func(t *testing.T) { testDirMissing(t, loadMem) })
	t.Run("Rename", func(t *testing.T) { testDirRename(t, loadMem) })
}

// loadMem returns a Dir of a Mem that holds what a directory of the disk does.
func loadMem(path string) (vfs.Dir, error) {
	from, err := vfs.OpenDir(path)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	to := vfstest.NewMem().Dir()
	return to, copyDir(from, to)
}

func copyDir(from, to vfs.Dir) (err error) {
	lerr := from.ReadNames(func(name []byte, kind vfs.Kind) {
		err = errors.Join(err, copyName(from, to, string(name), kind))
	})
	return errors.Join(err, lerr)
}

func copyName(from, to vfs.Dir, name string, kind vfs.Kind) error {
	if kind == vfs.Directory {
		err := to.Mkdir(name, 0o700)
		if err != nil {
			return err
		}
		a, err := from.OpenDir(name)
		if err != nil {
			return err
		}
		defer a.Close()
		b, err := to.OpenDir(name)
		if err != nil {
			return err
		}
		return copyDir(a, b)
	}
	r, err := from.Open(name, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := to.Create(name, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

// What only a Dir can do, with what a crash leaves of it.
func TestMemDirAfterCrash(t *testing.T) {
	for _, test := range []struct {
		name           string
		run            func(d vfs.Dir) error
		strict, synced string // without a sync, and after a sync of the root
	}{
		{"link", func(d vfs.Dir) error { return d.Symlink("to", "l") }, `f="f" s/g="g"`, `f="f" l="to" s/g="g"`},
		{"exchange", func(d vfs.Dir) error {
			w, err := d.Create("n", 0o600)
			if err != nil {
				return err
			}
			_, err = io.WriteString(w, "n")
			return errors.Join(err, w.Sync(), w.Close(), d.Rename("n", d, "f", vfs.Exchange))
		}, `f="f" s/g="g"`, `f="n" n="f" s/g="g"`},
		{"content not synced", func(d vfs.Dir) error {
			w, err := d.Create("n", 0o600)
			if err != nil {
				return err
			}
			_, err = io.WriteString(w, "n")
			return errors.Join(err, w.Close(), d.Rename("n", d, "f", vfs.Replace))
		}, `f="f" s/g="g"`, `f="" s/g="g"`},
		{"directory moved", func(d vfs.Dir) error { return d.Rename("s", d, "t", vfs.NoReplace) }, `f="f" s/g="g"`, `f="f" t/g="g"`},
		{"removed", func(d vfs.Dir) error { return d.Remove("f") }, `f="f" s/g="g"`, `s/g="g"`},
	} {
		m := vfstest.NewMem()
		s := script{t, m}
		s.mkdir("s")
		s.durable("s", "g", "g")
		s.put("f", "f")
		s.sync("f")
		s.syncDir(".")
		d := m.Dir()
		if err := test.run(d); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if got := files(t, m.AfterCrash(nil)); got != test.strict {
			t.Errorf("%s: %s, want %s", test.name, got, test.strict)
		}
		if err := d.Sync(); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if got := files(t, m.AfterCrash(nil)); got != test.synced {
			t.Errorf("%s, synced: %s, want %s", test.name, got, test.synced)
		}
		if got := files(t, m.AfterCrash(rand.New(rand.NewPCG(1, 0)))); got != test.synced &&
			!strings.Contains(test.name, "not synced") {
			t.Errorf("%s, synced, by chance: %s, want %s", test.name, got, test.synced)
		}
	}
}

func TestMemDirRefuses(t *testing.T) {
	m := vfstest.NewMem()
	d := m.Dir()
	if err := errors.Join(d.Mkdir("a", 0o755), d.Mkdir("b", 0o700), d.Symlink("a", "l")); err != nil {
		t.Fatal(err)
	}
	a, err := d.OpenDir("a")
	if err != nil {
		t.Fatal(err)
	}
	write(t, a, "f", "f")
	if err := d.Rename("a", a, "in itself", vfs.Replace); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("moved into itself: %v", err)
	}
	if err := a.Rename("f", d, "a", vfs.Exchange); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("exchanged with what it is in: %v", err)
	}
	if err := d.Rename("b", d, "a", vfs.Replace); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Errorf("in the place of a full directory: %v", err)
	}
	if err := a.Rename("f", d, "b", vfs.Replace); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file in the place of a directory: %v", err)
	}
	if err := d.Remove("a"); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Errorf("Remove of a full directory: %v", err)
	}
	if _, err := d.OpenDir("l"); err == nil {
		t.Error("OpenDir followed a link")
	}
	if _, err := d.Open("l", nil); !errors.Is(err, vfs.ErrNotRegular) {
		t.Errorf("Open of a link: %v", err)
	}
	if got, err := d.Readlink("l"); got != "a" || err != nil {
		t.Errorf("Readlink: %q, %v", got, err)
	}
	var st vfs.Stat
	if err := errors.Join(a.Chmod(0o711), d.Lstat("a", &st)); err != nil || st.Perm != 0o711 ||
		st.Kind != vfs.Directory {
		t.Errorf("after Chmod: %+v, %v", st, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := a.Remove("f"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Remove in a directory that is closed: %v", err)
	}
	if f, err := m.OpenFile("a/f", os.O_RDONLY, 0); err != nil || content(t, f) != "f" {
		t.Errorf("as a file of the store: %v", err)
	}
}
