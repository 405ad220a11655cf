package livedir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
)

// writeTo puts what a world says into a directory of any file system, durably.
func (w world) writeTo(t testing.TB, d vfs.Dir) {
	t.Helper()
	root := NewRoot(d)
	var dirs []string
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(w)) {
		up, name := trees.Split(p)
		dir, err := root.enter(up)
		must(err)
		kind, rest, _ := strings.Cut(w[p], " ")
		if kind == "link" {
			must(dir.Symlink(rest, name))
			continue
		}
		var perm uint16
		mode, content, _ := strings.Cut(rest, " ")
		fmt.Sscanf(mode, "%o", &perm)
		if kind == "dir" {
			must(dir.Mkdir(name, perm))
			dirs = append(dirs, p)
			continue
		}
		f, err := dir.Create(name, 0o600)
		must(err)
		_, err = io.WriteString(f, content)
		must(errors.Join(err, f.Chmod(perm), f.Sync(), f.Close()))
	}
	for _, p := range append(dirs, "") {
		dir, err := root.enter(p)
		must(err)
		must(dir.Sync())
	}
	must(root.leave(0))
}

// worldOf reads a directory of any file system.
func worldOf(t testing.TB, d vfs.Dir) world {
	t.Helper()
	w := make(world)
	var walk func(d vfs.Dir, at string)
	walk = func(d vfs.Dir, at string) {
		err := d.ReadNames(func(name []byte, kind vfs.Kind) {
			p, n := at+string(name), string(name)
			var st vfs.Stat
			err := d.Lstat(n, &st)
			switch kind {
			case vfs.Directory:
				w[p] = fmt.Sprintf("dir %o", st.Perm)
				sub, oerr := d.OpenDir(n)
				if err = errors.Join(err, oerr); err == nil {
					walk(sub, p+"/")
					err = sub.Close()
				}
			case vfs.Symlink:
				target, lerr := d.Readlink(n)
				w[p], err = "link "+target, errors.Join(err, lerr)
			default:
				r, oerr := d.Open(n, nil)
				if err = errors.Join(err, oerr); err == nil {
					var b []byte
					b, err = io.ReadAll(r)
					w[p], err = fmt.Sprintf("file %o %s", st.Perm, b), errors.Join(err, r.Close())
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
	walk(d, "")
	return w
}

// A cutDisk is what is left after a power cut.
type cutDisk struct {
	when string
	disk *vfstest.Mem
}

// The power fails before each operation of a restore, and behind its end. What was
// not synced is lost then, or half of it is there. Each file is as it was or as it
// is wanted, and the same restore brings the rest; when it was told as done, all
// of it is on the disk.
func TestPowerCut(t *testing.T) {
	b := newBench(t)
	wants := b.wants(faultBefore, faultAfter)
	disk := vfstest.NewMem()
	faultBefore.writeTo(t, disk.Dir())
	var mu sync.Mutex // guards cuts
	var cuts []cutDisk
	cut := func(when string) {
		mu.Lock()
		defer mu.Unlock()
		when = fmt.Sprintf("cut %d, %s", len(cuts), when)
		cuts = append(cuts, cutDisk{when, disk.AfterCrash(nil)})
		for seed := range uint64(4) {
			cuts = append(cuts, cutDisk{fmt.Sprintf("%s, seed %d", when, seed),
				disk.AfterCrash(rand.New(rand.NewPCG(seed, uint64(len(cuts)))))})
		}
	}
	traced := &vfstest.Fault{At: -1, Trace: func(op, name string) {
		switch op {
		case "Write", "Sync", "Rename", "Remove", "Mkdir", "Symlink", "Chmod", "Create":
			cut("before " + op + " " + name)
		}
	}}
	root := NewRoot(vfstest.WithFaultDir(disk.Dir(), traced))
	p, err := NewPlan(t.Context(), root, wants, &Options{Policy: rollback.Skip})
	if err == nil {
		err = p.Save(t.Context(), root, b.w)
	}
	if err == nil {
		err = p.Apply(t.Context(), root, b.store, "testtest")
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(cuts) < 100 {
		t.Errorf("only %d power cuts", len(cuts))
	}
	for _, c := range cuts {
		checkEither(t, c.when, worldOf(t, c.disk.Dir()))
		root := NewRoot(c.disk.Dir())
		if err := Sweep(t.Context(), root, wants, "testtest"); err != nil {
			t.Fatalf("%s: %v", c.when, err)
		}
		again, err := NewPlan(t.Context(), root, wants, &Options{Policy: rollback.Skip})
		if err == nil {
			err = again.Apply(t.Context(), root, b.store, "testtest")
		}
		if err != nil {
			t.Fatalf("%s: again: %v", c.when, err)
		}
		if d := cmp.Diff(faultAfter, worldOf(t, c.disk.Dir())); d != "" {
			t.Fatalf("%s: after the second try (-want +got):\n%s\n%v", c.when, d, outcome(again))
		}
	}
	cuts = nil
	cut("when it was done")
	for _, c := range cuts {
		if d := cmp.Diff(faultAfter, worldOf(t, c.disk.Dir())); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.when, d)
		}
	}
}

// The same for the clearing up behind a restore that was cut off: what it has put
// back is on the disk.
func TestPowerCutAfterSweep(t *testing.T) {
	b := newBench(t)
	before, after := world{"a": "file 644 old", "b": "file 644 b"}, world{"a": "file 600 new"}
	wants := b.wants(before, after)
	disk := vfstest.NewMem()
	world{oldName("testtest", "a"): before["a"], newName("testtest", "a"): after["a"],
		oldName("testtest", "b"): before["b"]}.writeTo(t, disk.Dir())
	if err := Sweep(t.Context(), NewRoot(disk.Dir()), wants, "testtest"); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, worldOf(t, disk.AfterCrash(nil).Dir())); d != "" {
		t.Errorf("after the power cut (-want +got):\n%s", d)
	}
}

// A directory whose names cannot be made durable ends a restore with an error:
// nobody may put on record that it is done.
func TestNamesNotSynced(t *testing.T) {
	left, want := world{"a": "file 644 2", "b": "file 644 b"}, world{"a": "file 644 1"}
	at := int64(-1) // the sync of the directory
	for {
		b := newBench(t)
		left.write(t, b.dir)
		p := b.plan(b.wants(left, want), rollback.Skip)
		r := b.root()
		n, sync := int64(0), int64(-1)
		f := &vfstest.Fault{At: at, Trace: func(op, name string) {
			if op == "Sync" && name == "." {
				sync = n
			}
			n++
		}}
		real := r.dir
		r.dir = vfstest.WithFaultDir(real, f)
		err := p.Apply(t.Context(), r, b.store, "testtest")
		r.dir = real
		if at < 0 {
			if at = sync; err != nil || sync < 0 {
				t.Fatalf("without a fault: sync is operation %d, %v", sync, err)
			}
			continue
		}
		if !f.Fired() || !errors.Is(err, vfstest.ErrInjected) {
			t.Errorf("the sync fails: %v, error %v", f.Fired(), err)
		}
		return
	}
}

// What is not as it was wanted right after it was restored, or is back after it was
// deleted, is not called done.
func TestChangedRightAfter(t *testing.T) {
	b := newBench(t)
	left := world{"changed": "file 644 2", "deleted": "file 644 made", "restored": "file 644 2",
		"removed": "file 644 made", "lost": "file 644 2"}
	left.write(t, b.dir)
	p := b.plan(b.wants(left, world{"changed": "file 644 1", "restored": "file 644 1", "lost": "file 644 1"}),
		rollback.Skip)
	r := b.root()
	real := r.dir
	r.dir = vfstest.WithFaultDir(real, &vfstest.Fault{At: -1, Trace: func(op, name string) {
		if op != "Sync" || name != "." {
			return
		}
		err := os.WriteFile(filepath.Join(b.dir, "changed"), []byte("user"), 0o644)
		err = errors.Join(err, os.WriteFile(filepath.Join(b.dir, "deleted"), []byte("made"), 0o644),
			os.Remove(filepath.Join(b.dir, "lost")))
		if err != nil {
			t.Error(err)
		}
	}})
	if err := p.Apply(t.Context(), r, b.store, "testtest"); err != nil {
		t.Fatal(err)
	}
	r.dir = real
	const why = "failed: it was changed again right after"
	if d := cmp.Diff(map[string]string{"changed": why, "deleted": why, "lost": why, "restored": "restored",
		"removed": "deleted"}, outcome(p)); d != "" {
		t.Errorf("outcome (-want +got):\n%s", d)
	}
	b.expect(world{"changed": "file 644 user", "deleted": "file 644 made", "restored": "file 644 1"})
}

// What is changed after it was kept stays, whether names can change places or not,
// and the plan says why.
func TestChangedSinceSaved(t *testing.T) {
	for _, c := range []struct {
		left, wanted, now string // of one path, "" for nothing
		why               string
	}{
		{"file 644 2", "file 644 1", "file 644 user", "it was changed since"},
		{"file 644 2", "file 644 1", "file 444 2", "its mode was changed since"},
		{"file 644 2", "file 644 1", "link user", "it was replaced since"},
		{"", "file 644 1", "file 644 user", "it was made since"},
		{"", "link old", "file 644 user", "it was made since"},
		{"file 644 2", "", "file 644 user", "it was changed since"},
		{"file 644 2", "", "dir 755", "it was replaced since"},
		{"dir 755", "file 644 1", "file 644 user", "it was replaced since"},
		{"file 644 2", "dir 755", "file 644 user", "it was changed since"},
	} {
		if !vfstest.HasLinks() && strings.Contains(c.wanted+c.now, "link") {
			continue
		}
		for _, exchange := range []bool{true, false} {
			at := func(what string) world {
				if what == "" {
					return world{}
				}
				return world{"p": what}
			}
			b := newBench(t)
			at(c.left).write(t, b.dir)
			p := b.plan(b.wants(at(c.left), at(c.wanted)), rollback.Skip)
			r := b.root()
			if err := p.Save(t.Context(), r, b.w); err != nil {
				t.Fatal(err)
			}
			real := r.dir
			ops := 1000
			if !exchange {
				r.dir = &plainDir{real, &ops}
			}
			changed := false
			r.dir = vfstest.WithFaultDir(r.dir, &vfstest.Fault{At: -1, Trace: func(string, string) {
				if !changed {
					changed = true
					at(c.now).write(t, b.dir)
				}
			}})
			if err := errors.Join(r.fresh(), p.Apply(t.Context(), r, b.store, "testtest"), r.fresh()); err != nil {
				t.Fatal(err)
			}
			r.dir = real
			if got, want := outcome(p)["p"], "skipped: "+c.why; got != want || !p.Items[0].Dirty {
				t.Errorf("%q to %q, with %q there, exchange %v: %q, want %q and dirty", c.left, c.wanted, c.now,
					exchange, got, want)
			}
			b.expect(at(c.now))
		}
	}
}

// What is not captured goes along with a directory that was moved, but not if
// somebody has put something else there since.
func TestLooseReplaced(t *testing.T) {
	vfstest.NeedRename(t, vfs.NoReplace)
	b := newBench(t)
	left := world{"new": "dir 755", "new/a": "file 644 a", "new/b": "file 644 b"}
	left.write(t, b.dir)
	world{"new/log": "file 644 log", "new/other": "file 644 other"}.add(t, b.dir)
	p := b.plan(b.wants(left, world{"old": "dir 755", "old/a": "file 644 a", "old/b": "file 644 b"}), rollback.Skip,
		"new/log", "new/other")
	world{"theirs": "file 644 theirs"}.add(t, b.dir)
	if err := os.Rename(filepath.Join(b.dir, "theirs"), filepath.Join(b.dir, "new/log")); err != nil {
		t.Fatal(err)
	}
	b.apply(p)
	b.expect(world{"new": "dir 755", "new/log": "file 644 theirs", "old": "dir 755", "old/a": "file 644 a",
		"old/b": "file 644 b", "old/other": "file 644 other"})
	for _, mv := range p.Moves {
		if want := map[string]string{"new/log": "it was replaced meanwhile"}[mv.From]; mv.Why != want {
			t.Errorf("move of %q: %q, want %q", mv.From, mv.Why, want)
		}
	}
	if got, want := outcome(p)["new"], `kept: it is not empty: it holds "log"`; got != want || len(p.Moves) != 2 {
		t.Errorf("new: %q, want %q; moves %+v", got, want, p.Moves)
	}
}

// A file that is written while it is read is neither what it was nor what it will be.
func TestChangesWhileRead(t *testing.T) {
	for _, content := range []string{"longer than it was", "new"} { // of another length, and of the same
		b := newBench(t)
		left := world{"f": "file 644 old"}
		left.write(t, b.dir)
		then := time.Unix(1_000_000_000, 0) // clocks of file systems are coarse
		if err := os.Chtimes(filepath.Join(b.dir, "f"), then, then); err != nil {
			t.Fatal(err)
		}
		r := b.root()
		r.dir = vfstest.WithFaultDir(r.dir, &vfstest.Fault{At: -1, Trace: func(op, _ string) {
			if op == "Read" {
				if err := os.WriteFile(filepath.Join(b.dir, "f"), []byte(content), 0o644); err != nil {
					t.Error(err)
				}
			}
		}})
		if e, err := r.Entry(t.Context(), "f", b.w); err == nil ||
			!strings.Contains(err.Error(), "it changes while it is read") {
			t.Errorf("%q is written: Entry = %+v, %v", content, e, err)
		}
	}
}

// A secretDir holds a file that may not be read.
type secretDir struct {
	vfs.Dir
	secret string
}

func (d *secretDir) Open(name string, st *vfs.Stat) (vfs.Reader, error) {
	if name == d.secret {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return d.Dir.Open(name, st)
}

// What cannot be kept is not changed.
func TestNotSaved(t *testing.T) {
	b := newBench(t)
	left := world{"secret": "file 644 2", "plain": "file 644 2"}
	left.write(t, b.dir)
	p := b.plan(b.wants(left, world{"secret": "file 644 1", "plain": "file 644 1"}), rollback.Skip)
	r := b.root()
	real := r.dir
	r.dir = &secretDir{real, "secret"}
	if err := p.Save(t.Context(), r, b.w); err != nil {
		t.Fatal(err)
	}
	r.dir = real
	if err := p.Apply(t.Context(), r, b.store, "testtest"); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"secret": "failed: open secret: permission denied", "plain": "restored"},
		outcome(p)); d != "" {
		t.Errorf("outcome (-want +got):\n%s", d)
	}
	b.expect(world{"secret": "file 644 2", "plain": "file 644 1"})
}

// What was changed between the plan and the look that keeps it is not kept as what
// the plan has, and stays.
func TestChangedBeforeSave(t *testing.T) {
	b := newBench(t)
	left := world{"changed": "file 644 2", "gone": "file 644 2", "there": "file 644 made", "same": "file 644 2",
		"mode": "file 644 2"}
	left.write(t, b.dir)
	p := b.plan(b.wants(left, world{"changed": "file 644 1", "gone": "file 644 1", "same": "file 644 1",
		"mode": "file 644 1"}), rollback.Overwrite)
	now := world{"changed": "file 644 user", "there": "file 644 user", "same": "file 644 2", "mode": "file 444 2"}
	now.write(t, b.dir)
	if err := p.Save(t.Context(), b.root(), b.w); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"changed": "skipped: it was changed since",
		"gone":  "skipped: it was deleted since",
		"there": "skipped: it was changed since", "same": "restored",
		"mode": "skipped: its mode was changed since"}
	if d := cmp.Diff(want, outcome(p)); d != "" {
		t.Errorf("after Save (-want +got):\n%s", d)
	}
	if n := len(slices.DeleteFunc(slices.Clone(p.Items), func(it rollback.Item) bool { return !it.Dirty })); n != 4 {
		t.Errorf("%d are dirty, want 4", n)
	}
	if err := p.Apply(t.Context(), b.root(), b.store, "testtest"); err != nil {
		t.Fatal(err)
	}
	now["same"] = "file 644 1"
	b.expect(now)
}
