package retain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
)

// CompactOptions say what a compaction takes: see [cas.CompactOptions].
type CompactOptions struct {
	Unsealed bool          // packs, too, that are not full yet
	MaxBytes int64         // at most; 0: no limit
	KeepFree int64         // bytes that are to stay free; 0: the default, below 0: none
	Wait     time.Duration // for those who write or restore
	Workers  int           // groups that are compressed at once; 0: one for each processor
	Alone    bool          // nothing else uses the store
}

// A CompactPlan is what a compaction will do.
type CompactPlan struct {
	*cas.CompactPlan
	Problems []trees.Problem // what is missing or damaged: there is no compaction before a repair

	s    *cas.Store
	opts *CompactOptions
}

// PlanCompact finds out what of a store is worth to be written anew.
func PlanCompact(ctx context.Context, s *cas.Store, opts *CompactOptions) (*CompactPlan, error) {
	p := &CompactPlan{s: s, opts: opts}
	progress.Of(ctx).Begin(progress.Phase{Name: "marking", Unit: "snapshot"})
	marker := audit.NewMarker(s)
	stop, err := turnsBegin(s.FS())
	if err != nil {
		return nil, fmt.Errorf("plan compaction: %w", err)
	}
	p.CompactPlan, err = s.PlanCompact(ctx, &cas.CompactOptions{
		Mark:     markSound(marker, func() bool { return p.CompactPlan == nil }),
		Unsealed: opts.Unsealed, MaxBytes: opts.MaxBytes, KeepFree: s.Reserve(opts.KeepFree), Wait: opts.Wait,
		Workers: opts.Workers, Alone: opts.Alone, Stop: stop,
	})
	if err != nil {
		return nil, err
	}
	p.Problems, err = problemsOf(ctx, s, marker)
	return p, err
}

// Do does what the plan says. It ends early with [cas.ErrWork] if a turn begins or
// somebody records something, and says what it has done by then. The error matches
// [ErrDamaged] if the plan has Problems.
func (p *CompactPlan) Do(ctx context.Context) (*cas.CompactResult, error) {
	if len(p.Problems) > 0 {
		return &cas.CompactResult{Left: p.Packs}, fmt.Errorf("compact: %w", damagedBy(p.Problems[0]))
	}
	r, err := p.s.Compact(ctx, p.CompactPlan)
	for n := 0; errors.Is(err, cas.ErrPlanStale) && n < maxReplans; n++ { // others have pruned or repaired
		var again *CompactPlan
		if again, err = PlanCompact(ctx, p.s, p.opts); err != nil || len(again.Problems) > 0 {
			return r, err
		}
		var more *cas.CompactResult
		more, err = p.s.Compact(ctx, again.CompactPlan)
		r.Packs, r.Written, r.Freed, r.Left = r.Packs+more.Packs, r.Written+more.Written, r.Freed+more.Freed, more.Left
		r.Kept = append(r.Kept, more.Kept...)
	}
	return r, err
}

const (
	// worthCompacting is how many bytes of packs are worth that somebody looks at all
	// snapshots for them who was not asked to.
	worthCompacting = 8 << 20
	// idleBytes is how many bytes are compacted at a time by who was not asked to: some
	// seconds of one processor for each 64 MiB.
	idleBytes = 256 << 20
)

// CompactIdle compacts a part of a store that nobody uses, if that is worth it: packs that
// are full. It ends when ctx does, or somebody works, and that is no error. last is what it found
// the last time, 0 at first: it does not look twice at what it can do nothing about.
func CompactIdle(
	ctx context.Context, storeDir string, last *int64, log *slog.Logger,
) (r *cas.CompactResult, err error) {
	s, err := cas.Open(ctx, storeDir, &cas.Options{Logger: log})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r, err = compactSealed(ctx, s, last, 1)
	if err == nil && r != nil {
		log.Info("store compacted", "path", storeDir, "packs", r.Packs, "freed", r.Freed)
	}
	return r, err
}

// CompactSealed compacts packs that are full, a part of them if there are many, behind a
// prune. That somebody works, or that there is no room, is no error.
func CompactSealed(ctx context.Context, s *cas.Store) (*cas.CompactResult, error) {
	return compactSealed(ctx, s, new(int64), 0)
}

// compactSealed compacts within the budget of who was not asked to.
func compactSealed(ctx context.Context, s *cas.Store, last *int64, workers int) (*cas.CompactResult, error) {
	size, err := s.Uncompacted()
	if err != nil || size < worthCompacting || size == *last {
		return nil, err
	}
	plan, err := PlanCompact(ctx, s, &CompactOptions{MaxBytes: idleBytes, Workers: workers, Alone: true})
	if err != nil || len(plan.Problems) > 0 {
		return nil, err
	}
	r, err := plan.Do(ctx)
	switch {
	case err == nil:
		*last, err = s.Uncompacted()
	case errors.Is(err, cas.ErrWork), errors.Is(err, cas.ErrBusy), errors.Is(err, cas.ErrPlanStale), cas.IsNoSpace(err),
		ctx.Err() != nil:
		err = nil // another time
	}
	return r, err
}

// turnsBegin returns what tells when a turn has begun or ended since.
func turnsBegin(fsys vfs.FS) (func() error, error) {
	names, err := fsys.ReadDir(layout.Worktrees)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	before := make(map[string]vfs.Stat)
	look := func(name string) vfs.Stat {
		st, _ := fsys.Stat(layout.Worktree(name).Turns()) // without one there is no turn
		return st
	}
	for _, name := range names {
		before[name] = look(name)
	}
	return func() error {
		for name, st := range before {
			if look(name) != st {
				return cas.ErrWork
			}
		}
		return nil
	}, nil
}
