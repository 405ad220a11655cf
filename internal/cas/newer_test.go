package cas

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// writeNewer writes all packs anew as a program of the future might: with a feature in FORMAT first,
// records of a kind that this program does not know, and indexes that say where they are.
func writeNewer(t *testing.T, disk vfs.FS) {
	t.Helper()
	later := func(f *format) bool { f.Features.Read = append(f.Features.Read, "later"); return true }
	if err := change(t.Context(), disk, later); err != nil {
		t.Fatal(err)
	}
	s := &Store{fsys: disk}
	f, err := readFormat(disk)
	if err != nil {
		t.Fatal(err)
	}
	id, err := hex.DecodeString(f.ID)
	if err != nil {
		t.Fatal(err)
	}
	s.id = [16]byte(id)
	for i, name := range names(t, disk, "packs", ".pack") {
		p := openNamed(t, s, name)
		end, sealed, err := p.SealedAt()
		if err != nil || !sealed {
			t.Fatal(name, sealed, err)
		}
		b, err := vfs.ReadFile(disk, name)
		if err != nil {
			t.Fatal(err)
		}
		var entries []pack.Entry
		at := map[int64]bool{}
		if _, err := p.Scan(layout.HeaderSize, end, func(e pack.Entry) {
			entries = append(entries, e)
			at[e.Off] = true
		}); err != nil {
			t.Fatal(err)
		}
		for off := range at {
			h := b[off:]
			h[4] = 9
			layout.Le.PutUint32(h[52:], layout.Checksum(h[:52]))
		}
		id := [16]byte{0xff, byte(i)}
		copy(b, layout.Header{Magic: layout.PackMagic, Store: s.id, Name: id}.Append(nil))
		put := func(name string, b []byte) {
			if err := layout.WriteFile(disk, name, b); err != nil {
				t.Fatal(err)
			}
		}
		put(layout.PackName(id), b)
		put(layout.IndexName(id), pack.EncodeIndex(s.id, id, end, entries))
		idx := strings.TrimSuffix(name, ".pack") + ".idx"
		if err := errors.Join(p.F.Close(), disk.Remove(name), disk.Remove(idx)); err != nil {
			t.Fatal(err)
		}
	}
}

// What a newer program has written is no damage for one that had the store open before, which
// says so whatever it is asked, stores nothing and repairs nothing.
func TestNewerProgram(t *testing.T) {
	setLimits(t, never, 1, never)
	for _, readOnly := range []bool{false, true} {
		disk := vfstest.NewMem()
		lib := new(library)
		var a acked
		if err := session(t.Context(), disk, func(s *Store) error {
			for i := range 3 {
				a = lib.mustCommit(t, s, "a", versions(i, 12)...)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		open := func() *Store {
			s, err := OpenFS(t.Context(), disk, &Options{ReadOnly: readOnly,
				Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		}
		s, other := open(), open()
		checkAcked(t, s, []acked{a})
		writeNewer(t, disk)
		files := fmt.Sprint(names(t, disk, "packs", ""), names(t, disk, "quarantine", ""))
		// What it has open it reads on.
		if _, err := s.Get(t.Context(), object.Blob, a.ids[1]); err != nil {
			t.Error(err)
		}
		for _, s := range []*Store{other, s} {
			_, err := other.Get(t.Context(), object.Blob, a.ids[1])
			_, rerr := s.Check(t.Context(), true)
			_, perr := s.PlanRepair(t.Context())
			_, _, _, cerr := s.CheckContent(t.Context(), "", 0, nil)
			all := map[string]error{"Get": err, "Check": rerr, "PlanRepair": perr, "CheckContent": cerr}
			for what, err := range all {
				if !errors.Is(err, store.ErrFormat) || errors.Is(err, store.ErrCorrupt) ||
					!strings.Contains(fmt.Sprint(err), "newer program") {
					t.Errorf("read-only %v: %s: %v", readOnly, what, err)
				}
			}
			if packs, err := s.PackLengths(nil); err != nil || s.Distrusts(packs) {
				t.Error("it takes what it does not know for damage")
			}
		}
		if now := fmt.Sprint(names(t, disk, "packs", ""), names(t, disk, "quarantine", "")); now != files {
			t.Errorf("files are %s, were %s", now, files)
		}
		if text := log.String(); strings.Contains(text, "damage") {
			t.Errorf("it logs %q", text)
		}
	}
}

// Who records something sees it by the epoch.
func TestNewerProgramEpoch(t *testing.T) {
	disk := vfstest.NewMem()
	open := func() *Store {
		s, err := OpenFS(t.Context(), disk, &Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s, other := open(), open()
	lib := new(library)
	lib.mustCommit(t, s, "a", []byte("one"))
	later := func(f *format) bool { f.Features.Read = append(f.Features.Read, "later"); return true }
	if err := change(t.Context(), disk, later); err != nil {
		t.Fatal(err)
	}
	lib.mustCommit(t, s, "a", []byte("two")) // nothing is written yet that it does not know
	plan, err := other.PlanPrune(t.Context(), &PruneOptions{Mark: lib.mark,
		Drop: func(snap *store.Snapshot) bool { return snap.Seq == 1 }})
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.Prune(t.Context(), plan)
	t.Logf("prune: %v", err)
	if w, err := s.Begin(t.Context()); !errors.Is(err, store.ErrFormat) {
		t.Errorf("Begin in another epoch: %v, %v", w, err)
	}
}

// A round takes no more than a quarter of the store, or what a small one may, or one pack.
func TestCompactRounds(t *testing.T) {
	mb := func(n ...int64) (list []*candidate, total int64) {
		for _, n := range n {
			list = append(list, &candidate{live: n << 20})
			total += n << 20
		}
		return list, total
	}
	for _, c := range []struct {
		packs []int64
		want  int
	}{
		{[]int64{1, 2, 3}, 3},                   // small: at once
		{[]int64{10, 6, 1}, 2},                  // 16 MiB, and no more
		{[]int64{60, 10, 10, 10}, 1},            // one pack
		{[]int64{20, 10, 10, 10, 50, 20}, 2},    // a quarter of 120
		{[]int64{10, 10, 10, 10, 10, 10, 4}, 1}, // of 64
	} {
		list, total := mb(c.packs...)
		if n := (&CompactPlan{total: total}).round(list); n != c.want {
			t.Errorf("packs of %d MiB: %d in the first round, want %d", c.packs, n, c.want)
		}
	}
}

// It needs so much room and no more: with a quarter of the store free, all is compacted, in
// rounds; with less it says so, and nothing is lost.
func TestCompactRoom(t *testing.T) {
	testseed.Sequential(t)
	setMinRound(t, 1)
	h := newCompactHistory(t, 24)
	size := sizeOf(t, h.disk, "packs")
	for free, fits := range map[int64]bool{size/roundPart + 16<<10: true, size / 40: false} {
		disk := h.disk.AfterCrash(nil)
		s, err := OpenFS(t.Context(), disk, &Options{})
		if err != nil {
			t.Fatal(err)
		}
		const much = 1 << 30
		disk.SetSize(much)
		left, _, err := disk.Space()
		if err != nil {
			t.Fatal(err)
		}
		used := much - left
		disk.SetSize(used + free)
		_, r, err := h.lib.compact(t.Context(), s)
		if fits && (err != nil || r.Packs < 24) || !fits && !IsNoSpace(err) {
			t.Errorf("%d bytes free for a store of %d: %+v, %v", free, size, r, err)
		}
		disk.SetSize(0)
		checkAcked(t, s, h.acks)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Damage of a pack is logged once, however often its records are looked for.
func TestDamageLoggedOnce(t *testing.T) {
	disk := vfstest.NewMem()
	var a acked
	if err := session(t.Context(), disk, func(s *Store) error {
		a = commit(t, s, "a", random(2000, 1), random(2000, 2))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	edit(t, disk, only(t, disk, "packs", ".pack"), func(b []byte) []byte { return b[:100] })
	var log strings.Builder
	s, err := OpenFS(t.Context(), disk, &Options{ReadOnly: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 3 {
		if _, err := s.Get(t.Context(), object.Blob, a.ids[1]); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get: %v", err)
		}
	}
	if n := strings.Count(log.String(), "are missing at the end"); n != 1 {
		t.Errorf("it is logged %d times that bytes are missing, want once:\n%s", n, &log)
	}
}
