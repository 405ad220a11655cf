package manager

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/session"
)

// A bench is a directory with a store, and managers of its sessions.
type bench struct {
	*testing.T
	dir, stores string
	log         *session.Tree // what the runtime would write; nil: no runtime
}

func newBench(t *testing.T) *bench {
	return &bench{T: t, dir: t.TempDir(), stores: t.TempDir()}
}

// open returns the manager of a session. The store is checked at the end.
func (b *bench) open(id string, change ...func(*Options)) *FileSnapshotManager {
	b.Helper()
	opts := &Options{StoreRoot: b.stores, Session: id}
	for _, fn := range change {
		fn(opts)
	}
	m, err := Open(b.Context(), b.dir, opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		b.check(m.store)
		if err := m.Close(); err != nil {
			b.Error(err)
		}
	})
	return m
}

// check requires that the store is sound and every snapshot in it complete.
func (b *bench) check(s *cas.Store) {
	b.Helper()
	ctx := context.Background()
	report, err := s.Check(ctx, true)
	if err != nil {
		b.Error(err)
		return
	}
	for _, d := range report.Damage {
		b.Errorf("damage: %v", d)
	}
	lost, err := history.LostRecords(ctx, s)
	if err != nil || len(lost) > 0 {
		b.Errorf("LostRecords = %v, %v", lost, err)
	}
	checker := audit.NewChecker(s)
	for snap, err := range s.Snapshots(ctx) {
		if err != nil {
			b.Error(err)
			return
		}
		problems, err := checker.Snapshot(ctx, snap)
		if err != nil || len(problems) > 0 {
			b.Errorf("snapshot %d: %v %v", snap.Seq, problems, err)
		}
	}
}

func (b *bench) write(name, content string) {
	b.Helper()
	p := filepath.Join(b.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(content), 0o644)); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) remove(name string) {
	b.Helper()
	if err := os.RemoveAll(filepath.Join(b.dir, name)); err != nil {
		b.Fatal(err)
	}
}

// git makes the directory a git repository with rules.
func (b *bench) git(rules string) {
	b.Helper()
	b.write(".git/HEAD", "ref: refs/heads/main\n")
	b.write(".gitignore", rules)
}

// initialize starts a session.
func (b *bench) initialize(m *FileSnapshotManager) *Result {
	b.Helper()
	r, err := m.Initialize(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// turn runs fn as a turn of the session and returns the entry of its step, ""
// if there is none. The runtime appends it to b.log, if it has one.
func (b *bench) turn(m *FileSnapshotManager, fn func()) string {
	b.Helper()
	b.start(m)
	fn()
	return b.end(m).EntryID
}

func (b *bench) start(m *FileSnapshotManager) *Result {
	b.Helper()
	r, err := m.OnTurnStart(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func (b *bench) end(m *FileSnapshotManager) *Result {
	b.Helper()
	var appendFn AppendFunc
	if b.log != nil {
		appendFn = func(ctx context.Context, data *StepSnapshotData) (string, error) { return b.append(data), nil }
	}
	r, err := m.OnTurnEnd(b.Context(), appendFn)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// newID returns an ID that no entry of any log of this process has.
func newID() string { return fmt.Sprintf("%08x", idsMade.Add(1)*0x9e3779b1) }

var idsMade atomic.Uint32

// append appends a step to the runtime's log.
func (b *bench) append(data *StepSnapshotData) string {
	id := newID()
	b.log.Add(session.Entry{ID: id, ParentID: b.log.Leaf(), Type: "custom", CustomType: sessionlog.StepSnapshot,
		Data: encode(data)})
	return id
}

// message appends a message to the runtime's log.
func (b *bench) message(role string) string {
	id := newID()
	b.log.Add(session.Entry{ID: id, ParentID: b.log.Leaf(), Type: "message", Role: role})
	return id
}

func (b *bench) modified(m *FileSnapshotManager, r *Range) []ModifiedFileInfo {
	b.Helper()
	answer, err := m.ModifiedFiles(b.Context(), r)
	if err != nil {
		b.Fatal(err)
	}
	return answer.Files
}

// brief is what a row says in short: A file (turn).
func brief(rows []ModifiedFileInfo) map[string]string {
	short := make(map[string]string)
	for _, r := range rows {
		short[r.Path] = r.Status + " " + string(r.Owner)
		if r.NetStatus != r.Status {
			short[r.Path] += ", net " + r.NetStatus
		}
	}
	return short
}

// testContext is for code that runs outside of a test.
func testContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}

var every = flag.Bool("every", false, "fail each operation in turn, not each few; large cases are large")

// stride returns how many operations a test of faults goes on at a time: one if
// all are asked for, else normal, or short in short mode.
func stride(normal, short int64) int64 {
	switch {
	case *every:
		return 1
	case testing.Short():
		return short
	}
	return normal
}
