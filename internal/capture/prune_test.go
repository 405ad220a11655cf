package capture_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/audit"
	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// A capture of an old epoch that ends while a prune waits, and one of the new
// that goes by what it has left in the stat cache: what the old one found in a
// pack that goes must not be taken for there.
func TestPruneBetweenCaptures(t *testing.T) {
	for name, resident := range map[string]bool{"resident": true, "file": false} {
		t.Run(name, func(t *testing.T) { pruneBetweenCaptures(t, resident) })
	}
}

func pruneBetweenCaptures(t *testing.T, resident bool) {
	dir, root := filepath.Join(t.TempDir(), "store"), t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	open := func() *cas.Store {
		s, err := cas.Open(t.Context(), dir, &cas.Options{Root: root})
		must(err)
		t.Cleanup(func() { s.Close() })
		return s
	}
	project, err := capture.FindProject(root)
	must(err)
	write := func(content []byte) {
		must(os.WriteFile(filepath.Join(root, "f"), content, 0o600))
		time.Sleep(20 * time.Millisecond) // for its stamp to be trusted
	}
	old := make([]byte, 200_000)
	rand.NewChaCha8([32]byte{}).Read(old)
	var newest uint64
	commit := func(w *cas.Writer, r *tree.Result) *store.Snapshot {
		snap := &store.Snapshot{Tree: r.Tree, Coverage: r.Coverage, Worktree: project.Worktree, Root: root}
		must(w.Commit(t.Context(), snap, newest))
		newest = snap.Seq
		return snap
	}
	for _, content := range [][]byte{old, []byte("new")} { // the first is dropped
		write(content)
		s := open()
		ws, err := project.Open(&capture.WorkspaceOptions{Store: s})
		must(err)
		w, err := s.Begin(t.Context())
		must(err)
		r, err := ws.Capture(t.Context(), w, nil)
		must(err)
		commit(w, r)
		must(w.Close())
		must(s.Close())
	}
	write(old) // the user takes it back

	s, pruner := open(), open()
	ws, err := project.Open(&capture.WorkspaceOptions{Store: s, Resident: resident})
	must(err)
	defer ws.Close()
	marker := audit.NewMarker(pruner)
	plan, err := pruner.PlanPrune(t.Context(), &cas.PruneOptions{
		Drop: func(snap *store.Snapshot) bool { return snap.Seq == 1 },
		Mark: func(ctx context.Context, live *cas.Live, snap *store.Snapshot) error {
			return marker.MarkSnapshot(ctx, live, snap)
		}})
	must(err)
	if plan.Packs == 0 {
		t.Fatal("no pack goes")
	}
	first, err := s.Begin(t.Context())
	must(err)
	_, err = ws.Capture(t.Context(), first, nil) // it records nothing
	must(err)
	before, err := s.Epoch()
	must(err)
	done := make(chan error, 1)
	go func() {
		_, err := pruner.Prune(t.Context(), plan)
		done <- err
	}()
	for now := before; now == before; time.Sleep(time.Millisecond) {
		now, err = s.Epoch()
		must(err)
	}
	second, err := s.Begin(t.Context())
	must(err)
	must(first.Close()) // saves the cache
	r, err := ws.Capture(t.Context(), second, nil)
	must(err)
	must(<-done)
	snap := commit(second, r)
	must(second.Close())
	problems, err := audit.NewChecker(open()).Snapshot(t.Context(), snap)
	if err != nil || len(problems) > 0 {
		t.Errorf("snapshot %d: %v, %v", snap.Seq, problems, err)
	}
}
