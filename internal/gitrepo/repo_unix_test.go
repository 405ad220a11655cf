//go:build unix

package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/boocode/filestore/internal/vfs"
)

// TestFindForeign: what another user has put into a directory that is not theirs is no repository for who
// works below. Whose the directory is may have one there.
func TestFindForeign(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: to give files to another user takes root")
	}
	dir, _ := setup(t)
	open := filepath.Join(dir, "open")
	below := filepath.Join(open, "below")
	mkdir(t, below)
	git(t, open, "init", "-q")
	const other, third = 65534, 65533
	for _, tt := range []struct {
		of, ofOpen, ofBelow int
		ok                  bool
	}{
		{0, 0, 0, true}, {other, 0, 0, false}, {other, 0, third, false},
		{other, other, 0, true}, // it is theirs, as in a container with another's files
		{other, 0, other, true},
	} {
		owners := map[string]int{filepath.Join(open, ".git"): tt.of, open: tt.ofOpen, below: tt.ofBelow}
		for path, owner := range owners {
			if err := os.Chown(path, owner, -1); err != nil {
				t.Fatal(err)
			}
		}
		r, ok, err := Find(below)
		_, isForeign := errors.AsType[*vfs.ForeignError](err)
		if ok != tt.ok || isForeign == tt.ok {
			t.Errorf("Find with %+v = %+v, %v, %v", tt, r, ok, err)
		}
	}
	if err := os.Chown(filepath.Join(open, ".git"), other, -1); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(below, 0, -1); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "-q")
	if r, ok, err := Find(below); !ok || err != nil || r.Root != dir {
		t.Errorf("Find with a repository above that of another = %+v, %v, %v", r, ok, err)
	}
}

func TestSpecialFilesAreNotOpened(t *testing.T) {
	dir, _ := setup(t)
	git(t, dir, "init", "-q")
	r := find(t, dir)
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for _, special := range []string{pipe, "/dev/zero", "/dev/null"} {
		write(t, filepath.Join(r.GitDir, "config"),
			"[core]\n\texcludesFile = "+special+"\n[include]\n\tpath = "+special+"\n")
		if o, err := r.IgnoreOptions(Env{GlobalConfig: special}); err != nil || o.Excludes != nil {
			t.Errorf("IgnoreOptions() with %q = %+v, %v", special, o, err)
		}
	}
	if err := os.Remove(filepath.Join(r.GitDir, "config")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(pipe, filepath.Join(r.GitDir, "index")); err != nil {
		t.Fatal(err)
	}
	if x, err := r.Index(); err != nil || x.Len() != 0 {
		t.Errorf("Index() of a pipe = %v, %v", x, err)
	}
}
