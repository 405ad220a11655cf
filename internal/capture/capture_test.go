//go:build unix

package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/tree"
)

// hostileTree makes a directory with everything that tools get wrong.
func hostileTree(t testing.TB, root string) {
	t.Helper()
	file := func(name, content string) { write(t, filepath.Join(root, name), content) }
	for i, name := range []string{
		"new\nline", "tab\there", `quo"te`, "'single'", "-leading", "--", "back\\slash", "bad\xff\xfeutf8",
		" space ", "*glob?[x]", "ünïcode", "e\u0301", strings.Repeat("n", 255), "\x01\x7f", "nul", "con.txt", "a:b",
	} {
		file("names/"+name, fmt.Sprintf("name %d\n", i))
	}
	file("bytes/empty", "")
	file("bytes/crlf", "a\r\nb\r\n")
	file("bytes/cr", "a\rb\r")
	file("bytes/nul", "a\x00b")
	file("bytes/latin1", "caf\xe9")
	file("bytes/nonl", "no newline")
	// These two share a 32-bit FNV-1a hash.
	file("bytes/fnv1", "x496069\n")
	file("bytes/fnv2", "x1035124\n")
	big := make([]byte, 5<<20)
	rand.NewChaCha8([32]byte{}).Read(big)
	file("bytes/big", string(big))
	file("bytes/zeros", string(make([]byte, 3<<20)))
	file("bytes/just-under", string(big[:1<<20-1]))
	file("bytes/just-one", string(big[:1<<20]))
	if err := os.Link(filepath.Join(root, "bytes/crlf"), filepath.Join(root, "bytes/hardlink")); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"dangling": "nowhere", "absolute": "/etc/passwd", "loop": "loop", "dir": "../names",
		"raw": "bad\xfftarget\n", "long": strings.Repeat("x/", 1500),
	} {
		name = filepath.Join(root, "links", name)
		os.MkdirAll(filepath.Dir(name), 0o755)
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	for mode := 0; mode <= 0o777; mode += 0o111 {
		name := filepath.Join(root, "modes", fmt.Sprintf("%03o", mode))
		write(t, name, "x")
		if err := os.Chmod(name, os.FileMode(mode)); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []os.FileMode{0o000, 0o001, 0o124, 0o400, 0o555, 0o640, 0o666, 0o700, 0o755} {
		name := filepath.Join(root, "modes", fmt.Sprintf("file-%03o", mode))
		write(t, name, "y")
		os.Chmod(name, mode)
	}
	for _, mode := range []os.FileMode{0o500, 0o700, 0o750, 0o777, 0o000} {
		name := filepath.Join(root, "modes", fmt.Sprintf("dir-%03o", mode))
		write(t, filepath.Join(name, "inside"), "z")
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(name, 0o700) })
	}
	for _, name := range []string{"empty", "empty/deeper/still"} {
		if err := os.MkdirAll(filepath.Join(root, "dirs", name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHostileTree captures everything that tools get wrong and gets it back.
func TestHostileTree(t *testing.T) {
	testseed.Sequential(t)
	root, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	hostileTree(t, root)
	s := openStore(t, vfstest.NewMem())
	ws := openWorkspace(t, s, root)
	r := snapshot(t, s, ws, nil)
	if _, err := trees.Export(t.Context(), s, r.Tree, out); err != nil {
		t.Fatal(err)
	}
	sameTree(t, root, out)
	if got := omissions(t, s, r.Coverage); os.Getuid() == 0 && got != nil {
		t.Errorf("left out: %q", got)
	}
	// What comes back is captured as the same tree.
	if again := snapshot(t, s, openWorkspace(t, s, out), nil); again.Tree != r.Tree {
		t.Errorf("tree of the export = %s, want %s", again.Tree.Short(), r.Tree.Short())
	}
}

// deepDir makes directories in each other, and a file in the last.
func deepDir(t *testing.T, root, name string, levels int) {
	t.Helper()
	d, err := vfs.OpenDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for range levels {
		if err := d.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		sub, err := d.OpenDir(name)
		if err != nil {
			t.Fatal(err)
		}
		d.Close()
		d = sub
	}
	f, err := d.Create("deep", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("down here"))
	f.Close()
	d.Close()
}

// TestDeepPaths: paths longer than the system can name at once.
func TestDeepPaths(t *testing.T) {
	root, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	deepDir(t, root, strings.Repeat("d", 200), 60) // 12,000 bytes
	s := openStore(t, vfstest.NewMem())
	r := snapshot(t, s, openWorkspace(t, s, root), nil)
	if _, err := trees.Export(t.Context(), s, r.Tree, out); err != nil {
		t.Fatal(err)
	}
	sameTree(t, root, out)
}

// TestTooDeep: a directory that no tree can have is left out, and that is said, also by a capture that finds it
// unchanged.
func TestTooDeep(t *testing.T) {
	root, name := t.TempDir(), strings.Repeat("d", 127)
	deepDir(t, root, name, 140)
	if err := os.WriteFile(filepath.Join(root, "f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	left := strings.Repeat("/"+name, trees.MaxDir/128+1)[1:]
	if len(left) <= trees.MaxDir || len(left)-128 > trees.MaxDir {
		t.Fatal(len(left))
	}
	s := openStore(t, vfstest.NewMem())
	w := openWorkspace(t, s, root)
	for range 2 {
		r := snapshot(t, s, w, nil)
		var last string
		for e, err := range trees.Walk(t.Context(), s, r.Tree) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Mode.IsDir() {
				last = e.Path
			}
		}
		if up, _ := trees.Split(left); last != up {
			t.Errorf("the last directory in the tree has a path of %d bytes, want %d", len(last), len(up))
		}
		var out []trees.Omission
		for o, err := range trees.Coverage(t.Context(), s, r.Coverage) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, o)
		}
		if len(out) != 1 || out[0].Path != left || out[0].Reason != trees.Unreadable {
			t.Errorf("%d paths are left out: %+v", len(out), out)
		}
	}
}

// TestUnchanged: a second snapshot of the same disk adds nothing, reads
// nothing, and says the same.
func TestUnchanged(t *testing.T) {
	root := t.TempDir()
	hostileTree(t, root)
	write(t, filepath.Join(root, ".gitignore"), "*.o\n")
	write(t, filepath.Join(root, "x.o"), "ignored") // outside git the file counts all the same
	disk := vfstest.NewMem()
	s := openStore(t, disk)
	settle()
	first := snapshot(t, s, openWorkspace(t, s, root), nil)
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := openWorkspace(t, s, root).Capture(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if second.Tree != first.Tree || second.Coverage != first.Coverage {
		t.Errorf("trees %s and %s of one disk", first.Tree.Short(), second.Tree.Short())
	}
	if second.ReadFiles != 0 || w.Stats() != (cas.WriteStats{}) {
		t.Errorf("nothing changed, but %d files were read and %+v stored", second.ReadFiles, w.Stats())
	}
	if second.Files != first.Files || second.Dirs != first.Dirs || second.Bytes != first.Bytes ||
		second.Symlinks != first.Symlinks || second.Omitted != first.Omitted {
		t.Errorf("counts differ: %+v, then %+v", first, second)
	}
}

// TestEmptied: a directory that has lost all its names is empty, not as it
// was.
func TestEmptied(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "d/only"), "x")
	s := openStore(t, vfstest.NewMem())
	settle()
	snapshot(t, s, openWorkspace(t, s, root), nil)
	if err := os.Remove(filepath.Join(root, "d/only")); err != nil {
		t.Fatal(err)
	}
	r := snapshot(t, s, openWorkspace(t, s, root), nil)
	if got := paths(t, s, r.Tree); !slices.Equal(got, []string{"d"}) {
		t.Errorf("tree holds %q, want only d", got)
	}
}

// settle waits until the time stamps of what was just written are old enough
// to be trusted.
func settle() { time.Sleep(20 * time.Millisecond) }

// TestChanges makes random changes and requires that a capture with the stat
// cache gives the tree that one without does.
func TestChanges(t *testing.T) {
	r := testseed.Rand(t)
	root := t.TempDir()
	for i := range 200 {
		write(t, filepath.Join(root, fmt.Sprintf("d%d/s%d/f%d", i%5, i%7, i)), fmt.Sprint(i))
	}
	for i := range 300 {
		write(t, filepath.Join(root, fmt.Sprintf("large/%d", i)), fmt.Sprint(i))
	}
	disk := vfstest.NewMem()
	s := openStore(t, disk)
	for round := range 40 {
		for range r.IntN(6) {
			mutate(t, r, root, ".gitignore", ".booignore")
		}
		if r.IntN(3) == 0 {
			settle() // sometimes the cache may trust what was written
		}
		cached := snapshot(t, s, openWorkspace(t, s, root), nil)
		bare := openWorkspace(t, s, root)
		bare.store = nil
		o := trees.NewOverlay(s)
		plain, err := bare.Capture(t.Context(), o, nil)
		if err != nil {
			t.Fatal(err)
		}
		if cached.Tree != plain.Tree || cached.Coverage != plain.Coverage {
			for c, err := range trees.Diff(t.Context(), o, cached.Tree, plain.Tree) {
				t.Logf("%q: cached %+v, plain %+v (%v)", c.Path, c.Old, c.New, err)
			}
			t.Fatalf("round %d: cached capture says %s, plain one %s", round, cached.Tree.Short(), plain.Tree.Short())
		}
		if cached.Files != plain.Files || cached.Dirs != plain.Dirs || cached.Bytes != plain.Bytes ||
			cached.Omitted != plain.Omitted {
			t.Fatalf("round %d: counts %+v with the cache, %+v without", round, cached, plain)
		}
	}
}

// mutate changes something below root, but nothing of git's.
func mutate(t *testing.T, r *rand.Rand, root string, patternFiles ...string) {
	t.Helper()
	var all []string
	filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if d.Name() == ".git" {
			return filepath.SkipDir
		}
		if p != root {
			all = append(all, p)
		}
		return err
	})
	p := all[r.IntN(len(all))]
	st, err := os.Lstat(p)
	if err != nil {
		t.Fatal(err)
	}
	dir := p
	if !st.IsDir() {
		dir = filepath.Dir(p)
	}
	fresh := filepath.Join(dir, fmt.Sprintf("n%d", r.IntN(1000)))
	switch r.IntN(12) {
	case 0, 1, 2:
		if st.Mode().IsRegular() {
			write(t, p, fmt.Sprint(r.Uint64()))
		}
	case 3: // same size, same length of name, quickly
		if st.Mode().IsRegular() {
			write(t, p, "AAAA")
			write(t, p, "BBBB")
		}
	case 4:
		os.RemoveAll(fresh)
		write(t, fresh, "fresh")
	case 5:
		os.Mkdir(fresh, 0o755)
	case 6:
		if !st.IsDir() || r.IntN(4) == 0 {
			os.RemoveAll(p)
		}
	case 7:
		os.Rename(p, fresh)
	case 8:
		os.Chmod(p, []os.FileMode{0o755, 0o644, 0o700}[r.IntN(3)])
	case 9:
		os.RemoveAll(fresh)
		os.Symlink(fmt.Sprint("to", r.IntN(9)), fresh)
	case 10:
		if st.Mode().IsRegular() { // a file becomes a directory
			os.Remove(p)
			write(t, filepath.Join(p, "in"), "side")
		}
	case 11:
		name := filepath.Join(dir, patternFiles[r.IntN(len(patternFiles))])
		os.RemoveAll(name)
		write(t, name,
			[]string{"n*\n", "*1\n!*11\n", "d*/\n", "!n*\n", "/s2\n", ""}[r.IntN(6)])
	}
}

// TestLargeDirectory: one change in a large directory stores a page or a
// few, and a snapshot of it gives the same tree as one made from scratch.
func TestLargeDirectory(t *testing.T) {
	testseed.Sequential(t)
	const files = 20_000
	root := t.TempDir()
	for i := range files {
		write(t, filepath.Join(root, "d", fmt.Sprintf("file-%06d.txt", i)), "same")
	}
	s := openStore(t, vfstest.NewMem())
	settle()
	snapshot(t, s, openWorkspace(t, s, root), nil)
	for i, change := range []func() error{
		func() error { return os.WriteFile(filepath.Join(root, "d/file-010000.txt"), []byte("edit"), 0o644) },
		func() error { return os.WriteFile(filepath.Join(root, "d/file-010000-new.txt"), []byte("new"), 0o644) },
		func() error { return os.Remove(filepath.Join(root, "d/file-000000.txt")) },
	} {
		settle()
		if err := change(); err != nil {
			t.Fatal(err)
		}
		settle()
		w, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ws := openWorkspace(t, s, root)
		r, err := ws.Capture(t.Context(), w, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if st := w.Stats(); st.Stored > 24<<10 {
			t.Errorf("change %d stored %d bytes in %d objects", i, st.Stored, st.Objects)
		}
		if r.ReadFiles > 1 {
			t.Errorf("change %d: %d files read", i, r.ReadFiles)
		}
		bare := openWorkspace(t, s, root)
		bare.store = nil
		plain, err := bare.Capture(t.Context(), trees.NewOverlay(s), nil)
		if err != nil {
			t.Fatal(err)
		}
		if plain.Tree != r.Tree {
			t.Errorf("change %d: tree %s, from scratch %s", i, r.Tree.Short(), plain.Tree.Short())
		}
	}
}

func TestCoverage(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "kept"), "kept")
	write(t, filepath.Join(root, "node_modules/x"), "ignored outside git")
	write(t, filepath.Join(root, "big"), strings.Repeat("b", 1001))
	write(t, filepath.Join(root, "nested/.git/config"), "[core]\n")
	write(t, filepath.Join(root, "nested/file"), "content of a nested repository")
	write(t, filepath.Join(root, "module/.git"), "gitdir: ../x\n")
	write(t, filepath.Join(root, "module/file"), "content of a submodule")
	write(t, filepath.Join(root, "sub/.hg/store"), "x")
	write(t, filepath.Join(root, "sub/.svn"), "just a file")
	if err := syscall.Mkfifo(filepath.Join(root, "sub/fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	storeDir := filepath.Join(root, "a", "store")
	os.MkdirAll(storeDir, 0o755)
	p, err := FindProject(root)
	if err != nil {
		t.Fatal(err)
	}
	s := openStore(t, vfstest.NewMem())
	ws, err := p.Open(&WorkspaceOptions{Store: s, StoreDir: storeDir})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time from the cache
		r := snapshot(t, s, ws, &Options{Limits: tree.Limits{FileSize: 1000}})
		want := []string{"a/store store", "big too-large", "module/.git vcs", "nested/.git vcs",
			"node_modules ignored", "sub/.hg vcs", "sub/fifo special"}
		if diff := cmp.Diff(want, omissions(t, s, r.Coverage)); diff != "" {
			t.Errorf("coverage (-want +got):\n%s", diff)
		}
		want = []string{"a", "kept", "module", "module/file", "nested", "nested/file", "sub", "sub/.svn"}
		if diff := cmp.Diff(want, paths(t, s, r.Tree)); diff != "" {
			t.Errorf("tree (-want +got):\n%s", diff)
		}
		if r.Omitted != 7 {
			t.Errorf("Omitted = %d, want 7", r.Omitted)
		}
		settle()
	}
}

func TestBudget(t *testing.T) {
	root := t.TempDir()
	for i := range 50 {
		write(t, filepath.Join(root, fmt.Sprintf("small/%d", i)), "x")
		write(t, filepath.Join(root, fmt.Sprintf("deep/er/and/er/%d", i)), strings.Repeat("y", 1000+i))
	}
	s := openStore(t, vfstest.NewMem())
	for _, limits := range []tree.Limits{{NewBytes: 10_000}, {Files: 20}, {Time: 1}} {
		ws := openWorkspace(t, s, root)
		r, err := trySnapshot(t.Context(), s, ws, &Options{Limits: limits})
		var budget *BudgetError
		if !errors.As(err, &budget) || r != nil {
			t.Errorf("limits %+v: %+v, %v; want a *BudgetError", limits, r, err)
		} else if limits.NewBytes > 0 && (len(budget.Largest) == 0 || budget.Largest[0].Path != "deep/er") {
			t.Errorf("limits %+v: largest %+v, want deep/er first", limits, budget.Largest)
		}
		r, err = trySnapshot(t.Context(), s, ws, &Options{Limits: limits, Partial: true})
		if err != nil || !r.Partial {
			t.Errorf("limits %+v, partial: %+v, %v", limits, r, err)
			continue
		}
		over := slices.DeleteFunc(omissions(t, s, r.Coverage),
			func(o string) bool { return !strings.HasSuffix(o, " budget") })
		if len(over) == 0 {
			t.Errorf("limits %+v: nothing is listed as over budget", limits)
		}
	}
	if _, err := trySnapshot(t.Context(), s, openWorkspace(t, s, root), nil); err != nil {
		t.Errorf("without limits: %v", err)
	}
}

// TestBudgetOfFiles: what fits is taken, and neither more nor less, by however many goroutines. In part is only
// what lacks something.
func TestBudgetOfFiles(t *testing.T) {
	root := t.TempDir()
	for i := range 30 {
		write(t, filepath.Join(root, fmt.Sprintf("d%d/%d", i%3, i)), strings.Repeat("x", i))
	}
	for i := range 10 {
		if err := os.Symlink("d0", filepath.Join(root, fmt.Sprintf("link%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(root, "large"), strings.Repeat("y", 100))
	for _, files := range []int64{1, 9, 10, 39, 40, 41} {
		s := openStore(t, vfstest.NewMem())
		opts := &Options{Limits: tree.Limits{Files: files, FileSize: 99}, Partial: true, Workers: 8}
		r, err := trySnapshot(t.Context(), s, openWorkspace(t, s, root), opts)
		if err != nil {
			t.Fatal(err)
		}
		over := slices.ContainsFunc(omissions(t, s, r.Coverage),
			func(o string) bool { return strings.HasSuffix(o, " budget") })
		if got := r.Files + r.Symlinks; got != min(files, 40) || r.Partial != (files < 40) || over != r.Partial {
			t.Errorf("of 40 files at most %d: %d, in part %t, over budget %t", files, got, r.Partial, over)
		}
		// What is known, and so costs nothing, is not left out.
		ws := openWorkspace(t, s, root)
		snapshot(t, s, ws, nil)
		opts.Limits.Files = 39
		if r, err = trySnapshot(t.Context(), s, ws, opts); err != nil {
			t.Fatal(err)
		}
		over = slices.ContainsFunc(omissions(t, s, r.Coverage),
			func(o string) bool { return strings.HasSuffix(o, " budget") })
		if r.Partial != over {
			t.Errorf("where 40 files are known, at most 39: in part %t, over budget %t", r.Partial, over)
		}
	}
}

// TestBudgetOfPatterns: the time is up also where a name takes long to be matched, and not only between
// directories and files.
func TestBudgetOfPatterns(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, ".gitignore"), "*.x\n")
	for i := range 50 {
		write(t, filepath.Join(root, fmt.Sprintf("%d.x", i)), "x")
	}
	write(t, filepath.Join(root, "dir/f"), "x")
	s := openStore(t, vfstest.NewMem())
	late := &Options{Limits: tree.Limits{Time: 1}, Partial: true}
	r, err := trySnapshot(t.Context(), s, openWorkspace(t, s, root), late)
	if err != nil || !r.Partial {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, o := range omissions(t, s, r.Coverage) {
		if !strings.HasSuffix(o, " budget") {
			t.Errorf("%s: want budget: the time was up", o)
		}
	}
	r, err = trySnapshot(t.Context(), s, openWorkspace(t, s, root), nil)
	if err != nil || r.Omitted != 50 || r.Files != 2 {
		t.Errorf("without limits: %+v, %v", r, err)
	}
}

// TestPatternFileTooLarge: what a file of many patterns would leave out is captured, and that is said.
func TestPatternFileTooLarge(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, ".booignore"), "*.x\n#"+strings.Repeat("x", maxPatternFile))
	write(t, filepath.Join(root, "a.x"), "x")
	s := openStore(t, vfstest.NewMem())
	var said bytes.Buffer
	ws := openWorkspace(t, s, root)
	ws.log = slog.New(slog.NewTextHandler(&said, nil))
	r, err := trySnapshot(t.Context(), s, ws, nil)
	if err != nil || r.Omitted != 0 || !strings.Contains(said.String(), "patterns are not used") {
		t.Errorf("%+v, %v, said %q", r, err, said.String())
	}
}

// A cancellingDir ends a context when the capture comes to an operation.
type cancellingDir struct {
	vfs.Dir
	left   *atomic.Int64
	cancel context.CancelFunc
}

func (d cancellingDir) count() {
	if d.left.Add(-1) == 0 {
		d.cancel()
	}
}

func (d cancellingDir) Lstat(name string, st *vfs.Stat) error {
	d.count()
	return d.Dir.Lstat(name, st)
}

func (d cancellingDir) OpenDir(name string) (vfs.Dir, error) {
	d.count()
	sub, err := d.Dir.OpenDir(name)
	return cancellingDir{sub, d.left, d.cancel}, err
}

// TestCancel ends a capture at every operation. There is no result, and the
// next capture is what one without a cache is.
func TestCancel(t *testing.T) {
	root := t.TempDir()
	for i := range 12 {
		write(t, filepath.Join(root, fmt.Sprintf("d%d/e/f%d", i%4, i)), "x")
	}
	s := openStore(t, vfstest.NewMem())
	settle()
	snapshot(t, s, openWorkspace(t, s, root), nil)
	for at := int64(1); ; at++ {
		for i := range 4 {
			write(t, filepath.Join(root, fmt.Sprintf("d%d/e/f%d", i, i)), fmt.Sprint(at))
		}
		settle()
		ctx, cancel := context.WithCancel(t.Context())
		var left atomic.Int64
		left.Store(at)
		ws := openWorkspace(t, s, root)
		ws.openDir = func(path string) (vfs.Dir, error) {
			d, err := vfs.OpenDir(path)
			return cancellingDir{d, &left, cancel}, err
		}
		w, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r, err := ws.Capture(ctx, w, &Options{Workers: 1})
		if (err == nil) != (r != nil) || err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled at %d: %+v, %v", at, r, err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		next := snapshot(t, s, openWorkspace(t, s, root), nil)
		bare := openWorkspace(t, s, root)
		bare.store = nil
		plain, err := bare.Capture(t.Context(), trees.NewOverlay(s), nil)
		if err != nil || next.Tree != plain.Tree {
			t.Fatalf("cancelled at %d: the next capture says %s, one without a cache %s (%v)",
				at, next.Tree.Short(), plain.Tree.Short(), err)
		}
		if left.Load() > 0 {
			return
		}
	}
}

// TestLostRecord: a snapshot whose record is lost is not counted on by the
// cache that was written after it, also if somebody else takes the pack up before,
// and so seals it where the journal says that it ends.
func TestLostRecord(t *testing.T) {
	for _, lose := range []string{"last record", "journal"} {
		for others := range 3 { // snapshots of another directory; the second loss is that of what they have recorded
			t.Run(fmt.Sprintf("%s, %d others", lose, others), func(t *testing.T) {
				testLostRecord(t, lose == "journal", others)
			})
		}
	}
}

func testLostRecord(t *testing.T, all bool, others int) {
	root, other := t.TempDir(), t.TempDir()
	faultTree(t, root)
	disk := vfstest.NewMem()
	s := reopenStore(t, disk)
	settle()
	snapshot(t, s, openWorkspace(t, s, root), nil)
	write(t, filepath.Join(root, "a/one"), "edited")
	settle()
	snapshot(t, s, openWorkspace(t, s, root), nil)
	lose := func() {
		t.Helper()
		closeDamaged(t, s)
		names, err := disk.ReadDir("journal")
		if err != nil {
			t.Fatal(err)
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".log") })
		name := "journal/" + slices.Max(names)
		if all {
			err = disk.Remove(name)
		} else {
			err = cutLast(disk, name)
		}
		if err != nil {
			t.Fatal(err)
		}
		s = reopenStore(t, disk)
	}
	lose()
	for i := range others {
		write(t, filepath.Join(other, "f"), fmt.Sprint("other ", i))
		snapshot(t, s, openWorkspace(t, s, other), nil)
		if i > 0 {
			lose()
		}
		r := snapshot(t, s, openWorkspace(t, s, root), nil) // of a directory in which nothing has changed
		if got := exported(t, s, r.Tree); !equalMaps(got, listing(t, root, []string{"x.tmp"})) {
			t.Errorf("unchanged, it comes back as %q", got)
		}
		closeDamaged(t, s)
		s = reopenStore(t, disk)
	}
	write(t, filepath.Join(root, "more"), "more")
	r := snapshot(t, s, openWorkspace(t, s, root), nil)
	if got := exported(t, s, r.Tree); !equalMaps(got, listing(t, root, []string{"x.tmp"})) {
		t.Errorf("comes back as %q", got)
	}
	closeDamaged(t, s)
}

// closeDamaged closes a store whose journal has lost something, all of whose snapshots are complete.
func closeDamaged(t *testing.T, s *cas.Store) {
	t.Helper()
	checkSnapshots(t, s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// cutLast cuts the last record of a file off.
func cutLast(disk *vfstest.Mem, name string) error {
	f, err := disk.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	return f.Truncate(st.Size - 1)
}

// TestTakenPackOfMany: when one pack of several is gone, every page is looked
// for, also those of large and of unchanged directories.
func TestTakenPackOfMany(t *testing.T) {
	root := t.TempDir()
	for i := range 300 {
		write(t, filepath.Join(root, fmt.Sprintf("d%03d/f", i)), fmt.Sprint(i))
	}
	disk := vfstest.NewMem()
	s := reopenStore(t, disk)
	settle()
	snapshot(t, s, openWorkspace(t, s, root), nil)
	names, err := disk.ReadDir("packs")
	if err != nil || len(names) != 1 {
		t.Fatalf("packs %q, %v", names, err)
	}
	// Another process adds to a pack of its own.
	other := reopenStore(t, disk)
	write(t, filepath.Join(root, "d150/f"), "edited")
	settle()
	snapshot(t, other, openWorkspace(t, other, root), nil)
	closeStore(t, other)
	if err := disk.Remove("packs/" + names[0]); err != nil {
		t.Fatal(err)
	}
	// Both the process that has the pack open and a new one notice.
	for i, s := range []*cas.Store{s, reopenStore(t, disk)} {
		write(t, filepath.Join(root, "d151/f"), fmt.Sprint("edited ", i))
		settle()
		r := snapshot(t, s, openWorkspace(t, s, root), nil)
		fresh := reopenStore(t, disk)
		if got := exported(t, fresh, r.Tree); !equalMaps(got, listing(t, root, nil)) {
			t.Errorf("store %d: the snapshot does not come back", i)
		}
		fresh.Close()
		s.Close()
	}
}
