package textdiff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mark puts brackets around spans.
func mark(s string, spans []Span) string {
	var b strings.Builder
	at := 0
	for _, span := range spans {
		b.WriteString(s[at:span.Start] + "[" + s[span.Start:span.End] + "]")
		at = span.End
	}
	return b.String() + s[at:]
}

func TestWords(t *testing.T) {
	tests := []struct{ old, new, wantOld, wantNew string }{
		{"", "", "", ""},
		{"same", "same", "same", "same"},
		{"", "new", "", "[new]"},
		{"return err", "return nil, err", "return err", "return [nil, ]err"},
		{"if a == b {", "if a != b {", "if a [=]= b {", "if a [!]= b {"},
		{"x  := 1", "x := 1", "x[  ]:= 1", "x[ ]:= 1"},
		{"größe := 1", "grösse := 1", "[größe] := 1", "[grösse] := 1"},
		{"a\xffb", "a\xfeb", "a[\xff]b", "a[\xfe]b"},
		{"größe", "grüße", "[größe]", "[grüße]"},
		{"ab ab", "ab ab ab", "ab ab", "ab ab[ ab]"},
		{"x ab", "x abc", "x [ab]", "x [abc]"},
		{"x abc", "x ab", "x [abc]", "x [ab]"},
		{"ab x", "cab x", "[ab] x", "[cab] x"},
		{"é-é", "è-é", "[é]-é", "[è]-é"},
		{"f(a, b)", "f(b, a)", "f([a], [b])", "f([b], [a])"},
	}
	for _, tt := range tests {
		o, n := spansOf(tt.old, tt.new, wordEffort())
		got := []string{mark(tt.old, o), mark(tt.new, n)}
		if diff := cmp.Diff([]string{tt.wantOld, tt.wantNew}, got); diff != "" {
			t.Errorf("spansOf(%q, %q) (-want +got):\n%s", tt.old, tt.new, diff)
		}
	}
}

// A long line costs what changed in it, and a hopeless one is given up.
func TestWordsOfLongLines(t *testing.T) {
	for _, in := range longLines(newRand(t)) {
		left := wordEffort()
		o, n := spansOf(in.old, in.new, left)
		// Myers' algorithm looks at what is left once a row.
		if left.difflib < -1e4 || left.myers < -1e4 || left.words < -1e4 {
			t.Errorf("%s: it has done more than it may: %+v is left", in.name, *left)
		}
		if len(o)+len(n) > in.most {
			t.Errorf("%s: Words returned %d spans, want at most %d", in.name, len(o)+len(n), in.most)
		}
		checkSpans(t, in.old, in.new, o, n)
	}
}

type linePair struct {
	name     string
	old, new string
	most     int // spans to expect
}

// longLines are pairs of lines of 100 kB or more, hard for some way of matching.
func longLines(rnd *rand.Rand) []linePair {
	minified := func(n, distinct int) string {
		var b strings.Builder
		for b.Len() < n {
			fmt.Fprintf(&b, "function f%d(a,b){return a[%d]+b};", rnd.IntN(distinct), rnd.IntN(distinct))
		}
		return b.String()
	}
	line := minified(100<<10, 1e6)
	var several []byte
	for i, c := range []byte(line) {
		if several = append(several, c); i%10_000 == 5000 {
			several = append(several, ";changed;"...)
		}
	}
	return []linePair{
		{"one change", line, line[:50_000] + " changed " + line[50_000:], 2},
		{"both ends changed", line, "changed+" + line + "+changed", 2},
		{"ten changes", line, string(several), 40},
		{"unlike", line, minified(100<<10, 1e6), math.MaxInt},
		{"few distinct words", minified(100<<10, 3), minified(100<<10, 3), math.MaxInt},
		{"one character", strings.Repeat("(", 100<<10), strings.Repeat("(", 80<<10) + ")", 2},
		{"two characters at random", brackets(rnd, 100<<10), brackets(rnd, 100<<10), math.MaxInt},
		{"one word", strings.Repeat("a", 100<<10), strings.Repeat("a", 99<<10) + "b", 2},
		{"not UTF-8", strings.Repeat("\x80", 100<<10), strings.Repeat("\x80", 99<<10) + "\xff", math.MaxInt},
		{"10 MB", minified(10<<20, 1e6), minified(10<<20, 1e6), 2},
	}
}

func brackets(rnd *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "()"[rnd.IntN(2)]
	}
	return string(b)
}

func BenchmarkWords(b *testing.B) {
	list := append(longLines(rand.New(rand.NewPCG(1, 1))),
		linePair{"short", "\tif err := f(a, b); err != nil {", "\tif err := f(ctx, a); err != nil {", 0})
	for _, in := range list {
		b.Run(strings.ReplaceAll(in.name, " ", "-"), func(b *testing.B) {
			b.SetBytes(int64(len(in.old) + len(in.new)))
			b.ReportAllocs()
			for b.Loop() {
				spansOf(in.old, in.new, wordEffort())
			}
		})
	}
}

func TestLineWords(t *testing.T) {
	tests := []struct {
		name             string
		old, new         []string
		wantOld, wantNew []string
	}{
		{"nothing", nil, nil, []string{}, []string{}},
		{"only added", nil, []string{"a"}, []string{}, []string{"a"}},
		{"each with its partner", []string{"x = 1", "y = 2"}, []string{"x = 3", "y = 4"},
			[]string{"x = [1]", "y = [2]"}, []string{"x = [3]", "y = [4]"}},
		{"few, of unequal numbers", []string{"x = 1"}, []string{"x = 3", "y = 4"},
			[]string{"x = [1]"}, []string{"x = [3]", "y = 4"}},
		{"many, of unequal numbers", []string{"x = 1"}, slices.Repeat([]string{"x = 2"}, 9),
			[]string{"x = 1"}, slices.Repeat([]string{"x = 2"}, 9)},
		{"many, of equal numbers", slices.Repeat([]string{"x = 1"}, 20), slices.Repeat([]string{"x = 2"}, 20),
			slices.Repeat([]string{"x = [1]"}, 20), slices.Repeat([]string{"x = [2]"}, 20)},
		{"two fifths kept", []string{"ab cde"}, []string{"ab fgh"}, []string{"ab [cde]"}, []string{"ab [fgh]"}},
		{"less than two fifths kept", []string{"ab cdef"}, []string{"ab ghij"}, []string{"ab cdef"},
			[]string{"ab ghij"}},
		{"only indentation kept", []string{"\t\t\t\t\t\ta"}, []string{"\t\t\t\t\t\tb"},
			[]string{"\t\t\t\t\t\ta"}, []string{"\t\t\t\t\t\tb"}},
		{"kept of the short line only", []string{"a"}, []string{"a b c d e f"}, []string{"a"}, []string{"a b c d e f"}},
		{"white space", []string{"  "}, []string{"\t"}, []string{"[  ]"}, []string{"[\t]"}},
	}
	for _, tt := range tests {
		o, n := LineWords(tt.old, tt.new)
		marked := func(lines []string, spans [][]Span) []string {
			list := make([]string, len(lines))
			for i := range list {
				list[i] = mark(lines[i], spans[i])
			}
			return list
		}
		got := [][]string{marked(tt.old, o), marked(tt.new, n)}
		if diff := cmp.Diff([][]string{tt.wantOld, tt.wantNew}, got); diff != "" {
			t.Errorf("%s: LineWords (-want +got):\n%s", tt.name, diff)
		}
	}
}

// An edit of many lines that are all hopeless takes little longer than one of
// few.
func BenchmarkLineWords(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 100, 1000} {
		var old, new []string
		for range n {
			old, new = append(old, brackets(rnd, 1000)), append(new, brackets(rnd, 1000))
		}
		b.Run(fmt.Sprintf("lines=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				LineWords(old, new)
			}
		})
	}
}

func checkSpans(t *testing.T, old, new string, oldSpans, newSpans []Span) {
	t.Helper()
	rest := func(s string, spans []Span) string {
		var b strings.Builder
		at := 0
		for _, span := range spans {
			if span.Start < at || span.Start >= span.End {
				t.Fatalf("spansOf(%.100q, %.100q): bad span %v", old, new, span)
			}
			b.WriteString(s[at:span.Start])
			at = span.End
		}
		return b.String() + s[at:]
	}
	if a, b := rest(old, oldSpans), rest(new, newSpans); a != b {
		t.Errorf("spansOf(%.100q, %.100q) leaves %.100q and %.100q as equal", old, new, a, b)
	}
}

func FuzzWords(f *testing.F) {
	f.Add("a b c", "a  b\xffc")
	f.Add("é\u0301 _x1", "é _x1")
	f.Add("größe", "grüße")
	f.Add("ab ab", "ab ab ab")
	f.Fuzz(func(t *testing.T, old, new string) {
		if got := strings.Join(splitWords(old, wordEffort()), ""); got != old {
			t.Fatalf("splitWords(%q) joins to %q", old, got)
		}
		o, n := spansOf(old, new, wordEffort())
		checkSpans(t, old, new, o, n)
		LineWords([]string{old}, []string{new})
	})
}
