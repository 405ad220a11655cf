//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// agentScript is a turn of an agent in a session of Claude Code: it was asked for something,
// and a tool has run a command.
const agentScript = `#!/bin/sh
# agent SESSION PROMPT COMMAND
ev() { printf '{"session_id":"%s","cwd":"%s","hook_event_name":"%s"%s}' "$S" "$PWD" "$1" "$2" | snapctl hook claude; }
S=$1
ev SessionStart
ev UserPromptSubmit ",\"prompt\":\"$2\""
ev PreToolUse ',"tool_name":"Bash","tool_use_id":"t"'
sh -c "$3" || exit
ev PostToolUse ',"tool_name":"Bash","tool_use_id":"t"'
ev Stop
`

// varying is what is another one each time.
var varying = regexp.MustCompile(`\b[0-9a-f]{8}\b|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\d+ s ago|just now`)

// masked returns a line without what varies.
func masked(line string) string { return varying.ReplaceAllString(line, "…") }

// TestGuide runs what docs/guide/undo.md shows: what comes behind "$ " in a block is run,
// and what comes below it is what is printed. A comment "run NAME..." names scripts in
// testdata/guide that have what happened before, in a new directory. With -update the file
// is written anew.
func TestGuide(t *testing.T) {
	const name = "../../docs/guide/undo.md"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "snapctl")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "agent"), []byte(agentScript), 0o755); err != nil {
		t.Fatal(err)
	}
	var home, dir string
	run := func(command string) string {
		c := exec.Command("sh", "-c", command)
		c.Dir = dir
		c.Env = []string{"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"), "TZ=UTC", "BOO_ENGINE=off"}
		out, _ := c.CombinedOutput()
		return string(out)
	}
	lines := strings.SplitAfter(string(text), "\n")
	var got strings.Builder
	for i := 0; i < len(lines); i++ {
		got.WriteString(lines[i])
		command, isShown := strings.CutPrefix(lines[i], "    $ ")
		scripts, isRun := strings.CutPrefix(lines[i], "<!-- run ")
		switch {
		case isShown:
			first := i + 1
			for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "    ") && !strings.HasPrefix(lines[i+1], "    $ ") {
				i++
			}
			shown := lines[first : i+1]
			for line := range strings.Lines(run(command)) {
				line = "    " + line
				if len(shown) > 0 {
					if masked(line) == masked(shown[0]) {
						line = shown[0]
					}
					shown = shown[1:]
				}
				got.WriteString(line)
			}
		case isRun:
			home, dir = t.TempDir(), filepath.Join(t.TempDir(), "shop")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for script := range strings.FieldsSeq(strings.TrimSuffix(scripts, " -->\n")) {
				text, err := os.ReadFile("testdata/guide/" + script + ".sh")
				if err != nil {
					t.Fatal(err)
				}
				if out := run("set -e\n" + string(text)); out != "" {
					t.Fatalf("%s prints %s", script, out)
				}
			}
		}
	}
	if *update {
		if err := os.WriteFile(name, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(string(text), got.String()); d != "" && !*update {
		t.Errorf("%s (-shown +run): go test ./cmd/snapctl -run Guide -update\n%s", name, d)
	}
}
