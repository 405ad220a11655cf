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
	Snapshots int             `json:"snapshots"` // recorded in it
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
		damage, err := s.checkSegment(f, name)
		f.Close()
		if err != nil {
			return err
		}
		r.Damage = append(r.Damage, damage...)
	}
	for _, err := range s.j.snapshots(s.j.seg + 1) {
		if err != nil {
			return err
		}
		r.Snapshots++
	}
	return nil
}

// checkSegment reports the damage in one segment.
func (s *Store) checkSegment(f vfs.File, name string) ([]*CorruptError, error) {
	var b [fileHeaderSize]byte
	if _, err := f.ReadAt(b[:], 0); err != nil && err != io.EOF {
		return nil, err
	}
	var damage []*CorruptError
	if _, err := parseFileHeader(b[:], journalMagic, s.id); err != nil {
		damage = append(damage, &CorruptError{Path: name, Err: err})
	}
	found, err := s.j.scan(f, name, fileHeaderSize)
	return append(damage, found.damage...), err
}

// checkPack reads one pack. durable is its length according to the journal,
// 0 if that does not name it.
func (s *Store) checkPack(ctx context.Context, r *Report, id [16]byte, durable int64, readData bool) error {
	p, err := openPack(s.fsys, s.id, id, os.O_RDONLY)
	var corruptErr *CorruptError
	if errors.Is(err, fs.ErrNotExist) {
		return nil // moved away by a prune that runs now
	}
	if errors.As(err, &corruptErr) {
		r.Damage = append(r.Damage, corruptErr)
		return nil
	}
	if err != nil {
		return err
	}
	defer p.f.Close()
	st, err := p.f.Stat()
	if err != nil {
		return err
	}
	end, sealed, err := p.sealedAt()
	if err != nil {
		return err
	}
	x, indexErr := openIndex(s.fsys, s.id, p)
	if indexErr == nil {
		defer x.f.Close()
	}
	switch {
	case sealed:
	case indexErr == nil:
		end = x.bodyEnd
		r.Damage = append(r.Damage, &CorruptError{Path: p.name(), Off: end,
			Err: errors.New("no seal at the end, though there is an index")})
	default:
		// What no record of the journal names is no one's.
		end = max(durable, fileHeaderSize)
	}
	if end > st.Size {
		r.Damage = append(r.Damage, &CorruptError{Path: p.name(), Off: st.Size,
			Err: fmt.Errorf("%d bytes are missing at the end", end-st.Size)})
		end = st.Size
	}
	r.Packs++
	r.Bytes += st.Size

	found := make(map[ID]location)
	damage, err := p.scan(fileHeaderSize, end, func(e indexEntry) {
		r.Objects++
		if _, ok := found[e.id]; !ok {
			found[e.id] = e.location
		}
	})
	if err != nil {
		return err
	}
	r.Damage = append(r.Damage, damage...)
	switch {
	case indexErr == nil:
		indexErr = checkIndex(x, found)
	case errors.Is(indexErr, fs.ErrNotExist):
		indexErr = nil // it is derived
	}
	if indexErr != nil {
		r.Damage = append(r.Damage, &CorruptError{Path: indexName(id), Err: indexErr})
	}
	if !readData {
		return nil
	}
	for id, loc := range found {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := s.checkObject(ctx, id, loc); errors.As(err, &corruptErr) {
			r.Damage = append(r.Damage, corruptErr)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// checkIndex compares an index with what was found in its pack.
func checkIndex(x *indexFile, found map[ID]location) error {
	n, wrong := 0, 0
	byPrefix := make(map[[prefixSize]byte]location, len(found))
	for id, loc := range found {
		byPrefix[[prefixSize]byte(id[:])] = loc
	}
	err := x.all(func(prefix [prefixSize]byte, loc location) {
		n++
		if byPrefix[prefix] != loc {
			wrong++
		}
	})
	if err == nil && (wrong > 0 || n != len(found)) {
		err = fmt.Errorf("%w: %d objects, %d of them elsewhere; the pack has %d", errIndex, n, wrong, len(found))
	}
	return err
}

// checkObject verifies one record. A chunk list is verified with its chunks.
func (s *Store) checkObject(ctx context.Context, id ID, loc location) error {
	h, payload, err := loc.pack.read(loc)
	if err != nil {
		return err
	}
	data, err := decompress(&h, payload)
	if err != nil {
		return corrupt(loc, "%w", err)
	}
	switch h.kind {
	case uint8(Blob), uint8(Tree), uint8(Coverage):
		if Hash(Kind(h.kind), data) != id {
			return corrupt(loc, "content does not hash to %s", id.Short())
		}
		return nil
	case recChunked:
		var n countWriter
		err := s.copyChunks(ctx, &n, id, data, loc)
		if errors.Is(err, ErrNotFound) {
			return corrupt(loc, "%w", err)
		}
		return err
	}
	return corrupt(loc, "%w: record of kind %d", ErrFormat, h.kind)
}
