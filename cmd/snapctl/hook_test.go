//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/cmd/snapctl/internal/agents"
	"github.com/boocode/filestore/internal/wire"
)

// hook runs a hook as Claude Code does. It must succeed and print nothing.
func (r *runner) hook(env []string, event, tool, id string, more ...string) {
	r.t.Helper()
	if out := r.hookSays(env, event, tool, id, more...); out != "" {
		r.t.Errorf("hook %s %s says %q", event, id, out)
	}
}

// hookSays runs a hook, which must succeed, and returns what it prints.
func (r *runner) hookSays(env []string, event, tool, id string, more ...string) string {
	r.t.Helper()
	text, _ := json.Marshal(map[string]any{"session_id": "s", "cwd": r.project, "hook_event_name": event,
		"tool_name": tool, "tool_use_id": id, "tool_input": map[string]string{"command": strings.Join(more, " ")}})
	cmd := exec.Command("snapctl", "hook", "claude")
	cmd.Env = append(r.command().Env, env...)
	cmd.Stdin = bytes.NewReader(text)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Errorf("hook %s %s: %v, says %q", event, id, err, out)
	}
	return string(out)
}

// hookLog returns what the log of hooks says.
func (r *runner) hookLog() string {
	b, _ := os.ReadFile(filepath.Join(r.home, ".boo", "file-store", hookLogName))
	return string(b)
}

// stopServing ends the engine and removes the stores, to which it writes until it
// has ended.
func (r *runner) stopServing() {
	r.must("serve", "--stop")
	for range 500 {
		if os.RemoveAll(r.home) == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.t.Error("the engine goes on")
}

// write writes a file of the project.
func (r *runner) write(name, text string) {
	if err := os.WriteFile(filepath.Join(r.project, name), []byte(text), 0o644); err != nil {
		r.t.Error(err)
	}
}

// TestHookEvents: of all events that are kept in testdata, alone and first, those
// with which something begins are recorded, and nothing is made for others.
func TestHookEvents(t *testing.T) {
	t.Parallel()
	begins := []string{"session_start", "session_start_compact", "prompt", "tool_bash", "tool_mcp",
		"tool_subagent", "tool_old"}
	files, err := filepath.Glob("internal/agents/testdata/events/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no events: %v", err)
	}
	r := newRunner(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		in, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Join(t.TempDir(), "stores")
		cmd := exec.Command("snapctl", "hook", "claude")
		cmd.Env = append(r.command().Env, "BOO_ENGINE=off", "BOO_STORE="+base, "CLAUDE_PROJECT_DIR="+r.project)
		cmd.Stdin = in
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v, says %q", name, err, out)
		}
		in.Close()
		stores, _ := filepath.Glob(filepath.Join(base, "*", "FORMAT"))
		want := 0
		if slices.Contains(begins, name) {
			want = 1
			log := r.must("--store", base, "--session", "4f1d2c3b-0000-4a7e-9c11-aa00bb11cc22", "log")
			open := r.must("--store", base, "sessions", "--json")
			if !strings.HasPrefix(log, "start ") || strings.Contains(open, `"turnOpen":true`) == strings.HasPrefix(name, "session") {
				t.Errorf("%s: log %q, session %s", name, log, open)
			}
		}
		if len(stores) != want {
			t.Errorf("%s: %d stores, want %d", name, len(stores), want)
		}
	}
}

// TestHooksAtOnce: ten tools that run at once are one turn's, whether an engine
// has to be started by all of them or each works for itself.
func TestHooksAtOnce(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"", "off"} {
		t.Run("BOO_ENGINE="+engine, func(t *testing.T) {
			r, env := newRunner(t), []string{"BOO_ENGINE=" + engine}
			if engine == "" {
				t.Cleanup(r.stopServing)
			}
			var tools sync.WaitGroup
			for i := range 10 {
				tools.Go(func() {
					id := fmt.Sprint("t", i)
					r.hook(env, agents.ToolStart, "Bash", id)
					r.write("new"+id, id)
					r.hook(env, agents.ToolEnd, "Bash", id)
				})
			}
			tools.Wait()
			r.hook(env, agents.Stop, "", "")
			var info struct {
				Diff struct{ Added, Modified []string }
			}
			if err := json.Unmarshal([]byte(r.must("log", "--json", "--name-status", "--limit", "1")),
				&info); err != nil {
				t.Fatal(err)
			}
			if got := info.Diff; len(got.Added) != 10 || len(got.Modified) != 0 {
				t.Errorf("the turn has changed %+v, want 10 files added", got)
			}
			if log := r.hookLog(); log != "" {
				t.Errorf("hook.log: %s", log)
			}
			r.must("check", "--read-data")
		})
	}
}

// TestHookBaseline: who starts a session is not kept waiting for the first look at
// the directory, and the first tool waits until it is known what the files were.
func TestHookBaseline(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	t.Cleanup(r.stopServing)
	const n = 40
	for i := range n { // what cannot be compressed takes its time
		b := make([]byte, 2<<20)
		rand.NewChaCha8([32]byte{byte(i)}).Read(b)
		r.write(fmt.Sprint("large", i), string(b))
	}
	r.hook(nil, agents.SessionStart, "", "")
	r.hook(nil, agents.Prompt, "", "")
	r.hook(nil, agents.ToolStart, "Bash", "t1")
	for i := range n {
		r.write(fmt.Sprint("large", i), "changed")
	}
	r.hook(nil, agents.ToolEnd, "Bash", "t1")
	r.hook(nil, agents.Stop, "", "")
	var info struct{ Diff struct{ Modified []string } }
	if err := json.Unmarshal([]byte(r.must("log", "--json", "--name-status", "--limit", "1")), &info); err != nil {
		t.Fatal(err)
	}
	if got := len(info.Diff.Modified); got != n {
		t.Errorf("the turn has changed %d files, want %d", got, n)
	}
	if log := r.hookLog(); log != "" {
		t.Errorf("hook.log: %s", log)
	}
}

// TestHookEngineSilent: an engine that does not answer holds nobody up for ever.
func TestHookEngineSilent(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 10 s")
	}
	t.Parallel()
	r := newRunner(t)
	r.must("snapshot")
	asked := r.pings()
	begun := time.Now()
	if out := r.hookSays(nil, agents.Prompt, "", ""); !strings.HasPrefix(out, `{"systemMessage":"snapctl: recording takes long`) {
		t.Errorf("the hook says %q", out)
	}
	if d := time.Since(begun); d < hookWait || d > hookWait+5*time.Second {
		t.Errorf("the hook has taken %v, want %v", d, hookWait)
	}
	if log := r.hookLog(); !strings.Contains(log, "has not answered after 10s") {
		t.Errorf("hook.log: %q", log)
	}
	r.hook(nil, agents.ToolStart, "Bash", "t") // which waits no more
	r.hook(nil, agents.Stop, "", "")
	if log := r.hookLog(); strings.Count(log, errNotTaken.Error()) != 2 || strings.Count(log, "\n") != 3 {
		t.Errorf("hook.log: %q", log)
	}
	if n := len(asked); n != 3 {
		t.Errorf("the engine was sent %d events, want 3", n)
	}
}

// TestHookEngineSilenced: a hook that waits for an engine finds out that it was stopped.
func TestHookEngineSilenced(t *testing.T) {
	t.Parallel()
	conn, engine := net.Pipe()
	defer engine.Close()
	go func() { // it takes the event, and what comes then it does not read
		in := bufio.NewReader(engine)
		in.ReadBytes('\n')
		fmt.Fprintln(engine, `{"id":1,"type":"queued"}`)
	}()
	a := &app{getenv: func(string) string { return "" }}
	came, err := a.hookAsk(t.Context(), client.New(conn),
		&agents.Event{Name: agents.ToolStart, Session: "s", Tool: "t"}, false, new(hookAnswer))
	if came != queued || !errors.Is(err, wire.ErrHung) {
		t.Errorf("hookAsk = %v, %v, want ErrHung", came, err)
	}
}

// TestHookSignal: a hook that a signal ends does not say that it has waited.
func TestHookSignal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	conn, engine := net.Pipe()
	defer engine.Close()
	go func() {
		bufio.NewReader(engine).ReadBytes('\n')
		cancel()
	}()
	a := &app{getenv: func(string) string { return "" }}
	came, err := a.hookAsk(ctx, client.New(conn), &agents.Event{Name: agents.ToolStart, Session: "s", Tool: "t"},
		false, new(hookAnswer))
	if came != queued || !errors.Is(err, context.Canceled) {
		t.Errorf("hookAsk = %v, %v, want context.Canceled", came, err)
	}
}

// TestHookRequest: an engine that is asked nonsense says so.
func TestHookRequest(t *testing.T) {
	h := &hooks{app: &app{getenv: func(string) string { return "" }}}
	if _, err := h.serve(t.Context(), t.Context(), []byte(`{"id": 1, "type": "hook", "event": null}`), nil); err == nil || err.Error() != "no event" {
		t.Errorf("serve without an event: %v", err)
	}
}

// TestHookBehind: an event says whether others of its session are before it.
func TestHookBehind(t *testing.T) {
	none := func(string) string { return "" }
	h := &hooks{app: &app{getenv: none}, log: &hookLog{}, last: make(map[hookSession]<-chan any)}
	before := make(chan any)
	h.last[hookSession{"/p", "s"}] = before
	for _, test := range []struct {
		session string
		want    bool
	}{{"s", true}, {"s", true}, {"another", false}} {
		if _, behind := h.take(t.Context(), "/p",
			&agents.Event{Name: agents.Stop, Session: test.session}); behind != test.want {
			t.Errorf("an event of session %q is behind others: %v", test.session, behind)
		}
	}
	close(before)
	h.all.Wait()
	if _, behind := h.take(t.Context(), "/p", &agents.Event{Name: agents.Stop, Session: "s"}); behind {
		t.Error("an event is behind others that have been recorded")
	}
	h.all.Wait()
}

// TestHookEnded: whoever wants to know hears that a session has ended, also if that could not be recorded.
func TestHookEnded(t *testing.T) {
	n := 0
	h := &hooks{app: &app{getenv: func(string) string { return "" }}, log: &hookLog{},
		last: make(map[hookSession]<-chan any), ended: func() { n++ }}
	for name, want := range map[string]int{agents.Stop: 0, agents.SessionEnd: 1} {
		n = 0
		done, _ := h.take(t.Context(), filepath.Join(t.TempDir(), "none"), &agents.Event{Name: name, Session: "s"})
		if <-done; n != want {
			t.Errorf("%s: told %d times, want %d", name, n, want)
		}
	}
}

// TestHookStdinOpen: so does who calls it and sends nothing.
func TestHookStdinOpen(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 10 s")
	}
	t.Parallel()
	r := newRunner(t)
	cmd := exec.Command("snapctl", "hook", "claude")
	cmd.Env = r.command().Env
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil || out.Len() > 0 {
		t.Errorf("hook without input: %v, says %q", err, &out)
	}
	if log := r.hookLog(); !strings.Contains(log, "stdin has not ended after 10s") {
		t.Errorf("hook.log: %q", log)
	}
}

func TestHookLog(t *testing.T) {
	l := &hookLog{name: filepath.Join(t.TempDir(), "base", hookLogName)}
	for range 1000 {
		l.add(&agents.Event{Name: agents.Stop, Session: "s"},
			fmt.Errorf("two\nlines, and %s", strings.Repeat("more", 1000)))
	}
	b, err := os.ReadFile(l.name)
	if err != nil || len(b) == 0 || len(b) > maxHookLog+2000 {
		t.Errorf("hook.log has %d bytes, %v, want about %d", len(b), err, maxHookLog)
	}
	l.add(&agents.Event{Name: agents.Stop, Session: strings.Repeat("\x01", 1<<20), Tool: strings.Repeat("x", 1<<20)},
		errors.New("long"))
	if st, err := os.Stat(l.name); err != nil || st.Size() > maxHookLog+4000 {
		t.Errorf("hook.log has %d bytes, %v, want about %d", st.Size(), err, maxHookLog)
	}
	if n := bytes.Count(b, []byte("\n")); n != bytes.Count(b, []byte("Stop session")) {
		t.Errorf("hook.log has %d lines, which are not one for each event", n)
	}
}
