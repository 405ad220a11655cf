package exchange

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/remotetest"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/store"
)

// TestForgetThere takes contents out of a remote that is not encrypted: no object has them then, small or large, in
// packs or in entries, and all others are there. Another machine does not put them again.
func TestForgetThere(t *testing.T) {
	testseed.Sequential(t)
	setSmall(t)
	rng := rand.New(rand.NewPCG(4, 4))
	large, other := noise(rng, 6<<18), noise(rng, 5<<18)
	secret := "password=" + noise(rng, 40)
	a, b, mem := newMachine(t), newMachine(t), remotetest.NewMem()
	a.write("kept", other)
	a.turn("s", "first", func() { a.write("f", "one\n") })
	a.mustPush(mem)
	b.mustClone(mem, nil)
	a.turn("s", "second", func() {
		a.write("env", secret)
		a.write("large", large)
		a.write("g", "two\n")
	})
	a.mustPush(mem)
	b.turn("s", "of b", func() { b.write("env", secret) })
	b.mustPush(mem)
	a.turn("s", "third", func() { a.write("g", "three\n") })
	a.mustPush(mem)
	ids := []store.ID{object.Hash(object.Blob, []byte(secret)), object.Hash(object.Blob, []byte(large))}
	r, err := prune(t, mem, &PruneOptions{Forget: ids}, func(step string) error {
		if step == "copied" { // one goes on meanwhile, who has it still
			b.turn("s", "more of b", func() { b.write("again", "x") })
			b.mustPush(mem)
		}
		return nil
	})
	if err != nil || r.Anew != 2 {
		t.Fatalf("prune: %+v, %v", r, err)
	}
	found := func() []string { return holding(t, mem, ids) }
	if in := found(); len(in) > 0 {
		t.Errorf("%v still have it", in)
	}
	total := 0
	for _, v := range mem.Objects() {
		total += len(v)
	}
	if total > 5<<18 {
		t.Errorf("%d bytes are there still", total)
	}
	checkRemote(t, a, mem)
	c := newMachine(t)
	if r := c.mustClone(mem, nil); r.Forgotten != 2 || r.Lost != 0 {
		t.Errorf("a clone misses %+v", r)
	}
	if got := c.files(); got["kept"] != other || got["env"] != "" || got["large"] != "" {
		t.Errorf("a clone has other files")
	}
	sameTurns := func(m *machine) []string {
		var titles []string
		for _, x := range m.timeline("s") {
			titles = append(titles, x.Title)
		}
		return titles
	}
	if x, y := sameTurns(b), sameTurns(c); strings.Join(x, ",") != strings.Join(y, ",") {
		t.Errorf("a clone has the turns %v, not %v", y, x)
	}
	err = c.withStore(func(s *cas.Store, _ *places.Location) error {
		gone, err := s.Forgotten(ids[0])
		if err == nil && !gone {
			t.Error("a clone takes it for damage")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	// All goes on.
	a.turn("s", "fourth", func() { a.write("g", "four\n") })
	a.mustPush(mem)
	b.mustPull(mem)
	d := newMachine(t) // who has it, and was never told
	d.turn("d", "", func() { d.write("env", secret) })
	if r := d.mustPush(mem); r.Forgotten != 1 || r.Lost != 0 {
		t.Errorf("a push of what was forgotten there says %+v", r)
	}
	if in := found(); len(in) > 0 {
		t.Errorf("it is there again: %v", in)
	}
}

// holding returns what in a remote has one of some contents, or is named by nobody.
func holding(t *testing.T, b remote.Backend, ids []store.ID) (in []string) {
	t.Helper()
	repo, err := openRepo(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Fetch(t.Context(), repo, nil)
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	look := func(where string) func([]byte) error {
		named[where] = true
		return func(record []byte) error {
			p, err := cas.ReadParcel(record)
			if err != nil {
				return err
			}
			for _, o := range p.Objects {
				if slices.Contains(ids, o.ID) {
					in = append(in, where)
				}
			}
			return nil
		}
	}
	for _, l := range f.Lines {
		for n, e := range l.Entries {
			if err := splitRecords(e.Objects, look(l.key(uint64(n)))); err != nil {
				t.Fatal(err)
			}
			for i := range e.Packs {
				if err := repo.ReadPack(t.Context(), &e.Packs[i], look(e.Packs[i].Key())); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	ledger := repo.Ledger()
	named[ledger.Manifest().Key()] = true
	for _, k := range ledger.Kept {
		for _, fold := range k.Folds {
			named[fold.Pack.Key()] = true
		}
	}
	for item, err := range b.List(t.Context(), "data/", "") {
		if err != nil {
			t.Fatal(err)
		}
		if !named[item.Key] {
			in = append(in, item.Key)
		}
	}
	return in
}
