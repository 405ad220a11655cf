package cas

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// fillForTransfer puts small objects, which share records, a large one in chunks, and trees.
func fillForTransfer(t *testing.T, s *Store) (ids []store.ID, kinds map[store.ID]object.Kind, large store.ID) {
	t.Helper()
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kinds = make(map[store.ID]object.Kind)
	for i := range 300 {
		kind := object.Blob
		if i%10 == 0 {
			kind = object.Tree
		}
		id, err := w.Put(kind, fmt.Appendf(nil, "object %d %d", i, i*i))
		if err != nil {
			t.Fatal(err)
		}
		ids, kinds[id] = append(ids, id), kind
	}
	data := make([]byte, 3<<20)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	large, _, err = w.PutReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	kinds[large] = object.Blob
	if err := w.Commit(t.Context(), &store.Snapshot{Tree: ids[0]}, 0); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return ids, kinds, large
}

// TestTransfer takes objects from one store into another, which has some of them, as they are kept.
func TestTransfer(t *testing.T) {
	testseed.Sequential(t)
	for _, have := range []int{0, 1, 150} {
		from, to := openMem(t, vfstest.NewMem()), openMem(t, vfstest.NewMem())
		ids, kinds, large := fillForTransfer(t, from)
		live := from.NewLive()
		for _, id := range ids[:200] { // a part of the groups that they are in
			live.Add(id)
		}
		live.Add(ids[0])
		if err := live.AddBlob(large, 3<<20); err != nil {
			t.Fatal(err)
		}
		want := live.Take()
		gone := store.ID{1}
		var parcels []*Parcel
		missing, err := from.Parcels(t.Context(), append(want, gone), func(p *Parcel) error {
			p.Record = bytes.Clone(p.Record)
			parcels = append(parcels, p)
			return nil
		})
		if err != nil || len(missing) != 1 || missing[0] != gone {
			t.Fatalf("Parcels: missing %v, %v", missing, err)
		}
		n := 0
		for _, p := range parcels {
			n += len(p.Objects)
		}
		if n != len(want) {
			t.Errorf("%d objects in %d parcels, want %d", n, len(parcels), len(want))
		}
		w, err := to.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range have {
			if _, err := w.Put(kinds[ids[i]], fmt.Appendf(nil, "object %d %d", i, i*i)); err != nil {
				t.Fatal(err)
			}
		}
		var lists []store.ID
		for range 2 { // the second time nothing is new
			for _, p := range parcels {
				l, err := w.PutParcel(p.Record)
				if err != nil {
					t.Fatal(err)
				}
				lists = append(lists, l...)
			}
		}
		if len(lists) != 2 || lists[0] != large {
			t.Errorf("lists of chunks: %v, want %v twice", lists, large)
		}
		if got := w.Stats().Objects; got != len(want) {
			t.Errorf("having %d: %d objects were stored, want %d", have, got, len(want))
		}
		importTwo(t, to, w, ids[0])
		for _, id := range append(ids[:200:200], large) {
			got, err := to.Get(t.Context(), kinds[id], id)
			if err != nil {
				t.Errorf("object %s: %v", id.Short(), err)
			}
			if object.Hash(kinds[id], got) != id {
				t.Errorf("object %s is another", id.Short())
			}
		}
		if there, err := to.Has(ids[250]); there || err != nil {
			t.Errorf("an object that was not asked for is there: %v", err)
		}
	}
}

// importTwo imports two snapshots, of which the second was pruned, and builds on the first.
func importTwo(t *testing.T, s *Store, w *Writer, tree store.ID) {
	t.Helper()
	origin := bytes.Repeat([]byte{7}, 24)
	err := w.Import(t.Context(), func(first uint64) ([]*store.Snapshot, error) {
		return []*store.Snapshot{
			{Tree: tree, Session: "s", Worktree: "w", Origin: origin},
			{Tree: Pruned(tree), Session: "s", Worktree: "w", Parent: first}}, nil
	})
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	second, err := s.Newest(t.Context(), "w", "s")
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.Snapshot(t.Context(), second.Parent)
	if err != nil || !bytes.Equal(first.Origin, origin) || first.Pruned || first.Tree != tree {
		t.Errorf("the first is %+v, %v", first, err)
	}
	if !second.Pruned || second.Seq != first.Seq+1 {
		t.Errorf("the second is %+v", second)
	}
	if _, err := s.Get(t.Context(), object.Tree, second.Tree); !errors.Is(err, store.ErrPruned) {
		t.Errorf("Get of a tree that was pruned elsewhere: %v", err)
	}
}

// TestTransferDamage shows that no changed record gets into a store.
func TestTransferDamage(t *testing.T) {
	testseed.Sequential(t)
	from, to := openMem(t, vfstest.NewMem()), openMem(t, vfstest.NewMem())
	ids, _, large := fillForTransfer(t, from)
	live := from.NewLive()
	live.Add(ids[0])
	live.Add(ids[1])
	if err := live.AddBlob(large, 3<<20); err != nil {
		t.Fatal(err)
	}
	w, err := to.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	_, err = from.Parcels(t.Context(), live.Take(), func(p *Parcel) error {
		for i := 0; i < len(p.Record); i += 1 + len(p.Record)/100 {
			b := bytes.Clone(p.Record)
			b[i] ^= 4
			if _, err := w.PutParcel(b); err == nil {
				t.Errorf("byte %d of a record of kind %d was changed, and it was stored", i, p.Kind)
			}
		}
		if _, err := w.PutParcel(p.Record[:len(p.Record)-1]); err == nil {
			t.Error("half a record was stored")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := w.Stats().Objects; n != 0 {
		t.Errorf("%d objects were stored", n)
	}
}

// TestImportNothing has what was put be there for others once an import has said that it is durable, though there
// was no record to import.
func TestImportNothing(t *testing.T) {
	disk := vfstest.NewMem()
	s := openMem(t, disk)
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	id, err := w.Put(object.Blob, []byte("by itself"))
	if err == nil {
		err = w.Import(t.Context(), func(uint64) ([]*store.Snapshot, error) { return nil, nil })
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openMem(t, disk).Get(t.Context(), object.Blob, id); err != nil {
		t.Error(err)
	}
}
