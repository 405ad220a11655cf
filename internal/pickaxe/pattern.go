package pickaxe

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"path"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/boocode/filestore/internal/similar"
)

// A Mode says which changes are found.
type Mode int

const (
	Count Mode = iota // those by which the number of places changed that match
	Lines             // those that have added or removed a line that matches
	Each              // those that changed the content, if it matches before or after
)

// Options say what a text is, and where it counts.
type Options struct {
	Regexp     bool // it is a regular expression (RE2), in which ^ and $ are ends of lines
	IgnoreCase bool
	Binary     bool // it counts in files that are no text, too; with [Lines] never
	Mode       Mode
}

// A Pattern is a text that is looked for. It may be used from any number of goroutines.
type Pattern struct {
	fixed  []byte         // nil: re is
	re     *regexp.Regexp // of a whole text
	line   *regexp.Regexp // of one line: only [Lines] need it
	byLine bool           // re may find less than line does: each line is looked at
	binary bool
	mode   Mode
}

// Compile reads a pattern. The error says what is wrong with it, and matches
// [path.ErrBadPattern]. One that matches the empty text is refused: that is everywhere.
func Compile(text string, o Options) (*Pattern, error) {
	p := &Pattern{binary: o.Binary && o.Mode != Lines, mode: o.Mode}
	if text == "" {
		return nil, &badPattern{text, "it is empty"}
	}
	if !o.Regexp && !o.IgnoreCase {
		p.fixed = []byte(text)
		return p, nil
	}
	if !o.Regexp {
		text = regexp.QuoteMeta(text)
	}
	flags := "(?m)"
	if o.IgnoreCase {
		flags = "(?mi)"
	}
	var err error
	if p.re, err = regexp.Compile(flags + text); err != nil {
		return nil, &badPattern{text, causeOf(err)}
	}
	if literal, all := p.re.LiteralPrefix(); all && literal != "" {
		p.fixed, p.re = []byte(literal), nil
		return p, nil
	}
	if p.re.MatchString("") {
		return nil, &badPattern{text, "it matches the empty text, which is everywhere"}
	}
	p.line = p.re
	tree, err := syntax.Parse(flags+text, syntax.Perl)
	p.byLine = err != nil || hasTextEnds(tree)
	return p, nil
}

// A badPattern says what is wrong with one.
type badPattern struct{ text, why string }

func (e *badPattern) Error() string        { return fmt.Sprintf("pattern %q: %s", e.text, e.why) }
func (e *badPattern) Is(target error) bool { return target == path.ErrBadPattern }

// causeOf says what is wrong with an expression, without what was put before it.
func causeOf(err error) string {
	if s, ok := errors.AsType[*syntax.Error](err); ok {
		return s.Code.String()
	}
	return err.Error()
}

// hasTextEnds reports whether an expression has an end of the whole text in it.
func hasTextEnds(re *syntax.Regexp) bool {
	if re.Op == syntax.OpBeginText || re.Op == syntax.OpEndText {
		return true
	}
	for _, sub := range re.Sub {
		if hasTextEnds(sub) {
			return true
		}
	}
	return false
}

// A tally is what a search remembers of a content.
type tally struct {
	n     int      // places, or lines, that match
	sum   uint64   // of [Lines]: of their bytes, in whatever order
	first *matched // nil: there is none
}

var seed = maphash.MakeSeed()

// tally counts in a content.
func (p *Pattern) tally(content []byte) (t tally) {
	switch {
	case !p.binary && similar.IsBinary(content):
	case p.mode == Lines:
		for line := range p.lines(content) {
			t.n++
			t.sum += maphash.Bytes(seed, line.text)
		}
	case p.fixed != nil:
		t.n = bytes.Count(content, p.fixed)
	default:
		for range p.places(content) {
			t.n++
		}
	}
	if t.n > 0 {
		t.first = p.firstLine(content, nil)
	}
	return t
}

// firstLine returns the first line that matches, of those that are not in a set, where equal
// lines are counted; nil if there is none.
func (p *Pattern) firstLine(content []byte, but map[string]int) *matched {
	for line := range p.lines(content) {
		if text := string(line.text); but[text] > 0 {
			but[text]--
			continue
		}
		const most = 200 // bytes
		text := strings.TrimSuffix(string(line.text), "\r")
		if len(text) > most {
			text = strings.ToValidUTF8(text[:most], "\ufffd")
		}
		return &matched{line.number, []byte(text)}
	}
	return nil
}

// places yields where matches are, none of which overlap. No match is empty.
func (p *Pattern) places(content []byte) func(yield func(at int) bool) {
	return func(yield func(at int) bool) {
		for at := 0; ; {
			from, to := p.next(content[at:])
			if from < 0 || to > from && !yield(at+from) {
				return
			}
			if at += max(to, from+1); at > len(content) {
				return
			}
		}
	}
}

// next returns the first match; from is -1 if there is none.
func (p *Pattern) next(content []byte) (from, to int) {
	if p.fixed != nil {
		from = bytes.Index(content, p.fixed)
		return from, from + len(p.fixed)
	}
	if loc := p.re.FindIndex(content); loc != nil {
		return loc[0], loc[1]
	}
	return -1, 0
}

// A matched line is one that a pattern matches.
type matched struct {
	number int // from 1
	text   []byte
}

// lines yields the lines that match. Of places a line is the one at which a match begins.
func (p *Pattern) lines(content []byte) func(yield func(matched) bool) {
	return func(yield func(matched) bool) {
		number := 1
		for at := 0; at < len(content); {
			if !p.byLine || p.mode != Lines {
				from, _ := p.next(content[at:])
				if from < 0 {
					return
				}
				skipped := content[at : at+from]
				number += bytes.Count(skipped, newline)
				at += bytes.LastIndexByte(skipped, '\n') + 1
			}
			text := content[at:]
			if end := bytes.IndexByte(text, '\n'); end >= 0 {
				text = text[:end]
			}
			if p.isLine(text) && !yield(matched{number, text}) {
				return
			}
			at += len(text) + 1
			number++
		}
	}
}

var newline = []byte("\n")

// isLine reports whether a line counts at which a match begins.
func (p *Pattern) isLine(text []byte) bool {
	switch {
	case p.mode != Lines: // the match may go on in the next line
		return true
	case p.fixed != nil:
		return bytes.Contains(text, p.fixed)
	}
	return p.line.Match(text)
}
