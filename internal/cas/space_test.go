package cas

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// freeOf returns how many bytes are free on a disk.
func freeOf(t *testing.T, disk *vfstest.Mem) int64 {
	t.Helper()
	free, _, err := disk.Space()
	if err != nil {
		t.Fatal(err)
	}
	return free
}

// fill puts blobs that do not compress until one cannot be put, and returns why.
func fill(t *testing.T, w *Writer, seed byte) error {
	t.Helper()
	for i := range 10000 {
		b := random(20<<10, seed)
		b[0], b[1] = byte(i), byte(i>>8)
		if _, err := w.Put(object.Blob, b); err != nil {
			return err
		}
	}
	t.Fatal("the disk is never full")
	return nil
}

// A capture stops where others begin, and what it wrote goes again, whether it fills
// one pack or many, in a pack that has a name or not.
func TestNoSpace(t *testing.T) {
	testseed.Sequential(t)
	const size, keep = 8 << 20, 2 << 20
	for _, sealMax := range []int64{never, 300 << 10} {
		for _, keep := range []int64{0, keep} {
			for _, named := range []bool{false, true} {
				setLimits(t, sealMax, min(sealMax, 200<<10), never)
				disk := vfstest.NewMem()
				disk.SetSize(size)
				s := openMem(t, disk)
				var acks []acked
				if named {
					acks = append(acks, commit(t, s, "", small))
				}
				before := freeOf(t, disk)
				w, err := s.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				w.KeepFree(keep, "d")
				err = fill(t, w, 1)
				switch free := freeOf(t, disk); {
				case keep > 0 && (!errors.Is(err, store.ErrNoSpace) || free < keep || free > keep+2<<20):
					t.Errorf("%d are to stay free: %v with %d", keep, err, free)
				case keep == 0 && !errors.Is(err, syscall.ENOSPC):
					t.Errorf("Put on a full disk: %v", err)
				case !IsNoSpace(err):
					t.Errorf("IsNoSpace(%v) is false", err)
				}
				w.Close() // it may say that all is lost
				s.waitSealed()
				if after := freeOf(t, disk); after < before-memBlocks(2) {
					t.Errorf("%d bytes were free, %d after a capture that "+
						"did not fit (sealMax %d, keep %d, named %v): %q %q", before, after,
						sealMax, keep, named, names(t, disk, "packs", ""), names(t, disk, "tmp", ""))
				}
				acks = append(acks, commit(t, s, "", large), commit(t, s, "more", random(50<<10, 7)))
				verify(t, disk.AfterCrash(nil), acks, 0)
			}
		}
	}
}

func memBlocks(n int64) int64 { return n * 4096 }

// What another writer of the process has found is not taken from it.
func TestNoSpaceBesideWriter(t *testing.T) {
	setLimits(t, 300<<10, 200<<10, never)
	for _, commits := range []bool{true, false} {
		disk := vfstest.NewMem()
		disk.SetSize(8 << 20)
		s := openMem(t, disk)
		begin := func() *Writer {
			w, err := s.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		before := freeOf(t, disk)
		first, other := begin(), begin()
		first.KeepFree(2<<20, "d")
		if _, err := first.Put(object.Blob, large); err != nil {
			t.Fatal(err)
		}
		if err := fill(t, first, 2); !errors.Is(err, store.ErrNoSpace) {
			t.Fatal(err)
		}
		first.Close()
		if _, err := other.Put(object.Blob, large); err != nil {
			t.Fatal(err)
		}
		if commits {
			snap := &store.Snapshot{Tree: object.Hash(object.Blob, large)}
			if err := other.Commit(t.Context(), snap, 0); err != nil {
				t.Fatal(err)
			}
			checkAcked(t, s, []acked{{"", snap.Seq, []store.ID{snap.Tree}}})
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
		if after := freeOf(t, disk); !commits && after < before-memBlocks(2) {
			t.Errorf("%d bytes were free, %d when the last writer is closed", before, after)
		}
	}
}

// What a process wrote that was killed before its first commit is removed by the
// next that opens the store to write, and by none while the process lives.
func TestDeadPacks(t *testing.T) {
	withoutGroups(t)
	setLimits(t, 300<<10, 200<<10, never)
	disk := vfstest.NewMem()
	s := openMem(t, disk)
	acks := []acked{commit(t, s, "", small)}
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		b := random(20<<10, 3)
		b[0] = byte(i)
		if _, err := w.Put(object.Blob, b); err != nil {
			t.Fatal(err)
		}
	}
	s.waitSealed()
	if err := disk.SyncDir("tmp"); err != nil {
		t.Fatal(err)
	}
	killed := disk.AfterCrash(nil) // it has what was synced, and its locks are free
	if n := len(names(t, killed, "tmp", ".pack")); n < 5 {
		t.Fatalf("tmp has %d packs of one that was killed", n)
	}
	openMem(t, disk) // the process lives
	verify(t, killed, acks, 0)
	if left := names(t, killed, "tmp", ""); len(left) > 0 {
		t.Errorf("tmp has %q after others have opened the store", left)
	}
	snap := &store.Snapshot{Session: "late", Tree: object.Hash(object.Blob, small)}
	if err := w.Commit(t.Context(), snap, 0); err != nil {
		t.Errorf("commit beside others: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if left := slices.DeleteFunc(names(t, disk, "tmp", ""),
		func(name string) bool { return !strings.HasSuffix(name, ".pack") }); len(left) > 0 {
		t.Errorf("tmp has %q after a commit", left)
	}
	verify(t, disk.AfterCrash(nil), append(acks, acked{"late", snap.Seq, []store.ID{snap.Tree}}), 0)
}

// setBallast makes the ballast smaller in this test.
func setBallast(t *testing.T, size int64) {
	was := ballastSize
	ballastSize = size
	t.Cleanup(func() { ballastSize = was })
}

// takeAll leaves so many bytes of a disk, as somebody else's file.
func takeAll(t *testing.T, disk *vfstest.Mem, left int64) {
	t.Helper()
	f, err := disk.OpenFile("locks/taken", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil {
		err = f.Truncate(st.Size + freeOf(t, disk) - left)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// On a disk without a byte left a prune begins with the ballast's, frees what is
// wholly dead, and puts the ballast back. Somebody may have freed it and been
// killed; and where there never was one, what need not be sealed goes.
func TestPruneFullDisk(t *testing.T) {
	for _, without := range []string{"", "killed", "never"} {
		segment := int64(300) // each record needs a new file
		if without == "never" {
			segment = never
		}
		setLimits(t, never, 40<<10, segment)
		setBallast(t, 32<<10)
		disk := vfstest.NewMem()
		disk.SetSize(1 << 20)
		lib := new(library)
		s, err := OpenFS(t.Context(), disk, &Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			lib.mustCommit(t, s, "old", fmt.Appendf(nil, "tree %d", i), random(60<<10, byte(i)))
		}
		lib.mustCommit(t, s, "old", []byte("tree"), random(8<<10, 8))
		kept := lib.mustCommit(t, s, "kept", []byte("kept tree"), random(10<<10, 9)) // in a pack that is not sealed
		s.waitSealed()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		ballast, err := vfs.ReadFile(disk, layout.BallastName)
		if err != nil || int64(len(ballast)) != ballastSize {
			t.Fatalf("the ballast has %d bytes, %v", len(ballast), err)
		}
		var buf []byte
		if codec, stored := pack.Compress(uint8(object.Blob), ballast, &buf); len(stored) < len(ballast) {
			t.Errorf("the ballast is compressed to %d bytes by codec %d", len(stored), codec)
		}
		if without != "never" {
			takeAll(t, disk, 0)
		}
		if without != "" {
			if err := disk.Remove(layout.BallastName); err != nil {
				t.Fatal(err)
			}
		}
		if without == "never" {
			takeAll(t, disk, 0)
		}
		s = openMem(t, disk)
		plan, r, err := lib.prune(t.Context(), s, func(snap *store.Snapshot) bool { return snap.Session == "kept" })
		if err != nil || r.Dropped != 5 || plan.Short != (without == "never") {
			t.Fatalf("%q: prune of a full disk: %+v, %+v, %v", without, plan, r, err)
		}
		if free := freeOf(t, disk); free < 4*50<<10 {
			t.Errorf("%d bytes are free after the prune", free)
		}
		if _, err := disk.Stat(layout.BallastName); err != nil {
			t.Errorf("ballast after the prune: %v", err)
		}
		again := openMem(t, disk.AfterCrash(nil))
		checkAcked(t, again, []acked{kept, lib.mustCommit(t, again, "kept", large)})
	}
}

// Each operation of freeing and writing the ballast fails in turn, or is the last:
// nothing else depends on it.
func TestBallastFaults(t *testing.T) {
	setBallast(t, 16<<10)
	for _, sticky := range []bool{false, true} {
		for at := int64(0); ; at++ {
			disk := vfstest.NewMem()
			disk.SetSize(1 << 20)
			var acks []acked
			if err := commits([][]byte{large})(t.Context(), disk,
				func(a acked) { acks = append(acks, a) }); err != nil {
				t.Fatal(err)
			}
			fault := &vfstest.Fault{At: -1, Sticky: sticky, Err: syscall.EIO}
			s, err := OpenFS(t.Context(), vfstest.WithFault(disk, fault), &Options{})
			if err != nil {
				t.Fatal(err)
			}
			fault.At = fault.Count() + at
			s.MakeRoom(true)
			s.KeepBallast()
			s.Close()
			for _, left := range []*vfstest.Mem{disk.AfterCrash(nil),
				disk.AfterCrash(rand.New(rand.NewPCG(uint64(at), 1))), disk} {
				verify(t, left, acks, 0)
				if st, err := left.Stat(layout.BallastName); err != nil || st.Size != ballastSize {
					t.Errorf("operation %d: the ballast is %+v, %v when the store was opened again", at, st, err)
				}
			}
			if !fault.Fired() {
				break
			}
		}
	}
}

// A store whose disk is nearly full has no ballast, and gets one when there is room.
func TestBallastWaits(t *testing.T) {
	setBallast(t, 64<<10)
	disk := vfstest.NewMem()
	disk.SetSize(200 << 10)
	s := openMem(t, disk)
	commit(t, s, "", small)
	if _, err := disk.Stat(layout.BallastName); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ballast on a disk that is nearly full: %v", err)
	}
	// Who needed it on a full disk leaves what there is room for.
	takeAll(t, disk, 40<<10)
	s.KeepBallast()
	if st, err := disk.Stat(layout.BallastName); err != nil || st.Size != 20<<10 {
		t.Errorf("ballast where 40 KiB are free: %+v, %v", st, err)
	}
	openMem(t, disk)
	if free := freeOf(t, disk); free != 20<<10 {
		t.Errorf("%d bytes are free, want 20 KiB", free)
	}
	disk.SetSize(2 << 20)
	openMem(t, disk)
	if _, err := disk.Stat(layout.BallastName); err != nil {
		t.Errorf("ballast when there is room: %v", err)
	}
	if s.MakeRoom(false) {
		t.Error("it was freed though there is room")
	}
	u, err := s.Usage(t.Context())
	if err != nil || u.Ballast != 64<<10 {
		t.Errorf("usage %+v, %v", u, err)
	}
}
