package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// A seat is a user at a terminal, with an environment.
type seat struct {
	t       *testing.T
	stores  string
	env     map[string]string
	columns uint16
}

func newSeat(t *testing.T, stores string) *seat {
	return &seat{t: t, stores: stores, columns: 100, env: map[string]string{
		"TERM": "xterm", "BOO_ENGINE": "off", "SNAPCTL_PAGER": "off", "NO_COLOR": "1", "PATH": os.Getenv("PATH")}}
}

// run runs a command line. It returns the exit code and what the terminal was given, which
// both stdout and stderr are.
func (s *seat) run(args ...string) (code int, out string) {
	s.t.Helper()
	user, program := terminal(s.t)
	if err := unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Col: s.columns, Row: 24}); err != nil {
		s.t.Fatal(err)
	}
	got := make(chan string)
	go func() { // a terminal holds some KiB only
		b, _ := io.ReadAll(user) // ends with an error: nobody has the other end
		got <- string(b)
	}()
	args = append([]string{"--store", s.stores}, args...)
	code = run(s.t.Context(), args, program, program, program, func(name string) string { return s.env[name] })
	program.Close()
	return code, strings.ReplaceAll(<-got, "\r\n", "\n")
}

// snapshots makes a project with some snapshots.
func snapshots(t *testing.T, s *seat, n int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, "a.txt"), fmt.Appendf(nil, "%d\n", i), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, out := s.run("--root", dir, "snapshot"); code != exitDone {
			t.Fatalf("snapshot: %d, %s", code, out)
		}
	}
	return dir
}

func TestPager(t *testing.T) {
	s := newSeat(t, t.TempDir())
	dir := snapshots(t, s, 3)
	log := []string{"--root", dir, "log", "--oneline"}
	_, plain := s.run(log...)
	if n := strings.Count(plain, "\n"); n != 3 {
		t.Fatalf("log prints %d lines:\n%s", n, plain)
	}
	script := func(text string) string {
		name := filepath.Join(t.TempDir(), "my pager")
		if err := os.WriteFile(name, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
		return name
	}
	var marked strings.Builder
	for line := range strings.Lines(plain) {
		marked.WriteString("> " + line)
	}
	first, _, _ := strings.Cut(plain, "\n")
	for _, tt := range []struct{ name, pager, want string }{
		{"a command", "sed -e 's/^/> /'", marked.String()},
		{"a path with a space", script("exec sed -e 's/^/> /'"), marked.String()},
		{"assignments", "X='> ' sed -e \"s/^/> /\"", marked.String()},
		{"what less is told", `echo "<$LESS>"; cat`, "<FRX>\n" + plain},
		{"ends early", "head -n 1", first + "\n"},
		{"reads nothing", "true", ""},
		{"fails at once", "false", plain},
		{"fails in the end", "cat >/dev/null; exit 3", plain},
		{"is killed", "kill -9 $$", plain},
		{"is not there", "no-such-program -R", plain},
		{"is no program", t.TempDir(), plain},
		{"off", "off", plain},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.t = t
			s.env["SNAPCTL_PAGER"] = tt.pager
			if code, out := s.run(log...); code != exitDone || out != tt.want {
				t.Errorf("exit code %d, prints\n%swant\n%s", code, out, tt.want)
			}
		})
	}
	s.t = t
	s.env["SNAPCTL_PAGER"] = "sed -e 's/^/> /'"
	if _, out := s.run(append(log, "--no-pager")...); out != plain {
		t.Errorf("with --no-pager it prints\n%s", out)
	}
	if code, out := s.run(append(log, "--session", "other")...); code != exitRefused || strings.Contains(out, "> ") {
		t.Errorf("an error goes to the pager, exit code %d:\n%s", code, out)
	}
	for _, term := range []string{"", "dumb"} {
		s.env["TERM"] = term
		if _, out := s.run(log...); out != plain {
			t.Errorf("with TERM=%s it prints\n%s", term, out)
		}
	}
	s.env["TERM"] = "xterm"
	for _, args := range [][]string{{"help", "log"}, {"log", "--help"}, {"--root", dir, "diff", "start", "@"},
		{"--root", dir, "show", "@"}} {
		if code, out := s.run(args...); code != exitDone || !strings.HasPrefix(out, "> ") {
			t.Errorf("%q: exit code %d, not in the pager:\n%s", args, code, out)
		}
	}
}

// A command that prints no more notices that the pager has ended, and waits for one that has
// not when it is interrupted itself.
func TestPagerEnds(t *testing.T) {
	user, program := terminal(t)
	go io.Copy(io.Discard, user)
	began := make(chan bool, 1)
	work := func(pager string, ctx context.Context) error {
		a := newApp(nil, program, program, program, func(name string) string {
			return map[string]string{"TERM": "xterm", "SNAPCTL_PAGER": pager}[name]
		})
		a.flags.progress = progressNone
		cmd := &cobra.Command{}
		cmd.SetContext(ctx)
		if err := a.prepare(cmd); err != nil {
			t.Fatal(err)
		}
		return a.paged(func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(a.out, "one")
			a.out.Flush()
			began <- true
			<-cmd.Context().Done()
			return cmd.Context().Err()
		})(cmd, nil)
	}
	if err := work("head -n 1", t.Context()); err != nil {
		t.Errorf("its pager was left: %v", err)
	}
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	left := filepath.Join(t.TempDir(), "left")
	if err := work("cat; echo yes >"+left, ctx); !errors.Is(err, context.Canceled) { // not all was shown
		t.Errorf("interrupted: %v", err)
	}
	if _, err := os.Stat(left); err != nil {
		t.Errorf("it has not waited for the pager: %v", err)
	}
}
