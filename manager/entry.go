package manager

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

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
func (m *FileSnapshotManager) dataOf(r *record, changes []change, unknown string) *StepSnapshotData {
	own, contested := diffsOf(changes)
	own.Unknown = unknown
	d := &StepSnapshotData{SnapshotTreeHash: r.Tree, Diff: own.orNil(), Contested: contested.orNil(), TurnIndex: r.data.Turn,
		RuntimeTurnIndex: r.data.RuntimeTurn, SnapshotSeq: r.Seq, Interrupted: r.data.Interrupted, Partial: r.data.Partial}
	if r.Kind == kindStep {
		d.BaselineTreeHash = &r.Base.Tree
	}
	return d
}

// readData is dataOf for a step of which the changes are not at hand.
func (m *FileSnapshotManager) readData(ctx context.Context, r *record) (*StepSnapshotData, error) {
	changes, err := m.changes(ctx, r)
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
		head, err := m.newest(ctx, m.opts.Session)
		var untold []*record
		if err == nil {
			untold, err = m.untold(ctx, head)
		}
		if err != nil {
			yield(offer{}, err)
			return
		}
		for _, r := range untold {
			if l.log != nil {
				if e := l.entryOf(r); e != nil { // but we were not told so
					if err := m.bind(ctx, r, e.ID); err != nil {
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
	r, err := m.record(ctx, seq)
	if err == nil && (r.Session != m.opts.Session || r.Worktree != m.project.Worktree() || r.Kind != kindStep && r.Kind != kindRestore) {
		err = fmt.Errorf("%w: it is none of the session's", ErrUnknown)
	}
	if errors.Is(err, store.ErrNotFound) {
		err = ErrUnknown
	}
	if err == nil {
		err = m.isFree(ctx, entryID, r)
	}
	if err == nil {
		err = m.bind(context.WithoutCancel(ctx), r, entryID)
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
		if err := m.bind(context.WithoutCancel(ctx), r, id); err != nil {
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
		if s.Entry == id && s.Session == m.opts.Session && s.Worktree == m.project.Worktree() && s.Seq != r.Seq {
			return fmt.Errorf("entry %q: %w: turn %d has the same", id, session.ErrEntryExists, r.data.Turn)
		}
	}
	return nil
}

// untold returns the steps that no log has been given, oldest first. head is
// the session's newest record, or nil.
func (m *FileSnapshotManager) untold(ctx context.Context, head *record) ([]*record, error) {
	var list []*record
	for r, err := range m.untoldBack(ctx, head) {
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	slices.Reverse(list)
	return list, nil
}

// newestUntold returns the number of the newest step that no log has been
// given, 0 if there is none.
func (m *FileSnapshotManager) newestUntold(ctx context.Context, head *record) (uint64, error) {
	for r, err := range m.untoldBack(ctx, head) {
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
func (m *FileSnapshotManager) untoldBack(ctx context.Context, head *record) iter.Seq2[*record, error] {
	return func(yield func(*record, error) bool) {
		for r := head; r != nil; {
			if r.isUntold() && !yield(r, nil) || r.data.Untold == 0 {
				return
			}
			var err error
			r, err = m.recordOrBefore(ctx, r.data.Untold, func(s *store.Snapshot) bool { return s.Session == head.Session })
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// isUntold reports whether a record is a step that no log has been given, and
// can be.
func (r *record) isUntold() bool { return r.Kind == kindStep && !r.data.Told && !r.Pruned }

// bind records which entry of the runtime's log a step has, unless it was pruned.
func (m *FileSnapshotManager) bind(ctx context.Context, r *record, entry string) error {
	amended := &record{Snapshot: new(store.Snapshot), data: r.data}
	*amended.Snapshot = *r.Snapshot
	amended.Entry, amended.data.Told = entry, true
	// Those before it may have been told since. Of a runtime that tells each step
	// after the next one the chain would lead over all of them.
	if r.data.Untold != 0 {
		before, err := m.recordOrBefore(ctx, r.data.Untold, func(s *store.Snapshot) bool { return s.Session == r.Session })
		if err == nil {
			amended.data.Untold, err = m.newestUntold(ctx, before)
		}
		if err != nil {
			return err
		}
	}
	amended.write()
	err := m.store.Amend(ctx, amended.Snapshot)
	if errors.Is(err, store.ErrPruned) { // nobody asks for it again
		return nil
	}
	if err != nil {
		return err
	}
	m.loaded[r.Seq] = amended
	return nil
}

// appendOwn writes the steps that our own log of the session lacks. ours says
// that no runtime keeps a log of it, so that what none was given is for ours. head is
// the session's newest record; nil: there is none.
func (m *FileSnapshotManager) appendOwn(ctx context.Context, head *record, ours bool) error {
	if m.own == nil {
		log, err := session.OpenLog(ctx, m.store.FS(), m.sessionsDir()+"/"+m.opts.Session+".jsonl",
			&session.Header{ID: m.opts.Session, CWD: m.project.Root})
		if err != nil {
			return err
		}
		m.own = log
	}
	if head == nil {
		return nil
	}
	untold, err := m.untold(ctx, head)
	if err != nil {
		return err
	}
	if !ours {
		untold = nil // a runtime's, which will ask for them
	}
	for _, r := range untold { // turns that were cut off
		id, err := m.newEntryID(ctx)
		if err == nil {
			r.data.Own = true
			err = m.bind(ctx, r, id)
		}
		if err != nil {
			return err
		}
	}
	err = m.completeOwn(ctx, head)
	if errors.Is(err, session.ErrEntryExists) { // another process was faster
		err = m.completeOwn(ctx, head)
	}
	return err
}

// completeOwn appends what our own log lacks of the line up to head, and of the
// restores.
func (m *FileSnapshotManager) completeOwn(ctx context.Context, head *record) error {
	if err := m.own.Refresh(ctx); err != nil {
		return err
	}
	has := func(r *record) bool {
		_, ok := m.own.Tree().Entry(r.Entry)
		return ok
	}
	var missing []*record
	records := &line{m: m}
	r, err := m.stepAt(ctx, head.step(), head.Session)
	for ; r != nil || err != nil; r, err = records.stepBefore(ctx, r) {
		if err != nil {
			return err
		}
		if !r.data.Own || !r.isStep() {
			continue // a start without an entry, a step that a runtime's log has, an empty turn, or a restore
		}
		if has(r) || r.Pruned {
			break
		}
		missing = append(missing, r)
	}
	r, err = m.lastRestore(ctx, head)
	for ; r != nil || err != nil; r, err = m.restoreBefore(ctx, r) {
		if err != nil {
			return err
		}
		if r.data.Own && has(r) || r.Pruned {
			break
		}
		if r.data.Own {
			missing = append(missing, r)
		}
	}
	slices.SortFunc(missing, func(a, b *record) int { return cmp.Compare(a.Seq, b.Seq) })
	var entries []session.Entry
	for _, r := range missing {
		e, err := m.ownEntry(ctx, r)
		if err != nil {
			return err
		}
		entries = append(entries, *e)
	}
	if len(entries) == 0 {
		return nil
	}
	return m.own.Append(ctx, entries...)
}

// ownEntry returns the entry of a step, or of a restore, in our own log.
func (m *FileSnapshotManager) ownEntry(ctx context.Context, r *record) (*session.Entry, error) {
	parent := ""
	for seq := r.data.Prev; seq != 0 && parent == ""; { // the nearest that has one
		up, err := m.stepAt(ctx, seq, r.Session)
		if err != nil {
			return nil, err
		}
		if seq = up.data.Prev; up.data.Step > up.data.Restored { // no restore lies between, which may have one
			seq = up.data.Step
		}
		if up.data.Own {
			parent = up.Entry
		}
	}
	var e *session.Entry
	if r.Kind == kindRestore {
		d, err := m.unrevertPoint(ctx, r)
		if err != nil {
			return nil, err
		}
		e = d.entry(r.Entry, parent)
	} else {
		d, err := m.readData(ctx, r)
		if err != nil {
			return nil, err
		}
		step := d.Entry(r.Entry, parent)
		e = &step
	}
	e.Timestamp = r.Time
	return e, nil
}
