package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/patch"
)

func (a *app) sessionsCommand() *cobra.Command {
	all := false
	c := &cobra.Command{
		Use:     "sessions",
		Short:   "List the sessions that have snapshots",
		Long:    sessionsHelp,
		Example: sessionsExamples,
		Args:    args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.sessions(cmd.Context(), all)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "list those of all working trees that share the store")
	return c
}

// A jsonSession is a line of sessions in JSON.
type jsonSession struct {
	Session   string    `json:"session"`
	Root      string    `json:"root"`
	RootBytes []byte    `json:"rootBytes,omitempty"`
	Worktree  string    `json:"worktree"`
	Began     time.Time `json:"began"`
	Last      time.Time `json:"last"`
	Steps     int       `json:"steps"`
	Turns     int       `json:"turns"`
	TurnOpen  bool      `json:"turnOpen"`
	EntryID   *string   `json:"entryId"`
}

func (a *app) sessions(ctx context.Context, all bool) error {
	p, err := a.openToRead(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	list, err := p.m.Sessions(ctx, all)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return a.noSnapshots(p.project)
	}
	for i := range list {
		if err := a.printSession(&list[i], all); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printSession(s *manager.SessionInfo, all bool) error {
	if a.flags.json {
		root := newJSONPath(s.Root)
		return a.printJSON(&jsonSession{s.Session, root.Path, root.Bytes, s.Worktree, s.Began.UTC(), s.Last.UTC(),
			s.Steps, s.Turns, s.Open, orNull(s.EntryID)})
	}
	fmt.Fprintf(a.out, "%-20s  %s - %s  %s", a.paint(yellow, s.Session), clock(s.Began), clock(s.Last), count(s.Steps, "step"))
	if s.Open {
		fmt.Fprintf(a.out, "  %s", a.paint(green, "turn open"))
	}
	if all {
		fmt.Fprintf(a.out, "  %s", patch.Quote(s.Root))
	}
	fmt.Fprintln(a.out)
	return nil
}
