package manager

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
)

// crash makes a restore to the start die at a directory operation, and reports
// whether it got so far that it could not be changed back.
func (b *bench) crash(at int64) bool {
	b.Helper()
	m, err := Open(b.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	b.breakDir(m, at)
	_, err = m.RestoreFiles(b.Context(), &RestoreOptions{Target: "start"})
	return err != nil && strings.Contains(err.Error(), "could not be changed back")
}

// breakDir lets the directory's operations fail from one on.
func (b *bench) breakDir(m *FileSnapshotManager, at int64) {
	fault := &vfstest.Fault{At: at, Sticky: true, Err: syscall.EIO}
	m.openDir = func(path string) (vfs.Dir, error) {
		d, err := vfs.OpenDir(path)
		if err != nil {
			return nil, err
		}
		return vfstest.WithFaultDir(d, fault), nil
	}
}

// A restore that deletes files is cut off, and so is the way back, once or twice: the next one
// finds what that had prepared, and brings back all of them.
func TestAbortCutOff(t *testing.T) {
	testseed.Sequential(t)
	cuts := 0
	for at := int64(0); at < 300; at += 11 * stride(1) {
		for again := int64(0); again < 150; again += 7 * stride(1) {
			b := &bench{T: t, dir: t.TempDir(), stores: t.TempDir()}
			open := func() *FileSnapshotManager {
				m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
				if err != nil {
					t.Fatal(err)
				}
				return m
			}
			m := open()
			b.write("d/keep", "1")
			b.initialize(m)
			b.turn(m, func() {
				for i := range 20 {
					b.write(fmt.Sprintf("d/f%d", i), fmt.Sprint(i))
				}
			})
			want := readWorld(t, b.dir)
			m.Close()
			if !b.crash(at) {
				break
			}
			for range 2 {
				m = open()
				b.breakDir(m, again)
				_, err := m.FinishRestore(t.Context(), true)
				m.Close()
				if err == nil {
					break
				}
				cuts++
			}
			m = open()
			if _, err := m.FinishRestore(t.Context(), true); err != nil && !errors.Is(err, ErrNothing) {
				t.Fatal(err)
			}
			m.Close()
			if d := cmp.Diff(want, readWorld(t, b.dir), cmp.AllowUnexported(node{})); d != "" {
				t.Fatalf("cut off at %d, and the way back at %d (-want +got):\n%s", at, again, d)
			}
		}
	}
	if cuts == 0 {
		t.Error("no way back was cut off")
	}
}

// A restore that went back to before a directory was moved is cut off, and what
// goes on is cut off as well: it ends old or new, and nothing is lost.
func TestCutOffTwice(t *testing.T) {
	testseed.Sequential(t)
	vfstest.NeedRename(t, vfs.NoReplace)
	t.Parallel()
	cuts := 0
	for at := int64(0); at < 160; at += stride(2) + at%3 {
		for again := int64(0); again < 60; again += 7 * stride(3) {
			b := &bench{T: t, dir: t.TempDir(), stores: t.TempDir()}
			m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
			if err != nil {
				t.Fatal(err)
			}
			b.git("cache/\n")
			b.write("old/a", "aaa")
			b.write("old/b", "bbb")
			b.write("old/cache/x", "ignored")
			if err := os.Chmod(filepath.Join(b.dir, "old"), 0o555); err != nil {
				t.Fatal(err)
			}
			b.initialize(m)
			before := readWorld(t, b.dir)
			b.turn(m, func() {
				if err := os.Rename(filepath.Join(b.dir, "old"), filepath.Join(b.dir, "new")); err != nil {
					t.Fatal(err)
				}
				b.write("new/a", "edited")
			})
			after := readWorld(t, b.dir)
			m.Close()
			if !b.crash(at) {
				break
			}
			cuts++
			abort := again%2 == 0
			if m, err = Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"}); err != nil {
				t.Fatal(err)
			}
			b.breakDir(m, again)
			_, first := m.FinishRestore(t.Context(), abort)
			m.openDir = vfs.OpenDir
			if first != nil {
				if _, err := m.FinishRestore(t.Context(), !abort); err != nil {
					t.Fatal(err)
				}
				abort = !abort
			}
			want := before
			if abort {
				want = after
			}
			if d := cmp.Diff(want, readWorld(t, b.dir), cmp.AllowUnexported(node{})); d != "" {
				t.Fatalf("cut off at %d and %d (%v), abort %v (-want +got):\n%s", at, again, first, abort, d)
			}
			m.Close()
			if first == nil {
				break
			}
		}
	}
	if cuts == 0 {
		t.Error("nothing was cut off")
	}
}

// What the user has done since a restore was cut off is theirs.
func TestFinishLeavesUsersFiles(t *testing.T) {
	testseed.Sequential(t)
	vfstest.NeedLinks(t)
	cuts := 0
	for at := int64(0); at < 160; at += 4 {
		for _, abort := range []bool{false, true} {
			b := &bench{T: t, dir: t.TempDir(), stores: t.TempDir()}
			m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
			if err != nil {
				t.Fatal(err)
			}
			b.write("old/a", "aaa")
			b.write("old/b", "bbb")
			b.initialize(m)
			b.turn(m, func() {
				if err := os.Rename(filepath.Join(b.dir, "old"), filepath.Join(b.dir, "new")); err != nil {
					t.Fatal(err)
				}
			})
			m.Close()
			if !b.crash(at) {
				continue
			}
			cuts++
			b.remove("new")
			b.remove("old")
			b.write("old/mine", "user's")
			if err := os.Symlink("elsewhere", filepath.Join(b.dir, "new")); err != nil {
				t.Fatal(err)
			}
			m = b.open("s")
			if _, err := m.FinishRestore(t.Context(), abort); err != nil {
				t.Fatal(err)
			}
			got := readWorld(t, b.dir)
			if got["old/mine"].content != "user's" || got["new"].content != "elsewhere" {
				t.Errorf("at %d, abort %v: %v", at, abort, got)
			}
		}
	}
	if cuts == 0 {
		t.Error("nothing was cut off")
	}
}

// An undo of which something failed is still to be done.
func TestUndoFailed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a directory of Windows holds no socket")
	}
	b := newBench(t)
	m := b.open("s")
	b.write("a", "old")
	b.write("b", "old")
	b.initialize(m)
	b.turn(m, func() {
		b.write("a", "agent")
		b.write("b", "agent")
	})
	b.restore(m, &RestoreOptions{Target: "start"})
	b.remove("a")
	socket, err := net.Listen("unix", filepath.Join(b.dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Undo(t.Context(), nil)
	if err != nil || !cmp.Equal(r.Failed, []string{"a"}) || !cmp.Equal(r.Restored, []string{"b"}) {
		t.Errorf("%+v, %v", r, err)
	}
	socket.Close()
	b.remove("a")
	b.write("a", "old")
	b.undo(m)
	b.expectFiles(files{"a": "agent", "b": "agent"})
}

// What a restore left is still left after another one was done and undone.
func TestLeftAfterUndo(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("a", "1")
	b.write("b", "1")
	b.initialize(m)
	b.turn(m, func() {
		b.write("a", "2")
		b.write("b", "2")
	})
	b.write("a", "user")
	b.restore(m, &RestoreOptions{Target: "start"})
	b.expectFiles(files{"a": "user", "b": "1"})
	b.write("c", "1")
	b.restore(m, &RestoreOptions{Target: "start", Paths: []string{"c"}})
	b.restore(m, &RestoreOptions{Target: "start", Exact: true})
	b.expectFiles(files{"a": "1", "b": "1"})
	b.undo(m)
	b.expectFiles(files{"a": "user", "b": "1", "c": "1"})
	b.restore(m, &RestoreOptions{Target: "start", OnDirty: rollback.Overwrite})
	b.expectFiles(files{"a": "1", "b": "1", "c": "1"})
}

// A file that was there, and ignored, when a turn let it be captured is not one
// that the turn made.
func TestRestoreKeepsWhatRulesHid(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write(".gitignore", "dir/\n")
	b.write("f", "1")
	b.initialize(m)
	b.write("dir/secret", "user's") // which changes only what is left out
	b.turn(m, func() {
		b.write(".gitignore", "")
		b.write("f", "2")
	})
	b.restore(m, &RestoreOptions{Target: "start"})
	b.expectFiles(files{".gitignore": "dir/\n", "f": "1", "dir/secret": "user's"})
}

// A turn that is on the line again for one path only is taken back at that path
// only.
func TestRelativeTakesOnlyWhatIsIn(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("a", "0")
	b.initialize(m)
	b.turn(m, func() { b.write("a", "1") })
	b.turn(m, func() { b.write("a", "2"); b.write("d", "1") })
	b.restore(m, &RestoreOptions{Target: "turn:0"})
	b.restore(m, &RestoreOptions{Target: "turn:1", Paths: []string{"d"}})
	b.expectFiles(files{"a": "1", "d": "1"})
	r := b.restore(m, &RestoreOptions{Target: "@~1"})
	b.expectFiles(files{"a": "1"})
	if len(r.Restored) != 0 || len(r.Deleted) != 1 {
		t.Errorf("%+v", r)
	}
}

// A file that is restored by name to @~N, behind an undo that stays behind a turn,
// takes nothing of the turns off the line that it is not about.
func TestNamedRelativeBehindUndo(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("a", "1") })
	b.restore(m, &RestoreOptions{Target: "start"})
	b.turn(m, func() { b.write("c", "1"); b.write("d", "1") })
	b.undo(m)
	b.expectFiles(files{"a": "1", "c": "1", "d": "1"})
	b.restore(m, &RestoreOptions{Target: "@~1", Paths: []string{"c"}})
	b.expectFiles(files{"a": "1", "d": "1"})
	b.restore(m, &RestoreOptions{Target: "start"})
	b.expectFiles(files{})
}

// TestManyPathsBehindATurn: an undo behind a turn of a restore of many files, of
// which some go other ways then, and what comes after it.
func TestManyPathsBehindATurn(t *testing.T) {
	const n = 200
	tb := newBench(t)
	m := tb.open("s")
	if _, err := m.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	name := func(i int) string { return fmt.Sprint("file", i) }
	turn := func() {
		t.Helper()
		if _, err := m.OnTurnEnd(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	restore := func(target string, paths ...string) {
		t.Helper()
		if _, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: target, Paths: paths}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		tb.write(name(i), "0")
	}
	turn()
	restore("start")
	tb.write("q", "q")
	turn()
	if _, err := m.Undo(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		tb.holds(name(i), "0")
	}
	head, err := m.records.Newest("s")
	if err != nil || len(head.Facts.Took) != n {
		t.Fatalf("the joint: %+v, %v", head, err)
	}
	restore("start", name(1), name(2)) // which go another way now
	tb.write(name(3), "1")
	turn()
	m = tb.open("s")
	restore("@~1")
	tb.holds(name(3), "0")
	restore("start")
	if left := readWorld(t, tb.dir); len(left) > 0 {
		t.Errorf("after a restore of the start there is %v", left)
	}
	restore("turn:0")
	for i := range n {
		tb.holds(name(i), "0")
	}
}
