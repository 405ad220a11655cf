package pickaxe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"path"
	"regexp"
	"regexp/syntax"
	"slices"
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
	splits bool           // what is found in whole lines is found in a text that has them
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
	p.byLine = err != nil || hasAny(tree, isTextEnd)
	p.splits = p.byLine && p.mode == Lines || err == nil && !hasAny(tree, crossesLines)
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

// hasAny reports whether a part of an expression is what is asked for.
func hasAny(re *syntax.Regexp, is func(*syntax.Regexp) bool) bool {
	return is(re) || slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return hasAny(sub, is) })
}

// isTextEnd reports whether it is an end of the whole text.
func isTextEnd(re *syntax.Regexp) bool {
	return re.Op == syntax.OpBeginText || re.Op == syntax.OpEndText
}

// crossesLines reports whether what matches it may have the end of a line in it, or depends on
// what is in other lines.
func crossesLines(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral:
		return slices.Contains(re.Rune, '\n')
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			if re.Rune[i] <= '\n' && '\n' <= re.Rune[i+1] {
				return true
			}
		}
	}
	return re.Op == syntax.OpAnyChar || isTextEnd(re)
}

// A tally is what a search remembers of a content.
type tally struct {
	n     int      // places, or lines, that match
	sum   uint64   // of [Lines]: of their bytes, in whatever order
	first *matched // nil: there is none
}

var seed = maphash.MakeSeed()

// tally counts in a content. The error is that the context has ended.
func (p *Pattern) tally(ctx context.Context, content []byte) (t tally, err error) {
	switch {
	case !p.binary && similar.IsBinary(content):
	case p.mode == Lines:
		for line := range p.lines(ctx, content) {
			t.n++
			t.sum += maphash.Bytes(seed, line.text)
		}
	case p.fixed != nil:
		t.n = bytes.Count(content, p.fixed)
	default:
		for block := range p.blocks(ctx, content) {
			t.n += p.places(ctx, block)
		}
	}
	if t.n > 0 {
		t.first = p.firstLine(ctx, content, nil)
	}
	return t, context.Cause(ctx)
}

// How much is looked at between two looks at whether the search was ended: expressions can be made
// to take a second for 1 MB and more. Of matches a few are asked for at once.
var (
	blockSize = 64 << 10
	atOnce    = 256
)

const mostAtOnce = 1 << 20

// blocks yields a content in pieces of whole lines, if that makes no difference, as long as the
// search goes on.
func (p *Pattern) blocks(ctx context.Context, content []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(content) > 0 && ctx.Err() == nil {
			end := len(content)
			if p.splits && end > blockSize {
				if i := bytes.IndexByte(content[blockSize:], '\n'); i >= 0 {
					end = blockSize + i + 1
				}
			}
			if !yield(content[:end]) {
				return
			}
			content = content[end:]
		}
	}
}

// firstLine returns the first line that matches, of those that are not in a set, where equal
// lines are counted; nil if there is none.
func (p *Pattern) firstLine(ctx context.Context, content []byte, but map[string]int) *matched {
	for line := range p.lines(ctx, content) {
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

// places counts matches of the expression, none of which overlap, or are empty. What is before
// a match counts: ^ is not where the match before has ended.
func (p *Pattern) places(ctx context.Context, text []byte) (n int) {
	counted, most := 0, atOnce // up to where, and of how many more is asked
	for at := 0; ctx.Err() == nil; {
		list := p.re.FindAllIndex(text[at:], most)
		for _, m := range list {
			if at+m[0] >= counted && m[1] > m[0] {
				n++
			}
		}
		if len(list) < most {
			break
		}
		last := list[len(list)-1]
		begin := bytes.LastIndexByte(text[at:at+last[0]], '\n') + 1 // of the line of the last one
		counted = max(counted, at+last[1])
		switch isWithin := func(m []int) bool { return m[0] < begin && begin < m[1] }; {
		case begin > 0 && !p.byLine && !slices.ContainsFunc(list, isWithin):
			at, most = at+begin, atOnce
		case most < mostAtOnce:
			most *= 2
		default: // a line of a million places
			at, most = counted, atOnce
		}
	}
	return n
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

// lines yields the lines that match, as long as the search goes on. Of places a line is the one
// at which a match begins.
func (p *Pattern) lines(ctx context.Context, content []byte) iter.Seq[matched] {
	return func(yield func(matched) bool) {
		number := 1
		for block := range p.blocks(ctx, content) {
			if !p.linesOf(block, number, yield) {
				return
			}
			if len(block) < len(content) {
				number += bytes.Count(block, newline)
			}
		}
	}
}

// linesOf yields the lines of a text that match, of which the first has a number. It reports
// whether to go on.
func (p *Pattern) linesOf(content []byte, number int, yield func(matched) bool) bool {
	for at := 0; at < len(content); {
		if !p.byLine || p.mode != Lines {
			from, _ := p.next(content[at:])
			if from < 0 {
				break
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
			return false
		}
		at += len(text) + 1
		number++
	}
	return true
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
