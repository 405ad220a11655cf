package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// claudeVersion is the release of Claude Code that is tested.
const claudeVersion = "2.1.197"

// A claude is a home and a project with Claude Code, whose hooks are ours.
type claude struct {
	*world
	binary string
}

func newClaude(t *testing.T) *claude {
	t.Helper()
	binary := install(t, "claude", claudeVersion, func(dir string) error {
		return run(dir, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts",
			"@anthropic-ai/claude-code@"+claudeVersion)
	}, "node_modules/@anthropic-ai/claude-code-linux-x64/claude")
	w := &world{t: t, model: newModel(t), home: t.TempDir(), dir: t.TempDir()}
	w.model.dir = w.dir
	c := &claude{world: w, binary: binary}
	w.put(filepath.Join(w.home, ".claude.json"), fmt.Sprintf(`{"hasCompletedOnboarding":true,"theme":"dark",
		"customApiKeyResponses":{"approved":["%s"],"rejected":[]},
		"projects":{%q:{"hasTrustDialogAccepted":true,"hasCompletedProjectOnboarding":true}}}`,
		claudeKey[len(claudeKey)-20:], w.dir))
	c.snapctl("setup", "claude", "--yes")
	return c
}

const claudeKey = "sk-ant-api03-fake-fake-fake-fake"

func (c *claude) env() []string {
	return append(c.world.env(), "ANTHROPIC_BASE_URL="+c.model.URL, "ANTHROPIC_API_KEY="+claudeKey,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1",
		"DISABLE_ERROR_REPORTING=1", "PATH="+filepath.Dir(snapctl)+":"+os.Getenv("PATH"), "TERM=xterm-256color",
		"IS_SANDBOX=1")
}

// say runs Claude Code with one prompt, to its end.
func (c *claude) say(prompt string, args ...string) string {
	c.t.Helper()
	cmd := exec.Command(c.binary, append(append([]string{"-p", "--permission-mode", "acceptEdits",
		"--allowedTools", "Bash"}, args...), "--", script+" "+prompt)...)
	cmd.Dir, cmd.Env = c.dir, c.env()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && !strings.Contains(prompt, "fail") {
		c.t.Fatalf("claude %q: %v\n%s", prompt, err, out.String())
	}
	return out.String()
}

// open starts Claude Code in a terminal.
func (c *claude) open(args ...string) *tty {
	c.t.Helper()
	cmd := exec.Command(c.binary, args...)
	cmd.Dir, cmd.Env = c.dir, c.env()
	s := openTTY(c.t, cmd)
	s.sees("? for shortcuts")
	time.Sleep(time.Second)
	return s
}

// log checks what "snapctl log --name-status" says: lines of it, without ids and times.
func (c *claude) log(want ...string) {
	c.t.Helper()
	var got []string
	for line := range strings.Lines(c.snapctl("log", "--name-status")) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "session ") { // which is the newest
			continue
		}
		if !strings.HasPrefix(line, " ") {
			line = strings.Fields(line)[0]
		}
		got = append(got, strings.TrimSpace(line))
	}
	if d := cmp.Diff(want, got); d != "" {
		c.t.Errorf("log (-want +got):\n%s", d)
	}
}

// TestClaude: turns by tools, the shell and a subagent, with the user at work between
// them, in one session that is gone on with; one turn ends with an error of the server.
func TestClaude(t *testing.T) {
	c := newClaude(t)
	c.write("old.txt", "old\n")
	c.write("mv.txt", "to be moved\n")
	c.say("write a.txt one ;; bash rm old.txt; mv mv.txt moved.txt; sed -i s/one/two/ a.txt ;; " +
		"task write sub.txt s &&& bye ;; fin")
	c.log("turn", "A a.txt", "A moved.txt", "D mv.txt", "D old.txt", "A sub.txt", "start")
	c.write("user.txt", "mine\n")
	c.write("a.txt", "two\nand mine\n")
	c.say("write b.txt b ;; fail", "--continue")
	c.log("turn", "A b.txt", "offline", "M a.txt", "A user.txt",
		"turn", "A a.txt", "A moved.txt", "D mv.txt", "D old.txt", "A sub.txt", "start")
	c.snapctl("restore", "-y", "@~1") // no turn is open
	c.has("b.txt", "-", "user.txt", "mine\n")
	c.part("restore", "-y", "start")
	c.has("old.txt", "old\n", "mv.txt", "to be moved\n", "moved.txt", "-", "sub.txt", "-",
		"a.txt", "two\nand mine\n", "user.txt", "mine\n")
	c.snapctl("undo")
	c.has("old.txt", "-", "moved.txt", "to be moved\n", "sub.txt", "s\n", "b.txt", "-")
}

// TestClaudeEsc: what a tool did that Esc has stopped is the turn's. Of what changed while
// the user was asked, and then refused, nobody knows whose it is: Claude Code says nothing,
// as if Esc had stopped the tool.
func TestClaudeEsc(t *testing.T) {
	c := newClaude(t)
	c.write("old.txt", "old\n")
	s := c.open("--allowedTools", "Bash")
	s.enter(script + " bash echo half > half.txt; rm old.txt; sleep 30 ;; fin")
	s.until("the tool runs", func() bool { _, err := os.Stat(c.path("half.txt")); return err == nil })
	s.press("Escape")
	s.sees("Interrupted")
	s.enter(script + " write dialog.txt x ;; second")
	s.sees("Do you want to create dialog.txt")
	c.write("doubt.txt", "the user's, or the tool's\n")
	s.press("Escape")
	s.sees("User rejected")
	s.enter(script + " write refused.txt x ;; third")
	s.sees("Do you want to create refused.txt")
	c.write("user.txt", "mine\n")
	s.press("3") // no
	s.sees("rejected write to refused.txt")
	s.enter(script + " write allowed.txt x ;; fourth")
	s.sees("Do you want to create allowed.txt")
	s.press("Enter")
	s.sees("done: fourth")
	s.until("the turn has ended", func() bool { return !strings.Contains(c.snapctl("sessions"), "turn open") })
	c.log("turn", "A allowed.txt", "turn", "A user.txt (contested)", "turn", "A doubt.txt (contested)",
		"turn", "A half.txt", "D old.txt", "start")
	c.part("restore", "-y", "start")
	c.has("old.txt", "old\n", "half.txt", "-", "allowed.txt", "-", "user.txt", "mine\n")
}

// TestClaudeHung: beside a resident engine that was stopped a turn is recorded, and Claude
// Code shows the user what the hook says of it.
func TestClaudeHung(t *testing.T) {
	c := newClaude(t)
	s := c.open("--allowedTools", "Bash")
	s.enter(script + " bash echo one > a.txt ;; first")
	s.sees("done: first")
	locks, err := filepath.Glob(filepath.Join(c.home, ".boo", "file-store", "*", "locks", "serve"))
	if err != nil || len(locks) != 1 {
		t.Fatalf("engines %q, %v", locks, err)
	}
	b, err := os.ReadFile(locks[0])
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGSTOP)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGCONT)
	s.enter(script + " bash echo two > b.txt ;; second")
	s.sees("snapctl: the engine does not answer")
	s.sees("done: second")
	s.until("the turn has ended", func() bool { return !strings.Contains(c.snapctl("sessions"), "turn open") })
	c.log("turn", "A b.txt", "turn", "A a.txt", "start")
}
