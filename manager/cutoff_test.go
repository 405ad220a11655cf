package manager

import (
	"slices"
	"strings"
	"testing"
)

// A runtime that takes a session up again is told of the turn that was cut off, and of
// what a restore leaves since nobody knows who has changed it.
func TestCutOffIsTold(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("a", "1") })
	b.start(m)
	b.write("b", "1")
	m.release() // as its death does
	m = b.open("s")
	r := b.initialize(m)
	if r.Data == nil || !r.Data.Interrupted || !slices.Equal(r.Data.Contested.Added, []string{"b"}) {
		t.Fatalf("Initialize says of the turn that was cut off: %+v", r.Data)
	}
	back, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start"})
	if err != nil || len(back.Items) != 2 || !strings.Contains(back.Items[1].Why, "turn 1 was cut off") {
		t.Errorf("RestoreFiles = %+v, %v", back, err)
	}
	if again := b.initialize(m); again.Data != nil {
		t.Errorf("Initialize says it again: %+v", again.Data)
	}
}

// What tools have done that had ended is the turn's, when it is cut off: as if it had ended
// right behind them. What has changed while another one ran is anybody's.
func TestCutOffBehindTool(t *testing.T) {
	b := newBench(t)
	byTools := func(o *Options) { o.ToolWindows = true }
	m := b.open("s", byTools)
	b.initialize(m)
	b.start(m)
	b.tool(m, "1", func() { b.write("a", "1") })
	b.write("mine", "1")
	look := func(_ *Result, err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	look(m.OnToolStart(t.Context(), "2"))
	b.write("b", "1")
	look(m.OnToolStart(t.Context(), "3")) // the turn goes on
	b.write("c", "1")
	m.release() // as its death does
	d := b.initialize(b.open("s", byTools)).Data
	if d == nil || d.Diff == nil || d.Contested == nil ||
		!slices.Equal(d.Diff.Added, []string{"a", "b"}) ||
		!slices.Equal(d.Contested.Added, []string{"c"}) {
		t.Errorf("Initialize says of the turn that was cut off: %+v", d)
	}
}
