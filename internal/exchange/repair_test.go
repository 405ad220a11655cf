package exchange

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/remote/remotetest"
	"github.com/boocode/filestore/internal/testseed"
)

// repair has a machine repair a remote, and returns what is left.
func (m *machine) repair(b remote.Backend) (r *RepairResult, err error) {
	err = m.withStore(func(s *cas.Store, _ *places.Location) error {
		restored, err := RestoreHeld(m.t.Context(), s.FS(), "team", b)
		if err != nil {
			return err
		}
		repo, err := lines.Open(m.t.Context(), b, nil)
		if err != nil {
			return err
		}
		r, err = (&Pusher{Store: s, Repo: repo, Name: "team"}).Repair(m.t.Context())
		if r != nil {
			r.Restored = restored
		}
		return err
	})
	return r, err
}

// damageThere returns what a check by a machine finds.
func (m *machine) damageThere(b remote.Backend) (keys []string) {
	err := m.withStore(func(s *cas.Store, _ *places.Location) error {
		repo, err := lines.Open(m.t.Context(), b, nil)
		if err != nil {
			keys = append(keys, "FORMAT")
			return nil
		}
		r, err := Check(m.t.Context(), repo, s.FS(), "team", true)
		if err != nil {
			return err
		}
		for _, d := range r.Damage {
			keys = append(keys, d.Key)
		}
		return nil
	})
	if err != nil {
		m.t.Error(err)
	}
	return keys
}

// TestCheckBesidePush has the machine go on with its session, begin another and push both, at each request of a
// check in turn: what is put meanwhile is not missing.
func TestCheckBesidePush(t *testing.T) {
	a, mem := newMachine(t), remotetest.NewMem()
	a.turn("s1", "", func() { a.write("f", "first") })
	a.mustPush(mem)
	objects := mem.Objects()
	for at, pushed := 1, true; pushed; at++ {
		m, there := a.copyOf(), memOf(t, objects)
		pushed = false
		b := &meddling{Backend: there, at: at, begin: func() {
			pushed = true
			m.turn("s1", "", func() { m.write("f", "goes on") })
			m.turn("s2", "", func() { m.write("f", "begins") })
			m.mustPush(there)
		}}
		if keys := m.damageThere(b); len(keys) > 0 {
			t.Errorf("a push at request %d of the check: %q are damaged", at, keys)
		}
	}
}

// TestCheckBesidePrune has another machine prune at each request of a check in turn: what that takes away is not
// missing.
func TestCheckBesidePrune(t *testing.T) {
	a, mem := hasLeft(t)
	objects := mem.Objects()
	for at, pruned := 1, true; pruned; at++ {
		m, there := a.copyOf(), memOf(t, objects)
		pruned = false
		b := &meddling{Backend: there, at: at, begin: func() {
			pruned = true
			if _, err := prune(t, there, &PruneOptions{Sessions: []string{"s1"}}, nil); err != nil {
				t.Error(err)
			}
		}}
		if keys := m.damageThere(b); len(keys) > 0 {
			t.Errorf("a prune at request %d of the check: %q are damaged", at, keys)
		}
	}
}

// prunedRemote returns a machine, and a remote that was pruned, in which it has put packs of so many bytes, entries
// and what a prune has kept.
func prunedRemote(t *testing.T, size int) (*machine, *remotetest.Mem) {
	t.Helper()
	rng := rand.New(rand.NewPCG(6, 6))
	a, mem := newMachine(t), remotetest.NewMem()
	a.write("big", noise(rng, size))
	a.turn("s1", "first", func() { a.write("f", "one") })
	a.turn("s2", "second", func() { a.write("f", "two") })
	a.mustPush(mem)
	a.turn("gone", "", func() { a.write("f", "three") })
	a.mustPush(mem)
	if _, err := prune(t, mem, &PruneOptions{Sessions: []string{"gone"}}, nil); err != nil {
		t.Fatal(err)
	}
	a.turn("s1", "third", func() { a.write("f", "four") })
	a.mustPush(mem)
	a.turn("s1", "fourth", func() { a.write("f", "five") })
	a.mustPush(mem)
	if keys := a.damageThere(mem); len(keys) > 0 {
		t.Fatalf("damaged: %v", keys)
	}
	return a, mem
}

// setSmall has entries and packs hold a quarter of what they do otherwise: a content that is stored in chunks
// is more than goes in an entry still.
func setSmall(t *testing.T) {
	t.Helper()
	setSizes(t, maxInEntry/4, maxPack/4)
}

// setSizes has entries and packs be small for a test, as large ones are otherwise.
func setSizes(t *testing.T, inEntry, inPack int) {
	t.Helper()
	old := [2]int{maxInEntry, maxPack}
	maxInEntry, maxPack = inEntry, inPack
	t.Cleanup(func() { maxInEntry, maxPack = old[0], old[1] })
}

// TestRepairThere changes bytes of each object of a remote, and takes each away: a check names it, the store that has
// put it mends it, and then all is there that was.
func TestRepairThere(t *testing.T) {
	testseed.Sequential(t)
	setSizes(t, 1<<20, maxPack)
	a, mem := prunedRemote(t, 3<<20)
	meddle(t, a, mem, func(n int) int { return 1 + n/2 })
}

// TestRepairEvery does so with a small remote, and with -bytes changes each of its bytes.
func TestRepairEvery(t *testing.T) {
	testseed.Sequential(t)
	setSizes(t, 2<<10, 4<<10)
	a, mem := prunedRemote(t, 6<<10)
	meddle(t, a, mem, func(n int) int {
		if *everyByte {
			return 1
		}
		return 1 + n/5
	})
}

// meddle changes bytes of each object of a remote, each so many behind the other, and takes each away.
func meddle(t *testing.T, a *machine, mem *remotetest.Mem, every func(length int) int) {
	t.Helper()
	whole := newMachine(t)
	whole.mustClone(mem, nil)
	objects, changed := mem.Objects(), 0
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		b := objects[key]
		for i := -1; i < len(b); i += every(len(b)) {
			changed++
			other := remotetest.NewMem()
			for k, v := range objects {
				if k == key && i >= 0 {
					v = bytes.Clone(v)
					v[i] ^= 1
				}
				if k != key || i >= 0 {
					other.Create(t.Context(), k, v)
				}
			}
			what := fmt.Sprintf("byte %d of %s (-1: it is gone)", i, key)
			if keys := a.damageThere(other); !slices.Contains(keys, key) {
				t.Errorf("%s: a check names %v", what, keys)
			}
			r, err := a.repair(other)
			if err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			if keys := a.damageThere(other); len(keys) > 0 || len(r.Restored)+len(r.Put) == 0 {
				t.Errorf("%s: after a repair (%+v) these are damaged: %v", what, r, keys)
				continue
			}
			if i > 0 { // what comes of it is seen once
				continue
			}
			c := newMachine(t)
			c.mustClone(other, nil)
			sameHistory(t, whole, c, "s1", "s2")
		}
	}
	t.Logf("%d objects, %d changes", len(objects), changed)
}

// TestRepairHere takes away each pack of a store: what was in it comes back from the remote.
func TestRepairHere(t *testing.T) {
	testseed.Sequential(t)
	a, mem := hasLeft(t)
	packs, err := filepath.Glob(filepath.Join(a.stores(), "*", "packs", "*.pack"))
	if err != nil || len(packs) == 0 {
		t.Fatalf("packs: %v, %v", packs, err)
	}
	for _, name := range packs {
		m := a.copyOf()
		rel, _ := filepath.Rel(a.stores(), name)
		gone := filepath.Join(m.stores(), rel)
		if err := errors.Join(os.Remove(gone), os.RemoveAll(strings.TrimSuffix(gone, ".pack")+".idx")); err != nil {
			t.Fatal(err)
		}
		if err := m.readAll(t.Context()); err == nil {
			t.Fatalf("%s had nothing", rel)
		}
		r, err := m.repair(mem)
		if err != nil || r.Fetched == 0 || r.Lost > 0 || len(r.Left) > 0 {
			t.Errorf("%s: repair: %+v, %v", rel, r, err)
		}
		if err := m.readAll(t.Context()); err != nil {
			t.Errorf("%s: %v", rel, err)
		}
	}
}

// TestAnew makes a new key, and has a prune seal all with it that stays: nothing is there then that the
// old one opens, and a clone has the same history.
func TestAnew(t *testing.T) {
	testseed.Sequential(t)
	setSmall(t)
	a, mem := newMachine(t), remotetest.NewMem()
	all := &lines.Circle{Wrap: asIs}
	if _, err := lines.Init(t.Context(), mem, all); err != nil {
		t.Fatal(err)
	}
	a.turn("s1", "", func() { a.write("big", raw(rand.New(rand.NewPCG(2, 2)), 5<<18)) })
	a.mustPush(mem)
	repo, err := openRepo(t.Context(), mem)
	if err != nil {
		t.Fatal(err)
	}
	_, err = repo.Rotate(t.Context(), [16]byte{1}, func([]string) (*lines.Circle, error) { return all, nil })
	if err != nil {
		t.Fatal(err)
	}
	old := func() (keys []string) {
		for key, b := range mem.Objects() {
			if isData := strings.HasPrefix(key, "log/") || strings.HasPrefix(key, "data/"); isData && b[12] == 1 {
				keys = append(keys, key)
			}
		}
		return keys
	}
	if len(old()) == 0 {
		t.Error("nothing is sealed with the old key")
	}
	if r, err := prune(t, mem, &PruneOptions{Anew: true}, nil); err != nil || r.Anew != 1 {
		t.Fatalf("prune: %+v, %v", r, err)
	}
	if keys := old(); len(keys) > 0 {
		t.Errorf("still sealed with the old key: %v", keys)
	}
	a.turn("s1", "goes on", func() { a.write("text", "more") })
	a.mustPush(mem)
	b := newMachine(t)
	b.mustClone(mem, nil)
	sameHistory(t, a, b, "s1")
	checkRemote(t, a, mem)
}
