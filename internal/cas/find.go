package cas

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/store"
)

// Amend says a snapshot again, with another session entry, the one above it,
// log, label or data: of what a journal says twice the last counts. Anything
// else that is not as it was is an error, and so is a snapshot that is not
// there or was pruned ([ErrPruned]). When it returns nil, that is durable.
//
// Say it again soon: once four more segments are full, the first version is
// what is found by its number.
func (s *Store) Amend(ctx context.Context, snap *store.Snapshot) error {
	return s.amend(ctx, snap, true)
}

// AmendSoon is Amend for what a power cut may take, since somebody else knows it: it is
// durable with whatever this process records next.
func (s *Store) AmendSoon(ctx context.Context, snap *store.Snapshot) error {
	return s.amend(ctx, snap, false)
}

func (s *Store) amend(ctx context.Context, snap *store.Snapshot, durable bool) error {
	if s.readOnly {
		return fmt.Errorf("amend snapshot %d: store is open read-only", snap.Seq)
	}
	err := s.withJournal(ctx, func() error {
		old, err := s.j.LastBySeq(snap.Seq)
		if err != nil {
			return err
		}
		if old == nil {
			return store.ErrNotFound
		}
		if s.j.Pruned.Has(snap.Seq) {
			return store.ErrPruned
		}
		if !journal.SameFacts(old, snap) {
			return errors.New("says something else than what happened")
		}
		snap.Label = old.Label // somebody may have named it meanwhile: see Relabel
		// As of any record, the objects must not hang on one that may be lost.
		body := journal.AppendSnapshot(nil, snap, s.j.UnsealedPacks())
		return s.appendOne(journal.Record{Kind: journal.FrameSnapshot, Body: body, Again: snap.Seq}, durable)
	})
	if err != nil {
		return fmt.Errorf("amend snapshot %d: %w", snap.Seq, err)
	}
	return nil
}

// Relabel gives a snapshot another label, "" for none, and changes nothing else that is on
// record of it. It returns the snapshot as it is then. Errors are those of Amend.
func (s *Store) Relabel(ctx context.Context, seq uint64, label string) (snap *store.Snapshot, err error) {
	if s.readOnly {
		return nil, fmt.Errorf("label snapshot %d: store is open read-only", seq)
	}
	err = s.withJournal(ctx, func() error {
		old, err := s.j.LastBySeq(seq)
		switch {
		case err != nil:
			return err
		case old == nil:
			return store.ErrNotFound
		case s.j.Pruned.Has(seq):
			return store.ErrPruned
		}
		snap = new(*old)
		snap.Label = label
		body := journal.AppendSnapshot(nil, snap, s.j.UnsealedPacks())
		return s.appendOne(journal.Record{Kind: journal.FrameSnapshot, Body: body, Again: seq}, true)
	})
	if err != nil {
		return nil, fmt.Errorf("label snapshot %d: %w", seq, err)
	}
	return snap, nil
}

// LastLabels returns the labels, "" among them, of some snapshots by their numbers: of all that
// may have been given one so long after they were recorded that [Store.Snapshot] does not look
// for it there. It reads a little of each segment of the journal.
func (s *Store) LastLabels() (map[uint64]string, error) {
	s.jmu.Lock()
	defer s.jmu.Unlock()
	if err := s.j.Refresh(); err != nil {
		return nil, err
	}
	return s.j.LastLabels()
}

// Snapshot returns the snapshot of a number. The error matches [ErrNotFound]
// if there is none, or it is damaged. What another process has said again since
// Newest or a search was called last may go unseen.
func (s *Store) Snapshot(ctx context.Context, seq uint64) (*store.Snapshot, error) {
	s.jmu.Lock()
	defer s.jmu.Unlock()
	if seq > s.j.Seq {
		if err := s.j.Refresh(); err != nil {
			return nil, err
		}
	}
	found, err := s.j.BySeq(seq)
	if err != nil {
		return nil, fmt.Errorf("snapshot %d: %w", seq, err)
	}
	if found == nil {
		return nil, fmt.Errorf("snapshot %d: %w", seq, store.ErrNotFound)
	}
	return journal.Present(found, s.j.Pruned), nil
}

// HasEntry is whether there is a snapshot of a session entry, as of when the writer
// began, or later.
func (w *Writer) HasEntry(entry string) (bool, error) {
	key := journal.PrefixKey(entry)
	w.s.jmu.Lock()
	defer w.s.jmu.Unlock()
	fits := func(snap *store.Snapshot) bool { return snap.Entry == entry }
	for _, err := range w.s.j.Find(fits, entries(key, key)) {
		return err == nil, err
	}
	return false, nil
}

// entries chooses the records whose session entries begin with keys of a range.
func entries(low, high uint64) journal.Chooser {
	return func(sum *journal.Summary) ([]journal.KeyRef, uint64, uint64) { return sum.Entries, low, high }
}

// ByEntry returns the snapshots whose session entry begins with a text,
// newest first. Each pair is a snapshot and nil, or nil and the error that
// ends the sequence.
func (s *Store) ByEntry(ctx context.Context, prefix string) iter.Seq2[*store.Snapshot, error] {
	low := journal.PrefixKey(prefix)
	high := journal.PrefixKey(prefix + strings.Repeat("\xff", 8))
	fits := func(snap *store.Snapshot) bool { return snap.Entry != "" && strings.HasPrefix(snap.Entry, prefix) }
	return s.collect(ctx, fits, entries(low, high))
}

// ByTree returns the snapshots whose tree's ID begins with some hex digits,
// of lower case, newest first. Each pair is a snapshot and nil, or nil and the
// error that ends the sequence.
func (s *Store) ByTree(ctx context.Context, prefix string) iter.Seq2[*store.Snapshot, error] {
	low, err1 := store.ParseID((prefix + strings.Repeat("0", 64))[:64])
	high, err2 := store.ParseID((prefix + strings.Repeat("f", 64))[:64])
	fits := func(snap *store.Snapshot) bool { return strings.HasPrefix(snap.Tree.String(), prefix) }
	return s.collect(ctx, fits, func(sum *journal.Summary) ([]journal.KeyRef, uint64, uint64) {
		if err1 != nil || err2 != nil || len(prefix) > 64 {
			return nil, 0, 0
		}
		return sum.Trees, journal.PrefixKey(low[:]), journal.PrefixKey(high[:])
	})
}

// collect locks the journal while it collects, not while the caller looks.
func (s *Store) collect(
	ctx context.Context, fits func(*store.Snapshot) bool, refs journal.Chooser,
) iter.Seq2[*store.Snapshot, error] {
	return func(yield func(*store.Snapshot, error) bool) {
		s.jmu.Lock()
		var found []*store.Snapshot
		err := s.j.Refresh()
		if err == nil {
			for snap, ferr := range s.j.Find(fits, refs) {
				if err = errors.Join(ferr, context.Cause(ctx)); err != nil {
					break
				}
				found = append(found, journal.Present(snap, s.j.Pruned))
			}
		}
		s.jmu.Unlock()
		for _, snap := range found {
			if !yield(snap, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// Sessions returns the newest snapshot of each session of each worktree,
// newest first. Each pair is a snapshot and nil, or nil and the error that
// ends the sequence.
func (s *Store) Sessions(ctx context.Context) iter.Seq2[*store.Snapshot, error] {
	seen := make(map[journal.HeadKey]bool)
	first := func(snap *store.Snapshot) bool {
		key := journal.HeadKey{Worktree: snap.Worktree, Session: snap.Session}
		defer func() { seen[key] = true }()
		return !seen[key]
	}
	return s.collect(ctx, first, func(sum *journal.Summary) ([]journal.KeyRef, uint64, uint64) {
		return sum.Lines, 0, ^uint64(0)
	})
}

// AnySession asks [Store.Newest] for a worktree's newest snapshot, whosever it
// is. No session has this name.
const AnySession = journal.AnySession

// Pruned returns the ID that stands for id in a snapshot that was pruned.
func Pruned(id store.ID) store.ID { return journal.Pruned(id) }
