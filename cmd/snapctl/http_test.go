//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/boocode/filestore/checkpoint"
	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/internal/dbpipe"
)

// useDrivers has the test find snapctl-checkpoints, and returns its own door to the database of stores.
func (r *runner) useDrivers(stores string) *sql.DB {
	r.t.Helper()
	dir, err := buildDrivers()
	if err != nil {
		r.t.Fatal(err)
	}
	r.env = append(r.env, "PATH="+dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	dsn := "file:" + filepath.Join(stores, defaultDB) + "?_pragma=busy_timeout(5000)"
	db := sql.OpenDB(dbpipe.NewConnector("sqlite", dsn, func() (io.ReadWriteCloser, error) {
		return startDrivers(filepath.Join(dir, driversName))
	}))
	r.t.Cleanup(func() { db.Close() })
	return db
}

// A webServer is a 'snapctl serve --http' that runs.
type webServer struct {
	*runner
	process *os.Process
	ended   chan error
	stderr  bytes.Buffer // when it has ended
	said    struct{ URL, TokenFile string }
	token   string
}

func (r *runner) serveHTTP(args ...string) *webServer {
	r.t.Helper()
	s := &webServer{runner: r, ended: make(chan error, 1)}
	cmd := r.command(append([]string{"serve", "--json", "--http", "127.0.0.1:0"}, args...)...)
	cmd.Stderr = &s.stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	s.process = cmd.Process
	line, err := bufio.NewReader(out).ReadBytes('\n')
	go func() { s.ended <- cmd.Wait() }()
	if err == nil {
		err = json.Unmarshal(line, &s.said)
	}
	if err != nil {
		r.t.Fatalf("serve says %q: %v, %v: %s", line, err, <-s.ended, &s.stderr)
	}
	r.t.Cleanup(func() { cmd.Process.Kill() })
	b, err := os.ReadFile(s.said.TokenFile)
	if err != nil {
		r.t.Fatal(err)
	}
	s.token = strings.TrimSpace(string(b))
	return s
}

// post sends a request, and returns the status. What is answered goes to v.
func (s *webServer) post(path string, body, v any) int {
	s.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	q, err := http.NewRequest("POST", s.said.URL+path, bytes.NewReader(b))
	if err != nil {
		s.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+s.token)
	q.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err = io.ReadAll(resp.Body); err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		s.t.Fatalf("POST %s: %d %s: %v", path, resp.StatusCode, b, err)
	}
	return resp.StatusCode
}

// stop ends it as a supervisor does, and requires that it ends well.
func (s *webServer) stop() {
	s.t.Helper()
	s.process.Signal(syscall.SIGTERM)
	select {
	case err := <-s.ended:
		if err != nil {
			s.t.Errorf("serve --http ended: %v: %s", err, &s.stderr)
		}
	case <-time.After(30 * time.Second):
		s.t.Fatal("serve --http does not end")
	}
}

// A hookServer is the runtime, as --hook tells it of restores.
type hookServer struct {
	*httptest.Server
	mu     sync.Mutex // guards the rest
	events []string   // in order
	tokens map[string]bool
	answer func(w http.ResponseWriter)
}

func newHookServer(t *testing.T) *hookServer {
	h := &hookServer{tokens: make(map[string]bool)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.tokens[r.Header.Get("Authorization")] = true
		var e hookEvent
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		h.events = append(h.events, e.Event+" "+e.ChatID)
		if h.answer != nil {
			h.answer(w)
			return
		}
		io.WriteString(w, `{"reset":true}`)
	}))
	t.Cleanup(h.Close)
	return h
}

// TestServeHTTP: a runtime in another process begins turns over the socket, makes
// checkpoints of them over HTTP, goes back, and changes its mind.
func TestServeHTTP(t *testing.T) {
	r := newRunner(t)
	stores := filepath.Join(r.home, ".boo", "file-store")
	hook := newHookServer(t)
	db := r.useDrivers(stores)
	s := r.serveHTTP("--hook", hook.URL)

	for _, name := range []string{s.said.TokenFile, filepath.Join(stores, defaultDB)} {
		if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v, want mode 0600", name, st.Mode(), err)
		}
	}
	execute := func(query string, args ...any) {
		t.Helper()
		if _, err := db.Exec(query, args...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	execute(`INSERT INTO chats (id) VALUES ('chat-1')`)
	execute(`INSERT INTO worktrees (id, session_id, path) VALUES ('tree-1', 's1', ?)`, r.project)

	c, err := client.Dial(t.Context(), filepath.Dir(s.said.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	session, _, err := c.Open(t.Context(), &client.Initialize{CWD: r.project, SessionID: "chat-1", OwnLog: true})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(r.project, "made by the agent")
	turn := func(n int) (made checkpoint.Checkpoint) {
		t.Helper()
		execute(`INSERT INTO messages (id, chat_id, role) VALUES (?, 'chat-1', 'assistant')`, fmt.Sprint("m", n))
		execute(`INSERT INTO message_parts (id, message_id, type, content) VALUES (?, ?, 'text', 'done')`, fmt.Sprint("p", n), fmt.Sprint("m", n))
		start, err := session.OnTurnStart(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if status := s.post("/api/sessions/s1/checkpoints", map[string]any{"chat_id": "chat-1", "worktree_id": "tree-1",
			"message_id": fmt.Sprint("m", n), "tree_hash": start.SnapshotTreeHash}, &made); status != 201 {
			t.Fatalf("create: %d", status)
		}
		if err := os.WriteFile(file, fmt.Append(nil, n), 0o644); err != nil {
			t.Fatal(err)
		}
		// A restore would take the turn's files away under it.
		var refused struct{ Error struct{ Code string } }
		if status := s.post("/api/sessions/s1/checkpoints/"+made.ID+"/restore", nil, &refused); status != 409 ||
			refused.Error.Code != "running" {
			t.Errorf("restore in a turn: %d %v", status, refused)
		}
		if _, err := session.OnTurnEnd(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		return made
	}
	turn(1)
	second := turn(2)
	before := r.state(r.project)
	content := func() string {
		b, err := os.ReadFile(file)
		if err != nil {
			return err.Error()
		}
		return string(b)
	}

	var result checkpoint.Result
	restore := "/api/sessions/s1/checkpoints/" + second.ID + "/restore"
	if status := s.post(restore, struct{}{}, &result); status != 200 || result.MessagesDeleted != 1 ||
		!result.WorktreeReset || !result.BackendReset {
		t.Errorf("restore: %d %+v", status, result)
	}
	if got := content(); got != "1" {
		t.Errorf("after the restore: %q", got)
	}
	if status := s.post("/api/sessions/s1/restores/"+result.RestoreID+"/undo", struct{}{}, &result); status != 200 ||
		result.MessagesRestored != 1 {
		t.Errorf("undo: %d %+v", status, result)
	}
	if got := r.state(r.project); got != before {
		t.Errorf("after the undo:\n%s\nwant\n%s", got, before)
	}

	// A runtime that does not reset its backend has not been restored.
	elsewhere := newHookServer(t)
	for name, answer := range map[string]func(w http.ResponseWriter){
		"an error":   func(w http.ResponseWriter) { http.Error(w, `{"reset":true}`, 500) },
		"no answer":  func(w http.ResponseWriter) { w.WriteHeader(204) },
		"another":    func(w http.ResponseWriter) { io.WriteString(w, `{"ok":true}`) },
		"a redirect": func(w http.ResponseWriter) { w.Header().Set("Location", elsewhere.URL); w.WriteHeader(307) },
	} {
		hook.answer = answer
		var failed struct {
			Error struct{ Code, Message string }
		}
		if status := s.post(restore, struct{}{}, &failed); status != 500 ||
			!strings.Contains(failed.Error.Message, "reset the backend") {
			t.Errorf("the hook answers with %s: %d %v", name, status, failed)
		}
		if got := content(); got != "2" {
			t.Errorf("the hook answers with %s: the file is %q", name, got)
		}
	}
	hook.answer = nil
	if len(elsewhere.events) > 0 {
		t.Errorf("somebody else was told: %q, with %v", elsewhere.events, elsewhere.tokens)
	}

	// The session on the socket knows what became of its files.
	if status := s.post(restore, struct{}{}, &result); status != 200 {
		t.Errorf("restore: %d %+v", status, result)
	}
	third := turn(3)
	if third.CommitSHA != second.CommitSHA {
		t.Errorf("the third turn began with %s, want %s", third.CommitSHA, second.CommitSHA)
	}

	hook.mu.Lock()
	wantEvents := []string{"reset chat-1", "restored chat-1", "reset chat-1", "restored chat-1"}
	if !slices.Equal(hook.events[:4], wantEvents) {
		t.Errorf("events: %q, want first %q", hook.events, wantEvents)
	}
	if len(hook.tokens) != 1 || !hook.tokens["Bearer "+s.token] {
		t.Errorf("the hook has had %v", hook.tokens)
	}
	hook.mu.Unlock()

	c.Close()
	s.stop()
	for _, name := range []string{s.said.TokenFile, filepath.Join(filepath.Dir(s.said.TokenFile), "serve.sock")} {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	if !strings.Contains(s.stderr.String(), "the token is in ") {
		t.Errorf("stderr: %s", &s.stderr)
	}
	r.must("check", "--read-data")

	// Another time, with a token that stays.
	tokenFile := filepath.Join(t.TempDir(), "token")
	s = r.serveHTTP("--token-file", tokenFile)
	if s.said.TokenFile != tokenFile || len(s.token) < 26 {
		t.Errorf("token %q in %q, want one in %q", s.token, s.said.TokenFile, tokenFile)
	}
	first := s.token
	s.stop()
	s = r.serveHTTP("--token-file", tokenFile)
	if s.token != first {
		t.Errorf("the token was %q, and is %q", first, s.token)
	}
	s.stop()
}

// TestServeHTTPCutOff: a restore that waits for a runtime which does not answer is
// taken back: by the server if it is ended, after some time, and by the next one,
// which says so, if it is killed.
func TestServeHTTPCutOff(t *testing.T) {
	t.Parallel()
	t.Run("killed", func(t *testing.T) { testServeHTTPCutOff(t, syscall.SIGKILL) })
	t.Run("ended", func(t *testing.T) {
		if testing.Short() {
			t.Skip("SKIPPED: it takes 10 s")
		}
		testServeHTTPCutOff(t, syscall.SIGTERM)
	})
}

func testServeHTTPCutOff(t *testing.T, signal syscall.Signal) {
	r := newRunner(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reached := make(chan struct{}, 1)
	stuck := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		reached <- struct{}{}
		<-ctx.Done()
	}))
	defer stuck.Close()
	defer cancel()
	db := r.useDrivers(filepath.Join(r.home, ".boo", "file-store"))
	s := r.serveHTTP("--hook", stuck.URL)
	for _, query := range []string{`INSERT INTO chats (id) VALUES ('c')`, `INSERT INTO messages (id, chat_id, role) VALUES ('m', 'c', 'assistant')`,
		`INSERT INTO worktrees (id, path) VALUES ('w', '` + r.project + `')`} {
		if _, err := db.Exec(query); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.Dial(t.Context(), filepath.Dir(s.said.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	session, _, err := c.Open(t.Context(), &client.Initialize{CWD: r.project, SessionID: "c", OwnLog: true})
	if err != nil {
		t.Fatal(err)
	}
	start, err := session.OnTurnStart(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var made checkpoint.Checkpoint
	if status := s.post("/api/sessions/s/checkpoints",
		map[string]any{"chat_id": "c", "worktree_id": "w", "message_id": "m", "tree_hash": start.SnapshotTreeHash},
		&made); status != 201 {
		t.Fatalf("create: %d", status)
	}
	file := filepath.Join(r.project, "made")
	if err := os.WriteFile(file, []byte("made"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := session.OnTurnEnd(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	go func() {
		q, _ := http.NewRequestWithContext(ctx, "POST",
			s.said.URL+"/api/sessions/s/checkpoints/"+made.ID+"/restore", nil)
		q.Header.Set("Authorization", "Bearer "+s.token)
		http.DefaultTransport.RoundTrip(q) // it is not answered
	}()
	<-reached
	if _, err := os.Stat(file); err == nil {
		t.Error("the file is still there when the backend is reset")
	}
	s.process.Signal(signal)
	if err := <-s.ended; (err == nil) != (signal == syscall.SIGTERM) {
		t.Errorf("%v: it ended: %v", signal, err)
	}
	if b, err := os.ReadFile(file); signal == syscall.SIGTERM && string(b) != "made" {
		t.Errorf("the file is %q, %v when the server has ended", b, err)
	}
	s = r.serveHTTP()
	if b, err := os.ReadFile(file); string(b) != "made" {
		t.Errorf("the file is %q, %v", b, err)
	}
	s.stop()
	if got := strings.Contains(s.stderr.String(),
		"a restore of chat c was cut off: it is taken back"); got != (signal == syscall.SIGKILL) {
		t.Errorf("stderr: %s", &s.stderr)
	}
}

// TestServeHTTPAlone: without the program with the drivers verbs are answered, and what needs
// the database says so.
func TestServeHTTPAlone(t *testing.T) {
	r := newRunner(t)
	installed, err := exec.LookPath("snapctl")
	if err != nil {
		t.Fatal(err)
	}
	alone := t.TempDir()
	b, err := os.ReadFile(installed)
	if err == nil {
		err = os.WriteFile(filepath.Join(alone, "snapctl"), b, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", alone+":/usr/bin:/bin")

	cmd := r.command("serve", "--http", "127.0.0.1:0", "--db", "new.db", "--create-tables")
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	want := "snapctl: snapctl-checkpoints is not installed, and databases need it\n" +
		"hint: 'go install github.com/boocode/filestore/cmd/snapctl-checkpoints@latest', " +
		"or put the one of the same release beside snapctl\n"
	if cmd.ProcessState.ExitCode() != exitEnvironment || string(out) != want {
		t.Errorf("serve --db: %v, %s, want %s", err, out, want)
	}
	if left, _ := os.ReadDir(cmd.Dir); len(left) > 0 {
		t.Errorf("serve --db has made %v", left)
	}

	s := r.serveHTTP()
	var refused struct{ Error struct{ Code string } }
	if status := s.post("/api/sessions/s/checkpoints/c/restore", struct{}{}, &refused); status != 501 ||
		refused.Error.Code != "no_database" {
		t.Errorf("restore: %d %+v, want 501 no_database", status, refused)
	}
	var status struct{ SnapshotTreeHash string }
	if code := s.post("/v1/verbs/turn_start", map[string]any{"cwd": r.project, "sessionId": "c", "ownLog": true},
		&status); code != 200 || status.SnapshotTreeHash == "" {
		t.Errorf("turn_start: %d %+v", code, status)
	}
	s.stop()
	if want := "warning: checkpoints are not served, verbs are"; !strings.Contains(s.stderr.String(), want) {
		t.Errorf("stderr: %s, want %q", &s.stderr, want)
	}
}
