package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/health"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/tree"
)

// Options are the choices at [Open].
type Options struct {
	// Engine shares what is open with other managers; StoreRoot, Home, Git,
	// IgnoreFile and NoPrompts are its own then, and so is Logger unless there is one
	// for what is about this manager alone. Default: nothing is shared.
	Engine *Engine

	// StoreRoot is the directory that holds the stores of all projects, e.g.
	// ~/.boo/file-store. It must be given.
	StoreRoot string

	// Session names the conversation: see [session.ValidID]. Without one only what
	// concerns no session can be asked for.
	Session string

	// AnySession lets Resolve find the entries of all sessions of the store.
	// Default: another session's entry is an error.
	AnySession bool

	// SessionFile is the runtime's log of the session, in pi's format. It is
	// only read, and may not be there yet unless the manager is ReadOnly.
	// Default: the session's entries are those that RebuildIndex is given, or
	// else the steps that were recorded.
	SessionFile string

	// ToolWindows says that the runtime tells of each tool by OnToolStart and
	// OnToolEnd: what changes between tools is the user's then. Default: the
	// whole turn is one window.
	ToolWindows bool

	// Detached says that a turn may end in another process than the one that
	// began it. Default: a turn whose process has died counts as interrupted.
	Detached bool

	// InTurn says that the manager works for a tool of the session's open turn, with
	// Detached: Snapshot, RestoreFiles, Undo and Redo, also in a preview, divide the
	// turn. What it has done so far is a turn of its own, and what it does from then
	// on another, with the same number. Default: these do not go with an open turn.
	InTurn bool

	// Adopt has a directory that was moved go on with the history of its old path, if
	// it surely is the same. Default: the error of Open matches [ErrMovedAway], and
	// 'snapctl adopt' does it for who was asked. Engines do so by themselves.
	Adopt bool

	// OnDirty is what becomes of dirty files in a restore, an undo, a redo or a navigation
	// that does not say. Default: [rollback.Skip].
	OnDirty rollback.Policy

	// NoPrompts keeps no Title of a [Turn]. Default: what was asked is kept in the store.
	NoPrompts bool

	ReadOnly   bool         // queries only; a store that does not exist is an error
	AllowBroad bool         // allow a home directory, a whole disk and the like
	Limits     tree.Limits  // of each capture; default: as there, and 60 s for a turn
	Home       string       // the user's home, which is too broad a directory; default unknown
	Git        tree.GitEnv  // where git's configuration is
	Logger     *slog.Logger // nil: nothing is logged

	// IgnoreFile has patterns for all projects, in the syntax of a .booignore, which is above
	// it; it is read at each capture. Default: none.
	IgnoreFile string

	// MinFree is how many bytes must be free where the store is for a turn to be
	// captured; restores go on. Default 256 MiB, or 2 % of a small disk;
	// negative: no limit.
	MinFree int64
}

// defaultTime bounds the capture of a turn: longer, and it is captured in
// part.
const defaultTime = 60 * time.Second

// A FileSnapshotManager records what the turns of one session do to the files
// of one directory, and answers questions about it.
//
// It may be used from several goroutines. What changes something waits for what
// does so, too; queries wait for less, and not for a capture. Managers of other
// sessions, and of other processes, may work on the same directory.
type FileSnapshotManager struct {
	opts    Options
	engine  *Engine
	tree    *worktree
	project *capture.Project
	store   *cas.Store
	log     *slog.Logger
	openDir func(path string) (vfs.Dir, error) // of the session, for restores

	closed    bool
	capturing atomic.Bool

	busy chan struct{} // holds one while something is being changed, which then has mu, too, but during a capture

	mu      sync.Mutex       // guards the rest
	file    *sessionlog.File // of Options.SessionFile
	given   *session.Tree    // by RebuildIndex
	mayEnd  bool             // while it may end a turn of the session that no process holds
	held    vfs.File         // locked while a turn is open here
	records *history.Records
	steps   map[*session.Entry]*history.Step // step-snapshots of the log that were read; nil: not ours
	index   *logIndex

	reads map[string]string // hashes of files that were read to be edited

	turnLeaf, turnLeafAt string // where a turn was said to begin, and the log's leaf then
}

// Open returns the manager of a session in a directory. It creates the store
// if there is none, and reads no file of the directory yet.
//
// Errors match [ErrTooBroad], [store.ErrFormat], [fs.ErrNotExist] for a directory that is
// not there or, read-only, has no store, and [ErrMovedAway] for one that has the history
// of a path that is gone. Read-only, a directory that is gone can be opened if a store
// knows it.
func Open(ctx context.Context, root string, opts *Options) (*FileSnapshotManager, error) {
	if opts == nil {
		opts = new(Options)
	}
	if opts.Engine == nil && opts.StoreRoot == "" {
		return nil, fmt.Errorf("open manager: %w", errNoStoreRoot)
	}
	if root == "" { // and not the directory that the program happens to be in
		return nil, fmt.Errorf("open manager: root %q: %w", root, fs.ErrNotExist)
	}
	if opts.Session != "" && !session.ValidID(opts.Session) {
		return nil, badSession(opts.Session)
	}
	if _, err := opts.OnDirty.MarshalText(); err != nil {
		return nil, fmt.Errorf("open manager: %w", err)
	}
	e := opts.Engine
	if e == nil {
		e = newEngine(&EngineOptions{StoreRoot: opts.StoreRoot, Home: opts.Home, Git: opts.Git, Logger: opts.Logger,
			NoPrompts: opts.NoPrompts, IgnoreFile: opts.IgnoreFile})
	}
	wt, err := e.open(ctx, root, opts)
	if err != nil {
		return nil, err
	}
	m := newManager(e, wt, opts)
	if m.isOwnLog(opts.SessionFile) {
		m.opts.SessionFile = "" // it follows from the records
	}
	if _, err := m.entries(ctx); err != nil {
		return nil, errors.Join(err, m.closeOwn())
	}
	m.warnDamage(ctx)
	return m, nil
}

// warnDamage logs what shows to be damaged in the history. That it cannot be looked for is no error:
// who reads the history finds out.
func (m *FileSnapshotManager) warnDamage(ctx context.Context) {
	damage, err := history.JournalShows(ctx, m.store, m.project.Worktree)
	if len(damage) > 0 {
		m.log.Warn("history damaged: see the store's check", "places", len(damage), "first", damage[0])
		if !m.opts.ReadOnly {
			// If it cannot be remembered, the log alone says it.
			health.Change(m.tree.dir, func(h *health.Health) { h.NoteDamage(len(damage)) })
		}
	}
	if err != nil {
		m.log.Warn("history not looked at", "err", err)
	}
}

// newManager returns the manager of a worktree that an engine has open.
func newManager(e *Engine, wt *worktree, opts *Options) *FileSnapshotManager {
	o := *opts
	if o.Limits.FileSize == 0 && o.Limits.FileSizes == "" {
		o.Limits.FileSize, o.Limits.FileSizes = e.opts.Limits.FileSize, e.opts.Limits.FileSizes
	}
	o.Limits.NewBytes = cmp.Or(o.Limits.NewBytes, e.opts.Limits.NewBytes)
	o.Limits.Files = cmp.Or(o.Limits.Files, e.opts.Limits.Files)
	o.Limits.Time = cmp.Or(o.Limits.Time, e.opts.Limits.Time)
	log := cmp.Or(opts.Logger, e.opts.Logger)
	return &FileSnapshotManager{opts: o, engine: e, tree: wt, project: wt.project, store: wt.store,
		log: log, openDir: vfs.OpenDir,
		busy: make(chan struct{}, 1), records: history.NewRecords(wt.store, wt.project.Worktree, log),
		steps: make(map[*session.Entry]*history.Step)}
}

// closeOwn closes what no other manager has.
func (m *FileSnapshotManager) closeOwn() error {
	if m.closed {
		return nil
	}
	m.closed = true
	if m.engine == m.opts.Engine {
		m.engine.release(m.tree)
		return nil
	}
	return m.engine.Close()
}

// lock waits until nothing else is being changed, and locks mu. It is not got with a
// context that has ended, though nothing is waited for, nor once the manager is closed.
func (m *FileSnapshotManager) lock(ctx context.Context) (unlock func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case m.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	m.mu.Lock()
	unlock = func() {
		m.mu.Unlock()
		<-m.busy
	}
	if m.closed {
		unlock()
		return nil, errClosed
	}
	return unlock, nil
}

var errClosed = fmt.Errorf("the session's manager: %w", fs.ErrClosed)

// locked calls fn while it holds the lock. An error is told with what was to be done.
func locked[R any](ctx context.Context, m *FileSnapshotManager, what string, fn func() (*R, error)) (_ *R, err error) {
	defer annotate(&err, "%s", what)
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return fn()
}

// isOwnLog reports whether a file is our own log of the session.
func (m *FileSnapshotManager) isOwnLog(name string) bool {
	if name == "" || m.opts.Session == "" {
		return false
	}
	given, err := os.Stat(name)
	if err != nil {
		return false
	}
	own, err := os.Stat(filepath.Join(m.StoreDir(), m.ownLog()))
	return err == nil && os.SameFile(given, own)
}

func badSession(id string) error {
	return fmt.Errorf("session %q: want 1 to 128 letters, digits and ._-", id)
}

// forget drops what the manager remembers of where the session stands.
func (m *FileSnapshotManager) forget() {
	m.turnLeaf, m.turnLeafAt, m.index = "", "", nil
	clear(m.steps)
}

// Close ends the manager. A turn that is open counts as interrupted, unless
// the manager is Detached. What would change something returns [fs.ErrClosed] then.
func (m *FileSnapshotManager) Close() error {
	unlock, err := m.lock(context.Background())
	if err != nil { // it is closed
		return nil
	}
	defer unlock()
	var errs []error
	if m.held != nil {
		errs = append(errs, m.held.Close())
		m.held = nil
	}
	return errors.Join(append(errs, m.closeOwn())...)
}

// Project returns where the directory belongs.
func (m *FileSnapshotManager) Project() *tree.Project { return &m.project.Project }

// StoreDir returns the directory of the store.
func (m *FileSnapshotManager) StoreDir() string { return m.tree.dir }

// Session returns the name of the session.
func (m *FileSnapshotManager) Session() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.opts.Session
}
