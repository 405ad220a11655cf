// Package rpc answers requests as one JSON object a line in both directions
// (docs/reference/rpc.md): over a pair of streams, or over a unix socket of a process that
// stays. What a request means is in package verbs.
package rpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/wire"
	"github.com/boocode/filestore/manager"
)

// A Server answers requests about the directories that its engine has open.
type Server struct {
	Engine  *manager.Engine
	Version string
	Logger  *slog.Logger // nil: nothing is logged

	// FinishAtEOF says that the end of what a client sends is not the end of the
	// client: requests under way are answered then, not cancelled.
	FinishAtEOF bool

	Extra map[string]Extra // commands beside those of the package, by name
	Ended func()           // called when a connection with sessions has ended; nil: nobody wants to know
}

// An Extra answers a request as it came; emit sends an event to the client.
type Extra func(ctx context.Context, request json.RawMessage, emit func(event any) error) (data any, err error)

// A request is the head of one, with all of it, in which its command's arguments are.
type request struct {
	ID        json.RawMessage `json:"id"`
	Type      string          `json:"type"`
	SessionID json.RawMessage `json:"sessionId"`
	TimeoutMs int64           `json:"timeoutMs"`
	Progress  bool            `json:"progress"`

	line []byte
	key  string // in conn.running
	lets func() // has the next query begin that waits for this one; nil: none does
}

// Causes of a context that ends.
var (
	errCancelled = fmt.Errorf("by request: %w", context.Canceled)
	errGone      = fmt.Errorf("the connection has ended: %w", context.Canceled)
	errStalled   = explain.Errorf(explain.Stalled, "no progress for too long")
)

// An Event tells of a request that is being answered, if it asked for progress.
type Event struct {
	ID        json.RawMessage `json:"id"`
	Type      string          `json:"type"` // "progress"
	Phase     string          `json:"phase"`
	Files     int64           `json:"files"` // that are done in this phase
	ReadFiles int64           `json:"readFiles"`
	ReadBytes int64           `json:"readBytes"`            // or written
	Total     int64           `json:"totalFiles,omitempty"` // 0: not known
	Bytes     int64           `json:"totalBytes,omitempty"`
}

const (
	// maxRequests is how many requests of a connection may be under way, and
	// maxBytes how long they may be together.
	maxRequests = 256
	maxBytes    = 4 * wire.MaxLine
	// maxQueries is how many queries of a connection are done at once, from their begin until their answers are
	// written: those of a client that does not read stay in memory.
	maxQueries = 16
	// stallAfter is after how long without progress a request has failed.
	stallAfter = 90 * time.Second
	// progressEvery is how often somebody who asks is told of progress.
	progressEvery = 250 * time.Millisecond
)

// A conn is a connection with what it has opened.
type conn struct {
	server *Server
	out    *wire.LineWriter
	log    *slog.Logger
	all    sync.WaitGroup // requests
	asking chan struct{}  // has one for each query that is being done

	mu       sync.Mutex // guards the rest
	running  map[string]*running
	requests int // that are not answered
	bytes    int // of them
	sessions map[string]*served
}

// A running request can be cancelled.
type running struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when it has been answered
	status wire.Status   // by then
}

// A served session answers what changes something in order of arrival.
type served struct {
	asked          client.Initialize
	ready          chan struct{} // closed when the rest is known
	*verbs.Session               // nil: err says why
	err            error

	last chan struct{} // closed when the last of those that arrived is done; for who reads requests
}

// Serve answers the requests that come from r until it ends, and closes what
// they opened. Requests under way are cancelled then. The error says why r, or w,
// failed.
func (s *Server) Serve(ctx context.Context, r io.Reader, w io.Writer) error {
	return s.serve(ctx, r, w, func(err error) bool { return err == nil && s.FinishAtEOF })
}

// serve is Serve. At the end of r, or an error of it, it asks whether to answer
// what is under way.
func (s *Server) serve(ctx context.Context, r io.Reader, w io.Writer, finish func(error) bool) error {
	c := &conn{server: s, out: &wire.LineWriter{W: w}, log: s.log(),
		asking: make(chan struct{}, maxQueries), running: make(map[string]*running), sessions: make(map[string]*served)}
	ctx, cancel := context.WithCancelCause(ctx)
	in := &wire.LineReader{R: bufio.NewReaderSize(r, 64<<10), Max: wire.MaxLine}
	err := c.read(ctx, in)
	if finish(err) {
		c.all.Wait()
	}
	cancel(errGone)
	c.all.Wait()
	for _, s := range c.sessions {
		if s.Session == nil {
			continue
		}
		if cerr := s.Close(); cerr != nil {
			c.log.Warn("session not closed cleanly", "session", s.asked.SessionID, "err", cerr)
		}
	}
	if len(c.sessions) > 0 && s.Ended != nil {
		s.Ended()
	}
	return errors.Join(err, c.out.Err())
}

func (s *Server) log() *slog.Logger {
	if s.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Logger
}

func (c *conn) read(ctx context.Context, in *wire.LineReader) error {
	for {
		line, err := in.Next()
		switch {
		case errors.Is(err, wire.ErrLong):
			if err := c.refuse(wire.IDOf(line), "", explain.Errorf(explain.TooLong, "%v", err)); err != nil {
				return err
			}
			continue
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case len(bytes.TrimSpace(line)) == 0:
			continue
		}
		if err := c.take(ctx, line); err != nil {
			return err
		}
	}
}

// refuse answers a request that is not begun.
func (c *conn) refuse(id json.RawMessage, command string, err error) error {
	return c.out.Write(&wire.Response{ID: id, Type: "response", Command: command,
		Status: wire.Failed, Error: err.Error(), Code: explain.Code(err)})
}

// take begins to answer a request.
func (c *conn) take(ctx context.Context, line []byte) error {
	q := &request{line: bytes.Clone(line)}
	if err := verbs.DecodePart("request", line, q); err != nil {
		return c.refuse(wire.IDOf(line), q.Type, err)
	}
	if string(q.ID) == "null" {
		q.ID = nil
	}
	if q.ID != nil && !wire.IsID(q.ID) {
		return c.refuse(nil, q.Type, explain.Errorf(explain.BadRequest, "id: want a text, in UTF-8, or a number"))
	}
	handle := c.handler(q)
	if handle == nil {
		return c.refuse(q.ID, q.Type, explain.Errorf(explain.BadCommand, "no command %q", q.Type))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	run := &running{cancel: cancel, done: make(chan struct{})}
	if err := c.begin(q, run); err != nil {
		cancel(nil)
		return c.refuse(q.ID, q.Type, err)
	}
	do, err := handle(c, q)
	if err != nil {
		do = func(context.Context) (any, error) { return nil, err }
	}
	c.all.Go(func() {
		growStack()
		defer cancel(nil)
		c.reply(ctx, q, run, do)
	})
	return nil
}

// growStack makes room on a goroutine's stack while there is nothing on it. A request's
// begins with a few KiB, and grows to 32 at the end of a turn: each time the runtime has to
// move all frames, which took a sixteenth of that.
//
//go:noinline
func growStack() byte {
	var room [32 << 10]byte
	return room[len(os.Args)]
}

// begin counts a request among those under way, unless there are too many, or one has
// its ID.
func (c *conn) begin(q *request, run *running) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.key = string(q.ID); q.ID == nil {
		q.key = fmt.Sprintf("%p", run)
	}
	switch {
	case q.TimeoutMs < 0:
		return explain.Errorf(explain.BadRequest, "timeoutMs %d: want 1 or more", q.TimeoutMs)
	case c.running[q.key] != nil:
		return explain.Errorf(explain.DuplicateID, "request %s is being answered", q.ID)
	case c.requests >= maxRequests || c.bytes+len(q.line) > maxBytes:
		return explain.Errorf(explain.TooMany,
			"too much at once: at most %d requests, and %d bytes", maxRequests, maxBytes)
	}
	c.running[q.key] = run
	c.requests++
	c.bytes += len(q.line)
	return nil
}

// reply does what was asked, and answers. The ID is free when it is done, the place among
// those under way when it is answered.
func (c *conn) reply(ctx context.Context, q *request, run *running, do doing) {
	if q.TimeoutMs > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, time.Duration(min(q.TimeoutMs, 1e9))*time.Millisecond,
			tooLate(q.TimeoutMs))
		defer stop()
	}
	data, err := c.guarded(ctx, q.Type, do)
	r := &wire.Response{ID: q.ID, Type: "response", Command: q.Type, Success: err == nil,
		Status: wire.Complete, Data: data}
	if err != nil {
		r.Status, r.Error, r.Code = wire.Failed, err.Error(), explain.Code(err)
		if r.Code == explain.Cancelled.Code {
			r.Status = wire.Cancelled
		}
	}
	c.mu.Lock()
	delete(c.running, q.key)
	c.mu.Unlock()
	run.status = r.Status
	close(run.done)
	if err := c.out.Write(r); err != nil {
		c.log.Debug("answer not written", "command", q.Type, "err", err)
	}
	if q.lets != nil {
		q.lets()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests--
	c.bytes -= len(q.line)
}

// tooLate is the error of a request that was not done within so many milliseconds.
type tooLate int64

func (e tooLate) Error() string        { return fmt.Sprintf("not done within %d ms, its timeoutMs", int64(e)) }
func (e tooLate) Is(target error) bool { return target == context.DeadlineExceeded }

// guarded calls do. What goes wrong in one request is no harm to the others.
func (c *conn) guarded(ctx context.Context, command string, do doing) (data any, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("internal error", "command", command, "panic", p, "stack", string(debug.Stack()))
			data, err = nil, fmt.Errorf("internal error: %v", p)
		}
	}()
	if data, err = do(ctx); err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return data, err
}

// handler returns what answers a request, nil if there is no such command. Calling
// it queues the request with its session.
func (c *conn) handler(q *request) func(*conn, *request) (doing, error) {
	if extra, ok := c.server.Extra[q.Type]; ok {
		return func(c *conn, q *request) (doing, error) {
			return func(ctx context.Context) (any, error) { return extra(ctx, q.line, c.out.Write) }, nil
		}
	}
	if cmd, ok := commands[q.Type]; ok {
		return cmd.prepare
	}
	return nil
}

// inOrder waits until all that has arrived for the session before is done.
func (s *served) inOrder() (wait func(ctx context.Context) error, done func()) {
	before, mine := s.last, make(chan struct{})
	s.last = mine
	return func(ctx context.Context) error {
			select {
			case <-before:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}, func() {
			go func() {
				<-before // where it was not waited for
				close(mine)
			}()
		}
}

// watched calls fn with a context that ends if it looks at files and gets stuck,
// and tells the client of progress if it asked for that.
func (c *conn) watched(ctx context.Context, s *served, q *request, fn doing) (any, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	door, p := inside.Of(s.Session), new(progress.Progress)
	ctx = progress.With(ctx, p)
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		var last progress.State
		var since time.Time // of progress; before the first it may wait for others
		for {
			select {
			case <-stop:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if now := p.Now(); now != last {
				last, since = now, time.Now()
				if q.Progress && c.out.Write(&Event{ID: q.ID, Type: "progress", Phase: now.Name, Files: now.Done,
					ReadFiles: now.Read, ReadBytes: now.DoneBytes, Total: now.Items, Bytes: now.Phase.Bytes}) != nil {
					return
				}
			} else if !since.IsZero() && time.Since(since) > stallAfter && door.Capturing() {
				cancel(errStalled)
				return
			}
		}
	})
	data, err := fn(ctx)
	close(stop)
	watch.Wait()
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return data, err
}
