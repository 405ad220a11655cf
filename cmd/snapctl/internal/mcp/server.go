// Package mcp serves one directory to a model: as a server of the Model Context
// Protocol, whose tools take snapshots, compare them, go back and edit files.
//
// It is thin: a tool decodes its arguments, makes a few calls of package manager
// and says what came of them, as text for a model and as JSON for a program.
// What goes wrong is told as the result of the tool, with what to do about it.
//
// A [Server] has one manager of one session. Tools may be called at once, and
// are run as they come: the manager lets those wait that change something. No
// goroutine outlives Serve.
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/wire"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/tree"
)

// A Server serves a directory.
type Server struct {
	Engine     *manager.Engine // must be given
	Root       string          // the directory
	Session    string          // that steps belong to
	Version    string          // of the program
	AllowBroad bool            // also a home directory and the like
	Limits     tree.Limits     // of captures
	Tools      []string        // that are served, see [ToolNames]; nil: all
	Logger     *slog.Logger    // nil: nothing is logged

	// TurnOf returns the session, of those in the directory of m, whose open turn has
	// called a tool; "" if none has. call is the client's name for the call, if it has
	// one. nil: none ever has.
	TurnOf func(ctx context.Context, e *manager.Engine, m *manager.FileSnapshotManager,
		tool, call string) (string, error)
}

// Serve serves one client until r ends, and all calls are answered, or ctx ends, and calls
// under way are cancelled. Messages are lines.
func (s *Server) Serve(ctx context.Context, r io.Reader, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	log := s.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	o := &opener{open: func() (*manager.FileSnapshotManager, string, error) { return s.open(ctx) }}
	x := &tools{server: s, open: o, log: log}
	x.addAll()
	x.addPrompts()
	o.attempt() // so that the first call need not wait for all of it
	c := &conn{out: wire.LineWriter{W: w}}
	err := c.serve(ctx, r, x.handle)
	if err != nil {
		err = fmt.Errorf("serve mcp: %w", err)
	}
	cancel(errGone)
	c.all.Wait()
	return errors.Join(err, o.close())
}

var errGone = fmt.Errorf("the client has gone: %w", context.Canceled)

// An opener opens the session in the background: the handshake does not wait
// for the first look at the directory, calls do.
type opener struct {
	open func() (m *manager.FileSnapshotManager, news string, err error)
	all  sync.WaitGroup         // attempts
	news atomic.Pointer[string] // what the model is to be told; nil: nothing

	mu     sync.Mutex // guards the rest
	last   *attempt
	closed bool
}

// An attempt to open the session.
type attempt struct {
	done chan struct{} // closed when the rest is known
	m    *manager.FileSnapshotManager
	err  error
}

// attempt returns the attempt to wait for: the one under way or that has come
// off, else a new one.
func (o *opener) attempt() *attempt {
	o.mu.Lock()
	defer o.mu.Unlock()
	if a := o.last; a != nil {
		select {
		case <-a.done:
			if a.err == nil {
				return a
			}
		default:
			return a
		}
	}
	a := &attempt{done: make(chan struct{}), err: errGone}
	if o.closed {
		close(a.done)
		return a
	}
	o.last = a
	o.all.Go(func() {
		defer close(a.done)
		var news string
		if a.m, news, a.err = o.open(); news != "" {
			o.news.Store(&news)
		}
	})
	return a
}

// wait returns the manager when the first look is over.
func (o *opener) wait(ctx context.Context) (*manager.FileSnapshotManager, error) {
	a := o.attempt()
	select {
	case <-a.done:
		return a.m, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the first look at the directory: %w", context.Cause(ctx))
	}
}

func (o *opener) close() error {
	o.mu.Lock()
	o.closed = true
	last := o.last
	o.mu.Unlock()
	o.all.Wait()
	if last == nil || last.m == nil {
		return nil
	}
	return last.m.Close()
}

// open opens the session and looks at the directory: what was changed while
// nobody served is recorded as no step's doing.
func (s *Server) open(ctx context.Context) (m *manager.FileSnapshotManager, news string, err error) {
	m, err = manager.Open(ctx, s.Root, &manager.Options{Engine: s.Engine, Session: s.Session,
		AllowBroad: s.AllowBroad, Limits: s.Limits, OnDirty: rollback.Merge})
	if err != nil {
		return nil, "", err
	}
	if news, err = begin(ctx, m); err != nil {
		return nil, news, errors.Join(err, m.Close())
	}
	if health := m.Health(); health != "" {
		news += " The user should know of the store of these snapshots: " + health + "."
	}
	return m, news, nil
}

// begin looks at the directory. What was cut off there it brings to an end, and
// says so.
func begin(ctx context.Context, m *manager.FileSnapshotManager) (news string, err error) {
	restore, edit, err := inside.Of(m).CutOff(ctx)
	if err != nil {
		return "", err
	}
	if restore {
		r, err := m.FinishRestore(ctx, false)
		switch {
		case errors.Is(err, manager.ErrNothing): // somebody was faster
		case err != nil:
			return "", err
		default:
			news = fmt.Sprintf("A restore of session %q had been cut off before this server started. It was brought "+
				"to its end: %d restored, %d deleted, %d left as they are.",
				bounded(r.Snapshot.Session, maxLabel), len(r.Restored), len(r.Deleted),
				len(r.Skipped)+len(r.Kept)+len(r.Failed))
			if r.Snapshot.Session == m.Session() {
				news += " undo takes it back."
			}
		}
	}
	if _, err := m.Initialize(ctx); err != nil || !edit {
		return news, err
	}
	if _, edit, err = inside.Of(m).CutOff(ctx); edit {
		return news + " An edit had been cut off before this server started, and cannot be taken back: patch_apply " +
			"says why.", err
	}
	return news + " An edit had been cut off before this server started. It was taken back.", err
}

// tools are those of a server.
type tools struct {
	server  *Server
	open    *opener
	log     *slog.Logger
	list    []*tool
	prompts []*prompt
}

// callID is where Claude Code names the call, as it does to hooks.
const callID = "claudecode/toolUseId"

// serve calls fn with the manager for a call: that of the session in whose turn it is, else
// the server's own.
func (x *tools) serve(ctx context.Context, tool string, meta map[string]json.RawMessage,
	fn func(*manager.FileSnapshotManager) error) (err error) {
	own, err := x.open.wait(ctx)
	if err != nil {
		return err
	}
	if x.server.TurnOf == nil {
		return fn(own)
	}
	var call string
	if text, ok := meta[callID]; ok && json.Unmarshal(text, &call) != nil {
		call = "" // no name
	}
	session, err := x.server.TurnOf(ctx, x.server.Engine, own, tool, call)
	if err != nil {
		return err
	}
	if session == "" {
		return fn(own)
	}
	m, err := manager.Open(ctx, x.server.Root, &manager.Options{Engine: x.server.Engine, Session: session,
		ToolWindows: true, Detached: true, InTurn: true, AllowBroad: x.server.AllowBroad, Limits: x.server.Limits,
		OnDirty: rollback.Merge})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return fn(m)
}

// An answer is what a tool returns: JSON for programs, and text for models. It
// has Told.
type answer interface {
	text() string
	tell(news string)
}

// Told is what every answer may have.
type Told struct {
	News string `json:"news,omitempty" jsonschema:"of the first answer: a restore or an edit had been cut off, and what became of it; or what the user should know of the store"`
}

func (t *Told) tell(news string) { t.News = news }

// A kind says what a tool does to files; clients ask their users by it.
type kind int

const (
	looks    kind = iota // changes nothing
	records              // adds a snapshot
	rewrites             // changes files
)

// add adds a tool. texts say what its arguments are, if their type does not.
func add[P any, R answer](x *tools, name, title string, k kind, text string,
	fn func(ctx context.Context, m *manager.FileSnapshotManager, p *P) (R, error), texts ...map[string]string) {
	t := newTool(name, title, k, text)
	t.InputSchema = inputSchema(reflect.TypeFor[P](), texts...)
	addTool(x, t, fn)
}

// addVerb adds a tool that is a verb as it is: what a program is answered is what a
// model reads, so it is short. An argument without a text is none of the tool's.
func addVerb(x *tools, name, title string, k kind, text string, texts map[string]string) {
	v := verbs.Named(name)
	t := newTool(name, title, k, text)
	t.InputSchema, t.OutputSchema = inputSchema(v.Args, texts), schemaOf(v.Result)
	addTool(x, t, func(ctx context.Context, m *manager.FileSnapshotManager, p *json.RawMessage) (*verbatim, error) {
		do, err := v.Bind(*p)
		if err != nil {
			return nil, err
		}
		r, err := do(ctx, &verbs.Session{FileSnapshotManager: m})
		if err != nil {
			return nil, err
		}
		b, err := json.Marshal(r)
		return &verbatim{b}, err
	})
}

// verbatim is the answer of a verb.
type verbatim struct{ json.RawMessage }

func (v *verbatim) text() string { return string(v.RawMessage) }
func (v *verbatim) tell(string)  {} // it is in the text

func newTool(name, title string, k kind, text string) *tool {
	t := &tool{Name: name, Title: title, Description: text}
	t.Annotations.Title, t.Annotations.ReadOnly, t.Annotations.Idempotent = title, k == looks, k == looks
	t.Annotations.Destructive = k == rewrites
	return t
}

func addTool[P any, R answer](x *tools, t *tool, fn func(context.Context, *manager.FileSnapshotManager, *P) (R,
	error)) {
	if !x.server.serves(t.Name) {
		return
	}
	if t.OutputSchema == nil {
		t.OutputSchema = schemaOf(reflect.TypeFor[R]().Elem())
	}
	t.call = func(ctx context.Context, q *callParams) (result *called) {
		defer func() {
			if why := recover(); why != nil { // no harm to other calls
				x.log.Error("internal error", "tool", t.Name, "panic", why, "stack", string(debug.Stack()))
				result = refused(failed(t.Name, fmt.Errorf("internal error: %v", why)).Error())
			}
		}()
		p := new(P)
		if err := readArguments(t.InputSchema, q.Arguments, p); err != nil {
			return refused(bounded(err.Error(), maxErrorText))
		}
		var r R
		err := x.serve(ctx, t.Name, q.Meta, func(m *manager.FileSnapshotManager) (err error) {
			r, err = fn(ctx, m, p)
			return err
		})
		text := ""
		if ctx.Err() == nil { // somebody reads it
			if news := x.open.news.Swap(nil); news != nil {
				text = strings.TrimSpace(*news) + "\n\n"
			}
		}
		if err != nil {
			return refused(text + failed(t.Name, err).Error())
		}
		r.tell(strings.TrimSpace(text))
		return &called{Content: []content{{"text", text + r.text()}}, Structured: r}
	}
	x.list = append(x.list, t)
	slices.SortFunc(x.list, func(a, b *tool) int { return strings.Compare(a.Name, b.Name) })
}
