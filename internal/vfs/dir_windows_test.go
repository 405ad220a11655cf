package vfs_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/boocode/filestore/internal/vfs"
)

// testDirUnix checks what needs links, fifos and permission bits.
func testDirUnix(*testing.T, dirOpener) {}

// What no file can be called is not there.
func TestNoName(t *testing.T) {
	d, err := vfs.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	_, derr := d.OpenDir("*")
	_, ferr := d.Open("*.nope", nil)
	for i, err := range []error{d.Lstat("*.nope", new(vfs.Stat)), derr, ferr} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%d: %v", i, err)
		}
	}
}
