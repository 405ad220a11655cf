package manager

import (
	"errors"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A guard lets a plan pass if each file becomes what it was at a moment that was
// named, and nothing else. The plans here are made by hand: whatever makes them
// otherwise is right.
func TestGuard(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	w, err := m.store.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := func(content string, perm tree.Mode) *tree.Entry {
		id, err := w.Put(object.Blob, []byte(content))
		if err != nil {
			t.Fatal(err)
		}
		return &tree.Entry{Mode: tree.ModeFile | perm, Size: int64(len(content)), ID: id}
	}
	treeOf := func(edits ...trees.Edit) store.ID {
		id, err := trees.Patch(t.Context(), m.store, w, store.ID{}, edits)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	one, two, three, exec := file("one", 0o644), file("two", 0o644), file("three", 0o644), file("same", 0o755)
	same, dir := file("same", 0o644), &tree.Entry{Mode: tree.ModeDir | 0o755, ID: trees.Empty}
	a := treeOf(trees.Edit{Path: "f", New: one}, trees.Edit{Path: "kept", New: same},
		trees.Edit{Path: "mode", New: same}, trees.Edit{Path: "gone", New: one}, trees.Edit{Path: "p", New: one})
	z := treeOf(trees.Edit{Path: "f", New: two}, trees.Edit{Path: "kept", New: same},
		trees.Edit{Path: "mode", New: exec}, trees.Edit{Path: "made", New: two}, trees.Edit{Path: "p/q", New: two})
	if err := errors.Join(w.Commit(t.Context(), &store.Snapshot{Session: "trees", Tree: z,
		Base: store.State{Tree: a}}, 0), w.Close()); err != nil {
		t.Fatal(err)
	}

	turn := guard{turns: []guardedTurn{{1, [][2]store.ID{{a, z}}}}}
	undo := guard{undone: &guardedUndo{before: a, after: z}}
	whole := guard{whole: true, target: store.State{Tree: a}}
	put := func(p string, now, new *tree.Entry) rollback.Item {
		return rollback.Item{Path: p, Do: rollback.Restore, Now: now, New: new}
	}
	del := func(p string, now *tree.Entry) rollback.Item {
		return rollback.Item{Path: p, Do: rollback.Delete, Now: now}
	}
	const moment, untouched = "at no moment that was named", "none of the turns"
	mergedTurn := turn
	mergedTurn.merged = map[store.ID]bool{three.ID: true}
	merged := func(p string, e *tree.Entry) rollback.Item {
		it := put(p, two, e)
		it.Merged = true
		return it
	}
	for _, c := range []struct {
		name  string
		guard guard
		items []rollback.Item
		want  string // "": it passes
	}{
		{"back", turn, []rollback.Item{put("f", two, one), put("gone", nil, one), del("made", two),
			put("mode", exec, same)}, ""},
		{"forth", turn, []rollback.Item{put("f", one, two), del("gone", one), put("made", nil, two)}, ""},
		{"another content", turn, []rollback.Item{put("f", two, three)}, moment},
		{"another mode", turn, []rollback.Item{put("f", two, withMode(one, 0o600))}, moment},
		{"deleted, was there at both", turn, []rollback.Item{del("f", two)}, moment},
		{"not changed by the turn", turn, []rollback.Item{put("kept", one, same)}, untouched},
		{"not known to the turn", turn, []rollback.Item{del("user's", three)}, untouched},
		{"left alone, whatever it would be", turn,
			[]rollback.Item{{Path: "user's", Do: rollback.Skipped, Now: three, New: one},
				{Path: "kept", Do: livedir.Nothing, Now: three}}, ""},
		{"directory", turn, []rollback.Item{put("d", nil, dir), del("e", dir),
			{Path: "up", Do: rollback.Restore, New: dir, Parent: true}}, ""},
		{"no turn", guard{}, []rollback.Item{put("f", two, one)}, untouched},
		{"deleted, and wanted", turn, []rollback.Item{{Path: "f", Do: rollback.Delete, Now: two, New: one}},
			"would be deleted though something is wanted there"},
		{"below a file", turn, []rollback.Item{put("p", nil, one), put("p/q", nil, two)}, `would be written below "p", which is to be a file`},
		{"instead of a file", turn, []rollback.Item{del("p", one), put("p/q", nil, two)}, ""},
		{"undo", undo, []rollback.Item{put("f", two, one), del("made", two), put("gone", nil, one)}, ""},
		{"undo that brings what was taken back", undo, []rollback.Item{put("f", one, two)}, moment},
		{"undo that leaves out what was there before", undo, []rollback.Item{del("gone", one)}, moment},
		{"whole", whole, []rollback.Item{put("f", three, one), del("user's", three), put("kept", three, same)}, ""},
		{"whole, another content", whole, []rollback.Item{put("f", three, two)}, moment},
		{"whole, deleted", whole, []rollback.Item{del("kept", three)}, moment},
		{"whole, what the target has not", whole, []rollback.Item{put("made", nil, two)}, moment},
		{"merged", mergedTurn, []rollback.Item{merged("f", three)}, ""},
		{"merged, a text that was not looked at", turn, []rollback.Item{merged("f", three)}, moment},
		{"merged, not changed by the turn", mergedTurn, []rollback.Item{merged("kept", three)}, untouched},
		{"a text that was merged elsewhere", mergedTurn, []rollback.Item{put("f", two, three)}, moment},
	} {
		gd := c.guard
		gd.ctx, gd.g = t.Context(), m.store
		wantWrong(t, c.name, gd.check(&livedir.Plan{Items: c.items}), c.want)
	}

	gd := &guard{ctx: t.Context(), g: m.store}
	const into = `would be written into "d", which is not there and is not made`
	for _, c := range []struct {
		name string
		dir  rollback.Item
		made []livedir.Made
		want string
	}{
		{"made", put("d", nil, dir), nil, ""},
		{"there", rollback.Item{Path: "d", Do: livedir.Nothing, Now: dir, New: dir}, nil, ""},
		{"listed", rollback.Item{Path: "d", Do: livedir.Nothing},
			[]livedir.Made{{Path: "d", Mode: tree.ModeDir | 0o755}}, ""},
		{"left", rollback.Item{Path: "d", Do: rollback.Skipped, New: dir}, nil, into},
		{"not to be there", rollback.Item{Path: "d", Do: livedir.Nothing}, []livedir.Made{{Path: "other"}}, into},
	} {
		plan := &livedir.Plan{Items: []rollback.Item{c.dir, put("d/f", nil, one), put("g", nil, one)}, Made: c.made}
		wantWrong(t, "directory "+c.name, gd.listed(plan), c.want)
	}
}

// withMode returns a file with other permission bits.
func withMode(e *tree.Entry, perm tree.Mode) *tree.Entry {
	f := *e
	f.Mode = tree.ModeFile | perm
	return &f
}

func wantWrong(t *testing.T, name string, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" &&
		(err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "internal error: ")) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}

// Whatever finds out what a restore is to do, and is wrong, changes nothing: the
// guard stands before the first change, and before any record.
func TestGuardStands(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("user", "user")
	b.initialize(m)
	b.turn(m, func() { b.write("agent", "agent") })
	head, err := m.records.Newest("s")
	if err != nil {
		t.Fatal(err)
	}
	before := b.files()
	for _, preview := range []bool{true, false} {
		x := &restore{m: m, asked: asked{opts: RestoreOptions{OnDirty: rollback.Overwrite, Preview: preview}}}
		_, err = x.run(t.Context(), func() error { // deletes what no turn has made
			x.tip = head
			x.about = []*record{head}
			x.wants = []livedir.Want{{Path: "agent", Created: true}, {Path: "user", Created: true}}
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), `internal error: "user"`) {
			t.Errorf("preview %v: %v, want an internal error", preview, err)
		}
		b.expectFiles(before)
		if now, err := m.records.Newest("s"); err != nil || now.Seq != head.Seq {
			t.Errorf("preview %v: something is on record: %+v, %v", preview, now, err)
		}
	}
}
