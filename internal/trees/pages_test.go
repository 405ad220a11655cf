package trees

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// What was read once is not read again, and says the same.
func TestPagesRemember(t *testing.T) {
	o := NewOverlay(nil)
	list := entries(10_000)
	a := put(t, o, list)
	list[7].ID = blobID("edited")
	b := put(t, o, list)
	g := &countingGetter{Getter: o}
	p := NewPages(g)
	var first int
	for round := range 3 {
		n := 0
		for c, err := range Diff(t.Context(), p, a, b) {
			if err != nil || c.Path != list[7].Name || *c.New != list[7] {
				t.Fatalf("round %d: %+v, %v", round, c, err)
			}
			n++
		}
		if round == 0 {
			first = g.n
		}
		if n != 1 || g.n != first || first == 0 {
			t.Errorf("round %d: %d changes; %d pages read so far, after the first round %d", round, n, g.n, first)
		}
	}
}

// A page that is right as a root is checked again where it is not one.
func TestPagesCheckInner(t *testing.T) {
	names := make([]string, 0, 2)
	for i := 0; len(names) < 2; i++ {
		if name := fmt.Sprintf("file-%06d", i); Boundary(name, 0) {
			names = append(names, name)
		}
	}
	var list []tree.Entry
	for _, name := range names { // a large directory would be cut between them
		list = append(list, tree.Entry{Name: name, Mode: tree.ModeFile | 0o644, Size: 1, ID: blobID(name)})
	}
	o := NewOverlay(nil)
	small := put(t, o, list)
	bad, err := o.Put(object.Tree, appendPage(nil, 1, []Item{{Name: names[0], Size: 2, ID: small}}))
	if err != nil {
		t.Fatal(err)
	}
	read := func(p Getter, id store.ID) (err error) {
		for _, e := range Entries(t.Context(), p, id) {
			err = errors.Join(err, e)
		}
		return err
	}
	p := NewPages(o)
	for range 2 {
		if err := read(p, small); err != nil {
			t.Errorf("a small directory: %v", err)
		}
		if err := read(p, bad); !errors.Is(err, errPage) {
			t.Errorf("a page that is not cut: %v", err)
		}
	}
}

// The memory that pages take is bounded: the oldest go.
func TestPagesBound(t *testing.T) {
	p := NewPages(nil)
	items := []Item{{Name: "a"}, {Name: "b"}}
	key := func(i int) pageKey { return pageKey{id: blobID(fmt.Sprint(i))} }
	const n = 2 * maxPages / 300
	for i := range n {
		p.addCopy(key(i), 0, items)
		p.addCopy(key(i), 0, items)
	}
	size := 0
	for _, pg := range p.pages {
		size += pg.size()
	}
	if size != p.size || size > maxPages || size < maxPages/2 || len(p.order) != len(p.pages) {
		t.Errorf("%d pages of %d bytes, counted as %d of %d; at most %d bytes", len(p.pages), size, len(p.order),
			p.size, maxPages)
	}
	if _, ok := p.get(key(0)); ok {
		t.Error("the oldest is still there")
	}
	items[0].Name = "changed"
	if pg, ok := p.get(key(n - 1)); !ok || !slices.Equal(pg.items, []Item{{Name: "a"}, {Name: "b"}}) {
		t.Errorf("the newest: %v, %v", pg, ok)
	}
}
