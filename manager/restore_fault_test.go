package manager

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
)

// restoreDay is a session with something of each kind to be restored. One file is to be
// merged.
func restoreDay(t *testing.T, dir string, m *FileSnapshotManager) (before, after map[string]string) {
	t.Helper()
	do := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	write := func(name, content string) {
		t.Helper()
		p := filepath.Join(dir, name)
		do(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(content), 0o644))
	}
	b := &bench{T: t, dir: dir}
	write("changed", "old")
	write("removed/deep/file", "old")
	write("kind/file", "old")
	write("moved/one", "1")
	write("moved/two", "2")
	write("moved/sub/three", "3")
	write("moved/sub/four", "4")
	write("user", "0")
	write("both", "1\n2\n3\n4\n")
	write("exec", "old")
	do(second(m.Initialize(t.Context())))
	before = b.files()
	before["user"] = "edited"
	do(second(m.OnTurnStart(t.Context(), nil)))
	write("changed", "agent")
	write("both", "agent\n2\n3\n4\n")
	write("made/by/agent", "agent")
	do(os.RemoveAll(filepath.Join(dir, "removed")), os.RemoveAll(filepath.Join(dir, "kind")))
	write("kind", "now a file")
	do(os.Rename(filepath.Join(dir, "moved"), filepath.Join(dir, "elsewhere")),
		os.Chmod(filepath.Join(dir, "exec"), 0o755))
	write("elsewhere/one", "edited")
	write("elsewhere/new", "agent")
	do(second(m.OnTurnEnd(t.Context(), nil)))
	write("user", "edited")
	write("both", "agent\n2\n3\nuser\n")
	before["both"] = "1\n2\n3\nuser\n"
	return before, b.files()
}

// Each operation of a restore fails in turn, in the store or in the directory,
// once or for good as when the process dies. Each file is as it was or as it is
// wanted; the next who looks ends it one way or the other, and says what is
// there; nothing is lost.
func TestRestoreFaults(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	for _, c := range []struct {
		sticky bool
		how    string // what is done then
	}{{true, "look"}, {true, "continue"}, {true, "abort"}, {false, "look"}} {
		at := int64(0)
		for restoreFaultAt(t, at, c.sticky, c.how) && !t.Failed() {
			at += stride(17)
		}
		if at < 100 && !t.Failed() {
			t.Errorf("only %d operations", at)
		}
	}
}

func restoreFaultAt(t *testing.T, at int64, sticky bool, how string) bool {
	t.Helper()
	dir := t.TempDir()
	b := &bench{T: t, dir: dir}
	disk := vfstest.NewMem()
	m, err := openOn(t, dir, disk)
	if err != nil {
		t.Fatal(err)
	}
	before, after := restoreDay(t, dir, m)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}

	fault := &vfstest.Fault{At: at, Sticky: sticky, Err: syscall.EIO}
	var acked bool
	var left []string // that the result says were not restored
	m, err = openOn(t, dir, vfstest.WithFault(disk, fault))
	if err == nil {
		m.openDir = func(path string) (vfs.Dir, error) {
			d, err := vfs.OpenDir(path)
			if err != nil {
				return nil, err
			}
			return vfstest.WithFaultDir(d, fault), nil
		}
		r, rerr := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
		acked = rerr == nil && r.IsComplete()
		if rerr == nil {
			left = slices.Concat(r.Failed, r.Skipped, r.Kept)
		}
		m.Close()
	}
	where := fmt.Sprintf("operation %d, sticky %v, then %s", at, sticky, how)
	for p, content := range b.files() {
		if !strings.Contains(p, ".boo-") && !strings.HasPrefix(p, "moved/") && content != before[p] &&
			content != after[p] {
			t.Errorf("%s: %s holds %q", where, p, content)
		}
	}
	m, err = openOn(t, dir, disk)
	if err != nil {
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
	r, err := m.Initialize(t.Context())
	if err != nil {
		t.Fatalf("%s: go on: %v", where, err)
	}
	got := b.files()
	for p := range got {
		if strings.Contains(p, ".boo-") {
			t.Errorf("%s: %s is left", where, p)
		}
	}
	if len(left) > 0 {
		for _, files := range []map[string]string{before, after} {
			for p := range files {
				if got[p] != before[p] && !slices.ContainsFunc(left,
					func(l string) bool { return l == p || strings.HasPrefix(p, l+"/") }) {
					t.Errorf("%s: %s is %q, and the result says that only %q was left", where, p, got[p], left)
				}
			}
		}
		return fault.Fired()
	}
	if !maps.Equal(got, before) && !maps.Equal(got, after) || acked && !maps.Equal(got, before) {
		t.Errorf("%s: acknowledged %v, then (-wanted +got):\n%s", where, acked, cmp.Diff(before, got))
	}
	isUsers := func(p string) bool { return p == "user" || p == "both" }
	if r.Offline != nil && slices.ContainsFunc(r.Offline.Modified, func(p string) bool { return !isUsers(p) }) {
		t.Errorf("%s: the restore is said to be the user's: %+v", where, r.Offline)
	}
	if maps.Equal(got, before) { // and back
		if r, err := m.Undo(t.Context(), nil); err != nil || !r.IsComplete() {
			t.Errorf("%s: undo: %+v, %v", where, r, err)
		}
		b.expectFiles(after)
	}
	return fault.Fired()
}

// A restore that was cut off can be finished by name, either way.
func TestFinishRestore(t *testing.T) {
	for _, abort := range []bool{false, true} {
		dir := t.TempDir()
		b := &bench{T: t, dir: dir}
		disk := vfstest.NewMem()
		m, err := openOn(t, dir, disk)
		if err != nil {
			t.Fatal(err)
		}
		before, after := restoreDay(t, dir, m)
		fault := &vfstest.Fault{At: -1}
		fault.Trace = func(op, name string) {
			if op == "Rename" && strings.HasSuffix(name, "-> changed") {
				fault.Break()
			}
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if m, err = openOn(t, dir, vfstest.WithFault(disk, fault)); err != nil {
			t.Fatal(err)
		}
		m.openDir = func(path string) (vfs.Dir, error) {
			d, err := vfs.OpenDir(path)
			return vfstest.WithFaultDir(d, fault), err
		}
		merge := &RestoreOptions{Target: "start", OnDirty: rollback.Merge}
		if _, err := m.RestoreFiles(t.Context(), merge); err == nil {
			t.Fatal("no error")
		}
		m.Close()
		if m, err = openOn(t, dir, disk); err != nil {
			t.Fatal(err)
		}
		r, err := m.FinishRestore(t.Context(), abort)
		if err != nil {
			t.Fatal(err)
		}
		want, by := before, "undo"
		if abort {
			want, by = after, ""
		}
		b.expectFiles(want)
		if r.TakenBackBy != by {
			t.Errorf("abort %t: %q takes it back, want %q", abort, r.TakenBackBy, by)
		}
		for mo, err := range m.Timeline(t.Context()) { // the newest
			if err != nil || mo.Kind != "restore" || mo.Aborted != abort || len(mo.TookBack) > 0 == abort {
				t.Errorf("abort %t: listed as %s, aborted %t, took back %v, %v", abort, mo.Kind, mo.Aborted,
					mo.TookBack, err)
			}
			break
		}
		if _, err := m.FinishRestore(t.Context(), abort); err == nil {
			t.Error("there is another one")
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What a restore could not do is not on record as done: the next look finds nothing
// that somebody has changed since.
func TestRestoreRecordsWhatFailed(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.write("f", "old")
	b.write("g", "old")
	b.initialize(m)
	b.turn(m, func() { b.write("f", "agent"); b.write("g", "agent"); b.write("made", "agent") })
	m.openDir = func(path string) (vfs.Dir, error) {
		d, err := vfs.OpenDir(path)
		fault := &vfstest.Fault{At: -1, Err: syscall.EPERM}
		fault.Fails = func(op, name string) bool {
			return op == "Rename" && (strings.HasSuffix(name, "-> f") || strings.HasPrefix(name, "made ->"))
		}
		return vfstest.WithFaultDir(d, fault), err
	}
	r, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start"})
	if err != nil || !slices.Equal(r.Failed, []string{"f", "made"}) || !slices.Equal(r.Restored, []string{"g"}) {
		t.Fatalf("restore: %+v, %v", r, err)
	}
	b.expectFiles(map[string]string{"f": "agent", "g": "old", "made": "agent"})
	m.openDir = vfs.OpenDir
	if r := b.start(m); r.Offline != nil {
		t.Errorf("the next turn finds changes of the user: %+v", r.Offline)
	}
	b.end(m)
}

// A lost or damaged object costs its own file.
func TestRestoreLostObject(t *testing.T) {
	b := newBench(t)
	m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	content := strings.Repeat("the old content of a file ", 6000) // in a record of its own
	b.write("lost", content)
	b.write("kept", "old")
	b.initialize(m)
	b.turn(m, func() { b.write("lost", "agent"); b.write("kept", "agent"); b.write("made", "agent") })
	dir := m.StoreDir()
	p, err := m.Resolve(t.Context(), "start")
	if err != nil {
		t.Fatal(err)
	}
	at, err := m.fileIn(t.Context(), p.State, "lost")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	packs, err := filepath.Glob(filepath.Join(dir, "packs", "*"))
	if err != nil || len(packs) == 0 {
		t.Fatal(packs, err)
	}
	for _, pack := range packs {
		data, err := os.ReadFile(pack)
		if err != nil {
			t.Fatal(err)
		}
		if i := strings.Index(string(data), string(at.entry.ID[:])); i >= 0 {
			data[i+40] ^= 1
			if err := os.WriteFile(pack, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	m, err = Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r := b.restore(m, &RestoreOptions{Target: "start"})
	b.expectFiles(files{"lost": "agent", "kept": "old"})
	if d := cmp.Diff([]string{"lost"}, r.Failed); d != "" {
		t.Errorf("failed (-want +got):\n%s\n%+v", d, r)
	}
}

// A restore looks at its own paths and the directories above them, however
// large the tree is, and lists no directory.
func TestRestoreReadsItsPathsOnly(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	for i := range 300 {
		b.write(fmt.Sprint("d", i%10, "/e", i%3, "/f", i), "1")
	}
	b.initialize(m)
	b.turn(m, func() { b.write("d1/e1/f1", "2"); b.write("d2/new", "2"); b.remove("d3/e0/f3") })
	allowed := map[string]bool{".": true, "d1": true, "d1/e1": true, "d1/e1/f1": true, "d2": true, "d2/new": true,
		"d3": true, "d3/e0": true, "d3/e0/f3": true}
	var mu sync.Mutex
	fault := &vfstest.Fault{At: -1, Trace: func(op, name string) {
		mu.Lock()
		defer mu.Unlock()
		for p := range strings.SplitSeq(name, " -> ") {
			if !allowed[p] && !strings.Contains(p, ".boo-") || op == "ReadNames" {
				t.Errorf("%s %s", op, name)
			}
		}
	}}
	m.openDir = func(path string) (vfs.Dir, error) {
		d, err := vfs.OpenDir(path)
		if err != nil {
			return nil, err
		}
		return vfstest.WithFaultDir(d, fault), nil
	}
	b.restore(m, &RestoreOptions{Target: "start"})
	b.undo(m)
	b.restore(m, &RestoreOptions{Target: "start", Paths: []string{"d1/e1/f1"}})
}

// What somebody has changed while a restore was cut off stays, and is not on record as
// restored, nor as changed back.
func TestFinishRestoreLeaves(t *testing.T) {
	for _, abort := range []bool{false, true} {
		b := newBench(t)
		m := b.open("s")
		b.write("f", "old")
		b.write("g", "old")
		b.initialize(m)
		b.turn(m, func() { b.write("f", "agent"); b.write("g", "agent") })
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
		if _, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start"}); err == nil {
			t.Fatal("no error")
		}
		m.openDir = vfs.OpenDir
		b.write("g", "the user's")
		if _, err := m.FinishRestore(t.Context(), abort); err != nil {
			t.Fatal(err)
		}
		b.holds("g", "the user's")
		last, err := m.records.Newest("s")
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[bool]map[string]string{false: {"f": "old", "g": "agent"},
			true: {"f": "agent", "g": "old"}}[abort] {
			e, err := trees.Lookup(t.Context(), m.store, last.Tree, name)
			if err != nil || e.ID != object.Hash(object.Blob, []byte(want)) {
				t.Errorf("abort %v: %s is on record as %v, %v, want %q", abort, name, e, err, want)
			}
		}
	}
}
