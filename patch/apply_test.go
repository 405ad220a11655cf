package patch

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/nearmiss"
	"github.com/boocode/filestore/internal/textdiff"
)

// applied applies a patch to files and returns what they are then.
func applied(p *Patch, files map[string]string, opts *ApplyOptions) (map[string]string, []*HunkError) {
	results, errs := p.Apply(func(path string) ([]byte, error) {
		content, ok := files[path]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return []byte(content), nil
	}, opts)
	after := make(map[string]string)
	maps.Copy(after, files)
	for _, r := range results {
		if delete(after, r.Path); r.Op == Delete {
			continue
		}
	}
	for _, r := range results {
		if r.Op != Delete {
			to := r.To
			if to == "" {
				to = r.Path
			}
			after[to] = string(r.Content)
		}
	}
	return after, errs
}

func TestApply(t *testing.T) {
	five := "1\n2\n3\n4\n5\n"
	for name, c := range map[string]struct {
		format Format
		input  string
		path   string
		opts   ApplyOptions
		before map[string]string
		want   map[string]string
		errs   []string // instead, by hunk
		bad    string   // the patch itself is refused
	}{
		"block":               {format: SearchReplace, input: "a.go\n```go\n<<<<<<< SEARCH\n2\n3\n=======\ntwo\n>>>>>>> REPLACE\n```\n", before: map[string]string{"a.go": five}, want: map[string]string{"a.go": "1\ntwo\n4\n5\n"}},
		"block, fence before": {format: SearchReplace, input: "```\na.go\n<<<<<<< SEARCH\n2\n=======\ntwo\n>>>>>>> REPLACE\n<<<<<<< SEARCH\n5\n=======\nfive\n>>>>>>> REPLACE\n```\n", before: map[string]string{"a.go": five}, want: map[string]string{"a.go": "1\ntwo\n3\n4\nfive\n"}},
		"blocks in any order": {format: SearchReplace, path: "a",
			input: "------- SEARCH\n4\n=======\nfour\n+++++++ REPLACE\n------- SEARCH\n1\n=======\none\n" +
				"+++++++ REPLACE\n", before: map[string]string{"a": five},
			want: map[string]string{"a": "one\n2\n3\nfour\n5\n"}},
		"block with a line": {format: SearchReplace, path: "a",
			input:  "<<<<<<< SEARCH\n:start_line:3\n-------\nx\n=======\ny\n>>>>>>> REPLACE\n",
			before: map[string]string{"a": "x\nb\nx\n"}, want: map[string]string{"a": "x\nb\ny\n"}},
		"block with escapes": {format: SearchReplace, path: "a",
			input:  "<<<<<<< SEARCH\n\\=======\n=======\n\\>>>>>>> REPLACE\n>>>>>>> REPLACE\n",
			before: map[string]string{"a": "x\n=======\n"}, want: map[string]string{"a": "x\n>>>>>>> REPLACE\n"}},
		"block that creates": {format: SearchReplace,
			input: "new/file\n<<<<<<< SEARCH\n=======\nhello\n>>>>>>> REPLACE\n",
			want:  map[string]string{"new/file": "hello\n"}},
		"block over a file": {format: SearchReplace, path: "a",
			input: "<<<<<<< SEARCH\n=======\nhello\n>>>>>>> REPLACE\n", before: map[string]string{"a": "x"},
			errs: []string{reasonExists}},
		"block without an end": {format: SearchReplace, path: "a", input: "<<<<<<< SEARCH\n1\n=======\n2\n",
			bad: "line 4: a block without an end"},
		"block without divider": {format: SearchReplace, path: "a", input: "<<<<<<< SEARCH\n1\n>>>>>>> REPLACE\n",
			bad: "line 3: a block without a line of ======="},
		"block within a block": {format: SearchReplace, path: "a", input: "<<<<<<< SEARCH\n1\n<<<<<<< SEARCH\n",
			bad: "line 3: a block within a block"},
		"block without path": {format: SearchReplace, input: "<<<<<<< SEARCH\n1\n=======\n>>>>>>> REPLACE\n",
			bad: "line 1: a block, and no path before it"},
		"all failures are told": {format: SearchReplace, path: "a",
			input: "<<<<<<< SEARCH\nnothing like it\n=======\nx\n>>>>>>> REPLACE\n<<<<<<< SEARCH\n1\n=======\none\n" +
				">>>>>>> REPLACE\n<<<<<<< SEARCH\nnor this one here\n=======\ny\n>>>>>>> REPLACE\n",
			before: map[string]string{"a": five}, errs: []string{reasonNone, reasonNone}},
		"blocks that overlap": {format: SearchReplace, path: "a",
			input: "<<<<<<< SEARCH\n1\n2\n=======\nx\n>>>>>>> REPLACE\n<<<<<<< SEARCH\n2\n3\n=======\ny\n" +
				">>>>>>> REPLACE\n", before: map[string]string{"a": five}, errs: []string{reasonOverlap}},
		"blocks that touch": {format: SearchReplace, path: "a",
			input:  "<<<<<<< SEARCH\n2\n=======\nx\n>>>>>>> REPLACE\n<<<<<<< SEARCH\n3\n=======\ny\n>>>>>>> REPLACE\n",
			before: map[string]string{"a": five}, want: map[string]string{"a": "1\nx\ny\n4\n5\n"}},
		"one after the other": {format: SearchReplace, path: "a", opts: ApplyOptions{Sequential: true},
			input: "<<<<<<< SEARCH\n2\n=======\nx\n>>>>>>> REPLACE\n<<<<<<< SEARCH\nx\n3\n=======\ny\n" +
				">>>>>>> REPLACE\n",
			before: map[string]string{"a": five}, want: map[string]string{"a": "1\ny\n4\n5\n"}},
		"two files, one bad": {format: SearchReplace,
			input: "a\n<<<<<<< SEARCH\n1\n=======\nx\n>>>>>>> REPLACE\nb\n<<<<<<< SEARCH\n1\n=======\nx\n" +
				">>>>>>> REPLACE\n", before: map[string]string{"a": five, "b": "zzz\n"}, errs: []string{reasonNone}},
		"an absent file": {format: SearchReplace, path: "a",
			input: "<<<<<<< SEARCH\n1\n=======\nx\n>>>>>>> REPLACE\n", errs: []string{""}},
		"nothing": {format: SearchReplace, path: "a", input: "hello\n", bad: "nothing to do"},

		"edits":          {format: EditList, input: `{"path":"a","edits":[{"oldText":"1","newText":"one"},{"old_str":"5","new_str":"five"}]}`, before: map[string]string{"a": five}, want: map[string]string{"a": "one\n2\n3\n4\nfive\n"}},
		"edits of files": {format: EditList, input: `[{"file_path":"a","old_string":"x","new_string":"y","replace_all":true},{"path":"b","old":"","new":"made"}]`, before: map[string]string{"a": "x x"}, want: map[string]string{"a": "y y", "b": "made"}},
		"edits, a count": {format: EditList, input: `[{"path":"a","old":"x","new":"y","expected_replacements":3}]`, before: map[string]string{"a": "x x"}, errs: []string{reasonCount}},
		"edits, no new":  {format: EditList, input: `[{"path":"a","old":"x"}]`, bad: "without old or new"},
		"edits, no JSON": {format: EditList, input: `[{`, bad: "edit list"},
		"edits, no text": {format: EditList, input: `[{"path":"f","old":"a","new":"\ud800"}]`, bad: "input[0].new"},
		"edits, no path": {format: EditList, input: `[{"old":"x","new":"y"}]`, bad: "without a path"},
		"unknown format": {format: "magic", bad: "want search-replace"},

		"v4a": {format: V4A,
			input:  "*** Begin Patch\n*** Update File: a\n@@\n 2\n-3\n+three\n 4\n*** End Patch\n",
			before: map[string]string{"a": five}, want: map[string]string{"a": "1\n2\nthree\n4\n5\n"}},
		"v4a of three": {format: V4A,
			input: "cat <<EOF\n*** Begin Patch\n*** Add File: n\n+hello\n+there\n*** Delete File: d\n" +
				"*** Update File: a\n*** Move to: m\n@@\n-1\n+one\n*** End Patch\nEOF\n",
			before: map[string]string{"a": five, "d": "x"},
			want:   map[string]string{"m": "one\n2\n3\n4\n5\n", "n": "hello\nthere\n"}},
		"v4a moves only": {format: V4A,
			input:  "*** Begin Patch\n*** Update File: a\n*** Move to: m\n*** End Patch\n",
			before: map[string]string{"a": five}, want: map[string]string{"m": five}},
		"v4a context": {format: V4A,
			input:  "*** Begin Patch\n*** Update File: a\n@@ class B\n@@ def f\n-x\n+y\n*** End Patch\n",
			before: map[string]string{"a": "class A\ndef f\nx\nclass B\ndef f\nx\n"},
			want:   map[string]string{"a": "class A\ndef f\nx\nclass B\ndef f\ny\n"}},
		"v4a keeps the file": {format: V4A,
			input:  "*** Begin Patch\n*** Update File: a\n@@\n if x:\n-  y()\n+  z()\n*** End Patch\n",
			before: map[string]string{"a": "\tif x:  \r\n\t\ty()\r\nend"},
			want:   map[string]string{"a": "\tif x:  \r\n  z()\r\nend"}},
		"v4a twice": {format: V4A,
			input:  "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch\n",
			before: map[string]string{"a": "x\nx\n"}, errs: []string{reasonSeveral}},
		"v4a at the end": {format: V4A,
			input:  "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End of File\n*** End Patch\n",
			before: map[string]string{"a": "x\nb\nx\n"}, want: map[string]string{"a": "x\nb\ny\n"}},
		"v4a not at the end": {format: V4A,
			input:  "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End of File\n*** End Patch\n",
			before: map[string]string{"a": "x\nb\n"}, want: map[string]string{"a": "y\nb\n"}},
		"v4a adds at the end": {format: V4A, input: "*** Begin Patch\n*** Update File: a\n@@\n+z\n*** End Patch\n",
			before: map[string]string{"a": "x\ny"}, want: map[string]string{"a": "x\ny\nz"}},
		"v4a adds after": {format: V4A, input: "*** Begin Patch\n*** Update File: a\n@@ x\n+z\n*** End Patch\n",
			before: map[string]string{"a": "x\ny\n"}, want: map[string]string{"a": "x\nz\ny\n"}},
		"v4a bare line": {format: V4A,
			input:  "*** Begin Patch\n*** Update File: a\n@@\n 1\n\n-2\n+two\n\n*** End Patch\n",
			before: map[string]string{"a": "1\n\n2\n3\n"}, want: map[string]string{"a": "1\n\ntwo\n3\n"}},
		"v4a in order": {format: V4A,
			input:  "*** Begin Patch\n*** Update File: a\n@@\n-b\n+B\n@@\n-a\n+A\n*** End Patch\n",
			before: map[string]string{"a": "a\nb\n"}, errs: []string{reasonNone}},
		"v4a no context": {format: V4A,
			input:  "*** Begin Patch\n*** Update File: a\n@@ nowhere\n-b\n+B\n*** End Patch\n",
			before: map[string]string{"a": "a\nb\n"}, errs: []string{reasonContext}},
		"v4a similar, not asked": {format: V4A,
			input:  "*** Begin Patch\n*** Update File: a\n@@\n-hello wrld\n+bye\n*** End Patch\n",
			before: map[string]string{"a": "hello world\n"}, errs: []string{reasonNone}},
		"v4a similar, asked": {format: V4A, opts: ApplyOptions{Options: Options{Stages: stages}},
			input:  "*** Begin Patch\n*** Update File: a\n@@\n a line that stays\n-this goes\n+bye\n*** End Patch\n",
			before: map[string]string{"a": "a line that stys\nthis goes\n"},
			want:   map[string]string{"a": "a line that stys\nbye\n"}},
		"v4a over a file": {format: V4A, input: "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\n",
			before: map[string]string{"a": five}, errs: []string{""}},
		"v4a no end": {format: V4A, input: "*** Begin Patch\n*** Add File: a\n+x\n",
			bad: "no line *** End Patch"},
		"v4a no begin": {format: V4A, input: "hello\n", bad: "no line *** Begin Patch"},
		"v4a garbage": {format: V4A,
			input: "*** Begin Patch\n*** Update File: a\n@@\nhello\n*** End Patch\n", bad: "changes nothing"},

		"udiff": {format: Unified, input: "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n 2\n-3\n+three\n 4\n",
			before: map[string]string{"f": five}, want: map[string]string{"f": "1\n2\nthree\n4\n5\n"}},
		"udiff elsewhere": {format: Unified, input: "--- a/f\n+++ b/f\n@@ -90,2 +90,2 @@\n 2\n-3\n+three\n",
			before: map[string]string{"f": five}, want: map[string]string{"f": "1\n2\nthree\n4\n5\n"}},
		"udiff no numbers": {format: Unified, input: "--- f\n+++ f\n@@ ... @@\n-3\n+three\n",
			before: map[string]string{"f": five}, want: map[string]string{"f": "1\n2\nthree\n4\n5\n"}},
		"udiff wrong counts": {format: Unified, input: "--- f\n+++ f\n@@ -3,9 +3,1 @@\n-3\n+three\n",
			before: map[string]string{"f": five}, want: map[string]string{"f": "1\n2\nthree\n4\n5\n"}},
		"udiff nearest": {format: Unified, input: "--- f\n+++ f\n@@ -4 +4 @@\n-x\n+y\n",
			before: map[string]string{"f": "x\n2\n3\n4\nx\n"}, want: map[string]string{"f": "x\n2\n3\n4\ny\n"}},
		"udiff tie": {format: Unified, input: "--- f\n+++ f\n@@ -3 +3 @@\n-x\n+y\n",
			before: map[string]string{"f": "x\n2\n3\n4\nx\n"}, errs: []string{reasonSeveral}},
		"udiff fuzz": {format: Unified,
			input:  "--- f\n+++ f\n@@ -1,5 +1,5 @@\n ONE\n 2\n-3\n+three\n 4\n FIVE\n",
			before: map[string]string{"f": five}, want: map[string]string{"f": "1\n2\nthree\n4\n5\n"}},
		"udiff fuzz 0": {format: Unified, opts: ApplyOptions{Fuzz: new(int)},
			input: "--- f\n+++ f\n@@ -1,5 +1,5 @@\n ONE\n 2\n-3\n+three\n 4\n", before: map[string]string{"f": five},
			errs: []string{reasonNone}},
		"udiff never drops -": {format: Unified, input: "--- f\n+++ f\n@@ -1,3 +1,2 @@\n-ONE\n-2\n 3\n",
			before: map[string]string{"f": five}, errs: []string{reasonNone}},
		"udiff creates": {format: Unified,
			input: "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+a\n+b\n" +
				"\\ No newline at end of file\n", want: map[string]string{"n": "a\nb"}},
		"udiff creates empty": {format: Unified,
			input: "diff --git a/n b/n\nnew file mode 100644\nindex 0000000..e69de29\n",
			want:  map[string]string{"n": ""}},
		"udiff deletes": {format: Unified,
			input:  "--- a/f\n+++ /dev/null\n@@ -1,5 +0,0 @@\n-1\n-2\n-3\n-4\n-5\n",
			before: map[string]string{"f": five}, want: map[string]string{}},
		"udiff renames": {format: Unified,
			input: "diff --git a/f b/g\nsimilarity index 80%\nrename from f\nrename to g\n--- a/f\n+++ b/g\n" +
				"@@ -1 +1 @@\n-1\n+one\n", before: map[string]string{"f": five},
			want: map[string]string{"g": "one\n2\n3\n4\n5\n"}},
		"udiff gains an end": {format: Unified,
			input:  "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n",
			before: map[string]string{"f": "a\nb"}, want: map[string]string{"f": "a\nb\n"}},
		"udiff loses an end": {format: Unified,
			input:  "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n",
			before: map[string]string{"f": "a\nb\n"}, want: map[string]string{"f": "a\nb"}},
		"udiff two hunks": {format: Unified,
			input:  "--- f\n+++ f\n@@ -1 +1,2 @@\n 1\n+x\n@@ -5 +6 @@\n-5\n+five\n",
			before: map[string]string{"f": five}, want: map[string]string{"f": "1\nx\n2\n3\n4\nfive\n"}},
		"udiff inserts at": {format: Unified, input: "--- f\n+++ f\n@@ -2,0 +3 @@\n+x\n",
			before: map[string]string{"f": five}, want: map[string]string{"f": "1\n2\nx\n3\n4\n5\n"}},
		"udiff a line of dashes": {format: Unified, input: "--- f\n+++ f\n@@ -1,2 +1 @@\n--- x\n keep\n",
			before: map[string]string{"f": "-- x\nkeep\n"}, want: map[string]string{"f": "keep\n"}},
		"udiff line without a mark": {format: Unified,
			input: "--- f\n+++ f\n@@ -1,4 +1,4 @@\n 1\n-2\n+two\n3\n-4\n+four\n", bad: "want a line that begins"},
		"udiff of two, one head": {format: Unified,
			input: "Index: x\n===\n--- x\n+++ x\n@@ -1 +1 @@\n-a\n+A\nIndex: y\n===\n@@ -2 +2 @@\n-b\n+B\n",
			bad:   "a hunk before any path"},
		"udiff before line 1": {format: Unified, input: "--- f\n+++ f\n@@ -0,0 +1 @@\n+first\n",
			before: map[string]string{"f": five}, want: map[string]string{"f": "first\n" + five}},
		"udiff deletes too little": {format: Unified, input: "--- f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-1\n-2\n",
			before: map[string]string{"f": five}, errs: []string{""}},
		"udiff copies": {format: Unified,
			input: "diff --git a/f b/g\nsimilarity index 90%\ncopy from f\ncopy to g\n", bad: "copy from"},
		"udiff of a mode": {format: Unified, input: "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n",
			bad: "old mode"},
		"udiff of a link": {format: Unified,
			input: "diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+to\n",
			bad:   "no regular file"},
		"udiff under another name": {format: Unified, input: "--- f.orig\n+++ f\n@@ -1 +1 @@\n-1\n+one\n",
			before: map[string]string{"f": five}, want: map[string]string{"f": "one\n2\n3\n4\n5\n"}},
		"udiff of a mail": {format: Unified, input: "--- a/f\n+++ b/f\n@@ -5 +5 @@\n-5\n+five\n-- \n2.43.0\n",
			before: map[string]string{"f": five}, want: map[string]string{"f": "1\n2\n3\n4\nfive\n"}},
		"udiff of a comment": {format: Unified,
			input:  "--- f\n+++ f\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n keep\n",
			before: map[string]string{"f": "-- old\nkeep\n"}, want: map[string]string{"f": "++ new\nkeep\n"}},
		"udiff to LF": {format: Unified, input: "--- f\n+++ f\n@@ -1,2 +1,2 @@\n-a\r\n+a\n b\r\n",
			before: map[string]string{"f": "a\r\nb\r\n"}, want: map[string]string{"f": "a\nb\r\n"}},
		"udiff of LF, file of CRLF": {format: Unified, input: "--- f\n+++ f\n@@ -1,2 +1,2 @@\n-a\n+x\n b\n",
			before: map[string]string{"f": "a\r\nb\r\n"}, want: map[string]string{"f": "x\r\nb\r\n"}},
		"udiff with a BOM": {format: Unified, input: "--- f\n+++ f\n@@ -1 +1 @@\n-\ufeffa\n+\ufeffb\n",
			before: map[string]string{"f": "\ufeffa\n"}, want: map[string]string{"f": "\ufeffb\n"}},
		"udiff fuzz at the start": {format: Unified,
			input:  "--- f\n+++ f\n@@ -1,3 +1,4 @@\n+head\n // Copyright\n // Use of\n // license\n",
			before: map[string]string{"f": "// Copyright 2\nx\n// Copyright\ny\n"}, errs: []string{reasonNone}},
		"udiff end is not there": {format: Unified,
			input:  "--- f\n+++ f\n@@ -1 +1 @@\n-1\n\\ No newline at end of file\n+one\n",
			before: map[string]string{"f": five}, errs: []string{reasonNone}},
		"udiff one after the other": {format: Unified, opts: ApplyOptions{Sequential: true},
			input:  "--- f\n+++ f\n@@ -1 +1,3 @@\n 1\n+a\n+b\n@@ -3 +5 @@\n-x\n+y\n",
			before: map[string]string{"f": "1\n2\nx\n4\n5\n6\nx\n"},
			want:   map[string]string{"f": "1\na\nb\n2\ny\n4\n5\n6\nx\n"}},
		"v4a context twice": {format: V4A,
			input:  "*** Begin Patch\n*** Update File: a\n@@ def f():\n+  new\n*** End Patch\n",
			before: map[string]string{"a": "def f():\n  1\ndef f():\n  2\n"}, errs: []string{reasonContext}},
		"v4a anchor twice, fits": {format: V4A,
			input:  "*** Begin Patch\n*** Update File: a\n@@ close\n-x\n+y\n*** End Patch\n",
			before: map[string]string{"a": "close\n1\nclose\nx\n"},
			want:   map[string]string{"a": "close\n1\nclose\ny\n"}},
		"v4a anchor twice, before": {format: V4A,
			input:  "*** Begin Patch\n*** Update File: a\n@@ close\n-x\n+y\n*** End Patch\n",
			before: map[string]string{"a": "x\nclose\n1\nclose\nx\n"},
			want:   map[string]string{"a": "x\nclose\n1\nclose\ny\n"}},
		"v4a anchor twice, both": {format: V4A,
			input:  "*** Begin Patch\n*** Update File: a\n@@ close\n-x\n+y\n*** End Patch\n",
			before: map[string]string{"a": "close\nx\nclose\nx\n"}, errs: []string{reasonContext}},
		"v4a anchor twice, none": {format: V4A,
			input:  "*** Begin Patch\n*** Update File: a\n@@ close\n-x\n+y\n*** End Patch\n",
			before: map[string]string{"a": "x\nclose\n1\nclose\n"}, errs: []string{reasonNone}},
		"v4a anchors, the second": {format: V4A,
			input:  "*** Begin Patch\n*** Update File: a\n@@ b\n@@ f\n-x\n+y\n*** End Patch\n",
			before: map[string]string{"a": "f\nx\nb\nf\n1\nc\nf\nx\n"},
			want:   map[string]string{"a": "f\nx\nb\nf\n1\nc\nf\ny\n"}},
		"v4a reindents": {format: V4A, opts: ApplyOptions{Options: Options{Reindent: ReindentAuto}},
			input:  "*** Begin Patch\n*** Update File: a\n@@\n if x:\n-  y()\n+  z()\n+  w()\n*** End Patch\n",
			before: map[string]string{"a": "\tif x:\n\t\ty()\n"},
			want:   map[string]string{"a": "\tif x:\n\t\tz()\n\t\tw()\n"}},
		"by its look": {input: "*** Begin Patch\n*** Delete File: a\n*** End Patch\n",
			before: map[string]string{"a": "1"}, want: map[string]string{}},
		"edits, a new file of +": {format: EditList, input: `[{"path":"a","old":"","new":"+package a\n+\n+func f()\n"}]`, errs: []string{reasonDiffMarks}},
		"udiff, header, counts": {format: Unified,
			input:  "--- a/f\n+++ b/f\n@@ -1,9 +1,9 @@\n-1\n+one\n--- a/g\n+++ b/g\n@@ -1,5 +1,5 @@\n-2\n+two\n",
			before: map[string]string{"f": "1\n", "g": "2\n"}, want: map[string]string{"f": "one\n", "g": "two\n"}},
		"v4a two patches": {format: V4A,
			input: "*** Begin Patch\n*** Add File: n\n+1\n*** End Patch\n\n*** Begin Patch\n*** Add File: m\n+2\n" +
				"*** End Patch\n", want: map[string]string{"n": "1\n", "m": "2\n"}},
		"v4a similar, before": {format: V4A, opts: ApplyOptions{Options: Options{Stages: stages}},
			input:  "*** Begin Patch\n*** Update File: a\n@@ func b\n-a line that is lnog\n+x\n*** End Patch\n",
			before: map[string]string{"a": "func a\na line that is long\nfunc b\n1\n"},
			errs:   []string{reasonBothChanged}},
		"v4a similar keeps lines": {format: V4A, opts: ApplyOptions{Options: Options{Stages: stages}},
			input: "*** Begin Patch\n*** Update File: a\n@@\n begin of a block\n first line here\n-second line here\n" +
				"+2\n third line heer\n the end of it\n*** End Patch\n",
			before: map[string]string{"a": "begin of a block\nfirst line here\nuser's\nsecond line here\n" +
				"third line here\nthe end of it\n"},
			want: map[string]string{"a": "begin of a block\nfirst line here\nuser's\n2\nthird line here\n" +
				"the end of it\n"}},
		"block with two dividers": {format: SearchReplace, path: "a",
			input:  "<<<<<<< SEARCH\nTitle\n=====\ntext\n=======\nnew\n>>>>>>> REPLACE\n",
			before: map[string]string{"a": "Title\n=====\ntext\n"}, bad: "a second line of ======="},
		"block at line starts": {format: SearchReplace, path: "a",
			input: "<<<<<<< SEARCH\nx = 1\n=======\nx = 2\n>>>>>>> REPLACE\n",
			opts:  ApplyOptions{Options: Options{ExactOnly: true}}, before: map[string]string{"a": "max = 1\nx = 1\n"},
			want: map[string]string{"a": "max = 1\nx = 2\n"}},
		"block at the end": {format: SearchReplace, path: "a",
			input: "<<<<<<< SEARCH\nb\n=======\nc\n>>>>>>> REPLACE\n",
			opts:  ApplyOptions{Options: Options{ExactOnly: true}}, before: map[string]string{"a": "a\nb"},
			want: map[string]string{"a": "a\nc"}},
		"block at both ends": {format: SearchReplace, path: "a",
			input: "<<<<<<< SEARCH\ny\n=======\nz\n>>>>>>> REPLACE\n",
			opts:  ApplyOptions{Options: Options{ExactOnly: true}}, before: map[string]string{"a": "y\nmid\ny"},
			errs: []string{reasonSeveral}},
		"udiff, nearest of many": {format: Unified, input: "--- a/f\n+++ b/f\n@@ -8999 +8999 @@\n-b\n+B\n",
			before: map[string]string{"f": strings.Repeat("a\nb\nc\n", 3000)},
			want:   map[string]string{"f": strings.Repeat("a\nb\nc\n", 2999) + "a\nB\nc\n"}},
		"udiff, two mails, a file": {format: Unified,
			input: "From 0123456789012345678901234567890123456789 Mon\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n+one\n-- \n" +
				"2.43.0\n\nFrom 0123456789012345678901234567890123456789 Mon\n--- a/f\n+++ b/f\n@@ -2 +2 @@\n-2\n+two\n", bad: "is in two mails"},
		"udiff deletes too much": {format: Unified,
			input:  "diff --git a/f b/f\ndeleted file mode 100644\nindex e69de29..0000000\n",
			before: map[string]string{"f": "precious\n"}, errs: []string{""}},
		"udiff, no prefix": {format: Unified,
			input: "diff --git f f\n--- f\n+++ f\n@@ -1 +1 @@\n-1\n+one\ndiff --git sub/e sub/e\n" +
				"new file mode 100644\nindex 0000000..e69de29\n", before: map[string]string{"f": "1\n"},
			want: map[string]string{"f": "one\n", "sub/e": ""}},
		"udiff, mnemonic prefixes": {format: Unified,
			input: "diff --git c/f i/f\n--- c/f\n+++ i/f\n@@ -1 +1 @@\n-1\n+one\ndiff --git c/new i/new\n" +
				"new file mode 100644\n--- /dev/null\n+++ i/new\n@@ -0,0 +1 @@\n+new\n",
			before: map[string]string{"f": "1\n"}, want: map[string]string{"f": "one\n", "new": "new\n"}},
		"udiff, mode of what": {format: Unified, input: "diff --git a/f c/g\nnew file mode 100644\n",
			bad: "not clear of which file"},
		"udiff, name with a blank": {format: Unified,
			input:  "diff --git a/n  b/n \n--- a/n \t\n+++ b/n \t\n@@ -1 +1 @@\n-1\n+one\n",
			before: map[string]string{"n ": "1\n", "n": "1\n"}, want: map[string]string{"n ": "one\n", "n": "1\n"}},
		"udiff, end in dropped": {format: Unified,
			input:  "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n x\n\\ No newline at end of file\n",
			before: map[string]string{"f": "a\nb\nc\n"}, want: map[string]string{"f": "a\nB\nc\n"}},
		"v4a, last line goes": {format: V4A,
			input:  "*** Begin Patch\n*** Update File: a\n@@\n-b\n@@\n+y\n*** End Patch\n",
			before: map[string]string{"a": "a\nb"}, want: map[string]string{"a": "a\ny"}},
		"v4a, move to itself": {format: V4A,
			input: "*** Begin Patch\n*** Update File: a\n*** Move to: a\n*** End Patch\n", bad: "is there already"},
		"edits, common options": {format: EditList, input: `{"path":"a","replace_all":true,"edits":[{"old":"1","new":"x"},{"old":"2","new":"y","replace_all":false,"expected_replacements":1}]}`, before: map[string]string{"a": "1 1 2\n"}, want: map[string]string{"a": "x x y\n"}},
		"edits ask for more":    {format: EditList, input: `[{"path":"a","old":"some lime of text\n","new":"x","stages":["levenshtein"]}]`, opts: ApplyOptions{Options: Options{Stages: []Stage{Exact}}}, before: map[string]string{"a": "some line of text\n"}, errs: []string{reasonNone}},
		"block at no line": {format: SearchReplace, path: "a",
			input: "<<<<<<< SEARCH\nx = 1\n=======\nx = 2\n>>>>>>> REPLACE\n",
			opts:  ApplyOptions{Options: Options{ExactOnly: true}}, before: map[string]string{"a": "x = 10\nmax = 1"},
			errs: []string{reasonNone}},
		"udiff of two mails": {format: Unified,
			input: "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n+one\n-- \n2.43.0\n\nFrom 00 Mon\n---\n g | 2 +-\n\n" +
				"diff --git a/g b/g\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-1\n+eins\n-- \n2.43.0\n",
			before: map[string]string{"f": five, "g": "1\n"},
			want:   map[string]string{"f": "one\n2\n3\n4\n5\n", "g": "eins\n"}},
		"block after a sentence": {format: SearchReplace, path: "a",
			input:  "I'll add the file v1.2 now.\n<<<<<<< SEARCH\n1\n=======\none\n>>>>>>> REPLACE\n",
			before: map[string]string{"a": five}, want: map[string]string{"a": "one\n2\n3\n4\n5\n"}},
		"block, indented": {format: SearchReplace, path: "a",
			input: "  <<<<<<< SEARCH\n1\n=======\none\n>>>>>>> REPLACE\n", bad: "is indented"},
		"edits, one path": {format: EditList, input: `{"file_path":"a","edits":[{"old_string":"1","new_string":"one"}]}`, before: map[string]string{"a": five}, want: map[string]string{"a": "one\n2\n3\n4\n5\n"}},
		"udiff binary":    {format: Unified, input: "diff --git a/f b/f\nGIT binary patch\n", bad: "binary"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Parse(c.format, []byte(c.input), c.path)
			if c.bad != "" {
				var perr *ParseError
				if !errors.As(err, &perr) || !strings.Contains(err.Error(), c.bad) {
					t.Errorf("Parse: %v, want %q", err, c.bad)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			after, errs := applied(p, c.before, &c.opts)
			var reasons []string
			for _, err := range errs {
				reasons = append(reasons, err.Match.Reason)
				if err.Error() == "" {
					t.Error("no text")
				}
			}
			if !slices.Equal(reasons, c.errs) {
				t.Errorf("refused: %v, want %v", errs, c.errs)
			}
			want := c.want
			if c.errs != nil {
				want = c.before
			}
			if d := cmp.Diff(want, after); d != "" && len(want)+len(after) > 0 {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// A diff that we write is one that we apply, to the byte.
func TestApplyOwnDiffs(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	text := func() (b []byte) {
		for range rng.IntN(12) {
			b = append(b, []string{"a", "b", "c", "\ufeffa", "", "- ", "\u00e9"}[rng.IntN(7)]...)
			b = append(b, []string{"\n", "\n", "\n", "\r\n", "\r\r\n"}[rng.IntN(5)]...)
		}
		return append(b, []string{"", "", "end", "end\r", "\ufeff"}[rng.IntN(5)]...)
	}
	for range *oracleCases {
		name := []string{"f", "b/i", "a/f", "n ", "two words", "\u00e9\t"}[rng.IntN(6)]
		old, new := textdiff.File{Name: name, Mode: 0o100644, Content: text()},
			textdiff.File{Name: name, Mode: 0o100644, Content: text()}
		if rng.IntN(2) == 0 { // an edit, not another text
			lines := bytes.SplitAfter(old.Content, []byte("\n"))
			i := rng.IntN(len(lines))
			new.Content = slices.Concat(bytes.Join(lines[:i], nil), []byte("new\n"),
				bytes.Join(lines[min(len(lines), i+rng.IntN(3)):], nil))
		}
		opts := &textdiff.UnifiedOptions{NoPrefix: rng.IntN(3) == 0}
		switch rng.IntN(8) {
		case 0:
			old = textdiff.File{}
		case 1:
			new = textdiff.File{}
		}
		if opts.NoPrefix && (old.Mode == 0 || new.Mode == 0) && strings.Contains(name, "/") {
			continue // it does not say whether that is a prefix
		}
		d := textdiff.AppendUnified(nil, old, new, opts)
		if len(d) == 0 {
			continue
		}
		before, want := map[string]string{}, map[string]string{}
		if old.Mode != 0 {
			before[name] = string(old.Content)
		}
		if new.Mode != 0 {
			want[name] = string(new.Content)
		}
		p, err := Parse(Unified, d, "")
		if err != nil {
			t.Fatalf("%v\n%q", err, d)
		}
		after, errs := applied(p, before, nil)
		if len(errs) > 0 {
			t.Fatalf("%v\n%q to %q\n%q", errs, old.Content, new.Content, d)
		}
		if diff := cmp.Diff(want, after); diff != "" {
			t.Fatalf("(-want +got):\n%s%q", diff, d)
		}
	}
}

// FuzzParse parses and applies anything.
func FuzzParse(f *testing.F) {
	for input, content := range map[string]string{
		"a\n<<<<<<< SEARCH\n1\n=======\n2\n>>>>>>> REPLACE\n":                                                           "1\n",
		"*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@ x\n 1\n-2\n+3\n*** End of File\n*** End Patch\n":       "x\n1\n2\n",
		"*** Begin Patch\n*** Add File: a\n+3\n*** Delete File: b\n*** End Patch\n":                                     "1",
		"--- a\n+++ a\n@@ -1,2 +1,2 @@\n 1\n-2\n+3\n\\ No newline at end of file\n":                                     "1\n2\n",
		"diff --git a/a b/b\nsimilarity index 90%\nrename from a\nrename to b\n--- a/a\n+++ b/b\n@@ -1 +1 @@\n-1\n+2\n": "1\n",
		`[{"path":"a","old":"1","new":"2"}]`:                                                                            "1",
	} {
		for _, b := range nearmiss.Of([]byte(input)) {
			f.Add(string(b), content)
		}
	}
	f.Fuzz(func(t *testing.T, input, content string) {
		for _, format := range []Format{SearchReplace, V4A, Unified, EditList} {
			p, err := Parse(format, []byte(input), "a")
			if err != nil {
				continue
			}
			results, errs := p.Apply(func(string) ([]byte, error) { return []byte(content), nil },
				&ApplyOptions{Options: Options{Budget: 1e6}})
			if len(errs) > 0 == (results != nil) {
				t.Errorf("%s: %d results and %v", format, len(results), errs)
			}
		}
	})
}
