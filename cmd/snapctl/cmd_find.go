package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/when"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
)

func (a *app) findCommand() *cobra.Command {
	var o manager.FindOptions
	var limit int
	var regexps []string
	c := &cobra.Command{
		Use:   "find [flags] STRING | -e REGEX [-- PATH...]",
		Short: "Find the turns by which a text came or went",
		RunE: a.paged(a.reading(func(cmd *cobra.Command, p *place, args []string) error {
			switch {
			case limit < 0 || limit == 0 && cmd.Flags().Changed("limit"):
				return usageError(cmd, "find: --limit %d: want 1 or more", limit)
			case o.Gone && o.AllVersions:
				return usageError(cmd, "find: --gone and --all-versions: want one of them")
			case o.All && p.chosen:
				return usageError(cmd, "find: --all is of all sessions: no --session with it")
			}
			dash := cmd.ArgsLenAtDash()
			if o.Regexp = cmd.Flags().Changed("regexp"); o.Regexp {
				o.Text = anyOf(regexps)
			} else {
				if len(args) == 0 || dash == 0 {
					return usageError(cmd, "find: want a STRING, or -e REGEX")
				}
				o.Text, args, dash = args[0], args[1:], dash-1
			}
			if len(args) > 0 && dash != 0 && !a.areThere(args) {
				return usageError(cmd, "find: %q: a STRING with spaces needs quotes, paths come after --", args[0])
			}
			return a.find(cmd, p, args, o, limit)
		})),
	}
	f := c.Flags()
	f.StringArrayVarP(&regexps, "regexp", "e", nil, "find what matches a `REGEX` (RE2); several: any of them")
	f.BoolVarP(&o.IgnoreCase, "ignore-case", "i", false, "take capitals for what they are capitals of")
	f.StringVar(&o.Since, "since", "", "only what came after `REV`, or TIME: 2h, yesterday, 2026-11-20")
	f.BoolVar(&o.All, "all", false, "also in other working trees that share the store")
	f.BoolVar(&o.Gone, "gone", false, "only how it went from files in which it is not any more")
	f.BoolVar(&o.AllVersions, "all-versions", false, "each change of a file that has it")
	f.BoolVarP(&o.Binary, "binary", "a", false, "look into files that are no text, too")
	f.IntVarP(&limit, "limit", "n", 0, "list at most `N` of them (default all)")
	return c
}

// anyOf is an expression that matches what any of list does.
func anyOf(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return "(?:" + strings.Join(list, ")|(?:") + ")"
}

func (a *app) find(cmd *cobra.Command, p *place, args []string, o manager.FindOptions, limit int) error {
	ctx := cmd.Context()
	for _, arg := range args {
		path, err := p.treePath(cmd, arg)
		if err != nil {
			return err
		}
		o.Paths = append(o.Paths, cmp.Or(path, "."))
	}
	o.Own = p.chosen || a.flags.sessionFile != ""
	if err := p.sinceOf(ctx, &o); err != nil {
		return err
	}
	if o.Own {
		if err := p.chooseSession(ctx); err != nil {
			return err
		}
	}
	several, err := p.hasSeveralSessions(ctx)
	if err != nil {
		return err
	}
	n := 0
	for found, err := range p.m.Find(ctx, &o) {
		switch {
		case errors.Is(err, path.ErrBadPattern):
			return &failure{exitUsage, err, "see 'snapctl find --help'"} // what helps with globs does not here
		case err != nil:
			return err
		}
		if err := a.printFound(found, several || o.All); err != nil {
			return err
		}
		if n++; n <= shownAtOnce {
			a.out.Flush()
		}
		if n == limit {
			break
		}
	}
	return a.sumUpFind(n, &o)
}

// sinceOf finds the session that --since is about, and takes a TIME for a REV.
func (p *place) sinceOf(ctx context.Context, o *manager.FindOptions) error {
	if o.Since == "" || strings.HasPrefix(o.Since, "@{") {
		return nil
	}
	_, err := p.resolveAsIs(ctx, o.Since)
	if _, werr := when.Parse(o.Since, time.Now()); errors.Is(err, manager.ErrUnknown) && werr == nil {
		o.Since, err = "@{"+o.Since+"}", nil
	}
	return p.hintNear(ctx, o.Since, err)
}

// hasSeveralSessions reports whether a number does not say which turn is meant.
func (p *place) hasSeveralSessions(ctx context.Context) (bool, error) {
	list, err := p.m.Sessions(ctx, false)
	return len(list) > 1, err
}

// A jsonFound is a line of find in JSON. Fields that are not known are null.
type jsonFound struct {
	EntryID *string `json:"entryId"`
	Turn    *int    `json:"turn"`
	Session string  `json:"session"`
	jsonPath
	Before    int           `json:"before"`
	After     int           `json:"after"`
	Line      int           `json:"line"`
	Text      string        `json:"text"`
	Kind      string        `json:"kind"`
	Owner     manager.Owner `json:"owner,omitempty"`
	TurnOpen  bool          `json:"turnOpen,omitempty"`
	Rev       *string       `json:"rev"`
	MovedFrom *jsonPath     `json:"renamedFrom,omitempty"`
	Time      time.Time     `json:"time"`
	jsonTitle
}

// printFound prints a change that was found. Where there are several sessions it says whose.
func (a *app) printFound(f *manager.Found, several bool) error {
	if a.flags.json {
		j := &jsonFound{EntryID: words.OrNull(f.EntryID), Turn: turnOrNull(f.Turn), Session: f.Session,
			jsonPath: newJSONPath(f.Path), Before: f.Before, After: f.After, Line: f.Line, Text: f.Text, Kind: f.Kind,
			Owner: f.Owner, TurnOpen: f.Open, Rev: words.OrNull(f.Rev), Time: f.Time,
			jsonTitle: jsonTitle{f.Title, f.Agent, f.Model}}
		if f.RenamedFrom != "" {
			j.MovedFrom = new(newJSONPath(f.RenamedFrom))
		}
		return a.printJSON(j)
	}
	line := a.newLine()
	line.add("", fmt.Sprintf("%-8s", turnName(f.Kind, f.Turn)))
	line.add(asName, fmt.Sprintf("%-8s", cmp.Or(f.Rev, "-")))
	line.add("", clock(f.Time))
	if several {
		line.add("", f.Session)
	}
	if f.Open {
		line.add(asNote, "goes on")
	}
	switch f.Owner {
	case manager.Contested:
		line.add(asRemoved, "contested")
	case manager.Other:
		line.add(asNote, "another session's")
	}
	where := words.Quote(f.Path)
	if f.Line > 0 {
		where += fmt.Sprintf(":%d", f.Line)
	}
	line.add("", where)
	role := asAdded
	if f.After < f.Before {
		role = asRemoved
	}
	line.add(role, fmt.Sprintf("%d → %d", f.Before, f.After))
	line.endText(f.Text)
	return nil
}

// endText prints a line of a file, without the space around it, and ends the line.
func (l *line) endText(text string) {
	text = strings.TrimSpace(text)
	if isTerminal(l.app.stdout) {
		const least = 19
		columns, _ := l.app.terminalSize()
		text = fit(strings.ReplaceAll(text, "\t", " "), max(columns-l.used-2, least))
		text = string(visible([]byte(text)))
	}
	l.add("", text)
	fmt.Fprintln(l.app.out)
}

// sumUpFind says what there is to know of all that was found.
func (a *app) sumUpFind(n int, o *manager.FindOptions) error {
	switch {
	case n == 0 && o.Gone:
		a.note("nothing that matches has gone")
	case n == 0:
		a.note("no turn added or removed it; what was not recorded yet is not searched")
	case o.Gone && !a.flags.json:
		a.note("'snapctl show -p REV -- PATH' shows such a change, 'snapctl revert REV -- PATH' takes it back")
	}
	return nil
}
