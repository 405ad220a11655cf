package tree

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// A lossy store has lost some objects; of a blob it finds out half way.
type lossy struct {
	*store.Store
	lost map[store.ID]bool
}

func (l *lossy) Get(ctx context.Context, kind store.Kind, id store.ID) ([]byte, error) {
	if l.lost[id] {
		return nil, fmt.Errorf("object %s: %w", id.Short(), store.ErrNotFound)
	}
	return l.Store.Get(ctx, kind, id)
}

func (l *lossy) CopyBlob(ctx context.Context, w io.Writer, id store.ID) (int64, error) {
	if l.lost[id] {
		n, _ := w.Write([]byte("half"))
		return int64(n), &store.CorruptError{Path: "packs/x.pack", Err: store.ErrNotFound}
	}
	return l.Store.CopyBlob(ctx, w, id)
}

// What is lost is listed, nothing of it is there, and all else is.
func TestExportLost(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a", "b", "d/one", "d/two", "e/f/g"} {
		write(t, filepath.Join(root, name), "content of "+name)
	}
	if err := os.Symlink("b", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, vfs.NewMem())
	r := snapshot(t, s, openWorkspace(t, s, root), nil)
	ids := make(map[string]store.ID)
	for e, err := range Walk(t.Context(), s, r.Tree) {
		if err != nil {
			t.Fatal(err)
		}
		ids[e.Path] = e.ID
	}
	l := &lossy{s, map[store.ID]bool{ids["a"]: true, ids["d/two"]: true, ids["e/f"]: true, ids["link"]: true}}
	out := filepath.Join(t.TempDir(), "out")
	got, err := Export(t.Context(), l, r.Tree, out, nil)
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
	l.lost[r.Tree] = true
	if _, err := Export(t.Context(), l, r.Tree, filepath.Join(t.TempDir(), "out"), nil); !IsLoss(err) {
		t.Errorf("without the root: %v, want a loss", err)
	}
}
