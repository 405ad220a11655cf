package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

type lsFlags struct {
	recursive, nameOnly, nul bool
}

func (a *app) lsCommand() *cobra.Command {
	var f lsFlags
	c := &cobra.Command{
		Use:   "ls [REV [PATH]]",
		Short: "List what a snapshot holds",
		Args:  args(0, 2),
		RunE: a.reading(func(cmd *cobra.Command, p *place, args []string) error {
			if len(args) == 0 {
				args = []string{"@"}
			}
			return a.ls(cmd, p, args, &f)
		}),
	}
	c.Flags().BoolVarP(&f.recursive, "recursive", "r", false, "list what directories hold, too")
	c.Flags().BoolVar(&f.nameOnly, "name-only", false, "print paths only")
	c.Flags().BoolVarP(&f.nul, "null", "z", false, "end lines with NUL and print paths as they are")
	return c
}

func (a *app) ls(cmd *cobra.Command, p *place, args []string, f *lsFlags) error {
	path, top, err := p.lookup(cmd, args)
	if err != nil {
		return err
	}
	if !top.Mode.IsDir() {
		return a.printEntry(trees.WalkEntry{Path: path, Entry: top}, f)
	}
	for e, err := range p.list(cmd.Context(), top.ID, f.recursive) {
		if err != nil {
			return err
		}
		if path != "" {
			e.Path = path + "/" + e.Path
		}
		if err := a.printEntry(e, f); err != nil {
			return err
		}
	}
	return nil
}

// lookup finds what REV and PATH stand for; without PATH the root.
func (p *place) lookup(cmd *cobra.Command, args []string) (path string, e tree.Entry, err error) {
	if len(args) > 1 {
		if path, err = p.treePath(cmd, args[1]); err != nil {
			return "", e, err
		}
	}
	rev := args[0]
	point, err := p.resolve(cmd.Context(), rev)
	if err != nil {
		return "", e, err
	}
	e, err = trees.Lookup(cmd.Context(), p.store, point.State.Tree, path)
	if errors.Is(err, fs.ErrNotExist) {
		err = refuse(fmt.Sprintf("'snapctl ls -r %[1]s' lists all paths, 'snapctl coverage %[1]s' those left out", rev),
			"path %q in %s: %w", path, rev, store.ErrNotFound)
	}
	return path, e, err
}

// list yields the entries of a directory, or all that is below it.
func (p *place) list(ctx context.Context, dir store.ID, recursive bool) iter.Seq2[trees.WalkEntry, error] {
	if recursive {
		return trees.Walk(ctx, p.store, dir)
	}
	return func(yield func(trees.WalkEntry, error) bool) {
		for e, err := range trees.Entries(ctx, p.store, dir) {
			if !yield(trees.WalkEntry{Path: e.Name, Entry: e}, err) {
				return
			}
		}
	}
}

// A jsonEntry is a line of ls in JSON.
type jsonEntry struct {
	jsonPath
	Kind string   `json:"kind"`
	Mode string   `json:"mode"`
	Size int64    `json:"size"`
	Hash store.ID `json:"hash"`
}

func (a *app) printEntry(e trees.WalkEntry, f *lsFlags) error {
	if a.flags.json {
		return a.printJSON(&jsonEntry{newJSONPath(e.Path), verbs.KindOf(e.Mode), e.Mode.String(), e.Size, e.ID})
	}
	path, end := listed(e.Path, e.Mode, f.nul)
	if f.nameOnly {
		fmt.Fprintf(a.out, "%s%s", path, end)
		return nil
	}
	size := "-"
	if !e.Mode.IsDir() {
		size = fmt.Sprint(e.Size)
	}
	fmt.Fprintf(a.out, "%s %s %9s\t%s%s", e.Mode, e.ID.Short(), size, path, end)
	return nil
}
