//go:build unix

package capture

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// faultTree makes a small directory with one of each kind.
func faultTree(t *testing.T, root string) {
	t.Helper()
	write(t, filepath.Join(root, "a/one"), "one")
	write(t, filepath.Join(root, "a/b/two"), "two")
	write(t, filepath.Join(root, ".gitignore"), "*.tmp\n")
	write(t, filepath.Join(root, "x.tmp"), "ignored")
	if err := os.Symlink("one", filepath.Join(root, "a/link")); err != nil {
		t.Fatal(err)
	}
}

// exported returns the listing of a snapshot's tree.
func exported(t *testing.T, s *cas.Store, tree store.ID) map[string]string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	if _, err := trees.Export(t.Context(), s, tree, out); err != nil {
		t.Fatalf("export: %v", err)
	}
	return listing(t, out, nil)
}

// TestFaults fails every operation on the store and on the workspace in
// turn, once and for good, and cuts the power after it. Whatever was
// acknowledged is there afterwards and complete; whatever a capture could
// not read is listed.
func TestFaults(t *testing.T) {
	for _, sticky := range []bool{false, true} {
		for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
			t.Run(fmt.Sprintf("sticky=%v/%v", sticky, cause), func(t *testing.T) {
				at := testseed.Rand(t).Int64N(stride(13, 17))
				for faultAt(t, &vfstest.Fault{At: at, Sticky: sticky, Err: cause}) {
					at += stride(13, 17)
				}
				if at < 50 {
					t.Errorf("only %d operations: the faults do not reach what they should", at)
				}
			})
		}
	}
}

var every = flag.Bool("every", false, "fail each operation in turn, not each few")

// stride returns how many operations a test of faults goes on at a time: one if
// all are asked for, else normal, or short in short mode.
func stride(normal, short int64) int64 {
	switch {
	case *every:
		return 1
	case testing.Short():
		return short
	}
	return normal
}

// faultAt takes one snapshot in peace and one with a fault. It reports
// whether the fault fired.
func faultAt(t *testing.T, fault *vfstest.Fault) bool {
	t.Helper()
	root := t.TempDir()
	faultTree(t, root)
	disk := vfstest.NewMem()
	s := reopenStore(t, disk)
	first := snapshot(t, s, openWorkspace(t, s, root), nil)
	before := listing(t, root, []string{"x.tmp"})
	closeStore(t, s)

	write(t, filepath.Join(root, "a/one"), "one, edited")
	write(t, filepath.Join(root, "c/three"), "three")
	after := listing(t, root, []string{"x.tmp"})

	r, err := faultySnapshot(t, disk, fault, root)
	for i, d := range []*vfstest.Mem{disk, disk.AfterCrash(nil),
		disk.AfterCrash(rand.New(rand.NewPCG(uint64(fault.At), 1)))} {
		s := reopenStore(t, d)
		if got := exported(t, s, first.Tree); !equalMaps(got, before) {
			t.Fatalf("fault %d, disk %d: the first snapshot comes back as %q", fault.At, i, got)
		}
		if err == nil {
			checkAgainst(t, s, r, after, fmt.Sprintf("fault %d, disk %d", fault.At, i))
		}
		// Life goes on.
		again := snapshot(t, s, openWorkspace(t, s, root), nil)
		if got := exported(t, s, again.Tree); !equalMaps(got, after) {
			t.Fatalf("fault %d, disk %d: the next snapshot comes back as %q", fault.At, i, got)
		}
		closeStore(t, s)
	}
	return fault.Fired()
}

// faultySnapshot opens the store and takes a snapshot, with a fault in all.
func faultySnapshot(t *testing.T, disk *vfstest.Mem, fault *vfstest.Fault, root string) (*tree.Result, error) {
	s, err := cas.OpenFS(t.Context(), vfstest.WithFault(disk, fault), &cas.Options{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	ws := openWorkspace(t, s, root)
	ws.openDir = func(path string) (vfs.Dir, error) {
		d, err := vfs.OpenDir(path)
		if err != nil {
			return nil, err
		}
		return vfstest.WithFaultDir(d, fault), nil
	}
	w, err := s.Begin(t.Context())
	if err != nil {
		return nil, err
	}
	defer w.Close()
	r, err := ws.Capture(t.Context(), w, &Options{Workers: 1})
	if err != nil {
		return nil, err
	}
	newest, err := s.Newest(t.Context(), ws.Worktree, "")
	if err != nil {
		return nil, err
	}
	snap := &store.Snapshot{Tree: r.Tree, Coverage: r.Coverage, Time: time.Now(), Worktree: ws.Worktree,
		Parent: newest.Seq}
	if err := w.Commit(t.Context(), snap, newest.Seq); err != nil {
		return nil, err
	}
	return r, nil
}

// checkAgainst requires that a tree holds what was on the disk, but for what
// its coverage lists.
func checkAgainst(t *testing.T, s *cas.Store, r *tree.Result, want map[string]string, what string) {
	t.Helper()
	got := exported(t, s, r.Tree)
	left := omissions(t, s, r.Coverage)
	for path, desc := range want {
		if got[path] == desc {
			continue
		}
		listed := slices.ContainsFunc(left, func(o string) bool {
			p, _, _ := strings.Cut(o, " ")
			return p == path || strings.HasPrefix(path, p+"/")
		})
		if !listed || got[path] != "" {
			t.Errorf("%s: %q comes back as %q, was %q; coverage %q", what, path, got[path], desc, left)
		}
	}
	for path := range got {
		// Where a .gitignore cannot be read it counts as absent, as in git.
		if _, ok := want[path]; !ok && path != "x.tmp" {
			t.Errorf("%s: %q appeared", what, path)
		}
	}
}

func equalMaps(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

// A changingDir is a directory in which one file changes whenever it is read.
type changingDir struct {
	vfs.Dir
	name   string
	change func()
}

func (d *changingDir) Open(name string, st *vfs.Stat) (vfs.Reader, error) {
	r, err := d.Dir.Open(name, st)
	if err == nil && name == d.name {
		return &changingReader{r, d.change}, nil
	}
	return r, err
}

type changingReader struct {
	vfs.Reader
	change func()
}

func (r *changingReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.change()
	return n, err
}

// TestUnstable: a file that changes, vanishes or turns into something else
// while it is read.
func TestUnstable(t *testing.T) {
	testseed.Sequential(t)
	for _, test := range []struct {
		name  string
		size  int
		times int // how often it happens
		what  func(file string)
		want  string // its line in the coverage, "gone", or "captured"
	}{
		{"changes once", 10, 1, func(f string) { appendTo(f, "x") }, "captured"},
		{"keeps changing", 10, 99, func(f string) { appendTo(f, "x") }, "f unstable"},
		{"keeps changing, large", 3 << 20, 99, func(f string) { appendTo(f, "x") }, "f unstable"},
		{"same size", 10, 99, func(f string) { os.WriteFile(f, []byte("0123456789"), 0o644) }, "f unstable"},
		{"vanishes", 10, 99, func(f string) { os.Remove(f) }, "gone"},
		{"becomes a directory", 10, 1, func(f string) { appendTo(f, "x"); os.Remove(f); os.MkdirAll(f, 0o755) },
			"captured"},
		{"becomes a link", 10, 1, func(f string) { appendTo(f, "x"); os.Remove(f); os.Symlink("g", f) }, "captured"},
		{"becomes a fifo", 10, 1, func(f string) { appendTo(f, "x"); os.Remove(f); syscall.Mkfifo(f, 0o644) },
			"f special"},
		{"changes and vanishes", 10, 1, func(f string) { appendTo(f, "x"); os.Remove(f) }, "gone"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			file := filepath.Join(root, "f")
			write(t, file, strings.Repeat("a", test.size))
			write(t, filepath.Join(root, "g"), "steady")
			s := openStore(t, vfstest.NewMem())
			ws := openWorkspace(t, s, root)
			n := 0
			ws.openDir = func(path string) (vfs.Dir, error) {
				d, err := vfs.OpenDir(path)
				return &changingDir{d, "f", func() {
					if n++; n <= test.times {
						settle() // or the stamps would not move on older kernels
						test.what(file)
					}
				}}, err
			}
			r := snapshot(t, s, ws, nil)
			got := strings.Join(omissions(t, s, r.Coverage), "\n")
			names := paths(t, s, r.Tree)
			if got == "" && slices.Contains(names, "f") {
				got = "captured"
			} else if got == "" {
				got = "gone"
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if !slices.Contains(names, "g") {
				t.Errorf("the rest of the tree is missing: %q", names)
			}
		})
	}
}

// TestUntrueSize: a file that does not have the size that it says, as in /proc.
func TestUntrueSize(t *testing.T) {
	dir, err := vfs.OpenDir("/proc/self")
	if err != nil {
		t.Skip(err)
	}
	defer dir.Close()
	w := &worker{c: &capture{sink: trees.NewOverlay(nil), limits: withDefaults(tree.Limits{})}}
	if id, err := w.readFile(dir, "status"); err != errChanged || w.st.Size != 0 {
		t.Errorf("/proc/self/status of %d bytes: %s, %v; want %v", w.st.Size, id.Short(), err, errChanged)
	}
}

func appendTo(name, text string) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return
	}
	f.WriteString(text)
	f.Close()
}

// TestDamagedCache: whatever is in the cache file, the tree is right.
func TestDamagedCache(t *testing.T) {
	root := t.TempDir()
	faultTree(t, root)
	disk := vfstest.NewMem()
	s := openStore(t, disk)
	settle()
	ws := openWorkspace(t, s, root)
	want := snapshot(t, s, ws, nil)
	name := "worktrees/" + ws.Worktree + "/" + "statcache"
	good, err := vfs.ReadFile(disk, name)
	if err != nil {
		t.Fatal(err)
	}
	overwrite := func(content []byte) {
		t.Helper()
		f, err := disk.OpenFile(name, os.O_RDWR|os.O_TRUNC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt(content, 0); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < len(good); i += 7 {
		bad := slices.Clone(good)
		bad[i] ^= 0x10
		unwritten := slices.Clone(good) // what a power cut may leave of a file that was not synced
		clear(unwritten[i:])
		for _, content := range [][]byte{bad, good[:i], unwritten} {
			overwrite(content)
			o := trees.NewOverlay(s)
			r, err := openWorkspace(t, s, root).Capture(t.Context(), o, nil)
			if err != nil || r.Tree != want.Tree || r.Coverage != want.Coverage {
				t.Fatalf("byte %d of %d: %+v, %v; want tree %s", i, len(good), r, err, want.Tree.Short())
			}
		}
	}
	overwrite(good)
	r, err := openWorkspace(t, s, root).Capture(t.Context(), trees.NewOverlay(s), nil)
	if err != nil || r.ReadFiles != 0 {
		t.Errorf("the good cache is not used: %+v, %v", r, err)
	}
}

// TestTakenPack: a pack that disappears makes captures look again, not
// promise what is not there.
func TestTakenPack(t *testing.T) {
	root := t.TempDir()
	faultTree(t, root)
	disk := vfstest.NewMem()
	s := reopenStore(t, disk)
	settle()
	first := snapshot(t, s, openWorkspace(t, s, root), nil)
	closeStore(t, s)
	names, err := disk.ReadDir("packs")
	if err != nil || len(names) != 1 {
		t.Fatalf("packs: %q, %v", names, err)
	}
	if err := disk.Remove("packs/" + names[0]); err != nil {
		t.Fatal(err)
	}
	s = reopenStore(t, disk)
	defer s.Close()
	r := snapshot(t, s, openWorkspace(t, s, root), nil)
	if r.Tree != first.Tree || r.ReadFiles == 0 {
		t.Errorf("tree %s with %d files read, want %s with all", r.Tree.Short(), r.ReadFiles, first.Tree.Short())
	}
	if got := exported(t, s, r.Tree); !equalMaps(got, listing(t, root, []string{"x.tmp"})) {
		t.Errorf("comes back as %q", got)
	}
}
