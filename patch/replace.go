package patch

import (
	"bytes"
	"slices"
)

// A Reindent says what becomes of the indentation of what replaces a fuzzy
// match.
type Reindent string

const (
	ReindentNone Reindent = ""     // it stays as it is given
	ReindentAuto Reindent = "auto" // what leads from old's indentation to the file's is done to the new text, if it is one thing
)

// A Warning says what somebody may want to know of a replacement.
type Warning string

const (
	IndentUnsure Warning = "indent_unsure" // no single rule leads from old's indentation to the file's: the new text is as given
	WordsDiffer  Warning = "words_differ"  // what was replaced differs from old in more than blanks

	ContextDropped Warning = "context_dropped" // lines around the change are not as a unified diff has them
	HunkShort      Warning = "hunk_short"      // a unified diff ends before the lines that it promises: was it cut off?
)

// A Result is what [Replace] did.
type Result struct {
	Match
	Content  []byte // with the replacement; nil if there was none
	Warnings []Warning
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
	if r.Kind == IsNotFound && isApplied(s.content, new) {
		r.Reason = ReasonApplied
	}
	if !r.Found() {
		return nil, r
	}
	var puts []put
	for _, span := range r.spans() {
		found := s.content[span.Start:span.End]
		text, merged := new, false
		if r.Kind == IsFuzzy {
			if text, merged = s.fitted(r, found, new); !r.Found() {
				return nil, r
			}
			if len(new) == 0 && bytes.HasSuffix(s.old, lf) {
				span.End += lineEndAt(s.content, span.End)
			}
		}
		if r.Kind == IsFuzzy && bytes.Contains(new, crlf) && !bytes.Contains(s.content, lf) {
			text = bytes.ReplaceAll(text, lf, crlf) // as given
		}
		if !merged {
			text = withLineEnds(text, s.old, found, s.content, r.Kind == IsExact && !r.EOLDiffers)
		}
		puts = append(puts, put{Span: span, new: text})
	}
	return puts, r
}

// minApplied is how many characters that are no blanks a text must have to be
// taken for what was applied already.
const minApplied = 5

// isApplied reports whether a new text is in content.
func isApplied(content, new []byte) bool {
	return chars(new) >= minApplied && newSearch(content, new, &Options{Replacements: All}).exact() != nil
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
func withLineEnds(new, old, found, content []byte, literal bool) []byte {
	if !bytes.Contains(new, lf) {
		return new
	}
	if literal && (bytes.Contains(new, crlf) || bytes.Equal(toLF(old), toLF(new))) {
		return new
	}
	if !bytes.Contains(content, lf) {
		return new
	}
	return bytes.ReplaceAll(toLF(new), lf, lineEnd(found, content))
}

func toLF(b []byte) []byte { return bytes.ReplaceAll(b, crlf, lf) }

// fitted returns what replaces a fuzzy match. If it is merged with what was
// found, it has its line ends.
func (s *search) fitted(r *Result, found, new []byte) (text []byte, merged bool) {
	whole := newLined(s.old)
	before, after := whole.dropBlankEnds()
	t := newLined(new)
	// What old has beyond its lines, new has, too.
	for ; before > 0 && len(t.lines) > 0 && isBlank(t.lines[0].content); before-- {
		t.lines = t.lines[1:]
	}
	for n := len(t.lines); after > 0 && n > 0 && isBlank(t.lines[n-1].content); after-- {
		n--
		t.lines = t.lines[:n]
	}
	ended := bytes.HasSuffix(new, lf) && !bytes.HasSuffix(s.old, lf)
	file := newLined(found)
	if s.isWhole(r.Start, r.End) {
		s.warn(r, file)
		switch {
		case s.Merge:
			if t, merged = s.merged(r, file, t), true; r.Found() {
				t.end(found, lineEnd(found, s.content))
			}
		case s.Reindent == ReindentAuto:
			t = s.reindented(r, file, t)
		}
	}
	if !r.Found() {
		return nil, false
	}
	text = t.joined()
	switch {
	case !ended || len(t.lines) == 0:
	case merged:
		text = append(text, lineEnd(found, s.content)...)
	default:
		text = append(text, '\n')
	}
	return text, merged
}

// end gives the lines of a merged text, of which joined adds the LF, the line
// ends that the file's have, and eol to the others.
func (t *lined) end(file, eol []byte) {
	for i, l := range t.lines[:max(0, len(t.lines)-1)] {
		n := len(eol)
		if l.fresh == 0 && l.end < len(file) {
			n = lineEndAt(file, l.end)
		}
		if n == len(crlf) {
			t.lines[i].content = append(bytes.Clone(l.content), '\r')
		}
	}
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
		r.Warnings = append(r.Warnings, WordsDiffer)
	}
}

// refuse turns a match into a refusal.
func (r *Result) refuse(reason Reason) {
	r.Kind, r.Reason = IsNotFound, reason
}

// merged returns what was found with what old and new differ in: lines that they
// have in common, and lines that old has not, stay as the file has them. A line
// that is to be changed, and what stands beside one that is to be added, must be
// as in old.
func (s *search) merged(r *Result, file, fresh *lined) *lined {
	old := s.needle
	at := make([]int, len(old.lines)) // where each line of old is in the file, from 1; 0: it is not
	i, j := 0, 0
	for _, e := range append(edits(old.folded(), file.folded(), textEffort()), Edit{len(old.lines), len(old.lines), len(file.lines), len(file.lines)}) {
		for ; i < e.OldStart; i, j = i+1, j+1 {
			at[i] = j + 1
		}
		i, j = e.OldEnd, e.NewEnd
	}
	out := &lined{}
	next := 0 // in the file
	for _, e := range edits(old.folded(), fresh.folded(), textEffort()) {
		start := s.mergePlace(at, e, len(file.lines))
		if start < next {
			r.refuse(ReasonBothChanged)
			return nil
		}
		out.lines = append(out.lines, file.lines[next:start]...)
		for n := e.NewStart; n < e.NewEnd; n++ {
			l := fresh.lines[n]
			l.fresh = n + 1
			out.lines = append(out.lines, l)
		}
		next = start + e.OldEnd - e.OldStart
	}
	out.lines = append(out.lines, file.lines[next:]...)
	if s.Reindent == ReindentAuto {
		return s.reindentedNew(r, file, fresh, out)
	}
	return out
}

// mergePlace returns the line of the file at which an edit of old belongs, -1 if
// that is not clear.
func (s *search) mergePlace(at []int, e Edit, end int) int {
	for i := e.OldStart; i < e.OldEnd; i++ {
		if at[i] == 0 || at[i] != at[e.OldStart]+i-e.OldStart {
			return -1
		}
	}
	switch {
	case e.OldStart < e.OldEnd:
		return at[e.OldStart] - 1
	case e.OldStart == 0:
		return at[0] - 1
	case e.OldStart == len(at) && at[len(at)-1] > 0:
		return at[len(at)-1]
	case e.OldStart == len(at):
		return -1
	case at[e.OldStart-1] > 0 && (at[e.OldStart] == 0 || at[e.OldStart] == at[e.OldStart-1]+1):
		return at[e.OldStart-1]
	case at[e.OldStart-1] == 0 && at[e.OldStart] > 0:
		return at[e.OldStart] - 1
	}
	return -1
}

// folded returns the lines in plain form.
func (t *lined) folded() []string {
	list := make([]string, len(t.lines))
	for i, l := range t.lines {
		list[i] = string(foldPlain.of(l.content))
	}
	return list
}

// reindented returns the new text with what leads from old's indentation to the
// file's done to it.
func (s *search) reindented(r *Result, file, new *lined) *lined {
	rule, ok := s.indentRule(file)
	if !ok {
		if s.RefuseUnsureIndent {
			r.refuse(ReasonIndent)
			return nil
		}
		r.Warnings = append(r.Warnings, IndentUnsure)
		return new
	}
	out := &lined{lines: slices.Clone(new.lines)}
	for i, l := range out.lines {
		if isBlank(l.content) {
			continue
		}
		lead := leadOf(l.content)
		fresh, ok := rule(lead, i)
		if !ok {
			if s.RefuseUnsureIndent {
				r.refuse(ReasonIndent)
				return nil
			}
			r.Warnings = append(r.Warnings, IndentUnsure)
			return new
		}
		out.lines[i].content = append([]byte(fresh), l.content[len(lead):]...)
	}
	return out
}

// reindentedNew is reindented for those lines of a merged text that are new.
func (s *search) reindentedNew(r *Result, file, new, merged *lined) *lined {
	out := s.reindented(r, file, new)
	if out == nil {
		return nil
	}
	for i, l := range merged.lines {
		if l.fresh > 0 {
			merged.lines[i].content = out.lines[l.fresh-1].content
		}
	}
	return merged
}

// leadOf returns the blanks at the start of a line.
func leadOf(b []byte) string {
	n := 0
	for n < len(b) && (b[n] == ' ' || b[n] == '\t') {
		n++
	}
	return string(b[:n])
}
