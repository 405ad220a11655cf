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
		Use:   "ls REV [PATH]",
		Short: "List what a snapshot holds",
		Args:  args(1, 2),
		RunE:  a.reading(func(cmd *cobra.Command, p *place, args []string) error { return a.ls(cmd, p, args, &f) }),
	}
	c.Flags().BoolVarP(&f.recursive, "recursive", "r", false, "list what directories hold, too")
	c.Flags().BoolVar(&f.nameOnly, "name-only", false, "print paths only")
	c.Flags().BoolVarP(&f.nul, "null", "z", false, "end lines with NUL and print paths as they are")
	return c
}

func (a *app) ls(cmd *cobra.Command, p *place, args []string, f *lsFlags) error {
	ctx := cmd.Context()
	var path string
	var err error
	if len(args) > 1 {
		if path, err = p.treePath(cmd, args[1]); err != nil {
			return err
		}
	}
	r, err := p.resolve(ctx, args[0])
	if err != nil {
		return err
	}
	top, err := p.lookup(ctx, args[0], r.State.Tree, path)
	if err != nil {
		return err
	}
	if !top.Mode.IsDir() {
		return a.printEntry(trees.WalkEntry{Path: path, Entry: top}, f)
	}
	for e, err := range p.list(ctx, top.ID, f.recursive) {
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

// lookup finds a path in the tree of a REV.
func (p *place) lookup(ctx context.Context, text string, root store.ID, path string) (tree.Entry, error) {
	e, err := trees.Lookup(ctx, p.store, root, path)
	if errors.Is(err, fs.ErrNotExist) {
		err = refuse(fmt.Sprintf("'snapctl ls -r %s' lists all paths, 'snapctl coverage %s' those left out", text,
			text), "path %q in %s: %w", path, text, store.ErrNotFound)
	}
	return e, err
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
