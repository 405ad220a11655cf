package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show REV",
		Short:   "Show one snapshot and what changed with it",
		Long:    showHelp,
		Example: showExamples,
		Args:    args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd.Context(), args[0])
		},
	}
}

// A showAnswer is what show prints as JSON.
type showAnswer struct {
	jsonSnapshot
	BaselineTreeHash *store.ID    `json:"baselineTreeHash"`
	FirstSnapshot    bool         `json:"firstSnapshot"`
	Diff             *changeList  `json:"diff"` // null: the first snapshot, or nothing changed
	NotCaptured      reasonCounts `json:"notCaptured"`
}

func (a *app) show(ctx context.Context, text string) error {
	p, err := a.openToRead(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	snap, err := p.resolveSnapshot(ctx, text)
	if err != nil {
		return err
	}
	before, err := p.parent(ctx, snap)
	if err != nil {
		return err
	}
	left, err := readLeftOut(ctx, p.objects, snap.Coverage)
	if err != nil {
		return err
	}
	if a.flags.json {
		j := &showAnswer{jsonSnapshot: newJSONSnapshot(snap), FirstSnapshot: before == nil, NotCaptured: left.counts}
		if before != nil {
			j.BaselineTreeHash = &before.Tree
			list, err := listChanges(ctx, p.objects, before.State(), snap.State())
			if err != nil {
				return err
			}
			if list.len() > 0 {
				j.Diff = list
			}
		}
		return a.printJSON(j)
	}
	a.printHeader(snap, before, left)
	if before == nil {
		return nil
	}
	fmt.Fprintln(a.out)
	for c, err := range tree.Compare(ctx, p.objects, before.State(), snap.State()) {
		if err != nil {
			return err
		}
		a.printStatus(&c, false)
	}
	return nil
}

// resolveSnapshot finds the snapshot that a REV stands for.
func (p *place) resolveSnapshot(ctx context.Context, text string) (*store.Snapshot, error) {
	r, err := p.resolve(ctx, text)
	if err == nil && r.snap == nil {
		err = refuse("'snapctl ls' and 'snapctl diff' take it", "revision %q: a directory in a snapshot, not a snapshot", text)
	}
	return r.snap, err
}

func (a *app) printHeader(snap, before *store.Snapshot, left *leftOut) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(a.out, "%-14s%s\n", name+":", value)
		}
	}
	fmt.Fprintln(a.out, a.paint(yellow, "snapshot "+snap.Entry))
	line("tree", snap.Tree.String())
	line("time", snap.Time.Local().Format("2006-01-02 15:04:05 -0700"))
	line("label", patch.Quote(snap.Label))
	line("session", snap.Session)
	if before == nil {
		line("parent", "none: the first of its session")
	} else {
		line("parent", before.Entry)
	}
	line("root", patch.Quote(snap.Root))
	line("git commit", snap.Head)
	line("not captured", left.String())
}
