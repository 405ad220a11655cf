package manager

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// The journal cannot tell that its newest records are gone: files of the worktree
// do, each for itself, and go on when others have got their numbers. Nothing is
// pruned then.
func TestLostNewest(t *testing.T) {
	for name, c := range map[string]struct {
		hide []string // in the worktree's directory
		cut  int      // the first turn that the journal loses, of three
	}{
		"all files":        {nil, 2},
		"the turns before": {[]string{"turns"}, 1}, // they are those before the last record
		"our own log":      {[]string{"turns", "turns.new"}, 2},
		"the turns":        {[]string{"turns.new"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			if len(c.hide) > 0 { // of two files that have changed places
				vfstest.NeedRename(t, vfs.Exchange)
			}
			b := newBench(t)
			opts := &Options{StoreRoot: b.stores, Session: "s"}
			m, err := Open(t.Context(), b.dir, opts)
			if err != nil {
				t.Fatal(err)
			}
			b.initialize(m)
			segment := filepath.Join(m.StoreDir(), "journal", "00000001.log")
			var lengths []int64
			for _, text := range []string{"one", "two", "three"} {
				st, err := os.Stat(segment)
				if err != nil {
					t.Fatal(err)
				}
				lengths = append(lengths, st.Size())
				b.turn(m, func() { b.write("f", text) })
			}
			if name == "our own log" {
				if _, err := inside.Of(m).ExportLog(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if lost, err := history.LostRecords(t.Context(), m.store); err != nil || len(lost) > 0 {
				t.Fatalf("LostRecords = %v, %v before", lost, err)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			for _, name := range c.hide {
				if err := os.Remove(filepath.Join(m.StoreDir(), m.place().Dir(), name)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Truncate(segment, lengths[c.cut]); err != nil {
				t.Fatal(err)
			}
			whens := []string{"at once", "after a turn"}
			// the turn finds the same directory, and records it by the same number
			if len(c.hide) > 0 && c.hide[0] == "turns" {
				whens = whens[:1]
			}
			for _, when := range whens {
				s, err := cas.Open(t.Context(), m.StoreDir(), nil)
				if err != nil {
					t.Fatal(err)
				}
				damage, err := history.JournalDamage(t.Context(), s)
				if err != nil || len(damage) == 0 {
					t.Errorf("%s: JournalDamage = %v, %v", when, damage, err)
				}
				plan, err := retain.PlanPrune(t.Context(), s, &retain.Retention{KeepLast: 1})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := plan.Do(t.Context()); !errors.Is(err, retain.ErrDamaged) {
					t.Errorf("%s: Prune: %v, want ErrDamaged", when, err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if m, err = Open(t.Context(), b.dir, opts); err != nil {
					t.Fatal(err)
				}
				b.turn(m, func() { b.write("f", "four "+when) })
				if err := m.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A log that names no record of ours, or cannot be read, names none.
func TestLostByNoLog(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("f", "one") })
	name := filepath.Join(m.StoreDir(), m.place().Sessions(), "another.jsonl")
	for _, text := range []string{"", "no log", `{"type":"session","version":3,"id":"another","cwd":"/"}` + "\n" +
		`{"type":"custom","customType":"` + sessionlog.StepSnapshot + `","id":"x","data":{"a":1}}` + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if lost, err := history.LostRecords(t.Context(), m.store); err != nil || len(lost) > 0 {
			t.Errorf("LostRecords with %q = %v, %v", text, lost, err)
		}
	}
}

// A file of open turns in which a digit is wrong names no record: it is made again from
// the journal, as is one in whose place there is something else.
func TestLostByNoTurns(t *testing.T) {
	for what, spoil := range map[string]func(name string, b []byte) error{
		"a digit": func(name string, b []byte) error {
			return os.WriteFile(name, bytes.Replace(b, []byte(`"last":`), []byte(`"last":7`), 1), 0o600)
		},
		"no end":      func(name string, b []byte) error { return os.WriteFile(name, b[:len(b)-30], 0o600) },
		"nothing":     func(name string, b []byte) error { return os.WriteFile(name, nil, 0o600) },
		"a directory": func(name string, b []byte) error { return errors.Join(os.Remove(name), os.Mkdir(name, 0o700)) },
	} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t)
			m := b.open("s")
			b.initialize(m)
			b.turn(m, func() { b.write("f", "one") })
			s, name := m.store, m.place().Turns()
			path := filepath.Join(m.StoreDir(), name)
			sound, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if names, damage, err := history.SpoiltTurns(s); err != nil || len(names)+len(damage) > 0 {
				t.Errorf("before: %q, %v, %v", names, damage, err)
			}
			if err := spoil(path, sound); err != nil {
				t.Fatal(err)
			}
			if lost, err := history.LostRecords(t.Context(), s); err != nil || len(lost) > 0 {
				t.Errorf("LostRecords = %v, %v", lost, err)
			}
			names, damage, err := history.SpoiltTurns(s)
			if err != nil || len(names) != 1 || names[0] != name || (len(damage) > 0) != (what == "a directory") {
				t.Fatalf("SpoiltTurns: %q, %v, %v", names, damage, err)
			}
			if err := history.MendTurns(t.Context(), s, name); err != nil {
				t.Fatal(err)
			}
			after, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := history.DecodeTurns(after)
			if err != nil {
				t.Fatal(err)
			}
			want, _, err := history.DecodeTurns(sound)
			if err != nil || got.Last != want.Last || len(got.Open) != 1 || got.Open[0].Session != history.Nobody {
				t.Errorf("made again: %+v, want the last %d (%v)", got, want.Last, err)
			}
			b.turn(m, func() { b.write("f", "two") })
		})
	}
}

// Where the journal has lost what came last, nobody knows what was restored last: an undo does not take
// back the restore before that. Where there is nothing to take back, nobody knows whether there was.
func TestUndoOfLost(t *testing.T) {
	for what, cut := range map[string]func(at []int64) int64{ // lengths before turns, and before each of two restores
		"the newest restore": func(at []int64) int64 { return at[2] },
		"both restores":      func(at []int64) int64 { return at[1] },
		"all but the start":  func(at []int64) int64 { return at[0] },
	} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t)
			m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			read := func() string {
				text, err := os.ReadFile(filepath.Join(b.dir, "f"))
				if err != nil {
					t.Fatal(err)
				}
				return string(text)
			}
			segment := filepath.Join(m.StoreDir(), "journal", "00000001.log")
			var at []int64
			note := func() {
				st, err := os.Stat(segment)
				if err != nil {
					t.Fatal(err)
				}
				at = append(at, st.Size())
			}
			b.initialize(m)
			note()
			for _, text := range []string{"one", "two", "three"} {
				b.turn(m, func() { b.write("f", text) })
			}
			for range 2 {
				note()
				if _, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "@~1"}); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Truncate(segment, cut(at)); err != nil {
				t.Fatal(err)
			}

			before := read()
			for range 2 { // the first records what is there
				_, err := m.Undo(t.Context(), nil)
				if !errors.Is(err, store.ErrCorrupt) || errors.Is(err, ErrNothing) {
					t.Errorf("Undo: %v, want the damage", err)
				}
				if _, err := m.Redo(t.Context(), nil); !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("Redo: %v, want the damage", err)
				}
			}
			if now := read(); now != before {
				t.Errorf("f is %q now, and was %q", now, before)
			}
			var last error
			for _, last = range m.Find(t.Context(), &FindOptions{Text: "no such text"}) {
			}
			if !errors.Is(last, ErrNotAll) {
				t.Errorf("Find: %v, want ErrNotAll", last)
			}
			if _, err := m.Resolve(t.Context(), "turn:77"); !errors.Is(err, ErrUnknown) ||
				!strings.Contains(err.Error(), "damaged") {
				t.Errorf("Resolve: %v, want that it is damaged", err)
			}
			if health := m.Health(); !strings.Contains(health, "damage was found") {
				t.Errorf("Health = %q", health)
			}

			// What is restored from here on can be taken back.
			b.turn(m, func() { b.write("f", "four") })
			if _, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "@~1"}); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Undo(t.Context(), nil); err != nil || read() != "four" {
				t.Errorf("Undo of a restore that came since: %v, f is %q", err, read())
			}
		})
	}
}

// What a restore takes from the disk can be brought back, also where the store has had it, and it was
// damaged since.
func TestRestoreOfDamaged(t *testing.T) {
	b := newBench(t)
	m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	b.initialize(m)
	text := func(seed byte) string { // which is stored as it is
		text := make([]byte, 100<<10)
		rand.NewChaCha8([32]byte{seed}).Read(text)
		return string(text)
	}
	b.turn(m, func() { b.write("f", text(1)) })
	b.turn(m, func() { b.write("f", text(2)) })
	packs, err := filepath.Glob(filepath.Join(m.StoreDir(), "packs", "*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatal(packs, err)
	}
	content, err := os.ReadFile(packs[0])
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.Index(content, []byte(text(2)[1000:1100]))
	f, err := os.OpenFile(packs[0], os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt([]byte{content[i] ^ 1}, int64(i))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}

	if _, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "@~1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Undo(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(filepath.Join(b.dir, "f")); err != nil || string(now) != text(2) {
		t.Errorf("f is not what it was before the restore: %v", err)
	}
}
