package manager

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

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
		b.Run(fmt.Sprintf("%s of %d", c.name, c.n), func(b *testing.B) { benchResident(b, c.path, c.n) })
	}
}

func benchResident(b *testing.B, path func(i int) string, n int) {
	dir := b.TempDir()
	text := strings.Repeat("a line of a file that is changed\n", 100)
	write := func(i int, content string) {
		if err := os.WriteFile(filepath.Join(dir, path(i)), []byte(content), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for i := range n {
		if i < 4000 {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path(i))), 0o755); err != nil {
				b.Fatal(err)
			}
		}
		write(i, fmt.Sprint(i))
	}
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
				for i := range 10 {
					write((i*7901+turn)%n, fmt.Sprint(turn, text))
				}
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
