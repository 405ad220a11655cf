package store

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/boocode/filestore/internal/nearmiss"
	"github.com/boocode/filestore/internal/vfs"
)

// Each decoder takes any bytes without a panic, and what it takes it writes
// the same way. Chance does not hit a checksum: the targets try the bytes
// also with those that fit.

// addSeeds adds what is nearly b.
func addSeeds(f *testing.F, b []byte) {
	for _, c := range nearmiss.Of(b) {
		f.Add(c)
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

// mendRecords returns b with checksums that fit in whatever begins as a record.
func mendRecords(b []byte) []byte {
	b = bytes.Clone(b)
	for at := 0; at+recordHeaderSize <= len(b); at++ {
		if le.Uint32(b[at:]) != recordMagic {
			continue
		}
		h := b[at : at+recordHeaderSize]
		stored := int(le.Uint32(h[12:]))
		whole := stored <= len(b)-at-recordHeaderSize
		if whole {
			le.PutUint32(h[48:], checksum(b[at+recordHeaderSize:][:stored]))
		}
		le.PutUint32(h[52:], checksum(h[:52]))
		if whole {
			at += recordHeaderSize + stored - 1
		}
	}
	return b
}

// mendFrames returns b with checksums that fit in whatever begins as a frame.
func mendFrames(b []byte) []byte {
	b = bytes.Clone(b)
	for at := 0; at+frameHeaderSize <= len(b); at++ {
		if le.Uint32(b[at:]) != frameMagic {
			continue
		}
		h, n := b[at:at+frameHeaderSize], int(le.Uint32(b[at+8:]))
		if n > len(b)-at-frameHeaderSize {
			continue
		}
		body := b[at+frameHeaderSize:][:n]
		le.PutUint32(h[28:], crc32.Update(checksum(h[:28]), castagnoli, body))
		at += frameHeaderSize + n - 1
	}
	return b
}

// mendIndex returns b with checksums that fit its header, its buckets and the
// entries of each.
func mendIndex(b []byte) []byte {
	b = withSum(b, 60)
	if len(b) < fileHeaderSize+bucketsSize {
		return b
	}
	table, entries := b[fileHeaderSize:][:bucketCount*bucketSize], b[fileHeaderSize+bucketsSize:]
	start := 0
	for bucket := range slices.Chunk(table, bucketSize) {
		end := int(le.Uint32(bucket))
		if end < start || end*indexEntrySize > len(entries) {
			break
		}
		le.PutUint32(bucket[4:], checksum(entries[start*indexEntrySize:end*indexEntrySize]))
		start = end
	}
	le.PutUint32(b[fileHeaderSize+len(table):], checksum(table))
	return b
}

func FuzzFileHeader(f *testing.F) {
	addSeeds(f, fileHeader{magic: packMagic, store: v1Store, name: v1Sealed, a: v1Created}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, withSum(b, 60)} {
			for _, magic := range []string{packMagic, indexMagic, journalMagic, summaryMagic} {
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
	addSeeds(f, h.append(nil))
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
	addSeeds(f, fr.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, mendFrames(b)} {
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
	addSeeds(f, v1Snapshots()[1].appendBody(nil, []packLen{{v1Sealed, 1000}}))
	f.Add(appendField(nil, 128, []byte("skipped")))
	f.Add([]byte{tagData, 0})               // a field that is empty
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
		if err != nil || !cmp.Equal(again, s, cmpopts.EquateEmpty()) {
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

// What an index finds is what it lists.
func FuzzIndex(f *testing.F) {
	entries := []indexEntry{{ID{1, 2}, location{nil, 64, 12}}, {ID{1, 3}, location{nil, 132, 0}}, {ID{255, 1}, location{nil, 188, 7}}}
	good := encodeIndex(v1Store, v1Sealed, 251, entries)
	for _, part := range [][2]int{{0, fileHeaderSize}, {fileHeaderSize, fileHeaderSize + 3*bucketSize}, // the rest of the buckets is the like
		{fileHeaderSize + 254*bucketSize, len(good)}} {
		for _, b := range nearmiss.Of(good[part[0]:part[1]]) {
			f.Add(slices.Concat(good[:part[0]], b, good[part[1]:]))
		}
	}
	f.Add(encodeIndex(v1Store, v1Sealed, 64, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, mendIndex(b)} {
			x, err := openIndex(fuzzDisk(t, indexName(v1Sealed), b), v1Store, &pack{id: v1Sealed})
			if err != nil {
				continue
			}
			var listed []indexEntry
			if err := x.all(func(prefix [prefixSize]byte, loc location) {
				e := indexEntry{location: loc}
				copy(e.id[:], prefix[:])
				listed = append(listed, e)
			}); err != nil {
				if !errors.Is(err, errIndex) {
					t.Errorf("all: %v", err)
				}
				continue
			}
			if len(listed) != x.count() {
				t.Errorf("%d entries of %d", len(listed), x.count())
			}
			// That they are in order, each in its bucket, only Check looks at.
			again := encodeIndex(v1Store, v1Sealed, x.bodyEnd, slices.Clone(listed))
			ordered := bytes.Equal(again[fileHeaderSize:], b[fileHeaderSize:])
			for _, e := range append(listed, indexEntry{}, indexEntry{id: ID{1, 2, 3}}, indexEntry{id: ID{255}}) {
				loc, ok, err := x.find(e.id)
				is := slices.ContainsFunc(listed, func(l indexEntry) bool { return l.id == e.id })
				if err != nil || ok && !slices.Contains(listed, indexEntry{e.id, loc}) || ordered && ok != is {
					t.Errorf("find %s: %v, %v, %v", e.id, loc, ok, err)
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
	addSeeds(f, slices.Concat(one, two[:recordHeaderSize]))
	f.Fuzz(func(t *testing.T, body []byte) {
		checkScan(t, body)
		checkScan(t, mendRecords(body))
	})
}

func checkScan(t *testing.T, body []byte) {
	t.Helper()
	h := fileHeader{magic: packMagic, store: v1Store, name: v1Sealed}
	file := append(h.append(nil), body...)
	p, err := openPack(fuzzDisk(t, packName(v1Sealed), file), v1Store, v1Sealed, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.sealedAt(); err != nil {
		t.Errorf("sealedAt: %v", err)
	}
	// The plain way: a record where one is, or else a byte of damage.
	var want, got []string
	damaged := false
	for at := fileHeaderSize; at < len(file); {
		h, err := parseRecordHeader(file[at:])
		if err == nil && at+int(h.size()) <= len(file) {
			want = append(want, fmt.Sprint("record ", at, h.id, h.stored))
			at += int(h.size())
			damaged = false
			continue
		}
		if !damaged {
			want = append(want, fmt.Sprint("damage ", at))
		}
		damaged = true
		at++
	}
	damage, err := p.scan(fileHeaderSize, int64(len(file)), func(e indexEntry) {
		got = append(got, fmt.Sprint("record ", e.off, e.id, e.stored))
		h, payload, err := p.read(e.location)
		if err == nil && (h.id != e.id || len(payload) != int(h.stored)) {
			t.Errorf("record at %d is %+v, was %+v", e.off, h, e)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range damage {
		got = append(got, fmt.Sprint("damage ", d.Off))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("scan finds %q, want %q", got, want)
	}
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
	addSeeds(f, good)
	f.Fuzz(func(t *testing.T, frames []byte) {
		checkSegment(t, frames)
		checkSegment(t, mendFrames(frames))
	})
}

func checkSegment(t *testing.T, frames []byte) {
	t.Helper()
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
	if before == math.MaxUint64 {
		return // no number is left, and none will ever be that high
	}
	said := snapshotsIn(t, j)
	if err := errors.Join(j.writable(), j.append([]record{{kind: framePacks}})); err != nil || j.seq != before+1 {
		t.Fatalf("append after record %d: %v, record %d", before, err, j.seq)
	}
	again := newJournal(disk, v1Store)
	if err := again.refresh(); err != nil || again.seq != j.seq || again.broken != "" {
		t.Errorf("refresh after append: record %d, want %d, %q, %v", again.seq, j.seq, again.broken, err)
	}
	if d := cmp.Diff(said, snapshotsIn(t, again)); d != "" {
		t.Errorf("an append changes what was said (-before +after):\n%s", d)
	}
}

func snapshotsIn(t *testing.T, j *journal) map[uint64]*Snapshot {
	t.Helper()
	all := make(map[uint64]*Snapshot)
	for s, err := range j.snapshots(math.MaxUint64) {
		if err != nil {
			t.Fatal(err)
		}
		all[s.Seq] = s
	}
	return all
}

// FuzzObject puts a crafted record of a chunked blob into a pack: what is read is
// the blob, or it is damage that a check finds, too.
func FuzzObject(f *testing.F) {
	list := v1List()
	for _, b := range nearmiss.Of(list) {
		f.Add(uint8(recChunked), uint8(codecRaw), uint32(len(b)), b)
	}
	f.Add(uint8(recChunked), uint8(codecRaw), uint32(36), appendChunkRef(nil, Hash(Blob, v1Whole), len(v1Whole))) // itself
	for _, b := range nearmiss.Of(encoder().EncodeAll(v1Whole, nil)) {
		f.Add(uint8(Blob), uint8(codecZstd), uint32(len(v1Whole)), b)
	}
	packed := encoder().EncodeAll(list, nil)
	for raw := range uint32(len(list) + 2) {
		f.Add(uint8(recChunked), uint8(codecZstd), raw, packed)
	}
	for kind := range uint8(6) {
		f.Add(kind, uint8(codecRaw), uint32(len(v1Whole)), v1Whole)
		f.Add(uint8(Blob), kind, uint32(len(v1Whole)), v1Whole)
	}
	f.Fuzz(func(t *testing.T, kind, codec uint8, raw uint32, payload []byte) {
		if raw > 1<<20 || len(payload) > 1<<20 {
			t.Skip("as large as it says, which is much for a fuzzer")
		}
		pack := fileHeader{magic: packMagic, store: v1Store, name: v1Sealed}.append(nil)
		for _, c := range v1Chunks {
			pack = append(pack, rawRecord(uint8(Blob), c)...)
		}
		bad := int64(len(pack))
		id := Hash(Blob, v1Whole)
		pack = append(pack, encodeRecord(recordHeader{kind: kind, codec: codec, raw: raw, id: id}, payload)...)
		pack = appendSeal(pack, int64(len(pack)))
		disk := fuzzDisk(t, packName(v1Sealed), pack)
		if err := writeFile(disk, formatName, v1Format(t)); err != nil {
			t.Fatal(err)
		}
		s, err := OpenFS(t.Context(), disk, &Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		got, err := s.Get(t.Context(), Blob, id)
		if err == nil && !bytes.Equal(got, v1Whole) {
			t.Errorf("Get = %q", got)
		}
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrFormat) {
			t.Errorf("Get: %v", err)
		}
		if n, cerr := s.CopyBlob(t.Context(), io.Discard, id); (cerr == nil) != (err == nil) || cerr == nil && n != int64(len(got)) {
			t.Errorf("CopyBlob = %d, %v; Get: %v", n, cerr, err)
		}
		if _, serr := s.Stored(Blob, id); serr != nil && err == nil {
			t.Errorf("Stored: %v", serr)
		}
		r, cerr := s.Check(t.Context(), true)
		if cerr != nil {
			t.Fatal(cerr)
		}
		found := slices.ContainsFunc(r.Damage, func(d *CorruptError) bool { return d.Path == packName(v1Sealed) && d.Off == bad })
		if found != (err != nil) {
			t.Errorf("Check finds %v; Get: %v", r.Damage, err)
		}
	})
}
