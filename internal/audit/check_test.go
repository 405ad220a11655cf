package audit

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// TestCheckerEach: looking at many snapshots together finds what looking at one after the other does.
func TestCheckerEach(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := reopenStore(t, vfstest.NewMem())
		snaps := halfLost(t, s, r)
		var want []string
		one := NewChecker(s)
		for _, snap := range snaps {
			problems, err := one.Snapshot(t.Context(), snap)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, told(snap, problems)...)
		}
		atOnce = 1 + r.IntN(len(snaps))
		var got []string
		err := NewChecker(s).Each(t.Context(), each(snaps), func(snap *store.Snapshot, problems []trees.Problem) error {
			got = append(got, told(snap, problems)...)
			return nil
		})
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("seed %d, %d at once: %v (-one after the other +together):\n%s", seed, atOnce, err, diff)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	atOnce = 1024
}

func each(snaps []*store.Snapshot) iter.Seq2[*store.Snapshot, error] {
	return func(yield func(*store.Snapshot, error) bool) {
		for _, snap := range snaps {
			if !yield(snap, nil) {
				return
			}
		}
	}
}

func told(snap *store.Snapshot, problems []trees.Problem) (list []string) {
	for _, p := range problems {
		list = append(list, fmt.Sprintf("%s %q %s %v", snap.Tree.Short(), p.Path, p.ID.Short(), p.Err))
	}
	return append(list, snap.Tree.Short())
}

// halfLost returns snapshots that share directories, and lack a file or a directory now and then.
func halfLost(t *testing.T, s *cas.Store, r *rand.Rand) (snaps []*store.Snapshot) {
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	lost := func() bool { return r.IntN(80) == 0 }
	var dirs []store.ID
	var dir func(depth int) store.ID
	dir = func(depth int) store.ID {
		if depth < 3 && len(dirs) > 0 && r.IntN(3) == 0 {
			return dirs[r.IntN(len(dirs))]
		}
		var entries []tree.Entry
		for i := range 1 + r.IntN(4) {
			e := tree.Entry{Name: fmt.Sprint(i), Mode: tree.ModeFile | 0o644}
			text := fmt.Appendf(nil, "%d", r.IntN(20))
			switch {
			case depth > 0 && r.IntN(2) == 0:
				e.Mode, e.ID = tree.ModeDir|0o755, dir(depth-1)
			case lost():
				e.ID = object.Hash(object.Blob, append(text, "gone"...))
			default:
				e.Size = int64(len(text))
				e.ID, err = w.Put(object.Blob, text)
			}
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, e)
		}
		if lost() {
			return object.Hash(object.Tree, fmt.Append(nil, r.Uint64()))
		}
		id, err := trees.Put(w, entries)
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, id)
		return id
	}
	for range 12 {
		snaps = append(snaps, &store.Snapshot{Tree: dir(3), Worktree: "w"})
	}
	if err := w.Commit(t.Context(), snaps[0], 0); err != nil {
		t.Fatal(err)
	}
	return snaps
}
