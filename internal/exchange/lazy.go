package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/progress"
	bucket "github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/lines"
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
	maxGap   = 64 << 10
	maxRange = 8 << 20
	maxAhead = 256 << 10
	fewParts = 16 // more are wanted of a list, and nothing is read ahead
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
	if err = f.fetch(ctx, s, repo, remote, ids); errors.Is(err, bucket.ErrNoKey) {
		// A prune has put it elsewhere: the entries say where.
		p, perr := promisesIn(ctx, repo)
		if perr == nil {
			perr = s.AddPromises(ctx, remote, p.packs, p.places)
		}
		if perr != nil {
			return errors.Join(err, perr)
		}
		err = f.fetch(ctx, s, repo, remote, ids)
	}
	return err
}

func (f *Fetcher) fetch(
	ctx context.Context, s *cas.Store, repo *lines.Repo, remote string, ids []store.ID,
) error {
	p, err := s.PromisesOf(remote)
	if err != nil {
		return err
	}
	ranges := f.ranges(p, ids)
	w, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	progress.Of(ctx).Begin(progress.Phase{Name: "fetching", Unit: "range", Items: int64(len(ranges))})
	return errors.Join(fetchRanges(ctx, repo, w, ranges), w.Close()) // which makes durable what came
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
	byPlace := func(a, b cas.PromisedPlace) int {
		return cmp.Or(cmp.Compare(a.Pack, b.Pack), cmp.Compare(a.Off, b.Off))
	}
	slices.SortFunc(wanted, byPlace)
	wanted = slices.Compact(wanted) // a group has many
	all := f.places(p)
	ahead := len(wanted) <= fewParts
	for i, at := range wanted {
		if n := len(list) - 1; n >= 0 && wanted[i-1].Pack == at.Pack && at.Off < list[n].end()+maxGap &&
			endOf(at)-list[n].parts[0].Off <= maxRange {
			list[n].parts = append(list[n].parts, at)
			continue
		}
		list = append(list, packRange{packRef(&p.Packs[at.Pack]), []cas.PromisedPlace{at}})
	}
	for i := range list { // what lies in gaps comes, too, and what is near behind
		r := &list[i]
		from, to := r.parts[0].Off, r.end()
		if ahead {
			to += maxAhead
		}
		in := all[r.parts[0].Pack]
		first, _ := slices.BinarySearchFunc(in, from, func(p cas.PromisedPlace, off uint64) int {
			return cmp.Compare(p.Off, off)
		})
		last := first
		for last < len(in) && endOf(in[last]) <= to && (last == first || in[last].Off < endOf(in[last-1])+maxGap) {
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

// fetchRanges asks for ranges, and stores what is in them.
func fetchRanges(ctx context.Context, repo *lines.Repo, w *cas.Writer, ranges []packRange) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fetchers)
	for i := range ranges {
		group.Go(func() error {
			r := &ranges[i]
			from := r.parts[0].Off
			b, err := repo.ReadRange(ctx, r.ref, from, r.end()-from)
			if err != nil {
				return err
			}
			progress.Of(ctx).Count(1, int64(len(b)))
			for _, at := range r.parts {
				record, err := repo.OpenPart(ctx, r.ref, at.Off, b[at.Off-from:][:at.Len])
				if err != nil {
					return err
				}
				if _, err := w.PutParcel(record); err != nil {
					return &lines.DamageError{Key: r.ref.Key(), Err: err}
				}
			}
			return nil
		})
	}
	return group.Wait()
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
}

// Evict gives up contents that the remote has, but for those that the newest snapshot of each
// session needs. All snapshots stay, and what is read of them is fetched. What is only in an entry
// of the remote, and in none of its packs, stays.
func Evict(ctx context.Context, s *cas.Store, repo *lines.Repo, remote string, dryRun bool) (*EvictResult, error) {
	p, err := promisesIn(ctx, repo)
	if err != nil {
		return nil, err
	}
	for i := range p.packs { // before anything is given up for it
		ref := packRef(&p.packs[i])
		if ok, err := repo.HasPack(ctx, ref); err != nil {
			return nil, err
		} else if !ok {
			return nil, &lines.DamageError{Key: ref.Key(), Err: errors.New("it is not as long as it was")}
		}
	}
	return evict(ctx, s, remote, p, dryRun)
}

// promisesIn returns what a remote has in packs that entries name.
func promisesIn(ctx context.Context, repo *lines.Repo) (*promising, error) {
	f, err := Fetch(ctx, repo, nil)
	if err != nil {
		return nil, err
	}
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

func evict(ctx context.Context, s *cas.Store, remote string, p *promising, dryRun bool) (*EvictResult, error) {
	needed, err := neededNow(ctx, s)
	if err != nil {
		return nil, err
	}
	gone := make(map[store.ID]bool)
	for id := range p.places {
		if needed[id] {
			continue
		}
		if ok, err := s.Has(id); err != nil {
			return nil, err
		} else if ok {
			gone[id] = true
		}
	}
	marker := audit.NewMarker(s)
	plan, err := s.PlanPrune(ctx, &cas.PruneOptions{Evict: gone, Thorough: true, Alone: true,
		Mark: func(ctx context.Context, live *cas.Live, snap *store.Snapshot) error {
			return marker.MarkSnapshot(ctx, live, snap)
		}})
	if err != nil {
		return nil, err
	}
	if list := marker.Problems(); len(list) > 0 { // what else is lost is not known then
		return nil, fmt.Errorf("%q: %w: repair the store first", list[0].Path, list[0].Err)
	}
	r := &EvictResult{Objects: len(gone), Bytes: plan.Free}
	if dryRun || len(gone) == 0 {
		return r, nil
	}
	if err := s.AddPromises(ctx, remote, p.packs, p.places); err != nil {
		return nil, err
	}
	_, err = s.Prune(ctx, plan)
	return r, err
}

// neededNow returns the contents that the newest snapshot of each session needs, and all notes.
func neededNow(ctx context.Context, s *cas.Store) (map[store.ID]bool, error) {
	live, marker := s.NewLive(), audit.NewMarker(s)
	for snap, err := range s.Sessions(ctx) {
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
