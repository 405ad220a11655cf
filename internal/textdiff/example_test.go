package textdiff_test

import (
	"fmt"

	"github.com/boocode/filestore/internal/textdiff"
)

func ExampleAppendUnified() {
	old := textdiff.File{Name: "greet.sh", Content: []byte("echo hello\n"), Mode: 0o100644}
	new := textdiff.File{Name: "greet.sh", Content: []byte("echo hello\nexit 0\n"), Mode: 0o100755}
	fmt.Printf("%s", textdiff.AppendUnified(nil, old, new, nil))
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
	old := textdiff.File{Name: "src/foo.ts", Content: []byte("let a = 1\n"), Mode: 0o100644}
	new := textdiff.File{Name: "src/foo.ts", Content: []byte("let a = 2\n"), Mode: 0o100644}
	fmt.Printf("%s", textdiff.AppendUnified(nil, old, new, &textdiff.UnifiedOptions{NoPrefix: true}))
	// Output:
	// --- src/foo.ts
	// +++ src/foo.ts
	// @@ -1 +1 @@
	// -let a = 1
	// +let a = 2
}

func ExampleEdits() {
	for _, e := range textdiff.Edits([]byte("one\ntwo\n"), []byte("one\n2\nthree\n")) {
		fmt.Printf("lines %d to %d become lines %d to %d\n", e.OldStart, e.OldEnd, e.NewStart, e.NewEnd)
	}
	// Output: lines 1 to 2 become lines 1 to 3
}

func ExampleStat() {
	added, deleted, _ := textdiff.Stat([]byte("one\ntwo\n"), []byte("one\n2\nthree\n"))
	fmt.Printf("+%d -%d\n", added, deleted)
	// Output: +2 -1
}

// The lines of one edit, as a hunk has them: first those that go, then those
// that come.
func ExampleLineWords() {
	removed := []string{"x := f(a)", "return x"}
	added := []string{"x := f(a, b)", "panic(err)"}
	_, spans := textdiff.LineWords(removed, added)
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
