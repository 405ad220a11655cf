package patch

import (
	"bytes"
	"slices"

	"github.com/boocode/filestore/internal/textdiff"
)

// A Reindent says what becomes of the indentation of what replaces a fuzzy match.
// With "" it stays as it is given, unless who edits has another default.
type Reindent string

const (
	ReindentOff Reindent = "off" // it stays as it is given
	// what leads from old's indentation to the file's is done to the new text, if it is one
	// thing
	ReindentAuto Reindent = "auto"
)

// What Result.Warnings may be.
const (
	// old's indentation is not the file's, and the new text's is as given: unasked to
	// change it, or for want of a single rule
	warnIndentUnsure = "indent_unsure"
	// old's quotes, dashes or blanks are not of the file's form, and the new text's are as
	// given
	warnQuotesDiffer = "quotes_differ"
	warnWordsDiffer  = "words_differ" // what was replaced differs from old in more than blanks

	warnContextDropped = "context_dropped" // lines around the change are not as a unified diff has them
	warnHunkShort      = "hunk_short"      // a unified diff ends before the lines that it promises: was it cut off?
)

// A Result is what [Replace] did.
type Result struct {
	Match
	Content  []byte   // with the replacement; nil if there was none
	Warnings []string // what somebody may want to know, for programs
	Line     int      // of a patch, where it comes from one
}

// Replace finds old in content as [Locate] does and puts new in its place.
//
// An exact match is replaced byte for byte. Of others the matched lines are
// replaced, without the end of the last: a final newline of old and one of new
// cancel, and so do the blank lines at their ends. A LF in new becomes the line
// end that the matched bytes have or, if they have none, most of the content;
// not where new has CRLF itself at an exact match, or changes nothing else.
// Bytes outside of the match stay as they are.
func Replace(content, old, new []byte, opts *Options) *Result {
	puts, r := newSearch(content, old, opts).replace(new)
	if r.Found() {
		r.Content = putAll(content, puts)
	}
	return r
}

// replace finds out what is to be put where. There is no content in the result.
func (s *search) replace(new []byte) ([]put, *Result) {
	r := &Result{Match: *s.run(new, true)}
	if r.Kind == IsNotFound {
		switch {
		case isApplied(s.content, new):
			r.Reason = reasonApplied
		case r.Reason == reasonNone:
			r.Reason = s.mistake()
		}
	}
	if !r.Found() {
		return nil, r
	}
	var puts []put
	fresh := newLined(new)
	for _, span := range r.spans() {
		if r.Kind == IsFuzzy {
			span = s.withoutBlankEnds(r, span)
		}
		found := s.content[span.Start:span.End]
		if reason := s.slip(&r.Match, span, fresh); reason != "" {
			r.refuse(reason)
			return nil, r
		}
		text, merged := new, false
		if r.Kind == IsFuzzy {
			var tail []byte
			if text, tail, merged = s.fitted(r, found, new); !r.Found() {
				return nil, r
			}
			if n := lineEndAt(s.content, span.End); n > 0 && len(tail) > 0 && n != len(tail) { // the last line has gone
				text, span.End = append(text, tail...), span.End+n
			}
			if len(new) == 0 && bytes.HasSuffix(s.old, lf) {
				span.End += lineEndAt(s.content, span.End)
			}
		}
		if r.Kind == IsFuzzy && bytes.Contains(new, crlf) && !bytes.Contains(s.content, lf) {
			text = bytes.ReplaceAll(text, lf, crlf) // as given
		}
		if !merged {
			text = s.withLineEnds(text, span, r.Kind == IsExact && !r.EOLDiffers)
		}
		puts = append(puts, put{Span: span, new: text})
	}
	return puts, r
}

// withoutBlankEnds leaves out the blank lines that a block which is only similar begins or ends with:
// they are not in old, which is looked for without its own.
func (s *search) withoutBlankEnds(r *Result, span Span) Span {
	if !s.isWhole(span.Start, span.End) {
		return span
	}
	for {
		n := bytes.IndexByte(s.content[span.Start:span.End], '\n')
		if n < 0 || !isBlank(s.content[span.Start:span.Start+n]) {
			break
		}
		span.Start, r.StartLine = span.Start+n+1, r.StartLine+1
	}
	for {
		n := bytes.LastIndexByte(s.content[span.Start:span.End], '\n')
		if n < 0 || !isBlank(s.content[span.Start+n:span.End]) {
			break
		}
		if span.End = span.Start + n; n > 0 && s.content[span.End-1] == '\r' {
			span.End--
		}
	}
	r.Start, r.End = span.Start, span.End
	r.EndLine = r.StartLine + bytes.Count(s.content[span.Start:span.End], lf)
	return span
}

// minApplied is how many characters that are no blanks a text must have to be
// taken for what was applied already.
const minApplied = 5

// isApplied reports whether a new text is in content.
func isApplied(content, new []byte) bool {
	return chars(new) >= minApplied && newSearch(content, new, &Options{Replacements: replaceAll}).exact() != nil
}

// lineEndAt returns the length of the line end at an offset, 0 if there is
// none.
func lineEndAt(b []byte, i int) int {
	switch {
	case bytes.HasPrefix(b[i:], crlf):
		return 2
	case bytes.HasPrefix(b[i:], lf):
		return 1
	}
	return 0
}

// withLineEnds gives a new text the line ends of what it replaces.
func (s *search) withLineEnds(new []byte, span Span, literal bool) []byte {
	found := s.content[span.Start:span.End]
	if !bytes.Contains(new, lf) {
		return new
	}
	if literal && (bytes.Contains(new, crlf) || bytes.Equal(toLF(s.old), toLF(new))) {
		return new
	}
	if !bytes.Contains(s.content, lf) {
		return new
	}
	most := lineEnd(found, s.content)
	ended := s.content[span.Start : span.End+lineEndAt(s.content, span.End)]
	if n := bytes.Count(ended, crlf); n > 0 && n < bytes.Count(ended, lf) && bytes.Contains(found, lf) {
		if text, ok := s.withOwnEnds(new, ended, most); ok {
			return text
		}
	}
	return bytes.ReplaceAll(toLF(new), lf, most)
}

// withOwnEnds gives each line of a new text the end of the line that it stands
// for, in what was found, which has ends of both kinds; others get the given one.
// It is not ok if the lines of old are not those that were found.
func (s *search) withOwnEnds(new, found, most []byte) (text []byte, ok bool) {
	old, file := newLined(s.old), newLined(found)
	if len(old.lines) != len(file.lines) && s.needle != nil {
		old = s.needle
	}
	if len(old.lines) != len(file.lines) {
		return nil, false
	}
	fresh := newLined(new)
	from := make([]int, len(fresh.lines)) // line of the file, from 1
	i, j := 0, 0
	last := textdiff.Edit{OldStart: len(old.lines), OldEnd: len(old.lines),
		NewStart: len(fresh.lines), NewEnd: len(fresh.lines)}
	for _, e := range append(textdiff.Compare(old.folded(foldEnds), fresh.folded(foldEnds)), last) {
		for ; i < e.OldStart; i, j = i+1, j+1 {
			from[j] = i + 1
		}
		for ; i < e.OldEnd && j < e.NewEnd; i, j = i+1, j+1 {
			from[j] = i + 1
		}
		i, j = e.OldEnd, e.NewEnd
	}
	for j, l := range fresh.lines {
		text = append(text, l.content...)
		if lineEndAt(new, l.end) == 0 {
			continue
		}
		eol := most
		if n := from[j]; n > 0 {
			if size := lineEndAt(found, file.lines[n-1].end); size > 0 {
				eol = found[file.lines[n-1].end : file.lines[n-1].end+size]
			}
		}
		text = append(text, eol...)
	}
	return append(bytes.Clone(new[:len(new)-len(trimBOM(new))]), text...), true
}

func toLF(b []byte) []byte { return bytes.ReplaceAll(b, crlf, lf) }

// fitted returns what replaces a fuzzy match. If it is merged with what was
// found, it has its line ends; tail is the one of its last line, if that is a line
// of the file.
func (s *search) fitted(r *Result, found, fresh []byte) (text, tail []byte, merged bool) {
	whole := newLined(s.old)
	before, after := whole.dropBlankEnds()
	t := newLined(fresh)
	// What old has beyond its lines, new has, too.
	for ; before > 0 && len(t.lines) > 0 && isBlank(t.lines[0].content); before-- {
		t.lines = t.lines[1:]
	}
	for n := len(t.lines); after > 0 && n > 0 && isBlank(t.lines[n-1].content); after-- {
		n--
		t.lines = t.lines[:n]
	}
	ended := bytes.HasSuffix(fresh, lf) && !bytes.HasSuffix(s.old, lf)
	file := newLined(found)
	if s.isWhole(r.Start, r.End) {
		s.warn(r, file)
		if s.Merge {
			t, merged = s.merged(r, file, t), true
		} else {
			all := func(i int) (fresh int, ok bool) { return i, true }
			t = s.requoted(r, s.quotes(file, nil), s.reindented(r, s.leads(file, nil), file, t, t, all))
		}
	} else {
		q := new(quotes)
		first, last := s.needle.lines[0], s.needle.lines[len(s.needle.lines)-1]
		q.learn(s.old[first.start:last.end], found)
		t = s.requoted(r, q, t)
	}
	if !r.Found() {
		return nil, nil, false
	}
	text = t.joined()
	switch {
	case !ended || len(t.lines) == 0:
	case merged:
		text = append(text, lineEnd(found, s.content)...)
	default:
		text = append(text, '\n')
	}
	return text, t.tail, merged
}

// isWhole reports whether a span of the content is of whole lines, with the end
// of the last or without.
func (s *search) isWhole(start, end int) bool {
	begins := start == len(s.content)-len(trimBOM(s.content)) || start > 0 && s.content[start-1] == '\n'
	return begins && (end == len(s.content) || lineEndAt(s.content, end) > 0 || end > start && s.content[end-1] == '\n')
}

// warn warns of what was found that differs from old in more than blanks.
func (s *search) warn(r *Result, file *lined) {
	same := func(a, b line) bool { return bytes.Equal(foldPlain.of(a.content), foldPlain.of(b.content)) }
	if !slices.EqualFunc(s.needle.lines, file.lines, same) {
		r.Warnings = append(r.Warnings, warnWordsDiffer)
	}
}

// refuse turns a match into a refusal.
func (r *Result) refuse(reason string) {
	r.Kind, r.Reason = IsNotFound, reason
}

// leadOf returns the blanks at the start of a line.
func leadOf(b []byte) string {
	n := 0
	for n < len(b) && (b[n] == ' ' || b[n] == '\t') {
		n++
	}
	return string(b[:n])
}
