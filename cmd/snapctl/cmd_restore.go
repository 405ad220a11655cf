package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/explain"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/tree"
)

type restoreFlags struct {
	dryRun, yes, exact, force, endTurn bool
	verbose                            bool // a terminal gets a line for each path, however many there are
	onDirty                            rollback.Policy
	onConflict                         rollback.OnConflict // of restore and revert
	asksHunks                          bool                // of these, too: it is asked for each
	hunks                              []string            // of these, too: IDs
	offered                            *manager.HunkRange  // with asksHunks: of what it is asked

	finish, abort bool // of restore
	despite       bool // of abort
	past          bool // of undo and redo
	skipFiles     bool // of navigate

	// Of revert.
	turns    []string // that are named
	paths    []string // likewise, as they were typed
	lines    string   // in place of both: what wrote these
	ofLines  *jsonLines
	whenIdle bool
	always   bool // it is asked before anything is changed, and nothing is changed where nobody can be asked
}

func (f *restoreFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.BoolVarP(&f.dryRun, "dry-run", "n", false, "print what would be done, and do nothing")
	flags.BoolVarP(&f.yes, "yes", "y", false,
		"do not ask before files are deleted, nor when another commit is checked out")
	flags.TextVar(&f.onDirty, "on-dirty", rollback.Policy(""),
		"files that were changed since: `POLICY` is merge (default), skip, overwrite or abort")
	flags.BoolVar(&f.force, "force", false, "also while a turn is open")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "list all paths, also if they do not fit on the screen")
	flags.BoolVar(&f.endTurn, "end-turn", false, "end the session's open turn first, if its agent was stopped")
}

func (f *restoreFlags) addOnConflict(c *cobra.Command) {
	c.Flags().TextVar(&f.onConflict, "on-conflict", rollback.OnConflict(""),
		"lines that were changed since, too: `HOW` is keep (default), markers, theirs or abort")
}

func (f *restoreFlags) options(target string, paths []string) *manager.RestoreOptions {
	return &manager.RestoreOptions{Target: target, Paths: paths, Exact: f.exact, OnDirty: f.onDirty,
		OnConflict: f.onConflict, Force: f.force, AcrossHead: f.yes}
}

func (a *app) restoreCommand() *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use:   "restore [flags] REV [PATH...]\n  snapctl restore --continue|--abort",
		Short: "Bring files back to what they were",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.finish && f.abort:
				return usageError(cmd, "restore: --continue and --abort exclude each other")
			case f.despite && !f.abort:
				return usageError(cmd, "restore: --despite-damage goes with --abort only")
			case f.finish || f.abort:
				if len(args) > 0 {
					return usageError(cmd, "restore: --continue and --abort take no REV")
				}
				if f.dryRun {
					return &failure{exitUsage, errors.New("restore: --continue and --abort have no preview"),
						"'snapctl status' says what was cut off"}
				}
				return a.finishRestore(cmd.Context(), &f)
			case len(args) == 0:
				return usageError(cmd, "restore: no REV")
			}
			if err := a.checkHunks(cmd, &f); err != nil {
				return err
			}
			return a.restore(cmd, args[0], args[1:], &f)
		},
	}
	f.add(c)
	f.addOnConflict(c)
	f.addHunks(c)
	c.Flags().BoolVar(&f.exact, "exact", false, "make everything, or the PATHs, as it was, whoever changed it")
	c.Flags().BoolVar(&f.finish, "continue", false, "bring a restore to its end that was cut off")
	c.Flags().BoolVar(&f.abort, "abort", false, "change back what a restore did that was cut off")
	c.Flags().BoolVar(&f.despite, "despite-damage", false,
		"of --abort: leave the files as they are, if what it needs is lost")
	return c
}

func (a *app) undoCommand() *cobra.Command {
	const short = "Take back the newest restore"
	return a.takeBackCommand("undo", short, "restores", (*manager.FileSnapshotManager).Undo, "redo")
}

func (a *app) redoCommand() *cobra.Command {
	const short = "Take back the newest undo"
	return a.takeBackCommand("redo", short, "undos", (*manager.FileSnapshotManager).Redo, "undo")
}

// takesBack is what undo and redo ask the manager.
type takesBack func(*manager.FileSnapshotManager, context.Context, *manager.UndoOptions) (*manager.RestoreResult, error)

// takeBackCommand returns undo or redo, which take back what was done by others, and
// are taken back by back.
func (a *app) takeBackCommand(name, short, others string, fn takesBack, back string) *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use:   name + " [flags]",
		Short: short,
		Args:  args(0, 0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.takeBack(cmd, &f, fn, back) },
	}
	f.add(c)
	c.Flags().BoolVar(&f.past, "past", false,
		"pass over "+others+" of which only a part, or nothing, can be taken back")
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
	return a.openToWrite(ctx, false, tree.Limits{})
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
	paths, err := p.filter(cmd, args)
	if err != nil {
		return err
	}
	for i := range paths {
		paths[i] = cmp.Or(paths[i], ".")
	}
	if err := p.askAboutTurns(cmd, f); err != nil {
		return err
	}
	f.offered = &manager.HunkRange{Restore: rev, Paths: paths}
	opts := f.options(rev, paths)
	run := func(preview bool) (*manager.RestoreResult, error) {
		opts.Preview, opts.AcrossHead, opts.EndTurn, opts.Hunks = preview, f.yes, f.endTurn, f.hunks
		ctx, stop := a.showProgress(cmd.Context())
		defer stop()
		r, err := p.m.RestoreFiles(ctx, opts)
		err = p.hintNearOf(ctx, []string{rev}, err)
		if errors.Is(err, manager.ErrUnknown) && len(args)+len(f.hunks) == 0 {
			err = p.hintPath(cmd, rev, err)
		}
		return r, f.hintOfHunks(err)
	}
	if err := p.askHunks(cmd, f, run); err != nil {
		return p.turnOpenHint(cmd, err)
	}
	preview, err := p.agree(cmd.Context(), f, run)
	if err == nil && preview != nil && len(args) > 0 && len(f.hunks) == 0 && f.onDirty == "" {
		opts.Agreed, err = a.askToOverwrite(cmd.Context(), p, preview)
	}
	if err != nil {
		return p.turnOpenHint(cmd, err)
	}
	r, err := run(f.dryRun)
	if r == nil {
		return p.turnOpenHint(cmd, err)
	}
	isFirm := f.onDirty == rollback.Overwrite || f.exact && f.onDirty == "" // what is skipped then stays so
	if n := len(r.Skipped); n > 0 && n <= 3 && len(args) > 0 && len(f.hunks) == 0 && !r.Aborted && !isFirm {
		a.note("to restore them all the same: %s; 'snapctl undo' then brings back what they hold now",
			a.commandLine("restore", []string{rev}, " --exact", p.typedPaths(r.Skipped)))
	}
	if r.Differing > 0 && len(r.Items) == 0 {
		of := words.ShellQuote(rev)
		return refuse(fmt.Sprintf("'snapctl diff %[1]s' shows what was changed; to restore files all the same: "+
			"'snapctl restore %[1]s FILE...', or all of them: 'snapctl restore %[1]s --exact'", of),
			"nothing to take back: no turn since %s changed a file; %s, which you, another session, a restore or an "+
				"undo changed", rev, pathsDiffer(r.Differing))
	}
	return p.printRestore(cmd.Context(), r, err, "undo", f)
}

// askToOverwrite asks whether files that were named may be overwritten, or deleted,
// though somebody has changed them. It returns what they are then: nothing else may
// be.
func (a *app) askToOverwrite(ctx context.Context, p *place,
	preview *manager.RestoreResult) (agreed map[string]*tree.Entry, err error) {
	items := slices.DeleteFunc(slices.Clone(preview.Items), func(it rollback.Item) bool {
		return it.Do != rollback.Skipped || !it.Dirty || it.Now == nil || it.Now.Mode.IsDir()
	})
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
	deleted := 0
	agreed = make(map[string]*tree.Entry)
	for _, it := range items {
		agreed[it.Path] = it.Now
		if it.New == nil {
			deleted++
		}
		text, s := d.describeEdit(ctx, &it, len(sessions) < 2)
		texts = append(texts, words.Quote(it.Path)+": "+text)
		sum.Added, sum.Deleted = sum.Added+s.Added, sum.Deleted+s.Deleted
	}
	verb := "overwrite or delete"
	switch deleted {
	case 0:
		verb = "overwrite"
	case len(items):
		verb = "delete"
	}
	question := texts[0] + "; " + verb + "?"
	if len(items) > 1 {
		for i, text := range texts {
			if i == maxAsked {
				a.tell("and %s more", words.Comma(len(texts)-i))
				break
			}
			a.tell("%s", text)
		}
		question = verb + " all " + words.Count(len(items), "file") + sum.inBrackets() + "?"
	}
	if !a.ask(ctx, "%s", question) {
		return nil, nil
	}
	return agreed, nil
}

// describeEdit says what somebody did to a file that a restore would change, and counts
// the lines.
func (d *differ) describeEdit(ctx context.Context, it *rollback.Item, alone bool) (text string, s fileStat) {
	old, text := it.New, it.Why
	known := it.LeftBy != nil
	if known {
		old, text = it.Left, editText(it, alone)
	}
	edit := tree.Difference{Path: it.Path, Old: old, New: it.Now}
	s, err := d.stat(ctx, &change{TurnChange: manager.TurnChange{Difference: edit}})
	if err != nil { // it is said all the same: what it holds now is what matters
		d.app.log.Info("cannot count what was changed", "path", it.Path, "err", err)
		return text, s
	}
	size := s.inBrackets()
	if size != "" && !known {
		size += " against what it would become"
	}
	return text + size, s
}

// maxAsked is how many files are named in one question.
const maxAsked = 10

// editText says what somebody did to a file. Where one session alone has worked that
// was the user.
func editText(it *rollback.Item, alone bool) string {
	what := "changed it"
	switch {
	case it.Left == nil:
		what = "made it"
	case it.Left.Mode.Kind() != it.Now.Mode.Kind():
		what = "replaced it"
	case it.Left.ID == it.Now.ID:
		what = "changed its mode"
	}
	who := "you"
	if !alone {
		who = "you, or another session,"
	}
	if *it.LeftBy < 0 {
		return who + " " + what + " after the session began"
	}
	return fmt.Sprintf("%s %s after turn %d", who, what, *it.LeftBy)
}

// inBrackets says how much was changed, "" if nothing was.
func (s *fileStat) inBrackets() string {
	switch {
	case s.Binary:
		return fmt.Sprintf(" (%s, it was %s)", words.Size(s.newSize), words.Size(s.oldSize))
	case s.Added+s.Deleted == 0:
		return ""
	}
	return fmt.Sprintf(" (+%d -%d lines)", s.Added, s.Deleted)
}

func pathsDiffer(n int) string {
	if n == 1 {
		return "1 path differs"
	}
	return words.Comma(n) + " paths differ"
}

func (a *app) takeBack(cmd *cobra.Command, f *restoreFlags, fn takesBack, back string) error {
	ctx := cmd.Context()
	opts := &manager.UndoOptions{OnDirty: f.onDirty, Past: f.past}
	p, err := a.restoring(ctx, func(p *place) error {
		var preview func() (*manager.RestoreResult, error)
		if f.past {
			preview = func() (*manager.RestoreResult, error) {
				ahead := *opts
				ahead.Preview = true
				return fn(p.m, ctx, &ahead)
			}
		}
		return p.chooseSessionToTakeBack(ctx, back == "undo", preview)
	})
	if err != nil {
		return err
	}
	defer p.close()
	err = a.runAgreed(cmd, p, f, back, func(preview bool) (*manager.RestoreResult, error) {
		opts.Preview, opts.Force, opts.EndTurn = preview, f.force, f.endTurn
		ctx, stop := a.showProgress(ctx)
		defer stop()
		return fn(p.m, ctx, opts)
	})
	return p.hintOfNothing(ctx, err, back)
}

// hintOfNothing says what can be taken back where undo or redo finds nothing; back is the other
// of the two.
func (p *place) hintOfNothing(ctx context.Context, err error, back string) error {
	if _, isLeft := errors.AsType[passedOver](err); isLeft || !errors.Is(err, manager.ErrNothing) {
		return err
	}
	hint := "'snapctl log' lists what there is to go back to"
	others, nerr := inside.Of(p.m).NextBack(ctx, back == "redo")
	switch {
	case nerr == nil && len(others) > 0:
		hint = map[string]string{"redo": "'snapctl redo' does again what was undone last",
			"undo": "nothing was undone since; 'snapctl undo' takes back the newest restore"}[back]
	case back == "redo":
		hint = explain.Of(manager.ErrNothing).Hint
	}
	return &failure{exitRefused, err, hint}
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
		a.note("the session continues from %s; no file was changed", entry)
		return nil
	}
	return a.runAgreed(cmd, p, f, "undo", func(preview bool) (*manager.RestoreResult, error) {
		ctx, stop := a.showProgress(cmd.Context())
		defer stop()
		r, err := p.m.NavigateTree(ctx, entry, &manager.NavigateOptions{Preview: preview,
			OnDirty: f.onDirty, Force: f.force, EndTurn: f.endTurn, AcrossHead: f.yes})
		if r == nil {
			return nil, err
		}
		return r.Restore, err
	})
}

// runAgreed runs a restore if the user agrees, and prints what it did. back is the command
// that takes it back.
func (a *app) runAgreed(cmd *cobra.Command, p *place, f *restoreFlags, back string,
	run func(preview bool) (*manager.RestoreResult, error)) error {
	if f.whenIdle {
		if err := p.waitUntilIdle(cmd.Context()); err != nil {
			return err
		}
	} else if err := p.askAboutTurns(cmd, f); err != nil {
		return err
	}
	err := p.askHunks(cmd, f, run)
	if err == nil {
		_, err = p.agree(cmd.Context(), f, run)
	}
	if err != nil {
		return p.turnOpenHint(cmd, err)
	}
	r, err := run(f.dryRun)
	return p.turnOpenHint(cmd, p.printRestore(cmd.Context(), r, err, back, f))
}

// agree asks on a terminal about files that a restore would delete, and about another
// commit; always, if the command is one that does. It returns what the restore would do;
// nil: nobody is to be asked.
func (p *place) agree(ctx context.Context, f *restoreFlags,
	run func(preview bool) (*manager.RestoreResult, error)) (*manager.RestoreResult, error) {
	a := p.app
	if f.yes || f.dryRun || !a.canAsk() && !f.always {
		return nil, nil
	}
	preview, err := run(true)
	if err != nil {
		return nil, err
	}
	n := len(preview.Deleted)
	doesNothing := preview.Aborted || len(preview.Restored)+n+len(preview.Moves) == 0
	if doesNothing || n == 0 && !preview.HeadChanged && !f.always {
		return preview, nil
	}
	if a.flags.json {
		err = a.printResult(preview, f)
	} else {
		p.printItems(ctx, preview, f, func(rollback.Item) bool { return true })
	}
	if err != nil {
		return nil, err
	}
	if !a.canAsk() {
		return nil, refuse("to do it: "+a.commandAfter("revert", "-y"),
			"revert: nothing was changed: there is no terminal to ask on")
	}
	question := "go on"
	if f.always && len(preview.TurnsTakenBack) > 0 {
		question = "take back " + turnList(preview.TurnsTakenBack)
	}
	if n > 0 {
		question += " and delete " + countDeleted(preview)
	}
	if preview.HeadChanged {
		a.note("another commit is checked out than at the time")
	}
	if !a.ask(ctx, "%s?", question) {
		return nil, refuse("", "nothing was changed")
	}
	f.yes = preview.HeadChanged
	return preview, nil
}

// countDeleted counts the files, and the directories, that a restore would delete.
func countDeleted(preview *manager.RestoreResult) string {
	dirs := 0
	for _, it := range preview.Items {
		if it.Do == rollback.Delete && it.Now != nil && it.Now.Mode.IsDir() {
			dirs++
		}
	}
	switch files := len(preview.Deleted) - dirs; {
	case dirs == 0:
		return words.Count(files, "file")
	case files == 0:
		return words.Count(dirs, "directory")
	default:
		return words.Count(files, "file") + " and " + words.Count(dirs, "directory")
	}
}

func (a *app) finishRestore(ctx context.Context, f *restoreFlags) error {
	p, err := a.openToRestore(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	shown, stop := a.showProgress(ctx)
	r, err := p.m.FinishRestore(shown, f.abort)
	stop()
	if f.despite && trees.IsLoss(err) {
		if err = inside.Of(p.m).LeaveRestore(ctx); err == nil {
			a.note("what the restore needs is lost: the files stay as it left them; 'snapctl snapshot' records them")
			return nil
		}
	}
	if err != nil {
		return err
	}
	return p.printRestore(ctx, r, nil, r.TakenBackBy, f)
}

// notePassed says what stays of a restore that an undo has passed over.
func (a *app) notePassed(t *manager.TakenBack) {
	a.note("passed over the restore of session %s at %s, because of %s; it can be taken back later", t.Session,
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
	rollback.Restore: asAdded, rollback.Delete: asRemoved, rollback.Skipped: asChanged,
	rollback.Kept: asChanged, rollback.Failed: asRemoved,
}

// isProblem reports whether an item is one that exit code 3 stands for.
func isProblem(it rollback.Item) bool { return it.Do != rollback.Restore && it.Do != rollback.Delete }

// whatStays says what stays in a file that is merged and that somebody else has changed, "" if
// that is not known, and what is said of one of which a part could not be merged.
func (p *place) whatStays(ctx context.Context, r *manager.RestoreResult, f *restoreFlags) (stays, part string) {
	part = "in part"
	if f.onConflict == rollback.ConflictMarkers {
		part = "with markers"
	}
	if len(r.Merged) == 0 || f.onConflict == rollback.ConflictTheirs {
		return "", part
	}
	if r.Undoes != nil { // also by turns since
		return "(later changes stay)", part
	}
	if sessions, err := p.worked(ctx); err == nil && len(sessions) < 2 {
		return "(your changes stay)", part
	}
	return "(changes by you or another session stay)", part
}

// printItems prints a line for each path that is to be shown, and for what was
// moved along.
func (p *place) printItems(ctx context.Context, r *manager.RestoreResult, f *restoreFlags,
	show func(rollback.Item) bool) {
	a := p.app
	conflicts, was := make(map[string]bool), make(map[string]string)
	for i := range r.Conflicts {
		conflicts[r.Conflicts[i].Path] = true
	}
	for _, f := range r.Merged {
		was[f.Path] = f.Was
	}
	stays, part := p.whatStays(ctx, r, f)
	routine, problems := a.newScreenful(f.verbose), a.newScreenful(f.verbose)
	a.printMoves(r, routine)
	made, takenOut, why := r.Made, 0, ""
	for _, it := range r.Items {
		for len(made) > 0 && trees.ComparePaths(made[0], it.Path) < 0 {
			a.printDone(r, routine, "made", "make", shown(made[0], tree.ModeDir))
			made = made[1:]
		}
		inConflict := conflicts[it.Path]
		if !show(it) && !inConflict {
			continue
		}
		if isTakenOut(&it) {
			why = it.Why
			if takenOut++; takenOut > maxTakenOut {
				continue
			}
		}
		list := routine
		if inConflict || isProblem(it) {
			list = problems
		}
		if !list.hasRoom(wordOf(&it, r.Preview)) {
			continue
		}
		text, colour := stays, actionColours[it.Do]
		switch {
		case inConflict:
			text, colour = part, asChanged
		case stays != "" && !it.Dirty:
			text = "(changes of later turns stay)"
		}
		a.printItem(&it, r.Preview, text, was[it.Path], colour)
	}
	for _, path := range made {
		a.printDone(r, routine, "made", "make", shown(path, tree.ModeDir))
	}
	routine.end()
	problems.end()
	if n := takenOut - maxTakenOut; n > 0 {
		a.note("%s more skipped: %s", words.Comma(n), why)
	}
}

// printMoves prints a line for each path that was to be moved.
func (a *app) printMoves(r *manager.RestoreResult, list *screenful) {
	for _, mv := range r.Moves {
		from, to := words.Quote(mv.From), words.Quote(mv.To)
		if mv.Why != "" {
			fmt.Fprintf(a.out, "%s %s: not moved to %s: %s\n", a.paint(asRemoved, "failed"), from, to,
				words.Plain(mv.Why))
		} else {
			a.printDone(r, list, "moved", "move", from+" to "+to)
		}
	}
}

// printDone prints one line of what was done, or would be, if the list has room for it.
func (a *app) printDone(r *manager.RestoreResult, list *screenful, done, would, text string) {
	if r.Preview {
		done = "would " + would
	}
	if !a.flags.quiet && list.hasRoom(done) {
		fmt.Fprintln(a.out, done, text)
	}
}

// isMerged reports whether a file gets what was merged in it.
func isMerged(it *rollback.Item) bool {
	return it.Merged && it.Do == rollback.Restore && (it.Now != nil || it.From != "")
}

// wordOf returns what people read for what is done to a path.
func wordOf(it *rollback.Item, preview bool) string {
	said := actionWords[it.Do]
	if isMerged(it) {
		said = [2]string{"merged", "would merge"}
	}
	if preview {
		return said[1]
	}
	return said[0]
}

// A screenful is how many lines of a list a terminal gets, and what is left out: the lines
// by their first words.
type screenful struct {
	app    *app
	left   int // negative: no end
	hidden []amount
}

// newScreenful returns the room of a list; a program gets all of it.
func (a *app) newScreenful(all bool) *screenful {
	const usual, around = 24, 4 // rows; those for the rest of what is printed
	if all || !isTerminal(a.stdout) {
		return &screenful{app: a, left: -1}
	}
	rows := 0
	if f, ok := a.stdout.(*os.File); ok {
		_, rows = sizeOf(f)
	}
	return &screenful{app: a, left: max(cmp.Or(rows, usual)-around, around)}
}

// hasRoom reports whether a line is to be printed that begins with a word.
func (s *screenful) hasRoom(word string) bool {
	if s.left != 0 {
		s.left--
		return true
	}
	i := slices.IndexFunc(s.hidden, func(h amount) bool { return h.what == word })
	if i < 0 {
		i, s.hidden = len(s.hidden), append(s.hidden, amount{what: word})
	}
	s.hidden[i].n++
	return false
}

// end says what was left out.
func (s *screenful) end() {
	for _, h := range s.hidden {
		fmt.Fprintf(s.app.out, "… %s %s more (-v lists them)\n", h.what, words.Comma(h.n))
	}
}

// printItem prints the line of a path. stays says what stays in one that is merged; "": that
// is not known. was is another path of a file that was moved.
func (a *app) printItem(it *rollback.Item, preview bool, stays, was, colour string) {
	e := cmp.Or(it.New, it.Now, new(tree.Entry))
	fmt.Fprintf(a.out, "%s %s", a.paint(colour, wordOf(it, preview)), shown(it.Path, e.Mode))
	if was != "" {
		fmt.Fprintf(a.out, ", was %s", words.Quote(was))
	}
	if isMerged(it) && stays != "" {
		fmt.Fprintf(a.out, " %s", stays)
	}
	for _, why := range []string{it.Why, it.Note} {
		if why != "" {
			fmt.Fprintf(a.out, ": %s", words.Plain(why)) // it may be an error, with a name as the system has it
		}
	}
	fmt.Fprintln(a.out)
}

// isTakenOut reports whether a path stays as it is since git's sparse checkout, or clone, has left
// it out.
func isTakenOut(it *rollback.Item) bool {
	return it.Why == capture.WhyTakenOut || it.Why == capture.WhyLeftOut
}

// whoTookOut says who has left files out that a restore does not put back.
func whoTookOut(r *manager.RestoreResult) string {
	isLeft := func(it rollback.Item) bool { return it.Why == capture.WhyLeftOut }
	if slices.ContainsFunc(r.Items, isLeft) {
		return "'clone --only'"
	}
	return "git's sparse checkout"
}

// maxTakenOut is how many lines say that git's sparse checkout has taken a file
// out: there may be a hundred thousand.
const maxTakenOut = 10

// printRestore prints what a restore did, and returns the failure that its exit
// code stands for. back is the command that takes it back, "" if none does, f what it was asked
// for. A restore that has an error, and a result, is done, but not in the session's log.
func (p *place) printRestore(ctx context.Context, r *manager.RestoreResult, err error, back string,
	f *restoreFlags) error {
	a := p.app
	if r == nil {
		return err
	}
	if err != nil {
		a.tell("warning: %v", err)
	}
	if a.flags.json {
		if err := a.printResult(r, f); err != nil {
			return err
		}
	} else {
		p.printItems(ctx, r, f, func(it rollback.Item) bool { return !a.flags.quiet || isProblem(it) })
	}
	summary := p.noteBeside(ctx, r, f, back)
	switch {
	case r.Aborted && len(r.Conflicts) > 0:
		return refuse("--on-conflict keep restores the rest", "nothing was changed: %s in conflict",
			words.Count(len(r.Conflicts), "file"))
	case r.Aborted:
		return refuse("--on-dirty skip restores the others", "nothing was changed: you, or another session, "+
			"edited %s since", words.Count(len(r.Dirty), "file"))
	case r.Preview:
		a.note("%s; nothing was changed yet", summary)
	case r.Snapshot == nil && len(r.Items) == 0 && len(r.NotCaptured) == 0:
		a.note("nothing to do: the files are like that already")
		return nil
	case r.Snapshot == nil || back == "":
		a.note("%s", summary)
		if r.Undoes == nil && back == "undo" {
			p.noteOlder(ctx)
		}
	default:
		a.note("%s; 'snapctl %s' takes it back", summary, back)
	}
	if !r.IsComplete() || len(r.Conflicts) > 0 {
		return &failure{code: exitPart}
	}
	return nil
}

// noteOlder says, behind a restore that has changed nothing, what undo takes back in its place.
func (p *place) noteOlder(ctx context.Context) {
	next, err := inside.Of(p.m).NextBack(ctx, false)
	if err != nil {
		return
	}
	for _, older := range next {
		if !p.chosen || older.Session == p.m.Session() {
			p.app.note("nothing was changed, so 'snapctl undo' takes back the restore before, of %s",
				clock(older.Time))
			return
		}
	}
}

// noteBeside says what is to be known of a restore beside its paths, and returns what it did
// in one line.
func (p *place) noteBeside(ctx context.Context, r *manager.RestoreResult, f *restoreFlags, back string) string {
	a := p.app
	for i, path := range r.NotCaptured {
		if i == 10 {
			a.note("and %s more", words.Comma(len(r.NotCaptured)-i))
			break
		}
		a.note("%s stays as it is: %s", words.Quote(path), verbs.WhyNotCaptured)
	}
	for i := range r.Passed {
		a.notePassed(&r.Passed[i])
	}
	p.noteConflicts(r, f)
	summary, dirty := summaryOf(r)
	if r.Undoes != nil && dirty > 0 && !r.Aborted {
		verb := map[string]string{"redo": "undo", "undo": "redo"}[back]
		a.note("the next 'snapctl %[1]s' tries the skipped files again; 'snapctl %[1]s --on-dirty overwrite' brings "+
			"them back whole, 'snapctl %[1]s --past' leaves them and goes on to the restore before", verb)
	}
	if n := len(r.TurnsPutBack); n > 0 && back == "undo" {
		was := "were"
		if n == 1 {
			was = "was"
		}
		is := was
		if r.Preview {
			is = "would be"
		}
		a.note("%s, which %s taken back before, %s put back", turnList(r.TurnsPutBack), was, is)
	}
	return summary
}

// summaryOf says in one line what a restore did, and counts what it has skipped as dirty,
// or in conflict: the rest that was not done could not be done by any means.
func summaryOf(r *manager.RestoreResult) (summary string, dirty int) {
	takenOut, inConflict := 0, 0
	for _, it := range r.Items {
		switch {
		case isTakenOut(&it):
			takenOut++
		case it.Do != rollback.Skipped:
		case slices.ContainsFunc(r.Conflicts, func(c manager.Conflict) bool { return c.Path == it.Path }):
			inConflict++
		case it.Now != nil && it.Now.Mode.IsDir() && it.New != nil: // it holds what stays
		case it.Dirty:
			dirty++
		}
	}
	merged := ""
	if n := len(r.Merged); n > 0 {
		merged = fmt.Sprintf(" (%s merged)", words.Comma(n))
	}
	form := "%[1]s restored%[3]s, %[2]s deleted"
	if r.Preview {
		form = "would restore %[1]s%[3]s, delete %[2]s"
	}
	summary = fmt.Sprintf(form, words.Comma(len(r.Restored)), words.Comma(len(r.Deleted)), merged)
	for _, more := range []amount{
		{takenOut, "left to " + whoTookOut(r) + " (by name, --on-dirty overwrite restores them)"},
		{len(r.Conflicts), "in conflict"},
		{dirty, "skipped: edited since by you or another session (--on-dirty overwrite restores them)"},
		{len(r.Kept) + len(r.Failed) + len(r.Skipped) - dirty - inConflict - takenOut, "not done"},
	} {
		if more.n > 0 {
			summary += ", " + words.Comma(more.n) + " " + more.what
		}
	}
	return summary, dirty + inConflict
}

// noteConflicts says what takes back what is in conflict, and how else it can be settled.
func (p *place) noteConflicts(r *manager.RestoreResult, f *restoreFlags) {
	a := p.app
	isDone := !r.Preview && !r.Aborted
	hasMarkers := f.onConflict == rollback.ConflictMarkers && isDone
	var lines, whole, blocked, doubtful []string // paths
	var with []string                            // turns in their way
	turns := f.turns
	if turns == nil && len(r.TurnsPutBack) == 0 {
		turns = turnNames(r.TurnsTakenBack)
	}
	if r.TurnsLeft != nil && len(turns) > 0 {
		turns = turnNames(r.TurnsLeft)
	}
	dirs := make(map[string]bool)
	for _, it := range r.Items {
		dirs[it.Path] = it.Now != nil && it.Now.Mode.IsDir()
	}
	for _, c := range r.Conflicts {
		switch {
		case c.Why == "lines":
			lines = append(lines, c.Path)
		case c.Why == "contested", c.Why == "unknown":
			doubtful = append(doubtful, c.Path)
		case c.Why == "hidden", c.Why == "lost", c.Why == "markers", dirs[c.Path]: // theirs does nothing there
		default:
			whole = append(whole, c.Path)
		}
		if f.turns == nil || !isByTurns(c.BlockedBy) || c.Why == "markers" || hasMarkers ||
			len(f.hunks) > 0 { // of hunks it would do more
			continue
		}
		blocked, with = append(blocked, c.Path), append(with, c.BlockedBy...)
	}
	if len(doubtful) > 0 {
		a.note("it is not known whose change of %s that was; to take it back all the same: --on-dirty overwrite",
			firstPaths(doubtful, 3))
	}
	if len(blocked) > 0 {
		slices.SortFunc(with, byNumber)
		whose := "its"
		if len(blocked) > 1 {
			whose = "their"
		}
		a.note("to take back %s together with the turns in %s way: %s", firstPaths(blocked, 3), whose,
			a.commandLine("revert", slices.Concat(turns, slices.Compact(with)), "", f.paths))
	}
	switch {
	case r.Aborted:
	case len(lines) == 0 && len(whole) > 0 && len(turns) > 0:
		a.note("to overwrite what came since: %s",
			a.commandLine("revert", turns, hunksFlag(f.hunks)+" --on-conflict theirs", f.paths))
	case len(lines) == 0:
	case hasMarkers:
		a.note("%s: both sides are there, between <<<<<<< and >>>>>>>; 'snapctl status' lists it until they are gone",
			firstPaths(lines, 3))
	case f.onConflict != rollback.ConflictMarkers && len(turns) > 0:
		a.note("to choose by hand between both sides: %s; to overwrite what came since: --on-conflict theirs",
			a.commandLine("revert", turns, hunksFlag(f.hunks)+" --on-conflict markers", f.paths))
	}
}

// isByTurns reports whether nobody but turns of the session is in the way.
func isByTurns(by []string) bool {
	return len(by) > 0 && !slices.ContainsFunc(by, func(who string) bool { return !strings.HasPrefix(who, "turn:") })
}

// hunksFlag returns the flag that names hunks, "" for none.
func hunksFlag(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return " --hunks " + strings.Join(ids, ",")
}

// byNumber compares names of turns, turn:9 before turn:10.
func byNumber(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// turnNames names turns as a command takes them.
func turnNames(turns []int) (names []string) {
	for _, n := range turns {
		names = append(names, fmt.Sprintf("turn:%d", n))
	}
	return names
}

// commandLine returns a command, for a shell, in the session that was named.
func (a *app) commandLine(name string, revs []string, flags string, paths []string) string {
	line := a.snapctl()
	if a.sessionTyped {
		line += " --session " + a.flags.session
	}
	line += " " + name
	for _, rev := range revs {
		line += " " + words.ShellQuote(rev)
	}
	line += flags
	for i, path := range paths {
		if i == 0 {
			line += " --"
		}
		line += " " + words.ShellQuote(path)
	}
	return line
}
