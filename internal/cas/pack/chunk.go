package pack

import (
	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/cas/layout"
)

// Files from minChunked bytes on are cut by content (FastCDC, Xia et al.,
// USENIX ATC 2016, with its normalised chunking), so that an edit in a large
// file costs about one chunk. The cut points are not part of the format: a
// list of any chunks decodes. Changing them costs only sharing.
//
// The sizes are a compromise. On Linux 6.1 files above 1 MiB are 351 MB: 20.7 MB
// compressed in chunks of 256 KiB, 15.8 MB in chunks of 1 MiB. On the other
// hand a change of 1 MiB should not cost more than 4 MB anywhere.
const (
	MinChunk = 64 << 10
	avgChunk = 384 << 10
	MaxChunk = 1 << 20
)

// MinChunked is the size from which a content is stored in chunks. A variable, so that
// tests make it less.
var MinChunked = 1 << 20

// Before avgChunk a cut needs 19 zero bits, after it 18. The top bits of the
// gear hash depend on the last 64 bytes. The further the two are apart the closer
// sizes are to the average, but the later are cuts the same again behind a
// change: with 21 and 17 bits (and 512 KiB) one of 1 MiB in random data cost 2.4 MB
// on average and 5.8 MB in one case of a hundred, and costs 1.8 and 3.1 MB now.
const (
	maskEarly = (1<<19 - 1) << (64 - 19)
	MaskLate  = (1<<18 - 1) << (64 - 18)
)

// Gear holds 256 random numbers, drawn from BLAKE3 so that anyone can
// compute them.
var Gear = func() (g [256]uint64) {
	h := blake3.NewDeriveKey("github.com/boocode/filestore 2026-11-21 gear v1")
	var b [256 * 8]byte
	h.Digest().Read(b[:])
	for i := range g {
		g[i] = layout.Le.Uint64(b[i*8:])
	}
	return g
}()

// CutPoint returns the length of the first chunk of b. Unless b is the end
// of the content it must hold maxChunk bytes.
func CutPoint(b []byte) int {
	if len(b) <= MinChunk {
		return len(b)
	}
	n := min(len(b), MaxChunk)
	mid := min(n, avgChunk)
	h, at := roll(0, b[MinChunk:mid], maskEarly)
	if at >= 0 {
		return MinChunk + at + 1
	}
	if _, at = roll(h, b[mid:n], MaskLate); at >= 0 {
		return mid + at + 1
	}
	return n
}

// roll takes bytes into a gear hash, to the first behind which it has none of the bits of a
// mask. It returns the hash, and where that byte is, or -1.
func roll(h uint64, b []byte, mask uint64) (hash uint64, at int) {
	gear := &Gear // which the loop need not look for each time: twice as fast
	for i, c := range b {
		h = h<<1 + gear[c]
		if h&mask == 0 {
			return h, i
		}
	}
	return h, -1
}
