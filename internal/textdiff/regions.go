package textdiff

import "math"

// A Region is a stretch of a text that one or two others changed, the lines that
// they have for it, and who changed it.
type Region struct {
	Start, End                                 int
	OursStart, OursEnd, TheirsStart, TheirsEnd int
	ByOurs, ByTheirs                           bool
}

// Regions returns the regions that the edits of two sides of one text make, which
// are in order and do not touch each other on a side. Edits that overlap or touch are
// of one region.
func Regions(ours, theirs []Edit) []Region {
	var list []Region
	a, b := &sideEdits{edits: ours}, &sideEdits{edits: theirs}
	for len(a.edits)+len(b.edits) > 0 {
		start := min(a.start(), b.start())
		r := Region{Start: start, End: start, OursStart: start + a.more, TheirsStart: start + b.more}
		for more := true; more; {
			byOurs, byTheirs := a.take(&r.End), b.take(&r.End)
			r.ByOurs, r.ByTheirs, more = r.ByOurs || byOurs, r.ByTheirs || byTheirs, byOurs || byTheirs
		}
		r.OursEnd, r.TheirsEnd = r.End+a.more, r.End+b.more
		list = append(list, r)
	}
	return list
}

// A sideEdits is the edits of one side that are in no region yet.
type sideEdits struct {
	edits []Edit
	more  int // lines that the side has before these than the text
}

// start returns the line at which the next edit is.
func (s *sideEdits) start() int {
	if len(s.edits) == 0 {
		return math.MaxInt
	}
	return s.edits[0].OldStart
}

// take takes the edits that touch a region which ends at a line, and moves its end
// behind them. It reports whether there were any.
func (s *sideEdits) take(end *int) bool {
	if s.start() > *end {
		return false
	}
	for s.start() <= *end {
		e := s.edits[0]
		s.edits = s.edits[1:]
		s.more += e.NewEnd - e.NewStart - (e.OldEnd - e.OldStart)
		*end = max(*end, e.OldEnd)
	}
	return true
}
