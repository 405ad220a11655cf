package patch_test

import (
	"fmt"

	"github.com/boocode/filestore/patch"
)

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
