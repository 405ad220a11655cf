package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/store"
)

func (a *app) exportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export REV DIR",
		Short: "Write a snapshot into an empty directory",
		Args:  args(2, 2),
		RunE: a.reading(func(cmd *cobra.Command, p *place, args []string) error {
			return a.export(cmd.Context(), p, args[0], args[1])
		}),
	}
}

// An exportAnswer is what export prints as JSON.
type exportAnswer struct {
	TreeHash string `json:"treeHash"`
	Files    int64  `json:"files"`
	Dirs     int64  `json:"dirs"`
	Symlinks int64  `json:"symlinks"`
	Bytes    int64  `json:"bytes"`

	Forgotten []jsonPath   `json:"forgotten,omitempty"` // what is missing
	Lost      []jsonUnread `json:"lost,omitempty"`      // what the store has lost; of a directory, what is in it
	Refused   []jsonUnread `json:"refused,omitempty"`   // what the system cannot have
}

func (a *app) export(ctx context.Context, p *place, text, dir string) error {
	r, err := p.resolve(ctx, text)
	if err != nil {
		return err
	}
	if err := mustBeEmpty(dir); err != nil {
		return err
	}
	shown, stop := a.showProgress(ctx)
	var result *trees.ExportResult
	if err = onlyPaths(nil).prefetch(shown, p.store, r.State.Tree); err == nil {
		result, err = trees.Export(shown, p.store, r.State.Tree, dir)
	}
	stop()
	if errors.Is(err, context.Canceled) {
		return &failure{exitInterrupted, fmt.Errorf("export: interrupted, %q is not complete", dir),
			"remove it, and run the same command again"}
	}
	if err != nil {
		return err
	}
	j := &exportAnswer{TreeHash: r.State.Tree.String(), Files: result.Files, Dirs: result.Dirs,
		Symlinks: result.Symlinks, Bytes: result.Bytes, Forgotten: newJSONPaths(result.Forgotten)}
	for _, l := range result.Lost {
		j.Lost = append(j.Lost, jsonUnread{newJSONPath(l.Path), l.Err.Error()})
	}
	for _, l := range result.Refused {
		j.Refused = append(j.Refused, jsonUnread{newJSONPath(l.Path), l.Err.Error()})
	}
	switch {
	case a.flags.json:
		err = a.printJSON(j)
	case !a.flags.quiet:
		fmt.Fprintf(a.out, "%s: %s, %s, %s, %s\n", words.Quote(dir), words.Count(result.Files, "file"),
			words.Count(result.Dirs, "directory"), words.Count(result.Symlinks, "link"), words.Size(result.Bytes))
	}
	if err != nil || len(result.Forgotten)+len(result.Lost)+len(result.Refused) == 0 {
		return err
	}
	for _, path := range result.Forgotten {
		a.tell("%s is missing: it %v", words.Quote(path), store.ErrForgotten)
	}
	for _, l := range slices.Concat(result.Lost, result.Refused) {
		a.tell("%s is missing: %v", words.Quote(l.Path), l.Err)
	}
	if len(result.Lost) > 0 {
		return &failure{exitDamage, fmt.Errorf("export: %s of %q cannot be read from the store, all else is there",
			words.Count(len(result.Lost), "path"), text), hintRepair}
	}
	return &failure{code: exitPart}
}

// mustBeEmpty refuses a place to export to before anything is written.
func mustBeEmpty(dir string) error {
	names, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && len(names) > 0:
		err = fmt.Errorf("not empty: it holds %q", names[0].Name())
	case err != nil && !errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("export to %q: %w", dir, err)
	}
	if err != nil {
		return refuse("name a directory that is empty or does not exist", "export to %q: %w", dir, err)
	}
	return nil
}
