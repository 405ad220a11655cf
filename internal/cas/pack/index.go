package pack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// A Location says where an object's record is.
type Location struct {
	Pack   *Pack
	Off    int64
	Stored uint32 // length of the payload
	Member int    // which of a group it is, from 1 on; 0: the record is the object
}

// Index files (docs/reference/format.md §4): header, 256 buckets by the first byte of
// the ID, entries in order of ID. They are derived from the packs.
const (
	BucketCount = 256
	BucketSize  = 8 // end of the bucket as a number of entries; checksum of its entries
	BucketsSize = BucketCount*BucketSize + 4
	// An entry has the first 24 bytes of the ID, which nobody can make two
	// objects share, the offset and the length of the payload. Offsets fit
	// in 32 bits: a pack is sealed long before.
	EntrySize  = 32
	PrefixSize = 24

	// Of a member of a group the length has its number, and this bit.
	inGroup     = 1 << 31
	memberShift = 21 // a group and its table are shorter than that
)

// An Entry is a record's place in its pack.
type Entry struct {
	ID store.ID
	Location
}

// EncodeIndex returns the bytes of an index file. It sorts the entries, which are in
// the order of the pack; of records with one ID it keeps the last: who stored it
// again did not count on those before.
func EncodeIndex(store, pack [16]byte, bodyEnd int64, entries []Entry) []byte {
	slices.SortStableFunc(entries, func(a, b Entry) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	last := entries[:0]
	for i, e := range entries {
		if i+1 == len(entries) || entries[i+1].ID != e.ID {
			last = append(last, e)
		}
	}
	entries = last

	var body []byte
	buckets := make([]byte, 0, BucketsSize)
	i := 0
	for first := range BucketCount {
		start := len(body)
		for ; i < len(entries) && int(entries[i].ID[0]) == first; i++ {
			e := entries[i]
			body = append(body, e.ID[:PrefixSize]...)
			body = layout.Le.AppendUint32(body, uint32(e.Off))
			stored := e.Stored
			if e.Member > 0 {
				stored |= inGroup | uint32(e.Member)<<memberShift
			}
			body = layout.Le.AppendUint32(body, stored)
		}
		buckets = layout.Le.AppendUint32(buckets, uint32(i))
		buckets = layout.Le.AppendUint32(buckets, layout.Checksum(body[start:]))
	}
	buckets = layout.Le.AppendUint32(buckets, layout.Checksum(buckets))
	h := layout.Header{Magic: layout.IndexMagic, Store: store, Name: pack, A: uint64(bodyEnd), B: uint32(len(entries))}
	return append(append(h.Append(nil), buckets...), body...)
}

// An Index is an open index. It reads the buckets that are asked for,
// and keeps the whole file in memory once that is cheaper.
type Index struct {
	Pack    *Pack
	F       vfs.File
	BodyEnd int64
	buckets [BucketsSize]byte
	lookups atomic.Int64
	loading sync.Mutex
	loaded  atomic.Pointer[loadedIndex] // nil until it is wanted often
}

// A loadedIndex has all entries of an index.
type loadedIndex struct {
	entries []byte
	damaged [BucketCount]bool
}

// Reading a bucket costs a microsecond and a half or so, reading all of them
// about a hundred times that.
const LookupsBeforeLoad = 128

var ErrIndex = errors.New("bad index")

// OpenIndex opens the index of a pack and checks its header and buckets, not
// its entries.
func OpenIndex(fsys vfs.FS, store [16]byte, p *Pack) (*Index, error) {
	f, err := fsys.OpenFile(layout.IndexName(p.ID), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	x := &Index{Pack: p, F: f}
	if err := x.readHeader(store); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", layout.IndexName(p.ID), err)
	}
	return x, nil
}

// IndexedEnd returns up to where the index of a pack speaks for it: 0 if the index cannot be used.
func IndexedEnd(fsys vfs.FS, store, id [16]byte) (int64, error) {
	f, err := fsys.OpenFile(layout.IndexName(id), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // taken away since it was listed
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var b [layout.HeaderSize]byte
	if _, err := f.ReadAt(b[:], 0); err != nil && err != io.EOF {
		return 0, err
	}
	h, err := layout.ParseHeader(b[:], layout.IndexMagic, store)
	if err != nil || h.Name != id {
		return 0, nil // whoever looks something up makes the index again
	}
	return int64(h.A), nil
}

func (x *Index) readHeader(store [16]byte) error {
	var b [layout.HeaderSize]byte
	if _, err := x.F.ReadAt(b[:], 0); err != nil && err != io.EOF {
		return err
	}
	h, err := layout.ParseHeader(b[:], layout.IndexMagic, store)
	if err != nil {
		return err
	}
	if _, err := x.F.ReadAt(x.buckets[:], layout.HeaderSize); err != nil {
		return err
	}
	st, err := x.F.Stat()
	if err != nil {
		return err
	}
	table := x.buckets[:BucketCount*BucketSize]
	ascending := true
	var last uint32
	for i := range BucketCount {
		end := layout.Le.Uint32(table[i*BucketSize:])
		ascending = ascending && end >= last
		last = end
	}
	if h.Name != x.Pack.ID || !ascending || last != h.B ||
		layout.Checksum(table) != layout.Le.Uint32(x.buckets[len(table):]) ||
		st.Size != layout.HeaderSize+BucketsSize+int64(h.B)*EntrySize {
		return ErrIndex
	}
	x.BodyEnd = int64(h.A)
	return nil
}

// bucket returns the range of entries that begin with a byte, and their
// checksum.
func (x *Index) bucket(first byte) (start, end int, crc uint32) {
	at := int(first) * BucketSize
	if first > 0 {
		start = int(layout.Le.Uint32(x.buckets[at-BucketSize:]))
	}
	return start, int(layout.Le.Uint32(x.buckets[at:])), layout.Le.Uint32(x.buckets[at+4:])
}

// Find looks an object up. An error means that the index is damaged.
func (x *Index) Find(id store.ID) (loc Location, ok bool, err error) {
	start, end, _ := x.bucket(id[0])
	if start == end {
		return Location{}, false, nil
	}
	b, err := x.Read(id[0])
	if err != nil {
		return Location{}, false, err
	}
	// The first eight bytes tell nearly all apart.
	key := binary.BigEndian.Uint64(id[:])
	i := sort.Search(len(b)/EntrySize, func(i int) bool { return binary.BigEndian.Uint64(b[i*EntrySize:]) >= key })
	for b = b[i*EntrySize:]; len(b) > 0 && binary.BigEndian.Uint64(b) == key; b = b[EntrySize:] {
		if bytes.Equal(b[:PrefixSize], id[:PrefixSize]) {
			return x.Location(b), true, nil
		}
	}
	return Location{}, false, nil
}

func (x *Index) Location(b []byte) Location {
	loc := Location{Pack: x.Pack, Off: int64(layout.Le.Uint32(b[PrefixSize:]))}
	loc.Stored = layout.Le.Uint32(b[PrefixSize+4:])
	if loc.Stored&inGroup != 0 {
		loc.Member = int(loc.Stored &^ inGroup >> memberShift)
		loc.Stored &= 1<<memberShift - 1
	}
	return loc
}

// Read returns the entries of one bucket, checked.
func (x *Index) Read(first byte) ([]byte, error) {
	start, end, crc := x.bucket(first)
	all := x.loaded.Load()
	if all == nil && x.lookups.Add(1) > LookupsBeforeLoad {
		var err error
		if all, err = x.load(); err != nil {
			return nil, err
		}
	}
	if all != nil {
		if all.damaged[first] {
			return nil, fmt.Errorf("%s: %w", layout.IndexName(x.Pack.ID), ErrIndex)
		}
		return all.entries[start*EntrySize : end*EntrySize], nil
	}
	b := make([]byte, (end-start)*EntrySize)
	if _, err := x.F.ReadAt(b, layout.HeaderSize+BucketsSize+int64(start)*EntrySize); err != nil {
		return nil, err
	}
	if layout.Checksum(b) != crc {
		return nil, fmt.Errorf("%s: %w", layout.IndexName(x.Pack.ID), ErrIndex)
	}
	return b, nil
}

// load reads all entries and checks each bucket once: doing it in each lookup
// was two thirds of what one costs in a store of 200 packs.
func (x *Index) load() (*loadedIndex, error) {
	x.loading.Lock()
	defer x.loading.Unlock()
	if l := x.loaded.Load(); l != nil {
		return l, nil
	}
	l := &loadedIndex{entries: make([]byte, x.Count()*EntrySize)}
	if _, err := x.F.ReadAt(l.entries, layout.HeaderSize+BucketsSize); err != nil {
		return nil, err
	}
	for first := range l.damaged {
		start, end, crc := x.bucket(byte(first))
		l.damaged[first] = layout.Checksum(l.entries[start*EntrySize:end*EntrySize]) != crc
	}
	x.loaded.Store(l)
	return l, nil
}

func (x *Index) Count() int {
	_, end, _ := x.bucket(255)
	return end
}

// All calls fn for each entry, in order of ID.
func (x *Index) All(fn func(prefix [PrefixSize]byte, loc Location)) error {
	for first := range BucketCount {
		b, err := x.Read(byte(first))
		if err != nil {
			return err
		}
		for ; len(b) > 0; b = b[EntrySize:] {
			fn([PrefixSize]byte(b), x.Location(b))
		}
	}
	return nil
}

// Size is the length of the whole record, with all members of a group.
func (l Location) Size() int64 { return HeaderSize + int64(l.Stored) }
