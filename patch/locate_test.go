package patch

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestReplace has a row for each rule of the ladder, of the spans and of what is
// written.
func TestReplace(t *testing.T) {
	block := "func f() {\n\tx := 1\n\ty := 2\n\treturn x + y\n}\n"
	long := strings.Repeat("word ", 200)
	for name, c := range map[string]struct {
		content, old, new string
		opts              Options
		kind              Kind
		stage             Stage
		reason            string
		want              string // content afterwards
	}{
		// exact
		"exact": {content: "a b c", old: "b", new: "x", kind: IsExact, stage: Exact,
			want: "a x c"},
		"exact twice": {content: "a b a", old: "a", new: "x", kind: IsAmbiguous, stage: Exact,
			reason: reasonSeveral},
		"exact overlapping itself": {content: "aaa", old: "aa", new: "x", kind: IsAmbiguous, stage: Exact,
			reason: reasonSeveral},
		"expected two": {content: "a b a", old: "a", new: "aa", opts: Options{Replacements: 2},
			kind: IsExact, stage: Exact, want: "aa b aa"},
		"expected three, there are two": {content: "a b a", old: "a", new: "x", opts: Options{Replacements: 3},
			kind: IsAmbiguous, stage: Exact, reason: reasonCount},
		"all": {content: "a b a", old: "a", new: "x", opts: Options{Replacements: replaceAll},
			kind: IsExact, stage: Exact, want: "x b x"},
		"all, not rescanned": {content: "aaaa", old: "aa", new: "a", opts: Options{Replacements: replaceAll},
			kind: IsExact, stage: Exact, want: "aa"},
		"several are never fuzzy": {content: "  a\n", old: "a \n", new: "x", opts: Options{Replacements: 2},
			kind: IsInvalid, reason: reasonFuzzyOne},
		"several, exact only, none": {content: "b", old: "a", new: "x",
			opts: Options{Replacements: 2, ExactOnly: true}, kind: IsNotFound, reason: reasonNone},
		"negative count": {content: "a", old: "a", new: "x", opts: Options{Replacements: -2},
			kind: IsInvalid, reason: reasonOptions},
		"empty old":         {content: "a", old: "", new: "x", kind: IsInvalid, reason: reasonEmpty},
		"no change":         {content: "a", old: "a", new: "a", kind: IsInvalid, reason: reasonNoChange},
		"a rune is not cut": {content: "é", old: "\xa9", new: "x", kind: IsNotFound, reason: reasonNone},
		"CRLF is not cut": {content: "a\r\nb", old: "\nb", new: "\nc", kind: IsExact, stage: Exact,
			want: "a\r\nc"},
		"dollar signs are text": {content: "a", old: "a", new: "$1 $& \\1", kind: IsExact, stage: Exact,
			want: "$1 $& \\1"},
		"exact keeps its indentation": {content: "  a\n", old: "  a\n", new: "b\n",
			opts: Options{Reindent: ReindentAuto}, kind: IsExact, stage: Exact, want: "b\n"},
		"needle longer than the file": {content: "a\nb\n", old: "a\nb\nc\n", new: "x", kind: IsNotFound,
			reason: reasonNone},
		"needle begins with all of it": {content: "a\nb", old: "a\nb\nc\nd", new: "x", kind: IsNotFound,
			reason: reasonNone},
		"empty file": {content: "", old: "a", new: "b", kind: IsNotFound, reason: reasonNone},
		"BOM stays": {content: "\ufeffa\nb\n", old: "a \n", new: "c\n", kind: IsFuzzy,
			stage: Whitespace, want: "\ufeffc\nb\n"},
		"already applied": {content: "x\nnew line\n", old: "old line", new: "new line", kind: IsNotFound,
			reason: reasonApplied},
		"fuzzy off": {content: " a\n", old: "a ", new: "b", opts: Options{ExactOnly: true},
			kind: IsNotFound, reason: reasonNone},
		"stage left out": {content: "\ta x\n", old: "  a x\n", new: "b",
			opts: Options{Stages: []Stage{Exact, BlockAnchor}}, kind: IsNotFound, reason: reasonNone},
		"unknown stage": {content: "a", old: "a", new: "b", opts: Options{Stages: []Stage{"magic"}},
			kind: IsInvalid, reason: reasonOptions},
		"line hint chooses": {content: "a\nb\na\n", old: "a", new: "x", opts: Options{LineHint: 3},
			kind: IsExact, stage: Exact, want: "a\nb\nx\n"},
		"line hint between two": {content: "a\nb\na\n", old: "a", new: "x", opts: Options{LineHint: 2},
			kind: IsAmbiguous, stage: Exact, reason: reasonSeveral},
		"line hint too far": {content: "a\nb\na\n", old: "a", new: "x", opts: Options{LineHint: 500},
			kind: IsAmbiguous, stage: Exact, reason: reasonSeveral},

		// line ends
		"LF for CRLF": {content: "a\r\nb\r\nc\r\n", old: "a\nb\n", new: "x\ny\n", kind: IsExact,
			stage: Exact, want: "x\r\ny\r\nc\r\n"},
		"CRLF for LF": {content: "a\nb\nc\n", old: "a\r\nb\r\n", new: "x\r\ny\r\n", kind: IsExact,
			stage: Exact, want: "x\ny\nc\n"},
		"line ends of the file": {content: "a\r\nb\r\n", old: "a", new: "x\ny", kind: IsExact, stage: Exact,
			want: "x\r\ny\r\nb\r\n"},
		"mixed stays mixed": {content: "a\r\nb\nc\r\nd\n", old: "c \r\n", new: "x\n", kind: IsFuzzy,
			stage: Whitespace, want: "a\r\nb\nx\r\nd\n"},
		"line ends of the span": {content: "a\r\nb\r\nc\nd\ne\nf\n", old: "a \nb", new: "x\ny", kind: IsFuzzy,
			stage: Whitespace, want: "x\r\ny\r\nc\nd\ne\nf\n"},
		"line ends are the change": {content: "a\r\nb\r\n", old: "a\r\n", new: "a\n", kind: IsExact, stage: Exact,
			want: "a\nb\r\n"},
		"lone CR is text": {content: "a\rb\nc\n", old: "a\rb \n", new: "x\n", kind: IsFuzzy,
			stage: Whitespace, want: "x\nc\n"},
		"no final newline is added": {content: "a\nb", old: "b ", new: "c", kind: IsFuzzy, stage: Whitespace,
			want: "a\nc"},

		// whitespace
		"blanks at the end": {content: "a  \nb\t\n", old: "a\nb\n", new: "c\n", kind: IsFuzzy,
			stage: Whitespace, want: "c\n"},
		"at the end before both": {content: "\ta \n  a\n", old: "  a \n", new: "x\n", kind: IsFuzzy,
			stage: Whitespace, want: "\ta \nx\n"},
		"indentation": {content: "\tif x {\n\t\ty()\n\t}\n", old: "if x {\n  y()\n}\n", new: "z()\n",
			kind: IsFuzzy, stage: Whitespace, want: "z()\n"},
		"two by whitespace": {content: " a\n\ta\n", old: "a \n", new: "x\n", kind: IsAmbiguous,
			stage: Whitespace, reason: reasonSeveral},
		"blank lines around": {content: "x\n\tfoo\ny\n", old: "\n\nfoo\n\n", new: "\n\nbar\n\n", kind: IsFuzzy,
			stage: Whitespace, want: "x\nbar\ny\n"},
		"blank needle": {content: "a\n\n \nb\n", old: " \t\n", new: "x", kind: IsNotFound,
			reason: reasonBlank},
		"final newline of old only": {content: " a\nb\n", old: "a \n", new: "x", kind: IsFuzzy, stage: Whitespace,
			want: "x\nb\n"},
		"final newline of new only": {content: " a\nb\n", old: "a ", new: "x\n", kind: IsFuzzy, stage: Whitespace,
			want: "x\n\nb\n"},
		"lines are deleted": {content: "a\n  b\nc\n", old: "b \n", new: "", kind: IsFuzzy, stage: Whitespace,
			want: "a\nc\n"},
		"invalid UTF-8": {content: "\xff\xfe x\n", old: "\xff\xfe x \n", new: "y\n", kind: IsFuzzy,
			stage: Whitespace, want: "y\n"},

		// unicode
		"quotes": {content: "say “hi”\n", old: "say \"hi\"\n", new: "say 'ho'\n", kind: IsFuzzy,
			stage: Unicode, want: "say 'ho'\n"},
		"dash and nbsp": {content: "a – b\n", old: "a\u00a0-\u00a0b\n", new: "x\n", kind: IsFuzzy, stage: Unicode,
			want: "x\n"},
		"low quotes": {content: "‚a‛ „b‟ «c»\n", old: "'a' \"b\" \"c\"\n", new: "x\n", kind: IsFuzzy,
			stage: Unicode, want: "x\n"},
		"no ligatures": {content: "ﬁle ½\n", old: "file 1/2\n", new: "x\n",
			opts: Options{Stages: []Stage{Unicode}}, kind: IsNotFound, reason: reasonNone},
		"within a line": {content: "print(“hello there”, x)\n", old: "\"hello there\"", new: "\"bye\"",
			kind: IsFuzzy, stage: Unicode, want: "print(\"bye\", x)\n"},
		"within, too short": {content: "print(“hi”)\n", old: "\"hi\"", new: "x",
			opts: Options{Stages: []Stage{Unicode}}, kind: IsNotFound, reason: reasonNone},
		"within, off": {content: "print(“hello there”)\n", old: "\"hello there\"", new: "x",
			opts: Options{Stages: []Stage{Unicode}, WholeLines: true}, kind: IsNotFound, reason: reasonNone},
		"within, twice": {content: "“hello there” “hello there”\n", old: "\"hello there\"", new: "x",
			kind: IsAmbiguous, stage: Unicode, reason: reasonSeveral},

		// block anchor
		"anchors": {content: "a\n" + block,
			old: "func f() {\n\tx := 1\n\ty := 22\n\treturn x+y\n}\n", new: "gone\n", kind: IsFuzzy, stage: BlockAnchor,
			want: "a\ngone\n"},
		"anchors of one line too many": {content: "begin\nfirst line\nsecond line\nthird line\nend\n",
			old: "begin\nfirst line\nsecond line\nend\n", new: "x\n", kind: IsFuzzy, stage: BlockAnchor, want: "x\n"},
		"two lines are no block": {content: "begin\nxxxxxxxxxxxxxxxxxxxxxxxxxxxx\nend\n", old: "begin\nend\n",
			new: "x", kind: IsNotFound, reason: reasonNone},
		"anchors the same": {content: "x\naaaa\nbbbb\ncccc\nx\n", old: "x\nddd\neee\nfff\nx\n", new: "y",
			kind: IsNotFound, reason: reasonNone},
		"equal blocks": {content: "b\nxxxx1\ne\nb\nxxxx2\ne\n", old: "b\nxxxx3\ne\n", new: "y",
			kind: IsAmbiguous, stage: BlockAnchor, reason: reasonSeveral},
		"better block": {content: "b\nxxxxxx12\ne\nb\nxxxxxx32\ne\n", old: "b\nxxxxxx33\ne\n",
			new: "y\n", kind: IsFuzzy, stage: BlockAnchor, want: "b\nxxxxxx12\ne\ny\n"},
		"near tie": {content: "b\nxxxxxx12\ne\nb\nxxxxxx32\ne\n", old: "b\nxxxxxx33\ne\n",
			new: "y\n", opts: Options{TieMargin: 0.2}, kind: IsAmbiguous, stage: BlockAnchor, reason: reasonSeveral},
		"beginnings do not count": {content: "b\nsame\n1111111\n2222222\ne\n", old: "b\nsame\ne\n", new: "y\n",
			opts: Options{Stages: []Stage{BlockAnchor}}, kind: IsNotFound, reason: reasonNone},
		"floor": {content: "a\n" + block,
			old: "func f() {\n\tx := 1\n\tz := 35\n\treturn x+z\n}\n", new: "gone\n",
			opts: Options{MinSimilarity: 0.92}, kind: IsNotFound, reason: reasonNone},
		"characters, not bytes": {content: "b\nééééé\ne\n", old: "b\nééééx\ne\n", new: "y\n",
			opts: Options{Stages: []Stage{BlockAnchor}, AnchorMin: 0.79}, kind: IsFuzzy, stage: BlockAnchor,
			want: "y\n"},

		// Levenshtein
		"similar": {content: "a\nthe quick brown fox\nb\n", old: "the quikc brown fix\n", new: "x\n",
			kind: IsFuzzy, stage: Levenshtein, want: "a\nx\nb\n"},
		"exactly 0.66": {content: strings.Repeat("a", 33) + strings.Repeat("b", 17),
			old: strings.Repeat("a", 33) + strings.Repeat("c", 17), new: "x", kind: IsFuzzy, stage: Levenshtein,
			want: "x"},
		"just below": {content: strings.Repeat("a", 32) + strings.Repeat("b", 18),
			old: strings.Repeat("a", 32) + strings.Repeat("c", 18), new: "x", kind: IsNotFound, reason: reasonNone},
		"last of equals": {content: "abcdefgh1\nabcdefgh2\n", old: "abcdefgh3\n", new: "x", kind: IsAmbiguous,
			stage: Levenshtein, reason: reasonSeveral},
		"the best, not first": {content: "abcdefxx\nabcdefgx\n", old: "abcdefgh\n", new: "x\n", kind: IsFuzzy,
			stage: Levenshtein, want: "abcdefxx\nx\n"},
		"too short": {content: "abcde\n", old: "abcdx\n", new: "x\n", opts: Options{MinChars: 10},
			kind: IsNotFound, reason: reasonShort},
		"threshold is obeyed": {content: "abcdefghij\n", old: "abcdefghxx\n", new: "x\n",
			opts: Options{LevenshteinMin: 0.9}, kind: IsNotFound, reason: reasonNone},

		// guards
		"far longer": {content: "begin\nx" + long + "\nend\n", old: "begin\nx\nend\n", new: "y",
			opts: Options{Stages: []Stage{BlockAnchor}, AnchorMin: 0.0001}, kind: IsNotFound, reason: reasonDisparate},
		"elision": {content: "begin of it all\nfoo bar\nthe end of it all\n",
			old: "begin of it all\n// ... existing code ...\nthe end of it all!\n", new: "x", kind: IsNotFound,
			reason: reasonElision},
		"elision kept": {content: "begin of it all\n// ... existing code ...\nthe end of it all\n",
			old: "begin of it all\n// ... existing code ...\nthe end of it all!\n",
			new: "x\n// ... existing code ...\n", kind: IsFuzzy, stage: Levenshtein,
			want: "x\n// ... existing code ...\n"},
		"elision for lines": {content: "begin of it all\nfoo()\nthe end of it all\n",
			old: "begin of it all\n// ... existing code ...\nthe end of it all\n", new: "x\n// ... existing code ...\n",
			opts: Options{AnchorMin: 0.0001}, kind: IsNotFound, reason: reasonElision},
		"anchors tie however summed": {content: "BEGIN\nXaaaaaaaaa\nXXbbbbbbbb\nXXXccccccc\nEND\nBEGIN\nXXXaaaaaaa\n" +
			"XXbbbbbbbb\nXccccccccc\nEND\n", old: "BEGIN\naaaaaaaaaa\nbbbbbbbbbb\ncccccccccc\nEND\n", new: "x",
			kind: IsAmbiguous, stage: BlockAnchor, reason: reasonSeveral},
		"hint far down": {content: strings.Repeat("x\n", 3000), old: "x\n", new: "y\n",
			opts: Options{LineHint: 2500}, kind: IsExact, stage: Exact,
			want: strings.Repeat("x\n", 2499) + "y\n" + strings.Repeat("x\n", 500)},
		"merge of a longer block": {content: "x\nA line\nB line\nC line\nD line\n",
			old: "A line\nB line\nC line\nD line\ne line\n", new: "A line\nB line\nNEW\nC line\nD line\ne line\n",
			opts: Options{Merge: true}, kind: IsFuzzy, want: "x\nA line\nB line\nNEW\nC line\nD line\n"},
		"spread is no elision": {content: "f(...args, another)\n", old: "f(...args, anothr)\n", new: "x\n",
			kind: IsFuzzy, stage: Levenshtein, want: "x\n"},
		"marks in new": {content: "the quick brown fox\n", old: "the quick brown fix\n",
			new: "a\n=======\nb\n", kind: IsInvalid, reason: reasonMarkers, stage: Levenshtein},
		"numbers in new": {content: "the quick brown fox\n", old: "the quick brown fix\n",
			new: "12\ta\n13\tb\n", kind: IsInvalid, reason: reasonMarkers, stage: Levenshtein},
		"budget": {content: strings.Repeat("some line of code\n", 2000), old: "some line of kode\n",
			new: "x\n", opts: Options{Budget: 1000}, kind: IsNotFound, reason: reasonBudget},

		// indentation
		"reindent adds": {content: "\t\tif x {\n\t\t\ty()\n\t\t}\n", old: "if x {\n\ty()\n}\n",
			new: "if z {\n\tw()\n\n}\n", opts: Options{Reindent: ReindentAuto}, kind: IsFuzzy, stage: Whitespace,
			want: "\t\tif z {\n\t\t\tw()\n\n\t\t}\n"},
		"reindent takes away": {content: "a\n  b\n", old: "  a\n    b\n", new: "  c\n",
			opts: Options{Reindent: ReindentAuto}, kind: IsFuzzy, stage: Whitespace, want: "c\n"},
		"reindent first only": {content: "    a(\n        b,\n", old: "a(\n        b, \n", new: "x(\n        y,\n",
			opts: Options{Reindent: ReindentAuto}, kind: IsFuzzy, stage: Whitespace, want: "    x(\n        y,\n"},
		"reindent tabs": {content: "def f():\n    if x:\n        y()\n", old: "def f():\n\tif x:\n\t\ty()\n",
			new: "def f():\n\tif x:\n\t\tz()\n", opts: Options{Reindent: ReindentAuto}, kind: IsFuzzy,
			stage: Whitespace, want: "def f():\n    if x:\n        z()\n"},
		"reindent unsure": {content: " a\n     b\n  c\n", old: "a\nb\nc\n", new: "x\n",
			opts: Options{Reindent: ReindentAuto}, kind: IsFuzzy, stage: Whitespace, want: "x\n"},
		"reindent refused": {content: " a\n     b\n  c\n", old: "a\nb\nc\n", new: "x\n",
			opts: Options{Reindent: ReindentAuto, RefuseUnsureIndent: true}, kind: IsNotFound, reason: reasonIndent,
			stage: Whitespace},
		"reindent one by one": {content: "a\n     b\n       c\n", old: "a\n b\n  c\n", new: "a\n b\n  c\n b\n",
			opts: Options{Reindent: ReindentAuto}, kind: IsFuzzy, stage: Whitespace,
			want: "a\n     b\n       c\n     b\n"},
		"reindented already": {content: "\ta  b\n\tc\n", old: "a  b\nc\n", new: "\ta\n\tc\n",
			opts: Options{Reindent: ReindentAuto, RefuseUnsureIndent: true}, kind: IsNotFound, reason: reasonIndent,
			stage: Whitespace},
		"reindent in a merge": {content: "  a\n     b\n c\n", old: "a\nb\nc\n", new: "a\nB\nc\n",
			opts: Options{Reindent: ReindentAuto, RefuseUnsureIndent: true, Merge: true}, kind: IsFuzzy,
			stage: Whitespace, want: "  a\n     B\n c\n"},
		"merge of blanks": {content: "if z:\n    if a:\n    b()\n", old: "if a:\nb()\n", new: "if a:\n    b()\n",
			opts: Options{Reindent: ReindentAuto, Merge: true}, kind: IsFuzzy, stage: Whitespace,
			want: "if z:\n    if a:\n        b()\n"},
		"merge, done already": {content: "if a:\n    b()\n", old: "if a:\nb()\n", new: "if a:\n    b()\n",
			opts: Options{Merge: true}, kind: IsNotFound, stage: Whitespace, reason: reasonApplied},
		"merge of quotes": {content: "f(\"long enough\", 'x')\n",
			old: "f(\u201clong enough\u201d, \u2018x\u2019)\n", new: "g(\u201cit\u2019s\u201d)\n",
			opts: Options{Merge: true}, kind: IsFuzzy, stage: Unicode, want: "g(\"it's\")\n"},
		"merge keeps quotes": {content: "f(\u201clong\u201d, \"enough\")\n",
			old: "f(\u201clong\u201d, \u201cenough\u201d)\n", new: "g(\u201cx\u201d)\n", opts: Options{Merge: true},
			kind: IsFuzzy, stage: Unicode, want: "g(\u201cx\u201d)\n"},
		"merge keeps line ends": {content: "\ta\r\n\tb\n\tc\r\n", old: "a\nb\nc\n", new: "a\nB\nC\n",
			opts: Options{Merge: true, Reindent: ReindentAuto}, kind: IsFuzzy, stage: Whitespace,
			want: "\ta\r\n\tB\n\tC\r\n"},
		"line ends, one by one": {content: "a\r\nb\nc\r\nd\n", old: "a\nb\nc\nd\n", new: "A\nb\nnew\nd\n",
			kind: IsExact, stage: Exact, want: "A\r\nb\nnew\r\nd\n"},

		// slips
		"diff marks": {content: "  a b c d e f\n", old: "-  a b c d e f\n", new: "+  x\n", kind: IsNotFound,
			reason: reasonDiffMarks, stage: Levenshtein},
		"diff marks, exact": {content: "  a\n", old: "-  a\n", new: "+  x\n", opts: Options{ExactOnly: true},
			kind: IsNotFound, reason: reasonNone},
		"diff marks, named": {content: "  abcdef\n", old: "-  abcdef\n", new: "+  x\n",
			opts: Options{ExactOnly: true}, kind: IsNotFound, reason: reasonDiffMarks},
		"diff marks in new": {content: "  a\n", old: "  a\n", new: "+  b\n", kind: IsNotFound,
			reason: reasonDiffMarks, stage: Exact},
		"a diff of old in new": {content: "a\nb\n", old: "a\nb\n", new: " a\n-b\n+c\n", kind: IsNotFound,
			reason: reasonDiffMarks, stage: Exact},
		"a diff of old in new, the rest without marks": {content: "x = 1\ny = 2\n", old: "x = 1\ny = 2\n",
			new: "-x = 1\n+x = 3\ny = 2\n", kind: IsNotFound, reason: reasonDiffMarks, stage: Exact},
		"a sign before one": {content: "x\ny\n", old: "x\ny\n", new: "-x\ny\n", kind: IsExact, stage: Exact,
			want: "-x\ny\n"},
		"an operator between": {content: "x\ny\n", old: "x\ny\n", new: "x\n+ z\ny\n", kind: IsExact, stage: Exact,
			want: "x\n+ z\ny\n"},
		"signs of other lines": {content: "x\ny\n", old: "x\ny\n", new: "-z\n+x\ny\n", kind: IsExact, stage: Exact,
			want: "-z\n+x\ny\n"},
		"a dedented list": {content: "\t- a  b\n\t- c\n", old: "- a  b\n- c\n", new: "- d\n",
			opts: Options{Merge: true, Reindent: ReindentAuto}, kind: IsFuzzy, stage: Whitespace, want: "\t- d\n"},
		"a sign": {content: "-1\n", old: "-1\n", new: "+1\n", kind: IsExact, stage: Exact, want: "+1\n"},
		"a list": {content: "a\nb\n", old: "a\nb\n", new: "- a\n- b\n", kind: IsExact, stage: Exact,
			want: "- a\n- b\n"},
		"an operator": {content: "a\nb\n", old: "b", new: "+ b", kind: IsExact, stage: Exact,
			want: "a\n+ b\n"},
		"escapes":         {content: "x\nreturn \"some text here\"\n", old: `return \"some text here\"`, new: `return \"x\"`, kind: IsNotFound, reason: reasonEscaped, stage: Levenshtein},
		"escapes that go": {content: "x\nreturn \"some text here\"\n", old: `return \"some text here\"`, new: "return x", kind: IsFuzzy, stage: Levenshtein, want: "x\nreturn x\n"},
		"shifted": {content: "if a {\n\n\tfirst\n}\nlast one\n", old: "if a {\n\tfirst\n}\nlast one\n",
			new: "x\n", opts: Options{Stages: []Stage{Levenshtein}}, kind: IsNotFound, reason: reasonShifted,
			stage: Levenshtein},
		"merge keeps the drift": {content: "x := 1\ny := 2\nz := 3\n", old: "x := 1\ny := 99\nz := 3\n",
			new: "x := 7\ny := 99\nz := 3\n", opts: Options{Merge: true}, kind: IsFuzzy,
			want: "x := 7\ny := 2\nz := 3\n"},
		"merge of both changed": {content: "x := 1\ny := 2\nz := 3\n", old: "x := 1\ny := 99\nz := 3\n",
			new: "x := 1\ny := 100\nz := 3\n", opts: Options{Merge: true}, kind: IsNotFound, reason: reasonBothChanged},
	} {
		t.Run(name, func(t *testing.T) {
			r := Replace([]byte(c.content), []byte(c.old), []byte(c.new), &c.opts)
			if r.Kind != c.kind || c.stage != "" && r.Stage != c.stage || r.Reason != c.reason ||
				string(r.Content) != c.want {
				t.Errorf("%s %s %s %q, want %s %s %s %q (%+v)", r.Kind, r.Stage, r.Reason, r.Content, c.kind, c.stage,
					c.reason, c.want, r)
			}
			if r.Found() != (r.Content != nil) {
				t.Errorf("%s, and content %q", r.Kind, r.Content)
			}
			if !r.Found() && r.Explain() == "" {
				t.Error("no explanation")
			}
		})
	}
}

// A refusal names the nearest places and the first line that differs.
func TestNear(t *testing.T) {
	content := "a\nfunc f() {\n\tcount := 1\n\tname := \"x\"\n\treturn count\n}\nb\n"
	old := "func f() {\n\tcounter := aVeryDifferentCallToSomething(42)\n\twhatever := thisIsNotThere(1, 2, 3)\n" +
		"\tnothing := likeIt()\n\treturn count\n"
	m := Locate([]byte(content), []byte(old), nil)
	if m.Kind != IsNotFound || len(m.Near) == 0 || m.Near[0].StartLine != 2 || m.Near[0].Line != 3 ||
		m.Near[0].Got != "\tcount := 1" {
		t.Errorf("%+v", m)
	}
	if text := m.Explain(); !strings.Contains(text, "nearest: lines 2-6, 32% similar") ||
		!strings.Contains(text, "there: \u2192count\u00b7:=\u00b71") {
		t.Errorf("Explain: %s", text)
	}
}

// FuzzReplace holds replacements against what is always so.
func FuzzReplace(f *testing.F) {
	f.Add([]byte("a\r\nb\n"), []byte("a\n"), []byte("c\n"), true)
	f.Add([]byte("\ufeff\xff\x00\r"), []byte("\xff \n"), []byte(""), false)
	f.Add([]byte("x\n\ty\n}\n"), []byte("x\n  y\n}\n"), []byte("z\n"), true)
	f.Fuzz(func(t *testing.T, content, old, new []byte, options bool) {
		opts := &Options{Budget: 1e6}
		if options {
			opts.Reindent, opts.Merge = ReindentAuto, true
		}
		r := Replace(content, old, new, opts)
		if !r.Found() {
			if r.Content != nil || r.Reason == "" {
				t.Errorf("%+v", r)
			}
		} else {
			for _, p := range r.spans() {
				if p.Start > p.End || p.End > len(content) || cuts(content, p.Start) || cuts(content, p.End) {
					t.Errorf("span %v of %q", p, content)
				}
			}
			end := r.End + lineEndAt(content, r.End)
			if !bytes.HasPrefix(r.Content, content[:r.Start]) || !bytes.HasSuffix(r.Content, content[end:]) {
				t.Errorf("bytes outside of %d-%d changed: %q to %q", r.Start, r.End, content, r.Content)
			}
		}
		// What is there once, as it is, is found where it is.
		if n := bytes.Index(content, old); len(old) > 0 && n >= 0 && !bytes.Contains(content[n+1:], old) &&
			!cuts(content, n) && !cuts(content, n+len(old)) {
			if m := Locate(content, old, opts); m.Kind != IsExact || m.Start != n || m.End != n+len(old) {
				t.Errorf("Locate(%q, %q) = %+v, want %d", content, old, m, n)
			}
		}
		// What is there twice is not found.
		if len(old) > 0 && utf8.Valid(old) && !bytes.ContainsAny(old, "\r\n") {
			twice := slices.Concat(content, lf, old, lf, old, lf)
			if m := Locate(twice, old, opts); m.Found() {
				t.Errorf("Locate(%q, %q) = %+v", twice, old, m)
			}
		}
	})
}

// index agrees with bytes.Index, also where the piece that it looks for misleads.
func TestIndex(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 3000 {
		old := bytes.Repeat([]byte("abcdefg "), 8+rng.IntN(8))
		old[rng.IntN(len(old))] = '!'
		var content []byte
		for range rng.IntN(30) {
			part := bytes.Clone(old)
			if rng.IntN(10) > 0 {
				part[rng.IntN(len(part))] = '?'
			}
			content = append(content, part[rng.IntN(len(part)/8):]...)
		}
		if got, want := index(content, old), bytes.Index(content, old); got != want {
			t.Fatalf("index(%q, %q) = %d, want %d", content, old, got, want)
		}
	}
}
