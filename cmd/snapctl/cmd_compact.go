package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/internal/words"
)

func (a *app) compactCommand() *cobra.Command {
	var dryRun bool
	var wait time.Duration
	c := &cobra.Command{
		Use:   "compact",
		Short: "Write the store anew so that it takes less room",
		Args:  args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.compact(cmd.Context(), dryRun, wait)
		},
	}
	c.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only say what would be done")
	c.Flags().DurationVar(&wait, "wait", 0, "wait for those who write or restore for at most `TIME` (default 10s)")
	return c
}

// A compactAnswer is what compact prints as JSON.
type compactAnswer struct {
	DryRun   bool          `json:"dryRun"`
	Packs    int           `json:"packs"`        // written anew
	Bytes    int64         `json:"bytes"`        // of their files, before
	Written  int64         `json:"writtenBytes"` // 0 in a dry run: it is not known
	Freed    int64         `json:"freedBytes"`   // by so much the store is smaller
	Left     int           `json:"leftPacks"`    // that it has not come to
	Busy     int           `json:"busyPacks"`    // that another process appends to
	Damage   []string      `json:"damage"`       // for which packs stayed
	Problems []jsonProblem `json:"problems"`
}

// compactGarbage is for a program that has some 100 MB in use, 40 for each goroutine that compresses, and
// makes little garbage: of Go's source a compaction takes 156 MB with it, and 237 without, in the same time.
const compactGarbage = 20

func (a *app) compact(ctx context.Context, dryRun bool, wait time.Duration) error {
	limitGarbage(compactGarbage)
	s, err := a.openStore(ctx, dryRun, false)
	if err != nil {
		return err
	}
	defer s.Close()
	shown, stop := a.showProgress(ctx)
	defer stop()
	plan, err := retain.PlanCompact(shown, s, &retain.CompactOptions{Unsealed: true, Wait: wait, Alone: true})
	if err != nil {
		return err
	}
	j := &compactAnswer{DryRun: dryRun, Packs: plan.Packs, Bytes: plan.Size, Busy: plan.Busy, Damage: []string{},
		Problems: newJSONProblems(plan.Problems)}
	if !dryRun {
		var r *cas.CompactResult
		if r, err = plan.Do(shown); err != nil && r.Packs == 0 && !errors.Is(err, cas.ErrWork) {
			return err
		}
		j.Packs, j.Written, j.Freed, j.Left = r.Packs, r.Written, r.Freed, r.Left
		for _, why := range r.Kept {
			j.Damage = append(j.Damage, why.Error())
		}
	}
	stop()
	if a.flags.json {
		err = errors.Join(err, a.printJSON(j))
	} else {
		a.printCompact(j)
		a.sayProblems(plan.Problems)
	}
	switch {
	case errors.Is(err, cas.ErrWork):
		return &failure{exitPart, errors.New("compact: stopped, since somebody records something: the store is whole"),
			"'snapctl compact' goes on where it was"}
	case err != nil:
		return err
	case len(j.Problems)+len(j.Damage) > 0:
		return &failure{code: exitDamage}
	case dryRun && !plan.Empty():
		return &failure{code: exitRefused}
	}
	return nil
}

func (a *app) printCompact(j *compactAnswer) {
	switch {
	case j.Packs == 0 && j.Left == 0:
		fmt.Fprintln(a.out, "nothing to compact")
	case j.DryRun:
		fmt.Fprintf(a.out, "would write %s of %s anew\n", words.Count(j.Packs, "pack"), words.Size(j.Bytes))
	default:
		fmt.Fprintf(a.out, "wrote %s anew, freed %s\n", words.Count(j.Packs, "pack"), words.Size(max(j.Freed, 0)))
	}
	if j.Busy > 0 {
		a.tell("left %s that another program appends to", words.Count(j.Busy, "pack"))
	}
	for _, why := range j.Damage {
		a.tell("left for 'snapctl repair': %s", words.Plain(why))
	}
}
