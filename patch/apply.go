package patch

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// A Format is one in which patches are written.
type Format string

const (
	SearchReplace Format = "search-replace" // blocks of <<<<<<< SEARCH, ======= and >>>>>>> REPLACE
	V4A           Format = "v4a"            // *** Begin Patch
	Unified       Format = "udiff"          // --- and +++
	EditList      Format = "edits"          // JSON
)

// A Patch is what is to be done to files.
type Patch struct {
	Format Format
	Files  []FilePatch // each path once
}

// An Op is what a patch does to a file.
type Op string

const (
	Create Op = "create"
	Update Op = "update"
	Delete Op = "delete"
)

// A FilePatch is what is to be done to one file.
type FilePatch struct {
	Op    Op
	Path  string // relative, slash-separated
	To    string // where it moves; "": it stays
	Other string // another name that a unified diff has for it, if there is none at Path

	Executable bool   // of Create
	Hunks      []Hunk // of Update; of Create one whose New is the content
}

// A Hunk replaces a piece of a file.
type Hunk struct {
	Line int // of the patch where it begins, from 1; of an edit list its number

	// Of blocks and edit lists.
	Old, New []byte
	Options  Options // that the patch asks for: those that it can name, as far as those given to Apply allow

	// Of V4A and unified diffs.
	context []string // lines after which it is, in this order (V4A)
	lines   []hunkLine
	atEnd   bool // it ends the file (V4A)
	// line of the file where it says that it begins, from 1, or after which it is if it has
	// no old lines; -1: it does not say
	stated int

	oldNoEnd, newNoEnd bool // the last old line, or new one, has no line end (unified diff)
	short              bool // the patch ends before the lines that it promises (unified diff)
}

// A hunkLine is a line of a hunk, without its mark and its end.
type hunkLine struct {
	mark byte // ' ', '-' or '+'
	text []byte
	cr   bool // it ends with CRLF (unified diff)
}

// formatOf tells a patch's format by its look: by the first line that only one of
// them has. What looks like none is taken for a unified diff.
func formatOf(input []byte) Format {
	if text := bytes.TrimSpace(input); bytes.HasPrefix(text, []byte("{")) || bytes.HasPrefix(text, []byte("[")) {
		return EditList
	}
	for l := range bytes.Lines(input) {
		l = bytes.TrimRight(l, "\r\n >")
		switch {
		case string(bytes.TrimSpace(l)) == "*** Begin Patch":
			return V4A
		case bytes.HasSuffix(l, []byte(" SEARCH")) && (bytes.HasPrefix(l, []byte("<<<<<")) ||
			bytes.HasPrefix(l, []byte("-----"))):
			return SearchReplace
		case bytes.HasPrefix(l, []byte("diff ")) || bytes.HasPrefix(l, []byte("--- ")) ||
			bytes.HasPrefix(l, []byte("@@ ")):
			return Unified
		}
	}
	return Unified
}

// Parse reads a patch. A format of "" is told by the patch's look.
// path is the file that blocks are for that name none; it may be "". Any error is
// a [*ParseError].
func Parse(format Format, input []byte, path string) (*Patch, error) {
	if format == "" {
		format = formatOf(input)
	}
	var files []FilePatch
	var err error
	switch format {
	case SearchReplace:
		files, err = parseBlocks(input, path)
	case V4A:
		files, err = parseV4A(input)
	case Unified:
		files, err = parseUnified(input)
	case EditList:
		files, err = parseEdits(input, path)
	default:
		return nil, &ParseError{Reason: fmt.Sprintf("format %q: want search-replace, v4a, udiff or edits", format)}
	}
	if err != nil {
		return nil, err
	}
	p := &Patch{Format: format}
	index := make(map[string]int)
	for _, f := range files {
		i, seen := index[f.Path]
		switch {
		case !seen:
			index[f.Path] = len(p.Files)
			p.Files = append(p.Files, f)
		case p.Files[i].Op == Update && f.Op == Update && p.Files[i].To == "" && f.To == "":
			p.Files[i].Hunks = append(p.Files[i].Hunks, f.Hunks...)
		default:
			return nil, &ParseError{Reason: fmt.Sprintf("%q is patched twice", f.Path)}
		}
	}
	if len(p.Files) == 0 {
		return nil, &ParseError{Reason: "there is nothing to do"}
	}
	return p, nil
}

// ApplyOptions are the choices at [Patch.Apply]. The zero value is the default.
type ApplyOptions struct {
	Options    Options // of blocks and edit lists, and of V4A the stages; default of V4A: Exact, Whitespace and Unicode
	Sequential bool    // each hunk is looked for in what the one before it left, and not in the file as it was
	Fuzz       *int    // how many lines of context a hunk of a unified diff may lose at each end; default 2
}

// A FileResult is what a patch makes of a file.
type FileResult struct {
	Op      Op
	Path    string
	To      string
	Before  []byte // nil with Create
	Content []byte // nil with Delete

	Executable bool     // with Create
	Hunks      []Result // how each was put; without content
}

// Apply applies a patch in memory: read returns the content of a file, or an
// error that matches [fs.ErrNotExist]. It is all or nothing: with any refusal
// there is no result but the refusals, all of them.
func (p *Patch) Apply(read func(path string) ([]byte, error), opts *ApplyOptions) ([]FileResult, []*HunkError) {
	if opts == nil {
		opts = new(ApplyOptions)
	}
	var results []FileResult
	var errs []*HunkError
	shared := &budget{left: cmp.Or(opts.Options.Budget, defaultBudget)}
	for i := range p.Files {
		f := &p.Files[i]
		r, ferrs := p.applyFile(f, read, opts, shared)
		results, errs = append(results, r), append(errs, ferrs...)
	}
	// What is made must not be there, unless it goes in the same patch.
	gone := make(map[string]bool)
	for _, r := range results {
		if r.Op == Delete || r.To != "" {
			gone[r.Path] = true
		}
	}
	made := make(map[string]bool)
	for _, r := range results {
		target := cmp.Or(r.To, r.Path)
		if r.Op == Delete || r.Op == Update && r.To == "" {
			continue
		}
		_, err := read(target)
		switch {
		case made[target]:
			errs = append(errs, &HunkError{Path: target, Err: errors.New("it is made twice")})
		case err == nil && !gone[target]:
			errs = append(errs, &HunkError{Path: target, Err: fmt.Errorf("it is to be made: %w", fs.ErrExist)})
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, &HunkError{Path: target, Err: err})
		}
		made[target] = true
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return results, nil
}

func (p *Patch) applyFile(f *FilePatch, read func(string) ([]byte, error), opts *ApplyOptions,
	shared *budget) (FileResult, []*HunkError) {
	r := FileResult{Op: f.Op, Path: f.Path, To: f.To, Executable: f.Executable}
	if f.Op == Create {
		if r.Content = []byte{}; len(f.Hunks) > 0 {
			r.Content = f.Hunks[0].New
		}
		return r, nil
	}
	content, err := read(f.Path)
	if errors.Is(err, fs.ErrNotExist) && f.Other != "" {
		if content, err = read(f.Other); err == nil {
			r.Path = f.Other
		}
	}
	if errors.Is(err, fs.ErrNotExist) && f.creates() {
		h := &f.Hunks[0]
		if makesMarks(h.New) {
			return r, []*HunkError{{Path: f.Path, Line: h.Line, Match: Match{Kind: IsInvalid, Reason: reasonDiffMarks}}}
		}
		r.Op, r.Content = Create, h.New
		return r, nil
	}
	if err != nil {
		return r, []*HunkError{{Path: f.Path, Err: err}}
	}
	r.Before, r.Content = content, content
	if errs := p.applyHunks(f, &r, opts, shared); len(errs) > 0 {
		return r, errs
	}
	if f.Op == Delete {
		if p.Format == Unified && len(r.Content) > 0 {
			return r, []*HunkError{{Path: f.Path, Err: errors.New("the file holds more than what is to be deleted")}}
		}
		r.Content = nil
	}
	return r, nil
}

// applyHunks makes the changes of f's hunks in r.Content, if all of them can be made.
func (p *Patch) applyHunks(f *FilePatch, r *FileResult, opts *ApplyOptions, shared *budget) (errs []*HunkError) {
	refused := make(map[*Hunk]bool)
	refuse := func(h *Hunk, m Match) {
		if !refused[h] {
			errs = append(errs, &HunkError{Path: f.Path, Line: h.Line, Match: m})
		}
		refused[h] = true
	}
	at := &position{budget: shared}
	// Hunks with a cursor are one after the other as it is.
	sequential := opts.Sequential && p.Format != V4A && p.Format != Unified
	var puts []put
	for i := range f.Hunks {
		h := &f.Hunks[i]
		list, m, warnings := h.locate(r.Content, p.Format, opts, at)
		if !m.Found() {
			shared.refusals++
			refuse(h, m)
			continue
		}
		if h.short {
			warnings = append(warnings, warnHunkShort)
		}
		r.Hunks = append(r.Hunks, Result{Line: h.Line, Match: m, Warnings: warnings})
		for j := range list {
			list[j].hunk = h
		}
		if sequential {
			r.Content, at.file = putAll(r.Content, list), nil
		} else {
			puts = append(puts, list...)
		}
	}
	slices.SortStableFunc(puts, func(a, b put) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
	for i := 1; i < len(puts); i++ {
		if a, b := puts[i-1], puts[i]; b.Start < a.End {
			refuse(b.hunk, Match{Kind: IsAmbiguous, Reason: reasonOverlap})
		}
	}
	if len(errs) == 0 {
		r.Content = putAll(r.Content, puts)
	}
	return errs
}

// creates reports whether all that is to be done is to make the file.
func (f *FilePatch) creates() bool {
	return f.Op == Update && len(f.Hunks) == 1 && len(f.Hunks[0].Old) == 0 && f.Hunks[0].lines == nil &&
		len(f.Hunks[0].context) == 0
}

// A put puts bytes in the place of a span.
type put struct {
	Span
	lead []byte // before new, if what precedes it has no line end
	new  []byte
	hunk *Hunk
}

// putAll does puts, which are in order and do not overlap.
func putAll(content []byte, puts []put) []byte {
	size := len(content)
	for _, p := range puts {
		size += len(p.new) - (p.End - p.Start)
	}
	out := make([]byte, 0, size)
	at := 0
	for _, p := range puts {
		out = append(out, content[at:p.Start]...)
		if n := len(out); n > 0 && out[n-1] != '\n' {
			out = append(out, p.lead...)
		}
		out = append(out, p.new...)
		at = p.End
	}
	return append(out, content[at:]...)
}

// with returns options with those that a patch asks for, as far as it may.
func (o Options) with(asked *Options) Options {
	switch {
	case asked.Stages == nil:
	case o.Stages == nil:
		o.Stages = asked.Stages
	default: // what both allow
		o.Stages = slices.DeleteFunc(slices.Clone(o.Stages), func(s Stage) bool {
			return !slices.Contains(asked.Stages, s)
		})
	}
	o.ExactOnly = o.ExactOnly || asked.ExactOnly
	o.Replacements = cmp.Or(asked.Replacements, o.Replacements)
	o.MinSimilarity = max(o.MinSimilarity, asked.MinSimilarity)
	o.LineHint = cmp.Or(asked.LineHint, o.LineHint)
	if o.Reindent == "" || asked.Reindent != ReindentOff {
		o.Reindent = cmp.Or(asked.Reindent, o.Reindent)
	}
	o.Merge = o.Merge || asked.Merge
	return o
}

// locate finds where a hunk belongs.
func (h *Hunk) locate(content []byte, format Format, opts *ApplyOptions, at *position) ([]put, Match, []string) {
	switch format {
	case V4A:
		return h.locateV4A(content, opts, at)
	case Unified:
		return h.locateUnified(content, opts, at)
	}
	o := opts.Options.with(&h.Options)
	if len(h.Old) == 0 && len(content) > 0 {
		return nil, Match{Kind: IsInvalid, Reason: reasonExists}, nil
	}
	if len(h.Old) == 0 && makesMarks(h.New) {
		return nil, Match{Kind: IsInvalid, Reason: reasonDiffMarks}, nil
	}
	if len(h.Old) == 0 {
		return []put{{new: h.New}}, Match{Kind: IsExact, Stage: Exact, Similarity: 1, Count: 1,
			StartLine: 1, EndLine: 1}, nil
	}
	s := newSearch(content, h.Old, &o)
	s.budget, s.file = at.budget, at.file
	if format == SearchReplace { // which is of lines
		s.lines, s.WholeLines = true, true
		if !bytes.HasSuffix(content, lf) && bytes.HasSuffix(h.Old, lf) { // the last one, too
			s.content, s.file = append(bytes.Clone(content), lineEnd(nil, content)...), nil
		}
	}
	puts, r := s.replace(h.New)
	if len(s.content) == len(content) {
		at.file = s.file
	}
	for i := range puts {
		if p := &puts[i]; p.End > len(content) {
			p.new = bytes.TrimSuffix(p.new, lineEnd(nil, content))
			p.End = len(content)
		}
	}
	r.End = min(r.End, len(content))
	return puts, r.Match, r.Warnings
}

// Explain says in words how loosely a text was found, as in "found exactly"; or why
// something was refused, what was there instead, and what to do about it.
func (m *Match) Explain() string {
	if m.Found() {
		return m.explainFound()
	}
	var b strings.Builder
	switch more := ""; {
	case m.Reason == reasonContext:
		b.WriteString(m.explainAnchor())
	case m.Reason == reasonCount || m.Reason == reasonSeveral:
		if m.Count >= maxCount {
			more = " or more"
		}
		fmt.Fprintf(&b, "%s (%d%s times)", explanations[m.Reason], m.Count, more)
	default:
		b.WriteString(explanations[m.Reason])
		if m.Anchors > 1 {
			fmt.Fprintf(&b, "; the line %q is there %d times, and the hunk fits behind none of them",
				shortened([]byte(m.Anchor)), m.Anchors)
		}
	}
	for _, n := range m.Near {
		b.WriteString("\n  ")
		if m.Kind == IsNotFound && m.Reason != reasonBothChanged {
			b.WriteString("nearest: ")
		}
		if n.EndLine > n.StartLine {
			fmt.Fprintf(&b, "lines %d-%d", n.StartLine, n.EndLine)
		} else {
			fmt.Fprintf(&b, "line %d", n.StartLine)
		}
		if n.Similarity < 1 {
			fmt.Fprintf(&b, ", %.0f%% similar", 100*n.Similarity)
		}
		if n.Line > 0 {
			fmt.Fprintf(&b, "; line %d is not as given:\n    given: %s\n    there: %s", n.Line,
				visible(n.Want), visible(n.Got))
		}
	}
	return b.String()
}

// explainAnchor says what is wrong with the line behind which a hunk is to be.
func (m *Match) explainAnchor() string {
	line := shortened([]byte(m.Anchor))
	switch {
	case m.Anchors == 0:
		return fmt.Sprintf("the line %q, behind which the hunk is to be, is not in the file, or is in front of "+
			"the hunk before: give it as it is", line)
	case m.Anchors == 1 || m.Count == 1:
		return fmt.Sprintf("the line %q is there %d times, and the hunk fits at %d places behind one of them: "+
			"give more of the lines around it", line, m.Anchors, len(m.Near))
	}
	return fmt.Sprintf("the line %q is there %d times, and the hunk fits behind %d of them: "+
		"give more of the lines around it", line, m.Anchors, m.Count)
}

// absent begins what is said of most texts that were not found.
const absent = "the old text is not in the file as it is given, and "

// explanations say what to do.
var explanations = map[string]string{
	reasonEmpty:    "the old text is empty: say what is to be replaced",
	reasonNoChange: "the old and the new text are the same",
	reasonOptions:  "an option is out of range",
	reasonFuzzyOne: absent + "what is only similar is replaced once at most: give the text as it is",
	reasonSeveral: "the old text is there several times: give more lines around it, or how often it is to be " +
		"replaced",
	reasonCount:     "the old text is not there as often as expected: say how often it is to be replaced",
	reasonBlank:     "the old text has no line that is not blank: give lines around it",
	reasonNone:      "the old text is not in the file: read the file again and give the text as it is",
	reasonShort:     absent + "too short to be looked for by similarity: give lines around it",
	reasonElision:   absent + "it leaves lines out: give all of them",
	reasonDisparate: "what is similar to the old text is far longer: give all lines that are to be replaced",
	reasonMarkers:   "the new text holds marks of a patch, or line numbers: leave them out",
	reasonDiffMarks: "lines begin with marks of a diff (+, - or a blank), which the file does not have: leave " +
		"the marks out, or give all of it as a unified diff",
	reasonEscaped: "the old text has escapes (such as \\n, \\\" or &lt;) where the file has what they stand " +
		"for: give the text as it is in the file",
	reasonShifted:    absent + "what is similar begins or ends elsewhere: read the file again and give all lines",
	reasonCandidates: absent + "too much is similar: give more lines around it",
	reasonBudget:     absent + "to look for what is similar takes too long: give the text as it is",
	reasonApplied:    "the new text is there already, and the old text is not",
	reasonBothChanged: "what is there is only similar to the old text, and differs from it in what is to be " +
		"changed: read the file again and give the text as it is",
	reasonIndent:  "the indentation is not as given, and no single rule leads to what it is: give it as it is",
	reasonOverlap: "it overlaps with another piece of the same patch: join them",
	reasonExists:  "there is no old text, and the file is there: say what is to be replaced",
}

func (m *Match) explainFound() string {
	percent := fmt.Sprintf("%.0f%%", min(99, 100*m.Similarity)) // 100% would say that it is the same
	switch {
	case m.Stage == Exact && m.Kind == IsFuzzy:
		return "found with less context"
	case m.Stage == Whitespace:
		return "found but for blanks"
	case m.Stage == Unicode:
		return "found but for quotes, dashes and blanks"
	case m.Stage == BlockAnchor:
		return "found by its first and last line, " + percent + " similar"
	case m.Stage == Levenshtein:
		return "found as similar, " + percent
	}
	return "found exactly"
}

// visible shows white space.
func visible(s string) string {
	return strings.NewReplacer("\t", "\u2192", " ", "\u00b7", "\u00a0", "\u237d", "\r", "\u240d").Replace(s)
}

// lineEnd returns the line end that most lines of a text have, of those near
// first and then of all.
func lineEnd(near, all []byte) []byte {
	for _, b := range [][]byte{near, all} {
		if n := bytes.Count(b, lf); n > 0 {
			if 2*bytes.Count(b, crlf) > n {
				return crlf
			}
			return lf
		}
	}
	return lf
}
