package patch

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// exact looks for the same bytes, then for the same but for line ends. nil: it
// is not there.
func (s *search) exact() *Match {
	// Where old begins or ends within a line end there may be places that only
	// the second way finds, and it finds the others, too.
	hasCRLF := bytes.Contains(s.content, crlf)
	if within := s.old[0] == '\n' || s.old[len(s.old)-1] == '\r'; !within || !hasCRLF {
		if m := s.occurrences(s.content, s.old, new(offsets)); m != nil {
			return m
		}
	}
	if !hasCRLF && !bytes.Contains(s.old, crlf) {
		return nil
	}
	content, at := withoutCR(trimBOM(s.content), len(s.content)-len(trimBOM(s.content)))
	old, _ := withoutCR(trimBOM(s.old), 0)
	if len(old) == 0 {
		return nil
	}
	m := s.occurrences(content, old, at)
	if m != nil {
		m.EOLDiffers = !m.Found() || !bytes.Equal(s.content[m.Start:m.End], s.old)
	}
	return m
}

var (
	crlf = []byte("\r\n")
	lf   = []byte("\n")
	bom  = []byte("\xef\xbb\xbf")
)

func trimBOM(b []byte) []byte { return bytes.TrimPrefix(b, bom) }

// An offsets tells where the bytes of a text that was made shorter were before.
type offsets struct {
	first int      // offset of the first byte
	at    []int    // bytes of the short text that stand for several
	more  []int    // how many more the long one has up to there
	outer *offsets // of the long text, if that was made shorter itself
}

// shorten takes note that the byte at an offset stands for 1+more.
func (o *offsets) shorten(at, more int) {
	if n := len(o.more); n > 0 {
		more += o.more[n-1]
	}
	o.at, o.more = append(o.at, at), append(o.more, more)
}

// before returns where a byte was, or the end.
func (o *offsets) before(i int) int {
	if n, _ := slices.BinarySearch(o.at, i); n > 0 {
		i += o.more[n-1]
	}
	if i += o.first; o.outer != nil {
		i = o.outer.before(i)
	}
	return i
}

// withoutCR returns a text with LF for CRLF, and where its bytes were. A line
// end was at its CR. Offsets begin with first.
func withoutCR(b []byte, first int) ([]byte, *offsets) {
	text, at := make([]byte, 0, len(b)), &offsets{first: first}
	for {
		n := bytes.Index(b, crlf)
		if n < 0 {
			return append(text, b...), at
		}
		text = append(text, b[:n]...)
		at.shorten(len(text), 1)
		text = append(text, '\n')
		b = b[n+2:]
	}
}

// occurrences finds old in content; nil: it is not there.
func (s *search) occurrences(content, old []byte, at *offsets) *Match {
	place := func(i int) Span { return Span{at.before(i), at.before(i + len(old))} }
	// They may overlap: then it is not clear which is meant.
	var places []Span
	next := 0 // where the one after the last that is replaced may begin
	apart := 0
	var all []Span
	for i := 0; ; i++ {
		n := index(content[i:], old)
		if n < 0 {
			break
		}
		if i += n; !s.spend(1 + len(old)/8) {
			return nil
		}
		p := place(i)
		if cuts(s.content, p.Start) || cuts(s.content, p.End) {
			continue
		}
		if s.lines && !s.isWhole(p.Start, p.End) {
			continue
		}
		if len(places) < s.maxPlaces() {
			places = append(places, p)
		}
		if i >= next {
			next = i + len(old)
			apart++
			all = append(all, p)
		}
		if s.Replacements == 1 && len(places) == s.maxPlaces() {
			break
		}
		if s.Replacements != 1 {
			i = next - 1
		}
	}
	switch {
	case len(places) == 0:
		return nil
	case s.Replacements == 1:
		return s.found(IsExact, Exact, places, len(places), 1)
	case s.Replacements != replaceAll && apart != s.Replacements:
		m := s.refused(IsAmbiguous, Exact, reasonCount, all, 1)
		m.Count = apart
		return m
	}
	m := s.found(IsExact, Exact, all[:1], 1, 1)
	if m.Count = apart; apart > 1 {
		m.Spans = all
	}
	return m
}

// index is bytes.Index, which looks for more than 63 bytes by a rolling hash, and
// for fewer by vector instructions: a piece is looked for first, until it misleads
// too often.
func index(content, old []byte) int {
	const size = 32
	if len(old) < 2*size {
		return bytes.Index(content, old)
	}
	skip := (len(old) - size) / 2
	piece := old[skip : skip+size]
	for i, misled := 0, 0; misled < 16; misled++ {
		if i+len(old) > len(content) {
			return -1
		}
		n := bytes.Index(content[i+skip:len(content)-len(old)+skip+size], piece)
		if n < 0 {
			return -1
		}
		if i += n; bytes.HasPrefix(content[i:], old) {
			return i
		}
		i++
	}
	return bytes.Index(content, old)
}

// cuts reports whether an offset is within a character or a CRLF.
func cuts(b []byte, i int) bool {
	if i == 0 || i == len(b) {
		return false
	}
	if b[i] == '\n' && b[i-1] == '\r' {
		return true
	}
	if utf8.RuneStart(b[i]) {
		return false
	}
	for j := i - 1; j >= 0 && j > i-utf8.UTFMax; j-- {
		if utf8.RuneStart(b[j]) {
			_, n := utf8.DecodeRune(b[j:])
			return j+n > i
		}
	}
	return false
}
