package manager

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
)

// tell lists hunks, one line each, without their IDs.
func (l *HunkList) tell() string {
	var b strings.Builder
	for _, h := range l.Hunks {
		now := "-"
		if h.Now != nil {
			now = fmt.Sprint(*h.Now)
		}
		fmt.Fprintf(&b, "%s %s %v %v %s %s %s", h.Path, h.Kind, h.Before, h.After, now, h.State, h.By)
		if h.Window > 0 {
			fmt.Fprintf(&b, " window %d", h.Window)
		}
		fmt.Fprintf(&b, " %q\n", h.Text)
	}
	return b.String()
}

func (b *bench) hunks(m *FileSnapshotManager, r *HunkRange) *HunkList {
	b.Helper()
	list, err := m.Hunks(b.Context(), r)
	if err != nil {
		b.Fatal(err)
	}
	return list
}

// What a turn did is listed window by window, and nothing that others did; each hunk
// has what would come of it in the file as it is now.
func TestHunksOfTurn(t *testing.T) {
	vfstest.NeedPerm(t, 0o755)
	b := newBench(t)
	m := b.open("s", func(o *Options) { o.ToolWindows = true })
	b.write("a", "1\n2\n3\n4\n5\n6\n7\n")
	b.write("gone", "x\n")
	b.write("bin", "\x00a")
	b.initialize(m)
	b.start(m)
	tool := func(fn func()) {
		t.Helper()
		if _, err := m.OnToolStart(t.Context(), "Write"); err != nil {
			t.Fatal(err)
		}
		fn()
		if _, err := m.OnToolEnd(t.Context(), "Write"); err != nil {
			t.Fatal(err)
		}
	}
	tool(func() {
		b.write("a", "one\n2\n3\n4\nfive\n6\n7\n")
		b.write("bin", "\x00b")
		b.write("made", "")
		b.remove("gone")
	})
	b.write("a", "one\n2\n3\n4\nfive\n6\n7\nuser\n")
	tool(func() {
		b.write("a", "one\n2\nthree\n4\nfive\n6\n7\nuser\n")
		if err := os.Chmod(filepath.Join(b.dir, "a"), 0o755); err != nil {
			t.Fatal(err)
		}
	})
	b.end(m)
	b.write("a", "0\n1\n2\nthree\n4\nfive\n6!\n7\nuser\n")
	b.write("made", "user\n")
	const want = `a lines [0 1] [0 1] - conflict turn:0 window 1 "-1\n+one\n"
a lines [4 5] [4 5] - conflict turn:0 window 1 "-5\n+five\n"
a mode [0 0] [0 0] [0 0] clean turn:0 window 2 "old mode 100644\nnew mode 100755\n"
a lines [2 3] [2 3] [3 4] clean turn:0 window 2 "-3\n+three\n"
bin whole [0 0] [0 0] [0 0] clean turn:0 ""
gone whole [0 1] [0 0] [0 0] clean turn:0 "-x\n"
made whole [0 0] [0 0] - conflict turn:0 ""
`
	list := b.hunks(m, &HunkRange{Turns: []string{"turn:0"}})
	if got := list.tell(); got != want {
		t.Errorf("hunks:\n%swant:\n%s", got, want)
	}
	var parts []Hunk
	for r := (&HunkRange{Turns: []string{"turn:0"}, Limit: 3}); ; {
		part := b.hunks(m, r)
		parts = append(parts, part.Hunks...)
		if r.Cursor = part.NextCursor; r.Cursor == "" {
			break
		}
	}
	if got := (&HunkList{Hunks: parts}).tell(); got != list.tell() {
		t.Errorf("in parts:\n%swant:\n%s", got, list.tell())
	}
	only := b.hunks(m, &HunkRange{Turns: []string{"turn:0"}, Paths: []string{"b*", "gone"}})
	if len(only.Hunks) != 2 {
		t.Errorf("hunks of b* and gone:\n%s", only.tell())
	}
	seen := make(map[string]bool)
	for _, h := range list.Hunks {
		seen[h.ID] = true
	}
	if len(seen) != len(list.Hunks) {
		t.Errorf("%d hunks have %d IDs", len(list.Hunks), len(seen))
	}
}

// The hunks between two points have the IDs of those of the turn between them, whatever
// the file is; and lines around them where that is asked for.
func TestHunksBetween(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("d/a", "1\n2\n3\n4\n5")
	b.initialize(m)
	b.turn(m, func() { b.write("d/a", "1\nII\n3\n4\n5\n") })
	of := b.hunks(m, &HunkRange{Turns: []string{"@"}})
	b.write("d/a", "1\n2\n3\n4\n5\n")
	between := b.hunks(m, &HunkRange{Context: 1})
	const want = `d/a lines [1 2] [1 2] [1 2] done  " 1\n-2\n+II\n 3\n"
d/a lines [4 5] [4 5] [4 5] clean  " 4\n-5\n\\ No newline at end of file\n+5\n"
`
	if got := between.tell(); got != want {
		t.Errorf("hunks:\n%swant:\n%s", got, want)
	}
	if len(of.Hunks) != 2 || of.Hunks[0].ID != between.Hunks[0].ID || of.Hunks[1].ID != between.Hunks[1].ID {
		t.Errorf("the turn's:\n%swant those between start and @:\n%s", of.tell(), between.tell())
	}
	if back := b.hunks(m, &HunkRange{From: "@", To: "start"}); back.Hunks[0].ID == between.Hunks[0].ID {
		t.Errorf("the way back has the ID %s, too", back.Hunks[0].ID)
	}
	b.write("d/a", "\x00")
	if got := b.hunks(m, nil).tell(); strings.Count(got, " - conflict ") != 2 {
		t.Errorf("a file that is no text now:\n%s", got)
	}
	b.remove("d/a")
	if got := b.hunks(m, nil).tell(); strings.Count(got, " - conflict ") != 2 {
		t.Errorf("a file that is gone:\n%s", got)
	}
	if got := b.hunks(m, &HunkRange{Turns: []string{"start"}}); len(got.Hunks) != 0 {
		t.Errorf("of the start:\n%s", got.tell())
	}
	for _, r := range []*HunkRange{{Turns: []string{"turn:7"}}, {From: "turn:7"}} {
		if _, err := m.Hunks(t.Context(), r); !errors.Is(err, ErrUnknown) {
			t.Errorf("%+v: %v, want ErrUnknown", r, err)
		}
	}
	for _, r := range []*HunkRange{{Turns: []string{"@"}, From: "@"}, {Cursor: "x"}, {Paths: []string{"../x"}}} {
		if list, err := m.Hunks(t.Context(), r); err == nil {
			t.Errorf("%+v:\n%swant an error", r, list.tell())
		}
	}
}

// What was written anew is one hunk, and if asked it is told with its parts: there are
// lines that both of its sides have.
func TestHunkParts(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	text := func(mark string) string {
		var text strings.Builder
		for i := range 10 {
			for j := range 5 {
				fmt.Fprintln(&text, mark, i, j)
			}
			text.WriteString("\n")
		}
		return text.String()
	}
	b.write("a", "1\nkept\n"+text("old")+"the end\n")
	b.initialize(m)
	b.turn(m, func() { b.write("a", "one\nkept\n"+text("new")+"the end\n") })
	whole := b.hunks(m, &HunkRange{Turns: []string{"@"}}).Hunks
	parts := b.hunks(m, &HunkRange{Turns: []string{"@"}, Parts: true}).Hunks
	if len(whole) != 2 || len(parts) != 12 || whole[1].After != [2]int{2, 61} || parts[1].ID != whole[1].ID {
		t.Fatalf("%d hunks, %d with parts, the second is of %v", len(whole), len(parts), whole[1].After)
	}
	for i, h := range parts[2:] {
		if lines := [2]int{2 + 6*i, 7 + 6*i}; h.PartOf != whole[1].ID || h.After != lines || *h.Now != lines {
			t.Errorf("part %d: %+v", i, h)
		}
	}
	var ids []string
	for _, h := range parts[2:] {
		ids = append(ids, h.ID)
	}
	for _, some := range [][]string{ids[1:3], append(ids[3:], ids[0])} {
		if _, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}, Hunks: some}); err != nil {
			t.Fatal(err)
		}
	}
	after := b.hunks(m, &HunkRange{Turns: []string{"turn:0"}}).Hunks
	if after[0].State != "clean" || after[1].State != "done" {
		t.Errorf("with all parts back the hunk is %s, the other one %s", after[1].State, after[0].State)
	}
	b.holds("a", "one\nkept\n"+text("old")+"the end\n")
	if _, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"},
		Hunks: []string{whole[1].ID}}); !errors.Is(err, ErrNothing) {
		t.Errorf("a hunk whose parts are all back: %v", err)
	}
	if _, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}, Hunks: []string{whole[0].ID}}); err != nil {
		t.Error(err)
	}
	b.holds("a", "1\nkept\n"+text("old")+"the end\n")
	if _, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}}); !errors.Is(err, ErrNothing) {
		t.Errorf("a turn of which all is back: %v", err)
	}
}

// BenchmarkHunks lists the 973 hunks of a file of 5,000 lines.
func BenchmarkHunks(b *testing.B) {
	dir, stores := b.TempDir(), b.TempDir()
	m, err := Open(b.Context(), dir, &Options{StoreRoot: stores, Session: "s"})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	write := func(mark string) {
		var text strings.Builder
		for i := range 5000 {
			if i%5 == 0 && i/5 < 973 {
				fmt.Fprintf(&text, "%s line %d\n", mark, i)
			} else {
				fmt.Fprintf(&text, "line %d of the text\n", i)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "a"), []byte(text.String()), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	write("old")
	if _, err := m.Initialize(b.Context()); err != nil {
		b.Fatal(err)
	}
	if _, err := m.OnTurnStart(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	write("new")
	if _, err := m.OnTurnEnd(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		list, err := m.Hunks(b.Context(), &HunkRange{Turns: []string{"@"}})
		if err != nil || len(list.Hunks) != 973 {
			b.Fatalf("%d hunks, %v", len(list.Hunks), err)
		}
	}
}

// A file that is too large for a diff is one hunk, which can go as long as it is what the turn left; and
// nobody says that it changes while it is read.
func TestHunksOfLargeFile(t *testing.T) {
	testseed.Sequential(t)
	b := newBench(t)
	m := b.open("s")
	large := strings.Repeat("a line of a large file\n", merging.MaxText/23+10_000)
	b.write("big", large)
	b.initialize(m)
	b.turn(m, func() { b.write("big", "first\n"+large) })
	if got := b.hunks(m, &HunkRange{Turns: []string{"turn:0"}}).Hunks; len(got) != 1 || got[0].State != "clean" {
		t.Errorf("hunks: %+v", got)
	}
	if _, err := m.Blame(t.Context(), &BlameOptions{Path: "big"}); !errors.Is(err, ErrNotText) {
		t.Errorf("blame: %v", err)
	}
	b.write("big", "second\nfirst\n"+large)
	if got := b.hunks(m, &HunkRange{Turns: []string{"turn:0"}}).Hunks; len(got) != 1 || got[0].State != "conflict" {
		t.Errorf("hunks after a change: %+v", got)
	}
	b.write("big", large)
	if got := b.hunks(m, &HunkRange{Turns: []string{"turn:0"}}).Hunks; len(got) != 1 || got[0].State != "done" {
		t.Errorf("hunks after it was taken back: %+v", got)
	}
}

// What a turn made is not taken back where a later one, which stays, has moved or deleted it: a revert
// leaves it alone, too.
func TestHunksHidden(t *testing.T) {
	for name, later := range map[string]func(b *bench){
		"moved":   func(b *bench) { b.remove("f"); b.write("g", "1\n2\n3\n") },
		"deleted": func(b *bench) { b.remove("f") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			m := b.open("s")
			b.write("other", "x\n")
			b.initialize(m)
			b.turn(m, func() { b.write("f", "1\n2\n3\n"); b.write("other", "y\n") })
			b.turn(m, func() { later(b) })
			state := func(turns ...string) string {
				list := b.hunks(m, &HunkRange{Turns: turns}).Hunks
				h := list[slices.IndexFunc(list, func(h Hunk) bool { return h.By == "turn:0" })]
				return fmt.Sprint(h.Path, " ", h.State, " ", h.BlockedBy)
			}
			if got, want := state("turn:0"), "f conflict [turn:1]"; got != want {
				t.Errorf("the hunk is %s, want %s", got, want)
			}
			r, err := m.Revert(t.Context(),
				&RevertOptions{Turns: []string{"turn:0"}, OnDirty: rollback.Merge, Preview: true})
			if err != nil || len(r.Conflicts) == 0 || !slices.Contains(r.Conflicts[0].BlockedBy, "turn:1") {
				t.Errorf("a revert: %+v, %v", r, err)
			}
			if got, want := state("turn:0", "turn:1"), "f done []"; got != want {
				t.Errorf("together with it the hunk is %s, want %s", got, want)
			}
		})
	}
}
