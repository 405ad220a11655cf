package tree

import (
	"errors"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/watch"
	"github.com/boocode/filestore/store"
)

// Where a process stays, the stat cache is kept in memory and the directories of
// the tree are watched. A capture goes only where something may have changed
// since the one before, and what it has learned is put into the cache.
//
// A directory is skipped if nothing has happened in it or below, by the watcher,
// since it was captured, and it holds nothing of which the watcher would not
// tell; see doubt. Where names are touched and no others, only those are looked
// at.

// Counts are what there is in a directory, or in all of a tree.
type counts struct{ files, dirs, links, bytes, omitted int64 }

func (n *counts) add(m counts) { n.addTimes(m, 1) }

func (n *counts) sub(m counts) { n.addTimes(m, -1) }

func (n *counts) addTimes(m counts, times int64) {
	n.files += times * m.files
	n.dirs += times * m.dirs
	n.links += times * m.links
	n.bytes += times * m.bytes
	n.omitted += times * m.omitted
}

// A dirSum is what must be known of a directory that is skipped.
type dirSum struct {
	known    bool
	own, all counts // of itself, and with all below
	marks    marks  // of itself
	allMarks marks  // with all below
}

// Marks say why a directory may not be skipped.
type marks uint8

const (
	// doubt: a change might not be told. The directory is not watched, or lies
	// on another file system; a file has other names, through which it may be
	// written; or something could not be captured, for a reason that may pass.
	doubt marks = 1 << iota
	// matched: a rule matches a name. Whether git tracks it must be asked again
	// when git's index has changed.
	matched
)

// sum returns what is known of a directory.
func (c *statCache) sum(dir uint32) dirSum {
	if int(dir) >= len(c.sums) {
		return dirSum{}
	}
	return c.sums[dir]
}

// A blockEdit changes entries of a block and the pages of its tree.
type blockEdit struct {
	entries map[int]block // as appendEntry makes them
	lists   []pageList    // of the pages as they are
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
			list.pages[i].id = id
		}
	}
}

// adopt puts what a capture has found into the cache.
func (c *statCache) adopt(from *capture, h batchHeader) {
	c.batch = h
	for len(c.blocks) < int(h.nextDir) {
		c.blocks = append(c.blocks, nil)
	}
	for len(c.sums) < int(h.nextDir) {
		c.sums = append(c.sums, dirSum{})
	}
	if c.lists == nil {
		c.lists = make(map[uint32][]pageList)
	}
	for dir, b := range from.changed {
		c.blocks[dir] = b
		delete(c.lists, dir)
	}
	for dir, e := range from.edits {
		e.apply(c.blocks[dir])
		c.lists[dir] = e.lists
	}
	for dir, s := range from.sums {
		c.sums[dir] = s
	}
}

// watch begins to watch the tree, if that is asked for and can be done.
func (ws *Workspace) watch() {
	if !vfs.Local(ws.Root) {
		ws.log.Debug("not watched: the file system does not tell of all changes", "root", ws.Root)
		return
	}
	w, err := watch.New(ws.Root, ws.maxWatches)
	if err != nil {
		ws.log.Warn("not watched: each capture looks at all files", "root", ws.Root, "err", err)
		return
	}
	ws.watcher = w
}

// WatchStats counts what the watcher of a workspace has been through, and the
// captures.
type WatchStats struct {
	watch.Stats
	Captures int64 `json:"captures"`
	Full     int64 `json:"full"` // captures that looked at all files
}

// WatchStats returns what was counted so far; zero if nothing is watched.
func (ws *Workspace) WatchStats() WatchStats {
	s := WatchStats{Captures: ws.captures.Load(), Full: ws.full.Load()}
	if ws.watcher != nil {
		s.Stats = ws.watcher.Stats()
	}
	return s
}

// News is sent to when something may have changed since the last capture,
// perhaps once for many changes; nil if nothing is watched.
func (ws *Workspace) News() <-chan struct{} {
	if ws.watcher == nil {
		return nil
	}
	return ws.watcher.News()
}

// Doubt makes the next capture look at all files, as if nothing had been
// watched.
func (ws *Workspace) Doubt() {
	if ws.watcher != nil {
		ws.watcher.Doubt()
	}
}

// Close ends the watch, and saves the stat cache for whoever comes next. No
// capture may run.
func (ws *Workspace) Close() error {
	var err error
	if ws.watcher != nil {
		err = ws.watcher.Close()
	}
	return errors.Join(err, ws.SaveCache())
}

// SaveCache writes the stat cache that is kept in memory, if it has changed since
// it was written last.
func (ws *Workspace) SaveCache() error {
	ws.lock <- struct{}{}
	defer func() { <-ws.lock }()
	if ws.cache == nil || !ws.unsaved {
		return nil
	}
	dirs, err := ws.cache.replace()
	if err != nil {
		return err
	}
	ws.unsaved = false
	const spare = 1000
	if len(ws.cache.blocks) > 2*dirs+spare { // directories that have gone
		ws.cache = nil
	}
	return nil
}

// takeChanges begins a capture: it is told what may have changed since the one
// that was adopted last, and may skip the rest.
func (c *capture) takeChanges() {
	ws := c.ws
	ws.watcher.Return(ws.pending)
	ws.pending = ws.watcher.Take()
	c.changes = ws.pending
	c.skip = c.cache.sum(0).known && c.outSame && !c.lookup && c.reliable == alwaysReliable && c.limits.FileSize == ws.fileSize &&
		(c.changes == nil || !c.changes.Whole)
}

// overtaken reports whether the cache in memory has learned from another capture
// since this one read it: its entries are another's by now. Workspace.lock is held.
func (c *capture) overtaken() bool {
	ws := c.ws
	return ws.cache != nil && ws.cache != c.cache || ws.adopted != c.after
}

// remember puts what a capture found into the cache in memory, from which no other
// has overtaken it. All that it put is durable. Workspace.lock is held.
func (c *capture) remember(h batchHeader) {
	ws := c.ws
	c.cache.adopt(c, h)
	ws.cache, ws.fileSize = c.cache, c.limits.FileSize
	ws.adopted++
	ws.unsaved = true
	if ws.pending == c.changes { // nobody was told of more
		ws.pending = nil
	}
}

// enter watches the directory, before anything of it is looked at: what changes
// from now on is told.
func (j *dirJob) enter() {
	w := j.c.ws.watcher
	if w == nil {
		return
	}
	d, ok := j.dir.(interface{ Fd() int })
	j.unwatched = !ok || w.Add(j.path(), d.Fd()) != nil
}

// skips reports whether a subdirectory need not be looked at.
func (j *dirJob) skips(name string, number uint32) bool {
	if j.whole || number == 0 || j.changes.Of(name) != nil {
		return false
	}
	s := j.c.cache.sum(number)
	return s.known && s.allMarks&j.c.stops() == 0
}

// stops returns the marks of directories that must be looked at.
func (c *capture) stops() marks {
	if c.asked {
		return doubt
	}
	return doubt | matched
}

// onlyTouched reports whether only the names that are touched must be looked at.
func (j *dirJob) onlyTouched() bool {
	if j.whole || j.old == nil || j.st.Ino != j.old.ino() || j.st.Dev != j.old.dev() {
		return false
	}
	for _, name := range patternFiles {
		if j.changes.Of(name) != nil {
			return false
		}
	}
	s := j.c.cache.sum(j.number)
	return s.known && s.marks&j.c.stops() == 0
}

// sawLinked notes that a file has other names. Where that is news, so it may be
// to the directories that have those.
func (j *dirJob) sawLinked(isNews bool) {
	j.linked.Store(true)
	if isNews || j.c.cache.sum(j.number).marks&doubt == 0 {
		j.c.unsure.Store(true)
	}
}

// findLinks finds out whether a file that was visited has other names. It is
// news that it has where the name is new, or was another file's. Whatever other
// name a file got that is here since the last look, that name is news where it
// is.
func (j *dirJob) findLinks(w *worker, s *slot) {
	switch {
	case s.gone || s.kind == 0:
	case s.kind == vfs.Directory:
		// What happened in a directory that was captured, and is not now, nobody
		// looks at.
		if e := j.oldEntryOf(s); s.reason != 0 && e != nil && e.isTree() && j.changes.Of(s.name).AnyNamed() {
			j.c.unsure.Store(true)
		}
	case s.reason == Ignored || s.reason == VCS:
		// It was not described. The link may be to a file that is captured.
		c := j.changes.Of(s.name)
		isNews := j.whole || s.old < 0 || c != nil && c.Named
		if j.c.skip && isNews && j.dir.Lstat(s.name, &w.st) == nil && w.st.Linked {
			j.c.unsure.Store(true)
		}
	case s.st.Linked:
		e := j.oldEntryOf(s)
		j.sawLinked(e == nil || e.kind() != vfs.Regular || e.ino() != s.st.Ino)
	}
}

// findWritten finds out whether somebody writes to a file that had a name when he
// opened it, and has another by now: his writing is told under the name that it
// had, be it gone, or that of a file to which nothing has happened.
func (j *dirJob) findWritten(w *worker) {
	if j.changes == nil {
		return
	}
	for name, c := range j.changes.Names {
		if !c.Touched || c.Named {
			continue
		}
		at, ok := j.findName(name)
		if !ok {
			j.c.unsure.Store(true)
			continue
		}
		e := j.oldEntry(at)
		if !c.Written || e == nil || e.reason() != 0 || e.kind() == vfs.Directory {
			continue
		}
		if j.dir.Lstat(name, &w.st) == nil && e.same(&w.st, j.st.Dev) {
			j.c.unsure.Store(true)
		}
	}
}

// visitTouched visits the names that are touched.
func (j *dirJob) visitTouched(w *worker) {
	if j.changes == nil {
		return
	}
	var others []slot // made, gone, or become something else
	edits := make(map[int]slot)
	for name, c := range j.changes.Names {
		if !c.Touched {
			continue
		}
		s := slot{name: name, old: -1}
		if i, ok := j.findName(name); ok {
			s.old, s.out = i, j.old.entry(i).out()
			if e := j.old.entry(i); e.reason() == 0 && e.kind() != vfs.Directory {
				j.c.seen.Add(-1) // it is counted again
			}
		}
		j.visit(w, &s)
		switch e := j.oldEntryOf(&s); {
		case e != nil && e.reason() == Sparse && s.gone: // as before
		case e == nil && s.gone:
			if !c.Named { // somebody writes to a file that has another name by now
				j.c.unsure.Store(true)
			}
		case e == nil || s.gone || s.kind != e.kind() || s.reason != e.reason() || s.matched != (e.flags()&flagMatched != 0) || s.reason != 0 && s.reason != Ignored:
			others = append(others, s)
		case s.kind == vfs.Directory || s.reason == Ignored:
		case s.id == e.id() && e.same(&s.st, j.st.Dev) && c.Written && !c.Named:
			j.c.unsure.Store(true) // it was another file that was written: see findWritten
		case s.racy != (e.flags()&flagRacy != 0) || s.id != e.id() || !e.same(&s.st, j.st.Dev):
			edits[s.old] = s
		}
	}
	if j.edits = edits; len(others) == 0 && j.isLarge() {
		return
	}
	if len(others)+len(edits) == 0 {
		return
	}
	j.takeOld()
	for _, s := range others {
		if s.old >= 0 {
			j.slots[s.old] = s
		} else {
			j.slots = append(j.slots, s)
		}
	}
	slices.SortFunc(j.slots, func(a, b slot) int { return strings.Compare(a.name, b.name) })
}

// isLarge reports whether to make slots of all names costs more than to change
// some entries in place.
func (j *dirJob) isLarge() bool { return j.old.count() > batchSize }

// oldEntryOf returns what the cache knows of a slot, nil if nothing.
func (j *dirJob) oldEntryOf(s *slot) entry {
	if s.old < 0 {
		return nil
	}
	return j.old.entry(s.old)
}

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
		j.edits[k.at] = slot{name: k.name, kind: vfs.Directory, old: k.at, out: e.out(), matched: e.flags()&flagMatched != 0, st: k.st, id: k.tree, kid: k}
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
	for _, n := range slices.Sorted(maps.Keys(leaves)) {
		var items []item
		for i := j.old.leafBegin(n); i < j.old.leafEnd(n); i++ {
			if s, ok := j.edits[i]; ok {
				items = append(items, s.item())
			} else if e := j.old.entry(i); e.reason() == 0 {
				items = append(items, e.item(j.old.name(i)))
			}
		}
		var err error
		if leaves[n], err = j.c.sink.Put(store.Tree, appendPage(nil, 0, items)); err != nil {
			return err
		}
		j.c.ws.pages.addCopy(pageKey{leaves[n], j.old.leaves() == 1}, 0, items)
	}
	var err error
	if edit.lists, err = j.oldLists(); err != nil {
		return err
	}
	if edit.pages, err = putChanged(j.c.sink, store.Tree, edit.lists, leaves, j.c.ws.pages); err != nil {
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
func (j *dirJob) oldLists() ([]pageList, error) {
	if lists, ok := j.c.cache.lists[j.number]; ok {
		return lists, nil
	}
	leaves := make([]item, j.old.leaves())
	for n := range leaves {
		_, count, id := j.old.leaf(n)
		leaves[n] = item{size: uint64(count), id: id}
		for i := j.old.leafBegin(n); i < j.old.leafEnd(n); i++ {
			if j.old.entry(i).reason() == 0 {
				leaves[n].name = j.old.name(i)
				break
			}
		}
	}
	_, lists, err := putPages(j.c.sink, store.Tree, leaves, nil)
	return lists, err
}

// item returns the tree's entry of a captured name.
func (e entry) item(name string) item {
	st := vfs.Stat{Perm: e.perm(), Kind: e.kind()}
	it := item{name: name, attr: uint16(modeOf(&st)), id: e.id()}
	if e.kind() != vfs.Directory {
		it.size = uint64(e.fileSize())
	}
	return it
}

// sumUp adds up what there is in the directory and below.
func (j *dirJob) sumUp() {
	s := &j.sum // which verify has begun
	s.known = true
	if j.unwatched || j.shifting || j.linked.Load() || !j.c.local || j.st.Dev != j.c.rootDev {
		s.marks |= doubt
	}
	switch was := j.c.cache.sum(j.number); {
	case j.slots != nil || j.old == nil:
		s.own, s.marks = counts{}, s.marks&doubt
		for i := range j.slots {
			s.addSlot(&j.slots[i])
		}
	case j.touched:
		s.own = was.own
		s.marks |= was.marks
		for i, e := range j.edits {
			if e.kind == vfs.Regular {
				s.own.bytes += e.st.Size - j.old.entry(i).fileSize()
			}
		}
	}
	s.own.dirs = 1
	s.all, s.allMarks = j.below, s.marks|j.belowMarks
	s.all.add(s.own)
	for _, k := range j.kids {
		if !k.gone && k.reason == 0 {
			s.all.add(k.sum.all)
			s.allMarks |= k.sum.allMarks
		}
	}
	if j.c.ws.watcher != nil {
		j.c.mu.Lock()
		j.c.sums[j.number] = *s
		j.c.mu.Unlock()
	}
}

// addSlot adds a name that is not a captured directory.
func (s *dirSum) addSlot(t *slot) {
	if t.gone {
		return
	}
	if t.matched {
		s.marks |= matched
	}
	s.own.omitted += outCount(t.kind, t.reason, t.out, t.st.Size)
	switch {
	case t.reason == Sparse:
	case t.reason == Unstable || t.reason == Unreadable || t.reason == TooLarge || t.reason == OverBudget:
		s.own.omitted++
		s.marks |= doubt
	case t.reason != 0:
		s.own.omitted++
	case t.kind == vfs.Regular:
		s.own.files++
		s.own.bytes += t.st.Size
	case t.kind == vfs.Symlink:
		s.own.links++
	}
}

// unchangedBlocks drops what is in the cache already.
func (c *capture) unchangedBlocks() {
	maps.DeleteFunc(c.changed, func(number uint32, b block) bool {
		return string(b) == string(c.cache.block(number))
	})
}
