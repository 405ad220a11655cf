package capture

import (
	"cmp"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/gitrepo"
	"github.com/boocode/filestore/internal/ignore"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/watch"
	"github.com/boocode/filestore/tree"
)

// WorkspaceOptions are the choices at [Project.Open]. The zero value is the
// default.
type WorkspaceOptions struct {
	Store    *cas.Store // keeps the stat cache; nil: every capture reads everything
	StoreDir string     // directory of the store, or one above that holds other stores: left out wherever it lies
	Git      tree.GitEnv
	Logger   *slog.Logger // nil: nothing is logged

	// IgnoreFile has patterns for all projects, in the syntax of a .booignore, which is above
	// it; it is read at each capture. Default: none.
	IgnoreFile string

	// Resident keeps the stat cache in memory and watches the directory, where
	// the system can do that, so that a capture costs what has changed. It is
	// for processes that stay: see [Workspace.Close].
	Resident bool
	// MaxWatches is how many directories are watched at most, so that other programs
	// can watch some; default: as many as the system allows.
	MaxWatches int

	Pages *trees.Pages // is told of the pages of directories that change; default none
}

// A Workspace is a project's directory, ready to be captured. Captures of several
// goroutines wait for each other.
type Workspace struct {
	*Project

	lock           chan struct{} // holds one while somebody uses the rest
	resident       bool
	maxWatches     int
	watcher        *watch.Watcher // nil: nothing is watched
	cache          *statCache     // in memory; nil: none, or not loaded yet
	unsaved        bool           // it is not as the file has it
	fileSize       int64          // limit under which it was made
	fileSizes      string         // and those of single files
	adopted        int            // captures that it has learned from
	latest         *tree.Result   // of the last of them; nil: it has none
	latestRules    [16]byte       // by which that was made
	pending        *watch.Changes // that a capture was told of which was not adopted
	number         int            // of the last capture
	adoptedFrom    int            // that of which the cache has learned last
	lookedBy       int            // the last that told the watcher that it had looked
	looked         time.Time      // when one was that had looked at all files
	due            bool           // one is to do so soon
	captures, full atomic.Int64
	pages          *trees.Pages // nil: none

	git                tree.GitEnv
	ignoreFile         string // "": none
	store              *cas.Store
	storeDev, storeIno uint64
	rules              *ignore.Rules // at the root, before its own pattern files
	log                *slog.Logger
	openDir            func(path string) (vfs.Dir, error)

	sparse atomic.Pointer[sparseAt] // what was read last; nil: nothing
}

// Open prepares a project for being captured.
func (p *Project) Open(opts *WorkspaceOptions) (*Workspace, error) {
	opts = cmp.Or(opts, new(WorkspaceOptions))
	ws := &Workspace{
		Project: p, lock: make(chan struct{}, 1),
		resident: opts.Resident && opts.Store != nil, maxWatches: opts.MaxWatches, pages: opts.Pages,
		git: opts.Git, ignoreFile: opts.IgnoreFile, store: opts.Store, openDir: vfs.OpenDir,
		log: cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)),
	}
	if p.repoErr != nil {
		ws.log.Warn("git repository cannot be read", "root", p.Root, "err", p.repoErr)
	}
	if opts.StoreDir != "" {
		if err := ws.findStore(opts.StoreDir); err != nil {
			return nil, err
		}
	}
	if err := ws.findRules(ws.git); err != nil {
		return nil, fmt.Errorf("ignore rules of %q: %w", p.Root, err)
	}
	if ws.resident {
		ws.watch()
	}
	return ws, nil
}

func (ws *Workspace) findStore(dir string) error {
	d, err := vfs.OpenDir(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	var st vfs.Stat
	if err := d.Stat(&st); err != nil {
		return err
	}
	ws.storeDev, ws.storeIno = st.Dev, st.Ino
	return nil
}

// isStore reports whether a directory is the store.
func (ws *Workspace) isStore(st *vfs.Stat) bool {
	return ws.storeIno != 0 && st.Ino == ws.storeIno && st.Dev == ws.storeDev
}

// refresh finds the repository and its rules again: both may have changed. The
// store stays where it is.
func (ws *Workspace) refresh() error {
	now, err := FindProject(ws.Root)
	if err != nil {
		return err
	}
	ws.repo.Store(now.repo.Load())
	if err := ws.findRules(ws.git); err != nil {
		return fmt.Errorf("ignore rules: %w", err)
	}
	return nil
}

// gitIndex reads what git tracks; nil outside of git.
func (ws *Workspace) gitIndex() (*gitrepo.Index, error) {
	if ws.repo.Load() == nil {
		return nil, nil
	}
	index, err := ws.repo.Load().Index()
	if err != nil {
		// Ignored files that are tracked cannot be told from others: they
		// are listed as ignored.
		ws.log.Warn("git's index cannot be read", "path", ws.repo.Load().GitDir, "err", err)
	}
	return index, err
}

// indexStamp identifies the state of git's index.
func (ws *Workspace) indexStamp() (stamp [16]byte, err error) {
	if ws.repo.Load() == nil {
		return [16]byte{'n', 'o', ' ', 'g', 'i', 't'}, nil
	}
	s, err := ws.repo.Load().IndexStamp()
	if err != nil {
		ws.log.Warn("git's index cannot be read", "path", ws.repo.Load().GitDir, "err", err)
		return stamp, nil // what is tracked is asked each time
	}
	// A cache with a stamp of s alone knows nothing of what git has taken out.
	id := object.Hash(object.Blob, append(s[:], "sparse"...))
	copy(stamp[:], id[:])
	return stamp, nil
}
