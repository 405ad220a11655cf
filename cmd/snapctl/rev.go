package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/boocode/filestore/store"
)

// A rev is what a REV argument stands for.
type rev struct {
	tree     store.ID
	coverage store.ID
	snap     *store.Snapshot // nil for the disk, and for a tree that is not the root of a snapshot
	disk     bool            // what is on the disk now; tree and coverage are set once it was captured
}

func revOf(s *store.Snapshot) rev { return rev{tree: s.Tree, coverage: s.Coverage, snap: s} }

func (r *rev) state() store.State { return store.State{Tree: r.tree, Coverage: r.coverage} }

// resolve finds what a REV stands for.
func (p *place) resolve(ctx context.Context, text string) (rev, error) {
	switch {
	case text == "start":
		return p.ancestor(ctx, -1)
	case strings.HasPrefix(text, "@"):
		n, ok := generations(text)
		if !ok {
			return rev{}, unknownRev(text)
		}
		return p.ancestor(ctx, n)
	}
	return p.named(ctx, text)
}

func unknownRev(text string) error {
	return refuse("'snapctl log' lists snapshots, 'snapctl help revs' says how to name them", "revision %q: not found", text)
}

// generations reads @, @~ or @~N.
func generations(text string) (n int, ok bool) {
	if text == "@" {
		return 0, true
	}
	digits, ok := strings.CutPrefix(text, "@~")
	if !ok || digits == "" {
		return 1, ok
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 0
}

// ancestor returns the snapshot that is n before the newest of the session,
// the first of all if n is negative.
func (p *place) ancestor(ctx context.Context, n int) (rev, error) {
	if err := p.chooseSession(ctx); err != nil {
		return rev{}, err
	}
	var snap *store.Snapshot
	found := 0
	for s, err := range p.store.Snapshots(ctx) {
		if err != nil {
			return rev{}, err
		}
		if snap == nil && !p.isOurs(s) || snap != nil && s.Seq != snap.Parent {
			continue
		}
		snap = s
		if found++; found == n+1 || snap.Parent == 0 {
			break
		}
	}
	switch {
	case snap == nil:
		return rev{}, noSnapshots(p.project)
	case found <= n:
		return rev{}, refuse("'snapctl log' lists them", "revision @~%d: not found: session %q has %s", n, p.session, count(found, "snapshot"))
	}
	return revOf(snap), nil
}

// isOurs reports whether a snapshot is of this directory, and of the session
// if one is chosen.
func (p *place) isOurs(s *store.Snapshot) bool {
	return s.Worktree == p.project.Worktree() && (p.session == "" || s.Session == p.session)
}

// snapshots yields the snapshots of this directory, newest first, of all
// sessions until one is chosen.
func (p *place) snapshots(ctx context.Context) iter.Seq2[*store.Snapshot, error] {
	return func(yield func(*store.Snapshot, error) bool) {
		for s, err := range p.store.Snapshots(ctx) {
			if err != nil || p.isOurs(s) {
				if !yield(s, err) {
					return
				}
			}
		}
	}
}

// newest returns the newest snapshot of the session, nil if there is none.
func (p *place) newest(ctx context.Context) (*store.Snapshot, error) {
	snap, err := p.store.Newest(ctx, p.project.Worktree(), p.session)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return snap, err
}

// parent returns the snapshot before another one, nil for the first of a
// session.
func (p *place) parent(ctx context.Context, snap *store.Snapshot) (*store.Snapshot, error) {
	if snap.Parent == 0 {
		return nil, nil
	}
	for s, err := range p.store.Snapshots(ctx) {
		if err != nil || s.Seq == snap.Parent {
			return s, err
		}
	}
	return nil, &failure{exitDamage, fmt.Errorf("snapshot %d, parent of %s: not found", snap.Parent, snap.Entry), hintCheck}
}

// minPrefix is how many digits of a tree hash name it at least.
const minPrefix = 4

// named finds an entry id or a tree hash. Entry ids go first: more digits say
// that a tree is meant. Snapshots of this directory go before those of others,
// newer before older.
func (p *place) named(ctx context.Context, text string) (rev, error) {
	prefix := strings.ToLower(text)
	isHash := len(prefix) >= minPrefix && strings.Trim(prefix, "0123456789abcdef") == ""
	var entry *store.Snapshot
	trees := make(map[store.ID]*store.Snapshot)
	better := func(s, than *store.Snapshot) bool {
		return than == nil || s.Worktree == p.project.Worktree() && s.Worktree != than.Worktree
	}
	for s, err := range p.store.Snapshots(ctx) {
		if err != nil {
			return rev{}, err
		}
		if s.Entry == text && better(s, entry) {
			entry = s
		}
		if isHash && strings.HasPrefix(s.Tree.String(), prefix) && better(s, trees[s.Tree]) {
			trees[s.Tree] = s
		}
	}
	switch {
	case entry != nil:
		return revOf(entry), nil
	case len(trees) > 1:
		var names []string
		for id := range trees {
			names = append(names, id.Short())
		}
		slices.Sort(names)
		return rev{}, refuse("give more digits", "revision %q: ambiguous: %s", text, strings.Join(names, ", "))
	}
	for _, s := range trees {
		return revOf(s), nil
	}
	id, err := store.ParseID(text)
	if err != nil {
		return rev{}, unknownRev(text)
	}
	_, err = p.store.Get(ctx, store.Tree, id)
	if errors.Is(err, store.ErrNotFound) {
		err = unknownRev(text)
	}
	return rev{tree: id}, err
}
