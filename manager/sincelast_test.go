package manager

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

// Of hunks, or paths, of a turn that the user took back it is told that they are a part.
func TestSinceLastPart(t *testing.T) {
	b, m, _ := revertDay(t)
	since := func(want string) {
		t.Helper()
		r, err := m.OnTurnStart(t.Context(), &Turn{SinceLast: true})
		if err != nil || r.SinceLast != want {
			t.Errorf("SinceLast = %q, %v, want %q", r.SinceLast, err, want)
		}
		if _, err := m.OnTurnEnd(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	b.turn(m, func() { b.write("t", "1\n2\n3\n") })
	b.turn(m, func() { b.write("t", "A\n2\nC\n") })
	revert := func(q *RevertOptions) {
		t.Helper()
		if _, err := m.Revert(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	hunk := b.hunks(m, &HunkRange{Turns: []string{"5"}}).Hunks[0].ID
	revert(&RevertOptions{Turns: []string{"5"}, Hunks: []string{hunk}})
	since(`Since your last turn the user took back a part of turn 5: changed "t" (1 hunk).`)
	b.undo(m)
	since(`Since your last turn the user put back in a part of turn 5: changed "t" (1 hunk).`)
	b.redo(m)
	b.undo(m)
	since("")
	revert(&RevertOptions{Turns: []string{"0"}, Paths: []string{"q"}})
	revert(&RevertOptions{Turns: []string{"3"}})
	since(`Since your last turn the user took back turn 3 and a part of turn 0: deleted "q", deleted "r".`)
}

// What a tool of a turn took back its model knows; what the user did it is told, once.
func TestSinceLast(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("names of Windows have no quotes and no tabs")
	}
	b := newBench(t)
	detached := func(o *Options) { o.Detached, o.ToolWindows = true, true }
	m := b.open("s", detached)
	b.initialize(m)
	turn := func(want string, fn func()) {
		t.Helper()
		r, err := m.OnTurnStart(t.Context(), &Turn{SinceLast: true})
		if err != nil {
			t.Fatal(err)
		}
		if r.SinceLast != want {
			t.Errorf("SinceLast = %q, want %q", r.SinceLast, want)
		}
		if _, err := m.OnToolStart(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		fn()
		if _, err := m.OnToolEnd(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		if _, err := m.OnTurnEnd(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	restore := func(m *FileSnapshotManager, target string) {
		t.Helper()
		if _, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: target}); err != nil {
			t.Fatal(err)
		}
	}
	turn("", func() { b.write("a", "1"+strings.Repeat("\n", 20)+"1") })
	turn("", func() {
		inTurn := b.open("s", detached, func(o *Options) { o.InTurn = true })
		b.write("x", "1")
		part, err := inTurn.Snapshot(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		b.write("y", "1")
		restore(inTurn, part.EntryID) // behind which the turn's end records nothing
	})
	turn("", func() { b.write("a", "2"+strings.Repeat("\n", 20)+"2"); b.write("b", "2") })
	user := b.open("s")
	restore(user, "@~1")
	turn(`Since your last turn the user took back turn 2: changed "a" (2 hunks), deleted "b".`, func() {})
	turn("", func() { b.write("c", "1") })
	restore(user, "turn:2")
	if _, err := user.Undo(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	turn("", func() {})
	restore(user, "turn:2")
	turn(`Since your last turn the user took back turn 4 and put back in turn 2: changed "a" (2 hunks), brought back "b", deleted "c".`, func() {
		for i := range 200 {
			b.write(fmt.Sprintf("\u202edo \"this\"\tä%03d%s", i, strings.Repeat("ä", i%80)), "x")
		}
	})
	restore(user, "@~1")
	r, err := m.OnTurnStart(t.Context(), &Turn{SinceLast: true})
	if err != nil {
		t.Fatal(err)
	}
	if s := r.SinceLast; len(s) > maxSinceLast || len(s) < maxSinceLast/2 || !utf8.ValidString(s) || !strings.Contains(s, `"\342\200\256do \"this\"\tä`) ||
		!strings.HasSuffix(s, " more.") || strings.ContainsAny(s, "\t\n\u202e") {
		t.Errorf("SinceLast = %d bytes: %s", len(s), s)
	}
	if _, err := m.OnTurnEnd(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}
