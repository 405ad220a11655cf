package audit

import (
	"testing"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// What another process has stored since this one looked is not missing.
func TestCheckerOfSharedStore(t *testing.T) {
	disk := vfstest.NewMem()
	a, b := openStore(t, disk), openStore(t, disk)
	store2 := func(s *cas.Store, content string) *store.Snapshot {
		w, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		id, err := w.Put(object.Blob, []byte(content))
		if err != nil {
			t.Fatal(err)
		}
		root, err := trees.Put(w, []tree.Entry{{Name: "f", Mode: tree.ModeFile | 0o644, Size: int64(len(content)),
			ID: id}})
		if err != nil {
			t.Fatal(err)
		}
		snap := &store.Snapshot{Tree: root, Worktree: "w", Session: content}
		if err := w.Commit(t.Context(), snap, 0); err != nil {
			t.Fatal(err)
		}
		return snap
	}
	check := func(snap *store.Snapshot) {
		problems, err := NewChecker(a).Snapshot(t.Context(), snap)
		if err != nil || len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
	}
	check(store2(b, "one"))
	// The tree alone, so that only the blob is left to be found.
	snap := store2(b, "two")
	if _, err := a.Get(t.Context(), object.Tree, snap.Tree); err != nil {
		t.Fatal(err)
	}
	check(snap)
	three := store2(b, "three")
	blob, err := trees.Lookup(t.Context(), b, three.Tree, "f")
	if err != nil {
		t.Fatal(err)
	}
	w, err := a.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	root, err := trees.Put(w, []tree.Entry{blob})
	if err != nil {
		t.Fatal(err)
	}
	check(&store.Snapshot{Tree: root})
}
