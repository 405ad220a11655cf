package tree

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"strings"

	"github.com/boocode/filestore/store"
)

func entryItem(e *Entry) item {
	return item{name: e.Name, attr: uint16(e.Mode), size: uint64(e.Size), id: e.ID}
}

func itemEntry(it *item) Entry {
	return Entry{Name: it.name, Mode: Mode(it.attr), Size: int64(it.size), ID: it.id}
}

func validEntry(it *item) bool {
	m := Mode(it.attr)
	return m.valid() && !it.id.IsZero() && it.size < 1<<62 && (!m.IsDir() || it.size == 0)
}

func trees(g Getter) pageReader {
	known, _ := g.(*Pages)
	return pageReader{g, store.Tree, validEntry, known}
}

// Put stores a directory and returns its tree. The entries must be sorted by
// name, without two of one name.
func Put(p Putter, entries []Entry) (store.ID, error) { return putEntries(p, entries, nil) }

// putEntries is Put that makes the pages known.
func putEntries(p Putter, entries []Entry, known *Pages) (store.ID, error) {
	items := make([]item, len(entries))
	for i := range entries {
		items[i] = entryItem(&entries[i])
		if !validName(entries[i].Name) || !validEntry(&items[i]) || i > 0 && items[i-1].name >= items[i].name {
			return store.ID{}, fmt.Errorf("put tree: entry %d %q is invalid or out of order", i, entries[i].Name)
		}
	}
	return putItems(p, store.Tree, items, known)
}

// Empty is the tree of an empty directory.
var Empty = store.Hash(store.Tree, appendPage(nil, 0, nil))

// Entries yields the entries of a directory, sorted by name. Each pair is an
// entry and nil, or a zero entry and the error that ends the sequence.
func Entries(ctx context.Context, g Getter, id store.ID) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for it, err := range trees(g).items(ctx, id) {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !yield(itemEntry(&it), nil) {
				return
			}
		}
	}
}

// Lookup returns the entry at a slash-separated path below a tree; "." and
// "" are the tree itself. The error matches [fs.ErrNotExist] if there is none;
// [store.ErrNotFound] would mean that a part of the tree is lost. It reads a page or a few per directory, whatever their size.
func Lookup(ctx context.Context, g Getter, root store.ID, path string) (Entry, error) {
	e := Entry{Name: ".", Mode: ModeDir | 0o755, ID: root}
	if path == "." || path == "" {
		return e, nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if !e.Mode.IsDir() {
			return Entry{}, fmt.Errorf("%q: %w", path, fs.ErrNotExist)
		}
		it, ok, err := trees(g).find(ctx, e.ID, name)
		if err == nil && !ok {
			err = fmt.Errorf("%q: %w", path, fs.ErrNotExist)
		}
		if err != nil {
			return Entry{}, err
		}
		e = itemEntry(&it)
	}
	return e, nil
}

// A WalkEntry is an entry and where it is.
type WalkEntry struct {
	Path string // slash-separated, relative to the root
	Entry
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
	for e, err := range Entries(ctx, g, id) {
		if err != nil {
			yield(WalkEntry{}, fmt.Errorf("directory %q: %w", prefix, err))
			return false
		}
		path := join(prefix, e.Name)
		if !yield(WalkEntry{path, e}, nil) {
			return false
		}
		if e.Mode.IsDir() && !walk(ctx, g, e.ID, path, yield) {
			return false
		}
	}
	return true
}

// join joins a directory, "" for the root, and a name. It is not path.Join,
// which would clean raw names.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
