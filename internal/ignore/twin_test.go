package ignore

import (
	"bytes"
	"strings"
	"testing"
)

// twin answers the same questions in the plainest way: every line, from the
// last to the first, by backtracking over its bytes.
type twin struct {
	files []twinFile // lowest precedence first
	fold  bool
}

type twinFile struct {
	dir  string // of the pattern file, "" or with a final slash
	text string
}

// ignored reports whether path, from the root, is ignored if its directory is not.
func (tw twin) ignored(path string, isDir bool) bool {
	for i := len(tw.files) - 1; i >= 0; i-- {
		f := tw.files[i]
		lines := strings.Split(strings.TrimPrefix(f.text, "\xef\xbb\xbf"), "\n")
		for j := len(lines) - 1; j >= 0; j-- {
			if match, negated := tw.line(lines[j], strings.TrimPrefix(path, f.dir), isDir); match {
				return !negated
			}
		}
	}
	return false
}

func (tw twin) line(line, path string, isDir bool) (match, negated bool) {
	if strings.HasPrefix(line, "#") {
		return false, false
	}
	line, _, _ = strings.Cut(strings.TrimSuffix(line, "\r"), "\x00")
	line = twinTrim(line)
	line, negated = strings.CutPrefix(line, "!")
	line, dirOnly := strings.CutSuffix(line, "/")
	if dirOnly && !isDir {
		return false, negated
	}
	if !strings.Contains(line, "/") {
		path = path[strings.LastIndexByte(path, '/')+1:]
		if !strings.ContainsAny(line, `*?[\`) {
			return tw.equal(line, path), negated
		}
		return tw.wild(line, path, true), negated
	}
	line = strings.TrimPrefix(line, "/")
	if n := strings.IndexAny(line, `*?[\`); n < 0 {
		return tw.equal(line, path), negated
	} else if n > 0 {
		if n > len(path) || !tw.equal(line[:n], path[:n]) {
			return false, negated
		}
		line, path = line[n:], path[n:]
	}
	return tw.wild(line, path, true), negated
}

func twinTrim(line string) string {
	for i := len(line); i > 0 && line[i-1] == ' '; i-- {
		slashes := len(line[:i-1]) - len(strings.TrimRight(line[:i-1], `\`))
		if slashes%2 == 1 {
			return line[:i]
		}
		line = line[:i-1]
	}
	return line
}

func (tw twin) equal(a, b string) bool {
	if tw.fold {
		return string(foldBytes(a)) == string(foldBytes(b))
	}
	return a == b
}

func foldBytes(s string) []byte {
	b := []byte(s)
	for i := range b {
		b[i] = foldByte(b[i])
	}
	return b
}

func foldByte(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 32
	}
	return c
}

// wild matches text against pattern. It is what the documentation of
// gitignore and the tests of git's wildmatch describe, byte by byte.
func (tw twin) wild(pattern, text string, start bool) bool {
	if pattern == "" {
		return text == ""
	}
	c := pattern[0]
	if c == '*' {
		rest := strings.TrimLeft(pattern, "*")
		deep := false
		if len(pattern)-len(rest) > 1 && start {
			deep = rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`)
			if strings.HasPrefix(rest, "/") && tw.wild(rest[1:], text, true) {
				return true
			}
		}
		for i := 0; ; i++ {
			if tw.wild(rest, text[i:], false) {
				return true
			}
			if i == len(text) || text[i] == '/' && !deep {
				return false
			}
		}
	}
	if text == "" {
		return false
	}
	t := text[0]
	if tw.fold {
		t = foldByte(t)
	}
	switch c {
	case '\\':
		if len(pattern) == 1 || pattern[1] != t {
			return false
		}
		return tw.wild(pattern[2:], text[1:], pattern[1] == '/')
	case '?':
		if t == '/' {
			return false
		}
		return tw.wild(pattern[1:], text[1:], false)
	case '[':
		rest, in := tw.bracket(pattern[1:], t)
		if !in || t == '/' {
			return false
		}
		return tw.wild(rest, text[1:], false)
	}
	if tw.fold {
		c = foldByte(c)
	}
	if c != t {
		return false
	}
	return tw.wild(pattern[1:], text[1:], c == '/')
}

// bracket asks whether t is in the class whose text begins p, and returns
// what follows the class.
func (tw twin) bracket(p string, t byte) (rest string, in bool) {
	want := true
	if p != "" && (p[0] == '!' || p[0] == '^') {
		want, p = false, p[1:]
	}
	got := false
	var prev byte
	for first := true; ; first = false {
		switch {
		case p == "":
			return "", false
		case p[0] == ']' && !first:
			return p[1:], got == want
		case p[0] == '\\':
			if len(p) == 1 {
				return "", false
			}
			got = got || p[1] == t
			prev, p = p[1], p[2:]
		case p[0] == '-' && prev != 0 && len(p) > 1 && p[1] != ']':
			p = p[1:]
			if p[0] == '\\' {
				p = p[1:]
			}
			if p == "" {
				return "", false
			}
			got = got || prev <= t && t <= p[0]
			if tw.fold && t >= 'a' && t <= 'z' {
				got = got || prev <= t-32 && t-32 <= p[0]
			}
			prev, p = 0, p[1:]
		case strings.HasPrefix(p, "[:"):
			name, after, closed := strings.Cut(p[2:], "]")
			if !closed {
				return "", false
			}
			if !strings.HasSuffix(name, ":") {
				got = got || t == '['
				prev, p = '[', p[1:]
				continue
			}
			members, known := twinClasses[name]
			if !known {
				return "", false
			}
			got = got || strings.IndexByte(members, t) >= 0
			if name == "upper:" && tw.fold {
				got = got || t >= 'a' && t <= 'z'
			}
			prev, p = 0, after
		default:
			got = got || p[0] == t
			prev, p = p[0], p[1:]
		}
	}
}

const (
	lowers = "abcdefghijklmnopqrstuvwxyz"
	uppers = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits = "0123456789"
	puncts = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
)

var twinClasses = map[string]string{
	"alnum:": lowers + uppers + digits, "alpha:": lowers + uppers, "blank:": " \t",
	"cntrl:": "\x01\x02\x03\x04\x05\x06\x07\x08\t\n" +
		"\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f",
	"digit:": digits, "graph:": lowers + uppers + digits + puncts, "lower:": lowers,
	"print:": lowers + uppers + digits + puncts + " ", "punct:": puncts, "space:": " \t\n\r",
	"upper:": uppers, "xdigit:": digits + "abcdefABCDEF",
}

func FuzzMatch(f *testing.F) {
	for _, s := range [][2]string{
		{"*.o\n!a.o\n/b/\n", "a.o"}, {"**/a\n", "x/a"}, {"a/**\n", "a/b/c"}, {"a/**/b", "a/b"},
		{"/foo**/bar", "fooz/x/bar"}, {`**\/b`, "b"}, {"x**/**/***", "x/y"}, {"[[:alpha:]-z].c", "-.c"},
		{"[]a]\n[!]a]", "]"}, {"[z-a]", "z"}, {"a\\", "a"}, {"a\\ \\\n", "a "}, {"*a*b*c", "xaybzc"},
		{"\xef\xbb\xbfa\r\n", "a"}, {"a\x00b", "a"}, {"?\xff", "\xc3\xff"}, {"[A-Z]\\B*[[:upper:]]", "abc"},
	} {
		f.Add(s[0], "", s[1], false, false)
		f.Add("*", s[0], s[1], true, true)
	}
	f.Fuzz(func(t *testing.T, below, text, path string, isDir, fold bool) {
		if strings.Count(text, "*")+strings.Count(below, "*") > 12 || len(path) > 64 {
			t.Skip("the twin takes exponential time")
		}
		dirs := strings.Split(path, "/")
		for _, d := range dirs {
			if d == "" || bytes.IndexByte([]byte(d), 0) >= 0 {
				t.Skip("not a path")
			}
		}
		r := Root(Options{IgnoreCase: fold, Info: []byte(below)})
		tw := twin{files: []twinFile{{text: below}, {text: text}}, fold: fold}
		if len(dirs) > 2 {
			r = r.Sub(dirs[0]).WithFiles([]byte(text), nil)
			tw.files[1].dir = dirs[0] + "/"
			dirs = dirs[1:]
		} else {
			r = r.WithFiles([]byte(text), nil)
		}
		for len(dirs) > 1 {
			r, dirs = r.Sub(dirs[0]), dirs[1:]
		}
		if got, want := r.Match(dirs[0], isDir), tw.ignored(path, isDir); got != want {
			t.Errorf("Match(%q, dir=%v) under %q then %q, fold %v = %v, want %v", path, isDir, below, text, fold, got,
				want)
		}
	})
}
