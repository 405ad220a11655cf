package verbs

import (
	"github.com/boocode/filestore/patch"
)

// Locate asks for the place of a text in another.
type Locate struct {
	Content string       `json:"content"`
	Old     string       `json:"old"`
	New     *string      `json:"new,omitempty"` // to be put there
	Options MatchOptions `json:"options,omitzero"`
}

// MatchOptions are [patch.Options] as programs write them.
type MatchOptions struct {
	Stages               []patch.Stage  `json:"stages,omitempty"`
	ExpectedReplacements *int           `json:"expected_replacements,omitempty"` // 0: all
	Fuzzy                *bool          `json:"fuzzy,omitempty"`                 // default true
	MinSimilarity        float64        `json:"min_similarity,omitempty"`
	Reindent             patch.Reindent `json:"reindent,omitempty"` // "auto" or "off"; default: as the verb says
	Merge                *bool          `json:"merge,omitempty"`    // default: as the verb says
	LineHint             int            `json:"line_hint,omitempty"`
}

// Options returns the options for package patch.
func (o *MatchOptions) Options() *patch.Options {
	opts := &patch.Options{Stages: o.Stages, MinSimilarity: max(0, o.MinSimilarity), Reindent: o.Reindent,
		LineHint: o.LineHint, ExactOnly: o.Fuzzy != nil && !*o.Fuzzy, Merge: o.Merge != nil && *o.Merge}
	if o.Reindent == "none" {
		opts.Reindent = patch.ReindentOff
	}
	if n := o.ExpectedReplacements; n != nil {
		if opts.Replacements = *n; *n <= 0 { // -1 is all there, and less is out of range
			opts.Replacements = *n - 1
		}
	}
	return opts
}

// Located is the answer.
type Located struct {
	Kind       patch.Kind   `json:"kind"`
	Stage      *patch.Stage `json:"stage"` // null: none decided
	Start      *int         `json:"start"` // null: nothing was found
	End        *int         `json:"end"`
	Count      int          `json:"count"`
	Spans      []patch.Span `json:"spans,omitempty"` // of several
	Similarity float64      `json:"similarity"`
	Result     *string      `json:"result,omitempty"` // only where something was replaced
	Reason     string       `json:"reason,omitempty"`

	StartLine int          `json:"startLine,omitempty"`
	EndLine   int          `json:"endLine,omitempty"`
	Near      []patch.Near `json:"near,omitempty"`
	Warnings  []string     `json:"warnings,omitempty"`
	Message   string       `json:"message,omitempty"` // of a refusal
}

// Answer finds the place.
func (q *Locate) Answer() *Located {
	if q.New != nil {
		return NewLocated(patch.Replace([]byte(q.Content), []byte(q.Old), []byte(*q.New), q.Options.Options()))
	}
	return NewLocated(&patch.Result{Match: *patch.Locate([]byte(q.Content), []byte(q.Old), q.Options.Options())})
}

// NewLocated returns the answer that a result makes.
func NewLocated(r *patch.Result) *Located {
	m := &r.Match
	answer := &Located{Kind: m.Kind, Count: m.Count, Spans: m.Spans, Similarity: m.Similarity, Reason: m.Reason,
		StartLine: m.StartLine, EndLine: m.EndLine, Near: m.Near, Warnings: r.Warnings}
	if m.Stage != "" {
		answer.Stage = &m.Stage
	}
	if !m.Found() {
		answer.Message = m.Explain()
		return answer
	}
	answer.Start, answer.End = &m.Start, &m.End
	if r.Content != nil {
		text := string(r.Content)
		answer.Result = &text
	}
	return answer
}
