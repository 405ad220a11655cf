package livedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/rollback"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// BenchmarkRestore restores 10 files of 3.4 KB in 10 directories, back and
// forth, without the snapshots that a session makes before and after: those
// are in manager's benchmark of this name. The floor writes 10 such files under
// another name, syncs and renames them.
func BenchmarkRestore(b *testing.B) {
	dir := b.TempDir()
	s, err := cas.Open(b.Context(), b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	w, err := s.Begin(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	root, err := OpenRoot(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := errors.Join(root.Close(), w.Close(), s.Close()); err != nil {
			b.Error(err)
		}
	})
	text := strings.Repeat("a line of a file that is restored\n", 100)
	var wants [2][]Want
	for i := range 10 {
		var entries [2]*tree.Entry
		for k, content := range []string{"old " + text, "new " + text} {
			id, err := w.Put(object.Blob, []byte(content))
			if err != nil {
				b.Fatal(err)
			}
			entries[k] = &tree.Entry{Name: "file", Mode: tree.ModeFile | 0o644, Size: int64(len(content)), ID: id}
		}
		path := fmt.Sprintf("d%d/file", i)
		err := os.Mkdir(filepath.Join(dir, filepath.Dir(path)), 0o755)
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, path), []byte("old "+text), 0o644)); err != nil {
			b.Fatal(err)
		}
		wants[0] = append(wants[0], Want{Path: path, Old: entries[0], New: entries[1]})
		wants[1] = append(wants[1], Want{Path: path, Old: entries[1], New: entries[0]})
	}
	if err := w.Commit(b.Context(), &store.Snapshot{Tree: trees.Empty}, 0); err != nil {
		b.Fatal(err)
	}

	timed(b, "files=10", func(round int) error {
		p, err := NewPlan(b.Context(), root, wants[round%2], &Options{})
		if err != nil {
			return err
		}
		if err := errors.Join(p.Save(b.Context(), root, w), p.Apply(b.Context(), root, s, "bench")); err != nil {
			return err
		}
		if n := p.Count(rollback.Restore); n != 10 {
			return fmt.Errorf("%d files restored", n)
		}
		return nil
	})
	timed(b, "floor=write+sync+rename", func(int) error {
		for i := range 10 {
			p := filepath.Join(dir, fmt.Sprint("d", i), "by hand")
			f, err := os.Create(p + "~")
			if err == nil {
				_, err = f.WriteString(text)
				err = errors.Join(err, f.Sync(), f.Close(), os.Rename(p+"~", p))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// timed runs a sub-benchmark and reports the median, too: a sync waits for
// whatever else the machine writes.
func timed(b *testing.B, name string, fn func(round int) error) {
	b.Run(name, func(b *testing.B) {
		var all []time.Duration
		for b.Loop() {
			start := time.Now()
			if err := fn(len(all)); err != nil {
				b.Fatal(err)
			}
			all = append(all, time.Since(start))
		}
		if len(all)%2 == 1 { // so that the next begins where this one did
			if err := fn(len(all)); err != nil {
				b.Fatal(err)
			}
		}
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-us")
	})
}
