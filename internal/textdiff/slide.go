package textdiff

// Slide moves edits to where somebody else's of the same text would be, too. A run
// of lines that only one text has can often be taken as several, like a function
// behind another, the last line of which both end with: it goes down as far as
// equal lines let it and joins those that it meets, but, where it can stand
// opposite a run of the other text, it stays at the last such place.
//
// The lines are given by their numbers (see [Number]). Two merges of one base need
// this: without it, each has its own idea of where the same change is.
func Slide(old, new []int32, list []Edit) []Edit {
	return slide(&side{lines: old}, &side{lines: new}, list)
}

// slide is Slide.
func slide(a, b *side, list []Edit) []Edit {
	old, new := a.lines, b.lines
	a.apart, b.apart = make([]bool, len(old)+1), make([]bool, len(new)+1)
	for _, e := range list {
		for i := e.OldStart; i < e.OldEnd; i++ {
			a.apart[i] = true
		}
		for j := e.NewStart; j < e.NewEnd; j++ {
			b.apart[j] = true
		}
	}
	left := slideSteps + 4*(len(old)+len(new))
	a.slide(b, &left)
	b.slide(a, &left)
	list = nil
	for i, j := 0, 0; i < len(old) || j < len(new); i, j = i+1, j+1 {
		e := Edit{OldStart: i, NewStart: j}
		for a.apart[i] {
			i++
		}
		for b.apart[j] {
			j++
		}
		if e.OldEnd, e.NewEnd = i, j; e.OldStart < i || e.NewStart < j {
			list = append(list, e)
		}
	}
	return list
}

// slideSteps is by how many lines runs may be moved in all, more for long texts.
const slideSteps = 1e6

// A side is one of two texts.
type side struct {
	lines []int32
	apart []bool   // of each line: the other text has none for it; one more, which is false
	text  []string // the lines themselves, by which a run is placed; nil: it is as far down as it may be
	isUp  bool     // a run has come up to the first line
}

// A run is the lines [start, end) that a side has between two that both have, or
// at an end; there may be none. The n-th run of one side is opposite the n-th of
// the other.
type run struct{ start, end int }

func (r run) empty() bool { return r.start == r.end }

// after returns the run that begins at a line.
func (s *side) after(start int) run {
	r := run{start, start}
	for s.apart[r.end] {
		r.end++
	}
	return r
}

// before returns the run that ends before a line.
func (s *side) before(end int) run {
	r := run{end, end}
	for r.start > 0 && s.apart[r.start-1] {
		r.start--
	}
	return r
}

// up moves a run that is not empty up by a line, if that makes no difference. It
// joins the one above that it meets.
func (s *side) up(r *run) bool {
	s.isUp = s.isUp || r.start == 0
	if r.start == 0 || s.lines[r.start-1] != s.lines[r.end-1] {
		return false
	}
	s.apart[r.start-1], s.apart[r.end-1] = true, false
	*r = run{s.before(r.start - 1).start, r.end - 1}
	return true
}

// down does the same the other way.
func (s *side) down(r *run) bool {
	if r.end == len(s.lines) || s.lines[r.start] != s.lines[r.end] {
		return false
	}
	s.apart[r.start], s.apart[r.end] = false, true
	*r = run{r.start + 1, s.after(r.end + 1).end}
	return true
}

// slide moves the runs of s, and takes the lines that they are moved by from left.
func (s *side) slide(other *side, left *int) {
	mine, theirs := s.after(0), other.after(0)
	for {
		if !mine.empty() {
			s.place(&mine, other, &theirs, left)
		}
		if mine.end == len(s.lines) {
			return
		}
		mine, theirs = s.after(mine.end+1), other.after(theirs.end+1)
	}
}

// place moves one run, with the one that is opposite.
func (s *side) place(mine *run, other *side, theirs *run, left *int) {
	for opposite := -1; *left > 0; { // where mine ends at the last place at which theirs is not empty
		size := mine.end - mine.start
		for *left > 0 && s.up(mine) {
			*theirs = other.before(theirs.start - 1)
			*left--
		}
		first := mine.end
		opposite = -1
		if !theirs.empty() {
			opposite = mine.end
		}
		for *left > 0 && s.down(mine) {
			*theirs = other.after(theirs.end + 1)
			*left--
			if !theirs.empty() {
				opposite = mine.end
			}
		}
		if size != mine.end-mine.start {
			continue // with what it has joined it may get further up
		}
		if opposite < 0 && s.text != nil {
			opposite = s.bestEnd(*mine, first)
		}
		for opposite >= 0 && mine.end > opposite && s.up(mine) {
			*theirs = other.before(theirs.start - 1)
			*left--
		}
		return
	}
}
