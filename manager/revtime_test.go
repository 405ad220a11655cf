package manager

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/store"
)

// A time stands for what the directory was then: at each moment, between two and before the
// first, also where that is the start, the end of a restore or an undo. It can be restored as
// what its record is called can.
func TestResolveTime(t *testing.T) {
	b := newBench(t)
	b.write("a", "0")
	m := b.open("s")
	b.initialize(m)
	var want []string // what a was, a state after the other
	var when []time.Time
	note := func() {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(b.dir, "a"))
		if err != nil {
			t.Fatal(err)
		}
		want, when = append(want, string(text)), append(when, time.Now())
		time.Sleep(2 * time.Millisecond) // so that the next record is later
	}
	before := time.Now().Add(-time.Hour)
	note()
	for i := range 3 {
		b.turn(m, func() { b.write("a", fmt.Sprint(i+1)) })
		note()
	}
	b.restore(m, &RestoreOptions{Target: "turn:0"})
	note()
	if _, err := m.Undo(t.Context(), new(UndoOptions)); err != nil {
		t.Fatal(err)
	}
	note()
	other := b.open("another")
	b.initialize(other)
	b.turn(other, func() { b.write("a", "of another session") })
	rev := func(at time.Time) string { return "@{" + at.UTC().Format(time.RFC3339Nano) + "}" }
	for i, at := range when {
		p, err := m.Resolve(t.Context(), rev(at))
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		f, err := m.fileIn(t.Context(), p.State, "a")
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.store.Get(t.Context(), object.Blob, f.entry.ID)
		if err != nil || string(got) != want[i] {
			t.Errorf("at moment %d a is %q, %v; want %q", i, got, err, want[i])
		}
	}
	if p, err := m.Resolve(t.Context(), rev(before)); !errors.Is(err, ErrUnknown) {
		t.Errorf("before the first record: %v, %v", p, err)
	}
	b.write("a", want[5]) // as this session left it
	if r := b.restore(m, &RestoreOptions{Target: rev(when[1])}); !slices.Equal(r.Restored, []string{"a"}) {
		t.Errorf("restore: %+v", r)
	}
	b.expectFiles(files{"a": want[1]})
}

// A label stands for the one record that has it, and for none if several have.
func TestResolveLabel(t *testing.T) {
	b := newBench(t)
	b.write("a", "0")
	m := b.open("s")
	b.initialize(m)
	snapshot := func(text, label string) {
		t.Helper()
		b.write("a", text)
		if _, err := m.Snapshot(t.Context(), &SnapshotOptions{Label: label}); err != nil {
			t.Fatal(err)
		}
	}
	snapshot("1", "ok")
	snapshot("2", "twice")
	snapshot("3", "twice")
	p, err := m.Resolve(t.Context(), "ok")
	if err != nil || p.TurnIndex != 0 {
		t.Errorf("the label of turn 0: %+v, %v", p, err)
	}
	if p, err := m.Resolve(t.Context(), "twice"); !errors.Is(err, ErrAmbiguous) {
		t.Errorf("a label of two: %+v, %v", p, err)
	}
	if p, err := m.Resolve(t.Context(), "no"); !errors.Is(err, ErrUnknown) {
		t.Errorf("no label: %+v, %v", p, err)
	}
}

// A label names a state of the directory: a session finds that of another, unless it has one of that
// name itself, and can go back to it.
func TestResolveLabelOfAnother(t *testing.T) {
	b := newBench(t)
	b.write("a", "before")
	one := b.open("one")
	b.initialize(one)
	label := func(m *FileSnapshotManager) *store.Snapshot {
		t.Helper()
		r, err := m.Snapshot(t.Context(), &SnapshotOptions{Label: "named"})
		if err != nil {
			t.Fatal(err)
		}
		return r.Snapshot
	}
	wants := func(m *FileSnapshotManager, want *store.Snapshot) {
		t.Helper()
		if p, err := m.Resolve(t.Context(), "named"); err != nil || p.Snapshot.Seq != want.Seq {
			t.Errorf("named: %+v, %v, want record %d", p, err, want.Seq)
		}
	}
	b.write("a", "labelled")
	of := label(one) // its turn 0
	two := b.open("two")
	b.initialize(two)
	b.turn(two, func() { b.write("a", "after") })
	wants(two, of)
	if r := b.restore(two, &RestoreOptions{Target: "named"}); !slices.Equal(r.Restored, []string{"a"}) ||
		!slices.Equal(r.TurnsTakenBack, []int{0}) || len(r.TurnsPutBack) > 0 { // that was never taken back
		t.Errorf("restore: %+v", r)
	}
	b.expectFiles(files{"a": "labelled"})
	for mo, err := range two.Timeline(t.Context()) {
		if err != nil || len(mo.PutBack) > 0 || !slices.Equal(mo.TookBack, []int{0}) {
			t.Errorf("the restore is listed as %+v, %v", mo, err)
		}
		break // the newest
	}
	own := label(two)
	wants(two, own)
	wants(one, of)
	three := b.open("three")
	if p, err := three.Resolve(t.Context(), "named"); !errors.Is(err, ErrAmbiguous) {
		t.Errorf("named, of two others: %+v, %v", p, err)
	}
}
