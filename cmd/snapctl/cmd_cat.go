package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
)

func (a *app) catCommand() *cobra.Command {
	raw := false
	c := &cobra.Command{
		Use:   "cat [REV] PATH",
		Short: "Print the content of a file in a snapshot",
		Args:  args(1, 2),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if a.flags.json {
				return usageError(cmd, "cat: prints bytes, not JSON")
			}
			return nil
		},
		RunE: a.reading(func(cmd *cobra.Command, p *place, args []string) error {
			if len(args) == 2 {
				return a.cat(cmd, p, args, raw)
			}
			err := a.cat(cmd, p, []string{"@", args[0]}, raw)
			if errors.Is(err, store.ErrNotFound) {
				if _, rerr := p.resolveAsIs(cmd.Context(), args[0]); rerr == nil {
					err = usageError(cmd, "cat: %q is a REV: name a PATH in it", args[0])
				}
			}
			return err
		}),
	}
	c.Flags().BoolVar(&raw, "raw", false, "print control characters as they are, to a terminal, too")
	return c
}

func (a *app) cat(cmd *cobra.Command, p *place, args []string, raw bool) error {
	_, e, err := p.lookup(cmd, args)
	if err != nil {
		return err
	}
	if e.Mode.IsDir() {
		return refuse("'snapctl ls' lists it", "path %q in %s: is a directory", args[1], args[0])
	}
	ctx := cmd.Context()
	if raw || !isTerminal(a.stdout) {
		_, err = trees.CopyFile(ctx, p.store, a.out, &e)
		return err
	}
	out := &visibleWriter{w: a.out}
	if _, err := trees.CopyFile(ctx, p.store, out, &e); err != nil {
		return err
	}
	return out.end()
}
