package manager

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
)

// numbered returns a text of numbered lines of which some are others.
func numbered(others map[int]string) string {
	var b strings.Builder
	for i := range 10 {
		if line, ok := others[i]; ok {
			fmt.Fprintln(&b, line)
		} else {
			fmt.Fprintln(&b, "line", i)
		}
	}
	return b.String()
}

// Files that a turn has moved and the user has edited since, or the other way around, are
// merged; an undo, a redo and a restore to the turn are, too.
func TestMergeMoved(t *testing.T) {
	base := numbered(nil)
	edit := numbered(map[int]string{1: "turn"})
	both := numbered(map[int]string{1: "turn", 8: "user"})
	user := numbered(map[int]string{8: "user"})
	clash := numbered(map[int]string{1: "user"})
	for _, c := range []struct {
		name              string
		start, turn, then files // then: what the user makes of it
		want              files // without the turn; nil: all stays
		was               map[string]string
	}{
		{"the turn moved it", files{"a": base}, files{"b": base}, files{"b": user}, files{"a": user},
			map[string]string{"a": "b"}},
		{"the turn moved and edited it", files{"a": base}, files{"b": edit}, files{"b": both}, files{"a": user},
			map[string]string{"a": "b"}},
		{"into a directory", files{"a": base, "x": "x"}, files{"new/dir/b": edit, "x": "x"},
			files{"new/dir/b": both, "x": "x"}, files{"a": user, "x": "x"}, map[string]string{"a": "new/dir/b"}},
		{"out of one that is gone", files{"dir/a": base}, files{"b": edit}, files{"b": both}, files{"dir/a": user},
			map[string]string{"dir/a": "b"}},
		{"the same lines", files{"a": base}, files{"b": edit}, files{"b": clash}, nil, nil},
		{"its place is taken", files{"a": base}, files{"b": edit}, files{"a": "mine", "b": both}, nil, nil},
		{"another file", files{"a": base}, files{"b": "else\n"}, files{"b": "else\nuser\n"},
			files{"a": base, "b": "else\nuser\n"}, nil},
		{"of two the one that is the same", files{"a": base, "c": edit}, files{"b": edit, "d": base},
			files{"b": both, "d": base}, files{"a": base, "c": both}, map[string]string{"c": "b"}},
		{"the user moved it", files{"a": base}, files{"a": edit}, files{"b": edit}, files{"b": base},
			map[string]string{"b": "a"}},
		{"the user moved and edited it", files{"a": base}, files{"a": edit}, files{"dir/b": both}, files{"dir/b": user},
			map[string]string{"dir/b": "a"}},
		{"the user moved it, the same lines", files{"a": base}, files{"a": edit}, files{"b": clash}, nil, nil},
		{"the user deleted it", files{"a": base}, files{"a": edit}, files{"b": "else\n"}, nil, nil},
		{"both moved it", files{"a": base}, files{"b": edit}, files{"c": both}, files{"a": base, "c": both}, nil},
	} {
		for _, byName := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, " revert=", byName), func(t *testing.T) {
				b := newBench(t)
				m := b.open("s")
				become := func(from, to files) {
					for p := range from {
						if _, ok := to[p]; !ok {
							b.remove(strings.Split(p, "/")[0])
						}
					}
					for p, text := range to {
						b.write(p, text)
					}
				}
				become(nil, c.start)
				b.initialize(m)
				b.turn(m, func() { become(c.start, c.turn) })
				become(c.turn, c.then)
				b.initialize(m) // a look sees what the user has done
				back := func() (*RestoreResult, error) {
					if byName {
						return m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}})
					}
					return m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
				}
				r, err := back()
				if err != nil {
					t.Fatal(err)
				}
				want := c.want
				if want == nil {
					want = c.then
				}
				b.expectFiles(want)
				was := make(map[string]string)
				for _, f := range r.Merged {
					if f.Was != "" {
						was[f.Path] = f.Was
					}
				}
				if len(was)+len(c.was) > 0 && !cmp.Equal(was, c.was) {
					t.Errorf("it was at %v, want %v", was, c.was)
				}
				if c.was != nil && !r.IsComplete() || c.want == nil && r.IsComplete() {
					t.Errorf("restored %q, deleted %q, conflicts %+v, items %+v", r.Restored, r.Deleted,
						r.Conflicts, r.Items)
				}
				if len(r.Restored)+len(r.Deleted) == 0 {
					return
				}
				for range 2 {
					b.undo(m)
					b.expectFiles(c.then)
					b.redo(m)
					b.expectFiles(want)
				}
				if c.was == nil {
					return
				}
				// The user's lines change once more: the undo, and a restore to the turn, bring its change there.
				for p := range c.was {
					b.write(p, want[p]+"more\n")
				}
				b.initialize(m)
				if _, err := m.RestoreFiles(t.Context(),
					&RestoreOptions{Target: "turn:0", OnDirty: rollback.Merge}); err != nil {
					t.Fatal(err)
				}
				again := make(files)
				for p, text := range c.then {
					again[p] = text
				}
				for p, was := range c.was {
					if _, ok := again[p]; ok {
						again[p] += "more\n"
					} else {
						again[was] += "more\n"
					}
				}
				b.expectFiles(again)
			})
		}
	}
}

// movedDay is a session whose turn has moved a file that the user has edited since.
func movedDay(t *testing.T, dir string, m *FileSnapshotManager) (before, after files) {
	t.Helper()
	b := &bench{T: t, dir: dir}
	b.write("a", numbered(nil))
	b.initialize(m)
	b.turn(m, func() { b.remove("a"); b.write("dir/b", numbered(map[int]string{1: "turn"})) })
	b.write("dir/b", numbered(map[int]string{1: "turn", 8: "user"}))
	return b.files(), files{"a": numbered(map[int]string{8: "user"})}
}

// Somebody else takes the place to which a file is to be brought, at each operation of
// the restore: theirs stays, and the user's lines are where they were, or where they were
// to be.
func TestMergeMovedPlaceTaken(t *testing.T) {
	testseed.Sequential(t)
	for at := 0; ; at++ {
		b := newBench(t)
		m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		before, after := movedDay(t, b.dir, m)
		n, taken := 0, false
		watchDir(m, func(op, name string) {
			if n++; n-1 == at {
				if _, err := os.Lstat(filepath.Join(b.dir, "a")); err != nil {
					taken = true
					b.write("a", "mine")
				}
			}
		})
		r, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
		if err != nil {
			t.Fatalf("operation %d: %v", at, err)
		}
		if want := after; taken {
			want = maps.Clone(before)
			want["a"] = "mine"
			if got := b.files(); !cmp.Equal(got, want) || r.IsComplete() {
				t.Errorf("operation %d: %+v\n%s", at, r.Items, cmp.Diff(want, got))
			}
		} else {
			b.expectFiles(want)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if n <= at || t.Failed() {
			if at < 20 {
				t.Errorf("only %d operations", at)
			}
			return
		}
	}
}

// The process dies at each operation of the restore, and somebody else takes the place
// before the next one goes on, either way.
func TestMergeMovedCutOff(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	for _, how := range []string{"look", "look, place taken", "abort", "abort, place taken"} {
		for at := int64(0); ; at += stride(3) {
			dir, disk := t.TempDir(), vfstest.NewMem()
			b := &bench{T: t, dir: dir}
			m, err := openOn(t, dir, disk)
			if err != nil {
				t.Fatal(err)
			}
			before, after := movedDay(t, dir, m)
			fault := &vfstest.Fault{At: at, Sticky: true, Err: syscall.EIO}
			m.openDir = func(path string) (vfs.Dir, error) {
				d, err := vfs.OpenDir(path)
				return vfstest.WithFaultDir(d, fault), err
			}
			_, err = m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
			if !fault.Fired() {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			m.openDir = vfs.OpenDir
			_, taken := os.Lstat(filepath.Join(dir, "a"))
			isTaken := taken != nil && strings.HasSuffix(how, "taken")
			if isTaken {
				b.write("a", "mine")
			}
			if strings.HasPrefix(how, "abort") {
				if _, err := m.FinishRestore(t.Context(), true); err != nil && !errors.Is(err, ErrNothing) {
					t.Fatalf("operation %d, %s: %v", at, how, err)
				}
			} else {
				b.initialize(m)
			}
			got, want := b.files(), maps.Clone(before)
			want["a"] = "mine"
			if isTaken && !cmp.Equal(got, want) || !isTaken && !cmp.Equal(got, before) && !cmp.Equal(got, after) {
				t.Errorf("operation %d, %s:\n%s", at, how, cmp.Diff(want, got))
			}
			b.check(m.store)
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			if t.Failed() {
				return
			}
		}
	}
}

// A file is followed through several moves: of turns, and of the user.
func TestMergeMovedTwice(t *testing.T) {
	move := func(b *bench, from, to, text string) {
		b.remove(from)
		b.write(to, text)
	}
	t.Run("turns", func(t *testing.T) {
		b := newBench(t)
		m := b.open("s")
		b.write("a", numbered(nil))
		b.initialize(m)
		b.turn(m, func() { move(b, "a", "b", numbered(map[int]string{1: "turn 0"})) })
		b.turn(m, func() { move(b, "b", "c", numbered(map[int]string{1: "turn 0", 5: "turn 1"})) })
		all := files{"c": numbered(map[int]string{1: "turn 0", 5: "turn 1", 9: "user"})}
		b.write("c", all["c"])
		merge := func(target string) {
			t.Helper()
			r := b.restore(m, &RestoreOptions{Target: target, OnDirty: rollback.Merge})
			if len(r.Merged) != 1 || r.Merged[0].Was != "c" || !r.IsComplete() {
				t.Errorf("%+v", r)
			}
		}
		merge("start")
		b.expectFiles(files{"a": numbered(map[int]string{9: "user"})})
		b.undo(m)
		b.expectFiles(all)
		merge("@~1")
		one := numbered(map[int]string{1: "turn 0", 9: "user"})
		b.expectFiles(files{"b": one})
		b.write("b", one+"more\n")
		r, err := m.Undo(t.Context(), nil)
		if err != nil || len(r.Skipped) != 2 {
			t.Errorf("%+v, %v", r, err)
		}
		b.expectFiles(files{"b": one + "more\n"})
		r, err = m.Undo(t.Context(), &UndoOptions{OnDirty: rollback.Merge})
		if err != nil || !r.IsComplete() || len(r.Merged) != 1 || r.Merged[0].Was != "b" {
			t.Errorf("%+v, %v", r, err)
		}
		b.expectFiles(files{"c": all["c"] + "more\n"})
	})
	t.Run("the user", func(t *testing.T) {
		b := newBench(t)
		m := b.open("s")
		b.write("a", numbered(nil))
		b.initialize(m)
		b.turn(m, func() { b.write("a", numbered(map[int]string{1: "turn"})) })
		move(b, "a", "b", numbered(map[int]string{1: "turn"}))
		b.initialize(m)
		move(b, "b", "c", numbered(map[int]string{1: "turn", 9: "user"}))
		b.initialize(m)
		r := b.restore(m, &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
		b.expectFiles(files{"c": numbered(map[int]string{9: "user"})})
		if len(r.Merged) != 1 || r.Merged[0].Was != "a" || !r.IsComplete() {
			t.Errorf("%+v", r)
		}
	})
	t.Run("not seen", func(t *testing.T) {
		b := newBench(t)
		m := b.open("s")
		b.write("a", numbered(nil))
		b.initialize(m)
		b.turn(m, func() { b.write("a", numbered(map[int]string{1: "turn"})) })
		move(b, "a", "b", numbered(map[int]string{1: "turn"}))
		r := b.restore(m, &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
		b.expectFiles(files{"b": numbered(map[int]string{1: "turn"})})
		if len(r.Conflicts) != 1 || r.Conflicts[0].Why != merging.WhyUserDeleted {
			t.Errorf("%+v", r.Conflicts)
		}
	})
}

// A tool of a turn restores files that the user has edited since an earlier tool of the
// same turn has changed them, and moved one; the turn goes on, and is taken back, too.
func TestMergeInDividedTurn(t *testing.T) {
	h := &hooked{bench: newBench(t)}
	h.write("p", numbered(nil))
	h.write("q", numbered(nil))
	h.initialize(h.opened(false))
	h.start(h.opened(false))
	h.tool(func(*FileSnapshotManager) {
		h.write("p", numbered(map[int]string{1: "turn"}))
		h.remove("q")
		h.write("r", numbered(map[int]string{1: "turn"}))
	})
	h.write("p", numbered(map[int]string{1: "turn", 9: "user"}))
	h.write("r", numbered(map[int]string{1: "turn", 9: "user"}))
	user := numbered(map[int]string{9: "user"})
	h.tool(func(m *FileSnapshotManager) {
		h.restore(m, &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
	})
	h.expectFiles(files{"p": user, "q": user})
	h.tool(func(*FileSnapshotManager) { h.write("p", numbered(map[int]string{4: "turn", 9: "user"})) })
	h.write("p", numbered(map[int]string{4: "turn", 7: "user", 9: "user"}))
	h.end(h.opened(false))
	m := h.open("s")
	h.restore(m, &RestoreOptions{Target: "@~1", OnDirty: rollback.Merge})
	h.expectFiles(files{"p": numbered(map[int]string{7: "user", 9: "user"}), "q": user})
	for _, want := range []files{
		{"p": numbered(map[int]string{4: "turn", 7: "user", 9: "user"}), "q": user},
		{"p": numbered(map[int]string{1: "turn", 4: "turn", 7: "user", 9: "user"}),
			"r": numbered(map[int]string{1: "turn", 9: "user"})},
	} {
		if _, err := m.Undo(t.Context(), &UndoOptions{OnDirty: rollback.Merge}); err != nil {
			t.Fatal(err)
		}
		h.expectFiles(want)
	}
}

// What the user has written in a file before a turn moved it stays when older turns go as
// well, or the file does and is listed.
func TestMergeMovedBetween(t *testing.T) {
	base, user := numbered(nil), numbered(map[int]string{8: "user"})
	turn, both := numbered(map[int]string{1: "turn"}), numbered(map[int]string{1: "turn", 8: "user"})
	clash := numbered(map[int]string{1: "user"})
	for _, c := range []struct {
		name string
		days []files // what is there at first, and after each turn and the user in turn
		want files   // without the turns
		skip files   // where dirty files are skipped
		left string  // the file that is listed
	}{
		{"moved twice", []files{{"a": base}, {"b": base}, {"b": user}, {"c": user}}, files{"a": user},
			files{"a": base, "c": user}, ""},
		{"and edited", []files{{"a": base}, {"b": turn}, {"b": both}, {"c": both}}, files{"a": user},
			files{"a": base, "c": both}, ""},
		{"three times", []files{{"a": base}, {"b": base}, {"b": user}, {"c": user}, {"c": user}, {"d": user}},
			files{"a": user}, files{"a": base, "d": user}, ""},
		{"made, and moved", []files{{}, {"b": base}, {"b": user}, {"c": user}}, files{"c": user},
			files{"c": user}, "c"},
		{"the same lines", []files{{"a": base}, {"b": turn}, {"b": clash}, {"c": clash}}, files{"c": clash},
			files{"a": base, "c": clash}, "c"},
		{"its place is taken", []files{{"a": base}, {"b": base}, {"b": user}, {"c": user}, {"a": "mine", "c": user}},
			files{"a": "mine", "c": user}, files{"a": "mine", "c": user}, "c"},
		{"the user touched nothing", []files{{"a": base}, {"b": turn}, {"b": turn}, {"c": turn}}, files{"a": base},
			files{"a": base}, ""},
	} {
		for _, how := range []string{"start", "revert", "skip"} {
			t.Run(c.name+", "+how, func(t *testing.T) {
				b := newBench(t)
				m := b.open("s")
				become := func(to files) {
					for p := range b.files() {
						if _, ok := to[p]; !ok {
							b.remove(p)
						}
					}
					for p, text := range to {
						b.write(p, text)
					}
				}
				become(c.days[0])
				b.initialize(m)
				var turns []string
				for i, day := range c.days[1:] {
					if i%2 == 1 {
						become(day)
						continue
					}
					turns = append(turns, fmt.Sprint(i/2))
					b.turn(m, func() { become(day) })
				}
				last, want := b.files(), c.want
				opts := &RestoreOptions{Target: "start", OnDirty: rollback.Merge}
				if how == "skip" {
					opts.OnDirty, want = rollback.Skip, c.skip
				}
				var r *RestoreResult
				if how == "revert" {
					var err error
					if r, err = m.Revert(t.Context(), &RevertOptions{Turns: turns}); err != nil {
						t.Fatal(err)
					}
				} else {
					r = b.restore(m, opts)
				}
				b.expectFiles(want)
				var left []string
				for _, conflict := range r.Conflicts {
					left = append(left, conflict.Path)
				}
				if how == "skip" && want["a"] != c.want["a"] && len(r.Skipped) == 0 ||
					how != "skip" && c.left != "" && !slices.Contains(left, c.left) {
					t.Errorf("skipped %q, conflicts %q; %+v", r.Skipped, left, r.Items)
				}
				if r.Snapshot != nil {
					b.undo(m)
					b.expectFiles(last)
				}
			})
		}
	}
}

// A file that goes since the turn that moved it goes, and does not come where it was, which
// another turn has deleted, stays with what the user wrote in it.
func TestMergeMovedFromDeletion(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("a", numbered(nil))
	b.write("keep", "k\n")
	b.initialize(m)
	b.turn(m, func() { b.remove("a") })
	b.revert(m, "0")
	user := numbered(map[int]string{8: "user"})
	b.write("a", user)
	b.turn(m, func() { b.remove("a"); b.write("b", user) })
	if _, err := m.Undo(t.Context(), &UndoOptions{OnDirty: rollback.Merge}); err != nil {
		t.Fatal(err)
	}
	r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"1"}})
	if err != nil || len(r.Conflicts) != 1 || r.Conflicts[0].Path != "b" {
		t.Errorf("%+v, %v; want a conflict in b", r, err)
	}
	b.expectFiles(files{"b": user, "keep": "k\n"})
}

// What a turn that stays wrote in a file between two moves of it that go stays in the file.
func TestMergeMovedBetweenTurns(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	text, turn := numbered(nil), numbered(map[int]string{4: "turn"})
	b.write("a", text)
	b.initialize(m)
	b.turn(m, func() { b.remove("a"); b.write("b", text) })
	b.turn(m, func() { b.write("b", turn) })
	b.turn(m, func() { b.remove("b"); b.write("c", turn) })
	r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0", "2"}})
	if err != nil || len(r.Conflicts) != 1 || r.Conflicts[0].Path != "c" {
		t.Errorf("%+v, %v; want a conflict in c", r, err)
	}
	b.expectFiles(files{"a": text, "c": turn})
	b.undo(m)
	b.expectFiles(files{"c": turn})
}

// A file that a restore would move to where there is a conflict stays where it is.
func TestMergeMovedToConflict(t *testing.T) {
	text, turn := numbered(nil), numbered(map[int]string{2: "turn"})
	t.Run("a change of what is not there", func(t *testing.T) {
		b := newBench(t)
		m := b.open("s")
		b.write("a", text)
		b.initialize(m)
		b.turn(m, func() { b.remove("a"); b.write("b", text) })
		b.turn(m, func() { b.write("b", turn) })
		opts := &RevertOptions{Turns: []string{"0"}, OnConflict: rollback.ConflictTheirs}
		if _, err := m.Revert(t.Context(), opts); err != nil {
			t.Fatal(err)
		}
		b.expectFiles(files{"a": text})
		b.staysAt(m, &RestoreOptions{Target: "turn:0", OnDirty: rollback.Merge}, "a", "b")
	})
	t.Run("another file", func(t *testing.T) {
		b := newBench(t)
		m := b.open("s")
		b.write("a", text)
		b.initialize(m)
		b.turn(m, func() { b.remove("a"); b.write("b", text) })
		b.write("a", "mine\n")
		b.staysAt(m, &RestoreOptions{Target: "start", OnDirty: rollback.Merge}, "b", "a")
	})
}

// staysAt requires that a restore leaves all files as they are, with a path of them listed
// since another one is in conflict.
func (b *bench) staysAt(m *FileSnapshotManager, opts *RestoreOptions, path, clash string) {
	b.Helper()
	was := b.files()
	r := b.restore(m, opts)
	b.expectFiles(was)
	if len(r.Conflicts) != 1 || r.Conflicts[0].Path != clash || !slices.Contains(r.Skipped, path) {
		b.Errorf("skipped %q, conflicts %+v; want %q, and one in %q", r.Skipped, r.Conflicts, path, clash)
	}
}

// A file to which a turn that stays has moved what a turn wrote that goes is listed where the
// move is there in part only, and stays.
func TestRevertMovedOn(t *testing.T) {
	text, wrote := numbered(nil), numbered(map[int]string{2: "turn 0"})
	moved := func(t *testing.T, wrote string) (*bench, *FileSnapshotManager) {
		b := newBench(t)
		m := b.open("s")
		b.write("a", text)
		b.initialize(m)
		b.turn(m, func() { b.write("a", wrote); b.write("c", "new\n") })
		b.turn(m, func() { b.remove("a"); b.write("b", wrote) })
		return b, m
	}
	t.Run("back at both places", func(t *testing.T) {
		b, m := moved(t, wrote)
		b.restore(m, &RestoreOptions{Target: "start"})
		later := numbered(map[int]string{8: "turn 2"})
		b.turn(m, func() { b.write("a", later) })
		if _, err := m.Undo(t.Context(), &UndoOptions{OnDirty: rollback.Merge}); err != nil {
			t.Fatal(err)
		}
		b.expectFiles(files{"a": later, "b": wrote, "c": "new\n"})
		r := b.revert(m, "0")
		want := []Conflict{{Path: "b", Why: "hidden", BlockedBy: []string{"turn:1"},
			Hint: "snapctl --session s revert turn:1"}}
		if d := cmp.Diff(want, r.Conflicts); d != "" || !slices.Equal(r.Skipped, []string{"b"}) {
			t.Errorf("skipped %q, conflicts (-want +got):\n%s", r.Skipped, d)
		}
		b.expectFiles(files{"a": later, "b": wrote})
		b.undo(m)
		b.expectFiles(files{"a": later, "b": wrote, "c": "new\n"})
	})
	t.Run("somebody has written over it", func(t *testing.T) {
		b, m := moved(t, wrote)
		b.restore(m, &RestoreOptions{Target: "start"})
		b.turn(m, func() { b.write("a", numbered(map[int]string{8: "turn 2"})) })
		if _, err := m.Undo(t.Context(), &UndoOptions{OnDirty: rollback.Merge}); err != nil {
			t.Fatal(err)
		}
		b.write("b", text)
		if r := b.revert(m, "0"); !r.IsComplete() {
			t.Errorf("nothing of the turn is in b: %+v", r)
		}
	})
	t.Run("taken out before it was moved", func(t *testing.T) {
		b := newBench(t)
		m := b.open("s")
		b.write("a", text)
		b.initialize(m)
		b.turn(m, func() { b.write("a", wrote); b.write("c", "new\n") })
		if _, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}, Paths: []string{"a"}}); err != nil {
			t.Fatal(err)
		}
		b.turn(m, func() { b.remove("a"); b.write("b", text) })
		b.write("b", wrote) // by hand
		if r := b.revert(m, "0"); !r.IsComplete() {
			t.Errorf("nothing that the turn wrote is in b: %+v", r)
		}
		b.expectFiles(files{"b": wrote})
	})
	t.Run("gone where it was", func(t *testing.T) {
		b, m := moved(t, wrote)
		r := b.revert(m, "0")
		if len(r.Conflicts) != 1 || r.Conflicts[0].Path != "a" || r.Conflicts[0].Why != "hidden" {
			t.Errorf("conflicts %+v, want one in a", r.Conflicts)
		}
	})
}

// A file that two turns have moved, and one that stays has edited between them, stays, and is
// listed with that turn.
func TestRevertMovedAround(t *testing.T) {
	text, edited := numbered(nil), numbered(map[int]string{2: "turn 1"})
	b := newBench(t)
	m := b.open("s")
	b.write("a", text)
	b.initialize(m)
	b.turn(m, func() { b.remove("a"); b.write("b", text) })
	b.turn(m, func() { b.write("b", edited) })
	b.turn(m, func() { b.remove("b"); b.write("c", edited) })
	r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0", "2"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Conflict{{Path: "c", Why: "made-then-changed", BlockedBy: []string{"turn:1"},
		Hint: "snapctl --session s revert turn:0 turn:1 turn:2"}}
	if d := cmp.Diff(want, r.Conflicts); d != "" {
		t.Errorf("conflicts (-want +got):\n%s", d)
	}
	b.expectFiles(files{"a": text, "c": edited})
	b.revert(m, "0", "1", "2")
	b.expectFiles(files{"a": text})
}

// A file that the session has moved, somebody edited then, and the session moved again while
// another was at work: whose that move is nobody knows. It stays, and is listed.
func TestMergeMovedContested(t *testing.T) {
	edited := numbered(map[int]string{8: "user"})
	b := newBench(t)
	m, o := b.open("s"), b.open("o")
	b.write("a", numbered(nil))
	b.initialize(m)
	b.initialize(o)
	b.turn(m, func() { b.remove("a"); b.write("b", numbered(nil)) })
	b.write("b", edited)
	b.start(m)
	b.start(o)
	b.remove("b")
	b.write("c", edited)
	b.end(o)
	b.end(m)
	r, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
	if err != nil || r.IsComplete() {
		t.Fatalf("%+v, %v", r, err)
	}
	if b.files()["c"] != edited {
		t.Errorf("c: %q", b.files()["c"])
	}
}

// A file that was made while another session was at work, and that somebody and a turn have
// changed since, is listed as one of which nobody knows whose it is.
func TestMergeMadeContested(t *testing.T) {
	b := newBench(t)
	m, o := b.open("s"), b.open("o")
	b.initialize(m)
	b.initialize(o)
	b.start(m)
	b.start(o)
	b.write("a", revertText)
	b.end(o)
	b.end(m)
	b.turn(o, func() { b.replace("a", "1", "o") })
	b.turn(m, func() { b.replace("a", "3", "A") })
	r, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
	if err != nil || len(r.Conflicts) != 1 || r.Conflicts[0].Path != "a" || r.Conflicts[0].Why != "contested" {
		t.Errorf("%+v, %v; want a conflict in a", r, err)
	}
	b.expectFiles(files{"a": "o\n-\n2\n-\nA\n"})
}

// A file that was changed while another session was at work, and that a turn has moved since:
// where it was it does not come, as nobody knows whose it is, so it stays where it is.
func TestMergeMovedFromContested(t *testing.T) {
	text := numbered(nil)
	b := newBench(t)
	m, o := b.open("s"), b.open("o")
	b.write("a", text)
	b.initialize(m)
	b.initialize(o)
	b.start(m)
	b.start(o)
	b.write("a", numbered(map[int]string{3: "both"}))
	b.end(o)
	b.end(m)
	b.turn(m, func() { b.remove("a"); b.write("b", numbered(map[int]string{3: "both"})) })
	before := b.files()
	for _, do := range []func() (*RestoreResult, error){
		func() (*RestoreResult, error) {
			return m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
		},
		func() (*RestoreResult, error) {
			return m.Revert(t.Context(), &RevertOptions{Turns: []string{"0", "1"}})
		},
	} {
		if r, err := do(); err != nil || r.IsComplete() || !slices.Contains(r.Skipped, "b") {
			t.Errorf("%+v, %v; want b to stay", r, err)
		}
		b.expectFiles(before)
	}
}

// So it is with one that was made, moved or changed so, and that a turn has moved on since: also
// with theirs, as nobody knows whose it is.
func TestMergeMovedOnFromContested(t *testing.T) {
	text, both := numbered(nil), numbered(map[int]string{3: "both"})
	move := func(b *bench, from, to, text string) func() {
		return func() { b.remove(from); b.write(to, text) }
	}
	for name, do := range map[string]func(b *bench, turn, atOnce func(func())){
		"made": func(b *bench, turn, atOnce func(func())) {
			atOnce(func() { b.write("b", both) })
			turn(move(b, "b", "c", both))
		},
		"moved": func(b *bench, turn, atOnce func(func())) {
			atOnce(move(b, "a", "b", text))
			turn(move(b, "b", "c", text))
		},
		"changed between moves": func(b *bench, turn, atOnce func(func())) {
			turn(move(b, "a", "b", text))
			atOnce(func() { b.write("b", both) })
			turn(move(b, "b", "c", both))
		},
	} {
		for _, how := range []rollback.OnConflict{rollback.ConflictKeep, rollback.ConflictTheirs} {
			t.Run(fmt.Sprint(name, "/", how), func(t *testing.T) {
				b := newBench(t)
				m, o := b.open("s"), b.open("o")
				b.write("a", text)
				b.initialize(m)
				b.initialize(o)
				do(b, func(fn func()) { b.turn(m, fn) }, func(fn func()) {
					b.start(m)
					b.start(o)
					fn()
					b.end(o)
					b.end(m)
				})
				was := b.files()["c"]
				r, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start", OnDirty: rollback.Merge,
					OnConflict: how})
				if err != nil || r.IsComplete() || !slices.Contains(r.Skipped, "c") || b.files()["c"] != was {
					t.Errorf("%+v, %v, %q; want c to stay", r, err, b.files())
				}
			})
		}
	}
}

// What was taken back of a window does not come with what a later one of the turn had found. A
// file that the turn has moved stays, where the user had written in it before that, although
// what was taken back has put another one where it was.
func TestTheirsWithoutWindow(t *testing.T) {
	text := numbered(nil)
	b := newBench(t)
	m := b.open("s")
	m.opts.ToolWindows = true
	b.write("a", text)
	b.initialize(m)
	tool := func(name string, do func()) {
		if _, err := m.OnToolStart(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		do()
		if _, err := m.OnToolEnd(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	b.start(m)
	tool("1", func() { b.write("a", numbered(map[int]string{2: "turn"})) })
	b.write("a", numbered(map[int]string{2: "turn", 8: "user"}))
	tool("2", func() { b.remove("a"); b.write("b", numbered(map[int]string{2: "turn", 8: "user"})) })
	b.end(m)
	opts := &RevertOptions{Turns: []string{"0"}, OnConflict: rollback.ConflictTheirs}
	for _, h := range b.hunks(m, &HunkRange{Turns: opts.Turns}).Hunks {
		if h.Path == "a" && h.Kind == "lines" {
			opts.Hunks = append(opts.Hunks, h.ID)
		}
	}
	if len(opts.Hunks) != 1 {
		t.Fatalf("hunks %q, want one", opts.Hunks)
	}
	if _, err := m.Revert(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	opts.Hunks = nil
	b.expectFiles(files{"a": text, "b": numbered(map[int]string{2: "turn", 8: "user"})})
	keep := &RevertOptions{Turns: opts.Turns}
	r, err := m.Revert(t.Context(), keep)
	want := []Conflict{{Path: "b", Why: "made-then-changed",
		Hint: "snapctl --session s revert turn:0 --on-conflict theirs -- b"}}
	if d := cmp.Diff(want, r.Conflicts); err != nil || d != "" {
		t.Errorf("what the user wrote is in b alone: %v, conflicts (-want +got):\n%s", err, d)
	}
	b.expectFiles(files{"a": text, "b": numbered(map[int]string{2: "turn", 8: "user"})})
	b.write("a", numbered(map[int]string{5: "mine"}))
	if _, err := m.Revert(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	b.expectFiles(files{"a": numbered(map[int]string{8: "user"})})
}

// A line of the user's that is gone from a file does not come with theirs, where a turn that goes
// had found it, if all of what was in conflict is as it is to be in the end.
func TestTheirsWithoutConflictInTheEnd(t *testing.T) {
	for _, how := range ledgerHow {
		b := newBench(t)
		m := b.open("s")
		b.write("a", numbered(nil))
		b.initialize(m)
		b.turn(m, func() { b.remove("a"); b.write("b", numbered(nil)) })
		b.write("b", numbered(map[int]string{7: "user"}))
		b.turn(m, func() { b.write("b", numbered(map[int]string{7: "user", 8: "turn"})) })
		b.write("b", numbered(nil))
		r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0", "1"}, OnConflict: how})
		if err != nil || !r.IsComplete() || len(r.Conflicts) > 0 {
			t.Errorf("%q: %+v, %v", how, r, err)
		}
		b.expectFiles(files{"a": numbered(nil)})
	}
}

// A file that the user has made, in which a turn has written that was taken back, and that the
// user has moved since: the turn comes where it is by now, and nothing where it was.
func TestMergeMovedBeforeItComes(t *testing.T) {
	for _, how := range ledgerHow {
		b := newBench(t)
		m := b.open("s")
		b.write("a", numbered(nil))
		b.initialize(m)
		b.remove("a")
		b.write("b", numbered(nil))
		b.turn(m, func() { b.write("b", numbered(map[int]string{7: "turn"})) })
		b.revert(m, "0")
		b.remove("b")
		b.write("c", numbered(map[int]string{3: "user"}))
		b.initialize(m) // a look sees it
		opts := &RestoreOptions{Target: "turn:0", OnDirty: rollback.Merge, OnConflict: how}
		r := b.sameAsPreview(m, *opts)
		b.expectFiles(files{"c": numbered(map[int]string{3: "user", 7: "turn"})})
		if len(r.Merged) != 1 || r.Merged[0].Was != "b" || !slices.Equal(r.TurnsPutBack, []int{0}) {
			t.Errorf("%q: merged %+v, turns put back %d", how, r.Merged, r.TurnsPutBack)
		}
		b.undo(m)
		b.expectFiles(files{"c": numbered(map[int]string{3: "user"})})
		b.redo(m)
		b.revert(m, "0")
		b.expectFiles(files{"c": numbered(map[int]string{3: "user"})})
	}
}

// What the user wrote in a file between two windows of a turn, which moved it before and
// behind that, stays when the turn goes: where it was first, or where it is.
func TestMergeMovedWithin(t *testing.T) {
	text, user := numbered(nil), numbered(map[int]string{4: "user"})
	day := func(t *testing.T, first string) (*bench, *FileSnapshotManager) {
		b := newBench(t)
		m := b.open("s", func(o *Options) { o.ToolWindows = true })
		b.write("keep", "k\n")
		if first == "a" {
			b.write("a", text)
		}
		b.initialize(m)
		b.start(m)
		b.tool(m, "one", func() { b.remove("a"); b.write("b", text) })
		b.write("b", user)
		b.tool(m, "two", func() { b.remove("b"); b.write("c", user) })
		b.end(m)
		return b, m
	}
	t.Run("moved twice, and changed", func(t *testing.T) {
		b := newBench(t)
		m := b.open("s", func(o *Options) { o.ToolWindows = true })
		b.write("a", text)
		b.initialize(m)
		b.start(m)
		b.tool(m, "one", func() { b.remove("a"); b.write("b", numbered(map[int]string{1: "turn"})) })
		b.write("b", numbered(map[int]string{1: "turn", 4: "user"}))
		after := numbered(map[int]string{1: "turn", 4: "user", 7: "turn"})
		b.tool(m, "two", func() { b.remove("b"); b.write("c", after) })
		b.end(m)
		b.restore(m, &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
		b.expectFiles(files{"a": user})
		b.undo(m)
		b.expectFiles(files{"c": after})
	})
	t.Run("merged where it was", func(t *testing.T) {
		b := newBench(t)
		m := b.open("s", func(o *Options) { o.ToolWindows = true })
		b.write("a", text)
		b.initialize(m)
		b.start(m)
		b.tool(m, "one", func() { b.write("a", numbered(map[int]string{3: "turn"})) })
		b.write("a", text) // the user does not want it
		b.tool(m, "two", func() { b.remove("a"); b.write("b", numbered(map[int]string{7: "turn"})) })
		b.end(m)
		b.revert(m, "0") // and leaves nothing behind
		b.expectFiles(files{"a": text})
	})
	for _, policy := range []rollback.Policy{rollback.Merge, rollback.Skip} {
		t.Run("moved twice/"+string(policy), func(t *testing.T) {
			b, m := day(t, "a")
			opts := &RestoreOptions{Target: "start", OnDirty: policy}
			r := b.restore(m, opts)
			if policy == rollback.Merge {
				b.expectFiles(files{"a": user, "keep": "k\n"})
				b.undo(m)
				b.expectFiles(files{"c": user, "keep": "k\n"})
				return
			}
			for range 2 { // also for who takes the rest back
				if !slices.Contains(r.Skipped, "c") || b.files()["c"] != user {
					t.Errorf("skipped %q, %v; want c, as it was", r.Skipped, b.files())
				}
				r = b.restore(m, opts)
			}
		})
		t.Run("made and moved/"+string(policy), func(t *testing.T) {
			b, m := day(t, "")
			b.turn(m, func() { b.tool(m, "one", func() { b.write("d", "d\n") }) })
			for i := range 3 {
				r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}, OnDirty: policy})
				if err != nil || !slices.Contains(r.Skipped, "c") {
					t.Fatalf("%d: %+v, %v; want c skipped", i, r, err)
				}
				b.expectFiles(files{"c": user, "keep": "k\n", "d": "d\n"})
				if i == 1 {
					b.restore(m, &RestoreOptions{Target: "@~1"})
					b.undo(m)
				}
			}
		})
	}
}

// So it is where a turn between them stays, and a conflict had left the file before it was
// moved again.
func TestMergeMovedFromConflict(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	text, both := numbered(nil), numbered(map[int]string{1: "turn 1", 4: "user"})
	b.write("a", text)
	b.write("x", "x\n")
	b.initialize(m)
	b.turn(m, func() { b.remove("a"); b.write("b", text) })
	b.write("b", numbered(map[int]string{4: "user"}))
	b.turn(m, func() { b.write("b", both) })
	b.revert(m, "0")
	b.expectFiles(files{"a": text, "b": both, "x": "x\n"})
	b.turn(m, func() { b.remove("b"); b.write("c", both); b.write("x", "turn 2\n") })
	for range 2 {
		r := b.revert(m, "0", "2")
		if len(r.Conflicts) != 1 || r.Conflicts[0].Path != "c" {
			t.Errorf("conflicts %+v, want one in c", r.Conflicts)
		}
		b.expectFiles(files{"a": text, "c": both, "x": "x\n"})
	}
}

// What the user wrote in a file that a turn had moved is the user's, too, where a revert has put the
// file back, and other turns stay in there.
func TestMergeMovedBackIsOthers(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("a", numbered(nil))
	b.initialize(m)
	b.turn(m, func() { b.write("a", numbered(map[int]string{1: "turn 0"})) })
	b.revert(m, "0")
	b.turn(m, func() { b.write("a", numbered(map[int]string{4: "turn 1"})) })
	if _, err := m.Undo(t.Context(), &UndoOptions{OnDirty: rollback.Merge}); err != nil {
		t.Fatal(err)
	}
	both := numbered(map[int]string{1: "turn 0", 4: "turn 1"})
	b.expectFiles(files{"a": both})
	b.turn(m, func() { b.remove("a"); b.write("b", both) })
	b.write("b", numbered(map[int]string{1: "turn 0", 4: "turn 1", 8: "user"}))
	b.revert(m, "0", "2")
	b.expectFiles(files{"a": numbered(map[int]string{4: "turn 1", 8: "user"})})
	b.restore(m, &RestoreOptions{Target: "turn:2", OnDirty: rollback.Merge})
	b.expectFiles(files{"b": numbered(map[int]string{1: "turn 0", 4: "turn 1", 8: "user"})})
}

// A turn changes which files are left out, so that one that somebody has changed seems to move to another
// that holds the same: nothing was moved, and a restore leaves both as they are.
func TestMergeMovedByRules(t *testing.T) {
	user := numbered(map[int]string{1: "turn", 4: "user"})
	last := numbered(map[int]string{1: "turn", 4: "user", 7: "turn"})
	b := newBench(t)
	m := b.open("s")
	b.write(".booignore", "/dir/\n")
	b.write("a", numbered(nil))
	b.write("dir/a", last)
	b.initialize(m)
	b.turn(m, func() { b.write("a", numbered(map[int]string{1: "turn"})) })
	b.write("a", user)
	b.turn(m, func() { b.write("a", last) })
	b.turn(m, func() { b.write(".booignore", "/a\n") })
	for _, policy := range []rollback.Policy{rollback.Skip, rollback.Merge} {
		b.restore(m, &RestoreOptions{Target: "start", OnDirty: policy})
		b.expectFiles(files{"a": last, "dir/a": last, ".booignore": "/dir/\n"})
		b.undo(m)
	}
}
