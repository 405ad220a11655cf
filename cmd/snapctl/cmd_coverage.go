package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/internal/trees"
)

func (a *app) coverageCommand() *cobra.Command {
	nul := false
	c := &cobra.Command{
		Use:   "coverage [REV]",
		Short: "List the files that a snapshot left out, and why",
		Args:  args(0, 1),
		RunE: a.reading(func(cmd *cobra.Command, p *place, args []string) error {
			text := "@"
			if len(args) > 0 {
				text = args[0]
			}
			return a.coverage(cmd.Context(), p, text, nul)
		}),
	}
	c.Flags().BoolVarP(&nul, "null", "z", false, "end lines with NUL and print paths as they are")
	return c
}

// A jsonOmission is a line of coverage in JSON.
type jsonOmission struct {
	jsonPath
	Kind   string       `json:"kind"`
	Size   *int64       `json:"size"` // null: not measured
	Reason trees.Reason `json:"reason"`
}

func (a *app) coverage(ctx context.Context, p *place, text string, nul bool) error {
	point, err := p.resolveSnapshot(ctx, text)
	if err != nil {
		return err
	}
	total := newLeftOut()
	for o, err := range trees.Coverage(ctx, p.store, point.State.Coverage) {
		if err != nil {
			return err
		}
		total.add(&o)
		if err := a.printOmission(&o, nul); err != nil {
			return err
		}
	}
	if a.flags.json {
		return nil
	}
	if s := total.String(); s != "" {
		a.note("not captured in %s: %s", name(point), s)
	} else {
		a.note("everything was captured in %s", name(point))
	}
	return nil
}

func (a *app) printOmission(o *trees.Omission, nul bool) error {
	if a.flags.json {
		j := &jsonOmission{jsonPath: newJSONPath(o.Path), Kind: verbs.KindOf(o.Kind), Reason: o.Reason}
		if o.IsMeasured() {
			j.Size = &o.Size
		}
		return a.printJSON(j)
	}
	size := "-"
	if o.IsMeasured() {
		size = strconv.FormatInt(o.Size, 10)
	}
	path, end := listed(o.Path, o.Kind, nul)
	fmt.Fprintf(a.out, "%-10s %-7s %9s\t%s%s", o.Reason, verbs.KindOf(o.Kind), size, path, end)
	return nil
}
