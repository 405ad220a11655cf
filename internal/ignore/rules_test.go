package ignore

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"

	gitignore "github.com/sabhiram/go-gitignore"
)

// cases are pattern files, one a line: ⏎ is a newline, ␍ a carriage return, ␀
// a zero byte, ␉ a tab, «ff» the byte of that value.
const cases = `foo
/foo
foo/
/foo/
foo/bar
/foo/bar
foo/bar/
foo/*
foo/**
foo/**/
**/foo
**/foo/bar
/**/foo
foo/**/bar
foo/**/**/bar
**
**/
***
*
/*
/**
*/
/*/
*/*
*/foo
*/foo/
*/*/
**/*
**/*/
**/**
**/**/foo
**/**/
a/**/b
a/**/b/**/c
a/*/c
a/*/*
a/*
a/**
a**/b
a**b
a**
/a**
**a
**/a**
/**a
x**/y
foo**/bar
/foo**/bar
foo*/bar
fo?/bar
fo?
f??
?oo
???
?
*?
?*
*.o
*.c
!*.o
*.*
.*
.*/
*.
*~
*foo
foo*
*foo*
f*o
f*o*
f*/b*
*o/bar
[f]oo
[!f]oo
[^f]oo
[a-f]oo
[f-a]oo
[a-]oo
[-f]oo
[]f]oo
[!]f]oo
[\]f]oo
[\f]oo
[[]x]
[[]
[]]
[]
[!]
[
[a
foo[
foo[/]bar
foo[!a]bar
[[:alpha:]]oo
[[:alpha:][:digit:]]oo
[![:alpha:]]*
[[:digit:]]*
[[:upper:]]*
[[:lower:]]*
[[:punct:]]*
[[:space:]]*
*[[:space:]]*
*[[:cntrl:]]*
*[[:print:]]
*[![:print:]]*
[[:graph:]]*
[[:xdigit:]]*
[[:xdigit:]][[:xdigit:]]
[[:blank:]]*
*[[:blank:]]
[[:alnum:]]*
[[:foo:]]oo
[[:alpha]oo
[[:alpha:]oo
[[:]x]
[[.a.]]
[[=a=]]
[a-c-e]
[--0]
[!--0]
[%--]
[a\-c]
[\a-\c]
[a-\c]
[\\]
[a\]
[*]
[?]
[**]
[a-c]/foo
[a/b]
[!a]/foo
[A-Z]*
[a-z]*
[é]
[\303]*
[\200-\377]*
*[\200-\377]
[!\200-\377]*
\foo
f\oo
foo\
foo\\
foo\/
foo\/bar
\/foo
\*
\?
\[x]
\[x\]
\\
\#hash
#hash
\!bang
!bang
!!bang
\\!bang
!\!bang
 lead
\ lead
trail
trail\ 
trail \ 
trail\  
trail\\ 
trail\ \ 
tab\t
tab␉
tab
   
\ 
\  
\   
foo  
foo \
foo/ 
foo/  
foo /
é
?é
??
*é
\xc3*
a?b
a??b
a[!x]b
aéb
lib.c++
*.c++
lib.c+
copy (1).txt
copy (*).txt
copy ([0-9]).txt
a|b
a|*
(a|b)
^foo
^*
foo$
*$
foo(
foo)
*(
a{1,2}
{a,b}
a+b
a.b
\d
\w+
#$~
a#$~b
\#$~
*#$~
file??.txt
file*.txt
file[0-9][0-9].txt
*.txt
*.t?t
*.sw?
.*.sw[a-p]
.env
.env*
.env.*
!.env
/.env
/.
/..
.
..
./foo
foo/.
foo/../bar
foo//bar
//foo
foo//
/
//
!
!/
!*
node_modules/
**/node_modules
**/node_modules/**
node_modules/**
.vscode/*
build/
build/*
out/**
Foo
FOO
FOO/BAR
[F]oo
\Foo
*.O
*.C
É
f*\/bar
foo\/*
**\/bar
**\/foo
foo/**\/bar
a\/**/b
**/\foo
**\foo
x**/**/***
x**/**
***/foo
foo/***
foo/***/bar
a/b/c
a/b/*
a/b/**
/a/b/c
a/b/c/
b/c
*/b/c
**/b/c
**/c
a/?/c
a/[b]/c
a/[!b]/c
a/[/]/c
a[/]b
a?b/c
a*/c
a/*b/c
a/b*/c
a/b**/c
a/**b/c
*a*b*c*
a*b*
*b*c
**/.env
**.txt
**/*.txt
foo/**/*.txt
/**/*.txt
/*.txt
/*/bar
/*/*/c
/?/?/c
/**/
/***
/*?
foo⏎bar
foo⏎!foo
!foo⏎foo
foo/⏎!foo/
foo/*⏎!foo/bar
foo/*⏎!foo/bar/
foo/**⏎!foo/bar
/*⏎!/foo
/*⏎!/foo⏎/foo/*⏎!/foo/bar
*⏎!*/
*⏎!*/⏎!*.txt
**⏎!**/
*.txt⏎!file01.txt
*.txt⏎!file01.txt⏎file*
foo⏎⏎⏎!bar
# foo⏎foo
 # foo
foo # bar
foo#bar
foo␍⏎bar␍⏎
foo␍
foo␍␍⏎
foo/␍⏎
foo ␍⏎
foo␍ ⏎
foo␍\⏎
CR␍⏎
CR␍␍⏎
␍
␍⏎
«ef»«bb»«bf»foo
«ef»«bb»«bf»#foo⏎bar
foo⏎«ef»«bb»«bf»bar
«ef»«bb»«bf»«ef»«bb»«bf»foo
foo␀bar
␀
!␀
foo ␀x
nl\⏎x
foo␉
␉foo
foo«0b»
a«01»b
a[«01»-«1f»]b
*«7f»*
[«01»-«ff»]
[!«01»-«ff»]
[«ff»]
«ff»
?«ff»
*«ff»
[«c3»][«a9»]
[«c3»«a9»]
[a-«ff»]*
`

// universe is what each case is asked about. Directories end in a slash.
var universe = []string{
	"foo/", "foo/bar/", "foo/bar/foo", "foo/bar/x/", "foo/bar/x/bar", "foo/foo", "foo/x/", "foo/x/bar", "foo/b.txt",
	"foo/x/c.txt", "foo/.env",
	"a/", "a/b/", "a/b/c", "a/x/", "a/x/b/", "a/x/b/c", "a/x/b/y/", "a/x/b/y/c", "a/foo/", "a/foo/bar", "a/bar",
	"a/b.o", "a/c", "a/axb",
	"b/", "b/foo", "b/c", "b/b", "fooz/", "fooz/x/", "fooz/x/bar", "fooz/bar", "foobar", "fo", "x/", "x/y/", "x/y/z",
	"x/foo/", "x/foo/y", "xx/", "xx/y",
	"out/", "out/o", "build/", "build/x", "node_modules/", "node_modules/x", "node_modules/y/", "a/node_modules/",
	"a/node_modules/x", ".vscode/", ".vscode/s",
	"a/.vscode/", "a/.vscode/s", "bar", "Foo", "FOO", "fOo", "c", "z", "A", "É", "é", "xé", "aéb", "\xc3", "\xff",
	"x\xff", "\x80",
	"a.o", "a.O", "a.c", ".o", "a.b", "axb", "a b", "aaxbb", "a*b", "a?b", "a[b", "a-b", "ab", "aXb", "a\x01b",
	"a/.env",
	"lib.c++", "lib.cc", "lib.c", "copy (1).txt", "copy 1.txt", "a|b", "^foo", "foo$", "foo(", "foo)", "a{1,2}",
	"{a,b}", "a+b", "aab", "d", "\\d", "www", "w+",
	"#$~", "a#$~b", "aqb", "file01.txt", "fileAB.txt", "file??.txt", "x.swp", ".x.swp", ".env", ".env.local", "env",
	"a~", "~",
	"\\", "\\foo", "foo\\", "foo\\ ", "*", "?", "[x]", "[", "]", "[]", "-", "#hash", "hash", "!bang", "!!bang", "bang",
	"\\bang", "\\!bang", " lead", "lead",
	"trail", "trail ", "trail  ", "trail\\", "tab", "tab\t", "tabt", "foo ", "foo #", "foo # bar", " # foo", "#foo",
	"foo#bar", " ", "  ", "foo\r", "foo \r", "foo\t", "\tfoo", "foo\v",
	"CR", "CR\r", "\r", "nl\nx", "x\x7f", "1", "12", "aF", "_", "...", "\ufefffoo", "\ufeff#foo", ":a", "[.a.]", "a:",
}

func unescape(s string) string {
	s = strings.NewReplacer("⏎", "\n", "␍", "\r", "␀", "\x00", "␉", "\t").Replace(s)
	return regexp.MustCompile("«..»").ReplaceAllStringFunc(s, func(code string) string {
		b, err := hex.DecodeString(strings.Trim(code, "«»"))
		if err != nil {
			panic(err)
		}
		return string(b)
	})
}

// TestCases asks git, us and the twin about each case, at the root and in a
// subdirectory, with and without core.ignoreCase.
func TestCases(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(cases, "\n"), "\n")
	r := newRepo(t)
	questions := 0
	ask := func() {
		t.Helper()
		want := r.gitIgnored()
		questions += len(want)
		for what, got := range map[string]map[string]bool{"we": r.ourIgnored(), "the twin": r.twinIgnored()} {
			if bad := disagreements(got, want); bad != nil {
				t.Errorf("%s:\n%s%s", what, r.describe(), strings.Join(bad, "\n"))
			}
		}
	}
	for _, fold := range []bool{false, true} {
		// In subdirectories, one per case, by one process of git.
		r.reset()
		r.opts.IgnoreCase = fold
		for i, line := range lines {
			dir := fmt.Sprintf("case%d/", i)
			r.paths = append(r.paths, dir)
			r.files[dir+".gitignore"] = []byte(unescape(line))
			for _, p := range universe {
				r.paths = append(r.paths, dir+p)
			}
		}
		r.write(false)
		ask()
		// At the root, and on the two other levels.
		r.reset()
		r.opts.IgnoreCase = fold
		r.paths = universe
		r.write(false)
		for i, line := range lines {
			if i%8 != 0 && *trees < 3000 {
				continue
			}
			r.opts.Info, r.opts.Excludes = nil, nil
			switch i % 3 {
			case 0:
				r.files[".gitignore"] = []byte(unescape(line))
			case 1:
				r.opts.Info = []byte(unescape(line))
			case 2:
				r.opts.Excludes = []byte(unescape(line))
			}
			r.writePatterns()
			ask()
			r.files[".gitignore"] = nil
		}
	}
	t.Logf("%d cases, %d questions", len(lines), questions)
}

// TestLibraryAlone keeps the reason why lines are rewritten: questions that
// go-gitignore answers wrongly when it is handed the file as it is.
func TestLibraryAlone(t *testing.T) {
	tests := []struct {
		text, path string
		want       bool // git's answer
	}{
		{"fo?", "foo", true},                   // "?" is escaped
		{"lib.c++", "lib.c++", true},           // "+" is left a repetition
		{"copy (1).txt", "copy (1).txt", true}, // "(" is left a group
		{"foo(", "foo(", true},                 // does not compile, is dropped
		{"foo/bar", "a/foo/bar", false},        // not anchored
		{"foo/**", "foo", false},               // matches the directory itself
		{"**/**/foo", "foo", true},             // misses the top level
		{"[!f]oo", "foo", false},               // "!" is a member
		{" lead", "lead", false},               // leading space is cut
		{"trail\\ ", "trail ", true},           // escaped trailing space is cut
		{"a#$~b", "ab", false},                 // "#$~" is its own mark for "*"
		{"\xef\xbb\xbffoo", "foo", true},       // byte order mark is kept
		{"/", "foo", false},                    // matches everything
		{"a?b", "a\xe9b", true},                // runes, not bytes
	}
	for _, tt := range tests {
		alone := gitignore.CompileIgnoreLines(strings.Split(tt.text, "\n")...)
		if alone.MatchesPath(tt.path) == tt.want {
			t.Errorf("the library alone is right on %q under %q", tt.path, tt.text)
		}
		rules := Root(Options{}).WithFiles([]byte(tt.text), nil)
		dir, name := path.Split(tt.path)
		if dir != "" {
			rules = rules.Sub(path.Clean(dir))
		}
		if got := rules.Match(name, false); got != tt.want {
			t.Errorf("Match(%q) under %q = %v, want %v", tt.path, tt.text, got, tt.want)
		}
	}
}

func TestBooignoreDecidesFirst(t *testing.T) {
	root := Root(Options{Info: []byte("*.log\n"), Defaults: []byte("node_modules/\n*.tmp\n")}).
		WithFiles([]byte(".env\n!keep.tmp\nsecret\n"), []byte("!.env\n*.big\n"))
	sub := root.Sub("sub").WithFiles([]byte("!secret\n!*.big\n"), []byte("secret\n!a.log\n"))
	tests := []struct {
		what  string
		rules *Rules
		name  string
		dir   bool
		want  bool
	}{
		{"info/exclude", root, "a.log", false, true},
		{"default", root, "node_modules", true, true},
		{"default for directories only", root, "node_modules", false, false},
		{"default", root, "a.tmp", false, true},
		{".gitignore above default", root, "keep.tmp", false, false},
		{".booignore re-includes", root, ".env", false, false},
		{".booignore re-includes below", sub, ".env", false, false},
		{".booignore above a deeper .gitignore", sub, "a.big", false, true},
		{"deeper .booignore above all", sub, "secret", false, true},
		{"deeper .booignore re-includes", sub, "a.log", false, false},
		{"git where no .booignore has a say", sub, "b.log", false, true},
		{"git where no .booignore has a say", root, "secret", false, true},
	}
	for _, tt := range tests {
		if got := tt.rules.Match(tt.name, tt.dir); got != tt.want {
			t.Errorf("%s: Match(%q, dir=%v) = %v, want %v", tt.what, tt.name, tt.dir, got, tt.want)
		}
	}
}

func TestLevelsAboveEachOther(t *testing.T) {
	o := Options{Defaults: []byte("a\nb\nc\n"), Excludes: []byte("!a\nx\ny\n"), Info: []byte("!b\n!x\nz\n")}
	r := Root(o).WithFiles([]byte("!z\n"), nil)
	for name, want := range map[string]bool{"a": false, "b": false, "c": true, "x": false, "y": true, "z": false} {
		if got := r.Match(name, false); got != want {
			t.Errorf("Match(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestIDNamesThePatternsInForce(t *testing.T) {
	root := Root(Options{})
	x := []byte("/x\n")
	seen := map[[16]byte]string{}
	for what, r := range map[string]*Rules{
		"nothing":               root,
		"case":                  Root(Options{IgnoreCase: true}),
		"excludes":              Root(Options{Excludes: x}),
		"info":                  Root(Options{Info: x}),
		"defaults":              Root(Options{Defaults: x}),
		"root .gitignore":       root.WithFiles(x, nil),
		"root .booignore":       root.WithFiles(nil, x),
		"both":                  root.WithFiles(x, x),
		"sub .gitignore":        root.Sub("a").WithFiles(x, nil),
		"root and sub":          root.WithFiles(x, nil).Sub("a").WithFiles(x, nil),
		"deeper .gitignore":     root.Sub("a").Sub("b").WithFiles(x, nil),
		"root, other content":   root.WithFiles([]byte("/y\n"), nil),
		"root, one file in two": root.WithFiles([]byte("/"), []byte("x\n")),
	} {
		if other, ok := seen[r.ID()]; ok {
			t.Errorf("%q and %q have the same ID", what, other)
		}
		seen[r.ID()] = what
	}
	r := root.WithFiles(x, nil)
	if r.Sub("a").WithFiles(nil, []byte{}).ID() != r.ID() {
		t.Error("a subdirectory without pattern files has an ID of its own")
	}
	if root.WithFiles([]byte("/x\n"), nil).ID() != r.ID() {
		t.Error("equal content has two IDs")
	}
}

func TestWildmatch(t *testing.T) {
	tests := []struct {
		pattern, path string
		fold, want    bool
	}{
		{"/home/*/src/**", "/home/u/src/x/.git", false, true},
		{"/home/*/src/**", "home/u/src/x", false, false},
		{"**/x/**", "/home/x/.git", false, true},
		{"**/x/**", "/home/X/.git", false, false},
		{"**/x/**", "/home/X/.git", true, true},
		{"/A/.git", "/a/.git", true, true},
		{"/a/.git", "/a/.git", false, true},
		{"/a/.git", "/a/.gi", false, false},
		{"[", "[", false, false},
		{"[h]ome", "/home", false, false}, // the library allows for a slash in front
		{"", "", false, true},
	}
	for _, tt := range tests {
		if got := Wildmatch(tt.pattern, tt.path, tt.fold); got != tt.want {
			t.Errorf("Wildmatch(%q, %q, fold=%v) = %v, want %v", tt.pattern, tt.path, tt.fold, got, tt.want)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	r := Root(Options{}).WithFiles([]byte("*.[oa]\n!keep.o\n/x/**/y\n"), nil).Sub("x").Sub("z")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if !r.Match("a.o", false) || r.Match("keep.o", false) || !r.Match("y", false) {
				t.Error("wrong answer while others ask")
			}
		})
	}
	wg.Wait()
}

// What the library compiles, and what is matched without it since there are too many patterns, are
// the same. A repository with very many takes no more memory for that.
func TestBeyondTheLibrary(t *testing.T) {
	defer func(old int64) { maxCompiled = old }(maxCompiled)
	r := rand.New(rand.NewPCG(1, 2))
	text := func(of string, n int) string {
		var b strings.Builder
		for range r.IntN(n) {
			b.WriteByte(of[r.IntN(len(of))])
		}
		return b.String()
	}
	matched := 0
	for range 20_000 {
		pattern, path := text(`aab/**?[]!\`, 10), text("aab/", 8)
		tokens, ok := tokenize([]byte(pattern), 0, false)
		if !ok {
			continue
		}
		var got [2]bool
		for i, limit := range []int64{0, math.MaxInt64} {
			maxCompiled = limit
			g := newGlob(tokens)
			got[i] = !g.literal && g.match([]byte(path))
			if g.library != nil && limit == 0 {
				t.Fatalf("%q was compiled", pattern)
			}
		}
		if got[0] != got[1] {
			t.Fatalf("%q matches %q: %t, and with the library %t", pattern, path, got[0], got[1])
		}
		if got[0] {
			matched++
		}
	}
	if matched < 300 {
		t.Errorf("%d matches", matched)
	}
}
