// Package vfstest has file systems for tests: [Mem] is in memory and can lose its
// power, [Fault] makes any operation of another fail. The tests of package vfs hold
// them to the same contract as the real ones.
package vfstest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/boocode/filestore/internal/vfs"
)

// A Mem is an FS in memory that can lose its power: AfterCrash returns what
// the next boot finds. It promises as little as a disk may:
//
//   - Content and size of a file are durable as of its last Sync.
//   - A name is durable as of the last SyncDir of its directory. The Sync of
//     the file does not help, nor does that of a directory further up or down.
//   - A rename to another directory is durable when both were synced. After a
//     sync of the new one alone both names may be there, of the old one alone,
//     neither: sync the new one first.
//
// As an FS it moves files only, not directories; [Mem.Dir] is the other view. It
// does not enforce permissions. Times are a counter of changes.
type Mem struct {
	mu    sync.Mutex // guards all below, and all that root reaches
	root  *memNode
	inos  uint64 // inode numbers given out
	clock int64  // changes made
	size  int64  // bytes that it has room for, in blocks; 0: no limit
}

// NewMem returns an empty Mem.
func NewMem() *Mem {
	m := new(Mem)
	m.root = m.newNode(fs.ModeDir | 0o700)
	return m
}

// MemBlock is what the size of a file is rounded up to where room is limited.
const MemBlock = 4096

// SetSize limits the room: what would take more is written as far as it fits, and
// fails with ENOSPC. 0 is no limit. A file that has no name any more takes none.
func (m *Mem) SetSize(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size = n
}

// Space implements FS.
func (m *Mem) Space() (free, total int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.size == 0 {
		return 0, 0, errors.ErrUnsupported
	}
	return max(m.size-m.root.used(), 0), m.size, nil
}

// used returns what a node takes, with all that is in it.
func (n *memNode) used() int64 {
	used := (int64(len(n.data)) + MemBlock - 1) / MemBlock * MemBlock
	for _, child := range n.names {
		used += child.used()
	}
	return used
}

// room returns up to which size a file may grow.
func (m *Mem) room(n *memNode, size int64) int64 {
	if m.size == 0 || size <= int64(len(n.data)) {
		return size
	}
	has := (int64(len(n.data)) + MemBlock - 1) / MemBlock * MemBlock
	return min(size, max(has+max(m.size-m.root.used(), 0)/MemBlock*MemBlock, int64(len(n.data))))
}

// A memNode is a file or a directory: what is there, and what is durable.
type memNode struct {
	mode         fs.FileMode
	ino          uint64
	mtime, ctime int64

	// of a file; of a link its target
	data, syncedData []byte
	locks            map[any]vfs.LockMode // by open file or directory

	// of a directory
	names, syncedNames map[string]*memNode

	partner *memNode // with which it has changed places, where one of them is a directory
}

func (m *Mem) newNode(mode fs.FileMode) *memNode {
	m.inos++
	n := &memNode{mode: mode, ino: m.inos, locks: make(map[any]vfs.LockMode)}
	if mode.IsDir() {
		n.names = make(map[string]*memNode)
	}
	m.changed(n)
	return n
}

// changed gives n a new time.
func (m *Mem) changed(n *memNode) {
	m.clock++
	n.mtime, n.ctime = m.clock, m.clock
}

func (n *memNode) stat() vfs.Stat {
	return vfs.Stat{
		Size:  int64(len(n.data)),
		Mtime: n.mtime,
		Ctime: n.ctime,
		Ino:   n.ino,
		Dev:   1,
		Perm:  uint16(n.mode.Perm()),
		Kind:  vfs.KindOf(n.mode),
	}
}

// find returns the node called name.
func (m *Mem) find(name string) (*memNode, error) {
	n := m.root
	if name == "." {
		return n, nil
	}
	for elem := range strings.SplitSeq(name, "/") {
		if !n.mode.IsDir() {
			return nil, syscall.ENOTDIR
		}
		if n = n.names[elem]; n == nil {
			return nil, fs.ErrNotExist
		}
	}
	return n, nil
}

// findDir returns the directory called name.
func (m *Mem) findDir(name string) (*memNode, error) {
	n, err := m.find(name)
	if err == nil && !n.mode.IsDir() {
		err = syscall.ENOTDIR
	}
	return n, err
}

// findParent returns the directory that has, or would have, the last element
// of name, and that element. The root has no parent.
func (m *Mem) findParent(name string) (*memNode, string, error) {
	if name == "." {
		return nil, "", fs.ErrInvalid
	}
	dir, err := m.findDir(path.Dir(name))
	return dir, path.Base(name), err
}

// OpenFile implements FS.
func (m *Mem) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if err := vfs.CheckOpen(name, flag); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.open(name, flag, perm)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &memFile{m: m, node: n, name: name, writable: flag&os.O_RDWR != 0}, nil
}

func (m *Mem) open(name string, flag int, perm fs.FileMode) (*memNode, error) {
	dir, base, err := m.findParent(name)
	if err != nil {
		return nil, err
	}
	n := dir.names[base]
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, fs.ErrNotExist
	case n == nil:
		n = m.newNode(perm.Perm())
		dir.names[base] = n
		m.changed(dir)
	case flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return nil, fs.ErrExist
	case n.mode.IsDir():
		return nil, vfs.ErrNotRegular
	case flag&os.O_TRUNC != 0:
		n.data = nil
		m.changed(n)
	}
	return n, nil
}

// Mkdir implements FS.
func (m *Mem) Mkdir(name string, perm fs.FileMode) error {
	return m.do("mkdir", name, func() error {
		if _, err := m.find(name); err == nil {
			return fs.ErrExist
		}
		dir, base, err := m.findParent(name)
		if err != nil {
			return err
		}
		dir.names[base] = m.newNode(fs.ModeDir | perm.Perm())
		m.changed(dir)
		return nil
	})
}

// Rename implements FS.
func (m *Mem) Rename(oldname, newname string) error {
	if err := vfs.CheckPath("rename", newname); err != nil {
		return err
	}
	return m.do("rename", oldname, func() error {
		from, oldbase, err := m.findParent(oldname)
		if err != nil {
			return err
		}
		to, newbase, err := m.findParent(newname)
		if err != nil {
			return fmt.Errorf("to %s: %w", newname, err)
		}
		n := from.names[oldbase]
		switch {
		case n == nil:
			return fs.ErrNotExist
		case n.mode.IsDir():
			return vfs.ErrNotRegular
		}
		there := to.names[newbase]
		switch {
		case there == n:
			return nil // as POSIX has it: of two names of one file both stay
		case there != nil && there.mode.IsDir():
			return fmt.Errorf("to %s: %w", newname, fs.ErrExist)
		}
		delete(from.names, oldbase)
		to.names[newbase] = n
		m.changed(from)
		m.changed(to)
		n.ctime = m.clock
		return nil
	})
}

// Exchange implements FS.
func (m *Mem) Exchange(a, b string) error {
	if err := vfs.CheckPath("exchange", b); err != nil {
		return err
	}
	return m.do("exchange", a, func() error {
		dirA, baseA, err := m.findParent(a)
		if err != nil {
			return err
		}
		dirB, baseB, err := m.findParent(b)
		if err != nil {
			return fmt.Errorf("with %s: %w", b, err)
		}
		na, nb := dirA.names[baseA], dirB.names[baseB]
		switch {
		case na == nil || nb == nil:
			return fs.ErrNotExist
		case na.mode.IsDir() || nb.mode.IsDir():
			return vfs.ErrNotRegular
		}
		dirA.names[baseA], dirB.names[baseB] = nb, na
		m.changed(dirA)
		m.changed(dirB)
		na.ctime, nb.ctime = m.clock, m.clock
		return nil
	})
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	return m.do("remove", name, func() error {
		dir, base, err := m.findParent(name)
		if err != nil {
			return err
		}
		n := dir.names[base]
		switch {
		case n == nil:
			return fs.ErrNotExist
		case len(n.names) > 0:
			return syscall.ENOTEMPTY
		}
		delete(dir.names, base)
		m.changed(dir)
		return nil
	})
}

// ReadDir implements FS.
func (m *Mem) ReadDir(name string) (names []string, err error) {
	err = m.do("readdir", name, func() error {
		dir, err := m.findDir(name)
		if err != nil {
			return err
		}
		names = slices.Sorted(maps.Keys(dir.names))
		return nil
	})
	return names, err
}

// Stat implements FS.
func (m *Mem) Stat(name string) (st vfs.Stat, err error) {
	err = m.do("stat", name, func() error {
		n, err := m.find(name)
		if err != nil {
			return err
		}
		st = n.stat()
		return nil
	})
	return st, err
}

// SyncDir implements FS.
func (m *Mem) SyncDir(name string) error {
	return m.do("sync", name, func() error {
		dir, err := m.findDir(name)
		if err != nil {
			return err
		}
		dir.sync()
		return nil
	})
}

// sync makes durable what is there: content and size, or names.
func (n *memNode) sync() {
	n.syncedNames = maps.Clone(n.names)
	n.syncedData = append(n.syncedData[:0], n.data...)
}

// do runs fn with the lock held and makes its error a PathError.
func (m *Mem) do(op, name string, fn func() error) error {
	if err := vfs.CheckPath(op, name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := fn(); err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

// A memFile is an open file. It keeps its node also when the name is gone.
type memFile struct {
	m        *Mem
	node     *memNode
	name     string
	writable bool
	closed   bool // guarded by m.mu
}

func (f *memFile) ReadAt(p []byte, off int64) (n int, err error) {
	atEnd := false
	err = f.do("read", func() error {
		if off < 0 {
			return fs.ErrInvalid
		}
		if off < int64(len(f.node.data)) {
			n = copy(p, f.node.data[off:])
		}
		atEnd = n < len(p)
		return nil
	})
	if err == nil && atEnd {
		err = io.EOF // bare, as io.ReaderAt has it
	}
	return n, err
}

func (f *memFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.write("write", func() error {
		if off < 0 {
			return fs.ErrInvalid
		}
		if len(p) == 0 {
			return nil
		}
		end := off + int64(len(p))
		room := f.m.room(f.node, end)
		if room > int64(len(f.node.data)) {
			f.node.resize(room)
		}
		if off < int64(len(f.node.data)) {
			n = copy(f.node.data[off:], p)
		}
		if room < end {
			return syscall.ENOSPC
		}
		return nil
	})
	return n, err
}

func (f *memFile) Truncate(size int64) error {
	return f.write("truncate", func() error {
		if size < 0 {
			return fs.ErrInvalid
		}
		if f.m.room(f.node, size) < size {
			return syscall.ENOSPC
		}
		f.node.resize(size)
		return nil
	})
}

// resize cuts the data or fills it up with zeros.
func (n *memNode) resize(size int64) {
	if grow := size - int64(len(n.data)); grow > 0 {
		n.data = append(n.data, make([]byte, grow)...)
	}
	n.data = n.data[:size]
}

func (f *memFile) Stat() (st vfs.Stat, err error) {
	err = f.do("stat", func() error {
		st = f.node.stat()
		return nil
	})
	return st, err
}

func (f *memFile) Sync() error {
	return f.do("sync", func() error {
		f.node.sync()
		return nil
	})
}

func (f *memFile) TryLock(mode vfs.LockMode) (ok bool, err error) {
	err = f.do("lock", func() error {
		ok = f.node.lock(f, mode)
		return nil
	})
	return ok, err
}

// lock gives who the lock on a node, if nobody else's keeps it from that.
func (n *memNode) lock(who any, mode vfs.LockMode) bool {
	// As flock does it: a lock that cannot change its mode is lost.
	delete(n.locks, who)
	for _, held := range n.locks {
		if mode == vfs.Exclusive || held == vfs.Exclusive {
			return false
		}
	}
	n.locks[who] = mode
	return true
}

func (f *memFile) Unlock() error {
	return f.do("unlock", func() error {
		delete(f.node.locks, f)
		return nil
	})
}

func (f *memFile) Close() error {
	return f.do("close", func() error {
		delete(f.node.locks, f)
		f.closed = true
		return nil
	})
}

// do runs fn with the lock held, unless the file is closed, and makes its
// error a PathError.
func (f *memFile) do(op string, fn func() error) error {
	return f.m.do(op, f.name, func() error {
		if f.closed {
			return fs.ErrClosed
		}
		return fn()
	})
}

// write is do for what changes the content.
func (f *memFile) write(op string, fn func() error) error {
	return f.do(op, func() error {
		if !f.writable {
			return syscall.EBADF
		}
		f.m.changed(f.node)
		return fn()
	})
}

// AfterCrash returns what the next boot finds if the power fails now. Nothing
// is locked there, and everything is durable. m stays as it is.
//
// With a nil rng nothing survives that was not synced. Else chance decides,
// the same for the same state of rng, what of the rest had reached the disk:
//
//   - Each 512-byte block of a file is as at the last Sync or as it is now.
//   - A size is that of the last Sync, that of now, or between. What it has
//     gained, and no block covers, is zero.
//   - Each new, replaced or removed name of a directory is as at the last
//     SyncDir or as it is now; both names of a rename together.
func (m *Mem) AfterCrash(rng *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := crash{rng: rng, nodes: make(map[*memNode]*memNode), named: make(map[*memNode]bool)}
	return &Mem{root: c.node(m.root), inos: m.inos, clock: m.clock, size: m.size}
}

// A crash makes the disk after a crash from the one before.
type crash struct {
	rng   *rand.Rand
	nodes map[*memNode]*memNode // by what they were before
	named map[*memNode]bool     // whether changes of the names of a node survive
}

// node returns what the crash leaves of n. A node can have two names then, of
// a rename that was half durable.
func (c *crash) node(n *memNode) *memNode {
	if left := c.nodes[n]; left != nil {
		return left
	}
	left := &memNode{mode: n.mode, ino: n.ino, mtime: n.mtime, ctime: n.ctime, locks: make(map[any]vfs.LockMode)}
	c.nodes[n] = left
	if n.mode.IsDir() {
		left.names = c.names(n)
		left.syncedNames = maps.Clone(left.names)
	} else {
		left.data = c.data(n)
		left.syncedData = slices.Clone(left.data)
	}
	return left
}

func (c *crash) names(n *memNode) map[string]*memNode {
	all := maps.Clone(n.names)
	maps.Copy(all, n.syncedNames)
	left := make(map[string]*memNode)
	for _, name := range slices.Sorted(maps.Keys(all)) { // sorted, to use rng in one order
		was, is := n.syncedNames[name], n.names[name]
		survivor := was
		switch {
		case was == is:
		case is != nil && c.survives(is):
			survivor = is
		case is == nil && c.survives(was):
			survivor = nil
		}
		if survivor != nil {
			left[name] = c.node(survivor)
		}
	}
	return left
}

// survives decides once for n, so that a rename does not lose its file.
func (c *crash) survives(n *memNode) bool {
	if c.rng == nil {
		return false
	}
	yes, known := c.named[n]
	if !known {
		yes = c.rng.IntN(2) == 0
		c.named[n] = yes
		if n.partner != nil {
			c.named[n.partner] = yes
		}
	}
	return yes
}

func (c *crash) data(n *memNode) []byte {
	if c.rng == nil {
		return slices.Clone(n.syncedData)
	}
	was, is := len(n.syncedData), len(n.data)
	size := was
	switch c.rng.IntN(3) {
	case 0:
		size = is
	case 1:
		size = min(was, is) + c.rng.IntN(max(was, is)-min(was, is)+1)
	}
	left := make([]byte, size)
	copy(left, n.syncedData)
	const block = 512
	for off := 0; off < min(size, is); off += block {
		if c.rng.IntN(2) == 0 {
			copy(left[off:], n.data[off:min(off+block, is)])
		}
	}
	return left
}
