package trees

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/store"
)

// A directory is stored as pages (docs/reference/format.md §6). Its entries, sorted by
// name, are one page if there are at most maxSingle of them. Otherwise they
// are cut before each name whose hash says so, and the list of the pages is
// paged in the same way, up to one page, the root. Where a list is cut
// depends on names only: adding, changing or removing an entry touches its
// own page and those above it, whatever the size of the directory.

// MaxSingle is the number of items that a page holds without being cut.
const MaxSingle = 64

// boundaryBits bits of a name's hash are zero where its level is cut, so a
// page has 32 items on average.
const boundaryBits = 5

// MaxDir bounds the path of a directory in a tree, in bytes: who walks a tree has the path of each directory that it is
// in, so those of a chain of directories take memory by the square of its length. A path in a call may have 4,096 on
// Linux, and 32,767 on Windows.
const MaxDir = 16 << 10

// CheckDir returns an error if no directory of a tree can have a path.
func CheckDir(path string) error {
	const shown = 80
	if len(path) <= MaxDir {
		return nil
	}
	return fmt.Errorf("%w: the path of %q…, a directory, has %d bytes, the limit is %d", errPage, path[:shown],
		len(path), MaxDir)
}

// maxNameLen bounds a name: 255 bytes on Linux, 255 UTF-16 units elsewhere,
// which are 765 bytes of UTF-8 at most.
const maxNameLen = 1023

// An Item is one line of a page: an entry, an omission, or in the pages
// above level 0 another page, called by the first name in it.
type Item struct {
	Name string
	Attr uint16 // tree: mode; coverage: kind and reason; page: 0
	Size uint64 // tree and coverage: size; page: number of items below it at level 0
	ID   store.ID
}

// Boundary reports whether a list of this level is cut before a name.
func Boundary(name string, level int) bool { return height(name) > level }

// height returns how many levels are cut before a name: all from 0 on. More than
// 11 would take 2^60 names.
func height(name string) int { return min(bits.TrailingZeros64(nameHash(name)), 60) / boundaryBits }

func nameHash(name string) uint64 {
	sum := blake3.Sum256([]byte(name))
	return binary.LittleEndian.Uint64(sum[:])
}

const pageVersion = 1

const pageHeaderSize = 8

// appendPage appends the one encoding of a page: a header and five columns,
// which compress better and faster than rows.
func appendPage(b []byte, level int, items []Item) []byte {
	names := 0
	for i := range items {
		names += len(items[i].Name)
	}
	b = slices.Grow(b, pageHeaderSize+names+len(items)*(2+2+8+32))
	b = append(b, pageVersion, byte(level), 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(items)))
	for i := range items {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(items[i].Name)))
	}
	for i := range items {
		b = binary.LittleEndian.AppendUint16(b, items[i].Attr)
	}
	for i := range items {
		b = append(b, items[i].Name...)
	}
	for i := range items {
		b = binary.LittleEndian.AppendUint64(b, items[i].Size)
	}
	for i := range items {
		b = append(b, items[i].ID[:]...)
	}
	return b
}

var errPage = errors.New("not a directory page")

// ParsePage decodes a page and refuses what appendPage would not write. One that
// is not the root of its directory is cut before every name that says so,
// however few it has. valid checks an item of level 0.
func ParsePage(b []byte, root bool, valid func(*Item) bool) (level int, items []Item, err error) {
	if len(b) < pageHeaderSize || b[2] != 0 || b[3] != 0 {
		return 0, nil, errPage
	}
	if b[0] != pageVersion {
		return 0, nil, fmt.Errorf("%w: directory page of version %d", store.ErrFormat, b[0])
	}
	level = int(b[1])
	n := int(binary.LittleEndian.Uint32(b[4:]))
	b = b[pageHeaderSize:]
	if n > len(b)/(2+2+1+8+32) || n == 0 && level > 0 {
		return 0, nil, errPage
	}
	lens, attrs, b := b[:2*n], b[2*n:4*n], b[4*n:]
	fixed := n * (8 + 32)
	names := string(b[:len(b)-fixed])
	sizes, ids := b[len(names):len(names)+8*n], b[len(names)+8*n:]

	whole := root && n <= MaxSingle // a list that is not cut
	items = make([]Item, n)
	for i := range items {
		l := int(binary.LittleEndian.Uint16(lens[2*i:]))
		if l > len(names) {
			return 0, nil, errPage
		}
		it := &items[i]
		it.Name, names = names[:l], names[l:]
		it.Attr = binary.LittleEndian.Uint16(attrs[2*i:])
		it.Size = binary.LittleEndian.Uint64(sizes[8*i:])
		it.ID = store.ID(ids[32*i:])
		h := level // the first name is looked at where it stands above
		if i > 0 && (level > 0 || !whole) {
			h = height(it.Name)
		}
		switch {
		case !ValidName(it.Name),
			i > 0 && items[i-1].Name >= it.Name,
			level == 0 && !valid(it),
			level > 0 && (it.Attr != 0 || it.Size == 0 || it.ID.IsZero()),
			h < level || h > level && !whole:
			return 0, nil, fmt.Errorf("%w: item %d %q", errPage, i, it.Name)
		}
	}
	if names != "" {
		return 0, nil, errPage
	}
	return level, items, nil
}

// ValidName reports whether a name can be one path component.
func ValidName(name string) bool {
	return name != "" && len(name) <= maxNameLen && name != "." && name != ".." &&
		strings.IndexByte(name, '/') < 0 && strings.IndexByte(name, 0) < 0
}

// A PageList is the pages of one level of a directory, and where those of the
// next level end in it.
type PageList struct {
	Pages []Item // as the pages above have them
	ends  []int
}

// Cut returns where a sorted list of names is cut: the ends of its pages.
// isBoundary is asked for the names but the first.
func Cut(n int, isBoundary func(i int) bool) []int {
	var ends []int
	if n > MaxSingle {
		for i := 1; i < n; i++ {
			if isBoundary(i) {
				ends = append(ends, i)
			}
		}
	}
	return append(ends, n)
}

// A PageWriter stores directories of one kind.
type PageWriter struct {
	p     Putter
	kind  object.Kind
	known *Pages // is told of the pages; nil: none
}

// TreeWriter returns a writer of trees that tells known of their pages, if that
// is not nil.
func TreeWriter(p Putter, known *Pages) PageWriter { return PageWriter{p, object.Tree, known} }

// CoverageWriter returns a writer of what captures left out.
func CoverageWriter(p Putter) PageWriter { return PageWriter{p, object.Coverage, nil} }

// Page stores a page. Readers check the root of a directory by another rule than its
// other pages: see ParsePage.
func (w PageWriter) Page(level int, items []Item, isRoot bool) (store.ID, error) {
	id, err := w.p.Put(w.kind, appendPage(nil, level, items))
	if err == nil {
		w.known.addCopy(pageKey{id, isRoot}, level, items)
	}
	return id, err
}

// Above stores the pages above the leaves of a directory and returns the root,
// and the lists of pages, the leaves first: none if one leaf is all.
func (w PageWriter) Above(leaves []Item) (store.ID, []PageList, error) {
	if len(leaves) == 1 {
		return leaves[0].ID, nil, nil
	}
	heights := make([]int, len(leaves))
	for i := range leaves {
		heights[i] = height(leaves[i].Name)
	}
	var lists []PageList
	for items := leaves; ; {
		level := len(lists) + 1
		ends := Cut(len(items), func(i int) bool { return heights[i] > level })
		lists = append(lists, PageList{items, ends})
		pages, tops := make([]Item, 0, len(ends)), make([]int, 0, len(ends))
		start := 0
		for _, end := range ends {
			id, err := w.Page(level, items[start:end], len(ends) == 1)
			if err != nil {
				return store.ID{}, nil, err
			}
			page := Item{Name: items[start].Name, ID: id}
			for _, it := range items[start:end] {
				page.Size += it.Size
			}
			pages, tops = append(pages, page), append(tops, heights[start])
			start = end
		}
		if len(pages) == 1 {
			return pages[0].ID, lists, nil
		}
		items, heights = pages, tops
	}
}

// Replace stores the pages above leaves that have got other ids, but not those
// above no such leaf. It returns the new ids, for each list by place in it, and
// at last that of the root.
func (w PageWriter) Replace(lists []PageList, leaves map[int]store.ID) ([]map[int]store.ID, error) {
	changed := []map[int]store.ID{leaves}
	for l, list := range lists {
		pages := make(map[int][]Item) // that change, by number
		for i, id := range changed[l] {
			n, _ := slices.BinarySearch(list.ends, i+1)
			if pages[n] == nil {
				pages[n] = slices.Clone(list.Pages[list.start(n):list.ends[n]])
			}
			pages[n][i-list.start(n)].ID = id
		}
		ids := make(map[int]store.ID, len(pages))
		for _, n := range slices.Sorted(maps.Keys(pages)) { // a pack is the same each time
			var err error
			if ids[n], err = w.Page(l+1, pages[n], l+1 == len(lists)); err != nil {
				return nil, err
			}
		}
		changed = append(changed, ids)
	}
	return changed, nil
}

// start returns where page n of the next level begins in the list.
func (l *PageList) start(n int) int {
	if n == 0 {
		return 0
	}
	return l.ends[n-1]
}

// Dir stores a whole directory.
func (w PageWriter) Dir(items []Item) (store.ID, error) {
	ends := Cut(len(items), func(i int) bool { return Boundary(items[i].Name, 0) })
	leaves := make([]Item, len(ends))
	start := 0
	for i, end := range ends {
		id, err := w.Page(0, items[start:end], len(ends) == 1)
		if err != nil {
			return store.ID{}, err
		}
		leaves[i] = Item{Size: uint64(end - start), ID: id}
		if start < end {
			leaves[i].Name = items[start].Name
		}
		start = end
	}
	root, _, err := w.Above(leaves)
	return root, err
}

// A PageReader reads directories of one kind.
type PageReader struct {
	g     Getter
	Kind  object.Kind
	valid func(*Item) bool
	known *Pages // nil: none
}

// TreeReader returns a reader of trees. If g is Pages, it knows their pages.
func TreeReader(g Getter) PageReader {
	known, _ := g.(*Pages)
	return PageReader{g, object.Tree, validEntry, known}
}

// CoverageReader is [treeReader] for what captures left out.
func CoverageReader(g Getter) PageReader {
	known, _ := g.(*Pages)
	return PageReader{g, object.Coverage, validOmission, known}
}

// Page reads one page. above is the item that led to it, nil for a root.
func (r PageReader) Page(ctx context.Context, id store.ID, above *Item, levelAbove int) (int, []Item, error) {
	// Few pages may be a tree of 2^40 files, and all of them known: whoever walks it can be stopped.
	if ctx.Err() != nil {
		return 0, nil, context.Cause(ctx)
	}
	key := pageKey{id, above == nil}
	pg, known := r.known.get(key)
	var err error
	if !known {
		var b []byte
		if b, err = r.g.Get(ctx, r.Kind, id); err != nil {
			return 0, nil, err
		}
		pg.level, pg.items, err = ParsePage(b, above == nil, r.valid)
	}
	if err == nil && above == nil && pg.level > 0 &&
		(len(pg.items) == 1 || pg.level == 1 && count(1, pg.items) <= MaxSingle) {
		err = fmt.Errorf("%w: it has few entries and is cut", errPage)
	}
	if err == nil && above != nil &&
		(pg.level != levelAbove-1 || len(pg.items) == 0 || pg.items[0].Name != above.Name ||
			count(pg.level, pg.items) != above.Size) {
		err = fmt.Errorf("%w: it is not the page %q of its directory", errPage, above.Name)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", r.Kind, id.Short(), err)
	}
	if !known {
		r.known.add(key, pg)
	}
	return pg.level, pg.items, nil
}

// count returns the number of items at level 0.
func count(level int, items []Item) uint64 {
	if level == 0 {
		return uint64(len(items))
	}
	var n uint64
	for i := range items {
		n += items[i].Size
	}
	return n
}

// Items yields the items of a directory in order of name.
func (r PageReader) Items(ctx context.Context, root store.ID) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		c := newCursor(r, root)
		for {
			ok, err := c.load(ctx)
			if err != nil {
				yield(Item{}, err)
				return
			}
			if !ok {
				return
			}
			it := c.item()
			if c.level() > 0 {
				c.descend()
				continue
			}
			if !yield(*it, nil) {
				return
			}
			c.next()
		}
	}
}

// find looks up one name.
func (r PageReader) find(ctx context.Context, root store.ID, name string) (it Item, ok bool, err error) {
	id, levelAbove := root, 0
	var above *Item
	for {
		level, items, err := r.Page(ctx, id, above, levelAbove)
		if err != nil {
			return Item{}, false, err
		}
		i, found := slices.BinarySearchFunc(items, name, func(it Item, name string) int {
			return strings.Compare(it.Name, name)
		})
		if level == 0 {
			if !found {
				return Item{}, false, nil
			}
			return items[i], true, nil
		}
		if !found {
			i-- // the page that begins before the name
		}
		if i < 0 {
			return Item{}, false, nil
		}
		above, levelAbove, id = &items[i], level, items[i].ID
	}
}

// A cursor walks the items of a directory in order. It can stand on a page
// that it has not read yet, so that equal pages of two directories are
// passed over unread.
type cursor struct {
	r     PageReader
	root  store.ID
	stack []cursorPage // the last is the one whose items we walk
	begun bool
	into  bool // the current item is a page to be entered
}

type cursorPage struct {
	level int
	items []Item
	i     int
}

func newCursor(r PageReader, root store.ID) *cursor { return &cursor{r: r, root: root} }

// load makes item and level valid. It reports false at the end.
func (c *cursor) load(ctx context.Context) (bool, error) {
	if !c.begun {
		c.begun = true
		level, items, err := c.r.Page(ctx, c.root, nil, 0)
		if err != nil {
			return false, err
		}
		c.stack = append(c.stack, cursorPage{level: level, items: items})
	}
	if c.into {
		c.into = false
		top := &c.stack[len(c.stack)-1]
		above := &top.items[top.i]
		top.i++
		level, items, err := c.r.Page(ctx, above.ID, above, top.level)
		if err != nil {
			return false, err
		}
		if !sorted(above, items, top) {
			return false, fmt.Errorf("%s %s: %w: names out of order", c.r.Kind, above.ID.Short(), errPage)
		}
		c.stack = append(c.stack, cursorPage{level: level, items: items})
	}
	for len(c.stack) > 0 {
		top := &c.stack[len(c.stack)-1]
		if top.i < len(top.items) {
			return true, nil
		}
		c.stack = c.stack[:len(c.stack)-1]
	}
	return false, nil
}

// sorted reports whether a page ends before the next begins.
func sorted(above *Item, items []Item, parent *cursorPage) bool {
	return parent.i >= len(parent.items) || items[len(items)-1].Name < parent.items[parent.i].Name
}

func (c *cursor) item() *Item {
	top := &c.stack[len(c.stack)-1]
	return &top.items[top.i]
}

// level is that of the page that holds the item: above 0 the item is a page.
func (c *cursor) level() int { return c.stack[len(c.stack)-1].level }

func (c *cursor) next()    { c.stack[len(c.stack)-1].i++ }
func (c *cursor) descend() { c.into = true }
