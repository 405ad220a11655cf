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
	input []byte
	lines []line
	at    int // from 0
}

func newReader(input []byte) *reader { return &reader{input: input, lines: newLined(input).lines} }

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
		case isMark(strings.TrimSpace(l)):
			return nil, r.fail("%q is indented", l)
		default:
			if own := pathIn(l); own != "" {
				named = own
			}
		}
	}
	return files, nil
}

// isMark reports whether a line begins or ends a block.
func isMark(l string) bool { return searchMark.MatchString(l) || replaceMark.MatchString(l) }

// pathIn returns the path that a line holds, without what chats put around it.
func pathIn(l string) string {
	l = strings.TrimSpace(l)
	bare := strings.Trim(strings.TrimPrefix(l, "File: "), "*`#: ")
	marked := strings.HasPrefix(l, "File: ") || strings.HasPrefix(l, "`") && strings.HasSuffix(l, "`")
	if strings.ContainsAny(bare, " \t") && !marked || strings.HasPrefix(bare, "<") {
		return "" // a sentence
	}
	return bare
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
		case inNew && dividerMark.MatchString(l):
			return h, r.fail("a second line of =======: put a \\ before those that are text")
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
		case l == "*** End Patch": // there may be another
			for r.at++; !r.done() && strings.TrimSpace(r.peek()) != "*** Begin Patch"; {
				r.at++
			}
			if r.done() {
				return files, nil
			}
			r.at++
			continue
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
		if strings.TrimSpace(r.peek()) == "" && (r.at+1 == len(r.lines) || strings.HasPrefix(string(r.lines[r.at+1].content), "*** ")) {
			r.at++ // it stands between
			continue
		}
		h := Hunk{Line: r.at + 1}
		for ; !r.done() && strings.HasPrefix(r.peek(), "@@"); r.at++ {
			if context := strings.TrimPrefix(strings.TrimPrefix(r.peek(), "@@"), " "); strings.TrimSpace(context) != "" {
				h.Context = append(h.Context, context)
			}
		}
		for ; !r.done(); r.at++ {
			l := r.lines[r.at].content
			if len(l) == 0 {
				h.Lines = append(h.Lines, HunkLine{Mark: ' '})
				continue
			}
			if l[0] != ' ' && l[0] != '-' && l[0] != '+' {
				break
			}
			h.Lines = append(h.Lines, HunkLine{Mark: l[0], Text: l[1:]})
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

var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@`)

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
			named = gitPath(l)
		case strings.HasPrefix(l, "new file mode ") && named != "":
			mode := strings.TrimSpace(l[len("new file mode "):])
			if mode != "100644" && mode != "100755" {
				return nil, r.fail("a file of mode %s, which is no regular file", mode)
			}
			f = &FilePatch{Op: Create, Path: named, Executable: mode == "100755"}
		case strings.HasPrefix(l, "copy from ") || strings.HasPrefix(l, "old mode "):
			return nil, r.fail("%q: a patch may change what files hold and where they are, and no more", l)
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
				f = &FilePatch{Op: Update, Path: new, Other: old}
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
		case strings.TrimSpace(l) != "" && f != nil && len(f.Hunks) > 0:
			flush() // what comes is of another file
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
	h.Stated = -1
	counts := [2]int{-1, -1} // of old lines and new ones that are still to come
	if m := hunkHead.FindStringSubmatch(r.peek()); m != nil {
		h.Stated, _ = strconv.Atoi(m[1])
		counts = [2]int{1, 1}
		for i, s := range m[2:] {
			if s != "" {
				counts[i], _ = strconv.Atoi(s)
			}
		}
	}
	for r.at++; !r.done(); r.at++ {
		l := r.lines[r.at].content
		full := counts[0] == 0 && counts[1] == 0
		if full && string(l) == "-- " { // of a mail
			r.at = len(r.lines)
			break
		}
		if len(l) == 0 {
			// A blank that an editor has taken away, unless it ends the hunk.
			if full || r.endsHunk(r.at+1) {
				break
			}
			h.Lines = append(h.Lines, HunkLine{Mark: ' '})
			counts[0]--
			counts[1]--
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
		if counts[0] <= 0 && r.isHeader(r.at) || l[0] != ' ' && l[0] != '-' && l[0] != '+' {
			break
		}
		h.Lines = append(h.Lines, HunkLine{l[0], bytes.TrimPrefix(l[1:], bom), lineEndAt(r.input, r.lines[r.at].end) == len(crlf)})
		if l[0] != '+' {
			counts[0]--
		}
		if l[0] != '-' {
			counts[1]--
		}
	}
	if !r.done() && !r.endsHunk(r.at) && len(r.lines[r.at].content) > 0 {
		return h, r.fail("%q: want a line that begins with a blank, - or +", r.peek())
	}
	if !h.changes() {
		return h, r.fail("a hunk that changes nothing")
	}
	return h, nil
}

// gitPath returns the path in git's line about a file that keeps it, "" if it is
// not clear.
func gitPath(l string) string {
	l = strings.TrimPrefix(l, "diff --git ")
	if strings.HasPrefix(l, `"`) {
		if i := strings.Index(l[1:], `" "`); i >= 0 {
			return strings.TrimPrefix(unquoted(l[i+3:]), "b/")
		}
		return ""
	}
	half := len(l) / 2
	if len(l)%2 == 1 && strings.HasPrefix(l, "a/") && strings.HasPrefix(l[half:], " b/") && l[2:half] == l[half+3:] {
		return l[2:half]
	}
	return ""
}

// isHeader reports whether a line and the one after it name a file.
func (r *reader) isHeader(at int) bool {
	return at+1 < len(r.lines) && bytes.HasPrefix(r.lines[at].content, []byte("--- ")) && bytes.HasPrefix(r.lines[at+1].content, []byte("+++ "))
}

// endsHunk reports whether a line is one that comes after a hunk, or there is
// none. Blank ones before it do not count.
func (r *reader) endsHunk(at int) bool {
	for at < len(r.lines) && len(r.lines[at].content) == 0 {
		at++
	}
	if at >= len(r.lines) || r.isHeader(at) {
		return true
	}
	for _, head := range []string{"@@", "diff ", "Index: ", "-- ", "```", "Only in "} {
		if bytes.HasPrefix(r.lines[at].content, []byte(head)) {
			return true
		}
	}
	return false
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
	// Both may only ask for more than what is given.
	opts.ExactOnly = opts.ExactOnly || o.Fuzzy != nil && !*o.Fuzzy
	opts.MinSimilarity = max(opts.MinSimilarity, o.MinSimilarity)
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
			for _, own := range []string{object.FilePath, object.Path} {
				if own != "" {
					path = own
				}
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
