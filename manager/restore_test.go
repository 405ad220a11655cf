package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/tree"
)

// restore restores, and requires that there is no error.
func (b *bench) restore(m *FileSnapshotManager, opts *RestoreOptions) *RestoreResult {
	b.Helper()
	r, err := m.RestoreFiles(b.Context(), opts)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func (b *bench) undo(m *FileSnapshotManager) *RestoreResult {
	b.Helper()
	r, err := m.Undo(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func (b *bench) redo(m *FileSnapshotManager) *RestoreResult {
	b.Helper()
	r, err := m.Redo(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// files returns the contents of the directory by path.
func (b *bench) files() map[string]string {
	b.Helper()
	got := make(map[string]string)
	for p, n := range readWorld(b.T, b.dir) {
		if !n.mode.IsDir() {
			got[p] = n.content
		}
	}
	return got
}

func (b *bench) expectFiles(want map[string]string) {
	b.Helper()
	if d := cmp.Diff(want, b.files()); d != "" {
		b.Errorf("the directory (-want +got):\n%s", d)
	}
}

type files = map[string]string

// TestRestoreFiles is the table of the seed's design, §8.4.
func TestRestoreFiles(t *testing.T) {
	setup := func(t *testing.T) (*bench, *FileSnapshotManager) {
		b := newBench(t)
		b.write("a", "start")
		b.write("user", "mine")
		m := b.open("s")
		b.initialize(m)
		b.turn(m, func() { b.write("a", "one"); b.write("made", "one") })
		b.turn(m, func() { b.write("a", "two"); b.write("made", "two"); b.write("later", "two") })
		return b, m
	}
	now := files{"a": "two", "made": "two", "later": "two", "user": "mine"}
	t.Run("restores modified files", func(t *testing.T) {
		b, m := setup(t)
		r := b.restore(m, &RestoreOptions{Target: "turn:0"})
		b.expectFiles(files{"a": "one", "made": "one", "user": "mine"})
		if d := cmp.Diff([]string{"a", "made"}, r.Restored); d != "" {
			t.Errorf("restored (-want +got):\n%s", d)
		}
	})
	t.Run("deletes files not in target", func(t *testing.T) {
		b, m := setup(t)
		r := b.restore(m, &RestoreOptions{Target: "start"})
		b.expectFiles(files{"a": "start", "user": "mine"})
		if d := cmp.Diff([]string{"later", "made"}, r.Deleted); d != "" {
			t.Errorf("deleted (-want +got):\n%s", d)
		}
	})
	t.Run("preview mode returns plan without writing", func(t *testing.T) {
		b, m := setup(t)
		preview := b.restore(m, &RestoreOptions{Target: "start", Preview: true})
		b.expectFiles(now)
		real := b.restore(m, &RestoreOptions{Target: "start"})
		if d := cmp.Diff(preview.Items, real.Items); d != "" {
			t.Errorf("the preview and the real thing (-preview +real):\n%s", d)
		}
	})
	t.Run("selective restore with files filter", func(t *testing.T) {
		b, m := setup(t)
		b.restore(m, &RestoreOptions{Target: "start", Paths: []string{"a"}})
		b.expectFiles(files{"a": "start", "made": "two", "later": "two", "user": "mine"})
		b.restore(m, &RestoreOptions{Target: "turn:0", Paths: []string{"m*", "late?"}})
		b.expectFiles(files{"a": "start", "made": "one", "user": "mine"})
	})
	t.Run("conflict detection marks dirty files", func(t *testing.T) {
		b, m := setup(t)
		b.write("a", "edited")
		r := b.restore(m, &RestoreOptions{Target: "start"})
		b.expectFiles(files{"a": "edited", "user": "mine"})
		if d := cmp.Diff([][]string{{"a"}, {"a"}}, [][]string{r.Dirty, r.Skipped}); d != "" {
			t.Errorf("dirty, skipped (-want +got):\n%s", d)
		}
	})
	t.Run("appends unrevert-point entry", func(t *testing.T) {
		b, m := setup(t)
		var got *session.Entry
		r := b.restore(m, &RestoreOptions{Target: "start",
			Append: func(_ context.Context, e *session.Entry) (string, error) {
				got = e
				return "urv1", nil
			}})
		if got == nil || got.CustomType != sessionlog.UnrevertPoint || r.EntryID != "urv1" {
			t.Fatalf("appended %+v, result %+v", got, r)
		}
		before := b.open("s")
		p, err := before.Resolve(t.Context(), r.PreRollbackTreeHash.String())
		if err != nil {
			t.Fatal(err)
		}
		at, err := before.fileIn(t.Context(), p.State, "later")
		if err != nil || string(at.file.Content) != "two" {
			t.Errorf("the state before has later %q, %v", at.file.Content, err)
		}
	})
	t.Run("no-op when snapshots identical", func(t *testing.T) {
		b, m := setup(t)
		records := b.records(m)
		r := b.restore(m, &RestoreOptions{Target: "@"})
		b.expectFiles(now)
		if len(r.Items) > 0 || r.Snapshot != nil || b.records(m) != records {
			t.Errorf("result %+v, %d records", r, b.records(m)-records)
		}
	})
}

// records returns how many records the store has.
func (b *bench) records(m *FileSnapshotManager) (n int) {
	b.Helper()
	for _, err := range m.store.Snapshots(b.Context()) {
		if err != nil {
			b.Fatal(err)
		}
		n++
	}
	return n
}

// Undo and redo walk over restores, across restarts.
func TestUndoRedo(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	var states []files
	states = append(states, b.files())
	for i := range 4 {
		b.turn(m, func() { b.write("f", fmt.Sprint(i)); b.write(fmt.Sprint("made", i), "x") })
		states = append(states, b.files())
	}
	steps := []string{"turn:2", "start", "turn:1", "turn:3"}
	at := []int{3, 0, 2, 4}
	line := []files{states[4]}
	for i, target := range steps {
		m = b.open("s")
		if _, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: b.entryOf(m, at[i]-1)}); err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		b.expectFiles(states[at[i]])
		line = append(line, states[at[i]])
	}
	for range 3 {
		for i := len(line) - 2; i >= 0; i-- {
			b.undo(b.open("s"))
			b.expectFiles(line[i])
		}
		if _, err := m.Undo(t.Context(), nil); !errors.Is(err, ErrNothing) {
			t.Errorf("undo at the end: %v, want %v", err, ErrNothing)
		}
		for i := 1; i < len(line); i++ {
			b.redo(b.open("s"))
			b.expectFiles(line[i])
		}
		if _, err := m.Redo(t.Context(), nil); !errors.Is(err, ErrNothing) {
			t.Errorf("redo at the end: %v, want %v", err, ErrNothing)
		}
	}
	// A new restore after an undo ends the list of redo.
	b.undo(m)
	b.restore(m, &RestoreOptions{Target: b.entryOf(m, 0)})
	if _, err := m.Redo(t.Context(), nil); !errors.Is(err, ErrNothing) {
		t.Errorf("redo after a new restore: %v, want %v", err, ErrNothing)
	}
	b.expectFiles(states[1])
}

// entryOf returns the entry of a turn's step, wherever the session stands; of
// turn -1 the start.
func (b *bench) entryOf(m *FileSnapshotManager, turn int) string {
	b.Helper()
	if turn < 0 {
		return "start"
	}
	for s, err := range m.store.Snapshots(b.Context()) {
		if err != nil {
			b.Fatal(err)
		}
		if r, err := history.Read(s); err == nil && r.Kind == history.KindStep && r.Facts.Turn == turn {
			return r.Entry
		}
	}
	b.Fatalf("no turn %d", turn)
	return ""
}

// What the user and others did between the turns stays, by default.
func TestRestoreLeavesOthersAlone(t *testing.T) {
	b := newBench(t)
	b.write("shared", "0")
	b.write("user", "0")
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("agent", "1"); b.write("shared", "agent 1") })
	b.write("user", "edited")
	b.write("shared", "user between")
	b.turn(m, func() { b.write("agent", "2"); b.write("shared", "agent 2") })
	b.write("late", "user")

	r := b.restore(m, &RestoreOptions{Target: "turn:0"})
	b.expectFiles(files{"agent": "1", "shared": "user between", "user": "edited", "late": "user"})
	if !r.IsComplete() {
		t.Errorf("result %+v", r)
	}
	// Both turns: what the user did between them makes the file mixed.
	b.undo(m)
	b.expectFiles(files{"agent": "2", "shared": "agent 2", "user": "edited", "late": "user"})
	r = b.restore(m, &RestoreOptions{Target: "start"})
	b.expectFiles(files{"shared": "agent 2", "user": "edited", "late": "user"})
	if d := cmp.Diff([]string{"shared"}, r.Dirty); d != "" {
		t.Errorf("dirty (-want +got):\n%s", d)
	}
	b.undo(m)
	// Exactly as it was, and back.
	b.restore(m, &RestoreOptions{Target: "start", Exact: true})
	b.expectFiles(files{"shared": "0", "user": "0"})
	b.undo(m)
	b.expectFiles(files{"agent": "2", "shared": "agent 2", "user": "edited", "late": "user"})
}

// A user's edit of an agent's file survives, or is in the store.
func TestRestorePolicies(t *testing.T) {
	for policy, want := range map[rollback.Policy]files{
		rollback.Skip:      {"a": "user"},
		rollback.Abort:     {"a": "user", "b": "agent"},
		rollback.Overwrite: {"a": "old"},
	} {
		b := newBench(t)
		b.write("a", "old")
		m := b.open("s")
		b.initialize(m)
		b.turn(m, func() { b.write("a", "agent"); b.write("b", "agent") })
		b.write("a", "user")
		r := b.restore(m, &RestoreOptions{Target: "start", OnDirty: policy})
		b.expectFiles(want)
		if r.IsComplete() != (policy == rollback.Overwrite) || r.Aborted != (policy == rollback.Abort) {
			t.Errorf("%s: %+v", policy, r)
		}
		if policy == rollback.Overwrite {
			b.undo(m)
			b.expectFiles(files{"a": "user", "b": "agent"})
		}
	}
}

// What somebody has agreed to lose goes, and nothing else: neither what came since,
// nor other paths.
func TestRestoreAgreed(t *testing.T) {
	b := newBench(t)
	b.write("f", "0")
	b.write("g", "0")
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("f", "1"); b.write("g", "1") })
	b.write("f", "mine")
	b.write("g", "mine")
	opts := &RestoreOptions{Target: "start", Paths: []string{"f", "g"}, Preview: true}
	r := b.restore(m, opts)
	if exp := r.Items[slices.IndexFunc(r.Items,
		func(it rollback.Item) bool { return it.Path == "f" })]; !slices.Equal(r.Skipped, []string{"f", "g"}) ||
		exp.Left == nil || exp.Left.ID != object.Hash(object.Blob, []byte("1")) || *exp.LeftBy != 0 {
		t.Fatalf("preview: skipped %q, expected %+v", r.Skipped, r.Items)
	}
	opts.Preview, opts.Agreed = false, map[string]*tree.Entry{"f": r.Items[0].Now}
	b.write("f", "more")
	if r := b.restore(m, opts); len(r.Restored) > 0 {
		t.Errorf("restored %q what was changed since", r.Restored)
	}
	b.expectFiles(files{"f": "more", "g": "mine"})
	b.write("f", "mine")
	if r := b.restore(m, opts); !slices.Equal(r.Restored, []string{"f"}) || !slices.Equal(r.Skipped, []string{"g"}) {
		t.Errorf("restored %q, skipped %q", r.Restored, r.Skipped)
	}
	b.expectFiles(files{"f": "0", "g": "mine"})
	b.undo(m)
	b.expectFiles(files{"f": "mine", "g": "mine"})
}

// Files that are named become what the target has, whoever changed them. Where that
// takes what others did between the turns, the preview says so, and so does the restore.
func TestNamedGoesBehindOthers(t *testing.T) {
	const between = "this goes back behind what you, or another session, changed between turn 0 and turn 1"
	for _, c := range []struct {
		name, target string
		before, user string // what the user makes of f before the turns, and between them; "": it stays
		turn         string // what the next turn makes of it
		note         string
	}{
		{"nobody", "turn:0", "", "", "2", ""},
		{"behind the target", "turn:0", "", "1u", "1u2", between},
		{"between turns that go", "start", "", "1u", "1u2", between},
		{"overwritten by the next turn", "start", "", "1u", "2", between},
		{"before the first turn", "start", "u", "", "2",
			"this goes back behind what you, or another session, changed before turn 0"},
		{"all of it stays", "turn:0", "u", "", "2", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.write("f", "0")
			b.write("g", "0")
			m := b.open("s")
			b.initialize(m)
			if c.before != "" {
				b.write("f", c.before)
			}
			b.turn(m, func() { b.write("f", "1"); b.write("g", "1") })
			if c.user != "" {
				b.write("f", c.user)
			}
			b.turn(m, func() { b.write("f", c.turn); b.write("g", "2") })
			opts := &RestoreOptions{Target: c.target, Paths: []string{"f", "g"}, Preview: true}
			preview := b.restore(m, opts)
			opts.Preview = false
			real := b.restore(m, opts)
			if d := cmp.Diff(preview.Items, real.Items); d != "" {
				t.Errorf("the preview and the real thing (-preview +real):\n%s", d)
			}
			want := map[string]string{"f": c.note, "g": ""}
			got := make(map[string]string)
			for _, it := range real.Items {
				got[it.Path] = it.Note
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("notes (-want +got):\n%s", d)
			}
		})
	}
}

// After a restore, the next turn is one that follows the target.
func TestTurnAfterRestore(t *testing.T) {
	for _, logged := range []bool{false, true} {
		b := newBench(t)
		if logged {
			b.log = session.NewTree()
		}
		m := b.reopen("s")
		b.initialize(m)
		b.turn(m, func() { b.write("a", "1") })
		b.turn(m, func() { b.write("b", "1") })
		b.turn(m, func() { b.write("c", "1") })
		opts := &RestoreOptions{Target: "turn:0"}
		if logged {
			opts.Append = func(_ context.Context, e *session.Entry) (string, error) {
				id := newID()
				e.ID, e.ParentID = id, b.log.Leaf()
				b.log.Add(*e)
				return id, nil
			}
		}
		b.restore(m, opts)
		b.turn(m, func() { b.write("d", "1") })
		if d := cmp.Diff(map[string]string{"a": "added turn", "d": "added turn"}, brief(b.modified(m, nil))); d != "" {
			t.Errorf("logged %v (-want +got):\n%s", logged, d)
		}
		b.restore(m, &RestoreOptions{Target: "start", Append: opts.Append})
		b.expectFiles(files{})
		// The restore's own writes are nobody's change.
		if r := b.initialize(m); r.Offline != nil {
			t.Errorf("offline: %+v", r.Offline)
		}
		b.undo(m)
		b.expectFiles(files{"a": "1", "d": "1"})
	}
}

// While a turn is open nothing is restored, unless that is forced.
func TestRestoreInTurn(t *testing.T) {
	b := newBench(t)
	m, o := b.open("s"), b.open("o")
	b.initialize(m)
	b.turn(m, func() { b.write("a", "1") })
	b.start(o)
	if _, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start"}); !errors.Is(err, ErrTurnOpen) {
		t.Errorf("error is %v, want %v", err, ErrTurnOpen)
	}
	b.expectFiles(files{"a": "1"})
	b.write("o", "1")
	b.restore(m, &RestoreOptions{Target: "start", Force: true})
	b.end(o)
	if d := cmp.Diff(map[string]string{"o": "added turn"}, brief(b.modified(o, nil))); d != "" {
		t.Errorf("the other's turn (-want +got):\n%s", d)
	}
}

// A contested file is not restored without being named.
func TestRestoreContested(t *testing.T) {
	b := newBench(t)
	m, o := b.open("s"), b.open("o")
	b.initialize(m)
	b.initialize(o)
	b.start(m)
	b.start(o)
	b.write("either", "1")
	b.end(m)
	b.end(o)
	r := b.restore(m, &RestoreOptions{Target: "start"})
	b.expectFiles(files{"either": "1"})
	if d := cmp.Diff([]string{"either"}, r.Skipped); d != "" {
		t.Errorf("skipped (-want +got):\n%s", d)
	}
	b.restore(m, &RestoreOptions{Target: "start", Paths: []string{"either"}})
	b.expectFiles(files{})
	b.undo(m)
	b.expectFiles(files{"either": "1"})
}

// A directory that a shell command moved goes back whole.
func TestRestoreMovedDirectory(t *testing.T) {
	vfstest.NeedRename(t, vfs.NoReplace)
	b := newBench(t)
	b.git("cache/\n")
	b.write("lib/a", "a")
	b.write("lib/cache/x", "ignored")
	b.write("lib/sub/.git/HEAD", "ref: refs/heads/main\n")
	b.write("lib/sub/y", "y")
	m := b.open("s")
	b.initialize(m)
	before := b.files()
	b.turn(m, func() {
		b.write("lib/a", "changed")
		if err := os.Rename(filepath.Join(b.dir, "lib"), filepath.Join(b.dir, "vendor")); err != nil {
			t.Fatal(err)
		}
	})
	after := b.files()
	b.restore(m, &RestoreOptions{Target: "start"})
	b.expectFiles(before)
	b.undo(m)
	b.expectFiles(after)
}

// A turn that was cut off is a step, from which a restore goes back.
func TestRestoreAfterCutOffTurn(t *testing.T) {
	b := newBench(t)
	b.die("s", func(m *FileSnapshotManager) {
		b.initialize(m)
		b.turn(m, func() { b.write("f", "1") })
		b.turn(m, func() { b.write("g", "1") })
		b.start(m)
		b.write("h", "1")
	})
	m := b.open("s")
	b.restore(m, &RestoreOptions{Target: "turn:0"})
	b.expectFiles(files{"f": "1", "h": "1"}) // which may be the user's
	b.initialize(m)
	want := map[string]string{"f": "added turn", "h": "added contested"} // it stands as it was found
	if d := cmp.Diff(want, brief(b.modified(m, nil))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A preview behind a turn that was cut off says what the restore does.
func TestPreviewAfterCutOffTurn(t *testing.T) {
	for _, target := range []string{"start", "@~1", "@~2"} {
		b := newBench(t)
		b.die("s", func(m *FileSnapshotManager) {
			b.initialize(m)
			b.turn(m, func() { b.write("f", "1") })
			b.start(m)
			b.write("h", "1")
		})
		m := b.open("s")
		preview := b.restore(m, &RestoreOptions{Target: target, Preview: true})
		done := b.restore(m, &RestoreOptions{Target: target})
		if d := cmp.Diff([][]string{done.Skipped, done.Deleted},
			[][]string{preview.Skipped, preview.Deleted}); d != "" {
			t.Errorf("a preview of %s is not what is done (-done +preview):\n%s", target, d)
		}
	}
}

// A snapshot after a restore records what has changed since, and nothing else.
func TestSnapshotAfterRestore(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("f", "1") })
	b.write("user", "1")
	b.turn(m, func() { b.write("g", "1") })
	b.restore(m, &RestoreOptions{Target: "turn:0"})
	r, err := m.Snapshot(t.Context(), nil)
	if err != nil || r.Data != nil {
		t.Errorf("a snapshot of nothing: %+v, %v", r.Data, err)
	}
	b.write("h", "1")
	if r, err = m.Snapshot(t.Context(), nil); err != nil || r.Data == nil ||
		!cmp.Equal(r.Data.Diff.Added, []string{"h"}) {
		t.Errorf("a snapshot of h: %+v, %v", r.Data, err)
	}
}

// A directory that a turn moved stays where it is if somebody else has put
// something into it that the restore is about.
func TestRestoreMovedDirectoryWithUsersFile(t *testing.T) {
	for _, last := range []string{"agent's change", ""} {
		b := newBench(t)
		m := b.open("s")
		b.write("old/a", "aaa")
		b.write("old/b", "bbb")
		b.initialize(m)
		b.turn(m, func() {
			if err := os.Rename(filepath.Join(b.dir, "old"), filepath.Join(b.dir, "new")); err != nil {
				t.Fatal(err)
			}
		})
		b.write("new/user", "user's work")
		b.turn(m, func() {
			if b.remove("new/user"); last != "" {
				b.write("new/user", last)
			}
		})
		now := b.files()
		b.restore(m, &RestoreOptions{Target: "start"})
		b.expectFiles(files{"old/a": "aaa", "old/b": "bbb", "new/user": "user's work"})
		b.undo(m)
		b.expectFiles(now)
	}
}

// What was a directory at the target is one again, whatever has taken its
// place.
func TestRestoreDirectoryExactly(t *testing.T) {
	for _, opts := range []RestoreOptions{{Exact: true}, {Paths: []string{"d"}, OnDirty: rollback.Overwrite}} {
		for _, link := range []bool{false, true} {
			b := newBench(t)
			m := b.open("s")
			b.write("d/x", "x")
			b.initialize(m)
			b.remove("d")
			if b.write("d", "file"); link {
				b.remove("d")
				if err := os.Symlink("/etc", filepath.Join(b.dir, "d")); err != nil {
					t.Fatal(err)
				}
			}
			now := b.files()
			opts.Target = "start"
			if r := b.restore(m, &opts); !r.IsComplete() {
				t.Errorf("%+v", r)
			}
			b.expectFiles(files{"d/x": "x"})
			b.undo(m)
			b.expectFiles(now)
		}
	}
}

// What is in the way of a directory, and is overwritten for a file in it, is in the plan and in
// the result.
func TestRestoreSaysWhatWasInTheWay(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts RestoreOptions
		link bool
		rule string // what is ignored by then
	}{
		{"named, exactly", RestoreOptions{Paths: []string{"d/f"}, Exact: true}, false, ""},
		{"named, a link", RestoreOptions{Paths: []string{"d/f"}, Exact: true}, true, ""},
		{"named, overwritten", RestoreOptions{Paths: []string{"d/f"}, OnDirty: rollback.Overwrite}, false, ""},
		{"overwritten", RestoreOptions{OnDirty: rollback.Overwrite}, false, ""},
		{"ignored", RestoreOptions{Paths: []string{"d/f"}, Exact: true}, false, "d\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			m := b.open("s")
			b.write("d/f", "1")
			b.initialize(m)
			b.turn(m, func() { b.write("d/f", "2") })
			b.remove("d")
			if b.write("d", "precious"); tc.link {
				b.remove("d")
				if err := os.Symlink("elsewhere", filepath.Join(b.dir, "d")); err != nil {
					t.Fatal(err)
				}
			}
			if tc.rule != "" {
				b.write(".booignore", tc.rule)
			}
			now := b.files()
			tc.opts.Target = "start"
			said := func(r *RestoreResult) {
				t.Helper()
				if d := cmp.Diff([]string{"d", "d/f"}, r.Restored); d != "" || !slices.Contains(r.Dirty, "d") {
					t.Errorf("dirty %q, restored (-want +got):\n%s", r.Dirty, d)
				}
				if it := r.Items[0]; it.Path != "d" || !it.Dirty || !strings.HasPrefix(it.Note, "in place of a ") {
					t.Errorf("item %+v", it)
				}
			}
			ahead := tc.opts
			ahead.Preview = true
			said(b.restore(m, &ahead))
			b.expectFiles(now)
			said(b.restore(m, &tc.opts))
			b.undo(m)
			b.expectFiles(now)
		})
	}
	t.Run("undo", func(t *testing.T) {
		b := newBench(t)
		m := b.open("s")
		b.write("d/f", "1")
		b.initialize(m)
		b.turn(m, func() { b.write("d/f", "2") })
		b.restore(m, &RestoreOptions{Target: "start"})
		b.remove("d")
		b.write("d", "precious")
		for _, preview := range []bool{true, false} {
			r, err := m.Undo(t.Context(), &UndoOptions{OnDirty: rollback.Overwrite, Preview: preview})
			if err != nil || !slices.Equal(r.Restored, []string{"d", "d/f"}) || !slices.Contains(r.Dirty, "d") {
				t.Errorf("preview %v: %+v, %v", preview, r, err)
			}
		}
		b.expectFiles(files{"d/f": "2"})
	})
}

// A file that is ignored by now is restored where it is named, and only there; undo brings back
// what it held.
func TestRestoreWhatIsIgnoredByNow(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("g/x", "0")
	b.initialize(m)
	b.turn(m, func() { b.write("g/x", "1") })
	b.turn(m, func() { b.write(".booignore", "g\n"); b.write("g/new", "ignored") })
	now := b.files()
	for _, path := range []string{"g/x", "g", "*/x"} {
		if r := b.restore(m, &RestoreOptions{Target: "start", Paths: []string{path}, Exact: true}); !r.IsComplete() {
			t.Errorf("%s: %+v", path, r)
		}
		b.expectFiles(files{"g/x": "0", "g/new": "ignored", ".booignore": "g\n"})
		b.undo(m)
		b.expectFiles(now)
	}
	r := b.restore(m, &RestoreOptions{Target: "start", Exact: true})
	if d := cmp.Diff([]string{"g/x"}, r.NotCaptured); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	b.expectFiles(files{"g/x": "1", "g/new": "ignored"})
	b.undo(m)
	r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"turn:0"}, Preview: true})
	if err != nil || len(r.Items) != 1 || strings.Contains(r.Items[0].Why, "deleted") {
		t.Errorf("%+v, %v", r, err)
	}
}

// A path that is there is no glob, and the insides of a repository are not
// ours to restore.
func TestRestorePaths(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("[id]/p", "1")
	b.write("i/p", "1")
	b.write("sub/.git/HEAD", "x")
	b.initialize(m)
	b.turn(m, func() { b.write("[id]/p", "2"); b.write("i/p", "2") })
	b.restore(m, &RestoreOptions{Target: "start", Paths: []string{"[id]/p"}})
	b.expectFiles(files{"[id]/p": "1", "i/p": "2", "sub/.git/HEAD": "x"})
	b.undo(m)
	b.restore(m, &RestoreOptions{Target: "start", Paths: []string{"i/p", "."}})
	b.expectFiles(files{"[id]/p": "1", "i/p": "1", "sub/.git/HEAD": "x"})
	b.undo(m)
	b.restore(m, &RestoreOptions{Target: "start", Paths: []string{"[id]/p"}})
	for _, p := range []string{"sub/.git", "sub/.git/HEAD", ".git"} {
		if _, err := m.RestoreFiles(t.Context(),
			&RestoreOptions{Target: "start", Paths: []string{p},
				OnDirty: rollback.Overwrite}); !errors.Is(err, ErrOutside) {
			t.Errorf("%s: %v, want %v", p, err, ErrOutside)
		}
	}
	b.expectFiles(files{"[id]/p": "1", "i/p": "2", "sub/.git/HEAD": "x"})
}

// What the target held and was not captured is not made up.
func TestRestoreUncapturedTarget(t *testing.T) {
	b := newBench(t)
	m := b.open("s", func(o *Options) { o.Limits = tree.Limits{FileSize: 100} })
	b.write("f", strings.Repeat("large ", 100))
	b.initialize(m)
	b.turn(m, func() { b.write("f", "small") })
	b.turn(m, func() { b.write("f", "small, too") })
	r := b.restore(m, &RestoreOptions{Target: "start"})
	b.expectFiles(files{"f": "small, too"})
	if d := cmp.Diff([]string{"f"}, r.NotCaptured); d != "" || r.IsComplete() {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// What a restore did not get done is done by the next one.
func TestRestoreAgain(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("a", "old")
	b.write("b", "old")
	b.initialize(m)
	b.turn(m, func() { b.write("a", "agent"); b.write("b", "agent"); b.write("c", "agent") })
	b.write("a", "user")
	b.write("c", "user")
	b.restore(m, &RestoreOptions{Target: "start"})
	b.expectFiles(files{"a": "user", "b": "old", "c": "user"})
	if r := b.restore(b.open("s"), &RestoreOptions{Target: "start"}); len(r.Skipped) != 2 || r.IsComplete() {
		t.Errorf("again: %+v", r)
	}
	if r := b.restore(m, &RestoreOptions{Target: "start", OnDirty: rollback.Overwrite}); !r.IsComplete() {
		t.Errorf("with overwrite: %+v", r)
	}
	b.expectFiles(files{"a": "old", "b": "old"})
	b.undo(m)
	b.undo(m)
	b.expectFiles(files{"a": "user", "b": "agent", "c": "user"})
}

// What a git pull brought between two turns survives the undo of both.
func TestRestoreAcrossPull(t *testing.T) {
	b := newBench(t)
	b.gitDir("")
	b.write("upstream", "1")
	b.write("both", "line 1\n")
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("agent", "1") })
	b.write(".git/refs/heads/main", strings.Repeat("2", 40)+"\n")
	b.write("upstream", "2")
	b.write("pulled", "new")
	b.turn(m, func() { b.write("agent", "2"); b.write("later", "1") })
	if _, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start"}); !errors.Is(err, ErrHeadChanged) {
		t.Errorf("without a yes: %v, want %v", err, ErrHeadChanged)
	}
	if r := b.restore(m, &RestoreOptions{Target: "start", Preview: true}); !r.HeadChanged {
		t.Errorf("preview: %+v", r)
	}
	r := b.restore(m, &RestoreOptions{Target: "start", AcrossHead: true})
	got := b.files()
	if got["upstream"] != "2" || got["pulled"] != "new" || got["agent"] != "" || got["later"] != "" || !r.IsComplete() {
		t.Errorf("%v, %+v", got, r)
	}
}

// An editor that saves while the model thinks keeps its save.
func TestRestoreKeepsEditorsSave(t *testing.T) {
	b := newBench(t)
	m := b.open("s", func(o *Options) { o.ToolWindows = true })
	b.write("notes", "1")
	b.write("both", "1")
	b.initialize(m)
	b.start(m)
	tool := func(fn func()) {
		if _, err := m.OnToolStart(t.Context(), "edit"); err != nil {
			t.Fatal(err)
		}
		fn()
		if _, err := m.OnToolEnd(t.Context(), "edit"); err != nil {
			t.Fatal(err)
		}
	}
	tool(func() { b.write("code", "agent"); b.write("both", "agent") })
	b.write("notes", "saved")
	b.write("both", "saved over the agent's")
	tool(func() { b.write("code", "agent again") })
	b.end(m)
	r := b.restore(m, &RestoreOptions{Target: "start"})
	b.expectFiles(files{"notes": "saved", "both": "saved over the agent's"})
	if d := cmp.Diff([]string{"both"}, r.Skipped); d != "" {
		t.Errorf("skipped (-want +got):\n%s", d)
	}
}

// What a program may do whoever starts it is not given to other content, which may be of
// somebody else, and the result says so. Owner and attributes are tested in package vfs.
func TestRestoreKeepsNoPrivileges(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("tool", "1")
	name := filepath.Join(b.dir, "tool")
	if err := os.Chmod(name, 0o755|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(name); err != nil || st.Mode()&os.ModeSetgid == 0 {
		t.Skip("no set-id bits here", err)
	}
	b.initialize(m)
	b.turn(m, func() {
		b.write("tool", "2") // which may drop the bits
		if err := os.Chmod(name, 0o755|os.ModeSetgid); err != nil {
			t.Fatal(err)
		}
	})
	r := b.restore(m, &RestoreOptions{Target: "start"})
	st, err := os.Stat(name)
	if err != nil || st.Mode() != 0o755 {
		t.Errorf("mode is %v, %v", st.Mode(), err)
	}
	if note := r.Items[0].Note; !strings.Contains(note, "set-id") {
		t.Errorf("the note is %q", note)
	}
}

// In a fork, what is expected is what the fork found, not what the session it
// was forked from had left or found.
func TestRestoreInFork(t *testing.T) {
	b, m := newConversation(t)
	b.write("f", "0")
	b.initialize(m)
	u, _ := b.say(m, func() { b.write("f", "1"); b.write("g", "1") })
	agent := b.log.Leaf()
	old := b.log
	b.log = session.NewTree()
	for e := range old.Entries() {
		b.log.Add(*e)
	}
	fork := b.reopen("k")
	b.initialize(fork)
	b.write("f", "0")
	b.remove("g") // the user takes both back by hand
	b.navigate(fork, u, nil)
	r := b.navigate(fork, agent, nil).Restore
	b.expectFiles(files{"f": "0"})
	if len(r.Items) != 0 { // there was nothing to do before, so the turn is in as it was
		t.Errorf("%+v", r.Items)
	}
}

// What an undo skipped stays to be undone.
func TestUndoInParts(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("a", "old")
	b.write("b", "old")
	b.initialize(m)
	b.turn(m, func() { b.write("a", "agent"); b.write("b", "agent") })
	b.restore(m, &RestoreOptions{Target: "start"})
	b.write("a", "user")
	if r := b.undo(m); len(r.Skipped) != 1 {
		t.Errorf("%+v", r)
	}
	b.expectFiles(files{"a": "user", "b": "agent"})
	if _, err := m.Undo(t.Context(), &UndoOptions{OnDirty: rollback.Overwrite}); err != nil {
		t.Fatal(err)
	}
	b.expectFiles(files{"a": "agent", "b": "agent"})
	b.redo(m)
	b.expectFiles(files{"a": "user", "b": "agent"})
	if _, err := m.Undo(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	b.expectFiles(files{"a": "agent", "b": "agent"})
}

// What an agent wrote that was killed is not the user's after a restore, nor
// after a preview of one.
func TestRestoreAfterKill(t *testing.T) {
	b := newBench(t)
	b.die("s", func(m *FileSnapshotManager) {
		b.initialize(m)
		b.turn(m, func() { b.write("f", "1") })
		b.start(m)
		b.write("a", "agent")
	})
	other := b.open("o")
	b.initialize(other)
	m := b.open("s")
	b.restore(m, &RestoreOptions{Target: "turn:0", Preview: true})
	r := b.restore(m, &RestoreOptions{Target: "start"})
	if d := cmp.Diff([]string{"a"}, r.Skipped); d != "" {
		t.Errorf("skipped (-want +got):\n%s", d)
	}
}

// What cannot be moved along with its directory stays, and the restore says so.
func TestRestoreWhereMovesFail(t *testing.T) {
	vfstest.NeedRename(t, vfs.NoReplace)
	b := newBench(t)
	m := b.open("s")
	b.git("cache/\n")
	b.write("old/cache/x", "ignored")
	b.write("old/a", "aaa")
	b.write("old/b", "bbb")
	b.initialize(m)
	b.turn(m, func() {
		if err := os.Rename(filepath.Join(b.dir, "old"), filepath.Join(b.dir, "new")); err != nil {
			t.Fatal(err)
		}
	})
	m.openDir = func(path string) (vfs.Dir, error) {
		d, err := vfs.OpenDir(path)
		return &noMoveDir{d}, err
	}
	if r := b.restore(m, &RestoreOptions{Target: "start"}); r.IsComplete() || len(r.Moves) != 1 ||
		r.Moves[0].Why == "" {
		t.Errorf("%+v", r)
	}
	b.expectFiles(files{".git/HEAD": "ref: refs/heads/main\n", ".gitignore": "cache/\n", "old/a": "aaa", "old/b": "bbb",
		"new/cache/x": "ignored"})
	b.undo(m)
	b.expectFiles(files{".git/HEAD": "ref: refs/heads/main\n", ".gitignore": "cache/\n", "new/a": "aaa", "new/b": "bbb",
		"new/cache/x": "ignored"})
}

// A noMoveDir moves no directory.
type noMoveDir struct{ vfs.Dir }

func (d *noMoveDir) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.Dir.OpenDir(name)
	return &noMoveDir{sub}, err
}

func (d *noMoveDir) Rename(name string, to vfs.Dir, newname string, mode vfs.RenameMode) error {
	var st vfs.Stat
	if d.Lstat(name, &st) == nil && st.Kind == vfs.Directory {
		return errors.New("no directory is moved here")
	}
	return d.Dir.Rename(name, to.(*noMoveDir).Dir, newname, mode)
}

// A policy that there is not is refused by whatever takes one, before anything is
// done.
func TestPolicyRefused(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("a", "A"); b.write("b", "B") })
	b.restore(m, &RestoreOptions{Target: "start"})
	b.write("a", "user's")
	for name, fn := range map[string]func(*RestoreOptions) (*RestoreResult, error){
		"undo": func(o *RestoreOptions) (*RestoreResult, error) {
			return m.Undo(t.Context(), &UndoOptions{OnDirty: o.OnDirty, Preview: o.Preview})
		},
		"redo": func(o *RestoreOptions) (*RestoreResult, error) {
			return m.Redo(t.Context(), &UndoOptions{OnDirty: o.OnDirty, Preview: o.Preview})
		},
		"restore": func(o *RestoreOptions) (*RestoreResult, error) {
			o.Target = "start"
			return m.RestoreFiles(t.Context(), o)
		},
		"exact": func(o *RestoreOptions) (*RestoreResult, error) {
			o.Target, o.Exact = "start", true
			return m.RestoreFiles(t.Context(), o)
		},
		"navigate": func(o *RestoreOptions) (*RestoreResult, error) {
			_, err := m.NavigateTree(t.Context(), "start", &NavigateOptions{OnDirty: o.OnDirty, SkipFiles: true})
			return nil, err
		},
	} {
		_, err := fn(&RestoreOptions{OnDirty: "ABORT"})
		if err == nil || !strings.Contains(err.Error(), `"ABORT": want skip, overwrite, abort or merge`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.expectFiles(files{"a": "user's"})
}

// A path that no file can have is the fault of who asks.
func TestPathsOfNoFile(t *testing.T) {
	b := newBench(t)
	b.write("f", "1")
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("f", "2") })
	for _, p := range []string{"", "f\x00", "\x00"} {
		_, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start", Paths: []string{"f", p}, Preview: true})
		if !errors.Is(err, inside.ErrPath) {
			t.Errorf("preview of %q: %v", p, err)
		}
	}
	if _, err := m.OnTurnStart(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := m.Claim(t.Context(), "f\x00"); !errors.Is(err, inside.ErrPath) {
		t.Errorf("claim: %v", err)
	}
}
