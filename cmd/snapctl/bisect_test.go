//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
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

var bisectCases = flag.Int("bisect.cases", 8, "searches that TestBisectAsGit compares with git's")

// aHistory is a history of random turns, in a store and in git: turn i leaves i in the file n.
type aHistory struct {
	*runner
	repo    string
	commits []string // by turn
	check   string   // a script that says what the case says, of the state it is in
	states  string   // a directory with what each state is, of which check makes sure
	said    string   // a file with what is to be said of each state
}

const historyTurns = 80

// historyFiles are the files of a history, in the order in which the script finds them.
var historyFiles = []string{"a", "b", "g", "n", "d/c", "d/e/f"}

func newHistory(t *testing.T, rnd *rand.Rand) *aHistory {
	dir := t.TempDir()
	h := &aHistory{runner: &runner{t: t, home: filepath.Join(dir, "home"), project: filepath.Join(dir, "p")},
		repo:  filepath.Join(dir, "repo"),
		check: filepath.Join(dir, "check.sh"), states: filepath.Join(dir, "states"), said: filepath.Join(dir, "said")}
	for _, d := range []string{h.home, h.project, h.repo, h.states} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// A command changes files that were captured, makes others, and finds each state to be
	// what it was, whatever the command has done in the one before. It starts few programs.
	h.write(h.check, `LC_ALL=C
read n <n || exit 200
for f in * */* */*/*; do
	case $f in made*) continue ;; esac
	test ! -L $f || exit 202
	test ! -f $f || set -- "$@" $f
done
{ echo "$@"; cat "$@"; } | cmp -s - "$STATES/$n" || exit 201
test -n "$MEDDLE" && { echo x >>n; echo made >made-$n; chmod 600 a 2>/dev/null; rm -rf d; ln -s / d; }
read codes <"$SAID"
set -- $codes
shift $n
exit $1
`)
	ctx := t.Context()
	m, err := manager.Open(ctx, h.project, &manager.Options{StoreRoot: filepath.Join(h.home, ".boo", "file-store"),
		Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var stream bytes.Buffer
	for i := range historyTurns {
		if _, err := m.OnTurnStart(ctx, nil); err != nil {
			t.Fatal(err)
		}
		h.change(rnd, i)
		if _, err := m.OnTurnEnd(ctx, nil); err != nil {
			t.Fatal(err)
		}
		h.keep(i, &stream)
	}
	h.git("init", "-q")
	load := exec.Command("git", "fast-import", "--quiet")
	load.Stdin = &stream
	if out, err := h.output(load); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	h.commits = strings.Fields(h.git("rev-list", "--reverse", "turns"))
	h.git("checkout", "-q", "turns")
	return h
}

// keep has the state after a turn be what the script expects of it, and a commit of git's.
func (h *aHistory) keep(turn int, stream *bytes.Buffer) {
	var names []string
	var content bytes.Buffer
	fmt.Fprintf(stream, "commit refs/heads/turns\ncommitter A <a@example.com> %d +0000\ndata 1\nx\ndeleteall\n", turn)
	for _, name := range historyFiles {
		b, err := os.ReadFile(filepath.Join(h.project, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			h.t.Fatal(err)
		}
		names = append(names, name)
		content.Write(b)
		fmt.Fprintf(stream, "M 100644 inline %s\ndata %d\n%s\n", name, len(b), b)
	}
	h.write(filepath.Join(h.states, strconv.Itoa(turn)), strings.Join(names, " ")+"\n"+content.String())
}

func (h *aHistory) write(name, content string) {
	h.t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// change does what turn n does.
func (h *aHistory) change(rnd *rand.Rand, n int) {
	h.write(filepath.Join(h.project, "n"), fmt.Sprintln(n))
	for range rnd.IntN(4) {
		name := []string{"a", "b", "d/c", "d/e/f", "g"}[rnd.IntN(5)]
		full := filepath.Join(h.project, name)
		if rnd.IntN(3) == 0 {
			os.Remove(full)
			continue
		}
		os.MkdirAll(filepath.Dir(full), 0o755)
		h.write(full, fmt.Sprintln(rnd.IntN(5), strings.Repeat("x", rnd.IntN(3000))))
	}
}

func (h *aHistory) output(cmd *exec.Cmd) (string, error) {
	cmd.Dir = h.repo
	cmd.Env = append(os.Environ(), "HOME="+h.home, "STATES="+h.states, "SAID="+h.said, "MEDDLE=",
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
	cmd.Env = append(cmd.Env, "STATES="+h.states, "SAID="+h.said, "MEDDLE=1")
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
			fmt.Fprint(&said, code, " ")
		}
		h.write(h.said, said.String()+"\n")
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
