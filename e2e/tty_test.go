package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A tty is a terminal in which a program runs: keys go in, and what it shows can be read.
type tty struct {
	t      testing.TB
	socket string // of the tmux that holds it
}

// openTTY starts a program in a terminal of 120 columns and 50 lines. It is killed at
// the end of the test.
func openTTY(t testing.TB, cmd *exec.Cmd) *tty {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("SKIPPED: tmux is not installed")
	}
	s := &tty{t, filepath.Join(t.TempDir(), "tmux")}
	line := []string{"exec", "env", "-i"}
	for _, word := range append(cmd.Env, cmd.Args...) {
		line = append(line, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
	}
	s.tmux("new-session", "-d", "-x", "120", "-y", "50", "-c", cmd.Dir, strings.Join(line, " "))
	s.tmux("set-option", "-g", "remain-on-exit", "on")
	t.Cleanup(func() { s.tmux("kill-server") })
	return s
}

func (s *tty) tmux(args ...string) string {
	s.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", s.socket, "-f", "/dev/null"}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// enter types a line.
func (s *tty) enter(line string) {
	s.t.Helper()
	s.tmux("send-keys", "-l", line)
	time.Sleep(300 * time.Millisecond) // or the end of the line is taken for part of a paste
	s.press("Enter")
}

// press presses a key, by its name in tmux.
func (s *tty) press(key string) {
	s.t.Helper()
	s.tmux("send-keys", key)
	time.Sleep(300 * time.Millisecond)
}

// shown returns what is on the screen.
func (s *tty) shown() string { return s.tmux("capture-pane", "-p") }

// until waits until something is so.
func (s *tty) until(what string, ok func() bool) {
	s.t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			s.t.Fatalf("%s: not within a minute; on the screen:\n%s", what, s.shown())
		}
	}
}

// sees waits until a text is on the screen.
func (s *tty) sees(text string) {
	s.t.Helper()
	s.until(fmt.Sprintf("see %q", text), func() bool { return strings.Contains(s.shown(), text) })
}
