package manager

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/rollback"
)

// run runs git in the directory, away from the user's configuration.
func (b *bench) run(args ...string) {
	b.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "HOME="+b.stores, "XDG_CONFIG_HOME=", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL="+os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// sparseBench is a repository with three directories of files, which hold their
// names, and a session in it.
func sparseBench(t *testing.T) (*bench, *FileSnapshotManager) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("NOT TESTED: git, which takes files out, is not installed")
	}
	b := newBench(t)
	b.run("init", "-q", "-b", "main")
	for _, name := range []string{"docs/a", "docs/sub/b", "src/c", "src/d", "top"} {
		b.write(name, name)
	}
	b.run("add", ".")
	b.run("commit", "-qm", "first")
	m := b.open("s")
	b.initialize(m)
	return b, m
}

// sparseFiles are those of sparseBench, without some, and with others.
func sparseFiles(without string, with files) files {
	all := files{"docs/a": "docs/a", "docs/sub/b": "docs/sub/b", "src/c": "src/c", "src/d": "src/d", "top": "top"}
	for name := range strings.FieldsSeq(without) {
		delete(all, name)
	}
	for name, content := range with {
		all[name] = content
	}
	return all
}

// expectTracked compares the files but git's own.
func (b *bench) expectTracked(want files) {
	b.Helper()
	got := b.files()
	for name := range got {
		if strings.HasPrefix(name, ".git/") {
			delete(got, name)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		b.Errorf("the directory (-want +got):\n%s", d)
	}
}

func (b *bench) expectWhy(r *RestoreResult, want map[string]string) {
	b.Helper()
	got := make(map[string]string)
	for _, it := range r.Items {
		if it.Why != "" {
			got[it.Path] = string(it.Do) + ": " + it.Why
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		b.Errorf("why (-want +got):\n%s", d)
	}
}

const sparseSkipped = "skipped: " + capture.WhyTakenOut

// TestSparseTurn: what git takes out in a turn the turn has not deleted, and what
// it deletes otherwise it has. The one stays, the other comes back.
func TestSparseTurn(t *testing.T) {
	b, m := sparseBench(t)
	b.turn(m, func() {
		b.run("sparse-checkout", "set", "src")
		b.remove("src/d")
		b.write("src/c", "edited")
	})
	want := map[string]string{"src/c": "modified turn", "src/d": "deleted turn"}
	if d := cmp.Diff(want, brief(b.modified(m, nil))); d != "" {
		t.Errorf("the turn (-want +got):\n%s", d)
	}
	if _, err := m.FileDiff(t.Context(), &FileRange{Path: "docs/a", From: "start"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("FileDiff of what git has taken out: %v", err)
	}
	out := map[string]string{"docs/a": sparseSkipped, "docs/sub/b": sparseSkipped}
	for _, policy := range []rollback.Policy{"", rollback.Overwrite} { // nobody names it
		r := b.restore(m, &RestoreOptions{Target: "start", OnDirty: policy})
		b.expectTracked(sparseFiles("docs/a docs/sub/b", nil))
		b.expectWhy(r, out)
		if r.IsComplete() {
			t.Errorf("with policy %q all is done", policy)
		}
		b.undo(m)
		b.expectTracked(sparseFiles("docs/a docs/sub/b src/d", files{"src/c": "edited"}))
	}
	r := b.restore(m, &RestoreOptions{Target: "start", Exact: true})
	b.expectTracked(sparseFiles("docs/a docs/sub/b", nil))
	if d := cmp.Diff([]string{"docs/a", "docs/sub/b"}, r.NotCaptured); d != "" {
		t.Errorf("exact: not captured (-want +got):\n%s", d)
	}
	// When git has brought it back, nothing is left to be done.
	b.run("sparse-checkout", "disable")
	r = b.restore(m, &RestoreOptions{Target: "start"})
	b.expectTracked(sparseFiles("", nil))
	if !r.IsComplete() {
		t.Errorf("with all there: %+v", r)
	}
}

// TestSparseNamed: a file that is named comes back only where what others did is
// to be overwritten, too.
func TestSparseNamed(t *testing.T) {
	for _, path := range []string{"docs/a", "docs", "docs/**"} {
		b, m := sparseBench(t)
		b.turn(m, func() { b.run("sparse-checkout", "set", "src") })
		r := b.restore(m, &RestoreOptions{Target: "start", Paths: []string{path}})
		b.expectTracked(sparseFiles("docs/a docs/sub/b", nil))
		if r.IsComplete() {
			t.Errorf("%q: %+v", path, r)
		}
		if path == "docs/a" {
			b.expectWhy(r, map[string]string{"docs/a": sparseSkipped})
		}
		r = b.restore(m, &RestoreOptions{Target: "start", Paths: []string{path}, OnDirty: rollback.Overwrite})
		if !slices.Contains(r.Restored, "docs/a") {
			t.Errorf("%q: restored are %q", path, r.Restored)
		}
		want := sparseFiles("", nil)
		if path == "docs/a" {
			delete(want, "docs/sub/b")
		}
		b.expectTracked(want)
		b.undo(m)
		b.expectTracked(sparseFiles("docs/a docs/sub/b", nil))
	}
}

// TestSparseUser: what the user has git take out between turns is not put back by
// a restore of what a turn did there.
func TestSparseUser(t *testing.T) {
	b, m := sparseBench(t)
	b.turn(m, func() {
		b.write("docs/a", "edited")
		b.write("top", "edited")
		b.remove("docs/sub/b")
	})
	b.run("commit", "-qam", "edited")
	b.run("sparse-checkout", "set", "src")
	b.turn(m, func() { b.write("src/c", "edited") })
	if d := cmp.Diff(map[string]string{"src/c": "modified turn"},
		brief(b.modified(m, &Range{From: "turn:0", To: "turn:1"}))); d != "" {
		t.Errorf("the second turn (-want +got):\n%s", d)
	}
	r := b.restore(m, &RestoreOptions{Target: "start", AcrossHead: true})
	// docs/sub/b is no file of git's any more.
	b.expectTracked(sparseFiles("docs/a", nil))
	b.expectWhy(r, map[string]string{"docs/a": sparseSkipped})
	b.undo(m)
	b.expectTracked(sparseFiles("docs/a docs/sub/b", files{"src/c": "edited", "top": "edited"}))
}

// TestSparseDisabled: what git brings back in a turn the turn has not made, and
// a restore does not delete it, nor if it is named.
func TestSparseDisabled(t *testing.T) {
	b, _ := sparseBench(t)
	b.run("sparse-checkout", "set", "src")
	m := b.open("other")
	b.initialize(m)
	b.turn(m, func() {
		b.run("sparse-checkout", "disable")
		b.write("new", "new")
	})
	if _, err := m.FileDiff(t.Context(), &FileRange{Path: "docs/a", From: "start"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("FileDiff of what git has brought back: %v", err)
	}
	if d := cmp.Diff(map[string]string{"new": "added turn"}, brief(b.modified(m, nil))); d != "" {
		t.Errorf("the turn (-want +got):\n%s", d)
	}
	b.restore(m, &RestoreOptions{Target: "start"})
	b.expectTracked(sparseFiles("", nil))
	r := b.restore(m, &RestoreOptions{Target: "start", Paths: []string{"docs/a"}, OnDirty: rollback.Overwrite})
	b.expectTracked(sparseFiles("", nil))
	b.expectWhy(r, map[string]string{"docs": `kept: it holds "docs/a": ` + whyBroughtBack, "docs/a": "kept: " + whyBroughtBack})
	b.restore(m, &RestoreOptions{Target: "start", Exact: true})
	b.expectTracked(sparseFiles("", nil))
}

// TestSparseWritten: what an agent writes where git has taken out everything is
// the turn's, and goes with it.
func TestSparseWritten(t *testing.T) {
	b, _ := sparseBench(t)
	b.run("sparse-checkout", "set", "src")
	m := b.open("other")
	b.initialize(m)
	b.turn(m, func() {
		b.write("docs/new", "new")
		b.write("docs/a", "written")
	})
	if d := cmp.Diff(map[string]string{"docs/a": "added turn", "docs/new": "added turn"},
		brief(b.modified(m, nil))); d != "" {
		t.Errorf("the turn (-want +got):\n%s", d)
	}
	if d, err := m.FileDiff(t.Context(), &FileRange{Path: "docs/a", From: "start"}); err != nil ||
		*d.NewContent != "written" {
		t.Errorf("FileDiff: %+v, %v", d, err)
	}
	b.turn(m, func() { b.remove("docs/new") })
	b.restore(m, &RestoreOptions{Target: "turn:0"})
	b.expectTracked(sparseFiles("docs/sub/b", files{"docs/a": "written", "docs/new": "new"}))
	b.restore(m, &RestoreOptions{Target: "start"})
	b.expectTracked(sparseFiles("docs/a docs/sub/b", nil))
}

// TestSparseMovedDirectory: what git has taken out of a directory does not go
// along when it is moved back.
func TestSparseMovedDirectory(t *testing.T) {
	b, m := sparseBench(t)
	b.run("sparse-checkout", "set", "--no-cone", "/*", "!/src/d")
	b.turn(m, func() {
		if err := os.Rename(filepath.Join(b.dir, "src"), filepath.Join(b.dir, "moved")); err != nil {
			t.Fatal(err)
		}
	})
	r := b.restore(m, &RestoreOptions{Target: "start"})
	b.expectTracked(sparseFiles("src/d", nil))
	if len(r.Moves) > 0 || !r.IsComplete() {
		t.Errorf("%+v", r)
	}
}

// TestSparseCoverage: what was taken out when the session began is in no turn,
// and is listed with the reason.
func TestSparseCoverage(t *testing.T) {
	b, m := sparseBench(t)
	b.run("sparse-checkout", "set", "src")
	r := b.start(m)
	var list []string
	for o, err := range trees.Coverage(t.Context(), m.store, r.Capture.Coverage) {
		if err != nil {
			t.Fatal(err)
		}
		if o.Reason == trees.Sparse {
			list = append(list, o.Path)
		}
	}
	if d := cmp.Diff([]string{"docs"}, list); d != "" {
		t.Errorf("omitted (-want +got):\n%s", d)
	}
	b.end(m)
	if rows := b.modified(m, nil); len(rows) > 0 {
		t.Errorf("a turn that did nothing: %v", brief(rows))
	}
}

// TestSparseBackAndMade: what is made in a directory that git has brought back in
// the same turn is taken for git's, and left alone; what is made a turn later is
// that turn's.
func TestSparseBackAndMade(t *testing.T) {
	b, _ := sparseBench(t)
	b.run("sparse-checkout", "set", "src")
	m := b.open("other")
	b.initialize(m)
	b.turn(m, func() {
		b.run("sparse-checkout", "disable")
		b.write("docs/new", "new")
	})
	b.turn(m, func() { b.write("docs/newer", "newer") })
	if d := cmp.Diff(map[string]string{"docs/newer": "added turn"}, brief(b.modified(m, nil))); d != "" {
		t.Errorf("the turns (-want +got):\n%s", d)
	}
	b.restore(m, &RestoreOptions{Target: "start"})
	b.expectTracked(sparseFiles("", files{"docs/new": "new"}))

	// The other way round: deleted, and then all around it taken out.
	b, _ = sparseBench(t)
	b.write("docs/own", "own")
	m = b.open("other")
	b.initialize(m)
	b.turn(m, func() { b.remove("docs/own") })
	b.run("sparse-checkout", "set", "src")
	b.turn(m, func() { b.write("src/c", "edited") })
	if d := cmp.Diff(map[string]string{"docs/own": "deleted turn", "src/c": "modified turn"},
		brief(b.modified(m, nil))); d != "" {
		t.Errorf("the turns (-want +got):\n%s", d)
	}
	r := b.restore(m, &RestoreOptions{Target: "start"})
	b.expectTracked(sparseFiles("docs/a docs/sub/b", files{"docs/own": "own"}))
	if !r.IsComplete() {
		t.Errorf("%+v", r)
	}
}
