package cas

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// rawGroup makes the record of a group of blobs.
func rawGroup(blobs ...[]byte) []byte {
	var g group
	for _, b := range blobs {
		g.add(pack.Member{Kind: uint8(object.Blob), Raw: uint32(len(b)), ID: object.Hash(object.Blob, b)}, b)
	}
	h, payload := pack.EncodeGroup(g.members, g.raw, pack.EncoderOf(uint8(object.Blob)), nil)
	return append(h.Append(nil), payload...)
}

// texts makes blobs that are alike.
func texts(of string, n int) (list [][]byte) {
	for i := range n {
		list = append(list, fmt.Appendf(nil, "%s %d: %s", of, i, strings.Repeat("a text like others. ", 1+i%40)))
	}
	return list
}

// groupsOf lists the groups of all packs, with how many members each has.
func groupsOf(t *testing.T, s *Store) (list []pack.Entry, members int) {
	t.Helper()
	for _, name := range names(t, s.fsys, "packs", ".pack") {
		p := openNamed(t, s, name)
		st, err := p.F.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Scan(layout.HeaderSize, st.Size, func(e pack.Entry) {
			if e.Member == 1 {
				list = append(list, e)
			}
			members += min(e.Member, 1)
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.F.Close() })
	}
	return list, members
}

// What is put in one turn lies in few records, and is there for all: before it is
// written, by another store, and with an index and without.
func TestGroups(t *testing.T) {
	setLimits(t, never, 100<<10, never)
	disk := vfstest.NewMem()
	s := openMem(t, disk)
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	blobs := texts("one", 300)
	blobs = append(blobs, nil) // the empty one, too
	for _, b := range blobs {
		id, err := w.Put(object.Blob, b)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := s.Has(id); !ok || err != nil {
			t.Fatalf("Has of what was put: %v, %v", ok, err)
		}
	}
	if _, written := groupsOf(t, s); written > 0 {
		t.Errorf("%d members are written at once", written)
	}
	tree := []byte("a tree")
	treeID, err := w.Put(object.Tree, tree)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := s.Get(t.Context(), object.Tree, treeID); !bytes.Equal(b, tree) || err != nil {
		t.Errorf("Get of what is not written yet: %q, %v", b, err)
	}
	if err := w.Commit(t.Context(), &store.Snapshot{Session: "a", Tree: treeID}, 0); err != nil {
		t.Fatal(err)
	}
	more := commit(t, s, "b", append(texts("two", 40), random(200<<10, 1))...) // which seals it
	s.waitSealed()
	unsealed := commit(t, s, "c", texts("three", 40)...)
	list, n := groupsOf(t, s)
	if n != 301+40+40 || len(list) > 6 {
		t.Errorf("%d groups of %d objects", len(list), n)
	}
	for _, s := range []*Store{s, openMem(t, disk), openMem(t, disk.AfterCrash(nil))} {
		checkAcked(t, s, []acked{more, unsealed})
		for _, b := range blobs {
			id := object.Hash(object.Blob, b)
			got, err := s.Get(t.Context(), object.Blob, id)
			if !bytes.Equal(got, b) || err != nil {
				t.Fatalf("Get of %d bytes: %d, %v", len(b), len(got), err)
			}
			for i := range got { // it is the caller's
				got[i] = 0
			}
			if o, err := s.Stored(object.Blob, id); o.Size != int64(len(b)) || o.Bytes < 0 || err != nil {
				t.Fatalf("Stored of %d bytes: %+v, %v", len(b), o, err)
			}
		}
	}
}

// Who finds an object in a group that another writer has begun may count on it: the commit
// of either writes it.
func TestGroupOfAnother(t *testing.T) {
	disk := vfstest.NewMem()
	s := openMem(t, disk)
	first, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	for _, b := range texts("shared", 20) {
		if _, err := first.Put(object.Blob, b); err != nil {
			t.Fatal(err)
		}
	}
	a := commit(t, s, "second", texts("shared", 20)...)
	checkAcked(t, openMem(t, disk.AfterCrash(nil)), []acked{a})
}

// A commit waits for a group that another writer has filled and is writing: its objects may be
// in it.
func TestGroupBeingWritten(t *testing.T) {
	disk := vfstest.NewMem()
	s := openMem(t, disk)
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	id, err := w.Put(object.Blob, small)
	if err != nil {
		t.Fatal(err)
	}
	s.wmu.Lock()
	o := s.takeGroup(0) // as who fills it does
	s.wmu.Unlock()
	done := make(chan error)
	go func() { done <- w.Commit(t.Context(), &store.Snapshot{Tree: id}, 0) }()
	select {
	case err := <-done:
		t.Fatalf("Commit ends before its objects are written: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	s.writeGroup(w.generation, o)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	checkBlob(t, openMem(t, disk.AfterCrash(nil)), id)
}

// A group that cannot be written ends all writers of the process, also those that have found an
// object in it.
func TestGroupNotWritten(t *testing.T) {
	s := openMem(t, vfstest.NewMem())
	var list []*Writer
	for range 2 {
		w, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if _, err := w.Put(object.Blob, small); err != nil {
			t.Fatal(err)
		}
		list = append(list, w)
	}
	s.wmu.Lock()
	o := s.takeGroup(0)
	o.raw = o.raw[:1] // it does not decode to what its table says
	s.wmu.Unlock()
	o.members = append(o.members, o.members[0])
	o.owners = append(o.owners, o.owners[0])
	s.writeGroup(list[0].generation, o)
	for i, w := range list {
		snap := &store.Snapshot{Session: fmt.Sprint(i), Tree: object.Hash(object.Blob, small)}
		if err := w.Commit(t.Context(), snap, 0); err == nil {
			t.Errorf("writer %d commits what could not be written", i)
		}
	}
	if ok, err := s.Has(object.Hash(object.Blob, small)); ok || err != nil {
		t.Errorf("Has = %v, %v", ok, err)
	}
}

// What is in a group that is being written when another write fails is not there for writers that
// begin after that: they store it again.
func TestGroupOfBeforeFailure(t *testing.T) {
	disk := vfstest.NewMem()
	s := openMem(t, disk)
	before, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	if _, err := before.Put(object.Blob, small); err != nil {
		t.Fatal(err)
	}
	s.wmu.Lock()
	o := s.takeGroup(0) // as who fills it does
	s.fail(errors.New("another write has failed"))
	s.wmu.Unlock()
	after, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	id, err := after.Put(object.Blob, small)
	if err != nil {
		t.Fatal(err)
	}
	s.writeGroup(before.generation, o) // it ends late
	if ok, err := s.Has(id); !ok || err != nil {
		t.Errorf("Has of what was put again: %v, %v", ok, err)
	}
	if err := after.Commit(t.Context(), &store.Snapshot{Tree: id}, 0); err != nil {
		t.Fatal(err)
	}
	checkBlob(t, openMem(t, disk.AfterCrash(nil)), id)
}

// An empty object in an open group is not on record either: who counts on it says so.
func TestGroupOfNothing(t *testing.T) {
	disk := vfstest.NewMem()
	s := openMem(t, disk)
	var list []*Writer
	for range 2 {
		w, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if _, err := w.Put(object.Blob, nil); err != nil {
			t.Fatal(err)
		}
		list = append(list, w)
	}
	durable := false
	list[1].OnClose(func(is bool) { durable = is })
	if err := list[1].Close(); err != nil || !durable {
		t.Fatalf("Close: %v, durable %v", err, durable)
	}
	checkBlob(t, openMem(t, disk.AfterCrash(nil)), object.Hash(object.Blob, nil))
}

// Each byte of a group is hit in turn, or of its content some. The damage is found once and
// where it is, no member is given out wrong, everything else can be read, and
// who has the content stores it again.
func TestDamagedGroup(t *testing.T) {
	testseed.Sequential(t)
	for _, sealed := range []bool{false, true} {
		disk := vfstest.NewMem()
		s := openMem(t, disk)
		before := commit(t, s, "before", random(70<<10, 1))
		blobs := texts("text", 6)
		hit := commit(t, s, "hit", blobs...)
		after := commit(t, s, "after", random(70<<10, 2))
		if sealed {
			s.Seal()
		}
		list, _ := groupsOf(t, s)
		if len(list) != 1 {
			t.Fatalf("%d groups, want one", len(list))
		}
		e := list[0]
		table := pack.HeaderSize + 6*37
		for at := 0; at < int(e.Size()); at++ {
			if at > table && at%17 != 0 {
				continue
			}
			hurt := disk.AfterCrash(nil)
			edit(t, hurt, e.Pack.Name(), flip(int(e.Off)+at))
			x := openDamaged(t, hurt)
			for _, id := range hit.ids {
				b, err := x.Get(t.Context(), object.Blob, id)
				if !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrNotFound) {
					t.Fatalf("byte %d: Get gives %q, %v", at, b, err)
				}
			}
			checkBlob(t, x, before.ids[0])
			checkBlob(t, x, after.ids[0])
			damage := damageOf(t, x)
			if len(damage) == 0 || damage[0].Path != e.Pack.Name() || damage[0].Off != e.Off ||
				len(damage) > 1 && !(at < table && sealed) { // the index has more than the pack then
				t.Fatalf("sealed %v, byte %d: damage %v, want it at %d", sealed, at, damage, e.Off)
			}
			again := commit(t, x, "again", blobs...)
			checkAcked(t, x, []acked{again})
		}
	}
}

// A prune takes single members out of groups, and keeps the others together.
func TestPruneGroups(t *testing.T) {
	setLimits(t, never, 1, never) // a pack for each commit
	disk := vfstest.NewMem()
	lib := new(library)
	s := openMem(t, disk)
	var kept []acked
	for i := range 6 {
		stays := texts(fmt.Sprint("stays ", i), 10)
		lib.mustCommit(t, s, "gone", slices.Concat(texts(fmt.Sprint("gone ", i), 60), stays)...)
		kept = append(kept, lib.mustCommit(t, s, "kept", stays...))
	}
	s.waitSealed()
	_, r, err := lib.prune(t.Context(), s, func(snap *store.Snapshot) bool { return snap.Session == "kept" })
	if err != nil || r.Freed <= 0 || len(r.Kept) > 0 {
		t.Fatalf("prune: %+v, %v", r, err)
	}
	s.Seal()
	list, n := groupsOf(t, s)
	if n != 60 || len(list) != 1 {
		t.Errorf("left are %d groups of %d objects, want one of 60", len(list), n)
	}
	for _, s := range []*Store{s, openMem(t, disk.AfterCrash(nil))} {
		checkAcked(t, s, kept)
		if ok, err := s.Has(object.Hash(object.Blob, texts("gone 1", 1)[0])); ok || err != nil {
			t.Errorf("Has of what is gone: %v, %v", ok, err)
		}
	}
	_, r, err = lib.prune(t.Context(), s, func(snap *store.Snapshot) bool { return snap.Session == "kept" })
	if err != nil || r.Packs > 0 {
		t.Errorf("once more: %+v, %v; want nothing to do", r, err)
	}
}

// What was read of a pack that is gone is not kept: its bytes would stay on the disk, and those of
// what was forgotten in memory.
func TestGroupsOfPrunedPacks(t *testing.T) {
	setLimits(t, never, 1, never)
	lib := new(library)
	s := openMem(t, vfstest.NewMem())
	gone := lib.mustCommit(t, s, "gone", texts("gone", 10)...)
	kept := lib.mustCommit(t, s, "kept", texts("kept", 10)...)
	s.waitSealed()
	checkAcked(t, s, []acked{gone, kept})
	if n := len(s.groups.list); n != 2 {
		t.Fatalf("%d groups are remembered, want 2", n)
	}
	keep := func(snap *store.Snapshot) bool { return snap.Session == "kept" }
	if _, _, err := lib.prune(t.Context(), s, keep); err != nil {
		t.Fatal(err)
	}
	if n := len(s.groups.list); n > 1 {
		t.Errorf("%d groups are remembered, and one of their packs is gone", n)
	}
	s.wmu.Lock()
	s.fail(errors.New("a write has failed")) // who appends to the pack next writes where groups were
	s.wmu.Unlock()
	if n := len(s.groups.list); n > 0 {
		t.Errorf("%d groups are remembered after a write has failed", n)
	}
}

// A list of chunks is no member of a group, and an index that knows more members than a group
// has is damage.
func TestGroupOfWrongMembers(t *testing.T) {
	var g group
	g.add(pack.Member{Kind: pack.RecChunked, Raw: 36, ID: object.Hash(object.Blob, small)}, make([]byte, 36))
	h, payload := pack.EncodeGroup(g.members, g.raw, pack.EncoderOf(uint8(object.Blob)), nil)
	if err := pack.VerifyGroup(&h, payload, g.raw); err == nil {
		t.Error("a group with a list of chunks is read")
	}
	setLimits(t, never, 1, never)
	s := openMem(t, vfstest.NewMem())
	commit(t, s, "a", texts("text", 5)...)
	s.waitSealed()
	list, _ := groupsOf(t, s)
	e := list[0]
	e.Member = 6
	c := &copier{s: s}
	if err := c.copy(e.Pack, []pack.Entry{list[0], e}); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("copy of member 6 of 5: %v", err)
	}
}

// What is forgotten is in no group any more, packed or not, and its neighbours are.
func TestForgetMember(t *testing.T) {
	setLimits(t, never, 1, never)
	disk := vfstest.NewMem()
	lib := new(library)
	s := openMem(t, disk)
	secret := []byte("the secret word is swordfish " + strings.Repeat("swordfish ", 20))
	kept := lib.mustCommit(t, s, "a", append(texts("text", 50), secret)...)
	kept.ids = kept.ids[:50]
	s.waitSealed()
	b, err := vfs.ReadFile(disk, names(t, disk, "packs", ".pack")[0])
	if err == nil {
		err = layout.WriteFile(disk, "quarantine/0-1.pack", b)
	}
	if err != nil || findSecret(t, disk, secret) == "" {
		t.Fatalf("the test finds no secret that is there (%v)", err)
	}
	if err := lib.forget(t, s, secret); err != nil {
		t.Fatal(err)
	}
	if name := findSecret(t, disk, secret); name != "" {
		t.Errorf("%s has the secret", name)
	}
	checkAcked(t, s, []acked{kept})
	checkClean(t, s)
}

// A repair saves the members of whole groups, and takes those of a damaged one from copies of
// it, as others do.
func TestRepairGroups(t *testing.T) {
	setLimits(t, never, 1, never)
	disk := vfstest.NewMem()
	s := openDamaged(t, disk)
	whole := commit(t, s, "whole", texts("whole", 30)...)
	s.waitSealed()
	lost := commit(t, s, "lost", texts("lost", 30)...)
	s.waitSealed()
	list, _ := groupsOf(t, s)
	i := slices.IndexFunc(list, func(e pack.Entry) bool { return e.ID == lost.ids[0] })
	name := list[i].Pack.Name()
	copied, err := vfs.ReadFile(disk, name)
	if err != nil {
		t.Fatal(err)
	}
	edit(t, disk, name, flip(int(list[i].Off)+pack.HeaderSize+30*37+5))
	if err := layout.WriteFile(disk, "quarantine/copy", copied); err != nil {
		t.Fatal(err)
	}
	x := openDamaged(t, disk.AfterCrash(nil))
	plan, err := repair(t.Context(), x)
	if err != nil || len(plan.Damage) != 1 || len(plan.Packs) != 1 || plan.Packs[0].Damaged != 30 {
		t.Errorf("plan %+v, %v; want one place, with 30 objects", plan, err)
	}
	checkAcked(t, x, []acked{whole})
	checkDamage(t, x, 0)
	spares, err := openDamaged(t, disk).Spares(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range lost.ids {
		var b bytes.Buffer
		if file, err := spares.Find(t.Context(), &b, object.Blob, id); file != "quarantine/copy" || err != nil ||
			object.Hash(object.Blob, b.Bytes()) != id {
			t.Fatalf("spare of %s: %q, %v", id.Short(), file, err)
		}
	}
}

// A store of before is written on as it was.
func TestStoreWithoutGroups(t *testing.T) {
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
	s = openMem(t, disk)
	a := commit(t, s, "a", texts("text", 30)...)
	if list, _ := groupsOf(t, s); len(list) > 0 {
		t.Errorf("%d groups in a store that has none", len(list))
	}
	checkAcked(t, s, []acked{a})
}

// TestGroupsBesideFaults: several goroutines put objects that they have in common, and commit,
// while a write fails now and then, which ends all groups and writers. What was reported done is
// there after a power cut.
func TestGroupsBesideFaults(t *testing.T) {
	rng := testseed.Rand(t)
	var pool [][]byte // what takes a while to compress
	for i := range 200 {
		pool = append(pool, fmt.Appendf(nil, "%d %x", i, random(8<<10, byte(i))))
	}
	runs := 16
	switch {
	case *every:
		runs = 1000
	case testing.Short():
		runs = 8
	}
	for run := range runs {
		t.Run(fmt.Sprint(run), func(t *testing.T) { // whose stores are closed then
			disk := vfstest.NewMem()
			var on atomic.Bool
			var count atomic.Uint64
			every := 2 + rng.Uint64()%4
			s := openDamaged(t, vfstest.WithFault(disk, &vfstest.Fault{At: -1, Fails: func(op, name string) bool {
				return on.Load() && op == "WriteAt" && strings.HasSuffix(name, ".pack") && count.Add(1)%every == 0
			}}))
			on.Store(true)
			var mu sync.Mutex
			var acks []acked
			var wg sync.WaitGroup
			for who := range 6 {
				seeds := rand.New(rand.NewPCG(rng.Uint64(), uint64(who)))
				wg.Go(func() {
					for n := range 10 {
						var blobs [][]byte
						for range 1 + seeds.IntN(24) {
							blobs = append(blobs, pool[n*20+seeds.IntN(20)])
						}
						for range 5 { // who fails tries again, at once
							a, err := tryCommit(t.Context(), s, fmt.Sprint("of ", who, " ", n), blobs...)
							if err == nil {
								mu.Lock()
								acks = append(acks, a)
								mu.Unlock()
								break
							}
						}
					}
				})
			}
			wg.Wait()
			on.Store(false)
			checkAcked(t, openDamaged(t, disk.AfterCrash(nil)), acks)
			if t.Failed() {
				t.Fatalf("every %d. write fails", every)
			}
		})
	}
}

// TestGroupWindow reads the first member of a group whose frame says that 512 MiB are needed to
// decode it. So much is not made room for.
func TestGroupWindow(t *testing.T) {
	first, rest := make([]byte, 1000), make([]byte, pack.MaxGroup-1000)
	members := []pack.Member{
		{Kind: uint8(object.Blob), Raw: uint32(len(first)), ID: object.Hash(object.Blob, first)},
		{Kind: uint8(object.Blob), Raw: uint32(len(rest)), ID: object.Hash(object.Blob, rest)}}
	for exponent, fits := range map[byte]bool{20 - 10: true, 23 - 10: true, 24 - 10: false, 29 - 10: false} {
		h, payload := pack.EncodeGroup(members, slices.Concat(first, rest), frameOfZeros(exponent<<3), nil)
		disk := vfstest.NewMem()
		addRecord(t, disk, append(h.Append(nil), payload...))
		s := openDamaged(t, disk)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b, err := s.Get(t.Context(), object.Blob, members[0].ID)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
			t.Errorf("window 2^%d: Get allocated %d bytes", exponent+10, n)
		}
		if fits != (err == nil && bytes.Equal(b, first)) || !fits && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("window 2^%d: %d bytes, %v", exponent+10, len(b), err)
		}
	}
}

// frameOfZeros encodes zeros, in a frame that has a descriptor of its window.
type frameOfZeros byte

func (window frameOfZeros) EncodeAll(src, dst []byte) []byte {
	dst = append(dst, 0x28, 0xb5, 0x2f, 0xfd, 0, byte(window))
	for ; len(src) > 0; src = src[min(len(src), 128<<10):] {
		n := min(len(src), 128<<10)
		block := uint32(n)<<3 | 1<<1 // the same byte n times
		if n == len(src) {
			block |= 1 // the last
		}
		dst = append(dst, byte(block), byte(block>>8), byte(block>>16), 0)
	}
	return dst
}
