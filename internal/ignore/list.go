package ignore

import (
	"bytes"
	"slices"
	"sync"
)

// A list is one pattern file. It is parsed when the first name is asked of it.
type list struct {
	below *list  // the list of next lower precedence
	base  int    // length of the path of its directory, with a final slash
	text  []byte // the file's content
	fold  bool   // names come folded, and patterns are

	once sync.Once
	// Patterns without a slash are matched against the name, the others
	// against the path from the list's directory.
	names, paths patterns
}

// push puts a pattern file above the lists below.
func push(below *list, text []byte, base int, fold bool) *list {
	if len(text) == 0 {
		return below
	}
	return &list{below: below, base: base, text: text, fold: fold}
}

// A verdict is what a list says of a name: 0 for nothing, else twice the
// number of the deciding line, plus one if the pattern there is negated. So
// of two verdicts the larger is the later line's.
type verdict int

func (v verdict) negated() bool { return v&1 != 0 }

// last returns the verdict of the last pattern that matches.
func (l *list) last(path, name []byte, isDir bool) verdict {
	l.once.Do(l.parse)
	return l.paths.last(path, isDir, l.names.last(name, isDir, 0))
}

// parse reads the file as git does: dir.c, add_patterns_from_buffer.
func (l *list) parse() {
	text := bytes.TrimPrefix(l.text, []byte("\xef\xbb\xbf"))
	for number := verdict(1); len(text) > 0; number++ {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		if bytes.HasPrefix(line, []byte("#")) {
			continue
		}
		line = bytes.TrimSuffix(line, []byte("\r"))
		line, _, _ = bytes.Cut(line, []byte{0})
		l.add(trimSpaces(line), number)
	}
}

// trimSpaces cuts trailing spaces that no backslash escapes. Where the line
// ends in a lone backslash git keeps them all.
func trimSpaces(line []byte) []byte {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++
		}
		end = i + 1
	}
	return line[:min(end, len(line))]
}

// add adds the pattern of one line.
func (l *list) add(pattern []byte, number verdict) {
	v := 2 * number
	pattern, negated := bytes.CutPrefix(pattern, []byte("!"))
	if negated {
		v++
	}
	pattern, dirOnly := bytes.CutSuffix(pattern, []byte("/"))
	to := &l.names
	start := 0 // where the first wildcard is: what follows is matched as if it stood alone
	if bytes.IndexByte(pattern, '/') >= 0 {
		to = &l.paths
		pattern = bytes.TrimPrefix(pattern, []byte("/"))
		start = max(0, bytes.IndexAny(pattern, `*?[\`))
	}
	if tokens, ok := tokenize(pattern, start, l.fold); ok {
		to.add(tokens, v, dirOnly)
	}
}

// patterns are those of one list that look at the same thing. The zero value
// matches nothing.
type patterns struct {
	literal map[string]verdicts
	// The globs are found by the byte that they make a match begin or else
	// end with; free ones have neither. Each slice is in file order.
	first, final map[byte][]*glob
	free         []*glob
}

// verdicts are those of the last pattern for anything and of the last for
// directories.
type verdicts struct{ any, dir verdict }

// add adds a pattern that is later in the file than those before.
func (p *patterns) add(tokens []token, v verdict, dirOnly bool) {
	g := newGlob(tokens)
	if g.literal {
		if p.literal == nil {
			p.literal = map[string]verdicts{}
		}
		old := p.literal[string(g.prefix)]
		old.dir = v
		if !dirOnly {
			old.any = v
		}
		p.literal[string(g.prefix)] = old
		return
	}
	g.verdict, g.dirOnly = v, dirOnly
	switch {
	case len(g.prefix) > 0:
		p.first = appendTo(p.first, g.prefix[0], g)
	case len(g.suffix) > 0:
		p.final = appendTo(p.final, g.suffix[len(g.suffix)-1], g)
	default:
		p.free = append(p.free, g)
	}
}

func appendTo(m map[byte][]*glob, key byte, g *glob) map[byte][]*glob {
	if m == nil {
		m = map[byte][]*glob{}
	}
	m[key] = append(m[key], g)
	return m
}

// last returns the verdict of the last pattern that matches s, or v if that
// is later.
func (p *patterns) last(s []byte, isDir bool, v verdict) verdict {
	if len(s) == 0 {
		return v
	}
	lit := p.literal[string(s)]
	if isDir {
		v = max(v, lit.dir)
	} else {
		v = max(v, lit.any)
	}
	v = lastGlob(p.first[s[0]], s, isDir, v)
	v = lastGlob(p.final[s[len(s)-1]], s, isDir, v)
	return lastGlob(p.free, s, isDir, v)
}

func lastGlob(globs []*glob, s []byte, isDir bool, v verdict) verdict {
	for _, g := range slices.Backward(globs) {
		if g.verdict <= v {
			break
		}
		if (isDir || !g.dirOnly) && g.match(s) {
			return g.verdict
		}
	}
	return v
}
