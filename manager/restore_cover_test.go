package manager

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
)

// A coverModel restores at random where ignore rules and a size limit come and
// go. It knows no plan; it holds what was done against what must always hold.
type coverModel struct {
	*bench
	rng     *rand.Rand
	m       *FileSnapshotManager
	targets []string
	turned  map[string]bool   // paths that a turn has changed
	touched map[string][]node // what was at a path before and after a turn that changed it, or the rules
}

// TestRestoreCoverageModel restores over files that are captured at one moment
// and not at another.
func TestRestoreCoverageModel(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	first := testseed.Of(t)
	for i := range uint64(*modelRuns) {
		t.Run(fmt.Sprint("seed=", first+i), func(t *testing.T) {
			cm := &coverModel{bench: &bench{T: t, dir: t.TempDir()}, rng: rand.New(rand.NewPCG(first+i, 2)),
				targets: []string{"start"}, turned: make(map[string]bool), touched: make(map[string][]node)}
			m, err := openOn(t, cm.dir, vfstest.NewMem())
			if err != nil {
				t.Fatal(err)
			}
			m.opts.Limits.FileSize = 20
			cm.m = m
			cm.run()
		})
	}
}

func (cm *coverModel) run() {
	cm.edit()
	cm.initialize(cm.m)
	for range *modelSteps {
		switch cm.rng.IntN(7) {
		case 0:
			cm.edit()
		case 1, 2, 3:
			cm.turnAtRandom()
		default:
			cm.restore()
		}
		if cm.Failed() {
			cm.FailNow()
		}
	}
	cm.check(cm.m.store)
	if err := cm.m.Close(); err != nil {
		cm.Error(err)
	}
}

var (
	cmNames = []string{"a", "b.x", "dir/a", "dir/b.x", "dir/sub/c", "dir/sub/d.x", "other/e"}
	cmRules = []string{"", "*.x\n", "dir/\n", "/a\n*.x\n!b.x\n", "sub\n", "*\n!.gitignore\n"}
)

// edit changes files and rules at random.
func (cm *coverModel) edit() {
	for range 1 + cm.rng.IntN(3) {
		p := filepath.Join(cm.dir, cmNames[cm.rng.IntN(len(cmNames))])
		var err error
		switch cm.rng.IntN(8) {
		case 0, 1:
			if err = os.Remove(p); err == nil && filepath.Dir(p) != cm.dir && cm.rng.IntN(2) == 0 {
				os.Remove(filepath.Dir(p)) // if it is empty
			}
		case 2: // too large to be captured
			err = errors.Join(os.MkdirAll(filepath.Dir(p), 0o755),
				os.WriteFile(p, []byte(strings.Repeat(fmt.Sprint(cm.rng.IntN(4)), 30)), 0o644))
		case 3:
			err = os.RemoveAll(filepath.Join(cm.dir, "dir", "sub"))
		case 4:
			err = os.WriteFile(filepath.Join(cm.dir, ".gitignore"), []byte(cmRules[cm.rng.IntN(len(cmRules))]), 0o644)
		default:
			err = errors.Join(os.MkdirAll(filepath.Dir(p), 0o755),
				os.WriteFile(p, []byte(fmt.Sprint(cm.rng.IntN(4))), 0o644))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			cm.Fatal(err)
		}
	}
}

func (cm *coverModel) turnAtRandom() {
	cm.start(cm.m)
	before := readWorld(cm.T, cm.dir)
	cm.edit()
	after := readWorld(cm.T, cm.dir)
	if r := cm.end(cm.m); r.Data != nil {
		cm.targets = append(cm.targets, r.EntryID)
	}
	for _, p := range changed(before, after) {
		cm.turned[p] = true
		cm.touched[p] = append(cm.touched[p], before[p], after[p])
	}
	if before[".gitignore"] != after[".gitignore"] {
		for _, p := range cmNames {
			cm.touched[p] = append(cm.touched[p], before[p], after[p])
		}
	}
}

// changed lists the paths that differ.
func changed(before, after world) (paths []string) {
	for p, n := range before {
		if m, ok := after[p]; !ok || m != n {
			paths = append(paths, p)
		}
	}
	for p := range after {
		if _, ok := before[p]; !ok {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

func (cm *coverModel) restore() {
	opts := &RestoreOptions{Target: cm.targets[cm.rng.IntN(len(cm.targets))],
		OnDirty: []rollback.Policy{"", rollback.Skip, rollback.Overwrite, rollback.Abort}[cm.rng.IntN(4)]}
	switch cm.rng.IntN(4) {
	case 0:
		opts.Exact = true
	case 1:
		opts.Paths = []string{[]string{".", "dir", "*.x", "**/*.x"}[cm.rng.IntN(4)]}
	}
	before := readWorld(cm.T, cm.dir)
	shown := *opts
	shown.Preview = true
	preview, err := cm.m.RestoreFiles(cm.Context(), &shown)
	if opts.Paths != nil && errors.Is(err, ErrUnknown) {
		return // there is no such path
	}
	if err != nil {
		cm.Fatalf("preview %+v: %v", shown, err)
	}
	if d := cmp.Diff(before, readWorld(cm.T, cm.dir), cmp.AllowUnexported(node{})); d != "" {
		cm.Fatalf("a preview of %+v changed (-before +after):\n%s", shown, d)
	}
	r, err := cm.m.RestoreFiles(cm.Context(), opts)
	if err != nil {
		cm.Fatalf("%+v: %v", opts, err)
	}
	after := readWorld(cm.T, cm.dir)
	preview.Preview, preview.EntryID, preview.PreRollbackTreeHash, preview.Snapshot = false, r.EntryID,
		r.PreRollbackTreeHash, r.Snapshot
	if d := cmp.Diff(preview, r); d != "" {
		cm.Errorf("%+v (-preview +done):\n%s", opts, d)
	}
	target, err := cm.m.Resolve(cm.Context(), opts.Target)
	if err != nil {
		cm.Fatal(err)
	}
	for _, p := range changed(before, after) {
		cm.checkPath(opts, r, target, p, before, after)
	}
	if cm.Failed() {
		cm.Logf("%+v, result %+v, before %+v, after %+v", opts, r, before, after)
		return
	}
	if r.Snapshot != nil && cm.rng.IntN(2) == 0 {
		if _, err := cm.m.Undo(cm.Context(), nil); err != nil {
			cm.Fatal(err)
		}
		if d := cmp.Diff(before, readWorld(cm.T, cm.dir), cmp.AllowUnexported(node{})); d != "" {
			cm.Errorf("%+v, undone (-before +after):\n%s\nresult %+v", opts, d, r)
		}
	}
}

// checkPath holds a path that a restore changed against what must always hold.
func (cm *coverModel) checkPath(opts *RestoreOptions, r *RestoreResult, target *Point, p string, before, after world) {
	was, there := before[p]
	is, stays := after[p]
	listed := slices.Contains(r.Restored, p) || slices.Contains(r.Deleted, p)
	dirty := slices.Contains(r.Dirty, p)
	dir := there && was.mode.IsDir() || stays && is.mode.IsDir()
	switch {
	case !dir && !listed:
		cm.Errorf("%s: changed, and not listed", p)
	case !opts.Exact && opts.Paths == nil && !dir && !dirty && !stays && !cm.turned[p]:
		cm.Errorf("%s: deleted, and no turn has ever changed it", p)
	}
	if there && !dir {
		f, err := cm.m.fileIn(cm.Context(), r.Snapshot.Base, p)
		if err != nil || string(f.file.Content) != was.content {
			cm.Errorf("%s: not in the store as it was (%v)", p, err)
		}
	}
	if stays && !dir && !dirty {
		byTurns := !opts.Exact && opts.Paths == nil
		f, err := cm.m.fileIn(cm.Context(), target.State, p)
		if (err != nil || f.entry == nil || string(f.file.Content) != is.content) &&
			!(byTurns && slices.Contains(cm.touched[p], is)) {
			cm.Errorf("%s: is %q, and not as at the target (%v)", p, is.content, err)
		}
	}
	if !stays {
		out, err := trees.IsOmitted(cm.Context(), cm.m.store, target.State.Coverage, p)
		if err != nil || out {
			cm.Errorf("%s: deleted, and the target knew that it was there (%v)", p, err)
		}
	}
}

// A restore to the middle of a turn took back a part of it, and only the one that takes back the rest has taken
// back the turn.
func TestTimelineWithinTurn(t *testing.T) {
	b := newBench(t)
	m := b.open("s", func(o *Options) { o.ToolWindows = true })
	b.write("a", "0")
	b.initialize(m)
	for _, turn := range [][]string{{"a", "b"}, {"c"}} {
		b.start(m)
		for _, file := range turn {
			b.tool(m, "write", func() { b.write(file, "agent") })
		}
		b.end(m)
	}
	expect := func(what string, takenBack int, want ...string) {
		t.Helper()
		var got []string
		var list []*Moment
		for mo, err := range m.Timeline(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, mo)
		}
		for i, mo := range list {
			if mo.Kind == "restore" || mo.Kind == "undo" {
				got = append(got, fmt.Sprint(mo.Kind, mo.TookBack, mo.PutBack, mo.PartOf))
			}
			if mo.TurnIndex != 0 {
				continue
			}
			by := slices.IndexFunc(list[:i], func(r *Moment) bool {
				return mo.TakenBack != nil && r.Snapshot.Seq == mo.TakenBack.Seq
			})
			if by != takenBack {
				t.Errorf("%s: turn 0 was taken back by line %d, want %d", what, by, takenBack)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	if r := b.restore(m, &RestoreOptions{Target: "look:2"}); !slices.Equal(r.TurnsTakenBack, []int{1}) {
		t.Errorf("to the middle of turn 0, turns %v were taken back", r.TurnsTakenBack)
	}
	b.expectFiles(files{"a": "agent"})
	list := []string{"restore[0 1] [] [0]"}
	expect("to the middle", -1, list...)
	if r := b.undo(m); !slices.Equal(r.TurnsPutBack, []int{1}) {
		t.Errorf("from the middle of turn 0, turns %v were put back", r.TurnsPutBack)
	}
	list = append([]string{"undo[] [0 1] [0]"}, list...)
	expect("back", -1, list...)
	b.restore(m, &RestoreOptions{Target: "look:2"})
	list = append([]string{"restore[0 1] [] [0]"}, list...)
	if r := b.revert(m, "0"); !slices.Equal(r.TurnsTakenBack, []int{0}) {
		t.Errorf("of the rest of turn 0, turns %v were taken back", r.TurnsTakenBack)
	}
	b.expectFiles(files{"a": "0"})
	list = append([]string{"restore[0] [] []"}, list...)
	expect("the rest", 0, list...)
}

// From within a turn to its end only the rest of the turn is done: what it did before,
// and the user has edited since, is not asked for.
func TestRestoreRestOfTurn(t *testing.T) {
	b := newBench(t)
	m := b.open("s", func(o *Options) { o.ToolWindows = true })
	b.write("a", "0")
	b.initialize(m)
	b.start(m)
	for _, file := range []string{"a", "b"} {
		b.tool(m, "write", func() { b.write(file, "agent") })
	}
	b.end(m)
	b.restore(m, &RestoreOptions{Target: "look:2"})
	b.expectFiles(files{"a": "agent"})
	b.write("a", "mine")
	r := b.restore(m, &RestoreOptions{Target: "turn:0"})
	b.expectFiles(files{"a": "mine", "b": "agent"})
	if len(r.Skipped)+len(r.Dirty)+len(r.Kept) > 0 || !slices.Equal(r.Restored, []string{"b"}) {
		t.Errorf("restore: %+v", r)
	}
	b.write("a", "agent")
	b.restore(m, &RestoreOptions{Target: "look:2"})
	b.expectFiles(files{"a": "agent"})
}
