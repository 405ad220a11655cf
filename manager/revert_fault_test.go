package manager

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

// revertHard is a session of which turn 0 is to be taken back: one file is merged with what
// the user did since, one with what turn 1 did, one in part since turn 1 is in the way, and
// others are written, made again and deleted.
func revertHard(t *testing.T, dir string, m *FileSnapshotManager) (before, after files) {
	t.Helper()
	b := &bench{T: t, dir: dir}
	middle := noise(10<<10, 1) // which takes room
	lines := func(first, last string) string { return fmt.Sprintf("%s\n%x\n%s\n", first, middle, last) }
	for _, p := range []string{"user", "deep/turn", "clash"} {
		b.write(p, lines("1", "3"))
	}
	b.write("clean", "old")
	b.write("gone", "old")
	b.initialize(m)
	b.turn(m, func() {
		b.write("user", lines("A", "3"))
		b.write("deep/turn", lines("A", "3"))
		b.write("clash", lines("A", "C"))
		b.write("clean", "turn")
		b.remove("gone")
		b.write("made/by/turn", "turn")
	})
	b.turn(m, func() {
		b.write("deep/turn", lines("A", "B"))
		b.write("clash", lines("B", "C"))
		b.write("later", "turn 1")
	})
	b.write("user", lines("A", "u"))
	return b.files(), files{"user": lines("1", "u"), "deep/turn": lines("1", "B"), "clash": lines("B", "3"),
		"clean": "old", "gone": "old", "later": "turn 1"}
}

// revertHardly takes turn 0 back, and requires that the conflict is told if that ends
// without an error.
func revertHardly(t *testing.T, where string, m *FileSnapshotManager) error {
	t.Helper()
	r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}})
	if err == nil && (len(r.Conflicts) != 1 || r.Conflicts[0].Path != "clash" || len(r.Failed) > 0) {
		t.Errorf("%s: %+v", where, r)
	}
	return err
}

// How operations of a revert fail: one does, or all from then on as when the process dies,
// or all that take room as on a full disk.
const (
	failOnce = "once"
	failAll  = "all"
	failRoom = "room"
)

// revertFault returns a fault at an operation.
func revertFault(at int64, fails string) *vfstest.Fault {
	if fails != failRoom {
		return &vfstest.Fault{At: at, Sticky: fails == failAll, Err: syscall.EIO}
	}
	f := &vfstest.Fault{At: -1, Err: syscall.ENOSPC}
	takesRoom := []string{"Create", "Write", "WriteAt", "Mkdir", "Symlink"}
	f.Fails = func(op, _ string) bool { return f.Count() > at && slices.Contains(takesRoom, op) }
	return f
}

// Each operation of a revert fails in turn, in the store or in the directory, once, or for
// good as when the process dies, or the disk is full from then on: all files are as before
// or as wanted then, or are so when the next who looks has ended it, and an undo brings all
// of them back.
func TestRevertFaults(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	for _, c := range []struct {
		fails string
		how   string // what is done then
	}{
		{failAll, "look"}, {failAll, "continue"}, {failAll, "abort"}, {failOnce, "look"},
		{failRoom, "look"}, {failRoom, "abort"},
	} {
		at := int64(0)
		for revertFaultAt(t, at, c.fails, c.how) && !t.Failed() {
			at += stride(17)
		}
		if at < 100 && !t.Failed() {
			t.Errorf("only %d operations", at)
		}
	}
}

func revertFaultAt(t *testing.T, at int64, fails, how string) bool {
	t.Helper()
	where := fmt.Sprintf("operation %d, %s fails, then %s", at, fails, how)
	dir, disk := t.TempDir(), vfstest.NewMem()
	b := &bench{T: t, dir: dir}
	m, err := openOn(t, dir, disk)
	if err != nil {
		t.Fatal(err)
	}
	before, after := revertHard(t, dir, m)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	fault := revertFault(at, fails)
	acked := false
	if m, err = openOn(t, dir, vfstest.WithFault(disk, fault)); err == nil {
		m.openDir = func(path string) (vfs.Dir, error) {
			d, err := vfs.OpenDir(path)
			return vfstest.WithFaultDir(d, fault), err
		}
		r, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"0"}})
		acked = err == nil && len(r.Failed)+len(r.Skipped)+len(r.Kept) == 0
		m.Close()
	}
	for p, content := range b.files() {
		if !strings.Contains(p, ".boo-") && content != before[p] && content != after[p] {
			t.Errorf("%s: %s holds %.20q", where, p, content)
		}
	}
	if m, err = openOn(t, dir, disk); err != nil {
		t.Fatalf("%s: open again: %v", where, err)
	}
	defer func() {
		b.check(m.store)
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	if how != "look" {
		if _, err := m.FinishRestore(t.Context(), how == "abort"); err != nil && !errors.Is(err, ErrNothing) {
			t.Fatalf("%s: %v", where, err)
		}
	}
	r := b.initialize(m)
	got := files(b.files())
	if fails == failAll && !cmp.Equal(got, before) && !cmp.Equal(got, after) || acked && !cmp.Equal(got, after) {
		t.Errorf("%s: acknowledged %v (-wanted +got):\n%s", where, acked, cmp.Diff(after, got))
	}
	if r.Offline != nil && (len(r.Offline.Modified) > 1 || len(r.Offline.Added)+len(r.Offline.Deleted) > 0) {
		t.Errorf("%s: the revert is said to be the user's: %+v", where, r.Offline)
	}
	if !cmp.Equal(got, after) { // what could not be done is done then
		if err := revertHardly(t, where, m); err != nil && !errors.Is(err, ErrNothing) {
			t.Errorf("%s: once more: %v", where, err)
		}
		b.expectFiles(after)
	}
	for len(got) > 0 && !cmp.Equal(files(b.files()), before) { // one undo, or two if it was done in two parts
		if _, err := m.Undo(t.Context(), nil); err != nil {
			t.Errorf("%s: undo: %v", where, err)
			break
		}
	}
	b.expectFiles(before)
	return fault.Fired()
}

// There is room for some bytes: a revert that merges is done or changes nothing.
func TestRevertFullDisk(t *testing.T) {
	for room := int64(0); ; room += vfstest.MemBlock {
		where := fmt.Sprintf("room for %d", room)
		dir, disk := t.TempDir(), vfstest.NewMem()
		m, err := openOn(t, dir, disk)
		if err != nil {
			t.Fatal(err)
		}
		before, after := revertHard(t, dir, m)
		disk.SetSize(1 << 40)
		free, _, err := disk.Space()
		if err != nil {
			t.Fatal(err)
		}
		disk.SetSize(1<<40 - free + room)
		b := &bench{T: t, dir: dir}
		err = revertHardly(t, where, m)
		want := after
		if err != nil {
			want = before
		}
		if got := files(b.files()); err != nil && !errors.Is(err, syscall.ENOSPC) || !cmp.Equal(got, want) {
			t.Errorf("%s: %v (-want +got):\n%s", where, err, cmp.Diff(want, got))
		}
		disk.SetSize(0)
		b.initialize(m)
		if err != nil {
			revertHardly(t, where, m)
		}
		b.expectFiles(after)
		b.undo(m)
		b.expectFiles(before)
		b.check(m.store)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if err == nil || t.Failed() {
			if room == 0 {
				t.Error("there was always room")
			}
			return
		}
	}
}

// When the first file is written all merged texts of a revert are in the store, whatever
// the power cut leaves of it.
func TestRevertTextsAreStoredFirst(t *testing.T) {
	dir, disk := t.TempDir(), vfstest.NewMem()
	m, err := openOn(t, dir, disk)
	if err != nil {
		t.Fatal(err)
	}
	_, after := revertHard(t, dir, m)
	var cut *vfstest.Mem
	watchDir(m, func(op, name string) {
		if cut == nil && (op == "Create" || op == "Rename" || op == "Remove" || op == "Mkdir") {
			cut = disk.AfterCrash(nil)
		}
	})
	if err := revertHardly(t, "revert", m); err != nil {
		t.Fatal(err)
	}
	(&bench{T: t, dir: dir}).expectFiles(after)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := cas.OpenFS(t.Context(), cut, &cas.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, p := range []string{"user", "deep/turn", "clash"} {
		if _, err := s.Get(t.Context(), object.Blob, object.Hash(object.Blob, []byte(after[p]))); err != nil {
			t.Errorf("what %s is merged to: %v", p, err)
		}
	}
}

// What somebody has changed while a revert was cut off stays, and can still be taken back:
// the turn's change is in there.
func TestFinishRevertLeaves(t *testing.T) {
	for _, paths := range [][]string{nil, {"f", "g"}} {
		b := newBench(t)
		m := b.open("s")
		b.write("f", "old")
		b.write("g", "old")
		b.initialize(m)
		b.turn(m, func() { b.write("f", "agent"); b.write("g", "agent") })
		b.turn(m, func() { b.write("h", "agent") })
		fault := &vfstest.Fault{At: -1}
		fault.Trace = func(op, name string) {
			if op == "Rename" && strings.HasSuffix(name, "-> g") {
				fault.Break()
			}
		}
		m.openDir = func(path string) (vfs.Dir, error) {
			d, err := vfs.OpenDir(path)
			return vfstest.WithFaultDir(d, fault), err
		}
		opts := &RevertOptions{Turns: []string{"0"}, Paths: paths}
		if _, err := m.Revert(t.Context(), opts); err == nil {
			t.Fatal("no error")
		}
		m.openDir = vfs.OpenDir
		b.write("g", "the user's")
		if _, err := m.FinishRestore(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		b.expectFiles(files{"f": "old", "g": "the user's", "h": "agent"})
		b.write("g", "agent")
		if r := b.revert(m, "0"); fmt.Sprint(r.Restored, r.Dirty) != "[g] []" {
			t.Errorf("restored %q, dirty %q", r.Restored, r.Dirty)
		}
		b.expectFiles(files{"f": "old", "g": "old", "h": "agent"})
	}
}
