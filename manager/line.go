package manager

import (
	"context"
	"fmt"
	"iter"
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
	if r.data.Told || r.Kind != kindStep {
		m.loaded[seq] = r
	}
	return r, nil
}

// maxLoaded bounds the records that are kept, of about a kilobyte each.
const maxLoaded = 4096

// back yields the step of a number and those before it, to the start of the
// session. Each pair is a record and nil, or nil and the error that ends the
// sequence.
func (m *FileSnapshotManager) back(ctx context.Context, seq uint64) iter.Seq2[*record, error] {
	return func(yield func(*record, error) bool) {
		for seq != 0 {
			r, err := m.record(ctx, seq)
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
	prev, err := m.record(ctx, r.data.Prev)
	if err != nil {
		return err
	}
	r.data.Depth, r.data.Jump = prev.data.Depth+1, prev.Seq
	if prev.data.Jump == 0 {
		return nil
	}
	jump, err := m.record(ctx, prev.data.Jump)
	if err != nil {
		return err
	}
	if jump.data.Jump == 0 {
		return nil
	}
	further, err := m.record(ctx, jump.data.Jump)
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
			j, err := m.record(ctx, r.data.Jump)
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
		if r, err = m.record(ctx, to); err != nil {
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
	return m.record(ctx, r.step())
}
