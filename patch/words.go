package patch

import (
	"unicode"
	"unicode/utf8"
)

// A Span is the bytes [Start, End) of a string.
type Span struct{ Start, End int }

// Words returns the spans of old and of new that differ, in order, for showing
// what changed within a line. Words, runs of white space and single other
// characters are compared whole.
func Words(old, new string) (oldSpans, newSpans []Span) {
	a, b := splitWords(old), splitWords(new)
	i, j := 0, 0 // bytes before the current edit
	x, y := 0, 0 // words before it
	for _, e := range edits(a, b) {
		i += size(a[x:e.OldStart])
		j += size(b[y:e.NewStart])
		deleted, added := size(a[e.OldStart:e.OldEnd]), size(b[e.NewStart:e.NewEnd])
		if deleted > 0 {
			oldSpans = append(oldSpans, Span{i, i + deleted})
		}
		if added > 0 {
			newSpans = append(newSpans, Span{j, j + added})
		}
		i, j = i+deleted, j+added
		x, y = e.OldEnd, e.NewEnd
	}
	return oldSpans, newSpans
}

// splitWords cuts s so that the pieces joined give s.
func splitWords(s string) []string {
	var words []string
	start, inClass := 0, other
	for i := 0; i < len(s); {
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
