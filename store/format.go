package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// The bytes of packs, indexes and journal segments, as docs/format.md §3-§5
// has them. All numbers are little-endian; all checksums are CRC-32C.

var (
	le         = binary.LittleEndian
	be         = binary.BigEndian // where the order of numbers is to be that of bytes
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// fileVersion is the version in the header of each file.
const fileVersion = 1

// FormatVersion is the version of a store as a whole that this package writes,
// in the file FORMAT. Older ones are read and appended to as they are; the first
// prune makes them this one.
// Since 2 the first frame of a segment may tell of a prune.
const FormatVersion = 2

// oldestFormat is the oldest version that is read.
const oldestFormat = 1

// fileHeaderSize is the size of the header that every pack, index and
// journal segment starts with.
const fileHeaderSize = 64

const (
	packMagic    = "boopack\n"
	indexMagic   = "booindx\n"
	journalMagic = "boojrnl\n"
)

// A fileHeader is the first 64 bytes of a file (§3.1).
type fileHeader struct {
	magic string   // 8 bytes: which kind of file
	store [16]byte // the store that the file belongs to
	name  [16]byte // pack: its id; index: its pack's; journal: the sequence number
	a     uint64   // pack and journal: creation time, Unix ns; index: end of the pack's body
	b     uint32   // index and forgotten: number of entries; otherwise 0
}

func (h fileHeader) append(b []byte) []byte {
	start := len(b)
	b = append(b, h.magic...)
	b = le.AppendUint32(b, fileVersion)
	b = append(b, h.store[:]...)
	b = append(b, h.name[:]...)
	b = le.AppendUint64(b, h.a)
	b = le.AppendUint32(b, h.b)
	b = append(b, 0, 0, 0, 0)
	return le.AppendUint32(b, checksum(b[start:]))
}

var errHeader = errors.New("not a file of this store: bad header")

func parseFileHeader(b []byte, magic string, store [16]byte) (fileHeader, error) {
	h := fileHeader{magic: magic}
	if len(b) < fileHeaderSize || string(b[:8]) != magic || le.Uint32(b[60:]) != checksum(b[:60]) {
		return h, errHeader
	}
	if v := le.Uint32(b[8:]); v != fileVersion {
		return h, fmt.Errorf("%w: version %d", ErrFormat, v)
	}
	h.store = [16]byte(b[12:28])
	h.name = [16]byte(b[28:44])
	h.a = le.Uint64(b[44:])
	h.b = le.Uint32(b[52:])
	if h.store != store {
		return h, fmt.Errorf("belongs to store %x", h.store)
	}
	if le.Uint32(b[56:]) != 0 || h.b != 0 && magic != indexMagic && magic != forgottenMagic {
		return h, errHeader
	}
	return h, nil
}

// Record kinds in a pack (§3.2). Those of objects are the numbers of Kind.
const (
	recChunked = 2   // a blob as a list of chunks, each a blob
	recSeal    = 255 // the end of a sealed pack
)

// Codecs (§3.3). 2 (zstd with a dictionary) and 3 (patch against a named
// object) are reserved.
const (
	codecRaw  = 0
	codecZstd = 1
)

const (
	recordMagic      = 0x43455242 // "BREC"
	recordHeaderSize = 56

	// MaxObject bounds an object in one record: a damaged length must not
	// make a reader allocate without limit. Blobs are cut into chunks far
	// below it.
	MaxObject = 1 << 30
)

// A recordHeader precedes each object in a pack (§3.2).
type recordHeader struct {
	kind   uint8
	codec  uint8
	raw    uint32 // length of the object
	stored uint32 // length of the payload that follows
	id     ID
	crc    uint32 // of the payload
}

func (h *recordHeader) append(b []byte) []byte {
	start := len(b)
	b = le.AppendUint32(b, recordMagic)
	b = append(b, h.kind, h.codec, 0, 0)
	b = le.AppendUint32(b, h.raw)
	b = le.AppendUint32(b, h.stored)
	b = append(b, h.id[:]...)
	b = le.AppendUint32(b, h.crc)
	return le.AppendUint32(b, checksum(b[start:]))
}

var errRecord = errors.New("bad record header")

func parseRecordHeader(b []byte) (recordHeader, error) {
	if len(b) < recordHeaderSize || le.Uint32(b) != recordMagic ||
		le.Uint32(b[52:]) != checksum(b[:52]) || le.Uint16(b[6:]) != 0 {
		return recordHeader{}, errRecord
	}
	h := recordHeader{
		kind:   b[4],
		codec:  b[5],
		raw:    le.Uint32(b[8:]),
		stored: le.Uint32(b[12:]),
		id:     ID(b[16:48]),
		crc:    le.Uint32(b[48:]),
	}
	if h.raw > MaxObject || h.stored > h.raw {
		return recordHeader{}, errRecord // raw is chosen where it is smaller
	}
	return h, nil
}

// size is the length of the whole record.
func (h *recordHeader) size() int64 { return recordHeaderSize + int64(h.stored) }

// A seal record's payload is the offset where the pack's body ends: what
// lies between there and the seal was never acknowledged (§3.4).
const sealSize = recordHeaderSize + 8

func appendSeal(b []byte, bodyEnd int64) []byte {
	payload := le.AppendUint64(nil, uint64(bodyEnd))
	h := recordHeader{kind: recSeal, raw: 8, stored: 8, crc: checksum(payload)}
	return append(h.append(b), payload...)
}

// parseSeal returns the body's end if b is a seal record.
func parseSeal(b []byte) (bodyEnd int64, ok bool) {
	h, err := parseRecordHeader(b)
	if err != nil || h.kind != recSeal || len(b) < sealSize || h.stored != 8 {
		return 0, false
	}
	payload := b[recordHeaderSize:sealSize]
	return int64(le.Uint64(payload)), checksum(payload) == h.crc
}

// Journal frames (§5.2).
const (
	frameMagic      = 0x4e524a42 // "BJRN"
	frameHeaderSize = 32
	maxFrameBody    = 16 << 20
)

// A frame is one record of the journal.
type frame struct {
	kind    uint8
	seq     uint64 // number of the record in the store, counting from 1
	durable uint64 // the segment was durable up to here before this was written
	body    []byte
}

func (f *frame) append(b []byte) []byte {
	start := len(b)
	b = le.AppendUint32(b, frameMagic)
	b = append(b, f.kind, 0, 0, 0)
	b = le.AppendUint32(b, uint32(len(f.body)))
	b = le.AppendUint64(b, f.seq)
	b = le.AppendUint64(b, f.durable)
	crc := crc32.Update(checksum(b[start:]), castagnoli, f.body)
	b = le.AppendUint32(b, crc)
	return append(b, f.body...)
}

// parseFrame decodes the frame at the start of b; the body is a part of b.
// ok is false if there is no whole frame.
func parseFrame(b []byte) (f frame, ok bool) {
	if len(b) < frameHeaderSize || le.Uint32(b) != frameMagic {
		return frame{}, false
	}
	n := le.Uint32(b[8:])
	if n > maxFrameBody || int(n) > len(b)-frameHeaderSize || b[5] != 0 || b[6] != 0 || b[7] != 0 {
		return frame{}, false
	}
	body := b[frameHeaderSize : frameHeaderSize+int(n)]
	if le.Uint32(b[28:]) != frameChecksum(b, body) {
		return frame{}, false
	}
	return frame{kind: b[4], seq: le.Uint64(b[12:]), durable: le.Uint64(b[20:]), body: body}, true
}

// frameChecksum returns the checksum of a frame with a header and a body.
func frameChecksum(header, body []byte) uint32 {
	return crc32.Update(checksum(header[:28]), castagnoli, body)
}

func (f *frame) size() int64 { return frameHeaderSize + int64(len(f.body)) }
