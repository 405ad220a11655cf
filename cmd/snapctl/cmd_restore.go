package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/tree"
)

type restoreFlags struct {
	dryRun, yes, exact, force bool
	onDirty                   rollback.Policy

	finish, abort bool // of restore
	past          bool // of undo and redo
	skipFiles     bool // of navigate
}

func (f *restoreFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.BoolVarP(&f.dryRun, "dry-run", "n", false, "print what would be done, and do nothing")
	flags.BoolVarP(&f.yes, "yes", "y", false,
		"do not ask before files are deleted, nor when another commit is checked out")
	flags.TextVar(&f.onDirty, "on-dirty", rollback.Policy(""),
		"what to do with files that were changed since: `POLICY` is skip, overwrite or abort")
	flags.BoolVar(&f.force, "force", false, "also while a turn is open")
}

func (f *restoreFlags) options(target string, paths []string) *manager.RestoreOptions {
	return &manager.RestoreOptions{Target: target, Paths: paths, Exact: f.exact, OnDirty: f.onDirty,
		Force: f.force, AcrossHead: f.yes}
}

func (a *app) restoreCommand() *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use:   "restore [flags] REV [PATH...]\n  snapctl restore --continue|--abort",
		Short: "Bring files back to what they were",
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
			}
			return a.restore(cmd, args[0], args[1:], &f)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&f.exact, "exact", false, "restore all that differs, or all of the PATHs, whoever changed it")
	c.Flags().BoolVar(&f.finish, "continue", false, "bring a restore to its end that was cut off")
	c.Flags().BoolVar(&f.abort, "abort", false, "change back what a restore did that was cut off")
	return c
}

func (a *app) undoCommand() *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use:   "undo [flags]",
		Short: "Take back the newest restore",
		Args:  args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.takeBack(cmd, &f, (*manager.FileSnapshotManager).Undo, "redo")
		},
	}
	f.add(c)
	c.Flags().BoolVar(&f.past, "past", false, "pass over restores of which only a part, or nothing, can be taken back")
	return c
}

func (a *app) redoCommand() *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use:   "redo [flags]",
		Short: "Take back the newest undo",
		Args:  args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.takeBack(cmd, &f, (*manager.FileSnapshotManager).Redo, "undo")
		},
	}
	f.add(c)
	c.Flags().BoolVar(&f.past, "past", false, "pass over undos of which only a part, or nothing, can be taken back")
	return c
}

func (a *app) navigateCommand() *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use:   "navigate [flags] ENTRY",
		Short: "Move the conversation to an entry, and the files along",
		Args:  args(1, 1),
		RunE:  func(cmd *cobra.Command, args []string) error { return a.navigate(cmd, args[0], &f) },
	}
	f.add(c)
	c.Flags().BoolVar(&f.skipFiles, "skip-files", false, "leave the files alone")
	return c
}

// openToRestore opens the store to restore. It makes none.
func (a *app) openToRestore(ctx context.Context) (*place, error) {
	if err := a.mustExist(); err != nil {
		return nil, err
	}
	return a.openToWrite(ctx, false, manager.Options{}.Limits)
}

// restoring opens the store to restore, and has choose settle on the session, if
// none is named.
func (a *app) restoring(ctx context.Context, choose func(*place) error) (*place, error) {
	p, err := a.openToRestore(ctx)
	if err != nil {
		return nil, err
	}
	if err = p.completeSession(ctx); err == nil {
		err = choose(p)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (a *app) restore(cmd *cobra.Command, rev string, args []string, f *restoreFlags) error {
	p, err := a.restoring(cmd.Context(), func(p *place) error {
		return p.chooseSessionToRestore(cmd.Context(), rev, f.dryRun)
	})
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
	again := "snapctl restore " + rev
	return a.asked(cmd, f, func(preview bool) (*manager.RestoreResult, error) {
		opts.Preview = preview
		opts.AcrossHead = f.yes
		r, err := p.m.RestoreFiles(cmd.Context(), opts)
		if errors.Is(err, manager.ErrUnknown) && len(args) == 0 {
			if path, perr := p.treePath(cmd, rev); perr == nil && a.isPathOf(cmd.Context(), p, path) {
				return nil, &failure{exitUsage,
					fmt.Errorf("restore: %q is a file, and no REV says when it was as you want it", rev),
					"'snapctl restore @ " + words.Quote(rev) +
						"' makes it what it was at the newest turn; 'snapctl log -- " +
						words.Quote(rev) + "' lists others"}
			}
		}
		return r, err
	}, func(preview *manager.RestoreResult) error {
		if len(args) > 0 && f.onDirty == "" {
			var err error
			opts.Agreed, err = a.askToOverwrite(cmd.Context(), p, preview)
			return err
		}
		return nil
	}, "undo", func(r *manager.RestoreResult) error {
		if n := len(r.Skipped); n > 0 && n <= 3 && len(args) > 0 && !r.Aborted {
			line := again
			for _, p := range r.Skipped {
				line += " " + words.Quote(p)
			}
			a.note("to restore them all the same, with what they hold now kept for 'snapctl undo': %s --exact", line)
		}
		if r.Differing > 0 && len(r.Items) == 0 {
			return refuse("name them to restore them, or all with --exact; 'snapctl diff "+rev+"' shows them",
				"no turn between here and %s changed a file; %s of others', or of the user's", rev,
				othersChanges(r.Differing))
		}
		return nil
	})
}

// askToOverwrite asks whether files that were named may be overwritten, or deleted,
// though somebody has changed them. It returns what they are then: nothing else may
// be.
func (a *app) askToOverwrite(ctx context.Context, p *place,
	preview *manager.RestoreResult) (agreed map[string]*tree.Entry, err error) {
	var items []rollback.Item
	deleted := 0
	for _, it := range preview.Items {
		if it.Do != rollback.Skipped || !it.Dirty || it.Now == nil || it.Now.Mode.IsDir() {
			continue
		}
		if items = append(items, it); it.New == nil {
			deleted++
		}
	}
	if len(items) == 0 {
		return nil, nil
	}
	sessions, err := p.worked(ctx)
	if err != nil {
		return nil, err
	}
	d := p.newDiffer(nil)
	d.New.OnDisk = true
	var sum fileStat
	var texts []string
	agreed = make(map[string]*tree.Entry)
	for _, it := range items {
		agreed[it.Path] = it.Now
		old, text := it.New, it.Why
		exp, known := preview.Expected[it.Path]
		if known {
			old, text = exp.Entry, editText(&it, &exp, len(sessions) < 2)
		}
		edit := tree.Difference{Path: it.Path, Old: old, New: it.Now}
		s, err := d.stat(ctx, &change{TurnChange: manager.TurnChange{Difference: edit}})
		if err != nil { // it is said all the same: what it holds now is what matters
			a.log.Info("cannot count what was changed", "path", it.Path, "err", err)
		} else if size := s.text(); size != "" {
			text += " (" + size + ")"
			if !known {
				text += " against what it would become"
			}
		}
		sum.Added, sum.Deleted = sum.Added+s.Added, sum.Deleted+s.Deleted
		texts = append(texts, words.Quote(it.Path)+": "+text)
	}
	verb := "overwrite"
	switch deleted {
	case 0:
	case len(items):
		verb = "delete"
	default:
		verb = "overwrite or delete"
	}
	if len(items) == 1 {
		if !a.ask("%s; %s?", texts[0], verb) {
			return nil, nil
		}
		return agreed, nil
	}
	for i, text := range texts {
		if i == maxAsked {
			fmt.Fprintf(a.stderr, "and %s more\n", words.Comma(len(texts)-i))
			break
		}
		fmt.Fprintln(a.stderr, text)
	}
	size := ""
	if text := sum.text(); text != "" {
		size = " (" + text + ")"
	}
	if !a.ask("%s all %s%s?", verb, words.Count(len(items), "file"), size) {
		return nil, nil
	}
	return agreed, nil
}

// maxAsked is how many files are named in one question.
const maxAsked = 10

// editText says what somebody did to a file. Where one session alone has worked that
// was the user.
func editText(it *rollback.Item, exp *manager.Expected, alone bool) string {
	what := "changed it"
	switch {
	case exp.Entry == nil:
		what = "made it"
	case exp.Entry.Mode.Kind() != it.Now.Mode.Kind():
		what = "replaced it"
	case exp.Entry.ID == it.Now.ID:
		what = "changed its mode"
	}
	who := "you"
	if !alone {
		who = "you, or another session,"
	}
	if exp.Turn < 0 {
		return who + " " + what + " after the session began"
	}
	return fmt.Sprintf("%s %s after turn %d", who, what, exp.Turn)
}

// text says how much was changed, "" if nothing was.
func (s *fileStat) text() string {
	switch {
	case s.Binary:
		return fmt.Sprintf("%s, it was %s", words.Size(s.newSize), words.Size(s.oldSize))
	case s.Added+s.Deleted == 0:
		return ""
	}
	return fmt.Sprintf("+%d -%d lines", s.Added, s.Deleted)
}

// isPathOf reports whether a path is in the directory, or in what the session last
// recorded of it.
func (a *app) isPathOf(ctx context.Context, p *place, path string) bool {
	if _, err := os.Lstat(filepath.Join(p.m.Project().Root, path)); err == nil {
		return true
	}
	point, err := p.m.Resolve(ctx, "@")
	if err != nil {
		return false
	}
	_, err = trees.Lookup(ctx, p.store, point.State.Tree, path)
	return err == nil
}

func othersChanges(n int) string {
	if n == 1 {
		return "1 path differs: a change"
	}
	return words.Comma(n) + " paths differ: changes"
}

func (a *app) takeBack(cmd *cobra.Command, f *restoreFlags,
	fn func(*manager.FileSnapshotManager, context.Context, *manager.UndoOptions) (*manager.RestoreResult,
		error), back string) error {
	opts := &manager.UndoOptions{OnDirty: f.onDirty, Force: f.force, Past: f.past}
	p, err := a.restoring(cmd.Context(), func(p *place) error {
		var preview func() (*manager.RestoreResult, error)
		if f.past {
			preview = func() (*manager.RestoreResult, error) {
				ahead := *opts
				ahead.Preview = true
				return fn(p.m, cmd.Context(), &ahead)
			}
		}
		return p.chooseSessionToTakeBack(cmd.Context(), back == "undo", preview)
	})
	if err != nil {
		return err
	}
	defer p.close()
	return a.asked(cmd, f, func(preview bool) (*manager.RestoreResult, error) {
		opts.Preview = preview
		return fn(p.m, cmd.Context(), opts)
	}, nil, back, nil)
}

func (a *app) navigate(cmd *cobra.Command, entry string, f *restoreFlags) error {
	p, err := a.restoring(cmd.Context(), func(p *place) error {
		return p.chooseSessionToRestore(cmd.Context(), entry, f.dryRun)
	})
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
		r, err := p.m.NavigateTree(cmd.Context(), entry, &manager.NavigateOptions{Preview: preview, OnDirty: f.onDirty,
			Force: f.force, AcrossHead: f.yes})
		if r == nil {
			return nil, err
		}
		return r.Restore, err
	}, nil, "undo", nil)
}

// asked runs a restore and prints what it did. On a terminal it first asks
// about files that it would delete, and ahead may ask about others. back is the
// command that takes it back.
func (a *app) asked(cmd *cobra.Command, f *restoreFlags, run func(preview bool) (*manager.RestoreResult, error),
	ahead func(*manager.RestoreResult) error,
	back string, empty func(*manager.RestoreResult) error) error {
	if !f.yes && !f.dryRun && a.canAsk() {
		preview, err := run(true)
		if err != nil {
			return err
		}
		if n := len(preview.Deleted); n > 0 || preview.HeadChanged {
			a.printItems(preview, func(rollback.Item) bool { return true })
			question := "go on?"
			if n > 0 {
				question = "go on and delete " + words.Count(n, "file") + "?"
			}
			if preview.HeadChanged {
				a.note("another commit is checked out than at the time")
			}
			if !a.ask("%s", question) {
				return refuse("", "nothing was changed")
			}
			f.yes = preview.HeadChanged
		}
		if ahead != nil {
			if err := ahead(preview); err != nil {
				return err
			}
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
	p, err := a.openToRestore(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	r, err := p.m.FinishRestore(ctx, abort)
	if err != nil {
		return err
	}
	return a.printRestore(r, "undo")
}

// notePassed says what stays of a restore that an undo has passed over.
func (a *app) notePassed(t *manager.TakenBack) {
	a.note("passed over: what session %s did at %s stays next on the list, for %s", t.Session,
		clock(t.Time), firstPaths(t.Left, 3))
}

// quoteAll names paths.
func quoteAll(paths []string) string {
	var list []string
	for _, p := range paths {
		list = append(list, words.Quote(p))
	}
	return strings.Join(list, ", ")
}

// firstPaths names the first n of some paths, and how many more there are.
func firstPaths(paths []string, n int) string {
	text := quoteAll(paths[:min(len(paths), n)])
	if more := len(paths) - n; more > 0 {
		text += fmt.Sprintf(" and %s more", words.Comma(more))
	}
	return text
}

// actionWords are what people read for an action; the second is for a preview.
var actionWords = map[rollback.Action][2]string{
	rollback.Restore: {"restored", "would restore"},
	rollback.Delete:  {"deleted", "would delete"},
	rollback.Skipped: {"skipped", "would skip"},
	rollback.Kept:    {"kept", "would keep"},
	rollback.Failed:  {"failed", "would fail"},
}

var actionColours = map[rollback.Action]string{
	rollback.Restore: green, rollback.Delete: red, rollback.Skipped: yellow,
	rollback.Kept: yellow, rollback.Failed: red,
}

// isProblem reports whether an item is one that exit code 3 stands for.
func isProblem(it rollback.Item) bool { return it.Do != rollback.Restore && it.Do != rollback.Delete }

// printItems prints a line for each path that is to be shown, and for what was
// moved along.
func (a *app) printItems(r *manager.RestoreResult, show func(rollback.Item) bool) {
	for _, mv := range r.Moves {
		from, to := words.Quote(mv.From), words.Quote(mv.To)
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
	made := r.Made
	makes := func(until int) {
		for _, path := range made[:until] {
			switch {
			case a.flags.quiet:
			case r.Preview:
				fmt.Fprintf(a.out, "would make %s\n", shown(path, tree.ModeDir))
			default:
				fmt.Fprintf(a.out, "made %s\n", shown(path, tree.ModeDir))
			}
		}
		made = made[until:]
	}
	takenOut := 0
	for _, it := range r.Items {
		until, _ := slices.BinarySearchFunc(made, it.Path, trees.ComparePaths)
		makes(until)
		if !show(it) {
			continue
		}
		if it.Why == manager.WhyTakenOut {
			if takenOut++; takenOut > maxTakenOut {
				continue
			}
		}
		word := actionWords[it.Do][0]
		if r.Preview {
			word = actionWords[it.Do][1]
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
	makes(len(made))
	if n := takenOut - maxTakenOut; n > 0 {
		a.note("%s more skipped: %s", words.Comma(n), manager.WhyTakenOut)
	}
}

// maxTakenOut is how many lines say that git's sparse checkout has taken a file
// out: there may be a hundred thousand.
const maxTakenOut = 10

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
			a.note("and %s more", words.Comma(len(r.NotCaptured)-i))
			break
		}
		a.note("%s: its content was not captured, and it stays as it is", words.Quote(path))
	}
	summary := fmt.Sprintf("%s restored, %s deleted", words.Comma(len(r.Restored)), words.Comma(len(r.Deleted)))
	dirty, takenOut := 0, 0 // of what was skipped: the rest could not be done by any means
	for _, it := range r.Items {
		switch {
		case it.Why == manager.WhyTakenOut:
			takenOut++
		case it.Do == rollback.Skipped && it.Dirty:
			dirty++
		}
	}
	if takenOut > 0 {
		summary += fmt.Sprintf(", %s left to git's sparse checkout (by name, --on-dirty overwrite restores them)",
			words.Comma(takenOut))
	}
	if dirty > 0 {
		summary += fmt.Sprintf(", %s skipped: changed since, or by others (--on-dirty overwrite restores them)",
			words.Comma(dirty))
	}
	if n := len(r.Kept) + len(r.Failed) + len(r.Skipped) - dirty - takenOut; n > 0 {
		summary += fmt.Sprintf(", %s not done", words.Comma(n))
	}
	for i := range r.Passed {
		a.notePassed(&r.Passed[i])
	}
	if r.Undoes != nil && dirty > 0 && !r.Aborted {
		verb := map[string]string{"redo": "undo", "undo": "redo"}[back]
		a.note("what was skipped stays next on the list: 'snapctl %s --past' goes on to the one before", verb)
	}
	if len(r.TurnsPutBack) > 0 && back == "undo" {
		a.note("%s, taken back before, %s in again", turnList(r.TurnsPutBack), map[bool]string{true: "is",
			false: "are"}[len(r.TurnsPutBack) == 1])
	}
	switch {
	case r.Aborted:
		return &failure{exitRefused, errors.New("nothing was changed: " + words.Count(len(r.Dirty), "file") +
			" changed since"), "--on-dirty skip leaves them out"}
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
