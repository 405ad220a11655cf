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

var benchTree = flag.String("tree", "", "directory that a copy of is the project of benchmarks")

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
			w.dir = benchProject(b)
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

// benchProject returns a copy of the tree, or a directory with nothing in it.
func benchProject(b *testing.B) string {
	if *benchTree == "" {
		return b.TempDir()
	}
	dir := filepath.Join(b.TempDir(), "tree")
	if out, err := exec.Command("cp", "-a", *benchTree, dir).CombinedOutput(); err != nil {
		b.Fatalf("%s", out)
	}
	return dir
}

// BenchmarkHooks is what hooks add to a tool of Claude Code: how long it takes from the
// model's answer to its next request, for 100 files that are written, one by one, less the
// median of the same without hooks.
func BenchmarkHooks(b *testing.B) {
	needsNPM(b)
	const tools = 100
	dir := benchProject(b)
	run := func(settings string) []float64 {
		w := &world{t: b, model: newModel(b), home: b.TempDir(), dir: dir}
		a := newActorIn(w, makers[0])
		if settings != "" {
			a.put(".claude/settings.json", settings)
		}
		a.plays(fresh, "bash mkdir -p written ;; fin") // the first look at the directory
		if settings == "" {
			a.ended()
		}
		var times []time.Time
		a.model.onRequest(func() { times = append(times, time.Now()) })
		var steps []string
		for i := range tools {
			steps = append(steps, fmt.Sprintf("write written/%d.txt %d", i, time.Now().UnixNano()))
		}
		a.plays(goesOn, strings.Join(steps, " ;; ")+" ;; fin")
		var list []float64
		for i := 1; i < len(times); i++ {
			list = append(list, float64(times[i].Sub(times[i-1]).Microseconds())/1000)
		}
		if len(list) != tools {
			b.Fatalf("%d tools have run, want %d", len(list), tools)
		}
		slices.Sort(list)
		return list
	}
	for b.Loop() {
		without := run(`{"disableAllHooks":true}`)[tools/2]
		with := run("")
		b.ReportMetric(with[tools/2]-without, "ms/tool-more")
		b.ReportMetric(with[tools*99/100]-without, "ms/tool-more-p99")
		b.ReportMetric(without, "ms/tool-without")
		b.ReportMetric(0, "ns/op")
	}
}
