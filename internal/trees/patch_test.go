package trees

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// TestPatch checks random edits of random trees against a map of paths.
func TestPatch(t *testing.T) {
	testseed.Sequential(t)
	rng := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "a-b", "a0", "b", "c\xff"}
	randomPath := func() string {
		p := names[rng.IntN(len(names))]
		for range rng.IntN(3) {
			p += "/" + names[rng.IntN(len(names))]
		}
		return p
	}
	randomEntry := func() *tree.Entry {
		content := fmt.Sprint(rng.IntN(100))
		switch rng.IntN(5) {
		case 0:
			return &tree.Entry{Mode: tree.ModeDir | []tree.Mode{0o755, 0o700}[rng.IntN(2)], ID: Empty}
		case 1:
			return &tree.Entry{Mode: tree.ModeSymlink | 0o777, Size: int64(len(content)), ID: blobID(content)}
		}
		return &tree.Entry{Mode: tree.ModeFile | []tree.Mode{0o644, 0o755}[rng.IntN(2)], Size: int64(len(content)),
			ID: blobID(content)}
	}
	for range 2000 {
		o := NewOverlay(nil)
		var root store.ID
		model := map[string]tree.Entry{}
		for range 3 {
			var edits []Edit
			said := map[string]bool{}
			for range 1 + rng.IntN(6) {
				e := Edit{Path: randomPath()}
				if rng.IntN(3) > 0 {
					e.New = randomEntry()
				}
				clash := said[e.Path]
				for p := range said { // what is said of a path must not depend on the order
					clash = clash || strings.HasPrefix(p, e.Path+"/") || strings.HasPrefix(e.Path, p+"/")
				}
				if !clash {
					said[e.Path] = true
					edits = append(edits, e)
				}
			}
			rng.Shuffle(len(edits), func(i, j int) { edits[i], edits[j] = edits[j], edits[i] })
			for _, e := range edits {
				applyEdit(model, e)
			}
			var err error
			if root, err = Patch(t.Context(), o, o, root, edits); err != nil {
				t.Fatalf("%v: %v", edits, err)
			}
			got := map[string]tree.Entry{}
			for e, err := range Walk(t.Context(), o, root) {
				if err != nil {
					t.Fatal(err)
				}
				entry := e.Entry
				entry.Name = ""
				if entry.Mode.IsDir() {
					entry.ID = store.ID{}
				}
				got[e.Path] = entry
			}
			if d := cmp.Diff(model, got); d != "" {
				t.Fatalf("%v (-want +got):\n%s", edits, d)
			}
		}
	}
}

// applyEdit does to a map of paths what an edit says.
func applyEdit(model map[string]tree.Entry, e Edit) {
	if e.New == nil || !e.New.Mode.IsDir() {
		for _, p := range slices.Collect(maps.Keys(model)) {
			if p == e.Path || strings.HasPrefix(p, e.Path+"/") {
				delete(model, p)
			}
		}
	}
	if e.New == nil {
		return
	}
	for i, c := range e.Path { // its parents
		if c != '/' {
			continue
		}
		if old, ok := model[e.Path[:i]]; !ok || !old.Mode.IsDir() {
			model[e.Path[:i]] = tree.Entry{Mode: tree.ModeDir | 0o755}
		}
	}
	entry := *e.New
	if entry.Mode.IsDir() {
		entry.ID = store.ID{}
	}
	model[e.Path] = entry
}

// A path may be a file in one tree and a directory in the next.
func TestPatchKinds(t *testing.T) {
	o := NewOverlay(nil)
	file := &tree.Entry{Mode: tree.ModeFile | 0o644, Size: 1, ID: blobID("x")}
	dir := &tree.Entry{Mode: tree.ModeDir | 0o700, ID: Empty}
	root, err := Patch(t.Context(), o, o, store.ID{},
		[]Edit{{Path: "a", New: file}, {Path: "b", New: dir}, {Path: "b/x", New: file}, {Path: "b/y", New: file}})
	if err != nil {
		t.Fatal(err)
	}
	root, err = Patch(t.Context(), o, o, root,
		[]Edit{{Path: "b/y"}, {Path: "a/z", New: file}, {Path: "a", New: dir}, {Path: "b", New: file}, {Path: "b/x"}})
	if err != nil {
		t.Fatal(err)
	}
	want := NewOverlay(nil)
	id, err := Patch(t.Context(), want, want, store.ID{},
		[]Edit{{Path: "a", New: dir}, {Path: "a/z", New: file}, {Path: "b", New: file}})
	if err != nil || root != id {
		t.Errorf("%s, %v, want %s", root, err, id)
	}
	bare, err := Patch(t.Context(), o, o, root, []Edit{{Path: "a", New: dir, Bare: true}, {Path: "a/only", New: file}})
	if err != nil {
		t.Fatal(err)
	}
	if id, err = Patch(t.Context(), o, o, store.ID{},
		[]Edit{{Path: "a", New: dir}, {Path: "a/only", New: file}, {Path: "b", New: file}}); err != nil || bare != id {
		t.Errorf("bare: %s, %v, want %s", bare, err, id)
	}
	for _, bad := range [][]Edit{{{Path: "a", New: file}, {Path: "a"}},
		{{Path: "b", New: file}, {Path: "b/c", New: file}}, {{Path: "", New: file}}, {{Path: "a//b",
			New: file}}, {{Path: "../x", New: file}}} {
		if _, err := Patch(t.Context(), o, o, root, bad); err == nil {
			t.Errorf("no error for %v", bad)
		}
	}
}
