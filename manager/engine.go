package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
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

	// IgnoreFile has patterns for all projects, in the syntax of a .booignore, which is above
	// it; it is read at each capture. Default: none.
	IgnoreFile string

	NoPrompts bool // keep no Title of a [Turn]; default: they are kept

	Limits tree.Limits // of captures, where [Options] of a manager have none; default: as there

	MaxWatches int // directories that are watched at most, in each tree; default: all that the system allows
}

// An Engine keeps open what managers in one process that stays have in common:
// the stores, and for each directory the stat cache and the watch on it, so that
// the end of a turn costs what has changed. What changes is stored soon after it
// has settled, before anybody asks. It may be used from several goroutines.
type Engine struct {
	opts     EngineOptions
	resident bool
	stop     context.CancelFunc // ends care
	cared    chan struct{}      // closed when it has ended

	beforeAdopt func(ctx context.Context, storeDir string) error // see [inside.EngineDoor]; may be nil

	mu     sync.Mutex // guards the rest
	trees  map[string]*worktree
	yield  context.CancelFunc // ends what care does while nobody works; nil: nothing
	closed bool
}

// A worktree is a directory with what is open of it.
type worktree struct {
	project *capture.Project
	dir     string // of the store
	store   *cas.Store
	pages   *trees.Pages  // of the store, for who reads the newest trees
	turns   chan struct{} // holds one while a manager has the lock on the turns

	mu      sync.Mutex // guards the rest
	ws      *capture.Workspace
	stop    context.CancelFunc // ends settle
	settled chan struct{}      // closed when it has ended
	limits  tree.Limits        // of the last capture that somebody asked for
	waiting int                // captures that somebody asked for
	yield   context.CancelFunc // ends one that nobody did

	managers int       // that have it open; guarded by the engine's mu, changed by use
	idle     time.Time // since when there is none
}

// NewEngine returns an engine with nothing open. Close it.
func NewEngine(opts *EngineOptions) (*Engine, error) {
	e := newEngine(cmp.Or(opts, new(EngineOptions)))
	e.resident = true
	if e.opts.StoreRoot == "" {
		return nil, errNoStoreRoot
	}
	var ctx context.Context
	ctx, e.stop = context.WithCancel(context.Background())
	e.cared = make(chan struct{})
	go func() {
		defer close(e.cared)
		e.care(ctx)
	}()
	return e, nil
}

var errNoStoreRoot = errors.New("no StoreRoot: where are stores to be kept?")

func newEngine(opts *EngineOptions) *Engine {
	e := &Engine{opts: *opts, trees: make(map[string]*worktree)}
	if e.opts.Logger == nil {
		e.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return e
}

// Close closes all that is open. The managers must be closed.
func (e *Engine) Close() error {
	if e.stop != nil {
		e.stop()
		<-e.cared
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	var errs []error
	stores := make(map[*cas.Store]bool)
	for _, wt := range e.trees {
		errs = append(errs, wt.close())
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
	if st, err := os.Stat(root); err == nil && !st.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: root, Err: errors.New("not a directory")}
	}
	loc, err := inside.Location(ctx), error(nil)
	if loc == nil {
		loc, err = places.Locate(e.opts.StoreRoot, root)
	}
	if err == nil && loc.Gone && !opts.ReadOnly {
		_, err = os.Stat(root)
	}
	if err != nil {
		return nil, err
	}
	project := loc.Project
	if why := project.TooBroad(e.opts.Home); why != "" && !opts.AllowBroad && !opts.ReadOnly {
		return nil, fmt.Errorf("root %q: %w: it is %s", project.Root, ErrTooBroad, why)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, fs.ErrClosed
	}
	if loc.Moved != nil {
		if loc, err = e.followMoved(ctx, loc, root, opts); err != nil {
			return nil, err
		}
		project = loc.Project
	}
	if wt := e.trees[project.Root]; wt != nil && wt.project.Main == project.Main {
		e.use(wt)
		return wt, nil
	}
	if old := e.trees[project.Root]; old != nil && old.managers > 0 {
		return nil, fmt.Errorf("root %q: %w: its repository has become another, and a session has it open",
			project.Root, ErrTurnOpen)
	} else if old != nil {
		e.drop(old)
	}
	e.dropIdle(maxIdle - 1)
	s, err := e.storeAt(ctx, loc.Dir, project.Main, opts.ReadOnly)
	if err != nil {
		return nil, err
	}
	if !opts.ReadOnly { // that it could not only means that it is not recognised elsewhere
		if err := loc.Note(ctx, s.FS()); err != nil {
			e.opts.Logger.Warn("it is not written down which directory it is", "root", project.Root, "err", err)
		}
	}
	wt := newWorktree(project, loc.Dir, s)
	e.trees[project.Root] = wt
	e.use(wt)
	return wt, nil
}

// followMoved has the history of a directory that was moved go on, if it is to, and returns
// where the store is then.
func (e *Engine) followMoved(ctx context.Context, loc *places.Location, root string, opts *Options) (
	*places.Location, error) {
	mv := loc.Moved
	switch {
	case mv.Sure && !opts.ReadOnly && (opts.Adopt || e.resident):
		if err := e.adoptMoved(ctx, mv); err != nil {
			return nil, fmt.Errorf("root %q: %w", root, err)
		}
		return places.Locate(e.opts.StoreRoot, root)
	case mv.Sure || !opts.Adopt && !e.resident:
		return nil, &places.MovedError{Moved: *mv}
	case !opts.ReadOnly:
		e.opts.Logger.Warn("the directory begins a history of its own: it may have that of one that is gone",
			"root", loc.Project.Root, "gone", mv.From)
	}
	return loc, nil
}

// storeAt returns the store in a directory, which may be open already. root is the path of its
// project.
func (e *Engine) storeAt(ctx context.Context, dir, root string, readOnly bool) (s *cas.Store, err error) {
	for _, other := range e.trees {
		if other.dir == dir {
			s = other.store
		}
	}
	if e.resident && readOnly { // others may write
		if _, err := cas.Describe(vfs.OS(dir)); err != nil {
			return nil, err
		}
		readOnly = false
	}
	if s != nil {
		return s, nil
	}
	return cas.Open(ctx, dir, &cas.Options{Root: root, ReadOnly: readOnly, Logger: e.opts.Logger})
}

const (
	// keepIdle is how long a directory stays open that no manager has, and
	// maxIdle how many do.
	keepIdle = 10 * time.Minute
	maxIdle  = 8
)

// release says that a manager is done with a worktree.
func (e *Engine) release(wt *worktree) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if wt.managers--; wt.managers == 0 {
		wt.idle = time.Now()
		e.dropIdle(maxIdle)
		time.AfterFunc(keepIdle, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.dropIdle(maxIdle)
		})
	}
}

// dropIdle closes worktrees that no manager has, until there are only so many,
// and those that nobody has had for long. The caller holds mu.
func (e *Engine) dropIdle(keep int) {
	var idle []*worktree
	for _, wt := range e.trees {
		if wt.managers == 0 {
			idle = append(idle, wt)
		}
	}
	slices.SortFunc(idle, func(a, b *worktree) int { return b.idle.Compare(a.idle) })
	for i, wt := range idle {
		if i >= keep || time.Since(wt.idle) >= keepIdle {
			e.drop(wt)
		}
	}
}

// drop closes a worktree that no manager has. The caller holds mu.
func (e *Engine) drop(wt *worktree) {
	delete(e.trees, wt.project.Root)
	err := wt.close()
	if !slices.ContainsFunc(slices.Collect(maps.Values(e.trees)),
		func(other *worktree) bool { return other.store == wt.store }) {
		err = errors.Join(err, wt.store.Close())
	}
	if err != nil {
		e.opts.Logger.Warn("directory not closed cleanly", "root", wt.project.Root, "err", err)
	}
}

// close ends what goes on in a worktree.
func (wt *worktree) close() error {
	wt.mu.Lock()
	ws, stop, settled := wt.ws, wt.stop, wt.settled
	wt.mu.Unlock()
	if stop != nil {
		stop()
		<-settled
	}
	if ws == nil {
		return nil
	}
	return ws.Close()
}

func newWorktree(project *capture.Project, dir string, s *cas.Store) *worktree {
	return &worktree{project: project, dir: dir, store: s, pages: trees.NewPages(s), turns: make(chan struct{}, 1)}
}

// workspace prepares the directory for being captured.
func (e *Engine) workspace(wt *worktree) (*capture.Workspace, error) {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	if wt.ws != nil {
		return wt.ws, nil
	}
	ws, err := wt.project.Open(&capture.WorkspaceOptions{Store: wt.store, StoreDir: e.opts.StoreRoot, Git: e.opts.Git,
		IgnoreFile: e.opts.IgnoreFile, Logger: e.opts.Logger, Resident: e.resident, MaxWatches: e.opts.MaxWatches,
		Pages: wt.pages})
	if err != nil {
		return nil, err
	}
	wt.ws = ws
	if news := ws.News(); news != nil {
		var ctx context.Context
		ctx, wt.stop = context.WithCancel(context.Background())
		wt.settled = make(chan struct{})
		go func() {
			defer close(wt.settled)
			e.settle(ctx, wt, ws, news)
		}()
	}
	return ws, nil
}

// capture captures the worktree for somebody who waits: what is stored unasked
// makes way.
func (e *Engine) capture(ctx context.Context, wt *worktree, sink capture.Sink,
	opts *capture.Options) (*tree.Result, error) {
	ws, err := e.workspace(wt)
	if err != nil {
		return nil, err
	}
	wt.mu.Lock()
	if opts != nil {
		wt.limits = opts.Limits
	}
	wt.waiting++
	if wt.yield != nil {
		wt.yield()
	}
	wt.mu.Unlock()
	defer func() {
		wt.mu.Lock()
		wt.waiting--
		wt.mu.Unlock()
	}()
	return ws.Capture(ctx, sink, opts)
}

const (
	// calm is how long nothing must have changed before it is stored unasked,
	// and settleEvery how often that is done at most.
	calm        = 300 * time.Millisecond
	settleEvery = 200 * time.Millisecond
	// doubtAfter is after how long all files are looked at, whatever the watcher
	// says: it hears nothing of writes through a mapping, or through a name that
	// a file was given outside. That makes way for turns; if it has for as long
	// again, the next of them pays for it.
	doubtAfter = 5 * time.Minute
	// tendEvery is how often the stat cache is written for other processes, and
	// asked whether all files are to be looked at.
	tendEvery = time.Minute
	// settleBytes bounds what is stored unasked at a time.
	settleBytes = 256 << 20
)

// settle stores what changes in a directory once it has settled, until the
// engine is closed.
func (e *Engine) settle(ctx context.Context, wt *worktree, ws *capture.Workspace, news <-chan struct{}) {
	tend := time.NewTicker(tendEvery)
	defer tend.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tend.C:
			if err := ws.SaveCache(); err != nil {
				e.opts.Logger.Warn("stat cache not saved", "root", wt.project.Root, "err", err)
			}
			e.lookAtAll(ctx, wt, ws)
		case <-news:
			wait(ctx, calm, news)
			if err := e.store(ctx, wt, ws, false); err != nil && ctx.Err() == nil {
				e.opts.Logger.Debug("not stored ahead", "root", wt.project.Root, "err", err)
			}
			wait(ctx, settleEvery, nil)
		}
	}
}

// lookAtAll looks at all files of a directory if that is due.
func (e *Engine) lookAtAll(ctx context.Context, wt *worktree, ws *capture.Workspace) {
	if at, due := ws.LookedAtAll(); !due && time.Since(at) < doubtAfter {
		return
	}
	if err := e.store(ctx, wt, ws, true); err != nil && ctx.Err() == nil {
		e.opts.Logger.Debug("not looked at all files", "root", wt.project.Root, "err", err)
	}
	if at, _ := ws.LookedAtAll(); time.Since(at) > 2*doubtAfter {
		ws.Doubt()
	}
}

// wait waits until nothing has been heard for some time, but not for ever.
func wait(ctx context.Context, quiet time.Duration, news <-chan struct{}) {
	t := time.NewTimer(quiet)
	defer t.Stop()
	for range 10 {
		select {
		case <-news:
			t.Reset(quiet)
		case <-t.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// store captures a directory and records nothing: whoever does finds that most
// is there. all says to look at all files.
func (e *Engine) store(ctx context.Context, wt *worktree, ws *capture.Workspace, all bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wt.mu.Lock()
	limits, busy := wt.limits, wt.waiting > 0
	wt.yield = cancel
	wt.mu.Unlock()
	if busy { // who waits will see to it
		return nil
	}
	keep := wt.store.Reserve(0)
	if err := wt.store.CheckSpace(wt.dir, keep); err != nil {
		return err
	}
	w, err := wt.store.Begin(ctx)
	if err != nil {
		return err
	}
	w.KeepFree(keep, wt.dir)
	w.Single()
	limits.NewBytes, limits.Time = settleBytes, defaultTime
	_, err = ws.Capture(ctx, w, &capture.Options{Limits: limits, Partial: true, Workers: 1, All: all})
	return errors.Join(err, w.Close())
}
