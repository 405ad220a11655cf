package cas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// Every way to find a snapshot agrees with a list of all, whatever became of
// the summaries.
func TestFindSnapshots(t *testing.T) {
	testseed.Sequential(t)
	for name, spoil := range map[string]func(t *testing.T, disk *vfstest.Mem){
		"summaries": func(t *testing.T, disk *vfstest.Mem) {
			if len(names(t, disk, "journal", ".sum")) < 3 {
				t.Fatal("no summaries to test")
			}
		},
		"without": func(t *testing.T, disk *vfstest.Mem) {
			for _, name := range names(t, disk, "journal", ".sum") {
				if err := disk.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		},
		"damaged": func(t *testing.T, disk *vfstest.Mem) {
			for i, name := range names(t, disk, "journal", ".sum") {
				edit(t, disk, name, func(b []byte) []byte { return flip((10 + i*37) % len(b))(b) })
			}
		},
		"torn": func(t *testing.T, disk *vfstest.Mem) {
			for i, name := range names(t, disk, "journal", ".sum") {
				edit(t, disk, name, func(b []byte) []byte { return b[:min(len(b), i*41)] })
			}
		},
		"of other segments": func(t *testing.T, disk *vfstest.Mem) {
			list := names(t, disk, "journal", ".sum")
			for i, name := range list[1:] {
				other, err := vfs.ReadFile(disk, list[i])
				if err != nil {
					t.Fatal(err)
				}
				edit(t, disk, name, func([]byte) []byte { return other })
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			setLimits(t, never, never, 2000)
			disk := vfstest.NewMem()
			all := manySnapshots(t, disk, 200)
			spoil(t, disk)
			checkFind(t, openMem(t, disk), all)
		})
	}
}

// manySnapshots commits snapshots of several sessions, whose entries and trees
// recur and share prefixes, in several processes.
func manySnapshots(t *testing.T, disk *vfstest.Mem, n int) []*store.Snapshot {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 1))
	var all []*store.Snapshot
	newest := make(map[journal.HeadKey]uint64)
	for len(all) < n {
		err := session(t.Context(), disk, func(s *Store) error {
			w, err := s.Begin(t.Context())
			if err != nil {
				return err
			}
			defer w.Close()
			for range 1 + rng.IntN(20) {
				key := journal.HeadKey{Worktree: fmt.Sprint("w", rng.IntN(2)), Session: fmt.Sprint("s", rng.IntN(5))}
				id, err := w.Put(object.Tree, []byte(fmt.Sprint("tree ", rng.IntN(50))))
				if err != nil {
					return err
				}
				snap := &store.Snapshot{Tree: id, Worktree: key.Worktree, Session: key.Session, Parent: newest[key],
					Base: store.State{Tree: id}, Also: []store.State{{Tree: id, Coverage: id}, {Tree: id}},
					Data: []byte{0, 1, byte(rng.IntN(256))}}
				if rng.IntN(4) > 0 {
					snap.Entry = fmt.Sprintf("entry%05d", rng.IntN(n))[rng.IntN(5):]
				}
				if err := w.Commit(t.Context(), snap, newest[key]); err != nil {
					return err
				}
				newest[key] = snap.Seq
				all = append(all, snap)
				if again := all[max(0, len(all)-1-rng.IntN(6))]; rng.IntN(3) == 0 {
					again.Entry = fmt.Sprintf("again%d", rng.IntN(n))
					if err := s.Amend(t.Context(), again); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func checkFind(t *testing.T, s *Store, all []*store.Snapshot) {
	t.Helper()
	ctx := t.Context()
	for _, want := range all {
		if got, err := s.Snapshot(ctx, want.Seq); err != nil || cmp.Diff(want, got) != "" {
			t.Fatalf("Snapshot(%d): %v\n%s", want.Seq, err, cmp.Diff(want, got))
		}
	}
	for _, seq := range []uint64{0, all[len(all)-1].Seq + 1, 1 << 60} {
		if _, err := s.Snapshot(ctx, seq); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Snapshot(%d): %v, want ErrNotFound", seq, err)
		}
	}
	filter := func(fits func(*store.Snapshot) bool) (seqs []uint64) {
		for i := len(all) - 1; i >= 0; i-- {
			if fits(all[i]) {
				seqs = append(seqs, all[i].Seq)
			}
		}
		return seqs
	}
	for _, prefix := range []string{"entry", "entry0", "entry00012", "ry001", "y", "again", "again1", "entry00012x",
		"nothing"} {
		want := filter(func(s *store.Snapshot) bool { return strings.HasPrefix(s.Entry, prefix) })
		if diff := cmp.Diff(want, seqsOf(t, s.ByEntry(ctx, prefix))); diff != "" {
			t.Errorf("ByEntry(%q) (-want +got):\n%s", prefix, diff)
		}
	}
	for _, snap := range all[:20] {
		for _, n := range []int{0, 1, 2, 5, 16, 17, 64} {
			prefix := snap.Tree.String()[:n]
			want := filter(func(s *store.Snapshot) bool { return strings.HasPrefix(s.Tree.String(), prefix) })
			if diff := cmp.Diff(want, seqsOf(t, s.ByTree(ctx, prefix))); diff != "" {
				t.Errorf("ByTree(%q) (-want +got):\n%s", prefix, diff)
			}
		}
	}
	for _, bad := range []string{"xyz", strings.Repeat("0", 65), "ABCD"} {
		if got := seqsOf(t, s.ByTree(ctx, bad)); got != nil {
			t.Errorf("ByTree(%q) = %v, want none", bad, got)
		}
	}
	seen := make(map[journal.HeadKey]bool)
	want := filter(func(s *store.Snapshot) bool {
		key := journal.HeadKey{Worktree: s.Worktree, Session: s.Session}
		defer func() { seen[key] = true }()
		return !seen[key]
	})
	if diff := cmp.Diff(want, seqsOf(t, s.Sessions(ctx))); diff != "" {
		t.Errorf("Sessions (-want +got):\n%s", diff)
	}
	for key := range seen {
		want := filter(func(s *store.Snapshot) bool {
			return key == journal.HeadKey{Worktree: s.Worktree, Session: s.Session}
		})[0]
		if got, err := s.Newest(ctx, key.Worktree, key.Session); err != nil || got.Seq != want {
			t.Errorf("Newest(%v) = %v, %v; want %d", key, got, err, want)
		}
	}
	for _, worktree := range []string{"w0", "w1"} {
		want := filter(func(s *store.Snapshot) bool { return s.Worktree == worktree })[0]
		if got, err := s.Newest(ctx, worktree, journal.AnySession); err != nil || got.Seq != want {
			t.Errorf("Newest(%v) of any session = %v, %v; want %d", worktree, got, err, want)
		}
	}
	if got := filter(func(*store.Snapshot) bool { return true }); cmp.Diff(got, seqsOf(t, s.Snapshots(ctx))) != "" {
		t.Errorf("Snapshots (-want +got):\n%s", cmp.Diff(got, seqsOf(t, s.Snapshots(ctx))))
	}
	for snap := range s.Snapshots(ctx) {
		if want := all[slices.IndexFunc(all, func(s *store.Snapshot) bool { return s.Seq == snap.Seq })]; cmp.Diff(want,
			snap) != "" {
			t.Errorf("Snapshots yields (-want +got):\n%s", cmp.Diff(want, snap))
		}
	}
	if _, err := s.Newest(ctx, "w0", "nobody"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Newest of no session: %v, want ErrNotFound", err)
	}
}

func seqsOf(t *testing.T, list iter.Seq2[*store.Snapshot, error]) (seqs []uint64) {
	t.Helper()
	for s, err := range list {
		if err != nil {
			t.Error(err)
			continue
		}
		seqs = append(seqs, s.Seq)
	}
	return seqs
}

// What is said again after damage is found once, and what is damaged is
// missed without an error: the journal's check tells.
func TestFindAfterDamage(t *testing.T) {
	setLimits(t, never, never, 20000)
	disk := vfstest.NewMem()
	all := manySnapshots(t, disk, 60)
	seg := names(t, disk, "journal", ".log")
	gone := uint64(0)
	edit(t, disk, seg[len(seg)-1], func(b []byte) []byte {
		first, _ := journal.ParseFrame(b[layout.HeaderSize:])
		said := make(map[uint64]int)
		for at := layout.HeaderSize; at < len(b); {
			f, _ := journal.ParseFrame(b[at:])
			said[f.Seq]++
			at += int(f.Size())
		}
		for at := layout.HeaderSize; at < len(b); {
			f, ok := journal.ParseFrame(b[at:])
			if ok && f.Kind == journal.FrameSnapshot && f.Seq > first.Seq && said[f.Seq] == 1 {
				gone = f.Seq
				b[at+journal.FrameHeaderSize+3] ^= 1
				break
			}
			at += int(f.Size())
		}
		return b
	})
	err := session(t.Context(), disk, func(s *Store) error { // closes the segment
		snap := &store.Snapshot{Tree: all[0].Tree, Worktree: "other"}
		w, err := s.Begin(context.Background())
		if err != nil {
			return err
		}
		err = w.Commit(t.Context(), snap, 0)
		all = append(all, snap)
		return errors.Join(err, w.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	s := openDamaged(t, disk)
	for _, snap := range all {
		got, err := s.Snapshot(t.Context(), snap.Seq)
		if snap.Seq == gone {
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("damaged snapshot %d: %v, want ErrNotFound", gone, err)
			}
			continue
		}
		if err != nil || got.Seq != snap.Seq {
			t.Errorf("Snapshot(%d): %v", snap.Seq, err)
		}
	}
	want := len(all) - 1
	if got := len(seqsOf(t, s.ByTree(t.Context(), ""))); got != want {
		t.Errorf("ByTree finds %d snapshots, want %d", got, want)
	}
}

// Finding one snapshot reads little, however many there are.
func TestFindReadsLittle(t *testing.T) {
	testseed.Sequential(t)
	setLimits(t, never, never, 2000)
	disk := vfstest.NewMem()
	all := manySnapshots(t, disk, 2000)
	s := openMem(t, disk)
	var reads int
	s.fsys = vfstest.WithFault(disk, &vfstest.Fault{At: -1, Trace: func(op, name string) {
		if op == "ReadAt" {
			reads++
		}
	}})
	s.j.Fsys = s.fsys
	if _, err := s.Snapshot(t.Context(), all[10].Seq); err != nil {
		t.Fatal(err)
	}
	if limit := 24; reads > limit { // summaries of a binary search, and a segment
		t.Errorf("finding an old snapshot among %d segments took %d reads, want at most %d",
			len(names(t, disk, "journal", ".log")), reads, limit)
	}
}

// FuzzSummary checks that a summary is read as it was written or not at all.
func FuzzSummary(f *testing.F) {
	sum := &journal.Summary{Base: 2, Last: 9, Recs: []journal.RecordRef{{Seq: 3, Off: 64}, {Seq: 9, Off: 200}},
		Entries: []journal.KeyRef{{Key: 7, Rec: 1}}, Trees: []journal.KeyRef{{Key: 1, Rec: 0}, {Key: 2, Rec: 1}},
		Lines: []journal.KeyRef{{Key: 5, Rec: 1}}}
	addSeeds(f, sum.Append(nil, v1Store, 4, 1000))
	f.Add((&journal.Summary{}).Append(nil, v1Store, 4, 1000))
	f.Fuzz(func(t *testing.T, b []byte) {
		// The checksums are mended, so that what is behind them is reached.
		b = withSum(b, 60)
		if len(b) > layout.HeaderSize+4 {
			b = withSum(b, len(b)-4)
		}
		got, err := journal.ParseSummary(b, v1Store, 4, 1000)
		if err != nil {
			return
		}
		again := got.Append(nil, v1Store, 4, 1000)
		if string(again) != string(b) {
			t.Errorf("two encodings of one summary:\n%x\n%x", b, again)
		}
		for _, refs := range [][]journal.KeyRef{got.Entries, got.Trees, got.Lines} {
			for range got.Between(refs, 0, ^uint64(0)) {
			}
		}
	})
}

// A summary that no longer fits its segment does not change what is found: the
// newest record that is whole.
func TestSummaryOfDamage(t *testing.T) {
	setLimits(t, never, never, 700)
	disk := vfstest.NewMem()
	all := manySnapshots(t, disk, 40)
	segs := names(t, disk, "journal", ".log")
	seg := segs[len(segs)/2]
	var gone []uint64
	edit(t, disk, seg, func(b []byte) []byte {
		for at := layout.HeaderSize; at < len(b); {
			f, _ := journal.ParseFrame(b[at:])
			if f.Kind == journal.FrameSnapshot {
				gone = append(gone, f.Seq)
				b[at+journal.FrameHeaderSize+5] ^= 1
			}
			at += int(f.Size())
		}
		return b
	})
	for _, with := range []bool{true, false} {
		if !with {
			for _, name := range names(t, disk, "journal", ".sum") {
				if err := disk.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		}
		// Each question to a store that has not noticed yet.
		found := len(seqsOf(t, openDamaged(t, disk).ByTree(t.Context(), "")))
		if found >= len(all) || found < len(all)-len(gone) {
			t.Errorf("with summaries %v: ByTree finds %d of %d, %d are damaged", with, found, len(all), len(gone))
		}
		seqsOf(t, openDamaged(t, disk).Sessions(t.Context()))
		for _, snap := range all {
			s := openDamaged(t, disk)
			if _, err := s.Snapshot(t.Context(), snap.Seq); err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("with summaries %v: Snapshot(%d): %v", with, snap.Seq, err)
			}
			s = openDamaged(t, disk)
			if _, err := s.Newest(t.Context(), snap.Worktree, snap.Session); err != nil &&
				!errors.Is(err, store.ErrNotFound) {
				t.Errorf("with summaries %v: Newest: %v", with, err)
			}
		}
	}
}

// What is said again must be what happened, and its objects hang on no record
// but its own.
func TestAmend(t *testing.T) {
	disk := vfstest.NewMem()
	s := openDamaged(t, disk)
	a := commit(t, s, "", []byte("content"))
	snap, err := s.Snapshot(t.Context(), a.seq)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*store.Snapshot){
		"no number":      func(s *store.Snapshot) { s.Seq = 0 },
		"a later number": func(s *store.Snapshot) { s.Seq = 1000 },
		"another tree":   func(s *store.Snapshot) { s.Tree[0]++ },
		"session":        func(s *store.Snapshot) { s.Session = "other" },
		"more states":    func(s *store.Snapshot) { s.Also = append(s.Also, store.State{}) },
	} {
		other := *snap
		change(&other)
		if err := s.Amend(t.Context(), &other); err == nil {
			t.Errorf("%s: Amend says nothing", name)
		}
	}
	snap.Entry = "entry"
	if err := s.Amend(t.Context(), snap); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, disk, layout.SegmentName(1), func(b []byte) []byte { // the first version
		for at := layout.HeaderSize; at < len(b); {
			f, _ := journal.ParseFrame(b[at:])
			if f.Kind == journal.FrameSnapshot {
				b[at+journal.FrameHeaderSize+5] ^= 1
				break
			}
			at += int(f.Size())
		}
		return b
	})
	s = openDamaged(t, disk)
	got, err := s.Newest(t.Context(), "", a.session)
	if err != nil || got.Entry != "entry" {
		t.Fatalf("Newest = %+v, %v", got, err)
	}
	if _, err := s.Get(t.Context(), object.Blob, a.ids[0]); err != nil {
		t.Errorf("its object: %v", err)
	}
}

// What is said again soon costs no sync: the next record's makes it durable, in this
// process or another, and before a segment ends. Others see it at once. A power cut before
// that leaves the record as it was, or the new one, and nothing that looks damaged.
func TestAmendSoon(t *testing.T) {
	for _, next := range []string{"none", "a record", "another process", "a segment"} {
		t.Run(next, func(t *testing.T) {
			if next == "a segment" {
				setLimits(t, never, never, 400)
			}
			disk := vfstest.NewMem()
			tr := new(tracer)
			s := openMem(t, vfstest.WithFault(disk, &vfstest.Fault{At: -1, Trace: tr.trace}))
			first := commit(t, s, "a", small)
			snap, err := s.Snapshot(t.Context(), first.seq)
			if err != nil {
				t.Fatal(err)
			}
			tr.take()
			for _, entry := range []string{"never", "entry"} {
				again := *snap
				again.Entry = entry
				if err := s.AmendSoon(t.Context(), &again); err != nil {
					t.Fatal(err)
				}
			}
			if ops := tr.take(); strings.Contains(ops, "Sync") {
				t.Errorf("it was synced:\n%s", ops)
			}
			other := openMem(t, vfstest.WithFault(disk, &vfstest.Fault{At: -1, Trace: tr.trace}))
			if got, err := other.Newest(t.Context(), "", "a"); err != nil || got.Entry != "entry" {
				t.Errorf("another process sees %+v, %v", got, err)
			}
			tr.take()
			acks := []acked{first}
			switch next {
			case "another process":
				acks = append(acks, commit(t, other, "b", large), commit(t, s, "d", large))
			case "a record", "a segment":
				acks = append(acks, commit(t, s, "b", large))
			}
			syncs := map[string]int{"none": 0, "a record": 1, "another process": 4, "a segment": 2}[next]
			if ops := tr.take(); strings.Count(ops, "Sync journal/") != syncs {
				t.Errorf("the journal was not synced %d times:\n%s", syncs, ops)
			}
			for seed := range uint64(20) {
				left := disk.AfterCrash(rand.New(rand.NewPCG(seed, 0)))
				s := openMem(t, left)
				checkAcked(t, s, acks)
				got, err := s.Snapshot(t.Context(), first.seq)
				if err != nil || got.Entry != "entry" && next != "none" {
					t.Errorf("after power cut %d: %+v, %v", seed, got, err)
				}
				checkAcked(t, s, append(acks, commit(t, s, "c", []byte("later"))))
			}
		})
	}
}

// Who closed a segment may be killed before it has written the summary: who records something next makes it,
// and nobody who reads does. Of a segment that is damaged it is left to a repair.
func TestSummaryMissing(t *testing.T) {
	setLimits(t, never, never, 700)
	disk := vfstest.NewMem()
	manySnapshots(t, disk, 40)
	sums := names(t, disk, "journal", ".sum")
	first, middle, last := sums[0], sums[len(sums)/2], sums[len(sums)-1]
	hurt := strings.TrimSuffix(middle, ".sum") + ".log"
	was := make(map[string][]byte)
	for _, name := range []string{first, middle, last} {
		was[name] = readAll(t, disk, name)
		if err := disk.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	edit(t, disk, hurt, flip(layout.HeaderSize+journal.FrameHeaderSize+5))
	missing := func(name string) bool {
		_, err := disk.Stat(name)
		return errors.Is(err, fs.ErrNotExist)
	}
	s := openDamaged(t, disk)
	if _, err := s.Check(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Snapshot(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if !missing(first) || !missing(last) {
		t.Error("who reads makes a summary")
	}
	var made []string
	x := openDamaged(t, vfstest.WithFault(disk, &vfstest.Fault{At: -1, Trace: func(op, name string) {
		if op == "Rename" && strings.HasSuffix(name, ".sum") {
			made = append(made, name)
		}
	}}))
	commit(t, x, "next", []byte("something"))
	for _, name := range []string{first, last} {
		if missing(name) {
			t.Errorf("%s is not made again", name)
		} else if !bytes.Equal(readAll(t, disk, name), was[name]) {
			t.Errorf("%s is not as it was", name)
		}
	}
	if !missing(middle) {
		t.Errorf("%s is made again, whose segment is damaged", middle)
	}
	n := len(made)
	commit(t, x, "after it", []byte("something else"))
	if more := len(made) - n; more > 1 { // it may close a segment
		t.Errorf("the next one makes %d", more)
	}
}
