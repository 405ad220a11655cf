package manager

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/testseed"
)

var (
	gitCases = flag.Int("revert.cases", 10, "days of TestRevertAgreesWithGit; 400 by make histories")
	gitShow  = flag.Bool("revert.show", false, "print each file that git decides otherwise")
)

// A gitDay is a session whose turns are reverted by us and by git: turns with windows, and
// the user between them.
type gitDay struct {
	*bench
	rng   *rand.Rand
	m     *FileSnapshotManager
	steps []gitStep
	turns int
	made  int // lines
}

// A gitStep is what a window of a turn, or the user, has made of the files.
type gitStep struct {
	turn  int // -1: the user
	files files
}

var gitPaths = []string{"a.go", "b.go", "c.go"}

// newGitDay makes up a session.
func newGitDay(t *testing.T, rng *rand.Rand) *gitDay {
	d := &gitDay{bench: newBench(t), rng: rng}
	for _, p := range gitPaths[:2] {
		d.write(p, strings.Join(d.lines(30+rng.IntN(30)), ""))
	}
	d.m = d.open("s", func(o *Options) { o.ToolWindows = true })
	d.initialize(d.m)
	d.note(-1)
	for range 3 + rng.IntN(5) {
		d.turn()
		if rng.IntN(2) == 0 {
			d.edit(-1)
		}
	}
	return d
}

// turn is one of one or two windows.
func (d *gitDay) turn() {
	d.start(d.m)
	for n := range 1 + d.rng.IntN(2) {
		if n > 0 && d.rng.IntN(2) == 0 {
			d.edit(-1)
		}
		id := fmt.Sprint(d.turns, n)
		if _, err := d.m.OnToolStart(d.Context(), id); err != nil {
			d.Fatal(err)
		}
		d.edit(d.turns)
		if _, err := d.m.OnToolEnd(d.Context(), id); err != nil {
			d.Fatal(err)
		}
	}
	d.end(d.m)
	d.turns++
}

func (d *gitDay) note(turn int) { d.steps = append(d.steps, gitStep{turn, d.files()}) }

// lines makes up lines: most are there once only.
func (d *gitDay) lines(n int) (list []string) {
	common := []string{"}\n", "\n", "\treturn nil\n", "\tif err != nil {\n"}
	for range n {
		d.made++
		line := fmt.Sprintf("\tline %d of somebody\n", d.made)
		if d.rng.IntN(4) == 0 {
			line = common[d.rng.IntN(len(common))]
		}
		list = append(list, line)
	}
	return list
}

// edit changes a file or two.
func (d *gitDay) edit(turn int) {
	for range 1 + d.rng.IntN(2) {
		p := gitPaths[max(0, d.rng.IntN(len(gitPaths)+2)-2)] // mostly the first
		text, there := d.files()[p]
		switch n := d.rng.IntN(20); {
		case !there:
			d.write(p, strings.Join(d.lines(6+d.rng.IntN(10)), ""))
		case n == 0:
			d.remove(p)
		default:
			lines := slices.Collect(strings.Lines(text))
			for range 1 + d.rng.IntN(2) {
				from := d.rng.IntN(len(lines) + 1)
				to := min(from+d.rng.IntN(3), len(lines))
				lines = slices.Replace(lines, from, to, d.lines(d.rng.IntN(3))...)
			}
			d.write(p, strings.Join(lines, ""))
		}
	}
	d.note(turn)
}

// A gitRepository has a branch for each file, with a commit for each change of it.
type gitRepository struct {
	*testing.T
	dir string
	of  map[string]map[int][]string // by path and turn: marks of its commits, oldest first
}

// commits puts a day into a repository. Windows of a turn between which nobody else has
// changed a file are one commit of it, as they are one change of the turn.
func (d *gitDay) commits() *gitRepository {
	r := &gitRepository{T: d.T, dir: d.TempDir(), of: make(map[string]map[int][]string)}
	r.git(nil, "init", "-q")
	var b bytes.Buffer
	mark := 0
	for _, p := range gitPaths {
		r.of[p] = make(map[int][]string)
		last := gitStep{turn: -2}
		var list []gitStep
		for i, s := range d.steps {
			if i > 0 && ruleFiles(s.files).at(p) == ruleFiles(last.files).at(p) {
				continue
			}
			if n := len(list); n > 1 && s.turn >= 0 && s.turn == list[n-1].turn {
				list = list[:n-1]
			}
			list, last = append(list, s), s
		}
		for _, s := range list {
			mark++
			fmt.Fprintf(&b, "commit refs/heads/%s\nmark :%d\ncommitter a <a@b> 1700000000 +0000\ndata 0\n", p, mark)
			if text, there := s.files[p]; there {
				fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n%s\n", p, len(text), text)
			} else {
				fmt.Fprintf(&b, "D %s\n", p)
			}
			if s.turn >= 0 {
				r.of[p][s.turn] = append(r.of[p][s.turn], fmt.Sprint(":", mark))
			}
		}
	}
	marks := filepath.Join(r.dir, ".git", "marks")
	r.git(&b, "fast-import", "--quiet", "--export-marks="+marks)
	names := make(map[string]string)
	text, err := os.ReadFile(marks)
	if err != nil {
		d.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		mark, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		names[mark] = name
	}
	for _, turns := range r.of {
		for _, list := range turns {
			for i := range list {
				list[i] = names[list[i]]
			}
		}
	}
	return r
}

// git runs git, and requires that it works.
func (r *gitRepository) git(in *bytes.Buffer, args ...string) {
	r.Helper()
	if out, err := r.run(in, args...); err != nil {
		r.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

func (r *gitRepository) run(in *bytes.Buffer, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(r.Context(), "git", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "HOME="+r.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	if in != nil {
		cmd.Stdin = in
	}
	return cmd.CombinedOutput()
}

const gitConflict = "(conflict)"

// revert returns what git makes of a file where turns are reverted, the newest first;
// ruleNone for no file.
func (r *gitRepository) revert(p string, turns []int) string {
	var commits []string
	for _, n := range turns { // in order
		commits = append(commits, r.of[p][n]...)
	}
	slices.Reverse(commits)
	r.git(nil, "checkout", "-q", "-f", p)
	if len(commits) > 0 {
		if out, err := r.run(nil, append([]string{"revert", "--no-commit"}, commits...)...); err != nil {
			if !bytes.Contains(out, []byte("CONFLICT")) {
				r.Fatalf("git revert: %v\n%s", err, out)
			}
			r.git(nil, "revert", "--quit")
			return gitConflict
		}
	}
	text, err := os.ReadFile(filepath.Join(r.dir, p))
	switch {
	case os.IsNotExist(err):
		return ruleNone
	case err != nil:
		r.Fatal(err)
	}
	return string(text)
}

// TestRevertAgreesWithGit makes up days of turns and of a user, reverts turns of them, and
// compares each file with what git revert makes of it in a repository of the same states:
// the same text, or a conflict for both. An undo then gives all back.
func TestRevertAgreesWithGit(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("NOT CHECKED against git: %v", err)
	}
	rng := testseed.Rand(t)
	files, conflicts, hidden, otherwise := 0, 0, 0, 0
	for range *gitCases {
		seed := rng.Uint64()
		d := newGitDay(t, rand.New(rand.NewPCG(seed, 3)))
		turns := []int{d.rng.IntN(d.turns)}
		if d.rng.IntN(2) == 0 {
			turns = append(turns, d.rng.IntN(d.turns))
		}
		slices.Sort(turns)
		turns = slices.Compact(turns)
		opts := new(RevertOptions)
		for _, n := range turns {
			opts.Turns = append(opts.Turns, fmt.Sprint(n))
		}
		was := d.files()
		r, err := d.m.Revert(t.Context(), opts)
		switch {
		case errors.Is(err, ErrChangedNothing):
			continue
		case errors.Is(err, ErrNothing): // the files are as they are to be
			r = newRestoreResult()
		case err != nil:
			t.Fatal(err)
		}
		is, repository := d.files(), d.commits()
		for _, p := range gitPaths {
			got, want := ruleFiles(is).at(p), repository.revert(p, turns)
			files++
			if i := slices.IndexFunc(r.Conflicts, func(c Conflict) bool { return c.Path == p }); i >= 0 {
				if r.Conflicts[i].Why == whyHidden { // git does not say that a later commit has deleted it
					hidden++
					continue
				}
				got, conflicts = gitConflict, conflicts+1
			}
			if got == want {
				continue
			}
			otherwise++
			if *gitShow || *gitCases <= 20 {
				t.Logf("seed %d, %s without turns %d: (-git +ours)\n%s\nit was\n%s\n%v", seed, p, turns,
					cmp.Diff(want, got), was[p], r.Conflicts)
			}
		}
		if len(r.Restored)+len(r.Deleted) == 0 {
			continue
		}
		if _, err := d.m.Undo(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(was, d.files()); diff != "" {
			t.Errorf("seed %d: an undo of the revert of %d (-want +got):\n%s", seed, turns, diff)
		}
	}
	t.Logf("%d files: %d conflicts for both, %d under a deletion, %d decided otherwise", files, conflicts,
		hidden, otherwise)
	if otherwise*500 > files {
		t.Errorf("git decides %d of %d otherwise, want at most 0.2 %%", otherwise, files)
	}
}
