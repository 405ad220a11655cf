package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
)

type snapshotFlags struct {
	label      string
	partial    bool
	endTurn    bool
	allowBroad bool
	limits     limitFlags
	timeout    time.Duration
}

func (a *app) snapshotCommand() *cobra.Command {
	var f snapshotFlags
	c := &cobra.Command{
		Use:   "snapshot",
		Short: "Record the state of the directory",
		Args:  args(0, 0),
		RunE:  a.resident(func(cmd *cobra.Command, _ []string) error { return a.snapshot(cmd, &f) }),
	}
	flags := c.Flags()
	flags.StringVarP(&f.label, "label", "m", "", "name the snapshot `TEXT`; it is recorded even if nothing changed")
	flags.BoolVar(&f.partial, "partial", false, "over a limit, take what fits and list the rest")
	flags.BoolVar(&f.endTurn, "end-turn", false, "end the session's open turn, if its agent was stopped")
	flags.BoolVar(&f.allowBroad, "allow-broad", false, "allow a home directory, a whole disk and the like")
	f.limits.addFileSize(flags)
	f.limits.addTotals(flags)
	flags.DurationVar(&f.timeout, "timeout", 0, "stop looking at more after `DURATION`, e.g. 60s (default none)")
	return c
}

// A snapshotAnswer is what snapshot prints as JSON.
type snapshotAnswer struct {
	SnapshotTreeHash store.ID       `json:"snapshotTreeHash"`
	BaselineTreeHash *store.ID      `json:"baselineTreeHash"`
	EntryID          *string        `json:"entryId"`
	FirstSnapshot    bool           `json:"firstSnapshot"`
	TurnIndex        *int           `json:"turnIndex"` // null: nothing changed, or the first snapshot
	Diff             *manager.Diff  `json:"diff"`
	Contested        *manager.Diff  `json:"contested,omitempty"`
	Session          string         `json:"session"`
	Counts           snapshotCounts `json:"counts"`
	NotCaptured      reasonCounts   `json:"notCaptured"`
	Secrets          []string       `json:"secrets,omitempty"` // files that seem to hold some, once in a session
	Partial          bool           `json:"partial"`
}

type snapshotCounts struct {
	Files       int64 `json:"files"`
	Dirs        int64 `json:"dirs"`
	Symlinks    int64 `json:"symlinks"`
	Bytes       int64 `json:"bytes"`
	ReadFiles   int64 `json:"readFiles"`
	ReadBytes   int64 `json:"readBytes"`
	NewObjects  int   `json:"newObjects"`
	StoredBytes int64 `json:"storedBytes"`
}

func (a *app) snapshot(cmd *cobra.Command, f *snapshotFlags) error {
	ctx := cmd.Context()
	start := time.Now()
	limits := f.limits.limits(a)
	limits.Time = f.timeout
	p, err := a.openToWrite(ctx, f.allowBroad, limits)
	if err != nil {
		return err
	}
	defer p.close()
	if f.endTurn { // which one has that is there
		err = p.completeSession(ctx)
	}
	if err == nil {
		err = p.chooseSessionToWrite(ctx)
	}
	if err != nil {
		return err
	}
	if f.endTurn {
		turn, err := inside.Of(p.m).OpenTurn()
		if err == nil && turn != nil && !turn.Held {
			err = p.settle(ctx, turn)
		}
		if err != nil {
			return err
		}
	}
	shown, stop := a.showProgress(ctx)
	r, err := p.m.Snapshot(shown, &manager.SnapshotOptions{Label: f.label, Partial: f.partial, EndTurn: f.endTurn})
	stop()
	if err != nil {
		return p.turnOpenHint(cmd, err)
	}
	left, err := readLeftOut(ctx, p.store, r.Capture.Coverage)
	if err != nil {
		return err
	}
	if err := a.printSnapshot(r, left, p.m.Session(), time.Since(start)); err != nil {
		return err
	}
	a.startPrune(p.m)
	left.warn(a)
	p.warnOfSecrets(r.Secrets)
	if left.isPart() {
		return &failure{code: exitPart}
	}
	return nil
}

func (a *app) printSnapshot(r *manager.Result, left *leftOut, session string, took time.Duration) error {
	if a.flags.json {
		return a.printJSON(newSnapshotAnswer(r, left, session))
	}
	if a.flags.quiet {
		return nil
	}
	c := r.Capture
	switch {
	case r.Data == nil:
		fmt.Fprintf(a.out, "nothing changed since %s: %s (%s)\n", a.paint(asName, name(r.Since)),
			words.Count(c.Files, "file"), seconds(took))
	case r.Since == nil:
		fmt.Fprintf(a.out, "%s  first snapshot, %s, %s, %s stored (%s)\n", a.paint(asName, r.EntryID),
			words.Count(c.Files, "file"), words.Size(c.Bytes), words.Size(r.StoredBytes), seconds(took))
	default:
		fmt.Fprintf(a.out, "%s  %s, %s, %s stored (%s)\n", a.paint(asName, r.EntryID),
			words.Count(c.Files, "file"), changeCount(r), words.Size(r.StoredBytes), seconds(took))
	}
	switch s := left.news(); {
	case s == "":
	case r.Data == nil: // the coverage on record is that of the snapshot before
		fmt.Fprintf(a.out, "not captured: %s\n", s)
	default:
		fmt.Fprintf(a.out, "not captured: %s; %s lists them\n", s, a.typed("'snapctl coverage'"))
	}
	return nil
}

// changeCount says how much a turn has changed: 3 changed, 1 contested.
func changeCount(r *manager.Result) string {
	d := r.Data
	own, contested := cmp.Or(d.Diff, newDiff()), cmp.Or(d.Contested, newDiff())
	s := nonZero([]amount{{len(own.Added) + len(own.Modified) + len(own.Deleted), "changed"},
		{contested.Len(), "contested"}, {len(own.Captured), "captured"}, {len(own.Uncaptured), "uncaptured"}})
	switch {
	case own.Unknown != "" && s != "":
		return s + " as far as is known: " + own.Unknown
	case own.Unknown != "":
		return "the changes are not known: " + own.Unknown
	case s != "":
		return s
	case r.Tree != r.Since.State.Tree:
		return "no change known to be this session's"
	}
	return "nothing changed"
}

func newSnapshotAnswer(r *manager.Result, left *leftOut, session string) *snapshotAnswer {
	c := r.Capture
	j := &snapshotAnswer{
		SnapshotTreeHash: r.Tree, FirstSnapshot: r.Since == nil, Session: session,
		Counts: snapshotCounts{Files: c.Files, Dirs: c.Dirs, Symlinks: c.Symlinks, Bytes: c.Bytes,
			ReadFiles: c.ReadFiles, ReadBytes: c.ReadBytes, NewObjects: r.NewObjects, StoredBytes: r.StoredBytes},
		NotCaptured: left.counts, Secrets: r.Secrets, Partial: left.counts[trees.OverBudget] > 0,
	}
	if r.Since != nil {
		j.BaselineTreeHash = &r.Since.State.Tree
	}
	if d := r.Data; d != nil {
		j.EntryID, j.Diff, j.Contested = &r.EntryID, d.Diff, d.Contested
		if d.BaselineTreeHash != nil {
			j.BaselineTreeHash, j.TurnIndex = d.BaselineTreeHash, &d.TurnIndex
		}
	}
	return j
}

// seconds writes how long something took.
func seconds(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// overBudget explains a capture that would have gone over a limit.
func overBudget(e *capture.BudgetError) *failure {
	limit := map[string]string{"time": time.Duration(e.Max).String(), "new bytes": words.Size(e.Max) +
		" to read"}[e.Limit]
	if limit == "" {
		limit = words.Count(e.Max, "file")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "over the limit of %s: nothing was recorded", limit)
	for _, o := range e.Largest {
		fmt.Fprintf(&b, "\n  %s  %s, %s", words.Quote(o.Path), words.Count(o.Files, "file"), words.Size(o.Bytes))
	}
	return &failure{exitBudget, errors.New(b.String()),
		"add directories that need no undo to .booignore, raise --max-bytes, --max-files or --timeout, or record " +
			"what fits with --partial"}
}
