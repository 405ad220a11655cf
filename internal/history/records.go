package history

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/store"
)

// Records reads the records of a worktree, and remembers them: use it from one goroutine
// at a time.
type Records struct {
	store    *cas.Store
	worktree string
	log      *slog.Logger

	loaded map[uint64]*Record
	epoch  uint64          // of the store when they were read
	told   map[uint64]bool // the log was, that it is lost
}

// NewRecords returns the records that a store has of a worktree. It tells log of those
// that are lost.
func NewRecords(s *cas.Store, worktree string, log *slog.Logger) *Records {
	return &Records{store: s, worktree: worktree, log: log,
		loaded: make(map[uint64]*Record), told: make(map[uint64]bool)}
}

// Remember takes note of what a record has become.
func (rs *Records) Remember(r *Record) { rs.loaded[r.Seq] = r }

// Len returns how many records are remembered.
func (rs *Records) Len() int { return len(rs.loaded) }

// Record returns a record by its number. Records do not change, but for the
// entry that a step gets.
func (rs *Records) Record(ctx context.Context, seq uint64) (*Record, error) {
	if r := rs.loaded[seq]; r != nil {
		return r, nil
	}
	s, err := rs.store.Snapshot(ctx, seq)
	if err != nil {
		return nil, err
	}
	r, err := Read(s)
	if err != nil {
		return nil, err
	}
	if len(rs.loaded) >= maxLoaded {
		clear(rs.loaded)
	}
	if r.Entry != "" || r.Kind != KindStep {
		rs.loaded[seq] = r
	}
	return r, nil
}

// maxLoaded bounds the records that are kept, of about a kilobyte each.
const maxLoaded = 4096

// StepAt returns the step, or the start, of a number that a record of a session
// has named. If damage took it, it is the one before it of that session: what
// is lost costs itself, not what comes after. If there is none, it is a start
// of which nothing else is known.
func (rs *Records) StepAt(ctx context.Context, seq uint64, session string) (*Record, error) {
	r, err := rs.OrBefore(ctx, seq, func(s *store.Snapshot) bool {
		return s.Session == session && (s.Kind == KindStep || s.Kind == KindEmpty || s.Kind == KindStart)
	})
	if r == nil && err == nil {
		r = &Record{Snapshot: &store.Snapshot{Seq: seq, Kind: KindStart, Session: session, Worktree: rs.worktree}}
	}
	return r, err
}

// OrBefore returns the record of a number or, if it is lost, the newest
// one before it in the worktree that fits; nil if there is none.
func (rs *Records) OrBefore(ctx context.Context, seq uint64, fits func(*store.Snapshot) bool) (*Record, error) {
	r, err := rs.Record(ctx, seq)
	if !errors.Is(err, store.ErrNotFound) {
		return r, err
	}
	if !rs.told[seq] {
		rs.told[seq] = true
		rs.log.Warn("record is lost: see the store's check", "seq", seq)
	}
	for s, err := range rs.store.Snapshots(ctx) {
		if err != nil {
			return nil, err
		}
		if s.Seq < seq && s.Worktree == rs.worktree && fits(s) {
			return Read(s)
		}
	}
	return nil, nil
}

// Newest returns the newest record of a session in the worktree, nil if there
// is none.
func (rs *Records) Newest(session string) (*Record, error) {
	s, epoch, err := rs.store.NewestNow(rs.worktree, session)
	return rs.newestOf(epoch, s, err)
}

// NewestIn is Newest as of when a look began, which nobody can have changed since: it
// holds the lock on the turns.
func (rs *Records) NewestIn(w *cas.Writer, session string) (*Record, error) {
	s, err := w.Newest(rs.worktree, session)
	return rs.newestOf(w.Epoch(), s, err)
}

func (rs *Records) newestOf(epoch uint64, s *store.Snapshot, err error) (*Record, error) {
	if epoch != rs.epoch { // what is remembered may have been pruned
		clear(rs.loaded)
		rs.epoch = epoch
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return Read(s)
}

// Before returns the session's record before another; nil if all are lost. What was lost
// when a record was made, and came back since, is before it, though it names another.
func (rs *Records) Before(ctx context.Context, r *Record) (*Record, error) {
	if r.IsAfterGap(r.Facts.After) { // when it was made
		for seq := r.Seq - 1; seq > max(r.Parent, r.Facts.After); seq-- {
			back, err := rs.Record(ctx, seq)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return nil, err
			}
			if err == nil && back.Worktree == rs.worktree && back.Session == r.Session {
				return back, nil
			}
		}
	}
	return rs.OrBefore(ctx, r.Parent, func(s *store.Snapshot) bool { return s.Session == r.Session })
}

// OwnBack yields the records of a session, newest first.
func (rs *Records) OwnBack(ctx context.Context, head *Record) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for r := head; r != nil; {
			if !yield(r, nil) || r.Parent == 0 {
				return
			}
			var err error
			if r, err = rs.Before(ctx, r); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// TimeBack is OwnBack, and goes on with the session that a fork began from, from
// there.
func (rs *Records) TimeBack(ctx context.Context, head *Record) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for head != nil {
			fork := uint64(0)
			for r, err := range rs.OwnBack(ctx, head) {
				if !yield(r, err) || err != nil {
					return
				}
				if r.Kind == KindStart {
					fork = r.Facts.Fork
				}
			}
			if fork == 0 {
				return
			}
			var err error
			if head, err = rs.StepAt(ctx, fork, head.Session); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// Chain yields the records of the worktree from the newest, of all sessions, also those that
// were pruned: of these the state is not known. What damage took is left out; the record
// before is not the one that the one behind it names in After then. Each pair is a record
// and nil, or nil and the error that ends the sequence.
func (rs *Records) Chain(ctx context.Context, newest uint64) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for newest > 0 {
			r, err := rs.OrBefore(ctx, newest, func(*store.Snapshot) bool { return true })
			if r == nil && err == nil {
				return
			}
			if !yield(r, err) || err != nil {
				return
			}
			newest = r.Facts.After
		}
	}
}

// Since yields the records of the worktree from the newest to the one after
// seq, of all sessions, but those that were pruned: of these the state is not
// known, and the next one is after a gap. Each pair is a record and nil, or nil
// and the error that ends the sequence.
func (rs *Records) Since(ctx context.Context, newest, seq uint64) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for r, err := range rs.Chain(ctx, newest) {
			if err == nil && r.Seq <= seq {
				return
			}
			if (err != nil || !r.Pruned) && !yield(r, err) {
				return
			}
		}
	}
}

// LastRestore returns the session's newest restore, nil if there is none.
func (rs *Records) LastRestore(ctx context.Context, head *Record) (*Record, error) {
	if head == nil || head.Kind == KindRestore {
		return head, nil
	}
	return rs.RestoreBefore(ctx, head)
}

// RestoreBefore returns the session's newest restore before a record, nil if
// there is none.
func (rs *Records) RestoreBefore(ctx context.Context, head *Record) (*Record, error) {
	if head.Facts.Restored == 0 {
		return nil, nil
	}
	return rs.OrBefore(ctx, head.Facts.Restored, func(s *store.Snapshot) bool {
		return s.Session == head.Session && s.Kind == KindRestore
	})
}

// Untold returns the steps that no log has been given, oldest first. head is
// the session's newest record, or nil.
func (rs *Records) Untold(ctx context.Context, head *Record) ([]*Record, error) {
	var list []*Record
	for r, err := range rs.untoldBack(ctx, head) {
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	slices.Reverse(list)
	return list, nil
}

// NewestUntold returns the number of the newest step that no log has been
// given, 0 if there is none.
func (rs *Records) NewestUntold(ctx context.Context, head *Record) (uint64, error) {
	for r, err := range rs.untoldBack(ctx, head) {
		if err != nil {
			return 0, err
		}
		return r.Seq, nil
	}
	return 0, nil
}

// untoldBack yields the steps that no log has been given, newest first. Each
// record knows the one that was the newest when it was made; some of those may
// have been told since. A pair is a record and nil, or nil and the error that
// ends the sequence.
func (rs *Records) untoldBack(ctx context.Context, head *Record) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for r := head; r != nil; {
			if r.IsUntold() && !yield(r, nil) || r.Facts.Untold == 0 {
				return
			}
			var err error
			r, err = rs.OrBefore(ctx, r.Facts.Untold, func(s *store.Snapshot) bool { return s.Session == head.Session })
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}
