package manager_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boocode/filestore/manager"
)

// The program that README.md shows.
func Example_readme() {
	ctx, prompt := context.Background(), "say hello"
	dir, err := os.MkdirTemp("", "project")
	check(err)
	defer os.RemoveAll(dir)
	stores, err := os.MkdirTemp("", "stores")
	check(err)
	defer os.RemoveAll(stores)
	work := func() { check(os.WriteFile(filepath.Join(dir, "hello"), []byte("hello\n"), 0o666)) }

	files, err := manager.Open(ctx, dir, &manager.Options{StoreRoot: stores, Session: "chat-1"})
	check(err)
	defer files.Close()
	_, err = files.OnTurnStart(ctx, &manager.Turn{Title: prompt})
	check(err)
	work() // edit tools, shell commands: whatever they do to files in dir
	_, err = files.OnTurnEnd(ctx, nil)
	check(err)
	list, err := files.ModifiedFiles(ctx, nil) // what the agent changed, and only that
	check(err)
	fmt.Println(list.Files[0].NetStatus, list.Files[0].Path)
	_, err = files.RestoreFiles(ctx, &manager.RestoreOptions{Target: "@~1"}) // take it back
	check(err)
	// Output: added hello
}

// README.md has the second half of the example as it stands.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	check(err)
	source, err := os.ReadFile("example_readme_test.go")
	check(err)
	_, shown, _ := strings.Cut(string(page), "```go\n")
	shown, _, found := strings.Cut(shown, "\n```\n")
	if !found || !strings.Contains(strings.ReplaceAll(string(source), "\n\t", "\n"), "\n\n"+shown+"\n// Output:") {
		t.Errorf("README.md shows another program than example_readme_test.go:\n%s", shown)
	}
}
