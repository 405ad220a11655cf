package store

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/boocode/filestore/internal/vfs"
)

// Each decoder takes any bytes without a panic, and what it takes it writes
// the same way. Chance does not hit a checksum: the targets try the bytes
// also with one that fits.

// nearMisses adds b as a seed, with each of its bytes off by one, and cut.
func nearMisses(f *testing.F, b []byte) {
	f.Add(b)
	for i := range b {
		c := bytes.Clone(b)
		c[i]++
		f.Add(c)
		c = bytes.Clone(b)
		c[i] = 0xff
		f.Add(c)
		f.Add(b[:i])
	}
}

// withSum returns b with the checksum of its first n bytes at n.
func withSum(b []byte, n int) []byte {
	if len(b) < n+4 {
		return b
	}
	b = bytes.Clone(b)
	le.PutUint32(b[n:], checksum(b[:n]))
	return b
}

func FuzzFileHeader(f *testing.F) {
	nearMisses(f, fileHeader{magic: packMagic, store: v1Store, name: v1Sealed, a: v1Created}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, withSum(b, 60)} {
			for _, magic := range []string{packMagic, indexMagic, journalMagic} {
				h, err := parseFileHeader(b, magic, v1Store)
				if err != nil {
					continue
				}
				if again := h.append(nil); !bytes.Equal(again, b[:fileHeaderSize]) {
					t.Errorf("two encodings of one header:\n%x\n%x", b[:fileHeaderSize], again)
				}
			}
		}
	})
}

func FuzzRecordHeader(f *testing.F) {
	h := recordHeader{kind: uint8(Blob), codec: codecZstd, raw: 200, stored: 100, id: Hash(Blob, small), crc: 7}
	nearMisses(f, h.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, withSum(b, 52)} {
			h, err := parseRecordHeader(b)
			if err != nil {
				continue
			}
			if again := h.append(nil); !bytes.Equal(again, b[:recordHeaderSize]) {
				t.Errorf("two encodings of one record header:\n%x\n%x", b[:recordHeaderSize], again)
			}
			if h.raw > MaxObject || h.stored > h.raw {
				t.Errorf("lengths %d and %d are taken", h.raw, h.stored)
			}
		}
	})
}

func FuzzFrame(f *testing.F) {
	fr := frame{kind: framePacks, seq: 3, durable: 64, body: []byte{tagPack, 0}}
	nearMisses(f, fr.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		fit := bytes.Clone(b)
		if len(b) >= frameHeaderSize {
			le.PutUint32(fit[28:], checksum(append(bytes.Clone(b[:28]), b[frameHeaderSize:]...)))
		}
		for _, b := range [][]byte{b, fit} {
			fr, ok := parseFrame(b)
			if !ok {
				continue
			}
			if again := fr.append(nil); !bytes.Equal(again, b[:fr.size()]) {
				t.Errorf("two encodings of one frame:\n%x\n%x", b[:fr.size()], again)
			}
		}
	})
}

// A body may hold fields that are skipped, so only what is written again must
// be the same for ever.
func FuzzSnapshot(f *testing.F) {
	nearMisses(f, v1Snapshots()[1].appendBody(nil, []packLen{{v1Sealed, 1000}}))
	f.Add(appendField(nil, 128, []byte("skipped")))
	f.Add([]byte{tagHead, 0x81, 0x00, 'x'}) // a length in more bytes than it needs
	f.Add([]byte{tagHead, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, body []byte) {
		fr := frame{kind: frameSnapshot, seq: 1, body: body}
		packs, _, packsErr := parsePacks(fr)
		s, err := parseSnapshot(fr)
		if packsErr != nil || err != nil {
			if err != nil && !errors.Is(err, errBody) && !errors.Is(err, ErrFormat) {
				t.Errorf("parseSnapshot: %v", err)
			}
			return
		}
		fr.body = s.appendBody(nil, packs)
		if len(fr.body) > len(body)+34+10 { // a tree and a time that it may not have had
			t.Errorf("%d bytes become %d", len(body), len(fr.body))
		}
		again, err := parseSnapshot(fr)
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("parse, encode, parse: %+v, %v; was %+v", again, err, s)
		}
		if b := again.appendBody(nil, packs); !bytes.Equal(b, fr.body) {
			t.Errorf("two encodings of one snapshot:\n%x\n%x", fr.body, b)
		}
	})
}

// fuzzDisk is a disk with the directories of a store and one file.
func fuzzDisk(t *testing.T, name string, b []byte) *vfs.Mem {
	t.Helper()
	disk := vfs.NewMem()
	for _, dir := range storeDirs {
		if err := disk.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeFile(disk, name, b); err != nil {
		t.Fatal(err)
	}
	return disk
}

func FuzzIndex(f *testing.F) {
	entries := []indexEntry{{ID{1, 2}, location{nil, 64, 12}}, {ID{1, 3}, location{nil, 132, 0}}}
	good := encodeIndex(v1Store, v1Sealed, 188, entries)
	f.Add(good)
	for _, i := range []int{0, 8, 12, 28, 44, 52, 56, 60, 64, 68, 72, 2104, 2112, 2116, 2140, 2144} {
		b := bytes.Clone(good)
		b[i] ^= 1
		f.Add(b)
		f.Add(b[:i])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fit := withSum(b, 60)
		if len(b) > fileHeaderSize {
			fit = append(fit[:fileHeaderSize:fileHeaderSize], withSum(b[fileHeaderSize:], bucketCount*bucketSize)...)
		}
		for _, b := range [][]byte{b, fit} {
			x, err := openIndex(fuzzDisk(t, indexName(v1Sealed), b), v1Store, &pack{id: v1Sealed})
			if err != nil {
				continue
			}
			n := 0
			if err := x.all(func([prefixSize]byte, location) { n++ }); err == nil && n != x.count() {
				t.Errorf("%d entries of %d", n, x.count())
			}
			for _, id := range []ID{{}, {1, 2}, {1, 3}, {255}} {
				if _, _, err := x.find(id); err != nil && !errors.Is(err, errIndex) {
					t.Errorf("find: %v", err)
				}
			}
		}
	})
}

func FuzzFormat(f *testing.F) {
	f.Add([]byte(`{"format":1,"id":"00000000000000000000000000000000","hash":"blake3","features":{"read":[],"write":[],"prune":[]},"root":"","created":"2026-11-21T12:00:00Z"}`))
	f.Add([]byte(`{"format":1,"id":"0000000000000000000000000000000","hash":"blake3"}`))
	f.Add([]byte(`{"format":2,"id":"00000000000000000000000000000000","hash":"blake3"}`))
	f.Add([]byte(`{"format":1,"id":"00000000000000000000000000000000","hash":"blake3","features":{"write":["x"]}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := OpenFS(t.Context(), fuzzDisk(t, formatName, b), &Options{ReadOnly: true})
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrCorrupt) {
				t.Errorf("OpenFS: %v, want ErrFormat or ErrCorrupt", err)
			}
			return
		}
		if len(s.ID()) != 32 {
			t.Errorf("ID %q", s.ID())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A scan accounts for each byte once: as a record that is whole, or as damage.
func FuzzPackScan(f *testing.F) {
	one, two := rawRecord(uint8(Blob), small), rawRecord(uint8(Tree), []byte("tree"))
	f.Add(bytes.Join([][]byte{one, two}, nil))
	f.Add(bytes.Join([][]byte{one, []byte("x"), two}, nil))
	f.Add(bytes.Join([][]byte{one[1:], two, one[:60]}, nil))
	f.Add(bytes.Join([][]byte{rawRecord(uint8(Blob), one), two[:20], one, appendSeal(nil, 64)}, nil))
	for i := range one {
		b := bytes.Join([][]byte{one, two}, nil)
		b[i] ^= 0x80
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		h := fileHeader{magic: packMagic, store: v1Store, name: v1Sealed}
		disk := fuzzDisk(t, packName(v1Sealed), append(h.append(nil), body...))
		p, err := openPack(disk, v1Store, v1Sealed, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := p.sealedAt(); err != nil {
			t.Errorf("sealedAt: %v", err)
		}
		end := int64(fileHeaderSize + len(body))
		at := int64(fileHeaderSize)
		var found []indexEntry
		damage, err := p.scan(at, end, func(e indexEntry) { found = append(found, e) })
		if err != nil {
			t.Fatal(err)
		}
		for at < end {
			switch {
			case len(found) > 0 && found[0].off == at:
				h, payload, err := p.read(found[0].location)
				if err == nil && (h.id != found[0].id || len(payload) != int(h.stored)) {
					t.Errorf("record at %d is %+v, was %+v", at, h, found[0])
				}
				at += recordHeaderSize + int64(found[0].stored)
				found = found[1:]
			case len(damage) > 0 && damage[0].Off == at:
				damage = damage[1:]
				at = end
				if len(found) > 0 {
					at = found[0].off
				}
			default:
				t.Fatalf("byte %d is neither a record nor damage", at)
			}
		}
		if at != end || len(found) > 0 || len(damage) > 0 {
			t.Errorf("scan ends at %d of %d with %v and %v to come", at, end, found, damage)
		}
	})
}

// A journal of any bytes opens, or says why not, and can be written on.
func FuzzSegment(f *testing.F) {
	var good []byte
	for i, fr := range []frame{
		{kind: frameState, body: appendField(nil, tagEpoch, make([]byte, 8))},
		{kind: frameSnapshot, seq: 1, body: v1Snapshots()[0].appendBody(nil, nil)},
		{kind: framePacks, seq: 2, body: nil},
	} {
		fr.durable = uint64(fileHeaderSize + min(i, 1)*len(good))
		good = fr.append(good)
	}
	f.Add(good)
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 0x10
		f.Add(b)
		f.Add(good[:i])
	}
	f.Fuzz(func(t *testing.T, frames []byte) {
		h := fileHeader{magic: journalMagic, store: v1Store, name: segmentID(1)}
		disk := fuzzDisk(t, segmentName(1), append(h.append(nil), frames...))
		j := newJournal(disk, v1Store)
		if err := j.refresh(); err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, errBody) {
				t.Errorf("refresh: %v", err)
			}
			return
		}
		before := j.seq
		if err := errors.Join(j.writable(), j.append([]record{{kind: framePacks}})); err != nil || j.seq != before+1 {
			t.Fatalf("append after record %d: %v, record %d", before, err, j.seq)
		}
		again := newJournal(disk, v1Store)
		if err := again.refresh(); err != nil || again.seq != j.seq || again.broken != "" {
			t.Errorf("refresh after append: record %d, want %d, %q, %v", again.seq, j.seq, again.broken, err)
		}
	})
}
