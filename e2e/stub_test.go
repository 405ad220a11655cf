package e2e

import (
	"encoding/json"
	"errors"
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
//	edit PATH A B    calls the tool that puts B in the place of A, as pi has it
//	bash COMMAND     calls the shell
//	ask COMMAND      calls the shell so that the user is asked, where the model decides that
//	task STEPS       has a subagent do STEPS, which are separated by "&&&"
//	mcp TOOL K=V…    calls a tool of our MCP server
//	wait             waits for the subagent, where the model has to
//	pause            calls the model's hook, and then the shell with "true"
//	fail             answers that the request is bad
//	anything else    ends with that text
type model struct {
	*httptest.Server
	t     testing.TB
	dir   string       // the project, for tools that want absolute paths
	asked atomic.Int64 // requests

	mu      sync.Mutex
	pause   func()
	request func()
	bodies  []string // of all requests
}

func newModel(t testing.TB) *model {
	m := &model{t: t, pause: func() {}, request: func() {}}
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

// onRequest has fn called when the model is asked what to do.
func (m *model) onRequest(fn func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.request = fn
}

// read counts the requests since the last time that had a text in them, as JSON has it.
func (m *model) read(text string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, body := range m.bodies {
		if strings.Contains(body, text) {
			n++
		}
	}
	m.bodies = nil
	return n
}

// A step is what the model does when it is asked once more.
type step struct {
	name string            // write, bash, task, fail; "": it says text
	args map[string]string // path, content, old, new, command, prompt
	text string
	call string // identifies the call
}

// A chat is what a request says of the conversation.
type chat struct {
	prompt string // the last one that has a script, if one has
	done   int    // tools that have answered since
	tools  []tool
}

// A tool is one that an agent offers.
type tool struct {
	Space string // of names
	Name  string
	Args  map[string]any // by name; nil: one text
}

// said takes what the user said, or the agent in the user's name.
func (k *chat) said(text string) {
	if strings.Contains(text, script) || !strings.Contains(k.prompt, script) {
		k.prompt, k.done = text, 0
	}
}

// next returns the step that follows in a conversation. Who offers no tools wants a
// title, say, or a summary.
func (m *model) next(k *chat) step {
	if len(k.tools) == 0 {
		return step{text: "nothing to do"}
	}
	m.mu.Lock()
	request, pause := m.request, m.pause
	m.mu.Unlock()
	request()
	prompt := k.prompt
	if i := strings.LastIndex(prompt, script); i >= 0 {
		prompt, _, _ = strings.Cut(prompt[i+len(script):], "\n")
	}
	line := "done"
	if steps := strings.Split(prompt, ";;"); k.done < len(steps) {
		line = strings.TrimSpace(steps[k.done])
	}
	name, rest, _ := strings.Cut(line, " ")
	s := step{name: name, call: fmt.Sprintf("call_%d_%d", m.asked.Add(1), k.done)}
	switch name {
	case "write":
		path, text, _ := strings.Cut(rest, " ")
		s.args = map[string]string{"path": path, "content": text + "\n"}
	case "edit":
		words := strings.Fields(rest)
		s.args = map[string]string{"path": words[0], "old": words[1], "new": words[2]}
	case "bash", "ask":
		s.args = map[string]string{"command": rest}
	case "task":
		s.args = map[string]string{"prompt": script + strings.ReplaceAll(rest, "&&&", ";;")}
	case "mcp":
		words := strings.Fields(rest)
		s.name, s.args = "mcp__snapctl__"+words[0], map[string]string{}
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			s.args[key] = value
		}
	case "pause":
		pause()
		s.name, s.args = "bash", map[string]string{"command": "true"}
	case "fail", "wait":
	default:
		s.name, s.text = "", "done: "+line
	}
	return s
}

const script = "SCRIPT:"

// toolNames are what agents call the tools that steps need.
var toolNames = map[string][]string{
	"write": {"write", "Write", "write_file", "exec"},
	"bash":  {"bash", "Bash", "run_shell_command", "exec"},
	"ask":   {"bash", "Bash", "run_shell_command", "exec"},
	"task":  {"task", "Task", "Agent", "spawn_agent", "invoke_agent"},
	"wait":  {"wait_agent"},
}

// call returns the tool that a step needs, and its arguments: an object, or a text.
func (m *model) call(k *chat, s step) (t tool, args any) {
	i := slices.IndexFunc(k.tools, func(t tool) bool {
		return t.Name == s.name || slices.Contains(toolNames[s.name], t.Name)
	})
	if i < 0 {
		m.t.Errorf("no tool for %q is offered", s.name)
		return tool{Name: "none"}, object{}
	}
	t = k.tools[i]
	if t.Args == nil {
		return t, program(s)
	}
	if strings.HasPrefix(s.name, "mcp__") {
		return t, s.args
	}
	fields := object{}
	for name := range t.Args {
		switch name {
		case "path", "content", "command", "prompt":
			fields[name] = s.args[name]
		case "edits":
			fields[name] = []object{{"oldText": s.args["old"], "newText": s.args["new"]}}
		case "filePath", "file_path":
			fields[name] = filepath.Join(m.dir, s.args["path"])
		case "message":
			fields[name] = s.args["prompt"]
		case "description":
			fields[name] = "step"
		case "subagent_type":
			fields[name] = "general-purpose"
			if t.Name == "task" { // opencode's
				fields[name] = "general"
			}
		case "agent_name":
			fields[name] = "generalist"
		case "task_name":
			fields[name] = "step"
		case "fork_turns":
			fields[name] = "none"
		}
	}
	return t, fields
}

// program returns what Codex's models say since they call tools in JavaScript.
func program(s step) string {
	quoted := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	if s.name == "write" {
		return "text(await tools.apply_patch(" + quoted("*** Begin Patch\n*** Add File: "+s.args["path"]+"\n+"+
			s.args["content"]+"*** End Patch\n") + "))"
	}
	args := object{"cmd": s.args["command"]}
	if s.name == "ask" {
		args["sandbox_permissions"], args["justification"] = "require_escalated", "May it?"
	}
	return "text(await tools.exec_command(" + quoted(args) + "))"
}

func (m *model) answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	m.bodies = append(m.bodies, string(body))
	m.mu.Unlock()
	var respond func(http.ResponseWriter, []byte) error
	switch {
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		respond = m.completions
	case strings.HasSuffix(r.URL.Path, "/responses"):
		respond = m.responses
	case strings.HasSuffix(r.URL.Path, "/messages"):
		respond = m.messages
	case strings.HasSuffix(r.URL.Path, ":streamGenerateContent"), strings.HasSuffix(r.URL.Path, ":generateContent"):
		respond = m.contents
	case strings.HasSuffix(r.URL.Path, "/count_tokens"):
		fmt.Fprint(w, `{"input_tokens":10}`)
		return
	case strings.HasSuffix(r.URL.Path, ":countTokens"):
		fmt.Fprint(w, `{"totalTokens":10}`)
		return
	default:
		fmt.Fprint(w, `{"object":"list","data":[{"id":"stub-1"}]}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if err := respond(w, body); err != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"type":"error","error":{"type":"invalid_request_error","code":400,"status":"INVALID_ARGUMENT","message":%q}}`, err)
	}
}

var errScript = errors.New("the script says so")

// data writes an event of a stream.
func data(w http.ResponseWriter, event any) {
	b, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	if e, ok := event.(map[string]any); ok && e["type"] != nil {
		fmt.Fprintf(w, "event: %s\n", e["type"])
	}
	fmt.Fprintf(w, "data: %s\n\n", b)
}

// object is JSON of which nothing else is to be known.
type object = map[string]any

// A message is one of a conversation. Its content is a text, or parts.
type message struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type part struct {
	Type, Text string
	Encrypted  string `json:"encrypted_content"` // by the server, which this is: a text
}

func (m *message) parts() []part {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return []part{{Type: "text", Text: s}}
	}
	var parts []part
	json.Unmarshal(m.Content, &parts) // a content of another kind has none
	return parts
}

// text returns the text of a message, which may be in parts.
func (m *message) text() string {
	var s string
	for _, p := range m.parts() {
		s += p.Text + p.Encrypted
	}
	return s
}

// A schema says what arguments a tool takes.
type schema struct{ Properties map[string]any }

// completions answers as OpenAI does to POST /v1/chat/completions, in a stream.
func (m *model) completions(w http.ResponseWriter, body []byte) error {
	var q struct {
		Messages []message
		Tools    []struct {
			Function struct {
				Name       string
				Parameters schema
			}
		}
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return err
	}
	var k chat
	for i := range q.Messages {
		switch msg := &q.Messages[i]; msg.Role {
		case "user":
			k.said(msg.text())
		case "tool":
			k.done++
		}
	}
	for _, t := range q.Tools {
		k.tools = append(k.tools, tool{"", t.Function.Name, t.Function.Parameters.Properties})
	}
	s := m.next(&k)
	delta, finish := object{"role": "assistant", "content": s.text}, "stop"
	switch s.name {
	case "fail":
		return errScript
	case "":
	default:
		t, args := m.call(&k, s)
		b, _ := json.Marshal(args)
		delta, finish = object{"role": "assistant", "content": nil, "tool_calls": []any{object{"index": 0,
			"id": s.call, "type": "function", "function": object{"name": t.Name, "arguments": string(b)}}}},
			"tool_calls"
	}
	chunk := object{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "stub-1"}
	chunk["choices"] = []any{object{"index": 0, "delta": delta, "finish_reason": nil}}
	data(w, chunk)
	chunk["choices"] = []any{object{"index": 0, "delta": object{}, "finish_reason": finish}}
	chunk["usage"] = object{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
	data(w, chunk)
	fmt.Fprint(w, "data: [DONE]\n\n")
	return nil
}

// An openTool is a tool of a request to OpenAI, or some of them.
type openTool struct {
	Type, Name string
	Parameters schema
	Tools      []openTool
}

// add adds the tools of a space of names.
func (k *chat) add(space string, list []openTool) {
	for _, t := range list {
		switch t.Type {
		case "function", "custom":
			k.tools = append(k.tools, tool{space, t.Name, t.Parameters.Properties})
		case "namespace":
			k.add(t.Name, t.Tools)
		}
	}
}

// responses answers as OpenAI does to POST /v1/responses, in a stream.
func (m *model) responses(w http.ResponseWriter, body []byte) error {
	var q struct {
		Input []struct {
			message
			Tools []openTool
		}
		Tools []openTool
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return err
	}
	var k chat
	k.add("", q.Tools)
	for i := range q.Input {
		switch in := &q.Input[i]; in.Type {
		case "message", "agent_message":
			if in.Role != "developer" && in.Role != "assistant" {
				k.said(in.text())
			}
		case "function_call_output", "custom_tool_call_output":
			k.done++
		case "additional_tools":
			k.add("", in.Tools)
		}
	}
	s := m.next(&k)
	item := object{"type": "message", "role": "assistant", "id": "m_" + s.call,
		"content": []any{object{"type": "output_text", "text": s.text}}}
	switch s.name {
	case "fail":
		return errScript
	case "":
	default:
		t, args := m.call(&k, s)
		item = object{"id": "i_" + s.call, "call_id": s.call, "name": t.Name}
		if t.Space != "" {
			item["namespace"] = t.Space
		}
		if text, ok := args.(string); ok {
			item["type"], item["input"] = "custom_tool_call", text
			break
		}
		b, _ := json.Marshal(args)
		item["type"], item["arguments"] = "function_call", string(b)
	}
	id := "r_" + s.call
	data(w, object{"type": "response.created", "response": object{"id": id}})
	data(w, object{"type": "response.output_item.done", "output_index": 0, "item": item})
	data(w, object{"type": "response.completed", "response": object{"id": id, "usage": object{"input_tokens": 10,
		"input_tokens_details": nil, "output_tokens": 5, "output_tokens_details": nil, "total_tokens": 15}}})
	return nil
}

// messages answers as Anthropic does to POST /v1/messages, in a stream.
func (m *model) messages(w http.ResponseWriter, body []byte) error {
	var q struct {
		Messages []message
		Tools    []struct {
			Name  string
			Input schema `json:"input_schema"`
		}
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return err
	}
	var k chat
	for i := range q.Messages {
		if q.Messages[i].Role != "user" {
			continue
		}
		for _, p := range q.Messages[i].parts() {
			if p.Type == "tool_result" {
				k.done++
			} else {
				k.said(p.Text)
			}
		}
	}
	for _, t := range q.Tools {
		k.tools = append(k.tools, tool{"", t.Name, t.Input.Properties})
	}
	s := m.next(&k)
	block, delta, stop := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": s.text}, "end_turn"
	switch s.name {
	case "fail":
		return errScript
	case "":
	default:
		t, args := m.call(&k, s)
		b, _ := json.Marshal(args)
		block = object{"type": "tool_use", "id": "toolu_" + s.call, "name": t.Name, "input": object{}}
		delta, stop = object{"type": "input_json_delta", "partial_json": string(b)}, "tool_use"
	}
	usage := object{"input_tokens": 10, "output_tokens": 5}
	data(w, object{"type": "message_start", "message": object{"id": "msg_" + s.call, "type": "message",
		"role": "assistant", "model": "stub-1", "content": []any{}, "stop_reason": nil, "usage": usage}})
	data(w, object{"type": "content_block_start", "index": 0, "content_block": block})
	data(w, object{"type": "content_block_delta", "index": 0, "delta": delta})
	data(w, object{"type": "content_block_stop", "index": 0})
	data(w, object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": usage})
	data(w, object{"type": "message_stop"})
	return nil
}

// contents answers as Google does to POST /v1beta/models/MODEL:streamGenerateContent.
func (m *model) contents(w http.ResponseWriter, body []byte) error {
	var q struct {
		Contents []struct {
			Role  string
			Parts []struct {
				Text             string
				FunctionResponse *struct{ Name string }
			}
		}
		Tools []struct {
			FunctionDeclarations []struct {
				Name                 string
				ParametersJSONSchema schema
				Parameters           schema
			}
		}
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return err
	}
	var k chat
	for _, c := range q.Contents {
		for _, p := range c.Parts {
			switch {
			case c.Role != "user":
			case p.FunctionResponse != nil:
				k.done++
			case p.Text != "":
				k.said(p.Text)
			}
		}
	}
	for _, t := range q.Tools {
		for _, f := range t.FunctionDeclarations {
			args := f.ParametersJSONSchema.Properties
			if args == nil {
				args = f.Parameters.Properties
			}
			k.tools = append(k.tools, tool{"", f.Name, args})
		}
	}
	s := m.next(&k)
	part := object{"text": s.text}
	switch s.name {
	case "fail":
		return errScript
	case "":
	default:
		t, args := m.call(&k, s)
		part = object{"functionCall": object{"name": t.Name, "args": args, "id": s.call}}
	}
	data(w, object{
		"candidates": []any{object{"index": 0, "finishReason": "STOP",
			"content": object{"role": "model", "parts": []any{part}}}},
		"usageMetadata": object{"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
	})
	return nil
}
