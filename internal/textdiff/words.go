package textdiff

import (
	"unicode"
	"unicode/utf8"
)

// A Span is the bytes [Start, End) of a line.
type Span struct{ Start, End int }

// LineWords returns the spans that differ within the lines of one edit: those of
// removed[i] in removedSpans[i], those of added[i] in addedSpans[i]. The i-th
// lines of both are compared by words if the edit has as many of one as of the
// other, or few of both. Lines without a partner have no spans, and neither have
// two that share less than two fifths of their text, white space aside: they are
// not one line that changed. Lines come without their line ends.
func LineWords(removed, added []string) (removedSpans, addedSpans [][]Span) {
	removedSpans, addedSpans = make([][]Span, len(removed)), make([][]Span, len(added))
	if len(removed) != len(added) && max(len(removed), len(added)) > fewLines {
		return removedSpans, addedSpans
	}
	left := wordEffort()
	for i := range min(len(removed), len(added)) {
		a, b := spansOf(removed[i], added[i], left)
		keptA, allA := kept(removed[i], a)
		keptB, allB := kept(added[i], b)
		if 5*min(keptA, keptB) >= 2*max(allA, allB) {
			removedSpans[i], addedSpans[i] = a, b
		}
	}
	return removedSpans, addedSpans
}

// fewLines bounds the lines of an edit that pair though their numbers differ.
const fewLines = 8

// wordEffort is for a pair of lines, or all those of an edit: 100 kB of program
// text on both sides are 80,000 words, which take 7 ms if they have little in
// common (AMD EPYC, November 2026, BenchmarkWords).
func wordEffort() *effort { return &effort{difflib: 1e5, myers: 2e5, words: 1e5} }

// spansOf returns the spans of old and of new that differ, in order. Words, runs
// of white space and single other characters are compared whole. Where that would
// take long, in long lines that differ a lot, a whole stretch becomes one span.
func spansOf(old, new string, left *effort) (oldSpans, newSpans []Span) {
	// The common ends are left out here, before cutting, because the lines that
	// take long differ in a few words.
	at := commonStart(old, new)
	end := commonEnd(old, new, at)
	old, new = old[at:len(old)-end], new[at:len(new)-end]
	a, b := splitWords(old, left), splitWords(new, left)
	i, j := at, at // bytes before the current edit
	x, y := 0, 0   // words before it
	for _, e := range edits(a, b, left) {
		i += size(a[x:e.OldStart])
		j += size(b[y:e.NewStart])
		deleted, added := size(a[e.OldStart:e.OldEnd]), size(b[e.NewStart:e.NewEnd])
		oldSpans, newSpans = appendSpan(oldSpans, i, deleted), appendSpan(newSpans, j, added)
		i, j = i+deleted, j+added
		x, y = e.OldEnd, e.NewEnd
	}
	return oldSpans, newSpans
}

// appendSpan appends the n bytes from start, if there are any.
func appendSpan(list []Span, start, n int) []Span {
	if n == 0 {
		return list
	}
	return append(list, Span{start, start + n})
}

// commonStart returns the length of what a and b both begin with, in whole
// words.
func commonStart(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	for inWord(a, n) || inWord(b, n) {
		n--
	}
	return n
}

// commonEnd returns the length of what a and b both end with after their first
// start bytes, in whole words.
func commonEnd(a, b string, start int) int {
	n := 0
	for n < len(a)-start && n < len(b)-start && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	for inWord(a, len(a)-n) || inWord(b, len(b)-n) {
		n--
	}
	return n
}

// inWord reports whether a cut of s before byte i would cut a word, a run of
// white space or a character.
func inWord(s string, i int) bool {
	if i == 0 || i == len(s) {
		return false
	}
	if !utf8.RuneStart(s[i]) {
		return true
	}
	before, _ := utf8.DecodeLastRuneInString(s[:i])
	after, _ := utf8.DecodeRuneInString(s[i:])
	c := classOf(after)
	return c == classOf(before) && c != other
}

// kept returns how many bytes of s are outside of spans, and how many there are,
// white space not counted.
func kept(s string, spans []Span) (outside, all int) {
	for i, r := range s {
		for len(spans) > 0 && i >= spans[0].End {
			spans = spans[1:]
		}
		if unicode.IsSpace(r) {
			continue
		}
		n := max(utf8.RuneLen(r), 1)
		all += n
		if len(spans) == 0 || i < spans[0].Start {
			outside += n
		}
	}
	return outside, all
}

// splitWords cuts s so that the pieces joined give s. It takes their number from
// left; when nothing is left, the rest of s is one piece.
func splitWords(s string, left *effort) []string {
	var words []string
	start, inClass := 0, other
	for i := 0; i < len(s) && len(words) < left.words; {
		r, n := utf8.DecodeRuneInString(s[i:])
		c := classOf(r)
		if i > start && (c != inClass || c == other) {
			words = append(words, s[start:i])
			start = i
		}
		inClass = c
		i += n
	}
	if start < len(s) {
		words = append(words, s[start:])
	}
	left.words = max(left.words-len(words), 0)
	return words
}

type class int

const (
	other class = iota
	word
	space
)

func classOf(r rune) class {
	switch {
	case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r), r == '_':
		return word
	case unicode.IsSpace(r):
		return space
	}
	return other
}

func size(words []string) int {
	n := 0
	for _, w := range words {
		n += len(w)
	}
	return n
}
