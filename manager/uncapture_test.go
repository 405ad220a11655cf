package manager

import (
	"fmt"
	"slices"
	"testing"

	"github.com/boocode/filestore/tree"
)

// A turn is a step also if all that it did is that something is not captured any
// more, or is captured now, whatever else it changed: as with Snapshot.
func TestTurnUncaptures(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(b *bench)
		captured []string
		lost     []string // not captured any more
	}{
		"a file grows":   {func(b *bench) { b.write("f", "much larger than 10 bytes") }, nil, []string{"f"}},
		"a file shrinks": {func(b *bench) { b.write("large", "small") }, []string{"large"}, nil},
		"a rule": {func(b *bench) {
			b.write(".git/info/exclude", "ignored\nf\n")
			b.write("f", "other")
		}, nil, []string{"f"}},
		"a rule goes": {func(b *bench) { b.write(".git/info/exclude", "") }, []string{"ignored"}, nil},
		"something else as well": {func(b *bench) {
			b.write("f", "much larger than 10 bytes")
			b.write("z", "2")
		}, nil, []string{"f"}},
	} {
		for _, snapshot := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, snapshot %v", name, snapshot), func(t *testing.T) {
				b := newBench(t)
				b.git("")
				b.write(".git/objects/info/x", "")
				b.write(".git/refs/x", "")
				b.write(".git/info/exclude", "ignored\n")
				b.write("f", "small")
				b.write("z", "1")
				b.write("large", "much larger than 10 bytes")
				b.write("ignored", "i")
				opts := &Options{Engine: newTestEngine(t, b.stores), Session: "s", Limits: tree.Limits{FileSize: 10}}
				m, err := Open(t.Context(), b.dir, opts)
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				b.initialize(m)
				var r *Result
				if snapshot {
					c.change(b)
					if r, err = m.Snapshot(t.Context(), nil); err != nil {
						t.Fatal(err)
					}
				} else {
					b.start(m)
					c.change(b)
					r = b.end(m)
				}
				if r.Data == nil {
					t.Fatal("it changed nothing")
				}
				if d := r.Data.Diff; !slices.Equal(d.Captured, c.captured) || !slices.Equal(d.Uncaptured, c.lost) {
					t.Errorf("captured %q, uncaptured %q, want %q, %q", d.Captured, d.Uncaptured, c.captured, c.lost)
				}
				before := b.files()
				// Going back names what it cannot judge, and loses nothing.
				back := b.restore(m, &RestoreOptions{Target: "start"})
				for _, it := range back.Items {
					if slices.Contains(c.lost, it.Path) && it.Why != uncapturedDoubt {
						t.Errorf("%s is left alone for %q, want %q", it.Path, it.Why, uncapturedDoubt)
					}
				}
				for _, p := range append(c.captured, c.lost...) {
					if !slices.Contains(back.Skipped, p) && !slices.Contains(back.NotCaptured, p) {
						t.Errorf("a restore says nothing of %q: %+v", p, back)
					}
					if b.files()[p] != before[p] {
						t.Errorf("%s is %q, was %q", p, b.files()[p], before[p])
					}
				}
				if empty := b.turn(m, func() {}); empty != "" {
					t.Error("a turn that changed nothing is a step")
				}
			})
		}
	}
}
