package journal

import (
	"bytes"
	"hash/crc32"
	"slices"

	"github.com/boocode/filestore/internal/cas/layout"
)

// Journal frames (§5.2).
const (
	FrameMagic      = 0x4e524a42 // "BJRN"
	FrameHeaderSize = 32
	MaxFrameBody    = 16 << 20
)

// A Frame is one record of the journal.
type Frame struct {
	Kind    uint8
	Seq     uint64 // number of the record in the store, counting from 1
	Durable uint64 // the segment was durable up to here before this was written
	Body    []byte
}

func (f *Frame) Append(b []byte) []byte {
	start := len(b)
	b = layout.Le.AppendUint32(b, FrameMagic)
	b = append(b, f.Kind, 0, 0, 0)
	b = layout.Le.AppendUint32(b, uint32(len(f.Body)))
	b = layout.Le.AppendUint64(b, f.Seq)
	b = layout.Le.AppendUint64(b, f.Durable)
	crc := crc32.Update(layout.Checksum(b[start:]), layout.Castagnoli, f.Body)
	b = layout.Le.AppendUint32(b, crc)
	return append(b, f.Body...)
}

// ParseFrame decodes the frame at the start of b; the body is a part of b.
// ok is false if there is no whole frame.
func ParseFrame(b []byte) (f Frame, ok bool) {
	if len(b) < FrameHeaderSize || layout.Le.Uint32(b) != FrameMagic {
		return Frame{}, false
	}
	n := layout.Le.Uint32(b[8:])
	if n > MaxFrameBody || int(n) > len(b)-FrameHeaderSize || b[5] != 0 || b[6] != 0 || b[7] != 0 {
		return Frame{}, false
	}
	body := b[FrameHeaderSize : FrameHeaderSize+int(n)]
	if layout.Le.Uint32(b[28:]) != frameChecksum(b, body) {
		return Frame{}, false
	}
	return Frame{Kind: b[4], Seq: layout.Le.Uint64(b[12:]), Durable: layout.Le.Uint64(b[20:]), Body: body}, true
}

// frameChecksum returns the checksum of a frame with a header and a body.
func frameChecksum(header, body []byte) uint32 {
	return crc32.Update(layout.Checksum(header[:28]), layout.Castagnoli, body)
}

func (f *Frame) Size() int64 { return FrameHeaderSize + int64(len(f.Body)) }

// EachFrame calls fn for each frame in b from pos on, with its offset, and, if it
// is one only with one byte changed, with where that is and what it was; else -1.
func EachFrame(b []byte, pos int, fn func(f Frame, off, at int, was byte)) {
	for pos+FrameHeaderSize <= len(b) {
		f, ok := ParseFrame(b[pos:])
		at, was := -1, byte(0)
		if !ok {
			if f, at, was, ok = mendFrame(b[pos:]); ok {
				at += pos
			}
		}
		if !ok {
			next := bytes.Index(b[pos+1:], layout.Le.AppendUint32(nil, FrameMagic))
			if next < 0 {
				return
			}
			pos += 1 + next
			continue
		}
		fn(f, pos, at, was)
		pos += int(f.Size())
	}
}

// mendFrame returns the frame at the start of b that is one if the byte at an
// offset is changed to what it was. b is as it was afterwards; the body is a copy.
func mendFrame(b []byte) (f Frame, at int, was byte, ok bool) {
	if len(b) < FrameHeaderSize {
		return f, 0, 0, false
	}
	try := func(at int, was byte) bool {
		is := b[at]
		b[at] = was
		if f, ok = ParseFrame(b); ok {
			f.Body = slices.Clone(f.Body)
		}
		b[at] = is
		return ok
	}
	// The fields in the header, one after the other. A length that is wrong
	// may be any: it is the only one that has many to be tried.
	if layout.Le.Uint32(b) != FrameMagic {
		good := layout.Le.AppendUint32(nil, FrameMagic)
		for at := range good {
			if b[at] != good[at] {
				return f, at, good[at], try(at, good[at])
			}
		}
	}
	for at := 4; at < FrameHeaderSize; at++ {
		for n := range 256 {
			if b[at] == byte(n) {
				continue
			}
			if try(at, byte(n)) {
				return f, at, byte(n), true
			}
			if (at < 8 || at > 11) && int(layout.Le.Uint32(b[8:])) > 1<<16 {
				break // it would take seconds
			}
		}
	}
	n := int(layout.Le.Uint32(b[8:]))
	if n > MaxFrameBody || n > len(b)-FrameHeaderSize {
		return f, 0, 0, false
	}
	// A checksum is linear: what a change does to it depends on the change and on
	// how far from the end it is.
	body := b[FrameHeaderSize : FrameHeaderSize+n]
	diff := layout.Le.Uint32(b[28:]) ^ frameChecksum(b, body)
	var effect [256]uint32
	for e := range effect {
		effect[e] = layout.Castagnoli[e]
	}
	for at := n - 1; at >= 0; at-- {
		for e := 1; e < 256; e++ {
			if effect[e] == diff && try(FrameHeaderSize+at, body[at]^byte(e)) {
				return f, FrameHeaderSize + at, body[at] ^ byte(e), true
			}
			effect[e] = layout.Castagnoli[byte(effect[e])] ^ effect[e]>>8
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
	if ok && int(f.Size()) < len(b) { // or else what follows was written behind it
		_, ok = ParseFrame(b[f.Size():])
	}
	if !ok || b[at] == 0 && (at == 0 || len(bytes.Trim(b[at:f.Size()], "\x00")) == 0) {
		return 0, false
	}
	return f.Seq, true
}
