package blame

import (
	"bytes"
	"iter"
	"slices"
	"strings"
	"unicode"

	"github.com/boocode/filestore/internal/textdiff"
)

// A Run is lines that follow one another and have one origin, a number of the caller's.
type Run struct {
	Lines  int
	Origin int
}

// Lines are the origins of all lines of a text, in order. Neighbours are of different
// origins.
type Lines []Run

// A Version is a text with the origins of its lines.
type Version struct {
	Text  []byte
	Lines Lines
}

// First returns a text that has one origin.
func First(text []byte, origin int) Version {
	return Version{text, Lines(nil).add(countLines(text), origin)}
}

// add appends lines.
func (l Lines) add(n, origin int) Lines {
	switch last := len(l) - 1; {
	case n == 0:
	case last >= 0 && l[last].Origin == origin:
		l[last].Lines += n
	default:
		l = append(l, Run{n, origin})
	}
	return l
}

// Count returns how many lines there are.
func (l Lines) Count() (n int) {
	for _, r := range l {
		n += r.Lines
	}
	return n
}

// Options say which lines are the same.
type Options struct {
	IgnoreSpace bool // those that differ in white space are
}

// Next returns the text that became of another one. What it did not have is of the origin.
func (v Version) Next(text []byte, origin int, opts Options) Version {
	if bytes.Equal(v.Text, text) {
		return Version{text, v.Lines}
	}
	c := &cutter{from: v.Lines}
	at := 0
	for _, e := range opts.edits(v.Text, text) {
		c.keep(e.OldStart - at)
		c.drop(e.OldEnd - e.OldStart)
		c.to = c.to.add(e.NewEnd-e.NewStart, origin)
		at = e.OldEnd
	}
	c.rest()
	return Version{text, c.to}
}

// A cutter makes origins of others.
type cutter struct {
	from, to Lines
	used     int // lines of the first run of from
}

func (c *cutter) keep(n int) { c.take(n, func(n, origin int) { c.to = c.to.add(n, origin) }) }
func (c *cutter) drop(n int) { c.take(n, func(int, int) {}) }

func (c *cutter) take(n int, do func(n, origin int)) {
	for n > 0 {
		r := c.from[0]
		part := min(n, r.Lines-c.used)
		do(part, r.Origin)
		n -= part
		if c.used += part; c.used == r.Lines {
			c.from, c.used = c.from[1:], 0
		}
	}
}

func (c *cutter) rest() {
	if len(c.from) == 0 {
		return
	}
	c.to = c.to.add(c.from[0].Lines-c.used, c.from[0].Origin)
	for _, r := range c.from[1:] {
		c.to = c.to.add(r.Lines, r.Origin)
	}
}

// Merge returns a text that was made of others, and has no line of its own but marks of
// conflicts. A line is of the first of them that has it, by comparison, else of the first that
// has it anywhere: a conflict has lines of one text twice. One that none has is of the
// origin. No more of the others are asked for than are needed.
func Merge(text []byte, origin int, opts Options, others iter.Seq2[Version, error]) (Version, error) {
	owners := slices.Repeat([]int{none}, countLines(text))
	var from []Version
	for v, err := range others {
		if err != nil {
			return Version{}, err
		}
		from = append(from, v)
		i := 0
		for o := range v.Next(text, none, opts).Lines.each() {
			if owners[i] == none {
				owners[i] = o
			}
			i++
		}
		if !slices.Contains(owners, none) {
			break
		}
	}
	if slices.Contains(owners, none) {
		spread(text, owners, from)
	}
	var lines Lines
	for _, o := range owners {
		if o == none {
			o = origin
		}
		lines = lines.add(1, o)
	}
	return Version{text, lines}, nil
}

// Without returns the version with lines of one origin of another one, but for those that
// stay.
func (v Version) Without(origin, other int, stays func(line string) bool) Version {
	var lines Lines
	text, i := textdiff.SplitLines(v.Text), 0
	for o := range v.Lines.each() {
		if o == origin && !stays(text[i]) {
			o = other
		}
		lines = lines.add(1, o)
		i++
	}
	return Version{v.Text, lines}
}

// none is the origin of a line of which it is not known.
const none = -1

// each yields the origin of each line.
func (l Lines) each() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, r := range l {
			for range r.Lines {
				if !yield(r.Origin) {
					return
				}
			}
		}
	}
}

// spread gives lines that have no owner that of an equal line of other texts.
func spread(text []byte, owners []int, from []Version) {
	missing := make(map[string]int)
	lines := textdiff.SplitLines(text)
	for i, o := range owners {
		if o == none {
			missing[lines[i]] = none
		}
	}
	for _, v := range slices.Backward(from) { // the first has the last word
		lines, i := textdiff.SplitLines(v.Text), 0
		for o := range v.Lines.each() {
			if _, is := missing[lines[i]]; is {
				missing[lines[i]] = o
			}
			i++
		}
	}
	for i, o := range owners {
		if o == none {
			owners[i] = missing[lines[i]]
		}
	}
}

// edits returns the edits between two texts.
func (o Options) edits(old, new []byte) []textdiff.Edit {
	if o.IgnoreSpace {
		return textdiff.LinesAsGit(withoutSpace(old), withoutSpace(new))
	}
	return textdiff.AsGit(old, new)
}

func withoutSpace(text []byte) []string {
	lines := textdiff.SplitLines(text)
	for i, line := range lines {
		lines[i] = strings.Join(strings.FieldsFunc(line, unicode.IsSpace), "")
	}
	return lines
}

func countLines(text []byte) int {
	n := bytes.Count(text, []byte("\n"))
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}
