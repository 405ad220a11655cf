package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

type lsFlags struct {
	recursive, nameOnly, nul bool
}

func (a *app) lsCommand() *cobra.Command {
	var f lsFlags
	c := &cobra.Command{
		Use:     "ls REV [PATH]",
		Short:   "List what a snapshot holds",
		Long:    lsHelp,
		Example: lsExamples,
		Args:    args(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ls(cmd, args, &f)
		},
	}
	c.Flags().BoolVarP(&f.recursive, "recursive", "r", false, "list what directories hold, too")
	c.Flags().BoolVar(&f.nameOnly, "name-only", false, "print paths only")
	c.Flags().BoolVarP(&f.nul, "null", "z", false, "end lines with NUL and print paths as they are")
	return c
}

func (a *app) ls(cmd *cobra.Command, args []string, f *lsFlags) error {
	ctx := cmd.Context()
	p, err := a.openToRead(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	path := ""
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
		return a.printEntry(tree.WalkEntry{Path: path, Entry: top}, f)
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
	e, err := tree.Lookup(ctx, p.objects, root, path)
	if errors.Is(err, fs.ErrNotExist) {
		err = refuse(fmt.Sprintf("'snapctl ls -r %s' lists all paths, 'snapctl coverage %s' those left out", text, text),
			"path %q in %s: %w", path, text, store.ErrNotFound)
	}
	return e, err
}

// list yields the entries of a directory, or all that is below it.
func (p *place) list(ctx context.Context, dir store.ID, recursive bool) iter.Seq2[tree.WalkEntry, error] {
	if recursive {
		return tree.Walk(ctx, p.objects, dir)
	}
	return func(yield func(tree.WalkEntry, error) bool) {
		for e, err := range tree.Entries(ctx, p.objects, dir) {
			if !yield(tree.WalkEntry{Path: e.Name, Entry: e}, err) {
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

func (a *app) printEntry(e tree.WalkEntry, f *lsFlags) error {
	if a.flags.json {
		return a.printJSON(&jsonEntry{newJSONPath(e.Path), kindWord(e.Mode), e.Mode.String(), e.Size, e.ID})
	}
	path, end := shown(e.Path, e.Mode), "\n"
	if f.nul {
		path, end = withSlash(e.Path, e.Mode), "\x00"
	}
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

// kindWord names the kind of an entry, or of something that was left out.
func kindWord(m tree.Mode) string {
	switch m.Kind() {
	case tree.ModeFile:
		return "file"
	case tree.ModeDir:
		return "dir"
	case tree.ModeSymlink:
		return "symlink"
	}
	return "special"
}
