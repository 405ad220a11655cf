package cas

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// Options are the choices at [Open]. The zero value is the default.
type Options struct {
	Root         string       // path of the project, written down when the store is created
	ReadOnly     bool         // never write; a store that does not exist is an error
	Mend         bool         // go on to write where FORMAT is missing or damaged: for [Store.Repair]
	SingleWriter bool         // go on where file locks do not work: the caller sees to it that nobody else writes
	Logger       *slog.Logger // what goes on; nil: nothing is logged

	remote bool // the disk is
}

// A Store keeps objects and the record of snapshots in one directory. Many
// processes may have it open, and many goroutines may use one Store.
type Store struct {
	fsys     vfs.FS
	id       [16]byte
	readOnly bool
	log      *slog.Logger
	share    vfs.File // its share of layout.UseLock; nil: none

	known atomic.Uint64 // one more than the epoch in which FORMAT was read last: see newer.go
	there func() error  // whether it still is at its path, as far as that is known: layout.ErrGone

	remade    *format              // FORMAT as other files tell it; nil: it is sound
	badFormat *object.CorruptError // what is wrong with it then

	jmu sync.Mutex // guards j
	j   *journal.Journal

	warned sync.Map // damage of packs that was logged: object.CorruptError without an Err

	forgotten forgotten
	accepted  acceptedCache
	promised  promisedBy
	repeats   repeats

	fmu   sync.Mutex // guards needs
	needs []string   // features that FORMAT says are needed to read the store, as far as is known

	mu      sync.RWMutex // guards the rest of this block
	loaded  bool
	packs   map[[16]byte]*pack.Pack
	scanned map[[16]byte]int64         // unsealed packs: up to where their objects are known
	unnamed map[[16]byte]bool          // packs of this process that no commit has had need of yet
	objects map[store.ID]pack.Location // of unsealed packs, and what this process wrote last
	absent  map[[16]byte]bool          // packs that a prune takes away, or has; replaced, not changed
	damaged map[place]bool             // records that were found damaged; replaced as a whole
	looked  vfs.Stat                   // of packs/, when all that are open were last seen to be where their names are
	seen    uint64                     // number of the journal's record up to which absent goes
	indexes []*pack.Index              // of sealed packs
	pending map[store.ID]chan struct{} // being compressed or appended right now; closed when done
	groups  groupCache
	retired []io.Closer // files no longer used that others may be reading: closed with the store

	whole sync.Mutex // who stores a record of many objects as it is: see putAsIs

	wmu        sync.Mutex // guards the rest of this block
	writers    int        // that are open
	active     *pack.Writer
	ended      []*pack.Writer    // those before it: full, and sealed when a record vouches for them
	offered    []*pack.Writer    // that the commit under way is about to vouch for: it alone changes this
	unwanted   error             // why what is on no record is to go with the last writer; nil: it is not
	repairing  map[[16]byte]bool // packs that a repair is about to take away: nothing is appended to them
	generation int               // counts failed writes
	failed     error             // the last of them
	sealing    []chan struct{}   // of packs that are sealed or synced in the background: closed at the end
	sealed     []*pack.Pack      // those that were, and whose objects are in objects

	grouping grouping
	commits  groupCommit
}

// Open opens the store in a directory, creating it if it does not exist.
//
// The error matches [ErrFormat] for a store of a newer format or a directory
// that holds something else, [ErrNoLocks] where the file system cannot
// keep two writers apart, and [ErrNoRename] where it cannot replace a file.
// Damage is not an error of Open: see [Store.Check].
//
// To write to a store of another user is [ErrOwner], for root, too. What the
// mode of the directory allows to others is taken from it.
func Open(ctx context.Context, dir string, opts *Options) (*Store, error) {
	opts = cmp.Or(opts, new(Options))
	if !opts.ReadOnly {
		if err := makeDir(dir); err != nil {
			return nil, &CreateError{OwnerOf(dir, err)}
		}
	}
	s, err := openDir(ctx, dir, opts)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", dir, err)
	}
	return s, nil
}

func openDir(ctx context.Context, dir string, opts *Options) (*Store, error) {
	if opts.ReadOnly {
		lock, err := use(ctx, vfs.OS(dir), true)
		if err != nil {
			return nil, OwnerOf(dir, err)
		}
		s, err := OpenFS(ctx, vfs.OS(dir), opts)
		if err != nil {
			if lock != nil {
				lock.Close()
			}
			return nil, OwnerOf(dir, err)
		}
		s.hold(lock)
		return s, nil
	}
	log := cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	fresh, err := checkOwner(dir)
	if err != nil {
		return nil, err
	}
	remote := vfs.Remote(dir)
	if fresh && remote != "" {
		log.Warn("the store is not on a local disk: its locks, renames and syncs are as good as that is",
			"path", dir, "type", remote)
	}
	if !fresh && remote != "" { // it may be mounted in another way than when it was created
		if err := probeRename(vfs.OS(dir)); err != nil {
			return nil, err
		}
	}
	// Before the first look at it, if it is there: whoever moves it has it alone.
	var lock vfs.File
	if !fresh {
		if lock, err = use(ctx, vfs.OS(dir), false); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	o := *opts
	o.remote = remote != ""
	s, err := OpenFS(ctx, vfs.OS(dir), &o)
	if err == nil && lock == nil {
		if lock, err = use(ctx, vfs.OS(dir), false); err != nil {
			err = errors.Join(err, s.Close())
		}
	}
	if err != nil {
		if lock != nil {
			lock.Close()
		}
		return nil, err
	}
	s.hold(lock)
	closePlace(dir, fresh, log) // now that it is known to be a store
	return s, nil
}

// makeDir creates a directory and its missing parents, 0700, durably.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return vfs.OS(parent).SyncDir(".")
}

// OpenFS is Open on any file system; opts must not be nil.
func OpenFS(ctx context.Context, fsys vfs.FS, opts *Options) (*Store, error) {
	s := &Store{
		fsys:     fsys,
		there:    func() error { return nil },
		readOnly: opts.ReadOnly,
		log:      cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)),
		packs:    make(map[[16]byte]*pack.Pack),
		scanned:  make(map[[16]byte]int64),
		unnamed:  make(map[[16]byte]bool),
		objects:  make(map[store.ID]pack.Location),
		pending:  make(map[store.ID]chan struct{}),
	}
	f, damage, err := findFormat(fsys, opts.Root)
	if errors.Is(err, fs.ErrNotExist) && !opts.ReadOnly {
		f, err = create(ctx, fsys, opts)
	}
	if err != nil {
		return nil, err
	}
	if err := s.take(f, damage, opts); err != nil {
		return nil, err
	}
	if !opts.ReadOnly && !opts.SingleWriter {
		if err := layout.ProbeLocks(fsys, opts.remote); err != nil {
			return nil, err
		}
	}
	s.j = journal.New(fsys, s.id)
	if err := s.j.Refresh(); err != nil {
		return nil, err
	}
	s.known.Store(s.j.Epoch + 1)
	isHeader := func(d *object.CorruptError) bool { return d.Off == 0 }
	if damage == nil && (s.j.Seg == 0 || slices.ContainsFunc(s.j.Damage, isHeader)) {
		if err := s.doubtFormat(f, opts); err != nil {
			return nil, err
		}
	}
	if s.j.Seg == 0 && !opts.ReadOnly {
		// Nobody has committed yet, and whoever wrote FORMAT may be gone
		// since before it had synced the name.
		if err := fsys.SyncDir("."); err != nil {
			return nil, err
		}
	}
	if !opts.ReadOnly {
		if err := s.removePacks(s.j.Removed); err != nil { // nobody counts on them, and the next prune tries again
			s.log.Warn("packs not removed that were pruned", "err", err)
		}
		if err := s.removeDead(); err != nil {
			s.log.Warn("packs not removed that nothing needs", "err", err)
		}
	}
	s.keepBallast(ballastSize)
	return s, nil
}

// take has the store be what FORMAT says. damage is what is wrong with that.
func (s *Store) take(f *format, damage *object.CorruptError, opts *Options) error {
	if damage != nil && !opts.ReadOnly && !opts.Mend {
		return damage
	}
	if err := f.check(opts.ReadOnly); err != nil {
		return err
	}
	id, err := hex.DecodeString(f.ID)
	if err != nil {
		return err
	}
	s.id, s.needs = [16]byte(id), f.Features.Read
	s.grouping.on.Store(slices.Contains(s.needs, FeatureGroups))
	if damage != nil {
		s.remade, s.badFormat = f, damage
		s.log.Warn("store damaged", "err", damage)
	}
	return nil
}

// doubtFormat looks whether the store has files of its own at all, and takes FORMAT
// for damaged if they are all another's.
func (s *Store) doubtFormat(f *format, opts *Options) error {
	why := f.namesAnother(s.fsys)
	if !errors.Is(why, store.ErrCorrupt) {
		return why
	}
	remade, damage, err := remadeFormat(s.fsys, string(f.Root), why)
	if err == nil {
		err = s.take(remade, damage, opts)
	}
	if err == nil {
		err = s.j.Close()
	}
	if err != nil {
		return err
	}
	s.j = journal.New(s.fsys, s.id)
	return s.j.Refresh()
}

var storeDirs = []string{"packs", "journal", layout.Worktrees, "locks", "trash", "quarantine", "tmp"}

// create makes an empty store. Many processes may try at once: all make the
// same directories, and the lock decides who writes FORMAT.
func create(ctx context.Context, fsys vfs.FS, opts *Options) (*format, error) {
	names, err := fsys.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !slices.Contains(storeDirs, name) && name != layout.FormatName && name != layout.BallastName {
			if f, err := readFormat(fsys); err == nil {
				return f, nil // another process has made the store meanwhile, and goes on
			}
			return nil, fmt.Errorf("%w: no FORMAT, but a file %q: not a store", store.ErrFormat, name)
		}
	}
	for _, dir := range storeDirs {
		if err := fsys.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	// Names of directories before anything in them is relied on.
	if err := fsys.SyncDir("."); err != nil {
		return nil, err
	}
	if err := probeRename(fsys); err != nil {
		return nil, err
	}
	if !opts.SingleWriter {
		if err := layout.ProbeLocks(fsys, opts.remote); err != nil {
			return nil, err
		}
	}
	var f *format
	err = layout.WithLock(ctx, fsys, layout.JournalLock, func() error {
		f, err = readFormat(fsys)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// A new identity would disown what is there.
		for _, dir := range []string{"packs", "journal"} {
			if names, err := fsys.ReadDir(dir); err != nil {
				return err
			} else if len(names) > 0 {
				err := fmt.Errorf("missing, and there is %s/%s", dir, names[0])
				return &object.CorruptError{Path: layout.FormatName, Err: err}
			}
		}
		id := layout.RandomID()
		f = &format{Format: FormatVersion, ID: hex.EncodeToString(id[:]), Hash: hashName,
			Features: features{[]string{FeatureGroups}, []string{}, []string{}},
			Root:     []byte(opts.Root), Created: time.Now().UTC()}
		return f.write(fsys)
	})
	return f, err
}

// ID returns the store's identity, 32 hex digits.
func (s *Store) ID() string { return hex.EncodeToString(s.id[:]) }

// RawID is ID as the headers of files have it.
func (s *Store) RawID() [16]byte { return s.id }

// FS returns the directory of the store, for the files beside the objects:
// packages above keep theirs under worktrees/.
func (s *Store) FS() vfs.FS { return s.fsys }

// Epoch returns a number that changes when a prune or a repair is about to take
// packs away, gives that up, or drops snapshots. What a [Writer] of an epoch finds
// is there as long as the epoch lasts.
func (s *Store) Epoch() (uint64, error) {
	s.jmu.Lock()
	defer s.jmu.Unlock()
	err := s.j.Refresh()
	return s.j.Epoch, err
}

// PackLengths returns, for each pack that exists, up to where its objects can
// be counted on: the length that the journal has for it, or its own if somebody has
// cut it, [math.MaxInt64] if it is sealed. Whoever remembers that an object exists
// should remember with it the lengths at that time, and give them as was: if one is
// less by now, or missing, something was taken away, put back from a copy, or is on no
// record any more. Of a sealed pack that was cut later only who reads it finds out.
//
// A pack can be sealed before the end that it once had on record: whoever takes it up
// behind a loss of the journal's newest records cannot count on more. Of one that was
// not sealed at the time of was, it is therefore how far the index speaks for it that
// is returned, if that is less.
func (s *Store) PackLengths(was map[[16]byte]int64) (map[[16]byte]int64, error) {
	s.jmu.Lock()
	defer s.jmu.Unlock()
	if err := s.j.Refresh(); err != nil {
		return nil, err
	}
	return s.packLengths(was)
}

// packLengths is PackLengths as far as the journal was read. Store.jmu is held.
func (s *Store) packLengths(was map[[16]byte]int64) (map[[16]byte]int64, error) {
	// After the journal: what it no longer names has an index by now.
	names, err := s.fsys.ReadDir("packs")
	if err != nil {
		return nil, err
	}
	lengths := make(map[[16]byte]int64, len(names)/2+1)
	for _, name := range names {
		if id, ok := layout.ParsePackID(name, ".pack"); ok {
			lengths[id] = s.j.Packs[id]
		}
	}
	sealed := make(map[[16]byte]bool, len(lengths))
	for _, name := range names {
		id, isIndex := layout.ParsePackID(name, ".idx")
		if _, ok := lengths[id]; !isIndex || !ok {
			continue
		}
		sealed[id] = true
		lengths[id] = math.MaxInt64
		if before, ok := was[id]; ok && before < math.MaxInt64 {
			end, err := pack.IndexedEnd(s.fsys, s.id, id)
			if err != nil {
				return nil, err
			}
			if end < before {
				lengths[id] = end
			}
		}
	}
	for id, end := range lengths {
		if sealed[id] || end == 0 {
			continue
		}
		st, err := s.fsys.Stat(layout.PackName(id))
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && st.Kind != vfs.Regular:
			delete(lengths, id)
		case err != nil:
			return nil, err
		default:
			lengths[id] = min(end, st.Size)
		}
	}
	return lengths, nil
}

// packIDs returns the ids of the packs that exist, sorted.
func (s *Store) packIDs() ([][16]byte, error) {
	names, err := s.fsys.ReadDir("packs")
	if err != nil {
		return nil, err
	}
	var ids [][16]byte
	for _, name := range names {
		if id, ok := layout.ParsePackID(name, ".pack"); ok {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// refresh reads what others have added to the journal.
func (s *Store) refresh() error {
	s.jmu.Lock()
	defer s.jmu.Unlock()
	return s.j.Refresh()
}

// withJournal reads what others have added to the journal, and calls fn while nobody else
// can add anything. fn runs under Store.jmu.
func (s *Store) withJournal(ctx context.Context, fn func() error) error {
	return layout.WithLock(ctx, s.fsys, layout.JournalLock, func() error {
		s.jmu.Lock()
		defer s.jmu.Unlock()
		if err := s.j.Refresh(); err != nil {
			return err
		}
		return fn()
	})
}

// sayAgain has what was in a segment that somebody has removed be in the next: who is about to write may
// find that all is as the newest record says, and record nothing.
func (s *Store) sayAgain(ctx context.Context) error {
	s.jmu.Lock()
	isMissing := s.j.IsMissing()
	s.jmu.Unlock()
	if !isMissing {
		return nil
	}
	return s.withJournal(ctx, s.j.Writable)
}

// appendOne adds a record to the journal, inside of withJournal. See [journal.Journal.Write].
func (s *Store) appendOne(r journal.Record, durable bool) error {
	if err := checkBody(r.Body); err != nil {
		return err
	}
	if err := s.j.Writable(); err != nil {
		return err
	}
	return s.j.Write([]journal.Record{r}, durable)
}

// checkBody refuses a record that readers would take for damage.
func checkBody(body []byte) error {
	if len(body) > journal.MaxFrameBody {
		return fmt.Errorf("record of %d bytes: the limit is %d", len(body), journal.MaxFrameBody)
	}
	return nil
}

// Newest returns the newest snapshot of a session in a worktree. The error
// matches [ErrNotFound] if there is none.
func (s *Store) Newest(ctx context.Context, worktree, session string) (*store.Snapshot, error) {
	snap, _, err := s.NewestNow(worktree, session)
	return snap, err
}

// NewestNow is Newest with the epoch at that moment: see [Store.Epoch].
func (s *Store) NewestNow(worktree, session string) (*store.Snapshot, uint64, error) {
	s.jmu.Lock()
	defer s.jmu.Unlock()
	if err := s.j.Refresh(); err != nil {
		return nil, s.j.Epoch, err
	}
	snap, err := s.newest(worktree, session)
	return snap, s.j.Epoch, err
}

// newest is Newest as far as the journal was read. Store.jmu is held.
func (s *Store) newest(worktree, session string) (*store.Snapshot, error) {
	snap, err := s.j.Head(journal.HeadKey{Worktree: worktree, Session: session})
	if err != nil {
		return nil, err
	}
	if snap == nil {
		return nil, fmt.Errorf("snapshot of session %q: %w", session, store.ErrNotFound)
	}
	return journal.Present(snap, s.j.Pruned), nil
}

// Snapshots returns all snapshots, newest first. Each pair is a snapshot and
// nil, or nil and the error that ends the sequence.
func (s *Store) Snapshots(ctx context.Context) iter.Seq2[*store.Snapshot, error] {
	return func(yield func(*store.Snapshot, error) bool) {
		s.jmu.Lock()
		err := s.j.Refresh()
		// Segments are only ever added to: a copy of where we are is
		// enough to read them without the lock.
		j := journal.New(s.fsys, s.id)
		j.Seg = s.j.Seg
		pruned := s.j.Pruned
		s.jmu.Unlock()
		if err != nil {
			yield(nil, err)
			return
		}
		for snap, err := range j.Snapshots(j.Seg + 1) {
			if err == nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(journal.Present(snap, pruned), nil) {
				return
			}
		}
	}
}

// Close frees what the store holds. Objects that no commit named may be
// gone with the next process.
func (s *Store) Close() error {
	s.wmu.Lock()
	for _, w := range s.open() { // their files are closed with the other packs
		if !w.IsNamed() {
			s.drop(w, layout.ErrClosed)
		}
	}
	s.active, s.ended = nil, nil
	s.generation++
	s.failed = layout.ErrClosed
	s.wmu.Unlock()
	s.waitSealed()

	s.mu.Lock()
	var errs []error
	for _, x := range s.indexes {
		errs = append(errs, x.F.Close())
	}
	for _, p := range s.packs {
		errs = append(errs, p.F.Close())
	}
	for _, c := range s.retired {
		errs = append(errs, c.Close())
	}
	s.indexes, s.packs, s.retired = nil, nil, nil
	s.mu.Unlock()

	s.jmu.Lock()
	defer s.jmu.Unlock()
	errs = append(errs, s.j.Close())
	if s.share != nil { // last: from here on it may be moved
		errs = append(errs, s.share.Close())
		s.share = nil
	}
	return errors.Join(errs...)
}

// Errors for the packages above, which answer to them.
var (
	// ErrMoved: the snapshot that a commit builds on is not the newest of
	// its session any more.
	ErrMoved = errors.New("session has moved on")
	// ErrPlanStale: the store was pruned or repaired since a prune was planned: plan
	// again.
	ErrPlanStale = errors.New("the store was pruned or repaired since it was planned")
	// ErrLost: a write failed elsewhere in this process, and objects that
	// this writer may have counted on are gone with it. Capture again.
	ErrLost = errors.New("objects lost by a failed write")
)
