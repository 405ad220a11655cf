package manager

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/session"
)

// built lists turns with the one that each builds on, -1 for the start.
func (b *bench) built(ctx context.Context, m *FileSnapshotManager) (list []string) {
	b.Helper()
	turns := make(map[uint64]int)
	var moments []*Moment
	for mo, err := range m.Timeline(ctx) {
		if err != nil {
			b.Fatal(err)
		}
		if mo.Snapshot != nil {
			turns[mo.Snapshot.Seq] = mo.TurnIndex
		}
		moments = append(moments, mo)
	}
	for _, mo := range moments {
		if mo.TurnIndex < 0 {
			continue
		}
		text := fmt.Sprint(mo.TurnIndex)
		if mo.Prev != 0 {
			text += fmt.Sprint("<", turns[mo.Prev])
		}
		switch {
		case mo.NotIn:
			text += " elsewhere"
		case mo.TakenBack != nil:
			text += " taken back"
		}
		list = append(list, text)
	}
	return list
}

// Who asks for all branches gets those of the conversation that was left, with their files,
// and which turn builds on which.
func TestTimelineOfAllBranches(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	m := b.reopen("s")
	b.initialize(m)
	b.message("user")
	first := b.turn(m, func() { b.write("a", "1") })
	b.message("user")
	b.turn(m, func() { b.write("b", "1") })
	b.navigate(m, first, nil)
	b.message("user")
	b.turn(m, func() { b.write("c", "1") })
	if d := cmp.Diff([]string{"2", "0"}, b.built(t.Context(), m)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	want := []string{"2<0", "1<0 elsewhere", "0<-1"}
	if d := cmp.Diff(want, b.built(inside.WithAllBranches(t.Context()), m)); d != "" {
		t.Errorf("all branches (-want +got):\n%s", d)
	}
}

// Turns build on those that were in when they began, whatever was taken back later, or by a
// restore that took one out of the middle.
func TestTimelineBuiltOn(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	turn := func(name string) { b.turn(m, func() { b.write(name, name) }) }
	for _, name := range []string{"a", "b", "c"} {
		turn(name)
	}
	b.restore(m, &RestoreOptions{Target: "@~2"})
	turn("d")
	turn("e")
	if _, err := m.Revert(t.Context(), &RevertOptions{Turns: []string{"turn:3"}}); err != nil {
		t.Fatal(err)
	}
	turn("f")
	b.restore(m, &RestoreOptions{Target: "@~2"})
	turn("g")
	want := []string{"6<0", "5<4 taken back", "4<3 taken back", "3<0 taken back", "2<1 taken back",
		"1<0 taken back", "0<-1"}
	if d := cmp.Diff(want, b.built(inside.WithAllBranches(t.Context()), m)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
