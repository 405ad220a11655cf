package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/history"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/remote/remotetest"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
)

// A machine has a directory and stores.
type machine struct {
	t    *testing.T
	root string // of all
	dir  string
	log  string     // of sessions that a runtime keeps; "": none
	near lines.Near // by which it clones; nil: none
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, root: t.TempDir()}
	m.dir = filepath.Join(m.root, "secret-project")
	if err := os.Mkdir(m.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) stores() string { return filepath.Join(m.root, "stores") }

func (m *machine) open(session string) *manager.FileSnapshotManager {
	m.t.Helper()
	x, err := manager.Open(m.t.Context(), m.dir, &manager.Options{StoreRoot: m.stores(), Session: session,
		SessionFile: m.log, MinFree: -1})
	if err != nil {
		m.t.Fatal(err)
	}
	return x
}

// turn has a session do something.
func (m *machine) turn(session, title string, work func()) {
	m.t.Helper()
	x := m.open(session)
	defer x.Close()
	if _, err := x.OnTurnStart(m.t.Context(), &manager.Turn{Title: title}); err != nil {
		m.t.Fatal(err)
	}
	work()
	if _, err := x.OnTurnEnd(m.t.Context(), nil); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	name = filepath.Join(m.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		m.t.Fatal(err)
	}
}

// files returns what is in the directory.
func (m *machine) files() map[string]string {
	m.t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(m.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		rel, _ := filepath.Rel(m.dir, name)
		files[rel] = string(b)
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return files
}

// withStore calls fn with the store of the directory.
func (m *machine) withStore(fn func(s *cas.Store, loc *places.Location) error) error {
	loc, err := places.Locate(m.stores(), m.dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.stores(), 0o700); err != nil {
		return err
	}
	s, err := cas.Open(m.t.Context(), loc.Dir, &cas.Options{Root: loc.Project.Main})
	if err != nil {
		return err
	}
	return errors.Join(loc.Note(m.t.Context(), s.FS()), fn(s, loc), s.Close())
}

// asIs wraps keys in nothing, and unwraps them.
func asIs(b []byte) ([]byte, error) { return b, nil }

func openRepo(ctx context.Context, b remote.Backend) (*lines.Repo, error) {
	r, err := lines.Open(ctx, b, asIs)
	if errors.Is(err, lines.ErrNone) {
		return lines.Init(ctx, b, nil)
	}
	return r, err
}

func (m *machine) push(b remote.Backend, sessions ...string) (r *PushResult, err error) {
	err = m.withStore(func(s *cas.Store, _ *places.Location) error {
		repo, err := openRepo(m.t.Context(), b)
		if err != nil {
			return err
		}
		c := &Config{Name: "team", URL: "test", ID: repo.ID()}
		if err := Add(m.t.Context(), s.FS(), c); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		r, err = (&Pusher{Store: s, Repo: repo, Name: "team"}).Push(m.t.Context(), sessions...)
		return err
	})
	return r, err
}

func (m *machine) mustPush(b remote.Backend, sessions ...string) *PushResult {
	m.t.Helper()
	r, err := m.push(b, sessions...)
	if err != nil {
		m.t.Fatal(err)
	}
	return r
}

// clone brings what is in a remote to a machine, with the files of the newest record.
func (m *machine) clone(b remote.Backend, session *string) (r *ImportResult, err error) {
	err = m.withStore(func(s *cas.Store, loc *places.Location) error {
		repo, err := openRepo(m.t.Context(), b)
		if err != nil {
			return err
		}
		if m.near != nil {
			repo.UseNear(m.near)
		}
		f, err := Fetch(m.t.Context(), repo, session)
		if err != nil {
			return err
		}
		goOn, _ := f.Newest()
		var filling *trees.Filling
		x := &Importer{Store: s, Repo: repo, Name: "team", Worktree: loc.Project.Worktree, Root: loc.Project.Root,
			Fill: func(ctx context.Context, tree store.ID) (_ *trees.Filling, err error) {
				filling, err = trees.Fill(ctx, s, tree, m.dir)
				return filling, err
			}}
		if r, err = x.Import(m.t.Context(), f, goOn); err != nil {
			if left := m.files(); len(left) > 0 {
				m.t.Errorf("a clone has failed, and left %d files: %v", len(left), err)
			}
			return err
		}
		newest, err := s.Newest(m.t.Context(), loc.Project.Worktree, cas.AnySession)
		if err != nil {
			return err
		}
		if filling == nil { // all was here
			_, err := trees.Export(m.t.Context(), s, newest.Tree, m.dir)
			return err
		}
		if filling.Root != newest.Tree {
			m.t.Errorf("tree %s was written, and the newest is %s", filling.Root.Short(), newest.Tree.Short())
		}
		_, err = filling.Finish(s)
		return err
	})
	return r, err
}

func (m *machine) mustClone(b remote.Backend, session *string) *ImportResult {
	m.t.Helper()
	r, err := m.clone(b, session)
	if err != nil {
		m.t.Fatal(err)
	}
	m.check()
	return r
}

func (m *machine) mustPull(b remote.Backend) (r *ImportResult) {
	m.t.Helper()
	err := m.withStore(func(s *cas.Store, _ *places.Location) error {
		repo, err := openRepo(m.t.Context(), b)
		if err != nil {
			return err
		}
		f, err := Fetch(m.t.Context(), repo, nil)
		if err != nil {
			return err
		}
		r, err = (&Importer{Store: s, Repo: repo, Name: "team"}).Import(m.t.Context(), f, nil)
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.check()
	return r
}

// check looks for damage in the store.
func (m *machine) check() {
	m.t.Helper()
	err := m.withStore(func(s *cas.Store, _ *places.Location) error {
		r, err := s.Check(m.t.Context(), true)
		if err == nil && len(r.Damage) > 0 {
			err = r.Damage[0]
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

// A seen is what a timeline says of a moment.
type seen struct {
	Kind, Title, Label     string
	Turn                   int
	Counts                 [3]int
	Tree                   store.ID
	Time                   int64
	TakenBack, Interrupted bool
	Agent                  string
}

// timeline returns what a machine says of a session, newest first.
func (m *machine) timeline(session string) (list []seen) {
	m.t.Helper()
	x := m.open(session)
	defer x.Close()
	for mo, err := range x.Timeline(m.t.Context()) {
		if errors.Is(err, history.ErrNoSession) {
			return nil
		}
		if err != nil {
			m.t.Fatal(err)
		}
		counts := [3]int{mo.Added, mo.Modified, mo.Deleted}
		list = append(list, seen{mo.Kind, mo.Title, mo.Snapshot.Label, mo.TurnIndex, counts, mo.Tree,
			mo.Snapshot.Time.UnixNano(), mo.TakenBack != nil, mo.Interrupted, mo.Agent})
	}
	return list
}

// live has sessions do random things for a while.
func (m *machine) live(rng *rand.Rand, steps int, sessions ...string) {
	m.t.Helper()
	for range steps {
		session := sessions[rng.IntN(len(sessions))]
		name := fmt.Sprintf("secret-dir%d/secret-file%d", rng.IntN(3), rng.IntN(5))
		switch rng.IntN(10) {
		case 0: // the user
			m.write(name, fmt.Sprintf("by the user %d\n", rng.IntN(1000)))
		case 1:
			x := m.open(session)
			if len(m.timeline(session)) > 2 {
				if _, err := x.RestoreFiles(m.t.Context(), &manager.RestoreOptions{Target: "@~1"}); err != nil {
					m.t.Log("restore:", err)
				}
			}
			x.Close()
		case 2:
			x := m.open(session)
			if _, err := x.Undo(m.t.Context(), nil); err != nil && !errors.Is(err, manager.ErrNothing) {
				m.t.Log("undo:", err)
			}
			x.Close()
		default:
			m.turn(session, "secret-prompt "+name, func() {
				m.write(name, fmt.Sprintf("secret-content\nby %s\n%d\n", session, rng.IntN(1000)))
				if rng.IntN(4) == 0 {
					os.RemoveAll(filepath.Join(m.dir, fmt.Sprintf("secret-dir%d", rng.IntN(3))))
				}
			})
		}
	}
}

// sameHistory compares what two machines say of sessions.
func sameHistory(t *testing.T, a, b *machine, sessions ...string) {
	t.Helper()
	for _, s := range sessions {
		if d := cmp.Diff(a.timeline(s), b.timeline(s)); d != "" {
			t.Errorf("session %s: another history (-there +here):\n%s", s, d)
		}
	}
}

// TestRoundTrip pushes random histories, part by part, and clones them: each session has the same
// timeline, files are the same, and so is what restores do then.
func TestRoundTrip(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 7))
		a, mem := newMachine(t), remotetest.NewMem()
		a.write("big", strings.Repeat("0123456789abcdef", 100_000))
		for range 3 {
			a.live(rng, 12, "s1", "s2")
			a.mustPush(mem)
			if r := a.mustPush(mem); r.Records != 0 {
				t.Errorf("pushed twice: %+v", r)
			}
		}
		x := a.open("s1") // so that all that is there is recorded
		if _, err := x.Snapshot(t.Context(), &manager.SnapshotOptions{Label: "last"}); err != nil {
			t.Fatal(err)
		}
		x.Close()
		a.mustPush(mem)
		b := newMachine(t)
		b.mustClone(mem, nil)
		sameHistory(t, a, b, "s1", "s2")
		if d := cmp.Diff(a.files(), b.files()); d != "" {
			t.Errorf("seed %d: other files: %s", seed, d)
		}
		for _, s := range []string{"s1", "s2"} { // alone: its records have other numbers there
			c := newMachine(t)
			c.mustClone(mem, &s)
			sameHistory(t, a, c, s)
		}
		for _, target := range []string{"@~2", "start"} {
			for _, m := range []*machine{a, b} {
				x := m.open("s1")
				if _, err := x.RestoreFiles(t.Context(), &manager.RestoreOptions{Target: target}); err != nil {
					t.Fatal(err)
				}
				x.Close()
			}
			if d := cmp.Diff(a.files(), b.files()); d != "" {
				t.Errorf("seed %d: restore %s does something else: %s", seed, target, d)
			}
		}
	}
}

// TestTwoTips has a session go on on two machines: both see both, and nothing is refused.
func TestTwoTips(t *testing.T) {
	a, b, mem := newMachine(t), newMachine(t), remotetest.NewMem()
	a.turn("s", "first", func() { a.write("f", "one\n") })
	a.mustPush(mem)
	b.mustClone(mem, nil)
	for i := range 3 {
		b.turn("s", fmt.Sprint("on b ", i), func() { b.write("b", fmt.Sprint(i)) })
		a.turn("s", fmt.Sprint("on a ", i), func() { a.write("a", fmt.Sprint(i)) })
		b.mustPush(mem)
		a.mustPush(mem)
		b.mustPull(mem)
		a.mustPull(mem)
		if r := a.mustPull(mem); r.Records != 0 || r.Amended != 0 {
			t.Errorf("pulled twice: %+v", r)
		}
	}
	for _, c := range []struct {
		m           *machine
		own, others string
	}{{a, "on a", "on b"}, {b, "on b", "on a"}} {
		var own, other int
		err := c.m.withStore(func(s *cas.Store, loc *places.Location) error {
			for snap, err := range s.Snapshots(t.Context()) {
				if err != nil {
					return err
				}
				isHere := snap.Worktree == loc.Project.Worktree
				if isHere && snap.Kind == "step" {
					own++
				} else if snap.Kind == "step" {
					other++
					if !strings.HasPrefix(snap.Root, "team:/") {
						t.Errorf("another's record is of %q", snap.Root)
					}
				}
				if _, err := s.Get(t.Context(), 3, snap.Tree); err != nil {
					t.Error(err)
				}
			}
			return nil
		})
		if err != nil || own != 4 && own != 3 || other != 3 {
			t.Errorf("%s: %d own turns and %d of the other, %v", c.own, own, other, err)
		}
		for _, mo := range c.m.timeline("s") {
			if strings.HasPrefix(mo.Title, c.others) {
				t.Errorf("%q is in the own timeline", mo.Title)
			}
		}
	}
	// A third sees one of them go on, and the other beside it.
	third := newMachine(t)
	third.mustClone(mem, nil)
	if titles := third.timeline("s"); titles[0].Title != "on a 2" || len(titles) < 4 {
		t.Errorf("the third sees %v", titles)
	}
}

// TestLeans shows that a second session does not put the same files again, and can be cloned alone.
func TestLeans(t *testing.T) {
	a, mem := newMachine(t), remotetest.NewMem()
	rng := rand.New(rand.NewPCG(1, 1))
	var text strings.Builder
	for range 100_000 {
		fmt.Fprintf(&text, "%x", rng.Uint64())
	}
	a.write("big", text.String())
	a.turn("s1", "", func() { a.write("f", "1") })
	first := a.mustPush(mem)
	a.turn("s2", "", func() { a.write("f", "2") })
	if second := a.mustPush(mem); second.Bytes*20 > first.Bytes {
		t.Errorf("a second session took %d bytes, the first %d", second.Bytes, first.Bytes)
	}
	s := "s2"
	b := newMachine(t)
	b.mustClone(mem, &s)
	if got := b.files(); got["big"] != text.String() || got["f"] != "2" {
		t.Errorf("cloned %v", slices.Collect(maps.Keys(got)))
	}
	if list := b.timeline("s1"); len(list) != 0 {
		t.Errorf("session s1 came along: %v", list)
	}
	b.turn("s3", "", func() { b.write("f", "3") })
	if third := b.mustPush(mem); third.Bytes*20 > first.Bytes {
		t.Errorf("a third session, from another machine, took %d bytes", third.Bytes)
	}
	c := newMachine(t)
	s = "s3"
	c.mustClone(mem, &s)
	if got := c.files(); got["big"] != text.String() || got["f"] != "3" {
		t.Errorf("cloned %v", slices.Collect(maps.Keys(got)))
	}
}

// TestSecrets looks for names of sessions and files, prompts and contents in keys and objects.
func TestSecrets(t *testing.T) {
	a, mem := newMachine(t), remotetest.NewMem()
	a.live(rand.New(rand.NewPCG(3, 3)), 20, "secret-session")
	a.turn("secret-session", "secret-prompt", func() { a.write("secret-file", "secret-content") })
	keep := func(b []byte) ([]byte, error) { return slices.Repeat(b, 1), nil }
	repo, err := lines.Init(t.Context(), mem, &lines.Circle{Wrap: keep})
	if err != nil {
		t.Fatal(err)
	}
	err = a.withStore(func(s *cas.Store, _ *places.Location) error {
		return errors.Join(Add(t.Context(), s.FS(), &Config{Name: "team"}),
			func() error { _, err := (&Pusher{Store: s, Repo: repo, Name: "team"}).Push(t.Context()); return err }())
	})
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range mem.Objects() {
		if strings.Contains(k, "secret") || bytes.Contains(v, []byte("secret")) {
			t.Errorf("%s says what is secret", k)
		}
	}
	if n := len(mem.Objects()); n < 2 {
		t.Errorf("%d objects", n)
	}
}

// TestTamper flips a byte of each object, at some places, and removes each: nobody clones
// anything else than what was pushed, and a check names it.
func TestTamper(t *testing.T) {
	a, mem := newMachine(t), remotetest.NewMem()
	rng := rand.New(rand.NewPCG(5, 5))
	a.live(rng, 8, "s1")
	a.mustPush(mem)
	a.live(rng, 8, "s1", "s2")
	a.mustPush(mem)
	objects := mem.Objects()
	for key, b := range objects {
		if key == "FORMAT" {
			continue
		}
		for i := -1; i < len(b); i += 1 + len(b)/8 {
			other := remotetest.NewMem()
			for k, v := range objects {
				if k == key && i < 0 {
					continue
				}
				if k == key {
					v = bytes.Clone(v)
					v[i] ^= 1
				}
				other.Create(t.Context(), k, v)
			}
			if _, err := newMachine(t).clone(other, nil); err == nil && (i >= 0 || !isNewest(objects, key)) {
				t.Errorf("byte %d of %s was changed (-1: it is missing), and it was cloned", i, key)
			}
			err := a.withStore(func(s *cas.Store, _ *places.Location) error {
				repo, err := openRepo(t.Context(), other)
				if err != nil {
					return err
				}
				r, err := Check(t.Context(), repo, s.FS(), "team", true)
				isIt := func(d lines.DamageError) bool { return d.Key == key }
				if err == nil && !slices.ContainsFunc(r.Damage, isIt) {
					err = fmt.Errorf("a check finds %v", r.Damage)
				}
				return err
			})
			if err != nil {
				t.Errorf("byte %d of %s was changed (-1: it is missing): %v", i, key, err)
			}
		}
	}
}

// isNewest reports whether an entry is the last of its line: that it is missing is known only to who
// has seen it.
func isNewest(objects map[string][]byte, key string) bool {
	dir, last := key[:len(key)-8], key[len(key)-8:]
	for k := range objects {
		if strings.HasPrefix(k, dir) && k[len(dir):] > last {
			return false
		}
	}
	return strings.HasPrefix(key, "log/")
}

// TestKilled stops a push at each request, with the request done or not: what is there then is no
// damage, and the next push puts the rest, each record once.
func TestKilled(t *testing.T) {
	for _, done := range []bool{false, true} {
		for stop := 1; ; stop++ {
			rng := rand.New(rand.NewPCG(9, 9))
			a, mem := newMachine(t), remotetest.NewMem()
			if _, err := openRepo(t.Context(), mem); err != nil {
				t.Fatal(err)
			}
			a.live(rng, 6, "s1", "s2")
			faulty := remotetest.NewFaulty(mem, 1)
			faulty.Stop, faulty.Done = stop, done
			_, err := a.push(faulty)
			if err == nil {
				if faulty.Requests < 5 {
					t.Errorf("a push of %d requests", faulty.Requests)
				}
				break
			}
			if !errors.Is(err, remotetest.ErrKilled) {
				t.Fatal(err)
			}
			a.live(rng, 3, "s1", "s2")
			if stop%2 == 0 { // its note is lost, too
				err := a.withStore(func(s *cas.Store, _ *places.Location) error {
					err := s.FS().Remove("remotes/team/lines")
					if errors.Is(err, fs.ErrNotExist) {
						err = nil
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			a.mustPush(mem)
			onceEach(t, mem, 0)
			b := newMachine(t)
			b.mustClone(mem, nil)
			sameHistory(t, a, b, "s1", "s2")
		}
	}
}

// onceEach holds that no record is in a remote twice, unless its line says it again, or it is one
// up to a number that two copies of a store had both, and neither had pushed.
func onceEach(t *testing.T, b remote.Backend, both uint64) {
	t.Helper()
	repo, err := openRepo(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Fetch(t.Context(), repo, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]string)
	for _, l := range f.Lines {
		for _, r := range l.Records {
			k := fmt.Sprintf("%x %d %d", l.Store, r.Seq, r.Snap.Time.UnixNano())
			if was, ok := seen[k]; ok && r.Seq > both {
				t.Errorf("record %d is in line %s and in %s", r.Seq, was, l.Line)
			}
			seen[k] = l.Line.String()
		}
	}
}

// TestTwins pushes from two copies of one store that both go on, through a place that loses
// answers, sends twice and late: each record of both is there once.
func TestTwins(t *testing.T) {
	testseed.Sequential(t)
	rng := rand.New(rand.NewPCG(11, 11))
	a, mem := newMachine(t), remotetest.NewMem()
	if _, err := openRepo(t.Context(), mem); err != nil {
		t.Fatal(err)
	}
	a.live(rng, 5, "s1", "s2")
	a.mustPush(mem)
	a.live(rng, 2, "s1", "s2") // not pushed when it is copied
	var both uint64
	err := a.withStore(func(s *cas.Store, loc *places.Location) error {
		newest, err := s.Newest(t.Context(), loc.Project.Worktree, cas.AnySession)
		both = newest.Seq
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	twin := &machine{t: t, root: t.TempDir(), dir: a.dir}
	if err := os.CopyFS(twin.stores(), os.DirFS(a.stores())); err != nil {
		t.Fatal(err)
	}
	faulty := remotetest.NewFaulty(mem, 2)
	faulty.Drop, faulty.Lose, faulty.Twice, faulty.Ghost, faulty.Status = 100, 50, 50, 100, 50
	sure := remote.NewSure(faulty, time.Minute)
	total := 0
	for range 12 {
		for _, m := range []*machine{a, twin} {
			m.live(rng, 2, "s1", "s2")
			m.mustPush(sure)
			total += 2
		}
	}
	faulty.Flush()
	onceEach(t, mem, both)
	for _, m := range []*machine{a, twin} {
		if r := m.mustPush(mem); r.Records != 0 {
			t.Errorf("there was more to push: %+v", r)
		}
	}
	repo, _ := openRepo(t.Context(), mem)
	f, err := Fetch(t.Context(), repo, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*machine{a, twin} { // what each has is there
		err := m.withStore(func(s *cas.Store, _ *places.Location) error {
			for snap, err := range s.Snapshots(t.Context()) {
				if err != nil {
					return err
				}
				if !slices.ContainsFunc(f.Lines, func(l *FetchedLine) bool {
					r := l.of[snap.Seq]
					return r != nil && r.Snap.Time.Equal(snap.Time) && r.Snap.Tree == snap.Tree
				}) {
					t.Errorf("record %d of session %s is not there", snap.Seq, snap.Session)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if faulty.Faults < 10 {
		t.Errorf("%d faults in %d requests", faulty.Faults, faulty.Requests)
	}
	third := newMachine(t)
	third.mustClone(mem, nil)
}
