package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/health"
	"github.com/boocode/filestore/internal/nearmiss"
	"github.com/boocode/filestore/internal/wire"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/rollback"
)

// connect returns a client of a server on a directory with a file.
func connect(t *testing.T) (*sdk.ClientSession, *Server) {
	t.Helper()
	e, err := manager.NewEngine(&manager.EngineOptions{StoreRoot: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Engine: e, Root: t.TempDir(), Session: "mcp", Version: "test"}
	if err := os.WriteFile(filepath.Join(s.Root, "a"), []byte("1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	c := attach(t, func(r io.Reader, w io.Writer) { done <- s.Serve(context.Background(), r, w) })
	t.Cleanup(func() {
		c.Close()
		if err := <-done; err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("serve: %v", err)
		}
		if err := e.Close(); err != nil {
			t.Errorf("close engine: %v", err)
		}
	})
	return c, s
}

// attach returns a client, of the SDK, of what serves two streams.
func attach(t *testing.T, serve func(io.Reader, io.Writer)) *sdk.ClientSession {
	t.Helper()
	in, theirs := io.Pipe()
	ours, out := io.Pipe()
	go func() {
		serve(in, out)
		in.Close()
		out.Close()
	}()
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(),
		&sdk.IOTransport{Reader: ours, Writer: theirs}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTools reads what a client is told of the tools.
func TestTools(t *testing.T) {
	c, _ := connect(t)
	if c.InitializeResult().Instructions == "" {
		t.Error("there are no instructions")
	}
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]kind{"snapshot_create": records, "snapshot_list": looks, "snapshot_diff": looks,
		"files_modified": looks, "file_diff": looks, "hunks": looks, "whereis": looks, "blame": looks, "find": looks,
		"restore_preview": looks, "restore": rewrites, "revert_preview": looks, "revert": rewrites, "undo": rewrites,
		"redo": rewrites, "patch_apply": rewrites, "patch_undo": rewrites}
	for _, tool := range list.Tools {
		k, ok := kinds[tool.Name]
		delete(kinds, tool.Name)
		if !ok || !regexp.MustCompile(`^[a-z0-9_]{1,30}$`).MatchString(tool.Name) {
			t.Errorf("tool %q is not known", tool.Name)
		}
		a := tool.Annotations
		if a.ReadOnlyHint != (k == looks) || *a.DestructiveHint != (k == rewrites) || *a.OpenWorldHint ||
			a.Title == "" || tool.Description == "" {
			t.Errorf("%s: annotations %+v, description %q", tool.Name, a, tool.Description)
		}
		var schema struct {
			Additional any `json:"additionalProperties"`
			Properties map[string]struct{ Description string }
		}
		b, err := json.Marshal(tool.InputSchema)
		if err == nil {
			err = json.Unmarshal(b, &schema)
		}
		if err != nil || schema.Additional == nil || tool.OutputSchema == nil {
			t.Errorf("%s: schemas %s, %v, %v", tool.Name, b, tool.OutputSchema, err)
		}
		for name, p := range schema.Properties {
			if p.Description == "" {
				t.Errorf("%s: argument %s is not described", tool.Name, name)
			}
		}
	}
	for name := range kinds {
		t.Errorf("tool %s is missing", name)
	}
	var got []byte
	for _, tool := range list.Tools { // each is a line
		b, err := json.Marshal(tool)
		if err != nil {
			t.Fatal(err)
		}
		got = append(append(got, b...), '\n')
	}
	const name = "testdata/tools.json"
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what clients are told (%v): go test ./cmd/snapctl/internal/mcp -run Tools -update", name,
			err)
	}
}

var update = flag.Bool("update", false, "rewrite testdata/tools.json")

// TestVerb: a verb is a tool with the arguments that have a text, and no others.
func TestVerb(t *testing.T) {
	_, s := connect(t)
	x := &tools{server: new(Server), open: &opener{open: func() (*manager.FileSnapshotManager, string,
		error) {
		return s.open(context.Background())
	}},
		log: slog.New(slog.DiscardHandler)}
	addVerb(x, "get_modified_files", "Files", looks, "Lists files.", map[string]string{"from": "a revision"})
	served := make(chan error)
	c := attach(t, func(r io.Reader, w io.Writer) {
		served <- (&conn{out: wire.LineWriter{W: w}}).serve(context.Background(), r, x.handle)
	})
	defer func() {
		if err := errors.Join(c.Close(), <-served, x.open.close()); err != nil &&
			!errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	}()
	for args, want := range map[string]string{
		`{"from":"start"}`:   `"files":[]`,
		`{"from":"turn:9"}`:  "get_modified_files failed [unknown]: ",
		`{"foreign":true}`:   `arguments: unknown: ["foreign"]`,
		`{"from":["start"]}`: `from: ["start"] has type "array", want "string"`,
	} {
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "get_modified_files",
			Arguments: json.RawMessage(args)})
		text := fmt.Sprint(err)
		if err == nil {
			text = r.Content[0].(*sdk.TextContent).Text
		}
		if !strings.Contains(text, want) {
			t.Errorf("get_modified_files %s: %s, want %q", args, text, want)
		}
		if b, err := json.Marshal(r.StructuredContent); !r.IsError && !strings.Contains(string(b), want) {
			t.Errorf("get_modified_files %s: structured %s, %v, want %q", args, b, err, want)
		}
	}
}

// TestOfSchema: what a schema refuses is told in words.
func TestOfSchema(t *testing.T) {
	c, _ := connect(t)
	for _, row := range []struct{ tool, args, want string }{
		{"snapshot_list", `{"limit":-1}`, "limit: want 0 or more, have -1"},
		{"snapshot_list", `{"limit":-1.0}`, "limit: want 0 or more, have -1"},
		{"files_modified", `{"foreign":true}`, `arguments: unknown: ["foreign"]`},
		{"snapshot_list", `{"limit":1.5}`, `limit: 1.5 has type "number", want "integer"`},
		{"snapshot_list", `[1]`, `arguments: [1] has type "array", want "object"`},
		{"snapshot_create", `{"label":7}`, `label: 7 has type "integer", want "string"`},
		{"snapshot_create", `{"LABEL":"x"}`, `arguments: unknown: ["LABEL"]`},
		{"snapshot_create", `{"partial":null}`, `partial: null has type "null", want "boolean"`},
		{"snapshot_create", `{"label":"` + strings.Repeat("é", maxLabel+1) + `"}`,
			"label: 201 characters, want at most 200"},
		{"whereis", `{"path":"\udc00"}`, `arguments.path: it has a byte that is not UTF-8, or an escape that is half of a character`},
		{"whereis", `{}`, `arguments: missing: ["path"]`},
		{"snapshot_diff", `{"paths":["a",3]}`, `paths[1]: 3 has type "integer", want "string"`},
		{"patch_apply", `{"expected":{"a":1}}`, `expected.a: 1 has type "integer", want "string"`},
		{"restore", `{"target":"@","onDirty":"x"}`, `onDirty: "x" is none of merge, skip, overwrite, abort`},
	} {
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: row.tool, Arguments: json.RawMessage(row.args)})
		if err != nil || !r.IsError || r.Content[0].(*sdk.TextContent).Text != row.want {
			t.Errorf("%s %s: %v, %+v, want %q", row.tool, row.args, err, r, row.want)
		}
	}
}

// TestWhole: a number without a fraction is an integer, and no arguments are none.
func TestWhole(t *testing.T) {
	c, _ := connect(t)
	for _, args := range []string{`{"limit":2.0}`, `null`, `{}`} {
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "snapshot_list", Arguments: json.RawMessage(args)})
		if err != nil || r.IsError {
			t.Errorf("snapshot_list %s: %+v, %v", args, r, err)
		}
	}
}

// TestVersions: a client that asks with initialize is answered the version that it speaks,
// or the newest that has initialize. One that says its version with each call need not ask.
func TestVersions(t *testing.T) {
	x := &tools{server: &Server{Version: "v"}}
	for asked, want := range map[string]string{"2024-11-05": "2024-11-05", "2025-11-25": "2025-11-25",
		stateless: "2025-11-25", "1999-01-01": "2025-11-25"} {
		r, _, err := x.handle(t.Context(), message{method: "initialize",
			params: json.RawMessage(`{"protocolVersion":"` + asked + `"}`)})
		if err != nil || r.(*initialized).Version != want || r.(*initialized).ResultType != "" {
			t.Errorf("initialize %s: %+v, %v, want %s", asked, r, err, want)
		}
	}
	for _, method := range []string{"server/discover", "tools/list", "prompts/list"} {
		r, _, err := x.handle(t.Context(), message{method: method,
			params: json.RawMessage(`{"_meta":{"` + metaVersion + `":"` + stateless + `"}}`)})
		b, jerr := json.Marshal(r)
		if err != nil || jerr != nil || !strings.HasPrefix(string(b), `{"resultType":"complete","_meta":{"`) ||
			!strings.Contains(string(b), `"ttlMs":0,"cacheScope":"public"`) {
			t.Errorf("%s: %s, %v", method, b, err)
		}
	}
	_, _, err := x.handle(t.Context(), message{method: "ping",
		params: json.RawMessage(`{"_meta":{"` + metaVersion + `":"2099-01-01"}}`)})
	if err == nil || err.Code != codeVersion {
		t.Errorf("a version of the future: %v", err)
	}
}

// TestCancelled calls what changes something with a context that has ended:
// nothing is recorded, and the error says so.
func TestCancelled(t *testing.T) {
	c, s := connect(t)
	if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "snapshot_list"}); err != nil {
		t.Fatal(err)
	}
	m, _, err := s.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := create(ctx, m, &CreateArgs{Label: "x"}); err == nil ||
		!strings.Contains(failed("snapshot_create", err).Error(), "[cancelled]") {
		t.Errorf("cancelled snapshot_create: %v", err)
	}
	r, err := list(t.Context(), m, &ListArgs{})
	if err != nil || r.Total != 1 {
		t.Errorf("after a cancelled call there are %+v, %v", r, err)
	}
}

// TestOpener: a call waits for the attempt that is under way, an attempt that
// failed is made again, and a caller that leaves does not end it.
func TestOpener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan error)
		o := &opener{open: func() (*manager.FileSnapshotManager, string, error) {
			err := <-answers
			if err != nil {
				return nil, "", err
			}
			return new(manager.FileSnapshotManager), "", nil
		}}
		o.attempt()
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := o.wait(ctx)
			left <- err
		}()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that leaves gets %v", err)
		}
		answers <- errors.New("first")
		synctest.Wait()
		for _, want := range []error{errors.New("second"), nil} {
			go func() { answers <- want }()
			if _, err := o.wait(t.Context()); fmt.Sprint(err) != fmt.Sprint(want) {
				t.Errorf("wait returns %v, want %v", err, want)
			}
		}
		if m, err := o.wait(t.Context()); m == nil || err != nil {
			t.Errorf("wait when it is open returns %v, %v", m, err)
		}
		late := &opener{closed: true}
		if _, err := late.wait(t.Context()); !errors.Is(err, errGone) {
			t.Errorf("wait when it is closed returns %v", err)
		}
	})
}

// TestFailed: every kind of error says what to do, and none is too long.
func TestFailed(t *testing.T) {
	all := []error{context.Canceled, context.DeadlineExceeded, &capture.BudgetError{Limit: "files"},
		&patch.ParseError{Reason: "x"}, badArgument("x"),
		&manager.EditError{Refused: []*patch.HunkError{{Path: "a", Err: manager.ErrOutside}}}}
	for _, k := range explain.Kinds {
		all = append(all, k.Errs...)
	}
	for _, err := range all {
		text := failed("restore", fmt.Errorf("restore %q: %w", "x", err)).Error()
		if !strings.Contains(text, "What to do: ") || strings.Contains(text, "[internal]") {
			t.Errorf("%v is told as %s", err, text)
		}
	}
	for _, tool := range []string{"undo", "redo"} {
		if text := failed(tool, manager.ErrNothing).Error(); !strings.Contains(text, "What to do: ") {
			t.Errorf("%s: nothing is told as %s", tool, text)
		}
	}
	refused := &manager.EditError{}
	for range 200 {
		refused.Refused = append(refused.Refused,
			&patch.HunkError{Path: strings.Repeat("p", 100), Err: manager.ErrOutside})
	}
	told := failed("patch_apply", refused).Error()
	if want := fmt.Sprintf(" ... and %d bytes more",
		len(refusals(refused))-maxRefusals); !strings.Contains(told, want) {
		t.Errorf("what is left of many refusals is not %q:\n%s", want, told[len(told)-200:])
	}
	if n := len(failed("restore", errors.New(strings.Repeat("é", 20_000))).Error()); n > maxChars {
		t.Errorf("a long error takes %d characters", n)
	}
}

// TestRestored: whatever becomes of a path is an item with a word of its own, and what
// was not done comes first once it is done.
func TestRestored(t *testing.T) {
	result := func(preview bool) *manager.RestoreResult {
		return &manager.RestoreResult{Preview: preview, HeadChanged: true, Restored: []string{"r"},
			Deleted: []string{"d"},
			Skipped: []string{"s"}, Made: []string{"m"}, NotCaptured: []string{"n"}, TurnsPutBack: []int{1, 2},
			Items: []rollback.Item{{Path: "r", Do: rollback.Restore, Note: "its owner"},
				{Path: "d e", Do: rollback.Delete},
				{Path: "s", Do: rollback.Skipped, Why: "changed since", Dirty: true},
				{Path: "\xff", Do: rollback.Kept, Why: "not ours"}},
			Moves: []rollback.Move{{From: "x", To: "y"}, {From: "v", To: "w", Why: "in the way"}}}
	}
	for preview, want := range map[bool]string{
		true: `Preview, nothing was changed. 1 restored, 1 deleted, 1 skipped, 3 not done. ` +
			`Another git commit is checked out than at the target: restore needs acrossHead: true.
would move x to y
would fail v to w: in the way
would make m
would restore r: its owner
would delete "d e"
would skip s: changed since
would keep "\xff": not ours
would leave n: it stays as it is: it was left out of the snapshots then, or is left out now
Turns that had been taken back and are put back then: 1 2.
Skipped files were edited since, by the user or another session. onDirty: "overwrite" restores them; what they hold now is kept for undo.`,
		false: `1 restored, 1 deleted, 1 skipped, 3 not done.
failed v to w: in the way
skipped s: changed since
kept "\xff": not ours
notCaptured n: it stays as it is: it was left out of the snapshots then, or is left out now
moved x to y
made m
restored r: its owner
deleted "d e"
Turns that had been taken back and are put back: 1 2.
Skipped files were edited since, by the user or another session. onDirty: "overwrite" restores them; what they hold now is kept for undo.`,
	} {
		a, err := restored(result(preview), "undo", "")
		if err != nil {
			t.Fatal(err)
		}
		if got := a.text(); got != want {
			t.Errorf("preview %v:\n%s\nwant\n%s", preview, got, want)
		}
	}
	many := result(true)
	for i := range 5_000 {
		many.Items = append(many.Items, rollback.Item{Path: fmt.Sprintf("dir/%05d", i), Do: rollback.Restore})
	}
	pages, seen := 0, 0
	for cursor := ""; ; pages++ {
		a, err := restored(many, "undo", cursor)
		if err != nil {
			t.Fatal(err)
		}
		seen += len(a.Items)
		if size(a) > maxChars || len(a.text()) > maxChars {
			t.Errorf("page %d has %d and %d characters", pages, size(a), len(a.text()))
		}
		if cursor = a.NextCursor; cursor == "" {
			break
		}
	}
	if want := len(items(many)); seen != want || pages == 0 {
		t.Errorf("%d items on %d pages, want %d", seen, pages+1, want)
	}
	many.Preview = false
	if a, err := restored(many, "undo", ""); err != nil || a.Unlisted == 0 || a.NextCursor != "" ||
		a.Items[0].Action != "failed" {
		t.Errorf("a long restore that is done: %d unlisted, %v", a.Unlisted, err)
	}
}

// TestCut: what is cut off is what comes next, characters stay whole, and there
// is always some of it.
// The first answer says how the store is, if nobody has said so today.
func TestHealth(t *testing.T) {
	root, stores := t.TempDir(), t.TempDir()
	for _, want := range []int{0, 1, 0} {
		e, err := manager.NewEngine(&manager.EngineOptions{StoreRoot: stores})
		if err != nil {
			t.Fatal(err)
		}
		m, news, err := (&Server{Engine: e, Root: root, Session: "mcp"}).open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(news, "damage was found in 2 places") != want {
			t.Errorf("news %q, want %d", news, want)
		}
		err = health.Change(m.StoreDir(), func(h *health.Health) { h.Bad = 2 })
		if err := errors.Join(err, m.Close(), e.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCut(t *testing.T) {
	for _, text := range []string{"", "a\nb\n", strings.Repeat("é", 5_000), strings.Repeat("<line>\n", 2_000),
		strings.Repeat("\xff", 3_000), strings.Repeat("\x01", 3_000)} {
		for _, left := range []int{-5, 0, 1000, room} {
			var whole strings.Builder
			for rest := text; rest != ""; {
				have, l := "", left
				if have = cut("", rest, &l); have == "" || textSize(have) > max(left, 200)+2 {
					t.Fatalf("cut of %.10q... to %d has %d bytes, %d as JSON", rest, left, len(have), textSize(have))
				}
				if strings.ToValidUTF8(text, "") == text && strings.ToValidUTF8(have, "") != have {
					t.Fatalf("cut of %.10q... to %d splits a character", rest, left)
				}
				whole.WriteString(have)
				rest = rest[len(have):]
			}
			if whole.String() != text {
				t.Errorf("the parts of %.10q... put together are not the whole", text)
			}
		}
	}
}

func TestCursor(t *testing.T) {
	c := cursor{digest("x"), 3, 4}
	if got, err := parseCursor(c.String(), c.of); got != c || err != nil {
		t.Errorf("parseCursor(%q) = %v, %v", c, got, err)
	}
	for _, bad := range []string{"x", c.of, c.of + ".1", c.of + ".-1.0", c.of + ".1.2.3", c.of + ".1.2x",
		c.of + ".01.2", "other.1.2"} {
		if got, err := parseCursor(bad, c.of); err == nil {
			t.Errorf("parseCursor(%q) = %v; want an error", bad, got)
		}
	}
}

// FuzzCursor: a cursor that is taken is the one that was given.
func FuzzCursor(f *testing.F) {
	for _, b := range nearmiss.Of([]byte(cursor{digest("x"), 12, 340}.String())) {
		f.Add(string(b))
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCursor(text, digest("x"))
		if err == nil && text != "" && c.String() != text || c.item < 0 && err == nil || c.offset < 0 && err == nil {
			t.Errorf("parseCursor(%q) = %+v", text, c)
		}
	})
}
