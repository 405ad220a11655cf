package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// Two sessions work in one directory while the user edits in between.
func TestTwoSessions(t *testing.T) {
	b := newBench(t)
	b.write("shared.txt", "0")
	b.write("user.txt", "0")
	one, two := b.open("one"), b.open("two")
	b.initialize(one)
	b.initialize(two)

	// Apart, by shell.
	b.turn(one, func() { b.write("one.txt", "1") })
	b.write("user.txt", "1")
	b.turn(two, func() { b.write("two.txt", "1"); b.write("shared.txt", "2") })

	// Overlapping: what is claimed is told apart, the rest is not.
	b.start(one)
	b.write("alone-one.txt", "before two began")
	b.start(two)
	b.write("edit-one.txt", "1")
	if err := one.Claim(t.Context(), filepath.Join(b.dir, "edit-one.txt")); err != nil {
		t.Fatal(err)
	}
	if err := two.Claim(t.Context(), "edit-two.txt", "both.txt"); err != nil {
		t.Fatal(err)
	}
	if err := one.Claim(t.Context(), "both.txt"); err != nil {
		t.Fatal(err)
	}
	b.write("edit-two.txt", "2")
	b.write("both.txt", "?")
	b.write("shell.txt", "?")
	b.end(one)
	b.write("alone-two.txt", "after one ended")
	b.end(two)
	b.write("user.txt", "2")
	b.turn(one, func() { b.write("one.txt", "2") })

	for _, test := range []struct {
		m    *FileSnapshotManager
		want map[string]string
	}{
		{one, map[string]string{"one.txt": "added turn", "alone-one.txt": "added turn", "edit-one.txt": "added claimed",
			"both.txt": "added contested", "shell.txt": "added contested"}},
		{two, map[string]string{"two.txt": "added turn", "shared.txt": "modified turn", "alone-two.txt": "added turn",
			"edit-two.txt": "added claimed", "both.txt": "added contested", "shell.txt": "added contested"}},
	} {
		if d := cmp.Diff(test.want, brief(b.modified(test.m, nil))); d != "" {
			t.Errorf("session %s (-want +got):\n%s", test.m.Session(), d)
		}
	}
	got := brief(b.modified(one, &Range{Foreign: true}))
	for path, want := range map[string]string{"user.txt": "modified offline", "two.txt": "added other",
		"alone-two.txt": "added other"} {
		if got[path] != want {
			t.Errorf("with those of others %s is %q, want %q", path, got[path], want)
		}
	}
	diff, err := one.FileDiff(t.Context(), &FileRange{Path: "one.txt", From: "turn:0"})
	if err != nil || *diff.OldContent != "1" || *diff.NewContent != "2" {
		t.Errorf("FileDiff = %+v, %v", diff, err)
	}
}

// With tool windows, what changes between tools is the user's.
func TestToolWindows(t *testing.T) {
	b := newBench(t)
	m := b.open("s", func(o *Options) { o.ToolWindows = true })
	b.initialize(m)
	ctx := t.Context()
	if _, err := m.OnToolStart(ctx, "early"); !errors.Is(err, ErrNoTurn) {
		t.Errorf("OnToolStart outside of a turn: %v, want ErrNoTurn", err)
	}
	b.start(m)
	b.write("thinking.txt", "the user's")
	tool := func(name string, fn func()) {
		t.Helper()
		if _, err := m.OnToolStart(ctx, name); err != nil {
			t.Fatal(err)
		}
		fn()
		if _, err := m.OnToolEnd(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	tool("1", func() { b.write("a.txt", "agent") })
	b.write("a.txt", "user")
	b.write("between.txt", "the user's")
	tool("2", func() {
		tool("3", func() { b.write("b.txt", "agent") })
		b.write("c.txt", "agent")
	})
	if _, err := m.OnToolEnd(ctx, "2"); err == nil {
		t.Error("a tool ended twice")
	}
	b.write("late.txt", "the user's")
	r := b.end(m)
	want := &Diff{Added: []string{"a.txt", "b.txt", "c.txt"}, Modified: []string{}, Deleted: []string{}}
	if d := cmp.Diff(want, r.Data.Diff); d != "" {
		t.Errorf("diff (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"late.txt"}, r.Offline.Added); d != "" {
		t.Errorf("offline (-want +got):\n%s", d)
	}
	rows := brief(b.modified(m, &Range{Foreign: true}))
	for _, path := range []string{"thinking.txt", "between.txt", "late.txt"} {
		if rows[path] != "added offline" {
			t.Errorf("%s is %q, want added offline", path, rows[path])
		}
	}
}

// What changes while tools are announced that never run is the user's, unless
// another runs.
func TestToolsRefused(t *testing.T) {
	b := newBench(t)
	m := b.open("s", func(o *Options) { o.ToolWindows = true })
	b.initialize(m)
	ctx := t.Context()
	if _, err := m.OnToolsRefused(ctx, "early"); !errors.Is(err, ErrNoTurn) {
		t.Errorf("OnToolsRefused outside of a turn: %v, want ErrNoTurn", err)
	}
	b.start(m)
	start := func(tools ...string) {
		t.Helper()
		for _, name := range tools {
			if _, err := m.OnToolStart(ctx, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	refuse := func(left int, tools ...string) {
		t.Helper()
		if _, err := m.OnToolsRefused(ctx, tools...); err != nil {
			t.Fatal(err)
		}
		if open, err := inside.Of(m).OpenTurn(); err != nil || open == nil || len(open.Tools) != left {
			t.Errorf("OpenTurn = %+v, %v, want %d tools", open, err, left)
		}
	}
	start("1", "2")
	b.write("mine.txt", "the user's")
	refuse(0, "1", "2", "3")
	start("4", "5")
	b.write("agent.txt", "agent")
	refuse(1, "4")
	if _, err := m.OnToolEnd(ctx, "5"); err != nil {
		t.Fatal(err)
	}
	r := b.end(m)
	want := &Diff{Added: []string{"agent.txt"}, Modified: []string{}, Deleted: []string{}}
	if d := cmp.Diff(want, r.Data.Diff); d != "" {
		t.Errorf("diff (-want +got):\n%s", d)
	}
	if rows := brief(b.modified(m, &Range{Foreign: true})); rows["mine.txt"] != "added offline" {
		t.Errorf("mine.txt is %q, want added offline", rows["mine.txt"])
	}
	b.start(m)
	start("6")
	b.write("more.txt", "the user's")
	refuse(0, "6")
	b.end(m)
	for mo, err := range m.Timeline(ctx) {
		own, _, cerr := mo.Changes(ctx)
		if err := errors.Join(err, cerr); err != nil || mo.Kind != "empty" || len(own.Added) > 0 {
			t.Errorf("%s: a turn in which the user wrote has changed %+v (%v)", mo.Kind, own, err)
		}
		break // at the newest
	}
}

// Behind a restore to the end of a turn the files stand as that has left them, and not as the turn
// did, which had what the user had put there.
func TestModifiedBehindRestore(t *testing.T) {
	b := newBench(t)
	m := b.open("s", func(o *Options) { o.ToolWindows = true })
	b.initialize(m)
	b.turn(m, func() { b.tool(m, "one", func() { b.write("a", "turn"); b.write("b", "turn") }) })
	b.turn(m, func() {
		b.tool(m, "one", func() { b.remove("a") })
		b.write("a", "user")
	})
	for _, target := range []string{"start", "turn:1"} {
		b.restore(m, &RestoreOptions{Target: target, OnDirty: rollback.Overwrite})
	}
	b.expectFiles(files{"b": "turn"})
	if d := cmp.Diff(map[string]string{"b": "added turn"}, brief(b.modified(m, nil))); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
	if d, err := m.FileDiff(t.Context(), &FileRange{Path: "a"}); err != nil || d != nil {
		t.Errorf("a was not there, and is not: %+v, %v", d, err)
	}
}

// What changes while a session is not there is the user's, and kept before a
// turn overwrites it.
func TestOffline(t *testing.T) {
	b := newBench(t)
	b.write("a.txt", "0")
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("a.txt", "agent") })
	b.write("a.txt", "the user's")
	again := b.open("s")
	r := b.initialize(again)
	if d := cmp.Diff(&Diff{Added: []string{}, Modified: []string{"a.txt"}, Deleted: []string{}}, r.Offline); d != "" {
		t.Errorf("offline (-want +got):\n%s", d)
	}
	b.turn(again, func() { b.write("a.txt", "agent again") })
	id := object.Hash(object.Blob, []byte("the user's"))
	if got, err := again.store.Get(t.Context(), object.Blob, id); err != nil || string(got) != "the user's" {
		t.Errorf("what the user wrote: %q, %v", got, err)
	}
	s, err := again.SnapshotAtTurn(t.Context(), 1)
	if err != nil || *s.BaselineTreeHash != r.Tree {
		t.Errorf("SnapshotAtTurn(1) = %+v, %v; want the baseline %s that was found", s, err, r.Tree)
	}
}

// A turn whose process is gone is closed when its session goes on; what it
// claimed is its own, the rest is contested.
func TestInterruptedTurn(t *testing.T) {
	b := newBench(t)
	dead, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	other := b.open("other")
	b.initialize(other)
	b.initialize(dead)
	b.start(dead)
	b.write("shell.txt", "?")
	b.write("edit.txt", "agent")
	if err := dead.Claim(t.Context(), "edit.txt"); err != nil {
		t.Fatal(err)
	}
	if err := dead.Close(); err != nil { // as at its death: the lock is free
		t.Fatal(err)
	}
	// Nobody knows when it died, so it is at fault until somebody looks.
	if id := b.turn(other, func() { b.write("other.txt", "other") }); id == "" {
		t.Error("the other session's turn has no step")
	}
	b.turn(other, func() { b.write("later.txt", "other") })

	again := b.open("s")
	var told []*StepSnapshotData
	tell := func(_ context.Context, d *StepSnapshotData) (string, error) {
		told = append(told, d)
		return "", nil
	}
	b.start(again)
	b.write("own.txt", "agent")
	if _, err := again.OnTurnEnd(t.Context(), tell); err != nil {
		t.Fatal(err)
	}
	if len(told) != 2 || !told[0].Interrupted || told[1].Interrupted {
		t.Fatalf("the runtime was told %+v, want an interrupted turn and one", told)
	}
	want := map[string]string{"shell.txt": "added contested", "edit.txt": "added claimed", "own.txt": "added turn"}
	if d := cmp.Diff(want, brief(b.modified(again, nil))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	want = map[string]string{"other.txt": "added turn", "later.txt": "added turn"}
	if d := cmp.Diff(want, brief(b.modified(other, nil))); d != "" {
		t.Errorf("other session (-want +got):\n%s", d)
	}
}

// A turn that is open elsewhere is not taken over.
func TestTurnOpenElsewhere(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	b.start(m)
	again := b.open("s")
	if _, err := again.OnTurnStart(t.Context(), nil); !errors.Is(err, ErrTurnOpen) {
		t.Errorf("OnTurnStart while the turn is open elsewhere: %v, want ErrTurnOpen", err)
	}
	b.end(m)
	b.start(again)
	b.end(again)
}

// An engine closes the session of a client that was killed a moment later than the
// client's successor may ask for a turn.
func TestTurnOpenForAMoment(t *testing.T) {
	b := newBench(t)
	m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"}) // which is closed below
	if err != nil {
		t.Fatal(err)
	}
	b.initialize(m)
	b.start(m)
	b.write("a.txt", "agent")
	again := b.open("s")
	closed := make(chan error)
	go func() {
		time.Sleep(50 * time.Millisecond)
		closed <- m.Close()
	}()
	b.start(again)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	b.write("b.txt", "agent")
	b.end(again)
	want := map[string]string{"a.txt": "added contested", "b.txt": "added turn"}
	if d := cmp.Diff(want, brief(b.modified(again, nil))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A detached turn may end in another process.
func TestDetached(t *testing.T) {
	b := newBench(t)
	detached := func(o *Options) { o.Detached, o.ToolWindows = true, true }
	b.initialize(b.open("s", detached))
	b.start(b.open("s", detached))
	if _, err := b.open("s", detached).OnToolStart(t.Context(), "bash"); err != nil {
		t.Fatal(err)
	}
	b.write("a.txt", "agent")
	if _, err := b.open("s", detached).OnToolEnd(t.Context(), "bash"); err != nil {
		t.Fatal(err)
	}
	if r := b.end(b.open("s", detached)); r.Data == nil || len(r.Data.Diff.Added) != 1 {
		t.Errorf("OnTurnEnd = %+v", r)
	}
}

// What the runtime's callback returns does not decide what is kept.
func TestAppendCallback(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	var told []*StepSnapshotData
	fail := errors.New("the log is full")
	callback := func(id string, err error) AppendFunc {
		return func(_ context.Context, d *StepSnapshotData) (string, error) {
			if err == nil {
				told = append(told, d)
			}
			return id, err
		}
	}
	b.write("a", "1")
	r, err := m.OnTurnEnd(t.Context(), callback("", fail))
	if !errors.Is(err, fail) || r == nil || r.Data == nil {
		t.Fatalf("OnTurnEnd with an error of the callback = %+v, %v", r, err)
	}
	if s, err := m.SnapshotAtTurn(t.Context(), 0); err != nil || s.SnapshotTreeHash != r.Tree {
		t.Errorf("the step is not there: %+v, %v", s, err)
	}
	b.write("a", "2")
	if _, err := m.OnTurnEnd(t.Context(), callback("", nil)); err != nil { // offers both
		t.Fatal(err)
	}
	b.write("a", "3")
	if r, err = m.OnTurnEnd(t.Context(), callback("third", nil)); err != nil || r.EntryID != "third" {
		t.Fatal(r, err)
	}
	if len(told) != 3 || told[0].TurnIndex != 0 || told[1].TurnIndex != 1 || told[2].TurnIndex != 2 {
		t.Errorf("the runtime was told %+v, want three turns", told)
	}
	// A runtime that knows no IDs gives its log back.
	log := session.NewTree()
	for i, d := range told {
		id := []string{"first", "second", "third"}[i]
		log.Add(session.Entry{ID: id, ParentID: log.Leaf(), Type: "custom",
			CustomType: sessionlog.StepSnapshot, Data: encode(d)})
	}
	again := b.open("s")
	if err := again.RebuildIndex(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	// And then the records alone know it.
	fresh := b.open("s")
	for i, id := range []string{"first", "second", "third"} {
		for _, m := range []*FileSnapshotManager{again, fresh} {
			if s, err := m.SnapshotAtEntry(t.Context(), id); err != nil || s.TurnIndex != i {
				t.Errorf("SnapshotAtEntry(%s) = %+v, %v; want turn %d", id, s, err, i)
			}
		}
	}
}

// A fork has a copy of its parent's log, and goes its own way.
func TestFork(t *testing.T) {
	b := newBench(t)
	b.write("a", "0")
	b.log = session.NewTree()
	parent := b.open("parent")
	b.initialize(parent)
	b.message("user")
	first := b.turn(parent, func() { b.write("a", "1") })
	user := b.message("user")
	second := b.turn(parent, func() { b.write("b", "2") })
	parentLog := b.log

	// pi copies the path to the entry that was forked from.
	path, err := parentLog.Path(user)
	if err != nil {
		t.Fatal(err)
	}
	b.log = session.NewTree()
	for _, e := range path {
		b.log.Add(*e)
	}
	fork := b.open("fork")
	if err := fork.RebuildIndex(t.Context(), b.log); err != nil {
		t.Fatal(err)
	}
	b.initialize(fork)
	own := b.turn(fork, func() { b.write("c", "3") })
	want := map[string]string{"a": "modified turn", "c": "added turn"}
	if d := cmp.Diff(want, brief(b.modified(fork, nil))); d != "" {
		t.Errorf("fork (-want +got):\n%s", d)
	}
	if s, err := fork.SnapshotAtEntry(t.Context(), own); err != nil || s.TurnIndex != 1 {
		t.Errorf("the fork's own turn is %+v, %v; want turn 1", s, err)
	}
	if s, err := fork.SnapshotAtEntry(t.Context(), first); err != nil || s.TurnIndex != 0 {
		t.Errorf("the copied turn is %+v, %v", s, err)
	}
	if _, err := fork.SnapshotAtEntry(t.Context(), second); !errors.Is(err, ErrOtherSession) {
		t.Errorf("a turn of the parent after the fork: %v, want ErrOtherSession", err)
	}
	if err := parent.RebuildIndex(t.Context(), parentLog); err != nil {
		t.Fatal(err)
	}
	want = map[string]string{"a": "modified turn", "b": "added turn"}
	if d := cmp.Diff(want, brief(b.modified(parent, nil))); d != "" {
		t.Errorf("parent (-want +got):\n%s", d)
	}

	// The fork's record names all that it needs for itself.
	pinned := make(map[store.ID]bool)
	for s, err := range fork.store.Snapshots(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Session != "fork" {
			continue
		}
		for _, state := range append(s.Also, s.State(), s.Base) {
			pinned[state.Tree] = true
		}
	}
	for _, id := range []string{first, own} {
		s, err := fork.SnapshotAtEntry(t.Context(), id)
		if err != nil || !pinned[s.SnapshotTreeHash] || !pinned[*s.BaselineTreeHash] {
			t.Errorf("entry %s: its trees are not pinned for the fork: %v", id, err)
		}
	}
}

// Without the runtime's log the records lead the way, across branches too.
func TestRecordsAlone(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.open("s")
	b.initialize(m)
	if err := m.RebuildIndex(t.Context(), b.log); err != nil {
		t.Fatal(err)
	}
	b.message("user")
	fork := b.turn(m, func() { b.write("a", "1") })
	left := b.turn(m, func() { b.write("b", "2") })
	if err := b.log.SetLeaf(fork); err != nil {
		t.Fatal(err)
	}
	b.message("user")
	right := b.turn(m, func() { b.write("c", "3"); b.remove("b") })

	fresh := b.open("s")
	want := map[string]string{"a": "added turn", "c": "added turn"}
	if d := cmp.Diff(want, brief(b.modified(fresh, nil))); d != "" {
		t.Errorf("start to leaf (-want +got):\n%s", d)
	}
	want = map[string]string{"b": "deleted turn", "c": "added turn"}
	if d := cmp.Diff(want, brief(b.modified(fresh, &Range{From: left, To: right}))); d != "" {
		t.Errorf("branch to branch (-want +got):\n%s", d)
	}
	var turns []int
	for mo, err := range fresh.Timeline(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		turns = append(turns, mo.TurnIndex)
	}
	if d := cmp.Diff([]int{2, 1, 0, -1}, turns); d != "" {
		t.Errorf("timeline (-want +got):\n%s", d)
	}
}

// Each of these a runtime's incumbent gets wrong.
func TestIncumbentBugs(t *testing.T) {
	t.Run("contents whose 32-bit hashes collide", func(t *testing.T) {
		b := newBench(t)
		b.write("one", "token=00721f84\n")
		b.write("two", "token=8564b520\n")
		m := b.open("s")
		r := b.initialize(m)
		for name, want := range map[string]string{"one": "token=00721f84\n", "two": "token=8564b520\n"} {
			e, err := trees.Lookup(t.Context(), m.store, r.Tree, name)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := m.store.Get(t.Context(), object.Blob, e.ID); err != nil || string(got) != want {
				t.Errorf("%s is %q, %v; want %q", name, got, err, want)
			}
		}
	})
	t.Run("bytes that are not UTF-8", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("names of Windows are Unicode")
		}
		b := newBench(t)
		b.write("bin", "\xff\xfe\x00\x01\x80")
		b.write("na\xffme", "1")
		m := b.open("s")
		b.initialize(m)
		b.turn(m, func() { b.write("bin", "\xff\xfe\x00\x01\x81"); b.write("na\xffme", "2") })
		d, err := m.FileDiff(t.Context(), &FileRange{Path: "bin", Bytes: true})
		if err != nil || string(d.OldBytes) != "\xff\xfe\x00\x01\x80" || string(d.NewBytes) != "\xff\xfe\x00\x01\x81" ||
			!d.Binary || d.NewContent != nil {
			t.Errorf("FileDiff = %+v, %v", d, err)
		}
		rows := b.modified(m, nil)
		if len(rows) != 2 || string(rows[1].PathBytes) != "na\xffme" {
			t.Errorf("rows = %+v", rows)
		}
	})
	t.Run("turn numbers that begin anew with each prompt", func(t *testing.T) {
		b := newBench(t)
		m := b.open("s")
		b.initialize(m)
		var ids []string
		for i, runtime := range []int{0, 1, 0, 0} {
			if _, err := m.OnTurnStart(t.Context(), &Turn{RuntimeIndex: &runtime}); err != nil {
				t.Fatal(err)
			}
			b.write("a", strings.Repeat("x", i))
			r := b.end(m)
			if r.Data.TurnIndex != i || *r.Data.RuntimeTurnIndex != runtime {
				t.Errorf("turn %d: data %+v", i, r.Data)
			}
			ids = append(ids, r.EntryID)
		}
		for i, id := range ids {
			if s, err := m.SnapshotAtTurn(t.Context(), i); err != nil || s.EntryID != id {
				t.Errorf("SnapshotAtTurn(%d) = %+v, %v; want %s", i, s, err, id)
			}
		}
	})
	t.Run("added, then deleted", func(t *testing.T) {
		b := newBench(t)
		m := b.open("s")
		b.initialize(m)
		b.turn(m, func() { b.write("a", "1") })
		b.turn(m, func() { b.remove("a") })
		if got := b.modified(m, nil); len(got) != 0 {
			t.Errorf("ModifiedFiles = %+v, want none", got)
		}
	})
	t.Run("order that does not depend on a locale", func(t *testing.T) {
		b := newBench(t)
		m := b.open("s")
		b.initialize(m)
		b.turn(m, func() {
			for _, name := range []string{"b", "C", "a", "_", "ä", "Z", "y"} {
				b.write(name, name)
			}
		})
		var got []string
		for _, row := range b.modified(m, nil) {
			got = append(got, row.Path)
		}
		if d := cmp.Diff([]string{"C", "Z", "_", "a", "b", "y", "ä"}, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
	t.Run("one line inserted is one line of a diff", func(t *testing.T) {
		b := newBench(t)
		b.write("a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
		m := b.open("s")
		b.initialize(m)
		b.turn(m, func() { b.write("a", "1\nnew\n2\n3\n4\n5\n6\n7\n8\n9\n") })
		d, err := m.FileDiff(t.Context(), &FileRange{Path: "a"})
		want := "--- a\n+++ a\n@@ -1,4 +1,5 @@\n 1\n+new\n 2\n 3\n 4\n"
		if err != nil || d.UnifiedDiff != want {
			t.Errorf("FileDiff = %q, %v; want %q", d.UnifiedDiff, err, want)
		}
	})
	t.Run("an empty directory is not an unknown one", func(t *testing.T) {
		b := newBench(t)
		m := b.open("s")
		b.initialize(m)
		id := b.turn(m, func() { b.write("a", "1") })
		s, err := m.SnapshotAtEntry(t.Context(), id)
		if err != nil || *s.BaselineTreeHash != trees.Empty {
			t.Errorf("baseline of the first turn in an empty directory is %v, %v", s.BaselineTreeHash, err)
		}
		if _, err := m.SnapshotAtEntry(t.Context(), "ffffffff"); !errors.Is(err, ErrUnknown) {
			t.Errorf("unknown entry: %v", err)
		}
	})
}

// Bad input is an error that says what is wrong, and nothing is written.
func TestBadInput(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	id := b.turn(m, func() { b.write("a", "1") })
	other := b.open("other")
	b.initialize(other)
	before := snapshotCount(t, m.store)

	for name, test := range map[string]struct {
		call func() error
		want error
		says string
	}{
		"unknown entry":            {func() error { _, err := m.ModifiedFiles(t.Context(), &Range{From: "nope"}); return err }, ErrUnknown, `"nope"`},
		"entry of another session": {func() error { _, err := other.ModifiedFiles(t.Context(), &Range{From: id}); return err }, ErrOtherSession, `"s"`},
		"path outside":             {func() error { _, err := m.FileDiff(t.Context(), &FileRange{Path: "../x"}); return err }, ErrOutside, `"../x"`},
		"absolute path outside": {func() error {
			return m.Claim(t.Context(), "/etc/passwd")
		}, ErrOutside, "/etc/passwd"},
		"claim without a turn": {func() error { return m.Claim(t.Context(), "a") }, ErrNoTurn, ""},
		"turn that never was": {func() error {
			_, err := m.SnapshotAtTurn(t.Context(), 1)
			return err
		}, ErrUnknown, "turn 0 only so far"},
		"cursor of nobody":           {func() error { _, err := m.ModifiedFiles(t.Context(), &Range{Cursor: "?"}); return err }, nil, `"?"`},
		"a session's name is a path": {func() error { return inside.Of(m).UseSession("../x") }, nil, `"../x"`},
	} {
		err := test.call()
		if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %v that says %s", name, err, test.want, test.says)
		}
	}
	if got := snapshotCount(t, m.store); got != before {
		t.Errorf("%d snapshots became %d", before, got)
	}
}

func snapshotCount(t *testing.T, s *cas.Store) int {
	t.Helper()
	n := 0
	for _, err := range s.Snapshots(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// A session file that is not what it should be.
func TestBadSessionFile(t *testing.T) {
	b := newBench(t)
	good, err := os.ReadFile("../testdata/sessions/pi-1.5.2/main.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	maker := b.open("maker")
	b.initialize(maker)
	file := filepath.Join(t.TempDir(), "session.jsonl")
	open := func(content []byte) (*FileSnapshotManager, error) {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s", SessionFile: file, ReadOnly: true})
	}
	for name, content := range map[string]string{"empty": "", "not JSON": "hello\n",
		"another format": "{\"type\":\"other\"}\n", "newer": "{\"type\":\"session\",\"version\":4,\"id\":\"x\"}\n"} {
		if _, err := open([]byte(content)); !errors.Is(err, sessionlog.ErrFormat) ||
			!strings.Contains(err.Error(), strconv.Quote(file)) {
			t.Errorf("%s: %v, want ErrFormat that names the file", name, err)
		}
	}
	m, err := open(good)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := os.WriteFile(file, good[:len(good)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Resolve(t.Context(), "@"); !errors.Is(err, sessionlog.ErrRewritten) {
		t.Errorf("truncated: %v, want ErrRewritten", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Resolve(t.Context(), "@"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("vanished: %v, want fs.ErrNotExist", err)
	}
	cycle := `{"type":"session","version":3,"id":"x","timestamp":"2026-11-21T00:00:00.000Z","cwd":"/tmp"}
{"type":"message","id":"a","parentId":"b","message":{"role":"user"}}
{"type":"message","id":"b","parentId":"a","message":{"role":"user"}}
`
	m2, err := open([]byte(cycle))
	if err != nil {
		t.Fatal(err)
	}
	defer m2.Close()
	for _, rev := range []string{"@", "a", "start", "turn:0"} {
		if _, err := m2.Resolve(t.Context(), rev); !errors.Is(err, session.ErrCycle) {
			t.Errorf("Resolve(%q) in a cycle: %v, want ErrCycle", rev, err)
		}
	}
}

// Our own log of a session is one that pi could read. It is written when somebody asks,
// and complete then, whatever there was of it: nothing, the log of before, or one with a
// torn line, as older programs left it. What no record has stays in it.
func TestOwnLog(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	var ids []string
	for _, content := range []string{"1", "2", "3"} {
		ids = append(ids, b.turn(m, func() { b.write("a", content) }))
	}
	name := filepath.Join(m.StoreDir(), "worktrees", m.Project().Worktree, "sessions", "s.jsonl")
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a log that nobody asked for: %v", err)
	}
	check := func() {
		t.Helper()
		if got, err := inside.Of(m).ExportLog(t.Context()); err != nil || got != name {
			t.Fatalf("ExportLog = %q, %v, want %q", got, err, name)
		}
		file, err := sessionlog.OpenFile(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		path, err := file.Tree().Path(file.Tree().Leaf())
		if err != nil || len(path) != len(ids) {
			t.Fatalf("own log has %d entries on its path, %v; want %d", len(path), err, len(ids))
		}
		for i, e := range path {
			d := new(StepSnapshotData)
			if err := json.Unmarshal(e.Data, d); err != nil || e.ID != ids[i] || d.TurnIndex != i {
				t.Errorf("entry %d: %s %+v, %v; want %s", i, e.ID, d, err, ids[i])
			}
		}
	}
	check()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	again := b.open("s")
	ids = append(ids, b.turn(again, func() { b.write("a", "4") }))
	check()
	before, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, append(before, `{"type":"cus`...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	ids = append(ids, b.turn(again, func() { b.write("a", "5") }))
	check()
	if after, err := os.ReadFile(name); err != nil || !bytes.HasPrefix(after, before) {
		t.Errorf("the log was %s and is %s, %v", before, after, err)
	}
	nav, err := m.NavigateTree(t.Context(), ids[1], &NavigateOptions{Summarize: true, Summary: "left"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inside.Of(m).ExportLog(t.Context()); err != nil {
		t.Fatal(err)
	}
	file, err := sessionlog.OpenFile(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	e, ok := file.Tree().Entry(nav.SummaryID)
	if !ok || e.Summary != "left" || e.FromID != ids[4] || e.ParentID != ids[1] {
		t.Errorf("the summary of what was left is %+v", e)
	}
}

// A file of open turns that a power cut has spoiled makes nothing anybody's.
func TestSpoiltTurns(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	name := filepath.Join(m.StoreDir(), "worktrees", m.Project().Worktree, "turns")
	if err := os.WriteFile(name, []byte(`{"v":1,"op`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.write("whose.txt", "?")
	r := b.start(m)
	if r.Offline != nil {
		t.Errorf("what changed while nobody knows who was at work is %+v offline", r.Offline)
	}
	b.write("mine.txt", "1")
	r = b.end(m)
	if d := cmp.Diff(&Diff{Added: []string{"mine.txt"}, Modified: []string{}, Deleted: []string{}},
		r.Data.Diff); d != "" || r.Data.Contested != nil {
		t.Errorf("turn (-want +got):\n%s%+v", d, r.Data.Contested)
	}
}

// A process that dies between the record of a step and that of the turn's end
// has ended the turn.
func TestTurnEndedTwice(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	b.start(m)
	b.write("a", "1")
	name := filepath.Join(m.StoreDir(), "worktrees", m.Project().Worktree, "turns")
	open, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	id := b.end(m).EntryID
	if err := os.WriteFile(name, open, 0o600); err != nil {
		t.Fatal(err)
	}
	again := b.open("s")
	b.turn(again, func() { b.write("b", "2") })
	want := map[string]string{"a": "added turn", "b": "added turn"}
	if d := cmp.Diff(want, brief(b.modified(again, nil))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if p, err := again.Resolve(t.Context(), "@~1"); err != nil || p.EntryID != id {
		t.Errorf("the step before the last is %+v, %v; want %s", p, err, id)
	}
}
