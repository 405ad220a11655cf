package near

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func needRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: it takes root")
	}
}

// TestPipe has a pack be a pipe into which nobody writes: it is not waited for, and replaced.
func TestPipe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "near")
	x := open(t, dir, 0)
	x.get(t, 1)
	name := filepath.Join(dir, nameOf(keyOf(1)))
	if err := errors.Join(os.Remove(name), unix.Mkfifo(name, 0o600)); err != nil {
		t.Fatal(err)
	}
	if x.get(t, 1) || !x.get(t, 1) {
		t.Error("the pipe was not replaced")
	}
}

// TestFull has the disk of the directory be full: that is told once, and is no error.
func TestFull(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("SKIPPED: nothing can be mounted here:", err)
	}
	defer unix.Unmount(dir, 0)
	x := open(t, dir, 0)
	defer x.Close()
	for i := range 100 {
		x.get(t, i)
	}
	if len(x.told) != 1 || !strings.Contains(x.told[0], "no space left") {
		t.Errorf("told: %q", x.told)
	}
	if !x.get(t, 0) {
		t.Error("what was there is not read any more")
	}
}

const asOther = "NEAR_TEST_DIR"

// TestUsers has two users share a directory as /tmp is shared: each reads what the other has put there, neither can
// remove it, and nothing is wrong with that.
func TestUsers(t *testing.T) {
	if dir := os.Getenv(asOther); dir != "" { // the other
		x := open(t, dir, 0)
		if !x.get(t, 1) || x.get(t, 2) || !x.get(t, 2) {
			t.Error("pack 1 is not here, or not 2, which was put")
		}
		x.Drop(keyOf(1), nil)
		if len(x.told) != 1 || !strings.Contains(x.told[0], "not permitted") {
			t.Errorf("told: %q", x.told)
		}
		full := open(t, dir, packSize) // all of which pack 1 takes, which is the first one's
		for _, i := range []int{3, 3, 4} {
			if full.get(t, i) {
				t.Errorf("pack %d is here, for which there was no room", i)
			}
		}
		if len(full.told) != 1 || !strings.Contains(full.told[0], "takes its room; nothing more is kept there") {
			t.Errorf("told: %q", full.told)
		}
		x.get(t, 2) // which went for the room
		return
	}
	needRoot(t)
	dir, err := os.MkdirTemp("", "near-users-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	x := open(t, dir, 0)
	x.get(t, 1)
	program := filepath.Join(dir, "test")
	b, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(program, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	c := exec.Command(program, "-test.run=^TestUsers$")
	c.Dir = dir
	c.Env = []string{asOther + "=" + dir, "TMPDIR=" + dir}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if !x.get(t, 2) {
		t.Error("what the other has put is not here")
	}
	if len(x.told) > 0 {
		t.Errorf("told: %q", x.told)
	}
}
