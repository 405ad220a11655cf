package manager

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var benchTree = flag.String("bench.tree", "",
	"a directory of which BenchmarkResident takes a copy, besides those that it makes")

// BenchmarkResident is the end of a turn that changed 10 files just before, in a
// process that stays. The floors: a walk of the same directory by a process that
// watches nothing, and two syncs of 4 KiB.
func BenchmarkResident(b *testing.B) {
	for _, c := range []struct {
		name string
		path func(i int) string
		n    int
	}{
		{"tree", func(i int) string { return fmt.Sprintf("d%d/d%d/file%d", i%100, i/100%40, i) }, *benchFiles},
		{"one directory", func(i int) string { return fmt.Sprintf("d/file%d", i) }, min(100_000, *benchFiles)},
	} {
		b.Run(fmt.Sprintf("%s of %d", c.name, c.n), func(b *testing.B) {
			dir := b.TempDir()
			text := strings.Repeat("a line of a file that is changed\n", 100)
			write := func(i int, content string) {
				if err := os.WriteFile(filepath.Join(dir, c.path(i)), []byte(content), 0o644); err != nil {
					b.Fatal(err)
				}
			}
			for i := range c.n {
				if i < 4000 {
					if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, c.path(i))), 0o755); err != nil {
						b.Fatal(err)
					}
				}
				write(i, fmt.Sprint(i))
			}
			benchResident(b, dir, func(turn int) {
				for i := range 10 {
					write((i*7901+turn)%c.n, fmt.Sprint(turn, text))
				}
			})
		})
	}
	if *benchTree == "" {
		return
	}
	b.Run(filepath.Base(*benchTree), func(b *testing.B) {
		dir := filepath.Join(b.TempDir(), "copy")
		if err := os.CopyFS(dir, os.DirFS(*benchTree)); err != nil {
			b.Fatal(err)
		}
		files := writable(b, dir)
		benchResident(b, dir, func(turn int) {
			for i := range 10 {
				f, err := os.OpenFile(files[(i*7901+turn*31)%len(files)], os.O_WRONLY|os.O_APPEND, 0)
				if err == nil {
					_, err = fmt.Fprintln(f, "/* turn", turn, "*/")
					err = errors.Join(err, f.Close())
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

// writable returns the regular files below dir, but those of rules.
func writable(b *testing.B, dir string) (files []string) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name()[0] != '.' {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 10 {
		b.Fatal(len(files), err)
	}
	return files
}

// benchResident measures the ends of turns in dir, in which change changes 10
// files.
func benchResident(b *testing.B, dir string, change func(turn int)) {
	e, err := NewEngine(&EngineOptions{StoreRoot: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	m, err := Open(b.Context(), dir, &Options{Engine: e, Session: "s"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		m.Close()
		e.Close()
	})
	if _, err := m.Initialize(b.Context()); err != nil {
		b.Fatal(err)
	}
	turn := 0
	report := func(b *testing.B, name string, rest time.Duration, fn func()) {
		b.Run(name, func(b *testing.B) {
			var all []time.Duration
			for b.Loop() {
				b.StopTimer()
				turn++
				change(turn)
				time.Sleep(rest)
				start := time.Now()
				b.StartTimer()
				fn()
				all = append(all, time.Since(start))
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-us")
		})
	}
	end := func() {
		r, list, err := m.EndTurn(b.Context())
		if err != nil || r.Data == nil || len(r.Data.Diff.Modified) != 10 || len(list) > 2 {
			b.Fatal(r, list, err)
		}
		go m.Told(b.Context(), r.Snapshot.Seq, fmt.Sprint("e", turn)) // as a runtime does, later
	}
	report(b, "turn end", 0, end)
	report(b, "turn end a second later", time.Second, end)
	other, err := Open(b.Context(), dir, &Options{StoreRoot: b.TempDir(), Session: "other"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { other.Close() })
	if _, err := other.Initialize(b.Context()); err != nil {
		b.Fatal(err)
	}
	report(b, "floor/not resident", 0, func() {
		if _, err := other.OnTurnEnd(b.Context(), benchAppend); err != nil {
			b.Fatal(err)
		}
	})
	if _, err := exec.LookPath("git"); err == nil {
		git := func(args ...string) {
			cmd := exec.Command("git", args...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("git %q: %v\n%s", args, err, out)
			}
		}
		git("init", "-q")
		git("add", "-A")
		report(b, "floor/git add and write-tree", 0, func() {
			git("add", "-A")
			git("write-tree")
		})
	}
	files := [2]*os.File{}
	for i := range files {
		if files[i], err = os.Create(filepath.Join(b.TempDir(), "f")); err != nil {
			b.Fatal(err)
		}
		defer files[i].Close()
	}
	report(b, "floor/two syncs", 0, func() {
		for _, f := range files {
			if _, err := f.Write(make([]byte, 4<<10)); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
