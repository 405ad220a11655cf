package lines

import (
	"context"
	"errors"
)

// A Near keeps packs where they are read faster than from the remote. Nothing that it gives is
// believed: what is in a pack is bound to the hash by which an entry names it.
type Near interface {
	// Get returns the bytes of a pack of a size, from nearby or from get, and whether they are from nearby.
	Get(ctx context.Context, key string, size int64, get func() ([]byte, error)) (b []byte, isNear bool, err error)
	// Read returns n bytes of a pack from an offset on; nil: they are not nearby.
	Read(key string, off, n int64) []byte
	// Drop gives a pack up. why says what is wrong with it; nil: nobody needs it.
	Drop(key string, why error)
}

// UseNear has packs be read from nearby, or with nil, from the remote again. Then they are read whole, also
// where an index or a part of one is wanted: many are to have it. Whoever wants to know what the remote has
// must not call it. It returns what was used before.
func (r *Repo) UseNear(n Near) (before Near) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, r.near = r.near, n
	return before
}

func (r *Repo) nearby() Near {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.near
}

// withPack calls fn with the bytes of a pack, which it may change, and again if those from nearby were damaged.
func (r *Repo) withPack(ctx context.Context, ref *PackRef, fn func(b []byte) error) error {
	key := ref.Key()
	get := func() ([]byte, error) { return r.b.Get(ctx, key, 0, -1) }
	n := r.nearby()
	if n == nil {
		b, err := get()
		if err != nil {
			return err
		}
		return fn(b)
	}
	b, isNear, err := n.Get(ctx, key, int64(ref.Size), get)
	if err == nil {
		err = fn(b)
	}
	d, ok := errors.AsType[*DamageError](err)
	if !ok {
		return err
	}
	if !isNear { // it is damaged there, and may be mended
		n.Drop(key, nil)
		return err
	}
	n.Drop(key, d)
	if b, err = get(); err != nil {
		return err
	}
	return fn(b)
}
