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
					if err := fn(b.i, func(w io.Writer) (int64, error) {
						return s.copyFrom(ctx, r, w, ids[b.i], b.Location)
					}); err != nil {
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
	if loc.Pack != nil && s.flushFor(loc) == nil {
		h, data, err := r.object(loc)
		if err == nil && h.Kind == uint8(object.Blob) && object.Hash(object.Blob, data) == id {
			n, err := w.Write(data)
			return int64(n), err
		}
	}
	return s.CopyBlob(ctx, w, id) // a list of chunks, or damage: there may be another copy
}
