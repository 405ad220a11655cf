package manager

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/session"
)

// The cases that runtimes know FileSnapshotManager by, under their names.
func TestFileSnapshotManager(t *testing.T) {
	t.Run("initializes with working dir snapshot", func(t *testing.T) {
		b := newBench(t)
		b.write("a.txt", "one\n")
		m := b.open("s")
		r := b.initialize(m)
		p, err := m.Resolve(t.Context(), "start")
		if err != nil || p.State.Tree != r.Tree || r.Snapshot == nil {
			t.Errorf("start is %v, %v; want tree %s", p, err, r.Tree)
		}
	})
	t.Run("skips snapshot when no changes", func(t *testing.T) {
		b := newBench(t)
		b.write("a.txt", "one\n")
		m := b.open("s")
		b.initialize(m)
		b.start(m)
		r, err := m.OnTurnEnd(t.Context(), func(context.Context, *StepSnapshotData) (string, error) {
			t.Error("an entry was appended")
			return "", nil
		})
		if err != nil || r.Data != nil || r.Snapshot != nil {
			t.Errorf("OnTurnEnd = %+v, %v; want no data", r, err)
		}
	})
	for name, test := range map[string]struct {
		change func(b *bench)
		want   *Diff
	}{
		"creates snapshot on file change": {func(b *bench) { b.write("a.txt", "two\n") },
			&Diff{Added: []string{}, Modified: []string{"a.txt"}, Deleted: []string{}}},
		"creates snapshot on file add": {func(b *bench) { b.write("b.txt", "") },
			&Diff{Added: []string{"b.txt"}, Modified: []string{}, Deleted: []string{}}},
		"creates snapshot on file delete": {func(b *bench) { b.remove("a.txt") },
			&Diff{Added: []string{}, Modified: []string{}, Deleted: []string{"a.txt"}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("a.txt", "one\n")
			m := b.open("s")
			start := b.initialize(m)
			b.start(m)
			test.change(b)
			var got *StepSnapshotData
			r, err := m.OnTurnEnd(t.Context(), func(_ context.Context, d *StepSnapshotData) (string, error) {
				got = d
				return "e1", nil
			})
			if err != nil || r.EntryID != "e1" {
				t.Fatal(r, err)
			}
			want := &StepSnapshotData{BaselineTreeHash: &start.Tree, SnapshotTreeHash: r.Tree,
				Diff: test.want, SnapshotSeq: 2}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("data (-want +got):\n%s", d)
			}
		})
	}
	t.Run("gets snapshot at turn index", func(t *testing.T) {
		b := newBench(t)
		m := b.open("s")
		b.initialize(m)
		first := b.turn(m, func() { b.write("a", "1") })
		b.turn(m, func() {})
		third := b.turn(m, func() { b.write("a", "2") })
		for n, want := range []string{first, first, third} {
			if s, err := m.SnapshotAtTurn(t.Context(), n); err != nil || s.EntryID != want {
				t.Errorf("SnapshotAtTurn(%d) = %+v, %v; want entry %s", n, s, err, want)
			}
		}
		for _, n := range []int{-1, 3} {
			if s, err := m.SnapshotAtTurn(t.Context(), n); !errors.Is(err, ErrUnknown) {
				t.Errorf("SnapshotAtTurn(%d) = %+v, %v; want ErrUnknown", n, s, err)
			}
		}
	})
	t.Run("gets snapshot at entry ID", func(t *testing.T) {
		b := newBench(t)
		m := b.open("s")
		b.initialize(m)
		var ids []string
		for _, content := range []string{"1", "2", "3"} {
			ids = append(ids, b.turn(m, func() { b.write("a", content) }))
		}
		for i, id := range ids {
			if s, err := m.SnapshotAtEntry(t.Context(), id); err != nil || s.EntryID != id || s.TurnIndex != i {
				t.Errorf("SnapshotAtEntry(%s) = %+v, %v; want turn %d", id, s, err, i)
			}
		}
		if _, err := m.SnapshotAtEntry(t.Context(), "nothing"); !errors.Is(err, ErrUnknown) {
			t.Errorf("SnapshotAtEntry of no entry: %v, want ErrUnknown", err)
		}
	})
	t.Run("rebuilds index from entries", func(t *testing.T) {
		b := newBench(t)
		b.log = session.NewTree()
		m := b.open("s")
		b.initialize(m)
		user := b.message("user")
		agent := b.message("assistant")
		step := b.turn(m, func() { b.write("a", "1") })
		b.message("user")
		again := b.open("s")
		if err := again.RebuildIndex(t.Context(), b.log); err != nil {
			t.Fatal(err)
		}
		for entry, want := range map[string]string{user: "", agent: step, step: step} {
			if s, err := again.SnapshotAtEntry(t.Context(), entry); err != nil || s.EntryID != want {
				t.Errorf("SnapshotAtEntry(%s) = %+v, %v; want %q", entry, s, err, want)
			}
		}
		if s, err := again.LatestSnapshotOnPath(t.Context(), user); err != nil || s.EntryID != "" {
			t.Errorf("LatestSnapshotOnPath of the first message = %+v, %v; want the start", s, err)
		}
		if s, err := again.LatestSnapshotOnPath(t.Context(), ""); err != nil || s.EntryID != step {
			t.Errorf("LatestSnapshotOnPath = %+v, %v; want %s", s, err, step)
		}
	})
	t.Run("handles empty session", func(t *testing.T) {
		b := newBench(t)
		m := b.open("s")
		for _, rev := range []string{"start", "@"} {
			if _, err := m.Resolve(t.Context(), rev); !errors.Is(err, ErrNoSession) {
				t.Errorf("Resolve(%q) of no session: %v, want ErrNoSession", rev, err)
			}
		}
		if _, err := m.ModifiedFiles(t.Context(), nil); !errors.Is(err, ErrNoSession) {
			t.Errorf("ModifiedFiles of no session: %v, want ErrNoSession", err)
		}
		b.initialize(m)
		if got := b.modified(m, nil); len(got) != 0 {
			t.Errorf("ModifiedFiles of an empty session = %v", got)
		}
	})
}

func TestGetModifiedFiles(t *testing.T) {
	// Three turns: a is changed twice, b added, c deleted, d added and deleted.
	session := func(t *testing.T) (*bench, *FileSnapshotManager, []string) {
		b := newBench(t)
		b.write("a", "0")
		b.write("c", "0")
		m := b.open("s")
		b.initialize(m)
		return b, m, []string{
			b.turn(m, func() { b.write("a", "1"); b.write("d", "1") }),
			b.turn(m, func() { b.write("b", "2"); b.remove("c") }),
			b.turn(m, func() { b.write("a", "3"); b.remove("d") }),
		}
	}
	t.Run("returns all changes for session", func(t *testing.T) {
		b, m, id := session(t)
		want := []ModifiedFileInfo{
			{Path: "a", Status: "modified", EntryID: id[0], NetStatus: "modified", LastTurnIndex: 2,
				LastEntryID: id[2], Owner: OwnTurn},
			{Path: "b", Status: "added", TurnIndex: 1, EntryID: id[1], NetStatus: "added", LastTurnIndex: 1,
				LastEntryID: id[1], Owner: OwnTurn},
			{Path: "c", Status: "deleted", TurnIndex: 1, EntryID: id[1], NetStatus: "deleted", LastTurnIndex: 1,
				LastEntryID: id[1], Owner: OwnTurn},
		}
		if d := cmp.Diff(want, b.modified(m, nil)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
	t.Run("returns changes between two entries", func(t *testing.T) {
		b, m, id := session(t)
		want := map[string]string{"b": "added turn", "c": "deleted turn"}
		if d := cmp.Diff(want, brief(b.modified(m, &Range{From: id[0], To: id[1]}))); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		// And back: what was added is deleted.
		want = map[string]string{"b": "deleted turn", "c": "added turn"}
		if d := cmp.Diff(want, brief(b.modified(m, &Range{From: id[1], To: id[0]}))); d != "" {
			t.Errorf("back (-want +got):\n%s", d)
		}
	})
	t.Run("returns empty for no changes", func(t *testing.T) {
		b, m, id := session(t)
		if got := b.modified(m, &Range{From: id[1], To: id[1]}); len(got) != 0 {
			t.Errorf("got %v", got)
		}
	})
	t.Run("aggregates across multiple turns", func(t *testing.T) {
		b, m, id := session(t)
		want := map[string]string{"a": "modified turn", "b": "added turn", "c": "deleted turn", "d": "deleted turn"}
		if d := cmp.Diff(want, brief(b.modified(m, &Range{From: id[0]}))); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
	t.Run("tracks per-file earliest change", func(t *testing.T) {
		b, m, id := session(t)
		rows := b.modified(m, &Range{All: true})
		last := rows[len(rows)-1]
		want := ModifiedFileInfo{Path: "d", Status: "added", EntryID: id[0], NetStatus: "none", LastTurnIndex: 2,
			LastEntryID: id[2], Owner: OwnTurn}
		if d := cmp.Diff(want, last); d != "" {
			t.Errorf("added, then deleted (-want +got):\n%s", d)
		}
	})
}

func TestGetFileDiff(t *testing.T) {
	b := newBench(t)
	b.write("changed.txt", "old\n")
	b.write("gone.txt", "gone\n")
	m := b.open("s")
	b.initialize(m)
	first := b.turn(m, func() {
		b.write("changed.txt", "new\n")
		b.write("added.txt", "hello\n")
		b.remove("gone.txt")
	})
	b.turn(m, func() { b.write("changed.txt", "newer\n") })
	diff := func(t *testing.T, r *FileRange) *FileDiffInfo {
		t.Helper()
		d, err := m.FileDiff(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	t.Run("returns diff for modified file", func(t *testing.T) {
		d := diff(t, &FileRange{Path: "changed.txt", To: first})
		if *d.OldContent != "old\n" || *d.NewContent != "new\n" ||
			d.UnifiedDiff != "--- changed.txt\n+++ changed.txt\n@@ -1 +1 @@\n-old\n+new\n" {
			t.Errorf("got %+v", d)
		}
	})
	t.Run("returns diff for added file", func(t *testing.T) {
		d := diff(t, &FileRange{Path: "added.txt"})
		if d.OldContent != nil || d.OldHash != nil || *d.NewContent != "hello\n" ||
			d.UnifiedDiff != "--- /dev/null\n+++ added.txt\n@@ -0,0 +1 @@\n+hello\n" {
			t.Errorf("got %+v", d)
		}
	})
	t.Run("returns diff for deleted file", func(t *testing.T) {
		d := diff(t, &FileRange{Path: "gone.txt"})
		if d.NewContent != nil || d.NewHash != nil || *d.OldContent != "gone\n" ||
			d.UnifiedDiff != "--- gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n" {
			t.Errorf("got %+v", d)
		}
	})
	t.Run("returns null for non-existent file", func(t *testing.T) {
		if d := diff(t, &FileRange{Path: "nothing.txt"}); d != nil {
			t.Errorf("got %+v", d)
		}
	})
	t.Run("handles default range", func(t *testing.T) {
		if d := diff(t, &FileRange{Path: "changed.txt"}); *d.OldContent != "old\n" || *d.NewContent != "newer\n" {
			t.Errorf("got %+v", d)
		}
	})
}
