package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/store"
)

type logFlags struct {
	limit int
	all   bool
}

func (a *app) logCommand() *cobra.Command {
	var f logFlags
	c := &cobra.Command{
		Use:     "log",
		Short:   "List snapshots, newest first",
		Long:    logHelp,
		Example: logExamples,
		Args:    args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.limit < 0 {
				return usageError(cmd, "log: --limit %d: want 1 or more", f.limit)
			}
			return a.printLog(cmd.Context(), &f)
		},
	}
	c.Flags().IntVarP(&f.limit, "limit", "n", 0, "list at most `N` snapshots (default all)")
	c.Flags().BoolVar(&f.all, "all", false, "list all sessions, of all working trees that share the store")
	return c
}

func (a *app) printLog(ctx context.Context, f *logFlags) error {
	p, err := a.openToRead(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	list := p.store.Snapshots(ctx)
	if !f.all {
		if err := p.chooseSession(ctx); err != nil {
			return err
		}
		list = p.snapshots(ctx)
	}
	n := 0
	for snap, err := range list {
		if err == nil {
			err = a.printLogLine(snap, f.all)
		}
		if err != nil {
			return err
		}
		if n++; n == f.limit {
			break
		}
	}
	if n == 0 {
		return noSnapshots(p.project)
	}
	return nil
}

func (a *app) printLogLine(snap *store.Snapshot, all bool) error {
	if a.flags.json {
		return a.printJSON(newJSONSnapshot(snap))
	}
	fmt.Fprintf(a.out, "%s  %s  %s", a.paint(yellow, snap.Entry), snap.Tree.Short(), clock(snap.Time))
	if all {
		fmt.Fprintf(a.out, "  %s  %s", snap.Session, patch.Quote(snap.Root))
	}
	if snap.Label != "" {
		fmt.Fprintf(a.out, "  %s", patch.Quote(snap.Label))
	}
	fmt.Fprintln(a.out)
	return nil
}
