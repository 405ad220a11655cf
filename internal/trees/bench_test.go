package trees

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/boocode/filestore/internal/cas"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// BenchmarkDiff compares trees of many files of which 10 differ. The floor gets
// the same objects, and does nothing with them.
func BenchmarkDiff(b *testing.B) {
	open := func(dir string) *cas.Store {
		s, err := cas.Open(b.Context(), dir, nil)
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		name       string
		dirs, each int
	}{{"80000 files", 4000, 20}, {"directory of 100000", 1, 100_000}} {
		b.Run(c.name, func(b *testing.B) {
			dir := b.TempDir()
			s := open(dir)
			w, err := s.Begin(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			var roots [2]store.ID
			for round := range roots {
				total := c.dirs * c.each
				changed := make(map[int]bool)
				for i := range 10 * round {
					changed[i*7901%total] = true
				}
				dirs := make(map[int][]tree.Entry) // above those of files, 40 of them at most
				for d := range c.dirs {
					var list []tree.Entry
					for i := d * c.each; i < (d+1)*c.each; i++ {
						content := fmt.Sprint(i)
						if changed[i] {
							content = "changed"
						}
						list = append(list,
							tree.Entry{Name: fmt.Sprintf("file%06d.go", i), Mode: tree.ModeFile | 0o644,
								Size: int64(len(content)), ID: blobID(content)})
					}
					up := d % 40
					dirs[up] = append(dirs[up],
						tree.Entry{Name: fmt.Sprintf("d%05d", d), Mode: tree.ModeDir | 0o755, ID: put(b, w, list)})
				}
				var top []tree.Entry
				for up := range len(dirs) {
					top = append(top, tree.Entry{Name: fmt.Sprintf("d%02d", up), Mode: tree.ModeDir | 0o755,
						ID: put(b, w, dirs[up])})
				}
				roots[round] = put(b, w, top)
			}
			if err := errors.Join(w.Commit(b.Context(), &store.Snapshot{Tree: roots[1]}, 0), w.Close(),
				s.Close()); err != nil {
				b.Fatal(err)
			}
			s = open(dir)
			b.Cleanup(func() { s.Close() })
			diff := func(g Getter) error {
				n := 0
				for _, err := range Diff(b.Context(), g, roots[0], roots[1]) {
					if err != nil {
						return err
					}
					n++
				}
				if n != 10 {
					return fmt.Errorf("%d changes", n)
				}
				return nil
			}
			noting := &notingGetter{Getter: s}
			if err := diff(noting); err != nil {
				b.Fatal(err)
			}
			b.Run("10 apart", func(b *testing.B) {
				for b.Loop() {
					if err := diff(s); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(len(noting.ids)), "objects")
			})
			b.Run("floor=get", func(b *testing.B) {
				for b.Loop() {
					for _, id := range noting.ids {
						if _, err := s.Get(b.Context(), object.Tree, id); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		})
	}
}

// A notingGetter notes what was asked for.
type notingGetter struct {
	Getter
	ids []store.ID
}

func (g *notingGetter) Get(ctx context.Context, kind object.Kind, id store.ID) ([]byte, error) {
	g.ids = append(g.ids, id)
	return g.Getter.Get(ctx, kind, id)
}
