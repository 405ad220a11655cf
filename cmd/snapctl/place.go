package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A place is where a command works: a project's directory, its store and the
// session.
type place struct {
	app     *app
	m       *manager.FileSnapshotManager
	project *tree.Project
	store   *store.Store
	objects tree.BlobGetter // of the store, see sound
	chosen  bool            // the manager has a session
}

// root finds the directory to work on.
func (a *app) root() (string, error) {
	root := a.flags.root
	if root == "" {
		cwd, err := a.getwd()
		if err != nil {
			return "", err
		}
		return tree.DefaultRoot(cwd)
	}
	root = a.path(root)
	st, err := os.Stat(root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", &failure{code: exitUsage, err: fmt.Errorf("root %q: no such directory", root)}
	case err == nil && !st.IsDir():
		return "", &failure{code: exitUsage, err: fmt.Errorf("root %q: not a directory", root)}
	}
	return root, nil
}

// storeRoot returns the directory that holds the stores.
func (a *app) storeRoot() (string, error) {
	base := a.flags.store
	if base == "" {
		home := a.getenv("HOME")
		if home == "" {
			return "", &failure{exitUsage, errors.New("no place for the store: HOME is not set"), "name one with --store DIR"}
		}
		base = filepath.Join(home, ".boo", "file-store")
	}
	return filepath.Abs(a.path(base))
}

// storeDir returns the directory of the project's store, which may not be there.
func (a *app) storeDir() (string, error) {
	root, err := a.root()
	if err != nil {
		return "", err
	}
	base, err := a.storeRoot()
	if err != nil {
		return "", err
	}
	project, err := tree.FindProject(root)
	if err != nil {
		return "", err
	}
	return filepath.Join(base, project.Hash()), nil
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

// openToRead opens the store of the project, which must exist.
func (a *app) openToRead(ctx context.Context) (*place, error) {
	opts := &manager.Options{ReadOnly: true, SessionFile: a.flags.sessionFile}
	p, err := a.open(ctx, opts)
	if errors.Is(err, fs.ErrNotExist) && opts.StoreRoot != "" {
		root, rerr := a.root()
		if rerr != nil {
			return nil, rerr
		}
		project, perr := tree.FindProject(root)
		if perr != nil {
			return nil, perr
		}
		if _, serr := os.Stat(filepath.Join(opts.StoreRoot, project.Hash(), "FORMAT")); errors.Is(serr, fs.ErrNotExist) {
			return nil, noSnapshots(project)
		}
	}
	return p, err
}

// openToWrite opens the store of the project and creates it where there is
// none.
func (a *app) openToWrite(ctx context.Context, allowBroad bool, limits tree.Limits) (*place, error) {
	if a.flags.sessionFile != "" {
		return nil, &failure{code: exitUsage, err: errors.New("--session-file is only read: it goes with commands that look")}
	}
	return a.open(ctx, &manager.Options{AllowBroad: allowBroad, Limits: limits})
}

// open opens a manager with what the flags and the environment say.
func (a *app) open(ctx context.Context, opts *manager.Options) (*place, error) {
	root, err := a.root()
	if err != nil {
		return nil, err
	}
	if opts.StoreRoot, err = a.storeRoot(); err != nil {
		return nil, err
	}
	opts.Session, opts.AnySession = a.flags.session, a.flags.session == "" && a.flags.sessionFile == ""
	opts.Home, opts.Git = a.home()
	opts.Logger = a.log
	opts.Engine = a.engine
	m, err := manager.Open(ctx, root, opts)
	if err != nil {
		return nil, err
	}
	return &place{app: a, m: m, project: m.Project(), store: m.Store(), objects: soundStore{m.Store()}, chosen: opts.Session != ""}, nil
}

func (p *place) close() { p.m.Close() }

func noSnapshots(project *tree.Project) error {
	return refuse("run 'snapctl snapshot'", "no snapshots of %q yet", project.Root)
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
		if list, n := p.m.LogProblems(); n > 0 {
			p.app.note("warning: session file %q: %s, the first in line %d: %s", f, count(n, "problem"), list[0].Line, list[0].Reason)
		}
		return p.use(p.m.LogHeader().ID)
	}
	snap, err := p.store.Newest(ctx, p.project.Worktree(), store.AnySession)
	if errors.Is(err, store.ErrNotFound) {
		return noSnapshots(p.project)
	}
	if err != nil {
		return err
	}
	p.sayChoice(snap.Session)
	return p.use(snap.Session)
}

func (p *place) use(session string) error {
	p.chosen = true
	return p.m.UseSession(session)
}

// activeTime is how long a session counts as in use after a snapshot.
const activeTime = 24 * time.Hour

// chooseSessionToWrite is chooseSession, but refuses to guess between
// several that are in use.
func (p *place) chooseSessionToWrite(ctx context.Context) error {
	if p.chosen {
		return nil
	}
	list, err := p.m.Sessions(ctx, false)
	if err != nil {
		return err
	}
	var inUse []string // all but the first
	for i, s := range list {
		if i == 0 || time.Since(s.Last) < activeTime {
			inUse = append(inUse, s.Session)
		}
	}
	switch len(inUse) {
	case 0:
		return p.use(defaultSession)
	case 1:
		p.sayChoice(inUse[0])
		return p.use(inUse[0])
	}
	return refuse("name one with --session ID", "several sessions were active in the last 24 hours: %s", strings.Join(inUse, ", "))
}

func (p *place) sayChoice(session string) {
	if session != defaultSession {
		p.app.note("session %s, the newest here", session)
	}
}
