package store

import "math/rand/v2"

// For tests outside of the package, which may import those above it.
var (
	SetLimits    = setLimits
	WaitForSeals = waitForSeals
)

// CutMark returns a text behind which a large file is cut.
func CutMark() string {
	r := rand.New(rand.NewPCG(1, 1))
	for {
		b := make([]byte, 64)
		var h uint64
		for i := range b {
			b[i] = byte(r.Uint32())
			h = h<<1 + gear[b[i]]
		}
		if h&maskLate == 0 {
			return string(b)
		}
	}
}
