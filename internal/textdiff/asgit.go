package textdiff

import "bytes"

// AsGit returns the edits between two texts that git finds, at the places where git shows
// them without context: of the edits that are the fewest, those of [CompareNumbers], moved as
// [Slide] moves them. Where a run of lines could stand at several places, and none of the
// other text is opposite, it stands where the text is indented least before and behind it, so
// that a function is one run, and not the end of one and the begin of another.
func AsGit(old, new []byte) []Edit {
	tail := gitTail(old, new)
	old, new = old[:len(old)-tail], new[:len(new)-tail]
	// Most versions of a long text differ in few lines. Of what is the same before them only
	// as much is compared as runs are likely to be moved by; the rest is counted.
	head := commonHead(old, new)
	for range linesAbove {
		head = bytes.LastIndexByte(old[:max(head-1, 0)], '\n') + 1
	}
	if head > 0 {
		if list, ok := asGit(SplitLines(old[head:]), SplitLines(new[head:]), old[:head]); ok {
			above := bytes.Count(old[:head], []byte("\n"))
			for i := range list {
				e := &list[i]
				*e = Edit{e.OldStart + above, e.OldEnd + above, e.NewStart + above, e.NewEnd + above}
			}
			return list
		}
	}
	return LinesAsGit(SplitLines(old), SplitLines(new))
}

// linesAbove is how many lines are looked at before the first that differs.
const linesAbove = 2 * mostSlide

// LinesAsGit is AsGit for texts that are split into lines, or into what is to be compared of
// each line.
func LinesAsGit(old, new []string) []Edit {
	list, _ := asGit(old, new, nil)
	return list
}

// asGit is LinesAsGit of texts that both have the same lines above, head. It is not ok if a run has
// come up to these.
func asGit(old, new []string, head []byte) (list []Edit, ok bool) {
	lists, numbers := number(old, new)
	more := above{counts: make([]int32, len(numbers))}
	for line := range bytes.Lines(head) {
		more.lines++
		if id, ok := numbers[string(line)]; ok {
			more.counts[id]++
		}
	}
	a, b := &side{lines: lists[0], text: old}, &side{lines: lists[1], text: new}
	list = slide(a, b, compareNumbers(lists[0], lists[1], len(numbers), more))
	return list, len(head) == 0 || !a.isUp && !b.isUp
}

// commonHead returns how many bytes two texts begin with in common, whole lines.
func commonHead(a, b []byte) int {
	const step = 1 << 12
	n, most := 0, min(len(a), len(b))
	for n+step <= most && bytes.Equal(a[n:n+step], b[n:n+step]) {
		n += step
	}
	for n < most && a[n] == b[n] {
		n++
	}
	return bytes.LastIndexByte(a[:n], '\n') + 1
}

// gitTail returns how many bytes git leaves out that two texts end with: whole lines of
// what is the same in blocks of a kilobyte. No edit is moved into them.
func gitTail(old, new []byte) int {
	const block = 1 << 10
	n := 0
	for n+block <= min(len(old), len(new)) &&
		bytes.Equal(old[len(old)-n-block:len(old)-n], new[len(new)-n-block:len(new)-n]) {
		n += block
	}
	i := bytes.IndexByte(old[len(old)-n:], '\n')
	if i < 0 {
		return 0
	}
	return n - i - 1
}

// What a place at which a run begins or ends costs, as git has found by hand-rated diffs.
const (
	costStart        = 1  // of the text
	costEnd          = 21 // of the text
	costBlank        = -30
	costBlankBehind  = 6
	costIndent       = -4 // more than the line before
	costIndentBlank  = 10 // the same, behind blank lines
	costOutdent      = 24 // less than the line before and than the one behind
	costOutdentBlank = 17
	costDedent       = 23 // less than the line before
	costDedentBlank  = 17

	costLevel = 60 // worth of being indented more or less

	mostSlide  = 100 // lines by which a run is moved for this
	mostIndent = 200
	mostBlanks = 20
)

// bestEnd returns where a run best ends that may end at any line from first on to where it
// does, and has met no other.
func (s *side) bestEnd(r run, first int) int {
	size := r.end - r.start
	best, found := r.end, false
	var least splitCost
	for end := max(first, r.end-size-1, r.end-mostSlide); end <= r.end; end++ {
		c := s.splitAt(end).plus(s.splitAt(end - size))
		if !found || c.compare(least) <= 0 {
			best, least, found = end, c, true
		}
	}
	return best
}

// A splitCost is what it costs that a run begins and ends where it does.
type splitCost struct{ indent, penalty int }

func (c splitCost) plus(d splitCost) splitCost {
	return splitCost{c.indent + d.indent, c.penalty + d.penalty}
}

func (c splitCost) compare(d splitCost) int {
	level := 0
	switch {
	case c.indent > d.indent:
		level = 1
	case c.indent < d.indent:
		level = -1
	}
	return costLevel*level + c.penalty - d.penalty
}

// splitAt returns what a split before a line costs.
func (s *side) splitAt(at int) (c splitCost) {
	indent := -1 // of the line; -1: it is blank
	if at < len(s.text) {
		indent = indentOf(s.text[at])
	} else {
		c.penalty += costEnd
	}
	before, blanks := s.nearest(at-1, -1)
	behind, more := s.nearest(at+1, 1)
	if before < 0 && blanks == 0 {
		c.penalty += costStart
	}
	blanksBehind := 0
	if indent < 0 {
		blanksBehind = 1 + more
		indent = behind
	}
	blanks += blanksBehind
	c.penalty += costBlank*blanks + costBlankBehind*blanksBehind
	c.indent = indent
	pick := func(plain, blank int) int {
		if blanks > 0 {
			return blank
		}
		return plain
	}
	switch {
	case indent < 0 || before < 0 || indent == before:
	case indent > before:
		c.penalty += pick(costIndent, costIndentBlank)
	case behind > indent:
		c.penalty += pick(costOutdent, costOutdentBlank)
	default:
		c.penalty += pick(costDedent, costDedentBlank)
	}
	return c
}

// nearest returns how far the nearest line that is not blank is indented, from one on, and
// how many blank ones are before it; -1: there is none. After many it is taken as not
// indented.
func (s *side) nearest(at, by int) (indent, blanks int) {
	for ; at >= 0 && at < len(s.text); at += by {
		if indent = indentOf(s.text[at]); indent >= 0 {
			return indent, blanks
		}
		if blanks++; blanks == mostBlanks {
			return 0, blanks
		}
	}
	return -1, blanks
}

// indentOf returns how far a line is indented, -1 for a blank one.
func indentOf(line string) int {
	indent := 0
	for i := range len(line) {
		switch line[i] {
		case ' ':
			indent++
		case '\t':
			indent += 8 - indent%8
		case '\n', '\r', '\v', '\f':
		default:
			return indent
		}
		if indent >= mostIndent {
			return mostIndent
		}
	}
	return -1
}
