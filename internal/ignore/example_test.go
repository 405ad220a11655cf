package ignore_test

import (
	"fmt"

	"github.com/boocode/filestore/internal/ignore"
)

func Example() {
	root := ignore.Root(ignore.Options{Info: []byte("*.log\n")})
	root = root.WithFiles([]byte("/build/\n.env\n"), []byte("!.env\n")) // .gitignore, .booignore
	src := root.Sub("src").WithFiles([]byte("!keep.log\n"), nil)

	fmt.Println(root.Match("build", true), src.Match("build", true))
	fmt.Println(src.Match("a.log", false), src.Match("keep.log", false))
	fmt.Println(root.Match(".env", false))
	// Output:
	// true false
	// true false
	// false
}
