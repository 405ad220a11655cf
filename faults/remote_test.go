//go:build linux

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRemoteFull pushes to a remote in a directory whose disk is too small for it. Turns go on, status says what is
// not there and why, what is there is whole, and when there is room the next push puts the rest.
func TestRemoteFull(t *testing.T) {
	needs(t, true)
	done, failed := 0, 0
	for i := range *levels {
		m := newMount(t, "-t", "tmpfs", "-o", "size=64m", "tmpfs")
		w := newWorld(t, filepath.Join(scratch(t), "stores"), filepath.Join(scratch(t), "project"))
		there := m.path("there")
		w.must("remote", "init", there, "--plain")
		w.write("f", "first")
		w.must("snapshot")
		w.must("remote", "add", "team", there)
		w.must("remote", "push")
		w.write("d/f", noise(6<<20))
		w.must("snapshot")
		sh(t, "mount", "-o", fmt.Sprintf("remount,size=%dk", 100 + i*7<<10 / *levels), m.dir)
		r := w.run("remote", "push")
		switch {
		case r.code == 0:
			done++
		case r.code != 6 || !strings.Contains(r.stderr, "no space left on device"):
			t.Errorf("push to a disk that is full: exit code %d, %s%s", r.code, r.stdout, r.stderr)
		default:
			if failed++; failed == 1 {
				t.Logf("%s", r.stderr)
			}
			w.write("f", "second")
			w.must("snapshot")
			if said := w.must("remote", "status"); !strings.Contains(said, "2 records of 1 session not there yet") ||
				!strings.Contains(said, "no space left on device") {
				t.Errorf("status: %s", said)
			}
		}
		w.must("remote", "check", "--data")
		sh(t, "mount", "-o", "remount,size=64m", m.dir)
		w.must("remote", "push")
		w.must("remote", "check", "--data")
		w.write("f", "third")
		w.must("snapshot")
		w.must("remote", "push")
		other := newWorld(t, filepath.Join(scratch(t), "stores"), filepath.Join(scratch(t), "project"))
		other.must("clone", there, other.project)
		if was, is := w.state(""), other.state(""); was != is {
			t.Errorf("a clone differs: %s", differ(was, is))
		}
		if left, _ := filepath.Glob(filepath.Join(there, "*", ".*")); len(left) > 0 {
			t.Errorf("left there: %q", left)
		}
		m.umount()
		if _, err := os.Stat(there); err == nil {
			t.Error("the disk of the remote is still there")
		}
	}
	t.Logf("%d pushes were done, %d have failed", done, failed)
	if done == 0 || failed == 0 {
		t.Error("not both were seen")
	}
}

// TestRemoteError has the disk of a remote in a directory fail, each time in another way, under pushes. They have done
// it, or say why not, and nothing is damaged there.
func TestRemoteError(t *testing.T) {
	h := fuse(t, "pass", scratch(t))
	w := newWorld(t, filepath.Join(scratch(t), "stores"), filepath.Join(scratch(t), "project"))
	there := filepath.Join(h.dir, "there")
	w.must("remote", "init", there, "--plain")
	w.files(5, 2000)
	w.must("snapshot")
	w.must("remote", "add", "team", there)
	w.must("remote", "push")
	failed := 0
	for _, op := range []string{"write", "sync", "open", "create", "rename", "read", "unlink", "mkdir", "link"} {
		w.write("d0/f0", noise(5<<20)) // as a pack
		w.must("snapshot")
		h.set(fmt.Sprintf("fail %s %d /", op, syscall.EIO))
		if r := w.run("remote", "push", "--timeout", "2s"); r.code != 0 {
			failed++
			if r.code != 6 || !strings.Contains(r.stderr, "input/output error") {
				t.Errorf("%s: exit code %d, %s%s", op, r.code, r.stdout, r.stderr)
			}
			if said := w.must("remote", "status"); !strings.Contains(said, "1 record of 1 session not there yet") {
				t.Errorf("%s: status: %s", op, said)
			}
		}
		h.set("none")
		w.must("remote", "check", "--data")
		w.must("remote", "push")
	}
	w.must("remote", "check", "--data")
	other := newWorld(t, filepath.Join(scratch(t), "stores"), filepath.Join(scratch(t), "project"))
	other.must("clone", there, other.project)
	if was, is := w.state(""), other.state(""); was != is {
		t.Errorf("a clone differs: %s", differ(was, is))
	}
	t.Logf("%d pushes have failed", failed)
	if failed < 4 {
		t.Error("that is too few")
	}
}
