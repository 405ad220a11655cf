package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
)

func (a *app) showCommand() *cobra.Command {
	var f diffFlags
	c := &cobra.Command{
		Use:   "show [flags] REV [-- PATH...]",
		Short: "Show one snapshot and what its turn changed",
		PreRunE: func(cmd *cobra.Command, args []string) error {
			revs, _ := revsAndPaths(cmd, args)
			switch {
			case len(revs) == 0:
				return usageError(cmd, "show: no REV")
			case len(revs) > 1:
				return usageError(cmd, "show: %q: one REV, and paths come after --", revs[1])
			}
			return f.checkShown(cmd)
		},
		RunE: a.reading(func(cmd *cobra.Command, p *place, args []string) error { return a.show(cmd, p, args, &f) }),
	}
	f.addTo(c.Flags())
	return c
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
	Files            []*jsonChange `json:"files,omitempty"`  // with --patch and --stat
	Rev              *string       `json:"rev"`              // that names it
	jsonTitle
	*jsonRecord
}

func (a *app) show(cmd *cobra.Command, p *place, args []string, f *diffFlags) error {
	ctx := cmd.Context()
	revs, paths := revsAndPaths(cmd, args)
	only, err := p.filter(cmd, paths)
	if err != nil {
		return err
	}
	point, err := p.resolveSnapshot(ctx, revs[0])
	if err != nil {
		return err
	}
	snap := point.Snapshot
	step, turn, coverage := new(manager.StepSnapshot), new(manager.TurnDiff), store.ID{}
	if !snap.Pruned {
		if step, err = p.m.Describe(ctx, point); err == nil {
			turn, err = p.m.TurnDiff(ctx, revs[0])
		}
		if err != nil {
			return err
		}
		coverage = snap.Coverage
	}
	left, err := readLeftOut(ctx, p.store, coverage)
	if err != nil {
		return err
	}
	d := p.turnDiffer(turn, f)
	if a.flags.json {
		j := &showAnswer{Rev: words.OrNull(history.NameOf(point.EntryID, snap)), EntryID: words.OrNull(point.EntryID),
			TurnIndex: turnOrNull(point.TurnIndex), Kind: snap.Kind, SnapshotTreeHash: snap.Tree,
			BaselineTreeHash: step.BaselineTreeHash, FirstSnapshot: snap.Kind == "start", Pruned: snap.Pruned,
			Time: snap.Time.UTC(), Diff: only.of(step.Diff), Contested: only.of(step.Contested),
			NotCaptured: left.counts, jsonRecord: newJSONRecord(snap),
			jsonTitle: jsonTitle{turn.Title, turn.Agent, turn.Model}}
		if f.shows() {
			if j.Files, err = d.list(ctx, only); err != nil {
				return err
			}
		}
		return a.printJSON(j)
	}
	a.printHeader(point, turn, step, left)
	if turn.Kind == "step" && turn.TurnIndex != point.TurnIndex {
		a.note("turn %d changed nothing: this is what was there before it", turn.TurnIndex)
	}
	switch {
	case snap.Kind == "start" || snap.Pruned:
	case f.shows():
		fmt.Fprintln(a.out)
		return d.run(ctx, only)
	case step.Diff != nil || step.Contested != nil:
		fmt.Fprintln(a.out)
		a.printDiff(only.of(step.Diff), "", "")
		a.printDiff(only.of(step.Contested), "", " (contested)")
	}
	return nil
}

func (a *app) printHeader(point *manager.Point, turn *manager.TurnDiff, step *manager.StepSnapshot, left *leftOut) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(a.out, "%-14s%s\n", name+":", value)
		}
	}
	snap := point.Snapshot
	fmt.Fprintln(a.out, a.paint(asName, "snapshot "+history.NameOf(point.EntryID, snap)))
	switch {
	case point.TurnIndex >= 0:
		line("turn", strconv.Itoa(point.TurnIndex))
	case snap.Kind == "start":
		line("turn", "none: the start of its session")
	default:
		line("turn", "none: "+whatIs(turn))
	}
	line("for", titleText(turn.Title))
	line("agent", words.Quote(turn.Agent))
	line("model", words.Quote(turn.Model))
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
	line("label", words.Quote(snap.Label))
	line("session", snap.Session)
	line("root", words.Quote(snap.Root))
	line("git commit", snap.Head)
	line("not captured", left.String())
}

// whatIs says what a record is that is no turn.
func whatIs(t *manager.TurnDiff) string {
	switch {
	case t.Kind == "restore" || t.Kind == "undo" || t.Kind == "redo":
		return "what the " + t.Kind + " changed"
	case t.Kind == "base" && (len(t.Changes) == 0 || t.Changes[0].Owner == manager.Offline):
		return "changed offline"
	}
	return "found while a turn ran"
}
