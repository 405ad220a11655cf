package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

type snapshotFlags struct {
	label      string
	partial    bool
	allowBroad bool
	limits     limitFlags
	timeout    time.Duration
}

func (a *app) snapshotCommand() *cobra.Command {
	var f snapshotFlags
	c := &cobra.Command{
		Use:     "snapshot",
		Short:   "Record the state of the directory",
		Long:    snapshotHelp,
		Example: snapshotExamples,
		Args:    args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.snapshot(cmd.Context(), &f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.label, "label", "", "name the snapshot `TEXT`; it is recorded even if nothing changed")
	flags.BoolVar(&f.partial, "partial", false, "over a limit, take what fits and list the rest")
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
	Diff             *changeList    `json:"diff"`
	Session          string         `json:"session"`
	Counts           snapshotCounts `json:"counts"`
	NotCaptured      reasonCounts   `json:"notCaptured"`
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

func (a *app) snapshot(ctx context.Context, f *snapshotFlags) error {
	start := time.Now()
	p, err := a.openToWrite(ctx, f.allowBroad)
	if err != nil {
		return err
	}
	defer p.close()
	if err := p.chooseSessionToWrite(ctx); err != nil {
		return err
	}
	t, err := p.take(ctx, f)
	if errors.Is(err, context.Canceled) {
		return &failure{exitInterrupted, errors.New("snapshot: interrupted, nothing was recorded"), ""}
	}
	if err != nil {
		return err
	}
	if err := a.printSnapshot(t, p.session, time.Since(start)); err != nil {
		return err
	}
	t.left.warn(a)
	if t.left.isPart() {
		return &failure{code: exitPart}
	}
	return nil
}

// A taken is what came of a snapshot.
type taken struct {
	result *tree.Result
	left   *leftOut // of the result
	stats  store.WriteStats
	before *store.Snapshot // the newest before, nil if there was none
	snap   *store.Snapshot // nil: nothing changed
	diff   *changeList     // against before, nil if that is nil or nothing changed
}

// take captures the directory and records it, unless it is as it was.
func (p *place) take(ctx context.Context, f *snapshotFlags) (*taken, error) {
	ws, err := p.workspace()
	if err != nil {
		return nil, err
	}
	w, err := p.store.Begin(ctx)
	if err != nil {
		return nil, err
	}
	t, err := p.captureAndCommit(ctx, ws, w, f)
	// What was stored on the way stays, for the next try to go on from.
	if closeErr := w.Close(); closeErr != nil {
		p.app.log.Debug("writer not closed cleanly", "err", closeErr)
	}
	return t, err
}

func (p *place) captureAndCommit(ctx context.Context, ws *tree.Workspace, w *store.Writer, f *snapshotFlags) (*taken, error) {
	progress := new(tree.Progress)
	stop := p.app.showProgress(progress, "read")
	limits := f.limits.limits()
	limits.Time = f.timeout
	result, err := ws.Capture(ctx, w, &tree.CaptureOptions{Limits: limits, Partial: f.partial, Progress: progress})
	stop()
	if err != nil {
		return nil, err
	}
	head, err := p.project.Head()
	if err != nil {
		p.app.note("warning: git commit not recorded: %v", err) // it is only for people
	}
	t := &taken{result: result}
	// All that may fail comes before the commit: an error means that nothing
	// was recorded.
	if t.left, err = readLeftOut(ctx, p.objects, result.Coverage); err != nil {
		return nil, err
	}
	for {
		if t.before, err = p.newest(ctx); err != nil {
			return nil, err
		}
		t.diff = nil
		if t.before != nil && t.before.Tree == result.Tree && f.label == "" {
			t.stats = w.Stats()
			return t, nil
		}
		snap := &store.Snapshot{
			Tree: result.Tree, Coverage: result.Coverage, Time: time.Now(),
			Worktree: p.project.Worktree(), Root: p.project.Root, Head: head,
			Session: p.session, Kind: "step", Entry: newEntry(), Label: f.label,
		}
		if t.before != nil {
			snap.Parent = t.before.Seq
			if t.diff, err = listChanges(ctx, p.objects, t.before.State(), snap.State()); err != nil {
				return nil, err
			}
		}
		err = w.Commit(ctx, snap, snap.Parent)
		if errors.Is(err, store.ErrMoved) {
			continue // another process was faster
		}
		if err != nil {
			return nil, err
		}
		t.snap, t.stats = snap, w.Stats()
		return t, nil
	}
}

// newEntry makes up an entry id: 8 hex digits.
func newEntry() string {
	var b [4]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func (a *app) printSnapshot(t *taken, session string, took time.Duration) error {
	if a.flags.json {
		return a.printJSON(t.answer(session))
	}
	if a.flags.quiet {
		return nil
	}
	r := t.result
	switch {
	case t.snap == nil:
		fmt.Fprintf(a.out, "nothing changed since %s: %s (%s)\n", a.paint(yellow, t.before.Entry), count(r.Files, "file"), seconds(took))
	case t.before == nil:
		fmt.Fprintf(a.out, "%s  first snapshot, %s, %s, %s stored (%s)\n", a.paint(yellow, t.snap.Entry),
			count(r.Files, "file"), size(r.Bytes), size(t.stats.Stored), seconds(took))
	default:
		fmt.Fprintf(a.out, "%s  %s, %s, %s stored (%s)\n", a.paint(yellow, t.snap.Entry),
			count(r.Files, "file"), t.diff.brief(), size(t.stats.Stored), seconds(took))
	}
	switch s := t.left.String(); {
	case s == "":
	case t.snap == nil: // the coverage on record is that of the snapshot before
		fmt.Fprintf(a.out, "not captured: %s\n", s)
	default:
		fmt.Fprintf(a.out, "not captured: %s: see 'snapctl coverage'\n", s)
	}
	return nil
}

func (t *taken) answer(session string) *snapshotAnswer {
	r := t.result
	j := &snapshotAnswer{
		SnapshotTreeHash: r.Tree, FirstSnapshot: t.before == nil, Session: session,
		Counts: snapshotCounts{Files: r.Files, Dirs: r.Dirs, Symlinks: r.Symlinks, Bytes: r.Bytes,
			ReadFiles: r.ReadFiles, ReadBytes: r.ReadBytes, NewObjects: t.stats.Objects, StoredBytes: t.stats.Stored},
		NotCaptured: t.left.counts, Partial: t.left.counts[tree.OverBudget] > 0,
	}
	if t.before != nil {
		j.BaselineTreeHash = &t.before.Tree
	}
	if t.snap != nil {
		j.EntryID = &t.snap.Entry
		if t.diff != nil && t.diff.len() > 0 {
			j.Diff = t.diff
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
func overBudget(e *tree.BudgetError) *failure {
	limit := map[string]string{"time": time.Duration(e.Max).String(), "new bytes": size(e.Max) + " to read"}[e.Limit]
	if limit == "" {
		limit = count(e.Max, "file")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "over the limit of %s: nothing was recorded", limit)
	for _, o := range e.Largest {
		fmt.Fprintf(&b, "\n  %s  %s, %s", patch.Quote(o.Path), count(o.Files, "file"), size(o.Bytes))
	}
	return &failure{exitBudget, errors.New(b.String()), "list what is not worth keeping in .booignore, raise --max-bytes, --max-files or --timeout, or take what fits with --partial"}
}
