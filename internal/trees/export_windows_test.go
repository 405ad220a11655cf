package trees

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

// What Windows cannot have is listed, and all else is there, whoever gives it.
func TestExportRefused(t *testing.T) {
	files := map[string]string{"a": "1", "a.": "2", "a:b": "3", "b\\c": "7", "nul": "8", "d./f": "4", "d/\xff": "5",
		"d/f": "6"}
	refused := []string{"a.", "a:b", "b\\c", "d.", "d/\xff", "nul"}
	if !vfstest.HasLinks() {
		files["link"] = "-> a"
		refused = append(refused, "link")
		slices.Sort(refused)
	}
	s, root := storeOf(t, files)
	check := func(how, dir string, r *ExportResult) {
		t.Helper()
		var got []string
		for _, p := range r.Refused {
			got = append(got, p.Path)
			if !errors.Is(p.Err, vfs.ErrImpossible) {
				t.Errorf("%s: %q: %v", how, p.Path, p.Err)
			}
		}
		if !slices.Equal(got, refused) || r.Files != 2 || r.Dirs != 1 {
			t.Errorf("%s: refused %q, want %q: %+v", how, got, refused, r)
		}
		names := slices.Sorted(maps.Keys(written(t, dir)))
		if !slices.Equal(names, []string{"a", "d", filepath.Join("d", "f")}) {
			t.Errorf("%s: there is %q", how, names)
		}
	}
	dir := filepath.Join(t.TempDir(), "exported")
	r, err := Export(t.Context(), s, root, dir)
	if err != nil {
		t.Fatal(err)
	}
	check("Export", dir, r)
	dir = filepath.Join(t.TempDir(), "filled")
	f, err := Fill(t.Context(), s, root, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"1", "2", "5"} {
		if err := f.Give(object.Hash(object.Blob, []byte(text)), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if r, err = f.Finish(s); err != nil {
		t.Fatal(err)
	}
	check("Fill", dir, r)
}
