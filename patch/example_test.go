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

func ExampleWords() {
	old, new := "return err", "return nil, err"
	_, added := patch.Words(old, new)
	for _, s := range added {
		fmt.Printf("%q\n", new[s.Start:s.End])
	}
	// Output: "nil, "
}

func ExampleQuote() {
	fmt.Println(patch.Quote("tab\there"), patch.Quote("a b"))
	// Output: "tab\there" a b
}
