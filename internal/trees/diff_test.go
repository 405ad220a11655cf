package trees

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// randomTree makes a tree of files and directories and lists it.
func randomTree(t *testing.T, r *rand.Rand, p Putter, depth int) (store.ID, map[string]tree.Entry) {
	t.Helper()
	all := make(map[string]tree.Entry)
	n := r.IntN(6)
	if depth < 2 && r.IntN(10) == 0 {
		n = 50 + r.IntN(200)
	}
	var list []tree.Entry
	for range n {
		e := tree.Entry{Name: fmt.Sprintf("n%03d", r.IntN(300)), Mode: tree.ModeFile | 0o644, Size: 1,
			ID: blobID(fmt.Sprint(r.IntN(3)))}
		if depth > 0 && r.IntN(4) == 0 {
			id, below := randomTree(t, r, p, depth-1)
			e = tree.Entry{Name: e.Name, Mode: tree.ModeDir | 0o755, ID: id}
			if _, ok := all[e.Name]; !ok {
				for path, x := range below {
					all[e.Name+"/"+path] = x
				}
			}
		}
		if _, ok := all[e.Name]; !ok {
			all[e.Name] = e
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b tree.Entry) int { return strings.Compare(a.Name, b.Name) })
	return put(t, p, list), all
}

// TestDiff compares Diff with a comparison of full listings.
func TestDiff(t *testing.T) {
	testseed.Sequential(t)
	r := rand.New(rand.NewPCG(1, 2))
	o := NewOverlay(nil)
	for range 300 {
		a, left := randomTree(t, r, o, 3)
		b, right := randomTree(t, r, o, 3)
		want := make(map[string][2]tree.Entry)
		for path, x := range left {
			if y := right[path]; x != y && !(x.Mode.IsDir() && x.Mode == y.Mode) {
				want[path] = [2]tree.Entry{x, y}
			}
		}
		for path, y := range right {
			if x := left[path]; x != y && !(x.Mode.IsDir() && x.Mode == y.Mode) {
				want[path] = [2]tree.Entry{x, y}
			}
		}
		got := make(map[string][2]tree.Entry)
		last := ""
		for c, err := range Diff(t.Context(), o, a, b) {
			if err != nil {
				t.Fatal(err)
			}
			var pair [2]tree.Entry
			if c.Old != nil {
				pair[0] = *c.Old
			}
			if c.New != nil {
				pair[1] = *c.New
			}
			if _, ok := got[c.Path]; ok {
				t.Fatalf("%q twice", c.Path)
			}
			got[c.Path] = pair
			if strings.ReplaceAll(last, "/", "\x00") > strings.ReplaceAll(c.Path, "/", "\x00") {
				t.Fatalf("%q after %q", c.Path, last)
			}
			last = c.Path
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("diff of %v and %v (-want +got):\n%s", left, right, diff)
		}
	}
}

// A countingGetter counts what is read through it.
type countingGetter struct {
	Getter
	n int
}

func (g *countingGetter) Get(ctx context.Context, kind object.Kind, id store.ID) ([]byte, error) {
	g.n++
	return g.Getter.Get(ctx, kind, id)
}

// TestDiffCost: the cost of a diff follows the difference, not the size.
func TestDiffCost(t *testing.T) {
	o := NewOverlay(nil)
	list := entries(100_000)
	a := put(t, o, list)
	list[31_415].ID = blobID("edited")
	list = slices.Delete(list, 271, 272)
	b := put(t, o, list)
	g := &countingGetter{Getter: o}
	n := 0
	for _, err := range Diff(t.Context(), g, a, b) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 2 || g.n > 30 {
		t.Errorf("%d changes found by reading %d pages; want 2 and at most 30", n, g.n)
	}
}

// TestDiffStops: who walks a tree in which a few pages are 2^40 files, and knows them all, can be stopped.
func TestDiffStops(t *testing.T) {
	o := NewOverlay(nil)
	empty := put(t, o, nil)
	root := put(t, o, entries(1))
	for range 40 {
		dir := tree.Entry{Mode: tree.ModeDir | 0o755, ID: root}
		a, b := dir, dir
		a.Name, b.Name = "a", "b"
		root = put(t, o, []tree.Entry{a, b})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	stopped, n := errors.New("stopped"), 0
	for _, err := range Diff(ctx, NewPages(o), empty, root) {
		if n++; n == 1000 {
			cancel(stopped)
		}
		if err != nil && !errors.Is(err, stopped) {
			t.Fatal(err)
		}
		if n > 1100 {
			t.Fatal("it goes on")
		}
	}
	if n <= 1000 {
		t.Errorf("it ends after %d changes", n)
	}
}
