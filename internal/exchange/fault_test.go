package exchange

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/remote/remotetest"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

// withFault calls fn with the store of the directory on a disk that fails.
func (m *machine) withFault(fault *vfstest.Fault, fn func(*cas.Store, *places.Location) error) error {
	loc, err := places.Locate(m.stores(), m.dir)
	if err != nil {
		return err
	}
	s, err := cas.OpenFS(m.t.Context(), vfstest.WithFault(vfs.OS(loc.Dir), fault), &cas.Options{Root: loc.Project.Main})
	if err != nil {
		return err
	}
	return errors.Join(fn(s, loc), s.Close())
}

// TestStoreFaults has the disk of the store fail, or be full, at operations of pushes, clones, fetches and evictions.
// What they say is so: who was told that it was done has it done, and else it can be done again. Neither the store
// nor the remote is damaged, and nothing is lost.
func TestStoreFaults(t *testing.T) {
	testseed.Sequential(t)
	rng := rand.New(rand.NewPCG(3, 3))
	a, mem := hasLeft(t)
	pushed := mem.Objects()
	evicted := a.copyOf()
	if _, err := evicted.evict(mem); err != nil {
		t.Fatal(err)
	}
	afterEvict := mem.Objects()
	a.turn("s1", "not pushed", func() { a.write("big0", raw(rng, 5<<20)) })
	empty := func() *machine { return hasAdded(t) }
	clone := func(lazy bool) faultyRun {
		return func(ctx context.Context, s *cas.Store, loc *places.Location, repo *lines.Repo) (bool, error) {
			f, err := Fetch(ctx, repo, nil)
			if err != nil {
				return false, err
			}
			goOn, _ := f.Newest()
			r, err := (&Importer{Store: s, Repo: repo, Name: "team", Worktree: loc.Project.Worktree,
				Root: loc.Project.Root, Lazy: lazy}).Import(ctx, f, goOn)
			return err == nil && r.Records == 0, err
		}
	}
	for _, sc := range []struct {
		name    string
		machine func() *machine
		there   map[string][]byte
		run     faultyRun
	}{
		{"push", a.copyOf, pushed,
			func(ctx context.Context, s *cas.Store, _ *places.Location, repo *lines.Repo) (bool, error) {
				r, err := (&Pusher{Store: s, Repo: repo, Name: "team"}).Push(ctx)
				return err == nil && r.Records == 0, err
			}},
		{"clone", empty, pushed, clone(false)},
		{"lazy clone", empty, pushed, clone(true)},
		{"fetch", evicted.copyOf, afterEvict,
			func(ctx context.Context, s *cas.Store, _ *places.Location, _ *lines.Repo) (bool, error) {
				n, err := FetchAll(ctx, s, "team")
				return n == 0, err
			}},
		{"evict", a.copyOf, pushed,
			func(ctx context.Context, s *cas.Store, _ *places.Location, repo *lines.Repo) (bool, error) {
				r, err := evict(ctx, s, repo, "team", false, time.Second)
				return err == nil && r.Objects == 0, err
			}},
	} {
		t.Run(sc.name, func(t *testing.T) {
			count := &vfstest.Fault{At: -1}
			faultOnce(t, sc.machine(), memOf(t, sc.there), count, sc.run)
			step := max(count.Count()/3, 1)
			if *everyByte {
				step = 1
			}
			for at := step / 2; at < count.Count(); at += step {
				full := &vfstest.Fault{At: at, Sticky: true, Err: syscall.ENOSPC}
				faultOnce(t, sc.machine(), memOf(t, sc.there), full, sc.run)
				faultOnce(t, sc.machine(), memOf(t, sc.there), &vfstest.Fault{At: at, Err: syscall.EIO}, sc.run)
			}
		})
	}
}

// hasAdded returns a machine that knows the remote, and has nothing.
func hasAdded(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	if err := m.withStore(func(s *cas.Store, _ *places.Location) error {
		return Add(t.Context(), s.FS(), &Config{Name: "team"})
	}); err != nil {
		t.Fatal(err)
	}
	return m
}

// A faultyRun does something, and reports whether it had been done before.
type faultyRun func(context.Context, *cas.Store, *places.Location, *lines.Repo) (before bool, err error)

// faultOnce does something on a disk that fails, and then on one that does not.
func faultOnce(t *testing.T, m *machine, mem *remotetest.Mem, fault *vfstest.Fault, run faultyRun) {
	t.Helper()
	ctx := fetching(t, mem)
	do := func(s *cas.Store, loc *places.Location) (bool, error) {
		repo, err := openRepo(ctx, mem)
		if err != nil {
			return false, err
		}
		return run(ctx, s, loc, repo)
	}
	done := false
	err := m.withFault(fault, func(s *cas.Store, loc *places.Location) error {
		_, err := do(s, loc)
		done = err == nil
		return err
	})
	if err != nil && !fault.Fired() {
		t.Errorf("without a fault: %v", err)
	}
	if err != nil && fault.Err != nil && !errors.Is(err, fault.Err) && !errors.Is(err, vfstest.ErrInjected) &&
		!cas.IsPromised(err) && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("operation %d fails with %v: it says %v", fault.At, fault.Err, err)
	}
	if _, ok := errors.AsType[*lines.DamageError](err); ok {
		t.Errorf("operation %d fails with %v: the remote is said to be damaged: %v", fault.At, fault.Err, err)
	}
	m.check()
	err = m.withStore(func(s *cas.Store, loc *places.Location) error {
		before, err := do(s, loc)
		if err == nil && done && !before {
			t.Errorf("operation %d fails with %v: it was said to be done, and was not", fault.At, fault.Err)
		}
		return err
	})
	if err == nil {
		err = m.readAll(ctx)
	}
	if err != nil {
		t.Errorf("operation %d failed with %v; done again: %v", fault.At, fault.Err, err)
	}
	checkRemote(t, m, mem)
}

// TestCloneCut stops a clone at each of its requests. It says so, and the directory is as it was; then it is done in
// the same directory, with the same store.
func TestCloneCut(t *testing.T) {
	testseed.Sequential(t)
	setSizes(t, 4<<10, 100<<10)
	rng := rand.New(rand.NewPCG(4, 4))
	a, mem := newMachine(t), remotetest.NewMem()
	a.live(rng, 6, "s1", "s2")
	a.turn("s1", "", func() {
		for i := range 30 {
			a.write(fmt.Sprintf("many/%d/f", i), raw(rng, 20<<10))
		}
		a.write("big", raw(rng, 5<<18))
	})
	a.mustPush(mem)
	files := a.files()
	for _, session := range []string{"gone1", "gone2"} { // a ledger of several objects, which a clone keeps copies of
		a.turn(session, "", func() { a.write(session, session) })
		a.mustPush(mem)
		if r, err := prune(t, mem, &PruneOptions{Sessions: []string{session}}, nil); err != nil || r.Lines != 1 {
			t.Fatalf("prune of %s: %+v, %v", session, r, err)
		}
	}
	cut := 0
	for stop := 1; ; stop++ {
		b := hasAdded(t)
		faulty := remotetest.NewFaulty(mem, 1)
		faulty.Stop = stop
		_, err := b.clone(faulty, nil) // which looks at the directory
		if err != nil && !errors.Is(err, remotetest.ErrKilled) {
			t.Fatalf("request %d: %v", stop, err)
		}
		if err != nil {
			cut++
			b.mustClone(mem, nil)
		}
		sameHistory(t, a, b, "s1", "s2")
		if !maps.Equal(files, b.files()) {
			t.Errorf("request %d: the files are others", stop)
		}
		if err == nil {
			break
		}
	}
	if cut < 10 {
		t.Errorf("a clone of %d requests", cut)
	}
}

// TestPushGoesOn stops a first push at each of its requests. The next one puts no pack again that is there.
func TestPushGoesOn(t *testing.T) {
	setSizes(t, 4<<10, 100<<10)
	rng := rand.New(rand.NewPCG(6, 6))
	a := newMachine(t)
	a.turn("s1", "", func() {
		for i := range 30 {
			a.write(fmt.Sprintf("many/%d/f", i), raw(rng, 20<<10))
		}
	})
	for stop := 1; ; stop++ {
		b, mem := a.copyOf(), remotetest.NewMem()
		if _, err := openRepo(t.Context(), mem); err != nil {
			t.Fatal(err)
		}
		faulty := remotetest.NewFaulty(mem, 1)
		faulty.Stop, faulty.Done = stop, stop%2 == 0
		_, err := b.push(faulty)
		if err != nil && !errors.Is(err, remotetest.ErrKilled) {
			t.Fatal(err)
		}
		done := err == nil
		before := mem.Objects()
		r := b.mustPush(mem)
		if done && r.Records > 0 {
			t.Errorf("the push has ended, and the next has put %d records", r.Records)
		}
		repo, err := openRepo(t.Context(), mem)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Fetch(t.Context(), repo, nil)
		if err != nil {
			t.Fatal(err)
		}
		named := make(map[string]bool)
		for _, l := range f.Lines {
			for _, e := range l.Entries {
				for _, ref := range e.Packs {
					named[ref.Key()] = true
				}
			}
		}
		for key := range before {
			if strings.HasPrefix(key, "data/") && !named[key] {
				t.Errorf("request %d: pack %s was there, and was put again", stop, key)
			}
		}
		if done {
			if len(named) < 3 {
				t.Errorf("%d packs", len(named))
			}
			break
		}
	}
}
