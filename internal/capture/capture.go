package capture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/gitrepo"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/secrets"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/watch"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A Sink takes what a capture finds, from many goroutines. [*cas.Writer]
// is one that keeps it, [*trees.Overlay] one that only finds out its names.
type Sink interface {
	trees.Putter
	// PutReader stores all that r gives as a blob.
	PutReader(r io.Reader) (store.ID, int64, error)
	// HasAll reports whether an object is there already, and all that a file's content of some length is
	// stored in; 0: it is none.
	HasAll(id store.ID, size int64) (bool, error)
}

// The defaults of [tree.Limits].
const (
	DefaultFileSize = 100 << 20
	defaultNewBytes = 4 << 30
	defaultFiles    = 2_000_000
)

const noLimit = 1<<63 - 1

func withDefaults(l tree.Limits) tree.Limits {
	def := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
		if *v < 0 {
			*v = noLimit
		}
	}
	def(&l.FileSize, DefaultFileSize)
	def(&l.NewBytes, defaultNewBytes)
	def(&l.Files, defaultFiles)
	return l
}

// Options are the choices at [Workspace.Capture]. The zero value is
// the default.
type Options struct {
	Limits  tree.Limits
	Partial bool // over a limit, capture what fits and list the rest; otherwise that is a *BudgetError
	Workers int  // goroutines that walk, read and hash; default GOMAXPROCS

	// Known returns what is known to be in a regular file, so that it need not be read; false: nothing is. It is
	// called by several goroutines. What it names must be in the store, or promised to it. nil: nothing is known.
	Known func(path string, st *vfs.Stat) (store.ID, bool)

	// Alone says that the caller has a lock, until it closes the sink, that every process
	// takes which captures the directory to record it: the stat cache is saved without a
	// lock of its own.
	Alone bool

	// All says to look at all files, whatever the watcher has told.
	All bool
}

// A capture is one run of Workspace.Capture.
type capture struct {
	ws       *Workspace
	sink     Sink
	limits   tree.Limits
	sizes    []sizeRule // of limits
	least    int64      // up to which size no file is too large
	deadline time.Time  // zero: none
	partial  bool
	progress *progress.Progress // nil: nobody wants to know
	known    func(path string, st *vfs.Stat) (store.ID, bool)

	cache  *statCache
	lookup bool // ids in the cache must be looked up in the store
	clocks
	gitSays
	watched

	queue  queue
	newDir atomic.Uint32

	seen, newBytes       atomic.Int64
	readFiles, readBytes atomic.Int64
	unfinished           atomic.Bool // something was left out over a limit

	result *tree.Result // nil: not yet

	mu      sync.Mutex // guards the rest
	err     error      // the first that ends the capture
	over    *BudgetError
	changed map[uint32]block
	edits   map[uint32]*blockEdit
	sums    map[uint32]dirSum
	weights []*weight
	secrets []string // paths of files that were read and seem to hold some
}

// clocks say which times show that a file is as it was.
type clocks struct {
	reliable    int64 // entries with a later ctime are not trusted
	racyFrom    int64 // a file that changed at this time or later may change again unseen
	foreignFrom int64 // the same for other file systems than the root's
	local       bool  // the root's file system stamps directories, too
	rootDev     uint64
}

// gitSays is what git's index says, and what of that the cache knows.
type gitSays struct {
	stamp   [16]byte // of the index
	asked   bool     // what the cache says of tracked files still holds
	index   func() (*gitrepo.Index, error)
	unasked atomic.Bool // the index could not be read

	left     *gitrepo.Sparse        // what clone has left out; nil: nothing
	sparse   func() *gitrepo.Sparse // what git has taken out; nil: that cannot be read
	outID    [16]byte               // of it; zero: nothing
	outSame  bool                   // the cache knows all that is taken out
	outMoved atomic.Bool            // it has changed since
}

// watched is what the watcher has told.
type watched struct {
	number  int            // of the capture, in its workspace
	after   int            // captures that the cache had learned from
	changes *watch.Changes // what may have changed since the last of them
	all     bool           // that does not matter: see Options
	skip    bool           // and nothing else has
	unsure  atomic.Bool    // but for changes of which the watcher does not tell
	due     atomic.Bool    // and perhaps for others, which can wait: see sawWritten
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
// If the sink is a [cas.Writer], Capture saves the stat cache when the writer is
// closed and all that it put is durable. Two processes that capture a worktree at once
// do the work twice, and one of them does not save its cache.
//
// What cannot be captured is left out and listed in the coverage. Errors are
// those of the sink, a context that ends, a root that cannot be read, a
// [*BudgetError], and the want of file descriptors or memory.
func (ws *Workspace) Capture(ctx context.Context, sink Sink, opts *Options) (*tree.Result, error) {
	opts = cmp.Or(opts, new(Options))
	w, keeps := sink.(*cas.Writer)
	c, root, err := ws.capture(ctx, sink, opts)
	if c == nil {
		return nil, fmt.Errorf("capture %q: %w", ws.Root, err)
	}
	if err == nil && root == nil { // nothing has happened
		return c.result, nil
	}
	if keeps && ws.store != nil {
		// Even a capture that failed has found out something: the next one
		// goes on from there.
		w.OnClose(func(durable bool) {
			if !durable {
				return
			}
			c.noteSecrets() // first: what is in the cache is not read again
			if err := c.saveCache(err); err != nil {
				ws.log.Warn("stat cache not saved", "root", ws.Root, "err", err)
			}
		})
	}
	if err != nil {
		return nil, fmt.Errorf("capture %q: %w", ws.Root, err)
	}
	if keeps && ws.store != nil && c.outID != [16]byte{} {
		if err := ws.store.NeedToRead(ctx, cas.FeatureSparse); err != nil {
			return nil, fmt.Errorf("capture %q: %w", ws.Root, err)
		}
	}
	n := &root.sum.all
	c.result = &tree.Result{
		Tree: root.tree, Coverage: root.cover,
		Files: n.files, Dirs: n.dirs, Symlinks: n.links, Bytes: n.bytes,
		ReadFiles: c.readFiles.Load(), ReadBytes: c.readBytes.Load(),
		Omitted: n.omitted, Partial: c.unfinished.Load(),
	}
	return c.result, nil
}

// capture runs a capture when no other does. A capture that is nil could not
// begin. A directory that is nil, without an error, need not be looked at: the capture
// has its result.
func (ws *Workspace) capture(ctx context.Context, sink Sink, opts *Options) (*capture, *dirJob, error) {
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
		if c.progress = progress.Of(ctx); c.progress != nil {
			c.progress.Begin(progress.Phase{Name: "reading", Unit: "file", Items: c.cache.files()})
		}
		if c.result = c.unchanged(); c.result != nil {
			return c, nil, nil
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
			ws.lookedBy = c.number
		}
		if c.due.Load() {
			ws.due = true
		}
		return c, root, err
	}
}

func (ws *Workspace) newCapture(sink Sink, opts *Options) (*capture, error) {
	if ws.resident && ws.captures.Load() > 0 { // they may have changed
		if err := ws.refresh(); err != nil {
			return nil, err
		}
	}
	c := &capture{
		ws: ws, sink: sink, limits: withDefaults(opts.Limits), partial: opts.Partial, known: opts.Known,
		changed: make(map[uint32]block), edits: make(map[uint32]*blockEdit), sums: make(map[uint32]dirSum),
	}
	ws.number++
	c.number, c.after, c.all = ws.number, ws.adopted, opts.All
	var err error
	if c.sizes, err = parseSizes(c.limits.FileSizes); err != nil {
		return nil, err
	}
	c.least = c.limits.FileSize
	for _, r := range c.sizes {
		c.least = min(c.least, r.most)
	}
	// Read before the walk: what changes from now on gets this time or a later one.
	c.racyFrom = vfs.CoarseTime()
	if c.limits.Time > 0 {
		c.deadline = time.Now().Add(c.limits.Time)
	}
	const foreignClock = 3 * time.Second
	c.foreignFrom = time.Now().Add(-foreignClock).UnixNano()
	if c.local = vfs.Local(ws.Root); !c.local {
		c.racyFrom = c.foreignFrom
	}
	c.index = sync.OnceValues(ws.gitIndex)
	if c.stamp, err = ws.indexStamp(); err != nil {
		return nil, err
	}
	c.cache = ws.loadCache()
	c.cache.alone = opts.Alone
	c.reliable = c.cache.unreliable(bootID())
	if ws.store != nil && c.cache.block(0) != nil {
		usable, err := c.cache.idsUsable(ws.store, sink)
		if err != nil {
			return nil, err
		}
		c.lookup = !usable
	}
	c.asked = c.stamp == c.cache.batch.stamp && c.stamp != [16]byte{}
	if c.left, err = ws.readLeft(); err != nil {
		return nil, err
	}
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
	c.queue.cond.L = &c.queue.mu
	c.queue.push(task{job: root, lo: startDir})

	stop := context.AfterFunc(ctx, func() { c.fail(context.Cause(ctx)) })
	defer stop()
	c.work(workers)

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
		return nil, fmt.Errorf("the root itself is left out of captures (%s)", root.reason)
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

// foundSecret notes a file that seems to hold secrets. One that git tracks is in git, too, and
// no rule leaves it out: nobody is told.
func (c *capture) foundSecret(path string) {
	if c.tracked(path, false) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.secrets = append(c.secrets, path)
}

// noteSecrets puts what seems to hold secrets on the list of those that sessions are told of.
func (c *capture) noteSecrets() {
	c.mu.Lock()
	paths := c.secrets
	c.mu.Unlock()
	if len(paths) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := secrets.Add(ctx, c.cache.fsys, c.cache.dir, paths); err != nil {
		c.ws.log.Warn("files that seem to hold secrets are not noted", "root", c.ws.Root, "err", err)
	}
}

// overBudget notes that a limit was reached.
func (c *capture) overBudget(limit string, max int64) {
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
			list = append(list, Offender{Path: w.path, Files: n, Bytes: w.bytes.Load()})
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
