package exchange

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/store"
)

// This file writes lines of a remote anew, into folds: without contents that are forgotten, or with a new key.

// rewriting is lines being written anew.
type rewriting struct {
	ctx        context.Context
	plan       *PrunePlan
	generation uint64
	drop       map[store.ID]bool // objects that go
	lines      int
}

// all writes those of some lines anew that have to be.
func (x *rewriting) all(stay map[lines.Line]*lines.Kept) error {
	opts := x.plan.opts
	if len(x.plan.forget) == 0 && !opts.Anew {
		return nil
	}
	order := slices.SortedFunc(maps.Keys(stay), func(a, b lines.Line) int { return bytes.Compare(a[:], b[:]) })
	if err := x.find(stay, order); err != nil {
		return err
	}
	progress.Of(x.ctx).Begin(progress.Phase{Name: "rewriting", Unit: "line", Items: int64(len(order))})
	for _, line := range order {
		if err := x.line(stay[line]); err != nil {
			return err
		}
		progress.Of(x.ctx).Count(1, 0)
	}
	return nil
}

// entries calls fn with each entry of a line.
func (x *rewriting) entries(k *lines.Kept, fn func(n uint64, e *lines.Entry, hash [32]byte) error) error {
	for n := range k.Last + 1 {
		e, at, _, err := x.plan.repo.Entry(x.ctx, k.Dir, lines.Position{Line: k.Line, Entry: n})
		if err != nil {
			return err
		}
		e.Void = e.Void || slices.Contains(k.Void, n)
		if err := fn(n, e, at.Hash); err != nil {
			return err
		}
	}
	return nil
}

// parcels calls fn with all objects that an entry has, and the pack that they are in; nil: the entry itself.
func (x *rewriting) parcels(e *lines.Entry, fn func(ref *lines.PackRef, p *cas.Parcel) error) error {
	if e.Void {
		return nil
	}
	each := func(ref *lines.PackRef) func([]byte) error {
		return func(b []byte) error {
			p, err := cas.ReadParcel(b)
			if err != nil {
				return err
			}
			return fn(ref, p)
		}
	}
	if err := splitRecords(e.Objects, each(nil)); err != nil {
		return err
	}
	for i := range e.Packs {
		if err := x.plan.repo.ReadPack(x.ctx, &e.Packs[i], each(&e.Packs[i])); err != nil {
			return err
		}
	}
	return nil
}

// find finds out what goes with contents that are forgotten: the pieces that a large one is in, but for those that
// something else has in common with it.
func (x *rewriting) find(stay map[lines.Line]*lines.Kept, order []lines.Line) error {
	x.drop = make(map[store.ID]bool)
	for _, id := range x.plan.forget {
		x.drop[id] = true
	}
	if len(x.drop) == 0 {
		return nil
	}
	pieces, needed := make(map[store.ID]bool), make(map[store.ID]bool)
	progress.Of(x.ctx).Begin(progress.Phase{Name: "searching", Unit: "line", Items: int64(2 * len(order))})
	all := func(fn func(o cas.ParcelObject, isList bool, data []byte)) error {
		for _, line := range order {
			if err := x.objects(stay[line], fn); err != nil {
				return err
			}
		}
		return nil
	}
	err := all(func(o cas.ParcelObject, isList bool, data []byte) {
		if !isList {
			return
		}
		of := needed
		if x.drop[o.ID] {
			of = pieces
		}
		for _, id := range cas.Chunks(data) {
			of[id] = true
		}
	})
	if err != nil || len(pieces) == 0 {
		return err
	}
	// One may be the whole of another file: wherever a tree has its ID, it stays.
	err = all(func(o cas.ParcelObject, isList bool, data []byte) {
		if isList || o.Kind == 1 {
			return
		}
		for id := range pieces {
			if !needed[id] && bytes.Contains(data, id[:]) {
				needed[id] = true
			}
		}
	})
	for id := range pieces {
		if !needed[id] {
			x.drop[id] = true
		}
	}
	return err
}

// objects calls fn with what is in a line, but for contents by themselves.
func (x *rewriting) objects(k *lines.Kept, fn func(o cas.ParcelObject, isList bool, data []byte)) error {
	progress.Of(x.ctx).Count(1, 0)
	return x.entries(k, func(_ uint64, e *lines.Entry, _ [32]byte) error {
		return x.parcels(e, func(_ *lines.PackRef, p *cas.Parcel) error {
			if p.Objects[0].Kind == 1 && !p.IsChunkList() && len(p.Objects) == 1 {
				return nil
			}
			return p.Data(func(o cas.ParcelObject, data []byte) error {
				fn(o, p.IsChunkList(), data)
				return nil
			})
		})
	})
}

// line writes a line anew if anything in it has to be.
func (x *rewriting) line(k *lines.Kept) error {
	var list []lines.Rewritten
	var packs []lines.PackRef
	changed := x.plan.opts.Anew
	err := x.entries(k, func(n uint64, e *lines.Entry, hash [32]byte) error {
		now, other, err := x.entry(k.Line, e)
		if err != nil {
			return err
		}
		changed = changed || other
		packs = append(packs, now.Packs...)
		list = append(list, lines.Rewritten{Number: n, Hash: hash, Entry: now})
		return nil
	})
	if err != nil || !changed {
		return err
	}
	x.lines++
	k.Packs = packs
	k.Folds, err = x.plan.repo.PutFolds(x.ctx, x.generation, k.Line, list)
	return err
}

// entry returns an entry as it is to be, and whether that is another.
func (x *rewriting) entry(line lines.Line, e *lines.Entry) (now *lines.Entry, other bool, err error) {
	c := *e
	now = &c
	if e.Void { // only its place in the line matters
		now.Objects, now.Packs, now.Void = nil, nil, false
		return now, len(e.Objects)+len(e.Packs) > 0, nil
	}
	gone := make(map[store.ID]bool)
	drop := func(id store.ID) bool {
		if x.drop[id] && slices.Contains(x.plan.forget, id) { // of its pieces nobody asks
			gone[id] = true
		}
		return x.drop[id]
	}
	var objects []byte
	parts := make(map[*lines.PackRef]*lines.Parts)
	changed := make(map[*lines.PackRef]bool)
	err = x.parcels(e, func(ref *lines.PackRef, p *cas.Parcel) error {
		left, err := p.Without(drop)
		if err != nil {
			return err
		}
		changed[ref] = changed[ref] || left != p || x.plan.opts.Anew
		switch {
		case left == nil:
		case ref == nil:
			objects = append(objects, left.Record...)
		default:
			if parts[ref] == nil {
				parts[ref] = new(lines.Parts)
			}
			parts[ref].Add(partOf(left))
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	now.Objects, now.Packs = objects, nil
	for i := range e.Packs {
		ref := &e.Packs[i]
		if !changed[ref] {
			now.Packs = append(now.Packs, *ref)
			continue
		}
		other = true
		if parts[ref] == nil {
			continue
		}
		fresh, err := x.plan.repo.PutPack(x.ctx, x.generation, line, parts[ref])
		if err != nil {
			return nil, false, err
		}
		now.Packs = append(now.Packs, fresh)
	}
	order := slices.SortedFunc(maps.Keys(gone), func(a, b store.ID) int { return bytes.Compare(a[:], b[:]) })
	now.Forgotten = slices.Clone(e.Forgotten)
	for _, id := range order {
		if !slices.Contains(now.Forgotten, [32]byte(id)) {
			now.Forgotten = append(now.Forgotten, id)
		}
	}
	return now, other || changed[nil], nil
}

// partOf returns a parcel as a part of a pack.
func partOf(p *cas.Parcel) *lines.Part {
	part := &lines.Part{Bytes: p.Record, Kind: p.Kind}
	for _, o := range p.Objects {
		part.IDs = append(part.IDs, lines.ID{Kind: o.Kind, ID: o.ID})
	}
	return part
}
