package cas

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// A tracer records the operations that change a disk or make it durable.
type tracer struct {
	mu    sync.Mutex
	lines []string
}

var hexName = regexp.MustCompile(`[0-9a-f]{16,}`)

func (tr *tracer) trace(op, name string) {
	switch op {
	case "WriteAt", "Sync", "SyncDir", "Rename", "TryLock", "Truncate":
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.lines = append(tr.lines, op+" "+hexName.ReplaceAllString(name, "*"))
	}
}

func (tr *tracer) take() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	lines := tr.lines
	tr.lines = nil
	return strings.Join(lines, "\n")
}

// The order of writes is the design: objects, pack synced, record under the
// lock, journal synced. What begins a file comes before the first use of it. A file
// that was renamed while it is open is told by the name that it was opened by.
func TestOrderOfOperations(t *testing.T) {
	if vfs.BootID() == "" {
		t.Skip("this system does not tell its boots apart: whoever opens a store tries its locks again")
	}
	setLimits(t, never, 4<<10, 600)
	disk := vfstest.NewMem()
	tr := new(tracer)
	s, err := OpenFS(t.Context(), vfstest.WithFault(disk, &vfstest.Fault{At: -1, Trace: tr.trace}), &Options{})
	if err != nil {
		t.Fatal(err)
	}
	step := func(name, want string) {
		t.Helper()
		if d := cmp.Diff(strings.TrimSpace(want), tr.take()); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	step("create", `
SyncDir .
WriteAt tmp/*
WriteAt tmp/*
Rename tmp/* -> tmp/*
TryLock locks/probe
TryLock locks/probe
WriteAt locks/probe
TryLock locks/journal
WriteAt tmp/*
Sync tmp/*
Rename tmp/* -> FORMAT
SyncDir .
SyncDir .`)
	commit(t, s, "", small)
	step("first commit: a segment, and then a pack", `
TryLock locks/epoch-0
TryLock locks/journal
WriteAt tmp/*
Sync tmp/*
Rename tmp/* -> journal/00000001.log
SyncDir journal
TryLock tmp/*.pack
WriteAt tmp/*.pack
Sync tmp/*.pack
Rename tmp/*.pack -> packs/*.pack
SyncDir packs
TryLock locks/journal
WriteAt journal/00000001.log
Sync journal/00000001.log`)
	commit(t, s, "", []byte("second"))
	step("second commit: two syncs", `
TryLock locks/epoch-0
WriteAt tmp/*.pack
Sync tmp/*.pack
TryLock locks/journal
WriteAt journal/00000001.log
Sync journal/00000001.log`)
	commit(t, s, "", small)
	step("a commit that adds no object: one sync", `
TryLock locks/epoch-0
TryLock locks/journal
WriteAt journal/00000001.log
Sync journal/00000001.log`)
	commit(t, s, "", large)
	s.waitSealed()
	step("a commit that fills the pack: synced before it, sealed behind it", `
TryLock locks/epoch-0
WriteAt tmp/*.pack
Sync tmp/*.pack
TryLock locks/journal
WriteAt journal/00000001.log
Sync journal/00000001.log
WriteAt tmp/*.pack
Sync tmp/*.pack
WriteAt tmp/*
Sync tmp/*
Rename tmp/* -> packs/*.idx
SyncDir packs`)
	commit(t, s, "", small)
	step("a commit that fills the segment", `
TryLock locks/epoch-0
TryLock locks/journal
WriteAt journal/00000001.log
Sync journal/00000001.log`)
	commit(t, s, "", small)
	step("a commit that begins a segment", `
TryLock locks/epoch-0
TryLock locks/journal
WriteAt tmp/*
Sync tmp/*
Rename tmp/* -> journal/00000002.log
SyncDir journal
WriteAt tmp/*.sum
Rename tmp/*.sum -> journal/00000001.sum
WriteAt journal/00000002.log
Sync journal/00000002.log`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tr.take()
	s, err = OpenFS(t.Context(), vfstest.WithFault(disk, &vfstest.Fault{At: -1, Trace: tr.trace}), &Options{})
	if err != nil {
		t.Fatal(err)
	}
	step("open: nothing is written, and the locks were tried in this boot", "")
	commit(t, s, "", small)
	step("first commit of a process: it syncs what others wrote, before it promises", `
TryLock locks/epoch-0
TryLock locks/journal
Sync journal/00000002.log
SyncDir journal
WriteAt journal/00000002.log
Sync journal/00000002.log`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	verify(t, disk.AfterCrash(nil), nil, 0)
}

// Commits that wait for one another share the syncs.
func TestGroupCommit(t *testing.T) {
	disk := vfstest.NewMem()
	tr := new(tracer)
	s := openMem(t, vfstest.WithFault(disk, &vfstest.Fault{At: -1, Trace: tr.trace}))
	commit(t, s, "", small)
	tr.take()

	// One leads and waits for the journal, the others queue behind it.
	held, err := layout.OpenLock(disk, layout.JournalLock)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := held.TryLock(vfs.Exclusive); !ok || err != nil {
		t.Fatal(ok, err)
	}
	const others = 20
	results := make(chan acked, others+1)
	start := func(i int) {
		a, err := tryCommit(t.Context(), s, fmt.Sprint(i), fmt.Append(nil, "content ", i))
		if err != nil {
			t.Error(err)
		}
		results <- a
	}
	go start(0)
	waitFor(func() bool { return strings.Contains(tr.peek(), "TryLock locks/journal") })
	for i := range others {
		go start(i + 1)
	}
	waitFor(func() bool {
		s.commits.mu.Lock()
		defer s.commits.mu.Unlock()
		return len(s.commits.queue) == others
	})
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	var acks []acked
	for range others + 1 {
		acks = append(acks, <-results)
	}
	trace := tr.take()
	for _, name := range []string{"Sync tmp/*.pack", "WriteAt journal/00000001.log", "Sync journal/00000001.log"} {
		if n := strings.Count("\n"+trace+"\n", "\n"+name+"\n"); n != 2 {
			t.Errorf("%d × %q for %d commits, want 2", n, name, others+1)
		}
	}
	verify(t, disk.AfterCrash(nil), acks, 0)
}

func (tr *tracer) peek() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return strings.Join(tr.lines, "\n")
}

// waitFor waits until a condition holds that another goroutine brings about.
func waitFor(cond func() bool) {
	for !cond() {
		time.Sleep(100 * time.Microsecond)
	}
}

// Of commits to one session that share a sync, one is recorded.
func TestGroupCommitOfOneSession(t *testing.T) {
	disk := vfstest.NewMem()
	s := openMem(t, disk)
	var batch []*commitRequest
	for range 3 {
		batch = append(batch, &commitRequest{snap: &store.Snapshot{Session: "s"}})
	}
	batch = append(batch, &commitRequest{snap: &store.Snapshot{Session: "other"}})
	if err := s.commitBatch(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint64{1, 0, 0, 2} {
		if r := batch[i]; r.snap.Seq != want || (r.err == nil) != (want != 0) {
			t.Errorf("request %d: Seq %d, %v; want Seq %d", i, r.snap.Seq, r.err, want)
		}
	}
}

// A leader whose patience ends does not take the others with it.
func TestGroupCommitLeaderGivesUp(t *testing.T) {
	disk := vfstest.NewMem()
	s := openMem(t, disk)
	held, err := layout.OpenLock(disk, layout.JournalLock)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := held.TryLock(vfs.Exclusive); !ok || err != nil {
		t.Fatal(ok, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	queued := func(n int) func() bool {
		return func() bool {
			s.commits.mu.Lock()
			defer s.commits.mu.Unlock()
			return len(s.commits.queue) == n
		}
	}
	led, followed := make(chan error), make(chan error)
	s.commits.leader.Lock()
	go func() { led <- s.commit(ctx, &commitRequest{snap: &store.Snapshot{Session: "leader"}}) }()
	waitFor(queued(1))
	go func() { followed <- s.commit(t.Context(), &commitRequest{snap: &store.Snapshot{Session: "follower"}}) }()
	waitFor(queued(2))
	s.commits.leader.Unlock() // to the one that waits longest, who takes both along
	waitFor(queued(0))
	cancel()
	if err := <-led; err == nil {
		t.Error("commit succeeded without the lock")
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-followed; err != nil {
		t.Errorf("commit behind a leader that gave up: %v", err)
	}
	all := snapshotsOf(t, s)
	if len(all) != 1 || all[1] == nil || all[1].Session != "follower" {
		t.Errorf("snapshots %v, want one of the follower", all)
	}
}

// A process that writes for long does not remember all that it wrote, and finds
// it all the same: also what a writer counts on that is still open.
func TestDropSealed(t *testing.T) {
	setLimits(t, 4<<10, 2<<10, 1<<20)
	defer func(n int) { maxObjects = n }(maxObjects)
	maxObjects = 100
	disk := vfstest.NewMem()
	s, other := openMem(t, disk), openMem(t, disk)
	otherWriter, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	otherID, err := otherWriter.Put(object.Blob, []byte("of another process, which has not sealed it"))
	if err == nil {
		err = otherWriter.Commit(t.Context(), &store.Snapshot{Tree: otherID, Session: "other"}, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	open, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.locate(otherID); err != nil {
		t.Fatal(err)
	}
	var ids []store.ID
	put := func(w *Writer, n int) {
		for range n {
			id, err := w.Put(object.Blob, fmt.Appendf(nil, "object %d", len(ids)))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
	}
	for range 20 {
		w, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		put(w, 50)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		s.waitSealed()
		put(open, 1) // to a new pack, uncommitted
		if w, err = s.Begin(t.Context()); err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := len(s.objects); n > maxObjects+100 {
			t.Fatalf("%d objects are remembered", n)
		}
		for _, id := range ids {
			if ok, err := open.Has(id); !ok || err != nil {
				t.Fatalf("Has = %v, %v", ok, err)
			}
		}
	}
	n := len(s.objects) + len(s.indexes)
	put(open, 1)
	ids = ids[:len(ids)-1]
	for i := range ids { // all are there: nothing is written
		if _, err := open.Put(object.Blob, fmt.Appendf(nil, "object %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if now := len(s.objects) + len(s.indexes); now > n+1 {
		t.Errorf("%d objects were stored again", now-n-1)
	}
	// The record names the other's pack, too: the writer may count on it.
	if unsealed := slices.Collect(maps.Values(s.scanned)); len(unsealed) != 1 || unsealed[0] <= layout.HeaderSize {
		t.Errorf("packs of others are known up to %v", unsealed)
	}
	if err := open.Commit(t.Context(), &store.Snapshot{Tree: ids[0], Session: "s"}, 0); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(open.Close(), otherWriter.Close()); err != nil {
		t.Fatal(err)
	}
	checkClean(t, s)
}

// TestFailBesideCommit: a write fails while the commit of another writer waits
// for the journal. Nobody may take up the pack meanwhile: its objects are about
// to be on record, and who took it up would seal it without them.
func TestFailBesideCommit(t *testing.T) {
	disk := vfstest.NewMem()
	full := &fullDisk{FS: disk}
	waits := make(chan struct{}, 1)
	fault := &vfstest.Fault{At: -1, Trace: func(op, name string) {
		if op == "TryLock" && name == layout.JournalLock {
			select {
			case waits <- struct{}{}:
			default:
			}
		}
	}}
	s, other := openMem(t, vfstest.WithFault(full, fault)), openMem(t, disk)
	acks := []acked{commit(t, s, "first", random(1000, 1))}
	held, err := layout.OpenLock(disk, layout.JournalLock)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := vfs.Lock(t.Context(), held, vfs.Exclusive); err != nil {
		t.Fatal(err)
	}
	for len(waits) > 0 {
		<-waits
	}
	done := make(chan error)
	go func() {
		a, err := tryCommit(t.Context(), s, "second", random(1000, 2))
		acks = append(acks, a)
		done <- err
	}()
	<-waits

	full.is.Store(true)
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i := range 20 {
		if _, err = w.Put(object.Blob, random(200<<10, byte(10+i))); err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("Put on a full disk: %v", err)
	}
	full.is.Store(false)
	third, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := third.Put(object.Blob, random(1000, 3)); err != nil {
		t.Fatal(err)
	}
	if err := held.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatalf("the commit that waited: %v", err)
	}
	if err := third.Close(); err != nil {
		t.Error(err)
	}
	checkAcked(t, s, acks)
	checkAcked(t, openMem(t, disk.AfterCrash(nil)), acks)
}

// A fullDisk may have no room for packs.
type fullDisk struct {
	vfs.FS
	is atomic.Bool
}

func (d *fullDisk) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := d.FS.OpenFile(name, flag, perm)
	if err == nil && strings.HasSuffix(name, ".pack") {
		f = fullFile{f, d}
	}
	return f, err
}

type fullFile struct {
	vfs.File
	disk *fullDisk
}

func (f fullFile) WriteAt(b []byte, off int64) (int, error) {
	if f.disk.is.Load() {
		return 0, syscall.ENOSPC
	}
	return f.File.WriteAt(b, off)
}
