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

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/boocode/filestore/internal/wire"
)

// Lines is a transport whose messages are lines. One that is no message is answered with
// an error, and costs nothing else; the SDK's own transport ends with it, and takes
// answers along that were not written yet.
type Lines struct {
	R io.Reader
	W io.Writer
}

// Connect begins to read.
func (l *Lines) Connect(context.Context) (sdk.Connection, error) {
	c := &lines{in: make(chan inLine), out: wire.LineWriter{W: l.W}, closed: make(chan struct{})}
	// The last line may lack its end.
	r := &wire.LineReader{R: bufio.NewReaderSize(io.MultiReader(l.R, strings.NewReader("\n")), 64<<10),
		Max: wire.MaxLine}
	go func() { // ends with the input, or when the connection is closed and a line has come
		for {
			line, err := r.Next()
			msgs, isBatch, bad := []jsonrpc.Message(nil), false, err
			if err == nil {
				msgs, isBatch, bad = parse(line)
			}
			in := inLine{msgs: msgs, isBatch: isBatch, err: err}
			if bad != nil && (err == nil || errors.Is(err, wire.ErrLong)) {
				in.err, in.answer = nil, newBadLine(line, bad)
			}
			select {
			case c.in <- in:
			case <-c.closed:
				return
			}
			if in.err != nil {
				return
			}
		}
	}()
	return c, nil
}

// parse reads the messages of a line: one, those of a batch, or none if it is blank.
func parse(line []byte) (msgs []jsonrpc.Message, isBatch bool, err error) {
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
		msg, err := jsonrpc.DecodeMessage(one)
		if err != nil {
			return nil, isBatch, err
		}
		msgs = append(msgs, msg)
	}
	return msgs, isBatch, nil
}

// An inLine is a line that has come.
type inLine struct {
	msgs    []jsonrpc.Message
	isBatch bool
	answer  *badLine // it is no message
	err     error    // there are no more
}

// A badLine answers a line that is no message.
type badLine struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"` // null if it could not be read
	Error   struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func newBadLine(line []byte, why error) *badLine {
	a := &badLine{Version: "2.0"}
	if id := wire.IDOf(line); len(id) < maxID {
		a.ID = id
	}
	a.Error.Code = jsonrpc.CodeParseError
	a.Error.Message = bounded(fmt.Sprintf("not a message of JSON-RPC 2.0: %v", why), maxError)
	return a
}

// maxID is how long the ID of a message may be that is given back in an error.
const maxID = 256

// lines is a connection over lines.
type lines struct {
	in     chan inLine
	out    wire.LineWriter
	once   sync.Once // closes closed
	closed chan struct{}
	queue  []jsonrpc.Message // of a batch, for Read alone

	mu      sync.Mutex // guards the rest
	batches map[jsonrpc.ID]*batch
}

// A batch is answered at once.
type batch struct {
	open    int // calls that are not answered
	answers []json.RawMessage
}

func (c *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	for len(c.queue) == 0 {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-c.closed:
			return nil, io.EOF
		case in := <-c.in:
			if in.err != nil {
				return nil, in.err
			}
			if in.answer != nil {
				if err := c.out.Write(in.answer); err != nil {
					return nil, err
				}
			}
			c.queue = in.msgs
			if in.isBatch {
				c.expect(in.msgs)
			}
		}
	}
	msg := c.queue[0]
	c.queue = c.queue[1:]
	return msg, nil
}

// expect notes that calls are of one batch.
func (c *lines) expect(msgs []jsonrpc.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := new(batch)
	for _, msg := range msgs {
		if q, ok := msg.(*jsonrpc.Request); ok && q.IsCall() && c.batches[q.ID] == nil {
			if c.batches == nil {
				c.batches = make(map[jsonrpc.ID]*batch)
			}
			c.batches[q.ID] = b
			b.open++
		}
	}
}

func (c *lines) Write(ctx context.Context, msg jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(msg)
	if err = errors.Join(err, context.Cause(ctx)); err != nil {
		return err
	}
	answer := any(json.RawMessage(text))
	if r, ok := msg.(*jsonrpc.Response); ok {
		c.mu.Lock()
		b := c.batches[r.ID]
		if b != nil {
			delete(c.batches, r.ID)
			b.answers = append(b.answers, text)
			b.open--
			answer = b.answers
		}
		waits := b != nil && b.open > 0
		c.mu.Unlock()
		if waits {
			return nil
		}
	}
	return c.out.Write(answer)
}

// SessionID returns nothing: a pair of streams is one session.
func (c *lines) SessionID() string { return "" }

func (c *lines) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}
