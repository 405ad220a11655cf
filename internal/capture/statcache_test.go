package capture

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/nearmiss"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
)

var sampleStore = [16]byte{1: 0x5a, 15: 0x5b}

// sampleBlock makes the block of a directory as a capture does. What a slot
// does not say is the same for all.
func sampleBlock(number uint32, gitignore []byte, slots ...slot) block {
	const dev = 8
	j := &dirJob{
		c:      &capture{clocks: clocks{racyFrom: math.MaxInt64, local: true, rootDev: dev}},
		number: number, rulesID: [16]byte{15: 0x21}, tree: store.ID{0: 0x31, 31: uint8(number)}, slots: slots,
		st: vfs.Stat{Ino: 100 + uint64(number), Dev: dev, Mtime: 1001, Ctime: 1002, Perm: 0o755, Kind: vfs.Directory},
	}
	leaf := blockLeaf{id: j.tree}
	for i := range slots {
		s := &slots[i]
		s.st.Ino, s.st.Dev, s.st.Mtime, s.st.Ctime, s.st.Kind = uint64(200+i), dev, 2001, 2002, s.kind
		if s.name == ".gitignore" {
			j.patterns[0] = patternFile{gitignore, s.st}
		}
		if s.reason == 0 {
			s.id = store.ID{0: 0x41, 31: uint8(i)}
			leaf.end, leaf.count = i+1, leaf.count+1
		}
	}
	return j.encode(make([]bool, len(slots)), []blockLeaf{leaf})
}

// sampleCache is a stat cache of two batches: a directory with one in it, and
// then the first again.
func sampleCache() []byte {
	slots := func(size int64) []slot {
		return []slot{
			{name: ".gitignore", kind: vfs.Regular, st: vfs.Stat{Size: 2, Perm: 0o644}},
			{name: "a", kind: vfs.Regular, racy: true, st: vfs.Stat{Size: size, Perm: 0o755}},
			{name: "d", kind: vfs.Directory, child: 1, st: vfs.Stat{Perm: 0o755}},
			{name: "l", kind: vfs.Symlink, st: vfs.Stat{Size: 1, Perm: 0o777}},
			{name: "x", kind: vfs.Regular, reason: trees.Ignored, matched: true},
		}
	}
	h := batchHeader{store: sampleStore, generation: 7, time: 3000, boot: [16]byte{1}, epoch: 2, stamp: [16]byte{2},
		nextDir: 2,
		packs:   map[[16]byte]int64{{3}: 4000}}
	b := batch(h, 0, sampleBlock(0, []byte("x\n"), slots(5)...), sampleBlock(1, nil))
	h.time = 3001
	return append(b, batch(h, int64(len(b)), sampleBlock(0, []byte("x\n"), slots(6)...))...)
}

// batch returns what a batch writes at an offset.
func batch(h batchHeader, offset int64, blocks ...block) []byte {
	f := &memFile{offset: offset}
	if err := h.write(f, offset, blocksLen(slices.Values(blocks)), slices.Values(blocks)); err != nil {
		panic(err)
	}
	return f.b
}

// A memFile is what is written from an offset on.
type memFile struct {
	offset int64
	b      []byte
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	off -= f.offset
	f.b = append(f.b, make([]byte, max(0, int(off)+len(p)-len(f.b)))...)
	return copy(f.b[off:], p), nil
}

// mendCache returns b with checksums that fit its batches, as far as their
// lengths lead from one to the next.
func mendCache(b []byte) []byte {
	b = bytes.Clone(b)
	for rest := b; len(rest) >= batchHeaderSize; {
		n := le.Uint64(rest[16:])
		if n < 16 || n > uint64(len(rest)) {
			break
		}
		le.PutUint32(rest[12:], crc32.Checksum(rest[16:n], castagnoli))
		rest = rest[n:]
	}
	return b
}

// loadSample loads a stat cache of some bytes.
func loadSample(t testing.TB, b []byte) *statCache {
	t.Helper()
	disk := vfstest.NewMem()
	for _, dir := range []string{"tmp", "worktrees", "worktrees/wt"} {
		if err := disk.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	writeMem(t, disk, "worktrees/wt/"+"statcache", b)
	return loadStatCache(disk, sampleStore, "wt")
}

func writeMem(t testing.TB, disk vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := disk.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
}

var errTwice = errors.New("a directory is in two")

// list tells all that a cache knows below a directory, and an error if one is in
// two.
func (c *statCache) list(dir uint32, prefix string, seen map[uint32]bool) (list []string, err error) {
	if seen[dir] {
		return nil, errTwice
	}
	seen[dir] = true
	b := c.block(dir)
	if b == nil {
		return []string{fmt.Sprintf("%q: nothing", prefix)}, nil
	}
	git, boo := b.files()
	list = append(list, fmt.Sprintf("%q: %d %d %d %d %d %x %s %s %q %q", prefix, b.flags(), b.ino(), b.dev(),
		b.mtime(), b.ctime(), b.rules(),
		b.tree().Short(), b.cover().Short(), git, boo))
	for i := range b.leaves() {
		end, count, id := b.leaf(i)
		list = append(list, fmt.Sprintf("%q: page to %d of %d: %s", prefix, end, count, id.Short()))
		for k := b.leafBegin(i); k < end; k++ {
			if b.entry(k).reason() == 0 {
				count--
			}
		}
		if count != 0 {
			return nil, errors.New("a page has others than those that were captured")
		}
	}
	for i := range b.count() {
		e := b.entry(i)
		name := prefix + b.name(i)
		list = append(list, fmt.Sprintf("%q: %d %d %s %v", name, e.reason(), e.flags(), e.id().Short(),
			e.stat(b.dev())))
		if e.kind() != vfs.Directory || e.reason() != 0 {
			continue
		}
		below, err := c.list(e.child(), name+"/", seen)
		if err != nil {
			return nil, err
		}
		list = append(list, below...)
	}
	return list, nil
}

// FuzzStatCache loads any bytes as a stat cache, and what is loaded is written
// again as it was.
func FuzzStatCache(f *testing.F) {
	good := sampleCache()
	h, body, first, _ := parseBatch(good, 0)
	for _, b := range nearmiss.Of(good[:first]) {
		f.Add(b)
	}
	for _, b := range nearmiss.Of(good[first : first+batchHeaderSize]) {
		f.Add(slices.Concat(good[:first], b, good[first+batchHeaderSize:]))
	}
	// What git has taken out, each with a kind, an ID and a reason that go together
	// or do not.
	for out := outNone; out <= outPart+1; out++ {
		for kind := vfs.Kind(0); kind <= vfs.Special; kind++ {
			for _, id := range []store.ID{{}, {0: 0x51}} {
				s := slot{name: "s", kind: kind, reason: trees.Sparse, out: out, id: id}
				f.Add(batch(h, 0, sampleBlock(0, nil, s)))
				s.reason = 0
				f.Add(batch(h, 0, sampleBlock(0, nil, s)))
			}
		}
	}
	root := block(body[:block(body).size()])
	f.Add(batch(h, 0, root, root))
	f.Add(batch(h, 0, root))
	f.Add(batch(h, 0))
	f.Add(slices.Concat(good[first:], good[:first]))
	for _, n := range []uint64{0, 15, 16, batchHeaderSize - 1, batchHeaderSize, 1<<63 | batchHeaderSize,
		math.MaxUint64} {
		b := bytes.Clone(good)
		le.PutUint64(b[16:], n)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checkCache(t, b)
		checkCache(t, mendCache(b))
	})
}

func checkCache(t *testing.T, b []byte) {
	t.Helper()
	h, body, n, ok := parseBatch(b, 0)
	if ok {
		again := batch(h, 0, body)
		if h2, body2, _, ok := parseBatch(again, 0); !ok || !cmp.Equal(h2, h, cmp.AllowUnexported(h)) ||
			!bytes.Equal(body2, body) {
			t.Errorf("%+v is written as %+v", h, h2)
		}
		if len(h.packs)*24+len(body) > int(n) {
			t.Errorf("a batch of %d bytes has %d packs and %d bytes of blocks", n, len(h.packs), len(body))
		}
	}
	c := loadSample(t, b)
	if c.size > int64(len(b)) || len(c.blocks) > max(1<<20, len(b)) {
		t.Errorf("%d bytes give %d directories in %d", len(b), len(c.blocks), c.size)
	}
	before, err := c.list(0, "", make(map[uint32]bool))
	if err != nil && err != errTwice {
		t.Error(err)
	}
	if err != nil {
		return
	}
	if _, err := c.replace(); err != nil {
		t.Fatalf("replace: %v", err)
	}
	if c.size == 0 {
		return
	}
	again := loadStatCache(c.fsys, c.batch.store, "wt")
	if after, err := again.list(0, "", make(map[uint32]bool)); err != nil || !slices.Equal(after, before) {
		t.Errorf("written again: %v\n%s", err, cmp.Diff(before, after))
	}
}

// FuzzCaptureCache captures a directory with a stat cache that says anything of it.
func FuzzCaptureCache(f *testing.F) {
	root := f.TempDir()
	for _, name := range []string{".gitignore", "a", "x", "d/b", "d/e/c"} {
		write(f, root+"/"+name, "x\n")
	}
	disk := vfstest.NewMem()
	s := openStore(f, disk)
	ws := openWorkspace(f, s, root)
	snapshot(f, s, ws, nil)
	write(f, root+"/d/b", "other\n")
	snapshot(f, s, ws, nil)
	name := "worktrees/" + ws.Worktree + "/" + "statcache"
	good, err := vfs.ReadFile(disk, name)
	if err != nil {
		f.Fatal(err)
	}
	for at := 0; at < len(good); at += 4 {
		f.Add(uint(at), []byte{0, 0, 0, 0})
		f.Add(uint(at), []byte{1, 0, 0, 0})
		f.Add(uint(at), []byte{0xff, 0xff, 0xff, 0xff})
	}
	f.Fuzz(func(t *testing.T, at uint, with []byte) {
		b := bytes.Clone(good)
		if at < uint(len(b)) {
			copy(b[at:], with)
		}
		writeMem(t, disk, name, mendCache(b))
		w, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		ws.Capture(t.Context(), w, &Options{Workers: 1}) // whatever comes of it
	})
}
