package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/tree"
)

// matchFlags say how an old text is looked for.
type matchFlags struct {
	old, oldFile, new, newFile string
	expect                     int
	stages                     []string
	minSimilarity              float64
	lineHint                   int
	reindent                   string
	merge, noMerge             bool
}

// add adds the flags of patch locate or, with apply, those of patch apply, which
// fits the new text in unless it is told not to.
func (f *matchFlags) add(flags *pflag.FlagSet, apply bool) {
	flags.StringVar(&f.old, "old", "", "the `TEXT` that is to be replaced")
	flags.StringVar(&f.oldFile, "old-file", "", "`FILE` that holds it; - is stdin")
	flags.StringVar(&f.new, "new", "", "the `TEXT` that replaces it")
	flags.StringVar(&f.newFile, "new-file", "", "`FILE` that holds it; - is stdin")
	flags.IntVar(&f.expect, "expect", 1, "how `OFTEN` it must be there, exactly; 0: all are replaced")
	flags.StringSliceVar(&f.stages, "stages", nil,
		"`STAGES` to try: exact, whitespace, unicode, block_anchor, levenshtein")
	flags.Float64Var(&f.minSimilarity, "min-similarity", 0, "least `SIMILARITY` of a match that is not exact, 0 to 1")
	flags.IntVar(&f.lineHint, "line", 0, "of places as good, the one nearest to this `LINE`")
	const reindent = "`auto|off`: auto fits the new text to the file's indentation"
	if !apply {
		flags.StringVar(&f.reindent, "reindent", "off", reindent)
		flags.BoolVar(&f.merge, "merge", false, "lines that old and new have in common keep the file's bytes")
		return
	}
	flags.StringVar(&f.reindent, "reindent", "auto", reindent+", with --fuzzy")
	flags.BoolVar(&f.noMerge, "no-merge", false, "with --fuzzy, the new text replaces all that was found")
	flags.BoolVar(&f.merge, "merge", true, "")
	if err := flags.MarkHidden("merge"); err != nil { // which is what is done
		panic("snapctl: internal error: " + err.Error())
	}
}

// options returns the options for package patch.
func (f *matchFlags) options(fuzzy bool) *patch.Options {
	o := verbs.MatchOptions{ExpectedReplacements: &f.expect, Fuzzy: &fuzzy, MinSimilarity: f.minSimilarity,
		Reindent: patch.Reindent(f.reindent), Merge: &f.merge, LineHint: f.lineHint}
	for _, s := range f.stages {
		o.Stages = append(o.Stages, patch.Stage(s))
	}
	return o.Options()
}

// texts returns the old and the new text, and whether there is a new one.
func (f *matchFlags) texts(cmd *cobra.Command, a *app) (old, new []byte, hasNew bool, err error) {
	read := func(name string) ([]byte, bool, error) {
		text, file := cmd.Flags().Lookup(name), cmd.Flags().Lookup(name+"-file")
		switch {
		case text.Changed && file.Changed:
			return nil, false, usageError(cmd, "--%s and --%s-file", name, name)
		case file.Changed:
			b, err := a.readInput(file.Value.String())
			return b, true, err
		}
		return []byte(text.Value.String()), text.Changed, nil
	}
	old, hasOld, err := read("old")
	if err == nil && !hasOld {
		err = usageError(cmd, "patch %s: no --old", cmd.Name())
	}
	if err == nil {
		new, hasNew, err = read("new")
	}
	return old, new, hasNew, err
}

// readInput reads a file, or stdin for -.
func (a *app) readInput(name string) ([]byte, error) {
	if name != "-" {
		return os.ReadFile(name)
	}
	if a.stdin == nil {
		return nil, errors.New("no stdin")
	}
	return io.ReadAll(a.stdin)
}

func (a *app) patchCommand() *cobra.Command {
	c := &cobra.Command{Use: "patch", Short: "Edit files by what they hold, and take that back",
		Args: args(0, 0), RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(a.patchLocateCommand(), a.patchApplyCommand(), a.patchUndoCommand(), a.patchLogCommand())
	return c
}

func (a *app) patchLocateCommand() *cobra.Command {
	var f matchFlags
	var lines, exact bool
	c := &cobra.Command{Use: "locate [flags] FILE\n  snapctl patch locate --jsonl",
		Short: "Say where a text is, and change nothing", Args: args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case lines && len(args) > 0:
				return usageError(cmd, "patch locate: --jsonl takes no FILE")
			case lines:
				return a.patchLines(answerLocate)
			case len(args) == 0:
				return usageError(cmd, "patch locate: no FILE")
			}
			return a.patchLocate(cmd, args[0], &f, !exact)
		}}
	f.add(c.Flags(), false)
	c.Flags().BoolVar(&exact, "exact", false, "only exact matches")
	c.Flags().BoolVar(&lines, "jsonl", false, "answer requests on stdin, a JSON object a line")
	return c
}

func (a *app) patchLocate(cmd *cobra.Command, name string, f *matchFlags, fuzzy bool) error {
	old, new, hasNew, err := f.texts(cmd, a)
	if err != nil {
		return err
	}
	content, err := a.readInput(name)
	if err != nil {
		return err
	}
	r := &patch.Result{}
	if hasNew {
		r = patch.Replace(content, old, new, f.options(fuzzy))
	} else {
		r.Match = *patch.Locate(content, old, f.options(fuzzy))
	}
	m := &r.Match
	if a.flags.json {
		if err := a.printJSON(verbs.NewLocated(r)); err != nil {
			return err
		}
	} else if m.Found() {
		fmt.Fprintf(a.out, "%s: lines %d-%d, bytes %d-%d, stage %s, similarity %.3f, %s\n", m.Kind, m.StartLine,
			m.EndLine, m.Start, m.End, m.Stage, m.Similarity, words.Count(m.Count, "place"))
	}
	if !m.Found() {
		return refuse("", "%s: %s", m.Kind, m.Explain())
	}
	return nil
}

// applyFlags are those of patch apply.
type applyFlags struct {
	matchFlags
	format, path, expectedHash       string
	dryRun, fuzzy, sequential, lines bool
	fuzz                             int
}

func (a *app) patchApplyCommand() *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use: "apply [flags] [PATCH]\n  snapctl patch apply --path FILE --old TEXT --new TEXT\n" +
			"  snapctl patch apply --jsonl",
		Short: "Edit files",
		Args:  args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.lines && len(args) > 0:
				return usageError(cmd, "patch apply: --jsonl takes no PATCH")
			case f.lines:
				return a.patchLines(answerApply)
			}
			req, err := f.request(cmd, a, args)
			if err != nil {
				return err
			}
			return a.patchApply(cmd, req, f.path, f.expectedHash)
		}}
	flags := c.Flags()
	f.add(flags, true)
	flags.StringVar(&f.format, "format", "",
		"`FORMAT` of the patch: search-replace, v4a, udiff or edits (default: by its look)")
	flags.StringVar(&f.path, "path", "", "the `FILE` to edit, where the patch names none")
	flags.BoolVarP(&f.dryRun, "dry-run", "n", false, "print what would be changed, and do nothing")
	flags.BoolVar(&f.fuzzy, "fuzzy", false, "also edit similar text, from 0.92 on")
	flags.BoolVar(&f.sequential, "sequential", false, "look for each piece in what the one before it left")
	flags.IntVar(&f.fuzz, "fuzz", 2, "how many `LINES` of context a hunk of a diff may lose at each end")
	flags.StringVar(&f.expectedHash, "expected-hash", "", "`HASH` that the file must have, BLAKE3 or SHA-256")
	flags.BoolVar(&f.lines, "jsonl", false, "answer requests on stdin, a JSON object a line, in memory")
	return c
}

// request returns what the manager is asked for. Its paths are still those of the user.
func (f *applyFlags) request(cmd *cobra.Command, a *app, args []string) (*manager.EditRequest, error) {
	flags := cmd.Flags()
	req := &manager.EditRequest{Fuzzy: f.fuzzy, Options: *f.options(true), Sequential: f.sequential, Preview: f.dryRun,
		NoMerge: f.noMerge || !f.merge}
	if f.reindent != "auto" && f.reindent != "off" && f.reindent != "none" {
		return nil, usageError(cmd, "patch apply: --reindent %q: want auto or off", f.reindent)
	}
	if !flags.Changed("expect") {
		req.Options.Replacements = 0 // which edit lists may say
	}
	if flags.Changed("fuzz") {
		req.Fuzz = &f.fuzz
	}
	if flags.Changed("old") || flags.Changed("old-file") {
		switch {
		case f.path == "":
			return nil, usageError(cmd, "patch apply: --old, and no --path")
		case len(args) > 0:
			return nil, usageError(cmd, "patch apply: --old and a PATCH")
		}
		var hasNew bool
		var err error
		if req.Old, req.New, hasNew, err = f.texts(cmd, a); err == nil && !hasNew {
			err = usageError(cmd, "patch apply: --old, and no --new")
		}
		if err != nil {
			return nil, err
		}
	} else {
		name := "-"
		if len(args) > 0 {
			name = args[0]
		}
		input, err := a.readInput(name)
		if err != nil {
			return nil, err
		}
		if req.Patch, err = patch.Parse(patch.Format(f.format), input, f.path); err != nil {
			return nil, &failure{code: exitUsage, err: err}
		}
	}
	for _, name := range []string{"stages", "min-similarity", "reindent", "merge", "no-merge"} {
		if flags.Changed(name) && !f.fuzzy && (req.Patch == nil || req.Patch.Format != patch.V4A) {
			return nil, usageError(cmd, "patch apply: --%s says nothing without --fuzzy", name)
		}
	}
	return req, nil
}

// openToEdit opens the store to edit.
func (a *app) openToEdit(ctx context.Context) (*place, error) {
	p, err := a.openToWrite(ctx, false, tree.Limits{})
	if err != nil {
		return nil, err
	}
	if err := p.useOnly(ctx); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// useOnly settles on the session if there is only one.
func (p *place) useOnly(ctx context.Context) error {
	if p.chosen {
		return nil
	}
	list, err := p.m.Sessions(ctx, false)
	if err == nil && len(list) == 1 {
		err = p.use(list[0].Session)
	}
	return err
}

func (a *app) patchApply(cmd *cobra.Command, req *manager.EditRequest, path, hash string) error {
	p, err := a.openToEdit(cmd.Context())
	if err != nil {
		return err
	}
	defer p.close()
	var names []*string // of files
	if req.Patch == nil {
		req.Path = path
		names = append(names, &req.Path)
	} else {
		for i := range req.Patch.Files {
			f := &req.Patch.Files[i]
			names = append(names, &f.Path, &f.To, &f.Other)
		}
	}
	for _, name := range names {
		if *name == "" {
			continue
		}
		if *name, err = p.treePath(cmd, *name); err != nil {
			return err
		}
	}
	if hash != "" {
		if req.Patch != nil && len(req.Patch.Files) > 1 {
			return usageError(cmd, "--expected-hash, and several files")
		}
		req.Expected = map[string]string{*names[0]: hash}
	}
	r, err := p.m.ApplyEdits(cmd.Context(), req)
	if refused, ok := errors.AsType[*manager.EditError](err); ok && a.flags.json {
		answer := struct {
			Refused   []verbs.Refusal `json:"refused"`
			FuzzyFits bool            `json:"fuzzyFits,omitempty"`
		}{verbs.Refusals(refused.Refused), refused.Fuzzy}
		if err := a.printJSON(&answer); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return a.printEdit(r)
}

// printEdit prints what an edit did.
func (a *app) printEdit(r *manager.EditResult) error {
	if a.flags.json {
		return a.printJSON(r)
	}
	for _, f := range r.Files {
		if a.flags.quiet || r.UndoID == "" && !r.Preview {
			break
		}
		a.printEdited(&f, r.Preview, f.Mode == patch.IsFuzzy)
		for _, w := range f.Warnings {
			fmt.Fprintf(a.out, ", %s", w)
		}
		fmt.Fprintln(a.out)
		if r.Preview {
			text := []byte(f.Diff)
			if isTerminal(a.stdout) {
				text = visiblePatch(text)
			}
			a.out.Write(text)
		}
	}
	switch {
	case r.Preview:
		a.note("nothing was done yet")
	case r.UndoID == "":
		a.note("nothing to do: all is so already")
	default:
		a.note("'snapctl patch undo %s' takes it back", r.UndoID)
	}
	return nil
}

func (a *app) patchUndoCommand() *cobra.Command {
	var opts manager.UndoEditOptions
	c := &cobra.Command{Use: "undo [flags] [ID]", Short: "Take back an edit", Args: args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.Force && opts.Reverse {
				return usageError(cmd, "patch undo: --force and --reverse")
			}
			p, err := a.restoring(cmd.Context(), func(p *place) error { return p.useOnly(cmd.Context()) })
			if err != nil {
				return err
			}
			defer p.close()
			id, err := p.editToUndo(cmd.Context(), args)
			if err != nil {
				return err
			}
			r, err := p.m.UndoEdit(cmd.Context(), id, &opts)
			if errors.Is(err, manager.ErrUnknown) {
				return &failure{exitRefused, err, "'snapctl patch log' lists the edits"}
			}
			if err != nil {
				return err
			}
			return a.printEdit(r)
		}}
	c.Flags().BoolVar(&opts.Force, "force", false,
		"make the file what it was before the edit, even if it was changed since")
	c.Flags().BoolVar(&opts.Reverse, "reverse", false, "take back only what the edit changed, wherever that is now")
	c.Flags().BoolVarP(&opts.Preview, "dry-run", "n", false, "print what would be changed, and do nothing")
	return c
}

// editToUndo returns the ID of the edit that is to be taken back: the newest that was not, if none
// is named.
func (p *place) editToUndo(ctx context.Context, args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	undone := make(map[string]bool)
	for e, err := range p.m.Edits(ctx) {
		switch {
		case err != nil:
			return "", err
		case undone[e.UndoID]:
		case e.Undoes != "":
			undone[e.Undoes] = true
		default:
			return e.UndoID, nil
		}
	}
	return "", refuse("'snapctl patch log' lists the edits; an ID of an undo brings its edit back",
		"patch undo: %w", manager.ErrNothing)
}

func (a *app) patchLogCommand() *cobra.Command {
	var limit int
	c := &cobra.Command{Use: "log [flags]", Short: "List edits, newest first", Args: args(0, 0),
		RunE: a.reading(func(cmd *cobra.Command, p *place, _ []string) error {
			n := 0
			for e, err := range p.m.Edits(cmd.Context()) {
				if err != nil {
					return err
				}
				if n++; limit > 0 && n > limit {
					break
				}
				if err := a.printEditLine(e); err != nil {
					return err
				}
			}
			return nil
		})}
	c.Flags().IntVarP(&limit, "limit", "n", 0, "list at most `N`")
	return c
}

func (a *app) printEditLine(e *manager.EditResult) error {
	if a.flags.json {
		return a.printJSON(e)
	}
	what := "edit"
	if e.Undoes != "" {
		what = "undo of " + e.Undoes
	}
	fmt.Fprintf(a.out, "%s  %s  %s", e.UndoID, clock(e.Time), what)
	if e.Session != "" {
		fmt.Fprintf(a.out, "  session %s", e.Session)
	}
	if e.Turn != nil {
		fmt.Fprintf(a.out, ", turn %d", *e.Turn)
	}
	fmt.Fprintln(a.out)
	for _, f := range e.Files {
		fmt.Fprint(a.out, "    ")
		a.printEdited(&f, false, f.Mode != "")
		fmt.Fprintln(a.out)
	}
	return nil
}

// opWords are what people read for what was done to a file; the second is for a preview.
var opWords = map[patch.Op][2]string{
	patch.Create: {"made", "would make"},
	patch.Update: {"edited", "would edit"},
	patch.Delete: {"deleted", "would delete"},
}

// printEdited prints what an edit did to a file, and how loosely the text was found that
// it replaced.
func (a *app) printEdited(f *manager.EditedFile, preview, how bool) {
	word := opWords[f.Op][0]
	if preview {
		word = opWords[f.Op][1]
	}
	fmt.Fprintf(a.out, "%s %s", word, words.Quote(f.Path))
	if f.To != "" {
		fmt.Fprintf(a.out, " as %s", words.Quote(f.To))
	}
	if how {
		found := patch.Match{Kind: f.Mode, Stage: f.Stage, Similarity: f.Similarity}
		fmt.Fprintf(a.out, " (%s)", found.Explain())
	}
}
