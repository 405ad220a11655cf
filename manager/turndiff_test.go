package manager

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// turnDiff returns what a TurnDiff says, a line for each change.
func (b *bench) turnDiff(m *FileSnapshotManager, rev string) []string {
	b.Helper()
	d, err := m.TurnDiff(b.Context(), rev)
	if err != nil {
		b.Fatal(err)
	}
	var list []string
	for _, c := range d.Changes {
		line := fmt.Sprintf("%s %s %d/%d", c.Status, c.Path, c.Piece, c.Pieces)
		for _, e := range []struct {
			name string
			id   func() store.ID
			has  bool
		}{{"old", func() store.ID { return c.Old.ID }, c.Old != nil},
			{"new", func() store.ID { return c.New.ID }, c.New != nil}} {
			if !e.has {
				continue
			}
			content, err := m.store.Get(b.Context(), object.Blob, e.id())
			if err != nil {
				b.Fatal(err)
			}
			line += fmt.Sprintf(" %s %q", e.name, content)
		}
		list = append(list, line+" "+string(c.Owner))
	}
	return list
}

// What a turn did is not what differs between its end and that of the one
// before: the user has been at work, too, between the turns and between the
// tools of one.
func TestTurnDiff(t *testing.T) {
	b := newBench(t)
	b.write("a", "1\n")
	b.write("mine", "1\n")
	m := b.open("s", func(o *Options) { o.ToolWindows = true })
	b.initialize(m)
	tool := func(fn func()) {
		t.Helper()
		if _, err := m.OnToolStart(t.Context(), "tool"); err != nil {
			t.Fatal(err)
		}
		fn()
		if _, err := m.OnToolEnd(t.Context(), "tool"); err != nil {
			t.Fatal(err)
		}
	}
	b.turn(m, func() { tool(func() { b.write("c", "1\n") }) })
	b.write("mine", "1\nthe user's\n")
	b.turn(m, func() {
		tool(func() { b.write("a", "1\nagent\n") })
		b.write("a", "1\nagent\nuser\n")
		b.write("c", "1\nuser\n")
		tool(func() { b.write("a", "1\nagent\nuser\nagent\n") })
	})
	want := []string{
		`modified a 1/2 old "1\n" new "1\nagent\n" turn`,
		`modified a 2/2 old "1\nagent\nuser\n" new "1\nagent\nuser\nagent\n" turn`,
	}
	if d := cmp.Diff(want, b.turnDiff(m, "turn:1")); d != "" {
		t.Errorf("turn:1 (-want +got):\n%s", d)
	}
	// What was found changed that no turn did has a name of its own.
	var offline []string
	for mo, err := range m.Timeline(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		name := history.NameOf(mo.EntryID, mo.Snapshot)
		if mo.Kind == "base" {
			offline = append(offline, b.turnDiff(m, name)...)
		}
		got, err := mo.TurnDiff(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want, err := m.TurnDiff(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want.Changes, got.Changes); d != "" {
			t.Errorf("%s by its moment (-want +got):\n%s", name, d)
		}
	}
	want = []string{
		`modified a 1/1 old "1\nagent\n" new "1\nagent\nuser\n" offline`,
		`modified c 1/1 old "1\n" new "1\nuser\n" offline`,
		`modified mine 1/1 old "1\n" new "1\nthe user's\n" offline`,
	}
	if d := cmp.Diff(want, offline); d != "" {
		t.Errorf("offline (-want +got):\n%s", d)
	}
	if got := b.turnDiff(m, "start"); got != nil {
		t.Errorf("start: %q", got)
	}
	b.turn(m, func() {})
	for _, rev := range []string{"turn:2", "@"} {
		if got, err := m.TurnDiff(t.Context(), rev); err != nil || got.TurnIndex != 2 || got.Kind != "step" ||
			got.Changes != nil {
			t.Errorf("%s, a turn that changed nothing: %+v, %v", rev, got, err)
		}
	}
	if d := cmp.Diff(b.turnDiff(m, "turn:1"), b.turnDiff(m, "@~1")); d != "" {
		t.Errorf("the one before it (-turn:1 +@~1):\n%s", d)
	}
	r, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "turn:0", OnDirty: rollback.Overwrite})
	if err != nil {
		t.Fatal(err)
	}
	want = []string{`modified a 1/1 old "1\nagent\nuser\nagent\n" new "1\n" `}
	if d := cmp.Diff(want, b.turnDiff(m, history.NameOf("", r.Snapshot))); d != "" {
		t.Errorf("the restore (-want +got):\n%s", d)
	}
}

// A record that has no entry is named by its number, and found by the session
// that it is of, or by who asks for none.
func TestLookNames(t *testing.T) {
	b := newBench(t)
	b.write("a", "1")
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("a", "2") })
	b.write("a", "3")
	m2 := b.open("other")
	found := b.initialize(m2).Snapshot
	if _, err := m.Resolve(t.Context(), history.NameOf("", found)); !errors.Is(err, ErrOtherSession) {
		t.Errorf("the start of another session: %v", err)
	}
	b.start(m)
	b.end(m)
	for _, bad := range []string{"look:", "look:x", "look:0", "look:-1", "look:+1", "look:99999",
		"look:99999999999999999999"} {
		if _, err := m.Resolve(t.Context(), bad); !errors.Is(err, ErrUnknown) {
			t.Errorf("Resolve(%q): %v", bad, err)
		}
	}
	any := b.open("", func(o *Options) { o.AnySession = true })
	p, err := any.Resolve(t.Context(), history.NameOf("", found))
	if err != nil || p.Snapshot.Seq != found.Seq {
		t.Errorf("%v, %v", p, err)
	}
	if got := history.NameOf("", nil); got != "" {
		t.Errorf("NameOf nothing = %q", got)
	}
	if got := history.NameOf("e", found); got != "e" {
		t.Errorf("NameOf an entry = %q", got)
	}
}

// Of a step that only the log knows the log has the names, and the trees the rest.
func TestTurnDiffByLog(t *testing.T) {
	b := newBench(t)
	b.write("a", "1")
	b.write("dir/f", "1")
	m := b.open("s")
	b.initialize(m)
	var data *StepSnapshotData
	b.start(m)
	b.write("a", "2")
	b.remove("dir")
	b.write("dir", "a file")
	if _, err := m.OnTurnEnd(t.Context(), func(_ context.Context, d *StepSnapshotData) (string,
		error) {
		data = d
		return "e", nil
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{`modified a 1/1 old "1" new "2" turn`, `added dir 1/1 new "a file" turn`, `deleted dir/f 1/1 old "1" turn`}
	if d := cmp.Diff(want, b.turnDiff(m, "e")); d != "" {
		t.Errorf("by the record (-want +got):\n%s", d)
	}
	data.SnapshotSeq = 0 // as of another store
	log := session.NewTree()
	log.Add(session.Entry{ID: "step", Type: "custom", CustomType: sessionlog.StepSnapshot, Data: encode(data)})
	fork := b.open("fork")
	if err := fork.RebuildIndex(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, b.turnDiff(fork, "step")); d != "" {
		t.Errorf("by the log (-want +got):\n%s", d)
	}
}
