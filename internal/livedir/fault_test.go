package livedir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
)

var (
	faultBefore = world{"a": "file 644 a2", "made": "file 644 made", "kind": "dir 755", "kind/x": "file 644 x",
		"dir":   "file 644 now a file",
		"moved": "dir 755", "moved/m": "file 644 m", "moved/n": "file 644 n", "link": "link two", "made dir": "dir 755",
		"made dir/y": "file 644 y"}.here()
	faultAfter = world{"a": "file 644 a1", "kind": "file 600 kind", "dir": "dir 700", "dir/z": "file 644 z",
		"lib": "dir 755", "lib/m": "file 644 m",
		"lib/n": "file 644 n", "link": "link one", "gone": "dir 755", "gone/deep": "dir 755",
		"gone/deep/g": "file 755 g"}.here()
)

// TestFaults makes each operation on the directory fail, once or from then on.
// Whatever happens, each path is as it was or as it is wanted, and a second
// try brings the rest.
func TestFaults(t *testing.T) {
	testseed.Sequential(t)
	for _, cause := range []error{errors.New("some error"), syscall.ENOSPC} {
		for _, sticky := range []bool{false, true} {
			done := sticky && cause == syscall.ENOSPC // it comes and goes
			step := int64(1)
			if testing.Short() {
				step = 7
			}
			for at := int64(0); !done; at += step {
				b := newBench(t)
				faultBefore.write(t, b.dir)
				wants := b.wants(faultBefore, faultAfter)
				p := b.plan(wants, rollback.Skip)
				r := b.root()
				if err := p.Save(t.Context(), r, b.w); err != nil {
					t.Fatal(err)
				}
				f := &vfstest.Fault{At: at, Sticky: sticky, Err: cause}
				real := r.dir
				r.dir = vfstest.WithFaultDir(real, f)
				if err := r.fresh(); err != nil {
					t.Fatal(err)
				}
				err := p.Apply(t.Context(), r, b.store, "testtest")
				r.dir = real
				where := fmt.Sprintf("%v, sticky %v, operation %d", cause, sticky, at)
				if done = !f.Fired(); done {
					if err != nil {
						t.Fatal(err)
					}
				}
				checkEither(t, where, readWorld(t, b.dir))
				if err := Sweep(t.Context(), b.root(), wants, "testtest"); err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				again, err := NewPlan(t.Context(), b.root(), wants, &Options{Policy: rollback.Skip})
				if err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				if err := again.Apply(t.Context(), b.root(), b.store, "testtest"); err != nil {
					t.Fatalf("%s: again: %v", where, err)
				}
				if d := cmp.Diff(faultAfter, readWorld(t, b.dir)); d != "" {
					t.Fatalf("%s: after the second try (-want +got):\n%s\n%v", where, d, outcome(again))
				}
			}
		}
	}
}

// checkEither requires that each file is as it was or as it is wanted.
func checkEither(t *testing.T, where string, got world) {
	t.Helper()
	for path, what := range got {
		if strings.Contains(path, ".boo-") {
			continue
		}
		if what != faultBefore[path] && what != faultAfter[path] && !strings.HasPrefix(what, "dir") {
			t.Errorf("%s: %s is %q", where, path, what)
		}
	}
	for path, what := range faultBefore {
		if faultAfter[path] != "" && got[path] == "" && !strings.HasPrefix(what, "dir") &&
			!strings.HasPrefix(faultAfter[path], "dir") {
			t.Errorf("%s: %s is gone", where, path)
		}
	}
}

// A fullDir takes some writes and then no more.
type fullDir struct {
	vfs.Dir
	left *atomic.Int64
}

func (d *fullDir) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.Dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &fullDir{sub, d.left}, nil
}

func (d *fullDir) Rename(name string, to vfs.Dir, newname string, mode vfs.RenameMode) error {
	return d.Dir.Rename(name, to.(*fullDir).Dir, newname, mode)
}

func (d *fullDir) Create(name string, perm uint16) (vfs.Writer, error) {
	w, err := d.Dir.Create(name, perm)
	if err != nil {
		return nil, err
	}
	return &fullWriter{w, d.left}, nil
}

type fullWriter struct {
	vfs.Writer
	left *atomic.Int64
}

func (w *fullWriter) Write(p []byte) (int, error) {
	if w.left.Add(-1) < 0 {
		return 0, syscall.ENOSPC
	}
	return w.Writer.Write(p)
}

// A device that is full stops a restore before it has changed anything.
func TestFull(t *testing.T) {
	b := newBench(t)
	faultBefore.write(t, b.dir)
	p := b.plan(b.wants(faultBefore, faultAfter), rollback.Skip)
	r := b.root()
	if err := p.Save(t.Context(), r, b.w); err != nil {
		t.Fatal(err)
	}
	left := new(atomic.Int64)
	left.Store(2) // writes
	r.dir = &fullDir{r.dir, left}
	if err := p.Apply(t.Context(), r, b.store, "testtest"); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error is %v", err)
	}
	b.expect(faultBefore)
}

// What somebody writes at the last moment is never lost: it stays. That needs an exchange in
// one step.
func TestRacingEditor(t *testing.T) {
	vfstest.NeedRename(t, vfs.Exchange)
	for round := range 60 {
		b := newBench(t)
		left := world{"f": "file 644 agent", "g": "file 644 agent", "h": "file 644 agent"}
		left.write(t, b.dir)
		p := b.plan(b.wants(left, world{"f": "file 644 old", "h": "file 755 old"}), rollback.Skip)
		r := b.root()
		if err := p.Save(t.Context(), r, b.w); err != nil {
			t.Fatal(err)
		}
		start := make(chan bool)
		var wg sync.WaitGroup
		for _, name := range []string{"f", "g", "h"} {
			wg.Add(1)
			go func() { // saves as editors do
				defer wg.Done()
				<-start
				for range round % 7 * 300 { // wait a little
					os.Getpid()
				}
				tmp := filepath.Join(b.dir, name+"~")
				if err := errors.Join(os.WriteFile(tmp, []byte("user"), 0o644),
					os.Rename(tmp, filepath.Join(b.dir, name))); err != nil {
					t.Error(err)
				}
			}()
		}
		close(start)
		if err := p.Apply(t.Context(), r, b.store, "testtest"); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		b.expect(world{"f": "file 644 user", "g": "file 644 user", "h": "file 644 user"})
		if t.Failed() {
			t.Fatalf("round %d: %v", round, outcome(p))
		}
	}
}

// readShared reads a file so that others may replace it meanwhile, as os.ReadFile does but on
// Windows.
func readShared(dir, name string) ([]byte, error) {
	f, err := os.OpenInRoot(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// A reader finds the old content or the new one.
func TestConcurrentReader(t *testing.T) {
	b := newBench(t)
	contents := []string{strings.Repeat("one ", 50_000), strings.Repeat("other ", 60_000)}
	worlds := []world{{"f": "file 644 " + contents[0]}, {"f": "file 644 " + contents[1]}}
	worlds[0].write(t, b.dir)
	stop := make(chan bool)
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			select {
			case <-stop:
				return
			default:
			}
			got, err := readShared(b.dir, "f")
			if err != nil || string(got) != contents[0] && string(got) != contents[1] {
				t.Errorf("read %d bytes, %v", len(got), err)
				return
			}
		}
	}()
	for i := range 100 {
		b.apply(b.plan(b.wants(worlds[i%2], worlds[1-i%2]), rollback.Skip))
	}
	close(stop)
	wg.Wait()
}

// A directory that is a symbolic link for a moment, again and again: what was
// prepared in it does not stay there, or is told.
func TestSwappedBack(t *testing.T) {
	vfstest.NeedLinks(t)
	vfstest.NeedRename(t, vfs.Exchange)
	outside := t.TempDir()
	told := 0
	for round := range 60 {
		b := newBench(t)
		left, want := world{"d": "dir 755", "d/sub": "dir 755"}, world{"d": "dir 755", "d/sub": "dir 755"}
		for i := range 12 {
			left[fmt.Sprint("d/sub/f", i)], want[fmt.Sprint("d/sub/f", i)] = "file 644 2", "file 644 1"
		}
		left.write(t, b.dir)
		dir, link := filepath.Join(b.dir, "d/sub"), filepath.Join(b.dir, "link")
		p, r := b.plan(b.wants(left, want), rollback.Overwrite), b.root()
		if err := p.Save(t.Context(), r, b.w); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, link); err != nil {
			t.Fatal(err)
		}
		top, err := vfs.OpenDir(b.dir)
		if err != nil {
			t.Fatal(err)
		}
		defer top.Close()
		below, err := top.OpenDir("d")
		if err != nil {
			t.Fatal(err)
		}
		defer below.Close()
		stop := make(chan bool)
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				for range 2 { // away, and back
					if err := top.Rename("link", below, "sub", vfs.Exchange); err != nil {
						t.Log(round, err)
						return
					}
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		err = p.Apply(t.Context(), r, b.store, "testtest")
		close(stop)
		wg.Wait()
		names, _ := filepath.Glob(filepath.Join(dir, ".boo-*"))
		making, _ := filepath.Glob(filepath.Join(b.dir, ".boo-*/.boo-*"))
		names = append(names, making...)
		says := err != nil
		for _, it := range p.Items {
			if it.Do == rollback.Failed && strings.Contains(it.Why, ErrAside.Error()) {
				says = true
			}
		}
		if says {
			told++
		}
		if len(names) > 0 && !says {
			t.Errorf("round %d: %d files stay, as %s, and nobody says so", round, len(names), filepath.Base(names[0]))
		}
		if got := readWorld(t, outside); len(got) > 0 {
			t.Fatalf("round %d: outside is %v", round, got)
		}
	}
	t.Logf("told in %d of 60 rounds", told)
}

// A symbolic link that takes the place of a directory, before or while a
// restore runs, leads nowhere.
func TestSwappedLink(t *testing.T) {
	vfstest.NeedLinks(t)
	outside := t.TempDir()
	kept := world{"a": "file 644 outside", "b": "file 644 outside", "new": "dir 755", "new/c": "file 644 outside"}
	kept.write(t, outside)
	for round := range 40 {
		b := newBench(t)
		left := world{"dir": "dir 755", "dir/a": "file 644 2", "dir/b": "file 644 made"}
		left.write(t, b.dir)
		dir, aside := filepath.Join(b.dir, "dir"), filepath.Join(b.dir, "aside")
		link := filepath.Join(b.dir, "link")
		swap := func() error {
			return errors.Join(os.Symlink(outside, link), os.Rename(dir, aside), os.Rename(link, dir))
		}
		wants := b.wants(left, world{"dir": "dir 755", "dir/a": "file 644 1", "dir/new": "dir 755",
			"dir/new/c": "file 644 c"})
		if round == 0 { // before
			if err := swap(); err != nil {
				t.Fatal(err)
			}
		}
		p := b.plan(wants, rollback.Overwrite)
		r := b.root()
		if err := p.Save(t.Context(), r, b.w); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		if round > 0 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for range round * 50 {
					os.Getpid()
				}
				if err := swap(); err != nil {
					t.Log(err) // the restore has made the directory again
				}
			}()
		}
		if err := p.Apply(t.Context(), r, b.store, "testtest"); err != nil {
			t.Log(err)
		}
		wg.Wait()
		if d := cmp.Diff(kept, readWorld(t, outside)); d != "" {
			t.Fatalf("round %d: outside (-want +got):\n%s", round, d)
		}
	}
}

// A takenDir is a directory of which somebody replaces a subdirectory by a file in the moment in which
// that is deleted.
type takenDir struct{ vfs.Dir }

func (d *takenDir) take(name string) error {
	if name != "goes" {
		return nil
	}
	if err := d.Dir.RemoveDir(name); err != nil {
		return err
	}
	w, err := d.Create(name, 0o644)
	if err != nil {
		return err
	}
	_, err = w.Write([]byte("theirs"))
	return errors.Join(err, w.Close())
}

func (d *takenDir) Remove(name string) error { return errors.Join(d.take(name), d.Dir.Remove(name)) }

func (d *takenDir) RemoveDir(name string) error {
	return errors.Join(d.take(name), d.Dir.RemoveDir(name))
}

// A file that takes the place of a directory while that is deleted stays.
func TestDeletedDirectoryIsFile(t *testing.T) {
	b := newBench(t)
	left := world{"goes": "dir 755", "stays": "file 644 s"}
	left.write(t, b.dir)
	p := b.plan(b.wants(left, world{"stays": left["stays"]}), rollback.Skip)
	root := NewRoot(&takenDir{b.root().dir})
	if err := p.Apply(t.Context(), root, b.store, "testtest"); err != nil {
		t.Fatal(err)
	}
	b.expect(world{"goes": "file 644 theirs", "stays": left["stays"]})
	if p.Count(rollback.Failed) != 1 {
		t.Errorf("outcome is %v", outcome(p))
	}
}
