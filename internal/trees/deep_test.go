package trees

import (
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// chain returns a tree that is a chain of directories that somebody has made up: no capture makes so long a one.
func chain(t *testing.T, name string, levels int) (s *cas.Store, root store.ID) {
	t.Helper()
	s, w := emptyStore(t)
	root = Empty
	for range levels {
		var err error
		if root, err = Put(w, []tree.Entry{{Name: name, Mode: tree.ModeDir | 0o755, ID: root}}); err != nil {
			t.Fatal(err)
		}
	}
	return s, root
}

// TestDeep: in a chain of directories nobody goes on to where no directory of a tree can be. That one is damage, like a
// directory that cannot be read: it is said, and all else is there.
func TestDeep(t *testing.T) {
	testseed.Sequential(t)
	for name, levels := range map[string]int{"d": 40_000, strings.Repeat("n", 255): 1_000} {
		s, root := chain(t, name, levels)
		can := (MaxDir + 1) / (len(name) + 1) // so many may be in each other
		for what, paths := range map[string]iter.Seq2[string, error]{
			"walk": pathsOf(Walk(t.Context(), s, root), func(e WalkEntry) string { return e.Path }),
			"diff": pathsOf(Diff(t.Context(), s, store.ID{}, root), func(c Change) string { return c.Path }),
		} {
			n := 0
			for path, err := range paths {
				if n++; err == nil && len(path) > MaxDir+1+len(name) {
					t.Fatalf("%s: a path of %d bytes", what, len(path))
				}
				if last := n == can+2; last != IsLoss(err) { // one has a name, and is not looked into
					t.Fatalf("%s of %d directories, entry %d: %v", what, levels, n, err)
				}
			}
			if n != can+2 {
				t.Errorf("%s of %d directories: %d entries, want %d", what, levels, n, can+2)
			}
		}
		if len(name) == 1 { // the disk takes a second for a hundred
			continue
		}
		lost := strings.Repeat("/"+name, can+1)[1:]
		isLost := func(r *ExportResult, err error) bool {
			return err == nil && len(r.Lost) == 1 && r.Lost[0].Path == lost && r.Dirs == int64(can)
		}
		if r, err := Export(t.Context(), s, root, filepath.Join(t.TempDir(), "export")); !isLost(r, err) {
			t.Errorf("export: %+v, %v", r, err)
		}
	}
}

// pathsOf yields the paths of a sequence.
func pathsOf[T any](seq iter.Seq2[T, error], path func(T) string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for x, err := range seq {
			if !yield(path(x), err) {
				return
			}
		}
	}
}

// TestPatchDeep: a directory that no tree can have is not put into one.
func TestPatchDeep(t *testing.T) {
	o := NewOverlay(nil)
	file := &tree.Entry{Mode: tree.ModeFile | 0o644, ID: store.ID{1}}
	for n, ok := range map[int]bool{MaxDir: true, MaxDir + 1: false} {
		dir := strings.Repeat("d/", n/2-1) + strings.Repeat("e", 2+n%2)
		if len(dir) != n {
			t.Fatal(len(dir), n)
		}
		_, err := Patch(t.Context(), NewPages(o), o, store.ID{}, []Edit{{Path: dir + "/f", New: file}})
		if (err == nil) != ok || err != nil && len(err.Error()) > 300 {
			t.Errorf("a directory with a path of %d bytes: %v", n, err)
		}
	}
}

// TestComparePaths holds the order of paths against that of their names.
func TestComparePaths(t *testing.T) {
	paths := []string{"", "a", "a/", "a/b", "a/b/c", "a/c", "a-", "a-/b", "a.b", "a0", "ab", "ab/c", "\xff/a", "\xff",
		"b"}
	for _, a := range paths {
		for _, b := range paths {
			want := slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
			if got := ComparePaths(a, b); got != want {
				t.Errorf("ComparePaths(%q, %q) = %d, want %d", a, b, got, want)
			}
		}
	}
}
