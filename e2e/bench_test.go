package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var benchTree = flag.String("tree", "", "directory that a copy of is the project of BenchmarkPiTurn")

// BenchmarkPiTurn is what a turn of pi takes longer with the extension: prompts
// of ten turns, each of which writes a file, by two processes in turn, one of
// them without it.
func BenchmarkPiTurn(b *testing.B) {
	if !*runs {
		b.Skip("SKIPPED: needs the npm registry; run with -e2e")
	}
	for _, r := range releases {
		b.Run(r.name, func(b *testing.B) {
			w := newWorld(b, &r)
			if *benchTree != "" {
				w.dir = filepath.Join(b.TempDir(), "tree")
				if out, err := exec.Command("cp", "-a", *benchTree, w.dir).CombinedOutput(); err != nil {
					b.Fatalf("%s", out)
				}
			}
			if err := os.Mkdir(w.path("written"), 0o755); err != nil {
				b.Fatal(err)
			}
			with, without := w.start(), w.startPlain()
			with.prompt("begin")
			without.begin("begin")
			without.until("its end", func(v map[string]any) bool { return v["type"] == r.settled })
			const turns = 10
			i := 0
			once := func(a *agent) time.Duration {
				var steps []string
				for range turns {
					i++
					steps = append(steps, fmt.Sprintf("write written/%d.txt %d", i%100, i))
				}
				start := time.Now()
				a.begin(strings.Join(steps, " ;; ") + " ;; fin")
				a.until("its end", func(v map[string]any) bool { return v["type"] == r.settled })
				return time.Since(start)
			}
			var gains, base []float64
			for b.Loop() {
				plain := once(without)
				gains = append(gains, float64((once(with)-plain).Microseconds())/1000/turns)
				base = append(base, float64(plain.Microseconds())/1000/turns)
			}
			slices.Sort(gains)
			slices.Sort(base)
			b.ReportMetric(gains[len(gains)/2], "ms/turn-more")
			b.ReportMetric(gains[len(gains)*9/10], "ms/turn-more-p90")
			b.ReportMetric(base[len(base)/2], "ms/turn-without")
			b.ReportMetric(0, "ns/op")
		})
	}
}
