package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// putLosing stores a content, but for the second of its chunks, and returns its ID.
func putLosing(t *testing.T, to *cas.Writer, content []byte) store.ID {
	t.Helper()
	whole := reopenStore(t, vfstest.NewMem())
	defer whole.Close()
	from, err := whole.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	id, _, err := from.PutReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	o, err := whole.Stored(object.Blob, id)
	if err != nil || len(o.Chunks) < 3 {
		t.Fatalf("chunks %v, %v", o.Chunks, err)
	}
	put := func(p *cas.Parcel) error {
		_, err := to.PutParcel(p.Record)
		return err
	}
	if _, err = whole.Parcels(t.Context(), slices.Concat([]store.ID{id}, o.Chunks[:1], o.Chunks[2:]), put); err != nil {
		t.Fatal(err)
	}
	return id
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
	inA := []tree.Entry{dir("b", lostDir), file("c", lostFile), dir("large", large)}
	root := put(w, dir("a", put(w, inA...)), file("d", kept))
	base := put(w, dir("a", put(w, append(inA, file("new", kept))...)))
	snap := &store.Snapshot{Tree: root, Worktree: "w", Root: "/w", Base: store.State{Tree: base}}
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
	lostChunk(t, s, w)
	found, err := NewFinder(s, nil).Find(t.Context(), root)
	var paths []string
	for _, e := range found {
		paths = append(paths, e.Path)
	}
	if !slices.Contains(paths, "a/large/f000") || !slices.Contains(paths, "d") || err != nil {
		t.Errorf("Finder: %v, %v", paths, err)
	}
}

// lostChunk: who asks whether a file is there asks for its chunks, too. A prune does not: nothing hangs on one
// that is lost.
func lostChunk(t *testing.T, s *cas.Store, w *cas.Writer) {
	content := make([]byte, 4<<20)
	rand.NewChaCha8([32]byte{1}).Read(content)
	size := int64(len(content))
	id := putLosing(t, w, content)
	root, err := trees.Put(w, []tree.Entry{{Name: "big", Mode: tree.ModeFile | 0o644, Size: size, ID: id}})
	if err != nil {
		t.Fatal(err)
	}
	snap := &store.Snapshot{Tree: root, Worktree: "other", Root: "/other"}
	if err := w.Commit(t.Context(), snap, 0); err != nil {
		t.Fatal(err)
	}
	lists := map[string][]trees.Problem{}
	if lists["Checker"], err = NewChecker(s).Snapshot(t.Context(), snap); err != nil {
		t.Error(err)
	}
	note := func(_ *store.Snapshot, problems []trees.Problem) error {
		lists["Each"] = problems
		return nil
	}
	if err := NewChecker(s).Each(t.Context(), each([]*store.Snapshot{snap}), note); err != nil {
		t.Error(err)
	}
	tally := NewTally(s)
	if _, err = tally.Add(t.Context(), snap); err != nil {
		t.Error(err)
	}
	lists["Tally"] = tally.Problems()
	for h, err := range Hurts(t.Context(), s) {
		if err != nil || h.Snapshot.Seq == snap.Seq {
			lists["Hurts"] = h.Problems
		}
	}
	for _, who := range []string{"Checker", "Each", "Tally", "Hurts"} {
		if l := lists[who]; len(l) != 1 || l[0].Path != "big" || !errors.Is(l[0].Err, store.ErrNotFound) {
			t.Errorf("%s of a lost chunk: %+v", who, l)
		}
	}
	isThere := func() [3]bool {
		all, err := w.HasAll(id, size)
		list, lerr := w.Has(id)
		whole, werr := IsWhole(t.Context(), s, w, snap.State())
		if err != nil || lerr != nil || werr != nil {
			t.Error(err, lerr, werr)
		}
		return [3]bool{list, all, whole}
	}
	if is := isThere(); is != [3]bool{true, false, false} {
		t.Errorf("without a chunk its list is there, all, and all of the tree: %v", is)
	}
	if _, _, err := w.PutReader(bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	if problems, err := NewChecker(s).Snapshot(t.Context(), snap); len(problems) > 0 || err != nil {
		t.Errorf("with all chunks: %+v, %v", problems, err)
	}
	if is := isThere(); is != [3]bool{true, true, true} {
		t.Errorf("with all chunks: %v", is)
	}
}
