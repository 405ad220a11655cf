package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/when"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
)

func (a *app) showCommand() *cobra.Command {
	var f diffFlags
	c := &cobra.Command{
		Use:     "show [flags] [REV] [[--] PATH...]",
		Short:   "Show one snapshot and what its turn changed",
		PreRunE: func(cmd *cobra.Command, _ []string) error { return f.checkShown(cmd) },
		RunE: a.paged(a.reading(func(cmd *cobra.Command, p *place, args []string) error {
			return a.show(cmd, p, args, &f)
		})),
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
	revs, paths := p.splitArgs(cmd, args)
	switch len(revs) {
	case 0:
		revs = []string{"@"}
	case 1:
	default:
		return usageError(cmd, "show: %q: one REV, and paths come after --", revs[1])
	}
	only, err := p.filter(cmd, paths)
	if err != nil {
		return err
	}
	point, err := p.resolveSnapshot(ctx, revs[0])
	if err != nil {
		return err
	}
	s, err := p.shown(ctx, revs[0], point)
	if err != nil {
		return err
	}
	d := p.turnDiffer(s.turn, f)
	if a.flags.json {
		j := s.answer(only)
		if f.shows() {
			if j.Files, err = d.list(ctx, only); err != nil {
				return err
			}
		}
		return a.printJSON(j)
	}
	if isTerminal(a.stdout) {
		return p.showScreen(ctx, s, f, only)
	}
	a.printHeader(s)
	p.noteOther(point, s.turn)
	switch {
	case point.Snapshot.Kind == "start" || point.Snapshot.Pruned:
	case f.shows():
		fmt.Fprintln(a.out)
		return d.run(ctx, only)
	case s.step.Diff != nil || s.step.Contested != nil:
		fmt.Fprintln(a.out)
		a.printDiff(only.of(s.step.Diff), "", "")
		a.printDiff(only.of(s.step.Contested), "", " (contested)")
	}
	return nil
}

// A shownPoint is a snapshot with all that show says of it. Of one that was pruned step and turn are
// empty.
type shownPoint struct {
	point *manager.Point
	step  *manager.StepSnapshot
	turn  *manager.TurnDiff
	left  *leftOut
}

func (p *place) shown(ctx context.Context, rev string, point *manager.Point) (s *shownPoint, err error) {
	s = &shownPoint{point: point, step: new(manager.StepSnapshot), turn: new(manager.TurnDiff)}
	var coverage store.ID
	if !point.Snapshot.Pruned {
		if s.step, err = p.m.Describe(ctx, point); err != nil {
			return nil, err
		}
		if s.turn, err = p.m.TurnDiff(ctx, rev); err != nil {
			return nil, err
		}
		coverage = point.Snapshot.Coverage
	}
	s.left, err = readLeftOut(ctx, p.store, coverage)
	return s, err
}

// answer is what show prints as JSON, without Files.
func (s *shownPoint) answer(only filter) *showAnswer {
	snap := s.point.Snapshot
	return &showAnswer{
		Rev: words.OrNull(history.NameOf(s.point.EntryID, snap)), EntryID: words.OrNull(s.point.EntryID),
		TurnIndex: turnOrNull(s.point.TurnIndex), Kind: snap.Kind, SnapshotTreeHash: snap.Tree,
		BaselineTreeHash: s.step.BaselineTreeHash, FirstSnapshot: snap.Kind == "start", Pruned: snap.Pruned,
		Time: snap.Time.UTC(), Diff: only.of(s.step.Diff), Contested: only.of(s.step.Contested),
		NotCaptured: s.left.counts, jsonRecord: newJSONRecord(snap),
		jsonTitle: jsonTitle{s.turn.Title, s.turn.Agent, s.turn.Model},
	}
}

// noteOther says that what is shown was done by an earlier turn than the one that was asked
// for.
func (p *place) noteOther(point *manager.Point, turn *manager.TurnDiff) {
	if turn.Kind == "step" && turn.TurnIndex != point.TurnIndex {
		p.app.note("turn %d changed nothing: this is what was there before it", turn.TurnIndex)
	}
}

// showScreen prints a snapshot as people read it on a terminal: what its turn was for, what
// that changed, and last what the snapshot is called elsewhere. Unless f says which, both a
// chart and a patch are shown.
func (p *place) showScreen(ctx context.Context, s *shownPoint, f *diffFlags, only filter) error {
	a, point, turn, snap := p.app, s.point, s.turn, s.point.Snapshot
	what := "turn " + strconv.Itoa(point.TurnIndex)
	if point.TurnIndex < 0 {
		what = whatIs(turn)
	}
	if snap.Kind == "start" {
		what = "start of the session"
	}
	line := a.newLine()
	line.add(asHeading, what)
	line.add("", when.Ago(snap.Time, time.Now()))
	line.add("", clock(snap.Time))
	line.add(asNote, words.Quote(turn.Agent))
	line.add("", words.Quote(turn.Model))
	if snap.Label != "" {
		line.add(asName, "["+words.Quote(snap.Label)+"]")
	}
	line.end("")
	if s.step.Interrupted {
		fmt.Fprintln(a.out, a.paint(asRemoved, "interrupted: changes other than by its editing tools may be anybody's"))
	}
	if turn.Title != "" {
		fmt.Fprintln(a.out)
		for text := range strings.Lines(string(visible([]byte(turn.Title)))) {
			fmt.Fprintln(a.out, "    "+strings.TrimRight(text, "\r\n"))
		}
	}
	p.noteOther(point, turn)
	var err error
	if snap.Kind != "start" && !snap.Pruned && (len(turn.Changes) > 0 || turn.Unknown != "") {
		err = p.showChanges(ctx, turn, f, only)
	}
	fmt.Fprintln(a.out)
	a.printIDs(s)
	return err
}

// showChanges prints what a turn changed, for a screen.
func (p *place) showChanges(ctx context.Context, turn *manager.TurnDiff, f *diffFlags, only filter) error {
	fmt.Fprintln(p.app.out)
	if f.shows() {
		return p.turnDiffer(turn, f).run(ctx, only)
	}
	chart, patch := *f, *f
	chart.stat, patch.patch = true, true
	if err := p.turnDiffer(turn, &chart).printAll(ctx, only); err != nil {
		return err
	}
	fmt.Fprintln(p.app.out)
	return p.turnDiffer(turn, &patch).run(ctx, only)
}

func (a *app) printHeader(s *shownPoint) {
	point, turn, step, snap := s.point, s.turn, s.step, s.point.Snapshot
	fmt.Fprintln(a.out, a.paint(asName, "snapshot "+history.NameOf(point.EntryID, snap)))
	switch {
	case point.TurnIndex >= 0:
		a.printField("turn", strconv.Itoa(point.TurnIndex))
	case snap.Kind == "start":
		a.printField("turn", "none: the start of its session")
	default:
		a.printField("turn", "none: "+whatIs(turn))
	}
	a.printField("for", titleText(turn.Title))
	a.printField("agent", words.Quote(turn.Agent))
	a.printField("model", words.Quote(turn.Model))
	if step.Interrupted {
		a.printField("interrupted", "yes: changes other than by its editing tools may be anybody's")
	}
	if snap.Pruned {
		a.printField("pruned", textPruned)
	} else {
		a.printField("tree", snap.Tree.String())
	}
	if step.BaselineTreeHash != nil {
		a.printField("before", step.BaselineTreeHash.String())
	}
	a.printField("time", snap.Time.Local().Format("2006-01-02 15:04:05 -0700"))
	a.printField("label", words.Quote(snap.Label))
	a.printField("session", snap.Session)
	a.printField("root", words.Quote(snap.Root))
	a.printField("git commit", snap.Head)
	a.printField("not captured", s.left.String())
}

const textPruned = "yes: what the files were is gone"

// printIDs prints what a snapshot is called, and what it is of, in short forms.
func (a *app) printIDs(s *shownPoint) {
	point, step, snap := s.point, s.step, s.point.Snapshot
	a.printField("snapshot", a.paint(asName, history.NameOf(point.EntryID, snap)))
	if snap.Pruned {
		a.printField("pruned", textPruned)
	} else {
		a.printField("tree", snap.Tree.Short())
	}
	if step.BaselineTreeHash != nil {
		a.printField("before", step.BaselineTreeHash.Short())
	}
	a.printField("session", snap.Session)
	a.printField("root", words.Quote(snap.Root))
	a.printField("git commit", snap.Head[:min(len(snap.Head), 12)])
	a.printField("not captured", s.left.String())
}

// printField prints a line with a name and a value, if there is one.
func (a *app) printField(name, value string) {
	if value != "" {
		fmt.Fprintf(a.out, "%-14s%s\n", name+":", value)
	}
}

// whatIs says what a record is that is no turn.
func whatIs(t *manager.TurnDiff) string {
	switch {
	case t.Kind == "restore" || t.Kind == "undo" || t.Kind == "redo":
		return "what the " + t.Kind + " changed"
	case t.Kind == "base" && (len(t.Changes) == 0 || t.Changes[0].Owner == manager.Offline):
		return "changed offline"
	case t.Kind == "unknown":
		return "found where a record is lost, so it is not known whose it is"
	}
	return "found while a turn ran"
}
