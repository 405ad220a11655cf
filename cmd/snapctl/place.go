package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A place is where a command works: a project's directory, its store and the
// session.
type place struct {
	app     *app
	m       *manager.FileSnapshotManager
	project *tree.Project
	store   *cas.Store
	chosen  bool // the manager has a session

	hookLock vfs.File // with which no hook records anything until close; nil: hooks do
}

// root finds the directory to work on, which must be there.
func (a *app) root() (string, error) {
	root, _, err := a.rootOrHere()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return "", a.noRoot(root)
	}
	return root, nil
}

// noRoot is the error of a directory that is not there.
func (a *app) noRoot(root string) error {
	err := &failure{code: exitUsage, err: fmt.Errorf("root %q: no such directory", root)}
	if base, berr := a.storeRoot(); berr == nil {
		if _, lerr := places.Locate(base, root); lerr == nil {
			err.hint = "its history is kept: log, show, ls, cat, export, sessions and diff between " +
				"snapshots read it; if it was moved, 'snapctl adopt' in its new place continues it"
		}
	}
	return err
}

// rootOrHere finds the directory to work on, which need not be there any more. If none is
// named it is where the user is, and its project is known.
func (a *app) rootOrHere() (root string, here *capture.Project, err error) {
	if a.flags.root == "" {
		cwd, err := a.getwd()
		if err != nil {
			return "", nil, err
		}
		if here, err = capture.ProjectAround(cwd); err != nil {
			return "", nil, err
		}
		return here.Root, here, nil
	}
	root = a.path(a.flags.root)
	if st, err := os.Stat(root); err == nil && !st.IsDir() {
		return "", nil, &failure{code: exitUsage, err: fmt.Errorf("root %q: not a directory", root)}
	}
	return root, nil, nil
}

// storeRoot returns the directory that holds the stores.
func (a *app) storeRoot() (string, error) {
	base := a.flags.store
	if base == "" {
		home := a.getenv("HOME")
		if home == "" {
			return "", &failure{exitUsage, errors.New("no place for the store: HOME is not set"),
				"name one with --store DIR"}
		}
		if !filepath.IsAbs(home) {
			return "", &failure{exitUsage, fmt.Errorf("no place for the store: HOME is %q: want a path from the root",
				home), "name one with --store DIR"}
		}
		base = filepath.Join(home, ".boo", "file-store")
	}
	return filepath.Abs(a.path(base))
}

// rootAndStores returns the directory to work on, and the one that holds the stores.
func (a *app) rootAndStores() (root, base string, err error) {
	if root, err = a.root(); err == nil {
		base, err = a.storeRoot()
	}
	return root, base, err
}

// locate finds out where the history of the directory is, once.
func (a *app) locate() (*places.Location, error) {
	if a.located != nil && a.locatedOf == a.flags.root {
		return a.located, nil
	}
	root, here, err := a.rootOrHere()
	if err != nil {
		return nil, err
	}
	base, err := a.storeRoot()
	if err != nil {
		return nil, err
	}
	var loc *places.Location
	if here != nil {
		loc, err = places.LocateProject(base, here)
	} else if loc, err = places.Locate(base, root); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, a.noRoot(root)
	}
	a.located, a.locatedOf = loc, a.flags.root
	return loc, err
}

// storeDir returns the directory of the project's store, which may not be there.
func (a *app) storeDir() (string, error) {
	loc, err := a.locate()
	if err != nil {
		return "", err
	}
	return loc.Dir, nil
}

// getwd returns the directory in which the user is.
func (a *app) getwd() (string, error) {
	if a.cwd != "" {
		return a.cwd, nil
	}
	return os.Getwd()
}

// path returns a path of the user's as this process finds it.
func (a *app) path(p string) string {
	if a.cwd == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(a.cwd, p)
}

// home returns the user's home, and where git's configuration is.
func (a *app) home() (string, tree.GitEnv) {
	home := a.getenv("HOME")
	return home, tree.GitEnv{Home: home, XDGConfigHome: a.getenv("XDG_CONFIG_HOME"), SystemConfig: "/etc/gitconfig"}
}

// ignoreFile returns the file with the user's patterns for all projects, which need not be
// there; "": there is no home.
func (a *app) ignoreFile() string {
	home := a.getenv("HOME")
	if home == "" {
		return ""
	}
	return filepath.Join(home, ".boo", "ignore")
}

// openToRead opens the store of the project, which must exist. The directory need
// not.
func (a *app) openToRead(ctx context.Context) (*place, error) {
	p, err := a.open(ctx, &manager.Options{ReadOnly: true, SessionFile: a.flags.sessionFile})
	if err == nil {
		if err = p.completeSession(ctx); err != nil {
			p.close()
			return nil, err
		}
		return p, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = cmp.Or(a.mustExist(), err)
	}
	return nil, err
}

// reading returns a command's function that calls fn with the store, opened to read.
func (a *app) reading(fn func(cmd *cobra.Command, p *place, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		p, err := a.openToRead(cmd.Context())
		if err != nil {
			return err
		}
		defer p.close()
		return fn(cmd, p, args)
	}
}

// mustExist returns an error if the project has no store.
func (a *app) mustExist() error {
	loc, err := a.locate()
	if err != nil {
		return err
	}
	if _, err := cas.Describe(vfs.OS(loc.Dir)); errors.Is(err, fs.ErrNotExist) {
		return a.noSnapshots(&loc.Project.Project)
	}
	return nil
}

// openToWrite opens the store of the project and creates it where there is
// none.
func (a *app) openToWrite(ctx context.Context, allowBroad bool, limits tree.Limits) (*place, error) {
	if a.flags.sessionFile != "" {
		return nil, &failure{code: exitUsage,
			err: errors.New("--session-file is only read: it goes with commands that look")}
	}
	loc, err := a.locate()
	if err == nil && loc.Gone {
		_, err = a.root()
	}
	if err != nil {
		return nil, err
	}
	p, err := a.open(ctx, &manager.Options{AllowBroad: allowBroad, Limits: limits})
	if err == nil { // before the command adds to what there is to say
		a.sayHealth(p.m)
	}
	return p, err
}

// open opens a manager with what the flags and the environment say. Of a directory
// that was moved it asks whether its history is to go on, where somebody can answer.
func (a *app) open(ctx context.Context, opts *manager.Options) (p *place, err error) {
	loc, err := a.locate()
	if err != nil {
		return nil, err
	}
	root := loc.Project.Root
	if opts.StoreRoot, err = a.storeRoot(); err != nil {
		return nil, err
	}
	opts.Session, opts.AnySession = a.flags.session, a.flags.session == "" && a.flags.sessionFile == ""
	opts.Home, opts.Git = a.home()
	opts.IgnoreFile = a.ignoreFile()
	if opts.Limits == (tree.Limits{}) {
		opts.Limits = new(limitFlags).limits(a)
	}
	opts.Logger = a.log
	opts.Engine = a.engine
	opts.OnDirty = rollback.Merge
	m, err := manager.Open(inside.WithLocation(ctx, loc), root, opts)
	if away, ok := errors.AsType[*places.MovedError](err); ok && a.canAsk() {
		if !a.ask(ctx, "%s\ncontinue its history here?", movedText(&away.Moved)) {
			return nil, refuse("'snapctl adopt --fresh' begins a new history here, and keeps the other",
				"nothing was changed")
		}
		if err := a.adoptMoved(ctx, &away.Moved); err != nil {
			return nil, err
		}
		if loc, err = a.locate(); err == nil {
			m, err = manager.Open(inside.WithLocation(ctx, loc), root, opts)
		}
	}
	if err != nil {
		return nil, err
	}
	return &place{app: a, m: m, project: m.Project(), store: inside.Store(m), chosen: opts.Session != ""}, nil
}

func (p *place) close() {
	if p.hookLock != nil {
		p.hookLock.Close() // it never fails on a lock
	}
	p.m.Close()
}

// noSnapshots is the error of a directory without a history. If the directory of another
// store is gone, the hint says how that one's history goes on here.
func (a *app) noSnapshots(project *tree.Project) error {
	hint := "run 'snapctl snapshot'"
	if base, err := a.storeRoot(); err == nil && places.SomeGone(base) {
		hint += "; if the directory was moved, 'snapctl adopt OLDPATH' continues its history, " +
			"and 'snapctl stores' lists the paths that are known"
	}
	return refuse(hint, "no snapshots of %q yet", project.Root)
}

// noSnapshots is that error, or the damage by which there may have been some.
func (p *place) noSnapshots(ctx context.Context) error {
	damage, err := history.JournalDamage(ctx, p.store)
	if err != nil {
		return err
	}
	if len(damage) > 0 {
		return fmt.Errorf("no snapshots of %q; but its history is damaged: %w", p.project.Root, damage[0])
	}
	return p.app.noSnapshots(p.project)
}

// defaultSession is what snapshots belong to that nobody took for a
// conversation.
const defaultSession = "default"

// chooseSession settles on a session to read: the one that was asked for, that
// of the session file, else the newest of the directory.
func (p *place) chooseSession(ctx context.Context) error {
	if p.chosen {
		return nil
	}
	if f := p.app.flags.sessionFile; f != "" {
		if first, n := inside.Of(p.m).LogProblems(); n > 0 {
			p.app.note("warning: session file %q: %s, the first in %s", f, words.Count(n, "problem"), first)
		}
		return p.use(inside.Of(p.m).LogSession())
	}
	snap, err := p.store.Newest(ctx, p.project.Worktree, cas.AnySession)
	if errors.Is(err, store.ErrNotFound) {
		return p.noSnapshots(ctx)
	}
	if err != nil {
		return err
	}
	p.sayChoice(ctx, snap.Session)
	return p.use(snap.Session)
}

func (p *place) use(session string) error {
	p.chosen = true
	return inside.Of(p.m).UseSession(session)
}

// sayChoice says which session was taken where the directory has several.
func (p *place) sayChoice(ctx context.Context, session string) {
	if session == defaultSession || p.app.flags.quiet {
		return
	}
	for other, err := range p.store.Sessions(ctx) {
		if err != nil {
			return // what comes next meets it, too
		}
		if other.Worktree == p.project.Worktree && other.Session != session && !history.IsEdit(other) && !other.Pruned {
			p.app.note("session %s, the newest here", session)
			return
		}
	}
}
