package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/boocode/filestore/cmd/snapctl/internal/agents"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/manager"
)

// A hookRequest asks a resident engine to record an event. Whoever sends it may
// go once it is queued.
type hookRequest struct {
	ID    int               `json:"id,omitempty"`
	Env   map[string]string `json:"env"` // of sameEnvironment
	Root  []byte            `json:"root"`
	Event *agents.Event     `json:"event"`
}

// A hookQueued says that an event is queued.
type hookQueued struct {
	ID     int    `json:"id,omitempty"`
	Type   string `json:"type"`             // "queued"
	Behind bool   `json:"behind,omitempty"` // others of its session
}

// hooks records events, those of a session in the order in which they came.
type hooks struct {
	app    *app
	engine *manager.Engine // nil: nothing is shared
	log    *hookLog
	all    sync.WaitGroup // events
	ended  func()         // called when a session has ended; nil: nobody wants to know

	mu   sync.Mutex                 // guards the rest
	last map[hookSession]<-chan any // closed when the last event that came is recorded
}

type hookSession struct{ root, session string }

// maxHook is how long recording an event may take. The first look at a directory
// is captured in part then.
const maxHook = 2 * time.Minute

// A hookAnswer is what came of an event.
type hookAnswer struct {
	SinceLast string   `json:"sinceLast,omitempty"` // of a prompt that asked for it
	Secrets   []string `json:"secrets,omitempty"`   // captured files of which the user is to be told
	err       error
}

// take queues an event, behind others of its session or not. What came of it is sent to
// done; ctx ends it, and not who asked for it.
func (h *hooks) take(ctx context.Context, root string, e *agents.Event) (done <-chan *hookAnswer, behind bool) {
	result, mine := make(chan *hookAnswer, 1), make(chan any)
	key := hookSession{root, e.Session}
	h.mu.Lock()
	before := h.last[key]
	h.last[key] = mine
	h.mu.Unlock()
	h.all.Go(func() {
		if before != nil {
			<-before
		}
		ctx, cancel := context.WithTimeout(ctx, maxHook)
		defer cancel()
		answer := new(hookAnswer)
		if answer.err = h.guarded(ctx, root, e, answer); answer.err != nil {
			h.log.add(e, answer.err)
		}
		if e.Name == agents.SessionEnd && h.ended != nil {
			h.ended()
		}
		h.mu.Lock()
		if h.last[key] == mine {
			delete(h.last, key)
		}
		h.mu.Unlock()
		close(mine)
		result <- answer
	})
	return result, before != nil
}

// guarded records an event. What goes wrong with one is no harm to others.
func (h *hooks) guarded(ctx context.Context, root string, e *agents.Event, answer *hookAnswer) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: %v", p)
		}
	}()
	return h.record(ctx, root, e, answer)
}

// record records an event. Each has a manager of its own, as in a process of its
// own: what others do with the session meanwhile is seen.
func (h *hooks) record(ctx context.Context, root string, e *agents.Event, answer *hookAnswer) (err error) {
	m, err := h.open(ctx, root, e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	// Others may record events of the session meanwhile, an engine and processes
	// that did not find it.
	lock, err := vfs.OS(m.StoreDir()).OpenFile(layout.Worktree(m.Project().Worktree).HookLock(),
		os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := vfs.Lock(ctx, lock, vfs.Exclusive); err != nil {
		return fmt.Errorf("wait for other events: %w", err)
	}
	ev := &recording{Event: e, h: h, m: m, calls: readHookCalls(lock), answer: answer}
	defer func() { err = errors.Join(err, ev.calls.write(lock)) }()
	turn, err := inside.Of(m).OpenTurn()
	if err != nil {
		return err
	}
	if ev.open = turn != nil; ev.open {
		ev.tools = turn.Tools
	}
	ev.calls.keep(e.Session, ev.tools)
	switch e.Name {
	case agents.SessionStart, agents.Prompt, agents.ToolStart:
		return ev.begins(ctx)
	}
	if !ev.open { // what was not seen to begin does not end: nobody knows whose changes these are
		return nil
	}
	return ev.goesOn(ctx)
}

// open opens the manager of an event's session.
func (h *hooks) open(ctx context.Context, root string, e *agents.Event) (m *manager.FileSnapshotManager, err error) {
	opts := &manager.Options{Engine: h.engine, Session: e.Session, ToolWindows: true, Detached: true, Adopt: true}
	if h.engine == nil {
		if opts.StoreRoot, err = h.app.storeRoot(); err != nil {
			return nil, err
		}
		opts.Home, opts.Git = h.app.home()
		opts.IgnoreFile = h.app.ignoreFile()
		opts.Logger, opts.NoPrompts = h.app.log, h.app.noPrompts()
		opts.Limits = new(limitFlags).limits(h.app)
	}
	return manager.Open(ctx, root, opts)
}

// A recording is an event that is being recorded.
type recording struct {
	*agents.Event
	h      *hooks
	m      *manager.FileSnapshotManager
	open   bool     // a turn of its session is
	tools  []string // that run in that
	calls  *hookCalls
	answer *hookAnswer
}

// begins records an event with which something begins: a session, a turn or a tool.
func (ev *recording) begins(ctx context.Context) error {
	turn := &manager.Turn{Agent: cmp.Or(ev.Agent, "claude"), Model: cmp.Or(ev.Model, ev.calls.model(ev.Session))}
	switch ev.Name {
	case agents.SessionStart:
		ev.calls.begin(ev.Session, ev.Model)
		if ev.Source != "compact" { // otherwise Claude Code was killed in it
			if err := ev.cutOff(ctx); err != nil {
				return err
			}
		}
		_, err := ev.m.Initialize(ctx)
		return err
	case agents.Prompt:
		if err := ev.cutOff(ctx); err != nil { // Stop does not come where the user has stopped it
			return err
		}
		turn.Title, turn.SinceLast = ev.Title, ev.Tell
		r, err := ev.m.OnTurnStart(ctx, turn)
		if err == nil {
			ev.answer.SinceLast = r.SinceLast
		}
		return err
	}
	if !ev.open { // the prompt was missed, or it is what a subagent does after Stop
		turn.Model = ev.calls.model(ev.Session)
		if _, err := ev.m.OnTurnStart(ctx, turn); err != nil {
			return err
		}
	}
	if slices.Contains(ev.tools, ev.Tool) { // it was recorded, and whoever did so died before it said so
		return nil
	}
	ev.calls.add(ev.Event)
	_, err := ev.m.OnToolStart(ctx, ev.Tool)
	return err
}

// goesOn records an event of a turn that is open.
func (ev *recording) goesOn(ctx context.Context) (err error) {
	switch ev.Name {
	case agents.ToolAsked:
		ev.calls.ask(ev.Event)
	case agents.ToolEnd, agents.ToolFailed:
		for _, p := range ev.Wrote {
			if cerr := ev.m.Claim(ctx, p); !errors.Is(cerr, manager.ErrOutside) {
				err = errors.Join(err, cerr)
			}
		}
		if slices.Contains(ev.tools, ev.Tool) {
			err = errors.Join(err, ev.endTool(ctx))
		}
	case agents.ToolRefused, agents.BatchEnd:
		refused := slices.DeleteFunc(ev.tools, func(tool string) bool {
			return tool != ev.Tool && !slices.Contains(ev.Event.Tools, tool)
		})
		if len(refused) > 0 {
			_, err = ev.m.OnToolsRefused(ctx, refused...)
		}
	case agents.Stop, agents.StopFailed: // what runs is in the background
		err = ev.endTurn(ctx)
		if ev.Name == agents.Stop { // whose answer is shown
			ev.answer.Secrets = ev.calls.owed(ev.Session)
		}
		ev.h.log.addHealth(ev.Event, ev.m)
		if ev.h.engine == nil {
			ev.h.app.startPrune(ev.m)
		}
	case agents.Interrupted, agents.SessionEnd:
		err = ev.cutOff(ctx)
	}
	return err
}

// endTool ends a tool. While the user was asked whether an edit tool may run only the user can
// have changed what it does not name, unless another tool ran: that is not known to be the turn's.
func (ev *recording) endTool(ctx context.Context) (err error) {
	if ev.Edits && len(ev.tools) == 1 && len(ev.calls.asked(ev.tools)) > 0 {
		return inside.Of(ev.m).ToolsUnknown(ctx, ev.Tool)
	}
	_, err = ev.m.OnToolEnd(ctx, ev.Tool)
	return err
}

// endTurn ends the turn, and notes what its user is to be told.
func (ev *recording) endTurn(ctx context.Context) error {
	r, err := ev.m.OnTurnEnd(ctx, nil)
	if err == nil {
		ev.calls.owe(ev.Session, r.Secrets)
	}
	return err
}

// cutOff ends a turn that Stop did not end, since the user has pressed Esc. A tool
// whose end was not told was running, but for one about which the user was asked:
// that may have been refused by Esc, too, and nobody knows whose the changes are.
func (ev *recording) cutOff(ctx context.Context) error {
	if !ev.open {
		return nil
	}
	if asked := ev.calls.asked(ev.tools); len(asked) > 0 {
		if err := inside.Of(ev.m).ToolsUnknown(ctx, asked...); err != nil {
			return err
		}
	}
	return ev.endTurn(ctx)
}

// hookCalls are the tools that run in a worktree, by what identifies them there. They
// are in the file whose lock events take: which of them the user was asked about is told
// by one event and needed by another.
type hookCalls struct {
	Calls   []hookCall  `json:"calls"`
	Models  []hookModel `json:"models,omitempty"` // the session that began last is the last
	Owed    []hookOwed  `json:"owed,omitempty"`
	changed bool
}

// hookOwed are files of which a session's user is to be told that they seem to hold
// secrets: the event at which that was found shows its user nothing.
type hookOwed struct {
	Session string   `json:"session"`
	Secrets []string `json:"secrets"`
}

// A hookModel is the model with which a session began: Claude Code says it there alone.
type hookModel struct {
	Session string `json:"session"`
	Model   string `json:"model"`
}

type hookCall struct {
	Session string `json:"session"`
	Tool    string `json:"tool"`
	Name    string `json:"name,omitempty"`  // of the tool, as the agent calls it
	Call    string `json:"call"`            // as in an agents.Event
	Asked   bool   `json:"asked,omitempty"` // whether it may run
}

// readHookCalls reads the file. One that says nothing, as after a power cut, is as if
// nobody had been asked.
func readHookCalls(f vfs.File) *hookCalls {
	c := new(hookCalls)
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxHookCalls))
	if err != nil || json.Unmarshal(b, c) != nil {
		return new(hookCalls)
	}
	return c
}

// maxHookCalls is how long the file gets, in bytes: some 5,000 tools at once.
const maxHookCalls = 1 << 20

// write writes the file, if that changes it.
func (c *hookCalls) write(f vfs.File) error {
	if !c.changed {
		return nil
	}
	b, err := json.Marshal(c)
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	return err
}

// maxHookModels is of how many sessions models are kept.
const maxHookModels = 100

// begin notes the model with which a session begins.
func (c *hookCalls) begin(session, model string) {
	if model == "" || c.model(session) == model {
		return
	}
	c.Models = slices.DeleteFunc(c.Models, func(m hookModel) bool { return m.Session == session })
	c.Models = append(c.Models, hookModel{session, model})
	c.Models = c.Models[max(len(c.Models)-maxHookModels, 0):]
	c.changed = true
}

// model returns the model with which a session began, "" if it is not known.
func (c *hookCalls) model(session string) string {
	for _, m := range c.Models {
		if m.Session == session {
			return m.Model
		}
	}
	return ""
}

// owe notes files of which the user of a session is to be told.
func (c *hookCalls) owe(session string, secrets []string) {
	if len(secrets) == 0 {
		return
	}
	c.Owed = append(c.Owed, hookOwed{session, secrets})
	c.Owed = c.Owed[max(len(c.Owed)-maxHookModels, 0):]
	c.changed = true
}

// owed returns them, and forgets them.
func (c *hookCalls) owed(session string) (secrets []string) {
	c.Owed = slices.DeleteFunc(c.Owed, func(o hookOwed) bool {
		if o.Session == session {
			secrets = append(secrets, o.Secrets...)
		}
		return o.Session == session
	})
	c.changed = c.changed || secrets != nil
	return secrets
}

// keep forgets a session's tools but for those that run.
func (c *hookCalls) keep(session string, running []string) {
	before := len(c.Calls)
	c.Calls = slices.DeleteFunc(c.Calls, func(h hookCall) bool {
		return h.Session == session && !slices.Contains(running, h.Tool)
	})
	c.changed = c.changed || len(c.Calls) < before
}

// add notes a tool that begins.
func (c *hookCalls) add(e *agents.Event) {
	c.Calls = append(c.Calls, hookCall{Session: e.Session, Tool: e.Tool, Name: e.Called, Call: e.Call})
	c.changed = true
}

// ask notes that the user is asked about a tool: the newest such call, or the newest of
// all where the agent does not say about which.
func (c *hookCalls) ask(e *agents.Event) {
	for i, h := range slices.Backward(c.Calls) {
		if h.Session == e.Session && (h.Call == e.Call || e.Call == "") && !h.Asked {
			c.Calls[i].Asked, c.changed = true, true
			return
		}
	}
}

// asked returns those of some tools about which the user was asked.
func (c *hookCalls) asked(tools []string) (list []string) {
	for _, h := range c.Calls {
		if h.Asked && slices.Contains(tools, h.Tool) {
			list = append(list, h.Tool)
		}
	}
	return list
}

// serve answers a hookRequest: at once that the event is queued, then what came
// of it. all ends the work.
func (h *hooks) serve(all, ctx context.Context, line json.RawMessage, emit func(any) error) (any, error) {
	var q hookRequest
	if err := json.Unmarshal(line, &q); err != nil {
		return nil, err
	}
	if err := h.app.mustHave(q.Env); err != nil {
		return nil, err
	}
	if q.Event == nil {
		return nil, errors.New("no event")
	}
	done, behind := h.take(all, string(q.Root), q.Event)
	if err := emit(&hookQueued{q.ID, "queued", behind}); err != nil {
		return nil, err
	}
	select {
	case answer := <-done:
		return answer, answer.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// A hookLog is the file that says why events were not recorded.
type hookLog struct {
	name string // "": nowhere
	mu   sync.Mutex
}

const (
	hookLogName = "hook.log"
	// maxHookLog is how long it gets, in bytes, before it begins anew; the one
	// before is kept.
	maxHookLog = 64 << 10
)

// newHookLog returns that of the stores in a directory.
func (a *app) newHookLog() *hookLog {
	base, err := a.storeRoot()
	if err != nil {
		return &hookLog{}
	}
	return &hookLog{name: filepath.Join(base, hookLogName)}
}

// add adds a line. That it cannot is nobody's concern.
func (l *hookLog) add(e *agents.Event, why error) {
	if l.name == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if st, err := os.Lstat(l.name); err == nil && st.Size() > maxHookLog {
		os.Rename(l.name, l.name+".old")
	}
	os.MkdirAll(filepath.Dir(l.name), 0o700)
	f, err := vfs.OpenOwn(l.name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	what := "-"
	if e != nil {
		what = fmt.Sprintf("%.100s %.100s session %s tool %s", cmp.Or(e.Agent, "claude"), e.Name,
			quoted(e.Session, 300), quoted(e.Tool, 300))
	}
	fmt.Fprintf(f, "%s %s: %s\n", time.Now().Format(time.RFC3339), what, quoted(why.Error(), 1000))
}

// quoted quotes a text, of which it takes so many bytes.
func quoted(text string, most int) string {
	return strconv.Quote(text[:min(len(text), most)])
}
