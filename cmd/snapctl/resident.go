package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/internal/version"
	"github.com/boocode/filestore/internal/wire"
	"github.com/boocode/filestore/manager"
)

// Commands that look at all files are run by the process that serves the store,
// if there is one: the very same code, with an engine that knows what has
// changed. What it prints comes back and is printed here.

// A cliRequest asks a resident engine to run a command line.
type cliRequest struct {
	ID     int               `json:"id,omitempty"`
	Build  string            `json:"build"` // of this program: another may print other things
	Args   [][]byte          `json:"args"`  // which need not be UTF-8
	CWD    []byte            `json:"cwd"`
	Env    map[string]string `json:"env"`
	Stdout bool              `json:"stdoutIsTerminal"`
	Stderr bool              `json:"stderrIsTerminal"`

	Columns int `json:"columns,omitempty"` // of the terminal of stdout
	Rows    int `json:"rows,omitempty"`
}

// A cliEvent is what the command prints, or says that it goes on.
type cliEvent struct {
	ID     int    `json:"id,omitempty"`
	Type   string `json:"type"` // "output" or "alive"
	Stream int    `json:"stream,omitempty"`
	Data   []byte `json:"data,omitempty"`
}

type cliEnd struct {
	ExitCode int `json:"exitCode"`
}

// build identifies this program.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	sum := sha256.Sum256([]byte(version.String() + info.String()))
	return hex.EncodeToString(sum[:8])
}

// environment is what commands read of it, and sameEnvironment what the engine
// has read by then: where that is another the command runs here.
var (
	environment = slices.Concat(sameEnvironment, linkVariables,
		[]string{"BOO_STORE", "BOO_SESSION", "NO_COLOR", "TERM", "SNAPCTL_DEBUG"})
	sameEnvironment = []string{"HOME", "XDG_CONFIG_HOME", "AppData", "TZ"}
)

// lastWord is how long an interrupted command waits for the engine to say that it
// has ended.
const lastWord = 3 * time.Second

const (
	// aliveEvery is how often an engine says that it is at work on a command, and
	// goesOnWithin after how long without that it is given up. It takes a goroutine
	// and a write, so ten in a row are not late because others are at work, too.
	aliveEvery   = time.Second
	goesOnWithin = 10 * time.Second
)

// hintHung says what to do about an engine that does not answer.
func hintHung(e *wire.HungError) string {
	if e.PID == 0 {
		return "'snapctl serve --stop' ends one that answers again"
	}
	return fmt.Sprintf("'kill -CONT %[1]d' wakes it if it was stopped; 'kill -9 %[1]d' ends it, "+
		"and loses nothing that it has recorded", e.PID)
}

// resident runs a command by the resident engine if there is one, and else here.
func (a *app) resident(fn func(cmd *cobra.Command, args []string) error) func(cmd *cobra.Command, args []string) error {
	return func(cmd *cobra.Command, args []string) error {
		done, err := a.runThere(cmd.Context())
		if done || err != nil {
			return err
		}
		return fn(cmd, args)
	}
}

// runThere has the command line run by the resident engine, and returns the failure that its
// exit code stands for. Not done: there is no engine, or none that could.
func (a *app) runThere(ctx context.Context) (done bool, err error) {
	if a.engine != nil || !a.isOn("engine") {
		return false, nil
	}
	loc, err := a.locate()
	if err != nil || loc.Moved != nil || loc.Gone {
		return false, nil // which the command says better
	}
	c, err := client.Dial(ctx, loc.Dir)
	if err != nil {
		if hung, ok := errors.AsType[*wire.HungError](err); ok {
			a.note("%v: done without it (%s)", hung, hintHung(hung))
		}
		return false, nil
	}
	defer c.Close()
	q, err := a.cliRequest()
	if err != nil {
		return false, nil
	}
	return a.followThere(ctx, c, q)
}

// followThere sends the command line and prints what it prints, as long as the engine goes
// on with it.
func (a *app) followThere(ctx context.Context, c *client.Client, q *cliRequest) (done bool, err error) {
	silent := time.AfterFunc(goesOnWithin, func() { c.Close() })
	defer silent.Stop()
	defer context.AfterFunc(ctx, func() { silent.Reset(lastWord) })()
	printed := false
	var werr error
	var end cliEnd
	err = c.Stream(ctx, "cli", q, &end, func(line []byte) error {
		if ctx.Err() == nil {
			silent.Reset(goesOnWithin)
		}
		var e cliEvent
		if err := json.Unmarshal(line, &e); err != nil || e.Type != "output" {
			return err
		}
		printed = true
		w := a.stdout
		if e.Stream == 2 {
			w = a.stderr
		}
		_, werr = w.Write(e.Data)
		return werr
	})
	_, said := errors.AsType[*client.Error](err)
	switch {
	case err == nil && end.ExitCode != exitDone:
		return true, &failure{code: end.ExitCode}
	case err == nil:
		return true, nil
	case werr != nil:
		return false, fmt.Errorf("write output: %w", werr)
	case ctx.Err() != nil:
		return false, context.Canceled
	case !said && !silent.Stop(): // what it has of the command, and of locks, is not known
		err = fmt.Errorf("the engine has been silent for %v: it is not known whether it has done this",
			goesOnWithin)
		return false, &failure{exitEnvironment, err, "'snapctl serve --stop' says which process it is"}
	case !printed: // it has died, or is of another version, say
		return false, nil
	case said:
		return false, fmt.Errorf("resident engine: %w", err)
	}
	return false, fmt.Errorf("the engine has died: run the command again (%w)", err)
}

// cliRequest returns the command line, with what the command would read here.
func (a *app) cliRequest() (*cliRequest, error) {
	cwd, err := os.Getwd()
	q := &cliRequest{Build: build(), CWD: []byte(cwd), Env: a.variables(environment),
		Stdout: isTerminal(a.stdout), Stderr: isTerminal(a.stderr)}
	if q.Stdout {
		q.Columns, q.Rows = a.terminalSize()
	}
	for _, arg := range a.args {
		q.Args = append(q.Args, []byte(arg))
	}
	return q, err
}

// variables returns what some variables of the environment are, if they are set.
func (a *app) variables(names []string) map[string]string {
	env := make(map[string]string)
	for _, name := range names {
		if v := a.getenv(name); v != "" {
			env[name] = v
		}
	}
	return env
}

// mustHave returns an error if a variable of sameEnvironment is another in this process
// than in env, the client's environment.
func (a *app) mustHave(env map[string]string) error {
	for _, name := range sameEnvironment {
		if a.getenv(name) != env[name] {
			return fmt.Errorf("another %s", name)
		}
	}
	return nil
}

// A cliWriter sends what is printed to the client.
type cliWriter struct {
	emit     func(any) error
	id       int
	stream   int
	terminal bool
}

func (w *cliWriter) Write(b []byte) (int, error) {
	if err := w.emit(&cliEvent{ID: w.id, Type: "output", Stream: w.stream, Data: b}); err != nil {
		return 0, err
	}
	return len(b), nil
}

// IsTerminal says whether the client prints to one.
func (w *cliWriter) IsTerminal() bool { return w.terminal }

// runFor runs a client's command line.
func (a *app) runFor(ctx context.Context, e *manager.Engine, line json.RawMessage, emit func(any) error) (any, error) {
	var q cliRequest
	if err := json.Unmarshal(line, &q); err != nil {
		return nil, err
	}
	if q.Build != build() {
		return nil, errors.New("another build of snapctl")
	}
	if err := a.mustHave(q.Env); err != nil {
		return nil, err
	}
	c := &app{cwd: string(q.CWD), engine: e, nears: new(nears), columns: q.Columns, rows: q.Rows,
		getenv: func(name string) string { return q.Env[name] }}
	for _, arg := range q.Args {
		c.args = append(c.args, string(arg))
	}
	c.stdout = &cliWriter{emit, q.ID, 1, q.Stdout}
	c.stderr = &cliWriter{emit, q.ID, 2, q.Stderr}
	c.out = bufio.NewWriterSize(c.stdout, 64<<10)
	end := make(chan struct{})
	var signs sync.WaitGroup
	signs.Go(func() {
		tick := time.NewTicker(aliveEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				if emit(&cliEvent{ID: q.ID, Type: "alive"}) != nil {
					return
				}
			}
		}
	})
	code := c.run(ctx)
	close(end)
	signs.Wait()
	return &cliEnd{code}, nil
}
