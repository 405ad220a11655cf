package manager

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// TestIncidentFullDisk is the second incident: a disk that is full in the
// middle of a restore.
func TestIncidentFullDisk(t *testing.T) {
	b := newBench(t)
	if err := syscall.Mount("tmpfs", b.dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skip("a small disk needs root:", err)
	}
	t.Cleanup(func() { syscall.Unmount(b.dir, syscall.MNT_DETACH) })
	m := b.open("s")
	for i := range 8 {
		b.write(fmt.Sprint("f", i), strings.Repeat(fmt.Sprint("old ", i, " "), 40_000))
	}
	b.initialize(m)
	b.turn(m, func() {
		for i := range 8 {
			b.write(fmt.Sprint("f", i), "small")
		}
	})
	b.write("ballast", strings.Repeat("x", 3<<20))
	before := b.traceOf(b.dir)
	if _, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start"}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error is %v, want %v", err, syscall.ENOSPC)
	}
	b.onlyChanged(before, "what was written there went again")
	b.remove("ballast")
	b.initialize(m)
	if r := b.restore(m, &RestoreOptions{Target: "start"}); !r.IsComplete() || len(r.Restored) != 8 {
		t.Errorf("with space again: %+v", r)
	}
}
