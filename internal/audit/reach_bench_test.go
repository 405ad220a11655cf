package audit

import (
	"context"
	"fmt"
	"testing"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// BenchmarkReach is each of the walks of all that a snapshot needs: 200 directories of 100 files,
// and one of 20,000.
func BenchmarkReach(b *testing.B) {
	s := openStore(b, vfstest.NewMem())
	w, err := s.Begin(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	content := 0
	files := func(n int) store.ID {
		list := make([]tree.Entry, n)
		for i := range list {
			content++
			id, err := w.Put(object.Blob, fmt.Append(nil, content))
			if err != nil {
				b.Fatal(err)
			}
			list[i] = tree.Entry{Name: fmt.Sprintf("name%06d.go", i), Mode: tree.ModeFile | 0o644,
				Size: int64(content), ID: id}
		}
		id, err := trees.Put(w, list)
		if err != nil {
			b.Fatal(err)
		}
		return id
	}
	var dirs []tree.Entry
	for i := range 200 {
		dirs = append(dirs, tree.Entry{Name: fmt.Sprintf("dir%03d", i), Mode: tree.ModeDir | 0o755, ID: files(100)})
	}
	dirs = append(dirs, tree.Entry{Name: "large", Mode: tree.ModeDir | 0o755, ID: files(20_000)})
	root, err := trees.Put(w, dirs)
	if err != nil {
		b.Fatal(err)
	}
	snap := &store.Snapshot{Tree: root, Worktree: "w", Root: "/w"}
	if err := w.Commit(b.Context(), snap, 0); err != nil {
		b.Fatal(err)
	}
	run := func(name string, fn func(ctx context.Context) error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := fn(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("check", func(ctx context.Context) error {
		_, err := NewChecker(s).Snapshot(ctx, snap)
		return err
	})
	run("mark", func(ctx context.Context) error {
		m := NewMarker(s)
		_, err := s.PlanPrune(ctx, &cas.PruneOptions{Mark: m.MarkSnapshot})
		return err
	})
	run("whole", func(ctx context.Context) error {
		whole, err := IsWhole(ctx, s, w, snap.State())
		if !whole {
			b.Fatal("it is not whole")
		}
		return err
	})
	run("tally", func(ctx context.Context) error {
		_, err := NewTally(s).Add(ctx, snap)
		return err
	})
	run("hurt", func(ctx context.Context) error {
		for _, err := range Hurts(ctx, s) {
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}
