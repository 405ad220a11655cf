package exchange

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeebo/blake3"
	"golang.org/x/sync/errgroup"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/store"
)

// What goes in one request. A small turn is one entry with all that it needs; large data goes
// ahead in packs.
const (
	maxRecords    = 1000    // records of an entry
	maxRecordText = 4 << 20 // and their bytes
	maxRecent     = 100     // records that may be said again, and then are pushed again
)

// Likewise; tests set them.
var (
	maxInEntry = 4 << 20 // bytes of objects in an entry
	maxPack    = 8 << 20 // bytes of objects in a pack
)

// A Pusher puts sessions of a store into a remote.
type Pusher struct {
	Store *cas.Store
	Repo  *lines.Repo
	Name  string // of the remote in the store
	NoLog bool   // logs of runtimes do not go along

	state    *state
	result   *PushResult
	patience time.Duration // with a prune that is under way; 0: pruneWait
}

// NewPusher returns a pusher to a remote of a store as its user has set it up.
func NewPusher(s *cas.Store, repo *lines.Repo, c *Config) *Pusher {
	return &Pusher{Store: s, Repo: repo, Name: c.Name, NoLog: c.NoLog}
}

// A PushResult says what a push has put.
type PushResult struct {
	Sessions int   `json:"sessions"` // of which something was put
	Records  int   `json:"records"`
	Entries  int   `json:"entries"`
	Packs    int   `json:"packs"`
	Bytes    int64 `json:"bytes"` // of objects
	Lost     int   `json:"lost"`  // objects that the store had lost

	// Contents that were forgotten, here or there, and that nobody puts there again.
	Forgotten int `json:"forgotten"`

	// Sessions with which somebody else goes on, too: they have a line of their own now.
	New []string `json:"new,omitempty"`

	Unread []string `json:"unread,omitempty"` // why logs of sessions were not read
}

// gonePatience is how often a push begins again, each with the ledger as it is then: more prunes are
// not begun and ended while one reads.
const gonePatience = 5

// Push puts all records of sessions that are not there. With no session it is all of the store.
// When it returns nil, they are durable there, with all that they need. It may be called again
// after any error.
func (p *Pusher) Push(ctx context.Context, sessions ...string) (*PushResult, error) {
	lock, err := layout.Lock(ctx, p.Store.FS(), lockName(p.Name))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	p.state, p.result = new(state), new(PushResult)
	if _, err := read(p.Store.FS(), p.Name, "lines", p.state); err != nil {
		return nil, err
	}
	err = p.push(ctx, sessions)
	for range gonePatience { // a prune has taken away what the ledger had said before: it says more by now
		if !isGone(err) {
			break
		}
		err = p.push(ctx, sessions)
	}
	if err == nil {
		err = KeepHeld(ctx, p.Store.FS(), p.Name, p.Repo)
	}
	if err == nil {
		err = p.pinner().renew(ctx)
	}
	last := LastOf(p.Store.FS(), p.Name)
	last.Version, last.Tried, last.Err = stateVersion, time.Now(), ""
	switch {
	case err != nil:
		last.Err = err.Error()
	case len(sessions) == 0:
		last.Pushed = last.Tried
	}
	if werr := write(p.Store.FS(), p.Name, "last", last); err == nil {
		err = werr
	}
	return p.result, err
}

func (p *Pusher) push(ctx context.Context, sessions []string) error {
	if err := p.Repo.Load(ctx); err != nil {
		return err
	}
	todo, err := Pending(ctx, p.Store, p.state, sessions)
	if err != nil {
		return err
	}
	if len(sessions) > 0 { // what they build on goes first
		more, err := p.needed(ctx, todo)
		if err != nil {
			return err
		}
		if len(more) > 0 {
			return p.push(ctx, append(more, sessions...))
		}
	}
	progress.Of(ctx).Begin(progress.Phase{Name: "pushing", Unit: "session", Items: int64(len(todo))})
	for _, t := range todo {
		if err := p.session(ctx, t); err != nil {
			return fmt.Errorf("session %q: %w", t.Session, err)
		}
		progress.Of(ctx).Count(1, 0)
	}
	return nil
}

// A Todo is what of a session is not pushed.
type Todo struct {
	Worktree, Session string
	Records           []*store.Snapshot // oldest first
	Again             []*store.Snapshot // that were said again since they were pushed
	Imported          *store.Snapshot   // newest that came from a remote; nil: none

	leansOn *store.Snapshot // what this one needs is there already: see lines.Leaning

	at  *pushed
	put lines.Position // the entry that was put last
}

// Pending finds what of a store's sessions is not pushed, by what it remembers. The session
// that began first is the first.
func Pending(ctx context.Context, s *cas.Store, st *state, sessions []string) ([]*Todo, error) {
	var list []*Todo
	for snap, err := range s.Sessions(ctx) {
		if err != nil {
			return nil, err
		}
		isNamed := len(sessions) == 0 || slices.Contains(sessions, snap.Session)
		if history.IsEdit(snap) || len(snap.Origin) > 0 || !isNamed {
			continue
		}
		at := st.of(snap.Worktree, snap.Session)
		if snap.Seq <= at.Seq { // as a rule
			again, err := at.anyOther(ctx, s)
			if err != nil {
				return nil, err
			}
			if !again {
				continue
			}
		}
		list = append(list, &Todo{Worktree: snap.Worktree, Session: snap.Session, at: at})
	}
	if err := fill(ctx, s, list); err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(t *Todo) bool { return len(t.Records)+len(t.Again) == 0 })
	first := func(t *Todo) uint64 { return append(t.Again, t.Records...)[0].Seq }
	slices.SortFunc(list, func(a, b *Todo) int { return cmp.Compare(first(a), first(b)) })
	return list, nil
}

// fill reads the records of sessions, back to those that were pushed.
func fill(ctx context.Context, s *cas.Store, list []*Todo) error {
	of := make(map[[2]string]*Todo)
	oldest := uint64(0) // that anybody may have to push
	for i, t := range list {
		of[[2]string{t.Worktree, t.Session}] = t
		from := t.at.Seq + 1
		if len(t.at.Recent) > 0 {
			from = t.at.Recent[0].Seq
		}
		if i == 0 || from < oldest {
			oldest = from
		}
	}
	if len(list) == 0 {
		return nil
	}
	for snap, err := range s.Snapshots(ctx) {
		if err != nil {
			return err
		}
		if snap.Seq < oldest {
			break
		}
		t := of[[2]string{snap.Worktree, snap.Session}]
		switch {
		case t == nil:
		case len(snap.Origin) > 0:
			if t.Imported == nil {
				t.Imported = snap
			}
		case snap.Seq > t.at.Seq:
			t.Records = append(t.Records, snap)
		case t.at.isOther(snap):
			t.Again = append(t.Again, snap)
		}
	}
	for _, t := range list {
		slices.Reverse(t.Records)
		slices.Reverse(t.Again)
	}
	return nil
}

func sumOf(body []byte) hexID {
	sum := blake3.Sum256(body)
	return sum[:16]
}

// isOther reports whether a record that was pushed lately says something else by now.
func (at *pushed) isOther(snap *store.Snapshot) bool {
	i := slices.IndexFunc(at.Recent, func(r said) bool { return r.Seq == snap.Seq })
	return i >= 0 && !bytes.Equal(at.Recent[i].Hash, sumOf(cas.EncodeSnapshot(snap))) && !snap.Pruned
}

// anyOther reports whether a record that was pushed lately says something else by now: one that
// was named since, or whose entry became known.
func (at *pushed) anyOther(ctx context.Context, s *cas.Store) (bool, error) {
	for _, r := range at.Recent {
		snap, err := s.Snapshot(ctx, r.Seq)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return false, err
		}
		if err == nil && at.isOther(snap) {
			return true, nil
		}
	}
	return false, nil
}

// note remembers what was pushed.
func (at *pushed) note(pos lines.Position, e *lines.Entry) {
	at.skip(pos)
	if o := e.Opening; o != nil {
		at.Opened, at.On = e.Generation, nil
		if o.Base != nil {
			at.On = append(at.On, o.Base.Line[:])
		}
		if o.Leans != nil {
			at.On = append(at.On, o.Leans.Line[:])
		}
	}
	for _, rec := range e.Records {
		at.Seq = max(at.Seq, rec.Seq)
		at.Recent = slices.DeleteFunc(at.Recent, func(r said) bool { return r.Seq == rec.Seq })
		at.Recent = append(at.Recent, said{rec.Seq, sumOf(rec.Body)})
	}
	slices.SortFunc(at.Recent, func(a, b said) int { return cmp.Compare(a.Seq, b.Seq) })
	at.Recent = at.Recent[max(len(at.Recent)-maxRecent, 0):]
}

// begin gives a line that has no entry yet another name. By that of before a copy may have begun one that a prune
// has removed, or is about to.
func (at *pushed) begin(l *lines.Ledger) {
	id := layout.RandomID()
	at.Line, at.Next, at.Hash, at.Opened = id[:], 0, nil, l.Newest
}

// skip remembers that an entry is there.
func (at *pushed) skip(pos lines.Position) {
	at.Line, at.Next, at.Hash, at.Base = pos.Line[:], pos.Entry+1, pos.Hash[:], nil
}

// needed lists the sessions on which records build that are to be pushed, and of which
// something is not pushed: those that a fork has come from.
func (p *Pusher) needed(ctx context.Context, todo []*Todo) ([]string, error) {
	var more []string
	for _, t := range todo {
		for _, snap := range t.Records {
			if snap.Kind != history.KindStart {
				continue
			}
			r, err := history.Read(snap)
			if err != nil {
				return nil, err
			}
			for _, n := range []uint64{r.Facts.Start, r.Facts.Fork, r.Facts.Prev} {
				if n == 0 || n == snap.Seq {
					continue
				}
				from, err := p.Store.Snapshot(ctx, n)
				if errors.Is(err, store.ErrNotFound) {
					continue
				}
				if err != nil {
					return nil, err
				}
				isOther := from.Session != t.Session || from.Worktree != t.Worktree
				if isOther && len(from.Origin) == 0 && p.state.of(from.Worktree, from.Session).Seq < n &&
					!slices.ContainsFunc(todo, func(t *Todo) bool { return t.Session == from.Session }) {
					more = append(more, from.Session)
				}
			}
		}
	}
	return more, nil
}

// session pushes one session.
func (p *Pusher) session(ctx context.Context, t *Todo) error {
	if t.at.Line == nil {
		if err := p.recall(ctx, t); err != nil {
			return err
		}
	}
	live, before := p.Store.NewLive(), p.result.Entries
	defer func() { p.result.Sessions += min(p.result.Entries-before, 1) }()
	for tries := 0; len(t.Records)+len(t.Again) > 0; {
		if err := p.revive(ctx, t); err != nil {
			return err
		}
		n, err := p.entry(ctx, t, live)
		again := errors.Is(err, lines.ErrRival) || errors.Is(err, lines.ErrOvertaken)
		if again && tries < 10 {
			tries++
			if errors.Is(err, lines.ErrRival) {
				err = p.meet(ctx, t)
			} else {
				err = p.overtaken(t)
			}
			if err != nil {
				return err
			}
			live = p.Store.NewLive()
			continue
		}
		if err != nil {
			return err
		}
		t.Records, t.Again = t.Records[n:], nil
		tries = 0
	}
	return nil
}

// entry puts one entry with the next records of a session. It returns how many of
// t.Records were in it.
func (p *Pusher) entry(ctx context.Context, t *Todo, live *cas.Live) (int, error) {
	w, err := p.Store.Begin(ctx) // nobody takes away meanwhile what is there
	if err != nil {
		return 0, err
	}
	defer w.Close()
	if t.at.Line == nil || t.at.Next == 0 && !p.Repo.Ledger().Lives(lines.Line(t.at.Line), t.at.Opened) {
		t.at.begin(p.Repo.Ledger())
		if err := p.save(); err != nil { // packs are called by it: who is cut off finds those that are there
			return 0, err
		}
	}
	e := new(lines.Entry)
	if t.at.Next == 0 {
		if e.Opening, err = p.opening(ctx, t); err != nil {
			return 0, err
		}
	}
	e.Generation = p.Repo.Ledger().Newest
	records, n, size := slices.Clone(t.Again), 0, 0
	for n < len(t.Records) && n < maxRecords && size < maxRecordText {
		records = append(records, t.Records[n])
		size += len(t.Records[n].Data)
		n++
	}
	// As of now: one may have been pruned since.
	for i, snap := range records {
		if records[i], err = p.Store.Snapshot(ctx, snap.Seq); err != nil {
			return 0, err
		}
		e.Records = append(e.Records, lines.Record{Seq: snap.Seq, Body: cas.EncodeSnapshot(records[i])})
	}
	if e.Names, err = p.names(ctx, records); err != nil {
		return 0, err
	}
	if err := p.objects(ctx, t, e, records, live); err != nil {
		return 0, err
	}
	logAt := p.transcript(&t.at.Log, e, records)
	at, err := p.Repo.Append(ctx, t.Session, lines.Line(t.at.Line), t.at.Next, hash32(t.at.Hash), e)
	t.put = at
	if err != nil {
		return 0, err
	}
	t.at.note(at, e)
	t.at.Log = *logAt
	p.result.Entries++
	p.result.Records += len(records)
	return n, p.save()
}

func (p *Pusher) save() error { return write(p.Store.FS(), p.Name, "lines", p.state) }

func hash32(h hexID) (sum [32]byte) {
	copy(sum[:], h)
	return sum
}

func (p *Pusher) opening(ctx context.Context, t *Todo) (*lines.Opening, error) {
	first := append(t.Again, t.Records...)[0]
	o := &lines.Opening{Base: t.at.Base.position(), Session: t.Session, Store: p.Store.RawID(),
		Worktree: t.Worktree, Root: first.Root}
	if ok, err := p.isSure(ctx, t.Session, o.Base); err != nil {
		return nil, err
	} else if !ok { // it was retired: all that the records need is put anew
		o.Base, t.at.Base = nil, nil
	}
	t.leansOn = nil
	if o.Base != nil {
		return o, nil
	}
	t.Imported = nil
	lean, snap, err := p.lean(ctx, t)
	if err != nil || lean == nil {
		return o, err
	}
	ok, err := p.isSure(ctx, lean.Session, &lean.Position)
	if ok {
		o.Leans, t.leansOn = lean, snap
	}
	return o, err
}

// lean finds an entry that has most of what a session needs that begins: the newest that was
// pushed from the directory, else from the store, else the newest that came from the remote. It
// returns the record there that needs it, too.
func (p *Pusher) lean(ctx context.Context, t *Todo) (*lines.Leaning, *store.Snapshot, error) {
	var best *pushed
	for _, l := range p.state.Lines {
		if l.Next == 0 || len(l.Line) != 16 || p.isDead(l) {
			continue
		}
		isHere := l.Worktree == t.Worktree
		wasHere := best != nil && best.Worktree == t.Worktree
		if best == nil || isHere && !wasHere || isHere == wasHere && l.Seq > best.Seq {
			best = l
		}
	}
	if best != nil {
		snap, err := p.Store.Snapshot(ctx, best.Seq)
		if errors.Is(err, store.ErrNotFound) || err == nil && snap.Pruned {
			return nil, nil, nil
		}
		return &lines.Leaning{Session: best.Session, Position: lines.Position{Line: lines.Line(best.Line),
			Entry: best.Next - 1, Hash: hash32(best.Hash)}}, snap, err
	}
	for snap, err := range p.Store.Snapshots(ctx) {
		if err != nil {
			return nil, nil, err
		}
		o, ok := parseOrigin(snap.Origin)
		if !ok || snap.Pruned {
			continue
		}
		at, err := p.find(ctx, snap.Session, o)
		if at == nil || err != nil {
			return nil, nil, err
		}
		return &lines.Leaning{Session: snap.Session, Position: *at}, snap, nil
	}
	return nil, nil, nil
}

// names returns what records of other lines are called that some records name.
func (p *Pusher) names(ctx context.Context, records []*store.Snapshot) (names []lines.Name, err error) {
	seen := make(map[uint64]bool)
	for _, snap := range records {
		list := []uint64{snap.Parent}
		if len(snap.Data) > 0 {
			more, err := history.Numbers(snap)
			if err != nil {
				return nil, err
			}
			list = append(list, more...)
		}
		for _, n := range list {
			if n == 0 || seen[n] {
				continue
			}
			seen[n] = true
			of, err := p.Store.Snapshot(ctx, n)
			if errors.Is(err, store.ErrNotFound) { // damaged, or lost: who reads it will not find it either
				continue
			}
			if err != nil {
				return nil, err
			}
			if o, ok := parseOrigin(of.Origin); ok {
				names = append(names, lines.Name{Seq: n, Line: o.line, At: o.seq})
			}
		}
	}
	slices.SortFunc(names, func(a, b lines.Name) int { return cmp.Compare(a.Seq, b.Seq) })
	return names, nil
}

// objects puts what records need and the line has not into an entry, or into packs before it.
func (p *Pusher) objects(
	ctx context.Context, t *Todo, e *lines.Entry, records []*store.Snapshot, live *cas.Live,
) error {
	before := cmp.Or(t.leansOn, t.Imported)
	if t.at.Seq > 0 {
		var err error
		if before, err = p.Store.Snapshot(ctx, t.at.Seq); errors.Is(err, store.ErrNotFound) {
			before = nil // then more is sent than need be
		} else if err != nil {
			return err
		}
	}
	ids, err := p.lacking(ctx, before, records[:len(t.Again)], records[len(t.Again):], live)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	x := p.newPacking(ctx, lines.Line(t.at.Line), e)
	defer x.group.Wait() // nothing goes on behind an error
	defer cancel()
	ledger := p.Repo.Ledger()
	ids = slices.DeleteFunc(ids, func(id store.ID) bool {
		gone := ledger.IsForgotten(id)
		if gone {
			e.Forgotten = append(e.Forgotten, id)
		}
		return gone
	})
	if err := p.Store.Prefetch(ctx, ids); err != nil { // the line counts on nothing but what it has
		return err
	}
	missing, err := p.Store.Parcels(ctx, ids, x.add)
	if err != nil {
		return err
	}
	for _, id := range missing {
		if was, err := p.Store.Forgotten(id); err != nil {
			return err
		} else if was {
			e.Forgotten = append(e.Forgotten, id)
			continue
		}
		e.Lost = append(e.Lost, id)
		p.result.Lost++
	}
	p.result.Forgotten += len(e.Forgotten)
	return x.end()
}

// manyLacking is how many objects of an entry are a reason to look whether the line has them elsewhere.
const manyLacking = 500

// lacking returns the objects that records need, some that are said again and others that follow one another, and
// that a line has not, of whose records one is before them; nil: it has none. What was found is added to live.
//
// A turn changes little, so only what differs is looked at, and what has moved to where nothing else has changed is
// put again. If that would be much, all that the line has is looked at.
func (p *Pusher) lacking(
	ctx context.Context, before *store.Snapshot, again, records []*store.Snapshot, live *cas.Live,
) (ids []store.ID, err error) {
	marker := audit.NewMarker(p.Store)
	mark := func(had, snap *store.Snapshot) error {
		if snap.Pruned {
			return nil
		}
		if had != nil {
			if err := marker.MarkNear(ctx, live, had, snap); err != nil {
				return err
			}
			live.Take()
		}
		err := marker.MarkSnapshot(ctx, live, snap)
		ids = append(ids, live.Take()...)
		return err
	}
	for _, snap := range again {
		if err := mark(before, snap); err != nil {
			return nil, err
		}
	}
	had := before
	for _, snap := range records {
		if err := mark(had, snap); err != nil {
			return nil, err
		}
		if !snap.Pruned {
			had = snap
		}
	}
	if before == nil || before.Pruned || len(ids) <= manyLacking {
		return ids, nil
	}
	all := p.Store.NewLive()
	if err := marker.MarkSnapshot(ctx, all, before); err != nil {
		return nil, err
	}
	has := make(map[store.ID]bool)
	for _, id := range all.Take() {
		has[id] = true
	}
	return slices.DeleteFunc(ids, func(id store.ID) bool { return has[id] }), nil
}

// packing collects the objects of an entry.
type packing struct {
	p     *Pusher
	ctx   context.Context
	line  lines.Line
	entry *lines.Entry

	parts [2]*lines.Parts // trees, which are read as a whole, and contents
	packs []*lines.PackRef
	group *errgroup.Group   // puts them
	free  chan *lines.Parts // nil: one that is not made yet
}

// putters is how many packs are put at once: while one is under way the next is sealed.
const putters = 2

func (p *Pusher) newPacking(ctx context.Context, line lines.Line, e *lines.Entry) *packing {
	x := &packing{p: p, line: line, entry: e, free: make(chan *lines.Parts, putters+2)}
	for i := range x.parts {
		x.parts[i] = new(lines.Parts) // there may be few
	}
	for range putters {
		x.free <- nil
	}
	x.group, x.ctx = errgroup.WithContext(ctx)
	return x
}

func (x *packing) add(q *cas.Parcel) error {
	part, of := partOf(q), 0
	if slices.ContainsFunc(part.IDs, func(id lines.ID) bool { return id.Kind == 1 || id.Kind == 2 }) {
		of = 1 // a blob, or a list of chunks
	}
	x.parts[of].Add(part)
	x.p.result.Bytes += int64(len(part.Bytes))
	if x.parts[of].Size() >= maxPack {
		return x.pack(of)
	}
	return nil
}

// pack has a pack be put, and waits until there is memory for another.
func (x *packing) pack(of int) error {
	parts, ref := x.parts[of], new(lines.PackRef)
	if parts.Size() == 0 {
		return nil
	}
	x.packs = append(x.packs, ref)
	x.p.result.Packs++
	x.group.Go(func() (err error) {
		*ref, err = x.p.Repo.PutPack(x.ctx, x.entry.Generation, x.line, parts)
		progress.Of(x.ctx).Count(0, int64(ref.Size))
		x.free <- parts
		return err
	})
	if x.parts[of] = <-x.free; x.parts[of] == nil {
		x.parts[of] = lines.NewParts(maxPack)
	}
	return context.Cause(x.ctx)
}

// end puts the rest: into the entry if all is little.
func (x *packing) end() error {
	var err error
	if len(x.packs) > 0 || x.parts[0].Size()+x.parts[1].Size() > maxInEntry {
		err = errors.Join(x.pack(0), x.pack(1))
	}
	if werr := x.group.Wait(); werr != nil {
		return werr // and why no more was put
	}
	for _, ref := range x.packs {
		x.entry.Packs = append(x.entry.Packs, *ref)
	}
	for _, parts := range x.parts {
		for record := range parts.All() {
			x.entry.Objects = append(x.entry.Objects, record...)
		}
	}
	return err
}

// newLine has a session go on in a line of its own, behind an entry that both have.
func (p *Pusher) newLine(t *Todo, behind *lines.Position) {
	t.at.begin(p.Repo.Ledger())
	t.at.Base, t.at.Log = nil, logAt{}
	if behind != nil {
		t.at.Base = baseOf(behind)
	}
	if behind != nil || len(t.at.Recent) > 0 {
		p.result.New = append(p.result.New, t.Session)
	}
}

// A Wait is what of a store is not in a remote, as far as the store remembers.
type Wait struct {
	Records, Sessions int
	Oldest            time.Time // of the records
}

// Waiting counts what is not in a remote.
func Waiting(ctx context.Context, s *cas.Store, name string) (*Wait, error) {
	st := new(state)
	if _, err := read(s.FS(), name, "lines", st); err != nil {
		return nil, err
	}
	todo, err := Pending(ctx, s, st, nil)
	if err != nil {
		return nil, err
	}
	w := &Wait{Sessions: len(todo)}
	for _, t := range todo {
		for _, snap := range append(t.Again, t.Records...) {
			w.Records++
			if w.Oldest.IsZero() || snap.Time.Before(w.Oldest) {
				w.Oldest = snap.Time
			}
		}
	}
	return w, nil
}
