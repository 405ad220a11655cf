package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/base"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/exchange"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
)

// cloneFlags are the flags of clone.
type cloneFlags struct {
	identity, at, name string
	cache              string   // directory that keeps packs nearby
	base               string   // directory that files are taken from; "": none
	only               []string // paths; none: all
	lazy               bool
}

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
			if f.base != "" && len(f.only) > 0 {
				return usageError(cmd, "clone: --base has all files, --only a part of them")
			}
			f.lazy = f.lazy || f.base != ""
			return a.clone(cmd.Context(), args[0], a.path(args[1]), &f)
		},
	}
	c.Flags().StringVar(&f.identity, "identity", "", identityUsage)
	c.Flags().StringVar(&f.cache, "cache", "", "keep packs in `DIR` for others on this machine (default $BOO_CACHE)")
	c.Flags().StringVar(&f.base, "base", "",
		"take files from `DIR`, which is made if it is not there; and --lazy")
	c.Flags().StringVar(&f.at, "at", "", "have all files as they were at `REV`")
	c.Flags().StringArrayVar(&f.only, "only", nil, "write only this `PATH` of the files, and leave the rest there")
	c.Flags().BoolVar(&f.lazy, "lazy", false, "leave contents there that the files do not need now")
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
	Lost     int      `json:"lost"`               // objects that the writers had lost
	Promised int      `json:"promised"`           // contents that stay at the remote until they are read
	FromBase *int     `json:"fromBase,omitempty"` // files that came from the base; absent: there was none
	Missing  []string `json:"missing,omitempty"`
	Logs     []string `json:"logs,omitempty"` // files with the conversations, as agents keep them
}

func (a *app) clone(ctx context.Context, text, dir string, f *cloneFlags) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := mustBeEmpty(dir); err != nil {
		return err
	}
	config, err := a.cloneConfig(f)
	if err != nil {
		return err
	}
	x := &cloning{app: a, dir: dir, flags: f, answer: &cloneAnswer{Dir: dir}, config: config}
	if err := x.openBase(); err != nil {
		return err
	}
	repo, text, err := a.openRemote(ctx, text, f.identity, config)
	if err != nil {
		return err
	}
	config.URL, config.ID = text, repo.ID()
	a.useNear(repo, config.Cache)
	a.cloned = repo
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
	x.answer.Others, x.goOn = others, goOn
	err = x.withStore(shown, func(s *cas.Store, loc *places.Location) error {
		return x.bring(shown, x.importer(s, repo, loc), fetched, loc)
	})
	stop()
	if err != nil && x.imported {
		return x.notWhole(err)
	}
	if err != nil {
		return remoteError(text, err)
	}
	if err := x.print(); err != nil || f.at == "" {
		return err
	}
	return x.restore(ctx)
}

// restore does what --at asks for: all files are as they were then, whoever has changed them since, as
// nobody has worked in the directory yet.
func (x *cloning) restore(ctx context.Context) error {
	a := x.app
	a.out.Flush()
	args := []string{"--root", x.dir, "--session", x.answer.Session, "restore", "-y", x.flags.at}
	if only := newOnly(x.flags.only); len(only) == 0 {
		args = append(args, "--exact")
	} else {
		args = append(args, "--")
		for _, p := range only {
			args = append(args, filepath.Join(x.dir, filepath.FromSlash(p)))
		}
	}
	sub := newApp(args, a.stdin, a.stdout, a.stderr, a.getenv)
	if code := sub.run(ctx); code != exitDone {
		return &failure{code: code}
	}
	return nil
}

// cloneConfig returns what a clone remembers of its remote, as far as flags say it.
func (a *app) cloneConfig(f *cloneFlags) (*exchange.Config, error) {
	c := &exchange.Config{Name: f.name, Identity: f.identity, Cache: f.cache}
	for _, p := range []*string{&c.Identity, &c.Cache} {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(a.path(*p))
		if err != nil {
			return nil, err
		}
		*p = abs
	}
	a.cache = c.Cache
	return c, nil
}

// notWhole returns the failure of a clone that has brought all records, and then was cut off by an error: part of
// the files are there, so it cannot be run again.
func (x *cloning) notWhole(err error) error {
	if told, ok := errors.AsType[*failure](err); ok && told.err == nil { // each file that is missing was named
		return err
	}
	has := words.Quote(x.dir) + " has its history, and not all of its files"
	rest := "'snapctl --root " + words.ShellQuote(x.dir) + " restore -y @ --exact' writes the rest"
	if errors.Is(err, context.Canceled) {
		return &failure{exitInterrupted, errors.New("clone: interrupted, " + has), rest}
	}
	f := failureOf(remoteError(x.config.URL, err))
	return &failure{f.code, fmt.Errorf("clone: %s: %w", has, err), "when that is mended, " + rest}
}

// cloning is one clone.
type cloning struct {
	app      *app
	dir      string
	flags    *cloneFlags
	goOn     []*exchange.FetchedLine
	config   *exchange.Config
	storeDir string
	answer   *cloneAnswer

	baseDir string     // that files are taken from; "": none
	base    *base.Base // there; nil: it is to be made
	placed  *placed    // what came from it; nil: there is none

	filling  *trees.Filling // of the files; nil: they are exported when all is here
	imported bool           // all records are here
}

// importer returns what brings the records, and begins to write files.
func (x *cloning) importer(s *cas.Store, repo *lines.Repo, loc *places.Location) *exchange.Importer {
	m := &exchange.Importer{Store: s, Repo: repo, Name: x.flags.name, Worktree: loc.Project.Worktree,
		Root: loc.Project.Root, Lazy: x.flags.lazy || len(x.flags.only) > 0}
	if !m.Lazy {
		m.Fill = func(ctx context.Context, tree store.ID) (_ *trees.Filling, err error) {
			x.filling, err = trees.Fill(ctx, s, tree, x.dir)
			return x.filling, err
		}
	}
	return m
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
	x.storeDir = loc.Dir
	err = loc.Note(ctx, s.FS())
	if err == nil {
		err = fn(s, loc)
	}
	return errors.Join(err, s.Close())
}

// bring brings the records, and then the files of the newest.
func (x *cloning) bring(
	ctx context.Context, m *exchange.Importer, f *exchange.Fetched, loc *places.Location,
) error {
	before, err := m.Store.Newest(ctx, m.Worktree, cas.AnySession)
	if err == nil && len(before.Origin) == 0 { // else a clone was cut off
		return refuse("clone into a directory that snapctl does not know",
			"%s has a history of its own here, of session %q", words.Quote(x.dir), before.Session)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	// The remote comes first: what is promised is nowhere else.
	if err := x.addRemote(ctx, m.Store); err != nil {
		return err
	}
	r, err := m.Import(ctx, f, x.goOn)
	if err != nil {
		return err
	}
	x.imported = true
	x.answer.Records, x.answer.Bytes, x.answer.Lost = r.Records, r.Bytes, r.Lost
	if r.Untold {
		x.app.tell("warning: what stays at %s may be pruned there: this machine may not write there, and say so",
			words.Quote(x.config.Name))
	}
	for _, l := range x.goOn {
		x.answer.Sessions = append(x.answer.Sessions, l.Session)
	}
	newest, err := m.Store.Newest(ctx, m.Worktree, cas.AnySession)
	if err != nil {
		return err
	}
	x.answer.Session = newest.Session
	if err := x.writeLogs(ctx, m.Store, f, m.Worktree); err != nil {
		return err
	}
	result, err := x.write(ctx, m.Store, newest)
	if err == nil && m.Lazy {
		x.answer.Promised, err = m.Store.Absent(x.config.Name)
	}
	if err != nil {
		return err
	}
	x.seed(ctx, m.Store, loc, newest)
	x.answer.Files = result.Files
	for _, path := range result.Forgotten {
		x.app.tell("%s is missing: it %v", words.Quote(path), store.ErrForgotten)
	}
	for _, l := range slices.Concat(result.Lost, result.Refused) {
		x.app.tell("%s is missing: %v", words.Quote(l.Path), l.Err)
	}
	for _, path := range x.answer.Missing {
		x.app.tell("%s is not in the snapshot: nothing was written for it", words.Quote(path))
	}
	if len(result.Lost)+len(result.Refused)+len(result.Forgotten)+len(x.answer.Missing) > 0 {
		return &failure{code: exitPart}
	}
	return nil
}

// addRemote adds the remote, unless a clone that was cut off has done so.
func (x *cloning) addRemote(ctx context.Context, s *cas.Store) error {
	err := exchange.Add(ctx, s.FS(), x.config)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	there, ferr := exchange.Find(s.FS(), x.config.Name)
	if ferr != nil {
		return ferr
	}
	if there.URL != x.config.URL || there.ID != x.config.ID {
		return refuse("give it another name with --name", "%w", err)
	}
	return nil
}

// writeLogs writes the conversations of the sessions that go on, as the runtime keeps them that had
// them: into the store, where they are in the way of nobody.
func (x *cloning) writeLogs(ctx context.Context, s *cas.Store, f *exchange.Fetched, worktree string) error {
	of := layout.Worktree(worktree)
	for _, l := range x.goOn {
		text := f.Log(l)
		if len(text) == 0 {
			continue
		}
		text, err := history.MovedLog(ctx, s, worktree, x.dir, text)
		if err != nil {
			return err
		}
		for _, dir := range []string{of.Dir(), of.Cloned()} {
			if err := s.FS().Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
		name := of.Cloned() + "/" + cmp.Or(l.Session, defaultSession) + ".jsonl"
		if err := layout.WriteFile(s.FS(), name, text); err != nil {
			return err
		}
		x.answer.Logs = append(x.answer.Logs, filepath.Join(x.storeDir, filepath.FromSlash(name)))
	}
	return nil
}

// write writes the files of a snapshot, or those that are wanted, and notes what is left out.
func (x *cloning) write(ctx context.Context, s *cas.Store, snap *store.Snapshot) (*trees.ExportResult, error) {
	if x.filling != nil && x.filling.Root == snap.Tree {
		return x.filling.Finish(s)
	}
	if x.filling != nil { // it is not the newest after all
		if err := x.filling.Abandon(); err != nil {
			return nil, err
		}
	}
	if !x.flags.lazy && len(x.flags.only) == 0 {
		return trees.Export(ctx, s, snap.Tree, x.dir)
	}
	only := newOnly(x.flags.only)
	ids, err := exchange.Notes(ctx, s)
	if err != nil {
		return nil, err
	}
	if len(only) == 0 {
		return x.fillLazily(ctx, s, snap.Tree, ids)
	}
	if err := only.prefetch(ctx, s, snap.Tree, ids...); err != nil {
		return nil, err
	}
	if x.answer.Missing, err = only.missing(ctx, s, snap.Tree); err != nil {
		return nil, err
	}
	left, err := only.left(ctx, s, snap.Tree)
	if err == nil { // before there is a file: nobody may take the rest for deleted
		err = left.Write(s.FS(), layout.Worktree(snap.Worktree))
	}
	if err != nil {
		return nil, err
	}
	return only.export(ctx, s, snap.Tree, x.dir)
}

func (x *cloning) print() error {
	a, j := x.app, x.answer
	if a.flags.json {
		return a.printJSON(j)
	}
	a.note("%s: %s, as session %s left them; %s", words.Quote(j.Dir), words.Count(j.Files, "file"),
		cmp.Or(j.Session, defaultSession), words.Count(j.Records, "record"))
	if j.FromBase != nil {
		a.note("%s of them from the base %s", words.Comma(*j.FromBase), words.Quote(x.baseDir))
	}
	if j.Others > 0 {
		a.note("others go on, too: %s, which 'snapctl sessions --all' lists", words.Count(j.Others, "more tip"))
	}
	for _, log := range j.Logs {
		a.note("the conversation goes on from %s", words.Quote(log))
	}
	if j.Promised > 0 {
		a.note("%s stay at %s until they are read: 'snapctl remote fetch' brings them all",
			words.Count(j.Promised, "content"), x.config.Name)
	}
	if j.Lost > 0 {
		a.tell("%s had been lost where they were made", words.Count(j.Lost, "object"))
	}
	a.note("'snapctl log' in it shows the turns, and 'snapctl restore' takes them back; "+
		"'snapctl remote push' puts there what comes next: %s", fmt.Sprint(x.config.Name))
	return nil
}
