package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/boocode/filestore/internal/wire"
)

// Codes of errors of JSON-RPC and of the protocol.
const (
	codeParse         = -32700
	codeInvalid       = -32600
	codeUnknownMethod = -32601
	codeParams        = -32602
	codeVersion       = -32022
)

// An rpcError is an error of the protocol: a call that is none.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func (e *rpcError) Error() string { return e.Message }

func badParams(format string, args ...any) *rpcError {
	return &rpcError{Code: codeParams, Message: fmt.Sprintf(format, args...)}
}

// A message is one of JSON-RPC 2.0 that has come: a call if it has an ID, and a
// notification if not. One without a method is an answer, for which nobody has asked.
type message struct {
	id     json.RawMessage
	method string
	params json.RawMessage
}

// response answers a call, or a line that is no message.
type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"` // null if it could not be read
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// maxID is how long the ID of a message may be that is given back in an error.
const maxID = 256

// notMessage answers a line that is no message.
func notMessage(line []byte, why error) *response {
	r := &response{Version: "2.0", Error: &rpcError{Code: codeParse,
		Message: bounded(fmt.Sprintf("not a message of JSON-RPC 2.0: %v", why), maxError)}}
	if id := wire.IDOf(line); len(id) < maxID {
		r.ID = id
	}
	return r
}

// parseLine reads the messages of a line: one, those of a batch, or none if it is blank.
func parseLine(line []byte) (msgs []message, isBatch bool, err error) {
	text := strings.TrimSpace(string(line))
	if text == "" {
		return nil, false, nil
	}
	all := []json.RawMessage{json.RawMessage(text)}
	if isBatch = text[0] == '['; isBatch {
		if err := json.Unmarshal(all[0], &all); err != nil {
			return nil, true, err
		}
		if len(all) == 0 {
			return nil, true, errors.New("an empty batch")
		}
	}
	for _, one := range all {
		msg, err := parseMessage(one)
		if err != nil {
			return nil, isBatch, err
		}
		msgs = append(msgs, msg)
	}
	return msgs, isBatch, nil
}

// parseMessage reads a message, whose names are in lower case.
func parseMessage(b json.RawMessage) (msg message, err error) {
	var has map[string]json.RawMessage
	if err := json.Unmarshal(b, &has); err != nil {
		return msg, err
	}
	if has == nil || string(has["jsonrpc"]) != `"2.0"` {
		return msg, errors.New(`jsonrpc is not "2.0"`)
	}
	if id, ok := has["id"]; ok && !wire.IsID(id) {
		return msg, errors.New("the id is no string and no number")
	}
	msg = message{id: has["id"], params: has["params"]}
	if method, ok := has["method"]; ok {
		if err := json.Unmarshal(method, &msg.method); err != nil || msg.method == "" {
			return msg, errors.New("the method is no name")
		}
	} else if msg.id == nil {
		return msg, errors.New("there is no method and no id")
	}
	return msg, nil
}

// A conn is the connection of one client.
type conn struct {
	out   wire.LineWriter
	all   sync.WaitGroup // calls
	mu    sync.Mutex     // guards the rest
	calls map[string]*call
}

// A call is one that is not answered.
type call struct{ cancel context.CancelCauseFunc }

// An inLine is a line that has come.
type inLine struct {
	text []byte
	err  error // there are no more, but if it matches wire.ErrLong
}

// readLines sends the lines of r, and ends with it, or when ctx has ended and a line has
// come. The last may lack its end.
func readLines(ctx context.Context, r io.Reader) <-chan inLine {
	in := make(chan inLine)
	lines := &wire.LineReader{R: bufio.NewReaderSize(io.MultiReader(r, strings.NewReader("\n")), 64<<10),
		Max: wire.MaxLine}
	go func() {
		for {
			text, err := lines.Next()
			select {
			case in <- inLine{text, err}:
			case <-ctx.Done():
				return
			}
			if err != nil && !errors.Is(err, wire.ErrLong) {
				return
			}
		}
	}()
	return in
}

// serve answers the lines of r until they end and all calls are answered, or ctx ends.
func (c *conn) serve(ctx context.Context, r io.Reader, handle handler) error {
	in := readLines(ctx, r)
	for {
		select {
		case <-ctx.Done():
			c.all.Wait()
			return nil
		case line := <-in:
			if err := c.line(ctx, line, handle); err == io.EOF {
				c.all.Wait()
				return c.out.Err()
			} else if err != nil {
				return err
			}
		}
	}
}

// A handler answers a call. later is for what takes long: others are served meanwhile.
type handler func(ctx context.Context, msg message) (result any, later func() any, err *rpcError)

// line answers the messages of a line.
func (c *conn) line(ctx context.Context, in inLine, handle handler) error {
	if in.err != nil && !errors.Is(in.err, wire.ErrLong) {
		return in.err
	}
	msgs, isBatch, err := parseLine(in.text)
	if err = errors.Join(in.err, err); err != nil {
		return c.out.Write(notMessage(in.text, err))
	}
	answer := func(r *response) { c.out.Write(r) } // that it fails shows in Err
	if isBatch {
		answer = c.batch(msgs)
	}
	for _, msg := range msgs {
		switch {
		case msg.method == "notifications/cancelled":
			c.cancel(msg.params)
		case msg.method != "" && msg.id != nil:
			c.call(ctx, msg, handle, answer)
		}
	}
	return c.out.Err()
}

// batch returns what takes the answers to the calls of a batch, which are one line.
func (c *conn) batch(msgs []message) func(*response) {
	open := 0
	for _, msg := range msgs {
		if msg.method != "" && msg.id != nil {
			open++
		}
	}
	var mu sync.Mutex // guards open and answers
	var answers []*response
	return func(r *response) {
		mu.Lock()
		defer mu.Unlock()
		if answers = append(answers, r); len(answers) == open {
			c.out.Write(answers)
		}
	}
}

// call answers a call.
func (c *conn) call(ctx context.Context, msg message, handle handler, answer func(*response)) {
	ctx, cancel := context.WithCancelCause(ctx)
	id, this := string(msg.id), &call{cancel}
	r := &response{Version: "2.0", ID: msg.id}
	result, later, err := handle(ctx, msg)
	if err != nil {
		err.Message = bounded(err.Message, maxErrorText)
		r.Error = err
	}
	if r.Result = result; later == nil {
		cancel(nil)
		answer(r)
		return
	}
	c.mu.Lock()
	if c.calls == nil {
		c.calls = make(map[string]*call)
	}
	c.calls[id] = this
	c.mu.Unlock()
	c.all.Go(func() {
		defer cancel(nil)
		r.Result = later()
		c.mu.Lock()
		if c.calls[id] == this {
			delete(c.calls, id)
		}
		c.mu.Unlock()
		answer(r)
	})
}

// cancel ends a call, if it is not answered.
func (c *conn) cancel(params json.RawMessage) {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if this := c.calls[string(p.RequestID)]; this != nil {
		this.cancel(context.Canceled)
	}
}
