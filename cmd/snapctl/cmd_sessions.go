package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/when"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
)

func (a *app) sessionsCommand() *cobra.Command {
	var all, export bool
	var remote string
	c := &cobra.Command{
		Use:   "sessions",
		Short: "List the sessions that have snapshots",
		Args:  args(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case all && export:
				return usageError(cmd, "sessions: --export, of one log, does not go with --all")
			case export:
				return a.exportLog(cmd.Context())
			}
			return a.reading(func(cmd *cobra.Command, p *place, _ []string) error {
				if remote != "" {
					if _, err := p.remoteNamed([]string{remote}); err != nil {
						return err
					}
				}
				return a.sessions(cmd.Context(), p, all, remote)
			})(cmd, args)
		},
	}
	c.Flags().BoolVar(&export, "export", false, "write the log of a session, in pi's format, and print its path")
	c.Flags().BoolVar(&all, "all", false, "list those of all working trees that share the store")
	c.Flags().StringVar(&remote, "remote", "", "list those that others go on with, as they were pulled from `NAME`")
	return c
}

// exportLog writes the store's own log of the session.
func (a *app) exportLog(ctx context.Context) error {
	p, err := a.restoring(ctx, func(p *place) error { return p.chooseSession(ctx) })
	if err != nil {
		return err
	}
	defer p.close()
	file, err := inside.Of(p.m).ExportLog(ctx)
	if err != nil {
		return err
	}
	if a.flags.json {
		return a.printJSON(struct {
			Session string `json:"session"`
			File    string `json:"file"`
		}{p.m.Session(), file})
	}
	fmt.Fprintln(a.out, file)
	return nil
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
	jsonTitle
}

func (a *app) sessions(ctx context.Context, p *place, all bool, remote string) error {
	list, err := p.m.Sessions(ctx, all || remote != "")
	if err != nil {
		return err
	}
	if remote != "" {
		list = slices.DeleteFunc(list, func(s manager.SessionInfo) bool {
			return !strings.HasPrefix(s.Root, remote+":")
		})
		if len(list) == 0 {
			a.note("nobody else goes on with a session, as far as was pulled from %s", remote)
			return nil
		}
	}
	if len(list) == 0 {
		return p.noSnapshots(ctx)
	}
	for i := range list {
		if err := a.printSession(&list[i], all || remote != ""); err != nil {
			return err
		}
	}
	if all || remote != "" || a.flags.json {
		return nil
	}
	a.out.Flush()
	return p.noteElsewhere(ctx, list)
}

// noteElsewhere says with which of some sessions others go on, too.
func (p *place) noteElsewhere(ctx context.Context, list []manager.SessionInfo) error {
	sessions := make([]string, len(list))
	for i, s := range list {
		sessions[i] = s.Session
	}
	others, err := inside.Of(p.m).Elsewhere(ctx, sessions)
	for _, o := range others {
		remote, path, _ := strings.Cut(o.Root, ":")
		p.app.note("session %s goes on elsewhere, too, in %s: 'snapctl log %s:%s' lists it, "+
			"'snapctl diff %[3]s:%[4]s @' compares", o.Session, words.Quote(path), remote, o.Session)
	}
	return err
}

func (a *app) printSession(s *manager.SessionInfo, all bool) error {
	if a.flags.json {
		root := newJSONPath(s.Root)
		return a.printJSON(&jsonSession{s.Session, root.Path, root.Bytes, s.Worktree, s.Began.UTC(), s.Last.UTC(),
			s.Steps, s.Turns, s.Open, words.OrNull(s.EntryID), jsonTitle{s.Title, s.Agent, s.Model}})
	}
	l := a.newLine()
	l.add(asName, fmt.Sprintf("%-20s", s.Session))
	if isTerminal(a.stdout) {
		l.add("", fmt.Sprintf("%-10s", when.Ago(s.Last, time.Now())))
	} else {
		l.add("", clock(s.Began)+" - "+clock(s.Last))
	}
	l.add("", words.Count(s.Steps, "step"))
	if s.Open {
		l.add(asAdded, "turn open")
	}
	if all {
		l.add("", words.Quote(s.Root))
	}
	if s.Agent != "" {
		l.add("", words.Quote(s.Agent))
	}
	l.end(s.Title)
	return nil
}
