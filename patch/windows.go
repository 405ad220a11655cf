package patch

import (
	"bytes"
	"iter"
	"slices"
	"unicode"
	"unicode/utf8"
)

// whitespace looks for lines that are the same but for blanks at their ends, and
// if there are none, at both ends.
func (s *search) whitespace() *Match {
	both := s.windows(foldBlanks)
	if len(both) == 0 {
		return nil
	}
	places := s.windows(foldEnds)
	if len(places) == 0 {
		places = both
	}
	return s.found(IsFuzzy, Whitespace, places, len(places), 1)
}

// unicode looks for lines that are the same in plain form, then within lines.
func (s *search) unicode() *Match {
	switch places := s.windows(foldPlain); {
	case len(places) > 0:
		return s.found(IsFuzzy, Unicode, places, len(places), 1)
	case s.WholeLines:
		return nil
	}
	return s.within()
}

// windows returns the places of as many lines as old has that are the same in a
// fold.
func (s *search) windows(f fold) (places []Span) {
	for start := range s.file.find(s.needle, f) {
		if places = append(places, s.file.span(start, start+len(s.needle.lines))); len(places) == s.maxPlaces() {
			break
		}
	}
	return places
}

// find yields the lines from which on a text has some lines, in a fold. They are
// found by their hashes (Knuth, Morris, Pratt), of 64 bits under a seed that no
// text can know.
func (t *lined) find(lines *lined, f fold) iter.Seq[int] {
	return func(yield func(int) bool) {
		file, needle := t.hash(f), lines.hash(f)
		k := len(needle)
		if k == 0 || k > len(file) {
			return
		}
		border := make([]int, k+1) // of each beginning of the needle, the length of the longest that also ends it
		border[0] = -1
		for i, j := 0, -1; i < k; {
			for j >= 0 && needle[i] != needle[j] {
				j = border[j]
			}
			i, j = i+1, j+1
			border[i] = j
		}
		for i, j := 0, 0; i < len(file); i++ {
			for j >= 0 && file[i] != needle[j] {
				j = border[j]
			}
			if j++; j == k {
				if !yield(i - k + 1) {
					return
				}
				j = border[j]
			}
		}
	}
}

// hasAt reports whether a text has some lines from one on.
func (t *lined) hasAt(start int, lines *lined, f fold) bool {
	if start < 0 || start+len(lines.lines) > len(t.lines) {
		return false
	}
	for i, l := range lines.lines {
		if !bytes.Equal(f.of(t.lines[start+i].content), f.of(l.content)) {
			return false
		}
	}
	return true
}

// minWithin is how many characters that are no blanks a text must have to be
// looked for within lines.
const minWithin = 8

// within finds old within lines, in plain form and whatever the line ends; nil:
// it is not there.
func (s *search) within() *Match {
	first, last := s.needle.lines[0], s.needle.lines[len(s.needle.lines)-1]
	old, _ := plainForm(s.old[first.start:last.end], 0)
	if chars(old) < minWithin {
		return nil
	}
	skip := len(s.content) - len(trimBOM(s.content))
	content, at := plainForm(s.content[skip:], skip)
	var places []Span
	for i := 0; len(places) < s.maxPlaces(); i++ {
		n := index(content[i:], old)
		if n < 0 {
			break
		}
		if i += n; !s.spend(1 + len(old)/8) {
			return nil
		}
		p := Span{at.before(i), at.before(i + len(old))}
		if !cuts(s.content, p.Start) && !cuts(s.content, p.End) {
			places = append(places, p)
		}
	}
	if len(places) == 0 {
		return nil
	}
	return s.found(IsFuzzy, Unicode, places, len(places), 1)
}

// plainForm returns a text in plain form with LF for CRLF, and where its bytes
// were. Offsets begin with first.
func plainForm(b []byte, first int) ([]byte, *offsets) {
	b, crs := withoutCR(b, first)
	text, at := make([]byte, 0, len(b)), new(offsets)
	for i := 0; i < len(b); {
		if n := asciiLen(b[i:]); n > 0 {
			text = append(text, b[i:i+n]...)
			i += n
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		if c := plainOf(r); c != 0 {
			at.shorten(len(text), n-1)
			text = append(text, c)
		} else {
			text = append(text, b[i:i+n]...)
		}
		i += n
	}
	at.outer = crs
	return text, at
}

// chars counts the characters of a text that are no blanks.
func chars(b []byte) (n int) {
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if !unicode.IsSpace(r) {
			n++
		}
		i += size
	}
	return n
}

// elisions returns the lines that stand for others.
func (t *lined) elisions() (list []string) {
	for _, l := range t.lines {
		if isElision(l) {
			list = append(list, string(foldBlanks.of(l.content)))
		}
	}
	return list
}

// keepsElisions reports whether a new text has the same elisions as the old one.
func (s *search) keepsElisions(new []byte) bool {
	return slices.Equal(s.needle.elisions(), newLined(new).elisions())
}
