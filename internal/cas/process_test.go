package cas

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// childEnv makes the test binary a process that commits to a store: its
// arguments are the directory, the session and the number of commits. It
// prints a line for each commit that was reported done.
const childEnv = "STORE_TEST_CHILD"

func child() int {
	dir, name := os.Args[1], os.Args[2]
	n, err := strconv.Atoi(os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if os.Getenv(childEnv) == "small packs" {
		pack.SealSizeMax, pack.SealSizeIdle, journal.SegmentSize = 96<<10, 32<<10, 2<<10
	}
	ctx := context.Background()
	s, err := Open(ctx, dir, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r := rand.New(rand.NewPCG(uint64(os.Getpid()), 0))
	for i := range n {
		blobs := [][]byte{fmt.Appendf(nil, "%d of process %d", i, os.Getpid()), fmt.Append(nil, "shared ", i%7)}
		for range r.IntN(3) {
			blobs = append(blobs, random(1+r.IntN(8<<10), byte(r.IntN(256))))
		}
		a, err := tryCommit(ctx, s, name, blobs...)
		for errors.Is(err, ErrMoved) {
			a, err = tryCommit(ctx, s, name, blobs...)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		line := fmt.Sprint(a.session, " ", a.seq)
		for _, id := range a.ids {
			line += " " + id.String()
		}
		fmt.Println(line)
	}
	if err := s.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A process is a child that runs.
type process struct {
	cmd    *exec.Cmd
	stderr strings.Builder
	acks   []acked // once finished
	first  chan struct{}
	done   chan struct{}
}

func start(t *testing.T, mode, dir, session string, n int) *process {
	t.Helper()
	p := &process{first: make(chan struct{}), done: make(chan struct{})}
	p.cmd = exec.CommandContext(t.Context(), os.Args[0], dir, session, fmt.Sprint(n))
	p.cmd.Env = append(os.Environ(), childEnv+"="+mode)
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		var once sync.Once
		defer once.Do(func() { close(p.first) })
		r := bufio.NewReader(out)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				if err != io.EOF {
					t.Error(err)
				}
				return // a line that was cut was not printed whole: no ack
			}
			once.Do(func() { close(p.first) })
			p.acks = append(p.acks, parseAck(t, line))
		}
	}()
	return p
}

func parseAck(t *testing.T, line string) (a acked) {
	words := strings.Fields(line)
	a.session = words[0]
	var err error
	if a.seq, err = strconv.ParseUint(words[1], 10, 64); err != nil {
		t.Error(err)
	}
	for _, w := range words[2:] {
		id, err := store.ParseID(w)
		if err != nil {
			t.Error(err)
		}
		a.ids = append(a.ids, id)
	}
	return a
}

// wait waits for the process and returns what it was told.
func (p *process) wait() ([]acked, error) {
	<-p.done
	if err := p.cmd.Wait(); err != nil {
		return p.acks, fmt.Errorf("%w: %s", err, p.stderr.String())
	}
	return p.acks, nil
}

// Ten processes create a store and commit to it at the same time, five of
// them in one session.
func TestProcesses(t *testing.T) {
	dir := t.TempDir() + "/new/store"
	const each = 20
	var all []*process
	for i := range 10 {
		session := "same"
		if i < 5 {
			session = fmt.Sprint("own", i)
		}
		all = append(all, start(t, "commit", dir, session, each))
	}
	var acks []acked
	for i, p := range all {
		got, err := p.wait()
		if err != nil || len(got) != each {
			t.Errorf("process %d: %d commits, want %d, %v", i, len(got), each, err)
		}
		acks = append(acks, got...)
	}
	s := openMem(t, vfs.OS(dir))
	checkAcked(t, s, acks)
	snaps := snapshotsOf(t, s)
	if len(snaps) != len(acks) {
		t.Errorf("%d snapshots, want %d", len(snaps), len(acks))
	}
	last := make(map[string]uint64)
	for seq := range uint64(len(snaps) + 10) { // and up to ten records of lengths
		if snap := snaps[seq]; snap != nil {
			if snap.Parent != last[snap.Session] {
				t.Errorf("snapshot %d of session %q builds on %d, want %d", seq, snap.Session, snap.Parent,
					last[snap.Session])
			}
			last[snap.Session] = seq
		}
	}
	if n := len(names(t, vfs.OS(dir), "packs", ".pack")); n > 10 {
		t.Errorf("%d packs of 10 processes", n)
	}
}

// Processes are killed at any moment. What they were told is there, their
// locks are free, and the next ones go on.
func TestKill(t *testing.T) {
	testseed.Sequential(t)
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(testseed.Of(t), 0))
	var acks []acked
	for round := range *crashRounds {
		var all []*process
		for i := range 3 {
			all = append(all, start(t, "small packs", dir, fmt.Sprint("session", i/2), 1<<30))
		}
		for _, p := range all {
			<-p.first
		}
		time.Sleep(time.Duration(r.IntN(30_000)) * time.Microsecond)
		for _, p := range all {
			if err := p.cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
		for _, p := range all {
			got, err := p.wait()
			if _, killed := errors.AsType[*exec.ExitError](err); !killed || p.stderr.Len() > 0 {
				t.Errorf("process ended by itself: %v", err)
			}
			acks = append(acks, got...)
		}
		fsys := vfs.OS(dir)
		for _, name := range append(names(t, fsys, "packs", ".pack"), layout.JournalLock, layout.EpochLock(0)) {
			f, err := fsys.OpenFile(name, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			if ok, err := f.TryLock(vfs.Exclusive); !ok || err != nil {
				t.Errorf("%s is still locked: %v", name, err)
			}
			f.Close()
		}
		s, err := OpenFS(t.Context(), fsys, &Options{})
		if err != nil {
			t.Fatal(err)
		}
		checkClean(t, s)
		checkAcked(t, s, acks)
		for _, snap := range snapshotsOf(t, s) {
			checkBlob(t, s, snap.Tree)
		}
		acks = append(acks, commit(t, s, "after", fmt.Append(nil, "round ", round)))
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	verify(t, vfs.OS(dir), acks, 0)
}

// A command that runs for each snapshot must not leave a pack each time.
func TestManyProcessesFewPacks(t *testing.T) {
	dir := t.TempDir()
	n := min(30**crashRounds, 10_000)
	for i := range n {
		s, err := Open(t.Context(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		commit(t, s, fmt.Sprint("session ", i%10), fmt.Append(nil, "content ", i), random(100+i%1000, byte(i)))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	fsys := vfs.OS(dir)
	if got := len(names(t, fsys, "packs", ".pack")); got > 3 {
		t.Errorf("%d packs after %d commits", got, n)
	}
	if got := len(names(t, fsys, "tmp", "")); got > 0 {
		t.Errorf("%d files left in tmp", got)
	}
	s := openMem(t, fsys)
	if got := len(snapshotsOf(t, s)); got != n {
		t.Errorf("%d snapshots, want %d", got, n)
	}
}

// A file system that grants a lock to everyone must not be written to.
func TestLocksThatExcludeNobody(t *testing.T) {
	fsys := grantAll{vfstest.NewMem()}
	if _, err := OpenFS(t.Context(), fsys, &Options{}); !errors.Is(err, layout.ErrNoLocks) {
		t.Errorf("OpenFS: %v, want ErrNoLocks", err)
	}
	s, err := OpenFS(t.Context(), fsys, &Options{SingleWriter: true})
	if err != nil {
		t.Fatal(err)
	}
	checkAcked(t, s, []acked{commit(t, s, "", small, large)})
	checkClean(t, s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// What a process has found of the locks holds for the boot of the machine and the device:
// on others, and on a disk that may be mounted otherwise by now, they are tried again.
func TestLocksAreTriedAgain(t *testing.T) {
	if vfs.BootID() == "" {
		t.Skip("it is not known when the machine was booted")
	}
	for name, c := range map[string]struct {
		note   string
		remote bool
		want   error
	}{
		"as it was":      {"", false, nil},
		"a remote disk":  {"", true, layout.ErrNoLocks},
		"another device": {vfs.BootID() + " 77\n", false, layout.ErrNoLocks},
		"another boot":   {strings.Repeat("0", len(vfs.BootID())) + " 1\n", false, layout.ErrNoLocks},
		"half a note":    {vfs.BootID() + " 1", false, layout.ErrNoLocks},
	} {
		disk := vfstest.NewMem()
		openMem(t, disk)
		if c.note != "" {
			edit(t, disk, layout.ProbeLock, func([]byte) []byte { return []byte(c.note) })
		}
		s, err := OpenFS(t.Context(), grantAll{disk}, &Options{remote: c.remote})
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: OpenFS: %v, want %v", name, err, c.want)
		}
		if err == nil {
			s.Close()
		}
	}
}

// Where locks do not work any more, nobody can hold a store alone: it is read, and
// who would write to it is told why not.
func TestUseWithoutLocks(t *testing.T) {
	fsys := vfstest.NewMem()
	commit(t, openMem(t, fsys), "", small)
	if _, err := use(t.Context(), noLocks{fsys}, false); !errors.Is(err, layout.ErrNoLocks) {
		t.Errorf("use: %v, want ErrNoLocks", err)
	}
	if f, err := use(t.Context(), noLocks{fsys}, true); f != nil || err != nil {
		t.Errorf("use by a reader: %v, %v, want none", f, err)
	}
}

// noLocks is a file system without locks.
type noLocks struct{ vfs.FS }

func (n noLocks) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	f, err := n.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return unlockedFile{f}, nil
}

type unlockedFile struct{ vfs.File }

func (unlockedFile) TryLock(vfs.LockMode) (bool, error) {
	return false, &os.PathError{Op: "lock", Path: "f", Err: errors.ErrUnsupported}
}

// grantAll is a file system whose locks exclude nobody.
type grantAll struct{ vfs.FS }

func (g grantAll) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	f, err := g.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return grantedFile{f}, nil
}

type grantedFile struct{ vfs.File }

func (grantedFile) TryLock(vfs.LockMode) (bool, error) { return true, nil }

// A writer that finds the lock of an epoch free enters it only if it has not ended
// meanwhile: who has ended it waits for nobody there any more.
func TestEpochEndsBeforeLock(t *testing.T) {
	disk := vfstest.NewMem()
	fault := &vfstest.Fault{At: -1}
	s, other := openMem(t, vfstest.WithFault(disk, fault)), openMem(t, disk)
	commit(t, other, "a", []byte("a"))
	n, err := s.Epoch()
	if err != nil {
		t.Fatal(err)
	}
	ended := false
	fault.Trace = func(op, name string) {
		if op != "OpenFile" || name != layout.EpochLock(n) || ended {
			return
		}
		ended = true
		err := other.withJournal(t.Context(), func() error { return other.j.EndEpoch() })
		if err != nil {
			t.Error(err)
		}
	}
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if !ended || w.Epoch() != n+1 {
		t.Errorf("the writer is in epoch %d, want %d", w.Epoch(), n+1)
	}
}
