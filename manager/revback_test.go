package manager

import (
	"errors"
	"testing"

	"github.com/boocode/filestore/internal/object"
)

// ~N behind the name of a turn's end is the turn N before it, also where it was taken back,
// and behind a turn that changed nothing.
func TestResolveBefore(t *testing.T) {
	b := newBench(t)
	b.write("a", "start")
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("a", "0") })
	b.turn(m, func() {})
	b.turn(m, func() { b.write("a", "2") })
	b.turn(m, func() { b.write("a", "3") })
	last, err := m.Resolve(t.Context(), "@")
	if err != nil {
		t.Fatal(err)
	}
	b.restore(m, &RestoreOptions{Target: "@~1"}) // turn 3 goes
	b.turn(m, func() { b.write("a", "4") })
	for rev, want := range map[string]string{
		"turn:3~0": "3", "turn:3~": "2", "turn:3~1": "2", "turn:3~2": "0", "turn:3~3": "0", "turn:3~4": "start",
		"turn:4~1": "2", "turn:1~1": "0", "turn:1~2": "start", "turn:0~1": "start", "@~1~1": "0", "turn:3~1~1": "0",
		last.EntryID + "~1": "2",
	} {
		p, err := m.Resolve(t.Context(), rev)
		if err != nil {
			t.Errorf("%s: %v", rev, err)
			continue
		}
		f, err := m.fileIn(t.Context(), p.State, "a")
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.store.Get(t.Context(), object.Blob, f.entry.ID)
		if err != nil || string(got) != want {
			t.Errorf("%s: a is %q, want %q; %v", rev, got, want, err)
		}
	}
	for _, rev := range []string{"turn:3~5", "turn:9~1", "start~1", "turn:1~x", "~1", "turn:~1"} {
		if p, err := m.Resolve(t.Context(), rev); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %+v, %v", rev, p, err)
		}
	}
	if r := b.restore(m, &RestoreOptions{Target: "turn:4~1"}); len(r.Restored) != 1 {
		t.Errorf("restore: %+v", r)
	}
	b.expectFiles(files{"a": "2"})
}

// Behind the name of a turn of another session ~N is a turn of that one, or its start; so it is where no
// session is named.
func TestResolveBeforeInAnother(t *testing.T) {
	b := newBench(t)
	b.write("a", "start")
	one := b.open("one")
	b.initialize(one)
	b.turn(one, func() { b.write("a", "0") })
	entry := b.turn(one, func() { b.write("a", "1") })
	two := b.open("two")
	b.initialize(two)
	b.turn(two, func() { b.write("a", "2") })
	for _, session := range []string{"", "two"} {
		m := b.open(session, func(o *Options) { o.AnySession = true })
		for rev, want := range map[string]string{entry + "~0": "1", entry + "~": "0", entry + "~2": "start",
			entry + "~1~1": "start"} {
			p, err := m.Resolve(t.Context(), rev)
			if err != nil {
				t.Errorf("%q: %s: %v", session, rev, err)
				continue
			}
			f, err := m.fileIn(t.Context(), p.State, "a")
			if err != nil {
				t.Fatal(err)
			}
			got, err := m.store.Get(t.Context(), object.Blob, f.entry.ID)
			if err != nil || string(got) != want {
				t.Errorf("%q: %s: a is %q, want %q; %v", session, rev, got, want, err)
			}
		}
		if p, err := m.Resolve(t.Context(), entry+"~3"); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: before the start: %+v, %v", session, p, err)
		}
	}
}
