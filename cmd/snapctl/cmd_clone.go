package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/exchange"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
)

// cloneFlags are the flags of clone.
type cloneFlags struct{ identity, at, name string }

func (a *app) cloneCommand() *cobra.Command {
	var f cloneFlags
	c := &cobra.Command{
		Use:   "clone URL DIR",
		Short: "Go on with sessions of another machine",
		Args:  args(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !exchange.ValidName(f.name) {
				return usageError(cmd, "clone: --name %q: want letters, digits, - and _", f.name)
			}
			return a.clone(cmd.Context(), args[0], a.path(args[1]), &f)
		},
	}
	c.Flags().StringVar(&f.identity, "identity", "", identityUsage)
	c.Flags().StringVar(&f.at, "at", "", "restore `REV` when it is there")
	c.Flags().StringVar(&f.name, "name", defaultRemote, "call the remote `NAME`")
	return c
}

// A cloneAnswer is what clone prints as JSON.
type cloneAnswer struct {
	Dir      string   `json:"dir"`
	Session  string   `json:"session"`  // with the newest record
	Sessions []string `json:"sessions"` // that go on there
	Others   int      `json:"others"`   // tips that are only to be looked at
	Records  int      `json:"records"`
	Bytes    int64    `json:"bytes"` // that were read
	Files    int64    `json:"files"`
	Lost     int      `json:"lost"` // objects that the writers had lost
}

func (a *app) clone(ctx context.Context, text, dir string, f *cloneFlags) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := mustBeEmpty(dir); err != nil {
		return err
	}
	repo, text, err := a.openRemote(ctx, text, f.identity, "")
	if err != nil {
		return err
	}
	shown, stop := a.showProgress(ctx)
	defer stop()
	var session *string
	if a.sessionTyped {
		session = &a.flags.session
	}
	fetched, err := exchange.Fetch(shown, repo, session)
	if err != nil {
		return remoteError(text, err)
	}
	goOn, others := fetched.Newest()
	if len(goOn) == 0 {
		if session != nil {
			return refuse("", "remote %s has no session %q", words.Quote(text), *session)
		}
		return refuse("'snapctl remote push' puts some there", "remote %s has no session", words.Quote(text))
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	x := &cloning{app: a, dir: dir, answer: &cloneAnswer{Dir: dir, Others: others}, goOn: goOn,
		config: &exchange.Config{Name: f.name, URL: text, ID: repo.ID(), Identity: f.identity}}
	if f.identity != "" {
		x.config.Identity = a.path(f.identity)
	}
	err = x.withStore(shown, func(s *cas.Store, loc *places.Location) error {
		m := &exchange.Importer{Store: s, Repo: repo, Name: f.name, Worktree: loc.Project.Worktree,
			Root: loc.Project.Root}
		return x.bring(shown, m, fetched)
	})
	stop()
	if err != nil {
		return remoteError(text, err)
	}
	if err := x.print(); err != nil || f.at == "" {
		return err
	}
	a.out.Flush()
	sub := newApp([]string{"--root", dir, "--session", x.answer.Session, "restore", "-y", f.at}, a.stdin, a.stdout,
		a.stderr, a.getenv)
	if code := sub.run(ctx); code != exitDone {
		return &failure{code: code}
	}
	return nil
}

// cloning is one clone.
type cloning struct {
	app    *app
	dir    string
	goOn   []*exchange.FetchedLine
	config *exchange.Config
	answer *cloneAnswer
}

// withStore calls fn with the store of the directory, which is made if there is none.
func (x *cloning) withStore(ctx context.Context, fn func(*cas.Store, *places.Location) error) error {
	base, err := x.app.storeRoot()
	if err != nil {
		return err
	}
	loc, err := places.Locate(base, x.dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		return err
	}
	s, err := cas.Open(ctx, loc.Dir, &cas.Options{Root: loc.Project.Main, Logger: x.app.log})
	if err != nil {
		return err
	}
	err = loc.Note(ctx, s.FS())
	if err == nil {
		err = fn(s, loc)
	}
	return errors.Join(err, s.Close())
}

// bring brings the records, and then the files of the newest.
func (x *cloning) bring(ctx context.Context, m *exchange.Importer, f *exchange.Fetched) error {
	before, err := m.Store.Newest(ctx, m.Worktree, cas.AnySession)
	if err == nil {
		return refuse("clone into a directory that snapctl does not know",
			"%s has a history of its own here, of session %q", words.Quote(x.dir), before.Session)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	r, err := m.Import(ctx, f, x.goOn)
	if err != nil {
		return err
	}
	if err := exchange.Add(ctx, m.Store.FS(), x.config); err != nil {
		return err
	}
	x.answer.Records, x.answer.Bytes, x.answer.Lost = r.Records, r.Bytes, r.Lost
	for _, l := range x.goOn {
		x.answer.Sessions = append(x.answer.Sessions, l.Session)
	}
	newest, err := m.Store.Newest(ctx, m.Worktree, cas.AnySession)
	if err != nil {
		return err
	}
	x.answer.Session = newest.Session
	result, err := trees.Export(ctx, m.Store, newest.Tree, x.dir)
	if err != nil {
		return err
	}
	x.answer.Files = result.Files
	for _, path := range result.Forgotten {
		x.app.tell("%s is missing: it %v", words.Quote(path), store.ErrForgotten)
	}
	for _, l := range result.Lost {
		x.app.tell("%s is missing: %v", words.Quote(l.Path), l.Err)
	}
	if len(result.Lost)+len(result.Forgotten) > 0 {
		return &failure{code: exitPart}
	}
	return nil
}

func (x *cloning) print() error {
	a, j := x.app, x.answer
	if a.flags.json {
		return a.printJSON(j)
	}
	a.note("%s: %s, as session %s left them; %s", words.Quote(j.Dir), words.Count(j.Files, "file"),
		cmp.Or(j.Session, defaultSession), words.Count(j.Records, "record"))
	if j.Others > 0 {
		a.note("others go on, too: %s, which 'snapctl sessions --all' lists", words.Count(j.Others, "more tip"))
	}
	if j.Lost > 0 {
		a.tell("%s had been lost where they were made", words.Count(j.Lost, "object"))
	}
	a.note("'snapctl log' in it shows the turns, and 'snapctl restore' takes them back; "+
		"'snapctl remote push' puts there what comes next: %s", fmt.Sprint(x.config.Name))
	return nil
}
