package trees

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/nearmiss"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

func blobID(content string) store.ID { return object.Hash(object.Blob, []byte(content)) }

// entries makes a directory of n files whose content is their name.
func entries(n int) []tree.Entry {
	list := make([]tree.Entry, n)
	for i := range list {
		name := fmt.Sprintf("file-%06d", i)
		list[i] = tree.Entry{Name: name, Mode: tree.ModeFile | 0o644, Size: int64(len(name)), ID: blobID(name)}
	}
	return list
}

func put(t testing.TB, p Putter, list []tree.Entry) store.ID {
	t.Helper()
	id, err := Put(p, list)
	if err != nil {
		t.Fatalf("Put: %v", err)
	}
	return id
}

func TestPages(t *testing.T) {
	for _, n := range []int{0, 1, 2, 63, 64, 65, 66, 100, 1000, 10_000} {
		o := NewOverlay(nil)
		list := entries(n)
		id := put(t, o, list)
		var got []tree.Entry
		for e, err := range Entries(t.Context(), o, id) {
			if err != nil {
				t.Fatalf("%d entries: %v", n, err)
			}
			got = append(got, e)
		}
		if !slices.Equal(got, list) {
			t.Errorf("%d entries: read %d other ones", n, len(got))
		}
		for _, e := range list {
			if got, err := Lookup(t.Context(), o, id, e.Name); err != nil || got != e {
				t.Fatalf("%d entries: Lookup(%q) = %+v, %v", n, e.Name, got, err)
			}
		}
		for _, name := range []string{"a", "file-", "file-000000x", "zzz", "file-000000/x"} {
			if _, err := Lookup(t.Context(), o, id, name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%d entries: Lookup(%q): %v", n, name, err)
			}
		}
	}
	if id := put(t, NewOverlay(nil), nil); id != Empty {
		t.Errorf("tree of nothing = %s, want Empty", id)
	}
}

// TestPageLocality: a change in a large directory makes few new pages.
func TestPageLocality(t *testing.T) {
	o := NewOverlay(nil)
	list := entries(100_000)
	put(t, o, list)
	before := len(o.pages)
	list[50_000].ID = blobID("edited")
	put(t, o, list)
	if n := len(o.pages) - before; n > 5 {
		t.Errorf("an edit made %d new pages of %d", n, before)
	}
	before = len(o.pages)
	list = slices.Insert(list, 70_000, tree.Entry{Name: list[69_999].Name + "x", Mode: tree.ModeFile, Size: 0,
		ID: blobID("")})
	put(t, o, list)
	if n := len(o.pages) - before; n > 8 {
		t.Errorf("an insertion made %d new pages of %d", n, before)
	}
}

// TestPutChanged: where leaves have changed, the pages above them are those of
// the whole directory put again, and no other is put.
func TestPutChanged(t *testing.T) {
	r := testseed.Rand(t)
	var names []string // that leaves begin with
	for i := 0; len(names) < 3000; i++ {
		if name := fmt.Sprintf("file-%06d", i); Boundary(name, 0) {
			names = append(names, name)
		}
	}
	for _, n := range []int{1, 2, 64, 65, 100, 3000} {
		leaves := make([]Item, n)
		for i := range leaves {
			leaves[i] = Item{Name: names[i], Size: 32, ID: blobID(fmt.Sprint(i))}
		}
		_, lists, err := TreeWriter(NewOverlay(nil), nil).Above(slices.Clone(leaves))
		if err != nil {
			t.Fatal(err)
		}
		ids := make(map[int]store.ID)
		for k := range 10 {
			i := r.IntN(n)
			if k == 0 && n > 64 {
				i = lists[0].ends[0] // a page begins with it
			}
			ids[i] = blobID(fmt.Sprint("changed", r.Uint64()))
			leaves[i].ID = ids[i]
		}
		few, all := NewOverlay(nil), NewOverlay(nil)
		got, err := TreeWriter(few, nil).Replace(lists, ids)
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := TreeWriter(all, nil).Above(leaves)
		if err != nil {
			t.Fatal(err)
		}
		if got[len(lists)][0] != want {
			t.Errorf("%d leaves, of which %d have changed: root %s, want %s", n, len(ids), got[len(lists)][0].Short(),
				want.Short())
		}
		if n == 3000 && len(few.pages) > 4*len(ids) {
			t.Errorf("%d leaves have changed: %d pages put of %d", len(ids), len(few.pages), len(all.pages))
		}
	}
}

func TestPutRefuses(t *testing.T) {
	id := blobID("x")
	for _, list := range [][]tree.Entry{
		{{Name: "", Mode: tree.ModeFile, Size: 0, ID: id}},
		{{Name: ".", Mode: tree.ModeFile, Size: 0, ID: id}},
		{{Name: "..", Mode: tree.ModeFile, Size: 0, ID: id}},
		{{Name: "a/b", Mode: tree.ModeFile, Size: 0, ID: id}},
		{{Name: "a\x00b", Mode: tree.ModeFile, Size: 0, ID: id}},
		{{Name: strings.Repeat("n", 1024), Mode: tree.ModeFile, Size: 0, ID: id}},
		{{Name: ".git", Mode: tree.ModeFile | 0o644, Size: 0, ID: id}},
		{{Name: ".git", Mode: tree.ModeSymlink | 0o777, Size: 0, ID: id}},
		{{Name: ".git", Mode: tree.ModeDir | 0o755, Size: 0, ID: id}},
		{{Name: ".hg", Mode: tree.ModeDir | 0o755, Size: 0, ID: id}},
		{{Name: "a", Mode: 0o600, Size: 0, ID: id}},
		{{Name: "a", Mode: tree.ModeFile | 0o4755, Size: 0, ID: id}},
		{{Name: "a", Mode: tree.ModeSymlink | 0o755, Size: 0, ID: id}},
		{{Name: "a", Mode: tree.ModeDir | 0o755, Size: 1, ID: id}},
		{{Name: "a", Mode: tree.ModeFile, Size: -1, ID: id}},
		{{Name: "a", Mode: tree.ModeFile, Size: 0, ID: store.ID{}}},
		{{Name: "b", Mode: tree.ModeFile, Size: 0, ID: id}, {Name: "a", Mode: tree.ModeFile, Size: 0, ID: id}},
		{{Name: "a", Mode: tree.ModeFile, Size: 0, ID: id}, {Name: "a", Mode: tree.ModeFile, Size: 0, ID: id}},
	} {
		if got, err := Put(NewOverlay(nil), list); err == nil {
			t.Errorf("Put(%+v) = %s, want an error", list, got.Short())
		}
	}
}

// FuzzPage: what parses is what appendPage writes.
func FuzzPage(f *testing.F) {
	items := []Item{{"a", uint16(tree.ModeFile | 0o644), 3, blobID("a")}, {"b", uint16(tree.ModeDir | 0o755), 0, Empty}}
	left := []Item{{"a", CoverageAttr(vfs.Regular, TooLarge), 3, store.ID{}},
		{"b", CoverageAttr(vfs.Directory, 0), 0, blobID("c")}}
	above := []Item{{"a", 0, 40, blobID("p")}, {cutName(0), 0, 33, blobID("q")}}
	for level, list := range [][]Item{items, above} {
		for _, b := range nearmiss.Of(appendPage(nil, level, list)) {
			f.Add(b)
		}
	}
	sparse := []Item{{"a", CoverageAttr(vfs.Directory, Sparse), 0, blobID("c")},
		{"b", CoverageAttr(vfs.Regular, Sparse), 0, store.ID{}}, {"c", CoverageAttr(0, Sparse), 0,
			store.ID{}}}
	for _, list := range [][]Item{left, sparse} {
		for _, b := range nearmiss.Of(appendPage(nil, 0, list)) {
			f.Add(b)
		}
	}
	// Each breaks one rule.
	f.Add(appendPage(nil, 0, nil))
	f.Add(appendPage(nil, 0, []Item{items[1], items[0]}))
	f.Add(appendPage(nil, 0, []Item{items[0], items[0]}))
	f.Add(appendPage(nil, 0, []Item{{"a/b", items[0].Attr, 3, blobID("a")}}))
	f.Add(appendPage(nil, 0, []Item{{"..", items[0].Attr, 3, blobID("a")}}))
	f.Add(appendPage(nil, 0, []Item{{"a", 0o107777 & 0xffff, 3, blobID("a")}}))
	f.Add(appendPage(nil, 1, []Item{{"a", 1, 40, blobID("p")}}))
	f.Add(appendPage(nil, 1, nil))
	var uncut []Item
	for _, e := range entries(65) {
		uncut = append(uncut, entryItem(&e))
	}
	f.Add(appendPage(nil, 0, uncut))
	f.Fuzz(func(t *testing.T, b []byte) {
		for i, valid := range []func(*Item) bool{validEntry, validOmission, validEntry, validOmission} {
			level, items, err := ParsePage(b, i < 2, valid)
			if err != nil {
				continue
			}
			if again := appendPage(nil, level, items); !bytes.Equal(again, b) {
				t.Errorf("two encodings of one page:\n%x\n%x", b, again)
			}
		}
	})
}

// cutName returns a name before which a directory is cut at a level.
func cutName(level int) string {
	for i := 0; ; i++ {
		if name := fmt.Sprint("n", i); Boundary(name, level) {
			return name
		}
	}
}

// FuzzDirectory cuts a directory into pages anywhere: it is read only if that is
// where it is cut. changes are pairs: a place in the names, and what is done there.
func FuzzDirectory(f *testing.F) {
	list := entries(700) // two levels above the leaves are made of 22 pages
	for _, n := range []uint16{0, 1, 2, 64, 65, 66, 200, 700} {
		f.Add(n, []byte(nil))
		for what := range byte(6) {
			for _, at := range []byte{0, 1, 2, 5, 20, 63} {
				f.Add(n, []byte{at, 0, what})
				f.Add(n, []byte{at, 1, what})
			}
		}
	}
	f.Fuzz(func(t *testing.T, n uint16, changes []byte) {
		var items []Item
		for _, e := range list[:min(int(n), len(list))] {
			items = append(items, entryItem(&e))
		}
		o := NewOverlay(nil)
		want, err := TreeWriter(o, nil).Dir(items)
		if err != nil {
			t.Fatal(err)
		}
		root := putMiscut(t, o, items, changes)
		r := PageReader{o, object.Tree, validEntry, nil}
		var got []Item
		for it, err := range r.Items(t.Context(), root) {
			if err != nil {
				if !errors.Is(err, errPage) {
					t.Errorf("items: %v", err)
				}
				if root == want {
					t.Errorf("items of what was put: %v", err)
				}
				return
			}
			got = append(got, it)
		}
		id, err := TreeWriter(o, nil).Dir(got)
		if level, _, err := r.Page(t.Context(), root, nil, 0); level > 1 && err == nil {
			// That a list of 64 pages or fewer was cut shows when all are read.
			return
		}
		if err != nil || id != root {
			t.Errorf("%d items are read from a directory that is %s otherwise, %v", len(got), id.Short(), err)
		}
		for _, it := range got {
			if found, ok, err := r.find(t.Context(), root, it.Name); !ok || err != nil || found != it {
				t.Errorf("find %q: %v, %v, %v", it.Name, found, ok, err)
			}
		}
	})
}

// putMiscut stores a directory as PageWriter.dir does, but for changes, of three bytes
// each: a place, a level and what is done there.
func putMiscut(t *testing.T, o *Overlay, items []Item, changes []byte) store.ID {
	t.Helper()
	for level := 0; ; level++ {
		cuts := make(map[int]bool)
		for _, end := range Cut(len(items), func(i int) bool { return Boundary(items[i].Name, level) }) {
			cuts[end] = true
		}
		again := false // one more level
		for ch := range slices.Chunk(changes, 3) {
			if len(ch) < 3 || int(ch[1]) != level || int(ch[0]) >= len(items) {
				continue
			}
			at := int(ch[0])
			switch it := &items[at]; ch[2] {
			case 0:
				cuts[at] = !cuts[at]
			case 1: // the next cut
				for i := at; i < len(items); i++ {
					if cuts[i] {
						cuts[i] = false
						break
					}
				}
			case 2:
				it.Size++
			case 3:
				it.Name += "x"
			case 4:
				items[at] = items[len(items)-1]
			case 5:
				again = true
			}
		}
		var pages []Item
		start := 0
		for end := 0; end <= len(items); end++ {
			if end < len(items) && (!cuts[end] || end == start) {
				continue
			}
			id, err := o.Put(object.Tree, appendPage(nil, level, items[start:end]))
			if err != nil {
				t.Fatal(err)
			}
			page := Item{Size: count(level, items[start:end]), ID: id}
			if start < end {
				page.Name = items[start].Name
			}
			pages = append(pages, page)
			start = end
		}
		if len(pages) == 1 && !again || level == 5 {
			return pages[0].ID
		}
		items = pages
	}
}
