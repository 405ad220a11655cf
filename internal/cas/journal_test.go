package cas

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// journalOf makes a disk with n commits of sessions that repeat, and returns
// where their frames begin in the one segment, the state first, the end last.
func journalOf(t *testing.T, n int) (disk *vfstest.Mem, acks []acked, offs []int) {
	t.Helper()
	disk = vfstest.NewMem()
	err := session(t.Context(), disk, func(s *Store) error {
		for i := range n {
			acks = append(acks, commit(t, s, fmt.Sprint("session ", i%2), fmt.Append(nil, "content ", i)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return disk, acks, frameOffsets(t, disk, 1)
}

func frameOffsets(t *testing.T, disk *vfstest.Mem, seg uint64) []int {
	t.Helper()
	j := journal.New(disk, [16]byte{})
	found, err := j.ReadSegment(seg)
	if err != nil || len(found.Damage) > 0 {
		t.Fatal(found.Damage, err)
	}
	var offs []int
	for _, f := range found.List {
		offs = append(offs, int(f.Off))
	}
	return append(offs, int(found.End))
}

// The last frame, cut anywhere, is absent. The next commit takes its place,
// and what was there is in quarantine.
func TestTornTail(t *testing.T) {
	testseed.Sequential(t)
	disk, acks, offs := journalOf(t, 3)
	last, end := offs[len(offs)-2], offs[len(offs)-1]
	whole, err := vfs.ReadFile(disk, layout.SegmentName(1))
	if err != nil {
		t.Fatal(err)
	}
	for cut := last; cut < end; cut++ {
		for name, tear := range map[string]func(b []byte) []byte{
			"cut":     func(b []byte) []byte { return b[:cut] },
			"zeros":   func(b []byte) []byte { return append(b[:cut], make([]byte, end-cut)...) },
			"garbage": func(b []byte) []byte { return append(b[:cut], random(300, 9)...) },
		} {
			torn := disk.AfterCrash(nil)
			edit(t, torn, layout.SegmentName(1), tear)
			tail, err := vfs.ReadFile(torn, layout.SegmentName(1))
			if err != nil {
				t.Fatal(err)
			}
			if tail = tail[last:]; bytes.Equal(tail, whole[last:]) {
				continue // zeros where zeros were
			}
			verify(t, torn, acks[:2], 0)
			kept := names(t, torn, "quarantine", "")
			if len(tail) == 0 && len(kept) == 0 {
				continue
			}
			if len(kept) != 1 {
				t.Fatalf("%s at %d: quarantine has %q, want one file", name, cut-last, kept)
			}
			if b, err := vfs.ReadFile(torn, kept[0]); err != nil || !bytes.Equal(b, tail) {
				t.Errorf("%s at %d: quarantine has %d bytes, want %d, %v", name, cut-last, len(b), len(tail), err)
			}
			if n := len(names(t, torn, "journal", ".log")); n != 1 {
				t.Errorf("%s at %d: %d segments, want 1", name, cut-last, n)
			}
		}
		if t.Failed() {
			t.Fatalf("torn at byte %d of the last frame", cut-last)
		}
	}
}

// An earlier frame is damage, wherever it is hit: reported at its place, and
// its snapshot is the only one lost. Writing goes on in a new segment.
func TestDamagedFrame(t *testing.T) {
	testseed.Sequential(t)
	disk, acks, offs := journalOf(t, 3)
	for i, off := range offs[:len(offs)-2] { // the state, and all snapshots but the last
		for at := off; at < offs[i+1]; at++ {
			hurt := disk.AfterCrash(nil)
			edit(t, hurt, layout.SegmentName(1), flip(at))
			left := acks
			if i > 0 {
				left = slices.Concat(acks[:i-1], acks[i:])
			}
			s := openDamaged(t, hurt)
			found := damageOf(t, s)
			if len(found) != 1 || found[0].Path != layout.SegmentName(1) || found[0].Off != int64(off) {
				t.Errorf("Check found %v, want damage at offset %d", found, off)
			}
			verify(t, hurt, left, 1)
			if n := len(names(t, hurt, "journal", ".log")); n != 2 {
				t.Errorf("%d segments, want 2", n)
			}
			if t.Failed() {
				t.Fatalf("byte %d of frame %d is damaged", at-off, i)
			}
		}
	}
}

// The start of a segment restates what holds from before. If that is lost,
// the segments before still say it: no pack may be taken for shorter, and no
// old record that the segment says again for a new one.
func TestDamagedStart(t *testing.T) {
	setLimits(t, never, never, 500)
	disk, acks := vfstest.NewMem(), []acked(nil)
	dead, err := OpenFS(t.Context(), disk, &Options{}) // keeps a pack of its own
	if err != nil {
		t.Fatal(err)
	}
	acks = append(acks, commit(t, dead, "dead", large))
	if err := session(t.Context(), disk, func(s *Store) error {
		for i := range 4 {
			acks = append(acks, commit(t, s, "live", fmt.Append(nil, "content ", i)))
		}
		_, err := s.Relabel(t.Context(), acks[0].seq, "late")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	segs := names(t, disk, "journal", ".log")
	if len(segs) != 2 {
		t.Fatalf("%d segments, want 2", len(segs))
	}
	offs := frameOffsets(t, disk, 2)
	fresh := len(offs) - 3 // but for the state, the label and the end
	for name, hurt := range map[string]struct {
		fn   func([]byte) []byte
		lost int // snapshots at the end
	}{
		"header":             {flip(10), 0},
		"checksum of header": {flip(62), 0},
		"state":              {flip(offs[0] + 40), 0},
		"end at the state":   {func(b []byte) []byte { return b[:offs[0]+10] }, fresh},
		"end at the header":  {func(b []byte) []byte { return b[:layout.HeaderSize] }, fresh},
		"half a header":      {func(b []byte) []byte { return b[:20] }, fresh},
		"empty":              {func(b []byte) []byte { return nil }, fresh},
		"zeros":              {func(b []byte) []byte { return make([]byte, len(b)) }, fresh},
	} {
		t.Run(name, func(t *testing.T) {
			left := disk.AfterCrash(nil)
			edit(t, left, segs[1], hurt.fn)
			s := openDamaged(t, left)
			found := damageOf(t, s)
			if len(found) == 0 || found[0].Path != segs[1] {
				t.Errorf("Check found %v, want damage in %s", found, segs[1])
			}
			verify(t, left, acks[:len(acks)-hurt.lost], len(found))
		})
	}
}

// A record that is damaged takes its own snapshot only, also where it was the
// one that named the pack of another process.
func TestDamagedFrameOfTheOther(t *testing.T) {
	disk := vfstest.NewMem()
	a, b := openDamaged(t, disk), openDamaged(t, disk)
	commit(t, a, "a", small, large)
	at := frameOffsets(t, disk, 1)[1]
	second := commit(t, b, "b", large) // found in the pack of a
	if n := len(names(t, disk, "packs", ".pack")); n != 1 {
		t.Fatalf("%d packs, want 1: the object was not found", n)
	}
	left := disk.AfterCrash(nil)
	edit(t, left, layout.SegmentName(1), flip(at+40))
	verify(t, left, []acked{second}, 1)
}

// The same where its pack is being sealed: a record that does not name the pack any more
// waits until the pack's own index vouches for it.
func TestDamagedFrameBesideSeal(t *testing.T) {
	setLimits(t, never, 1, never) // a pack for each commit
	var left *vfstest.Mem
	var second acked
	synctest.Test(t, func(t *testing.T) {
		disk := vfstest.NewMem()
		syncs := 0
		fault := &vfstest.Fault{At: -1, Trace: func(op, name string) {
			if op != "Sync" || !strings.HasSuffix(name, ".pack") {
				return
			}
			if syncs++; syncs == 2 { // behind that of the commit: the seal's
				time.Sleep(time.Minute)
			}
		}}
		s := openDamaged(t, vfstest.WithFault(disk, fault))
		commit(t, s, "a", small)
		second = commit(t, s, "b", small) // found in the pack that is being sealed
		left = disk.AfterCrash(nil)
		s.waitSealed()
		if syncs != 2 {
			t.Errorf("%d syncs of packs, want one for the commit and one for the seal", syncs)
		}
	})
	edit(t, left, layout.SegmentName(1), flip(frameOffsets(t, left, 1)[1]+40))
	verify(t, left, []acked{second}, 1)
}

var acceptedAt = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// acceptAll accepts all that the journal has lost.
func acceptAll(t *testing.T, s *Store) {
	t.Helper()
	loss, err := s.JournalLoss()
	if err != nil {
		t.Fatal(err)
	}
	loss.Time = acceptedAt
	if err := s.Accept(t.Context(), loss); err != nil {
		t.Fatal(err)
	}
}

// A journal that lacks anything it once had says so, whatever it is that is
// missing, and goes on saying so when more is recorded.
func TestLostRecords(t *testing.T) {
	setLimits(t, never, never, 300) // two records each
	whole, acks, _ := journalOf(t, 8)
	segs := names(t, whole, "journal", ".log")
	if len(segs) != 4 {
		t.Fatalf("segments %q, want 4", segs)
	}
	for _, name := range names(t, whole, "journal", ".sum") { // as later writers leave them
		edit(t, whole, name, func(b []byte) []byte { return b })
	}
	if err := whole.SyncDir("journal"); err != nil {
		t.Fatal(err)
	}
	if openDamaged(t, whole.AfterCrash(nil)).JournalIsSuspect() {
		t.Error("a journal that has lost nothing is suspect")
	}
	offs := make(map[string][]int)
	for i, name := range segs {
		offs[name] = frameOffsets(t, whole, uint64(i+1))
	}
	remove := func(list ...string) func(*testing.T, *vfstest.Mem) {
		return func(t *testing.T, disk *vfstest.Mem) {
			for _, name := range list {
				if err := disk.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	cut := func(name string, length int) func(*testing.T, *vfstest.Mem) {
		return func(t *testing.T, disk *vfstest.Mem) {
			edit(t, disk, name, func(b []byte) []byte { return b[:length] })
		}
	}
	second := offs[segs[1]]
	for name, test := range map[string]struct {
		hurt func(*testing.T, *vfstest.Mem)
		path string
		say  string
	}{
		"the first": {remove(segs[0]), segs[0], "segment is missing: 2 records are lost, 1 to 2"},
		"the first, summary too": {remove(segs[0], layout.SummaryName(1)), segs[0],
			"segment is missing: 2 records are lost, 1 to 2"},
		"the first two": {remove(segs[0], segs[1]), segs[1],
			"segments 1 to 2 are missing: 4 records are lost, 1 to 4"},
		"one in the middle": {remove(segs[1]), segs[1], "segment is missing: 2 records are lost, 3 to 4"},
		"the newest":        {remove(segs[3]), segs[3], "segment is missing"},
		"all but summaries": {remove(segs...), segs[3], "segments 1 to 4 are missing"},
		"all": {remove(append(names(t, whole, "journal", ".sum"), segs...)...), segs[0],
			"segment is missing"},
		"a record at the end": {cut(segs[1], second[2]), segs[1],
			"it ends too early, or was cut: record 4 is lost"},
		"in the middle of records": {cut(segs[1], second[1]+5), segs[1],
			"it ends too early, or was cut: 2 records are lost, 3 to 4"},
		"behind the state": {cut(segs[1], second[1]), segs[1],
			"it ends too early, or was cut: 2 records are lost, 3 to 4"},
		"one out of the middle": {func(t *testing.T, disk *vfstest.Mem) {
			edit(t, disk, segs[1], func(b []byte) []byte { return slices.Concat(b[:second[1]], b[second[2]:]) })
		}, segs[1], "it ends too early, or was cut: record 3 is lost"},
	} {
		t.Run(name, func(t *testing.T) {
			disk := whole.AfterCrash(nil)
			test.hurt(t, disk)
			look := func(s *Store, when string) {
				t.Helper()
				found := damageOf(t, s)
				if len(found) != 1 || found[0].Path != test.path || found[0].Err.Error() != test.say {
					t.Errorf("%s Check found %v, want %s: %s", when, found, test.path, test.say)
				}
				if list, err := s.JournalDamage(); err != nil || len(list) != len(found) {
					t.Errorf("%s JournalDamage = %v, %v, want as Check", when, list, err)
				}
				if !s.JournalIsSuspect() {
					t.Errorf("%s it does not show that records are lost", when)
				}
			}
			s := openDamaged(t, disk)
			look(s, "")
			plan, err := s.PlanRepair(t.Context())
			if err != nil || len(plan.Stays) == 0 {
				t.Errorf("PlanRepair: stays %v, %v, want the journal", plan.Stays, err)
			}
			commit(t, s, "another", []byte("later"))
			commit(t, s, "another", []byte("later still"))
			look(s, "after a commit")
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			s = openDamaged(t, disk)
			look(s, "opened again")
			acceptAll(t, s)
			none := func(s *Store, when string) {
				t.Helper()
				r, err := s.Check(t.Context(), false)
				if err != nil || len(r.Damage) > 0 || len(r.Accepted) != 1 || r.Accepted[0].At != acceptedAt ||
					r.Accepted[0].Err.Error() != test.say {
					t.Errorf("%s and accepted: %+v, %v", when, r, err)
				}
				if plan, err := s.PlanRepair(t.Context()); err != nil || len(plan.Stays) > 0 {
					t.Errorf("%s and accepted: PlanRepair: %+v, %v", when, plan, err)
				}
			}
			none(s, "at once")
			last := commit(t, s, "another", []byte("after that"))
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			s = openDamaged(t, disk)
			none(s, "opened again")
			// What is lost beyond it is damage, and no more than that.
			seg := s.j.Seg
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			offs := frameOffsets(t, disk, seg)
			edit(t, disk, layout.SegmentName(seg), func(b []byte) []byte { return b[:offs[len(offs)-2]] })
			s = openDamaged(t, disk)
			s.Skip(last.seq)
			commit(t, s, "another", []byte("behind it"))
			r, err := s.Check(t.Context(), false)
			if err != nil || len(r.Damage) != 1 ||
				!strings.Contains(r.Damage[0].Error(), fmt.Sprintf("record %d is lost", last.seq)) ||
				len(r.Accepted) != 1 {
				t.Errorf("one more lost: %+v, %v", r, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	checkAcked(t, openDamaged(t, whole), acks)
}

// A record with a changed byte comes back by a repair, be it the newest, and be
// it that others have recorded more before: its number is not given again.
func TestRepairFlippedRecord(t *testing.T) {
	testseed.Sequential(t)
	setLimits(t, never, never, 300) // two records each
	stride := int(stride(3, 5))     // odd: with and without more
	whole, acks, _ := journalOf(t, 5)
	for _, name := range names(t, whole, "journal", ".log") {
		b, err := vfs.ReadFile(whole, name)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(b); at += stride {
			disk := whole.AfterCrash(nil)
			edit(t, disk, name, flip(at))
			s := openDamaged(t, disk)
			if found := damageOf(t, s); len(found) != 1 || found[0].Path != name {
				t.Errorf("Check found %v, want damage in %s", found, name)
			}
			more := at%2 == 0
			if more {
				commit(t, s, "more", []byte("more"))
			}
			plan, err := s.PlanRepair(t.Context())
			if err == nil {
				err = s.Repair(t.Context(), plan)
			}
			if err != nil || len(plan.Records) != 1 || len(plan.Stays) > 0 {
				t.Errorf("repair: %v: %v come back, %v stays", err, plan.Records, plan.Stays)
			}
			for seq := range uint64(len(acks)) {
				if _, err := s.Snapshot(t.Context(), seq+1); err != nil {
					t.Error(err)
				}
			}
			if !more { // else their content may have been sealed off: package tree brings it back
				verify(t, disk, acks, 0)
			}
			if found := damageOf(t, s); len(found) > 0 {
				t.Errorf("afterwards Check found %v", found)
			}
			if t.Failed() {
				t.Fatalf("%s, byte %d", name, at)
			}
		}
	}
}

// What a writer has cut off comes back from quarantine, if no other record has
// its number.
func TestRepairFromQuarantine(t *testing.T) {
	disk, acks, offs := journalOf(t, 3)
	var tail []byte
	edit(t, disk, layout.SegmentName(1), func(b []byte) []byte {
		tail = bytes.Clone(b[offs[3]:])
		return b[:offs[3]]
	})
	tail[40] ^= 4
	name := "quarantine/journal-00000001-1-0000"
	f, err := disk.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(append([]byte("torn"), tail...), 0); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), disk.SyncDir("quarantine"), f.Close()); err != nil {
		t.Fatal(err)
	}
	s := openDamaged(t, disk)
	for want := 1; want >= 0; want-- {
		plan, err := s.PlanRepair(t.Context())
		if err != nil || len(plan.Records) != want || plan.HasRecord(3) != (want == 1) || len(plan.Stays) > 0 {
			t.Fatalf("PlanRepair: %+v, %v, want %d records", plan, err, want)
		}
		if err := s.Repair(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
		checkAcked(t, s, acks)
	}
}

// A segment that is damaged as a whole, or is another one than its name says, costs its own
// records: those of the others are found as ever, by number, in lists, as the newest of their
// session. Where it is the only one that has the other's records, a repair says them again.
func TestWholeSegmentDamaged(t *testing.T) {
	setLimits(t, never, never, 300) // two records each
	whole, acks, _ := journalOf(t, 8)
	segs := names(t, whole, "journal", ".log")
	if len(segs) != 4 {
		t.Fatalf("segments %q, want 4", segs)
	}
	content := func(k int) []byte {
		b, err := vfs.ReadFile(whole, segs[k])
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for k := range segs {
		for from := range len(segs) + 1 {
			for _, moved := range []bool{false, true} {
				isCopy := from < len(segs)
				if from == k || moved && !isCopy {
					continue
				}
				disk := whole.AfterCrash(nil)
				lost := map[int]bool{k: true}
				edit(t, disk, segs[k], func(b []byte) []byte {
					if isCopy {
						return content(from)
					}
					return make([]byte, len(b))
				})
				if moved {
					lost[from] = true
					if err := disk.Remove(segs[from]); err != nil {
						t.Fatal(err)
					}
				}
				s := openDamaged(t, disk)
				when := fmt.Sprintf("segment %d from %d, moved %v", k+1, from+1, moved)
				checkLost(t, s, when, acks, func(i int) bool { return lost[i/2] })
				plan, err := s.PlanRepair(t.Context())
				if err == nil {
					err = s.Repair(t.Context(), plan)
				}
				if err != nil {
					t.Error(when, err)
				}
				delete(lost, from)
				checkLost(t, s, when+", repaired", acks, func(i int) bool { return lost[i/2] })
			}
		}
	}
}

// checkLost requires that a store has the snapshots of a journal but for those that are lost.
func checkLost(t *testing.T, s *Store, when string, acks []acked, lost func(i int) bool) {
	t.Helper()
	newest := make(map[string]uint64)
	var want []uint64
	for i, a := range acks {
		snap, err := s.Snapshot(t.Context(), a.seq)
		if lost(i) {
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: snapshot %d: %+v, %v; want ErrNotFound", when, a.seq, snap, err)
			}
			continue
		}
		if err != nil || snap.Tree != a.ids[0] {
			t.Errorf("%s: snapshot %d: %v", when, a.seq, err)
		}
		newest[a.session] = a.seq
		want = append(want, a.seq)
	}
	for session, seq := range newest {
		if head, err := s.Newest(t.Context(), "", session); err != nil || head.Seq != seq {
			t.Errorf("%s: Newest(%q) = %+v, %v; want %d", when, session, head, err, seq)
		}
	}
	var got []uint64
	for _, snap := range snapshotsOf(t, s) {
		got = append(got, snap.Seq)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: snapshots %v, want %v", when, got, want)
	}
}

// What the rest of a segment is missing from is only said again: its summary
// knows.
func TestLostAmendment(t *testing.T) {
	setLimits(t, never, never, 500)
	disk := vfstest.NewMem()
	err := session(t.Context(), disk, func(s *Store) error {
		commit(t, s, "a", small)
		if _, err := s.Relabel(t.Context(), 1, strings.Repeat("a label ", 40)); err != nil {
			return err
		}
		commit(t, s, "b", large)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	offs := frameOffsets(t, disk, 1)
	edit(t, disk, layout.SegmentName(1), func(b []byte) []byte { return b[:offs[2]] })
	s := openDamaged(t, disk)
	for range 2 {
		if found := damageOf(t, s); len(found) != 1 || found[0].Path != layout.SegmentName(1) {
			t.Errorf("Check found %v, want segment 1 damaged", found)
		}
		plan, err := s.PlanRepair(t.Context()) // which does not make a summary of what is left
		if err == nil {
			err = s.Repair(t.Context(), plan)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Who has a store open whose journal somebody removes says again what it had, with the next look, and
// goes on behind that: all that it has recorded is there for others.
func TestRemovedUnderWriter(t *testing.T) {
	disk := vfstest.NewMem()
	s := openDamaged(t, disk)
	acks := []acked{commit(t, s, "a", small), commit(t, s, "b", large), commit(t, s, "a", []byte("a"))}
	if err := disk.Remove(layout.SegmentName(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Newest(t.Context(), "", "a"); err != nil || !s.JournalIsSuspect() {
		t.Errorf("it does not show that the journal is removed: %v", err)
	}
	w, err := s.Begin(t.Context()) // which records nothing
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	checkAcked(t, openDamaged(t, disk), acks)
	acks = append(acks, commit(t, s, "a", large), commit(t, s, "b", []byte("b")))
	other := openDamaged(t, disk)
	checkAcked(t, other, acks)
	checkAcked(t, s, acks)
	damage, err := other.JournalDamage()
	if err != nil || len(damage) != 1 || strings.Contains(damage[0].Error(), "lost") {
		t.Errorf("JournalDamage = %v, %v; want what was removed, and no record lost", damage, err)
	}
}

// Who has a store open whose newest segment somebody cuts, or replaces by another file, reads what is
// there, says what is lost, and goes on in a new segment. A copy of the segment is as good as that.
func TestReplacedUnderWriter(t *testing.T) {
	const name = "journal/00000001.log"
	put := func(t *testing.T, disk *vfstest.Mem, name string, b []byte) {
		t.Helper()
		if err := layout.WriteFile(disk, name, b); err != nil {
			t.Fatal(err)
		}
	}
	read := func(t *testing.T, disk *vfstest.Mem) []byte {
		t.Helper()
		b, err := vfs.ReadFile(disk, name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for what, replace := range map[string]func(t *testing.T, disk *vfstest.Mem, backup []byte) (kept int){
		"by a copy": func(t *testing.T, disk *vfstest.Mem, _ []byte) int {
			put(t, disk, name, read(t, disk))
			return 2
		},
		"by a backup": func(t *testing.T, disk *vfstest.Mem, backup []byte) int {
			put(t, disk, name, backup)
			return 1
		},
		"by a backup that another has gone on with": func(t *testing.T, disk *vfstest.Mem, backup []byte) int {
			put(t, disk, name, backup)
			other := openDamaged(t, disk)
			other.Skip(2)
			commit(t, other, "other", []byte("by another"))
			return 1
		},
		"by garbage": func(t *testing.T, disk *vfstest.Mem, _ []byte) int {
			put(t, disk, name, bytes.Repeat([]byte("garbage "), 1000))
			return 0
		},
		"by nothing": func(t *testing.T, disk *vfstest.Mem, _ []byte) int {
			put(t, disk, name, nil)
			return 0
		},
		"by less of itself": func(t *testing.T, disk *vfstest.Mem, backup []byte) int {
			edit(t, disk, name, func(b []byte) []byte { return b[:len(backup)] })
			return 1
		},
	} {
		t.Run(what, func(t *testing.T) {
			disk := vfstest.NewMem()
			s := openDamaged(t, disk)
			acks := []acked{commit(t, s, "a", small)}
			backup := read(t, disk)
			acks = append(acks, commit(t, s, "b", large))
			acks = acks[:replace(t, disk, backup)]

			shows := func(s *Store, when string) {
				t.Helper()
				damage, err := s.JournalDamage()
				lost := len(acks) < 2
				if err != nil || (len(damage) > 0) != lost {
					t.Errorf("%s: JournalDamage of %d records = %v, %v", when, len(acks), damage, err)
				}
				// A gap within a segment nobody sees who does not read it.
				if s.JournalIsSuspect() != lost && !(when == "another" && strings.Contains(what, "gone on")) {
					t.Errorf("%s: JournalIsSuspect = %v", when, !lost)
				}
			}
			checkAcked(t, s, acks)
			if snap, err := s.Newest(t.Context(), "", "b"); (err == nil) != (len(acks) == 2) {
				t.Errorf("Newest = %v, %v", snap, err)
			}
			shows(s, "before the next record")
			acks2 := append(slices.Clone(acks), commit(t, s, "c", []byte("c")), commit(t, s, "a2", []byte("a2")))
			if seq := acks2[len(acks)].seq; seq <= 2 {
				t.Errorf("number %d is given twice", seq)
			}
			for name, s := range map[string]*Store{"the writer": s, "another": openDamaged(t, disk)} {
				checkAcked(t, s, acks2)
				shows(s, name)
			}
		})
	}
}

// A sync that failed ends the segment: the next restates what the last
// promise does not cover, and each snapshot is listed once.
func TestFailedJournalSync(t *testing.T) {
	disk := vfstest.NewMem()
	fault := &vfstest.Fault{At: -1, Err: syscall.EIO}
	var failNext bool
	fault.Trace = func(op, name string) {
		if failNext && op == "Sync" && strings.HasPrefix(name, "journal/") {
			fault.At, failNext = fault.Count(), false
		}
	}
	s, err := OpenFS(t.Context(), vfstest.WithFault(disk, fault), &Options{})
	if err != nil {
		t.Fatal(err)
	}
	acks := []acked{commit(t, s, "a", small), commit(t, s, "b", large)}
	failNext = true
	if _, err := tryCommit(t.Context(), s, "c", []byte("c")); !errors.Is(err, syscall.EIO) {
		t.Errorf("commit whose journal sync fails: %v, want EIO", err)
	}
	acks = append(acks, commit(t, s, "d", []byte("d")))
	if n := len(names(t, disk, "journal", ".log")); n != 2 {
		t.Errorf("%d segments, want 2", n)
	}
	checkAcked(t, s, acks)
	if err := s.Close(); err != nil {
		t.Error(err)
	}

	// What the old segment says after its last promise may be gone.
	crashed := disk.AfterCrash(nil)
	verify(t, crashed, acks, 0)
	offs := frameOffsets(t, disk, 1)
	edit(t, disk, layout.SegmentName(1), func(b []byte) []byte { return b[:offs[3]] }) // the record that was not synced
	verify(t, disk, acks, 0)
}

// A process dies when it has written a record and not synced it. The next sees it and
// builds on it, but cannot sync the segment: the record is said again in the one that
// follows, so that a power cut takes neither.
func TestRecordOfTheDead(t *testing.T) {
	disk := vfstest.NewMem()
	dying := false
	die := &vfstest.Fault{At: -1}
	die.Trace = func(op, name string) {
		if op == "Sync" && strings.HasPrefix(name, "journal/") && dying {
			die.Break()
		}
	}
	dead, err := OpenFS(t.Context(), vfstest.WithFault(disk, die), &Options{})
	if err != nil {
		t.Fatal(err)
	}
	acks := []acked{commit(t, dead, "a", []byte("a"))}
	dying = true
	if _, err := tryCommit(t.Context(), dead, "a", []byte("b")); !errors.Is(err, vfstest.ErrInjected) {
		t.Fatalf("commit of who dies before the sync: %v", err)
	}
	dead.Close()

	once := &vfstest.Fault{At: -1, Err: syscall.EIO}
	once.Trace = func(op, name string) {
		if op == "Sync" && strings.HasPrefix(name, "journal/") && !once.Fired() {
			once.At = once.Count()
		}
	}
	s, err := OpenFS(t.Context(), vfstest.WithFault(disk, once), &Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen, err := s.Newest(t.Context(), "", "a")
	if err != nil || seen.Tree != object.Hash(object.Blob, []byte("b")) {
		t.Fatalf("the newest is %+v, %v", seen, err)
	}
	if _, err := tryCommit(t.Context(), s, "a", []byte("c")); !errors.Is(err, syscall.EIO) {
		t.Errorf("commit whose sync fails: %v, want EIO", err)
	}
	acks = append(acks, acked{"a", seen.Seq, []store.ID{seen.Tree}}, commit(t, s, "a", []byte("c")))
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	verify(t, disk.AfterCrash(nil), acks, 0)
}

// A journal that this version does not know in whole is refused, but for
// fields that say that they may be skipped.
func TestUnknownRecords(t *testing.T) {
	tree := object.Hash(object.Blob, []byte("content 0"))
	body := slices.Clip(journal.AppendField(nil, journal.TagTree, tree[:]))
	for name, test := range map[string]struct {
		kind uint8
		body []byte
		ok   bool
	}{
		"kind 5":                    {5, body, false},
		"kind 255":                  {255, nil, false},
		"field 17 of a snapshot":    {journal.FrameSnapshot, journal.AppendField(body, 17, nil), false},
		"field 66 of a snapshot":    {journal.FrameSnapshot, journal.AppendField(body, 66, []byte("x")), false},
		"field 127 of a snapshot":   {journal.FrameSnapshot, journal.AppendField(body, 127, nil), false},
		"field 129 of a snapshot":   {journal.FrameSnapshot, journal.AppendField(body, 129, []byte("x")), true},
		"field 255 of a snapshot":   {journal.FrameSnapshot, journal.AppendField(body, 255, nil), true},
		"field 66 of pack lengths":  {journal.FramePacks, journal.AppendField(nil, 66, nil), false},
		"field 128 of pack lengths": {journal.FramePacks, journal.AppendField(nil, 128, nil), true},
		"field 70 of a state":       {journal.FrameState, journal.AppendField(nil, 70, nil), false},
		"field 200 of a state":      {journal.FrameState, journal.AppendField(nil, 200, []byte("x")), true},
		"epoch in a snapshot": {journal.FrameSnapshot,
			journal.AppendField(body, journal.TagEpoch, make([]byte, 8)), false},
		"tree field of pack lengths": {journal.FramePacks, body, false},
	} {
		disk, acks, offs := journalOf(t, 1)
		seq := uint64(2)
		if test.kind == journal.FrameState {
			seq = 1 // it repeats the last
		}
		f := journal.Frame{Kind: test.kind, Seq: seq, Durable: uint64(offs[len(offs)-1]), Body: test.body}
		appendTo(t, disk, layout.SegmentName(1), f.Append(nil))
		s, err := OpenFS(t.Context(), disk, &Options{})
		if test.ok {
			if err != nil {
				t.Errorf("%s: OpenFS: %v", name, err)
				continue
			}
			checkAcked(t, s, acks)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			verify(t, disk, acks, 0)
		} else if !errors.Is(err, store.ErrFormat) {
			t.Errorf("%s: OpenFS: %v, want ErrFormat", name, err)
		}
	}
}

// A record too long to be read again must not be written.
func TestRecordTooLong(t *testing.T) {
	testseed.Sequential(t)
	disk := vfstest.NewMem()
	s := openMem(t, disk)
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Commit(t.Context(), &store.Snapshot{Label: strings.Repeat("x", journal.MaxFrameBody)}, 0); err == nil {
		t.Error("Commit of a record that is too long succeeds")
	}
	label := strings.Repeat("x", journal.MaxFrameBody-100)
	if err := w.Commit(t.Context(), &store.Snapshot{Label: label}, 0); err != nil {
		t.Errorf("Commit of a record that just fits: %v", err)
	}
	again := openMem(t, disk.AfterCrash(nil))
	if head, err := again.Newest(t.Context(), "", ""); err != nil || head.Label != label {
		t.Errorf("Newest: %v", err)
	}
}

// With a segment per few commits, sessions are found in old segments, by the
// process that wrote them as by others.
func TestManySegments(t *testing.T) {
	setLimits(t, never, never, 700)
	disk := vfstest.NewMem()
	writer, reader := openMem(t, disk), openMem(t, disk)
	var acks []acked
	for i := range 100 {
		acks = append(acks, commit(t, writer, fmt.Sprint("session ", i*i%37), fmt.Append(nil, "content ", i)))
		if i%10 == 0 {
			checkAcked(t, reader, acks)
		}
	}
	if n := len(names(t, disk, "journal", ".log")); n < 20 {
		t.Errorf("%d segments, want 20 or more", n)
	}
	newest := make(map[string]uint64)
	for _, a := range acks {
		newest[a.session] = a.seq
	}
	for _, s := range []*Store{writer, reader, openMem(t, disk), openMem(t, disk.AfterCrash(nil))} {
		checkAcked(t, s, acks)
		if n := len(snapshotsOf(t, s)); n != len(acks) {
			t.Errorf("%d snapshots, want %d", n, len(acks))
		}
		for session, seq := range newest {
			if head, err := s.Newest(t.Context(), "", session); err != nil || head.Seq != seq {
				t.Errorf("Newest(%q) = %+v, %v; want %d", session, head, err, seq)
			}
		}
		if _, err := s.Newest(t.Context(), "", "none"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Newest of no session: %v, want ErrNotFound", err)
		}
	}
}

// Readers see commits in order and whole while others write and rotate.
func TestConcurrentRefresh(t *testing.T) {
	setLimits(t, never, 2<<10, 900)
	disk := vfstest.NewMem()
	stores := []*Store{openMem(t, disk), openMem(t, disk), openMem(t, disk)}
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for i, s := range stores {
		for k := range 2 {
			writers.Go(func() {
				for n := range 25 {
					if _, err := tryCommit(t.Context(), s, fmt.Sprint(i, k), fmt.Append(nil, i, k, n),
						random(200, byte(n))); err != nil {
						t.Errorf("commit: %v", err)
						return
					}
				}
			})
			readers.Go(func() {
				var last uint64
				for {
					select {
					case <-stop:
						return
					default:
					}
					head, err := s.Newest(t.Context(), "", fmt.Sprint((i+1)%3, k))
					if errors.Is(err, store.ErrNotFound) && last == 0 {
						continue
					}
					if err != nil || head.Seq < last {
						t.Errorf("Newest = %+v, %v after %d", head, err, last)
						return
					}
					last = head.Seq
					if _, err := s.Get(t.Context(), object.Blob, head.Tree); err != nil {
						t.Errorf("Get of the tree of snapshot %d: %v", head.Seq, err)
						return
					}
					for _, err := range s.Snapshots(t.Context()) {
						if err != nil {
							t.Errorf("Snapshots: %v", err)
							return
						}
						break
					}
				}
			})
		}
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if n := len(snapshotsOf(t, stores[0])); n != 150 {
		t.Errorf("%d snapshots, want 150", n)
	}
}
