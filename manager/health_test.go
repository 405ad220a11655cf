package manager

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/health"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/store"
)

// TestHealthFailed: a capture that fails is remembered until the next check; one
// that is refused is not.
func TestHealthFailed(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	m.opts.MinFree = 1 << 60
	for range 2 {
		if _, err := m.Snapshot(t.Context(), nil); !errors.Is(err, store.ErrNoSpace) {
			t.Fatalf("Snapshot: %v, want %v", err, store.ErrNoSpace)
		}
	}
	m.opts.MinFree = 0
	if _, err := m.OnToolStart(t.Context(), "bash"); !errors.Is(err, ErrNoTurn) {
		t.Errorf("OnToolStart: %v, want %v", err, ErrNoTurn)
	}
	h, now := health.Read(m.StoreDir()), time.Now()
	list := h.Concerns(m.StoreDir(), now)
	if h.Failed != 2 || len(list) == 0 || list[0].Urgent || !strings.Contains(list[0].Text, store.ErrNoSpace.Error()) {
		t.Errorf("after two captures that failed: %+v, concerns %+v", h, list)
	}
	h.NoteChecked(0, now)
	for _, c := range h.Concerns(m.StoreDir(), now) {
		if strings.Contains(c.Text, "failed") {
			t.Errorf("after a check: %+v", c)
		}
	}
}

// TestHealthParts: an engine reads all content in parts, one a day, and what it finds
// is there for the next who asks. Whatever is in the file is no error.
func TestHealthParts(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("a", noise(50<<10, 1)) })
	dir, log := m.StoreDir(), slog.New(slog.DiscardHandler)
	if err := health.CheckPart(t.Context(), dir, log); err != nil {
		t.Fatal(err)
	}
	h := health.Read(dir)
	if h.Content.IsZero() || h.Checked.IsZero() || h.Damage+h.Bad != 0 || h.Next != "" {
		t.Errorf("after a part that is all: %+v", h)
	}
	packs, err := filepath.Glob(filepath.Join(dir, "packs", "*.pack"))
	if err != nil || len(packs) == 0 {
		t.Fatalf("packs %q, %v", packs, err)
	}
	for _, name := range packs {
		sound, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		damaged := slices.Clone(sound)
		damaged[len(sound)/2] ^= 0xff
		if err := os.WriteFile(name, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.WriteFile(name, sound, 0o600)
	}
	if err := health.CheckPart(t.Context(), dir, log); err != nil || health.Read(dir).Bad != 0 {
		t.Errorf("another part on the same day: %v, %+v", err, health.Read(dir))
	}
	yesterday := func(h *health.Health) { h.Part = h.Part.Add(-25 * time.Hour); h.Said = time.Now() }
	if err := health.Change(dir, yesterday); err != nil {
		t.Fatal(err)
	}
	if err := health.CheckPart(t.Context(), dir, log); err != nil {
		t.Fatal(err)
	}
	h = health.Read(dir)
	if list := h.Concerns(dir, time.Now()); h.Bad == 0 || !h.Said.IsZero() || len(list) == 0 || !list[0].Urgent {
		t.Errorf("after a part with damage: %+v, concerns %+v", h, list)
	}
	for _, text := range []string{"", "nonsense", `{"v":2,"bad":7}`, `{"v":1,"bad":-7}`, `{"v":1,"checked":"yesterday"}`} {
		if err := os.WriteFile(filepath.Join(dir, "health.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if h := health.Read(dir); h.Bad != 0 || !h.Checked.IsZero() {
			t.Errorf("of %q: %+v", text, h)
		}
	}
}

// What a check has found damaged, or a restore, is stored again by the next turn if it is
// on the disk still; then it can be restored, by another process, too, and a repair finds it.
func TestDamagedIsStoredAgain(t *testing.T) {
	testseed.Sequential(t)
	for _, how := range []string{"check", "restore"} {
		b := newBench(t)
		m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		texts := files{"small": noise(150<<10, 1), "large": noise(5<<20, 2), "d/other": noise(700, 3)}
		for name, text := range texts {
			b.write(name, text)
		}
		b.initialize(m)
		b.turn(m, func() { b.write("f", "one") })
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		packs, err := filepath.Glob(filepath.Join(m.StoreDir(), "packs", "*.pack"))
		if err != nil {
			t.Fatal(err)
		}
		hurt := 0
		for _, name := range packs {
			pack, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for file, text := range texts {
				if at := strings.Index(string(pack), text[len(text)/2:][:100]); at >= 0 && file != "d/other" {
					pack[at] ^= 1
					hurt++
				}
			}
			if err := os.WriteFile(name, pack, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if hurt != 2 {
			t.Fatalf("%d contents were found in packs", hurt)
		}
		if m, err = Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"}); err != nil {
			t.Fatal(err)
		}
		if how == "check" {
			if damage, _, _, err := health.CheckNext(t.Context(), m.store, m.StoreDir(), 0); err != nil ||
				len(damage) == 0 {
				t.Fatalf("CheckNext = %v, %v", damage, err)
			}
		} else {
			for name := range texts {
				b.remove(name)
			}
			if r := b.restore(m, &RestoreOptions{Target: "@", Exact: true}); len(r.Failed) != 2 {
				t.Fatalf("restore: %+v", r)
			}
			for name, text := range texts {
				b.write(name, text)
			}
		}
		b.turn(m, func() { b.write("f", "two") })
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if m, err = Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"}); err != nil {
			t.Fatal(err)
		}
		for name, text := range texts { // which does not ask what checks have found
			id := object.Hash(object.Blob, []byte(text))
			if n, err := m.store.CopyBlob(t.Context(), io.Discard, id); err != nil || n != int64(len(text)) {
				t.Errorf("%s: %s: %d bytes, %v", how, name, n, err)
			}
			b.remove(name)
		}
		if r := b.restore(m, &RestoreOptions{Target: "@", Exact: true}); len(r.Failed) != 0 {
			t.Errorf("%s: restore: %+v", how, r)
		}
		for name, text := range texts {
			b.holds(name, text)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLostChunks: what large files have lost is stored again by the next turn, though the lists of their chunks
// are there: where a pack is gone, or a check has found that none can read it.
func TestLostChunks(t *testing.T) {
	testseed.Sequential(t)
	for _, how := range []string{"gone", "unreadable"} {
		b := newBench(t)
		session := func(fn func(m *FileSnapshotManager)) {
			m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
			if err != nil {
				t.Fatal(err)
			}
			fn(m)
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		snapshot := func(m *FileSnapshotManager) {
			if _, err := m.Snapshot(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		large := noise(10<<20, 4)
		b.write("first", large)
		var dir string
		session(func(m *FileSnapshotManager) { dir = m.StoreDir(); b.initialize(m) })
		packs, err := filepath.Glob(filepath.Join(dir, "packs", "*.pack"))
		if err != nil || len(packs) == 0 {
			t.Fatalf("packs %q, %v", packs, err)
		}
		text := large + noise(1<<20, 5)
		b.write("second", text)
		b.remove("first")
		session(snapshot)
		for _, name := range packs {
			losePack(t, name, how)
		}
		session(func(m *FileSnapshotManager) {
			r, err := m.store.Check(t.Context(), false)
			if err == nil && how == "unreadable" {
				err = health.Change(dir, func(h *health.Health) { h.NoteBad(r.Damage) })
			}
			if err != nil || len(r.Damage) == 0 {
				t.Fatalf("%s: %+v, %v", how, r, err)
			}
		})
		session(snapshot)
		session(func(m *FileSnapshotManager) {
			id := object.Hash(object.Blob, []byte(text))
			if n, err := m.store.CopyBlob(t.Context(), io.Discard, id); err != nil || n != int64(len(text)) {
				t.Errorf("%s: %d bytes, %v", how, n, err)
			}
			r, err := m.Snapshot(t.Context(), nil)
			if err != nil || r.Capture.ReadFiles > 0 {
				t.Errorf("%s: it is stored again and again: %+v, %v", how, r, err)
			}
		})
	}
}

// losePack takes a pack away that is sealed, or has it hold nothing that can be read.
func losePack(t *testing.T, name, how string) {
	t.Helper()
	if _, err := os.Stat(strings.TrimSuffix(name, ".pack") + ".idx"); err != nil {
		t.Fatalf("it is not sealed: %v", err)
	}
	err := os.WriteFile(name, []byte(noise(1000, 6)), 0o600)
	if how == "gone" {
		err = os.Remove(name)
	}
	if err != nil {
		t.Fatal(err)
	}
}
