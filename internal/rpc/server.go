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
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

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

	// Extra are commands beside those of the package, by name. What a request
	// brings is passed on as it is; emit sends an event to the client.
	Extra map[string]func(ctx context.Context, request json.RawMessage, emit func(event any) error) (data any, err error)
}

// A Status says how a request ended.
type Status string

const (
	Complete     Status = "complete"
	WasCancelled Status = "cancelled" // nothing is as if it had been done
	HasFailed    Status = "failed"
)

// A Response answers a request.
type Response struct {
	ID      json.RawMessage `json:"id"` // of the request; null if it could not be read
	Type    string          `json:"type"`
	Command string          `json:"command"`
	Success bool            `json:"success"`
	Status  Status          `json:"status"`
	Data    any             `json:"data,omitempty"`
	Error   string          `json:"error,omitempty"`
	Code    Code            `json:"code,omitempty"` // of the error
}

// A request is the head of one; the rest is its command's.
type request struct {
	ID        json.RawMessage `json:"id"`
	Type      string          `json:"type"`
	TimeoutMs int64           `json:"timeoutMs"`
	Progress  bool            `json:"progress"`
}

// An Event tells of a request that is being answered, if it asked for progress.
type Event struct {
	ID        json.RawMessage `json:"id"`
	Type      string          `json:"type"` // "progress"
	Files     int64           `json:"files"`
	ReadFiles int64           `json:"readFiles"`
	ReadBytes int64           `json:"readBytes"`
}

const (
	// maxRequests is how many requests of a connection may be under way, and
	// maxBytes how long they may be together.
	maxRequests = 256
	maxBytes    = 4 * MaxLine
	// stallAfter is after how long without progress a request has failed.
	stallAfter = 90 * time.Second
	// progressEvery is how often somebody who asks is told of progress.
	progressEvery = 250 * time.Millisecond
)

// A conn is a connection with what it has opened.
type conn struct {
	server *Server
	out    *lineWriter
	log    *slog.Logger
	all    sync.WaitGroup // requests

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
	status Status        // by then
}

// A served session answers what changes something in order of arrival.
type served struct {
	asked Initialize
	once  sync.Once     // closes ready
	ready chan struct{} // closed when the rest is known
	m     *manager.FileSnapshotManager
	err   error // why there is none

	last chan struct{} // closed when the last of those that arrived is done; for who reads requests
	logs bool          // the runtime keeps a log

	listed atomic.Pointer[[]*manager.Moment] // what get_snapshots lists page by page
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
	c := &conn{server: s, out: &lineWriter{w: w}, log: s.log(), running: make(map[string]*running), sessions: make(map[string]*served)}
	ctx, cancel := context.WithCancelCause(ctx)
	in := &lineReader{r: bufio.NewReaderSize(r, 64<<10), max: MaxLine}
	err := c.read(ctx, in)
	if finish(err) {
		c.all.Wait()
	}
	cancel(errGone)
	c.all.Wait()
	for _, s := range c.sessions {
		if s.m == nil {
			continue
		}
		if cerr := s.m.Close(); cerr != nil {
			c.log.Warn("session not closed cleanly", "session", s.m.Session(), "err", cerr)
		}
	}
	return errors.Join(err, c.out.err)
}

func (s *Server) log() *slog.Logger {
	if s.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Logger
}

func (c *conn) read(ctx context.Context, in *lineReader) error {
	for {
		line, err := in.next()
		switch {
		case errors.Is(err, errLong):
			if err := c.refuse(nil, "", &Error{TooLong, err.Error()}); err != nil {
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
	return c.out.write(&Response{ID: id, Type: "response", Command: command, Status: HasFailed, Error: err.Error(), Code: CodeOf(err)})
}

// take begins to answer a request.
func (c *conn) take(ctx context.Context, line []byte) error {
	var q request
	if err := json.Unmarshal(line, &q); err != nil {
		return c.refuse(nil, "", badRequest("not a request: "+err.Error()))
	}
	if string(q.ID) == "null" {
		q.ID = nil
	}
	if q.ID != nil && !isID(q.ID) {
		return c.refuse(nil, q.Type, badRequest("id: want a text, in UTF-8, or a number"))
	}
	handle, ok := c.handler(&q, bytes.Clone(line))
	if !ok {
		return c.refuse(q.ID, q.Type, &Error{BadCommand, fmt.Sprintf("no command %q", q.Type)})
	}
	ctx, cancel := context.WithCancelCause(ctx)
	run := &running{cancel: cancel, done: make(chan struct{})}
	c.mu.Lock()
	key := string(q.ID)
	_, twice := c.running[key]
	full := c.requests >= maxRequests || c.bytes+len(line) > maxBytes
	if q.ID == nil {
		key, twice = fmt.Sprintf("%p", run), false
	}
	if !twice && !full {
		c.running[key] = run
		c.requests++
		c.bytes += len(line)
	}
	c.mu.Unlock()
	size := len(line)
	switch {
	case twice:
		cancel(nil)
		return c.refuse(q.ID, q.Type, &Error{DuplicateID, fmt.Sprintf("request %s is being answered", q.ID)})
	case full:
		cancel(nil)
		return c.refuse(q.ID, q.Type, &Error{TooMany, fmt.Sprintf("too much at once: at most %d requests, and %d bytes", maxRequests, maxBytes)})
	}
	do, err := handle()
	if err != nil {
		do = func(context.Context) (any, error) { return nil, err }
	}
	c.all.Go(func() {
		defer cancel(nil)
		if q.TimeoutMs > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeout(ctx, time.Duration(min(q.TimeoutMs, 1e9))*time.Millisecond)
			defer stop()
		}
		data, err := c.guarded(ctx, q.Type, do)
		c.mu.Lock()
		delete(c.running, key) // its ID is free, its place only once it has been answered
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.requests--
			c.bytes -= size
		}()
		r := &Response{ID: q.ID, Type: "response", Command: q.Type, Success: err == nil, Status: Complete, Data: data}
		if err != nil {
			r.Status, r.Error, r.Code = HasFailed, err.Error(), CodeOf(err)
			if r.Code == Cancelled {
				r.Status = WasCancelled
			}
		}
		run.status = r.Status
		close(run.done)
		if err := c.out.write(r); err != nil {
			c.log.Debug("answer not written", "command", q.Type, "err", err)
		}
	})
	return nil
}

// guarded calls do. What goes wrong in one request is no harm to the others.
func (c *conn) guarded(ctx context.Context, command string, do func(context.Context) (any, error)) (data any, err error) {
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

// isID reports whether a JSON value is a text or a number.
func isID(b json.RawMessage) bool {
	return len(b) > 0 && utf8.Valid(b) && (b[0] == '"' || b[0] == '-' || b[0] >= '0' && b[0] <= '9')
}

// handler returns what answers a request; not ok: there is no such command.
// Calling it queues the request with its session.
func (c *conn) handler(q *request, line json.RawMessage) (handle func() (do func(context.Context) (any, error), err error), ok bool) {
	if extra, ok := c.server.Extra[q.Type]; ok {
		return func() (func(context.Context) (any, error), error) {
			return func(ctx context.Context) (any, error) { return extra(ctx, line, c.out.write) }, nil
		}, true
	}
	cmd, ok := commands[q.Type]
	if !ok {
		return nil, false
	}
	return func() (func(context.Context) (any, error), error) { return cmd.prepare(c, q, line) }, true
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
func (c *conn) watched(ctx context.Context, s *served, q *request, fn func(ctx context.Context) (any, error)) (any, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := s.m.Progress()
	count := func() Event {
		return Event{ID: q.ID, Type: "progress", Files: p.Files.Load(), ReadFiles: p.ReadFiles.Load(), ReadBytes: p.ReadBytes.Load()}
	}
	first := count()
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		last, since := first, time.Time{} // of progress; before the first it may wait for others
		for {
			select {
			case <-stop:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			now := count()
			if now.Files != last.Files || now.ReadBytes != last.ReadBytes {
				last, since = now, time.Now()
				if q.Progress {
					now.Files -= first.Files
					now.ReadFiles -= first.ReadFiles
					now.ReadBytes -= first.ReadBytes
					if c.out.write(&now) != nil {
						return
					}
				}
			} else if !since.IsZero() && time.Since(since) > stallAfter && s.m.Capturing() {
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
