package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/cmd/snapctl/internal/identity"
	"github.com/boocode/filestore/internal/exchange"
	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/when"
	"github.com/boocode/filestore/internal/words"
)

func (a *app) remoteCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "remote",
		Short: "Share sessions with other machines",
		Args:  a.noCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(a.remoteInitCommand(), a.remoteAddCommand(), a.remoteListCommand(), a.remoteRemoveCommand(),
		a.remotePushCommand(), a.remotePullCommand(), a.remoteFetchCommand(), a.remoteEvictCommand(),
		a.remoteStatusCommand(), a.remoteCheckCommand(), a.remotePruneCommand(), a.remoteWaitCommand(),
		a.remoteRotateCommand(), a.remoteRepairCommand(), a.remoteKeyCommand())
	return c
}

func (a *app) remoteInitCommand() *cobra.Command {
	var recipients []string
	var plain bool
	c := &cobra.Command{
		Use:   "init URL",
		Short: "Make a remote in a bucket or a directory",
		Args:  args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if plain && len(recipients) > 0 {
				return usageError(cmd, "remote init: --plain encrypts nothing, so there is no --recipient")
			}
			return a.remoteInit(cmd.Context(), args[0], recipients, plain)
		},
	}
	c.Flags().StringArrayVar(&recipients, "recipient", nil,
		"encrypt for `KEY`, age1… or a public key of SSH (default: your own identity, which is made)")
	c.Flags().BoolVar(&plain, "plain", false, "do not encrypt: who can read the place can read all of it")
	return c
}

// A remoteInitAnswer is what remote init prints as JSON.
type remoteInitAnswer struct {
	URL      string           `json:"url"`
	ID       string           `json:"id"`
	Plain    bool             `json:"plain"`
	Identity string           `json:"identity,omitempty"` // file of the user's own, if it is for that
	Made     bool             `json:"made"`               // the identity was made
	Found    []remote.Finding `json:"found"`
}

func (a *app) remoteInit(ctx context.Context, text string, recipients []string, plain bool) error {
	b, text, err := a.backend(text, true)
	if err != nil {
		return err
	}
	b = a.sure(b)
	answer := &remoteInitAnswer{URL: text, Plain: plain}
	_, err = lines.Open(ctx, b, func([]byte) ([]byte, error) { return nil, lines.ErrThere })
	if err == nil || errors.Is(err, lines.ErrThere) {
		return remoteError(text, lines.ErrThere)
	} else if !errors.Is(err, lines.ErrNone) {
		return remoteError(text, err)
	}
	if answer.Found, err = remote.Probe(ctx, b, "probe"); err != nil {
		return remoteError(text, err)
	}
	for _, f := range answer.Found {
		if f.Err != "" {
			return refuse("nothing was made there; turns of several machines would overwrite each other",
				"remote %s: the place is not good enough: %s: %s", words.Quote(text), f.What, f.Err)
		}
	}
	var circle *lines.Circle
	if !plain {
		rs, err := a.recipients(recipients, answer)
		if err != nil {
			return err
		}
		circle = circleOf(rs)
	}
	repo, err := lines.Init(ctx, b, circle)
	if err != nil {
		return remoteError(text, err)
	}
	answer.ID = repo.ID()
	if a.flags.json {
		return a.printJSON(answer)
	}
	switch {
	case plain:
		fmt.Fprintf(a.out, "made %s, not encrypted\n", words.Quote(text))
	case answer.Identity == "":
		fmt.Fprintf(a.out, "made %s, encrypted for %s\n", words.Quote(text), words.Count(len(recipients), "recipient"))
	default:
		fmt.Fprintf(a.out, "made %s, encrypted for your identity, %s\n", words.Quote(text),
			words.Quote(answer.Identity))
	}
	if answer.Made {
		a.note("the identity was made now: keep a copy of the file, nothing of the remote can be read without it")
	}
	a.note("'snapctl remote add NAME %s' has a project use it", words.ShellQuote(text))
	return nil
}

// recipients returns for whom a remote is to be: with none, for the user, whose identity is
// made if there is none.
func (a *app) recipients(texts []string, answer *remoteInitAnswer) (identity.Recipients, error) {
	if len(texts) > 0 {
		rs, err := identity.ParseRecipients(texts)
		if err != nil {
			return nil, &failure{code: exitUsage, err: err}
		}
		return rs, nil
	}
	if a.getenv("BOO_IDENTITY") == "" {
		name, err := identity.Path(a.getenv)
		if err != nil {
			return nil, &failure{exitEnvironment, err, "name public keys with --recipient"}
		}
		answer.Identity = name
		if _, err = identity.Make(name); err == nil {
			answer.Made = true
		} else if !errors.Is(err, fs.ErrExist) {
			return nil, &failure{exitEnvironment, fmt.Errorf("make an identity: %w", err), ""}
		}
	}
	id, err := a.identityOf("", "")
	if err != nil {
		return nil, err
	}
	rs, err := id.Own()
	if err != nil {
		return nil, &failure{code: exitUsage, err: fmt.Errorf("your identity: %w", err)}
	}
	return rs, nil
}

const identityUsage = "open it with the identity in `FILE` (default $BOO_IDENTITY or your own)"

func (a *app) remoteAddCommand() *cobra.Command {
	var file, push string
	var noLog bool
	c := &cobra.Command{
		Use:   "add NAME URL",
		Short: "Have this project use a remote",
		Args:  args(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !exchange.ValidName(args[0]) {
				return usageError(cmd, "remote add: name %q: want letters, digits, - and _", args[0])
			}
			if push != pushAuto && push != pushManual {
				return usageError(cmd, "remote add: --push %q: want auto or manual", push)
			}
			return a.remoteAdd(cmd.Context(), args[1], &exchange.Config{Name: args[0], Identity: file,
				Manual: push == pushManual, NoLog: noLog})
		},
	}
	c.Flags().StringVar(&file, "identity", "", identityUsage)
	c.Flags().BoolVar(&noLog, "no-log", false, "do not put there the logs that agents keep of their conversations")
	c.Flags().StringVar(&push, "push", pushAuto,
		"push when `HOW`: auto (an engine does, behind turns) or manual (only 'remote push')")
	return c
}

const pushAuto, pushManual = "auto", "manual"

// A jsonRemote is a remote of a project in JSON.
type jsonRemote struct {
	Name     string `json:"name"`
	URL      string `json:"url"`
	ID       string `json:"id"`
	Identity string `json:"identity,omitempty"`
	Manual   bool   `json:"manual,omitempty"`
}

func newJSONRemote(c *exchange.Config) *jsonRemote {
	return &jsonRemote{c.Name, c.URL, c.ID, c.Identity, c.Manual}
}

// remoteAdd adds a remote, of which c has what the user has said.
func (a *app) remoteAdd(ctx context.Context, text string, c *exchange.Config) error {
	name := c.Name
	if c.Identity != "" {
		c.Identity = a.path(c.Identity)
	}
	return a.withRemotes(ctx, func(p *place) error {
		repo, text, err := a.openRemote(ctx, text, c.Identity, c)
		if err != nil {
			return err
		}
		c.URL, c.ID = text, repo.ID()
		err = exchange.Add(ctx, p.store.FS(), c)
		if errors.Is(err, fs.ErrExist) {
			return refuse("'snapctl remote remove "+name+"' has the project forget it", "there is a remote %q already",
				name)
		}
		if err != nil {
			return err
		}
		if a.flags.json {
			return a.printJSON(newJSONRemote(c))
		}
		a.note("added %s: %s; 'snapctl remote push %s' puts all sessions there", name, words.Quote(text), name)
		return nil
	})
}

func (a *app) remoteListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the remotes of this project",
		Args:  args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withRemotes(cmd.Context(), func(p *place) error {
				list, err := exchange.List(p.store.FS())
				for _, c := range list {
					if a.flags.json {
						if err := a.printJSON(newJSONRemote(c)); err != nil {
							return err
						}
						continue
					}
					fmt.Fprintf(a.out, "%s  %s\n", c.Name, words.Quote(c.URL))
				}
				return err
			})
		},
	}
}

func (a *app) remoteRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Have this project forget a remote, and leave what is there",
		Args:  args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRemote(cmd.Context(), args, func(p *place, c *exchange.Config) error {
				if err := exchange.Remove(cmd.Context(), p.store, c.Name); errors.Is(err, exchange.ErrPromised) {
					return refuse("'snapctl remote fetch "+c.Name+"' brings them here first", "%w", err)
				} else if err != nil {
					return err
				}
				a.note("removed %s; what is at %s stays there", c.Name, words.Quote(c.URL))
				return nil
			})
		},
	}
}

func (a *app) remotePushCommand() *cobra.Command {
	var all, wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "push [NAME]",
		Short: "Put what is recorded into a remote",
		Args:  args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := within(cmd.Context(), timeout)
			defer cancel()
			return a.remotePush(ctx, args, all)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "push all sessions, whatever --session says")
	c.Flags().BoolVar(&wait, "wait", false, "end when all is durable there, as push does in any case")
	c.Flags().DurationVar(&timeout, "timeout", 0, "give up after so `LONG`, e.g. 30s")
	return c
}

// within returns a context that ends after a time; 0: only with ctx.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, d, lateError(d))
}

// A lateError says that something was not done within the time that the user has said.
type lateError time.Duration

func (e lateError) Error() string { return fmt.Sprintf("not done within %v", time.Duration(e)) }

func (lateError) Unwrap() error { return context.DeadlineExceeded }

func (a *app) remoteWaitCommand() *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "wait [NAME]",
		Short: "End when all that is recorded is in the remotes",
		Args:  args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := within(cmd.Context(), timeout)
			defer cancel()
			return a.withRemotes(ctx, func(p *place) error {
				list, err := exchange.List(p.store.FS())
				if err == nil && (len(args) > 0 || len(list) == 0) {
					var c *exchange.Config
					c, err = p.remoteNamed(args)
					list = []*exchange.Config{c}
				}
				if err != nil {
					return err
				}
				var errs []error
				for _, c := range list { // one that is not reached does not keep the others
					errs = append(errs, p.pushAll(ctx, c))
				}
				return errors.Join(errs...)
			})
		},
	}
	c.Flags().DurationVar(&timeout, "timeout", 0, "give up after so `LONG`, e.g. 30s")
	return c
}

// pushAll puts all that is not in a remote, if anything is not.
func (p *place) pushAll(ctx context.Context, c *exchange.Config) error {
	w, err := exchange.Waiting(ctx, p.store, c.Name)
	if err != nil || w.Records == 0 {
		return err
	}
	repo, err := p.openKnown(ctx, c)
	if err != nil {
		return err
	}
	r, err := exchange.NewPusher(p.store, repo, c).Push(ctx)
	if err != nil {
		return remoteError(c.Name, err)
	}
	return p.app.printPushed(c, r)
}

func (a *app) remotePush(ctx context.Context, args []string, all bool) error {
	return a.withRepo(ctx, args, func(p *place, c *exchange.Config, repo *lines.Repo) error {
		var sessions []string
		if a.sessionTyped && !all {
			if err := p.mustHaveSession(ctx, a.flags.session); err != nil {
				return err
			}
			sessions = []string{a.flags.session}
		}
		shown, stop := a.showProgress(ctx)
		r, err := exchange.NewPusher(p.store, repo, c).Push(shown, sessions...)
		stop()
		if errors.Is(err, context.Canceled) {
			return p.cutPush(context.WithoutCancel(ctx), c, r)
		}
		if err != nil {
			return remoteError(c.Name, err)
		}
		return a.printPushed(c, r)
	})
}

// cutPush returns the failure of a push that was interrupted: what it has put, and what is not there.
func (p *place) cutPush(ctx context.Context, c *exchange.Config, r *exchange.PushResult) error {
	if r == nil {
		r = new(exchange.PushResult)
	}
	w, err := exchange.Waiting(ctx, p.store, c.Name)
	if err != nil {
		return err
	}
	return &failure{exitInterrupted, fmt.Errorf("remote push: interrupted, %s came to %s, %s did not",
		words.Count(r.Records, "record"), c.Name, words.Comma(w.Records)),
		"'snapctl remote push " + c.Name + "' puts the rest there"}
}

func (a *app) printPushed(c *exchange.Config, r *exchange.PushResult) error {
	if a.flags.json {
		return a.printJSON(r)
	}
	for _, why := range r.Unread {
		a.tell("the log of a conversation did not go along: %s", words.Plain(why))
	}
	for _, session := range r.New {
		a.note("another goes on with session %s, too: it has two tips now, and both are kept", session)
	}
	if r.Lost > 0 {
		a.tell("%s that snapshots need are lost here, and so there: 'snapctl check' lists them",
			words.Count(r.Lost, "object"))
	}
	if r.Forgotten > 0 {
		a.note("%s that snapshots need were forgotten, and are put there no more", words.Count(r.Forgotten, "content"))
	}
	if r.Records == 0 {
		a.note("all is at %s", c.Name)
		return nil
	}
	a.note("pushed %s of %s to %s, %s", words.Count(r.Records, "record"), words.Count(r.Sessions, "session"), c.Name,
		words.Size(r.Bytes))
	return nil
}

// mustHaveSession refuses a session of which the store has nothing.
func (p *place) mustHaveSession(ctx context.Context, session string) error {
	for snap, err := range p.store.Sessions(ctx) {
		if err != nil {
			return err
		}
		if snap.Session == session {
			return nil
		}
	}
	return refuse("'snapctl sessions --all' lists sessions", "there is no session %q", session)
}

func (a *app) remotePullCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pull [NAME]",
		Short: "Bring what others have put into a remote",
		Args:  args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return a.withRepo(ctx, args, func(p *place, c *exchange.Config, repo *lines.Repo) error {
				r, err := p.pull(ctx, c, repo)
				if err != nil {
					return remoteError(c.Name, err)
				}
				if a.flags.json {
					return a.printJSON(r)
				}
				a.note("pulled %s from %s, %s; 'snapctl sessions --remote %[2]s' lists whose",
					words.Count(r.Records, "record"), c.Name, words.Size(r.Bytes))
				return nil
			})
		},
	}
}

func (p *place) pull(ctx context.Context, c *exchange.Config, repo *lines.Repo) (*exchange.ImportResult, error) {
	var session *string
	if p.app.sessionTyped {
		session = &p.app.flags.session
	}
	p.app.useNear(repo, c.Cache)
	f, err := exchange.Fetch(ctx, repo, session)
	if err != nil {
		return nil, err
	}
	shown, stop := p.app.showProgress(ctx)
	defer stop()
	return (&exchange.Importer{Store: p.store, Repo: repo, Name: c.Name}).Import(shown, f, nil)
}

func (a *app) remoteFetchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "fetch [NAME]",
		Short: "Bring all contents that were left at a remote",
		Args:  args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return a.withRemote(ctx, args, func(p *place, c *exchange.Config) error {
				shown, stop := a.showProgress(ctx)
				n, err := exchange.FetchAll(shown, p.store, c.Name)
				stop()
				if err != nil {
					return remoteError(c.Name, err)
				}
				if a.flags.json {
					return a.printJSON(struct {
						Objects int `json:"objects"`
					}{n})
				}
				a.note("fetched %s from %s", words.Count(n, "content"), c.Name)
				return nil
			})
		},
	}
}

func (a *app) remoteEvictCommand() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use:   "evict [NAME]",
		Short: "Free what is here of contents that a remote has",
		Args:  args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return a.withRepo(ctx, args, func(p *place, c *exchange.Config, repo *lines.Repo) error {
				shown, stop := a.showProgress(ctx)
				r, err := exchange.Evict(shown, p.store, repo, c.Name, dryRun)
				stop()
				if err != nil {
					return remoteError(c.Name, err)
				}
				if a.flags.json {
					return a.printJSON(r)
				}
				verb := "freed"
				if dryRun {
					verb = "would free"
				}
				a.note("%s %s, %s: they are at %s, and are fetched when they are read", verb,
					words.Count(r.Objects, "content"), words.Size(r.Bytes), c.Name)
				if r.Read > 0 {
					a.note("%s were read there, and are what was put there", words.Size(r.Read))
				}
				return nil
			})
		},
	}
	c.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "print what would be freed, and do nothing")
	return c
}

func (a *app) remoteStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show what is not in a remote yet",
		Args:  args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRemotes(cmd.Context(), func(p *place) error { return p.remoteStatus(cmd.Context(), args) })
		},
	}
}

// A remoteStatusAnswer is what remote status prints as JSON, a line for each remote.
type remoteStatusAnswer struct {
	jsonRemote
	Records  int        `json:"records"`          // that are not there
	Sessions int        `json:"sessions"`         // of these
	Oldest   *time.Time `json:"oldest,omitempty"` // of them
	Pushed   *time.Time `json:"pushed"`           // when all was there last; null: never
	Tried    *time.Time `json:"tried"`            // when it was tried last
	Err      string     `json:"err,omitempty"`    // and why it failed
	Promised int        `json:"promised"`         // contents that are there, and not here
}

func (p *place) remoteStatus(ctx context.Context, args []string) error {
	list, err := exchange.List(p.store.FS())
	if err == nil && (len(args) > 0 || len(list) == 0) {
		var c *exchange.Config
		c, err = p.remoteNamed(args)
		list = []*exchange.Config{c}
	}
	if err != nil {
		return err
	}
	for _, c := range list {
		w, err := exchange.Waiting(ctx, p.store, c.Name)
		if err != nil {
			return err
		}
		last := exchange.LastOf(p.store.FS(), c.Name)
		j := &remoteStatusAnswer{jsonRemote: *newJSONRemote(c), Records: w.Records, Sessions: w.Sessions,
			Oldest: timeOrNull(w.Oldest), Pushed: timeOrNull(last.Pushed), Tried: timeOrNull(last.Tried), Err: last.Err}
		if j.Promised, err = p.store.Absent(c.Name); err != nil {
			return err
		}
		if p.app.flags.json {
			if err := p.app.printJSON(j); err != nil {
				return err
			}
			continue
		}
		p.printRemoteStatus(j)
	}
	return nil
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (p *place) printRemoteStatus(j *remoteStatusAnswer) {
	out := p.app.out
	fmt.Fprintf(out, "%s  %s\n", j.Name, words.Quote(j.URL))
	if j.Records == 0 {
		fmt.Fprintf(out, "  all is there")
	} else {
		fmt.Fprintf(out, "  %s of %s not there yet, the oldest from %s", words.Count(j.Records, "record"),
			words.Count(j.Sessions, "session"), when.Ago(*j.Oldest, time.Now()))
	}
	if j.Pushed != nil {
		fmt.Fprintf(out, " · last push %s", clock(*j.Pushed))
	} else {
		fmt.Fprintf(out, " · never pushed as a whole")
	}
	fmt.Fprintln(out)
	if j.Promised > 0 {
		fmt.Fprintf(out, "  %s are there and not here, and are fetched when they are read\n",
			words.Count(j.Promised, "content"))
	}
	if j.Err != "" {
		fmt.Fprintf(out, "  the last try, %s, failed: %s\n", clock(*j.Tried), words.Plain(j.Err))
	}
}

func (a *app) remoteCheckCommand() *cobra.Command {
	var data bool
	c := &cobra.Command{
		Use:   "check [NAME]",
		Short: "Look for damage in a remote",
		Args:  args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return a.withRepo(ctx, args, func(p *place, c *exchange.Config, repo *lines.Repo) error {
				shown, stop := a.showProgress(ctx)
				r, err := exchange.Check(shown, repo, p.store.FS(), c.Name, data)
				stop()
				if err != nil {
					return remoteError(c.Name, err)
				}
				return a.printRemoteCheck(c, r)
			})
		},
	}
	c.Flags().BoolVar(&data, "data", false, "read all packs, too, and verify what is in them")
	return c
}

// A remoteCheckAnswer is what remote check prints as JSON.
type remoteCheckAnswer struct {
	*exchange.CheckResult
	Damage []jsonRemoteDamage `json:"damage"`
}

type jsonRemoteDamage struct {
	Key   string `json:"key"`
	Error string `json:"error"`
}

func (a *app) printRemoteCheck(c *exchange.Config, r *exchange.CheckResult) error {
	j := &remoteCheckAnswer{CheckResult: r, Damage: []jsonRemoteDamage{}}
	for _, d := range r.Damage {
		j.Damage = append(j.Damage, jsonRemoteDamage{d.Key, d.Err.Error()})
	}
	if a.flags.json {
		if err := a.printJSON(j); err != nil {
			return err
		}
	} else {
		for _, d := range j.Damage {
			fmt.Fprintf(a.out, "%s: %s\n", d.Key, d.Error)
		}
		what := "packs were not read; --data reads them"
		if r.Read {
			what = "all was read"
		}
		a.note("%s: %s, %s, %s, %s; %s", c.Name, words.Count(r.Lines, "line"), words.Count(r.Entries, "entry"),
			words.Count(r.Records, "record"), words.Count(r.Packs, "pack"), what)
	}
	if len(r.Damage) > 0 {
		return &failure{exitDamage, fmt.Errorf("remote %s: damaged in %s", words.Quote(c.Name),
			words.Count(len(r.Damage), "place")), "what this store has is not touched by it"}
	}
	return nil
}
