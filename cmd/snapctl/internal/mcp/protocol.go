package mcp

import (
	"context"
	"encoding/json"
	"slices"
)

// versions of the protocol that are spoken, newest first. From stateless on a client says
// with each call which it speaks; before, it asked once, with initialize.
var versions = []string{stateless, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

const stateless = "2026-07-28"

// Names of what a client says of itself with a call.
const metaVersion = "io.modelcontextprotocol/protocolVersion"

// An implementation says which program it is.
type implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Version string `json:"version"`
}

// head is what each result begins with, if the client speaks a stateless version.
type head struct {
	ResultType string         `json:"resultType,omitempty"`
	Meta       map[string]any `json:"_meta,omitempty"`
}

func (h *head) complete(self *implementation) {
	h.ResultType, h.Meta = "complete", map[string]any{"io.modelcontextprotocol/serverInfo": self}
}

// keepable is what each result begins with that a client may keep: not at all.
type keepable struct {
	head
	TTL   *int   `json:"ttlMs,omitempty"`
	Scope string `json:"cacheScope,omitempty"`
}

func (l *keepable) complete(self *implementation) {
	l.head.complete(self)
	l.TTL, l.Scope = new(int), "public"
}

type capabilities struct {
	Prompts struct{} `json:"prompts"`
	Tools   struct{} `json:"tools"`
}

type initialized struct {
	head
	Capabilities capabilities    `json:"capabilities"`
	Instructions string          `json:"instructions"`
	Version      string          `json:"protocolVersion"`
	Info         *implementation `json:"serverInfo"`
}

type discovered struct {
	keepable
	Versions     []string     `json:"supportedVersions"`
	Capabilities capabilities `json:"capabilities"`
	Instructions string       `json:"instructions"`
}

type toolList struct {
	keepable
	Tools []*tool `json:"tools"`
}

// A tool is as clients are told of it.
type tool struct {
	Annotations struct {
		Destructive bool   `json:"destructiveHint"`
		Idempotent  bool   `json:"idempotentHint"`
		OpenWorld   bool   `json:"openWorldHint"`
		ReadOnly    bool   `json:"readOnlyHint"`
		Title       string `json:"title"`
	} `json:"annotations"`
	Description  string  `json:"description"`
	InputSchema  *schema `json:"inputSchema"`
	Name         string  `json:"name"`
	OutputSchema *schema `json:"outputSchema"`
	Title        string  `json:"title"`

	call func(ctx context.Context, q *callParams) *called
}

// callParams are those of tools/call.
type callParams struct {
	Name      string                     `json:"name"`
	Arguments json.RawMessage            `json:"arguments"`
	Meta      map[string]json.RawMessage `json:"_meta"`
}

// called is what came of a call of a tool.
type called struct {
	head
	Content    []content `json:"content"`
	Structured any       `json:"structuredContent,omitempty"`
	IsError    bool      `json:"isError,omitempty"`
}

// A content is a text.
type content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func refused(text string) *called {
	return &called{Content: []content{{"text", text}}, IsError: true}
}

type promptList struct {
	keepable
	Prompts []*prompt `json:"prompts"`
}

// A prompt is what a user may ask a model for by name.
type prompt struct {
	Arguments   []promptArgument `json:"arguments,omitempty"`
	Description string           `json:"description"`
	Name        string           `json:"name"`
	Title       string           `json:"title"`

	text func(args map[string]string) string
}

type promptArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
}

type promptGot struct {
	head
	Description string          `json:"description"`
	Messages    []promptMessage `json:"messages"`
}

type promptMessage struct {
	Content content `json:"content"`
	Role    string  `json:"role"`
}

// handle answers a call.
func (x *tools) handle(ctx context.Context, msg message) (result any, later func() any, bad *rpcError) {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if msg.params != nil && json.Unmarshal(msg.params, &p) != nil {
		return nil, nil, badParams("invalid params")
	}
	var speaks string
	if text, ok := p.Meta[metaVersion]; ok {
		if json.Unmarshal(text, &speaks) != nil || !slices.Contains(versions, speaks) {
			return nil, nil, &rpcError{Code: codeVersion, Message: "unsupported protocol version",
				Data: map[string]any{"supported": versions, "requested": bounded(speaks, maxID)}}
		}
	}
	complete := func(r any) any {
		if c, ok := r.(interface{ complete(*implementation) }); ok && speaks >= stateless {
			c.complete(x.self())
		}
		return r
	}
	result, work, bad := x.answer(ctx, msg)
	switch {
	case bad != nil:
		return nil, nil, bad
	case work != nil:
		return nil, func() any { return complete(work()) }, nil
	}
	return complete(result), nil, nil
}

func (x *tools) self() *implementation {
	return &implementation{Name: "snapctl", Title: "Snapshots", Version: x.server.Version}
}

func (x *tools) answer(ctx context.Context, msg message) (result any, later func() any, bad *rpcError) {
	switch msg.method {
	case "initialize":
		var p struct {
			Version string `json:"protocolVersion"`
		}
		if json.Unmarshal(msg.params, &p) != nil {
			return nil, nil, badParams("invalid params")
		}
		r := &initialized{Info: x.self(), Instructions: x.server.instruct(), Version: p.Version}
		if p.Version == stateless || !slices.Contains(versions, p.Version) {
			r.Version = versions[1]
		}
		return r, nil, nil
	case "server/discover":
		return &discovered{Versions: versions, Instructions: x.server.instruct()}, nil, nil
	case "ping":
		return new(head), nil, nil
	case "tools/list":
		return &toolList{Tools: x.list}, nil, notPaged(msg.params)
	case "prompts/list":
		return &promptList{Prompts: x.prompts}, nil, notPaged(msg.params)
	case "prompts/get":
		result, bad = x.prompt(msg.params)
		return result, nil, bad
	case "tools/call":
		later, bad = x.call(ctx, msg.params)
		return nil, later, bad
	}
	return nil, nil, &rpcError{Code: codeUnknownMethod, Message: "method not found: " + quoted(msg.method)}
}

// notPaged refuses what no list has said.
func notPaged(params json.RawMessage) *rpcError {
	var p struct {
		Cursor string `json:"cursor"`
	}
	if params != nil && json.Unmarshal(params, &p) != nil || p.Cursor != "" {
		return badParams("invalid params: a cursor that no list has given")
	}
	return nil
}

func (x *tools) call(ctx context.Context, params json.RawMessage) (func() any, *rpcError) {
	q := new(callParams)
	if params == nil {
		return nil, badParams("invalid params: there are none")
	}
	if err := json.Unmarshal(params, q); err != nil {
		return nil, badParams("invalid params: %v", err)
	}
	i := slices.IndexFunc(x.list, func(t *tool) bool { return t.Name == q.Name })
	if i < 0 {
		return nil, badParams("unknown tool %s", quoted(q.Name))
	}
	return func() any { return x.list[i].call(ctx, q) }, nil
}

func (x *tools) prompt(params json.RawMessage) (*promptGot, *rpcError) {
	var q struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	if params == nil {
		return nil, badParams("invalid params: there are none")
	}
	if err := json.Unmarshal(params, &q); err != nil {
		return nil, badParams("invalid params: %v", err)
	}
	i := slices.IndexFunc(x.prompts, func(p *prompt) bool { return p.Name == q.Name })
	if i < 0 {
		return nil, badParams("unknown prompt %s", quoted(q.Name))
	}
	p := x.prompts[i]
	return &promptGot{Description: p.Title,
		Messages: []promptMessage{{content{"text", p.text(q.Arguments)}, "user"}}}, nil
}
