package ignore

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	gitignore "github.com/sabhiram/go-gitignore"
)

// A kind says what a token matches.
type kind uint8

const (
	char     kind = iota // the byte char
	set                  // one byte of the set
	star                 // any bytes but slashes: "*"
	starstar             // any bytes: "**" as a whole component
	dirs                 // nothing, or any bytes and a slash: "**/"
)

// A token is one step of a pattern.
type token struct {
	kind kind
	char byte
	set  *[256]bool
}

// anyByte is what "?" stands for.
var anyByte = func() (all [256]bool) {
	for b := range all {
		all[b] = b != '/'
	}
	return all
}()

// tokenize cuts a pattern into tokens. The bytes before start stand for
// themselves. It returns false for a pattern that matches nothing.
//
// It follows wildmatch.c of git 2.39. There, a pattern without a slash is
// matched without WM_PATHNAME; as names have no slash either, the difference
// cannot be seen. Where fold is set, names come folded, and what git compares
// unfolded is kept so.
func tokenize(pattern []byte, start int, fold bool) ([]token, bool) {
	var tokens []token
	literal := func(c byte) {
		b := []byte{c}
		if fold {
			lower(b)
		}
		tokens = append(tokens, token{kind: char, char: b[0]})
	}
	for _, c := range pattern[:start] {
		literal(c)
	}
	for i := start; i < len(pattern); {
		switch c := pattern[i]; c {
		case '\\':
			if i+1 == len(pattern) {
				return nil, false
			}
			tokens = append(tokens, token{kind: char, char: pattern[i+1]}) // not folded
			i += 2
		case '?':
			tokens = append(tokens, token{kind: set, set: &anyByte})
			i++
		case '[':
			members, n, ok := class(pattern[i:], fold)
			if !ok {
				return nil, false
			}
			members['/'] = false
			if *members == [256]bool{} {
				return nil, false // "[z-a]", which no regular expression can say
			}
			tokens = append(tokens, token{kind: set, set: members})
			i += n
		case '*':
			n := len(pattern[i:]) - len(bytes.TrimLeft(pattern[i:], "*"))
			rest := pattern[i+n:]
			component := n > 1 && (i == start || pattern[i-1] == '/')
			switch {
			case component && bytes.HasPrefix(rest, []byte("/")):
				tokens = append(tokens, token{kind: dirs})
				n++
			case component && (len(rest) == 0 || bytes.HasPrefix(rest, []byte(`\/`))):
				tokens = append(tokens, token{kind: starstar})
			default:
				tokens = append(tokens, token{kind: star})
			}
			i += n
		default:
			literal(c)
			i++
		}
	}
	return tokens, true
}

// class parses a bracket expression at the start of p and returns its members
// and its length. It returns false for one that makes the pattern match
// nothing: without an end, or with an unknown class name.
func class(p []byte, fold bool) (members *[256]bool, n int, ok bool) {
	members = new([256]bool)
	i := 1
	negated := i < len(p) && (p[i] == '!' || p[i] == '^')
	if negated {
		i++
	}
	var prev byte // what a range may begin with; 0 for nothing
	for begin := i; ; i++ {
		if i == len(p) {
			return nil, 0, false
		}
		c := p[i]
		switch {
		case c == ']' && i > begin:
			if negated {
				for b := range members {
					members[b] = !members[b]
				}
			}
			return members, i + 1, true
		case c == '\\':
			if i++; i == len(p) {
				return nil, 0, false
			}
			c = p[i]
			members[c] = true
		case c == '-' && prev != 0 && i+1 < len(p) && p[i+1] != ']':
			if i++; p[i] == '\\' {
				if i++; i == len(p) {
					return nil, 0, false
				}
			}
			for b := int(prev); b <= int(p[i]); b++ {
				members[b] = true
				if fold && 'A' <= b && b <= 'Z' {
					members[b+'a'-'A'] = true
				}
			}
			c = 0
		case c == '[' && i+1 < len(p) && p[i+1] == ':':
			length, ok := addClass(members, p[i:], fold)
			if !ok {
				return nil, 0, false
			}
			if length == 0 {
				members[c] = true // no class after all: a "[" like any other byte
				break
			}
			i += length - 1
			c = 0
		default:
			members[c] = true
		}
		prev = c
	}
}

// addClass adds the bytes of the class at the start of p, "[:upper:]", to
// members, and returns its length: 0 if it does not end as a class does. It
// returns false if p has no end, or the class is unknown.
func addClass(members *[256]bool, p []byte, fold bool) (n int, ok bool) {
	end := bytes.IndexByte(p[2:], ']')
	if end < 0 {
		return 0, false
	}
	name, closed := bytes.CutSuffix(p[2:2+end], []byte(":"))
	if !closed {
		return 0, true
	}
	is, known := classes[string(name)]
	if !known {
		return 0, false
	}
	for b := range members {
		if is(byte(b)) || fold && string(name) == "upper" && isLower(byte(b)) {
			members[b] = true
		}
	}
	return 2 + end + 1, true
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isAlnum(c byte) bool { return isLower(c) || isUpper(c) || isDigit(c) }
func isGraph(c byte) bool { return '!' <= c && c <= '~' }

// classes are the names in "[[:name:]]" with git's own idea of their members.
var classes = map[string]func(byte) bool{
	"alnum":  isAlnum,
	"alpha":  func(c byte) bool { return isLower(c) || isUpper(c) },
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
	"digit":  isDigit,
	"graph":  isGraph,
	"lower":  isLower,
	"print":  func(c byte) bool { return c == ' ' || isGraph(c) },
	"punct":  func(c byte) bool { return isGraph(c) && !isAlnum(c) },
	"space":  func(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' },
	"upper":  isUpper,
	"xdigit": func(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' },
}

// A glob is a pattern prepared for matching: prefix, what lies between, and
// suffix.
type glob struct {
	verdict verdict
	dirOnly bool

	literal        bool   // there is nothing but prefix
	prefix, suffix []byte // what a match begins and ends with
	inner          []byte // what it has somewhere between them, as far as known
	min            int    // length of the shortest match

	between kind // star and starstar: all that lies between; else ask for tokens
	tokens  []token
	once    sync.Once // sets library
	library *gitignore.GitIgnore
}

// maxCompiled is how many patterns of a process the library compiles, each to some 7 KB that stay;
// a repository may have a million of them. Beyond that their tokens are matched.
//
// A variable, so that tests make it less.
var maxCompiled int64 = 4096

var compiled atomic.Int64

// newGlob finds out what can be compared as it is.
func newGlob(tokens []token) *glob {
	g := &glob{}
	for _, t := range tokens {
		if t.kind == char || t.kind == set {
			g.min++
		}
	}
	all := tokens
	for len(tokens) > 0 && tokens[0].kind == char {
		g.prefix = append(g.prefix, tokens[0].char)
		tokens = tokens[1:]
	}
	end := len(tokens)
	for end > 0 && tokens[end-1].kind == char {
		end--
	}
	for _, t := range tokens[end:] {
		g.suffix = append(g.suffix, t.char)
	}
	tokens = tokens[:end]
	switch {
	case len(tokens) == 0:
		g.literal = true
	case len(tokens) == 1 && (tokens[0].kind == star || tokens[0].kind == starstar):
		g.between = tokens[0].kind
	default:
		g.inner, g.tokens = longestRun(tokens), all
	}
	return g
}

// longestRun returns the longest run of plain bytes.
func longestRun(tokens []token) []byte {
	var run, longest []byte
	for _, t := range tokens {
		if t.kind != char {
			run = nil
			continue
		}
		if run = append(run, t.char); len(run) > len(longest) {
			longest = run
		}
	}
	return longest
}

// match reports whether the pattern matches all of s.
func (g *glob) match(s []byte) bool {
	if len(s) < g.min || !bytes.HasPrefix(s, g.prefix) || !bytes.HasSuffix(s, g.suffix) {
		return false
	}
	between := s[len(g.prefix) : len(s)-len(g.suffix)]
	switch g.between {
	case star:
		return bytes.IndexByte(between, '/') < 0
	case starstar:
		return true
	}
	if !bytes.Contains(between, g.inner) {
		return false
	}
	// Compiled when first asked: most are never reached, and the library takes 14 us for one.
	g.once.Do(func() {
		if compiled.Add(1) <= maxCompiled {
			g.library = gitignore.CompileIgnoreLines(expr(g.tokens))
		}
	})
	if g.library == nil {
		return matchTokens(g.tokens, s)
	}
	return g.library.MatchesPath(latin1(s))
}

// matchTokens reports whether tokens match all of s. It takes a step for each byte and token at
// most.
func matchTokens(tokens []token, s []byte) bool {
	// Where a match may stand: before a token, or within one that stands for directories.
	type places []struct{ before, within bool }
	var room [2][32]struct{ before, within bool }
	now, next := append(places(room[0][:0]), make(places, len(tokens)+1)...),
		append(places(room[1][:0]), make(places, len(tokens)+1)...)
	enter := func(p places, i int) {
		for p[i].before = true; i < len(tokens) && tokens[i].kind >= star; i++ {
			p[i+1].before = true // it may stand for nothing
		}
	}
	enter(now, 0)
	for _, c := range s {
		clear(next)
		for i, t := range tokens {
			switch at := now[i]; {
			case t.kind == dirs && (at.before || at.within):
				next[i].within = true
				if c == '/' {
					enter(next, i+1)
				}
			case !at.before:
			case t.kind == star && c != '/', t.kind == starstar:
				enter(next, i)
			case t.kind == char && c == t.char, t.kind == set && t.set[c]:
				enter(next, i+1)
			}
		}
		now, next = next, now
	}
	return now[len(tokens)].before
}

// Wildmatch reports whether pattern matches all of path, with the wildcards of
// a gitignore pattern that has a slash. Git uses the same in other places.
func Wildmatch(pattern, path string, fold bool) bool {
	tokens, ok := tokenize([]byte(pattern), 0, fold)
	if !ok {
		return false
	}
	p := []byte(path)
	if fold {
		lower(p)
	}
	g := newGlob(tokens)
	if g.literal {
		return bytes.Equal(p, g.prefix)
	}
	return g.match(p)
}

// expr writes the tokens as a line that go-gitignore compiles to a regular
// expression for exactly them. That library puts a "/" at the start of a line
// at the place of an optional slash, and "and everything below" at the end:
// the "^" and the "$" leave those nothing to match. It rewrites "*", "?", "."
// and "#$~": none of them is written, any other byte than a letter or a digit
// being written as its code, and "{0,}" in the place of "*".
func expr(tokens []token) string {
	const anything = `[\x00-\xff]{0,}`
	var b strings.Builder
	b.WriteString("/^")
	for _, t := range tokens {
		switch t.kind {
		case char:
			if isAlnum(t.char) {
				b.WriteByte(t.char)
			} else {
				fmt.Fprintf(&b, `\x%02x`, t.char)
			}
		case set:
			writeSet(&b, t.set)
		case star:
			b.WriteString(`[^\x2f]{0,}`)
		case starstar:
			b.WriteString(anything)
		case dirs:
			b.WriteString(`(|` + anything + `\x2f)`)
		}
	}
	b.WriteString("$")
	return b.String()
}

// writeSet writes a set as ranges of codes.
func writeSet(b *strings.Builder, members *[256]bool) {
	b.WriteString("[")
	for lo := 0; lo < len(members); lo++ {
		if !members[lo] {
			continue
		}
		hi := lo
		for hi+1 < len(members) && members[hi+1] {
			hi++
		}
		fmt.Fprintf(b, `\x%02x-\x%02x`, lo, hi)
		lo = hi
	}
	b.WriteString("]")
}

// latin1 returns a string whose runes are the bytes of s: regular expressions
// know runes, git knows bytes.
func latin1(s []byte) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, c := range s {
		b.WriteRune(rune(c))
	}
	return b.String()
}
