package httpapi

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/boocode/filestore/checkpoint"
	explained "github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
)

const token = "a token of some length"

// A runtime is one of tests: a chat, whose agent works in a worktree, and a
// server for its checkpoints.
type runtime struct {
	testing.TB
	db     *sql.DB
	dir    string // of the worktree
	stores string
	url    string
	n      int // IDs made

	reset func(ctx context.Context) error // nil: nothing is to be reset
}

func newRuntime(t testing.TB) *runtime {
	t.Helper()
	rt := &runtime{TB: t, dir: t.TempDir(), stores: t.TempDir()}
	var err error
	rt.db, err = sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "chats.db")+
		"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.db.Close() })
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	d, err := checkpoint.Open(t.Context(), rt.db, checkpoint.SQLite,
		&checkpoint.Options{Manager: rt.manager, Reset: rt.Reset, Runtime: true, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(New(d, &Options{Token: token, Logger: log,
		Origins: []string{"http://localhost:3000"}, Verb: say}))
	t.Cleanup(server.Close)
	rt.url = server.URL
	rt.exec(`INSERT INTO chats (id, title) VALUES ('chat', 'a chat')`)
	rt.exec(`INSERT INTO worktrees (id, session_id, path) VALUES ('worktree', 'session', ?)`, rt.dir)
	return rt
}

// say is a verb that says what it was asked, or fails as it is told.
func say(_ context.Context, name string, request json.RawMessage) (any, error) {
	answer := map[string]any{"name": name, "request": request}
	switch name {
	case "turn_end":
		return answer, manager.ErrTurnOpen
	case "restore":
		return nil, explained.Errorf(explained.BadCommand, "no verb %q", name)
	}
	return answer, nil
}

// TestVerbs: a verb is asked with what the body has, and its errors are those of RPC.
func TestVerbs(t *testing.T) {
	rt := newRuntime(t)
	for _, c := range []struct{ method, path, kind, body, want string }{
		{"POST", "undo", "application/json", ` {"cwd": "/x"} `, `200 {"name":"undo","request":{"cwd":"/x"}}`},
		{"POST", "undo", "", "", `200 {"name":"undo","request":{}}`},
		{"POST", "undo", "text/plain", "{}", `415 {"error":{"code":"content_type","message":"want Content-Type: application/json"}}`},
		{"POST", "undo", "application/json", "{", `400 {"error":{"code":"bad_request","message":"body: unexpected EOF"}}`},
		{"GET", "undo", "", "", `405 {"error":{"code":"method","message":"GET: want POST"}}`},
		{"POST", "turn_end", "", "", `409 {"error":{"code":"turn_open","message":"a turn is open","data":{"name":"turn_end","request":{}}}}`},
		{"POST", "restore", "", "", `404 {"error":{"code":"bad_command","message":"no verb \"restore\""}}`},
		{"POST", "", "", "", `400 {"error":{"code":"bad_request","message":"path \"/v1/verbs/\": want parts of 1 to 128 letters, digits and ._-"}}`},
		{"POST", "long", "application/json", `"` + strings.Repeat("x", maxVerb) + `"`,
			fmt.Sprintf(`413 {"error":{"code":"too_large","message":"body: more than %d bytes"}}`, maxVerb)},
	} {
		q, err := http.NewRequest(c.method, rt.url+"/v1/verbs/"+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+token)
		if c.kind != "" {
			q.Header.Set("Content-Type", c.kind)
		}
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		r.Body.Close()
		if got := fmt.Sprint(r.StatusCode, " ", strings.TrimSpace(string(b))); err != nil || got != c.want {
			t.Errorf("%s %q %.40s: %s, %v\nwant %s", c.method, c.path, c.body, got, err, c.want)
		}
	}
}

// Each error of the table has its status and its code.
func TestKinds(t *testing.T) {
	var fails error
	server := httptest.NewServer(New(nil, &Options{Token: token,
		Verb: func(context.Context, string, json.RawMessage) (any, error) {
			return nil, fmt.Errorf("ask: %w", fails)
		}}))
	defer server.Close()
	for _, k := range explained.Kinds {
		for _, fails = range append(k.Errs, explained.Errorf(k, "said")) {
			q, err := http.NewRequest("POST", server.URL+"/v1/verbs/undo", nil)
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Authorization", "Bearer "+token)
			r, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			var answer struct{ Error struct{ Code string } }
			err = json.NewDecoder(r.Body).Decode(&answer)
			r.Body.Close()
			if err != nil || r.StatusCode != k.Status || answer.Error.Code != k.Code {
				t.Errorf("%v: %d %q, %v, want %d %q", fails, r.StatusCode, answer.Error.Code, err, k.Status, k.Code)
			}
		}
	}
}

func (rt *runtime) manager(ctx context.Context, path, chat string) (*manager.FileSnapshotManager, func() error, error) {
	m, err := manager.Open(ctx, path, &manager.Options{StoreRoot: rt.stores, Session: chat})
	if err != nil {
		return nil, nil, err
	}
	return m, m.Close, nil
}

func (rt *runtime) Reset(ctx context.Context, _ string) (bool, error) {
	if rt.reset == nil {
		return false, nil
	}
	return true, rt.reset(ctx)
}

func (rt *runtime) exec(query string, args ...any) {
	rt.Helper()
	if _, err := rt.db.Exec(query, args...); err != nil {
		rt.Fatalf("%s: %v", query, err)
	}
}

func (rt *runtime) write(name, content string) {
	rt.Helper()
	if err := os.WriteFile(filepath.Join(rt.dir, name), []byte(content), 0o644); err != nil {
		rt.Fatal(err)
	}
}

func (rt *runtime) read(name string) string {
	rt.Helper()
	b, err := os.ReadFile(filepath.Join(rt.dir, name))
	if err != nil {
		rt.Fatal(err)
	}
	return string(b)
}

// turn runs a turn as a runtime in another language does, in which the agent
// writes a file, and returns the checkpoint before it.
func (rt *runtime) turn(content string) *checkpoint.Checkpoint {
	rt.Helper()
	rt.n++
	message := fmt.Sprint("message", rt.n)
	rt.exec(`INSERT INTO messages (id, chat_id, role) VALUES (?, 'chat', 'assistant')`, message)
	m, release, err := rt.manager(rt.Context(), rt.dir, "chat")
	if err != nil {
		rt.Fatal(err)
	}
	defer release()
	start, err := m.OnTurnStart(rt.Context(), nil)
	if err != nil {
		rt.Fatal(err)
	}
	c := new(checkpoint.Checkpoint)
	rt.want(201, "", c, "POST", "/api/sessions/session/checkpoints", map[string]any{
		"chat_id": "chat", "worktree_id": "worktree", "message_id": message, "label": "before " + content,
		"tree_hash": start.Tree.String()})
	rt.write("file", content)
	if _, err := m.OnTurnEnd(rt.Context(), nil); err != nil {
		rt.Fatal(err)
	}
	return c
}

// request makes a request that is as it should be. body nil: none.
func (rt *runtime) request(method, path string, body any) *http.Request {
	rt.Helper()
	var r io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(body)
	default:
		b, err := json.Marshal(body)
		if err != nil {
			rt.Fatal(err)
		}
		r = bytes.NewReader(b)
	}
	q, err := http.NewRequestWithContext(rt.Context(), method, rt.url+path, r)
	if err != nil {
		rt.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	return q
}

// do sends a request, requires the form that all answers have, and returns the
// status and the code of an error. Without one the answer goes to v.
func (rt *runtime) do(q *http.Request, v any) (status int, e refusal, header http.Header) {
	rt.Helper()
	resp, err := http.DefaultTransport.RoundTrip(q) // which follows nothing
	if err != nil {
		rt.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		rt.Fatal(err)
	}
	for name, want := range map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store",
		"X-Content-Type-Options": "nosniff"} {
		if got := resp.Header.Get(name); got != want {
			rt.Errorf("%s %s: %s is %q, want %q", q.Method, q.URL, name, got, want)
		}
	}
	if resp.StatusCode < 400 {
		if v != nil {
			if err := json.Unmarshal(b, v); err != nil {
				rt.Fatalf("%s %s: %v: %s", q.Method, q.URL, err, b)
			}
		}
		return resp.StatusCode, e, resp.Header
	}
	var answer struct{ Error *refusal }
	if err := json.Unmarshal(b, &answer); err != nil || answer.Error == nil || answer.Error.Code == "" ||
		answer.Error.Message == "" {
		rt.Fatalf("%s %s: %d without an error: %s (%v)", q.Method, q.URL, resp.StatusCode, b, err)
	}
	return resp.StatusCode, *answer.Error, resp.Header
}

// want sends a request and requires what is answered.
func (rt *runtime) want(status int, code string, v any, method, path string, body any) (e refusal) {
	rt.Helper()
	got, e, _ := rt.do(rt.request(method, path, body), v)
	if got != status || e.Code != code {
		rt.Fatalf("%s %s: %d %q (%s), want %d %q", method, path, got, e.Code, e.Message, status, code)
	}
	return e
}

// TestGuard: what is refused before anything else.
func TestGuard(t *testing.T) {
	rt := newRuntime(t)
	host := strings.TrimPrefix(rt.url, "http://")
	_, port, _ := net.SplitHostPort(host)
	for _, tt := range []struct {
		name   string
		change func(q *http.Request)
		status int
	}{
		{"as it should be", func(q *http.Request) {}, 200},
		{"no token", func(q *http.Request) { q.Header.Del("Authorization") }, 401},
		{"empty token", func(q *http.Request) { q.Header.Set("Authorization", "Bearer ") }, 401},
		{"no scheme", func(q *http.Request) { q.Header.Set("Authorization", token) }, 401},
		{"another scheme", func(q *http.Request) { q.Header.Set("Authorization", "Basic "+token) }, 401},
		{"lower-case scheme", func(q *http.Request) { q.Header.Set("Authorization", "bearer "+token) }, 200},
		{"wrong token", func(q *http.Request) { q.Header.Set("Authorization", "Bearer another of the same len") }, 401},
		{"upper-case token", func(q *http.Request) {
			q.Header.Set("Authorization", "Bearer "+strings.ToUpper(token))
		}, 401},
		{"prefix of the token", func(q *http.Request) {
			q.Header.Set("Authorization", "Bearer "+token[:len(token)-1])
		}, 401},
		{"token as prefix", func(q *http.Request) { q.Header.Set("Authorization", "Bearer "+token+"x") }, 401},
		{"two tokens", func(q *http.Request) { q.Header.Add("Authorization", "Bearer "+token) }, 401},
		{"token in the query", func(q *http.Request) {
			q.Header.Del("Authorization")
			q.URL.RawQuery = "token=" + url.QueryEscape(token)
		}, 401},
		{"localhost", func(q *http.Request) { q.Host = "localhost:" + port }, 200},
		{"LOCALHOST", func(q *http.Request) { q.Host = "LOCALHOST:" + port }, 200},
		{"[::1]", func(q *http.Request) { q.Host = "[::1]:" + port }, 200},
		{"without a port", func(q *http.Request) { q.Host = "127.0.0.1" }, 200},
		{"foreign host", func(q *http.Request) { q.Host = "evil.example:" + port }, 403},
		{"foreign host that begins well", func(q *http.Request) { q.Host = "localhost.evil.example" }, 403},
		{"foreign host that ends well", func(q *http.Request) { q.Host = "evil.localhost" }, 403},
		{"no host", func(q *http.Request) { q.Host = ":" + port }, 403},
		{"allowed origin", func(q *http.Request) { q.Header.Set("Origin", "http://localhost:3000") }, 200},
		{"foreign origin", func(q *http.Request) { q.Header.Set("Origin", "http://evil.example") }, 403},
		{"origin with another port", func(q *http.Request) { q.Header.Set("Origin", "http://localhost:3001") }, 403},
		{"origin that begins well", func(q *http.Request) {
			q.Header.Set("Origin", "http://localhost:3000.evil.example")
		}, 403},
		{"the server's own address as origin", func(q *http.Request) { q.Header.Set("Origin", rt.url) }, 403},
		{"null origin", func(q *http.Request) { q.Header.Set("Origin", "null") }, 403},
		{"empty origin", func(q *http.Request) { q.Header.Set("Origin", "") }, 403},
		{"a second origin", func(q *http.Request) {
			q.Header["Origin"] = []string{"http://localhost:3000", "http://evil.example"}
		}, 403},
		{"foreign host, no token", func(q *http.Request) {
			q.Host = "evil.example"
			q.Header.Del("Authorization")
		}, 403},
		{"no token, no such path", func(q *http.Request) {
			q.URL.Path = "/nowhere"
			q.Header.Del("Authorization")
		}, 401},
		{"no token, a path that is none", func(q *http.Request) {
			q.URL.Path = "/../x"
			q.Header.Del("Authorization")
		}, 401},
		{"preflight", func(q *http.Request) {
			q.Method = "OPTIONS"
			q.Header.Del("Authorization")
			q.Header.Set("Origin", "http://evil.example")
		}, 403},
	} {
		q := rt.request("GET", "/api/sessions/session/checkpoints", nil)
		tt.change(q)
		status, _, header := rt.do(q, nil)
		if status != tt.status {
			t.Errorf("%s: %d, want %d", tt.name, status, tt.status)
		}
		if got := header.Get("WWW-Authenticate") != ""; got != (tt.status == 401) {
			t.Errorf("%s: %d with WWW-Authenticate: %v", tt.name, status, got)
		}
		if header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: pages may read the answer", tt.name)
		}
	}
}

// TestNoToken: a server without a token is no open one.
func TestNoToken(t *testing.T) {
	for _, opts := range []*Options{nil, {}} {
		for _, header := range []string{"", "Bearer", "Bearer "} {
			q := httptest.NewRequest("GET", "http://localhost/api/sessions/s/checkpoints", nil)
			q.Header.Set("Authorization", header)
			w := httptest.NewRecorder()
			New(nil, opts).ServeHTTP(w, q)
			if w.Code != 401 {
				t.Errorf("%v, Authorization: %q: %d, want 401", opts, header, w.Code)
			}
		}
	}
}

// TestPaths sends paths as they are, without a client that would clean them.
func TestPaths(t *testing.T) {
	rt := newRuntime(t)
	for path, want := range map[string]int{
		"/api/sessions/session/checkpoints":                               200,
		"/api/sessions/" + strings.Repeat("a", 128) + "/checkpoints":      200,
		"/api/sessions/a.b_c-D9/checkpoints":                              200,
		"/api/sessions/" + strings.Repeat("a", 129) + "/checkpoints":      400,
		"/api/sessions//checkpoints":                                      400,
		"/api/sessions/session/checkpoints/":                              400,
		"/api/sessions/../checkpoints":                                    400,
		"/api/sessions/./checkpoints":                                     400,
		"/api/sessions/x/../session/checkpoints":                          400,
		"//api/sessions/session/checkpoints":                              400,
		"/api/sessions/%2e%2e/checkpoints":                                400,
		"/api/sessions/%2E/checkpoints":                                   400,
		"/api/sessions/a%2Fb/checkpoints":                                 400,
		"/api/sessions/a%2fb/checkpoints":                                 400,
		"/api/sessions/a%252Fb/checkpoints":                               400,
		"/api/sessions/a%5Cb/checkpoints":                                 400,
		`/api/sessions/a\b/checkpoints`:                                   400,
		"/api/sessions/a%00/checkpoints":                                  400,
		"/api/sessions/a%0A/checkpoints":                                  400,
		"/api/sessions/session%0a/checkpoints":                            400,
		"/api/sessions/%C3%A9/checkpoints":                                400,
		"/api/sessions/é/checkpoints":                                     400,
		"/api/sessions/%EF%BC%8F/checkpoints":                             400,
		"/api/sessions/a;b/checkpoints":                                   400,
		"/api/sessions/a'%20OR%20'1'='1/checkpoints":                      400,
		"/api/sessions/%73ession/checkpoints":                             400,
		"/":                                                               400,
		"/api":                                                            404,
		"/api/sessions/session":                                           404,
		"/api/sessions/session/checkpoints/x":                             404,
		"/API/sessions/session/checkpoints":                               404,
		"/api/sessions/session/checkpoints?chat=chat&limit=5":             200,
		"/api/sessions/session/checkpoints?chat=":                         400,
		"/api/sessions/session/checkpoints?chat=a%2Fb":                    400,
		"/api/sessions/session/checkpoints?chat=a&chat=b":                 400,
		"/api/sessions/session/checkpoints?chatId=a":                      400,
		"/api/sessions/session/checkpoints?limit=0":                       400,
		"/api/sessions/session/checkpoints?limit=-1":                      400,
		"/api/sessions/session/checkpoints?limit=1x":                      400,
		"/api/sessions/session/checkpoints?limit=99999999999999999999":    400,
		"/api/sessions/session/checkpoints?limit=1000":                    200,
		"/api/sessions/session/checkpoints?cursor=nonsense":               400,
		"/api/sessions/session/checkpoints?cursor=9999999999999999999999": 400,
		"/api/sessions/session/checkpoints?a;b":                           400,
		"/api/sessions/session/checkpoints?%zz":                           400,
	} {
		if got := rt.raw(t, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+token+
			"\r\nConnection: close\r\n\r\n"); got != want {
			t.Errorf("GET %s: %d, want %d", path, got, want)
		}
	}
	for text, want := range map[string]int{
		// no Host: net/http's own
		"GET /api/sessions/s/checkpoints HTTP/1.1\r\nConnection: close\r\n\r\n": 400,
		"GET /api/sessions/s/checkpoints HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 2<<20) +
			"\r\nConnection: close\r\n\r\n": 431,
		// the line decides, says RFC 9112
		"GET http://localhost/api/sessions/s/checkpoints HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n": 401,
		"GET http://evil.example/api/sessions/s/checkpoints HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n": 403,
		"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token +
			"\r\nConnection: close\r\n\r\n": 400,
	} {
		if got := rt.raw(t, text); got != want {
			t.Errorf("%.60q…: %d, want %d", text, got, want)
		}
	}
}

// raw sends bytes and returns the status of the answer.
func (rt *runtime) raw(t *testing.T, text string) (status int) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(rt.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go io.WriteString(conn, text) // the answer may come before all is read
	b := make([]byte, 12)
	if _, err := io.ReadFull(conn, b); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(b), "HTTP/1.1 %d", &status); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	return status
}

func TestBodies(t *testing.T) {
	rt := newRuntime(t)
	c := rt.turn("one")
	checkpoints, restore, undo := "/api/sessions/session/checkpoints",
		"/api/sessions/session/checkpoints/"+c.ID+"/restore", "/api/sessions/session/restores/x/undo"
	hash := strings.Repeat("0f", 32)
	create := func(change string) string {
		return strings.ReplaceAll(`{"chat_id":"chat","worktree_id":"worktree","message_id":"message1","tree_hash":"`+hash+`"`+change+`}`, "\n", "")
	}
	for _, tt := range []struct {
		name, path, body string
		kind             string
		status           int
		code             string
	}{
		{"no object", restore, `[]`, "application/json", 400, "bad_request"},
		{"no JSON", restore, `preview=true`, "application/json", 400, "bad_request"},
		{"cut off", restore, `{"preview":true`, "application/json", 400, "bad_request"},
		{"unknown field", restore, `{"preview":true,"force":true}`, "application/json", 400, "bad_request"},
		{"wrong kind of field", restore, `{"preview":"true"}`, "application/json", 400, "bad_request"},
		{"two values", restore, `{"preview":true}{"preview":true}`, "application/json", 400, "bad_request"},
		{"garbage after it", restore, `{"preview":true}]`, "application/json", 400, "bad_request"},
		{"blanks after it", restore, `{"preview":true}` + "\r\n \t", "application/json", 200, ""},
		{"unknown policy", restore, `{"on_dirty":"force"}`, "application/json", 400, "bad_request"},
		{"form", restore, `{"preview":true}`, "application/x-www-form-urlencoded", 415, "content_type"},
		{"plain text", restore, `{"preview":true}`, "text/plain", 415, "content_type"},
		{"no type", restore, `{"preview":true}`, "", 415, "content_type"},
		{"type that begins well", restore, `{"preview":true}`, "application/json-patch+json", 415, "content_type"},
		{"with a charset", restore, `{"preview":true}`, "application/json; charset=utf-8", 200, ""},
		{"huge", restore, `{"on_dirty":"` + strings.Repeat("x", maxBody) + `"}`, "application/json", 413, "too_large"},
		{"huge blank after it", restore, `{"preview":true}` + strings.Repeat(" ", maxBody), "application/json", 413, "too_large"},
		{"exact undo", undo, `{"exact":true}`, "application/json", 400, "bad_request"},
		{"undo across heads", undo, `{"across_head":true}`, "application/json", 400, "bad_request"},
		{"undo of nothing", undo, `{}`, "application/json", 404, "not_found"},
		{"empty", checkpoints, ``, "application/json", 400, "bad_request"},
		{"null", checkpoints, `null`, "application/json", 400, "bad_request"},
		{"no hash", checkpoints, create(`,"tree_hash":""`), "application/json", 400, "bad_request"},
		{"short hash", checkpoints, create(`,"tree_hash":"0f0f"`), "application/json", 400, "bad_request"},
		{"zero hash", checkpoints, create(`,"tree_hash":"` + strings.Repeat("0", 64) + `"`), "application/json", 400, "bad_request"},
		{"no chat", checkpoints, create(`,"chat_id":""`), "application/json", 400, "bad_request"},
		{"chat that is a path", checkpoints, create(`,"chat_id":"../x"`), "application/json", 400, "bad_request"},
		{"chat that is a number", checkpoints, create(`,"chat_id":7`), "application/json", 400, "bad_request"},
		{"NUL in the label", checkpoints, create(`,"label":"a\u0000"`), "application/json", 400, "bad_request"},
		{"another field", checkpoints, create(`,"session_id":"another"`), "application/json", 400, "bad_request"},
		{"unknown hash", checkpoints, create(""), "application/json", 409, "unknown"},
		{"unknown worktree", checkpoints, create(`,"worktree_id":"nowhere"`), "application/json", 409, "no_worktree"},
		{"unknown message", checkpoints, create(`,"message_id":"none","tree_hash":"` + c.CommitSHA + `"`), "application/json", 409, "anchor"},
		{"chat without a turn", checkpoints, create(`,"chat_id":"another"`), "application/json", 409, "unknown"},
	} {
		q := rt.request("POST", tt.path, tt.body)
		q.Header.Set("Content-Type", tt.kind)
		status, e, _ := rt.do(q, nil)
		if status != tt.status || e.Code != tt.code {
			t.Errorf("%s: %d %q (%s), want %d %q", tt.name, status, e.Code, e.Message, tt.status, tt.code)
		}
	}
	if got := rt.read("file"); got != "one" {
		t.Errorf("something was restored: %q", got)
	}
	for _, tt := range []struct{ method, path, allow string }{
		{"DELETE", checkpoints, "GET, POST"}, {"PUT", checkpoints, "GET, POST"}, {"OPTIONS", checkpoints, "GET, POST"},
		{"BREW", checkpoints, "GET, POST"},
		{"GET", restore, "POST"}, {"GET", undo, "POST"},
	} {
		status, e, header := rt.do(rt.request(tt.method, tt.path, nil), nil)
		if status != 405 || e.Code != "method" || header.Get("Allow") != tt.allow {
			t.Errorf("%s %s: %d %q, Allow: %q, want 405, %q", tt.method, tt.path, status, e.Code,
				header.Get("Allow"), tt.allow)
		}
	}
}

// TestRestore: a runtime in another language makes checkpoints, goes back, and
// changes its mind.
func TestRestore(t *testing.T) {
	rt := newRuntime(t)
	rt.write("file", "nothing")
	list := []*checkpoint.Checkpoint{rt.turn("one"), rt.turn("two"), rt.turn("three")}
	if c := list[1]; c.ID == "" || c.SessionID != "session" || c.MessageID != "message2" || c.Label != "before two" ||
		c.CreatedAt.IsZero() {
		t.Errorf("checkpoint: %+v", c)
	}

	var ids, labels []string
	path := "/api/sessions/session/checkpoints?chat=chat&limit=2"
	for next := ""; ; {
		var page page
		rt.want(200, "", &page, "GET", path+next, nil)
		for _, c := range page.Checkpoints {
			ids, labels = append(ids, c.ID), append(labels, c.Label)
		}
		if next = "&cursor=" + page.NextCursor; page.NextCursor == "" {
			break
		}
	}
	if !slices.Equal(labels, []string{"before one", "before two", "before three"}) {
		t.Errorf("list: %q", labels)
	}
	var none page
	rt.want(200, "", &none, "GET", "/api/sessions/another/checkpoints", nil)
	if none.Checkpoints == nil || len(none.Checkpoints) > 0 {
		t.Errorf("another session has %v", none.Checkpoints)
	}

	restore := "/api/sessions/session/checkpoints/" + ids[1] + "/restore"
	var result checkpoint.Result
	rt.want(200, "", &result, "POST", restore, map[string]any{"preview": true})
	if !result.Preview || result.Files.Aborted || result.MessagesDeleted != 2 || rt.read("file") != "three" {
		t.Errorf("preview: %+v, the file is %q", result, rt.read("file"))
	}

	// Another session's is as one that is not.
	foreign := rt.want(404, "not_found", nil, "POST", strings.Replace(restore, "session/", "another/", 1), nil)
	missing := rt.want(404, "not_found", nil, "POST", "/api/sessions/another/checkpoints/"+ids[1][:35]+"x/restore", nil)
	if strings.ReplaceAll(missing.Message, ids[1][:35]+"x", ids[1]) != foreign.Message {
		t.Errorf("told apart: %q and %q", foreign.Message, missing.Message)
	}

	rt.write("file", "by the user")
	rt.want(200, "", &result, "POST", restore, map[string]any{"preview": true})
	if !result.Files.Aborted || !slices.Equal(result.Files.Dirty, []string{"file"}) {
		t.Errorf("preview: %+v", result.Files)
	}
	e := rt.want(409, "dirty", nil, "POST", restore, nil)
	if !slices.Equal(e.Files, []string{"file"}) || rt.read("file") != "by the user" {
		t.Errorf("dirty: %q, the file is %q", e.Files, rt.read("file"))
	}
	var answer map[string]any
	rt.want(200, "", &answer, "POST", restore, map[string]any{"on_dirty": "overwrite"})
	for name, want := range map[string]any{"checkpoint_id": ids[1], "messages_deleted": 2.0, "worktree_reset": true,
		"backend_reset": false} {
		if answer[name] != want {
			t.Errorf("%s is %v, want %v", name, answer[name], want)
		}
	}
	if got := rt.read("file"); got != "one" {
		t.Errorf("after the restore: %q", got)
	}

	var o outcome
	rt.want(200, "", &o, "GET", fmt.Sprintf("/api/sessions/session/restores/%v", answer["restore_id"]), nil)
	if !o.Done || o.RestoreID != answer["restore_id"] {
		t.Errorf("outcome: %+v", o)
	}
	for _, path := range []string{fmt.Sprintf("/api/sessions/another/restores/%v", answer["restore_id"]),
		"/api/sessions/session/restores/x"} {
		rt.want(404, "not_found", nil, "GET", path, nil)
	}

	undo := fmt.Sprintf("/api/sessions/session/restores/%v/undo", answer["restore_id"])
	rt.want(404, "not_found", nil, "POST", strings.Replace(undo, "session/", "another/", 1), nil)
	rt.want(200, "", &result, "POST", undo, nil)
	if result.Undoes != answer["restore_id"] || result.MessagesRestored != 2 || rt.read("file") != "by the user" {
		t.Errorf("undo: %+v, the file is %q", result, rt.read("file"))
	}
	rt.want(404, "not_found", nil, "POST", undo, nil)
}

// TestConflicts: what a restore cannot do now is a conflict, and nothing is done.
func TestConflicts(t *testing.T) {
	rt := newRuntime(t)
	c := rt.turn("one")
	restore := "/api/sessions/session/checkpoints/" + c.ID + "/restore"

	rt.exec(`INSERT INTO agent_sessions (id, chat_id, agent, status) VALUES ('agent', 'chat', 'claude', 'running')`)
	rt.want(409, "running", nil, "POST", restore, nil)
	rt.exec(`DELETE FROM agent_sessions`)

	m, release, err := rt.manager(t.Context(), rt.dir, "chat")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.OnTurnStart(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	rt.want(409, "running", nil, "POST", restore, nil)
	if _, err := m.OnTurnEnd(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	release()

	rt.reset = func(context.Context) error { return errors.New("the backend is down") }
	if e := rt.want(500, "internal", nil, "POST", restore, nil); !strings.Contains(e.Message, "the backend is down") {
		t.Errorf("message: %q", e.Message)
	}
	rt.reset = func(context.Context) error {
		_, err := rt.db.Exec(`INSERT INTO messages (id, chat_id, role) VALUES ('another', 'chat', 'user')`)
		return err
	}
	rt.want(409, "changed", nil, "POST", restore, nil)
	rt.reset = nil

	var done checkpoint.Result
	rt.want(200, "", &done, "POST", restore, nil)
	rt.turn("two")
	rt.want(409, "followed", nil, "POST", "/api/sessions/session/restores/"+done.RestoreID+"/undo", nil)

	rt.exec(`DELETE FROM worktrees`)
	rt.want(409, "no_worktree", nil, "POST", restore, nil)
}

// TestTwoAtOnce: of two restores in a worktree one is refused.
func TestTwoAtOnce(t *testing.T) {
	rt := newRuntime(t)
	rt.write("file", "nothing")
	restore := "/api/sessions/session/checkpoints/" + rt.turn("one").ID + "/restore"
	second := make(chan refusal, 1)
	rt.reset = func(context.Context) error { // the first is in the midst of it
		_, e, _ := rt.do(rt.request("POST", restore, nil), nil)
		second <- e
		return nil
	}
	rt.want(200, "", nil, "POST", restore, nil)
	if e := <-second; e.Code != "busy" {
		t.Errorf("the second: %+v", e)
	}
}

// TestGone: a client that goes away in the midst of a restore has not restored.
func TestGone(t *testing.T) {
	rt := newRuntime(t)
	rt.write("file", "nothing")
	c := rt.turn("one")
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan struct{})
	rt.reset = func(ctx context.Context) error {
		defer close(ended)
		if got := rt.read("file"); got != "nothing" {
			t.Errorf("the file is not restored yet: %q", got)
		}
		leave()
		<-ctx.Done()
		return ctx.Err()
	}
	q := rt.request("POST", "/api/sessions/session/checkpoints/"+c.ID+"/restore", nil)
	if _, err := http.DefaultTransport.RoundTrip(q.WithContext(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("request: %v", err)
	}
	<-ended
	rt.reset = nil
	// The next one waits for nobody: it is refused until all is taken back.
	for {
		status, e, _ := rt.do(rt.request("POST", "/api/sessions/session/checkpoints/"+c.ID+"/restore",
			map[string]any{"preview": true}), nil)
		if status == 200 {
			break
		}
		if e.Code != "busy" {
			t.Fatalf("%d %+v", status, e)
		}
	}
	if got := rt.read("file"); got != "one" {
		t.Errorf("the file is %q", got)
	}
}

// TestExplain: each error has its status, however it is wrapped, and what is
// undecided is nothing else.
func TestExplain(t *testing.T) {
	files := &manager.RestoreResult{Dirty: []string{"d"}, Failed: []string{"f"}}
	for _, tt := range []struct {
		err    error
		status int
		code   string
		files  []string
	}{
		{checkpoint.ErrNotFound, 404, "not_found", nil},
		{&checkpoint.FilesError{Err: checkpoint.ErrDirty, Files: files}, 409, "dirty", []string{"d"}},
		{&checkpoint.FilesError{Err: checkpoint.ErrFiles, Files: files}, 409, "files", []string{"f"}},
		{checkpoint.ErrBusy, 409, "busy", nil},
		{fmt.Errorf("%w: %w", checkpoint.ErrRunning, manager.ErrTurnOpen), 409, "running", nil},
		{manager.ErrTurnOpen, 409, "running", nil},
		{checkpoint.ErrChanged, 409, "changed", nil},
		{checkpoint.ErrFollowed, 409, "followed", nil},
		{manager.ErrHeadChanged, 409, "head_changed", nil},
		{checkpoint.ErrNoWorktree, 409, "no_worktree", nil},
		{checkpoint.ErrAnchor, 409, "anchor", nil},
		{manager.ErrCutOff, 409, "cut_off", nil},
		{manager.ErrUnknown, 409, "unknown", nil},
		{manager.ErrNoSession, 409, "unknown", nil},
		{context.Canceled, 503, "cancelled", nil},
		{checkpoint.ErrUndecided, 503, "undecided", nil},
		{fmt.Errorf("%w: %w: %w", checkpoint.ErrUndecided, context.Canceled, checkpoint.ErrBusy), 503,
			"undecided", nil},
		{fmt.Errorf("%w: %w", checkpoint.ErrUndecided, &checkpoint.FilesError{Err: checkpoint.ErrFiles, Files: files}),
			503, "undecided", nil},
		{&checkpoint.UndecidedError{RestoreID: "r", Err: checkpoint.ErrNotFound}, 503, "undecided", nil},
		{store.ErrNoSpace, 507, "no_space", nil},
		{store.ErrPruned, 410, "pruned", nil},
		{retain.ErrDamaged, 500, "damaged", nil},
		{io.ErrUnexpectedEOF, 500, "internal", nil},
	} {
		e := explain(fmt.Errorf("restore: %w", tt.err))
		if e.status != tt.status || e.Code != tt.code || !slices.Equal(e.Files, tt.files) ||
			!strings.Contains(e.Message, tt.err.Error()) {
			t.Errorf("%v: %d %+v, want %d %q %q", tt.err, e.status, e, tt.status, tt.code, tt.files)
		}
		if u, ok := errors.AsType[*checkpoint.UndecidedError](tt.err); ok && e.RestoreID != u.RestoreID {
			t.Errorf("%v: restore %q", tt.err, e.RestoreID)
		}
	}
}
