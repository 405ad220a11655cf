// Package words says things as people read them: names, numbers, lists.
package words

import (
	"fmt"
	"iter"
	"os"
	"strconv"
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
// names reads these. On Windows a backslash is what paths are made of, and stays.
func Quote(name string) string {
	for char, isPlain := range characters(name) {
		if !isPlain && (char != `\` || os.PathSeparator != '\\') {
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
				isPlain = !isHidden(r) || isJoiner(r) && before >= utf8.RuneSelf
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

// Plain returns a text of one or more lines as a terminal may have it, where nobody has to type it
// again: characters that cannot be seen, and bytes that are not UTF-8, are replaced, not escaped
// as by [Quote].
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && isHidden(r) && !isJoiner(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
}

// isHidden reports whether a character cannot be seen, and moves or hides what stands around it.
func isHidden(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

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

// ShellQuote returns an argument as a shell takes it, and people can read it: as it is, if no
// character of it means anything to a shell, else in single quotes or, if it holds a character that
// cannot be seen or is not UTF-8, with escapes in $'…', which is of POSIX since 2024.
func ShellQuote(arg string) string {
	escaped, isShown := []byte("$'"), true
	for char, isPlain := range characters(arg) {
		switch {
		case char == "'", char == `\`:
			escaped = append(escaped, '\\', char[0])
		case isPlain, char == `"`:
			escaped = append(escaped, char...)
		default:
			isShown = false
			for i := range len(char) {
				escaped = fmt.Appendf(escaped, `\%03o`, char[i])
			}
		}
	}
	if !isShown {
		return string(append(escaped, '\''))
	}
	isPlain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r >= 0xa0 ||
			strings.ContainsRune("@%+=:,./_-~", r)
	}
	if arg != "" && arg[0] != '~' && strings.IndexFunc(arg, func(r rune) bool { return !isPlain(r) }) < 0 {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// Comma writes a number with commas between thousands.
func Comma[T int | int64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count writes a number of things: 1 file, 2 files, 2 directories, 2 days.
func Count[T int | int64](n T, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "y") && !strings.HasSuffix(thing, "ay"):
		thing = thing[:len(thing)-1] + "ies"
	default:
		thing += "s"
	}
	return Comma(n) + " " + thing
}

// Size writes a number of bytes in two or three digits: 41 KB, 1.3 GB.
func Size(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	f := float64(n)
	for _, unit := range []string{"KB", "MB", "GB", "TB", "PB", "EB"} {
		f /= 1000
		switch {
		case f < 9.95:
			return fmt.Sprintf("%.1f %s", f, unit)
		case f < 999.5:
			return fmt.Sprintf("%.0f %s", f, unit)
		}
	}
	return strconv.FormatInt(n, 10) + " B"
}

// BytesUnlessText returns the bytes of a text that JSON cannot hold, nil if it can: that
// is, if the text is UTF-8. They come beside it.
func BytesUnlessText(s string) []byte {
	if utf8.ValidString(s) {
		return nil
	}
	return []byte(s)
}

// TextOrBytes returns the text that came in JSON as s, and, if that could not hold it,
// as b beside it.
func TextOrBytes(s string, b []byte) string {
	if b != nil {
		return string(b)
	}
	return s
}

// OrNull returns what JSON shows for a string, null if it is empty.
func OrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
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
