package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/wire"
	"github.com/boocode/filestore/internal/words"
)

func (a *app) adoptCommand() *cobra.Command {
	var yes, fresh bool
	c := &cobra.Command{
		Use:   "adopt [OLDPATH|STORE]",
		Short: "Continue the history of a directory that was moved",
		Args:  args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from := strings.Join(args, "") // there is one at most
			switch {
			case len(args) == 1 && from == "":
				return usageError(cmd, "adopt: OLDPATH is empty")
			case fresh && (yes || from != ""):
				return usageError(cmd, "adopt: --fresh takes nothing over, so neither -y nor OLDPATH")
			case a.flags.sessionFile != "":
				return usageError(cmd, "adopt: --session-file is only read")
			case fresh:
				return a.beginFresh(cmd.Context())
			}
			return a.adopt(cmd.Context(), from, yes)
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false,
		"do not ask, though nothing but OLDPATH says that it is the same directory")
	c.Flags().BoolVar(&fresh, "fresh", false, "begin a new history here, and leave the other where it is")
	return c
}

// An adoptAnswer is what adopt prints as JSON.
type adoptAnswer struct {
	From      string `json:"from"`
	FromBytes []byte `json:"fromBytes,omitempty"` // as jsonPath has it
	To        string `json:"to"`
	ToBytes   []byte `json:"toBytes,omitempty"`
	Sure      bool   `json:"sure"` // it is the same directory, and no copy
	Snapshots int    `json:"snapshots"`
	Sessions  int    `json:"sessions"`
}

func (a *app) adopt(ctx context.Context, from string, yes bool) error {
	root, base, err := a.rootAndStores()
	if err != nil {
		return err
	}
	mv, err := places.PlanAdopt(ctx, root, &places.AdoptOptions{StoreRoot: base, From: from})
	if err != nil {
		return err
	}
	info, err := places.Describe(ctx, mv.Store)
	if err != nil {
		return err
	}
	if !mv.Sure && !yes {
		text := fmt.Sprintf("%s\nIts store has %s of %s, the newest from %s.", movedText(mv),
			words.Count(info.Snapshots, "snapshot"), words.Count(info.Sessions, "session"), clock(info.LastUsed))
		if !a.canAsk() {
			return refuse("if it is the same project: 'snapctl adopt -y "+words.ShellQuote(mv.From)+"'",
				"adopt: nothing shows that %q is the project that was %q", mv.To, mv.From)
		}
		if !a.ask(ctx, "%s\ncontinue that history in %s?", text, words.Quote(mv.To)) {
			return refuse("", "nothing was changed")
		}
	}
	if err := a.adoptMoved(ctx, mv); err != nil {
		return err
	}
	if a.flags.json {
		return a.printJSON(&adoptAnswer{mv.From, words.BytesUnlessText(mv.From), mv.To, words.BytesUnlessText(mv.To),
			mv.Sure, info.Snapshots, info.Sessions})
	}
	a.note("%s of %s in the store", words.Count(info.Snapshots, "snapshot"), words.Count(info.Sessions, "session"))
	return nil
}

// movedText tells what is known of a directory that was moved.
func movedText(mv *places.Moved) string {
	if mv.Sure {
		return fmt.Sprintf("%s is the directory that was %s, which is gone.", words.Quote(mv.To), words.Quote(mv.From))
	}
	return fmt.Sprintf("%s may be a copy of %s, which is gone: "+
		"nothing but your word says so.", words.Quote(mv.To), words.Quote(mv.From))
}

// endServing ends an engine that serves the store of a path that is gone, if it is not this
// process: it is of no use any more, and would be in the way.
func endServing(ctx context.Context, storeDir string) error {
	if wire.ServedBy(storeDir) == os.Getpid() {
		return nil
	}
	if err := stopEngine(ctx, storeDir); !errors.Is(err, errNobodyServes) {
		return err
	}
	return nil
}

// adoptMoved has the history go on.
func (a *app) adoptMoved(ctx context.Context, mv *places.Moved) error {
	base, err := a.storeRoot()
	if err != nil {
		return err
	}
	if mv.IsWhole() {
		if err := endServing(ctx, mv.Store); err != nil {
			return err
		}
	}
	a.located = nil
	err = places.Adopt(ctx, mv, &places.AdoptOptions{StoreRoot: base})
	if errors.Is(err, cas.ErrBusy) {
		return refuse("nothing was changed; stop the program that uses the old path, perhaps an agent, and try again",
			"%w", err)
	}
	if err != nil {
		return err
	}
	a.note("the history of %s is continued in %s", words.Quote(mv.From), words.Quote(mv.To))
	return nil
}

// beginFresh has the directory begin a history of its own.
func (a *app) beginFresh(ctx context.Context) error {
	root, base, err := a.rootAndStores()
	if err != nil {
		return err
	}
	loc, err := a.locate()
	if err != nil {
		return err
	}
	if loc.Moved == nil {
		return refuse("'snapctl snapshot' records it", "adopt: %w: %q", places.ErrNotMoved, loc.Project.Root)
	}
	if _, err := places.BeginFresh(ctx, base, root); err != nil {
		return err
	}
	a.note("%s begins a new history; 'snapctl --root %s log' shows that of its old path",
		words.Quote(loc.Project.Root), words.ShellQuote(loc.Moved.From))
	return nil
}

// completeProjects completes an argument with the paths of projects that have a
// store.
func (a *app) completeProjects(want func(places.Presence) bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		a.prepare(cmd) // what is wrong is said when the command runs
		base, err := a.storeRoot()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return places.Projects(base, want), cobra.ShellCompDirectiveNoFileComp
	}
}
