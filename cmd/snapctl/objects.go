package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// sound reads the objects that snapshots need. All of them must be there: one
// that is missing is damage, which store.ErrNotFound alone does not tell from
// a path that does not exist.
type sound struct{ tree.Getter }

func (o sound) Get(ctx context.Context, kind store.Kind, id store.ID) ([]byte, error) {
	b, err := o.Getter.Get(ctx, kind, id)
	return b, lost(err)
}

// soundStore is sound over a store, which can copy large blobs.
type soundStore struct{ *store.Store }

func (o soundStore) Get(ctx context.Context, kind store.Kind, id store.ID) ([]byte, error) {
	b, err := o.Store.Get(ctx, kind, id)
	return b, lost(err)
}

func (o soundStore) CopyBlob(ctx context.Context, w io.Writer, id store.ID) (int64, error) {
	n, err := o.Store.CopyBlob(ctx, w, id)
	return n, lost(err)
}

// lost makes damage of an object that is not found.
func lost(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return &failure{exitDamage, fmt.Errorf("%v", err), hintCheck}
	}
	return err
}
