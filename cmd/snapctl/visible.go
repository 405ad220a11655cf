package main

import (
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"
)

// What files hold is not for a terminal to obey: an agent, or what it read, may have
// written a file whose bytes set the clipboard, move the cursor over what was printed,
// or answer for the user.

// appendVisible appends a text with its control characters as git and less show
// them, ^[ for ESC, and \x9b for what is none of ASCII's or is not UTF-8. Tabs and
// ends of lines stay, and so does a CR before LF unless all are to be seen. Unless it
// is the end of the text, what cannot be told yet is the rest.
func appendVisible(dst, text []byte, allCR, atEnd bool) (out, rest []byte) {
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\n' || c == '\t' || ' ' <= c && c < 0x7f:
			dst = append(dst, c)
			i++
		case c == '\r' && !allCR && i+1 == len(text) && !atEnd:
			return dst, text[i:]
		case c == '\r' && !allCR && i+1 < len(text) && text[i+1] == '\n':
			dst = append(dst, c)
			i++
		case c < utf8.RuneSelf:
			dst = append(dst, '^', c^0x40)
			i++
		case !atEnd && !utf8.FullRune(text[i:]):
			return dst, text[i:]
		default:
			r, size := utf8.DecodeRune(text[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				dst = fmt.Appendf(dst, `\x%02x`, c)
			case r < 0xa0: // C1
				dst = fmt.Appendf(dst, `\x%02x`, r)
			default:
				dst = append(dst, text[i:i+size]...)
			}
			i += size
		}
	}
	return dst, nil
}

// visible returns a text as a terminal may have it.
func visible(text []byte) []byte {
	out, _ := appendVisible(nil, text, false, true)
	return out
}

// visiblePatch is visible for the patch of one file. Where some of its lines end in CR
// LF, and others do not, that is to be seen.
func visiblePatch(text []byte) []byte {
	inHunk, with, without := false, false, false
	for line := range bytes.Lines(text) {
		switch {
		case line[0] == '@':
			inHunk = true
		case !inHunk || line[0] == '\\':
		case bytes.HasSuffix(line, []byte("\r\n")):
			with = true
		default:
			without = true
		}
	}
	out, _ := appendVisible(nil, text, with && without, true)
	return out
}

// A visibleWriter writes what it is given as a terminal may have it.
type visibleWriter struct {
	w    io.Writer
	rest []byte // that is not written yet
}

func (v *visibleWriter) Write(b []byte) (int, error) {
	text := append(v.rest, b...)
	out, rest := appendVisible(nil, text, false, false)
	v.rest = bytes.Clone(rest)
	if _, err := v.w.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// end writes the rest.
func (v *visibleWriter) end() error {
	out, _ := appendVisible(nil, v.rest, false, true)
	v.rest = nil
	_, err := v.w.Write(out)
	return err
}
