package manager

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/livedir"
	"github.com/boocode/filestore/internal/merging"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// This file has restores ask remotes for what they miss while they hold no lock: a turn that
// begins meanwhile waits for no network.

// An absent is what a restore has missed, as remotes have it.
type absent struct {
	mu  sync.Mutex // guards the rest
	ids []store.ID
	err error // that says so; nil: nothing was missed
}

// note is a [cas.Fetcher] that fetches nothing.
func (a *absent) note(_ context.Context, _ *cas.Store, remote string, ids []store.ID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids = append(a.ids, ids...)
	a.err = &cas.PromisedError{Remote: remote, Err: errLater}
	return errLater
}

var errLater = errors.New("it is fetched when no lock is held")

type absentKey struct{}

// anyAbsent returns an error if a restore has missed something; nil, too, for one that is not asked
// for by restoring, which gets an error right where it misses something.
func anyAbsent(ctx context.Context) error {
	a, ok := ctx.Value(absentKey{}).(*absent)
	if !ok {
		return nil
	}
	return a.any()
}

// any returns an error if something was missed.
func (a *absent) any() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// maxAsked is how often one content is fetched for a restore: an eviction may take it away before
// it was used.
const maxAsked = 3

// restoring calls fn as locked does. What it misses is fetched without the lock, and then fn
// begins anew, until it misses nothing: the files may be others by then.
func restoring[R any](
	ctx context.Context, m *FileSnapshotManager, what string, fn func(context.Context) (*R, error),
) (*R, error) {
	asked := make(map[store.ID]int)
	for {
		missed := new(absent)
		r, err := locked(ctx, m, what, func() (*R, error) {
			return fn(context.WithValue(cas.WithFetcher(ctx, missed.note), absentKey{}, missed))
		})
		if err == nil || missed.any() == nil {
			return r, err
		}
		slices.SortFunc(missed.ids, func(a, b store.ID) int { return bytes.Compare(a[:], b[:]) })
		ids := slices.DeleteFunc(slices.Compact(missed.ids), func(id store.ID) bool {
			asked[id]++
			return asked[id] > maxAsked
		})
		if len(ids) == 0 {
			return r, err
		}
		if err := m.store.Prefetch(ctx, ids); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
	}
}

// wantContents misses what of wants is not here.
func (m *FileSnapshotManager) wantContents(ctx context.Context, wants []livedir.Want) error {
	var ids []store.ID
	for i := range wants {
		if w := &wants[i]; w.New != nil && w.Out == "" && w.Lost == "" && !w.New.Mode.IsDir() {
			ids = append(ids, w.New.ID)
		}
	}
	return m.store.Prefetch(ctx, ids)
}

// contentsOf returns the contents that a merge of steps reads.
func contentsOf(steps []merging.Step) (ids []store.ID) {
	add := func(e *tree.Entry) {
		if e != nil && !e.Mode.IsDir() {
			ids = append(ids, e.ID)
		}
	}
	for i := range steps {
		add(steps[i].Base)
		add(steps[i].Theirs)
		ids = append(ids, contentsOf(steps[i].Out)...)
	}
	return ids
}
