package cas

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// cutJournal returns a disk whose journal has lost its newest two records of four
// without a trace.
func cutJournal(t *testing.T) *vfstest.Mem {
	disk, _, offs := journalOf(t, 4)
	edit(t, disk, layout.SegmentName(1), func(b []byte) []byte { return b[:offs[3]] })
	return disk
}

// acceptTold accepts what others know the journal to have lost, up to a record.
func acceptTold(t *testing.T, s *Store, seq uint64) error {
	t.Helper()
	loss, err := s.JournalLoss()
	if err != nil {
		return err
	}
	loss.AddRecord(seq)
	loss.Places, loss.Objects = append(loss.Places, "told"), []store.ID{{1}}
	loss.Time = acceptedAt
	return s.Accept(t.Context(), loss)
}

// What was accepted to be lost is no number that another record gets, and a record
// that has one meanwhile is not accepted to be lost.
func TestAcceptNewest(t *testing.T) {
	disk := cutJournal(t)
	s := openMem(t, disk)
	other := openMem(t, disk)
	if err := acceptTold(t, s, 4); err != nil {
		t.Fatal(err)
	}
	if got := commit(t, other, "other", []byte("other")); got.seq <= 4 {
		t.Errorf("the next record has the number %d", got.seq)
	}
	checkClean(t, s)
	if at, ok := s.AcceptedObject(store.ID{1}); !ok || at != acceptedAt {
		t.Errorf("AcceptedObject: %v, %v", at, ok)
	}
	a, err := other.Accepted()
	if err != nil {
		t.Fatal(err)
	}
	if at, ok := a.Place("told"); !ok || at != acceptedAt {
		t.Errorf("Place: %v, %v", at, ok)
	}
	if _, ok := a.Place("told not"); ok {
		t.Error("a place that was not told is accepted")
	}

	disk = cutJournal(t)
	s = openMem(t, disk)
	loss, err := s.JournalLoss()
	if err != nil {
		t.Fatal(err)
	}
	loss.AddRecord(4)
	commit(t, s, "other", []byte("other"))
	if err := s.Accept(t.Context(), loss); !errors.Is(err, ErrPlanStale) {
		t.Errorf("Accept after another record: %v", err)
	}
	if a, err := s.Accepted(); a != nil || err != nil {
		t.Errorf("Accepted = %v, %v", a, err)
	}
}

// Whatever fails, a loss is accepted or not, and if it is said to be, it is; a store
// that can be written to stays one.
func TestAcceptFaults(t *testing.T) {
	for _, sticky := range []bool{false, true} {
		for at := int64(0); ; at++ {
			disk := cutJournal(t)
			fault := &vfstest.Fault{At: at, Sticky: sticky, Err: syscall.EIO}
			err := session(t.Context(), vfstest.WithFault(disk, fault),
				func(s *Store) error { return acceptTold(t, s, 4) })
			for _, left := range []*vfstest.Mem{disk.AfterCrash(nil), disk} {
				s, oerr := OpenFS(t.Context(), left, &Options{})
				if oerr != nil {
					t.Fatal(oerr)
				}
				r, cerr := s.Check(t.Context(), true)
				a, aerr := s.Accepted()
				_, ok := a.Place("told")
				if cerr != nil || aerr != nil || err == nil && !ok || ok && len(r.Damage) > 0 {
					t.Errorf("operation %d: accepted %v (%v, %v), damage %v, %v", at, ok, err, aerr, r.Damage, cerr)
				}
				commit(t, s, "next", []byte("next"))
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			if !fault.Fired() {
				if err != nil {
					t.Error(err)
				}
				break
			}
		}
	}
}

// Where it is not known what was accepted, nothing is, until it is again.
func TestAcceptedDamaged(t *testing.T) {
	disk := cutJournal(t)
	s := openDamaged(t, disk)
	if err := acceptTold(t, s, 4); err != nil {
		t.Fatal(err)
	}
	edit(t, disk, layout.AcceptedName, func(b []byte) []byte {
		return []byte(strings.Replace(string(b), "told", "sold", 1))
	})
	found := damageOf(t, s)
	if len(found) != 2 || found[0].Path != layout.AcceptedName || found[1].Path != layout.SegmentName(1) {
		t.Errorf("Check: %v", found)
	}
	plan, err := s.PlanRepair(t.Context())
	if err != nil || len(plan.Aside) != 1 || plan.Empty() || len(plan.Stays) != 1 {
		t.Fatalf("PlanRepair: %+v, %v", plan, err)
	}
	if err := s.Repair(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	if found := damageOf(t, s); len(found) != 1 || found[0].Path != layout.SegmentName(1) {
		t.Errorf("after a repair: %v", found)
	}
	if err := acceptTold(t, s, 4); err != nil {
		t.Fatal(err)
	}
	if found := damageOf(t, s); len(found) != 0 {
		t.Errorf("accepted again: %v", found)
	}
}

// Damage at another place is damage, also where it costs no record.
func TestAcceptedElsewhere(t *testing.T) {
	setLimits(t, never, never, 300)
	disk, _, _ := journalOf(t, 8)
	if err := disk.Remove(layout.SegmentName(2)); err != nil {
		t.Fatal(err)
	}
	s := openDamaged(t, disk)
	acceptAll(t, s)
	checkClean(t, s)
	edit(t, disk, layout.SegmentName(3), flip(layout.HeaderSize+20)) // its state
	edit(t, disk, layout.SegmentName(3), flip(layout.HeaderSize+40))
	found := damageOf(t, s)
	if len(found) != 1 || found[0].Path != layout.SegmentName(3) {
		t.Errorf("Check: %v", found)
	}
}

// What a version has written every later one reads.
func TestFormatAccepted(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "format", "v2", "accepted.json"))
	if err != nil {
		t.Fatal(err)
	}
	disk := vfstest.NewMem()
	s := openMem(t, disk)
	if err := layout.WriteFile(disk, layout.AcceptedName, AppendSum(bytes.TrimSpace(b))); err != nil {
		t.Fatal(err)
	}
	a, err := s.Accepted()
	if err != nil {
		t.Fatal(err)
	}
	for seq, want := range map[uint64]bool{4: false, 5: true, 7: true, 8: false, 9: true, 10: false} {
		if r, _ := a.record(seq); (r != nil) != want {
			t.Errorf("record %d: %v, want %v", seq, r, want)
		}
	}
	at, place := a.Place("journal/00000001.log@64")
	object, known := s.AcceptedObject(store.ID{1})
	if !place || !known || at != acceptedAt || object != acceptedAt {
		t.Errorf("accepted: %v %v, %v %v", at, place, object, known)
	}
}
