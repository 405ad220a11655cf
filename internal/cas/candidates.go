package cas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// A candidate is a pack that may go.
type candidate struct {
	id      [16]byte
	ord     uint32 // which of the candidates it is, from 1 on: see Live.seen
	created uint64
	begins  bool  // with a group of a compaction: what is in two is rather to stay here
	size    int64 // of its files
	live    int64 // bytes of records to be copied
	records int
	kept    int // of them: that are to be copied
	sealed  bool
	stays   bool            // somebody may append to it, or it is damaged: for a repair
	lists   []pack.Location // of chunks, that nothing needs
	twice   int64           // bytes of what a compaction has written for some of it
	hung    int64           // bytes in other packs, of chunks that stay only if these lists do

	looseness // for a compaction
}

func (c *candidate) dead() int64 { return c.size - c.live }

// waste is dead without what another pack would take for what stays.
func (c *candidate) waste() int64 { return c.dead() - packOverhead - pack.EntrySize*int64(c.kept) }

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
	// First those that are not taken away, then those that were compacted, then the largest:
	// what is in two is rather to stay in these.
	first := map[bool]int{true: -1}
	slices.SortFunc(list, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(first[a.stays], first[b.stays]), cmp.Compare(first[a.begins], first[b.begins]),
			cmp.Compare(b.size, a.size))
	})
	for i, c := range list {
		c.ord = uint32(i) + 1
	}
	s.beginPacks(ctx, "weighing", ids, 0)
	for _, c := range list {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		progress.Of(ctx).Count(1, c.size)
		err := s.count(c, live, durable[c.id])
		if errors.Is(err, store.ErrCorrupt) && len(live.forget) > 0 {
			return nil, fmt.Errorf("what is in a damaged pack cannot be told: %w", err)
		}
		if errors.Is(err, store.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) {
			c.stays = true
		} else if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// candidate looks at one pack from outside; nil if it is gone.
func (s *Store) candidate(id [16]byte) (*candidate, error) {
	f, err := s.fsys.OpenFile(layout.PackName(id), os.O_RDONLY, 0)
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
	if err := c.peek(f); err != nil {
		return nil, err
	}
	index, err := s.fsys.Stat(layout.IndexName(id))
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

// peek looks at where a pack begins.
func (c *candidate) peek(f vfs.File) error {
	var b [layout.HeaderSize + pack.HeaderSize]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && err != io.EOF {
		return err
	}
	if n >= layout.HeaderSize {
		c.created = layout.Le.Uint64(b[layout.HeaderCreated:]) // it orders, and no more
	}
	h, err := pack.ParseHeader(b[min(n, layout.HeaderSize):n])
	c.begins = err == nil && isCompact(&h)
	return nil
}

// count counts what is to stay of a pack, and finds the chunk lists that are
// not; in a pack that stays, all of them.
func (s *Store) count(c *candidate, live *Live, durable int64) error {
	var damage error // of the first header that is
	err := s.eachRecord(c, durable, func(r *packRecord) error {
		if live.order != nil {
			if err := c.weigh(r); err != nil && !errors.Is(err, store.ErrCorrupt) {
				return err
			}
		}
		for i, e := range r.entries {
			c.records++
			prefix := [pack.PrefixSize]byte(e.ID[:])
			owner, ok := live.seen[prefix]
			if ok && owner == 0 {
				live.seen[prefix] = c.ord
				c.live += r.share(i)
				c.kept++
			}
			if ok && !c.stays {
				continue
			}
			kind, err := r.kind()
			if err == nil && kind == pack.RecChunked {
				c.lists = append(c.lists, e.Location)
				if !ok {
					c.hung += s.hung(e.Location, live)
				}
			}
			if errors.Is(err, store.ErrCorrupt) {
				damage, err = cmp.Or(damage, err), nil
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return cmp.Or(err, damage)
}

// hung returns how many bytes in other packs the chunks of a list take that do not live. What is not
// found takes none.
func (s *Store) hung(list pack.Location, live *Live) (n int64) {
	_, refs, err := new(recordReader).read(pack.Entry{Location: list})
	for ; err == nil && len(refs) >= chunkRefSize; refs = refs[chunkRefSize:] {
		id := store.ID(refs[:32])
		if _, ok := live.seen[[pack.PrefixSize]byte(id[:])]; ok {
			continue
		}
		if loc, ok, err := s.find(id); ok && err == nil && loc.Pack.ID != list.Pack.ID {
			n += loc.Size()
		}
	}
	return n
}

// A packRecord is a record of a pack with what is known of its objects: of their IDs the
// prefix in an index, at least.
type packRecord struct {
	p       *pack.Pack
	entries []pack.Entry // one, or those of a group that are listed
	members []pack.Member
	shares  []int64 // of the record, that members take
	err     error   // why the members of a group are not known
}

// share returns how much of the record an object takes.
func (r *packRecord) share(i int) int64 {
	e := &r.entries[i]
	switch {
	case e.Member == 0:
		return e.Size()
	case e.Member > len(r.members):
		return 0
	}
	return r.shares[e.Member-1]
}

// kind returns of which kind the record is, from its header.
func (r *packRecord) kind() (uint8, error) {
	if r.entries[0].Member > 0 {
		return pack.RecGroup, r.err
	}
	h, err := r.header()
	return h.Kind, err
}

// header reads the header of the record.
func (r *packRecord) header() (pack.Header, error) {
	e := &r.entries[0]
	var b [pack.HeaderSize]byte
	if _, err := r.p.F.ReadAt(b[:], e.Off); err != nil && err != io.EOF {
		return pack.Header{}, err
	}
	h, err := pack.ParseHeader(b[:])
	if err != nil {
		return h, corrupt(e.Location, "%w", err)
	}
	return h, nil
}

// eachRecord calls fn for each record of a pack, in the order of the file.
func (s *Store) eachRecord(c *candidate, durable int64, fn func(*packRecord) error) error {
	p, err := pack.Open(s.fsys, s.id, c.id, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer p.F.Close()
	entries, err := s.entriesOf(c, p, durable)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, comparePlaces)
	for list := range eachGroup(entries) {
		r := &packRecord{p: p, entries: list}
		if list[0].Member > 0 {
			var size int64
			r.members, size, r.err = p.ReadMembers(list[0].Location)
			if r.err != nil && !errors.Is(r.err, store.ErrCorrupt) {
				return r.err
			}
			r.shares = pack.Shares(r.members, size)
		}
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}

// entriesOf lists what is in a pack, by its index if it is sealed.
func (s *Store) entriesOf(c *candidate, p *pack.Pack, durable int64) (entries []pack.Entry, err error) {
	if !c.sealed {
		damage, err := p.Scan(layout.HeaderSize, durable, func(e pack.Entry) { entries = append(entries, e) })
		if err == nil && len(damage) > 0 {
			err = damage[0]
		}
		return entries, err
	}
	x, err := pack.OpenIndex(s.fsys, s.id, p)
	if err == nil {
		defer x.F.Close()
		err = x.All(func(prefix [pack.PrefixSize]byte, loc pack.Location) {
			e := pack.Entry{Location: loc}
			copy(e.ID[:], prefix[:])
			entries = append(entries, e)
		})
	}
	if errors.Is(err, pack.ErrIndex) || errors.Is(err, layout.ErrHeader) || errors.Is(err, store.ErrFormat) ||
		errors.Is(err, io.EOF) {
		return nil, &object.CorruptError{Path: layout.IndexName(c.id), Err: err}
	}
	return entries, err
}

// hasSound reports whether an object can be read from where a writer may count
// on it. Looking costs only what is there twice.
func (s *Store) hasSound(id store.ID) (bool, error) {
	if there, err := s.counts(id); !there || err != nil {
		return false, err
	}
	for _, loc := range s.lasting(id) {
		if err := s.flushFor(loc); err != nil {
			return false, err
		}
		h, _, err := new(recordReader).read(pack.Entry{ID: id, Location: loc})
		if err == nil && h.ID == id {
			return true, nil
		}
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			return false, err
		}
	}
	return false, nil
}

// Live is a set of objects that are to stay.
type Live struct {
	s      *Store
	seen   map[[pack.PrefixSize]byte]uint32 // and which candidate has it; 0: none that was seen; or compacted
	forget map[store.ID]bool                // these are not taken up
	evict  map[store.ID]bool                // nor these, which a remote has
	order  *order                           // nil: nobody asks

	collects bool // added has what is taken up
	added    []store.ID
}

// compacted stands for the new packs of a compaction, which are durable.
const compacted = math.MaxUint32

func newLive(s *Store, forget map[store.ID]bool) *Live {
	return &Live{s: s, seen: make(map[[pack.PrefixSize]byte]uint32), forget: forget}
}

// Add takes up an object, and reports whether it is new.
func (l *Live) Add(id store.ID) bool {
	prefix := [pack.PrefixSize]byte(id[:])
	if _, ok := l.seen[prefix]; ok || l.forget[id] || l.evict[id] {
		return false
	}
	l.seen[prefix] = 0
	l.order.add(prefix)
	if l.collects {
		l.added = append(l.added, id)
	}
	return true
}

// AddBlob takes up a file's content of some length, with its chunks. The error
// matches [ErrNotFound] if it is missing.
func (l *Live) AddBlob(id store.ID, size int64) error {
	if !l.Add(id) {
		return nil
	}
	if size < int64(pack.MinChunked) {
		if there, err := l.s.HasOrPromised(id); there || err != nil {
			return err
		}
	}
	o, err := l.s.Stored(object.Blob, id) // which looks again at what others have stored since
	if errors.Is(err, store.ErrForgotten) || IsPromised(err) {
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
func (l *Live) addChunk(id, chunk store.ID) error {
	if l.forget[chunk] {
		return fmt.Errorf("blob %s is a part of %s, which is kept: forget that, too", chunk.Short(), id)
	}
	l.Add(chunk)
	return nil
}

func (l *Live) has(id store.ID) bool {
	_, ok := l.seen[[pack.PrefixSize]byte(id[:])]
	return ok
}
