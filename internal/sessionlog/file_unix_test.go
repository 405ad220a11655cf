//go:build unix

package sessionlog

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/boocode/filestore/internal/vfs"
)

func TestFifo(t *testing.T) {
	name := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(t.Context(), name); !errors.Is(err, vfs.ErrNotRegular) {
		t.Errorf("OpenFile = %v", err)
	}
}
