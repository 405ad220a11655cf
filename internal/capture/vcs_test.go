package capture

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

// TestSpellsVCS: a .GIT is a repository on a disk that finds it as .git, and else a directory like
// others.
func TestSpellsVCS(t *testing.T) {
	vfstest.NeedCase(t)
	root := t.TempDir()
	for _, name := range []string{"a", ".GIT/config", "sub/.Git", ".HG", ".Jj/x"} {
		write(t, filepath.Join(root, name), "x")
	}
	for _, folds := range []bool{false, true} {
		s := openStore(t, vfstest.NewMem())
		ws := openWorkspace(t, s, root)
		ws.openDir = func(path string) (vfs.Dir, error) {
			d, err := vfs.OpenDir(path)
			if err == nil && folds {
				d = vfstest.Fold(d)
			}
			return d, err
		}
		r := snapshot(t, s, ws, nil)
		want, files := []string(nil), int64(5)
		if folds {
			want, files = []string{".GIT vcs", ".Jj vcs", "sub/.Git vcs"}, 2
		}
		if got := omissions(t, s, r.Coverage); !slices.Equal(got, want) || r.Files != files {
			t.Errorf("folds: %v: %d files, without %q; want %d, without %q", folds, r.Files, got, files, want)
		}
	}
}
