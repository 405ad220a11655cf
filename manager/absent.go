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

// This file has restores and queries ask remotes for what they miss while they hold no lock: a turn
// that begins or ends meanwhile waits for no network.

// An absent is what was missed, as remotes have it.
type absent struct {
	mu  sync.Mutex // guards ids
	ids []store.ID
}

func (a *absent) note(ids []store.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids = append(a.ids, ids...)
}

// take returns what was missed, each once, in order.
func (a *absent) take() []store.ID {
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.SortFunc(a.ids, func(a, b store.ID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(a.ids)
}

type absentKey struct{}

var errAbsent = errors.New("it is at a remote, and is fetched when no lock is held")

// anyAbsent returns an error if something was missed under a context of without.
func anyAbsent(ctx context.Context) error {
	if a, ok := ctx.Value(absentKey{}).(*absent); ok && len(a.take()) > 0 {
		return errAbsent
	}
	return nil
}

// maxAsked is how often one content is fetched for a restore or a query: an eviction may take it
// away before it was used.
const maxAsked = 3

// without calls fn, which locks, with a context under which nothing is fetched. What it has missed
// when it fails is fetched then, and fn begins anew, until it misses nothing: the files may be
// others by then.
func without[R any](
	ctx context.Context, s *cas.Store, what string, fn func(context.Context) (R, error),
) (none R, err error) {
	asked := make(map[store.ID]int)
	for {
		missed := new(absent)
		r, err := fn(context.WithValue(cas.WithoutFetcher(ctx, missed.note), absentKey{}, missed))
		if err == nil {
			return r, nil
		}
		ids := slices.DeleteFunc(missed.take(), func(id store.ID) bool {
			asked[id]++
			return asked[id] > maxAsked
		})
		if len(ids) == 0 {
			return r, err
		}
		if err := s.Prefetch(ctx, ids); err != nil {
			return none, fmt.Errorf("%s: %w", what, err)
		}
	}
}

// restoring is locked, and nothing is fetched under the lock: see without.
func restoring[R any](
	ctx context.Context, m *FileSnapshotManager, what string, fn func(context.Context) (*R, error),
) (*R, error) {
	return without(ctx, m.store, what, func(ctx context.Context) (*R, error) {
		return locked(ctx, m, what, func() (*R, error) { return fn(ctx) })
	})
}

// asking calls fn while it holds mu, and nothing is fetched meanwhile: see without.
func asking[R any](
	ctx context.Context, m *FileSnapshotManager, what string, fn func(context.Context) (R, error),
) (R, error) {
	return without(ctx, m.store, what, func(ctx context.Context) (r R, err error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		defer annotate(&err, "%s", what)
		if r, err = fn(ctx); err == nil {
			err = anyAbsent(ctx) // an answer may have gone without
		}
		return r, err
	})
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
