//go:build linux

package faults

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// restOf finds what a clone says to run when it has brought a history, and not all of its files.
var restOf = regexp.MustCompile(`has its history, and not all of its files: (?s:.*)\n` +
	`hint: when that is mended, 'snapctl --root \S+ (restore -y @ --exact)' writes the rest\n$`)

// A cloner clones a remote again and again, each time for somebody else.
type cloner struct {
	t     *testing.T
	url   string
	state string // of all files
	seen  map[string]int
}

func newCloner(t *testing.T) *cloner {
	from := newWorld(t, t.TempDir(), filepath.Join(t.TempDir(), "p"))
	for i := range 40 {
		from.write(fmt.Sprintf("d%d/f%d", i%5, i), noise(100<<10))
	}
	from.must("snapshot")
	c := &cloner{t: t, url: filepath.Join(scratch(t), "there"), state: from.state(""), seen: make(map[string]int)}
	from.must("remote", "init", c.url, "--plain")
	from.must("remote", "add", "team", c.url)
	from.must("remote", "push")
	sh(t, "chmod", "-R", "a+rX", c.url)
	return c
}

// clone clones where something is short, and does what that says when it is not any more.
func (c *cloner) clone(w *world, what, cause string, wide func(), flags ...string) {
	c.t.Helper()
	args := append([]string{"clone", c.url, w.project}, flags...)
	r := w.run(args...)
	left := 0
	filepath.WalkDir(w.project, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left++
		}
		return nil
	})
	wide()
	rest := restOf.FindStringSubmatch(r.stderr)
	switch {
	case r.code == 0:
		c.seen["done"]++
	case r.code != 6 || !strings.Contains(r.stderr, cause):
		c.t.Errorf("%s: snapctl %q: exit code %d, %s%s", what, args, r.code, r.stdout, r.stderr)
	case rest != nil:
		if c.seen["rest"]++; c.seen["rest"] == 1 {
			c.t.Logf("%s, %d files: %s", what, left, r.stderr)
		}
		w.must(strings.Fields(rest[1])...)
	default:
		if c.seen["again"]++; c.seen["again"] == 1 {
			c.t.Logf("%s: %s", what, r.stderr)
		}
		if left > 0 {
			c.t.Errorf("%s: %d files are left: %s", what, left, r.stderr)
		}
		w.must(args...)
	}
	if got := w.state(""); got != c.state {
		c.t.Errorf("%s: %s", what, differ(c.state, got))
	}
	if r := w.run("status"); r.code != 0 || !strings.Contains(r.stdout+r.stderr, "nothing changed") {
		c.t.Errorf("%s: status: exit code %d, %s%s", what, r.code, r.stdout, r.stderr)
	}
	w.must("check", "--read-data")
}

// TestCloneFull clones to disks that are too small for it. Either nothing is left of the files, and the clone can be
// run again, or it says which command writes the rest.
func TestCloneFull(t *testing.T) {
	needs(t, true)
	c := newCloner(t)
	for _, where := range []string{"project", "both"} {
		for _, flags := range [][]string{nil, {"--lazy"}, {"--only", "d0", "--only", "d1", "--only", "d2",
			"--only", "d3", "--only", "d4"}} {
			for i := range *levels {
				size := (i + 1) * 5 << 10 / *levels // KiB, of the 4,000 that the files take
				if where == "both" {
					size *= 2
				}
				m := newMount(t, "-t", "tmpfs", "-o", fmt.Sprintf("size=%dk", size), "tmpfs")
				stores := m.path("stores")
				if where == "project" {
					stores = filepath.Join(scratch(t), "stores")
				}
				w := newWorld(t, stores, m.path("project"))
				c.clone(w, fmt.Sprintf("%s, %d KiB, clone %q", where, size, flags), "space", func() {
					sh(t, "mount", "-o", "remount,size=64m", m.dir)
				}, flags...)
				m.umount()
			}
		}
	}
	t.Logf("%v", c.seen)
	if c.seen["done"] == 0 || c.seen["rest"] == 0 || c.seen["again"] == 0 {
		t.Error("not all of that was seen")
	}
}

// TestCloneUnwritable clones into a directory in which this user may not write.
func TestCloneUnwritable(t *testing.T) {
	needs(t, true)
	const uid = 4321
	c := newCloner(t)
	for _, flags := range [][]string{nil, {"--lazy"}} {
		top := scratch(t)
		w := newWorld(t, filepath.Join(top, "stores"), filepath.Join(top, "project"))
		w.home = top
		w.cred = &syscall.Credential{Uid: uid, Gid: uid}
		if err := os.Chown(top, uid, uid); err != nil {
			t.Fatal(err)
		}
		c.clone(w, fmt.Sprintf("clone %q", flags), "permission denied", func() {
			if err := os.Chown(w.project, uid, uid); err != nil {
				t.Fatal(err)
			}
		}, flags...)
	}
	t.Logf("%v", c.seen)
	if c.seen["rest"] == 0 || c.seen["again"] == 0 {
		t.Error("not all of that was seen")
	}
}
