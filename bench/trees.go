package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A treeSpec is a tree to measure on, and what is measured on it.
type treeSpec struct {
	name, title string
	make        func(*lab, context.Context, *treeSpec) error // makes l.tree
	files       int                                          // of a generated tree
	parts       string
	without     []string // contenders that take too long here, or have nothing to show
}

const grows = "first unchanged changed10 turn diff restore"

var peers = []string{"git", shadowGit, "restic", "borg", "kopia"}

var trees = []treeSpec{
	{name: "linux", title: "Linux 6.1", make: (*lab).copyTree,
		parts: "floors start first-cold first size unchanged unchanged-cold changed1 changed10 changed1000 turn diff log cat restore revert export growth compact compacted prune pruned"},
	{name: "go-src", title: "Go's source", make: (*lab).copyTree, parts: "first size unchanged changed10"},
	{name: "nm", title: "node_modules", make: (*lab).copyTree, parts: "first size unchanged changed10"},
	{name: "10k", title: "10,000 generated files", make: (*lab).generate, files: 10_000, parts: grows + " agents"},
	{name: "100k", title: "100,000 generated files", make: (*lab).generate, files: 100_000, parts: grows},
	{name: "800k", title: "800,000 generated files", make: (*lab).generate, files: 800_000, parts: grows,
		without: []string{shadowGit}},
	{name: "wide", title: "one directory of 100,000 files", make: (*lab).wide, files: 100_000,
		parts: "changed1 turn growth1", without: peers},
	{name: "big", title: "one file of 1 GB", make: (*lab).big, parts: "first middle positions",
		without: []string{"bare pack writer"}}, // which compresses a file by one goroutine
	{name: "releases", title: "two releases of Go", make: (*lab).twoReleases, parts: "checkout"},
}

// measure runs the parts of a tree that are wanted.
func (l *lab) measure(ctx context.Context, spec *treeSpec, wanted func(part string) bool) error {
	var todo []part
	for _, p := range parts {
		if slices.Contains(strings.Fields(spec.parts), p.name) && wanted(p.name) {
			todo = append(todo, p)
		}
	}
	if len(todo) == 0 {
		return nil
	}
	fmt.Fprintln(l.log, "\n"+spec.title)
	l.of, l.part = spec, ""
	defer l.deleteDiscarded()
	defer os.RemoveAll(l.tree)
	err := emptyDir(l.tree)
	if err == nil {
		err = spec.make(l, ctx, spec)
	}
	if err != nil {
		if ctx.Err() == nil {
			l.note("%s is left out: %v", spec.title, err)
		}
		return ctx.Err()
	}
	_, stat, err := execute(ctx, "", nil, l.self, "-floor", "stat", l.tree)
	if err != nil {
		return err
	}
	if l.deleted { // of the tree before
		if _, _, err := execute(ctx, "", nil, "sync"); err != nil {
			return err
		}
		select {
		case <-time.After(inodeRest):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	tree := &measuredTree{Name: spec.name}
	fmt.Sscanf(string(stat), "%d files, %d bytes", &tree.Files, &tree.Bytes)
	l.results.Trees = append(l.results.Trees, tree)
	l.used = 0
	if l.names, err = pick(l.tree, min(5000, tree.Files/2+1), l.rng); err != nil {
		return err
	}
	missing := map[*tool]bool{}
	for _, t := range l.tools {
		missing[t] = t.missing
		t.began, t.tree, t.store = false, l.tree, filepath.Join(l.tmp, "stores", strings.ReplaceAll(t.name, " ", "-"))
	}
	defer func() {
		for _, t := range l.tools {
			t.stop()
			os.RemoveAll(t.store)
			t.missing = missing[t]
		}
	}()
	for _, p := range todo {
		debug.FreeOSMemory() // the peak of a process is no less than what this one has: see maxRSS
		l.part = p.name
		fmt.Fprintln(l.log, p.title)
		if err := p.run(l, ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			l.note("%s, %s: %v", spec.title, p.title, err)
		}
		if err := l.save(); err != nil {
			return err
		}
	}
	return nil
}

// copyTree copies one of the trees that were there before.
func (l *lab) copyTree(ctx context.Context, spec *treeSpec) error {
	from, err := l.prepared(ctx, spec.name)
	if err != nil {
		return err
	}
	return l.copyFrom(ctx, from)
}

// prepared returns the directory of a tree, which it has made if it is missing.
func (l *lab) prepared(ctx context.Context, name string) (string, error) {
	dir := filepath.Join(l.trees, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	fmt.Fprintf(l.log, "prepare %s\n", dir)
	_, _, err := execute(ctx, "", nil, "bench/trees.sh", l.trees, name)
	return dir, err
}

// copyFrom copies a tree, without repositories in it and without what git
// ignores: the others know nothing of git's rules, and all are to capture the
// same files.
func (l *lab) copyFrom(ctx context.Context, from string) error {
	if err := emptyDir(l.tree); err != nil {
		return err
	}
	if _, _, err := execute(ctx, "", nil, "cp", "-a", from+"/.", l.tree); err != nil {
		return err
	}
	err := filepath.WalkDir(l.tree, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == ".git" {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
			if d.IsDir() {
				return fs.SkipDir
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, args := range []string{"init -q --template=", "clean -qffdX"} {
		if err := l.cleaner(ctx, strings.Fields(args)...); err != nil {
			return err
		}
	}
	// Outside a git repository snapctl leaves these out and the others do not.
	err = os.WriteFile(filepath.Join(l.tree, ".booignore"), []byte("!node_modules/\n!.pi/\n"), 0o666)
	return errors.Join(err, os.RemoveAll(filepath.Join(l.tmp, "cleaner")))
}

func (l *lab) cleaner(ctx context.Context, args ...string) error {
	_, _, err := l.gitBeside(ctx, "cleaner", args...)
	return err
}

// releases runs git in the repository of two releases, which is beside the tree.
func (l *lab) releases(ctx context.Context, args ...string) (usage, []byte, error) {
	return l.gitBeside(ctx, "releases", args...)
}

func (l *lab) gitBeside(ctx context.Context, repo string, args ...string) (usage, []byte, error) {
	env := append(os.Environ(), "GIT_DIR="+filepath.Join(l.tmp, repo), "GIT_WORK_TREE="+l.tree,
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	return git(ctx, l.tree, env, args...)
}

// git runs git in a directory, as whoever this is.
func git(ctx context.Context, dir string, env []string, args ...string) (usage, []byte, error) {
	return execute(ctx, dir, env, append([]string{"git", "-c", "gc.auto=0", "-c", "user.name=bench", "-c",
		"user.email=bench@localhost"}, args...)...)
}

// twoReleases leaves the newer of two releases in the tree.
func (l *lab) twoReleases(ctx context.Context, _ *treeSpec) error {
	if err := os.RemoveAll(filepath.Join(l.tmp, "releases")); err != nil {
		return err
	}
	for i, name := range []string{"go-old", "go-src"} {
		from, err := l.prepared(ctx, name)
		if err != nil {
			return err
		}
		if err := l.copyFrom(ctx, from); err != nil {
			return err
		}
		for _, args := range []string{"init -q --template=", "add -A", "commit -q -m release",
			"tag release" + strconv.Itoa(i)} {
			if _, _, err := l.releases(ctx, strings.Fields(args)...); err != nil {
				return err
			}
		}
	}
	return nil
}

// generate makes a tree in a process of its own: what this one holds in memory
// would show as the peak of others.
func (l *lab) generate(ctx context.Context, spec *treeSpec) error {
	_, _, err := execute(ctx, "", nil, l.self, "-floor", "generate", l.tree, strconv.Itoa(spec.files), "1")
	return err
}

func (l *lab) wide(ctx context.Context, spec *treeSpec) error {
	_, _, err := execute(ctx, "", nil, l.self, "-floor", "wide", filepath.Join(l.tree, "dir"), strconv.Itoa(spec.files))
	return err
}

const (
	bigSize    = 1_000_000_000
	changeSize = 1_000_000
)

// big makes one file that nothing can compress.
func (l *lab) big(context.Context, *treeSpec) error {
	return l.writeBig(0, bigSize)
}

// overwrite changes 1 MB of it.
func (l *lab) overwrite(at int64) error { return l.writeBig(at, changeSize) }

func (l *lab) writeBig(at, n int64) error {
	f, err := os.OpenFile(filepath.Join(l.tree, "big"), os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	source := rand.NewChaCha8(sha256.Sum256([]byte(strconv.FormatUint(l.rng.Uint64(), 10))))
	block := make([]byte, 1_000_000)
	for end := at + n; at < end; at += int64(len(block)) {
		source.Read(block)
		if _, err := f.WriteAt(block, at); err != nil {
			return err
		}
	}
	return f.Close()
}

// sum returns a hash of what files hold.
func sum(root string, names []string) (all [32]byte, err error) {
	h := sha256.New()
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return all, err
		}
		fmt.Fprintf(h, "%d\n", len(data))
		h.Write(data)
	}
	return [32]byte(h.Sum(nil)), nil
}
