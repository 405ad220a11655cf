//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestNaturalCommand counts what a snapshot of one changed file of 50 in a git repository
// asks of the system. Nobody may make it more. It needs strace.
func TestNaturalCommand(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("there is no strace")
	}
	home, dir := t.TempDir(), t.TempDir()
	run := func(name string, args ...string) {
		t.Helper()
		c := exec.Command(name, args...)
		c.Dir, c.Env = dir, append(os.Environ(), "HOME="+home, "BOO_STORE=", "BOO_SESSION=", "GORACE=atexit_sleep_ms=0")
		if out, err := c.CombinedOutput(); err != nil {
			if name == strace && strings.Contains(string(out), "ptrace") {
				t.Skipf("nothing can be traced here: %s", out)
			}
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run("git", "init", "-q")
	for i := range 50 {
		write("f"+string(rune('A'+i)), "old")
	}
	for _, text := range []string{"old", "between"} {
		write("fA", text)
		run("snapctl", "snapshot")
	}
	time.Sleep(100 * time.Millisecond) // what is older need not be read again
	write("fA", "new")
	file := filepath.Join(t.TempDir(), "trace")
	run(strace, "-f", "-o", file, "-e", "trace=flock,fsync,fdatasync,openat,newfstatat,?stat", "snapctl", "snapshot")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, call string
		most       int
	}{
		{"locks", `flock\(\d+, LOCK_(SH|EX)`, 5},
		{"syncs", `f(data)?sync\(`, 4},
		{"looks at FORMAT", `openat\(.*/FORMAT", `, 4},
		{"looks for the repository", `\S*stat(at)?\(.*"` + regexp.QuoteMeta(real) + `/\.git", `, 1},
	} {
		calls := regexp.MustCompile(`(?m)^.* `+c.call+`.*$`).FindAllString(string(b), -1)
		t.Logf("%d %s", len(calls), c.what)
		if len(calls) > c.most || len(calls) == 0 {
			t.Errorf("%d %s, at most %d:\n%s", len(calls), c.what, c.most, strings.Join(calls, "\n"))
		}
	}
}
