package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

type forgetFlags struct {
	dryRun, despite, yes, prompts bool
	wait                          time.Duration
}

func (a *app) forgetCommand() *cobra.Command {
	var f forgetFlags
	c := &cobra.Command{
		Use:   "forget PATH... | BLOB... | --prompts",
		Short: "Remove a content from all snapshots, for good",
		Args:  args(0, 1<<20),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case a.flags.sessionFile != "" || cmd.Flags().Changed("session") && (!f.prompts || len(args) > 0):
				return usageError(cmd, "forget: removes contents from all sessions; --session goes with --prompts only")
			case len(args) == 0 && !f.prompts:
				return usageError(cmd, "forget: no PATH or BLOB, and no --prompts")
			}
			return nil
		},
		RunE: a.reading(func(cmd *cobra.Command, p *place, args []string) error { return a.forget(cmd, p, args, &f) }),
	}
	c.Flags().BoolVarP(&f.dryRun, "dry-run", "n", false, "only say what would be done")
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask; without a terminal nothing is done without it")
	c.Flags().BoolVar(&f.prompts, "prompts", false,
		"remove what turns were for: of all sessions, or of the one that --session names")
	c.Flags().BoolVar(&f.despite, "despite-damage", false, "ignore this once that snapshots lack something they need")
	c.Flags().DurationVar(&f.wait, "wait", 0, "wait for those who write or restore for at most `TIME` (default 1m)")
	return c
}

// A forgetAnswer is what forget prints as JSON.
type forgetAnswer struct {
	DryRun   bool            `json:"dryRun"`
	Done     bool            `json:"done"` // false also if there was nothing to do
	Blobs    []jsonForgotten `json:"blobs"`
	Packs    int             `json:"packs"` // written anew
	Aside    []string        `json:"aside"` // other files of the store that were cleaned or removed
	Copied   int64           `json:"copiedBytes"`
	Freed    int64           `json:"freedBytes"`
	OnDisk   []jsonPath      `json:"onDisk"` // still in the directory, and captured again by the next snapshot
	Problems []jsonProblem   `json:"problems"`
}

type jsonForgotten struct {
	Hash      store.ID   `json:"hash"`
	Size      int64      `json:"size"`
	Snapshots int        `json:"snapshots"`
	Turns     int        `json:"turns,omitempty"` // that it says what they were for
	Paths     []jsonPath `json:"paths"`
}

func (a *app) forget(cmd *cobra.Command, p *place, args []string, f *forgetFlags) error {
	ctx := cmd.Context()
	opts, err := p.toForget(cmd, args, f)
	if err != nil {
		return err
	}
	s, err := a.openStore(ctx, f.dryRun, false)
	if err != nil {
		return err
	}
	defer s.Close()
	plan, err := a.planForget(ctx, s, opts)
	if err != nil {
		return err
	}
	todo := !plan.Empty()
	ask := todo && !f.dryRun && !f.yes
	listed := ask && a.canAsk()
	if ask {
		if err := a.askForget(cmd, plan, listed); err != nil {
			return err
		}
	}
	j := newForgetAnswer(plan, f.dryRun)
	if todo && !f.dryRun {
		r, err := a.doForget(ctx, s, plan, opts)
		if err != nil {
			return err
		}
		j.Done, j.Packs, j.Copied, j.Freed = true, r.Packs, r.Copied, r.Freed
	}
	onDisk, err := p.stillThere(ctx, opts.Paths, plan.Blobs)
	if err != nil {
		a.note("warning: it is not known whether the directory still holds it: %v", err)
	}
	j.OnDisk = newJSONPaths(onDisk)
	if a.flags.json {
		err = a.printJSON(j)
	} else {
		if !listed {
			a.printBlobs(plan)
		}
		a.printForget(plan, j, onDisk)
	}
	if err == nil && !f.dryRun { // also again, if it was not reached before
		err = (&place{app: a, project: p.project, store: s}).forgetThere(ctx, plan.Blobs)
	}
	switch {
	case err != nil:
		return err
	case f.dryRun && len(j.Problems) > 0:
		return &failure{code: exitDamage}
	case f.dryRun && todo:
		return &failure{code: exitRefused}
	}
	return nil
}

// askForget has a person say that contents may go, listed or not.
func (a *app) askForget(cmd *cobra.Command, plan *retain.ForgetPlan, list bool) error {
	if list {
		a.printBlobs(plan)
	}
	what := words.Count(len(plan.Blobs), "content")
	return a.confirm(cmd, "forget", what+" would be removed from all snapshots", "forget "+what+" for good?")
}

// planForget says what would go. It is refused if there is nothing of it.
func (a *app) planForget(ctx context.Context, s *cas.Store, opts *retain.ForgetOptions) (*retain.ForgetPlan, error) {
	ctx, stop := a.showProgress(ctx)
	defer stop()
	plan, err := retain.PlanForget(ctx, s, opts)
	if errors.Is(err, retain.ErrNothingToForget) {
		return nil, refuse("", "%w", err)
	}
	return plan, err
}

func newForgetAnswer(plan *retain.ForgetPlan, dryRun bool) *forgetAnswer {
	j := &forgetAnswer{DryRun: dryRun, Blobs: []jsonForgotten{}, Packs: plan.Packs,
		Aside: append([]string{}, plan.Aside...), Copied: plan.Copy, Freed: plan.Free,
		Problems: newJSONProblems(plan.Problems)}
	for _, b := range plan.Blobs {
		j.Blobs = append(j.Blobs, jsonForgotten{b.ID, b.Size, b.Snapshots, b.Turns, newJSONPaths(b.Paths)})
	}
	return j
}

// toForget returns what the arguments name.
func (p *place) toForget(cmd *cobra.Command, args []string, f *forgetFlags) (*retain.ForgetOptions, error) {
	opts := &retain.ForgetOptions{DespiteDamage: f.despite, Wait: f.wait, Prompts: f.prompts, Alone: true}
	if f.prompts && cmd.Flags().Changed("session") {
		opts.Session = p.app.flags.session
	}
	for _, arg := range args {
		if id, err := store.ParseID(arg); err == nil {
			opts.Blobs = append(opts.Blobs, id)
			continue
		}
		path, err := p.treePath(cmd, arg)
		if err == nil && path == "" {
			err = usageError(cmd, "forget: %q is the whole directory: name files in it", arg)
		}
		if err != nil {
			return nil, err
		}
		opts.Paths = append(opts.Paths, path)
	}
	return opts, nil
}

// doForget does what the plan says. An engine of ours that appends to a file that
// has to be written anew is asked to end that one and begin another.
func (a *app) doForget(ctx context.Context, s *cas.Store, plan *retain.ForgetPlan,
	opts *retain.ForgetOptions) (*cas.PruneResult, error) {
	ctx, stop := a.showProgress(ctx)
	defer stop()
	r, err := plan.Do(ctx)
	for range 3 { // it may have begun another one with the content by then
		if !errors.Is(err, cas.ErrBusy) {
			break
		}
		if a.sealEngine(ctx) != nil { // the first error says what to do about it
			break
		}
		if plan, err = retain.PlanForget(ctx, s, opts); err == nil {
			r, err = plan.Do(ctx)
		}
	}
	return r, err
}

// sealEngine has the engine that serves the store end the files that it appends
// to. It is an error if there is none, or none that knows how.
func (a *app) sealEngine(ctx context.Context) error {
	dir, err := a.storeDir()
	if err != nil {
		return err
	}
	c, err := client.Dial(ctx, dir)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	return c.Call(ctx, "seal", nil, nil)
}

// stillThere lists what the next snapshot would capture again: files with one of
// the contents, and whatever is at one of the paths.
func (p *place) stillThere(ctx context.Context, paths []string, blobs []retain.ForgottenBlob) ([]string, error) {
	disk, g, _, err := p.captureDisk(ctx, tree.Limits{})
	if err != nil {
		return nil, err
	}
	ids := make(map[store.ID]bool)
	for _, b := range blobs {
		ids[b.ID] = true
	}
	found, err := audit.NewFinder(g, ids).Find(ctx, disk.State.Tree)
	if err != nil {
		return nil, err
	}
	all := audit.NewFinder(g, nil)
	for _, path := range paths {
		there, err := all.At(ctx, disk.State.Tree, path)
		if err != nil {
			return nil, err
		}
		found = append(found, there...)
	}
	seen := make(map[string]bool)
	for _, e := range found {
		seen[e.Path] = true
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// maxForgetPaths is how many paths of a content are printed.
const maxForgetPaths = 20

func (a *app) printBlobs(plan *retain.ForgetPlan) {
	prompts, turns := 0, 0
	for _, b := range plan.Blobs {
		if b.Turns > 0 {
			prompts, turns = prompts+1, turns+b.Turns
		}
		if b.Turns > 0 && len(b.Paths) == 0 {
			continue
		}
		fmt.Fprintf(a.out, "%s  %s in %s\n", a.paint(asName, b.ID.Short()), words.Size(b.Size),
			words.Count(b.Snapshots, "snapshot"))
		for i, path := range b.Paths {
			if i == maxForgetPaths {
				fmt.Fprintf(a.out, "  and %s more\n", words.Count(len(b.Paths)-i, "path"))
				break
			}
			fmt.Fprintf(a.out, "  %s\n", words.Quote(path))
		}
	}
	if prompts > 0 {
		fmt.Fprintf(a.out, "%s of %s\n", words.Count(prompts, "prompt"), words.Count(turns, "turn"))
	}
}

func (a *app) printForget(plan *retain.ForgetPlan, j *forgetAnswer, onDisk []string) {
	what := words.Count(len(j.Blobs), "content")
	switch {
	case plan.Empty():
		fmt.Fprintln(a.out, "nothing to do: no snapshot holds it any more")
	case j.DryRun:
		fmt.Fprintf(a.out, "would remove %s from all snapshots, and write %s of the store anew\n", what,
			words.Size(j.Copied))
	default:
		fmt.Fprintf(a.out, "removed %s from all snapshots: no file of the store holds it any more\n", what)
	}
	a.sayProblems(plan.Problems)
	if j.Done {
		a.note("Backups, free blocks of the disk and your agent's own logs may still hold it.")
	}
	for i, path := range onDisk {
		if i == maxForgetPaths {
			a.tell("warning: and %s more", words.Count(len(onDisk)-i, "path"))
			break
		}
		a.tell("warning: %s is still there, and the next snapshot will record it again: "+
			"delete it, or add it to .booignore", words.Quote(path))
	}
}
