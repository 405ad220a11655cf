package patch

import (
	"bytes"
	"unicode/utf8"
)

// exact looks for the same bytes, then for the same but for line ends. nil: it
// is not there.
func (s *search) exact() *Match {
	if m := s.occurrences(s.content, s.old, nil); m != nil {
		return m
	}
	if !bytes.Contains(s.content, crlf) && !bytes.Contains(s.old, crlf) {
		return nil
	}
	content, at := withoutCR(trimBOM(s.content), len(s.content)-len(trimBOM(s.content)))
	old, _ := withoutCR(trimBOM(s.old), 0)
	if len(old) == 0 {
		return nil
	}
	m := s.occurrences(content, old, at)
	if m != nil {
		m.EOLDiffers = true
	}
	return m
}

var (
	crlf = []byte("\r\n")
	lf   = []byte("\n")
	bom  = []byte("\xef\xbb\xbf")
)

func trimBOM(b []byte) []byte { return bytes.TrimPrefix(b, bom) }

// withoutCR returns a text with LF for CRLF, and for each of its bytes, and its
// end, where it was. A line end was at its CR. Offsets begin with first.
func withoutCR(b []byte, first int) (text []byte, at []int) {
	text, at = make([]byte, 0, len(b)), make([]int, 0, len(b)+1)
	for i := 0; i < len(b); i++ {
		at = append(at, first+i)
		if b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n' {
			i++
		}
		text = append(text, b[i])
	}
	return text, append(at, first+len(b))
}

// occurrences finds old in content, whose bytes are at at in the file; nil: in
// their own place. nil is returned if it is not there.
func (s *search) occurrences(content, old []byte, at []int) *Match {
	place := func(i int) Span {
		if at == nil {
			return Span{i, i + len(old)}
		}
		return Span{at[i], at[i+len(old)]}
	}
	// They may overlap: then it is not clear which is meant.
	var places []Span
	next := 0 // where the one after the last that is replaced may begin
	apart := 0
	var all []Span
	for i := 0; ; i++ {
		n := bytes.Index(content[i:], old)
		if n < 0 {
			break
		}
		i += n
		p := place(i)
		if cuts(s.content, p.Start) || cuts(s.content, p.End) {
			continue
		}
		if len(places) < maxCount {
			places = append(places, p)
		}
		if i >= next {
			next = i + len(old)
			apart++
			all = append(all, p)
		}
		if s.Replacements == 1 && len(places) == maxCount {
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
	case s.Replacements != All && apart != s.Replacements:
		m := s.refused(IsAmbiguous, Exact, ReasonCount, all, 1)
		m.Count = apart
		return m
	}
	m := s.found(IsExact, Exact, all[:1], 1, 1)
	if m.Count = apart; apart > 1 {
		m.Spans = all
	}
	return m
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
