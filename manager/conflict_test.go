package manager

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/session"
)

// conflictDay is a session in which turn 0 changed the first and the last line of p, and
// somebody has changed the first since.
func conflictDay(t *testing.T, since func(b *bench, m *FileSnapshotManager)) (*bench, *FileSnapshotManager) {
	t.Helper()
	b := newBench(t)
	m := b.open("s")
	b.write("p", revertText)
	b.write("q", "Q\n")
	b.initialize(m)
	b.turn(m, func() { b.replace("p", "1", "A"); b.replace("p", "3", "C") })
	since(b, m)
	return b, m
}

// Lines of a turn that were given up by theirs are the turn's still: what comes back of it
// with an undo does not go with another revert for being nowhere that others have left.
func TestGivenUpComesBack(t *testing.T) {
	b, m := conflictDay(t, func(b *bench, m *FileSnapshotManager) {
		b.turn(m, func() { b.replace("p", "A", "B") })
	})
	r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}, OnConflict: rollback.ConflictTheirs})
	if err != nil || !r.IsComplete() {
		t.Fatal(r, err)
	}
	b.expectFiles(files{"p": revertText, "q": "Q\n"})
	b.turn(m, func() { b.replace("p", "2", "D") })
	if _, err := m.Undo(t.Context(), &UndoOptions{OnDirty: rollback.Merge}); err != nil {
		t.Fatal(err)
	}
	all := files{"p": "B\n-\nD\n-\nC\n", "q": "Q\n"}
	b.expectFiles(all)
	r, err = m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}})
	if err != nil || len(r.Conflicts) != 1 || r.Conflicts[0].Path != "p" {
		t.Errorf("%+v, %v; want a conflict in p", r, err)
	}
	b.expectFiles(files{"p": "B\n-\nD\n-\n3\n", "q": "Q\n"})
}

// A file that goes with two turns, and has lines of somebody else, which the second one has
// deleted, stays away: who deleted it is said, and taken back alone that brings the file.
func TestConflictOfDeleted(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("p", revertText) })
	b.replace("p", "1", "u")
	was := b.files()["p"]
	b.turn(m, func() { b.remove("p") })
	r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0", "1"}})
	const want = "conflict: turn 0 made it, and you changed it, and turn 1 deleted it, which 'revert' takes back alone"
	if err != nil || len(r.Conflicts) != 1 || len(r.Items) != 1 || r.Items[0].Why != want || r.Snapshot != nil {
		t.Fatalf("%+v, %v; want %q", r, err, want)
	}
	b.expectFiles(files{})
	if r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"1"}}); err != nil || !r.IsComplete() {
		t.Errorf("%+v, %v", r, err)
	}
	b.expectFiles(files{"p": was})
	b.undo(m)
	b.forget(m, &retain.ForgetOptions{Paths: []string{"p"}})
	if r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0", "1"}}); !errors.Is(err, ErrNothing) {
		t.Errorf("of what was forgotten: %+v, %v; want that nothing is left", r, err)
	}
}

// What is in the way of a revert is named: turns of this session and of others, the user,
// and of turns only those that touch the same lines.
func TestBlockedBy(t *testing.T) {
	other := func(b *bench, fn func()) {
		o := b.open("other")
		b.initialize(o)
		b.turn(o, fn)
	}
	const byHand = "snapctl --session s revert turn:0 --on-conflict markers -- p"
	for _, c := range []struct {
		name  string
		since func(b *bench, m *FileSnapshotManager)
		want  []string
		text  string
		hint  string
	}{
		{"the user", func(b *bench, _ *FileSnapshotManager) { b.replace("p", "A", "u") },
			[]string{"user"}, "you and turn 0 changed the same lines", byHand},
		{"a turn", func(b *bench, m *FileSnapshotManager) { b.turn(m, func() { b.replace("p", "A", "B") }) },
			[]string{"turn:1"}, "turn 1 and turn 0 changed the same lines", "snapctl --session s revert turn:0 turn:1"},
		{"two turns, and one that is elsewhere", func(b *bench, m *FileSnapshotManager) {
			b.turn(m, func() { b.replace("p", "A", "B") })
			b.turn(m, func() { b.replace("p", "2", "X") })
			b.turn(m, func() { b.replace("p", "B", "A2") })
		}, []string{"turn:1", "turn:3"}, "turn 1, turn 3 and turn 0 changed the same lines",
			"snapctl --session s revert turn:0 turn:1 turn:3"},
		{"behind lines that others added", func(b *bench, m *FileSnapshotManager) {
			b.turn(m, func() { b.write("p", "new\nnew\nnew\n"+b.files()["p"]) })
			b.turn(m, func() { b.replace("p", "A", "B") })
		}, []string{"turn:1", "turn:2"}, "turn 1, turn 2 and turn 0 changed the same lines",
			"snapctl --session s revert turn:0 turn:1 turn:2"},
		{"a turn and the user", func(b *bench, m *FileSnapshotManager) {
			b.turn(m, func() { b.replace("p", "A", "B") })
			b.replace("p", "B", "u")
		}, []string{"turn:1", "user"}, "turn 1, you and turn 0 changed the same lines", byHand},
		{"the user, before a turn that is elsewhere", func(b *bench, m *FileSnapshotManager) {
			b.replace("p", "A", "u")
			b.turn(m, func() { b.replace("p", "2", "B") })
		}, []string{"user"}, "you and turn 0 changed the same lines", byHand},
		{"another session", func(b *bench, _ *FileSnapshotManager) { other(b, func() { b.replace("p", "A", "B") }) },
			[]string{"session other turn:0"}, "turn 0 of session other and turn 0 changed the same lines", byHand},
		{"a turn, not one that was taken back", func(b *bench, m *FileSnapshotManager) {
			b.turn(m, func() { b.replace("p", "A", "B") })
			b.revert(m, "1")
			b.turn(m, func() { b.replace("p", "A", "D") })
		}, []string{"turn:2"}, "turn 2 and turn 0 changed the same lines", "snapctl --session s revert turn:0 turn:2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, m := conflictDay(t, c.since)
			before := b.files()
			r := b.revert(m, "0")
			want := []Conflict{{Path: "p", Why: "lines", BlockedBy: c.want, Hint: c.hint}}
			if d := cmp.Diff(want, r.Conflicts); d != "" {
				t.Errorf("conflicts (-want +got):\n%s", d)
			}
			if len(r.Items) != 1 || r.Items[0].Why != "conflict: "+c.text || !r.Items[0].IsPart() {
				t.Errorf("items %+v, want %q", r.Items, c.text)
			}
			if d := cmp.Diff([]MergedFile{{Path: "p", Hunks: 1}}, r.Merged); d != "" {
				t.Errorf("merged (-want +got):\n%s", d)
			}
			if fmt.Sprint(r.Restored, r.Dirty, r.Skipped) != "[p] [p] []" || r.IsComplete() {
				t.Errorf("restored %q, dirty %q, skipped %q, complete %t", r.Restored, r.Dirty,
					r.Skipped, r.IsComplete())
			}
			b.expectFiles(files{"p": strings.Replace(before["p"], "C", "3", 1), "q": "Q\n"})
			if !strings.Contains(c.hint, "--") { // see TestHintSettles for the others
				b.revert(m, strings.Fields(c.hint)[2:]...)
				if b.files()["p"][0] != '1' && !strings.Contains(b.files()["p"], "\n1\n") {
					t.Errorf("the hint leads to %q", b.files()["p"])
				}
				b.undo(m)
			}
			b.undo(m)
			b.expectFiles(before)
		})
	}
}

// Of whom nothing says in which turn that was it is not said.
func TestBlamerNames(t *testing.T) {
	b := &blamer{turns: map[string]int{"s": 3, "t": 4}, past: map[string]uint64{"s": 9, "p": 5}}
	for session, want := range map[string]string{"s": "turn:3", "p": "unknown", "t": "session t turn:4",
		"u": "session u", history.Nobody: "unknown"} {
		if got := b.names([]string{session}, 5); !slices.Equal(got, []string{want}) {
			t.Errorf("session %q is %q, want %q", session, got, want)
		}
	}
	if got := namesOf([]string{"session u", "session t turn:4"}); got != "session u and turn 4 of session t" {
		t.Errorf("for people: %s", got)
	}
}

// What becomes of a conflict is as was asked for; an undo brings every byte back.
func TestOnConflict(t *testing.T) {
	const marked = "<<<<<<< now\nu\n||||||| after turn 0\nA\n=======\n1\n>>>>>>> before turn 0\n-\n2\n-\n3\n"
	for _, c := range []struct {
		how       rollback.OnConflict
		want      string // p; "": nothing is changed
		conflicts int
		again     error // of the same revert
	}{
		{"", "u\n-\n2\n-\n3\n", 1, nil},
		{rollback.ConflictKeep, "u\n-\n2\n-\n3\n", 1, nil},
		{rollback.ConflictTheirs, "1\n-\n2\n-\n3\n", 0, ErrNothing},
		{rollback.ConflictMarkers, marked, 1, nil},
		{rollback.ConflictAbort, "", 1, nil},
	} {
		t.Run(string(c.how), func(t *testing.T) {
			b, m := conflictDay(t, func(b *bench, m *FileSnapshotManager) { b.replace("p", "A", "u") })
			before := b.files()
			opts := &RevertOptions{Turns: []string{"0"}, OnConflict: c.how}
			r, err := m.Revert(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Conflicts) != c.conflicts || r.IsComplete() != (c.conflicts == 0) || r.Aborted != (c.want == "") {
				t.Errorf("conflicts %v, complete %t, aborted %t", r.Conflicts, r.IsComplete(), r.Aborted)
			}
			if c.want == "" {
				b.expectFiles(before)
				return
			}
			b.holds("p", c.want)
			if _, err := m.Revert(t.Context(), opts); !errors.Is(err, c.again) {
				t.Errorf("again: %v", err)
			}
			b.holds("p", c.want)
			b.undo(m)
			b.expectFiles(before)
		})
	}
}

// What theirs has given up in a file is forgotten where the file is merged anew, since it
// came to what a turn had left.
func TestTheirsMergedAnew(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("p", "1\n-\n2\n-\n3\n-\n4\n")
	b.initialize(m)
	b.turn(m, func() { b.replace("p", "1", "A") })
	b.replace("p", "2", "mine")
	b.turn(m, func() { b.replace("p", "3", "B") })
	b.turn(m, func() { b.replace("p", "4", "C") })
	b.replace("p", "C", "mine, too")
	r := b.restore(m, &RestoreOptions{Target: "start", OnDirty: rollback.Merge, OnConflict: rollback.ConflictTheirs})
	if !r.IsComplete() {
		t.Errorf("%+v", r)
	}
	b.holds("p", "1\n-\nmine\n-\n3\n-\n4\n")
}

// A file with markers of a conflict is not merged until they are gone, by no session, and
// the markers of the next conflict are longer.
func TestMarked(t *testing.T) {
	const text = "<<<<<<<\nu\n-\n2\n-\nC\n"
	b, m := conflictDay(t, func(b *bench, m *FileSnapshotManager) { b.write("p", text) })
	marked := func(m *FileSnapshotManager, want ...string) {
		t.Helper()
		if got, err := m.Marked(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("marked: %q, %v, want %q", got, err, want)
		}
	}
	opts := &RevertOptions{Turns: []string{"0"}, OnConflict: rollback.ConflictMarkers}
	marked(m)
	r, err := m.Revert(t.Context(), opts)
	if err != nil || len(r.Conflicts) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	b.holds("p",
		"<<<<<<<< now\n<<<<<<<\nu\n|||||||| after turn 0\nA\n========\n1\n>>>>>>>> before turn 0\n-\n2\n-\n3\n")
	marked(m, "p")
	for _, how := range []rollback.OnConflict{rollback.ConflictKeep, rollback.ConflictTheirs,
		rollback.ConflictMarkers} {
		before := b.files()
		opts.OnConflict = how
		r, err := m.Revert(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]Conflict{{Path: "p", Why: "markers", BlockedBy: []string{"user"}}}, r.Conflicts); d != "" {
			t.Errorf("%s: conflicts (-want +got):\n%s", how, d)
		}
		b.expectFiles(before)
	}
	o := b.open("other")
	b.initialize(o)
	b.turn(o, func() { b.replace("p", "\n2\n", "\nB\n") })
	marked(o, "p")
	b.write("p", b.files()["p"]+"more\n")
	if r := b.revert(o, "0"); len(r.Conflicts) != 1 || r.Conflicts[0].Why != "markers" {
		t.Errorf("by another session: %+v", r.Conflicts)
	}
	b.write("p", text) // the user has resolved it
	marked(m)
	if r := b.revert(m, "0"); len(r.Conflicts) != 1 || r.Conflicts[0].Why != "lines" {
		t.Errorf("once it is resolved: %+v", r.Conflicts)
	}
}

// Which files have markers is found by the restores that have left some, not by all.
func TestMarkedReadsFew(t *testing.T) {
	b, m := conflictDay(t, func(b *bench, m *FileSnapshotManager) {
		b.write("p", strings.Replace(b.files()["p"], "A", "u", 1))
	})
	restore := func(n int) {
		t.Helper()
		for i := range n {
			target := []string{"start", "turn:0"}[i%2]
			opts := &RestoreOptions{Target: target, Paths: []string{"q"}, OnDirty: rollback.Overwrite}
			b.write("q", "R\n")
			if _, err := m.RestoreFiles(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
		}
	}
	read := func(want ...string) {
		t.Helper()
		o := b.open("s")
		got, err := o.Marked(t.Context())
		if n := o.records.Len(); err != nil || !slices.Equal(got, want) || n > 4 {
			t.Errorf("marked: %q, %v, want %q, from %d records", got, err, want, n)
		}
	}
	restore(20)
	read()
	if _, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"},
		OnConflict: rollback.ConflictMarkers}); err != nil {
		t.Fatal(err)
	}
	restore(20)
	read("p")
}

// theirs takes whole files, too.
func TestTheirsWhole(t *testing.T) {
	for _, c := range []struct {
		name        string
		start, turn string // "-": no file
		user, why   string
	}{
		{"made", "-", "A\n", "u\n", merging.WhyMade}, {"deleted", "1\n", "-", "u\n", merging.WhyDeleted},
		{"deleted by the user", "1\n", "A\n", "-", merging.WhyUserDeleted}, {"binary", "\x001", "\x002", "\x003",
			merging.WhyBinary},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			m := b.open("s")
			put := func(text string) {
				if b.remove("p"); text != "-" {
					b.write("p", text)
				}
			}
			is := func(text string) {
				t.Helper()
				want := files{"p": text}
				if text == "-" {
					want = files{}
				}
				b.expectFiles(want)
			}
			put(c.start)
			b.initialize(m)
			b.turn(m, func() { put(c.turn) })
			put(c.user)
			r := b.revert(m, "0")
			want := []Conflict{{Path: "p", Why: c.why, BlockedBy: []string{"user"},
				Hint: "snapctl --session s revert turn:0 --on-conflict theirs -- p"}}
			if d := cmp.Diff(want, r.Conflicts); d != "" {
				t.Errorf("conflicts (-want +got):\n%s", d)
			}
			is(c.user)
			r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}, OnConflict: rollback.ConflictTheirs})
			if err != nil || !r.IsComplete() {
				t.Errorf("theirs: %+v, %v", r, err)
			}
			is(c.start)
			b.undo(m)
			is(c.user)
		})
	}
}

// A file that keeps its conflicts is what git makes of it: git merge-file --ours.
func TestKeepAsGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git")
	}
	rng := rand.New(rand.NewPCG(testseed.Of(t), 0))
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	edit := func(lines []string) []string {
		out := append([]string(nil), lines...)
		for range 1 + rng.IntN(4) {
			i := rng.IntN(len(out))
			switch rng.IntN(3) {
			case 0:
				out[i] = fmt.Sprint("new ", rng.IntN(1000))
			case 1:
				out = append(out[:i:i], append([]string{fmt.Sprint("more ", rng.IntN(1000))}, out[i:]...)...)
			case 2:
				if len(out) > 1 {
					out = append(out[:i:i], out[i+1:]...)
				}
			}
		}
		return out
	}
	text := func(lines []string) string { return strings.Join(lines, "\n") + "\n" }
	dir := t.TempDir()
	parts := 0
	for i := range 30 {
		var before []string
		for n := range 10 + rng.IntN(20) {
			before = append(before, fmt.Sprint("line ", n))
		}
		after := edit(before)
		now := edit(after)
		b.write("p", text(before))
		b.turn(m, func() { b.write("p", text(after)) })
		b.write("p", text(now))
		for name, lines := range map[string][]string{"ours": now, "base": after, "theirs": before} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text(lines)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(git, "merge-file", "-p", "--ours", "ours", "base", "theirs")
		cmd.Dir = dir
		want, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"@"}})
		if err != nil && !errors.Is(err, ErrChangedNothing) {
			t.Fatal(err)
		}
		b.holds("p", string(want))
		if r != nil {
			parts += len(r.Conflicts)
		}
		merged := patch.Merge([]byte(text(after)), []byte(text(now)), []byte(text(before)), nil)
		if r != nil && (len(r.Conflicts) > 0) != (len(merged.Conflicts) > 0) {
			t.Errorf("%d: conflicts %v, and %d places", i, r.Conflicts, len(merged.Conflicts))
		}
	}
	if parts == 0 {
		t.Error("there was no conflict: nothing was tested")
	}
}

// What a turn that stays has deleted stays deleted, and is told with what would take both
// back; by then the change below it is still in.
func TestHidden(t *testing.T) {
	for _, c := range []struct{ name, start string }{{"made", ""}, {"changed", revertText}} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			m := b.open("s")
			if c.start != "" {
				b.write("p", c.start)
			}
			b.initialize(m)
			b.turn(m, func() { b.write("p", strings.Replace(revertText, "1", "A", 1)); b.write("q", "Q\n") })
			b.turn(m, func() { b.remove("p") })
			opts := &RevertOptions{Turns: []string{"0"}, Paths: []string{"p", "q"}}
			r, err := m.Revert(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			want := []Conflict{{Path: "p", Why: "hidden", BlockedBy: []string{"turn:1"},
				Hint: "snapctl --session s revert turn:0 turn:1 -- p q"}}
			if d := cmp.Diff(want, r.Conflicts); d != "" {
				t.Errorf("conflicts (-want +got):\n%s", d)
			}
			if fmt.Sprint(r.Deleted, r.Skipped, r.Dirty) != "[q] [p] []" ||
				!strings.HasPrefix(r.Items[0].Why, "hidden by turn 1") {
				t.Errorf("deleted %q, skipped %q, dirty %q: %+v", r.Deleted, r.Skipped, r.Dirty, r.Items)
			}
			b.expectFiles(files{})
			if c.start != "" {
				b.revert(m, "0", "1")
				b.holds("p", c.start)
				b.undo(m)
			} else if r, err := m.Revert(t.Context(),
				&RevertOptions{Turns: []string{"0", "1"}}); !errors.Is(err, ErrNothing) {
				t.Errorf("of what is not there any more: %+v, %v", r, err)
			}
			b.undo(m)
			b.expectFiles(files{"q": "Q\n"})
		})
	}
}

// What may be another session's is kept, and told as a conflict; the user's text between
// two windows of a turn is merged around.
func TestRevertOthers(t *testing.T) {
	b := newBench(t)
	m, o := b.open("s", func(o *Options) { o.ToolWindows = true }), b.open("other")
	b.write("p", revertText)
	b.write("q", "old\n")
	b.initialize(m)
	b.initialize(o)
	tool := func(id string, fn func()) {
		if _, err := m.OnToolStart(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		fn()
		if _, err := m.OnToolEnd(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	b.start(m)
	tool("1", func() { b.replace("p", "1", "A") })
	b.replace("p", "2", "u")
	tool("2", func() { b.replace("p", "3", "C") })
	b.start(o)
	tool("3", func() { b.write("q", "whose?\n") })
	b.end(o)
	b.end(m)
	before := b.files()
	r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}, OnConflict: rollback.ConflictAbort})
	if err != nil || !r.Aborted || len(r.Conflicts) != 1 {
		t.Errorf("abort: %+v, %v", r, err)
	}
	b.expectFiles(before)
	r = b.revert(m, "0")
	if d := cmp.Diff([]Conflict{{Path: "q", Why: "contested"}}, r.Conflicts); d != "" {
		t.Errorf("conflicts (-want +got):\n%s", d)
	}
	b.expectFiles(files{"p": strings.Replace(revertText, "2", "u", 1), "q": "whose?\n"})
	if d := cmp.Diff([]MergedFile{{Path: "p", Hunks: 2}}, r.Merged); d != "" || fmt.Sprint(r.Dirty) != "[p q]" {
		t.Errorf("dirty %q, merged (-want +got):\n%s", r.Dirty, d)
	}
}

// A file that somebody has deleted, which theirs does, too, and a turn has made again since:
// where there was none there is none then, without a conflict in what was in it between.
func TestMadeAgain(t *testing.T) {
	for _, c := range []struct {
		name string
		gone func(b *bench, m *FileSnapshotManager)
	}{
		{"by theirs", func(b *bench, m *FileSnapshotManager) {
			r, err := m.Revert(b.Context(), &RevertOptions{Turns: []string{"0"}, OnConflict: rollback.ConflictTheirs})
			if err != nil || !r.IsComplete() {
				b.Fatal(r, err)
			}
		}},
		{"by the user", func(b *bench, _ *FileSnapshotManager) { b.remove("g") }},
	} {
		b := newBench(t)
		m := b.open("s")
		b.write("f", "f\n")
		b.initialize(m)
		b.turn(m, func() { b.write("g", revertText) })
		b.turn(m, func() { b.replace("g", "1", "A") })
		c.gone(b, m)
		b.expectFiles(files{"f": "f\n"})
		b.turn(m, func() { b.write("g", "new\n") })
		r, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
		if err != nil || !r.IsComplete() {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
		b.expectFiles(files{"f": "f\n"})
		b.undo(m)
		b.expectFiles(files{"f": "f\n", "g": "new\n"})
		b.replace("g", "new", "the user's")
		r, err = m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
		if err != nil || len(r.Conflicts) != 1 {
			t.Errorf("%s, and changed since: %+v, %v", c.name, r, err)
		}
		b.expectFiles(files{"f": "f\n", "g": "the user's\n"})
	}
}

// What a hint says settles the conflict, after the restore and in its place, and does
// nothing else.
func TestHintSettles(t *testing.T) {
	for _, c := range []struct {
		name   string
		since  func(b *bench, m *FileSnapshotManager)
		do     func(b *bench, m *FileSnapshotManager, preview bool) (*RestoreResult, error)
		hint   string
		opts   RevertOptions // that it stands for
		marked bool
	}{
		{"lines of the user", func(b *bench, _ *FileSnapshotManager) { b.replace("p", "A", "u") }, revertOf("0"),
			"snapctl --session s revert turn:0 --on-conflict markers -- p",
			RevertOptions{Turns: []string{"0"},
				OnConflict: rollback.ConflictMarkers, Paths: []string{"p"}}, true},
		{"lines, by a restore", func(b *bench, m *FileSnapshotManager) {
			b.turn(m, func() { b.write("q", "turn 1\n") })
			b.replace("p", "A", "u")
		}, restoreTo("start"), "snapctl --session s revert turn:0 --on-conflict markers -- p",
			RevertOptions{Turns: []string{"0"},
				OnConflict: rollback.ConflictMarkers, Paths: []string{"p"}}, true},
		{"lines of one of two turns", func(b *bench, m *FileSnapshotManager) {
			b.turn(m, func() { b.replace("p", "2", "B") })
			b.replace("p", "A", "u")
		}, revertOf("0", "1"), "snapctl --session s revert turn:0 --on-conflict markers -- p",
			RevertOptions{Turns: []string{"0"},
				OnConflict: rollback.ConflictMarkers, Paths: []string{"p"}}, true},
		{"a file that the user deleted", func(b *bench, m *FileSnapshotManager) { b.remove("p") }, revertOf("0"),
			"snapctl --session s revert turn:0 --on-conflict theirs -- p", RevertOptions{Turns: []string{"0"},
				OnConflict: rollback.ConflictTheirs, Paths: []string{"p"}}, false},
		{"that two turns have changed", func(b *bench, m *FileSnapshotManager) {
			b.turn(m, func() { b.replace("p", "2", "B") })
			b.remove("p")
		}, restoreTo("start"), "snapctl --session s revert turn:0 turn:1 --on-conflict theirs -- p",
			RevertOptions{Turns: []string{"0", "1"}, OnConflict: rollback.ConflictTheirs, Paths: []string{"p"}}, false},
	} {
		for _, preview := range []bool{true, false} {
			b, m := conflictDay(t, c.since)
			b.write("beside", "the user's\n")
			r, err := c.do(b, m, preview)
			if err != nil || len(r.Conflicts) != 1 || r.Conflicts[0].Hint != c.hint {
				t.Fatalf("%s, preview %v: %+v, %v", c.name, preview, r, err)
			}
			before := b.files()
			r, err = m.Revert(t.Context(), &c.opts)
			if err != nil || len(r.Conflicts) > 0 != c.marked {
				t.Fatalf("%s, preview %v, then %s: %+v, %v", c.name, preview, c.hint, r, err)
			}
			marked, err := m.Marked(t.Context())
			if err != nil || len(marked) > 0 != c.marked || !c.marked && b.files()["p"] != revertText {
				t.Errorf("%s, preview %v: marked %q, %v; p is %q", c.name, preview, marked, err, b.files()["p"])
			}
			after := b.files()
			delete(before, "p")
			delete(after, "p")
			if d := cmp.Diff(before, after); d != "" {
				t.Errorf("%s, preview %v: other files (-before +after):\n%s", c.name, preview, d)
			}
		}
	}
}

// The hint behind a revert of several turns that is done names none of which nothing is in any
// more: a revert refuses those. A preview names all.
func TestHintNamesTurnsLeft(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("f", "1\n")
	b.write("g", "1\n")
	b.initialize(m)
	b.turn(m, func() { b.write("f", "2\n") })
	b.turn(m, func() { b.write("g", "2\n") })
	b.turn(m, func() { b.write("f", "3\n") })
	for _, c := range []struct {
		preview bool
		hint    string
		left    []int
	}{
		{true, "snapctl --session s revert turn:0 turn:1 turn:2", nil},
		{false, "snapctl --session s revert turn:0 turn:2", []int{0}},
	} {
		r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0", "1"}, Preview: c.preview})
		if err != nil || len(r.Conflicts) != 1 || r.Conflicts[0].Hint != c.hint || !slices.Equal(r.TurnsLeft, c.left) {
			t.Fatalf("preview %v: %+v, %v, want hint %q, and left %d", c.preview, r, err, c.hint, c.left)
		}
	}
	b.revert(m, "0", "2")
	b.expectFiles(files{"f": "1\n", "g": "1\n"})
}

// revertOf takes turns back, and restoreTo what came after a moment.
func revertOf(turns ...string) func(*bench, *FileSnapshotManager, bool) (*RestoreResult, error) {
	return func(b *bench, m *FileSnapshotManager, preview bool) (*RestoreResult, error) {
		return m.Revert(b.Context(), &RevertOptions{Turns: turns, Preview: preview})
	}
}

func restoreTo(target string) func(*bench, *FileSnapshotManager, bool) (*RestoreResult, error) {
	return func(b *bench, m *FileSnapshotManager, preview bool) (*RestoreResult, error) {
		return m.RestoreFiles(b.Context(), &RestoreOptions{Target: target, OnDirty: rollback.Merge, Preview: preview})
	}
}

// Turns that a session was forked with are its own: they are named by their numbers, taken
// back by them, and not in the way of one another.
func TestBlockedByInFork(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.open("s")
	if err := m.RebuildIndex(t.Context(), b.log); err != nil {
		t.Fatal(err)
	}
	b.write("p", revertText)
	b.initialize(m)
	b.turn(m, func() { b.replace("p", "1", "A") })
	b.turn(m, func() { b.replace("p", "A", "B") })
	path, err := b.log.Path(b.log.Leaf())
	if err != nil {
		t.Fatal(err)
	}
	b.turn(m, func() { b.replace("p", "B", "C") }) // behind the fork: another session's
	b.log = session.NewTree()
	for _, e := range path {
		b.log.Add(*e)
	}
	f := b.open("f")
	if err := f.RebuildIndex(t.Context(), b.log); err != nil {
		t.Fatal(err)
	}
	b.initialize(f)
	check := func(turns string, by []string, hint string) {
		t.Helper()
		r, err := f.Revert(t.Context(), &RevertOptions{Turns: []string{turns}, Preview: true})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]Conflict{{Path: "p", Why: "lines", BlockedBy: by, Hint: hint}}, r.Conflicts); d != "" {
			t.Errorf("%s: conflicts (-want +got):\n%s", turns, d)
		}
	}
	byHand := func(turns string) string {
		return "snapctl --session f revert " + turns + " --on-conflict markers -- p"
	}
	check("0", []string{"turn:1", "session s turn:2"}, byHand("turn:0"))
	check("0..1", []string{"session s turn:2"}, byHand("turn:0 turn:1"))
	b.write("p", strings.Replace(revertText, "1", "B", 1))
	b.turn(f, func() { b.replace("p", "B", "D") })
	check("0", []string{"turn:1", "session s turn:2", "user", "turn:2"}, byHand("turn:0"))
	check("1", []string{"session s turn:2", "user", "turn:2"}, byHand("turn:1"))
}
