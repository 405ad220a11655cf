package patch

import (
	"bytes"
	"regexp"
	"slices"

	"github.com/boocode/filestore/internal/words"
)

// slip returns why a new text is not put in the place of what was found; "": it
// is. Who gives marks of a diff before lines, or escapes of a string, takes one
// kind of text for another, and the file would get what is no part of it.
func (s *search) slip(m *Match, span Span, new *lined) string {
	found := s.content[span.Start:span.End]
	starts := span.Start == 0 || s.content[span.Start-1] == '\n'
	old := newLined(s.old)
	if starts && (new.isDiffOf(old) || bringsMarks(old, new, newLined(found), m.Stage == Exact)) {
		return reasonDiffMarks
	}
	if m.Stage != BlockAnchor && m.Stage != Levenshtein {
		return ""
	}
	for _, e := range []*regexp.Regexp{escapedLine(), otherEscape(), entity()} {
		if old := e.FindAll(s.old, -1); len(old) > len(e.FindAll(found, -1)) &&
			(e == escapedLine() || e.Match(new.bytes)) {
			return reasonEscaped
		}
	}
	if m.Stage == Levenshtein && !s.Merge && s.isShifted(m) { // merging looks at each line
		return reasonShifted
	}
	return ""
}

// mistake returns why a text is not there, if it is with a slip taken back.
func (s *search) mistake() string {
	there := func(old []byte) bool {
		return chars(old) >= minApplied && !bytes.Equal(old, s.old) && newSearch(s.content, old,
			&Options{Replacements: replaceAll}).exact() != nil
	}
	if old := newLined(s.old); marksOf(old).all {
		if bare := old.withoutMarks(0); there(bare.joined()) {
			return reasonDiffMarks
		}
	}
	if bytes.ContainsAny(s.old, "\\&") && there(unescaped().ReplaceAllFunc(s.old,
		func(b []byte) []byte { return []byte(plainForms[string(b)]) })) {
		return reasonEscaped
	}
	return reasonNone
}

var (
	escapedLine = words.Pattern(`\\n`)
	otherEscape = words.Pattern(`\\["'t]`)
	entity      = words.Pattern(`&(?:lt|gt|amp|quot|apos|#39);`)
	unescaped   = words.Pattern(`\\[nt"']|&(?:lt|gt|amp|quot|apos|#39);`)
	plainForms  = map[string]string{`\n`: "\n", `\t`: "\t", `\"`: `"`, `\'`: "'", "&lt;": "<", "&gt;": ">",
		"&amp;": "&", "&quot;": `"`, "&apos;": "'", "&#39;": "'"}
)

// A marks says how many lines of a text begin as those of a diff do. Blank lines
// do not count.
type marks struct {
	plus, minus, blank int
	all                bool // of at least one
	bullets            bool // after each mark comes one blank and text, as in a list
}

func marksOf(t *lined) marks {
	m := marks{all: true, bullets: true}
	for _, l := range t.lines {
		if isBlank(l.content) {
			continue
		}
		switch l.content[0] {
		case '+':
			m.plus++
		case '-':
			m.minus++
		case ' ':
			m.blank++
		default:
			m.all = false
		}
		m.bullets = m.bullets && len(leadOf(l.content[1:])) == 1
	}
	m.all = m.all && m.plus+m.minus+m.blank > 0
	return m
}

// withoutMarks returns the lines without their marks, those with one mark left
// out.
func (t *lined) withoutMarks(but byte) *lined {
	out := new(lined)
	for _, l := range t.lines {
		if len(l.content) > 0 {
			if l.content[0] == but {
				continue
			}
			l.content = l.content[1:]
		}
		out.lines = append(out.lines, l)
	}
	return out
}

// isDiffOf reports whether a text is another with marks before the lines that go and those that come, and none
// before the rest.
func (t *lined) isDiffOf(old *lined) bool {
	kept, goes, comes := new(lined), false, false
	for _, l := range t.lines {
		switch {
		case len(l.content) > 0 && l.content[0] == '+':
			comes = true
			continue
		case len(l.content) > 0 && l.content[0] == '-':
			goes, l.content = true, l.content[1:]
		}
		kept.lines = append(kept.lines, l)
	}
	return goes && comes && slices.Equal(kept.folded(foldEnds), old.folded(foldEnds))
}

// bringsMarks reports whether a new text has marks of a diff before its lines,
// and what is to be replaced has not.
func bringsMarks(old, new, found *lined, exact bool) bool {
	n := marksOf(new)
	if !n.all {
		return false
	}
	same := func(a, b *lined, f fold) bool { return slices.Equal(a.folded(f), b.folded(f)) }
	o, f := marksOf(old), marksOf(found)
	if !exact && o.all && o.plus+o.minus > 0 && (same(old.withoutMarks(0), found, foldPlain) ||
		!f.all && !same(old, found, foldPlain)) {
		return true // both have them
	}
	if f.all && f.plus+f.minus > 0 {
		return false // so has the file
	}
	kept := new.withoutMarks('+')
	if n.plus > 0 && n.minus+n.blank > 0 || n.minus > 0 && n.blank > 0 { // a diff of old
		if same(kept, old, foldEnds) || !exact && o.all && same(kept, old.withoutMarks(0), foldEnds) {
			return true
		}
	}
	if n.minus+n.blank > 0 || n.bullets {
		return false
	}
	if exact && n.plus == 1 { // an operator, or a sign
		for i, l := range new.lines {
			if len(l.content) > 0 && (leadOf(l.content[1:]) == "" || i >= len(found.lines) ||
				leadOf(found.lines[i].content) == "") {
				return false
			}
		}
	}
	return n.plus > 0
}

// makesMarks reports whether the content of a new file is all lines with a + of a
// diff.
func makesMarks(content []byte) bool {
	m := marksOf(newLined(content))
	return m.all && m.plus > 1 && m.minus+m.blank == 0 && !m.bullets
}

// isShifted reports whether old's first or last line is not in the lines that
// were found, but is the one beside them.
func (s *search) isShifted(m *Match) bool {
	plain := func(l line) string { return string(foldPlain.of(l.content)) }
	needle, from, to := s.needle.lines, m.StartLine-1, m.EndLine
	in := func(l line) bool {
		return slices.ContainsFunc(s.file.lines[from:to], func(f line) bool { return plain(f) == plain(l) })
	}
	beside := func(at, step int) string {
		for ; at >= 0 && at < len(s.file.lines); at += step {
			if l := s.file.lines[at]; !isBlank(l.content) {
				return plain(l)
			}
		}
		return ""
	}
	first, last := needle[0], needle[len(needle)-1]
	return !in(first) && beside(from-1, -1) == plain(first) || !in(last) && beside(to, 1) == plain(last)
}
