package manager

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/boocode/filestore/internal/health"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/retain"
)

// Health returns what the user should know of the store, "" if there is nothing, or it
// was said not long ago: what is damaged, that it was not checked for long, what
// failed since.
func (m *FileSnapshotManager) Health() string {
	return health.Tell(m.tree.dir, (*health.Health).Told, false)
}

// noteLook remembers whether a look could be recorded, and returns the error as it is to
// be told.
func (m *FileSnapshotManager) noteLook(ctx context.Context, err error) error {
	if m.opts.ReadOnly {
		return err
	}
	return health.NoteLook(ctx, m.tree.dir, m.project.Worktree, err, m.log)
}

// care prunes the stores that an engine has open, and checks a part of them while
// nobody uses it, until it is closed.
func (e *Engine) care(ctx context.Context) {
	const look = 10 * time.Minute
	tick := time.NewTicker(look)
	defer tick.Stop()
	left := make(map[string]*int64) // what a compaction has left, by store
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		e.mu.Lock()
		dirs, used := make(map[string]bool), false
		for _, wt := range e.trees {
			dirs[wt.dir] = true
			used = used || wt.managers > 0
		}
		e.mu.Unlock()
		if err := retain.AutoPruneSiblings(ctx, e.opts.StoreRoot, e.opts.Logger); err != nil && ctx.Err() == nil {
			e.opts.Logger.Warn("other stores not looked at", "path", e.opts.StoreRoot, "err", err)
		}
		for dir := range dirs {
			r, err := retain.AutoPrune(ctx, dir, e.opts.Logger)
			switch {
			case ctx.Err() != nil:
			case err != nil:
				e.opts.Logger.Warn("store not pruned", "path", dir, "err", err)
			case r != nil:
				e.opts.Logger.Info("store pruned", "path", dir, "snapshots", r.Dropped, "freed", r.Freed)
			}
			if used { // a turn is not to wait for the disk
				continue
			}
			if err := health.CheckPart(ctx, dir, e.opts.Logger); err != nil && ctx.Err() == nil {
				e.opts.Logger.Warn("store not checked", "path", dir, "err", err)
			}
			if left[dir] == nil {
				left[dir] = new(int64)
			}
			if err := e.compact(ctx, dir, left[dir]); err != nil && ctx.Err() == nil {
				e.opts.Logger.Warn("store not compacted", "path", dir, "err", err)
			}
		}
	}
}

// compact compacts a part of a store until a manager is opened.
func (e *Engine) compact(ctx context.Context, dir string, left *int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.mu.Lock()
	for _, wt := range e.trees {
		if wt.managers > 0 {
			e.mu.Unlock()
			return nil
		}
	}
	e.yield = cancel
	e.mu.Unlock()
	_, err := retain.CompactIdle(ctx, dir, left, e.opts.Logger)
	return err
}

// use counts a manager that opens a worktree: it is not to share the processors with what
// care does. Engine.mu is held.
func (e *Engine) use(wt *worktree) {
	wt.managers++
	if e.yield != nil {
		e.yield()
		e.yield = nil
	}
}

// adoptMoved has a directory go on with the history of its old path where nobody can
// be asked: if it surely is the same directory.
func (e *Engine) adoptMoved(ctx context.Context, mv *places.Moved) error {
	for _, wt := range e.trees { // one that no manager has would be in the way
		if wt.dir == mv.Store && wt.managers == 0 {
			e.drop(wt)
		}
	}
	if mv.IsWhole() && e.beforeAdopt != nil {
		if err := e.beforeAdopt(ctx, mv.Store); err != nil {
			return fmt.Errorf("adopt %q: %w", mv.From, err)
		}
	}
	if err := places.Adopt(ctx, mv, &places.AdoptOptions{StoreRoot: e.opts.StoreRoot}); err != nil {
		return err
	}
	e.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "a directory was moved: its history goes on",
		slog.String("from", mv.From), slog.String("to", mv.To))
	return nil
}
