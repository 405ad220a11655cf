package rpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/health"
	"github.com/boocode/filestore/internal/nearmiss"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/wire"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A bench is a project, an engine and connections to it.
type bench struct {
	*testing.T
	dir    string
	server *Server
}

func newBench(t *testing.T) *bench {
	t.Helper()
	e, err := manager.NewEngine(&manager.EngineOptions{StoreRoot: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close engine: %v", err)
		}
	})
	return &bench{T: t, dir: t.TempDir(), server: &Server{Engine: e, Version: "test"}}
}

func (b *bench) write(name, content string) {
	b.Helper()
	name = filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		b.Fatal(err)
	}
}

// A link is a connection.
type link struct {
	*bench
	net.Conn
	answers map[string]map[string]any // by ID
	in      *bufio.Reader
}

func (b *bench) connect() *link {
	b.Helper()
	ours, theirs := net.Pipe()
	done := make(chan error)
	go func() { done <- b.server.Serve(context.Background(), theirs, theirs) }()
	b.Cleanup(func() {
		ours.Close()
		if err := <-done; err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.ErrClosedPipe) {
			b.Errorf("serve: %v", err)
		}
	})
	return &link{bench: b, Conn: ours, answers: make(map[string]map[string]any), in: bufio.NewReader(ours)}
}

// send sends a line.
func (l *link) send(format string, args ...any) {
	l.Helper()
	if _, err := fmt.Fprintf(l.Conn, format+"\n", args...); err != nil {
		l.Fatal(err)
	}
}

// answer waits for the answer to a request.
func (l *link) answer(id string) map[string]any {
	l.Helper()
	for l.answers[id] == nil {
		l.SetReadDeadline(time.Now().Add(20 * time.Second))
		line, err := l.in.ReadBytes('\n')
		if err != nil {
			l.Fatalf("wait for %s: %v", id, err)
		}
		var a map[string]any
		if err := json.Unmarshal(line, &a); err != nil {
			l.Fatalf("%s: %v", line, err)
		}
		if a["type"] == "response" {
			key, _ := json.Marshal(a["id"])
			l.answers[string(key)] = a
		}
	}
	a := l.answers[id]
	delete(l.answers, id)
	return a
}

// ask sends a request and returns the data of its answer, which must be good.
func (l *link) ask(id, rest string) map[string]any {
	l.Helper()
	l.send(`{"id":%s,%s}`, id, rest)
	a := l.answer(id)
	if a["success"] != true || a["status"] != "complete" {
		l.Fatalf("%s: %v", rest, a)
	}
	data, _ := a["data"].(map[string]any)
	return data
}

// refused sends a request that must be refused with a code.
func (l *link) refused(id, rest, code string) map[string]any {
	l.Helper()
	l.send(`{"id":%s,%s}`, id, rest)
	a := l.answer(id)
	if a["success"] != false || a["code"] != code || a["error"] == "" {
		l.Errorf("%s: %v, want %s", rest, a, code)
	}
	return a
}

// TestTurnDiff: a turn's diff is what the turn did, in parts if it is long, and what
// the user did has a name of its own.
func TestTurnDiff(t *testing.T) {
	const maxDiffs = wire.MaxLine / 8 // as package verbs has it
	b := newBench(t)
	b.write("a", "one\n")
	l := b.connect()
	l.ask("1", fmt.Sprintf(`"type":"initialize","cwd":%q,"sessionId":"s","ownLog":true`, b.dir))
	b.write("mine", "user\n")
	l.ask("2", `"type":"turn_start","sessionId":"s"`)
	b.write("a", "two\n")
	b.write("b", "b\n")
	b.write("dir/c", strings.Repeat("long\n", maxDiffs/5))
	b.write("dir/d", "d\n")
	l.ask("3", `"type":"turn_end","sessionId":"s"`)
	var got []string
	add := func(params string) string {
		d := l.ask("4", `"type":"get_turn_diff","sessionId":"s"`+params)
		for _, f := range d["files"].([]any) {
			f := f.(map[string]any)
			got = append(got, fmt.Sprintf("%v %v %v %.0f %.0f %v %v", f["path"], f["status"], f["owner"], f["added"],
				f["deleted"], f["unifiedDiff"] != "", f["tooLong"]))
		}
		next, _ := d["nextCursor"].(string)
		return next
	}
	for cursor := ""; ; {
		next := add(fmt.Sprintf(`,"cursor":%q`, cursor))
		if cursor = next; cursor == "" {
			break
		}
		got = append(got, "next")
	}
	add(`,"limit":1,"cursor":"1","rev":"turn:0"`)
	add(`,"paths":["dir/d"]`)
	for _, row := range l.ask("5", `"type":"get_snapshots","sessionId":"s"`)["snapshots"].([]any) {
		row := row.(map[string]any)
		if row["kind"] == "base" {
			add(fmt.Sprintf(`,"rev":%q`, row["rev"]))
		}
	}
	long := fmt.Sprintf("dir/c added turn %d 0 false true", maxDiffs/5)
	want := []string{"a modified turn 1 1 true <nil>", "b added turn 1 0 true <nil>", "next", long, "next",
		"dir/d added turn 1 0 true <nil>",
		"b added turn 1 0 true <nil>", "dir/d added turn 1 0 true <nil>", "mine added offline 1 0 true <nil>"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("turn's diff (-want +got):\n%s", d)
	}
	l.refused("6", `"type":"get_turn_diff","sessionId":"s","rev":"turn:9"`, "unknown")
	l.refused("7", `"type":"get_turn_diff","sessionId":"s","paths":["../x"]`, "outside")
}

// TestSession is what a runtime does in a session.
func TestSession(t *testing.T) {
	b := newBench(t)
	b.write("a", "one\n")
	l := b.connect()
	if v := l.ask("1", `"type":"ping"`); v["version"] != "test" {
		t.Errorf("ping: %v", v)
	}
	l.refused("2", `"type":"turn_start","sessionId":"s"`, "no_session")
	l.refused("3", `"type":"initialize","cwd":"","sessionId":"s"`, "bad_request")
	l.refused("3", `"type":"initialize","cwd":"/no/such/directory","sessionId":"s"`, "not_exist")
	init := l.ask(`"x"`, fmt.Sprintf(`"type":"initialize","cwd":%q,"sessionId":"s"`, b.dir))
	if init["files"] != 1.0 || init["sessionId"] != "s" {
		t.Errorf("initialize: %v", init)
	}
	l.ask("4", `"type":"turn_start","sessionId":"s","runtimeTurnIndex":7`)
	b.write("a", "two\n")
	b.write("new", "new\n")
	end := l.ask("5", `"type":"turn_end","sessionId":"s"`)
	entries := end["entries"].([]any)
	if len(entries) != 1 || end["data"] == nil {
		t.Fatalf("turn_end: %v", end)
	}
	if again := l.ask("6", `"type":"turn_end","sessionId":"s"`); len(again["entries"].([]any)) != 1 {
		t.Errorf("a step that the log was not told to have is offered once: %v", again)
	}
	entry := entries[0].(map[string]any)
	if entry["type"] != "custom" || entry["customType"] != "step-snapshot" {
		t.Errorf("turn_end gives the log %v", entry)
	}
	seq := entry["data"].(map[string]any)["snapshotSeq"]
	l.ask("7", fmt.Sprintf(`"type":"told","sessionId":"s","snapshotSeq":%v,"entryId":"e1"`, seq))
	if again := l.ask("8", `"type":"turn_end","sessionId":"s"`); len(again["entries"].([]any)) != 0 {
		t.Errorf("told, and offered: %v", again)
	}
	l.refused("9", `"type":"told","sessionId":"s","snapshotSeq":999,"entryId":"e1"`, "unknown")
	files := l.ask("10", `"type":"get_modified_files","sessionId":"s"`)["files"].([]any)
	if len(files) != 2 || files[0].(map[string]any)["entryId"] != "e1" {
		t.Errorf("modified: %v", files)
	}
	if d := l.ask("11", `"type":"get_file_diff","sessionId":"s","path":"a"`)["file"].(map[string]any); d["newContent"] != "two\n" {
		t.Errorf("diff: %v", d)
	}
	if p := l.ask("12", `"type":"restore_preview","sessionId":"s","target":"start"`); len(p["deleted"].([]any)) != 1 {
		t.Errorf("preview: %v", p)
	}
	r := l.ask("13", `"type":"restore","sessionId":"s","target":"start"`)
	if r["complete"] != true || len(r["entries"].([]any)) != 1 {
		t.Errorf("restore: %v", r)
	}
	l.ask("14", fmt.Sprintf(`"type":"told","sessionId":"s","snapshotSeq":%v,"entryId":"u1"`, r["snapshotSeq"]))
	if got, _ := os.ReadFile(filepath.Join(b.dir, "a")); string(got) != "one\n" {
		t.Errorf("a holds %q", got)
	}
	l.ask("15", `"type":"undo","sessionId":"s"`)
	if got, _ := os.ReadFile(filepath.Join(b.dir, "a")); string(got) != "two\n" {
		t.Errorf("a holds %q", got)
	}
	l.ask("16", `"type":"redo","sessionId":"s"`)
	l.refused("17", `"type":"redo","sessionId":"s"`, "nothing")
	list := l.ask("18", `"type":"get_snapshots","sessionId":"s","limit":1`)
	if list["nextCursor"] == "" || list["snapshots"].([]any)[0].(map[string]any)["kind"] != "start" {
		t.Errorf("snapshots: %v", list)
	}
	// What comes meanwhile is not in the list that is read page by page.
	rows, pages := len(list["snapshots"].([]any)), 1
	l.ask("29", `"type":"turn_start","sessionId":"s"`)
	b.write("c", "c")
	l.ask("30", `"type":"turn_end","sessionId":"s"`)
	for ; list["nextCursor"] != nil && list["nextCursor"] != ""; pages++ {
		list = l.ask("31", fmt.Sprintf(`"type":"get_snapshots","sessionId":"s","limit":2,"cursor":%q`, list["nextCursor"]))
		rows += len(list["snapshots"].([]any))
	}
	all := l.ask("32", `"type":"get_snapshots","sessionId":"s"`)["snapshots"].([]any)
	if last := all[len(all)-1].(map[string]any); rows != len(all)-1 || pages < 3 || last["turnIndex"] != 3.0 {
		t.Errorf("%d rows in %d pages, then %d, the last %v", rows, pages, len(all), last)
	}
	edit := l.ask("19", `"type":"apply_patch","sessionId":"s","path":"a","old":"one","new":"1"`)
	l.ask("20", fmt.Sprintf(`"type":"undo_patch","sessionId":"s","undoId":%q`, edit["undoId"]))
	no := l.refused("21", `"type":"apply_patch","sessionId":"s","path":"a","old":"nowhere","new":"1"`, "refused")
	if no["data"].(map[string]any)["refusals"] == nil {
		t.Errorf("refused: %v", no)
	}
	l.refused("22", `"type":"apply_patch","sessionId":"s","format":"v4a","patch":"nonsense"`, "bad_patch")
	if v := l.ask("23", `"type":"locate","content":"a b","old":"b","new":"c"`); v["result"] != "a c" {
		t.Errorf("locate: %v", v)
	}
	if v := l.ask("24", `"type":"get_coverage","sessionId":"s"`); len(v["omissions"].([]any)) != 0 {
		t.Errorf("coverage: %v", v)
	}
	l.ask("26", `"type":"turn_start","sessionId":"s"`)
	b.write(".gitignore", "ignored\n")
	b.write("ignored", "")
	l.ask("28", `"type":"turn_end","sessionId":"s"`)
	for reasons, want := range map[string]int{`"ignored","too-large"`: 1, `"too-large"`: 0} {
		if v := l.ask("27", `"type":"get_coverage","sessionId":"s","reasons":[`+reasons+`]`); len(v["omissions"].([]any)) != want {
			t.Errorf("coverage of %s: %v", reasons, v)
		}
	}
	st := l.ask("25", `"type":"stats"`)
	if len(st["watches"].(map[string]any)) != 1 {
		t.Errorf("stats: %v", st)
	}
}

// A turn in which a file grew over the limits, and nothing else happened, is told
// of, and a restore does not pass over it.
func TestTurnUncaptures(t *testing.T) {
	b := newBench(t)
	b.write("f", "small\n")
	l := b.connect()
	l.ask("1", fmt.Sprintf(`"type":"initialize","cwd":%q,"sessionId":"s","limits":{"fileSize":10}`, b.dir))
	l.ask("2", `"type":"turn_start","sessionId":"s"`)
	b.write("f", "the agent made it much larger\n")
	end := l.ask("3", `"type":"turn_end","sessionId":"s"`)
	data, _ := end["data"].(map[string]any)
	if data == nil || fmt.Sprint(data["diff"].(map[string]any)["uncaptured"]) != "[f]" {
		t.Errorf("turn_end: %v", end)
	}
	r := l.ask("4", `"type":"restore","sessionId":"s","target":"start"`)
	if r["complete"] != false || fmt.Sprint(r["skipped"]) != "[f]" {
		t.Errorf("restore: %v", r)
	}
}

// TestPipelined: what changes something is done in order of arrival, without
// waiting for answers.
func TestPipelined(t *testing.T) {
	b := newBench(t)
	b.write("a", "0")
	l := b.connect()
	go func() {
		fmt.Fprintf(l.Conn, `{"id":0,"type":"initialize","cwd":%q,"sessionId":"s","ownLog":true}`+"\n", b.dir)
		for i := range 40 {
			fmt.Fprintf(l.Conn, `{"id":%d,"type":"apply_patch","sessionId":"s","path":"a","old":"%d","new":"%d"}`+"\n", i+1, i, i+1)
		}
	}()
	for i := range 41 {
		if a := l.answer(fmt.Sprint(i)); a["success"] != true {
			t.Errorf("request %d: %v", i, a)
		}
	}
}

// TestGarbage: one client's nonsense is answered, and no harm to another.
func TestGarbage(t *testing.T) {
	b := newBench(t)
	b.write("a", "one\n")
	other := b.connect()
	other.ask("1", fmt.Sprintf(`"type":"initialize","cwd":%q,"sessionId":"other"`, b.dir))
	l := b.connect()
	for _, c := range []struct{ line, code string }{
		{"nonsense", "bad_request"},
		{`"text"`, "bad_request"},
		{`{"id":{},"type":"ping"}`, "bad_request"},
		{`{"id":null,"type":"no such"}`, "bad_command"},
		{`{"type":"claim","sessionId":7}`, "bad_request"},
		{"[" + strings.Repeat("[", 100_000), "bad_request"},
		{strings.Repeat("x", wire.MaxLine+10), "too_long"},
		{"\xff\xfe", "bad_request"},
	} {
		l.send("%s", c.line)
		if a := l.answer("null"); a["code"] != c.code || a["success"] != false {
			t.Errorf("%.40q: %v, want %s", c.line, a, c.code)
		}
	}
	l.send("")
	l.ask("1", `"type":"ping"`)
	other.ask("2", `"type":"turn_end","sessionId":"other"`)
	fmt.Fprint(l.Conn, `{"id":2,"type":"initialize","cwd":"`)
	l.Close()
	other.ask("3", `"type":"turn_end","sessionId":"other"`)
}

// TestWrongFields: a request is answered under its ID whatever is wrong in it, and the
// answer names the field.
func TestWrongFields(t *testing.T) {
	b := newBench(t)
	b.write("a", "one\n")
	l := b.connect()
	l.ask("1", fmt.Sprintf(`"type":"initialize","cwd":%q,"sessionId":"s"`, b.dir))
	for _, c := range []struct{ rest, code, says string }{
		{`"type":"ping","timeoutMs":"x"}`, "bad_request", "request: timeoutMs: want a number without a fraction, have string"},
		{`"type":7}`, "bad_request", "request: type: want a string, have number"},
		{`"type":"ping","progress":1}`, "bad_request", "request: progress: want true or false, have number"},
		{`"Type":"ping"}`, "bad_command", `no command ""`},
		{`"type":"ping","Id":7}`, "bad_request", `ping: unknown field "Id"`},
		{`"type":"initialize","CWD":"/","sessionId":"t"}`, "bad_request", `initialize: unknown field "CWD"`},
		{`"type":"ping","nobody":1}`, "bad_request", `ping: unknown field "nobody"`},
		{`"type":"ping","timeoutMs":-1}`, "bad_request", "timeoutMs -1: want 1 or more"},
		{`"type":"claim","sessionId":7,"paths":["a"]}`, "bad_request", "claim: sessionId: want a string"},
		{`"type":"claim","sessionId":"s","paths":"a"}`, "bad_request", "claim: paths: want an array, have string"},
		{`"type":"claim","sessionId":"s","paths":["a",7]}`, "bad_request", "claim: paths[1]: want a string, have number"},
		{`"type":"restore","sessionId":"s","target":"start","path":["a"]}`, "bad_request", `restore: unknown field "path"`},
		{`"type":"restore","sessionId":"s","target":"start","onDirty":"no"}`, "bad_request", "onDirty"},
		{`"type":"get_coverage","sessionId":"s","coverageHash":"xyz"}`, "bad_request", "coverageHash"},
		{`"type":"apply_patch","sessionId":"s","options":{"line_hint":"x"}}`, "bad_request", "apply_patch: options.line_hint: want a number"},
		{`"type":"apply_patch","sessionId":"s","options":{"nobody":1}}`, "bad_request", `apply_patch: unknown field "options.nobody"`},
		{`"type":"tool_end","sessionId":"s","tool":1}`, "bad_request", "tool_end: tool: want a string, have number"},
		{`"type":"restore","sessionId":"s"}`, "bad_request", "restore: want target"},
		{`"type":"restore","sessionId":"s","target":"start","hunks":[]}`, "bad_request", "hunks: the list is empty"},
		{`"type":"revert","sessionId":"s","turns":["0"],"paths":[]}`, "bad_request", "paths: the list is empty"},
		{`"type":"get_modified_files","sessionId":"s","limit":-5}`, "bad_request", "limit -5"},
		{`"type":"hunks","sessionId":"s","cursor":"x"}`, "bad_request", `cursor "x"`},
		{`"type":"get_snapshots","sessionId":"s","limit":-5}`, "bad_request", "limit -5"},
		{`"type":"get_coverage","sessionId":"s","cursor":"-1"}`, "bad_request", `cursor "-1"`},
		{`"type":"get_file_diff","sessionId":"s"}`, "bad_request", "want path"},
		{`"type":"whereis","sessionId":"s"}`, "bad_request", "want path"},
		{`"type":"note_read","sessionId":"s"}`, "bad_request", "want path"},
		{`"type":"initialize","cwd":".","sessionId":"t"}`, "bad_request", "cwd, an absolute path"},
		{`"type":"initialize","cwd":"/","sessionId":"t","toolWindow":true}`, "bad_request", `unknown field "toolWindow"`},
		{`"type":"no such","nobody":1}`, "bad_command", "no such"},
		{`"type":"ping"`, "bad_request", "request: unexpected end"},
		{`"type":"` + strings.Repeat("x", wire.MaxLine) + `"}`, "too_long", ""},
	} {
		l.send(`{"id":"w",%s`, c.rest)
		a := l.answer(`"w"`)
		if says, _ := a["error"].(string); a["code"] != c.code || !strings.Contains(says, c.says) {
			t.Errorf("%.90s: %v, want %s: %s", c.rest, a, c.code, c.says)
		}
	}
}

// TestTooMany: so many requests may be under way on a connection, and no more; when
// they are answered there is room again.
func TestTooMany(t *testing.T) {
	b := newBench(t)
	goOn := make(chan struct{})
	b.server.Extra = map[string]Extra{"wait": func(ctx context.Context,
		_ json.RawMessage, _ func(any) error) (any, error) {
		<-goOn
		return struct{}{}, nil
	}}
	l := b.connect()
	for i := range maxRequests {
		l.send(`{"id":%d,"type":"wait"}`, i)
	}
	l.refused(`"more"`, `"type":"ping"`, "too_many")
	if st := l.connect().ask("1", `"type":"stats"`); st["requests"] != 1.0 {
		t.Errorf("another connection has %v", st)
	}
	close(goOn)
	for i := range maxRequests {
		l.answer(fmt.Sprint(i))
	}
	for { // its place is free once its answer is written
		l.send(`{"id":"again","type":"ping"}`)
		if a := l.answer(`"again"`); a["success"] == true {
			break
		}
	}
}

// TestPanic: what goes wrong in one request is no harm to the others.
func TestPanic(t *testing.T) {
	b := newBench(t)
	b.server.Extra = map[string]Extra{"panic": func(context.Context, json.RawMessage, func(any) error) (any, error) {
		panic("oh")
	}}
	l := b.connect()
	if a := l.refused("1", `"type":"panic"`, "internal"); a["error"] != "internal error: oh" {
		t.Errorf("panic: %v", a)
	}
	l.ask("2", `"type":"ping"`)
}

// TestDuplicateID: a request under the ID of one that is being answered.
func TestDuplicateID(t *testing.T) {
	b := newBench(t)
	block := make(chan struct{})
	b.server.Extra = map[string]Extra{
		"block": func(ctx context.Context, _ json.RawMessage, _ func(any) error) (any, error) {
			select {
			case <-block:
				return "late", nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		"panic": func(context.Context, json.RawMessage, func(any) error) (any, error) { panic("as asked") },
	}
	l := b.connect()
	l.send(`{"id":1,"type":"block"}`)
	l.refused("1", `"type":"ping"`, "duplicate_id")
	l.send(`{"id":2,"type":"cancel","requestId":1}`)
	if a := l.answer("1"); a["status"] != "cancelled" || a["code"] != "cancelled" || a["success"] != false {
		t.Errorf("cancelled: %v", a)
	}
	if a := l.answer("2"); a["data"].(map[string]any)["outcome"] != "cancelled" {
		t.Errorf("cancel: %v", a)
	}
	for range 2 { // after the end, again and again
		if a := l.ask("3", `"type":"cancel","requestId":1`); a["outcome"] != "unknown" {
			t.Errorf("cancel: %v", a)
		}
	}
	a := l.refused("4", `"type":"block","timeoutMs":5`, "timed_out")
	if says := a["error"].(string); !strings.HasPrefix(says, "not done within 5 ms") {
		t.Errorf("timed out: %q", says)
	}
	l.refused("5", `"type":"panic"`, "internal")
	l.send(`{"id":6,"type":"block"}`)
	close(block)
	if a := l.answer("6"); a["data"] != "late" {
		t.Errorf("block: %v", a)
	}
	for i := range maxRequests + 10 {
		go fmt.Fprintf(l.Conn, `{"id":%d,"type":"ping"}`+"\n", 100+i)
	}
	for i := range maxRequests + 10 {
		if a := l.answer(fmt.Sprint(100 + i)); a["success"] != true && a["code"] != "too_many" {
			t.Errorf("ping: %v", a)
		}
	}
}

// TestDisconnect: the requests of a client that goes are cancelled, and its turn
// is over.
func TestDisconnect(t *testing.T) {
	b := newBench(t)
	b.write("a", "one\n")
	gone := make(chan error, 1)
	b.server.Extra = map[string]Extra{
		"block": func(ctx context.Context, _ json.RawMessage, _ func(any) error) (any, error) {
			<-ctx.Done()
			gone <- context.Cause(ctx)
			return nil, ctx.Err()
		},
	}
	l := b.connect()
	l.ask("1", fmt.Sprintf(`"type":"initialize","cwd":%q,"sessionId":"s"`, b.dir))
	l.ask("2", `"type":"turn_start","sessionId":"s"`)
	l.send(`{"id":3,"type":"block"}`)
	time.Sleep(10 * time.Millisecond)
	l.Close()
	if err := <-gone; err != errGone {
		t.Errorf("cause: %v", err)
	}
	again := b.connect()
	for { // the other connection closes its sessions
		again.send(`{"id":1,"type":"initialize","cwd":%q,"sessionId":"s"}`, b.dir)
		if a := again.answer("1"); a["success"] != true {
			t.Fatalf("initialize: %v", a)
		}
		again.send(`{"id":2,"type":"turn_start","sessionId":"s"}`)
		if a := again.answer("2"); a["success"] == true {
			break
		} else if a["code"] != "turn_open" {
			t.Fatalf("turn_start: %v", a)
		}
	}
}

// TestTenSessions: two clients, ten sessions, one directory.
func TestTenSessions(t *testing.T) {
	b := newBench(t)
	b.write("shared", "0")
	var all sync.WaitGroup
	for c := range 2 {
		l := b.connect()
		for s := range 5 {
			l.ask("0", fmt.Sprintf(`"type":"initialize","cwd":%q,"sessionId":"s%d-%d","ownLog":true`, b.dir, c, s))
		}
		all.Go(func() {
			for turn := range 5 {
				for s := range 5 {
					l.send(`{"id":%d,"type":"turn_start","sessionId":"s%d-%d"}`, s, c, s)
				}
				for s := range 5 {
					l.answer(fmt.Sprint(s))
					b.write(fmt.Sprintf("f%d-%d", c, s), fmt.Sprint(turn))
					l.send(`{"id":%d,"type":"claim","sessionId":"s%d-%d","paths":["f%d-%d"]}`, 10+s, c, s, c, s)
					l.send(`{"id":%d,"type":"turn_end","sessionId":"s%d-%d"}`, 20+s, c, s)
				}
				for s := range 5 {
					l.answer(fmt.Sprint(10 + s))
					if a := l.answer(fmt.Sprint(20 + s)); a["success"] != true {
						t.Errorf("turn end: %v", a)
					}
				}
			}
		})
	}
	all.Wait()
	l := b.connect()
	for c := range 2 {
		for s := range 5 {
			id := fmt.Sprintf("s%d-%d", c, s)
			l.ask("0", fmt.Sprintf(`"type":"initialize","cwd":%q,"sessionId":%q`, b.dir, id))
			rows := l.ask("1", fmt.Sprintf(`"type":"get_modified_files","sessionId":%q`, id))["files"].([]any)
			found := slices.ContainsFunc(rows, func(r any) bool {
				row := r.(map[string]any)
				return row["path"] == fmt.Sprintf("f%d-%d", c, s) && row["owner"] == "claimed"
			})
			if !found {
				t.Errorf("session %s: %v", id, rows)
			}
		}
	}
}

// TestCancelRestore: a restore that is cancelled either was done or was not.
func TestCancelRestore(t *testing.T) {
	b := newBench(t)
	const files = 300
	for i := range files {
		b.write(fmt.Sprintf("d%d/f%d", i%10, i), "one\n")
	}
	l := b.connect()
	l.ask("1", fmt.Sprintf(`"type":"initialize","cwd":%q,"sessionId":"s","ownLog":true`, b.dir))
	for round := range 12 {
		content := fmt.Sprint("round ", round)
		for i := range files {
			b.write(fmt.Sprintf("d%d/f%d", i%10, i), content)
		}
		l.ask("2", `"type":"turn_end","sessionId":"s"`)
		l.send(`{"id":3,"type":"restore","sessionId":"s","target":"start"}`)
		time.Sleep(time.Duration(round*3) * time.Millisecond)
		l.send(`{"id":4,"type":"cancel","requestId":3}`)
		a, cancel := l.answer("3"), l.answer("4")
		outcome := cancel["data"].(map[string]any)["outcome"]
		if outcome != "unknown" && outcome != a["status"] {
			t.Errorf("cancel says %v, the request %v", outcome, a["status"])
		}
		want := content
		if a["status"] == "complete" {
			want = "one\n"
		}
		for i := range files {
			got, err := os.ReadFile(filepath.Join(b.dir, fmt.Sprintf("d%d/f%d", i%10, i)))
			if err != nil || string(got) != want {
				t.Fatalf("round %d, %v: file %d holds %q, %v", round, a["status"], i, got, err)
			}
		}
	}
}

// TestFinishAtEOF: requests that were piped in are answered.
func TestFinishAtEOF(t *testing.T) {
	b := newBench(t)
	b.write("a", "one\n")
	b.server.FinishAtEOF = true
	var out bytes.Buffer
	in := fmt.Sprintf("{\"id\":1,\"type\":\"initialize\",\"cwd\":%q,\"sessionId\":\"s\",\"ownLog\":true}\n"+
		"{\"id\":2,\"type\":\"turn_end\",\"sessionId\":\"s\"}\n", b.dir)
	if err := b.server.Serve(t.Context(), strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), `"success":true`); n != 2 {
		t.Errorf("%d answers:\n%s", n, &out)
	}
}

// FuzzFrames sends anything to a server. No session can be begun, so nothing is
// looked at or written.
func FuzzFrames(f *testing.F) {
	for _, b := range nearmiss.Of([]byte("{\"id\":1,\"type\":\"ping\"}\n\n{}\nhalf")) {
		f.Add(b)
	}
	f.Add([]byte("{\"id\":1,\"type\":\"cancel\",\"requestId\":1}\r\n{\"id\":\"1\"}\n"))
	f.Add([]byte("{\"id\":\"\u0031\",\"type\":\"stats\",\"timeoutMs\":1,\"progress\":true}\n" +
		"{\"id\":\"1\",\"type\":\"cancel\",\"requestId\":\"\u0031\"}\n"))
	f.Add([]byte("{\"id\":1,\"type\":\"locate\",\"content\":\"a\\nb\\n\",\"old\":\"b\"}\n"))
	for name := range commands {
		f.Add(fmt.Appendf(nil, "{\"id\":1,\"type\":%q,\"sessionId\":\"s\"}\n", name))
		f.Add(fmt.Appendf(nil, "{\"id\":1,\"type\":%q,\"sessionId\":1,\"timeoutMs\":-1}\n", name))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		e, err := manager.NewEngine(&manager.EngineOptions{StoreRoot: "/nowhere"})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		var out bytes.Buffer
		s := &Server{Engine: e, FinishAtEOF: true, Extra: map[string]Extra{
			"initialize": func(context.Context, json.RawMessage, func(any) error) (any, error) {
				return nil, errors.New("not here")
			}}}
		s.Serve(t.Context(), bytes.NewReader(input), &out)
		lines := checkAnswers(t, out.Bytes())
		whole := 0
		for line := range bytes.Lines(input) {
			if bytes.HasSuffix(line, []byte("\n")) && len(bytes.TrimSpace(line)) > 0 {
				whole++
			}
		}
		if lines != whole {
			t.Errorf("%d answers to %d requests", lines, whole)
		}
	})
}

// checkAnswers requires that all lines are answers, of which none tells of a panic,
// and counts them.
func checkAnswers(t *testing.T, out []byte) (n int) {
	t.Helper()
	for line := range bytes.Lines(out) {
		var a map[string]any
		if err := json.Unmarshal(line, &a); err != nil || a["type"] != "response" {
			t.Errorf("%q: %v", line, err)
		}
		if text, _ := a["error"].(string); strings.Contains(text, "internal error") {
			t.Errorf("%s", line)
		}
		n++
	}
	return n
}

// FuzzQueries asks a session that has a turn behind it.
func FuzzQueries(f *testing.F) {
	var names []string
	for name, c := range commands {
		if !c.changes && name != "initialize" { // it might be told to change anything
			names = append(names, name)
		}
	}
	slices.Sort(names)
	dir := f.TempDir()
	e, err := manager.NewEngine(&manager.EngineOptions{StoreRoot: f.TempDir()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { e.Close() })
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("one\n"), 0o600); err != nil {
		f.Fatal(err)
	}
	begin := fmt.Sprintf("{\"id\":\"begin\",\"type\":\"initialize\",\"cwd\":%q,\"sessionId\":\"s\",\"ownLog\":true}\n",
		dir)
	turn := "{\"type\":\"turn_start\",\"sessionId\":\"s\"}\n"
	serve := func(t testing.TB, in string) []byte {
		var out bytes.Buffer
		if err := (&Server{Engine: e, FinishAtEOF: true}).Serve(t.Context(), strings.NewReader(in), &out); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	serve(f, begin+turn)
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("two\n"), 0o600); err != nil {
		f.Fatal(err)
	}
	if out := serve(f, begin+"{\"type\":\"turn_end\",\"sessionId\":\"s\"}\n"); !bytes.Contains(out, []byte(`"success":true`)) {
		f.Fatalf("%s", out)
	}
	for i := range names {
		for _, params := range []string{`{}`, `{"path":"a"}`, `{"path":"../a","from":"start","to":"now"}`, `{"from":"turn:0","to":"turn:1","limit":-1}`,
			`{"path":"","pathBytes":"/w==","from":"zz"}`, `{"limit":1e9,"offset":-5,"cursor":"x"}`, `{"snapshot":"now","at":"0","reasons":["x"]}`} {
			f.Add(uint8(i), []byte(params))
		}
	}
	f.Fuzz(func(t *testing.T, command uint8, params []byte) {
		var fields map[string]json.RawMessage
		if json.Unmarshal(params, &fields) != nil || fields == nil {
			return
		}
		fields["type"], fields["sessionId"], fields["id"] = json.RawMessage(strconv.Quote(names[int(command)%len(names)])), json.RawMessage(`"s"`), json.RawMessage(`1`)
		delete(fields, "timeoutMs")
		line, err := json.Marshal(fields)
		if err != nil {
			return
		}
		out := serve(t, begin+string(line)+"\n")
		if n := checkAnswers(t, out); n != 2 {
			t.Errorf("%d answers to 2 requests: %s", n, out)
		}
	})
}

// TestSocket: a served store is found, a second server is refused, and what a
// dead one leaves behind is no obstacle.
func TestSocket(t *testing.T) {
	b := newBench(t)
	b.write("a", "one\n")
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 30), "store")
	s, err := cas.Open(t.Context(), dir, &cas.Options{Root: b.dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, wire.SocketName), nil, 0o600); err != nil { // stale
		t.Fatal(err)
	}
	if _, err := wire.Dial(t.Context(), dir); err == nil {
		t.Error("dialed, and nobody serves")
	}
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(dir); err == nil || !strings.Contains(err.Error(), ErrServed.Error()) {
		t.Errorf("listen twice: %v", err)
	}
	st, err := os.Stat(filepath.Join(dir, wire.SocketName))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", st.Mode(), err)
	}
	done := make(chan error)
	go func() { done <- b.server.ServeAll(t.Context(), l, 50*time.Millisecond) }()
	c, err := wire.Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(80 * time.Millisecond) // longer than idle
	fmt.Fprintln(c, `{"id":1,"type":"ping"}`)
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, `"protocol":2`) {
		t.Errorf("%q, %v", line, err)
	}
	c.Close()
	if err := <-done; err != nil {
		t.Errorf("serve: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if l, err = Listen(dir); err != nil {
		t.Fatalf("listen again: %v", err)
	}
	l.Close()
}

// TestStop: a server that is stopped answers what it has been asked, until its
// context ends.
func TestStop(t *testing.T) {
	for _, stop := range []bool{true, false} {
		b := newBench(t)
		begun, end := make(chan bool), make(chan bool)
		b.server.Extra = map[string]Extra{
			"block": func(ctx context.Context, _ json.RawMessage, _ func(any) error) (any, error) {
				begun <- true
				select {
				case <-end:
				case <-ctx.Done():
				}
				return "ended", ctx.Err()
			},
		}
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "locks"), 0o755); err != nil {
			t.Fatal(err)
		}
		l, err := Listen(dir)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- b.server.ServeAll(ctx, l, 0) }()
		conn, err := wire.Dial(ctx, dir)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, `{"id":1,"type":"block"}`+"\n"+`{"id":2,"ty`)
		<-begun
		l.Stop()
		if _, err := wire.Dial(ctx, dir); err == nil {
			t.Error("connected to a server that is stopped")
		}
		want := `"status":"complete","data":"ended"`
		if stop {
			time.Sleep(20 * time.Millisecond) // or it would have ended before it could be cancelled
			close(end)
		} else {
			cancel()
			want = `"status":"cancelled"`
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(line, want) {
			t.Errorf("stopped: %q, %v; want %s", line, err, want)
		}
		if err := errors.Join(<-done, l.Close()); err != nil {
			t.Error(err)
		}
	}
}

var update = flag.Bool("update", false, "rewrite docs/reference/rpc.schema.json")

// schemaLike returns the schema of an object of which JSON has other fields than Go: those
// of all are always there.
func schemaLike(t *testing.T, least, most any) *jsonschema.Schema {
	t.Helper()
	s := &jsonschema.Schema{Type: "object", Properties: make(map[string]*jsonschema.Schema)}
	for _, v := range []any{most, least} {
		b, err := json.Marshal(v)
		fields := make(map[string]any)
		if err == nil {
			err = json.Unmarshal(b, &fields)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Required = slices.Sorted(maps.Keys(fields)) // of the last
		for name, value := range fields {
			kind := "string"
			if _, ok := value.(bool); ok {
				kind = "boolean"
			}
			s.Properties[name] = &jsonschema.Schema{Type: kind}
		}
	}
	s.PropertyOrder = slices.Sorted(maps.Keys(s.Properties))
	return s
}

// TestSchema: the schema that is checked in is what the Go types say, and
// docs/reference/rpc.md has all commands and codes.
func TestSchema(t *testing.T) {
	texts := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[store.ID]():        {Type: "string", Pattern: "^[0-9a-f]{64}$"},
		reflect.TypeFor[trees.Reason]():    {Type: "string"},
		reflect.TypeFor[json.RawMessage](): {},
		reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
		reflect.TypeFor[rollback.Item](): schemaLike(t, rollback.Item{}, rollback.Item{Path: "\xff", From: "\xff",
			Do: rollback.Restore, Why: "x", Dirty: true, New: &tree.Entry{Mode: tree.ModeDir},
			Note: "x", Merged: true}),
		reflect.TypeFor[rollback.Move](): schemaLike(t, rollback.Move{},
			rollback.Move{From: "\xff", To: "\xff", Why: "x"}),
	}
	schemaOf := func(typ reflect.Type) *jsonschema.Schema {
		s, err := jsonschema.ForType(typ, &jsonschema.ForOptions{TypeSchemas: texts, IgnoreInvalidTypes: true})
		if err != nil {
			t.Fatalf("%v: %v", typ, err)
		}
		return s
	}
	type described struct {
		Text   string             `json:"description"`
		Params *jsonschema.Schema `json:"params"`
		Result *jsonschema.Schema `json:"result"`
	}
	all := make(map[string]described)
	for name, c := range commands {
		of := described{c.text, schemaOf(c.params), schemaOf(c.result)}
		b, err := json.Marshal(reflect.Zero(c.params).Interface())
		var fields map[string]any // that are never left out
		if err == nil {
			err = json.Unmarshal(b, &fields)
		}
		for field := range fields {
			if of.Params.Properties[field] == nil {
				t.Errorf("%s: the schema lacks its field %s", name, field)
			}
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.inSession {
			if of.Params.Properties == nil {
				of.Params.Properties = make(map[string]*jsonschema.Schema)
			}
			of.Params.Properties["sessionId"] = &jsonschema.Schema{Type: "string"}
			of.Params.PropertyOrder = slices.Insert(of.Params.PropertyOrder, 0, "sessionId")
			of.Params.Required = slices.Insert(of.Params.Required, 0, "sessionId")
		}
		all[name] = of
	}
	got, err := json.MarshalIndent(map[string]any{"protocol": Protocol, "commands": all}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const name = "../../../../docs/reference/rpc.schema.json"
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the types say (%v): go test ./cmd/snapctl/internal/rpc -run Schema -update", name, err)
	}
	doc, err := os.ReadFile("../../../../docs/reference/rpc.md")
	if err != nil {
		t.Fatal(err)
	}
	words := slices.Sorted(maps.Keys(commands))
	for _, k := range explain.Kinds {
		words = append(words, k.Code)
	}
	for _, w := range words {
		if !strings.Contains(string(doc), "`"+w+"`") {
			t.Errorf("docs/reference/rpc.md lacks %s", w)
		}
	}
}

// Each error of the table has its code, and package client's errors match it.
func TestCodes(t *testing.T) {
	for _, k := range explain.Kinds {
		for _, err := range k.Errs {
			code := explain.Code(fmt.Errorf("open: %w", err))
			if code != k.Code {
				t.Errorf("%v: %q, want %q", err, code, k.Code)
			}
			if !errors.Is(&client.Error{Code: code, Message: "open"}, err) {
				t.Errorf("the error with code %s is not %v", code, err)
			}
		}
	}
}

// A runtime is told how the store is: at the start, and once a day at the end of a turn.
func TestHealth(t *testing.T) {
	b := newBench(t)
	b.write("a", "one\n")
	l := b.connect()
	start := fmt.Sprintf(`"type":"initialize","cwd":%q,"sessionId":"s"`, b.dir)
	init := l.ask("1", start)
	if init["concerns"] != nil {
		t.Errorf("initialize: %v", init)
	}
	turn := func() map[string]any {
		t.Helper()
		l.ask("2", `"type":"turn_start","sessionId":"s"`)
		return l.ask("3", `"type":"turn_end","sessionId":"s"`)
	}
	if end := turn(); end["health"] != nil {
		t.Errorf("turn_end: %v", end)
	}
	if err := health.Change(init["storeDir"].(string), func(h *health.Health) { h.Bad = 2 }); err != nil {
		t.Fatal(err)
	}
	if end := turn(); !strings.HasPrefix(fmt.Sprint(end["health"]), "damage was found in 2 places") {
		t.Errorf("turn_end: %v", end)
	}
	if end := turn(); end["health"] != nil {
		t.Errorf("turn_end again: %v", end)
	}
	list, _ := l.ask("4", start)["concerns"].([]any)
	if len(list) != 1 || list[0].(map[string]any)["urgent"] != true {
		t.Errorf("initialize again: %v", list)
	}
}

// A full disk has a code of its own, also when it is told again.
func TestCodeOfNoSpace(t *testing.T) {
	for _, err := range []error{
		&cas.SpaceError{},
		&health.NotRecordedError{Err: fmt.Errorf("capture: %w", &cas.SpaceError{})},
		fmt.Errorf("put: %w", &fs.PathError{Op: "write", Path: "p", Err: syscall.EDQUOT}),
		&health.NotRecordedError{Err: syscall.ENOSPC},
	} {
		if got := explain.Code(err); got != "no_space" {
			t.Errorf("Code(%v) = %q", err, got)
		}
	}
}

// TestEnded: whoever wants to know hears when a connection ends that had a session, and of no other.
func TestEnded(t *testing.T) {
	b := newBench(t)
	n := 0
	b.server.Ended = func() { n++ }
	b.server.FinishAtEOF = true
	for text, want := range map[string]int{
		`{"id":1,"type":"ping"}`: 0,
		fmt.Sprintf(`{"id":1,"type":"initialize","cwd":%q,"sessionId":"s"}`, b.dir): 1,
	} {
		n = 0
		if err := b.server.Serve(t.Context(), strings.NewReader(text+"\n"), io.Discard); err != nil || n != want {
			t.Errorf("%s: told %d times, want %d, %v", text, n, want, err)
		}
	}
}
