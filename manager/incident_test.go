package manager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/tree"
)

// The incidents are what users of today's tools have lost files by.

// A trace is all that is in a directory, with times.
type trace map[string]string

// traceOf reads a directory, also what no snapshot holds. What is in its
// own store does not count.
func (b *bench) traceOf(dir string) trace {
	b.Helper()
	got := make(trace)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p == b.stores {
			return filepath.SkipDir
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		content := []byte(nil)
		switch {
		case fi.Mode().IsRegular():
			content, err = os.ReadFile(p)
		case fi.Mode()&fs.ModeSymlink != 0:
			var target string
			target, err = os.Readlink(p)
			content = []byte(target)
		}
		rel, _ := filepath.Rel(dir, p)
		id := object.Hash(object.Blob, content)
		got[filepath.ToSlash(rel)] = fmt.Sprintf("%v %v %s", fi.Mode(), fi.ModTime().UnixNano(), id)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return got
}

// onlyChanged requires that nothing but some paths has changed since. The time
// of a directory changes with what is in it, and that of the root with the directory
// in which files are made.
func (b *bench) onlyChanged(before trace, paths ...string) {
	b.Helper()
	allowed := make(map[string]bool)
	for _, p := range paths {
		allowed[p] = true
		allowed[path.Dir(p)], allowed["."] = true, true
	}
	after := b.traceOf(b.dir)
	for _, w := range []trace{before, after} {
		for p := range w {
			if allowed[p] {
				delete(before, p)
				delete(after, p)
			}
		}
	}
	if d := cmp.Diff(before, after); d != "" {
		b.Errorf("outside of what was to be restored (-before +after):\n%s", d)
	}
}

// gitDir makes a directory look like a repository to us.
func (b *bench) gitDir(dir string) {
	b.Helper()
	for name, content := range map[string]string{"HEAD": "ref: refs/heads/main\n", "config": "[core]\n\tbare = false\n",
		"refs/heads/main": strings.Repeat("1", 40) + "\n", "objects/info/packs": "\n"} {
		b.write(filepath.Join(dir, ".git", name), content)
	}
}

func TestIncidents(t *testing.T) {
	t.Run("3 undo of a turn that changed nothing", func(t *testing.T) {
		b := newBench(t)
		m := b.open("s")
		b.write("user", "1")
		b.initialize(m)
		b.turn(m, func() { b.write("a", "1") })
		b.turn(m, func() {})
		records, before := b.records(m), b.traceOf(b.dir)
		r := b.restore(m, &RestoreOptions{Target: "turn:0"})
		b.onlyChanged(before)
		if len(r.Items) > 0 || r.EntryID != "" || b.records(m) != records {
			t.Errorf("%+v, %d records more", r, b.records(m)-records)
		}
	})
	t.Run("4 ignore rules changed inside the undone range", func(t *testing.T) {
		b := newBench(t)
		b.gitDir("")
		b.write(".gitignore", "build/\nsecret\n")
		b.write("build/out", "precious")
		b.write("secret", "precious")
		b.write("data/x", "tracked")
		m := b.open("s")
		b.initialize(m)
		b.turn(m, func() { b.write(".gitignore", "data/\n") })
		before := b.traceOf(b.dir)
		b.restore(m, &RestoreOptions{Target: "start"})
		b.onlyChanged(before, ".gitignore")
		b.undo(m)
		b.onlyChanged(before, ".gitignore")
		b.restore(m, &RestoreOptions{Target: "start", Exact: true})
		b.onlyChanged(before, ".gitignore")
	})
	t.Run("5 two sessions interleaved", func(t *testing.T) {
		b := newBench(t)
		m, o := b.open("a"), b.open("b")
		b.initialize(m)
		b.initialize(o)
		for i := range 4 {
			b.turn(m, func() { b.write("a/f", fmt.Sprint("a", i)); b.write(fmt.Sprint("a", i), "x") })
			b.turn(o, func() { b.write("b/f", fmt.Sprint("b", i)); b.write(fmt.Sprint("b", i), "x") })
		}
		before := b.traceOf(b.dir)
		b.restore(m, &RestoreOptions{Target: "start"})
		b.onlyChanged(before, "a", "a/f", "a0", "a1", "a2", "a3")
		want := files{"b/f": "b3", "b0": "x", "b1": "x", "b2": "x", "b3": "x"}
		b.expectFiles(want)
		b.undo(m)
		b.onlyChanged(before, "a", "a/f", "a0", "a1", "a2", "a3")
	})
	t.Run("6 a session in a subdirectory", func(t *testing.T) {
		b := newBench(t)
		b.gitDir("")
		b.write("sub/f", "1")
		b.write("sibling/f", "1")
		m, err := Open(t.Context(), filepath.Join(b.dir, "sub"), &Options{StoreRoot: b.stores, Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		b.initialize(m)
		b.turn(m, func() { b.write("sub/f", "2"); b.write("sibling/f", "2"); b.write("top", "2") })
		before := b.traceOf(b.dir)
		b.restore(m, &RestoreOptions{Target: "start"})
		b.onlyChanged(before, "sub/f")
		b.restore(m, &RestoreOptions{Target: "start", Exact: true})
		b.onlyChanged(before, "sub/f")
		for _, p := range []string{"../top", filepath.Join(b.dir, "top")} {
			if _, err := m.RestoreFiles(t.Context(),
				&RestoreOptions{Target: "start", Paths: []string{p}}); !errors.Is(err, ErrOutside) {
				t.Errorf("restore of %q: %v, want %v", p, err, ErrOutside)
			}
		}
	})
	t.Run("7 two worktrees", func(t *testing.T) {
		b := newBench(t)
		if _, err := exec.LookPath("git"); err != nil {
			t.Skip("git is not there to make a worktree")
		}
		for _, args := range []string{"init -q main",
			"-C main -c user.name=a -c user.email=a@b commit -q --allow-empty -m x", "-C main worktree add -q ../wt"} {
			cmd := exec.Command("git", strings.Fields(args)...)
			cmd.Dir = b.dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("git %s: %v\n%s", args, err, out)
			}
		}
		open := func(dir, id string) *FileSnapshotManager {
			m, err := Open(t.Context(), filepath.Join(b.dir, dir),
				&Options{StoreRoot: b.stores, Session: id, AnySession: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { m.Close() })
			return m
		}
		m, o := open("main", "s"), open("wt", "s")
		if m.StoreDir() != o.StoreDir() {
			t.Fatal("the worktrees do not share a store")
		}
		b.initialize(m)
		b.initialize(o)
		b.write("main/f", "main")
		entry := b.turn(m, func() { b.write("main/f", "agent") })
		b.turn(o, func() { b.write("wt/f", "wt") })
		before := b.traceOf(b.dir)
		for _, opts := range []*RestoreOptions{{Target: entry}, {Target: entry, Exact: true},
			{Target: entry, Paths: []string{"f"}}} {
			if _, err := o.RestoreFiles(t.Context(), opts); !errors.Is(err, ErrOtherSession) {
				t.Errorf("%+v: %v, want %v", opts, err, ErrOtherSession)
			}
		}
		b.onlyChanged(before)
	})
	t.Run("8 a folder without git that holds two repositories", func(t *testing.T) {
		b := newBench(t)
		b.gitDir("one")
		b.gitDir("two")
		b.write("one/f", "1")
		b.write("two/f", "1")
		m := b.open("s")
		b.initialize(m)
		b.turn(m, func() { b.write("one/f", "2"); b.write("two/f", "2"); b.write("two/new", "2") })
		before := b.traceOf(b.dir)
		b.restore(m, &RestoreOptions{Target: "start"})
		b.onlyChanged(before, "one/f", "two/f", "two/new")
		got := b.files()
		if got["one/f"] != "1" || got["two/f"] != "1" || got["two/new"] != "" {
			t.Errorf("got %v", got)
		}
		b.restore(m, &RestoreOptions{Target: "start", Exact: true})
		b.onlyChanged(before, "one/f", "two/f", "two/new")
	})
	t.Run("9 odd names and bytes", func(t *testing.T) {
		b := newBench(t)
		names := []string{"new\nline", "\xff\xfe", "tab\there", " space ", "-rf", "*", "[a]", "\\", "$HOME", "é",
			"e\u0301", "nul", strings.Repeat("n", 255), "d\n/\x01"}
		if runtime.GOOS == "windows" { // which has no others
			names = []string{"-rf", "[a]", " space", "$HOME", "é", "e\u0301", strings.Repeat("n", 255), "%TEMP%"}
		}
		contents := []string{"", "\x00\xff", "crlf\r\nlf\ncr\r", "\ufeffbom", "no newline", strings.Repeat("\n", 1000)}
		for i, name := range names {
			b.write(name, contents[i%len(contents)])
		}
		m := b.open("s")
		b.initialize(m)
		old := b.files()
		b.turn(m, func() {
			for i, name := range names {
				if i%3 == 0 {
					b.remove(name)
				} else {
					b.write(name, contents[(i+1)%len(contents)])
				}
			}
		})
		now := b.files()
		b.restore(m, &RestoreOptions{Target: "start"})
		b.expectFiles(old)
		b.undo(m)
		b.expectFiles(now)
		r := b.restore(m, &RestoreOptions{Target: "start", Paths: []string{"[a]", "**"}})
		b.expectFiles(old)
		if !r.IsComplete() {
			t.Errorf("%+v", r)
		}
	})
	t.Run("10 a file that crosses the size limit", func(t *testing.T) {
		for _, opts := range []RestoreOptions{{}, {Exact: true}} {
			b := newBench(t)
			m := b.open("s", func(o *Options) { o.Limits = tree.Limits{FileSize: 100} })
			b.write("grows", "small")
			b.write("shrinks", strings.Repeat("large ", 100))
			b.write("f", "1")
			b.initialize(m)
			b.turn(m, func() {
				b.write("grows", strings.Repeat("large ", 100))
				b.write("shrinks", "small")
				b.write("f", "2")
			})
			before := b.traceOf(b.dir)
			opts.Target = "start"
			r := b.restore(m, &opts)
			b.onlyChanged(before, "f")
			left := append(r.Skipped, r.NotCaptured...)
			slices.Sort(left)
			if d := cmp.Diff([]string{"grows", "shrinks"}, left); d != "" || r.IsComplete() {
				t.Errorf("left as they are (-want +got):\n%s", d)
			}
			b.undo(m)
			b.onlyChanged(before, "f")
		}
	})
	t.Run("11 the colliding pair", func(t *testing.T) {
		const one, two = "token=00721f84\n", "token=8564b520\n" // see TestIncumbentBugs
		b := newBench(t)
		m := b.open("s")
		b.write("f", one)
		b.initialize(m)
		b.turn(m, func() { b.write("f", two) })
		b.restore(m, &RestoreOptions{Target: "start"})
		b.expectFiles(files{"f": one})
		b.undo(m)
		b.expectFiles(files{"f": two})
	})
	t.Run("12 a link in the place of a directory", func(t *testing.T) {
		b := newBench(t)
		outside := t.TempDir()
		m := b.open("s")
		b.write("dir/a", "1")
		b.initialize(m)
		b.turn(m, func() { b.write("dir/a", "2"); b.write("dir/made", "2") })
		b.remove("dir")
		if err := errors.Join(os.WriteFile(filepath.Join(outside, "a"), []byte("2"), 0o644),
			os.WriteFile(filepath.Join(outside, "made"), []byte("2"), 0o644),
			os.Symlink(outside, filepath.Join(b.dir, "dir"))); err != nil {
			t.Fatal(err)
		}
		kept := b.traceOf(outside)
		for _, opts := range []*RestoreOptions{{Target: "start"}, {Target: "start", OnDirty: "overwrite"},
			{Target: "start", Paths: []string{"dir/a"}}} {
			if _, err := m.RestoreFiles(t.Context(), opts); err != nil {
				t.Logf("%+v: %v", opts, err)
			}
			if d := cmp.Diff(kept, b.traceOf(outside)); d != "" {
				t.Errorf("%+v: outside (-want +got):\n%s", opts, d)
			}
		}
	})
	t.Run("13 the store inside of the directory", func(t *testing.T) {
		b := newBench(t)
		b.stores = filepath.Join(b.dir, "store")
		m := b.open("s")
		b.write("f", "1")
		b.initialize(m)
		b.turn(m, func() { b.write("f", "2"); b.write("g", "2") })
		b.restore(m, &RestoreOptions{Target: "start"})
		b.restore(m, &RestoreOptions{Target: "start", Exact: true})
		b.undo(m)
		if _, err := os.Stat(filepath.Join(b.dir, "store")); err != nil {
			t.Error(err)
		}
		data, err := os.ReadFile(filepath.Join(b.dir, "f"))
		if err != nil || string(data) != "2" {
			t.Errorf("f is %q, %v", data, err)
		}
	})
	t.Run("14 a move by the shell after an edit", func(t *testing.T) {
		b := newBench(t)
		m := b.open("s")
		b.write("old name", "1")
		b.write("other", "1")
		b.initialize(m)
		b.turn(m, func() {
			b.write("old name", "2")
			if err := os.Rename(filepath.Join(b.dir, "old name"), filepath.Join(b.dir, "new name")); err != nil {
				t.Fatal(err)
			}
		})
		before := b.traceOf(b.dir)
		b.restore(m, &RestoreOptions{Target: "start"})
		b.expectFiles(files{"old name": "1", "other": "1"})
		b.undo(m)
		b.expectFiles(files{"new name": "2", "other": "1"})
		b.onlyChanged(before, "new name")
	})
	t.Run("15 many small files over the budget", func(t *testing.T) {
		n := 2_000
		if *every {
			n = 50_000
		}
		b := newBench(t)
		m := b.open("s", func(o *Options) { o.Limits = tree.Limits{Files: int64(n / 2)} })
		b.write("f", "1")
		b.initialize(m)
		b.start(m)
		b.write("f", "2")
		for i := range n {
			name := filepath.Join(b.dir, "many", strconv.Itoa(i%100), strconv.Itoa(i))
			err := os.WriteFile(name, []byte("x"), 0o644)
			if errors.Is(err, fs.ErrNotExist) {
				err = errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte("x"), 0o644))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		end := b.end(m)
		if !end.Data.Partial {
			t.Error("the turn is not said to be captured in part")
		}
		before := b.traceOf(b.dir)
		r := b.restore(m, &RestoreOptions{Target: "start"})
		after := b.traceOf(b.dir)
		for p := range before {
			if after[p] == "" && !slices.Contains(r.Deleted, p) {
				t.Fatalf("%s is gone and not listed", p)
			}
		}
		b.undo(m)
		for p := range before {
			if b.traceOf(b.dir)[p] == "" {
				t.Errorf("%s has not come back", p)
			}
			break
		}
		if got := len(b.traceOf(b.dir)); got != len(before) {
			t.Errorf("%d paths after undo, want %d", got, len(before))
		}
	})
}

// TestIncidentKilled is the first incident: a process is killed at each of its
// operations while it restores.
func TestIncidentKilled(t *testing.T) {
	testseed.Sequential(t)
	step := int(stride(29))
	for at := 0; ; at += step {
		b := newBench(t)
		m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		before, after := restoreDay(t, b.dir, m)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "RESTORE_DIR="+b.dir, "SESSION_STORES="+b.stores,
			"RESTORE_KILL="+strconv.Itoa(at))
		out, err := cmd.CombinedOutput()
		killed := wasKilled(err, out)
		if err != nil && !killed {
			t.Fatalf("operation %d: %v\n%s", at, err, out)
		}
		for p, content := range b.files() {
			if !strings.Contains(p, ".boo-") && !strings.HasPrefix(p, "moved/") && content != before[p] &&
				content != after[p] {
				t.Errorf("operation %d: %s holds %q", at, p, content)
			}
		}
		again := b.open("s")
		b.initialize(again)
		if got := b.files(); !cmp.Equal(got, before) && !cmp.Equal(got, after) {
			t.Errorf("operation %d: (-wanted +got):\n%s", at, cmp.Diff(before, got))
		}
		if !killed {
			b.expectFiles(before)
			return
		}
	}
}

// wasKilled reports whether a process was killed that says why when it ends by itself with 1:
// Windows does not tell the two apart.
func wasKilled(err error, out []byte) bool {
	return strings.Contains(fmt.Sprint(err), "killed") ||
		runtime.GOOS == "windows" && err != nil && len(out) == 0
}

// runRestore restores and kills itself at an operation.
func runRestore(dir, stores string, at int64) error {
	ctx, cancel := testContext()
	defer cancel()
	m, err := Open(ctx, dir, &Options{StoreRoot: stores, Session: "s"})
	if err != nil {
		return err
	}
	var fault *vfstest.Fault
	fault = &vfstest.Fault{At: -1, Trace: func(string, string) {
		if fault.Count() == at {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				self.Kill()
			}
			time.Sleep(time.Minute)
		}
	}}
	m.openDir = func(path string) (vfs.Dir, error) {
		d, err := vfs.OpenDir(path)
		if err != nil {
			return nil, err
		}
		return vfstest.WithFaultDir(d, fault), nil
	}
	_, err = m.RestoreFiles(ctx, &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
	return err
}
