//go:build unix

package session

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/boocode/filestore/internal/vfs"
	"golang.org/x/sys/unix"
)

func TestFifo(t *testing.T) {
	name := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(t.Context(), name); !errors.Is(err, vfs.ErrNotRegular) {
		t.Errorf("OpenFile = %v", err)
	}
}
