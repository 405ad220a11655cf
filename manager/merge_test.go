package manager

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
)

// What a restore makes of a whole path that a turn and the user have changed.
func TestMergeWholePaths(t *testing.T) {
	testseed.Sequential(t)
	const text, turn, user, both = "1\n2\n3\n", "one\n2\n3\n", "one\n2\nthree\n", "1\n2\nthree\n"
	large := strings.Repeat("0123456789abcde\n", merging.MaxText/16+1)
	many := strings.Repeat("\n", merging.MaxLines/3)
	link := func(to string) func(*testing.T, string) {
		return func(t *testing.T, p string) {
			os.Remove(p)
			if err := os.Symlink(to, p); err != nil {
				t.Fatal(err)
			}
		}
	}
	file := func(text string, mode os.FileMode) func(*testing.T, string) {
		return func(t *testing.T, p string) {
			os.Remove(p)
			if err := os.WriteFile(p, []byte(text), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	none := func(t *testing.T, p string) { os.Remove(p) }
	for _, c := range []struct {
		name              string
		start, turn, user func(t *testing.T, p string)
		want, why         string // want: what a merge makes of it; else why it stays
	}{
		{"text", file(text, 0o644), file(turn, 0o644), file(user, 0o644), "-rw-r--r-- " + both, ""},
		{"the turn's mode", file(text, 0o644), file(text, 0o755), file(both, 0o755), "-rw-r--r-- " + both, ""},
		{"both, and the turn's mode", file(text, 0o644), file(turn, 0o755), file(user, 0o755),
			"-rw-r--r-- " + both, ""},
		{"the user's mode", file(text, 0o644), file(turn, 0o644), file(turn, 0o600), "-rw------- " + text, ""},
		{"the same lines", file(text, 0o644), file(turn, 0o644), file("1!\n2\n3\n", 0o644), "",
			"conflict: you and turn 0 changed the same lines"},
		{"line ends", file(text, 0o644), file(turn, 0o644), file("one\r\n2\r\n3\r\n", 0o644),
			"-rw-r--r-- 1\r\n2\r\n3\r\n", ""},
		{"line ends, with an edit", file(text, 0o644), file(turn, 0o644), file("one\r\n2\r\nthree\r\n", 0o644),
			"-rw-r--r-- 1\r\n2\r\nthree\r\n", ""},
		{"the turn's line ends", file(text, 0o644), file("1\r\n2\r\n3\r\n", 0o644), file("1\r\n2\r\nthree\r\n", 0o644),
			"-rw-r--r-- " + both, ""},
		{"the turn's line ends, with an edit", file(text, 0o644), file("one\r\n2\r\n3\r\n", 0o644),
			file("one\r\n2\r\nthree\r\n", 0o644), "-rw-r--r-- " + both, ""},
		{"made", none, file(turn, 0o644), file(user, 0o644), "", "conflict: turn 0 made it, and you changed it"},
		{"deleted", file(text, 0o644), none, file(user, 0o644), "",
			"conflict: turn 0 deleted it, and it was made again since"},
		{"deleted by the user", file(text, 0o644), file(turn, 0o644), none, "",
			"conflict: it was deleted since, and turn 0 changed it"},
		{"links", link("a"), link("b"), link("c"), "",
			"conflict: you and turn 0 changed it, and only files are merged"},
		{"a link now", file(text, 0o644), file(turn, 0o644), link("c"), "",
			"conflict: you and turn 0 changed it, and only files are merged"},
		{"binary", file(text+"\x00", 0o644), file(turn+"\x00", 0o644), file(user+"\x00", 0o644), "",
			"conflict: you and turn 0 changed it, and it is binary"},
		{"large", file(text+large, 0o644), file(turn+large, 0o644), file(user+large, 0o644), "",
			"conflict: you and turn 0 changed it, and it is too large to be merged"},
		{"many lines", file(text+many, 0o644), file(turn+many, 0o644), file(user+many, 0o644), "",
			"conflict: you and turn 0 changed it, and it is too large to be merged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			switch {
			case strings.Contains(c.name, "mode"):
				vfstest.NeedPerm(t, 0o755)
			case strings.Contains(c.name, "link"):
				vfstest.NeedLinks(t)
			}
			b := newBench(t)
			p := filepath.Join(b.dir, "p")
			c.start(t, p)
			m := b.open("s")
			b.initialize(m)
			b.turn(m, func() { c.turn(t, p) })
			c.user(t, p)
			was := lookAt(t, p)
			r, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case c.why == "":
				if len(r.Merged) != 1 || len(r.Restored) != 1 || len(r.Skipped) != 0 || !r.IsComplete() {
					t.Errorf("restored %q, merged %v, skipped %q", r.Restored, r.Merged, r.Skipped)
				}
				if got := lookAt(t, p); got != c.want {
					t.Errorf("it is %q, want %q", got, c.want)
				}
				if _, err := m.Undo(t.Context(), nil); err != nil {
					t.Error(err)
				}
			case len(r.Merged) != 0 || len(r.Items) != 1 || r.Items[0].Why != c.why ||
				!r.Items[0].Dirty || r.IsComplete():
				t.Errorf("%+v, want it to stay: %s", r.Items, c.why)
			}
			if got := lookAt(t, p); got != was {
				t.Errorf("it is %.40q in the end, want %.40q", got, was)
			}
		})
	}
}

// lookAt tells the mode and the content of a file, or where a link leads.
func lookAt(t *testing.T, p string) string {
	t.Helper()
	st, err := os.Lstat(p)
	if os.IsNotExist(err) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	if to, lerr := os.Readlink(p); lerr == nil {
		text = []byte(to)
	} else if text, err = os.ReadFile(p); err != nil {
		t.Fatal(err)
	}
	perm := vfs.KeptPerm(vfs.KindOf(st.Mode()), uint16(st.Mode().Perm()))
	return fmt.Sprintf("%v %s", st.Mode().Type()|fs.FileMode(perm), text)
}

// The guard refuses a text that lacks a line which only the disk had.
func TestGuardMerged(t *testing.T) {
	for _, c := range []struct {
		text, disk string
		recorded   []string
		fine       bool
	}{
		{"1\nu\n", "A\nu\n", []string{"A\n", "1\n"}, true},
		{"1\r\nu", "A\nu\n", []string{"A\n", "1\n"}, true},
		{"1\n", "A\nu\n", []string{"A\n", "1\n"}, false},
		{"1\nu\n", "A\nu\nu\n", []string{"A\n", "1\n"}, false},
		{"1\nu\nx\n", "A\nu\n", []string{"A\n", "1\n"}, false},
		{"1\n", "A\n", []string{"A\n", "1\n"}, true},
	} {
		var recorded [][]byte
		for _, text := range c.recorded {
			recorded = append(recorded, []byte(text))
		}
		if err := checkMerged([]byte(c.text), []byte(c.disk), recorded, nil); (err == nil) != c.fine {
			t.Errorf("%q of %q and %q: %v", c.text, c.disk, c.recorded, err)
		}
	}
}

// What a manager was opened with is what restores, undos and redos do that say nothing
// else; one that is to be exact overwrites all the same.
func TestPolicyOfOptions(t *testing.T) {
	const before, turn, user, merged = "1\n2\n3\n", "one\n2\n3\n", "one\n2\nmine\n", "1\n2\nmine\n"
	for _, c := range []struct {
		options, asked rollback.Policy
		exact          bool
		want           string
	}{
		{"", "", false, user},
		{rollback.Merge, "", false, merged},
		{rollback.Merge, rollback.Skip, false, user},
		{rollback.Merge, "", true, before},
		{rollback.Overwrite, "", false, before},
	} {
		b := newBench(t)
		b.write("f", before)
		m := b.open("s", func(o *Options) { o.OnDirty = c.options })
		b.initialize(m)
		b.turn(m, func() { b.write("f", turn) })
		b.write("f", user)
		holds := func(when, want string) {
			t.Helper()
			if got, err := os.ReadFile(filepath.Join(b.dir, "f")); err != nil || string(got) != want {
				t.Errorf("%+v, %s: %q, %v; want %q", c, when, got, err, want)
			}
		}
		_, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start", OnDirty: c.asked, Exact: c.exact})
		if err != nil {
			t.Fatal(err)
		}
		holds("restored", c.want)
		if c.want != merged {
			continue
		}
		b.write("f", "1\n2\nmine\nmore\n")
		if _, err := m.Undo(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		holds("undone", user+"more\n")
		if _, err := m.Redo(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		holds("redone", merged+"more\n")
	}
	m, err := Open(t.Context(), t.TempDir(), &Options{StoreRoot: t.TempDir(), Session: "s", OnDirty: "MERGE"})
	if err == nil {
		m.Close()
		t.Error("a policy that there is not was taken")
	}
}

// What the user has changed between a turn and another that has deleted the file comes back
// without what the first did.
func TestMergeDeletedSince(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("p", "1\n2\n3\n")
	b.initialize(m)
	b.turn(m, func() { b.write("p", "turn\n2\n3\n") })
	b.write("p", "turn\n2\nuser\n")
	b.turn(m, func() { b.remove("p") })
	r := b.restore(m, &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
	b.expectFiles(files{"p": "1\n2\nuser\n"})
	if len(r.Merged) != 1 || !r.IsComplete() {
		t.Errorf("%+v", r)
	}
	b.undo(m)
	b.expectFiles(files{})
}

// A turn has moved a line of the user's. It cannot be brought back to where it was, and so
// does not go from where it is.
func TestMergeMovedLine(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("p", "1\nuser\n2\n3\n4\n5\n6\n")
	b.initialize(m)
	b.turn(m, func() { b.write("p", "1\n2\n3\n4\n5\nuser\n6\n") })
	b.write("p", "1!\n2\n3\n4\n5\nuser\n6\n")
	r := b.restore(m, &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
	b.expectFiles(files{"p": "1!\n2\n3\n4\n5\nuser\n6\n"})
	if len(r.Conflicts) != 1 || r.Conflicts[0].Why != merging.WhyLines || len(r.Skipped) != 1 {
		t.Errorf("%+v", r)
	}
}

// What the user has written where nothing is left to take back is in the store when the restore is
// recorded, which has the file as it is.
func TestMergeOfNothingSaves(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("a", numbered(nil))
	b.write("b", "b\n")
	b.initialize(m)
	b.turn(m, func() { b.write("a", numbered(map[int]string{1: "turn 0"})) })
	b.turn(m, func() { b.write("a", numbered(map[int]string{1: "turn 0", 5: "turn 1"})) })
	b.write("a", numbered(map[int]string{1: "user", 5: "turn 1"}))
	b.revert(m, "0", "1")
	b.expectFiles(files{"a": numbered(map[int]string{1: "user"}), "b": "b\n"})
	b.turn(m, func() { b.write("b", "turn 2\n") })
	b.write("a", numbered(map[int]string{1: "user", 8: "more"}))
	b.revert(m, "1", "2")
	b.expectFiles(files{"a": numbered(map[int]string{1: "user", 8: "more"}), "b": "b\n"})
	b.check(m.store)
}
