package patch

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/boocode/filestore/internal/words"
)

// changes reports whether a hunk changes something.
func (h *Hunk) changes() bool {
	for _, l := range h.lines {
		if l.mark != ' ' {
			return true
		}
	}
	return false
}

var hunkHead = words.Pattern(`^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@`)

// parseUnified reads a unified diff, git's or another's.
func parseUnified(input []byte) (files []FilePatch, err error) {
	u := &unified{reader: newReader(input), cut: defaultPrefixes, mailOf: make(map[string]int)}
	for !u.done() {
		isRead, err := u.line(u.peek())
		if err != nil {
			return nil, err
		}
		if !isRead {
			u.at++
		}
	}
	if err := u.flush(); err != nil {
		return nil, err
	}
	for i := range u.files {
		if f := &u.files[i]; f.Op == Create {
			var text []byte
			for _, h := range f.Hunks {
				text = append(text, h.created()...)
			}
			f.Hunks = []Hunk{{New: text}}
		}
	}
	return u.files, nil
}

// unified is a unified diff that is being read.
type unified struct {
	*reader
	files []FilePatch
	file  *FilePatch // that the lines are about; nil: none yet
	from  string     // of a rename
	named string     // path in git's line; "": it is not clear
	cut   prefixes   // from the names in headers

	mail   int            // number of the mail that is read
	mailOf map[string]int // in which a path was
}

// flush ends the file that the lines were about.
func (u *unified) flush() error {
	f := u.file
	u.file = nil
	if f == nil || len(f.Hunks) == 0 && f.To == "" && f.Op == Update {
		return nil
	}
	for _, name := range []string{f.Path, f.To, f.Other} {
		if was, seen := u.mailOf[name]; seen && was != u.mail && name != "" {
			return u.fail("%q is in two mails, and the lines of the second count on the first: "+
				"apply one after the other", name)
		}
		u.mailOf[name] = u.mail
	}
	u.files = append(u.files, *f)
	return nil
}

// line reads a line, and reports whether it has read it, and those that belong to it, itself.
func (u *unified) line(l string) (isRead bool, err error) {
	switch {
	case strings.HasPrefix(l, "diff "):
		if err := u.flush(); err != nil {
			return false, err
		}
		u.from = ""
		u.named, u.cut = gitPath(l)
	case mailStart().MatchString(l), l == mailEnd:
		err = u.flush()
		u.mail++
	case u.isHeader(u.at):
		return false, u.header()
	case strings.HasPrefix(l, "@@"):
		if u.file == nil {
			return false, u.fail("a hunk before any path")
		}
		h, err := u.hunkUnified()
		u.file.Hunks = append(u.file.Hunks, h)
		return true, err
	case strings.HasPrefix(l, "GIT binary patch") || strings.HasPrefix(l, "Binary files "):
		return false, u.fail("a binary patch")
	default:
		isOf, err := u.extended(l)
		if isOf || err != nil {
			return false, err
		}
		if strings.TrimSpace(l) != "" && u.file != nil && len(u.file.Hunks) > 0 {
			return false, u.flush() // what comes is of another file
		}
	}
	return false, err
}

// extended reads a line of git's, between the one that names a file and its headers. It reports
// whether it is one.
func (u *unified) extended(l string) (is bool, err error) {
	mode, isNew := strings.CutPrefix(l, "new file mode ")
	isOld := strings.HasPrefix(l, "deleted file mode ")
	to, isTo := strings.CutPrefix(l, "rename to ")
	switch mode = strings.TrimSpace(mode); {
	case u.named == "" && (isNew || isOld):
		return true, u.fail("%q, and it is not clear of which file", l)
	case isNew && mode != "100644" && mode != "100755":
		return true, u.fail("a file of mode %s, which is no regular file", mode)
	case isNew:
		u.file = &FilePatch{Op: Create, Path: u.named, Executable: mode == "100755"}
	case isOld:
		u.file = &FilePatch{Op: Delete, Path: u.named}
	case strings.HasPrefix(l, "copy from ") || strings.HasPrefix(l, "old mode "):
		return true, u.fail("%q: a patch may change what files hold and where they are, and no more", l)
	case strings.HasPrefix(l, "rename from "):
		u.from = unquoted(strings.TrimPrefix(l, "rename from "))
	case isTo:
		err = u.flush()
		u.file = &FilePatch{Op: Update, Path: u.from, To: unquoted(to)}
	default:
		return false, nil
	}
	return true, err
}

// header reads the two lines that name a file before and after.
func (u *unified) header() error {
	before := headerPath(u.peek()[len("--- "):])
	u.at++
	old, new := u.cut.from(before, headerPath(u.peek()[len("+++ "):]))
	if f := u.file; f != nil && len(f.Hunks) == 0 && (f.To != "" || f.Op != Update) { // git has said so
		return nil
	}
	if err := u.flush(); err != nil {
		return err
	}
	switch {
	case old == "" && new == "":
		return u.fail("no path")
	case old == "":
		u.file = &FilePatch{Op: Create, Path: new}
	case new == "":
		u.file = &FilePatch{Op: Delete, Path: old}
	case old != new:
		u.file = &FilePatch{Op: Update, Path: new, Other: old}
	default:
		u.file = &FilePatch{Op: Update, Path: old}
	}
	return nil
}

// Lines that begin and end the mails of git format-patch.
var mailStart = words.Pattern(`^From [0-9a-f]{40} `)

const mailEnd = "-- "

// created returns the content of a file that a hunk makes.
func (h *Hunk) created() []byte {
	var b []byte
	for _, l := range h.lines {
		if l.mark == '-' {
			continue
		}
		b = append(b, l.text...)
		if l.cr {
			b = append(b, '\r')
		}
		b = append(b, '\n')
	}
	if h.newNoEnd {
		b = bytes.TrimSuffix(b, lf)
	}
	return b
}

// hunkUnified reads a hunk whose head comes next. Its lines are believed, and not
// its counts: those only tell where it ends if it could go on.
func (r *reader) hunkUnified() (h Hunk, err error) {
	h.Line = r.at + 1
	h.stated = -1
	counts := [2]int{-1, -1} // of old lines and new ones that are still to come
	if m := hunkHead().FindStringSubmatch(r.peek()); m != nil {
		h.stated, _ = strconv.Atoi(m[1])
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
		if full && string(l) == mailEnd {
			break
		}
		if len(l) == 0 {
			// A blank that an editor has taken away, unless it ends the hunk.
			if full || r.endsHunk(r.at+1) {
				break
			}
			h.lines = append(h.lines, hunkLine{mark: ' '})
			counts[0]--
			counts[1]--
			continue
		}
		if l[0] == '\\' {
			if len(h.lines) > 0 {
				last := &h.lines[len(h.lines)-1]
				h.oldNoEnd = h.oldNoEnd || last.mark != '+'
				h.newNoEnd = h.newNoEnd || last.mark != '-'
				if last.cr && !r.isCRLF(r.at) { // a CR, and no line end
					last.text, last.cr = append(bytes.Clone(last.text), '\r'), false
				}
			}
			continue
		}
		if r.isHeader(r.at) && (counts[0] <= 0 || r.isNext(r.at, counts)) || l[0] != ' ' && l[0] != '-' && l[0] != '+' {
			break
		}
		h.lines = append(h.lines, hunkLine{l[0], l[1:], r.isCRLF(r.at)})
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
	h.short = r.done() && (counts[0] > 0 || counts[1] > 0)
	return h, nil
}

// isCRLF reports whether a line of the patch ends with CRLF.
func (r *reader) isCRLF(at int) bool { return lineEndAt(r.input, r.lines[at].end) == len(crlf) }

// prefixes precede the names of a file before and after in headers.
type prefixes struct{ old, new string }

var defaultPrefixes = prefixes{"a/", "b/"}

// from returns names without prefixes, if all there are have theirs.
func (p prefixes) from(old, new string) (string, string) {
	if (old == "" || strings.HasPrefix(old, p.old)) && (new == "" || strings.HasPrefix(new, p.new)) {
		return strings.TrimPrefix(old, p.old), strings.TrimPrefix(new, p.new)
	}
	return old, new
}

// gitPath returns the path in git's line about a file that keeps it, and what
// precedes it there; "" if it is not clear.
func gitPath(l string) (path string, cut prefixes) {
	l = strings.TrimPrefix(l, "diff --git ")
	half := len(l) / 2
	if len(l)%2 == 0 || l[half] != ' ' {
		return "", defaultPrefixes
	}
	old, new := unquoted(l[:half]), unquoted(l[half+1:])
	switch {
	case old == new: // --no-prefix
		return old, prefixes{}
	// a/ b/, or i/ w/ and the like
	case len(old) > 2 && len(new) > 2 && old[1] == '/' && new[1] == '/' && old[2:] == new[2:]:
		return old[2:], prefixes{old[:2], new[:2]}
	}
	return "", defaultPrefixes
}

// isHeader reports whether a line and the one after it name a file.
func (r *reader) isHeader(at int) bool {
	return at+1 < len(r.lines) && bytes.HasPrefix(r.lines[at].content, []byte("--- ")) &&
		bytes.HasPrefix(r.lines[at+1].content, []byte("+++ "))
}

// isNext reports whether a header comes next, though the counts say that the hunk
// goes on. It does if a hunk follows it, and the two lines, as lines of this hunk,
// would not end it as the counts say; or would, but name one file.
func (r *reader) isNext(at int, counts [2]int) bool {
	if at+2 >= len(r.lines) || !bytes.HasPrefix(r.lines[at+2].content, []byte("@@")) {
		return false
	}
	old, new := headerPath(string(r.lines[at].content[4:])), headerPath(string(r.lines[at+1].content[4:]))
	if counts != [2]int{1, 1} {
		return true
	}
	old, new = defaultPrefixes.from(old, new)
	return old == new || old == "" || new == ""
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
	for _, head := range []string{"@@", "diff ", "Index: ", mailEnd, "```", "Only in "} {
		if bytes.HasPrefix(r.lines[at].content, []byte(head)) {
			return true
		}
	}
	return false
}

// headerPath returns the path in a header, without the time of diff; "" is none.
func headerPath(s string) string {
	s, _, tab := strings.Cut(s, "\t") // where a name ends in a blank there is one
	if !tab {
		s = strings.TrimRight(s, " ")
	}
	if s = unquoted(s); s == "/dev/null" {
		return ""
	}
	return s
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
