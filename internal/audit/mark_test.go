package audit

import (
	"fmt"
	"testing"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// lackingOf returns what a mark of a snapshot meets behind that of what another had, or of all of that.
func lackingOf(t *testing.T, s *cas.Store, had, next *store.Snapshot, all bool) []store.ID {
	t.Helper()
	live, marker := s.NewLive(), NewMarker(s)
	if had != nil {
		err := marker.MarkNear(t.Context(), live, had, next)
		if all {
			err = marker.MarkSnapshot(t.Context(), live, had)
		}
		if err != nil {
			t.Fatal(err)
		}
		live.Take()
	}
	if err := marker.MarkSnapshot(t.Context(), live, next); err != nil {
		t.Fatal(err)
	}
	if list := marker.Problems(); len(list) > 0 {
		t.Fatal(list[0].Err)
	}
	return live.Take()
}

// TestMarkNear sends, of a random history, what a mark meets behind that of the snapshot before: whoever gets that has
// all that each snapshot needs, and not much twice.
func TestMarkNear(t *testing.T) {
	r := testseed.Rand(t)
	s, w, large := openLarge(t, r)
	model := modelDir{}
	var had *store.Snapshot
	there := make(map[store.ID]bool)
	sent, least := 0, 0
	steps := 100
	if testing.Short() {
		steps = 30
	}
	for i := range steps {
		model.change(r, large)
		next := &store.Snapshot{Tree: model.put(t, w)}
		if i%3 == 0 {
			var err error
			next.Coverage, err = trees.CoverageWriter(w).Dir([]trees.Item{
				{Name: fmt.Sprint("left out ", i%5), Attr: trees.CoverageAttr(vfs.Regular, trees.Ignored)}})
			if err != nil {
				t.Fatal(err)
			}
		}
		if had != nil && i%2 == 0 {
			next.Base = had.State()
		}
		for _, id := range lackingOf(t, s, had, next, false) {
			there[id] = true
			sent++
		}
		least += len(lackingOf(t, s, had, next, true))
		for _, state := range object.States(next) {
			needed := make(map[store.ID]cas.Stored)
			needs(t, s, object.Tree, state.Tree, needed)
			if !state.Coverage.IsZero() {
				needs(t, s, object.Coverage, state.Coverage, needed)
			}
			for id := range needed {
				if !there[id] {
					t.Fatalf("step %d: %s is needed, and was not sent", i, id.Short())
				}
			}
		}
		had = next
	}
	t.Logf("%d objects were sent, where %d were new", sent, least)
	if sent > least+least/4 { // of so few contents most are in many places
		t.Errorf("%d objects were sent, where %d were new", sent, least)
	}
}

// TestMarkNearLittle changes, moves and copies one thing in a large tree: little is met, however large that is.
func TestMarkNearLittle(t *testing.T) {
	s := openStore(t, vfstest.NewMem())
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	model := modelDir{}
	for d := range 40 {
		in := modelDir{"deep": modelDir{"er": modelDir{"f": fmt.Sprint("deep ", d)}}}
		for i := range 40 {
			in[fmt.Sprint("f", i)] = fmt.Sprint("content ", d, " ", i)
		}
		model[fmt.Sprint("d", d)] = in
	}
	had := &store.Snapshot{Tree: model.put(t, w)}
	for _, step := range []struct {
		what   string
		change func()
		most   int
	}{
		{"nothing", func() {}, 0},
		{"a file changes", func() { model["d7"].(modelDir)["f3"] = "changed" }, 3},
		{"a directory is renamed", func() { model["new"] = model["d9"]; delete(model, "d9") }, 1},
		{"a directory moves", func() {
			model["d1"].(modelDir)["moved"] = model["d2"].(modelDir)["deep"]
			delete(model["d2"].(modelDir), "deep")
		}, 3},
		{"its old parent goes", func() {
			model["d3"].(modelDir)["moved"] = model["d4"].(modelDir)["deep"]
			delete(model, "d4")
		}, 2},
	} {
		step.change()
		next := &store.Snapshot{Tree: model.put(t, w)}
		if got := lackingOf(t, s, had, next, false); len(got) > step.most {
			t.Errorf("%s: %d objects are met, at most %d", step.what, len(got), step.most)
		}
		had = next
	}
}
