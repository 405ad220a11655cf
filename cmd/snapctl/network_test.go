//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// ordinary is a day's work: everything but 'serve --http', for which somebody asks.
const ordinary = `
set -e
trap 'snapctl serve --stop' EXIT
event() {
	printf '{"session_id":"s1","cwd":"%s","hook_event_name":"%s","prompt":"x"}' "$PWD" "$1" | snapctl hook claude
}
event SessionStart
event UserPromptSubmit
event Stop
snapctl snapshot
echo new >a
snapctl snapshot
snapctl log
snapctl diff @~1
snapctl status
snapctl restore -y @~1
snapctl undo -y
snapctl run --session run -- true
snapctl check --read-data
snapctl prune -n
snapctl stats
snapctl setup claude -n || [ $? = 1 ]
snapctl mcp </dev/null
snapctl rpc </dev/null
`

// TestNoNetwork: nothing that is told to anybody, or asked, over a network. The one kind of
// socket is that between snapctl and its engine. It needs strace.
func TestNoNetwork(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("there is no strace")
	}
	home, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("old\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "trace")
	c := exec.Command(strace, "-f", "-qq", "-o", file, "-e", "trace=socket", "-e", "signal=none", "sh", "-c", ordinary)
	c.Dir, c.Env = dir, append(os.Environ(), "HOME="+home, "BOO_STORE=", "BOO_SESSION=", "GORACE=atexit_sleep_ms=0")
	if out, err := c.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "ptrace") {
			t.Skipf("nothing can be traced here: %s", out)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sockets := regexp.MustCompile(`socket\(([A-Z0-9_]+), .*`).FindAllStringSubmatch(string(b), -1)
	for _, s := range sockets {
		if s[1] != "AF_UNIX" {
			t.Errorf("%s: want no socket but those of AF_UNIX", s[0])
		}
	}
	if len(sockets) == 0 {
		t.Error("no socket at all: the engine was not asked, and the trace may be of nothing")
	}
}
