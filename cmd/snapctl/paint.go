package main

import (
	"bytes"
	"strings"

	"github.com/boocode/filestore/internal/textdiff"
)

// paintPatch colours a patch, and underlines what changed within a line.
func (a *app) paintPatch(text []byte) []byte {
	var out strings.Builder
	var removed, added []string // lines of the edit that is being read
	flush := func() {
		old, new := textdiff.LineWords(removed, added)
		for i, line := range removed {
			out.WriteString(a.paintLine(asRemoved, "-", line, old[i]))
		}
		for i, line := range added {
			out.WriteString(a.paintLine(asAdded, "+", line, new[i]))
		}
		removed, added = nil, nil
	}
	inHunk := false
	for line := range bytes.Lines(text) {
		s := strings.TrimSuffix(string(line), "\n")
		if inHunk && s[0] == '-' && len(added) == 0 {
			removed = append(removed, s[1:])
			continue
		}
		if inHunk && s[0] == '+' {
			added = append(added, s[1:])
			continue
		}
		flush()
		switch {
		case s[0] == '@':
			inHunk = true
			s = a.paint(asNote, s)
		case s[0] == 'd': // no line of a hunk begins like this
			inHunk = false
			s = a.paint(asHeading, s)
		case inHunk && s[0] == '-':
			removed = append(removed, s[1:])
			continue
		case !inHunk:
			s = a.paint(asHeading, s)
		}
		out.WriteString(s + "\n")
	}
	flush()
	return []byte(out.String())
}

// paintLine colours a line of a patch, with its spans underlined.
func (a *app) paintLine(role, mark, line string, spans []textdiff.Span) string {
	var b strings.Builder
	b.WriteString(a.colourOf(role) + mark)
	end := 0
	for _, s := range spans {
		b.WriteString(line[end:s.Start] + "\x1b[4m" + line[s.Start:s.End] + "\x1b[24m")
		end = s.End
	}
	return b.String() + line[end:] + colourOff + "\n"
}
