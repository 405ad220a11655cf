package patch

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/textdiff"
)

// checkMerged checks what must hold of each merge.
func checkMerged(t *testing.T, c triple, m *Merged) {
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("Merge(%q, %q, %q): "+format, append([]any{c.base, c.ours, c.theirs}, args...)...)
	}
	// Ranges and texts are of each other.
	sideOf := func(name string, s Side, text []byte) {
		lines := textdiff.SplitLines(text)
		if s.Bytes.End > len(text) || !bytes.Equal(s.Text, text[s.Bytes.Start:s.Bytes.End]) {
			fail("%s %+v is not of %q", name, s, text)
		}
		if !bytes.Equal(s.Text, joined(lines[s.Lines.Start:s.Lines.End], false)) {
			fail("%s %+v has not its lines", name, s)
		}
		if !bytes.Equal(text[:s.Bytes.Start], joined(lines[:s.Lines.Start], false)) {
			fail("%s %+v has other lines before it", name, s)
		}
	}
	at := 0
	for i, x := range m.Conflicts {
		sideOf("base", x.Base, c.base)
		sideOf("ours", x.Ours, c.ours)
		sideOf("theirs", x.Theirs, c.theirs)
		sideOf("result", x.Result, m.Text)
		if !bytes.Equal(x.Result.Text, x.Ours.Text) {
			fail("the result has %q for conflict %+v", x.Result.Text, x)
		}
		if bytes.Equal(x.Ours.Text, x.Theirs.Text) {
			fail("no conflict: %+v", x)
		}
		if i > 0 && x.Base.Lines.Start <= at {
			fail("conflict %+v is not after the one before", x)
		}
		at = x.Base.Lines.End
	}
	// What only one side has is in the result or in a conflict, and nothing else.
	fold := func(b []byte) []byte { return b }
	if m.EndsApart {
		fold = toLF
	}
	count := func(texts ...[]byte) map[string]int {
		lines := make(map[string]int)
		for _, text := range texts {
			for _, l := range textdiff.SplitLines(fold(text)) {
				lines[l]++
			}
		}
		return lines
	}
	kept := [][]byte{m.Text}
	for _, x := range m.Conflicts {
		kept = append(kept, x.Ours.Text, x.Theirs.Text)
	}
	base, ours, theirs, result := count(c.base), count(c.ours), count(c.theirs), count(kept...)
	for _, side := range []map[string]int{ours, theirs} {
		for l := range side {
			if base[l] == 0 && result[l] == 0 {
				fail("lost %q", l)
			}
		}
	}
	for l := range count(m.Text) {
		if ours[l]+theirs[l] == 0 {
			fail("%q is no line of a side", l)
		}
	}
	for l, n := range base { // of several one side may keep the first and the other the last
		if n == 1 && ours[l] > 0 && theirs[l] > 0 && result[l] == 0 {
			fail("lost %q, which all have", l)
		}
	}
	ended := func(b []byte) bool { return bytes.HasSuffix(b, lf) }
	if len(c.ours) > 0 && len(m.Text) > 0 && ended(c.base) == ended(c.theirs) && ended(m.Text) != ended(c.ours) {
		fail("the text ends as none has changed it: %q", m.Text)
	}
	// The sides changed over.
	other := Merge(c.base, c.theirs, c.ours, &MergeOptions{Theirs: true})
	same := slices.EqualFunc(m.Conflicts, other.Conflicts, func(a, b Conflict) bool {
		return bytes.Equal(a.Ours.Text, b.Theirs.Text) && bytes.Equal(a.Theirs.Text, b.Ours.Text) &&
			a.Base.Lines == b.Base.Lines && a.Result.Bytes == b.Result.Bytes
	})
	if !same || m.EndsApart != other.EndsApart || !bytes.Equal(m.Text, other.Text) {
		fail("= %+v, changed over %+v", m, other)
	}
}

// short merges texts whose lines are one character each, and writes a conflict as
// {ours|base|theirs}.
func short(base, ours, theirs string) string {
	lines := func(s string) []byte {
		var b []byte
		for _, c := range s {
			b = append(b, string(c)+"\n"...)
		}
		return b
	}
	m := Merge(lines(base), lines(ours), lines(theirs), nil)
	var out []byte
	at := 0
	for _, c := range m.Conflicts {
		out = append(out, m.Text[at:c.Result.Bytes.Start]...)
		out = append(out, "{"+string(c.Ours.Text)+"|"+string(c.Base.Text)+"|"+string(c.Theirs.Text)+"}"...)
		at = c.Result.Bytes.End
	}
	return string(bytes.ReplaceAll(append(out, m.Text[at:]...), lf, nil))
}

func TestMergeRules(t *testing.T) {
	tests := []struct{ rule, base, ours, theirs, want string }{
		{"nothing", "", "", "", ""},
		{"nothing changed", "abc", "abc", "abc", "abc"},
		{"one side changed", "abc", "abc", "aXc", "aXc"},
		{"both, elsewhere", "abcde", "aXcde", "abcYe", "aXcYe"},
		{"both deleted, elsewhere", "abcde", "acde", "abce", "ace"},
		{"both, the same", "abc", "aXc", "aXc", "aXc"},
		{"both, the same and else something", "abcdef", "aXcdeY", "aXcdef", "aXcdeY"},
		{"both, different", "abc", "aXc", "aYc", "a{X|b|Y}c"},
		{"lines beside each other", "abcd", "aXcd", "abYd", "a{Xc|bc|bY}d"},
		{"a line between", "abcde", "aXcde", "abcYe", "aXcYe"},
		{"added at one place", "ab", "aXb", "aYb", "a{X||Y}b"},
		{"added beside a change", "ab", "aXb", "aY", "a{Xb|b|Y}"},
		{"added where the other deleted", "abc", "aXbc", "ac", "a{Xb|b|}c"},
		{"all deleted, one changed", "abc", "", "aXc", "{|abc|aXc}"},
		{"both from nothing", "", "ab", "xb", "{a||x}b"},
		{"common ends leave a conflict", "abc", "aPXQc", "aPYQc", "aP{X|b|Y}Qc"},
		{"one side is the start of the other", "abc", "aPQc", "aPc", "aP{Q|b|}c"},
		{"several edits of one side in one of the other", "abcdef", "aXcYef", "aZf", "a{XcYe|bcde|Z}f"},
		// What one side added could be a line further up, or down, with the same result.
		{"slid to the other's", "a(b)c", "a(b)(x)c", "a(b)(x)c", "a(b)(x)c"},
		{"slid out of the other's way", "f}g}h", "F}g}h", "f}n}g}h", "F}n}g}h"},
		{"slid down", "x}}y", "x}}}y", "X}}y", "X}}}y"},
		{"slid and joined", "aaaa", "aaa", "aaaaa", "aaa{|a|aa}"},
	}
	for _, tt := range tests {
		if got := short(tt.base, tt.ours, tt.theirs); got != tt.want {
			t.Errorf("%s: base %q, ours %q, theirs %q: %q, want %q", tt.rule, tt.base, tt.ours, tt.theirs, got, tt.want)
		}
	}
}

func TestMergeLineEnds(t *testing.T) {
	const conflict = "conflict"
	tests := []struct{ name, base, ours, theirs, want string }{
		{"final end taken away by one", "a\nb\n", "a\nb", "x\nb\n", conflict},
		{"final end taken away, far from the other's", "a\nb\nc\n", "a\nb\nc", "x\nb\nc\n", "x\nb\nc"},
		{"final end added by theirs", "a\nb\nc", "x\nb\nc", "a\nb\nc\n", "x\nb\nc\n"},
		{"added behind a line without end", "a\nb", "a\nb\nc", "x\nb", conflict},
		{"CRLF outside of what changes", "a\r\nb\r\nc\n", "a\r\nb\r\nc\n", "a\r\nb\r\nx\n", "a\r\nb\r\nx\n"},
		{"all converted by ours", "a\nb\nc\n", "a\r\nb\r\nc\r\n", "a\nx\ny\nc\n", "a\r\nx\r\ny\r\nc\r\n"},
		{"all converted by theirs", "a\nb\nc\n", "a\nx\nc\n", "a\r\nb\r\nc\r\n", "a\r\nx\r\nc\r\n"},
		{"to LF by ours", "a\r\nb\r\nc\r\n", "a\nb\nc\n", "a\r\nx\r\nc", "a\nx\nc"},
		{"some converted by ours", "a\nb\nc\n", "a\r\nb\r\nc\n", "a\nx\ny\nc\nd\n", "a\r\nx\r\ny\r\nc\nd\n"},
		{"the end of the line that is replaced", "a\nb\nc\n", "a\nb\r\nc\n", "a\nx\nc\n", "a\nx\r\nc\n"},
		{"converted, with an edit", "a\nb\nc\n", "A\r\nb\r\nc\r\n", "a\nb\nx\n", "A\r\nb\r\nx\r\n"},
		{"converted, with an edit beside", "a\nb\nc\n", "A\r\nb\r\nc\r\n", "a\nx\nc\n", conflict},
		{"to CRLF by both, with edits", "a\nb\nc\n", "A\r\nb\r\nc\r\n", "a\r\nb\r\nx\r\n", "A\r\nb\r\nx\r\n"},
		{"converted by theirs, with an edit", "a\r\nb\r\nc\r\n", "a\r\nb\r\nx\r\n", "A\nb\nc\n", "A\nb\nx\n"},
		{"converted by both, differently", "a\nb\n", "a\r\nb\n", "a\nb\r\n", "a\r\nb\r\n"},
		{"the same line added, with another end", "a\n", "a\nb\n", "a\nb\r\n", conflict},
		{"a lone CR is text", "a\rb\n", "a\rb\r\n", "x\rb\n", "x\rb\r\n"},
		{"converted, a CR before a CRLF", "a\nb\n", "a\nb\r\n", "\r\r\n", conflict},
		{"converted, added at the start", "a\n", "a\r\n", "x\na\n", "x\r\na\r\n"},
		{"a line with its end, beside an end", "a\nb\nc\nd\ne\n", "a\nX\r\nc\nd\ne\n", "a\r\nb\nc\nd\ny\n",
			"a\r\nX\r\nc\nd\ny\n"},
		{"converted, no end at the end", "a\nb", "a\r\nb", "a\nx", "a\r\nx"},
	}
	for _, tt := range tests {
		c := triple{[]byte(tt.base), []byte(tt.ours), []byte(tt.theirs)}
		m := Merge(c.base, c.ours, c.theirs, nil)
		checkMerged(t, c, m)
		got := string(m.Text)
		if len(m.Conflicts) > 0 {
			got = conflict
		}
		if got != tt.want {
			t.Errorf("%s: Merge(%q, %q, %q) = %q, want %q", tt.name, tt.base, tt.ours, tt.theirs, got, tt.want)
		}
	}
}

// Where a side has converted line ends, what is in conflict is as small as it is without
// that: the rest ends as converted, and lines in conflict as their side has them.
func TestMergeLineEndsWithConflict(t *testing.T) {
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	const base, ours, theirs = "1\n2\n3\n4\n5\n6\n", "1\n2\n3\nO\n5\n6\n", "1\nT\n3\nX\n5\n6\n"
	tests := []struct{ name, base, ours, theirs, want string }{
		{"by ours", base, crlf(ours), theirs, crlf("1\nT\n3\nO\n5\n6\n")},
		{"by theirs", base, ours, crlf(theirs), crlf("1\nT\n3\n") + "O\n" + crlf("5\n6\n")},
		{"to LF by theirs", crlf(base), crlf(ours), theirs, "1\nT\n3\nO\r\n5\n6\n"},
		{"to LF by ours", crlf(base), ours, crlf(theirs), "1\nT\n3\nO\n5\n6\n"},
		{"by both", base, crlf(ours), crlf(theirs), crlf("1\nT\n3\nO\n5\n6\n")},
		{"no end at the end", base + "7", crlf(ours) + "8", theirs + "7", crlf("1\nT\n3\nO\n5\n6\n") + "8"},
	}
	for _, tt := range tests {
		c := triple{[]byte(tt.base), []byte(tt.ours), []byte(tt.theirs)}
		m := Merge(c.base, c.ours, c.theirs, nil)
		checkMerged(t, c, m)
		if len(m.Conflicts) != 1 || m.Conflicts[0].Ours.Lines != (Span{3, 4}) || string(m.Text) != tt.want {
			t.Errorf("%s: %q, want %q: %+v", tt.name, m.Text, tt.want, m.Conflicts)
		}
	}
}

func TestMergeMarkers(t *testing.T) {
	tests := []struct{ name, base, ours, theirs, want string }{
		{"none", "a\n", "a\n", "b\n", "b\n"},
		{"one", "a\nb\nc\n", "a\nX\nc\n", "a\nY\nc\n",
			"a\n<<<<<<< now\nX\n||||||| after turn 7\nb\n=======\nY\n>>>>>>> before turn 7\nc\n"},
		{"CRLF", "a\r\nb\r\n", "a\r\nX\r\n", "a\r\nY\r\n",
			"a\r\n<<<<<<< now\r\nX\r\n||||||| after turn 7\r\nb\r\n=======\r\nY\r\n>>>>>>> before turn 7\r\n"},
		{"no end at the end", "b", "X", "",
			"<<<<<<< now\nX\n||||||| after turn 7\nb\n=======\n>>>>>>> before turn 7\n"},
		{"markers in the text", "=======\nb\n", "=======\nX\n", "=======\n<<<<<<<< Y\n",
			"=======\n<<<<<<<<< now\nX\n||||||||| after turn 7\nb\n=========\n<<<<<<<< Y\n>>>>>>>>> before turn 7\n"},
	}
	for _, tt := range tests {
		m := Merge([]byte(tt.base), []byte(tt.ours), []byte(tt.theirs), nil)
		if got := string(m.Markers("now", "after turn 7", "before turn\n7")); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Where a differ gives up, what both changed there is a conflict: nothing is
// guessed. Else the coarse edit is taken.
func TestMergeWithoutEffort(t *testing.T) {
	whole := func(old, new []int32, _ int) []textdiff.Edit {
		if slices.Equal(old, new) {
			return nil
		}
		return []textdiff.Edit{{OldEnd: len(old), NewEnd: len(new)}}
	}
	rng := testseed.Rand(t)
	for range 500 {
		c := tinyCase(t, rng)
		m := mergeLines(c.base, c.ours, c.theirs, nil, whole)
		changed := !bytes.Equal(c.base, c.ours) && !bytes.Equal(c.base, c.theirs) && !bytes.Equal(c.ours, c.theirs)
		if changed != (len(m.Conflicts) > 0) {
			t.Fatalf("%q: %d conflicts", c, len(m.Conflicts))
		}
	}
	c := triple{[]byte("a\nb\nc\n"), []byte("x\nb\nc\n"), []byte("a\nb\nc\n")}
	if m := mergeLines(c.base, c.ours, c.theirs, nil, whole); !bytes.Equal(m.Text, c.ours) || len(m.Conflicts) > 0 {
		t.Errorf("one side's change: %+v", m)
	}
}

// checkTrivial checks what the merge of any two texts with one of them is.
func checkTrivial(t *testing.T, x, y []byte) {
	t.Helper()
	for _, tt := range []struct {
		name   string
		merged *Merged
		want   []byte
	}{
		{"ours is base", Merge(x, x, y, nil), y},
		{"theirs is base", Merge(x, y, x, nil), y},
		{"both are the same", Merge(x, y, y, nil), y},
	} {
		if len(tt.merged.Conflicts) > 0 || tt.merged.EndsApart || !bytes.Equal(tt.merged.Text, tt.want) {
			t.Errorf("%s: of %q and %q Merge makes %+v", tt.name, x, y, tt.merged)
		}
	}
}

func FuzzMerge(f *testing.F) {
	for _, s := range [][3]string{
		{"a\nb\nc\n", "a\nX\nc\n", "a\nY\nc\n"},
		{"f\n}\ng\n}\n", "F\n}\ng\n}\n", "f\n}\nn\n}\ng\n}\n"},
		{"a\nb\n", "a\r\nb\r\n", "a\nx\n"},
		{"a\nb\nc\nd\n", "a\r\nb\r\nx\r\nd\r\n", "y\nb\nz\nd\n"},
		{"a\nb", "a\nb\n", "b"},
		{"", "\n", "\r\n"},
		{"<<<<<<<\n\x00\xff\n", "<<<<<<<\n=======\n", "|||||||\n\x00\xff"},
		{"a\na\nb\na\na\nb\n", "a\nb\na\nb\na\n", "b\na\na\nb\nb\n"},
	} {
		f.Add([]byte(s[0]), []byte(s[1]), []byte(s[2]))
	}
	f.Fuzz(func(t *testing.T, base, ours, theirs []byte) {
		c := triple{base, ours, theirs}
		m := Merge(base, ours, theirs, nil)
		checkMerged(t, c, m)
		checkTrivial(t, base, ours)
		checkTrivial(t, ours, theirs)
		marked := m.Markers("ours", "base", "theirs")
		if len(m.Conflicts) == 0 && !bytes.Equal(marked, m.Text) {
			t.Errorf("without a conflict Markers makes %q of %q", marked, m.Text)
		}
	})
}
