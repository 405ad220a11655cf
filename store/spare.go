package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/zeebo/blake3"

	"github.com/boocode/filestore/internal/vfs"
)

// Spares are all records that lie anywhere in a store's directory: in packs,
// also those that no index and no record of the journal leads to, in quarantine
// and in trash. What lost objects can be got back from.
type Spares struct {
	s     *Store
	at    map[ID][]spare
	files []vfs.File
}

type spare struct {
	location
	file string
}

// Spares looks for records. The caller must close what it returns.
func (s *Store) Spares(ctx context.Context) (*Spares, error) {
	x := &Spares{s: s, at: make(map[ID][]spare)}
	for _, dir := range []string{"packs", "quarantine", "trash"} {
		if err := s.eachFile(ctx, dir, x.scanFile); err != nil {
			return nil, errors.Join(err, x.Close())
		}
	}
	return x, nil
}

func (x *Spares) scanFile(name string, size int64) error {
	f, err := x.s.fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	p := &pack{f: f}
	found := false
	_, err = p.scan(0, size, func(e indexEntry) {
		x.at[e.id] = append(x.at[e.id], spare{e.location, name})
		found = true
	})
	if !found {
		return errors.Join(err, f.Close())
	}
	x.files = append(x.files, f)
	return err
}

// Close closes the files.
func (x *Spares) Close() error {
	var errs []error
	for _, f := range x.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// Find copies an object to w, verified, from the first intact record of it, and
// returns the file that it is in. What is written before an error is of no use.
// The error matches [ErrNotFound] if there is none.
func (x *Spares) Find(ctx context.Context, w io.Writer, kind Kind, id ID) (file string, err error) {
	for _, sp := range x.at[id] {
		if err := context.Cause(ctx); err != nil {
			return "", err
		}
		h, data, err := readRecord(indexEntry{id, sp.location})
		if err != nil || h.id != id {
			continue
		}
		switch {
		case h.kind == uint8(kind):
		case h.kind == recChunked && kind == Blob && x.checkChunks(ctx, io.Discard, id, data) == nil:
			return sp.file, x.checkChunks(ctx, w, id, data)
		default:
			continue
		}
		_, err = w.Write(data)
		return sp.file, err
	}
	return "", fmt.Errorf("%s %s: %w", kind, id.Short(), ErrNotFound)
}

// checkChunks copies what a chunk list stands for to w.
func (x *Spares) checkChunks(ctx context.Context, w io.Writer, id ID, list []byte) error {
	whole := blake3.New()
	for ; len(list) >= chunkRefSize; list = list[chunkRefSize:] {
		if _, err := x.Find(ctx, io.MultiWriter(whole, w), Blob, ID(list[:32])); err != nil {
			return err
		}
	}
	var got ID
	if whole.Sum(got[:0]); got != id || len(list) > 0 {
		return ErrNotFound
	}
	return nil
}
