package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A model does what the prompt says, behind its last "SCRIPT:" if it has one, be it
// asked as OpenAI's models are, by chat completions or responses, as Anthropic's or as
// Google's. Its steps are separated by ";;", each is one request:
//
//	write PATH TEXT  calls the tool that writes a file
//	bash COMMAND     calls the shell
//	task STEPS       has a subagent do STEPS, which are separated by "&&&"
//	pause            calls the model's hook, and then the shell with "true"
//	fail             answers that the request is bad
//	anything else    ends with that text
type model struct {
	*httptest.Server
	dir   string       // the project, for tools that want absolute paths
	asked atomic.Int64 // requests

	mu    sync.Mutex
	pause func()
}

func newModel(t testing.TB) *model {
	m := &model{pause: func() {}}
	m.Server = httptest.NewServer(http.HandlerFunc(m.answer))
	t.Cleanup(m.Close)
	return m
}

// onPause has fn called by the next step "pause", while the model is thinking.
func (m *model) onPause(fn func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pause = fn
}

// A step is what the model does when it is asked once more.
type step struct {
	name string            // write, bash, task, fail; "": it says text
	args map[string]string // path, content, command, prompt
	text string
	call string // identifies the call
}

// next returns the step that follows when so many tools have answered since the prompt.
func (m *model) next(prompt string, done int) step {
	if i := strings.LastIndex(prompt, script); i >= 0 {
		prompt, _, _ = strings.Cut(prompt[i+len(script):], "\n")
	}
	line := "done"
	if steps := strings.Split(prompt, ";;"); done < len(steps) {
		line = strings.TrimSpace(steps[done])
	}
	name, rest, _ := strings.Cut(line, " ")
	s := step{name: name, call: fmt.Sprintf("call_%d_%d", m.asked.Add(1), done)}
	switch name {
	case "write":
		path, text, _ := strings.Cut(rest, " ")
		s.args = map[string]string{"path": path, "content": text + "\n"}
	case "bash":
		s.args = map[string]string{"command": rest}
	case "task":
		s.args = map[string]string{"prompt": script + strings.ReplaceAll(rest, "&&&", ";;")}
	case "pause":
		m.mu.Lock()
		m.pause()
		m.mu.Unlock()
		s.name, s.args = "bash", map[string]string{"command": "true"}
	case "fail":
	default:
		s.name, s.text = "", "done: "+line
	}
	return s
}

const script = "SCRIPT:"

func (m *model) answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		m.completions(w, body)
	case strings.HasSuffix(r.URL.Path, "/messages"):
		m.messages(w, body)
	case strings.HasSuffix(r.URL.Path, "/count_tokens"):
		fmt.Fprint(w, `{"input_tokens":10}`)
	default:
		fmt.Fprint(w, `{"object":"list","data":[{"id":"stub-1"}]}`)
	}
}

// refuse answers as a server does that takes the request for bad.
func refuse(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprint(w, `{"type":"error","error":{"type":"invalid_request_error","message":"the script says so"}}`)
}

// A message is one of a conversation. Its content is a text, or parts.
type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type part struct{ Type, Text string }

func (m *message) parts() []part {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return []part{{"text", s}}
	}
	var parts []part
	json.Unmarshal(m.Content, &parts) // a content of another kind has none
	return parts
}

// text returns the text of a message, which may be in parts.
func (m *message) text() string {
	var s string
	for _, p := range m.parts() {
		s += p.Text
	}
	return s
}

// completions answers as OpenAI does to POST /v1/chat/completions, in a stream.
func (m *model) completions(w http.ResponseWriter, body []byte) {
	var q struct{ Messages []message }
	if err := json.Unmarshal(body, &q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	prompt, done := "", 0
	for i := range q.Messages {
		switch msg := &q.Messages[i]; msg.Role {
		case "user":
			prompt, done = msg.text(), 0
		case "tool":
			done++
		}
	}
	s := m.next(prompt, done)
	if s.name == "fail" {
		refuse(w)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if s.name == "" {
		chunk(w, map[string]any{"role": "assistant", "content": s.text}, "")
		chunk(w, map[string]any{}, "stop")
	} else {
		b, _ := json.Marshal(s.args)
		chunk(w, map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"index": 0,
			"id": s.call, "type": "function", "function": map[string]string{"name": s.name, "arguments": string(b)}}}}, "")
		chunk(w, map[string]any{}, "tool_calls")
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func chunk(w http.ResponseWriter, delta map[string]any, finish string) {
	choice := map[string]any{"index": 0, "delta": delta, "finish_reason": nil}
	v := map[string]any{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "stub-1", "choices": []any{choice}}
	if finish != "" {
		choice["finish_reason"] = finish
		v["usage"] = map[string]int{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
	}
	b, _ := json.Marshal(v)
	fmt.Fprintf(w, "data: %s\n\n", b)
}

// messages answers as Anthropic does to POST /v1/messages, in a stream.
func (m *model) messages(w http.ResponseWriter, body []byte) {
	var q struct {
		Messages []message
		Tools    []struct{ Name string }
	}
	if err := json.Unmarshal(body, &q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	prompt, done := "", 0
	for i := range q.Messages {
		if q.Messages[i].Role != "user" {
			continue
		}
		for _, p := range q.Messages[i].parts() {
			switch {
			case p.Type == "tool_result":
				done++
			case strings.Contains(p.Text, script):
				prompt, done = p.Text, 0
			}
		}
	}
	s := step{text: "nothing to do"} // it is asked for a title, say
	if len(q.Tools) > 0 {
		s = m.next(prompt, done)
	}
	if s.name == "fail" {
		refuse(w)
		return
	}
	block, delta, stop := map[string]any{"type": "text", "text": ""},
		map[string]any{"type": "text_delta", "text": s.text}, "end_turn"
	if s.name != "" {
		tool, args := "Bash", map[string]string{"command": s.args["command"], "description": "step"}
		switch s.name {
		case "write":
			tool, args = "Write", map[string]string{"file_path": filepath.Join(m.dir, s.args["path"]), "content": s.args["content"]}
		case "task":
			tool, args = "Task", map[string]string{"description": "step", "prompt": s.args["prompt"],
				"subagent_type": "general-purpose"}
			if !slices.ContainsFunc(q.Tools, func(t struct{ Name string }) bool { return t.Name == tool }) {
				tool = "Agent" // since 2.1
			}
		}
		b, _ := json.Marshal(args)
		block = map[string]any{"type": "tool_use", "id": "toolu_" + s.call, "name": tool, "input": struct{}{}}
		delta, stop = map[string]any{"type": "input_json_delta", "partial_json": string(b)}, "tool_use"
	}
	w.Header().Set("Content-Type", "text/event-stream")
	usage := map[string]int{"input_tokens": 10, "output_tokens": 5}
	for _, e := range []map[string]any{
		{"type": "message_start", "message": map[string]any{"id": "msg_" + s.call, "type": "message", "role": "assistant",
			"model": "stub-1", "content": []any{}, "stop_reason": nil, "usage": usage}},
		{"type": "content_block_start", "index": 0, "content_block": block},
		{"type": "content_block_delta", "index": 0, "delta": delta},
		{"type": "content_block_stop", "index": 0},
		{"type": "message_delta", "delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": usage},
		{"type": "message_stop"},
	} {
		b, _ := json.Marshal(e)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e["type"], b)
	}
}
