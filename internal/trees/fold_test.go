package trees

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

// TestExportFolding: on a disk that finds names in any case nothing of a tree is written over another of its files, and
// nothing as a repository; all else is there, and what is not is said.
func TestExportFolding(t *testing.T) {
	all := map[string]string{
		"a": "one", "A": "two", "in/B": "three", "in/b": "four", "Dir/f": "five", "dir/f": "six", "dir/g": "seven",
		"link": "eight", "LINK": "-> a",
		".GIT/config": "[core]\n\tfsmonitor = touch /tmp/owned\n", "sub/.Git": "gitdir: elsewhere", "sub/.HG/hgrc": "x",
		"sub/.SVN": "a file is no repository",
	}
	s, root := storeOf(t, all)
	for _, folds := range []bool{true, false} {
		dir := t.TempDir()
		d, err := vfs.OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if folds {
			d = vfstest.Fold(d)
		} else {
			vfstest.NeedCase(t)
		}
		r, err := exportTo(t.Context(), s, root, d)
		if err != nil {
			t.Fatal(err)
		}
		refused := make(map[string]bool)
		for _, p := range r.Refused {
			refused[p.Path] = true
		}
		for path, want := range all {
			up, _ := Split(path)
			b, err := os.ReadFile(filepath.Join(dir, path))
			target, lerr := os.Readlink(filepath.Join(dir, path))
			switch {
			case refused[path] || refused[up]:
				if err == nil || lerr == nil {
					t.Errorf("%s is refused, and there", path)
				}
				continue
			case lerr == nil:
				b, err = []byte("-> "+target), nil
			}
			if err != nil || string(b) != want {
				t.Errorf("%s is %q, want %q: %v", path, b, want, err)
			}
		}
		if !folds {
			if len(refused) > 0 {
				t.Errorf("refused where names are apart: %v", refused)
			}
			continue
		}
		for _, pair := range [][2]string{{"a", "A"}, {"in/B", "in/b"}, {"link", "LINK"}, {"Dir", "dir"}} {
			if refused[pair[0]] == refused[pair[1]] {
				t.Errorf("of %q one is to be there: %v", pair, refused)
			}
		}
		if !refused[".GIT"] || !refused["sub/.Git"] || !refused["sub/.HG"] || len(refused) != 7 {
			t.Errorf("refused: %v", refused)
		}
	}
}
