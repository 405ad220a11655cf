package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/tree"
)

type duFlags struct {
	turns, paths bool
	depth, limit int
}

func (a *app) duCommand() *cobra.Command {
	var f duFlags
	c := &cobra.Command{
		Use:   "du [--turns | --paths]",
		Short: "Say what takes the bytes of the store",
		Args:  args(0, 0),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			set := cmd.Flags().Changed
			switch {
			case f.turns && f.paths:
				return usageError(cmd, "du: --turns and --paths: want one of them")
			case set("depth") && !f.paths:
				return usageError(cmd, "du: --depth goes with --paths")
			case set("limit") && !f.paths && !f.turns:
				return usageError(cmd, "du: --limit goes with --turns and --paths")
			case f.depth < 0 || f.depth == 0 && set("depth"):
				return usageError(cmd, "du: --depth %d: want 1 or more", f.depth)
			case f.limit < 0 || f.limit == 0 && set("limit"):
				return usageError(cmd, "du: --limit %d: want 1 or more", f.limit)
			}
			return nil
		},
		RunE: a.reading(func(cmd *cobra.Command, p *place, _ []string) error { return a.du(cmd.Context(), p, &f) }),
	}
	c.Flags().BoolVar(&f.turns, "turns", false, "list what each turn added, newest first")
	c.Flags().BoolVar(&f.paths, "paths", false, "list what each path takes in all snapshots, the most first")
	c.Flags().IntVar(&f.depth, "depth", 0, "with --paths, sum up directories that are `N` names deep")
	c.Flags().IntVarP(&f.limit, "limit", "n", 0, "list at most `N` of them (default all)")
	return c
}

// du prints how many bytes sessions, turns or paths take. It lists damage on stderr, and
// ends with the exit code of damage: the numbers are too small then.
func (a *app) du(ctx context.Context, p *place, f *duFlags) error {
	damage, err := history.JournalDamage(ctx, p.store)
	if err != nil {
		return err
	}
	shown, stop := a.showProgress(ctx)
	var problems []trees.Problem
	var show func() error
	switch {
	case f.turns:
		var list []retain.TurnUsage
		list, problems, err = retain.ByTurn(shown, p.store, p.namedSession())
		show = func() error { return printFirst(list, f.limit, a.printTurnUsage) }
	case f.paths:
		var list []audit.PathAmount
		list, problems, err = retain.ByPath(shown, p.store, f.depth)
		show = func() error { return printFirst(list, f.limit, a.printPathUsage) }
	default:
		var u *retain.Usage
		if u, err = retain.BySession(shown, p.store); err == nil {
			problems = u.Problems
		}
		show = func() error { return a.printUsage(u, p.m.StoreDir()) }
	}
	stop()
	if err != nil {
		return err
	}
	if err := show(); err != nil {
		return err
	}
	for _, d := range damage {
		a.tell("%s", d)
	}
	a.sayProblems(problems)
	if n := len(damage) + len(problems); n > 0 {
		return &failure{exitDamage, fmt.Errorf("%s in the store: there is more than was counted",
			words.Count(n, "damaged place")), hintCheck}
	}
	return nil
}

// namedSession returns the session that the user has named, "" for none.
func (p *place) namedSession() string {
	if p.app.flags.sessionFile != "" {
		return inside.Of(p.m).LogSession()
	}
	return p.app.flags.session
}

// A jsonAmount is an amount in JSON.
type jsonAmount struct {
	Objects int   `json:"objects"`
	Stored  int64 `json:"storedBytes"`
	Bytes   int64 `json:"bytes"`
}

// A jsonBytes is an amount of which the content is not known.
type jsonBytes struct {
	Objects int   `json:"objects"`
	Stored  int64 `json:"storedBytes"`
}

// A duAnswer is what du prints as JSON.
type duAnswer struct {
	jsonPath
	Sessions  []jsonSessionUsage `json:"sessions"`
	Shared    jsonAmount         `json:"shared"`
	Unnamed   jsonBytes          `json:"unnamed"`
	Copies    jsonBytes          `json:"copies"`
	PackBytes int64              `json:"packBytes"`

	IndexBytes      int64 `json:"indexBytes"`
	JournalBytes    int64 `json:"journalBytes"`
	WorktreeBytes   int64 `json:"worktreeBytes"`
	TrashBytes      int64 `json:"trashBytes"`
	QuarantineBytes int64 `json:"quarantineBytes"`
	BallastBytes    int64 `json:"ballastBytes"`
	OtherBytes      int64 `json:"otherBytes"`
	TotalBytes      int64 `json:"totalBytes"`
}

type jsonSessionUsage struct {
	Session string `json:"session"`
	jsonRoot
	Worktree  string     `json:"worktree"`
	Snapshots int        `json:"snapshots"`
	Last      time.Time  `json:"last"`
	Alone     jsonAmount `json:"alone"`
	Needs     jsonAmount `json:"needs"`
}

func newDuAnswer(u *retain.Usage, dir string) *duAnswer {
	files := u.Files
	j := &duAnswer{jsonPath: newJSONPath(dir), Sessions: []jsonSessionUsage{}, Shared: jsonAmount(u.Shared),
		Unnamed: jsonBytes{u.Unnamed.Objects, u.Unnamed.Stored}, Copies: jsonBytes{files.Copies, files.CopyBytes},
		PackBytes: files.PackBytes, IndexBytes: files.Indexes, JournalBytes: files.Journal,
		WorktreeBytes: files.Worktrees, TrashBytes: files.Trash, QuarantineBytes: files.Quarantine,
		BallastBytes: files.Ballast, OtherBytes: files.Other, TotalBytes: files.Total()}
	for _, s := range u.Sessions {
		j.Sessions = append(j.Sessions, jsonSessionUsage{s.Session, newJSONRoot(s.Root), s.Worktree, s.Snapshots,
			s.Last.UTC(), jsonAmount(s.Alone), jsonAmount(s.Needs)})
	}
	return j
}

func (a *app) printUsage(u *retain.Usage, dir string) error {
	if a.flags.json {
		return a.printJSON(newDuAnswer(u, dir))
	}
	if len(u.Sessions) > 0 {
		fmt.Fprintf(a.out, "%7s  %7s  %-19s  %s\n", "FREED", "USED", "LAST USED", "SESSION, SNAPSHOTS, DIRECTORY")
	}
	for _, s := range u.Sessions {
		fmt.Fprintf(a.out, "%7s  %7s  %s  %s  %s  %s\n", words.Size(s.Alone.Stored), words.Size(s.Needs.Stored),
			clock(s.Last), a.paint(asName, s.Session), words.Count(s.Snapshots, "snapshot"), words.Quote(s.Root))
	}
	files := u.Files
	for _, line := range []struct {
		bytes int64
		what  string
	}{
		{u.Shared.Stored, "shared by several sessions"},
		{u.Unnamed.Stored, "needed by no snapshot"},
		{files.CopyBytes, "stored twice"},
		{files.PackBytes, "headers of packs"},
		{files.Indexes, "indexes"},
		{files.Journal, "journal"},
		{files.Worktrees, "stat caches, logs of sessions"},
		{files.Trash, "trash"},
		{files.Quarantine, "quarantine"},
		{files.Ballast, "kept aside for a full disk"},
		{files.Other, "other files"},
	} {
		if line.bytes != 0 {
			fmt.Fprintf(a.out, "%7s  %s\n", words.Size(line.bytes), line.what)
		}
	}
	fmt.Fprintf(a.out, "%7s  total\n", words.Size(files.Total()))
	return nil
}

// A jsonTurnUsage is a line of du --turns in JSON.
type jsonTurnUsage struct {
	EntryID   *string   `json:"entryId"`
	TurnIndex *int      `json:"turnIndex"`
	Kind      string    `json:"kind"`
	Time      time.Time `json:"time"`
	Session   string    `json:"session"`
	Label     *string   `json:"label"`
	jsonRoot
	Worktree string `json:"worktree"`
	Seq      uint64 `json:"seq"`
	jsonAmount
}

func (a *app) printTurnUsage(t *retain.TurnUsage) error {
	if a.flags.json {
		return a.printJSON(&jsonTurnUsage{words.OrNull(t.EntryID), turnOrNull(t.TurnIndex), t.Kind, t.Time.UTC(),
			t.Session, words.OrNull(t.Label), newJSONRoot(t.Root), t.Worktree, t.Seq, jsonAmount(t.Added)})
	}
	fmt.Fprintf(a.out, "%7s  %-13s  %-8s  %s  %s  %s", words.Size(t.Added.Stored),
		words.Count(t.Added.Objects, "object"), turnName(t.Kind, t.TurnIndex),
		a.paint(asName, fmt.Sprintf("%-8s", cmp.Or(t.EntryID, "-"))), clock(t.Time), t.Session)
	if t.Label != "" {
		fmt.Fprintf(a.out, "  %s", words.Quote(t.Label))
	}
	fmt.Fprintln(a.out)
	return nil
}

// A jsonPathUsage is a line of du --paths in JSON.
type jsonPathUsage struct {
	jsonPath
	Kind     string `json:"kind"`
	Versions int    `json:"versions"`
	Size     int64  `json:"size"`
	jsonAmount
}

func (a *app) printPathUsage(p *audit.PathAmount) error {
	mode, kind, versions := tree.ModeFile, "file", words.Count(p.Versions, "version")
	if p.IsDir {
		mode, kind, versions = tree.ModeDir, "dir", words.Count(p.Versions, "content")
	}
	if a.flags.json {
		return a.printJSON(&jsonPathUsage{newJSONPath(p.Path), kind, p.Versions, p.Size, jsonAmount(p.Amount)})
	}
	fmt.Fprintf(a.out, "%7s  %-14s  newest %7s  %s\n", words.Size(p.Stored), versions, words.Size(p.Size),
		shown(p.Path, mode))
	return nil
}

// printFirst prints the first limit of a list, all for 0.
func printFirst[T any](list []T, limit int, print func(*T) error) error {
	for i := range list {
		if limit > 0 && i == limit {
			break
		}
		if err := print(&list[i]); err != nil {
			return err
		}
	}
	return nil
}
