package pack

import (
	"errors"
	"fmt"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/store"
)

// Record kinds in a pack (§3.2). Those of objects are the numbers of Kind.
const (
	RecChunked = 2   // a blob as a list of chunks, each a blob
	RecGroup   = 5   // many small objects: see group.go
	RecSeal    = 255 // the end of a sealed pack
)

// Codecs (§3.3). 2 (zstd with a dictionary) and 3 (patch against a named
// object) are reserved.
const (
	CodecRaw  = 0
	CodecZstd = 1
)

const (
	RecordMagic = 0x43455242 // "BREC"
	HeaderSize  = 56

	// MaxObject bounds what is in one record. Blobs are cut into chunks far below it.
	MaxObject = 128 << 20

	// MaxWhole bounds it for readers, and what they take whole of an object in chunks. Earlier
	// versions did not cut what an edit or a merge had made, files of up to 100 MiB, or more
	// where a user had raised that limit. Above MaxObject the record itself must be 1/maxRatio
	// of it, so that one of 12 kB that says 1 GiB costs no memory.
	MaxWhole = 1 << 30
	maxRatio = 64
)

// A Header precedes each object in a pack (§3.2).
type Header struct {
	Kind   uint8
	Codec  uint8
	Raw    uint32   // length of the object
	Stored uint32   // length of the payload that follows
	ID     store.ID // of a group: how many members it has, and the checksum of their table
	Crc    uint32   // of the payload
}

func (h *Header) Append(b []byte) []byte {
	start := len(b)
	b = layout.Le.AppendUint32(b, RecordMagic)
	b = append(b, h.Kind, h.Codec, 0, 0)
	b = layout.Le.AppendUint32(b, h.Raw)
	b = layout.Le.AppendUint32(b, h.Stored)
	b = append(b, h.ID[:]...)
	b = layout.Le.AppendUint32(b, h.Crc)
	return layout.Le.AppendUint32(b, layout.Checksum(b[start:]))
}

var (
	ErrRecord  = errors.New("bad record header")
	errTooLong = fmt.Errorf("%w: it says that more is in it than in any record", ErrRecord)
)

func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize || layout.Le.Uint32(b) != RecordMagic ||
		layout.Le.Uint32(b[52:]) != layout.Checksum(b[:52]) || layout.Le.Uint16(b[6:]) != 0 {
		return Header{}, ErrRecord
	}
	h := Header{
		Kind:   b[4],
		Codec:  b[5],
		Raw:    layout.Le.Uint32(b[8:]),
		Stored: layout.Le.Uint32(b[12:]),
		ID:     store.ID(b[16:48]),
		Crc:    layout.Le.Uint32(b[48:]),
	}
	if h.Kind == RecGroup && !h.isGroup() || h.Kind != RecGroup && h.Stored > h.Raw {
		return Header{}, ErrRecord // raw is chosen where it is smaller
	}
	if h.Raw > MaxWhole || h.Raw > MaxObject && uint64(h.Raw) > maxRatio*uint64(h.Stored) {
		return Header{}, errTooLong
	}
	return h, nil
}

// Size is the length of the whole record.
func (h *Header) Size() int64 { return HeaderSize + int64(h.Stored) }

// A seal record's payload is the offset where the pack's body ends: what
// lies between there and the seal was never acknowledged (§3.4).
const SealSize = HeaderSize + 8

func AppendSeal(b []byte, bodyEnd int64) []byte {
	payload := layout.Le.AppendUint64(nil, uint64(bodyEnd))
	h := Header{Kind: RecSeal, Raw: 8, Stored: 8, Crc: layout.Checksum(payload)}
	return append(h.Append(b), payload...)
}

// ParseSeal returns the body's end if b is a seal record.
func ParseSeal(b []byte) (bodyEnd int64, ok bool) {
	h, err := ParseHeader(b)
	if err != nil || h.Kind != RecSeal || len(b) < SealSize || h.Stored != 8 {
		return 0, false
	}
	payload := b[HeaderSize:SealSize]
	return int64(layout.Le.Uint64(payload)), layout.Checksum(payload) == h.Crc
}
