//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/boocode/filestore/cmd/snapctl/internal/mcp"
)

// TestMCPBadLines: a line that is no message is answered, and takes nothing along.
func TestMCPBadLines(t *testing.T) {
	t.Parallel()
	r := &runner{t: t, home: t.TempDir(), project: t.TempDir()}
	const begin = `{"jsonrpc":"2.0","id":"begin","method":"initialize","params":{"protocolVersion":"2025-06-18",` +
		`"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	for _, test := range []struct {
		name, line string
		want       []string // IDs of the answers, sorted; of errors with their codes
	}{
		{"garbage", "garbage", []string{"null -32700"}},
		{"half", `{"a":`, []string{"null -32700"}},
		{"empty batch", `[]`, []string{"null -32700"}},
		{"number", `7`, []string{"null -32700"}},
		{"other version", `{"jsonrpc":"1.0","id":7,"method":"ping"}`, []string{"7 -32700"}},
		{"neither", `{"jsonrpc":"2.0","id":"x"}`, nil}, // an answer to what nobody asked
		{"odd id", `{"jsonrpc":"2.0","id":[1],"method":"ping"}`, []string{"null -32700"}},
		{"odd method", `{"jsonrpc":"2.0","id":8,"method":9}`, []string{"8 -32700"}},
		{"too deep", strings.Repeat("[", 20_000), []string{"null -32700"}},
		{"too deep within", `{"jsonrpc":"2.0","id":9,"method":"ping","params":` + strings.Repeat("[", 20_000) +
			strings.Repeat("]", 20_000) + `}`, []string{"9 -32700"}},
		{"too long", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 17<<20) + `"}`, []string{"1 -32700"}},
		{"Latin-1", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"caf\xe9\"}", []string{"1 -32601"}},
		{"blank", " \t", nil},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"}]`, []string{"1"}},
		{"batch with something bad", `[{"jsonrpc":"2.0","id":1,"method":"ping"},7]`, []string{"null -32700"}},
	} {
		cmd := r.command("mcp")
		var said bytes.Buffer
		cmd.Stderr = &said
		cmd.Stdin = strings.NewReader(begin + "\n" + test.line + "\n" + `{"jsonrpc":"2.0","id":"last","method":"ping"}`)
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v, says %q", test.name, err, &said)
		}
		var got []string
		for line := range strings.Lines(string(out)) {
			var all []struct {
				ID    json.RawMessage
				Error *struct {
					Code    int
					Message string
				}
			}
			if !strings.HasPrefix(line, "[") {
				line = "[" + line + "]"
			}
			if err := json.Unmarshal([]byte(line), &all); err != nil {
				t.Errorf("%s: answer %.200q: %v", test.name, line, err)
			}
			for _, a := range all {
				text := string(a.ID)
				if a.Error != nil {
					text += fmt.Sprint(" ", a.Error.Code)
					if len(a.Error.Message) > 1100 {
						t.Errorf("%s: an error of %d bytes", test.name, len(a.Error.Message))
					}
				}
				got = append(got, text)
			}
		}
		slices.Sort(got)
		want := append([]string{`"begin"`, `"last"`}, test.want...)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%s: answers %q, want %q", test.name, got, want)
		}
	}
}

// TestMCPNames: what was not asked for is named in part and counted, in both forms.
func TestMCPNames(t *testing.T) {
	t.Parallel()
	m := newModel(t, nil)
	m.step()
	for i := range 120 {
		m.write(fmt.Sprintf("f%03d", i), "x\n")
	}
	var c mcp.Created
	text := m.call("snapshot_create", nil, &c)
	if len(c.Changes) != 50 || c.Unlisted != 70 || c.Added != 120 || !strings.Contains(text, "and 70 more") {
		t.Errorf("snapshot_create names %d and %d more:\n%s", len(c.Changes), c.Unlisted, text)
	}
	m.write("f000", "the user's\n")
	var would, did mcp.Restored
	m.call("restore_preview", arguments{"target": "start"}, &would)
	text = m.call("restore", arguments{"target": "start"}, &did)
	if len(would.Items) != 50 || would.NextCursor == "" || len(did.Items) != 50 || did.Unlisted != 70 ||
		did.Deleted != 119 ||
		!strings.Contains(text, "and 70 more") {
		t.Errorf("restore_preview names %d, restore %d and %d more:\n%s", len(would.Items), len(did.Items),
			did.Unlisted, text)
	}
	if did.Items[0].Path != "f000" || !strings.Contains(did.Advice, "overwrite") ||
		!strings.Contains(text, did.Advice) {
		t.Errorf("restore says first %+v, and advises %q", did.Items[0], did.Advice)
	}
	if m.call("undo", nil, &did); len(did.Items) != 50 || did.Restored != 119 {
		t.Errorf("undo names %d of %d", len(did.Items), did.Restored)
	}
	var d mcp.Diff
	if m.call("snapshot_diff", arguments{"from": "start", "statOnly": true}, &d); len(d.Files) != 50 ||
		d.FilesChanged != 120 {
		t.Errorf("snapshot_diff names %d of %d", len(d.Files), d.FilesChanged)
	}
	long := strings.Repeat("q", 1<<20)
	for _, test := range []struct {
		tool string
		args arguments
	}{
		{"snapshot_create", arguments{"label": long}}, {"restore", arguments{"target": long}},
		{"restore", arguments{"target": "@", "onDirty": long}},
		{"restore", arguments{"target": "start", "paths": []string{long}}},
		{"file_diff", arguments{"path": long, "to": "disk"}}, {"snapshot_list", arguments{long: 1}},
		{"patch_apply", arguments{"path": long, "old": "a", "new": "b"}},
		{"patch_apply", arguments{"path": "f000", "old": long, "new": "b"}},
		{"patch_undo", arguments{"undoId": long}}, {"snapshot_diff", arguments{"cursor": long}},
		{"hunks", arguments{"cursor": long}}, {"hunks", arguments{"turn": long}}, {"whereis", arguments{"path": long}},
	} {
		if r, text := m.raw(test.tool, test.args); !r.IsError || len(text) > 3000 {
			t.Errorf("%s with a long argument: %t, %d bytes: %.300s", test.tool, r.IsError, len(text), text)
		}
	}
	// a binary file has no line of ours in its diff
	m.write("f000", "\x00\x01")
	m.step()
	var f mcp.FileDiff
	if m.call("file_diff", arguments{"path": "f000"}, &f); !strings.HasSuffix(f.Content, " differ\n") {
		t.Errorf("file_diff of a binary file is %q", f.Content)
	}
}

// TestMCPTools: a client may be given some tools only, and what is said of others goes.
func TestMCPTools(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, tools, prompts string }{
		{"", "blame file_diff files_modified find hunks patch_apply patch_undo redo restore restore_preview revert " +
			"revert_preview snapshot_create snapshot_diff snapshot_list undo whereis", "changes rewind"},
		{"snapshots,look,restore,edit",
			"blame file_diff files_modified find hunks patch_apply patch_undo redo restore restore_preview revert " +
				"revert_preview snapshot_create snapshot_diff snapshot_list undo whereis", "changes rewind"},
		{"look", "blame file_diff files_modified find hunks restore_preview revert_preview snapshot_diff snapshot_list whereis",
			"changes"},
		{"restore,snapshot_create", "redo restore restore_preview revert revert_preview snapshot_create undo",
			"rewind"},
		{"edit", "patch_apply patch_undo", ""},
	} {
		var args []string
		if test.args != "" {
			args = []string{"--tools", test.args}
		}
		m := newModel(t, nil, args...)
		var tools, prompts []string
		for tool, err := range m.client.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			tools = append(tools, tool.Name)
		}
		for p, err := range m.client.Prompts(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			prompts = append(prompts, p.Name)
		}
		if d := cmp.Diff([]string{test.tools, test.prompts},
			[]string{strings.Join(tools, " "), strings.Join(prompts, " ")}); d != "" {
			t.Errorf("--tools %q (-want +got):\n%s", test.args, d)
		}
		says := m.client.InitializeResult().Instructions
		if got, want := strings.Contains(says, "patch_apply"),
			strings.Contains(test.tools, "patch_apply"); got != want {
			t.Errorf("--tools %q: instructions tell of patch_apply: %t, want %t", test.args, got, want)
		}
		if !strings.Contains(test.prompts, "rewind") {
			continue
		}
		p, err := m.client.GetPrompt(t.Context(),
			&sdk.GetPromptParams{Name: "rewind", Arguments: map[string]string{"to": "noon"}})
		if err != nil || !strings.Contains(p.Messages[0].Content.(*sdk.TextContent).Text, "Go back to: noon.") {
			t.Errorf("rewind: %+v, %v", p, err)
		}
	}
	r := &runner{t: t, home: t.TempDir(), project: t.TempDir()}
	if out, err := r.command("mcp", "--tools", "look,erase").CombinedOutput(); err == nil || !strings.Contains(string(out), `no tool "erase": there are blame`) {
		t.Errorf("an unknown tool: %v, %s", err, out)
	}
}
