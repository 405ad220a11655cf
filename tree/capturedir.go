package tree

import (
	"errors"
	"io"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/boocode/filestore/internal/ignore"
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

	users   atomic.Int32 // who may still need dir: this job's visits, and subdirectories not opened yet
	ranges  atomic.Int32 // visits not done
	pending atomic.Int32 // subdirectories not finished

	// The result.
	gone   bool   // not there any more
	reason Reason // why it was not captured; 0: it was
	tree   store.ID
	cover  store.ID
	sum    dirSum

	below      counts // in subdirectories that were skipped
	belowMarks marks
}

// A patternFile is what the rules of a directory were made from.
type patternFile struct {
	content []byte   // nil: no such file, or it cannot be read
	st      vfs.Stat // that the content belongs to
}

// A slot is one name in a directory that is not just as it was.
type slot struct {
	name    string
	kind    vfs.Kind // 0: not known yet
	old     int      // index in the old block; -1: not there
	gone    bool
	matched bool // an ignore rule matches
	out     outKind
	reason  Reason // why it was not captured; 0: it was
	racy    bool   // must be read again next time
	st      vfs.Stat
	id      store.ID
	kid     *dirJob // a captured directory; nil: it was skipped
	child   uint32  // its number in the stat cache, if it was skipped
}

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
		j.reason = OwnStore
	case j.parent != nil && (c.late() || c.isOver() && c.partial):
		j.reason = OverBudget
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
		j.reason = Unstable // it was a directory a moment ago
	default:
		j.reason = Unreadable
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
	if j.parent == nil {
		return ""
	}
	return join(j.parent.path(), j.name)
}

// look finds out the names and visits those that may have changed.
func (j *dirJob) look(w *worker) {
	j.touched = j.onlyTouched()
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
	j.reason = Unreadable
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
	for try := 0; try < maxTries && j.shifting; try++ {
		err := j.dir.ReadNames(func(name []byte, kind vfs.Kind) {
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
	slices.SortFunc(j.slots, func(a, b slot) int {
		return strings.Compare(a.name, b.name)
	})
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

// takeOld makes slots of the old block, as if all had been visited.
func (j *dirJob) takeOld() {
	j.slots = make([]slot, j.old.count())
	for i := range j.slots {
		e := j.old.entry(i)
		j.slots[i] = slot{
			name: j.old.name(i), kind: e.kind(), old: i, id: e.id(),
			matched: e.flags()&flagMatched != 0, reason: e.reason(), racy: e.flags()&flagRacy != 0, out: e.out(), child: e.child(),
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
		case e.reason() == Sparse: // nobody has made it: the names are as they were
		case e.reason() == VCS || e.reason() == NotFile, e.reason() == Ignored && c.asked:
			sum.own.omitted++
		case e.reason() != 0, e.flags()&flagMatched != 0 && !c.asked:
			doubtful = append(doubtful, i)
		case e.kind() == vfs.Directory:
		case e.flags()&flagRacy != 0 || j.dir.Lstat(j.old.name(i), &w.st) != nil || !j.reusable(e, &w.st):
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
func (j *dirJob) reusable(e entry, st *vfs.Stat) bool {
	c := j.c
	if e.reason() != 0 || e.flags()&flagRacy != 0 || !e.same(st, j.st.Dev) || e.ctime() >= c.reliable ||
		st.Kind == vfs.Regular && st.Size > c.limits.FileSize {
		return false
	}
	return c.has(e.id())
}

// has reports whether an id from the cache is in the store.
func (c *capture) has(id store.ID) bool {
	if !c.lookup {
		return true
	}
	ok, err := c.sink.Has(id)
	if err != nil {
		c.fail(err)
	}
	return ok
}

// count adds files and links that were captured.
func (c *capture) count(n int64) {
	c.progress.Files.Add(n)
	if c.seen.Add(n) > c.limits.Files {
		c.overBudget("files", c.limits.Files)
	}
}

func (j *dirJob) visitRange(w *worker, lo, hi int) {
	for i := lo; i < hi && !j.c.queue.isStopped(); i++ {
		j.visit(w, &j.slots[i])
	}
}

// visit finds out what a name stands for, and captures a file or a link.
func (j *dirJob) visit(w *worker, s *slot) {
	if s.reason == Sparse { // somebody may have made it
		s.kind, s.st, s.id = 0, vfs.Stat{}, store.ID{}
	}
	for range maxTries {
		if j.visitOnce(w, s) {
			if s.reason == 0 && !s.gone && s.kind != vfs.Directory {
				j.c.count(1)
			}
			j.findLinks(w, s)
			return
		}
		s.kind = 0 // it is changing under our hands: look again
	}
	s.reason = Unstable
	s.kind = w.st.Kind
}

// visitOnce reports whether it came to a conclusion.
func (j *dirJob) visitOnce(w *worker, s *slot) bool {
	s.reason = 0
	if s.kind == 0 {
		if !j.lstat(w, s) {
			return true
		}
		s.kind = w.st.Kind
	}
	switch {
	case IsVCS(s.name, s.kind == vfs.Directory):
		s.reason = VCS
		return true
	case j.ignored(s):
		s.reason = Ignored
		s.st = vfs.Stat{}
		return true
	case s.kind == vfs.Special:
		s.reason = NotFile
		return true
	case s.kind == vfs.Directory:
		return true // its identity is found out when it is opened
	}
	if !j.lstat(w, s) {
		return true
	}
	if w.st.Kind != s.kind {
		return false
	}
	s.st = w.st
	if s.old >= 0 {
		if e := j.old.entry(s.old); j.reusable(e, &w.st) {
			s.id = e.id()
			s.racy = false
			return true
		}
	}
	var err error
	if s.kind == vfs.Symlink {
		s.id, err = w.readLink(j.dir, s)
	} else {
		err = j.readFile(w, s)
	}
	s.racy = j.c.isRacy(&s.st) || s.st.Dev != j.st.Dev
	return j.settle(s, err)
}

// lstat describes a name in w.st. If it cannot, the slot says why.
func (j *dirJob) lstat(w *worker, s *slot) bool {
	err := j.dir.Lstat(s.name, &w.st)
	if err == nil {
		return true
	}
	j.settle(s, sourceError{err})
	return false
}

// readFile captures a regular file within the budget.
func (j *dirJob) readFile(w *worker, s *slot) (err error) {
	c := j.c
	size := s.st.Size
	j.weight.files.Add(1)
	if size > c.limits.FileSize {
		return errTooLarge
	}
	j.weight.bytes.Add(size)
	if c.newBytes.Add(size) > c.limits.NewBytes {
		c.overBudget("new bytes", c.limits.NewBytes)
	}
	if c.isOver() || c.late() {
		return errOverBudget // what is over is only counted
	}
	s.id, err = w.readFile(j.dir, s.name)
	s.st = w.st
	if err == nil {
		c.readFiles.Add(1)
		c.readBytes.Add(size)
		c.progress.ReadFiles.Add(1)
		c.progress.ReadBytes.Add(size)
	}
	return err
}

var errOverBudget = errors.New("over budget")

// readLink captures the target of a symbolic link.
func (w *worker) readLink(dir vfs.Dir, s *slot) (store.ID, error) {
	target, err := dir.Readlink(s.name)
	if errors.Is(err, syscall.EINVAL) {
		return store.ID{}, errChanged // not a link any more
	}
	if err != nil {
		return store.ID{}, sourceError{err}
	}
	s.st.Size = int64(len(target))
	return w.c.sink.Put(store.Blob, []byte(target))
}

// settle notes how a visit ended, and reports whether that is the end of it.
func (j *dirJob) settle(s *slot, err error) bool {
	var source sourceError
	switch {
	case err == nil:
	case err == errTooLarge:
		s.reason = TooLarge
	case err == errOverBudget:
		s.reason = OverBudget
	case err == errChanged, errors.Is(err, vfs.ErrNotRegular):
		return false
	case !errors.As(err, &source) || isFatal(err):
		j.c.fail(err)
	case isGone(err):
		s.gone = true
	default:
		s.reason = Unreadable
	}
	return true
}

// isRacy reports whether a file may change again without its identity
// showing it.
func (c *capture) isRacy(st *vfs.Stat) bool {
	if st.Dev != c.rootDev {
		return st.Ctime >= c.foreignFrom
	}
	return st.Ctime >= c.racyFrom
}

func (c *capture) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over != nil
}

// IsVCS reports whether a name in a directory holds the insides of a version
// control system, which no capture records. A .git may be a file; the others are
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

// ignored reports whether a name is to be left out by the rules. What git
// tracks is captured all the same.
func (j *dirJob) ignored(s *slot) bool {
	isDir := s.kind == vfs.Directory
	var e entry
	if s.old >= 0 && j.old.rules() == j.rulesID {
		if old := j.old.entry(s.old); old.reason() != Sparse && isDir == (old.kind() == vfs.Directory) {
			e = old
		}
	}
	if e != nil {
		s.matched = e.flags()&flagMatched != 0
	} else {
		s.matched = j.forced || j.rules.Match(s.name, isDir)
	}
	if !s.matched {
		return false
	}
	if e != nil && j.c.asked {
		return e.reason() == Ignored
	}
	return !j.c.tracked(join(j.path(), s.name), isDir)
}

// tracked reports whether git tracks a path, or anything below it.
func (c *capture) tracked(path string, isDir bool) bool {
	index, err := c.index()
	if err != nil {
		if isFatal(err) {
			c.fail(err)
		}
		c.unasked.Store(true) // Workspace.gitIndex has logged the error
	}
	if index == nil {
		return false
	}
	path = join(c.ws.prefix, path)
	if isDir {
		return index.TrackedUnder(path)
	}
	return index.Tracked(path)
}

var patternFiles = [2]string{".gitignore", ".booignore"}

// readPatterns reads the pattern files of the directory and sets its rules.
func (j *dirJob) readPatterns(w *worker) {
	if j.forced {
		j.rules, j.rulesID = nil, forcedRules
		return
	}
	var old [2][]byte
	if j.old != nil {
		old[0], old[1] = j.old.files()
	}
	found := false
	for i, name := range patternFiles {
		at, ok := j.findName(name)
		if !ok {
			continue
		}
		if err := j.dir.Lstat(name, &w.st); err != nil || w.st.Kind != vfs.Regular {
			continue // git does not follow a link here, either
		}
		if e := j.oldEntry(at); e != nil && old[i] != nil && e.flags()&flagRacy == 0 &&
			e.same(&w.st, j.st.Dev) && e.ctime() < j.c.reliable {
			j.patterns[i] = patternFile{old[i], w.st}
		} else {
			p, err := readPatternFile(j.dir, name)
			if err != nil {
				continue // as in git; the name itself is recorded as unreadable
			}
			j.patterns[i] = p
		}
		found = true
	}
	if found {
		j.rules = j.rules.WithFiles(j.patterns[0].content, j.patterns[1].content)
	}
	j.rulesID = j.rules.ID()
}

// forcedRules is the id of the rule that everything is ignored.
var forcedRules = [16]byte{'f', 'o', 'r', 'c', 'e', 'd'}

// findName finds a name among the slots, or in the old block if there are
// none yet.
func (j *dirJob) findName(name string) (int, bool) {
	if j.slots != nil {
		i := sort.Search(len(j.slots), func(i int) bool { return j.slots[i].name >= name })
		return i, i < len(j.slots) && j.slots[i].name == name
	}
	if j.old == nil {
		return 0, false
	}
	i := sort.Search(j.old.count(), func(i int) bool { return j.old.name(i) >= name })
	return i, i < j.old.count() && j.old.name(i) == name
}

// oldEntry returns what the cache knows of the name that findName found.
func (j *dirJob) oldEntry(at int) entry {
	if j.slots != nil {
		if at = j.slots[at].old; at < 0 {
			return nil
		}
	}
	return j.old.entry(at)
}

// maxPatternFile is git's own limit (dir.c, PATTERN_MAX_FILE_SIZE).
const maxPatternFile = 100 << 20

func readPatternFile(dir vfs.Dir, name string) (p patternFile, err error) {
	f, err := dir.Open(name, &p.st)
	if err != nil {
		return p, err
	}
	defer f.Close()
	if p.st.Size > maxPatternFile {
		return p, errTooLarge
	}
	if p.content, err = io.ReadAll(io.LimitReader(f, maxPatternFile)); err != nil {
		return patternFile{}, err
	}
	return p, nil
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
	k := &dirJob{c: j.c, parent: j, at: at, name: name, depth: j.depth + 1, forced: forced, number: number, changes: j.changes.Of(name)}
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
		if s.gone && s.out != outNone || s.reason == Sparse && j.c.lookup {
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
	j.c.learn(j.number, j.encode(cuts, leaves))
	return nil
}

// differs reports whether a directory came out other than its parent's tree
// has it.
func (j *dirJob) differs() bool {
	e := j.parent.old.entry(j.at)
	return j.gone || j.reason != 0 || j.old == nil ||
		j.tree != e.id() || j.st.Perm != e.perm() || j.cover != j.old.cover()
}

func (c *capture) learn(number uint32, b block) {
	c.mu.Lock()
	c.changed[number] = b
	c.mu.Unlock()
}

// A blockLeaf is a page as the cache knows it.
type blockLeaf struct {
	end   int // index behind its last name in the block
	count int // entries in it
	id    store.ID
}

// put writes the page into a block.
func (l *blockLeaf) put(b []byte) {
	le.PutUint32(b, uint32(l.end))
	le.PutUint32(b[4:], uint32(l.count))
	copy(b[8:blockLeafSize], l.id[:])
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
	if len(captured) > maxSingle {
		for _, i := range captured {
			cuts[i] = j.isCut(&j.slots[i])
		}
	}
	ends := cut(len(captured), func(i int) bool { return cuts[captured[i]] })
	known := j.c.ws.pages
	if j.old == nil { // the first of many, which nobody compares
		known = nil
	}
	pages := make([]item, len(ends))
	start := 0
	for i, end := range ends {
		part := captured[start:end]
		id, ok := j.oldLeaf(part)
		if !ok {
			items := make([]item, len(part))
			for k, at := range part {
				items[k] = j.slots[at].item()
			}
			if id, err = j.c.sink.Put(store.Tree, appendPage(nil, 0, items)); err != nil {
				return nil, nil, err
			}
			known.addCopy(pageKey{id, len(ends) == 1}, 0, items)
		}
		pages[i] = item{size: uint64(end - start), id: id}
		last := 0
		if end > 0 {
			pages[i].name, last = j.slots[part[0]].name, captured[end-1]+1
		}
		leaves = append(leaves, blockLeaf{last, end - start, id})
		start = end
	}
	j.tree, _, err = putPages(j.c.sink, store.Tree, pages, known)
	return cuts, leaves, err
}

// isCut reports whether a large directory is cut before a name. The cache
// knows it of the names that it has seen in one.
func (j *dirJob) isCut(s *slot) bool {
	if s.old >= 0 && j.old.leaves() > 1 && j.old.entry(s.old).reason() == 0 {
		return j.old.entry(s.old).flags()&flagBoundary != 0
	}
	return boundary(s.name, 0)
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
	return id, last < end && count == len(part) && j.c.has(id)
}

// sameEntry reports whether the tree's entry is what it was.
func (s *slot) sameEntry(old block) bool {
	if s.old < 0 {
		return false
	}
	e := old.entry(s.old)
	if e.reason() != 0 || e.kind() != s.kind || e.perm() != s.st.Perm {
		return false
	}
	return e.id() == s.id && (s.kind == vfs.Directory || e.fileSize() == s.st.Size)
}

// item returns the tree's entry for a captured slot.
func (s *slot) item() item {
	it := item{name: s.name, attr: uint16(modeOf(&s.st)), id: s.id}
	if s.kind != vfs.Directory {
		it.size = uint64(s.st.Size)
	}
	return it
}

// putCoverage stores what was left out.
func (j *dirJob) putCoverage() error {
	var items []item
	for i := range j.slots {
		s := &j.slots[i]
		switch {
		case s.reason == Sparse && s.out == outPart:
			items = append(items, item{name: s.name, attr: coverageAttr(vfs.Directory, 0), id: s.id})
		case s.reason == Sparse:
			items = append(items, item{name: s.name, attr: coverageAttr(s.kind, Sparse)})
		case s.reason != 0:
			it := item{name: s.name, attr: coverageAttr(s.kind, s.reason)}
			if s.kind == vfs.Regular && s.reason != Ignored {
				it.size = uint64(s.st.Size)
			}
			items = append(items, it)
		case s.kind == vfs.Directory:
			var cover store.ID
			switch {
			case s.kid != nil:
				cover = s.kid.cover
			default:
				cover = j.c.cache.block(s.child).cover()
			}
			switch {
			case s.out == outDir:
				items = append(items, item{name: s.name, attr: coverageAttr(vfs.Directory, Sparse), id: cover})
			case !cover.IsZero():
				items = append(items, item{name: s.name, attr: coverageAttr(vfs.Directory, 0), id: cover})
			}
		case s.out == outFile || s.out == outLink || s.out == outDir: // made by somebody else than git
			items = append(items, item{name: s.name, attr: coverageAttr(0, Sparse)})
		}
	}
	if len(items) == 0 {
		return nil
	}
	var err error
	j.cover, err = putItems(j.c.sink, store.Coverage, items, nil)
	return err
}

// encode makes the block of the directory.
func (j *dirJob) encode(cuts []bool, leaves []blockLeaf) block {
	c := j.c
	names := 0
	for i := range j.slots {
		names += len(j.slots[i].name)
	}
	size := blockHeaderSize + len(j.slots)*blockEntrySize + len(leaves)*blockLeafSize + names +
		len(j.patterns[0].content) + len(j.patterns[1].content)
	b := make(block, 0, size)
	var flags uint32
	if j.shifting || c.isRacy(&j.st) || !c.local || j.st.Dev != c.rootDev {
		flags = listingRacy
	}
	if j.touched && !j.unchanged() { // it was not listed
		flags = listingRacy
	}
	b = le.AppendUint32(b, uint32(size))
	b = le.AppendUint32(b, j.number)
	b = le.AppendUint32(b, uint32(len(j.slots)))
	b = le.AppendUint32(b, uint32(len(leaves)))
	b = le.AppendUint32(b, flags)
	b = le.AppendUint32(b, uint32(j.st.Perm))
	b = le.AppendUint64(b, j.st.Ino)
	b = le.AppendUint64(b, j.st.Dev)
	b = le.AppendUint64(b, uint64(j.st.Mtime))
	b = le.AppendUint64(b, uint64(j.st.Ctime))
	b = append(b, j.rulesID[:]...)
	b = append(b, j.tree[:]...)
	b = append(b, j.cover[:]...)
	for _, p := range j.patterns {
		n := noFile
		if p.content != nil {
			n = uint32(len(p.content))
		}
		b = le.AppendUint32(b, n)
	}
	b = le.AppendUint32(b, uint32(names))
	b = le.AppendUint32(b, 0)

	off := 0
	for i := range j.slots {
		for k, name := range patternFiles {
			if s := &j.slots[i]; s.name == name && s.st != j.patterns[k].st {
				s.racy = true // it has changed since the rules were made from it
			}
		}
		b = j.slots[i].appendEntry(b, cuts[i], off)
		off += len(j.slots[i].name)
	}
	for _, l := range leaves {
		b = append(b, make([]byte, blockLeafSize)...)
		l.put(b[len(b)-blockLeafSize:])
	}
	for i := range j.slots {
		b = append(b, j.slots[i].name...)
	}
	b = append(b, j.patterns[0].content...)
	return append(b, j.patterns[1].content...)
}

func (s *slot) appendEntry(b block, isCut bool, nameOff int) block {
	var flags, child uint32
	if s.racy {
		flags |= flagRacy
	}
	if isCut {
		flags |= flagBoundary
	}
	if s.matched {
		flags |= flagMatched
	}
	flags |= uint32(s.out) << outShift
	switch {
	case s.reason != 0:
	case s.kid != nil:
		child = s.kid.number
	case s.kind == vfs.Directory:
		child = s.child
	}
	b = le.AppendUint64(b, uint64(s.st.Size))
	b = le.AppendUint64(b, uint64(s.st.Mtime))
	b = le.AppendUint64(b, uint64(s.st.Ctime))
	b = le.AppendUint64(b, s.st.Ino)
	b = append(b, s.id[:]...)
	b = le.AppendUint16(b, s.st.Perm)
	b = append(b, byte(s.kind), byte(s.reason))
	b = le.AppendUint32(b, flags)
	b = le.AppendUint32(b, uint32(nameOff))
	return le.AppendUint32(b, child)
}
