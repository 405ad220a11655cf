package patch

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"sort"
)

// A Stage is a rung of the ladder that [Locate] climbs, from the strictest to
// the loosest.
type Stage string

const (
	Exact       Stage = "exact"        // the same bytes, or the same but for CRLF and LF
	Whitespace  Stage = "whitespace"   // the same lines but for blanks at their ends, then at both ends
	Unicode     Stage = "unicode"      // so, with quotes, dashes and spaces in their plain form
	BlockAnchor Stage = "block_anchor" // first and last line the same, those between similar
	Levenshtein Stage = "levenshtein"  // similar as a whole
)

// stages is the ladder.
var stages = []Stage{Exact, Whitespace, Unicode, BlockAnchor, Levenshtein}

// A Kind says how a search ended.
type Kind string

const (
	IsExact     Kind = "exact"
	IsFuzzy     Kind = "fuzzy"
	IsAmbiguous Kind = "ambiguous" // several places are as good, or not as many as expected
	IsNotFound  Kind = "not_found"
	IsInvalid   Kind = "invalid" // the question makes no sense
)

// What Match.Reason may be.
const (
	reasonEmpty     = "empty"            // the old text is empty
	reasonNoChange  = "no_change"        // old and new are the same
	reasonOptions   = "options"          // an option is out of range
	reasonFuzzyOne  = "fuzzy_one"        // not found exactly, and other than one replacement is only exact
	reasonSeveral   = "several"          // it is there several times
	reasonCount     = "count"            // it is not there as often as expected
	reasonBlank     = "blank"            // the old text has no line that is not blank
	reasonNone      = "none"             // nothing is similar enough
	reasonShort     = "short"            // too short to be looked for by similarity
	reasonElision   = "elision"          // the old text leaves lines out, as in "..."
	reasonDisparate = "disproportionate" // what was found is far longer than the old text
	reasonMarkers   = "markers"          // the new text holds a marker of a patch format, or line numbers
	// all lines of a text begin with -, + or a blank, as in a diff, and those of the file
	// do not
	reasonDiffMarks = "diff_marks"
	reasonEscaped   = "escaped" // the old text has \n, \" or &lt; where the file has what they stand for
	// what is similar begins or ends elsewhere: the old text has more lines than are there,
	// or fewer
	reasonShifted     = "shifted"
	reasonCandidates  = "too_many_candidates"
	reasonBudget      = "budget"          // the search took too long
	reasonApplied     = "already_applied" // the new text is there, the old one is not
	reasonBothChanged = "both_changed"    // with Merge: a line that the new text changes differs from the old one
	reasonOverlap     = "overlap"         // two of a patch overlap
	reasonExists      = "exists"          // there is no old text, and the file is there
	// of V4A: a line after which it is to be is not there, or several times: see
	// Match.Anchor
	reasonContext = "context"
	// with RefuseUnsureIndent: no single rule leads from one indentation to the other
	reasonIndent = "indent"
)

// replaceAll as Options.Replacements replaces all occurrences.
const replaceAll = -1

// Options are the choices at [Locate] and [Replace]. The zero value is the
// default: one replacement, all stages.
type Options struct {
	Stages       []Stage // that are tried, in the order of the ladder; default all
	ExactOnly    bool    // only Exact is tried
	Replacements int     // how often old must be there, exactly, if not once; -1: replace all; default 1

	LevenshteinMin float64 // least similarity at Levenshtein; default 0.66
	AnchorMin      float64 // similarity that one at BlockAnchor must exceed; default 0.6
	MinSimilarity  float64 // least similarity at either; default 0
	TieMargin      float64 // similarities that differ by so much are the same; default 0
	MaxGrowth      float64 // how much longer or shorter than old a block may be, at least a line; default 0.25
	// an old text with fewer characters, blanks not counted, is not looked for by
	// similarity; default 0
	MinChars int
	// among places as good, the one whose first line is nearest to this one, from 1, if it
	// is within 200 lines; default none
	LineHint   int
	WholeLines bool // Unicode does not look within lines
	// units of work, of about 8 ns, of a search or of all searches of a patch; default 100
	// million
	Budget int64

	Reindent           Reindent // of what replaces a fuzzy match; default: it stays as it is given
	RefuseUnsureIndent bool     // refuse where Reindent finds no single rule

	// Merge merges the new text with what replaces a fuzzy match: lines that old
	// and new have in common keep the file's bytes, a line that the new text
	// changes must be as in old, and quotes, dashes and blanks that the file has
	// plain where old has others are plain in the new text, too. Default false.
	Merge bool
}

// A Match says where a text was found, or why not.
type Match struct {
	Kind   Kind
	Stage  Stage  // that decided; "": none did
	Reason string // of a refusal, for programs

	Start, End         int     // bytes; of the first place if there are several; neither cuts a character or a CRLF
	StartLine, EndLine int     // first and last line, from 1
	Similarity         float64 // 0 to 1
	Count              int     // places found; more than maxCount are not counted
	Spans              []Span  // all places to be replaced, if there are several
	EOLDiffers         bool    // exact but for CRLF and LF

	Near []Near // of a refusal: the best places, at most 5, in order of similarity

	// Of a hunk of V4A that was refused: the line behind which it is to be, and
	// how often it is there. With "context" the hunk fits behind Count of
	// these places.
	Anchor  string
	Anchors int
}

// A Span is the bytes [Start, End) of a text.
type Span struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// Found reports whether there is something to be replaced.
func (m *Match) Found() bool { return m.Kind == IsExact || m.Kind == IsFuzzy }

// spans returns all places to be replaced.
func (m *Match) spans() []Span {
	if len(m.Spans) > 0 {
		return m.Spans
	}
	return []Span{{m.Start, m.End}}
}

// A Near is a place that is similar to what was looked for.
type Near struct {
	StartLine  int     `json:"startLine"` // from 1
	EndLine    int     `json:"endLine"`
	Similarity float64 `json:"similarity"`

	// The first line that differs, and both forms of it. 0: none does.
	Line int    `json:"line,omitempty"`
	Want string `json:"want,omitempty"`
	Got  string `json:"got,omitempty"`
}

// maxCount is how many places are counted at most.
const maxCount = 1000

// maxPlaces is how many places are looked at: all, if a hint is to choose, and
// else fewer of a text of megabytes.
func (s *search) maxPlaces() int {
	if s.LineHint > 0 {
		return math.MaxInt
	}
	return min(maxCount, max(2, 20<<20/len(s.old)))
}

// Locate finds the one place in content that is old, or that is what somebody
// meant by old. The first stage at which some place qualifies decides: if there
// are several it refuses, and tries no looser one.
//
// It is a function of its arguments alone, of any bytes. The time is near linear
// in the content and bounded by the budget, the memory linear. Options may be
// nil.
func Locate(content, old []byte, opts *Options) *Match {
	return newSearch(content, old, opts).run(nil, false)
}

const defaultBudget = 100e6

// A search is one while it runs.
type search struct {
	Options
	content, old []byte
	file, needle *lined
	lines        bool // old is of whole lines, and found as such
	elided       bool // old leaves lines out
	cut          bool // the budget was spent

	*budget
}

// spend takes n units of the budget, and reports whether they are there.
func (s *search) spend(n int) bool {
	s.left -= int64(n)
	s.cut = s.cut || s.left < 0
	return !s.cut
}

func newSearch(content, old []byte, opts *Options) *search {
	s := &search{content: content, old: old}
	if opts != nil {
		s.Options = *opts
	}
	s.Replacements = cmp.Or(s.Replacements, 1)
	s.LevenshteinMin = cmp.Or(s.LevenshteinMin, 0.66)
	s.AnchorMin = cmp.Or(s.AnchorMin, 0.6)
	s.MaxGrowth = cmp.Or(s.MaxGrowth, 0.25)
	s.budget = &budget{left: cmp.Or(s.Budget, defaultBudget)}
	return s
}

// run runs a search. new is what is to replace old, if that is known.
func (s *search) run(new []byte, replacing bool) *Match {
	switch {
	case len(s.old) == 0:
		return &Match{Kind: IsInvalid, Reason: reasonEmpty}
	case replacing && bytes.Equal(s.old, new):
		return &Match{Kind: IsInvalid, Reason: reasonNoChange}
	case s.Replacements < replaceAll || !s.inRange():
		return &Match{Kind: IsInvalid, Reason: reasonOptions}
	}
	if s.has(Exact) {
		if m := s.exact(); m != nil {
			return m
		}
		if s.cut {
			return s.notFound(reasonBudget)
		}
	}
	if s.Replacements != 1 {
		if s.ExactOnly || !slices.ContainsFunc(stages[1:], s.has) {
			return s.notFound(reasonNone)
		}
		return &Match{Kind: IsInvalid, Reason: reasonFuzzyOne}
	}
	s.prepare()
	if len(s.needle.lines) == 0 {
		return &Match{Kind: IsNotFound, Reason: reasonBlank}
	}
	if s.has(Whitespace) {
		if m := s.whitespace(); m != nil {
			return m
		}
	}
	if s.has(Unicode) {
		if m := s.unicode(); m != nil {
			return m
		}
	}
	return s.similar(new, replacing)
}

// has reports whether a stage is to be tried.
func (o *Options) has(stage Stage) bool {
	if o.ExactOnly && stage != Exact {
		return false
	}
	return o.Stages == nil || slices.Contains(o.Stages, stage)
}

func (s *search) inRange() bool {
	for _, v := range []float64{s.LevenshteinMin, s.AnchorMin, s.MinSimilarity, s.TieMargin} {
		if !(v >= 0 && v <= 1) {
			return false
		}
	}
	for _, stage := range s.Stages {
		if !slices.Contains(stages, stage) {
			return false
		}
	}
	if s.Reindent != "" && s.Reindent != ReindentAuto && s.Reindent != ReindentOff {
		return false
	}
	return s.MaxGrowth >= 0 && s.Budget >= 0 && s.LevenshteinMin > 0
}

// prepare splits both texts into lines.
func (s *search) prepare() {
	if s.file == nil {
		s.file = newLined(s.content)
	}
	s.needle = newLined(s.old)
	s.needle.dropBlankEnds()
	s.elided = slices.ContainsFunc(s.needle.lines, isElision)
}

// found is a match at one of several places that are as good as one another.
// The line hint may choose.
func (s *search) found(kind Kind, stage Stage, places []Span, count int, similarity float64) *Match {
	i := 0
	if count > 1 {
		if i = s.hinted(s.lineOf(places)); i < 0 {
			m := s.refused(IsAmbiguous, stage, reasonSeveral, places, similarity)
			m.Count = count
			return m
		}
	}
	line := s.lineOf(places[i : i+1])[0]
	return &Match{Kind: kind, Stage: stage, Similarity: similarity, Count: 1,
		Start: places[i].Start, End: places[i].End, StartLine: line[0], EndLine: line[1]}
}

// maxNear is how many places a refusal names at most.
const maxNear = 5

// refused is a refusal that names the places that it is about.
func (s *search) refused(kind Kind, stage Stage, reason string, places []Span, similarity float64) *Match {
	m := &Match{Kind: kind, Stage: stage, Reason: reason, Similarity: similarity}
	lines := slices.Compact(s.lineOf(places))
	for _, l := range lines[:min(len(lines), maxNear)] {
		m.Near = append(m.Near, Near{StartLine: l[0], EndLine: l[1], Similarity: similarity})
	}
	return m
}

// hintReach is how far from the hint a place may be.
const hintReach = 200

// hinted returns which of some places the line hint chooses, -1 if none.
func (s *search) hinted(lines [][2]int) int {
	if s.LineHint <= 0 {
		return -1
	}
	best, distance := -1, hintReach+1
	for i, l := range lines {
		switch d := max(l[0]-s.LineHint, s.LineHint-l[0]); {
		case d < distance:
			best, distance = i, d
		case d == distance:
			best = -1
		}
	}
	return best
}

// lineOf returns the first and the last line of each place, from 1. They are in
// order of place.
func (s *search) lineOf(places []Span) [][2]int {
	if len(places) > 1 && s.file == nil {
		s.file = newLined(s.content)
	}
	line := func(at int) int {
		if s.file == nil {
			return 1 + bytes.Count(s.content[:at], lf)
		}
		return max(1, sort.Search(len(s.file.lines), func(i int) bool { return s.file.lines[i].start > at }))
	}
	lines := make([][2]int, 0, len(places))
	for _, p := range places {
		// The line end that ends a place is of its last line.
		lines = append(lines, [2]int{line(p.Start), line(max(p.Start, p.End-1))})
	}
	return lines
}
