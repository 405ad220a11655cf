// Package remotetest has what tests of remotes need: the contract of a [remote.Backend] as
// tests, a Backend in memory, and one that loses answers, sends twice and late, and lies.
package remotetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/boocode/filestore/internal/remote"
)

// Mem is a [remote.Backend] in memory.
type Mem struct {
	mu      sync.Mutex // guards objects
	objects map[string][]byte
}

// NewMem returns an empty one.
func NewMem() *Mem { return &Mem{objects: make(map[string][]byte)} }

// Objects returns a copy of all that is there.
func (m *Mem) Objects() map[string][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := make(map[string][]byte, len(m.objects))
	for k, v := range m.objects {
		c[k] = bytes.Clone(v)
	}
	return c
}

// Create implements [remote.Backend].
func (m *Mem) Create(ctx context.Context, key string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := cause(ctx, key); err != nil {
		return err
	}
	if _, ok := m.objects[key]; ok {
		return fmt.Errorf("create %s: %w", key, remote.ErrExists)
	}
	m.objects[key] = bytes.Clone(data)
	return nil
}

// Overwrite implements [remote.Backend].
func (m *Mem) Overwrite(ctx context.Context, key string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := cause(ctx, key); err != nil {
		return err
	}
	m.objects[key] = bytes.Clone(data)
	return nil
}

// Get implements [remote.Backend].
func (m *Mem) Get(ctx context.Context, key string, off, n int64) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := cause(ctx, key); err != nil {
		return nil, err
	}
	b, ok := m.objects[key]
	if !ok {
		return nil, fmt.Errorf("get %s: %w", key, remote.ErrNoKey)
	}
	b = b[min(off, int64(len(b))):]
	if n >= 0 {
		b = b[:min(n, int64(len(b)))]
	}
	return append([]byte{}, b...), nil
}

// Stat implements [remote.Backend].
func (m *Mem) Stat(ctx context.Context, key string) (int64, error) {
	b, err := m.Get(ctx, key, 0, -1)
	return int64(len(b)), err
}

// Delete implements [remote.Backend].
func (m *Mem) Delete(ctx context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return cause(ctx, key)
}

// List implements [remote.Backend].
func (m *Mem) List(ctx context.Context, prefix, after string) iter.Seq2[remote.Item, error] {
	return func(yield func(remote.Item, error) bool) {
		objects := m.Objects()
		for _, k := range slices.Sorted(maps.Keys(objects)) {
			if err := context.Cause(ctx); err != nil {
				yield(remote.Item{}, err)
				return
			}
			if !strings.HasPrefix(k, prefix) || k <= after {
				continue
			}
			if !yield(remote.Item{Key: k, Size: int64(len(objects[k]))}, nil) {
				return
			}
		}
	}
}

func cause(ctx context.Context, key string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return remote.CheckKey(key)
}

// Test is the contract of a Backend: open returns one that is empty.
func Test(t *testing.T, open func(t *testing.T) remote.Backend) {
	t.Run("probe", func(t *testing.T) {
		found, err := remote.Probe(t.Context(), open(t), "probe")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if f.Err != "" {
				t.Errorf("%s: %s", f.What, f.Err)
			}
		}
	})
	t.Run("clean", func(t *testing.T) { testClean(t, open(t)) })
	t.Run("order", func(t *testing.T) { testOrder(t, open(t)) })
	t.Run("errors", func(t *testing.T) { testErrors(t, open(t)) })
}

// testClean shows that a probe leaves nothing.
func testClean(t *testing.T, b remote.Backend) {
	if _, err := remote.Probe(t.Context(), b, "probe"); err != nil {
		t.Fatal(err)
	}
	for item, err := range b.List(t.Context(), "", "") {
		t.Errorf("left behind: %v, %v", item, err)
	}
}

// testOrder shows that lists are in the order of the keys' bytes, and where they begin.
func testOrder(t *testing.T, b remote.Backend) {
	keys := []string{"a", "b-c", "b.c", "b/1", "b/2/x", "b/2/y", "b/20", "b0", "bb/1"}
	for _, k := range slices.Backward(keys) {
		if err := b.Create(t.Context(), k, []byte(k)); err != nil {
			t.Fatal(err)
		}
	}
	for _, prefix := range []string{"", "b", "b/", "b/2", "b/2/", "bb", "c"} {
		for _, after := range append([]string{"", "0", "b", "b/", "b/2/xx", "z"}, keys...) {
			var got, want []string
			for item, err := range b.List(t.Context(), prefix, after) {
				if err != nil {
					t.Fatal(err)
				}
				if item.Size != int64(len(item.Key)) {
					t.Errorf("%s has %d bytes in the list", item.Key, item.Size)
				}
				got = append(got, item.Key)
			}
			for _, k := range keys {
				if strings.HasPrefix(k, prefix) && k > after {
					want = append(want, k)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("List(%q, %q) = %q, want %q", prefix, after, got, want)
			}
		}
	}
	for range b.List(t.Context(), "", "") {
		break // that is no error
	}
}

func testErrors(t *testing.T, b remote.Backend) {
	ctx := t.Context()
	if _, err := b.Get(ctx, "no/such", 0, -1); !errors.Is(err, remote.ErrNoKey) {
		t.Errorf("Get of nothing: %v", err)
	}
	if _, err := b.Stat(ctx, "no/such"); !errors.Is(err, remote.ErrNoKey) {
		t.Errorf("Stat of nothing: %v", err)
	}
	if err := b.Delete(ctx, "no/such"); err != nil {
		t.Errorf("Delete of nothing: %v", err)
	}
	for _, k := range []string{"", "/a", "a//b", "a/", "../a", "a/.b", "a b", "ä", strings.Repeat("x", 201)} {
		if err := b.Create(ctx, k, nil); !errors.Is(err, remote.ErrRefused) {
			t.Errorf("Create(%q): %v", k, err)
		}
	}
	if err := b.Create(ctx, "empty", nil); err != nil {
		t.Errorf("Create of no bytes: %v", err)
	}
	if got, err := b.Get(ctx, "empty", 0, -1); len(got) != 0 || err != nil {
		t.Errorf("Get of no bytes: %q, %v", got, err)
	}
	if got, err := b.Get(ctx, "empty", 5, 10); len(got) != 0 || err != nil {
		t.Errorf("Get behind the end: %q, %v", got, err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := b.Create(ended, "late", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Create with a context that has ended: %v", err)
	}
}
