package cas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/store"
)

// PruneOptions say what a prune keeps.
type PruneOptions struct {
	// Drop reports whether a snapshot is not to be kept. nil: all are.
	Drop func(*store.Snapshot) bool
	// Mark adds all that a snapshot needs to live. It is called for each
	// snapshot that stays, and again in [Store.Prune] for those that were
	// recorded in between. The store cannot read trees. It must be given.
	Mark func(ctx context.Context, live *Live, snap *store.Snapshot) error
	// MaxCopy bounds how many bytes are copied out of packs that go, and with
	// that the space that is needed beside; 0: no limit. What does not fit is
	// left for the next prune.
	MaxCopy int64
	// Thorough has packs written anew of which little is dead, too.
	Thorough bool
	// Forget are blobs that do not stay though snapshots need them. Afterwards no
	// file of the store holds one of them, nor what no snapshot needs: of that
	// nobody can say whether it was a part of one. MaxCopy does not count then.
	Forget map[store.ID]bool
	// Evict are blobs that a remote has promised, and that need not stay here.
	Evict map[store.ID]bool
	// Wait bounds the wait for those who write or restore; 0: a minute. They
	// do not wait.
	Wait time.Duration
	// Alone says that nothing else in this process uses the Store: packs that go are
	// closed at once, so their bytes are free when Prune returns. Otherwise the
	// runtime does that when nobody reads them any more.
	Alone bool
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
	pruned    journal.SeqSet // Dropped, and those of before
	newest    uint64         // number of the newest record that was marked
	before    journal.Ledger // the journal's when the plan was made
	end       journal.End    // and where that ended
	condemned []*candidate
	staying   map[[16]byte]bool // sealed packs whose chunk lists need no look
	note      bool              // some of what is to be forgotten is not in the list of that
}

// Empty reports whether there is nothing to do.
func (p *PrunePlan) Empty() bool { return len(p.Dropped)+len(p.condemned)+len(p.Aside) == 0 && !p.note }

// PlanPrune finds out what the store has that no snapshot needs, of those that
// are kept. It writes nothing but indexes that are missing.
func (s *Store) PlanPrune(ctx context.Context, opts *PruneOptions) (*PrunePlan, error) {
	p := &PrunePlan{opts: opts, live: newLive(s, opts.Forget),
		staying: make(map[[16]byte]bool)}
	p.live.evict = opts.Evict
	if err := s.planPrune(ctx, p); err != nil {
		return nil, fmt.Errorf("plan prune: %w", err)
	}
	return p, nil
}

func (s *Store) planPrune(ctx context.Context, p *PrunePlan) error {
	list, err := s.weighAll(ctx, p)
	if err != nil {
		return err
	}
	if err := s.choose(p, list); err != nil {
		return err
	}
	return s.planForget(ctx, p)
}

// weighAll decides on each snapshot, and counts in each pack what is to stay.
func (s *Store) weighAll(ctx context.Context, p *PrunePlan) ([]*candidate, error) {
	f, err := readFormat(s.fsys)
	if err != nil {
		return nil, err
	}
	if needs := unknown(f.Features.Prune, knownToPrune); len(needs) > 0 {
		return nil, fmt.Errorf("%w: pruning needs %q", store.ErrFormat, needs)
	}
	s.jmu.Lock()
	err = s.j.Refresh()
	p.before, p.end = s.j.Ledger, s.j.End()
	s.jmu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := s.planDrops(ctx, p); err != nil {
		return nil, err
	}
	return s.candidates(ctx, p.live)
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
			p.pruned.Add(d.seq, next)
		}
		next = d.dropped
	}
	return nil
}

func (p *PrunePlan) mark(ctx context.Context, snap *store.Snapshot) error {
	if err := p.opts.Mark(ctx, p.live, snap); err != nil {
		return fmt.Errorf("snapshot %d: %w", snap.Seq, err)
	}
	return nil
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

// packOverhead is what an empty pack takes with its index.
const packOverhead = layout.HeaderSize + pack.BucketsSize

// choose decides which packs go.
func (s *Store) choose(p *PrunePlan, list []*candidate) error {
	// The most gain first: what is wholly dead costs nothing.
	slices.SortStableFunc(list, func(a, b *candidate) int {
		return cmp.Compare(float64(b.dead())/float64(b.size), float64(a.dead())/float64(a.size))
	})
	small, stay := p.condemn(list)
	if len(small) < manySmall {
		stay = append(stay, small...)
		small = nil
	}
	for _, c := range small {
		if !p.take(c) {
			stay = append(stay, c)
		}
	}
	for _, c := range stay {
		p.Left += max(c.waste(), 0)
	}
	return s.keep(p, stay)
}

// keep has packs stay, with what they count on.
func (s *Store) keep(p *PrunePlan, stay []*candidate) error {
	for _, c := range stay {
		if c.sealed && !c.stays {
			p.staying[c.id] = true
		}
		if err := s.keepChunks(p.live, c.lists); err != nil {
			return err
		}
	}
	return nil
}

// condemn takes the packs of which enough is dead, and returns the others: those that are
// small, and those that stay.
func (p *PrunePlan) condemn(list []*candidate) (small, stay []*candidate) {
	forget := len(p.opts.Forget) > 0
	part := int64(minDead)
	if p.opts.Thorough {
		part = minDeadThorough
	}
	smallSize := pack.SealSizeIdle
	if len(list) > manyPacks {
		smallSize = pack.SealSizeMax / 2
	}
	for _, c := range list {
		gain := c.waste() + c.hung
		switch {
		case forget && !c.isPure(): // who appends to it must end
			c.stays = !p.take(c)
		case forget || c.stays:
			stay = append(stay, c)
		// A chunk list may not outlive its chunks, since who finds it counts on them: they are dead
		// with it, or stay.
		case gain*part >= c.size && gain > 0 && p.take(c):
		case c.sealed && c.size < smallSize:
			small = append(small, c)
		default:
			stay = append(stay, c)
		}
	}
	return small, stay
}

// take has a pack go, unless that would copy more than is allowed.
func (p *PrunePlan) take(c *candidate) bool {
	if p.opts.MaxCopy > 0 && len(p.opts.Forget) == 0 && c.live > 0 && p.Copy+c.live > p.opts.MaxCopy {
		p.Short = true
		return false
	}
	p.condemned = append(p.condemned, c)
	p.Packs++
	p.Copy += c.live
	p.Free += c.dead()
	return true
}

// keepChunks keeps what chunk lists name that stay in their packs.
func (s *Store) keepChunks(live *Live, lists []pack.Location) error {
	for _, loc := range lists {
		p, err := pack.Open(s.fsys, s.id, loc.Pack.ID, os.O_RDONLY)
		if err != nil {
			return err
		}
		loc.Pack = p
		h, list, err := new(recordReader).read(pack.Entry{Location: loc})
		p.F.Close()
		if errors.Is(err, store.ErrCorrupt) {
			continue // nobody can count on it
		}
		if err != nil {
			return err
		}
		for ; len(list) >= chunkRefSize; list = list[chunkRefSize:] {
			if err := live.addChunk(h.ID, store.ID(list[:32])); err != nil {
				return err
			}
		}
	}
	return nil
}

// Prune does what a plan says, and no more. It may run beside readers and
// writers of other processes; docs/reference/concurrency.md has the order. A writer of this
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
	alone, err := layout.Lock(ctx, s.fsys, layout.RepairLock)
	if err != nil {
		return nil, err
	}
	defer alone.Close()
	r := &pruneRun{s: s, plan: plan, result: &PruneResult{Dropped: len(plan.Dropped)}}
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	if len(r.condemned) > 0 {
		err = r.takeAway(ctx)
	} else if len(plan.Dropped) > 0 {
		// Nobody has to leave, since what they count on stays.
		err = r.record(ctx, func(l journal.Ledger) (journal.Ledger, error) {
			err := cmp.Or(r.isCurrent(l), r.isNamed())
			l.Epoch++ // who remembers a snapshot looks again
			l.Condemned, l.Removed, l.Pruned = nil, nil, plan.pruned
			return l, err
		})
	}
	if err != nil {
		return nil, err
	}
	return r.result, r.forget(ctx)
}

// takeAway takes the condemned packs away, when nobody counts on them any more and what
// is alive in them is elsewhere.
func (r *pruneRun) takeAway(ctx context.Context) error {
	if err := r.announce(ctx); err != nil {
		return err
	}
	wait := cmp.Or(r.plan.opts.Wait, time.Minute)
	busy := fmt.Errorf("%w: other programs have been recording or restoring for %v", ErrBusy, wait)
	patience, cancel := context.WithTimeoutCause(ctx, wait, busy)
	defer cancel()
	progress.Of(ctx).Begin(progress.Phase{Name: "waiting for those who write or restore"})
	locks, err := r.s.drain(patience, r.before.Completed, r.epoch)
	if err != nil {
		return errors.Join(err, r.withdraw())
	}
	defer closeAll(locks)
	r.drained = true
	err = r.remark(ctx)
	if err == nil {
		err = r.copy(ctx)
	}
	if forget := r.plan.opts.Forget; err == nil && len(forget) > 0 {
		err = r.s.noteForgotten(forget) // before one is missed
	}
	if err != nil {
		return errors.Join(err, r.withdraw())
	}
	if err := r.done(ctx); err != nil {
		return err
	}
	return r.cleanUp()
}

// A pruneRun is a prune that is being done.
type pruneRun struct {
	s         *Store
	plan      *PrunePlan
	result    *PruneResult
	condemned []*candidate
	before    journal.Ledger // the journal's, before the announcement
	epoch     uint64         // that was announced
	drained   bool           // nobody is in an epoch before it
	removed   [][16]byte
	looked    bool // what stays may hang on what others have put
}

// begin brings an earlier prune to its end, and seals the packs that are to go
// and are not yet.
func (r *pruneRun) begin(ctx context.Context) error {
	s := r.s
	s.jmu.Lock()
	err := s.j.Refresh()
	removed := s.j.Removed
	s.jmu.Unlock()
	if err != nil {
		return err
	}
	if err := s.removePacks(removed); err != nil {
		return err
	}
	if len(r.plan.opts.Forget) > 0 {
		s.Seal()
	}
	for _, c := range r.plan.condemned {
		if is, err := r.seal(c); err != nil {
			return err
		} else if is {
			r.condemned = append(r.condemned, c)
		}
	}
	return context.Cause(ctx)
}

// seal seals a pack that is not, and reports whether it is then: somebody may append to it by now.
func (r *pruneRun) seal(c *candidate) (bool, error) {
	if c.sealed {
		return true, nil
	}
	forget := len(r.plan.opts.Forget) > 0
	err := r.s.sealIdle(c.id)
	if IsNoSpace(err) && !forget { // what need not be sealed goes first
		r.plan.Short = true
		r.plan.Left += c.dead()
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = r.s.fsys.Stat(layout.IndexName(c.id))
	if errors.Is(err, fs.ErrNotExist) {
		if forget {
			return false, fmt.Errorf("%w: another process appends to %s", ErrBusy, layout.PackName(c.id))
		}
		return false, nil
	}
	c.sealed = err == nil
	return c.sealed, err
}

// sealIdle seals a pack that nobody appends to.
func (s *Store) sealIdle(id [16]byte) error {
	w, err := pack.Adopt(s.fsys, s.id, id, func() (int64, error) { return s.durable(id) })
	if w == nil || err != nil {
		return err
	}
	defer w.F.Close()
	return w.Seal(s.fsys, s.id, w.Written)
}

// announce makes known which packs and snapshots go. From here on writers that
// begin do not count on them.
func (r *pruneRun) announce(ctx context.Context) error {
	return r.record(ctx, func(l journal.Ledger) (journal.Ledger, error) {
		r.before, r.epoch = l, l.Epoch+1
		l.Epoch = r.epoch
		l.Condemned, l.Removed, l.Pruned = nil, nil, r.plan.pruned // those of before are removed
		for _, c := range r.condemned {
			l.Condemned = append(l.Condemned, c.id)
		}
		return l, cmp.Or(r.isCurrent(r.before), r.isNamed())
	})
}

// isCurrent returns an error if somebody has pruned or repaired the store since
// the plan was made.
func (r *pruneRun) isCurrent(l journal.Ledger) error {
	if l.Epoch != r.plan.before.Epoch || !slices.Equal(l.Pruned, r.plan.before.Pruned) {
		return ErrPlanStale
	}
	return nil
}

// isNamed returns an error if somebody has given a snapshot a label since, which is to go.
// The journal is locked.
func (r *pruneRun) isNamed() error {
	for snap, err := range r.s.j.AgainSince(r.plan.end) {
		if err != nil {
			return err
		}
		if _, goes := slices.BinarySearch(r.plan.Dropped, snap.Seq); goes && snap.Label != "" {
			return ErrPlanStale
		}
	}
	return nil
}

// withdraw takes the announcement back. Whoever prunes next waits for those who
// have entered since the last prune that was done.
func (r *pruneRun) withdraw() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return r.record(ctx, func(l journal.Ledger) (journal.Ledger, error) {
		l.Epoch++ // who remembers a snapshot looks again
		l.Condemned, l.Pruned = nil, r.before.Pruned
		if r.drained {
			l.Completed = r.epoch
		}
		return l, nil
	})
}

// done says that the packs are gone.
func (r *pruneRun) done(ctx context.Context) error {
	return r.record(ctx, func(l journal.Ledger) (journal.Ledger, error) {
		if l.Epoch != r.epoch {
			return l, errors.New("the journal has lost the announcement: nothing is removed")
		}
		l.Completed, l.Condemned, l.Removed = r.epoch, nil, r.removed
		return l, nil
	})
}

// record puts another ledger into the journal.
func (r *pruneRun) record(ctx context.Context, fn func(journal.Ledger) (journal.Ledger, error)) error {
	s := r.s
	return s.withJournal(ctx, func() error {
		if err := s.upgrade(); err != nil {
			return err
		}
		l, err := fn(s.j.Ledger)
		if err != nil {
			return err
		}
		// As of any record, the objects must not hang on one that may be lost.
		body := l.AppendBody(nil, s.j.UnsealedPacks())
		return s.appendOne(journal.Record{Kind: journal.FrameLedger, Body: body}, true)
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
		err = s.count(c, p.live, durable[id])
		if err != nil && !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, fs.ErrNotExist) {
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
	done := progress.Of(ctx)
	done.Begin(progress.Phase{Name: "copying", Unit: "pack", Items: int64(len(r.condemned)), Bytes: r.plan.Copy})
	var whole []*candidate
	to := &copier{s: s, generation: w.generation}
	for _, c := range r.condemned {
		err := r.copyPack(ctx, to, c)
		if damage, ok := errors.AsType[*object.CorruptError](err); ok && len(r.plan.opts.Forget) == 0 {
			r.result.Kept = append(r.result.Kept, damage)
			err = s.keepChunks(r.plan.live, c.lists)
		} else if err == nil {
			whole = append(whole, c)
		}
		if err != nil {
			return err
		}
		done.Count(1, 0)
	}
	for _, c := range whole {
		if len(r.result.Kept) > 0 { // the chunks of lists that stay
			if err := r.copyPack(ctx, to, c); err != nil {
				return err
			}
		}
		r.removed = append(r.removed, c.id)
		r.result.Packs++
		r.result.Freed += c.size
	}
	r.result.Freed -= r.result.Copied
	if err := to.flush(); err != nil {
		return err
	}
	if !r.looked { // all of it is in packs that are sealed
		return nil
	}
	return w.commit(ctx, &commitRequest{generation: w.generation})
}

func (r *pruneRun) copyPack(ctx context.Context, to *copier, c *candidate) error {
	p, err := pack.Open(r.s.fsys, r.s.id, c.id, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer p.F.Close()
	return r.s.eachRecord(c, 0, func(rec *packRecord) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		var list []pack.Entry
		for i, e := range rec.entries {
			if at, is := r.plan.live.seen[[pack.PrefixSize]byte(e.ID[:])]; !is || at == compacted {
				continue
			}
			r.looked = true
			if e.Member > 0 && e.Member <= len(rec.members) {
				e.ID = rec.members[e.Member-1].ID
			}
			if e.Member == 0 {
				return r.copyRecord(ctx, to, p, e)
			}
			if there, err := r.s.hasSound(e.ID); err != nil {
				return err
			} else if !there {
				list = append(list, e)
				r.result.Copied += rec.share(i)
				progress.Of(ctx).Count(0, rec.share(i))
			}
		}
		if len(list) > 0 && rec.err != nil {
			return rec.err
		}
		return to.copy(p, list)
	})
}

// copyRecord copies a record that is one object, unless that is elsewhere.
func (r *pruneRun) copyRecord(ctx context.Context, to *copier, p *pack.Pack, e pack.Entry) error {
	h, payload, err := p.Read(pack.Location{Pack: p, Off: e.Off, Stored: e.Stored}, new([]byte))
	if err != nil {
		return err
	}
	if there, err := r.s.hasSound(h.ID); there || err != nil {
		return err
	}
	r.result.Copied += h.Size()
	progress.Of(ctx).Count(0, h.Size())
	return to.append(h, payload, nil)
}

// cleanUp removes the packs, and what nobody needs any more.
func (r *pruneRun) cleanUp() error {
	s := r.s
	if err := s.removePacks(r.removed); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := r.record(ctx, func(l journal.Ledger) (journal.Ledger, error) {
		l.Removed = nil
		return l, nil
	})
	if err != nil {
		return err
	}
	for n := r.before.Completed; n < r.epoch; n++ {
		// Who still waits for one looks at the journal when he has it.
		if err := s.fsys.Remove(layout.EpochLock(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
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
