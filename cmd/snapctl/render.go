package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"github.com/boocode/filestore/internal/words"
	"github.com/boocode/filestore/manager"
	"github.com/boocode/filestore/store"
	"github.com/boocode/filestore/tree"
)

// note tells the user something beside the result, unless they want that alone.
func (a *app) note(format string, args ...any) {
	if !a.flags.quiet {
		a.tell(format, args...)
	}
}

// tell prints a line on stderr, behind all that was printed on stdout. If that cannot be
// written, run says so in the end. An error may have a name as the system has it, or what a
// server has said: it is printed as a terminal may have it.
func (a *app) tell(format string, args ...any) {
	a.out.Flush()
	for i, arg := range args {
		if err, ok := arg.(error); ok {
			args[i] = words.Plain(err.Error())
		}
	}
	fmt.Fprintln(a.stderr, a.typed(fmt.Sprintf(format, args...)))
}

// isTerminal reports whether somebody may be looking at w.
func isTerminal(w io.Writer) bool {
	if t, ok := w.(interface{ IsTerminal() bool }); ok {
		return t.IsTerminal()
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat() // first: to ask a pipe by its descriptor has it block
	return err == nil && st.Mode()&os.ModeCharDevice != 0 && isConsole(f)
}

// printJSON prints a value as one line.
func (a *app) printJSON(v any) error {
	b, err := marshal(v)
	if err != nil {
		return err
	}
	_, err = a.out.Write(append(b, '\n'))
	return err
}

// marshal returns a value as JSON in which paths are easy to read.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if bytes.IndexByte(text, 0x7f) < 0 && bytes.IndexByte(text, 0xc2) < 0 { // as a rule
		return text, err
	}
	return c1().ReplaceAllFunc(text, func(c []byte) []byte {
		r, _ := utf8.DecodeRune(c)
		return fmt.Appendf(nil, `\u%04x`, r)
	}), err
}

// c1 are the control characters that are not escaped by package json, and that a
// terminal obeys.
var c1 = words.Pattern("[\u007f-\u009f]")

// A jsonPath is a path in JSON. JSON has no bytes: those of a path that is not
// UTF-8 come beside it.
type jsonPath struct {
	Path  string `json:"path"` // with U+FFFD for what is not UTF-8
	Bytes []byte `json:"pathBytes,omitempty"`
}

func newJSONPath(path string) jsonPath { return jsonPath{path, words.BytesUnlessText(path)} }

func newJSONPaths(paths []string) []jsonPath {
	list := []jsonPath{}
	for _, p := range paths {
		list = append(list, newJSONPath(p))
	}
	return list
}

// A jsonRoot is the directory that something was recorded of.
type jsonRoot struct {
	Root      string `json:"root"`
	RootBytes []byte `json:"rootBytes,omitempty"` // as jsonPath has it
}

func newJSONRoot(root string) jsonRoot { return jsonRoot{root, words.BytesUnlessText(root)} }

// A jsonRecord is what JSON shows of a snapshot beside entry, tree and time.
type jsonRecord struct {
	Session string  `json:"session"`
	Label   *string `json:"label"`
	Head    *string `json:"head"`
	jsonRoot
	Worktree string  `json:"worktree"`
	Seq      uint64  `json:"seq"`
	Parent   *uint64 `json:"parent"`
}

func newJSONRecord(s *store.Snapshot) *jsonRecord {
	j := &jsonRecord{Session: s.Session, Label: words.OrNull(s.Label), Head: words.OrNull(s.Head),
		jsonRoot: newJSONRoot(s.Root), Worktree: s.Worktree, Seq: s.Seq}
	if s.Parent != 0 {
		j.Parent = &s.Parent
	}
	return j
}

// turnOrNull returns what JSON shows for a turn's number, null if it is of none.
func turnOrNull(index int) *int {
	if index < 0 {
		return nil
	}
	return &index
}

// A jsonTitle is what JSON shows of what a turn was for.
type jsonTitle struct {
	Title string `json:"title,omitempty"`
	Agent string `json:"agent,omitempty"`
	Model string `json:"model,omitempty"`
}

// maxTitleShown is how many characters of a title a sentence has room for.
const maxTitleShown = 60

// titleText returns what a turn was for, in quotes and as a terminal may have it: the
// first line, or as much of it as there is room for. "" if that is not known.
func titleText(title string) string { return firstLine(title, maxTitleShown) }

func firstLine(title string, n int) string {
	if title == "" {
		return ""
	}
	return words.Quoted(words.FirstLine(title, n))
}

// A line is one of a list: fields, and at its end a title, for which a terminal has as
// much room as it is wide; who reads the line in a program gets all.
type line struct {
	app  *app
	used int // columns
}

func (a *app) newLine() *line { return &line{app: a} }

// add prints a field, if there is something in it, in the colour of a role.
func (l *line) add(role, text string) {
	if text == "" {
		return
	}
	if l.used > 0 {
		l.used += 2
		fmt.Fprint(l.app.out, "  ")
	}
	l.used += width(text)
	fmt.Fprint(l.app.out, l.app.paint(role, text))
}

// end prints a title, if there is one, and ends the line.
func (l *line) end(title string) {
	a := l.app
	switch {
	case title == "":
	case isTerminal(a.stdout):
		const least = 19
		columns, _ := a.terminalSize()
		l.add("", fitQuoted(title, max(columns-l.used-2, least)))
	default:
		l.add("", firstLine(title, len(title)))
	}
	fmt.Fprintln(a.out)
}

// terminalSize returns how large the terminal is to which results are printed.
func (a *app) terminalSize() (columns, rows int) {
	columns, rows = a.columns, a.rows
	out := a.stdout
	if p, ok := out.(*pager); ok {
		out = p.stdout
	}
	if f, ok := out.(*os.File); ok {
		columns, rows = sizeOf(f)
	}
	return cmp.Or(columns, 80), cmp.Or(rows, 24)
}

// name returns what people call a point: its entry, or else its tree.
func name(p *manager.Point) string {
	if p.EntryID != "" {
		return p.EntryID
	}
	return p.State.Tree.Short()
}

// withSlash returns a path, that of a directory with a slash at its end.
func withSlash(path string, mode tree.Mode) string {
	if mode.IsDir() {
		return path + "/"
	}
	return path
}

// shown returns a path as people see it, in one line.
func shown(path string, mode tree.Mode) string { return words.Quote(withSlash(path, mode)) }

// listed returns a path as a list has it, and what comes after: for people, or, with -z,
// for programs.
func listed(path string, mode tree.Mode, nul bool) (text, end string) {
	if nul {
		return withSlash(path, mode), "\x00"
	}
	return shown(path, mode), "\n"
}

// clock writes a time for people, in their zone.
func clock(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }
