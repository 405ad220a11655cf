package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// A model is an OpenAI-compatible provider that does what the prompt says. Its
// steps are separated by ";;", each is one turn:
//
//	write PATH TEXT  calls the write tool
//	bash COMMAND     calls the bash tool
//	pause            calls the model's hook, and then the bash tool with "true"
//	anything else    ends with that text
type model struct {
	*httptest.Server
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

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// text returns the text of a message, which may be in parts.
func (m *message) text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct{ Text string }
	json.Unmarshal(m.Content, &parts)
	for _, p := range parts {
		s += p.Text
	}
	return s
}

func (m *model) answer(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"stub-1"}]}`)
		return
	}
	var q struct{ Messages []message }
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var steps []string
	done := 0
	for i := range q.Messages {
		switch msg := &q.Messages[i]; msg.Role {
		case "user":
			steps, done = strings.Split(msg.text(), ";;"), 0
		case "tool":
			done++
		}
	}
	step := "done"
	if done < len(steps) {
		step = strings.TrimSpace(steps[done])
	}
	name, rest, _ := strings.Cut(step, " ")
	var tool string
	var args map[string]string
	switch name {
	case "write":
		path, text, _ := strings.Cut(rest, " ")
		tool, args = "write", map[string]string{"path": path, "content": text + "\n"}
	case "bash":
		tool, args = "bash", map[string]string{"command": rest}
	case "pause":
		m.mu.Lock()
		m.pause()
		m.mu.Unlock()
		tool, args = "bash", map[string]string{"command": "true"}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if tool == "" {
		chunk(w, map[string]any{"role": "assistant", "content": "done: " + step}, "")
		chunk(w, map[string]any{}, "stop")
	} else {
		b, _ := json.Marshal(args)
		chunk(w, map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"index": 0,
			"id": fmt.Sprintf("call_%d_%d", len(q.Messages), done), "type": "function", "function": map[string]string{"name": tool, "arguments": string(b)}}}}, "")
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
