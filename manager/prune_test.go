package manager

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/health"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/retain"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/session"
	"github.com/boocode/filestore/store"
)

// prune plans and prunes, and returns the numbers of the snapshots that went.
func (b *bench) prune(s *cas.Store, keep *retain.Retention) []uint64 {
	b.Helper()
	keep.Wait = 50 * time.Millisecond
	plan, err := retain.PlanPrune(b.Context(), s, keep)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := plan.Do(b.Context()); err != nil {
		b.Fatal(err)
	}
	return plan.Dropped
}

// seqs returns the numbers of snapshots of a session that are kept, or that are
// not, oldest first.
func seqs(t *testing.T, s *cas.Store, session string, pruned bool) (list []uint64) {
	t.Helper()
	for snap, err := range s.Snapshots(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if snap.Session == session && snap.Pruned == pruned {
			list = append(list, snap.Seq)
		}
	}
	slices.Reverse(list)
	return list
}

func TestPruneKeepLast(t *testing.T) {
	b := newBench(t)
	one, two := b.open("one"), b.open("two")
	b.initialize(one) // 1
	for i := range 5 {
		b.turn(one, func() { b.write("a", noise(100<<10, uint64(i))) }) // 2 to 6
	}
	b.initialize(two)                           // 7
	b.turn(two, func() { b.write("b", "two") }) // 8
	s := one.store
	if got := b.prune(s, &retain.Retention{}); got != nil {
		t.Errorf("no rule drops %v", got)
	}
	if got, want := b.prune(s, &retain.Retention{KeepLast: 2}), []uint64{1, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("dropped %v, want %v", got, want)
	}
	for i, want := range []uint64{5, 6} {
		if got := seqs(t, s, "one", false); got[i] != want {
			t.Errorf("kept %v", got)
		}
	}

	// The line of turns is whole; what is kept comes back.
	var list []string
	for mo, err := range one.Timeline(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%s %d %v", mo.Kind, mo.TurnIndex, mo.Snapshot.Pruned))
	}
	if want := []string{"step 4 false", "step 3 false", "step 2 true", "step 1 true", "step 0 true",
		"start -1 true"}; !slices.Equal(list, want) {
		t.Errorf("timeline %q, want %q", list, want)
	}
	b.restore(one, &RestoreOptions{Target: "turn:3"})
	b.holds("a", noise(100<<10, 3))
	if _, err := one.RestoreFiles(t.Context(), &RestoreOptions{Target: "turn:1"}); !errors.Is(err, store.ErrPruned) {
		t.Errorf("restore of a pruned turn: %v, want ErrPruned", err)
	}
	b.holds("a", noise(100<<10, 3))
	if _, err := one.ModifiedFiles(t.Context(), &Range{From: "start", To: "turn:3"}); !errors.Is(err, store.ErrPruned) {
		t.Errorf("ModifiedFiles of pruned turns: %v, want ErrPruned", err)
	}
	if r, err := one.Undo(t.Context(), &UndoOptions{}); err != nil || len(r.Restored) != 1 {
		t.Errorf("undo: %+v, %v", r, err)
	}
	b.holds("a", noise(100<<10, 4))
	b.turn(one, func() { b.write("a", "more") })
	b.turn(two, func() { b.write("b", "more") })
}

// A restore cannot be taken back any more once what was there before it was pruned, and
// nothing is changed then.
func TestUndoPruned(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("a", "one") })
	b.turn(m, func() { b.write("a", "two") })
	b.restore(m, &RestoreOptions{Target: "@~1"})
	for i := range 3 {
		b.turn(m, func() { b.write("b", fmt.Sprint(i)) })
	}
	b.prune(m.store, &retain.Retention{KeepLast: 1})
	for _, past := range []bool{false, true} {
		_, err := m.Undo(t.Context(), &UndoOptions{Past: past})
		if !errors.Is(err, store.ErrPruned) || !strings.Contains(err.Error(), "undo: the restore of 2") {
			t.Errorf("past %v: %v", past, err)
		}
	}
	b.holds("a", "one")
	b.holds("b", "2")
}

func (b *bench) holds(name, want string) {
	b.Helper()
	got, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil || string(got) != want {
		b.Errorf("%s: %.20q, %v; want %.20q", name, got, err, want)
	}
}

// What an open turn builds on stays, in all sessions of the directory.
func TestPruneOpenTurn(t *testing.T) {
	b := newBench(t)
	one, two := b.open("one"), b.open("two")
	b.initialize(one)
	b.turn(one, func() { b.write("a", noise(50<<10, 1)) })
	b.initialize(two)
	b.start(two)
	b.write("b", noise(50<<10, 2))
	for i := range 3 {
		b.turn(one, func() { b.write("a", noise(50<<10, uint64(10+i))) })
	}
	s := one.store
	if got, want := b.prune(s, &retain.Retention{KeepLast: 1}), []uint64{1, 2}; !slices.Equal(got, want) {
		t.Errorf("dropped %v, want %v: the others came while a turn was open", got, want)
	}
	b.end(two)
	if got := brief(b.modified(two, &Range{From: "start"})); got["b"] == "" {
		t.Errorf("modified %v", got)
	}
	b.prune(s, &retain.Retention{KeepLast: 1})
	if got := seqs(t, s, "one", false); len(got) != 1 {
		t.Errorf("kept %v", got)
	}
}

// Over the limit of bytes the oldest go, those with a name last, the newest of
// all never.
func TestPruneMaxBytes(t *testing.T) {
	vfstest.NeedGone(t)
	b := newBench(t)
	m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		b.write("a", noise(200<<10, uint64(i)))
		label := ""
		if i == 1 {
			label = "name"
		}
		if _, err := m.Snapshot(t.Context(), &SnapshotOptions{Label: label}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Close(); err != nil { // its pack would stay
		t.Fatal(err)
	}
	m = b.open("s")
	s := m.store
	const limit = 1400 << 10 // with the ballast
	b.prune(s, &retain.Retention{MaxBytes: limit})
	u, err := s.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if u.Total() > limit || u.Total() < limit/3 {
		t.Errorf("the store has %d bytes, may have %d", u.Total(), limit)
	}
	kept := seqs(t, s, "s", false)
	if !slices.Contains(kept, 2) || kept[len(kept)-1] != 8 || len(kept) < 3 {
		t.Errorf("kept %v, want 2, which has a name, and the newest", kept)
	}
	plan, err := retain.PlanPrune(t.Context(), s, &retain.Retention{MaxBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if plan.Kept != 1 || plan.Over < 200<<10 {
		t.Errorf("%d kept, %d bytes over; want the newest, and that said", plan.Kept, plan.Over)
	}
}

// Sessions whose directory or log was deleted go when they are old enough; not
// those on a disk that is not there.
func TestPruneDeleted(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("a", "b") })
	s := m.store
	other := filepath.Join(t.TempDir(), "disk")
	for name, test := range map[string]struct {
		root, log string
		goes      bool
	}{
		"directory": {filepath.Join(filepath.Dir(b.dir), "gone"), "", true},
		"log":       {b.dir, filepath.Join(b.dir, "gone.jsonl"), true},
		"unmounted": {filepath.Join(other, "gone"), filepath.Join(other, "gone", "log"), false},
		"here":      {b.dir, "", false},
	} {
		w, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		empty, err := trees.Put(w, nil)
		if err != nil {
			t.Fatal(err)
		}
		snap := &store.Snapshot{Worktree: name, Root: test.root, Log: test.log, Session: name, Kind: history.KindStart,
			Time: time.Now().Add(-48 * time.Hour), Tree: empty}
		if err := w.Commit(t.Context(), snap, 0); err != nil {
			t.Fatal(err)
		}
		older := *snap
		older.Seq, older.Parent = 0, snap.Seq
		if err := w.Commit(t.Context(), &older, snap.Seq); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := b.prune(s, &retain.Retention{KeepDeleted: 72 * time.Hour}); got != nil {
		t.Errorf("dropped %v, which were not old enough", got)
	}
	b.prune(s, &retain.Retention{KeepDeleted: 24 * time.Hour})
	got := make(map[string]int)
	for _, name := range []string{"directory", "log", "unmounted", "here"} {
		got[name] = len(seqs(t, s, name, false))
	}
	// The newest of a directory that is there stays, whosever it is.
	if want := map[string]int{"directory": 0, "log": 1, "unmounted": 2, "here": 2}; !cmp.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
}

// A store prunes itself once a day, as the file beside it says.
func TestAutoPrune(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	for i := range 4 {
		b.turn(m, func() { b.write("a", noise(50<<10, uint64(i))) })
	}
	dir := m.StoreDir()
	conf := filepath.Join(filepath.Dir(dir), "retention.json")
	if r, err := retain.AutoPrune(t.Context(), dir, nil); r != nil || err != nil || retain.IsPruneDue(dir) {
		t.Errorf("a new store was pruned: %+v, %v", r, err)
	}
	old := time.Now().Add(-25 * time.Hour)
	set := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(conf, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	set("FORMAT", `{"auto": false, "keepLast": 1, "keepWithinDays": 0}`)
	if r, err := retain.AutoPrune(t.Context(), dir, nil); r != nil || err != nil {
		t.Errorf("pruned though it is off: %+v, %v", r, err)
	}
	set("locks/autoprune", `{"keepLast": 1, "keepWithinDays": 0`)
	if _, err := retain.AutoPrune(t.Context(), dir, nil); err == nil || !strings.Contains(err.Error(), conf) {
		t.Errorf("a file that is no JSON: %v", err)
	}
	set("locks/autoprune", `{"keepLast": 1, "keepWithinDays": 0}`)
	if r, err := retain.AutoPrune(t.Context(), dir, nil); err != nil || r == nil || r.Dropped != 4 {
		t.Errorf("%+v, %v; want 4 dropped", r, err)
	}
	if retain.IsPruneDue(dir) {
		t.Error("it is due again at once")
	}
}

// On a full disk a prune takes what is wholly dead first, and writes the rest anew in
// the room that came of it, but for more than it may.
func TestPruneInSteps(t *testing.T) {
	t.Parallel()
	testseed.Sequential(t)
	for _, most := range []int64{0, 1 << 20} {
		b := newBench(t)
		disk := vfstest.NewMem()
		disk.SetSize(40 << 20)
		m, err := openOn(t, b.dir, disk)
		if err != nil {
			t.Fatal(err)
		}
		snapshot := func() {
			t.Helper()
			if _, err := m.Snapshot(t.Context(), &SnapshotOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		b.write("goes", noise(10<<20, 1)) // a pack of its own
		snapshot()
		b.write("stays", noise(3<<20, 2)) // with what goes
		b.write("goes", noise(9<<20, 3))
		snapshot()
		b.remove("goes")
		snapshot()
		b.write("a", "a")
		snapshot()
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		s, err := cas.OpenFS(t.Context(), disk, &cas.Options{})
		if err != nil {
			t.Fatal(err)
		}
		free, _, err := disk.Space()
		if err != nil {
			t.Fatal(err)
		}
		f, err := disk.OpenFile("taken", os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(free); err != nil {
			t.Fatal(err)
		}
		plan, err := retain.PlanPrune(t.Context(), s, &retain.Retention{KeepLast: 1, MaxCopy: most, Alone: true})
		if err != nil {
			t.Fatal(err)
		}
		if plan.Free < 9<<20 || plan.Free > 11<<20 || plan.Copy > 1<<20 || !plan.Short {
			t.Errorf("plan on a full disk: %+v; want the pack that is wholly dead", plan.PrunePlan)
		}
		r, err := plan.Do(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if all := r.Freed > 18<<20; all != (most == 0) || r.Copied > 4<<20 || all != (plan.Left < 1<<20) {
			t.Errorf("at most %d bytes written anew: %+v, %d left", most, r, plan.Left)
		}
		if now, _, _ := disk.Space(); now < r.Freed-1<<20 {
			t.Errorf("%d bytes are free, %d were freed", now, r.Freed)
		}
		b.check(s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// With little room left no turn is captured, but restores go on.
func TestMinFree(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	b.turn(m, func() { b.write("a", "one") })
	b.turn(m, func() { b.write("a", "two") })
	m.opts.MinFree = 1 << 60
	// What is wrong is told in full once, and in one line from then on, to whoever
	// asks, until it is mended.
	refused := func(m *FileSnapshotManager, again bool) {
		t.Helper()
		_, err := m.OnTurnStart(t.Context(), nil)
		told, ok := errors.AsType[*health.NotRecordedError](err)
		if !errors.Is(err, store.ErrNoSpace) || ok != again {
			t.Fatalf("OnTurnStart: %v, want ErrNoSpace, told again: %v", err, again)
		}
		if again && (time.Since(told.Since) > time.Hour ||
			!strings.Contains(err.Error(), "nothing is recorded since 2") ||
			strings.Contains(err.Error(), m.StoreDir())) {
			t.Errorf("told again: %v", err)
		}
		if full := strings.Contains(err.Error(), m.StoreDir()); full == again {
			t.Errorf("told in full: %v, for %v", full, err)
		}
	}
	refused(m, false)
	refused(m, true)
	other := b.open("other", func(o *Options) { o.MinFree = 1 << 60 })
	refused(other, true)
	if _, err := other.OnToolStart(t.Context(), "x"); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("OnToolStart: %v", err)
	}
	m.opts.MinFree = -1
	b.initialize(m)
	m.opts.MinFree = 1 << 60
	refused(m, false)
	b.restore(m, &RestoreOptions{Target: "turn:0"})
	b.holds("a", "one")
	m.opts.MinFree = -1
	b.turn(m, func() { b.write("a", "three") })
}

// A session whose log names turns that were pruned can go on, be forked and be
// told of entries.
func TestPruneForks(t *testing.T) {
	b := newBench(t)
	b.log = session.NewTree()
	parent := b.reopen("parent")
	b.initialize(parent)
	for i := range 4 {
		b.message("user")
		b.turn(parent, func() { b.write("a", noise(50<<10, uint64(i))) })
	}
	b.message("user")
	b.start(parent)
	b.write("a", "untold")
	r, offers, err := parent.EndTurn(t.Context())
	if err != nil || len(offers) != 1 {
		t.Fatal(r, offers, err)
	}
	b.append(offers[0]) // and the runtime dies before it says so
	old := b.reopen("oldfork")
	b.initialize(old)
	b.turn(old, func() { b.write("a", "forked") })

	b.prune(parent.store, &retain.Retention{Session: "parent", DropSession: true})
	for _, id := range []string{"oldfork", "newfork", "parent"} {
		m := b.reopen(id)
		b.initialize(m)
		b.turn(m, func() { b.write("a", id) })
		b.turn(m, func() { b.write("a", "last") })
		b.restore(m, &RestoreOptions{Target: "@~"})
		b.holds("a", id)
	}
	parent = b.reopen("parent")
	if err := parent.Told(t.Context(), offers[0].SnapshotSeq, "another"); err != nil {
		t.Errorf("Told of what was pruned: %v", err)
	}
}

// A session, and a directory, of which nothing was kept begin anew.
func TestPruneBeginAnew(t *testing.T) {
	b := newBench(t)
	one, two := b.open("one"), b.open("two")
	b.initialize(one)
	b.turn(one, func() { b.write("a", "one") })
	b.initialize(two)
	b.turn(two, func() { b.write("a", "two") })
	s := one.store
	b.prune(s, &retain.Retention{Session: "one", DropSession: true})
	if got := seqs(t, s, "one", false); got != nil {
		t.Errorf("kept %v", got)
	}
	b.turn(one, func() { b.write("a", "three") })
	b.turn(one, func() { b.write("a", "four") })
	b.restore(one, &RestoreOptions{Target: "@~"})
	b.holds("a", "three")

	aside := filepath.Join(t.TempDir(), "aside")
	if err := os.Rename(b.dir, aside); err != nil {
		t.Fatal(err)
	}
	// no empty mount point
	if err := os.WriteFile(filepath.Join(filepath.Dir(b.dir), "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Millisecond)
	b.prune(s, &retain.Retention{KeepDeleted: time.Millisecond})
	if got := append(seqs(t, s, "one", false), seqs(t, s, "two", false)...); got != nil {
		t.Errorf("kept %v of a directory that was deleted", got)
	}
	if err := os.Rename(aside, b.dir); err != nil {
		t.Fatal(err)
	}
	b.turn(two, func() { b.write("a", "five") })
	b.turn(two, func() { b.write("a", "six") })
	b.restore(two, &RestoreOptions{Target: "@~"})
	b.holds("a", "five")
	three := b.open("three")
	b.initialize(three)
}

// Between two snapshots of a session those of others were dropped: whose the
// changes there were is not known any more.
func TestPruneBetween(t *testing.T) {
	b := newBench(t)
	one, two := b.open("one"), b.open("two")
	b.initialize(one)
	b.turn(one, func() { b.write("a", "one") })
	b.initialize(two)
	b.turn(two, func() { b.write("a", "two"); b.write("b", "two") })
	b.turn(one, func() { b.write("c", "one") })
	b.turn(two, func() { b.write("a", "three") })
	b.write("b", "user")
	b.initialize(b.open("three"))
	b.prune(one.store, &retain.Retention{Session: "two", DropSession: true})
	b.initialize(one)
	want := map[string]string{"a": "modified contested", "b": "added contested", "c": "added turn"}
	if got := brief(b.modified(one, &Range{From: "turn:0", Foreign: true})); !maps.Equal(got, want) {
		t.Errorf("modified %v, want %v", got, want)
	}
	b.turn(one, func() { b.write("a", "four") })
	b.restore(one, &RestoreOptions{Target: "@~"})
	b.holds("a", "three")
}

// What is kept restores by path, although nothing that is kept says what the
// session left there last: that is a doubt, not an error.
func TestPrunePaths(t *testing.T) {
	b := newBench(t)
	b.git("ignored\n")
	b.write("ignored", "")
	b.write("README", "old")
	m := b.open("s")
	b.initialize(m)
	for i := range 5 {
		b.turn(m, func() { b.write("f", fmt.Sprint(i)) })
	}
	b.prune(m.store, &retain.Retention{KeepLast: 2})
	b.write("README", "edited")
	r := b.restore(m, &RestoreOptions{Target: "@~", Paths: []string{"README"}})
	if !slices.Equal(r.Dirty, []string{"README"}) {
		t.Errorf("%+v, want README dirty", r)
	}
	b.restore(m, &RestoreOptions{Target: "@~", Paths: []string{"README"}, OnDirty: rollback.Overwrite})
	b.holds("README", "old")
	// To a turn that was pruned, over turns that were not.
	b.restore(m, &RestoreOptions{Target: "turn:2"})
	b.holds("f", "2")
}

// A prune that gave up leaves nothing behind in managers that stay.
func TestPruneWithdrawn(t *testing.T) {
	b := newBench(t)
	m, err := Open(t.Context(), b.dir, &Options{StoreRoot: b.stores, Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	b.initialize(m)
	for i := range 3 {
		b.turn(m, func() { b.write("a", noise(50<<10, uint64(i))) })
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = b.open("s")
	other, err := cas.Open(t.Context(), m.StoreDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	w, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := retain.PlanPrune(t.Context(), other, &retain.Retention{KeepLast: 1, Wait: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	before, err := m.store.Epoch()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := plan.Do(t.Context())
		done <- err
	}()
	for now := before; now == before; time.Sleep(time.Millisecond) {
		if now, err = m.store.Epoch(); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := m.Resolve(t.Context(), "start"); err != nil || !p.Snapshot.Pruned {
		t.Errorf("while it waits: %+v, %v; want it pruned", p, err)
	}
	if err := <-done; !errors.Is(err, cas.ErrBusy) {
		t.Fatalf("prune: %v, want ErrBusy", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if p, err := m.Resolve(t.Context(), "start"); err != nil || p.Snapshot.Pruned {
		t.Errorf("after it: %+v, %v", p, err)
	}
	b.restore(m, &RestoreOptions{Target: "turn:0"})
	b.holds("a", noise(50<<10, 0))
}

// A prune that another was faster than plans again.
func TestPruneBesideAnother(t *testing.T) {
	b := newBench(t)
	m := b.open("s")
	b.initialize(m)
	for _, text := range []string{"one", "two", "three", "four"} {
		b.turn(m, func() { b.write("f", text) })
	}
	first, err := retain.PlanPrune(t.Context(), m.store, &retain.Retention{KeepLast: 2})
	if err != nil {
		t.Fatal(err)
	}
	second, err := retain.PlanPrune(t.Context(), m.store, &retain.Retention{KeepLast: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	dropped := len(first.Dropped)
	r, err := second.Do(t.Context())
	if err != nil || r.Dropped == 0 || r.Dropped >= len(second.Dropped)+dropped || r.Dropped != len(second.Dropped) {
		t.Errorf("second.Do = %+v, %v; the plan has %d", r, err, len(second.Dropped))
	}
}
