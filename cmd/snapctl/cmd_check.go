package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/patch"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

func (a *app) checkCommand() *cobra.Command {
	readData := false
	c := &cobra.Command{
		Use:     "check",
		Short:   "Verify the store",
		Long:    checkHelp,
		Example: checkExamples,
		Args:    args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.check(cmd.Context(), readData)
		},
	}
	c.Flags().BoolVar(&readData, "read-data", false, "read all content and verify its hashes")
	return c
}

// A checkAnswer is what check prints as JSON.
type checkAnswer struct {
	*store.Report
	ReadData bool          `json:"readData"`
	Damage   []jsonDamage  `json:"damage"`
	Problems []jsonProblem `json:"problems"`
	Concerns []string      `json:"concerns,omitempty"` // about the place of the store, for people
}

// A jsonDamage is a damaged place in a file of the store.
type jsonDamage struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Error  string `json:"error"`
}

// A jsonProblem is a path that a snapshot cannot give back.
type jsonProblem struct {
	EntryID string `json:"entryId"`
	jsonPath
	Error string `json:"error"`
}

func (a *app) check(ctx context.Context, readData bool) error {
	p, err := a.openToRead(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	report, err := p.store.Check(ctx, readData)
	if err != nil {
		return err
	}
	j := &checkAnswer{Report: report, ReadData: readData, Damage: []jsonDamage{}, Problems: []jsonProblem{}}
	for _, d := range report.Damage {
		j.Damage = append(j.Damage, jsonDamage{d.Path, d.Off, d.Err.Error()})
	}
	checker := tree.NewChecker(p.store)
	for snap, err := range p.store.Snapshots(ctx) {
		if err != nil {
			return err
		}
		problems, err := checker.Snapshot(ctx, snap)
		if err != nil {
			return err
		}
		for _, problem := range problems {
			j.Problems = append(j.Problems, jsonProblem{snap.Entry, newJSONPath(problem.Path), problem.Err.Error()})
		}
	}
	dir, err := a.storeDir()
	if err != nil {
		return err
	}
	if j.Concerns, err = store.Concerns(dir); err != nil {
		return err
	}
	if a.flags.json {
		err = a.printJSON(j)
	} else {
		a.printCheck(j)
	}
	if err == nil && len(j.Damage)+len(j.Problems) > 0 {
		err = &failure{code: exitDamage}
	}
	return err
}

func (a *app) printCheck(j *checkAnswer) {
	for _, d := range j.Damage {
		fmt.Fprintf(a.out, "%s at offset %d: %s\n", d.File, d.Offset, d.Error)
	}
	for _, p := range j.Problems {
		fmt.Fprintf(a.out, "snapshot %s: %s: %s\n", p.EntryID, patch.Quote(cmp.Or(p.raw(), ".")), p.Error)
	}
	if a.flags.quiet {
		return
	}
	for _, c := range j.Concerns {
		a.note("note: %s", c)
	}
	verdict := "no damage"
	if n := len(j.Damage) + len(j.Problems); n > 0 {
		verdict = count(n, "problem")
	}
	how := "structure"
	if j.ReadData {
		how = "all content"
	}
	fmt.Fprintf(a.out, "checked %s of %s, %s, %s, %s: %s\n", how, count(j.Snapshots, "snapshot"),
		count(j.Objects, "object"), count(j.Packs, "pack"), size(j.Bytes), verdict)
}
