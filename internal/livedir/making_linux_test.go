package livedir

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
)

// What is restored below a mount, or in a directory that gives files its group, is what it
// would be if it had been made there.
func TestMakingInherits(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts and groups of others need root")
	}
	b := newBench(t)
	left := world{"group": "dir 755", "group/a": "file 644 2", "mount": "dir 755"}
	left.write(t, b.dir)
	group, mount := filepath.Join(b.dir, "group"), filepath.Join(b.dir, "mount")
	const gid = 12345
	for _, err := range []error{os.Chown(group, -1, gid), os.Chmod(group, 0o755|os.ModeSetgid),
		syscall.Mount(t.TempDir(), mount, "", syscall.MS_BIND, "")} {
		if err != nil {
			t.Skip("mounts and groups of others cannot be had:", err)
		}
	}
	t.Cleanup(func() { syscall.Unmount(mount, syscall.MNT_DETACH) })
	below := world{"mount/a": "file 644 2", "mount/made": "file 644 made"}
	below.add(t, b.dir)
	for p, what := range below {
		left[p] = what
	}
	want := world{"group": "dir 755", "group/a": "file 644 1", "group/new": "file 644 new", "mount": "dir 755",
		"mount/a": "file 644 1", "mount/new": "file 644 new"}
	b.apply(b.plan(b.wants(left, want), rollback.Skip))
	b.expect(want)
	st, err := os.Stat(filepath.Join(group, "new"))
	if err != nil {
		t.Fatal(err)
	}
	if got := st.Sys().(*syscall.Stat_t).Gid; got != gid {
		t.Errorf("the group of a new file is %d, want %d", got, gid)
	}
}

// Git does not see files in the making.
func TestMakingIgnored(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	b := newBench(t)
	left := world{"a": "file 644 2", "b": "file 644 2", "made": "file 644 made"}
	left.write(t, b.dir)
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = b.dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("git %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	git("init", "-q")
	git("add", ".")
	p := b.plan(b.wants(left, world{"a": "file 644 1", "b": "file 644 1"}), rollback.Skip)
	r := b.root()
	real := r.dir
	var seen atomic.Int64
	r.dir = vfstest.WithFaultDir(real, &vfstest.Fault{At: -1, Trace: func(op, name string) {
		if _, err := os.Stat(filepath.Join(b.dir, trees.MakingName("testtest"), ignoreName)); op != "Rename" ||
			err != nil {
			return
		}
		seen.Add(1)
		if out := git("status", "--porcelain", "--untracked-files=all"); strings.Contains(out, ".boo-") {
			t.Errorf("before %s %s: git sees %s", op, name, out)
		}
	}})
	err := p.Apply(t.Context(), r, b.store, "testtest")
	r.dir = real
	if err != nil || seen.Load() == 0 {
		t.Errorf("error %v, looked %d times", err, seen.Load())
	}
}
