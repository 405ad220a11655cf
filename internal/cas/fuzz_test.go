package cas

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

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/nearmiss"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
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
	layout.Le.PutUint32(b[n:], layout.Checksum(b[:n]))
	return b
}

// mendRecords returns b with checksums that fit in whatever begins as a record.
func mendRecords(b []byte) []byte {
	b = bytes.Clone(b)
	for at := 0; at+pack.HeaderSize <= len(b); at++ {
		if layout.Le.Uint32(b[at:]) != pack.RecordMagic {
			continue
		}
		h := b[at : at+pack.HeaderSize]
		stored := int(layout.Le.Uint32(h[12:]))
		whole := stored <= len(b)-at-pack.HeaderSize
		if n := int(layout.Le.Uint32(h[16:])); h[4] == pack.RecGroup && n < stored/37 && whole {
			layout.Le.PutUint32(h[20:], layout.Checksum(b[at+pack.HeaderSize:][:n*37]))
		}
		if whole {
			layout.Le.PutUint32(h[48:], layout.Checksum(b[at+pack.HeaderSize:][:stored]))
		}
		layout.Le.PutUint32(h[52:], layout.Checksum(h[:52]))
		if whole {
			at += pack.HeaderSize + stored - 1
		}
	}
	return b
}

// mendFrames returns b with checksums that fit in whatever begins as a frame.
func mendFrames(b []byte) []byte {
	b = bytes.Clone(b)
	for at := 0; at+journal.FrameHeaderSize <= len(b); at++ {
		if layout.Le.Uint32(b[at:]) != journal.FrameMagic {
			continue
		}
		h, n := b[at:at+journal.FrameHeaderSize], int(layout.Le.Uint32(b[at+8:]))
		if n > len(b)-at-journal.FrameHeaderSize {
			continue
		}
		body := b[at+journal.FrameHeaderSize:][:n]
		layout.Le.PutUint32(h[28:], crc32.Update(layout.Checksum(h[:28]), layout.Castagnoli, body))
		at += journal.FrameHeaderSize + n - 1
	}
	return b
}

// mendIndex returns b with checksums that fit its header, its buckets and the
// entries of each.
func mendIndex(b []byte) []byte {
	b = withSum(b, 60)
	if len(b) < layout.HeaderSize+pack.BucketsSize {
		return b
	}
	table, entries := b[layout.HeaderSize:][:pack.BucketCount*pack.BucketSize], b[layout.HeaderSize+pack.BucketsSize:]
	start := 0
	for bucket := range slices.Chunk(table, pack.BucketSize) {
		end := int(layout.Le.Uint32(bucket))
		if end < start || end*pack.EntrySize > len(entries) {
			break
		}
		layout.Le.PutUint32(bucket[4:], layout.Checksum(entries[start*pack.EntrySize:end*pack.EntrySize]))
		start = end
	}
	layout.Le.PutUint32(b[layout.HeaderSize+len(table):], layout.Checksum(table))
	return b
}

func FuzzFileHeader(f *testing.F) {
	addSeeds(f, layout.Header{Magic: layout.PackMagic, Store: v1Store, Name: v1Sealed, A: v1Created}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, withSum(b, 60)} {
			for _, magic := range []string{layout.PackMagic, layout.IndexMagic, layout.JournalMagic,
				journal.SummaryMagic} {
				h, err := layout.ParseHeader(b, magic, v1Store)
				if err != nil {
					continue
				}
				if again := h.Append(nil); !bytes.Equal(again, b[:layout.HeaderSize]) {
					t.Errorf("two encodings of one header:\n%x\n%x", b[:layout.HeaderSize], again)
				}
			}
		}
	})
}

func FuzzRecordHeader(f *testing.F) {
	h := pack.Header{Kind: uint8(object.Blob), Codec: pack.CodecZstd, Raw: 200, Stored: 100,
		ID: object.Hash(object.Blob, small), Crc: 7}
	addSeeds(f, h.Append(nil))
	for raw := range uint32(3) {
		h.Raw = pack.MaxObject - 1 + raw
		f.Add(h.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, withSum(b, 52)} {
			h, err := pack.ParseHeader(b)
			if err != nil {
				continue
			}
			if again := h.Append(nil); !bytes.Equal(again, b[:pack.HeaderSize]) {
				t.Errorf("two encodings of one record header:\n%x\n%x", b[:pack.HeaderSize], again)
			}
			if h.Raw > pack.MaxWhole || h.Raw > pack.MaxObject && h.Raw/64 > h.Stored || h.Stored > h.Raw {
				t.Errorf("lengths %d and %d are taken", h.Raw, h.Stored)
			}
		}
	})
}

func FuzzFrame(f *testing.F) {
	fr := journal.Frame{Kind: journal.FramePacks, Seq: 3, Durable: 64, Body: []byte{journal.TagPack, 0}}
	addSeeds(f, fr.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, mendFrames(b)} {
			fr, ok := journal.ParseFrame(b)
			if !ok {
				continue
			}
			if again := fr.Append(nil); !bytes.Equal(again, b[:fr.Size()]) {
				t.Errorf("two encodings of one frame:\n%x\n%x", b[:fr.Size()], again)
			}
		}
	})
}

// A body may hold fields that are skipped, so only what is written again must
// be the same for ever.
func FuzzSnapshot(f *testing.F) {
	addSeeds(f, journal.AppendSnapshot(nil, v1Snapshots()[1], []journal.PackLen{{Pack: v1Sealed, End: 1000}}))
	f.Add(journal.AppendField(nil, 128, []byte("skipped")))
	f.Add([]byte{journal.TagData, 0})               // a field that is empty
	f.Add([]byte{journal.TagHead, 0x81, 0x00, 'x'}) // a length in more bytes than it needs
	f.Add([]byte{journal.TagHead, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, body []byte) {
		fr := journal.Frame{Kind: journal.FrameSnapshot, Seq: 1, Body: body}
		packs, _, packsErr := journal.ParsePacks(fr)
		s, err := journal.ParseSnapshot(fr)
		if packsErr != nil || err != nil {
			if err != nil && !errors.Is(err, journal.ErrBody) && !errors.Is(err, store.ErrFormat) {
				t.Errorf("parseSnapshot: %v", err)
			}
			return
		}
		fr.Body = journal.AppendSnapshot(nil, s, packs)
		if len(fr.Body) > len(body)+34+10 { // a tree and a time that it may not have had
			t.Errorf("%d bytes become %d", len(body), len(fr.Body))
		}
		again, err := journal.ParseSnapshot(fr)
		if err != nil || !cmp.Equal(again, s, cmpopts.EquateEmpty()) {
			t.Errorf("parse, encode, parse: %+v, %v; was %+v", again, err, s)
		}
		if b := journal.AppendSnapshot(nil, again, packs); !bytes.Equal(b, fr.Body) {
			t.Errorf("two encodings of one snapshot:\n%x\n%x", fr.Body, b)
		}
	})
}

// fuzzDisk is a disk with the directories of a store and one file.
func fuzzDisk(t *testing.T, name string, b []byte) *vfstest.Mem {
	t.Helper()
	disk := vfstest.NewMem()
	for _, dir := range storeDirs {
		if err := disk.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := layout.WriteFile(disk, name, b); err != nil {
		t.Fatal(err)
	}
	return disk
}

// What an index finds is what it lists.
func FuzzIndex(f *testing.F) {
	entries := []pack.Entry{{ID: store.ID{1, 2}, Location: pack.Location{Pack: nil, Off: 64, Stored: 12}},
		{ID: store.ID{1, 3}, Location: pack.Location{Pack: nil, Off: 132, Stored: 0}},
		{ID: store.ID{255, 1}, Location: pack.Location{Pack: nil, Off: 188, Stored: 7}}}
	good := pack.EncodeIndex(v1Store, v1Sealed, 251, entries)
	// the rest of the buckets is the like
	for _, part := range [][2]int{{0, layout.HeaderSize}, {layout.HeaderSize, layout.HeaderSize + 3*pack.BucketSize},
		{layout.HeaderSize + 254*pack.BucketSize, len(good)}} {
		for _, b := range nearmiss.Of(good[part[0]:part[1]]) {
			f.Add(slices.Concat(good[:part[0]], b, good[part[1]:]))
		}
	}
	f.Add(pack.EncodeIndex(v1Store, v1Sealed, 64, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, mendIndex(b)} {
			x, err := pack.OpenIndex(fuzzDisk(t, layout.IndexName(v1Sealed), b), v1Store, &pack.Pack{ID: v1Sealed})
			if err != nil {
				continue
			}
			var listed []pack.Entry
			if err := x.All(func(prefix [pack.PrefixSize]byte, loc pack.Location) {
				e := pack.Entry{Location: loc}
				copy(e.ID[:], prefix[:])
				listed = append(listed, e)
			}); err != nil {
				if !errors.Is(err, pack.ErrIndex) {
					t.Errorf("all: %v", err)
				}
				continue
			}
			if len(listed) != x.Count() {
				t.Errorf("%d entries of %d", len(listed), x.Count())
			}
			// That they are in order, each in its bucket, only Check looks at.
			again := pack.EncodeIndex(v1Store, v1Sealed, x.BodyEnd, slices.Clone(listed))
			ordered := bytes.Equal(again[layout.HeaderSize:], b[layout.HeaderSize:])
			for _, e := range append(listed, pack.Entry{}, pack.Entry{ID: store.ID{1, 2, 3}},
				pack.Entry{ID: store.ID{255}}) {
				loc, ok, err := x.Find(e.ID)
				is := slices.ContainsFunc(listed, func(l pack.Entry) bool { return l.ID == e.ID })
				if err != nil || ok && !slices.Contains(listed, pack.Entry{ID: e.ID, Location: loc}) ||
					ordered && ok != is {
					t.Errorf("find %s: %v, %v, %v", e.ID, loc, ok, err)
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
		s, err := OpenFS(t.Context(), fuzzDisk(t, layout.FormatName, b), &Options{ReadOnly: true})
		if err != nil {
			if !errors.Is(err, store.ErrFormat) && !errors.Is(err, store.ErrCorrupt) {
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
	one, two := rawRecord(uint8(object.Blob), small), rawRecord(uint8(object.Tree), []byte("tree"))
	f.Add(bytes.Join([][]byte{one, two}, nil))
	f.Add(bytes.Join([][]byte{one, []byte("x"), two}, nil))
	f.Add(bytes.Join([][]byte{one[1:], two, one[:60]}, nil))
	f.Add(bytes.Join([][]byte{rawRecord(uint8(object.Blob), one), two[:20], one, pack.AppendSeal(nil, 64)}, nil))
	for i := range one {
		b := bytes.Join([][]byte{one, two}, nil)
		b[i] ^= 0x80
		f.Add(b)
	}
	addSeeds(f, slices.Concat(one, two[:pack.HeaderSize]))
	addSeeds(f, rawGroup(small, []byte("tree"), nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		checkScan(t, body)
		checkScan(t, mendRecords(body))
	})
}

// plainMembers lists what is in the group at some offset, or that it is damaged: the plain
// way, as docs/reference/format.md §3.6 says.
func plainMembers(file []byte, at int, h *pack.Header) (list []string) {
	n := int(layout.Le.Uint32(file[at+16:]))
	table := file[at+pack.HeaderSize:][:n*37]
	sum := 0
	for i := range n {
		sum += int(layout.Le.Uint32(table[i*37+1:]))
		list = append(list, fmt.Sprint("member ", at, i+1, store.ID(table[i*37+5:i*37+37]), h.Stored))
	}
	if layout.Checksum(table) != layout.Le.Uint32(file[at+20:]) || sum != int(h.Raw) {
		return []string{fmt.Sprint("damage ", at)}
	}
	return list
}

// checkMember requires of a member that is read that it is as long as the table says.
func checkMember(t *testing.T, p *pack.Pack, e pack.Entry) {
	t.Helper()
	list, size, err := p.ReadMembers(e.Location)
	if err != nil || size != e.Size() || list[e.Member-1].ID != e.ID {
		t.Errorf("members at %d: %v, %d bytes, %v; want %v", e.Off, list, size, err, e)
		return
	}
	h, data, err := new(recordReader).object(e.Location)
	if err == nil && (len(data) != int(list[e.Member-1].Raw) || h.ID != e.ID) {
		t.Errorf("member %d at %d has %d bytes, want %d", e.Member, e.Off, len(data), list[e.Member-1].Raw)
	}
}

func checkScan(t *testing.T, body []byte) {
	t.Helper()
	h := layout.Header{Magic: layout.PackMagic, Store: v1Store, Name: v1Sealed}
	file := append(h.Append(nil), body...)
	p, err := pack.Open(fuzzDisk(t, layout.PackName(v1Sealed), file), v1Store, v1Sealed, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.SealedAt(); err != nil {
		t.Errorf("sealedAt: %v", err)
	}
	// The plain way: a record where one is, or else a byte of damage.
	var want, got []string
	damaged := false
	for at := layout.HeaderSize; at < len(file); {
		h, err := pack.ParseHeader(file[at:])
		if err == nil && at+int(h.Size()) <= len(file) && h.Kind == pack.RecGroup {
			want = append(want, plainMembers(file, at, &h)...)
			at += int(h.Size())
			damaged = false
			continue
		}
		if err == nil && at+int(h.Size()) <= len(file) {
			want = append(want, fmt.Sprint("record ", at, h.ID, h.Stored))
			at += int(h.Size())
			damaged = false
			continue
		}
		if !damaged {
			want = append(want, fmt.Sprint("damage ", at))
		}
		damaged = true
		at++
	}
	damage, err := p.Scan(layout.HeaderSize, int64(len(file)), func(e pack.Entry) {
		if e.Member > 0 {
			got = append(got, fmt.Sprint("member ", e.Off, e.Member, e.ID, e.Stored))
			checkMember(t, p, e)
			return
		}
		got = append(got, fmt.Sprint("record ", e.Off, e.ID, e.Stored))
		h, payload, err := p.Read(e.Location, new([]byte))
		if err == nil && (h.ID != e.ID || len(payload) != int(h.Stored)) {
			t.Errorf("record at %d is %+v, was %+v", e.Off, h, e)
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
	for i, fr := range []journal.Frame{
		{Kind: journal.FrameState, Body: journal.AppendField(nil, journal.TagEpoch, make([]byte, 8))},
		{Kind: journal.FrameSnapshot, Seq: 1, Body: journal.AppendSnapshot(nil, v1Snapshots()[0], nil)},
		{Kind: journal.FramePacks, Seq: 2, Body: nil},
	} {
		fr.Durable = uint64(layout.HeaderSize + min(i, 1)*len(good))
		good = fr.Append(good)
	}
	addSeeds(f, good)
	f.Fuzz(func(t *testing.T, frames []byte) {
		checkSegment(t, frames)
		checkSegment(t, mendFrames(frames))
	})
}

func checkSegment(t *testing.T, frames []byte) {
	t.Helper()
	h := layout.Header{Magic: layout.JournalMagic, Store: v1Store, Name: layout.SegmentID(1)}
	disk := fuzzDisk(t, layout.SegmentName(1), append(h.Append(nil), frames...))
	j := journal.New(disk, v1Store)
	if err := j.Refresh(); err != nil {
		if !errors.Is(err, store.ErrFormat) && !errors.Is(err, journal.ErrBody) {
			t.Errorf("refresh: %v", err)
		}
		return
	}
	before := j.Seq
	if before == math.MaxUint64 {
		return // no number is left, and none will ever be that high
	}
	said := snapshotsIn(t, j)
	if err := errors.Join(j.Writable(), j.Append([]journal.Record{{Kind: journal.FramePacks}})); err != nil ||
		j.Seq != before+1 {
		t.Fatalf("append after record %d: %v, record %d", before, err, j.Seq)
	}
	again := journal.New(disk, v1Store)
	if err := again.Refresh(); err != nil || again.Seq != j.Seq || again.Broken != "" {
		t.Errorf("refresh after append: record %d, want %d, %q, %v", again.Seq, j.Seq, again.Broken, err)
	}
	if d := cmp.Diff(said, snapshotsIn(t, again)); d != "" {
		t.Errorf("an append changes what was said (-before +after):\n%s", d)
	}
}

func snapshotsIn(t *testing.T, j *journal.Journal) map[uint64]*store.Snapshot {
	t.Helper()
	all := make(map[uint64]*store.Snapshot)
	for s, err := range j.Snapshots(math.MaxUint64) {
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
		f.Add(uint8(pack.RecChunked), uint8(pack.CodecRaw), uint32(len(b)), b)
	}
	// itself
	f.Add(uint8(pack.RecChunked), uint8(pack.CodecRaw), uint32(36),
		appendChunkRef(nil, object.Hash(object.Blob, v1Whole), len(v1Whole)))
	for _, b := range nearmiss.Of(pack.EncoderOf(uint8(object.Blob)).EncodeAll(v1Whole, nil)) {
		f.Add(uint8(object.Blob), uint8(pack.CodecZstd), uint32(len(v1Whole)), b)
	}
	packed := pack.EncoderOf(uint8(object.Blob)).EncodeAll(list, nil)
	for raw := range uint32(len(list) + 2) {
		f.Add(uint8(pack.RecChunked), uint8(pack.CodecZstd), raw, packed)
	}
	for kind := range uint8(6) {
		f.Add(kind, uint8(pack.CodecRaw), uint32(len(v1Whole)), v1Whole)
		f.Add(uint8(object.Blob), kind, uint32(len(v1Whole)), v1Whole)
	}
	f.Fuzz(func(t *testing.T, kind, codec uint8, raw uint32, payload []byte) {
		if raw > 1<<20 || len(payload) > 1<<20 {
			t.Skip("as large as it says, which is much for a fuzzer")
		}
		file := layout.Header{Magic: layout.PackMagic, Store: v1Store, Name: v1Sealed}.Append(nil)
		for _, c := range v1Chunks {
			file = append(file, rawRecord(uint8(object.Blob), c)...)
		}
		bad := int64(len(file))
		id := object.Hash(object.Blob, v1Whole)
		file = append(file, encodeRecord(pack.Header{Kind: kind, Codec: codec, Raw: raw, ID: id}, payload)...)
		file = pack.AppendSeal(file, int64(len(file)))
		disk := fuzzDisk(t, layout.PackName(v1Sealed), file)
		if err := layout.WriteFile(disk, layout.FormatName, v1Format(t)); err != nil {
			t.Fatal(err)
		}
		s, err := OpenFS(t.Context(), disk, &Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		got, err := s.Get(t.Context(), object.Blob, id)
		if err == nil && !bytes.Equal(got, v1Whole) {
			t.Errorf("Get = %q", got)
		}
		if err != nil && !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrNotFound) &&
			!errors.Is(err, store.ErrFormat) {
			t.Errorf("Get: %v", err)
		}
		if n, cerr := s.CopyBlob(t.Context(), io.Discard, id); (cerr == nil) != (err == nil) ||
			cerr == nil && n != int64(len(got)) {
			t.Errorf("CopyBlob = %d, %v; Get: %v", n, cerr, err)
		}
		if _, serr := s.Stored(object.Blob, id); serr != nil && err == nil {
			t.Errorf("Stored: %v", serr)
		}
		r, cerr := s.Check(t.Context(), true)
		if cerr != nil {
			t.Fatal(cerr)
		}
		found := slices.ContainsFunc(r.Damage, func(d *object.CorruptError) bool {
			return d.Path == layout.PackName(v1Sealed) && d.Off == bad
		})
		if found != (err != nil) {
			t.Errorf("Check finds %v; Get: %v", r.Damage, err)
		}
	})
}
