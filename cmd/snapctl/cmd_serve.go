package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/cmd/snapctl/internal/rpc"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/version"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/wire"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
)

func (a *app) rpcCommand() *cobra.Command {
	return &cobra.Command{Use: "rpc", Short: "Answer a runtime's requests on stdin, as JSON lines",
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.stdin == nil {
				return errors.New("no stdin")
			}
			e, err := a.newEngine()
			if err != nil {
				return err
			}
			s := &rpc.Server{Engine: e, Version: version.String(), Logger: a.log, FinishAtEOF: true}
			// A signal ends it, and a read of stdin that waits cannot be ended.
			ctx := cmd.Context()
			in, pump := io.Pipe()
			go func() {
				_, err := io.Copy(pump, a.stdin)
				pump.CloseWithError(err)
			}()
			stop := context.AfterFunc(ctx, func() { pump.Close() })
			defer stop()
			err = s.Serve(ctx, in, a.stdout)
			if ctx.Err() != nil || errors.Is(err, syscall.EPIPE) {
				err = nil
			}
			return errors.Join(err, e.Close())
		}}
}

// newEngine returns an engine with what the flags and the environment say.
func (a *app) newEngine() (*manager.Engine, error) {
	root, err := a.storeRoot()
	if err != nil {
		return nil, err
	}
	home, git := a.home()
	e, err := manager.NewEngine(&manager.EngineOptions{StoreRoot: root, Home: home, Git: git, Logger: a.log,
		NoPrompts: a.noPrompts(), IgnoreFile: a.ignoreFile(), Limits: new(limitFlags).limits(a)})
	if err == nil {
		inside.OfEngine(e).BeforeAdopt(endServing)
	}
	return e, err
}

// serveIdle is after how long an engine ends that nobody asks for anything.
const serveIdle = 30 * time.Minute

type serveFlags struct {
	idle         time.Duration
	detach, stop bool
	http         httpFlags
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{Use: "serve", Short: "Stay, watch the directory and answer quickly",
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.http.check(cmd, &f); err != nil {
				return err
			}
			switch {
			case f.idle < 0:
				return usageError(cmd, "serve: --idle %v", f.idle)
			case f.detach && f.stop:
				return usageError(cmd, "serve: --detach and --stop")
			case f.stop:
				return a.stopServing(cmd.Context())
			case f.detach:
				return a.serveDetached(cmd.Context(), &f)
			}
			return a.serve(cmd.Context(), &f)
		}}
	c.Flags().DurationVar(&f.idle, "idle", serveIdle, "end after `TIME` without a client; 0: never")
	c.Flags().BoolVar(&f.detach, "detach", false,
		"run in the background, and return once it answers; no error if one runs already")
	c.Flags().BoolVar(&f.stop, "stop", false, "end the one that serves")
	f.http.add(c)
	return c
}

// serveGarbage is how much garbage an engine lets come together, in percent of
// what it has in use: 25 MB with 80,000 files. It is there all day, beside the
// user's own programs, and collecting takes 5 ms of a core for each 10 MB.
const serveGarbage = 40

func (a *app) serve(ctx context.Context, f *serveFlags) error {
	limitGarbage(serveGarbage)
	var open vfs.File // locked until all is closed: see stopServing
	defer func() {
		if open != nil {
			open.Close()
		}
	}()
	e, err := a.newEngine()
	if err != nil {
		return err
	}
	defer e.Close()
	root, err := a.root()
	if err != nil {
		return err
	}
	m, err := manager.Open(ctx, root, &manager.Options{Engine: e})
	if err != nil {
		return err
	}
	defer m.Close()
	l, err := rpc.Listen(m.StoreDir())
	if errors.Is(err, rpc.ErrServed) {
		return &failure{exitRefused, err, "'snapctl serve --stop' ends who does"}
	}
	if err != nil {
		return err
	}
	if open, err = vfs.OS(m.StoreDir()).OpenFile(layout.ServingLock, os.O_RDWR|os.O_CREATE, 0o600); err == nil {
		err = vfs.Lock(ctx, open, vfs.Shared)
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		l.Stop()
		time.AfterFunc(lastRequests, cancel)
	})()
	h := &hooks{app: a, engine: e, log: a.newHookLog(), last: make(map[hookSession]<-chan any)}
	s := &rpc.Server{Engine: e, Version: version.String(), Logger: a.log, Extra: a.extras(work, e, h, stop)}
	idle, endHTTP := f.idle, func() error { return nil }
	if f.http.addr != "" {
		idle = 0
		if endHTTP, err = a.serveHTTPBeside(ctx, e, m.StoreDir(), &f.http, stop); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	a.note("serving %s", words.Quote(m.StoreDir()))
	pushNow, endPushing := a.pushBehind(ctx, inside.Store(m))
	h.ended, s.Ended = pushNow, pushNow
	err = s.ServeAll(work, l, idle)
	h.all.Wait()
	stop()
	endPushing()
	return errors.Join(err, endHTTP(), l.Close()) // whoever comes next has a token of its own
}

// pushBehind pushes to the remotes of a store until end is called, which waits until that is done. That ctx ends
// does not end it: requests that are under way are still recorded. now has it not wait for more.
func (a *app) pushBehind(ctx context.Context, s *cas.Store) (now, end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p, done := newPusher(a, s), make(chan struct{})
	go func() {
		defer close(done)
		p.run(ctx)
	}()
	return p.hurry, func() {
		cancel()
		<-done
	}
}

// serveHTTPBeside serves checkpoints over HTTP until ctx ends. When that comes to an end
// it calls stop: neither is of use without the other. end does so, and waits for it.
func (a *app) serveHTTPBeside(ctx context.Context, e *manager.Engine, storeDir string, f *httpFlags, stop func()) (
	end func() error, err error) {
	web, err := a.serveHTTP(ctx, e, storeDir, f)
	if err != nil {
		return nil, err
	}
	go func() {
		<-web.ended
		stop()
	}()
	ended := make(chan error, 1)
	context.AfterFunc(ctx, func() { ended <- web.end() })
	return func() error {
		stop()
		return <-ended
	}, nil
}

// extras are what this program asks its own engine beside what others may. work is the
// context of what goes on when who asked has gone; stop ends the engine.
func (a *app) extras(work context.Context, e *manager.Engine, h *hooks, stop func()) map[string]rpc.Extra {
	return map[string]rpc.Extra{
		"cli": func(ctx context.Context, q json.RawMessage, emit func(any) error) (any, error) {
			return a.runFor(ctx, e, q, emit)
		},
		"hook": func(client context.Context, q json.RawMessage, emit func(any) error) (any, error) {
			return h.serve(work, client, q, emit)
		},
		"seal": func(context.Context, json.RawMessage, func(any) error) (any, error) {
			inside.OfEngine(e).Seal()
			return struct{}{}, nil
		},
		"shutdown": func(context.Context, json.RawMessage, func(any) error) (any, error) {
			stop()
			return struct{}{}, nil
		},
	}
}

// serveDetached starts a process that serves, unless there is one, and waits
// until it does. One that is coming to an end is waited for.
func (a *app) serveDetached(ctx context.Context, f *serveFlags) error {
	dir, err := a.storeDir()
	if err != nil {
		return err
	}
	late := time.After(endsWithin)
	for {
		c, err := wire.Dial(ctx, dir)
		if err == nil {
			return c.Close()
		}
		if errors.Is(err, wire.ErrHung) {
			return err
		}
		err = a.startServing(ctx, dir, f)
		if err == nil || !strings.Contains(err.Error(), rpc.ErrServed.Error()) { // as the process said it
			return err
		}
		for served := true; served; { // by who was faster, or is coming to an end
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-late:
				return err
			case <-time.After(10 * time.Millisecond):
			}
			c, derr := wire.Dial(ctx, dir)
			if derr == nil {
				return c.Close()
			}
			if served, derr = wire.IsServed(dir); derr != nil {
				return derr
			}
		}
	}
}

// startServing starts a process that serves, and waits until it does.
func (a *app) startServing(ctx context.Context, dir string, f *serveFlags) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	root, base, err := a.rootAndStores()
	if err == nil {
		root, err = filepath.Abs(root)
	}
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "serve", "--root", root, "--store", base, "--idle", f.idle.String(), "--quiet")
	cmd.Dir = string(filepath.Separator) // and not the user's, which it would keep busy
	cmd.SysProcAttr = detached()
	said, err := os.CreateTemp("", "snapctl-serve-")
	if err != nil { // TMPDIR is not there, or full
		said, err = os.CreateTemp(base, "snapctl-serve-")
	}
	if err != nil {
		return err
	}
	if os.Remove(said.Name()) != nil { // where what is open cannot be removed
		defer os.Remove(said.Name())
	}
	defer said.Close()
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		if c, err := wire.Dial(ctx, dir); err == nil {
			a.note("serving %s, process %d", words.Quote(dir), cmd.Process.Pid)
			return c.Close()
		}
		select {
		case err := <-ended:
			if err == nil { // it has served, and nobody came within --idle
				return nil
			}
			child := &app{storeTyped: true}
			child.flags.root, child.flags.store = root, base
			return notServing(err, said, child.snapctl())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// notServing returns the error of a process that was to serve, as it said it, but for commands: those
// begin with snapctl, as they are typed for that process.
func notServing(err error, said *os.File, snapctl string) error {
	b, rerr := io.ReadAll(io.NewSectionReader(said, 0, maxLastWords))
	text := strings.TrimPrefix(strings.TrimSpace(string(b)), "snapctl: ")
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || rerr != nil || text == "" {
		return errors.Join(fmt.Errorf("serve: %w", err), rerr)
	}
	text, hint, _ := strings.Cut(text, "\nhint: ")
	return &failure{exit.ExitCode(), errors.New(text), strings.ReplaceAll(hint, snapctl+" ", "snapctl ")}
}

const (
	// maxLastWords is how much is repeated of what a process said that did not
	// get to serve.
	maxLastWords = 64 << 10
	// endsWithin is lastRequests, and what it may take to take back what is
	// cancelled then.
	endsWithin = 30 * time.Second
)

func (a *app) stopServing(ctx context.Context) error {
	dir, err := a.storeDir()
	if err != nil {
		return err
	}
	err = stopEngine(ctx, dir)
	if errors.Is(err, errNobodyServes) {
		return refuse("", "no engine serves %q", dir)
	}
	return err
}

var errNobodyServes = errors.New("no engine serves the store")

// stopEngine ends the engine that serves a store, and waits until it has closed it.
func stopEngine(ctx context.Context, dir string) error {
	c, err := client.Dial(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return errNobodyServes
	}
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, endsWithin, &wire.HungError{StoreDir: dir, PID: wire.ServedBy(dir)})
	defer cancel()
	// whatever becomes of a request that is cancelled
	defer context.AfterFunc(ctx, func() { c.Close() })()
	// it may be faster than its answer
	if err := c.Call(ctx, "shutdown", nil, nil); err != nil && ctx.Err() == nil &&
		!errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	open, err := vfs.OS(dir).OpenFile(layout.ServingLock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer open.Close()
	for { // until others may serve, and write to its packs
		c, err := wire.Dial(ctx, dir)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			if closed, err := open.TryLock(vfs.Exclusive); closed || err != nil {
				return err
			}
		}
		if err == nil {
			c.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("serve: it does not end: %w", context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
}
