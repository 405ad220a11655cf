package verbs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/manager"
)

// A verb has a name of its own, a text, and structures for what goes in and out.
func TestAll(t *testing.T) {
	seen := make(map[string]bool)
	for _, v := range All {
		if seen[v.Name] || v.Text == "" || v.Args.Kind() != reflect.Struct || v.Result.Kind() != reflect.Struct {
			t.Errorf("verb %+v", v)
		}
		if seen[v.Name] = true; Named(v.Name) != v {
			t.Errorf("Named(%q) is another", v.Name)
		}
	}
	if v := Named("none"); v != nil {
		t.Errorf("Named(none) is %+v", v)
	}
}

// A line of a session's history has what the manager says of it.
func TestSnapshotOfMoment(t *testing.T) {
	otherwise := map[string]string{"Tree": "treeHash", "Snapshot": "snapshotSeq, time and label"}
	line := reflect.TypeFor[Snapshot]()
	for f := range reflect.TypeFor[manager.Moment]().Fields() {
		if _, has := line.FieldByName(f.Name); f.IsExported() && has == (otherwise[f.Name] != "") {
			t.Errorf("Moment.%s: of the same name in a Snapshot: %v", f.Name, has)
		}
	}
}

// TestBind: what is no structure is the caller's mistake, and so are fields that neither the
// verb nor what stands beside it knows, and those that have to be there and are not.
func TestBind(t *testing.T) {
	head := reflect.TypeFor[struct {
		ID        int    `json:"id"`
		Type      string `json:"type"`
		SessionID string `json:"sessionId"`
	}]()
	needs := map[string]string{"initialize": `"cwd":"/","sessionId":"s"`, "tool_start": `"tool":"t"`,
		"tool_end": `"tool":"t"`, "told": `"snapshotSeq":1,"entryId":""`, "claim": `"paths":[]`,
		"note_read": `"path":"a"`, "get_file_diff": `"path":"a"`, "whereis": `"path":"a"`, "blame": `"path":"a"`,
		"find": `"text":"a"`, "restore_preview": `"target":"@"`, "restore": `"target":"@"`,
		"revert_preview": `"turns":["0"]`, "revert": `"turns":["0"]`, "navigate_tree": `"target":"e"`,
		"undo_patch": `"undoId":"u"`}
	for _, v := range All {
		for _, bad := range []string{``, `{`, `[]`, `"x"`, `1`, `{"nobody":[1]}`} {
			if _, err := v.Bind([]byte(bad), head); explain.Of(err) != explain.BadRequest {
				t.Errorf("%s %s: %v", v.Name, bad, err)
			}
		}
		for _, nothing := range []string{`{}`, `null`, `{"id":7,"type":"x"}`} {
			_, err := v.Bind([]byte(nothing), head)
			if has := needs[v.Name] == ""; has != (err == nil) || !has && explain.Of(err) != explain.BadRequest {
				t.Errorf("%s %s: %v", v.Name, nothing, err)
			}
		}
		if _, err := v.Bind([]byte("{"+needs[v.Name]+"}"), head); err != nil {
			t.Errorf("%s %s: %v", v.Name, needs[v.Name], err)
		}
	}
	for verb, bad := range map[string]string{
		"restore": `{"onDirty":"ABORT"}`, "undo": `{"onDirty":7}`, "navigate_tree": `{"onDirty":"keep"}`,
		"get_file_diff": `{"path":"a","from":"\ud83d"}`, "apply_patch": `{"expected":{"\udc00":"00"}}`, "find": `{"text":"\xff"}`,
		"told": `{"EntryID":"a"}`, "get_snapshots": `{"limit":"5"}`, "get_coverage": `{"reasons":["tired"]}`, "claim": `{"paths":"a"}`,
	} {
		if _, err := Named(verb).Bind([]byte(bad)); explain.Of(err) != explain.BadRequest {
			t.Errorf("%s %s: %v", verb, bad, err)
		}
	}
}

// TestHalfCharacter: what a turn is for may have been cut in the middle of a character.
func TestHalfCharacter(t *testing.T) {
	w := newWorld(t)
	w.must("turn_start", `,"title":"a\ud83d"`)
	w.must("turn_end", "")
}

// A world is a directory, and what answers requests about it.
type world struct {
	*testing.T
	dir string
	e   *manager.Engine
}

func newWorld(t *testing.T) *world {
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
	return &world{t, t.TempDir(), e}
}

func (w *world) write(name, content string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o644); err != nil {
		w.Fatal(err)
	}
}

// ask asks a verb, with fields behind those of the session, and returns its answer.
func (w *world) ask(verb, fields string) (map[string]any, error) {
	request := fmt.Sprintf(`{"cwd":%q,"sessionId":"s"%s}`, w.dir, fields)
	answer, err := Ask(context.Background(), w.e, verb, []byte(request))
	if answer == nil {
		return nil, err
	}
	b, merr := json.Marshal(answer)
	var m map[string]any
	if merr == nil {
		merr = json.Unmarshal(b, &m)
	}
	if merr != nil {
		w.Fatal(merr)
	}
	return m, err
}

func (w *world) must(verb, fields string) map[string]any {
	w.Helper()
	m, err := w.ask(verb, fields)
	if err != nil {
		w.Fatalf("%s: %v", verb, err)
	}
	return m
}

// TestAsk: a request names its session, and turns go on from one to the next, with
// a log of the runtime's own or without.
func TestAsk(t *testing.T) {
	w := newWorld(t)
	w.write("a", "one\n")
	for verb, request := range map[string]string{
		"turn_start": `{}`, "initialize": `{"cwd":"/"}`, "undo": `{"cwd":1}`, "redo": `{"sessionId":"../s","cwd":"/"}`,
	} {
		if _, err := Ask(t.Context(), w.e, verb, []byte(request)); explain.Of(err) != explain.BadRequest {
			t.Errorf("%s %s: %v", verb, request, err)
		}
	}
	if _, err := w.ask("dance", ""); explain.Of(err) != explain.BadCommand {
		t.Errorf("dance: %v", err)
	}
	w.must("turn_start", "")
	w.must("claim", `,"paths":["a"]`)
	w.write("a", "two\n")
	end := w.must("turn_end", "")
	entries, _ := end["entries"].([]any)
	if len(entries) != 1 || end["entryId"] != nil {
		t.Fatalf("the end of a turn of a runtime with a log: %v", end)
	}
	again := w.must("turn_end", "")
	if list, _ := again["entries"].([]any); len(list) != 1 {
		t.Errorf("what it was not told of is not said again: %v", again)
	}
	w.must("told", fmt.Sprintf(`,"snapshotSeq":%v,"entryId":"e1"`, end["snapshotSeq"]))
	if list, _ := w.must("turn_end", "")["entries"].([]any); len(list) != 0 {
		t.Errorf("what it was told of is said again: %v", list)
	}
	back := w.must("restore", `,"target":"@~3"`)
	if list, _ := back["entries"].([]any); len(list) != 1 || back["complete"] != true || back["snapshotSeq"] == nil {
		t.Errorf("a restore: %v", back)
	}
	w.must("undo", `,"ownLog":true`)
	if _, err := w.ask("undo", `,"ownLog":true`); explain.Code(err) != "nothing" {
		t.Errorf("a second undo: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(w.dir, "a")); string(b) != "two\n" {
		t.Errorf("a is %q, %v", b, err)
	}
	refused, err := w.ask("apply_patch", `,"path":"a","old":"nowhere","new":"x"`)
	if list, _ := refused["refusals"].([]any); explain.Code(err) != "refused" || len(list) != 1 {
		t.Errorf("a refused edit: %v, %v", refused, err)
	}
	if _, err := w.ask("apply_patch", ""); explain.Of(err) != explain.BadRequest {
		t.Errorf("an edit of nothing: %v", err)
	}
}

// TestLogIsNoFile: a runtime's log that is a directory is a mistake in the request.
func TestLogIsNoFile(t *testing.T) {
	w := newWorld(t)
	_, err := w.ask("turn_start", fmt.Sprintf(`,"sessionFile":%q`, w.dir))
	if explain.Of(err) != explain.BadRequest || !strings.Contains(err.Error(), w.dir) {
		t.Errorf("it ends with %v", err)
	}
}

// TestPages: pages put together are the whole list, whatever their size.
func TestPages(t *testing.T) {
	w := newWorld(t)
	w.write(".booignore", "*.o\n")
	want := make(map[string]bool)
	for i := range 7 {
		name := fmt.Sprintf("f%d.o", i)
		w.write(name, "x")
		want[name] = true
	}
	w.must("initialize", "")
	for _, limit := range []int{1, 3, 7, 0, 1000} {
		got, cursor, pages := make(map[string]bool), "", 0
		for pages = 1; ; pages++ {
			page := w.must("get_coverage", fmt.Sprintf(`,"limit":%d,"cursor":%q,"reasons":["ignored"]`, limit, cursor))
			for _, o := range page["omissions"].([]any) {
				o := o.(map[string]any)
				if o["kind"] != "file" || o["reason"] != "ignored" {
					t.Errorf("omission %v", o)
				}
				got[o["path"].(string)] = true
			}
			next, more := page["nextCursor"].(string)
			if cursor = next; !more {
				break
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("limit %d: %v in %d pages", limit, got, pages)
		}
	}
	for _, bad := range []string{"x", "-1", "1.5", strings.Repeat("9", 30)} {
		for _, verb := range []string{"get_coverage", "get_snapshots", "get_turn_diff"} {
			if _, err := w.ask(verb, fmt.Sprintf(`,"cursor":%q`, bad)); explain.Of(err) != explain.BadRequest {
				t.Errorf("%s with cursor %q: %v", verb, bad, err)
			}
		}
	}
}

// TestLocate: a text that is found has a place, one that is not has a reason.
func TestLocate(t *testing.T) {
	put, all := "x", 0
	for _, c := range []struct {
		q    Locate
		want string
	}{
		{Locate{Content: "a b\n", Old: "b"}, `{"kind":"exact","stage":"exact","start":2,"end":3,"count":1`},
		{Locate{Content: "a b\n", Old: "b", New: &put}, `"result":"a x\n"`},
		{Locate{Content: "a b\n", Old: "zzzz"}, `"start":null,"end":null,"count":0`},
		{Locate{Content: "b b\n", Old: "b"}, `"reason":"several"`},
		{Locate{Content: "b b\n", Old: "b", Options: MatchOptions{ExpectedReplacements: &all}}, `"spans":[{`},
	} {
		b, err := json.Marshal(c.q.Answer())
		if err != nil || !strings.Contains(string(b), c.want) {
			t.Errorf("%+v: %s, %v, want %s", c.q, b, err, c.want)
		}
	}
}
