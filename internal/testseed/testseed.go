// Package testseed gives the random tests their seeds: the same one in each run,
// so that a failure is of what has changed and not of chance. -seed 0 draws
// another one each time; the long targets of the Makefile do so. It also says which tests the race
// detector need not see.
package testseed

import (
	"flag"
	"hash/fnv"
	"math/rand/v2"
	"testing"
)

var given = flag.Uint64("seed", 1, "of the random tests; 0: another each time")

// Of returns the seed of a test, which logs it.
func Of(t testing.TB) uint64 {
	t.Helper()
	n := *given
	if n == 0 {
		n = rand.Uint64()
	}
	t.Logf("-seed %d", n)
	return n
}

// Rand returns random numbers for a test, other ones for each name of a test.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	name := fnv.New64a()
	name.Write([]byte(t.Name()))
	return rand.New(rand.NewPCG(Of(t), name.Sum64()))
}

// Sequential skips a test of one goroutine where tests run under the race detector (-race -short), which
// has nothing to say of it and makes it ten times slower.
func Sequential(t testing.TB) {
	t.Helper()
	if raceDetector && testing.Short() {
		t.Skip("one goroutine, of which the race detector has nothing to say")
	}
}
