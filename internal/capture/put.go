package capture

import (
	"slices"
	"sort"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// make sets tree and cover, and notes what the cache has to learn.
func (j *dirJob) make() error {
	if j.slots == nil && j.old != nil {
		// Where ids have to be looked up, every page has: make them again.
		var differ []*dirJob
		for _, k := range j.kids {
			if k.differs() {
				differ = append(differ, k)
			}
		}
		if !j.c.lookup && len(differ) == 0 && len(j.edits) == 0 {
			j.tree, j.cover = j.old.tree(), j.old.cover()
			j.sumUp()
			return nil
		}
		if j.canEdit(differ) {
			j.sumUp()
			return j.edit(differ)
		}
		j.takeOld()
	}
	for _, k := range j.kids {
		s := &j.slots[k.at]
		s.kid = k
		s.gone, s.reason, s.st, s.id = k.gone, k.reason, k.st, k.tree
	}
	for i := range j.slots {
		s := &j.slots[i]
		if s.gone && s.out != outNone || s.reason == trees.Sparse && j.c.lookup {
			if err := j.takeOut(s); err != nil {
				return err
			}
		}
	}
	j.slots = slices.DeleteFunc(j.slots, func(s slot) bool { return s.gone })
	j.sumUp()
	cuts, leaves, err := j.putTree()
	if err != nil {
		return err
	}
	if err := j.putCoverage(); err != nil {
		return err
	}
	b := j.encode(cuts, leaves)
	j.c.mu.Lock()
	j.c.changed[j.number] = b
	j.c.mu.Unlock()
	return nil
}

// differs reports whether a directory came out other than its parent's tree
// has it.
func (j *dirJob) differs() bool {
	e := j.parent.old.entry(j.at)
	return j.gone || j.reason != 0 || j.old == nil ||
		j.tree != e.id() || j.st.Perm != e.perm() || j.cover != j.old.cover()
}

// putTree stores the pages of the directory. Pages that are as they were are
// not made again. cuts tells before which slots a large directory is cut.
func (j *dirJob) putTree() (cuts []bool, leaves []blockLeaf, err error) {
	captured := make([]int, 0, len(j.slots)) // indexes of slots
	for i := range j.slots {
		if j.slots[i].reason == 0 {
			captured = append(captured, i)
		}
	}
	cuts = make([]bool, len(j.slots))
	if len(captured) > trees.MaxSingle {
		for _, i := range captured {
			cuts[i] = j.isCut(&j.slots[i])
		}
	}
	ends := trees.Cut(len(captured), func(i int) bool { return cuts[captured[i]] })
	known := j.c.ws.pages
	if j.old == nil { // the first of many, which nobody compares
		known = nil
	}
	w := trees.TreeWriter(j.c.sink, known)
	pages := make([]trees.Item, len(ends))
	start := 0
	for i, end := range ends {
		part := captured[start:end]
		id, ok := j.oldLeaf(part)
		if !ok {
			items := make([]trees.Item, len(part))
			for k, at := range part {
				items[k] = j.slots[at].item()
			}
			if id, err = w.Page(0, items, len(ends) == 1); err != nil {
				return nil, nil, err
			}
		}
		pages[i] = trees.Item{Size: uint64(end - start), ID: id}
		last := 0
		if end > 0 {
			pages[i].Name, last = j.slots[part[0]].name, captured[end-1]+1
		}
		leaves = append(leaves, blockLeaf{last, end - start, id})
		start = end
	}
	j.tree, _, err = w.Above(pages)
	return cuts, leaves, err
}

// isCut reports whether a large directory is cut before a name. The cache
// knows it of the names that it has seen in one.
func (j *dirJob) isCut(s *slot) bool {
	if s.old >= 0 && j.old.leaves() > 1 && j.old.entry(s.old).reason() == 0 {
		return j.old.entry(s.old).flags()&flagBoundary != 0
	}
	return trees.Boundary(s.name, 0)
}

// oldLeaf finds the page that some entries, all there are between two cuts,
// make up if none of them has changed.
func (j *dirJob) oldLeaf(part []int) (id store.ID, ok bool) {
	if j.old == nil || j.old.leaves() < 2 || len(part) == 0 {
		return id, false
	}
	for _, at := range part {
		if !j.slots[at].sameEntry(j.old) {
			return id, false
		}
	}
	first, last := j.slots[part[0]].old, j.slots[part[len(part)-1]].old
	n := sort.Search(j.old.leaves(), func(i int) bool {
		end, _, _ := j.old.leaf(i)
		return end > first
	})
	if n == j.old.leaves() {
		return id, false
	}
	end, count, id := j.old.leaf(n)
	// All of them are from this page, and it has no others.
	return id, last < end && count == len(part) && j.c.has(id, 0)
}

// sameEntry reports whether the tree's entry is what it was.
func (s *slot) sameEntry(old block) bool {
	if s.old < 0 {
		return false
	}
	e := old.entry(s.old)
	return e.reason() == 0 && e.kind() == s.kind && e.perm() == s.st.Perm && e.id() == s.id &&
		(s.kind == vfs.Directory || e.fileSize() == s.st.Size)
}

// item returns the tree's entry for a captured slot.
func (s *slot) item() trees.Item {
	it := trees.Item{Name: s.name, Attr: uint16(modeOf(&s.st)), ID: s.id}
	if s.kind != vfs.Directory {
		it.Size = uint64(s.st.Size)
	}
	return it
}

// putCoverage stores what was left out.
func (j *dirJob) putCoverage() error {
	var items []trees.Item
	for i := range j.slots {
		if it, ok := j.omission(&j.slots[i]); ok {
			items = append(items, it)
		}
	}
	if len(items) == 0 {
		return nil
	}
	var err error
	j.cover, err = trees.CoverageWriter(j.c.sink).Dir(items)
	return err
}

// modeOf returns the mode of a captured file.
func modeOf(st *vfs.Stat) tree.Mode {
	switch st.Kind {
	case vfs.Directory:
		return tree.ModeDir | tree.Mode(st.Perm&0o777)
	case vfs.Symlink:
		return tree.ModeSymlink | 0o777
	}
	return tree.ModeFile | tree.Mode(st.Perm&0o777)
}

// omission returns what the coverage says of a name, if it says anything.
func (j *dirJob) omission(s *slot) (trees.Item, bool) {
	it := trees.Item{Name: s.name}
	switch {
	case s.reason == trees.Sparse && s.out == outPart:
		it.Attr, it.ID = trees.CoverageAttr(vfs.Directory, 0), s.id
	case s.reason != 0:
		it.Attr = trees.CoverageAttr(s.kind, s.reason)
		if s.kind == vfs.Regular && s.reason != trees.Ignored && s.reason != trees.Sparse {
			it.Size = uint64(s.st.Size)
		}
	case s.kind == vfs.Directory:
		if s.kid != nil {
			it.ID = s.kid.cover
		} else {
			it.ID = j.c.cache.block(s.child).cover()
		}
		if s.out == outDir {
			it.Attr = trees.CoverageAttr(vfs.Directory, trees.Sparse)
			break
		}
		it.Attr = trees.CoverageAttr(vfs.Directory, 0)
		return it, !it.ID.IsZero()
	case s.out == outFile || s.out == outLink || s.out == outDir: // made by somebody else than git
		it.Attr = trees.CoverageAttr(0, trees.Sparse)
	default:
		return it, false
	}
	return it, true
}
