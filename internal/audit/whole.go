package audit

import (
	"context"
	"errors"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
)

// IsWhole reports whether all that a state needs is there for a writer to count
// on. A tree that no snapshot names may have lost what is in it to a prune.
func IsWhole(ctx context.Context, s *cas.Store, w *cas.Writer, state store.State) (bool, error) {
	err := walk(ctx, s, state, byPage, &wholeness{w, make(map[store.ID]bool)})
	if err == errNotWhole {
		return false, nil
	}
	return err == nil, err
}

// errNotWhole ends a walk that has found something missing.
var errNotWhole = errors.New("something is missing")

type wholeness struct {
	w    *cas.Writer
	seen map[store.ID]bool
}

func (v *wholeness) enter(_ context.Context, p *place) (goOn bool, err error) {
	if v.seen[p.id] {
		return false, nil
	}
	v.seen[p.id] = true
	ok, err := v.w.Has(p.id)
	if err == nil && !ok {
		err = errNotWhole
	}
	return !p.isBlob(), err
}

func (v *wholeness) lost(_ *place, err error) error {
	if trees.IsLoss(err) {
		return errNotWhole
	}
	return err
}

func (v *wholeness) leave(*place) {}
