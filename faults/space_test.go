//go:build linux

package faults

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/store"
)

var (
	levels = flag.Int("levels", 12, "how full a file system gets, in steps")
	ways   = flag.Int("ways", 6, "sizes of a disk that is filled to the last byte, from which prune is the way back")
)

// commands are what users do when the disk is full. Each is run after a change.
var commands = [][]string{
	{"snapshot"}, {"restore", "@~1", "-y"}, {"undo", "-y"}, {"repair"}, {"check", "--read-data"}, {"status"},
}

// A tight is a world in which something can get short.
type tight struct {
	*world
	causes []string       // one of which is to be named
	short  func(free int) // makes it short: free units are left
	wide   func()         // and ends that
	levels []int
}

// try runs each command at each level, and returns how many failed.
func (w *tight) try() (failed int) {
	w.t.Helper()
	tried := 0
	said := make(map[string]bool)
	for _, free := range w.levels {
		for i, args := range commands {
			w.files(6, 3000)
			w.write("d0/f0", fmt.Sprint(free, i))
			w.must("--session", "commands", "snapshot")
			w.write("d1/f1", noise(6000))
			if err := w.snapshot(); err != nil {
				w.t.Fatal(err)
			}
			if args[0] == "undo" {
				w.must("--session", "commands", "restore", "@~1", "-y")
			}
			w.write("d2/f2", noise(30000))
			w.write("d2/f7", noise(3000))
			w.short(free)
			r := w.run(append([]string{"--session", "commands"}, args...)...)
			tried++
			if r.code != 0 {
				failed++
				partly := r.code == 3 && (args[0] == "restore" || args[0] == "undo") // and says which files are not
				named := slices.ContainsFunc(w.causes, func(cause string) bool {
					return strings.Contains(r.stderr, cause) || partly && strings.Contains(r.stdout, cause)
				})
				if r.code != 6 && !partly || !named {
					w.t.Errorf("%d left: snapctl %s: exit code %d, %s%s", free, args[0], r.code, r.stdout, r.stderr)
				}
				if line, _, _ := strings.Cut(r.stderr, "\n"); !said[args[0]] {
					said[args[0]] = true
					w.t.Logf("%d left: %s: %s", free, args[0], line)
				}
			}
			if r := w.run("check"); r.code != 0 && r.code != 6 {
				w.t.Errorf("%d left: check after %s: exit code %d, %s%s", free, args[0], r.code, r.stdout, r.stderr)
			}
			w.wide()
			// A restore that was cut off is ended or taken back.
			if args[0] == "restore" || args[0] == "undo" {
				w.run("--session", "commands", "restore", "--abort")
			}
			w.must("--session", "commands", "snapshot")
			w.must("check", "--read-data")
			w.read(w.acks)
			if left := leftovers(w.project); len(left) > 0 {
				w.t.Errorf("%d left: %s left %q", free, args[0], left)
			}
		}
	}
	w.verify(w.acks)
	w.t.Logf("%d levels, %d commands, %d of them failed, %d snapshots acknowledged", len(w.levels), tried, failed,
		len(w.acks))
	return failed
}

// noise is content that does not compress.
func noise(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Int())
	}
	return string(b)
}

// leftovers are files that a restore writes beside the user's.
func leftovers(dir string) (names []string) {
	for _, pattern := range []string{".boo-*", "*/.boo-*"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern))
		names = append(names, found...)
	}
	return names
}

// fill leaves so many bytes of a file system, or so many inodes of it.
func fill(t testing.TB, dir string, bytesLeft, inodesLeft int) {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "ballast"), 0o755); err != nil {
		t.Fatal(err)
	}
	if inodesLeft >= 0 {
		for i := int(st.Ffree) - inodesLeft; i > 1; i-- {
			if err := os.WriteFile(filepath.Join(dir, "ballast", fmt.Sprint(i)), nil, 0o644); err != nil {
				return
			}
		}
		return
	}
	n := int(st.Bavail)*int(st.Bsize) - bytesLeft
	if n <= 0 {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, "ballast", "b"), bytes.Repeat([]byte("x"), n), 0o644); err != nil {
		t.Logf("ballast: %v", err)
	}
}

// TestDiskFull fills the file system of the store, of the project and of both,
// to each of many levels, in bytes and in inodes. Commands that capture do not
// even begin where few bytes are left: TestFullMidway is about those.
func TestDiskFull(t *testing.T) {
	for _, where := range []string{"store", "project", "both"} {
		for _, what := range []string{"bytes", "inodes"} {
			t.Run(where+"/"+what, func(t *testing.T) {
				needs(t, true)
				m := newMount(t, "-t", "tmpfs", "-o", "size=64m,nr_inodes=4000", "tmpfs")
				stores, project := m.path("stores"), m.path("project")
				if where == "store" {
					project = filepath.Join(scratch(t), "project")
				} else if where == "project" {
					stores = filepath.Join(scratch(t), "stores")
				}
				w := &tight{world: newWorld(t, stores, project), causes: []string{"no space left on device"}}
				w.wide = func() { os.RemoveAll(m.path("ballast")) }
				w.short = func(free int) {
					if what == "bytes" {
						fill(t, m.dir, free*4096, -1)
					} else {
						fill(t, m.dir, 0, free)
					}
				}
				if what == "bytes" {
					w.causes = append(w.causes, store.ErrNoSpace.Error())
				}
				for i := range *levels {
					w.levels = append(w.levels, i)
				}
				if w.try() == 0 && what == "bytes" { // a store needs no new file for each snapshot
					t.Error("no command failed")
				}
			})
		}
	}
}

// TestWayBack fills disks of many sizes: by captures that do not fit, which leave
// nothing, and by others, up to the last byte or nearly. Whatever fails then, prune
// alone does not, and afterwards all else goes again.
func TestWayBack(t *testing.T) {
	needs(t, true)
	said := make(map[string]int) // commands on a full disk, by exit code
	var freed int64
	for i := range *ways {
		m := newMount(t, "-t", "tmpfs", "-o", fmt.Sprintf("size=%dk", 2048+16*i), "tmpfs")
		w := newWorld(t, m.path("stores"), filepath.Join(scratch(t), "project"))
		free := func() int64 {
			var st unix.Statfs_t
			if err := unix.Statfs(m.dir, &st); err != nil {
				t.Fatal(err)
			}
			return int64(st.Bavail) * st.Bsize
		}
		try := func(may []int, args ...string) result {
			t.Helper()
			r := w.run(args...)
			said[fmt.Sprintf("%s %d", args[0], r.code)]++
			if !slices.Contains(may, r.code) {
				t.Errorf("disk of %d KiB, %d bytes free: snapctl %q: exit code %d\n%s%s", 2048+16*i, free(), args,
					r.code, r.stdout, r.stderr)
			}
			return r
		}
		w.files(10, 3000)
		w.write("secret", noise(1000))
		w.must("snapshot")
		for range 4 { // what is to go, in packs with what is to stay
			w.write("d1/f1", noise(int(free())/9))
			w.must("snapshot")
		}
		for range 3 {
			w.write("d1/f1", noise(2000))
			w.must("snapshot")
		}

		before := free()
		for k := range 3 {
			w.write(fmt.Sprint("big", k), noise(4<<20+i*16<<10))
			full := try([]int{6}, "snapshot")
			if again := strings.Contains(full.stderr, "nothing is recorded since"); again != (k > 0) ||
				k > 0 && strings.Count(full.stderr, "\n") != 1 {
				t.Errorf("snapshot for the %d. time: %s", k+1, full.stderr)
			}
			if left := free(); left < before-16<<10 {
				t.Errorf("disk of %d KiB: a snapshot that does not fit leaves %d bytes free of %d", 2048+16*i, left,
					before)
			}
		}
		for k := range 3 {
			os.Remove(filepath.Join(w.project, fmt.Sprint("big", k)))
		}

		fill(t, m.dir, i%7*4096, -1)
		w.write("d2/f2", noise(20000))
		for _, args := range [][]string{{"snapshot"}, {"restore", "@~1", "-y"}, {"undo", "-y"},
			{"forget", "secret", "-y"}, {"status"}, {"check"}} {
			try([]int{0, 1, 3, 6}, args...)
		}
		try([]int{0}, "prune")
		was := free()
		try([]int{0}, "prune", "--keep-last", "1")
		freed += free() - was
		// As long as others do not take it, there is room again.
		w.run("restore", "--continue")
		w.write("d2/f3", noise(3000))
		try([]int{0}, "snapshot")
		try([]int{0, 1, 3}, "restore", "@", "--exact", "-y")
		try([]int{0}, "forget", "d2/f3", "-y")
		try([]int{0}, "prune")
		try([]int{0}, "check", "--read-data")
		os.RemoveAll(m.path("ballast"))
		w.verify(nil)
		if st, err := os.Stat(filepath.Join(w.storeDir(), "ballast")); err != nil || st.Size() < 16<<10 {
			t.Errorf("ballast: %v, %v", st, err)
		}
		m.umount()
	}
	t.Logf("%d disks, %d bytes freed on full ones; %v", *ways, freed, said)
}

// TestReadOnly makes the file system of the store, or of both, read-only.
func TestReadOnly(t *testing.T) {
	for _, where := range []string{"store", "both"} {
		t.Run(where, func(t *testing.T) {
			needs(t, true)
			m := newMount(t, "-t", "tmpfs", "tmpfs")
			project := m.path("project")
			if where == "store" {
				project = filepath.Join(scratch(t), "project")
			}
			w := &tight{world: newWorld(t, m.path("stores"), project), causes: []string{"read-only file system"},
				levels: []int{0}}
			w.short = func(int) { sh(t, "mount", "-o", "remount,ro", m.dir) }
			w.wide = func() { sh(t, "mount", "-o", "remount,rw", m.dir) }
			w.try()
		})
	}
}

// TestQuota runs as a user who has a quota, on ext4.
func TestQuota(t *testing.T) {
	needs(t, true, "setquota", "mkfs.ext4")
	const uid = 4321
	image := filepath.Join(scratch(t), "img")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, imageSize); err != nil {
		t.Fatal(err)
	}
	sh(t, "mkfs.ext4", "-q", "-O", "quota", "-E", "quotatype=usrquota", image)
	m := newMount(t, "-o", "loop,usrquota", image)
	w := &tight{world: newWorld(t, m.path("stores"), filepath.Join(scratch(t), "project")),
		causes: []string{"disk quota exceeded"}}
	w.cred = &syscall.Credential{Uid: uid, Gid: uid}
	for _, dir := range []string{m.dir, w.project, w.home} {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	os.Chmod(filepath.Dir(w.home), 0o755)
	w.wide = func() { sh(t, "setquota", "-u", fmt.Sprint(uid), "0", "0", "0", "0", m.dir) }
	w.short = func(free int) {
		used := strings.Fields(sh(t, "du", "-sk", w.stores))[0]
		var kib int
		fmt.Sscan(used, &kib)
		sh(t, "setquota", "-u", fmt.Sprint(uid), "0", fmt.Sprint(max(1, kib+4*free-8)), "0", "0", m.dir)
	}
	for i := range *levels {
		w.levels = append(w.levels, i)
	}
	w.chown = uid
	w.try()
}

// TestFullMidway lets so much be written to the store, to the project or to
// both, and then no more: the disk is full, or the user's quota is used up.
func TestFullMidway(t *testing.T) {
	for _, why := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		for _, where := range []string{"store", "project", "both"} {
			t.Run(where+"/"+why.Error(), func(t *testing.T) {
				h := fuse(t, "pass", scratch(t))
				stores, project := filepath.Join(h.dir, "stores"), filepath.Join(h.dir, "project")
				if where == "store" {
					project = filepath.Join(scratch(t), "project")
				} else if where == "project" {
					stores = filepath.Join(scratch(t), "stores")
				}
				w := &tight{world: newWorld(t, stores, project), causes: []string{why.Error()}}
				w.short = func(free int) { h.set(fmt.Sprintf("full %d %d", free*4096, why)) }
				w.wide = func() { h.set("none") }
				for i := range *levels {
					w.levels = append(w.levels, i)
				}
				if w.try() == 0 {
					t.Error("no command failed")
				}
			})
		}
	}
}

// TestFileTooLarge limits the size of files of the command (EFBIG).
func TestFileTooLarge(t *testing.T) {
	w := &tight{world: newWorld(t, t.TempDir(), filepath.Join(t.TempDir(), "p")), causes: []string{"file too large"}}
	w.short = func(free int) {
		w.wrap = []string{"sh", "-c", fmt.Sprintf(`trap "" XFSZ; ulimit -f %d; exec "$@"`, free*2), "sh"}
	}
	w.wide = func() { w.wrap = nil }
	w.levels = []int{1}
	if *long {
		w.levels = []int{0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64}
	}
	w.try()
}

// TestFewFiles limits the files that the command may have open, but leaves enough
// for Go's runtime, which otherwise may end before anything can be said.
func TestFewFiles(t *testing.T) {
	w := &tight{world: newWorld(t, t.TempDir(), filepath.Join(t.TempDir(), "p")),
		causes: []string{"too many open files"}}
	w.short = func(free int) {
		w.wrap = []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, 6+free), "sh"}
	}
	w.wide = func() { w.wrap = nil }
	w.levels = []int{4}
	if *long {
		for free := 5; free < 24; free++ {
			w.levels = append(w.levels, free)
		}
	}
	w.try()
}

// TestEngineFull fills the disk under a resident engine, and makes room again:
// it goes on by itself.
func TestEngineFull(t *testing.T) {
	needs(t, true)
	m := newMount(t, "-t", "tmpfs", "-o", "size=64m,nr_inodes=4000", "tmpfs")
	w := newWorld(t, m.path("stores"), m.path("project"))
	w.files(10, 4000)
	if err := w.snapshot(); err != nil {
		t.Fatal(err)
	}
	e := w.serve(5)
	for i := range 3 * *levels {
		fill(t, m.dir, i*4096, -1)
		time.Sleep(30 * time.Millisecond)
		os.RemoveAll(m.path("ballast"))
		e.work.Wait()
		if e.dead.Load() {
			t.Fatalf("the engine ended: %s", e.stderr.String())
		}
		e.begin(5)
	}
	e.kill()
	w.verify(w.acks)
	t.Logf("%d times full, %d snapshots acknowledged", 3**levels, len(w.acks))
}

// TestEngineFewFiles gives an engine few files to have open, and many clients.
func TestEngineFewFiles(t *testing.T) {
	limits := []int{16}
	if *long {
		limits = []int{8, 10, 12, 16, 20, 24, 40}
	}
	for _, n := range limits {
		w := newWorld(t, t.TempDir(), filepath.Join(t.TempDir(), "p"))
		w.files(10, 4000)
		if err := w.snapshot(); err != nil {
			t.Fatal(err)
		}
		w.wrap = []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, n), "sh"}
		e := w.serve(10)
		w.wrap = nil
		time.Sleep(600 * time.Millisecond)
		if said := e.stderr.String(); e.dead.Load() {
			t.Logf("with %d files the engine does not start: %s", n, said)
			if !strings.Contains(said, "too many open files") {
				t.Errorf("with %d files it ends, and says %q", n, said)
			}
		}
		e.kill()
		w.verify(w.acks)
		t.Logf("%d files: %d snapshots acknowledged", n, len(w.acks))
	}
}

// TestFewWatches gives an engine fewer watches than there are directories, or no
// watcher at all, by the kernel's own limits.
func TestFewWatches(t *testing.T) {
	needs(t, true, "unshare")
	for _, c := range []struct {
		limit string
		n     int
	}{{"watches", 0}, {"watches", 1}, {"watches", 7}, {"watches", 40}, {"instances", 0}} {
		w := newWorld(t, t.TempDir(), filepath.Join(t.TempDir(), "p"))
		for i := range 60 {
			w.write(fmt.Sprintf("d%d/f", i), "some")
		}
		if err := w.snapshot(); err != nil {
			t.Fatal(err)
		}
		w.wrap = []string{"unshare", "--user", "--map-root-user", "sh", "-c",
			fmt.Sprintf(`echo %d >/proc/sys/user/max_inotify_%s && exec "$@"`, c.n, c.limit), "sh"}
		if out, err := exec.Command(w.wrap[0], append(w.wrap[1:], "true")...).CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: %q: %v: %s", w.wrap, err, out)
		}
		e := w.serve(10)
		w.wrap = nil
		e.work.Wait()
		for i := range 20 { // also where nothing is watched
			w.write(fmt.Sprintf("d%d/f", 59-i), fmt.Sprint("changed ", i))
			if err := w.snapshot(); err != nil {
				t.Error(err)
			}
		}
		if e.dead.Load() {
			t.Fatalf("with %d %s the engine ended: %s", c.n, c.limit, e.stderr.String())
		}
		var stats struct {
			Engine struct{ Watches map[string]capture.WatchStats }
		}
		if err := json.Unmarshal([]byte(w.must("stats", "--json")), &stats); err != nil ||
			len(stats.Engine.Watches) != 1 {
			t.Fatalf("stats: %v, %v", stats, err)
		}
		for _, s := range stats.Engine.Watches {
			t.Logf("%d %s: %d snapshots acknowledged, %d watches, %d refused, %d captures, %d of them of all files",
				c.n, c.limit, len(w.acks), s.Directories, s.Refused, s.Captures, s.Full)
			if s.Directories > c.n || c.limit == "watches" && s.Refused == 0 || s.Captures < 20 {
				t.Errorf("that is not what %d %s are", c.n, c.limit)
			}
		}
		e.kill()
		w.verify(w.acks)
	}
}
