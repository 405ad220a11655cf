package manager

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// An AppendFunc appends the data of a step to the runtime's session log, as
// that of a custom entry of type step-snapshot, and returns the entry's ID. A
// runtime that does not know the ID returns "": RebuildIndex finds it later.
// It is called by the goroutine that called OnTurnEnd, and may not call the
// manager.
//
// An error leaves the step recorded, and it is offered again at the end of the
// next turn. So a turn's end may call it several times: first for older steps,
// and for turns that were cut off.
type AppendFunc func(ctx context.Context, data *StepSnapshotData) (entryID string, err error)

// newEntryID returns an ID that no entry in the store has: 8 hex digits, as pi
// has them.
func (m *FileSnapshotManager) newEntryID(ctx context.Context) (string, error) {
	return unusedID(func(id string) (bool, error) {
		for _, err := range m.store.ByEntry(ctx, id) {
			return true, err
		}
		return false, nil
	})
}

// unusedID draws IDs of entries until one is not used.
func unusedID(isUsed func(string) (bool, error)) (string, error) {
	for {
		var b [4]byte
		rand.Read(b[:]) // never fails (crypto/rand)
		id := hex.EncodeToString(b[:])
		if used, err := isUsed(id); !used || err != nil {
			return id, err
		}
	}
}

// dataOf returns the data of a step's entry.
func (m *FileSnapshotManager) dataOf(r *record, changes []windows.Change, unknown string) *StepSnapshotData {
	own, contested := diffsOf(changes)
	own.Unknown = unknown
	d := &StepSnapshotData{SnapshotTreeHash: r.Tree, Diff: own.orNil(), Contested: contested.orNil(),
		TurnIndex: r.Facts.Turn, RuntimeTurnIndex: r.Facts.RuntimeTurn, SnapshotSeq: r.Seq,
		Interrupted: r.Facts.Interrupted, Partial: r.Facts.Partial}
	if r.Kind == history.KindStep {
		d.BaselineTreeHash = &r.Base.Tree
	}
	return d
}

// readData is dataOf for a step of which the changes are not at hand.
func (m *FileSnapshotManager) readData(ctx context.Context, r *record) (*StepSnapshotData, error) {
	changes, err := m.byRecords().Changes(ctx, r)
	unknown, err := lost(err)
	if err != nil {
		return nil, err
	}
	return m.dataOf(r, changes, unknown), nil
}

// An offer is a step that the runtime has not heard of.
type offer struct {
	r    *record
	data *StepSnapshotData
}

// offers yields the steps that the runtime has not heard of, oldest first. Those
// that its log has are bound to their entries. Of those that are not of the turn
// that ends it yields at most so many as limit says.
func (m *FileSnapshotManager) offers(ctx context.Context, l *line, result *Result, limit int) iter.Seq2[offer, error] {
	return func(yield func(offer, error) bool) {
		head, err := m.records.Newest(m.opts.Session)
		var untold []*record
		if err == nil {
			untold, err = m.records.Untold(ctx, head)
		}
		if err != nil {
			yield(offer{}, err)
			return
		}
		for _, r := range untold {
			if l.log != nil {
				if e := l.entryOf(r); e != nil { // but we were not told so
					if err := m.bind(ctx, r, e.ID, true); err != nil {
						yield(offer{}, err)
						return
					}
					continue
				}
			}
			data := result.Data
			if data == nil || data.SnapshotSeq != r.Seq {
				if limit--; limit < 0 {
					continue
				}
				if data, err = m.readData(ctx, r); err != nil {
					yield(offer{}, err)
					return
				}
				data.Late, data.AboveEntryID = true, r.Above
			}
			if !yield(offer{r, data}, nil) {
				return
			}
		}
	}
}

// Told says that the runtime's log has an entry for what was recorded under a
// number: a step that EndTurn has offered, or a restore. An entry that another
// step has matches [session.ErrEntryExists], a number that the session has not
// [ErrUnknown].
func (m *FileSnapshotManager) Told(ctx context.Context, seq uint64, entryID string) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := m.records.Record(ctx, seq)
	if err == nil && (r.Session != m.opts.Session || r.Worktree != m.project.Worktree ||
		r.Kind != history.KindStep && r.Kind != history.KindRestore) {
		err = fmt.Errorf("%w: it is none of the session's", ErrUnknown)
	}
	if errors.Is(err, store.ErrNotFound) {
		err = ErrUnknown
	}
	if err == nil {
		err = m.isFree(ctx, entryID, r)
	}
	if err == nil {
		isLogged := false
		if l, lerr := m.line(ctx); lerr == nil && l.log != nil {
			e := l.entryOf(r)
			isLogged = e != nil && e.ID == entryID
		}
		err = m.bind(context.WithoutCancel(ctx), r, entryID, isLogged)
	}
	if err != nil {
		return fmt.Errorf("entry of record %d: %w", seq, err)
	}
	return nil
}

// tell gives the runtime the steps that it has not heard of, oldest first.
func (m *FileSnapshotManager) tell(ctx context.Context, result *Result, append AppendFunc) error {
	l, err := m.line(ctx)
	if err != nil {
		return err
	}
	for o, err := range m.offers(ctx, l, result, math.MaxInt) {
		if err != nil {
			return err
		}
		r, data := o.r, o.data
		id, err := append(ctx, data)
		if err != nil {
			return err
		}
		if err := m.isFree(ctx, id, r); err != nil {
			return err
		}
		// The runtime has it by now: that must not be forgotten.
		if err := m.bind(context.WithoutCancel(ctx), r, id, false); err != nil {
			return err
		}
		if data == result.Data {
			result.EntryID = id
		}
		if m.given != nil && id == "" && l.entryOf(r) == nil {
			m.given = nil // it falls behind: the records lead until it is given again
		}
		if m.given == nil || id == "" {
			continue
		}
		if _, ok := m.given.Entry(id); !ok { // the runtime does not keep the tree up to date
			m.given.Add(data.Entry(id, m.leaf(m.given)))
		}
	}
	return nil
}

// isFree reports as an error that a runtime has given a step an ID that is
// another one's.
func (m *FileSnapshotManager) isFree(ctx context.Context, id string, r *record) error {
	if id == "" {
		return nil
	}
	for s, err := range m.store.ByEntry(ctx, id) {
		if err != nil {
			return err
		}
		if s.Entry == id && s.Session == m.opts.Session && s.Worktree == m.project.Worktree && s.Seq != r.Seq {
			return fmt.Errorf("entry %q: %w: turn %d has the same", id, session.ErrEntryExists, r.Facts.Turn)
		}
	}
	return nil
}

// bind records which entry of the runtime's log a step has, unless it was pruned. If the
// log itself has the entry, it leads to the step, and a power cut may take the record.
func (m *FileSnapshotManager) bind(ctx context.Context, r *record, entry string, isLogged bool) error {
	amended := &record{Snapshot: new(store.Snapshot), Facts: r.Facts}
	*amended.Snapshot = *r.Snapshot
	amended.Entry, amended.Facts.Told = entry, true
	// Those before it may have been told since. Of a runtime that tells each step
	// after the next one the chain would lead over all of them.
	if r.Facts.Untold != 0 {
		isOwn := func(s *store.Snapshot) bool { return s.Session == r.Session }
		before, err := m.records.OrBefore(ctx, r.Facts.Untold, isOwn)
		if err == nil {
			amended.Facts.Untold, err = m.records.NewestUntold(ctx, before)
		}
		if err != nil {
			return err
		}
	}
	amended.Write()
	amend := m.store.Amend
	if isLogged {
		amend = m.store.AmendSoon
	}
	err := amend(ctx, amended.Snapshot)
	if errors.Is(err, store.ErrPruned) { // nobody asks for it again
		return nil
	}
	if err != nil {
		return err
	}
	m.records.Remember(amended)
	return nil
}

// nameUntold gives entries of ours to the steps that no log has been given: turns that
// were cut off, of a session that no runtime keeps a log of. head is its newest record.
func (m *FileSnapshotManager) nameUntold(ctx context.Context, head *record) error {
	untold, err := m.records.Untold(ctx, head)
	for _, r := range untold {
		var id string
		if id, err = m.newEntryID(ctx); err == nil {
			r.Facts.Own = true
			err = m.bind(ctx, r, id, false)
		}
		if err != nil {
			break
		}
	}
	return err
}
