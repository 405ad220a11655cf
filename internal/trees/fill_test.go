package trees

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/store"
)

// written returns what is in a directory: modes, and contents or targets of links.
func written(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			text, err = os.Readlink(name)
		case !d.IsDir():
			var b []byte
			b, err = os.ReadFile(name)
			text = string(b)
		}
		rel, _ := filepath.Rel(dir, name)
		all[rel] = info.Mode().String() + " " + text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// filled returns a store with a tree that has more directories than stay open, and contents that several
// files hold.
func filled(t *testing.T) (s *cas.Store, root store.ID, contents []string) {
	t.Helper()
	files := map[string]string{"link": "-> a", "d000/link": "-> a"}
	for d := range 3 * maxIdle {
		for i := range 4 {
			files[fmt.Sprintf("d%03d/in/f%d", d, i)] = fmt.Sprintf("content %d", (d+i)%200)
		}
	}
	files["empty"] = ""
	s, root = storeOf(t, files)
	for _, text := range files {
		contents = append(contents, strings.TrimPrefix(text, "-> "))
	}
	slices.Sort(contents)
	return s, root, slices.Compact(contents)
}

// TestFill gives contents in any order, some of them never, some twice, and some that nobody wants: what is
// there then is what Export writes.
func TestFill(t *testing.T) {
	s, root, contents := filled(t)
	// What a directory inherits stays, whatever its permission bits are in the tree.
	shared := func(name string) string {
		dir := filepath.Join(t.TempDir(), name)
		if err := errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755|fs.ModeSetgid)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	whole := shared("whole")
	want, err := Export(t.Context(), s, root, whole)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for round, share := range []int{0, len(contents) / 2, len(contents)} {
		dir := shared("filled")
		f, err := Fill(t.Context(), s, root, dir)
		if err != nil {
			t.Fatal(err)
		}
		rng.Shuffle(len(contents), func(i, j int) { contents[i], contents[j] = contents[j], contents[i] })
		var group errgroup.Group
		group.SetLimit(4)
		for _, text := range slices.Concat(contents[:share], contents[:share/2], []string{"of no file"}) {
			group.Go(func() error { return f.Give(object.Hash(object.Blob, []byte(text)), []byte(text)) })
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		got, err := f.Finish(s)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(*got) != fmt.Sprint(*want) {
			t.Errorf("round %d: filled %+v, exported %+v", round, got, want)
		}
		if !maps.Equal(written(t, dir), written(t, whole)) {
			t.Errorf("round %d: filled\n%v\nexported\n%v", round, written(t, dir), written(t, whole))
		}
		for _, d := range f.all {
			if d.open != nil {
				t.Errorf("round %d: %q is still open", round, d.path)
			}
		}
	}
}

// TestFillAbandon removes what was written, and nothing of what others have put there meanwhile.
func TestFillAbandon(t *testing.T) {
	s, root, contents := filled(t)
	dir := filepath.Join(t.TempDir(), "filled")
	f, err := Fill(t.Context(), s, root, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range contents[:len(contents)/2] {
		if err := f.Give(object.Hash(object.Blob, []byte(text)), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(dir, "d000", "other")
	if err := os.WriteFile(other, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Abandon(); err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(maps.Keys(written(t, dir)))
	if !slices.Equal(got, []string{"d000", filepath.Join("d000", "other")}) {
		t.Errorf("%q are left", got)
	}
}

// TestFillLost holds that a content that is given cannot be lost: who gives what cannot be read is told.
func TestFillLost(t *testing.T) {
	s, root := storeOf(t, map[string]string{"a": "content"})
	id := object.Hash(object.Blob, []byte("content"))
	f, err := Fill(t.Context(), s, root, filepath.Join(t.TempDir(), "filled"))
	if err != nil {
		t.Fatal(err)
	}
	if is, err := f.Copy(&lossy{s, map[store.ID]bool{id: true}}, id); !is || !IsLoss(err) {
		t.Errorf("copied what is lost: %v, %v", is, err)
	}
	if err := f.Abandon(); err != nil {
		t.Error(err)
	}
}
