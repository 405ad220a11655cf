package main

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

type logFlags struct {
	limit      int
	all, names bool
}

func (a *app) logCommand() *cobra.Command {
	var f logFlags
	c := &cobra.Command{
		Use:     "log [flags] [-- PATH...]",
		Short:   "List the turns of a session, newest first",
		Long:    logHelp,
		Example: logExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.limit < 0 || f.limit == 0 && cmd.Flags().Changed("limit"):
				return usageError(cmd, "log: --limit %d: want 1 or more", f.limit)
			case len(args) > 0 && cmd.ArgsLenAtDash() != 0:
				return usageError(cmd, "log: %q: paths come after --", args[0])
			case f.all && (len(args) > 0 || f.names || a.flags.sessionFile != ""):
				return usageError(cmd, "log: --all lists records as they are: no PATH, --name-status or --session-file with it")
			}
			return a.printLog(cmd, args, &f)
		},
	}
	c.Flags().IntVarP(&f.limit, "limit", "n", 0, "list at most `N` of them (default all)")
	c.Flags().BoolVar(&f.all, "all", false, "list all records of all sessions, of all working trees that share the store")
	c.Flags().BoolVar(&f.names, "name-status", false, "list the paths that each turn changed")
	return c
}

func (a *app) printLog(cmd *cobra.Command, args []string, f *logFlags) error {
	ctx := cmd.Context()
	p, err := a.openToRead(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	only, err := p.filter(cmd, args)
	if err != nil {
		return err
	}
	n := 0
	for line, err := range p.logLines(ctx, f, only) {
		if err == nil {
			err = a.printLogLine(line, f)
		}
		if err != nil {
			return err
		}
		if n++; n == f.limit {
			break
		}
	}
	if n == 0 && len(only) == 0 {
		return noSnapshots(p.project)
	}
	return nil
}

// A logLine is what log says of a snapshot.
type logLine struct {
	*manager.Moment
	own, contested *manager.Diff // with --name-status, or where paths were named
}

// logLines yields what is to be listed.
func (p *place) logLines(ctx context.Context, f *logFlags, only filter) iter.Seq2[*logLine, error] {
	return func(yield func(*logLine, error) bool) {
		if f.all {
			for s, err := range p.store.Snapshots(ctx) {
				if err == nil && manager.IsEdit(s) {
					continue
				}
				line := new(logLine)
				if err == nil {
					line.Moment = &manager.Moment{EntryID: s.Entry, TurnIndex: -1, Kind: s.Kind, Tree: s.Tree, Snapshot: s}
				}
				if !yield(line, err) || err != nil {
					return
				}
			}
			return
		}
		if err := p.chooseSession(ctx); err != nil {
			yield(nil, err)
			return
		}
		for mo, err := range p.m.Timeline(ctx) {
			line := &logLine{Moment: mo}
			if err == nil && (f.names || len(only) > 0) && (mo.Snapshot == nil || !mo.Snapshot.Pruned) {
				line.own, line.contested, err = mo.Changes(ctx)
				if err == nil && len(only) > 0 && line.own.Unknown == "" && !only.keepsAny(line.own) && !only.keepsAny(line.contested) {
					continue
				}
			}
			if !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// keepsAny reports whether a filter keeps a path of a Diff.
func (f filter) keepsAny(d *manager.Diff) bool {
	for path := range d.Paths() {
		if f.keeps(path) {
			return true
		}
	}
	return false
}

// A jsonMoment is a line of log in JSON. What is not known is null.
type jsonMoment struct {
	EntryID          *string       `json:"entryId"`
	TurnIndex        *int          `json:"turnIndex"`
	Kind             string        `json:"kind"`
	SnapshotTreeHash store.ID      `json:"snapshotTreeHash"`
	Time             *time.Time    `json:"time"`
	Counts           *jsonCounts   `json:"counts"`            // of paths
	Unknown          string        `json:"unknown,omitempty"` // why they are not all
	Diff             *manager.Diff `json:"diff,omitempty"`
	Contested        *manager.Diff `json:"contested,omitempty"`
	Interrupted      bool          `json:"interrupted,omitempty"`
	Partial          bool          `json:"partial,omitempty"`
	Pruned           bool          `json:"pruned,omitempty"`
	*jsonRecord
}

type jsonCounts struct {
	Added    int `json:"added"`
	Modified int `json:"modified"`
	Deleted  int `json:"deleted"`
}

func (a *app) printLogLine(l *logLine, f *logFlags) error {
	if a.flags.json {
		j := &jsonMoment{EntryID: orNull(l.EntryID), Kind: l.Kind, SnapshotTreeHash: l.Tree, Interrupted: l.Interrupted, Partial: l.Partial}
		if l.TurnIndex >= 0 {
			j.TurnIndex = &l.TurnIndex
		}
		if !f.all {
			j.Counts, j.Unknown = &jsonCounts{l.Added, l.Modified, l.Deleted}, l.Unknown
		}
		if f.names {
			j.Diff, j.Contested = l.own, l.contested
		}
		if s := l.Snapshot; s != nil {
			j.Time, j.Pruned, j.jsonRecord = new(s.Time.UTC()), s.Pruned, newJSONRecord(s)
		}
		return a.printJSON(j)
	}
	turn := turnName(l.Kind, l.TurnIndex)
	if f.all {
		turn = l.Kind
	}
	entry, when := l.EntryID, ""
	if s := l.Snapshot; s != nil {
		when = clock(s.Time)
	}
	if entry == "" {
		entry = "-"
	}
	fmt.Fprintf(a.out, "%-8s  %s  %s", turn, a.paint(yellow, fmt.Sprintf("%-8s", entry)), when)
	if f.all {
		fmt.Fprintf(a.out, "  %s  %s  %s", l.Snapshot.Tree.Short(), l.Snapshot.Session, patch.Quote(l.Snapshot.Root))
	} else if s := nonZero([]amount{{l.Added, "added"}, {l.Modified, "modified"}, {l.Deleted, "deleted"}}); s != "" {
		fmt.Fprintf(a.out, "  %s", s)
	}
	if l.Unknown != "" {
		fmt.Fprintf(a.out, "  %s", a.paint(red, "changes not known"))
	}
	if l.Interrupted {
		fmt.Fprintf(a.out, "  %s", a.paint(red, "interrupted"))
	}
	if l.Snapshot != nil && l.Snapshot.Pruned {
		fmt.Fprintf(a.out, "  %s", a.paint(red, "pruned"))
	}
	if l.Partial {
		fmt.Fprintf(a.out, "  %s", a.paint(red, "in part"))
	}
	if s := l.Snapshot; s != nil && s.Label != "" {
		fmt.Fprintf(a.out, "  %s", patch.Quote(s.Label))
	}
	fmt.Fprintln(a.out)
	if f.names && l.own != nil {
		a.printDiff(l.own, "  ", "")
		a.printDiff(l.contested, "  ", " (contested)")
	}
	return nil
}

// turnName returns what people call a moment of a session.
func turnName(kind string, turn int) string {
	switch {
	case turn >= 0:
		return fmt.Sprintf("turn %d", turn)
	case kind == "base":
		return "offline"
	}
	return kind
}

// printDiff prints a line for each path.
func (a *app) printDiff(d *manager.Diff, before, after string) {
	if d.Unknown != "" {
		fmt.Fprintf(a.out, "%s%s\n", before, a.paint(red, "not known: "+d.Unknown))
	}
	for path, status := range d.Paths() {
		fmt.Fprintf(a.out, "%s%s %s%s\n", before, a.paint(statusColours[status], string(byte(status))), patch.Quote(path), after)
	}
}

var statusColours = map[tree.Status]string{
	tree.Added: green, tree.Modified: yellow, tree.Retyped: yellow, tree.Deleted: red, tree.Captured: cyan, tree.Uncaptured: cyan, renamed: yellow,
}
