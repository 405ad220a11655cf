package manager

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/boocode/filestore/tree"
)

// benchSession is a session of 1,000 turns in a directory of 1,000 files.
func benchSession(b *testing.B) (*FileSnapshotManager, string) {
	b.Helper()
	dir := b.TempDir()
	write := func(i int, content string) {
		p := filepath.Join(dir, fmt.Sprint("dir", i%40), fmt.Sprint("file", i))
		if os.MkdirAll(filepath.Dir(p), 0o755) != nil || os.WriteFile(p, []byte(content), 0o644) != nil {
			b.Fatal("cannot write")
		}
	}
	for i := range 1000 {
		write(i, "0")
	}
	m, err := Open(b.Context(), dir, &Options{StoreRoot: b.TempDir(), Session: "s"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { m.Close() })
	if _, err := m.Initialize(b.Context()); err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		write(i%300, fmt.Sprint("turn ", i))
		if _, err := m.OnTurnEnd(b.Context(), benchAppend); err != nil {
			b.Fatal(err)
		}
	}
	return m, dir
}

func benchAppend(_ context.Context, d *StepSnapshotData) (string, error) {
	return fmt.Sprintf("e%07d", d.TurnIndex), nil
}

func BenchmarkQueries(b *testing.B) {
	m, _ := benchSession(b)
	ctx := b.Context()
	run := func(name string, fn func() error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := fn(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, turns := range []int{1, 10, 100, 999} {
		run(fmt.Sprintf("ModifiedFiles/turns=%d", turns), func() error {
			_, err := m.ModifiedFiles(ctx, &Range{From: fmt.Sprintf("@~%d", turns)})
			return err
		})
	}
	// The floor of a query over turns: the same trees compared.
	run("floor/compare", func() error {
		p, err := m.Resolve(ctx, "@~1")
		if err != nil {
			return err
		}
		q, err := m.Resolve(ctx, "@")
		if err != nil {
			return err
		}
		for _, err := range tree.Compare(ctx, m.Store(), p.State, q.State) {
			if err != nil {
				return err
			}
		}
		return nil
	})
	run("FileDiff", func() error {
		_, err := m.FileDiff(ctx, &FileRange{Path: "dir7/file7"})
		return err
	})
	run("Resolve/turn:500", func() error { _, err := m.Resolve(ctx, "turn:500"); return err })
	run("Resolve/entry", func() error { _, err := m.Resolve(ctx, "e0000500"); return err })
	run("Timeline/1000", func() error {
		for _, err := range m.Timeline(ctx) {
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// BenchmarkTurn is a turn that changes one of 1,000 files; the floor is a
// capture of the directory that stores nothing.
func BenchmarkTurn(b *testing.B) {
	m, dir := benchSession(b)
	i := 0
	b.Run("start and end", func(b *testing.B) {
		for b.Loop() {
			i++
			if _, err := m.OnTurnStart(b.Context(), nil); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "changed"), []byte(fmt.Sprint(i)), 0o644); err != nil {
				b.Fatal(err)
			}
			if _, err := m.OnTurnEnd(b.Context(), benchAppend); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("floor/capture", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := m.Disk(b.Context(), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
