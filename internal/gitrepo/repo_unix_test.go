//go:build unix

package gitrepo

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

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
