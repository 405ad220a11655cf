package store

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/vfs"
)

// openMem opens a store in memory and checks it when the test is done.
func openMem(t *testing.T, fsys vfs.FS) *Store {
	t.Helper()
	s, err := OpenFS(t.Context(), fsys, &Options{})
	if err != nil {
		t.Fatalf("OpenFS: %v", err)
	}
	t.Cleanup(func() {
		checkClean(t, s)
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// checkClean requires that a store has no damage.
func checkClean(t *testing.T, s *Store) {
	t.Helper()
	r, err := s.Check(context.Background(), true)
	if err != nil {
		t.Errorf("Check: %v", err)
		return
	}
	for _, d := range r.Damage {
		t.Errorf("Check found damage: %v", d)
	}
}

// commit puts objects and commits a snapshot whose tree is the first.
func commit(t *testing.T, s *Store, session string, objects ...[]byte) *Snapshot {
	t.Helper()
	snap, err := tryCommit(t.Context(), s, session, objects...)
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	return snap
}

func tryCommit(ctx context.Context, s *Store, session string, objects ...[]byte) (*Snapshot, error) {
	w, err := s.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	snap := &Snapshot{Time: time.Unix(1, 0), Session: session}
	for i, b := range objects {
		id, err := w.Put(Blob, b)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			snap.Tree = id
		}
	}
	head, err := s.Newest(ctx, "", session)
	switch {
	case err == nil:
		snap.Parent = head.Seq
	case !errors.Is(err, ErrNotFound):
		return nil, err
	}
	if err := w.Commit(ctx, snap, snap.Parent); err != nil {
		return nil, err
	}
	return snap, nil
}

func TestRoundTrip(t *testing.T) {
	fsys := vfs.NewMem()
	s := openMem(t, fsys)
	big := make([]byte, 5<<20)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(big)
	contents := [][]byte{nil, []byte("a"), bytes.Repeat([]byte("text "), 1000), big[:1<<20]}
	commit(t, s, "", contents...)
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id, n, err := w.PutReader(bytes.NewReader(big))
	if err != nil || n != int64(len(big)) || id != Hash(Blob, big) {
		t.Fatalf("PutReader = %v, %d, %v", id, n, err)
	}
	contents = append(contents, big)
	if err := w.Commit(t.Context(), &Snapshot{Tree: id, Parent: 1}, 1); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	for _, fsys := range []vfs.FS{fsys, fsys.AfterCrash(nil)} {
		s := openMem(t, fsys)
		for _, c := range contents {
			got, err := s.Get(t.Context(), Blob, Hash(Blob, c))
			if err != nil || !bytes.Equal(got, c) {
				t.Errorf("Get of %d bytes: %d bytes, %v", len(c), len(got), err)
			}
		}
		head, err := s.Newest(t.Context(), "", "")
		if err != nil || head.Tree != id {
			t.Errorf("Newest = %+v, %v", head, err)
		}
	}
}
