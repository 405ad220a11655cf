package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

// A counted counts requests, and what came by them. It may be away.
type counted struct {
	remote.Backend
	n, bytes atomic.Int64
	away     atomic.Bool
}

func (c *counted) Get(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if c.away.Load() {
		return nil, errors.New("the remote is away")
	}
	b, err := c.Backend.Get(ctx, key, off, n)
	c.n.Add(1)
	c.bytes.Add(int64(len(b)))
	return b, err
}

// lazyFile returns the name and the content of a file of TestLazy.
func lazyFile(dir, i int) (name, text string) {
	rng := rand.New(rand.NewPCG(uint64(dir), uint64(i)))
	b := make([]byte, 1000+rng.IntN(6000))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return fmt.Sprintf("d%03d/f%02d", dir, i), string(b)
}

const lazyDirs, lazyFiles = 60, 50

// TestRanges asks for objects at random: all that is wanted comes, and nothing twice, over gaps of
// which nothing is promised, too. What few parts are in comes in one request, where it is near.
func TestRanges(t *testing.T) {
	rng := testseed.Rand(t)
	for range 200 {
		s := cas.Promises{Packs: make([]cas.PromisedPack, 1+rng.IntN(3))}
		all := make(map[store.ID]cas.PromisedPlace)
		for pack := range s.Packs {
			off := uint64(16)
			for range rng.IntN(300) {
				at := cas.PromisedPlace{Pack: pack, Off: off, Len: uint32(1 + rng.IntN(100<<10))}
				if rng.IntN(50) == 0 {
					at.Len = uint32(5 << 20)
				}
				off = endOf(at) + []uint64{0, 0, 0, 0, 0, 30 << 10, 60 << 10, 300 << 10}[rng.IntN(8)]
				all[store.ID{byte(pack), byte(len(all)), byte(len(all) >> 8)}] = at
			}
			s.Packs[pack] = cas.PromisedPack{Generation: 1, Size: off, Index: off}
		}
		p := promised(t, s.Packs, all)
		var ids []store.ID
		one := []int{1, 2, 40}[rng.IntN(3)]
		for id := range all {
			if rng.IntN(one) == 0 {
				ids = append(ids, id)
			}
		}
		list := new(Fetcher).ranges(p, ids)
		wanted := make(map[cas.PromisedPlace]bool)
		for _, id := range ids {
			wanted[all[id]] = true
		}
		comes := make(map[cas.PromisedPlace]int)
		var ends []uint64 // of what is wanted in each range
		for i, r := range list {
			ends = append(ends, 0)
			for _, at := range r.parts {
				if comes[at]++; wanted[at] {
					ends[i] = endOf(at)
				}
			}
			if i == 0 || list[i-1].parts[0].Pack != r.parts[0].Pack {
				continue
			}
			from, to := list[i-1].end(), r.parts[0].Off
			if to < from {
				t.Errorf("%d bytes come twice", from-to)
			}
			isLong := endOf(r.parts[0])-list[i-1].parts[0].Off > maxRange
			if gap := to - ends[i-1]; len(ids) <= fewParts && gap < maxAhead && !isLong {
				t.Errorf("two requests for what is %d bytes apart", gap)
			}
		}
		for at := range wanted {
			if n := comes[at]; n != 1 {
				t.Errorf("%+v of %d comes %d times", at, len(ids), n)
			}
		}
	}
}

// promised has a store take up what a remote promises, and returns it.
func promised(t *testing.T, packs []cas.PromisedPack, all map[store.ID]cas.PromisedPlace) *cas.Promises {
	t.Helper()
	s, err := cas.OpenFS(t.Context(), vfstest.NewMem(), new(cas.Options))
	if err == nil {
		defer s.Close()
		err = errors.Join(s.FS().Mkdir("remotes", 0o700), s.FS().Mkdir("remotes/team", 0o700))
	}
	if err == nil {
		err = s.AddPromises(t.Context(), "team", packs, all)
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.PromisesOf("team")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestLazy counts what it costs to read contents that were left at a remote, and has reads fail
// while that is away.
func TestLazy(t *testing.T) {
	a, b := newMachine(t), newMachine(t)
	dir, err := remote.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a.turn("s1", "all", func() {
		for d := range lazyDirs {
			for i := range lazyFiles {
				a.write(lazyFile(d, i))
			}
		}
	})
	a.mustPush(dir)
	backend := &counted{Backend: dir}
	repo, err := openRepo(t.Context(), backend)
	if err != nil {
		t.Fatal(err)
	}
	fetcher := &Fetcher{Open: func(context.Context, *Config) (*lines.Repo, error) { return repo, nil }}
	ctx := cas.WithFetcher(t.Context(), fetcher.Fetch)
	err = b.withStore(func(s *cas.Store, loc *places.Location) error {
		if err := Add(ctx, s.FS(), &Config{Name: "origin", URL: "x", ID: repo.ID()}); err != nil {
			return err
		}
		f, err := Fetch(ctx, repo, nil)
		if err != nil {
			return err
		}
		goOn, _ := f.Newest()
		m := &Importer{Store: s, Repo: repo, Name: "origin", Worktree: loc.Project.Worktree, Root: loc.Project.Root,
			Lazy: true}
		if _, err := m.Import(ctx, f, goOn); err != nil {
			return err
		}
		if n, err := s.Absent("origin"); err != nil || n < lazyDirs*lazyFiles {
			t.Errorf("%d contents are there and not here, %v", n, err)
		}
		t.Logf("opened with %d requests, %d bytes", backend.n.Load(), backend.bytes.Load())
		snap, err := s.Newest(ctx, loc.Project.Worktree, "s1")
		if err != nil {
			return err
		}
		x := &lazyReader{t: t, ctx: ctx, s: s, backend: backend, tree: snap.Tree}
		x.away()
		x.directory()
		x.atRandom()
		x.whole(snap)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

type lazyReader struct {
	t       *testing.T
	ctx     context.Context
	s       *cas.Store
	backend *counted
	tree    store.ID
}

func (x *lazyReader) id(dir, i int) (id store.ID, text string) {
	x.t.Helper()
	name, text := lazyFile(dir, i)
	e, err := trees.Lookup(x.ctx, x.s, x.tree, name)
	if err != nil {
		x.t.Fatal(err)
	}
	return e.ID, text
}

func (x *lazyReader) read(dir, i int) {
	x.t.Helper()
	id, text := x.id(dir, i)
	var b bytes.Buffer
	if _, err := x.s.CopyBlob(x.ctx, &b, id); err != nil || b.String() != text {
		x.t.Fatalf("file %d of %d: %d bytes, want %d: %v", i, dir, b.Len(), len(text), err)
	}
}

// away has reads fail, and say why, while the remote does not answer, or nobody knows how to ask it.
func (x *lazyReader) away() {
	x.backend.away.Store(true)
	id, _ := x.id(0, 0)
	_, err := x.s.CopyBlob(x.ctx, io.Discard, id)
	if !cas.IsPromised(err) || trees.IsLoss(err) || !strings.Contains(err.Error(), `"origin"`) {
		x.t.Errorf("read of a remote that is away: %v", err)
	}
	x.backend.away.Store(false)
	if _, err := x.s.Get(context.Background(), 1, id); !cas.IsPromised(err) || trees.IsLoss(err) {
		x.t.Errorf("read by who cannot fetch: %v", err)
	}
	problems, err := audit.NewChecker(x.s).Snapshot(x.ctx, &store.Snapshot{Tree: x.tree})
	if err != nil || len(problems) > 0 {
		x.t.Errorf("check: %v, %v", problems, err)
	}
}

// directory reads the files of one directory, one after the other.
func (x *lazyReader) directory() {
	before := x.backend.n.Load()
	for i := range lazyFiles {
		x.read(7, i)
	}
	if n := x.backend.n.Load() - before; n > 5 {
		x.t.Errorf("a directory of %d files: %d requests, want at most 5", lazyFiles, n)
	}
}

// atRandom fetches 1 % of the files.
func (x *lazyReader) atRandom() {
	rng := rand.New(rand.NewPCG(1, 2))
	var ids []store.ID
	plain := int64(0)
	for range lazyDirs * lazyFiles / 100 {
		id, text := x.id(rng.IntN(lazyDirs), rng.IntN(lazyFiles))
		ids, plain = append(ids, id), plain+int64(len(text))
	}
	before, bytes := x.backend.n.Load(), x.backend.bytes.Load()
	if err := x.s.Prefetch(x.ctx, ids); err != nil {
		x.t.Fatal(err)
	}
	n, more := x.backend.n.Load()-before, x.backend.bytes.Load()-bytes
	x.t.Logf("%d files at random, %d bytes: %d requests, %d bytes", len(ids), plain, n, more)
	if n > int64(len(ids)) || n > 600 {
		x.t.Errorf("%d files at random: %d requests", len(ids), n)
	}
	if groups := x.groups(ids); more > groups+groups/20 {
		x.t.Errorf("%d files at random: %d bytes came for groups of %d", len(ids), more, groups)
	}
	before = x.backend.n.Load()
	for _, id := range ids {
		if _, err := x.s.CopyBlob(x.ctx, io.Discard, id); err != nil {
			x.t.Fatal(err)
		}
	}
	if n := x.backend.n.Load() - before; n > 0 {
		x.t.Errorf("%d requests for what had been fetched", n)
	}
}

// groups returns how many bytes the groups take that contents are in: so much has to come.
func (x *lazyReader) groups(ids []store.ID) (sum int64) {
	p, err := x.s.PromisesOf("origin")
	if err != nil {
		x.t.Fatal(err)
	}
	seen := make(map[cas.PromisedPlace]bool)
	for _, id := range ids {
		if at, ok := p.Find(id); ok && !seen[at] {
			seen[at] = true
			sum += int64(at.Len)
		}
	}
	return sum
}

// whole writes all files, and has nothing left to be asked for.
func (x *lazyReader) whole(snap *store.Snapshot) {
	before := x.backend.n.Load()
	n, err := FetchAll(x.ctx, x.s, "origin")
	if err != nil || n == 0 {
		x.t.Fatalf("fetched %d, %v", n, err)
	}
	x.t.Logf("the other %d contents: %d requests", n, x.backend.n.Load()-before)
	x.backend.away.Store(true)
	r, err := trees.Export(x.ctx, x.s, snap.Tree, filepath.Join(x.t.TempDir(), "whole"))
	if err != nil || r.Files != lazyDirs*lazyFiles || len(r.Lost) > 0 {
		x.t.Errorf("export: %+v, %v", r, err)
	}
	x.backend.away.Store(false)
}
