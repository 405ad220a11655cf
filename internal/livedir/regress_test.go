package livedir

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
)

// A chain of directories is planned in linear time: with twice the work on each
// level this would take for ever.
func TestPlanDeep(t *testing.T) {
	b := newBench(t)
	left, path := make(world), ""
	for i := range 40 {
		path = trees.Join(path, fmt.Sprint("d", i))
		left[path] = "dir 755"
	}
	left[path+"/f"] = "file 644 x"
	left.write(t, b.dir)
	p := b.plan(b.wants(left, world{}), rollback.Skip)
	b.apply(p)
	b.expect(world{})
}

// A chain of directories is restored in linear time: each level asks as much of the disk as the one above it.
func TestApplyDeep(t *testing.T) {
	asked := func(levels int) int64 {
		b := newBench(t)
		wanted, path := make(world), ""
		for range levels {
			path = trees.Join(path, "d")
			wanted[path] = "dir 755"
		}
		wanted[path+"/f"] = "file 644 x"
		p := b.plan(b.wants(world{}, wanted), rollback.Skip)
		r := b.root()
		var count atomic.Int64
		r.dir = vfstest.WithFaultDir(r.dir, &vfstest.Fault{At: -1, Trace: func(string, string) { count.Add(1) }})
		if err := p.Apply(t.Context(), r, b.store, "testtest"); err != nil {
			t.Fatal(err)
		}
		b.expect(wanted)
		return count.Load()
	}
	few, many := asked(60), asked(240)
	if t.Logf("%d operations for 60 levels, %d for 240", few, many); many > 6*few {
		t.Errorf("%d operations for 60 levels, %d for four times as many", few, many)
	}
}

// A thousand directories that were moved are recognised in one pass.
func TestPlanManyMoved(t *testing.T) {
	testseed.Sequential(t)
	vfstest.NeedRename(t, vfs.NoReplace)
	b := newBench(t)
	left, wanted := make(world), make(world)
	for i := range 1000 {
		f := fmt.Sprint("file 644 ", i)
		left[fmt.Sprint("new", i)], left[fmt.Sprintf("new%d/f", i)] = "dir 755", f
		wanted[fmt.Sprint("old", i)], wanted[fmt.Sprintf("old%d/f", i)] = "dir 755", f
	}
	left.write(t, b.dir)
	world{"new7/loose": "file 644 x"}.add(t, b.dir)
	p := b.plan(b.wants(left, wanted), rollback.Skip, "new7/loose")
	if len(p.Moves) != 1 || p.Moves[0].To != "old7/loose" {
		t.Errorf("moves: %+v", p.Moves)
	}
}

// What has become of a directory that was moved is a matter of that directory.
func TestMovedAndReplaced(t *testing.T) {
	left := world{"new": "dir 755", "new/a": "file 644 a", "new/b": "file 644 b", "new/x": "dir 755",
		"new/x/y": "file 644 y"}
	wanted := world{"old": "dir 755", "old/a": "file 644 a", "old/b": "file 644 b", "old/x": "file 644 x"}
	for name, disk := range map[string]world{
		"file": {"new": "file 644 user"}, "link": {"new": "link /tmp"}, "as left": left,
		"file of the user": {"new": "dir 755", "new/a": "file 644 a", "new/b": "file 644 b", "new/user": "file 644 u"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if name == "link" {
				vfstest.NeedLinks(t)
			}
			disk.write(t, b.dir)
			p := b.plan(b.wants(left, wanted), rollback.Skip)
			b.apply(p)
			want := world{"old": "dir 755", "old/a": "file 644 a", "old/b": "file 644 b", "old/x": "file 644 x"}
			switch name {
			case "as left":
			case "file of the user":
				want["new"], want["new/user"] = "dir 755", "file 644 u"
			default:
				want["new"] = disk["new"]
			}
			b.expect(want)
		})
	}
}

// Where something above a path has become something else, preview and restore
// both leave the path out.
func TestParentReplaced(t *testing.T) {
	vfstest.NeedLinks(t)
	b := newBench(t)
	elsewhere := t.TempDir()
	world{"d": "link " + elsewhere}.write(t, b.dir)
	p := b.plan(b.wants(world{"d": "dir 755"}, world{"d": "dir 755", "d/g": "file 644 1"}), rollback.Skip)
	preview := outcome(p)
	b.apply(p)
	if d := cmp.Diff(preview, outcome(p)); d != "" || !strings.HasPrefix(preview["d/g"], "skipped: ") {
		t.Errorf("%v, (-plan +done):\n%s", preview, d)
	}
}

// What lies aside of a path, and is not the restore's own, is not overwritten.
func TestAsideStays(t *testing.T) {
	vfstest.NeedRename(t, vfs.NoReplace)
	b := newBench(t)
	left := world{"f": "file 644 old"}
	left.write(t, b.dir)
	making := trees.MakingName("testtest")
	aside := making + "/" + oldName("testtest", "f")
	world{making: "dir 700", aside: "file 644 precious"}.add(t, b.dir)
	wants := b.wants(left, world{"f": "file 644 new"})
	if err := Sweep(t.Context(), b.root(), wants, "testtest"); !errors.Is(err, ErrAside) {
		t.Errorf("Sweep: %v, want ErrAside", err)
	}
	p := b.plan(wants, rollback.Skip)
	b.apply(p)
	b.expect(world{"f": "file 644 new", oldName("testtest", "f"): "file 644 precious"})
	if p.Count(rollback.Restore) != 1 {
		t.Errorf("%v", outcome(p))
	}
}

// A plainDir is of a file system on which two names cannot change places. It
// dies after its nth operation that changes something.
type plainDir struct {
	vfs.Dir
	left *int
}

func (d *plainDir) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.Dir.OpenDir(name)
	return &plainDir{sub, d.left}, err
}

func (d *plainDir) die() error {
	if *d.left--; *d.left < 0 {
		return errors.New("dead")
	}
	return nil
}

func (d *plainDir) Remove(name string) error {
	return errors.Join(d.die(), func() error {
		if *d.left < 0 {
			return nil
		}
		return d.Dir.Remove(name)
	}())
}

func (d *plainDir) RemoveDir(name string) error { return d.Remove(name) }

func (d *plainDir) Rename(name string, to vfs.Dir, newname string, mode vfs.RenameMode) error {
	if mode == vfs.Exchange {
		return &fs.PathError{Op: "rename", Path: name, Err: errors.ErrUnsupported}
	}
	if err := d.die(); err != nil {
		return err
	}
	return d.Dir.Rename(name, to.(*plainDir).Dir, newname, mode)
}

// A crash between any two operations leaves something that goes on.
func TestCrashWithoutExchange(t *testing.T) {
	left := world{"x": "dir 755", "y": "file 644 y", "z": "file 644 1"}
	wanted := world{"x": "file 644 content", "y": "dir 755", "z": "file 644 2"}
	for n := 0; ; n++ {
		b := newBench(t)
		left.write(t, b.dir)
		wants := b.wants(left, wanted)
		p := b.plan(wants, rollback.Skip)
		root := b.root()
		if err := p.Save(t.Context(), root, b.w); err != nil {
			t.Fatal(err)
		}
		ops := n
		err := p.Apply(t.Context(), NewRoot(&plainDir{root.dir, &ops}), b.store, "testtest")
		if err := Sweep(t.Context(), b.root(), wants, "testtest"); err != nil {
			t.Fatal(err)
		}
		b.apply(b.plan(wants, rollback.Skip))
		b.expect(wanted)
		if t.Failed() {
			t.Fatalf("after operation %d (%v)", n, err)
		}
		if ops > 0 {
			return
		}
	}
}

// What somebody wrote at the last moment, and what a crash has left aside, goes back
// to its name: it is nowhere else.
func TestSweepTheirs(t *testing.T) {
	vfstest.NeedRename(t, vfs.Exchange)
	b := newBench(t)
	wants := b.wants(world{"f": "file 644 2"}, world{"f": "file 644 1"})
	making := trees.MakingName("testtest")
	for _, aside := range []string{oldName("testtest", "f"), making + "/" + oldName("testtest", "f")} {
		left := func(what, now string) {
			w := world{aside: what, "f": now}
			if strings.Contains(aside, "/") {
				w[making] = "dir 700"
			}
			w.write(t, b.dir)
		}
		for _, theirs := range []string{"file 644 user", "file 600 2", "link user", "dir 755"} {
			left(theirs, "file 644 1")
			if err := Sweep(t.Context(), b.root(), wants, "testtest"); err != nil {
				t.Fatal(err)
			}
			b.expect(world{"f": theirs})
		}
		for _, known := range []string{"file 644 1", "file 644 2"} { // the store has it
			left(known, "file 644 user")
			if err := Sweep(t.Context(), b.root(), wants, "testtest"); err != nil {
				t.Fatal(err)
			}
			b.expect(world{"f": "file 644 user"})
		}
	}
}

// Directories in one another that stay name what is in the innermost, and not each the one below it:
// 82 of them had 37 MB of reasons.
func TestKeptNested(t *testing.T) {
	b := newBench(t)
	left, path := world{}, "d"
	for range 6 {
		left[path] = "dir 755"
		path += "/d"
	}
	wants := b.wants(left, world{})
	left[path] = "file 644 user"
	left.write(t, b.dir)
	p := b.plan(wants, rollback.Skip)
	for _, it := range p.Items {
		if want := fmt.Sprintf("it holds %q, which stays", path); it.Do != rollback.Kept || it.Why != want {
			t.Errorf("%s: %s, %s, want %s", it.Path, it.Do, it.Why, want)
		}
	}
	if len(p.Items) != len(wants) {
		t.Errorf("%d items, want %d", len(p.Items), len(wants))
	}
}

// Of a restore that is left as it is, new content goes that the store has. All else is seen by the user
// from then on.
func TestAbandon(t *testing.T) {
	b := newBench(t)
	b.wants(world{"f": "file 644 2", "l": "link 2"}, world{"f": "file 644 1", "l": "link 1"}) // the store has these
	making := trees.MakingName("testtest")
	at := func(name string) string { return trees.Join(making, name) }
	newFile := at(newName("testtest", "f"))
	known := world{making: "dir 700", newFile: "file 644 1", at(newName("testtest", "l")): "link 1",
		at(ignoreName): "file 600 " + ignoreAll}
	known.write(t, b.dir)
	if err := Abandon(t.Context(), b.root(), "testtest", b.store); err != nil {
		t.Error(err)
	}
	b.expect(world{})
	left := world{making: "dir 700", newFile: "file 644 lost", at(oldName("testtest", "f")): "file 644 2",
		at("user.new"): "file 644 1"}
	maps.Copy(known, left)
	known.write(t, b.dir)
	err := Abandon(t.Context(), b.root(), "testtest", b.store)
	if !errors.Is(err, ErrAside) || !strings.Contains(err.Error(), making) {
		t.Errorf("Abandon = %v", err)
	}
	b.expect(left)
	if err := Abandon(t.Context(), b.root(), "other", b.store); err != nil {
		t.Error(err)
	}
	b.expect(left)
}

// What was put aside of a path whose directory is gone by now comes into the root, if it is
// nowhere else, and where it lies is told.
func TestSweepNoDirectory(t *testing.T) {
	vfstest.NeedRename(t, vfs.NoReplace)
	b := newBench(t)
	wants := b.wants(world{"d/f": "file 644 2"}, world{"d/f": "file 644 1"})
	making := trees.MakingName("testtest")
	aside := making + "/" + oldName("testtest", "d/f")
	for _, in := range []world{{}, {"d": "file 644 in the way"}} {
		left := maps.Clone(in)
		left[making], left[aside] = "dir 700", "file 644 user"
		left.write(t, b.dir)
		err := Sweep(t.Context(), b.root(), wants, "testtest")
		seen := oldName("testtest", "d/f")
		if !errors.Is(err, ErrAside) || !strings.Contains(fmt.Sprint(err), fmt.Sprintf("in %q", seen)) {
			t.Errorf("Sweep: %v, want ErrAside with %s", err, seen)
		}
		want := maps.Clone(in)
		want[seen] = "file 644 user"
		b.expect(want)

		left = maps.Clone(in) // the store has it
		left[making], left[aside] = "dir 700", "file 644 2"
		left.write(t, b.dir)
		if err := Sweep(t.Context(), b.root(), wants, "testtest"); err != nil {
			t.Fatal(err)
		}
		b.expect(in)
	}
}

// A directory that was put aside for a file, and in which somebody has put
// something before a crash, comes back with it: the restore goes on from there.
func TestSweepFullDirectory(t *testing.T) {
	vfstest.NeedRename(t, vfs.Exchange)
	b := newBench(t)
	before, after := world{"d": "dir 755", "d/x": "file 644 x"}, world{"d": "file 644 new"}
	wants := b.wants(before, after)
	aside := oldName("testtest", "d")
	world{aside: "dir 755", aside + "/theirs": "file 644 theirs", "d": after["d"]}.write(t, b.dir)
	if err := Sweep(t.Context(), b.root(), wants, "testtest"); err != nil {
		t.Fatal(err)
	}
	left := world{"d": "dir 755", "d/theirs": "file 644 theirs"}
	b.expect(left)
	p := b.plan(wants, rollback.Skip)
	b.apply(p)
	b.expect(left)
	if got, want := outcome(p)["d"], `skipped: it holds "d/theirs", which stays`; got != want {
		t.Errorf("d: %q, want %q", got, want)
	}
}

// TestSpellingsOfDeepPaths: what directories that lie in each other take, each of which is a path of the set:
// as much as the length of all paths, and not that for each directory above them.
func TestSpellingsOfDeepPaths(t *testing.T) {
	var paths []string
	for depth := range 400 {
		paths = append(paths, strings.Repeat("d/", depth)+"d")
	}
	allocs := testing.AllocsPerRun(1, func() {
		if is := spellings(slices.Values(paths)); is != nil {
			t.Errorf("%d are doubtful", len(is))
		}
	})
	if allocs > 1000 {
		t.Errorf("%v allocations, want one per directory", allocs)
	}
	is := spellings(slices.Values(append(paths, "d/D/x", "é", "e")))
	if want := len(paths); len(is) != want || is["d"] || is["e"] || !is["d/d"] || !is["d/D/x"] {
		t.Errorf("%d of %d are doubtful beside d/D", len(is), want)
	}
}
