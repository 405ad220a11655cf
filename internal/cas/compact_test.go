package cas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// compact compacts a store, unsealed packs, too.
func (l *library) compact(ctx context.Context, s *Store) (*CompactPlan, *CompactResult, error) {
	plan, err := s.PlanCompact(ctx, &CompactOptions{Mark: l.mark, Unsealed: true, Wait: 20 * time.Millisecond})
	if err != nil {
		return nil, new(CompactResult), err
	}
	r, err := s.Compact(ctx, plan)
	return plan, r, err
}

// A compactHistory is some commits to a store, in packs of their own: versions of texts, one that lies
// alone, a content in chunks, and what has to stay as it is.
type compactHistory struct {
	disk *vfstest.Mem
	lib  *library
	acks []acked
}

func newCompactHistory(t *testing.T, n int) *compactHistory {
	t.Helper()
	setLimits(t, never, 4<<10, never)
	min := pack.MinChunked
	pack.MinChunked = 64 << 10
	t.Cleanup(func() { pack.MinChunked = min })
	h := &compactHistory{disk: vfstest.NewMem(), lib: new(library)}
	for i := range n {
		err := session(t.Context(), h.disk, func(s *Store) error {
			blobs := append([][]byte{fmt.Append(nil, "tree ", i)}, versions(i, 12)...)
			blobs = append(blobs, random(5<<10, byte(i)), bytes.Repeat(random(1<<10, byte(i/3)), 90))
			h.acks = append(h.acks, h.lib.mustCommit(t, s, fmt.Sprint("s", i%2), blobs...))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// versions returns a version of each of n texts.
func versions(i, n int) (list [][]byte) {
	for path := range n {
		text := strings.Builder{}
		for line := range 20 + i {
			fmt.Fprintf(&text, "line %x of file %d\n", line*line*7919, path)
		}
		list = append(list, []byte(text.String()))
	}
	return list
}

// idsOf returns all objects that a store has.
func idsOf(t *testing.T, s *Store) (list []store.ID) {
	t.Helper()
	for _, name := range names(t, s.fsys, "packs", ".pack") {
		p := openNamed(t, s, name)
		end, sealed, err := p.SealedAt()
		if st, serr := p.F.Stat(); err == nil && !sealed && serr == nil {
			end = st.Size
		}
		if err == nil {
			_, err = p.Scan(layout.HeaderSize, end, func(e pack.Entry) { list = append(list, e.ID) })
		}
		if err := errors.Join(err, p.F.Close()); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(list, func(a, b store.ID) int { return bytes.Compare(a[:], b[:]) })
	return list
}

// A compaction changes no object, makes the store smaller, and leaves nothing to do.
func TestCompact(t *testing.T) {
	testseed.Sequential(t)
	h := newCompactHistory(t, 20)
	pack.IsBest = true // as it is outside of tests
	t.Cleanup(func() { pack.IsBest = false })
	s := openMem(t, h.disk)
	before, size := idsOf(t, s), sizeOf(t, h.disk, "packs")
	plan, r, err := h.lib.compact(t.Context(), s)
	if err != nil || r.Packs != plan.Packs || r.Packs < 20 || len(r.Kept) > 0 || r.Left > 0 {
		t.Fatalf("compact: plan %+v, %+v, %v", plan, r, err)
	}
	if got := idsOf(t, s); !slices.Equal(got, before) {
		t.Errorf("%d objects, %d before", len(got), len(before))
	}
	after := sizeOf(t, h.disk, "packs")
	if after > size*3/4 || size-after != r.Freed {
		t.Errorf("%d bytes, %d before, %+v", after, size, r)
	}
	if n := len(names(t, h.disk, "packs", ".pack")); n != 1 {
		t.Errorf("%d packs", n)
	}
	if list := names(t, h.disk, "tmp", ""); len(list) > 0 {
		t.Errorf("left in tmp: %v", list)
	}
	plan, r, err = h.lib.compact(t.Context(), s)
	if err != nil || !plan.Empty() || r.Packs > 0 {
		t.Errorf("once more: plan %+v, %+v, %v", plan, r, err)
	}
	for _, s := range []*Store{s, openMem(t, h.disk), openMem(t, h.disk.AfterCrash(nil))} {
		checkAcked(t, s, h.acks)
		for i := range 20 {
			for _, b := range versions(i, 12) {
				got, err := s.Get(t.Context(), object.Blob, object.Hash(object.Blob, b))
				if !bytes.Equal(got, b) || err != nil {
					t.Fatalf("version %d: %d bytes, %v", i, len(got), err)
				}
			}
		}
	}
	// What comes later is compacted by itself, and what was is left alone.
	packs := names(t, h.disk, "packs", ".pack")
	for i := range 12 {
		err := session(t.Context(), h.disk, func(s *Store) error {
			h.acks = append(h.acks, h.lib.mustCommit(t, s, "later", versions(30+i, 12)...))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, r, err = h.lib.compact(t.Context(), s); err != nil || r.Packs == 0 || r.Freed <= 0 {
		t.Errorf("later: %+v, %v", r, err)
	}
	if !slices.Contains(names(t, h.disk, "packs", ".pack"), packs[0]) && r.Packs > 14 {
		t.Errorf("what was compacted is written anew: %+v", r)
	}
	checkAcked(t, s, h.acks)
}

// What nothing needs is not written anew, and what lies in a pack that stays goes on.
func TestCompactDead(t *testing.T) {
	h := newCompactHistory(t, 12)
	s := openMem(t, h.disk)
	_, _, err := h.lib.prune(t.Context(), s, func(snap *store.Snapshot) bool { return snap.Session == "s0" })
	if err != nil {
		t.Fatal(err)
	}
	s.Seal()
	_, r, err := h.lib.compact(t.Context(), s)
	if err != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, a := range h.acks {
		if i%2 == 0 {
			checkAcked(t, s, []acked{a})
		} else {
			checkPruned(t, s, a)
		}
	}
}

// A store without groups gets them.
func TestCompactOldStore(t *testing.T) {
	disk := vfstest.NewMem()
	s, err := OpenFS(t.Context(), disk, &Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	without := func(f *format) bool { f.Features.Read = []string{}; return true }
	if err := change(t.Context(), disk, without); err != nil {
		t.Fatal(err)
	}
	lib := new(library)
	s = openMem(t, disk)
	var acks []acked
	for i := range 5 {
		acks = append(acks, lib.mustCommit(t, s, "a", versions(i, 12)...))
	}
	if list, _ := groupsOf(t, s); len(list) > 0 {
		t.Fatalf("%d groups in a store that has none", len(list))
	}
	s.Seal()
	if _, r, err := lib.compact(t.Context(), s); err != nil || r.Packs == 0 || r.Freed <= 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	f, err := readFormat(disk)
	if err != nil || !slices.Contains(f.Features.Read, FeatureGroups) {
		t.Errorf("FORMAT: %+v, %v", f, err)
	}
	if list, n := groupsOf(t, s); n != 60 || len(list) > 3 {
		t.Errorf("%d groups of %d objects", len(list), n)
	}
	checkAcked(t, openMem(t, disk.AfterCrash(nil)), acks)
	acks = append(acks, lib.mustCommit(t, s, "b", versions(9, 12)...))
	if _, n := groupsOf(t, s); n != 72 {
		t.Errorf("%d objects in groups after another turn", n)
	}
	checkAcked(t, s, acks)
}

// Whoever records something ends a compaction, of which nothing is left.
func TestCompactStops(t *testing.T) {
	h := newCompactHistory(t, 10)
	s := openMem(t, h.disk)
	size := sizeOf(t, h.disk, "packs")
	for name, opts := range map[string]*CompactOptions{
		"record": {Stop: func() error {
			other := openMem(t, h.disk)
			commit(t, other, "other", nil)
			return nil
		}},
		"told": {Stop: func() error { return errors.New("told") }},
	} {
		opts.Mark, opts.Unsealed, opts.Workers = h.lib.mark, true, 1
		h.lib.add([][]byte{nil})
		plan, err := s.PlanCompact(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		stopAtOnce(t)
		r, err := s.Compact(t.Context(), plan)
		if err == nil || name == "record" && !errors.Is(err, ErrWork) || r.Packs != 0 || r.Left != plan.Packs {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if list := names(t, h.disk, "tmp", ""); len(list) > 0 {
			t.Errorf("%s: left in tmp: %v", name, list)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	plan, err := s.PlanCompact(t.Context(), &CompactOptions{Mark: h.lib.mark, Unsealed: true})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := s.Compact(ctx, plan); !errors.Is(err, context.Canceled) || r.Packs > 0 {
		t.Errorf("cancelled: %+v, %v", r, err)
	}
	if now := sizeOf(t, h.disk, "packs"); now > size+3<<10 { // the other's pack, and seals
		t.Errorf("%d bytes, %d before", now, size)
	}
	checkAcked(t, s, h.acks)
}

func stopAtOnce(t *testing.T) {
	before := stopEvery
	stopEvery = 0
	t.Cleanup(func() { stopEvery = before })
}

// A pack with damage stays for a repair, and what else is in it is whole.
func TestCompactDamaged(t *testing.T) {
	h := newCompactHistory(t, 10)
	s := openDamaged(t, h.disk)
	list, _ := groupsOf(t, s)
	e := list[3]
	members := membersOf(t, s, e)
	hurt := h.disk.AfterCrash(nil)
	edit(t, hurt, e.Pack.Name(), flip(int(e.Off)+pack.HeaderSize+int(e.Stored)-3))
	x := openDamaged(t, hurt)
	_, r, err := h.lib.compact(t.Context(), x)
	if err != nil || len(r.Kept) != 1 || r.Packs < 9 {
		t.Fatalf("%+v, %v", r, err)
	}
	if !slices.Contains(names(t, hurt, "packs", ".pack"), strings.TrimPrefix(e.Pack.Name(), "packs/")) &&
		!slices.Contains(names(t, hurt, "packs", ".pack"), e.Pack.Name()) {
		t.Error("the damaged pack is gone")
	}
	if damage := damageOf(t, x); len(damage) != 1 {
		t.Errorf("damage: %v", damage)
	}
	for _, a := range h.acks {
		for _, id := range a.ids {
			if _, err := x.Get(t.Context(), object.Blob, id); errors.Is(err, store.ErrCorrupt) {
				if !members[id] {
					t.Errorf("snapshot %d has lost %v, which was in another group", a.seq, id)
				}
			} else if err != nil {
				t.Error(err)
			}
		}
	}
}

// membersOf returns what is in the group of an entry.
func membersOf(t *testing.T, s *Store, e pack.Entry) map[store.ID]bool {
	t.Helper()
	ids := make(map[store.ID]bool)
	p := openNamed(t, s, strings.TrimPrefix(e.Pack.Name(), "packs/"))
	defer p.F.Close()
	st, err := p.F.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Scan(layout.HeaderSize, st.Size, func(m pack.Entry) {
		if m.Off == e.Off {
			ids[m.ID] = true
		}
	}); err != nil {
		t.Fatal(err)
	}
	return ids
}

// One flipped bit in a compacted pack costs one group, and check and repair say which.
func TestDamagedCompactGroup(t *testing.T) {
	testseed.Sequential(t)
	h := newCompactHistory(t, 20)
	s := openMem(t, h.disk)
	if _, _, err := h.lib.compact(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	list, _ := groupsOf(t, s)
	for _, e := range list {
		members, _, err := e.Pack.ReadMembers(e.Location)
		if err != nil {
			t.Fatal(err)
		}
		in := make(map[store.ID]bool)
		for _, m := range members {
			in[m.ID] = true
		}
		for at := int64(pack.HeaderSize) + 3; at < e.Size(); at += e.Size()/5 + 1 {
			hurt := h.disk.AfterCrash(nil)
			edit(t, hurt, e.Pack.Name(), flip(int(e.Off+at)))
			x := openDamaged(t, hurt)
			for _, a := range h.acks {
				for _, id := range a.ids {
					_, err := x.Get(t.Context(), object.Blob, id)
					lost := errors.Is(err, store.ErrCorrupt)
					if lost && !in[id] && !isChunked(x, id) || err != nil && !lost {
						t.Fatalf("byte %d: %s: %v", at, id.Short(), err)
					}
				}
			}
			if damage := damageOf(t, x); len(damage) == 0 {
				t.Fatalf("byte %d: no damage is found", at)
			}
		}
	}
}

func isChunked(s *Store, id store.ID) bool {
	h, _, _, err := s.object(id, nil)
	return err == nil && h.Kind == pack.RecChunked
}

// What is forgotten is in no compacted group any more, and its neighbours are.
func TestForgetCompact(t *testing.T) {
	testseed.Sequential(t)
	h := newCompactHistory(t, 10)
	secret := []byte("the secret word is swordfish " + strings.Repeat("swordfish ", 20))
	err := session(t.Context(), h.disk, func(s *Store) error {
		a := h.lib.mustCommit(t, s, "s", append(versions(40, 12), secret)...)
		a.ids = a.ids[:12]
		h.acks = append(h.acks, a)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s := openMem(t, h.disk)
	if _, r, err := h.lib.compact(t.Context(), s); err != nil || r.Packs == 0 {
		t.Fatal(r, err)
	}
	if findSecret(t, h.disk, secret) == "" {
		t.Fatal("the test finds no secret that is there")
	}
	if err := h.lib.forget(t, s, secret); err != nil {
		t.Fatal(err)
	}
	if name := findSecret(t, h.disk, secret); name != "" {
		t.Errorf("%s has the secret", name)
	}
	checkAcked(t, s, h.acks)
}

// Each operation of a compaction fails in turn, once or for good, with the power or not. All that
// is on record is there, nothing lies in tmp/ that another would have to clear away, and the next
// compaction does the rest.
func TestCompactFaults(t *testing.T) {
	testseed.Sequential(t)
	setMinRound(t, 1) // in rounds, which bring forward
	step, rnd := stride(67, 241), testseed.Rand(t)
	h := newCompactHistory(t, 8)
	for _, sticky := range []bool{false, true} {
		for at := rnd.Int64N(step); h.faultAt(t, at, sticky) && !t.Failed(); at += step {
		}
	}
}

func (h *compactHistory) faultAt(t *testing.T, at int64, sticky bool) bool {
	t.Helper()
	disk := h.disk.AfterCrash(nil)
	fault := &vfstest.Fault{At: at, Sticky: sticky, Err: syscall.EIO}
	var r *CompactResult
	err := session(t.Context(), vfstest.WithFault(disk, fault), func(s *Store) (err error) {
		_, r, err = h.lib.compact(t.Context(), s)
		return err
	})
	if !fault.Fired() && (err != nil || r.Packs == 0) {
		t.Errorf("without a fault: %+v, %v", r, err)
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
		checkAcked(t, s, h.acks)
		before := slices.Compact(idsOf(t, s))
		if _, _, err := h.lib.compact(t.Context(), s); err != nil {
			t.Errorf("the next compaction: %v", err)
		}
		if got := slices.Compact(idsOf(t, s)); !slices.Equal(got, before) {
			t.Errorf("%d objects, %d before", len(got), len(before))
		}
		if list := names(t, left, "tmp", ".pack"); len(list) > 0 {
			t.Errorf("left in tmp: %v", list)
		}
		checkClean(t, s)
		checkAcked(t, s, h.acks)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Fatalf("fault at operation %d, sticky=%v, disk %d: compact returned %v", at, sticky, i, err)
		}
	}
	return fault.Fired()
}

// Writers of other processes and of this one put the same few contents again and again beside
// compactions and prunes, and a reader reads. All that is on record and kept is there.
func TestCompactBesideWriters(t *testing.T) {
	setLimits(t, never, 8<<10, never)
	setMinRound(t, 1)
	disk := vfstest.NewMem()
	lib := new(library)
	rng := testseed.Rand(t)
	rounds := 12
	if testing.Short() {
		rounds = 8
	}
	s := openMem(t, disk)
	var mu sync.Mutex
	var acks []acked
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for who := range 3 {
		seeds := rand.New(rand.NewPCG(rng.Uint64(), uint64(who)))
		mine := s
		if who > 0 {
			mine = openMem(t, disk)
		}
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				blobs := [][]byte{fmt.Append(nil, "tree of ", who, " ", n)}
				for range 3 + seeds.IntN(6) {
					blobs = append(blobs, versions(seeds.IntN(8), 12)[seeds.IntN(12)])
				}
				session := []string{"kept", "gone"}[seeds.IntN(2)]
				a, err := lib.commit(t.Context(), mine, fmt.Sprint(session, who), blobs...)
				if err != nil {
					t.Errorf("writer %d: %v", who, err)
					return
				}
				mu.Lock()
				if session == "kept" {
					acks = append(acks, a)
				}
				if n%8 == 0 && len(acks) > 0 {
					a = acks[seeds.IntN(len(acks))]
					mu.Unlock()
					checkAcked(t, mine, []acked{a})
				} else {
					mu.Unlock()
				}
			}
		})
	}
	done, gone := 0, 0
	// On a busy machine writers may have stored little by then.
	for i := 0; i < rounds || (done == 0 || gone == 0) && i < 100*rounds && !t.Failed(); i++ {
		by := s
		if i%2 == 0 {
			by = openMem(t, disk)
		}
		var err error
		if i%5 == 4 {
			var r *PruneResult
			if _, r, err = lib.prune(t.Context(), by, func(snap *store.Snapshot) bool {
				return strings.HasPrefix(snap.Session, "kept")
			}); err == nil {
				gone += r.Dropped
			}
		} else {
			var plan *CompactPlan
			var r *CompactResult
			plan, err = by.PlanCompact(t.Context(), &CompactOptions{Mark: lib.mark, Unsealed: i%2 == 0,
				Wait: time.Second, beside: true})
			if err == nil {
				r, err = by.Compact(t.Context(), plan)
				done += r.Packs
			}
		}
		if err != nil && !errors.Is(err, ErrBusy) && !errors.Is(err, ErrPlanStale) {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	close(stop)
	wg.Wait()
	t.Logf("%d packs compacted, %d snapshots dropped, %d acknowledged", done, gone, len(acks))
	if done == 0 || gone == 0 {
		t.Error("nothing was done beside the writers")
	}
	checkAcked(t, s, acks)
	checkAcked(t, openMem(t, disk.AfterCrash(nil)), acks)
}

// What later packs have at the paths of a round is brought forward, as far as there is room, and is there
// once in the end, also if the compaction ends between two rounds.
func TestCompactBringsForward(t *testing.T) {
	testseed.Sequential(t)
	h := newCompactHistory(t, 24)
	before := idsOf(t, openMem(t, h.disk))
	setMinRound(t, 1)
	for _, stops := range []bool{false, true} {
		disk := h.disk.AfterCrash(nil)
		s := openMem(t, disk)
		n := len(names(t, disk, "packs", ".pack"))
		if stops {
			stopAtOnce(t)
			plan, err := s.PlanCompact(t.Context(), &CompactOptions{Mark: h.lib.mark, Unsealed: true,
				Stop: func() error {
					if len(names(t, disk, "packs", ".pack")) < n {
						return errors.New("told")
					}
					return nil
				}})
			if err != nil {
				t.Fatal(err)
			}
			if r, err := s.Compact(t.Context(), plan); err == nil || r.Packs == 0 || r.Left == 0 {
				t.Fatalf("stopped: %+v, %v", r, err)
			}
			if all := idsOf(t, s); len(all) <= len(before) {
				t.Errorf("stopped: %d objects of %d, none of which was brought forward", len(all), len(before))
			}
			checkAcked(t, openMem(t, disk.AfterCrash(nil)), h.acks)
		}
		if _, r, err := h.lib.compact(t.Context(), s); err != nil || r.Left > 0 || len(r.Kept) > 0 {
			t.Fatalf("stops=%v: %+v, %v", stops, r, err)
		}
		if got := idsOf(t, s); !slices.Equal(got, before) {
			t.Errorf("stops=%v: %d objects, %d before", stops, len(got), len(before))
		}
		if plan, _, err := h.lib.compact(t.Context(), s); err != nil || !plan.Empty() {
			t.Errorf("stops=%v: once more: %+v, %v", stops, plan, err)
		}
		checkAcked(t, openMem(t, disk.AfterCrash(nil)), h.acks)
	}
}

func setMinRound(t *testing.T, n int64) {
	t.Helper()
	before := minRound
	minRound = n
	t.Cleanup(func() { minRound = before })
}
