package cas

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
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
	single     atomic.Bool // objects have records of their own
	asked      atomic.Bool // an object was looked up since the journal was read
	doubts     atomic.Bool // what is there already is read before it counts: see MakeSure
	sure       sync.Map    // places that were read for that, which are whole
	isLarge    bool        // it has filled a group; Store.wmu guards it

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
	if err := s.there(); err != nil {
		return nil, fmt.Errorf("begin writing: %w", err)
	}
	lock, epoch, err := s.enterEpoch(ctx)
	if err != nil {
		return nil, fmt.Errorf("begin writing: %w", err)
	}
	err = s.sayAgain(ctx)
	if err == nil {
		err = s.heed()
	}
	if err == nil {
		err = s.heedCuts()
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("begin writing: %w", err)
	}
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if errors.Is(s.failed, layout.ErrClosed) {
		lock.Close()
		return nil, layout.ErrClosed
	}
	s.writers++
	return &Writer{s: s, lock: lock, epoch: epoch, generation: s.generation, settled: true}, nil
}

// Has reports whether an object is there. It stays until the writer closes.
func (w *Writer) Has(id store.ID) (bool, error) {
	w.asked.Store(true)
	return w.s.counts(id)
}

// HasAll is Has of an object and, if it is a file's content of some length, of the chunks that it is in: of
// these a remote may have promised some.
func (w *Writer) HasAll(id store.ID, size int64) (bool, error) {
	ok, err := w.Has(id)
	if !ok || err != nil || size < int64(pack.MinChunked) {
		return ok, err
	}
	chunks, err := w.s.chunksOf(id)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrForgotten) {
		return false, nil
	}
	for i := 0; i < len(chunks) && ok && err == nil; i++ {
		ok, err = w.HasOrPromised(chunks[i], 0)
	}
	return ok && err == nil, err
}

// HasOrPromised is HasAll, and holds for what a remote has promised, too.
func (w *Writer) HasOrPromised(id store.ID, size int64) (bool, error) {
	if ok, err := w.HasAll(id, size); ok || err != nil {
		return ok, err
	}
	remote, err := w.s.Promiser(id)
	return remote != "", err
}

// Epoch returns the epoch that the writer is in: see [Store.Epoch].
func (w *Writer) Epoch() uint64 { return w.epoch }

// Newest is [Store.Newest] as of when the writer began, or later: it does not ask
// the disk for what others have recorded since.
func (w *Writer) Newest(worktree, session string) (*store.Snapshot, error) {
	w.s.jmu.Lock()
	defer w.s.jmu.Unlock()
	return w.s.newest(worktree, session)
}

// PackLengths is [Store.PackLengths] as of when the writer last found an object, or
// later.
func (w *Writer) PackLengths(was map[[16]byte]int64) (map[[16]byte]int64, error) {
	if w.asked.Load() {
		return w.s.PackLengths(was)
	}
	w.s.jmu.Lock()
	defer w.s.jmu.Unlock()
	return w.s.packLengths(was)
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
func (w *Writer) Put(kind object.Kind, data []byte) (store.ID, error) {
	return w.PutFrom(0, kind, data)
}

// PutFrom is Put of one of several goroutines, which have numbers from 0 on: what each puts is alike,
// files of one directory, and comes into one group, once there is enough for groups of several.
func (w *Writer) PutFrom(lane int, kind object.Kind, data []byte) (store.ID, error) {
	if kind == object.Blob && len(data) >= pack.MinChunked {
		id, _, err := w.PutReader(bytes.NewReader(data))
		return id, err
	}
	id := object.Hash(kind, data)
	return id, w.put(uint8(kind), id, data, lane)
}

// buffers for compressing and for verifying what was compressed.
type scratch struct{ packed, plain []byte }

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (w *Writer) put(kind uint8, id store.ID, data []byte, lane int) error {
	w.asked.Store(true)
	if len(data) > pack.MaxObject {
		return fmt.Errorf("put object of %d bytes: the limit is %d", len(data), pack.MaxObject)
	}
	w.mu.Lock()
	closed := w.closed
	w.vouched = false
	w.mu.Unlock()
	if closed {
		return layout.ErrClosed
	}
	reserved, err := w.s.reserve(id)
	if err == nil && !reserved && w.doubts.Load() {
		reserved, err = w.reserveUnread(id)
	}
	if err != nil || !reserved {
		return err
	}
	defer w.s.release(id)
	var stored int64
	if w.isGroupable(kind, len(data)) {
		err = w.putMember(kind, id, data, lane)
	} else {
		stored, err = w.putRecord(kind, id, data)
	}
	if err != nil {
		return fmt.Errorf("put object %s: %w", id.Short(), err)
	}
	w.mu.Lock()
	w.stats.Objects++
	w.stats.Bytes += int64(len(data))
	w.stats.Stored += stored
	w.settled = false
	w.mu.Unlock()
	return nil
}

// MakeSure has the writer read, from here on, what it is given and has already, and store it again if it
// was damaged since. It is for what is about to be destroyed elsewhere.
func (w *Writer) MakeSure() { w.doubts.Store(true) }

// reserveUnread is reserve for an object that is there, and counts if it can be read.
func (w *Writer) reserveUnread(id store.ID) (bool, error) {
	if w.s.isGrouped(id) { // it is in memory yet
		return false, nil
	}
	buf := pack.TakeBuffer()
	defer pack.PutBuffer(buf)
	for _, loc := range w.s.lasting(id) {
		at := place{loc.Pack.ID, loc.Off}
		if _, ok := w.sure.Load(at); ok { // a group has many
			return false, nil
		}
		if err := w.s.flushFor(loc); err != nil {
			return false, err
		}
		_, _, err := loc.Pack.Read(loc, buf)
		if err == nil {
			w.sure.Store(at, nil)
			return false, nil
		}
		damage, ok := errors.AsType[*object.CorruptError](err)
		if !ok {
			return false, err
		}
		w.s.Distrust(damage)
	}
	return w.s.reserve(id)
}

// putRecord stores an object in a record of its own, and returns how long that is.
func (w *Writer) putRecord(kind uint8, id store.ID, data []byte) (stored int64, err error) {
	buf := scratches.Get().(*scratch)
	defer scratches.Put(buf)
	h, packed, err := recordOf(kind, id, data, buf)
	if err != nil {
		return 0, err
	}
	if err := w.spend(h.Size()); err != nil {
		return 0, err
	}
	defer w.spent(h.Size())
	return h.Size(), w.s.append(w.generation, h, packed, nil)
}

// recordOf makes the record of an object, which decodes to it.
func recordOf(kind uint8, id store.ID, data []byte, buf *scratch) (pack.Header, []byte, error) {
	codec, packed := pack.Compress(kind, data, &buf.packed)
	h := pack.Header{Kind: kind, Codec: codec, Raw: uint32(len(data)), Stored: uint32(len(packed)),
		ID: id, Crc: layout.Checksum(packed)}
	return h, packed, pack.VerifyCompressed(codec, packed, data, &buf.plain)
}

// putMember stores an object in a group.
func (w *Writer) putMember(kind uint8, id store.ID, data []byte, lane int) error {
	n := memberBytes(len(data))
	if err := w.spend(n); err != nil {
		return err
	}
	defer w.spent(n)
	return w.putInGroup(kind, id, data, lane)
}

// PutReader stores what r gives as a blob and returns its ID and length. The
// chunks of a large one are stored by several goroutines: in the whole process
// as many as there are processors, each with one chunk in memory.
func (w *Writer) PutReader(r io.Reader) (store.ID, int64, error) {
	whole := pack.BlobHashers.Get().(*blake3.Hasher)
	defer pack.BlobHashers.Put(whole)
	whole.Reset()
	in := chunkReaders.Get().(*bufio.Reader)
	defer chunkReaders.Put(in)
	in.Reset(r)
	defer in.Reset(nil)
	var chunks chunkPuts
	eof := false // it is not asked again after that: a file that grows would have no end
	for size := int64(0); ; {
		n := pack.MaxChunk
		if eof {
			n = min(n, in.Buffered())
		}
		b, err := in.Peek(n)
		eof = eof || err == io.EOF
		if err != nil && err != io.EOF {
			return store.ID{}, size, cmp.Or(chunks.wait(), err)
		}
		if len(b) == 0 && size > 0 {
			if err := chunks.wait(); err != nil {
				return store.ID{}, size, err
			}
			var id store.ID
			whole.Sum(id[:0])
			// Of a single chunk, which is the blob, no list is stored: it is there.
			return id, size, w.put(pack.RecChunked, id, chunks.list(), 0)
		}
		if size == 0 && len(b) < pack.MinChunked {
			id, err := w.Put(object.Blob, b)
			return id, int64(len(b)), err
		}
		n = pack.CutPoint(b)
		whole.Write(b[:n])
		if !chunks.start(w, b[:n]) {
			return store.ID{}, size, chunks.wait()
		}
		in.Discard(n) // it never fails: n bytes were seen
		size += int64(n)
	}
}

// chunkReaders are what PutReader reads with.
var chunkReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 2*pack.MaxChunk) }}

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
	id  store.ID
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
		p.id = object.Hash(object.Blob, *buf)
		p.err = w.put(uint8(object.Blob), p.id, *buf, 0)
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

// Commit makes all objects put so far durable and then records the snapshot,
// setting its Seq. When it returns nil, both survive a power cut.
//
// newest is the Seq of the newest snapshot of the same worktree and session
// as the caller knows it, 0 for none: if there is a newer one the error
// matches [ErrMoved] and nothing is recorded.
func (w *Writer) Commit(ctx context.Context, snap *store.Snapshot, newest uint64) error {
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
		return layout.ErrClosed
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
