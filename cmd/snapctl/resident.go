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
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/rpc"
	"github.com/boocode/filestore/manager"
)

// Commands that look at all files are run by the process that serves the store,
// if there is one: the very same code, with an engine that knows what has
// changed. What it prints comes back and is printed here.

// A cliRequest asks a resident engine to run a command line.
type cliRequest struct {
	ID     int               `json:"id"`
	Type   string            `json:"type"`
	Build  string            `json:"build"` // of this program: another may print other things
	Args   [][]byte          `json:"args"`  // which need not be UTF-8
	CWD    []byte            `json:"cwd"`
	Env    map[string]string `json:"env"`
	Stdout bool              `json:"stdoutIsTerminal"`
	Stderr bool              `json:"stderrIsTerminal"`
}

// A cliEvent is what the command prints, or the response.
type cliEvent struct {
	ID     int             `json:"id,omitempty"`
	Type   string          `json:"type"` // "output", "alive", or "response"
	Stream int             `json:"stream,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"` // bytes, or a cliEnd
	Error  string          `json:"error,omitempty"`
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
	sum := sha256.Sum256([]byte(info.String()))
	return hex.EncodeToString(sum[:8])
}

// environment is what commands read of it, and sameEnvironment what the engine
// has read by then: where that is another the command runs here.
var (
	environment     = []string{"HOME", "XDG_CONFIG_HOME", "TZ", "BOO_STORE", "BOO_SESSION", "NO_COLOR", "TERM", "SNAPCTL_DEBUG"}
	sameEnvironment = []string{"HOME", "XDG_CONFIG_HOME", "TZ"}
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
func hintHung(e *rpc.HungError) string {
	if e.PID == 0 {
		return "'snapctl serve --stop' ends one that answers again"
	}
	return fmt.Sprintf("'kill -CONT %d' has a stopped one go on; 'kill -9 %d' ends it, and what it has recorded stays", e.PID, e.PID)
}

// resident runs a command by the resident engine if there is one, and else here.
func (a *app) resident(fn func(cmd *cobra.Command, args []string) error) func(cmd *cobra.Command, args []string) error {
	return func(cmd *cobra.Command, args []string) error {
		code, done, err := a.runThere(cmd.Context())
		switch {
		case err != nil:
			return err
		case done && code == 0:
			return nil
		case done:
			return &failure{code: code}
		}
		return fn(cmd, args)
	}
}

// runThere has the command line run by the resident engine. Not done: there is
// none, or none that could.
func (a *app) runThere(ctx context.Context) (code int, done bool, err error) {
	if a.engine != nil || a.getenv("BOO_ENGINE") == "off" {
		return 0, false, nil
	}
	loc, err := a.locate()
	if err != nil || loc.Moved != nil || loc.Gone {
		return 0, false, nil // which the command says better
	}
	conn, err := rpc.Dial(ctx, loc.Dir)
	if err != nil {
		if hung, ok := errors.AsType[*rpc.HungError](err); ok {
			a.note("%v: done without it (%s)", hung, hintHung(hung))
		}
		return 0, false, nil
	}
	defer conn.Close()
	q := &cliRequest{ID: 1, Type: "cli", Build: build(), Env: make(map[string]string), Stdout: isTerminal(a.stdout), Stderr: isTerminal(a.stderr)}
	cwd, err := os.Getwd()
	if err != nil {
		return 0, false, nil
	}
	q.CWD = []byte(cwd)
	for _, arg := range a.args {
		q.Args = append(q.Args, []byte(arg))
	}
	for _, name := range environment {
		if v := a.getenv(name); v != "" {
			q.Env[name] = v
		}
	}
	line, err := json.Marshal(q)
	if err != nil {
		return 0, false, err
	}
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return 0, false, nil
	}
	stop := context.AfterFunc(ctx, func() {
		fmt.Fprintln(conn, `{"id":2,"type":"cancel","requestId":1}`)
		conn.SetReadDeadline(time.Now().Add(lastWord))
	})
	defer stop()
	in := bufio.NewReader(conn)
	printed := false
	for {
		conn.SetReadDeadline(time.Now().Add(goesOnWithin))
		if ctx.Err() != nil { // it may have ended before
			conn.SetReadDeadline(time.Now().Add(lastWord))
		}
		line, err := in.ReadBytes('\n')
		var e cliEvent
		if err == nil {
			err = json.Unmarshal(line, &e)
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return 0, false, context.Canceled
		case errors.Is(err, os.ErrDeadlineExceeded): // what it has of the command, and of locks, is not known
			return 0, false, &failure{exitEnvironment, fmt.Errorf("the resident engine has not gone on for %v: it is not known what became of the command", goesOnWithin), "'snapctl serve --stop' says which process it is"}
		case err != nil && printed:
			return 0, false, fmt.Errorf("the resident engine has died meanwhile: run the command again (%w)", err)
		case err != nil:
			return 0, false, nil
		case e.ID != 1, e.Type == "alive":
		case e.Type == "output":
			var b []byte
			if err := json.Unmarshal(e.Data, &b); err != nil {
				return 0, false, err
			}
			printed = true
			w := a.stdout
			if e.Stream == 2 {
				w = a.stderr
			}
			if _, err := w.Write(b); err != nil {
				return 0, false, fmt.Errorf("write output: %w", err)
			}
		case e.Error != "" && printed:
			return 0, false, fmt.Errorf("resident engine: %s", e.Error)
		case e.Error != "": // it is of another version, say
			return 0, false, nil
		default:
			var end cliEnd
			err := json.Unmarshal(e.Data, &end)
			return end.ExitCode, err == nil, err
		}
	}
}

// A cliWriter sends what is printed to the client.
type cliWriter struct {
	emit     func(any) error
	id       int
	stream   int
	terminal bool
}

func (w *cliWriter) Write(b []byte) (int, error) {
	data, err := json.Marshal(b)
	if err == nil {
		err = w.emit(&cliEvent{ID: w.id, Type: "output", Stream: w.stream, Data: data})
	}
	if err != nil {
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
	for _, name := range sameEnvironment {
		if a.getenv(name) != q.Env[name] {
			return nil, fmt.Errorf("another %s", name)
		}
	}
	c := &app{cwd: string(q.CWD), engine: e, getenv: func(name string) string { return q.Env[name] }}
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
