package store

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A change of 1 MiB in random data never makes chunks of more than 4 MB new.
func TestChangedChunks(t *testing.T) {
	const changed, limit = 1 << 20, 4_000_000
	data := random(64<<20, 1)
	var starts []int
	for at := 0; at < len(data); at += cutPoint(data[at:]) {
		starts = append(starts, at)
	}
	rng := rand.New(rand.NewPCG(1, 0))
	for i := range 40 {
		at := rng.IntN(len(data) - 8<<20)
		part := data[at:][:changed]
		old := slices.Clone(part)
		copy(part, random(changed, byte(2+i)))
		first, _ := slices.BinarySearch(starts, at+1)
		begin := starts[first-1]
		end := begin
		for same := false; !same || end < at+changed; _, same = slices.BinarySearch(starts, end) {
			end += cutPoint(data[end:])
		}
		if end-begin > limit {
			t.Errorf("a change at %d makes %d bytes new, want at most %d", at, end-begin, limit)
		}
		copy(part, old)
	}
}
