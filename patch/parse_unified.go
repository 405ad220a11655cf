package patch

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
)

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
			from, to, named = "", "", gitPath(l)
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

// hunkUnified reads a hunk whose head comes next. Its lines are believed, and not
// its counts: those only tell where it ends if it could go on.
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
		if full && string(l) == "-- " {
			break // the signature of a mail, after which another may come
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
