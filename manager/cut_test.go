package manager

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/hunks"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// A cutBench has a turn 0 behind it that changed lines 1, 5 and 9 of 13 in p.
type cutBench struct {
	*bench
	m *FileSnapshotManager
}

const (
	cutBefore = "1\n2\n3\n4\n5\n6\n7\n8\n9\na\nb\nc\nd\n"
	cutAfter  = "A\n2\n3\n4\nB\n6\n7\n8\nC\na\nb\nc\nd\n"
)

func newCutBench(t *testing.T, change ...func(*Options)) *cutBench {
	b := &cutBench{bench: newBench(t)}
	b.m = b.open("s", change...)
	b.write("p", cutBefore)
	b.initialize(b.m)
	b.turn(b.m, func() { b.write("p", cutAfter) })
	return b
}

// ids returns those of the hunks of a turn that have one of some marks.
func (b *cutBench) ids(turn string, marks ...string) (ids []string) {
	b.Helper()
	for _, h := range b.hunks(b.m, &HunkRange{Turns: []string{turn}, Parts: true}).Hunks {
		if slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(h.Text, "+"+mark+"\n") }) {
			ids = append(ids, h.ID)
		}
	}
	if len(ids) != len(marks) {
		b.Fatalf("hunks of %s with %q: %q", turn, marks, ids)
	}
	return ids
}

// revert takes back hunks of a turn, all without any.
func (b *cutBench) revert(turn string, marks ...string) *RestoreResult {
	b.Helper()
	q := &RevertOptions{Turns: []string{turn}}
	if len(marks) > 0 {
		q.Hunks = b.ids(turn, marks...)
	}
	r, err := b.m.Revert(b.Context(), q)
	if err != nil {
		b.Fatal(err)
	}
	if !r.IsComplete() {
		b.Errorf("revert %s %q: %+v", turn, marks, r)
	}
	return r
}

// to restores.
func (b *cutBench) to(target string) *RestoreResult {
	b.Helper()
	r, err := b.m.RestoreFiles(b.Context(), &RestoreOptions{Target: target, OnDirty: "merge"})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func (b *cutBench) undo() {
	b.Helper()
	if _, err := b.m.Undo(b.Context(), &UndoOptions{OnDirty: "merge"}); err != nil {
		b.Fatal(err)
	}
}

func (b *cutBench) redo() {
	b.Helper()
	if _, err := b.m.Redo(b.Context(), &UndoOptions{OnDirty: "merge"}); err != nil {
		b.Fatal(err)
	}
}

// holds requires that the lines of p begin with these letters.
func (b *cutBench) holds(want string) {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, "p"))
	if got := strings.ReplaceAll(string(text), "\n", ""); err != nil || got != want {
		b.Errorf("p holds %s (%v), want %s", got, err, want)
	}
}

// edit changes a line of p by hand.
func (b *cutBench) edit(old, new string) {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, "p"))
	if err != nil || !strings.Contains(string(text), old+"\n") {
		b.Fatalf("no %s in %q, %v", old, text, err)
	}
	b.write("p", strings.Replace(string(text), old+"\n", new+"\n", 1))
}

// line requires that turns are on the line, newest first.
func (b *cutBench) line(want ...int) {
	b.Helper()
	var got []int
	for mo, err := range b.m.Timeline(b.Context()) {
		if err != nil {
			b.Fatal(err)
		}
		if mo.Kind == history.KindStep && mo.TakenBack == nil {
			got = append(got, mo.TurnIndex)
		}
	}
	if !slices.Equal(got, want) {
		b.Errorf("turns %v are in, want %v", got, want)
	}
}

// Hunks are taken back one after the other; the turn is in until the last is. Each is
// undone, and done again, by itself.
func TestHunksOneByOne(t *testing.T) {
	b := newCutBench(t)
	r := b.revert("turn:0", "B")
	b.holds("A2345678Cabcd")
	b.line(0)
	if len(r.Restored) != 1 || len(r.Dirty) != 0 || len(r.TurnsTakenBack) != 0 {
		t.Errorf("restored %q, dirty %q, turns %v", r.Restored, r.Dirty, r.TurnsTakenBack)
	}
	got := b.hunks(b.m, &HunkRange{Turns: []string{"turn:0"}}).Hunks
	if got[0].State != "clean" || got[1].State != "done" {
		t.Errorf("after that the hunks are %s and %s", got[0].State, got[1].State)
	}
	for mo, err := range b.m.Timeline(t.Context()) {
		if err != nil || mo.TurnIndex == 0 && mo.Kind == history.KindStep && !slices.Equal(mo.Without, []string{"p"}) {
			t.Errorf("turn 0 is in part: without %q, %v", mo.Without, err)
		}
	}
	files, err := b.m.ModifiedFiles(t.Context(), nil)
	if err != nil || len(files.Files) != 1 || files.Files[0].LastTurnIndex != 0 || files.Files[0].LastEntryID == "" {
		t.Errorf("ModifiedFiles: %+v, %v", files, err)
	}
	b.revert("turn:0", "A")
	b.holds("12345678Cabcd")
	b.undo()
	b.holds("A2345678Cabcd")
	b.undo()
	b.holds("A234B678Cabcd")
	b.redo()
	b.redo()
	b.holds("12345678Cabcd")
	if r = b.revert("turn:0", "C"); !slices.Equal(r.TurnsTakenBack, []int{0}) {
		t.Errorf("the last hunk takes back turns %v", r.TurnsTakenBack)
	}
	b.holds("123456789abcd")
	b.line()
	if _, err := b.m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}}); !errors.Is(err, ErrNothing) {
		t.Errorf("a turn whose hunks are all taken back: %v", err)
	}
	b.undo()
	b.holds("12345678Cabcd")
	b.line(0)
	b.undo()
	b.undo()
	b.holds("A234B678Cabcd")
}

// Half and then the rest is all at once, and what the user does at lines that were taken
// back is not in the way of the rest.
func TestRestOfTurn(t *testing.T) {
	b := newCutBench(t)
	b.revert("turn:0", "A")
	b.edit("1", "mine")
	b.revert("turn:0")
	b.holds("mine23456789abcd")
	b.line()
	b.undo()
	b.holds("mine234B678Cabcd")
	b.edit("C", "see")
	r, err := b.m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}, Hunks: b.ids("turn:0", "B")})
	if err != nil || !r.IsComplete() || !slices.Equal(r.Dirty, []string{"p"}) {
		t.Errorf("%+v, %v", r, err)
	}
	b.holds("mine2345678seeabcd")
	b.line(0)
}

// A restore of the newest turns, or to a moment before them, takes what is left of the
// turn; one to a moment before the hunk was taken back puts it back.
func TestRestoreAfterHunks(t *testing.T) {
	b := newCutBench(t)
	b.revert("turn:0", "A", "C")
	b.holds("1234B6789abcd")
	b.to("start")
	b.holds("123456789abcd")
	b.undo()
	b.holds("1234B6789abcd")
	b.to("@~1")
	b.holds("123456789abcd")
	b.line()
	b.undo()
	b.holds("1234B6789abcd")
	b.turn(b.m, func() { b.edit("b", "D") })
	b.to("@~1") // the cut is of an older turn: it stays
	b.holds("1234B6789abcd")
	b.line(0)
	b.undo()
	b.to("turn:0")
	b.holds("A234B678Cabcd")
	b.undo()
	b.holds("1234B6789aDcd")
	b.revert("turn:0")
	b.holds("123456789aDcd")
	b.line(1)
	b.to("turn:1")
	b.holds("1234B6789aDcd")
	b.to("start")
	b.holds("123456789abcd")
}

// A hunk of a turn in the middle, and what others have done since.
func TestHunkInTheMiddle(t *testing.T) {
	b := newCutBench(t)
	b.turn(b.m, func() { b.edit("7", "D") })
	b.edit("d", "mine")
	b.revert("turn:0", "B")
	b.holds("A23456D8Cabcmine")
	b.line(1, 0)
	b.to("@~1")
	b.holds("A2345678Cabcmine")
	b.undo()
	b.holds("A23456D8Cabcmine")
	b.to("start")
	b.holds("123456789abcmine")
	b.undo()
	b.revert("turn:1")
	b.holds("A2345678Cabcmine")
	b.to("turn:0")
	b.holds("A234B678Cabcmine")
}

// What took a hunk back is undone behind a later turn, and done again.
func TestHunkUndoneBehindTurn(t *testing.T) {
	b := newCutBench(t)
	b.revert("turn:0", "B")
	b.turn(b.m, func() { b.edit("b", "D") })
	b.undo()
	b.holds("A234B678CaDcd")
	b.line(1, 0)
	b.redo()
	b.holds("A2345678CaDcd")
	b.revert("turn:0")
	b.holds("123456789aDcd")
	b.turn(b.m, func() { b.edit("d", "E") })
	b.undo()
	b.holds("A2345678CaDcE")
	b.line(2, 1, 0)
	b.revert("turn:0", "A")
	b.holds("12345678CaDcE")
	b.to("start")
	b.holds("123456789abcd")
}

// A fork has of a change what is in of it where it begins, and takes that back by itself.
func TestForkBehindHunks(t *testing.T) {
	b := &cutBench{bench: newBench(t)}
	b.write("p", cutBefore)
	b.log = session.NewTree()
	begin := func(id string) {
		t.Helper()
		b.m = b.open(id)
		if err := b.m.RebuildIndex(t.Context(), b.log); err != nil {
			t.Fatal(err)
		}
		b.initialize(b.m)
	}
	begin("s")
	b.message("user")
	b.turn(b.m, func() { b.write("p", cutAfter) })
	b.revert("turn:0", "B")
	b.message("user")
	entry := b.turn(b.m, func() { b.edit("7", "D") })
	path, err := b.log.Path(entry)
	if err != nil {
		t.Fatal(err)
	}
	b.log = session.NewTree()
	for _, e := range path {
		b.log.Add(*e)
	}
	begin("f")
	if got := b.hunks(b.m, &HunkRange{Restore: "start"}).Hunks; len(got) != 4 || got[2].State != "done" {
		t.Errorf("hunks of the fork: %+v", got)
	}
	b.edit("5", "mine")
	b.revert("turn:0")
	b.holds("1234mine6D89abcd")
	b.undo()
	b.holds("A234mine6D8Cabcd")
	b.to("start")
	b.holds("1234mine6789abcd")
}

// Hunks of a turn between whose tools somebody else has changed the file are of its
// windows.
func TestHunksOfWindows(t *testing.T) {
	b := &cutBench{bench: newBench(t)}
	b.m = b.open("s", func(o *Options) { o.ToolWindows = true })
	b.write("p", cutBefore)
	b.initialize(b.m)
	b.start(b.m)
	tool := func(fn func()) {
		t.Helper()
		if _, err := b.m.OnToolStart(t.Context(), "Write"); err != nil {
			t.Fatal(err)
		}
		fn()
		if _, err := b.m.OnToolEnd(t.Context(), "Write"); err != nil {
			t.Fatal(err)
		}
	}
	tool(func() { b.edit("1", "A"); b.edit("5", "B") })
	b.edit("d", "mine")
	tool(func() { b.edit("9", "C"); b.edit("3", "D") })
	b.end(b.m)
	b.holds("A2D4B678Cabcmine")
	b.revert("turn:0", "B")
	b.holds("A2D45678Cabcmine")
	b.revert("turn:0", "C")
	b.holds("A2D456789abcmine")
	b.revert("turn:0")
	b.holds("123456789abcmine")
	b.line()
	b.undo()
	b.undo()
	b.undo()
	b.holds("A2D4B678Cabcmine")
}

// A hunk tells who is in its way: later turns that stay, and the user.
func TestHunksBlockedBy(t *testing.T) {
	b := newCutBench(t)
	b.turn(b.m, func() { b.edit("A", "D") })
	b.turn(b.m, func() { b.edit("B", "E"); b.edit("7", "F") })
	b.edit("4", "mine")
	b.edit("C", "mine too")
	tell := func(r *HunkRange) (got string) {
		t.Helper()
		for _, h := range b.hunks(b.m, r).Hunks {
			got += h.By + " " + h.State + " " + strings.Join(h.BlockedBy, ",") + "\n"
		}
		return got
	}
	for _, c := range []struct {
		r    HunkRange
		want string
	}{
		{HunkRange{Turns: []string{"turn:0"}},
			"turn:0 conflict turn:1\nturn:0 conflict turn:2,user\nturn:0 conflict user\n"},
		{HunkRange{Turns: []string{"turn:1..turn:2"}}, "turn:2 conflict user\nturn:2 clean \nturn:1 clean \n"},
		{HunkRange{Restore: "start"},
			"turn:2 conflict user\nturn:2 clean \nturn:1 clean \nturn:0 conflict \nturn:0 conflict user\n" +
				"turn:0 conflict user\n"},
		{HunkRange{From: "start", To: "turn:0"}, " conflict \n conflict \n conflict \n"},
	} {
		if got := tell(&c.r); got != c.want {
			t.Errorf("%+v:\n%swant:\n%s", c.r, got, c.want)
		}
	}
}

// A mode is a hunk of its own, and a file that was made is one.
func TestHunksOfWholeFiles(t *testing.T) {
	vfstest.NeedPerm(t, 0o755)
	b := newCutBench(t)
	b.turn(b.m, func() {
		b.edit("7", "D")
		if err := os.Chmod(filepath.Join(b.dir, "p"), 0o755); err != nil {
			t.Fatal(err)
		}
		b.write("new", "n\n")
		b.write("other", "o\n")
	})
	mode := func(want os.FileMode) {
		t.Helper()
		if st, err := os.Stat(filepath.Join(b.dir, "p")); err != nil || st.Mode() != want {
			t.Errorf("the mode is %v, %v, want %v", st.Mode(), err, want)
		}
	}
	var ids []string
	for _, h := range b.hunks(b.m, &HunkRange{Turns: []string{"turn:1"}}).Hunks {
		if h.Kind == "mode" || h.Path == "new" {
			ids = append(ids, h.ID)
		}
	}
	r, err := b.m.Revert(t.Context(), &RevertOptions{Turns: []string{"1"}, Hunks: ids})
	if err != nil || !slices.Equal(r.Deleted, []string{"new"}) || !slices.Equal(r.Restored, []string{"p"}) {
		t.Errorf("%+v, %v", r, err)
	}
	mode(0o644)
	b.holds("A234B6D8Cabcd")
	b.line(1, 0)
	b.revert("turn:1", "D")
	b.holds("A234B678Cabcd")
	b.revert("turn:1")
	b.line(0)
	b.undo()
	b.undo()
	b.undo()
	mode(0o755)
	b.holds("A234B6D8Cabcd")
}

// What names no hunk, several, or one that is taken back, is an error, and nothing is
// changed.
func TestHunkErrors(t *testing.T) {
	b := newCutBench(t)
	ids := b.ids("turn:0", "A", "B")
	b.revert("turn:0", "B")
	for _, c := range []struct {
		hunks []string
		want  error
	}{
		{[]string{ids[0], "feedfeed"}, ErrUnknown},
		{[]string{ids[0][:3]}, ErrUnknown},
		{[]string{""}, ErrUnknown},
		{[]string{ids[0], ids[1]}, ErrNothing},
	} {
		if _, err := b.m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"},
			Hunks: c.hunks}); !errors.Is(err, c.want) {
			t.Errorf("hunks %q: %v, want %v", c.hunks, err, c.want)
		}
		b.holds("A2345678Cabcd")
	}
	for _, policy := range []string{"skip", "overwrite"} {
		q := &RevertOptions{Turns: []string{"0"}, Hunks: ids[:1]}
		if err := q.OnDirty.UnmarshalText([]byte(policy)); err != nil {
			t.Fatal(err)
		}
		if _, err := b.m.Revert(t.Context(), q); err == nil {
			t.Errorf("policy %s: no error", policy)
		}
	}
	b.holds("A2345678Cabcd")
	if r, err := b.m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"},
		Hunks: []string{ids[0][:4]}}); err != nil {
		t.Errorf("a part of an ID: %v, %v", r, err)
	}
	b.holds("12345678Cabcd")
}

// TestHunkNames asks for hunks by what several may be called, also of two files, and of two turns
// that made the same change.
func TestHunkNames(t *testing.T) {
	type one struct {
		hash, path string
		turn       uint64
	}
	all := []one{{"123456789a", "a", 4}, {"123456789b", "b", 4}, {"1234aaaaaa", "a", 4}, {"feedfeed00", "a", 4},
		{"feedfeed00", "a", 5}}
	for id, want := range map[string]string{
		"1234aa":       "",
		"123456789a":   "",
		"123456789b-4": "",
		"feedfeed-5":   "",
		"feedfeed00-5": "",
		"feed-6":       "it is not of these changes, or not any more: list them again",
		"1234":         `it may be 123456789a of "a" or 123456789b of "b" or 1234aaaa`,
		"12345678":     `it may be 123456789a of "a" or 123456789b of "b"`,
		"12345678-4":   `it may be 123456789a of "a" or 123456789b of "b"`,
		"feedfeed":     "it may be feedfeed-4 or feedfeed-5",
	} {
		p, err := newPicks([]string{id})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			p.has(&hunks.Hunk{ID: o.hash[:8], Hash: o.hash}, o.path, o.turn, 0)
		}
		if err := p.check(); (err == nil) != (want == "") || err != nil && !strings.HasSuffix(err.Error(), ": "+want) {
			t.Errorf("%s: %v, want %q", id, err, want)
		}
	}
}

// A restore takes back hunks of what it would take back, of several turns.
func TestRestoreHunks(t *testing.T) {
	b := newCutBench(t)
	b.turn(b.m, func() { b.edit("7", "D"); b.edit("d", "E") })
	var ids []string
	for _, h := range b.hunks(b.m, &HunkRange{Restore: "start"}).Hunks {
		if strings.Contains(h.Text, "+A") || strings.Contains(h.Text, "+D") || strings.Contains(h.Text, "+E") {
			ids = append(ids, h.ID)
		}
	}
	r, err := b.m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start", Hunks: ids})
	if err != nil || !r.IsComplete() || !slices.Equal(r.TurnsTakenBack, []int{1}) {
		t.Errorf("%+v, %v", r, err)
	}
	b.holds("1234B678Cabcd")
	b.line(0)
	b.undo()
	b.holds("A234B6D8CabcE")
	b.line(1, 0)
	b.redo()
	b.to("start")
	b.holds("123456789abcd")
}

// What a restore takes back of a file while its conflicts stay is cut out of the turns: the
// rest is tried again by itself, whatever became of the lines that are back already.
func TestKeptConflictsAreCut(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(b *cutBench) (*RestoreResult, error)
	}{
		{"revert", func(b *cutBench) (*RestoreResult, error) {
			return b.m.Revert(b.Context(), &RevertOptions{Turns: []string{"0", "1"}})
		}},
		{"restore", func(b *cutBench) (*RestoreResult, error) {
			return b.m.RestoreFiles(b.Context(), &RestoreOptions{Target: "start", OnDirty: "merge"})
		}},
		{"hunks", func(b *cutBench) (*RestoreResult, error) {
			ids := slices.Concat(b.ids("turn:0", "A", "B", "C"), b.ids("turn:1", "D"))
			return b.m.Revert(b.Context(), &RevertOptions{Turns: []string{"0", "1"}, Hunks: ids})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newCutBench(t)
			b.turn(b.m, func() { b.edit("7", "D") })
			b.edit("B", "mine")
			r, err := c.do(b)
			if err != nil || len(r.Conflicts) != 1 || len(r.Restored) != 1 {
				t.Fatalf("%+v, %v", r, err)
			}
			b.holds("1234mine6789abcd")
			if got := b.hunks(b.m, &HunkRange{Turns: []string{"turn:0"}}).Hunks; got[0].State != "done" ||
				got[1].State != "conflict" || got[2].State != "done" {
				t.Errorf("the hunks are %s, %s and %s", got[0].State, got[1].State, got[2].State)
			}
			b.edit("9", "nine") // where a line is back: not in the way
			b.edit("mine", "B")
			b.revert("turn:0")
			b.holds("12345678nineabcd")
			b.line()
			b.undo()
			b.holds("1234B678nineabcd")
			b.undo()
			b.holds("A234B6D8nineabcd")
		})
	}
}

// A restore that was cut off when it took hunks back is finished, or taken back, with what
// it says of them.
func TestHunksCutOff(t *testing.T) {
	for _, abort := range []bool{false, true} {
		b := newCutBench(t)
		b.write("q", "q\n")
		b.turn(b.m, func() { b.write("q", "Q\n") })
		ids := b.ids("turn:0", "B")
		fault := &vfstest.Fault{At: -1}
		fault.Trace = func(op, name string) {
			if op == "Rename" && strings.HasSuffix(name, "-> p") {
				fault.Break()
			}
		}
		b.m.openDir = func(path string) (vfs.Dir, error) {
			d, err := vfs.OpenDir(path)
			return vfstest.WithFaultDir(d, fault), err
		}
		if _, err := b.m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}, Hunks: ids}); err == nil {
			t.Fatal("no error")
		}
		b.m.openDir = vfs.OpenDir
		if _, err := b.m.FinishRestore(t.Context(), abort); err != nil {
			t.Fatal(err)
		}
		if abort {
			b.holds("A234B678Cabcd")
		} else {
			b.holds("A2345678Cabcd")
			b.undo()
			b.holds("A234B678Cabcd")
			b.redo()
			b.edit("5", "mine")
		}
		b.revert("turn:0")
		if abort {
			b.holds("123456789abcd")
		} else {
			b.holds("1234mine6789abcd")
		}
	}
}

// With theirs a hunk is taken back also where there is no file any more: it becomes what
// the turn would have left without the hunk.
func TestHunkOfWhatIsGone(t *testing.T) {
	for name, change := range map[string]func(b *cutBench){
		"deleted": func(b *cutBench) { b.remove("p") },
		"a link": func(b *cutBench) {
			b.remove("p")
			if err := os.Symlink("x", filepath.Join(b.dir, "p")); err != nil {
				b.Fatal(err)
			}
		},
		"binary": func(b *cutBench) { b.write("p", "\x00") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newCutBench(t)
			change(b)
			r, err := b.m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}, Hunks: b.ids("turn:0", "B"),
				OnConflict: rollback.ConflictTheirs})
			if err != nil || !r.IsComplete() || !slices.Equal(r.Restored, []string{"p"}) {
				t.Fatalf("%+v, %v", r, err)
			}
			if len(r.Merged) > 0 || r.Items[0].Merged { // nothing of what was there stays
				t.Errorf("merged %+v", r.Merged)
			}
			b.holds("A2345678Cabcd")
			b.line(0)
		})
	}
}

// A path of which lines were taken back, and one of the contents that these are of was
// forgotten, is left alone and listed; the others are restored.
func TestHunksForgotten(t *testing.T) {
	vfstest.NeedGone(t)
	b := newCutBench(t)
	b.turn(b.m, func() { b.edit("3", "D"); b.edit("b", "E") })
	b.turn(b.m, func() { b.write("q", "q\n") })
	b.revert("turn:1", "D")
	b.edit("d", "mine")
	b.forget(b.m, &retain.ForgetOptions{Blobs: []store.ID{object.Hash(object.Blob, []byte(cutAfter))}})
	check := func(r *RestoreResult, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		want := []Conflict{{Path: "p", Why: "lost", BlockedBy: []string{"user"}}}
		if !slices.Equal(r.Deleted, []string{"q"}) || !cmp.Equal(r.Conflicts, want) {
			t.Errorf("%+v", r)
		}
		b.holds("A234B678CaEcmine")
		b.undo()
	}
	check(b.m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start", OnDirty: "merge"}))
	check(b.m.Revert(t.Context(), &RevertOptions{Turns: []string{"0..2"}}))
}

// Where turns have made the same change, each has hunks of its own.
func TestHunksOfTheSameChange(t *testing.T) {
	b := newCutBench(t)
	b.turn(b.m, func() { b.edit("A", "1") })
	b.turn(b.m, func() { b.edit("1", "A") })
	b.turn(b.m, func() { b.edit("A", "1") })
	b.turn(b.m, func() { b.edit("d", "D") })
	ids := make(map[string]string) // by turn
	for _, h := range b.hunks(b.m, &HunkRange{Turns: []string{"turn:1..turn:3"}}).Hunks {
		ids[h.By] = h.ID
	}
	if ids["turn:1"] == ids["turn:3"] {
		t.Fatalf("the hunks of turns 1 and 3 are both %s", ids["turn:1"])
	}
	one := b.hunks(b.m, &HunkRange{Turns: []string{"turn:1"}}).Hunks[0].ID
	turns := []string{"turn:1..turn:3"}
	_, err := b.m.Revert(t.Context(), &RevertOptions{Turns: turns, Hunks: []string{one}})
	if !errors.Is(err, ErrAmbiguous) || !strings.Contains(err.Error(), ids["turn:1"]+" or "+ids["turn:3"]) {
		t.Errorf("an ID that stands for hunks of two turns: %v", err)
	}
	r, err := b.m.Revert(t.Context(), &RevertOptions{Turns: turns, Hunks: []string{ids["turn:3"]}})
	if err != nil || !slices.Equal(r.TurnsTakenBack, []int{3}) {
		t.Fatalf("%+v, %v", r, err)
	}
	b.holds("A234B678CabcD")
	b.line(4, 2, 1, 0)
	for _, id := range []string{ids["turn:1"], one} { // either is found where only that turn is asked for
		_, err := b.m.Revert(t.Context(), &RevertOptions{Turns: []string{"1"}, Hunks: []string{id}})
		if !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), "the files hold nothing of turn 1 any more") {
			t.Errorf("the hunk %s of turn 1, which turn 2 has taken back: %v", id, err)
		}
	}
}

// The hunks of a turn that a snapshot has divided are those of all its parts.
func TestHunksOfDividedTurn(t *testing.T) {
	h := &hooked{bench: newBench(t)}
	b := &cutBench{h.bench, h.opened(false)}
	b.write("p", cutBefore)
	b.initialize(b.m)
	b.start(b.m)
	h.tool(func(*FileSnapshotManager) { b.edit("1", "A") })
	h.tool(func(m *FileSnapshotManager) {
		if _, err := m.Snapshot(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	})
	h.tool(func(*FileSnapshotManager) { b.edit("5", "B"); b.edit("9", "C") })
	b.end(h.opened(false))
	b.m = h.opened(false)
	whole := b.hunks(b.m, &HunkRange{Turns: []string{"turn:0"}}).tell()
	parts := 0
	for mo, err := range b.m.Timeline(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if mo.Kind != history.KindStep {
			continue
		}
		for _, rev := range []string{"@", mo.EntryID} {
			if got := b.hunks(b.m, &HunkRange{Turns: []string{rev}}).tell(); got != whole {
				t.Errorf("hunks of %s:\n%swant those of turn:0:\n%s", rev, got, whole)
			}
		}
		part := b.hunks(b.m, &HunkRange{Turns: []string{fmt.Sprint("look:", mo.Snapshot.Seq)}}).Hunks
		if parts++; len(part) != 3-parts {
			t.Errorf("part %d has %d hunks:\n%s", parts, len(part), (&HunkList{Hunks: part}).tell())
		}
	}
	if parts != 2 {
		t.Errorf("%d parts", parts)
	}
	b.revert("turn:0", "A", "B")
	b.holds("12345678Cabcd")
	b.line(0)
	b.revert("turn:0", "C")
	b.holds("123456789abcd")
	b.line()
	b.undo()
	b.undo()
	b.holds("A234B678Cabcd")
}

// What was pruned beneath a restore that tells paths apart is no error of the log.
func TestTimelinePrunedBelowHunks(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(b *cutBench)
	}{
		{"a hunk", func(b *cutBench) { b.revert("turn:0", "B") }},
		{"a path", func(b *cutBench) {
			b.turn(b.m, func() { b.write("q", "q\n"); b.edit("b", "D") })
			r, err := b.m.Revert(b.Context(), &RevertOptions{Turns: []string{"1"}, Paths: []string{"p"}})
			if err != nil || !r.IsComplete() {
				b.Fatalf("%+v, %v", r, err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newCutBench(t)
			c.do(b)
			b.turn(b.m, func() { b.edit("7", "E") })
			n := len(b.timeline(b.m))
			b.prune(b.m.store, &retain.Retention{KeepLast: 1})
			if list := b.timeline(b.m); len(list) != n {
				t.Errorf("%q, want all %d as before", list, n)
			}
		})
	}
}

// Pruned records of cuts, and of the turns that they cut, cost what they tell, and nothing
// else: what comes after them goes on.
func TestHunksPruned(t *testing.T) {
	for _, keep := range []int{1, 2, 3} {
		b := newCutBench(t)
		b.revert("turn:0", "B")
		b.turn(b.m, func() { b.edit("3", "D") })
		b.revert("turn:1")
		b.turn(b.m, func() { b.edit("7", "E") })
		p, err := retain.PlanPrune(t.Context(), b.m.store, &retain.Retention{KeepLast: keep, Alone: true})
		if err == nil {
			_, err = p.Do(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		b.holds("A23456E8Cabcd")
		b.to("@~1")
		b.holds("A2345678Cabcd")
		_, err = b.m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}})
		switch want := map[bool]string{true: "123456789abcd", false: "A2345678Cabcd"}[keep == 3]; {
		case keep == 3 && err != nil, keep < 3 && !errors.Is(err, store.ErrPruned):
			t.Errorf("the %d newest are kept, revert of turn 0: %v", keep, err)
		default:
			b.holds(want)
		}
		b.turn(b.m, func() { b.edit("8", "F") })
		if _, err := b.m.Hunks(t.Context(), &HunkRange{Turns: []string{"@"}}); err != nil {
			t.Error(err)
		}
		if _, err := b.m.RestoreFiles(t.Context(), &RestoreOptions{Target: "@~1", OnDirty: "merge"}); err != nil {
			t.Error(err)
		}
	}
}

// A cut is void where its turn is not in, and stays so where it was taken back before the
// turn was put back.
func TestHunksUndoneBehindTurn(t *testing.T) {
	b := newCutBench(t)
	b.to("start")
	b.turn(b.m, func() { b.edit("1", "X"); b.edit("5", "Y") })
	b.revert("turn:1", "X")
	b.revert("turn:1", "Y")
	b.turn(b.m, func() { b.edit("9", "Z") })
	b.undo()
	b.holds("1234Y678Zabcd")
	b.undo()
	b.holds("X234Y678Zabcd")
	b.revert("turn:2")
	b.holds("X234Y6789abcd")
	b.line(1)
}

// A restore that puts back what was cut out of a turn is about that turn, too.
func TestHunkPutBackBehindRevert(t *testing.T) {
	b := newCutBench(t)
	b.turn(b.m, func() { b.edit("7", "D") })
	b.revert("turn:0", "B")
	b.revert("turn:1")
	b.holds("A2345678Cabcd")
	b.to("turn:0")
	b.holds("A234B678Cabcd")
	b.line(0)
}

// Cuts count also where only their path leads to them, or an undo has put them beside it.
func TestHunksOnOwnWays(t *testing.T) {
	b := newCutBench(t)
	b.edit("d", "mine")
	b.revert("turn:0", "B")
	b.turn(b.m, func() { b.edit("7", "D") })
	b.undo()
	b.holds("A234B6D8Cabcmine")
	b.to("turn:1")
	b.holds("A23456D8Cabcmine")

	b = newCutBench(t)
	b.revert("turn:0", "B", "C")
	b.undo()
	b.turn(b.m, func() { b.edit("7", "D") })
	b.redo()
	b.holds("A23456D89abcd")
	b.line(1, 0)
	b.revert("turn:0", "A")
	b.line(1)
}

// A cut goes with its turn also where an undo has put both beside the way.
func TestHunksGoWithTheirTurn(t *testing.T) {
	b := newCutBench(t)
	b.revert("turn:0", "A", "B")
	b.to("start")
	b.turn(b.m, func() { b.edit("7", "E") })
	b.undo()
	b.revert("turn:0", "C")
	b.undo()
	b.revert("turn:1")
	b.holds("12345678Cabcd")
	b.revert("turn:0")
	b.turn(b.m, func() { b.edit("b", "F") })
	b.to("start")
	b.holds("123456789abcd")
}

// What comes in part, by a restore or an undo, is in: it goes with the turn again, and what
// has not come is tried again. The hunks say which it is.
func TestComesInPart(t *testing.T) {
	for _, c := range []struct {
		name string
		away func(b *cutBench)
		back func(b *cutBench)
	}{
		{"restore", func(b *cutBench) { b.to("start") }, func(b *cutBench) { b.to("turn:0") }},
		{"undo", func(b *cutBench) { b.to("start") }, (*cutBench).undo},
		{"undo of a revert", func(b *cutBench) { b.revert("turn:0") }, (*cutBench).undo},
		{"redo of a hunk's undo", func(b *cutBench) { b.to("start"); b.undo(); b.redo() }, (*cutBench).undo},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newCutBench(t)
			c.away(b)
			b.holds(strings.ReplaceAll(cutBefore, "\n", ""))
			b.edit("5", "x")
			c.back(b)
			b.holds("A234x678Cabcd")
			states := func(want ...string) {
				t.Helper()
				var got []string
				for _, h := range b.hunks(b.m, &HunkRange{Turns: []string{"turn:0"}}).Hunks {
					got = append(got, h.State)
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("hunks (-want +got):\n%s", d)
				}
			}
			states("clean", "done", "clean")
			b.edit("x", "5") // what was in the way goes
			b.to("turn:0")
			b.holds("A234B678Cabcd")
			states("clean", "clean", "clean")
			b.undo()
			b.holds("A2345678Cabcd")
			b.revert("turn:0")
			b.holds("123456789abcd")
			b.undo()
			b.holds("A2345678Cabcd")
			b.to("start")
			b.holds("123456789abcd")
		})
	}
}

// What goes in part once more when an undo is taken back in part stays on the list, and the
// rest of it is done later.
func TestUndoneInPartTwice(t *testing.T) {
	b := newCutBench(t)
	b.to("start")
	b.edit("5", "x")
	b.undo()
	b.holds("A234x678Cabcd")
	b.edit("x", "5")
	b.turn(b.m, func() { b.edit("d", "D") })
	b.undo() // the rest
	b.holds("A234B678CabcD")
	b.redo()
	b.holds("A2345678CabcD")
	b.to("@~1")
	b.holds("A2345678Cabcd")
}

// What an undo could not put back, since turns were in the way, comes once they are gone.
func TestCutComesWithoutOthers(t *testing.T) {
	b := newCutBench(t)
	b.restore(b.m, &RestoreOptions{Target: "start", Exact: true})
	b.turn(b.m, func() { b.write("p", strings.Replace(cutBefore, "1\n", "X\n", 1)) })
	b.turn(b.m, func() { b.write("p", strings.Replace(strings.Replace(cutBefore, "1\n", "X\n", 1), "d\n", "D\n", 1)) })
	opts := &UndoOptions{OnDirty: rollback.Merge}
	if _, err := b.m.Undo(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	b.restore(b.m, &RestoreOptions{Target: "@~1", OnDirty: rollback.Merge})
	r := b.restore(b.m, &RestoreOptions{Target: "turn:0", OnDirty: rollback.Merge})
	if len(r.Conflicts) > 0 {
		t.Errorf("%+v", r.Conflicts)
	}
	b.expectFiles(files{"p": cutAfter})
}

// Somebody has converted the line ends of a file, and changed one of three lines of a turn:
// that one is in conflict, and no other; so where the turn has converted them. The rest can
// be taken back later, and undone to the byte.
func TestRevertOfConvertedEnds(t *testing.T) {
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	for _, c := range []struct {
		name              string
		after, now        string
		reverted, settled string // and once the user has the turn's line again
	}{
		{"by the user", cutAfter, crlf(strings.Replace(cutAfter, "B", "u", 1)),
			crlf(strings.Replace(cutBefore, "5", "u", 1)), crlf(cutBefore)},
		{"by the turn", crlf(cutAfter), crlf(strings.Replace(cutAfter, "B", "u", 1)),
			strings.Replace(cutBefore, "5\n", "u\r\n", 1), cutBefore},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			m := b.open("s")
			b.write("p", cutBefore)
			b.initialize(m)
			b.turn(m, func() { b.write("p", c.after) })
			b.write("p", c.now)
			r := b.revert(m, "0")
			if len(r.Conflicts) != 1 || r.Conflicts[0].Why != "lines" || len(r.Merged) != 1 {
				t.Errorf("%+v", r)
			}
			b.expectFiles(files{"p": c.reverted})
			b.replace("p", "u", "B")
			if r := b.revert(m, "0"); !r.IsComplete() {
				t.Errorf("once the line is the turn's again: %+v", r)
			}
			b.expectFiles(files{"p": c.settled})
			b.undo(m)
			b.expectFiles(files{"p": strings.Replace(c.reverted, "u", "B", 1)})
			b.replace("p", "B", "u")
			b.undo(m)
			b.expectFiles(files{"p": c.now})
		})
	}
}

// Lines that a turn had overwritten, and that hunks of it and of a later one have brought back,
// stay when the rest goes: they are the user's.
func TestRestBehindHunksOfTwo(t *testing.T) {
	for name, more := range map[string]map[int]string{"all of the first": nil, "a part of it": {3: "turn 0"}} {
		for _, then := range []string{"revert", "revert both", "start", "@~1"} {
			t.Run(name+"/"+then, func(t *testing.T) {
				b := newBench(t)
				m := b.open("s")
				b.write("f", numbered(nil))
				b.initialize(m)
				lines := map[int]string{8: "user"}
				b.write("f", numbered(lines))
				lines[8] = "turn 0"
				maps.Copy(lines, more)
				b.turn(m, func() { b.write("f", numbered(lines)) })
				lines[8], lines[1] = "turn 1", "turn 1"
				b.turn(m, func() { b.write("f", numbered(lines)) })
				q := &RevertOptions{Turns: []string{"0", "1"}}
				for _, h := range b.hunks(m, &HunkRange{Turns: q.Turns}).Hunks {
					if h.Before[0] > 5 {
						q.Hunks = append(q.Hunks, h.ID)
					}
				}
				if r, err := m.Revert(t.Context(), q); err != nil || len(r.Conflicts) > 0 {
					t.Fatalf("%+v, %v", r, err)
				}
				lines[8] = "user"
				b.expectFiles(files{"f": numbered(lines)})
				switch then {
				case "revert":
					b.revert(m, "1")
				case "revert both": // what is left of them
					if more == nil {
						return
					}
					b.revert(m, "0..1")
				default:
					b.restore(m, &RestoreOptions{Target: then, OnDirty: rollback.Merge})
				}
				delete(lines, 1)
				if then == "start" || then == "revert both" {
					delete(lines, 3)
				}
				b.expectFiles(files{"f": numbered(lines)})
			})
		}
	}
}
