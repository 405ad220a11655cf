package standing

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/windows"
)

// Newest calls settle for each path with the newest change that is in there at a
// position, and with nil where none is. start is where the line began, nil if
// that is not known.
func (s *Paths) Newest(ctx context.Context, at *history.Record, paths []string, settle func(p string, sc *StepChange,
	start *history.Record) error) error {
	open := make(map[string]bool)
	for _, p := range paths {
		open[p] = true
	}
	own := make(map[string]bool) // paths that go their own way
	t := s.Line.Trail(at, AnyPath)
	t.Joint = func(j *history.Record) {
		for p := range j.Facts.OwnPaths() {
			if open[p] {
				own[p] = true
				delete(open, p)
			}
		}
	}
	start, err := s.first(ctx, t, func(r *history.Record) (bool, error) {
		list, err := s.Of(ctx, r)
		if err != nil {
			return false, err
		}
		for p, c := range changedOf(open, list) {
			delete(open, p)
			if err := settle(p, &StepChange{r, c}, nil); err != nil {
				return false, err
			}
		}
		return len(open) == 0, nil
	})
	if err != nil {
		return err
	}
	for _, p := range slices.Sorted(maps.Keys(open)) {
		if err := settle(p, nil, start); err != nil {
			return err
		}
	}
	for _, p := range slices.Sorted(maps.Keys(own)) {
		if err := s.NewestOf(ctx, at, p, settle); err != nil {
			return err
		}
	}
	return nil
}

// changedOf yields those of some paths that a record has changed. The cost follows the
// fewer: a restore may be about 100,000 paths, with 1,000 turns behind the one that changed them.
func changedOf(paths map[string]bool, list map[string]*windows.Change) iter.Seq2[string, *windows.Change] {
	return func(yield func(string, *windows.Change) bool) {
		if len(list) < len(paths) {
			for p, c := range list {
				if paths[p] && !yield(p, c) {
					return
				}
			}
			return
		}
		for p := range paths {
			if c := list[p]; c != nil && !yield(p, c) {
				return
			}
		}
	}
}

// NewestOf is Newest for a path that goes its own way. Where it stands apart, the
// joint that says so is settled in place of the start, if it knows what is
// expected there.
func (s *Paths) NewestOf(ctx context.Context, at *history.Record, p string, settle func(p string, sc *StepChange,
	start *history.Record) error) error {
	return s.NewestOn(ctx, s.Line.Trail(at, p), settle)
}

// NewestOn is NewestOf for what is ahead of a trail.
func (s *Paths) NewestOn(ctx context.Context, t *Trail, settle func(p string, sc *StepChange,
	start *history.Record) error) error {
	p := t.path
	isApart := false
	var known []*history.Record // joints at which it stands apart, newest first, that know what is expected
	var altered [][]uint64      // turns by which what is in ahead differs from what is in at each
	t.Joint = func(j *history.Record) {
		a := j.StandsApart(p)
		if isApart = isApart || a != nil; a == nil || !a.Known {
			return
		}
		turns := slices.Collect(maps.Keys(t.without))
		for _, r := range t.with {
			turns = append(turns, r.Seq)
		}
		known, altered = append(known, j), append(altered, turns)
	}
	var found *StepChange
	start, err := s.first(ctx, t, func(r *history.Record) (bool, error) {
		c, err := s.At(ctx, r, p)
		if c != nil {
			found = &StepChange{r, c}
		}
		return c != nil, err
	})
	if err != nil {
		return err
	}
	for i, j := range known {
		if isAltered, err := s.anyAt(ctx, altered[i], p); err != nil {
			return err
		} else if !isAltered {
			return settle(p, nil, j)
		}
	}
	switch {
	case found == nil:
		return settle(p, nil, start)
	case !isApart && !t.altered && !found.By.IsJoint():
		return settle(p, found, nil)
	}
	// What the change left is expected if nothing else is in than when it was made.
	before := s.Line.Trail(found.By, p)
	if _, _, err := before.Pop(ctx); err != nil {
		return err
	}
	if alike, err := s.Alike(ctx, t, before); err != nil || !alike {
		return errors.Join(err, settle(p, nil, nil))
	}
	return settle(p, found, nil)
}

// IsTold reports whether the records say what is expected at a path of a position with
// the changes by which an Apart differs from it.
func (s *Paths) IsTold(ctx context.Context, at *history.Record, p string, a *history.Apart) (told bool, err error) {
	t := s.Line.Trail(at, p)
	t.altered = true
	if err := t.beside(ctx, a.With); err != nil {
		return false, err
	}
	t.passOver(a.Without)
	err = s.NewestOn(ctx, t, func(_ string, sc *StepChange, start *history.Record) error {
		told = sc != nil || start != nil
		return nil
	})
	return told, err
}

// Alike reports whether the same is in at a path ahead of two trails.
func (s *Paths) Alike(ctx context.Context, a, b *Trail) (bool, error) {
	more, less, err := s.Line.difference(ctx, a, b)
	if err != nil {
		return false, err
	}
	for _, r := range slices.Concat(more, less) {
		if c, err := s.At(ctx, r, a.path); c != nil || err != nil {
			return false, err
		}
	}
	return true, nil
}

// DeletedOver returns the oldest of some changes of a path, which are the newest first, that
// has deleted it while one of others was in there, nil if none has. A turn that made the
// path again has not deleted it.
func (s *Paths) DeletedOver(ctx context.Context, path string, stay, goes []StepChange) (*StepChange, error) {
	oldest := uint64(math.MaxUint64)
	for _, sc := range goes {
		oldest = min(oldest, sc.By.Seq)
	}
	for i, sc := range slices.Backward(stay) {
		if sc.Change.New != nil || sc.By.Seq < oldest || i > 0 && stay[i-1].By.IsSameTurn(sc.By) {
			continue
		}
		before, err := s.Line.FoundBy(ctx, sc.By)
		if err != nil {
			return nil, err
		}
		in, err := s.Line.InAt(ctx, before, path, oldest)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(goes, func(o StepChange) bool { return HasRecord(in, o.By.Seq) }) {
			return &stay[i], nil
		}
	}
	return nil, nil
}

// Without returns the way back from a position at a path on which changes have
// been taken back.
func (s *Paths) Without(at *history.Record, path string, list []StepChange) *Trail {
	t := s.Line.Trail(at, path)
	t.without, t.altered = make(map[uint64]bool), true
	for _, sc := range list {
		if t.without[sc.By.Seq] = true; sc.By.Behind != nil { // of which the rest goes
			t.with = append(t.with, sc.By.Behind)
		}
	}
	return t
}

// anyAt reports whether one of the turns with these numbers has changed a path.
func (s *Paths) anyAt(ctx context.Context, turns []uint64, path string) (bool, error) {
	for _, seq := range turns {
		r, err := s.Line.Records.Record(ctx, seq)
		if err != nil {
			return false, err
		}
		if c, err := s.At(ctx, r, path); c != nil || err != nil {
			return c != nil, err
		}
	}
	return false, nil
}

// first follows a trail until fn says that it is enough. It returns the start of
// the line if it got there; what was pruned ends it as well, and then there is
// none.
func (s *Paths) first(ctx context.Context, t *Trail, fn func(*history.Record) (enough bool, err error)) (
	start *history.Record,
	err error) {
	for {
		r, in, err := t.Pop(ctx)
		if err != nil || r == nil || r.Pruned {
			return nil, err
		}
		if r.Kind == history.KindStart {
			if r.Facts.Fork != 0 {
				continue
			}
			return r, nil
		}
		if in {
			if enough, err := fn(r); enough || err != nil {
				return nil, err
			}
		}
	}
}
