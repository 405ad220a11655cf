//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/manager"
)

var bisectCases = flag.Int("bisect.cases", 15, "searches that TestBisectAsGit compares with git's")

// aHistory is a history of random turns, in a store and in git: turn i leaves i in the file n.
type aHistory struct {
	*runner
	repo    string
	commits []string // by turn
	check   string   // a script that says what the case says, of the state it is in
	sums    string   // a file with what each state is, of which check makes sure
	said    string   // a file with what the state of each number is to be said
}

const historyTurns = 80

func newHistory(t *testing.T, rnd *rand.Rand) *aHistory {
	dir := t.TempDir()
	h := &aHistory{runner: &runner{t: t, home: filepath.Join(dir, "home"), project: filepath.Join(dir, "p")},
		repo:  filepath.Join(dir, "repo"),
		check: filepath.Join(dir, "check.sh"), sums: filepath.Join(dir, "sums"), said: filepath.Join(dir, "said")}
	for _, d := range []string{h.home, h.project, h.repo} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// A command changes files that were captured, makes others, and finds each state to be
	// what it was, whatever the command has done in the one before.
	h.write(h.check, `n=$(cat n) || exit 200
is=$(find . -type f ! -name 'made*' ! -path './.git/*' | LC_ALL=C sort | xargs cat | cksum)
test "$(sed -n ${n}p $SUMS)" = "$is" || exit 201
test -n "$MEDDLE" && { echo x >>n; echo made >made-$n; chmod 600 a 2>/dev/null; rm -rf d; ln -s / d; }
exit $(sed -n ${n}p $SAID)
`)
	ctx := t.Context()
	m, err := manager.Open(ctx, h.project, &manager.Options{StoreRoot: filepath.Join(h.home, ".boo", "file-store"),
		Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	h.git("init", "-q")
	var sums strings.Builder
	for i := range historyTurns {
		if _, err := m.OnTurnStart(ctx, nil); err != nil {
			t.Fatal(err)
		}
		h.change(rnd, i+1)
		if _, err := m.OnTurnEnd(ctx, nil); err != nil {
			t.Fatal(err)
		}
		out, err := h.shell(`cp -a $1/. . && git add -A && git commit -qm x && git rev-parse HEAD &&
find . -type f ! -path './.git/*' | LC_ALL=C sort | xargs cat | cksum`, h.project)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		commit, sum, _ := strings.Cut(out, "\n")
		h.commits = append(h.commits, commit)
		sums.WriteString(sum)
	}
	h.write(h.sums, sums.String())
	return h
}

func (h *aHistory) write(name, content string) {
	h.t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// change does what turn n does. The working tree of git has it, too: both lose what goes.
func (h *aHistory) change(rnd *rand.Rand, n int) {
	h.write(filepath.Join(h.project, "n"), fmt.Sprintln(n))
	for range rnd.IntN(4) {
		name := []string{"a", "b", "d/c", "d/e/f", "g"}[rnd.IntN(5)]
		full := filepath.Join(h.project, name)
		if rnd.IntN(3) == 0 {
			for _, dir := range []string{h.project, h.repo} {
				os.Remove(filepath.Join(dir, name))
			}
			continue
		}
		os.MkdirAll(filepath.Dir(full), 0o755)
		h.write(full, fmt.Sprintln(rnd.IntN(5), strings.Repeat("x", rnd.IntN(3000))))
	}
}

func (h *aHistory) shell(script string, args ...string) (string, error) {
	cmd := exec.Command("sh", append([]string{"-ec", script, "sh"}, args...)...)
	return h.output(cmd)
}

func (h *aHistory) output(cmd *exec.Cmd) (string, error) {
	cmd.Dir = h.repo
	cmd.Env = append(os.Environ(), "HOME="+h.home, "SUMS="+h.sums, "SAID="+h.said, "MEDDLE=",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (h *aHistory) git(args ...string) string {
	h.t.Helper()
	out, err := h.output(exec.Command("git", args...))
	if err != nil {
		h.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return out
}

// ofGit returns the turns of which git says that one is the first bad one.
func (h *aHistory) ofGit(good, bad int) (turns []int) {
	h.t.Helper()
	h.git("bisect", "start", h.commits[bad], h.commits[good])
	out, _ := h.output(exec.Command("git", "bisect", "run", "sh", h.check)) // it fails if some were skipped
	h.git("bisect", "reset")
	h.git("clean", "-qfd")
	add := func(commit string) {
		i := slices.Index(h.commits, commit)
		if i < 0 {
			h.t.Fatalf("git names %q:\n%s", commit, out)
		}
		turns = append(turns, i)
	}
	if one := regexp.MustCompile(`(?m)^([0-9a-f]{40}) is the first bad commit`).FindStringSubmatch(out); one != nil {
		add(one[1])
		return turns
	}
	_, list, ok := strings.Cut(out, "The first bad commit could be any of:\n")
	if !ok {
		h.t.Fatalf("git says\n%s", out)
	}
	for _, commit := range regexp.MustCompile(`(?m)^[0-9a-f]{40}$`).FindAllString(list, -1) {
		add(commit)
	}
	slices.Sort(turns)
	return slices.Compact(turns)
}

// ofOurs returns the turns of which snapctl says that one is the first bad one, and how many
// steps it took.
func (h *aHistory) ofOurs(good, bad int, flags ...string) (turns []int, steps int) {
	h.t.Helper()
	args := []string{"--json", "bisect", "run", "--good", fmt.Sprint("turn:", good), "--bad", fmt.Sprint("turn:", bad)}
	cmd := h.command(slices.Concat(args, flags, []string{"--", "sh", h.check})...)
	cmd.Env = append(cmd.Env, "SUMS="+h.sums, "SAID="+h.said, "MEDDLE=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != exitPart {
		h.t.Fatalf("%q: %v\n%s%s", cmd.Args, err, &stdout, &stderr)
	}
	for line := range strings.Lines(stdout.String()) {
		type turn struct{ Turn int }
		var j struct {
			FirstBad   *turn
			Candidates []turn
		}
		if err := json.Unmarshal([]byte(line), &j); err != nil {
			h.t.Fatalf("%q: %v", line, err)
		}
		switch {
		case j.FirstBad != nil:
			turns = append(turns, j.FirstBad.Turn)
		case j.Candidates != nil:
			for _, c := range j.Candidates {
				turns = append(turns, c.Turn)
			}
		default:
			steps++
		}
	}
	return turns, steps
}

// TestBisectAsGit compares the answer with that of 'git bisect run', with skips, while the
// command meddles with what it finds. The user's directory stays as it is.
func TestBisectAsGit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("SKIPPED: no git here")
	}
	rnd := testseed.Rand(t)
	var h *aHistory
	ranges, asked := 0, 0
	for i := range *bisectCases {
		if i%50 == 0 {
			h = newHistory(t, rnd)
		}
		before := h.state(h.project)
		good := rnd.IntN(historyTurns - 1)
		bad := good + 1 + rnd.IntN(historyTurns-1-good)
		first := good + 1 + rnd.IntN(bad-good)
		skips := []float64{0, 0, 0.1, 0.4, 0.8}[rnd.IntN(5)]
		var said strings.Builder
		for turn := range historyTurns {
			code := 0
			switch {
			case turn != good && turn != bad && rnd.Float64() < skips:
				code = 125
			case turn >= first:
				code = []int{1, 2, 127}[rnd.IntN(3)]
			}
			fmt.Fprintln(&said, code)
		}
		h.write(h.said, said.String())
		want := h.ofGit(good, bad)
		got, steps := h.ofOurs(good, bad, []string{"--clean=" + strconv.FormatBool(rnd.IntN(3) == 0)}...)
		if !slices.Equal(got, want) {
			t.Errorf("turns %d to %d, first bad %d, skips %v: %v, git says %v\n%s", good, bad, first, skips,
				got, want, &said)
		}
		if after := h.state(h.project); after != before {
			t.Fatalf("the user's directory was\n%sand is\n%s", before, after)
		}
		asked += steps
		if len(want) > 1 {
			ranges++
		}
	}
	t.Logf("%d cases, %d with several answers, %d steps", *bisectCases, ranges, asked)
}
