package livedir

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
)

// TestSpellsVCS: where a disk takes a name for .git, nothing is put there, changed or deleted, and
// else it is a name like others.
func TestSpellsVCS(t *testing.T) {
	repository := world{".git/config": "file 644 theirs", "sub/.git": "file 644 gitdir: x"}
	for _, c := range []struct {
		name          string
		has, from, to world
		folded        world // what comes on such a disk, beside what is there
	}{
		{"written", repository, nil, world{".GIT": "dir 700", ".GIT/config": "file 644 x", ".Git": "dir 755",
			".Git/a": "file 755 x", "a": "file 644 a"}, world{"a": "file 644 a"}},
		{"a file", repository, nil, world{"sub/.GIT": "file 644 x", ".gIT": "file 644 x"}, nil},
		{"changed", repository, world{".GIT": "dir 755", ".GIT/config": "file 644 theirs"},
			world{".GIT": "dir 755", ".GIT/config": "file 644 x"}, nil},
		{"deleted", repository, world{".GIT/config": "file 644 theirs", "sub/.Git": "file 644 gitdir: x"}, nil, nil},
		{"none yet", nil, nil, world{".GIT": "dir 755", ".GIT/config": "file 644 x", "a/.GIT": "file 644 x",
			"b/.GIT": "dir 755", "b/.GIT/x": "file 644 x"}, nil},
		{"no repository", world{".hg": "file 644 h"}, world{".HG": "file 644 h"}, world{".HG": "file 644 x"},
			world{".hg": "file 644 x"}},
		{"mercurial", world{".hg/hgrc": "file 644 h"}, nil, world{".HG": "file 644 x", ".Hg": "dir 755",
			".Hg/hgrc": "file 644 x"}, nil},
	} {
		for _, folds := range []bool{true, false} {
			t.Run(c.name, func(t *testing.T) {
				b := newBench(t)
				c.has.write(t, b.dir)
				dir, err := vfs.OpenDir(b.dir)
				if err != nil {
					t.Fatal(err)
				}
				want := maps.Clone(c.has)
				if want == nil {
					want = make(world)
				}
				if folds {
					dir = vfstest.Fold(dir)
					maps.Copy(want, c.folded)
				} else {
					vfstest.NeedCase(t)
					maps.Copy(want, c.to)
				}
				root := NewRoot(dir)
				defer root.Close()
				p, err := NewPlan(t.Context(), root, b.wants(c.from, c.to), &Options{Policy: rollback.Overwrite})
				if err == nil {
					err = p.Save(t.Context(), root, b.w)
				}
				if err == nil {
					err = p.Apply(t.Context(), root, b.store, "testtest")
				}
				if err != nil {
					t.Fatal(err)
				}
				files := func(w world) world {
					maps.DeleteFunc(w, func(path, what string) bool {
						_, name := trees.Split(path)
						return strings.HasPrefix(what, "dir") && trees.LikeVCS(name) == ""
					})
					return w
				}
				if d := cmp.Diff(files(want.here()), files(readWorld(t, b.dir))); d != "" {
					t.Errorf("folds: %v, %v (-want +got):\n%s", folds, outcome(p), d)
				}
			})
		}
	}
}
