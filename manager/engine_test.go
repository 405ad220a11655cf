package manager

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/store"
)

func newTestEngine(t *testing.T, stores string) *Engine {
	t.Helper()
	e, err := NewEngine(&EngineOptions{StoreRoot: stores})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close engine: %v", err)
		}
	})
	return e
}

// Two sessions of one engine share a store, and tell their turns apart.
func TestEngineSessions(t *testing.T) {
	b := newBench(t)
	e := newTestEngine(t, b.stores)
	var managers []*FileSnapshotManager
	for _, id := range []string{"s1", "s2"} {
		m, err := Open(t.Context(), b.dir, &Options{Engine: e, Session: id})
		if err != nil {
			t.Fatal(err)
		}
		b.initialize(m)
		managers = append(managers, m)
	}
	if managers[0].store != managers[1].store {
		t.Error("two stores are open")
	}
	for i, m := range managers {
		if _, err := m.OnTurnStart(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		b.write(fmt.Sprint("f", i), "x")
		r, err := m.OnTurnEnd(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := r.Data.Diff; d == nil || len(d.Added) != 1 || d.Added[0] != fmt.Sprint("f", i) {
			t.Errorf("turn of session %d: %+v", i, r.Data)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Errorf("close twice: %v", err)
		}
	}
}

// What a turn writes through another name of a file is the turn's, also if the
// name was another file's, and if there are such files already; and if the name
// is gone when the turn ends.
func TestEngineLinks(t *testing.T) {
	b := newBench(t)
	m, err := Open(t.Context(), b.dir, &Options{Engine: newTestEngine(t, b.stores), Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for i := range 3 {
		b.write(fmt.Sprintf("d%d/a", i), "one\n")
		b.write(fmt.Sprint("b", i), "old\n")
	}
	b.initialize(m)
	p := func(name string) string { return filepath.Join(b.dir, name) }
	do := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		time.Sleep(20 * time.Millisecond) // what was captured need not be read again
		a, b0 := fmt.Sprintf("d%d/a", i), fmt.Sprint("b", i)
		if _, err := m.OnTurnStart(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		want := []string{b0, a}
		if i < 2 {
			do(os.Link(p(a), p("tmp")), os.Rename(p("tmp"), p(b0)))
			b.write(b0, fmt.Sprint("turn ", i))
		} else {
			do(os.Link(p(a), p("tmp")))
			b.write("tmp", fmt.Sprint("turn ", i))
			do(os.Remove(p("tmp")))
			want = want[1:]
		}
		r, err := m.OnTurnEnd(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Data == nil || !slices.Equal(r.Data.Diff.Modified, want) {
			t.Errorf("turn %d: %+v, want %q modified", i, r.Data, want)
		}
	}
}

// What has settled is stored before anybody asks.
func TestEngineSettles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nothing is watched here")
	}
	b := newBench(t)
	e := newTestEngine(t, b.stores)
	m, err := Open(t.Context(), b.dir, &Options{Engine: e, Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	b.initialize(m)
	b.write("late", "stored unasked")
	id := object.Hash(object.Blob, []byte("stored unasked"))
	for until := time.Now().Add(20 * time.Second); ; {
		_, err := m.store.Get(t.Context(), object.Blob, id)
		if err == nil {
			break
		}
		if !errors.Is(err, store.ErrNotFound) || time.Now().After(until) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	r, list, err := m.EndTurn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || len(list[0].Diff.Added) != 1 {
		t.Errorf("the turn: %+v", r.Data)
	}
}

// EndTurn offers steps until it is told, the turn's own always, and not all at
// once.
func TestEndTurnOffers(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	var last uint64
	for i := range maxOffers + 5 {
		b.write("f", fmt.Sprint(i))
		r, list, err := m.EndTurn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		last = r.Snapshot.Seq
		if want := min(i, maxOffers) + 1; len(list) != want || list[len(list)-1].SnapshotSeq != last {
			t.Errorf("turn %d offers %d steps, want %d, the last its own", i, len(list), want)
		}
	}
	if err := m.Told(t.Context(), last, "e1"); err != nil {
		t.Fatal(err)
	}
	if err := m.Told(t.Context(), last-1, "e1"); err == nil {
		t.Error("two steps have one entry")
	}
	if err := m.Told(t.Context(), 99999, "e2"); !errors.Is(err, ErrUnknown) {
		t.Errorf("told of nothing: %v", err)
	}
	if p, err := m.Resolve(t.Context(), "e1"); err != nil || p.Snapshot.Seq != last {
		t.Errorf("e1 is %+v, %v, want snapshot %d", p, err, last)
	}
}

// Directories that no manager has do not stay open for ever.
func TestEngineForgets(t *testing.T) {
	e := newTestEngine(t, t.TempDir())
	for i := range maxIdle + 4 {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(fmt.Sprint(i)), 0o644); err != nil {
			t.Fatal(err)
		}
		m, err := Open(t.Context(), dir, &Options{Engine: e, Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Initialize(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(inside.OfEngine(e).WatchStats()); n != maxIdle {
		t.Errorf("%d directories are open, want %d", n, maxIdle)
	}
}
