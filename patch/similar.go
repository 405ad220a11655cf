package patch

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// similar looks for lines that are similar to old's, and refuses what is more
// likely a mistake.
func (s *search) similar(new []byte, replacing bool) *Match {
	anchor, window := s.has(BlockAnchor), s.has(Levenshtein)
	switch {
	case !anchor && !window:
		return s.notFound(reasonNone)
	case chars(s.old) < s.MinChars:
		return s.notFound(reasonShort)
	case s.elided && !(replacing && s.keepsElisions(new)):
		return s.notFound(reasonElision)
	}
	var m *Match
	if anchor {
		m = s.blockAnchor()
	}
	if m == nil && window {
		m = s.levenshtein()
	}
	switch {
	case m == nil && s.cut:
		return s.notFound(reasonBudget)
	case m == nil:
		return s.notFound(reasonNone)
	case !m.Found():
		return m
	case s.isDisparate(m):
		return s.notFound(reasonDisparate)
	case s.elided && !slices.Equal(s.needle.elisions(), newLined(s.content[m.Start:m.End]).elisions()):
		return s.notFound(reasonElision) // they stand for lines of the file
	case replacing && s.hasMarkers(new, m):
		return &Match{Kind: IsInvalid, Stage: m.Stage, Reason: reasonMarkers}
	}
	return m
}

// isDisparate reports whether what was found is far longer than old.
func (s *search) isDisparate(m *Match) bool {
	k := len(s.needle.lines)
	lines := m.EndLine - m.StartLine + 1
	old, found := runeLen(s.old), runeLen(s.content[m.Start:m.End])
	return lines >= max(k+3, 2*k) || found > max(old+500, 4*old)
}

// hasMarkers reports whether a new text has lines that are a format's, or that
// all have a number before them, while what was found has not.
func (s *search) hasMarkers(new []byte, m *Match) bool {
	old := newLined(s.content[m.Start:m.End])
	t := newLined(new)
	isMarker := func(l line) bool {
		text := string(foldBlanks.of(l.content))
		return text == "=======" || isMark(text)
	}
	if slices.ContainsFunc(t.lines, isMarker) && !slices.ContainsFunc(old.lines, isMarker) {
		return true
	}
	return t.isNumbered() && !old.isNumbered()
}

// isNumbered reports whether all lines, of at least two, have a number before
// them, one after the other, as tools print them.
func (t *lined) isNumbered() bool {
	last := -1
	for _, l := range t.lines {
		b := bytes.TrimLeftFunc(l.content, unicode.IsSpace)
		n, digits := 0, 0
		for digits < len(b) && digits < 9 && b[digits] >= '0' && b[digits] <= '9' {
			n = 10*n + int(b[digits]-'0')
			digits++
		}
		rest := string(b[digits:])
		if digits == 0 || last >= 0 && n != last+1 ||
			!slices.ContainsFunc([]string{"\t", "|", " |", ":", "\u2192"},
				func(sep string) bool { return strings.HasPrefix(rest, sep) }) {
			return false
		}
		last = n
	}
	return len(t.lines) >= 2
}

// epsilon is how much two sums of the same fractions may differ.
const epsilon = 1e-9

// maxPairs is how many places are scored at BlockAnchor.
const maxPairs = 10000

// blockAnchor finds a block whose first and last line are old's and whose other
// lines are similar; nil: there is none.
func (s *search) blockAnchor() *Match {
	k := len(s.needle.lines)
	needle := s.needle.hash(foldBlanks)
	if k < 3 || needle[0] == needle[k-1] {
		return nil
	}
	middle := make([]*pattern, 0, k-2)
	for _, l := range s.needle.lines[1 : k-1] {
		p := newPattern(foldBlanks.of(l.content), &s.left)
		if p == nil {
			s.cut = true
			return nil
		}
		middle = append(middle, p)
	}
	grow := max(1, int(min(float64(k)*s.MaxGrowth, float64(len(s.file.lines)))))
	if m, done := s.anchored(middle, []int{k}); done {
		return m
	}
	var sizes []int
	for size := max(2, k-grow); size <= min(k+grow, len(s.file.lines)); size++ {
		if size != k {
			sizes = append(sizes, size)
		}
	}
	m, _ := s.anchored(middle, sizes)
	return m
}

// anchored finds the best block of some sizes. It reports whether it decided.
func (s *search) anchored(middle []*pattern, sizes []int) (m *Match, done bool) {
	file, needle := s.file.hash(foldBlanks), s.needle.hash(foldBlanks)
	first, last := needle[0], needle[len(needle)-1]
	var places []Span
	var scores []float64
	pairs := 0
	for i, h := range file {
		if h != first {
			continue
		}
		if s.left -= int64(len(sizes)); s.left < 0 {
			s.cut = true
			return nil, true
		}
		for _, size := range sizes {
			j := i + size - 1
			if j >= len(file) || file[j] != last {
				continue
			}
			if pairs++; pairs > maxPairs {
				return s.notFound(reasonCandidates), true
			}
			score := s.score(middle, i+1, j)
			if s.cut {
				return nil, true
			}
			if score > s.AnchorMin+epsilon && score >= s.MinSimilarity-epsilon {
				places, scores = append(places, s.file.span(i, j+1)), append(scores, score)
			}
		}
	}
	if len(places) == 0 {
		return nil, false
	}
	return s.best(BlockAnchor, places, scores), true
}

// score returns how similar the lines [from, to) are to old's middle lines, one
// by one: the mean, in which a line without its like counts nothing.
func (s *search) score(middle []*pattern, from, to int) float64 {
	sum := 0.0
	for i := range min(len(middle), to-from) {
		l := foldBlanks.of(s.file.lines[from+i].content)
		p := middle[i]
		t := p.encode(nil, l)
		longest := max(len(t), p.length)
		if longest == 0 {
			sum++
			continue
		}
		d, ok := p.distance(t, longest, &s.left)
		if !ok {
			s.cut = true
			return 0
		}
		sum += 1 - float64(d)/float64(longest)
	}
	return sum / float64(max(1, len(middle), to-from))
}

// best is the match at the best of some places that are good enough.
func (s *search) best(stage Stage, places []Span, scores []float64) *Match {
	top := slices.Max(scores)
	var best []Span
	for i, p := range places {
		if scores[i] >= top-s.TieMargin-epsilon {
			best = append(best, p)
		}
	}
	return s.found(IsFuzzy, stage, best, len(best), top)
}

// A scored window of the file begins at a line and is num/den similar.
type scored struct {
	line     int
	num, den int
}

func (w scored) similarity() float64 { return float64(w.num) / float64(w.den) }

// atLeast reports whether a/b is c or more, to four digits: 17/50 below 1 is
// 0.66, which floating point is not sure of.
func atLeast(a, b int, c float64) bool { return int64(a)*10000 >= int64(c*10000+0.5)*int64(b) }

// verySimilar is what a first pass looks for.
const verySimilar = 0.9

// levenshtein finds as many lines as old has that are similar as a whole; nil:
// there are none. Whatever it returns, no window is better.
//
// Windows that have lines in common with old, at the right distances, are
// measured first. How good the best is then says how far a window may be from
// old to be as good; and one pass over the file (Sellers; in bit-parallel form
// Myers and Hyyrö, with Ukkonen's cutoff) tells all places at which one that
// close can end.
func (s *search) levenshtein() *Match {
	k, lines := len(s.needle.lines), s.file.lines
	if k > len(lines) {
		return nil
	}
	w := &windowed{search: s, k: k, pattern: newPattern(s.needle.joined(), &s.left), done: make(map[int]bool)}
	if w.pattern == nil {
		s.cut = true
		return nil
	}
	w.text = make([]uint16, 0, len(s.content))
	w.starts, w.ends = make([]int, len(lines)), make([]int, len(lines))
	newline := w.pattern.encode(nil, lf)
	for i, l := range lines {
		w.starts[i] = len(w.text)
		w.text = w.pattern.encode(w.text, l.content)
		w.ends[i] = len(w.text)
		w.text = append(w.text, newline...)
	}
	w.least = max(s.LevenshteinMin, s.MinSimilarity)
	for _, c := range s.votes(8) {
		w.measure(c.line)
	}
	passes := []float64{w.least}
	if len(w.found) == 0 { // to look for what is very similar costs less
		passes = []float64{max(verySimilar, w.least), w.least}
	}
	for _, w.least = range passes {
		w.rest()
		if len(w.found) > 0 && w.best.similarity()-s.TieMargin >= w.least {
			break
		}
	}
	if s.cut || len(w.found) == 0 {
		return nil
	}
	var places []Span
	var scores []float64
	slices.SortFunc(w.found, func(a, b scored) int { return cmp.Compare(a.line, b.line) })
	for _, f := range w.found {
		places, scores = append(places, s.file.span(f.line, f.line+k)), append(scores, f.similarity())
	}
	return s.best(Levenshtein, places, scores)
}

// joined returns the lines with LF between them.
func (t *lined) joined() []byte {
	var b []byte
	for i, l := range t.lines {
		if i > 0 {
			b = append(b, '\n')
		}
		b = append(b, l.content...)
	}
	return b
}

// windowed is a search among the windows of k lines.
type windowed struct {
	*search
	k            int
	pattern      *pattern
	text         []uint16 // of the file, encoded for the pattern
	starts, ends []int    // of its lines in there
	least        float64  // similarity that a window must have
	best         scored
	found        []scored // that have it
	done         map[int]bool
}

// length returns the length of the window that begins at a line.
func (w *windowed) length(line int) int { return w.ends[line+w.k-1] - w.starts[line] }

// bar returns the similarity below which a window does not matter.
func (w *windowed) bar() float64 {
	if w.best.den == 0 {
		return w.least
	}
	return max(w.least, w.best.similarity()-w.TieMargin)
}

// reach returns how far a window of a length may be from old, and still matter.
func (w *windowed) reach(length int) int {
	longest := max(length, w.pattern.length)
	return int(float64(longest)*(1-w.bar())) + 1 // one more than enough
}

// measure measures the window that begins at a line.
func (w *windowed) measure(line int) {
	if w.cut || w.done[line] {
		return
	}
	n := w.length(line)
	longest := max(n, w.pattern.length)
	reach := w.reach(n)
	if longest-min(n, w.pattern.length) > reach {
		return
	}
	d, ok := w.pattern.distance(w.text[w.starts[line]:w.ends[line+w.k-1]], reach, &w.left)
	if !ok {
		w.cut = true
		return
	}
	if d > reach {
		return
	}
	w.done[line] = true
	f := scored{line, longest - d, longest}
	if !atLeast(f.num, f.den, w.LevenshteinMin) || !atLeast(f.num, f.den, w.MinSimilarity) {
		return
	}
	w.found = append(w.found, f)
	if w.best.den == 0 || int64(f.num)*int64(w.best.den) > int64(w.best.num)*int64(f.den) {
		w.best = f
	}
}

// rest measures all windows that may matter.
func (w *windowed) rest() {
	// A window that is too long or too short does not. A pass over the others,
	// stretch by stretch of the file, says which of them do.
	type end struct{ line, bound int }
	var ends []end
	pass := func(from, to int) {
		begin := w.starts[from]
		// The longest distance that matters: the longer a window is than old,
		// the farther it may be.
		bar := w.bar()
		cutoff := int(float64(w.pattern.length)*(1-bar)/bar) + 1
		line := from
		ok := w.pattern.ends(w.text[begin:w.ends[to+w.k-1]], cutoff, &w.left, func(at, bound int) {
			for line <= to && w.ends[line+w.k-1]-begin < at {
				line++
			}
			if line <= to && w.ends[line+w.k-1]-begin == at && w.fits(line) {
				ends = append(ends, end{line, bound})
			}
		})
		w.cut = w.cut || !ok
	}
	from, to := -1, -1 // the stretch: first and last window
	for line := 0; line+w.k <= len(w.starts) && !w.cut; line++ {
		if !w.fits(line) {
			continue
		}
		if from >= 0 && line > to+w.k {
			pass(from, to)
			from = -1
		}
		if to = line; from < 0 {
			from = line
		}
	}
	if from >= 0 && !w.cut {
		pass(from, to)
	}
	slices.SortStableFunc(ends, func(a, b end) int { return cmp.Compare(a.bound, b.bound) })
	for _, e := range ends {
		if e.bound <= w.reach(w.length(e.line)) {
			w.measure(e.line)
		}
	}
}

// fits reports whether a window is neither too long nor too short to matter.
func (w *windowed) fits(line int) bool {
	n := w.length(line)
	return max(n, w.pattern.length)-min(n, w.pattern.length) <= w.reach(n)
}

// maxFrequent is how often a line may be in the file to say where a window is.
const maxFrequent = 64

// A vote is for a window by the lines that it has in common with old, at the
// same distance.
type vote struct{ line, votes int }

// votes returns the windows with the most votes, at most n.
func (s *search) votes(n int) []vote {
	k := len(s.needle.lines)
	at := make(map[uint64][]int) // where in the file old's lines are
	for _, h := range s.needle.hash(foldBlanks) {
		at[h] = nil
	}
	blank := newLined([]byte("\n")).hash(foldBlanks)[0]
	for i, h := range s.file.hash(foldBlanks) {
		if places, ok := at[h]; ok && len(places) <= maxFrequent && h != blank {
			at[h] = append(places, i)
		}
	}
	counts := make(map[int]int)
	for j, h := range s.needle.hash(foldBlanks) {
		if places := at[h]; len(places) <= maxFrequent {
			for _, i := range places {
				if start := i - j; start >= 0 && start+k <= len(s.file.lines) {
					counts[start]++
				}
			}
		}
	}
	list := make([]vote, 0, len(counts))
	for line, votes := range counts {
		list = append(list, vote{line, votes})
	}
	slices.SortFunc(list, func(a, b vote) int {
		return cmp.Or(cmp.Compare(b.votes, a.votes), cmp.Compare(a.line, b.line))
	})
	return list[:min(len(list), n)]
}

// maxExplained is how many refusals of a patch say what is nearest.
const maxExplained = 10

// maxNearest is how long a text may be, in bytes, of which a refusal says what is
// nearest though no line of it is as in old.
const maxNearest = 256 << 10

// nearest returns the windows that are the most similar, if they are at all.
func (s *search) nearest() (list []vote) {
	near := newSearch(s.content, s.old, &Options{LevenshteinMin: 0.4, Budget: 5e6})
	near.file, near.needle = s.file, s.needle
	m := near.levenshtein()
	switch {
	case m == nil:
	case m.Found():
		list = append(list, vote{line: m.StartLine - 1})
	default:
		for _, n := range m.Near {
			list = append(list, vote{line: n.StartLine - 1})
		}
	}
	return list
}

// maxShown is how much of a line a refusal shows, in bytes.
const maxShown = 200

// notFound is a refusal that says where old nearly is.
func (s *search) notFound(reason string) *Match {
	m := &Match{Kind: IsNotFound, Reason: reason}
	if s.refusals >= maxExplained {
		return m
	}
	if s.needle == nil {
		s.prepare()
	}
	k := len(s.needle.lines)
	if k == 0 {
		return m
	}
	budget := int64(20e6)
	needle := newPattern(s.needle.joined(), &budget)
	places := s.votes(maxNear)
	if len(places) == 0 && len(s.content) <= maxNearest && k <= len(s.file.lines) {
		places = s.nearest()
	}
	for _, v := range places {
		near := Near{StartLine: v.line + 1, EndLine: v.line + k, Similarity: float64(v.votes) / float64(k)}
		span := s.file.span(v.line, v.line+k)
		window := lined{lines: s.file.lines[v.line : v.line+k]}
		if needle != nil && span.End-span.Start < 4*len(s.old)+1000 {
			t := needle.encode(nil, window.joined())
			longest := max(len(t), needle.length)
			if d, ok := needle.distance(t, longest, &budget); ok && longest > 0 {
				near.Similarity = 1 - float64(d)/float64(longest)
			}
		}
		for _, f := range []fold{foldBlanks, literal} { // if they differ only in blanks, where
			for i, l := range s.needle.lines {
				if got := window.lines[i].content; near.Line == 0 && !bytes.Equal(f.of(l.content), f.of(got)) {
					near.Line, near.Want, near.Got = v.line+i+1, shortened(l.content), shortened(got)
				}
			}
		}
		m.Near = append(m.Near, near)
	}
	slices.SortStableFunc(m.Near, func(a, b Near) int { // the later the first difference, the better
		return cmp.Or(cmp.Compare(b.Similarity, a.Similarity), cmp.Compare(b.Line-b.StartLine, a.Line-a.StartLine))
	})
	return m
}

func shortened(b []byte) string {
	if len(b) <= maxShown {
		return string(b)
	}
	n := maxShown
	for cuts(b, n) {
		n--
	}
	return string(b[:n]) + "\u2026"
}
