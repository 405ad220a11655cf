package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// A tool takes snapshots of one tree into its own store.
type tool struct {
	name     string
	missing  bool
	tree     string
	store    string // everything it keeps, its home directory included
	env      []string
	program  []string                     // the program and the flags that all its commands have
	setup    [][]string                   // commands that make an empty store; not timed
	snapshot [][]string                   // commands that take a snapshot
	id       func([]byte) (string, error) // finds the snapshot's name in what the last command printed; nil if it is not there
	last     string                       // the newest snapshot's name
}

// reset leaves the tool with an empty store.
func (t *tool) reset(ctx context.Context) error {
	if err := emptyDir(t.store); err != nil {
		return err
	}
	if err := os.Mkdir(t.home(), 0o777); err != nil {
		return err
	}
	for _, args := range t.setup {
		if _, _, err := t.execute(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

func (t *tool) home() string { return filepath.Join(t.store, "home") }

// environ returns an environment in which only the tool's own settings count.
func (t *tool) environ() []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + t.home()}, t.env...)
}

// execute runs one of the tool's commands in the tree.
func (t *tool) execute(ctx context.Context, args ...string) (usage, []byte, error) {
	return execute(ctx, t.tree, t.environ(), append(t.program[:len(t.program):len(t.program)], args...)...)
}

// take takes a snapshot and returns what that took.
func (t *tool) take(ctx context.Context) (usage, error) {
	var total usage
	var out []byte
	for _, args := range t.snapshot {
		u, o, err := t.execute(ctx, args...)
		if err != nil {
			return usage{}, err
		}
		total, out = total.add(u), o
	}
	if t.id == nil {
		return total, nil
	}
	id, err := t.id(out)
	if err != nil {
		return usage{}, fmt.Errorf("%s: %w", t.name, err)
	}
	t.last = id
	return total, nil
}

// first is the contender that takes the first snapshot into an empty store. A
// tool that cannot do that takes no part in what follows.
func (t *tool) first(ctx context.Context) *contender {
	reset := func() error {
		err := t.reset(ctx)
		t.missing = err != nil
		return err
	}
	return t.contender(reset, func() (usage, error) {
		u, err := t.take(ctx)
		t.missing = err != nil
		return u, err
	})
}

// again is the contender that takes one more snapshot, of a tree that has or
// has not changed since the last. It fails if the tool thinks otherwise.
func (t *tool) again(ctx context.Context, changed bool) *contender {
	return t.contender(nil, func() (usage, error) {
		before := t.last
		u, err := t.take(ctx)
		if err == nil && t.id != nil && (t.last != before) != changed {
			err = fmt.Errorf("%s: changed files: %t, yet snapshot %s follows %s", t.name, changed, t.last, before)
		}
		return u, err
	})
}

// contender has no run, and so does not take part, if the tool is missing.
func (t *tool) contender(prepare func() error, run func() (usage, error)) *contender {
	if t.missing {
		return &contender{name: t.name}
	}
	return &contender{name: t.name, prepare: prepare, run: run}
}

func newSnapctl(program, store, tree string) *tool {
	return &tool{
		name:     "snapctl",
		tree:     tree,
		store:    store,
		program:  []string{program, "--store", filepath.Join(store, "base"), "--root", tree},
		snapshot: [][]string{{"snapshot", "--json"}},
		id: func(out []byte) (string, error) {
			var answer struct {
				SnapshotTreeHash string `json:"snapshotTreeHash"`
			}
			if err := json.Unmarshal(out, &answer); err != nil {
				return "", err
			}
			if answer.SnapshotTreeHash == "" {
				return "", errors.New("answer has no snapshotTreeHash")
			}
			return answer.SnapshotTreeHash, nil
		},
	}
}

func newGit(store, tree string) *tool {
	return &tool{
		name:  "git",
		tree:  tree,
		store: store,
		env: []string{
			"GIT_DIR=" + filepath.Join(store, "repo"),
			"GIT_WORK_TREE=" + tree,
			"GIT_CONFIG_NOSYSTEM=1",
		},
		program:  []string{"git", "-c", "gc.auto=0"},
		setup:    [][]string{{"init", "-q", "--template="}},
		snapshot: [][]string{{"add", "-A"}, {"write-tree"}},
		id: func(out []byte) (string, error) {
			return string(bytes.TrimSpace(out)), nil
		},
	}
}

// newPeers returns the other tools that -peers asks for.
func newPeers(dir, tree string) []*tool {
	restic, borg, kopia := filepath.Join(dir, "restic"), filepath.Join(dir, "borg"), filepath.Join(dir, "kopia")
	return []*tool{
		{
			name:     "restic",
			tree:     tree,
			store:    restic,
			env:      []string{"RESTIC_PASSWORD=x"},
			program:  []string{"restic", "-q", "-r", filepath.Join(restic, "repo")},
			setup:    [][]string{{"init"}},
			snapshot: [][]string{{"backup", tree}},
		},
		{
			name:     "borg",
			tree:     tree,
			store:    borg,
			env:      []string{"BORG_REPO=" + filepath.Join(borg, "repo")},
			program:  []string{"borg"},
			setup:    [][]string{{"init", "-e", "none"}},
			snapshot: [][]string{{"create", "::{now:%Y%m%d-%H%M%S.%f}", tree}},
		},
		{
			name:    "kopia",
			tree:    tree,
			store:   kopia,
			env:     []string{"KOPIA_PASSWORD=x", "KOPIA_CHECK_FOR_UPDATES=false"},
			program: []string{"kopia", "--config-file=" + filepath.Join(kopia, "config.json")},
			setup: [][]string{
				{"repository", "create", "filesystem",
					"--path=" + filepath.Join(kopia, "repo"), "--cache-directory=" + filepath.Join(kopia, "cache")},
				{"policy", "set", "--global", "--compression=zstd-fastest"},
			},
			snapshot: [][]string{{"snapshot", "create", tree, "--no-progress"}},
		},
	}
}
