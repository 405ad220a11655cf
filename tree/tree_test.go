package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/nearmiss"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

func blobID(content string) store.ID { return store.Hash(store.Blob, []byte(content)) }

// entries makes a directory of n files whose content is their name.
func entries(n int) []Entry {
	list := make([]Entry, n)
	for i := range list {
		name := fmt.Sprintf("file-%06d", i)
		list[i] = Entry{name, ModeFile | 0o644, int64(len(name)), blobID(name)}
	}
	return list
}

func put(t testing.TB, p Putter, list []Entry) store.ID {
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
		var got []Entry
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
	list = slices.Insert(list, 70_000, Entry{list[69_999].Name + "x", ModeFile, 0, blobID("")})
	put(t, o, list)
	if n := len(o.pages) - before; n > 8 {
		t.Errorf("an insertion made %d new pages of %d", n, before)
	}
}

// TestPutChanged: where leaves have changed, the pages above them are those of
// the whole directory put again, and no other is put.
func TestPutChanged(t *testing.T) {
	r := random(t)
	var names []string // that leaves begin with
	for i := 0; len(names) < 3000; i++ {
		if name := fmt.Sprintf("file-%06d", i); boundary(name, 0) {
			names = append(names, name)
		}
	}
	for _, n := range []int{1, 2, 64, 65, 100, 3000} {
		leaves := make([]item, n)
		for i := range leaves {
			leaves[i] = item{name: names[i], size: 32, id: blobID(fmt.Sprint(i))}
		}
		_, lists, err := putPages(NewOverlay(nil), store.Tree, slices.Clone(leaves), nil)
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
			leaves[i].id = ids[i]
		}
		few, all := NewOverlay(nil), NewOverlay(nil)
		got, err := putChanged(few, store.Tree, lists, ids, nil)
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := putPages(all, store.Tree, leaves, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got[len(lists)][0] != want {
			t.Errorf("%d leaves, of which %d have changed: root %s, want %s", n, len(ids), got[len(lists)][0].Short(), want.Short())
		}
		if n == 3000 && len(few.pages) > 4*len(ids) {
			t.Errorf("%d leaves have changed: %d pages put of %d", len(ids), len(few.pages), len(all.pages))
		}
	}
}

func TestPutRefuses(t *testing.T) {
	id := blobID("x")
	for _, list := range [][]Entry{
		{{"", ModeFile, 0, id}},
		{{".", ModeFile, 0, id}},
		{{"..", ModeFile, 0, id}},
		{{"a/b", ModeFile, 0, id}},
		{{"a\x00b", ModeFile, 0, id}},
		{{strings.Repeat("n", 1024), ModeFile, 0, id}},
		{{"a", 0o600, 0, id}},
		{{"a", ModeFile | 0o4755, 0, id}},
		{{"a", ModeSymlink | 0o755, 0, id}},
		{{"a", ModeDir | 0o755, 1, id}},
		{{"a", ModeFile, -1, id}},
		{{"a", ModeFile, 0, store.ID{}}},
		{{"b", ModeFile, 0, id}, {"a", ModeFile, 0, id}},
		{{"a", ModeFile, 0, id}, {"a", ModeFile, 0, id}},
	} {
		if got, err := Put(NewOverlay(nil), list); err == nil {
			t.Errorf("Put(%+v) = %s, want an error", list, got.Short())
		}
	}
}

// FuzzPage: what parses is what appendPage writes.
func FuzzPage(f *testing.F) {
	items := []item{{"a", uint16(ModeFile | 0o644), 3, blobID("a")}, {"b", uint16(ModeDir | 0o755), 0, Empty}}
	left := []item{{"a", coverageAttr(vfs.Regular, TooLarge), 3, store.ID{}}, {"b", coverageAttr(vfs.Directory, 0), 0, blobID("c")}}
	above := []item{{"a", 0, 40, blobID("p")}, {cutName(0), 0, 33, blobID("q")}}
	for level, list := range [][]item{items, above} {
		for _, b := range nearmiss.Of(appendPage(nil, level, list)) {
			f.Add(b)
		}
	}
	sparse := []item{{"a", coverageAttr(vfs.Directory, Sparse), 0, blobID("c")}, {"b", coverageAttr(vfs.Regular, Sparse), 0, store.ID{}}, {"c", coverageAttr(0, Sparse), 0, store.ID{}}}
	for _, list := range [][]item{left, sparse} {
		for _, b := range nearmiss.Of(appendPage(nil, 0, list)) {
			f.Add(b)
		}
	}
	// Each breaks one rule.
	f.Add(appendPage(nil, 0, nil))
	f.Add(appendPage(nil, 0, []item{items[1], items[0]}))
	f.Add(appendPage(nil, 0, []item{items[0], items[0]}))
	f.Add(appendPage(nil, 0, []item{{"a/b", items[0].attr, 3, blobID("a")}}))
	f.Add(appendPage(nil, 0, []item{{"..", items[0].attr, 3, blobID("a")}}))
	f.Add(appendPage(nil, 0, []item{{"a", 0o107777 & 0xffff, 3, blobID("a")}}))
	f.Add(appendPage(nil, 1, []item{{"a", 1, 40, blobID("p")}}))
	f.Add(appendPage(nil, 1, nil))
	var uncut []item
	for _, e := range entries(65) {
		uncut = append(uncut, entryItem(&e))
	}
	f.Add(appendPage(nil, 0, uncut))
	f.Fuzz(func(t *testing.T, b []byte) {
		for i, valid := range []func(*item) bool{validEntry, validOmission, validEntry, validOmission} {
			level, items, err := parsePage(b, i < 2, valid)
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
		if name := fmt.Sprint("n", i); boundary(name, level) {
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
		var items []item
		for _, e := range list[:min(int(n), len(list))] {
			items = append(items, entryItem(&e))
		}
		o := NewOverlay(nil)
		want, err := putItems(o, store.Tree, items, nil)
		if err != nil {
			t.Fatal(err)
		}
		root := putMiscut(t, o, items, changes)
		r := pageReader{o, store.Tree, validEntry, nil}
		var got []item
		for it, err := range r.items(t.Context(), root) {
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
		id, err := putItems(o, store.Tree, got, nil)
		if level, _, err := r.page(t.Context(), root, nil, 0); level > 1 && err == nil {
			// That a list of 64 pages or fewer was cut shows when all are read.
			return
		}
		if err != nil || id != root {
			t.Errorf("%d items are read from a directory that is %s otherwise, %v", len(got), id.Short(), err)
		}
		for _, it := range got {
			if found, ok, err := r.find(t.Context(), root, it.name); !ok || err != nil || found != it {
				t.Errorf("find %q: %v, %v, %v", it.name, found, ok, err)
			}
		}
	})
}

// putMiscut stores a directory as putItems does, but for changes, of three bytes
// each: a place, a level and what is done there.
func putMiscut(t *testing.T, o *Overlay, items []item, changes []byte) store.ID {
	t.Helper()
	for level := 0; ; level++ {
		cuts := make(map[int]bool)
		for _, end := range cut(len(items), func(i int) bool { return boundary(items[i].name, level) }) {
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
				it.size++
			case 3:
				it.name += "x"
			case 4:
				items[at] = items[len(items)-1]
			case 5:
				again = true
			}
		}
		var pages []item
		start := 0
		for end := 0; end <= len(items); end++ {
			if end < len(items) && (!cuts[end] || end == start) {
				continue
			}
			id, err := o.Put(store.Tree, appendPage(nil, level, items[start:end]))
			if err != nil {
				t.Fatal(err)
			}
			page := item{size: count(level, items[start:end]), id: id}
			if start < end {
				page.name = items[start].name
			}
			pages = append(pages, page)
			start = end
		}
		if len(pages) == 1 && !again || level == 5 {
			return pages[0].id
		}
		items = pages
	}
}

// randomTree makes a tree of files and directories and lists it.
func randomTree(t *testing.T, r *rand.Rand, p Putter, depth int) (store.ID, map[string]Entry) {
	t.Helper()
	all := make(map[string]Entry)
	n := r.IntN(6)
	if depth < 2 && r.IntN(10) == 0 {
		n = 50 + r.IntN(200)
	}
	var list []Entry
	for range n {
		e := Entry{Name: fmt.Sprintf("n%03d", r.IntN(300)), Mode: ModeFile | 0o644, Size: 1, ID: blobID(fmt.Sprint(r.IntN(3)))}
		if depth > 0 && r.IntN(4) == 0 {
			id, below := randomTree(t, r, p, depth-1)
			e = Entry{Name: e.Name, Mode: ModeDir | 0o755, ID: id}
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
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return put(t, p, list), all
}

// TestDiff compares Diff with a comparison of full listings.
func TestDiff(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	o := NewOverlay(nil)
	for range 300 {
		a, left := randomTree(t, r, o, 3)
		b, right := randomTree(t, r, o, 3)
		want := make(map[string][2]Entry)
		for path, x := range left {
			if y := right[path]; x != y && !(x.Mode.IsDir() && x.Mode == y.Mode) {
				want[path] = [2]Entry{x, y}
			}
		}
		for path, y := range right {
			if x := left[path]; x != y && !(x.Mode.IsDir() && x.Mode == y.Mode) {
				want[path] = [2]Entry{x, y}
			}
		}
		got := make(map[string][2]Entry)
		last := ""
		for c, err := range Diff(t.Context(), o, a, b) {
			if err != nil {
				t.Fatal(err)
			}
			var pair [2]Entry
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

func (g *countingGetter) Get(ctx context.Context, kind store.Kind, id store.ID) ([]byte, error) {
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

func TestFS(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "a/b/c.txt"), "c")
	write(t, filepath.Join(root, "empty"), "")
	write(t, filepath.Join(root, "bad\xff/inside"), "x")
	write(t, filepath.Join(root, "ok/bad\xfe"), "x")
	os.Mkdir(filepath.Join(root, "emptydir"), 0o755)
	for name, target := range map[string]string{
		"a/link": "b/c.txt", "up": "a/../empty", "dirlink": "a/b", "out": "../x", "abs": "/etc/passwd",
		"loop": "loop", "dangling": "nowhere",
	} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := openStore(t, vfs.NewMem())
	r := snapshot(t, s, openWorkspace(t, s, root), nil)
	view := NewFS(t.Context(), s, r.Tree)
	left, err := view.LeftOut()
	if diff := cmp.Diff([]string{"bad\xff", "ok/bad\xfe"}, left); diff != "" || err != nil {
		t.Errorf("LeftOut (-want +got), %v:\n%s", err, diff)
	}
	for name, want := range map[string]string{
		"a/b/c.txt": "c", "empty": "", "a/link": "c", "up": "", "dirlink/c.txt": "c",
	} {
		if b, err := fs.ReadFile(view, name); err != nil || string(b) != want {
			t.Errorf("ReadFile(%q) = %q, %v; want %q", name, b, err, want)
		}
	}
	for _, name := range []string{"out", "abs", "loop", "dangling", "nope", "empty/x", "a/b/c.txt/x"} {
		if _, err := view.Open(name); err == nil {
			t.Errorf("Open(%q): no error", name)
		}
	}
	// TestFS opens every file that it lists, so it wants no broken links.
	for _, name := range []string{"out", "abs", "loop", "dangling"} {
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	r = snapshot(t, s, openWorkspace(t, s, root), nil)
	if err := fstest.TestFS(NewFS(t.Context(), s, r.Tree), "a/b/c.txt", "a/link", "empty", "emptydir"); err != nil {
		t.Error(err)
	}
}

// What another process has stored since this one looked is not missing.
func TestCheckerOfSharedStore(t *testing.T) {
	disk := vfs.NewMem()
	a, b := openStore(t, disk), openStore(t, disk)
	store2 := func(s *store.Store, content string) *store.Snapshot {
		w, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		id, err := w.Put(store.Blob, []byte(content))
		if err != nil {
			t.Fatal(err)
		}
		snap := &store.Snapshot{Tree: put(t, w, []Entry{{"f", ModeFile | 0o644, int64(len(content)), id}}), Worktree: "w", Session: content}
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
	if _, err := a.Get(t.Context(), store.Tree, snap.Tree); err != nil {
		t.Fatal(err)
	}
	check(snap)
	three := store2(b, "three")
	blob, err := Lookup(t.Context(), b, three.Tree, "f")
	if err != nil {
		t.Fatal(err)
	}
	w, err := a.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	check(&store.Snapshot{Tree: put(t, w, []Entry{blob})})
}
