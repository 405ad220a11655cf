package cas

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

// Random operations of several processes, with crashes, against the list of
// what was reported done.
func TestCrashesAtRandom(t *testing.T) {
	first := testseed.Of(t)
	for round := range uint64(*crashRounds) {
		model(t, rand.New(rand.NewPCG(first+round, 0)))
		if t.Failed() {
			t.Fatalf("seed %d", first+round)
		}
	}
}

func model(t *testing.T, r *rand.Rand) {
	setLimits(t, 8<<10+r.Int64N(16<<10), 1+r.Int64N(16<<10), 300+r.Int64N(3000))
	disk := vfstest.NewMem()
	stores := make([]*Store, 3)
	var acks []acked
	blob := func() []byte {
		n := r.IntN(60) // some again and again
		return random(n*n*3, byte(n))
	}
	open := func(i int) *Store {
		if stores[i] == nil {
			s, err := OpenFS(t.Context(), disk, &Options{})
			if err != nil {
				t.Fatal(err)
			}
			stores[i] = s
		}
		return stores[i]
	}
	closeStore := func(i int) {
		if stores[i] != nil {
			if err := stores[i].Close(); err != nil {
				t.Error(err)
			}
			stores[i] = nil
		}
	}
	for range 120 {
		i := r.IntN(len(stores))
		switch op := r.IntN(20); {
		case op < 12: // commit
			blobs := [][]byte{fmt.Append(nil, r.Uint64())}
			for range r.IntN(4) {
				blobs = append(blobs, blob())
			}
			acks = append(acks, commit(t, open(i), fmt.Sprint(r.IntN(4)), blobs...))
		case op < 14: // put, and end without a commit
			w, err := open(i).Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Put(object.Blob, blob()); err != nil {
				t.Error(err)
			}
			if r.IntN(2) == 0 {
				closeStore(i) // under the writer
				w.lock.Close()
			} else if err := w.Close(); err != nil {
				t.Error(err)
			}
		case op < 16: // end
			closeStore(i)
		case op < 17: // look at it all
			checkAcked(t, open(i), acks)
			checkClean(t, open(i))
		case op < 18: // lose what is derived
			if idx := names(t, modelDisk(t, disk), "packs", ".idx"); len(idx) > 0 {
				name := idx[r.IntN(len(idx))]
				if r.IntN(2) == 0 {
					if err := disk.Remove(name); err != nil {
						t.Error(err)
					}
				} else if f, err := disk.OpenFile(name, os.O_RDWR, 0); err == nil {
					if err := f.Truncate(r.Int64N(100)); err != nil {
						t.Error(err)
					}
					f.Close()
				}
				for i := range stores { // what reads it now may hold parts of it
					closeStore(i)
				}
				if err := session(t.Context(), disk, func(s *Store) error { return s.load() }); err != nil {
					t.Error(err)
				}
			}
		default: // the power fails
			crashed := disk.AfterCrash(r)
			for i := range stores {
				closeStore(i)
			}
			disk = crashed
			checkAcked(t, open(i), acks)
			checkClean(t, open(i))
		}
		if t.Failed() {
			return
		}
	}
	for i := range stores {
		closeStore(i)
	}
	verify(t, disk, acks, 0)
}

// modelDisk returns disk once it holds a store.
func modelDisk(t *testing.T, disk *vfstest.Mem) *vfstest.Mem {
	t.Helper()
	if err := session(t.Context(), disk, func(s *Store) error { return nil }); err != nil {
		t.Fatal(err)
	}
	return disk
}
