package manager

import "testing"

// TestToolRefused: what changes while a tool is not run after all is the user's,
// unless another one runs.
func TestToolRefused(t *testing.T) {
	b := newBench(t)
	m := b.open("s", func(o *Options) { o.ToolWindows = true })
	b.initialize(m)
	b.start(m)
	tool := func(fn func(string) error, name string) {
		t.Helper()
		if err := fn(name); err != nil {
			t.Fatal(err)
		}
	}
	start := func(name string) error { _, err := m.OnToolStart(t.Context(), name); return err }
	end := func(name string) error { _, err := m.OnToolEnd(t.Context(), name); return err }
	refuse := func(name string) error { _, err := m.OnToolRefused(t.Context(), name); return err }
	tool(start, "asked")
	b.write("own", "1")
	tool(refuse, "asked")
	tool(start, "runs")
	tool(start, "asked")
	b.write("agent", "1")
	tool(refuse, "asked")
	tool(end, "runs")
	if refuse("asked") == nil {
		t.Error("a tool is refused that does not run")
	}
	r, err := m.OnTurnEnd(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := r.Data.Diff; d == nil || len(d.Added) != 1 || d.Added[0] != "agent" || d.Len() != 1 {
		t.Errorf("the turn has %+v", d)
	}
}
