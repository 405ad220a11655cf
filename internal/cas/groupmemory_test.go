package cas

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// Groups are made, compressed and verified in memory that is used again: to store so many
// bytes takes less than three times as much new memory, with that of the compressor.
func TestGroupsReuseMemory(t *testing.T) {
	const n, size = 2048, 8 << 10
	s := openMem(t, vfstest.NewMem())
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	line := strings.Repeat("text that compresses\n", size/21)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range n {
		if _, err := w.Put(object.Blob, fmt.Appendf(nil, "%d\n%s", i, line)); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	own := uint64(n * size * 9 / 8) // the contents themselves, which Appendf makes
	if got := after.TotalAlloc - before.TotalAlloc - own; got > 3*n*size {
		t.Errorf("storing %d bytes in groups took %d bytes of new memory", n*size, got)
	}
}

// What several goroutines put comes into groups of their own, once one is full.
func TestGroupsByLane(t *testing.T) {
	s := openMem(t, vfstest.NewMem())
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	lanes := make(map[store.ID]int)
	for i := range 400 {
		id, err := w.PutFrom(i%2, object.Blob, fmt.Appendf(nil, "%d%5000d", i%2, i))
		if err != nil {
			t.Fatal(err)
		}
		lanes[id] = i % 2
	}
	s.flushGroups()
	of := make(map[int64]int) // lanes by group
	for id, lane := range lanes {
		loc, ok, err := s.find(id)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		of[loc.Off] |= 1 << lane
	}
	mixed := 0
	for _, lanes := range of {
		if lanes == 3 {
			mixed++
		}
	}
	if len(of) < 8 || mixed != 1 {
		t.Errorf("%d groups, of which %d have what two have put; want the first alone", len(of), mixed)
	}
}
