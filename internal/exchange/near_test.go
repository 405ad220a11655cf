package exchange

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/remote/near"
	"github.com/boocode/filestore/internal/trees"
)

// A packCounter counts what is read of packs.
type packCounter struct {
	remote.Backend
	mu sync.Mutex // guards n
	n  int
}

func (c *packCounter) Get(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if strings.HasPrefix(key, lines.PackPrefix) {
		c.mu.Lock()
		c.n++
		c.mu.Unlock()
	}
	return c.Backend.Get(ctx, key, off, n)
}

// take returns what was counted since it was called last.
func (c *packCounter) take() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n
	c.n = 0
	return n
}

// nearTest is a remote with packs, and a directory that keeps them nearby.
type nearTest struct {
	t      *testing.T
	a      *machine
	remote *packCounter
	dir    string
	packs  int
	told   []error
	mu     sync.Mutex // guards told
}

func newNearTest(t *testing.T) *nearTest {
	a := newMachine(t)
	dir, err := remote.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	x := &nearTest{t: t, a: a, remote: &packCounter{Backend: dir}, dir: filepath.Join(t.TempDir(), "near")}
	rng := rand.NewChaCha8([32]byte{7})
	for i := range 2 { // of more than goes into an entry
		a.turn("s1", "all", func() {
			for j := range 3 {
				b := make([]byte, 2<<20)
				rng.Read(b)
				a.write(fmt.Sprintf("d/%d%d", i, j), string(b))
			}
		})
		a.mustPush(dir)
	}
	for _, err := range dir.List(t.Context(), lines.PackPrefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		x.packs++
	}
	if x.packs < 2 {
		t.Fatalf("%d packs are there: want some", x.packs)
	}
	return x
}

// open returns the cache, as another process has it.
func (x *nearTest) open() *near.Cache {
	x.t.Helper()
	c, err := near.Open(x.dir, 0, func(err error) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.told = append(x.told, err)
	})
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { c.Close() })
	return c
}

// clone has another machine clone, and returns how often a pack was asked for.
func (x *nearTest) clone() int {
	x.t.Helper()
	m := newMachine(x.t)
	m.near = x.open()
	x.remote.take()
	m.mustClone(x.remote, nil)
	if !maps.Equal(m.files(), x.a.files()) {
		x.t.Error("a clone has other files")
	}
	return x.remote.take()
}

// files returns the packs that are nearby.
func (x *nearTest) files() (list []string) {
	x.t.Helper()
	err := filepath.WalkDir(x.dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, name)
		}
		return err
	})
	if err != nil {
		x.t.Fatal(err)
	}
	return list
}

// TestNear has one who clones ask for each pack, and none of those who come after, or at once.
func TestNear(t *testing.T) {
	x := newNearTest(t)
	var all sync.WaitGroup
	total := 0
	for range 3 {
		m := newMachine(t)
		m.near = x.open()
		all.Go(func() {
			if _, err := m.clone(x.remote, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if total = x.remote.take(); total != x.packs {
		t.Errorf("three at once asked %d times for %d packs", total, x.packs)
	}
	if n := x.clone(); n > 0 {
		t.Errorf("who comes later asked %d times for packs", n)
	}
	if len(x.told) > 0 {
		t.Errorf("told: %v", x.told)
	}
}

// TestNearDamaged has what is nearby be damaged in each way: clones have what was pushed, say so once, and mend it.
func TestNearDamaged(t *testing.T) {
	x := newNearTest(t)
	x.clone()
	list := x.files()
	if len(list) != x.packs {
		t.Fatalf("%d packs are nearby, of %d", len(list), x.packs)
	}
	write := func(name string, b []byte) error { return os.WriteFile(name, b, 0o600) }
	for what, damage := range map[string]func(name string, b []byte) error{
		"a byte": func(name string, b []byte) error {
			b[len(b)/2] ^= 1
			return write(name, b)
		},
		"its index": func(name string, b []byte) error {
			b[len(b)-20] ^= 1
			return write(name, b)
		},
		"shorter":     func(name string, b []byte) error { return write(name, b[:len(b)-1]) },
		"longer":      func(name string, b []byte) error { return write(name, append(b, 0)) },
		"empty":       func(name string, _ []byte) error { return write(name, nil) },
		"zeros":       func(name string, b []byte) error { return write(name, make([]byte, len(b))) },
		"a directory": func(name string, _ []byte) error { return errors.Join(os.Remove(name), os.Mkdir(name, 0o700)) },
		"another's": func(name string, _ []byte) error {
			other := list[0]
			if name == other {
				other = list[1]
			}
			b, err := os.ReadFile(other)
			if err != nil {
				return err
			}
			return write(name, b)
		},
	} {
		for _, name := range x.files() {
			b, err := os.ReadFile(name)
			if err == nil {
				err = damage(name, b)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		x.told = nil
		if n := x.clone(); n == 0 {
			t.Errorf("%s: no pack was asked for", what)
		}
		if len(x.told) != 1 {
			t.Errorf("%s: told %d times: %v", what, len(x.told), x.told)
		}
		if what == "a directory" { // nobody has the right to remove it
			os.RemoveAll(x.dir)
		}
		x.clone() // what was dropped is put again
		if n := x.clone(); n > 0 {
			t.Errorf("%s: then %d packs were asked for again", what, n)
		}
	}
}

// TestNearLazy has who leaves contents at the remote read them by what is nearby, also if that is damaged then.
func TestNearLazy(t *testing.T) {
	x := newNearTest(t)
	for _, damage := range []bool{false, false, true} {
		m := newMachine(t)
		c := x.open()
		x.remote.take()
		err := m.withStore(func(s *cas.Store, loc *places.Location) error {
			repo, err := openRepo(t.Context(), x.remote)
			if err != nil {
				return err
			}
			repo.UseNear(c)
			fetcher := &Fetcher{Open: func(context.Context, *Config) (*lines.Repo, error) { return repo, nil }}
			ctx := cas.WithFetcher(t.Context(), fetcher.Fetch)
			if err := Add(ctx, s.FS(), &Config{Name: "origin", URL: "x", ID: repo.ID()}); err != nil {
				return err
			}
			f, err := Fetch(ctx, repo, nil)
			if err != nil {
				return err
			}
			goOn, _ := f.Newest()
			imp := &Importer{Store: s, Repo: repo, Name: "origin", Worktree: loc.Project.Worktree,
				Root: loc.Project.Root, Lazy: true}
			if _, err := imp.Import(ctx, f, goOn); err != nil {
				return err
			}
			if damage {
				for _, name := range x.files() {
					b, err := os.ReadFile(name)
					if err == nil {
						b[len(b)/3] ^= 1
						err = os.WriteFile(name, b, 0o600)
					}
					if err != nil {
						return err
					}
				}
			}
			snap, err := s.Newest(ctx, loc.Project.Worktree, "s1")
			if err != nil {
				return err
			}
			r, err := trees.Export(ctx, s, snap.Tree, m.dir)
			if err == nil && len(r.Lost) > 0 {
				t.Errorf("lost: %v", r.Lost)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(m.files(), x.a.files()) {
			t.Error("a lazy clone has other files")
		}
		if n := x.remote.take(); damage && n == 0 || !damage && n > x.packs {
			t.Errorf("damaged: %v; packs were asked for %d times", damage, n)
		}
	}
	if len(x.told) != 1 {
		t.Errorf("told: %v", x.told)
	}
}
