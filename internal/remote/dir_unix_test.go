//go:build unix

package remote_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/boocode/filestore/internal/remote"
)

// A pipe in the place of an object, which whoever shares the directory can put there, is not waited for.
func TestDirPipe(t *testing.T) {
	d, err := remote.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Create(t.Context(), "log/1", []byte("x")); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(d.Root(), "log", "1")
	if err := errors.Join(os.Remove(name), unix.Mkfifo(name, 0o600)); err != nil {
		t.Fatal(err)
	}
	if b, err := d.Get(t.Context(), "log/1", 0, -1); !errors.Is(err, remote.ErrRefused) {
		t.Errorf("Get: %q, %v", b, err)
	}
	if n, err := d.Stat(t.Context(), "log/1"); !errors.Is(err, remote.ErrRefused) {
		t.Errorf("Stat: %d, %v", n, err)
	}
}
