//go:build unix

package manager

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/rollback"
)

// exactUndo takes back a restore, and redoes it, and requires that all is as it
// was, directories and modes, too.
func (b *bench) exactUndo(m *FileSnapshotManager, before, after world) {
	b.Helper()
	if r := b.undo(m); !r.IsComplete() {
		b.Errorf("undo: %+v", r)
	}
	if d := cmp.Diff(before, readWorld(b.T, b.dir), cmp.AllowUnexported(node{})); d != "" {
		b.Errorf("after undo (-want +got):\n%s", d)
	}
	if r := b.redo(m); !r.IsComplete() {
		b.Errorf("redo: %+v", r)
	}
	if d := cmp.Diff(after, readWorld(b.T, b.dir), cmp.AllowUnexported(node{})); d != "" {
		b.Errorf("after redo (-want +got):\n%s", d)
	}
}

// A module that became a package, into which somebody else has put a file that
// the session then deleted: the module comes back, and the file is left out.
func TestRestoreFileAbove(t *testing.T) {
	for _, policy := range []rollback.Policy{rollback.Skip, rollback.Overwrite} {
		b := newBench(t)
		b.write("u", "code")
		m := b.open("s")
		b.initialize(m)
		b.turn(m, func() { b.remove("u"); b.write("u/init", "x") })
		b.write("u/users", "user")
		b.turn(m, func() { b.remove("u/users") })
		before := readWorld(t, b.dir)
		r := b.sameAsPreview(m, RestoreOptions{Target: "start", OnDirty: policy})
		b.expectFiles(files{"u": "code"})
		if !slices.Equal(r.Restored, []string{"u"}) || !slices.Equal(r.Skipped, []string{"u/users"}) {
			t.Errorf("restored %q, skipped %q", r.Restored, r.Skipped)
		}
		if why := r.Items[len(r.Items)-1].Why; why != `"u" becomes a file` {
			t.Errorf("skipped because %q", why)
		}
		b.exactUndo(m, before, readWorld(t, b.dir))
	}
}

// A directory that is made for a file that is put into it has the mode of a
// directory, whatever else was to be in its place, and the result lists it.
func TestRestoreMadeDir(t *testing.T) {
	for what, first := range map[string]func(string) error{
		"a link": func(p string) error { return errors.Join(os.RemoveAll(p), os.Symlink("nowhere", p)) },
		"a file": func(p string) error { return errors.Join(os.RemoveAll(p), os.WriteFile(p, []byte("f"), 0o600)) },
	} {
		t.Run(what, func(t *testing.T) {
			defer syscall.Umask(syscall.Umask(0o027))
			b := newBench(t)
			x := filepath.Join(b.dir, "x")
			do := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			do(first(x))
			m := b.open("s")
			b.initialize(m)
			b.turn(m, func() { do(errors.Join(os.RemoveAll(x), os.Symlink("other", x))) })
			b.remove("x")
			b.write("x/in", "B")
			b.turn(m, func() { b.remove("x") })
			before := readWorld(t, b.dir)
			r := b.sameAsPreview(m, RestoreOptions{Target: "start"})
			b.expectFiles(files{"x/in": "B"})
			if !slices.Equal(r.Restored, []string{"x/in"}) || !slices.Equal(r.Made, []string{"x"}) {
				t.Errorf("restored %q, made %q", r.Restored, r.Made)
			}
			probe := filepath.Join(t.TempDir(), "made")
			do(os.Mkdir(probe, 0o777))
			want, err := os.Stat(probe)
			do(err)
			got, err := os.Stat(x)
			do(err)
			if got.Mode() != want.Mode() {
				t.Errorf("x is %v, a new directory %v", got.Mode(), want.Mode())
			}
			b.exactUndo(m, before, readWorld(t, b.dir))
		})
	}
}

// A directory that somebody has removed is made with the mode that it had, and
// listed, also where a restore is taken back.
func TestUndoMakesDir(t *testing.T) {
	b := newBench(t)
	b.write("d/e/f", "start")
	if err := os.Chmod(filepath.Join(b.dir, "d/e"), 0o700); err != nil {
		t.Fatal(err)
	}
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("d/e/f", "agent") })
	before := readWorld(t, b.dir)
	b.restore(m, &RestoreOptions{Target: "start"})
	b.remove("d")
	r, err := m.Undo(t.Context(), &UndoOptions{OnDirty: rollback.Overwrite})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, readWorld(t, b.dir), cmp.AllowUnexported(node{})); d != "" {
		t.Errorf("after undo (-want +got):\n%s", d)
	}
	if !slices.Equal(r.Made, []string{"d", "d/e"}) {
		t.Errorf("made %q", r.Made)
	}
}

// What somebody has put into the place of a directory of which nothing comes back is in no
// record of the restore: nobody has saved it. The next look finds it.
func TestRestoreBelowWhatIsNoDirectory(t *testing.T) {
	for what, put := range map[string]func(string) error{
		"a link": func(p string) error { return os.Symlink("user's", p) },
		"a file": func(p string) error { return os.WriteFile(p, []byte("user's"), 0o600) },
	} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t)
			b.write("d/e/f", "1")
			b.write("g", "1")
			m := b.open("s") // its store is checked at the end
			b.initialize(m)
			b.turn(m, func() { b.remove("d"); b.write("g", "2") })
			if err := put(filepath.Join(b.dir, "d")); err != nil {
				t.Fatal(err)
			}
			r := b.sameAsPreview(m, RestoreOptions{Target: "start"})
			if !slices.Equal(r.Restored, []string{"g"}) || !slices.Equal(r.Skipped, []string{"d/e/f"}) {
				t.Errorf("restored %q, skipped %q", r.Restored, r.Skipped)
			}
			b.check(m.store)
			b.undo(m)
			b.check(m.store)
			b.turn(m, func() {})
		})
	}
}
