package cas

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// This file knows of contents that are not here, and that a remote has: they are promised. What
// is promised is in a file of each remote (docs/reference/format.md §5.9). The store does not know
// how to ask a remote: whoever calls it brings a [Fetcher] along.

// FeaturePromised is the name of what a program must know to read a store whose contents may be
// in a remote.
const FeaturePromised = "promised"

// A PromisedError says that an object is in a remote, and not here. It is no loss.
type PromisedError struct {
	Remote string
	Err    error // why it could not be fetched, for people; nil: nobody tried
}

func (e *PromisedError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("is at the remote %q, and not here", e.Remote)
	}
	return fmt.Sprintf("is at the remote %q, and could not be fetched: %v", e.Remote, e.Err)
}

// IsPromised reports whether an error says that an object is in a remote.
func IsPromised(err error) bool {
	_, ok := errors.AsType[*PromisedError](err)
	return ok
}

// A Fetcher brings objects into a store that a remote has promised.
type Fetcher func(ctx context.Context, s *Store, remote string, ids []store.ID) error

type fetcherKey struct{}

// WithFetcher has what is promised be fetched when it is read.
func WithFetcher(ctx context.Context, f Fetcher) context.Context {
	return context.WithValue(ctx, fetcherKey{}, fetching{fetch: f})
}

// WithoutFetcher has what is promised be missing when it is read, and note be called with what is;
// nil: nobody wants to know. It is for who holds a lock: that waits for no network, nor for others
// who do.
func WithoutFetcher(ctx context.Context, note func([]store.ID)) context.Context {
	return context.WithValue(ctx, fetcherKey{}, fetching{note: note})
}

// A fetching is what is done about what is promised.
type fetching struct {
	fetch Fetcher // nil: nothing is fetched
	note  func([]store.ID)
}

// A PromisedPack is a pack of a remote, as docs/reference/format-remote.md §6 names it.
type PromisedPack struct {
	Generation uint64
	Line       [16]byte
	Hash       [32]byte
	Size       uint64
	Index      uint64
}

// A PromisedPlace is where a remote has an object: a record in one of its packs.
type PromisedPlace struct {
	Pack int    // which of Promises.Packs
	Off  uint64 // of the sealed record
	Len  uint32
}

// Promises are what a remote has promised. They are not changed.
type Promises struct {
	Packs []PromisedPack
	table []byte // entries in order of ID
}

const (
	promiseMagic   = "boopromi"
	promiseVersion = 1
	promisePack    = 8 + 16 + 32 + 8 + 8
	promiseEntry   = 32 + 4 + 8 + 4
	promiseSum     = 32
)

// PromiseName returns the name of the file that has what a remote promises.
func PromiseName(remote string) string { return path.Join("remotes", remote, "promised") }

// Len returns how many objects are promised.
func (p *Promises) Len() int { return len(p.table) / promiseEntry }

func (p *Promises) entry(i int) []byte { return p.table[i*promiseEntry:][:promiseEntry] }

// Find returns where an object is.
func (p *Promises) Find(id store.ID) (PromisedPlace, bool) {
	lo, hi := 0, p.Len()
	for lo < hi {
		mid := (lo + hi) / 2
		switch bytes.Compare(p.entry(mid)[:32], id[:]) {
		case 0:
			return placeIn(p.entry(mid)), true
		case -1:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return PromisedPlace{}, false
}

func placeIn(b []byte) PromisedPlace {
	return PromisedPlace{Pack: int(layout.Le.Uint32(b[32:])), Off: layout.Le.Uint64(b[36:]),
		Len: layout.Le.Uint32(b[44:])}
}

// All calls fn with all objects, in order of ID.
func (p *Promises) All(fn func(store.ID, PromisedPlace)) {
	for i := range p.Len() {
		b := p.entry(i)
		fn(store.ID(b[:32]), placeIn(b))
	}
}

// ReadPromises returns what a remote promises, and nothing if there is no file.
func ReadPromises(fsys vfs.FS, remote string) (*Promises, error) {
	b, err := vfs.ReadFile(fsys, PromiseName(remote))
	if errors.Is(err, fs.ErrNotExist) {
		return new(Promises), nil
	}
	if err != nil {
		return nil, err
	}
	p, err := parsePromises(b)
	if err != nil && !errors.Is(err, store.ErrFormat) {
		err = &object.CorruptError{Path: PromiseName(remote), Err: err}
	}
	return p, err
}

func parsePromises(b []byte) (*Promises, error) {
	if len(b) < 20+promiseSum || string(b[:8]) != promiseMagic {
		return nil, errors.New("it is no list of promises")
	}
	if v := layout.Le.Uint32(b[8:]); v != promiseVersion {
		return nil, fmt.Errorf("%w: promises of version %d", store.ErrFormat, v)
	}
	body := b[:len(b)-promiseSum]
	if sum := blake3.Sum256(body); !bytes.Equal(sum[:], b[len(body):]) {
		return nil, errors.New("its hash is wrong")
	}
	packs, n := uint64(layout.Le.Uint32(b[12:])), uint64(layout.Le.Uint32(b[16:]))
	if uint64(len(body)) != 20+packs*promisePack+n*promiseEntry {
		return nil, errors.New("its length is wrong")
	}
	p := &Promises{table: body[20+packs*promisePack:]}
	for i := range packs {
		r := body[20+i*promisePack:]
		p.Packs = append(p.Packs, PromisedPack{Generation: layout.Le.Uint64(r), Line: [16]byte(r[8:]),
			Hash: [32]byte(r[24:]), Size: layout.Le.Uint64(r[56:]), Index: layout.Le.Uint64(r[64:])})
	}
	for i := range p.Len() {
		at := placeIn(p.entry(i))
		if at.Pack < len(p.Packs) && !p.Packs[at.Pack].has(at) {
			return nil, errors.New("it names what is not in a pack")
		}
		if at.Pack >= len(p.Packs) ||
			i > 0 && bytes.Compare(p.entry(i - 1)[:32], p.entry(i)[:32]) >= 0 {
			return nil, errors.New("it is not in order")
		}
	}
	return p, nil
}

// has reports whether a place is one of the pack, before its index.
func (p *PromisedPack) has(at PromisedPlace) bool {
	return p.Index <= p.Size && at.Off <= p.Index && uint64(at.Len) <= p.Index-at.Off
}

// AddPromises makes durable that a remote has objects, beside those that it promised before. The
// places are in packs.
func (s *Store) AddPromises(
	ctx context.Context, remote string, packs []PromisedPack, objects map[store.ID]PromisedPlace,
) error {
	if len(objects) == 0 {
		return nil
	}
	if err := s.NeedToRead(ctx, FeaturePromised); err != nil {
		return err
	}
	before, err := ReadPromises(s.fsys, remote)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	all := slices.Clone(packs)
	places := maps.Clone(objects)
	if before != nil {
		before.All(func(id store.ID, at PromisedPlace) {
			if _, ok := places[id]; ok {
				return
			}
			pack := before.Packs[at.Pack]
			i := slices.Index(all, pack)
			if i < 0 {
				i, all = len(all), append(all, pack)
			}
			at.Pack = i
			places[id] = at
		})
	}
	return layout.WriteFile(s.fsys, PromiseName(remote), encodePromises(all, places))
}

func encodePromises(packs []PromisedPack, places map[store.ID]PromisedPlace) []byte {
	ids := slices.SortedFunc(maps.Keys(places), func(a, b store.ID) int { return bytes.Compare(a[:], b[:]) })
	le := binary.LittleEndian
	b := append([]byte(nil), promiseMagic...)
	b = le.AppendUint32(b, promiseVersion)
	b = le.AppendUint32(b, uint32(len(packs)))
	b = le.AppendUint32(b, uint32(len(ids)))
	for _, p := range packs {
		b = le.AppendUint64(b, p.Generation)
		b = append(append(b, p.Line[:]...), p.Hash[:]...)
		b = le.AppendUint64(le.AppendUint64(b, p.Size), p.Index)
	}
	for _, id := range ids {
		at := places[id]
		b = le.AppendUint32(append(b, id[:]...), uint32(at.Pack))
		b = le.AppendUint32(le.AppendUint64(b, at.Off), at.Len)
	}
	sum := blake3.Sum256(b)
	return append(b, sum[:]...)
}

// promisedBy is what a store remembers of promises.
type promisedBy struct {
	mu    sync.Mutex // guards known
	known map[string]knownPromises

	fetching sync.Mutex // who fetches
}

type knownPromises struct {
	at vfs.Stat // of the file that was read
	*Promises
}

// PromisesOf returns what a remote promises.
func (s *Store) PromisesOf(remote string) (*Promises, error) {
	s.promised.mu.Lock()
	defer s.promised.mu.Unlock()
	if err := s.readPromises(); err != nil {
		return nil, err
	}
	if k, ok := s.promised.known[remote]; ok {
		return k.Promises, nil
	}
	return new(Promises), nil
}

// readPromises reads those files again that are not what they were. promisedBy.mu is held.
func (s *Store) readPromises() error {
	names, err := s.fsys.ReadDir("remotes")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, remote := range names {
		st, err := s.fsys.Stat(PromiseName(remote))
		if errors.Is(err, fs.ErrNotExist) {
			delete(s.promised.known, remote)
			continue
		}
		if err != nil {
			return err
		}
		if k, ok := s.promised.known[remote]; ok && k.at == st {
			continue
		}
		p, err := ReadPromises(s.fsys, remote)
		if err != nil {
			return err
		}
		if s.promised.known == nil {
			s.promised.known = make(map[string]knownPromises)
		}
		s.promised.known[remote] = knownPromises{st, p}
	}
	return nil
}

// Promiser returns the remote that has an object, "" if none has promised it. It says nothing of
// whether the object is here as well.
func (s *Store) Promiser(id store.ID) (remote string, err error) {
	s.promised.mu.Lock()
	defer s.promised.mu.Unlock()
	find := func() string {
		for _, name := range slices.Sorted(maps.Keys(s.promised.known)) {
			if _, ok := s.promised.known[name].Find(id); ok {
				return name
			}
		}
		return ""
	}
	if remote := find(); remote != "" {
		return remote, nil
	}
	if err := s.readPromises(); err != nil {
		return "", err
	}
	return find(), nil
}

// HasOrPromised reports whether an object is here, or a remote has promised it.
func (s *Store) HasOrPromised(id store.ID) (bool, error) {
	if ok, err := s.Has(id); ok || err != nil {
		return ok, err
	}
	remote, err := s.Promiser(id)
	return remote != "", err
}

// CheckBlob makes sure that a file's content of some length is here or promised, with the chunks that it is in:
// it does not read the content. The error matches [ErrNotFound] if something is missing, [ErrForgotten] if it
// was forgotten, and is a [*object.CorruptError] if it cannot be told which chunks there are.
func (s *Store) CheckBlob(id store.ID, size int64) error {
	err := s.present(id)
	if err == nil && size >= int64(pack.MinChunked) {
		var chunks []store.ID
		chunks, err = s.chunksOf(id)
		for i := 0; i < len(chunks) && err == nil; i++ {
			if err = s.present(chunks[i]); err != nil {
				err = fmt.Errorf("chunk %s: %w", chunks[i].Short(), err)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("blob %s: %w", id.Short(), err)
	}
	return nil
}

// present says why an object is neither here nor promised: nobody has stored it since this process
// looked last, either.
func (s *Store) present(id store.ID) error {
	if there, err := s.HasOrPromised(id); there || err != nil {
		return err
	}
	_, err := s.locate(id)
	return err
}

// chunksOf returns the chunks that a blob is stored in, in order; none if it is in one piece, or promised.
func (s *Store) chunksOf(id store.ID) ([]store.ID, error) {
	buf := pack.TakeBuffer()
	defer pack.PutBuffer(buf)
	h, list, loc, err := s.object(id, buf)
	if IsPromised(err) {
		return nil, nil
	}
	if err != nil || h.Kind != pack.RecChunked {
		return nil, err
	}
	_, err = checkList(list, loc)
	return Chunks(list), err
}

// Absent counts what remotes have promised and is not here.
func (s *Store) Absent(remote string) (n int, err error) {
	p, err := s.PromisesOf(remote)
	if err != nil {
		return 0, err
	}
	var ids []store.ID
	p.All(func(id store.ID, _ PromisedPlace) { ids = append(ids, id) })
	ids, err = s.notHere(ids)
	return len(ids), err
}

// notHere returns those of some objects that are not here, but for those that were forgotten: no remote is
// asked for these.
func (s *Store) notHere(ids []store.ID) (absent []store.ID, err error) {
	forgotten, err := s.forgottenIDs()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if forgotten[id] {
			continue
		}
		if ok, err := s.Has(id); err != nil {
			return nil, err
		} else if !ok {
			absent = append(absent, id)
		}
	}
	return absent, nil
}

// Prefetch brings those of some blobs that are promised and not here, in few requests, with the
// chunks that they are stored in.
func (s *Store) Prefetch(ctx context.Context, ids []store.ID) error {
	if any, err := s.AnyPromised(); !any || err != nil {
		return err
	}
	if err := s.fetchAbsent(ctx, ids); err != nil {
		return err
	}
	var chunks []store.ID // a list may have come with what was near it, and they not
	for _, id := range ids {
		if loc, err := s.locate(id); err == nil && loc.Member > 0 { // no list is in a group
			continue
		}
		o, err := s.Stored(object.Blob, id)
		isLost := errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) ||
			errors.Is(err, store.ErrPruned) || errors.Is(err, store.ErrForgotten)
		if err != nil && !isLost { // which is told by who reads it
			return err
		}
		chunks = append(chunks, o.Chunks...)
	}
	return s.fetchAbsent(ctx, chunks)
}

// AnyPromised reports whether a remote has promised anything.
func (s *Store) AnyPromised() (bool, error) {
	s.promised.mu.Lock()
	defer s.promised.mu.Unlock()
	err := s.readPromises()
	return len(s.promised.known) > 0, err
}

// fetchAbsent brings those of some objects that are promised and not here.
func (s *Store) fetchAbsent(ctx context.Context, ids []store.ID) error {
	byRemote := make(map[string][]store.ID)
	ids, err := s.notHere(ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		remote, err := s.Promiser(id)
		if err != nil {
			return err
		}
		if remote != "" {
			byRemote[remote] = append(byRemote[remote], id)
		}
	}
	for remote, ids := range byRemote {
		if err := s.fetch(ctx, remote, ids); err != nil {
			return fmt.Errorf("blob %s: %w", ids[0].Short(), err)
		}
	}
	return nil
}

// fetched calls fn again if what it misses is promised and could be fetched.
func (s *Store) fetched(ctx context.Context, id store.ID, err error, again func() error) error {
	p, ok := errors.AsType[*PromisedError](err)
	if !ok || p.Err != nil {
		return err
	}
	if err := s.fetch(ctx, p.Remote, []store.ID{id}); err != nil {
		return fmt.Errorf("blob %s: %w", id.Short(), err)
	}
	return again()
}

// fetch brings objects that a remote has promised. One goroutine does so at a time: what the
// others wait for may come with it.
func (s *Store) fetch(ctx context.Context, remote string, ids []store.ID) error {
	ids, err := s.notHere(ids)
	if len(ids) == 0 || err != nil {
		return err
	}
	do, _ := ctx.Value(fetcherKey{}).(fetching)
	if do.fetch == nil {
		if do.note != nil {
			do.note(ids)
		}
		return &PromisedError{Remote: remote, Err: errors.New("nothing here asks it")}
	}
	s.promised.fetching.Lock()
	defer s.promised.fetching.Unlock()
	if ids, err = s.notHere(ids); len(ids) == 0 || err != nil {
		return err
	}
	if !s.readOnly {
		err = do.fetch(ctx, s, remote, ids)
	} else if w, oerr := OpenFS(ctx, s.fsys, &Options{Logger: s.log}); oerr != nil {
		err = oerr
	} else { // what was fetched is kept, whatever it is for
		if err = errors.Join(do.fetch(ctx, w, remote, ids), w.Close()); err == nil {
			return errors.Join(s.refresh(), s.load())
		}
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return &PromisedError{Remote: remote, Err: err}
	}
	return nil
}
