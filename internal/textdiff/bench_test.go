package textdiff

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// An input is a pair of texts of about n lines, hard for some way of matching.
type input struct {
	name string
	make func(rnd *rand.Rand, n int) (old, new []string)
}

var inputs = []input{
	{"one-changed-line", func(rnd *rand.Rand, n int) (a, b []string) {
		a = source(rnd, n)
		return a, change(rnd, a, 1)
	}},
	{"1%-changed", func(rnd *rand.Rand, n int) (a, b []string) {
		a = source(rnd, n)
		return a, change(rnd, a, n/100)
	}},
	{"half-braces", func(rnd *rand.Rand, n int) (a, b []string) {
		a = source(rnd, n)
		for i := 0; i < n; i += 2 {
			a[i] = "}\n"
		}
		return a, change(rnd, a, n/100)
	}},
	{"block-moved", func(rnd *rand.Rand, n int) (a, b []string) {
		a = source(rnd, n)
		b = append(b, a[:n/10]...)
		b = append(b, a[n/2:n/2+n/4]...)
		b = append(b, a[n/10:n/2]...)
		return a, append(b, a[n/2+n/4:]...)
	}},
	{"nothing-in-common", func(rnd *rand.Rand, n int) (a, b []string) {
		return distinct("old", n), distinct("new", n)
	}},
	{"shuffled", func(rnd *rand.Rand, n int) (a, b []string) {
		a = distinct("line", n)
		b = append(b, a...)
		rnd.Shuffle(n, func(i, j int) { b[i], b[j] = b[j], b[i] })
		return a, b
	}},
	{"2-distinct-at-random", func(rnd *rand.Rand, n int) (a, b []string) { return few(rnd, n, 2), few(rnd, n, 2) }},
	{"110-distinct-at-random", func(rnd *rand.Rand, n int) (a, b []string) {
		return few(rnd, n, 110), few(rnd, n, 110)
	}},
	{"2-distinct-few-changes", func(rnd *rand.Rand, n int) (a, b []string) {
		a = few(rnd, n, 2)
		return a, change(rnd, a, 100)
	}},
	// More edits than a search of Myers' looks for.
	{"110-distinct-5%-changed", func(rnd *rand.Rand, n int) (a, b []string) {
		a = few(rnd, n, 110)
		return a, change(rnd, a, n/20)
	}},
	// Gaps that each go to difflib, or to Myers' algorithm, for as long as there is
	// effort left.
	{"many-gaps-for-difflib", func(rnd *rand.Rand, n int) (a, b []string) {
		for len(a) < n {
			start := len(a)
			for i := range 1400 {
				a = append(a, fmt.Sprintf("line %d of gap %d\n", i%700, start))
				b = append(b, a[len(a)-1])
				if i%2 == 0 {
					b[len(b)-1] = fmt.Sprintf("new %d\n", len(b))
				}
			}
			separator := fmt.Sprintf("end of gap %d\n", start)
			a, b = append(a, separator), append(b, separator)
		}
		return a, b
	}},
	{"many-gaps-for-myers", func(rnd *rand.Rand, n int) (a, b []string) {
		for len(a) < n {
			for i := range 1000 {
				x, y := fmt.Sprintf("old %d\n", i%10), fmt.Sprintf("new %d\n", i%10)
				if i%8 == 4 {
					x, y = "x\n", "x\n"
				}
				a, b = append(a, x), append(b, y)
			}
			separator := fmt.Sprintf("end of gap %d\n", len(a))
			a, b = append(a, separator), append(b, separator)
		}
		return a, b
	}},
	// Half of the diagonals run the whole length, and the few changes at both
	// ends are more than Myers' algorithm looks for.
	{"periodic", func(rnd *rand.Rand, n int) (a, b []string) {
		for i := range n {
			a = append(a, fmt.Sprintf("line %d\n", i%2))
		}
		b = append(b, a...)
		for i := range 1500 {
			a[i], b[n-1-i] = fmt.Sprintf("old %d\n", i%7), fmt.Sprintf("new %d\n", i%7)
		}
		return a, b
	}},
	// No line is unique, every second one is changed: difflib finds n/4 blocks of
	// one line, each by a search of all that is left, unless the gap is split first.
	{"twice-the-same", func(rnd *rand.Rand, n int) (a, b []string) {
		a = distinct("line", n/2)
		a = append(a, a...)
		b = append(b, a...)
		for i := 0; i < n; i += 2 {
			b[i] = fmt.Sprintf("new %d\n", i)
		}
		return a, b
	}},
	{"one-line-repeated", func(rnd *rand.Rand, n int) (a, b []string) {
		return few(rnd, n, 1), append([]string{"x\n"}, append(few(rnd, n/2, 1), "y\n")...)
	}},
}

// source returns n lines that repeat about as often as those of Go files do.
func source(rnd *rand.Rand, n int) []string {
	lines := make([]string, n)
	for i := range lines {
		switch k := rnd.IntN(100); {
		case k < 15:
			lines[i] = "\t}\n"
		case k < 25:
			lines[i] = "\n"
		case k < 35:
			lines[i] = "\tif err != nil {\n"
		case k < 45:
			lines[i] = fmt.Sprintf("\treturn nil, err%d\n", rnd.IntN(50))
		default:
			lines[i] = fmt.Sprintf("\tvalue%d := compute(%d, other)\n", rnd.IntN(n), rnd.IntN(20))
		}
	}
	return lines
}

func distinct(name string, n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("%s number %d of the text\n", name, i)
	}
	return lines
}

func few(rnd *rand.Rand, n, distinct int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d\n", rnd.IntN(distinct))
	}
	return lines
}

// change returns lines with n of them changed, deleted or joined by a new one.
func change(rnd *rand.Rand, lines []string, n int) []string {
	out := append([]string(nil), lines...)
	for range n {
		at := rnd.IntN(len(out))
		switch rnd.IntN(3) {
		case 0:
			out[at] = fmt.Sprintf("changed %d\n", rnd.Uint64())
		case 1:
			out[at] = ""
		case 2:
			out[at] += lines[rnd.IntN(len(lines))]
		}
	}
	return out
}

func join(lines []string) []byte { return []byte(strings.Join(lines, "")) }

func BenchmarkEdits(b *testing.B) {
	for _, in := range inputs {
		for _, n := range []int{10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/lines=%dk", in.name, n/1000), func(b *testing.B) {
				x, y := in.make(rand.New(rand.NewPCG(1, 1)), n)
				old, new := join(x), join(y)
				b.SetBytes(int64(len(old) + len(new)))
				b.ReportAllocs()
				var list []Edit
				for b.Loop() {
					list = Edits(old, new)
				}
				added, deleted := 0, 0
				for _, e := range list {
					added += e.NewEnd - e.NewStart
					deleted += e.OldEnd - e.OldStart
				}
				b.ReportMetric(float64(added+deleted), "lines")
				b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/op")
			})
		}
	}
}

// The floor of BenchmarkEdits: cutting both texts into lines.
func BenchmarkSplitLines(b *testing.B) {
	text := join(distinct("line", 100_000))
	b.SetBytes(int64(2 * len(text)))
	for b.Loop() {
		SplitLines(text)
		SplitLines(text)
	}
}

// No input may take time out of proportion, each result must be right, and few
// changes must stay few: what the input changed, at most.
func TestEditsOfHardInputs(t *testing.T) {
	const n = 8_000
	most := map[string]int{
		"one-changed-line":        2,
		"1%-changed":              2 * n / 100,
		"half-braces":             2 * n / 100,
		"block-moved":             n / 2,
		"2-distinct-few-changes":  200, // Myers
		"110-distinct-5%-changed": 2 * n / 20,
		"110-distinct-at-random":  2 * n * 9 / 10,
		"twice-the-same":          n, // a second split
	}
	for _, in := range inputs {
		x, y := in.make(newRand(t), n)
		old, new := join(x), join(y)
		list := Edits(old, new) // how much it may do for that is TestEffortIsShared
		if got := applyEdits(t, old, new, list); !bytes.Equal(got, new) {
			t.Errorf("%s: edits do not rebuild the new text", in.name)
		}
		checkMergeEdits(t, old, new)
		added, deleted, _ := Stat(old, new)
		if limit, ok := most[in.name]; ok && added+deleted > limit {
			t.Errorf("%s: %d lines added or deleted, want at most %d", in.name, added+deleted, limit)
		}
	}
}

// Many gaps share one effort: it is spent, and hardly more than that.
func TestEffortIsShared(t *testing.T) {
	spend := map[string]func(left *effort) (spent, all float64){
		"many-gaps-for-difflib": func(left *effort) (spent, all float64) {
			return textEffort().difflib - left.difflib, textEffort().difflib
		},
		"many-gaps-for-myers": func(left *effort) (spent, all float64) {
			return float64(textEffort().myers - left.myers), float64(textEffort().myers)
		},
	}
	const n = 30_000
	for _, in := range inputs {
		spend, ok := spend[in.name]
		if !ok {
			continue
		}
		a, b := in.make(newRand(t), n)
		left := textEffort()
		edits(a, b, left)
		// Myers' algorithm looks at what is left once a row.
		if spent, all := spend(left); spent < all/2 || spent > all+2*n {
			t.Errorf("%s: spent %.0f of %.0f", in.name, spent, all)
		}
	}
}

// BenchmarkAsGit compares versions of a text of 10,000 lines that follow one another.
func BenchmarkAsGit(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 28))
	lines := make([]string, 10_000)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d of %d\n", rng.IntN(1e6), rng.IntN(1e4))
	}
	var versions [][]byte
	for range 50 {
		for range 1 + rng.IntN(3) {
			lines[rng.IntN(len(lines))] = fmt.Sprintf("line %d of %d\n", rng.IntN(1e6), rng.IntN(1e4))
		}
		versions = append(versions, []byte(strings.Join(lines, "")))
	}
	for i := 0; b.Loop(); i++ {
		AsGit(versions[i%50], versions[(i+1)%50])
	}
}
