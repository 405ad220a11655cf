package patch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// benchFile is 100,000 lines of code-like text, 3.5 MB.
func benchFile() []byte {
	rng := rand.New(rand.NewPCG(7, 7))
	words := strings.Fields("if err != nil return func range index value " +
		"buffer length append result context state reader writer options " +
		"config handler request response string int64 byte error panic close open read write")
	var b bytes.Buffer
	for i := range 100_000 {
		b.WriteString(strings.Repeat("\t", rng.IntN(4)))
		switch rng.IntN(8) {
		case 0:
			b.WriteString("}")
		case 1:
		default:
			for range 2 + rng.IntN(6) {
				b.WriteString(words[rng.IntN(len(words))])
				b.WriteByte(' ')
			}
			fmt.Fprint(&b, i%977)
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// BenchmarkLocate finds 50 lines among 100,000. The bounds are 5 ms for exact,
// 20 ms for whitespace and unicode, 100 ms for a near hit, 1 s for a refusal.
func BenchmarkLocate(b *testing.B) {
	file := benchFile()
	lines := bytes.SplitAfter(file, lf)
	needle := bytes.Join(lines[70_000:70_050], nil)
	drift := func(every int, change func(line []byte) []byte) []byte {
		var out []byte
		for i, l := range bytes.SplitAfter(needle, lf) {
			if i%every == every-1 && len(l) > 10 {
				l = change(bytes.Clone(l))
			}
			out = append(out, l...)
		}
		return out
	}
	fancy := bytes.ReplaceAll(file, []byte("return "), []byte("return\u00a0"))
	typo := func(l []byte) []byte { return append(append(l[:5:5], 'X', 'Y'), l[6:]...) }
	same := bytes.Repeat([]byte("\tif err != nil {\n"), 100_000)
	anchors := bytes.Repeat([]byte("begin\n some line of code\n another line here\nend\n"), 25_000)
	long := bytes.Repeat([]byte("let x = 12; "), 10_000_000/12)
	unrelated := []byte(strings.Repeat("this has nothing to do with what is there, %d\n", 50))
	for _, c := range []struct {
		name      string
		file, old []byte
		want      Kind
		stage     Stage
	}{
		{"exact", file, needle, IsExact, Exact},
		{"whitespace", file, bytes.ReplaceAll(needle, []byte("\t"), []byte("    ")), IsFuzzy, Whitespace},
		{"unicode", fancy, needle, IsFuzzy, Unicode},
		{"anchor", file, drift(7, typo), IsFuzzy, ""},
		{"near_hit", file, append([]byte("what used to be here\n"),
			drift(2, typo)[bytes.IndexByte(needle, '\n')+1:]...), IsFuzzy, Levenshtein},
		{"near_hit_no_line_same", file, drift(1, typo), IsFuzzy, Levenshtein},
		{"refusal", file, unrelated, IsNotFound, ""},
		{"all_lines_equal", same, append(bytes.Repeat([]byte("\tif err != nil {\n"), 49), "\tif err == nil {\n"...), "",
			""},
		{"all_anchors_equal", anchors, []byte("begin\n some lime of code\n another line hear\nend\n"), "", ""},
		{"one_long_line", long, []byte("let y = 13; let z = 14\n"), IsNotFound, ""},
		{"long_needle", long, long[:5_000_001], "", ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m := Locate(c.file, c.old, nil)
				if c.want != "" && m.Kind != c.want || c.stage != "" && m.Stage != c.stage {
					b.Fatalf("%+v", m)
				}
			}
			m := Locate(c.file, c.old, nil)
			b.Logf("%s %s %s %.3f", m.Kind, m.Stage, m.Reason, m.Similarity)
		})
	}
	b.Run("floor/count", func(b *testing.B) {
		for b.Loop() {
			bytes.Count(file, needle)
		}
	})
	b.Run("floor/hash_lines", func(b *testing.B) {
		for b.Loop() {
			newLined(file).hash(foldBlanks)
		}
	})
}
