package capture_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
)

// takeSnapshot records what a project's directory is now.
func takeSnapshot(ctx context.Context, s *cas.Store, ws *capture.Workspace) (*store.Snapshot, error) {
	w, err := s.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	r, err := ws.Capture(ctx, w, nil)
	if err != nil {
		return nil, err
	}
	snap := &store.Snapshot{Tree: r.Tree, Coverage: r.Coverage, Time: time.Now(), Worktree: ws.Worktree, Root: ws.Root}
	newest, err := s.Newest(ctx, snap.Worktree, snap.Session)
	switch {
	case err == nil:
		snap.Parent = newest.Seq
	case !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	if err := w.Commit(ctx, snap, snap.Parent); err != nil {
		return nil, err
	}
	return snap, nil
}

// Two snapshots of a directory, what is between them, and the first one back.
func Example() {
	ctx := context.Background()
	base, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(base)
	dir := filepath.Join(base, "project")
	os.MkdirAll(dir, 0o755)
	os.WriteFile(filepath.Join(dir, "greeting"), []byte("hello\n"), 0o644)

	project, err := capture.FindProject(dir)
	if err != nil {
		log.Fatal(err)
	}
	storeDir := filepath.Join(base, "file-store", project.Hash())
	s, err := cas.Open(ctx, storeDir, &cas.Options{Root: project.Main})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	ws, err := project.Open(&capture.WorkspaceOptions{Store: s, StoreDir: storeDir})
	if err != nil {
		log.Fatal(err)
	}
	first, err := takeSnapshot(ctx, s, ws)
	if err != nil {
		log.Fatal(err)
	}

	os.WriteFile(filepath.Join(dir, "greeting"), []byte("good morning\n"), 0o644)
	os.Symlink("greeting", filepath.Join(dir, "link"))
	second, err := takeSnapshot(ctx, s, ws)
	if err != nil {
		log.Fatal(err)
	}
	for change, err := range trees.Diff(ctx, s, first.Tree, second.Tree) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(change.Path, change.Old != nil, change.New != nil)
	}

	out := filepath.Join(base, "before")
	if _, err := trees.Export(ctx, s, first.Tree, out); err != nil {
		log.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(out, "greeting"))
	fmt.Printf("%q %v\n", b, err)
	// Output:
	// greeting true true
	// link false true
	// "hello\n" <nil>
}
