package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// EngineOptions are the choices at [NewEngine].
type EngineOptions struct {
	// StoreRoot is the directory that holds the stores of all projects, e.g.
	// ~/.boo/file-store. It must be given.
	StoreRoot string

	Home   string       // the user's home, which is too broad a directory; default unknown
	Git    tree.GitEnv  // where git's configuration is
	Logger *slog.Logger // nil: nothing is logged
}

// An Engine keeps open what managers in one process that stays have in common:
// the stores, and for each directory the stat cache and the watch on it, so that
// the end of a turn costs what has changed. What changes is stored soon after it
// has settled, before anybody asks. It may be used from several goroutines.
type Engine struct {
	opts     EngineOptions
	resident bool

	mu     sync.Mutex // guards the rest
	trees  map[string]*worktree
	closed bool
	stop   context.CancelFunc
	ctx    context.Context
	tasks  sync.WaitGroup
}

// A worktree is a directory with what is open of it.
type worktree struct {
	project *tree.Project
	dir     string // of the store
	store   *store.Store
	turns   chan struct{} // holds one while a manager has the lock on the turns

	mu     sync.Mutex // guards the rest
	ws     *tree.Workspace
	limits tree.Limits        // of the last capture that somebody asked for
	yield  context.CancelFunc // ends one that nobody did
}

// NewEngine returns an engine with nothing open. Close it.
func NewEngine(opts *EngineOptions) (*Engine, error) {
	e := newEngine(opts)
	e.resident = true
	if opts.StoreRoot == "" {
		return nil, errNoStoreRoot
	}
	return e, nil
}

var errNoStoreRoot = errors.New("no StoreRoot: where are stores to be kept?")

func newEngine(opts *EngineOptions) *Engine {
	e := &Engine{opts: *opts, trees: make(map[string]*worktree)}
	if e.opts.Logger == nil {
		e.opts.Logger = slog.New(slog.DiscardHandler)
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	return e
}

// Close closes all that is open. The managers must be closed.
func (e *Engine) Close() error {
	e.stop()
	e.tasks.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	var errs []error
	stores := make(map[*store.Store]bool)
	for _, wt := range e.trees {
		if wt.ws != nil {
			errs = append(errs, wt.ws.Close())
		}
		stores[wt.store] = true
	}
	for s := range stores {
		errs = append(errs, s.Close())
	}
	clear(e.trees)
	return errors.Join(errs...)
}

// open returns the worktree of a directory, with its store open.
func (e *Engine) open(ctx context.Context, root string, opts *Options) (*worktree, error) {
	st, err := os.Stat(root)
	if err == nil && !st.IsDir() {
		err = &fs.PathError{Op: "open", Path: root, Err: errors.New("not a directory")}
	}
	if err != nil {
		return nil, err
	}
	project, err := tree.FindProject(root)
	if err != nil {
		return nil, err
	}
	if why := project.TooBroad(e.opts.Home); why != "" && !opts.AllowBroad && !opts.ReadOnly {
		return nil, fmt.Errorf("root %q: %w: it is %s", project.Root, ErrTooBroad, why)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, fs.ErrClosed
	}
	if wt := e.trees[project.Root]; wt != nil && wt.project.Main == project.Main {
		return wt, nil
	}
	wt := newWorktree(project, filepath.Join(e.opts.StoreRoot, project.Hash()), nil)
	for _, other := range e.trees {
		if other.dir == wt.dir {
			wt.store = other.store
		}
	}
	readOnly := opts.ReadOnly
	if e.resident && readOnly { // others may write
		if _, err := os.Stat(filepath.Join(wt.dir, "FORMAT")); err != nil {
			return nil, err
		}
		readOnly = false
	}
	if wt.store == nil {
		wt.store, err = store.Open(ctx, wt.dir, &store.Options{Root: project.Main, ReadOnly: readOnly, Logger: e.opts.Logger})
		if err != nil {
			return nil, err
		}
	}
	e.trees[project.Root] = wt
	return wt, nil
}

func newWorktree(project *tree.Project, dir string, s *store.Store) *worktree {
	return &worktree{project: project, dir: dir, store: s, turns: make(chan struct{}, 1)}
}

// workspace prepares the directory for being captured.
func (e *Engine) workspace(wt *worktree) (*tree.Workspace, error) {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	if wt.ws != nil {
		return wt.ws, nil
	}
	ws, err := wt.project.Open(&tree.WorkspaceOptions{Store: wt.store, StoreDir: e.opts.StoreRoot, Git: e.opts.Git, Logger: e.opts.Logger, Resident: e.resident})
	if err != nil {
		return nil, err
	}
	wt.ws = ws
	if news := ws.News(); news != nil {
		e.tasks.Go(func() { e.settle(wt, ws, news) })
	}
	return ws, nil
}

// hurry makes way for a capture that somebody waits for.
func (wt *worktree) hurry(limits tree.Limits) {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	wt.limits = limits
	if wt.yield != nil {
		wt.yield()
	}
}

// WatchStats returns what the watch on each directory has been through, by real
// path.
func (e *Engine) WatchStats() map[string]tree.WatchStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	stats := make(map[string]tree.WatchStats)
	for root, wt := range e.trees {
		wt.mu.Lock()
		if wt.ws != nil {
			stats[root] = wt.ws.WatchStats()
		}
		wt.mu.Unlock()
	}
	return stats
}

const (
	// calm is how long nothing must have changed before it is stored unasked,
	// and settleEvery how often that is done at most.
	calm        = 300 * time.Millisecond
	settleEvery = 2 * time.Second
	// doubtEvery is after how long all files are looked at, whatever the watcher
	// says: it hears nothing of writes through a mapping, or through a name that
	// a file was given outside.
	doubtEvery = 5 * time.Minute
	// saveEvery is how often the stat cache is written for other processes.
	saveEvery = time.Minute
	// settleBytes bounds what is stored unasked at a time.
	settleBytes = 256 << 20
)

// settle stores what changes in a directory once it has settled, until the
// engine is closed.
func (e *Engine) settle(wt *worktree, ws *tree.Workspace, news <-chan struct{}) {
	doubt, save := time.NewTicker(doubtEvery), time.NewTicker(saveEvery)
	defer doubt.Stop()
	defer save.Stop()
	for e.ctx.Err() == nil {
		select {
		case <-e.ctx.Done():
			return
		case <-doubt.C:
			ws.Doubt()
			if err := e.store(wt, ws); err != nil && e.ctx.Err() == nil {
				e.opts.Logger.Debug("not looked at all files", "root", wt.project.Root, "err", err)
			}
		case <-save.C:
			if err := ws.SaveCache(); err != nil {
				e.opts.Logger.Warn("stat cache not saved", "root", wt.project.Root, "err", err)
			}
		case <-news:
			e.wait(calm, news)
			if err := e.store(wt, ws); err != nil && e.ctx.Err() == nil {
				e.opts.Logger.Debug("not stored ahead", "root", wt.project.Root, "err", err)
			}
			e.wait(settleEvery, nil)
		}
	}
}

// wait waits until nothing has been heard for some time, but not for ever.
func (e *Engine) wait(quiet time.Duration, news <-chan struct{}) {
	t := time.NewTimer(quiet)
	defer t.Stop()
	for range 10 {
		select {
		case <-news:
			t.Reset(quiet)
		case <-t.C:
			return
		case <-e.ctx.Done():
			return
		}
	}
}

// store captures a directory and records nothing: whoever does finds that most
// is there.
func (e *Engine) store(wt *worktree, ws *tree.Workspace) error {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	wt.mu.Lock()
	limits := wt.limits
	wt.yield = cancel
	wt.mu.Unlock()
	w, err := wt.store.Begin(ctx)
	if err != nil {
		return err
	}
	limits.NewBytes, limits.Time = settleBytes, defaultTime
	_, err = ws.Capture(ctx, w, &tree.CaptureOptions{Limits: limits, Partial: true, Workers: 1})
	return errors.Join(err, w.Close())
}
