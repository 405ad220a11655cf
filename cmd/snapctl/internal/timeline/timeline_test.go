package timeline

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/exchange"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/remote/remotetest"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/manager"
)

const token = "the token of the tests"

// A world is a directory with a history, and a server of it.
type world struct {
	*testing.T
	dir, stores string
	s           *Server
	web         *httptest.Server
}

func newWorld(t *testing.T, change func(*Options)) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, dir: dir, stores: t.TempDir()}
	e, err := manager.NewEngine(&manager.EngineOptions{StoreRoot: w.stores})
	if err != nil {
		t.Fatal(err)
	}
	opts := &Options{Engine: e, StoreRoot: w.stores, Root: dir, Token: token}
	if change != nil {
		change(opts)
	}
	w.s = New(opts)
	w.web = httptest.NewServer(w.s)
	t.Cleanup(func() {
		w.s.Close()
		w.web.Close()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) write(name, content string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *world) holds(name, want string) {
	w.Helper()
	if b, err := os.ReadFile(filepath.Join(w.dir, name)); string(b) != want {
		w.Errorf("%s: %q, %v, want %q", name, b, err, want)
	}
}

// runtime opens the session as another process does.
func (w *world) runtime() *manager.FileSnapshotManager {
	w.Helper()
	m, err := manager.Open(w.Context(), w.dir, &manager.Options{StoreRoot: w.stores, Session: "s"})
	if err != nil {
		w.Fatal(err)
	}
	return m
}

// turn has a turn of the runtime write a file.
func (w *world) turn(title, name, content string) {
	w.Helper()
	m := w.runtime()
	defer m.Close()
	_, err := m.OnTurnStart(w.Context(), &manager.Turn{Title: title, Agent: "tester"})
	w.write(name, content)
	if err == nil {
		_, err = m.OnTurnEnd(w.Context(), nil)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// ask sends a request, and returns the status and what was answered.
func (w *world) ask(method, path, body string, headers ...string) (int, map[string]any) {
	w.Helper()
	q, err := http.NewRequestWithContext(w.Context(), method, w.web.URL+path, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if q.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			q.Host = headers[i+1]
		}
	}
	r, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		w.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	var m map[string]any
	if err == nil && r.Header.Get("Content-Type") == "application/json" {
		err = json.Unmarshal(b, &m)
	} else {
		m = map[string]any{"text": string(b)}
	}
	if err != nil {
		w.Fatalf("%s %s: %s: %v", method, path, b, err)
	}
	return r.StatusCode, m
}

// verb asks a verb of the session.
func (w *world) verb(name, fields string) (int, map[string]any) {
	w.Helper()
	return w.ask("POST", "/v1/verbs/"+name, fmt.Sprintf(`{"cwd":%q,"sessionId":"s","ownLog":true%s}`, w.dir, fields))
}

func codeOf(m map[string]any) string {
	e, _ := m["error"].(map[string]any)
	code, _ := e["code"].(string)
	return code
}

// TestGuard: nobody is answered who may not ask, and the page itself holds no data.
func TestGuard(t *testing.T) {
	w := newWorld(t, nil)
	w.turn("a secret prompt", "a", "secret\n")
	body := fmt.Sprintf(`{"cwd":%q,"sessionId":"s"}`, w.dir)
	const looks = "/v1/verbs/get_snapshots"
	for _, c := range []struct {
		what, method, path, body string
		headers                  []string
		status                   int
		code                     string
	}{
		{"all is well", "POST", looks, body, nil, 200, ""},
		{"no token", "POST", looks, body, []string{"Authorization", ""}, 401, "unauthorized"},
		{"another token", "POST", looks, body, []string{"Authorization", "Bearer the token of the test"}, 401,
			"unauthorized"},
		{"a token as basic", "POST", looks, body, []string{"Authorization", "Basic " + token}, 401, "unauthorized"},
		{"another host", "POST", looks, body, []string{"Host", "evil.example"}, 421, "host"},
		{"a host that begins alike", "GET", "/", "", []string{"Host", "127.0.0.1.evil.example"}, 421, "host"},
		{"the page of another host", "GET", "/", "", []string{"Host", "evil.example:80"}, 421, "host"},
		{"a forwarded port", "POST", looks, body, []string{"Host", "localhost:9"}, 200, ""},
		{"IPv6", "POST", looks, body, []string{"Host", "[::1]:9"}, 200, ""},
		{"another origin", "POST", looks, body, []string{"Origin", "http://evil.example"}, 403, "origin"},
		{"an origin of no site", "POST", looks, body, []string{"Origin", "null"}, 403, "origin"},
		{"its own origin", "POST", looks, body, []string{"Origin", "http://localhost:9", "Host", "localhost:9"}, 200,
			""},
		{"another port's origin", "POST", looks, body, []string{"Origin", "http://localhost:8", "Host", "localhost:9"},
			403, "origin"},
		{"another site", "POST", looks, body, []string{"Sec-Fetch-Site", "cross-site"}, 403, "origin"},
		{"another port's page", "POST", looks, body, []string{"Sec-Fetch-Site", "same-site"}, 403, "origin"},
		{"another method", "GET", looks, "", nil, 405, "method"},
		{"another method of the page", "POST", "/", "x", nil, 405, "method"},
		{"a form", "POST", looks, body, []string{"Content-Type", "text/plain"}, 415, "content_type"},
		{"no JSON", "POST", looks, "{", nil, 400, "bad_request"},
		{"another directory", "POST", looks, `{"cwd":"/","sessionId":"s"}`, nil, 403, "forbidden"},
		{"no verb", "POST", "/v1/verbs/dance", body, nil, 404, "bad_command"},
		{"a verb of runtimes", "POST", "/v1/verbs/turn_start", body, nil, 403, "forbidden"},
		{"a verb that edits", "POST", "/v1/verbs/apply_patch", body, nil, 403, "forbidden"},
		{"no such file", "GET", "/assets/app.js", "", nil, 404, "not_found"},
		{"a file outside", "GET", "/%2e%2e/guard.go", "", nil, 404, "not_found"},
	} {
		status, answer := w.ask(c.method, c.path, c.body, c.headers...)
		if status != c.status || codeOf(answer) != c.code {
			t.Errorf("%s: %d %v, want %d %q", c.what, status, answer, c.status, c.code)
		}
		if status != 200 && strings.Contains(fmt.Sprint(answer), "secret") {
			t.Errorf("%s: it tells a secret: %v", c.what, answer)
		}
	}
	for _, name := range []string{"/", "/index.html"} {
		status, answer := w.ask("GET", name, "", "Authorization", "")
		text := fmt.Sprint(answer)
		if status != 200 || strings.Contains(text, "secret") || strings.Contains(text, w.dir) {
			t.Errorf("%s without a token: %d %.200s", name, status, text)
		}
	}
}

// TestTakeBack: what a preview says is done to the files, and only that.
func TestTakeBack(t *testing.T) {
	w := newWorld(t, nil)
	w.write("a", "1\n2\n3\n4\n5\n")
	w.turn("change both ends", "a", "one\n2\n3\n4\nfive\n")
	_, list := w.verb("hunks", `,"turns":["turn:0"],"paths":["a"]`)
	hunks := list["hunks"].([]any)
	if len(hunks) != 2 {
		t.Fatalf("hunks: %v", list)
	}
	args := fmt.Sprintf(`,"turns":["turn:0"],"hunks":[%q]`, hunks[1].(map[string]any)["id"])
	status, preview := w.verb("revert_preview", args+`,"diffs":true`)
	if status != 200 || len(preview["diffs"].([]any)) != 1 {
		t.Fatalf("preview: %d %v", status, preview)
	}
	w.holds("a", "one\n2\n3\n4\nfive\n")
	w.write("a", "one\n2\n3!\n4\nfive\n")
	if status, answer := w.verb("revert", fmt.Sprintf(`%s,"plan":%q`, args, preview["plan"])); status != 409 ||
		codeOf(answer) != "other_plan" {
		t.Errorf("another plan: %d %v", status, answer)
	}
	_, preview = w.verb("revert_preview", args)
	if status, answer := w.verb("revert", fmt.Sprintf(`%s,"plan":%q`, args, preview["plan"])); status != 200 {
		t.Errorf("revert: %d %v", status, answer)
	}
	w.holds("a", "one\n2\n3!\n4\n5\n")
	path := "/v1/sessions?session=s&cwd=" + w.dir
	if _, sessions := w.ask("GET", path, ""); sessions["undoSeq"] == nil || sessions["redoSeq"] != nil {
		t.Errorf("what undo takes back: %v", sessions)
	}
	if status, answer := w.verb("undo", ""); status != 200 {
		t.Errorf("undo: %d %v", status, answer)
	}
	w.holds("a", "one\n2\n3!\n4\nfive\n")
}

// TestLabel: a turn is named afterwards, and the directory as it is now; a name that something else
// has is refused.
func TestLabel(t *testing.T) {
	w := newWorld(t, nil)
	w.turn("first", "a", "1\n")
	w.turn("second", "a", "2\n")
	label := func(name, rev string) (int, string) {
		status, answer := w.ask("POST", "/v1/label",
			fmt.Sprintf(`{"cwd":%q,"sessionId":"s","label":%q,"rev":%q}`, w.dir, name, rev))
		return status, codeOf(answer)
	}
	if status, code := label("green", "turn:0"); status != 200 {
		t.Errorf("name a turn: %d %s", status, code)
	}
	if status, code := label("now", ""); status != 200 {
		t.Errorf("label the directory: %d %s", status, code)
	}
	for _, bad := range [][2]string{{"green", "turn:1"}, {"turn:7", "turn:1"}, {"x", "turn:9"}, {"", "turn:1"}} {
		if status, _ := label(bad[0], bad[1]); status == 200 {
			t.Errorf("name %q for %s: %d", bad[0], bad[1], status)
		}
	}
	_, list := w.verb("get_snapshots", "")
	labels := make(map[string]any)
	for _, row := range list["snapshots"].([]any) {
		row := row.(map[string]any)
		if row["label"] != nil {
			labels[row["label"].(string)] = row["turnIndex"]
		}
	}
	if labels["green"] != 0.0 || len(labels) != 2 {
		t.Errorf("labels: %v", labels)
	}
}

// TestReadOnly: nothing is changed, not even a store that is not there.
func TestReadOnly(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.ReadOnly = true })
	for _, name := range []string{"get_snapshots", "restore_preview", "undo"} {
		if status, answer := w.verb(name, `,"target":"start"`); status == 200 {
			t.Errorf("%s without a store: %v", name, answer)
		}
	}
	status, answer := w.ask("GET", "/v1/sessions?cwd="+w.dir, "")
	if status != 200 || len(answer["sessions"].([]any)) != 0 {
		t.Errorf("sessions without a store: %d %v", status, answer)
	}
	if list, _ := os.ReadDir(w.stores); len(list) > 0 {
		t.Errorf("it has made %v", list)
	}
	w.turn("x", "a", "1\n")
	for _, name := range []string{"restore", "revert", "undo", "redo", "restore_preview", "revert_preview"} {
		if status, answer := w.verb(name, ""); status != 403 || codeOf(answer) != "read_only" {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	for _, path := range []string{"/v1/label", "/v1/export"} {
		body := fmt.Sprintf(`{"cwd":%q,"sessionId":"s","label":"l"}`, w.dir)
		if status, answer := w.ask("POST", path, body); status != 403 || codeOf(answer) != "read_only" {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
	if status, answer := w.verb("get_snapshots", ""); status != 200 || len(answer["snapshots"].([]any)) != 2 {
		t.Errorf("get_snapshots: %d %v", status, answer)
	}
}

// TestContent: what a blob holds comes as it is, and is no page.
func TestContent(t *testing.T) {
	w := newWorld(t, nil)
	const content = "<script>alert(1)</script>\xff"
	w.turn("x", "a.html", content)
	_, d := w.verb("get_turn_diff", `,"detail":"names"`)
	id := d["files"].([]any)[0].(map[string]any)["newHash"].(string)
	q, _ := http.NewRequest("GET", fmt.Sprintf("%s/v1/content?id=%s&cwd=%s", w.web.URL, id, w.dir), nil)
	q.Header.Set("Authorization", "Bearer "+token)
	r, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, _ := io.ReadAll(r.Body)
	h := r.Header
	if string(b) != content || h.Get("Content-Type") != "application/octet-stream" ||
		h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Content-Disposition") != "attachment" {
		t.Errorf("%q with %v", b, h)
	}
	for _, bad := range []string{"", "x", strings.Repeat("0", 64)} {
		if status, answer := w.ask("GET", "/v1/content?cwd="+w.dir+"&id="+bad, ""); status < 400 {
			t.Errorf("id %q: %d %v", bad, status, answer)
		}
	}
}

// A listener reads the stream of events.
type listener struct {
	events chan event
	end    context.CancelFunc
}

func (w *world) listen(query string) *listener {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	w.Cleanup(cancel)
	q, err := http.NewRequestWithContext(ctx, "GET", w.web.URL+"/v1/events"+query, nil)
	if err != nil {
		w.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	r, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		w.Fatal(err)
	}
	l := &listener{make(chan event, 1000), cancel}
	go func() {
		defer r.Body.Close()
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) == nil && e.Type != "beat" {
				l.events <- e
			}
		}
		close(l.events)
	}()
	return l
}

// next returns the next event that fits, and how long it took to come.
func (w *world) next(l *listener, fits func(event) bool) (event, time.Duration) {
	w.Helper()
	began := time.Now()
	for late := time.After(10 * time.Second); ; {
		select {
		case e, ok := <-l.events:
			if !ok {
				w.Fatal("the stream has ended")
			}
			if fits(e) {
				return e, time.Since(began)
			}
		case <-late:
			w.Fatal("the event does not come")
		}
	}
}

// TestEvents: the begin of a turn, a look and its end are told soon, whoever records them, and who
// comes back is told what was missed.
func TestEvents(t *testing.T) {
	w := newWorld(t, nil)
	w.turn("first", "a", "1\n")
	l := w.listen("")
	hello, _ := w.next(l, func(e event) bool { return e.Type == "hello" })
	if !hello.Reset || hello.Run == "" {
		t.Errorf("hello: %+v", hello)
	}
	m := w.runtime()
	defer m.Close()
	if _, err := m.OnTurnStart(t.Context(), &manager.Turn{Title: "second"}); err != nil {
		t.Fatal(err)
	}
	isOpen := func(e event) bool { return e.Type == "turns" && len(e.Open) == 1 }
	start, took := w.next(l, isOpen)
	if start.Open[0].Title != "second" || start.Root != w.dir {
		t.Errorf("a turn that begins: %+v", start)
	}
	w.write("a", "2\n")
	if _, err := m.OnTurnEnd(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	end, tookEnd := w.next(l, func(e event) bool { return e.Type == "record" && e.Kind == "step" })
	if end.Session != "s" || end.Seq == 0 || end.Root != w.dir {
		t.Errorf("a turn that ends: %+v", end)
	}
	t.Logf("told after %v and %v", took, tookEnd)
	const soon = 2 * time.Second // 100 ms on a machine that does nothing else
	if took > soon || tookEnd > soon {
		t.Errorf("told after %v and %v", took, tookEnd)
	}
	l.end()

	// What happens while nobody listens is told to who comes back.
	w.turn("third", "a", "3\n")
	back := w.listen(fmt.Sprintf("?run=%s&since=%d", hello.Run, end.N))
	if again, _ := w.next(back, func(e event) bool { return e.Type == "hello" }); again.Reset {
		t.Errorf("hello of who comes back: %+v", again)
	}
	missed, _ := w.next(back, func(e event) bool { return e.Kind == "step" })
	if missed.N <= end.N || missed.Seq <= end.Seq {
		t.Errorf("what was missed: %+v, after %+v", missed, end)
	}
	for _, query := range []string{"?run=another&since=1", "?run=" + hello.Run + "&since=99999999", "?since=1"} {
		if other, _ := w.next(w.listen(query), func(e event) bool { return e.Type == "hello" }); !other.Reset {
			t.Errorf("%s: %+v", query, other)
		}
	}
	w.s.Close() // with streams open
	if _, open := <-back.events; open {
		for range back.events {
		}
	}
}

// TestFirstStore: a directory that nobody has recorded yet is followed from its first turn.
func TestFirstStore(t *testing.T) {
	w := newWorld(t, nil)
	l := w.listen("")
	w.next(l, func(e event) bool { return e.Type == "hello" })
	w.turn("first", "a", "1\n")
	w.next(l, func(e event) bool { return e.Type == "record" && e.Kind == "step" })
}

// TestAll: all projects are listed, and nothing is begun in a directory that has no history.
func TestAll(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Root = "" })
	w.turn("x", "a", "1\n")
	other := t.TempDir()
	if _, p := w.ask("GET", "/v1/projects", ""); len(p["projects"].([]any)) != 1 || p["all"] != true {
		t.Errorf("projects: %v", p)
	}
	if status, answer := w.verb("undo", ""); codeOf(answer) != "nothing" {
		t.Errorf("undo: %d %v", status, answer)
	}
	w.dir = other
	if status, answer := w.verb("undo", ""); status == 200 {
		t.Errorf("undo without a history: %v", answer)
	}
	if list, _ := os.ReadDir(w.stores); len(list) != 1 {
		t.Errorf("stores: %v", list)
	}
}

// TestOlderRecords: who listens is told that a prune may have dropped what is listed, and that
// something on record has a name now.
func TestOlderRecords(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 4 {
		w.turn(fmt.Sprint("turn ", i), "a", fmt.Sprint(i))
	}
	l := w.listen("")
	w.next(l, func(e event) bool { return e.Type == "hello" })
	w.turn("another", "a", "x\n")
	w.next(l, func(e event) bool { return e.Type == "record" && e.Kind == "step" })
	name := fmt.Sprintf(`{"cwd":%q,"sessionId":"s","label":"l","rev":"turn:1"}`, w.dir)
	if status, answer := w.ask("POST", "/v1/label", name); status != 200 {
		t.Fatalf("label: %d %v", status, answer)
	}
	if e, _ := w.next(l, func(e event) bool { return e.Type == "label" }); e.Root != w.dir {
		t.Errorf("a label: %+v", e)
	}
	m := w.runtime()
	defer m.Close()
	plan, err := retain.PlanPrune(t.Context(), inside.Store(m), &retain.Retention{KeepLast: 1})
	if err == nil {
		_, err = plan.Do(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if e, _ := w.next(l, func(e event) bool { return e.Type == "prune" }); e.Root != w.dir {
		t.Errorf("a prune: %+v", e)
	}
}

// TestEndTurn: the turn that ends is the one that somebody was asked about, and hooks are kept out
// meanwhile; one that has ended by itself ends nothing, and nothing is taken back.
func TestEndTurn(t *testing.T) {
	var settled, released int
	var err error
	w := newWorld(t, func(o *Options) {
		o.Settle = func(context.Context, *manager.FileSnapshotManager, *history.OpenTurn) (func(), error) {
			settled++
			return func() { released++ }, err
		}
	})
	w.turn("first", "a", "1\n")
	// Nobody holds the turn: its hooks come in processes of their own.
	m, oerr := manager.Open(t.Context(), w.dir, &manager.Options{StoreRoot: w.stores, Session: "s", Detached: true})
	if oerr != nil {
		t.Fatal(oerr)
	}
	defer m.Close()
	if _, err := m.OnTurnStart(t.Context(), &manager.Turn{Title: "is open"}); err != nil {
		t.Fatal(err)
	}
	w.write("a", "2\n")
	_, sessions := w.ask("GET", "/v1/sessions?session=s&cwd="+w.dir, "")
	open := sessions["open"].([]any)[0].(map[string]any)
	revert := func(verb, turn, began, more string) (int, string) {
		status, answer := w.ask("POST", fmt.Sprintf("/v1/verbs/%s?turn=%s&began=%s", verb, turn, began),
			fmt.Sprintf(`{"cwd":%q,"sessionId":"s","ownLog":true,"turns":["turn:0"]%s}`, w.dir, more))
		return status, codeOf(answer)
	}
	began := open["began"].(string)
	if status, code := revert("revert", "1", began, ""); status != 409 || code != "turn_open" {
		t.Errorf("with an open turn: %d %s", status, code)
	}
	if status, code := revert("revert_preview", "", "", `,"endTurn":true`); status != 200 {
		t.Errorf("a preview: %d %s", status, code)
	}
	for _, of := range [][2]string{{"0", began}, {"1", "2020-01-01T00:00:00Z"}, {"1", ""}, {"", ""}} {
		if status, code := revert("revert", of[0], of[1], `,"endTurn":true`); status != 409 || code != "turn_ended" {
			t.Errorf("another turn, %q: %d %s", of, status, code)
		}
	}
	err = ErrTurnEnded
	if status, code := revert("revert", "1", began, `,"endTurn":true`); status != 409 || code != "turn_ended" {
		t.Errorf("a turn that ends meanwhile: %d %s", status, code)
	}
	w.holds("a", "2\n")
	if settled, err = 0, nil; released != 0 {
		t.Errorf("released %d times", released)
	}
	if status, code := revert("revert", "1", began, `,"endTurn":true,"onConflict":"theirs"`); status != 200 {
		t.Errorf("revert: %d %s", status, code)
	}
	if settled != 1 || released != 1 {
		t.Errorf("settled %d times, and released %d times", settled, released)
	}
	if _, sessions := w.ask("GET", "/v1/sessions?session=s&cwd="+w.dir, ""); len(sessions["open"].([]any)) != 0 {
		t.Errorf("it is open: %v", sessions["open"])
	}
}

// TestArchive: the files come as they were at a turn, whatever they are called; where one cannot be
// read nothing is sent that would look like all of them.
func TestArchive(t *testing.T) {
	w := newWorld(t, nil)
	const odd = "bad\xff name"
	w.write("a", "1\n")
	w.write(odd, "odd\n")
	if err := errors.Join(os.Mkdir(filepath.Join(w.dir, "d"), 0o755),
		os.Symlink("../a", filepath.Join(w.dir, "d", "l")), os.Chmod(filepath.Join(w.dir, "a"), 0o750)); err != nil {
		t.Fatal(err)
	}
	w.turn("first", "b", strings.Repeat("long\n", 10_000))
	w.turn("second", "a", "2\n")
	read := func(rev string) map[string]string {
		t.Helper()
		status, answer := w.ask("GET", "/v1/archive?cwd="+w.dir+"&session=s&rev="+rev, "")
		if status != 200 {
			t.Fatalf("%s: %d %v", rev, status, answer)
		}
		files := make(map[string]string)
		for r := tar.NewReader(strings.NewReader(answer["text"].(string))); ; {
			h, err := r.Next()
			if err == io.EOF {
				return files
			}
			b, rerr := io.ReadAll(r)
			if err = errors.Join(err, rerr); err != nil {
				t.Fatal(err)
			}
			name := strings.TrimPrefix(h.Name, filepath.Base(w.dir)+"/")
			if name == odd && h.Format != tar.FormatGNU { // in another one it has to be UTF-8
				t.Errorf("%q: format %v", name, h.Format)
			}
			files[name] = fmt.Sprintf("%c%o %d %s%.4s", h.Typeflag, h.Mode, len(b), h.Linkname, b)
		}
	}
	want := map[string]string{"": "5755 0 ", "a": "0750 2 1\n", "b": "0644 50000 long", odd: "0644 4 odd\n",
		"d/": "5755 0 ", "d/l": "2777 0 ../a"}
	if d := cmp.Diff(want, read("turn:0")); d != "" {
		t.Errorf("turn:0: %s", d)
	}
	if want["a"] = "0750 2 2\n"; cmp.Diff(want, read("turn:1")) != "" {
		t.Errorf("turn:1: %s", cmp.Diff(want, read("turn:1")))
	}
	if status, _ := w.ask("GET", "/v1/archive?cwd="+w.dir+"&session=s&rev=turn:9", ""); status == 200 {
		t.Error("turn:9 is there")
	}
	if status, answer := w.ask("GET", "/v1/archive?cwd=/&session=s", ""); codeOf(answer) != "forbidden" {
		t.Errorf("another directory: %d %v", status, answer)
	}
	packs, err := filepath.Glob(filepath.Join(w.stores, "*", "packs", "*.pack"))
	if err != nil || len(packs) == 0 {
		t.Fatalf("packs: %v, %v", packs, err)
	}
	for _, pack := range packs {
		if err := os.Truncate(pack, 200); err != nil {
			t.Fatal(err)
		}
	}
	if status, answer := w.ask("GET", "/v1/archive?cwd="+w.dir+"&session=s&rev=turn:0", ""); status < 400 {
		t.Errorf("with a damaged store: %d %.200v", status, answer)
	}
}

// TestRenames: a file that was moved is one row, with where it was, and what has changed of it.
func TestRenames(t *testing.T) {
	w := newWorld(t, nil)
	lines := strings.Repeat("the same line\n", 20)
	w.write("old", lines+"end\n")
	w.write("gone", "something else\n")
	m := w.runtime()
	_, err := m.OnTurnStart(t.Context(), nil)
	err = errors.Join(err, os.Rename(filepath.Join(w.dir, "old"), filepath.Join(w.dir, "new")),
		os.Remove(filepath.Join(w.dir, "gone")))
	w.write("new", lines+"another end\n")
	if err == nil {
		_, err = m.OnTurnEnd(t.Context(), nil)
	}
	if err = errors.Join(err, m.Close()); err != nil {
		t.Fatal(err)
	}
	files := func(fields string) (list []string) {
		_, d := w.verb("get_turn_diff", fields)
		for _, f := range d["files"].([]any) {
			f := f.(map[string]any)
			list = append(list, fmt.Sprint(f["path"], " ", f["status"], " ", f["renamedFrom"], " +", f["added"],
				" -", f["deleted"]))
		}
		return list
	}
	if d := cmp.Diff([]string{"gone deleted <nil> +0 -1", "new added <nil> +21 -0", "old deleted <nil> +0 -21"},
		files(`,"detail":"counts"`)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"gone deleted <nil> +0 -1", "new renamed old +1 -1"},
		files(`,"detail":"counts","renames":true`)); d != "" {
		t.Error(d)
	}
	_, d := w.verb("get_turn_diff", `,"renames":true,"paths":["new"]`)
	text := d["files"].([]any)[0].(map[string]any)["unifiedDiff"].(string)
	if !strings.Contains(text, "rename from old\nrename to new\n") || !strings.Contains(text, "-end\n+another end\n") {
		t.Errorf("diff: %s", text)
	}
}

// TestBranches: each turn says on what it builds.
func TestBranches(t *testing.T) {
	w := newWorld(t, nil)
	w.turn("first", "a", "1\n")
	w.turn("second", "a", "2\n")
	if status, answer := w.verb("restore", `,"target":"turn:0"`); status != 200 {
		t.Fatalf("restore: %d %v", status, answer)
	}
	w.turn("third", "a", "3\n")
	_, list := w.verb("get_snapshots", `,"newestFirst":true,"branches":true`)
	bySeq, on := make(map[any]any), make(map[any]any)
	for _, row := range list["snapshots"].([]any) {
		row := row.(map[string]any)
		bySeq[row["snapshotSeq"]] = row["turnIndex"]
	}
	for _, row := range list["snapshots"].([]any) {
		row := row.(map[string]any)
		on[row["turnIndex"]] = bySeq[row["prevSeq"]]
	}
	if on[2.0] != 0.0 || on[1.0] != 0.0 || on[0.0] != -1.0 {
		t.Errorf("what turns build on: %v", on)
	}
	if status, _ := w.verb("get_snapshots", `,"branches":true`); status != 400 {
		t.Errorf("branches, oldest first: %d", status)
	}
}

// TestReviewed: marks of pages that mark at once are all there, stay, and go alone.
func TestReviewed(t *testing.T) {
	w := newWorld(t, nil)
	mark := func(is bool, ids ...string) int {
		b, err := json.Marshal(map[string]any{"cwd": w.dir, "ids": ids, "is": is})
		if err != nil {
			t.Error(err)
		}
		status, _ := w.ask("POST", "/v1/reviewed", string(b))
		return status
	}
	marks := func() (list []any) {
		_, answer := w.ask("GET", "/v1/reviewed?cwd="+w.dir, "")
		list, _ = answer["ids"].([]any)
		return list
	}
	if status := mark(true, "x"); status == 200 || len(marks()) != 0 {
		t.Errorf("without a store: %d, %v", status, marks())
	}
	w.turn("first", "a", "1\n")
	const pages, each = 4, 25
	var group sync.WaitGroup
	for page := range pages {
		group.Go(func() {
			for i := range each {
				if status := mark(true, fmt.Sprintf("%d-%d", page, i)); status != 200 {
					t.Errorf("mark: %d", status)
				}
			}
		})
	}
	group.Wait()
	if n := len(marks()); n != pages*each {
		t.Errorf("%d marks, want %d", n, pages*each)
	}
	if status := mark(false, "0-0", "1-1", "none"); status != 200 || len(marks()) != pages*each-2 {
		t.Errorf("taken away: %d, %d marks", status, len(marks()))
	}
	for _, bad := range [][]string{nil, {""}, {strings.Repeat("x", maxReviewedID+1)}} {
		if status := mark(true, bad...); status != 400 {
			t.Errorf("%q: %d", bad, status)
		}
	}
}

// TestReviewedAlone: as long as one page changes the marks no other one reads them to change them.
func TestReviewedAlone(t *testing.T) {
	w := newWorld(t, nil)
	w.turn("first", "a", "1\n")
	m := w.runtime()
	defer m.Close()
	const flag = os.O_RDWR | os.O_CREATE
	err := withReviewed(t.Context(), m, flag, vfs.Exclusive, func(vfs.File, *reviewed) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		return withReviewed(ctx, m, flag, vfs.Exclusive, func(vfs.File, *reviewed) error { return nil })
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second one: %v", err)
	}
}

// TestElsewhere: what others make of a session, pulled from a remote, is listed beside it, is looked at as any
// session is, and nothing of it is taken back here.
func TestElsewhere(t *testing.T) {
	w, other := newWorld(t, nil), newWorld(t, nil)
	w.turn("mine", "a", "1\n")
	other.turn("theirs", "b", "2\n")
	place := remotetest.NewMem()
	if _, err := lines.Init(t.Context(), place, nil); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*world{other, w} { // one pushes, the other pulls
		loc, err := places.Locate(m.stores, m.dir)
		if err != nil {
			t.Fatal(err)
		}
		s, err := cas.Open(t.Context(), loc.Dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		repo, err := lines.Open(t.Context(), place, func(keys []byte) ([]byte, error) { return keys, nil })
		if err == nil {
			err = exchange.Add(t.Context(), s.FS(), &exchange.Config{Name: "team", ID: repo.ID()})
		}
		var f *exchange.Fetched
		switch {
		case err != nil:
		case m == other:
			_, err = exchange.NewPusher(s, repo, &exchange.Config{Name: "team"}).Push(t.Context())
		default:
			if f, err = exchange.Fetch(t.Context(), repo, nil); err == nil {
				_, err = (&exchange.Importer{Store: s, Repo: repo, Name: "team"}).Import(t.Context(), f, nil)
			}
		}
		if err = errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	_, answer := w.ask("GET", "/v1/sessions?cwd="+url.QueryEscape(w.dir)+"&session=s", "")
	var got []string
	for _, row := range answer["sessions"].([]any) {
		row := row.(map[string]any)
		got = append(got, fmt.Sprint(row["session"], " ", row["root"] == w.dir, " ", row["title"]))
	}
	slices.Sort(got)
	if want := []string{"s true mine", "team:s true theirs"}; !slices.Equal(got, want) {
		t.Errorf("sessions %q, want %q", got, want)
	}
	ask := func(verb, fields string) (int, map[string]any) {
		return w.ask("POST", "/v1/verbs/"+verb, fmt.Sprintf(`{"cwd":%q,"sessionId":"team:s"%s}`, w.dir, fields))
	}
	status, list := ask("get_snapshots", `,"newestFirst":true`)
	if status != 200 {
		t.Fatalf("turns of others: %d %v", status, list)
	}
	row := list["snapshots"].([]any)[0].(map[string]any)
	if row["title"] != "theirs" || row["turnIndex"] != 0.0 {
		t.Errorf("the newest is %v", row)
	}
	status, diff := ask("get_turn_diff", `,"rev":"turn:0"`)
	if files := fmt.Sprint(diff["files"]); status != 200 || !strings.Contains(files, "+2\n") {
		t.Errorf("what they did: %d %v", status, diff)
	}
	if status, answer := ask("revert", `,"turns":["turn:0"]`); status == 200 {
		t.Errorf("a turn of others is taken back as if it were one of here: %v", answer)
	}
	w.holds("a", "1\n")
}
