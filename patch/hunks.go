package patch

import "bytes"

// A position is how far the hunks of a file have got.
type position struct {
	file   *lined
	line   int // after the hunk before
	offset int // of a unified diff: how far the hunk before was from where it said
}

func (at *position) lines(content []byte) []line {
	if at.file == nil {
		at.file = newLined(content)
	}
	return at.file.lines
}

// sameLine reports whether two lines are the same in a fold.
func sameLine(a, b []byte, f fold) bool {
	if f == literal {
		return bytes.Equal(a, b)
	}
	return bytes.Equal(f.of(a), f.of(b))
}

// olds returns the lines that are to be there.
func (h *Hunk) olds() (list [][]byte) {
	for _, l := range h.Lines {
		if l.Mark != '+' {
			list = append(list, l.Text)
		}
	}
	return list
}

// isAt reports whether a file has some lines from one on.
func isAt(file []line, olds [][]byte, from int, f fold) bool {
	if from < 0 || from+len(olds) > len(file) {
		return false
	}
	for i, old := range olds {
		if !sameLine(file[from+i].content, old, f) {
			return false
		}
	}
	return true
}

// literal is the fold of lines that are compared as they are.
const literal fold = -1

// folds returns how lines may be compared, by stage.
func folds(o *Options) (list []fold) {
	has := func(stage Stage) bool { return (&search{Options: *o}).has(stage) }
	if has(Exact) {
		list = append(list, literal)
	}
	if has(Whitespace) {
		list = append(list, foldEnds, foldBlanks)
	}
	if has(Unicode) {
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
			return nil, Match{Kind: IsNotFound, Reason: ReasonContext, Near: []Near{{StartLine: at.line + 1, EndLine: len(file), Line: at.line + 1, Want: context}}}, nil
		}
		at.line = i + 1
	}
	olds := h.olds()
	if len(olds) == 0 {
		from := at.line
		if len(h.Context) == 0 || h.AtEnd {
			from = len(file)
		}
		return h.put(content, file, from, IsExact, Exact, at)
	}
	for _, f := range list {
		if last := len(file) - len(olds); h.AtEnd && last >= at.line && isAt(file, olds, last, f) {
			return h.put(content, file, last, kindOf(f), f.stage(), at)
		}
	}
	for _, f := range list {
		var places []Span
		found := 0
		for from := at.line; from+len(olds) <= len(file); from++ {
			if isAt(file, olds, from, f) {
				if found = from; len(places) < maxCount {
					places = append(places, at.file.span(from, from+len(olds)))
				}
			}
		}
		switch {
		case len(places) == 1:
			return h.put(content, file, found, kindOf(f), f.stage(), at)
		case len(places) > 1:
			m := newSearch(content, nil, nil).refused(IsAmbiguous, f.stage(), ReasonSeveral, places, 1)
			m.Count = len(places)
			return nil, *m, nil
		}
	}
	return h.locateSimilar(content, opts)
}

func kindOf(f fold) Kind {
	if f == literal {
		return IsExact
	}
	return IsFuzzy
}

// after finds the first line from one on that is a context line. A stricter
// comparison comes first.
func after(file []line, context string, from int, list []fold) (int, bool) {
	for _, f := range list {
		for i := from; i < len(file); i++ {
			if sameLine(file[i].content, []byte(context), f) {
				return i, true
			}
		}
	}
	return 0, false
}

// locateSimilar finds a hunk by similarity, if that is allowed, and says what is
// nearest if not.
func (h *Hunk) locateSimilar(content []byte, opts *ApplyOptions) ([]put, Match, []Warning) {
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
	if stages == nil {
		s.prepare()
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
// stay keep their bytes.
func (h *Hunk) put(content []byte, file []line, from int, kind Kind, stage Stage, at *position) ([]put, Match, []Warning) {
	olds := len(h.olds())
	m := Match{Kind: kind, Stage: stage, Similarity: 1, Count: 1, StartLine: from + 1, EndLine: max(from+1, from+olds)}
	start, end := len(content), len(content)
	if from < len(file) {
		start = file[from].start
	}
	if to := from + olds; to < len(file) {
		end = file[to].start
	}
	eol := lineEnd(content[start:end], content)
	var b []byte
	// An end that is missing before the first line is supplied, one that is
	// missing at the end of the file stays missing.
	endsOpen := end == len(content) && len(content) > 0 && content[len(content)-1] != '\n'
	if start == len(content) && endsOpen {
		b = append(b, eol...)
	}
	i := from
	wrote := false
	for _, l := range h.Lines {
		switch l.Mark {
		case '-':
			i++
			continue
		case ' ':
			b = append(b, file[i].content...)
			ending := content[file[i].end:]
			if n := lineEndAt(ending, 0); n > 0 {
				b = append(b, ending[:n]...)
			} else {
				b = append(b, eol...)
			}
			i++
		case '+':
			b = append(append(b, l.Text...), eol...)
		}
		wrote = true
	}
	if end == len(content) {
		open := endsOpen
		if h.OldNoEnd || h.NewNoEnd { // it says so
			open = h.NewNoEnd
		}
		if open && wrote {
			b = b[:len(b)-len(eolOf(b))]
		}
		if open && !wrote && start == end {
			b = nil
		}
	}
	at.line = from + olds
	m.Start, m.End = start, end
	return []put{{Span: Span{start, end}, new: b}}, m, nil
}

// eolOf returns the line end that a text has at its end.
func eolOf(b []byte) []byte {
	switch {
	case bytes.HasSuffix(b, crlf):
		return crlf
	case bytes.HasSuffix(b, lf):
		return lf
	}
	return nil
}

// defaultFuzz is GNU patch's.
const defaultFuzz = 2

// locateUnified finds the place of a hunk that is nearest to where it says that
// it is, as far off as the hunk before was, and with as much of its context as
// can be.
func (h *Hunk) locateUnified(content []byte, opts *ApplyOptions, at *position) ([]put, Match, []Warning) {
	file := at.lines(content)
	fuzz := defaultFuzz
	if opts.Fuzz != nil {
		fuzz = *opts.Fuzz
	}
	before, after := h.contextLines()
	for dropped := 0; dropped <= fuzz; dropped++ {
		head, tail := min(dropped, before), min(dropped, after)
		if dropped > 0 && head < dropped && tail < dropped {
			break
		}
		part := *h
		part.Lines = h.Lines[head : len(h.Lines)-tail]
		olds := part.olds()
		if len(olds) == 0 && len(h.olds()) > 0 {
			break // nothing is left to go by
		}
		if len(olds) == 0 { // all it says is where
			from := len(file)
			if h.Stated > 0 || len(file) == 0 {
				from = h.Stated + at.offset
			}
			if from < at.line || from > len(file) {
				return nil, Match{Kind: IsNotFound, Reason: ReasonNone}, nil
			}
			return part.put(content, file, from, IsExact, Exact, at)
		}
		var places []int
		for from := at.line; from+len(olds) <= len(file); from++ {
			if isAt(file, olds, from, literal) {
				places = append(places, from)
			}
		}
		if len(places) == 0 {
			continue
		}
		kind := IsExact
		if dropped > 0 {
			kind = IsFuzzy
		}
		from := places[0]
		if len(places) > 1 {
			var ok bool
			if from, ok = nearest(places, h.Stated-1+head+at.offset); !ok || h.Stated == 0 {
				var spans []Span
				for _, p := range places[:min(len(places), maxNear)] {
					spans = append(spans, at.file.span(p, p+len(olds)))
				}
				m := newSearch(content, nil, nil).refused(IsAmbiguous, Exact, ReasonSeveral, spans, 1)
				m.Count = len(places)
				return nil, *m, nil
			}
		}
		if h.Stated > 0 {
			at.offset = from - (h.Stated - 1 + head)
		}
		return part.put(content, file, from, kind, Exact, at)
	}
	return h.locateSimilar(content, &ApplyOptions{})
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
