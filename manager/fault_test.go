package manager

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/session"
)

// openOn opens a manager whose store is on another disk than the files.
func openOn(t *testing.T, dir string, disk vfs.FS) (*FileSnapshotManager, error) {
	t.Helper()
	elsewhere := t.TempDir()
	project, err := capture.FindProject(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := cas.OpenFS(t.Context(), disk, &cas.Options{})
	if err != nil {
		return nil, err
	}
	e := newEngine(&EngineOptions{StoreRoot: elsewhere})
	wt := newWorktree(project, elsewhere, s)
	e.trees[project.Root] = wt
	return newManager(e, wt, &Options{StoreRoot: elsewhere, Session: "s"}), nil
}

// A day is what a session has gone through until an operation of the disk
// failed.
type day struct {
	user  bool     // the turn has begun: what the user wrote before is kept
	turns int      // that were acknowledged
	told  []string // entries that the runtime has
}

// live runs two turns of a session and a claim.
func (d *day) live(ctx context.Context, dir string, m *FileSnapshotManager) error {
	write := func(name, content string) error {
		return os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644)
	}
	if _, err := m.Initialize(ctx); err != nil {
		return err
	}
	for i := range 2 {
		if err := write("user.txt", strings.Repeat("user ", i+1)); err != nil {
			return err
		}
		if _, err := m.OnTurnStart(ctx, nil); err != nil {
			return err
		}
		d.user = true
		if err := errors.Join(write("user.txt", "agent"), m.Claim(ctx, "user.txt"),
			write("own.txt", strings.Repeat("agent", i+1))); err != nil {
			return err
		}
		append := func(context.Context, *StepSnapshotData) (string, error) {
			d.told = append(d.told, []string{"first", "second", "more"}[min(len(d.told), 2)])
			return d.told[len(d.told)-1], nil
		}
		if i == 1 {
			append = nil // no runtime keeps a log
		}
		if _, err := m.OnTurnEnd(ctx, append); err != nil {
			return err
		}
		d.turns++
	}
	return nil
}

// Each operation of the store's disk fails in turn, once or for good: what was
// acknowledged stays, an error is said, and the session goes on.
func TestFaults(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	for _, cause := range []error{syscall.ENOSPC, syscall.EIO} {
		for _, sticky := range []bool{false, true} {
			at := int64(0)
			for faultAt(t, at, sticky, cause) && !t.Failed() {
				at += stride(17)
			}
			if at < 50 {
				t.Errorf("only %d operations", at)
			}
		}
	}
}

func faultAt(t *testing.T, at int64, sticky bool, cause error) bool {
	t.Helper()
	dir := t.TempDir()
	disk := vfstest.NewMem()
	var op, name string
	n := int64(0)
	fault := &vfstest.Fault{At: at, Sticky: sticky, Err: cause, Trace: func(o, f string) {
		if n == at {
			op, name = o, f
		}
		n++
	}}
	var d day
	m, err := openOn(t, dir, vfstest.WithFault(disk, fault))
	if err == nil {
		err = d.live(t.Context(), dir, m)
		m.Close()
	}
	if !fault.Fired() {
		if err != nil || d.turns != 2 {
			t.Errorf("without a fault: %d turns, %v", d.turns, err)
		}
		return false
	}
	if err == nil && (matters(op, name) || d.turns != 2) {
		t.Errorf("%s %s (operation %d, sticky=%v): not reported", op, name, at, sticky)
	}
	for _, after := range []*vfstest.Mem{disk, disk.AfterCrash(nil)} {
		checkDay(t, dir, after, &d, op+" "+name)
	}
	return true
}

// matters reports whether a failure must be said even if all that was promised
// is there: later it may not be. Of the rest much is only there to save time,
// and checkDay tells whether it was.
func matters(op, name string) bool {
	if op != "WriteAt" && op != "Sync" && op != "Rename" {
		return false
	}
	return strings.HasPrefix(name, "journal/") && strings.HasSuffix(name, ".log") ||
		strings.Contains(name, "/turns")
}

// A turn that was open when the power failed is known to have been cut off, and
// what it wrote is not called the user's.
func TestTurnPowerCut(t *testing.T) {
	dir := t.TempDir()
	b := &bench{T: t, dir: dir}
	disk := vfstest.NewMem()
	m, err := openOn(t, dir, disk)
	if err != nil {
		t.Fatal(err)
	}
	b.initialize(m)
	b.start(m)
	b.write("shell.txt", "agent")
	disks := []*vfstest.Mem{disk.AfterCrash(nil)}
	for seed := range uint64(5) {
		disks = append(disks, disk.AfterCrash(rand.New(rand.NewPCG(seed, 0))))
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	for i, disk := range disks {
		if m, err = openOn(t, dir, disk); err != nil {
			t.Fatal(err)
		}
		b.remove("own.txt")
		b.start(m)
		b.write("own.txt", "agent")
		var told []*StepSnapshotData
		if _, err := m.OnTurnEnd(t.Context(), func(_ context.Context, d *StepSnapshotData) (string, error) {
			told = append(told, d)
			return "", nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(told) != 2 || !told[0].Interrupted || told[1].Interrupted {
			t.Errorf("power cut %d: the runtime was told %+v, want an interrupted turn and one", i, told)
		}
		want := map[string]string{"shell.txt": "added contested", "own.txt": "added turn"}
		if d := cmp.Diff(want, brief(b.modified(m, nil))); d != "" {
			t.Errorf("power cut %d (-want +got):\n%s", i, d)
		}
		b.check(m.store)
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// That a runtime's log has a step's entry is not synced, since the log says so itself: after
// a power cut it does, and the step is offered no more. Where no log has it, it is synced.
func TestToldPowerCut(t *testing.T) {
	for _, logged := range []bool{true, false} {
		dir := t.TempDir()
		b := &bench{T: t, dir: dir}
		disk := vfstest.NewMem()
		log := newPiLog(t, dir)
		log.add(session.Entry{Type: "custom", CustomType: "prompt"})
		open := func(disk vfs.FS) *FileSnapshotManager {
			m, err := openOn(t, dir, disk)
			if err != nil {
				t.Fatal(err)
			}
			if logged {
				m.opts.SessionFile = log.name
			}
			return m
		}
		end := func(m *FileSnapshotManager) *StepSnapshotData {
			_, steps, err := m.EndTurn(t.Context())
			if err != nil || len(steps) != 1 {
				t.Fatalf("logged %v: %d steps are offered, %v, want one", logged, len(steps), err)
			}
			return steps[0]
		}
		m := open(disk)
		b.initialize(m)
		b.start(m)
		b.write("own.txt", "agent")
		step := end(m)
		var synced []string
		traced := open(vfstest.WithFault(disk, &vfstest.Fault{At: -1, Trace: func(op, name string) {
			if strings.Contains(op, "Sync") {
				synced = append(synced, name)
			}
		}}))
		if err := traced.Told(t.Context(), step.SnapshotSeq, log.add(step.Entry("", ""))); err != nil {
			t.Fatal(err)
		}
		if !logged && len(synced) == 0 {
			t.Error("what no log has is not synced")
		}
		for seed := range uint64(5) {
			b.write("own.txt", "again "+string(rune('0'+seed)))
			m := open(disk.AfterCrash(rand.New(rand.NewPCG(seed, 0))))
			b.start(m)
			b.write("next.txt", string(rune('0'+seed)))
			end(m)
			p, err := m.Resolve(t.Context(), log.tree.Leaf())
			if err != nil || p.Snapshot.Seq != step.SnapshotSeq {
				t.Errorf("logged %v: power cut %d: the entry is %+v, %v", logged, seed, p, err)
			}
			b.check(m.store)
		}
	}
}

// checkDay requires that a new process finds what was acknowledged, and can go
// on.
func checkDay(t *testing.T, dir string, disk *vfstest.Mem, d *day, label string) {
	t.Helper()
	m, err := openOn(t, dir, disk)
	if err != nil {
		t.Errorf("%s: open again: %v", label, err)
		return
	}
	defer m.Close()
	if err := os.RemoveAll(filepath.Join(dir, "next.txt")); err != nil {
		t.Fatal(err)
	}
	if d.user {
		if _, err := m.store.Get(t.Context(), object.Blob, object.Hash(object.Blob, []byte("user "))); err != nil {
			t.Errorf("%s: what the user wrote is lost: %v", label, err)
		}
	}
	if _, err := m.OnTurnStart(t.Context(), nil); err != nil {
		t.Errorf("%s: go on: %v", label, err)
		return
	}
	if err := os.WriteFile(filepath.Join(dir, "next.txt"), []byte("next"), 0o644); err != nil {
		t.Fatal(err)
	}
	log := session.NewTree()
	if _, err := m.OnTurnEnd(t.Context(), func(_ context.Context, d *StepSnapshotData) (string, error) {
		id := newID()
		log.Add(session.Entry{ID: id, ParentID: log.Leaf(), Type: "custom",
			CustomType: sessionlog.StepSnapshot, Data: encode(d)})
		return id, nil
	}); err != nil {
		t.Errorf("%s: go on: %v", label, err)
		return
	}
	steps := 0
	for mo, err := range m.Timeline(t.Context()) {
		if err != nil {
			t.Errorf("%s: timeline: %v", label, err)
			return
		}
		if mo.Kind == history.KindStep {
			steps++
			if mo.EntryID == "" {
				t.Errorf("%s: turn %d has no entry, and the runtime was not offered it", label, mo.TurnIndex)
			}
		}
	}
	if steps < d.turns+1 {
		t.Errorf("%s: %d steps are there, want %d", label, steps, d.turns+1)
	}
	if s, err := m.SnapshotAtEntry(t.Context(), "first"); d.turns > 0 && (err != nil || s.TurnIndex != 0) {
		t.Errorf("%s: the first turn is %+v, %v", label, s, err)
	}
	b := &bench{T: t}
	b.check(m.store)
}
