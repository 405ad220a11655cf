package store

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/boocode/filestore/internal/vfs"
)

// sealedDisk makes a disk with one sealed pack and an unsealed one, and
// returns the entries of the sealed one in order of offset.
func sealedDisk(t *testing.T) (disk *vfs.Mem, sealed string, entries []indexEntry) {
	t.Helper()
	setLimits(t, never, 4<<10, never)
	disk = vfs.NewMem()
	text := bytes.Repeat([]byte("text "), 300)
	if err := commits([][]byte{small, text, large}, [][]byte{[]byte("after")})(t.Context(), disk, func(acked) {}); err != nil {
		t.Fatal(err)
	}
	sealed = strings.TrimSuffix(only(t, disk, "packs", ".idx"), ".idx") + ".pack"
	s := openMem(t, disk)
	p := openNamed(t, s, sealed)
	defer p.f.Close()
	end, ok, err := p.sealedAt()
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	damage, err := p.scan(fileHeaderSize, end, func(e indexEntry) { entries = append(entries, e) })
	if err != nil || len(damage) > 0 || len(entries) != 3 {
		t.Fatal(entries, damage, err)
	}
	return disk, sealed, entries
}

func openNamed(t *testing.T, s *Store, name string) *pack {
	t.Helper()
	id, ok := parsePackID(strings.TrimPrefix(name, "packs/"), ".pack")
	if !ok {
		t.Fatalf("%q is no name of a pack", name)
	}
	p, err := openPack(s.fsys, s.id, id, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func readAll(t *testing.T, disk *vfs.Mem, name string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(disk, name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Every byte of a sealed pack is hit in turn, or of a large payload some.
// With the index and without, the damage is found and located, and all
// objects but the one that is hit can be read.
func TestDamagedPack(t *testing.T) {
	disk, sealed, entries := sealedDisk(t)
	index := strings.TrimSuffix(sealed, ".pack") + ".idx"
	size := len(readAll(t, disk, sealed))
	bodyEnd := size - sealSize
	for at := 0; at < size; at++ {
		// hit is the record that the byte is in; -1: header, len: seal.
		hit := -1
		for at >= fileHeaderSize && hit < len(entries) && (hit < 0 || at >= int(entries[hit].off+recordHeaderSize)+int(entries[hit].stored)) {
			hit++
		}
		inPayload := hit >= 0 && hit < len(entries) && at > int(entries[hit].off)+recordHeaderSize
		if inPayload && at%97 != 0 {
			continue
		}
		where := int64(0)
		switch {
		case hit == len(entries):
			where = int64(bodyEnd)
		case hit >= 0:
			where = entries[hit].off
		}
		for _, indexed := range []bool{true, false} {
			if !indexed && hit == len(entries) {
				// Without seal and index it is an unsealed pack, and the
				// journal says how far it is good.
				where = -1
			}
			hurt := disk.AfterCrash(nil)
			edit(t, hurt, sealed, flip(at))
			if !indexed {
				if err := hurt.Remove(index); err != nil {
					t.Fatal(err)
				}
			}
			s := openDamaged(t, hurt)
			found := damageOf(t, s)
			located := slices.ContainsFunc(found, func(d *CorruptError) bool { return d.Path == sealed && d.Off == where })
			if where >= 0 && !located || where < 0 && len(found) > 0 {
				t.Errorf("Check found %v, want damage at offset %d", found, where)
			}
			for i, e := range entries {
				_, err := s.Get(t.Context(), Blob, e.id)
				switch {
				case hit >= 0 && i != hit:
					if err != nil {
						t.Errorf("Get of object %d: %v", i, err)
					}
				case err == nil && hit >= 0:
					t.Errorf("Get of the damaged object %d succeeds", i)
				case err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotFound):
					t.Errorf("Get of the damaged object %d: %v", i, err)
				}
			}
			checkBlob(t, s, Hash(Blob, []byte("after")))
			checkAcked(t, s, []acked{commit(t, s, "again", []byte("new"))})
			if t.Failed() {
				t.Fatalf("byte %d (record %d), indexed=%v", at, hit, indexed)
			}
		}
	}
}

func TestTruncatedPack(t *testing.T) {
	disk, sealed, entries := sealedDisk(t)
	index := strings.TrimSuffix(sealed, ".pack") + ".idx"
	size := len(readAll(t, disk, sealed))
	var cuts []int
	for _, at := range []int{0, fileHeaderSize, size - sealSize, size - 8, size - 1} {
		cuts = append(cuts, at, max(at-1, 0), at+1)
	}
	for _, e := range entries {
		at := int(e.off)
		cuts = append(cuts, at, at+1, at+recordHeaderSize-1, at+recordHeaderSize, at+recordHeaderSize+1)
	}
	for _, cut := range cuts {
		if cut >= size {
			continue
		}
		for _, indexed := range []bool{true, false} {
			hurt := disk.AfterCrash(nil)
			edit(t, hurt, sealed, func(b []byte) []byte { return b[:cut] })
			if !indexed {
				if err := hurt.Remove(index); err != nil {
					t.Fatal(err)
				}
			}
			s := openDamaged(t, hurt)
			found := damageOf(t, s)
			if len(found) == 0 && (indexed || cut < size-sealSize) {
				t.Error("Check found nothing")
			}
			for _, d := range found {
				if d.Path != index && (d.Path != sealed || d.Off > int64(cut) && !indexed) {
					t.Errorf("Check found %v, want damage in %s up to %d", d, sealed, cut)
				}
			}
			for i, e := range entries {
				whole := cut >= fileHeaderSize && int(e.off)+recordHeaderSize+int(e.stored) <= cut
				_, err := s.Get(t.Context(), Blob, e.id)
				if whole && err != nil {
					t.Errorf("Get of object %d: %v", i, err)
				}
				if !whole && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotFound) {
					t.Errorf("Get of object %d, which is cut off: %v", i, err)
				}
			}
			checkBlob(t, s, Hash(Blob, []byte("after")))
			checkAcked(t, s, []acked{commit(t, s, "again", []byte("new"))})
			if t.Failed() {
				t.Fatalf("cut at byte %d of %d, indexed=%v", cut, size, indexed)
			}
		}
	}
}

// An index is derived: whatever happens to it, all objects can be read, and
// it is there again.
func TestDamagedIndex(t *testing.T) {
	disk, sealed, entries := sealedDisk(t)
	index := strings.TrimSuffix(sealed, ".pack") + ".idx"
	good := readAll(t, disk, index)
	edits := map[string]func([]byte) []byte{
		"empty":        func(b []byte) []byte { return nil },
		"zeros":        func(b []byte) []byte { return make([]byte, len(b)) },
		"half":         func(b []byte) []byte { return b[:len(b)/2] },
		"header only":  func(b []byte) []byte { return b[:fileHeaderSize] },
		"no entries":   func(b []byte) []byte { return b[:fileHeaderSize+bucketsSize] },
		"a byte short": func(b []byte) []byte { return b[:len(b)-1] },
		"a byte more":  func(b []byte) []byte { return append(b, 0) },
		"other pack":   func(b []byte) []byte { return withSum(flip(28)(b), 60) },
	}
	for at := range good {
		if at > fileHeaderSize && at < fileHeaderSize+bucketsSize-8 && at%13 != 0 {
			continue // the middle of the buckets
		}
		edits[fmt.Sprint("byte ", at)] = flip(at)
	}
	for name, fn := range edits {
		hurt := disk.AfterCrash(nil)
		edit(t, hurt, index, fn)
		s := openDamaged(t, hurt)
		if found := damageOf(t, s); len(found) != 1 || found[0].Path != index {
			t.Errorf("%s: Check found %v, want damage of the index", name, found)
		}
		for _, e := range entries {
			checkBlob(t, s, e.id)
		}
		checkBlob(t, s, Hash(Blob, []byte("after")))
		if b := readAll(t, hurt, index); !bytes.Equal(b, good) {
			t.Errorf("%s: the index was not made again", name)
		}
		verify(t, hurt, nil, 0)
	}

	hurt := disk.AfterCrash(nil)
	if err := hurt.Remove(index); err != nil {
		t.Fatal(err)
	}
	s := openMem(t, hurt) // a missing one is no damage
	for _, e := range entries {
		checkBlob(t, s, e.id)
	}
	if b := readAll(t, hurt, index); !bytes.Equal(b, good) {
		t.Error("a missing index was not made again")
	}
}

// An index of more objects than one reads bucket by bucket.
func TestLargeIndex(t *testing.T) {
	setLimits(t, never, 1, never)
	disk := vfs.NewMem()
	const n = 3 * lookupsBeforeLoad
	blob := func(i int) []byte { return fmt.Append(nil, "object ", i) }
	var blobs [][]byte
	for i := range n {
		blobs = append(blobs, blob(i))
	}
	if err := commits(blobs)(t.Context(), disk, func(acked) {}); err != nil {
		t.Fatal(err)
	}
	s := openMem(t, disk)
	for i := range 2 * n {
		ok, err := s.Has(Hash(Blob, blob(i)))
		if err != nil || ok != (i < n) {
			t.Errorf("Has of object %d of %d = %v, %v", i, n, ok, err)
		}
	}
	for _, b := range blobs {
		checkBlob(t, s, Hash(Blob, b))
	}

	// Damage in the last bucket, which is asked for when all were read.
	edit(t, disk, only(t, disk, "packs", ".idx"), func(b []byte) []byte { return flip(len(b) - 1)(b) })
	s = openDamaged(t, disk)
	slices.SortFunc(blobs, func(a, b []byte) int {
		x, y := Hash(Blob, a), Hash(Blob, b)
		return bytes.Compare(x[:], y[:])
	})
	for _, b := range blobs {
		checkBlob(t, s, Hash(Blob, b))
	}
	verify(t, disk, nil, 0)
}

// addRecord appends a crafted record to the unsealed pack, and a journal
// record that says that it is durable.
func addRecord(t *testing.T, disk *vfs.Mem, crafted []byte) {
	t.Helper()
	if err := session(t.Context(), disk, func(s *Store) error {
		commit(t, s, "", small)
		s.wmu.Lock()
		defer s.wmu.Unlock()
		s.active.buf = append(s.active.buf, crafted...)
		if err := s.active.flush(); err != nil {
			return err
		}
		s.jmu.Lock()
		defer s.jmu.Unlock()
		if err := s.j.writable(); err != nil {
			return err
		}
		return s.j.append([]record{{kind: framePacks, body: appendPacks(nil, []packLen{{s.active.id, s.active.written}})}})
	}); err != nil {
		t.Fatal(err)
	}
}

// What a header says bounds what a payload may unpack to.
func TestBomb(t *testing.T) {
	const bombSize = 256 << 20
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, bombSize)
	bomb := e.EncodeAll(zeros, nil)
	id := Hash(Blob, zeros)
	zeros = nil
	for _, raw := range []uint32{uint32(len(bomb)), 1 << 20} {
		h := recordHeader{kind: uint8(Blob), codec: codecZstd, raw: raw, stored: uint32(len(bomb)), id: id, crc: checksum(bomb)}
		disk := vfs.NewMem()
		addRecord(t, disk, append(h.append(nil), bomb...))
		s := openDamaged(t, disk)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = s.Get(t.Context(), Blob, id)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("Get of a bomb: %v, want ErrCorrupt", err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > bombSize/8 {
			t.Errorf("Get of a bomb allocated %d bytes", n)
		}
		if found := damageOf(t, s); len(found) != 1 {
			t.Errorf("Check found %v, want the bomb", found)
		}
		checkBlob(t, s, Hash(Blob, small))
	}
}

// An index that is whole by its checksums and names a record that is longer than
// its pack.
func TestCraftedIndex(t *testing.T) {
	disk, sealed, entries := sealedDisk(t)
	disk = disk.AfterCrash(nil)
	s := openDamaged(t, disk)
	id, _ := parsePackID(strings.TrimPrefix(sealed, "packs/"), ".pack")
	wrong := slices.Clone(entries)
	for i := range wrong {
		wrong[i].stored = math.MaxUint32
	}
	end := int64(len(readAll(t, disk, sealed)) - sealSize)
	if err := writeFile(disk, indexName(id), encodeIndex(s.id, id, end, wrong)); err != nil {
		t.Fatal(err)
	}
	s = openDamaged(t, disk)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := s.Get(t.Context(), Blob, entries[0].id)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
		t.Errorf("Get allocated %d bytes", n)
	}
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("Get: %v, want ErrCorrupt", err)
	}
	if found := damageOf(t, s); len(found) == 0 {
		t.Error("Check found nothing")
	}
}

// Records that are whole by their checksums and still say what cannot be.
func TestCraftedRecords(t *testing.T) {
	data := random(200, 7)
	id := Hash(Blob, data)
	good := recordHeader{kind: uint8(Blob), raw: 200, stored: 200, id: id, crc: checksum(data)}
	change := func(fn func(h *recordHeader)) []byte {
		h := good
		fn(&h)
		return append(h.append(nil), data...)
	}
	list := func(refs ...[]byte) []byte {
		b := slices.Concat(refs...)
		h := recordHeader{kind: recChunked, raw: uint32(len(b)), stored: uint32(len(b)), id: id, crc: checksum(b)}
		return append(h.append(nil), b...)
	}
	smallID := Hash(Blob, small)
	// What it unpacks to is the object, but not as long as the header says.
	packed := encoder().EncodeAll(data, nil)
	short := recordHeader{kind: uint8(Blob), codec: codecZstd, raw: 300, stored: uint32(len(packed)), id: id, crc: checksum(packed)}
	shortZstd := append(short.append(nil), packed...)
	for name, record := range map[string][]byte{
		"raw above the limit":    change(func(h *recordHeader) { h.raw = MaxObject + 1 }),
		"stored above raw":       change(func(h *recordHeader) { h.raw = 199 }),
		"raw above stored":       change(func(h *recordHeader) { h.raw = 201 }),
		"unknown kind":           change(func(h *recordHeader) { h.kind = 7 }),
		"kind 0":                 change(func(h *recordHeader) { h.kind = 0 }),
		"a tree":                 change(func(h *recordHeader) { h.kind = uint8(Tree) }),
		"a chunk list":           change(func(h *recordHeader) { h.kind = recChunked }),
		"reserved codec":         change(func(h *recordHeader) { h.codec = 2 }),
		"zstd of less than raw":  shortZstd,
		"not zstd":               change(func(h *recordHeader) { h.codec = codecZstd }),
		"other content":          change(func(h *recordHeader) { h.id[0] ^= 1; id = good.id }),
		"other checksum":         change(func(h *recordHeader) { h.crc++ }),
		"list of nothing":        list(),
		"list of half a chunk":   list(appendChunkRef(nil, smallID, len(small))[:20]),
		"list of another chunk":  list(appendChunkRef(nil, smallID, len(small))),
		"list of a wrong length": list(appendChunkRef(nil, smallID, len(small)+1)),
		"list of no chunk":       list(appendChunkRef(nil, ID{1}, 1)),
		"list of itself":         list(appendChunkRef(nil, id, 200)),
	} {
		disk := vfs.NewMem()
		addRecord(t, disk, record)
		s := openDamaged(t, disk)
		want := id
		if name == "other content" {
			want[0] ^= 1
		}
		if b, err := s.Get(t.Context(), Blob, want); err == nil {
			t.Errorf("%s: Get gives %d bytes", name, len(b))
		} else if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: Get: %v, want ErrCorrupt or ErrNotFound", name, err)
		}
		found := damageOf(t, s)
		if len(found) == 0 {
			t.Errorf("%s: Check found nothing", name)
		}
		for _, d := range found {
			if d.Path != only(t, disk, "packs", ".pack") || d.Off != fileHeaderSize+recordHeaderSize+int64(len(small)) {
				t.Errorf("%s: Check found %v, want it at the record", name, d)
			}
		}
		checkBlob(t, s, smallID)
	}
}

// Files of another store are not taken for ours.
func TestFilesOfAnotherStore(t *testing.T) {
	disk, sealed, entries := sealedDisk(t)
	other := vfs.NewMem()
	if err := commits([][]byte{[]byte("other")})(t.Context(), other, func(acked) {}); err != nil {
		t.Fatal(err)
	}
	index := strings.TrimSuffix(sealed, ".pack") + ".idx"
	for _, name := range []string{sealed, index} {
		if err := writeFile(other, name, readAll(t, disk, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := openDamaged(t, other)
	found := damageOf(t, s)
	if len(found) != 1 || found[0].Path != sealed || found[0].Off != 0 {
		t.Errorf("Check found %v, want %s", found, sealed)
	}
	if _, err := s.Get(t.Context(), Blob, entries[0].id); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get of an object of another store: %v, want ErrNotFound", err)
	}
	checkBlob(t, s, Hash(Blob, []byte("other")))
	commit(t, s, "", []byte("more"))

	// Under the name of another pack.
	name := packName([16]byte{1})
	if err := writeFile(disk, name, readAll(t, disk, sealed)); err != nil {
		t.Fatal(err)
	}
	s = openDamaged(t, disk)
	if found := damageOf(t, s); len(found) != 1 || found[0].Path != name {
		t.Errorf("Check found %v, want %s", found, name)
	}
	if err := disk.Remove(name); err != nil {
		t.Fatal(err)
	}

	// A segment under the number of another.
	twin := disk.AfterCrash(nil)
	if err := writeFile(twin, segmentName(2), readAll(t, twin, segmentName(1))); err != nil {
		t.Fatal(err)
	}
	if found := damageOf(t, openDamaged(t, twin)); len(found) == 0 || found[0].Path != segmentName(2) || found[0].Off != 0 {
		t.Errorf("Check found %v, want %s", found, segmentName(2))
	}

	// A segment of another journal.
	if err := writeFile(disk, segmentName(2), readAll(t, other, segmentName(1))); err != nil {
		t.Fatal(err)
	}
	s = openDamaged(t, disk)
	if found := damageOf(t, s); len(found) == 0 || found[0].Path != segmentName(2) {
		t.Errorf("Check found %v, want %s", found, segmentName(2))
	}
	if err := disk.Remove(segmentName(2)); err != nil {
		t.Fatal(err)
	}
}

// One object in two packs, and twice in one, as writers that did not see each
// other leave it.
func TestDuplicateObjects(t *testing.T) {
	setLimits(t, never, 4<<10, never)
	disk := vfs.NewMem()
	a, b := openMem(t, disk), openMem(t, disk)
	for _, s := range []*Store{a, b} {
		if _, err := s.Has(ID{}); err != nil { // looks at the packs, of which there are none
			t.Fatal(err)
		}
	}
	acks := []acked{commit(t, a, "a", large), commit(t, b, "b", large)}
	if n := len(names(t, disk, "packs", ".pack")); n != 2 {
		t.Fatalf("%d packs, want 2", n)
	}
	waitForSeals(a)
	waitForSeals(b)
	verify(t, disk, acks, 0)

	disk = vfs.NewMem()
	addRecord(t, disk, rawRecord(uint8(Blob), small))
	if err := session(t.Context(), disk, func(s *Store) error {
		r, err := s.Check(t.Context(), true)
		if err != nil || r.Objects != 2 {
			t.Errorf("Check counts %+v, %v; want 2 records", r, err)
		}
		checkBlob(t, s, Hash(Blob, small))
		acks = []acked{commit(t, s, "", large)} // seals it
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	only(t, disk, "packs", ".idx")
	verify(t, disk, acks, 0)
}

func TestMissingPack(t *testing.T) {
	disk := vfs.NewMem()
	acks := prepare(t, disk)
	name := only(t, disk, "packs", ".pack")
	if err := disk.Remove(name); err != nil {
		t.Fatal(err)
	}
	s := openDamaged(t, disk)
	if found := damageOf(t, s); len(found) != 1 || found[0].Path != name {
		t.Errorf("Check found %v, want %s missing", found, name)
	}
	if _, err := s.Get(t.Context(), Blob, acks[0].ids[0]); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get: %v, want ErrNotFound", err)
	}
	a := commit(t, s, "", small)
	checkAcked(t, s, []acked{a})
}

// A chunk that is gone is damage to report, not a check that failed.
func TestMissingChunk(t *testing.T) {
	setLimits(t, 1<<20, 1, never)
	disk := vfs.NewMem()
	big := random(3<<20, 8)
	if err := commits([][]byte{big})(t.Context(), disk, func(acked) {}); err != nil {
		t.Fatal(err)
	}
	s := openMem(t, disk)
	loc, err := s.locate(Hash(Blob, big[:cutPoint(big)]))
	if err != nil {
		t.Fatal(err)
	}
	left := disk.AfterCrash(nil)
	for _, name := range []string{loc.pack.name(), indexName(loc.pack.id)} {
		if err := left.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	hurt := openDamaged(t, left)
	r, err := hurt.Check(t.Context(), true)
	if err != nil || len(r.Damage) == 0 {
		t.Fatalf("Check: %+v, %v; want damage", r, err)
	}
	if _, err := hurt.Get(t.Context(), Blob, Hash(Blob, big)); !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrCorrupt) {
		t.Errorf("Get of a blob without its chunk: %v", err)
	}
}
