package cas

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// TestRelabel: a label comes however late, stays when the entry is told after it, and goes.
func TestRelabel(t *testing.T) {
	setLimits(t, never, never, 400)
	disk := vfstest.NewMem()
	s := openMem(t, disk)
	first := commit(t, s, "a", small)
	stale, err := s.Snapshot(t.Context(), first.seq)
	if err != nil {
		t.Fatal(err)
	}
	more := func() {
		t.Helper()
		for i := range 20 {
			commit(t, s, fmt.Sprint("b", i), small)
		}
	}
	more()
	for _, label := range []string{"one", "two", ""} {
		snap, err := s.Relabel(t.Context(), first.seq, label)
		if err != nil || snap.Label != label || snap.Tree != stale.Tree {
			t.Fatalf("Relabel %q = %+v, %v", label, snap, err)
		}
		stale.Entry = "entry of " + label
		if err := s.AmendSoon(t.Context(), stale); err != nil {
			t.Fatal(err)
		}
		for range 2 { // in the newest segment, and far behind
			for _, s := range []*Store{s, openMem(t, disk)} {
				labels, err := s.LastLabels()
				if got, ok := labels[first.seq]; !ok || got != label || err != nil {
					t.Errorf("LastLabels has %q, %v, %v, want %q", got, ok, err, label)
				}
				for snap, err := range s.Snapshots(t.Context()) {
					if err != nil || snap.Seq == first.seq && (snap.Label != label || snap.Entry != stale.Entry) {
						t.Errorf("Snapshots: %+v, %v", snap, err)
					}
				}
			}
			more()
		}
	}
	if _, err := s.Relabel(t.Context(), 10_000, "x"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Relabel of nothing: %v", err)
	}
}

// TestPruneSparesLabels: what is named while a prune is planned stays.
func TestPruneSparesLabels(t *testing.T) {
	for _, packs := range []int64{never, 1} { // without a pack that goes, and with
		setLimits(t, never, packs, never)
		s := openMem(t, vfstest.NewMem())
		a := commit(t, s, "a", random(50<<10, 1))
		commit(t, s, "a", random(50<<10, 2))
		s.waitSealed()
		keep := func(ctx context.Context, live *Live, snap *store.Snapshot) error { return nil }
		plan, err := s.PlanPrune(t.Context(), &PruneOptions{Mark: keep, Alone: true,
			Drop: func(snap *store.Snapshot) bool { return snap.Seq == a.seq }})
		if err != nil || len(plan.Dropped) != 1 {
			t.Fatalf("PlanPrune = %+v, %v", plan, err)
		}
		if _, err := s.Relabel(t.Context(), a.seq, "mine"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Prune(t.Context(), plan); !errors.Is(err, ErrPlanStale) {
			t.Errorf("Prune of what was named: %v, want ErrPlanStale", err)
		}
		if snap, err := s.Snapshot(t.Context(), a.seq); err != nil || snap.Pruned || snap.Label != "mine" {
			t.Errorf("it is %+v, %v", snap, err)
		}
	}
}
