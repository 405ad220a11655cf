package exchange

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/remote/remotetest"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/store"
)

// prune prunes a remote, with something that happens at each step of it.
func prune(t *testing.T, b remote.Backend, opts *PruneOptions, at func(step string) error) (*PruneResult, error) {
	t.Helper()
	repo, err := openRepo(t.Context(), b)
	if err != nil {
		return nil, err
	}
	o := *opts
	o.at = at
	p, err := PlanPrune(t.Context(), repo, &o)
	if err != nil {
		return nil, err
	}
	return p.Do(t.Context())
}

// noise returns text that does not compress, so that it goes in a pack of its own.
func noise(rng *rand.Rand, n int) string {
	var text strings.Builder
	for text.Len() < n {
		fmt.Fprintf(&text, "%016x", rng.Uint64())
	}
	return text.String()
}

// TestPruneRetires takes away a session, and leaves another that has files in common with it.
func TestPruneRetires(t *testing.T) {
	testseed.Sequential(t)
	setSmall(t)
	rng := rand.New(rand.NewPCG(1, 2))
	a, mem := newMachine(t), remotetest.NewMem()
	a.write("big", noise(rng, 9<<18))
	a.turn("s1", "", func() { a.write("f", "1") })
	a.mustPush(mem)
	a.turn("s2", "", func() { a.write("f", "2") }) // leans on s1
	a.mustPush(mem)
	a.turn("s3", "", func() { a.write("big2", noise(rng, 9<<18)) })
	a.mustPush(mem)
	packs := func() (n int) {
		for k := range mem.Objects() {
			if strings.HasPrefix(k, "data/") {
				n++
			}
		}
		return n
	}
	before := packs()
	r, err := prune(t, mem, &PruneOptions{Sessions: []string{"s1"}}, nil)
	if err != nil || r.Lines != 0 || r.Kept != 3 { // s2 counts on it
		t.Fatalf("prune of what is needed: %+v, %v", r, err)
	}
	r, err = prune(t, mem, &PruneOptions{Sessions: []string{"s3"}}, nil)
	if err != nil || r.Lines != 1 || r.Packs < 2 || packs() != before-r.Packs+2 { // and what two prunes keep
		t.Fatalf("prune of one session: %+v, %d packs of %d, %v", r, packs(), before, err)
	}
	b := newMachine(t)
	b.mustClone(mem, nil)
	sameHistory(t, a, b, "s1", "s2")
	if list := b.timeline("s3"); list != nil {
		t.Errorf("s3 is still there: %v", list)
	}
	// It goes on, so it is there again.
	a.turn("s3", "more", func() { a.write("f", "3") })
	a.mustPush(mem)
	c := newMachine(t)
	c.mustClone(mem, nil)
	sameHistory(t, a, c, "s1", "s2", "s3")
	checkRemote(t, a, mem)
	// By age nothing goes that is young.
	if r, err = prune(t, mem, &PruneOptions{Older: time.Hour}, nil); err != nil || r.Lines != 0 {
		t.Errorf("prune of what is old: %+v, %v", r, err)
	}
	time.Sleep(1100 * time.Millisecond) // ages are whole seconds
	if r, err = prune(t, mem, &PruneOptions{Older: time.Millisecond}, nil); err != nil || r.Kept != 0 {
		t.Errorf("prune of all: %+v, %v", r, err)
	}
	for k := range mem.Objects() {
		if strings.HasPrefix(k, "log/") {
			t.Errorf("%s is still there", k)
		}
	}
	a.turn("s3", "still more", func() { a.write("f", "4") })
	a.mustPush(mem)
	d := newMachine(t)
	d.mustClone(mem, nil)
	sameHistory(t, a, d, "s3")
}

// checkRemote looks for damage in a remote, with all that is in it.
func checkRemote(t *testing.T, m *machine, b remote.Backend) {
	t.Helper()
	err := m.withStore(func(s *cas.Store, _ *places.Location) error {
		repo, err := openRepo(t.Context(), b)
		if err != nil {
			return err
		}
		r, err := Check(t.Context(), repo, s.FS(), "team", true)
		if err == nil && len(r.Damage) > 0 {
			err = &r.Damage[0]
		}
		return err
	})
	if err != nil {
		t.Errorf("check of the remote: %v", err)
	}
}

var everyByte = flag.Bool("bytes", false, "change each byte of a small remote, not five of each object; meddle more")

var random = flag.Uint64("beside", 2, "run so many random histories beside prunes")

// TestPruneBeside has machines push, clone and go on while others prune, all at once. Which of them has its next
// request done is a matter of chance, and some are killed before or behind a request. What a push has
// acknowledged is there, unless its session was to go.
func TestPruneBeside(t *testing.T) {
	setSmall(t)
	for seed := range *random {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := &besideWorld{t: t, seed: seed, mem: remotetest.NewMem(), lucky: rand.New(rand.NewPCG(seed, 1))}
			w.run()
		})
	}
}

// besideWorld has actors whose requests take their time, so that they come in any order.
type besideWorld struct {
	t    *testing.T
	seed uint64
	mem  *remotetest.Mem
	wg   sync.WaitGroup

	mu       sync.Mutex // guards the rest
	lucky    *rand.Rand
	actors   uint64
	machines []*machine
	retired  []string
	killed   int
}

// asking is a Backend that takes its time, and may be killed.
type asking struct {
	remote.Backend
	w    *besideWorld
	dead *atomic.Bool // killed: nothing more is done
}

func (w *besideWorld) asking() *asking { return &asking{w.mem, w, new(atomic.Bool)} }

func (b *asking) wait() error {
	b.w.mu.Lock()
	n, late := b.w.lucky.IntN(200), time.Duration(b.w.lucky.IntN(5000))*time.Microsecond
	if n == 0 {
		b.w.killed++
	}
	b.w.mu.Unlock()
	if n < 60 {
		time.Sleep(late)
	}
	if n == 0 {
		b.dead.Store(true)
	}
	if b.dead.Load() {
		return remotetest.ErrKilled
	}
	return nil
}

func (b *asking) Create(ctx context.Context, key string, data []byte) error {
	if err := b.wait(); err != nil {
		return err
	}
	return b.Backend.Create(ctx, key, data)
}

func (b *asking) Get(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if err := b.wait(); err != nil {
		return nil, err
	}
	return b.Backend.Get(ctx, key, off, n)
}

func (b *asking) Stat(ctx context.Context, key string) (int64, error) {
	if err := b.wait(); err != nil {
		return 0, err
	}
	return b.Backend.Stat(ctx, key)
}

func (b *asking) Delete(ctx context.Context, key string) error {
	if err := b.wait(); err != nil {
		return err
	}
	return b.Backend.Delete(ctx, key)
}

// List yields each item when it is its turn: a list is not of one moment.
func (b *asking) List(ctx context.Context, prefix, after string) iter.Seq2[remote.Item, error] {
	return func(yield func(remote.Item, error) bool) {
		for {
			if err := b.wait(); err != nil {
				yield(remote.Item{}, err)
				return
			}
			n := 0
			for item, err := range b.Backend.List(ctx, prefix, after) {
				if n++; n > 2 {
					break
				}
				if !yield(item, err) {
					return
				}
				after = item.Key
			}
			if n <= 2 {
				return
			}
		}
	}
}

// actor has somebody do something beside all others.
func (w *besideWorld) actor(fn func(rng *rand.Rand)) {
	w.actors++
	rng := rand.New(rand.NewPCG(w.seed, w.actors))
	w.wg.Go(func() { fn(rng) })
}

func (w *besideWorld) run() {
	first := newMachine(w.t)
	w.goOn(first, w.lucky, w.mem) // so that there is something
	w.machines = append(w.machines, first)
	w.actor(func(rng *rand.Rand) {
		for range 3 {
			w.goOn(first, rng, nil)
		}
	})
	for range 2 {
		w.actor(func(rng *rand.Rand) {
			m := newMachine(w.t)
			for {
				_, err := m.clone(w.asking(), nil)
				if err == nil {
					break
				}
				if !errors.Is(err, remotetest.ErrKilled) && !errors.Is(err, store.ErrNotFound) {
					w.t.Errorf("clone: %v", err)
				}
				m = newMachine(w.t)
			}
			w.mu.Lock()
			w.machines = append(w.machines, m)
			w.mu.Unlock()
			for range 2 {
				w.goOn(m, rng, nil)
			}
		})
		w.actor(func(rng *rand.Rand) {
			for range 4 {
				w.prune(rng)
			}
		})
	}
	w.wg.Wait()
	w.verify()
}

// goOn records something on a machine, and pushes it, however often it is killed.
func (w *besideWorld) goOn(m *machine, rng *rand.Rand, b remote.Backend) {
	session := fmt.Sprintf("s%d", rng.IntN(2))
	if rng.IntN(2) == 0 {
		m.write("big", noise(rng, 5<<18))
	}
	m.turn(session, "", func() { m.write("f", fmt.Sprint(rng.Uint64())) })
	for was := error(nil); ; {
		if b == nil || errors.Is(was, remotetest.ErrKilled) {
			b = w.asking()
		}
		err := m.withStore(func(s *cas.Store, _ *places.Location) error {
			repo, err := openRepo(w.t.Context(), b)
			if err != nil {
				return err
			}
			if err := Add(w.t.Context(), s.FS(), &Config{Name: "team"}); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			_, err = (&Pusher{Store: s, Repo: repo, Name: "team", patience: 100 * time.Millisecond}).Push(w.t.Context())
			return err
		})
		if was = err; err == nil {
			return
		}
		if !errors.Is(err, remotetest.ErrKilled) {
			w.t.Errorf("push: %v", err)
			return
		}
		if rng.IntN(3) == 0 { // its note is lost, too
			err := m.withStore(func(s *cas.Store, _ *places.Location) error {
				s.FS().Remove("remotes/team/lines") // if it is there
				return nil
			})
			if err != nil {
				w.t.Error(err)
			}
		}
	}
}

func (w *besideWorld) prune(rng *rand.Rand) {
	opts := new(PruneOptions)
	if rng.IntN(3) > 0 {
		opts.Sessions = []string{fmt.Sprintf("s%d", rng.IntN(2))}
		w.mu.Lock()
		w.retired = append(w.retired, opts.Sessions...)
		w.mu.Unlock()
	}
	_, err := prune(w.t, w.asking(), opts, nil)
	if err != nil && !errors.Is(err, remotetest.ErrKilled) && !errors.Is(err, lines.ErrRival) {
		w.t.Errorf("prune: %v", err)
	}
}

// allRetired reports whether all that was recorded is of sessions that were retired: then there may
// be nothing to clone.
func (w *besideWorld) allRetired() bool {
	all := true
	for _, m := range w.machines {
		m.eachRecord(func(snap *store.Snapshot) { all = all && slices.Contains(w.retired, snap.Session) })
	}
	return all
}

// verify finds each record of each machine in the remote, with all that it needs, but for those of sessions that
// were to go.
func (w *besideWorld) verify() {
	w.t.Helper()
	for _, m := range w.machines {
		checkRemote(w.t, m, w.mem)
	}
	b := newMachine(w.t)
	if _, err := b.clone(w.mem, nil); err != nil && !(errors.Is(err, store.ErrNotFound) && w.allRetired()) {
		w.t.Fatal(err)
	}
	there := make(map[string]bool)
	b.eachRecord(func(snap *store.Snapshot) {
		there[fmt.Sprintf("%d %s %s", snap.Time.UnixNano(), snap.Session, snap.Tree)] = true
	})
	for i, m := range w.machines {
		m.eachRecord(func(snap *store.Snapshot) {
			k := fmt.Sprintf("%d %s %s", snap.Time.UnixNano(), snap.Session, snap.Tree)
			if !there[k] && !slices.Contains(w.retired, snap.Session) {
				w.t.Errorf("record %d of machine %d, session %s, is not there", snap.Seq, i, snap.Session)
			}
		})
	}
}

// eachRecord calls fn with each record of a machine's store, newest first.
func (m *machine) eachRecord(fn func(*store.Snapshot)) {
	m.t.Helper()
	err := m.withStore(func(s *cas.Store, _ *places.Location) error {
		for snap, err := range s.Snapshots(m.t.Context()) {
			if err != nil {
				return err
			}
			fn(snap)
		}
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

// A killing is a Backend that dies behind the first entry that is put, after something else has happened.
type killing struct {
	remote.Backend
	before func()
	dead   bool
}

func (b *killing) Create(ctx context.Context, key string, data []byte) error {
	if b.dead {
		return remotetest.ErrKilled
	}
	if strings.HasPrefix(key, "log/") {
		b.before()
		b.dead = true
		if err := b.Backend.Create(ctx, key, data); err != nil {
			return err
		}
		return remotetest.ErrKilled
	}
	return b.Backend.Create(ctx, key, data)
}

func (b *killing) Get(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if b.dead {
		return nil, remotetest.ErrKilled
	}
	return b.Backend.Get(ctx, key, off, n)
}

func (b *killing) Stat(ctx context.Context, key string) (int64, error) {
	if b.dead {
		return 0, remotetest.ErrKilled
	}
	return b.Backend.Stat(ctx, key)
}

// TestKilledBesidePrune kills a writer behind an entry that a prune has not seen, before it asks the ledger: it puts
// it again, whether it begins again before the prune ends or behind that, and whether it remembers its line or not.
func TestKilledBesidePrune(t *testing.T) {
	testseed.Sequential(t)
	setSmall(t)
	for _, first := range []bool{false, true} { // the entry is the first of its line
		for _, after := range []bool{false, true} {
			for _, noteLost := range []bool{false, true} {
				rng := rand.New(rand.NewPCG(5, 5))
				a, mem := newMachine(t), remotetest.NewMem()
				a.turn("s1", "", func() { a.write("f", "one") })
				a.mustPush(mem)
				if first {
					a.turn("s2", "", func() { a.write("f", "of another") })
				}
				a.turn("s1", "", func() { a.write("big", raw(rng, 5<<18)) })
				var p *pausing
				b := &killing{Backend: mem, before: func() { p = pauseAt(t, mem, new(PruneOptions), "copied") }}
				sessions := []string{"s1"}
				if first {
					sessions = []string{"s2"}
				}
				if _, err := a.push(b, sessions...); !errors.Is(err, remotetest.ErrKilled) {
					t.Fatalf("the push was not killed: %v", err)
				}
				if after {
					p.end()
				}
				if noteLost {
					err := a.withStore(func(s *cas.Store, _ *places.Location) error {
						return s.FS().Remove("remotes/team/lines")
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				_, err := a.pushPatiently(remote.NewSure(mem, time.Minute), 10*time.Millisecond)
				if err != nil {
					t.Error(err)
				}
				p.end()
				c := newMachine(t)
				c.mustClone(mem, nil)
				sameHistory(t, a, c, "s1")
				checkRemote(t, a, mem)
				if t.Failed() {
					t.Fatalf("first %v, after the prune %v, note lost %v", first, after, noteLost)
				}
			}
		}
	}
}

// pushPatiently is push with another patience with prunes.
func (m *machine) pushPatiently(b remote.Backend, patience time.Duration) (r *PushResult, err error) {
	err = m.withStore(func(s *cas.Store, _ *places.Location) error {
		repo, err := openRepo(m.t.Context(), b)
		if err != nil {
			return err
		}
		r, err = (&Pusher{Store: s, Repo: repo, Name: "team", patience: patience}).Push(m.t.Context())
		return err
	})
	return r, err
}

// TestRequests counts what is asked of a place: two requests for a turn, in a remote that was pruned, too, and a few
// for each line that a prune looks at.
func TestRequests(t *testing.T) {
	a, mem := newMachine(t), remotetest.NewMem()
	a.turn("s", "", func() { a.write("f", "0") })
	a.mustPush(mem)
	count := remotetest.NewFaulty(mem, 1)
	repo, err := openRepo(t.Context(), count)
	if err != nil {
		t.Fatal(err)
	}
	push := func() int {
		before := count.Requests
		err := a.withStore(func(s *cas.Store, _ *places.Location) error {
			_, err := (&Pusher{Store: s, Repo: repo, Name: "team"}).Push(t.Context())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return count.Requests - before
	}
	push() // reads the ledger
	for i := range 3 {
		if i == 1 {
			if _, err := prune(t, mem, &PruneOptions{Forget: []store.ID{{1}}}, nil); err != nil {
				t.Fatal(err)
			}
			a.turn("s", "", func() { a.write("f", "beside a prune") })
			if n := push(); n > 10 {
				t.Errorf("a push behind a prune asks %d times", n)
			}
		}
		a.turn("s", "", func() { a.write("f", fmt.Sprint(i)) })
		if n := push(); n != 2 {
			t.Errorf("turn %d: a push asks %d times", i, n)
		}
		if n := push(); n != 0 {
			t.Errorf("a push of nothing asks %d times", n)
		}
	}
	const sessions = 20
	for i := range sessions {
		a.turn(fmt.Sprint("other", i), "", func() { a.write("f", fmt.Sprint("of ", i)) })
	}
	push()
	before := count.Requests
	if _, err := prune(t, count, &PruneOptions{Sessions: []string{"other19"}}, nil); err != nil {
		t.Fatal(err)
	}
	if n := count.Requests - before; n > 3*sessions+20 {
		t.Errorf("a prune of %d lines asks %d times", sessions, n)
	} else {
		t.Logf("a prune of %d lines asks %d times", sessions, n)
	}
}

var writers = flag.Int("writers", 10, "how many write beside one prune, of whose pushes the requests are counted")

// TestWritersBesidePrune has many push a turn while one prunes, some at each step of that. A prune delays none: each
// push asks as often as without one, or puts its entry once more.
func TestWritersBesidePrune(t *testing.T) {
	setSmall(t)
	mem := remotetest.NewMem()
	type writer struct {
		*machine
		session string
		count   *remotetest.Faulty
		repo    *lines.Repo
	}
	push := func(w *writer) int {
		t.Helper()
		before := w.count.Requests
		if err := w.withStore(func(s *cas.Store, _ *places.Location) error {
			_, err := (&Pusher{Store: s, Repo: w.repo, Name: "team"}).Push(t.Context())
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return w.count.Requests - before
	}
	turn := func(w *writer, text string) int {
		w.turn(w.session, "", func() { w.write("f", text) })
		return push(w)
	}
	var list []*writer
	for i := range *writers {
		w := &writer{machine: hasAdded(t), session: fmt.Sprint("s", i), count: remotetest.NewFaulty(mem, 1)}
		var err error
		if w.repo, err = openRepo(t.Context(), w.count); err != nil {
			t.Fatal(err)
		}
		turn(w, "first")
		if n := turn(w, "second"); n != 2 {
			t.Errorf("writer %d asks %d times for a turn", i, n)
		}
		list = append(list, w)
	}
	gone := newMachine(t)
	gone.turn("gone", "", func() { gone.write("big", noise(rand.New(rand.NewPCG(1, 3)), 9<<18)) })
	gone.mustPush(mem)

	asked := make(map[string]map[int]int) // by step: how often a push has asked → how many have
	next, steps := 0, 5
	r, err := prune(t, mem, &PruneOptions{Sessions: []string{"gone"}}, func(step string) error {
		if asked[step] != nil { // removing comes again and again
			return nil
		}
		asked[step] = make(map[int]int)
		for ; next < len(list)*(len(asked))/steps; next++ {
			n := turn(list[next], "beside "+step)
			if asked[step][n]++; n > 9 {
				t.Errorf("%s: writer %d asks %d times", step, next, n)
			}
		}
		return nil
	})
	if err != nil || r.Lines != 1 {
		t.Fatalf("prune: %+v, %v", r, err)
	}
	if next < len(list) {
		t.Errorf("%d of %d have written", next, len(list))
	}
	after := make(map[int]int)
	for i, w := range list {
		after[turn(w, "behind it")]++
		if n := turn(w, "last"); n != 2 {
			t.Errorf("writer %d asks %d times for a turn when the prune is over", i, n)
		}
	}
	t.Logf("%d writers; how often a push has asked beside a prune, at its steps: %v; the first behind it: %v",
		len(list), asked, after)
	checkRemote(t, list[0].machine, mem)
	for _, w := range list {
		b := newMachine(t)
		session := w.session
		b.mustClone(mem, &session)
		sameHistory(t, w.machine, b, w.session)
	}
}
