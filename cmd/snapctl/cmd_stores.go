package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/when"
	"github.com/boocode/filestore/internal/words"
)

func (a *app) storesCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "stores",
		Short: "List the stores of all projects",
		Args:  args(0, 0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.stores(cmd.Context()) },
	}
	yes := false
	rm := &cobra.Command{
		Use:   "rm PROJECT|STORE",
		Short: "Remove the store of a project with all that is in it",
		Args:  args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return usageError(cmd, "stores rm: PROJECT is empty")
			}
			return a.removeStore(cmd.Context(), args[0], yes)
		},
	}
	rm.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.AddCommand(rm)
	return c
}

// A jsonStore is a line of stores in JSON.
type jsonStore struct {
	Store        string          `json:"store"`
	Project      string          `json:"project"`
	ProjectBytes []byte          `json:"projectBytes,omitempty"`
	Presence     places.Presence `json:"presence"`
	MovedTo      *string         `json:"movedTo"`
	LastUsed     *time.Time      `json:"lastUsed"`
	Bytes        int64           `json:"bytes"`
	Snapshots    int             `json:"snapshots"`
	Labelled     int             `json:"labelled"`
	Sessions     int             `json:"sessions"`
	Worktrees    []jsonWorktree  `json:"worktrees"`
	Error        string          `json:"error,omitempty"`
}

type jsonWorktree struct {
	jsonRoot
	Presence places.Presence `json:"presence"`
}

func (a *app) stores(ctx context.Context) error {
	base, err := a.storeRoot()
	if err != nil {
		return err
	}
	list, err := places.Stores(ctx, base)
	if err != nil {
		return err
	}
	bad, sum := 0, int64(0)
	for i := range list {
		if err := a.printStore(&list[i]); err != nil {
			return err
		}
		if list[i].Err != nil {
			bad++
		}
		sum += list[i].Bytes
	}
	a.note("%s, %s, in %s", words.Count(len(list), "store"), words.Size(sum), words.Quote(base))
	if bad > 0 {
		return &failure{code: exitPart}
	}
	return nil
}

func (a *app) printStore(s *places.StoreInfo) error {
	if a.flags.json {
		j := &jsonStore{s.Name, s.Project, words.BytesUnlessText(s.Project), s.Presence, words.OrNull(s.MovedTo), nil,
			s.Bytes, s.Snapshots, s.Labelled, s.Sessions, []jsonWorktree{}, ""}
		if last := s.LastUsed.UTC(); !last.IsZero() {
			j.LastUsed = &last
		}
		for _, w := range s.Worktrees {
			j.Worktrees = append(j.Worktrees, jsonWorktree{newJSONRoot(w.Root), w.Presence})
		}
		if s.Err != nil {
			j.Error = s.Err.Error()
		}
		return a.printJSON(j)
	}
	last, project := "-", "?"
	if !s.LastUsed.IsZero() {
		last = clock(s.LastUsed)
	}
	if s.Project != "" {
		project = words.Quote(s.Project)
	}
	room := 19
	if isTerminal(a.stdout) {
		if room = 13; !s.LastUsed.IsZero() {
			last = when.Ago(s.LastUsed, time.Now())
		}
	}
	presence := a.paint(presenceColours[s.Presence], fmt.Sprintf("%-9s", s.Presence))
	fmt.Fprintf(a.out, "%s  %7s  %-*s  %-12s  %-9s  %s\n", a.paint(asName, s.Name[:8]), words.Size(s.Bytes), room, last,
		words.Count(s.Sessions, "session"), presence, project)
	if s.MovedTo != "" {
		fmt.Fprintf(a.out, "          is probably %s now; to continue its history there: snapctl%s --root %s adopt\n",
			words.Quote(s.MovedTo), a.storeFlag(), words.ShellQuote(s.MovedTo))
	}
	for _, w := range s.Worktrees {
		if w.Root != s.Project {
			fmt.Fprintf(a.out, "          %-9s  %s\n", w.Presence, words.Quote(w.Root))
		}
	}
	if s.Err != nil {
		fmt.Fprintf(a.out, "          %s\n", words.Plain(s.Err.Error()))
	}
	return nil
}

var presenceColours = map[places.Presence]string{
	places.There: asAdded, places.Gone: asRemoved, places.Elsewhere: asChanged, places.NotSeen: asChanged,
}

func (a *app) removeStore(ctx context.Context, name string, yes bool) error {
	base, err := a.storeRoot()
	if err != nil {
		return err
	}
	dir, path, err := places.Find(base, name)
	if err != nil {
		return err
	}
	info, err := places.Describe(ctx, dir)
	if err != nil {
		a.note("warning: the store cannot be read: %v", err)
	}
	if path != info.Project && !yes {
		return refuse("'snapctl prune --session ID --drop-session' drops what one session has; "+
			"'snapctl stores rm "+words.Quote(info.Project)+"' removes all of the store",
			"stores rm: %q is a worktree in the store of %q", path, info.Project)
	}
	what := fmt.Sprintf("store %s of %s, which is %s: %s of %s, %d of them named, %s, the newest from %s",
		info.Name[:8], words.Quote(info.Project), info.Presence, words.Count(info.Snapshots, "snapshot"),
		words.Count(info.Sessions, "session"), info.Labelled, words.Size(info.Bytes), clock(info.LastUsed))
	if !yes {
		if !a.canAsk() {
			return refuse("-y removes it without a question", "stores rm: %s", what)
		}
		for _, w := range info.Worktrees {
			if w.Root != info.Project {
				a.note("also of %s, which is %s", words.Quote(w.Root), w.Presence)
			}
		}
		if !a.ask(ctx, "%s\nremove it, for good?", what) {
			return refuse("", "nothing was changed")
		}
	}
	err = places.Remove(ctx, dir)
	if errors.Is(err, cas.ErrBusy) {
		return refuse("nothing was changed; stop the program that has the store open, the engine by 'snapctl --root "+
			words.ShellQuote(info.Project)+" serve --stop', and try again", "stores rm: %w", err)
	}
	if err != nil {
		return err
	}
	if a.flags.json {
		return a.printJSON(map[string]any{
			"store": filepath.Base(dir), "project": info.Project, "removedBytes": info.Bytes})
	}
	a.note("removed %s", what)
	return nil
}
