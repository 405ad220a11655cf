package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/boocode/filestore/internal/vfs"
)

// PruneOptions say what a prune keeps.
type PruneOptions struct {
	// Drop reports whether a snapshot is not to be kept. nil: all are.
	Drop func(*Snapshot) bool
	// Mark adds all that a snapshot needs to live. It is called for each
	// snapshot that stays, and again in [Store.Prune] for those that were
	// recorded in between. The store cannot read trees. It must be given.
	Mark func(ctx context.Context, live *Live, snap *Snapshot) error
	// MaxCopy bounds how many bytes are copied out of packs that go, and with
	// that the space that is needed beside; 0: no limit. What does not fit is
	// left for the next prune.
	MaxCopy int64
	// Thorough has packs written anew of which little is dead, too.
	Thorough bool
	// Forget are blobs that do not stay though snapshots need them. Afterwards no
	// file of the store holds one of them, nor what no snapshot needs: of that
	// nobody can say whether it was a part of one. MaxCopy does not count then.
	Forget map[ID]bool
	// Wait bounds the wait for those who write or restore; 0: a minute. They
	// do not wait.
	Wait time.Duration
	// Alone says that nothing else in this process uses the Store: packs that go are
	// closed at once, so their bytes are free when Prune returns. Otherwise the
	// runtime does that when nobody reads them any more.
	Alone bool
}

// Live is a set of objects that are to stay.
type Live struct {
	s      *Store
	seen   map[[prefixSize]byte]bool // and whether a pack that has it was seen
	forget map[ID]bool               // these are not taken up
}

// Add takes up an object, and reports whether it is new.
func (l *Live) Add(id ID) bool {
	prefix := [prefixSize]byte(id[:])
	if _, ok := l.seen[prefix]; ok || l.forget[id] {
		return false
	}
	l.seen[prefix] = false
	return true
}

// AddBlob takes up a file's content of some length, with its chunks. The error
// matches [ErrNotFound] if it is missing.
func (l *Live) AddBlob(id ID, size int64) error {
	if !l.Add(id) {
		return nil
	}
	if size < minChunked {
		if there, err := l.s.Has(id); there || err != nil {
			return err
		}
	}
	o, err := l.s.Stored(Blob, id) // which looks again at what others have stored since
	if errors.Is(err, ErrForgotten) {
		return nil
	}
	for _, chunk := range o.Chunks {
		if err := l.addChunk(id, chunk); err != nil {
			return err
		}
	}
	return err
}

// addChunk takes up a chunk of a blob.
func (l *Live) addChunk(id, chunk ID) error {
	if l.forget[chunk] {
		return fmt.Errorf("blob %s is a part of %s, which stays: forget that, too", chunk.Short(), id)
	}
	l.Add(chunk)
	return nil
}

func (l *Live) has(id ID) bool {
	_, ok := l.seen[[prefixSize]byte(id[:])]
	return ok
}

// A PrunePlan is what [Store.Prune] will do.
type PrunePlan struct {
	Kept    int      // snapshots that stay
	Dropped []uint64 // the numbers of those that do not, ascending
	Packs   int      // that go
	Copy    int64    // bytes in them that are copied before
	Free    int64    // by so much the store gets smaller
	Left    int64    // bytes that nothing needs, and that stay for now
	Aside   []string // files beside packs/ that hold what goes: they are written anew, or removed
	Short   bool     // more is dead than goes, for want of room to copy: what comes free may do

	opts      *PruneOptions
	live      *Live
	pruned    seqSet // Dropped, and those of before
	newest    uint64 // number of the newest record that was marked
	before    ledger // the journal's when the plan was made
	condemned []*candidate
	staying   map[[16]byte]bool // sealed packs whose chunk lists need no look
	note      bool              // some of what is to be forgotten is not in the list of that
}

// A candidate is a pack that may go.
type candidate struct {
	id      [16]byte
	size    int64 // of its files
	live    int64 // bytes of records to be copied
	records int
	sealed  bool
	stays   bool       // somebody may append to it, or it is damaged: for a repair
	lists   []location // of chunks, that nothing needs
}

func (c *candidate) dead() int64 { return c.size - c.live }

// Empty reports whether there is nothing to do.
func (p *PrunePlan) Empty() bool { return len(p.Dropped)+len(p.condemned)+len(p.Aside) == 0 && !p.note }

// PlanPrune finds out what the store has that no snapshot needs, of those that
// are kept. It writes nothing but indexes that are missing.
func (s *Store) PlanPrune(ctx context.Context, opts *PruneOptions) (*PrunePlan, error) {
	p := &PrunePlan{opts: opts, live: &Live{s, make(map[[prefixSize]byte]bool), opts.Forget}, staying: make(map[[16]byte]bool)}
	f, err := readFormat(s.fsys)
	if err == nil {
		if needs := unknown(f.Features.Prune, knownToPrune); len(needs) > 0 {
			err = fmt.Errorf("%w: pruning needs %q", ErrFormat, needs)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("plan prune: %w", err)
	}
	s.jmu.Lock()
	err = s.j.refresh()
	p.before = s.j.ledger
	s.jmu.Unlock()
	if err == nil {
		err = s.planDrops(ctx, p)
	}
	if err != nil {
		return nil, fmt.Errorf("plan prune: %w", err)
	}
	var list []*candidate
	if list, err = s.candidates(ctx, p.live); err == nil {
		err = s.choose(p, list)
	}
	if err == nil {
		err = s.planForget(ctx, p)
	}
	if err != nil {
		return nil, fmt.Errorf("plan prune: %w", err)
	}
	return p, nil
}

// planDrops decides on each snapshot, and marks what those need that stay.
func (s *Store) planDrops(ctx context.Context, p *PrunePlan) error {
	type decided struct {
		seq     uint64
		dropped bool
	}
	var all []decided
	for snap, err := range s.Snapshots(ctx) {
		if err != nil {
			return err
		}
		p.newest = max(p.newest, snap.Seq)
		dropped := snap.Pruned
		switch {
		case dropped:
		case p.opts.Drop != nil && p.opts.Drop(snap):
			p.Dropped = append(p.Dropped, snap.Seq)
			dropped = true
		default:
			p.Kept++
			if err := p.mark(ctx, snap); err != nil {
				return err
			}
		}
		all = append(all, decided{snap.Seq, dropped})
	}
	slices.Reverse(p.Dropped)
	next := false
	for _, d := range slices.Backward(all) {
		if d.dropped {
			p.pruned.add(d.seq, next)
		}
		next = d.dropped
	}
	return nil
}

func (p *PrunePlan) mark(ctx context.Context, snap *Snapshot) error {
	if err := p.opts.Mark(ctx, p.live, snap); err != nil {
		return fmt.Errorf("snapshot %d: %w", snap.Seq, err)
	}
	return nil
}

// candidates counts in each pack what is to stay. Of several copies of an
// object one counts.
func (s *Store) candidates(ctx context.Context, live *Live) ([]*candidate, error) {
	if err := cmp.Or(s.refresh(), s.load()); err != nil { // which makes indexes again that are missing
		return nil, err
	}
	durable, err := s.durableLengths()
	if err != nil {
		return nil, err
	}
	ids, err := s.packIDs()
	if err != nil {
		return nil, err
	}
	var list []*candidate
	for _, id := range ids {
		c, err := s.candidate(id)
		if err != nil {
			return nil, err
		}
		if c != nil {
			list = append(list, c)
		}
	}
	// First those that are not taken away, then the largest: what is in two is
	// rather to stay in the larger.
	slices.SortFunc(list, func(a, b *candidate) int {
		if a.stays != b.stays {
			return map[bool]int{true: -1, false: 1}[a.stays]
		}
		return cmp.Compare(b.size, a.size)
	})
	for _, c := range list {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		err := s.count(c, live, durable[c.id])
		if errors.Is(err, ErrCorrupt) && len(live.forget) > 0 {
			return nil, fmt.Errorf("what is in a damaged pack cannot be told: %w", err)
		}
		if errors.Is(err, ErrCorrupt) || errors.Is(err, fs.ErrNotExist) {
			c.stays = true
		} else if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// candidate looks at one pack from outside; nil if it is gone.
func (s *Store) candidate(id [16]byte) (*candidate, error) {
	f, err := s.fsys.OpenFile(packName(id), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	c := &candidate{id: id, size: st.Size}
	index, err := s.fsys.Stat(indexName(id))
	switch {
	case err == nil:
		c.sealed = true
		c.size += index.Size
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	default:
		idle, err := f.TryLock(vfs.Exclusive)
		if err != nil {
			return nil, err
		}
		c.stays = !idle
	}
	return c, nil
}

// count counts what is to stay of a pack, and finds the chunk lists that are
// not; in a pack that stays, all of them.
func (s *Store) count(c *candidate, live *Live, durable int64) error {
	var damage error // of the first header that is
	err := s.eachRecord(c, durable, func(e indexEntry, read func() (recordHeader, error)) error {
		c.records++
		prefix := [prefixSize]byte(e.id[:])
		seen, ok := live.seen[prefix]
		if ok && !seen {
			live.seen[prefix] = true
			c.live += e.size()
		}
		if ok && !c.stays {
			return nil
		}
		h, err := read()
		if err == nil && h.kind == recChunked {
			c.lists = append(c.lists, e.location)
		}
		if errors.Is(err, ErrCorrupt) {
			damage, err = cmp.Or(damage, err), nil
		}
		return err
	})
	return cmp.Or(err, damage)
}

// eachRecord calls fn for each record of a pack, in the order of the file, with
// what is known of its ID, the prefix in an index, and with what reads its header.
func (s *Store) eachRecord(c *candidate, durable int64, fn func(e indexEntry, read func() (recordHeader, error)) error) error {
	p, err := openPack(s.fsys, s.id, c.id, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer p.f.Close()
	var entries []indexEntry
	if c.sealed {
		x, err := openIndex(s.fsys, s.id, p)
		if err == nil {
			defer x.f.Close()
			err = x.all(func(prefix [prefixSize]byte, loc location) {
				e := indexEntry{location: loc}
				copy(e.id[:], prefix[:])
				entries = append(entries, e)
			})
		}
		if errors.Is(err, errIndex) || errors.Is(err, errHeader) || errors.Is(err, ErrFormat) || errors.Is(err, io.EOF) {
			return &CorruptError{Path: indexName(c.id), Err: err}
		}
		if err != nil {
			return err
		}
	} else {
		damage, err := p.scan(fileHeaderSize, durable, func(e indexEntry) { entries = append(entries, e) })
		if err != nil {
			return err
		}
		if len(damage) > 0 {
			return damage[0]
		}
	}
	slices.SortFunc(entries, func(a, b indexEntry) int { return cmp.Compare(a.off, b.off) })
	var b [recordHeaderSize]byte
	for _, e := range entries {
		err := fn(e, func() (recordHeader, error) {
			if _, err := p.f.ReadAt(b[:], e.off); err != nil && err != io.EOF {
				return recordHeader{}, err
			}
			h, err := parseRecordHeader(b[:])
			if err != nil {
				return h, corrupt(e.location, "%w", err)
			}
			return h, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// hasSound reports whether an object can be read from where a writer may count
// on it. Looking costs only what is there twice.
func (s *Store) hasSound(id ID) (bool, error) {
	if there, err := s.counts(id); !there || err != nil {
		return false, err
	}
	s.mu.RLock()
	absent := s.absent
	s.mu.RUnlock()
	for _, loc := range s.copies(id) {
		if absent[loc.pack.id] {
			continue
		}
		if err := s.flushFor(loc); err != nil {
			return false, err
		}
		h, _, err := readRecord(indexEntry{id, loc})
		if err == nil && h.id == id {
			return true, nil
		}
		if err != nil && !errors.Is(err, ErrCorrupt) {
			return false, err
		}
	}
	return false, nil
}

const (
	// minDead is which part of a pack must be dead for it to be written anew, 1
	// in so many: what is dead stays below a third of what is alive.
	minDead = 4
	// minDeadThorough is the same if the prune is to be thorough.
	minDeadThorough = 64
	// manySmall is how many packs that are small make one.
	manySmall = 8
	// manyPacks is from how many packs on those count as small that are less
	// than half of what a pack may be: each costs a look for each new object.
	manyPacks = 64
)

// choose decides which packs go.
func (s *Store) choose(p *PrunePlan, list []*candidate) error {
	forget := len(p.opts.Forget) > 0
	take := func(c *candidate) bool {
		if p.opts.MaxCopy > 0 && !forget && c.live > 0 && p.Copy+c.live > p.opts.MaxCopy {
			p.Short = true
			return false
		}
		p.condemned = append(p.condemned, c)
		p.Packs++
		p.Copy += c.live
		p.Free += c.dead()
		return true
	}
	// The most gain first: what is wholly dead costs nothing.
	slices.SortStableFunc(list, func(a, b *candidate) int {
		return cmp.Compare(float64(b.dead())/float64(b.size), float64(a.dead())/float64(a.size))
	})
	const overhead = fileHeaderSize + bucketsSize
	part := int64(minDead)
	if p.opts.Thorough {
		part = minDeadThorough
	}
	smallSize := sealSizeIdle
	if len(list) > manyPacks {
		smallSize = sealSizeMax / 2
	}
	var small, stay []*candidate
	for _, c := range list {
		dead := c.dead() - overhead
		switch {
		case forget && !c.isPure(): // who appends to it must end
			c.stays = !take(c)
		case forget || c.stays:
			stay = append(stay, c)
		// A chunk list may not outlive its chunks: who finds it counts on them.
		case (len(c.lists) > 0 || dead*part >= c.size) && dead > 0 && take(c):
		case c.sealed && c.size < smallSize:
			small = append(small, c)
		default:
			stay = append(stay, c)
		}
	}
	if len(small) < manySmall {
		stay = append(stay, small...)
		small = nil
	}
	for _, c := range small {
		if !take(c) {
			stay = append(stay, c)
		}
	}
	for _, c := range stay {
		if c.sealed && !c.stays {
			p.staying[c.id] = true
		}
		p.Left += max(c.dead()-overhead, 0)
		if err := s.keepChunks(p.live, c.lists); err != nil {
			return err
		}
	}
	return nil
}

// keepChunks keeps what chunk lists name that stay in their packs.
func (s *Store) keepChunks(live *Live, lists []location) error {
	for _, loc := range lists {
		p, err := openPack(s.fsys, s.id, loc.pack.id, os.O_RDONLY)
		if err != nil {
			return err
		}
		h, list, err := readRecord(indexEntry{location: location{p, loc.off, loc.stored}})
		p.f.Close()
		if errors.Is(err, ErrCorrupt) {
			continue // nobody can count on it
		}
		if err != nil {
			return err
		}
		for ; len(list) >= chunkRefSize; list = list[chunkRefSize:] {
			if err := live.addChunk(h.id, ID(list[:32])); err != nil {
				return err
			}
		}
	}
	return nil
}

// Prune does what a plan says, and no more. It may run beside readers and
// writers of other processes; docs/concurrency.md has the order. A writer of this
// goroutine must be closed before, or Prune waits for it in vain.
//
// After an error all is as it was, unless the prune was on record as done by then,
// or what takes the announcement back could not be recorded: then the snapshots
// are pruned, and the next prune frees what is left. [ErrBusy] says that others
// did not come to their end.
func (s *Store) Prune(ctx context.Context, plan *PrunePlan) (*PruneResult, error) {
	if s.readOnly {
		return nil, errors.New("prune: store is open read-only")
	}
	s.MakeRoom(false)
	defer s.KeepBallast()
	r, err := s.prune(ctx, plan)
	if err != nil {
		return nil, fmt.Errorf("prune: %w", err)
	}
	return r, nil
}

// A PruneResult is what a prune has done.
type PruneResult struct {
	Dropped int     // snapshots
	Packs   int     // that were taken away
	Copied  int64   // bytes of records
	Freed   int64   // bytes of files, less what was copied
	Kept    []error // damage, for which packs stayed that were to go
}

func (s *Store) prune(ctx context.Context, plan *PrunePlan) (*PruneResult, error) {
	alone, err := openLock(s.fsys, repairLock)
	if err != nil {
		return nil, err
	}
	defer alone.Close()
	if err := vfs.Lock(ctx, alone, vfs.Exclusive); err != nil {
		return nil, err
	}
	r := &pruneRun{s: s, plan: plan, result: &PruneResult{Dropped: len(plan.Dropped)}}
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	if len(r.condemned) == 0 {
		if len(plan.Dropped) > 0 {
			// Nobody has to leave, since what they count on stays.
			err = r.record(ctx, func(l ledger) (ledger, error) {
				err := r.isCurrent(l)
				l.epoch++ // who remembers a snapshot looks again
				l.condemned, l.removed, l.pruned = nil, nil, plan.pruned
				return l, err
			})
		}
		if err == nil {
			err = r.forget(ctx)
		}
		return r.result, err
	}
	if err := r.announce(ctx); err != nil {
		return nil, err
	}
	wait := plan.opts.Wait
	if wait == 0 {
		wait = time.Minute
	}
	patience, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("%w: somebody has written or restored for %v", ErrBusy, wait))
	defer cancel()
	locks, err := s.drain(patience, r.before.completed, r.epoch)
	if err != nil {
		return nil, errors.Join(err, r.withdraw())
	}
	defer closeAll(locks)
	r.drained = true
	if err := r.remark(ctx); err != nil {
		return nil, errors.Join(err, r.withdraw())
	}
	err = r.copy(ctx)
	if err == nil && len(plan.opts.Forget) > 0 {
		err = s.noteForgotten(plan.opts.Forget) // before one is missed
	}
	if err != nil {
		return nil, errors.Join(err, r.withdraw())
	}
	if err := r.done(ctx); err != nil {
		return nil, err
	}
	if err := r.cleanUp(); err != nil {
		return nil, err
	}
	return r.result, r.forget(ctx)
}

// A pruneRun is a prune that is being done.
type pruneRun struct {
	s         *Store
	plan      *PrunePlan
	result    *PruneResult
	condemned []*candidate
	before    ledger // the journal's, before the announcement
	epoch     uint64 // that was announced
	drained   bool   // nobody is in an epoch before it
	removed   [][16]byte
}

// begin brings an earlier prune to its end, and seals the packs that are to go
// and are not yet.
func (r *pruneRun) begin(ctx context.Context) error {
	s := r.s
	s.jmu.Lock()
	err := s.j.refresh()
	removed := s.j.removed
	s.jmu.Unlock()
	if err != nil {
		return err
	}
	if err := s.removePacks(removed); err != nil {
		return err
	}
	forget := len(r.plan.opts.Forget) > 0
	if forget {
		s.Seal()
	}
	for _, c := range r.plan.condemned {
		if !c.sealed {
			err := s.sealIdle(c.id)
			if IsNoSpace(err) && !forget { // what need not be sealed goes first
				r.plan.Short = true
				r.plan.Left += c.dead()
				continue
			}
			if err != nil {
				return err
			}
			if _, err := s.fsys.Stat(indexName(c.id)); errors.Is(err, fs.ErrNotExist) && forget {
				return fmt.Errorf("%w: another process appends to %s", ErrBusy, packName(c.id))
			} else if errors.Is(err, fs.ErrNotExist) {
				continue // somebody appends to it by now
			} else if err != nil {
				return err
			}
			c.sealed = true
		}
		r.condemned = append(r.condemned, c)
	}
	return context.Cause(ctx)
}

// sealIdle seals a pack that nobody appends to.
func (s *Store) sealIdle(id [16]byte) error {
	w, err := adoptPack(s.fsys, s.id, id, func() (int64, error) { return s.durable(id) })
	if w == nil || err != nil {
		return err
	}
	defer w.f.Close()
	return w.seal(s.fsys, s.id, w.written)
}

// announce makes known which packs and snapshots go. From here on writers that
// begin do not count on them.
func (r *pruneRun) announce(ctx context.Context) error {
	return r.record(ctx, func(l ledger) (ledger, error) {
		r.before, r.epoch = l, l.epoch+1
		l.epoch = r.epoch
		l.removed = nil // they are
		l.condemned = nil
		for _, c := range r.condemned {
			l.condemned = append(l.condemned, c.id)
		}
		l.pruned = r.plan.pruned
		return l, r.isCurrent(r.before)
	})
}

// isCurrent returns an error if somebody has pruned or repaired the store since
// the plan was made.
func (r *pruneRun) isCurrent(l ledger) error {
	if l.epoch != r.plan.before.epoch || !slices.Equal(l.pruned, r.plan.before.pruned) {
		return ErrPlanStale
	}
	return nil
}

// withdraw takes the announcement back. Whoever prunes next waits for those who
// have entered since the last prune that was done.
func (r *pruneRun) withdraw() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return r.record(ctx, func(l ledger) (ledger, error) {
		l.epoch++ // who remembers a snapshot looks again
		l.condemned, l.pruned = nil, r.before.pruned
		if r.drained {
			l.completed = r.epoch
		}
		return l, nil
	})
}

// done says that the packs are gone.
func (r *pruneRun) done(ctx context.Context) error {
	return r.record(ctx, func(l ledger) (ledger, error) {
		if l.epoch != r.epoch {
			return l, errors.New("the journal has lost the announcement: nothing is removed")
		}
		l.completed, l.condemned, l.removed = r.epoch, nil, r.removed
		return l, nil
	})
}

// record puts another ledger into the journal.
func (r *pruneRun) record(ctx context.Context, fn func(ledger) (ledger, error)) error {
	s := r.s
	return withLock(ctx, s.fsys, journalLock, func() error {
		s.jmu.Lock()
		defer s.jmu.Unlock()
		if err := s.j.refresh(); err != nil {
			return err
		}
		if err := s.upgrade(); err != nil {
			return err
		}
		if err := s.j.writable(); err != nil {
			return err
		}
		l, err := fn(s.j.ledger)
		if err != nil {
			return err
		}
		// As of any record, the objects must not hang on one that may be lost.
		body := l.appendBody(nil, s.j.unsealedPacks())
		if len(body) > maxFrameBody {
			return fmt.Errorf("record of %d bytes: the limit is %d", len(body), maxFrameBody)
		}
		return s.j.append([]record{{kind: frameLedger, body: body}})
	})
}

// remark marks what was recorded since the plan was made, and the chunks that
// lists name in packs that nobody has looked at.
func (r *pruneRun) remark(ctx context.Context) error {
	s, p := r.s, r.plan
	for snap, err := range s.Snapshots(ctx) {
		if err != nil {
			return err
		}
		if snap.Seq <= p.newest {
			break
		}
		if err := p.mark(ctx, snap); err != nil {
			return err
		}
	}
	durable, err := s.durableLengths()
	if err != nil {
		return err
	}
	ids, err := s.packIDs()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if p.staying[id] || slices.ContainsFunc(r.condemned, func(c *candidate) bool { return c.id == id }) {
			continue
		}
		c, err := s.candidate(id)
		if err != nil {
			return err
		}
		if c == nil {
			continue
		}
		c.stays = true
		if err := s.count(c, p.live, durable[id]); err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := s.keepChunks(p.live, c.lists); err != nil {
			return err
		}
	}
	return nil
}

// copy makes durable elsewhere what is alive in the packs that go. A pack that
// is damaged stays, for a repair.
func (r *pruneRun) copy(ctx context.Context) (err error) {
	s := r.s
	w, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := cmp.Or(s.refresh(), s.load()); err != nil {
		return err
	}
	var whole []*candidate
	for _, c := range r.condemned {
		err := r.copyPack(ctx, w, c)
		var damage *CorruptError
		if errors.As(err, &damage) && len(r.plan.opts.Forget) == 0 {
			r.result.Kept = append(r.result.Kept, damage)
			err = s.keepChunks(r.plan.live, c.lists)
		} else if err == nil {
			whole = append(whole, c)
		}
		if err != nil {
			return err
		}
	}
	for _, c := range whole {
		if len(r.result.Kept) > 0 { // the chunks of lists that stay
			if err := r.copyPack(ctx, w, c); err != nil {
				return err
			}
		}
		r.removed = append(r.removed, c.id)
		r.result.Packs++
		r.result.Freed += c.size
	}
	r.result.Freed -= r.result.Copied
	return w.commit(ctx, &commitRequest{generation: w.generation})
}

func (r *pruneRun) copyPack(ctx context.Context, w *Writer, c *candidate) error {
	p, err := openPack(r.s.fsys, r.s.id, c.id, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer p.f.Close()
	return r.s.eachRecord(c, 0, func(e indexEntry, _ func() (recordHeader, error)) error {
		if err := context.Cause(ctx); err != nil || !r.plan.live.has(e.id) {
			return err
		}
		h, payload, err := p.read(location{p, e.off, e.stored})
		if err != nil {
			return err
		}
		if there, err := r.s.hasSound(h.id); there || err != nil {
			return err
		}
		r.result.Copied += h.size()
		return r.s.append(w.generation, h, payload)
	})
}

// cleanUp removes the packs, and what nobody needs any more.
func (r *pruneRun) cleanUp() error {
	s := r.s
	if err := s.removePacks(r.removed); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := r.record(ctx, func(l ledger) (ledger, error) {
		l.removed = nil
		return l, nil
	})
	if err != nil {
		return err
	}
	for n := r.before.completed; n < r.epoch; n++ {
		// Who still waits for one looks at the journal when he has it.
		if err := s.fsys.Remove(epochLock(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	files := s.filesOf(r.removed)
	err = errors.Join(s.sweep(), s.see())
	if r.plan.opts.Alone {
		closeAll(files)
	}
	return err
}

// filesOf returns the files that are open of packs.
func (s *Store) filesOf(ids [][16]byte) (files []vfs.File) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, id := range ids {
		if p := s.packs[id]; p != nil {
			files = append(files, p.f)
		}
	}
	for _, x := range s.indexes {
		if slices.Contains(ids, x.pack.id) {
			files = append(files, x.f)
		}
	}
	return files
}

// abandoned is the age from which a file in tmp/ is nobody's: no write takes so
// long.
const abandoned = 24 * time.Hour

// sweep removes files from tmp/ that were being written when their processes
// died. Ages are told by the file system's own clock.
func (s *Store) sweep() error {
	s.jmu.Lock()
	now, err := s.fsys.Stat(segmentName(s.j.seg))
	s.jmu.Unlock()
	if err != nil {
		return err
	}
	names, err := s.fsys.ReadDir("tmp")
	if err != nil {
		return err
	}
	for _, name := range names {
		st, err := s.fsys.Stat("tmp/" + name)
		if err == nil && st.Kind == vfs.Regular && now.Mtime-st.Mtime > int64(abandoned) {
			err = s.fsys.Remove("tmp/" + name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
