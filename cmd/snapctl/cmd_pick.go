package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/cmd/snapctl/internal/picker"
	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
)

func (a *app) pickCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pick",
		Short: "Look at turns on the whole screen, and take back what you mark",
		Args:  args(0, 0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.pick(cmd.Context()) },
	}
}

func (a *app) pick(ctx context.Context) error {
	switch {
	case a.flags.json:
		return &failure{exitUsage, errors.New("pick: it is for people: no --json"), "'snapctl log --json' lists turns"}
	case a.stdin == nil || !isTerminal(a.stdin) || !isTerminal(a.stdout) || a.getenv("TERM") == "dumb":
		return &failure{exitUsage, errors.New("pick: it takes the whole screen of a terminal, and this is none"),
			"'snapctl log' lists turns, 'snapctl revert' takes them back, -p piece by piece"}
	}
	p, err := a.restoring(ctx, func(p *place) error { return p.chooseSessionToRestore(ctx, "", false) })
	if err != nil {
		return err
	}
	session, root := p.m.Session(), p.project.Root
	sessions, err := p.worked(ctx)
	p.close()
	if err != nil {
		return err
	}
	a.out.Flush()
	s := &pickSource{app: a, session: session, isAlone: len(sessions) < 2}
	err = picker.Run(ctx, s, &picker.Options{Title: words.Quote(root) + "  session " + session, In: a.stdin,
		Out: a.stdout, Environ: []string{"TERM=" + a.getenv("TERM"), "COLORTERM=" + a.getenv("COLORTERM"),
			"NO_COLOR=" + a.getenv("NO_COLOR")}, IsColour: a.colour})
	if cut, ok := errors.AsType[*picker.InterruptedError](err); ok {
		return &failure{code: exitInterrupted, err: fmt.Errorf("pick: %w", cut)}
	}
	return err
}

// A pickSource is the session that the picker shows. Whatever it is asked for it does as a command
// of its own would, which opens the store, and closes it: the picker may stay for hours, and nobody
// waits for it.
type pickSource struct {
	app     *app
	session string
	isAlone bool // no other session has worked in the directory
}

// within opens the store as a command does whose output goes to text, and has fn use it.
func (s *pickSource) within(ctx context.Context, write bool, text *bytes.Buffer, fn func(p *place) error) error {
	a := *s.app
	a.flags.session, a.flags.quiet = s.session, false
	a.out, a.stdout, a.stderr, a.stdin = bufio.NewWriter(text), text, text, nil
	a.log = slog.New(slog.DiscardHandler)
	open := a.openToRead
	if write {
		open = a.openToRestore
	}
	p, err := open(ctx)
	if err != nil {
		return inWords(err)
	}
	defer p.close()
	text.Reset() // what it said of the store it has said before
	err = fn(p)
	a.out.Flush()
	return inWords(err)
}

// inWords returns an error with its hint, as people read it.
func inWords(err error) error {
	if err == nil {
		return nil
	}
	if f := failureOf(err); f.hint != "" {
		return fmt.Errorf("%w\n%s", err, f.hint)
	}
	return err
}

// Rows yields the turns of the session, one row for each, and what happened between them.
func (s *pickSource) Rows(ctx context.Context) iter.Seq2[picker.Row, error] {
	return func(yield func(picker.Row, error) bool) {
		err := s.within(ctx, false, new(bytes.Buffer), func(p *place) error {
			if err := p.chooseSession(ctx); err != nil {
				return err
			}
			listed := make(map[int]bool)
			turn, isOpen, err := inside.Of(p.m).UnendedTurn()
			if err != nil {
				return err
			}
			if turn != nil {
				if !yield(unendedRow(turn, isOpen), nil) {
					return nil
				}
				listed[turn.Turn] = true
			}
			for mo, err := range p.m.Timeline(ctx) {
				if err != nil {
					return err
				}
				if mo.TurnIndex >= 0 && listed[mo.TurnIndex] { // a part of one
					continue
				}
				listed[mo.TurnIndex] = true
				if !yield(s.row(mo), nil) {
					return nil
				}
			}
			return nil
		})
		if err != nil {
			yield(picker.Row{}, err)
		}
	}
}

// unendedRow is the row of a turn that no list has, or only a part of it.
func unendedRow(t *history.OpenTurn, isOpen bool) picker.Row {
	r := picker.Row{Rev: fmt.Sprintf("turn:%d", t.Turn), Name: turnName("step", t.Turn), Text: t.Title, Who: t.Agent,
		When: t.Began, State: "has not ended", IsTurn: true}
	if !isOpen {
		r.State = "was cut off"
	}
	return r
}

func (s *pickSource) row(mo *manager.Moment) picker.Row {
	r := picker.Row{Rev: history.NameOf(mo.EntryID, mo.Snapshot), Name: turnName(mo.Kind, mo.TurnIndex), Text: mo.Title,
		Who: mo.Agent, Files: mo.Added + mo.Modified + mo.Deleted,
		State: standingText(mo, func(s *store.Snapshot) string { return clock(s.Time) })}
	if mo.Snapshot != nil {
		r.When = mo.Snapshot.Time
		if label := mo.Snapshot.Label; label != "" {
			r.Text = strings.TrimPrefix(r.Text+" "+words.Quoted(label), " ")
		}
		if mo.Snapshot.Pruned {
			r.Rev, r.State = "", "pruned"
		}
	}
	if mo.Unknown != "" {
		r.State = strings.TrimPrefix(r.State+", changes not known", ", ")
	}
	switch {
	case mo.TurnIndex >= 0:
		if r.Rev != "" {
			r.Rev = fmt.Sprintf("turn:%d", mo.TurnIndex)
		}
		r.IsTurn = mo.Kind == "step" && r.Rev != ""
		r.IsBack = mo.TakenBack != nil && len(mo.But) == 0
	case mo.Kind == "base":
		if r.Name = "you"; !s.isAlone {
			r.Name = "you, or another session"
		}
		r.Text = "changed " + words.Count(r.Files, "file")
	case r.State != "":
		r.Text = r.State
	}
	return r
}

// Hunks returns a part of what a row changed.
func (s *pickSource) Hunks(ctx context.Context, rev string, lines int, cursor string) (hunks []manager.Hunk,
	next string, err error) {
	err = s.within(ctx, false, new(bytes.Buffer), func(p *place) error {
		list, err := p.m.Hunks(ctx, &manager.HunkRange{Turns: []string{rev}, Context: lines, Cursor: cursor})
		if errors.Is(err, manager.ErrUnknown) || err == nil && len(list.Hunks) == 0 && cursor == "" {
			turn, _, terr := inside.Of(p.m).UnendedTurn()
			if terr == nil && turn != nil && rev == unendedRow(turn, true).Rev {
				err = errors.New("it has not ended, and what it did is not recorded yet: enter shows which files")
			}
		}
		if err != nil {
			return err
		}
		hunks, next = list.Hunks, list.NextCursor
		for i := range hunks {
			h := &hunks[i]
			h.Text, h.TextBytes = string(visibleHunk(h)), nil
		}
		return nil
	})
	return hunks, next, err
}

// Do does what the picker asks for, or says what it would do.
func (s *pickSource) Do(ctx context.Context, ask *picker.Ask) (answer *picker.Answer, err error) {
	var text bytes.Buffer
	answer = new(picker.Answer)
	err = s.within(ctx, true, &text, func(p *place) error {
		if isReady, err := p.readyToPick(ctx, ask, answer); err != nil || !isReady {
			return err
		}
		f := &restoreFlags{onConflict: rollback.OnConflict(ask.OnConflict)}
		r, err := p.pickDo(ctx, ask, f)
		if r == nil {
			return err
		}
		if err != nil {
			p.app.tell("warning: %v", err)
		}
		p.printItems(ctx, r, f, func(rollback.Item) bool { return true })
		p.app.notePicked(r)
		answer.Summary, _ = summaryOf(r)
		answer.IsNothing = r.Preview && len(r.Restored)+len(r.Deleted)+len(r.Moves) == 0
		answer.IsPart = !r.IsComplete()
		answer.Plan = verbs.PlanSum(r)
		if r.Snapshot != nil {
			answer.Record = r.Snapshot.Seq
		}
		if r.Undoes != nil {
			answer.Undoes = r.Undoes.SnapshotSeq
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if lines := strings.TrimSuffix(text.String(), "\n"); lines != "" {
		answer.Lines = strings.Split(lines, "\n")
	}
	return answer, nil
}

// readyToPick finds out whether the session has a turn that has not ended, and is to end first.
func (p *place) readyToPick(ctx context.Context, ask *picker.Ask, answer *picker.Answer) (isReady bool, err error) {
	turn, err := inside.Of(p.m).OpenTurn()
	if err != nil || turn == nil || turn.Held {
		return true, err
	}
	if !ask.EndTurn {
		if answer.Open, err = p.runningTool(turn); answer.Open != "" {
			answer.Open = ": " + answer.Open
		}
		answer.Open = openTurnText(turn) + " has not ended" + answer.Open
		return false, err
	}
	if !ask.Preview {
		err = p.settle(ctx, turn)
	}
	return true, err
}

// pickDo makes the call that the command makes.
func (p *place) pickDo(ctx context.Context, ask *picker.Ask, f *restoreFlags) (*manager.RestoreResult, error) {
	switch ask.Do {
	case picker.Undo:
		return p.m.Undo(ctx, &manager.UndoOptions{Preview: ask.Preview, EndTurn: ask.EndTurn})
	case picker.Redo:
		return p.m.Redo(ctx, &manager.UndoOptions{Preview: ask.Preview, EndTurn: ask.EndTurn})
	case picker.GoBack:
		opts := f.options(ask.Rev, nil)
		opts.Preview, opts.EndTurn, opts.AcrossHead = ask.Preview, ask.EndTurn, true // which was said
		return p.m.RestoreFiles(ctx, opts)
	}
	opts := &manager.RevertOptions{OnConflict: f.onConflict, Preview: ask.Preview, EndTurn: ask.EndTurn}
	isInParts := slices.ContainsFunc(ask.Marks, func(m picker.Mark) bool { return m.Hunks != nil })
	for _, m := range ask.Marks {
		opts.Turns = append(opts.Turns, m.Turn)
	}
	if isInParts { // hunks are named of all turns or of none
		var err error
		if opts.Hunks, err = p.hunksMarked(ctx, ask.Marks, opts.Turns); err != nil {
			return nil, err
		}
	}
	return p.m.Revert(ctx, opts)
}

// hunksMarked returns the IDs of hunks that are marked, or whose turn is, as they are in a list of all
// these turns: there, other IDs tell apart what several turns have changed alike.
func (p *place) hunksMarked(ctx context.Context, marks []picker.Mark, turns []string) (ids []string, err error) {
	key := func(h *manager.Hunk) string { return fmt.Sprint(h.By, h.Kind, h.Window, h.Before, h.After, h.Path) }
	wanted := make(map[string]bool)
	for _, m := range marks {
		list, err := allHunks(ctx, p, &manager.HunkRange{Turns: []string{m.Turn}})
		if err != nil {
			return nil, err
		}
		found := 0
		for i := range list {
			if h := &list[i]; m.Hunks == nil && h.State != "done" || slices.Contains(m.Hunks, h.ID) {
				wanted[key(h)] = true
				found++
			}
		}
		if found < len(m.Hunks) {
			return nil, refuse("take it off, and look again", "%s: a mark is on a hunk that is not in it any more",
				strings.Replace(m.Turn, ":", " ", 1))
		}
	}
	all, err := allHunks(ctx, p, &manager.HunkRange{Turns: turns})
	for i := range all {
		if h := &all[i]; wanted[key(h)] {
			ids = append(ids, h.ID)
		}
	}
	if err == nil && len(ids) < len(wanted) {
		err = refuse("mark fewer turns at once", "not all that is marked is to be found among %s",
			strings.Join(turns, ", "))
	}
	return ids, err
}

// notePicked says what is to be known beside the paths.
func (a *app) notePicked(r *manager.RestoreResult) {
	for _, path := range r.NotCaptured {
		a.tell("%s: its content was not captured, and it stays as it is", words.Quote(path))
	}
	for i := range r.Passed {
		a.notePassed(&r.Passed[i])
	}
	if r.HeadChanged {
		a.tell("another commit is checked out than at the time")
	}
	var with []string
	for _, c := range r.Conflicts {
		with = append(with, c.BlockedBy...)
	}
	slices.SortFunc(with, byNumber)
	isTurn := func(by string) bool { return strings.HasPrefix(by, "turn:") }
	with = slices.DeleteFunc(slices.Compact(with), func(by string) bool { return !isTurn(by) })
	if len(with) > 0 {
		a.tell("in the way: %s; mark what they changed, too, to take it back with the rest",
			strings.ReplaceAll(strings.Join(with, ", "), "turn:", "turn "))
	}
}
