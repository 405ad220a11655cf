package patch

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A mergeInput is a merge of long texts.
type mergeInput struct {
	name string
	make func(rng *rand.Rand, of int) triple // one of so many parts of that
}

var mergeInputs = []mergeInput{
	{"100k distinct lines, 20+20 edits", func(rng *rand.Rand, of int) triple {
		return longCase(rng, 100_000/of, 1e9, 20/of)
	}},
	{"100k distinct lines, 1,000+1,000", func(rng *rand.Rand, of int) triple {
		return longCase(rng, 100_000/of, 1e9, 1000/of)
	}},
	{"1M lines of CSV, 100+100", func(rng *rand.Rand, of int) triple {
		base := make([]string, 1_000_000/of)
		for i := range base {
			base[i] = fmt.Sprintf("%d,%d,name %d,2026-11-24,%d.%02d\n", i, rng.IntN(1e6), rng.IntN(5000),
				rng.IntN(1000), rng.IntN(100))
		}
		return sides(rng, base, 100)
	}},
	{"20k equal lines, 10+10", func(rng *rand.Rand, of int) triple {
		return longCase(rng, 20_000/of, 1, 10)
	}},
	{"one line of 10 MB", func(rng *rand.Rand, of int) triple {
		line := func(s string) []byte {
			b := bytes.Repeat([]byte("0123456789"), 1<<20)
			copy(b[rng.IntN(len(b)-10):], s)
			return b
		}
		return triple{line("base"), line("ours"), line("theirs")}
	}},
	{"100k lines, 110 distinct, 2,000+2,000", func(rng *rand.Rand, of int) triple {
		return longCase(rng, 100_000/of, 110, 2000/of)
	}},
	{"100k lines, 2 distinct, 200+200", func(rng *rand.Rand, of int) triple {
		return longCase(rng, 100_000/of, 2, 200/of)
	}},
	{"100k lines, 25k of them moved, 100 edits", func(rng *rand.Rand, of int) triple {
		c := longCase(rng, 100_000/of, 50_000, 100/of)
		k := 1000 / of
		base := strings.SplitAfter(string(c.base), "\n")
		c.ours = joined(slices.Concat(base[:10*k], base[50*k:75*k], base[10*k:50*k], base[75*k:]), false)
		return c
	}},
	{"3 texts of 100k lines, 110 distinct", func(rng *rand.Rand, of int) triple {
		text := func() []byte { return longCase(rng, 100_000/of, 110, 0).base }
		return triple{text(), text(), text()}
	}},
}

// longCase has n lines, and makes as many edits a side.
func longCase(rng *rand.Rand, n, distinct, edits int) triple {
	base := make([]string, n)
	for i := range base {
		base[i] = fmt.Sprintf("line %d of the text\n", rng.IntN(distinct))
	}
	return sides(rng, base, edits)
}

// sides makes edits of base on both sides: a line comes, goes or changes.
func sides(rng *rand.Rand, base []string, edits int) triple {
	side := func(name string) []byte {
		lines := append([]string(nil), base...)
		for range edits {
			at := rng.IntN(len(lines))
			switch rng.IntN(3) {
			case 0:
				lines[at] = fmt.Sprintf("%s %d\n", name, rng.IntN(1e6))
			case 1:
				lines[at] = ""
			case 2:
				lines[at] += fmt.Sprintf("%s %d\n", name, rng.IntN(1e6))
			}
		}
		return joined(lines, false)
	}
	return triple{joined(base, false), side("ours"), side("theirs")}
}

func BenchmarkMerge(b *testing.B) {
	for _, in := range mergeInputs {
		b.Run(strings.ReplaceAll(in.name, " ", "-"), func(b *testing.B) {
			c := in.make(rand.New(rand.NewPCG(1, 1)), 1)
			b.SetBytes(int64(len(c.base) + len(c.ours) + len(c.theirs)))
			b.ReportAllocs()
			var m *Merged
			for b.Loop() {
				m = Merge(c.base, c.ours, c.theirs, nil)
			}
			b.ReportMetric(float64(len(m.Conflicts)), "conflicts")
		})
	}
}

var mergeTable = flag.Bool("merge.table", false, "measure TestMergeOfLongTexts beside git merge-file, and print both")

// TestMergeOfLongTexts merges long texts with hardly more conflicts than git. With
// -merge.table they are ten times as long, and it has processes of their own read, merge and write, and prints how
// much processor time they take.
func TestMergeOfLongTexts(t *testing.T) {
	if dir := os.Getenv("MERGE_TEXTS"); dir != "" { // the process that is measured
		var texts [3][]byte
		for i, name := range []string{"base", "ours", "theirs"} {
			texts[i], _ = os.ReadFile(filepath.Join(dir, name))
		}
		os.Stdout.Write(Merge(texts[0], texts[1], texts[2], nil).Markers("ours", "base", "theirs"))
		os.Exit(0)
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("NOT CHECKED against git: %v", err)
	}
	t.Logf("%-40s %9s %9s %9s %9s", "processor time, conflicts", "git", "we", "git", "we")
	for _, in := range mergeInputs {
		if !*mergeTable && strings.HasPrefix(in.name, "1M") { // seconds, and not hard
			continue
		}
		of := 10
		if *mergeTable || strings.HasPrefix(in.name, "3 texts") { // short ones have a few conflicts more than git's
			of = 1
		}
		c, dir := in.make(rand.New(rand.NewPCG(1, 1)), of), t.TempDir()
		text, _ := gitMerged(t, dir, c, "--zdiff3")
		ours, git := len(Merge(c.base, c.ours, c.theirs, nil).Conflicts), bytes.Count(text, []byte("\n>>>>>>> "))
		if ours > git+git/5 {
			t.Errorf("%s: %d conflicts, git has %d", in.name, ours, git)
		}
		if !*mergeTable {
			continue
		}
		least := func(args ...string) time.Duration {
			best := time.Hour
			for range 5 {
				cmd := exec.Command(args[0], args[1:]...)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "MERGE_TEXTS="+dir)
				cmd.Run() // the exit code is the conflicts'
				best = min(best, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
			}
			return best
		}
		byGit := least("git", "merge-file", "-p", "--zdiff3", "ours", "base", "theirs")
		byUs := least(os.Args[0], "-test.run", "^"+t.Name()+"$")
		t.Logf("%-40s %6d ms %6d ms %9d %9d", in.name, byGit.Milliseconds(), byUs.Milliseconds(), git, ours)
	}
}
