package manager

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/moments"
	"github.com/boocode/filestore/internal/sessionlog"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/windows"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
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
	b.checkMoments(s)
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

// tool is a window of the open turn.
func (b *bench) tool(m *FileSnapshotManager, name string, fn func()) {
	b.Helper()
	if _, err := m.OnToolStart(b.Context(), name); err != nil {
		b.Fatal(err)
	}
	fn()
	if _, err := m.OnToolEnd(b.Context(), name); err != nil {
		b.Fatal(err)
	}
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

// stride returns how many operations a test of faults goes on at a time: one if all are asked for.
func stride(normal int64) int64 {
	if *every {
		return 1
	}
	return normal
}

// checkMoments requires that the moments of each worktree follow one another without a
// hole that is not said, and that each turn has the stretches that its record says.
func (b *bench) checkMoments(s *cas.Store) {
	b.Helper()
	ctx := context.Background()
	for wt := range worktreesIn(ctx, b.T, s) {
		rs := history.NewRecords(s, wt, slog.New(slog.DiscardHandler))
		newest, err := rs.Newest(cas.AnySession)
		if err != nil {
			b.Error(err)
			return
		}
		b.checkMomentsOf(rs, newest)
	}
}

func (b *bench) checkMomentsOf(rs *history.Records, newest *history.Record) {
	b.Helper()
	stretches := make(map[*history.Record][]history.Stretch) // newest first
	var newer *moments.Moment
	hasHole := false
	for m, err := range moments.Back(context.Background(), rs, newest, 0, nil) {
		if err != nil {
			b.Error(err)
			return
		}
		hasHole = hasHole || m.IsHole || m.Kind == moments.Pruned || m.Kind == moments.Unknown
		if m.State.IsZero() {
			continue
		}
		if newer != nil && newer.From != m.State {
			b.Errorf("the moment of record %d begins with %v, the one before ended with %v", newer.Seq(), newer.From,
				m.State)
		}
		if m.IsHole && newer != nil && newer.Record == m.Record && !newer.IsHole {
			b.checkBehindHole(newer)
		}
		newer = m
		for _, w := range m.Who {
			if w.Record != nil {
				list := stretches[w.Record]
				stretches[w.Record] = append(list, history.Stretch{From: m.From, To: m.State,
					Contested: m.Kind == moments.Contested})
			}
		}
	}
	if newer != nil && !newer.From.IsZero() {
		b.Errorf("the first moment, of record %d, begins with %v", newer.Seq(), newer.From)
	}
	if hasHole {
		return
	}
	for r, list := range stretches {
		slices.Reverse(list)
		got, want := windows.Join(list), r.Stretches()
		if r.Kind == history.KindStep && !slices.Equal(got, want) {
			b.Errorf("turn %d of %s, record %d: its moments are %v, its record has %v", r.Turn(), r.Session, r.Seq,
				got, want)
		}
	}
}

// checkBehindHole requires that what a turn's record has of the time before a hole is the
// turn's, or contested.
func (b *bench) checkBehindHole(m *moments.Moment) {
	b.Helper()
	r := m.Record
	isIn := func(s history.Stretch) bool { return s.From == m.From && s.To == m.State }
	isOwn := func(w *moments.Who) bool { return w.Record == r }
	if r.IsTurn() && slices.ContainsFunc(r.Stretches(), isIn) && !slices.ContainsFunc(m.Who, isOwn) {
		b.Errorf("turn %d of %s, record %d: behind a hole its own change is %s", r.Turn(), r.Session, r.Seq, m.Kind)
	}
}

func worktreesIn(ctx context.Context, t *testing.T, s *cas.Store) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	for snap, err := range s.Snapshots(ctx) {
		if err != nil {
			t.Error(err)
			return nil
		}
		if !history.IsEdit(snap) {
			found[snap.Worktree] = true
		}
	}
	return found
}

// entryAt returns what a state has at a path.
func (m *FileSnapshotManager) entryAt(t *testing.T, s store.State, path string) (*tree.Entry, error) {
	t.Helper()
	return trees.EntryAt(t.Context(), m.store, s.Tree, path)
}

// sameAsPreview restores, and requires that a preview right before said so.
func (b *bench) sameAsPreview(m *FileSnapshotManager, opts RestoreOptions) *RestoreResult {
	b.Helper()
	opts.Preview = true
	preview := b.restore(m, &opts)
	opts.Preview = false
	done := b.restore(m, &opts)
	lists := func(r *RestoreResult) [][]string {
		return [][]string{r.Restored, r.Deleted, r.Skipped, r.Dirty, r.Made, r.Kept, r.Failed, r.NotCaptured}
	}
	if d := cmp.Diff(lists(preview), lists(done)); d != "" {
		b.Errorf("(-preview +done):\n%s", d)
	}
	return done
}
