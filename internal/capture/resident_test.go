//go:build unix

package capture

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// openResident prepares a directory for being captured by a process that stays.
func openResident(t testing.TB, s *cas.Store, root string, watches int) *Workspace {
	t.Helper()
	p, err := FindProject(root)
	if err != nil {
		t.Fatalf("find project: %v", err)
	}
	ws, err := p.Open(&WorkspaceOptions{Store: s, Resident: true, MaxWatches: watches})
	if err != nil {
		t.Fatalf("open workspace: %v", err)
	}
	t.Cleanup(func() {
		if err := ws.Close(); err != nil {
			t.Errorf("close workspace: %v", err)
		}
	})
	return ws
}

// scratch captures a directory without a cache.
func scratch(t testing.TB, s *cas.Store, root string) (*tree.Result, trees.Getter) {
	t.Helper()
	bare := openWorkspace(t, s, root)
	bare.store = nil
	o := trees.NewOverlay(s)
	r, err := bare.Capture(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r, o
}

// allSnapshot takes a snapshot, and if all files are due to be looked at another one that
// does, as an engine has it soon.
func allSnapshot(t testing.TB, s *cas.Store, ws *Workspace) *tree.Result {
	t.Helper()
	got := snapshot(t, s, ws, nil)
	if _, due := ws.LookedAtAll(); due {
		got = snapshot(t, s, ws, &Options{All: true})
	}
	return got
}

// sameResult compares what two captures found.
func sameResult(t testing.TB, what string, g trees.Getter, got, want *tree.Result) {
	t.Helper()
	if got.Tree != want.Tree || got.Coverage != want.Coverage {
		for c, err := range trees.Diff(t.Context(), g, got.Tree, want.Tree) {
			t.Logf("%q: got %+v, want %+v (%v)", c.Path, c.Old, c.New, err)
		}
		t.Fatalf("%s: tree %s coverage %s, from scratch %s %s", what, got.Tree.Short(), got.Coverage.Short(),
			want.Tree.Short(), want.Coverage.Short())
	}
	if got.Files != want.Files || got.Dirs != want.Dirs || got.Bytes != want.Bytes || got.Omitted != want.Omitted ||
		got.Symlinks != want.Symlinks {
		t.Fatalf("%s: counts %+v, from scratch %+v", what, got, want)
	}
}

var wildTime = flag.Duration("wild", time.Second, "how long the wild tests go on")

// TestResidentWild changes a tree at random, also while it is captured, and
// requires that a resident capture in each quiet moment is as one from scratch.
func TestResidentWild(t *testing.T) {
	for _, c := range []struct{ large, watches int }{{100, 0}, {700, 0}, {100, 20}} {
		t.Run(fmt.Sprintf("%d files, %d watches", c.large, c.watches),
			func(t *testing.T) { wild(t, c.large, c.watches) })
	}
}

func wild(t *testing.T, large, watches int) {
	r := testseed.Rand(t)
	root := t.TempDir()
	outside := t.TempDir()
	for i := range 200 {
		write(t, filepath.Join(root, fmt.Sprintf("d%d/s%d/f%d", i%5, i%7, i)), fmt.Sprint(i))
	}
	for i := range large {
		write(t, filepath.Join(root, fmt.Sprintf("large/%d", i)), fmt.Sprint(i))
		if i%50 == 0 {
			write(t, filepath.Join(root, fmt.Sprintf("large/sub%d/f", i)), fmt.Sprint(i))
		}
	}
	write(t, filepath.Join(root, ".git/HEAD"), "ref: refs/heads/main\n")
	write(t, filepath.Join(root, ".git/info/exclude"), "")
	s := openStore(t, vfstest.NewMem())
	ws := openResident(t, s, root, watches)
	skipped := int64(0)
	dirs := []string{"large/"} // that the last look has seen: nor is it told of in a newer one
	// A busy machine gets to few rounds in the time, in all of which events may have been lost.
	until := time.Now().Add(*wildTime)
	for round := 0; time.Now().Before(until) || skipped == 0 && round < 100; round++ {
		for range r.IntN(4) {
			playLinks(r, root, dirs)
			if watches > 0 { // a name that comes and goes is not told of in a directory that is not watched
				ws.Doubt()
			}
		}
		switch r.IntN(9) {
		case 8: // git comes and goes
			if os.Rename(filepath.Join(root, ".git"), filepath.Join(root, ".git-away")) != nil {
				os.Rename(filepath.Join(root, ".git-away"), filepath.Join(root, ".git"))
			}
		case 0: // changes while it is captured
			ctx, cancel := context.WithCancel(t.Context())
			var changes sync.WaitGroup
			seed := r.Uint64()
			changes.Go(func() {
				mine := rand.New(rand.NewPCG(seed, seed))
				for ctx.Err() == nil {
					busy(mine, root)
				}
			})
			for range 3 {
				if _, err := trySnapshot(t.Context(), s, ws, &Options{Partial: true}); err != nil {
					t.Fatal(err)
				}
			}
			cancel()
			changes.Wait()
		case 1: // one that fails, and one that keeps nothing
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(1000))*time.Microsecond)
			trySnapshot(ctx, s, ws, nil)
			cancel()
			for range r.IntN(3) {
				mutate(t, r, root, ".gitignore", ".booignore")
			}
			if _, err := ws.Capture(t.Context(), trees.NewOverlay(s), nil); err != nil {
				t.Fatal(err)
			}
		case 2:
			os.MkdirAll(filepath.Join(root, ".git/info"), 0o755)
			// A directory may have been put there.
			os.WriteFile(filepath.Join(root, ".git/info/exclude"), []byte([]string{"", "f1*\n", "s3/\n"}[r.IntN(3)]),
				0o644)
		case 3: // through another name, which nobody watches
			other := filepath.Join(outside, fmt.Sprint(round))
			write(t, other, "by one name")
			if os.Link(other, filepath.Join(root, fmt.Sprint("large/link", round))) == nil {
				if _, err := trySnapshot(t.Context(), s, ws, nil); err != nil {
					t.Fatal(err)
				}
				write(t, other, fmt.Sprint("by another name ", round))
			}
			// A name that is made outside is not told of: the next look at all
			// files finds it.
			if os.Link(filepath.Join(root, fmt.Sprintf("large/%d", r.IntN(large))), other+"b") == nil {
				write(t, other+"b", fmt.Sprint("by a name outside ", round))
				ws.Doubt()
			}
			// One that is made inside is: both names are looked at from now on.
			inside := filepath.Join(root, fmt.Sprint("d2/link", round))
			if name := filepath.Join(root, fmt.Sprintf("large/%d", r.IntN(large))); os.Link(name, inside) == nil {
				if _, err := trySnapshot(t.Context(), s, ws, nil); err != nil {
					t.Fatal(err)
				}
				if st, err := os.Lstat(inside); err == nil && st.Mode().IsRegular() {
					write(t, inside, fmt.Sprint("by a name inside ", round))
				}
			}
		case 4: // back in time
			name := filepath.Join(root, fmt.Sprintf("large/%d", r.IntN(large)))
			if st, err := os.Lstat(name); err == nil && st.Mode().IsRegular() {
				write(t, name, "x"+string(make([]byte, max(0, st.Size()-1))))
				os.Chtimes(name, st.ModTime(), st.ModTime())
			}
		case 5: // out of the tree and into it
			os.Rename(filepath.Join(root, "d1"), filepath.Join(outside, fmt.Sprint("d", round)))
			write(t, filepath.Join(outside, fmt.Sprint("in", round), "a/b/c"), "new")
			os.Rename(filepath.Join(outside, fmt.Sprint("in", round)),
				filepath.Join(root, fmt.Sprintf("d%d", r.IntN(8))))
		}
		for range r.IntN(6) {
			mutate(t, r, root, ".gitignore", ".booignore")
		}
		got := allSnapshot(t, s, ws)
		want, g := scratch(t, s, root)
		sameResult(t, fmt.Sprint("round ", round), g, got, want)
		dirs = []string{"large/", "large/"}
		for e, err := range trees.Walk(t.Context(), g, got.Tree) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Mode.IsDir() {
				dirs = append(dirs, e.Path+"/")
			}
		}
		st := ws.WatchStats()
		skipped = st.Captures - st.Full
	}
	st := ws.WatchStats()
	t.Logf("%+v", st)
	if st.Directories > 0 && skipped == 0 {
		t.Error("no capture skipped anything")
	}
}

// busy changes something below root, like mutate, but others may do so, too.
func busy(r *rand.Rand, root string) {
	dir := filepath.Join(root, []string{"large", "d2", "d2/s3", "d3/s1", "."}[r.IntN(5)])
	name := filepath.Join(dir, fmt.Sprint("busy", r.IntN(20)))
	switch r.IntN(5) {
	case 0:
		os.WriteFile(name, []byte(fmt.Sprint(r.Uint64())), 0o644)
	case 1:
		os.RemoveAll(name)
	case 2:
		os.Mkdir(name, 0o755)
		os.WriteFile(filepath.Join(name, "in"), []byte(fmt.Sprint(r.Uint64())), 0o644)
	case 3:
		os.Rename(name, filepath.Join(dir, fmt.Sprint("busy", r.IntN(20))))
	case 4:
		os.WriteFile(filepath.Join(dir, fmt.Sprint(r.IntN(100))), []byte(fmt.Sprint(r.Uint64())), 0o644)
	}
}

// The cache that a resident process leaves behind is of use to others, and true.
func TestResidentSavesCache(t *testing.T) {
	root := t.TempDir()
	for i := range 600 {
		write(t, filepath.Join(root, fmt.Sprintf("d/%d", i)), fmt.Sprint(i))
		write(t, filepath.Join(root, fmt.Sprintf("e/%d/f", i%40)), fmt.Sprint(i))
	}
	s := openStore(t, vfstest.NewMem())
	settle()
	ws := openResident(t, s, root, 0)
	snapshot(t, s, ws, nil)
	for round := range 3 {
		write(t, filepath.Join(root, "d/7"), fmt.Sprint("edit", round))
		write(t, filepath.Join(root, "d/tmp"), "gone at once")
		os.Remove(filepath.Join(root, "d/tmp"))
		write(t, filepath.Join(root, fmt.Sprint("e/new", round)), "new")
		settle()
		got := snapshot(t, s, ws, nil)
		if err := ws.SaveCache(); err != nil {
			t.Fatal(err)
		}
		other, err := openWorkspace(t, s, root).Capture(t.Context(), trees.NewOverlay(s), nil)
		if err != nil {
			t.Fatal(err)
		}
		want, g := scratch(t, s, root)
		sameResult(t, "resident", g, got, want)
		sameResult(t, "another process", g, other, want)
		if other.ReadFiles > 3 {
			t.Errorf("round %d: another process read %d files", round, other.ReadFiles)
		}
	}
}

// A file that was written under a name that is gone by now has changed all the
// same.
func TestResidentOtherName(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "d/other"), "other")
	s := openStore(t, vfstest.NewMem())
	ws := openResident(t, s, root, 0)
	snapshot(t, s, ws, nil)
	tmp, final := filepath.Join(root, "tmp"), filepath.Join(root, "d/final")
	f, err := os.Create(tmp)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, err := range []error{os.Link(tmp, final), os.Remove(tmp)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	snapshot(t, s, ws, nil)
	if _, err := f.WriteString("late"); err != nil {
		t.Fatal(err)
	}
	got := snapshot(t, s, ws, nil)
	want, g := scratch(t, s, root)
	sameResult(t, "a late write", g, got, want)
}

// A write to a file between the call that takes what the watcher was told, and the look at
// the file, is told of once more. That is no reason for all to be looked at while somebody
// waits.
func TestResidentLateEvent(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a", "d/z", "e/y"} {
		write(t, filepath.Join(root, name), "1")
	}
	s := openStore(t, vfstest.NewMem())
	ws := openResident(t, s, root, 0)
	snapshot(t, s, ws, nil)
	for round, touch := range []func(){
		func() {},
		func() { write(t, filepath.Join(root, "d/new"), "1") }, // not only names that are known
	} {
		write(t, filepath.Join(root, "a"), fmt.Sprint("round ", round))
		write(t, filepath.Join(root, "d/z"), fmt.Sprint("before the capture ", round))
		snapshot(t, s, ws, &Options{Workers: 1, Known: func(path string, _ *vfs.Stat) (store.ID, bool) {
			if path == "a" { // which comes first
				write(t, filepath.Join(root, "d/z"), fmt.Sprint("in the capture ", round))
			}
			return store.ID{}, false
		}})
		full := ws.WatchStats().Full
		touch()
		got := snapshot(t, s, ws, nil)
		want, g := scratch(t, s, root)
		sameResult(t, fmt.Sprint("round ", round), g, got, want)
		if n := ws.WatchStats().Full - full; n > 0 {
			t.Errorf("round %d: all files were looked at %d times", round, n)
		}
		if _, due := ws.LookedAtAll(); !due {
			t.Errorf("round %d: and need not be soon, though another file may have been written", round)
		}
		snapshot(t, s, ws, &Options{All: true})
		if _, due := ws.LookedAtAll(); due || ws.WatchStats().Full != full+1 {
			t.Errorf("round %d: asked to look at all files: due %v, %d did", round, due, ws.WatchStats().Full-full)
		}
	}
}

// A directory with several levels of pages comes out as from scratch, change
// after change, and its new pages are known.
func TestResidentLarge(t *testing.T) {
	r := testseed.Rand(t)
	root := t.TempDir()
	const n = 4000
	for i := range n {
		write(t, filepath.Join(root, fmt.Sprint("d/", i)), "x")
	}
	s := openStore(t, vfstest.NewMem())
	ws := openResident(t, s, root, 0)
	reads := &readsGetter{Getter: s}
	ws.pages = trees.NewPages(reads)
	last := snapshot(t, s, ws, nil)
	for round := range 20 {
		for range r.IntN(4) {
			write(t, filepath.Join(root, fmt.Sprint("d/", r.IntN(n))), fmt.Sprint(round))
		}
		if round%7 == 3 { // the pages change as such
			write(t, filepath.Join(root, fmt.Sprint("d/new", round)), "new")
		}
		got := snapshot(t, s, ws, nil)
		want, g := scratch(t, s, root)
		sameResult(t, fmt.Sprint("round ", round), g, got, want)
		reads.n = 0
		known := diffOf(t, ws.pages, last.Tree, got.Tree)
		few := reads.n
		if all := diffOf(t, reads, last.Tree, got.Tree); known != all {
			t.Fatalf("round %d: with the pages that are known %s; without %s", round, known, all)
		}
		// Of the new side, only the root of the tree was not made known.
		if most := 1 + (reads.n-few)/2; round%7 != 3 && last.Tree != got.Tree && few > most {
			t.Errorf("round %d: %d pages read, want at most %d", round, few, most)
		}
		last = got
	}
}

// A readsGetter counts what is read through it.
type readsGetter struct {
	trees.Getter
	n int
}

func (g *readsGetter) Get(ctx context.Context, kind object.Kind, id store.ID) ([]byte, error) {
	g.n++
	return g.Getter.Get(ctx, kind, id)
}

// diffOf lists how two trees differ.
func diffOf(t testing.TB, g trees.Getter, old, new store.ID) (list string) {
	for c, err := range trees.Diff(t.Context(), g, old, new) {
		if err != nil {
			t.Fatal(err)
		}
		list += fmt.Sprintf("%q: %+v %+v\n", c.Path, c.Old, c.New)
	}
	return list
}

// The limit on files holds for those that are skipped, and for no more.
func TestResidentFilesLimit(t *testing.T) {
	root := t.TempDir()
	for i := range 11 {
		write(t, filepath.Join(root, fmt.Sprintf("d%d/f", i%3), fmt.Sprint(i)), "x")
	}
	s := openStore(t, vfstest.NewMem())
	ws := openResident(t, s, root, 0)
	snapshot(t, s, ws, nil)
	if _, err := trySnapshot(t.Context(), s, ws, &Options{Limits: tree.Limits{Files: 5}}); err == nil {
		t.Error("11 files, and a limit of 5")
	}
	for i := range 3 {
		write(t, filepath.Join(root, ".booignore"), fmt.Sprint("none", i))
		write(t, filepath.Join(root, "d1/f/1"), fmt.Sprint(i))
		if _, err := trySnapshot(t.Context(), s, ws, &Options{Limits: tree.Limits{Files: 12}}); err != nil {
			t.Errorf("12 files, and a limit of 12: %v", err)
		}
	}
}

// Several goroutines may capture at once.
func TestResidentAtOnce(t *testing.T) {
	root := t.TempDir()
	for i := range 100 {
		write(t, filepath.Join(root, fmt.Sprintf("d%d/%d", i%7, i)), "x")
	}
	s := openStore(t, vfstest.NewMem())
	ws := openResident(t, s, root, 0)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 20 {
				os.WriteFile(filepath.Join(root, fmt.Sprintf("d%d/%d", g, g)), []byte(fmt.Sprint(i)), 0o644)
				w, err := s.Begin(t.Context())
				if err == nil {
					_, err = ws.Capture(t.Context(), w, nil)
					w.Close()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got := snapshot(t, s, ws, nil)
	want, g := scratch(t, s, root)
	sameResult(t, "after all", g, got, want)
}

// Files in the making of a restore are in no capture, whether it lists directories or goes
// by what the watcher tells, as long as the restore holds the lock on their directory. What
// is there afterwards, and what only looks like them, is the user's.
func TestFilesInTheMaking(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "d/f"), "x")
	s := openStore(t, vfstest.NewMem())
	workspaces := map[string]*Workspace{"resident": openResident(t, s, root, 0), "fresh": openWorkspace(t, s, root)}
	before := make(map[string]*tree.Result)
	for name, ws := range workspaces {
		before[name] = snapshot(t, s, ws, nil)
	}
	for _, making := range []string{trees.MakingName("0123456789abcdef"), "d/" + trees.MakingName("fedcba9876543210")} {
		write(t, filepath.Join(root, making, "file"), "new")
		dir, err := vfs.OpenDir(filepath.Join(root, making))
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := dir.TryLock(vfs.Exclusive); !ok {
			t.Fatal("no lock:", err)
		}
		for range 2 {
			for name, ws := range workspaces {
				if r := snapshot(t, s, ws, nil); r.Tree != before[name].Tree || r.Coverage != before[name].Coverage {
					t.Errorf("%s, with %s: %q, %q are left out", name, making, paths(t, s, r.Tree),
						omissions(t, s, r.Coverage))
				}
			}
		}
		dir.Close()
		for name, ws := range workspaces {
			got := paths(t, s, snapshot(t, s, ws, nil).Tree)
			if !slices.Contains(got, making+"/file") {
				t.Errorf("%s: after the restore %s/file is not in %q", name, making, got)
			}
		}
		if err := os.RemoveAll(filepath.Join(root, making)); err != nil {
			t.Fatal(err)
		}
		for name, ws := range workspaces {
			if r := snapshot(t, s, ws, nil); r.Tree != before[name].Tree {
				t.Errorf("%s: what is gone is in %q", name, paths(t, s, r.Tree))
			}
		}
	}
	for _, users := range []string{trees.MakingName("aaaabbbbccccdddd"), "d/" + trees.MakingName("aaaabbbbccccdddd")} {
		if err := os.Mkdir(filepath.Join(root, users), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{users, users + "/.boo-aaaabbbbccccdddd-0011.old"} {
			if p != users {
				write(t, filepath.Join(root, p), "a copy")
			}
			for name, ws := range workspaces {
				if got := paths(t, s, snapshot(t, s, ws, nil).Tree); !slices.Contains(got, p) {
					t.Errorf("%s: the user's %s is not in %q", name, p, got)
				}
			}
		}
	}
	write(t, filepath.Join(root, ".boo-notes", "file"), "the user's")
	file := trees.MakingName("00000000000000ff") // a restore makes no file of that name
	for _, text := range []string{"1", "the user's"} {
		write(t, filepath.Join(root, file), text)
		for name, ws := range workspaces {
			got := paths(t, s, snapshot(t, s, ws, nil).Tree)
			if !slices.Contains(got, ".boo-notes/file") || !slices.Contains(got, file) {
				t.Errorf("%s: files of the user are not in %q", name, got)
			}
		}
	}
	if err := os.Remove(filepath.Join(root, file)); err != nil {
		t.Fatal(err)
	}
	for name, ws := range workspaces {
		if got := paths(t, s, snapshot(t, s, ws, nil).Tree); slices.Contains(got, file) {
			t.Errorf("%s: what is gone is in %q", name, got)
		}
	}
}
