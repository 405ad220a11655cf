package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/boocode/filestore/internal/vfs"
)

// A Report is what [Store.Check] found.
type Report struct {
	Segments  int             `json:"segments"`  // of the journal
	Snapshots int             `json:"snapshots"` // recorded in it, and not pruned
	Packs     int             `json:"packs"`
	Objects   int             `json:"objects"` // records in packs
	Bytes     int64           `json:"bytes"`   // of packs
	Damage    []*CorruptError `json:"-"`
}

// Check reads the structure of the whole store and reports what is damaged:
// every header and every record of the journal, and that indexes say what
// their packs do. With readData it reads all objects too and verifies each
// against its ID.
//
// It writes nothing. Whether snapshots are complete is a question of trees,
// which the store cannot read. An error means that the check could not be
// done, not that it found something.
func (s *Store) Check(ctx context.Context, readData bool) (*Report, error) {
	r := new(Report)
	s.jmu.Lock()
	err := s.checkJournal(r)
	durable := make(map[[16]byte]int64)
	for id, end := range s.j.packs {
		durable[id] = end
	}
	s.jmu.Unlock()
	if err == nil {
		err = s.checkForgotten(r)
	}
	if err != nil {
		return nil, err
	}
	ids, err := s.packIDs()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if err := s.checkPack(ctx, r, id, durable[id], readData); err != nil {
			return nil, err
		}
		delete(durable, id)
	}
	for id := range durable {
		r.Damage = append(r.Damage, &CorruptError{Path: packName(id), Err: errors.New("pack is missing")})
	}
	return r, nil
}

// checkJournal reads all segments. Store.jmu is held.
func (s *Store) checkJournal(r *Report) error {
	if err := s.j.refresh(); err != nil {
		return err
	}
	segs, err := s.j.segments()
	if err != nil {
		return err
	}
	r.Segments = len(segs)
	for i, seg := range segs {
		name := segmentName(seg)
		if i > 0 && seg != segs[i-1]+1 {
			r.Damage = append(r.Damage, &CorruptError{Path: segmentName(seg - 1), Err: errors.New("segment is missing")})
		}
		f, err := s.fsys.OpenFile(name, os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		damage, err := s.checkSegment(f, seg)
		f.Close()
		if err != nil {
			return err
		}
		r.Damage = append(r.Damage, damage...)
	}
	for snap, err := range s.j.snapshots(s.j.seg + 1) {
		if err != nil {
			return err
		}
		if !s.j.pruned.has(snap.Seq) {
			r.Snapshots++
		}
	}
	return nil
}

// checkForgotten reads the list of what was forgotten.
func (s *Store) checkForgotten(r *Report) error {
	_, err := s.forgottenIDs()
	var damage *CorruptError
	if errors.As(err, &damage) {
		r.Damage = append(r.Damage, damage)
		return nil
	}
	return err
}

// checkSegment reports the damage in one segment.
func (s *Store) checkSegment(f vfs.File, seg uint64) ([]*CorruptError, error) {
	name := segmentName(seg)
	var b [fileHeaderSize]byte
	if _, err := f.ReadAt(b[:], 0); err != nil && err != io.EOF {
		return nil, err
	}
	var damage []*CorruptError
	h, err := parseFileHeader(b[:], journalMagic, s.id)
	if err == nil && h.name != segmentID(seg) {
		err = fmt.Errorf("it is segment %d", le.Uint64(h.name[:]))
	}
	if err != nil {
		damage = append(damage, &CorruptError{Path: name, Err: err})
	}
	found, err := s.j.scan(f, name, fileHeaderSize)
	return append(damage, found.damage...), err
}

// checkPack reads one pack. durable is its length according to the journal,
// 0 if that does not name it.
func (s *Store) checkPack(ctx context.Context, r *Report, id [16]byte, durable int64, readData bool) error {
	x, err := s.examine(id, durable)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // moved away by a prune that runs now
	}
	if err != nil {
		return err
	}
	defer x.pack.f.Close()
	if x.header != nil {
		r.Damage = append(r.Damage, x.header)
		return nil
	}
	r.Packs++
	r.Bytes += x.size
	r.Objects += len(x.records)
	r.Damage = append(r.Damage, x.damage...)
	if x.index != nil && !errors.Is(x.index, fs.ErrNotExist) { // it is derived
		r.Damage = append(r.Damage, &CorruptError{Path: indexName(id), Err: x.index})
	}
	if !readData {
		return nil
	}
	var corruptErr *CorruptError
	for _, e := range x.records {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := s.checkObject(ctx, e); errors.As(err, &corruptErr) {
			r.Damage = append(r.Damage, corruptErr)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// An examined pack is what there is of one. Its file is open.
type examined struct {
	pack    *pack
	size    int64
	end     int64        // up to where its records count
	sealed  bool         // it says so itself
	records []indexEntry // in order; what they hold is not known
	foreign bool         // it belongs to another store
	header  *CorruptError
	damage  []*CorruptError // beside that
	index   error           // what is wrong with its index; matches fs.ErrNotExist if it has none
}

// examine finds the records of a pack, and what is damaged but for what they
// hold. durable is its length according to the journal, 0 if that does not
// name it.
func (s *Store) examine(id [16]byte, durable int64) (*examined, error) {
	f, err := s.fsys.OpenFile(packName(id), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	x := &examined{pack: &pack{id: id, f: f}}
	if err := s.examineOpen(x, durable); err != nil {
		f.Close()
		return nil, err
	}
	return x, nil
}

func (s *Store) examineOpen(x *examined, durable int64) error {
	p := x.pack
	var err error
	if x.foreign, err = p.checkHeader(s.id); err != nil && !errors.As(err, &x.header) {
		return err
	}
	st, err := p.f.Stat()
	if err != nil {
		return err
	}
	x.size = st.Size
	// The index before the seal: who seals it meanwhile writes the seal first.
	index, err := openIndex(s.fsys, s.id, p)
	x.index = err
	if err == nil {
		defer index.f.Close()
	}
	if x.end, x.sealed, err = p.sealedAt(); err != nil {
		return err
	}
	switch {
	case x.sealed:
	case x.index == nil:
		x.end = index.bodyEnd
		x.damage = append(x.damage, &CorruptError{Path: p.name(), Off: x.end,
			Err: errors.New("no seal at the end, though there is an index")})
	default:
		// What no record of the journal names is no one's.
		x.end = max(durable, fileHeaderSize)
	}
	damage, err := p.scan(fileHeaderSize, x.end, func(e indexEntry) { x.records = append(x.records, e) })
	if err != nil {
		return err
	}
	x.damage = append(x.damage, damage...)
	if x.index == nil {
		x.index = checkIndex(index, x.records)
	}
	return nil
}

// checkIndex compares an index with the records of its pack.
func checkIndex(x *indexFile, records []indexEntry) error {
	n, wrong := 0, 0
	found := make(map[[prefixSize]byte]location, len(records)) // the first of each ID
	for _, e := range records {
		if prefix := [prefixSize]byte(e.id[:]); found[prefix].pack == nil {
			found[prefix] = e.location
		}
	}
	err := x.all(func(prefix [prefixSize]byte, loc location) {
		n++
		if found[prefix] != loc {
			wrong++
		}
	})
	if err == nil && (wrong > 0 || n != len(found)) {
		err = fmt.Errorf("%w: %d objects, %d of them elsewhere; the pack has %d", errIndex, n, wrong, len(found))
	}
	return err
}

// checkObject verifies one record. A chunk list is verified with its chunks.
func (s *Store) checkObject(ctx context.Context, e indexEntry) error {
	h, data, err := readRecord(e)
	if err != nil || h.kind != recChunked {
		return err
	}
	var n countWriter
	err = s.copyChunks(ctx, &n, e.id, data, e.location)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrForgotten) {
		return corrupt(e.location, "%w", err)
	}
	return err
}

// readRecord returns what a record holds, verified but for a chunk list, whose
// ID is that of what its chunks hold.
func readRecord(e indexEntry) (recordHeader, []byte, error) {
	h, payload, err := e.pack.read(e.location)
	if err != nil {
		return h, nil, err
	}
	data, err := decompress(&h, payload)
	if err != nil {
		return h, nil, corrupt(e.location, "%w", err)
	}
	switch h.kind {
	case uint8(Blob), uint8(Tree), uint8(Coverage):
		if Hash(Kind(h.kind), data) != e.id {
			return h, nil, corrupt(e.location, "content does not hash to %s", e.id.Short())
		}
	case recChunked:
	default:
		return h, nil, corrupt(e.location, "%w: record of kind %d", ErrFormat, h.kind)
	}
	return h, data, nil
}
