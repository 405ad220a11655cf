//go:build linux

package faults

import (
	"encoding/binary"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/testseed"
)

var images = flag.Int("images", 40, "crash images for each file system; 0: one for each sync")

// A blockWrite is a write to a disk, or a sync if it has no bytes.
type blockWrite struct {
	off int64
	b   []byte
	end int64 // in the log
}

func readLog(t *testing.T, name string) (writes []blockWrite) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(len(b))
	for len(b) > 0 {
		off, n := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		data := b[16 : 16+n]
		b = b[16+n:]
		writes = append(writes, blockWrite{int64(off), data, size - int64(len(b))})
	}
	return writes
}

// TestBlockLog logs what reaches the disk under a store, and makes the images
// that power cuts would have left: all up to a sync, and some blocks of what
// came until the next. What was acknowledged before the sync is in each.
func TestBlockLog(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			needs(t, true, "losetup")
			image, logName := newImage(t, kind), filepath.Join(scratch(t), "log")
			base, err := os.ReadFile(image)
			if err != nil {
				t.Fatal(err)
			}
			h := fuse(t, "log", image, logName)
			w := newWorld(t, "", filepath.Join(t.TempDir(), "project"))
			w.at = func() int64 {
				st, err := os.Stat(logName)
				if err != nil {
					t.Error(err)
					return 0
				}
				return st.Size()
			}
			w.files(20, 3000)
			m := newMount(t, "-o", "loop", filepath.Join(h.dir, "disk"))
			w.stores = m.path("stores")
			for range 3 {
				if err := w.snapshot(); err != nil {
					t.Fatal(err)
				}
				e := w.serve(30)
				e.work.Wait()
				e.kill()
				w.write("again", strings.Repeat("x", rand.IntN(100)))
			}
			m.umount()
			writes := readLog(t, logName)
			var syncs []int
			for i, x := range writes {
				if len(x.b) == 0 {
					syncs = append(syncs, i)
				}
			}
			r := rand.New(rand.NewPCG(testseed.Of(t), 1))
			share := 1.0
			if *images > 0 {
				share = float64(*images) / float64(len(syncs))
			}
			made, checked, done := 0, 0, 0
			for n, i := range syncs {
				for ; done < i; done++ {
					copy(base[writes[done].off:], writes[done].b)
				}
				if r.Float64() > share {
					continue
				}
				made++
				next := len(writes)
				if n+1 < len(syncs) {
					next = syncs[n+1]
				}
				checked += tryImage(t, w, base, writes[i:next], r)
				if t.Failed() {
					t.Fatalf("sync %d of %d", n, len(syncs))
				}
			}
			t.Logf("%d writes, %d syncs, %d snapshots acknowledged; %d images, in which %d were to be",
				len(writes)-len(syncs), len(syncs), len(w.acks), made, checked)
		})
	}
}

// tryImage checks one image: base, and half of the blocks of later writes. It
// returns how many snapshots had been acknowledged.
func tryImage(t *testing.T, w *world, base []byte, later []blockWrite, r *rand.Rand) int {
	t.Helper()
	name := filepath.Join(scratch(t), "image")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(name)
	defer f.Close()
	const block = 4096
	zero := string(make([]byte, 256<<10))
	for off := 0; off < len(base); off += len(zero) { // leaves holes
		if b := base[off:min(off+len(zero), len(base))]; string(b) != zero {
			if _, err := f.WriteAt(b, int64(off)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := f.Truncate(int64(len(base))); err != nil {
		t.Fatal(err)
	}
	for _, x := range later {
		for off := 0; off < len(x.b); off += block {
			if r.IntN(2) == 0 {
				if _, err := f.WriteAt(x.b[off:min(off+block, len(x.b))], x.off+int64(off)); err != nil &&
					err != io.EOF {
					t.Fatal(err)
				}
			}
		}
	}
	m := newMount(t, "-o", "loop", name)
	defer m.umount()
	var acks []ack
	for _, a := range w.acks {
		if a.at <= later[0].end {
			acks = append(acks, a)
		}
	}
	then := &world{t: t, home: w.home, stores: m.path("stores"), project: w.project, hash: w.hash}
	if _, err := os.Stat(filepath.Join(then.storeDir(), "FORMAT")); err != nil && len(acks) == 0 {
		return 0 // it was not there yet
	}
	then.verify(acks)
	return len(acks)
}
