package cas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/store"
)

// This file takes objects and snapshots out of a store as they are kept, and into another.

// A Parcel is a record of a pack, with what is in it.
type Parcel struct {
	Record  []byte // docs/reference/format.md §3.2
	Kind    uint8  // of the record
	Objects []ParcelObject
}

// A ParcelObject is an object in a Parcel.
type ParcelObject struct {
	Kind uint8
	ID   store.ID
}

// NewLive returns a set that is empty, and that remembers what is added: see [Live.Take].
func (s *Store) NewLive() *Live {
	l := newLive(s, nil)
	l.collects = true
	return l
}

// Take returns what was added since it was called last, in order.
func (l *Live) Take() []store.ID {
	ids := l.added
	l.added = nil
	return ids
}

// Parcels calls fn with records that have objects, and nothing else. Their bytes are there until fn returns. It
// returns those objects that the store has not. A Writer must be open, so that nobody takes away what is there.
func (s *Store) Parcels(ctx context.Context, ids []store.ID, fn func(*Parcel) error) (missing []store.ID, err error) {
	byPack := make(map[*pack.Pack][]pack.Entry)
	var packs []*pack.Pack
	for _, id := range ids {
		loc, err := s.locate(id)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrForgotten) {
			missing = append(missing, id)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("object %s: %w", id.Short(), err)
		}
		if byPack[loc.Pack] == nil {
			packs = append(packs, loc.Pack)
		}
		byPack[loc.Pack] = append(byPack[loc.Pack], pack.Entry{ID: id, Location: loc})
	}
	var record []byte
	c := &copier{s: s, put: func(h pack.Header, payload []byte, members []pack.Member) error {
		record = append(h.Append(record[:0]), payload...)
		p := &Parcel{Record: record, Kind: h.Kind, Objects: make([]ParcelObject, 0, len(members))}
		for i := range members {
			p.Objects = append(p.Objects, ParcelObject{members[i].Kind, members[i].ID})
		}
		if members == nil {
			p.Objects = []ParcelObject{{h.Kind, h.ID}}
		}
		return fn(p)
	}}
	for _, p := range packs {
		list := byPack[p]
		slices.SortFunc(list, comparePlaces)
		for one := range eachGroup(list) {
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
			if err := s.flushFor(one[0].Location); err != nil {
				return nil, err
			}
			if err := c.copy(p, one); err != nil {
				return nil, err
			}
		}
	}
	return missing, c.flush()
}

// A ParcelError says that a record is not one that [Store.Parcels] has given.
type ParcelError struct{ Err error }

func (e *ParcelError) Error() string { return fmt.Sprintf("record of objects: %v", e.Err) }
func (e *ParcelError) Unwrap() error { return e.Err }

// ReadParcel returns what is in a record of objects, whose checksum is verified.
func ReadParcel(record []byte) (*Parcel, error) {
	h, err := parseParcel(record)
	if err != nil {
		return nil, err
	}
	p := &Parcel{Record: record, Kind: h.Kind}
	if h.Kind != pack.RecGroup {
		p.Objects = []ParcelObject{{h.Kind, h.ID}}
		return p, nil
	}
	g, err := pack.DecodeGroup(&h, record[pack.HeaderSize:], nil)
	if err != nil {
		return nil, &ParcelError{err}
	}
	for i := range g.Members {
		p.Objects = append(p.Objects, ParcelObject{g.Members[i].Kind, g.Members[i].ID})
	}
	return p, nil
}

// parseParcel returns the header of a record, whose checksum is verified.
func parseParcel(record []byte) (pack.Header, error) {
	h, err := pack.ParseHeader(record)
	if err == nil && (h.Size() != int64(len(record)) || layout.Checksum(record[pack.HeaderSize:]) != h.Crc) {
		err = errors.New("does not match its checksum")
	}
	if err != nil {
		return h, &ParcelError{err}
	}
	return h, nil
}

// Data calls fn with each object in a parcel, decompressed. What is in a list of chunks is their IDs.
func (p *Parcel) Data(fn func(o ParcelObject, data []byte) error) error {
	h, err := pack.ParseHeader(p.Record)
	if err != nil {
		return err
	}
	if h.Kind != pack.RecGroup {
		data, err := pack.Decompress(&h, p.Record[pack.HeaderSize:], nil)
		if err != nil {
			return &ParcelError{err}
		}
		return fn(p.Objects[0], data)
	}
	g, err := pack.DecodeGroup(&h, p.Record[pack.HeaderSize:], nil)
	for i := 0; err == nil && i < len(g.Members); i++ {
		err = fn(p.Objects[i], g.Data(i))
	}
	return err
}

// IsChunkList reports whether a record has the list of the chunks that a content is in. Chunks have to be put
// before it.
func IsChunkList(record []byte) bool {
	h, err := pack.ParseHeader(record)
	return err == nil && h.Kind == pack.RecChunked
}

// IsChunkList reports whether a parcel has the list of the chunks that a content is in.
func (p *Parcel) IsChunkList() bool { return p.Kind == pack.RecChunked }

// Chunks returns the IDs in a list of chunks.
func Chunks(list []byte) (ids []store.ID) {
	for ; len(list) >= chunkRefSize; list = list[chunkRefSize:] {
		ids = append(ids, store.ID(list[:32]))
	}
	return ids
}

// Without returns a parcel that lacks some of the objects; nil if none is left. It is the same if it has none of
// them.
func (p *Parcel) Without(drop func(store.ID) bool) (*Parcel, error) {
	left := &Parcel{Kind: p.Kind}
	var members []pack.Member
	var raw []byte
	err := p.Data(func(o ParcelObject, data []byte) error {
		if !drop(o.ID) {
			left.Objects = append(left.Objects, o)
			members = append(members, pack.Member{Kind: o.Kind, Raw: uint32(len(data)), ID: o.ID})
			raw = append(raw, data...)
		}
		return nil
	})
	switch {
	case err != nil || len(left.Objects) == len(p.Objects):
		return p, err
	case len(left.Objects) == 0:
		return nil, nil
	}
	h, payload := pack.EncodeGroup(members, raw, pack.EncoderOf(members[0].Kind), nil)
	left.Record = append(h.Append(nil), payload...)
	return left, nil
}

// AllForgotten lists the contents that were forgotten here, and were not stored again.
func (s *Store) AllForgotten() (ids []store.ID, err error) {
	all, err := s.forgottenIDs()
	for id := range all {
		there, herr := s.Has(id)
		if herr != nil {
			return nil, herr
		}
		if !there {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b store.ID) int { return bytes.Compare(a[:], b[:]) })
	return ids, err
}

// NoteForgotten makes durable that contents were forgotten elsewhere, so that nobody takes them for damage.
func (s *Store) NoteForgotten(ctx context.Context, ids []store.ID) error {
	if len(ids) == 0 {
		return nil
	}
	more := make(map[store.ID]bool)
	for _, id := range ids {
		more[id] = true
	}
	return layout.WithLock(ctx, s.fsys, layout.RepairLock, func() error { return s.noteForgotten(more) })
}

// PutParcel stores the objects of a record that [Store.Parcels] has given, verified, unless they
// are there. What a list of chunks stands for is verified when it is read: [Store.CopyBlob].
func (w *Writer) PutParcel(record []byte) (lists []store.ID, err error) {
	return w.PutParcelAnd(record, nil)
}

// PutParcelAnd is PutParcel, and calls fn with the blobs in the record, which it must not keep.
func (w *Writer) PutParcelAnd(record []byte, fn func(id store.ID, content []byte) error) (lists []store.ID, err error) {
	if fn == nil {
		fn = func(store.ID, []byte) error { return nil }
	}
	bad := func(err error) ([]store.ID, error) { return nil, &ParcelError{err} }
	h, err := parseParcel(record)
	if err != nil {
		return nil, err
	}
	payload := record[pack.HeaderSize:]
	buf := pack.TakeBuffer()
	defer pack.PutBuffer(buf)
	if h.Kind == pack.RecGroup {
		g, err := pack.DecodeGroup(&h, payload, buf)
		if err != nil {
			return bad(err)
		}
		return nil, w.putGroup(h, payload, g, fn)
	}
	if was, err := w.s.Forgotten(h.ID); was || err != nil { // it does not come back by a remote
		return nil, err
	}
	data, err := pack.Decompress(&h, payload, buf)
	if err != nil {
		return bad(err)
	}
	switch h.Kind {
	case uint8(object.Blob), uint8(object.Tree), uint8(object.Coverage):
		if got := object.Hash(object.Kind(h.Kind), data); got != h.ID {
			return bad(fmt.Errorf("content does not hash to %s", h.ID.Short()))
		}
	case pack.RecChunked:
		if len(data) == 0 || len(data)%chunkRefSize != 0 {
			return bad(fmt.Errorf("chunk list of %d bytes", len(data)))
		}
		lists = append(lists, h.ID)
	default:
		return bad(fmt.Errorf("%w: record of kind %d", store.ErrFormat, h.Kind))
	}
	err = w.putAsIs(h, payload, nil, []store.ID{h.ID}, func() error { return w.put(h.Kind, h.ID, data, 0) })
	if err == nil && h.Kind == uint8(object.Blob) {
		err = fn(h.ID, data)
	}
	return lists, err
}

// putGroup stores the members of a group, but for those that were forgotten, and calls fn with blobs.
func (w *Writer) putGroup(
	h pack.Header, payload []byte, g *pack.Group, fn func(id store.ID, content []byte) error,
) error {
	forgotten, err := w.s.forgottenIDs()
	if err != nil {
		return err
	}
	ids := make([]store.ID, len(g.Members))
	var kept []int // those that were not forgotten
	for i := range g.Members {
		m := &g.Members[i]
		if m.Kind != uint8(object.Blob) && m.Kind != uint8(object.Tree) && m.Kind != uint8(object.Coverage) {
			return &ParcelError{fmt.Errorf("%w: member of kind %d", store.ErrFormat, m.Kind)}
		}
		if object.Hash(object.Kind(m.Kind), g.Data(i)) != m.ID {
			return &ParcelError{fmt.Errorf("content does not hash to %s", m.ID.Short())}
		}
		ids[i] = m.ID
		if !forgotten[m.ID] {
			kept = append(kept, i)
		}
	}
	each := func() error {
		for _, i := range kept {
			if err := w.put(g.Members[i].Kind, ids[i], g.Data(i), 0); err != nil {
				return err
			}
		}
		return nil
	}
	put := each
	if w.s.grouping.on.Load() && len(kept) == len(ids) {
		put = func() error { return w.putAsIs(h, payload, g.Members, ids, each) }
	}
	if err := put(); err != nil {
		return err
	}
	for _, i := range kept {
		if g.Members[i].Kind == uint8(object.Blob) {
			if err := fn(ids[i], g.Data(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// putAsIs appends a record as it is if none of its objects is there; else each puts those
// that are not. Only one goroutine may do so at a time: it reserves many.
func (w *Writer) putAsIs(
	h pack.Header, payload []byte, members []pack.Member, ids []store.ID, each func() error,
) error {
	w.s.whole.Lock()
	defer w.s.whole.Unlock()
	seen := make(map[store.ID]bool)
	for _, id := range ids {
		there, err := w.s.counts(id)
		if err != nil {
			return err
		}
		if there || seen[id] {
			return each()
		}
		seen[id] = true
	}
	var reserved []store.ID
	defer func() {
		for _, id := range reserved {
			w.s.release(id)
		}
	}()
	for _, id := range ids {
		ok, err := w.s.reserve(id)
		if err != nil {
			return err
		}
		if !ok { // somebody was faster: it is there twice
			continue
		}
		reserved = append(reserved, id)
	}
	if err := w.spend(h.Size()); err != nil {
		return err
	}
	defer w.spent(h.Size())
	if err := w.s.append(w.generation, h, payload, members); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Objects += len(ids)
	w.stats.Bytes += int64(h.Raw)
	w.stats.Stored += h.Size()
	w.settled, w.vouched = false, false
	return nil
}

// Import makes all objects put so far durable and then records snapshots of another store.
// make is called with the number of the first, and the others follow it; it sets none. It may be
// called again. When Import returns nil, all survive a power cut; if it does not, none or
// all may be there.
//
// Snapshots that were pruned in the other store are pruned here.
func (w *Writer) Import(ctx context.Context, make func(first uint64) ([]*store.Snapshot, error)) error {
	if err := w.commit(ctx, &commitRequest{generation: w.generation, imports: make}); err != nil {
		return fmt.Errorf("import snapshots: %w", err)
	}
	return nil
}

// importRecords returns the records of an import, the first of which gets a number.
func importRecords(r *commitRequest, first uint64, packs []journal.PackLen) (list []journal.Record, err error) {
	snaps, err := r.imports(first)
	if err != nil {
		return nil, err
	}
	for i, snap := range snaps {
		body := journal.AppendSnapshot(nil, snap, packs)
		if err := checkBody(body); err != nil {
			return nil, err
		}
		snap.Seq = first + uint64(i)
		list = append(list, journal.Record{Kind: journal.FrameSnapshot, Body: body})
	}
	return list, nil
}

// EncodeSnapshot returns what a record of the journal says of a snapshot, for another store.
// DecodeSnapshot reads it; the number is the caller's to know.
func EncodeSnapshot(snap *store.Snapshot) []byte { return journal.AppendSnapshot(nil, snap, nil) }

// DecodeSnapshot reads what EncodeSnapshot has written in a store in which the snapshot has a
// number. The error matches [store.ErrFormat] for one of a newer version.
func DecodeSnapshot(seq uint64, body []byte) (*store.Snapshot, error) {
	snap, err := journal.ParseSnapshot(journal.Frame{Kind: journal.FrameSnapshot, Seq: seq, Body: body})
	if err != nil {
		return nil, err
	}
	return journal.Present(snap, nil), nil
}

// RecordSize returns how long the first record is of several, one behind the other.
func RecordSize(b []byte) (int, error) {
	if len(b) < pack.HeaderSize {
		return 0, &ParcelError{io.ErrUnexpectedEOF}
	}
	h, err := pack.ParseHeader(b[:pack.HeaderSize])
	if err == nil && h.Size() > int64(len(b)) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, &ParcelError{err}
	}
	return int(h.Size()), nil
}
