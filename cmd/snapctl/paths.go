package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/cmd/snapctl/internal/verbs"
	"github.com/boocode/filestore/manager"
)

// treePath returns what a PATH argument names in a tree, "" for its root. As
// with git it is relative to the current directory where that is in the
// project, else to the project's root. An empty one is an error.
func (p *place) treePath(cmd *cobra.Command, arg string) (string, error) {
	if arg == "" { // a variable of a script that is not set: all of the project is not what it means
		return "", usageError(cmd, `a PATH is empty: "." is all of the directory`)
	}
	root := p.project.Root
	full := filepath.Clean(arg)
	if !filepath.IsAbs(arg) {
		full = filepath.Join(p.pathsFrom(), arg)
	}
	if !isBelow(full, root) {
		return "", usageError(cmd, "path %q: outside of %q", arg, root)
	}
	rel, err := filepath.Rel(root, full)
	if rel == "." {
		rel = ""
	}
	return filepath.ToSlash(rel), err
}

// pathsFrom returns the directory that PATH arguments are relative to.
func (p *place) pathsFrom() string {
	if cwd, err := p.app.getwd(); err == nil {
		if cwd, err = filepath.EvalSymlinks(cwd); err == nil && isBelow(cwd, p.project.Root) {
			return cwd
		}
	}
	return p.project.Root
}

// typedPaths returns paths of a tree as they are typed here: the reverse of treePath.
func (p *place) typedPaths(paths []string) (typed []string) {
	from := p.pathsFrom()
	for _, path := range paths {
		full := filepath.Join(p.project.Root, filepath.FromSlash(path))
		if rel, err := filepath.Rel(from, full); err == nil {
			full = rel
		}
		typed = append(typed, full)
	}
	return typed
}

// isBelow reports whether a clean path is that of a directory or below it.
func isBelow(path, dir string) bool {
	const separator = string(filepath.Separator)
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, separator)+separator)
}

// A filter keeps paths that are, or lie below, one of those listed. An empty
// one keeps all.
type filter []string

func (p *place) filter(cmd *cobra.Command, args []string) (filter, error) {
	var f filter
	for _, arg := range args {
		path, err := p.treePath(cmd, arg)
		if err != nil {
			return nil, err
		}
		f = append(f, path)
	}
	return f, nil
}

func (f filter) keeps(path string) bool { return verbs.IsBelow(path, f) }

// of returns what a filter keeps of lists of paths.
func (f filter) of(d *manager.Diff) *manager.Diff {
	if d == nil || len(f) == 0 {
		return d
	}
	kept := newDiff()
	kept.Unknown = d.Unknown
	for path, status := range d.Paths() {
		if f.keeps(path) {
			kept.Add(path, status)
		}
	}
	return kept
}

// newDiff returns an empty Diff, whose lists are not null in JSON.
func newDiff() *manager.Diff {
	return &manager.Diff{Added: []string{}, Modified: []string{}, Deleted: []string{}}
}
