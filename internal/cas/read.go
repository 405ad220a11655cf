package cas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/cas/journal"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// Has reports whether an object is there. Objects that other processes have
// stored since this one looked last may go unseen; storing them again is
// harmless.
func (s *Store) Has(id store.ID) (bool, error) {
	if s.isGrouped(id) {
		return true, nil
	}
	_, ok, err := s.find(id)
	return ok, err
}

// find looks an object up in what is known of the packs.
func (s *Store) find(id store.ID) (pack.Location, bool, error) {
	if s.isGrouped(id) {
		s.flushGroups()
	}
	s.mu.RLock()
	loaded := s.loaded
	loc, ok := s.objects[id]
	indexes := s.indexes
	s.mu.RUnlock()
	if ok {
		return loc, true, nil
	}
	if !loaded {
		if err := s.load(); err != nil {
			return pack.Location{}, false, err
		}
		return s.find(id)
	}
	for _, x := range indexes {
		loc, ok, err := x.Find(id)
		if err != nil {
			if err := s.rescan(x, err); err != nil {
				return pack.Location{}, false, err
			}
			return s.find(id)
		}
		if ok {
			return loc, true, nil
		}
	}
	return pack.Location{}, false, nil
}

// counts reports whether an object is where a writer may count on it: not only
// in packs that are about to be taken away.
func (s *Store) counts(id store.ID) (bool, error) {
	if s.isGrouped(id) {
		return true, nil
	}
	loc, ok, err := s.find(id)
	if err != nil || !ok {
		return false, err
	}
	s.mu.RLock()
	absent, damaged := s.absent, s.damaged
	s.mu.RUnlock()
	good := func(l pack.Location) bool { return !absent[l.Pack.ID] && !damaged[place{l.Pack.ID, l.Off}] }
	return good(loc) || slices.ContainsFunc(s.copies(id), good), nil
}

// A place is where a record begins.
type place struct {
	pack [16]byte
	off  int64
}

// Distrust has writers not count on records that were found damaged: what they have is
// stored again when somebody puts it. What is no record is passed over.
func (s *Store) Distrust(found ...*object.CorruptError) {
	more := make(map[place]bool)
	for _, d := range found {
		if id, ok := layout.ParsePackID(strings.TrimPrefix(d.Path, "packs/"), ".pack"); ok {
			more[place{id, d.Off}] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(more, s.damaged)
	if len(more) > len(s.damaged) { // who reads it has no lock
		s.damaged = more
	}
}

// Distrusts reports whether any record in some packs, as [Store.PackLengths] returns them, is known to be
// damaged.
func (s *Store) Distrusts(packs map[[16]byte]int64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for at := range s.damaged {
		if _, there := packs[at.pack]; there {
			return true
		}
	}
	return false
}

// copies returns all places that are known to have an object.
func (s *Store) copies(id store.ID) (list []pack.Location) {
	s.mu.RLock()
	loc, ok := s.objects[id]
	indexes := s.indexes
	s.mu.RUnlock()
	if ok {
		list = append(list, loc)
	}
	for _, x := range indexes {
		if loc, ok, err := x.Find(id); ok && err == nil {
			list = append(list, loc)
		}
	}
	return list
}

// lasting returns those of copies that are not about to be taken away.
func (s *Store) lasting(id store.ID) []pack.Location {
	list := s.copies(id)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.DeleteFunc(list, func(l pack.Location) bool { return s.absent[l.Pack.ID] })
}

// locate is find for an object that should be there: it looks again at what
// other processes have done before it gives up.
func (s *Store) locate(id store.ID) (pack.Location, error) {
	loc, ok, err := s.find(id)
	if err != nil || ok {
		return loc, err
	}
	if journal.IsPruned(id) {
		return pack.Location{}, store.ErrPruned
	}
	if err := cmp.Or(s.refresh(), s.load()); err != nil {
		return pack.Location{}, err
	}
	loc, ok, err = s.find(id)
	if err == nil && !ok {
		err = s.honest(s.missing(id))
	}
	return loc, err
}

// load takes in the packs and the objects that it does not know yet, as far as the
// journal was read.
func (s *Store) load() error {
	s.jmu.Lock()
	durable := maps.Clone(s.j.Packs)
	s.jmu.Unlock()
	ids, err := s.packIDs()
	if err != nil {
		return err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.packs == nil {
		return layout.ErrClosed
	}
	for _, id := range ids {
		if err := s.loadPack(id, durable[id]); err != nil {
			return err
		}
	}
	s.loaded = true
	return nil
}

// loadPack takes in one pack. durable is its length according to the
// journal, 0 if that does not name it. Store.mu is held.
func (s *Store) loadPack(id [16]byte, durable int64) error {
	known, unsealed := s.scanned[id]
	p := s.packs[id]
	if p != nil && !unsealed {
		return nil // sealed, or written by this process
	}
	if p == nil {
		var err error
		p, err = pack.Open(s.fsys, s.id, id, os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // taken away since we listed it
		}
		if damage, ok := errors.AsType[*object.CorruptError](err); ok {
			s.warnPack(damage)
			return nil // its objects are not found; check says why
		}
		if err != nil {
			return err
		}
		s.packs[id] = p
		// Until it is taken in, so that a failure below is not for good.
		known = layout.HeaderSize
		s.scanned[id] = known
	}
	end, err := s.loadIndex(p)
	if err == nil {
		delete(s.scanned, id)
		return nil
	}
	durable = max(durable, end)
	bodyEnd, sealed, sealErr := p.SealedAt()
	if sealErr != nil {
		return sealErr
	}
	if sealed {
		// Unless somebody is sealing it right now, the index is lost.
		idle, lockErr := p.F.TryLock(vfs.Shared)
		if lockErr != nil {
			return lockErr
		}
		if idle {
			s.log.Warn("index rebuilt", "path", layout.IndexName(id), "err", err)
			err := s.rebuildIndex(p, bodyEnd)
			if err == nil {
				delete(s.scanned, id)
			}
			return errors.Join(err, p.F.Unlock())
		}
	}
	damage, err := p.Scan(known, durable, s.learn)
	s.warnPack(damage...)
	if err == nil {
		s.scanned[id] = max(known, durable)
	}
	return err
}

// loadIndex takes in a pack by its index. If the pack is shorter than that says, which is an error, it
// returns how long it should be. Store.mu is held.
func (s *Store) loadIndex(p *pack.Pack) (bodyEnd int64, err error) {
	x, err := pack.OpenIndex(s.fsys, s.id, p)
	if err != nil {
		return 0, err
	}
	whole, err := p.Reaches(x.BodyEnd)
	if err == nil && !whole {
		err = pack.ErrIndex
	}
	if err != nil {
		x.F.Close()
		return x.BodyEnd, err
	}
	s.indexes = append(slices.Clip(s.indexes), x)
	return 0, nil
}

// learn takes up where an object is, unless a place is known that lasts longer. Of the
// records of one pack, which come in order, it keeps the last, as an index does.
// Store.mu is held.
func (s *Store) learn(e pack.Entry) {
	old, ok := s.objects[e.ID]
	if !ok || old.Pack.ID == e.Pack.ID || s.absent[old.Pack.ID] || s.damaged[place{old.Pack.ID, old.Off}] {
		s.objects[e.ID] = e.Location
	}
}

// rebuildIndex scans a sealed pack whose index is missing or damaged, and
// writes the index again where it can. Store.mu is held.
func (s *Store) rebuildIndex(p *pack.Pack, bodyEnd int64) error {
	var entries []pack.Entry
	damage, err := p.Scan(layout.HeaderSize, bodyEnd, func(e pack.Entry) {
		entries = append(entries, e)
		s.learn(e)
	})
	if err != nil {
		return err
	}
	s.warnPack(damage...)
	if !s.readOnly {
		// derived data: without it the next process scans again
		if err := s.writeIndex(p, bodyEnd, entries); err != nil {
			s.log.Warn("index not written", "path", layout.IndexName(p.ID), "err", err)
		}
	}
	return nil
}

// writeIndex makes the index of a sealed pack again.
func (s *Store) writeIndex(p *pack.Pack, bodyEnd int64, entries []pack.Entry) error {
	// The seal before the index, as ever: its writer may have been killed
	// before it had synced it.
	if err := p.F.Sync(); err != nil {
		return err
	}
	return layout.WriteFile(s.fsys, layout.IndexName(p.ID), pack.EncodeIndex(s.id, p.ID, bodyEnd, entries))
}

// rescan replaces an index that turned out to be damaged.
func (s *Store) rescan(x *pack.Index, cause error) error {
	s.log.Warn("index rebuilt", "path", layout.IndexName(x.Pack.ID), "err", cause)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.indexes, x)
	if i < 0 {
		return nil // another goroutine was faster
	}
	if err := s.rebuildIndex(x.Pack, x.BodyEnd); err != nil {
		return err
	}
	s.indexes = slices.Concat(s.indexes[:i], s.indexes[i+1:])
	s.retired = append(s.retired, x.F) // others may be reading it
	return nil
}

// Get returns the content of an object, verified against its ID. The slice
// is the caller's to keep and change. A large blob is better read by
// [Store.CopyBlob], and one of more than 1 GiB by nothing else.
//
// The error matches [ErrNotFound] if there is no such object, and is a
// [*object.CorruptError] if its bytes are no longer what was stored.
//
// What a remote has promised is fetched: see [WithFetcher].
func (s *Store) Get(ctx context.Context, kind object.Kind, id store.ID) (data []byte, err error) {
	data, err = s.get(ctx, kind, id)
	err = s.fetched(ctx, id, err, func() error {
		data, err = s.get(ctx, kind, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

func (s *Store) get(ctx context.Context, kind object.Kind, id store.ID) ([]byte, error) {
	h, data, loc, err := s.object(id, nil)
	switch {
	case err != nil:
	case h.Kind == uint8(kind) && h.Kind != pack.RecChunked:
		if object.Hash(kind, data) != id {
			err = corrupt(loc, "content does not hash to %s", id.Short())
		} else if loc.Member > 0 {
			data = slices.Clone(data) // the group is for others, too
		}
	case h.Kind == pack.RecChunked && kind == object.Blob:
		data, err = s.wholeOf(ctx, id, data, loc)
	default:
		err = corrupt(loc, "is of kind %d, not a %s", h.Kind, kind)
	}
	if errors.Is(err, store.ErrPruned) {
		return nil, fmt.Errorf("%s of a snapshot that %w", kind, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", kind, id.Short(), err)
	}
	return data, nil
}

// wholeOf returns the content whose chunks a list names.
func (s *Store) wholeOf(ctx context.Context, id store.ID, list []byte, loc pack.Location) ([]byte, error) {
	n, err := checkList(list, loc)
	if err == nil && n > pack.MaxWhole {
		err = fmt.Errorf("content of %d bytes, more than %d, is read in pieces only", n, pack.MaxWhole)
	}
	if err != nil {
		return nil, err
	}
	var b appendWriter
	err = s.copyChunks(ctx, &b, id, list, loc)
	return b, err
}

// CopyBlob writes the content of a blob to w and returns its length. What
// is written before an error may be a part of the content; each chunk is
// verified before it is written, the whole at the end.
func (s *Store) CopyBlob(ctx context.Context, w io.Writer, id store.ID) (n int64, err error) {
	n, err = s.copyBlob(ctx, w, id) // which has written nothing of what is promised
	return n, s.fetched(ctx, id, err, func() error {
		n, err = s.copyBlob(ctx, w, id)
		return err
	})
}

func (s *Store) copyBlob(ctx context.Context, w io.Writer, id store.ID) (int64, error) {
	buf := pack.TakeBuffer()
	defer pack.PutBuffer(buf)
	h, data, loc, err := s.object(id, buf)
	switch {
	case err != nil:
	case h.Kind == pack.RecChunked:
		var n countWriter
		if err = s.copyChunks(ctx, io.MultiWriter(w, &n), id, data, loc); err == nil {
			return int64(n), nil
		}
	case h.Kind != uint8(object.Blob) || object.Hash(object.Blob, data) != id:
		err = corrupt(loc, "content does not hash to %s", id.Short())
	default:
		n, err := w.Write(data)
		return int64(n), err
	}
	return 0, fmt.Errorf("blob %s: %w", id.Short(), err)
}

// object reads and unpacks what has an ID. It does not check that. The bytes of a member of
// a group are not to be changed; any others lie in into, nil: for good.
func (s *Store) object(id store.ID, into *[]byte) (pack.Header, []byte, pack.Location, error) {
	loc, err := s.locate(id)
	if err != nil {
		return pack.Header{}, nil, loc, err
	}
	h, data, err := s.readAt(id, loc, into)
	err = s.honest(err)
	if d, ok := errors.AsType[*object.CorruptError](err); ok {
		s.Distrust(d)
		// There may be an intact copy: by a repair, because two processes have stored
		// it at once, or because it was stored again.
		if unseen := cmp.Or(s.see(), s.load()); unseen != nil && !errors.Is(unseen, store.ErrCorrupt) {
			err = unseen
		}
		for other := range s.others(id, loc) {
			h, data, oerr := s.readAt(id, other, into)
			if oerr == nil {
				return h, data, other, nil
			}
			if !errors.Is(oerr, store.ErrCorrupt) { // it may be intact
				err = oerr
			}
		}
	}
	return h, data, loc, err
}

func (s *Store) readAt(id store.ID, loc pack.Location, into *[]byte) (pack.Header, []byte, error) {
	if err := s.flushFor(loc); err != nil {
		return pack.Header{}, nil, err
	}
	var h pack.Header
	var data []byte
	var err error
	if loc.Member > 0 {
		var g *pack.Group
		g, err = s.groups.get(loc)
		h, data, err = memberOf(g, err, loc, loc.Member-1)
	} else {
		h, data, err = loc.Pack.ReadObject(loc, into)
	}
	if err == nil && h.ID != id {
		err = corrupt(loc, "holds object %s, not %s", h.ID.Short(), id.Short())
	}
	if err != nil {
		return h, nil, err
	}
	return h, data, nil
}

func corrupt(loc pack.Location, format string, args ...any) *object.CorruptError {
	return &object.CorruptError{Path: loc.Pack.Name(), Off: loc.Off, Err: fmt.Errorf(format, args...)}
}

// A chunk list is the object of a chunked blob: for each chunk its ID and
// length (docs/reference/format.md §3.5).
const chunkRefSize = 36

// maxChunk is what a chunk has at most, by any version.
const maxChunk = 2 << 20

func appendChunkRef(b []byte, id store.ID, n int) []byte {
	return layout.Le.AppendUint32(append(b, id[:]...), uint32(n))
}

// checkList returns how long the content is of which this is the chunk list at loc.
func checkList(list []byte, loc pack.Location) (size int64, err error) {
	if len(list) == 0 || len(list)%chunkRefSize != 0 {
		return 0, corrupt(loc, "chunk list of %d bytes", len(list))
	}
	for ref := range slices.Chunk(list, chunkRefSize) {
		n := layout.Le.Uint32(ref[32:])
		if n > maxChunk {
			return 0, corrupt(loc, "names a chunk of %d bytes: the limit is %d", n, maxChunk)
		}
		size += int64(n)
	}
	return size, nil
}

// joinChunks writes the chunks of the list at loc to w, as read returns them, and checks
// the whole against its ID.
func joinChunks(
	ctx context.Context, w io.Writer, id store.ID, list []byte, loc pack.Location,
	read func(chunk store.ID) ([]byte, error),
) error {
	if _, err := checkList(list, loc); err != nil {
		return err
	}
	whole := pack.BlobHashers.Get().(*blake3.Hasher)
	defer pack.BlobHashers.Put(whole)
	whole.Reset()
	for ref := range slices.Chunk(list, chunkRefSize) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		chunk, n := store.ID(ref[:32]), layout.Le.Uint32(ref[32:])
		data, err := read(chunk)
		if err != nil {
			return err
		}
		if len(data) != int(n) {
			return corrupt(loc, "names as a chunk of %d bytes %s, which has %d", n, chunk.Short(), len(data))
		}
		whole.Write(data)
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	var got store.ID
	if whole.Sum(got[:0]); got != id {
		return corrupt(loc, "chunks hash to %s", got.Short())
	}
	return nil
}

// copyChunks writes the chunks of a list to w and checks the whole.
func (s *Store) copyChunks(ctx context.Context, w io.Writer, id store.ID, list []byte, loc pack.Location) error {
	if err := s.fetchChunks(ctx, list); err != nil {
		return err
	}
	buf := pack.TakeBuffer()
	defer pack.PutBuffer(buf)
	return joinChunks(ctx, w, id, list, loc, func(chunk store.ID) ([]byte, error) {
		h, data, at, err := s.object(chunk, buf)
		switch {
		case err != nil:
			return nil, fmt.Errorf("chunk %s: %w", chunk.Short(), err)
		case h.Kind != uint8(object.Blob):
			return nil, corrupt(loc, "names as a chunk %s, which is of kind %d", chunk.Short(), h.Kind)
		case object.Hash(object.Blob, data) != chunk:
			return nil, corrupt(at, "content does not hash to %s", chunk.Short())
		}
		return data, nil
	})
}

// fetchChunks fetches the chunks of a list that are promised, before any of them is read. A list may
// have millions, which are not in memory at once.
func (s *Store) fetchChunks(ctx context.Context, list []byte) error {
	for part := range slices.Chunk(list, chunkRefSize<<14) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := s.fetchAbsent(ctx, Chunks(part)); err != nil {
			return err
		}
	}
	return nil
}

type appendWriter []byte

func (w *appendWriter) Write(b []byte) (int, error) {
	*w = append(*w, b...)
	return len(b), nil
}

type countWriter int64

func (w *countWriter) Write(b []byte) (int, error) {
	*w += countWriter(len(b))
	return len(b), nil
}
