package cas

import (
	"fmt"
	"slices"
	"testing"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// TestRepeats: an object that was found damaged and stored again in the same pack is read by
// whoever opens the store, whichever of its records is damaged and whichever the index names.
func TestRepeats(t *testing.T) {
	for _, idle := range []int64{never, 5000} { // the second makes the pack long enough to be sealed
		for hurt := range 2 {
			for _, named := range []string{"first", "last"} {
				t.Run(fmt.Sprintf("sealed at %d, %d is damaged, the index names the %s", idle, hurt, named),
					func(t *testing.T) { readRepeated(t, idle, hurt, named) })
			}
		}
	}
}

func readRepeated(t *testing.T, idle int64, hurt int, named string) {
	setLimits(t, never, idle, never)
	disk, content := vfstest.NewMem(), random(3000, 1)
	id := object.Hash(object.Blob, content)
	s := openDamaged(t, disk)
	commit(t, s, "s", content)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	name := only(t, disk, "packs", ".pack")
	flipLast := func(e pack.Entry) { edit(t, disk, name, flip(int(e.Off+e.Size()-1))) }
	flipLast(placesIn(t, s, name, id)[0])

	s = openDamaged(t, disk)
	if _, err := s.Get(t.Context(), object.Blob, id); err == nil {
		t.Fatal("damaged content is read")
	}
	commit(t, s, "s", content, []byte("more"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	list := placesIn(t, s, name, id)
	if len(list) != 2 {
		t.Fatalf("%d records", len(list))
	}
	if hurt == 1 {
		flipLast(list[0])
		flipLast(list[1])
	}
	sealed := idle != never
	if is := len(names(t, disk, "packs", ".idx")); sealed != (is == 1) {
		t.Fatalf("%d indexes", is)
	}
	if sealed && named == "first" {
		nameFirst(t, s, name)
	}
	direct := hurt == 0 && (!sealed || named == "last") // it is looked up where it is good

	s = openDamaged(t, disk)
	if at, _, err := s.find(id); err != nil || direct && at.Off != list[1].Off {
		t.Errorf("it is looked up at %d, %v", at.Off, err)
	}
	if got, err := s.Get(t.Context(), object.Blob, id); err != nil || string(got) != string(content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	damage := damageOf(t, s)
	if len(damage) != 1 || damage[0].Path != name || damage[0].Off != list[hurt].Off {
		t.Errorf("Check found %v", damage)
	}
	s = openDamaged(t, disk) // which knows of the damage before it reads anything
	s.Distrust(damage...)
	commit(t, s, "s", content, []byte("still more"))
	if direct && (len(placesIn(t, s, name, id)) > 2 || len(s.copies(id)) > 1) {
		t.Error("it was stored a third time")
	}
}

// TestRepeatsOfOthers: an object that was found damaged in the pack of one process, and stored again in
// that of another, is read by whoever opens the store, whichever of the packs is read first.
func TestRepeatsOfOthers(t *testing.T) {
	setLimits(t, never, never, never)
	first := 0 // how often the damaged pack was the first
	for try := 0; try < 8 || (first == 0 || first == try) && try < 64; try++ {
		disk, content := vfstest.NewMem(), random(3000, 1)
		id := object.Hash(object.Blob, content)
		one, other := openDamaged(t, disk), openDamaged(t, disk)
		commit(t, one, "s", content)
		name := only(t, disk, "packs", ".pack")
		edit(t, disk, name, flip(int(placesIn(t, one, name, id)[0].Off+1000)))
		if _, err := other.Get(t.Context(), object.Blob, id); err == nil {
			t.Fatal("damaged content is read")
		}
		commit(t, other, "s", content, []byte("more"))
		list := names(t, disk, "packs", ".pack")
		if len(list) != 2 || len(names(t, disk, "packs", ".idx")) > 0 {
			t.Fatalf("packs %q", list)
		}
		if list[0] == name {
			first++
		}
		got, err := openDamaged(t, disk).Get(t.Context(), object.Blob, id)
		if err != nil || string(got) != string(content) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}

// placesIn returns the records that a pack has of an object; of all, if it is zero.
func placesIn(t *testing.T, s *Store, name string, id store.ID) (list []pack.Entry) {
	t.Helper()
	p := openNamed(t, s, name)
	defer p.F.Close()
	st, err := p.F.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Scan(layout.HeaderSize, st.Size, func(e pack.Entry) {
		if !e.ID.IsZero() && (e.ID == id || id.IsZero()) {
			list = append(list, e)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// nameFirst has the index of a pack name the first record of each object, as it once was.
func nameFirst(t *testing.T, s *Store, name string) {
	t.Helper()
	p := openNamed(t, s, name)
	defer p.F.Close()
	end, _, err := p.SealedAt()
	if err != nil {
		t.Fatal(err)
	}
	all := placesIn(t, s, name, store.ID{})
	slices.Reverse(all)
	if err := layout.WriteFile(s.fsys, layout.IndexName(p.ID), pack.EncodeIndex(s.id, p.ID, end, all)); err != nil {
		t.Fatal(err)
	}
}
