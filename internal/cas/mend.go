package cas

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// A RecordRepair is a record of the journal that comes back: from where it was,
// by changing one byte back, or from a file in quarantine.
type RecordRepair struct {
	File string `json:"file"`
	Off  int64  `json:"offset"` // of the record; 0: the header of the file
	Seq  uint64 `json:"seq"`    // 0: of the header
}

// A journalMend is what can be done for the journal.
type journalMend struct {
	records []RecordRepair
	fixes   map[uint64][]fix         // by segment
	mended  map[uint64]journal.Frame // by seq: as they are when the fixes are done
	again   map[uint64]journal.Frame // by seq: from quarantine, or a segment that has another's name
}

// A fix is one byte of a segment that is not what it was.
type fix struct {
	off  int64
	was  byte
	from int64 // where what it belongs to begins
	size int64 // and how long that is
}

// has reports whether a record is in the journal when it is done.
func (m *journalMend) has(seq uint64) bool {
	_, ok := m.frame(seq)
	return ok
}

// frame returns a record that comes back.
func (m *journalMend) frame(seq uint64) (f journal.Frame, ok bool) {
	if m == nil {
		return f, false
	}
	if f, ok = m.again[seq]; !ok {
		f, ok = m.mended[seq]
	}
	return f, ok
}

// planJournal finds out what of a journal comes back. The checksums tell: of all
// ways to change one byte, the one that is right is found.
func (s *Store) planJournal(have map[uint64]uint64) (*journalMend, error) {
	m := &journalMend{fixes: make(map[uint64][]fix), mended: make(map[uint64]journal.Frame),
		again: make(map[uint64]journal.Frame)}
	segs, _, err := s.j.Segments()
	if err != nil {
		return nil, err
	}
	for _, seg := range segs {
		b, err := vfs.ReadFile(s.fsys, layout.SegmentName(seg))
		if err == nil {
			s.planSegment(m, seg, b, have)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return m, s.planQuarantine(m, have)
}

// planSegment finds out what can be changed back in a segment. One that has got the name of another
// stays, and what it alone has is said again.
func (s *Store) planSegment(m *journalMend, seg uint64, b []byte, have map[uint64]uint64) {
	name := layout.SegmentName(seg)
	if _, ok := journal.OtherSegment(b, s.id, name); ok {
		m.sayAgain(name, b, layout.HeaderSize, have)
		return
	}
	_, err := layout.ParseHeader(b, layout.JournalMagic, s.id)
	if err != nil && len(b) >= layout.HeaderSize && !errors.Is(err, store.ErrFormat) {
		if at, was, ok := s.mendHeader(b[:layout.HeaderSize], seg); ok {
			m.fixes[seg] = append(m.fixes[seg], fix{int64(at), was, 0, layout.HeaderSize})
			m.records = append(m.records, RecordRepair{File: name})
		}
	}
	journal.EachFrame(b, layout.HeaderSize, func(f journal.Frame, off, at int, was byte) {
		if at >= 0 {
			m.fixes[seg] = append(m.fixes[seg], fix{int64(at), was, int64(off), f.Size()})
			m.mended[f.Seq] = f
			m.records = append(m.records, RecordRepair{name, int64(off), f.Seq})
		}
	})
}

// planQuarantine finds the records of files in quarantine that the journal does not have.
func (s *Store) planQuarantine(m *journalMend, have map[uint64]uint64) error {
	names, err := s.fsys.ReadDir("quarantine")
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if !strings.HasPrefix(name, "journal-") {
			continue
		}
		name = "quarantine/" + name
		b, err := vfs.ReadFile(s.fsys, name)
		if err != nil {
			continue // it may have nothing
		}
		m.sayAgain(name, b, 0, have)
	}
	return nil
}

// sayAgain has the records of a file said again that the journal does not have.
func (m *journalMend) sayAgain(name string, b []byte, from int, have map[uint64]uint64) {
	journal.EachFrame(b, from, func(f journal.Frame, off, _ int, _ byte) {
		if have[f.Seq] > 0 || m.has(f.Seq) || f.Kind != journal.FrameSnapshot {
			return
		}
		if _, err := journal.ParseSnapshot(f); err != nil {
			return
		}
		m.again[f.Seq] = f
		m.records = append(m.records, RecordRepair{name, int64(off), f.Seq})
	})
}

// mendHeader finds the byte of a segment's header that is not what it was.
func (s *Store) mendHeader(b []byte, seg uint64) (at int, was byte, ok bool) {
	for at := range b {
		is := b[at]
		for n := range 256 {
			b[at] = byte(n)
			if h, err := layout.ParseHeader(b, layout.JournalMagic, s.id); err == nil &&
				h.Name == layout.SegmentID(seg) {
				b[at] = is
				return at, byte(n), true
			}
		}
		b[at] = is
	}
	return 0, 0, false
}

// patched is a segment as it is when its fixes are done.
type patched struct {
	vfs.File
	fixes []fix
}

func (p *patched) ReadAt(b []byte, off int64) (int, error) {
	n, err := p.File.ReadAt(b, off)
	for _, x := range p.fixes {
		if x.off >= off && x.off < off+int64(n) {
			b[x.off-off] = x.was
		}
	}
	return n, err
}

// mendJournal does what is planned for the journal. What is changed goes to
// quarantine first. The journal is locked, and so is Store.jmu.
func (s *Store) mendJournal(m *journalMend) error {
	if len(m.records) == 0 {
		return nil
	}
	for seg, fixes := range m.fixes {
		if err := s.mendSegment(seg, fixes); err != nil {
			return err
		}
	}
	if err := s.j.Close(); err != nil {
		return err
	}
	skip := s.j.Skip
	s.j = journal.New(s.fsys, s.id)
	s.j.Skip = skip
	if err := s.j.Refresh(); err != nil {
		return err
	}
	for seg := range m.fixes { // whoever began the next may have made one without what comes back
		if slices.Contains(s.j.ClosedSegs, seg) {
			if err := s.j.RemakeSummary(seg); err != nil {
				return err
			}
		}
	}
	var records []journal.Record
	for _, r := range m.records {
		f, ok := m.again[r.Seq]
		if !ok {
			continue
		}
		if there, err := s.j.BySeq(r.Seq); err != nil {
			return err
		} else if there == nil {
			records = append(records, journal.Record{Kind: f.Kind, Body: f.Body, Again: f.Seq})
		}
	}
	if len(records) == 0 {
		return nil
	}
	if err := s.j.Writable(); err != nil {
		return err
	}
	return s.j.Append(records)
}

func (s *Store) mendSegment(seg uint64, fixes []fix) error {
	f, err := s.fsys.OpenFile(layout.SegmentName(seg), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, x := range fixes {
		b := make([]byte, x.size)
		if _, err := f.ReadAt(b, x.from); err != nil {
			return err
		}
		name := fmt.Sprintf("quarantine/journal-%08d-%d-%s", seg, x.from, layout.RandomName())
		if err := layout.WriteFile(s.fsys, name, b); err != nil {
			return err
		}
		// Others may be reading it, and one may have it open to append: the byte
		// is changed where it is, and they see the one or the other.
		if _, err := f.WriteAt([]byte{x.was}, x.off); err != nil {
			return err
		}
	}
	return f.Sync()
}

// OnlyJournal returns the part of the plan that brings back FORMAT and records. What they
// need is seen when it is done: plan again.
func (p *RepairPlan) OnlyJournal() *RepairPlan {
	return &RepairPlan{Format: p.Format, Records: p.Records, journal: p.journal}
}

// AddRecord adds a record to the plan that the journal has lost, as the file from which
// it is known says. The store needs no plan to keep what it names: plan again behind it.
func (p *RepairPlan) AddRecord(file string, snap *store.Snapshot) {
	p.journal.again[snap.Seq] = journal.Frame{Kind: journal.FrameSnapshot, Seq: snap.Seq,
		Body: journal.AppendSnapshot(nil, snap, nil)}
	p.journal.records = append(p.journal.records, RecordRepair{File: file, Seq: snap.Seq})
	p.Records = p.journal.records
}

// Record returns the snapshot of a number that the plan brings back; nil if it does not.
func (p *RepairPlan) Record(seq uint64) (*store.Snapshot, error) {
	f, ok := p.journal.frame(seq)
	if !ok || f.Kind != journal.FrameSnapshot {
		return nil, nil
	}
	return journal.ParseSnapshot(f)
}

// HasRecord reports whether the plan brings back the record of a number.
func (p *RepairPlan) HasRecord(seq uint64) bool { return p.journal.has(seq) }
