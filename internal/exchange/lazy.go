package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// This file leaves contents at a remote until somebody wants them, and gives back what the
// remote has. Directories and what they left out are always here: whatever walks over trees
// needs no remote.

// isContent reports whether all objects of a part are contents of files, or parts of one.
func isContent(p *lines.IndexPart) bool {
	return !slices.ContainsFunc(p.IDs, func(id lines.ID) bool { return id.Kind != 1 && id.Kind != 2 })
}

func packRef(p *cas.PromisedPack) *lines.PackRef {
	return &lines.PackRef{Generation: p.Generation, Line: lines.Line(p.Line), Hash: p.Hash, Size: p.Size,
		Index: p.Index}
}

func promisedPack(p *lines.PackRef) cas.PromisedPack {
	return cas.PromisedPack{Generation: p.Generation, Line: p.Line, Hash: p.Hash, Size: p.Size, Index: p.Index}
}

// promising collects what is promised.
type promising struct {
	packs  []cas.PromisedPack
	places map[store.ID]cas.PromisedPlace
}

// add takes up the contents of a pack, and reports whether it has anything else.
func (p *promising) add(ref *lines.PackRef, parts []lines.IndexPart) (others bool) {
	if p.places == nil {
		p.places = make(map[store.ID]cas.PromisedPlace)
	}
	n := len(p.packs)
	p.packs = append(p.packs, promisedPack(ref))
	for i := range parts {
		if !isContent(&parts[i]) {
			others = true
			continue
		}
		for _, id := range parts[i].IDs {
			p.places[id.ID] = cas.PromisedPlace{Pack: n, Off: parts[i].Off, Len: parts[i].Len}
		}
	}
	return others
}

// has reports whether a pack was taken up.
func (p *promising) has(ref *lines.PackRef) bool { return slices.Contains(p.packs, promisedPack(ref)) }

// only drops what is not of some objects, and packs that have none of them.
func (p *promising) only(ids map[store.ID]bool) {
	maps.DeleteFunc(p.places, func(id store.ID, _ cas.PromisedPlace) bool { return !ids[id] })
	number := make(map[int]int) // which each of the packs is then
	var packs []cas.PromisedPack
	for id, at := range p.places {
		n, ok := number[at.Pack]
		if !ok {
			n = len(packs)
			number[at.Pack], packs = n, append(packs, p.packs[at.Pack])
		}
		at.Pack = n
		p.places[id] = at
	}
	p.packs = packs
}

// indexes reads the indexes of packs.
func indexes(ctx context.Context, repo *lines.Repo, refs []lines.PackRef) ([][]lines.IndexPart, error) {
	list := make([][]lines.IndexPart, len(refs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fetchers)
	for i := range refs {
		group.Go(func() (err error) {
			list[i], err = repo.Index(ctx, &refs[i])
			return err
		})
	}
	return list, group.Wait()
}

// promise takes up the contents of packs, and reads those packs that have anything else.
func (x *importing) promise(refs []lines.PackRef, put func([]byte) error) error {
	list, err := indexes(x.ctx, x.Repo, refs)
	if err != nil {
		return err
	}
	var rest []lines.PackRef
	for i, parts := range list {
		if x.promising.add(&refs[i], parts) {
			rest = append(rest, refs[i])
		}
	}
	return x.packs(rest, put)
}

// Bounds of what is asked for in one request. A gap costs less than a request up to the bytes that
// come while one is under way; what lies behind what is wanted is likely to be wanted next, since
// contents are in the order of their paths.
const (
	maxGap   = 32 << 10 // a group has some 60 KB: none is read that nobody wants
	maxRange = 8 << 20
	maxAhead = 256 << 10
	fewParts = 16 // more are wanted of a list, and nothing is read ahead

	maxRanges = 500      // requests: behind so many, larger gaps are read over
	maxBatch  = 64 << 20 // bytes that are fetched before they are stored
)

// A Fetcher brings what remotes have promised. Open opens one that a store knows. It may be used
// from several goroutines.
type Fetcher struct {
	Open func(ctx context.Context, c *Config) (*lines.Repo, error)

	mu    sync.Mutex // guards the rest
	repos map[string]*lines.Repo
	packs map[*cas.Promises][][]cas.PromisedPlace // of each pack, in order of place
}

// Fetch is a [cas.Fetcher].
func (f *Fetcher) Fetch(ctx context.Context, s *cas.Store, remote string, ids []store.ID) error {
	repo, err := f.repo(ctx, s, remote)
	if err != nil {
		return err
	}
	err = f.fetch(ctx, s, repo, remote, ids)
	absent := func() []store.ID {
		return slices.DeleteFunc(slices.Clone(ids), func(id store.ID) bool {
			ok, herr := s.Has(id)
			return ok && herr == nil || repo.Ledger().Forgotten[id]
		})
	}
	d, isDamaged := errors.AsType[*lines.DamageError](err)
	if !isDamaged && !isGone(err) {
		return err
	}
	if near := repo.UseNear(nil); near != nil { // where somebody who has the keys may have put it
		if err = f.fetch(ctx, s, repo, remote, absent()); err == nil && isDamaged {
			near.Drop(d.Key, d)
		}
		if _, isDamaged = errors.AsType[*lines.DamageError](err); !isDamaged && !isGone(err) {
			return err
		}
	}
	// A prune, or a repair, has put it elsewhere: the entries say where.
	if ferr := findAgain(ctx, s, repo, remote, ids); ferr != nil {
		return errors.Join(err, ferr)
	}
	err = f.fetch(ctx, s, repo, remote, absent())
	if isGone(err) {
		err = errors.Join(fmt.Errorf("%w: %w", ErrDropped, err), readAgain(ctx, s.FS()))
	}
	return err
}

// ErrDropped: a remote has given up contents that it had promised. Files may have them still.
var ErrDropped = errors.New("the remote has dropped it")

// readAgain has the next turn in each directory read all files, and store what is not here: with a base, turns have
// counted on what was promised of files that were as they had been.
func readAgain(ctx context.Context, fsys vfs.FS) error {
	names, err := fsys.ReadDir(layout.Worktrees)
	var errs []error
	for _, name := range names {
		w := layout.Worktree(name)
		errs = append(errs, layout.WithLock(ctx, fsys, w.CacheLock(), func() error {
			if err := fsys.Remove(w.Cache()); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		}))
	}
	return errors.Join(append(errs, err)...)
}

// findAgain finds out where the packs are that have what a remote promises, and stores those objects that
// are in entries by now.
func findAgain(ctx context.Context, s *cas.Store, repo *lines.Repo, remote string, ids []store.ID) error {
	if _, _, err := repo.Refresh(ctx); err != nil {
		return err
	}
	fetched, err := Fetch(ctx, repo, nil)
	if err != nil {
		return err
	}
	p, err := promisesIn(ctx, repo, fetched)
	if err != nil {
		return err
	}
	before, err := s.PromisesOf(remote)
	if err != nil {
		return err
	}
	promised := make(map[store.ID]bool)
	before.All(func(id store.ID, _ cas.PromisedPlace) { promised[id] = true })
	p.only(promised)
	if err := s.AddPromises(ctx, remote, p.packs, p.places); err != nil {
		return err
	}
	w, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(fetched.putInEntries(w, ids), w.Close()); err != nil {
		return err
	}
	forgotten := slices.DeleteFunc(slices.Clone(ids), func(id store.ID) bool { return !repo.Ledger().Forgotten[id] })
	return s.NoteForgotten(ctx, forgotten)
}

// putInEntries stores those of some objects that are in entries themselves.
func (f *Fetched) putInEntries(w *cas.Writer, ids []store.ID) error {
	isWanted := func(o cas.ParcelObject) bool { return slices.Contains(ids, o.ID) }
	for _, l := range f.Lines {
		for _, e := range l.Entries {
			if e.Void {
				continue
			}
			err := splitRecords(e.Objects, func(record []byte) error {
				q, err := cas.ReadParcel(record)
				if err == nil && slices.ContainsFunc(q.Objects, isWanted) {
					_, err = w.PutParcel(record)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Fetcher) fetch(
	ctx context.Context, s *cas.Store, repo *lines.Repo, remote string, ids []store.ID,
) error {
	p, err := s.PromisesOf(remote)
	if err != nil {
		return err
	}
	wanted := make(map[cas.PromisedPlace][]store.ID)
	for _, id := range ids {
		if at, ok := p.Find(id); ok {
			wanted[at] = append(wanted[at], id)
		}
	}
	ranges := f.ranges(p, ids)
	progress.Of(ctx).Begin(progress.Phase{Name: "fetching", Unit: "range", Items: int64(len(ranges))})
	return readBatches(ctx, repo, ranges, func(batch []readRange) error {
		w, err := s.Begin(ctx) // not while requests are under way: a prune waits for who writes
		if err != nil {
			return err
		}
		if err = putRanges(ctx, repo, w, batch); err == nil {
			err = haveCome(s, batch, wanted)
		}
		return errors.Join(err, w.Close()) // which makes durable what came
	})
}

// haveCome reports as damage that a range had not what a remote has promised there.
func haveCome(s *cas.Store, batch []readRange, wanted map[cas.PromisedPlace][]store.ID) error {
	for _, r := range batch {
		for _, at := range r.parts {
			for _, id := range wanted[at] {
				here, err := s.Has(id)
				if err == nil && !here {
					here, err = s.Forgotten(id)
				}
				if err != nil {
					return err
				}
				if !here {
					return lacks(r.ref, id)
				}
			}
		}
	}
	return nil
}

// lacks is the error that a pack has not what its index says.
func lacks(ref *lines.PackRef, id store.ID) error {
	return &lines.DamageError{Key: ref.Key(),
		Err: fmt.Errorf("its index says that it has %s, and it has not", id.Short())}
}

func (f *Fetcher) repo(ctx context.Context, s *cas.Store, remote string) (*lines.Repo, error) {
	c, err := Find(s.FS(), remote)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.repos[c.ID]; r != nil {
		return r, nil
	}
	r, err := f.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	if f.repos == nil {
		f.repos = make(map[string]*lines.Repo)
	}
	f.repos[c.ID] = r
	return r, nil
}

// A packRange is what is asked for in one request.
type packRange struct {
	ref   *lines.PackRef
	parts []cas.PromisedPlace // in it, in order
}

func (r *packRange) end() uint64 { return endOf(r.parts[len(r.parts)-1]) }

func endOf(p cas.PromisedPlace) uint64 { return p.Off + uint64(p.Len) }

// ranges returns what is to be asked for to get objects.
func (f *Fetcher) ranges(p *cas.Promises, ids []store.ID) (list []packRange) {
	var wanted []cas.PromisedPlace
	for _, id := range ids {
		if at, ok := p.Find(id); ok {
			wanted = append(wanted, at)
		}
	}
	slices.SortFunc(wanted, byPlace)
	wanted = slices.Compact(wanted) // a group has many
	all := f.places(p)
	gap, ahead := uint64(maxGap), uint64(0)
	if len(wanted) <= fewParts {
		gap, ahead = maxAhead, maxAhead // what is read ahead is not asked for again
	}
	for len(wanted) > 0 {
		pack := wanted[0].Pack
		n := slices.IndexFunc(wanted, func(at cas.PromisedPlace) bool { return at.Pack != pack })
		if n < 0 {
			n = len(wanted)
		}
		list = joinPlaces(list, packRef(&p.Packs[pack]), wanted[:n], gap)
		wanted = wanted[n:]
	}
	list = bridge(list, maxRanges)
	for i := range list { // what lies in gaps comes, too, and what is near behind
		r := &list[i]
		from, to := r.parts[0].Off, r.end()
		end := to + ahead
		if i+1 < len(list) && list[i+1].parts[0].Pack == r.parts[0].Pack {
			end = min(end, list[i+1].parts[0].Off)
		}
		in := all[r.parts[0].Pack]
		first, _ := slices.BinarySearchFunc(in, from, func(p cas.PromisedPlace, off uint64) int {
			return cmp.Compare(p.Off, off)
		})
		last := first
		for last < len(in) && (endOf(in[last]) <= to ||
			endOf(in[last]) <= end && in[last].Off < endOf(in[last-1])+maxGap) {
			last++
		}
		r.parts = in[first:last]
	}
	return list
}

// places returns what of each pack is promised, in order.
func (f *Fetcher) places(p *cas.Promises) [][]cas.PromisedPlace {
	f.mu.Lock()
	defer f.mu.Unlock()
	if list, ok := f.packs[p]; ok {
		return list
	}
	list := make([][]cas.PromisedPlace, len(p.Packs))
	p.All(func(_ store.ID, at cas.PromisedPlace) { list[at.Pack] = append(list[at.Pack], at) })
	for i := range list {
		slices.SortFunc(list[i], func(a, b cas.PromisedPlace) int { return cmp.Compare(a.Off, b.Off) })
		list[i] = slices.Compact(list[i])
	}
	f.packs = map[*cas.Promises][][]cas.PromisedPlace{p: list} // of the one that is in use
	return list
}

func byPlace(a, b cas.PromisedPlace) int {
	return cmp.Or(cmp.Compare(a.Pack, b.Pack), cmp.Compare(a.Off, b.Off))
}

// joinPlaces adds ranges that have places of one pack, which are in order: those come in one that are less apart
// than gap bytes.
func joinPlaces(list []packRange, ref *lines.PackRef, places []cas.PromisedPlace, gap uint64) []packRange {
	for i, at := range places {
		if n := len(list) - 1; i > 0 && at.Off < list[n].end()+gap && endOf(at)-list[n].parts[0].Off <= maxRange {
			list[n].parts = append(list[n].parts, at)
			continue
		}
		list = append(list, packRange{ref, []cas.PromisedPlace{at}})
	}
	return list
}

// bridge joins ranges over the smallest gaps between them until they are few.
func bridge(list []packRange, few int) []packRange {
	var gaps []uint64
	gap := func(i int) (n uint64, ok bool) { // before a range, in its pack
		a, b := &list[i-1], &list[i]
		return b.parts[0].Off - a.end(), a.parts[0].Pack == b.parts[0].Pack
	}
	for i := 1; i < len(list); i++ {
		if n, ok := gap(i); ok {
			gaps = append(gaps, n)
		}
	}
	over := min(len(list)-few, len(gaps))
	if over <= 0 {
		return list
	}
	slices.Sort(gaps)
	most := gaps[over-1]
	joined := list[:1:1]
	for i := 1; i < len(list); i++ {
		if n, ok := gap(i); ok && n <= most {
			last := &joined[len(joined)-1]
			last.parts = append(last.parts, list[i].parts...)
		} else {
			joined = append(joined, list[i])
		}
	}
	return joined
}

// A readRange is a range, and what was read of it.
type readRange struct {
	*packRange
	bytes []byte
}

// readBatches reads ranges, and calls fn with some at a time, while the next are being read.
func readBatches(ctx context.Context, repo *lines.Repo, ranges []packRange, fn func([]readRange) error) error {
	ctx, cancel := context.WithCancel(ctx)
	type result struct {
		batch []readRange
		err   error
	}
	ready := make(chan result)
	go func() {
		defer close(ready)
		for len(ranges) > 0 {
			n, size := 0, uint64(0)
			for n < len(ranges) && (n == 0 || size < maxBatch) {
				size += ranges[n].end() - ranges[n].parts[0].Off
				n++
			}
			batch, err := readRanges(ctx, repo, ranges[:n])
			ranges = ranges[n:]
			select {
			case ready <- result{batch, err}:
			case <-ctx.Done():
			}
			if err != nil || ctx.Err() != nil {
				return
			}
		}
	}()
	defer func() { // nothing goes on behind an error
		cancel()
		for range ready {
		}
	}()
	for r := range ready {
		if err := cmp.Or(r.err, context.Cause(ctx)); err != nil {
			return err
		}
		if err := fn(r.batch); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

func readRanges(ctx context.Context, repo *lines.Repo, ranges []packRange) ([]readRange, error) {
	list := make([]readRange, len(ranges))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fetchers)
	for i := range ranges {
		group.Go(func() (err error) {
			r := &ranges[i]
			list[i].packRange = r
			off := r.parts[0].Off
			list[i].bytes, err = repo.ReadRange(ctx, r.ref, off, r.end()-off, func(b []byte) (bool, error) {
				hasLists := false // which nothing but the pack says are right
				opened := readRange{r, b}
				err := opened.records(ctx, repo, func(record []byte) error {
					hasLists = hasLists || cas.IsChunkList(record)
					return nil
				})
				return hasLists, err
			})
			progress.Of(ctx).Count(1, int64(len(list[i].bytes)))
			return err
		})
	}
	return list, group.Wait()
}

// records calls fn with each record of a range, opened.
func (r *readRange) records(ctx context.Context, repo *lines.Repo, fn func(record []byte) error) error {
	for _, at := range r.parts {
		record, err := repo.OpenPart(ctx, r.ref, at.Off, r.bytes[at.Off-r.parts[0].Off:][:at.Len])
		if err != nil {
			return err
		}
		if err := fn(record); err != nil {
			return damageIn(r.ref.Key(), err)
		}
	}
	return nil
}

// eachRange calls fn with ranges, several at once.
func eachRange(batch []readRange, fn func(*readRange) error) error {
	all := make([]*readRange, len(batch))
	for i := range batch {
		all[i] = &batch[i]
	}
	return each(all, fn)
}

// partition returns what of a list is so, and the rest, both in order.
func partition[T any](list []T, is func(T) bool) (those, rest []T) {
	for _, x := range list {
		if is(x) {
			those = append(those, x)
		} else {
			rest = append(rest, x)
		}
	}
	return those, rest
}

// each calls fn with all of a list, several at once.
func each[T any](list []T, fn func(T) error) error {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, x := range list {
		group.Go(func() error { return fn(x) })
	}
	return group.Wait()
}

type giveKey struct{}

// WithGive has contents that are fetched be given to fn as they come. It is called by several goroutines, and must
// not keep them.
func WithGive(ctx context.Context, fn func(id store.ID, content []byte) error) context.Context {
	return context.WithValue(ctx, giveKey{}, fn)
}

// putRanges stores what is in ranges.
func putRanges(ctx context.Context, repo *lines.Repo, w *cas.Writer, batch []readRange) error {
	give, _ := ctx.Value(giveKey{}).(func(store.ID, []byte) error)
	return eachRange(batch, func(r *readRange) error {
		return r.records(ctx, repo, func(record []byte) error {
			_, err := w.PutParcelAnd(record, give)
			return err
		})
	})
}

// Notes returns what the turns of a store were for, as far as that is not here: small contents that
// every list of turns shows.
func Notes(ctx context.Context, s *cas.Store) (ids []store.ID, err error) {
	for snap, err := range s.Snapshots(ctx) {
		if err != nil {
			return nil, err
		}
		if !snap.Pruned && !snap.Note.IsZero() {
			ids = append(ids, snap.Note)
		}
	}
	return ids, nil
}

// FetchAll brings all that a remote has promised and that some snapshot needs.
func FetchAll(ctx context.Context, s *cas.Store, remote string) (n int, err error) {
	p, err := s.PromisesOf(remote)
	if err != nil {
		return 0, err
	}
	var ids []store.ID
	p.All(func(id store.ID, _ cas.PromisedPlace) {
		ok, herr := s.Has(id)
		if err = cmp.Or(err, herr); !ok {
			ids = append(ids, id)
		}
	})
	if err != nil {
		return 0, err
	}
	return len(ids), s.Prefetch(ctx, ids)
}

// An EvictResult says what an eviction has taken from here, or would.
type EvictResult struct {
	Objects int   `json:"objects"` // that are at the remote, and not here any more
	Bytes   int64 `json:"bytes"`   // by so much the store got smaller
	Read    int64 `json:"read"`    // bytes of the remote that were read to see that they are there
}

// Evict gives up contents that the remote has, but for those that the newest snapshot of each
// session needs. All snapshots stay, and what is read of them is fetched. What is only in an entry
// of the remote, and in none of its packs, stays.
//
// Before anything is given up, the remote has said that it keeps it, whoever prunes, and all of it was
// read there and verified: no length, and no checksum of a server, is believed.
func Evict(ctx context.Context, s *cas.Store, repo *lines.Repo, remote string, dryRun bool) (*EvictResult, error) {
	return evict(ctx, s, repo, remote, dryRun, pruneWait)
}

func evict(
	ctx context.Context, s *cas.Store, repo *lines.Repo, remote string, dryRun bool, patience time.Duration,
) (*EvictResult, error) {
	lock, err := layout.Lock(ctx, s.FS(), lockName(remote))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	for n := 0; ; n++ {
		x := &evicting{ctx: ctx, s: s, repo: repo, remote: remote, patience: patience,
			result: new(EvictResult)}
		err := x.run(dryRun)
		if pruned := isGone(err) || errors.Is(err, errTakenAway); pruned && n < maxPrunes {
			continue
		}
		return x.result, err
	}
}

// evicting is one eviction.
type evicting struct {
	ctx    context.Context
	s      *cas.Store
	repo   *lines.Repo
	remote string

	patience time.Duration // with a prune that is under way

	gone   map[store.ID]bool // what is to go from here
	result *EvictResult
}

func (x *evicting) run(dryRun bool) error {
	if _, _, err := x.repo.Refresh(x.ctx); err != nil {
		return err
	}
	f, err := Fetch(x.ctx, x.repo, nil)
	if err != nil {
		return err
	}
	p, err := promisesIn(x.ctx, x.repo, f)
	if err != nil {
		return err
	}
	if err := x.choose(p); err != nil || len(x.gone) == 0 {
		return err
	}
	p.only(x.gone)
	if !dryRun {
		var on []lines.Leaning
		for _, l := range f.Lines {
			if at, ok := l.lastWith(p.has); ok {
				on = append(on, at)
			}
		}
		if err := newPinner(x.s, x.repo, x.remote, x.patience).keep(x.ctx, on); err != nil {
			return err
		}
		if err := x.verify(p); err != nil {
			return err
		}
	}
	plan, err := x.plan()
	x.result.Objects = len(x.gone)
	if err != nil {
		return err
	}
	if x.result.Bytes = plan.Free; dryRun {
		return nil
	}
	if err := x.s.AddPromises(x.ctx, x.remote, p.packs, p.places); err != nil {
		return err
	}
	_, err = x.s.Prune(x.ctx, plan)
	return err
}

// choose finds what may go from here.
func (x *evicting) choose(p *promising) error {
	needed, err := neededNow(x.ctx, x.s)
	if err != nil {
		return err
	}
	x.gone = make(map[store.ID]bool)
	for id := range p.places {
		if needed[id] {
			continue
		}
		if ok, err := x.s.Has(id); err != nil {
			return err
		} else if ok {
			x.gone[id] = true
		}
	}
	return nil
}

// verify reads all that is to go from here where the remote has it. The error is a
// [*lines.DamageError] if anything is not what was put there.
func (x *evicting) verify(p *promising) error {
	var ranges []packRange
	byPack := make([][]cas.PromisedPlace, len(p.packs))
	for _, at := range p.places {
		byPack[at.Pack] = append(byPack[at.Pack], at)
	}
	for i, list := range byPack {
		slices.SortFunc(list, byPlace)
		ranges = joinPlaces(ranges, packRef(&p.packs[i]), slices.Compact(list), maxGap)
	}
	seen := make(map[store.ID]bool)
	var mu sync.Mutex // guards seen
	progress.Of(x.ctx).Begin(progress.Phase{Name: "verifying", Unit: "range", Items: int64(len(ranges))})
	err := readBatches(x.ctx, x.repo, ranges, func(batch []readRange) error {
		return eachRange(batch, func(r *readRange) error {
			return r.records(x.ctx, x.repo, func(record []byte) error {
				mu.Lock()
				x.result.Read += int64(len(record))
				mu.Unlock()
				return verifyParcel(record, func(id store.ID) {
					mu.Lock()
					seen[id] = true
					mu.Unlock()
				})
			})
		})
	})
	if err != nil {
		return err
	}
	for id, at := range p.places {
		if !seen[id] {
			return lacks(packRef(&p.packs[at.Pack]), id)
		}
	}
	return nil
}

// verifyParcel calls fn with the objects in a record, whose bytes are those of their IDs. What a list of chunks
// stands for is verified by the chunks.
func verifyParcel(record []byte, fn func(store.ID)) error {
	q, err := cas.ReadParcel(record)
	if err != nil {
		return err
	}
	return q.Data(func(o cas.ParcelObject, data []byte) error {
		if !q.IsChunkList() && object.Hash(object.Kind(o.Kind), data) != o.ID {
			return &cas.ParcelError{Err: fmt.Errorf("content does not hash to %s", o.ID.Short())}
		}
		fn(o.ID)
		return nil
	})
}

func (x *evicting) plan() (*cas.PrunePlan, error) {
	marker := audit.NewMarker(x.s)
	plan, err := x.s.PlanPrune(x.ctx, &cas.PruneOptions{Evict: x.gone, Thorough: true, Alone: true,
		Mark: func(ctx context.Context, live *cas.Live, snap *store.Snapshot) error {
			return marker.MarkSnapshot(ctx, live, snap)
		}})
	if err != nil {
		return nil, err
	}
	if list := marker.Problems(); len(list) > 0 { // what else is lost is not known then
		return nil, fmt.Errorf("%q: %w: repair the store first", list[0].Path, list[0].Err)
	}
	return plan, nil
}

// promisesIn returns what a remote has in packs that entries name.
func promisesIn(ctx context.Context, repo *lines.Repo, f *Fetched) (*promising, error) {
	var refs []lines.PackRef
	seen := make(map[string]bool)
	for _, l := range f.Lines {
		for _, e := range l.Entries {
			for _, ref := range e.Packs {
				if !e.Void && !seen[ref.Key()] {
					seen[ref.Key()] = true
					refs = append(refs, ref)
				}
			}
		}
	}
	list, err := indexes(ctx, repo, refs)
	if err != nil {
		return nil, err
	}
	p := new(promising)
	for i, parts := range list {
		p.add(&refs[i], parts)
	}
	return p, nil
}

// neededNow returns the contents that the newest snapshot of each session needs, and all notes.
func neededNow(ctx context.Context, s *cas.Store) (map[store.ID]bool, error) {
	live, marker := s.NewLive(), audit.NewMarker(s)
	for snap, err := range s.Sessions(ctx) {
		if err == nil && (snap.Kind == history.KindIntent || snap.Kind == history.KindEditIntent) {
			err = fmt.Errorf("session %q: a restore, or an edit, was cut off: what it takes must be here", snap.Session)
		}
		if err == nil && !snap.Pruned && !history.IsEdit(snap) {
			err = marker.MarkSnapshot(ctx, live, snap)
		}
		if err != nil {
			return nil, err
		}
	}
	needed := make(map[store.ID]bool)
	for _, id := range live.Take() {
		needed[id] = true
	}
	notes, err := Notes(ctx, s)
	for _, id := range notes {
		needed[id] = true
	}
	return needed, err
}
