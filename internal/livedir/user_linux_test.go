package livedir

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

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
