package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/exchange"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/internal/when"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
)

type remotePruneFlags struct {
	dryRun, dropSession, yes, forgotten bool
	keepWithin, left                    time.Duration
}

func (a *app) remotePruneCommand() *cobra.Command {
	var f remotePruneFlags
	c := &cobra.Command{
		Use:   "prune [NAME]",
		Short: "Free what nobody needs in a remote",
		Args:  args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.dropSession && (!cmd.Flags().Changed("session") || a.flags.session == ""):
				return usageError(cmd, "remote prune: --drop-session: name it with --session ID")
			case !f.dropSession && cmd.Flags().Changed("session"):
				return usageError(cmd, "remote prune: --session goes with --drop-session only")
			}
			return a.withRepo(cmd.Context(), args, func(p *place, c *exchange.Config, repo *lines.Repo) error {
				return p.remotePrune(cmd, c, repo, &f)
			})
		},
	}
	c.Flags().BoolVarP(&f.dryRun, "dry-run", "n", false, "only say what would be done")
	addParsed(c.Flags(), &f.keepWithin, when.ParseLength, "keep-within",
		"drop lines whose newest record is older than `AGE`, e.g. 12h, 30d or 1y")
	addParsed(c.Flags(), &f.left, when.ParseLength, "left",
		"give up, too, what machines have left there (clone --lazy, evict) and have not said again for `AGE`")
	c.Flags().BoolVar(&f.dropSession, "drop-session", false, "drop all lines of the session that --session names")
	c.Flags().BoolVar(&f.forgotten, "forgotten", false, "remove the contents, too, that were forgotten here")
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask; without a terminal nothing is dropped without it")
	return c
}

// A remotePruneAnswer is what remote prune prints as JSON.
type remotePruneAnswer struct {
	DryRun bool `json:"dryRun"`
	*exchange.PruneResult
	Left int `json:"left"` // lines that would go but for what machines have left in them
}

func (p *place) remotePrune(
	cmd *cobra.Command, c *exchange.Config, repo *lines.Repo, f *remotePruneFlags,
) error {
	ctx, a := cmd.Context(), p.app
	opts := &exchange.PruneOptions{Older: f.keepWithin, Left: f.left}
	if f.dropSession {
		opts.Sessions = []string{a.flags.session}
	}
	if f.forgotten {
		var err error
		if opts.Forget, err = p.store.AllForgotten(); err != nil {
			return err
		}
	}
	if n, err := p.store.Absent(c.Name); err != nil {
		return err
	} else if line, ok := exchange.PinOf(p.store, c.Name); ok && n == 0 { // all is here by now
		opts.Pins = append(opts.Pins, line)
	}
	shown, stop := a.showProgress(ctx)
	defer stop()
	plan, err := exchange.PlanPrune(shown, repo, opts)
	if err != nil {
		return remoteError(c.Name, err)
	}
	r := &exchange.PruneResult{Lines: plan.Lines, Kept: plan.Kept, Entries: plan.Entries, Packs: plan.Packs,
		Bytes: plan.Bytes}
	if !f.dryRun && !plan.Empty() {
		if plan.Lines > 0 && !f.yes {
			stop()
			what := words.Count(plan.Lines, "line")
			err := a.confirm(cmd, "prune", what+" would be dropped from "+c.Name, "drop "+what+" for good?")
			if err != nil {
				return err
			}
		}
		if r, err = plan.Do(shown); err != nil {
			return remoteError(c.Name, err)
		}
	}
	stop()
	if f.forgotten && !f.dryRun {
		a.tellKept(ctx, c)
	}
	if plan.Left > 0 {
		a.tell("%s would go, and stay: machines have left contents there ('clone --lazy', 'evict'); "+
			"'snapctl remote fetch' on them, or --left, frees them", words.Count(plan.Left, "line"))
	}
	return a.printRemotePrune(ctx, c, plan, r, f.dryRun)
}

// forgetThere takes contents out of the remotes of a project, too. It says of each whether they are gone from it.
func (p *place) forgetThere(ctx context.Context, blobs []retain.ForgottenBlob) error {
	list, err := exchange.List(p.store.FS())
	if err != nil || len(blobs) == 0 {
		return err
	}
	var ids []store.ID
	for i := range blobs {
		ids = append(ids, blobs[i].ID)
	}
	var errs []error
	for _, c := range list {
		r, err := p.forgetAt(ctx, c, ids)
		if err != nil {
			err = fmt.Errorf("forgotten here, and still at %s: %w", words.Quote(c.Name), remoteError(c.Name, err))
			hint := "'snapctl remote prune " + c.Name + " --forgotten' removes it there"
			errs = append(errs, &failure{exitPart, err, hint})
			continue
		}
		p.app.note("removed from %s, too: %s written anew", c.Name, words.Count(r.Anew, "line"))
		p.app.tellKept(ctx, c)
	}
	if len(errs) > 0 {
		return errs[0] // what to do about the others is the same
	}
	return nil
}

func (p *place) forgetAt(ctx context.Context, c *exchange.Config, ids []store.ID) (*exchange.PruneResult, error) {
	repo, err := p.openKnown(ctx, c)
	if err != nil {
		return nil, err
	}
	plan, err := exchange.PlanPrune(ctx, repo, &exchange.PruneOptions{Forget: ids})
	if err != nil || plan.Empty() {
		return new(exchange.PruneResult), err
	}
	return plan.Do(ctx)
}

// tellKept says so if a place keeps what is removed from it.
func (a *app) tellKept(ctx context.Context, c *exchange.Config) {
	b, _, err := a.backend(c.URL, false)
	if err != nil {
		return // it was opened before
	}
	k, ok := b.(interface {
		Keeps(ctx context.Context) (string, error)
	})
	if !ok {
		a.note("backups of %s, and machines that cloned from it, may still hold it", c.Name)
		return
	}
	why, err := k.Keeps(ctx)
	switch {
	case err != nil:
		a.tell("warning: %s: it is not known whether what was removed is gone: %v", c.Name, err)
	case why != "":
		a.tell("warning: %s: what was removed can still be read by who may read old versions: %s", c.Name, why)
	default:
		a.note("machines that cloned from %s may still hold it", c.Name)
	}
}

func (a *app) remoteRepairCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "repair [NAME]",
		Short: "Have a remote and this store mend each other",
		Args:  args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return a.withRemote(ctx, args, func(p *place, c *exchange.Config) error {
				shown, stop := a.showProgress(ctx)
				r, err := p.remoteRepair(shown, c)
				stop()
				if err != nil {
					return err
				}
				return a.printRemoteRepair(c, r)
			})
		},
	}
}

func (p *place) remoteRepair(ctx context.Context, c *exchange.Config) (*exchange.RepairResult, error) {
	b, _, err := p.app.backend(c.URL, false)
	if err != nil {
		return nil, err
	}
	restored, err := exchange.RestoreHeld(ctx, p.store.FS(), c.Name, p.app.sure(b))
	if err != nil {
		return nil, remoteError(c.Name, err)
	}
	repo, err := p.openKnown(ctx, c)
	if err != nil {
		return nil, err
	}
	r, err := exchange.NewPusher(p.store, repo, c).Repair(ctx)
	if err != nil {
		return nil, remoteError(c.Name, err)
	}
	r.Restored = restored
	return r, nil
}

// A remoteRepairAnswer is what remote repair prints as JSON.
type remoteRepairAnswer struct {
	*exchange.RepairResult
	Left []jsonRemoteDamage `json:"left"`
}

func (a *app) printRemoteRepair(c *exchange.Config, r *exchange.RepairResult) error {
	j := &remoteRepairAnswer{r, []jsonRemoteDamage{}}
	for _, d := range r.Left {
		j.Left = append(j.Left, jsonRemoteDamage{d.Key, d.Err.Error()})
	}
	if a.flags.json {
		if err := a.printJSON(j); err != nil {
			return err
		}
	} else {
		for _, key := range append(append([]string{}, r.Restored...), r.Put...) {
			fmt.Fprintf(a.out, "put anew at %s: %s\n", c.Name, key)
		}
		for _, d := range j.Left {
			fmt.Fprintf(a.out, "%s: %s\n", d.Key, d.Error)
		}
		if r.Fetched > 0 {
			fmt.Fprintf(a.out, "brought from %s: %s\n", c.Name, words.Count(r.Fetched, "object"))
		}
		if len(r.Restored)+len(r.Put)+len(r.Left)+r.Fetched+r.Lost == 0 {
			a.note("nothing to repair, here or at %s", c.Name)
		}
	}
	if n := len(r.Left) + r.Lost; n > 0 {
		err := fmt.Errorf("still damaged: %s at %s, %s here", words.Count(len(r.Left), "object"),
			words.Quote(c.Name), words.Count(r.Lost, "object"))
		return &failure{exitDamage, err, "run it on a machine that has pushed or cloned the rest"}
	}
	return nil
}

func (a *app) printRemotePrune(
	_ context.Context, c *exchange.Config, plan *exchange.PrunePlan, r *exchange.PruneResult, dryRun bool,
) error {
	if a.flags.json {
		if err := a.printJSON(&remotePruneAnswer{dryRun, r, plan.Left}); err != nil {
			return err
		}
	} else {
		did := "dropped"
		if dryRun {
			did = "would drop"
		}
		if plan.Empty() {
			fmt.Fprintf(a.out, "nothing to do: all that is at %s is needed\n", c.Name)
		} else {
			fmt.Fprintf(a.out, "%s %s, %s and %s, %s; %s stay\n", did, words.Count(r.Lines, "line"),
				words.Count(r.Entries, "entry"), words.Count(r.Packs, "pack"), words.Size(r.Bytes),
				words.Count(r.Kept, "line"))
		}
	}
	if dryRun && !plan.Empty() {
		return &failure{code: exitRefused}
	}
	return nil
}
