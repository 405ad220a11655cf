package exchange

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/remote/remotetest"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
)

// fetching returns a context in which what was left in a remote is fetched.
func fetching(t *testing.T, b remote.Backend) context.Context {
	t.Helper()
	f := &Fetcher{Open: func(ctx context.Context, _ *Config) (*lines.Repo, error) { return openRepo(ctx, b) }}
	return cas.WithFetcher(t.Context(), f.Fetch)
}

// readAll reads all contents of all snapshots.
func (m *machine) readAll(ctx context.Context) error {
	return m.withStore(func(s *cas.Store, _ *places.Location) error {
		for snap, err := range s.Snapshots(ctx) {
			if err != nil {
				return err
			}
			if snap.Pruned {
				continue
			}
			for e, err := range trees.Walk(ctx, s, snap.Tree) {
				if err == nil && !e.Mode.IsDir() {
					_, err = s.CopyBlob(ctx, io.Discard, e.ID)
				}
				if err != nil {
					return fmt.Errorf("record %d: %w", snap.Seq, err)
				}
			}
		}
		return nil
	})
}

// evict gives up contents that a remote has.
func (m *machine) evict(b remote.Backend) (r *EvictResult, err error) {
	err = m.withStore(func(s *cas.Store, _ *places.Location) error {
		repo, err := openRepo(m.t.Context(), b)
		if err != nil {
			return err
		}
		r, err = evict(m.t.Context(), s, repo, "team", false, 10*time.Millisecond)
		return err
	})
	return r, err
}

// lazy clones what is in a remote, and leaves contents there.
func (m *machine) lazy(b remote.Backend) (r *ImportResult, err error) {
	err = m.withStore(func(s *cas.Store, loc *places.Location) error {
		repo, err := openRepo(m.t.Context(), b)
		if err != nil {
			return err
		}
		if err := Add(m.t.Context(), s.FS(), &Config{Name: "team", ID: repo.ID()}); err != nil {
			return err
		}
		f, err := Fetch(m.t.Context(), repo, nil)
		if err != nil {
			return err
		}
		goOn, _ := f.Newest()
		r, err = (&Importer{Store: s, Repo: repo, Name: "team", Worktree: loc.Project.Worktree,
			Root: loc.Project.Root, Lazy: true}).Import(m.t.Context(), f, goOn)
		return err
	})
	return r, err
}

// copyOf returns a machine with the same store and the same directory.
func (m *machine) copyOf() *machine {
	m.t.Helper()
	c := &machine{t: m.t, root: m.t.TempDir(), dir: m.dir}
	if err := os.CopyFS(c.stores(), os.DirFS(m.stores())); err != nil {
		m.t.Fatal(err)
	}
	return c
}

// memOf returns a remote with objects.
func memOf(t *testing.T, objects map[string][]byte) *remotetest.Mem {
	t.Helper()
	mem := remotetest.NewMem()
	for k, v := range objects {
		if err := mem.Create(t.Context(), k, v); err != nil {
			t.Fatal(err)
		}
	}
	return mem
}

// raw returns bytes that do not compress.
func raw(rng *rand.Rand, n int) string {
	b := make([]byte, 0, n)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, rng.Uint64())
	}
	return string(b)
}

// hasLeft returns a machine whose newest turn needs little, and whose older ones much, and the remote that has all.
func hasLeft(t *testing.T) (*machine, *remotetest.Mem) {
	t.Helper()
	rng := rand.New(rand.NewPCG(8, 8))
	a, mem := newMachine(t), remotetest.NewMem()
	for i := range 2 {
		a.turn("s1", "", func() {
			for n := range 3 {
				a.write(fmt.Sprintf("big%d", n), raw(rng, 1<<20))
			}
			a.write("text", fmt.Sprintf("one\ntwo\nthree %d\nfour\nfive\n", i))
		})
	}
	a.turn("s1", "", func() {
		for n := range 3 {
			a.write(fmt.Sprintf("big%d", n), "small by now")
		}
		a.write("text", "one\ntwo\nthree 1\nfour\nfive, changed\n")
	})
	a.mustPush(mem)
	return a, mem
}

// TestEvictLies changes bytes of each pack of a remote: nothing is given up for it.
func TestEvictLies(t *testing.T) {
	testseed.Sequential(t)
	a, mem := hasLeft(t)
	objects := mem.Objects()
	for key, b := range objects {
		if !strings.HasPrefix(key, "data/") {
			continue
		}
		for _, i := range []int{100, len(b) / 2, len(b) - 1} {
			other := maps.Clone(objects)
			other[key] = bytes.Clone(b)
			other[key][i] ^= 1
			m := a.copyOf()
			r, err := m.evict(memOf(t, other))
			_, isDamage := errors.AsType[*lines.DamageError](err)
			if isTrees := err == nil && r.Objects > 0; !isDamage && !isTrees {
				t.Errorf("byte %d of %s was changed: %+v, %v", i, key, r, err)
			}
			ctx := t.Context() // without a remote
			if err == nil {    // what was changed is no content that went
				ctx = fetching(t, memOf(t, other))
			}
			if err := m.readAll(ctx); err != nil {
				t.Errorf("byte %d of %s was changed: %v", i, key, err)
			}
		}
	}
	m := a.copyOf()
	r, err := m.evict(mem)
	if err != nil || r.Bytes < 3<<20 || r.Read < 3<<20 {
		t.Fatalf("evict: %+v, %v", r, err)
	}
	if err := m.readAll(t.Context()); !cas.IsPromised(err) {
		t.Errorf("nothing went: %v", err)
	}
	if err := m.readAll(fetching(t, mem)); err != nil {
		t.Error(err)
	}
	checkRemote(t, a, mem)
}

// A meddling is a Backend beside which something happens at one request, and goes on at a later one.
type meddling struct {
	remote.Backend
	at, then int
	begin    func()
	goOn     func()

	mu sync.Mutex // guards n
	n  int
}

func (b *meddling) request() {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.n++; b.n {
	case b.at:
		b.begin()
	case b.then:
		b.goOn()
	}
}

func (b *meddling) Create(ctx context.Context, key string, data []byte) error {
	b.request()
	return b.Backend.Create(ctx, key, data)
}

func (b *meddling) Get(ctx context.Context, key string, off, n int64) ([]byte, error) {
	b.request()
	return b.Backend.Get(ctx, key, off, n)
}

func (b *meddling) Stat(ctx context.Context, key string) (int64, error) {
	b.request()
	return b.Backend.Stat(ctx, key)
}

func (b *meddling) List(ctx context.Context, prefix, after string) iter.Seq2[remote.Item, error] {
	b.request()
	return b.Backend.List(ctx, prefix, after)
}

// pausing is a prune that stops behind a step until it is told to go on.
type pausing struct {
	paused, goOn, done chan struct{}
	once               sync.Once
}

func pauseAt(t *testing.T, b remote.Backend, opts *PruneOptions, step string) *pausing {
	p := &pausing{make(chan struct{}), make(chan struct{}), make(chan struct{}), sync.Once{}}
	first := true
	go func() {
		defer close(p.done)
		_, err := prune(t, b, opts, func(s string) error {
			if s == step && first {
				first = false
				close(p.paused)
				<-p.goOn
			}
			return nil
		})
		if first {
			close(p.paused)
		}
		if err != nil && !errors.Is(err, lines.ErrRival) {
			t.Errorf("prune: %v", err)
		}
	}()
	<-p.paused
	return p
}

// end has it go on, and waits until it has ended.
func (p *pausing) end() {
	p.once.Do(func() { close(p.goOn) })
	<-p.done
}

// TestEvictBesidePrune has another machine prune all at each request of an eviction, and end that some requests
// later: all that is recorded can be read.
func TestEvictBesidePrune(t *testing.T) {
	testseed.Sequential(t)
	a, mem := hasLeft(t)
	objects := mem.Objects()
	laters, steps, every := []int{2}, []string{"announced"}, 2
	if *everyByte {
		laters, steps, every = []int{1, 3, 1000}, []string{"announced", "copied"}, 1
	}
	for _, step := range steps {
		for _, later := range laters {
			for at := 1; ; at += every {
				m, there := a.copyOf(), memOf(t, objects)
				var p *pausing
				b := &meddling{Backend: there, at: at, then: at + later}
				b.begin = func() { p = pauseAt(t, there, &PruneOptions{Sessions: []string{"s1"}}, step) }
				b.goOn = func() { p.end() }
				_, err := m.evict(b)
				what := fmt.Sprintf("%s at request %d, ended %d later", step, at, later)
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
				if p != nil {
					p.end()
				}
				if _, err := prune(t, there, &PruneOptions{Sessions: []string{"s1"}}, nil); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				if err := m.readAll(fetching(t, there)); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				if p == nil {
					break
				}
			}
		}
	}
}

// TestLazyKept has another machine prune what a lazy clone has left in a remote: it stays until the clone has it,
// or was not heard of for long.
func TestLazyKept(t *testing.T) {
	testseed.Sequential(t)
	a, mem := hasLeft(t)
	b := newMachine(t)
	if _, err := b.lazy(mem); err != nil {
		t.Fatal(err)
	}
	a.turn("s1", "goes on", func() { a.write("text", "more") })
	a.mustPush(mem)
	prunes := func(opts *PruneOptions) *PrunePlan {
		t.Helper()
		repo, err := openRepo(t.Context(), mem)
		if err != nil {
			t.Fatal(err)
		}
		p, err := PlanPrune(t.Context(), repo, opts)
		if err == nil {
			_, err = p.Do(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := prunes(&PruneOptions{Sessions: []string{"s1"}}); p.Lines != 0 || p.Left != 1 {
		t.Errorf("prune of what a clone has left there: %d lines go, %d stay for it", p.Lines, p.Left)
	}
	if err := b.readAll(fetching(t, mem)); err != nil {
		t.Error(err)
	}
	checkRemote(t, a, mem)
	c := newMachine(t) // nobody takes a pin for a session
	c.mustClone(mem, nil)
	sameHistory(t, a, c, "s1")
	if p := prunes(&PruneOptions{Sessions: []string{"s1"}, Left: time.Hour}); p.Lines != 0 || p.Left != 1 {
		t.Errorf("prune of what was left there long ago: %d lines go, %d stay", p.Lines, p.Left)
	}
	var pin lines.Line
	err := b.withStore(func(s *cas.Store, _ *places.Location) (err error) {
		var ok bool
		if pin, ok = PinOf(s, "team"); !ok {
			err = errors.New("the clone does not know that it has said so")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if p := prunes(&PruneOptions{Sessions: []string{"s1"}, Pins: []lines.Line{pin}}); p.Lines != 2 || p.Kept != 0 {
		t.Errorf("prune of what is not left there any more: %+v", p)
	}
}

// pinned returns what a machine remembers of its pin, after it has changed it.
func (m *machine) pinned(change func(*pinFile)) (at pinFile) {
	m.t.Helper()
	err := m.withStore(func(s *cas.Store, _ *places.Location) error {
		ok, err := read(s.FS(), "team", "pinned", &at)
		if err == nil && !ok {
			err = errors.New("it knows of no pin")
		}
		if err == nil && change != nil {
			change(&at)
			err = write(s.FS(), "team", "pinned", &at)
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return at
}

// TestPinRenewed has a lazy clone push: what it has left there it says again once a day, and no more when it has all.
func TestPinRenewed(t *testing.T) {
	testseed.Sequential(t)
	_, mem := hasLeft(t)
	b := newMachine(t)
	if _, err := b.lazy(mem); err != nil {
		t.Fatal(err)
	}
	first := b.pinned(nil)
	b.mustPush(mem)
	if at := b.pinned(nil); at.Next != first.Next {
		t.Errorf("it was said again at once: %d entries, then %d", first.Next, at.Next)
	}
	long := func(at *pinFile) { at.Said = at.Said.Add(-pinAge - time.Minute) }
	old := b.pinned(long)
	b.mustPush(mem)
	at := b.pinned(nil)
	if at.Next != first.Next+1 || !bytes.Equal(at.Line, first.Line) || !at.Said.After(old.Said.Add(pinAge)) {
		t.Fatalf("a day later: %+v, and before %+v", at, old)
	}
	repo, err := openRepo(t.Context(), mem)
	if err != nil {
		t.Fatal(err)
	}
	e, _, _, err := repo.Entry(t.Context(), repo.DirOf(lines.PinSession),
		lines.Position{Line: lines.Line(at.Line), Entry: at.Next - 1, Hash: hash32(at.Hash)})
	if err != nil {
		t.Fatal(err)
	}
	if e.Void || time.Since(time.Unix(e.Pin.Time, 0)) > time.Minute || len(e.Pin.On) != len(first.On) ||
		e.Pin.On[0] != first.On[0].leaning() {
		t.Errorf("there is %+v of %d lines, %+v", e.Pin, len(first.On), first.On)
	}
	b.pinned(func(at *pinFile) { at.Said = at.Said.AddDate(10, 0, 0) }) // by a clock that was wrong
	b.mustPush(mem)
	if at = b.pinned(nil); at.Next != first.Next+2 || time.Since(at.Said) < 0 {
		t.Errorf("what was said in ten years is not said again: %+v", at)
	}
	err = b.withStore(func(s *cas.Store, _ *places.Location) error {
		_, err := FetchAll(fetching(t, mem), s, "team")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	b.pinned(long)
	b.mustPush(mem)
	if got := b.pinned(nil); got.Next != at.Next {
		t.Errorf("all is here, and it was said again: %d entries, then %d", at.Next, got.Next)
	}
}

// TestFetchMoved reads what was left in a remote after it was put elsewhere there: by a prune that
// forgets a content, by one that seals all anew, and by a repair.
func TestFetchMoved(t *testing.T) {
	testseed.Sequential(t)
	a, mem := hasLeft(t)
	var forgotten store.ID
	err := a.withStore(func(s *cas.Store, loc *places.Location) error {
		for snap, err := range s.Snapshots(t.Context()) {
			if err != nil {
				return err
			}
			if e, err := trees.Lookup(t.Context(), s, snap.Tree, "big0"); err == nil {
				forgotten = e.ID // of the oldest
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, move := range map[string]func(mem *remotetest.Mem) error{
		"forget": func(mem *remotetest.Mem) error {
			_, err := prune(t, mem, &PruneOptions{Forget: []store.ID{forgotten}}, nil)
			return err
		},
		"anew": func(mem *remotetest.Mem) error {
			_, err := prune(t, mem, &PruneOptions{Anew: true}, nil)
			return err
		},
		"repair": func(mem *remotetest.Mem) error {
			for key := range mem.Objects() {
				if strings.HasPrefix(key, "data/") {
					if err := mem.Delete(t.Context(), key); err != nil {
						return err
					}
				}
			}
			r, err := a.copyOf().repair(mem)
			if err == nil && len(r.Put) == 0 {
				err = errors.New("nothing was put anew")
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, mem := newMachine(t), memOf(t, mem.Objects())
			if _, err := b.lazy(mem); err != nil {
				t.Fatal(err)
			}
			if err := move(mem); err != nil {
				t.Fatal(err)
			}
			err := b.readAll(fetching(t, mem))
			if name == "forget" && errors.Is(err, store.ErrForgotten) {
				err = b.readAllBut(fetching(t, mem), forgotten)
			} else if name == "forget" {
				t.Errorf("the read of what was forgotten: %v", err)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// readAllBut is readAll that passes a content over.
func (m *machine) readAllBut(ctx context.Context, but store.ID) error {
	return m.withStore(func(s *cas.Store, _ *places.Location) error {
		for snap, err := range s.Snapshots(ctx) {
			if err != nil {
				return err
			}
			for e, err := range trees.Walk(ctx, s, snap.Tree) {
				if err == nil && !e.Mode.IsDir() && e.ID != but {
					_, err = s.CopyBlob(ctx, io.Discard, e.ID)
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// A hanging is a Backend that does not answer reads of packs until it is told to.
type hanging struct {
	remote.Backend
	asked, answer chan struct{}
	once          sync.Once
}

func (b *hanging) Get(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if strings.HasPrefix(key, "data/") {
		b.once.Do(func() { close(b.asked) })
		select {
		case <-b.answer:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return b.Backend.Get(ctx, key, off, n)
}

// allOf returns an error if a restore has not done all that it was to do.
func allOf(r *manager.RestoreResult, err error) error {
	if err == nil && !r.IsComplete() {
		err = fmt.Errorf("it is not complete: %+v", r)
	}
	return err
}

// queries ask for contents that are at a remote. All but find hold a lock while they read.
var queries = map[string]func(context.Context, *manager.FileSnapshotManager) error{
	"diff": func(ctx context.Context, x *manager.FileSnapshotManager) error {
		d, err := x.FileDiff(ctx, &manager.FileRange{Path: "text", From: "turn:0", To: "turn:1"})
		if err == nil && !strings.Contains(d.UnifiedDiff, "-three 0\n+three 1\n") {
			err = fmt.Errorf("diff: %q", d.UnifiedDiff)
		}
		return err
	},
	"blame": func(ctx context.Context, x *manager.FileSnapshotManager) error {
		b, err := x.Blame(ctx, &manager.BlameOptions{Path: "text", Rev: "turn:2"})
		if err == nil && (b.Lines != 5 || len(b.Ranges) < 2) {
			err = fmt.Errorf("blame: %+v", b)
		}
		return err
	},
	"hunks": func(ctx context.Context, x *manager.FileSnapshotManager) error {
		l, err := x.Hunks(ctx, &manager.HunkRange{Turns: []string{"turn:1"}, Paths: []string{"text"}})
		if err == nil && len(l.Hunks) != 1 {
			err = fmt.Errorf("hunks: %+v", l)
		}
		return err
	},
	"find": func(ctx context.Context, x *manager.FileSnapshotManager) error {
		n := 0
		for _, err := range x.Find(ctx, &manager.FindOptions{Text: "three 0"}) {
			if err != nil {
				return err
			}
			n++
		}
		if n == 0 {
			return errors.New("find: nothing was found")
		}
		return nil
	},
}

// TestTurnBesideFetch begins and ends turns while restores and queries wait for a remote that does not answer: none
// waits for it. When it answers, the restores do what was asked, on the files as they are then, and the queries say
// what they are to say.
func TestTurnBesideFetch(t *testing.T) {
	a, mem := hasLeft(t)
	if _, err := a.evict(mem); err != nil {
		t.Fatal(err)
	}
	type task struct {
		name string
		do   func(context.Context, *manager.FileSnapshotManager) error
		want string // in text
	}
	const now = "zero\none\ntwo\nthree 1\nfour\nfive, changed\n"
	a.write("text", now) // by the user: what goes is merged
	tasks := []task{
		{"revert", func(ctx context.Context, x *manager.FileSnapshotManager) error {
			return allOf(x.Revert(ctx, &manager.RevertOptions{Turns: []string{"turn:1"}, Paths: []string{"text"}}))
		}, "zero\none\ntwo\nthree 0\nfour\nfive, changed\n"},
		{"restore", func(ctx context.Context, x *manager.FileSnapshotManager) error {
			return allOf(x.RestoreFiles(ctx, &manager.RestoreOptions{Target: "turn:0", Exact: true}))
		}, "one\ntwo\nthree 0\nfour\nfive\n"},
	}
	for name, do := range queries {
		tasks = append(tasks, task{name, do, now})
	}
	for _, what := range tasks {
		t.Run(what.name, func(t *testing.T) {
			m, dir := a.copyOf(), t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(a.dir)); err != nil {
				t.Fatal(err)
			}
			defer func() { // the directory is shared by copies of the machine
				if err := errors.Join(os.RemoveAll(a.dir), os.CopyFS(a.dir, os.DirFS(dir))); err != nil {
					t.Fatal(err)
				}
			}()
			b := &hanging{Backend: mem, asked: make(chan struct{}), answer: make(chan struct{})}
			x := m.open("s1")
			defer x.Close()
			done := make(chan error)
			go func() { done <- what.do(fetching(t, b), x) }()
			select {
			case <-b.asked:
			case err := <-done:
				t.Fatalf("it ended without the remote: %v, %q", err, m.files()["text"])
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // not for ever if it waits
			defer cancel()
			y := m.open("other")
			defer y.Close()
			answer := sync.OnceFunc(func() { close(b.answer) })
			defer answer()
			for _, z := range []*manager.FileSnapshotManager{y, x} { // another session, and the one that restores
				if _, err := z.OnTurnStart(ctx, nil); err != nil {
					t.Fatalf("a turn begins: %v", err)
				}
				m.write("by-turn", z.Session())
				if _, err := z.OnTurnEnd(ctx, nil); err != nil {
					t.Fatalf("a turn ends: %v", err)
				}
			}
			answer()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			got := m.files()
			if got["text"] != what.want {
				t.Errorf("text = %q, want %q", got["text"], what.want)
			}
		})
	}
}

// TestTurnAsksNothing begins a turn that is told of restores whose old contents are at a remote: it is told without
// them, and asks nobody.
func TestTurnAsksNothing(t *testing.T) {
	testseed.Sequential(t)
	rng := rand.New(rand.NewPCG(9, 9))
	a, mem := newMachine(t), remotetest.NewMem()
	for i := range 3 {
		a.turn("s1", "", func() {
			for n := range 3 {
				a.write(fmt.Sprintf("big%d", n), raw(rng, 1<<20))
			}
			a.write("text", fmt.Sprintf("one\ntwo\nthree %d\nfour\nfive\n", i))
		})
	}
	a.mustPush(mem)
	x := a.open("s1")
	for _, to := range []string{"turn:0", "turn:1"} { // what was before the first is then in no newest snapshot
		if err := allOf(x.RestoreFiles(t.Context(), &manager.RestoreOptions{Target: to, Exact: true})); err != nil {
			t.Fatal(err)
		}
	}
	err := x.Close()
	if err == nil {
		_, err = a.evict(mem)
	}
	if err != nil {
		t.Fatal(err)
	}
	x = a.open("s1")
	defer x.Close()
	b := &hanging{Backend: mem, asked: make(chan struct{}), answer: make(chan struct{})}
	defer close(b.answer)
	ctx, cancel := context.WithTimeout(fetching(t, b), 10*time.Second) // not for ever if it waits
	defer cancel()
	r, err := x.OnTurnStart(ctx, &manager.Turn{SinceLast: true})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-b.asked:
		t.Error("the turn has asked the remote")
	default:
	}
	if said := r.SinceLast; !strings.Contains(said, `"text"`) || strings.Contains(said, `"text" (`) {
		t.Errorf("it is told %q", said)
	}
}
