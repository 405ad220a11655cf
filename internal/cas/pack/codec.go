package pack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/store"
)

// Two encoders and a decoder serve all goroutines through EncodeAll and
// DecodeAll. The window need not exceed the largest chunk. The frame's own
// checksum is off: the record has a CRC of the stored bytes, and the ID
// vouches for the plain ones. ADR 4 has what other levels would cost.
//
// Trees are hashes for the most part, which entropy coding cannot shorten. The
// 993 KB of trees of the Go source tree become 794 KB without it, in a quarter of
// the time, and 785 KB with it.
var (
	treeEncoder = sync.OnceValue(func() *zstd.Encoder {
		return newEncoder(zstd.SpeedFastest, zstd.WithNoEntropyCompression(true))
	})
	blobEncoder = sync.OnceValue(func() *zstd.Encoder { return newEncoder(zstd.SpeedDefault) })
)

// An Encoder compresses. It may be used by several goroutines.
type Encoder interface {
	EncodeAll(src, dst []byte) []byte // appends to dst
}

// EncoderOf returns what compresses objects of a kind while somebody waits.
func EncoderOf(kind uint8) Encoder {
	if kind == uint8(object.Tree) {
		return treeEncoder()
	}
	return blobEncoder()
}

// IsBest says that a compaction compresses as well as it can.
//
// A variable, so that tests need no 40 MiB each time.
var IsBest = true

// NewBestEncoder returns what compresses while nobody waits, by so many goroutines at once. It
// takes some 40 MiB for each, so it is not kept.
func NewBestEncoder(workers int) Encoder {
	level := zstd.SpeedBestCompression
	if !IsBest {
		level = zstd.SpeedDefault
	}
	return newEncoder(level, zstd.WithEncoderConcurrency(workers))
}

func newEncoder(level zstd.EncoderLevel, more ...zstd.EOption) *zstd.Encoder {
	e, err := zstd.NewWriter(nil, append([]zstd.EOption{
		zstd.WithEncoderLevel(level),
		zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)),
		zstd.WithWindowSize(MaxChunk),
		zstd.WithLowerEncoderMem(true), // room for a chunk, not for two: 1 MiB less for each goroutine
		zstd.WithEncoderCRC(false)}, more...)...)
	if err != nil {
		panic("store: internal error: zstd encoder: " + err.Error())
	}
	return e
}

var Decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(0),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(MaxWhole),
		zstd.WithDecoderMaxWindow(maxWindow),
		// The buffer handed in has the recorded length and decodeSlack: a frame
		// that unpacks to more is an error, not an allocation.
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic("store: internal error: zstd decoder: " + err.Error())
	}
	return d
})

// maxWindow is the window that a frame may have. Ours have that of a chunk.
const maxWindow = 8 << 20

// decodeSlack is how much longer a buffer is than what is decoded into it: so the decoder can copy
// 16 bytes at a time up to the end. 1.2 GiB of Linux in groups of 256 KiB take 0.63 s instead of 0.76,
// since half of each is its last block.
const decodeSlack = 16

// minCompress is the size below which an object is stored raw: a zstd frame
// costs 9 bytes or more before it saves any.
const minCompress = 100

// Compress returns the stored form of an object and its codec. The result is src
// itself or lies in scratch, which may grow.
func Compress(kind uint8, src []byte, scratch *[]byte) (codec uint8, stored []byte) {
	if len(src) < minCompress {
		return CodecRaw, src
	}
	z := EncoderOf(kind).EncodeAll(src, (*scratch)[:0])
	*scratch = z
	if len(z) > len(src)-len(src)/20 { // saves less than 5 %: not worth decoding
		return CodecRaw, src
	}
	return CodecZstd, z
}

var errBomb = errors.New("payload does not decode to its recorded length")

// Decompress returns the object that a payload holds. Its length is bounded
// by h.raw whatever the payload says. For raw objects the result is payload
// itself. Any other lies in into, which may grow; nil is for once.
func Decompress(h *Header, payload []byte, into *[]byte) ([]byte, error) {
	switch h.Codec {
	case CodecRaw:
		if h.Raw != h.Stored {
			return nil, errBomb
		}
		return payload, nil
	case CodecZstd:
		n := int(h.Raw) + decodeSlack
		if into == nil {
			into = new([]byte)
		}
		if cap(*into) < n {
			*into = make([]byte, 0, n)
		}
		out, err := Decoder().DecodeAll(payload, (*into)[:0:n])
		if err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
		if len(out) != int(h.Raw) {
			return nil, errBomb
		}
		return out, nil
	}
	return nil, fmt.Errorf("%w: codec %d", store.ErrFormat, h.Codec)
}

// startDecoders decode the beginnings of groups: a block of 128 KiB after the other.
var startDecoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1), // without goroutines, of which a pool could not get rid
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow)) // for which it makes room, whatever is in the frame
	if err != nil {
		panic("store: internal error: zstd decoder: " + err.Error())
	}
	return d
}}

// decompressStart returns the first bytes of what a payload decodes to.
func decompressStart(payload []byte, n int) ([]byte, error) {
	d := startDecoders.Get().(*zstd.Decoder)
	defer startDecoders.Put(d)
	out := make([]byte, n)
	err := d.Reset(bytes.NewReader(payload))
	if err == nil {
		_, err = io.ReadFull(d, out)
	}
	if rerr := d.Reset(nil); err == nil { // it keeps nothing of the payload
		err = rerr
	}
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return out, nil
}

// VerifyCompressed checks that stored decodes to src again. Compressor bugs
// have made unreadable stores elsewhere (restic#4523); here such an object
// never gets written.
func VerifyCompressed(codec uint8, stored, src []byte, scratch *[]byte) error {
	if codec == CodecRaw {
		return nil
	}
	n := len(src) + decodeSlack
	if cap(*scratch) < n {
		*scratch = make([]byte, 0, n)
	}
	out, err := Decoder().DecodeAll(stored, (*scratch)[:0:n])
	if err != nil || !bytes.Equal(out, src) {
		return fmt.Errorf("compressed object does not decode to itself: %w", errors.Join(err, store.ErrCorrupt))
	}
	return nil
}

// BlobHashers keep the hashers of contents that are read in pieces, since one is
// some 10 kB.
var BlobHashers = sync.Pool{New: func() any { return blake3.New() }}
