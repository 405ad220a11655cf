package cas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/store"
)

// Spares are all records that lie anywhere in a store's directory: in packs,
// also those that no index and no record of the journal leads to, in quarantine
// and in trash. What lost objects can be got back from.
type Spares struct {
	s      *Store
	at     map[store.ID][]spare
	unread map[string]error // first error of each file
}

type spare struct {
	file string
	at   pack.Location // its Pack is nil
}

// Spares looks for records. What it could not read, [Spares.Unread] tells.
func (s *Store) Spares(ctx context.Context) (*Spares, error) {
	x := &Spares{s: s, at: make(map[store.ID][]spare), unread: make(map[string]error)}
	for _, dir := range []string{"packs", "quarantine", "trash"} {
		if err := s.eachFile(ctx, dir, x.scanFile); err != nil {
			return nil, err
		}
	}
	return x, nil
}

func (x *Spares) scanFile(name string, size int64) error {
	err := x.open(name, func(p *pack.Pack) error {
		_, err := p.Scan(0, size, func(e pack.Entry) {
			e.Pack = nil
			x.at[e.ID] = append(x.at[e.ID], spare{name, e.Location})
		})
		return err
	})
	if !errors.Is(err, fs.ErrNotExist) { // taken away since it was listed
		x.note(name, err)
	}
	return nil
}

// open calls fn with a file.
func (x *Spares) open(name string, fn func(*pack.Pack) error) error {
	f, err := x.s.fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(fn(&pack.Pack{F: f}), f.Close())
}

// note keeps an error that says that a file could not be read, not that it is
// damaged.
func (x *Spares) note(name string, err error) {
	if err != nil && !errors.Is(err, store.ErrCorrupt) && x.unread[name] == nil {
		x.unread[name] = err
	}
}

// Unread returns the files that could not be read so far, each with the first
// error. Whether they have a copy of something is not known.
func (x *Spares) Unread() map[string]error { return x.unread }

// Find copies an object to w, verified, from the first intact record of it, and
// returns the file that it is in. What is written before an error is of no use.
// The error matches [ErrNotFound] if there is none.
func (x *Spares) Find(ctx context.Context, w io.Writer, kind object.Kind, id store.ID) (file string, err error) {
	for _, sp := range x.at[id] {
		if err := context.Cause(ctx); err != nil {
			return "", err
		}
		got, data, ok := x.read(id, sp)
		switch {
		case !ok:
		case got == uint8(kind):
			_, err := w.Write(data)
			return sp.file, err
		case got == pack.RecChunked && kind == object.Blob && x.copyChunks(ctx, io.Discard, id, data) == nil:
			return sp.file, x.copyChunks(ctx, w, id, data)
		}
	}
	return "", fmt.Errorf("%s %s: %w", kind, id.Short(), store.ErrNotFound)
}

// read returns what a record of an object holds, and its kind, if it is intact.
func (x *Spares) read(id store.ID, sp spare) (kind uint8, data []byte, ok bool) {
	err := x.open(sp.file, func(p *pack.Pack) error {
		loc := sp.at
		loc.Pack = p
		h, b, err := new(recordReader).read(pack.Entry{ID: id, Location: loc})
		kind, data, ok = h.Kind, b, err == nil && h.ID == id
		return err
	})
	x.note(sp.file, err) // also if it was taken away: it had one
	return kind, data, ok && err == nil
}

// copyChunks copies what a chunk list stands for to w.
func (x *Spares) copyChunks(ctx context.Context, w io.Writer, id store.ID, list []byte) error {
	return joinChunks(ctx, w, id, list, pack.Location{Pack: new(pack.Pack)}, func(chunk store.ID) ([]byte, error) {
		for _, sp := range x.at[chunk] {
			kind, data, ok := x.read(chunk, sp)
			if ok && kind == uint8(object.Blob) { // a list is no chunk
				return data, nil
			}
		}
		return nil, store.ErrNotFound
	})
}
