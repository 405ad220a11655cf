package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/tree"
)

type restoreFlags struct {
	dryRun, yes, exact, force bool
	onDirty                   string

	finish, abort bool // of restore
	skipFiles     bool // of navigate
}

func (f *restoreFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.BoolVarP(&f.dryRun, "dry-run", "n", false, "print what would be done, and do nothing")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask before files are deleted, nor when another commit is checked out")
	flags.StringVar(&f.onDirty, "on-dirty", "", "what to do with files that were changed since: `POLICY` is skip, overwrite or abort")
	flags.BoolVar(&f.force, "force", false, "also while a turn is open")
}

func (f *restoreFlags) options(target string, paths []string) *manager.RestoreOptions {
	return &manager.RestoreOptions{Target: target, Paths: paths, Exact: f.exact, OnDirty: rollback.Policy(f.onDirty),
		Force: f.force, AcrossHead: f.yes}
}

func (a *app) restoreCommand() *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use:     "restore [flags] REV [PATH...]\n  snapctl restore --continue|--abort",
		Short:   "Bring files back to what they were",
		Long:    restoreHelp,
		Example: restoreExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.finish && f.abort:
				return usageError(cmd, "restore: --continue and --abort")
			case f.finish || f.abort:
				if len(args) > 0 {
					return usageError(cmd, "restore: --continue and --abort take no REV")
				}
				return a.finishRestore(cmd.Context(), f.abort)
			case len(args) == 0:
				return usageError(cmd, "restore: no REV")
			case f.exact && len(args) > 1:
				return usageError(cmd, "restore: --exact is for all files, and paths are restored exactly as it is")
			}
			return a.restore(cmd, args[0], args[1:], &f)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&f.exact, "exact", false, "restore all that differs, whoever changed it")
	c.Flags().BoolVar(&f.finish, "continue", false, "bring a restore to its end that was cut off")
	c.Flags().BoolVar(&f.abort, "abort", false, "change back what a restore did that was cut off")
	return c
}

func (a *app) undoCommand() *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use:     "undo [flags]",
		Short:   "Take back the newest restore",
		Long:    undoHelp,
		Example: undoExamples,
		Args:    args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.takeBack(cmd, &f, (*manager.FileSnapshotManager).Undo, "redo")
		},
	}
	f.add(c)
	return c
}

func (a *app) redoCommand() *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use:     "redo [flags]",
		Short:   "Take back the newest undo",
		Long:    redoHelp,
		Example: redoExamples,
		Args:    args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.takeBack(cmd, &f, (*manager.FileSnapshotManager).Redo, "undo")
		},
	}
	f.add(c)
	return c
}

func (a *app) navigateCommand() *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use:     "navigate [flags] ENTRY",
		Short:   "Move the conversation to an entry, and the files along",
		Long:    navigateHelp,
		Example: navigateExamples,
		Args:    args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.navigate(cmd, args[0], &f)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&f.skipFiles, "skip-files", false, "leave the files alone")
	return c
}

// restoring opens the store to restore, and settles on the session.
func (a *app) restoring(ctx context.Context) (*place, error) {
	p, err := a.openToRead(ctx) // which makes no store
	if err != nil {
		return nil, err
	}
	p.close()
	if p, err = a.openToWrite(ctx, false, manager.Options{}.Limits); err != nil {
		return nil, err
	}
	if err := p.chooseSessionToWrite(ctx); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (a *app) restore(cmd *cobra.Command, rev string, args []string, f *restoreFlags) error {
	p, err := a.restoring(cmd.Context())
	if err != nil {
		return err
	}
	defer p.close()
	var paths []string
	for _, arg := range args {
		path, err := p.treePath(cmd, arg)
		if err != nil {
			return err
		}
		if path == "" {
			path = "."
		}
		paths = append(paths, path)
	}
	opts := f.options(rev, paths)
	return a.asked(cmd, f, func(preview bool) (*manager.RestoreResult, error) {
		opts.Preview = preview
		opts.AcrossHead = f.yes
		return p.m.RestoreFiles(cmd.Context(), opts)
	}, "undo", func(r *manager.RestoreResult) error {
		if r.Differing > 0 && len(r.Items) == 0 {
			return refuse("name them to restore them, or all with --exact; 'snapctl diff "+rev+"' shows them",
				"no turn between here and %s changed a file; %s of others', or of the user's", rev, othersChanges(r.Differing))
		}
		return nil
	})
}

func othersChanges(n int) string {
	if n == 1 {
		return "1 path differs: a change"
	}
	return comma(n) + " paths differ: changes"
}

func (a *app) takeBack(cmd *cobra.Command, f *restoreFlags,
	fn func(*manager.FileSnapshotManager, context.Context, *manager.RestoreOptions) (*manager.RestoreResult, error), back string) error {
	p, err := a.restoring(cmd.Context())
	if err != nil {
		return err
	}
	defer p.close()
	opts := f.options("", nil)
	return a.asked(cmd, f, func(preview bool) (*manager.RestoreResult, error) {
		opts.Preview = preview
		return fn(p.m, cmd.Context(), opts)
	}, back, nil)
}

func (a *app) navigate(cmd *cobra.Command, entry string, f *restoreFlags) error {
	p, err := a.restoring(cmd.Context())
	if err != nil {
		return err
	}
	defer p.close()
	if f.skipFiles {
		r, err := p.m.NavigateTree(cmd.Context(), entry, &manager.NavigateOptions{SkipFiles: true, Preview: f.dryRun})
		if err != nil {
			return err
		}
		if a.flags.json {
			return a.printJSON(r)
		}
		a.note("the session goes on from %s; no file was changed", entry)
		return nil
	}
	return a.asked(cmd, f, func(preview bool) (*manager.RestoreResult, error) {
		r, err := p.m.NavigateTree(cmd.Context(), entry, &manager.NavigateOptions{Preview: preview, OnDirty: rollback.Policy(f.onDirty),
			Force: f.force, AcrossHead: f.yes})
		if r == nil {
			return nil, err
		}
		return r.Restore, err
	}, "undo", nil)
}

// asked runs a restore and prints what it did. On a terminal it first asks
// about files that it would delete. back is the command that takes it back.
func (a *app) asked(cmd *cobra.Command, f *restoreFlags, run func(preview bool) (*manager.RestoreResult, error), back string, empty func(*manager.RestoreResult) error) error {
	if policy := rollback.Policy(f.onDirty); policy != "" && policy != rollback.Skip && policy != rollback.Overwrite && policy != rollback.Abort {
		return usageError(cmd, "--on-dirty %q: want skip, overwrite or abort", f.onDirty)
	}
	if !f.yes && !f.dryRun && a.canAsk() {
		preview, err := run(true)
		if err != nil {
			return err
		}
		if n := len(preview.Deleted); n > 0 || preview.HeadChanged {
			a.printItems(preview, func(rollback.Item) bool { return true })
			question := "go on?"
			if n > 0 {
				question = "go on and delete " + count(n, "file") + "?"
			}
			if preview.HeadChanged {
				a.note("another commit is checked out than at the time")
			}
			if !a.ask("%s", question) {
				return refuse("", "nothing was changed")
			}
			f.yes = preview.HeadChanged
		}
	}
	r, err := run(f.dryRun)
	if r == nil {
		return err
	}
	if err != nil { // it is done, but not in the session's log
		fmt.Fprintf(a.stderr, "warning: %v\n", err)
	}
	if empty != nil {
		if err := empty(r); err != nil {
			return err
		}
	}
	return a.printRestore(r, back)
}

func (a *app) finishRestore(ctx context.Context, abort bool) error {
	p, err := a.openToRead(ctx) // which makes no store
	if err != nil {
		return err
	}
	p.close()
	if p, err = a.openToWrite(ctx, false, manager.Options{}.Limits); err != nil {
		return err
	}
	defer p.close()
	r, err := p.m.FinishRestore(ctx, abort)
	if err != nil {
		return err
	}
	return a.printRestore(r, "undo")
}

// canAsk reports whether there is somebody who can answer.
func (a *app) canAsk() bool {
	return !a.flags.json && !a.flags.quiet && isTerminal(a.stderr) && a.stdin != nil && isTerminal(a.stdin)
}

// ask asks a question, whose answer is no unless it is yes.
func (a *app) ask(format string, args ...any) bool {
	a.out.Flush()
	fmt.Fprintf(a.stderr, format+" [y/N] ", args...)
	line, err := bufio.NewReader(a.stdin).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return err == nil && (answer == "y" || answer == "yes")
}

// words are what people read for an action; the second is for a preview.
var words = map[rollback.Action][2]string{
	rollback.Restore: {"restored", "would restore"},
	rollback.Delete:  {"deleted", "would delete"},
	rollback.Skipped: {"skipped", "would skip"},
	rollback.Kept:    {"kept", "would keep"},
	rollback.Failed:  {"failed", "would fail"},
}

var actionColours = map[rollback.Action]string{
	rollback.Restore: green, rollback.Delete: red, rollback.Skipped: yellow, rollback.Kept: yellow, rollback.Failed: red,
}

// isProblem reports whether an item is one that exit code 3 stands for.
func isProblem(it rollback.Item) bool { return it.Do != rollback.Restore && it.Do != rollback.Delete }

// printItems prints a line for each path that is to be shown, and for what was
// moved along.
func (a *app) printItems(r *manager.RestoreResult, show func(rollback.Item) bool) {
	for _, mv := range r.Moves {
		from, to := patch.Quote(mv.From), patch.Quote(mv.To)
		switch {
		case mv.Why != "":
			fmt.Fprintf(a.out, "%s %s: not moved to %s: %s\n", a.paint(red, "failed"), from, to, mv.Why)
		case a.flags.quiet:
		case r.Preview:
			fmt.Fprintf(a.out, "would move %s to %s\n", from, to)
		default:
			fmt.Fprintf(a.out, "moved %s to %s\n", from, to)
		}
	}
	for _, it := range r.Items {
		if !show(it) {
			continue
		}
		word := words[it.Do][0]
		if r.Preview {
			word = words[it.Do][1]
		}
		var mode tree.Mode
		for _, e := range []*tree.Entry{it.Now, it.New} {
			if e != nil {
				mode = e.Mode
			}
		}
		fmt.Fprintf(a.out, "%s %s", a.paint(actionColours[it.Do], word), shown(it.Path, mode))
		for _, why := range []string{it.Why, it.Note} {
			if why != "" {
				fmt.Fprintf(a.out, ": %s", why)
			}
		}
		fmt.Fprintln(a.out)
	}
}

// printRestore prints what a restore did, and returns the failure that its exit
// code stands for. back is the command that takes it back.
func (a *app) printRestore(r *manager.RestoreResult, back string) error {
	if a.flags.json {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else {
		a.printItems(r, func(it rollback.Item) bool { return !a.flags.quiet || isProblem(it) })
		if err := a.out.Flush(); err != nil {
			return err
		}
	}
	for i, path := range r.NotCaptured {
		if i == 10 {
			a.note("and %s more", comma(len(r.NotCaptured)-i))
			break
		}
		a.note("%s: its content was not captured, and it stays as it is", patch.Quote(path))
	}
	summary := fmt.Sprintf("%s restored, %s deleted", comma(len(r.Restored)), comma(len(r.Deleted)))
	if n := len(r.Skipped); n > 0 {
		summary += fmt.Sprintf(", %s skipped: changed since, or by others (--on-dirty overwrite restores them)", comma(n))
	}
	if n := len(r.Kept) + len(r.Failed); n > 0 {
		summary += fmt.Sprintf(", %s not done", comma(n))
	}
	switch {
	case r.Aborted:
		return &failure{exitRefused, errors.New("nothing was changed: " + count(len(r.Dirty), "file") + " changed since"), "--on-dirty skip leaves them out"}
	case r.Preview:
		a.note("%s: nothing was done yet", summary)
	case r.Snapshot == nil && len(r.Items) == 0 && len(r.NotCaptured) == 0:
		a.note("nothing to do: all is as it was")
		return nil
	case r.Snapshot == nil:
		a.note("%s", summary)
	default:
		a.note("%s; 'snapctl %s' takes it back", summary, back)
	}
	if !r.IsComplete() {
		return &failure{code: exitPart}
	}
	return nil
}
