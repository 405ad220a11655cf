package journal

import (
	"hash/crc32"

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
