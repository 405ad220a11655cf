package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/manager"
)

type diffFlags struct {
	patch, stat, numstat, nameStatus, nameOnly bool

	nul, exitCode, renames, hunks bool
	ignoreSpace                   bool
	raw                           bool // to a terminal, too
	context                       int
	turn                          string // whose changes are wanted; "": two states are compared
	limits                        limitFlags
}

func (a *app) diffCommand() *cobra.Command {
	var f diffFlags
	c := &cobra.Command{
		Use: "diff [flags] [REV [REV]] [[--] PATH...]\n  snapctl diff --turn REV [flags] [-- PATH...]\n" +
			"  snapctl diff --hunks {REV REV | --turn REV} [flags] [-- PATH...]",
		Short:   "Show what differs between snapshots, or a snapshot and the disk",
		PreRunE: func(cmd *cobra.Command, _ []string) error { return f.check(cmd, a.flags.json) },
		RunE: a.paged(a.resident(a.reading(func(cmd *cobra.Command, p *place, args []string) error {
			return a.diff(cmd, p, args, &f)
		}))),
	}
	flags := c.Flags()
	flags.StringVar(&f.turn, "turn", "", "show what the turn `REV` did, and nothing that others did meanwhile")
	flags.BoolVarP(&f.patch, "patch", "p", false, "print a patch that git apply takes (default)")
	flags.BoolVar(&f.stat, "stat", false, "print how many lines changed in each file, as a chart")
	flags.BoolVar(&f.numstat, "numstat", false, "print lines added TAB lines deleted TAB path")
	flags.BoolVar(&f.nameStatus, "name-status", false, "print A, M, T, D, a or d TAB path")
	flags.BoolVar(&f.nameOnly, "name-only", false, "print paths")
	flags.BoolVar(&f.hunks, "hunks", false, "print pieces that can be taken back one by one, each with its ID")
	flags.BoolVarP(&f.renames, "find-renames", "M", false, "show a file that was moved as one change")
	flags.BoolVarP(&f.nul, "null", "z", false, "end fields with NUL and print paths as they are")
	flags.BoolVar(&f.exitCode, "exit-code", false, "exit with 1 if something differs")
	flags.IntVarP(&f.context, "unified", "U", 3, "print `N` lines around each change of a patch")
	f.addText(flags)
	f.limits.addFileSize(flags)
	return c
}

// addText adds the flags that say how lines of files are read and written.
func (f *diffFlags) addText(flags *pflag.FlagSet) {
	flags.BoolVarP(&f.ignoreSpace, "ignore-all-space", "w", false,
		"take lines for the same that differ in white space only")
	flags.BoolVar(&f.raw, "raw", false, "print control characters of files as they are, to a terminal, too")
}

// check refuses flags that do not go together.
func (f *diffFlags) check(cmd *cobra.Command, json bool) error {
	n := 0
	for _, set := range []bool{f.patch, f.stat, f.numstat, f.nameStatus, f.nameOnly, f.hunks} {
		if set {
			n++
		}
	}
	switch {
	case n > 1:
		return usageError(cmd, "diff: more than one of --patch, --stat, --numstat, --name-status, --name-only "+
			"and --hunks")
	case f.hunks && (f.renames || f.ignoreSpace):
		return usageError(cmd, "diff: --hunks shows pieces as they can be taken back: no -M or -w with it")
	case f.nul && (json || !f.numstat && !f.nameStatus && !f.nameOnly):
		return usageError(cmd, "diff: -z goes with --numstat, --name-status or --name-only")
	case f.context < 0:
		return usageError(cmd, "diff: -U %d: want 0 or more", f.context)
	}
	f.patch = f.patch || n == 0 && !json
	return nil
}

// revsAndPaths splits arguments at "--".
func revsAndPaths(cmd *cobra.Command, args []string) (revs, paths []string) {
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		return args[:n], args[n:]
	}
	return args, nil
}

// splitArgs is revsAndPaths, but as in git paths need no "--": they begin with the first
// argument that is a path and names no revision.
func (p *place) splitArgs(cmd *cobra.Command, args []string) (revs, paths []string) {
	if cmd.ArgsLenAtDash() >= 0 {
		return revsAndPaths(cmd, args)
	}
	for i, arg := range args {
		if arg == diskRev || !p.app.areThere(args[i:]) {
			continue
		}
		if _, err := p.resolveAsIs(cmd.Context(), arg); errors.Is(err, manager.ErrUnknown) {
			return args[:i], args[i:]
		}
	}
	return args, nil
}

// diskRev is what stands for the disk.
const diskRev = "disk"

// ends finds what is to be compared.
func (p *place) ends(ctx context.Context, cmd *cobra.Command, args []string) (old, new verbs.Side, err error) {
	switch {
	case len(args) > 2:
		return old, new, usageError(cmd, "diff: more than two revisions: paths come after --")
	case len(args) == 0:
		args = []string{"@", diskRev}
	case len(args) == 1:
		args = []string{args[0], diskRev}
	}
	if args[0] == diskRev && args[1] == diskRev {
		return old, new, usageError(cmd, "diff: nothing to compare the disk with")
	}
	for i, r := range []*verbs.Side{&old, &new} {
		if args[i] == diskRev {
			r.OnDisk = true
			continue
		}
		if r.Point, err = p.resolve(ctx, args[i]); err == nil {
			continue
		}
		return old, new, err
	}
	return old, new, nil
}

func (a *app) diff(cmd *cobra.Command, p *place, args []string, f *diffFlags) error {
	ctx := cmd.Context()
	revs, paths := p.splitArgs(cmd, args)
	only, err := p.filter(cmd, paths)
	if err != nil {
		return err
	}
	isTurn := cmd.Flags().Changed("turn")
	switch {
	case isTurn && len(revs) > 0:
		return usageError(cmd, "diff: --turn names a turn, and %q another revision: paths come after --", revs[0])
	case f.hunks:
		return a.diffHunks(cmd, p, revs, only, f)
	case isTurn:
		t, err := p.turnDiff(ctx, f.turn)
		if err != nil {
			return err
		}
		if t.Kind == "step" && len(t.Changes) == 0 && t.Unknown == "" {
			a.note("turn %d changed nothing", t.TurnIndex)
		}
		return p.turnDiffer(t, f).run(ctx, only)
	}
	old, new, err := p.ends(ctx, cmd, revs)
	if err != nil {
		return err
	}
	d := p.newDiffer(f)
	d.Old, d.New = old, new
	if old.OnDisk || new.OnDisk {
		disk, g, left, err := p.captureDisk(ctx, f.limits.limits(a))
		if err != nil {
			return err
		}
		d.Trees, d.left = g, left
		for _, r := range []*verbs.Side{&d.Old, &d.New} {
			if r.OnDisk {
				r.Point = disk
			}
		}
	}
	return d.run(ctx, only)
}
