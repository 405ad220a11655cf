package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// A yard is a place with projects that move.
type yard struct {
	*testing.T
	base, stores string
}

func newYard(t *testing.T) *yard {
	base := t.TempDir()
	if real, err := filepath.EvalSymlinks(base); err == nil {
		base = real
	}
	if id, err := vfs.Identify(base); err != nil || id.Ino == 0 {
		t.Skip("directories have no identity here")
	}
	return &yard{t, base, t.TempDir()}
}

func (y *yard) path(name string) string { return filepath.Join(y.base, filepath.FromSlash(name)) }

func (y *yard) write(name, content string) {
	y.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(y.path(name)), 0o755),
		os.WriteFile(y.path(name), []byte(content), 0o644)); err != nil {
		y.Fatal(err)
	}
}

func (y *yard) holds(name, want string) {
	y.Helper()
	if got, err := os.ReadFile(y.path(name)); err != nil || string(got) != want {
		y.Errorf("%s: %q, %v; want %q", name, got, err, want)
	}
}

func (y *yard) move(from, to string) {
	y.Helper()
	if err := os.Rename(y.path(from), y.path(to)); err != nil {
		y.Fatal(err)
	}
}

// with opens a session in a directory, has fn use it, and checks the store.
func (y *yard) with(dir, session string, fn func(*FileSnapshotManager)) {
	y.Helper()
	m, err := Open(y.Context(), y.path(dir), &Options{StoreRoot: y.stores, Session: session})
	if err != nil {
		y.Fatal(err)
	}
	defer m.Close()
	fn(m)
	(&bench{T: y.T}).check(m.store)
}

// turn is a turn of a session that writes a file.
func (y *yard) turn(dir, session, file, content string) {
	y.Helper()
	if err := os.MkdirAll(y.path(dir), 0o755); err != nil {
		y.Fatal(err)
	}
	y.with(dir, session, func(m *FileSnapshotManager) {
		b := &bench{T: y.T}
		b.turn(m, func() { y.write(dir+"/"+file, content) })
	})
}

// timeline returns what a session of a directory has: kind, turn and label.
func (y *yard) timeline(dir, session string) (list []string) {
	y.Helper()
	m, err := Open(y.Context(), y.path(dir), &Options{StoreRoot: y.stores, Session: session, ReadOnly: true})
	if err != nil {
		y.Error(err)
		return nil
	}
	defer m.Close()
	for mo, err := range m.Timeline(y.Context()) {
		if err != nil {
			y.Error(err)
			return nil
		}
		list = append(list, strings.TrimSpace(fmt.Sprint(mo.Kind, " ", mo.TurnIndex, " ", mo.Snapshot.Label)))
	}
	return list
}

func (y *yard) wantTimeline(dir, session string, want ...string) {
	y.Helper()
	if got := y.timeline(dir, session); !slices.Equal(got, want) {
		y.Errorf("timeline of %s in %s: %q, want %q", session, dir, got, want)
	}
}

func (y *yard) opts(from string) *places.AdoptOptions {
	return &places.AdoptOptions{StoreRoot: y.stores, From: from}
}

// adopt has a directory adopt the history of one that is gone.
func (y *yard) adopt(dir, from string) *places.Moved {
	y.Helper()
	mv, err := places.PlanAdopt(y.Context(), y.path(dir), y.opts(from))
	if err == nil {
		err = places.Adopt(y.Context(), mv, y.opts(from))
	}
	if err != nil {
		y.Fatal(err)
	}
	return mv
}

// gitRun runs git, or skips the test.
func (y *yard) gitRun(dir string, args ...string) {
	y.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		y.Skip("no git")
	}
	cmd := exec.Command("git", args...)
	cmd.Dir = y.path(dir)
	cmd.Env = append(os.Environ(), "HOME="+y.path("no-home"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	if out, err := cmd.CombinedOutput(); err != nil {
		y.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// A project that is renamed is recognised, and all of its history goes on: turns,
// labels, lists of undo, edits, the stat cache.
func TestMovedProject(t *testing.T) {
	y := newYard(t)
	y.write("p/a", "start")
	y.turn("p", "s", "a", "zero")
	y.turn("p", "s", "a", "one")
	y.with("p", "s", func(m *FileSnapshotManager) {
		if _, err := m.Snapshot(t.Context(), &SnapshotOptions{Label: "named"}); err != nil {
			t.Fatal(err)
		}
		b := &bench{T: t}
		b.restore(m, &RestoreOptions{Target: "turn:0"})
		if _, err := m.ApplyEdits(t.Context(), &EditRequest{Path: "a", Old: []byte("zero"),
			New: []byte("edited")}); err != nil {
			t.Fatal(err)
		}
	})
	before := y.timeline("p", "s")
	worktree := capture.PathHash(y.path("p"))
	y.move("p", "deep")
	y.move("deep", "q")

	var away *places.MovedError
	for _, readOnly := range []bool{true, false} {
		m, err := Open(t.Context(), y.path("q"), &Options{StoreRoot: y.stores, Session: "s", ReadOnly: readOnly})
		if !errors.Is(err, places.ErrMovedAway) || !errors.As(err, &away) || away.From != y.path("p") ||
			away.To != y.path("q") || !away.Sure {
			t.Fatalf("Open of what was moved: %v, %v; want a MovedError from p to q", m, err)
		}
	}
	if names, err := places.Names(y.stores); err != nil || len(names) != 1 {
		t.Errorf("stores %v, %v: a second one was begun", names, err)
	}
	if got := y.timeline("p", "s"); !slices.Equal(got, before) { // what is gone can be read
		t.Errorf("timeline of p: %q, want %q", got, before)
	}
	if m, err := Open(t.Context(), y.path("p"), &Options{StoreRoot: y.stores,
		Session: "s"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open to write of what is gone: %v, %v", m, err)
	}

	y.adopt("q", "")
	if got := y.timeline("q", "s"); !slices.Equal(got, before) {
		t.Errorf("timeline of q: %q, want %q", got, before)
	}
	y.with("q", "s", func(m *FileSnapshotManager) {
		if m.Project().Worktree != worktree {
			t.Errorf("the worktree is another")
		}
		edits := 0
		for edit, err := range m.Edits(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.UndoEdit(t.Context(), edit.UndoID, nil); err != nil {
				t.Errorf("undo of the edit: %v", err)
			}
			edits++
			break
		}
		if edits == 0 {
			t.Error("no edit")
		}
		y.holds("q/a", "zero")
		if _, err := m.Undo(t.Context(), &UndoOptions{}); err != nil {
			t.Error(err)
		}
		y.holds("q/a", "one")
		if r, err := m.Resolve(t.Context(), "turn:1"); err != nil || r == nil {
			t.Errorf("turn:1: %v", err)
		}
	})
	y.turn("q", "s", "a", "two")
	if got := y.timeline("q", "s"); got[0] != "step 3" && got[0] != "step 2" {
		t.Errorf("the next turn is %q", got[0])
	}
	if _, err := places.Locate(y.stores, y.path("p")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old path: %v", err)
	}
	if _, err := places.PlanAdopt(t.Context(), y.path("q"), y.opts("")); !errors.Is(err, places.ErrNotMoved) {
		t.Errorf("PlanAdopt when all is well: %v, want ErrNotMoved", err)
	}

	// What comes to the old path is a project of its own.
	y.write("p/a", "another")
	y.with("p", "s", func(m *FileSnapshotManager) {
		if m.Project().Worktree != worktree || m.StoreDir() == filepath.Join(y.stores, capture.PathHash(y.path("q"))) {
			t.Errorf("worktree %s in %s", m.Project().Worktree, m.StoreDir())
		}
		if r, err := m.Initialize(t.Context()); err != nil || r.Since != nil {
			t.Errorf("first look: %+v, %v", r, err)
		}
	})
	// And there and back again.
	if err := os.RemoveAll(y.path("p")); err != nil {
		t.Fatal(err)
	}
	if err := places.Remove(t.Context(), filepath.Join(y.stores, capture.PathHash(y.path("p")))); err != nil {
		t.Fatal(err)
	}
	y.move("q", "p")
	y.adopt("p", "")
	if got := y.timeline("p", "s"); len(got) < len(before) {
		t.Errorf("timeline back at p: %q", got)
	}
}

// What lies below a project goes along, and what was captured elsewhere stays.
func TestMovedBelow(t *testing.T) {
	y := newYard(t)
	y.gitRun(".", "init", "-q", "repo")
	y.gitRun("repo", "commit", "-q", "--allow-empty", "-m", "first")
	y.gitRun("repo", "worktree", "add", "-q", "../linked")
	y.turn("repo/sub", "s", "b", "1")
	y.turn("repo", "s", "a", "1")
	y.turn("linked", "s", "c", "1")
	y.move("repo", "moved")
	y.gitRun("moved", "worktree", "repair")
	// The store is recognised from any of them.
	if _, err := Open(t.Context(), y.path("linked"),
		&Options{StoreRoot: y.stores, Session: "s"}); !errors.Is(err, places.ErrMovedAway) {
		t.Errorf("Open of the linked one: %v", err)
	}
	y.adopt("moved/sub", "")
	for _, dir := range []string{"moved", "moved/sub", "linked"} {
		y.wantTimeline(dir, "s", "step 0", "start -1")
		y.turn(dir, "s", "more", "2")
		y.wantTimeline(dir, "s", "step 1", "step 0", "start -1")
	}
	if names, err := places.Names(y.stores); err != nil || len(names) != 1 {
		t.Errorf("stores %v, %v", names, err)
	}
}

// git worktree move keeps the git directory, and so the history.
func TestMovedWorktree(t *testing.T) {
	y := newYard(t)
	y.gitRun(".", "init", "-q", "repo")
	y.gitRun("repo", "commit", "-q", "--allow-empty", "-m", "first")
	y.gitRun("repo", "worktree", "add", "-q", "../wt")
	y.turn("repo", "s", "a", "1")
	y.turn("wt", "s", "a", "1")
	y.with("wt", "s", func(m *FileSnapshotManager) {
		if _, err := m.Snapshot(t.Context(), &SnapshotOptions{Label: "important"}); err != nil {
			t.Fatal(err)
		}
	})
	before := y.timeline("wt", "s")
	y.gitRun("repo", "worktree", "move", "wt", "../elsewhere")

	// A prune from the main one knows that it was moved, long as it may be.
	y.with("repo", "s", func(m *FileSnapshotManager) {
		time.Sleep(2 * time.Millisecond)
		plan, err := retain.PlanPrune(t.Context(), m.store, &retain.Retention{KeepDeleted: time.Millisecond})
		if err != nil || len(plan.Dropped) > 0 {
			t.Errorf("prune drops %v, %v, of a worktree that was moved", plan.Dropped, err)
		}
	})
	var away *places.MovedError
	if _, err := Open(t.Context(), y.path("elsewhere"),
		&Options{StoreRoot: y.stores, Session: "s"}); !errors.As(err, &away) || away.From != y.path("wt") ||
		away.IsWhole() {
		t.Fatalf("Open of what was moved: %v", err)
	}
	if got := y.timeline("wt", "s"); !slices.Equal(got, before) {
		t.Errorf("timeline of wt: %q, want %q", got, before)
	}
	// The engine does it unasked.
	e, err := NewEngine(&EngineOptions{StoreRoot: y.stores})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	m, err := Open(t.Context(), y.path("elsewhere"), &Options{Engine: e, Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if got := y.timeline("elsewhere", "s"); !slices.Equal(got, before) {
		t.Errorf("timeline of elsewhere: %q, want %q", got, before)
	}
	// What comes to the old path begins anew, beside it.
	y.gitRun("repo", "worktree", "add", "-q", "../wt", "-b", "again")
	y.turn("wt", "s", "b", "2")
	y.wantTimeline("wt", "s", "step 0", "start -1")
	if got := y.timeline("elsewhere", "s"); !slices.Equal(got, before) {
		t.Errorf("timeline of elsewhere: %q, want %q", got, before)
	}
	// One that was removed and made again under the same name is another.
	y.gitRun("repo", "worktree", "remove", "--force", "wt")
	y.gitRun("repo", "worktree", "add", "-q", "../third/wt", "-b", "third")
	if _, err := Open(t.Context(), y.path("third/wt"),
		&Options{StoreRoot: y.stores, Session: "s", ReadOnly: true}); err != nil {
		t.Errorf("Open of another worktree: %v", err)
	}
}

// A copy is another directory: who names the old path has its history go on there.
func TestCopiedProject(t *testing.T) {
	y := newYard(t)
	y.write("p/a", "start")
	y.turn("p", "s", "a", "one")
	y.write("q/a", "one")
	if _, err := places.PlanAdopt(t.Context(), y.path("q"), y.opts(y.path("p"))); !errors.Is(err,
		places.ErrStillThere) {
		t.Errorf("adopt of what is there: %v, want ErrStillThere", err)
	}
	if err := os.RemoveAll(y.path("p")); err != nil {
		t.Fatal(err)
	}
	if _, err := places.PlanAdopt(t.Context(), y.path("q"), y.opts("")); !errors.Is(err, places.ErrNotMoved) {
		t.Errorf("adopt without a name: %v, want ErrNotMoved", err)
	}
	if _, err := places.PlanAdopt(t.Context(), y.path("q"), y.opts(y.path("never"))); !errors.Is(err, ErrUnknown) {
		t.Errorf("adopt of what never was: %v, want ErrUnknown", err)
	}
	// A store without a snapshot is no history.
	y.with("q", "s", func(*FileSnapshotManager) {})
	for _, from := range []string{y.path("p"), capture.PathHash(y.path("p"))[:8],
		filepath.Join(y.stores, capture.PathHash(y.path("p")))} {
		if mv, err := places.PlanAdopt(t.Context(), y.path("q"), y.opts(from)); err != nil || mv.Sure ||
			mv.From != y.path("p") {
			t.Errorf("adopt of %s: %+v, %v", from, mv, err)
		}
	}
	y.adopt("q", y.path("p"))
	y.wantTimeline("q", "s", "step 0", "start -1")

	// One that has a history keeps it, and so does the other.
	y.write("r/a", "start")
	y.turn("r", "s", "a", "one")
	y.turn("r", "s", "a", "two")
	y.move("r", "gone")
	if err := os.RemoveAll(y.path("gone")); err != nil {
		t.Fatal(err)
	}
	if _, err := places.PlanAdopt(t.Context(), y.path("q"), y.opts(y.path("r"))); !errors.Is(err,
		places.ErrHasHistory) || !strings.Contains(err.Error(), y.path("q")) ||
		!strings.Contains(err.Error(), y.path("r")) {
		t.Errorf("adopt where a history is: %v, want ErrHasHistory of both", err)
	}
	y.wantTimeline("q", "s", "step 0", "start -1")
	y.wantTimeline("r", "s", "step 1", "step 0", "start -1")
}

// A number that was given out again is no identity.
func TestInodeReused(t *testing.T) {
	y := newYard(t)
	y.turn("p", "s", "a", "one")
	y.turn("q", "s", "a", "other")
	edit := func(change func(*places.Place)) {
		t.Helper()
		fsys := vfs.OS(filepath.Join(y.stores, capture.PathHash(y.path("p"))))
		if err := places.ChangePlaces(t.Context(), fsys, func(ps *places.File, _ *cas.Description) error {
			change(ps.Main)
			change(&ps.Worktrees[0])
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	y.move("p", "r")
	edit(func(p *places.Place) { p.Dir.Born++ })
	if loc, err := places.Locate(y.stores, y.path("r")); err != nil || loc.Moved != nil {
		t.Errorf("another time of birth: %+v, %v", loc.Moved, err)
	}
	// Without times it may be the same: nobody but who is asked goes on with it.
	edit(func(p *places.Place) { p.Dir.Born = 0 })
	loc, err := places.Locate(y.stores, y.path("r"))
	if err != nil || loc.Moved == nil || loc.Moved.Sure {
		t.Fatalf("no time of birth: %+v, %v", loc.Moved, err)
	}
	m, err := Open(t.Context(), y.path("r"), &Options{StoreRoot: y.stores, Session: "s", Adopt: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.StoreDir() == loc.Moved.Store {
		t.Error("a directory that may be another was adopted unasked")
	}
}

// A directory that is mounted at a second path is one worktree of one store.
func TestBoundDirectory(t *testing.T) {
	y := newYard(t)
	y.write("p/sub/a", "one")
	y.turn("p", "s", "b", "one")
	y.turn("p/sub", "s", "b", "one")
	for _, name := range []string{"bound", "boundsub"} {
		if err := os.Mkdir(y.path(name), 0o755); err != nil {
			t.Fatal(err)
		}
		from := map[string]string{"bound": "p", "boundsub": "p/sub"}[name]
		if out, err := exec.Command("mount", "--bind", y.path(from), y.path(name)).CombinedOutput(); err != nil {
			t.Skipf("mount --bind is not permitted: %v: %s", err, out)
		}
		t.Cleanup(func() {
			if out, err := exec.Command("umount", y.path(name)).CombinedOutput(); err != nil {
				t.Errorf("umount: %v: %s", err, out)
			}
		})
	}
	y.wantTimeline("bound", "s", "step 0", "start -1")
	y.turn("bound", "s", "b", "two")
	y.turn("p", "s", "b", "three")
	y.turn("bound", "s", "b", "four")
	y.turn("bound/sub", "s", "b", "two")
	y.turn("boundsub", "s", "b", "three")
	// the turn in sub is nobody's here
	y.wantTimeline("p", "s", "step 3", "step 2", "step 1", "base -1", "step 0", "start -1")
	y.wantTimeline("p/sub", "s", "step 2", "step 1", "step 0", "start -1")
	if names, err := places.Names(y.stores); err != nil || len(names) != 2 { // p, and p/sub which is no repository's
		t.Errorf("stores %v, %v", names, err)
	}
	if _, err := places.PlanAdopt(t.Context(), y.path("bound"),
		y.opts(y.path("p"))); !errors.Is(err, places.ErrStillThere) {
		t.Errorf("adopt: %v, want ErrStillThere", err)
	}
}

// In a container the path of the directory is another, and its own is not to be
// seen: that does not mean that it is gone.
func TestElsewhere(t *testing.T) {
	y := newYard(t)
	y.turn("p", "s", "a", "one")
	fsys := vfs.OS(filepath.Join(y.stores, capture.PathHash(y.path("p"))))
	if err := places.ChangePlaces(t.Context(), fsys, func(ps *places.File, _ *cas.Description) error {
		ps.Main.View, ps.Worktrees[0].View = "another", "another"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	y.move("p", "workspace")
	y.turn("workspace", "s", "a", "two")
	y.wantTimeline("workspace", "s", "step 1", "step 0", "start -1")
	y.with("workspace", "s", func(m *FileSnapshotManager) {
		time.Sleep(2 * time.Millisecond)
		if plan, err := retain.PlanPrune(t.Context(), m.store,
			&retain.Retention{KeepDeleted: time.Millisecond}); err != nil || len(plan.Dropped) > 0 {
			t.Errorf("prune drops %v, %v", plan.Dropped, err)
		}
	})
	list, err := places.Stores(t.Context(), y.stores)
	if err != nil || len(list) != 1 || list[0].Presence != places.Elsewhere || list[0].Project != y.path("p") {
		t.Errorf("stores %+v, %v", list, err)
	}
	// Back where it comes from, nothing has happened.
	if err := places.ChangePlaces(t.Context(), fsys, func(ps *places.File, _ *cas.Description) error {
		for _, p := range append(ps.Worktrees, *ps.Main) {
			if p.View != "another" || string(p.Root) != y.path("p") {
				return fmt.Errorf("placed at %s in view %s", p.Root, p.View)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	y.move("workspace", "p")
	y.turn("p", "s", "a", "three")
	y.wantTimeline("p", "s", "step 2", "step 1", "step 0", "start -1")
}

// Whatever operation fails, or is the last before a crash: the history is whole
// under the old path or the new one, and adopting again, or an engine that opens the
// directory, brings it to its end.
func TestAdoptFaults(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	for _, sticky := range []bool{true, false} {
		for _, again := range []string{"adopt", "engine"} {
			if !sticky && again == "engine" {
				continue
			}
			at := int64(0)
			for adoptFaultAt(t, at, sticky, again) && !t.Failed() {
				at += stride(7)
			}
			if at < 50 && !t.Failed() {
				t.Errorf("only %d operations", at)
			}
		}
	}
}

func adoptFaultAt(t *testing.T, at int64, sticky bool, again string) bool {
	y := newYard(t)
	for _, name := range []string{"objects", "refs"} {
		if err := os.MkdirAll(y.path("p/.git/"+name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	y.write("p/.git/HEAD", "ref: refs/heads/main\n")
	y.write("p/a", "start")
	y.turn("p/sub", "s", "b", "one")
	y.turn("p", "s", "a", "one")
	want := y.timeline("p", "s")
	if at%2 == 0 { // a store from before directories were written down
		if err := os.Remove(filepath.Join(y.stores, capture.PathHash(y.path("p")), places.FileName)); err != nil {
			t.Fatal(err)
		}
	}
	y.move("p", "q")
	from := ""
	if at%2 == 0 {
		from = y.path("p")
	}
	var failed string // the operation
	n := int64(0)
	fault := &vfstest.Fault{At: at, Sticky: sticky, Trace: func(op, name string) {
		if n == at {
			failed = op + " " + name
		}
		n++
	}}
	mv, err := places.PlanAdopt(t.Context(), y.path("q"), y.opts(from))
	if err != nil {
		t.Fatal(err)
	}
	err = places.Adopt(t.Context(), mv, &places.AdoptOptions{StoreRoot: y.stores, Disk: func(dir string) vfs.FS {
		return vfstest.WithFault(vfs.OS(dir), fault)
	}})
	if err == nil && fault.Fired() && !strings.HasPrefix(failed, "Close ") ||
		err != nil && !errors.Is(err, vfstest.ErrInjected) {
		t.Errorf("fault at operation %d, %s: %v", at, failed, err)
	}
	// It can be read at once, in one place.
	found := 0
	for _, dir := range []string{"p", "q"} {
		if m, err := Open(t.Context(), y.path(dir),
			&Options{StoreRoot: y.stores, Session: "s", ReadOnly: true}); err == nil {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			if got := y.timeline(dir, "s"); !slices.Equal(got, want) {
				t.Errorf("fault at operation %d, %s: timeline of %s: %q, want %q", at, failed, dir, got, want)
			}
			found++
		}
	}
	if found != 1 {
		t.Errorf("fault at operation %d, %s: the history is in %d places", at, failed, found)
	}
	if _, err := os.Stat(filepath.Join(y.stores, capture.PathHash(y.path("q")), "FORMAT")); again == "adopt" &&
		err != nil || again == "engine" && at%2 == 0 && err != nil {
		y.adopt("q", y.path("p"))
	}
	e, err := NewEngine(&EngineOptions{StoreRoot: y.stores})
	if err != nil {
		t.Fatal(err)
	}
	m, err := Open(t.Context(), y.path("q"), &Options{Engine: e, Session: "s"})
	if err != nil {
		t.Errorf("fault at operation %d, %s: %v", at, failed, err)
	} else {
		(&bench{T: t}).turn(m, func() { y.write("q/a", "two") })
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	y.wantTimeline("q", "s", append([]string{"step 1"}, want...)...)
	y.wantTimeline("q/sub", "s", "step 0", "start -1")
	if d, err := cas.Describe(vfs.OS(filepath.Join(y.stores, capture.PathHash(y.path("q"))))); err != nil ||
		d.Root != y.path("q") {
		t.Errorf("fault at operation %d, %s: FORMAT says %+v, %v", at, failed, d, err)
	}
	return fault.Fired()
}

// Somebody who has the store open keeps it where it is; an engine that only has the
// old path lying about does not.
func TestAdoptBusy(t *testing.T) {
	t.Parallel() // it waits for those who do not go
	y := newYard(t)
	y.turn("p", "s", "a", "one")
	reader, err := Open(t.Context(), y.path("p"), &Options{StoreRoot: y.stores, Session: "s", ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	y.move("p", "q")
	mv, err := places.PlanAdopt(t.Context(), y.path("q"), y.opts(""))
	if err != nil {
		t.Fatal(err)
	}
	if err := places.Adopt(t.Context(), mv, y.opts("")); !errors.Is(err, cas.ErrBusy) {
		t.Errorf("Adopt while it is read: %v, want ErrBusy", err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	y.adopt("q", "")

	e, err := NewEngine(&EngineOptions{StoreRoot: y.stores})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	m, err := Open(t.Context(), y.path("q"), &Options{Engine: e, Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	y.move("q", "r")
	if m, err = Open(t.Context(), y.path("r"), &Options{Engine: e, Session: "s"}); err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	y.wantTimeline("r", "s", "step 0", "start -1")
}

// What has a label stays, though its directory was deleted.
func TestPruneDeletedKeepsLabels(t *testing.T) {
	y := newYard(t)
	y.turn("p", "s", "a", "one")
	var named uint64
	y.with("p", "s", func(m *FileSnapshotManager) {
		r, err := m.Snapshot(t.Context(), &SnapshotOptions{Label: "keep me"})
		if err != nil {
			t.Fatal(err)
		}
		named = r.Snapshot.Seq
	})
	y.turn("p", "s", "a", "two")
	if err := os.RemoveAll(y.path("p")); err != nil {
		t.Fatal(err)
	}
	y.write("other", "") // the directory above is no empty mount point
	time.Sleep(2 * time.Millisecond)
	dir := filepath.Join(y.stores, capture.PathHash(y.path("p")))
	s, err := cas.Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	(&bench{T: t}).prune(s, &retain.Retention{KeepDeleted: time.Millisecond})
	if got := seqs(t, s, "s", false); !slices.Equal(got, []uint64{named}) {
		t.Errorf("kept %v, want %d alone", got, named)
	}
}

// Stores of directories that are gone are looked at once a day: what has no label
// goes after some time, and a store in which nothing stays.
func TestAutoPruneSiblings(t *testing.T) {
	t.Parallel() // it waits for those who do not go
	y := newYard(t)
	for _, name := range []string{"here", "gone", "labelled", "renamed", "elsewhere"} {
		y.turn(name, "s", "a", "one")
	}
	y.with("labelled", "s", func(m *FileSnapshotManager) {
		if _, err := m.Snapshot(t.Context(), &SnapshotOptions{Label: "keep me"}); err != nil {
			t.Fatal(err)
		}
	})
	dir := func(name string) string { return filepath.Join(y.stores, capture.PathHash(y.path(name))) }
	if err := places.ChangePlaces(t.Context(), vfs.OS(dir("elsewhere")),
		func(ps *places.File, _ *cas.Description) error {
			ps.Main.View, ps.Worktrees[0].View = "another", "another"
			return nil
		}); err != nil {
		t.Fatal(err)
	}
	y.move("renamed", "new name")
	for _, name := range []string{"gone", "labelled", "elsewhere"} {
		if err := os.RemoveAll(y.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(y.stores, "retention.json"), []byte(`{"keepDeletedDays": 1e-9}`), 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	look := func() {
		t.Helper()
		time.Sleep(2 * time.Millisecond)
		if err := retain.AutoPruneSiblings(t.Context(), y.stores, log); err != nil {
			t.Fatal(err)
		}
	}
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir(name), "FORMAT"))
		return err == nil
	}
	look() // marks what is gone
	if !there("gone") {
		t.Error("a store went when its directory was first seen to be gone")
	}
	look() // too early
	if !there("gone") {
		t.Error("a store went at the second look of a day")
	}
	yesterday := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(filepath.Join(y.stores, "siblings.lock"), yesterday, yesterday); err != nil {
		t.Fatal(err)
	}
	held, err := cas.Open(t.Context(), dir("gone"), &cas.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	look()
	if !there("gone") {
		t.Error("a store went that somebody has open")
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(y.stores, "siblings.lock"), yesterday, yesterday); err != nil {
		t.Fatal(err)
	}
	look()
	for name, want := range map[string]bool{"here": true, "gone": false, "labelled": true, "renamed": true,
		"elsewhere": true} {
		if there(name) != want {
			t.Errorf("store of %s: there %v, want %v", name, !want, want)
		}
	}
	list, err := places.Stores(t.Context(), y.stores)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		switch filepath.Base(s.Project) {
		case "here":
			if s.Presence != places.There || s.Snapshots != 2 || s.Sessions != 1 || s.Labelled != 0 ||
				s.Bytes == 0 || s.Err != nil {
				t.Errorf("here: %+v", s)
			}
		case "labelled":
			if s.Presence != places.Gone || s.Snapshots != 1 || s.Labelled != 1 {
				t.Errorf("labelled: %+v", s)
			}
		case "renamed":
			if s.Presence != places.Gone || s.MovedTo != y.path("new name") || s.Snapshots != 2 {
				t.Errorf("renamed: %+v", s)
			}
		}
	}
	if len(list) != 4 {
		t.Errorf("%d stores", len(list))
	}
}

// Two processes that open a directory for the first time, and one that moves
// another, do each other no harm.
func TestPlacesAtOnce(t *testing.T) {
	y := newYard(t)
	y.gitRun(".", "init", "-q", "repo")
	errs := make(chan error)
	for i := range 8 {
		dir := fmt.Sprintf("repo/d%d", i)
		y.write(dir+"/a", "one")
		go func() {
			m, err := Open(context.Background(), y.path(dir), &Options{StoreRoot: y.stores, Session: "s"})
			if err == nil {
				err = m.Close()
			}
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	ps, _, err := places.Of(vfs.OS(filepath.Join(y.stores, capture.PathHash(y.path("repo")))))
	if err != nil || len(ps.Worktrees) != 8 || ps.Main == nil {
		t.Errorf("%+v, %v", ps, err)
	}
}

// What is missing because a disk is not mounted was not deleted; what was on the
// disk that is there was, though all above it went, too.
func TestDeletedOrNotMounted(t *testing.T) {
	y := newYard(t)
	y.turn("some/where/p", "s", "a", "one")
	fsys := vfs.OS(filepath.Join(y.stores, capture.PathHash(y.path("some/where/p"))))
	if err := os.RemoveAll(y.path("some")); err != nil {
		t.Fatal(err)
	}
	ps, _, err := places.Of(fsys)
	if err != nil {
		t.Fatal(err)
	}
	if !ps.Main.IsGone() || ps.Main.Presence() != places.Gone {
		t.Error("a directory that was deleted with those above it is not gone")
	}
	ps.Main.Dir.Dev++ // as if on another disk
	if ps.Main.IsGone() || ps.Main.Presence() != places.NotSeen {
		t.Error("a directory on a disk that is not mounted is gone")
	}
}

// Where something was moved and it is not known which directory is which, nobody
// begins another history by mistake; the old path brings it back.
func TestPlacesDamaged(t *testing.T) {
	y := newYard(t)
	y.turn("p", "s", "a", "one")
	y.move("p", "q")
	y.adopt("q", "")
	y.turn("q", "s", "a", "two")
	name := filepath.Join(y.stores, capture.PathHash(y.path("q")), places.FileName)
	if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{true, false} {
		if m, err := Open(t.Context(), y.path("q"),
			&Options{StoreRoot: y.stores, Session: "s", ReadOnly: readOnly}); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("Open: %v, %v; want ErrCorrupt", m, err)
		}
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	y.adopt("q", y.path("p"))
	y.wantTimeline("q", "s", "step 1", "step 0", "start -1")
}

// A store that was put in the place of another project's is not used. One whose FORMAT has
// another path by a wrong bit is, since places has the right one, and who writes mends it.
func TestPlacesOfAnother(t *testing.T) {
	y := newYard(t)
	y.turn("p", "s", "a", "one")
	y.turn("q", "s", "a", "one")
	dir := func(name string) string { return filepath.Join(y.stores, capture.PathHash(y.path(name))) }
	flipped := []byte(y.path("p"))
	flipped[len(flipped)-1] ^= 1
	if err := cas.SetRoot(vfs.OS(dir("p")), string(flipped)); err != nil {
		t.Fatal(err)
	}
	y.wantTimeline("p", "s", "step 0", "start -1")
	y.turn("p", "s", "a", "two")
	y.wantTimeline("p", "s", "step 1", "step 0", "start -1")
	if d, err := cas.Describe(vfs.OS(dir("p"))); err != nil || d.Root != y.path("p") {
		t.Errorf("Describe: %+v, %v; want %q", d, err, y.path("p"))
	}

	if err := errors.Join(os.RemoveAll(dir("q")), os.Rename(dir("p"), dir("q"))); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{true, false} {
		if m, err := Open(t.Context(), y.path("q"),
			&Options{StoreRoot: y.stores, Session: "s", ReadOnly: readOnly}); !errors.Is(err, places.ErrOtherProject) {
			t.Errorf("Open: %v, %v; want ErrOtherProject", m, err)
		}
	}
}
