package capture

import (
	"iter"
	"unsafe"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

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

// valid checks that all offsets stay inside the block, and that the pages have the
// names that were captured. The batch has a checksum, so a block that fails here was
// written wrong.
func (b block) valid(nextDir uint32) bool {
	if len(b) < blockHeaderSize || b.nameStart()+b.namesLen() > len(b) {
		return false
	}
	end := uint32(b.namesLen())
	captured := 0
	for i := b.count() - 1; i >= 0; i-- {
		e := b.entry(i)
		if e.nameOff() >= end || e.kind() > vfs.Special || e.reason() > trees.MaxReason || !validOut(e) ||
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

func (e entry) fileSize() int64      { return int64(le.Uint64(e)) }
func (e entry) mtime() int64         { return int64(le.Uint64(e[8:])) }
func (e entry) ctime() int64         { return int64(le.Uint64(e[16:])) }
func (e entry) ino() uint64          { return le.Uint64(e[24:]) }
func (e entry) id() store.ID         { return store.ID(e[32:]) }
func (e entry) perm() uint16         { return le.Uint16(e[64:]) }
func (e entry) kind() vfs.Kind       { return vfs.Kind(e[66]) }
func (e entry) reason() trees.Reason { return trees.Reason(e[67]) }
func (e entry) flags() uint32        { return le.Uint32(e[68:]) }
func (e entry) out() outKind         { return outKind(e.flags() >> outShift & 7) }
func (e entry) nameOff() uint32      { return le.Uint32(e[72:]) }
func (e entry) child() uint32        { return le.Uint32(e[76:]) } // number of a captured directory

// isTree reports whether the entry is a captured directory.
func (e entry) isTree() bool { return e.kind() == vfs.Directory && e.reason() == 0 }

// same reports whether a file still has the identity that it had.
func (e entry) same(st *vfs.Stat, dev uint64) bool {
	return e.ctime() == st.Ctime && e.mtime() == st.Mtime && e.fileSize() == st.Size &&
		e.ino() == st.Ino && dev == st.Dev && e.perm() == st.Perm && e.kind() == st.Kind
}

// stat returns the identity that a name had.
func (e entry) stat(dev uint64) vfs.Stat {
	return vfs.Stat{
		Size: e.fileSize(), Mtime: e.mtime(), Ctime: e.ctime(),
		Ino: e.ino(), Dev: dev, Perm: e.perm(), Kind: e.kind(),
	}
}

// A blockLeaf is a page as the cache knows it.
type blockLeaf struct {
	end   int // index behind its last name in the block
	count int // entries in it
	id    store.ID
}

// encode makes the block of the directory.
func (j *dirJob) encode(cuts []bool, leaves []blockLeaf) block {
	c := j.c
	names := 0
	for i := range j.slots {
		names += len(j.slots[i].name)
	}
	size := blockHeaderSize + len(j.slots)*blockEntrySize + len(leaves)*blockLeafSize + names +
		len(j.patterns[0].content) + len(j.patterns[1].content)
	b := make(block, 0, size)
	var flags uint32
	if j.shifting || c.isRacy(&j.st) || !c.local || j.st.Dev != c.rootDev {
		flags = listingRacy
	}
	if j.touched && !j.unchanged() { // it was not listed
		flags = listingRacy
	}
	b = le.AppendUint32(b, uint32(size))
	b = le.AppendUint32(b, j.number)
	b = le.AppendUint32(b, uint32(len(j.slots)))
	b = le.AppendUint32(b, uint32(len(leaves)))
	b = le.AppendUint32(b, flags)
	b = le.AppendUint32(b, uint32(j.st.Perm))
	b = le.AppendUint64(b, j.st.Ino)
	b = le.AppendUint64(b, j.st.Dev)
	b = le.AppendUint64(b, uint64(j.st.Mtime))
	b = le.AppendUint64(b, uint64(j.st.Ctime))
	b = append(b, j.rulesID[:]...)
	b = append(b, j.tree[:]...)
	b = append(b, j.cover[:]...)
	for _, p := range j.patterns {
		n := noFile
		if p.content != nil {
			n = uint32(len(p.content))
		}
		b = le.AppendUint32(b, n)
	}
	b = le.AppendUint32(b, uint32(names))
	b = le.AppendUint32(b, 0)

	off := 0
	for i := range j.slots {
		for k, name := range patternFiles {
			if s := &j.slots[i]; s.name == name && s.st != j.patterns[k].st {
				s.racy = true // it has changed since the rules were made from it
			}
		}
		b = j.slots[i].appendEntry(b, cuts[i], off)
		off += len(j.slots[i].name)
	}
	for _, l := range leaves {
		b = le.AppendUint32(b, uint32(l.end))
		b = le.AppendUint32(b, uint32(l.count))
		b = append(b, l.id[:]...)
	}
	for i := range j.slots {
		b = append(b, j.slots[i].name...)
	}
	b = append(b, j.patterns[0].content...)
	return append(b, j.patterns[1].content...)
}

func (s *slot) appendEntry(b block, isCut bool, nameOff int) block {
	var flags, child uint32
	if s.racy {
		flags |= flagRacy
	}
	if isCut {
		flags |= flagBoundary
	}
	if s.matched {
		flags |= flagMatched
	}
	flags |= uint32(s.out) << outShift
	switch {
	case s.reason != 0:
	case s.kid != nil:
		child = s.kid.number
	case s.kind == vfs.Directory:
		child = s.child
	}
	b = le.AppendUint64(b, uint64(s.st.Size))
	b = le.AppendUint64(b, uint64(s.st.Mtime))
	b = le.AppendUint64(b, uint64(s.st.Ctime))
	b = le.AppendUint64(b, s.st.Ino)
	b = append(b, s.id[:]...)
	b = le.AppendUint16(b, s.st.Perm)
	b = append(b, byte(s.kind), byte(s.reason))
	b = le.AppendUint32(b, flags)
	b = le.AppendUint32(b, uint32(nameOff))
	return le.AppendUint32(b, child)
}

// item returns the tree's entry of a captured name.
func (e entry) item(name string) trees.Item {
	st := vfs.Stat{Perm: e.perm(), Kind: e.kind()}
	it := trees.Item{Name: name, Attr: uint16(modeOf(&st)), ID: e.id()}
	if e.kind() != vfs.Directory {
		it.Size = uint64(e.fileSize())
	}
	return it
}
