// Package client speaks to a resident engine, which is a process of its own:
// 'snapctl serve', to which [Dial] connects, or 'snapctl rpc', whose stdin and
// stdout [New] takes.
//
// An engine answers the verbs of docs/reference/rpc.md. [Session.Call] sends one; its
// arguments, and what it answers, have the fields of docs/reference/rpc.schema.json. Those of
// most verbs are structures of package manager:
//
//	verb                 arguments                  answer
//	get_modified_files   manager.Range              manager.ModifiedFiles
//	restore              manager.RestoreOptions     manager.RestoreResult
//	undo, redo           manager.UndoOptions        manager.RestoreResult
//	undo_patch           manager.UndoEditOptions    manager.EditResult
//
// What a runtime does all day has methods of its own, OnTurnStart to OnTurnEnd.
//
// What an engine has answered is an [*Error]. It matches by errors.Is what the manager
// returns, manager.ErrTurnOpen and the others. Other errors are of ctx, of arguments that
// JSON cannot have, or of the connection, which has ended then. A Client may be used from several goroutines.
package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/wire"
)

// An Error is how an engine has answered. It matches what the manager returns for
// the same.
type Error struct {
	Code    string // as in docs/reference/rpc.md
	Message string

	refusals []string // codes of an edit's refusals
}

func (e *Error) Error() string { return e.Message }

// Is reports whether target is an error that has this code, or that of a refusal.
func (e *Error) Is(target error) bool {
	has := func(code string) bool { return explain.HasCode(code, target) }
	return has(e.Code) || slices.ContainsFunc(e.refusals, has)
}

// A Client is a connection to an engine.
type Client struct {
	conn  io.ReadWriteCloser
	close func() error // of conn, once
	out   wire.LineWriter

	mu      sync.Mutex // guards the rest
	next    int
	waiting map[string]*request // by ID
	err     error               // why the connection has ended
}

// A request waits for its answer.
type request struct {
	id    string
	lines chan line     // events, and then the answer; closed where none will come
	left  chan struct{} // closed when nobody waits any more
}

// A line of the engine's is about one request.
type line struct {
	wire.Response
	raw  []byte
	data json.RawMessage
}

// Dial connects to the engine that serves a store; its directory is that of
// manager.FileSnapshotManager.StoreDir. The error matches fs.ErrNotExist or is
// the system's if there is none. If there is one that does not answer,
// since it is stopped, the error says which process it is.
func Dial(ctx context.Context, storeDir string) (*Client, error) {
	conn, err := wire.Dial(ctx, storeDir)
	if err != nil {
		return nil, err
	}
	return New(conn), nil
}

// New returns a client that speaks over a connection, which it closes.
func New(conn io.ReadWriteCloser) *Client {
	c := &Client{conn: conn, close: sync.OnceValue(conn.Close), out: wire.LineWriter{W: conn},
		waiting: make(map[string]*request)}
	go c.read()
	return c
}

// Close ends the connection. Requests under way are cancelled, and turns that are
// open count as interrupted.
func (c *Client) Close() error { return c.close() }

// read hands out lines until the connection ends.
func (c *Client) read() {
	in := bufio.NewReader(c.conn)
	var err error
	for {
		var l line
		l.Data = &l.data
		if l.raw, err = in.ReadBytes('\n'); err != nil {
			break
		}
		if err = json.Unmarshal(l.raw, &l.Response); err != nil {
			err = fmt.Errorf("engine: %w", err)
			break
		}
		c.mu.Lock()
		q := c.waiting[string(l.ID)]
		if l.Type == "response" {
			delete(c.waiting, string(l.ID))
		}
		c.mu.Unlock()
		if q == nil {
			continue
		}
		select {
		case q.lines <- l:
		case <-q.left:
		}
	}
	c.close() // nobody reads what comes
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("engine: the connection has ended: %w", io.ErrUnexpectedEOF)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for _, q := range c.waiting {
		close(q.lines)
	}
	clear(c.waiting)
}

// send sends a request.
func (c *Client) send(verb, session string, args any) (*request, error) {
	if err := checkText("", reflect.ValueOf(args)); err != nil {
		return nil, err
	}
	fields := make(map[string]json.RawMessage)
	b, err := json.Marshal(args)
	if err == nil && string(b) != "null" { // which a nil pointer is, too
		err = json.Unmarshal(b, &fields)
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return nil, c.err
	}
	c.next++
	q := &request{id: strconv.Itoa(c.next), lines: make(chan line, 1), left: make(chan struct{})}
	c.waiting[q.id] = q
	c.mu.Unlock()
	fields["id"], fields["type"] = json.RawMessage(q.id), json.RawMessage(strconv.Quote(verb))
	if session != "" {
		fields["sessionId"] = json.RawMessage(strconv.Quote(session))
	}
	if err := c.out.Write(fields); err != nil {
		c.leave(q)
		return nil, err
	}
	return q, nil
}

// leave ends the wait for an answer.
func (c *Client) leave(q *request) {
	close(q.left)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, q.id)
}

// cancelWait is how long a request that is cancelled may take to come to its end.
const cancelWait = 30 * time.Second

// Call sends a verb that is about no session, and reads the data of its answer into
// answer, also of one that failed. args and answer may be nil. Where ctx ends the
// request is cancelled, and Call waits for what became of it, for half a minute: with
// no error it was done all the same.
func (c *Client) Call(ctx context.Context, verb string, args, answer any) error {
	return c.Stream(ctx, verb, args, answer, nil)
}

// Stream is like Call, and hands on the events of the request, as lines of JSON, as
// they come. An error of event ends the wait for the answer, not the request.
func (c *Client) Stream(ctx context.Context, verb string, args, answer any, event func([]byte) error) error {
	return c.call(ctx, verb, "", args, answer, event)
}

func (c *Client) call(ctx context.Context, verb, session string, args, answer any, event func([]byte) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	q, err := c.send(verb, session, args)
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	defer c.leave(q)
	ended, late := ctx.Done(), (<-chan time.Time)(nil)
	for {
		select {
		case <-ended:
			of := map[string]json.RawMessage{"requestId": json.RawMessage(q.id)}
			if _, err := c.send("cancel", "", of); err != nil {
				return errors.Join(context.Cause(ctx), err)
			}
			ended, late = nil, time.After(cancelWait)
		case <-late:
			return fmt.Errorf("%s: %w: the engine has not said what became of it", verb, context.Cause(ctx))
		case l, ok := <-q.lines:
			switch {
			case !ok:
				c.mu.Lock()
				defer c.mu.Unlock()
				return fmt.Errorf("%s: %w", verb, c.err)
			case l.Type == "response":
				return l.read(ctx, verb, answer)
			case event == nil:
			default:
				if err := event(l.raw); err != nil {
					return err
				}
			}
		}
	}
}

// read reads the answer to a verb.
func (l *line) read(ctx context.Context, verb string, answer any) error {
	if answer != nil && l.data != nil {
		if err := json.Unmarshal(l.data, answer); err != nil {
			return fmt.Errorf("%s: answer: %w", verb, err)
		}
	}
	switch {
	case l.Success:
		return nil
	case l.Status == wire.Cancelled && ctx.Err() != nil:
		return context.Cause(ctx)
	}
	err := &Error{Code: l.Code, Message: l.Error}
	var data struct{ Refusals []struct{ Code string } }
	if json.Unmarshal(l.data, &data) == nil { // it may have none, or none of these
		for _, r := range data.Refusals {
			err.refusals = append(err.refusals, r.Code)
		}
	}
	return err
}
