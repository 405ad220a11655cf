package patch

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A lined is a text as lines. A line ends with LF or CRLF; a lone CR, a form
// feed and the line separators of Unicode are text. There is no line after the
// last line end, and a byte order mark is in none.
type lined struct {
	bytes []byte
	lines []line
	tail  []byte // of a merged text: the end of its last line in the file, if that is a line of the file

	hashes [numFolds][]uint64 // of the lines, when they are needed
}

// A line is one without its end.
type line struct {
	start, end int // in the text
	content    []byte
}

func newLined(b []byte) *lined {
	t := &lined{bytes: b, lines: make([]line, 0, 1+bytes.Count(b, lf))}
	for at := len(b) - len(trimBOM(b)); at < len(b); {
		end, next := len(b), len(b)
		if n := bytes.IndexByte(b[at:], '\n'); n >= 0 {
			end, next = at+n, at+n+1
			if end > at && b[end-1] == '\r' {
				end--
			}
		}
		t.lines = append(t.lines, line{start: at, end: end, content: b[at:end]})
		at = next
	}
	return t
}

// withBOM returns the text with its byte order mark, if it has one, in the first
// line.
func (t *lined) withBOM() *lined {
	skip := len(t.bytes) - len(trimBOM(t.bytes))
	if skip == 0 {
		return t
	}
	c := &lined{bytes: t.bytes, lines: slices.Clone(t.lines)}
	if len(c.lines) == 0 {
		c.lines = []line{{end: skip}}
	}
	c.lines[0].start, c.lines[0].content = 0, t.bytes[:c.lines[0].end]
	return c
}

// dropBlankEnds drops blank lines at both ends. It returns how many.
func (t *lined) dropBlankEnds() (before, after int) {
	for len(t.lines) > 0 && isBlank(t.lines[0].content) {
		t.lines = t.lines[1:]
		before++
	}
	for n := len(t.lines); n > 0 && isBlank(t.lines[n-1].content); n-- {
		t.lines = t.lines[:n-1]
		after++
	}
	return before, after
}

func isBlank(b []byte) bool { return len(bytes.TrimSpace(b)) == 0 }

// span returns the bytes of the lines [i, j), without the end of the last.
func (t *lined) span(i, j int) Span { return Span{t.lines[i].start, t.lines[j-1].end} }

// A fold is what of a line is compared.
type fold int

const (
	literal    fold = iota // all of it
	foldEnds               // without blanks at the end
	foldBlanks             // without blanks at both ends
	foldPlain              // so, with plain quotes, dashes and spaces
	numFolds
)

// of returns a line in a form.
func (f fold) of(b []byte) []byte {
	switch f {
	case literal:
		return b
	case foldPlain:
		b = canonical(b)
	}
	// Most blanks are ASCII, and unicode.IsSpace is a call for each.
	for n := len(b); n > 0 && isBlankASCII(b[n-1]); n-- {
		b = b[:n-1]
	}
	if n := len(b); n > 0 && b[n-1] >= utf8.RuneSelf {
		b = bytes.TrimRightFunc(b, unicode.IsSpace)
	}
	if f == foldEnds {
		return b
	}
	for len(b) > 0 && isBlankASCII(b[0]) {
		b = b[1:]
	}
	if len(b) > 0 && b[0] >= utf8.RuneSelf {
		b = bytes.TrimLeftFunc(b, unicode.IsSpace)
	}
	return b
}

func isBlankASCII(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

var seed = maphash.MakeSeed()

// hash returns the hashes of the lines in a form.
func (t *lined) hash(f fold) []uint64 {
	if t.hashes[f] == nil {
		t.hashes[f] = make([]uint64, len(t.lines))
		blanks := t.hashes[foldBlanks]
		for i, l := range t.lines {
			if f == foldPlain && blanks != nil && !hasFancy(l.content) {
				t.hashes[f][i] = blanks[i]
			} else {
				t.hashes[f][i] = maphash.Bytes(seed, f.of(l.content))
			}
		}
	}
	return t.hashes[f]
}

// plainOf returns the plain form of a character that models write for a plain
// one, and the other way round; 0: it is plain.
func plainOf(r rune) byte {
	switch r {
	case '\u2018', '\u2019', '\u201a', '\u201b':
		return '\''
	case '\u201c', '\u201d', '\u201e', '\u201f', '\u00ab', '\u00bb':
		return '"'
	case '\u2010', '\u2011', '\u2012', '\u2013', '\u2014', '\u2015', '\u2212':
		return '-'
	case '\u00a0', '\u202f', '\u205f', '\u3000':
		return ' '
	}
	if r >= '\u2002' && r <= '\u200a' {
		return ' '
	}
	return 0
}

// canonical returns a text with plain quotes, dashes and spaces. It is the text
// itself if it has no others.
func canonical(b []byte) []byte {
	if !hasFancy(b) {
		return b
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		if n := asciiLen(b[i:]); n > 0 {
			out = append(out, b[i:i+n]...)
			i += n
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		if c := plainOf(r); c != 0 {
			out = append(out, c)
		} else {
			out = append(out, b[i:i+n]...)
		}
		i += n
	}
	return out
}

// hasFancy reports whether canonical changes a text.
func hasFancy(b []byte) bool {
	for i := asciiLen(b); i < len(b); i += asciiLen(b[i:]) {
		r, n := utf8.DecodeRune(b[i:])
		if plainOf(r) != 0 {
			return true
		}
		i += n
	}
	return false
}

// asciiLen returns how many bytes at the start of a text are ASCII.
func asciiLen(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		if high := binary.LittleEndian.Uint64(b[i:]) & 0x8080808080808080; high != 0 {
			return i + bits.TrailingZeros64(high)/8
		}
	}
	for ; i < len(b) && b[i] < utf8.RuneSelf; i++ {
	}
	return i
}

// isElision reports whether a line stands for lines that were left out, like
// "..." or "// ... existing code ...".
func isElision(l line) bool {
	s := strings.TrimSpace(string(l.content))
	for _, mark := range []string{"//", "#", "--", "/*", "<!--", ";", "{/*"} {
		if rest, ok := strings.CutPrefix(s, mark); ok {
			s = rest
			break
		}
	}
	for _, mark := range []string{"*/}", "*/", "-->"} {
		s = strings.TrimSuffix(s, mark)
	}
	s = strings.ReplaceAll(strings.TrimSpace(s), "\u2026", "...")
	if strings.Trim(s, ".") == "" {
		return len(s) >= len("...")
	}
	return strings.HasPrefix(s, "... ") && strings.HasSuffix(s, " ...")
}
