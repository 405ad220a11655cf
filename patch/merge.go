package patch

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/boocode/filestore/internal/textdiff"
)

// merged returns what was found with what old and new differ in: lines that they
// have in common, and lines that old has not, stay as the file has them. A line
// that is to be changed, and what stands beside one that is to be added, must be
// as in old. Lines end as the file's do.
func (s *search) merged(r *Result, file, fresh *lined) *lined {
	old := s.needle
	at := s.aligned(file)
	list := textdiff.Compare(old.folded(foldEnds), fresh.folded(foldEnds))
	if len(list) == 0 { // blanks at the ends of lines are all that changes
		list = textdiff.Compare(old.folded(literal), fresh.folded(literal))
	}
	plain := s.requoted(r, s.quotes(file, at), fresh)
	out := &lined{}
	var stands []int    // by line of out: the file's line that it stands for, from 1; 0: none
	var unsettled []int // by line of out: the line of new whose indentation it has yet to get, from 1
	next := 0           // in the file
	keep := func(end int) {
		for ; next < end; next++ {
			out.lines, stands, unsettled = append(out.lines, file.lines[next]), append(stands,
				next+1), append(unsettled, 0)
		}
	}
	for _, e := range list {
		start := s.mergePlace(at, e, len(file.lines))
		if start < next {
			r.refuse(reasonBothChanged)
			s.showChanged(r, file, at, e)
			return nil
		}
		keep(start)
		pairs := e.OldEnd-e.OldStart == e.NewEnd-e.NewStart
		for n := e.NewStart; n < e.NewEnd; n++ {
			l, stood, open := plain.lines[n], 0, n+1
			if i := e.OldStart + n - e.NewStart; i < e.OldEnd {
				stood = at[i]
				if lead := leadOf(l.content); pairs && s.Reindent == ReindentAuto &&
					lead == leadOf(old.lines[i].content) {
					l.content = slices.Concat([]byte(leadOf(file.lines[stood-1].content)), l.content[len(lead):])
					open = 0
				}
			}
			out.lines, stands, unsettled = append(out.lines, l), append(stands, stood), append(unsettled, open)
		}
		next = start + e.OldEnd - e.OldStart
	}
	keep(len(file.lines))
	out = s.reindented(r, s.leads(file, at), file, out, fresh, func(i int) (int, bool) {
		return unsettled[i] - 1, unsettled[i] > 0
	})
	if out == nil {
		return nil
	}
	if slices.EqualFunc(out.lines, file.lines, func(a, b line) bool { return bytes.Equal(a.content, b.content) }) {
		r.refuse(reasonApplied)
		return nil
	}
	out.end(newLined(s.content[r.Start:r.End+lineEndAt(s.content, r.End)]), stands, lineEnd(file.bytes, s.content))
	return out
}

// showChanged shows the first line that an edit changes and that is not as in
// old.
func (s *search) showChanged(r *Result, file *lined, at []int, e textdiff.Edit) {
	near := Near{StartLine: r.StartLine, EndLine: r.EndLine, Similarity: r.Similarity}
	for i := e.OldStart; i < e.OldEnd && len(file.lines) == len(at); i++ {
		if at[i] == 0 {
			near.Line = r.StartLine + i
			near.Want, near.Got = shortened(s.needle.lines[i].content), shortened(file.lines[i].content)
			break
		}
	}
	r.Near = []Near{near}
}

// aligned returns where each line of old is in what was found, from 1; 0: it is
// not.
func (s *search) aligned(file *lined) []int {
	old := s.needle
	at := make([]int, len(old.lines))
	i, j := 0, 0
	end := textdiff.Edit{OldStart: len(old.lines), OldEnd: len(old.lines),
		NewStart: len(file.lines), NewEnd: len(file.lines)}
	for _, e := range append(textdiff.Compare(old.folded(foldPlain), file.folded(foldPlain)), end) {
		for ; i < e.OldStart; i, j = i+1, j+1 {
			at[i] = j + 1
		}
		i, j = e.OldEnd, e.NewEnd
	}
	return at
}

// mergePlace returns the line of the file at which an edit of old belongs, -1 if
// that is not clear.
func (s *search) mergePlace(at []int, e textdiff.Edit, end int) int {
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

// folded returns the lines in a form.
func (t *lined) folded(f fold) []string {
	list := make([]string, len(t.lines))
	for i, l := range t.lines {
		list[i] = string(f.of(l.content))
	}
	return list
}

// end gives the lines of a merged text, of which joined adds the LF, the ends of
// the file's lines that they stand for, and eol to the others. The end of the last
// is in tail, if it stands for one.
func (t *lined) end(file *lined, stands []int, eol []byte) {
	for i, l := range t.lines {
		end := eol
		if at := stands[i]; at > 0 {
			own := file.lines[at-1].end
			if n := lineEndAt(file.bytes, own); n > 0 {
				end = file.bytes[own : own+n]
			}
		}
		switch last := i == len(t.lines)-1; {
		case last && stands[i] > 0:
			t.tail = end
		case !last && len(end) == len(crlf):
			t.lines[i].content = append(bytes.Clone(l.content), '\r')
		}
	}
}

// A quotes is what became of quotes, dashes and blanks in fancy form: of those
// that old has, whether the file has them plain.
type quotes struct {
	isPlain, isFancy [3]bool // by kind
	onlyFile         bool    // the file has some that old has plain
}

// kindOfFancy returns the kind of a character by its plain form.
func kindOfFancy(plain byte) int {
	switch plain {
	case '-':
		return 1
	case ' ':
		return 2
	}
	return 0 // quotes of both kinds
}

// quotes returns what became of old's in what was found. at says which lines are
// which, from 1; without it they are one by one the same.
func (s *search) quotes(file *lined, at []int) *quotes {
	q := new(quotes)
	var others []line
	for i, l := range s.needle.lines {
		n := i
		if at != nil {
			n = at[i] - 1
		}
		if n >= 0 && n < len(file.lines) {
			q.learn(foldBlanks.of(l.content), foldBlanks.of(file.lines[n].content))
		} else if hasFancy(l.content) && at != nil {
			others = append(others, l)
		}
	}
	// Of lines that differ in words, too, it is known if the file has none at all.
	if slices.ContainsFunc(file.lines, func(l line) bool { return hasFancy(l.content) }) {
		return q
	}
	for _, l := range others {
		for _, r := range string(l.content) {
			plain := plainOf(r)
			has := func(l line) bool { return bytes.IndexByte(l.content, plain) >= 0 }
			if plain != 0 && slices.ContainsFunc(file.lines, has) {
				q.isPlain[kindOfFancy(plain)] = true
			}
		}
	}
	return q
}

// requoted returns a new text with those characters plain that the file has
// plain, or without Merge warns of them.
func (s *search) requoted(r *Result, q *quotes, t *lined) *lined {
	if t == nil {
		return nil
	}
	plain := q.plain(t)
	if s.Merge {
		return plain
	}
	if q.onlyFile || !slices.EqualFunc(plain.lines, t.lines,
		func(a, b line) bool { return bytes.Equal(a.content, b.content) }) {
		r.Warnings = append(r.Warnings, warnQuotesDiffer)
	}
	return t
}

// learn compares a piece of old with the file's, which is the same in plain form.
func (q *quotes) learn(old, file []byte) {
	if !hasFancy(old) && !hasFancy(file) {
		return
	}
	a, b := []rune(string(old)), []rune(string(file))
	if len(a) != len(b) || !bytes.Equal(canonical(old), canonical(file)) {
		return
	}
	for i, r := range a {
		plain := plainOf(r)
		if plain == 0 {
			q.onlyFile = q.onlyFile || plainOf(b[i]) != 0
			continue
		}
		if kind := kindOfFancy(plain); rune(plain) == b[i] {
			q.isPlain[kind] = true
		} else {
			q.isFancy[kind] = true
		}
	}
}

// plain returns a new text with those characters plain that the file has plain.
func (q *quotes) plain(t *lined) *lined {
	if q.isPlain == [3]bool{} {
		return t
	}
	out := &lined{bytes: t.bytes, lines: slices.Clone(t.lines)}
	for i, l := range out.lines {
		if !hasFancy(l.content) {
			continue
		}
		var b []byte
		for at := 0; at < len(l.content); {
			r, n := utf8.DecodeRune(l.content[at:])
			plain := plainOf(r)
			if plain != 0 && !q.isFancy[kindOfFancy(plain)] { // who writes one kind so writes all
				b = append(b, plain)
			} else {
				b = append(b, l.content[at:at+n]...)
			}
			at += n
		}
		out.lines[i].content = b
	}
	return out
}
