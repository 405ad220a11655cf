package cas

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/store"
)

// A commitRequest waits for its turn in a group commit.
type commitRequest struct {
	generation int
	snap       *store.Snapshot // nil: objects only
	newest     uint64
	imports    func(first uint64) ([]*store.Snapshot, error) // of another store: see [Writer.Import]; nil: none
	done       bool                                          // set, like err, by the leader
	err        error
}

// A groupCommit lets concurrent commits of a process share their syncs: who
// gets the leader's lock commits all that wait.
type groupCommit struct {
	leader sync.Mutex

	mu    sync.Mutex // guards queue
	queue []*commitRequest
}

func (s *Store) commit(ctx context.Context, req *commitRequest) error {
	g := &s.commits
	g.mu.Lock()
	g.queue = append(g.queue, req)
	g.mu.Unlock()

	g.leader.Lock()
	defer g.leader.Unlock()
	if req.done {
		return req.err // an earlier leader took it along
	}
	g.mu.Lock()
	batch := g.queue
	g.queue = nil
	g.mu.Unlock()

	// The leader's patience is not the others': if ctx ends, they try again.
	err := s.commitBatch(ctx, batch)
	if err != nil && ctx.Err() != nil {
		g.mu.Lock()
		for _, r := range batch {
			if r != req {
				g.queue = append(g.queue, r)
			}
		}
		g.mu.Unlock()
		return err
	}
	for _, r := range batch {
		if err != nil {
			r.err = err
		}
		r.done = true
	}
	return req.err
}

// commitBatch makes the objects durable, then the records. A failure of one
// request alone is left in its err; an error of commitBatch is everyone's.
//
// The order is the design: each step may count on those before it having
// reached the disk.
func (s *Store) commitBatch(ctx context.Context, batch []*commitRequest) error {
	// 1. Objects: all packs that this process appended to.
	defer s.endOffer()
	if err := s.there(); err != nil {
		return err
	}
	s.flushGroups()
	packs, err := s.syncPacks()
	if err != nil {
		return err
	}
	batch = s.intact(batch)
	// 2. Their record. The lock is held until it is durable, so that no
	// later record can be there without it.
	err = s.withJournal(ctx, func() error { return s.appendRecords(batch, packs) })
	if errors.Is(err, errTaken) {
		s.wmu.Lock()
		s.fail(err)
		err = s.failed
		s.wmu.Unlock()
	}
	if err != nil {
		return err
	}
	// 3. Only now may the pack be closed for good, and the caller hear of it.
	s.wmu.Lock()
	defer s.wmu.Unlock()
	s.unwanted = nil // it is on record now
	var rest []*pack.Writer
	for _, w := range s.open() {
		for _, p := range packs {
			if p.Pack == w.ID {
				w.Committed = max(w.Committed, p.End)
			}
		}
		switch {
		case w == s.active:
		case w.Settled():
			s.seal(w)
		default:
			rest = append(rest, w)
		}
	}
	s.ended = rest
	if s.active != nil && s.active.Written >= pack.SealSizeIdle {
		s.sealActive()
	}
	return nil
}

// intact returns those requests whose objects are all there, and ends the
// others. A failure from here on cannot touch what is durable by now.
func (s *Store) intact(batch []*commitRequest) []*commitRequest {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	var rest []*commitRequest
	for _, r := range batch {
		r.err = nil // of a leader that gave up
		if r.generation != s.generation {
			r.err = s.failed
			continue
		}
		rest = append(rest, r)
	}
	return rest
}

// appendRecords puts the requests into the journal, which is locked.
func (s *Store) appendRecords(batch []*commitRequest, packs []journal.PackLen) error {
	if err := s.j.Writable(); err != nil { // before numbers are given out
		return err
	}
	packs, err := s.stillThere(packs)
	if err != nil {
		return err
	}
	var records []journal.Record
	taken := make(map[journal.HeadKey]bool) // sessions that this batch moves
	var numbered []*store.Snapshot
	for _, r := range batch {
		if r.imports != nil {
			var list []journal.Record
			list, r.err = importRecords(r, s.j.Given()+1+uint64(len(records)), packs)
			if r.err == nil && len(list) == 0 { // what was put is on record all the same
				list = []journal.Record{{Kind: journal.FramePacks, Body: journal.AppendPacks(nil, packs)}}
			}
			records = append(records, list...)
			continue
		}
		if r.snap == nil {
			records = append(records, journal.Record{Kind: journal.FramePacks, Body: journal.AppendPacks(nil, packs)})
			continue
		}
		if r.err = journal.UsesPruned(r.snap); r.err != nil {
			continue
		}
		key := journal.HeadKey{Worktree: r.snap.Worktree, Session: r.snap.Session}
		head, err := s.j.Head(key)
		if err != nil {
			return err
		}
		if taken[key] || head != nil && head.Seq != r.newest || head == nil && r.newest != 0 {
			r.err = fmt.Errorf("session %q: %w", r.snap.Session, ErrMoved)
			continue
		}
		body := journal.AppendSnapshot(nil, r.snap, packs)
		if r.err = checkBody(body); r.err != nil {
			continue
		}
		r.snap.Seq = s.j.Given() + 1 + uint64(len(records))
		taken[key] = true
		records = append(records, journal.Record{Kind: journal.FrameSnapshot, Body: body})
		numbered = append(numbered, r.snap)
	}
	if len(records) == 0 {
		return nil
	}
	if err = s.j.Append(records); err != nil {
		for _, snap := range numbered {
			snap.Seq = 0
		}
	}
	return err
}

// errTaken: a pack was removed, or replaced by another file, by somebody who did not say so before.
var errTaken = errors.New("was removed, cut or replaced while it was open")

// stillThere leaves out packs of others that have been taken away meanwhile, which is not to be said again. Who
// takes one says so before, under the lock that we have; of ours nobody takes any.
func (s *Store) stillThere(packs []journal.PackLen) (there []journal.PackLen, err error) {
	for _, p := range packs {
		s.mu.RLock()
		open, end := s.packs[p.Pack], int64(0) // what another's lacks was not found there, either
		s.mu.RUnlock()
		i := slices.IndexFunc(s.offered, func(w *pack.Writer) bool { return w.ID == p.Pack })
		if i >= 0 {
			open, end = s.offered[i].Pack, p.End
		}
		if open == nil || slices.Contains(s.j.Removed, p.Pack) {
			continue
		}
		is, err := open.IsAt(s.fsys, end)
		if i < 0 && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if !is {
			return nil, fmt.Errorf("%s %w", open.Name(), errTaken)
		}
		there = append(there, p)
	}
	return there, nil
}

// Skip has no record get a number up to one that was given out before: to a record
// that is lost, as who remembers it can tell. So it can be told from others if it
// comes back, and the gap stays for [Store.Check].
func (s *Store) Skip(seq uint64) {
	s.jmu.Lock()
	defer s.jmu.Unlock()
	s.j.Skip = max(s.j.Skip, seq)
}

// syncPacks makes durable what this process has appended, and returns the
// durable lengths of the unsealed packs that its writers may count on, its
// own and those of others: damage to the record that named one first must not
// take its objects from the records after it. Sealed packs need no mention:
// their index vouches for them.
func (s *Store) syncPacks() ([]journal.PackLen, error) {
	s.wmu.Lock()
	sealing := s.sealing
	if w := s.active; w != nil {
		if err := w.Flush(); err != nil {
			s.fail(err)
			s.wmu.Unlock()
			waitAll(sealing)
			return nil, err
		}
	}
	list := s.open()
	var packs []journal.PackLen
	for _, w := range list {
		packs = append(packs, journal.PackLen{Pack: w.ID, End: w.Written})
	}
	s.offered = list
	s.wmu.Unlock()

	var err error
	for i, w := range list {
		// Without the lock, so that others can append meanwhile.
		if err == nil {
			err = w.Sync(packs[i].End)
		}
	}
	if err == nil {
		err = s.namePacks(list)
	}
	if err != nil {
		s.wmu.Lock()
		s.fail(err)
		s.wmu.Unlock()
	}
	waitAll(sealing) // one that failed has ended our generation
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for id, end := range s.scanned {
		if end > layout.HeaderSize {
			packs = append(packs, journal.PackLen{Pack: id, End: end})
		}
	}
	journal.SortPacks(packs)
	return packs, nil
}

// namePacks gives packs their names, which are synced and whole. From here on others
// see them, and count on nothing in them before a record says so.
func (s *Store) namePacks(list []*pack.Writer) error {
	renamed := false
	for _, w := range list {
		if w.IsNamed() {
			continue
		}
		if err := s.fsys.Rename(w.File, w.Name()); err != nil {
			return err
		}
		s.wmu.Lock()
		w.File = w.Name()
		s.wmu.Unlock()
		s.mu.Lock()
		delete(s.unnamed, w.ID)
		s.mu.Unlock()
		renamed = true
	}
	if !renamed {
		return nil
	}
	return s.fsys.SyncDir("packs")
}
