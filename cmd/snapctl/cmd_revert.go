package main

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/manager"
)

func (a *app) revertCommand() *cobra.Command {
	f := restoreFlags{always: true}
	c := &cobra.Command{
		Use:   "revert [flags] TURN... [-- PATH...]\n  snapctl revert [flags] --lines FILE:FIRST-LAST",
		Short: "Take back turns, and keep what came after them",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.turns = args
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				f.turns, f.paths = args[:n], args[n:]
			}
			switch hasLines := cmd.Flags().Changed("lines"); {
			case hasLines && f.checkLines(cmd) != nil:
				return f.checkLines(cmd)
			case len(f.turns) == 0 && !hasLines:
				return usageError(cmd, "revert: no TURN")
			case f.whenIdle && (f.force || f.endTurn):
				return usageError(cmd, "revert: --when-idle waits, and does not go with --force or %s", flagEndTurn)
			}
			if err := a.checkHunks(cmd, &f); err != nil {
				return err
			}
			return a.revert(cmd, &f)
		},
	}
	f.add(c)
	f.addOnConflict(c)
	f.addHunks(c)
	c.Flags().Lookup("yes").Usage = "do not ask"
	c.Flags().StringVar(&f.lines, "lines", "", "take back what wrote these lines of a file: `FILE:FIRST-LAST`")
	c.Flags().BoolVar(&f.whenIdle, "when-idle", false, "wait until no turn is open in the directory")
	return c
}

func (a *app) revert(cmd *cobra.Command, f *restoreFlags) error {
	ctx := cmd.Context()
	var lines *manager.BlameOptions
	p, err := a.restoring(ctx, func(p *place) (err error) {
		if f.lines == "" {
			return p.chooseSessionToRestore(ctx, f.turns[0], f.dryRun)
		}
		if lines, err = p.lineRange(cmd, f.lines); err != nil {
			return err
		}
		return p.chooseSessionOfLines(ctx, lines)
	})
	if err != nil {
		return err
	}
	defer p.close()
	isPart := false
	if lines != nil {
		if isPart, err = p.findHunks(ctx, lines, f); err != nil {
			return err
		}
	}
	paths, err := p.filter(cmd, f.paths)
	if err != nil {
		return err
	}
	for i := range paths {
		paths[i] = cmp.Or(paths[i], ".")
	}
	f.offered = &manager.HunkRange{Turns: f.turns, Paths: paths}
	opts := &manager.RevertOptions{Turns: f.turns, Paths: paths, OnDirty: f.onDirty, OnConflict: f.onConflict}
	err = a.runAgreed(cmd, p, f, "undo", func(preview bool) (*manager.RestoreResult, error) {
		opts.Preview, opts.Force, opts.EndTurn, opts.Hunks = preview, f.force, f.endTurn, f.hunks
		for {
			shown, stop := a.showProgress(ctx)
			r, err := p.m.Revert(shown, opts)
			stop()
			err = f.hintOfHunks(p.hintNearOf(ctx, f.turns, err))
			if len(f.hunks) == 0 && errors.Is(err, manager.ErrNothing) {
				err = &failure{exitRefused, err, "'snapctl log' lists turns, and says which are taken back"}
			}
			if !f.whenIdle || !errors.Is(err, manager.ErrTurnOpen) {
				return r, err
			}
			if err := p.waitUntilIdle(ctx); err != nil {
				return nil, err
			}
		}
	})
	if isPart && err == nil {
		return &failure{code: exitPart}
	}
	return err
}

// idlePoll is how often it is looked whether a turn has ended.
const idlePoll = 200 * time.Millisecond

// waitUntilIdle waits until no turn is open in the directory, and says for which it waits.
func (p *place) waitUntilIdle(ctx context.Context) error {
	told := ""
	for {
		open, err := inside.Of(p.m).AllOpenTurns()
		if err != nil || len(open) == 0 {
			return err
		}
		var sessions []string
		for _, t := range open {
			sessions = append(sessions, t.Session)
		}
		if list := strings.Join(sessions, ", "); list != told {
			told = list
			p.app.note("waiting for the turn of session %s to end (Ctrl-C: nothing is changed); %s", list,
				whatEnds(open))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(idlePoll):
		}
	}
}
