package capture

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/boocode/filestore/internal/ignore"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/watch"
	"github.com/boocode/filestore/store"
)

// A dirJob captures one directory. It goes through three steps, each perhaps
// on another worker: start opens the directory and visits its names (visit
// may be spread over many tasks), visited sends off the subdirectories, and
// finish, after the last of these has finished, makes the tree.
//
// As long as everything is as the stat cache has it, there are no slots, and
// the directory's old tree is the result.
type dirJob struct {
	c      *capture
	parent *dirJob
	out    outKind // what the parent knows of this directory
	at     int     // index of this directory in the parent's slots
	name   string  // in the parent; "" for the root
	depth  int
	length int    // of its path, and of the slash behind it; 0 for the root
	number uint32 // in the stat cache
	forced bool   // a rule ignores this directory: only what git tracks is captured
	weight *weight

	changes   *watch.Changes // what may have changed here and below
	whole     bool           // or anything
	touched   bool           // only names in changes are looked at
	unwatched bool           // changes may come unseen

	dir      vfs.Dir
	st       vfs.Stat
	old      block         // what the cache knows; nil: nothing
	rules    *ignore.Rules // the parent's until start, then those in force here; nil if forced
	rulesID  [16]byte
	patterns [2]patternFile // .gitignore and .booignore

	slots    []slot
	edits    map[int]slot // of touched names that stay: what they are now
	kids     []*dirJob
	shifting bool        // it changed each time it was listed
	linked   atomic.Bool // a file has other names

	users   atomic.Int32 // claims to dir: of this job's visits, and of each subdirectory until it is open
	ranges  atomic.Int32 // visits not done
	pending atomic.Int32 // subdirectories not finished

	// The result.
	gone   bool         // not there any more
	reason trees.Reason // why it was not captured; 0: it was
	tree   store.ID
	cover  store.ID
	sum    dirSum

	below      counts // in subdirectories that were skipped
	belowMarks marks
}

// A slot is one name in a directory that is not just as it was.
type slot struct {
	name    string
	kind    vfs.Kind // 0: not known yet
	old     int      // index in the old block; -1: not there
	gone    bool
	matched bool // an ignore rule matches
	out     outKind
	reason  trees.Reason // why it was not captured; 0: it was
	racy    bool         // must be read again next time
	st      vfs.Stat
	id      store.ID
	kid     *dirJob // a captured directory; nil: it was skipped
	child   uint32  // its number in the stat cache, if it was skipped
}

func byName(a, b slot) int { return strings.Compare(a.name, b.name) }

// batchSize is the number of names that one task visits. A directory with
// more, all of which may have to be read, keeps several workers busy.
const batchSize = 512

// start opens the directory and looks at its names.
func (j *dirJob) start(w *worker) {
	c := j.c
	j.users.Store(1)
	if !j.open() {
		j.finish()
		return
	}
	switch {
	case c.queue.isStopped():
	case c.ws.isStore(&j.st):
		j.reason = trees.OwnStore
	case j.length > trees.MaxDir+len("/"): // no tree has it
		j.reason = trees.Unreadable
	case j.parent != nil && (c.late() || c.isOver() && c.partial):
		j.reason = trees.OverBudget
		c.unfinished.Store(true)
	default:
		j.weigh()
		j.look(w)
		return
	}
	j.release()
	j.finish()
}

// open opens the directory unless it is the root, which is open.
func (j *dirJob) open() bool {
	var err error
	if j.parent != nil {
		j.dir, err = j.parent.dir.OpenDir(j.name)
		j.parent.release()
	}
	if err == nil {
		if j.parent != nil { // whose directory the capture has opened and watched
			j.enter()
		}
		if err = j.dir.Stat(&j.st); err != nil {
			j.dir.Close()
		}
	}
	switch {
	case err == nil:
		return true
	case isFatal(err):
		j.c.fail(err)
	case isGone(err):
		j.gone = true
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		j.reason = trees.Unstable // it was a directory a moment ago
	default:
		j.reason = trees.Unreadable
	}
	return false
}

// release gives up one claim to the open directory.
func (j *dirJob) release() {
	if j.users.Add(-1) == 0 {
		j.dir.Close() // opened for reading: nothing can get lost
	}
}

// weigh finds who sums up what has to be read here.
func (j *dirJob) weigh() {
	const deepest = 2
	if j.depth > deepest {
		j.weight = j.parent.weight
		return
	}
	j.weight = &weight{path: j.path()}
	if j.weight.path == "" {
		j.weight.path = "."
	}
	j.c.mu.Lock()
	j.c.weights = append(j.c.weights, j.weight)
	j.c.mu.Unlock()
}

// path returns where the directory is, relative to the root.
func (j *dirJob) path() string {
	n := 0
	for d := j; d.parent != nil; d = d.parent {
		n += 1 + len(d.name)
	}
	b := make([]byte, n) // at once: with each level as a string, one of 5,000 takes a second
	for d := j; d.parent != nil; d = d.parent {
		n -= 1 + len(d.name)
		b[n] = '/'
		copy(b[n+1:], d.name)
	}
	return strings.TrimPrefix(string(b), "/")
}

// look finds out the names and visits those that may have changed.
func (j *dirJob) look(w *worker) {
	j.touched = j.onlyTouched() && !j.isRespelt(w)
	known := j.touched || j.old != nil && j.unchanged()
	if !known {
		if err := j.list(); err != nil {
			j.unreadable(err)
			return
		}
	}
	j.readPatterns(w)
	if j.old == nil || j.st.Ino != j.old.ino() || j.st.Dev != j.old.dev() || j.old.rules() != j.rulesID {
		j.whole = true
		if j.touched = false; known && !j.unchanged() {
			known = false
			if err := j.list(); err != nil {
				j.unreadable(err)
				return
			}
		}
	}
	if j.c.skip && !j.touched {
		j.findWritten(w)
	}
	if j.touched {
		own := j.c.cache.sum(j.number).own
		j.c.count(own.files + own.links)
		j.visitTouched(w)
		j.visited()
		return
	}
	if known && j.c.outSame && j.old.rules() == j.rulesID && j.old.count() <= batchSize {
		doubtful := j.verify(w)
		if len(doubtful) > 0 {
			j.takeOld()
			for _, i := range doubtful {
				j.visit(w, &j.slots[i])
			}
		}
		j.visited()
		return
	}
	if known {
		j.takeOld()
		j.mergeOut()
	}
	n := max(1, (len(j.slots)+batchSize-1)/batchSize)
	j.ranges.Store(int32(n))
	tasks := make([]task, 0, n)
	for lo := 0; lo < len(j.slots) || lo == 0; lo += batchSize {
		tasks = append(tasks, task{job: j, lo: lo, hi: min(lo+batchSize, len(j.slots))})
	}
	if n == 1 {
		j.visitRange(w, 0, len(j.slots))
		j.visited()
		return
	}
	j.c.queue.push(tasks...)
}

// unreadable ends the job because the directory cannot be read.
func (j *dirJob) unreadable(err error) {
	if isFatal(err) {
		j.c.fail(err)
	}
	j.slots = nil
	j.reason = trees.Unreadable
	j.release()
	j.finish()
}

// unchanged reports whether the directory holds the names that it held.
func (j *dirJob) unchanged() bool {
	o := j.old
	return o.flags()&listingRacy == 0 && o.ctime() < j.c.reliable &&
		o.ctime() == j.st.Ctime && o.mtime() == j.st.Mtime && o.ino() == j.st.Ino && o.dev() == j.st.Dev
}

// list reads the names and finds them in the old block.
func (j *dirJob) list() error {
	j.slots = []slot{} // not nil, which would mean that all is as it was
	// A name that is replaced while a directory is listed may be missed, so a
	// directory that changes is listed again. What any listing had is looked
	// at: what is gone by then says so itself.
	j.shifting = true
	making := false
	for try := 0; try < maxTries && j.shifting; try++ {
		err := j.dir.ReadNames(func(name []byte, kind vfs.Kind) {
			if j.isMaking(string(name), kind) {
				making = true
				return
			}
			j.slots = append(j.slots, slot{name: string(name), kind: kind, old: -1})
		})
		if err != nil {
			return err
		}
		before := j.st
		if err := j.dir.Stat(&j.st); err != nil {
			return err
		}
		j.shifting = j.st != before
	}
	j.shifting = j.shifting || making // what is in there when the restore ends was put there by others
	slices.SortFunc(j.slots, byName)
	j.slots = slices.CompactFunc(j.slots, func(a, b slot) bool { return a.name == b.name })
	j.mergeOut()
	if j.old == nil {
		return nil
	}
	k := 0
	for i := range j.slots {
		for k < j.old.count() && j.old.name(k) < j.slots[i].name {
			k++
		}
		if k < j.old.count() && j.old.name(k) == j.slots[i].name {
			j.slots[i].old = k
		}
	}
	return nil
}

// isMaking reports whether a name is a directory in which a restore has files in the making,
// or was one. kind is 0 if it is not known.
func (j *dirJob) isMaking(name string, kind vfs.Kind) bool {
	if !trees.IsMaking(name) || kind != 0 && kind != vfs.Directory {
		return false
	}
	for range 10 {
		held, empty, err := j.lookInto(name)
		if err != nil || held || !empty {
			return held || errors.Is(err, fs.ErrNotExist)
		}
		time.Sleep(time.Millisecond) // a restore may have made it just now, and take the lock next
	}
	return false
}

// lookInto reports whether somebody holds the lock on a subdirectory, and whether it is empty.
func (j *dirJob) lookInto(name string) (held, empty bool, err error) {
	dir, err := j.dir.OpenDir(name)
	if err != nil {
		return false, false, err
	}
	free, err := dir.TryLock(vfs.Shared)
	empty = true
	if err == nil && free {
		err = dir.ReadNames(func([]byte, vfs.Kind) { empty = false })
	}
	return err == nil && !free, empty, errors.Join(err, dir.Close())
}

// takeOld makes slots of the old block, as if all had been visited.
func (j *dirJob) takeOld() {
	j.slots = make([]slot, j.old.count())
	for i := range j.slots {
		e := j.old.entry(i)
		j.slots[i] = slot{
			name: j.old.name(i), kind: e.kind(), old: i, id: e.id(),
			matched: e.flags()&flagMatched != 0, racy: e.flags()&flagRacy != 0,
			reason: e.reason(), out: e.out(), child: e.child(),
			st: e.stat(j.old.dev()),
		}
	}
	for i, s := range j.edits {
		j.slots[i] = s
	}
}

// verify compares the names with the old block and returns those that have
// to be visited. It sets kids.
func (j *dirJob) verify(w *worker) (doubtful []int) {
	c := j.c
	sum := &j.sum // of what is as it was
	for i := range j.old.count() {
		e := j.old.entry(i)
		if e.flags()&flagMatched != 0 {
			sum.marks |= matched
		}
		sum.own.omitted += outCount(e.kind(), e.reason(), e.out(), e.fileSize())
		switch {
		case e.reason() == trees.Sparse: // nobody has made it: the names are as they were
		case e.reason() == trees.VCS || e.reason() == trees.NotFile, e.reason() == trees.Ignored && c.asked:
			sum.own.omitted++
		case e.reason() != 0, e.flags()&flagMatched != 0 && !c.asked:
			doubtful = append(doubtful, i)
		case e.kind() == vfs.Directory:
		case e.flags()&flagRacy != 0 || j.dir.Lstat(j.old.name(i), &w.st) != nil ||
			!j.reusable(e, j.old.name(i), &w.st):
			doubtful = append(doubtful, i)
		default:
			if e.kind() == vfs.Symlink {
				sum.own.links++
			} else {
				sum.own.files++
				sum.own.bytes += e.fileSize()
			}
			if w.st.Linked {
				j.sawLinked(false)
			}
		}
	}
	c.count(sum.own.files + sum.own.links)
	return doubtful
}

// reusable reports whether what the cache knows of a file is still true.
func (j *dirJob) reusable(e entry, name string, st *vfs.Stat) bool {
	c := j.c
	if e.reason() != 0 || e.flags()&flagRacy != 0 || !e.same(st, j.st.Dev) || e.ctime() >= c.reliable ||
		st.Kind == vfs.Regular && st.Size > j.most(name, st.Size) {
		return false
	}
	return c.has(e.id(), st.Size)
}

// visited sends off the subdirectories.
func (j *dirJob) visited() {
	c := j.c
	switch sum := c.cache.sum(j.number); {
	case j.slots == nil && j.touched && j.isLarge() && sum.allMarks&c.stops() == 0:
		// Only where names are touched is there something to do.
		j.below, j.belowMarks = sum.all, sum.allMarks
		j.below.sub(sum.own)
		skipped := sum.all.files + sum.all.links - sum.own.files - sum.own.links
		var names map[string]*watch.Changes
		if j.changes != nil {
			names = j.changes.Names
		}
		for name := range names {
			if i, ok := j.findName(name); ok {
				if e := j.old.entry(i); e.isTree() {
					below := c.cache.sum(e.child()).all
					j.below.sub(below)
					skipped -= below.files + below.links
					j.addKid(i, name, e.flags()&flagMatched != 0, e.child())
				}
			}
		}
		c.count(skipped)
	case j.slots == nil && j.old != nil:
		for i := range j.old.count() {
			if e := j.old.entry(i); e.isTree() && !j.skipped(j.old.name(i), e.child()) {
				j.addKid(i, j.old.name(i), e.flags()&flagMatched != 0, e.child())
			}
		}
	}
	for i := range j.slots {
		s := &j.slots[i]
		if s.kind != vfs.Directory || s.reason != 0 || s.gone {
			continue
		}
		e := j.oldEntryOf(s)
		if e == nil || e.kind() != vfs.Directory || e.reason() != 0 {
			s.kid = j.addKid(i, s.name, s.matched, 0)
			continue
		}
		if j.skipped(s.name, e.child()) {
			s.id, s.child, s.st = e.id(), e.child(), e.stat(j.old.dev())
			continue
		}
		s.kid = j.addKid(i, s.name, s.matched, e.child())
	}
	if len(j.kids) == 0 {
		j.release()
		j.finish()
		return
	}
	j.users.Add(int32(len(j.kids)))
	j.pending.Store(int32(len(j.kids)))
	j.release()
	tasks := make([]task, len(j.kids))
	for i, k := range j.kids {
		tasks[len(tasks)-1-i] = task{job: k, lo: startDir} // the first is done first
	}
	c.queue.push(tasks...)
}

// skipped reports whether a subdirectory need not be looked at, and adds what is
// in it.
func (j *dirJob) skipped(name string, number uint32) bool {
	if !j.skips(name, number) {
		return false
	}
	sum := j.c.cache.sum(number)
	j.c.count(sum.all.files + sum.all.links)
	j.below.add(sum.all)
	j.belowMarks |= sum.allMarks
	return true
}

func (j *dirJob) addKid(at int, name string, forced bool, number uint32) *dirJob {
	k := &dirJob{c: j.c, parent: j, at: at, name: name, depth: j.depth + 1,
		length: j.length + len(name) + len("/"), forced: forced, number: number, changes: j.changes.Of(name)}
	if j.slots != nil {
		k.out = j.slots[at].out
	} else {
		k.out = j.old.entry(at).out()
	}
	k.whole = j.whole || k.changes != nil && k.changes.Whole
	if !forced {
		k.rules = j.rules.Sub(name)
	}
	if number != 0 {
		k.old = j.c.cache.block(number)
	} else {
		k.number = j.c.newDir.Add(1) - 1
	}
	j.kids = append(j.kids, k)
	return k
}

// finish makes the result and hands it to the parent, which may finish in
// turn.
func (j *dirJob) finish() {
	for {
		if !j.c.queue.isStopped() && j.reason == 0 && !j.gone {
			if err := j.make(); err != nil {
				j.c.fail(err)
			}
		}
		j.slots, j.kids = nil, nil
		p := j.parent
		if p == nil || p.pending.Add(-1) > 0 {
			return
		}
		j = p
	}
}

// oldEntryOf returns what the cache knows of a slot, nil if nothing.
func (j *dirJob) oldEntryOf(s *slot) entry {
	if s.old < 0 {
		return nil
	}
	return j.old.entry(s.old)
}
