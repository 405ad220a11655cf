//go:build unix

package capture

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// sparseRepo is a repository with some directories and files.
func sparseRepo(t testing.TB, names ...string) string {
	t.Helper()
	needGit(t)
	root := t.TempDir()
	git(t, root, "init", "-q", "-b", "main")
	// Or git forgets that something is taken out as soon as it sees it there.
	git(t, root, "config", "sparse.expectFilesOutsideOfPatterns", "true")
	for _, name := range names {
		write(t, filepath.Join(root, name), name)
	}
	git(t, root, "add", ".")
	git(t, root, "commit", "-qm", "first")
	return root
}

// plainSparse lists what git has taken out, as a coverage is to list it, from
// what git says of each path.
func plainSparse(t testing.TB, root string) []string {
	t.Helper()
	const in, out = 1, 2
	is := make(map[string]int) // of each path and directory, what is below it
	kids := make(map[string]map[string]bool)
	for line := range strings.SplitSeq(git(t, root, "ls-files", "-z", "-t"), "\x00") {
		tag, name, ok := strings.Cut(line, " ")
		if !ok {
			continue
		}
		what := in
		if tag == "S" {
			what = out
		}
		for dir, base := name, ""; dir != ""; {
			is[dir] |= what
			if dir, base = filepath.Dir(dir), filepath.Base(dir); dir == "." {
				dir = ""
			}
			if kids[dir] == nil {
				kids[dir] = make(map[string]bool)
			}
			kids[dir][base] = true
		}
	}
	var list []string
	var walk func(dir string)
	walk = func(dir string) {
		for base := range kids[dir] {
			name := trees.Join(dir, base)
			st, err := os.Lstat(filepath.Join(root, name))
			isDir := kids[name] != nil
			switch {
			case err == nil && !(isDir && st.IsDir()):
			case is[name] == out:
				list = append(list, name+" sparse")
			case isDir:
				walk(name)
			}
		}
	}
	walk("")
	slices.Sort(list)
	return list
}

func sparseOmissions(t testing.TB, g trees.Getter, cover store.ID) []string {
	t.Helper()
	list := slices.DeleteFunc(omissions(t, g, cover), func(s string) bool { return !strings.HasSuffix(s, " sparse") })
	slices.Sort(list)
	return list
}

// compared lists what Compare tells of two captures.
func compared(t testing.TB, g trees.Getter, old, new *tree.Result) []string {
	t.Helper()
	var list []string
	for d, err := range trees.Compare(t.Context(), g, store.State{Tree: old.Tree, Coverage: old.Coverage},
		store.State{Tree: new.Tree, Coverage: new.Coverage}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%c %s", d.Status, d.Path))
	}
	return list
}

// TestSparse: what git takes out is not deleted, and what it brings back not
// added; what others delete and add is, also beside it and in its place.
func TestSparse(t *testing.T) {
	testseed.Sequential(t)
	names := []string{"top", "a/f", "a/b/f", "a/b/g", "a/c/f", "a/c/d/f", "z/f"}
	sh := func(root, script string) {
		t.Helper()
		for line := range strings.SplitSeq(script, "; ") {
			args := strings.Fields(line)
			switch args[0] {
			case "rm":
				if err := os.RemoveAll(filepath.Join(root, args[1])); err != nil {
					t.Fatal(err)
				}
			case "write":
				write(t, filepath.Join(root, args[1]), "written")
			default:
				git(t, root, args...)
			}
		}
	}
	tests := []struct {
		what, before, between string
		diff                  []string // from the one to the other
		left                  []string // omitted after it
	}{
		{"git takes out", "", "sparse-checkout set --cone a/b",
			[]string{"d a/c/d/f", "d a/c/f", "d z/f"}, []string{"a/c sparse", "z sparse"}},
		{"git takes out, sparse index", "", "sparse-checkout set --cone --sparse-index a/b",
			[]string{"d a/c/d/f", "d a/c/f", "d z/f"}, []string{"a/c sparse", "z sparse"}},
		{"by patterns", "", "sparse-checkout set --no-cone /* !/a/b/g !/a/c/",
			[]string{"d a/b/g", "d a/c/d/f", "d a/c/f"}, []string{"a/b/g sparse", "a/c sparse"}},
		{"git brings back", "sparse-checkout set --cone a/b", "sparse-checkout disable",
			[]string{"a a/c/d/f", "a a/c/f", "a z/f"}, nil},
		{"git brings back a part", "sparse-checkout set --cone z", "sparse-checkout set --cone a/c z",
			[]string{"a a/c/d/f", "a a/c/f", "a a/f"}, []string{"a/b sparse"}},
		{"others delete meanwhile", "", "sparse-checkout set --cone a; rm z/f; rm a/b/f; rm top",
			[]string{"D a/b/f", "D top", "d z/f"}, []string{"z sparse"}},
		{"others delete", "sparse-checkout set --cone a/b z", "rm z; rm a/b/g; write new",
			[]string{"D a/b/g", "A new", "D z/f"}, []string{"a/c sparse"}},
		{"a directory goes of which a part is taken out", "sparse-checkout set --cone a/b", "rm a",
			[]string{"D a/b/f", "D a/b/g", "D a/f"}, []string{"a/c sparse", "z sparse"}},
		{"and comes back", "sparse-checkout set --cone a/b; rm a", "write a/b/f; write a/c/new",
			[]string{"A a/b/f", "A a/c/new"}, []string{"a/c sparse", "z sparse"}},
		{"others write where all is taken out", "sparse-checkout set --cone a/b",
			"write z/new; write z/f; write a/c/d/e/new",
			[]string{"A a/c/d/e/new", "A z/f", "A z/new"}, []string{"a/c sparse", "z sparse"}},
		{"others write where all is taken out, sparse index", "sparse-checkout set --cone --sparse-index a/b",
			"write z/new; write z/f",
			[]string{"A z/f", "A z/new"}, []string{"a/c sparse", "z sparse"}},
		{"and delete there", "sparse-checkout set --cone a/b; write z/new; write z/f; write a/c/d/e/new",
			"rm z; rm a/c/d/e/new",
			[]string{"D a/c/d/e/new", "D z/f", "D z/new"}, []string{"a/c sparse", "z sparse"}},
		{"in the place of one file", "update-index --skip-worktree a/b/f; rm a/b/f", "write a/b/f",
			[]string{"A a/b/f"}, nil},
		{"and away again", "update-index --skip-worktree a/b/f", "rm a/b/f",
			[]string{"D a/b/f"}, []string{"a/b/f sparse"}},
		{"a file in the place of a directory", "sparse-checkout set --cone a/b", "write z",
			[]string{"A z"}, []string{"a/c sparse"}},
		{"the bit alone", "", "update-index --skip-worktree a/f top", nil, nil},
		{"the bit of what is deleted", "rm a/f", "update-index --skip-worktree a/f", nil, []string{"a/f sparse"}},
		{"assume unchanged", "update-index --assume-unchanged a/f", "rm a/f", []string{"D a/f"}, nil},
		{"what is not git's stays", "write z/own", "sparse-checkout set --cone a",
			[]string{"d z/f"}, []string{"z sparse"}},
		// What docs/reference/git.md says is not known.
		{"others delete where git takes out all", "write z/own", "sparse-checkout set --cone a; rm z",
			[]string{"d z/f", "d z/own"}, []string{"z sparse"}},
		{"others write where git brings back", "sparse-checkout set --cone a", "sparse-checkout disable; write z/new",
			[]string{"a z/f", "a z/new"}, nil},
		{"git sees what others have written",
			"sparse-checkout set --cone a; config sparse.expectFilesOutsideOfPatterns false",
			"write z/f; add --sparse z/f",
			[]string{"a z/f"}, nil},
		{"git drops it", "sparse-checkout set --cone a", "update-index --force-remove z/f", nil, nil},
	}
	for _, tt := range tests {
		for _, resident := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, resident %v", tt.what, resident), func(t *testing.T) {
				root := sparseRepo(t, names...)
				s := openStore(t, vfstest.NewMem())
				ws := openWorkspace(t, s, root)
				if resident {
					ws = openResident(t, s, root, 0)
				}
				snapshot(t, s, ws, nil)
				if tt.before != "" {
					sh(root, tt.before)
				}
				settle()
				before := snapshot(t, s, ws, nil)
				sh(root, tt.between)
				after := snapshot(t, s, ws, nil)
				if d := cmp.Diff(tt.diff, compared(t, s, before, after)); d != "" {
					t.Errorf("there (-want +got):\n%s", d)
				}
				invert := strings.NewReplacer("A ", "D ", "D ", "A ", "a ", "d ", "d ", "a ")
				var back []string
				for _, line := range tt.diff {
					back = append(back, invert.Replace(line[:2])+line[2:])
				}
				if d := cmp.Diff(back, compared(t, s, after, before)); d != "" {
					t.Errorf("and back (-want +got):\n%s", d)
				}
				if d := cmp.Diff(tt.left, sparseOmissions(t, s, after.Coverage), cmpopts.EquateEmpty()); d != "" {
					t.Errorf("omitted (-want +got):\n%s", d)
				}
				if d := cmp.Diff(plainSparse(t, root), sparseOmissions(t, s, after.Coverage),
					cmpopts.EquateEmpty()); d != "" {
					t.Errorf("omitted (-git +we):\n%s", d)
				}
				again := snapshot(t, s, ws, nil)
				sameResult(t, "nothing has changed", s, again, after)
				want, g := scratch(t, s, root)
				sameResult(t, "at last", g, after, want)
			})
		}
	}
}

// TestSparseRandom: whatever git takes out and brings back, and whatever others
// do meanwhile, a capture with a cache, a resident one and one from scratch
// agree with each other and with what git says.
func TestSparseRandom(t *testing.T) {
	testseed.Sequential(t)
	r := testseed.Rand(t)
	var names []string
	for i := range 80 {
		names = append(names, fmt.Sprintf("d%d/s%d/f%d", i%5, i%3, i), fmt.Sprintf("d%d/g%d", i%5, i%7))
	}
	for i := range 600 { // a large directory is captured in another way
		names = append(names, fmt.Sprintf("large/%d", i))
	}
	for i := range 30 {
		names = append(names, fmt.Sprintf("large/sub%d/f", i))
	}
	rounds := 15
	switch {
	case *every:
		rounds = 300
	case testing.Short():
		rounds = 10
	}
	for _, index := range []string{"--no-sparse-index", "--sparse-index"} {
		root := sparseRepo(t, names...)
		s := openStore(t, vfstest.NewMem())
		stays := openResident(t, s, root, 0)
		below := openWorkspace(t, s, filepath.Join(root, "d1"))
		dir := func() string { return fmt.Sprintf("d%d", r.IntN(5)) }
		some := func() string {
			switch r.IntN(4) {
			case 0:
				return dir()
			case 1:
				return fmt.Sprintf("%s/s%d", dir(), r.IntN(3))
			case 2:
				return fmt.Sprintf("large/%d", r.IntN(600))
			}
			return names[r.IntN(len(names))]
		}
		try := func(args ...string) { // some of it git refuses
			cmd := append([]string{"-c", "advice.updateSparsePath=false"}, args...)
			gitTry(root, cmd...)
		}
		for round := range rounds {
			for range 1 + r.IntN(4) {
				switch r.IntN(12) {
				case 0:
					try("sparse-checkout", "set", "--cone", index, dir(), fmt.Sprintf("%s/s1", dir()),
						[]string{"large", "large/sub3"}[r.IntN(2)])
				case 1:
					try("sparse-checkout", "set", "--no-cone", "--no-sparse-index", "/*", "!/"+some(), "!/"+some(),
						"!/large/*7")
				case 2:
					try("sparse-checkout", "disable")
				case 3:
					try("sparse-checkout", "reapply")
				case 4:
					try("update-index", []string{"--skip-worktree", "--no-skip-worktree",
						"--assume-unchanged"}[r.IntN(3)], names[r.IntN(len(names))])
				case 5:
					try("rm", "-q", "-r", "--cached", "--sparse", "--", some())
				case 6:
					try("reset", "-q", "--mixed")
				case 7:
					os.RemoveAll(filepath.Join(root, some()))
				case 8:
					os.RemoveAll(filepath.Join(root, []string{"large", dir()}[r.IntN(2)]))
				default:
					name := filepath.Join(root, some()+[]string{"", "x", "/new"}[r.IntN(3)])
					if os.MkdirAll(filepath.Dir(name), 0o755) == nil {
						os.WriteFile(name, []byte(fmt.Sprint(round)), 0o644)
					}
				}
			}
			if r.IntN(2) == 0 {
				settle()
			}
			want, g := scratch(t, s, root)
			what := fmt.Sprintf("%s, round %d", index, round)
			if d := cmp.Diff(plainSparse(t, root), sparseOmissions(t, g, want.Coverage),
				cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("%s: omitted (-git +we):\n%s", what, d)
			}
			if want.Omitted != int64(len(omissions(t, g, want.Coverage))) {
				t.Fatalf("%s: %d omissions, and %d are listed", what, want.Omitted, len(omissions(t, g, want.Coverage)))
			}
			if r.IntN(3) > 0 {
				sameResult(t, what+", resident", g, snapshot(t, s, stays, nil), want)
			}
			if r.IntN(3) > 0 {
				sameResult(t, what+", cached", g, snapshot(t, s, openWorkspace(t, s, root), nil), want)
			}
			if _, err := os.Stat(filepath.Join(root, "d1/s1")); err == nil && r.IntN(3) == 0 {
				got := snapshot(t, s, below, nil)
				want, g := scratch(t, s, below.Root)
				sameResult(t, what+", below", g, got, want)
			}
		}
	}
}

// gitTry runs git, which may refuse.
func gitTry(dir string, args ...string) {
	cmd := gitCommand(dir, args...)
	cmd.Run()
}

// TestSparseBelow: a directory below the root of the repository lists what git has
// taken out in it, and nothing else.
func TestSparseBelow(t *testing.T) {
	root := sparseRepo(t, "sub/a/f", "sub/b/f", "sub/f", "c/f")
	git(t, root, "sparse-checkout", "set", "--cone", "sub/a")
	s := openStore(t, vfstest.NewMem())
	r := snapshot(t, s, openWorkspace(t, s, filepath.Join(root, "sub")), nil)
	if d := cmp.Diff([]string{"b sparse"}, sparseOmissions(t, s, r.Coverage)); d != "" {
		t.Errorf("omissions (-want +got):\n%s", d)
	}
}

// TestSparseBelowBesideCapture: a restore asks what git has taken out of a directory
// below the root of the repository, while an engine captures that directory and finds
// the repository anew.
func TestSparseBelowBesideCapture(t *testing.T) {
	root := sparseRepo(t, "sub/a/f", "sub/b/f", "b/f")
	git(t, root, "sparse-checkout", "set", "--cone", "sub/a", "b")
	s := openStore(t, vfstest.NewMem())
	ws := openResident(t, s, filepath.Join(root, "sub"), 0)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := ws.Capture(t.Context(), trees.NewOverlay(s), nil); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	defer wg.Wait()
	defer close(stop)
	checkout := ws.Checkout()
	for i := range 20_000 {
		if !checkout.TakenOut("b/f") {
			t.Fatalf("asked %d times: TakenOut(b/f) = false, want true: sub/b is taken out, b is not", i)
		}
	}
}

// TestSparseIndexUnread: as long as nobody changes the index, a capture does not
// read it.
func TestSparseIndexUnread(t *testing.T) {
	root := sparseRepo(t, "a/f", "a/b/f", "c/f", "e/f")
	git(t, root, "sparse-checkout", "set", "--cone", "a")
	s := openStore(t, vfstest.NewMem())
	first := snapshot(t, s, openWorkspace(t, s, root), nil)
	settle()
	snapshot(t, s, openWorkspace(t, s, root), nil)
	// The stamp stays, and what it stands for is gone.
	name := filepath.Join(root, ".git/index")
	st, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	clear(data[12 : len(data)-32])
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "a/new/f"), "new")
	os.Remove(filepath.Join(root, "a/b/f"))
	write(t, filepath.Join(root, "c/new"), "new")
	now := snapshot(t, s, openWorkspace(t, s, root), nil)
	if d := cmp.Diff([]string{"D a/b/f", "A a/new/f", "A c/new"}, compared(t, s, first, now)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"c sparse", "e sparse"}, sparseOmissions(t, s, now.Coverage)); d != "" {
		t.Errorf("omitted (-want +got):\n%s", d)
	}
	// Where it must be read and cannot, what was taken out stays so.
	if err := os.Chtimes(name, st.ModTime(), st.ModTime().Add(1)); err != nil {
		t.Fatal(err)
	}
	now = snapshot(t, s, openWorkspace(t, s, root), nil)
	if d := cmp.Diff([]string{"c sparse", "e sparse"}, sparseOmissions(t, s, now.Coverage)); d != "" {
		t.Errorf("omitted where the index is damaged (-want +got):\n%s", d)
	}
}

// TestSparseOldCache: a cache from before what is taken out was told is not
// taken at its word.
func TestSparseOldCache(t *testing.T) {
	root := sparseRepo(t, "a/f", "c/f")
	git(t, root, "sparse-checkout", "set", "--cone", "a")
	s := openStore(t, vfstest.NewMem())
	ws := openWorkspace(t, s, root)
	settle()
	// As an older program saw it: without a word of c, and with its stamp.
	repo := ws.repo.Swap(nil)
	snapshot(t, s, ws, nil)
	ws.repo.Store(repo)
	c := ws.loadCache()
	stamp, err := repo.IndexStamp()
	if err != nil {
		t.Fatal(err)
	}
	h := c.batch
	id := object.Hash(object.Blob, stamp[:])
	copy(h.stamp[:], id[:])
	if err := c.save(h, nil); err != nil {
		t.Fatal(err)
	}
	got := snapshot(t, s, openWorkspace(t, s, root), nil)
	if d := cmp.Diff([]string{"c sparse"}, sparseOmissions(t, s, got.Coverage)); d != "" {
		t.Errorf("omitted (-want +got):\n%s", d)
	}
}

// TestSparseCost: tens of thousands of paths that git has taken out are as many lines
// of coverage as there are directories of them at the top.
func TestSparseCost(t *testing.T) {
	root := sparseRepo(t, "a/f")
	oid := strings.TrimSpace(git(t, root, "rev-parse", "HEAD:a/f"))
	paths := 20_000
	if testing.Short() {
		paths = 10_000
	}
	var entries, list strings.Builder
	for i := range paths {
		name := fmt.Sprintf("project%02d/net/vendor%05d/source_file_%06d.c", i%20, i/40, i)
		fmt.Fprintf(&entries, "100644 %s\t%s\n", oid, name)
		fmt.Fprintln(&list, name)
	}
	for _, step := range []struct{ option, input string }{{"--index-info", entries.String()},
		{"--skip-worktree", list.String()}} {
		cmd := gitCommand(root, "update-index", step.option)
		if step.option != "--index-info" {
			cmd.Args = append(cmd.Args, "--stdin")
		}
		cmd.Stdin = strings.NewReader(step.input)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", cmd.Args, err, out)
		}
	}
	s := openStore(t, vfstest.NewMem())
	o := &countingSink{Overlay: trees.NewOverlay(s)}
	r, err := openWorkspace(t, s, root).Capture(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if list := sparseOmissions(t, o, r.Coverage); len(list) != 20 {
		t.Errorf("%d omissions: %q", len(list), list)
	}
	if o.pages > 1 {
		t.Errorf("%d pages of coverage", o.pages)
	}
}

// A countingSink counts the pages of coverage that it is given.
type countingSink struct {
	*trees.Overlay
	pages int
}

func (s *countingSink) Put(kind object.Kind, data []byte) (store.ID, error) {
	if kind == object.Coverage {
		s.pages++
	}
	return s.Overlay.Put(kind, data)
}

// TestSparseHostileIndex: names that git would never have in its index are not
// taken over into a coverage.
func TestSparseHostileIndex(t *testing.T) {
	for _, name := range []string{"..", ".", "a//b", "/c", "x/../y", strings.Repeat("n", 2000), ".git/config"} {
		root := sparseRepo(t, "kept")
		head := make([]byte, 12)
		copy(head, "DIRC\x00\x00\x00\x03\x00\x00\x00\x01")
		e := make([]byte, 60, 80)
		e[25], e[26], e[27] = 0, 0x81, 0xa4
		n := min(len(name), 0xfff)
		e = append(e, 0x40|byte(n>>8), byte(n), 0x40, 0)
		e = append(e, name...)
		e = append(e, make([]byte, 8-len(e)%8)...)
		data := append(append(head, e...), make([]byte, 20)...)
		if err := os.WriteFile(filepath.Join(root, ".git/index"), data, 0o644); err != nil {
			t.Fatal(err)
		}
		s := openStore(t, vfstest.NewMem())
		r := snapshot(t, s, openWorkspace(t, s, root), nil)
		for o, err := range trees.Coverage(context.Background(), s, r.Coverage) {
			if err != nil || !fs.ValidPath(o.Path) {
				t.Errorf("%.20q is omitted as %+v, %v", name, o, err)
			}
		}
	}
}

// TestSparseLarge: in a large directory, of which only the names are looked at
// that are touched, it is known of all others what is taken out there.
func TestSparseLarge(t *testing.T) {
	testseed.Sequential(t)
	var names []string
	for i := range 2 * batchSize {
		names = append(names, fmt.Sprintf("large/%d", i))
	}
	root := sparseRepo(t, append(names, "large/sub/f", "large/sub/deep/f", "large/part/f", "large/part/g")...)
	git(t, root, "sparse-checkout", "set", "--no-cone", "/*", "!/large/sub/", "!/large/part/f", "!/large/7")
	s := openStore(t, vfstest.NewMem())
	ws := openResident(t, s, root, 0)
	for _, step := range []string{"", "+large/sub/own", "+large/sub/own2", "+large/8", "-large/sub/own2", "+large/7",
		"+large/7", "-large/part", "-large/sub", "-large/7", "-large/9"} {
		switch {
		case step == "":
		case step[0] == '+':
			write(t, filepath.Join(root, step[1:]), fmt.Sprint(len(step), os.Getpid()))
		default:
			os.RemoveAll(filepath.Join(root, step[1:]))
		}
		settle()
		want, g := scratch(t, s, root)
		sameResult(t, step, g, snapshot(t, s, ws, nil), want)
	}
	if n := ws.WatchStats().Full; n > 1 {
		t.Errorf("%d captures looked at everything", n)
	}
}

// TestSparseIgnored: what a rule matches and git tracks may be taken out like
// anything else, and be forgotten by git when it is back.
func TestSparseIgnored(t *testing.T) {
	root := sparseRepo(t, "f")
	write(t, filepath.Join(root, ".gitignore"), "*.log\n/out/\n")
	write(t, filepath.Join(root, "x.log"), "x")
	write(t, filepath.Join(root, "out/y"), "y")
	git(t, root, "add", "-f", ".")
	s := openStore(t, vfstest.NewMem())
	for _, step := range [][]string{
		{"update-index", "--skip-worktree", "x.log", "out/y"},
		{"checkout", "-q", "x.log", "out/y"},
		{"update-index", "--force-remove", "x.log", "out/y"},
	} {
		if step[0] == "checkout" {
			write(t, filepath.Join(root, "x.log"), "x")
			write(t, filepath.Join(root, "out/y"), "y")
		} else {
			git(t, root, step...)
		}
		if step[1] == "--skip-worktree" {
			os.Remove(filepath.Join(root, "x.log"))
			os.RemoveAll(filepath.Join(root, "out"))
		}
		settle()
		want, g := scratch(t, s, root)
		sameResult(t, step[0], g, snapshot(t, s, openWorkspace(t, s, root), nil), want)
	}
}

// TestSparseRules: a .gitignore that is taken out does not hold, though git reads
// it from the index.
func TestSparseRules(t *testing.T) {
	root := sparseRepo(t, "a/f")
	write(t, filepath.Join(root, "a/.gitignore"), "*.log\n")
	write(t, filepath.Join(root, "a/x.log"), "x")
	git(t, root, "add", ".")
	s := openStore(t, vfstest.NewMem())
	before := snapshot(t, s, openWorkspace(t, s, root), nil)
	git(t, root, "update-index", "--skip-worktree", "a/.gitignore")
	os.Remove(filepath.Join(root, "a/.gitignore"))
	after := snapshot(t, s, openWorkspace(t, s, root), nil)
	if d := cmp.Diff([]string{"d a/.gitignore", "a a/x.log"}, compared(t, s, before, after)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestSparseIndexMoves: an index that changes under a capture is noticed by the
// next one.
func TestSparseIndexMoves(t *testing.T) {
	root := sparseRepo(t, "a/b/f", "a/c/f", "z/f")
	git(t, root, "sparse-checkout", "set", "--cone", "a/b")
	os.RemoveAll(filepath.Join(root, "a"))
	s := openStore(t, vfstest.NewMem())
	snapshot(t, s, openWorkspace(t, s, root), nil)
	settle()
	snapshot(t, s, openWorkspace(t, s, root), nil)
	// With the same stamp, as if it had been read before the change.
	name := filepath.Join(root, ".git/index")
	st, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	i := strings.Index(string(data), "z/f\x00")
	data[i-2] &^= 0x40 // the skip-worktree bit
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "a/b/f"), "back")
	snapshot(t, s, openWorkspace(t, s, root), nil)
	want, g := scratch(t, s, root)
	sameResult(t, "the next", g, snapshot(t, s, openWorkspace(t, s, root), nil), want)
}

// TestSparseLookup: after a prune no page is counted on that the cache knows,
// nor one of a directory that is not there.
func TestSparseLookup(t *testing.T) {
	root := sparseRepo(t, "a/b/f", "a/c/f", "a/d/e/f", "a/d/g", "z/f")
	git(t, root, "sparse-checkout", "set", "--no-cone", "/*", "!/a/c/", "!/a/d/g")
	os.RemoveAll(filepath.Join(root, "a"))
	s := openStore(t, vfstest.NewMem())
	snapshot(t, s, openWorkspace(t, s, root), nil)
	settle()
	ws := openWorkspace(t, s, root)
	want := snapshot(t, s, ws, nil)
	c := ws.loadCache()
	h := c.batch
	h.epoch += 100 // of a time when other packs were there
	if err := c.save(h, nil); err != nil {
		t.Fatal(err)
	}
	o := trees.NewOverlay(openStore(t, vfstest.NewMem())) // which has nothing
	got, err := openWorkspace(t, s, root).Capture(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	sameResult(t, "after a prune", s, got, want)
	if d := cmp.Diff([]string{"a/c sparse", "a/d/g sparse"}, sparseOmissions(t, o, got.Coverage)); d != "" {
		t.Errorf("omitted (-want +got):\n%s", d)
	}
}
