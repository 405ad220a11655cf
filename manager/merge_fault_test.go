package manager

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
)

// mergeDay is a session whose restore to the start merges two files and writes others.
func mergeDay(t *testing.T, dir string, m *FileSnapshotManager) (before, after files) {
	t.Helper()
	b := &bench{T: t, dir: dir}
	middle := hex.EncodeToString([]byte(noise(10<<10, 1))) // which takes room
	lines := func(first, last string) string { return first + "\n" + middle + "\n" + last + "\n" }
	b.write("a", lines("1", "5"))
	b.write("deep/b", lines("1", "5"))
	b.write("clean", "old")
	b.write("gone", "old")
	b.initialize(m)
	b.turn(m, func() {
		b.write("a", lines("turn", "5"))
		b.write("deep/b", lines("turn", "5"))
		b.write("clean", "turn")
		b.remove("gone")
		b.write("made/by/turn", "turn")
	})
	b.write("a", lines("turn", "user"))
	b.write("deep/b", lines("turn", "user"))
	return b.files(), files{"a": lines("1", "user"), "deep/b": lines("1", "user"), "clean": "old", "gone": "old"}
}

// watchDir has each operation on the session's directory told of before it is done.
func watchDir(m *FileSnapshotManager, trace func(op, name string)) {
	fault := &vfstest.Fault{At: -1, Trace: oneAtATime(trace)}
	m.openDir = func(path string) (vfs.Dir, error) {
		d, err := vfs.OpenDir(path)
		if err != nil {
			return nil, err
		}
		return vfstest.WithFaultDir(d, fault), nil
	}
}

// oneAtATime returns a trace for operations of several goroutines: files are written by
// some at once.
func oneAtATime(trace func(op, name string)) func(op, name string) {
	var mu sync.Mutex
	return func(op, name string) {
		mu.Lock()
		defer mu.Unlock()
		trace(op, name)
	}
}

// When the first file is written all merged texts are in the store, whatever the power
// cut leaves of it.
func TestMergedTextsAreStoredFirst(t *testing.T) {
	dir, disk := t.TempDir(), vfstest.NewMem()
	m, err := openOn(t, dir, disk)
	if err != nil {
		t.Fatal(err)
	}
	_, after := mergeDay(t, dir, m)
	var cut *vfstest.Mem
	watchDir(m, func(op, name string) {
		if cut == nil && (op == "Create" || op == "Rename" || op == "Remove" || op == "Mkdir") {
			cut = disk.AfterCrash(nil)
		}
	})
	merge := &RestoreOptions{Target: "start", OnDirty: rollback.Merge}
	if r, err := m.RestoreFiles(t.Context(), merge); err != nil || len(r.Merged) != 2 {
		t.Fatalf("%+v, %v", r, err)
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
	for _, p := range []string{"a", "deep/b"} {
		if _, err := s.Get(t.Context(), object.Blob, object.Hash(object.Blob, []byte(after[p]))); err != nil {
			t.Errorf("what %s is merged to: %v", p, err)
		}
	}
}

// The user saves a file at each operation of a restore that merges it: the save is
// there afterwards, and on record.
func TestMergeBesideSaves(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	for at := 0; ; at += int(stride(7)) {
		b := newBench(t)
		m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		before, after := mergeDay(t, b.dir, m)
		n, saved, isRefused := 0, before["a"]+"saved\n", false
		save := func() {
			b.write("beside", saved)
			err := os.Rename(filepath.Join(b.dir, "beside"), filepath.Join(b.dir, "a"))
			// Wine replaces no file that somebody has open, and tells the editor, which tries again.
			isRefused = os.Getenv("UNDER_WINE") != "" && errors.Is(err, fs.ErrPermission)
			if err != nil && !isRefused {
				t.Error(err)
			}
		}
		watchDir(m, func(op, name string) {
			if n++; n-1 == at || isRefused {
				save()
			}
		})
		r, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
		if err != nil {
			t.Fatalf("operation %d: %v", at, err)
		}
		if isRefused {
			save()
		}
		if n <= at {
			b.expectFiles(after)
		} else if got := b.files()["a"]; !strings.HasSuffix(got, "user\nsaved\n") {
			t.Errorf("operation %d: %q, the save is gone: %+v", at, got, r.Items)
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

// Whoever asks for a restore that merges gives up at each operation of the store: all
// files are as before or as wanted, and the next who looks ends it.
func TestMergeGivenUp(t *testing.T) {
	testseed.Sequential(t)
	for at := int64(0); ; at += stride(11) {
		dir, disk := t.TempDir(), vfstest.NewMem()
		m, err := openOn(t, dir, disk)
		if err != nil {
			t.Fatal(err)
		}
		before, after := mergeDay(t, dir, m)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		n := int64(0)
		trace := oneAtATime(func(string, string) {
			if n++; n-1 == at {
				cancel()
			}
		})
		if m, err = openOn(t, dir, vfstest.WithFault(disk, &vfstest.Fault{At: -1, Trace: trace})); err != nil {
			t.Fatal(err)
		}
		b := &bench{T: t, dir: dir}
		watchDir(m, trace)
		_, err = m.RestoreFiles(ctx, &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("operation %d: %v", at, err)
		}
		got := files(b.files())
		switch {
		case err == nil && !cmp.Equal(got, after), err != nil && !cmp.Equal(got, before):
			t.Errorf("operation %d, %v:\n%s", at, err, cmp.Diff(before, got))
		}
		b.initialize(m)
		if r, err := m.RestoreFiles(t.Context(),
			&RestoreOptions{Target: "start", OnDirty: rollback.Merge}); err != nil {
			t.Errorf("operation %d, once more: %+v, %v", at, r, err)
		}
		b.expectFiles(after)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if cancel(); n <= at || t.Failed() {
			return
		}
	}
}

// There is room for some bytes: a restore that merges is done or changes nothing.
func TestMergeFullDisk(t *testing.T) {
	for room := int64(0); ; room += vfstest.MemBlock {
		dir, disk := t.TempDir(), vfstest.NewMem()
		m, err := openOn(t, dir, disk)
		if err != nil {
			t.Fatal(err)
		}
		before, after := mergeDay(t, dir, m)
		disk.SetSize(1 << 40)
		free, _, err := disk.Space()
		if err != nil {
			t.Fatal(err)
		}
		disk.SetSize(1<<40 - free + room)
		b := &bench{T: t, dir: dir}
		r, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
		got := files(b.files())
		switch {
		case err == nil && (!r.IsComplete() || !cmp.Equal(got, after)):
			t.Errorf("room for %d: %+v\n%s", room, r, cmp.Diff(after, got))
		case err != nil && (!errors.Is(err, syscall.ENOSPC) || !cmp.Equal(got, before)):
			t.Errorf("room for %d: %v\n%s", room, err, cmp.Diff(before, got))
		}
		disk.SetSize(0)
		b.initialize(m)
		if err != nil {
			b.restore(m, &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
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

// A text that a merge needs is damaged: its file stays, and the reason is told.
func TestMergeDamaged(t *testing.T) {
	noise := func(first, last string) string {
		return first + "\n" + strings.Repeat("the middle of a text that is merged\n", 4500) + last + "\n"
	}
	for _, c := range []struct {
		name, damaged, user string
		restored            bool // all the same: the text is not needed
	}{
		{"what the turn found", noise("1", "2"), noise("turn", "user"), false},
		{"what the turn left", noise("turn", "2"), noise("turn", "user"), false},
		{"what the user has taken back by hand", noise("turn", "2"), noise("1", "2"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
			if err != nil {
				t.Fatal(err)
			}
			b.write("f", noise("1", "2"))
			b.write("g", "old")
			b.initialize(m)
			b.turn(m, func() { b.write("f", noise("turn", "2")); b.write("g", "turn") })
			dir := m.StoreDir()
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			id := object.Hash(object.Blob, []byte(c.damaged))
			packs, err := filepath.Glob(filepath.Join(dir, "packs", "*"))
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, pack := range packs {
				data, err := os.ReadFile(pack)
				if err != nil {
					t.Fatal(err)
				}
				if i := strings.Index(string(data), string(id[:])); i >= 0 {
					data[i+40] ^= 1
					n++
					if err := os.WriteFile(pack, data, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			if n != 1 {
				t.Fatalf("the text is in %d packs", n)
			}
			if m, err = Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"}); err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			b.write("f", c.user)
			r := b.restore(m, &RestoreOptions{Target: "start", OnDirty: rollback.Merge})
			b.expectFiles(files{"f": c.user, "g": "old"})
			told := slices.ContainsFunc(r.Items, func(it rollback.Item) bool {
				return it.Path == "f" && it.Do == rollback.Skipped &&
					strings.Contains(it.Why, "does not match its checksum")
			})
			if told == c.restored {
				t.Errorf("%+v", r.Items)
			}
		})
	}
}
