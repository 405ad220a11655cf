//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/boocode/filestore/cmd/snapctl/internal/agents"
	"github.com/boocode/filestore/cmd/snapctl/internal/mcp"
)

// event tells of an event of a session of Claude Code.
func (m *model) event(session, event string, more arguments) {
	m.t.Helper()
	e := arguments{"session_id": session, "cwd": m.project, "hook_event_name": event}
	for k, v := range more {
		e[k] = v
	}
	text, _ := json.Marshal(e)
	cmd := m.command("hook", "claude")
	cmd.Env = append(cmd.Env, "BOO_ENGINE=off", "CLAUDE_PROJECT_DIR="+m.project)
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		m.t.Fatalf("hook %s: %v, says %q", event, err, out)
	}
}

// a file is written by a tool of a session.
func (m *model) wrote(session, name, content string) {
	m.t.Helper()
	call := arguments{"tool_name": "Write", "tool_use_id": "w-" + name,
		"tool_input": arguments{"file_path": filepath.Join(m.project, name)}}
	m.event(session, agents.ToolStart, call)
	m.write(name, content)
	m.event(session, agents.ToolEnd, call)
}

// ask calls a tool of the server as the model of a session does. Claude Code names the
// call; others do not.
func (m *model) ask(session, tool string, args arguments, named bool) (*sdk.CallToolResult, string) {
	m.t.Helper()
	id := "call-" + session
	call := arguments{"tool_name": "mcp__files__" + tool, "tool_use_id": id, "tool_input": args}
	m.event(session, agents.ToolStart, call)
	p := &sdk.CallToolParams{Name: tool, Arguments: args}
	if named {
		p.Meta = sdk.Meta{"claudecode/toolUseId": id}
	}
	r, err := m.client.CallTool(m.t.Context(), p)
	if err != nil {
		m.t.Fatalf("%s %v: %v\n%s", tool, args, err, m.stderr)
	}
	m.event(session, agents.ToolEnd, call)
	return r, r.Content[0].(*sdk.TextContent).Text
}

// log returns the turns of a session, newest first, and what they did.
func (m *model) log(session string) string {
	m.t.Helper()
	var lines []string
	for line := range strings.Lines(m.must("--session", session, "log", "--name-status")) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "turn ") {
			line, _, _ = strings.Cut(line, "  ")
		} else if word, _, ok := strings.Cut(line, " "); ok && len(word) > 1 {
			line = word
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

// TestMCPInTurn: a call that hooks have told of is of the session's turn, and what the
// model did before, in the turn, is its own.
func TestMCPInTurn(t *testing.T) {
	t.Parallel()
	for _, named := range []bool{true, false} {
		m := newModel(t, map[string]string{"old": "old\n"})
		m.call("snapshot_list", nil, nil) // the first look is over
		m.event("s", agents.SessionStart, nil)
		m.event("s", agents.Prompt, nil)
		m.wrote("s", "a", "agent\n")
		if _, text := m.ask("s", "snapshot_create", nil, named); !strings.Contains(text, "added a") ||
			strings.Contains(text, "other") {
			t.Errorf("snapshot_create says\n%s", text)
		}
		m.wrote("s", "old", "agent\n")
		r, text := m.ask("s", "restore", arguments{"target": "start"}, named)
		if r.IsError || !strings.Contains(text, "deleted a") {
			t.Errorf("restore says\n%s", text)
		}
		m.want("old", "old\n")
		if r, text := m.ask("s", "undo", nil, named); r.IsError {
			t.Errorf("undo says\n%s", text)
		}
		m.want("a", "agent\n")
		if r, text := m.ask("s", "redo", nil, named); r.IsError {
			t.Errorf("redo says\n%s", text)
		}
		m.wrote("s", "b", "agent\n")
		if r, text := m.ask("s", "patch_apply", arguments{"path": "c", "new": "c\n"}, named); r.IsError {
			t.Errorf("patch_apply says\n%s", text)
		}
		m.event("s", agents.Stop, nil)
		want := "turn 0, A b, A c, redo, D a, M old, undo, A a, M old, restore, D a, M old, " +
			"turn 0, M old, turn 0, A a, start"
		if got := m.log("s"); got != want {
			t.Errorf("log is %s\nwant %s", got, want)
		}
		m.must("--session", "s", "restore", "-y", "@~1")
		for _, name := range []string{"a", "b", "c"} {
			if _, err := os.Stat(filepath.Join(m.project, name)); err == nil {
				t.Errorf("%s is still there", name)
			}
		}
		m.must("--session", "s", "undo", "-y")
		m.want("b", "agent\n")
		// outside of a turn the server has a session of its own
		if r, text := m.raw("restore", arguments{"target": "start"}); !r.IsError {
			t.Errorf("outside of a turn restore says\n%s", text)
		}
	}
}

// TestMCPTurns: of two sessions that are at work the one whose call it is decides. Where
// that is not known the model is told so, and to leave it.
func TestMCPTurns(t *testing.T) {
	t.Parallel()
	m := newModel(t, nil)
	m.call("snapshot_list", nil, nil)
	for _, s := range []string{"one", "two"} {
		m.event(s, agents.Prompt, nil)
		m.wrote(s, s, "agent\n")
	}
	by := func(text string) string {
		t.Helper()
		for _, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(line, "added one") {
				return strings.TrimPrefix(line, "added one")
			}
		}
		return "none"
	}
	for session, want := range map[string]string{"one": "", "two": "none"} {
		if _, text := m.ask(session, "snapshot_create", nil, false); by(text) != want {
			t.Errorf("snapshot_create of session %s says\n%s", session, text)
		}
	}
	_, text := m.ask("one", "restore", arguments{"target": "start"}, true)
	if !strings.Contains(text, `[turn_open]: restore "start": a turn is open: of session "two"`) ||
		!strings.Contains(text, "tell the user") {
		t.Errorf("restore while the other session is at work says\n%s", text)
	}
	// the other session's model calls the same tool at this moment
	m.event("two", agents.ToolStart, arguments{"tool_name": "mcp__files__restore", "tool_use_id": "r2"})
	_, text = m.ask("one", "restore_preview", arguments{"target": "start"}, false)
	if !strings.Contains(text, "would delete one") {
		t.Errorf("restore_preview says\n%s", text)
	}
	_, text = m.ask("one", "restore", arguments{"target": "start", "force": true}, false)
	if !strings.Contains(text, "[several_turns]: sessions one, two run restore at once") {
		t.Errorf("restore by nobody knows whom says\n%s", text)
	}
	if r, text := m.ask("one", "restore", arguments{"target": "start", "force": true}, true); r.IsError {
		t.Errorf("restore says\n%s", text)
	}
	m.event("two", agents.ToolEnd, arguments{"tool_name": "mcp__files__restore", "tool_use_id": "r2"})
	var list mcp.Snapshots
	m.call("snapshot_list", nil, &list)
	var kinds []string
	for _, s := range list.Snapshots {
		kinds = append(kinds, s.Kind)
	}
	if d := cmp.Diff([]string{"start"}, kinds); d != "" {
		t.Errorf("the server's own session (-want +got):\n%s", d)
	}
	m.want("two", "agent\n")
	if _, err := os.Stat(filepath.Join(m.project, "one")); err == nil {
		t.Error("restore left the file of session one")
	}
}

func TestIsCalled(t *testing.T) {
	for name, want := range map[string]bool{"mcp__snapctl__restore": true, "mcp__my_files__restore": true,
		"mcp_snapctl_restore":   true,
		"mcp__x__force_restore": false, "restore": false, "my_restore": false, "mcp__snapctl__undo": false} {
		if got := isCalled(name, "restore"); got != want {
			t.Errorf("isCalled(%q) = %v", name, got)
		}
	}
}
