package trees

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A lossy store has lost some objects; of a blob it finds out half way.
type lossy struct {
	*cas.Store
	lost map[store.ID]bool
}

func (l *lossy) Get(ctx context.Context, kind object.Kind, id store.ID) ([]byte, error) {
	if l.lost[id] {
		return nil, fmt.Errorf("object %s: %w", id.Short(), store.ErrNotFound)
	}
	return l.Store.Get(ctx, kind, id)
}

func (l *lossy) CopyBlob(ctx context.Context, w io.Writer, id store.ID) (int64, error) {
	if l.lost[id] {
		n, _ := w.Write([]byte("half"))
		return int64(n), &object.CorruptError{Path: "packs/x.pack", Err: store.ErrNotFound}
	}
	return l.Store.CopyBlob(ctx, w, id)
}

func (l *lossy) EachBlob(
	ctx context.Context, ids []store.ID, fn func(i int, copy func(w io.Writer) (int64, error)) error,
) error {
	return l.Store.EachBlob(ctx, ids, func(i int, _ func(w io.Writer) (int64, error)) error {
		return fn(i, func(w io.Writer) (int64, error) { return l.CopyBlob(ctx, w, ids[i]) })
	})
}

// What is lost is listed, nothing of it is there, and all else is.
func TestExportLost(t *testing.T) {
	files := map[string]string{"link": "-> b"}
	for _, name := range []string{"a", "b", "d/one", "d/two", "e/f/g"} {
		files[name] = "content of " + name
	}
	s, root := storeOf(t, files)
	ids := make(map[string]store.ID)
	for e, err := range Walk(t.Context(), s, root) {
		if err != nil {
			t.Fatal(err)
		}
		ids[e.Path] = e.ID
	}
	l := &lossy{s, map[store.ID]bool{ids["a"]: true, ids["d/two"]: true, ids["e/f"]: true, ids["link"]: true}}
	out := filepath.Join(t.TempDir(), "out")
	got, err := Export(t.Context(), l, root, out)
	if err != nil {
		t.Fatal(err)
	}
	var lost []string
	for _, p := range got.Lost {
		lost = append(lost, p.Path)
	}
	if want := []string{"a", "d/two", "e/f", "link"}; fmt.Sprint(lost) != fmt.Sprint(want) {
		t.Errorf("lost %v, want %v", lost, want)
	}
	if got.Files != 2 || got.Symlinks != 0 || got.Dirs != 3 {
		t.Errorf("%+v", got)
	}
	for _, name := range []string{"a", "d/two", "e/f/g", "link"} {
		if _, err := os.Lstat(filepath.Join(out, name)); !os.IsNotExist(err) {
			t.Errorf("%s: %v, want that it is not there", name, err)
		}
	}
	for _, name := range []string{"b", "d/one"} {
		if b, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(b) != "content of "+name {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	l.lost[root] = true
	if _, err := Export(t.Context(), l, root, filepath.Join(t.TempDir(), "out")); !IsLoss(err) {
		t.Errorf("without the root: %v, want a loss", err)
	}
}

// emptyStore returns a store in memory, and a writer to it.
func emptyStore(t *testing.T) (*cas.Store, *cas.Writer) {
	t.Helper()
	s, err := cas.OpenFS(t.Context(), vfstest.NewMem(), &cas.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return s, w
}

// storeOf returns a store and a tree in it, of files with contents. A target behind
// "-> " makes a link; a path that ends with a slash is an empty directory.
func storeOf(t *testing.T, files map[string]string) (*cas.Store, store.ID) {
	t.Helper()
	s, w := emptyStore(t)
	var err error
	var edits []Edit
	for path, content := range files {
		path, isDir := strings.CutSuffix(path, "/")
		content, isLink := strings.CutPrefix(content, "-> ")
		e := &tree.Entry{Mode: tree.ModeFile | 0o644, Size: int64(len(content))}
		if isLink {
			e.Mode = tree.ModeSymlink | 0o777
		}
		if isDir {
			e.Mode = tree.ModeDir | 0o755
		} else if e.ID, err = w.Put(object.Blob, []byte(content)); err != nil {
			t.Fatal(err)
		}
		edits = append(edits, Edit{Path: path, New: e})
	}
	root, err := Patch(t.Context(), s, w, store.ID{}, edits)
	if err != nil {
		t.Fatal(err)
	}
	return s, root
}

// A repository that somebody has put into a tree, so that what it says is run where that is
// brought back, is damage: neither an export nor a filling writes it, and all else is there.
func TestExportNoRepository(t *testing.T) {
	s, err := cas.OpenFS(t.Context(), vfstest.NewMem(), &cas.Options{Root: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	blob, err := w.Put(object.Blob, []byte("[core]"))
	if err != nil {
		t.Fatal(err)
	}
	file, dir := uint16(tree.ModeFile|0o644), uint16(tree.ModeDir|0o755)
	page := func(items ...Item) store.ID { // as a writer of another program may
		id, err := w.Put(object.Tree, appendPage(nil, 0, items))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	config := page(Item{"config", file, 6, blob})
	for _, name := range []string{".git", ".hg"} {
		evil := page(Item{name, dir, 0, config})
		root := page(Item{"f", file, 6, blob}, Item{"sub", dir, 0, evil})
		for what, write := range map[string]func(string) (*ExportResult, error){
			"Export": func(dir string) (*ExportResult, error) { return Export(t.Context(), s, root, dir) },
			"Fill": func(dir string) (*ExportResult, error) {
				f, err := Fill(t.Context(), s, root, dir)
				if err != nil {
					return nil, err
				}
				return f.Finish(s)
			},
		} {
			to := filepath.Join(t.TempDir(), "to")
			r, err := write(to)
			if err != nil || r.Files != 1 || len(r.Lost) != 1 || r.Lost[0].Path != "sub" {
				t.Errorf("%s of %s: %+v, %v", what, name, r, err)
			}
			if left, err := os.ReadDir(filepath.Join(to, "sub")); err != nil || len(left) > 0 {
				t.Errorf("%s of %s: sub holds %v, %v", what, name, left, err)
			}
		}
		if _, err := Export(t.Context(), s, evil, filepath.Join(t.TempDir(), "to")); !IsLoss(err) {
			t.Errorf("Export of a root with %s: %v", name, err)
		}
	}
}
