package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/store"
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
	EntryID          *string       `json:"entryId"`
	TurnIndex        *int          `json:"turnIndex"` // null: no turn
	Kind             string        `json:"kind"`
	SnapshotTreeHash store.ID      `json:"snapshotTreeHash"`
	BaselineTreeHash *store.ID     `json:"baselineTreeHash"`
	FirstSnapshot    bool          `json:"firstSnapshot"`
	Time             time.Time     `json:"time"`
	Diff             *manager.Diff `json:"diff"` // null: the first snapshot, or nothing changed
	Contested        *manager.Diff `json:"contested,omitempty"`
	NotCaptured      reasonCounts  `json:"notCaptured"`
	Pruned           bool          `json:"pruned,omitempty"` // hashes and diff are not known
	*jsonRecord
}

func (a *app) show(ctx context.Context, text string) error {
	p, err := a.openToRead(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	point, err := p.resolveSnapshot(ctx, text)
	if err != nil {
		return err
	}
	snap := point.Snapshot
	step, coverage := new(manager.StepSnapshot), store.ID{}
	if !snap.Pruned {
		if step, err = p.m.Describe(ctx, point); err != nil {
			return err
		}
		coverage = snap.Coverage
	}
	left, err := readLeftOut(ctx, p.objects, coverage)
	if err != nil {
		return err
	}
	if a.flags.json {
		j := &showAnswer{EntryID: orNull(point.EntryID), Kind: snap.Kind, SnapshotTreeHash: snap.Tree, BaselineTreeHash: step.BaselineTreeHash,
			FirstSnapshot: snap.Kind == "start", Pruned: snap.Pruned, Time: snap.Time.UTC(), Diff: step.Diff, Contested: step.Contested,
			NotCaptured: left.counts, jsonRecord: newJSONRecord(snap)}
		if point.TurnIndex >= 0 {
			j.TurnIndex = &point.TurnIndex
		}
		return a.printJSON(j)
	}
	a.printHeader(point, step, left)
	if step.Diff == nil && step.Contested == nil {
		return nil
	}
	fmt.Fprintln(a.out)
	if step.Diff != nil {
		a.printDiff(step.Diff, "", "")
	}
	if step.Contested != nil {
		a.printDiff(step.Contested, "", " (contested)")
	}
	return nil
}

func (a *app) printHeader(point *manager.Point, step *manager.StepSnapshot, left *leftOut) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(a.out, "%-14s%s\n", name+":", value)
		}
	}
	snap := point.Snapshot
	fmt.Fprintln(a.out, a.paint(yellow, "snapshot "+name(point)))
	switch {
	case point.TurnIndex >= 0:
		line("turn", strconv.Itoa(point.TurnIndex))
	case snap.Kind == "start":
		line("turn", "none: the start of its session")
	default:
		line("turn", "none: changed offline")
	}
	if step.Interrupted {
		line("interrupted", "yes: what it has not claimed is contested")
	}
	if snap.Pruned {
		line("pruned", "yes: what the files were is gone")
	} else {
		line("tree", snap.Tree.String())
	}
	if step.BaselineTreeHash != nil {
		line("before", step.BaselineTreeHash.String())
	}
	line("time", snap.Time.Local().Format("2006-01-02 15:04:05 -0700"))
	line("label", patch.Quote(snap.Label))
	line("session", snap.Session)
	line("root", patch.Quote(snap.Root))
	line("git commit", snap.Head)
	line("not captured", left.String())
}
