package cas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// A Usage says what the files of a store take, in bytes. If nobody writes
// meanwhile, it adds up to the lengths of all files.
type Usage struct {
	Objects     int   // in packs, each once
	ObjectBytes int64 // of their records
	Copies      int   // more records of objects that are there
	CopyBytes   int64 // of those
	PackBytes   int64 // of packs beside: headers, seals, what nobody vouches for

	Indexes    int64
	Journal    int64
	Worktrees  int64 // what packages above keep for each directory
	Trash      int64
	Quarantine int64
	Ballast    int64 // kept to be able to begin on a full disk
	Other      int64 // FORMAT, locks, files being written
}

// Total returns the length of all files.
func (u *Usage) Total() int64 {
	return u.ObjectBytes + u.CopyBytes + u.PackBytes + u.Indexes + u.Journal + u.Worktrees + u.Trash + u.Quarantine +
		u.Ballast + u.Other
}

// Usage counts what the files of the store take. It reads indexes and
// directories, no objects.
func (s *Store) Usage(ctx context.Context) (*Usage, error) {
	u := new(Usage)
	if err := cmp.Or(s.refresh(), s.load()); err != nil {
		return nil, err
	}
	for {
		bad, err := s.countRecords(ctx, u)
		if err == nil {
			break
		}
		if bad == nil {
			return nil, err
		}
		if err := s.rescan(bad, err); err != nil {
			return nil, err
		}
	}
	if err := s.countFiles(ctx, u, "."); err != nil {
		return nil, err
	}
	u.PackBytes -= u.ObjectBytes + u.CopyBytes
	return u, nil
}

// JournalDamage reads the journal and returns what [Store.Check] finds in it.
// Snapshots that were recorded there are unknown to [Store.Snapshots].
func (s *Store) JournalDamage() ([]*object.CorruptError, error) {
	s.jmu.Lock()
	defer s.jmu.Unlock()
	r := new(Report)
	_, err := s.checkJournal(r, nil)
	return r.Damage, err
}

// JournalIsSuspect reports whether [Store.JournalDamage] may find anything, as far as it shows
// without reading it all.
func (s *Store) JournalIsSuspect() bool {
	s.jmu.Lock()
	defer s.jmu.Unlock()
	return len(s.j.Damage) > 0 || s.j.IsSuspect()
}

// countRecords counts the records of all packs. Of several of one object the
// one counts that find finds. If an index is damaged it is returned with the
// error.
func (s *Store) countRecords(ctx context.Context, u *Usage) (bad *pack.Index, err error) {
	u.Objects, u.ObjectBytes, u.Copies, u.CopyBytes = 0, 0, 0, 0
	groups := make(map[place]bool) // that were counted
	size := func(loc pack.Location) int64 {
		if loc.Member > 0 {
			at := place{loc.Pack.ID, loc.Off}
			if groups[at] {
				return 0
			}
			groups[at] = true
		}
		return loc.Size()
	}
	s.mu.RLock()
	indexes := s.indexes
	var loose [pack.BucketCount][]pack.Entry
	for id, loc := range s.objects {
		loose[id[0]] = append(loose[id[0]], pack.Entry{ID: id, Location: loc})
		u.Objects++
		u.ObjectBytes += size(loc)
	}
	s.mu.RUnlock()

	// One first byte at a time, so that a 256th of all objects is remembered.
	seen := make(map[[pack.PrefixSize]byte]pack.Location)
	for first := range pack.BucketCount {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		clear(seen)
		for _, e := range loose[first] {
			seen[[pack.PrefixSize]byte(e.ID[:])] = e.Location
		}
		for _, x := range indexes {
			b, err := x.Read(byte(first))
			if err != nil {
				return x, err
			}
			for ; len(b) > 0; b = b[pack.EntrySize:] {
				prefix, loc := [pack.PrefixSize]byte(b), x.Location(b)
				switch before, ok := seen[prefix]; {
				case !ok:
					seen[prefix] = loc
					u.Objects++
					u.ObjectBytes += size(loc)
				case before != loc: // else its pack was sealed since we found it
					u.Copies++
					u.CopyBytes += size(loc)
				}
			}
		}
	}
	return nil, nil
}

// countFiles adds the lengths of the files below a directory of the store;
// those of packs to PackBytes.
func (s *Store) countFiles(ctx context.Context, u *Usage, dir string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	names, err := s.fsys.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range names {
		name = path.Join(dir, name)
		st, err := s.fsys.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // replaced or taken away meanwhile
		}
		if err == nil && st.Kind == vfs.Directory {
			err = s.countFiles(ctx, u, name)
		} else if err == nil {
			*u.area(name) += st.Size
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// area returns where a file is counted.
func (u *Usage) area(name string) *int64 {
	top, rest, _ := strings.Cut(name, "/")
	switch top {
	case "packs":
		if _, ok := layout.ParsePackID(rest, ".pack"); ok {
			return &u.PackBytes
		}
		if _, ok := layout.ParsePackID(rest, ".idx"); ok {
			return &u.Indexes
		}
	case "journal":
		return &u.Journal
	case layout.Worktrees:
		return &u.Worktrees
	case "trash":
		return &u.Trash
	case "quarantine":
		return &u.Quarantine
	case layout.BallastName:
		return &u.Ballast
	}
	return &u.Other
}

// A Stored says what an object takes.
type Stored struct {
	Bytes  int64      // of its record, compressed
	Size   int64      // of its content; 0 if that is in chunks
	Chunks []store.ID // blobs that a large blob is stored in, in order
}

// Stored says what an object takes, from the header of its record: only a list
// of chunks is read, of which each takes what it takes by itself.
//
// The error matches [ErrNotFound] if there is no such object, and is a
// [*object.CorruptError] if its record is damaged; Bytes is right even then.
func (s *Store) Stored(kind object.Kind, id store.ID) (Stored, error) {
	o, err := s.stored(kind, id)
	if err != nil {
		err = fmt.Errorf("%s %s: %w", kind, id.Short(), err)
	}
	return o, err
}

func (s *Store) stored(kind object.Kind, id store.ID) (Stored, error) {
	loc, err := s.locate(id)
	if err != nil {
		return Stored{}, err
	}
	o := Stored{Bytes: loc.Size()}
	if err := s.flushFor(loc); err != nil {
		return o, err
	}
	if loc.Member > 0 {
		return s.storedMember(kind, id, loc)
	}

	var b [pack.HeaderSize]byte
	if _, err := loc.Pack.F.ReadAt(b[:], loc.Off); err == io.EOF {
		return o, corrupt(loc, "%w", io.ErrUnexpectedEOF)
	} else if err != nil {
		return o, err
	}
	h, err := pack.ParseHeader(b[:])
	switch {
	case err != nil:
		return o, corrupt(loc, "%w", err)
	case h.ID != id || h.Stored != loc.Stored:
		return o, corrupt(loc, "holds another object than %s", id.Short())
	case h.Kind == uint8(kind):
		o.Size = int64(h.Raw)
		return o, nil
	case h.Kind != pack.RecChunked || kind != object.Blob:
		return o, corrupt(loc, "is of kind %d, not a %s", h.Kind, kind)
	}
	_, list, err := s.readAt(id, loc, nil)
	if err == nil && (len(list) == 0 || len(list)%chunkRefSize != 0) {
		err = corrupt(loc, "chunk list of %d bytes", len(list))
	}
	if err != nil {
		return o, err
	}
	for ref := range slices.Chunk(list, chunkRefSize) {
		o.Chunks = append(o.Chunks, store.ID(ref[:len(id)]))
	}
	return o, nil
}

// storedMember is stored for a member of a group, of which it takes its part.
func (s *Store) storedMember(kind object.Kind, id store.ID, loc pack.Location) (o Stored, err error) {
	list, size, err := loc.Pack.ReadMembers(loc)
	switch i := loc.Member - 1; {
	case err != nil:
		return o, err
	case i >= len(list) || list[i].ID != id:
		return o, corrupt(loc, "holds another object than %s", id.Short())
	case list[i].Kind != uint8(kind):
		return o, corrupt(loc, "is of kind %d, not a %s", list[i].Kind, kind)
	default:
		return Stored{Bytes: pack.Shares(list, size)[i], Size: int64(list[i].Raw)}, nil
	}
}
