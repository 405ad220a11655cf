package patch_test

import (
	"fmt"

	"github.com/boocode/filestore/patch"
)

func ExampleReplace() {
	content := []byte("if x {\n\t\tprint(“hello”)\n\t}\n")
	r := patch.Replace(content, []byte("print(\"hello\")\n"), []byte("print(\"bye\")\n"),
		&patch.Options{Reindent: patch.ReindentAuto})
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

func ExampleMerge() {
	// The agent's turn made "after" of "before"; then the user changed a line, too.
	before := []byte("package a\n\nvar x = 1\n\nvar y = 2\n")
	after := []byte("package a\n\nvar x = 10\n\nvar y = 20\n")
	now := []byte("package a\n\nvar x = 10\n\nvar y = 21\n")
	m := patch.Merge(after, now, before, nil) // take the turn back
	fmt.Println(len(m.Conflicts), "conflict, in line", m.Conflicts[0].Result.Lines.Start+1)
	fmt.Printf("%s", m.Markers("now", "after the turn", "before the turn"))
	// Output:
	// 1 conflict, in line 5
	// package a
	//
	// var x = 1
	//
	// <<<<<<< now
	// var y = 21
	// ||||||| after the turn
	// var y = 20
	// =======
	// var y = 2
	// >>>>>>> before the turn
}
