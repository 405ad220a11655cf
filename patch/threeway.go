package patch

import (
	"bytes"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/textdiff"
)

// MergeOptions are those of [Merge]. nil and the zero value are the defaults.
type MergeOptions struct {
	Theirs bool // a conflict has theirs' lines in Merged.Text; default: ours'
}

// A Merged is what [Merge] made of three texts. It is plain data.
type Merged struct {
	Text      []byte     // may be one of the three; in a conflict it has one side's lines
	Conflicts []Conflict // in order; any two have a line between them

	// With their line ends more would have been in conflict, so lines were compared
	// without them, and each end was merged for itself but for those in a conflict.
	EndsApart bool
}

// A Conflict is a place at which both sides changed what base has, and not to the
// same. Lines that the sides have in common at its start and its end are not in
// it, though base may have others.
type Conflict struct {
	Base, Ours, Theirs Side
	Result             Side // where it is in Merged.Text
}

// A Side is some lines of a text, or none between two.
type Side struct {
	Text  []byte // with the line ends; a part of the text
	Lines Span   // from 0
	Bytes Span
}

// Merge does to ours what leads from base to theirs. All texts are compared by
// lines, a line with its end, whatever their bytes; there is no error.
//
// What one side changed is taken, and what both changed to the same is taken once.
// Changes that are different and have no unchanged line of base between them are a
// conflict. So is a stretch of long texts that differ so much that telling its
// lines apart would take too long, if both sides changed it.
//
// Where a side has changed CRLF to LF or LF to CRLF, what would be a conflict for that
// alone is none: see Merged.EndsApart. A line that is new ends as the one that it
// replaces, or else as the one before; one in a conflict as its side has it.
//
// Merge(base, theirs, ours) has the same conflicts with the sides changed over and
// else the same text.
func Merge(base, ours, theirs []byte, opts *MergeOptions) *Merged {
	m := mergeLines(base, ours, theirs, opts, textdiff.CompareNumbers)
	hasCRLF := bytes.Contains(base, crlf) || bytes.Contains(ours, crlf) || bytes.Contains(theirs, crlf)
	if len(m.Conflicts) == 0 || !hasCRLF {
		return m
	}
	plain, plainOurs, plainTheirs := toLF(base), toLF(ours), toLF(theirs)
	for _, text := range [][]byte{plain, plainOurs, plainTheirs} {
		if bytes.Contains(text, crlf) { // a CR that was before a CRLF would become a part of a line end
			return m
		}
	}
	like, changed := withEnds(base, plain, [][]byte{ours, theirs}, [][]byte{plainOurs, plainTheirs})
	if !changed {
		return m
	}
	apart := mergeLines(plain, plainOurs, plainTheirs, opts, textdiff.CompareNumbers)
	if len(apart.Conflicts) > 0 && apart.inConflict() >= m.inConflict() {
		return m
	}
	sides := [3]text{newText(base, 0, 0), newText(ours, 0, 0), newText(theirs, 0, 0)}
	return apart.endedAs(like, plain, sides, opts != nil && opts.Theirs)
}

// inConflict returns how many lines of the three texts are in conflicts.
func (m *Merged) inConflict() (n int) {
	for _, c := range m.Conflicts {
		for _, s := range []Span{c.Base.Lines, c.Ours.Lines, c.Theirs.Lines} {
			n += s.End - s.Start
		}
	}
	return n
}

// endedAs gives the merge of texts with LF alone the ends of like, which is base but
// for these, and in conflicts what the texts have there.
func (m *Merged) endedAs(like []string, base []byte, texts [3]text, keepTheirs bool) *Merged {
	lines := endedAs(like, base, m.Text)
	for i := range m.Conflicts {
		c := &m.Conflicts[i]
		for j, s := range []*Side{&c.Base, &c.Ours, &c.Theirs} {
			texts[j].to(s.Lines.Start)
			*s = texts[j].to(s.Lines.End)
		}
		kept := c.Ours.Text
		if keepTheirs {
			kept = c.Theirs.Text
		}
		copy(lines[c.Result.Lines.Start:], textdiff.SplitLines(kept))
	}
	result := newText([]byte(strings.Join(lines, "")), 0, 0)
	for i := range m.Conflicts {
		s := &m.Conflicts[i].Result
		result.to(s.Lines.Start)
		*s = result.to(s.Lines.End)
	}
	return &Merged{Text: result.bytes, Conflicts: m.Conflicts, EndsApart: true}
}

// withEnds returns the lines of a text with the ends that sides have given them, or what
// they have instead of them. changed says whether a line has another one that is else
// as it was. plain and plainSides are the texts with LF alone.
func withEnds(text, plain []byte, sides, plainSides [][]byte) (lines []string, changed bool) {
	lines = textdiff.SplitLines(text)
	own := make([]string, len(lines))
	for i, l := range lines {
		_, own[i] = cutEnd(l)
	}
	lines = slices.Clone(lines)
	for n, side := range sides {
		has := textdiff.SplitLines(side)
		ends := make([]string, len(lines)) // that the side gives them
		i, j := 0, 0
		last := textdiff.Edit{OldStart: len(lines), OldEnd: len(lines), NewStart: len(has), NewEnd: len(has)}
		for _, e := range append(textdiff.Edits(plain, plainSides[n]), last) {
			for ; i < e.OldStart; i, j = i+1, j+1 {
				_, ends[i] = cutEnd(has[j])
				changed = changed || ends[i] != own[i]
			}
			for ; i < e.OldEnd && j < e.NewEnd; i, j = i+1, j+1 {
				_, ends[i] = cutEnd(has[j])
			}
			i, j = e.OldEnd, e.NewEnd
		}
		spreadEnds(ends, own)
		for i, end := range ends {
			if end != "" && own[i] != "" && end != own[i] {
				content, _ := cutEnd(lines[i])
				lines[i] = content + end
			}
		}
	}
	return lines, changed
}

// spreadEnds gives lines that a side has not, and the other may have, the end that the
// side has given to the line before that ended as they did, or to the one behind.
func spreadEnds(ends, own []string) {
	fill := func(i, from int) {
		if from >= 0 && ends[i] == "" && own[i] == own[from] {
			ends[i] = ends[from]
		}
	}
	from := -1
	for i := range ends {
		if fill(i, from); ends[i] != "" {
			from = i
		}
	}
	from = -1
	for i := len(ends) - 1; i >= 0; i-- {
		if fill(i, from); ends[i] != "" {
			from = i
		}
	}
}

// cutEnd cuts a line into its content and its end.
func cutEnd(line string) (content, end string) {
	content = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	if !strings.HasSuffix(line, "\n") {
		content = line
	}
	return content, line[len(content):]
}

// A differ returns the edits between texts whose lines have numbers below
// distinct.
type differ func(old, new []int32, distinct int) []textdiff.Edit

// mergeLines merges without regard to line ends.
func mergeLines(base, ours, theirs []byte, opts *MergeOptions, diff differ) *Merged {
	head, tail := commonEnds(base, ours, theirs)
	m := &merger{base: newText(base, head, tail), ours: newText(ours, head, tail), theirs: newText(theirs, head, tail),
		keepTheirs: opts != nil && opts.Theirs}
	lists, distinct := textdiff.Number(m.base.lines, m.ours.lines, m.theirs.lines)
	m.ours.numbers, m.theirs.numbers = lists[1], lists[2]
	edits := func(side []int32) []textdiff.Edit {
		return textdiff.Slide(lists[0], side, diff(lists[0], side, distinct))
	}
	regions := textdiff.Regions(edits(lists[1]), edits(lists[2]))
	m.out = slices.Grow(m.out, len(ours)+max(0, len(theirs)-len(base)))
	m.out, m.line = append(m.out, ours[:head]...), m.ours.skipped
	for _, r := range regions {
		m.region(&r)
	}
	m.put(m.ours.to(len(m.ours.lines)))
	m.out = append(m.out, ours[len(ours)-tail:]...)
	for i := range m.conflicts {
		s := &m.conflicts[i].Result
		s.Text = m.out[s.Bytes.Start:s.Bytes.End:s.Bytes.End]
	}
	return &Merged{Text: m.out, Conflicts: m.conflicts}
}

// keptTail is how many lines of a common tail are looked at all the same: what is
// in front of it may have to be moved down into it (see textdiff.Slide).
const keptTail = 100

// commonEnds returns how many bytes of whole lines three texts have in common at
// their starts and, but for some more lines, at their ends.
func commonEnds(a, b, c []byte) (head, tail int) {
	most := min(len(a), len(b), len(c))
	for head < most && a[head] == b[head] && a[head] == c[head] {
		head++
	}
	if head < max(len(a), len(b), len(c)) {
		head = bytes.LastIndexByte(a[:head], '\n') + 1
	}
	for tail < most-head && a[len(a)-1-tail] == b[len(b)-1-tail] && a[len(a)-1-tail] == c[len(c)-1-tail] {
		tail++
	}
	end := a[len(a)-tail:]
	for range keptTail + 1 { // of the first perhaps only a part is in common
		next := bytes.IndexByte(end, '\n') + 1
		if next == 0 {
			return head, 0
		}
		end = end[next:]
	}
	return head, len(end)
}

// A text is one of those to be merged.
type text struct {
	bytes   []byte
	lines   []string // but for those at the ends that all texts have in common
	numbers []int32  // of these lines
	skipped int      // lines at the start

	next int // of lines, the first that is not merged yet
	at   int // where it is in bytes
}

func newText(b []byte, head, tail int) text {
	return text{bytes: b, lines: textdiff.SplitLines(b[head : len(b)-tail]),
		skipped: bytes.Count(b[:head], lf), at: head}
}

// to returns what is before a line and not merged yet.
func (t *text) to(line int) Side {
	s := Side{Lines: Span{t.skipped + t.next, t.skipped + line}, Bytes: Span{t.at, t.at}}
	for ; t.next < line; t.next++ {
		t.at += len(t.lines[t.next])
	}
	s.Bytes.End = t.at
	s.Text = t.bytes[s.Bytes.Start:t.at:t.at]
	return s
}

// A merger is a merge on its way.
type merger struct {
	base, ours, theirs text
	keepTheirs         bool // in a conflict
	out                []byte
	line               int // that out has
	conflicts          []Conflict
}

// put appends lines to what is merged, and returns where they are there.
func (m *merger) put(s Side) Side {
	to := Side{Lines: Span{Start: m.line}, Bytes: Span{Start: len(m.out)}}
	m.out, m.line = append(m.out, s.Text...), m.line+s.Lines.End-s.Lines.Start
	to.Lines.End, to.Bytes.End = m.line, len(m.out)
	return to
}

// region merges up to the end of a region.
func (m *merger) region(r *textdiff.Region) {
	m.base.to(r.Start)
	m.theirs.to(r.TheirsStart)
	m.put(m.ours.to(r.OursStart))
	switch {
	case !r.ByOurs:
		m.put(m.theirs.to(r.TheirsEnd))
		m.ours.to(r.OursEnd)
	case r.ByTheirs:
		m.both(r)
	}
	m.put(m.ours.to(r.OursEnd)) // what is left of it
	m.base.to(r.End)
	m.theirs.to(r.TheirsEnd)
}

// both merges a region that both sides changed, up to the end that they have in
// common.
func (m *merger) both(r *textdiff.Region) {
	a, b := m.ours.numbers[r.OursStart:r.OursEnd], m.theirs.numbers[r.TheirsStart:r.TheirsEnd]
	head, tail := 0, 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	m.put(m.ours.to(r.OursStart + head))
	m.theirs.to(r.TheirsStart + head)
	if head == max(len(a), len(b)) {
		return
	}
	c := Conflict{Base: m.base.to(r.End), Ours: m.ours.to(r.OursEnd - tail), Theirs: m.theirs.to(r.TheirsEnd - tail)}
	kept := c.Ours
	if m.keepTheirs {
		kept = c.Theirs
	}
	c.Result = m.put(kept)
	m.conflicts = append(m.conflicts, c)
}

// endedAs returns the lines of a text, which end as those of like, which are base but
// for line ends. Base and text have LF alone.
func endedAs(like []string, base, text []byte) (lines []string) {
	new := textdiff.SplitLines(text)
	end := "\n" // of the line before, or the first
	learn := func(i int) {
		if _, own := cutEnd(like[i]); own != "" {
			end = own
		}
	}
	if len(like) > 0 {
		learn(0)
	}
	i, j := 0, 0
	last := textdiff.Edit{OldStart: len(like), OldEnd: len(like), NewStart: len(new), NewEnd: len(new)}
	for _, e := range append(textdiff.Edits(base, text), last) {
		for ; i < e.OldStart; i, j = i+1, j+1 {
			lines = append(lines, like[i])
			learn(i)
		}
		for ; j < e.NewEnd; i, j = i+1, j+1 {
			if i < e.OldEnd {
				learn(i)
			}
			content, own := cutEnd(new[j])
			if own != "" {
				own = end
			}
			lines = append(lines, content+own)
		}
		i = e.OldEnd
	}
	return lines
}

// Markers returns the text with the sides of each conflict between lines of "<",
// "|", "=" and ">", as git writes them, which have the labels of ours, base and
// theirs. There are seven of these signs, or more than any line of the text has at
// its start, so that they can be told from it. A side whose last line has no end
// gets one.
func (m *Merged) Markers(ours, base, theirs string) []byte {
	size := 7
	for _, c := range m.Conflicts {
		size = max(size, longestRun(c.Base.Text)+1, longestRun(c.Ours.Text)+1, longestRun(c.Theirs.Text)+1)
	}
	if len(m.Conflicts) > 0 {
		size = max(size, longestRun(m.Text)+1)
	}
	var out []byte
	at := 0
	for _, c := range m.Conflicts {
		out = append(out, m.Text[at:c.Result.Bytes.Start]...)
		at = c.Result.Bytes.End
		end := lineEnd(c.Ours.Text, m.Text)
		marker := func(sign, label string) {
			line := strings.Repeat(sign, size) + " " + strings.NewReplacer("\r", " ", "\n", " ").Replace(label)
			out = append(append(out, strings.TrimRight(line, " ")...), end...)
		}
		lines := func(s Side) {
			if out = append(out, s.Text...); len(s.Text) > 0 && !bytes.HasSuffix(s.Text, lf) {
				out = append(out, end...)
			}
		}
		marker("<", ours)
		lines(c.Ours)
		marker("|", base)
		lines(c.Base)
		marker("=", "")
		lines(c.Theirs)
		marker(">", theirs)
	}
	return append(out, m.Text[at:]...)
}

// longestRun returns how many signs of a marker some line has at its start.
func longestRun(b []byte) (longest int) {
	for line := range bytes.Lines(b) {
		n := 0
		for n < len(line) && line[n] == line[0] && bytes.IndexByte([]byte("<|=>"), line[0]) >= 0 {
			n++
		}
		longest = max(longest, n)
	}
	return longest
}
