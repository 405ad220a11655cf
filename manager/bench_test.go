package manager

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/boocode/filestore/internal/inside"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/rollback"
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
		for _, err := range trees.Compare(ctx, m.store, p.State, q.State) {
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
			if _, _, err := inside.Of(m).Disk(b.Context(), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

var benchFiles = flag.Int("bench.files", 80_000, "how many files the directory of BenchmarkRestore has")

// BenchmarkRestore restores 10 files of a large directory, back and forth. The
// floor is to write 10 files under another name, sync and rename them.
func BenchmarkRestore(b *testing.B) {
	dir := b.TempDir()
	write := func(i int, content string) {
		p := filepath.Join(dir, fmt.Sprint("d", i%100), fmt.Sprint("d", i/100%40), fmt.Sprint("file", i))
		err := os.WriteFile(p, []byte(content), 0o644)
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(content), 0o644))
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	text := strings.Repeat("a line of a file that is restored\n", 100)
	for i := range *benchFiles {
		write(i, fmt.Sprint(i))
	}
	m, err := Open(b.Context(), dir, &Options{StoreRoot: b.TempDir(), Session: "s"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { m.Close() })
	ten := func(content string) {
		for i := range 10 {
			write(i*7901%*benchFiles, content+text)
		}
	}
	ten("old ")
	if _, err := m.Initialize(b.Context()); err != nil {
		b.Fatal(err)
	}
	ten("new ")
	r, err := m.OnTurnEnd(b.Context(), benchAppend)
	if err != nil {
		b.Fatal(err)
	}
	targets := []string{"start", r.EntryID}
	b.Run(fmt.Sprintf("10 of %d", *benchFiles), func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			r, err := m.RestoreFiles(b.Context(), &RestoreOptions{Target: targets[i%2]})
			if err != nil || len(r.Restored) != 10 && i > 0 {
				b.Fatal(r, err)
			}
		}
	})
	b.Run("floor/write and sync 10", func(b *testing.B) {
		for b.Loop() {
			for i := range 10 {
				p := filepath.Join(dir, fmt.Sprint("d", i), "by hand")
				f, err := os.Create(p + "~")
				if err == nil {
					_, err = f.WriteString(text)
					err = errors.Join(err, f.Sync(), f.Close(), os.Rename(p+"~", p))
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// A revertBench is a session of which a turn is taken back that has changed n files.
type revertBench struct {
	testing.TB
	m   *FileSnapshotManager
	dir string
	n   int
}

// newRevertBench makes one in which a turn, or the user, has changed another line of each
// file since; or nobody has.
func newRevertBench(tb testing.TB, n int, since string) *revertBench {
	b := &revertBench{TB: tb, dir: tb.TempDir(), n: n}
	m, err := Open(b.Context(), b.dir, &Options{StoreRoot: b.TempDir(), Session: "s", OnDirty: rollback.Merge})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { m.Close() })
	turn := func(first, last string) {
		if _, err := m.OnTurnStart(b.Context(), nil); err != nil {
			b.Fatal(err)
		}
		b.write(first, last)
		if _, err := m.OnTurnEnd(b.Context(), benchAppend); err != nil {
			b.Fatal(err)
		}
	}
	b.m = m
	b.write("old", "old")
	if _, err := m.Initialize(b.Context()); err != nil {
		b.Fatal(err)
	}
	turn("turn 0", "old")
	if since == "turn" {
		turn("turn 0", "turn 1")
	} else if since == "user" {
		b.write("turn 0", "user")
	}
	return b
}

// write writes the files, with these first and last lines.
func (b *revertBench) write(first, last string) {
	for i := range b.n {
		if err := writeBench(benchPath(b.dir, i), benchText(first, last, i)); err != nil {
			b.Fatal(err)
		}
	}
}

// back takes the turn back, by a revert or by a restore.
func (b *revertBench) back(isRevert bool) {
	if isRevert {
		b.check(b.m.Revert(b.Context(), &RevertOptions{Turns: []string{"0"}}))
		return
	}
	b.check(b.m.RestoreFiles(b.Context(), &RestoreOptions{Target: "start"}))
}

func (b *revertBench) undo() { b.check(b.m.Undo(b.Context(), nil)) }

func (b *revertBench) check(r *RestoreResult, err error) {
	if err != nil || len(r.Restored) != b.n || !r.IsComplete() {
		b.Fatal(r, err)
	}
}

// BenchmarkRevert takes back a turn that has changed 5,000 files: by a restore, by name,
// and where a turn that stays, or the user, has changed another line of each since. The
// undo is of such a restore, the user having changed that line once more. The floor is to
// write the files under other names, sync and rename them, eight at once.
func BenchmarkRevert(b *testing.B) {
	const n = 5000
	for _, c := range []struct {
		name, since  string
		revert, undo bool
	}{
		{"restore", "", false, false}, {"restore behind the user", "user", false, false},
		{"undo behind the user", "user", false, true},
		{"revert", "", true, false}, {"revert behind a turn", "turn", true, false},
		{"revert behind the user", "user", true, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			rb := newRevertBench(b, n, c.since)
			for i := 0; b.Loop(); i++ {
				if c.undo {
					b.StopTimer()
					rb.back(c.revert)
					rb.write("old", fmt.Sprint("user ", i))
					b.StartTimer()
					rb.undo()
					continue
				}
				rb.back(c.revert)
				b.StopTimer()
				rb.undo()
				b.StartTimer()
			}
		})
	}
	b.Run("floor/write and sync 5000", func(b *testing.B) {
		dir := b.TempDir()
		for b.Loop() {
			var group errgroup.Group
			group.SetLimit(8)
			for i := range n {
				p := benchPath(dir, i)
				group.Go(func() error {
					err := errors.Join(writeBench(p+".new", benchText("old", "user", i)), syncFile(p+".new"))
					return errors.Join(err, os.Rename(p+".new", p))
				})
			}
			if err := group.Wait(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchPath(dir string, i int) string {
	return filepath.Join(dir, fmt.Sprint("d", i%100), fmt.Sprint("file", i))
}

func benchText(first, last string, i int) string {
	return fmt.Sprintf("%s %d\n%s%s %d\n", first, i, strings.Repeat("a line of a file\n", 100), last, i)
}

func writeBench(p, text string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644))
}

func syncFile(p string) error {
	f, err := os.OpenFile(p, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
