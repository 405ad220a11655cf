// Package words says things as people read them: names, numbers, lists.
package words

import (
	"fmt"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quote returns a name, or another text of one line, for people to read: as it
// is, letters of all scripts included, or in double quotes with C's escapes if it
// holds what they could not tell from something else. That is a control
// character, a double quote, a backslash, a byte that is not UTF-8, and a
// character that cannot be seen and moves or hides what stands around it, such as
// U+202E. git, with core.quotePath off, differs in the last two. What reads git's
// names reads these.
func Quote(name string) string {
	for _, isPlain := range characters(name) {
		if !isPlain {
			return Quoted(name)
		}
	}
	return name
}

// Quoted is Quote for a name that is to have its quotes in any case.
func Quoted(name string) string {
	q := []byte{'"'}
	for char, isPlain := range characters(name) {
		switch {
		case isPlain:
			q = append(q, char...)
		case len(char) == 1 && escape(char[0]) != octal:
			q = append(q, '\\', escape(char[0]))
		default:
			for i := range len(char) {
				q = fmt.Appendf(q, `\%03o`, char[i])
			}
		}
	}
	return string(append(q, '"'))
}

// characters yields the characters of a text, a byte that is not UTF-8 as one,
// and whether each stands for itself.
func characters(text string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		before := rune(0)
		for len(text) > 0 {
			r, size := utf8.DecodeRuneInString(text)
			isPlain := escape(text[0]) == 0
			if r >= utf8.RuneSelf && size > 1 {
				isHidden := unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
				isPlain = !isHidden || isJoiner(r) && before >= utf8.RuneSelf
			}
			if !yield(text[:size], isPlain) {
				return
			}
			before, text = r, text[size:]
		}
	}
}

// isJoiner reports whether a character says how those beside it are joined:
// several scripts, and pictures, are not spelled without.
func isJoiner(r rune) bool { return r == '\u200c' || r == '\u200d' }

// octal is what escape returns for bytes that have no letter.
const octal = 'o'

// escape returns what follows the backslash in place of c, or 0 if c stands
// for itself.
func escape(c byte) byte {
	switch {
	case '\a' <= c && c <= '\r':
		return "abtnvfr"[c-'\a']
	case c == '"' || c == '\\':
		return c
	case c < ' ' || c >= 0x7f:
		return octal
	}
	return 0
}

// FirstLine returns the first line of a text, or at most n characters of it and "…".
func FirstLine(text string, n int) string {
	line, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	line = strings.TrimSpace(line)
	if r := []rune(line); len(r) > n {
		line, more = strings.TrimSpace(string(r[:n])), true
	}
	if more {
		line += "…"
	}
	return line
}
