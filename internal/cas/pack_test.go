package cas

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

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// sealedDisk makes a disk with one sealed pack and an unsealed one, and
// returns the entries of the sealed one in order of offset.
func sealedDisk(t *testing.T) (disk *vfstest.Mem, sealed string, entries []pack.Entry) {
	t.Helper()
	setLimits(t, never, 4<<10, never)
	disk = vfstest.NewMem()
	text := bytes.Repeat([]byte("text "), 300)
	if err := commits([][]byte{small, text, large},
		[][]byte{[]byte("after")})(t.Context(), disk, func(acked) {}); err != nil {
		t.Fatal(err)
	}
	sealed = strings.TrimSuffix(only(t, disk, "packs", ".idx"), ".idx") + ".pack"
	s := openMem(t, disk)
	p := openNamed(t, s, sealed)
	defer p.F.Close()
	end, ok, err := p.SealedAt()
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	damage, err := p.Scan(layout.HeaderSize, end, func(e pack.Entry) { entries = append(entries, e) })
	if err != nil || len(damage) > 0 || len(entries) != 3 {
		t.Fatal(entries, damage, err)
	}
	return disk, sealed, entries
}

func openNamed(t *testing.T, s *Store, name string) *pack.Pack {
	t.Helper()
	id, ok := layout.ParsePackID(strings.TrimPrefix(name, "packs/"), ".pack")
	if !ok {
		t.Fatalf("%q is no name of a pack", name)
	}
	p, err := pack.Open(s.fsys, s.id, id, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func readAll(t *testing.T, disk *vfstest.Mem, name string) []byte {
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
	testseed.Sequential(t)
	withoutGroups(t)
	disk, sealed, entries := sealedDisk(t)
	index := strings.TrimSuffix(sealed, ".pack") + ".idx"
	size := len(readAll(t, disk, sealed))
	bodyEnd := size - pack.SealSize
	for at := 0; at < size; at++ {
		// hit is the record that the byte is in; -1: header, len: seal.
		hit := -1
		for at >= layout.HeaderSize && hit < len(entries) &&
			(hit < 0 || at >= int(entries[hit].Off+pack.HeaderSize)+int(entries[hit].Stored)) {
			hit++
		}
		inPayload := hit >= 0 && hit < len(entries) && at > int(entries[hit].Off)+pack.HeaderSize
		if inPayload && at%97 != 0 {
			continue
		}
		where := int64(0)
		switch {
		case hit == len(entries):
			where = int64(bodyEnd)
		case hit >= 0:
			where = entries[hit].Off
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
			located := slices.ContainsFunc(found, func(d *object.CorruptError) bool {
				return d.Path == sealed && d.Off == where
			})
			if where >= 0 && !located || where < 0 && len(found) > 0 {
				t.Errorf("Check found %v, want damage at offset %d", found, where)
			}
			for i, e := range entries {
				_, err := s.Get(t.Context(), object.Blob, e.ID)
				switch {
				case hit >= 0 && i != hit:
					if err != nil {
						t.Errorf("Get of object %d: %v", i, err)
					}
				case err == nil && hit >= 0:
					t.Errorf("Get of the damaged object %d succeeds", i)
				case err != nil && !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrNotFound):
					t.Errorf("Get of the damaged object %d: %v", i, err)
				}
			}
			checkBlob(t, s, object.Hash(object.Blob, []byte("after")))
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
	for _, at := range []int{0, layout.HeaderSize, size - pack.SealSize, size - 8, size - 1} {
		cuts = append(cuts, at, max(at-1, 0), at+1)
	}
	for _, e := range entries {
		at := int(e.Off)
		cuts = append(cuts, at, at+1, at+pack.HeaderSize-1, at+pack.HeaderSize, at+pack.HeaderSize+1)
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
			if len(found) == 0 && (indexed || cut < size-pack.SealSize) {
				t.Error("Check found nothing")
			}
			for _, d := range found {
				if d.Path != index && (d.Path != sealed || d.Off > int64(cut) && !indexed) {
					t.Errorf("Check found %v, want damage in %s up to %d", d, sealed, cut)
				}
			}
			for i, e := range entries {
				whole := cut >= layout.HeaderSize && int(e.Off)+pack.HeaderSize+int(e.Stored) <= cut
				_, err := s.Get(t.Context(), object.Blob, e.ID)
				if whole && err != nil {
					t.Errorf("Get of object %d: %v", i, err)
				}
				if !whole && !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrNotFound) {
					t.Errorf("Get of object %d, which is cut off: %v", i, err)
				}
			}
			checkBlob(t, s, object.Hash(object.Blob, []byte("after")))
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
	testseed.Sequential(t)
	disk, sealed, entries := sealedDisk(t)
	index := strings.TrimSuffix(sealed, ".pack") + ".idx"
	good := readAll(t, disk, index)
	edits := map[string]func([]byte) []byte{
		"empty":        func(b []byte) []byte { return nil },
		"zeros":        func(b []byte) []byte { return make([]byte, len(b)) },
		"half":         func(b []byte) []byte { return b[:len(b)/2] },
		"header only":  func(b []byte) []byte { return b[:layout.HeaderSize] },
		"no entries":   func(b []byte) []byte { return b[:layout.HeaderSize+pack.BucketsSize] },
		"a byte short": func(b []byte) []byte { return b[:len(b)-1] },
		"a byte more":  func(b []byte) []byte { return append(b, 0) },
		"other pack":   func(b []byte) []byte { return withSum(flip(28)(b), 60) },
	}
	for at := range good {
		if at > layout.HeaderSize && at < layout.HeaderSize+pack.BucketsSize-8 && at%13 != 0 {
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
			checkBlob(t, s, e.ID)
		}
		checkBlob(t, s, object.Hash(object.Blob, []byte("after")))
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
		checkBlob(t, s, e.ID)
	}
	if b := readAll(t, hurt, index); !bytes.Equal(b, good) {
		t.Error("a missing index was not made again")
	}
}

// An index of more objects than one reads bucket by bucket.
func TestLargeIndex(t *testing.T) {
	setLimits(t, never, 1, never)
	disk := vfstest.NewMem()
	const n = 3 * pack.LookupsBeforeLoad
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
		ok, err := s.Has(object.Hash(object.Blob, blob(i)))
		if err != nil || ok != (i < n) {
			t.Errorf("Has of object %d of %d = %v, %v", i, n, ok, err)
		}
	}
	for _, b := range blobs {
		checkBlob(t, s, object.Hash(object.Blob, b))
	}

	// Damage in the last bucket, which is asked for when all were read.
	edit(t, disk, only(t, disk, "packs", ".idx"), func(b []byte) []byte { return flip(len(b) - 1)(b) })
	s = openDamaged(t, disk)
	slices.SortFunc(blobs, func(a, b []byte) int {
		x, y := object.Hash(object.Blob, a), object.Hash(object.Blob, b)
		return bytes.Compare(x[:], y[:])
	})
	for _, b := range blobs {
		checkBlob(t, s, object.Hash(object.Blob, b))
	}
	verify(t, disk, nil, 0)
}

// addRecord appends a crafted record to the unsealed pack, and a journal
// record that says that it is durable.
func addRecord(t *testing.T, disk *vfstest.Mem, crafted []byte) {
	t.Helper()
	if err := session(t.Context(), disk, func(s *Store) error {
		commit(t, s, "", small)
		s.wmu.Lock()
		defer s.wmu.Unlock()
		s.active.Buf = append(s.active.Buf, crafted...)
		if err := s.active.Flush(); err != nil {
			return err
		}
		s.jmu.Lock()
		defer s.jmu.Unlock()
		if err := s.j.Writable(); err != nil {
			return err
		}
		return s.j.Append([]journal.Record{{Kind: journal.FramePacks,
			Body: journal.AppendPacks(nil, []journal.PackLen{{Pack: s.active.ID, End: s.active.Written}})}})
	}); err != nil {
		t.Fatal(err)
	}
}

// What a header says bounds what a payload may unpack to, and that is bounded, too.
func TestBomb(t *testing.T) {
	testseed.Sequential(t)
	const bombSize = 256 << 20
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, bombSize)
	bomb := e.EncodeAll(zeros, nil)
	id := object.Hash(object.Blob, zeros)
	zeros = nil
	for _, raw := range []uint32{uint32(len(bomb)), 1 << 20, bombSize} {
		h := pack.Header{Kind: uint8(object.Blob), Codec: pack.CodecZstd, Raw: raw, Stored: uint32(len(bomb)), ID: id,
			Crc: layout.Checksum(bomb)}
		disk := vfstest.NewMem()
		addRecord(t, disk, append(h.Append(nil), bomb...))
		s := openDamaged(t, disk)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = s.Get(t.Context(), object.Blob, id)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get of a bomb: %v, want ErrCorrupt or ErrNotFound", err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > bombSize/8 {
			t.Errorf("Get of a bomb allocated %d bytes", n)
		}
		if found := damageOf(t, s); len(found) != 1 {
			t.Errorf("Check found %v, want the bomb", found)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > bombSize/8 {
			t.Errorf("Get and Check of a bomb allocated %d bytes", n)
		}
		checkBlob(t, s, object.Hash(object.Blob, small))
	}
}

// The header of a record takes lengths up to the limit of its kind, and none above.
func TestRecordLimits(t *testing.T) {
	table := store.ID{1}
	for _, c := range []struct {
		kind   uint8
		id     store.ID
		stored uint32
		limit  uint32
	}{
		{uint8(object.Blob), store.ID{}, 10, pack.MaxObject},
		{pack.RecChunked, store.ID{}, 10, pack.MaxObject},
		{uint8(object.Tree), store.ID{}, 10, pack.MaxObject},
		{uint8(object.Coverage), store.ID{}, 10, pack.MaxObject},
		{pack.RecGroup, table, 50, pack.MaxGroup},
	} {
		for _, more := range []uint32{0, 1, math.MaxUint32 - c.limit} {
			h := pack.Header{Kind: c.kind, Codec: pack.CodecZstd, Raw: c.limit + more, Stored: c.stored, ID: c.id}
			if _, err := pack.ParseHeader(h.Append(nil)); (err == nil) != (more == 0) {
				t.Errorf("kind %d, %d bytes above the limit: %v", c.kind, more, err)
			}
		}
	}
	// An edit once made records that are larger, of what is there.
	for _, c := range []struct {
		raw, stored uint32
		ok          bool
	}{{1 << 30, 1 << 24, true}, {1<<30 + 1, 1 << 30, false}, {1 << 30, 1<<24 - 1, false}, {1 << 28, 1 << 22, true}} {
		h := pack.Header{Kind: uint8(object.Blob), Codec: pack.CodecZstd, Raw: c.raw, Stored: c.stored}
		if _, err := pack.ParseHeader(h.Append(nil)); (err == nil) != c.ok {
			t.Errorf("a record of %d bytes that says %d: %v", c.stored, c.raw, err)
		}
	}
}

// What was stored as a whole, as edits were once, is read; what is now is in chunks.
func TestLargePut(t *testing.T) {
	disk := vfstest.NewMem()
	data := random(3<<20, 5)
	id := object.Hash(object.Blob, data)
	addRecord(t, disk, rawRecord(uint8(object.Blob), data))
	checkBlob(t, openDamaged(t, disk), id)

	s := openDamaged(t, disk)
	data = random(3<<20, 6)
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put, err := w.Put(object.Blob, data)
	if err := errors.Join(err, w.Close()); err != nil || put != object.Hash(object.Blob, data) {
		t.Fatalf("Put returns %s, %v", put.Short(), err)
	}
	checkBlob(t, s, put)
	if o, err := s.Stored(object.Blob, put); err != nil || len(o.Chunks) < 3 {
		t.Errorf("Stored: %d chunks, %v", len(o.Chunks), err)
	}
}

// A chunk of a list is as long as some version has made one, and no longer.
func TestChunkLimit(t *testing.T) {
	testseed.Sequential(t)
	for n, whole := range map[int]bool{maxChunk: true, maxChunk + 1: false} {
		chunk := random(n, 7)
		both := slices.Concat(chunk, small)
		list := appendChunkRef(appendChunkRef(nil, object.Hash(object.Blob, chunk), n), object.Hash(object.Blob, small),
			len(small))
		h := pack.Header{Kind: pack.RecChunked, Raw: uint32(len(list)), ID: object.Hash(object.Blob, both)}
		disk := vfstest.NewMem()
		addRecord(t, disk, slices.Concat(rawRecord(uint8(object.Blob), chunk), encodeRecord(h, list)))
		s := openDamaged(t, disk)
		if b, err := s.Get(t.Context(), object.Blob, h.ID); errors.Is(err, store.ErrCorrupt) == whole ||
			whole && !bytes.Equal(b, both) {
			t.Errorf("a chunk of %d bytes: %d bytes, %v", n, len(b), err)
		}
		if found := damageOf(t, s); len(found) == 0 != whole {
			t.Errorf("a chunk of %d bytes: Check found %v", n, found)
		}
	}
}

// A list that has the same chunk a million times is a terabyte in some kilobytes. Who wants it in memory
// is refused.
func TestChunkBomb(t *testing.T) {
	testseed.Sequential(t)
	chunk := make([]byte, 1<<20)
	list := bytes.Repeat(appendChunkRef(nil, object.Hash(object.Blob, chunk), len(chunk)), 1<<20)
	packed := pack.EncoderOf(uint8(object.Blob)).EncodeAll(list, nil)
	h := pack.Header{Kind: pack.RecChunked, Codec: pack.CodecZstd, Raw: uint32(len(list)), ID: store.ID{1}}
	disk := vfstest.NewMem()
	addRecord(t, disk, slices.Concat(rawRecord(uint8(object.Blob), chunk), encodeRecord(h, packed)))
	s := openDamaged(t, disk)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if b, err := s.Get(t.Context(), object.Blob, h.ID); err == nil || errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Get: %d bytes, %v", len(b), err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(2*len(list)) {
		t.Errorf("Get allocated %d bytes", n)
	}
}

// A payload that unpacks to a few bytes more, or less, than its header says is damage, too.
func TestWrongLength(t *testing.T) {
	text := bytes.Repeat([]byte("some text. "), 1000)
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	frame := e.EncodeAll(text, nil)
	for more := -20; more <= 20; more++ {
		h := pack.Header{Kind: uint8(object.Blob), Codec: pack.CodecZstd, Raw: uint32(len(text) - more),
			Stored: uint32(len(frame)), ID: object.Hash(object.Blob, text), Crc: layout.Checksum(frame)}
		disk := vfstest.NewMem()
		addRecord(t, disk, append(h.Append(nil), frame...))
		s := openDamaged(t, disk)
		if b, err := s.Get(t.Context(), object.Blob, h.ID); errors.Is(err, store.ErrCorrupt) == (more == 0) {
			t.Errorf("%d bytes more: %d, %v", more, len(b), err)
		}
	}
}

// An index that is whole by its checksums and names a record that is longer than
// its pack.
func TestCraftedIndex(t *testing.T) {
	disk, sealed, entries := sealedDisk(t)
	disk = disk.AfterCrash(nil)
	s := openDamaged(t, disk)
	id, _ := layout.ParsePackID(strings.TrimPrefix(sealed, "packs/"), ".pack")
	wrong := slices.Clone(entries)
	for i := range wrong {
		wrong[i].Stored = math.MaxUint32
	}
	end := int64(len(readAll(t, disk, sealed)) - pack.SealSize)
	if err := layout.WriteFile(disk, layout.IndexName(id), pack.EncodeIndex(s.id, id, end, wrong)); err != nil {
		t.Fatal(err)
	}
	s = openDamaged(t, disk)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := s.Get(t.Context(), object.Blob, entries[0].ID)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
		t.Errorf("Get allocated %d bytes", n)
	}
	if !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Get: %v, want ErrCorrupt", err)
	}
	if found := damageOf(t, s); len(found) == 0 {
		t.Error("Check found nothing")
	}
}

// Records that are whole by their checksums and still say what cannot be.
func TestCraftedRecords(t *testing.T) {
	data := random(200, 7)
	id := object.Hash(object.Blob, data)
	good := pack.Header{Kind: uint8(object.Blob), Raw: 200, Stored: 200, ID: id, Crc: layout.Checksum(data)}
	change := func(fn func(h *pack.Header)) []byte {
		h := good
		fn(&h)
		return append(h.Append(nil), data...)
	}
	list := func(refs ...[]byte) []byte {
		b := slices.Concat(refs...)
		h := pack.Header{Kind: pack.RecChunked, Raw: uint32(len(b)), Stored: uint32(len(b)), ID: id,
			Crc: layout.Checksum(b)}
		return append(h.Append(nil), b...)
	}
	smallID := object.Hash(object.Blob, small)
	// What it unpacks to is the object, but not as long as the header says.
	packed := pack.EncoderOf(uint8(object.Blob)).EncodeAll(data, nil)
	short := pack.Header{Kind: uint8(object.Blob), Codec: pack.CodecZstd, Raw: 300, Stored: uint32(len(packed)), ID: id,
		Crc: layout.Checksum(packed)}
	shortZstd := append(short.Append(nil), packed...)
	for name, record := range map[string][]byte{
		"raw above the limit":    change(func(h *pack.Header) { h.Raw = pack.MaxObject + 1 }),
		"stored above raw":       change(func(h *pack.Header) { h.Raw = 199 }),
		"raw above stored":       change(func(h *pack.Header) { h.Raw = 201 }),
		"unknown kind":           change(func(h *pack.Header) { h.Kind = 7 }),
		"kind 0":                 change(func(h *pack.Header) { h.Kind = 0 }),
		"a tree":                 change(func(h *pack.Header) { h.Kind = uint8(object.Tree) }),
		"a chunk list":           change(func(h *pack.Header) { h.Kind = pack.RecChunked }),
		"reserved codec":         change(func(h *pack.Header) { h.Codec = 2 }),
		"zstd of less than raw":  shortZstd,
		"not zstd":               change(func(h *pack.Header) { h.Codec = pack.CodecZstd }),
		"other content":          change(func(h *pack.Header) { h.ID[0] ^= 1; id = good.ID }),
		"other checksum":         change(func(h *pack.Header) { h.Crc++ }),
		"list of nothing":        list(),
		"list of half a chunk":   list(appendChunkRef(nil, smallID, len(small))[:20]),
		"list of another chunk":  list(appendChunkRef(nil, smallID, len(small))),
		"list of a wrong length": list(appendChunkRef(nil, smallID, len(small)+1)),
		"list of no chunk":       list(appendChunkRef(nil, store.ID{1}, 1)),
		"list of itself":         list(appendChunkRef(nil, id, 200)),
	} {
		disk := vfstest.NewMem()
		addRecord(t, disk, record)
		s := openDamaged(t, disk)
		want := id
		if name == "other content" {
			want[0] ^= 1
		}
		if b, err := s.Get(t.Context(), object.Blob, want); err == nil {
			t.Errorf("%s: Get gives %d bytes", name, len(b))
		} else if !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: Get: %v, want ErrCorrupt or ErrNotFound", name, err)
		}
		found := damageOf(t, s)
		if len(found) == 0 {
			t.Errorf("%s: Check found nothing", name)
		}
		for _, d := range found {
			if d.Path != only(t, disk, "packs", ".pack") ||
				d.Off != layout.HeaderSize+pack.HeaderSize+int64(len(small)) {
				t.Errorf("%s: Check found %v, want it at the record", name, d)
			}
		}
		checkBlob(t, s, smallID)
	}
}

// Files of another store are not taken for ours.
func TestFilesOfAnotherStore(t *testing.T) {
	disk, sealed, entries := sealedDisk(t)
	other := vfstest.NewMem()
	if err := commits([][]byte{[]byte("other")})(t.Context(), other, func(acked) {}); err != nil {
		t.Fatal(err)
	}
	index := strings.TrimSuffix(sealed, ".pack") + ".idx"
	for _, name := range []string{sealed, index} {
		if err := layout.WriteFile(other, name, readAll(t, disk, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := openDamaged(t, other)
	found := damageOf(t, s)
	if len(found) != 1 || found[0].Path != sealed || found[0].Off != 0 {
		t.Errorf("Check found %v, want %s", found, sealed)
	}
	if _, err := s.Get(t.Context(), object.Blob, entries[0].ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get of an object of another store: %v, want ErrNotFound", err)
	}
	checkBlob(t, s, object.Hash(object.Blob, []byte("other")))
	commit(t, s, "", []byte("more"))

	// Under the name of another pack.
	name := layout.PackName([16]byte{1})
	if err := layout.WriteFile(disk, name, readAll(t, disk, sealed)); err != nil {
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
	if err := layout.WriteFile(twin, layout.SegmentName(2), readAll(t, twin, layout.SegmentName(1))); err != nil {
		t.Fatal(err)
	}
	if found := damageOf(t, openDamaged(t, twin)); len(found) == 0 || found[0].Path != layout.SegmentName(2) ||
		found[0].Off != 0 {
		t.Errorf("Check found %v, want %s", found, layout.SegmentName(2))
	}

	// A segment of another journal.
	if err := layout.WriteFile(disk, layout.SegmentName(2), readAll(t, other, layout.SegmentName(1))); err != nil {
		t.Fatal(err)
	}
	s = openDamaged(t, disk)
	if found := damageOf(t, s); len(found) == 0 || found[0].Path != layout.SegmentName(2) {
		t.Errorf("Check found %v, want %s", found, layout.SegmentName(2))
	}
	if err := disk.Remove(layout.SegmentName(2)); err != nil {
		t.Fatal(err)
	}
}

// One object in two packs, and twice in one, as writers that did not see each
// other leave it.
func TestDuplicateObjects(t *testing.T) {
	setLimits(t, never, 4<<10, never)
	disk := vfstest.NewMem()
	a, b := openMem(t, disk), openMem(t, disk)
	for _, s := range []*Store{a, b} {
		if _, err := s.Has(store.ID{}); err != nil { // looks at the packs, of which there are none
			t.Fatal(err)
		}
	}
	acks := []acked{commit(t, a, "a", large), commit(t, b, "b", large)}
	if n := len(names(t, disk, "packs", ".pack")); n != 2 {
		t.Fatalf("%d packs, want 2", n)
	}
	a.waitSealed()
	b.waitSealed()
	verify(t, disk, acks, 0)

	disk = vfstest.NewMem()
	addRecord(t, disk, rawRecord(uint8(object.Blob), small))
	if err := session(t.Context(), disk, func(s *Store) error {
		r, err := s.Check(t.Context(), true)
		if err != nil || r.Objects != 2 {
			t.Errorf("Check counts %+v, %v; want 2 records", r, err)
		}
		checkBlob(t, s, object.Hash(object.Blob, small))
		acks = []acked{commit(t, s, "", large)} // seals it
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	only(t, disk, "packs", ".idx")
	verify(t, disk, acks, 0)
}

func TestMissingPack(t *testing.T) {
	disk := vfstest.NewMem()
	acks := prepare(t, disk)
	name := only(t, disk, "packs", ".pack")
	if err := disk.Remove(name); err != nil {
		t.Fatal(err)
	}
	s := openDamaged(t, disk)
	if found := damageOf(t, s); len(found) != 1 || found[0].Path != name {
		t.Errorf("Check found %v, want %s missing", found, name)
	}
	if _, err := s.Get(t.Context(), object.Blob, acks[0].ids[0]); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get: %v, want ErrNotFound", err)
	}
	a := commit(t, s, "", small)
	checkAcked(t, s, []acked{a})
}

// A chunk that is gone is damage to report, not a check that failed.
func TestMissingChunk(t *testing.T) {
	testseed.Sequential(t)
	setLimits(t, 1<<20, 1, never)
	disk := vfstest.NewMem()
	big := random(3<<20, 8)
	if err := commits([][]byte{big})(t.Context(), disk, func(acked) {}); err != nil {
		t.Fatal(err)
	}
	s := openMem(t, disk)
	loc, err := s.locate(object.Hash(object.Blob, big[:pack.CutPoint(big)]))
	if err != nil {
		t.Fatal(err)
	}
	left := disk.AfterCrash(nil)
	for _, name := range []string{loc.Pack.Name(), layout.IndexName(loc.Pack.ID)} {
		if err := left.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	hurt := openDamaged(t, left)
	r, err := hurt.Check(t.Context(), true)
	if err != nil || len(r.Damage) == 0 {
		t.Fatalf("Check: %+v, %v; want damage", r, err)
	}
	if _, err := hurt.Get(t.Context(), object.Blob,
		object.Hash(object.Blob, big)); !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Get of a blob without its chunk: %v", err)
	}
}

// Who has a store open of which somebody removes, cuts or replaces a pack believes nothing that was in
// it: what is put again is stored again, and what is recorded is there for others. If that comes between
// a put and its commit, the commit fails, and the next try does not.
func TestPackTakenUnderWriter(t *testing.T) {
	rewrite := func(change func(b []byte) []byte) func(t *testing.T, disk *vfstest.Mem, name string) {
		return func(t *testing.T, disk *vfstest.Mem, name string) {
			if err := layout.WriteFile(disk, name, change(readAll(t, disk, name))); err != nil {
				t.Fatal(err)
			}
		}
	}
	older := func(b []byte) []byte { return b[:len(b)*2/3] }
	takes := map[string]func(t *testing.T, disk *vfstest.Mem, name string){
		"removed": func(t *testing.T, disk *vfstest.Mem, name string) {
			if err := disk.Remove(name); err != nil {
				t.Fatal(err)
			}
		},
		"an older one":  rewrite(older),
		"a copy":        rewrite(func(b []byte) []byte { return b }),
		"another store": rewrite(func(b []byte) []byte { return append(make([]byte, layout.HeaderSize), b...) }),
		"nothing":       rewrite(func([]byte) []byte { return nil }),
		"cut":           func(t *testing.T, disk *vfstest.Mem, name string) { edit(t, disk, name, older) },
	}
	texts := [][]byte{small, large, []byte("and another"), bytes.Repeat([]byte("a long text "), 1000)}
	for what, take := range takes {
		for _, sealed := range []bool{false, true} {
			if what == "cut" && sealed { // nobody writes to it; who reads it finds out
				continue
			}
			t.Run(fmt.Sprintf("%s, sealed %v", what, sealed), func(t *testing.T) {
				if sealed {
					setLimits(t, never, 1, never)
				}
				disk := vfstest.NewMem()
				s := openDamaged(t, disk)
				commit(t, s, "a", texts...)
				s.waitSealed()
				name := names(t, disk, "packs", ".pack")[0]
				if indexed := len(names(t, disk, "packs", ".idx")) > 0; indexed != sealed {
					t.Fatalf("sealed %v", indexed)
				}

				take(t, disk, name)
				acks := []acked{commit(t, s, "b", texts...)}
				checkAcked(t, openDamaged(t, disk), acks)
				checkAcked(t, s, acks)

				at, _, err := s.find(acks[0].ids[0])
				if err != nil {
					t.Fatal(err)
				}
				name = at.Pack.Name()
				w, err := s.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, b := range texts {
					if _, err := put(w, b); err != nil {
						t.Fatal(err)
					}
				}
				take(t, disk, name)
				id, err := put(w, []byte("more"))
				if err == nil {
					err = w.Commit(t.Context(), &store.Snapshot{Tree: id, Session: "c"}, 0)
				}
				_ = w.Close() // that it is lost was said
				acks = []acked{commit(t, s, "d", texts...)}
				if err == nil && !sealed { // what was sealed is lost to all who named it before
					acks = append(acks, acked{"c", acks[0].seq - 1, append([]store.ID{id}, acks[0].ids...)})
				}
				checkAcked(t, openDamaged(t, disk), acks)
				checkAcked(t, s, acks)
			})
		}
	}
}

// Who makes sure stores again what was damaged since the process has stored or found it.
func TestMakeSure(t *testing.T) {
	texts := [][]byte{small, large, []byte("and another"), bytes.Repeat([]byte("a long text "), 1000)}
	for _, sealed := range []bool{false, true} {
		if sealed {
			setLimits(t, never, 1, never)
		}
		disk := vfstest.NewMem()
		s := openDamaged(t, disk)
		commit(t, s, "a", texts...)
		s.waitSealed()
		name := names(t, disk, "packs", ".pack")[0]
		intact := len(readAll(t, disk, name))
		put := func(session string) []acked {
			w, err := s.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			w.MakeSure()
			var ids []store.ID
			for _, b := range texts {
				id, err := put(w, b)
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, id)
			}
			snap := &store.Snapshot{Tree: ids[0], Session: session}
			if err := errors.Join(w.Commit(t.Context(), snap, 0), w.Close()); err != nil {
				t.Fatal(err)
			}
			if stored := w.Stats().Objects > 0; stored != (session == "damaged") {
				t.Errorf("sealed %v, %s: stored anything: %v", sealed, session, stored)
			}
			return []acked{{session, snap.Seq, ids}}
		}
		put("intact")
		edit(t, disk, name, func(b []byte) []byte {
			for i := layout.HeaderSize + pack.HeaderSize; i < intact; i += 500 {
				b[i] ^= 0x55
			}
			return b
		})
		checkAcked(t, openDamaged(t, disk), put("damaged"))
	}
}

// Who makes sure does not count on what a prune is about to take away.
func TestMakeSureBesidePrune(t *testing.T) {
	setLimits(t, never, 1, never)
	disk := vfstest.NewMem()
	s := openDamaged(t, disk)
	commit(t, s, "a", large)
	s.waitSealed()
	first := names(t, disk, "packs", ".pack")[0]
	run := &pruneRun{s: s}
	condemn := func(l journal.Ledger) (journal.Ledger, error) {
		id, ok := layout.ParsePackID(strings.TrimPrefix(first, "packs/"), ".pack")
		if l.Condemned = append(l.Condemned, id); !ok {
			t.Fatal(first)
		}
		return l, nil
	}
	if err := run.record(t.Context(), condemn); err != nil {
		t.Fatal(err)
	}
	commit(t, s, "b", large)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range names(t, disk, "packs", ".pack") {
		if name != first {
			edit(t, disk, name, flip(layout.HeaderSize+pack.HeaderSize+100))
		}
	}
	s = openDamaged(t, disk)
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	w.MakeSure()
	if _, err := put(w, large); err != nil || w.Stats().Objects != 1 {
		t.Errorf("%d objects stored, %v; want 1: only the condemned pack has a whole copy", w.Stats().Objects, err)
	}
	if n := len(s.copies(object.Hash(object.Blob, large))); n < 2 {
		t.Errorf("%d copies are known, want that in the condemned pack among them", n)
	}
}
