package agents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/nearmiss"
)

// TestRead reads events as Claude Code sends them, and as it should not. Files
// that are in no table here are an error.
func TestRead(t *testing.T) {
	const id, cwd = "4f1d2c3b-0000-4a7e-9c11-aa00bb11cc22", "/home/u/p"
	want := map[string]*Event{
		"session_start":         {Name: SessionStart, Session: id, CWD: cwd, Source: "startup", Model: "m"},
		"session_start_compact": {Name: SessionStart, Session: id, CWD: cwd, Source: "compact"},
		"prompt":                {Name: Prompt, Session: id, CWD: cwd, Title: "rename \"foo\" to bär\nplease"},
		"tool_bash":             {Name: ToolStart, Session: id, CWD: cwd, Tool: "toolu_01A", Called: "Bash"},
		"tool_mcp": {Name: ToolStart, Session: id, CWD: cwd, Tool: "toolu_01M",
			Called: "mcp__fs__write_file"},
		"tool_subagent": {Name: ToolStart, Session: id, CWD: cwd, Tool: "toolu_01S", Called: "Bash"},
		"tool_old":      {Name: ToolStart, Session: id, CWD: cwd, Tool: "Bash", Called: "Bash"},
		"end_write": {Name: ToolEnd, Session: id, CWD: cwd, Tool: "toolu_01W",
			Wrote: []string{"/home/u/p/x"}, Edits: true},
		"end_notebook": {Name: ToolEnd, Session: id, CWD: cwd, Tool: "toolu_01N",
			Wrote: []string{"/home/u/p/n.ipynb"}, Edits: true},
		"end_bash":       {Name: ToolEnd, Session: id, CWD: cwd, Tool: "toolu_01A"},
		"end_failed":     {Name: ToolFailed, Session: id, CWD: cwd, Tool: "toolu_01E", Edits: true},
		"end_odd_input":  {Name: ToolEnd, Session: id, CWD: cwd, Tool: "toolu_01O", Wrote: []string{}},
		"end_odd_path":   {Name: ToolEnd, Session: id, CWD: cwd, Tool: "toolu_01P", Wrote: []string{}},
		"refused":        {Name: ToolRefused, Session: id, CWD: cwd, Tool: "toolu_01D"},
		"batch":          {Name: BatchEnd, Session: id, CWD: cwd, Tools: []string{"toolu_01D", "toolu_01E"}},
		"asked":          {Name: ToolAsked, Session: id, CWD: cwd},
		"stop":           {Name: Stop, Session: id, CWD: cwd},
		"stop_failed":    {Name: StopFailed, Session: id, CWD: cwd},
		"session_end":    {Name: SessionEnd, Session: id, CWD: cwd},
		"unknown_fields": {Name: Stop, Session: "s.1_-"},
		// of no concern
		"tool_read": nil, "batch_readers": nil, "batch_odd": nil, "tool_agent": nil, "subagent_stop": nil,
		"notification": nil, "unknown_event": nil, "no_event": nil, "odd_event": nil, "null": nil, "list": nil,
	}
	wrong := map[string]string{
		"no_session": "no session_id", "odd_session": "no session_id", "no_tool": "neither tool_use_id nor tool_name",
		"long_session": "session_id of 257 bytes: event is too long",
		"long_tool":    "tool_use_id of 257 bytes: event is too long", "batch_long": "tool_use_id of 257 bytes",
		"batch_no_tool": "neither tool_use_id", "empty": "unexpected end", "blank": "unexpected end",
		"garbage": "invalid character", "truncated": "unexpected end", "two": "after top-level value",
	}
	files, err := filepath.Glob("testdata/events/*.json")
	if err != nil || len(files) != len(want)+len(wrong) {
		t.Fatalf("testdata has %d events, want %d: %v", len(files), len(want)+len(wrong), err)
	}
	calls := make(map[string]string)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := claude.Read(f)
		f.Close()
		if text, ok := wrong[name]; ok {
			if err == nil || !strings.Contains(err.Error(), text) || got != nil {
				t.Errorf("Read(%s) = %+v, %v, want an error with %q", name, got, err, text)
			}
			continue
		}
		if got != nil {
			if got.Agent != "claude" {
				t.Errorf("Read(%s): agent %q", name, got.Agent)
			}
			calls[name], got.Call, got.Agent = got.Call, "", ""
		}
		if diff := cmp.Diff(want[name], got); err != nil || diff != "" {
			t.Errorf("Read(%s): %v, differs (-want +got):\n%s", name, err, diff)
		}
	}
	if c := calls["tool_bash"]; c == "" || calls["asked"] != c || calls["tool_mcp"] == c {
		t.Errorf("Call of a tool %q, of being asked about it %q, of another %q", c, calls["asked"], calls["tool_mcp"])
	}
}

// TestReadOthers reads what agents have told hooks, cut to what matters.
func TestReadOthers(t *testing.T) {
	gemini, codex := Named("gemini"), Named("codex")
	write := `"tool_name":"write_file","tool_input":{"file_path":"a.txt","content":"one\n"}`
	wrote := (&call{Tool: "write_file", Input: []byte(`{"file_path":"a.txt","content":"one\n"}`)}).fingerprint()
	bash := (&call{Tool: "Bash", Input: []byte(`{"command":"echo > x"}`)}).fingerprint()
	patch := `"tool_name":"apply_patch","tool_use_id":"c1","tool_input":{"command":"*** Begin Patch\n*** Add File: a.txt\n` +
		`+x\n*** Update File: /p/b.txt\n*** Move to: c d.txt\n*** End Patch\n"}`
	for _, test := range []struct {
		agent      *Agent
		name, rest string
		want       *Event // without Agent, Session and CWD
	}{
		{codex, "SessionStart", `"source":"startup","model":"m"`, &Event{Name: SessionStart, Source: "startup", Model: "m"}},
		{codex, "UserPromptSubmit", `"prompt":"do it","model":"m"`, &Event{Name: Prompt, Title: "do it", Model: "m"}},
		{codex, "UserPromptSubmit", `"prompt":"do it","agent_id":"a"`, nil},
		{Named("claude"), "UserPromptSubmit", `"prompt":"<task-notification>\n<task-id>b9jkh8at3</task-id>\n` +
			`<status>completed</status>\n<summary>Background command \"step\" completed</summary>\n</task-notification>"`,
			&Event{Name: Prompt, Title: `Background command "step" completed`}},
		{codex, "PostToolUse", patch + `,"tool_response":""`, &Event{Name: ToolEnd, Tool: "c1", Wrote: []string{"/p/a.txt", "/p/b.txt", "/p/c d.txt"}, Edits: true}},
		{codex, "PostToolUse", strings.Replace(patch, "a.txt", `\ud800`, 1) + `,"tool_response":""`,
			&Event{Name: ToolEnd, Tool: "c1", Wrote: []string{"/p/b.txt", "/p/c d.txt"}, Edits: true}},
		{codex, "PostToolUse", strings.Replace(patch, "a.txt", `\ufffd`, 1) + `,"tool_response":""`,
			&Event{Name: ToolEnd, Tool: "c1", Wrote: []string{"/p/\uFFFD", "/p/b.txt", "/p/c d.txt"}, Edits: true}},
		{codex, "PostToolUse", `"tool_name":"Bash","tool_use_id":"c2","tool_response":""`, &Event{Name: ToolEnd, Tool: "c2"}},
		{codex, "PreToolUse", `"tool_name":"update_plan","tool_use_id":"c3"`, nil},
		{codex, "PreToolUse", `"tool_name":"collaborationwait_agent","tool_use_id":"c4","tool_input":{}`, nil},
		{codex, "PreToolUse", `"tool_name":"Bash","tool_use_id":"c5","tool_input":{"command": "echo > x"}`,
			&Event{Name: ToolStart, Tool: "c5", Called: "Bash", Call: bash}},
		{codex, "PermissionRequest", `"tool_name":"Bash","tool_input":{"command":"echo > x","description":"May it?"}`,
			&Event{Name: ToolAsked, Call: bash}},
		{codex, "Interrupt", `"turn_id":"t"`, &Event{Name: Interrupted}},
		{codex, "Stop", `"last_assistant_message":"done"`, &Event{Name: Stop}},
		{codex, "PostCompact", `"trigger":"auto"`, nil},
		{gemini, "BeforeAgent", `"prompt":"do it"`, &Event{Name: Prompt, Title: "do it"}},
		{gemini, "BeforeTool", write, &Event{Name: ToolStart, Tool: wrote, Called: "write_file", Call: wrote}},
		{gemini, "Notification", `"notification_type":"ToolPermission"`, &Event{Name: ToolAsked}},
		{gemini, "Notification", `"notification_type":"another"`, nil},
		{gemini, "AfterTool", write + `,"tool_response":{"llmContent":"ok"}`, &Event{Name: ToolEnd, Tool: wrote, Wrote: []string{"/p/a.txt"}, Edits: true}},
		{gemini, "AfterTool", write + `,"tool_response":{"error":{"message":"no"}}`, &Event{Name: ToolEnd, Tool: wrote}},
		{gemini, "AfterTool", `"tool_name":"read_file"`, nil},
		{gemini, "AfterAgent", `"prompt":"do it"`, &Event{Name: Stop}},
		{gemini, "PreToolUse", `"tool_name":"x"`, nil},
	} {
		text := fmt.Sprintf(`{"session_id":"s","cwd":"/p","hook_event_name":%q,%s}`, test.name, test.rest)
		got, err := test.agent.Read(strings.NewReader(text))
		if test.want != nil {
			test.want.Agent, test.want.Session, test.want.CWD = test.agent.Name, "s", "/p"
		}
		if d := cmp.Diff(test.want, got); err != nil || d != "" {
			t.Errorf("%s reads %s: %v, differs (-want +got):\n%s", test.agent.Name, text, err, d)
		}
	}
	long := `{"session_id":"s","hook_event_name":"UserPromptSubmit","prompt":"` + strings.Repeat("ä", maxTitle) + `"}`
	e, err := codex.Read(strings.NewReader(long))
	if err != nil || len(e.Title) != maxTitle || !utf8.ValidString(e.Title) {
		t.Errorf("a title of %d bytes, valid %v, %v", len(e.Title), utf8.ValidString(e.Title), err)
	}
}

// endless yields no end.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func TestReadLong(t *testing.T) {
	if e, err := claude.Read(endless{}); e != nil || !errors.Is(err, ErrLong) {
		t.Errorf("Read of an endless event = %v, %v, want ErrLong", e, err)
	}
}

func FuzzRead(f *testing.F) {
	files, _ := filepath.Glob("testdata/events/*.json")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	for _, text := range []string{`{"hook_event_name":"PostToolUse","session_id":"s","tool_name":"Write","tool_use_id":"t","tool_input":{"file_path":"/x"}}`,
		`{"hook_event_name":"AfterTool","session_id":"s","cwd":"/","tool_name":"replace","tool_input":{"file_path":"x"},"tool_response":{"error":1}}`,
		`{"hook_event_name":"PostToolUse","session_id":"s","tool_name":"apply_patch","tool_input":{"command":"*** Add File: x\n"}}`,
		`{"hook_event_name":"PostToolBatch","session_id":"s","tool_calls":[{"tool_name":"Bash"},{"tool_use_id":"t"}]}`} {
		for _, b := range nearmiss.Of([]byte(text)) {
			f.Add(string(b))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range []*Agent{claude, codex, gemini} {
			e, err := a.Read(strings.NewReader(text))
			if e == nil {
				continue
			}
			if err != nil || e.Session == "" || e.Name == "" || slices.Contains(e.Tools, "") ||
				slices.Contains(e.Wrote, "") {
				t.Errorf("%s: Read = %+v, %v", a.Name, e, err)
			}
			for _, id := range append(e.Tools, e.Session, e.Tool) {
				if len(id) > maxID {
					t.Errorf("%s: Read = %+v: %d bytes are more than the limit", a.Name, e, len(id))
				}
			}
		}
	})
}
