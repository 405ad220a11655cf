package manager

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

// Each operation of what a tool of a turn asks for fails in turn, once or for good as when
// its process dies. The turn goes on: what its other tools do is its own, before and behind,
// and goes with it.
func TestDivideFaults(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	for _, verb := range []string{"snapshot", "restore", "undo"} {
		for _, sticky := range []bool{true, false} {
			at := int64(0)
			for divideFaultAt(t, verb, at, sticky) && !t.Failed() {
				at += stride(11)
			}
			if at < 50 && !t.Failed() {
				t.Errorf("%s: only %d operations", verb, at)
			}
		}
	}
}

func divideFaultAt(t *testing.T, verb string, at int64, sticky bool) bool {
	t.Helper()
	b := &bench{T: t, dir: t.TempDir()}
	disk := vfstest.NewMem()
	opened := func(disk vfs.FS, inTurn bool) (*FileSnapshotManager, error) {
		m, err := openOn(t, b.dir, disk)
		if err == nil {
			m.opts.ToolWindows, m.opts.Detached, m.opts.InTurn = true, true, inTurn
		}
		return m, err
	}
	with := func(fn func(m *FileSnapshotManager)) {
		t.Helper()
		m, err := opened(disk, false)
		if err != nil {
			t.Fatal(err)
		}
		fn(m)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	tool := func(name string) {
		t.Helper()
		with(func(m *FileSnapshotManager) { noErr(t, second(m.OnToolStart(t.Context(), name))) })
		b.write(name, "agent")
		with(func(m *FileSnapshotManager) { noErr(t, second(m.OnToolEnd(t.Context(), name))) })
	}
	with(func(m *FileSnapshotManager) { b.initialize(m) })
	with(func(m *FileSnapshotManager) { b.start(m) })
	tool("before")
	with(func(m *FileSnapshotManager) { b.end(m) })
	if verb == "undo" {
		with(func(m *FileSnapshotManager) {
			noErr(t, second(m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start"})))
		})
	}
	with(func(m *FileSnapshotManager) { b.start(m) })
	tool("one")
	with(func(m *FileSnapshotManager) { noErr(t, second(m.OnToolStart(t.Context(), "mcp"))) })

	fault := &vfstest.Fault{At: at, Sticky: sticky, Err: syscall.EIO}
	m, err := opened(vfstest.WithFault(disk, fault), true)
	if err == nil {
		m.openDir = func(path string) (vfs.Dir, error) {
			d, err := vfs.OpenDir(path)
			if err != nil {
				return nil, err
			}
			return vfstest.WithFaultDir(d, fault), nil
		}
		switch verb {
		case "snapshot":
			_, err = m.Snapshot(t.Context(), nil)
		case "restore":
			_, err = m.RestoreFiles(t.Context(), &RestoreOptions{Target: "@~1"})
		case "undo":
			_, err = m.Undo(t.Context(), nil)
		}
		m.Close()
	}
	with(func(m *FileSnapshotManager) { noErr(t, second(m.OnToolEnd(t.Context(), "mcp"))) })
	tool("two")
	with(func(m *FileSnapshotManager) { b.end(m) })

	where := fmt.Sprintf("%s, operation %d, sticky %v (%v)", verb, at, sticky, err)
	with(func(m *FileSnapshotManager) {
		owners := make(map[string]string)
		for mo, err := range m.Timeline(t.Context()) {
			if err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			if mo.Kind == "step" {
				own, contested, err := mo.Changes(t.Context())
				if err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				for _, p := range slices.Concat(own.Added, own.Deleted, own.Modified, contested.Added,
					contested.Deleted) {
					owners[p] += fmt.Sprint(mo.TurnIndex)
				}
			}
		}
		want := map[string]string{"before": "0", "one": "1", "two": "1"}
		if !maps.Equal(owners, want) {
			t.Errorf("%s: the turns changed %v, want %v", where, owners, want)
		}
		r, err := m.RestoreFiles(t.Context(), &RestoreOptions{Target: "start"})
		if err != nil || !r.IsComplete() {
			t.Errorf("%s: restore: %+v, %v", where, r, err)
		}
		if files := slices.Collect(maps.Keys(b.files())); len(files) > 0 {
			t.Errorf("%s: all turns were taken back, and %s is left", where, strings.Join(files, " "))
		}
		b.check(m.store)
	})
	return fault.Fired()
}

func noErr(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
