package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/cmd/snapctl/internal/timeline"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/when"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
)

// Where an agent is stopped, as by Esc, nobody says that its turn has ended: it stays open
// until the next prompt, while the user wants to take it back. So people can say it.

// flagEndTurn is the flag that says so.
const flagEndTurn = "--end-turn"

// askToEndTurn finds out whether the session's open turn is to end before a restore.
func (p *place) askToEndTurn(cmd *cobra.Command, f *restoreFlags) error {
	a := p.app
	turn, err := inside.Of(p.m).OpenTurn()
	if err != nil || turn == nil || turn.Held {
		return err
	}
	text := openTurnText(turn)
	tool, err := p.runningTool(turn)
	if err != nil {
		return err
	}
	switch {
	case f.endTurn && !f.dryRun:
		return p.settle(cmd.Context(), turn)
	case f.force && !f.endTurn:
		a.note("%s has not ended, and @~N does not count it; to end it first: %s", text, flagEndTurn)
	case f.dryRun:
		if !f.endTurn {
			a.note("%s has not ended; this is what would be done with %s", text, flagEndTurn)
		}
		f.endTurn = true
	case f.yes || !a.canAsk():
	case tool != "":
		if !a.ask(cmd.Context(), "%s has not ended: %s. End the turn all the same?", text, tool) {
			return refuse("", "nothing was changed")
		}
		f.endTurn = true
		return p.settle(cmd.Context(), turn)
	default:
		what := "end it first?"
		if args := cmd.Flags().Args(); cmd.Name() == "restore" && len(args) > 0 && strings.HasPrefix(args[0], "@~") {
			what = "end it and take it back as a whole?"
		}
		answer, ok := a.answer(cmd.Context(), "%s has not ended: %s [Y/n] ", text, what)
		if answer = strings.ToLower(answer); !ok || answer != "" && answer != "y" && answer != "yes" {
			return refuse("", "nothing was changed")
		}
		f.endTurn = true
		return p.settle(cmd.Context(), turn)
	}
	return nil
}

// askAboutTurns finds out whether a restore may go on beside turns of other sessions, and
// whether the session's own is to end first.
func (p *place) askAboutTurns(cmd *cobra.Command, f *restoreFlags) error {
	beside, err := p.askToGoBeside(cmd.Context(), f)
	if err != nil {
		return err
	}
	if err = p.askToEndTurn(cmd, f); beside {
		f.force = true
	}
	return err
}

// askToGoBeside asks on a terminal whether a restore goes on though turns of other sessions
// are open, before it is asked for anything else.
func (p *place) askToGoBeside(ctx context.Context, f *restoreFlags) (agreed bool, err error) {
	if f.force || f.dryRun || f.yes || !p.app.canAsk() {
		return false, nil
	}
	open, err := inside.Of(p.m).AllOpenTurns()
	if err != nil {
		return false, err
	}
	open = slices.DeleteFunc(open, func(t *history.OpenTurn) bool { return t.Session == p.m.Session() })
	if len(open) == 0 {
		return false, nil
	}
	for _, t := range open {
		p.app.note("%s has not ended: it is of session %s", openTurnText(t), t.Session)
	}
	if !p.app.ask(ctx, "Go on beside it?") {
		return false, refuse(whatEnds(open), "nothing was changed")
	}
	return true, nil
}

// openTurnText names an open turn.
func openTurnText(t *history.OpenTurn) string {
	text := "The open turn"
	if !t.Began.IsZero() {
		text = "The turn that began " + when.Ago(t.Began, time.Now())
	}
	if t.Title != "" {
		text += " (" + titleText(t.Title) + ")"
	}
	return text
}

// noteUnended says that the session has a turn that no list has, since it has not ended, or
// nobody has recorded yet that it was cut off. It adds the turn's number to a set.
func (p *place) noteUnended(turns map[int]bool) error {
	turn, open, err := inside.Of(p.m).UnendedTurn()
	if err != nil || turn == nil {
		return err
	}
	turns[turn.Turn] = true
	if open {
		p.app.note("%s has not ended, so it is not listed, or only in part", openTurnText(turn))
	} else {
		p.app.note("%s was cut off, and is not listed yet: the session's next turn, or a restore, records it",
			openTurnText(turn))
	}
	return nil
}

// runningTool says which tool of an open turn runs, as far as is known; "" if none does.
func (p *place) runningTool(t *history.OpenTurn) (string, error) {
	if len(t.Tools) == 0 {
		return "", nil
	}
	name, asked := t.Tools[len(t.Tools)-1], false
	calls, err := p.hookCalls(context.Background())
	if err != nil {
		return "", err
	}
	for _, c := range calls.Calls {
		if c.Session == t.Session && c.Tool == name {
			name, asked = cmp.Or(c.Name, name), c.Asked
			break
		}
	}
	text := "its tool " + words.Quoted(words.FirstLine(name, maxTitleShown))
	switch {
	case asked && t.ToolBegan.IsZero():
		return text + " waits for your answer, or runs", nil
	case asked:
		return text + " has waited for your answer, or run, for " + when.Length(time.Since(t.ToolBegan)), nil
	case t.ToolBegan.IsZero():
		return "it seems that " + text + " runs", nil
	}
	return "it seems that " + text + " has been running for " + when.Length(time.Since(t.ToolBegan)), nil
}

// hookCalls returns what hooks keep of the tools that run.
func (p *place) hookCalls(ctx context.Context) (*hookCalls, error) {
	if p.hookLock != nil {
		return readHookCalls(p.hookLock), nil
	}
	lock, err := vfs.OS(p.m.StoreDir()).OpenFile(layout.Worktree(p.project.Worktree).HookLock(), os.O_RDONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return new(hookCalls), nil
	}
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := vfs.Lock(ctx, lock, vfs.Shared); err != nil {
		return nil, fmt.Errorf("wait for events: %w", err)
	}
	return readHookCalls(lock), nil
}

// settle is settleTurn of the place's session: hooks wait until the place is closed.
func (p *place) settle(ctx context.Context, t *history.OpenTurn) (err error) {
	p.hookLock, err = settleTurn(ctx, p.m, t, func(ctx context.Context, tools []string) error {
		detached, err := p.app.open(ctx, &manager.Options{Detached: true})
		if err != nil {
			return err
		}
		defer detached.close()
		if err := detached.use(t.Session); err != nil {
			return err
		}
		return inside.Of(detached.m).ToolsUnknown(ctx, tools...)
	})
	if errors.Is(err, timeline.ErrTurnEnded) {
		err = refuse("look at 'snapctl log', and try again", "%w", err)
	}
	return err
}

// settleTurn prepares the end of an open turn: as long as the lock is open that it returns no hook
// records anything, so that the turn that ends is the one that the user was asked about, and no later
// one; nil: no hook records it. What has changed since the user was asked about a tool of it is contested,
// as where the next prompt ends it (see hooks.record): unknown says so.
func settleTurn(ctx context.Context, m *manager.FileSnapshotManager, t *history.OpenTurn,
	unknown func(ctx context.Context, tools []string) error) (held vfs.File, err error) {
	name := layout.Worktree(m.Project().Worktree).HookLock()
	lock, err := vfs.OS(m.StoreDir()).OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) { // it is none of hooks'
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			lock.Close() // it never fails on a lock
		}
	}()
	if err := vfs.Lock(ctx, lock, vfs.Exclusive); err != nil {
		return nil, fmt.Errorf("wait for events: %w", err)
	}
	now, err := inside.Of(m).OpenTurn()
	if err != nil {
		return nil, err
	}
	if now == nil || now.Turn != t.Turn || !now.Began.Equal(t.Began) {
		return nil, timeline.ErrTurnEnded
	}
	if asked := readHookCalls(lock).asked(now.Tools); len(asked) > 0 {
		err = unknown(ctx, asked)
	}
	return lock, err
}

// whatEnds says what ends turns that are open.
func whatEnds(open []*history.OpenTurn) string {
	var list []string
	for _, t := range open {
		if !t.Held { // else the program that runs it does not let anybody else do so
			list = append(list, fmt.Sprintf("'snapctl snapshot --session %s %s'", t.Session, flagEndTurn))
		}
	}
	if len(list) == 0 {
		return "the program that runs the turn is at work, and will end it"
	}
	return "if its agent was stopped, " + strings.Join(list, " and ") + " ends it"
}

// turnOpenHint has the error of a turn that is in the way say what helps.
func (p *place) turnOpenHint(cmd *cobra.Command, err error) error {
	if !errors.Is(err, manager.ErrTurnOpen) {
		return err
	}
	turn, terr := inside.Of(p.m).OpenTurn()
	if terr != nil {
		return err
	}
	var hint string
	switch {
	case turn == nil && cmd.Name() == "snapshot":
		return err
	case turn == nil: // another session's
		open, oerr := inside.Of(p.m).AllOpenTurns()
		if oerr != nil || len(open) == 0 {
			return err
		}
		hint = whatEnds(open) + "; --force goes on beside it"
	case turn.Held:
		hint = "the program that runs the turn is at work, and will end it; --session ID records in another session"
		if cmd.Name() != "snapshot" {
			hint = "the program that runs the turn is at work, and will end it; --force goes on beside it"
		}
	default:
		hint = "if the agent was stopped, end its turn first: " + p.app.commandAfter(cmd.Name(), flagEndTurn)
		if tool, err := p.runningTool(turn); err == nil && tool != "" {
			hint = tool + "; " + hint
		}
	}
	return &failure{exitRefused, err, hint}
}
