package store

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/vfs"
)

// A Writer puts objects into the store and commits them. Objects of a writer
// that never commits are not lost at once, but nothing may count on them.
//
// Put and PutReader may be called from several goroutines. Every Writer must
// be closed.
type Writer struct {
	s          *Store
	lock       vfs.File // of the epoch, held shared: nothing that we find is taken away
	epoch      uint64
	generation int
	asked      atomic.Bool // an object was looked up since the journal was read

	mu      sync.Mutex // guards the rest
	stats   WriteStats
	settled bool // nothing was appended since the last commit
	vouched bool // nothing was put at all since the last commit
	closed  bool
	onClose []func(durable bool)

	keepFree int64 // bytes that are to stay free; 0: none
	keepIn   string
	room     int64 // what may be put before the next look how many are
	pending  int64 // what is about to be appended
	full     error // why nothing more is put, for want of space
}

// WriteStats count what a writer added to the store.
type WriteStats struct {
	Objects int   // objects that were not there before
	Bytes   int64 // their length
	Stored  int64 // their length in the packs, headers included
}

// Begin starts a writer. From here on until the commit the writer may count
// on every object that it finds.
func (s *Store) Begin(ctx context.Context) (*Writer, error) {
	if s.readOnly {
		return nil, errors.New("begin writing: store is open read-only")
	}
	lock, epoch, err := s.enterEpoch(ctx)
	if err != nil {
		return nil, fmt.Errorf("begin writing: %w", err)
	}
	if err := s.heed(); err != nil {
		lock.Close()
		return nil, fmt.Errorf("begin writing: %w", err)
	}
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if errors.Is(s.failed, ErrClosed) {
		lock.Close()
		return nil, ErrClosed
	}
	s.writers++
	return &Writer{s: s, lock: lock, epoch: epoch, generation: s.generation, settled: true}, nil
}

// Has reports whether an object is there. It stays until the writer closes.
func (w *Writer) Has(id ID) (bool, error) {
	w.asked.Store(true)
	return w.s.counts(id)
}

// Epoch returns the epoch that the writer is in: see [Store.Epoch].
func (w *Writer) Epoch() uint64 { return w.epoch }

// Newest is [Store.Newest] as of when the writer began, or later: it does not ask
// the disk for what others have recorded since.
func (w *Writer) Newest(worktree, session string) (*Snapshot, error) {
	w.s.jmu.Lock()
	defer w.s.jmu.Unlock()
	return w.s.newest(worktree, session)
}

// PackLengths is [Store.PackLengths] as of when the writer last found an object, or
// later.
func (w *Writer) PackLengths() (map[[16]byte]int64, error) {
	if w.asked.Load() {
		return w.s.PackLengths()
	}
	w.s.jmu.Lock()
	defer w.s.jmu.Unlock()
	return w.s.packLengths()
}

// OnClose has fn called when the writer is closed, the last one first. durable
// tells whether all that was put is on the disk by then.
//
// On a writer that is closed already it is called at once.
func (w *Writer) OnClose(fn func(durable bool)) {
	w.mu.Lock()
	closed := w.closed
	if !closed {
		w.onClose = append(w.onClose, fn)
	}
	w.mu.Unlock()
	if closed {
		fn(false)
	}
}

// Stats returns what the writer has added so far.
func (w *Writer) Stats() WriteStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

// Put stores an object, unless it is there, and returns its ID. It keeps no
// reference to data.
func (w *Writer) Put(kind Kind, data []byte) (ID, error) {
	id := Hash(kind, data)
	return id, w.put(uint8(kind), id, data)
}

// buffers for compressing and for verifying what was compressed.
type scratch struct{ packed, plain []byte }

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (w *Writer) put(kind uint8, id ID, data []byte) error {
	w.asked.Store(true)
	if len(data) > MaxObject {
		return fmt.Errorf("put object of %d bytes: the limit is %d", len(data), MaxObject)
	}
	w.mu.Lock()
	closed := w.closed
	w.vouched = false
	w.mu.Unlock()
	if closed {
		return ErrClosed
	}
	reserved, err := w.s.reserve(id)
	if err != nil || !reserved {
		return err
	}
	defer w.s.release(id)
	buf := scratches.Get().(*scratch)
	defer scratches.Put(buf)
	codec, stored := compress(kind, data, &buf.packed)
	err = verifyCompressed(codec, stored, data, &buf.plain)
	h := recordHeader{kind: kind, codec: codec, raw: uint32(len(data)), stored: uint32(len(stored)),
		id: id, crc: checksum(stored)}
	if err == nil {
		err = w.spend(h.size())
	}
	if err != nil {
		return fmt.Errorf("put object %s: %w", id.Short(), err)
	}
	err = w.s.append(w.generation, h, stored)
	w.mu.Lock()
	w.pending -= h.size()
	w.mu.Unlock()
	if err != nil {
		return fmt.Errorf("put object %s: %w", id.Short(), err)
	}
	w.mu.Lock()
	w.stats.Objects++
	w.stats.Bytes += int64(len(data))
	w.stats.Stored += h.size()
	w.settled = false
	w.mu.Unlock()
	return nil
}

// PutReader stores what r gives as a blob and returns its ID and length. The
// chunks of a large one are stored by several goroutines: in the whole process
// as many as there are processors, each with one chunk in memory.
func (w *Writer) PutReader(r io.Reader) (ID, int64, error) {
	whole := blobHashers.Get().(*blake3.Hasher)
	defer blobHashers.Put(whole)
	whole.Reset()
	in := chunkReaders.Get().(*bufio.Reader)
	defer chunkReaders.Put(in)
	in.Reset(r)
	defer in.Reset(nil)
	var chunks chunkPuts
	eof := false // it is not asked again after that: a file that grows would have no end
	for size := int64(0); ; {
		n := maxChunk
		if eof {
			n = min(n, in.Buffered())
		}
		b, err := in.Peek(n)
		eof = eof || err == io.EOF
		if err != nil && err != io.EOF {
			return ID{}, size, cmp.Or(chunks.wait(), err)
		}
		if len(b) == 0 && size > 0 {
			if err := chunks.wait(); err != nil {
				return ID{}, size, err
			}
			var id ID
			whole.Sum(id[:0])
			// Of a single chunk, which is the blob, no list is stored: it is there.
			return id, size, w.put(recChunked, id, chunks.list())
		}
		if size == 0 && len(b) < minChunked {
			id, err := w.Put(Blob, b)
			return id, int64(len(b)), err
		}
		n = cutPoint(b)
		whole.Write(b[:n])
		if !chunks.start(w, b[:n]) {
			return ID{}, size, chunks.wait()
		}
		in.Discard(n) // it never fails: n bytes were seen
		size += int64(n)
	}
}

// chunkReaders are what PutReader reads with.
var chunkReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 2*maxChunk) }}

// chunkBuffers hold chunks that are being stored, as many as there are slots.
var (
	chunkBuffers = sync.Pool{New: func() any { return new([]byte) }}
	chunkSlots   = make(chan struct{}, runtime.GOMAXPROCS(0))
)

// chunkPuts are the chunks of one blob, which several goroutines store.
type chunkPuts struct {
	all    []*chunkPut
	wg     sync.WaitGroup
	failed atomic.Bool
}

type chunkPut struct {
	id  ID
	n   int
	err error
}

// start begins to store a chunk, of which it keeps a copy, when there is a slot
// for it. It reports false, and does nothing, if one before has failed.
func (c *chunkPuts) start(w *Writer, chunk []byte) bool {
	chunkSlots <- struct{}{}
	if c.failed.Load() {
		<-chunkSlots
		return false
	}
	buf := chunkBuffers.Get().(*[]byte)
	*buf = append((*buf)[:0], chunk...)
	p := &chunkPut{n: len(chunk)}
	c.all = append(c.all, p)
	c.wg.Go(func() {
		p.id, p.err = w.Put(Blob, *buf)
		if p.err != nil {
			c.failed.Store(true)
		}
		chunkBuffers.Put(buf)
		<-chunkSlots
	})
	return true
}

// wait waits for all chunks, and returns why one failed. That others were lost by
// it is not the reason.
func (c *chunkPuts) wait() error {
	c.wg.Wait()
	var lost error
	for _, p := range c.all {
		if p.err != nil && !errors.Is(p.err, ErrLost) {
			return p.err
		}
		lost = cmp.Or(lost, p.err)
	}
	return lost
}

// list returns the chunks as they are stored.
func (c *chunkPuts) list() []byte {
	var b []byte
	for _, p := range c.all {
		b = appendChunkRef(b, p.id, p.n)
	}
	return b
}

// reserve reports whether the caller is the one to store an object, and must
// release it. It is not if the object is there. While another goroutine is
// storing it, reserve waits: a commit must not overtake an object that its
// writer counts on.
func (s *Store) reserve(id ID) (bool, error) {
	for {
		if ok, err := s.counts(id); ok || err != nil {
			return false, err
		}
		s.mu.Lock()
		loc, stored := s.objects[id]
		stored = stored && !s.absent[loc.pack.id] && !s.damaged[place{loc.pack.id, loc.off}]
		done := s.pending[id]
		if !stored && done == nil {
			s.pending[id] = make(chan struct{})
		}
		s.mu.Unlock()
		if stored || done == nil {
			return !stored, nil
		}
		<-done // it may have failed: look again
	}
}

// release ends a reservation.
func (s *Store) release(id ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.pending[id])
	delete(s.pending, id)
}

// append writes a record to the active pack.
func (s *Store) append(generation int, h recordHeader, payload []byte) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if generation != s.generation {
		return s.failed
	}
	if s.active == nil {
		if err := s.openActive(); err != nil {
			s.fail(err)
			return err
		}
	}
	loc, err := s.active.append(h, payload)
	if err != nil {
		s.fail(err)
		return err
	}
	s.mu.Lock()
	s.objects[h.id] = loc
	s.mu.Unlock()
	// What lies behind what is on record goes to waste if we are killed: of a pack
	// that has a name not much is to.
	if end := s.active.end(); end >= sealSizeMax || end >= sealSizeIdle && s.active.isNamed() {
		s.sealActive()
	}
	return nil
}

// openActive takes up a pack to append to: an unsealed one that no process
// uses, or a new one. Store.wmu is held.
func (s *Store) openActive() error {
	ids, err := s.packIDs()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := s.fsys.Stat(indexName(id)); err == nil || s.repairing[id] {
			continue
		}
		w, err := adoptPack(s.fsys, s.id, id, func() (int64, error) { return s.durable(id) })
		if err != nil {
			return err
		}
		if w == nil {
			continue
		}
		s.use(w)
		if w.written < sealSizeIdle {
			return nil
		}
		s.sealActive() // its process had no time to
	}
	if err := s.beginJournal(); err != nil {
		return err
	}
	w, err := createPack(s.fsys, s.id)
	if err != nil {
		return err
	}
	s.use(w)
	return nil
}

// beginJournal starts the first segment, if there is none, so that there is no
// pack without one: where there are packs alone, the journal was lost.
func (s *Store) beginJournal() error {
	s.jmu.Lock()
	begun := s.j.seg > 0
	s.jmu.Unlock()
	if begun {
		return nil
	}
	return withLock(context.Background(), s.fsys, journalLock, func() error {
		s.jmu.Lock()
		defer s.jmu.Unlock()
		if err := s.j.refresh(); err != nil || s.j.seg > 0 {
			return err
		}
		return s.j.rotate()
	})
}

// use makes a pack the active one, with all that it holds.
func (s *Store) use(w *packWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.packs[w.id]; old != nil {
		s.retired = append(s.retired, old.f) // others may be reading it
	}
	s.packs[w.id] = w.pack
	if !w.isNamed() {
		s.unnamed[w.id] = true
	}
	delete(s.scanned, w.id) // from now on we know what is in it
	for _, e := range w.entries {
		s.objects[e.id] = e.location
	}
	s.active = w
}

// durable returns up to where the journal says that a pack is durable.
func (s *Store) durable(id [16]byte) (int64, error) {
	s.jmu.Lock()
	defer s.jmu.Unlock()
	if err := s.j.refresh(); err != nil {
		return 0, err
	}
	return max(s.j.packs[id], fileHeaderSize), nil
}

// A sealing is a pack that is being sealed, or synced before its commit.
type sealing struct {
	done chan struct{} // closed at the end, however it ended
}

func waitSealed(seals []*sealing) {
	for _, seal := range seals {
		<-seal.done
	}
}

// sealActive ends the active pack. If all of it is on record it is sealed;
// otherwise a commit does so, since a seal vouches for all that is before it.
// Store.wmu is held.
func (s *Store) sealActive() {
	w := s.active
	// Flushed while it is the active one: its objects are read from the file
	// from here on.
	if err := w.flush(); err != nil {
		s.fail(err)
		return
	}
	s.active = nil
	if w.settled() {
		s.seal(w)
		return
	}
	s.ended = append(s.ended, w)
	end := w.written
	s.background(func() error { return w.sync(end) }, func() {})
}

// seal seals a pack that nothing more is appended to, and that is on record.
// Store.wmu is held.
func (s *Store) seal(w *packWriter) {
	s.background(func() error {
		if err := w.seal(s.fsys, s.id, w.written); err != nil {
			return fmt.Errorf("seal %s: %w", w.name(), err)
		}
		return w.f.Unlock()
	}, func() { s.sealed = append(s.sealed, w.pack) })
}

// background does what keeps nobody waiting but the next commit, and then calls
// done, which Store.wmu guards. Store.wmu is held.
func (s *Store) background(work func() error, done func()) {
	seal := &sealing{done: make(chan struct{})}
	s.sealing = append(s.sealing, seal)
	go func() {
		defer close(seal.done)
		err := work()
		s.wmu.Lock()
		defer s.wmu.Unlock()
		if err != nil {
			s.fail(err)
		} else {
			done()
		}
		i := slices.Index(s.sealing, seal)
		s.sealing = slices.Concat(s.sealing[:i], s.sealing[i+1:])
	}()
}

// open returns the packs that this process has locked to append to, and that are not
// being sealed. Store.wmu is held.
func (s *Store) open() []*packWriter {
	list := slices.Clone(s.ended)
	if s.active != nil {
		list = append(list, s.active)
	}
	return list
}

// maxObjects is how many objects are remembered before those in sealed packs are
// looked up in the indexes, also where this process has sealed them: 2 MB. In
// the middle of a capture it is quicker to have them in memory.
var maxObjects = 16 << 10

// dropSealed forgets where the objects of sealed packs are, if there are many:
// from now on their indexes say so.
func (s *Store) dropSealed() {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sealed) == 0 || len(s.objects) <= maxObjects || s.packs == nil { // closed
		return
	}
	indexed := make(map[[16]byte]bool)
	for _, x := range s.indexes {
		indexed[x.pack.id] = true
	}
	for _, p := range s.sealed {
		if indexed[p.id] {
			continue
		}
		x, err := openIndex(s.fsys, s.id, p)
		if err != nil { // it stays as it is
			s.log.Warn("index not read", "path", indexName(p.id), "err", err)
			continue
		}
		s.indexes = append(slices.Clip(s.indexes), x)
		indexed[p.id] = true
	}
	s.sealed = nil
	objects := make(map[ID]location) // the old one would stay as large
	for id, loc := range s.objects {
		if !indexed[loc.pack.id] {
			objects[id] = loc
		}
	}
	s.objects = objects
}

// fail ends all writers of the process: what was appended and not committed
// may not be on the disk, and any of them may count on it. Nothing more is
// appended to the pack. Store.wmu is held.
func (s *Store) fail(err error) {
	if errors.Is(s.failed, ErrClosed) {
		return
	}
	s.generation++
	s.failed = fmt.Errorf("%w: %w", ErrLost, err)
	list := s.open()
	s.active, s.ended, s.unwanted = nil, nil, nil
	for _, w := range list {
		if slices.Contains(s.offered, w) { // see endOffer
			w.dropped = err
		} else {
			s.drop(w, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetObjects()
}

// drop gives up a pack. What is in it and on no record nobody counts on: a pack
// without a name goes, and if there was no space, that of others is cut back to
// what is on record. Store.wmu is held.
func (s *Store) drop(w *packWriter, why error) {
	defer w.f.Unlock() // it never fails on a file that is open
	if w.isNamed() {
		w.smu.Lock()
		synced := w.failed == nil
		w.smu.Unlock()
		end, err := s.durable(w.id)
		if err != nil || !synced || !IsNoSpace(why) {
			return // who takes it up closes off what is behind the end
		}
		end = max(end, w.committed)
		if st, err := w.f.Stat(); err == nil && st.Size > end {
			err = w.f.Truncate(end)
			s.log.Debug("pack cut back", "path", w.name(), "bytes", st.Size-end, "err", err)
		}
		return
	}
	s.mu.Lock()
	delete(s.packs, w.id)
	delete(s.unnamed, w.id)
	s.mu.Unlock()
	// It may be open for a while yet, and take its bytes so long.
	if err := errors.Join(w.f.Truncate(0), s.fsys.Remove(w.file)); err != nil {
		s.log.Warn("pack not removed that nothing needs", "path", w.file, "err", err)
	}
}

// endOffer ends a commit that syncPacks has begun. Until then a pack that is not
// appended to any more stays locked: who took it up would seal it at the length
// that is on record, and the commit is about to record a greater one.
func (s *Store) endOffer() {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	for _, w := range s.offered {
		if w.dropped != nil {
			s.drop(w, w.dropped)
		}
	}
	s.offered = nil
}

// flushFor makes sure that the record at loc can be read from its file.
func (s *Store) flushFor(loc location) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if s.active == nil || s.active.pack != loc.pack || loc.off < s.active.written {
		return nil
	}
	if err := s.active.flush(); err != nil {
		s.fail(err)
		return err
	}
	return nil
}

// Commit makes all objects put so far durable and then records the snapshot,
// setting its Seq. When it returns nil, both survive a power cut.
//
// newest is the Seq of the newest snapshot of the same worktree and session
// as the caller knows it, 0 for none: if there is a newer one the error
// matches [ErrMoved] and nothing is recorded.
func (w *Writer) Commit(ctx context.Context, snap *Snapshot, newest uint64) error {
	req := &commitRequest{generation: w.generation, snap: snap, newest: newest}
	if err := w.commit(ctx, req); err != nil {
		return fmt.Errorf("commit snapshot: %w", err)
	}
	return nil
}

func (w *Writer) commit(ctx context.Context, req *commitRequest) error {
	w.mu.Lock()
	closed := w.closed
	w.mu.Unlock()
	if closed {
		return ErrClosed
	}
	if err := w.s.commit(ctx, req); err != nil {
		if IsNoSpace(err) {
			w.mu.Lock()
			w.full = err
			w.mu.Unlock()
		}
		return err
	}
	w.mu.Lock()
	w.settled, w.vouched = true, true
	w.mu.Unlock()
	w.asked.Store(false)
	return nil
}

// closeTimeout bounds the wait for a lock in Close.
const closeTimeout = 10 * time.Second

// Close ends the writer. Objects that were put and not committed are made
// durable and known to all, so that the next try finds them: an error means
// only that it may not. If there was no space for all of them they are removed, as
// soon as no other writer of the process may count on them.
func (w *Writer) Close() error {
	w.mu.Lock()
	closed, settled, vouched, full := w.closed, w.settled, w.vouched, w.full
	w.closed = true
	w.mu.Unlock()
	if closed {
		return nil
	}
	intact, committed := w.s.state(w.generation)
	full = cmp.Or(full, w.s.lacksSpace()) // what is given up anyway must not keep what others had no space for
	durable := intact && full == nil
	var err error
	if full == nil && (!settled || intact && !vouched && !committed) {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		err = w.s.commit(ctx, &commitRequest{generation: w.generation})
		durable = err == nil
		if IsNoSpace(err) {
			full = err
		}
	}
	w.s.leave(full)
	w.mu.Lock()
	onClose := w.onClose
	w.onClose = nil
	w.mu.Unlock()
	for _, fn := range slices.Backward(onClose) {
		fn(durable)
	}
	w.s.dropSealed()
	return errors.Join(err, w.lock.Close())
}

// lacksSpace returns why what is on no record is to go, nil if it is not.
func (s *Store) lacksSpace() error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	return s.unwanted
}

// leave counts a writer out. If it had no space, what is on no record goes with
// the last one.
func (s *Store) leave(full error) {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	s.writers--
	if full != nil && s.unwanted == nil {
		s.unwanted = full
	}
	if s.writers == 0 && s.unwanted != nil {
		s.fail(s.unwanted)
		s.unwanted = nil
	}
}

// state reports whether no write has failed since a writer began, and whether
// a commit has followed everything that this process appended: a writer may
// count on what another one put.
func (s *Store) state(generation int) (intact, committed bool) {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	committed = !slices.ContainsFunc(s.open(), func(w *packWriter) bool { return !w.settled() })
	return generation == s.generation, committed
}

// A commitRequest waits for its turn in a group commit.
type commitRequest struct {
	generation int
	snap       *Snapshot // nil: objects only
	newest     uint64
	done       bool // set, like err, by the leader
	err        error
}

// A groupCommit lets concurrent commits of a process share their syncs: who
// gets the leader's lock commits all that wait.
type groupCommit struct {
	leader sync.Mutex

	mu    sync.Mutex // guards queue
	queue []*commitRequest
}

func (s *Store) commit(ctx context.Context, req *commitRequest) error {
	g := &s.commits
	g.mu.Lock()
	g.queue = append(g.queue, req)
	g.mu.Unlock()

	g.leader.Lock()
	defer g.leader.Unlock()
	if req.done {
		return req.err // an earlier leader took it along
	}
	g.mu.Lock()
	batch := g.queue
	g.queue = nil
	g.mu.Unlock()

	// The leader's patience is not the others': if ctx ends, they try again.
	err := s.commitBatch(ctx, batch)
	if err != nil && ctx.Err() != nil {
		g.mu.Lock()
		for _, r := range batch {
			if r != req {
				g.queue = append(g.queue, r)
			}
		}
		g.mu.Unlock()
		return err
	}
	for _, r := range batch {
		if err != nil {
			r.err = err
		}
		r.done = true
	}
	return req.err
}

// commitBatch makes the objects durable, then the records. A failure of one
// request alone is left in its err; an error of commitBatch is everyone's.
//
// The order is the design: each step may count on those before it having
// reached the disk.
func (s *Store) commitBatch(ctx context.Context, batch []*commitRequest) error {
	// 1. Objects: all packs that this process appended to.
	defer s.endOffer()
	packs, err := s.syncPacks()
	if err != nil {
		return err
	}
	batch = s.intact(batch)
	// 2. Their record. The lock is held until it is durable, so that no
	// later record can be there without it.
	err = withLock(ctx, s.fsys, journalLock, func() error {
		s.jmu.Lock()
		defer s.jmu.Unlock()
		return s.appendRecords(batch, packs)
	})
	if err != nil {
		return err
	}
	// 3. Only now may the pack be closed for good, and the caller hear of it.
	s.wmu.Lock()
	defer s.wmu.Unlock()
	s.unwanted = nil // it is on record now
	var rest []*packWriter
	for _, w := range s.open() {
		for _, p := range packs {
			if p.pack == w.id {
				w.committed = max(w.committed, p.end)
			}
		}
		switch {
		case w == s.active:
		case w.settled():
			s.seal(w)
		default:
			rest = append(rest, w)
		}
	}
	s.ended = rest
	if s.active != nil && s.active.written >= sealSizeIdle {
		s.sealActive()
	}
	return nil
}

// intact returns those requests whose objects are all there, and ends the
// others. A failure from here on cannot touch what is durable by now.
func (s *Store) intact(batch []*commitRequest) []*commitRequest {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	var rest []*commitRequest
	for _, r := range batch {
		r.err = nil // of a leader that gave up
		if r.generation != s.generation {
			r.err = s.failed
			continue
		}
		rest = append(rest, r)
	}
	return rest
}

// appendRecords puts the requests into the journal, which is locked.
func (s *Store) appendRecords(batch []*commitRequest, packs []packLen) error {
	if err := s.j.refresh(); err != nil {
		return err
	}
	if err := s.j.writable(); err != nil { // before numbers are given out
		return err
	}
	// What others have taken away meanwhile is not to be said again. They say so
	// before, under the lock that we have.
	var there []packLen
	for _, p := range packs {
		_, err := s.fsys.Stat(packName(p.pack))
		if err == nil && !slices.Contains(s.j.removed, p.pack) {
			there = append(there, p)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	packs = there
	var records []record
	taken := make(map[headKey]bool) // sessions that this batch moves
	var numbered []*Snapshot
	for _, r := range batch {
		if r.snap == nil {
			records = append(records, record{kind: framePacks, body: appendPacks(nil, packs)})
			continue
		}
		if r.err = r.snap.usesPruned(); r.err != nil {
			continue
		}
		key := headKey{r.snap.Worktree, r.snap.Session}
		head, err := s.j.head(key)
		if err != nil {
			return err
		}
		if taken[key] || head != nil && head.Seq != r.newest || head == nil && r.newest != 0 {
			r.err = fmt.Errorf("session %q: %w", r.snap.Session, ErrMoved)
			continue
		}
		body := r.snap.appendBody(nil, packs)
		if len(body) > maxFrameBody {
			r.err = fmt.Errorf("record of %d bytes: the limit is %d", len(body), maxFrameBody)
			continue
		}
		r.snap.Seq = s.j.given() + 1 + uint64(len(records))
		taken[key] = true
		records = append(records, record{kind: frameSnapshot, body: body})
		numbered = append(numbered, r.snap)
	}
	if len(records) == 0 {
		return nil
	}
	err := s.j.append(records)
	if err != nil {
		for _, snap := range numbered {
			snap.Seq = 0
		}
	}
	return err
}

// Skip has no record get a number up to one that was given out before: to a record
// that is lost, as who remembers it can tell. So it can be told from others if it
// comes back, and the gap stays for [Store.Check].
func (s *Store) Skip(seq uint64) {
	s.jmu.Lock()
	defer s.jmu.Unlock()
	s.j.skip = max(s.j.skip, seq)
}

// syncPacks makes durable what this process has appended, and returns the
// durable lengths of the unsealed packs that its writers may count on, its
// own and those of others: damage to the record that named one first must not
// take its objects from the records after it. Sealed packs need no mention:
// their index vouches for them.
func (s *Store) syncPacks() ([]packLen, error) {
	s.wmu.Lock()
	seals := s.sealing
	if w := s.active; w != nil {
		if err := w.flush(); err != nil {
			s.fail(err)
			s.wmu.Unlock()
			waitSealed(seals)
			return nil, err
		}
	}
	list := s.open()
	var packs []packLen
	for _, w := range list {
		packs = append(packs, packLen{w.id, w.written})
	}
	s.offered = list
	s.wmu.Unlock()

	var err error
	for i, w := range list {
		// Without the lock, so that others can append meanwhile.
		if err == nil {
			err = w.sync(packs[i].end)
		}
	}
	if err == nil {
		err = s.namePacks(list)
	}
	if err != nil {
		s.wmu.Lock()
		s.fail(err)
		s.wmu.Unlock()
	}
	waitSealed(seals) // one that failed has ended our generation
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for id, end := range s.scanned {
		if end > fileHeaderSize {
			packs = append(packs, packLen{id, end})
		}
	}
	sortPacks(packs)
	return packs, nil
}

// namePacks gives packs their names, which are synced and whole. From here on others
// see them, and count on nothing in them before a record says so.
func (s *Store) namePacks(list []*packWriter) error {
	renamed := false
	for _, w := range list {
		if w.isNamed() {
			continue
		}
		if err := s.fsys.Rename(w.file, w.name()); err != nil {
			return err
		}
		s.wmu.Lock()
		w.file = w.name()
		s.wmu.Unlock()
		s.mu.Lock()
		delete(s.unnamed, w.id)
		s.mu.Unlock()
		renamed = true
	}
	if !renamed {
		return nil
	}
	return s.fsys.SyncDir("packs")
}
