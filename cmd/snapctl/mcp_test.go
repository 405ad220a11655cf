//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/boocode/filestore/cmd/snapctl/internal/mcp"
	"github.com/boocode/filestore/manager"
)

// A model is a client of snapctl mcp, with a home and a project of its own.
type model struct {
	*runner
	client *sdk.ClientSession
	stderr *bytes.Buffer
}

// newModel starts snapctl mcp in a project with the given files.
func newModel(t *testing.T, files map[string]string, args ...string) *model {
	t.Helper()
	m := &model{runner: &runner{t: t, home: t.TempDir(), project: t.TempDir()}}
	for name, content := range files {
		m.write(name, content)
	}
	t.Cleanup(func() { checkStores(t, filepath.Join(m.home, ".boo", "file-store")) })
	m.connect(args...)
	return m
}

// connect starts the server anew.
func (m *model) connect(args ...string) {
	m.t.Helper()
	cmd := m.command(append([]string{"mcp"}, args...)...)
	m.stderr = new(bytes.Buffer)
	cmd.Stderr = m.stderr
	var err error
	m.client, err = sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(m.t.Context(),
		&sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		m.t.Fatalf("connect: %v\n%s", err, m.stderr)
	}
	client := m.client
	m.t.Cleanup(func() { client.Close() })
}

func (m *model) write(name, content string) {
	m.t.Helper()
	name = filepath.Join(m.project, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) want(name, content string) {
	m.t.Helper()
	got, err := os.ReadFile(filepath.Join(m.project, name))
	if err != nil || string(got) != content {
		m.t.Errorf("%s holds %q, %v; want %q", name, got, err, content)
	}
}

type arguments = map[string]any

// raw calls a tool. Its result is within bounds.
func (m *model) raw(tool string, args any) (*sdk.CallToolResult, string) {
	m.t.Helper()
	r, err := m.client.CallTool(m.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		m.t.Fatalf("%s %v: %v\n%s", tool, args, err, m.stderr)
	}
	text := r.Content[0].(*sdk.TextContent).Text
	b, err := json.Marshal(r.StructuredContent)
	if err != nil || len(text) > 25_000 || len(b) > 25_000 {
		m.t.Errorf("%s %v: %d characters of text, %d of JSON, %v", tool, args, len(text), len(b), err)
	}
	return r, text
}

// call calls a tool that must succeed, and reads its answer into r.
func (m *model) call(tool string, args arguments, r any) string {
	m.t.Helper()
	result, text := m.raw(tool, args)
	if result.IsError {
		m.t.Fatalf("%s %v: %s", tool, args, text)
	}
	b, err := json.Marshal(result.StructuredContent)
	if err == nil && r != nil {
		err = json.Unmarshal(b, r)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return text
}

// fails calls a tool that must fail with a text that has these parts.
func (m *model) fails(tool string, args any, parts ...string) {
	m.t.Helper()
	r, text := m.raw(tool, args)
	if !r.IsError || r.StructuredContent != nil {
		m.t.Errorf("%s %v: %s %v; want an error", tool, args, text, r.StructuredContent)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			m.t.Errorf("%s %v fails with\n%s\nwant %q in it", tool, args, text, part)
		}
	}
}

// step takes a snapshot.
func (m *model) step() *mcp.Created {
	m.t.Helper()
	c := new(mcp.Created)
	m.call("snapshot_create", nil, c)
	return c
}

func TestMCPSnapshots(t *testing.T) {
	m := newModel(t, map[string]string{"a": "1\n", "gone": "x\n", ".booignore": "out/\n", "out/log": "x"})
	if c := m.step(); c.Recorded || c.Since != c.TreeHash {
		t.Errorf("with nothing changed: %+v", c)
	}
	m.write("a", "2\n")
	m.write("b", "1\n")
	os.Remove(filepath.Join(m.project, "gone"))
	c := new(mcp.Created)
	text := m.call("snapshot_create", arguments{"label": "work"}, c)
	if !c.Recorded || c.Added != 1 || c.Modified != 1 || c.Deleted != 1 || c.NotCaptured["ignored"] != 1 ||
		*c.TurnIndex != 0 {
		t.Errorf("snapshot_create: %+v", c)
	}
	for _, want := range []string{"modified a", "added b", "deleted gone", "turn:0", c.EntryID,
		c.TreeHash, "1 ignored"} {
		if !strings.Contains(text, want) {
			t.Errorf("snapshot_create says\n%s\nwithout %q", text, want)
		}
	}
	var list mcp.Snapshots
	m.call("snapshot_list", nil, &list)
	if len(list.Snapshots) != 2 || list.Snapshots[0].Kind != "start" || list.Snapshots[1].Label != "work" ||
		list.Snapshots[1].EntryID != c.EntryID {
		t.Errorf("snapshot_list: %+v", list)
	}
	// The CLI sees the same session.
	if got := m.must("--session", "mcp", "log"); !strings.Contains(got, c.EntryID) {
		t.Errorf("snapctl log says\n%s\nwithout %s", got, c.EntryID)
	}
	// What was changed while nobody served is not the session's.
	m.client.Close()
	m.write("user", "x\n")
	m.connect()
	m.call("snapshot_list", nil, nil) // which waits for the first look
	m.write("mine", "x\n")
	c = m.step()
	by := make(map[string]string)
	for _, ch := range c.Changes {
		by[ch.Path] = ch.By
	}
	if diff := cmp.Diff(map[string]string{"user": "other", "mine": ""}, by); diff != "" {
		t.Errorf("changes are by (-want +got):\n%s", diff)
	}
	m.call("restore", arguments{"target": "@~1"}, nil)
	m.want("user", "x\n")
	if _, err := os.Stat(filepath.Join(m.project, "mine")); err == nil {
		t.Error("restore left a file of the step")
	}
}

func TestMCPLooks(t *testing.T) {
	m := newModel(t, map[string]string{"a.txt": "one\ntwo\n", "bin": "\x00\x01", "latin": "caf\xe9\n",
		"\xff.txt": "x\n"})
	m.step()
	m.write("a.txt", "one\n2\n")
	m.write("bin", "\x00\x02")
	m.write("latin", "th\xe9\n")
	m.write("\xff.txt", "y\n")
	var d mcp.Diff
	text := m.call("snapshot_diff", nil, &d)
	if d.FilesChanged != 4 || d.NextCursor != "" || d.DiffBytes == "" ||
		!strings.Contains(d.UnifiedDiff, "-two\n+2\n") {
		t.Errorf("snapshot_diff: %+v", d)
	}
	for _, f := range d.Files {
		if f.Binary != (f.FilePath.Path == "bin") ||
			(f.PathBytes != "") != strings.HasSuffix(f.FilePath.Path, "\uFFFD.txt") {
			t.Errorf("snapshot_diff: %+v", f)
		}
	}
	if !strings.Contains(text, "modified a.txt +1 -1") || !strings.Contains(text, "modified bin (binary)") ||
		!strings.Contains(text, "is UTF-8") {
		t.Errorf("snapshot_diff says\n%s", text)
	}
	d = mcp.Diff{}
	m.call("snapshot_diff", arguments{"paths": []string{"a.txt"}, "statOnly": true}, &d)
	if d.FilesChanged != 1 || d.UnifiedDiff != "" || len(d.Files) != 1 || d.Files[0].Added != 1 {
		t.Errorf("snapshot_diff of a path, numbers only: %+v", d)
	}
	m.step()
	d = mcp.Diff{}
	text = m.call("snapshot_diff", arguments{"turn": "@", "paths": []string{"a.txt"}}, &d)
	if d.FilesChanged != 1 || !strings.Contains(d.UnifiedDiff, "-two\n+2\n") || d.Files[0].By != "turn" ||
		!strings.HasPrefix(text, "1 path changed by ") {
		t.Errorf("snapshot_diff of a step: %+v\n%s", d, text)
	}
	m.fails("snapshot_diff", arguments{"turn": "@", "from": "start"}, "[bad_request]", "without from and to")
	m.fails("snapshot_diff", arguments{"turn": "@", "paths": []string{"no-such"}}, "[unknown]", "neither side")
	var mod mcp.Modified
	m.call("files_modified", nil, &mod)
	if len(mod.Files) != 4 || mod.Files[0].FilePath.Path != "a.txt" || mod.Files[0].NetStatus != "modified" ||
		mod.Files[0].Owner != "turn" {
		t.Errorf("files_modified: %+v", mod)
	}
	var f mcp.FileDiff
	m.call("file_diff", arguments{"path": "a.txt"}, &f)
	if !strings.Contains(f.Content, "-two\n+2\n") || f.OldHash == f.NewHash {
		t.Errorf("file_diff: %+v", f)
	}
	f = mcp.FileDiff{}
	m.call("file_diff", arguments{"path": "a.txt", "show": "old"}, &f)
	if f.Content != "one\ntwo\n" {
		t.Errorf("file_diff of the old side: %+v", f)
	}
	f = mcp.FileDiff{}
	if text := m.call("file_diff", arguments{"path": "bin", "show": "new"}, &f); !f.Binary || f.Content != "" ||
		!strings.Contains(text, "binary") {
		t.Errorf("file_diff of a binary file: %+v, %s", f, text)
	}
}

// TestMCPRestore previews and restores, with a file that the user has changed
// since, and takes it back.
func TestMCPRestore(t *testing.T) {
	m := newModel(t, map[string]string{"a": "1\n", "b": "1\n", "dirty": "1\n"})
	m.step()
	for _, name := range []string{"a", "dirty", "new"} {
		m.write(name, "agent\n")
	}
	m.step()
	m.write("dirty", "user\n")
	m.write("b", "user\n")

	before := m.state(m.project)
	var want, got mcp.Restored
	text := m.call("restore_preview", arguments{"target": "@~1"}, nil)
	m.fails("restore_preview", arguments{"target": "@~7"}, "[unknown]", "snapshot_list")
	m.call("restore_preview", arguments{"target": "start"}, &want)
	if m.state(m.project) != before {
		t.Fatal("a preview changed files")
	}
	if !strings.Contains(text, "would skip dirty") || !strings.Contains(text, "would delete new") ||
		!strings.Contains(text, "would restore a") {
		t.Errorf("restore_preview says\n%s", text)
	}
	text = m.call("restore", arguments{"target": "start"}, &got)
	if got.Items[0].FilePath.Path != "dirty" {
		t.Errorf("restore lists first %v; want what was not done", got.Items[0])
	}
	byPath := func(x, y mcp.Item) int { return strings.Compare(x.FilePath.Path, y.FilePath.Path) }
	slices.SortFunc(got.Items, byPath)
	if diff := cmp.Diff(want.Items, got.Items); diff != "" || !want.Preview || got.Preview || got.Complete {
		t.Errorf("restore did not do what its preview said (-preview +restore):\n%s", diff)
	}
	if !strings.Contains(text, "skipped dirty") || !strings.Contains(text, "overwrite") {
		t.Errorf("restore says\n%s", text)
	}
	m.want("a", "1\n")
	m.want("dirty", "user\n")
	m.want("b", "user\n")

	m.call("restore", arguments{"target": "start", "onDirty": "overwrite"}, &got)
	m.want("dirty", "1\n")
	after := m.state(m.project)
	m.call("undo", arguments{"preview": true}, &want)
	if m.state(m.project) != after {
		t.Fatal("a preview of undo changed files")
	}
	if len(want.Items) != 1 || want.Items[0].FilePath.Path != "dirty" {
		t.Errorf("preview of undo: %+v", want)
	}
	m.call("undo", nil, nil)
	m.want("dirty", "user\n")
	m.call("undo", nil, nil)
	if m.state(m.project) != before {
		t.Errorf("after undo of all there is\n%s\nwant\n%s", m.state(m.project), before)
	}
	m.fails("undo", nil, "[nothing]", "@~1")
	m.call("redo", nil, nil)
	m.want("a", "1\n")

	m.write("dirty", "user again\n")
	var aborted mcp.Restored
	m.call("restore", arguments{"target": "start", "onDirty": "abort"}, &aborted)
	if !aborted.Aborted {
		t.Errorf("restore with a dirty file and abort: %+v", aborted)
	}
	m.call("restore", arguments{"target": "start", "exact": true}, nil)
	m.want("b", "1\n")
	for _, how := range []arguments{{"onDirty": "overwrite"}, {"exact": true}} {
		m.call("undo", nil, nil)
		m.want("b", "user\n")
		how["target"], how["paths"] = "start", []string{"b"}
		m.call("restore", how, nil)
		m.want("b", "1\n")
	}
}

func TestMCPPatch(t *testing.T) {
	m := newModel(t, map[string]string{"a.go": "func a() {\n\treturn 1\n}\n"})
	m.step()
	var e mcp.Edited
	m.call("patch_apply", arguments{"path": "a.go", "old": "return 1", "new": "return 2", "preview": true}, &e)
	m.want("a.go", "func a() {\n\treturn 1\n}\n")
	if !e.Preview || e.UndoID != "" || !strings.Contains(e.Files[0].Diff, "+\treturn 2") {
		t.Errorf("preview of patch_apply: %+v", e)
	}
	for format, text := range map[string]string{
		"search-replace": "a.go\n<<<<<<< SEARCH\n\treturn 1\n=======\n\treturn 2\n>>>>>>> REPLACE\n",
		"udiff":          "--- a/a.go\n+++ b/a.go\n@@ -1,3 +1,3 @@\n func a() {\n-\treturn 1\n+\treturn 2\n }\n",
		"v4a":            "*** Begin Patch\n*** Update File: a.go\n@@\n-\treturn 1\n+\treturn 2\n*** End Patch\n",
	} {
		e = mcp.Edited{}
		m.call("patch_apply", arguments{"format": format, "patch": text}, &e)
		m.want("a.go", "func a() {\n\treturn 2\n}\n")
		m.call("patch_undo", arguments{"undoId": e.UndoID}, nil)
		m.want("a.go", "func a() {\n\treturn 1\n}\n")
	}
	m.call("patch_apply", arguments{"path": "new.txt", "new": "x\n"}, &e)
	m.want("new.txt", "x\n")
	m.write("new.txt", "y\n")
	m.fails("patch_undo", arguments{"undoId": e.UndoID}, "[stale]", "reverse: true", "new.txt")
	m.call("patch_undo", arguments{"undoId": e.UndoID, "force": true}, nil)

	m.fails("patch_apply", arguments{"path": "a.go", "old": "func a() {\n\treturn 7\n}", "new": "x"}, "[refused]",
		"a.go", "return 1", "patch_apply again")
	m.fails("patch_apply", arguments{"path": "a.go", "old": "n", "new": "x"}, "[refused]", "a.go")
	// What a refusal promises is so: with fuzzy, and what goes with it.
	drifted := arguments{"path": "a.go", "old": "if x {\n    y()\n}", "new": "if x {\n    z()\n    w()\n}"}
	const was = "func a() {\n\tif x {\n\t\ty()\n\t}\n}\n"
	m.write("a.go", was)
	m.fails("patch_apply", drifted, "[refused]", "nothing was written", "the old text is not in the file",
		"With fuzzy: true the same call")
	drifted["fuzzy"] = true
	m.call("patch_apply", drifted, &e)
	m.want("a.go", "func a() {\n\tif x {\n\t\tz()\n\t\tw()\n\t}\n}\n")
	m.write("a.go", was)
	drifted["reindent"], drifted["merge"] = "off", false
	drifted["fuzzy"] = false
	m.fails("patch_apply", drifted, "[bad_request]", "without fuzzy: true")
	drifted["fuzzy"] = true
	m.call("patch_apply", drifted, &e)
	m.want("a.go", "func a() {\n"+drifted["new"].(string)+"\n}\n")
	if w := e.Files[0].Warnings; !slices.Contains(w, "indent_unsure") {
		t.Errorf("warnings %v", w)
	}
	m.fails("patch_apply", arguments{"path": "a.go", "old": "func b() {", "new": "x"}, "[refused]",
		"text that is there, exactly.")
	m.fails("patch_apply", arguments{"path": "a.go", "old": "-func a() {", "new": "+func b() {"}, "[refused]",
		"marks of a diff")
	// told by its look
	m.call("patch_apply", arguments{"patch": "--- a/a.go\n+++ b/a.go\n@@ -1 +1 @@\n-func a() {\n+func b() {\n"}, &e)
	m.write("a.go", "func a() {\n\treturn 1\n}\n")
	m.fails("patch_apply", arguments{"path": "../x", "new": "x"}, "[outside]", "../x")
	m.fails("patch_apply", arguments{"path": "a.go"}, "a.go")
	m.fails("patch_apply", arguments{"path": "a.go", "old": "return 1", "new": "x",
		"expected": arguments{"a.go": strings.Repeat("0", 64)}}, "[stale]")
	m.fails("patch_apply", arguments{"format": "udiff", "patch": "garbage"}, "[bad_patch]")
	m.fails("patch_apply", arguments{}, "[bad_request]")
	m.fails("patch_undo", arguments{"undoId": "nope"}, "[unknown]", "undoId")
}

// TestMCPErrors calls tools wrongly, or at a bad time: a model is told what to
// do.
func TestMCPErrors(t *testing.T) {
	m := newModel(t, map[string]string{"a": "1\n", ".git/HEAD": strings.Repeat("a", 40) + "\n", ".git/objects/x": "",
		".git/refs/x": "", "bin": "\x00"})
	m.step()
	m.write("a", "2\n")
	m.fails("restore", arguments{"target": "start"}, "1 path differs", "snapshot_create", "exact: true")
	m.step()
	m.write("a", "3\n")
	m.step()

	// The schema refuses what makes no sense.
	m.fails("restore", nil, `missing`, `target`)
	m.fails("restore", arguments{"target": 7}, `target`, `string`)
	m.fails("restore", arguments{"target": "@", "what": 1}, `what`)
	m.fails("restore", arguments{"target": "@", "onDirty": "maybe"}, `onDirty`, `overwrite`)
	m.fails("snapshot_list", arguments{"limit": "x"}, `limit`)
	m.fails("snapshot_list", arguments{"limit": -1}, `limit`)
	m.call("snapshot_list", arguments{"limit": 0}, nil) // the default
	m.fails("snapshot_create", arguments{"label": strings.Repeat("x", 201)}, `label`)

	m.fails("restore", arguments{"target": "nope"}, "[unknown]", `"nope"`, "snapshot_list")
	m.fails("restore", arguments{"target": "disk"}, "[bad_request]")
	m.fails("restore", arguments{"target": "@~1", "paths": []string{"../up"}}, "[outside]", "../up")
	m.fails("restore", arguments{"target": "@~1", "paths": []string{"/etc/passwd"}}, "[outside]")
	m.fails("snapshot_diff", arguments{"paths": []string{"a/../../x"}}, "[outside]")
	m.fails("snapshot_diff", arguments{"paths": []string{"a", "A.tx"}}, "[unknown]", `"A.tx"`, "neither side")
	m.fails("restore_preview", arguments{"target": "start", "paths": []string{"a\x00b"}}, "[bad_request]")
	m.fails("restore_preview", arguments{"target": "start", "paths": []string{strings.Repeat("x", 300)}},
		"[bad_request]")
	m.fails("snapshot_diff", arguments{"from": "disk"}, "[bad_request]")
	m.fails("file_diff", arguments{"path": "../x"}, "[outside]")
	m.fails("file_diff", arguments{"path": "a", "to": "disk"}, "snapshot_diff")
	m.fails("file_diff", arguments{"path": "none"}, "[unknown]", "none")
	m.fails("patch_apply", arguments{"path": "bin", "old": "x", "new": "y"}, "[not_text]", "bin")
	for _, tool := range []string{"snapshot_list", "snapshot_diff", "files_modified", "restore_preview"} {
		args := arguments{"cursor": "zz"}
		if tool == "restore_preview" {
			args["target"] = "start"
		}
		m.fails(tool, args, "[bad_request]", "nextCursor")
	}
	m.fails("redo", nil, "[nothing]")
	if _, err := m.client.CallTool(t.Context(), &sdk.CallToolParams{Name: "nope"}); err == nil {
		t.Error("a tool that does not exist was called")
	}

	// Another commit is checked out.
	m.write(".git/HEAD", strings.Repeat("b", 40)+"\n")
	m.fails("restore", arguments{"target": "@~1"}, "[head_changed]", "acrossHead: true")
	m.write(".git/HEAD", strings.Repeat("a", 40)+"\n")

	// Another session is at work.
	other, err := manager.Open(t.Context(), m.project,
		&manager.Options{StoreRoot: filepath.Join(m.home, ".boo", "file-store"), Session: "other"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.OnTurnStart(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	m.fails("restore", arguments{"target": "@~1"}, "[turn_open]", `"other"`, "force: true")
	m.want("a", "3\n")
	m.call("restore", arguments{"target": "@~1", "force": true}, nil)
	m.want("a", "2\n")
}

func TestMCPLimits(t *testing.T) {
	m := newModel(t, map[string]string{"a": "1\n", "b": "2\n", "c": "3\n"}, "--max-files", "1", "--max-file-size", "5")
	m.fails("snapshot_create", nil, "[budget]", "partial: true")
	c := new(mcp.Created)
	m.call("snapshot_create", arguments{"partial": true, "label": "part"}, c)
	if !c.Partial || c.NotCaptured["budget"] == 0 || len(c.Missing) == 0 {
		t.Errorf("partial snapshot: %+v", c)
	}
	m = newModel(t, nil)
	m.project = m.home
	m.client.Close()
	m.connect()
	m.fails("snapshot_create", nil, "[too_broad]", "--root")
	m.fails("snapshot_list", nil, "[too_broad]")
}

// maxPages is more than a test needs.
const maxPages = 500

// TestMCPPages reads a long history and a large diff page by page.
func TestMCPPages(t *testing.T) {
	t.Parallel()
	m := newModel(t, map[string]string{"a": "0\n"})
	for range 60 {
		m.call("snapshot_create", arguments{"label": strings.Repeat("é<", 99)}, nil)
	}
	var seen []mcp.Snapshot
	pages := 0
	for args := (arguments{"limit": 200}); pages < maxPages; pages++ {
		var r mcp.Snapshots
		text := m.call("snapshot_list", args, &r)
		seen = append(seen, r.Snapshots...)
		if (r.NextCursor != "") != strings.Contains(text, "There is more") {
			t.Errorf("snapshot_list says\n%s\nwith cursor %q", text, r.NextCursor)
		}
		if r.NextCursor == "" {
			break
		}
		args["cursor"] = r.NextCursor
	}
	if len(seen) != 61 || pages == 0 {
		t.Errorf("%d entries on %d more pages; want 61 on some", len(seen), pages)
	}

	var long strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&long, "line %d <of> \"many\" é\n", i)
	}
	m.write("long", long.String())
	m.write("one line", strings.Repeat("é", 30_000))
	for i := range 300 {
		m.write(fmt.Sprintf("many/%d", i), fmt.Sprintln(i))
	}
	var diff strings.Builder
	files := make(map[string]int)
	args := arguments{}
	for pages = 0; pages < maxPages; pages++ {
		var r mcp.Diff
		m.call("snapshot_diff", args, &r)
		diff.WriteString(r.UnifiedDiff)
		for _, f := range r.Files {
			files[f.FilePath.Path]++
		}
		if r.FilesChanged != 302 {
			t.Errorf("page %d: %d files changed, want 302", pages, r.FilesChanged)
		}
		if r.NextCursor == "" {
			break
		}
		args["cursor"] = r.NextCursor
	}
	if want := m.must("diff", "--session", "mcp"); diff.String() != want {
		t.Errorf("the pages put together are not what snapctl diff prints: %d bytes, want %d", diff.Len(), len(want))
	}
	for name, n := range files {
		if n != 1 {
			t.Errorf("%s is listed %d times", name, n)
		}
	}
	if len(files) != 302 || pages < 5 {
		t.Errorf("%d files on %d pages", len(files), pages)
	}
	m.write("a", "1\n")
	m.fails("snapshot_diff", args, "[changed]", "without cursor")

	// A list that does not fit says so.
	c := m.step()
	if len(c.Changes)+c.Unlisted != 303 || c.Added != 302 || c.Modified != 1 {
		t.Errorf("snapshot_create lists %d and leaves out %d, of %d and %d", len(c.Changes), c.Unlisted,
			c.Added, c.Modified)
	}
	var items []mcp.Item
	args = arguments{"target": "@~1"}
	for range maxPages {
		var r mcp.Restored
		m.call("restore_preview", args, &r)
		items = append(items, r.Items...)
		if r.NextCursor == "" {
			break
		}
		args["cursor"] = r.NextCursor
	}
	var r mcp.Restored
	m.call("restore", arguments{"target": "@~1"}, &r)
	if len(items) != len(r.Items)+r.Unlisted || r.Restored+r.Deleted < 303 {
		t.Errorf("preview lists %d items, restore %d and %d more; %d restored, %d deleted", len(items), len(r.Items),
			r.Unlisted, r.Restored, r.Deleted)
	}
	var f mcp.FileDiff
	var content strings.Builder
	args = arguments{"path": "long", "show": "new", "to": c.EntryID}
	for range maxPages {
		f = mcp.FileDiff{}
		m.call("file_diff", args, &f)
		content.WriteString(f.Content)
		if f.NextCursor == "" {
			break
		}
		args["cursor"] = f.NextCursor
	}
	if content.String() != long.String() {
		t.Error("the pages of a file put together are not the file")
	}
}

// TestMCPBounds makes results as long as they get: raw checks each.
func TestMCPBounds(t *testing.T) {
	files := map[string]string{"latin": strings.Repeat("caf\xe9\n", 200)}
	for i := range 60 {
		files[fmt.Sprintf("f%02d", i)] = strings.Repeat("line\n", 60)
	}
	m := newModel(t, files)
	m.step()
	var want, got strings.Builder
	for name := range files {
		m.write(name, files[name]+strings.Repeat("more\n", 55))
	}
	m.write("latin", strings.Repeat("th\xe9\n", 200))
	m.write("more", strings.Repeat("text\n", 3000))
	want.WriteString(m.must("diff", "--session", "mcp"))
	seen := make(map[string]int)
	args := arguments{}
	for range maxPages {
		var d mcp.Diff
		m.call("snapshot_diff", args, &d)
		for _, f := range d.Files {
			seen[f.FilePath.Path]++
		}
		b := []byte(d.UnifiedDiff)
		if d.DiffBytes != "" {
			b, _ = base64.StdEncoding.DecodeString(d.DiffBytes)
		}
		got.Write(b)
		if d.NextCursor == "" {
			break
		}
		args["cursor"] = d.NextCursor
	}
	if got.String() != want.String() || len(seen) != 62 {
		t.Errorf("the pages put together are %d bytes, want %d; %d files", got.Len(), want.Len(), len(seen))
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s is listed %d times", name, n)
		}
	}

	var edits strings.Builder
	for i := range 60 {
		fmt.Fprintf(&edits, "f%02d\n<<<<<<< SEARCH\nmore\nmore\nmore\n=======\n%s>>>>>>> REPLACE\n", i,
			strings.Repeat("<patched> & so on\n", 20))
	}
	var e mcp.Edited
	m.call("patch_apply", arguments{"format": "search-replace", "patch": edits.String(),
		"replacements": 0, "preview": true}, &e)
	left := 0
	for _, f := range e.Files {
		if f.DiffLeft > 0 {
			left++
		}
	}
	if e.Files[0].Diff == "" || left < 30 {
		t.Errorf("an edit of many files shows %q, and %d of %d with something left", e.Files[0].Diff,
			left, len(e.Files))
	}

	long := strings.Repeat("q", 50_000)
	m.fails("restore", arguments{"target": long}, "[unknown]", "What to do")
	m.fails("restore", arguments{"target": "@", "onDirty": long}, "bytes more")
	m.fails("restore", arguments{"target": "@", long: 1}, "bytes more")
	m.fails("file_diff", arguments{"path": long, "to": "disk"}, "bytes more")
	if _, err := m.client.CallTool(t.Context(), &sdk.CallToolParams{Name: long}); err == nil ||
		len(err.Error()) > 25_000 {
		t.Errorf("a tool that does not exist: %.100v", err)
	}
	m.call("snapshot_list", nil, nil) // the server is well
}

// TestMCPStaleList goes on with a list that has grown, also by a restore: it drops
// no turn.
func TestMCPStaleList(t *testing.T) {
	m := newModel(t, map[string]string{"a": "0\n"})
	m.step()
	for i := range 4 {
		m.write("a", fmt.Sprintln(i+1))
		m.step()
	}
	var r mcp.Snapshots
	m.call("snapshot_list", arguments{"limit": 3}, &r)
	args := arguments{"cursor": r.NextCursor}
	m.write("a", "more\n")
	m.step()
	r = mcp.Snapshots{}
	if m.call("snapshot_list", args, &r); len(r.Snapshots) != 3 || r.NextCursor != "" {
		t.Errorf("the rest of a list that has grown is %+v", r)
	}
	m.call("restore", arguments{"target": "start"}, nil)
	for i := range 4 {
		m.write("a", fmt.Sprintln(i+10))
		m.step()
	}
	r = mcp.Snapshots{}
	if m.call("snapshot_list", args, &r); len(r.Snapshots) != 8 || r.Snapshots[0].TakenBack == "" {
		t.Errorf("the rest of a list with a restore is %+v", r)
	}
	args["cursor"] = strings.Replace(args["cursor"].(string), ".3.", ".2.", 1)
	m.fails("snapshot_list", args, "[changed]", "without cursor")
}

// TestMCPLink names the root through a link, and so a path.
func TestMCPLink(t *testing.T) {
	m := newModel(t, map[string]string{"a": "1\n"})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(m.project, link); err != nil {
		t.Fatal(err)
	}
	m.client.Close()
	m.connect("--root", link)
	m.step()
	m.write("a", "2\n")
	for _, p := range []string{link, filepath.Join(link, "a"), filepath.Join(m.project, "a")} {
		var d mcp.Diff
		if m.call("snapshot_diff", arguments{"paths": []string{p}}, &d); d.FilesChanged != 1 {
			t.Errorf("snapshot_diff of %s: %+v", p, d)
		}
	}
}

// TestMCPOthers takes a snapshot behind an undo, which has changed something that
// is no turn's.
func TestMCPOthers(t *testing.T) {
	m := newModel(t, map[string]string{"a": "0\n", "u": "0\n"})
	m.step()
	m.write("a", "1\n")
	m.step()
	m.write("u", "user\n")
	m.call("restore", arguments{"target": "@~1"}, nil)
	m.step()
	m.call("undo", nil, nil)
	if text := m.call("snapshot_create", nil, nil); !strings.HasPrefix(text, "Nothing changed since") {
		t.Errorf("snapshot_create says\n%s", text)
	}
}

// manyFiles writes files of which a restore takes a while.
func manyFiles(m *model, content string) {
	for i := range 800 {
		m.write(fmt.Sprintf("f%03d", i), content)
	}
}

// restoring sends a restore of many files to the start, and waits until it has
// begun to write.
func (w *pipe) restoring(m *model) {
	w.t.Helper()
	w.send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"restore","arguments":{"target":"start"}}}`)
	for range 100_000 {
		if b, _ := os.ReadFile(filepath.Join(m.project, "f000")); string(b) == "old\n" {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
	w.t.Fatal("the restore did not begin")
}

// TestMCPKilled kills a server in the middle of a restore. The next one brings
// it to its end, and says so once.
func TestMCPKilled(t *testing.T) {
	m := newModel(t, nil)
	m.client.Close()
	manyFiles(m, "old\n")
	w := startPipe(m.runner)
	w.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"snapshot_list","arguments":{}}}`)
	w.read()
	manyFiles(m, "new\n")
	w.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"snapshot_create","arguments":{}}}`)
	w.read()
	w.restoring(m)
	w.cmd.Process.Kill()
	w.cmd.Wait()
	m.connect()
	var r mcp.Snapshots
	text := m.call("snapshot_list", nil, &r)
	if b, _ := os.ReadFile(filepath.Join(m.project, "f799")); string(b) != "old\n" {
		t.Errorf("f799 holds %q", b)
	}
	if !strings.HasPrefix(text, r.News) || !strings.Contains(r.News, "cut off") ||
		!strings.Contains(r.News, "undo takes it back") {
		t.Errorf("the first answer is %q\n%s", r.News, text)
	}
	r = mcp.Snapshots{}
	if m.call("snapshot_list", nil, &r); r.News != "" {
		t.Errorf("the second answer has news: %s", r.News)
	}
	m.call("undo", nil, nil)
	m.want("f000", "new\n")
}

// TestMCPDeaf closes the server's stdout in the middle of a restore: it is taken
// back, and the server ends by itself.
func TestMCPDeaf(t *testing.T) {
	t.Parallel()
	m := newModel(t, nil)
	m.client.Close()
	manyFiles(m, "old\n")
	w := startPipe(m.runner)
	w.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"snapshot_list","arguments":{}}}`)
	w.read()
	manyFiles(m, "new\n")
	w.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"snapshot_create","arguments":{}}}`)
	w.read()
	w.restoring(m)
	w.pipe.Close()
	w.send(`{"jsonrpc":"2.0","id":8,"method":"ping"}`)
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("a server without stdout ends with %v", err)
	}
	m.connect()
	var r mcp.Snapshots
	if m.call("snapshot_list", nil, &r); r.News != "" {
		t.Errorf("the restore was left half done: %s", r.News)
	}
}

// TestMCPCancel cancels a call while it waits for the first look. It is not
// reported as done, and does nothing.
func TestMCPCancel(t *testing.T) {
	r := newRunner(t)
	for i := range 2000 {
		if err := os.WriteFile(filepath.Join(r.project, fmt.Sprint("f", i)),
			bytes.Repeat(fmt.Append(nil, i), 5000), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := startPipe(r)
	w.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"snapshot_create","arguments":{"label":"x"}}}`)
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	// The SDK answers itself if the call had not begun.
	if got := w.read(); !strings.Contains(got, "cancel") || strings.Contains(got, "structuredContent") {
		t.Errorf("a cancelled call was answered %s", got)
	}
	w.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"snapshot_list","arguments":{}}}`)
	if got := w.read(); !strings.Contains(got, `"total":1}`) {
		t.Errorf("after a cancelled call the history is %s", got)
	}
	w.end()
}

// TestMCPEnd ends the input right behind a call: it is answered, and stdout has
// nothing but answers.
func TestMCPEnd(t *testing.T) {
	r := newRunner(t)
	w := startPipe(r)
	w.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"snapshot_create","arguments":{"label":"x"}}}`)
	w.stdin.Close()
	if got := w.read(); !strings.Contains(got, "Recorded") {
		t.Errorf("the last call was answered %s", got)
	}
	w.end()
}

// A pipe is snapctl mcp without a client.
type pipe struct {
	*runner
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	pipe   io.Closer // stdout
	stdout *bufio.Reader
}

func startPipe(r *runner) *pipe {
	w := &pipe{runner: r, cmd: r.command("mcp")}
	var err error
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		r.t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	w.pipe, w.stdout = out, bufio.NewReader(out)
	if err := w.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	timer := time.AfterFunc(time.Minute, func() { w.cmd.Process.Kill() })
	r.t.Cleanup(func() { timer.Stop() })
	w.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	w.read()
	w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return w
}

func (w *pipe) send(line string) {
	if _, err := fmt.Fprintln(w.stdin, line); err != nil {
		w.t.Fatal(err)
	}
}

func (w *pipe) read() string {
	w.t.Helper()
	line, err := w.stdout.ReadString('\n')
	if err != nil || !json.Valid([]byte(line)) {
		w.t.Fatalf("read %q: %v", line, err)
	}
	return line
}

// end ends the input; nothing more is printed, and all is well.
func (w *pipe) end() {
	w.t.Helper()
	w.stdin.Close()
	rest, err := io.ReadAll(w.stdout)
	if err := w.cmd.Wait(); err != nil || len(rest) > 0 {
		w.t.Errorf("at the end there was %q, %v", rest, err)
	}
	if err != nil {
		w.t.Error(err)
	}
}
