package capture

import (
	"errors"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/watch"
	"github.com/boocode/filestore/tree"
)

// Where a process stays, the stat cache is kept in memory and the directories of
// the tree are watched. A capture goes only where something may have changed
// since the one before, and what it has learned is put into the cache.
//
// A directory is skipped if nothing has happened in it or below, by the watcher,
// since it was captured, and it holds nothing of which the watcher would not
// tell; see doubt. Where names are touched and no others, only those are looked
// at.

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
		c.lists = make(map[uint32][]trees.PageList)
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
	Directories int   `json:"directories"` // that are watched
	Refused     int64 `json:"refused"`     // that could not be, say because the system allows no more watches
	Events      int64 `json:"events"`
	Lost        int64 `json:"lost"` // how often events were lost, or something else made all that is watched doubtful

	Captures int64 `json:"captures"`
	Full     int64 `json:"full"` // captures that looked at all files
}

// WatchStats returns what was counted so far; zero if nothing is watched.
func (ws *Workspace) WatchStats() WatchStats {
	s := WatchStats{Captures: ws.captures.Load(), Full: ws.full.Load()}
	if ws.watcher != nil {
		w := ws.watcher.Stats()
		s.Directories, s.Refused, s.Events, s.Lost = w.Directories, w.Refused, w.Events, w.Lost
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

// LookedAtAll returns when a capture was that looked at all files, and whether something
// may have changed since of which the watcher has not told.
func (ws *Workspace) LookedAtAll() (at time.Time, due bool) {
	ws.lock <- struct{}{}
	defer func() { <-ws.lock }()
	return ws.looked, ws.due
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
	c.skip = !c.all && c.cache.sum(0).known && c.outSame && !c.lookup && c.reliable == alwaysReliable &&
		c.limits.FileSize == ws.fileSize && c.limits.FileSizes == ws.fileSizes && (c.changes == nil || !c.changes.Whole)
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
	ws.cache, ws.fileSize, ws.fileSizes = c.cache, c.limits.FileSize, c.limits.FileSizes
	ws.latest, ws.latestRules = c.result, ws.rules.ID()
	ws.adopted++
	ws.adoptedFrom = c.number
	ws.unsaved = true
	if !c.skip {
		ws.looked, ws.due = time.Now(), false
	}
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

// isRespelt reports whether a name that is touched may be that of an entry under another
// spelling, as file systems have it that find names whatever the case of their letters: the
// watcher tells the spelling that somebody used, and Lstat finds it. Only a list of the
// directory tells then which names there are.
func (j *dirJob) isRespelt(w *worker) bool {
	if j.changes == nil {
		return false
	}
	for name, c := range j.changes.Names {
		if !c.Touched {
			continue
		}
		if _, known := j.findName(name); known && !c.Named || j.dir.Lstat(name, &w.st) != nil {
			continue
		}
		st := w.st
		other, ok := otherSpelling(name)
		if ok && j.dir.Lstat(other, &w.st) == nil && w.st.Ino == st.Ino && w.st.Dev == st.Dev {
			return true
		}
	}
	return false
}

// otherSpelling returns a name with one letter in the other case, if it has a letter.
func otherSpelling(name string) (string, bool) {
	for i, r := range name {
		other := unicode.SimpleFold(r)
		if r < utf8.RuneSelf && unicode.IsLetter(r) {
			other = r ^ ' ' // not the sign of Kelvin
		}
		if other != r {
			return name[:i] + string(other) + name[i+utf8.RuneLen(r):], true
		}
	}
	return "", false
}

// sawLinked notes that a file has other names. If that is news, the directories with
// those names may not know either, and must be looked at.
func (j *dirJob) sawLinked(isNews bool) {
	j.linked.Store(true)
	if isNews || j.c.cache.sum(j.number).marks&doubt == 0 {
		j.c.unsure.Store(true)
	}
}

// findLinks finds out whether a file that was visited has other names. That is news
// if this name is new, or was another file's. A name that the file was given elsewhere
// since the last look is new in its own directory, which is enough.
func (j *dirJob) findLinks(w *worker, s *slot) {
	switch {
	case s.gone || s.kind == 0:
	case s.kind == vfs.Directory:
		// Nobody looks at what happened in a directory that was captured and is not
		// captured any more.
		if e := j.oldEntryOf(s); s.reason != 0 && e != nil && e.isTree() && j.changes.Of(s.name).AnyNamed() {
			j.c.unsure.Store(true)
		}
	case s.reason == trees.Ignored || s.reason == trees.VCS:
		// Its identity is not known yet. It may be a link to a file that is captured.
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

// findWritten finds out whether somebody writes to a file that was renamed since it
// was opened. The watcher tells of such a write under the old name. So doubt is due if
// that name is gone, or is the name of a file to which nothing has happened.
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
			j.sawWritten(c)
		}
	}
}

// sawWritten notes that the watcher has told of a write to a file that is as it was. It was
// another file, then, and all must be looked at; or the write came late: behind the call by
// which the last capture was told of changes, and before that looked at the file. As this is
// far more frequent, and it may still have been another file, all files are looked at soon,
// but whoever waits for this capture does not wait for that.
func (j *dirJob) sawWritten(c *watch.Changes) {
	if ws := j.c.ws; c.During && ws.lookedBy == ws.adoptedFrom {
		j.c.due.Store(true)
	} else {
		j.c.unsure.Store(true)
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
		i, known := j.findName(name)
		if !known && j.isMaking(name, 0) {
			j.shifting = true
			continue
		}
		if known {
			s.old, s.out = i, j.old.entry(i).out()
			if e := j.old.entry(i); e.reason() == 0 && e.kind() != vfs.Directory {
				j.c.seen.Add(-1) // it is counted again
			}
		}
		j.visit(w, &s)
		switch e := j.oldEntryOf(&s); {
		case e != nil && e.reason() == trees.Sparse && s.gone: // as before
		case e == nil && s.gone:
			if !c.Named { // somebody writes to a file that has another name by now
				j.c.unsure.Store(true)
			}
		case e == nil || s.gone || s.kind != e.kind() || s.reason != e.reason() ||
			s.matched != (e.flags()&flagMatched != 0) || s.reason != 0 && s.reason != trees.Ignored:
			others = append(others, s)
		case s.kind == vfs.Directory || s.reason == trees.Ignored:
		case s.id == e.id() && e.same(&s.st, j.st.Dev) && c.Written && !c.Named:
			if j.sawWritten(c); s.racy != (e.flags()&flagRacy != 0) {
				edits[s.old] = s
			}
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
	slices.SortFunc(j.slots, byName)
}

// unchanged returns what the last capture that the cache has learned from found, if this
// one would find the same: the watcher has told of nothing since, and there is nothing of
// which it might not tell. nil: somebody has to look. Workspace.lock is held.
func (c *capture) unchanged() *tree.Result {
	ws := c.ws
	r, old := ws.latest, c.cache.block(0)
	if ws.watcher == nil || r == nil || old == nil || r.Partial || r.Files+r.Symlinks > c.limits.Files ||
		ws.rules.ID() != ws.latestRules {
		return nil
	}
	dir, err := ws.openDir(ws.Root)
	if err != nil {
		return nil
	}
	defer dir.Close()
	var st vfs.Stat
	if err := dir.Stat(&st); err != nil || st.Ino != old.ino() || st.Dev != old.dev() {
		return nil
	}
	c.takeChanges()
	if !c.skip || c.changes != nil || c.cache.sum(0).allMarks&c.stops() != 0 {
		return nil
	}
	c.progress.Count(r.Files+r.Symlinks, 0)
	again := *r
	again.ReadFiles, again.ReadBytes = 0, 0
	return &again
}
