package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/exchange"
	"github.com/boocode/filestore/internal/when"
	"github.com/boocode/filestore/internal/words"
)

type remotePruneFlags struct {
	dryRun, dropSession, yes bool
	keepWithin               time.Duration
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
			return a.withRemotes(cmd.Context(), func(p *place) error { return p.remotePrune(cmd, args, &f) })
		},
	}
	c.Flags().BoolVarP(&f.dryRun, "dry-run", "n", false, "only say what would be done")
	addParsed(c.Flags(), &f.keepWithin, when.ParseLength, "keep-within",
		"drop lines whose newest record is older than `AGE`, e.g. 12h, 30d or 1y")
	c.Flags().BoolVar(&f.dropSession, "drop-session", false, "drop all lines of the session that --session names")
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask; without a terminal nothing is dropped without it")
	return c
}

// A remotePruneAnswer is what remote prune prints as JSON.
type remotePruneAnswer struct {
	DryRun bool `json:"dryRun"`
	*exchange.PruneResult
}

func (p *place) remotePrune(cmd *cobra.Command, args []string, f *remotePruneFlags) error {
	ctx, a := cmd.Context(), p.app
	c, err := p.remoteNamed(args)
	if err != nil {
		return err
	}
	repo, err := p.openKnown(ctx, c, "")
	if err != nil {
		return err
	}
	opts := &exchange.PruneOptions{Older: f.keepWithin}
	if f.dropSession {
		opts.Sessions = []string{a.flags.session}
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
			if err := a.confirm(cmd, "prune", what+" would be dropped from "+c.Name, "drop "+what+" for good?"); err != nil {
				return err
			}
		}
		if r, err = plan.Do(shown); err != nil {
			return remoteError(c.Name, err)
		}
	}
	stop()
	return a.printRemotePrune(ctx, c, plan, r, f.dryRun)
}

func (a *app) printRemotePrune(
	_ context.Context, c *exchange.Config, plan *exchange.PrunePlan, r *exchange.PruneResult, dryRun bool,
) error {
	if a.flags.json {
		if err := a.printJSON(&remotePruneAnswer{dryRun, r}); err != nil {
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
