package cas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// A scenario is something that a store does, to be tried with each of its
// operations failing in turn.
type scenario struct {
	name    string
	sealMax int64
	seal    int64
	segment int64
	setup   func(t *testing.T, disk *vfstest.Mem) []acked
	run     func(ctx context.Context, fsys vfs.FS, ack func(acked)) error
	acks    int // commits of run
	damage  int // places that setup damages

	// best reports whether a failure of an operation may go unreported,
	// besides those that quiet lists. Each says why.
	best func(op, name string) bool
}

// quiet lists the operations whose failure never matters.
func quiet(op, name string) bool {
	// Closing a file that was only read, or a lock: nothing is lost by it.
	// Files that were written are synced before.
	return op == "Close" ||
		// What is left in tmp/ is nobody's: a prune removes it.
		op == "Remove" && strings.HasPrefix(name, "tmp/") || op == "ReadDir" && name == "tmp" ||
		name == layout.BallastName || // the next process writes it again
		// What another process has found of the locks: else they are tried.
		name == layout.ProbeLock && (op == "Stat" || op == "ReadAt" || op == "WriteAt") ||
		// An index that cannot be looked at is taken as missing: packs are
		// scanned instead, or restated in the journal once too often.
		strings.HasSuffix(name, ".idx") && (op == "Stat" || op == "OpenFile" || op == "ReadAt")
}

// An index is derived: the next process makes it again.
func writesIndex(op, name string) bool {
	return strings.HasPrefix(name, "tmp/") || strings.HasSuffix(name, ".idx") ||
		op == "Sync" && strings.HasSuffix(name, ".pack") || op == "SyncDir" && name == "packs"
}

// A summary is derived: who needs one that is missing reads the segment.
func writesSummary(op, name string) bool { return strings.Contains(name, ".sum") }

// What seals a pack in the background. All of it was reported done before, on
// the strength of the journal; a pack without a seal is the next process's.
func seals(op, name string) bool {
	return writesIndex(op, name) || op == "WriteAt" && strings.HasSuffix(name, ".pack")
}

// session opens a store, does something and closes all.
func session(ctx context.Context, fsys vfs.FS, fn func(s *Store) error) error {
	s, err := OpenFS(ctx, fsys, &Options{})
	if err != nil {
		return err
	}
	return errors.Join(fn(s), s.Close())
}

// commits returns a run that commits sets of blobs one after the other.
func commits(sets ...[][]byte) func(context.Context, vfs.FS, func(acked)) error {
	return func(ctx context.Context, fsys vfs.FS, ack func(acked)) error {
		return session(ctx, fsys, func(s *Store) error {
			for _, blobs := range sets {
				a, err := tryCommit(ctx, s, "", blobs...)
				if a.seq != 0 {
					ack(a)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// prepare is the setup that commits once.
func prepare(t *testing.T, disk *vfstest.Mem) (acks []acked) {
	t.Helper()
	ack := func(a acked) { acks = append(acks, a) }
	if err := commits([][]byte{small, []byte("old")})(t.Context(), disk, ack); err != nil {
		t.Fatal(err)
	}
	return acks
}

// appendTo adds bytes to a file that no sync follows.
func appendTo(t *testing.T, disk *vfstest.Mem, name string, b []byte) {
	t.Helper()
	f, err := disk.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, st.Size); err != nil {
		t.Fatal(err)
	}
}

func rawRecord(kind uint8, data []byte) []byte {
	h := pack.Header{Kind: kind, Raw: uint32(len(data)), Stored: uint32(len(data)),
		ID: object.Hash(object.Kind(kind), data), Crc: layout.Checksum(data)}
	return append(h.Append(nil), data...)
}

func scenarios() []scenario {
	two := [][]byte{[]byte("first"), small, large}
	return []scenario{
		{name: "create", run: commits(two), acks: 1},
		{name: "commit", setup: prepare, run: commits(two, [][]byte{[]byte("second")}), acks: 2},
		{name: "chunks", setup: prepare, run: commits([][]byte{random(pack.MinChunked+100<<10, 3)}), acks: 1},
		{name: "close without commit", setup: prepare,
			run: func(ctx context.Context, fsys vfs.FS, ack func(acked)) error {
				return session(ctx, fsys, func(s *Store) error {
					w, err := s.Begin(ctx)
					if err != nil {
						return err
					}
					_, err = w.Put(object.Blob, large)
					return errors.Join(err, w.Close())
				})
			}},
		{name: "seal after commit", seal: 4 << 10, setup: prepare, run: commits(two), acks: 1, best: seals},
		{name: "seal between commits", seal: 4 << 10, setup: prepare, run: commits(two, [][]byte{[]byte("second")}),
			acks: 2, best: seals},
		{name: "seal during capture", sealMax: 4 << 10, setup: prepare,
			run: commits([][]byte{large, small, random(5<<10, 4), []byte("last")}), acks: 1, best: seals},
		{name: "rotate", segment: 200, setup: prepare,
			run: commits(two, [][]byte{[]byte("second")}, [][]byte{[]byte("third")}), acks: 3, best: writesSummary},
		{name: "dead tail", setup: func(t *testing.T, disk *vfstest.Mem) []acked {
			acks := prepare(t, disk)
			// As a process leaves it that was killed before its commit, with
			// a record that the commit to come wants, and half of another.
			appendTo(t, disk, only(t, disk, "packs", ".pack"), rawRecord(uint8(object.Blob), large))
			appendTo(t, disk, only(t, disk, "packs", ".pack"), rawRecord(uint8(object.Blob), small)[:pack.HeaderSize+1])
			return acks
		}, run: commits(two), acks: 1},
		{name: "torn journal", setup: func(t *testing.T, disk *vfstest.Mem) []acked {
			acks := prepare(t, disk)
			f := journal.Frame{Kind: journal.FrameSnapshot, Seq: 2, Durable: 64, Body: make([]byte, 600)}
			appendTo(t, disk, only(t, disk, "journal", ".log"), f.Append(nil)[:500])
			return acks
		}, run: commits(two), acks: 1},
		{name: "damaged journal", setup: func(t *testing.T, disk *vfstest.Mem) []acked {
			acks := prepare(t, disk)
			var more []acked
			if err := commits(two, [][]byte{large})(t.Context(), disk,
				func(a acked) { more = append(more, a) }); err != nil {
				t.Fatal(err)
			}
			// The first of the two is damaged.
			edit(t, disk, only(t, disk, "journal", ".log"), func(b []byte) []byte {
				at := strings.Index(string(b), string(more[0].ids[0][:]))
				return flip(at)(b)
			})
			return append(acks, more[1])
		}, run: commits(two), acks: 1, damage: 1, best: writesSummary},
		{name: "index missing", seal: 1, setup: func(t *testing.T, disk *vfstest.Mem) []acked {
			acks := prepare(t, disk)
			for _, name := range names(t, disk, "packs", ".idx") {
				if err := disk.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
			if err := disk.SyncDir("packs"); err != nil {
				t.Fatal(err)
			}
			return acks
		}, run: func(ctx context.Context, fsys vfs.FS, ack func(acked)) error {
			return session(ctx, fsys, func(s *Store) error {
				_, err := s.Get(ctx, object.Blob, object.Hash(object.Blob, small))
				return err
			})
		}, best: writesIndex},
	}
}

// Each operation fails in turn, once or for good, and the disk is looked at
// as the process left it and as a power cut would leave it. For good is also
// what a power cut at that operation is.
func TestFaults(t *testing.T) {
	testseed.Sequential(t)
	step := stride(11, 23)
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			setLimits(t, limit(sc.sealMax), limit(sc.seal), limit(sc.segment))
			rnd := testseed.Rand(t)
			for _, cause := range []error{syscall.ENOSPC, syscall.EIO} {
				for _, sticky := range []bool{false, true} {
					if sc.name == "chunks" && (cause == syscall.EIO) == sticky {
						continue // a megabyte at a time: half of the variants do
					}
					for at := rnd.Int64N(step); faultAt(t, sc, at, sticky, cause) && !t.Failed(); at += step {
					}
				}
			}
		})
	}
}

func limit(n int64) int64 {
	if n == 0 {
		return never
	}
	return n
}

// faultAt runs a scenario with a fault and reports whether it fired.
func faultAt(t *testing.T, sc scenario, at int64, sticky bool, cause error) bool {
	t.Helper()
	disk := vfstest.NewMem()
	var acks []acked
	if sc.setup != nil {
		acks = sc.setup(t, disk)
	}
	var (
		mu       sync.Mutex // guards the rest: packs are sealed in the background
		started  int64
		done     int    // commits reported done
		before   int    // those before the fault
		op, name string // what failed
	)
	fault := &vfstest.Fault{At: at, Sticky: sticky, Err: cause}
	fault.Trace = func(o, f string) {
		mu.Lock()
		defer mu.Unlock()
		if started == at {
			op, name, before = o, f, done
		}
		started++
	}
	err := sc.run(t.Context(), vfstest.WithFault(disk, fault), func(a acked) {
		mu.Lock()
		defer mu.Unlock()
		done++
		acks = append(acks, a)
	})
	label := fmt.Sprintf("%s %s (operation %d, sticky=%v, %v)", op, name, at, sticky, cause)
	switch {
	case !fault.Fired():
		if err != nil || done != sc.acks {
			t.Errorf("without a fault: %d commits, want %d, %v", done, sc.acks, err)
		}
	case err == nil && !quiet(op, name) && (sc.best == nil || !sc.best(op, name)) && before < sc.acks:
		// Once all is reported done, what fails is the seal in the
		// background: it leaves the pack to the next process.
		t.Errorf("%s: not reported", label)
	case err == nil && done != sc.acks:
		t.Errorf("%s: %d commits, want %d, and no error", label, done, sc.acks)
	}
	crashed := []*vfstest.Mem{disk.AfterCrash(nil)}
	for i := range uint64(3) {
		crashed = append(crashed, disk.AfterCrash(rand.New(rand.NewPCG(uint64(at), i))))
	}
	for _, left := range append(crashed, disk) {
		verify(t, left, acks, sc.damage)
	}
	if t.Failed() {
		t.Logf("%s: run returned %v", label, err)
	}
	return fault.Fired()
}

// What a crash left is opened with each operation failing in turn.
func TestFaultsAtReopening(t *testing.T) {
	testseed.Sequential(t)
	setLimits(t, never, 4<<10, 300)
	work := commits([][]byte{large}, [][]byte{small, random(5<<10, 5)}, [][]byte{[]byte("third")})
	step := stride(19, 25)
	for crashAt := testseed.Rand(t).Int64N(step); ; crashAt += step {
		disk := vfstest.NewMem()
		var acks []acked
		crash := &vfstest.Fault{At: crashAt, Sticky: true}
		_ = work(t.Context(), vfstest.WithFault(disk, crash), func(a acked) { acks = append(acks, a) })
		if !crash.Fired() {
			break
		}
		left := disk.AfterCrash(rand.New(rand.NewPCG(uint64(crashAt), 1)))
		for at := int64(0); ; at++ {
			again := left.AfterCrash(nil) // a copy
			fault := &vfstest.Fault{At: at, Sticky: at%2 == 0, Err: syscall.EIO}
			all := acks[:len(acks):len(acks)]
			_ = commits([][]byte{[]byte("again"), large})(t.Context(), vfstest.WithFault(again, fault),
				func(a acked) { all = append(all, a) })
			verify(t, again.AfterCrash(rand.New(rand.NewPCG(uint64(crashAt), uint64(at)))), all, 0)
			verify(t, again, all, 0)
			if t.Failed() {
				t.Fatalf("crash at operation %d, fault at operation %d of the next process", crashAt, at)
			}
			if !fault.Fired() {
				break
			}
		}
	}
}

// A failure once must not be taken for an answer for ever after.
func TestFaultDuringLookup(t *testing.T) {
	setLimits(t, never, 1, never)
	for _, sealed := range []bool{false, true} {
		disk := vfstest.NewMem()
		pack.SealSizeIdle = never
		if sealed {
			pack.SealSizeIdle = 1
		}
		acks := prepare(t, disk)
		for at := int64(0); ; at++ {
			fault := &vfstest.Fault{At: -1, Err: syscall.EIO}
			s, err := OpenFS(t.Context(), vfstest.WithFault(disk, fault), &Options{})
			if err != nil {
				t.Fatal(err)
			}
			fault.At = fault.Count() + at
			_, err = s.Get(t.Context(), object.Blob, object.Hash(object.Blob, small))
			if err != nil && !errors.Is(err, syscall.EIO) {
				t.Errorf("sealed=%v, operation %d: Get: %v, want EIO", sealed, at, err)
			}
			fired := fault.Fired()
			fault.At = -1
			checkAcked(t, s, acks)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if !fired {
				break
			}
		}
	}
}

// Two processes commit in turn until one of them dies, or the power fails for
// both.
func TestTwoProcesses(t *testing.T) {
	testseed.Sequential(t)
	setLimits(t, never, 8<<10, 700)
	const rounds = 4
	for _, power := range []bool{false, true} {
		for at := int64(0); ; at++ {
			disk := vfstest.NewMem()
			fault := &vfstest.Fault{At: at, Sticky: true}
			faulty := vfstest.WithFault(disk, fault)
			var acks []acked
			stores := make([]*Store, 2)
			for i, fsys := range []vfs.FS{faulty, map[bool]vfs.FS{false: disk, true: faulty}[power]} {
				s, err := OpenFS(t.Context(), fsys, &Options{})
				if err != nil {
					if !fault.Fired() {
						t.Fatal(err)
					}
					continue
				}
				stores[i] = s
			}
			for round := range rounds {
				for i, s := range stores {
					if s == nil {
						continue
					}
					for _, session := range []string{"both", fmt.Sprint("own ", i)} {
						a, err := tryCommit(t.Context(), s, session, fmt.Appendf(nil, "%s %d", session, round),
							random(1000, byte(round)))
						if a.seq != 0 {
							acks = append(acks, a)
						}
						if err == nil {
							continue
						}
						if !fault.Fired() || i == 1 && !power {
							t.Errorf("fault at %d (power=%v): process %d: %v", at, power, i, err)
						}
						if i == 0 && !power {
							s.Close() // it is killed: its locks are free
							stores[0] = nil
							break
						}
					}
				}
			}
			crashed := disk.AfterCrash(rand.New(rand.NewPCG(uint64(at), 1)))
			for _, s := range stores {
				if s != nil {
					s.Close()
				}
			}
			verify(t, disk.AfterCrash(nil), acks, 0)
			verify(t, crashed, acks, 0)
			verify(t, disk, acks, 0)
			if t.Failed() {
				t.Fatalf("fault at operation %d (power=%v)", at, power)
			}
			if !fault.Fired() {
				if len(acks) != 2*2*rounds {
					t.Fatalf("%d commits, want %d", len(acks), 2*2*rounds)
				}
				break
			}
		}
	}
}

// Objects above the durable length go with the sync that failed: whoever
// counts on them must hear of it, and the next stores them again.
func TestFailedPackSync(t *testing.T) {
	disk := vfstest.NewMem()
	fault := &vfstest.Fault{At: -1, Err: syscall.EIO}
	s, err := OpenFS(t.Context(), vfstest.WithFault(disk, fault), &Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	acks := []acked{commit(t, s, "", small)}
	begin := func() *Writer {
		w, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	first, second := begin(), begin()
	id, err := first.Put(object.Blob, large)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Put(object.Blob, large); err != nil || second.Stats().Objects != 0 {
		t.Fatalf("Put of an object that is there: %+v, %v", second.Stats(), err)
	}
	fault.At = fault.Count() // the sync of the pack, as TestOrderOfOperations has it; the write came first
	fault.At++
	if err := first.Commit(t.Context(), &store.Snapshot{Session: "1", Tree: id}, 0); !errors.Is(err, syscall.EIO) {
		t.Errorf("Commit whose sync fails: %v, want EIO", err)
	}
	if !fault.Fired() {
		t.Fatal("no fault")
	}
	if ok, err := s.Has(id); ok || err != nil {
		t.Errorf("Has = %v, %v after the sync failed", ok, err)
	}
	for i, w := range []*Writer{first, second} {
		if err := w.Commit(t.Context(), &store.Snapshot{Session: "2", Tree: id}, 0); !errors.Is(err, ErrLost) {
			t.Errorf("Commit of writer %d: %v, want ErrLost", i, err)
		}
		if _, err := w.Put(object.Blob, []byte("more")); !errors.Is(err, ErrLost) {
			t.Errorf("Put of writer %d: %v, want ErrLost", i, err)
		}
	}
	if err := first.Close(); !errors.Is(err, ErrLost) {
		t.Errorf("Close of the writer that failed: %v, want ErrLost", err)
	}
	if err := second.Close(); err != nil {
		t.Errorf("Close of the writer that put nothing: %v", err)
	}
	checkAcked(t, s, acks)

	third := begin()
	if _, err := third.Put(object.Blob, large); err != nil || third.Stats().Objects != 1 {
		t.Errorf("Put after the failure stored %d objects, want 1 again, %v", third.Stats().Objects, err)
	}
	snap := &store.Snapshot{Session: "3", Tree: id}
	if err := third.Commit(t.Context(), snap, 0); err != nil {
		t.Fatal(err)
	}
	if err := third.Close(); err != nil {
		t.Error(err)
	}
	acks = append(acks, acked{"3", snap.Seq, []store.ID{id}})
	verify(t, disk.AfterCrash(nil), acks, 0)
	checkAcked(t, s, acks)
}

// A writer that finds an object being stored by another waits for it: else
// its commit could be durable before the object is.
func TestPutWaitsForTheOther(t *testing.T) {
	// The encoder is everyone's, and not the bubble's.
	var buf []byte
	codec, stored := pack.Compress(uint8(object.Blob), large, &buf)
	if err := pack.VerifyCompressed(codec, stored, large, &buf); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		disk := vfstest.NewMem()
		s := openMem(t, disk)
		id := object.Hash(object.Blob, large)
		if ok, err := s.reserve(id); !ok || err != nil { // the other writer, while it compresses
			t.Fatal(ok, err)
		}
		done := make(chan acked, 1)
		go func() {
			a, err := tryCommit(t.Context(), s, "", large)
			if err != nil {
				t.Error(err)
			}
			done <- a
		}()
		synctest.Wait()
		if len(done) > 0 {
			t.Error("a commit overtook its object")
		}
		s.release(id) // the other one failed
		a := <-done
		verify(t, disk.AfterCrash(nil), []acked{a}, 0)
	})
}

// A pack whose sync failed once is never synced again as if it were clean.
func TestFailedSyncIsForGood(t *testing.T) {
	disk := vfstest.NewMem()
	fault := &vfstest.Fault{At: -1, Err: syscall.EIO}
	s, err := OpenFS(t.Context(), vfstest.WithFault(disk, fault), &Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	commit(t, s, "", small)
	s.wmu.Lock()
	defer s.wmu.Unlock()
	w := s.active
	w.Buf = append(w.Buf, rawRecord(uint8(object.Blob), large)...)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	fault.At = fault.Count()
	for range 2 {
		if err := w.Sync(w.Written); !errors.Is(err, syscall.EIO) {
			t.Errorf("sync = %v, want EIO", err)
		}
	}
	if err := w.Seal(s.fsys, s.id, w.Written); !errors.Is(err, syscall.EIO) {
		t.Errorf("seal = %v, want EIO", err)
	}
	if idx := names(t, disk, "packs", ".idx"); len(idx) > 0 {
		t.Errorf("%s vouches for what was not synced", idx)
	}
}

// A pack with a dead tail is sealed in front of it, and its bytes stay.
func TestDeadTailIsSealed(t *testing.T) {
	disk := vfstest.NewMem()
	acks := prepare(t, disk)
	name := only(t, disk, "packs", ".pack")
	appendTo(t, disk, name, rawRecord(uint8(object.Blob), large))
	before := readAll(t, disk, name)
	var more []acked
	if err := commits([][]byte{large})(t.Context(), disk, func(a acked) { more = append(more, a) }); err != nil {
		t.Fatal(err)
	}
	if after := readAll(t, disk, name); !bytes.HasPrefix(after, before) || len(after) != len(before)+pack.SealSize {
		t.Errorf("%s has %d bytes, was %d: want a seal behind them", name, len(after), len(before))
	}
	if len(names(t, disk, "packs", ".pack")) != 2 ||
		only(t, disk, "packs", ".idx") != strings.TrimSuffix(name, ".pack")+".idx" {
		t.Errorf("packs are %q", names(t, disk, "packs", ""))
	}
	verify(t, disk.AfterCrash(nil), append(acks, more...), 0)
}

// What lies in a pack between the write and the sync of its seal can be read,
// also while it is still in the buffer.
func TestReadWhileSealing(t *testing.T) {
	setLimits(t, 4<<10, never, never)
	disk := vfstest.NewMem()
	hold := make(chan struct{})
	fault := &vfstest.Fault{At: -1, Trace: func(op, name string) {
		if op == "Sync" && strings.HasSuffix(name, ".pack") {
			<-hold
		}
	}}
	s, err := OpenFS(t.Context(), vfstest.WithFault(disk, fault), &Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{small, large} {
		if _, err := w.Put(object.Blob, b); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range [][]byte{small, large} {
		checkBlob(t, s, object.Hash(object.Blob, b))
	}
	close(hold)
	snap := &store.Snapshot{Tree: object.Hash(object.Blob, large)}
	if err := w.Commit(t.Context(), snap, 0); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	verify(t, disk.AfterCrash(nil), []acked{{"", snap.Seq, []store.ID{snap.Tree, object.Hash(object.Blob, small)}}}, 0)
}

// A seal that a power cut kept must not vouch for a body that it did not.
func TestCrashDuringSeal(t *testing.T) {
	setLimits(t, 4<<10, never, never)
	for seed := range uint64(*crashRounds) {
		disk := vfstest.NewMem()
		acks := prepare(t, disk)
		s, err := OpenFS(t.Context(), disk, &Options{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var crashed []*vfstest.Mem
		r := rand.New(rand.NewPCG(seed, 0))
		s.wmu.Lock()
		if err := s.openActive(); err != nil {
			t.Fatal(err)
		}
		fault := &vfstest.Fault{At: -1, Trace: func(op, name string) { crashed = append(crashed, disk.AfterCrash(r)) }}
		traced := vfstest.WithFault(disk, fault)
		f, err := traced.OpenFile(s.active.Name(), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.active.Append(pack.Header{Kind: uint8(object.Blob), Raw: uint32(len(large)),
			Stored: uint32(len(large)),
			ID:     object.Hash(object.Blob, large), Crc: layout.Checksum(large)}, large, nil); err != nil {
			t.Fatal(err)
		}
		own := s.active.F
		s.active.F = f
		if err := errors.Join(s.active.Flush(), s.active.Seal(traced, s.id, s.active.Written)); err != nil {
			t.Fatal(err)
		}
		s.active.F = own
		s.active = nil
		s.wmu.Unlock()
		if err := errors.Join(w.Close(), s.Close(), f.Close()); err != nil {
			t.Error(err)
		}
		for _, c := range crashed {
			verify(t, c, acks, 0)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// A name whose sync failed is not durable until it is synced again, whoever
// uses the file meanwhile: also where there was no space, and what had the name is
// cut back to nothing, and taken up by the next.
func TestFailedNameSync(t *testing.T) {
	for _, dir := range []string{".", "packs", "journal"} {
		for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
			disk := vfstest.NewMem()
			failed := false
			fault := &vfstest.Fault{At: -1, Err: cause}
			fault.Trace = func(op, name string) {
				if op == "SyncDir" && name == dir && !failed {
					if dir == "." { // the first is for the directories, the second for FORMAT
						if _, err := disk.Stat(layout.FormatName); errors.Is(err, fs.ErrNotExist) {
							return
						}
					}
					failed = true
					fault.At = fault.Count()
				}
			}
			if err := commits([][]byte{small})(t.Context(), vfstest.WithFault(disk, fault),
				func(acked) {}); !errors.Is(err, cause) {
				t.Errorf("SyncDir %s: commit returned %v, want %v", dir, err, cause)
			}
			var acks []acked
			if err := commits([][]byte{small})(t.Context(), disk,
				func(a acked) { acks = append(acks, a) }); err != nil {
				t.Fatal(err)
			}
			verify(t, disk.AfterCrash(nil), acks, 0)
			if t.Failed() {
				t.Fatalf("SyncDir %s, %v", dir, cause)
			}
		}
	}
}
