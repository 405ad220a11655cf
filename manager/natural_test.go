package manager

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/vfs"
)

// TestNatural counts what a snapshot of one changed file, and a turn with one tool,
// ask of the disk in a process of their own. Nobody may make it more. Whether a look
// saves the stat cache, which takes a lock, goes by the clock.
func TestNatural(t *testing.T) {
	type price struct{ refreshes, locks, syncs int }
	for _, c := range []struct {
		name string
		most price
		do   func(b *bench, m *FileSnapshotManager) error
	}{
		{"snapshot", price{3, 8, 6}, func(b *bench, m *FileSnapshotManager) error {
			b.write("f3", "new")
			_, err := m.Snapshot(b.Context(), &SnapshotOptions{})
			return err
		}},
		{"turn with a tool", price{9, 19, 9}, func(b *bench, m *FileSnapshotManager) error {
			m.opts.ToolWindows = true
			if _, err := m.OnTurnStart(b.Context(), nil); err != nil {
				return err
			}
			if _, err := m.OnToolStart(b.Context(), "1"); err != nil {
				return err
			}
			b.write("f3", "new")
			if _, err := m.OnToolEnd(b.Context(), "1"); err != nil {
				return err
			}
			_, err := m.OnTurnEnd(b.Context(), nil)
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			for i := range 50 {
				b.write(fmt.Sprint("f", i), "old")
			}
			disk := vfs.OS(t.TempDir())
			m, err := openOn(t, b.dir, disk)
			if err == nil {
				_, err = m.Snapshot(t.Context(), &SnapshotOptions{})
			}
			if err == nil {
				b.write("f3", "between")
				_, err = m.Snapshot(t.Context(), &SnapshotOptions{})
			}
			if err == nil {
				err = m.store.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			var got price
			var seen []string
			fault := &vfs.Fault{At: -1, Trace: func(op, name string) {
				switch {
				case op == "Stat" && name == "journal/00000002.log":
					got.refreshes++
				case strings.Contains(op, "Lock"):
					got.locks++
				case strings.Contains(op, "Sync"):
					got.syncs++
				default:
					return
				}
				if testing.Verbose() {
					var pc [12]uintptr
					frames := runtime.CallersFrames(pc[:runtime.Callers(4, pc[:])])
					for {
						f, more := frames.Next()
						name += " < " + f.Function[strings.LastIndex(f.Function, ".")+1:]
						if !more {
							break
						}
					}
				}
				seen = append(seen, op+" "+name)
			}}
			if m, err = openOn(t, b.dir, vfs.WithFault(disk, fault)); err != nil {
				t.Fatal(err)
			}
			if err := c.do(b, m); err != nil {
				t.Fatal(err)
			}
			if err := m.store.Close(); err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", got)
			if got.refreshes > c.most.refreshes || got.locks > c.most.locks || got.syncs > c.most.syncs {
				t.Errorf("%+v, at most %+v:\n%s", got, c.most, strings.Join(slices.Compact(seen), "\n"))
			}
		})
	}
}
