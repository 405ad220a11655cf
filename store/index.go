package store

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/boocode/filestore/internal/vfs"
)

// A location says where an object's record is.
type location struct {
	pack   *pack
	off    int64
	stored uint32 // length of the payload
}

// Index files (docs/format.md §4): header, 256 buckets by the first byte of
// the ID, entries in order of ID. They are derived from the packs.
const (
	bucketCount = 256
	bucketSize  = 8 // end of the bucket as a number of entries; checksum of its entries
	bucketsSize = bucketCount*bucketSize + 4
	// An entry has the first 24 bytes of the ID, which nobody can make two
	// objects share, the offset and the length of the payload. Offsets fit
	// in 32 bits: a pack is sealed long before.
	indexEntrySize = 32
	prefixSize     = 24
)

func packName(id [16]byte) string  { return "packs/" + hex.EncodeToString(id[:]) + ".pack" }
func indexName(id [16]byte) string { return "packs/" + hex.EncodeToString(id[:]) + ".idx" }

// An indexEntry is a record's place in its pack.
type indexEntry struct {
	id ID
	location
}

// encodeIndex returns the bytes of an index file. It sorts the entries; of
// records with one ID it keeps the first.
func encodeIndex(store, pack [16]byte, bodyEnd int64, entries []indexEntry) []byte {
	slices.SortStableFunc(entries, func(a, b indexEntry) int { return bytes.Compare(a.id[:], b.id[:]) })
	entries = slices.CompactFunc(entries, func(a, b indexEntry) bool { return a.id == b.id })

	var body []byte
	buckets := make([]byte, 0, bucketsSize)
	i := 0
	for first := range bucketCount {
		start := len(body)
		for ; i < len(entries) && int(entries[i].id[0]) == first; i++ {
			e := entries[i]
			body = append(body, e.id[:prefixSize]...)
			body = le.AppendUint32(body, uint32(e.off))
			body = le.AppendUint32(body, e.stored)
		}
		buckets = le.AppendUint32(buckets, uint32(i))
		buckets = le.AppendUint32(buckets, checksum(body[start:]))
	}
	buckets = le.AppendUint32(buckets, checksum(buckets))
	h := fileHeader{magic: indexMagic, store: store, name: pack, a: uint64(bodyEnd), b: uint32(len(entries))}
	return append(append(h.append(nil), buckets...), body...)
}

// An indexFile is an open index. It reads the buckets that are asked for,
// and keeps the whole file in memory once that is cheaper.
type indexFile struct {
	pack    *pack
	f       vfs.File
	bodyEnd int64
	buckets [bucketsSize]byte
	lookups atomic.Int64
	loading sync.Mutex
	loaded  atomic.Pointer[loadedIndex] // nil until it is wanted often
}

// A loadedIndex has all entries of an index.
type loadedIndex struct {
	entries []byte
	damaged [bucketCount]bool
}

// Reading a bucket costs a microsecond and a half or so, reading all of them
// about a hundred times that.
const lookupsBeforeLoad = 128

var errIndex = errors.New("bad index")

// openIndex opens the index of a pack and checks its header and buckets, not
// its entries.
func openIndex(fsys vfs.FS, store [16]byte, p *pack) (*indexFile, error) {
	f, err := fsys.OpenFile(indexName(p.id), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	x := &indexFile{pack: p, f: f}
	if err := x.readHeader(store); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", indexName(p.id), err)
	}
	return x, nil
}

func (x *indexFile) readHeader(store [16]byte) error {
	var b [fileHeaderSize]byte
	if _, err := x.f.ReadAt(b[:], 0); err != nil && err != io.EOF {
		return err
	}
	h, err := parseFileHeader(b[:], indexMagic, store)
	if err != nil {
		return err
	}
	if _, err := x.f.ReadAt(x.buckets[:], fileHeaderSize); err != nil {
		return err
	}
	st, err := x.f.Stat()
	if err != nil {
		return err
	}
	table := x.buckets[:bucketCount*bucketSize]
	ascending := true
	var last uint32
	for i := range bucketCount {
		end := le.Uint32(table[i*bucketSize:])
		ascending = ascending && end >= last
		last = end
	}
	if h.name != x.pack.id || !ascending || last != h.b || checksum(table) != le.Uint32(x.buckets[len(table):]) ||
		st.Size != fileHeaderSize+bucketsSize+int64(h.b)*indexEntrySize {
		return errIndex
	}
	x.bodyEnd = int64(h.a)
	return nil
}

// bucket returns the range of entries that begin with a byte, and their
// checksum.
func (x *indexFile) bucket(first byte) (start, end int, crc uint32) {
	at := int(first) * bucketSize
	if first > 0 {
		start = int(le.Uint32(x.buckets[at-bucketSize:]))
	}
	return start, int(le.Uint32(x.buckets[at:])), le.Uint32(x.buckets[at+4:])
}

// find looks an object up. An error means that the index is damaged.
func (x *indexFile) find(id ID) (loc location, ok bool, err error) {
	start, end, _ := x.bucket(id[0])
	if start == end {
		return location{}, false, nil
	}
	b, err := x.read(id[0])
	if err != nil {
		return location{}, false, err
	}
	// The first eight bytes tell nearly all apart.
	key := binary.BigEndian.Uint64(id[:])
	i := sort.Search(len(b)/indexEntrySize, func(i int) bool { return binary.BigEndian.Uint64(b[i*indexEntrySize:]) >= key })
	for b = b[i*indexEntrySize:]; len(b) > 0 && binary.BigEndian.Uint64(b) == key; b = b[indexEntrySize:] {
		if bytes.Equal(b[:prefixSize], id[:prefixSize]) {
			return x.location(b), true, nil
		}
	}
	return location{}, false, nil
}

func (x *indexFile) location(b []byte) location {
	return location{x.pack, int64(le.Uint32(b[prefixSize:])), le.Uint32(b[prefixSize+4:])}
}

// read returns the entries of one bucket, checked.
func (x *indexFile) read(first byte) ([]byte, error) {
	start, end, crc := x.bucket(first)
	all := x.loaded.Load()
	if all == nil && x.lookups.Add(1) > lookupsBeforeLoad {
		var err error
		if all, err = x.load(); err != nil {
			return nil, err
		}
	}
	if all != nil {
		if all.damaged[first] {
			return nil, fmt.Errorf("%s: %w", indexName(x.pack.id), errIndex)
		}
		return all.entries[start*indexEntrySize : end*indexEntrySize], nil
	}
	b := make([]byte, (end-start)*indexEntrySize)
	if _, err := x.f.ReadAt(b, fileHeaderSize+bucketsSize+int64(start)*indexEntrySize); err != nil {
		return nil, err
	}
	if checksum(b) != crc {
		return nil, fmt.Errorf("%s: %w", indexName(x.pack.id), errIndex)
	}
	return b, nil
}

// load reads all entries and checks each bucket once: doing it in each lookup
// was two thirds of what one costs in a store of 200 packs.
func (x *indexFile) load() (*loadedIndex, error) {
	x.loading.Lock()
	defer x.loading.Unlock()
	if l := x.loaded.Load(); l != nil {
		return l, nil
	}
	l := &loadedIndex{entries: make([]byte, x.count()*indexEntrySize)}
	if _, err := x.f.ReadAt(l.entries, fileHeaderSize+bucketsSize); err != nil {
		return nil, err
	}
	for first := range l.damaged {
		start, end, crc := x.bucket(byte(first))
		l.damaged[first] = checksum(l.entries[start*indexEntrySize:end*indexEntrySize]) != crc
	}
	x.loaded.Store(l)
	return l, nil
}

func (x *indexFile) count() int {
	_, end, _ := x.bucket(255)
	return end
}

// all calls fn for each entry, in order of ID.
func (x *indexFile) all(fn func(prefix [prefixSize]byte, loc location)) error {
	for first := range bucketCount {
		b, err := x.read(byte(first))
		if err != nil {
			return err
		}
		for ; len(b) > 0; b = b[indexEntrySize:] {
			fn([prefixSize]byte(b), x.location(b))
		}
	}
	return nil
}
