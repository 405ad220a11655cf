// Package base is a directory on this machine that has the files of a tree, of which it is known
// what is in them, so that many clones take them from there and none reads them.
//
// It is trusted: what a file holds is not hashed again if it still has the identity that it had.
// So it must belong to this user, or to root, and nobody else may write there.
package base

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// What is in the directory.
const (
	filesName = "files" // the tree
	indexName = "index" // what is in its files
)

// The index is a magic, for each file a head and its path, in the order of the paths, and a CRC-32C of all that.
const (
	indexMagic = "boobase1"
	headSize   = 2 + 4*8 + 32
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// A Base is such a directory. It may be used from several goroutines.
type Base struct {
	dir     string
	files   map[string]known
	copying atomic.Bool // blocks cannot be shared: nobody tries again
	buffers sync.Pool   // of *[copySize]byte
}

// copySize is how much is read at once of a file that is copied.
const copySize = 128 << 10

// known is a file, and the identity that it had when its content was known.
type known struct {
	size, mtime, ctime int64
	ino                uint64
	id                 store.ID
}

func (k *known) is(st *vfs.Stat) bool {
	return k.size == st.Size && k.mtime == st.Mtime && k.ctime == st.Ctime && k.ino == st.Ino && st.Kind == vfs.Regular
}

// Open opens a base. The error matches [fs.ErrNotExist] if there is no such directory.
func Open(dir string) (*Base, error) {
	if err := mustBeOwn(dir); err != nil {
		return nil, err
	}
	err := mustBeOwn(filepath.Join(dir, filesName))
	var b []byte
	if err == nil {
		b, err = vfs.ReadOwn(filepath.Join(dir, indexName))
	}
	if errors.Is(err, fs.ErrNotExist) { // it gets its name when it is whole
		return nil, fmt.Errorf("base %q: it is another directory: it has no files and index of a base", dir)
	}
	if err != nil {
		return nil, err
	}
	files, ok := parseIndex(b)
	if !ok {
		return nil, fmt.Errorf("base %q: its index is damaged", dir)
	}
	return &Base{dir: dir, files: files}, nil
}

// mustBeOwn returns an error unless a directory is this user's, or root's, and for nobody else to write into.
func mustBeOwn(name string) error {
	fi, err := os.Lstat(name)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return fmt.Errorf("base %q: not a directory", name)
	}
	owner, self, ok := vfs.Owners(fi)
	if ok && (owner != self && owner != 0 || fi.Mode()&0o022 != 0) {
		return fmt.Errorf("base %q: others than its user may write there: %w", name, fs.ErrPermission)
	}
	return nil
}

// mustStay returns an error if others may rename what this user makes in a directory, and put there what leads into
// other files of this user. Whoever is let into the directory's group may.
func mustStay(name string) error {
	fi, err := os.Stat(name)
	if err != nil {
		return err
	}
	owner, self, ok := vfs.Owners(fi)
	if ok && (owner != self && owner != 0 || fi.Mode()&0o002 != 0 && fi.Mode()&fs.ModeSticky == 0) {
		return fmt.Errorf("others may rename what is made in %q: %w", name, fs.ErrPermission)
	}
	return nil
}

func parseIndex(b []byte) (map[string]known, bool) {
	n := len(b) - 4
	if n < len(indexMagic) || string(b[:len(indexMagic)]) != indexMagic ||
		crc32.Checksum(b[:n], castagnoli) != le.Uint32(b[n:]) {
		return nil, false
	}
	files := make(map[string]known)
	for b = b[len(indexMagic):n]; len(b) > 0; {
		if len(b) < headSize || len(b) < headSize+int(le.Uint16(b)) {
			return nil, false
		}
		end := headSize + int(le.Uint16(b))
		files[string(b[headSize:end])] = known{int64(le.Uint64(b[2:])), int64(le.Uint64(b[10:])),
			int64(le.Uint64(b[18:])), le.Uint64(b[26:]), store.ID(b[34:])}
		b = b[end:]
	}
	return files, true
}

// Make makes a base of a tree, durably, whole or not at all. The error matches [fs.ErrExist] if there is one.
// It is for this user alone until somebody says otherwise.
func Make(ctx context.Context, g trees.Source, root store.ID, dir string) (err error) {
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("base %q: %w", dir, fs.ErrExist)
	}
	if err := mustStay(filepath.Dir(dir)); err != nil {
		return fmt.Errorf("base %q: %w", dir, err)
	}
	var random [8]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	tmp := dir + ".tmp-" + hex.EncodeToString(random[:])
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeAll(tmp))
		}
	}()
	to := filepath.Join(tmp, filesName)
	if _, err := trees.Export(ctx, g, root, to); err != nil {
		return err
	}
	if err := os.Chmod(to, 0o755); err != nil {
		return err
	}
	index, err := index(ctx, g, root, to)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tmp, indexName), index, 0o644); err != nil {
		return err
	}
	if err := vfs.SyncAll(tmp); err != nil {
		return err
	}
	err = os.Rename(tmp, dir)
	if _, lerr := os.Lstat(dir); err != nil && lerr == nil { // another was first
		err = fmt.Errorf("base %q: %w", dir, fs.ErrExist)
	}
	return err
}

// index returns the index of a tree that was just written into a directory, where nobody else writes.
func index(ctx context.Context, g trees.Getter, root store.ID, dir string) ([]byte, error) {
	b := []byte(indexMagic)
	for e, err := range trees.Walk(ctx, g, root) {
		if err != nil {
			return nil, err
		}
		fi, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(e.Path)))
		if errors.Is(err, fs.ErrNotExist) { // it was lost, or forgotten
			continue
		}
		if err != nil {
			return nil, err
		}
		if !fi.Mode().IsRegular() || len(e.Path) > 1<<16-1 {
			continue
		}
		st, err := vfs.OS(dir).Stat(e.Path)
		if err != nil {
			return nil, err
		}
		b = le.AppendUint16(b, uint16(len(e.Path)))
		for _, n := range []uint64{uint64(st.Size), uint64(st.Mtime), uint64(st.Ctime), st.Ino} {
			b = le.AppendUint64(b, n)
		}
		b = append(append(b, e.ID[:]...), e.Path...)
	}
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

// removeAll removes a directory in which directories may be read-only.
func removeAll(dir string) error {
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(name, 0o700)
		}
		return err
	})
	return errors.Join(err, os.RemoveAll(dir))
}

// Place writes the file of an entry of a tree from the base, and returns what it is then. It reports false if the
// base has not that content there, or not any more, and has written nothing then. See [trees.Filling.Place].
func (b *Base) Place(to vfs.Dir, path string, e *tree.Entry) (st vfs.Stat, ok bool, err error) {
	k, ok := b.files[path]
	if !ok || k.id != e.ID {
		return st, false, nil
	}
	above, name := filepath.Split(filepath.Join(b.dir, filesName, filepath.FromSlash(path)))
	dir, err := vfs.OpenDir(above)
	if err != nil { // somebody has removed it, or it is not for this user
		return st, false, nil
	}
	defer dir.Close()
	from, err := dir.Open(name, &st)
	if err != nil {
		return st, false, nil
	}
	defer from.Close()
	if !k.is(&st) {
		return st, false, nil
	}
	w, err := to.Create(e.Name, uint16(e.Mode&0o777))
	if err != nil {
		return st, false, err
	}
	err = b.fill(w, from)
	var after vfs.Stat
	if err == nil {
		err = from.Stat(&after)
	}
	if err == nil {
		err = w.Chmod(uint16(e.Mode & 0o777))
	}
	err = errors.Join(err, w.Close())
	if ok = err == nil && k.is(&after); ok {
		if err = to.Lstat(e.Name, &st); err == nil && st.Size == int64(e.Size) {
			return st, true, nil
		}
	}
	// It changes meanwhile, or cannot be read: then it is read from elsewhere, into a file that is not there yet.
	return st, false, to.Remove(e.Name)
}

// fill gives a file the content of another.
func (b *Base) fill(w vfs.Writer, from vfs.Reader) error {
	if !b.copying.Load() {
		err := vfs.ShareContent(w, from)
		if !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		b.copying.Store(true)
	}
	buf, _ := b.buffers.Get().(*[copySize]byte)
	if buf == nil {
		buf = new([copySize]byte)
	}
	defer b.buffers.Put(buf)
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{from}, buf[:])
	return err
}
