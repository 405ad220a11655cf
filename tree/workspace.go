package tree

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/boocode/filestore/internal/gitrepo"
	"github.com/boocode/filestore/internal/ignore"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/watch"
	"github.com/boocode/filestore/store"
)

// A Project says where a directory belongs.
type Project struct {
	Root string // real path of the directory that is captured
	Main string // real path of what it belongs to: the main working tree of its git repository, or Root

	worktree string                       // its identity, if that is not of its path; default: it is
	repo     atomic.Pointer[gitrepo.Repo] // nil outside of git
	repoErr  error                        // why the repository cannot be read, if there seems to be one
}

// FindProject looks at a directory and for the git repository around it.
// Nothing is read but what says where things are.
func FindProject(root string) (*Project, error) {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, err
	}
	if real, err = filepath.Abs(real); err != nil {
		return nil, err
	}
	st, err := os.Stat(real)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("%q: not a directory", root)
	}
	p := &Project{Root: real, Main: real}
	// A repository that is broken, say a .git file that points nowhere, is
	// no reason to leave the user without snapshots.
	repo, ok, err := gitrepo.Find(real)
	p.repoErr = err
	if ok && err == nil {
		p.Main = repo.MainRoot
		p.repo.Store(repo)
	}
	return p, nil
}

// DefaultRoot returns the root of the git repository around a directory, or
// the directory itself.
func DefaultRoot(dir string) (string, error) {
	p, err := FindProject(dir)
	if err != nil || p.repo.Load() == nil {
		return dir, err
	}
	return p.repo.Load().Root, nil
}

// Hash names the project's store: half a BLAKE3 hash of the main path, as 32
// hex digits. All linked worktrees of a repository share it.
func (p *Project) Hash() string { return PathHash(p.Main) }

// Worktree is the identity of the captured directory in its store, 32 hex digits:
// by default that of its path.
func (p *Project) Worktree() string {
	if p.worktree != "" {
		return p.worktree
	}
	return PathHash(p.Root)
}

// Known says as what a store knows the directory that has been at another path, or
// is at several. It comes before Open.
func (p *Project) Known(main, worktree string) { p.Main, p.worktree = main, worktree }

// GitDir returns the git directory of the working tree, "" outside of git. A linked
// one has its own, <main>/.git/worktrees/<name>, which it keeps when it is moved.
func (p *Project) GitDir() (dir string, linked bool) {
	r := p.repo.Load()
	if r == nil {
		return "", false
	}
	return r.GitDir, r.GitDir != r.CommonDir
}

// PathHash is half a BLAKE3 hash of a path, as 32 hex digits: what projects and
// worktrees are called by default.
func PathHash(path string) string {
	id := store.Hash(store.Blob, []byte(path))
	return hex.EncodeToString(id[:16])
}

// Head returns the commit that the project's git repository is at; "" if
// there is none, or it has no commit yet.
func (p *Project) Head() (string, error) {
	if p.repo.Load() == nil {
		return "", nil
	}
	head, err := p.repo.Load().Head()
	return head.Commit, err
}

// TooBroad says why a directory is too broad to be captured without being
// asked for: it is a whole disk, or the user's home or holds it, or is where
// everything is put. home is the path of the home directory, "" if unknown.
// The result is "" for any other directory.
func (p *Project) TooBroad(home string) string {
	if filepath.Dir(p.Root) == p.Root {
		return "the root of a file system"
	}
	if home == "" {
		return ""
	}
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	switch {
	case p.Root == home:
		return "your home directory"
	case strings.HasPrefix(home, p.Root+string(filepath.Separator)):
		return "around your home directory"
	case p.Root == filepath.Join(home, "Desktop"), p.Root == filepath.Join(home, "Downloads"):
		return "a place where everything is put"
	}
	return ""
}

// GitEnv says where git's configuration beside the repository's own is. An
// empty path is not read.
type GitEnv struct {
	Home          string // ~
	XDGConfigHome string // default Home/.config
	SystemConfig  string // e.g. /etc/gitconfig
}

// WorkspaceOptions are the choices at [Project.Open]. The zero value is the
// default.
type WorkspaceOptions struct {
	Store    *store.Store // keeps the stat cache; nil: every capture reads everything
	StoreDir string       // directory of the store, or one above that holds other stores: left out wherever it lies
	Git      GitEnv
	Logger   *slog.Logger // nil: nothing is logged

	// Resident keeps the stat cache in memory and watches the directory, where
	// the system can do that, so that a capture costs what has changed. It is
	// for processes that stay: see [Workspace.Close].
	Resident   bool
	MaxWatches int // directories that are watched at most, which leaves some to other programs; default: all that the system allows

	Pages *Pages // is told of the pages of directories that change; default none
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
	adopted        int            // captures that it has learned from
	pending        *watch.Changes // that a capture was told of which was not adopted
	captures, full atomic.Int64
	pages          *Pages // nil: none

	git                GitEnv
	store              *store.Store
	storeDev, storeIno uint64
	rules              *ignore.Rules // at the root, before its own pattern files
	prefix             string        // of Root in the repository
	log                *slog.Logger
	openDir            func(path string) (vfs.Dir, error)

	sparse atomic.Pointer[sparseAt] // what was read last; nil: nothing
}

// outsideGit is ignored where no git repository says what to ignore.
const outsideGit = "node_modules/\n.pi/\n"

// Open prepares a project for being captured.
func (p *Project) Open(opts *WorkspaceOptions) (*Workspace, error) {
	if opts == nil {
		opts = &WorkspaceOptions{}
	}
	ws := &Workspace{Project: p, lock: make(chan struct{}, 1), resident: opts.Resident && opts.Store != nil, maxWatches: opts.MaxWatches, pages: opts.Pages, git: opts.Git, store: opts.Store, log: opts.Logger, openDir: vfs.OpenDir}
	if ws.log == nil {
		ws.log = slog.New(slog.DiscardHandler)
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
	ws.prefix = ""
	if err := ws.findRules(ws.git); err != nil {
		return fmt.Errorf("ignore rules: %w", err)
	}
	return nil
}

// findRules makes the rules that hold at the root of the workspace, which
// may lie below the root of the repository.
func (ws *Workspace) findRules(env GitEnv) error {
	if ws.repo.Load() == nil {
		ws.rules = ignore.Root(ignore.Options{Defaults: []byte(outsideGit)})
		return nil
	}
	opts, err := ws.repo.Load().IgnoreOptions(gitrepo.Env{
		Home: env.Home, XDGConfigHome: env.XDGConfigHome, SystemConfig: env.SystemConfig,
	})
	if err != nil {
		// As git does, go on with what the repository itself says.
		ws.log.Warn("git configuration cannot be read", "root", ws.Root, "err", err)
		if opts, err = ws.repo.Load().IgnoreOptions(gitrepo.Env{}); err != nil {
			opts = ignore.Options{}
		}
	}
	ws.rules = ignore.Root(opts)
	rel, err := filepath.Rel(ws.repo.Load().Root, ws.Root)
	if err != nil {
		return err
	}
	if rel == "." {
		return nil
	}
	ws.prefix = filepath.ToSlash(rel)
	dir := ws.repo.Load().Root
	for name := range strings.SplitSeq(ws.prefix, "/") {
		ws.rules = ws.rules.WithFiles(patternFilesIn(dir)).Sub(name)
		dir = filepath.Join(dir, name)
	}
	return nil
}

// patternFilesIn reads the pattern files of a directory above the root.
func patternFilesIn(dir string) (gitignore, booignore []byte) {
	d, err := vfs.OpenDir(dir)
	if err != nil {
		return nil, nil
	}
	defer d.Close()
	// As in git, one that cannot be read has no patterns.
	git, _ := readPatternFile(d, patternFiles[0])
	boo, _ := readPatternFile(d, patternFiles[1])
	return git.content, boo.content
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
	id := store.Hash(store.Blob, append(s[:], "sparse"...))
	copy(stamp[:], id[:])
	return stamp, nil
}

// loadCache returns the stat cache, which is empty without a store.
func (ws *Workspace) loadCache() (*statCache, error) {
	if ws.cache != nil {
		return ws.cache, nil
	}
	if ws.store == nil {
		return &statCache{}, nil
	}
	id, err := hex.DecodeString(ws.store.ID())
	if err != nil {
		return nil, err
	}
	c := loadStatCache(ws.store.FS(), [16]byte(id), ws.Worktree())
	if ws.resident {
		ws.cache = c
	}
	return c, nil
}

// saveCache writes down what a capture saw, so that the next one is quick. All
// that the capture put is durable. captureErr is how it ended.
func (c *capture) saveCache(captureErr error) error {
	var budget *BudgetError
	if captureErr != nil && !errors.As(captureErr, &budget) {
		// It stopped anywhere: some directories were finished, and those
		// above them were not.
		return nil
	}
	if c.ws.resident {
		c.ws.lock <- struct{}{}
		defer func() { <-c.ws.lock }()
		if c.overtaken() {
			return nil
		}
	}
	s := c.ws.store
	h := c.cache.batch
	var err error
	w := c.sink.(*store.Writer)
	h.epoch = w.Epoch() // in which the ids were looked up
	if h.packs, err = w.PackLengths(); err != nil {
		return err
	}
	if !c.lookup && !c.cache.batch.stillThere(h.packs) {
		return nil // the ids were taken on trust, which goes with the packs
	}
	h.boot = bootID()
	h.nextDir = c.newDir.Load()
	h.stamp, h.out = c.stamp, c.outID
	if captureErr != nil || c.unfinished.Load() || c.outMoved.Load() {
		h.out = unknownOut
	}
	if c.unasked.Load() {
		h.stamp = [16]byte{}
	}
	if captureErr != nil || c.unfinished.Load() {
		h.stamp = [16]byte{} // not every ignored name was asked for
		if c.lookup || c.reliable != alwaysReliable {
			return nil // nor every id, or every entry from before the boot
		}
	}
	id, err := hex.DecodeString(s.ID())
	if err != nil {
		return err
	}
	h.store = [16]byte(id)
	if c.ws.resident {
		c.remember(h)
		return nil
	}
	c.unchangedBlocks()
	if len(c.changed) == 0 && h.stamp == c.cache.batch.stamp && h.out == c.cache.batch.out && h.epoch == c.cache.batch.epoch &&
		c.cache.batch.boot == h.boot {
		return nil
	}
	if err := c.cache.save(h, c.changed); !errors.Is(err, errCacheMoved) {
		return err
	}
	return nil
}
