package livedir

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/rollback"
)

const nobody = 65534

// asUser runs a test again as a user for whom modes mean something, and reports
// whether this is that run.
func asUser(t *testing.T) bool {
	if os.Geteuid() != 0 {
		return true
	}
	dir, err := os.MkdirTemp("", "rollback-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "test")
	for _, err := range []error{os.WriteFile(binary, self, 0o755), os.Chown(dir, nobody, nobody)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(binary, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("as another user: %v\n%s", err, out)
	}
	return false
}

// writeReadOnly is write for a world with directories that forbid to write.
func (w world) writeReadOnly(t testing.TB, dir string) {
	t.Helper()
	t.Cleanup(func() { exec.Command("chmod", "-R", "u+w", dir).Run() })
	writable := maps.Clone(w)
	for p, what := range w {
		if what == "dir 555" {
			writable[p] = "dir 755"
		}
	}
	writable.write(t, dir)
	for p, what := range w {
		if what != "dir 555" {
			continue
		}
		if err := os.Chmod(filepath.Join(dir, p), 0o555); err != nil {
			t.Fatal(err)
		}
	}
}

// What is in a directory that forbids to write is restored by who may change
// its mode, and it has its mode again.
func TestReadOnlyDirectory(t *testing.T) {
	if !asUser(t) {
		return
	}
	left := world{"d": "dir 755", "d/f": "file 644 mine", "d/made": "file 644 m", "x": "dir 555", "x/f": "file 644 1"}
	wanted := world{"d": "dir 555", "d/f": "file 644 1"}
	for _, back := range []bool{false, true} {
		from, to := left, wanted
		if back {
			from, to = wanted, left
		}
		b := newBench(t)
		from.writeReadOnly(t, b.dir)
		p := b.plan(b.wants(from, to), rollback.Skip)
		b.apply(p)
		b.expect(to)
		if p.Count(rollback.Failed)+p.Count(rollback.Kept) > 0 {
			t.Errorf("%v", outcome(p))
		}
	}
}

// A directory that forbids to write becomes a file, and a file such a directory.
func TestReadOnlyReplaced(t *testing.T) {
	if !asUser(t) {
		return
	}
	dir := world{"x": "dir 555", "x/in": "file 644 n", "x/sub": "dir 555", "x/sub/in": "file 644 m"}
	for _, other := range []string{"file 644 user", "link somewhere"} {
		for _, back := range []bool{false, true} {
			b := newBench(t)
			from, to := dir, world{"x": other}
			if back {
				from, to = to, from
			}
			for _, exchange := range []bool{true, false} {
				exec.Command("chmod", "-R", "u+w", b.dir).Run() // of the round before
				from.writeReadOnly(t, b.dir)
				p := b.plan(b.wants(from, to), rollback.Skip)
				preview := outcome(p)
				root := b.root()
				if !exchange {
					ops := 1000
					root = NewRoot(&plainDir{root.dir, &ops})
				}
				err := p.Save(t.Context(), root, b.w)
				if err == nil {
					err = p.Apply(t.Context(), root, b.store, "testtest")
				}
				if err != nil {
					t.Fatal(err)
				}
				b.expect(to)
				if d := cmp.Diff(preview, outcome(p)); d != "" {
					t.Errorf("from %q, exchange %v (-plan +done):\n%s", from["x"], exchange, d)
				}
			}
		}
	}
}

// Who may write into the root gets nothing into directories where only we may write, by a
// directory that has the name of the restore's own: neither while that runs nor after a crash.
func TestPlantedMaking(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("directories of other users need root")
	}
	for _, mode := range []os.FileMode{0o700, 0o777} {
		for _, owner := range []int{0, nobody} {
			if owner == 0 && mode == 0o700 {
				continue // our own
			}
			b := newBench(t)
			left := world{"own": "dir 755", "own/a": "file 644 2"}
			want := world{"own": "dir 755", "own/a": "file 644 1", "own/new": "file 644 new"}
			left.write(t, b.dir)
			wants := b.wants(left, want)
			planted := filepath.Join(b.dir, trees.MakingName("testtest"))
			evil := filepath.Join(planted, oldName("testtest", "own/new"))
			plant := errors.Join(os.Mkdir(planted, 0o700), os.WriteFile(evil, []byte("evil"), 0o644),
				os.Chmod(planted, mode), os.Chown(planted, owner, owner))
			if plant != nil {
				t.Fatal(plant)
			}
			if err := Sweep(t.Context(), b.root(), wants, "testtest"); err != nil {
				t.Errorf("Sweep: %v", err)
			}
			if _, err := os.Lstat(filepath.Join(b.dir, "own/new")); !os.IsNotExist(err) {
				t.Errorf("own/new after the sweep: %v", err)
			}
			b.apply(b.plan(wants, rollback.Skip))
			if names, err := os.ReadDir(planted); err != nil || len(names) != 1 {
				t.Errorf("the planted directory holds %v, %v", names, err)
			}
			if err := os.RemoveAll(planted); err != nil {
				t.Fatal(err)
			}
			b.expect(want)
		}
	}
}
