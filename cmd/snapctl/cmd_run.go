package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
)

type runFlags struct {
	title string
	pause time.Duration
}

// runIn is the variable that says to programs within a run which directory is recorded.
const runIn = "BOO_RUN"

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{Use: "run -- COMMAND [ARG]...", Short: "Run any program as a session, which can be taken back",
		Args: args(1, 1<<20),
		RunE: func(cmd *cobra.Command, args []string) error { return a.runProgram(cmd.Context(), &f, args) }}
	c.Flags().StringVar(&f.title, "title", "", "what it is to do, as `TEXT` for people (default: the command line)")
	c.Flags().DurationVar(&f.pause, "quiet", 0, "end a turn when nothing has changed for so long as `TIME`")
	c.Flags().SetInterspersed(false)
	return c
}

// runProgram runs a program, and records what it changes. Whatever goes wrong with that
// is said, and does not stop the program; only how that ends is how the command ends.
func (a *app) runProgram(ctx context.Context, f *runFlags, args []string) error {
	if f.pause != 0 && f.pause < 100*time.Millisecond {
		return &failure{code: exitUsage, err: fmt.Errorf("--quiet %v: want 100ms or more", f.pause)}
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	ctx = context.WithoutCancel(ctx) // signals are the program's
	sig := catchSignals()            // from now on: one that comes before it has begun ends it at once
	defer sig.stop()
	r, err := a.beginRun(ctx, f, args)
	if err != nil {
		a.tell("snapctl: run: the program's changes are not recorded: %v", err)
	}
	if r != nil {
		cmd.Env = append(os.Environ(), runIn+"="+r.m.Project().Root)
	}
	if err := cmd.Start(); err != nil {
		if r != nil {
			r.end(ctx, nil)
		}
		code := 126 // as shells have it
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			code = 127
		}
		return &failure{code: code, err: fmt.Errorf("run %q: %w", args[0], err)}
	}
	done := make(chan struct{})
	var watched chan struct{}
	if r != nil && f.pause > 0 {
		watched = make(chan struct{})
		go func() {
			defer close(watched)
			r.watch(ctx, f.pause, done)
		}()
	}
	code, err := sig.wait(cmd)
	close(done)
	if r != nil {
		r.end(ctx, watched)
	}
	if err != nil {
		return fmt.Errorf("run %q: %w", args[0], err)
	}
	if code != 0 {
		return &failure{code: code}
	}
	return nil
}

// A recordedRun is a program that runs, and its session.
type recordedRun struct {
	app   *app
	m     *manager.FileSnapshotManager
	close func() error
	turn  manager.Turn
	turns int // that have ended
	open  bool
	begun store.ID // what was in the directory when the newest began

	secrets []string // files that were captured and seem to hold some
}

// beginRun begins a session and its first turn. It is nil, without an error, within a
// run in the same directory: that has the turn.
func (a *app) beginRun(ctx context.Context, f *runFlags, args []string) (r *recordedRun, err error) {
	root, err := a.root()
	if err != nil {
		return nil, err
	}
	e, err := a.newEngine()
	if err != nil {
		return nil, err
	}
	defer func() {
		if r == nil {
			err = errors.Join(err, e.Close())
		}
	}()
	session := a.flags.session
	if session == "" {
		var b [3]byte
		rand.Read(b[:]) // it never fails
		session = "run-" + time.Now().Format("20060102-150405") + "-" + hex.EncodeToString(b[:])
	}
	m, err := manager.Open(ctx, root, &manager.Options{Engine: e, Session: session, Adopt: true})
	if err != nil {
		return nil, err
	}
	if outer := a.getenv(runIn); outer == m.Project().Root {
		return nil, m.Close()
	}
	r = &recordedRun{app: a, m: m, turn: manager.Turn{Agent: filepath.Base(args[0]),
		Title: cmp.Or(f.title, strings.Join(args, " "))}}
	r.close = func() error { return errors.Join(m.Close(), e.Close()) }
	if err = r.begin(ctx); err != nil {
		err = errors.Join(err, m.Close())
		return nil, err
	}
	return r, nil
}

func (r *recordedRun) begin(ctx context.Context) error {
	look, err := r.m.OnTurnStart(ctx, &r.turn)
	if r.open = err == nil; r.open {
		r.begun = look.Tree
	}
	return err
}

// endTurn ends a turn. Behind others one that changed nothing is none.
func (r *recordedRun) endTurn(ctx context.Context) (err error) {
	var look *manager.Result
	if r.turns > 0 {
		look, err = r.m.Snapshot(ctx, &manager.SnapshotOptions{EndTurn: true, Partial: true})
	} else {
		look, err = r.m.OnTurnEnd(ctx, nil)
	}
	if err == nil {
		r.secrets = append(r.secrets, look.Secrets...)
		r.turns++
		r.open = false
	}
	return err
}

// watch ends a turn, and begins the next, whenever something has changed in it and then
// nothing for a time, until done. If the next cannot begin, as while a checkpoint is being
// restored, it is tried again.
func (r *recordedRun) watch(ctx context.Context, pause time.Duration, done <-chan struct{}) {
	tick := time.NewTicker(min(pause/4, time.Second))
	defer tick.Stop()
	last, since := r.begun, time.Now()
	var err error
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		var now store.ID
		if now, err = r.tree(ctx); err != nil {
			break
		}
		if !r.open {
			if r.begin(ctx) == nil {
				last, since = r.begun, time.Now()
			}
			continue
		}
		if now != last {
			last, since = now, time.Now()
		}
		if now == r.begun || time.Since(since) < pause {
			continue
		}
		if err = r.endTurn(ctx); err != nil {
			break
		}
		if err := r.begin(ctx); err != nil {
			r.app.tell("snapctl: run: the program's changes are not recorded until a turn can begin: %v", err)
		}
		r.begun = now
	}
	r.app.tell("snapctl: run: from here on all is recorded as one turn: %v", err)
}

// tree returns what is in the directory now. Nothing is kept of it.
func (r *recordedRun) tree(ctx context.Context) (store.ID, error) {
	t, _, err := inside.Of(r.m).Disk(ctx, new(capture.Options))
	if err != nil {
		return store.ID{}, err
	}
	return t.Tree, nil
}

// end ends the session. Whoever watches is waited for.
func (r *recordedRun) end(ctx context.Context, watched <-chan struct{}) {
	if watched != nil {
		<-watched
	}
	var err error
	if r.open {
		err = r.endTurn(ctx)
	}
	if err != nil {
		r.app.tell("snapctl: run: the program's changes were not recorded: %v", err)
	} else {
		r.app.startPrune(r.m)
	}
	(&place{app: r.app, project: r.m.Project()}).warnOfSecrets(r.secrets)
	if err := r.close(); err != nil {
		r.app.log.Warn("run not closed cleanly", "err", err)
	}
}
