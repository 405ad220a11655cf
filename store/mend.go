package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/vfs"
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
	fixes   map[uint64][]fix // by segment
	again   map[uint64]frame // by seq: from quarantine
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
	return m != nil && slices.ContainsFunc(m.records, func(r RecordRepair) bool { return r.Seq == seq })
}

// planJournal finds out what of a journal comes back. The checksums tell: of all
// ways to change one byte, the one that is right is found.
func (s *Store) planJournal(have map[uint64]uint64) (*journalMend, error) {
	m := &journalMend{fixes: make(map[uint64][]fix), again: make(map[uint64]frame)}
	segs, _, err := s.j.segments()
	if err != nil {
		return nil, err
	}
	there := make(map[uint64]bool)
	for seq := range have {
		there[seq] = true
	}
	for _, seg := range segs {
		b, err := vfs.ReadFile(s.fsys, segmentName(seg))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if _, err := parseFileHeader(b, journalMagic, s.id); err != nil && len(b) >= fileHeaderSize && !errors.Is(err, ErrFormat) {
			if at, was, ok := s.mendHeader(b[:fileHeaderSize], seg); ok {
				m.fixes[seg] = append(m.fixes[seg], fix{int64(at), was, 0, fileHeaderSize})
				m.records = append(m.records, RecordRepair{File: segmentName(seg)})
			}
		}
		eachFrame(b, fileHeaderSize, func(f frame, off, at int, was byte) {
			if at >= 0 {
				m.fixes[seg] = append(m.fixes[seg], fix{int64(at), was, int64(off), f.size()})
				m.records = append(m.records, RecordRepair{segmentName(seg), int64(off), f.seq})
				there[f.seq] = true
			}
		})
	}
	names, err := s.fsys.ReadDir("quarantine")
	if err != nil {
		return nil, err
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
		eachFrame(b, 0, func(f frame, off, _ int, _ byte) {
			if f.kind != frameSnapshot || there[f.seq] {
				return
			}
			if _, err := parseSnapshot(f); err != nil {
				return
			}
			there[f.seq] = true
			m.again[f.seq] = f
			m.records = append(m.records, RecordRepair{name, int64(off), f.seq})
		})
	}
	return m, nil
}

// mendHeader finds the byte of a segment's header that is not what it was.
func (s *Store) mendHeader(b []byte, seg uint64) (at int, was byte, ok bool) {
	for at := range b {
		is := b[at]
		for n := range 256 {
			b[at] = byte(n)
			if h, err := parseFileHeader(b, journalMagic, s.id); err == nil && h.name == segmentID(seg) {
				b[at] = is
				return at, byte(n), true
			}
		}
		b[at] = is
	}
	return 0, 0, false
}

// eachFrame calls fn for each frame in b from pos on, with its offset, and, if it
// is one only with one byte changed, with where that is and what it was; else -1.
func eachFrame(b []byte, pos int, fn func(f frame, off, at int, was byte)) {
	for pos+frameHeaderSize <= len(b) {
		f, ok := parseFrame(b[pos:])
		at, was := -1, byte(0)
		if !ok {
			if f, at, was, ok = mendFrame(b[pos:]); ok {
				at += pos
			}
		}
		if !ok {
			next := bytes.Index(b[pos+1:], le.AppendUint32(nil, frameMagic))
			if next < 0 {
				return
			}
			pos += 1 + next
			continue
		}
		fn(f, pos, at, was)
		pos += int(f.size())
	}
}

// mendFrame returns the frame at the start of b that is one if the byte at an
// offset is changed to what it was. b is as it was afterwards; the body is a copy.
func mendFrame(b []byte) (f frame, at int, was byte, ok bool) {
	if len(b) < frameHeaderSize {
		return f, 0, 0, false
	}
	try := func(at int, was byte) bool {
		is := b[at]
		b[at] = was
		if f, ok = parseFrame(b); ok {
			f.body = slices.Clone(f.body)
		}
		b[at] = is
		return ok
	}
	// The fields in the header, one after the other. A length that is wrong
	// may be any: it is the only one that has many to be tried.
	if le.Uint32(b) != frameMagic {
		good := le.AppendUint32(nil, frameMagic)
		for at := range good {
			if b[at] != good[at] {
				return f, at, good[at], try(at, good[at])
			}
		}
	}
	for at := 4; at < frameHeaderSize; at++ {
		for n := range 256 {
			if b[at] == byte(n) {
				continue
			}
			if try(at, byte(n)) {
				return f, at, byte(n), true
			}
			if (at < 8 || at > 11) && int(le.Uint32(b[8:])) > 1<<16 {
				break // it would take seconds
			}
		}
	}
	n := int(le.Uint32(b[8:]))
	if n > maxFrameBody || n > len(b)-frameHeaderSize {
		return f, 0, 0, false
	}
	// A checksum is linear: what a change does to it depends on the change and on
	// how far from the end it is.
	body := b[frameHeaderSize : frameHeaderSize+n]
	diff := le.Uint32(b[28:]) ^ frameChecksum(b, body)
	var effect [256]uint32
	for e := range effect {
		effect[e] = castagnoli[e]
	}
	for at := n - 1; at >= 0; at-- {
		for e := 1; e < 256; e++ {
			if effect[e] == diff && try(frameHeaderSize+at, body[at]^byte(e)) {
				return f, frameHeaderSize + at, body[at] ^ byte(e), true
			}
			effect[e] = castagnoli[byte(effect[e])] ^ effect[e]>>8
		}
	}
	return f, 0, 0, false
}

// flippedFrame reports whether there is a frame at the start of b but for one
// byte, and its number. What an append that was cut off may have left is none: its
// first byte, or its last ones, are zero if they are in a block that is not
// there.
func flippedFrame(b []byte) (seq uint64, ok bool) {
	f, at, _, ok := mendFrame(b)
	if ok && int(f.size()) < len(b) { // or else what follows was written behind it
		_, ok = parseFrame(b[f.size():])
	}
	if !ok || b[at] == 0 && (at == 0 || len(bytes.Trim(b[at:f.size()], "\x00")) == 0) {
		return 0, false
	}
	return f.seq, true
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
	if err := s.j.close(); err != nil {
		return err
	}
	skip := s.j.skip
	s.j = newJournal(s.fsys, s.id)
	s.j.skip = skip
	if err := s.j.refresh(); err != nil {
		return err
	}
	for seg := range m.fixes { // whoever began the next may have made one without what comes back
		if slices.Contains(s.j.closedSegs, seg) {
			if err := s.j.remakeSummary(seg); err != nil {
				return err
			}
		}
	}
	var records []record
	for _, r := range m.records {
		f, ok := m.again[r.Seq]
		if !ok {
			continue
		}
		if there, err := s.j.bySeq(r.Seq); err != nil {
			return err
		} else if there == nil {
			records = append(records, record{f.kind, f.body, f.seq})
		}
	}
	if len(records) == 0 {
		return nil
	}
	if err := s.j.writable(); err != nil {
		return err
	}
	return s.j.append(records)
}

func (s *Store) mendSegment(seg uint64, fixes []fix) error {
	f, err := s.fsys.OpenFile(segmentName(seg), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, x := range fixes {
		b := make([]byte, x.size)
		if _, err := f.ReadAt(b, x.from); err != nil {
			return err
		}
		name := fmt.Sprintf("quarantine/journal-%08d-%d-%s", seg, x.from, randomName())
		if err := writeFile(s.fsys, name, b); err != nil {
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
func (p *RepairPlan) AddRecord(file string, snap *Snapshot) {
	p.journal.again[snap.Seq] = frame{kind: frameSnapshot, seq: snap.Seq, body: snap.appendBody(nil, nil)}
	p.journal.records = append(p.journal.records, RecordRepair{File: file, Seq: snap.Seq})
	p.Records = p.journal.records
}

// HasRecord reports whether the plan brings back the record of a number.
func (p *RepairPlan) HasRecord(seq uint64) bool { return p.journal.has(seq) }
