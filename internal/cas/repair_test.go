package cas

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// repair plans and repairs, and returns what was planned.
func repair(ctx context.Context, s *Store) (*RepairPlan, error) {
	plan, err := s.PlanRepair(ctx)
	if err != nil {
		return nil, err
	}
	return plan, s.Repair(ctx, plan)
}

// hurtDisk returns a store of two sealed packs and an unsealed one, each with
// a blob that is damaged and one that is not, and the commits that can be read.
// "twice" is damaged in one pack and intact in another.
func hurtDisk(t *testing.T) (disk *vfstest.Mem, acks []acked, bad []string) {
	t.Helper()
	withoutGroups(t)
	setLimits(t, never, 3<<10, 400)
	disk = vfstest.NewMem()
	var stores []*Store // each has a pack of its own, and does not look at the others'
	for i := range 3 {
		s, err := OpenFS(t.Context(), disk, &Options{})
		if err != nil {
			t.Fatal(err)
		}
		stores = append(stores, s)
		acks = append(acks, commit(t, s, fmt.Sprint("first ", i), fmt.Append(nil, "first ", i)))
	}
	twice := random(300, 99)
	for i, s := range stores {
		lost, kept := random(2<<10, byte(10+i)), random(2<<10, byte(20+i))
		blobs := [][]byte{kept, twice, lost} // which fills the pack
		if i == 2 {                          // it stays unsealed
			lost, kept = lost[:200], kept[:200]
			blobs = [][]byte{kept, lost}
		}
		a := commit(t, s, fmt.Sprint(i), blobs...)
		a.ids = a.ids[:len(a.ids)-1]
		acks = append(acks, a)
		s.waitSealed()
		for _, name := range names(t, disk, "packs", ".pack") {
			b := string(readAll(t, disk, name))
			at := strings.Index(b, string(lost))
			if at < 0 {
				continue
			}
			bad = append(bad, name)
			edit(t, disk, name, flip(at+100))
			if i == 0 {
				edit(t, disk, name, flip(strings.Index(b, string(twice))+7))
			}
		}
	}
	for _, s := range stores {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(bad) != 3 {
		t.Fatalf("%d packs are damaged, want 3", len(bad))
	}
	for _, dir := range append(storeDirs, ".") {
		if err := disk.SyncDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	return disk, acks, bad
}

// What is intact in a damaged pack moves to another, the file to quarantine,
// and a second repair does nothing.
func TestRepairPacks(t *testing.T) {
	disk, acks, bad := hurtDisk(t)
	s := openDamaged(t, disk)
	before, err := s.Epoch()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := repair(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Packs) != 3 || len(plan.Damage) != 4 || len(plan.Stays) > 0 {
		t.Errorf("plan is %+v", plan)
	}
	checkRepaired(t, s, acks)
	if after, err := s.Epoch(); after != before+1 || err != nil {
		t.Errorf("epoch = %d, %v, was %d", after, err, before)
	}
	if q := names(t, disk, "quarantine", ".pack"); len(q) != len(bad) {
		t.Errorf("quarantine has %q", q)
	}
	for _, name := range bad {
		if _, err := disk.Stat(name); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	again := openMem(t, disk.AfterCrash(nil))
	checkRepaired(t, again, acks)
	checkAcked(t, again, []acked{commit(t, again, "0", random(2<<10, 10))})
}

// checkRepaired requires that nothing is damaged, that there is nothing more to
// do, and that what was intact is there.
func checkRepaired(t *testing.T, s *Store, acks []acked) {
	t.Helper()
	checkClean(t, s)
	checkAcked(t, s, acks)
	plan, err := s.PlanRepair(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan.Summaries, plan.Indexes = nil, nil // what is derived a power cut may have taken
	if !plan.Empty() || len(plan.Damage) > 0 {
		t.Errorf("plan after a repair: %+v", plan)
	}
}

// Operations of a repair fail, once or for good: each that gives something a name, takes
// it away or makes it durable, and some of the others. What was intact stays readable
// throughout, also after a power cut, no damaged pack is lost, and a second repair ends what
// the first began. What is copied comes into one pack, or into many that end before the
// copies are committed.
func TestRepairFaults(t *testing.T) {
	testseed.Sequential(t)
	whole, acks, bad := hurtDisk(t)
	lasts := func(op string) bool { return slices.Contains([]string{"Sync", "SyncDir", "Rename", "Remove"}, op) }
	others := func(op string) bool { return !lasts(op) }
	step := stride(41, 89)
	for _, c := range []struct {
		sealMax int64
		sticky  bool
	}{{never, true}, {never, false}, {1, false}} {
		setLimits(t, c.sealMax, 3<<10, 400)
		f := &repairFault{counts: lasts, sticky: c.sticky}
		for ; f.try(t, whole, acks, bad); f.at++ {
		}
		f = &repairFault{counts: others, sticky: c.sticky, at: testseed.Rand(t).Int64N(step)}
		for ; f.try(t, whole, acks, bad); f.at += step {
		}
	}
}

// A repairFault has one operation of a repair fail, or it and all behind it.
type repairFault struct {
	counts func(op string) bool
	at     int64 // the operation, of those that count
	sticky bool
}

// try repairs what is hurt and looks at what is left. It reports whether something failed.
func (f *repairFault) try(t *testing.T, hurt *vfstest.Mem, acks []acked, bad []string) bool {
	t.Helper()
	disk := hurt.AfterCrash(nil) // a copy
	var (
		mu       sync.Mutex // guards the rest: packs are sealed in the background
		n        int64
		op, name string // what failed
		repairer *Store
	)
	fault := &vfstest.Fault{At: -1, Err: syscall.EIO}
	fault.Trace = func(op, name string) {
		if op == "Close" && repairer != nil && slices.Contains(bad, name) {
			repairer.waitSealed() // what goes on in the background fails before all is copied
		}
	}
	fault.Fails = func(o, file string) bool {
		mu.Lock()
		defer mu.Unlock()
		if op != "" {
			return f.sticky
		}
		if f.counts(o) {
			if n == f.at {
				op, name = o, file
			}
			n++
		}
		return op != ""
	}
	err := session(t.Context(), vfstest.WithFault(disk, fault), func(s *Store) error {
		repairer = s
		_, err := repair(t.Context(), s)
		return err
	})
	if err == nil && fault.Fired() && !quiet(op, name) && !writesSummary(op, name) {
		// But for an index that was not written in the background.
		if plan := planOf(t, disk); len(plan.Packs)+len(plan.Gone)+len(plan.Damage) > 0 {
			t.Errorf("not reported, and left is %+v", plan)
		}
	}
	if !fault.Fired() && err != nil {
		t.Error(err)
	}
	for i, left := range []*vfstest.Mem{disk.AfterCrash(nil),
		disk.AfterCrash(rand.New(rand.NewPCG(uint64(f.at), 1))), disk} {
		s := openDamaged(t, left)
		checkAcked(t, s, acks)
		if _, err := repair(t.Context(), s); err != nil {
			t.Errorf("repair of what is left: %v", err)
		}
		checkRepaired(t, s, acks)
		if q := names(t, left, "quarantine", ".pack"); len(q) < len(bad) {
			t.Errorf("quarantine has %q, want %d packs", q, len(bad))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Fatalf("fault at %d (%s %s), sticky=%v, disk %d: %v", f.at, op, name, f.sticky, i, err)
		}
	}
	return fault.Fired()
}

func planOf(t *testing.T, fsys vfs.FS) *RepairPlan {
	t.Helper()
	s := openDamaged(t, fsys)
	plan, err := s.PlanRepair(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// Another process commits at any moment of a repair, into a pack that is damaged.
// It notices, and nothing that it commits is lost.
func TestRepairBesideWriter(t *testing.T) {
	step := stride(29, 61)
	whole, acks, _ := hurtDisk(t)
	for at := testseed.Rand(t).Int64N(step); ; at += step {
		disk := whole.AfterCrash(nil)
		other := openDamaged(t, disk)
		// It takes up the damaged pack that is not sealed, and keeps it.
		mine := []acked{commit(t, other, "other", []byte("before"))}
		n, wrote := int64(0), false
		var mu sync.Mutex // packs are sealed in the background
		fault := &vfstest.Fault{At: -1, Trace: func(op, name string) {
			mu.Lock()
			defer mu.Unlock()
			if n++; n <= at || wrote || !free(t, disk, layout.JournalLock) {
				return // a commit would wait for us
			}
			wrote = true
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // it is not to wait for the epoch either
			if a, err := tryCommit(ctx, other, "meanwhile", []byte("meanwhile")); err == nil {
				mine = append(mine, a)
			} else if !errors.Is(err, context.Canceled) {
				t.Errorf("commit beside a repair: %v", err)
			}
		}}
		s := openDamaged(t, vfstest.WithFault(disk, fault))
		if _, err := repair(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		checkAcked(t, s, append(mine[:len(mine):len(mine)], acks...))
		checkAcked(t, other, append(mine[:len(mine):len(mine)], acks...))
		mine = append(mine, commit(t, other, "later", []byte("after"), random(2<<10, 10), random(200, 12)))
		last := openDamaged(t, disk.AfterCrash(nil))
		checkRepaired(t, last, append(mine, acks...))
		if t.Failed() {
			t.Fatalf("at operation %d", at)
		}
		if !wrote {
			break
		}
	}
}

// TestCheckBesideSeal: a pack that is sealed while it is checked is not damaged.
func TestCheckBesideSeal(t *testing.T) {
	setLimits(t, never, 1<<10, 1<<20)
	for at, sealed := 0, true; sealed; at++ {
		disk := vfstest.NewMem()
		other := openDamaged(t, disk)
		commit(t, other, "", random(500, 1))
		n := 0
		sealed = false
		fault := &vfstest.Fault{At: -1, Trace: func(op, name string) {
			if n++; n <= at || sealed || !free(t, disk, layout.JournalLock) {
				return // a commit would wait for us
			}
			sealed = true
			commit(t, other, "", random(1000, 2))
			if err := other.Close(); err != nil { // which waits for the seal
				t.Error(err)
			}
		}}
		s := openDamaged(t, vfstest.WithFault(disk, fault))
		n = 0
		checkClean(t, s)
		if t.Failed() {
			t.Fatalf("at operation %d", at)
		}
	}
}

// free reports whether nobody holds a lock.
func free(t *testing.T, fsys vfs.FS, name string) bool {
	t.Helper()
	f, err := layout.OpenLock(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ok, err := f.TryLock(vfs.Exclusive)
	return ok && err == nil
}

// A repair waits for a writer that is open, copies what came meanwhile, and
// lets nobody begin while packs are moved.
func TestRepairWaitsForWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, acks, _ := hurtDisk(t)
		other := openDamaged(t, disk)
		mine := []acked{commit(t, other, "other", []byte("before"))}
		w, err := other.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s := openDamaged(t, disk)
		done := make(chan error, 1)
		go func() {
			_, err := repair(t.Context(), s)
			done <- err
		}()
		time.Sleep(time.Minute)
		if len(done) > 0 {
			t.Fatalf("repair did not wait: %v", <-done)
		}
		id, err := w.Put(object.Blob, []byte("meanwhile"))
		if err != nil {
			t.Fatal(err)
		}
		snap := &store.Snapshot{Session: "held", Tree: id}
		if err := w.Commit(t.Context(), snap, 0); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		mine = append(mine, acked{"held", snap.Seq, []store.ID{id}})
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		checkRepaired(t, s, append(mine, acks...))
		checkAcked(t, other, append(mine, acks...))
	})
}
