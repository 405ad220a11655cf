package cas

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/boocode/filestore/internal/cas/pack"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/store"
)

// EachBlob calls fn once for each of some blobs, with its number among them and a function that copies
// its content as [Store.CopyBlob] does, and must not be called later. It does so on several goroutines
// and in the order in which the packs have them: so a group is read and decoded once. It returns
// the first error of fn, or why ctx was canceled; fn is not called for the rest then.
func (s *Store) EachBlob(
	ctx context.Context, ids []store.ID, fn func(i int, copy func(w io.Writer) (int64, error)) error,
) error {
	return s.eachObject(ctx, ids, func(ctx context.Context, r *recordReader, b numbered) error {
		return fn(b.i, func(w io.Writer) (int64, error) { return s.copyFrom(ctx, r, w, ids[b.i], b.Location) })
	})
}

// EachTree is [Store.EachBlob] for trees and coverage: fn gets what [Store.Get] returns. The content
// is there until fn returns.
func (s *Store) EachTree(
	ctx context.Context, kind object.Kind, ids []store.ID, fn func(i int, content []byte, err error) error,
) error {
	return s.eachObject(ctx, ids, func(ctx context.Context, r *recordReader, b numbered) error {
		content, ok := s.verified(r, kind, ids[b.i], b.Location)
		var err error
		if !ok { // damage: there may be another copy
			content, err = s.Get(ctx, kind, ids[b.i])
		}
		return fn(b.i, content, err)
	})
}

// eachObject calls fn for each of some objects in the order of the packs, on several goroutines, each with a
// reader of its own.
func (s *Store) eachObject(
	ctx context.Context, ids []store.ID, fn func(ctx context.Context, r *recordReader, b numbered) error,
) error {
	records := s.records(ids)
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(runtime.GOMAXPROCS(0), len(records)) {
		group.Go(func() error {
			single, members := pack.TakeBuffer(), pack.TakeBuffer()
			defer pack.PutBuffer(single)
			defer pack.PutBuffer(members)
			r := &recordReader{single: single, members: members}
			for n := next.Add(1); int(n) <= len(records); n = next.Add(1) {
				for _, b := range records[n-1] {
					if err := context.Cause(ctx); err != nil {
						return err
					}
					if err := fn(ctx, r, b); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// A numbered says where one of many objects is.
type numbered struct {
	i int
	pack.Location
}

// records returns where objects are, those of one record together, in the order of the packs. What is not
// found is nowhere, and comes first.
func (s *Store) records(ids []store.ID) [][]numbered {
	list := make([]numbered, len(ids))
	for i, id := range ids {
		list[i].i = i
		if loc, ok, err := s.find(id); ok && err == nil {
			list[i].Location = loc
		}
	}
	slices.SortFunc(list, func(a, b numbered) int {
		if a.Pack != b.Pack {
			return bytes.Compare(packID(a.Pack), packID(b.Pack))
		}
		return cmp.Or(cmp.Compare(a.Off, b.Off), cmp.Compare(a.Member, b.Member), cmp.Compare(a.i, b.i))
	})
	var records [][]numbered
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].Pack == list[0].Pack && list[n].Off == list[0].Off {
			n++
		}
		records = append(records, list[:n])
		list = list[n:]
	}
	return records
}

func packID(p *pack.Pack) []byte {
	if p == nil {
		return nil
	}
	return p.ID[:]
}

// copyFrom is CopyBlob of what was at a place a moment ago.
func (s *Store) copyFrom(
	ctx context.Context, r *recordReader, w io.Writer, id store.ID, loc pack.Location,
) (int64, error) {
	if data, ok := s.verified(r, object.Blob, id, loc); ok {
		n, err := w.Write(data)
		return int64(n), err
	}
	return s.CopyBlob(ctx, w, id) // a list of chunks, or damage: there may be another copy
}

// verified returns an object that was at a place a moment ago, if it is there and as it should be.
func (s *Store) verified(r *recordReader, kind object.Kind, id store.ID, loc pack.Location) ([]byte, bool) {
	if loc.Pack == nil || s.flushFor(loc) != nil {
		return nil, false
	}
	h, data, err := r.object(loc)
	return data, err == nil && h.Kind == uint8(kind) && object.Hash(kind, data) == id
}
