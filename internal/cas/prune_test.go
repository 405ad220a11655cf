package cas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// A library knows what the snapshots of a test need, by their trees.
type library struct {
	mu    sync.Mutex // guards needs
	needs map[store.ID][][]byte
}

// commit puts blobs and commits a snapshot whose tree is the first. Like
// [tryCommit] it may have succeeded even if it fails.
func (l *library) commit(ctx context.Context, s *Store, session string, blobs ...[]byte) (acked, error) {
	l.add(blobs)
	return tryCommit(ctx, s, session, blobs...)
}

func (l *library) add(blobs [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.needs == nil {
		l.needs = make(map[store.ID][][]byte)
	}
	tree := object.Hash(object.Blob, blobs[0])
	l.needs[tree] = append(l.needs[tree], blobs...)
}

func (l *library) mark(_ context.Context, live *Live, snap *store.Snapshot) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	blobs, ok := l.needs[snap.Tree]
	if !ok {
		return fmt.Errorf("tree %s: %w", snap.Tree.Short(), store.ErrNotFound)
	}
	for i, b := range blobs {
		live.At("", fmt.Sprint(i))
		if err := live.AddBlob(object.Hash(object.Blob, b), int64(len(b))); err != nil &&
			!errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

// prune drops the snapshots that are not to be kept.
func (l *library) prune(ctx context.Context, s *Store,
	keep func(*store.Snapshot) bool) (*PrunePlan, *PruneResult, error) {
	plan, err := s.PlanPrune(ctx, &PruneOptions{Mark: l.mark, Wait: 20 * time.Millisecond,
		Drop: func(snap *store.Snapshot) bool { return !keep(snap) }})
	if err != nil {
		return nil, nil, err
	}
	r, err := s.Prune(ctx, plan)
	return plan, r, err
}

func (l *library) mustCommit(t *testing.T, s *Store, session string, blobs ...[]byte) acked {
	t.Helper()
	a, err := l.commit(t.Context(), s, session, blobs...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// checkPruned requires that a snapshot says what it was, and that its tree cannot
// be had.
func checkPruned(t *testing.T, s *Store, a acked) {
	t.Helper()
	snap, err := s.Snapshot(t.Context(), a.seq)
	if err != nil || !snap.Pruned || snap.Session != a.session || snap.Tree == a.ids[0] || snap.Tree.IsZero() {
		t.Errorf("snapshot %d: %+v, %v; want it pruned", a.seq, snap, err)
		return
	}
	if _, err := s.Get(t.Context(), object.Tree, snap.Tree); !errors.Is(err, store.ErrPruned) {
		t.Errorf("tree of snapshot %d: %v, want ErrPruned", a.seq, err)
	}
	if all := snapshotsOf(t, s)[a.seq]; !reflect.DeepEqual(all, snap) {
		t.Errorf("Snapshots has %+v, Snapshot %+v", all, snap)
	}
}

func TestPruneFrees(t *testing.T) {
	testseed.Sequential(t)
	setLimits(t, never, 1, never) // a pack for each commit
	disk := vfstest.NewMem()
	lib := new(library)
	s := openMem(t, disk)
	big := random(pack.MinChunked+200<<10, 9)
	old := lib.mustCommit(t, s, "old", []byte("old tree"), random(50<<10, 1), small, big)
	again := slices.Clone(big) // another list of mostly the same chunks
	copy(again, "changed")
	both := lib.mustCommit(t, s, "both", []byte("second tree"), random(50<<10, 2), small, again)
	lib.mustCommit(t, s, "old", []byte("third tree"), random(90<<10, 3))
	s.waitSealed()
	before := sizeOf(t, disk, "packs")

	plan, r, err := lib.prune(t.Context(), s, func(snap *store.Snapshot) bool { return snap.Session == "both" })
	if err != nil {
		t.Fatal(err)
	}
	if plan.Kept != 1 || !slices.Equal(plan.Dropped, []uint64{1, 3}) || r.Dropped != 2 || len(r.Kept) > 0 {
		t.Errorf("plan %+v, result %+v; want snapshots 1 and 3 dropped", plan, r)
	}
	after := sizeOf(t, disk, "packs")
	if freed := before - after; freed < 140<<10 || freed < r.Freed-64<<10 || freed > r.Freed+64<<10 {
		t.Errorf("%d bytes before, %d after: %d freed, the result says %d", before, after, freed, r.Freed)
	}
	checkPruned(t, s, old)
	checkAcked(t, s, []acked{both})
	for _, id := range old.ids[:2] {
		if ok, err := s.Has(id); ok || err != nil {
			t.Errorf("Has(%s) = %v, %v after it was pruned", id.Short(), ok, err)
		}
	}
	// What has gone can be stored again.
	now := lib.mustCommit(t, s, "old", []byte("old tree"), random(50<<10, 1), small, big)
	checkAcked(t, s, []acked{both, now})
	s = openMem(t, disk)
	checkPruned(t, s, old)
	checkAcked(t, s, []acked{both, now})
	checkClean(t, s)
}

func sizeOf(t *testing.T, fsys vfs.FS, dir string) (size int64) {
	t.Helper()
	for _, name := range names(t, fsys, dir, "") {
		st, err := fsys.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		size += st.Size
	}
	return size
}

// A list of chunks whose chunks are gone would be taken for the blob: it goes
// with them, or they stay with it, where little else of its pack is dead.
func TestPruneChunkLists(t *testing.T) {
	testseed.Sequential(t)
	for _, c := range []struct {
		maxCopy int64
		sealed  bool // the pack that holds the list
		beside  int  // bytes that live in that pack
		stays   bool
	}{{0, false, 8 << 20, false}, {0, false, 20 << 20, true}, {1, false, 8 << 20, true}, {1, true, 8 << 20, true}} {
		maxCopy := c.maxCopy
		setLimits(t, 1, never, never) // a pack for each chunk
		disk := vfstest.NewMem()
		lib := new(library)
		big := random(3<<20, 9)
		var kept acked
		err := session(t.Context(), disk, func(s *Store) error {
			w, err := s.Begin(t.Context())
			if err != nil {
				return err
			}
			// But for the last, which are with the list.
			for rest := big; len(rest) > pack.MaxChunk; rest = rest[pack.CutPoint(rest):] {
				if _, err := w.Put(object.Blob, rest[:pack.CutPoint(rest)]); err != nil {
					return err
				}
			}
			pack.SealSizeMax = never
			if _, _, err := w.PutReader(bytes.NewReader(big)); err != nil {
				return err
			}
			kept = lib.mustCommit(t, s, "kept", []byte("kept"), random(c.beside, 7)) // and so is this, most of the pack
			if c.sealed {
				s.Seal()
			}
			return w.Close()
		})
		if err != nil {
			t.Fatal(err)
		}
		s := openMem(t, disk)
		plan, err := s.PlanPrune(t.Context(), &PruneOptions{Mark: lib.mark, MaxCopy: maxCopy})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Prune(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
		w, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ok, err := w.Has(object.Hash(object.Blob, big))
		if err != nil || ok != c.stays {
			t.Errorf("%+v: Has = %v, %v", c, ok, err)
		}
		if ok {
			checkBlob(t, s, object.Hash(object.Blob, big))
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		checkAcked(t, s, []acked{kept})
		checkClean(t, s)
	}
}

// A list of chunks that was stored behind the plan, by a writer that has recorded no
// snapshot, keeps the chunks that it has found in a pack that goes: who finds the
// list counts on them.
func TestPruneNewChunkList(t *testing.T) {
	testseed.Sequential(t)
	setLimits(t, never, 1, never) // a pack for each commit
	disk := vfstest.NewMem()
	lib := new(library)
	s, other := openMem(t, disk), openMem(t, disk)
	big := random(pack.MinChunked+200<<10, 9)
	lib.mustCommit(t, s, "old", []byte("old tree"), big)
	kept := lib.mustCommit(t, s, "kept", []byte("kept tree"), small)
	s.waitSealed()
	plan, err := s.PlanPrune(t.Context(), &PruneOptions{Mark: lib.mark, Wait: 20 * time.Millisecond,
		Drop: func(snap *store.Snapshot) bool { return snap.Seq != kept.seq }})
	if err != nil {
		t.Fatal(err)
	}
	again := slices.Clone(big) // mostly the same chunks
	copy(again, "changed")
	w, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id, _, err := w.PutReader(bytes.NewReader(again))
	if added := w.Stats().Bytes; err == nil && added > int64(len(again))/2 {
		err = fmt.Errorf("%d bytes are stored of %d: it has few chunks of the other", added, len(again))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Prune(t.Context(), plan); err != nil || r.Packs == 0 {
		t.Fatalf("prune: %+v, %v", r, err)
	}
	for _, s := range []*Store{s, other, openMem(t, disk)} {
		if ok, err := s.Has(id); !ok || err != nil {
			t.Errorf("Has = %v, %v", ok, err)
		}
		checkBlob(t, s, id)
		checkAcked(t, s, []acked{kept})
		checkClean(t, s)
	}
}

// A prune gives up if somebody does not leave, and then all is as it was.
func TestPruneBusy(t *testing.T) {
	setLimits(t, never, 1, never)
	disk := vfstest.NewMem()
	lib := new(library)
	s, other := openMem(t, disk), openMem(t, disk)
	a := lib.mustCommit(t, s, "a", []byte("a"), random(50<<10, 1))
	lib.mustCommit(t, s, "a", []byte("b"), random(50<<10, 2))
	w, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	keepB := func(snap *store.Snapshot) bool { return snap.Seq != a.seq }
	if _, _, err := lib.prune(t.Context(), s, keepB); !errors.Is(err, ErrBusy) {
		t.Fatalf("prune beside a writer: %v, want ErrBusy", err)
	}
	checkAcked(t, s, []acked{a})
	// It counts on what it has found, in whatever epoch.
	if ok, err := w.Has(a.ids[1]); !ok || err != nil {
		t.Errorf("Has = %v, %v", ok, err)
	}
	lib.add([][]byte{[]byte("c"), random(50<<10, 1)})
	if _, err := w.Put(object.Blob, []byte("c")); err != nil {
		t.Error(err)
	}
	c := &store.Snapshot{Session: "c", Tree: object.Hash(object.Blob, []byte("c"))}
	if err := w.Commit(t.Context(), c, 0); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := lib.prune(t.Context(), s, keepB); err != nil {
		t.Fatal(err)
	}
	snapshotsOf(t, other) // what others have done since
	checkPruned(t, other, a)
	checkAcked(t, other, []acked{{"c", c.Seq, []store.ID{c.Tree, a.ids[1]}}})
	checkClean(t, other)
}

// A plan is done as it was made, or not at all.
func TestPruneOldPlan(t *testing.T) {
	setLimits(t, never, 1, never)
	lib := new(library)
	s := openMem(t, vfstest.NewMem())
	a := lib.mustCommit(t, s, "a", []byte("a"), random(50<<10, 1))
	b := lib.mustCommit(t, s, "b", []byte("b"), random(50<<10, 2))
	drop := func(seq uint64) *PrunePlan {
		plan, err := s.PlanPrune(t.Context(), &PruneOptions{Mark: lib.mark,
			Drop: func(snap *store.Snapshot) bool { return snap.Seq == seq }})
		if err != nil {
			t.Fatal(err)
		}
		return plan
	}
	first, second := drop(a.seq), drop(b.seq)
	c := lib.mustCommit(t, s, "c", []byte("c"), random(50<<10, 1)) // what a has
	if _, err := s.Prune(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prune(t.Context(), second); err == nil {
		t.Error("a plan from before another prune was done")
	}
	checkPruned(t, s, a)
	checkAcked(t, s, []acked{b, c})
	checkClean(t, s)
}

// What a pruned snapshot named cannot be built upon.
func TestCommitOnPruned(t *testing.T) {
	setLimits(t, never, 1, never)
	lib := new(library)
	s := openMem(t, vfstest.NewMem())
	a := lib.mustCommit(t, s, "a", []byte("a"), random(50<<10, 1))
	s.waitSealed()
	if _, _, err := lib.prune(t.Context(), s, func(*store.Snapshot) bool { return false }); err != nil {
		t.Fatal(err)
	}
	old, err := s.Snapshot(t.Context(), a.seq)
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Commit(t.Context(), &store.Snapshot{Tree: object.Hash(object.Tree, nil), Base: old.State()},
		0); !errors.Is(err, store.ErrPruned) {
		t.Errorf("Commit: %v, want ErrPruned", err)
	}
	old.Label = "late"
	if err := s.Amend(t.Context(), old); !errors.Is(err, store.ErrPruned) {
		t.Errorf("Amend: %v, want ErrPruned", err)
	}
}

// Each operation of a prune fails in turn, once or for good; with the power, or
// not. What stays is there, what goes is whole or gone, and the next prune
// does the rest.
func TestPruneFaults(t *testing.T) {
	testseed.Sequential(t)
	setLimits(t, never, 8<<10, 500)
	step, rnd := stride(17, 29), testseed.Rand(t)
	for _, sticky := range []bool{false, true} {
		for at := rnd.Int64N(step); pruneFaultAt(t, at, sticky) && !t.Failed(); at += step {
		}
	}
}

func pruneFaultAt(t *testing.T, at int64, sticky bool) bool {
	t.Helper()
	disk := vfstest.NewMem()
	lib := new(library)
	var kept, dropped []acked
	err := session(t.Context(), disk, func(s *Store) error {
		for i := range 6 {
			name := []string{"old", "kept"}[i%2]
			a := lib.mustCommit(t, s, name, fmt.Append(nil, "tree ", i), random(3<<10, byte(i)),
				random(5<<10, byte(100+i/2)), small)
			if name == "kept" {
				kept = append(kept, a)
			} else {
				dropped = append(dropped, a)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	keep := func(snap *store.Snapshot) bool { return snap.Session == "kept" }
	fault := &vfstest.Fault{At: at, Sticky: sticky, Err: syscall.EIO}
	err = session(t.Context(), vfstest.WithFault(disk, fault), func(s *Store) error {
		_, _, err := lib.prune(t.Context(), s, keep)
		return err
	})
	if !fault.Fired() && err != nil {
		t.Errorf("without a fault: %v", err)
	}
	if err == nil && sticky && fault.Fired() {
		t.Errorf("operation %d: no error", at)
	}
	for i, left := range []*vfstest.Mem{disk.AfterCrash(nil), disk.AfterCrash(rand.New(rand.NewPCG(uint64(at), 1))),
		disk} {
		s, err := OpenFS(t.Context(), left, &Options{})
		if err != nil {
			t.Fatal(err)
		}
		checkClean(t, s)
		checkAcked(t, s, kept)
		for _, a := range dropped {
			if snap, err := s.Snapshot(t.Context(), a.seq); err != nil {
				t.Error(err)
			} else if snap.Pruned {
				checkPruned(t, s, a)
			} else {
				checkAcked(t, s, []acked{a})
			}
		}
		more := lib.mustCommit(t, s, "kept", []byte("more"), random(3<<10, 0), random(5<<10, 101))
		if _, _, err := lib.prune(t.Context(), s, keep); err != nil {
			t.Errorf("the next prune: %v", err)
		}
		checkClean(t, s)
		checkAcked(t, s, append(kept[:len(kept):len(kept)], more))
		for _, a := range dropped {
			checkPruned(t, s, a)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Fatalf("fault at operation %d, sticky=%v, disk %d: prune returned %v", at, sticky, i, err)
		}
	}
	return fault.Fired()
}

// Several processes capture, each the same few contents again and again, while
// one prunes.
func TestPruneBesideWriters(t *testing.T) {
	setLimits(t, 64<<10, 16<<10, 3000)
	dir := t.TempDir()
	lib := new(library)
	const each = 20 // snapshots at least between two prunes
	stop, pace := make(chan struct{}), make(chan struct{}, 2*each)
	var wg sync.WaitGroup
	var mu sync.Mutex // guards acks and gone
	var acks []acked
	gone := make(map[uint64]bool)
	for i := range 3 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			s, err := Open(t.Context(), dir, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-pace: // or a slow prune has ever more to do
				}
				blobs := [][]byte{fmt.Appendf(nil, "tree %d %d", i, n)}
				for range 1 + r.IntN(3) {
					seed := byte(r.IntN(30))
					blobs = append(blobs, random(int(seed)*300+1, seed))
				}
				a, err := lib.commit(t.Context(), s, fmt.Sprint(i), blobs...)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acks = append(acks, a)
				mu.Unlock()
				if n%20 == 0 { // some counted on long before
					for _, id := range a.ids {
						checkBlob(t, s, id)
					}
				}
			}
		})
	}
	pruner, err := Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	rounds := 12
	if testing.Short() {
		rounds = 10
	}
	freed := int64(0)
	for round := range rounds {
		for range cap(pace) - len(pace) { // some of them beside the prune
			pace <- struct{}{}
		}
		mu.Lock()
		n := len(acks)
		mu.Unlock()
		for n < each*(round+1) {
			time.Sleep(time.Millisecond)
			mu.Lock()
			n = len(acks)
			mu.Unlock()
		}
		plan, err := pruner.PlanPrune(t.Context(), &PruneOptions{Mark: lib.mark,
			Drop: func(snap *store.Snapshot) bool { return snap.Seq*7%10 < 8 && round%2 == 0 }})
		if err != nil {
			t.Fatal(err)
		}
		r, err := pruner.Prune(t.Context(), plan)
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		for _, seq := range plan.Dropped {
			gone[seq] = true
		}
		mu.Unlock()
		freed += r.Freed
	}
	close(stop)
	wg.Wait()
	if err := pruner.Close(); err != nil {
		t.Error(err)
	}
	s, err := Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var kept []acked
	for _, a := range acks {
		if !gone[a.seq] {
			kept = append(kept, a)
		}
	}
	t.Logf("%d snapshots, %d pruned in %d rounds, %d bytes freed", len(acks), len(gone), rounds, freed)
	checkAcked(t, s, kept)
	checkClean(t, s)
	if freed == 0 || len(gone) == 0 {
		t.Error("nothing was pruned")
	}
}

// Who looks at the packs while a prune takes some away does not take one in again, and
// make the index of what goes: nothing of it is left.
func TestPruneBesideReaders(t *testing.T) {
	setLimits(t, never, 1, never) // a pack for each commit
	disk := vfstest.NewMem()
	lib := new(library)
	err := session(t.Context(), disk, func(s *Store) error {
		lib.mustCommit(t, s, "old", []byte("old tree"), random(50<<10, 1))
		lib.mustCommit(t, s, "kept", []byte("kept tree"), large)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	readers := []*Store{openMem(t, disk), openMem(t, disk)}
	looked := 0
	fault := &vfstest.Fault{At: -1, Trace: func(op, name string) {
		if op != "Remove" || !strings.HasPrefix(name, "packs/") || looked == len(readers) {
			return
		}
		if _, err := readers[looked].Has(object.Hash(object.Blob, large)); err != nil {
			t.Error(err)
		}
		looked++
	}}
	s := openMem(t, vfstest.WithFault(disk, fault))
	if _, r, err := lib.prune(t.Context(), s,
		func(snap *store.Snapshot) bool { return snap.Session == "kept" }); err != nil || r.Packs != 1 {
		t.Fatalf("prune: %+v, %v", r, err)
	}
	if looked != len(readers) {
		t.Errorf("%d readers have looked, want %d", looked, len(readers))
	}
	name := only(t, disk, "packs", ".pack")
	if index := only(t, disk, "packs", ".idx"); strings.TrimSuffix(index, ".idx") != strings.TrimSuffix(name, ".pack") {
		t.Errorf("left are %s and %s", name, index)
	}
}

// A store of the first format is one of the second once it is pruned, and not
// before.
func TestPruneUpgrades(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(v1, "store"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range storeDirs {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
	text := func() string {
		b, err := os.ReadFile(filepath.Join(dir, layout.FormatName))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	before := text()
	s, err := Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	commit(t, s, "new", []byte("new"))
	if text() != before {
		t.Errorf("FORMAT is %s after a commit, was %s", text(), before)
	}
	opts := &PruneOptions{Drop: func(snap *store.Snapshot) bool { return snap.Session != "new" },
		Mark: func(_ context.Context, live *Live, snap *store.Snapshot) error { live.Add(snap.Tree); return nil }}
	// the sample says that it needs a feature of the future
	if _, err := s.PlanPrune(t.Context(), opts); !errors.Is(err, store.ErrFormat) {
		t.Errorf("plan of a prune that needs a feature: %v, want ErrFormat", err)
	}
	if err := change(t.Context(), s.fsys,
		func(f *format) bool { f.Features.Prune = []string{}; return true }); err != nil {
		t.Fatal(err)
	}
	plan, err := s.PlanPrune(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prune(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	if f, err := readFormat(s.fsys); err != nil || f.Format != 2 || f.ID != s.ID() {
		t.Errorf("FORMAT is %s, %v; want version 2", text(), err)
	}
	checkClean(t, s)
	checkBlob(t, s, object.Hash(object.Blob, []byte("new")))
}

func TestSeqSet(t *testing.T) {
	var s journal.SeqSet
	for _, seq := range []uint64{1, 2, 5, 9, 10, 12} {
		s.Add(seq, seq == 9)
	}
	if want := (journal.SeqSet{{From: 1, To: 2}, {From: 5, To: 10}, {From: 12, To: 12}}); !reflect.DeepEqual(s, want) {
		t.Fatalf("%v, want %v", s, want)
	}
	for seq := range uint64(14) {
		if want := seq >= 1 && seq <= 2 || seq >= 5 && seq <= 10 || seq == 12; s.Has(seq) != want {
			t.Errorf("has(%d) = %v", seq, !want)
		}
	}
	b := s.Append(nil)
	if want := []byte{0, 1, 2, 5, 1, 0}; !bytes.Equal(b, want) {
		t.Errorf("encoded as %v, want %v", b, want)
	}
	for _, bad := range [][]byte{{0}, {0, 1, 0, 1}, {0x80, 0, 1}, {0, 0x80}, bytes.Repeat([]byte{0xff}, 20)} {
		if got, err := journal.ParseSeqSet(bad); err == nil {
			t.Errorf("parseSeqSet(%v) = %v, want an error", bad, got)
		}
	}
}

func FuzzSeqSet(f *testing.F) {
	addSeeds(f, journal.SeqSet{{From: 1, To: 2}, {From: 5, To: 500}, {From: 70_000, To: 70_000}}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := journal.ParseSeqSet(b)
		if err == nil && !bytes.Equal(s.Append(nil), b) {
			t.Errorf("%v becomes %v", b, s.Append(nil))
		}
	})
}

// Of an object that is there twice, the copy that stays may be the damaged one.
func TestPruneDamagedCopy(t *testing.T) {
	withoutGroups(t)
	setLimits(t, never, 1, never)
	disk := vfstest.NewMem()
	lib := new(library)
	one, two := openDamaged(t, disk), openDamaged(t, disk)
	twice := random(30<<10, 1)
	w, err := two.Begin(t.Context()) // before the other has committed
	if err != nil {
		t.Fatal(err)
	}
	if err := two.load(); err != nil {
		t.Fatal(err)
	}
	kept := lib.mustCommit(t, one, "kept", []byte("kept"), twice, random(60<<10, 2))
	if _, err := w.Put(object.Blob, twice); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Put(object.Blob, random(60<<10, 3)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	one.waitSealed()
	two.waitSealed()
	if packs := names(t, disk, "packs", ".pack"); len(packs) != 2 {
		t.Fatalf("packs %q, want two", packs)
	}
	loc, ok, err := one.find(object.Hash(object.Blob, twice))
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	edit(t, disk, loc.Pack.Name(), flip(int(loc.Off)+pack.HeaderSize+100))
	s := openDamaged(t, disk)
	if _, r, err := lib.prune(t.Context(), s, func(*store.Snapshot) bool { return true }); err != nil || r.Packs != 1 {
		t.Fatalf("%+v, %v; want the other pack gone", r, err)
	}
	checkAcked(t, s, []acked{kept})
}

// A pack that was to go and turns out to be damaged when it is copied stays, for a
// repair, and the others go.
func TestPruneDamagedStays(t *testing.T) {
	withoutGroups(t)
	setLimits(t, never, 1, never) // a pack for each commit
	disk := vfstest.NewMem()
	lib := new(library)
	s := openDamaged(t, disk)
	shared := random(30<<10, 1)
	big := random(pack.MinChunked+200<<10, 9) // in chunks that are elsewhere
	var chunks [][]byte
	for rest := big; len(rest) > 0; rest = rest[pack.CutPoint(rest):] {
		chunks = append(chunks, rest[:pack.CutPoint(rest)])
	}
	lib.mustCommit(t, s, "gone", append([][]byte{[]byte("gone")}, chunks...)...)
	lib.mustCommit(t, s, "old", []byte("old"), shared, random(60<<10, 2), big)
	kept := lib.mustCommit(t, s, "kept", []byte("kept"), shared)
	s.waitSealed()
	loc, ok, err := s.find(object.Hash(object.Blob, shared))
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	edit(t, disk, loc.Pack.Name(), flip(int(loc.Off)+pack.HeaderSize+100))
	_, r, err := lib.prune(t.Context(), s, func(snap *store.Snapshot) bool { return snap.Seq == kept.seq })
	if err != nil || r.Packs != 1 || len(r.Kept) != 1 || !errors.Is(r.Kept[0], store.ErrCorrupt) {
		t.Errorf("prune: %+v, %v; want one pack gone and one that stays", r, err)
	}
	if packs := names(t, disk, "packs", ".pack"); !slices.Contains(packs, loc.Pack.Name()) {
		t.Errorf("%s is gone, left are %q", loc.Pack.Name(), packs)
	}
	// Who finds the list of chunks in it counts on them.
	if ok, err := s.Has(object.Hash(object.Blob, big)); !ok || err != nil {
		t.Errorf("Has = %v, %v", ok, err)
	}
	checkBlob(t, s, object.Hash(object.Blob, big))
}

// Damage to one record of the journal does not hide what a prune has copied.
func TestPruneDamagedJournal(t *testing.T) {
	setLimits(t, never, never, never) // what is copied stays in a pack that only the journal vouches for
	disk := vfstest.NewMem()
	lib := new(library)
	var kept acked
	err := session(t.Context(), disk, func(s *Store) error {
		lib.mustCommit(t, s, "old", []byte("old"), random(60<<10, 1))
		kept = lib.mustCommit(t, s, "kept", []byte("kept"), random(10<<10, 2))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = session(t.Context(), disk, func(s *Store) error {
		_, _, err := lib.prune(t.Context(), s, func(snap *store.Snapshot) bool { return snap.Session == "kept" })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	name := only(t, disk, "journal", ".log")
	f, err := disk.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found, err := openDamaged(t, disk).j.Scan(f, name, layout.HeaderSize)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, frame := range found.List {
		if frame.Kind != journal.FramePacks && frame.Kind != journal.FrameLedger {
			continue
		}
		n++
		hurt := disk.AfterCrash(nil)
		edit(t, hurt, name, flip(int(frame.Off)+journal.FrameHeaderSize))
		checkAcked(t, openDamaged(t, hurt), []acked{kept})
	}
	if n < 4 {
		t.Errorf("%d records damaged, want those of a prune", n)
	}
}
