// Package configfile reads and changes the text of a configuration, in TOML: which key has
// which value in which line. It knows no key and no disk.
//
// A configuration has keys, and tables of keys, and no tables below these. Its values are
// texts, numbers and booleans.
package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// An Entry is a key with its value.
type Entry struct {
	Table string // "": none
	Name  string
	Value string // of a boolean true or false, of a number its digits
	Line  int    // from 1

	start, end int    // of the value in the text
	indent     string // what stands before its name, the table's included; of a table in one line "{"
}

// Key returns the name of the entry's key: behind that of its table and a dot, if it is in
// one.
func (e *Entry) Key() string {
	if e.Table == "" {
		return e.Name
	}
	return e.Table + "." + e.Name
}

// An Error says what is wrong with a text, and in which line.
type Error struct {
	Line int
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// A File is a text that was read.
type File struct {
	Entries []Entry // in order of lines
	mark    []byte  // before the text
	text    []byte
	tables  map[string]int // where the line of a table's name ends; of "", where the first table begins
}

// byteOrderMark is what a text may begin with that an editor on Windows has written.
var byteOrderMark = []byte("\ufeff")

// inline is the indent of what is in a table that is written in one line, {…}, and what
// tables has of that.
const inline, inlineTable = "{", -1

// Parse reads a text. An error is an [*Error]; the file has what stands before it then.
func Parse(text []byte) (*File, error) {
	f := new(File)
	if bytes.HasPrefix(text, byteOrderMark) {
		f.mark, text = byteOrderMark, text[len(byteOrderMark):]
	}
	f.text, f.tables = text, map[string]int{"": len(text)}
	var p unstable.Parser
	p.Reset(text)
	seen := make(map[string]bool)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		keys := keysOf(e)
		offset := offsetOf(e)
		fail := func(format string, args ...any) error {
			return &Error{f.line(offset), fmt.Errorf(format, args...)}
		}
		switch {
		case e.Kind == unstable.ArrayTable:
			return f, fail("[[%s]]: want one table, [%[1]s]", strings.Join(keys, "."))
		case e.Kind == unstable.Table && len(keys) > 1:
			return f, fail("[%s]: a table in a table", strings.Join(keys, "."))
		case e.Kind == unstable.Table:
			table = keys[0]
			if _, ok := f.tables[table]; ok {
				return f, fail("[%s] is there twice", table)
			}
			f.tables[table] = f.endOfLine(offset)
			f.tables[""] = min(f.tables[""], f.startOfLine(offset))
		case e.Kind == unstable.KeyValue:
			if err := f.add(table, e, ""); err != nil {
				return f, fail("%w", err)
			}
		}
		for _, entry := range f.Entries[len(seen):] {
			if seen[entry.Key()] {
				return f, &Error{entry.Line, fmt.Errorf("%s is there twice", entry.Key())}
			}
			seen[entry.Key()] = true
		}
	}
	if err := p.Error(); err != nil {
		line := bytes.Count(text, []byte("\n")) + 1
		if at, ok := errors.AsType[*unstable.ParserError](err); ok && len(at.Highlight) > 0 {
			line = f.line(int(p.Range(at.Highlight).Offset))
		}
		return f, &Error{line, err}
	}
	return f, nil
}

// add adds what an expression says.
func (f *File) add(table string, e *unstable.Node, indent string) error {
	keys := keysOf(e)
	start := offsetOf(e)
	if table != "" {
		keys = append([]string{table}, keys...)
	}
	if len(keys) > 2 {
		return fmt.Errorf("%s: a table in a table", strings.Join(keys, "."))
	}
	value := e.Value()
	if value.Kind == unstable.InlineTable && len(keys) == 1 {
		if _, ok := f.tables[keys[0]]; ok {
			return fmt.Errorf("[%s] is there twice", keys[0])
		}
		f.tables[keys[0]] = inlineTable
		for it := value.Children(); it.Next(); {
			if err := f.add(keys[0], it.Node(), inline); err != nil {
				return err
			}
		}
		return nil
	}
	entry := Entry{Name: keys[len(keys)-1], Line: f.line(start), indent: indent,
		end: int(e.Raw.Offset + e.Raw.Length)}
	if len(keys) == 2 {
		entry.Table = keys[0]
	}
	last := lastKey(e)
	if indent != inline {
		entry.indent = string(f.text[f.startOfLine(start):last.Offset])
	}
	entry.start = int(last.Offset + last.Length)
	entry.start += bytes.IndexByte(f.text[entry.start:], '=') + 1
	entry.start += len(f.text[entry.start:]) - len(bytes.TrimLeft(f.text[entry.start:], " \t"))
	switch value.Kind {
	case unstable.String, unstable.Bool:
		entry.Value = string(value.Data)
	case unstable.Integer:
		n, err := strconv.ParseInt(string(value.Data), 0, 64)
		if err != nil {
			return fmt.Errorf("%s: %w", entry.Key(), err)
		}
		entry.Value = strconv.FormatInt(n, 10)
	default:
		return fmt.Errorf("%s: want a text in quotes, a whole number, true or false", entry.Key())
	}
	f.Entries = append(f.Entries, entry)
	return nil
}

// keysOf returns the parts of an expression's name.
func keysOf(e *unstable.Node) (keys []string) {
	for it := e.Key(); it.Next(); {
		keys = append(keys, string(it.Node().Data))
	}
	return keys
}

// offsetOf returns where the name of an expression begins.
func offsetOf(e *unstable.Node) int {
	it := e.Key()
	it.Next()
	return int(it.Node().Raw.Offset)
}

// lastKey returns where the last part of an expression's name is.
func lastKey(e *unstable.Node) (r unstable.Range) {
	for it := e.Key(); it.Next(); {
		r = it.Node().Raw
	}
	return r
}

func (f *File) line(offset int) int { return bytes.Count(f.text[:offset], []byte("\n")) + 1 }

func (f *File) startOfLine(offset int) int { return bytes.LastIndexByte(f.text[:offset], '\n') + 1 }

// endOfLine returns where the next line begins.
func (f *File) endOfLine(offset int) int {
	if n := bytes.IndexByte(f.text[offset:], '\n'); n >= 0 {
		return offset + n + 1
	}
	return len(f.text)
}

// Set returns the text with another value of a key, or with the key if it has none yet. All
// else stays as it is, comments included. The error says that a person has to do it, since
// the table is written in one line.
func (f *File) Set(table, name, value string) ([]byte, error) {
	at, indent := -1, ""
	for _, e := range f.Entries {
		if e.Table != table {
			continue
		}
		if e.Name == name {
			return slices.Concat(f.mark, f.text[:e.start], []byte(Literal(value)), f.text[e.end:]), nil
		}
		at, indent = f.endOfLine(e.end), e.indent
	}
	header, ok := f.tables[table]
	before, after := "", ""
	switch {
	case header == inlineTable:
		return nil, fmt.Errorf("[%s] is written in one line: add %s there", table, bare(name))
	case at >= 0:
	case ok:
		at = header
		if table == "" && at < len(f.text) {
			after = "\n"
		}
	default:
		at = len(f.text)
		before = "[" + bare(table) + "]\n"
		if at > 0 {
			before = "\n" + before
		}
	}
	if at > 0 && f.text[at-1] != '\n' {
		before = "\n" + before
	}
	line := before + indent + bare(name) + " = " + Literal(value) + "\n" + after
	return slices.Concat(f.mark, f.text[:at], []byte(line), f.text[at:]), nil
}

// Literal writes a value: numbers and booleans as such, all else as a text.
func Literal(value string) string {
	if value == "true" || value == "false" {
		return value
	}
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && strconv.FormatInt(n, 10) == value {
		return value
	}
	return quoted(value)
}

// bare writes a part of a name, in quotes if it needs them.
func bare(name string) string {
	isPlain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
	}
	if name != "" && strings.IndexFunc(name, func(r rune) bool { return !isPlain(r) }) < 0 {
		return name
	}
	return quoted(name)
}

// quoted writes a text as a basic string of TOML. Of what is not UTF-8, which TOML does not
// know, U+FFFD is left.
func quoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
