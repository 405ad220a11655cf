package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/boocode/filestore/internal/gitrepo"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/watch"
	"github.com/boocode/filestore/store"
)

// A Sink takes what a capture finds, from many goroutines. [*store.Writer]
// is one that keeps it, [*Overlay] one that only finds out its names.
type Sink interface {
	Putter
	// PutReader stores all that r gives as a blob.
	PutReader(r io.Reader) (store.ID, int64, error)
	// Has reports whether an object is there already.
	Has(id store.ID) (bool, error)
}

// Defaults of Limits.
const (
	DefaultFileSize = 100 << 20
	DefaultNewBytes = 4 << 30
	DefaultFiles    = 2_000_000
)

// Limits bound a capture. For each, 0 is the default and a negative number
// no limit.
type Limits struct {
	FileSize int64         // a larger file is left out; default DefaultFileSize bytes
	NewBytes int64         // content to be read; default DefaultNewBytes bytes
	Files    int64         // files and links in the tree; default DefaultFiles
	Time     time.Duration // default none
}

func (l Limits) withDefaults() Limits {
	def := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
		if *v < 0 {
			*v = 1<<63 - 1
		}
	}
	def(&l.FileSize, DefaultFileSize)
	def(&l.NewBytes, DefaultNewBytes)
	def(&l.Files, DefaultFiles)
	return l
}

// CaptureOptions are the choices at [Workspace.Capture]. The zero value is
// the default.
type CaptureOptions struct {
	Limits   Limits
	Partial  bool      // over a limit, capture what fits and list the rest; otherwise that is a *BudgetError
	Workers  int       // goroutines that walk, read and hash; default GOMAXPROCS
	Progress *Progress // counted up while the capture runs; default none
}

// Progress may be read while a capture runs.
type Progress struct {
	Files     atomic.Int64 // files and links seen
	ReadFiles atomic.Int64 // files read, because they were new or changed
	ReadBytes atomic.Int64
}

// A Result is what a capture found.
type Result struct {
	Tree     store.ID
	Coverage store.ID // what was left out; zero: nothing

	Files, Dirs, Symlinks int64
	Bytes                 int64 // of files
	ReadFiles             int64 // files that had to be read
	ReadBytes             int64
	Omitted               int64 // what was left out, a directory counted once
	Partial               bool  // a limit was reached: part of the rest is in the coverage with OverBudget
}

// An Offender is a directory, one or two levels below the root, with what a
// capture would have to read in it.
type Offender struct {
	Path  string
	Files int64
	Bytes int64
}

// A capture is one run of Workspace.Capture.
type capture struct {
	ws       *Workspace
	sink     Sink
	limits   Limits
	partial  bool
	progress *Progress
	cache    *statCache
	lookup   bool  // ids in the cache must be looked up in the store
	racyFrom int64 // what changed at this time or later may change again unseen
	reliable int64 // entries with a later ctime are not trusted

	foreignFrom int64 // racyFrom for what lies on another file system
	local       bool  // the root's file system stamps directories, too
	rootDev     uint64
	deadline    time.Time // zero: none
	stamp       [16]byte  // of git's index
	asked       bool      // what the cache says of tracked files still holds

	sparse   func() *gitrepo.Sparse // what git has taken out; nil: that cannot be read
	outID    [16]byte               // of it; zero: nothing
	outSame  bool                   // the cache knows all that is taken out
	outMoved atomic.Bool            // it has changed since

	after   int            // captures that the cache had learned from
	changes *watch.Changes // what may have changed since the last of them
	skip    bool           // and nothing else has
	unsure  atomic.Bool    // but for what nobody was told of

	index  func() (*gitrepo.Index, error)
	queue  queue
	newDir atomic.Uint32

	seen, newBytes       atomic.Int64
	readFiles, readBytes atomic.Int64
	unasked              atomic.Bool // git's index could not be read
	unfinished           atomic.Bool // some directory was not visited in full

	mu      sync.Mutex // guards the rest
	err     error      // the first that ends the capture
	over    *BudgetError
	changed map[uint32]block
	edits   map[uint32]*blockEdit
	sums    map[uint32]dirSum
	weights []*weight
}

// A weight sums up what is to be read below a directory near the root.
type weight struct {
	path         string
	files, bytes atomic.Int64
}

// Capture stores the tree under the workspace and returns its id. All of it
// is in the sink when Capture returns without an error; whether it is durable
// is the sink's affair. With an error there is no id.
//
// When the [store.Writer] is closed that a capture went into, and all that it put is
// durable, the stat cache is saved. Two captures of a worktree at once cost twice the
// work, and one of them does not save it.
//
// What cannot be captured is left out and listed in the coverage. Errors are
// those of the sink, a context that ends, a root that cannot be read, a
// [*BudgetError], and the want of file descriptors or memory.
func (ws *Workspace) Capture(ctx context.Context, sink Sink, opts *CaptureOptions) (*Result, error) {
	if opts == nil {
		opts = &CaptureOptions{}
	}
	w, keeps := sink.(*store.Writer)
	c, root, err := ws.capture(ctx, sink, opts)
	if c == nil {
		return nil, fmt.Errorf("capture %q: %w", ws.Root, err)
	}
	if keeps && ws.store != nil {
		// Even a capture that failed has found out something: the next one
		// goes on from there.
		w.OnClose(func(durable bool) {
			if !durable {
				return
			}
			if err := c.saveCache(err); err != nil {
				ws.log.Warn("stat cache not saved", "root", ws.Root, "err", err)
			}
		})
	}
	if err != nil {
		return nil, fmt.Errorf("capture %q: %w", ws.Root, err)
	}
	if keeps && ws.store != nil && c.outID != [16]byte{} {
		if err := ws.store.NeedToRead(ctx, store.FeatureSparse); err != nil {
			return nil, fmt.Errorf("capture %q: %w", ws.Root, err)
		}
	}
	n := &root.sum.all
	return &Result{
		Tree: root.tree, Coverage: root.cover,
		Files: n.files, Dirs: n.dirs, Symlinks: n.links, Bytes: n.bytes,
		ReadFiles: c.readFiles.Load(), ReadBytes: c.readBytes.Load(),
		Omitted: n.omitted, Partial: c.unfinished.Load(),
	}, nil
}

// capture runs a capture when no other does. A capture that is nil could not
// begin.
func (ws *Workspace) capture(ctx context.Context, sink Sink, opts *CaptureOptions) (*capture, *dirJob, error) {
	select {
	case ws.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	defer func() { <-ws.lock }()
	for {
		c, err := ws.newCapture(sink, opts)
		if err != nil {
			return nil, nil, err
		}
		root, err := c.run(ctx, opts.Workers)
		ws.captures.Add(1)
		if !c.skip {
			ws.full.Add(1)
		}
		if err == nil && c.skip && c.unsure.Load() {
			ws.watcher.Doubt() // again, and all of it
			continue
		}
		if err == nil && ws.watcher != nil {
			ws.watcher.Looked()
		}
		return c, root, err
	}
}

func (ws *Workspace) newCapture(sink Sink, opts *CaptureOptions) (*capture, error) {
	if ws.resident && ws.captures.Load() > 0 { // they may have changed
		if err := ws.refresh(); err != nil {
			return nil, err
		}
	}
	c := &capture{
		ws: ws, sink: sink, limits: opts.Limits.withDefaults(), partial: opts.Partial, after: ws.adopted,
		progress: opts.Progress, changed: make(map[uint32]block), edits: make(map[uint32]*blockEdit), sums: make(map[uint32]dirSum),
		// Read before the walk: what changes from now on gets this time
		// or a later one.
		racyFrom: vfs.CoarseTime(),
	}
	if c.progress == nil {
		c.progress = new(Progress)
	}
	if c.limits.Time > 0 {
		c.deadline = time.Now().Add(c.limits.Time)
	}
	const foreignClock = 3 * time.Second
	c.foreignFrom = time.Now().Add(-foreignClock).UnixNano()
	if c.local = vfs.Local(ws.Root); !c.local {
		c.racyFrom = c.foreignFrom
	}
	c.index = sync.OnceValues(ws.gitIndex)
	var err error
	if c.stamp, err = ws.indexStamp(); err != nil {
		return nil, err
	}
	if c.cache, err = ws.loadCache(); err != nil {
		return nil, err
	}
	c.reliable = c.cache.unreliable(bootID())
	if ws.store != nil && c.cache.block(0) != nil {
		usable, err := c.cache.idsUsable(ws.store, sink)
		if err != nil {
			return nil, err
		}
		c.lookup = !usable
	}
	c.asked = c.stamp == c.cache.batch.stamp && c.stamp != [16]byte{}
	c.findOut()
	c.newDir.Store(max(c.cache.batch.nextDir, 1))
	return c, nil
}

// run walks the tree.
func (c *capture) run(ctx context.Context, workers int) (*dirJob, error) {
	dir, err := c.ws.openDir(c.ws.Root)
	if err != nil {
		return nil, err
	}
	root := &dirJob{c: c, dir: dir, old: c.cache.block(0), rules: c.ws.rules, whole: true}
	if c.outID != [16]byte{} {
		root.out = outPart
	}
	root.enter()
	var st vfs.Stat
	if err := dir.Stat(&st); err != nil {
		dir.Close()
		return nil, err
	}
	c.rootDev = st.Dev
	if c.ws.watcher != nil {
		c.takeChanges()
		root.changes, root.whole = c.changes, !c.skip
	}
	c.queue.init()
	c.queue.push(task{job: root, lo: startDir})

	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	stop := context.AfterFunc(ctx, func() { c.fail(context.Cause(ctx)) })
	defer stop()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil { // no harm to others in a process that stays
					c.fail(fmt.Errorf("internal error: %v\n%s", p, debug.Stack()))
					c.queue.abandon()
				}
			}()
			w := &worker{c: c}
			for {
				t, ok := c.queue.pop()
				if !ok {
					return
				}
				w.do(t)
			}
		})
	}
	wg.Wait()

	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return nil, c.err
	case context.Cause(ctx) != nil:
		return nil, context.Cause(ctx)
	case c.over != nil && !c.partial:
		c.over.Largest = c.offenders()
		return nil, c.over
	case root.gone:
		return nil, errors.New("the root is gone")
	case root.reason != 0:
		return nil, fmt.Errorf("the root is %s", root.reason)
	}
	return root, nil
}

// fail ends the capture: what is still queued is dropped.
func (c *capture) fail(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	c.mu.Unlock()
	c.queue.stop()
}

// overBudget notes that a limit was reached.
func (c *capture) overBudget(limit string, max int64) {
	c.unfinished.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over == nil {
		c.over = &BudgetError{Limit: limit, Max: max}
	}
}

// late reports whether the time is up.
func (c *capture) late() bool {
	if c.deadline.IsZero() || time.Now().Before(c.deadline) {
		return false
	}
	c.overBudget("time", int64(c.limits.Time))
	return true
}

// maxOffenders is how many directories a BudgetError names.
const maxOffenders = 5

func (c *capture) offenders() []Offender {
	var list []Offender
	for _, w := range c.weights {
		if n := w.files.Load(); n > 0 {
			list = append(list, Offender{w.path, n, w.bytes.Load()})
		}
	}
	slices.SortFunc(list, func(a, b Offender) int {
		if a.Bytes != b.Bytes && c.over.Limit != "files" {
			return int(min(1, max(-1, b.Bytes-a.Bytes)))
		}
		return int(b.Files - a.Files)
	})
	return list[:min(len(list), maxOffenders)]
}

// A task is a piece of a directory's work: to start it, or to visit the names
// from lo to hi.
type task struct {
	job    *dirJob
	lo, hi int
}

const startDir = -1

// A queue is where the workers take their tasks from: the newest first, so
// that few directories are open at a time.
type queue struct {
	mu      sync.Mutex // guards the rest
	cond    sync.Cond
	tasks   []task
	left    int // tasks queued or being done
	stopped bool
}

func (q *queue) init() { q.cond.L = &q.mu }

func (q *queue) push(tasks ...task) {
	q.mu.Lock()
	q.tasks = append(q.tasks, tasks...)
	q.left += len(tasks)
	q.mu.Unlock()
	if len(tasks) == 1 {
		q.cond.Signal()
	} else {
		q.cond.Broadcast()
	}
}

// pop returns the next task. It reports false when all are done.
func (q *queue) pop() (task, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.tasks) == 0 {
		if q.left == 0 {
			return task{}, false
		}
		q.cond.Wait()
	}
	t := q.tasks[len(q.tasks)-1]
	q.tasks = q.tasks[:len(q.tasks)-1]
	return t, true
}

// finished tells that a task is done, with all tasks that it led to queued.
func (q *queue) finished() {
	q.mu.Lock()
	q.left--
	idle := q.left == 0
	q.mu.Unlock()
	if idle {
		q.cond.Broadcast()
	}
}

// abandon ends the queue: somebody will not finish a task.
func (q *queue) abandon() {
	q.mu.Lock()
	q.stopped, q.left, q.tasks = true, 0, nil
	q.mu.Unlock()
	q.cond.Broadcast()
}

func (q *queue) stop() {
	q.mu.Lock()
	q.stopped = true
	q.mu.Unlock()
}

func (q *queue) isStopped() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stopped
}

// A worker does tasks. What it holds is reused from one to the next.
type worker struct {
	c   *capture
	st  vfs.Stat
	buf []byte
}

func (w *worker) do(t task) {
	defer w.c.queue.finished()
	j := t.job
	switch {
	case t.lo == startDir:
		j.start(w)
	default:
		if !w.c.queue.isStopped() {
			j.visitRange(w, t.lo, t.hi)
		}
		if j.ranges.Add(-1) == 0 {
			j.visited()
		}
	}
}

// isFatal reports whether an error says something of this process or
// machine, not of the file: then nothing that follows would be true.
func isFatal(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) ||
		errors.Is(err, syscall.ENOMEM)
}

func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESTALE)
}

// maxTries is how often a file is read that changes meanwhile.
const maxTries = 3

// wholeRead is the size up to which a file is read at once.
const wholeRead = 1 << 20

// errChanged: the file is not the same after reading as before.
var errChanged = errors.New("changed while it was read")

// readFile stores the content of a file and leaves in w.st the identity that
// the content belongs to. It tells by errChanged that there is none.
func (w *worker) readFile(dir vfs.Dir, name string) (store.ID, error) {
	f, err := dir.Open(name, &w.st)
	if err != nil {
		return store.ID{}, sourceError{err}
	}
	defer f.Close()
	if w.st.Size > w.c.limits.FileSize {
		return store.ID{}, errTooLarge
	}
	var id store.ID
	if w.st.Size < wholeRead {
		id, err = w.readSmall(f)
	} else {
		var n int64
		id, n, err = w.c.sink.PutReader(&sourceReader{c: w.c, r: markedReader{f}, left: w.st.Size + 1})
		if err == nil && n != w.st.Size {
			err = errChanged
		}
	}
	if err != nil {
		return store.ID{}, err
	}
	var after vfs.Stat
	if err := f.Stat(&after); err != nil {
		return store.ID{}, sourceError{err}
	}
	if after != w.st {
		return store.ID{}, errChanged
	}
	return id, nil
}

var (
	errTooLarge = errors.New("too large")
	errStopped  = errors.New("capture has ended")
)

// readSmall stores the content of a file of w.st.Size bytes.
func (w *worker) readSmall(f vfs.Reader) (store.ID, error) {
	// One byte more than there should be: a file that has grown shows, and one
	// that is as long as it should be is at its end, or readFile finds it
	// changed. A file that says that it is empty is read, too: those of
	// /proc are not.
	if cap(w.buf) < int(w.st.Size)+1 {
		w.buf = make([]byte, max(64<<10, int(w.st.Size)+1))
	}
	buf := w.buf[:w.st.Size+1]
	n := 0
	for {
		k, err := f.Read(buf[n:])
		n += k
		if err != nil && err != io.EOF {
			return store.ID{}, sourceError{err}
		}
		if err == io.EOF || k == 0 || int64(n) >= w.st.Size {
			break
		}
	}
	if int64(n) != w.st.Size {
		return store.ID{}, errChanged
	}
	return w.c.sink.Put(store.Blob, buf[:n])
}

// A sourceError is an error of the file that is read, as opposed to one of
// the sink that it is written to.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// A markedReader marks the errors of a file.
type markedReader struct{ io.Reader }

func (r markedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err != nil && err != io.EOF {
		err = sourceError{err}
	}
	return n, err
}

// A sourceReader ends after left bytes, and fails when the capture has.
type sourceReader struct {
	c    *capture
	r    markedReader
	left int64
}

func (r *sourceReader) Read(b []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	if r.c.queue.isStopped() {
		return 0, errStopped
	}
	n, err := r.r.Read(b[:min(int64(len(b)), r.left)])
	r.left -= int64(n)
	return n, err
}
