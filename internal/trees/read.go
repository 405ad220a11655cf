package trees

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A Getter returns the content of objects. [*cas.Store] is one.
type Getter interface {
	Get(ctx context.Context, kind object.Kind, id store.ID) ([]byte, error)
}

// A Putter takes objects, from many goroutines. [*cas.Writer] is one.
type Putter interface {
	Put(kind object.Kind, content []byte) (store.ID, error)
}

func entryItem(e *tree.Entry) Item {
	return Item{Name: e.Name, Attr: uint16(e.Mode), Size: uint64(e.Size), ID: e.ID}
}

// Entry returns the entry that an item of a tree is.
func (it *Item) Entry() tree.Entry {
	return tree.Entry{Name: it.Name, Mode: tree.Mode(it.Attr), Size: int64(it.Size), ID: it.ID}
}

// isValid reports whether m is one of the modes that a tree may hold. A
// symbolic link has no permissions of its own: they are always 0o777.
func isValid(m tree.Mode) bool {
	return m == tree.ModeSymlink|0o777 || m == m.Kind()|m&0o777 && (m.Kind() == tree.ModeFile || m.IsDir())
}

// IsVCS reports whether a name in a directory holds the insides of a version
// control system, which no capture records, and so no tree has: who brings back one that
// somebody has made up would run what is in there. A .git may be a file; the others are
// only known as directories.
func IsVCS(name string, isDir bool) bool {
	switch name {
	case ".git":
		return true
	case ".hg", ".svn", ".jj":
		return isDir
	}
	return false
}

func validEntry(it *Item) bool {
	m := tree.Mode(it.Attr)
	return isValid(m) && !IsVCS(it.Name, m.IsDir()) &&
		!it.ID.IsZero() && it.Size < 1<<62 && (!m.IsDir() || it.Size == 0)
}

// Put stores a directory and returns its tree. The entries must be sorted by
// name, without two of one name.
func Put(p Putter, entries []tree.Entry) (store.ID, error) { return putEntries(p, entries, nil) }

// putEntries is Put that makes the pages known.
func putEntries(p Putter, entries []tree.Entry, known *Pages) (store.ID, error) {
	items := make([]Item, len(entries))
	for i := range entries {
		items[i] = entryItem(&entries[i])
		if !ValidName(entries[i].Name) || !validEntry(&items[i]) || i > 0 && items[i-1].Name >= items[i].Name {
			return store.ID{}, fmt.Errorf("put tree: entry %d %q is invalid or out of order", i, entries[i].Name)
		}
	}
	return TreeWriter(p, known).Dir(items)
}

// Empty is the tree of an empty directory.
var Empty = object.Hash(object.Tree, appendPage(nil, 0, nil))

// Entries yields the entries of a directory, sorted by name. Each pair is an
// entry and nil, or a zero entry and the error that ends the sequence.
func Entries(ctx context.Context, g Getter, id store.ID) iter.Seq2[tree.Entry, error] {
	return func(yield func(tree.Entry, error) bool) {
		for it, err := range TreeReader(g).Items(ctx, id) {
			if err != nil {
				yield(tree.Entry{}, err)
				return
			}
			if !yield(it.Entry(), nil) {
				return
			}
		}
	}
}

// Lookup returns the entry at a slash-separated path below a tree; "." and
// "" are the tree itself. The error matches [fs.ErrNotExist] if there is none;
// [store.ErrNotFound] would mean that a part of the tree is lost. Lookup reads a
// page or a few of each directory, whatever its size.
func Lookup(ctx context.Context, g Getter, root store.ID, path string) (tree.Entry, error) {
	e := tree.Entry{Name: ".", Mode: tree.ModeDir | 0o755, ID: root}
	if path == "." || path == "" {
		return e, nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if !e.Mode.IsDir() {
			return tree.Entry{}, fmt.Errorf("%q: %w", path, fs.ErrNotExist)
		}
		it, ok, err := TreeReader(g).find(ctx, e.ID, name)
		if err == nil && !ok {
			err = fmt.Errorf("%q: %w", path, fs.ErrNotExist)
		}
		if err != nil {
			return tree.Entry{}, err
		}
		e = it.Entry()
	}
	return e, nil
}

// DirAt is [EntryAt] to which what is no directory is nothing.
func DirAt(ctx context.Context, g Getter, root store.ID, path string) (*tree.Entry, error) {
	e, err := EntryAt(ctx, g, root, path)
	if e != nil && !e.Mode.IsDir() {
		e = nil
	}
	return e, err
}

// EntryAt is [Lookup] that returns nil where there is nothing. A zero root has nothing.
func EntryAt(ctx context.Context, g Getter, root store.ID, path string) (*tree.Entry, error) {
	if root.IsZero() {
		return nil, nil
	}
	e, err := Lookup(ctx, g, root, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &e, nil
}

// A WalkEntry is an entry and where it is.
type WalkEntry struct {
	Path string // slash-separated, relative to the root
	tree.Entry
}

// Walk yields everything below a tree, a directory before what it holds,
// names in order. Each pair is an entry and nil, or a zero entry and the
// error that ends the sequence.
func Walk(ctx context.Context, g Getter, root store.ID) iter.Seq2[WalkEntry, error] {
	return func(yield func(WalkEntry, error) bool) {
		walk(ctx, g, root, "", yield)
	}
}

func walk(ctx context.Context, g Getter, id store.ID, prefix string, yield func(WalkEntry, error) bool) bool {
	if err := CheckDir(prefix); err != nil {
		yield(WalkEntry{}, err)
		return false
	}
	for e, err := range Entries(ctx, g, id) {
		if err != nil {
			yield(WalkEntry{}, fmt.Errorf("directory %q: %w", cmp.Or(prefix, "."), err))
			return false
		}
		path := Join(prefix, e.Name)
		if !yield(WalkEntry{path, e}, nil) {
			return false
		}
		if e.Mode.IsDir() && !walk(ctx, g, e.ID, path, yield) {
			return false
		}
	}
	return true
}

// Join joins a directory, "" for the root, and a path in it, "" for the directory
// itself. It is not path.Join, which would clean raw names.
func Join(dir, path string) string {
	if dir == "" || path == "" {
		return dir + path
	}
	return dir + "/" + path
}

// Split returns the directory that a path is in, "" for the root, and its name there.
func Split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}
