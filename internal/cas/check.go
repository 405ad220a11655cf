package cas

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// A Report is what [Store.Check] found.
type Report struct {
	Segments  int                    `json:"segments"`  // of the journal
	Snapshots int                    `json:"snapshots"` // recorded in it, and not pruned
	Packs     int                    `json:"packs"`
	Objects   int                    `json:"objects"` // records in packs
	Bytes     int64                  `json:"bytes"`   // of packs
	Damage    []*object.CorruptError `json:"-"`
	Accepted  []AcceptedError        `json:"-"` // of the journal: lost, as somebody has accepted
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
	_, err := s.checkJournal(r, nil)
	durable := maps.Clone(s.j.Packs)
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
	s.beginPacks(ctx, "checking", ids, 0)
	for _, id := range ids {
		if err := s.checkPack(ctx, r, id, durable[id], readData); err != nil {
			return nil, err
		}
		delete(durable, id)
	}
	for id := range durable {
		r.Damage = append(r.Damage, &object.CorruptError{Path: layout.PackName(id), Err: errors.New("pack is missing")})
	}
	if err := s.outdated(); err != nil && len(r.Damage) > 0 {
		return nil, err
	}
	return r, nil
}

// beginPacks begins a phase in which packs are read, until so many bytes were; 0 is all.
func (s *Store) beginPacks(ctx context.Context, name string, ids [][16]byte, maxBytes int64) {
	done := progress.Of(ctx)
	if done == nil {
		return
	}
	phase := progress.Phase{Name: name, Unit: "pack"}
	for _, id := range ids {
		if maxBytes > 0 && phase.Bytes >= maxBytes {
			break
		}
		phase.Items++
		if st, err := s.fsys.Stat(layout.PackName(id)); err == nil {
			phase.Bytes += st.Size
		}
	}
	done.Begin(phase)
}

// checkJournal reads all segments, as they are when m is done, if it is not nil.
// Store.jmu is held.
func (s *Store) checkJournal(r *Report, m *journalMend) (*continuity, error) {
	if err := s.j.Refresh(); err != nil {
		return nil, err
	}
	if s.badFormat != nil && m == nil { // it is mended first
		r.Damage = append(r.Damage, s.badFormat)
	}
	c, err := s.readSegments(r, m)
	if err != nil {
		return nil, err
	}
	accepted, err := s.Accepted()
	if damage, ok := errors.AsType[*object.CorruptError](err); ok && m == nil { // as above
		r.Damage = append(r.Damage, damage)
	} else if err != nil && !ok {
		return nil, err
	}
	damage, known := c.damage(accepted)
	r.Damage, r.Accepted = append(r.Damage, damage...), append(r.Accepted, known...)
	for snap, err := range s.j.Snapshots(s.j.Seg + 1) {
		if err != nil {
			return nil, err
		}
		if !s.j.Pruned.Has(snap.Seq) {
			r.Snapshots++
		}
	}
	return c, nil
}

// readSegments takes up all segments, those that are missing too.
func (s *Store) readSegments(r *Report, m *journalMend) (*continuity, error) {
	segs, last, err := s.j.Segments()
	if err != nil {
		return nil, err
	}
	r.Segments = len(segs)
	known, err := s.j.LastKnown()
	if err != nil {
		return nil, err
	}
	last = max(last, known)
	c := &continuity{have: make(map[uint64]uint64)}
	next := uint64(1)
	for _, seg := range append(segs, last+1) {
		if next < seg {
			c.missing(next, seg-1)
		}
		next = seg + 1
		if seg > last {
			break
		}
		if err := s.checkSegment(c, seg, m); errors.Is(err, fs.ErrNotExist) {
			c.missing(seg, seg)
		} else if err != nil {
			return nil, err
		}
	}
	c.top = max(c.top, s.j.Seq) // somebody may have cut what this process has read
	if m != nil {
		for seq := range m.again {
			c.have[seq] = last + 1
		}
	}
	return c, nil
}

// checkForgotten reads the list of what was forgotten.
func (s *Store) checkForgotten(r *Report) error {
	_, err := s.forgottenIDs()
	return unlessDamage(&r.Damage, err)
}

// unlessDamage adds an error to a list if it tells of damage, and else returns it.
func unlessDamage(list *[]*object.CorruptError, err error) error {
	if d, ok := errors.AsType[*object.CorruptError](err); ok {
		*list = append(*list, d)
		return nil
	}
	return err
}

// checkSegment takes up one segment, and what its summary says of it.
func (s *Store) checkSegment(c *continuity, seg uint64, m *journalMend) error {
	f, err := s.fsys.OpenFile(layout.SegmentName(seg), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if m != nil && m.fixes[seg] != nil {
		f = &patched{f, m.fixes[seg]}
	}
	var b [layout.HeaderSize]byte
	if _, err := f.ReadAt(b[:], 0); err != nil && err != io.EOF {
		return err
	}
	p := &journalPart{seg: seg, upTo: seg}
	if _, err := layout.ParseHeader(b[:], layout.JournalMagic, s.id); err != nil {
		p.damage = append(p.damage, &object.CorruptError{Path: layout.SegmentName(seg), Err: err})
	}
	if p.frames, err = s.j.Scan(f, layout.SegmentName(seg), layout.HeaderSize); err != nil {
		return err
	}
	p.damage = append(p.damage, p.frames.Damage...)
	// What cannot be read of it is damage of something that is derived.
	if b, err := vfs.ReadFile(s.fsys, layout.SummaryName(seg)); err == nil && len(b) >= layout.HeaderSize {
		p.sum, _ = journal.ParseSummary(b, s.id, seg, int64(layout.Le.Uint64(b[journal.SummaryLength:])))
	}
	c.add(p)
	return nil
}

// A continuity is the journal as it should be: its records are numbered without
// a gap, so what is missing can be told from what is there.
type continuity struct {
	parts []*journalPart
	have  map[uint64]uint64 // each record, and the last part that says it
	top   uint64            // the highest number that was given out
}

// A journalPart is a segment, or some that are missing.
type journalPart struct {
	seg, upTo uint64
	frames    journal.Frames
	sum       *journal.Summary // nil: none that is whole
	damage    []*object.CorruptError
	absent    bool
	base      uint64 // the last record before it
}

func (c *continuity) missing(seg, upTo uint64) {
	c.parts = append(c.parts, &journalPart{seg: seg, upTo: upTo, absent: true, base: c.top})
}

func (c *continuity) add(p *journalPart) {
	c.parts = append(c.parts, p)
	for i, f := range p.frames.List {
		if i == 0 && f.Off == layout.HeaderSize && f.Kind == journal.FrameState {
			c.top = max(c.top, f.Seq)
			p.base = f.Seq
		} else if i == 0 {
			p.base = c.top
		}
		c.top = max(c.top, f.Seq)
		if f.Kind != journal.FrameState {
			c.have[f.Seq] = p.seg
		}
	}
}

// damage returns what is wrong with the journal, in the order of its segments, and
// what of that was accepted. What is lost beyond that tells only of itself.
func (c *continuity) damage(accepted *Accepted) (list []*object.CorruptError, known []AcceptedError) {
	lost := c.lost()
	for i, p := range c.parts {
		more, told := accepted.others(lost[i])
		found, cut := p.damage, false
		switch {
		case p.absent && p.seg == p.upTo:
			found = []*object.CorruptError{{Path: layout.SegmentName(p.seg),
				Err: errors.New("segment is missing" + tellRecords(lost[i]))}}
		case p.absent:
			found = []*object.CorruptError{{Path: layout.SegmentName(p.upTo),
				Err: fmt.Errorf("segments %d to %d are missing%s", p.seg, p.upTo, tellRecords(lost[i]))}}
		case len(found) == 0 && len(lost[i]) > 0: // else that is why
			found, cut = []*object.CorruptError{p.cut(lost[i])}, true
		}
		fresh := false
		for _, d := range found {
			at, ok := accepted.Place(placeOf(d))
			if cut && len(more) == 0 {
				at, ok = told, true
			} else if cut && !c.saidBefore(more) {
				ok = false
			}
			if ok {
				known = append(known, AcceptedError{d, at})
			} else {
				list, fresh = append(list, d), true
			}
		}
		if len(more) > 0 && !fresh && !c.saidBefore(more) {
			list = append(list, p.cut(more))
		}
	}
	return list, known
}

// cut is the damage to a segment that lacks records.
func (p *journalPart) cut(lost journal.SeqSet) *object.CorruptError {
	return &object.CorruptError{Path: layout.SegmentName(p.seg), Off: p.endBefore(lost[0].From), Err: fmt.Errorf("%w%s",
		errCut, tellRecords(lost))}
}

// saidBefore reports whether all of the records are there, as they were said at first.
func (c *continuity) saidBefore(set journal.SeqSet) bool {
	for _, r := range set {
		if r.To-r.From >= uint64(len(c.have)) {
			return false
		}
		for seq := r.From; seq <= r.To; seq++ {
			if _, ok := c.have[seq]; !ok {
				return false
			}
		}
	}
	return true
}

// loss returns what the journal has lost.
func (c *continuity) loss() *Loss {
	l := &Loss{top: c.top}
	damage, _ := c.damage(nil)
	for _, d := range damage {
		l.Places = append(l.Places, placeOf(d))
	}
	lost := c.lost()
	for _, i := range slices.Sorted(maps.Keys(lost)) {
		for _, r := range lost[i] {
			if !c.saidBefore(journal.SeqSet{r}) {
				l.Records = append(l.Records, [2]uint64{r.From, r.To})
			}
		}
	}
	return l
}

// errCut: a segment does not have all that it had.
var errCut = errors.New("it ends too early, or was cut")

// lost returns the records that each part had, and that nobody says again.
func (c *continuity) lost() map[int]journal.SeqSet {
	lost := make(map[int]journal.SeqSet)
	i := 0
	from := uint64(1)
	for _, seq := range append(slices.Sorted(maps.Keys(c.have)), c.top+1) {
		for to := seq - 1; from <= to; {
			for i+1 < len(c.parts) && c.parts[i+1].base < from {
				i++
			}
			end := to
			if i+1 < len(c.parts) {
				end = min(end, c.parts[i+1].base)
			}
			lost[i] = append(lost[i], journal.SeqRange{From: from, To: end})
			from = end + 1
		}
		from = max(from, seq+1)
	}
	// What was said again in a segment, and is lost there, only its summary knows.
	for i, p := range c.parts {
		if p.sum == nil || len(p.damage) > 0 || len(lost[i]) > 0 {
			continue
		}
		for _, ref := range p.sum.Recs {
			_, ok := slices.BinarySearchFunc(p.frames.List, int64(ref.Off), func(f journal.PlacedFrame, off int64) int {
				return cmp.Compare(f.Off, off)
			})
			if !ok && c.have[ref.Seq] <= p.seg {
				set := lost[i]
				set.Add(ref.Seq, false)
				lost[i] = set
			}
		}
	}
	return lost
}

// endBefore returns where the records before a number end.
func (p *journalPart) endBefore(seq uint64) int64 {
	for _, f := range p.frames.List {
		if f.Seq > seq {
			return f.Off
		}
	}
	return p.frames.End
}

// tellRecords says which records are lost.
func tellRecords(set journal.SeqSet) string {
	if len(set) == 0 {
		return ""
	}
	first, last, n := set[0].From, set[len(set)-1].To, uint64(0)
	for _, r := range set {
		n += r.To - r.From + 1
	}
	if n == 1 {
		return fmt.Sprintf(": record %d is lost", first)
	}
	return fmt.Sprintf(": %d records are lost, %d to %d", n, first, last)
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
	defer x.pack.F.Close()
	if x.header != nil {
		r.Damage = append(r.Damage, x.header)
		return nil
	}
	r.Packs++
	r.Bytes += x.size
	r.Objects += len(x.records)
	r.Damage = append(r.Damage, x.damage...)
	if x.index != nil && !errors.Is(x.index, fs.ErrNotExist) { // it is derived
		r.Damage = append(r.Damage, &object.CorruptError{Path: layout.IndexName(id), Err: x.index})
	}
	if !readData {
		progress.Of(ctx).Count(1, x.size)
		return nil
	}
	return s.checkObjects(ctx, x, &r.Damage)
}

// checkObjects verifies all that a pack holds.
func (s *Store) checkObjects(ctx context.Context, x *examined, damage *[]*object.CorruptError) error {
	done := progress.Of(ctx)
	var r recordReader
	var bad pack.Location // a group that is damaged is so once
	for _, e := range x.records {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		record := e.Location
		record.Member = 0
		if e.Member > 0 && bad == record {
			continue
		}
		err := s.checkObject(ctx, &r, e)
		if errors.Is(err, store.ErrCorrupt) {
			bad = record
		}
		if err := unlessDamage(damage, err); err != nil {
			return err
		}
		if e.Member <= 1 {
			done.Count(0, int64(e.Stored))
		}
	}
	done.Count(1, 0)
	return nil
}

// An examined pack is what there is of one. Its file is open.
type examined struct {
	pack    *pack.Pack
	size    int64
	end     int64        // up to where its records count
	sealed  bool         // it says so itself
	records []pack.Entry // in order; what they hold is not known
	foreign bool         // it belongs to another store
	header  *object.CorruptError
	damage  []*object.CorruptError // beside that
	index   error                  // what is wrong with its index; matches fs.ErrNotExist if it has none
}

// examine finds the records of a pack, and what is damaged but for what they
// hold. durable is its length according to the journal, 0 if that does not
// name it.
func (s *Store) examine(id [16]byte, durable int64) (*examined, error) {
	f, err := s.fsys.OpenFile(layout.PackName(id), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	x := &examined{pack: &pack.Pack{ID: id, F: f}}
	if err := s.examineOpen(x, durable); err != nil {
		f.Close()
		return nil, err
	}
	return x, nil
}

func (s *Store) examineOpen(x *examined, durable int64) error {
	p := x.pack
	var err error
	if x.foreign, err = p.CheckHeader(s.id); err != nil && !errors.As(err, &x.header) {
		return err
	}
	st, err := p.F.Stat()
	if err != nil {
		return err
	}
	x.size = st.Size
	// The index before the seal: who seals it meanwhile writes the seal first.
	index, err := pack.OpenIndex(s.fsys, s.id, p)
	x.index = err
	if err == nil {
		defer index.F.Close()
	}
	if x.end, x.sealed, err = p.SealedAt(); err != nil {
		return err
	}
	switch {
	case x.sealed:
	case x.index == nil:
		x.end = index.BodyEnd
		x.damage = append(x.damage, &object.CorruptError{Path: p.Name(), Off: x.end,
			Err: errors.New("no seal at the end, though there is an index")})
	default:
		// What no record of the journal names is no one's.
		x.end = max(durable, layout.HeaderSize)
	}
	damage, err := p.Scan(layout.HeaderSize, x.end, func(e pack.Entry) { x.records = append(x.records, e) })
	if err != nil {
		return err
	}
	x.damage = append(x.damage, damage...)
	if x.index == nil {
		x.index = checkIndex(index, x.records)
	}
	return nil
}

// checkIndex compares an index with the records of its pack: it names one of each object.
func checkIndex(x *pack.Index, records []pack.Entry) error {
	type named struct {
		prefix [pack.PrefixSize]byte
		at     pack.Location
	}
	n, wrong := 0, 0
	there := make(map[named]bool, len(records))
	objects := make(map[[pack.PrefixSize]byte]bool, len(records)) // false: not named yet
	for _, e := range records {
		prefix := [pack.PrefixSize]byte(e.ID[:])
		there[named{prefix, e.Location}] = true
		objects[prefix] = false
	}
	err := x.All(func(prefix [pack.PrefixSize]byte, loc pack.Location) {
		n++
		if !there[named{prefix, loc}] || objects[prefix] {
			wrong++
			return
		}
		objects[prefix] = true
	})
	if err == nil && (wrong > 0 || n != len(objects)) {
		err = fmt.Errorf("%w: %d objects, %d of them elsewhere; the pack has %d", pack.ErrIndex, n, wrong, len(objects))
	}
	return err
}

// checkObject verifies one object. A chunk list is verified with its chunks.
func (s *Store) checkObject(ctx context.Context, r *recordReader, e pack.Entry) error {
	h, data, err := r.read(e)
	if err != nil || h.Kind != pack.RecChunked {
		return err
	}
	for ref := range slices.Chunk(data, chunkRefSize) { // what a remote has is its business
		if len(ref) < chunkRefSize {
			break
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if there, err := s.Has(store.ID(ref[:32])); err != nil {
			return err
		} else if there {
			continue
		}
		if remote, err := s.Promiser(store.ID(ref[:32])); remote != "" || err != nil {
			return err
		}
	}
	var n countWriter
	err = s.copyChunks(ctx, &n, e.ID, data, e.Location)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrForgotten) || errors.Is(err, store.ErrCorrupt) {
		return corrupt(e.Location, "%w", err)
	}
	return err
}

// CheckContent reads the objects of packs and verifies each against its ID: of those
// whose ids are not before from, in the order of ids, until so many bytes were read;
// 0 is all. It returns where to go on, "" at the end, and the damage that
// [Store.Check] does not find without reading data. at, unless it is nil, is called
// after each pack, with where it goes on, and how many places were found. Packs that are
// made meanwhile may be missed.
func (s *Store) CheckContent(
	ctx context.Context, from string, maxBytes int64, at func(next string, found int),
) (damage []*object.CorruptError, read int64, next string, err error) {
	ids, err := s.packIDs()
	if err != nil {
		return nil, 0, from, err
	}
	durable, err := s.durableLengths()
	if err != nil {
		return nil, 0, from, err
	}
	first, _ := slices.BinarySearchFunc(ids, from, func(id [16]byte, from string) int {
		return strings.Compare(hex.EncodeToString(id[:]), from)
	})
	s.beginPacks(ctx, "reading", ids[first:], maxBytes)
	for i, id := range ids {
		name := hex.EncodeToString(id[:])
		if name < from {
			continue
		}
		if maxBytes > 0 && read >= maxBytes {
			return damage, read, name, nil
		}
		size, err := s.checkContent(ctx, id, durable[id], &damage)
		if err != nil {
			return damage, read, name, err
		}
		read += size
		if next = ""; i+1 < len(ids) {
			next = hex.EncodeToString(ids[i+1][:])
		}
		if at != nil {
			at(next, len(damage))
		}
	}
	return damage, read, "", nil
}

// checkContent verifies all that one pack holds, and returns its length.
func (s *Store) checkContent(
	ctx context.Context, id [16]byte, durable int64, damage *[]*object.CorruptError,
) (int64, error) {
	x, err := s.examine(id, durable)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // moved away by a prune that runs now
	}
	if err != nil {
		return 0, err
	}
	defer x.pack.F.Close()
	before := len(*damage)
	if err = s.checkObjects(ctx, x, damage); err == nil && len(*damage) > before {
		err = s.outdated()
	}
	return x.size, err
}
