package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// Options are the choices at [Open].
type Options struct {
	// Engine shares what is open with other managers; StoreRoot, Home, Git and
	// Logger are its own then. Default: nothing is shared.
	Engine *Engine

	// StoreRoot is the directory that holds the stores of all projects, e.g.
	// ~/.boo/file-store. It must be given.
	StoreRoot string

	// Session names the conversation: see [session.ValidID]. Without one,
	// UseSession must be called before anything that concerns a session.
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

	// Adopt has a directory that was moved go on with the history of its old path, if
	// it surely is the same. Default: Open returns a [*MovedError], and [Adopt] does
	// it when somebody was asked. Engines do so by themselves.
	Adopt bool

	ReadOnly   bool         // queries only; a store that does not exist is an error
	AllowBroad bool         // allow a home directory, a whole disk and the like
	Limits     tree.Limits  // of each capture; default: as there, and 60 s for a turn
	Home       string       // the user's home, which is too broad a directory; default unknown
	Git        tree.GitEnv  // where git's configuration is
	Logger     *slog.Logger // nil: nothing is logged

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
	project *tree.Project
	store   *store.Store
	log     *slog.Logger
	openDir func(path string) (vfs.Dir, error) // of the session, for restores

	closed    bool
	capturing atomic.Bool
	progress  tree.Progress // of captures that belong to turns

	busy chan struct{} // holds one while something is being changed, which then has mu, too, but during a capture

	mu     sync.Mutex                    // guards the rest
	file   *session.File                 // of Options.SessionFile
	given  *session.Tree                 // by RebuildIndex
	own    *session.Log                  // of a session that no runtime keeps a log of
	held   vfs.File                      // locked while a turn is open here
	loaded map[uint64]*record            // records that were read
	epoch  uint64                        // of the store when they were
	steps  map[*session.Entry]*stepEntry // step-snapshots of the log that were read; nil: not ours
	index  *logIndex

	reads map[string]string // hashes of files that were read to be edited

	turnLeaf, turnLeafAt string // where a turn was said to begin, and the log's leaf then
}

// Open returns the manager of a session in a directory. It creates the store
// if there is none, and reads no file of the directory yet.
//
// Errors match [ErrTooBroad], [store.ErrFormat], [store.ErrNoLocks], and
// [fs.ErrNotExist] for a directory that is not there or, read-only, has no
// store, [ErrMovedAway] for one that has the history of a path that is gone. Read-only,
// a directory that is gone can be opened if a store knows it.
func Open(ctx context.Context, root string, opts *Options) (*FileSnapshotManager, error) {
	if opts == nil {
		opts = new(Options)
	}
	if opts.Engine == nil && opts.StoreRoot == "" {
		return nil, fmt.Errorf("open manager: %w", errNoStoreRoot)
	}
	if opts.Session != "" && !session.ValidID(opts.Session) {
		return nil, badSession(opts.Session)
	}
	e := opts.Engine
	if e == nil {
		e = newEngine(&EngineOptions{StoreRoot: opts.StoreRoot, Home: opts.Home, Git: opts.Git, Logger: opts.Logger})
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
	return m, nil
}

// newManager returns the manager of a worktree that an engine has open.
func newManager(e *Engine, wt *worktree, opts *Options) *FileSnapshotManager {
	return &FileSnapshotManager{opts: *opts, engine: e, tree: wt, project: wt.project, store: wt.store, log: e.opts.Logger, openDir: vfs.OpenDir,
		busy: make(chan struct{}, 1), loaded: make(map[uint64]*record), steps: make(map[*session.Entry]*stepEntry)}
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

// lock waits until nothing else is being changed, and locks mu.
func (m *FileSnapshotManager) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case m.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	m.mu.Lock()
	return func() {
		m.mu.Unlock()
		<-m.busy
	}, nil
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
	own, err := os.Stat(filepath.Join(m.StoreDir(), m.sessionsDir(), m.opts.Session+".jsonl"))
	return err == nil && os.SameFile(given, own)
}

func badSession(id string) error {
	return fmt.Errorf("session %q: want 1 to 128 letters, digits and ._-", id)
}

// UseSession turns to a session. No turn may be open. The entries that
// RebuildIndex was given for another one are forgotten, and its file.
func (m *FileSnapshotManager) UseSession(id string) error {
	unlock, err := m.lock(context.Background())
	if err != nil {
		return err
	}
	defer unlock()
	switch {
	case !session.ValidID(id):
		return badSession(id)
	case m.held != nil:
		return fmt.Errorf("turn to session %q: %w", id, ErrTurnOpen)
	}
	if m.own != nil && m.opts.Session != id {
		err = m.own.Close()
		m.own = nil
	}
	if m.opts.Session != id {
		m.given = nil
		if m.opts.Session != "" {
			m.file, m.opts.SessionFile = nil, "" // of the other one
		}
	}
	m.forget()
	m.opts.Session = id
	return err
}

// forget drops what the manager remembers of where the session stands.
func (m *FileSnapshotManager) forget() {
	m.turnLeaf, m.turnLeafAt, m.index = "", "", nil
	clear(m.steps)
}

// Close ends the manager. A turn that is open counts as interrupted, unless
// the manager is Detached.
func (m *FileSnapshotManager) Close() error {
	unlock, err := m.lock(context.Background())
	if err != nil {
		return err
	}
	defer unlock()
	var errs []error
	if m.held != nil {
		errs = append(errs, m.held.Close())
		m.held = nil
	}
	if m.own != nil {
		errs = append(errs, m.own.Close())
	}
	return errors.Join(append(errs, m.closeOwn())...)
}

// Progress counts up during the captures of turns.
func (m *FileSnapshotManager) Progress() *tree.Progress { return &m.progress }

// Capturing reports whether a capture is under way, which Progress counts.
func (m *FileSnapshotManager) Capturing() bool { return m.capturing.Load() }

// Project returns where the directory belongs.
func (m *FileSnapshotManager) Project() *tree.Project { return m.project }

// Store returns the store, which is open until the manager is closed.
func (m *FileSnapshotManager) Store() *store.Store { return m.store }

// StoreDir returns the directory of the store.
func (m *FileSnapshotManager) StoreDir() string { return m.tree.dir }

// Session returns the name of the session.
func (m *FileSnapshotManager) Session() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.opts.Session
}

// LogHeader returns the header of Options.SessionFile, or of the entries that
// RebuildIndex was given.
func (m *FileSnapshotManager) LogHeader() session.Header {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.given != nil:
		return m.given.Header()
	case m.file != nil:
		return m.file.Tree().Header()
	}
	return session.Header{}
}

// LogProblems returns what is wrong with the log of which LogHeader is the
// header, at most 100 problems, and how many there are: lines that were skipped
// and the like.
func (m *FileSnapshotManager) LogProblems() (list []session.Problem, total int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.given != nil:
		return m.given.Problems()
	case m.file != nil:
		return m.file.Tree().Problems()
	}
	return nil, 0
}
