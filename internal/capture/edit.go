package capture

import (
	"maps"
	"slices"
	"sort"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// A blockEdit changes entries of a block and the pages of its tree.
type blockEdit struct {
	entries map[int]block    // as appendEntry makes them
	lists   []trees.PageList // of the pages as they are
	pages   []map[int]store.ID
	tree    store.ID
}

// apply changes a block and the lists of its pages, which are nobody else's.
func (e *blockEdit) apply(b block) {
	copy(b[72:], e.tree[:])
	for i, entry := range e.entries {
		copy(b.entry(i), entry)
	}
	for n, id := range e.pages[0] {
		copy(b[b.leafStart()+n*blockLeafSize+8:], id[:])
	}
	for l, list := range e.lists {
		for i, id := range e.pages[l] {
			list.Pages[i].ID = id
		}
	}
}

// isLarge reports whether to make slots of all names costs more than to change
// some entries in place.
func (j *dirJob) isLarge() bool { return j.old.count() > batchSize }

// canEdit reports whether a directory's tree can be made by changing some
// entries, which are j.edits and those of subdirectories.
func (j *dirJob) canEdit(kids []*dirJob) bool {
	return j.touched && j.isLarge() && !slices.ContainsFunc(kids, func(k *dirJob) bool {
		return k.gone || k.reason != 0 || k.old == nil || k.cover != k.old.cover()
	})
}

// edit makes the tree of a large directory of which some entries have changed.
func (j *dirJob) edit(kids []*dirJob) error {
	if j.edits == nil {
		j.edits = make(map[int]slot)
	}
	for _, k := range kids {
		e := j.old.entry(k.at)
		j.edits[k.at] = slot{name: k.name, kind: vfs.Directory, old: k.at, out: e.out(),
			matched: e.flags()&flagMatched != 0, st: k.st, id: k.tree, kid: k}
	}
	edit := &blockEdit{entries: make(map[int]block), tree: j.old.tree()}
	leaves := make(map[int]store.ID) // that change
	for i, s := range j.edits {
		e := j.old.entry(i)
		edit.entries[i] = s.appendEntry(nil, e.flags()&flagBoundary != 0, int(e.nameOff()))
		if e.reason() == 0 && !s.sameEntry(j.old) {
			leaves[sort.Search(j.old.leaves(), func(n int) bool { return j.old.leafEnd(n) > i })] = store.ID{}
		}
	}
	w := trees.TreeWriter(j.c.sink, j.c.ws.pages)
	for _, n := range slices.Sorted(maps.Keys(leaves)) {
		var items []trees.Item
		for i := j.old.leafBegin(n); i < j.old.leafEnd(n); i++ {
			if s, ok := j.edits[i]; ok {
				items = append(items, s.item())
			} else if e := j.old.entry(i); e.reason() == 0 {
				items = append(items, e.item(j.old.name(i)))
			}
		}
		var err error
		if leaves[n], err = w.Page(0, items, j.old.leaves() == 1); err != nil {
			return err
		}
	}
	var err error
	if edit.lists, err = j.oldLists(); err != nil {
		return err
	}
	if edit.pages, err = w.Replace(edit.lists, leaves); err != nil {
		return err
	}
	if root, ok := edit.pages[len(edit.lists)][0]; ok {
		edit.tree = root
	}
	j.tree, j.cover = edit.tree, j.old.cover()
	j.c.mu.Lock()
	j.c.edits[j.number] = edit
	j.c.mu.Unlock()
	return nil
}

// oldLists returns the pages that the directory has had. They are made once: the
// names of thousands of pages would be hashed each time.
func (j *dirJob) oldLists() ([]trees.PageList, error) {
	if lists, ok := j.c.cache.lists[j.number]; ok {
		return lists, nil
	}
	leaves := make([]trees.Item, j.old.leaves())
	for n := range leaves {
		_, count, id := j.old.leaf(n)
		leaves[n] = trees.Item{Size: uint64(count), ID: id}
		for i := j.old.leafBegin(n); i < j.old.leafEnd(n); i++ {
			if j.old.entry(i).reason() == 0 {
				leaves[n].Name = j.old.name(i)
				break
			}
		}
	}
	_, lists, err := trees.TreeWriter(j.c.sink, nil).Above(leaves)
	return lists, err
}
