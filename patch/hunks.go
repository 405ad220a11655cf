package patch

import (
	"bytes"
	"slices"
)

// A position is how far the hunks of a file have got.
type position struct {
	*budget
	file   *lined
	line   int // after the hunk before
	offset int // of a unified diff: how far the hunk before was from where it said
}

// A budget is what a search, or all those of a patch, may still cost.
type budget struct {
	left     int64
	refusals int // so far
}

func (at *position) lines(content []byte) *lined {
	if at.file == nil {
		at.file = newLined(content)
	}
	return at.file
}

// olds returns the lines that are to be there.
func (h *Hunk) olds() *lined {
	t := new(lined)
	for _, l := range h.Lines {
		if l.Mark != '+' {
			t.lines = append(t.lines, line{content: l.Text})
		}
	}
	return t
}

// places returns the lines of a file, from one on, at which a hunk's old lines
// are in a fold. With CR the ends of lines are the same, too.
func (h *Hunk) places(file *lined, from int, f fold, cr bool) (list []int) {
	olds := h.olds()
	for at := range file.find(olds, f) {
		end := at + len(olds.lines)
		if at < from || h.OldNoEnd && (end < len(file.lines) || bytes.HasSuffix(file.bytes, lf)) || cr && !h.sameEnds(file, at) {
			continue
		}
		list = append(list, at)
	}
	return list
}

// sameEnds reports whether the lines of a file from one on have a CR where the
// hunk's old lines have.
func (h *Hunk) sameEnds(file *lined, at int) bool {
	for _, l := range h.Lines {
		if l.Mark == '+' {
			continue
		}
		if at == len(file.lines)-1 && !bytes.HasSuffix(file.bytes, lf) {
			return true // it has no end
		}
		if l.CR != (lineEndAt(file.bytes, file.lines[at].end) == len(crlf)) {
			return false
		}
		at++
	}
	return true
}

// folds returns how lines may be compared, by stage.
func folds(o *Options) (list []fold) {
	if o.has(Exact) {
		list = append(list, literal)
	}
	if o.has(Whitespace) {
		list = append(list, foldEnds, foldBlanks)
	}
	if o.has(Unicode) {
		list = append(list, foldPlain)
	}
	return list
}

func (f fold) stage() Stage {
	switch f {
	case literal:
		return Exact
	case foldPlain:
		return Unicode
	}
	return Whitespace
}

// locateV4A finds the one place after the hunk before at which a hunk's old
// lines are. Where similar lines are allowed, too, they are looked for in the
// whole file.
func (h *Hunk) locateV4A(content []byte, opts *ApplyOptions, at *position) ([]put, Match, []Warning) {
	file := at.lines(content)
	list := folds(&opts.Options)
	for _, context := range h.Context {
		i, ok := after(file, context, at.line, list)
		if !ok {
			return nil, Match{Kind: IsNotFound, Reason: ReasonContext, Near: []Near{{StartLine: at.line + 1, EndLine: max(at.line+1, len(file.lines)), Line: at.line + 1, Want: context}}}, nil
		}
		at.line = i + 1
	}
	olds := len(h.olds().lines)
	if olds == 0 {
		from := at.line
		if len(h.Context) == 0 || h.AtEnd {
			from = len(file.lines)
		}
		return h.put(content, file, from, IsExact, Exact, false, at)
	}
	if h.AtEnd {
		for _, f := range list {
			if last := len(file.lines) - olds; last >= at.line && file.hasAt(last, h.olds(), f) {
				return h.put(content, file, last, kindOf(f), f.stage(), false, at)
			}
		}
	}
	for _, f := range list {
		switch places := h.places(file, at.line, f, false); len(places) {
		case 0:
		case 1:
			return h.put(content, file, places[0], kindOf(f), f.stage(), false, at)
		default:
			return nil, *h.several(file, places, f), nil
		}
	}
	puts, m, warnings := h.locateSimilar(content, opts, at)
	if m.Found() && m.StartLine <= at.line {
		return nil, Match{Kind: IsNotFound, Reason: ReasonNone}, nil // before the hunk before
	}
	if m.Found() {
		at.line = m.EndLine
	}
	return puts, m, warnings
}

// several is the refusal of a hunk that could be put at several places.
func (h *Hunk) several(file *lined, places []int, f fold) *Match {
	m := &Match{Kind: IsAmbiguous, Stage: f.stage(), Reason: ReasonSeveral, Similarity: 1, Count: len(places)}
	for _, at := range places[:min(len(places), maxNear)] {
		m.Near = append(m.Near, Near{StartLine: at + 1, EndLine: at + len(h.olds().lines), Similarity: 1})
	}
	return m
}

func kindOf(f fold) Kind {
	if f == literal {
		return IsExact
	}
	return IsFuzzy
}

// after finds the one line from one on that is a context line. The strictest
// comparison by which any is decides.
func after(file *lined, context string, from int, list []fold) (place int, ok bool) {
	want := &lined{lines: []line{{content: []byte(context)}}}
	for _, f := range list {
		n := 0
		for at := range file.find(want, f) {
			if at >= from {
				place = at
				n++
			}
		}
		if n > 0 {
			return place, n == 1
		}
	}
	return 0, false
}

// locateSimilar finds a hunk by similarity, if that is allowed, and says what is
// nearest if not.
func (h *Hunk) locateSimilar(content []byte, opts *ApplyOptions, at *position) ([]put, Match, []Warning) {
	o := opts.Options
	var stages []Stage
	for _, stage := range o.Stages {
		if stage == BlockAnchor || stage == Levenshtein {
			stages = append(stages, stage)
		}
	}
	o.Merge = true // what was not to be changed stays
	old, new := h.text('-'), h.text('+')
	s := newSearch(content, old, &o)
	s.budget, s.file = at.budget, at.file
	if stages == nil {
		m := s.notFound(ReasonNone)
		if isApplied(content, new) {
			m.Reason = ReasonApplied
		}
		return nil, *m, nil
	}
	s.Stages = stages
	puts, r := s.replace(new)
	return puts, r.Match, r.Warnings
}

// text returns the old text or the new one, by the mark of its own lines.
func (h *Hunk) text(mark byte) []byte {
	var b []byte
	for _, l := range h.Lines {
		if l.Mark == ' ' || l.Mark == mark {
			b = append(append(b, l.Text...), '\n')
		}
	}
	return b
}

// put puts a hunk's lines in the place of the file's from one on. Lines that
// stay keep their bytes; others end as the hunk says if its old lines do, too
// (ends), and else as those around them.
func (h *Hunk) put(content []byte, lines *lined, from int, kind Kind, stage Stage, ends bool, at *position) ([]put, Match, []Warning) {
	file := lines.lines
	olds := len(h.olds().lines)
	m := Match{Kind: kind, Stage: stage, Similarity: 1, Count: 1, StartLine: from + 1, EndLine: max(from+1, from+olds)}
	start, end := len(content), len(content)
	if from < len(file) {
		start = file[from].start
	}
	if to := from + olds; to < len(file) {
		end = file[to].start
	}
	eol := lineEnd(content[start:end], content)
	var b, lead []byte
	// An end that is missing before the first line is supplied, one that is
	// missing at the end of the file stays missing.
	open := end == len(content) && len(content) > 0 && content[len(content)-1] != '\n'
	if start == len(content) && open {
		lead = eol
	}
	i := from
	var last []byte // line end
	for _, l := range h.Lines {
		if l.Mark == '-' {
			i++
			continue
		}
		last = eol
		switch l.Mark {
		case ' ':
			b = append(b, file[i].content...)
			if n := lineEndAt(content, file[i].end); n > 0 {
				last = content[file[i].end : file[i].end+n]
			}
			i++
		case '+':
			b = append(b, l.Text...)
			if ends && l.CR {
				last = crlf
			} else if ends {
				last = lf
			}
		}
		b = append(b, last...)
	}
	if h.OldNoEnd || h.NewNoEnd { // it says so
		open = h.NewNoEnd
	}
	if end == len(content) && open {
		b = b[:max(0, len(b)-len(last))]
	}
	at.line = from + olds
	m.Start, m.End = start, end
	return []put{{Span: Span{start, end}, lead: lead, new: b}}, m, nil
}

// defaultFuzz is GNU patch's.
const defaultFuzz = 2

// locateUnified finds the place of a hunk that is nearest to where it says that
// it is, as far off as the hunk before was, and with as much of its context as
// can be.
func (h *Hunk) locateUnified(content []byte, opts *ApplyOptions, at *position) ([]put, Match, []Warning) {
	file := at.lines(content)
	if h.hasBOM() {
		file = file.withBOM()
	}
	fuzz := defaultFuzz
	if opts.Fuzz != nil {
		fuzz = *opts.Fuzz
	}
	if len(h.olds().lines) == 0 { // all it says is where
		from := len(file.lines)
		if h.Stated >= 0 {
			from = h.Stated + at.offset
		}
		if from < at.line || from > len(file.lines) {
			return nil, Match{Kind: IsNotFound, Reason: ReasonNone}, nil
		}
		return h.put(content, file, from, IsExact, Exact, true, at)
	}
	// Where there is less context at one end, the hunk was near that end of the
	// file, and so less of it is dropped there.
	before, after := h.contextLines()
	context := max(before, after)
	for dropped := 0; dropped <= min(fuzz, context); dropped++ {
		head, tail := max(0, dropped-context+before), max(0, dropped-context+after)
		part := *h
		part.Lines = h.Lines[head : len(h.Lines)-tail]
		part.OldNoEnd, part.NewNoEnd = h.OldNoEnd && tail == 0, h.NewNoEnd && tail == 0
		if len(part.olds().lines) == 0 {
			break // nothing is left to go by
		}
		kind := IsExact
		var warnings []Warning
		if dropped > 0 {
			kind, warnings = IsFuzzy, []Warning{ContextDropped}
		}
		// Line ends that are as the hunk has them come first.
		for _, ends := range []bool{true, false} {
			places := part.places(file, at.line, literal, ends)
			if dropped > 0 && before < context && h.Stated <= 1 {
				places = slices.DeleteFunc(places, func(p int) bool { return p > 0 })
			}
			if dropped > 0 && after < context {
				places = slices.DeleteFunc(places, func(p int) bool { return p+len(part.olds().lines) < len(file.lines) })
			}
			if len(places) == 0 {
				continue
			}
			from, ok := places[0], len(places) == 1
			if !ok && h.Stated >= 0 {
				from, ok = nearest(places, h.Stated-1+head+at.offset)
			}
			if !ok {
				return nil, *part.several(file, places, literal), nil
			}
			if h.Stated >= 0 {
				at.offset = from - (h.Stated - 1 + head)
			}
			puts, m, _ := part.put(content, file, from, kind, Exact, ends, at)
			return puts, m, warnings
		}
	}
	return h.locateSimilar(content, &ApplyOptions{}, at)
}

// hasBOM reports whether a byte order mark is at the start of a line: then it is
// of the text.
func (h *Hunk) hasBOM() bool {
	return slices.ContainsFunc(h.Lines, func(l HunkLine) bool { return bytes.HasPrefix(l.Text, bom) })
}

// contextLines counts the lines at both ends of a hunk that stay.
func (h *Hunk) contextLines() (before, after int) {
	for before < len(h.Lines) && h.Lines[before].Mark == ' ' {
		before++
	}
	for after < len(h.Lines)-before && h.Lines[len(h.Lines)-1-after].Mark == ' ' {
		after++
	}
	return before, after
}

// nearest returns which of some lines is nearest to one; not ok: two are.
func nearest(places []int, to int) (best int, ok bool) {
	distance := -1
	for _, p := range places {
		switch d := max(p-to, to-p); {
		case distance < 0 || d < distance:
			best, distance, ok = p, d, true
		case d == distance:
			ok = false
		}
	}
	return best, ok
}
