//go:build linux

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOpenToOthers: a store that others may write to is closed to them, and
// check says so before.
func TestOpenToOthers(t *testing.T) {
	w := newWorld(t, t.TempDir(), filepath.Join(t.TempDir(), "p"))
	w.write("a", "a")
	if err := w.snapshot(); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o755, 0o770, 0o777} {
		if err := os.Chmod(w.storeDir(), mode); err != nil {
			t.Fatal(err)
		}
		if r := w.run("check"); r.code != 0 || !strings.Contains(r.stderr, "other users may enter the store") {
			t.Errorf("check of a store with mode %v: %d, %q", mode, r.code, r.stderr)
		}
		r := w.run("snapshot")
		if warned := strings.Contains(r.stderr, "other users could write to the store"); r.code != 0 ||
			warned != (mode&0o022 != 0) {
			t.Errorf("snapshot into a store with mode %v: %d, %q", mode, r.code, r.stderr)
		}
		if st, err := os.Stat(w.storeDir()); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("mode is %v (%v), want 0700", st.Mode(), err)
		}
	}
	if r := w.run("check"); r.code != 0 || r.stderr != "" {
		t.Errorf("check: %d, %q", r.code, r.stderr)
	}
}

// TestOtherOwner: a store of another user is refused, also to root, and is
// not changed; root may look at it.
func TestOtherOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	w := newWorld(t, t.TempDir(), filepath.Join(t.TempDir(), "p"))
	w.write("a", "a")
	if err := w.snapshot(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{w.storeDir(), filepath.Join(w.storeDir(), "FORMAT")} {
		if err := os.Chown(name, 1234, -1); err != nil {
			t.Fatal(err)
		}
		w.write("a", name)
		w.fails(6, "belongs to user 1234, this is user 0", "snapshot")
		w.fails(6, "belongs to user 1234, this is user 0", "repair")
		w.must("log")
		w.must("check", "--read-data")
		w.read(w.acks)
		if r := w.run("check"); !strings.Contains(r.stderr, "files in the store are not user ") {
			t.Errorf("check: %q", r.stderr)
		}
		if err := os.Chown(name, 0, -1); err != nil {
			t.Fatal(err)
		}
	}
	w.verify(w.acks)
}

// TestPoorFileSystem: where locks exclude nobody, do not exist, or a rename
// does not replace, no store is made and none is written to.
func TestPoorFileSystem(t *testing.T) {
	h := fuse(t, "pass", scratch(t))
	for i, c := range []struct{ fault, why string }{
		{"locks all", "file locks do not work here: two holders at once"},
		{"locks none", "file locks do not work here: "},
		{"rename keep", "renaming over a file does not work here: "},
		{"rename copy", "renaming over a file does not work here: the file has both names"},
	} {
		w := newWorld(t, filepath.Join(h.dir, fmt.Sprint(i)), filepath.Join(t.TempDir(), "p"))
		w.write("a", "a")
		h.set(c.fault)
		w.fails(6, c.why, "snapshot")
		h.set("none")
		if err := w.snapshot(); err != nil {
			t.Fatal(err)
		}
		h.set(c.fault)
		w.write("a", "b")
		w.fails(6, c.why, "snapshot")
		h.set("none")
		w.verify(w.acks)
		if r := w.run("check"); !strings.Contains(r.stderr, "the store is on FUSE, not on a local disk") {
			t.Errorf("check: %q", r.stderr)
		}
	}
}

// TestDiskError makes reads, writes, syncs and names of a store fail with EIO,
// under an engine and under commands.
func TestDiskError(t *testing.T) {
	h := fuse(t, "pass", scratch(t))
	w := newWorld(t, filepath.Join(h.dir, "stores"), filepath.Join(t.TempDir(), "p"))
	w.files(10, 2000)
	if err := w.snapshot(); err != nil {
		t.Fatal(err)
	}
	for _, op := range []string{"write", "sync", "open", "create", "rename", "read", "unlink", "mkdir"} {
		for _, path := range []string{"/packs", "/journal", "/worktrees", "/"} {
			w.write("a", op+path)
			h.set(fmt.Sprintf("fail %s %d %s", op, syscall.EIO, path))
			if err := w.snapshot(); err != nil {
				t.Logf("%s %s: %v", op, path, err)
				if !strings.Contains(err.Error(), "exit code 6") ||
					!strings.Contains(err.Error(), "input/output error") {
					t.Errorf("%s %s: %v, want exit code 6 and the cause", op, path, err)
				}
			}
			if r := w.run("check"); r.code != 0 && r.code != 6 {
				t.Errorf("%s %s: check: %d, %s%s", op, path, r.code, r.stdout, r.stderr)
			}
			h.set("none")
			w.must("--session", "commands", "snapshot")
			w.must("check", "--read-data")
			w.read(w.acks)
		}
	}
	for _, op := range []string{"write", "sync"} {
		h.set("none")
		e := w.serve(60)
		for range 8 {
			time.Sleep(60 * time.Millisecond)
			h.set(fmt.Sprintf("fail %s %d /", op, syscall.EIO))
			time.Sleep(30 * time.Millisecond)
			h.set("none")
		}
		e.work.Wait()
		if e.dead.Load() {
			t.Errorf("the engine ended: %s", e.stderr.String())
		}
		e.kill()
		w.verify(w.acks)
	}
	t.Logf("%d snapshots acknowledged", len(w.acks))
}
