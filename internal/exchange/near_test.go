package exchange

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
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

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/remote/near"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
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
	setSizes(t, 1<<20, maxPack)
	a := newMachine(t)
	dir, err := remote.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	x := &nearTest{t: t, a: a, remote: &packCounter{Backend: dir}, dir: filepath.Join(t.TempDir(), "near")}
	rng := rand.NewChaCha8([32]byte{7})
	for i := range 2 { // of more than goes into an entry
		a.turn("s1", "all", func() {
			for j := range 2 {
				b := make([]byte, 9<<17) // in chunks
				rng.Read(b)
				a.write(fmt.Sprintf("d/%d%d", i, j), string(b))
				a.write(fmt.Sprintf("e/%d%d", i, j), string(b[:100_000])) // in one piece
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
	testseed.Sequential(t)
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

// lazy has another machine clone without contents, and then read them. It returns how often a pack was asked for.
func (x *nearTest) lazy(meanwhile func(*cas.Store) error) int {
	x.t.Helper()
	t, m, c := x.t, newMachine(x.t), x.open()
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
		if err := meanwhile(s); err != nil {
			return err
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
	return x.remote.take()
}

// TestNearLazy has who leaves contents at the remote read them by what is nearby, also if that is damaged then.
func TestNearLazy(t *testing.T) {
	testseed.Sequential(t)
	x := newNearTest(t)
	for range 2 {
		if n := x.lazy(func(*cas.Store) error { return nil }); n > x.packs {
			t.Errorf("packs were asked for %d times", n)
		}
	}
	n := x.lazy(func(*cas.Store) error {
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
		return nil
	})
	if n == 0 {
		t.Error("damaged: no pack was asked for")
	}
	if len(x.told) != 1 {
		t.Errorf("told: %v", x.told)
	}
}

// sealOf returns what seals the parts of a pack, as everybody has it who can read the remote.
func (x *nearTest) sealOf(ref *lines.PackRef) cipher.AEAD {
	x.t.Helper()
	doc, err := x.remote.Get(x.t.Context(), "FORMAT", 0, -1)
	var format struct {
		Plain string `json:"plainKeys"`
	}
	if err == nil {
		err = json.Unmarshal(doc, &format)
	}
	var k, d [32]byte
	if err == nil {
		list := strings.Fields(format.Plain) // a title of two words, and of each key its number and itself
		_, err = hex.Decode(k[:], []byte(list[3]))
	}
	if err != nil {
		x.t.Fatal(err)
	}
	blake3.DeriveKey("github.com/boocode/filestore 2026-11-25 remote seal v1", k[:], d[:])
	h, err := blake3.NewKeyed(d[:])
	if err != nil {
		x.t.Fatal(err)
	}
	h.Write(ref.Hash[:])
	c, err := aes.NewCipher(h.Sum(nil))
	if err != nil {
		x.t.Fatal(err)
	}
	seal, err := cipher.NewGCM(c)
	if err != nil {
		x.t.Fatal(err)
	}
	return seal
}

// forge has fn make another record of the same length of each in the packs that are nearby, rightly sealed, and
// returns of how many it did.
func (x *nearTest) forge(s *cas.Store, fn func(record []byte) []byte) (n int) {
	x.t.Helper()
	p, err := s.PromisesOf("origin")
	if err != nil {
		x.t.Fatal(err)
	}
	p.All(func(_ store.ID, at cas.PromisedPlace) {
		ref := packRef(&p.Packs[at.Pack])
		h := hex.EncodeToString(ref.Hash[:])
		name := filepath.Join(x.dir, h[:2], h)
		b, err := os.ReadFile(name)
		if err != nil {
			x.t.Fatal(err)
		}
		seal, aad := x.sealOf(ref), append([]byte(ref.Key()), b[:16]...)
		nonce := binary.LittleEndian.AppendUint64(make([]byte, 4), at.Off)
		sealed := b[at.Off:][:at.Len]
		record, err := seal.Open(nil, nonce, sealed, aad)
		if err != nil {
			x.t.Fatal(err)
		}
		forged := fn(bytes.Clone(record))
		if bytes.Equal(forged, record) {
			return
		}
		if copy(sealed, seal.Seal(nil, nonce, forged, aad)) != len(forged)+16 || len(forged) != len(record) {
			x.t.Fatal("a forged record has another length")
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			x.t.Fatal(err)
		}
		n++
	})
	return n
}

// TestNearForged has somebody who has the keys put parts nearby that are rightly sealed, and are not what was put
// there. Who reads them then has what was pushed, hears of it, and keeps nothing of what was forged.
func TestNearForged(t *testing.T) {
	testseed.Sequential(t)
	header := func(record []byte) pack.Header {
		h, err := pack.ParseHeader(record)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	for what, fn := range map[string]func(record []byte) []byte{
		"another content": func(record []byte) []byte { // one that is what its ID says
			h, payload := header(record), record[pack.HeaderSize:]
			if h.Kind != 1 || h.Codec != 0 {
				return record
			}
			payload[0] ^= 1
			h.ID, h.Crc = object.Hash(object.Blob, payload), layout.Checksum(payload)
			return append(h.Append(nil), payload...)
		},
		"a content under the ID of another": func(record []byte) []byte {
			h, payload := header(record), record[pack.HeaderSize:]
			if h.Kind != 1 || h.Codec != 0 {
				return record
			}
			payload[0] ^= 1
			h.Crc = layout.Checksum(payload)
			return append(h.Append(nil), payload...)
		},
		"a list of other chunks": func(record []byte) []byte {
			h, payload := header(record), record[pack.HeaderSize:]
			if !cas.IsChunkList(record) {
				return record
			}
			payload[0] ^= 1
			h.Crc = layout.Checksum(payload)
			return append(h.Append(nil), payload...)
		},
	} {
		x := newNearTest(t)
		n := x.lazy(func(s *cas.Store) error {
			if x.forge(s, fn) == 0 {
				t.Errorf("%s: nothing was forged", what)
			}
			return nil
		})
		if n <= x.packs || len(x.told) != 1 {
			t.Errorf("%s: packs were asked for %d times, and it was told %v", what, n, x.told)
		}
	}
}
