package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A modelDir is a directory: a name has a string or a modelDir.
type modelDir map[string]any

func (d modelDir) put(t *testing.T, w *cas.Writer) store.ID {
	t.Helper()
	var entries []tree.Entry
	for _, name := range slices.Sorted(maps.Keys(d)) {
		e := tree.Entry{Name: name}
		var err error
		switch v := d[name].(type) {
		case modelDir:
			e.Mode, e.ID = tree.ModeDir|0o755, v.put(t, w)
		case string:
			e.Mode, e.Size = tree.ModeFile|0o644, int64(len(v))
			e.ID, err = w.Put(object.Blob, []byte(v))
		}
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	id, err := trees.Put(w, entries)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// change changes a few names somewhere in a model. There are few names and few
// contents, so that much is in several places; one content is in chunks.
func (d modelDir) change(r *rand.Rand, large []string) {
	for range 1 + r.IntN(4) {
		at := d
		for r.IntN(3) > 0 {
			name := fmt.Sprintf("dir\xff%d", r.IntN(3))
			sub, ok := at[name].(modelDir)
			if !ok {
				sub = modelDir{}
				at[name] = sub
			}
			at = sub
		}
		switch r.IntN(8) {
		case 0:
			for i := range 200 { // several pages
				at[fmt.Sprint("many", i)] = fmt.Sprint(r.IntN(2), i)
			}
		case 1:
			delete(at, fmt.Sprint("dir\xff", r.IntN(3)))
		case 2:
			at["large"] = large[r.IntN(len(large))]
		case 3:
			at[fmt.Sprint("dir\xff", r.IntN(3))] = "was a directory"
		default:
			at[fmt.Sprint("f", r.IntN(6))] = fmt.Sprint("content ", r.IntN(9))
		}
	}
}

// needs collects the plain way what a page leads to.
func needs(t *testing.T, s *cas.Store, kind object.Kind, id store.ID, all map[store.ID]cas.Stored) {
	t.Helper()
	o, err := s.Stored(kind, id)
	if err != nil {
		t.Fatal(err)
	}
	all[id] = o
	for _, chunk := range o.Chunks {
		needs(t, s, object.Blob, chunk, all)
	}
	if kind == object.Blob {
		return
	}
	b, err := s.Get(t.Context(), kind, id)
	if err != nil {
		t.Fatal(err)
	}
	level, items, err := trees.ParsePage(b, true, func(*trees.Item) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range items {
		switch {
		case level > 0 || kind == object.Coverage && !it.ID.IsZero() ||
			kind == object.Tree && tree.Mode(it.Attr).IsDir():
			needs(t, s, kind, it.ID, all)
		case kind == object.Tree:
			needs(t, s, object.Blob, it.ID, all)
		}
	}
}

func amountOf(all map[store.ID]cas.Stored, which func(store.ID) bool) (a Amount) {
	for id, o := range all {
		if which(id) {
			a.Add(Amount{1, o.Bytes, o.Size})
		}
	}
	return a
}

// openLarge opens a store to write into, and returns large contents that share most of their chunks.
func openLarge(t *testing.T, r *rand.Rand) (*cas.Store, *cas.Writer, []string) {
	t.Helper()
	s := openStore(t, vfstest.NewMem())
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	random := make([]byte, 3<<20)
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	return s, w, []string{string(random), "begin" + string(random), string(random[:2<<20])}
}

// TestTally compares what a Tally says of random trees with what walking all of
// them says.
func TestTally(t *testing.T) {
	testseed.Sequential(t)
	r := testseed.Rand(t)
	s, w, large := openLarge(t, r)

	const sessions = 3
	var states []store.State // oldest first; that of i is of the session i%sessions
	groups := make([][]store.State, sessions)
	model := modelDir{}
	for i := range 40 {
		model.change(r, large)
		state := store.State{Tree: model.put(t, w)}
		if i%4 == 0 {
			left := []trees.Item{{Name: "left out", Attr: trees.CoverageAttr(vfs.Regular, trees.Ignored)},
				{Name: fmt.Sprint("left out ", i), Attr: trees.CoverageAttr(vfs.Regular, trees.TooLarge), Size: 9}}
			below, err := trees.CoverageWriter(w).Dir(left)
			if err == nil {
				state.Coverage, err = trees.CoverageWriter(w).Dir([]trees.Item{
					{Name: "dir", Attr: trees.CoverageAttr(vfs.Directory, 0), ID: below}})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		states = append(states, state)
		groups[i%sessions] = append(groups[i%sessions], state)
	}

	tally := NewTally(s)
	all := make(map[store.ID]cas.Stored)
	var each []map[store.ID]cas.Stored // by state
	var roots [][]Root
	for _, state := range states {
		got, err := tally.Add(t.Context(), &store.Snapshot{Tree: state.Tree, Coverage: state.Coverage})
		if err != nil {
			t.Fatal(err)
		}
		roots = append(roots, got)
		mine := make(map[store.ID]cas.Stored)
		needs(t, s, object.Tree, state.Tree, mine)
		if !state.Coverage.IsZero() {
			needs(t, s, object.Coverage, state.Coverage, mine)
		}
		each = append(each, mine)
		maps.Copy(all, mine)
	}
	if want := amountOf(all, func(store.ID) bool { return true }); tally.All() != want {
		t.Errorf("All() = %v, want %v", tally.All(), want)
	}

	var firsts []Amount
	seen := make(map[store.ID]cas.Stored)
	for _, mine := range each {
		firsts = append(firsts, amountOf(mine, func(id store.ID) bool { _, ok := seen[id]; return !ok }))
		maps.Copy(seen, mine)
	}
	if diff := cmp.Diff(firsts, tally.Firsts(roots)); diff != "" {
		t.Errorf("Firsts: %s", diff)
	}

	inGroup := make([]map[store.ID]cas.Stored, sessions)
	groupRoots := make([][]Root, sessions)
	for i := range states {
		g := i % sessions
		if inGroup[g] == nil {
			inGroup[g] = make(map[store.ID]cas.Stored)
		}
		maps.Copy(inGroup[g], each[i])
		groupRoots[g] = append(groupRoots[g], roots[i]...)
	}
	having := func(id store.ID) (n int) {
		for _, in := range inGroup {
			if _, ok := in[id]; ok {
				n++
			}
		}
		return n
	}
	need, alone, shared := tally.Shares(groupRoots)
	for g, in := range inGroup {
		if want := amountOf(in, func(store.ID) bool { return true }); need[g] != want {
			t.Errorf("Shares: session %d needs %v, want %v", g, need[g], want)
		}
		if want := amountOf(in, func(id store.ID) bool { return having(id) == 1 }); alone[g] != want {
			t.Errorf("Shares: session %d has alone %v, want %v", g, alone[g], want)
		}
	}
	if want := amountOf(all, func(id store.ID) bool { return having(id) > 1 }); shared != want {
		t.Errorf("Shares: several have %v, want %v", shared, want)
	}

	slices.Reverse(states)
	for depth := range 4 {
		var roots []store.ID
		for _, state := range states {
			roots = append(roots, state.Tree)
		}
		got, err := NewTally(s).Paths(t.Context(), roots, depth)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSortedFunc(got, func(a, b PathAmount) int { return int(b.Stored - a.Stored) }) {
			t.Errorf("Paths with depth %d are not in order", depth)
		}
		rows := make(map[string]PathAmount)
		for _, p := range got {
			rows[fmt.Sprint(p.Path, p.IsDir)] = p
		}
		if diff := cmp.Diff(plainPaths(t, s, roots, depth), rows); diff != "" || len(rows) != len(got) {
			t.Errorf("Paths with depth %d, %d rows: %s", depth, len(got), diff)
		}
	}
	if len(tally.Problems()) > 0 {
		t.Errorf("problems: %v", tally.Problems())
	}
}

// plainPaths is what Paths should say, by path and kind.
func plainPaths(t *testing.T, s *cas.Store, roots []store.ID, depth int) map[string]PathAmount {
	t.Helper()
	rows := make(map[string]PathAmount)
	contents := make(map[string]map[store.ID]cas.Stored)
	blobs := make(map[string]map[store.ID]bool)
	newest := make(map[string]int64)
	for _, id := range roots {
		sizes := make(map[string]int64) // what is there in this tree
		for e, err := range trees.Walk(t.Context(), s, id) {
			if err != nil {
				t.Fatal(err)
			}
			path, isDir := e.Path, false
			if names := strings.Split(path, "/"); depth > 0 && len(names) > depth {
				path, isDir = strings.Join(names[:depth], "/"), true
			} else if depth > 0 && len(names) == depth && e.Mode.IsDir() {
				isDir = true // also if it is empty
			} else if e.Mode.IsDir() {
				continue
			}
			key := fmt.Sprint(path, isDir)
			if contents[key] == nil {
				contents[key], blobs[key] = make(map[store.ID]cas.Stored), make(map[store.ID]bool)
			}
			rows[key] = PathAmount{Path: path, IsDir: isDir}
			sizes[key] += e.Size
			if !e.Mode.IsDir() {
				blobs[key][e.ID] = true
				needs(t, s, object.Blob, e.ID, contents[key])
			}
		}
		for key, size := range sizes {
			if _, ok := newest[key]; !ok {
				newest[key] = size
			}
		}
	}
	for key, row := range rows {
		row.Versions, row.Size = len(blobs[key]), newest[key]
		row.Amount = amountOf(contents[key], func(store.ID) bool { return true })
		rows[key] = row
	}
	return rows
}

// TestTallyDamage: what is missing or damaged is listed, once, and the rest
// counted.
func TestTallyDamage(t *testing.T) {
	dir := t.TempDir()
	s := reopenStore(t, vfs.OS(dir))
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.Single() // one object is spoilt, and no other
	good := modelDir{"a": "a", "sub": modelDir{"b": "b"}}.put(t, w)
	blob, _ := w.Put(object.Blob, []byte("spoilt"))
	gone := object.Hash(object.Blob, []byte("gone"))
	entries := []tree.Entry{{Name: "gone", Mode: tree.ModeFile | 0o644, Size: 4, ID: gone},
		{Name: "good", Mode: tree.ModeDir | 0o755, ID: good},
		{Name: "lost", Mode: tree.ModeDir | 0o755, ID: gone},
		{Name: "spoilt", Mode: tree.ModeFile | 0o644, Size: 6, ID: blob}}
	bad, err := trees.Put(w, entries)
	if err != nil {
		t.Fatal(err)
	}
	entries[2].ID = object.Hash(object.Tree, []byte("lost"))
	worse, err := trees.Put(w, entries)
	if err == nil {
		err = w.Commit(t.Context(), &store.Snapshot{Tree: worse}, 0)
	}
	if err = errors.Join(err, w.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	spoil(t, dir, blob)
	if s, err = cas.Open(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	tally := NewTally(s)
	for _, id := range []store.ID{worse, bad, worse} {
		if _, err := tally.Add(t.Context(), &store.Snapshot{Tree: id}); err != nil {
			t.Fatal(err)
		}
	}
	paths, err := NewTally(s).Paths(t.Context(), []store.ID{worse}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range tally.Problems() {
		got = append(got, p.Path)
		if !errors.Is(p.Err, store.ErrNotFound) && !errors.Is(p.Err, store.ErrCorrupt) {
			t.Errorf("problem %q: %v", p.Path, p.Err)
		}
	}
	if want := []string{"gone", "lost", "spoilt"}; !slices.Equal(got, want) {
		t.Errorf("problems at %q, want %q: %v", got, want, tally.Problems())
	}
	if n := tally.All().Objects; n != 9 {
		t.Errorf("All() has %d objects, want 9", n)
	}
	if len(paths) != 4 {
		t.Errorf("Paths: %v, want 4", paths)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewTally(s).Add(ctx, &store.Snapshot{Tree: good}); !errors.Is(err, context.Canceled) {
		t.Errorf("Add, cancelled: %v", err)
	}
	if _, err := NewTally(s).Paths(ctx, []store.ID{good}, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("Paths, cancelled: %v", err)
	}
}

// spoil flips a bit in the header of an object's record.
func spoil(t *testing.T, dir string, id store.ID) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "packs", "*.pack"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	b, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	b[bytes.Index(b, id[:])] ^= 1
	if err := os.WriteFile(names[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
}
