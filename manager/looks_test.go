package manager

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/moments"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/rollback"
)

// lookLines says whose the change of a path in each moment is, oldest first.
func (b *bench) lookLines(m *FileSnapshotManager, path string) []string {
	b.Helper()
	var list []string
	m.mu.Lock()
	defer m.mu.Unlock()
	for mo, err := range m.looks(b.Context(), 0) {
		if err != nil {
			b.Fatal(err)
		}
		if mo.From == mo.State && mo.Kind != moments.Pruned {
			continue
		}
		of := mo.At(path)
		text := string(of.Kind)
		for _, w := range of.Who {
			text += fmt.Sprintf(" %s/%d", w.Session, w.Turn)
		}
		if of.Claimed {
			text += " claimed"
		}
		if mo.IsHole {
			text += " hole"
		}
		list = append(list, text)
	}
	slices.Reverse(list)
	return list
}

func (b *bench) wantLooks(m *FileSnapshotManager, path string, want ...string) {
	b.Helper()
	if diff := cmp.Diff(want, b.lookLines(m, path)); diff != "" {
		b.Errorf("moments (-want +got):\n%s", diff)
	}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func TestLooksOfTwoSessions(t *testing.T) {
	b := newBench(t)
	b.write("a", "0")
	one, two := b.open("one"), b.open("two", func(o *Options) { o.ToolWindows = true })
	b.initialize(one)
	b.turn(one, func() { b.write("a", "1") })
	b.write("a", "user")
	b.start(two)
	tool := func(fn func()) {
		_, err := two.OnToolStart(b.Context(), "t")
		b.must(err)
		fn()
		_, err = two.OnToolEnd(b.Context(), "t")
		b.must(err)
	}
	tool(func() { b.write("a", "two") })
	b.write("a", "user again") // between tools
	tool(func() {
		b.start(one)
		b.write("a", "one or two")
		b.write("c", "one")
		b.must(one.Claim(b.Context(), "c"))
		b.end(one)
	})
	open := []string{"before", "turn one/0", "user", "turn two/0", "user", "contested one/1 two/0"}
	b.wantLooks(one, "a", open...)
	b.wantLooks(one, "c", slices.Concat(open[:5], []string{"turn one/1 claimed"})...)
	b.end(two)
	b.wantLooks(one, "a", open...)
	b.restore(one, &RestoreOptions{Target: "@~1", OnDirty: rollback.Overwrite})
	b.write("a", "by hand")
	if _, err := one.Snapshot(b.Context(), nil); err != nil {
		t.Fatal(err)
	}
	b.wantLooks(two, "a", append(open, "restore", "turn one/2")...)
}

// A look that another session had is the turn's that nobody announced: its diff has it.
func TestLooksOfUnannouncedTurn(t *testing.T) {
	b := newBench(t)
	one, two := b.open("one"), b.open("two")
	b.initialize(one)
	b.initialize(two)
	b.write("a", "1")
	b.initialize(two)
	b.wantLooks(one, "a", "before", "user")
	b.write("a", "2")
	if _, err := one.Snapshot(b.Context(), nil); err != nil {
		t.Fatal(err)
	}
	b.wantLooks(one, "a", "before", "turn one/0", "turn one/0")
}

// What the user did before a turn that was announced is not the turn's, although the files are as
// at the session's record before.
func TestLooksBeforeAnnouncedTurn(t *testing.T) {
	b := newBench(t)
	one, two := b.open("one"), b.open("two")
	b.write("a", "1")
	b.initialize(one)
	b.initialize(two)
	for _, text := range []string{"2", "1"} {
		b.write("a", text)
		b.initialize(one)
	}
	b.turn(two, func() { b.write("a", "3") })
	b.wantLooks(two, "a", "before", "user", "user", "turn two/0")
}

func TestLooksThatWerePruned(t *testing.T) {
	b := newBench(t)
	b.write("a", "0")
	m := b.open("s")
	b.initialize(m)
	for i := range 4 {
		b.turn(m, func() { b.write("a", fmt.Sprint("turn ", i)) })
		b.write("a", fmt.Sprint("user ", i))
	}
	b.turn(m, func() { b.write("a", "last") })
	b.prune(m.store, &retain.Retention{KeepLast: 4})
	b.wantLooks(m, "a", "pruned", "pruned", "pruned", "pruned", "pruned", "pruned", "pruned hole", "user",
		"turn s/3", "user", "turn s/4")
}

// What a turn's record knows of the time before a hole is what the turn did, although no
// tool was at work at its last look.
func TestLooksOfToolsThatWerePruned(t *testing.T) {
	b := newBench(t)
	b.write("a", "0")
	m := b.open("s", func(o *Options) { o.ToolWindows = true })
	b.initialize(m)
	b.write("a", "user")
	b.start(m)
	_, err := m.OnToolStart(b.Context(), "t")
	b.must(err)
	b.write("a", "turn")
	_, err = m.OnToolEnd(b.Context(), "t")
	b.must(err)
	b.end(m)
	before := b.lookLines(m, "a")
	if want := []string{"before", "user", "turn s/0"}; !slices.Equal(before, want) {
		t.Fatalf("moments %q, want %q", before, want)
	}
	b.prune(m.store, &retain.Retention{KeepLast: 1})
	got := b.lookLines(m, "a")
	if got[len(got)-1] != "turn s/0" || slices.Contains(got, "user") {
		t.Errorf("moments %q", got)
	}
}
