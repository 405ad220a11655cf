package mcp

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A finisher is a transport whose input ends when what came before is answered.
// Without it, the end of the input takes the answers along.
type finisher struct{ sdk.Transport }

func (f finisher) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := f.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &finishing{Connection: c, calls: make(map[jsonrpc.ID]bool), closed: make(chan struct{})}, nil
}

// A finishing connection remembers the calls that are not answered.
type finishing struct {
	sdk.Connection
	once   sync.Once // closes closed
	closed chan struct{}

	mu    sync.Mutex // guards the rest
	calls map[jsonrpc.ID]bool
	idle  chan struct{} // closed when there are none; nil: nobody waits
}

func (c *finishing) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	if q, ok := msg.(*jsonrpc.Request); ok && q.IsCall() {
		c.mu.Lock()
		c.calls[q.ID] = true
		c.mu.Unlock()
	}
	if errors.Is(err, io.EOF) {
		c.wait(ctx)
	}
	return msg, err
}

// wait waits until all calls are answered.
func (c *finishing) wait(ctx context.Context) {
	c.mu.Lock()
	if len(c.calls) == 0 {
		c.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	c.idle = idle
	c.mu.Unlock()
	select {
	case <-idle:
	case <-c.closed:
	case <-ctx.Done():
	}
}

// Write writes a message. Errors of the protocol repeat names: it bounds them.
func (c *finishing) Write(ctx context.Context, msg jsonrpc.Message) error {
	r, isAnswer := msg.(*jsonrpc.Response)
	if isAnswer && r.Error != nil && len(r.Error.Error()) > maxErrorText {
		short := &jsonrpc.Error{Message: bounded(r.Error.Error(), maxErrorText)}
		if e, ok := errors.AsType[*jsonrpc.Error](r.Error); ok {
			short.Code, short.Data = e.Code, e.Data
		}
		msg = &jsonrpc.Response{ID: r.ID, Error: short}
	}
	err := c.Connection.Write(ctx, msg)
	if isAnswer {
		c.mu.Lock()
		if delete(c.calls, r.ID); len(c.calls) == 0 && c.idle != nil {
			close(c.idle)
			c.idle = nil
		}
		c.mu.Unlock()
	}
	return err
}

func (c *finishing) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Connection.Close()
}
