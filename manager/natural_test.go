package manager

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/session"
)

// A price is what something asks of the disk.
type price struct{ refreshes, locks, syncs, captures int }

// A meter counts it.
type meter struct {
	price
	seen []string
}

func (c *meter) trace(op, name string) {
	switch {
	case op == "Stat" && name == "journal/00000002.log":
		c.refreshes++
	case strings.Contains(op, "Lock"):
		c.locks++
	case strings.Contains(op, "Sync"):
		c.syncs++
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
	c.seen = append(c.seen, op+" "+name)
}

func (c *meter) check(t *testing.T, most price) {
	t.Helper()
	t.Logf("%+v", c.price)
	if c.refreshes > most.refreshes || c.locks > most.locks || c.syncs > most.syncs || c.captures > most.captures {
		t.Errorf("%+v, at most %+v:\n%s", c.price, most, strings.Join(slices.Compact(c.seen), "\n"))
	}
}

// TestNatural counts what a snapshot of one changed file, and a turn with one tool, ask of
// the disk in a process of their own, and what a turn of pi does in the process of its
// session. Nobody may make it more. TestNaturalCommand of snapctl has the whole command.
func TestNatural(t *testing.T) {
	if vfs.BootID() == "" {
		t.Skip("the system does not tell its boots apart: whoever opens a store tries its locks")
	}
	t.Run("snapshot", func(t *testing.T) {
		b, disk := naturalBench(t)
		var c meter
		m, err := openOn(t, b.dir, vfstest.WithFault(disk, &vfstest.Fault{At: -1, Trace: c.trace}))
		if err != nil {
			t.Fatal(err)
		}
		b.write("f3", "new")
		if _, err := m.Snapshot(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := m.store.Close(); err != nil {
			t.Fatal(err)
		}
		c.check(t, price{refreshes: 3, locks: 4, syncs: 4})
	})
	t.Run("turn with a tool", func(t *testing.T) {
		b, disk := naturalBench(t)
		var c meter
		m, err := openOn(t, b.dir, vfstest.WithFault(disk, &vfstest.Fault{At: -1, Trace: c.trace}))
		if err != nil {
			t.Fatal(err)
		}
		m.opts.ToolWindows = true
		turn := []func() error{
			func() error { return second(m.OnTurnStart(t.Context(), nil)) },
			func() error { return second(m.OnToolStart(t.Context(), "1")) },
			func() error { b.write("f3", "new"); return nil },
			func() error { return second(m.OnToolEnd(t.Context(), "1")) },
			func() error { return second(m.OnTurnEnd(t.Context(), nil)) },
			m.store.Close,
		}
		for _, do := range turn {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}
		c.check(t, price{refreshes: 9, locks: 12, syncs: 7})
	})
	t.Run("sessions that go on elsewhere", func(t *testing.T) {
		b, disk := naturalBench(t)
		var c meter
		m, err := openOn(t, b.dir, vfstest.WithFault(disk, &vfstest.Fault{At: -1, Trace: c.trace}))
		if err != nil {
			t.Fatal(err)
		}
		var sessions []string
		for i := range 12 {
			sessions = append(sessions, fmt.Sprint("s", i))
			b.write("f3", sessions[i])
			if err := errors.Join((door{m}).UseSession(sessions[i]), second(m.Snapshot(t.Context(), nil))); err != nil {
				t.Fatal(err)
			}
		}
		c = meter{}
		if _, err := (door{m}).Elsewhere(t.Context(), sessions); err != nil {
			t.Fatal(err)
		}
		c.check(t, price{refreshes: 1}) // however many they are
	})
	t.Run("turn of pi", func(t *testing.T) {
		b, disk := naturalBench(t)
		var c meter
		m, err := openOn(t, b.dir, vfstest.WithFault(disk, &vfstest.Fault{At: -1, Trace: c.trace}))
		if err != nil {
			t.Fatal(err)
		}
		m.tree.ws, err = m.project.Open(&capture.WorkspaceOptions{Store: m.store, StoreDir: m.tree.dir,
			Resident: true, Pages: m.tree.pages})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
		log := newPiLog(t, b.dir)
		m.opts.ToolWindows, m.opts.SessionFile = true, log.name
		log.add(session.Entry{Type: "custom", CustomType: "prompt"})
		b.write("f3", "of the user")
		b.initialize(m)
		for range 2 { // the second is as the first
			c = meter{price: price{captures: -int(m.tree.ws.WatchStats().Captures)}}
			naturalTurn(t, b, m, log)
			c.captures += int(m.tree.ws.WatchStats().Captures)
			most := price{refreshes: 13, locks: 13, syncs: 5, captures: 3}
			if runtime.GOOS != "linux" { // nobody tells what has changed
				most.captures = 4
			}
			c.check(t, most)
		}
	})
}

// naturalBench returns a directory of 50 files with a session of two turns, and the disk
// of its store.
func naturalBench(t *testing.T) (*bench, vfs.FS) {
	t.Helper()
	b := newBench(t)
	for i := range 50 {
		b.write(fmt.Sprint("f", i), "old")
	}
	disk := vfs.OS(t.TempDir())
	m, err := openOn(t, b.dir, disk)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"old", "between"} {
		b.write("f3", text)
		if _, err := m.Snapshot(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.store.Close(); err != nil {
		t.Fatal(err)
	}
	return b, disk
}

// naturalTurn is a turn of pi with one tool, that changes a file.
func naturalTurn(t *testing.T, b *bench, m *FileSnapshotManager, log *piLog) {
	t.Helper()
	if _, err := m.OnTurnStart(t.Context(), &Turn{Leaf: log.tree.Leaf()}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.OnToolStart(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	b.write("f3", log.tree.Leaf())
	if err := m.Claim(t.Context(), "f3"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.OnToolEnd(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	_, steps, err := m.EndTurn(t.Context())
	if err != nil || len(steps) != 1 {
		t.Fatalf("the turn has ended with %d steps, %v", len(steps), err)
	}
	id := log.add(steps[0].Entry("", ""))
	if err := m.Told(t.Context(), steps[0].SnapshotSeq, id); err != nil {
		t.Fatal(err)
	}
}

// A piLog is a log that a runtime writes.
type piLog struct {
	t    *testing.T
	name string
	cwd  string
	tree *session.Tree
	text []byte
}

func newPiLog(t *testing.T, dir string) *piLog {
	return &piLog{t: t, name: filepath.Join(t.TempDir(), "session.jsonl"), cwd: dir, tree: session.NewTree()}
}

// add appends an entry, and returns the ID that it was given.
func (l *piLog) add(e session.Entry) string {
	l.t.Helper()
	e.ID, e.ParentID = newID(), l.tree.Leaf()
	text, err := sessionlog.AppendLog(l.text, &sessionlog.Header{ID: "s", CWD: l.cwd}, e)
	if err == nil {
		l.text = text
		l.tree.Add(e)
		err = os.WriteFile(l.name, text, 0o600)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return e.ID
}
