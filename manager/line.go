package manager

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/boocode/filestore/store"
)

// record returns a record by its number. Records do not change, but for the
// entry that a step gets.
func (m *FileSnapshotManager) record(ctx context.Context, seq uint64) (*record, error) {
	if r := m.loaded[seq]; r != nil {
		return r, nil
	}
	s, err := m.store.Snapshot(ctx, seq)
	if err != nil {
		return nil, err
	}
	r, err := readRecord(s)
	if err != nil {
		return nil, err
	}
	if len(m.loaded) >= maxLoaded {
		clear(m.loaded)
	}
	if r.Entry != "" || r.Kind != kindStep {
		m.loaded[seq] = r
	}
	return r, nil
}

// stepAt returns the step, or the start, of a number that a record has named.
// If damage took it, it is the one before it of the session: what is lost costs
// itself, not what comes after. If there is none, it is a start of which
// nothing else is known.
func (m *FileSnapshotManager) stepAt(ctx context.Context, seq uint64) (*record, error) {
	r, err := m.recordOrBefore(ctx, seq, func(s *store.Snapshot) bool {
		return s.Session == m.opts.Session && (s.Kind == kindStep || s.Kind == kindStart)
	})
	if r == nil && err == nil {
		r = &record{Snapshot: &store.Snapshot{Seq: seq, Kind: kindStart, Session: m.opts.Session, Worktree: m.project.Worktree()}}
	}
	return r, err
}

// recordOrBefore returns the record of a number or, if it is lost, the newest
// one before it in the worktree that fits; nil if there is none.
func (m *FileSnapshotManager) recordOrBefore(ctx context.Context, seq uint64, fits func(*store.Snapshot) bool) (*record, error) {
	r, err := m.record(ctx, seq)
	if !errors.Is(err, store.ErrNotFound) {
		return r, err
	}
	m.log.Warn("record is lost: see the store's check", "seq", seq)
	for s, err := range m.store.Snapshots(ctx) {
		if err != nil {
			return nil, err
		}
		if s.Seq < seq && s.Worktree == m.project.Worktree() && fits(s) {
			return readRecord(s)
		}
	}
	return nil, nil
}

// maxLoaded bounds the records that are kept, of about a kilobyte each.
const maxLoaded = 4096

// back yields the step of a number and those before it, to the start of the
// session. Each pair is a record and nil, or nil and the error that ends the
// sequence.
func (m *FileSnapshotManager) back(ctx context.Context, seq uint64) iter.Seq2[*record, error] {
	return func(yield func(*record, error) bool) {
		for seq != 0 {
			r, err := m.stepAt(ctx, seq)
			if !yield(r, err) || err != nil || r.Kind == kindStart {
				return
			}
			seq = r.data.Prev
		}
	}
}

// link gives a new step its place in the line of steps. Beside the step before
// it each knows one further back, chosen so that any is found in a number of
// hops that grows with the logarithm of their number (Myers, An applicative
// random-access stack, 1983).
func (m *FileSnapshotManager) link(ctx context.Context, r *record) error {
	if r.data.Prev == 0 {
		return nil
	}
	prev, err := m.stepAt(ctx, r.data.Prev)
	if err != nil {
		return err
	}
	r.data.Depth, r.data.Jump = prev.data.Depth+1, prev.Seq
	if prev.data.Jump == 0 {
		return nil
	}
	jump, err := m.stepAt(ctx, prev.data.Jump)
	if err != nil {
		return err
	}
	if jump.data.Jump == 0 {
		return nil
	}
	further, err := m.stepAt(ctx, jump.data.Jump)
	if err != nil {
		return err
	}
	if prev.data.Depth-jump.data.Depth == jump.data.Depth-further.data.Depth {
		r.data.Jump = further.Seq
	}
	return nil
}

// ancestor returns the last step at or before r for which is holds, the start
// if there is none. As soon as is holds it must hold for all before.
func (m *FileSnapshotManager) ancestor(ctx context.Context, r *record, is func(*record) bool) (*record, error) {
	for !is(r) && r.Kind != kindStart {
		to := r.data.Prev
		if r.data.Jump != 0 {
			j, err := m.stepAt(ctx, r.data.Jump)
			if err != nil {
				return nil, err
			}
			if !is(j) {
				to = j.Seq
			}
		}
		if to == 0 {
			break
		}
		var err error
		if r, err = m.stepAt(ctx, to); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// head returns the newest step of the session's line.
func (m *FileSnapshotManager) head(ctx context.Context) (*record, error) {
	r, err := m.newest(ctx, m.opts.Session)
	if err != nil {
		return nil, err
	}
	if r == nil || r.step() == 0 {
		return nil, fmt.Errorf("session %q: %w", m.opts.Session, ErrNoSession)
	}
	return m.stepAt(ctx, r.step())
}
