package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/wire"
)

// A command is one that a client may send: a verb, or one about the connection.
type command struct {
	params, result reflect.Type // structures
	changes        bool         // it waits for those that arrived for the session before it
	inSession      bool         // sessionId names the session that it is about
	text           string       // what it does
	prepare        func(c *conn, q *request) (doing, error)
}

// head has the fields that stand beside those of each command.
var head = reflect.TypeFor[request]()

// doing answers a request.
type doing func(context.Context) (any, error)

var commands = make(map[string]*command)

// Commands are the names of all.
func Commands() []string { return slices.Sorted(maps.Keys(commands)) }

func init() {
	for _, v := range verbs.All {
		commands[v.Name] = &command{v.Args, v.Result, v.Changes, true, v.Text,
			func(c *conn, q *request) (doing, error) { return c.ask(v, q) }}
	}
	begin := commands["initialize"] // which says itself what the session is called
	begin.inSession, begin.prepare = false, (*conn).initialize
	add("cancel", "ends a request, and answers when it has ended", cancel)
	add("ping", "answers", ping)
	add("stats", "counts", stats)
	add("locate", "finds the place of a text in another, in memory",
		func(_ context.Context, _ *conn, q *verbs.Locate) (*verbs.Located, error) { return q.Answer(), nil })
}

// add adds a command about no session.
func add[P, R any](name, text string, fn func(ctx context.Context, c *conn, p *P) (*R, error)) {
	commands[name] = &command{reflect.TypeFor[P](), reflect.TypeFor[R](), false, false, text,
		func(c *conn, q *request) (doing, error) {
			p := new(P)
			if err := verbs.Decode(name, q.line, p, head); err != nil {
				return nil, err
			}
			return func(ctx context.Context) (any, error) { return fn(ctx, c, p) }, nil
		}}
}

// ask asks a verb of a session of the connection.
func (c *conn) ask(v *verbs.Verb, q *request) (doing, error) {
	do, err := v.Bind(q.line, head)
	if err != nil {
		return nil, err
	}
	var id string
	if q.SessionID != nil {
		if json.Unmarshal(q.SessionID, &id) != nil {
			return nil, explain.Errorf(explain.BadRequest, "%s: sessionId: want a string", v.Name)
		}
	}
	c.mu.Lock()
	s := c.sessions[id]
	c.mu.Unlock()
	if s == nil {
		return nil, explain.Errorf(explain.NoSession, "session %q: not initialized on this connection", id)
	}
	return c.answer(s, q, v.Changes, func(context.Context) {}, do), nil
}

// answer returns what begins a request about a session, and goes on when the session
// is open and, if it changes something, those before it are done. A query waits for others if
// there are many; a change does not wait for queries.
func (c *conn) answer(s *served, q *request, changes bool, begin func(context.Context), do verbs.Do) doing {
	wait, done := func(context.Context) error { return nil }, func() {}
	if changes {
		wait, done = s.inOrder()
	}
	return func(ctx context.Context) (any, error) {
		defer done()
		begin(ctx)
		if err := wait(ctx); err != nil {
			return nil, err
		}
		if err := s.wait(ctx); err != nil {
			return nil, err
		}
		if !changes {
			select {
			case c.asking <- struct{}{}:
				q.lets = func() { <-c.asking }
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return c.watched(ctx, s, q, func(ctx context.Context) (any, error) { return do(ctx, s.Session) })
	}
}

// initialize opens a session, unless it is one of the connection.
func (c *conn) initialize(q *request) (doing, error) {
	do, err := verbs.Named("initialize").Bind(q.line, head)
	if err != nil {
		return nil, err
	}
	p, err := verbs.Initialize(q.line)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	s := c.sessions[p.SessionID]
	fresh := s == nil
	if fresh {
		first := make(chan struct{})
		close(first)
		s = &served{asked: *p, ready: make(chan struct{}), last: first}
		c.sessions[p.SessionID] = s
	}
	c.mu.Unlock()
	if !fresh && s.asked != *p {
		return nil, explain.Errorf(explain.BadRequest,
			"initialize: session %q is open on this connection, and with other parameters", p.SessionID)
	}
	return c.answer(s, q, true, func(ctx context.Context) {
		if !fresh {
			return
		}
		defer s.opened()
		if s.Session, s.err = verbs.Open(ctx, c.server.Engine, p); s.err != nil { // it may be tried again
			c.mu.Lock()
			delete(c.sessions, p.SessionID)
			c.mu.Unlock()
		}
	}, do), nil
}

// opened says that it is known whether the session is open.
func (s *served) opened() {
	if s.Session == nil && s.err == nil {
		s.err = errors.New("the session could not be opened")
	}
	close(s.ready)
}

// wait waits until the session is open.
func (s *served) wait(ctx context.Context) error {
	select {
	case <-s.ready:
		return s.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Cancel ends a request.
type Cancel struct {
	RequestID json.RawMessage `json:"requestId"`
}

// Ended says how the request ended that was to be cancelled.
type Ended struct {
	Outcome wire.Status `json:"outcome"` // complete: it was done by then; "unknown": no such request is being answered
}

// Pong says who answers.
type Pong struct {
	Version  string `json:"version"`
	Protocol int    `json:"protocol"`
}

// Protocol is the version of the protocol: it grows when something changes that
// a client could mind.
const Protocol = 2

// Stats are counts.
type Stats struct {
	Watches  map[string]capture.WatchStats `json:"watches"` // by directory
	Sessions []string                      `json:"sessions"`
	Requests int                           `json:"requests"` // being answered on this connection
}

func cancel(ctx context.Context, c *conn, p *Cancel) (*Ended, error) {
	c.mu.Lock()
	run := c.running[string(p.RequestID)]
	c.mu.Unlock()
	if run == nil {
		return &Ended{"unknown"}, nil
	}
	run.cancel(errCancelled)
	select {
	case <-run.done:
		return &Ended{run.status}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func ping(_ context.Context, c *conn, _ *struct{}) (*Pong, error) {
	return &Pong{c.server.Version, Protocol}, nil
}

func stats(_ context.Context, c *conn, _ *struct{}) (*Stats, error) {
	st := &Stats{Watches: inside.OfEngine(c.server.Engine).WatchStats(), Sessions: []string{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.sessions {
		st.Sessions = append(st.Sessions, id)
	}
	slices.Sort(st.Sessions)
	st.Requests = len(c.running)
	return st, nil
}
