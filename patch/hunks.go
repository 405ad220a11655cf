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
	for _, l := range h.lines {
		if l.mark != '+' {
			t.lines = append(t.lines, line{content: l.text})
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
		if at < from || h.oldNoEnd && (end < len(file.lines) || bytes.HasSuffix(file.bytes, lf)) ||
			cr && !h.sameEnds(file, at) {
			continue
		}
		list = append(list, at)
	}
	return list
}

// sameEnds reports whether the lines of a file from one on have a CR where the
// hunk's old lines have.
func (h *Hunk) sameEnds(file *lined, at int) bool {
	for _, l := range h.lines {
		if l.mark == '+' {
			continue
		}
		if at == len(file.lines)-1 && !bytes.HasSuffix(file.bytes, lf) {
			return true // it has no end
		}
		if l.cr != (lineEndAt(file.bytes, file.lines[at].end) == len(crlf)) {
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
// lines are, behind its context if it has some: where a line of that is there
// several times, behind any of them. Where similar lines are allowed, too, they
// are looked for in the whole file.
func (h *Hunk) locateV4A(content []byte, opts *ApplyOptions, at *position) ([]put, Match, []string) {
	file := at.lines(content)
	list := folds(&opts.Options)
	starts, m := h.anchors(content, at, list)
	if m != nil {
		return nil, *m, nil
	}
	at.line = starts[0]
	olds := len(h.olds().lines)
	if olds == 0 {
		from := at.line
		if len(h.context) == 0 || h.atEnd {
			from = len(file.lines)
		} else if len(starts) > 1 {
			return nil, *h.behind(file, starts, starts), nil
		}
		return h.put(content, file, from, IsExact, Exact, false, at)
	}
	if h.atEnd {
		for _, f := range list {
			if last := len(file.lines) - olds; last >= at.line && file.hasAt(last, h.olds(), f) {
				return h.putV4A(content, file, last, f, opts, at)
			}
		}
	}
	for _, f := range list {
		switch places := h.places(file, at.line, f, false); {
		case len(places) == 1:
			return h.putV4A(content, file, places[0], f, opts, at)
		case len(places) > 1 && len(starts) > 1:
			return nil, *h.behind(file, starts, places), nil
		case len(places) > 1:
			return nil, *h.several(file, places, f), nil
		}
	}
	puts, similar, warnings := h.locateSimilar(content, opts, at)
	if similar.Found() && similar.StartLine <= at.line {
		similar = Match{Kind: IsNotFound, Reason: reasonNone} // before the hunk before
	}
	if !similar.Found() {
		if len(h.context) > 0 {
			similar.Anchor, similar.Anchors = h.context[len(h.context)-1], len(starts)
		}
		return nil, similar, nil
	}
	at.line = similar.EndLine
	return puts, similar, warnings
}

// putV4A puts a hunk's lines in the place of the file's from one on, which are
// the same in a fold: with the file's indentation and its quotes, as options say.
func (h *Hunk) putV4A(content []byte, file *lined, from int, f fold, opts *ApplyOptions,
	at *position) ([]put, Match, []string) {
	if f == literal {
		return h.put(content, file, from, IsExact, Exact, false, at)
	}
	s := &search{Options: opts.Options, file: file, needle: h.olds()}
	there := &lined{lines: file.lines[from : from+len(s.needle.lines)]}
	fresh := new(lined)                    // the lines that stay or are new
	number := make([]int, 0, len(h.lines)) // theirs in the hunk
	for i, l := range h.lines {
		if l.mark != '-' {
			fresh.lines, number = append(fresh.lines, line{content: l.text}), append(number, i)
		}
	}
	own := h.replacedLeads(there)
	if s.Reindent != ReindentAuto {
		own = nil
	}
	r := &Result{Match: Match{Kind: kindOf(f), Stage: f.stage()}}
	isNew := func(i int) (int, bool) { return i, h.lines[number[i]].mark == '+' && own[number[i]] == nil }
	fresh = s.requoted(r, s.quotes(there, nil), fresh)
	if fresh = s.reindented(r, s.leads(there, nil), there, fresh, fresh, isNew); fresh == nil {
		return nil, r.Match, nil
	}
	fitted := *h
	fitted.lines = slices.Clone(h.lines)
	for i, l := range fresh.lines {
		text := l.content
		if lead := own[number[i]]; lead != nil {
			text = slices.Concat([]byte(*lead), text[len(leadOf(text)):])
		}
		fitted.lines[number[i]].text = text
	}
	puts, m, _ := fitted.put(content, file, from, kindOf(f), f.stage(), false, at)
	return puts, m, r.Warnings
}

// replacedLeads returns, by line of a hunk, the file's indentation of the line
// that it replaces, where as many lines come as go and it has the indentation of
// the one that goes.
func (h *Hunk) replacedLeads(there *lined) map[int]*string {
	leads := make(map[int]*string)
	old := 0
	for i := 0; i < len(h.lines); {
		gone, n := i, 0
		for ; i < len(h.lines) && h.lines[i].mark == '-'; i++ {
			n++
		}
		added := i
		for ; i < len(h.lines) && h.lines[i].mark == '+'; i++ {
		}
		for j := range n {
			if i-added == n && leadOf(h.lines[gone+j].text) == leadOf(h.lines[added+j].text) {
				leads[added+j] = new(leadOf(there.lines[old+j].content))
			}
		}
		if old += n; i < len(h.lines) && h.lines[i].mark == ' ' {
			old++
			i++
		}
	}
	return leads
}

// anchors returns the lines at which a hunk may begin at the earliest: those
// behind the last line of its context, wherever that is behind the others. m is a
// refusal: a line of it is not there.
func (h *Hunk) anchors(content []byte, at *position, list []fold) (starts []int, m *Match) {
	starts = []int{at.line}
	for _, context := range h.context {
		from := starts[0]
		if starts = after(at.file, context, from, list); len(starts) == 0 {
			s := newSearch(content, []byte(context), nil)
			s.budget, s.file = at.budget, at.file
			m := &Match{Kind: IsNotFound}
			if len(context) > 0 {
				m = s.notFound(reasonContext)
			}
			m.Reason, m.Anchor = reasonContext, context
			return nil, m
		}
	}
	return starts, nil
}

// behind is the refusal of a hunk that fits behind several places of the last
// line of its context, or several times behind one.
func (h *Hunk) behind(file *lined, starts, places []int) *Match {
	m := h.several(file, places, literal)
	m.Stage, m.Reason, m.Count = "", reasonContext, 0
	m.Anchor, m.Anchors = h.context[len(h.context)-1], len(starts)
	for i, from := range starts {
		fits := slices.ContainsFunc(places, func(p int) bool {
			return p >= from && (i+1 == len(starts) || p < starts[i+1])
		})
		if fits {
			m.Count++
		}
	}
	return m
}

// several is the refusal of a hunk that could be put at several places.
func (h *Hunk) several(file *lined, places []int, f fold) *Match {
	m := &Match{Kind: IsAmbiguous, Stage: f.stage(), Reason: reasonSeveral, Similarity: 1, Count: len(places)}
	for _, at := range places[:min(len(places), maxNear)] {
		m.Near = append(m.Near, Near{StartLine: at + 1, EndLine: at + max(1, len(h.olds().lines)), Similarity: 1})
	}
	return m
}

func kindOf(f fold) Kind {
	if f == literal {
		return IsExact
	}
	return IsFuzzy
}

// after returns the lines behind those, from one on, that are a context line. The
// strictest comparison by which any is decides.
func after(file *lined, context string, from int, list []fold) (places []int) {
	want := &lined{lines: []line{{content: []byte(context)}}}
	for _, f := range list {
		for at := range file.find(want, f) {
			if at >= from {
				places = append(places, at+1)
			}
		}
		if len(places) > 0 {
			break
		}
	}
	return places
}

// locateSimilar finds a hunk by similarity, if that is allowed, and says what is
// nearest if not.
func (h *Hunk) locateSimilar(content []byte, opts *ApplyOptions, at *position) ([]put, Match, []string) {
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
		m := s.notFound(reasonNone)
		if isApplied(content, new) {
			m.Reason = reasonApplied
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
	for _, l := range h.lines {
		if l.mark == ' ' || l.mark == mark {
			b = append(append(b, l.text...), '\n')
		}
	}
	return b
}

// put puts a hunk's lines in the place of the file's from one on. Lines that
// stay keep their bytes; others end as the hunk says if its old lines do, too
// (ends), and else as those around them.
func (h *Hunk) put(content []byte, lines *lined, from int, kind Kind, stage Stage, ends bool,
	at *position) ([]put, Match, []string) {
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
	var lead []byte
	// An end that is missing before the first line is supplied, one that is
	// missing at the end of the file stays missing.
	open := end == len(content) && len(content) > 0 && content[len(content)-1] != '\n'
	if start == len(content) && open {
		lead = eol
	}
	b, last := h.newText(content, file[from:], eol, ends)
	if h.oldNoEnd || h.newNoEnd { // it says so
		open = h.newNoEnd
	}
	if end == len(content) && open {
		b = b[:max(0, len(b)-len(last))]
	}
	at.line = from + olds
	m.Start, m.End = start, end
	return []put{{Span: Span{start, end}, lead: lead, new: b}}, m, nil
}

// newText returns the hunk's new lines, and the last one's end. file are content's lines from the
// hunk's place on. A line that comes in the place of one that goes ends as that one did; eol is the
// end of others, if the hunk does not say it (ends).
func (h *Hunk) newText(content []byte, file []line, eol []byte, ends bool) (text, last []byte) {
	i := 0
	var gone [][]byte // ends of lines that go
	endOf := func(i int) []byte { return content[file[i].end : file[i].end+lineEndAt(content, file[i].end)] }
	for _, l := range h.lines {
		if l.mark == '-' {
			gone = append(gone, endOf(i))
			i++
			continue
		}
		last = eol
		if l.mark == ' ' {
			gone = nil
		} else if len(gone) > 0 {
			if len(gone[0]) > 0 {
				last = gone[0]
			}
			gone = gone[1:]
		}
		switch l.mark {
		case ' ':
			text = append(text, file[i].content...)
			if end := endOf(i); len(end) > 0 {
				last = end
			}
			i++
		case '+':
			text = append(text, l.text...)
			if ends && l.cr {
				last = crlf
			} else if ends {
				last = lf
			}
		}
		text = append(text, last...)
	}
	return text, last
}

// defaultFuzz is GNU patch's.
const defaultFuzz = 2

// locateUnified finds the place of a hunk that is nearest to where it says that
// it is, as far off as the hunk before was, and with as much of its context as
// can be.
func (h *Hunk) locateUnified(content []byte, opts *ApplyOptions, at *position) ([]put, Match, []string) {
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
		if h.stated >= 0 {
			from = h.stated + at.offset
		}
		if from < at.line || from > len(file.lines) {
			return nil, Match{Kind: IsNotFound, Reason: reasonNone}, nil
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
		part.lines = h.lines[head : len(h.lines)-tail]
		part.oldNoEnd, part.newNoEnd = h.oldNoEnd && tail == 0, h.newNoEnd && tail == 0
		if len(part.olds().lines) == 0 {
			break // nothing is left to go by
		}
		// Line ends that are as the hunk has them come first.
		for _, ends := range []bool{true, false} {
			places := part.places(file, at.line, literal, ends)
			if dropped > 0 && before < context && h.stated <= 1 {
				places = slices.DeleteFunc(places, func(p int) bool { return p > 0 })
			}
			if dropped > 0 && after < context {
				places = slices.DeleteFunc(places,
					func(p int) bool { return p+len(part.olds().lines) < len(file.lines) })
			}
			if len(places) > 0 {
				return part.putAtNearest(content, file, places, head, dropped > 0, ends, at)
			}
		}
	}
	return h.locateSimilar(content, &ApplyOptions{}, at)
}

// putAtNearest puts a unified hunk, without its first head lines, at the one of places that is
// nearest to where the hunk says that it is.
func (h *Hunk) putAtNearest(content []byte, file *lined, places []int, head int, dropped, ends bool,
	at *position) ([]put, Match, []string) {
	from, ok := places[0], len(places) == 1
	if !ok && h.stated >= 0 {
		from, ok = nearest(places, h.stated-1+head+at.offset)
	}
	if !ok {
		return nil, *h.several(file, places, literal), nil
	}
	if h.stated >= 0 {
		at.offset = from - (h.stated - 1 + head)
	}
	kind, warnings := IsExact, []string(nil)
	if dropped {
		kind, warnings = IsFuzzy, []string{warnContextDropped}
	}
	puts, m, _ := h.put(content, file, from, kind, Exact, ends, at)
	return puts, m, warnings
}

// hasBOM reports whether a byte order mark is at the start of a line: then it is
// of the text.
func (h *Hunk) hasBOM() bool {
	return slices.ContainsFunc(h.lines, func(l hunkLine) bool { return bytes.HasPrefix(l.text, bom) })
}

// contextLines counts the lines at both ends of a hunk that stay.
func (h *Hunk) contextLines() (before, after int) {
	for before < len(h.lines) && h.lines[before].mark == ' ' {
		before++
	}
	for after < len(h.lines)-before && h.lines[len(h.lines)-1-after].mark == ' ' {
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
