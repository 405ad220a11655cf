package cas

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

var textSecret = bytes.Repeat([]byte("API_KEY=hunter2-hunter2\n"), 20) // is stored compressed

func (l *library) planForget(t *testing.T, s *Store, secrets ...[]byte) (*PrunePlan, error) {
	t.Helper()
	ids := make(map[store.ID]bool)
	for _, b := range secrets {
		ids[object.Hash(object.Blob, b)] = true
	}
	return s.PlanPrune(t.Context(), &PruneOptions{Mark: l.mark, Wait: 20 * time.Millisecond, Forget: ids})
}

func (l *library) forget(t *testing.T, s *Store, secrets ...[]byte) error {
	t.Helper()
	plan, err := l.planForget(t, s, secrets...)
	if err == nil {
		_, err = s.Prune(t.Context(), plan)
	}
	return err
}

// findSecret returns the first file of a store that holds some bytes, as they are
// or in a record; "" if there is none.
func findSecret(t *testing.T, fsys vfs.FS, secret []byte) (name string) {
	t.Helper()
	s := &Store{fsys: fsys}
	err := s.eachFile(t.Context(), ".", func(file string, size int64) error {
		b, err := vfs.ReadFile(fsys, file)
		if err != nil {
			return err
		}
		if bytes.Contains(b, secret) {
			name = file
		}
		_, err = s.scanAny(file, size, func(e pack.Entry) {
			if _, data, err := new(recordReader).object(e.Location); err == nil && bytes.Contains(data, secret) {
				name = file
			}
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// checkForgotten requires that no file has any part of the secrets.
func checkForgotten(t *testing.T, fsys vfs.FS, secrets ...[]byte) {
	t.Helper()
	for _, secret := range secrets {
		for off := 0; off < len(secret); off += max(len(secret)/8, 64) {
			if name := findSecret(t, fsys, secret[off:min(off+48, len(secret))]); name != "" {
				t.Errorf("%s holds byte %d of a secret of %d", name, off, len(secret))
			}
		}
	}
}

func checkMissed(t *testing.T, s *Store, secrets ...[]byte) {
	t.Helper()
	for _, b := range secrets {
		if _, err := s.Get(t.Context(), object.Blob,
			object.Hash(object.Blob, b)); !errors.Is(err, store.ErrForgotten) || errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get of a forgotten blob: %v, want ErrForgotten", err)
		}
	}
}

func TestForget(t *testing.T) {
	testseed.Sequential(t)
	setLimits(t, never, 64<<10, never)
	disk := vfstest.NewMem()
	lib := new(library)
	s := openMem(t, disk)
	raw := random(20<<10, 7)
	big := random(3<<20, 9)
	like := slices.Clone(big) // which has its last chunks, and stays
	copy(like, random(1<<20, 10))
	lib.mustCommit(t, s, "a", []byte("tree 1"), raw, random(9<<10, 1), small)
	lib.mustCommit(t, s, "b", []byte("tree 2"), big, textSecret, random(9<<10, 2))
	kept := lib.mustCommit(t, s, "c", []byte("tree 3"), like, raw, random(9<<10, 3))
	kept.ids = slices.DeleteFunc(kept.ids, func(id store.ID) bool { return id == object.Hash(object.Blob, raw) })
	s.waitSealed()

	// Copies where repairs and killed processes leave some.
	packs := names(t, disk, "packs", ".pack")
	for i, to := range []string{"quarantine/0-1.pack", "trash/old", "tmp/0"} {
		b, err := vfs.ReadFile(disk, packs[min(i, len(packs)-1)])
		if err == nil {
			err = layout.WriteFile(disk, to, append(b, "what is left of a record"...))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := layout.WriteFile(disk, "quarantine/bad.pack", raw[:1000]); err != nil { // its header is damaged
		t.Fatal(err)
	}
	if err := layout.WriteFile(disk, "quarantine/journal-1-2-3", []byte("torn")); err != nil {
		t.Fatal(err)
	}
	secrets := [][]byte{raw, textSecret, big[:1<<20]}
	for _, b := range secrets {
		if findSecret(t, disk, b[:48]) == "" {
			t.Fatal("the test finds no secret that is there")
		}
	}

	if err := lib.forget(t, s, raw, textSecret, big); err != nil {
		t.Fatal(err)
	}
	checkForgotten(t, disk, secrets...)
	checkMissed(t, s, raw, textSecret, big)
	checkAcked(t, s, []acked{kept})
	checkClean(t, s)
	if b, err := vfs.ReadFile(disk, "quarantine/journal-1-2-3"); string(b) != "torn" || err != nil {
		t.Errorf("quarantined end of a journal: %q, %v", b, err)
	}
	plan, err := lib.planForget(t, s, raw, textSecret, big)
	if err != nil || !plan.Empty() {
		t.Errorf("once more: %+v, %v; want nothing to do", plan, err)
	}
	if _, _, err := lib.prune(t.Context(), s,
		func(snap *store.Snapshot) bool { return snap.Session != "a" }); err != nil {
		t.Error(err)
	}

	// It can be captured again.
	s = openMem(t, disk)
	checkMissed(t, s, raw, big)
	again := lib.mustCommit(t, s, "d", []byte("tree 4"), raw, big)
	checkAcked(t, s, []acked{kept, again})
	checkMissed(t, s, textSecret)
	checkClean(t, s)
	if err := lib.forget(t, s, raw, big); err != nil {
		t.Fatal(err)
	}
	checkForgotten(t, disk, secrets...)
	checkClean(t, s)
}

// A blob that a larger one holds as a chunk cannot go alone.
func TestForgetChunk(t *testing.T) {
	testseed.Sequential(t)
	lib := new(library)
	disk := vfstest.NewMem()
	s := openMem(t, disk)
	big := random(3<<20, 9)
	a := lib.mustCommit(t, s, "a", []byte("tree"), big)
	o, err := s.Stored(object.Blob, object.Hash(object.Blob, big))
	if err != nil {
		t.Fatal(err)
	}
	chunk, err := s.Get(t.Context(), object.Blob, o.Chunks[1])
	if err != nil {
		t.Fatal(err)
	}
	b := lib.mustCommit(t, s, "b", []byte("other tree"), chunk)
	if err := lib.forget(t, s, chunk); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("forget a chunk of another blob: %v", err)
	}
	checkAcked(t, s, []acked{a, b})
	if err := lib.forget(t, s, chunk, big); err != nil {
		t.Error(err)
	}
	checkForgotten(t, disk, big)
	checkClean(t, s)
}

// What another process appends to cannot be written anew.
func TestForgetBusy(t *testing.T) {
	disk := vfstest.NewMem()
	lib := new(library)
	s, other := openMem(t, disk), openMem(t, disk)
	raw := random(20<<10, 7)
	a := lib.mustCommit(t, other, "a", []byte("tree"), raw)
	b := lib.mustCommit(t, s, "b", []byte("other tree"))
	if err := lib.forget(t, s, raw); !errors.Is(err, ErrBusy) {
		t.Fatalf("forget what another process has at hand: %v, want ErrBusy", err)
	}
	checkAcked(t, s, []acked{a, b})
	if was, err := s.Forgotten(a.ids[1]); was || err != nil {
		t.Errorf("Forgotten = %v, %v before it was", was, err)
	}
	// The other one as who is idle, and not in the way.
	if err := lib.forget(t, other, raw); err != nil {
		t.Fatal(err)
	}
	checkForgotten(t, disk, raw)
	checkMissed(t, other, raw)
	if _, err := s.Newest(t.Context(), "", "b"); err != nil {
		t.Error(err)
	}
	checkClean(t, s)
}

// What another process stores again at any moment of a run, until all files are looked
// through, is not told as gone, and is there.
func TestForgetStoredAgain(t *testing.T) {
	setLimits(t, never, 1, never) // a pack for each commit
	raw := random(20<<10, 7)
	for _, when := range []struct{ op, name string }{ // the first such operation behind the announcement
		{"OpenFile", layout.EpochLock(0)}, // it waits for those who write
		{"OpenFile", "packs/"},            // it copies what stays
		{"Stat", layout.ForgottenName},    // it makes a note
		{"Remove", "packs/"},
		{"ReadDir", "quarantine"},
	} {
		disk := vfstest.NewMem()
		lib := new(library)
		if err := session(t.Context(), disk, func(s *Store) error {
			lib.mustCommit(t, s, "a", []byte("tree"), raw)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		other := openMem(t, disk)
		var again acked
		fault := &vfstest.Fault{At: -1, Trace: func(op, name string) {
			if op != when.op || !strings.HasPrefix(name, when.name) || again.seq > 0 {
				return
			}
			if n, err := other.Epoch(); n == 0 || err != nil {
				return // it is not announced, or failed
			}
			again = lib.mustCommit(t, other, "b", []byte("other tree"), raw)
		}}
		s := openMem(t, vfstest.WithFault(disk, fault))
		err := lib.forget(t, s, raw)
		if err == nil || !strings.Contains(err.Error(), "stored again") {
			t.Errorf("%v: forget what is stored again meanwhile: %v, want an error that says so", when, err)
		}
		checkAcked(t, s, []acked{again})
		if err := lib.forget(t, other, raw); err != nil {
			t.Errorf("%v: once more: %v", when, err)
		}
		checkForgotten(t, disk, raw)
	}
}

// What is damaged may be anything: in a sealed pack the content of what stays, in
// another one the header of it.
func TestForgetDamaged(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		setLimits(t, never, map[bool]int64{true: 1, false: never}[sealed], never)
		disk := vfstest.NewMem()
		lib := new(library)
		raw, stays := random(20<<10, 7), random(9<<10, 1)
		err := session(t.Context(), disk, func(s *Store) error {
			lib.mustCommit(t, s, "a", []byte("tree"), raw, stays)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		name := names(t, disk, "packs", ".pack")[0]
		b, err := vfs.ReadFile(disk, name)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(b, stays[:20])
		if !sealed {
			at -= 20
		}
		b[at]++
		if err := layout.WriteFile(disk, name, b); err != nil {
			t.Fatal(err)
		}
		s, err := OpenFS(t.Context(), disk, &Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := lib.forget(t, s, raw); !errors.Is(err, store.ErrCorrupt) {
			t.Fatalf("forget from a damaged pack, sealed=%v: %v, want ErrCorrupt", sealed, err)
		}
		plan, err := s.PlanRepair(t.Context())
		if err == nil {
			err = s.Repair(t.Context(), plan)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := lib.forget(t, s, raw); err != nil {
			t.Fatal(err)
		}
		checkForgotten(t, disk, raw, stays)
		checkMissed(t, s, raw)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Each operation fails in turn, once or for good, with the power or not: the
// secret is gone if that was said, what stays is there, and the next run does the
// rest.
func TestForgetFaults(t *testing.T) {
	testseed.Sequential(t)
	setLimits(t, never, 8<<10, 500)
	step, rnd := stride(17, 17), testseed.Rand(t)
	for _, sticky := range []bool{false, true} {
		for at := rnd.Int64N(step); forgetFaultAt(t, at, sticky) && !t.Failed(); at += step {
		}
	}
}

func forgetFaultAt(t *testing.T, at int64, sticky bool) bool {
	t.Helper()
	disk := vfstest.NewMem()
	lib := new(library)
	raw := random(3<<10, 7)
	var kept []acked
	err := session(t.Context(), disk, func(s *Store) error {
		for i := range 4 {
			blobs := [][]byte{fmt.Append(nil, "tree ", i), random(3<<10, byte(i)), raw}
			lib.add(blobs)
			a, err := tryCommit(t.Context(), s, "", blobs...)
			if err != nil {
				return err
			}
			a.ids = a.ids[:2]
			kept = append(kept, a)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := vfs.ReadFile(disk, names(t, disk, "packs", ".pack")[0])
	if err == nil {
		err = layout.WriteFile(disk, "quarantine/1.pack", b)
	}
	if err != nil {
		t.Fatal(err)
	}
	fault := &vfstest.Fault{At: at, Sticky: sticky, Err: syscall.EIO}
	err = session(t.Context(), vfstest.WithFault(disk, fault), func(s *Store) error { return lib.forget(t, s, raw) })
	if !fault.Fired() && err != nil {
		t.Errorf("without a fault: %v", err)
	}
	for i, left := range []*vfstest.Mem{disk.AfterCrash(nil), disk.AfterCrash(rand.New(rand.NewPCG(uint64(at), 1))),
		disk} {
		if err == nil {
			checkForgotten(t, left, raw)
		}
		s, err := OpenFS(t.Context(), left, &Options{})
		if err != nil {
			t.Fatal(err)
		}
		checkClean(t, s)
		checkAcked(t, s, kept)
		if _, err := s.Get(t.Context(), object.Blob, object.Hash(object.Blob, raw)); err != nil &&
			!errors.Is(err, store.ErrForgotten) {
			t.Errorf("the secret: %v, want it or ErrForgotten", err)
		}
		if err := lib.forget(t, s, raw); err != nil {
			t.Errorf("the next run: %v", err)
		}
		checkForgotten(t, left, raw)
		checkMissed(t, s, raw)
		checkClean(t, s)
		checkAcked(t, s, kept)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Fatalf("fault at operation %d, sticky=%v, disk %d: forget returned %v", at, sticky, i, err)
		}
	}
	return fault.Fired()
}

func TestParseForgotten(t *testing.T) {
	ids := []store.ID{{1}, {2}, {2, 1}}
	b := appendForgotten(nil, v1Store, ids)
	got, err := parseForgotten(b, v1Store)
	if err != nil || !slices.Equal(got, ids) {
		t.Errorf("parseForgotten = %v, %v; want %v", got, err, ids)
	}
	for _, bad := range [][]byte{nil, b[:len(b)-1], append(slices.Clone(b), 0), appendForgotten(nil, v1Store, nil),
		appendForgotten(nil, v1Store, []store.ID{{2}, {1}}), appendForgotten(nil, v1Store, []store.ID{{1}, {1}})} {
		if got, err := parseForgotten(bad, v1Store); err == nil {
			t.Errorf("parseForgotten(%x) = %v, want an error", bad, got)
		}
	}
	b[70]++
	if got, err := parseForgotten(b, v1Store); err == nil {
		t.Errorf("a changed byte: %v, want an error", got)
	}
}
