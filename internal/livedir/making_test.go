package livedir

import (
	"errors"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
)

// A heritageDir is a directory that has another heritage than those above it, at one path.
type heritageDir struct {
	vfs.Dir
	name, other string // of the directory that has another; its name
}

func (d *heritageDir) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.Dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &heritageDir{sub, name, d.other}, nil
}

func (d *heritageDir) Heritage() (string, error) {
	if d.name == d.other {
		return "other", nil
	}
	return d.Dir.Heritage()
}

func (d *heritageDir) Rename(name string, to vfs.Dir, newname string, mode vfs.RenameMode) error {
	return d.Dir.Rename(name, to.(*heritageDir).Dir, newname, mode)
}

// Files are made in one directory, out of which they come under their names, and which is
// gone then. What would be another file if it came from there is made beside its path.
func TestMaking(t *testing.T) {
	left := world{"a": "file 644 2", "dir": "dir 755", "dir/b": "file 644 2", "made": "file 644 made", "l": "link 2",
		"dir/made": "file 644 made", "other": "dir 755", "other/c": "file 644 2", "other/made": "file 644 made"}
	want := world{"a": "file 644 1", "dir": "dir 755", "dir/b": "file 644 1", "l": "link 1",
		"dir/gone": "file 644 gone",
		"other":    "dir 755", "other/c": "file 644 1", "other/gone": "file 644 gone", "deep": "dir 755",
		"deep/er":   "dir 755",
		"deep/er/d": "file 644 d"}
	b := newBench(t)
	left.write(t, b.dir)
	wants := b.wants(left, want)
	disk := vfstest.NewMem()
	left.writeTo(t, disk.Dir())
	making := trees.MakingName("testtest")
	var mu sync.Mutex
	beside := make(map[string]bool)
	made := 0
	trace := &vfstest.Fault{At: -1, Trace: func(op, name string) {
		mu.Lock()
		defer mu.Unlock()
		for p := range strings.SplitSeq(name, " -> ") {
			up, last := trees.Split(p)
			switch {
			case !strings.HasPrefix(last, prefix("testtest")):
			case up == making:
				made++
			default:
				beside[up] = true
			}
		}
	}}
	root := NewRoot(&heritageDir{vfstest.WithFaultDir(disk.Dir(), trace), ".", "other"})
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
	if got := worldOf(t, disk.Dir()); !maps.Equal(got, want) {
		t.Errorf("the directory is %v, want %v", got, want)
	}
	if made == 0 || !maps.Equal(beside, map[string]bool{"other": true}) {
		t.Errorf("%d operations in %s, beside paths in %v", made, making, beside)
	}
}

// A strayDir has a directory that lies elsewhere by now: nothing can be renamed into it.
type strayDir struct {
	vfs.Dir
	isStray bool
}

func (d *strayDir) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.Dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &strayDir{sub, name == "stray"}, nil
}

func (d *strayDir) Rename(name string, to vfs.Dir, newname string, mode vfs.RenameMode) error {
	if other := to.(*strayDir); d.isStray != other.isStray {
		return errors.ErrUnsupported
	}
	return d.Dir.Rename(name, to.(*strayDir).Dir, newname, mode)
}

// Where files cannot be renamed out of the directory after all, they are made beside their
// paths.
func TestMakingElsewhere(t *testing.T) {
	left := world{"stray": "dir 755", "stray/a": "file 644 2", "stray/l": "link 2", "stray/made": "file 644 made"}
	want := world{"stray": "dir 755", "stray/a": "file 644 1", "stray/l": "link 1", "stray/new": "file 644 new"}
	b := newBench(t)
	left.write(t, b.dir)
	wants := b.wants(left, want)
	disk := vfstest.NewMem()
	left.writeTo(t, disk.Dir())
	root := NewRoot(&strayDir{disk.Dir(), false})
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
	if got := worldOf(t, disk.Dir()); !maps.Equal(got, want) {
		t.Errorf("the directory is %v, want %v\n%v", got, want, outcome(p))
	}
}

// What cannot go back to its path after a crash, since that is of another file system by now,
// stays, and the error says where.
func TestSweepElsewhere(t *testing.T) {
	left, want := world{"stray": "dir 755", "stray/a": "file 644 2"}, world{"stray": "dir 755", "stray/a": "file 644 1"}
	b := newBench(t)
	left.write(t, b.dir)
	wants := b.wants(left, want)
	making, aside := trees.MakingName("testtest"), oldName("testtest", "stray/a")
	disk := vfstest.NewMem()
	now := world{"stray": "dir 755", making: "dir 700", trees.Join(making, aside): "file 644 2"}
	now.writeTo(t, disk.Dir())
	root := NewRoot(&strayDir{disk.Dir(), false})
	err := Sweep(t.Context(), root, wants, "testtest")
	if !errors.Is(err, ErrAside) || !strings.Contains(err.Error(), trees.Join(making, aside)) {
		t.Errorf("Sweep = %v", err)
	}
	got := worldOf(t, disk.Dir())
	delete(got, trees.Join(making, ignoreName))
	if !maps.Equal(got, now) {
		t.Errorf("the directory is %v, want %v", got, now)
	}
}

// A failingDir fails to read what was put aside, and to put it back, once somebody has written
// into a file in the moment in which that is put aside.
type failingDir struct {
	vfs.Dir
	exchanged *int
}

func (d *failingDir) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.Dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &failingDir{sub, d.exchanged}, nil
}

func (d *failingDir) Open(name string, st *vfs.Stat) (vfs.Reader, error) {
	if *d.exchanged == 1 {
		return nil, errors.ErrUnsupported
	}
	return d.Dir.Open(name, st)
}

func (d *failingDir) Rename(name string, to vfs.Dir, newname string, mode vfs.RenameMode) error {
	if mode == vfs.Exchange {
		switch *d.exchanged++; *d.exchanged {
		case 1:
			if err := errors.Join(to.Remove(newname), write(to, newname, "edited")); err != nil {
				return err
			}
		case 2:
			return errors.ErrUnsupported
		}
	}
	return d.Dir.Rename(name, to.(*failingDir).Dir, newname, mode)
}

func write(dir vfs.Dir, name, text string) error {
	w, err := dir.Create(name, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return errors.Join(err, w.Chmod(0o644), w.Close())
}

// What was put aside, and nobody else has, is not deleted to make the new content elsewhere.
func TestMakingKeepsWhatWasPutAside(t *testing.T) {
	left, want := world{"a": "file 644 2"}, world{"a": "file 644 1"}
	b := newBench(t)
	left.write(t, b.dir)
	wants := b.wants(left, want)
	disk := vfstest.NewMem()
	left.writeTo(t, disk.Dir())
	root := NewRoot(&failingDir{disk.Dir(), new(int)})
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
	if got, want := worldOf(t, disk.Dir()), (world{"a": "file 644 edited"}); !maps.Equal(got, want) {
		t.Errorf("the directory is %v, want %v\n%v", got, want, outcome(p))
	}
}

// Where the disk is full before anything is made, nothing is changed; another error only
// has files made beside their paths.
func TestMakingFails(t *testing.T) {
	left, want := world{"a": "file 644 2"}, world{"a": "file 644 1"}
	for at := range int64(40) {
		b := newBench(t)
		left.write(t, b.dir)
		p := b.plan(b.wants(left, want), rollback.Skip)
		r := b.root()
		var failed string
		f := &vfstest.Fault{At: at}
		var mu sync.Mutex
		n := int64(0)
		f.Trace = func(op, name string) {
			mu.Lock()
			defer mu.Unlock()
			if n == at && strings.HasPrefix(name, trees.MakingName("testtest")) &&
				!strings.Contains(name, prefix("testtest")) {
				failed = op + " " + name
			}
			n++
		}
		real := r.dir
		r.dir = vfstest.WithFaultDir(real, f)
		err := p.Apply(t.Context(), r, b.store, "testtest")
		r.dir = real
		op, name, _ := strings.Cut(failed, " ")
		isLook := strings.HasSuffix(name, ignoreName) && (op == "Open" || op == "Read")
		isEnd := op == "Remove" || op == "Close" || isLook
		if failed == "" || isEnd { // the directory may stay, and the error says so
			continue
		}
		if err != nil {
			t.Errorf("%s fails: %v", failed, err)
		}
		b.expect(want)
	}
}

// What somebody puts into the directory in which files are made stays there, and the plan
// says so: whatever it is called, and whether the restore comes to its end or is cleared up
// after a crash.
func TestMakingStays(t *testing.T) {
	left, want := world{"a": "file 644 2"}, world{"a": "file 644 1"}
	making := trees.MakingName("testtest")
	for name, into := range map[string]world{
		"a file":     {making + "/mine": "file 644 mine"},
		"what hides": {making + "/" + ignoreName: "file 644 mine"},
		"a tree":     {making + "/sub": "dir 755", making + "/sub/" + newName("testtest", "a"): "file 644 mine"},
	} {
		b := newBench(t)
		left.write(t, b.dir)
		wants := b.wants(left, want)
		disk := vfstest.NewMem()
		left.writeTo(t, disk.Dir())
		var once sync.Once
		trace := &vfstest.Fault{At: -1, Trace: func(op, path string) {
			if op == "Rename" {
				once.Do(func() {
					if dir, err := disk.Dir().OpenDir(making); err == nil && name == "what hides" {
						dir.Remove(ignoreName) // to write it anew
					}
					into.writeTo(t, disk.Dir())
				})
			}
		}}
		root := NewRoot(vfstest.WithFaultDir(disk.Dir(), trace))
		p, err := NewPlan(t.Context(), root, wants, &Options{Policy: rollback.Skip})
		if err == nil {
			err = p.Apply(t.Context(), root, b.store, "testtest")
		}
		if err != nil || !strings.Contains(p.Stays, making) {
			t.Errorf("%s: error %v, the plan says %q", name, err, p.Stays)
		}
		after := world{"a": "file 644 1", making: "dir 700"}
		maps.Copy(after, into)
		if got := worldOf(t, disk.Dir()); !maps.Equal(got, after) {
			t.Errorf("%s: the directory is %v, want %v", name, got, after)
		}
		if err := Sweep(t.Context(), NewRoot(disk.Dir()), wants, "testtest"); !errors.Is(err, ErrAside) {
			t.Errorf("%s: Sweep = %v", name, err)
		}
		if got := worldOf(t, disk.Dir()); !maps.Equal(got, after) {
			t.Errorf("%s: Sweep leaves %v, want %v", name, got, after)
		}
	}
}
