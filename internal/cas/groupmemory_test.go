package cas

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs/vfstest"
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
