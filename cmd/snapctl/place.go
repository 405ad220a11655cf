package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A place is where a command works: a project's directory and its store.
type place struct {
	app     *app
	project *tree.Project
	dir     string // of the store
	store   *store.Store
	objects tree.BlobGetter // of the store, see sound
	session string          // "" until chosen
}

// project finds the directory to work on.
func (a *app) project() (*tree.Project, error) {
	root := a.flags.root
	if root == "" {
		cwd, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		if root, err = tree.DefaultRoot(cwd); err != nil {
			return nil, err
		}
	}
	st, err := os.Stat(root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &failure{code: exitUsage, err: fmt.Errorf("root %q: no such directory", root)}
	case err == nil && !st.IsDir():
		return nil, &failure{code: exitUsage, err: fmt.Errorf("root %q: not a directory", root)}
	}
	return tree.FindProject(root)
}

// storeDir returns the directory of a project's store.
func (a *app) storeDir(project *tree.Project) (string, error) {
	base := a.flags.store
	if base == "" {
		home := a.getenv("HOME")
		if home == "" {
			return "", &failure{exitUsage, errors.New("no place for the store: HOME is not set"), "name one with --store DIR"}
		}
		base = filepath.Join(home, ".boo", "file-store")
	}
	base, err := filepath.Abs(base)
	return filepath.Join(base, project.Hash()), err
}

// openToRead opens the store of the project, which must exist.
func (a *app) openToRead(ctx context.Context) (*place, error) {
	project, err := a.project()
	if err != nil {
		return nil, err
	}
	dir, err := a.storeDir(project)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "FORMAT")); errors.Is(err, fs.ErrNotExist) {
		return nil, noSnapshots(project)
	}
	return a.openPlace(ctx, project, dir, &store.Options{ReadOnly: true, Logger: a.log})
}

// openToWrite opens the store of the project and creates it where there is
// none.
func (a *app) openToWrite(ctx context.Context, allowBroad bool) (*place, error) {
	project, err := a.project()
	if err != nil {
		return nil, err
	}
	if why := project.TooBroad(a.getenv("HOME")); why != "" && !allowBroad {
		return nil, &failure{exitBudget, fmt.Errorf("root %q: refused: it is %s", project.Root, why),
			"name a project with --root DIR, or insist with --allow-broad"}
	}
	dir, err := a.storeDir(project)
	if err != nil {
		return nil, err
	}
	return a.openPlace(ctx, project, dir, &store.Options{Root: project.Main, Logger: a.log})
}

func (a *app) openPlace(ctx context.Context, project *tree.Project, dir string, opts *store.Options) (*place, error) {
	s, err := store.Open(ctx, dir, opts)
	if err != nil {
		return nil, err
	}
	return &place{app: a, project: project, dir: dir, store: s, objects: soundStore{s}, session: a.flags.session}, nil
}

func (p *place) close() { p.store.Close() }

// workspace prepares the project's directory for being captured.
func (p *place) workspace() (*tree.Workspace, error) {
	env := p.app.getenv
	return p.project.Open(&tree.WorkspaceOptions{
		Store:    p.store,
		StoreDir: p.dir,
		Git:      tree.GitEnv{Home: env("HOME"), XDGConfigHome: env("XDG_CONFIG_HOME"), SystemConfig: "/etc/gitconfig"},
		Logger:   p.app.log,
	})
}

func noSnapshots(project *tree.Project) error {
	return refuse("run 'snapctl snapshot'", "no snapshots of %q yet", project.Root)
}

// defaultSession is what snapshots belong to that nobody took for a
// conversation.
const defaultSession = "default"

// chooseSession settles on a session to read: the one that was asked for, else
// the newest of the directory.
func (p *place) chooseSession(ctx context.Context) error {
	if p.session != "" {
		return nil
	}
	session := defaultSession
	for snap, err := range p.snapshots(ctx) {
		if err != nil {
			return err
		}
		session = snap.Session
		break
	}
	p.session = session
	p.sayChoice()
	return nil
}

// activeTime is how long a session counts as in use after a snapshot.
const activeTime = 24 * time.Hour

// chooseSessionToWrite is chooseSession, but refuses to guess between
// several that are in use.
func (p *place) chooseSessionToWrite(ctx context.Context) error {
	if p.session != "" {
		return nil
	}
	var newest []string // sessions; all of them but the first are in use
	for snap, err := range p.snapshots(ctx) {
		if err != nil {
			return err
		}
		inUse := time.Since(snap.Time) < activeTime
		if (inUse || newest == nil) && !slices.Contains(newest, snap.Session) {
			newest = append(newest, snap.Session)
		}
		if !inUse {
			break
		}
	}
	switch len(newest) {
	case 0:
		p.session = defaultSession
	case 1:
		p.session = newest[0]
	default:
		return refuse("name one with --session ID", "several sessions were active in the last 24 hours: %s", strings.Join(newest, ", "))
	}
	p.sayChoice()
	return nil
}

func (p *place) sayChoice() {
	if p.session != defaultSession {
		p.app.note("session %s, the newest here", p.session)
	}
}
