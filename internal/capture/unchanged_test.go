//go:build linux

package capture

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/tree"
)

// A capture walks nothing if nothing has happened since the one before, and walks if
// anything has of which its result may depend.
func TestResidentUnchanged(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	write(t, filepath.Join(root, ".git/HEAD"), "ref: refs/heads/main\n")
	write(t, filepath.Join(root, ".git/info/exclude"), "")
	for _, dir := range []string{"objects", "refs"} {
		if err := os.Mkdir(filepath.Join(root, ".git", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "d/c"} {
		write(t, filepath.Join(root, name), "1")
	}
	s := openStore(t, vfstest.NewMem())
	ws := openResident(t, s, root, 0)
	snapshot(t, s, ws, nil)
	for _, c := range []struct {
		what string
		do   func()
		opts *Options
		walk bool
	}{
		{"nothing", func() {}, nil, false},
		{"a file", func() { write(t, filepath.Join(root, "d/c"), "2") }, nil, true},
		{"a file that is as it was", func() { write(t, filepath.Join(root, "d/c"), "2") }, nil, true},
		{"a mode", func() { os.Chmod(filepath.Join(root, "a"), 0o700) }, nil, true},
		{"nothing again", func() {}, nil, false},
		{"a rule of the repository", func() { write(t, filepath.Join(root, ".git/info/exclude"), "a\n") }, nil, true},
		{"a rule of the directory", func() { write(t, filepath.Join(root, ".gitignore"), "b\n") }, nil, true},
		{"another limit", func() {}, &Options{Limits: tree.Limits{FileSize: 5}}, true},
		{"the same limit", func() {}, &Options{Limits: tree.Limits{FileSize: 5}}, false},
		{"fewer files", func() {}, &Options{Limits: tree.Limits{FileSize: 5, Files: 1}, Partial: true}, true},
		{"after one that was cut off", func() {}, nil, true},
		{"a doubt", func() { ws.Doubt() }, nil, true},
		{"another directory", func() {
			os.Rename(root, root+"-away")
			write(t, filepath.Join(root, "x"), "1")
		}, nil, true},
		{"nothing in that", func() {}, nil, false},
		{"a file with another name", func() { os.Link(filepath.Join(root, "x"), filepath.Join(root, "y")) }, nil, true},
		{"of which might not be told", func() {}, nil, true},
	} {
		c.do()
		before := ws.captures.Load()
		got := snapshot(t, s, ws, c.opts)
		if n := ws.captures.Load() - before; n > 0 != c.walk {
			t.Errorf("%s: the tree was walked %d times, want that it is: %v", c.what, n, c.walk)
		}
		if c.opts == nil {
			want, g := scratch(t, s, root)
			sameResult(t, c.what, g, got, want)
		}
	}
}
