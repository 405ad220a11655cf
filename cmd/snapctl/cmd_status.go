package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

type statusFlags struct {
	exitCode, nul, short bool
	limits               limitFlags
}

func (a *app) statusCommand() *cobra.Command {
	var f statusFlags
	c := &cobra.Command{
		Use:   "status [flags] [-- PATH...]",
		Short: "Show what changed since the newest snapshot",
		RunE: a.resident(a.reading(func(cmd *cobra.Command, p *place, args []string) error {
			return a.status(cmd, p, args, &f)
		})),
		PreRun: func(*cobra.Command, []string) { a.flags.quiet = a.flags.quiet || f.short },
	}
	c.Flags().BoolVar(&f.exitCode, "exit-code", false, "exit with 1 if something changed")
	c.Flags().BoolVarP(&f.nul, "null", "z", false, "end lines with NUL and print paths as they are")
	c.Flags().BoolVarP(&f.short, "short", "s", false, "print the lines only, as --quiet does")
	f.limits.addFileSize(c.Flags())
	return c
}

// A statusAnswer is what status prints as JSON.
type statusAnswer struct {
	SnapshotTreeHash store.ID      `json:"snapshotTreeHash"`
	EntryID          *string       `json:"entryId"`
	DiskTreeHash     store.ID      `json:"diskTreeHash"`
	Diff             *manager.Diff `json:"diff"` // null: nothing changed
	Session          string        `json:"session"`
	TurnOpen         bool          `json:"turnOpen"`
	RestoreCutOff    bool          `json:"restoreCutOff"`
	Bisecting        bool          `json:"bisecting"` // by hand
	Marked           []string      `json:"marked"`    // files with markers of conflicts; null: not known
	NotCaptured      reasonCounts  `json:"notCaptured"`
}

func (a *app) status(cmd *cobra.Command, p *place, args []string, f *statusFlags) error {
	ctx := cmd.Context()
	only, err := p.filter(cmd, args)
	if err != nil {
		return err
	}
	before, err := p.resolve(ctx, "@")
	if err != nil {
		return err
	}
	disk, g, left, err := p.captureDisk(ctx, f.limits.limits(a))
	if err != nil {
		return err
	}
	list := newDiff()
	var lost error
	for c, err := range trees.Compare(ctx, g, before.State, disk.State) {
		if trees.IsLoss(err) { // which is said behind the rest
			lost, list.Unknown = err, err.Error()
			break
		}
		if err != nil {
			return err
		}
		if !only.keeps(c.Path) {
			continue
		}
		list.Add(c.Path, c.Status)
		if !a.flags.json {
			a.printStatus(&c, f.nul)
		}
	}
	if err := p.endStatus(ctx, before, disk, list, left); err != nil {
		return err
	}
	switch {
	case lost != nil:
		return &failure{exitDamage, fmt.Errorf("what has changed since %s is not known: %w", name(before), lost),
			"'snapctl snapshot' records the files as they are; " + hintCheck}
	case left.isPart():
		return &failure{code: exitPart}
	case f.exitCode && list.Len() > 0:
		return &failure{code: exitRefused}
	}
	return nil
}

// printStatus prints the line of a changed path.
func (a *app) printStatus(c *tree.Difference, nul bool) {
	status := string(c.Status)
	if !nul {
		status = a.paint(statusColours[c.Status], status)
	}
	path, end := listed(c.Path, trees.ModeOf(c), nul)
	if !nul && c.New != nil {
		path = a.link(c.Path, path)
	}
	fmt.Fprintf(a.out, "%s %s%s", status, path, end)
}

// endStatus prints what is known beside the paths.
func (p *place) endStatus(ctx context.Context, before, disk *manager.Point, list *manager.Diff, left *leftOut) error {
	a := p.app
	cutOff, half, err := inside.Of(p.m).CutOff(ctx)
	if err != nil {
		return err
	}
	open, err := p.m.OpenTurns()
	if err != nil {
		return err
	}
	turn, err := inside.Of(p.m).OpenTurn()
	if err != nil {
		return err
	}
	bisecting, err := p.isBisecting()
	if err != nil {
		return err
	}
	marked, err := p.marked(ctx)
	if err != nil {
		return err
	}
	if a.flags.json {
		j := &statusAnswer{SnapshotTreeHash: before.State.Tree, EntryID: words.OrNull(before.EntryID),
			DiskTreeHash: disk.State.Tree, Session: p.m.Session(), TurnOpen: slices.Contains(open, p.m.Session()),
			RestoreCutOff: cutOff, Bisecting: bisecting, Marked: marked, NotCaptured: left.counts}
		if list.Len() > 0 || list.Unknown != "" {
			j.Diff = list
		}
		if err := a.printJSON(j); err != nil {
			return err
		}
	} else {
		a.noteChanged(list, before)
		for _, session := range open {
			a.note("a turn of session %s is open", session)
			if turn != nil && turn.Session == session {
				a.note("%s has not ended", openTurnText(turn))
			}
		}
		a.noteMarked(marked)
		if bisecting {
			a.note("a bisect by hand was not ended: 'snapctl bisect log' says how far it is, " +
				"'snapctl bisect reset' ends it")
		}
	}
	if cutOff {
		a.tell("warning: %v; %s", manager.ErrCutOff, hintCutOff)
	}
	left.warn(a)
	if half {
		a.tell("warning: %v; %s", manager.ErrEditCutOff, hintEditCutOff)
	}
	return nil
}

// noteChanged counts what has changed, if that is known.
func (a *app) noteChanged(list *manager.Diff, before *manager.Point) {
	when := ""
	if before.Snapshot != nil {
		when = " (" + clock(before.Snapshot.Time) + ")"
	}
	if list.Unknown == "" {
		a.note("%s since %s%s", countsOf(list), name(before), when)
	}
}

// marked returns the files that have markers of conflicts; nil: it is not known which, and the rest
// is known all the same.
func (p *place) marked(ctx context.Context) ([]string, error) {
	list, err := p.m.Marked(ctx)
	switch {
	case context.Cause(ctx) != nil:
		return nil, err
	case err != nil:
		p.app.tell("warning: it is not known which files have markers of conflicts: %v", err)
		return nil, nil
	case list == nil:
		list = []string{}
	}
	return list, nil
}

// noteMarked names files that have markers of conflicts.
func (a *app) noteMarked(paths []string) {
	for i, path := range paths {
		if i == maxAsked {
			a.note("and %s more", words.Comma(len(paths)-i))
			break
		}
		a.note("%s has markers of a conflict: edit it until there are none, or 'snapctl undo'", words.Quote(path))
	}
}
