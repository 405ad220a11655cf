package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// reopen is a new process that has the runtime's log.
func (b *bench) reopen(id string, change ...func(*Options)) *FileSnapshotManager {
	b.Helper()
	m := b.open(id, change...)
	if b.log != nil {
		if err := m.RebuildIndex(b.Context(), b.log); err != nil {
			b.Fatal(err)
		}
	}
	return m
}

// die opens a session, calls fn and leaves its turn open, as a killed process
// does.
func (b *bench) die(id string, fn func(m *FileSnapshotManager)) {
	b.Helper()
	m, err := Open(b.Context(), b.dir, &Options{StoreRoot: b.stores, Session: id})
	if err != nil {
		b.Fatal(err)
	}
	if b.log != nil {
		if err := m.RebuildIndex(b.Context(), b.log); err != nil {
			b.Fatal(err)
		}
	}
	fn(m)
	if err := m.Close(); err != nil {
		b.Fatal(err)
	}
}

// A step that the log was never given comes behind those that it was, and is
// given to it.
func TestUntoldStepsWithLog(t *testing.T) {
	for name, lose := range map[string]func(b *bench, m *FileSnapshotManager){
		"killed": func(b *bench, m *FileSnapshotManager) {
			b.start(m)
			b.write("g", "1")
		},
		"callback failed": func(b *bench, m *FileSnapshotManager) {
			b.start(m)
			b.write("g", "1")
			_, err := m.OnTurnEnd(b.Context(), func(context.Context, *StepSnapshotData) (string,
				error) {
				return "", errors.New("full")
			})
			if err == nil {
				b.Error("no error")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.log = session.NewTree()
			b.die("s", func(m *FileSnapshotManager) {
				b.initialize(m)
				b.message("user")
				b.turn(m, func() { b.write("f", "1") })
			})
			b.die("s", func(m *FileSnapshotManager) { lose(b, m) })
			again := b.reopen("s")
			b.turn(again, func() { b.write("h", "1") })
			var paths []string
			for _, row := range b.modified(again, nil) {
				paths = append(paths, row.Path)
			}
			if d := cmp.Diff([]string{"f", "g", "h"}, paths); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			var turns []int
			for mo, err := range b.open("s").Timeline(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				turns = append(turns, mo.TurnIndex)
			}
			if d := cmp.Diff([]int{2, 1, 0, -1}, turns); d != "" {
				t.Errorf("turns by the records (-want +got):\n%s", d)
			}
		})
	}
}

// A turn that is open belongs to the process that opened it.
func TestNobodyElseEndsATurn(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	b.start(m)
	b.write("f", "1")
	other := b.open("s")
	tell := func(context.Context, *StepSnapshotData) (string, error) { return "x", nil }
	for name, err := range map[string]error{
		"OnTurnEnd": second(other.OnTurnEnd(t.Context(), tell)),
		"Snapshot":  second(other.Snapshot(t.Context(), nil)),
		"Claim":     other.Claim(t.Context(), "f"),
	} {
		if !errors.Is(err, ErrTurnOpen) {
			t.Errorf("%s by another process: %v, want ErrTurnOpen", name, err)
		}
	}
	// Somebody who only looks takes nothing from it.
	if _, err := b.open("mine").Snapshot(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	b.write("g", "1")
	if _, err := b.open("mine").Snapshot(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := m.Claim(t.Context(), "g"); err != nil {
		t.Fatal(err)
	}
	b.end(m)
	want := map[string]string{"f": "added turn", "g": "added claimed"}
	if d := cmp.Diff(want, brief(b.modified(m, nil))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	mine := b.open("mine")
	if rows := b.modified(mine, nil); len(rows) != 0 {
		t.Errorf("who only looked has changed %+v", rows)
	}
}

// The end of a manager of an engine, which goes on, is the end of what it may do: a turn
// that it began would be in everybody's way.
func TestClosedManagerBeginsNoTurn(t *testing.T) {
	b := newBench(t)
	e, err := NewEngine(&EngineOptions{StoreRoot: b.stores})
	b.must(err)
	t.Cleanup(func() { b.must(e.Close()) })
	within := func(o *Options) { o.Engine = e }
	m := b.open("s", within)
	b.initialize(m)
	b.must(m.Close())
	if _, err := m.OnTurnStart(t.Context(), nil); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("OnTurnStart of a closed manager: %v, want fs.ErrClosed", err)
	}
	b.must(m.Close())
	b.start(b.open("s", within))
}

// A snapshot ends no turn unasked, also of its own manager.
func TestSnapshotLeavesTheTurnOpen(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	b.start(m)
	b.write("f", "1")
	if _, err := m.Snapshot(t.Context(), nil); !errors.Is(err, ErrTurnOpen) {
		t.Errorf("Snapshot in a turn: %v, want ErrTurnOpen", err)
	}
	b.must(m.Claim(t.Context(), "f"))
	r, err := m.Snapshot(t.Context(), &SnapshotOptions{EndTurn: true})
	if err != nil || r.Data == nil || r.Data.Diff.Len() != 1 {
		t.Errorf("Snapshot that ends the turn: %+v, %v", r, err)
	}
	if err := m.Claim(t.Context(), "f"); !errors.Is(err, ErrNoTurn) {
		t.Errorf("Claim behind it: %v, want ErrNoTurn", err)
	}
}

// Options that are nil are those that are zero, and a directory that is not named is none.
func TestNilOptions(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	if _, err := Open(t.Context(), "", &Options{StoreRoot: b.stores, Session: "s"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of no directory: %v, want fs.ErrNotExist", err)
	}
	find := func(o *FindOptions) (err error) {
		for _, err = range m.Find(t.Context(), o) {
		}
		return err
	}
	for name, errs := range map[string][2]error{
		"NewEngine":  {second(NewEngine(nil)), second(NewEngine(new(EngineOptions)))},
		"Blame":      {second(m.Blame(t.Context(), nil)), second(m.Blame(t.Context(), new(BlameOptions)))},
		"FileDiff":   {second(m.FileDiff(t.Context(), nil)), second(m.FileDiff(t.Context(), new(FileRange)))},
		"Find":       {find(nil), find(new(FindOptions))},
		"ApplyEdits": {second(m.ApplyEdits(t.Context(), nil)), second(m.ApplyEdits(t.Context(), new(EditRequest)))},
		"Revert":     {second(m.Revert(t.Context(), nil)), second(m.Revert(t.Context(), new(RevertOptions)))},
		"RestoreFiles": {second(m.RestoreFiles(t.Context(), nil)),
			second(m.RestoreFiles(t.Context(), new(RestoreOptions)))},
	} {
		if errs[0] == nil || errs[0].Error() != errs[1].Error() {
			t.Errorf("%s with nil: %v, with zero options: %v", name, errs[0], errs[1])
		}
	}
}

// TestClaimOfATurnThatEnded: what is written behind the turn that claimed the path may be another
// session's doing, which no turn of the first one claims; so it is said of both.
func TestClaimOfATurnThatEnded(t *testing.T) {
	b := newBench(t)
	m, other := b.open("s"), b.open("other")
	b.initialize(m)
	b.initialize(other)
	b.start(other)
	b.start(m)
	b.must(m.Claim(t.Context(), "f"))
	b.write("f", "1")
	b.end(m)
	b.start(m)
	b.write("f", "2")
	b.end(other)
	b.end(m)
	for _, m := range []*FileSnapshotManager{m, other} {
		if d := cmp.Diff(map[string]string{"f": "added contested"}, brief(b.modified(m, nil))); d != "" {
			t.Errorf("%s (-want +got):\n%s", m.Session(), d)
		}
	}
}

// A runtime that does not tell of tools may claim what it has written, though another session
// looks before it does, and heard of an earlier claim.
func TestClaimAfterALook(t *testing.T) {
	b := newBench(t)
	m, other, third := b.open("s"), b.open("other"), b.open("third")
	for _, m := range []*FileSnapshotManager{m, other, third} {
		b.initialize(m)
	}
	b.start(other)
	b.start(m)
	b.must(m.Claim(t.Context(), "f"))
	b.write("f", "1")
	b.end(m)
	b.start(m)
	b.write("f", "2")
	b.start(third)
	b.must(m.Claim(t.Context(), "f"))
	b.end(m)
	if d := cmp.Diff(map[string]string{"f": "added claimed"}, brief(b.modified(m, nil))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func second[T any](_ T, err error) error { return err }

// After a turn was cut off, no end of a turn takes it for its own.
func TestCutOffThenEnded(t *testing.T) {
	for name, end := range map[string]func(b *bench, m *FileSnapshotManager){
		"by OnTurnEnd": func(b *bench, m *FileSnapshotManager) { b.end(m) },
		"by Snapshot": func(b *bench, m *FileSnapshotManager) {
			if _, err := m.Snapshot(b.Context(), nil); err != nil {
				b.Error(err)
			}
		},
		"after Initialize": func(b *bench, m *FileSnapshotManager) { b.initialize(m); b.end(m) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.die("s", func(m *FileSnapshotManager) {
				b.initialize(m)
				b.start(m)
				b.write("f", "1")
			})
			b.initialize(b.open("other")) // finds it dead
			b.write("mine.txt", "the user's")
			m := b.open("s")
			end(b, m)
			rows := brief(b.modified(m, nil))
			if rows["f"] != "added contested" {
				t.Errorf("f is %q, want contested", rows["f"])
			}
			interrupted := 0
			for mo, err := range m.Timeline(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if mo.Interrupted {
					interrupted++
				}
				if mo.Kind == history.KindStep && mo.EntryID == "" && name != "by Snapshot" {
					t.Errorf("turn %d is in no log", mo.TurnIndex)
				}
			}
			if interrupted != 1 {
				t.Errorf("%d turns are interrupted, want 1", interrupted)
			}
		})
	}
}

// A detached turn that was silent for long is its session's again at the first
// sign of life.
func TestDetachedWakesUp(t *testing.T) {
	b := newBench(t)
	detached := func(o *Options) { o.Detached, o.ToolWindows = true, true }
	b.initialize(b.open("s", detached))
	b.start(b.open("s", detached))
	m := b.open("other")
	name := filepath.Join(m.StoreDir(), "worktrees", m.Project().Worktree, "turns")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	open, _, err := history.DecodeTurns(text)
	if err != nil {
		t.Fatal(err)
	}
	open.Open[0].Seen = time.Now().Add(-25 * time.Hour)
	if err := os.WriteFile(name, encode(open), 0o600); err != nil { // as older programs do
		t.Fatal(err)
	}
	b.initialize(m) // takes it for dead
	if _, err := b.open("s", detached).OnToolStart(t.Context(), "edit"); err != nil {
		t.Fatal(err)
	}
	b.write("f", "1")
	if _, err := b.open("s", detached).OnToolEnd(t.Context(), "edit"); err != nil {
		t.Fatal(err)
	}
	if r := b.end(b.open("s", detached)); r.Data == nil || len(r.Data.Diff.Added) != 1 {
		t.Errorf("OnTurnEnd = %+v", r)
	}
}

// A tree is as good a name for a step as its entry.
func TestTreesAsEnds(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	b.initialize(m)
	var trees []string
	for _, content := range []string{"1", "2", "3"} {
		b.turn(m, func() { b.write("f", content) })
		s, err := m.SnapshotAtTurn(t.Context(), len(trees))
		if err != nil {
			t.Fatal(err)
		}
		trees = append(trees, s.SnapshotTreeHash.String())
	}
	for _, test := range [][2]*Range{
		{{To: trees[1]}, {To: "turn:1"}},
		{{From: trees[1]}, {From: "turn:1"}},
		{{From: trees[2], To: trees[0]}, {From: "turn:2", To: "turn:0"}},
	} {
		if d := cmp.Diff(b.modified(m, test[1]), b.modified(m, test[0])); d != "" {
			t.Errorf("ModifiedFiles(%+v) (-by turn +by tree):\n%s", test[0], d)
		}
	}
}

// With those of others, everything that differs has a row.
func TestForeignIsComplete(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	x := b.reopen("x")
	b.initialize(x)
	fork := b.message("user")
	b.turn(x, func() { b.write("left", "1") })
	if err := b.log.SetLeaf(fork); err != nil {
		t.Fatal(err)
	}
	b.message("user")
	y := b.open("y")
	b.initialize(y)
	b.start(x)
	if _, err := y.OnTurnStart(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := y.Claim(t.Context(), "claimed"); err != nil {
		t.Fatal(err)
	}
	b.write("claimed", "1")
	b.write("g", "1")
	b.end(x)
	if _, err := y.OnTurnEnd(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	b.write("user", "1")
	b.turn(x, func() { b.write("h", "1") })
	want := map[string]string{"claimed": "added other", "left": "added turn", "user": "added offline",
		"g": "added contested", "h": "added turn"}
	if d := cmp.Diff(want, brief(b.modified(x, &Range{Foreign: true}))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for path, row := range brief(b.modified(x, &Range{From: "@", To: "start", Foreign: true})) {
		if !strings.HasPrefix(row, "deleted ") || strings.Contains(row, "net") {
			t.Errorf("back: %s is %q, want deleted", path, row)
		}
	}
}

// Step-snapshots of other programs do not keep ours from working.
func TestForeignStepSnapshots(t *testing.T) {
	for _, data := range []string{`{"baselineTreeHash":null,"snapshotTreeHash":"e5f6a7b8","diff":null,"turnIndex":0}`, `null`, `{}`, `[]`, `"x"`,
		`{"snapshotTreeHash":"` + strings.Repeat("ab", 32) + `","turnIndex":1e30}`, `{"snapshotTreeHash":"` + strings.Repeat("ab", 32) + `","turnIndex":-7}`} {
		b := newBench(t)
		b.log = session.NewTree()
		b.log.Add(session.Entry{ID: "foreign", Type: "custom", CustomType: sessionlog.StepSnapshot,
			Data: json.RawMessage(data)})
		m := b.reopen("s")
		b.initialize(m)
		id := b.turn(m, func() { b.write("f", "1") })
		if rows := b.modified(m, nil); len(rows) != 1 || rows[0].TurnIndex != 0 {
			t.Errorf("%s: ModifiedFiles = %+v", data, rows)
		}
		if s, err := m.LatestSnapshotOnPath(t.Context(), ""); err != nil || s.EntryID != id {
			t.Errorf("%s: LatestSnapshotOnPath = %+v, %v", data, s, err)
		}
		if _, err := m.Resolve(t.Context(), "foreign"); !errors.Is(err, ErrUnknown) ||
			strings.Contains(err.Error(), "nil") {
			t.Errorf("%s: Resolve of it: %v, want ErrUnknown", data, err)
		}
	}
}

// A log that comes from another machine names trees that are not here.
func TestLogFromElsewhere(t *testing.T) {
	b := newBench(t)
	gone, before := object.Hash(object.Tree, []byte("gone")), object.Hash(object.Tree, []byte("before"))
	d := &StepSnapshotData{BaselineTreeHash: &before, SnapshotTreeHash: gone, TurnIndex: 4, SnapshotSeq: 1,
		Diff: &Diff{Added: []string{"far.txt"}, Modified: []string{}, Deleted: []string{}}}
	b.log = session.NewTree(d.Entry("far", ""))
	m := b.reopen("s")
	b.initialize(m)
	for _, rev := range []string{"far", "@", "start"} {
		if _, err := m.Resolve(t.Context(), rev); !errors.Is(err, ErrUnknown) {
			t.Errorf("Resolve(%q): %v, want ErrUnknown", rev, err)
		}
	}
	id := b.turn(m, func() { b.write("f", "1") })
	s, err := m.SnapshotAtEntry(t.Context(), id)
	if err != nil || s.TurnIndex != 5 {
		t.Errorf("the first turn here is %+v, %v; want turn 5", s, err)
	}
	if _, err := m.ModifiedFiles(t.Context(), nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("ModifiedFiles from an unknown start: %v, want ErrUnknown", err)
	}
	for mo, err := range m.Timeline(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		own, _, err := mo.Changes(t.Context())
		if err != nil || mo.EntryID == "far" && len(own.Added) != 1 {
			t.Errorf("moment %+v changed %+v, %v", mo, own, err)
		}
	}
}

// A failed start of a turn leaves nothing behind.
func TestFailedTurnStart(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	b.initialize(m)
	before := snapshotCount(t, m.store)
	b.write("f", "1")
	if _, err := m.OnTurnStart(t.Context(), &Turn{Leaf: "nope"}); !errors.Is(err, session.ErrUnknownEntry) {
		t.Errorf("OnTurnStart at no entry: %v", err)
	}
	if n := snapshotCount(t, m.store); n != before {
		t.Errorf("%d records became %d", before, n)
	}
	other := b.open("s")
	b.start(other)
	if _, err := other.OnTurnEnd(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// Where the end of a turn could not be written, it is not recorded twice.
func TestTurnEndsAgain(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	b.start(m)
	b.write("f", "1")
	in := filepath.Join(m.StoreDir(), "worktrees", m.Project().Worktree, "turns.new")
	if err := errors.Join(os.RemoveAll(in), os.MkdirAll(filepath.Join(in, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	tell := func(context.Context, *StepSnapshotData) (string, error) { return "first", nil }
	for range 2 {
		if _, err := m.OnTurnEnd(t.Context(), tell); err == nil {
			t.Fatal("no error")
		}
	}
	if err := os.RemoveAll(in); err != nil {
		t.Fatal(err)
	}
	b.write("g", "1")
	if _, err := m.OnTurnEnd(t.Context(), func(_ context.Context, d *StepSnapshotData) (string, error) {
		return "e" + d.SnapshotTreeHash.Short(), nil
	}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"f": "added turn", "g": "added turn"}
	if d := cmp.Diff(want, brief(b.modified(m, nil))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	steps := 0
	for s, err := range m.store.Snapshots(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Kind == history.KindStep {
			steps++
		}
	}
	if steps != 2 {
		t.Errorf("%d steps, want 2", steps)
	}
}

// What the user wrote between two tools and the agent took back is told.
func TestTakenBack(t *testing.T) {
	b := newBench(t)
	b.write("f", "A")
	m := b.open("s", func(o *Options) { o.ToolWindows = true })
	b.initialize(m)
	b.start(m)
	for i, content := range []string{"B", "A"} {
		if i == 1 {
			b.write("f", "the user's")
		}
		if _, err := m.OnToolStart(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		b.write("f", content)
		if _, err := m.OnToolEnd(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if r := b.end(m); r.Data == nil {
		t.Fatal("the turn has no step")
	}
	rows := b.modified(m, &Range{All: true, Foreign: true})
	if len(rows) != 1 || !rows[0].Mixed || rows[0].Status != "modified" || rows[0].NetStatus != "none" {
		t.Errorf("rows = %+v", rows)
	}
	if _, err := m.ModifiedFiles(t.Context(), &Range{All: true, Renames: true}); err != nil {
		t.Error(err)
	}
}

// Claims count for turns that begin later.
func TestClaimBeforeTheOther(t *testing.T) {
	b := newBench(t)
	x, y := b.open("x"), b.open("y")
	b.initialize(x)
	b.initialize(y)
	b.start(y)
	if err := y.Claim(t.Context(), "dir"); err != nil {
		t.Fatal(err)
	}
	b.start(x)
	b.write("dir/f", "1")
	b.end(x)
	b.end(y)
	if rows := b.modified(x, nil); len(rows) != 0 {
		t.Errorf("x has %+v", rows)
	}
	if d := cmp.Diff(map[string]string{"dir/f": "added claimed"}, brief(b.modified(y, nil))); d != "" {
		t.Errorf("y (-want +got):\n%s", d)
	}
}

// TestClaimOfAToolThatHasEnded: a claim says who wrote a file with an edit tool, and not who
// has changed it since, while commands of several sessions ran.
func TestClaimOfAToolThatHasEnded(t *testing.T) {
	b := newBench(t)
	tools := func(o *Options) { o.ToolWindows = true }
	x, y := b.open("x", tools), b.open("y", tools)
	look := func(_ *Result, err error) {
		t.Helper()
		b.must(err)
	}
	b.write("mine", "0")
	b.initialize(x)
	b.start(x)
	for _, path := range []string{"made", "mine"} {
		look(x.OnToolStart(t.Context(), "edit"))
		b.write(path, "x")
		b.must(x.Claim(t.Context(), path))
		look(x.OnToolEnd(t.Context(), "edit"))
	}
	b.initialize(y)
	b.start(y)
	look(x.OnToolStart(t.Context(), "command"))
	look(y.OnToolStart(t.Context(), "command"))
	b.must(os.Remove(filepath.Join(b.dir, "made")))
	b.write("mine", "y")
	look(y.OnToolEnd(t.Context(), "command"))
	b.end(y)
	look(x.OnToolEnd(t.Context(), "command"))
	b.end(x)
	want := map[string]string{"made": "deleted contested", "mine": "modified contested"}
	if d := cmp.Diff(want, brief(b.modified(y, nil))); d != "" {
		t.Errorf("y (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]string{"mine": "modified contested"}, brief(b.modified(x, nil))); d != "" {
		t.Errorf("x (-want +got):\n%s", d)
	}
}

// TestUnknownToolAfterAClaim: what the user makes of a file that the turn has written, while
// the question whether a command may run is open, is not the turn's.
func TestUnknownToolAfterAClaim(t *testing.T) {
	b := newBench(t)
	m := b.open("s", func(o *Options) { o.ToolWindows, o.Detached = true, true })
	look := func(_ *Result, err error) {
		t.Helper()
		b.must(err)
	}
	b.initialize(m)
	b.start(m)
	look(m.OnToolStart(t.Context(), "edit"))
	b.write("f", "agent")
	b.must(m.Claim(t.Context(), "f"))
	look(m.OnToolEnd(t.Context(), "edit"))
	look(m.OnToolStart(t.Context(), "command"))
	b.write("f", "user")
	b.must(inside.Of(m).ToolsUnknown(t.Context(), "command"))
	b.end(m)
	if d := cmp.Diff(map[string]string{"f": "added contested"}, brief(b.modified(m, nil))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Paths may go through the link that the directory was named by.
func TestPathsThroughALink(t *testing.T) {
	vfstest.NeedLinks(t)
	b := newBench(t)
	real := b.dir
	b.dir = filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, b.dir); err != nil {
		t.Fatal(err)
	}
	m := b.open("s")
	b.initialize(m)
	b.start(m)
	if err := m.Claim(t.Context(), filepath.Join(b.dir, "not/there/yet")); err != nil {
		t.Error(err)
	}
	b.write("f", "1")
	b.end(m)
	if d, err := m.FileDiff(t.Context(), &FileRange{Path: filepath.Join(b.dir, "f")}); err != nil || d == nil {
		t.Errorf("FileDiff = %+v, %v", d, err)
	}
}

// The file of open turns is read with care.
func TestTurnsFile(t *testing.T) {
	for text, refused := range map[string]bool{
		`{"v":2,"open":{"a":1}}`: true, `{"v":2,"open":[]}`: true,
		`{"v":1,"open":[null]}`: false, `null`: false, ``: false, `{}`: false, `{"v":1}`: false, `[1]`: false,
	} {
		b := newBench(t)
		m := b.open("s")
		b.initialize(m)
		name := filepath.Join(m.StoreDir(), "worktrees", m.Project().Worktree, "turns")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		open, err := m.OpenTurns()
		if refused != errors.Is(err, store.ErrFormat) || len(open) > 0 {
			t.Errorf("%q: OpenTurns = %v, %v", text, open, err)
		}
		_, err = m.OnTurnStart(t.Context(), nil)
		after, rerr := os.ReadFile(name)
		if rerr != nil {
			t.Fatal(rerr)
		}
		if refused != (err != nil) || refused != (string(after) == text) {
			t.Errorf("%q: OnTurnStart: %v; the file is %q", text, err, after)
		}
	}
}

// A moment's changes may be asked for while the timeline is read.
func TestAskWithinTimeline(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	b.initialize(m)
	b.turn(m, func() { b.write("f", "1") })
	b.write("user", "1")
	b.turn(m, func() { b.write("f", "2") })
	var kinds []string
	for mo, err := range m.Timeline(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, mo.Kind)
		if _, err := m.FileDiff(t.Context(), &FileRange{Path: "f"}); err != nil {
			t.Error(err)
		}
	}
	if d := cmp.Diff([]string{"step", "base", "step", "start"}, kinds); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A runtime goes back to before the first step.
func TestBackToTheStart(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	b.initialize(m)
	b.turn(m, func() { b.write("undone", "1") })
	if err := b.log.SetLeaf(""); err != nil {
		t.Fatal(err)
	}
	b.turn(m, func() { b.write("kept", "1") })
	// Its files stay as they are, so what they hold is still the session's.
	want := map[string]string{"kept": "added turn", "undone": "added turn"}
	if d := cmp.Diff(want, brief(b.modified(b.open("s"), nil))); d != "" {
		t.Errorf("by the records (-want +got):\n%s", d)
	}
	if err := inside.Of(m).UseSession("other"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Resolve(t.Context(), "@"); !errors.Is(err, ErrNoSession) {
		t.Errorf("another session without records: %v, want ErrNoSession", err)
	}
}

func TestMissingOptions(t *testing.T) {
	b := newBench(t)
	for name, err := range map[string]error{
		"nil options":  second(Open(t.Context(), b.dir, nil)),
		"no StoreRoot": second(Open(t.Context(), b.dir, &Options{Session: "s"})),
		"no session":   second(b.open("").Initialize(t.Context())),
		"no entries":   b.open("s").RebuildIndex(t.Context(), nil),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Damage to one record costs what it said, not the session.
func TestLostRecords(t *testing.T) {
	for lost := range 5 { // the start, three steps, and what the user did between
		b := newBench(t)
		m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		b.initialize(m)
		b.turn(m, func() { b.write("a", "1") })
		b.turn(m, func() { b.write("b", "2") })
		b.write("user", "1")
		b.turn(m, func() { b.write("c", "3") })
		var snaps []*store.Snapshot
		for s, err := range m.store.Snapshots(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			snaps = append([]*store.Snapshot{s}, snaps...)
		}
		if len(snaps) != 5 {
			t.Fatalf("%d records", len(snaps))
		}
		dir := m.StoreDir()
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, "journal", "00000001.log")
		journal, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		at := strings.Index(string(journal), string(snaps[lost].Tree[:]))
		journal[at] ^= 1
		if err := os.WriteFile(name, journal, 0o600); err != nil {
			t.Fatal(err)
		}

		m, err = Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"}) // without the check at the end
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if r := b.initialize(m); lost == 4 && r.Offline != nil {
			t.Errorf("the last record lost: what it had is said to be the user's: %+v", r.Offline)
		}
		b.turn(m, func() { b.write("d", "4") })
		if lost == 4 {
			want := map[string]string{"a": "added turn", "b": "added turn", "c": "added contested", "d": "added turn",
				"user": "added offline"}
			if d := cmp.Diff(want, brief(b.modified(m, &Range{Foreign: true}))); d != "" {
				t.Errorf("the last record lost (-want +got):\n%s", d)
			}
		}
		if _, err := m.Snapshot(t.Context(), nil); err != nil {
			t.Errorf("record %d lost: Snapshot: %v", lost, err)
		}
		if _, err := m.Sessions(t.Context(), false); err != nil {
			t.Errorf("record %d lost: Sessions: %v", lost, err)
		}
		steps, unknown := 0, 0
		for mo, err := range m.Timeline(t.Context()) {
			if err != nil {
				t.Errorf("record %d lost: Timeline: %v", lost, err)
				break
			}
			if mo.Kind == history.KindStep {
				steps++
			}
			if mo.Kind == "unknown" {
				unknown++
				own, _, err := mo.Changes(t.Context())
				if err != nil || mo.Added != 1 || len(own.Added) != 1 || own.Added[0] != "c" {
					t.Errorf("record %d lost: of unknown origin are %+v, counted %d, %v", lost, own, mo.Added, err)
				}
			}
		}
		if isNewest := lost == 4; isNewest != (unknown == 1) {
			t.Errorf("record %d lost: %d moments of what nobody knows", lost, unknown)
		}
		if want := map[int]int{0: 4, 1: 3, 2: 3, 3: 4, 4: 3}[lost]; steps != want {
			t.Errorf("record %d lost: %d steps, want %d", lost, steps, want)
		}
		_, err = m.ModifiedFiles(t.Context(), nil)
		if lost == 0 && !errors.Is(err, ErrUnknown) || lost > 0 && err != nil {
			t.Errorf("record %d lost: ModifiedFiles: %v", lost, err)
		}
		if rows := b.modified(m, &Range{From: "@~1"}); len(rows) != 1 {
			t.Errorf("record %d lost: the last turn has %+v", lost, rows)
		}
	}
}

// A step that the log is given late belongs where its turn ended.
func TestLateSteps(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	b.initialize(m)
	fail := func(context.Context, *StepSnapshotData) (string, error) { return "", errors.New("full") }
	b.message("user")
	b.start(m)
	a1 := b.message("assistant")
	b.write("f", "1")
	if _, err := m.OnTurnEnd(t.Context(), fail); err == nil {
		t.Fatal("no error")
	}
	u2 := b.message("user")
	b.start(m)
	a2 := b.message("assistant")
	b.write("f", "2")
	b.end(m)
	for entry, want := range map[string]string{a1: "1", u2: "1", a2: "2", "turn:0": "1", "@~1": "1", "@": "2"} {
		if d, err := m.FileDiff(t.Context(), &FileRange{Path: "f", To: entry}); err != nil || *d.NewContent != want {
			t.Errorf("at %s f is %+v, %v; want %s", entry, d, err, want)
		}
	}
	rows := b.modified(m, &Range{From: a1, To: a2})
	if len(rows) != 1 || rows[0].TurnIndex != 1 {
		t.Errorf("the second turn has %+v", rows)
	}
}

// Nor does it come to lie on the branch that the runtime has gone to since. Its
// files are still there, so it is in for who goes on there.
func TestLateStepOfAnotherBranch(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	b.initialize(m)
	user := b.message("user")
	b.start(m)
	a := b.message("assistant")
	b.write("left", "1")
	if _, err := m.OnTurnEnd(t.Context(), func(context.Context, *StepSnapshotData) (string,
		error) {
		return "", errors.New("full")
	}); err == nil {
		t.Fatal("no error")
	}
	if err := b.log.SetLeaf(user); err != nil {
		t.Fatal(err)
	}
	b.message("user")
	b.start(m)
	b.message("assistant")
	b.write("right", "1")
	b.end(m)
	if d := cmp.Diff(map[string]string{"left": "added turn", "right": "added turn"},
		brief(b.modified(m, nil))); d != "" {
		t.Errorf("this branch (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]string{"left": "added turn"}, brief(b.modified(m, &Range{To: a}))); d != "" {
		t.Errorf("the other (-want +got):\n%s", d)
	}
}

// A fork needs the start of its parent, and what later branches of its log
// name.
func TestPins(t *testing.T) {
	b := newBench(t)
	b.write("start", "1")
	b.log = session.NewTree()
	parent := b.reopen("parent")
	start := b.initialize(parent).Tree
	user := b.message("user")
	first := b.turn(parent, func() { b.write("a", "1") })
	if err := b.log.SetLeaf(user); err != nil {
		t.Fatal(err)
	}
	second := b.turn(parent, func() { b.write("b", "1") })
	fork := b.reopen("fork") // the whole log was copied
	pinned := func() map[store.ID]bool {
		set := make(map[store.ID]bool)
		for s, err := range fork.store.Snapshots(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if s.Session == "fork" {
				for _, state := range append(s.Also, s.State()) {
					set[state.Tree] = true
				}
			}
		}
		return set
	}
	have := pinned()
	for name, id := range map[string]store.ID{"start": start, "first": treeAt(t, parent, first),
		"second": treeAt(t, parent, second)} {
		if !have[id] {
			t.Errorf("%s is not pinned", name)
		}
	}
	n := snapshotCount(t, fork.store)
	b.reopen("fork")
	if now := snapshotCount(t, fork.store); now != n {
		t.Errorf("pinned again: %d records became %d", n, now)
	}
}

func treeAt(t *testing.T, m *FileSnapshotManager, rev string) store.ID {
	t.Helper()
	p, err := m.Resolve(t.Context(), rev)
	if err != nil {
		t.Fatal(err)
	}
	return p.State.Tree
}

// A file that was left out is not one that was not there.
func TestFileDiffOfWhatWasLeftOut(t *testing.T) {
	b := newBench(t)
	b.write("f.log", "1")
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write(".booignore", "*.log\n") })
	if d, err := m.FileDiff(t.Context(), &FileRange{Path: "f.log"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("FileDiff of a file that is ignored now = %+v, %v; want ErrUnknown", d, err)
	}
	if rows := b.modified(m, nil); len(rows) != 1 || rows[0].Path != ".booignore" {
		t.Errorf("rows = %+v", rows)
	}
}

// pi writes its log with the first answer.
func TestSessionFileNotThereYet(t *testing.T) {
	b := newBench(t)
	file := filepath.Join(t.TempDir(), "session.jsonl")
	m := b.open("s", func(o *Options) { o.SessionFile = file })
	b.initialize(m)
	b.start(m)
	b.write("f", "1")
	var line []byte
	r, err := m.OnTurnEnd(t.Context(), func(_ context.Context, d *StepSnapshotData) (string, error) {
		line = encode(map[string]any{"type": "custom", "customType": sessionlog.StepSnapshot, "data": d,
			"id": "step", "parentId": nil})
		return "step", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	log := `{"type":"session","version":3,"id":"s","timestamp":"2026-11-21T00:00:00.000Z","cwd":"/x"}` + "\n" + string(line) + "\n"
	if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := m.SnapshotAtEntry(t.Context(), "step"); err != nil || s.SnapshotTreeHash != r.Tree {
		t.Errorf("SnapshotAtEntry = %+v, %v", s, err)
	}
	b.turn(m, func() { b.write("g", "1") })
	if p, err := m.Resolve(t.Context(), "@"); err != nil || p.TurnIndex != 1 {
		t.Errorf("@ is %+v, %v; want the newest turn, also if the log has not got it", p, err)
	}
}

// What happened since a session looked last is offline for it, whoever found
// it; names of sessions do not get in each other's way; a manager that only
// reads does.
func TestSmallThings(t *testing.T) {
	b := newBench(t)
	one, two := b.open("one"), b.open("two")
	b.initialize(one)
	b.initialize(two)
	b.write("user", "1")
	b.initialize(one)
	if r := b.initialize(two); r.Offline == nil || len(r.Offline.Added) != 1 {
		t.Errorf("the second session finds %+v offline", r.Offline)
	}

	tricky := b.open("one.jsonl")
	b.initialize(tricky)
	b.start(tricky)
	if _, err := one.Snapshot(t.Context(), &SnapshotOptions{Label: "x"}); err != nil {
		t.Error(err)
	}
	b.end(tricky)

	fresh := newBench(t)
	fresh.initialize(fresh.open("s"))
	reader := fresh.open("s", func(o *Options) { o.ReadOnly = true })
	before, err := os.ReadDir(filepath.Join(reader.StoreDir(), "worktrees", reader.Project().Worktree))
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Claim(t.Context(), "x"); err == nil {
		t.Error("Claim of a manager that only reads: no error")
	}
	if _, err := reader.OnTurnStart(t.Context(), nil); err == nil {
		t.Error("OnTurnStart of a manager that only reads: no error")
	}
	if after, err := os.ReadDir(filepath.Join(reader.StoreDir(), "worktrees", reader.Project().Worktree)); err != nil ||
		len(after) != len(before) {
		t.Errorf("%v became %v, %v", before, after, err)
	}
}

// The runtime's leaf is the runtime's.
func TestLeafIsNotMoved(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	b.initialize(m)
	user := b.message("user")
	b.turn(m, func() { b.write("left", "1") })
	leaf := b.log.Leaf()
	if _, err := m.OnTurnStart(t.Context(), &Turn{Leaf: user}); err != nil {
		t.Fatal(err)
	}
	if b.log.Leaf() != leaf {
		t.Errorf("the leaf moved from %s to %s", leaf, b.log.Leaf())
	}
	b.write("right", "1")
	r, err := m.OnTurnEnd(t.Context(), func(_ context.Context,
		d *StepSnapshotData) (string, error) {
		return "right-step", nil
	})
	if err != nil || r.Data.TurnIndex != 1 {
		t.Fatal(r, err)
	}
	if d := cmp.Diff(map[string]string{"left": "added turn", "right": "added turn"},
		brief(b.modified(m, nil))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A store of before there were turns is gone on with.
func TestSnapshotsWithoutData(t *testing.T) {
	b := newBench(t)
	b.write("f", "1")
	m := b.open("s")
	id := b.initialize(b.open("maker")).Tree
	var seq uint64
	for range 2 {
		w, err := m.store.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		snap := &store.Snapshot{Tree: id, Worktree: m.Project().Worktree, Session: "s", Kind: "step",
			Entry: "old", Parent: seq}
		if err := errors.Join(w.Commit(t.Context(), snap, seq), w.Close()); err != nil {
			t.Fatal(err)
		}
		seq = snap.Seq
	}
	b.write("f", "2")
	if _, err := m.Snapshot(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"f": "modified turn"}, brief(b.modified(m, nil))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if p, err := m.Resolve(t.Context(), "@~1"); err != nil || p.EntryID != "old" {
		t.Errorf("@~1 is %+v, %v", p, err)
	}
	if _, err := m.Sessions(t.Context(), true); err != nil {
		t.Error(err)
	}
}

// A turn that is open stays so when the next one cannot begin.
func TestOpenTurnOutlivesAFailedStart(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	b.start(m)
	b.write("f", "1")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.OnTurnStart(cancelled, nil); err == nil {
		t.Fatal("no error")
	}
	if _, err := b.open("s").OnTurnEnd(t.Context(), nil); !errors.Is(err, ErrTurnOpen) {
		t.Errorf("OnTurnEnd by another process: %v, want ErrTurnOpen", err)
	}
	b.end(m)
	if d := cmp.Diff(map[string]string{"f": "added turn"}, brief(b.modified(m, nil))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A turn that was cut off belongs to the branch that it was on, wherever the
// session has gone since.
func TestCutOffOnAnotherBranch(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	user, agent := "", ""
	b.die("s", func(m *FileSnapshotManager) {
		b.initialize(m)
		user = b.message("user")
		b.start(m)
		agent = b.message("assistant")
		b.message("toolResult")
		b.write("left", "1")
	})
	if err := b.log.SetLeaf(user); err != nil {
		t.Fatal(err)
	}
	other := b.message("user")
	m := b.reopen("s")
	b.start(m)
	b.message("assistant")
	b.write("right", "1")
	b.end(m)
	both := map[string]string{"left": "added contested", "right": "added turn"} // what is left on the disk is in
	if d := cmp.Diff(both, brief(b.modified(m, nil))); d != "" {
		t.Errorf("where the session is (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]string{"left": "added contested"}, brief(b.modified(m, &Range{To: agent}))); d != "" {
		t.Errorf("where the turn was cut off (-want +got):\n%s", d)
	}
	if d := cmp.Diff(both, brief(b.modified(b.open("s"), nil))); d != "" {
		t.Errorf("by the records (-want +got):\n%s", d)
	}
	if rows := b.modified(m, &Range{To: user}); len(rows) != 0 {
		t.Errorf("before the turns: %+v", rows)
	}
	if rows := brief(b.modified(m, &Range{To: other})); len(rows) != 1 || rows["left"] == "" {
		t.Errorf("before the second turn: %+v", rows)
	}
}

// A snapshot that finds a turn cut off, and nothing else, records that turn
// only.
func TestSnapshotAfterCutOff(t *testing.T) {
	b := newBench(t)
	b.die("s", func(m *FileSnapshotManager) {
		b.initialize(m)
		b.start(m)
		b.write("f", "1")
	})
	m := b.open("s")
	if _, err := m.Snapshot(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	steps := 0
	for mo, err := range m.Timeline(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if mo.Kind == history.KindStep {
			steps++
		}
	}
	if steps != 1 {
		t.Errorf("%d steps, want the one that was cut off", steps)
	}
}

// A start that fails does not move the session.
func TestFailedStartKeepsTheLeaf(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	b.initialize(m)
	user := b.message("user")
	id := b.turn(m, func() { b.write("f", "1") })
	in := filepath.Join(m.StoreDir(), "worktrees", m.Project().Worktree, "turns.new")
	if err := errors.Join(os.RemoveAll(in), os.MkdirAll(filepath.Join(in, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.OnTurnStart(t.Context(), &Turn{Leaf: user}); err == nil {
		t.Fatal("no error")
	}
	if err := os.RemoveAll(in); err != nil {
		t.Fatal(err)
	}
	if p, err := m.Resolve(t.Context(), "@"); err != nil || p.EntryID != id {
		t.Errorf("@ is %+v, %v; want %s", p, err, id)
	}
}

// A runtime that names no entries and does not keep the tree up to date is led
// by the records.
func TestUnnamedEntries(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	if err := m.RebuildIndex(t.Context(), session.NewTree()); err != nil {
		t.Fatal(err)
	}
	b.initialize(m)
	for i, name := range []string{"a", "b", "c"} {
		b.start(m)
		b.write(name, "1")
		r, err := m.OnTurnEnd(t.Context(), func(context.Context, *StepSnapshotData) (string, error) { return "", nil })
		if err != nil || r.Data.TurnIndex != i {
			t.Fatalf("turn %d: %+v, %v", i, r.Data, err)
		}
	}
	if rows := b.modified(m, nil); len(rows) != 3 {
		t.Errorf("ModifiedFiles = %+v", rows)
	}
}

// What a turn that was cut off has changed is not offline, and a detached
// manager takes no turn from a process that is alive.
func TestNotOffline(t *testing.T) {
	b := newBench(t)
	b.die("s", func(m *FileSnapshotManager) {
		b.initialize(m)
		b.start(m)
		b.write("f", "1")
	})
	m := b.open("s")
	if r := b.initialize(m); r.Offline != nil {
		t.Errorf("offline: %+v", r.Offline)
	}
	b.start(m)
	other := b.open("s", func(o *Options) { o.Detached = true })
	if _, err := other.OnTurnStart(t.Context(), nil); !errors.Is(err, ErrTurnOpen) {
		t.Errorf("OnTurnStart of a detached manager: %v, want ErrTurnOpen", err)
	}
	b.end(m)
}

// timeline tells a timeline in short: kind/turn/entry, newest first.
func (b *bench) timeline(m *FileSnapshotManager) (list []string) {
	b.Helper()
	for mo, err := range m.Timeline(b.Context()) {
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, fmt.Sprint(mo.Kind, "/", mo.TurnIndex, "/", mo.EntryID))
	}
	return list
}

// failing is a turn whose step the runtime's log does not take.
func (b *bench) failing(m *FileSnapshotManager, fn func()) {
	b.Helper()
	b.start(m)
	fn()
	_, err := m.OnTurnEnd(b.Context(), func(context.Context, *StepSnapshotData) (string,
		error) {
		return "", errors.New("full")
	})
	if err == nil {
		b.Error("no error")
	}
}

// However many steps a log did not take, the line goes on behind them, also if
// the record of one is lost.
func TestManyUntoldSteps(t *testing.T) {
	for _, lose := range []bool{false, true} {
		b := newBench(t)
		b.log = session.NewTree()
		var lost store.ID
		var dir string
		b.die("s", func(m *FileSnapshotManager) {
			dir = m.StoreDir()
			b.initialize(m)
			b.message("user")
			for i := range 40 {
				b.failing(m, func() { b.write(fmt.Sprint("f", i), "1") })
				if i == 20 {
					r, err := m.records.Newest("s")
					if err != nil {
						t.Fatal(err)
					}
					lost = r.Tree
				}
			}
		})
		if lose {
			flipFirst(t, filepath.Join(dir, "journal", "00000001.log"), lost[:])
		}
		m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"}) // without the check at the end
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if err := m.RebuildIndex(t.Context(), b.log); err != nil {
			t.Fatal(err)
		}
		b.initialize(m)
		b.start(m)
		b.write("last", "1")
		if r := b.end(m); r.Data.TurnIndex != 40 {
			t.Errorf("lose %v: the last turn is turn %d, want 40", lose, r.Data.TurnIndex)
		}
		want := 41
		if lose {
			want-- // the step itself
		}
		if got := len(b.modified(m, nil)); got != want {
			t.Errorf("lose %v: %d files modified, want %d", lose, got, want)
		}
	}
}

// flipFirst damages the first place in a file that has these bytes.
func flipFirst(t *testing.T, name string, content []byte) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, content)
	if at < 0 {
		t.Fatalf("%x is not in %s", content, name)
	}
	data[at] ^= 1
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A step that the log got late stays on its branch where the branches part at
// the entry that it belongs behind.
func TestLateStepAtFork(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	b.initialize(m)
	root := b.message("user")
	b.message("assistant")
	first := b.turn(m, func() { b.write("b", "1") })
	if err := b.log.SetLeaf(root); err != nil {
		t.Fatal(err)
	}
	b.failing(m, func() { b.write("c", "1") }) // nothing of its turn is logged yet
	b.message("assistant")
	b.start(m)
	b.end(m) // changes nothing, but the log is told of c
	// Whatever branch the conversation goes to, the files of both are there.
	both := map[string]string{"b": "added turn", "c": "added turn"}
	if d := cmp.Diff(both, brief(b.modified(m, nil))); d != "" {
		t.Errorf("the new branch (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]string{"b": "added turn"}, brief(b.modified(m, &Range{To: first}))); d != "" {
		t.Errorf("the old branch (-want +got):\n%s", d)
	}
	if err := b.log.SetLeaf(root); err != nil {
		t.Fatal(err)
	}
	b.message("user")
	if d := cmp.Diff(both, brief(b.modified(m, nil))); d != "" {
		t.Errorf("a third branch (-want +got):\n%s", d)
	}
}

// A turn that was cut off stays on its branch, also where the log got its
// message of the user only after it had begun.
func TestCutOffTurnLoggedAfterStart(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	b.initialize(m)
	b.message("user")
	b.message("assistant")
	fork := b.turn(m, func() { b.write("before", "1") })
	b.start(m)
	b.message("user")
	b.message("assistant")
	b.write("cut", "1") // and it never ends
	if err := b.log.SetLeaf(fork); err != nil {
		t.Fatal(err)
	}
	b.start(m)
	b.message("user")
	b.message("assistant")
	b.write("after", "1")
	b.end(m)
	want := map[string]string{"before": "added turn", "cut": "added contested", "after": "added turn"}
	if d := cmp.Diff(want, brief(b.modified(m, nil))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A step that is in the session file is not appended again, whatever the
// callback said.
func TestStepIsInFileAlready(t *testing.T) {
	b := newBench(t)
	file := filepath.Join(t.TempDir(), "s.jsonl")
	leaf := "m0"
	log := func(line string) {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(line + "\n")
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	log(`{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/x"}`)
	log(`{"type":"message","id":"m0","parentId":null,"timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":"x"}}`)
	calls := 0
	tell := func(_ context.Context, d *StepSnapshotData) (string, error) {
		calls++
		id := fmt.Sprint("step", calls)
		log(fmt.Sprintf(`{"type":"custom","customType":"step-snapshot","id":%q,"parentId":%q,"timestamp":"2026-01-01T00:00:00Z","data":%s}`, id, leaf, encode(d)))
		leaf = id
		return id, nil
	}
	withFile := func(o *Options) { o.SessionFile = file }
	m := b.open("s", withFile)
	b.initialize(m)
	b.start(m)
	b.write("f", "1")
	if _, err := m.OnTurnEnd(t.Context(), func(ctx context.Context, d *StepSnapshotData) (string, error) {
		tell(ctx, d)
		return "", errors.New("not synced")
	}); err == nil {
		t.Error("no error")
	}
	again := b.open("s", withFile)
	b.start(again)
	b.write("g", "1")
	if _, err := again.OnTurnEnd(t.Context(), tell); err != nil {
		t.Fatal(err)
	}
	if calls != 2 {
		t.Errorf("%d entries for 2 steps", calls)
	}
	want := []string{"step/1/step2", "step/0/step1", "start/-1/"}
	if d := cmp.Diff(want, b.timeline(again)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A log and the records tell the same story, with what the user did.
func TestTimelineByLog(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	b.initialize(m)
	b.write("user", "1")
	b.initialize(m)
	b.message("user")
	b.turn(m, func() { b.write("f", "1") })
	b.write("user", "2")
	b.initialize(m)
	got := b.timeline(m)
	if d := cmp.Diff(b.timeline(b.open("s")), got); d != "" {
		t.Errorf("(-records +log):\n%s", d)
	}
	if len(got) != 4 {
		t.Errorf("timeline is %q", got)
	}
	for mo, err := range m.Timeline(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if own, _, err := mo.Changes(t.Context()); mo.Kind == history.KindBase && (err != nil || own.Len() != 1) {
			t.Errorf("an offline change is %+v, %v", own, err)
		}
	}
}

// Our own log of a session is one that can be named as its file.
func TestOwnLogAsSessionFile(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	if _, err := m.Snapshot(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	file, err := inside.Of(m).ExportLog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byFile := b.open("s", func(o *Options) { o.SessionFile = file })
	b.write("f", "1")
	r, err := byFile.Snapshot(t.Context(), nil)
	if err != nil || r.Data.TurnIndex != 0 {
		t.Errorf("the first turn is %+v, %v", r, err)
	}
	if d := cmp.Diff(b.timeline(m), b.timeline(byFile)); d != "" {
		t.Errorf("(-records +file):\n%s", d)
	}
	if p, err := byFile.Resolve(t.Context(), "@~2"); err == nil {
		t.Errorf("there is a snapshot before the start: %+v", p)
	}
}

// A manager that takes up a session whose turn was cut off says so, and what
// was cut off is one turn.
func TestAfterACutOffTurn(t *testing.T) {
	for name, fn := range map[string]func(m *FileSnapshotManager) error{
		"Claim":       func(m *FileSnapshotManager) error { return m.Claim(t.Context(), "f") },
		"OnToolStart": func(m *FileSnapshotManager) error { return second(m.OnToolStart(t.Context(), "x")) },
		"OnTurnEnd":   func(m *FileSnapshotManager) error { return second(m.OnTurnEnd(t.Context(), nil)) },
		"Snapshot":    func(m *FileSnapshotManager) error { return second(m.Snapshot(t.Context(), nil)) },
	} {
		b := newBench(t)
		b.die("s", func(m *FileSnapshotManager) {
			b.initialize(m)
			b.start(m)
			b.write("f", "1")
		})
		m := b.open("s")
		var want error
		if name == "Claim" || name == "OnToolStart" {
			want = ErrNoTurn
		}
		if err := fn(m); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		b.start(m)
		b.write("g", "1")
		if r := b.end(m); r.Data.TurnIndex != 1 {
			t.Errorf("%s: the next turn is turn %d, want 1", name, r.Data.TurnIndex)
		}
	}
}

// A call whose context has ended says what it was for. Which session the manager has by
// then, who has no lock cannot know.
func TestCancelledSaysWhat(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	used := make(chan error)
	go func() {
		var err error
		for i := range 100 {
			err = errors.Join(err, door{m}.UseSession(fmt.Sprint("s", i)))
		}
		used <- err
	}()
	_, _, ended := m.EndTurn(ctx)
	for want, err := range map[string]error{
		"initialize: ":   second(m.Initialize(ctx)),
		"start a turn: ": second(m.OnTurnStart(ctx, nil)),
		"end a turn: ":   errors.Join(second(m.OnTurnEnd(ctx, nil)), ended),
		"snapshot: ":     second(m.Snapshot(ctx, nil)),
	} {
		for line := range strings.Lines(fmt.Sprintln(err)) {
			if !errors.Is(err, context.Canceled) || !strings.HasPrefix(line, want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
	if err := <-used; err != nil {
		t.Error(err)
	}
	if err := os.Rename(b.dir, b.dir+"-away"); err != nil {
		t.Fatal(err)
	}
	_, _, ended = m.EndTurn(t.Context())
	for _, err := range []error{second(m.OnTurnEnd(t.Context(), nil)), ended} {
		if !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), `end a turn of session "s99": `) {
			t.Errorf("with the lock: %v", err)
		}
	}
}

// On the way back the newest change to a file is the first.
func TestForeignBackwards(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("x", "1") })
	b.write("u", "1")
	b.initialize(m)
	b.write("u", "2")
	b.turn(m, func() { b.write("x", "2") })
	for r, want := range map[Range]string{
		{Foreign: true, All: true}:                          "added offline",
		{Foreign: true, All: true, From: "@", To: "turn:0"}: "modified offline, net deleted",
	} {
		if got := brief(b.modified(m, &r))["u"]; got != want {
			t.Errorf("%+v: u is %q, want %q", r, got, want)
		}
	}
}

// A message of the user stands for what was before its turn, also where the
// turn's step was never logged.
func TestUserMessageOfUnloggedTurn(t *testing.T) {
	for _, told := range []bool{false, true} {
		b := newBench(t)
		b.log = session.NewTree()
		m := b.reopen("s")
		b.initialize(m)
		b.message("user")
		b.message("assistant")
		b.turn(m, func() { b.write("f", "1") })
		u := b.message("user")
		b.failing(m, func() { b.write("g", "1") })
		if told {
			b.message("assistant")
			b.turn(m, func() { b.write("h", "1") })
		}
		p, err := m.Resolve(t.Context(), u)
		if err != nil || p.TurnIndex != 0 {
			t.Errorf("told %v: the message is at turn %d, %v; want 0", told, p.TurnIndex, err)
		}
		if rows := b.modified(m, &Range{To: u}); len(rows) != 1 {
			t.Errorf("told %v: before the message: %v", told, brief(rows))
		}
	}
}

// A log that was in another store meanwhile keeps the steps of both.
func TestLogFromElsewhereAndBack(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	b.initialize(m)
	b.message("user")
	b.turn(m, func() { b.write("f", "1") })
	b.failing(m, func() { b.write("g", "1") })
	far := newBench(t)
	far.log = b.log
	o := far.reopen("s")
	far.initialize(o)
	far.message("user")
	far.turn(o, func() { far.write("far", "1") })
	m = b.reopen("s")
	b.turn(m, func() { b.write("h", "1") })
	var got []string
	for mo, err := range m.Timeline(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if mo.Kind == history.KindStep {
			own, _, err := mo.Changes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, own.Added...)
		}
	}
	if d := cmp.Diff([]string{"h", "far", "g", "f"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Parents that form a cycle are an error wherever they are.
func TestCycleOffThePath(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	base := b.initialize(m).Tree
	for _, e := range [][2]string{{"self", "self"}, {"a", "b"}, {"b", "a"}} {
		d := &StepSnapshotData{BaselineTreeHash: &base, SnapshotTreeHash: base, SnapshotSeq: 999}
		b.log.Add(d.Entry(e[0], e[1]))
	}
	b.log.Add(session.Entry{ID: "root", Type: "message", Role: "user"})
	m = b.reopen("s")
	b.turn(m, func() { b.write("f", "1") })
	for _, rev := range []string{"self", "a", "b"} {
		if _, err := m.ModifiedFiles(t.Context(), &Range{From: rev}); !errors.Is(err, session.ErrCycle) {
			t.Errorf("from %s: %v, want %v", rev, err, session.ErrCycle)
		}
	}
}

// A turn that ends in another process is on the branch on which it began.
func TestDetachedTurnOnBranch(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	detached := func(o *Options) { o.Detached = true }
	m := b.reopen("s", detached)
	b.initialize(m)
	root := b.message("user")
	left := b.turn(m, func() { b.write("left", "1") })
	m = b.reopen("s", detached)
	if _, err := m.OnTurnStart(t.Context(), &Turn{Leaf: root}); err != nil {
		t.Fatal(err)
	}
	m = b.reopen("s", detached)
	b.write("right", "1")
	if _, err := m.OnTurnEnd(t.Context(), func(context.Context, *StepSnapshotData) (string,
		error) {
		return "", errors.New("full")
	}); err == nil {
		t.Error("no error")
	}
	for _, leaf := range []string{root, left} {
		if err := b.log.SetLeaf(leaf); err != nil {
			t.Fatal(err)
		}
		b.message("user")
		m = b.reopen("s", detached)
		if got := brief(b.modified(m, nil)); len(got) != 2 {
			t.Errorf("below %s: %v, want what both turns did", leaf, got)
		}
	}
	if got := brief(b.modified(m, &Range{To: left})); len(got) != 1 || got["left"] == "" {
		t.Errorf("at the first turn: %v, want left", got)
	}
}

// What a fork lists of its parent it can be asked for, also by who has no log; what the
// parent did after that is the parent's.
func TestForkNamesWhatItLists(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	parent := b.reopen("parent")
	b.initialize(parent)
	b.message("user")
	b.turn(parent, func() { b.write("f", "1") })
	b.write("mine", "1")
	b.message("user")
	b.turn(parent, func() { b.write("g", "1") })
	fork := b.reopen("fork")
	b.initialize(fork)
	b.message("user")
	b.turn(fork, func() { b.write("h", "1") })
	later := b.turn(parent, func() { b.write("i", "1") })
	records := b.open("fork")
	var inherited int
	for mo, err := range records.Timeline(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		name := history.NameOf(mo.EntryID, mo.Snapshot)
		if p, err := records.Resolve(t.Context(), name); err != nil {
			t.Errorf("Resolve(%q), a %s of the log: %v", name, mo.Kind, err)
		} else if p.State.Tree != mo.Tree {
			t.Errorf("Resolve(%q) = tree %v, want %v", name, p.State.Tree, mo.Tree)
		}
		if mo.Snapshot.Session == "parent" {
			inherited++
		}
	}
	if inherited < 3 {
		t.Errorf("the fork lists %d moments of its parent, want 3 or more", inherited)
	}
	if _, err := records.Resolve(t.Context(), later); !errors.Is(err, ErrOtherSession) {
		t.Errorf("a turn of the parent after the fork: %v, want %v", err, ErrOtherSession)
	}
}

// A snapshot that somebody takes in a runtime's session waits for the
// runtime's log like a step of its own.
func TestSnapshotInRuntimesSession(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	b.initialize(m)
	b.message("user")
	b.turn(m, func() { b.write("f", "1") })
	b.write("mine", "1")
	if _, err := m.Snapshot(t.Context(), &SnapshotOptions{Label: "x"}); err != nil {
		t.Fatal(err)
	}
	b.start(m)
	b.write("g", "1")
	if r := b.end(m); r.Data.TurnIndex != 2 {
		t.Errorf("the next turn is turn %d, want 2", r.Data.TurnIndex)
	}
	for name, m := range map[string]*FileSnapshotManager{"log": m, "records": b.open("s")} {
		if got := len(b.timeline(m)); got != 4 {
			t.Errorf("by the %s the timeline has %d moments, want 4", name, got)
		}
	}
}

// A fork keeps the steps that its log did not take behind a place before the
// copied ones.
func TestForkWithUnloggedStep(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	a := b.reopen("a")
	b.initialize(a)
	u := b.message("user")
	first := b.turn(a, func() { b.write("f", "1") })
	m := b.reopen("b")
	b.initialize(m)
	at := func(leaf string) {
		if err := b.log.SetLeaf(leaf); err != nil {
			t.Fatal(err)
		}
	}
	at(u)
	b.failing(m, func() { b.write("g", "1") })
	at(first)
	b.turn(m, func() { b.write("h", "1") })
	at(u)
	if got := brief(b.modified(m, nil)); len(got) != 3 {
		t.Errorf("before the copied step: %v, want all that is in", got)
	}
}

// An entry from another store is not taken for a record that has its number
// and its tree by chance.
func TestEntryOfAnotherStore(t *testing.T) {
	far := newBench(t)
	far.log = session.NewTree()
	o := far.reopen("s")
	far.write("f", "0")
	far.initialize(o)
	for _, content := range []string{"1", "2"} {
		far.turn(o, func() { far.write("f", content) })
	}
	b := newBench(t)
	other := b.open("other")
	b.write("f", "x")
	b.initialize(other)
	for _, content := range []string{"y", "2"} {
		b.turn(other, func() { b.write("f", content) })
	}
	b.log = far.log
	m := b.reopen("s")
	want, got := far.timeline(o), b.timeline(m)
	if !cmp.Equal(want[:2], got[:min(2, len(got))]) {
		t.Errorf("timeline is %q, want %q", got, want)
	}
}

// Two steps cannot have one entry.
func TestSameEntryTwice(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	same := func(context.Context, *StepSnapshotData) (string, error) { return "same", nil }
	for i, want := range []error{nil, session.ErrEntryExists} {
		b.start(m)
		b.write("f", fmt.Sprint(i))
		if _, err := m.OnTurnEnd(t.Context(), same); !errors.Is(err, want) {
			t.Errorf("turn %d: %v, want %v", i, err, want)
		}
	}
}

// Turns that changed nothing count on their own branch.
func TestEmptyTurnsOnBranch(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	b.initialize(m)
	b.message("user")
	first := b.turn(m, func() { b.write("f", "1") })
	b.message("user")
	b.turn(m, func() {})
	b.turn(m, func() {})
	if err := b.log.SetLeaf(first); err != nil {
		t.Fatal(err)
	}
	b.message("user")
	b.start(m)
	b.write("g", "1")
	if r := b.end(m); r.Data.TurnIndex != 3 {
		t.Errorf("turn %d, want 3: each number is given once", r.Data.TurnIndex)
	}
}

// A late step counts on every branch that leaves its own below it.
func TestLateStepAboveFork(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	b.initialize(m)
	b.message("user")
	b.message("assistant")
	b.turn(m, func() { b.write("f", "1") })
	b.message("user")
	b.message("assistant")
	b.failing(m, func() { b.write("g", "1") })
	fork := b.message("user")
	b.message("assistant")
	b.turn(m, func() { b.write("h", "1") }) // and g is told, on this branch
	if err := b.log.SetLeaf(fork); err != nil {
		t.Fatal(err)
	}
	b.message("assistant")
	b.message("user")
	if d := cmp.Diff(map[string]string{"f": "added turn", "g": "added turn", "h": "added turn"},
		brief(b.modified(m, nil))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]string{"f": "added turn", "g": "added turn"},
		brief(b.modified(m, &Range{To: fork}))); d != "" {
		t.Errorf("where the branches part (-want +got):\n%s", d)
	}
}

// A turn that another process has open, and that is alive, is not taken from
// it.
func TestTurnOfDetachedManager(t *testing.T) {
	b := newBench(t)
	d := b.open("s", func(o *Options) { o.Detached = true })
	b.initialize(d)
	b.start(d)
	b.write("f", "1")
	if _, err := b.open("s").OnTurnStart(t.Context(), nil); !errors.Is(err, ErrTurnOpen) {
		t.Errorf("OnTurnStart: %v, want %v", err, ErrTurnOpen)
	}
	if r := b.end(d); r.Data == nil || r.Data.Interrupted {
		t.Errorf("the turn: %+v", r.Data)
	}
}

// A turn that was cut off is on the branch of its messages, whatever else the
// runtime notes below the place where it began.
func TestCutOffTurnBesideNotes(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	b.initialize(m)
	b.message("user")
	leaf := b.turn(m, func() { b.write("f", "1") })
	b.start(m)
	b.message("user")
	cut := b.message("assistant")
	b.write("g", "1")
	if err := b.log.SetLeaf(leaf); err != nil {
		t.Fatal(err)
	}
	b.log.Add(session.Entry{ID: "note", ParentID: leaf, Type: "model_change"})
	b.message("user")
	b.start(m)
	if got := brief(b.modified(m, &Range{To: "note"})); got["g"] != "" {
		t.Errorf("the new branch has %v", got)
	}
	b.end(m)
	if err := b.log.SetLeaf(cut); err != nil {
		t.Fatal(err)
	}
	if got := brief(b.modified(m, nil)); got["g"] == "" {
		t.Errorf("the branch of the turn has %v", got)
	}
}

// A step that was recorded before the log had any entry comes before all.
func TestLateStepBeforeAll(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	b.initialize(m)
	b.failing(m, func() { b.write("f", "1") })
	user := b.message("user")
	agent := b.message("assistant")
	b.turn(m, func() { b.write("g", "1") })
	for entry, want := range map[string]int{user: 0, agent: 1} {
		p, err := m.Resolve(t.Context(), entry)
		if err != nil || p.TurnIndex != want {
			t.Errorf("entry %s is at turn %d, %v; want %d", entry, p.TurnIndex, err, want)
		}
	}
}

// An entry that is replaced counts as what it is then.
func TestReplacedEntry(t *testing.T) {
	b := newBench(t)
	log := session.NewTree()
	b.log = log
	m := b.reopen("s")
	b.initialize(m)
	b.start(m)
	b.write("f", "1")
	log.Add(session.Entry{ID: "step", Type: "custom", CustomType: sessionlog.StepSnapshot, Data: json.RawMessage(`{}`)})
	if _, err := m.OnTurnEnd(t.Context(), func(_ context.Context, d *StepSnapshotData) (string, error) {
		log.Add(d.Entry("step", ""))
		return "", nil
	}); err != nil {
		t.Fatal(err)
	}
	if m.given == nil {
		t.Error("the log was forgotten, although it has the step")
	}
}

// A turn does not begin while somebody restores more than files, whichever its
// session, and does so afterwards.
func TestNoTurns(t *testing.T) {
	b := newBench(t)
	one, other := b.open("one"), b.open("other")
	unlock, err := one.TryLock(NoTurns)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.TryLock(NoTurns); !errors.Is(err, ErrLocked) {
		t.Errorf("the lock twice: %v, want ErrLocked", err)
	}
	for _, m := range []*FileSnapshotManager{one, other} {
		if _, err := m.OnTurnStart(t.Context(), nil); !errors.Is(err, ErrLocked) {
			t.Errorf("a turn: %v, want ErrLocked", err)
		}
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*FileSnapshotManager{one, other} {
		if _, err := m.OnTurnStart(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
}
