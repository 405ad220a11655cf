package audit

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// openStore opens a store on a file system, and checks and closes it after the
// test.
func openStore(t testing.TB, fsys vfs.FS) *cas.Store {
	t.Helper()
	s := reopenStore(t, fsys)
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

// reopenStore is openStore for a store that the test closes with closeStore.
func reopenStore(t testing.TB, fsys vfs.FS) *cas.Store {
	t.Helper()
	s, err := cas.OpenFS(t.Context(), fsys, &cas.Options{})
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	return s
}

// closeStore requires that nothing in a store is damaged and that all its
// snapshots are complete.
func closeStore(t testing.TB, s *cas.Store) {
	t.Helper()
	r, err := s.Check(context.Background(), true)
	if err != nil || len(r.Damage) > 0 {
		t.Errorf("check: %v, %v", r, err)
	}
	for h, err := range Hurts(context.Background(), s) {
		t.Errorf("hurt: %+v, %v", h, err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close store: %v", err)
	}
}

// snapshot captures a directory and commits that. It returns the tree.
func snapshot(t testing.TB, s *cas.Store, root string) store.ID {
	t.Helper()
	p, err := capture.FindProject(root)
	if err != nil {
		t.Fatal(err)
	}
	ws, err := p.Open(&capture.WorkspaceOptions{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r, err := ws.Capture(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	snap := &store.Snapshot{Tree: r.Tree, Coverage: r.Coverage, Time: time.Now(), Worktree: p.Worktree, Root: p.Root}
	if head, err := s.Newest(t.Context(), p.Worktree, ""); err == nil {
		snap.Parent = head.Seq
	}
	if err := w.Commit(t.Context(), snap, snap.Parent); err != nil {
		t.Fatal(err)
	}
	return r.Tree
}

// write creates a file with its directories.
func write(t testing.TB, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

var every = flag.Bool("every", false, "fail each operation in turn, not each few")

// stride returns how many operations a test of faults goes on at a time: one if
// all are asked for, else normal, or short in short mode.
func stride(normal, short int64) int64 {
	switch {
	case *every:
		return 1
	case testing.Short():
		return short
	}
	return normal
}
