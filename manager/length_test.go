package manager

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/testseed"
)

// TestLongSession: what a turn reads does not grow with the turns before it,
// whether they changed something or not, or paths were restored by name, or the
// runtime tells each step after the next.
func TestLongSession(t *testing.T) {
	testseed.Sequential(t)
	for _, kind := range []string{"nothing", "a file", "by turns", "restores", "told late"} {
		t.Run(kind, func(t *testing.T) {
			tb := newBench(t)
			tb.write("a", "0")
			tb.write("b", "0")
			m := tb.open("s")
			if _, err := m.Initialize(t.Context()); err != nil {
				t.Fatal(err)
			}
			late := uint64(0)
			turn := func(i int) {
				if kind == "told late" && i >= 0 {
					tb.write("a", fmt.Sprint("turn ", i))
					r, _, err := m.EndTurn(t.Context())
					if err == nil && late != 0 {
						err = m.Told(t.Context(), late, fmt.Sprint("entry", i))
					}
					if err != nil {
						t.Fatal(err)
					}
					late = r.Snapshot.Seq
					return
				}
				if kind == "a file" || kind == "by turns" && i%2 == 0 {
					tb.write("a", fmt.Sprint("turn ", i))
				}
				if _, err := m.OnTurnEnd(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
			}
			tb.write("a", "1")
			tb.write("b", "1")
			turn(-1)
			// read returns how many records a turn reads in a process of its own.
			read := func(change string) int {
				m := tb.open("s")
				if _, err := m.OnTurnStart(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				if change != "" {
					tb.write("c", change)
				}
				end := func() error { _, err := m.OnTurnEnd(t.Context(), nil); return err }
				if kind == "told late" {
					end = func() error { _, _, err := m.EndTurn(t.Context()); return err }
				}
				if err := end(); err != nil {
					t.Fatal(err)
				}
				return m.records.Len()
			}
			var few [2]int
			for i := range 200 {
				if i == 20 || i == 199 {
					got := [2]int{read(""), read(fmt.Sprint(i))}
					if few[0] == 0 {
						few = got
					}
					if got[0] > few[0]+4 || got[1] > few[1]+4 {
						t.Errorf("after %d turns a turn reads %v records, after 20 %v", i, got, few)
					}
				}
				if kind == "restores" {
					target := []string{"start", "turn:0"}[i%2]
					if _, err := m.RestoreFiles(t.Context(),
						&RestoreOptions{Target: target, Paths: []string{"a"}}); err != nil {
						t.Fatal(err)
					}
				} else {
					turn(i)
				}
			}
		})
	}
}

var benchTurns = flag.Int("bench.turns", 1000, "how many turns the longest sessions of BenchmarkHistory have")

// BenchmarkHistory is a turn in a session that has had many, of which all or half
// changed nothing: what it costs must not grow with them. The floor is a sync of
// 4 KiB.
func BenchmarkHistory(b *testing.B) {
	for _, n := range []int{10, *benchTurns} {
		for _, every := range []int{0, 2} {
			b.Run(fmt.Sprintf("turns=%d/changing=%d%%", n, min(every, 1)*50), func(b *testing.B) {
				dir, root := b.TempDir(), b.TempDir()
				write := func(i int) {
					if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("file", i%10)),
						[]byte(fmt.Sprint(i)), 0o644); err != nil {
						b.Fatal(err)
					}
				}
				for i := range 10 {
					write(i)
				}
				m, err := Open(b.Context(), dir, &Options{StoreRoot: root, Session: "s"})
				if err != nil {
					b.Fatal(err)
				}
				_, err = m.Initialize(b.Context())
				for i := 0; i < n && err == nil; i++ {
					if every > 0 && i%every == 0 {
						write(10 + i)
					}
					_, err = m.OnTurnEnd(b.Context(), nil)
				}
				if err != nil {
					b.Fatal(err)
				}
				if err := m.Close(); err != nil {
					b.Fatal(err)
				}
				b.Run("a manager for each turn", func(b *testing.B) {
					benchTurnsIn(b, dir, &Options{StoreRoot: root, Session: "s"}, true)
				})
				b.Run("engine=no", func(b *testing.B) {
					benchTurnsIn(b, dir, &Options{StoreRoot: root, Session: "s"}, false)
				})
				e, err := NewEngine(&EngineOptions{StoreRoot: root})
				if err != nil {
					b.Fatal(err)
				}
				defer e.Close()
				b.Run("engine=yes", func(b *testing.B) {
					benchTurnsIn(b, dir, &Options{Engine: e, Session: "s"}, false)
				})
			})
		}
	}
	b.Run("floor/sync", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "f"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		for b.Loop() {
			if _, err := f.Write(make([]byte, 4<<10)); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// benchTurnsIn measures turns that are announced, in a session that there is: one
// that changes nothing and one that changes a file.
func benchTurnsIn(b *testing.B, dir string, opts *Options, anew bool) {
	open := func() *FileSnapshotManager {
		m, err := Open(b.Context(), dir, opts)
		if err != nil {
			b.Fatal(err)
		}
		return m
	}
	for _, c := range []string{"nothing", "a file"} {
		b.Run(c, func(b *testing.B) {
			m := open()
			var all []time.Duration
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				if anew {
					m.Close()
					m = open()
				}
				if _, err := m.OnTurnStart(b.Context(), nil); err != nil {
					b.Fatal(err)
				}
				if c == "a file" {
					if err := os.WriteFile(filepath.Join(dir, "changed"),
						[]byte(fmt.Sprint(i, time.Now())), 0o644); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := m.OnTurnEnd(b.Context(), nil); err != nil {
					b.Fatal(err)
				}
				all = append(all, time.Since(start))
			}
			m.Close()
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-us")
		})
	}
}
