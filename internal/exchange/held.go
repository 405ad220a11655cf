package exchange

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/remote"
	"github.com/boocode/filestore/internal/remote/lines"
	"github.com/boocode/filestore/internal/vfs"
)

// This file keeps copies of the few objects of a remote without which nothing in it can be read: a
// store that has seen them can put them back.

type heldFile struct {
	Version int               `json:"v"`
	Objects map[string][]byte `json:"objects"`
}

// KeepHeld remembers those objects.
func KeepHeld(ctx context.Context, fsys vfs.FS, name string, repo *lines.Repo) error {
	if _, err := Find(fsys, name); errors.Is(err, ErrUnknown) { // it is added later
		return nil
	}
	was := heldOf(fsys, name)
	if err := repo.HoldLedger(ctx, func(key string) bool { return was[key] != nil }); err != nil {
		return err
	}
	now := repo.Held()
	for key, b := range was { // older ones of the ledger, which nobody reads any more
		if now[key] == nil && !strings.HasPrefix(key, "data/") {
			now[key] = b
		}
	}
	if maps.EqualFunc(now, was, bytes.Equal) {
		return nil
	}
	return write(fsys, name, "held", &heldFile{stateVersion, now})
}

// heldOf returns what a store remembers of those objects.
func heldOf(fsys vfs.FS, name string) map[string][]byte {
	f := new(heldFile)
	if ok, err := read(fsys, name, "held", f); !ok || err != nil {
		return nil // it is a copy, and made again
	}
	return f.Objects
}

// RestoreHeld puts those objects back into a remote that are damaged or gone, as the store remembers them, and
// returns their keys. If what is there is another remote, it is left alone.
func RestoreHeld(ctx context.Context, fsys vfs.FS, name string, b remote.Backend) (keys []string, err error) {
	held := heldOf(fsys, name)
	if same, err := lines.IsSame(ctx, b, held["FORMAT"]); err != nil || !same {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(held)) {
		got, err := b.Get(ctx, key, 0, -1)
		if err != nil && !errors.Is(err, remote.ErrNoKey) {
			return keys, err
		}
		if err == nil && bytes.Equal(got, held[key]) {
			continue
		}
		if strings.HasPrefix(key, "data/") && err != nil {
			if isOld, err := isOlder(ctx, b, held); err != nil {
				return keys, err
			} else if isOld { // a later prune has taken it away
				continue
			}
		}
		if err := b.Overwrite(ctx, key, held[key]); err != nil {
			return keys, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// isOlder reports whether the ledger has become longer than what a store remembers of it.
func isOlder(ctx context.Context, b remote.Backend, held map[string][]byte) (bool, error) {
	for item, err := range b.List(ctx, "ledger/", "") {
		if err != nil {
			return false, err
		}
		if held[item.Key] == nil {
			return true, nil
		}
	}
	return false, nil
}

// checkHeld compares those objects with what the store remembers.
func (c *checking) checkHeld(b iter.Seq2[string, []byte], get func(key string) ([]byte, error)) error {
	for key, want := range b {
		got, err := get(key)
		switch {
		case errors.Is(err, remote.ErrNoKey) && strings.HasPrefix(key, "data/"): // a prune has taken it away
		case errors.Is(err, remote.ErrNoKey):
			c.damaged(key, errors.New("it is missing"))
		case err != nil:
			return err
		case !bytes.Equal(got, want) && !c.isDamaged(key):
			c.damaged(key, errors.New("it is not what was there"))
		}
	}
	return nil
}
