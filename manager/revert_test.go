package manager

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/session"
)

// A file of five lines, of which a turn or the user changes one.
const revertText = "1\n-\n2\n-\n3\n"

func (b *bench) revert(m *FileSnapshotManager, turns ...string) *RestoreResult {
	b.Helper()
	r, err := m.Revert(b.Context(), &RevertOptions{Turns: turns})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// replace has one text in a file take the place of another.
func (b *bench) replace(name, old, new string) {
	b.Helper()
	text := b.files()[name]
	if strings.Count(text, old) != 1 {
		b.Fatalf("%q is in %q %d times", old, text, strings.Count(text, old))
	}
	b.write(name, strings.Replace(text, old, new, 1))
}

// revertDay is a session of four turns: turn 0 writes the first line of p and makes q,
// turn 1 the second line of p, turn 2 nothing, turn 3 makes r. The user then writes the
// third line of p.
func revertDay(t *testing.T) (*bench, *FileSnapshotManager, []string) {
	t.Helper()
	b := newBench(t)
	m := b.open("s")
	b.write("p", revertText)
	b.initialize(m)
	entries := []string{
		b.turn(m, func() { b.replace("p", "1", "A"); b.write("q", "Q\n") }),
		b.turn(m, func() { b.replace("p", "2", "B") }),
		b.turn(m, func() {}),
		b.turn(m, func() { b.write("r", "R\n") }),
	}
	b.replace("p", "3", "u")
	return b, m, entries
}

// Turns are named in several ways.
func TestRevertNames(t *testing.T) {
	const none = "1\n-\n2\n-\nu\n"
	zero := files{"p": "1\n-\nB\n-\nu\n", "r": "R\n"}
	for _, c := range []struct {
		name  string
		turns []string // an entry as entry:N
		want  files    // nil: an error
		err   error
		says  string
	}{
		{name: "turn:N", turns: []string{"turn:0"}, want: zero},
		{name: "N", turns: []string{"0"}, want: zero},
		{name: "an entry", turns: []string{"entry:0"}, want: zero},
		{name: "the beginning of an entry", turns: []string{"short:0"}, want: zero},
		{name: "the newest", turns: []string{"@"}, want: files{"p": "A\n-\nB\n-\nu\n", "q": "Q\n"}},
		{name: "a range", turns: []string{"turn:0..turn:1"}, want: files{"p": none, "r": "R\n"}},
		{name: "a range of numbers, and an entry", turns: []string{"0..1", "entry:3"}, want: files{"p": none}},
		{name: "one twice", turns: []string{"0", "entry:0"}, want: zero},
		{name: "with one that changed nothing", turns: []string{"turn:1..turn:2"},
			want: files{"p": "A\n-\n2\n-\nu\n", "q": "Q\n", "r": "R\n"}},
		{name: "all", turns: []string{"0..3"}, want: files{"p": none}},
		{name: "nothing", err: ErrUnknown, says: "no turn is named"},
		{name: "one that changed nothing alone", turns: []string{"2"}, err: ErrChangedNothing,
			says: "turn 2 changed nothing"},
		{name: "one that is not", turns: []string{"4"}, err: ErrUnknown, says: "has had turns 0 to 3"},
		{name: "a range to one that is not", turns: []string{"0..4"}, err: ErrUnknown, says: "has had turns 0 to 3"},
		{name: "backwards", turns: []string{"1..0"}, err: ErrUnknown, says: "the first comes after the last"},
		{name: "the start", turns: []string{"start"}, err: ErrUnknown, says: "it is no turn"},
		{name: "no number", turns: []string{"turn:x"}, err: ErrUnknown, says: "want a number"},
		{name: "what nothing is called", turns: []string{"nothing"}, err: ErrUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, m, entries := revertDay(t)
			before := b.files()
			for i, name := range c.turns {
				var n int
				if _, err := fmt.Sscanf(name, "entry:%d", &n); err == nil {
					c.turns[i] = entries[n]
				} else if _, err := fmt.Sscanf(name, "short:%d", &n); err == nil {
					c.turns[i] = entries[n][:6]
				}
			}
			opts := &RevertOptions{Turns: c.turns, Preview: true}
			ahead, aheadErr := m.Revert(t.Context(), opts)
			b.expectFiles(before)
			opts.Preview = false
			r, err := m.Revert(t.Context(), opts)
			if fmt.Sprint(err) != fmt.Sprint(aheadErr) {
				t.Errorf("the preview ended with %v, the deed with %v", aheadErr, err)
			}
			if c.want == nil {
				if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("error %v, want one that says %q", err, c.says)
				}
				b.expectFiles(before)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(r.Restored, ahead.Restored) || !slices.Equal(r.Deleted, ahead.Deleted) {
				t.Errorf("the preview said %q %q, the deed %q %q", ahead.Restored, ahead.Deleted, r.Restored, r.Deleted)
			}
			b.expectFiles(c.want)
			b.undo(m)
			b.expectFiles(before)
			b.redo(m)
			b.expectFiles(c.want)
		})
	}
}

// A turn that was taken back is not taken back again, alone or with others, and the
// error says what took it.
func TestRevertTwice(t *testing.T) {
	b, m, _ := revertDay(t)
	r := b.revert(m, "0")
	if !slices.Equal(r.TurnsTakenBack, []int{0}) || r.EntryID == "" {
		t.Errorf("taken back %v, entry %q", r.TurnsTakenBack, r.EntryID)
	}
	if d := cmp.Diff([]MergedFile{{Path: "p", Hunks: 1}}, r.Merged); d != "" {
		t.Errorf("merged (-want +got):\n%s", d)
	}
	before := b.files()
	for _, turns := range [][]string{{"0"}, {"turn:0..turn:1"}, {"1", "0"}} {
		_, err := m.Revert(t.Context(), &RevertOptions{Turns: turns})
		if !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), "turn 0 was taken back at ") ||
			!strings.HasSuffix(err.Error(), "by restore "+r.EntryID) {
			t.Errorf("%q: %v", turns, err)
		}
	}
	b.expectFiles(before)
	b.restore(m, &RestoreOptions{Target: "@~1", OnDirty: rollback.Merge})
	b.expectFiles(files{"p": "1\n-\nB\n-\nu\n"}) // turn 0 stays out
	if r := b.restore(m, &RestoreOptions{Target: "turn:3",
		OnDirty: rollback.Merge}); !slices.Equal(r.TurnsPutBack, []int{0, 3}) {
		t.Errorf("put back %v", r.TurnsPutBack)
	}
	b.expectFiles(files{"p": "A\n-\nB\n-\nu\n", "q": "Q\n", "r": "R\n"})
}

// The timeline has a revert as a restore, with the turns that were named.
func TestRevertTimeline(t *testing.T) {
	b, m, _ := revertDay(t)
	b.revert(m, "0..1")
	if _, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"3"}, Paths: []string{"r"}}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for mo, err := range m.Timeline(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if mo.Kind == "restore" {
			got = append(got, fmt.Sprint(mo.Reverts, mo.TookBack, mo.PutBack))
		}
	}
	if d := cmp.Diff([]string{"[3] [3] []", "[0 1] [0 1] []"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// With PATHs only what the turns did there goes. A turn of which nothing is left leaves
// the line.
func TestRevertPaths(t *testing.T) {
	for _, c := range []struct {
		name  string
		paths []string
		want  files // nil: an error
		says  string
		taken []int
	}{
		{name: "a file, merged", paths: []string{"p"}, want: files{"p": "1\n-\nB\n-\nu\n", "q": "Q\n", "r": "R\n"}},
		{name: "another", paths: []string{"q"}, want: files{"p": "A\n-\nB\n-\nu\n", "r": "R\n"}},
		{name: "both", paths: []string{"p", "q"}, want: files{"p": "1\n-\nB\n-\nu\n", "r": "R\n"}, taken: []int{0}},
		{name: "all", paths: []string{"."}, want: files{"p": "1\n-\nB\n-\nu\n", "r": "R\n"}, taken: []int{0}},
		{name: "a glob", paths: []string{"[q-z]"}, want: files{"p": "A\n-\nB\n-\nu\n", "r": "R\n"}},
		{name: "what it did not change", paths: []string{"q", "r"}, says: `path "r": not found: turn 0 changed nothing there`},
		{name: "a glob of that", paths: []string{"[x-z]"}, says: "turn 0 changed nothing there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, m, _ := revertDay(t)
			before := b.files()
			r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}, Paths: c.paths})
			if c.want == nil {
				if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("error %v, want one that says %s", err, c.says)
				}
				b.expectFiles(before)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			b.expectFiles(c.want)
			if d := cmp.Diff(c.taken, r.TurnsTakenBack); d != "" {
				t.Errorf("taken back (-want +got):\n%s", d)
			}
			if r, err = m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}}); len(c.taken) > 0 {
				if !errors.Is(err, ErrNothing) {
					t.Errorf("again: %+v, %v", r, err)
				}
			} else if err != nil || len(r.TurnsTakenBack) != 1 {
				t.Errorf("the rest: %+v, %v", r, err)
			}
			b.expectFiles(files{"p": "1\n-\nB\n-\nu\n", "r": "R\n"})
			for range 2 - len(c.taken) {
				b.undo(m)
			}
			b.expectFiles(before)
		})
	}
}

// Where what turns did at a path was taken back already the error says by what.
func TestRevertPathsTwice(t *testing.T) {
	b, m, _ := revertDay(t)
	revert := func(paths ...string) (*RestoreResult, error) {
		return m.Revert(t.Context(), &RevertOptions{Turns: []string{"0..1"}, Paths: paths})
	}
	r, err := revert("q")
	if err != nil {
		t.Fatal(err)
	}
	for _, paths := range [][]string{{"q"}, {"p", "q"}, {"[q-z]"}} {
		before := b.files()
		_, err := revert(paths...)
		if !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), `what turn 0 did to "q" was taken back at `) ||
			!strings.HasSuffix(err.Error(), "by restore "+r.EntryID) {
			t.Errorf("%q again: %v", paths, err)
		}
		b.expectFiles(before)
	}
	b.undo(m)
	if _, err := revert("q"); err != nil {
		t.Errorf("once it is in again: %v", err)
	}
	hunk := b.hunks(m, &HunkRange{Turns: []string{"1"}}).Hunks[0].ID
	_, err = m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start", Paths: []string{"z"}, Hunks: []string{hunk}})
	if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), `path "z": not found`) {
		t.Errorf("hunks at a path that nobody has changed: %v", err)
	}
}

// What the user has taken back by hand is no success of a revert.
func TestRevertByHand(t *testing.T) {
	b, m, _ := revertDay(t)
	b.replace("p", "A", "1")
	b.remove("q")
	for _, preview := range []bool{true, false} {
		r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}, Preview: preview})
		if !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), "the files hold nothing of turn 0 any more") {
			t.Errorf("preview %v: %+v, %v", preview, r, err)
		}
	}
}

// Names that are not UTF-8 are told as bytes, too.
func TestRevertNoUTF8(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("names of Windows are Unicode")
	}
	b := newBench(t)
	m := b.open("s")
	const name, moved = "a\xff", "b\xff"
	b.write(name, revertText)
	b.initialize(m)
	b.turn(m, func() { b.replace(name, "1", "A"); b.replace(name, "2", "B") })
	b.replace(name, "A", "mine")
	r := b.revert(m, "0")
	merged := []MergedFile{{Path: name, PathBytes: []byte(name), Hunks: 1}}
	conflicts := []Conflict{{Path: name, PathBytes: []byte(name), Why: "lines", BlockedBy: []string{"user"},
		Hint: `snapctl --session s revert turn:0 --on-conflict markers -- $'a\377'`}}
	if d := cmp.Diff(merged, r.Merged) + cmp.Diff(conflicts, r.Conflicts); d != "" {
		t.Error(d)
	}
	b.undo(m)
	b.replace(name, "mine", "A")
	b.write(moved, b.files()[name])
	b.remove(name)
	b.initialize(m) // a look sees what the user has done
	if r = b.revert(m, "0"); len(r.Merged) != 1 || string(r.Merged[0].WasBytes) != name {
		t.Errorf("merged %+v, items %+v", r.Merged, r.Items)
	}
}

// Turns of another session are refused by name, but for those that a fork has from its
// parent. An open turn is in the way, or is ended.
func TestRevertSessions(t *testing.T) {
	b, m, entries := revertDay(t)
	o := b.open("other")
	b.initialize(o)
	if _, err := o.Revert(t.Context(), &RevertOptions{Turns: entries[:1]}); !errors.Is(err, ErrOtherSession) {
		t.Errorf("a turn of another session: %v", err)
	}
	if _, err := o.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}}); !errors.Is(err, ErrUnknown) {
		t.Errorf("a number of another session: %v", err)
	}
	any := b.open("any", func(o *Options) { o.AnySession = true })
	b.initialize(any)
	if _, err := any.Revert(t.Context(), &RevertOptions{Turns: entries[:1]}); !errors.Is(err, ErrOtherSession) {
		t.Errorf("a turn of another session that can be read: %v", err)
	}
	b.start(m)
	b.write("r", "R again\n")
	if _, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"3"}}); !errors.Is(err, ErrTurnOpen) {
		t.Errorf("while a turn is open: %v", err)
	}
	r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"4"}, EndTurn: true, Preview: true})
	if err != nil || fmt.Sprint(r.Restored, r.TurnsTakenBack) != "[r] [4]" {
		t.Errorf("a preview of the open turn: %+v, %v", r, err)
	}
	b.holds("r", "R again\n")
	r, err = m.Revert(t.Context(), &RevertOptions{Turns: []string{"4"}, EndTurn: true})
	if err != nil || !slices.Equal(r.TurnsTakenBack, []int{4}) {
		t.Errorf("the open turn: %+v, %v", r, err)
	}
	b.holds("r", "R\n")
}

// A number of four digits or more is that of a turn, unless something is called so.
func TestRevertLargeNumber(t *testing.T) {
	testseed.Sequential(t)
	dir, disk := t.TempDir(), vfstest.NewMem()
	m, err := openOn(t, dir, disk)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	b := &bench{T: t, dir: dir}
	b.initialize(m)
	for range 1000 {
		b.turn(m, func() {})
	}
	b.turn(m, func() { b.write("p", revertText) })
	if _, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"1001"}}); !errors.Is(err, ErrUnknown) {
		t.Errorf("a turn that is not: %v", err)
	}
	b.revert(m, "1000")
	b.expectFiles(files{})
}

// Turns that another store has recorded are in the log alone.
func TestRevertFromElsewhere(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.open("s")
	b.initialize(m)
	entry := b.turn(m, func() { b.write("p", revertText) })
	b.stores = t.TempDir()
	m = b.open("s")
	if err := m.RebuildIndex(t.Context(), b.log); err != nil {
		t.Fatal(err)
	}
	b.initialize(m)
	b.turn(m, func() { b.write("q", "Q\n") })
	for _, name := range []string{"0", "turn:0", entry} {
		if _, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{name}}); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.revert(m, "1")
	b.expectFiles(files{"p": revertText})
}

// In a session with a log a message stands for its turn.
func TestRevertMessages(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.open("s")
	if err := m.RebuildIndex(t.Context(), b.log); err != nil {
		t.Fatal(err)
	}
	b.write("p", revertText)
	b.initialize(m)
	var users, agents []string
	for _, fn := range []func(){
		func() { b.replace("p", "1", "A") }, func() {}, func() { b.replace("p", "2", "B") },
	} {
		user, agent := b.say(m, fn)
		users, agents = append(users, user), append(agents, agent)
	}
	for _, c := range []struct {
		name string
		want string // "": an error
	}{
		{users[0], "1\n-\nB\n-\n3\n"}, {agents[0], "1\n-\nB\n-\n3\n"}, {users[2], "A\n-\n2\n-\n3\n"},
		{agents[2], "A\n-\n2\n-\n3\n"}, {users[1], ""}, {agents[1], ""},
	} {
		r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{c.name}, Append: b.appendTo})
		if c.want == "" {
			if !errors.Is(err, ErrChangedNothing) && !errors.Is(err, ErrUnknown) {
				t.Errorf("a message of a turn that changed nothing: %+v, %v", r, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		b.holds("p", c.want)
		b.undo(m)
	}
}

// A directory that a turn made stays if something in it does, and that is nothing to be
// told; else it goes with the last file in it.
func TestRevertDirectories(t *testing.T) {
	for _, c := range []struct {
		name    string
		later   func(b *bench, m *FileSnapshotManager)
		deleted string
		want    files
	}{
		{"nothing else", func(*bench, *FileSnapshotManager) {}, "[d d/e d/e/a]", files{}},
		{"a later turn's file", func(b *bench, m *FileSnapshotManager) { b.turn(m, func() { b.write("d/e/b", "B") }) },
			"[d/e/a]", files{"d/e/b": "B"}},
		{"a later turn's file above", func(b *bench, m *FileSnapshotManager) {
			b.turn(m, func() { b.write("d/b", "B") })
		},
			"[d/e d/e/a]", files{"d/b": "B"}},
		{"the user's file", func(b *bench, _ *FileSnapshotManager) { b.write("d/e/u", "u") }, "[d/e/a]",
			files{"d/e/u": "u"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			m := b.open("s")
			b.initialize(m)
			b.turn(m, func() { b.write("d/e/a", "A") })
			c.later(b, m)
			before := b.files()
			r := b.revert(m, "0")
			if fmt.Sprint(r.Deleted) != c.deleted || !r.IsComplete() || len(r.Kept)+len(r.Dirty) > 0 {
				t.Errorf("deleted %v, kept %v, dirty %v, want %s", r.Deleted, r.Kept, r.Dirty, c.deleted)
			}
			b.expectFiles(c.want)
			b.undo(m)
			b.expectFiles(before)
		})
	}
}
