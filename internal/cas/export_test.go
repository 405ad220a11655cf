package cas

import (
	"math/rand/v2"
	"testing"

	"github.com/boocode/filestore/internal/cas/pack"
)

// For tests outside of the package, which may import those above it.
var (
	SetLimits    = setLimits
	WaitForSeals = (*Store).waitSealed
)

// CutSmall has files be cut in this test that are an eighth of the size.
func CutSmall(t *testing.T) {
	was := pack.MinChunked
	pack.MinChunked /= 8
	t.Cleanup(func() { pack.MinChunked = was })
}

// CutMark returns a text behind which a large file is cut.
func CutMark() string {
	r := rand.New(rand.NewPCG(1, 1))
	for {
		b := make([]byte, 64)
		var h uint64
		for i := range b {
			b[i] = byte(r.Uint32())
			h = h<<1 + pack.Gear[b[i]]
		}
		if h&pack.MaskLate == 0 {
			return string(b)
		}
	}
}

// CompactFew has little be worth a compaction.
func CompactFew(t *testing.T) {
	before := minLoose
	minLoose = 1
	t.Cleanup(func() { minLoose = before })
}
