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
	"github.com/boocode/filestore/rollback"
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

// A restore to what another session has a label for takes back what this one did since, and nothing
// of the other; by PATH, or exactly, it is the state that the label names.
func TestRestoreLabelOfAnother(t *testing.T) {
	b := newBench(t)
	b.write("a", "0")
	b.write("f", "0")
	one, two := b.open("one"), b.open("two")
	b.initialize(one)
	b.initialize(two)
	label := func(text, name string) {
		t.Helper()
		b.write("a", text)
		if _, err := one.Snapshot(t.Context(), &SnapshotOptions{Label: name}); err != nil {
			t.Fatal(err)
		}
	}
	label("1", "early")
	b.turn(two, func() { b.write("f", "1") })
	label("2", "late")
	b.turn(one, func() { b.write("a", "3") })
	b.turn(two, func() { b.write("f", "2") })
	for _, c := range []struct {
		opts RestoreOptions
		want files
		back []int
	}{
		{RestoreOptions{Target: "late"}, files{"a": "3", "f": "1"}, []int{1}},
		{RestoreOptions{Target: "early"}, files{"a": "3", "f": "0"}, []int{0, 1}},
		{RestoreOptions{Target: "early", Paths: []string{"a"}, OnDirty: rollback.Overwrite}, files{"a": "1", "f": "2"},
			nil},
		{RestoreOptions{Target: "late", Exact: true, OnDirty: rollback.Overwrite}, files{"a": "2", "f": "1"}, nil},
	} {
		r := b.restore(two, &c.opts)
		if !c.opts.Exact && !slices.Equal(r.TurnsTakenBack, c.back) {
			t.Errorf("%+v: turns %v are taken back, want %v", c.opts, r.TurnsTakenBack, c.back)
		}
		b.expectFiles(c.want)
		if _, err := two.Undo(t.Context(), new(UndoOptions)); err != nil {
			t.Fatal(err)
		}
		b.expectFiles(files{"a": "3", "f": "2"})
	}
	b.restore(two, &RestoreOptions{Target: "early"})
	if p, err := two.Resolve(t.Context(), "start"); err != nil || p.Snapshot.Session != "two" {
		t.Errorf("start: %+v, %v", p, err)
	}
	if _, err := two.Resolve(t.Context(), "@"); err != nil {
		t.Error(err)
	}
	for mo, err := range one.Timeline(t.Context()) {
		if err != nil || len(mo.TookBack) > 0 || mo.TakenBack != nil {
			t.Errorf("session one: %+v, %v", mo, err)
		}
	}
}
