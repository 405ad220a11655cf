package tree

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
	"unsafe"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// The stat cache (docs/format.md §8) remembers, for each directory of a
// worktree, what the last capture saw: the identity of every name in it and
// the objects that came of it. A file whose identity is unchanged is not read
// again, and a directory whose identity is unchanged is not listed.
//
// It is derived data: a cache that is missing, damaged, stale or lost to a
// race costs time, never truth. So nothing here is synced.
//
// The file is a sequence of batches. The first holds a block for every
// directory, the later ones those blocks that changed. It is read whole.

// A statCache is a loaded cache file. It is not changed once loaded, but by
// adopt, which replaces blocks, and changes entries and pages of them in place:
// all but their names.
type statCache struct {
	fsys   vfs.FS
	dir    string // worktrees/<id>
	batch  batchHeader
	first  int64 // length of the first batch
	size   int64 // length of all whole batches
	blocks []block

	// Of a cache that is kept in memory.
	sums  []dirSum
	lists map[uint32][]pageList // of large directories, as far as they were needed; names are those of the blocks
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

// A block is what is known of one directory: a header, its names in order,
// the pages of its tree, and the pattern files that lie in it.
type block []byte

const (
	blockHeaderSize = 152
	blockEntrySize  = 80
	blockLeafSize   = 40

	noFile = ^uint32(0) // length of a pattern file that does not exist
)

// Flags of a block.
const listingRacy = 1 // names may have changed without a trace: list again

// Flags of an entry in a block.
const (
	flagRacy     = 1 << iota // content may have changed without a trace: read again
	flagBoundary             // a large directory is cut before this name
	flagMatched              // an ignore rule matches (and git tracks it, if it was captured)

	outShift = 3 // where an outKind is
)

func (b block) size() uint32    { return le.Uint32(b) }
func (b block) dir() uint32     { return le.Uint32(b[4:]) }
func (b block) count() int      { return int(le.Uint32(b[8:])) }
func (b block) leaves() int     { return int(le.Uint32(b[12:])) }
func (b block) flags() uint32   { return le.Uint32(b[16:]) }
func (b block) ino() uint64     { return le.Uint64(b[24:]) }
func (b block) dev() uint64     { return le.Uint64(b[32:]) }
func (b block) mtime() int64    { return int64(le.Uint64(b[40:])) }
func (b block) ctime() int64    { return int64(le.Uint64(b[48:])) }
func (b block) rules() [16]byte { return [16]byte(b[56:]) }
func (b block) tree() store.ID  { return store.ID(b[72:]) }
func (b block) cover() store.ID { return store.ID(b[104:]) }
func (b block) namesLen() int   { return int(le.Uint32(b[144:])) }
func (b block) leafStart() int  { return blockHeaderSize + b.count()*blockEntrySize }
func (b block) nameStart() int  { return b.leafStart() + b.leaves()*blockLeafSize }
func (b block) entry(i int) entry {
	return entry(b[blockHeaderSize+i*blockEntrySize:][:blockEntrySize])
}

// subdirs returns the entries of captured directories.
func (b block) subdirs() iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for i := range b.count() {
			if e := b.entry(i); e.isTree() && !yield(e) {
				return
			}
		}
	}
}

// leaf returns a page: the end of its entries, how many of them it holds,
// and its id.
func (b block) leaf(i int) (end, count int, id store.ID) {
	l := b[b.leafStart()+i*blockLeafSize:]
	return int(le.Uint32(l)), int(le.Uint32(l[4:])), store.ID(l[8:])
}

// leafBegin returns where the entries of a page begin, with what is left out
// before the first.
func (b block) leafBegin(i int) int {
	if i == 0 {
		return 0
	}
	return b.leafEnd(i - 1)
}

// leafEnd returns where the entries of a page end.
func (b block) leafEnd(i int) int { return int(le.Uint32(b[b.leafStart()+i*blockLeafSize:])) }

// name returns the name of entry i without copying it: blocks do not change.
func (b block) name(i int) string {
	start := int(b.entry(i).nameOff())
	end := b.namesLen()
	if i+1 < b.count() {
		end = int(b.entry(i + 1).nameOff())
	}
	names := b[b.nameStart():]
	return unsafe.String(unsafe.SliceData(names[start:end]), end-start)
}

// files returns the content of .gitignore and .booignore, nil where there is
// no such file.
func (b block) files() (gitignore, booignore []byte) {
	rest := b[b.nameStart()+b.namesLen():]
	take := func(n uint32) []byte {
		if n == noFile {
			return nil
		}
		f := rest[:n:n]
		rest = rest[n:]
		return f
	}
	gitignore = take(le.Uint32(b[136:]))
	booignore = take(le.Uint32(b[140:]))
	return gitignore, booignore
}

// valid checks that all offsets stay inside, and that the pages have the names
// that were captured. The batch has a checksum, so what fails here was written
// wrong.
func (b block) valid(nextDir uint32) bool {
	if len(b) < blockHeaderSize || b.nameStart()+b.namesLen() > len(b) {
		return false
	}
	end := uint32(b.namesLen())
	captured := 0
	for i := b.count() - 1; i >= 0; i-- {
		e := b.entry(i)
		if e.nameOff() >= end || e.kind() > vfs.Special || e.reason() > maxReason || !validOut(e) ||
			e.isTree() && e.child() >= nextDir {
			return false
		}
		end = e.nameOff()
		if e.reason() == 0 {
			captured++
		}
	}
	i := 0
	for n := range b.leaves() {
		end, count, _ := b.leaf(n)
		if end < i || end > b.count() {
			return false
		}
		captured -= count
		for ; i < end; i++ {
			if b.entry(i).reason() == 0 {
				count--
			}
		}
		if count != 0 {
			return false
		}
	}
	if captured != 0 {
		return false
	}
	files := len(b) - b.nameStart() - b.namesLen()
	for _, n := range []uint32{le.Uint32(b[136:]), le.Uint32(b[140:])} {
		if n != noFile {
			files -= int(n)
		}
	}
	return files == 0
}

// An entry is one name in a block.
type entry []byte

func (e entry) fileSize() int64 { return int64(le.Uint64(e)) }
func (e entry) mtime() int64    { return int64(le.Uint64(e[8:])) }
func (e entry) ctime() int64    { return int64(le.Uint64(e[16:])) }
func (e entry) ino() uint64     { return le.Uint64(e[24:]) }
func (e entry) id() store.ID    { return store.ID(e[32:]) }
func (e entry) perm() uint16    { return le.Uint16(e[64:]) }
func (e entry) kind() vfs.Kind  { return vfs.Kind(e[66]) }
func (e entry) reason() Reason  { return Reason(e[67]) }
func (e entry) flags() uint32   { return le.Uint32(e[68:]) }
func (e entry) out() outKind    { return outKind(e.flags() >> outShift & 7) }
func (e entry) nameOff() uint32 { return le.Uint32(e[72:]) }
func (e entry) child() uint32   { return le.Uint32(e[76:]) } // number of a captured directory

// isTree reports whether the entry is a captured directory.
func (e entry) isTree() bool { return e.kind() == vfs.Directory && e.reason() == 0 }

// same reports whether a file still has the identity that it had.
func (e entry) same(st *vfs.Stat, dev uint64) bool {
	return e.ctime() == st.Ctime && e.mtime() == st.Mtime && e.fileSize() == st.Size &&
		e.ino() == st.Ino && dev == st.Dev && e.perm() == st.Perm && e.kind() == st.Kind
}

// stat returns the identity that a name had.
func (e entry) stat(dev uint64) vfs.Stat {
	return vfs.Stat{Size: e.fileSize(), Mtime: e.mtime(), Ctime: e.ctime(), Ino: e.ino(), Dev: dev, Perm: e.perm(), Kind: e.kind()}
}

const cacheName = "statcache"

// loadStatCache reads the cache of a worktree. Whatever is wrong with it
// makes an empty cache.
func loadStatCache(fsys vfs.FS, storeID [16]byte, worktree string) *statCache {
	c := &statCache{fsys: fsys, dir: "worktrees/" + worktree}
	b, err := vfs.ReadFile(fsys, c.dir+"/"+cacheName)
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

// block returns what is known of a directory, nil if nothing is.
func (c *statCache) block(dir uint32) block {
	if int(dir) >= len(c.blocks) {
		return nil
	}
	return c.blocks[dir]
}

// errCacheMoved: another process has written the cache meanwhile.
var errCacheMoved = errors.New("stat cache has moved on")

// save writes what a capture found: changed blocks by number of directory.
// Directories are numbered by whoever adds them, so a batch is appended only
// to the very state that the capture has read; otherwise it is dropped.
func (c *statCache) save(h batchHeader, changed map[uint32]block) error {
	return c.locked(func() error {
		h.time = time.Now().UnixNano()
		added := int64(blocksLen(maps.Values(changed)))
		if c.size > 0 && c.size+added <= c.first+c.first/4 {
			return c.append(h, changed)
		}
		// The state that we have read must still be the newest, except that a
		// file which we could not read is no loss.
		if now := loadStatCache(c.fsys, h.store, c.dir[len("worktrees/"):]); now.size > 0 &&
			(now.batch.generation != c.batch.generation || now.size != c.size) {
			return errCacheMoved
		}
		_, err := c.rewrite(h, changed)
		return err
	})
}

// locked calls fn under the lock on the cache file.
func (c *statCache) locked(fn func() error) error {
	if err := c.fsys.Mkdir(c.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	lock, err := c.fsys.OpenFile(c.dir+"/lock", os.O_RDWR|os.O_CREATE, 0o600)
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
	f, err := c.fsys.OpenFile(c.dir+"/"+cacheName, os.O_RDWR, 0)
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
		err = vfs.ReplaceFile(c.fsys, tmp, c.dir+"/"+cacheName)
	}
	c.fsys.Remove(tmp) // what is called so now: the old file, half a new one, or none
	return len(found), err
}

// replace writes a cache that is kept in memory over whatever is there, which
// was true once, and so is this. It returns how many directories it has.
func (c *statCache) replace() (dirs int, err error) {
	err = c.locked(func() error {
		h := c.batch
		h.time = time.Now().UnixNano()
		dirs, err = c.rewrite(h, nil)
		return err
	})
	return dirs, err
}

const alwaysReliable = 1<<63 - 1

// unreliable returns the time from which on entries are not trusted because
// the machine may have lost power since they were seen: a new boot can bring
// back old metadata with lost content.
func (c *statCache) unreliable(boot [16]byte) int64 {
	const window = 60 * time.Second
	if c.batch.boot == boot && boot != [16]byte{} || c.size == 0 {
		return alwaysReliable
	}
	return c.batch.time - int64(window)
}

// idsUsable reports whether the ids in the cache are known to be in the
// store: nothing was pruned since, nothing was found damaged, no pack was taken away or put back from a
// copy, and the journal vouches for what it vouched for then. What sink, a
// [store.Writer] of the store, knows of that is enough.
func (c *statCache) idsUsable(s *store.Store, sink Sink) (bool, error) {
	var epoch uint64
	var err error
	lengths := s.PackLengths
	if w, ok := sink.(*store.Writer); ok {
		epoch, lengths = w.Epoch(), w.PackLengths
	} else {
		epoch, err = s.Epoch()
	}
	if err != nil || epoch != c.batch.epoch || s.Distrusts() {
		return false, err
	}
	now, err := lengths()
	return err == nil && c.batch.stillThere(now), err
}

func (h *batchHeader) stillThere(now map[[16]byte]int64) bool {
	for id, length := range h.packs {
		if is, ok := now[id]; !ok || is < length {
			return false
		}
	}
	return true
}

// bootID identifies the running boot of the machine; zero where the system
// does not tell.
func bootID() (id [16]byte) {
	if boot := vfs.BootID(); boot != "" {
		sum := store.Hash(store.Blob, []byte(boot))
		copy(id[:], sum[:])
	}
	return id
}
