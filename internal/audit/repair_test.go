package audit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/boocode/filestore/internal/vfs/vfstest"
)

// TestRepairPlanBesideWriters: what is recorded after a store was read to repair it
// is not lost, also where no file has it any more.
func TestRepairPlanBesideWriters(t *testing.T) {
	disk := vfstest.NewMem()
	s, other := openStore(t, disk), openStore(t, disk)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "before")
	snapshot(t, other, dir)

	plan, err := s.PlanRepair(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "d/b"), "after")
	snapshot(t, other, dir)
	if err := os.RemoveAll(filepath.Join(dir, "d")); err != nil {
		t.Fatal(err)
	}

	m := NewMender(s, plan)
	defer m.Close()
	if mends, err := m.Plan(t.Context()); err != nil || len(mends) > 0 {
		t.Errorf("Plan of a sound store: %v, %v", mends, err)
	}
	for h, err := range m.Hurt(t.Context()) {
		t.Errorf("Hurt of a sound store: snapshot %d, %v, %v", h.Snapshot.Seq, h.Problems, err)
	}
}
