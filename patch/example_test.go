package patch_test

import (
	"fmt"

	"github.com/boocode/filestore/patch"
)

func ExampleAppendUnified() {
	old := patch.File{Name: "greet.sh", Content: []byte("echo hello\n"), Mode: 0o100644}
	new := patch.File{Name: "greet.sh", Content: []byte("echo hello\nexit 0\n"), Mode: 0o100755}
	fmt.Printf("%s", patch.AppendUnified(nil, old, new, nil))
	// Output:
	// diff --git a/greet.sh b/greet.sh
	// old mode 100644
	// new mode 100755
	// index 2f08be9..be8907d
	// --- a/greet.sh
	// +++ b/greet.sh
	// @@ -1 +1,2 @@
	//  echo hello
	// +exit 0
}

// The diff for git apply -p0 and patch -p0.
func ExampleAppendUnified_noPrefix() {
	old := patch.File{Name: "src/foo.ts", Content: []byte("let a = 1\n"), Mode: 0o100644}
	new := patch.File{Name: "src/foo.ts", Content: []byte("let a = 2\n"), Mode: 0o100644}
	fmt.Printf("%s", patch.AppendUnified(nil, old, new, &patch.UnifiedOptions{NoPrefix: true}))
	// Output:
	// --- src/foo.ts
	// +++ src/foo.ts
	// @@ -1 +1 @@
	// -let a = 1
	// +let a = 2
}

func ExampleEdits() {
	for _, e := range patch.Edits([]byte("one\ntwo\n"), []byte("one\n2\nthree\n")) {
		fmt.Printf("lines %d to %d become lines %d to %d\n", e.OldStart, e.OldEnd, e.NewStart, e.NewEnd)
	}
	// Output: lines 1 to 2 become lines 1 to 3
}

func ExampleStat() {
	added, deleted, _ := patch.Stat([]byte("one\ntwo\n"), []byte("one\n2\nthree\n"))
	fmt.Printf("+%d -%d\n", added, deleted)
	// Output: +2 -1
}

// The lines of one edit, as a hunk has them: first those that go, then those
// that come.
func ExampleLineWords() {
	removed := []string{"x := f(a)", "return x"}
	added := []string{"x := f(a, b)", "panic(err)"}
	_, spans := patch.LineWords(removed, added)
	for i, line := range added {
		at := 0
		for _, s := range spans[i] {
			fmt.Print(line[at:s.Start], "[", line[s.Start:s.End], "]")
			at = s.End
		}
		fmt.Println(line[at:])
	}
	// Output:
	// x := f(a[, b])
	// panic(err)
}

func ExampleQuote() {
	fmt.Println(patch.Quote("tab\there"), patch.Quote("a b"))
	// Output: "tab\there" a b
}

func ExampleReplace() {
	content := []byte("if x {\n\t\tprint(“hello”)\n\t}\n")
	r := patch.Replace(content, []byte("print(\"hello\")\n"), []byte("print(\"bye\")\n"), &patch.Options{Reindent: patch.ReindentAuto})
	fmt.Println(r.Kind, r.Stage, r.StartLine)
	fmt.Printf("%s", r.Content)
	// Output:
	// fuzzy unicode 2
	// if x {
	// 		print("bye")
	// 	}
}

func ExampleMatch_Explain() {
	m := patch.Locate([]byte("one\ntwo\none\n"), []byte("one"), nil)
	fmt.Println(m.Explain())
	// Output:
	// the old text is there several times: give more lines around it, or how often it is to be replaced (2 times)
	//   line 1
	//   line 3
}

func ExamplePatch_Apply() {
	p, err := patch.Parse(patch.V4A, []byte("*** Begin Patch\n*** Update File: a\n@@\n-one\n+1\n*** End Patch\n"), "")
	if err != nil {
		fmt.Println(err)
		return
	}
	results, refused := p.Apply(func(string) ([]byte, error) { return []byte("one\ntwo\n"), nil }, nil)
	fmt.Printf("%s%v\n", results[0].Content, len(refused))
	// Output:
	// 1
	// two
	// 0
}
