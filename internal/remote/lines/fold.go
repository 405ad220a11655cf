package lines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// This file is entries that a prune has written anew, in packs: see docs/reference/format-remote.md §7.

// folded is an entry in a fold.
type folded struct {
	hash [32]byte // that the entry had in the log
	body []byte
}

// foldKind is the kind of the parts of a fold: number (8) and hash (32) of an entry, and its body.
const foldKind = 0x81

// A Rewritten is an entry that is to be in a fold.
type Rewritten struct {
	Number uint64
	Hash   [32]byte // of the entry as it was in the log
	Entry  *Entry
}

// minFolded is what an entry takes at least in a fold, and in the index of that.
const minFolded = 40 + sealSize + 8 + 33

// maxFold bounds the bytes of a fold, unless one entry is larger.
const maxFold = 16 << 20

// PutFolds puts entries of a line anew, which are behind each other.
func (r *Repo) PutFolds(ctx context.Context, generation uint64, line Line, list []Rewritten) (folds []Fold, err error) {
	var parts Parts
	from := uint64(0)
	for i, x := range list {
		if parts.Size() == 0 {
			from = x.Number
		}
		b := append(number(x.Number), x.Hash[:]...)
		b = append(b, x.Entry.body()...)
		parts.Add(&Part{b, foldKind, []ID{{foldKind, x.Hash}}})
		if parts.Size() < maxFold && i < len(list)-1 {
			continue
		}
		ref, err := r.PutPack(ctx, generation, line, &parts)
		if err != nil {
			return nil, err
		}
		folds = append(folds, Fold{from, x.Number, ref})
	}
	return folds, nil
}

// foldedEntry reads an entry in a fold: its body, its hash, and that of the one before it.
func (r *Repo) foldedEntry(ctx context.Context, k *Kept, n uint64) (body []byte, hash, prev [32]byte, err error) {
	x, err := r.inFold(ctx, k, n)
	if err != nil {
		return nil, hash, prev, err
	}
	if n > 0 {
		before, err := r.inFold(ctx, k, n-1)
		if err != nil {
			return nil, hash, prev, err
		}
		prev = before.hash
	}
	return x.body, x.hash, prev, nil
}

func (r *Repo) inFold(ctx context.Context, k *Kept, n uint64) (*folded, error) {
	f := k.FoldOf(n)
	if f == nil {
		return nil, damaged(entryKey(k.Dir, k.Line, n), errors.New("it is in no fold"))
	}
	all, err := r.fold(ctx, f)
	if err == nil && all[n] == nil {
		err = damaged(f.Pack.Key(), fmt.Errorf("entry %d is not in it", n))
	}
	return all[n], err
}

// fold reads a fold, once.
func (r *Repo) fold(ctx context.Context, f *Fold) (map[uint64]*folded, error) {
	key := f.Pack.Key()
	r.mu.Lock()
	all := r.folds[key]
	r.mu.Unlock()
	if all != nil {
		return all, nil
	}
	all = make(map[uint64]*folded)
	err := r.ReadPack(ctx, &f.Pack, func(b []byte) error {
		if len(b) < 40 {
			return errBody
		}
		all[le.Uint64(b)] = &folded{[32]byte(b[8:40]), bytes.Clone(b[40:])}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.folds == nil {
		r.folds = make(map[string]map[uint64]*folded)
	}
	r.folds[key] = all
	return all, nil
}
