// Package near keeps packs of remotes in a directory of this machine, so that many who begin from
// the same ask the remote once. docs/adr/0066-near-cache.md says why it is packs alone.
//
// It believes nothing, and its callers must not either: whoever may write into the directory may
// have put there what they like. All that goes wrong with it is told once, and is no error.
// Processes of several users may use one directory at once.
package near

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/boocode/filestore/internal/vfs"
)

// DefaultLimit is how many bytes a directory may have: so many packs, that those of a few
// large projects are in it.
const DefaultLimit = 10 << 30

// A Cache is a directory with packs. Each is a file, called by its hash, in one of 256 directories.
// A Cache may be used from several goroutines.
type Cache struct {
	dir   string
	root  *os.Root
	limit int64
	file  fs.FileMode // of a pack: who may use the directory may read it
	sub   fs.FileMode // of a directory in it
	tell  func(error)

	patience time.Duration // with another who gets the same

	mu      sync.Mutex // guards the rest
	told    map[string]bool
	isFull  bool  // nothing more is put into it
	isSlow  bool  // somebody had it locked for too long: nobody is waited for any more
	written int64 // bytes, since it was counted
	room    int64 // bytes that were left then
}

// Open returns the Cache in a directory, which is made, for its owner alone, if it is not there.
// limit bounds its bytes, 0: [DefaultLimit]. tell is called, by any goroutine, with what goes wrong.
func Open(dir string, limit int64, tell func(error)) (*Cache, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	st, err := root.Stat(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	mode := st.Mode()
	return &Cache{dir: dir, root: root, limit: cmp.Or(limit, DefaultLimit), file: 0o600 | mode&0o044,
		sub: mode & (fs.ModePerm | fs.ModeSticky | fs.ModeSetgid), tell: tell, patience: usualPatience,
		told: make(map[string]bool)}, nil
}

// Close gives the directory back.
func (c *Cache) Close() error { return c.root.Close() }

// once tells of something, unless that was done.
func (c *Cache) once(what string, err error) {
	c.mu.Lock()
	was := c.told[what]
	c.told[what] = true
	c.mu.Unlock()
	if !was {
		c.tell(fmt.Errorf("cache %q: %w", c.dir, err))
	}
}

// nameOf returns where a pack is: its key ends with its hash, which says of which remote it is, too.
func nameOf(key string) string {
	h := path.Base(key)
	return h[:2] + "/" + h
}

// isPack reports whether a pack can be there.
func isPack(name string) bool {
	hash, err := hex.DecodeString(path.Base(name))
	return err == nil && len(hash) == 32 && nameOf(name) == name
}

// Get returns the bytes of a pack, from here or from get, and whether they are from here. While
// somebody gets it, others wait, for some time.
func (c *Cache) Get(
	ctx context.Context, key string, size int64, get func() ([]byte, error),
) (b []byte, isNear bool, err error) {
	if b = c.read(key, 0, size, true); b != nil {
		return b, true, nil
	}
	defer c.lock(ctx, key)()
	if b = c.read(key, 0, size, true); b != nil { // meanwhile
		return b, true, nil
	}
	if b, err = get(); err == nil && int64(len(b)) == size {
		c.put(key, b)
	}
	return b, false, err
}

// usualPatience is how long somebody else is waited for who gets the same.
const usualPatience = 30 * time.Second

// lock has others wait until the function that it returns is called. Where that cannot be had, nobody waits.
func (c *Cache) lock(ctx context.Context, key string) (unlock func()) {
	c.mu.Lock()
	skip := c.isSlow || c.isFull
	c.mu.Unlock()
	sub := path.Dir(nameOf(key))
	if skip || c.makeSub(sub) != nil {
		return func() {}
	}
	d, err := c.openSub(sub)
	if err != nil {
		return func() {}
	}
	unlock = func() { d.Close() }
	for began := time.Now(); ; {
		ok, err := d.TryLock(vfs.Exclusive)
		if ok || err != nil || ctx.Err() != nil {
			return unlock
		}
		if time.Since(began) > c.patience {
			c.mu.Lock()
			c.isSlow = true
			c.mu.Unlock()
			return unlock
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// openSub opens a directory for packs. A link is none: what it leads to, a store for one, is not for us to lock.
func (c *Cache) openSub(name string) (vfs.Dir, error) {
	top, err := vfs.OpenDir(c.dir)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	return top.OpenDir(name)
}

// makeSub makes a directory for packs, for all who may use the one above it.
func (c *Cache) makeSub(name string) error {
	err := c.root.Mkdir(name, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return cmp.Or(err, c.root.Chmod(name, c.sub))
}

// usual is how old what is read becomes before that is noted: by its age it is removed.
const usual = time.Hour

// Read returns n bytes of a pack from an offset on; nil if it is not here, or has not so many.
func (c *Cache) Read(key string, off, n int64) []byte { return c.read(key, off, n, false) }

// read is Read, of a pack that has to end there if it is whole.
func (c *Cache) read(key string, off, n int64, whole bool) []byte {
	name := nameOf(key)
	// No link leads out of a Root, and a pipe is not waited for.
	f, err := c.root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return nil
	}
	if size := st.Size(); size < off+n || whole && size != n {
		c.damaged(fmt.Errorf("%s has %d bytes there", key, size))
		return nil
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, off); err != nil && err != io.EOF {
		return nil
	}
	if now := time.Now(); now.Sub(st.ModTime()) > usual {
		c.root.Chtimes(name, now, now) // its owner can
	}
	return b
}

// Drop removes a pack. why says what is wrong with it; nil: nobody needs it any more.
func (c *Cache) Drop(key string, why error) {
	err := c.root.Remove(nameOf(key))
	if why != nil {
		c.damaged(why)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.once("drop", fmt.Errorf("remove %s: %w", key, err))
	}
}

func (c *Cache) damaged(why error) {
	c.once("damage", fmt.Errorf("%w; what is not right there is read from the remote", why))
}

// put writes a pack, whole or not at all. What it is after a crash is seen when it is read.
func (c *Cache) put(key string, b []byte) {
	if !c.makeRoom(int64(len(b))) {
		return
	}
	name := nameOf(key)
	var random [8]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	tmp := path.Dir(name) + "/" + tmpPrefix + hex.EncodeToString(random[:])
	f, err := c.create(tmp)
	if err != nil { // the directory is another's, or none: it is one of many, and to try costs nothing
		c.once("create", fmt.Errorf("%w; what belongs there is not kept", err))
		return
	}
	if err = c.write(f, b); err == nil {
		err = c.root.Rename(tmp, name)
	}
	if err == nil {
		return
	}
	c.root.Remove(tmp)
	if _, serr := c.root.Stat(name); serr == nil && errors.Is(err, fs.ErrPermission) { // another's, who was first
		return
	}
	c.full("put", err)
}

// full has nothing more be put.
func (c *Cache) full(what string, err error) {
	c.mu.Lock()
	c.isFull = true
	c.mu.Unlock()
	c.once(what, fmt.Errorf("%w; nothing more is kept there", err))
}

// tmpPrefix is how files begin that are being written.
const tmpPrefix = ".tmp-"

func (c *Cache) create(name string) (*os.File, error) {
	if err := c.makeSub(path.Dir(name)); err != nil {
		return nil, err
	}
	return c.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func (c *Cache) write(f *os.File, b []byte) (err error) {
	if c.file != 0o600 {
		err = f.Chmod(c.file) // whatever the umask
	}
	if err == nil {
		_, err = f.Write(b)
	}
	return errors.Join(err, f.Close())
}

// makeRoom has so many bytes be less than are left, and reports whether they are.
func (c *Cache) makeRoom(n int64) bool {
	left, ok := c.left(n)
	if ok && left < 0 {
		c.full("room", errors.New("what others have put there, and this user cannot remove, takes its room"))
	}
	return ok && left >= 0
}

// left returns how many bytes may come when n have come, and reports whether they may.
func (c *Cache) left(n int64) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isFull || n > c.limit {
		return 0, false
	}
	// Others write, too: after a part of what is left it is counted again.
	if c.written += n; c.written < c.room/8 {
		return c.room, true
	}
	c.written = n
	c.room = c.limit - c.evict(c.limit-n) - n
	return c.room, true
}

// A kept is a file of the directory.
type kept struct {
	name string
	size int64
	at   time.Time
}

// evict removes the packs that have not been read for longest until all have few enough bytes, and returns how
// many they have then. What is left of writers that were killed goes after an hour. What is no pack is not counted,
// and stays: the directory may be one that has other things, too.
func (c *Cache) evict(most int64) (total int64) {
	var list []kept
	add := func(name string, e fs.DirEntry) {
		isTmp := strings.HasPrefix(e.Name(), tmpPrefix)
		st, err := e.Info()
		if err != nil || !st.Mode().IsRegular() || !isTmp && !isPack(name) {
			return
		}
		if isTmp && time.Since(st.ModTime()) > usual && c.root.Remove(name) == nil {
			return
		}
		total += st.Size()
		list = append(list, kept{name, st.Size(), st.ModTime()})
	}
	for _, dir := range c.entries(".") {
		if _, err := hex.DecodeString(dir.Name()); err != nil || len(dir.Name()) != 2 || !dir.IsDir() {
			continue
		}
		for _, e := range c.entries(dir.Name()) {
			add(dir.Name()+"/"+e.Name(), e)
		}
	}
	if total <= most {
		return total
	}
	slices.SortFunc(list, func(a, b kept) int { return a.at.Compare(b.at) })
	most -= most / 10 // not with each pack again
	for _, k := range list {
		if total <= most {
			break
		}
		if !strings.HasPrefix(path.Base(k.name), tmpPrefix) && c.root.Remove(k.name) == nil {
			total -= k.size
		}
	}
	return total
}

func (c *Cache) entries(dir string) []fs.DirEntry {
	list, err := fs.ReadDir(c.root.FS(), dir)
	if err != nil {
		return nil
	}
	return list
}
