package cas

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// onDisk returns the length of a file, or of all below a directory.
func onDisk(t *testing.T, elem ...string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(elem...), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestUsage: what Usage says is what headers of records say and what the disk
// says, for sealed packs and others, objects stored twice and bytes of nobody.
func TestUsage(t *testing.T) {
	withoutGroups(t)
	setLimits(t, 64<<10, 4<<10, never)
	dir := t.TempDir()
	a := openMem(t, vfs.OS(dir))
	b := openMem(t, vfs.OS(dir))
	for _, s := range []*Store{a, b} {
		if _, err := s.Has(store.ID{}); err != nil { // looks at the packs, of which there are none
			t.Fatal(err)
		}
	}
	commit(t, a, "a", large, small)
	commit(t, b, "b", large, bytes.Repeat([]byte("text "), 300))
	commit(t, b, "b", random(3<<20, 8)) // several packs
	a.waitSealed()
	b.waitSealed()
	commit(t, a, "a", []byte("not sealed"))
	for name, size := range map[string]int{"trash/old.pack": 10, "quarantine/bad": 20, "worktrees/w": 30, "tmp/x": 40,
		"packs/x.tmp": 50} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	for who, s := range map[string]*Store{"writer": a, "reader": openMem(t, vfs.OS(dir))} {
		u, err := s.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := onDisk(t, dir); u.Total() != want {
			t.Errorf("%s: Total() = %d, the disk has %d: %+v", who, u.Total(), want, u)
		}
		objects, records, copies := recordsOf(t, s)
		if u.Objects != len(objects) || u.ObjectBytes != records || u.Copies != 1 || u.CopyBytes != copies {
			t.Errorf("%s: Usage = %+v, want %d objects of %d bytes, 1 copy of %d", who, u, len(objects), records,
				copies)
		}
		if u.Trash != 10 || u.Quarantine != 20 || u.Worktrees != 30 || u.Journal != onDisk(t, dir, "journal") {
			t.Errorf("%s: Usage = %+v", who, u)
		}
		if want := onDisk(t, dir, "tmp") + onDisk(t, dir, "locks") + onDisk(t, dir, "FORMAT") + 50; u.Other != want {
			t.Errorf("%s: Other = %d, want %d", who, u.Other, want)
		}
		for id, h := range objects {
			kind := object.Kind(h.Kind)
			if kind == pack.RecChunked {
				kind = object.Blob
			}
			o, err := s.Stored(kind, id)
			if err != nil || o.Bytes != h.Size() ||
				h.Kind != pack.RecChunked && (o.Size != int64(h.Raw) || o.Chunks != nil) {
				t.Errorf("%s: Stored(%s) = %+v, %v; header %+v", who, id.Short(), o, err, h)
			}
			if h.Kind != pack.RecChunked {
				continue
			}
			var whole []byte
			for _, chunk := range o.Chunks {
				part, err := s.Get(t.Context(), object.Blob, chunk)
				if err != nil {
					t.Fatal(err)
				}
				whole = append(whole, part...)
			}
			if object.Hash(object.Blob, whole) != id || len(o.Chunks) < 2 || o.Size != 0 {
				t.Errorf("%s: Stored = %+v: these are not its chunks", who, o)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Usage(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Usage, cancelled: %v", err)
	}
}

// recordsOf reads the headers of all records: each object's first, and the bytes
// of those and of the others.
func recordsOf(t *testing.T, s *Store) (objects map[store.ID]pack.Header, first, copies int64) {
	t.Helper()
	objects = make(map[store.ID]pack.Header)
	for _, name := range names(t, s.fsys, "packs", ".pack") {
		b, err := vfs.ReadFile(s.fsys, name)
		if err != nil {
			t.Fatal(err)
		}
		for b = b[layout.HeaderSize:]; len(b) > 0; {
			h, err := pack.ParseHeader(b)
			if err != nil || h.Kind == pack.RecSeal {
				break
			}
			if _, ok := objects[h.ID]; ok {
				copies += h.Size()
			} else {
				objects[h.ID] = h
				first += h.Size()
			}
			b = b[h.Size():]
		}
	}
	return objects, first, copies
}

// TestUsageDamage: a damaged index is made anew, a damaged record is told of
// with its length.
func TestUsageDamage(t *testing.T) {
	withoutGroups(t)
	disk, sealed, entries := sealedDisk(t)
	want, err := openMem(t, disk).Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hurt := disk.AfterCrash(nil)
	edit(t, hurt, only(t, hurt, "packs", ".idx"), flip(layout.HeaderSize+pack.BucketsSize+1))
	got, err := openDamaged(t, hurt).Usage(t.Context())
	if err != nil || *got != *want {
		t.Errorf("with a damaged index Usage = %+v, %v; want %+v", got, err, want)
	}

	e := entries[1]
	for off, right := range map[int]bool{4: false, 17: false, 9: false, pack.HeaderSize + 1: true} {
		hurt = disk.AfterCrash(nil)
		edit(t, hurt, sealed, flip(int(e.Off)+off))
		o, err := openDamaged(t, hurt).Stored(object.Blob, e.ID)
		if o.Bytes != pack.HeaderSize+int64(e.Stored) || errors.Is(err, store.ErrCorrupt) == right {
			t.Errorf("with byte %d of the record damaged Stored = %+v, %v", off, o, err)
		}
	}
	s := openMem(t, disk)
	if o, err := s.Stored(object.Tree, e.ID); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Stored of a blob as a tree = %+v, %v; want ErrCorrupt", o, err)
	}
	if o, err := s.Stored(object.Blob, object.Hash(object.Blob, []byte("no"))); !errors.Is(err, store.ErrNotFound) ||
		o.Bytes != 0 {
		t.Errorf("Stored of nothing = %+v, %v; want ErrNotFound", o, err)
	}

	loc, err := s.locate(e.ID)
	if err != nil {
		t.Fatal(err)
	}
	other := object.Hash(object.Blob, []byte("led astray"))
	s.objects[other] = loc
	if o, err := s.Stored(object.Blob, other); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Stored of what is another object = %+v, %v; want ErrCorrupt", o, err)
	}

	hurt = disk.AfterCrash(nil)
	edit(t, hurt, only(t, hurt, "journal", ".log"), flip(layout.HeaderSize+40))
	if damage, err := openDamaged(t, hurt).JournalDamage(); err != nil || len(damage) == 0 {
		t.Errorf("JournalDamage = %v, %v; want some", damage, err)
	}
	if damage, err := s.JournalDamage(); err != nil || len(damage) > 0 {
		t.Errorf("JournalDamage of a sound one = %v, %v", damage, err)
	}
}
