package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/cmd/snapctl/internal/agents"
	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/wire"
	"github.com/boocode/filestore/session"
)

// A hook fails open: whatever goes wrong, the agent goes on, and is told nothing.
// Exit code 2 of a hook would forbid a tool, and what it prints goes to the model.

// hookCommandName is that of the command below which nothing is reported.
const hookCommandName = "hook"

const (
	// hookWait bounds a hook, and toolWait one that comes before a tool: the tool
	// must wait until it is known what the files are. setup writes a timeout that
	// is longer.
	hookWait = 10 * time.Second
	toolWait = 25 * time.Second
	// startWait is how long the agent waits at a session's or a turn's start for the
	// look at the directory, which goes on in the engine, and for an engine that is late.
	startWait = 30 * time.Millisecond
	// tellWait is the same for a prompt whose model is to be told something.
	tellWait = 2 * time.Second
	// engineWait is how long an engine may take to start.
	engineWait = 5 * time.Second
)

func (a *app) hookCommand() *cobra.Command {
	c := &cobra.Command{Use: hookCommandName, Short: "Record what an agent does, told by its hooks",
		Args: args(0, 0),
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.prepare(cmd) // BOO_SESSION, say, is no concern of an event, which names its own
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	for _, agent := range agents.All {
		if !agent.HasHooks() {
			continue
		}
		var tell bool
		sub := &cobra.Command{Use: agent.Name, Args: args(0, 0),
			Short: "Record an event of " + agent.Title + ", which comes on stdin",
			RunE: func(cmd *cobra.Command, _ []string) error {
				a.hook(cmd.Context(), agent, tell)
				return nil
			}}
		sub.Flags().BoolVar(&tell, "tell", false, "tell the model what was taken back since its last turn")
		c.AddCommand(sub)
	}
	return c
}

// isHook reports whether a command is hook or one below, or was to be one: behind
// flags that are wrong the command is not found.
func isHook(c *cobra.Command, args []string) bool {
	if i := slices.Index(args, hookCommandName); !c.HasParent() && i >= 0 &&
		slices.ContainsFunc(args[i:], func(arg string) bool { return agents.Named(arg) != nil }) {
		return true
	}
	for ; c != nil; c = c.Parent() {
		if c.Name() == hookCommandName && c.HasParent() && !c.Parent().HasParent() {
			return true
		}
	}
	return false
}

// A hookRun is one run of a hook.
type hookRun struct {
	*app
	agent *agents.Agent
	log   *hookLog
	event *agents.Event // nil: it was not read
	begun time.Time
	late  *lateness // nil: the engine is not late
}

// hook records the event of an agent that is on stdin.
func (a *app) hook(ctx context.Context, agent *agents.Agent, tell bool) {
	h := &hookRun{app: a, agent: agent, log: a.newHookLog(), begun: time.Now()}
	defer func() {
		if p := recover(); p != nil {
			h.fail(fmt.Errorf("internal error: %v", p))
		}
	}()
	a.flags.quiet = true
	a.log = slog.New(slog.DiscardHandler)
	if a.getenv("SNAPCTL_DEBUG") != "" {
		a.log = slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	isThere, err := h.read(tell)
	if err == nil && isThere {
		err = h.record(ctx)
	}
	if err != nil {
		h.fail(err)
	}
}

// fail notes that the event was not recorded, which nobody is told.
func (h *hookRun) fail(err error) {
	h.app.log.Error("event not recorded", "err", err)
	h.log.add(h.event, err)
}

// read reads the event, and finds the directory that it is about. There is none, or none
// that is to be recorded, if it returns false.
func (h *hookRun) read(tell bool) (bool, error) {
	e, err := h.readEvent(h.agent, hookWait)
	if err != nil || e == nil {
		return false, err
	}
	h.event = e
	if h.badConfig != nil && e.Name == agents.SessionStart {
		h.log.add(e, h.badConfig)
	}
	e.Tell = tell && e.Name == agents.Prompt
	if h.noPrompts() { // whatever the engine's environment says
		e.Title = ""
	}
	if !session.ValidID(e.Session) {
		return false, fmt.Errorf("session %q: want 1 to 128 letters, digits and ._-", e.Session)
	}
	root, err := h.hookRoot(h.agent, e)
	if err == nil {
		h.flags.root, err = filepath.Abs(root) // the engine is elsewhere
	}
	if err != nil {
		return false, err
	}
	return e.Begins() || h.hasStore(), nil // nothing has begun without one
}

// wait is how long the agent waits.
func (h *hookRun) wait() time.Duration {
	if h.event.Name == agents.ToolStart {
		return toolWait
	}
	return hookWait
}

// record has the event recorded by the resident engine, or by this process.
func (h *hookRun) record(ctx context.Context) error {
	ctx, cancel := context.WithDeadline(ctx, h.begun.Add(h.wait()))
	defer cancel()
	dir, err := h.storeDir()
	if err != nil {
		h.notRecorded(h.event, err)
		h.log.add(h.event, err)
		return nil
	}
	h.late = lateIn(dir)
	defer func() {
		if h.late != nil {
			h.late.tell(h.event, h.stdout)
		}
	}()
	var answer hookAnswer
	came, err := h.hookThere(ctx, dir, h.event, h.late != nil, &answer)
	switch {
	case came == recorded:
		if h.late != nil {
			h.late.forget()
			h.late = nil
		}
		h.tellModel(h.agent, &answer)
		h.tellSecrets(&answer)
		return nil
	case came == queued:
		return h.queued(dir, err)
	case errors.Is(err, wire.ErrHung):
		h.late = noteLate(dir)
		if lerr := h.locks(ctx, h.late); lerr != nil {
			return fmt.Errorf("%w, and has locks of the directory: %w", err, lerr)
		}
	}
	if err != nil {
		h.app.log.Debug("no resident engine", "err", err)
	}
	return h.recordHere(ctx)
}

// queued is about an event that the engine was to record, and of which it has not said that it
// has: it returns what the log is to say.
func (h *hookRun) queued(dir string, err error) error {
	switch {
	case err == nil, errors.Is(err, errNotTaken):
		return err
	case errors.Is(err, context.Canceled):
		return errors.New("a signal has come before the resident engine has answered")
	case errors.Is(err, wire.ErrHung):
		h.late = noteLate(dir)
		return fmt.Errorf("%w: it may record the event when it goes on", err)
	case errors.Is(err, context.DeadlineExceeded):
		h.late = noteLate(dir)
		return fmt.Errorf("the resident engine has not answered after %v: %w", h.wait(), err)
	}
	h.notRecorded(h.event, err) // and the engine's log says why not
	return nil
}

// recordHere records the event in this process.
func (h *hookRun) recordHere(ctx context.Context) error {
	done, _ := (&hooks{app: h.app, log: h.log, last: make(map[hookSession]<-chan any)}).take(ctx, h.flags.root, h.event)
	select {
	case answer := <-done:
		if answer.err != nil {
			h.notRecorded(h.event, answer.err)
		} else if h.late == nil { // which has something to say itself
			h.tellModel(h.agent, answer)
			h.tellSecrets(answer)
		}
		return nil
	case <-time.After(time.Until(h.begun.Add(h.wait() + time.Second))): // it does not even end when it is told to
		return fmt.Errorf("not done after %v", h.wait())
	}
}

// notRecorded notes that an event was not recorded. The user is told of a turn that did not
// begin, or whose end is not on record: the agent itself goes on and says nothing.
func (a *app) notRecorded(e *agents.Event, why error) {
	a.log.Error("event not recorded", "err", why)
	switch e.Name {
	case agents.Prompt:
		tellUser(a.stdout, "from here on the agent's changes are not recorded: "+why.Error())
	case agents.Stop:
		tellUser(a.stdout, "the end of this turn is not recorded: "+why.Error())
	}
}

// tellModel answers a prompt with what its model is to be told.
func (a *app) tellModel(agent *agents.Agent, answer *hookAnswer) {
	if answer.SinceLast == "" {
		return
	}
	type output struct {
		Event   string `json:"hookEventName"`
		Context string `json:"additionalContext"`
	}
	b, err := marshal(struct {
		Output output `json:"hookSpecificOutput"`
	}{output{agent.PromptEvent(), answer.SinceLast}})
	if err == nil {
		fmt.Fprintf(a.stdout, "%s\n", b)
	}
}

// tellSecrets answers the end of a turn with what the user is to know of secrets.
func (a *app) tellSecrets(answer *hookAnswer) {
	if len(answer.Secrets) > 0 {
		tellUser(a.stdout, secretsText(answer.Secrets, ignoreName, "snapctl"+a.storeFlag(), slices.Clone))
	}
}

// readEvent reads the event on stdin, for so long.
func (a *app) readEvent(agent *agents.Agent, patience time.Duration) (*agents.Event, error) {
	if a.stdin == nil {
		return nil, errors.New("no stdin")
	}
	type result struct {
		e   *agents.Event
		err error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r = result{err: fmt.Errorf("internal error: %v", p)}
			}
			done <- r
		}()
		r.e, r.err = agent.Read(a.stdin)
	}()
	select {
	case r := <-done:
		return r.e, r.err
	case <-time.After(patience):
		return nil, fmt.Errorf("stdin has not ended after %v", patience)
	}
}

// hookRoot finds the directory that an event is about.
func (a *app) hookRoot(agent *agents.Agent, e *agents.Event) (string, error) {
	if a.flags.root != "" {
		return a.root()
	}
	if dir := a.projectOf(agent); dir != "" {
		return dir, nil
	}
	if e.CWD == "" {
		return "", fmt.Errorf("event %s: no cwd", e.Name)
	}
	p, err := capture.ProjectAround(e.CWD)
	if err != nil {
		return "", err
	}
	return p.Root, nil
}

// projectOf returns the directory in which an agent says that it is at work, "" if it
// says nothing of the kind.
func (a *app) projectOf(agent *agents.Agent) string {
	if agent.Dir == "" {
		return ""
	}
	dir := a.getenv(agent.Dir)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return ""
	}
	return dir
}

// What has become of an event that an engine was asked to record.
type outcome int

const (
	notTaken outcome = iota
	queued           // it is recorded in the order of events, or was to be
	recorded
)

// hookThere has the event recorded by the resident engine, which is started if there is
// none. One that is known to hang is asked again when a session or a turn begins. One
// that is late is not waited for.
func (a *app) hookThere(ctx context.Context, dir string, e *agents.Event, late bool,
	answer *hookAnswer) (outcome, error) {
	if !a.isOn("engine") {
		return notTaken, nil
	}
	if hung := wire.KnownHung(dir); hung != nil && e.Name != agents.SessionStart && e.Name != agents.Prompt {
		return notTaken, hung
	}
	conn, err := wire.DialWithin(ctx, dir, hookAlive)
	if errors.Is(err, wire.ErrHung) {
		return notTaken, err // another could not serve beside it
	}
	if err != nil {
		if why, err := a.tooBroad(); err != nil || why != "" {
			return notTaken, err // which is said in time
		}
		start, cancel := context.WithTimeout(ctx, engineWait)
		defer cancel()
		if err := a.serveDetached(start, &serveFlags{idle: serveIdle}); err != nil {
			return notTaken, err
		}
		if conn, err = wire.DialWithin(ctx, dir, hookAlive); err != nil {
			return notTaken, err
		}
	}
	c := client.New(conn)
	defer c.Close()
	came, err := a.hookAsk(ctx, c, e, late, answer)
	if errors.Is(err, wire.ErrHung) {
		err = wire.NoteHung(dir)
	}
	return came, err
}

// errNotTaken: an engine that is late has not even said that it has the event.
var errNotTaken = errors.New("the resident engine is late, and has not said that it has the event")

// hasStore reports whether there may be a store.
func (a *app) hasStore() bool {
	dir, err := a.storeDir()
	if err != nil {
		return true // which is said elsewhere
	}
	_, err = os.Stat(dir)
	return !errors.Is(err, fs.ErrNotExist)
}

// tooBroad says why the directory would be refused.
func (a *app) tooBroad() (string, error) {
	project, err := capture.FindProject(a.flags.root)
	if err != nil {
		return "", err
	}
	home, _ := a.home()
	return project.TooBroad(home), nil
}

// hookAsk sends the event and waits for what came of it: for a moment at a start, and if
// the engine is late and others are before the event. The error matches [wire.ErrHung] if
// the engine falls silent.
func (a *app) hookAsk(ctx context.Context, c *client.Client, e *agents.Event, late bool,
	answer *hookAnswer) (outcome, error) {
	q := &hookRequest{Env: a.variables(sameEnvironment), Root: []byte(a.flags.root), Event: e}
	came := notTaken
	over, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	stop := context.AfterFunc(over, func() { c.Close() }) // the event is recorded, whoever waits for that
	defer stop()
	go watch(over, c, func() { leave(wire.ErrHung) })
	patience := time.AfterFunc(hookAlive, func() {
		if late {
			leave(errNotTaken)
		}
	})
	defer patience.Stop()
	err := c.Stream(context.WithoutCancel(ctx), "hook", q, answer, func(line []byte) error {
		var said hookQueued
		if err := json.Unmarshal(line, &said); err != nil {
			return err
		}
		came = queued
		patience.Stop()
		switch {
		case e.Tell && !(late && said.Behind):
			time.AfterFunc(tellWait, func() { leave(nil) })
		case e.Name == agents.SessionStart || e.Name == agents.Prompt || late && said.Behind:
			time.AfterFunc(startWait, func() { leave(nil) })
		}
		return nil
	})
	_, answered := errors.AsType[*client.Error](err)
	switch {
	case err == nil:
		return recorded, nil
	case answered: // if it was not taken the engine is of another version, say
		return came, err
	case errors.Is(context.Cause(over), wire.ErrHung), errors.Is(context.Cause(over), errNotTaken):
		return queued, context.Cause(over)
	case over.Err() != nil:
		return queued, ctx.Err() // whether it was taken or not: it has the directory's locks
	}
	return notTaken, err // it has died; what it had done by then can be done again
}
