package patch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A reader goes through the lines of a patch.
type reader struct {
	lines []line
	at    int // from 0
}

func newReader(input []byte) *reader { return &reader{lines: newLined(input).lines} }

func (r *reader) done() bool { return r.at >= len(r.lines) }

// peek returns the line that comes next.
func (r *reader) peek() string { return string(r.lines[r.at].content) }

func (r *reader) fail(format string, args ...any) error {
	return &ParseError{Line: min(r.at, len(r.lines)-1) + 1, Reason: fmt.Sprintf(format, args...)}
}

// Marks of blocks, of several tools.
var (
	searchMark  = regexp.MustCompile(`^(<{5,9} SEARCH>?|-{5,9} SEARCH>?)\s*$`)
	dividerMark = regexp.MustCompile(`^={5,9}\s*$`)
	replaceMark = regexp.MustCompile(`^(>{5,9} REPLACE|\+{5,9} REPLACE>?)\s*$`)
	startLine   = regexp.MustCompile(`^:(start_line|end_line):\s*(\d+)\s*$`)
	ruleLine    = regexp.MustCompile(`^-{5,9}\s*$`)
	escapedMark = regexp.MustCompile(`^\\(<{5,9}|={5,9}|>{5,9}|-{5,9}|\+{5,9}|:start_line:|:end_line:)`)
	fenceLine   = regexp.MustCompile("^\\s*(`{3,}|~{3,})")
)

// parseBlocks reads SEARCH/REPLACE blocks: a path on a line of its own, perhaps
// with a fence between, is that of the blocks that follow.
func parseBlocks(input []byte, path string) (files []FilePatch, err error) {
	r := newReader(input)
	named := "" // by the line before
	for ; !r.done(); r.at++ {
		l := r.peek()
		switch {
		case searchMark.MatchString(l):
			if named != "" {
				path = named
			}
			if path == "" {
				return nil, r.fail("a block, and no path before it")
			}
			h, err := r.block()
			if err != nil {
				return nil, err
			}
			files = append(files, FilePatch{Op: Update, Path: path, Hunks: []Hunk{h}})
			named = ""
		case replaceMark.MatchString(l) || dividerMark.MatchString(l) && len(files) > 0:
			return nil, r.fail("%q outside of a block", l)
		case fenceLine.MatchString(l) || strings.TrimSpace(l) == "":
		default:
			named = pathIn(l)
		}
	}
	return files, nil
}

// pathIn returns the path that a line holds, without what chats put around it.
func pathIn(l string) string {
	l = strings.TrimSpace(l)
	l = strings.TrimPrefix(l, "File: ")
	l = strings.Trim(l, "*`#: ")
	if l == "" || strings.ContainsAny(l, "\t") || strings.Contains(l, " ") && !strings.ContainsAny(l, "/.") {
		return ""
	}
	return l
}

// block reads a block whose first mark comes next, and stops at its last.
func (r *reader) block() (h Hunk, err error) {
	h.Line = r.at + 1
	var old, new []byte
	r.at++
	for ; !r.done(); r.at++ {
		m := startLine.FindStringSubmatch(r.peek())
		if m == nil {
			break
		}
		if h.Options.LineHint == 0 && m[1] == "start_line" {
			h.Options.LineHint, _ = strconv.Atoi(m[2])
		}
	}
	if h.Options.LineHint > 0 && !r.done() && ruleLine.MatchString(r.peek()) {
		r.at++
	}
	inNew := false
	for ; !r.done(); r.at++ {
		l := r.peek()
		switch {
		case searchMark.MatchString(l):
			return h, r.fail("a block within a block")
		case !inNew && replaceMark.MatchString(l):
			return h, r.fail("a block without a line of =======")
		case !inNew && dividerMark.MatchString(l):
			inNew = true
			continue
		case inNew && replaceMark.MatchString(l):
			h.Old, h.New = old, new
			return h, nil
		}
		text := r.lines[r.at].content
		if escapedMark.Match(text) {
			text = text[1:]
		}
		if inNew {
			new = append(append(new, text...), '\n')
		} else {
			old = append(append(old, text...), '\n')
		}
	}
	return h, r.fail("a block without an end")
}

// parseV4A reads what stands between *** Begin Patch and *** End Patch.
func parseV4A(input []byte) (files []FilePatch, err error) {
	r := newReader(input)
	for !r.done() && strings.TrimSpace(r.peek()) != "*** Begin Patch" {
		r.at++ // a shell's heredoc, a fence, or blanks
	}
	if r.done() {
		return nil, &ParseError{Line: 1, Reason: "no line *** Begin Patch"}
	}
	r.at++
	for !r.done() {
		l := strings.TrimRight(r.peek(), " \t")
		kind, path, _ := strings.Cut(strings.TrimPrefix(l, "*** "), ": ")
		path = strings.TrimSpace(path)
		switch {
		case l == "*** End Patch":
			return files, nil
		case l == "":
			r.at++
			continue
		case path == "" || !strings.HasPrefix(l, "*** "):
			return nil, r.fail("%q: want *** Add File, Update File or Delete File, with a path", l)
		}
		f := FilePatch{Path: path}
		switch kind {
		case "Delete File":
			f.Op = Delete
			r.at++
		case "Add File":
			f.Op = Create
			h := Hunk{Line: r.at + 1, New: []byte{}}
			for r.at++; !r.done() && strings.HasPrefix(r.peek(), "+"); r.at++ {
				h.New = append(append(h.New, r.lines[r.at].content[1:]...), '\n')
			}
			f.Hunks = []Hunk{h}
		case "Update File":
			f.Op = Update
			r.at++
			if !r.done() && strings.HasPrefix(r.peek(), "*** Move to: ") {
				f.To = strings.TrimSpace(strings.TrimPrefix(r.peek(), "*** Move to: "))
				r.at++
			}
			if f.Hunks, err = r.hunksV4A(); err != nil {
				return nil, err
			}
			if len(f.Hunks) == 0 && f.To == "" {
				return nil, r.fail("an update of %q that changes nothing", path)
			}
		default:
			return nil, r.fail("%q: want Add File, Update File or Delete File", kind)
		}
		files = append(files, f)
	}
	return nil, r.fail("no line *** End Patch")
}

// hunksV4A reads the hunks of an update.
func (r *reader) hunksV4A() (hunks []Hunk, err error) {
	for !r.done() && (!strings.HasPrefix(r.peek(), "*** ") || strings.TrimSpace(r.peek()) == "*** End of File") {
		h := Hunk{Line: r.at + 1}
		for ; !r.done() && strings.HasPrefix(r.peek(), "@@"); r.at++ {
			if context := strings.TrimPrefix(strings.TrimPrefix(r.peek(), "@@"), " "); strings.TrimSpace(context) != "" {
				h.Context = append(h.Context, context)
			}
		}
		for ; !r.done(); r.at++ {
			l := r.lines[r.at].content
			if len(l) == 0 {
				h.Lines = append(h.Lines, HunkLine{' ', l})
				continue
			}
			if l[0] != ' ' && l[0] != '-' && l[0] != '+' {
				break
			}
			h.Lines = append(h.Lines, HunkLine{l[0], l[1:]})
		}
		for i := r.at - 1; len(h.Lines) > 0 && len(r.lines[i].content) == 0; i-- { // between hunks
			h.Lines = h.Lines[:len(h.Lines)-1]
		}
		if !r.done() && strings.TrimSpace(r.peek()) == "*** End of File" {
			h.AtEnd = true
			r.at++
		}
		if !h.changes() {
			return nil, r.fail("a hunk that changes nothing")
		}
		if !r.done() && !strings.HasPrefix(r.peek(), "@@") && !strings.HasPrefix(r.peek(), "*** ") {
			return nil, r.fail("%q: want a line that begins with a blank, - or +", r.peek())
		}
		hunks = append(hunks, h)
	}
	return hunks, nil
}

// changes reports whether a hunk changes something.
func (h *Hunk) changes() bool {
	for _, l := range h.Lines {
		if l.Mark != ' ' {
			return true
		}
	}
	return false
}

var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@`)

// parseUnified reads a unified diff, git's or another's.
func parseUnified(input []byte) (files []FilePatch, err error) {
	r := newReader(input)
	var f *FilePatch
	from, to := "", "" // of a rename
	named := ""        // path in git's line
	flush := func() {
		if f != nil && (len(f.Hunks) > 0 || f.To != "" || f.Op != Update) {
			files = append(files, *f)
		}
		f = nil
	}
	for !r.done() {
		l := r.peek()
		switch {
		case strings.HasPrefix(l, "diff "):
			flush()
			from, to, named = "", "", ""
			if _, b, ok := strings.Cut(l, " b/"); ok && strings.HasPrefix(l, "diff --git a/") {
				named = b
			}
		case strings.HasPrefix(l, "new file mode ") && named != "":
			f = &FilePatch{Op: Create, Path: named}
		case strings.HasPrefix(l, "deleted file mode ") && named != "":
			f = &FilePatch{Op: Delete, Path: named}
		case strings.HasPrefix(l, "rename from "):
			from = unquoted(strings.TrimPrefix(l, "rename from "))
		case strings.HasPrefix(l, "rename to "):
			to = unquoted(strings.TrimPrefix(l, "rename to "))
			flush()
			f = &FilePatch{Op: Update, Path: from, To: to}
		case strings.HasPrefix(l, "--- ") && r.at+1 < len(r.lines) && bytes.HasPrefix(r.lines[r.at+1].content, []byte("+++ ")):
			old := headerPath(l[len("--- "):], "a/")
			r.at++
			new := headerPath(r.peek()[len("+++ "):], "b/")
			if f != nil && len(f.Hunks) == 0 && (f.To != "" || f.Op != Update) { // git has said so
				break
			}
			flush()
			switch {
			case old == "" && new == "":
				return nil, r.fail("no path")
			case old == "":
				f = &FilePatch{Op: Create, Path: new}
			case new == "":
				f = &FilePatch{Op: Delete, Path: old}
			case old != new:
				f = &FilePatch{Op: Update, Path: old, To: new}
			default:
				f = &FilePatch{Op: Update, Path: old}
			}
		case strings.HasPrefix(l, "@@"):
			if f == nil {
				return nil, r.fail("a hunk before any path")
			}
			h, err := r.hunkUnified()
			if err != nil {
				return nil, err
			}
			f.Hunks = append(f.Hunks, h)
			continue
		case strings.HasPrefix(l, "GIT binary patch") || strings.HasPrefix(l, "Binary files "):
			return nil, r.fail("a binary patch")
		}
		r.at++
	}
	flush()
	for i := range files {
		f := &files[i]
		if f.Op == Create {
			var text []byte
			for _, h := range f.Hunks {
				text = append(text, h.text('+')...)
				if h.NewNoEnd {
					text = bytes.TrimSuffix(text, lf)
				}
			}
			f.Hunks = []Hunk{{New: text}}
		}
	}
	return files, nil
}

// hunkUnified reads a hunk whose head comes next. Its counts are not believed.
func (r *reader) hunkUnified() (h Hunk, err error) {
	h.Line = r.at + 1
	if m := hunkHead.FindStringSubmatch(r.peek()); m != nil {
		h.Stated, _ = strconv.Atoi(m[1])
	}
	for r.at++; !r.done(); r.at++ {
		l := r.lines[r.at].content
		if len(l) == 0 {
			// A blank that an editor has taken away, unless it ends the hunk.
			if next := r.at + 1; next >= len(r.lines) || bytes.HasPrefix(r.lines[next].content, []byte("diff ")) {
				break
			}
			h.Lines = append(h.Lines, HunkLine{' ', l})
			continue
		}
		if l[0] == '\\' {
			if len(h.Lines) > 0 {
				mark := h.Lines[len(h.Lines)-1].Mark
				h.OldNoEnd = h.OldNoEnd || mark != '+'
				h.NewNoEnd = h.NewNoEnd || mark != '-'
			}
			continue
		}
		head := bytes.HasPrefix(l, []byte("--- ")) && r.at+1 < len(r.lines) && bytes.HasPrefix(r.lines[r.at+1].content, []byte("+++ "))
		if head || l[0] != ' ' && l[0] != '-' && l[0] != '+' {
			break
		}
		h.Lines = append(h.Lines, HunkLine{l[0], l[1:]})
	}
	if !h.changes() {
		return h, r.fail("a hunk that changes nothing")
	}
	return h, nil
}

// headerPath returns the path in a header, without the prefix of git and the
// time of diff; "" is none.
func headerPath(s, prefix string) string {
	s, _, _ = strings.Cut(s, "\t")
	if s = unquoted(strings.TrimRight(s, " ")); s == "/dev/null" {
		return ""
	}
	return strings.TrimPrefix(s, prefix)
}

// unquoted returns a name without git's quotes.
func unquoted(s string) string {
	if strings.HasPrefix(s, `"`) {
		if u, err := strconv.Unquote(s); err == nil {
			return u
		}
	}
	return s
}

// An edit is one of an edit list, under any of the names in use.
type edit struct {
	Path     string `json:"path"`
	FilePath string `json:"file_path"`

	Old       *string `json:"old"`
	OldText   *string `json:"oldText"`
	OldStr    *string `json:"old_str"`
	OldString *string `json:"old_string"`
	New       *string `json:"new"`
	NewText   *string `json:"newText"`
	NewStr    *string `json:"new_str"`
	NewString *string `json:"new_string"`

	ReplaceAll bool `json:"replace_all"`
	OptionsJSON
}

// OptionsJSON are [Options] as programs write them.
type OptionsJSON struct {
	Stages               []Stage  `json:"stages,omitempty"`
	ExpectedReplacements *int     `json:"expected_replacements,omitempty"` // 0: all
	Fuzzy                *bool    `json:"fuzzy,omitempty"`                 // default true
	MinSimilarity        float64  `json:"min_similarity,omitempty"`
	Reindent             Reindent `json:"reindent,omitempty"` // "auto" or "none"
	Merge                bool     `json:"merge,omitempty"`
	LineHint             int      `json:"line_hint,omitempty"`
}

// Options returns the options for [Locate].
func (o *OptionsJSON) Options() *Options {
	opts := o.over(Options{})
	return &opts
}

// over returns options with those that are set in place of the given ones.
func (o *OptionsJSON) over(opts Options) Options {
	if o.Stages != nil {
		opts.Stages = o.Stages
	}
	if n := o.ExpectedReplacements; n != nil {
		switch opts.Replacements = *n; {
		case *n == 0:
			opts.Replacements = All
		case *n < 0:
			opts.Replacements = All - 1 // out of range
		}
	}
	if o.Fuzzy != nil {
		opts.ExactOnly = !*o.Fuzzy
	}
	if o.MinSimilarity != 0 {
		opts.MinSimilarity = o.MinSimilarity
	}
	switch o.Reindent {
	case "":
	case "none":
		opts.Reindent = ReindentNone
	default:
		opts.Reindent = o.Reindent
	}
	if o.LineHint != 0 {
		opts.LineHint = o.LineHint
	}
	opts.Merge = opts.Merge || o.Merge
	return opts
}

// parseEdits reads an edit list: a JSON array of edits, or an object with one,
// named edits, and perhaps their path.
func parseEdits(input []byte, path string) (files []FilePatch, err error) {
	var list []edit
	if trimmed := bytes.TrimSpace(input); bytes.HasPrefix(trimmed, []byte("[")) {
		err = json.Unmarshal(input, &list)
	} else {
		var object struct {
			Path  string `json:"path"`
			Edits []edit `json:"edits"`
			edit
		}
		if err = json.Unmarshal(input, &object); err == nil {
			if list = object.Edits; list == nil {
				list = []edit{object.edit}
			}
			if object.Path != "" {
				path = object.Path
			}
		}
	}
	if err != nil {
		return nil, &ParseError{Reason: "edit list: " + err.Error()}
	}
	for i, e := range list {
		h := Hunk{Line: i + 1}
		was, is := first(e.Old, e.OldText, e.OldStr, e.OldString), first(e.New, e.NewText, e.NewStr, e.NewString)
		if was == nil || is == nil {
			return nil, &ParseError{Line: i + 1, Reason: "an edit without old or new"}
		}
		h.Old, h.New = []byte(*was), []byte(*is)
		if e.ReplaceAll {
			e.ExpectedReplacements = new(int)
		}
		h.Options = e.OptionsJSON
		p := path
		for _, own := range []string{e.FilePath, e.Path} {
			if own != "" {
				p = own
			}
		}
		if p == "" {
			return nil, &ParseError{Line: i + 1, Reason: "an edit without a path"}
		}
		files = append(files, FilePatch{Op: Update, Path: p, Hunks: []Hunk{h}})
	}
	return files, nil
}

func first(list ...*string) *string {
	for _, s := range list {
		if s != nil {
			return s
		}
	}
	return nil
}
