package trees

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// What WhyOmitted looks up is what Coverage lists, and costs no more than a page
// or a few for each directory above the path.
func TestIsOmitted(t *testing.T) {
	o := NewOverlay(nil)
	rng := rand.New(rand.NewPCG(1, 2))
	var dir func(depth int) store.ID
	dir = func(depth int) store.ID {
		var items []Item
		for i := range 1 + rng.IntN(5) {
			it := Item{Name: fmt.Sprint("n", i)}
			switch kind := rng.IntN(7); {
			case kind == 0 && depth > 0:
				it.Attr, it.ID = CoverageAttr(vfs.Directory, 0), dir(depth-1)
			case kind == 1:
				it.Attr = CoverageAttr(vfs.Directory, Ignored)
			case kind == 2:
				it.Attr = CoverageAttr(vfs.Special, NotFile)
			case kind == 4: // taken out by git, and there
				if it.Attr = CoverageAttr(vfs.Directory, Sparse); depth > 0 && rng.IntN(2) == 0 {
					it.ID = dir(depth - 1)
				}
			case kind == 5:
				it.Attr = CoverageAttr(vfs.Regular, Sparse)
			default:
				it.Attr = CoverageAttr(vfs.Regular, TooLarge)
			}
			items = append(items, it)
		}
		id, err := CoverageWriter(o).Dir(items)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	for range 200 {
		root := dir(4)
		out := make(map[string]Omission)
		for om, err := range Coverage(t.Context(), o, root) {
			if err != nil {
				t.Fatal(err)
			}
			out[om.Path] = om
		}
		all := &countingGetter{Getter: o}
		left := newLeftOut(all, root)
		for range 100 {
			names := make([]string, 1+rng.IntN(6))
			for i := range names {
				names[i] = fmt.Sprint("n", rng.IntN(6))
			}
			path := strings.Join(names, "/")
			var want Reason
			for i := range names[1:] {
				if om := out[strings.Join(names[:i+1], "/")]; om.Kind.IsDir() {
					want = om.Reason
				}
			}
			if om, ok := out[path]; ok {
				if want = om.Reason; want == NotFile {
					want = 0
				}
			}
			g := &countingGetter{Getter: o}
			got, err := WhyOmitted(t.Context(), g, root, path)
			again, aerr := left.why(t.Context(), path)
			if is, err := IsOmitted(t.Context(), o, root, path); err != nil ||
				is != (want != 0 && want != Sparse) {
				t.Fatalf("IsOmitted(%q) = %v, %v where the reason is %s", path, is, err, want)
			}
			if got != want || again != want || err != nil || aerr != nil || g.n > len(names) {
				t.Fatalf("%q of %v: %v, %v after %d reads, and %v, %v; want %v", path, out, got, err, g.n, again,
					aerr, want)
			}
		}
		if all.n > len(o.pages) {
			t.Fatalf("%d pages are read %d times", len(o.pages), all.n)
		}
		clear(o.pages)
	}
	if out, err := IsOmitted(t.Context(), o, store.ID{}, "a/b"); out || err != nil {
		t.Errorf("of nothing: %v, %v", out, err)
	}
}

// A problem names its place once, also where the error has it.
func TestProblemText(t *testing.T) {
	lost := fmt.Errorf("tree 0123: %w", store.ErrNotFound)
	cut := &object.CorruptError{Path: "log", Off: 7, Err: errors.New("cut")}
	for want, p := range map[string]*Problem{
		`".": tree 0123: not found`:   {Err: lost},
		`"a b": tree 0123: not found`: {Path: "a b", Err: lost},
		"log at offset 7: cut":        {Path: "log", Err: cut},
	} {
		if got := p.Text(strconv.Quote); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
