package cas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/store"
)

// This file compacts: it writes packs anew, in which objects lie as they came, so that those of
// one path lie side by side, in larger groups, compressed better.
//
// What lives in some packs is written into new ones first, and these are sealed and get their
// names: till then nobody knows of it, and nothing is undone if it ends early. Then the old packs
// go by a prune that finds all of it elsewhere (docs/adr/0019-prune-protocol.md). So a writer or
// reader finds each object in one or the other at any time, and never has to store it again.

// CompactOptions say what a compaction does.
type CompactOptions struct {
	// Mark is as in [PruneOptions], and says by [Live.At] at which path objects are.
	Mark func(ctx context.Context, live *Live, snap *store.Snapshot) error
	// Unsealed has packs written anew, too, that are not full yet, unless somebody
	// appends to them.
	Unsealed bool
	// MaxBytes bounds how many bytes of packs are written anew, unless one alone has
	// more; 0: no limit. What is above it is left for the next time.
	MaxBytes int64
	// KeepFree is how many bytes are to stay free on the disk.
	KeepFree int64
	// Wait bounds the wait for those who write or restore; 0: ten seconds. They do not wait.
	Wait time.Duration
	// Workers is how many groups are compressed at once; 0: as many as there are processors.
	Workers int
	// Alone is as in [PruneOptions].
	Alone bool
	// Stop is asked now and then while packs are written; nil: nobody is. What it returns ends
	// the compaction, as [ErrWork] does when somebody records something.
	Stop func() error

	beside bool // go on though others record something
}

// A CompactPlan is what [Store.Compact] will do.
type CompactPlan struct {
	Packs int   // that are written anew
	Bytes int64 // of records in them that live
	Size  int64 // of their files
	Later int   // packs that are left for the next time
	Busy  int   // packs that somebody appends to: they are left, too

	opts  *CompactOptions
	prune *PrunePlan
	due   []*candidate
	total int64 // the length of all packs

	encoder pack.Encoder // of the compaction that is being done
}

func (p *CompactPlan) workers() int { return cmp.Or(p.opts.Workers, runtime.GOMAXPROCS(0)) }

// Empty reports whether there is nothing to do.
func (p *CompactPlan) Empty() bool { return len(p.due) == 0 }

// A CompactResult is what a compaction has done.
type CompactResult struct {
	Packs   int     // that were written anew
	Written int64   // bytes of the packs that were written
	Freed   int64   // bytes of files that went, less what was written
	Kept    []error // damage, for which packs stayed that were to go
	Left    int     // packs of the plan that it has not come to
}

const (
	// looseRaw is the length up to which a group counts as one that a compaction makes
	// larger: what captures make.
	looseRaw = groupSize
	// looseIn is which part of a pack must lie loose for it to be written anew, 1 in so many.
	looseIn = 4
	// compactWait is how long a compaction waits for others.
	compactWait = 10 * time.Second
	// roundPart is which part of the store is written anew at a time, 1 in so many: so much
	// more does the disk have to hold meanwhile.
	roundPart = 4
)

// minRound is how much is written anew at a time in a small store, where versions would not come
// together otherwise. One pack is, in any store, whatever it has.
//
// A variable, so that tests need little.
var minRound int64 = 16 << 20

// minLoose is how many groups, or objects without one, are worth a compaction: one that has
// just been leaves two or so.
//
// A variable, so that tests need few.
var minLoose = 8

// A looseness says how much of a pack is not as a compaction leaves it.
type looseness struct {
	loose    int   // groups, and objects without one
	looseRaw int64 // bytes in them
	raw      int64 // bytes in all records
}

// isCompact reports whether a header is of a group that is as large as only a
// compaction makes one.
func isCompact(h *pack.Header) bool { return h.Kind == pack.RecGroup && h.Raw > looseRaw }

// isAlone reports whether an object has a record of its own in compacted packs, too: lists of
// chunks, and what is large and does not compress.
func isAlone(h *pack.Header) bool {
	return h.Kind == pack.RecChunked || h.Raw > pack.MaxGroup || h.Codec == pack.CodecRaw && int(h.Raw) >= maxMember
}

// weigh takes up a record.
func (l *looseness) weigh(r *packRecord) error {
	if r.entries[0].Member > 0 {
		n := int64(0)
		for i := range r.members {
			n += int64(r.members[i].Raw)
		}
		l.raw += n
		if n <= looseRaw && len(r.members) < pack.MaxMembers {
			l.loose++
			l.looseRaw += n
		}
		return r.err
	}
	h, err := r.header()
	if err != nil {
		return err
	}
	l.raw += int64(h.Raw)
	if !isAlone(&h) {
		l.loose++
		l.looseRaw += int64(h.Raw)
	}
	return nil
}

// isDue reports whether a pack is to be written anew.
func (c *candidate) isDue() bool { return c.loose > 0 && c.looseRaw*looseIn >= c.raw || c.isSpare() }

// isSpare reports whether all that lives in a pack is in others, too, or nothing does.
func (c *candidate) isSpare() bool { return c.records > 0 && c.kept == 0 }

// Uncompacted returns about how many bytes sealed packs have that no compaction has written, at
// the cost of a look at the beginning of each.
func (s *Store) Uncompacted() (size int64, err error) {
	ids, err := s.packIDs()
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		c, err := s.candidate(id)
		if err != nil {
			return 0, err
		}
		if c != nil && c.sealed && !c.begins {
			size += c.size
		}
	}
	return size, nil
}

// PlanCompact finds out which packs are worth to be written anew. It writes nothing but indexes
// that are missing.
func (s *Store) PlanCompact(ctx context.Context, opts *CompactOptions) (*CompactPlan, error) {
	live := newLive(s, nil)
	live.order = newOrder()
	p := &CompactPlan{opts: opts, prune: &PrunePlan{live: live, staying: make(map[[16]byte]bool),
		opts: &PruneOptions{Mark: opts.Mark, Wait: cmp.Or(opts.Wait, compactWait), Alone: opts.Alone}}}
	if err := s.planCompact(ctx, p); err != nil {
		return nil, fmt.Errorf("plan compaction: %w", err)
	}
	return p, nil
}

func (s *Store) planCompact(ctx context.Context, p *CompactPlan) error {
	list, err := s.weighAll(ctx, p.prune)
	if err != nil {
		return err
	}
	loose := 0
	var due, stay []*candidate
	for _, c := range list {
		p.total += c.size
		switch {
		case c.stays || !c.sealed && !p.opts.Unsealed || !c.isDue():
			stay = append(stay, c)
			if c.stays && !c.sealed && c.isDue() {
				p.Busy++
			}
		default:
			due = append(due, c)
			loose += c.loose
		}
	}
	// In the order in which they were made: what they hold is alike then.
	slices.SortStableFunc(due, func(a, b *candidate) int { return cmp.Compare(a.created, b.created) })
	for _, c := range due {
		switch {
		case loose < minLoose && !c.isSpare():
			stay = append(stay, c)
		case p.opts.MaxBytes > 0 && p.Bytes > 0 && p.Bytes+c.live > p.opts.MaxBytes:
			stay = append(stay, c)
			p.Later++
		default:
			p.due = append(p.due, c)
			p.Packs++
			p.Bytes += c.live
			p.Size += c.size
		}
	}
	return s.keep(p.prune, stay)
}

// Compact does what a plan says. It may run beside readers and writers, also of other processes:
// none of them waits for it. It works in rounds, each of which is done when the next begins, and
// returns what was done also if it ends early, for an error or when ctx ends.
//
// What there is of a round that ends early is removed. If others did not come to their end
// ([ErrBusy]), some of it is there twice, which the next compaction or prune sees.
func (s *Store) Compact(ctx context.Context, plan *CompactPlan) (*CompactResult, error) {
	r := &CompactResult{Left: len(plan.due)}
	if s.readOnly {
		return r, errors.New("compact: store is open read-only")
	}
	if plan.Empty() {
		return r, nil
	}
	err := s.beginGroups(ctx)
	plan.encoder = pack.NewBestEncoder(plan.workers())
	defer func() { plan.encoder = nil }() // it is large
	for rest := plan.due; err == nil && len(rest) > 0; r.Left = len(rest) {
		n := plan.round(rest)
		if err = s.compactRound(ctx, plan, rest[:n], rest[n:], r); err == nil {
			rest = rest[n:]
		}
	}
	if err != nil {
		return r, fmt.Errorf("compact: %w", err)
	}
	return r, nil
}

// beginGroups makes the store one that has groups: an older program refuses it from here on.
func (s *Store) beginGroups(ctx context.Context) error {
	if err := s.NeedToRead(ctx, FeatureGroups); err != nil {
		return err
	}
	s.grouping.on.Store(true)
	return nil
}

// round returns how many packs are written anew next, at once.
func (p *CompactPlan) round(list []*candidate) (n int) {
	most := p.most(list)
	for size := int64(0); n < len(list) && (n == 0 || size+list[n].live <= most); n++ {
		size += list[n].live
	}
	return n
}

// most returns how many bytes a round may have on the disk twice, less what those before have left there
// of the packs that have not gone yet.
func (p *CompactPlan) most(list []*candidate) int64 {
	most := max(p.total/roundPart, minRound)
	for _, c := range list {
		most -= c.twice
	}
	return most
}

// compactRound writes some packs anew, and has them go. What later ones have at the same paths it writes
// with it, as far as there is room, so that nothing of it is left for their own rounds.
func (s *Store) compactRound(ctx context.Context, p *CompactPlan, list, later []*candidate, r *CompactResult) error {
	alone, err := layout.Lock(ctx, s.fsys, layout.RepairLock)
	if err != nil {
		return err
	}
	defer alone.Close()
	for _, c := range later { // they stay in this round
		if err := s.keepChunks(p.prune.live, c.lists); err != nil {
			return err
		}
	}
	p.prune.condemned = list
	run := &pruneRun{s: s, plan: p.prune, result: new(PruneResult)}
	if err := run.begin(ctx); err != nil {
		return err
	}
	if err := s.see(); err != nil {
		return err
	}
	s.jmu.Lock()
	ledger := s.j.Ledger
	s.jmu.Unlock()
	if err := run.isCurrent(ledger); err != nil {
		return err
	}
	c := newCompaction(s, p, run.condemned)
	defer c.close()
	for _, one := range later {
		if is, err := run.seal(one); err != nil {
			return err
		} else if is {
			c.packs = append(c.packs, &compacting{candidate: one, later: true})
		}
	}
	written, err := c.run(ctx)
	if err != nil {
		return err
	}
	c.settle()
	run.condemned = c.whole()
	for _, why := range c.bad {
		r.Kept = append(r.Kept, why)
	}
	r.Written += written
	r.Freed -= written
	if len(run.condemned) == 0 {
		return nil
	}
	// What is left is short, and giving it up would leave the store larger than it was.
	if err := run.takeAway(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	r.Packs += run.result.Packs
	r.Freed += run.result.Freed
	r.Kept = append(r.Kept, run.result.Kept...)
	s.jmu.Lock()
	p.prune.before = s.j.Ledger
	s.jmu.Unlock()
	return nil
}

// room makes sure that there is room for so many bytes, and returns for how many more there is.
func (p *CompactPlan) room(s *Store, n, most int64) (spare int64, err error) {
	free, _, err := s.fsys.Space()
	if free -= p.opts.KeepFree; err != nil {
		return most - n, nil
	}
	if free < n {
		return 0, fmt.Errorf("%w to write %d bytes anew before the old ones go", store.ErrNoSpace, n)
	}
	return min(most, free) - n, nil
}

// ErrWork: a compaction ended early since somebody records, who is not to share the disk
// and the processors with it.
var ErrWork = errors.New("somebody records something in this store")

// stopEvery is how often a compaction looks whether somebody works.
//
// A variable, so that tests can have it look at once.
var stopEvery = 50 * time.Millisecond

// stop returns why to end early.
func (c *compaction) stop(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil || time.Since(c.looked) < stopEvery {
		return err
	}
	c.looked = time.Now()
	if seq, err := c.s.lastRecord(); err != nil || seq != c.began && !c.plan.opts.beside {
		return cmp.Or(err, ErrWork)
	}
	if c.plan.opts.Stop != nil {
		return c.plan.opts.Stop()
	}
	return nil
}

// lastRecord returns the number of the newest record of the journal.
func (s *Store) lastRecord() (uint64, error) {
	s.jmu.Lock()
	defer s.jmu.Unlock()
	err := s.j.Refresh()
	return s.j.Seq, err
}

// A compaction is a round that is being done.
type compaction struct {
	s       *Store
	began   uint64    // the newest record when it began
	looked  time.Time // whether there is a newer one
	plan    *CompactPlan
	packs   []*compacting
	items   []compactItem
	paths   map[uint32]bool // of what is in the packs of the round
	spare   atomic.Int64    // bytes of later packs that may be written, too
	cache   groupCache
	written [][pack.PrefixSize]byte
	bad     []*object.CorruptError // of packs that stay
}

// A compacting is a pack that is written anew.
type compacting struct {
	*candidate
	pack  *pack.Pack
	bad   bool
	later bool // its round is another: what it has at the paths of this one is brought forward

	brought, anew int64 // bytes that were, and of what was written for them
}

// A compactItem is an object that is written anew.
type compactItem struct {
	rank   uint64
	off    int64
	stored uint32
	size   uint32 // of the record, that it takes
	raw    uint32
	pack   int32
	member int16
	isTree bool
	alone  bool
}

// path returns the number of the path at which it is.
func (it *compactItem) path() uint32 { return uint32(it.rank >> 32) }

// compactCache bounds what is kept of the groups that are taken apart: their members lie in
// others by then.
const compactCache = 24 << 20

func newCompaction(s *Store, p *CompactPlan, list []*candidate) *compaction {
	c := &compaction{s: s, plan: p, paths: make(map[uint32]bool)}
	c.cache.max = compactCache
	for _, one := range list {
		c.packs = append(c.packs, &compacting{candidate: one})
	}
	return c
}

func (c *compaction) close() {
	for _, p := range c.packs {
		if p.pack != nil {
			p.pack.F.Close()
		}
	}
}

// whole returns the packs of which all that lives was written.
func (c *compaction) whole() (list []*candidate) {
	for _, p := range c.packs {
		if !p.bad && !p.later {
			list = append(list, p.candidate)
		}
	}
	return list
}

// run writes what lives in the packs into new ones, and returns how long these are.
func (c *compaction) run(ctx context.Context) (written int64, err error) {
	if c.began, err = c.s.lastRecord(); err != nil {
		return 0, err
	}
	total, raw, most := int64(0), int64(0), c.plan.most(nil)
	for i, p := range c.packs {
		if err := c.collect(ctx, i); err != nil {
			return 0, err
		}
		if most -= p.twice; !p.later {
			total += p.live
		}
	}
	for i := range c.items {
		raw += int64(c.items[i].raw)
	}
	spare, err := c.plan.room(c.s, total, max(most, total))
	if err != nil {
		return 0, err
	}
	c.spare.Store(spare)
	slices.SortFunc(c.items, func(a, b compactItem) int {
		if a.isTree != b.isTree {
			return map[bool]int{false: -1, true: 1}[a.isTree]
		}
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.pack, b.pack), cmp.Compare(a.off, b.off),
			cmp.Compare(a.member, b.member))
	})
	progress.Of(ctx).Begin(progress.Phase{Name: "compacting", Unit: "object", Items: int64(len(c.items)), Bytes: raw})
	out := &packOut{s: c.s}
	defer out.abort()
	if err := c.writeAll(ctx, out); err != nil {
		return 0, err
	}
	c.looked = time.Time{}
	if err := c.stop(ctx); err != nil { // the last time that nothing has changed
		return 0, err
	}
	return out.publish()
}

// settle makes a note of what is in new packs, so that no round writes it again.
func (c *compaction) settle() {
	for _, prefix := range c.written {
		c.plan.prune.live.seen[prefix] = compacted
	}
	for _, p := range c.packs {
		p.live -= p.brought
		p.twice += p.anew
	}
}

// collect lists what lives in a pack, or of one whose round is another, what is at the paths of others.
func (c *compaction) collect(ctx context.Context, i int) error {
	p := c.packs[i]
	var err error
	if p.pack, err = pack.Open(c.s.fsys, c.s.id, p.id, 0); err != nil {
		return err
	}
	live := c.plan.prune.live
	damage := c.s.eachRecord(p.candidate, 0, func(r *packRecord) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		for k, e := range r.entries {
			prefix := [pack.PrefixSize]byte(e.ID[:])
			if live.seen[prefix] != p.ord {
				continue
			}
			it := compactItem{rank: live.order.ranks[prefix], off: e.Off, stored: e.Stored, pack: int32(i),
				member: int16(e.Member), size: uint32(r.share(k))}
			if p.later && !c.paths[it.path()] {
				continue
			}
			var h pack.Header
			switch {
			case e.Member == 0:
				if h, err = r.header(); err != nil {
					return err
				}
				it.alone = isAlone(&h)
			case r.err != nil:
				return r.err
			case e.Member > len(r.members):
				return corrupt(e.Location, "no member %d in a group of %d", e.Member, len(r.members))
			default:
				h = memberHeader(&r.members[e.Member-1])
			}
			it.raw, it.isTree = h.Raw, h.Kind != uint8(object.Blob) && h.Kind != pack.RecChunked
			switch {
			case !p.later:
				c.paths[it.path()] = true
			case it.alone || it.raw >= bigMember:
				continue // it would lie beside nothing
			}
			c.items = append(c.items, it)
		}
		return nil
	})
	return c.spoil(i, damage)
}

// spoil has a pack stay if an error tells of damage; else it returns the error.
func (c *compaction) spoil(i int, err error) error {
	damage, ok := errors.AsType[*object.CorruptError](err)
	if !ok {
		return err
	}
	if p := c.packs[i]; !p.bad && !p.later { // its own round will tell
		p.bad = true
		c.bad = append(c.bad, damage)
	}
	return nil
}
