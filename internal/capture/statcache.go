package capture

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
)

// The stat cache (docs/reference/format.md §8) remembers, for each directory of a
// worktree, what the last capture saw: the identity of every name in it and
// the objects that came of it. A file whose identity is unchanged is not read
// again, and a directory whose identity is unchanged is not listed.
//
// It is derived data: a cache that is missing, damaged, stale or lost to a
// race costs time, never truth. So nothing here is synced.
//
// The file is a sequence of batches. The first holds a block for every
// directory, the later ones those blocks that changed. It is read whole.

// A statCache is a loaded cache file. Only adopt changes it once it is loaded: it
// replaces blocks, and changes entries and pages of others in place, but no names.
type statCache struct {
	fsys   vfs.FS
	dir    layout.Worktree // worktrees/<id>
	batch  batchHeader
	first  int64 // length of the first batch
	size   int64 // length of all whole batches
	blocks []block
	alone  bool // see Options

	// Of a cache that is kept in memory.
	sums  []dirSum
	lists map[uint32][]trees.PageList // of large directories, as far as they were needed; names are those of the blocks
}

// A batchHeader precedes the blocks of a batch.
type batchHeader struct {
	store      [16]byte
	generation uint64             // random: one value per first batch
	time       int64              // Unix ns, when the batch was written
	boot       [16]byte           // boot of the machine, zero if unknown
	epoch      uint64             // of the store: the ids in the cache were there then
	stamp      [16]byte           // of git's index: what is tracked was asked then; zero if it was not asked everywhere
	nextDir    uint32             // number of the next new directory
	out        [16]byte           // of what git had taken out: gitrepo.Sparse.ID; unknownOut if directories differ
	packs      map[[16]byte]int64 // that were there, and their lengths
}

const (
	batchMagic      = "boostat\n"
	batchVersion    = 1
	batchHeaderSize = 128
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var le = binary.LittleEndian

// write writes a batch of blocks, of size bytes together, at an offset of the
// file. The checksum comes last: half a batch is none. A block is not used any
// more when the next is asked for.
func (h *batchHeader) write(f io.WriterAt, offset int64, size int, blocks iter.Seq[block]) error {
	headers := batchHeaderSize + 24*len(h.packs)
	b := make([]byte, 0, headers)
	b = append(b, batchMagic...)
	b = le.AppendUint32(b, batchVersion)
	b = le.AppendUint32(b, 0) // checksum: see below
	b = le.AppendUint64(b, uint64(headers+size))
	b = le.AppendUint64(b, uint64(offset))
	b = le.AppendUint64(b, h.generation)
	b = le.AppendUint64(b, uint64(h.time))
	b = append(b, h.boot[:]...)
	b = le.AppendUint64(b, h.epoch)
	b = append(b, h.stamp[:]...)
	b = append(b, h.store[:]...)
	b = le.AppendUint32(b, h.nextDir)
	b = le.AppendUint32(b, uint32(len(h.packs)))
	b = append(b, h.out[:]...)
	for id, length := range h.packs {
		b = append(b, id[:]...)
		b = le.AppendUint64(b, uint64(length))
	}
	w := bufio.NewWriterSize(io.NewOffsetWriter(f, offset), min(headers+size, 256<<10))
	_, err := w.Write(b)
	sum := crc32.Checksum(b[16:], castagnoli)
	for blk := range blocks {
		if err != nil {
			return err
		}
		_, err = w.Write(blk)
		sum = crc32.Update(sum, castagnoli, blk)
	}
	if err = errors.Join(err, w.Flush()); err != nil {
		return err
	}
	_, err = f.WriteAt(le.AppendUint32(nil, sum), offset+12)
	return err
}

// parseBatch decodes the batch at the start of b, which is at an offset of
// the file.
func parseBatch(b []byte, offset int64) (h batchHeader, blocks []byte, size int64, ok bool) {
	if len(b) < batchHeaderSize || string(b[:8]) != batchMagic || le.Uint32(b[8:]) != batchVersion {
		return h, nil, 0, false
	}
	n := le.Uint64(b[16:])
	if n < batchHeaderSize || n > uint64(len(b)) || int64(le.Uint64(b[24:])) != offset ||
		le.Uint32(b[12:]) != crc32.Checksum(b[16:n], castagnoli) {
		return h, nil, 0, false
	}
	h.generation = le.Uint64(b[32:])
	h.time = int64(le.Uint64(b[40:]))
	h.boot = [16]byte(b[48:])
	h.epoch = le.Uint64(b[64:])
	h.stamp = [16]byte(b[72:])
	h.store = [16]byte(b[88:])
	h.nextDir = le.Uint32(b[104:])
	packs := int64(le.Uint32(b[108:]))
	h.out = [16]byte(b[112:])
	body := b[batchHeaderSize:n]
	if packs*24 > int64(len(body)) {
		return h, nil, 0, false
	}
	h.packs = make(map[[16]byte]int64, packs)
	for range packs {
		h.packs[[16]byte(body)] = int64(le.Uint64(body[16:]))
		body = body[24:]
	}
	return h, body, int64(n), true
}

// block returns what is known of a directory, nil if nothing is.
func (c *statCache) block(dir uint32) block {
	if int(dir) >= len(c.blocks) {
		return nil
	}
	return c.blocks[dir]
}

// files returns how many files and links there were, and with them what was left out.
func (c *statCache) files() (n int64) {
	if s := c.sum(0); s.known { // thousands of blocks are not at hand
		return s.all.files + s.all.links + s.all.omitted
	}
	for i, b := range c.blocks {
		if b != nil {
			n += int64(b.count())
			if i > 0 { // the root is in no directory
				n--
			}
		}
	}
	return max(n, 0)
}

// loadStatCache reads the cache of a worktree. Whatever is wrong with it
// makes an empty cache.
func loadStatCache(fsys vfs.FS, storeID [16]byte, worktree string) *statCache {
	c := &statCache{fsys: fsys, dir: layout.Worktree(worktree)}
	b, err := vfs.ReadFile(fsys, c.dir.Cache())
	if err != nil {
		return c
	}
	for {
		h, body, n, ok := parseBatch(b[c.size:], c.size)
		if !ok || h.store != storeID || c.size > 0 && h.generation != c.batch.generation {
			return c
		}
		if !c.take(body, h.nextDir, int64(len(b))) {
			return &statCache{fsys: fsys, dir: c.dir}
		}
		if c.size == 0 {
			c.first = n
		}
		c.batch = h
		c.size += n
	}
}

// take adds the blocks of a batch of a file of some size.
func (c *statCache) take(b []byte, nextDir uint32, fileSize int64) bool {
	// A damaged number must not take memory without limit. There are more of
	// them than bytes only if many directories never had a block.
	if nextDir > 1<<26 || nextDir > 1<<20 && int64(nextDir) > fileSize {
		return false
	}
	c.blocks = slices.Grow(c.blocks, int(nextDir)-min(len(c.blocks), int(nextDir)))
	for int(nextDir) > len(c.blocks) {
		c.blocks = append(c.blocks, nil)
	}
	for len(b) > 0 {
		if len(b) < blockHeaderSize || block(b).size() < blockHeaderSize || int64(block(b).size()) > int64(len(b)) {
			return false
		}
		blk := block(b[:block(b).size()])
		if !blk.valid(nextDir) || int(blk.dir()) >= len(c.blocks) {
			return false
		}
		c.blocks[blk.dir()] = blk
		b = b[len(blk):]
	}
	return true
}

// errCacheMoved: another process has written the cache meanwhile.
var errCacheMoved = errors.New("stat cache has moved on")

// save writes what a capture found: changed blocks by number of directory.
// Directories are numbered by whoever adds them, so a batch is appended only
// to the very state that the capture has read; otherwise it is dropped.
func (c *statCache) save(h batchHeader, changed map[uint32]block) error {
	locked := c.locked
	if c.alone { // who stays and saves its cache replaces the file, and appends nothing
		locked = func(fn func() error) error { return fn() }
	}
	return locked(func() error {
		h.time = time.Now().UnixNano()
		added := int64(blocksLen(maps.Values(changed)))
		if c.size > 0 && c.size+added <= c.first+c.first/4 {
			return c.append(h, changed)
		}
		// The state that we have read must still be the newest, except that a
		// file which we could not read is no loss.
		if now := loadStatCache(c.fsys, h.store, string(c.dir)); now.size > 0 &&
			(now.batch.generation != c.batch.generation || now.size != c.size) {
			return errCacheMoved
		}
		_, err := c.rewrite(h, changed)
		return err
	})
}

// locked calls fn under the lock on the cache file.
func (c *statCache) locked(fn func() error) error {
	if err := c.fsys.Mkdir(c.dir.Dir(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	lock, err := c.fsys.OpenFile(c.dir.CacheLock(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if ok, err := lock.TryLock(vfs.Exclusive); !ok || err != nil {
		return errors.Join(err, errCacheMoved)
	}
	return fn()
}

// append adds a batch behind those that were read.
func (c *statCache) append(h batchHeader, changed map[uint32]block) error {
	f, err := c.fsys.OpenFile(c.dir.Cache(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	now := make([]byte, batchHeaderSize)
	if _, err := f.ReadAt(now, 0); err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	// A torn batch at the end is no batch; anything else is news.
	if le.Uint64(now[32:]) != c.batch.generation || st.Size > c.size && wholeBatchAt(f, c.size, st.Size) {
		return errCacheMoved
	}
	h.generation = c.batch.generation
	return h.write(f, c.size, blocksLen(maps.Values(changed)), maps.Values(changed))
}

// blocksLen returns how many bytes blocks have together.
func blocksLen(blocks iter.Seq[block]) (n int) {
	for b := range blocks {
		n += len(b)
	}
	return n
}

func wholeBatchAt(f vfs.File, off, end int64) bool {
	b := make([]byte, end-off)
	if _, err := f.ReadAt(b, off); err != nil && err != io.EOF {
		return true // we cannot tell
	}
	_, _, _, ok := parseBatch(b, off)
	return ok
}

// rewrite replaces the file by one batch of all directories that the root,
// number 0, leads to, numbered afresh. It returns how many there are.
func (c *statCache) rewrite(h batchHeader, changed map[uint32]block) (dirs int, err error) {
	blockOf := func(dir uint32) block { // nil: never finished, it will be captured from scratch
		if b := changed[dir]; b != nil {
			return b
		}
		return c.block(dir)
	}
	found := []uint32{0}                        // old numbers, by new ones
	number := make([]uint32, max(h.nextDir, 1)) // and the other way round; 0: not found, or the root
	size := 0
	for i := 0; i < len(found); i++ {
		b := blockOf(found[i])
		if b == nil {
			continue
		}
		size += len(b)
		for e := range b.subdirs() {
			child := e.child()
			if int(child) >= len(number) || child == 0 || number[child] != 0 {
				return 0, errors.New("stat cache: a directory is in two")
			}
			number[child] = uint32(len(found))
			found = append(found, child)
		}
	}
	var gen [8]byte
	rand.Read(gen[:])
	h.generation = le.Uint64(gen[:])
	h.nextDir = uint32(len(found))

	tmp := "tmp/" + hex.EncodeToString(gen[:])
	f, err := c.fsys.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	err = h.write(f, 0, size, func(yield func(block) bool) {
		var b block // a copy of one: all may be a hundred megabytes
		for i, old := range found {
			if b = append(b[:0], blockOf(old)...); len(b) == 0 {
				continue
			}
			le.PutUint32(b[4:], uint32(i))
			for e := range b.subdirs() {
				le.PutUint32(e[76:], number[e.child()])
			}
			if !yield(b) {
				return
			}
		}
	})
	if err = errors.Join(err, f.Close()); err == nil {
		err = vfs.ReplaceFile(c.fsys, tmp, c.dir.Cache())
	}
	c.fsys.Remove(tmp) // what is called so now: the old file, half a new one, or none
	return len(found), err
}

// replace writes a cache that is kept in memory over whatever cache is there: each of
// them was true when it was made. It returns how many directories it has.
func (c *statCache) replace() (dirs int, err error) {
	err = c.locked(func() error {
		h := c.batch
		h.time = time.Now().UnixNano()
		dirs, err = c.rewrite(h, nil)
		return err
	})
	return dirs, err
}
