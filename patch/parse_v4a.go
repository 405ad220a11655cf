package patch

import (
	"strings"
)

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
		f, err := r.fileV4A(kind, path)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return nil, r.fail("no line *** End Patch")
}

// fileV4A reads what is to be done to one file, from its header on.
func (r *reader) fileV4A(kind, path string) (f FilePatch, err error) {
	f.Path = path
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
			if f.To = strings.TrimSpace(strings.TrimPrefix(r.peek(), "*** Move to: ")); f.To == path {
				return f, r.fail("%q is there already", path)
			}
			r.at++
		}
		if f.Hunks, err = r.hunksV4A(); err != nil {
			return f, err
		}
		if len(f.Hunks) == 0 && f.To == "" {
			return f, r.fail("an update of %q that changes nothing", path)
		}
	default:
		return f, r.fail("%q: want Add File, Update File or Delete File", kind)
	}
	return f, nil
}

// hunksV4A reads the hunks of an update.
func (r *reader) hunksV4A() (hunks []Hunk, err error) {
	for !r.done() && (!strings.HasPrefix(r.peek(), "*** ") || strings.TrimSpace(r.peek()) == "*** End of File") {
		if strings.TrimSpace(r.peek()) == "" && (r.at+1 == len(r.lines) ||
			strings.HasPrefix(string(r.lines[r.at+1].content), "*** ")) {
			r.at++ // it stands between
			continue
		}
		h := Hunk{Line: r.at + 1}
		for ; !r.done() && strings.HasPrefix(r.peek(), "@@"); r.at++ {
			if context := strings.TrimPrefix(strings.TrimPrefix(r.peek(), "@@"),
				" "); strings.TrimSpace(context) != "" {
				h.context = append(h.context, context)
			}
		}
		for ; !r.done(); r.at++ {
			l := r.lines[r.at].content
			if len(l) == 0 {
				h.lines = append(h.lines, hunkLine{mark: ' '})
				continue
			}
			if l[0] != ' ' && l[0] != '-' && l[0] != '+' {
				break
			}
			h.lines = append(h.lines, hunkLine{mark: l[0], text: l[1:]})
		}
		for i := r.at - 1; len(h.lines) > 0 && len(r.lines[i].content) == 0; i-- { // between hunks
			h.lines = h.lines[:len(h.lines)-1]
		}
		if !r.done() && strings.TrimSpace(r.peek()) == "*** End of File" {
			h.atEnd = true
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
