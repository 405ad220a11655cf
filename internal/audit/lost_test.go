package audit

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// losing is a Putter that loses pages of a directory.
type losing struct {
	trees.Putter
	lose func(content []byte) bool
}

func (l losing) Put(kind object.Kind, content []byte) (store.ID, error) {
	if l.lose(content) {
		return object.Hash(kind, content), nil
	}
	return l.Putter.Put(kind, content)
}

// TestLostPaths: whoever walks what a state needs names a loss by the same path,
// whether it is a file, a directory, or a page in the middle of one.
func TestLostPaths(t *testing.T) {
	s := reopenStore(t, vfstest.NewMem())
	defer s.Close()
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	put := func(p trees.Putter, list ...tree.Entry) store.ID {
		id, err := trees.Put(p, list)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	dir := func(name string, id store.ID) tree.Entry {
		return tree.Entry{Name: name, Mode: tree.ModeDir | 0o755, ID: id}
	}
	kept, err := w.Put(object.Blob, []byte("kept"))
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string, id store.ID) tree.Entry {
		return tree.Entry{Name: name, Mode: tree.ModeFile | 0o644, Size: 4, ID: id}
	}
	var many []tree.Entry
	for i := range 500 {
		many = append(many, file(fmt.Sprintf("f%03d", i), kept))
	}
	pages := 0
	large := put(losing{w, func(content []byte) bool {
		pages++
		return pages == 3
	}}, many...)
	lostFile, lostDir := object.Hash(object.Blob, []byte("lost")), object.Hash(object.Tree, []byte("lost"))
	root := put(w, dir("a", put(w, dir("b", lostDir), file("c", lostFile), dir("large", large))), file("d", kept))
	snap := &store.Snapshot{Tree: root, Worktree: "w", Root: "/w"}
	if err := w.Commit(t.Context(), snap, 0); err != nil {
		t.Fatal(err)
	}

	want := []string{"a/b", "a/c", "a/large"}
	check := func(who string, list []trees.Problem, err error) {
		t.Helper()
		var got []string
		for _, p := range list {
			got = append(got, p.Path)
		}
		slices.Sort(got)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s, %v (-want +got):\n%s", who, err, d)
		}
	}
	list, err := NewChecker(s).Snapshot(t.Context(), snap)
	check("Checker", list, err)
	marker := NewMarker(s)
	_, err = s.PlanPrune(t.Context(), &cas.PruneOptions{
		Mark: func(ctx context.Context, live *cas.Live, snap *store.Snapshot) error {
			return marker.MarkSnapshot(ctx, live, snap)
		}})
	check("Marker", marker.Problems(), err)
	tally := NewTally(s)
	_, err = tally.Add(t.Context(), snap)
	check("Tally", tally.Problems(), err)
	for h, err := range Hurts(t.Context(), s) {
		check("Hurts", h.Problems, err)
	}
	if whole, err := IsWhole(t.Context(), s, w, snap.State()); whole || err != nil {
		t.Errorf("IsWhole: %v, %v", whole, err)
	}
	found, err := NewFinder(s, nil).Find(t.Context(), root)
	var paths []string
	for _, e := range found {
		paths = append(paths, e.Path)
	}
	if !slices.Contains(paths, "a/large/f000") || !slices.Contains(paths, "d") || err != nil {
		t.Errorf("Finder: %v, %v", paths, err)
	}
}
