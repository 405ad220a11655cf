package cas

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"

	"github.com/boocode/filestore/internal/object"
)

// CheckContent reads the objects of packs and verifies each against its ID: of those
// whose ids are not before from, in the order of ids, until so many bytes were read;
// 0 is all. It returns where to go on, "" at the end, and the damage that
// [Store.Check] does not find without reading data. at, unless it is nil, is called
// after each pack, with where it goes on, and how many places were found. Packs that are made meanwhile may be missed.
func (s *Store) CheckContent(ctx context.Context, from string, maxBytes int64, at func(next string,
	found int)) (damage []*object.CorruptError,
	read int64, next string, err error) {
	ids, err := s.packIDs()
	if err != nil {
		return nil, 0, from, err
	}
	s.jmu.Lock()
	err = s.j.Refresh()
	durable := make(map[[16]byte]int64, len(s.j.Packs))
	for id, end := range s.j.Packs {
		durable[id] = end
	}
	s.jmu.Unlock()
	if err != nil {
		return nil, 0, from, err
	}
	for i, id := range ids {
		name := hex.EncodeToString(id[:])
		if name < from {
			continue
		}
		if maxBytes > 0 && read >= maxBytes {
			return damage, read, name, nil
		}
		found, size, err := s.checkObjects(ctx, id, durable[id])
		if err != nil {
			return damage, read, name, err
		}
		damage, read = append(damage, found...), read+size
		if next = ""; i+1 < len(ids) {
			next = hex.EncodeToString(ids[i+1][:])
		}
		if at != nil {
			at(next, len(damage))
		}
	}
	return damage, read, "", nil
}

// checkObjects reads what a pack holds.
func (s *Store) checkObjects(ctx context.Context, id [16]byte, durable int64) (
	damage []*object.CorruptError, size int64, err error) {
	x, err := s.examine(id, durable)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil // moved away by a prune that runs now
	}
	if err != nil {
		return nil, 0, err
	}
	defer x.pack.F.Close()
	for _, e := range x.records {
		if err := context.Cause(ctx); err != nil {
			return nil, 0, err
		}
		err := s.checkObject(ctx, e)
		if d, ok := errors.AsType[*object.CorruptError](err); ok {
			damage = append(damage, d)
		} else if err != nil {
			return nil, 0, err
		}
	}
	return damage, x.size, nil
}
