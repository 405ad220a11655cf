package cas

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// Each of many blobs is copied once and as it is, whatever its record is like, and each record is read once.
func TestEachBlob(t *testing.T) {
	setLimits(t, never, 600<<10, never)
	disk := vfstest.NewMem()
	s := openMem(t, disk)
	blobs := append(texts("one", 300), nil, random(200<<10, 1), random(300<<10, 2),
		[]byte(strings.Repeat("compressible ", 20_000)), []byte(strings.Repeat("also that one ", 30_000)),
		random(3<<20, 3), random(100, 4))
	for i, some := range [][][]byte{blobs[:150], blobs[150:303], blobs[303:]} {
		commit(t, s, string(rune('a'+i)), some...)
	}
	s.waitSealed()
	want := make(map[store.ID][]byte)
	var ids []store.ID
	for _, b := range blobs {
		id := object.Hash(object.Blob, b)
		want[id] = b
		ids = append(ids, id, id)
	}
	missing := store.ID{1}
	ids = append(ids, missing)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })

	var large, reads atomic.Int64
	fault := &vfstest.Fault{At: -1, Trace: func(op, name string) {
		if op == "ReadAt" && strings.HasSuffix(name, ".pack") {
			reads.Add(1)
		}
	}}
	x := openMem(t, vfstest.WithFault(disk, fault))
	records := make(map[place]bool)
	for _, id := range ids {
		if loc, ok, err := x.find(id); ok && err == nil {
			records[place{loc.Pack.ID, loc.Off}] = true
		}
	}
	reads.Store(0)
	var mu sync.Mutex // guards called
	called := make(map[int]int)
	if err := x.EachBlob(t.Context(), ids, func(i int, copy func(w io.Writer) (int64, error)) error {
		mu.Lock()
		called[i]++
		mu.Unlock()
		var b bytes.Buffer
		n, err := copy(&b)
		switch {
		case ids[i] == missing:
			if !errors.Is(err, store.ErrNotFound) || n > 0 {
				t.Errorf("copy of what is missing: %d, %v", n, err)
			}
		case err != nil || n != int64(b.Len()) || !bytes.Equal(b.Bytes(), want[ids[i]]):
			t.Errorf("%d bytes: copied %d, %d, %v", len(want[ids[i]]), n, b.Len(), err)
		case n > 1<<20:
			large.Add(1)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i := range ids {
		if called[i] != 1 {
			t.Fatalf("blob %d: called %d times", i, called[i])
		}
	}
	if len(called) != len(ids) || large.Load() != 2 {
		t.Errorf("called for %d of %d, %d large ones", len(called), len(ids), large.Load())
	}
	// The large blob is there twice, with some ten chunks, and its list is read by two.
	if got, most := int(reads.Load()), len(records)+30; got > most {
		t.Errorf("%d reads of %d records, want at most %d", got, len(records), most)
	}
}

// The first error ends it, and so does who asked.
func TestEachBlobEnds(t *testing.T) {
	s := openMem(t, vfstest.NewMem())
	blobs := texts("text", 400)
	commit(t, s, "", blobs...)
	var ids []store.ID
	for _, b := range blobs {
		ids = append(ids, object.Hash(object.Blob, b))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	for _, end := range []func() error{
		func() error { return enough },
		func() error { cancel(enough); return nil },
	} {
		var calls atomic.Int64
		err := s.EachBlob(ctx, ids, func(int, func(io.Writer) (int64, error)) error {
			if calls.Add(1) > 10 {
				return end()
			}
			return nil
		})
		if !errors.Is(err, enough) || calls.Load() > 20 {
			t.Errorf("EachBlob: %v after %d calls", err, calls.Load())
		}
	}
}

// Of a record that is damaged nothing is copied that is not as it was, and what has another copy is.
func TestEachBlobDamaged(t *testing.T) {
	testseed.Sequential(t)
	setLimits(t, never, 1, never) // a pack for each commit
	disk := vfstest.NewMem()
	s := openMem(t, disk)
	blobs := append(texts("text", 6), random(140<<10, 1), []byte(strings.Repeat("compressible ", 20_000)))
	var ids []store.ID
	for _, b := range blobs {
		ids = append(ids, object.Hash(object.Blob, b))
	}
	commit(t, s, "one", blobs...)
	s.waitSealed()
	name := only(t, disk, "packs", ".pack")
	size := len(readAll(t, disk, name))
	for at := pack.HeaderSize; at < size; at += 1 + size/200 {
		hurt := disk.AfterCrash(nil)
		edit(t, hurt, name, flip(at))
		x := openDamaged(t, hurt)
		lost := 0
		each := func() {
			var mu sync.Mutex // guards lost
			if err := x.EachBlob(t.Context(), ids, func(i int, copy func(w io.Writer) (int64, error)) error {
				var b bytes.Buffer
				_, err := copy(&b)
				switch {
				case errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNotFound):
					mu.Lock()
					lost++
					mu.Unlock()
					if b.Len() > 0 {
						t.Errorf("byte %d: %d bytes of what is damaged are copied", at, b.Len())
					}
				case err != nil || !bytes.Equal(b.Bytes(), blobs[i]):
					t.Errorf("byte %d: %d bytes of %d, %v", at, b.Len(), len(blobs[i]), err)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		each()
		if lost == 0 {
			continue // the seal
		}
		commit(t, x, "again", blobs...)
		x.waitSealed()
		lost = 0
		each()
		if lost > 0 {
			t.Errorf("byte %d: %d blobs are lost that were stored again", at, lost)
		}
	}
}

// A record may be whole, and hold something else than its name says.
func TestEachBlobOfWrongContent(t *testing.T) {
	id := object.Hash(object.Blob, []byte("what it should be"))
	text := []byte("something else")
	h := pack.Header{Kind: uint8(object.Blob), Raw: uint32(len(text)), Stored: uint32(len(text)), ID: id,
		Crc: layout.Checksum(text)}
	disk := vfstest.NewMem()
	addRecord(t, disk, append(h.Append(nil), text...))
	s := openDamaged(t, disk)
	if err := s.EachBlob(t.Context(), []store.ID{id}, func(_ int, copy func(w io.Writer) (int64, error)) error {
		var b bytes.Buffer
		if _, err := copy(&b); !errors.Is(err, store.ErrCorrupt) || b.Len() > 0 {
			t.Errorf("copied %q, %v; want ErrCorrupt", b.String(), err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
