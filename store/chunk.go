package store

import (
	"github.com/zeebo/blake3"
)

// Files from minChunked bytes on are cut by content (FastCDC, Xia et al.,
// USENIX ATC 2016, with its normalised chunking), so that an edit in a large
// file costs about one chunk. The cut points are not part of the format: a
// list of any chunks decodes. Changing them costs only sharing.
//
// The sizes are a compromise measured on Linux 6.1, where files above 1 MiB
// are 351 MB: 20.7 MB compressed in chunks of 256 KiB, 15.8 MB in chunks of
// 1 MiB.
const (
	minChunk   = 128 << 10
	avgChunk   = 512 << 10
	maxChunk   = 2 << 20
	minChunked = 1 << 20
)

// Before the average size a cut needs 21 zero bits, after it 17: two bits
// more and less than the 19 of the average, which keeps sizes close to it.
// The top bits of the gear hash depend on the last 64 bytes.
const (
	maskEarly = (1<<21 - 1) << (64 - 21)
	maskLate  = (1<<17 - 1) << (64 - 17)
)

// gear holds 256 random numbers, drawn from BLAKE3 so that anyone can
// compute them.
var gear = func() (g [256]uint64) {
	h := blake3.NewDeriveKey("github.com/boocode/filestore 2026-11-21 gear v1")
	var b [256 * 8]byte
	h.Digest().Read(b[:])
	for i := range g {
		g[i] = le.Uint64(b[i*8:])
	}
	return g
}()

// cutPoint returns the length of the first chunk of b. Unless b is the end
// of the content it must hold maxChunk bytes.
func cutPoint(b []byte) int {
	if len(b) <= minChunk {
		return len(b)
	}
	n := min(len(b), maxChunk)
	var h uint64
	i := minChunk
	for ; i < min(n, avgChunk); i++ {
		h = h<<1 + gear[b[i]]
		if h&maskEarly == 0 {
			return i + 1
		}
	}
	for ; i < n; i++ {
		h = h<<1 + gear[b[i]]
		if h&maskLate == 0 {
			return i + 1
		}
	}
	return n
}
