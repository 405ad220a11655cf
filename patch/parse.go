package patch

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/boocode/filestore/internal/words"
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
	searchMark  = words.Pattern(`^(<{5,9} SEARCH>?|-{5,9} SEARCH>?)\s*$`)
	dividerMark = words.Pattern(`^={5,9}\s*$`)
	replaceMark = words.Pattern(`^(>{5,9} REPLACE|\+{5,9} REPLACE>?)\s*$`)
	startLine   = words.Pattern(`^:(start_line|end_line):\s*(\d+)\s*$`)
	ruleLine    = words.Pattern(`^-{5,9}\s*$`)
	escapedMark = words.Pattern(`^\\(<{5,9}|={5,9}|>{5,9}|-{5,9}|\+{5,9}|:start_line:|:end_line:)`)
	fenceLine   = words.Pattern("^\\s*(`{3,}|~{3,})")
)

// parseBlocks reads SEARCH/REPLACE blocks: a path on a line of its own, perhaps
// with a fence between, is that of the blocks that follow.
func parseBlocks(input []byte, path string) (files []FilePatch, err error) {
	r := newReader(input)
	named := "" // by the line before
	for ; !r.done(); r.at++ {
		l := r.peek()
		switch {
		case searchMark().MatchString(l):
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
		case replaceMark().MatchString(l) || dividerMark().MatchString(l) && len(files) > 0:
			return nil, r.fail("%q outside of a block", l)
		case fenceLine().MatchString(l) || strings.TrimSpace(l) == "":
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
func isMark(l string) bool { return searchMark().MatchString(l) || replaceMark().MatchString(l) }

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
		m := startLine().FindStringSubmatch(r.peek())
		if m == nil {
			break
		}
		if h.Options.LineHint == 0 && m[1] == "start_line" {
			h.Options.LineHint, _ = strconv.Atoi(m[2])
		}
	}
	if h.Options.LineHint > 0 && !r.done() && ruleLine().MatchString(r.peek()) {
		r.at++
	}
	inNew := false
	for ; !r.done(); r.at++ {
		l := r.peek()
		switch {
		case searchMark().MatchString(l):
			return h, r.fail("a block within a block")
		case !inNew && replaceMark().MatchString(l):
			return h, r.fail("a block without a line of =======")
		case !inNew && dividerMark().MatchString(l):
			inNew = true
			continue
		case inNew && dividerMark().MatchString(l):
			return h, r.fail("a second line of =======: put a \\ before those that are text")
		case inNew && replaceMark().MatchString(l):
			h.Old, h.New = old, new
			return h, nil
		}
		text := r.lines[r.at].content
		if escapedMark().Match(text) {
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
