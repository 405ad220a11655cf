package cas

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/boocode/filestore/internal/vfs"
)

// TestOwnerOf: a store that is not there is nobody's, whoever owns the directory above.
func TestOwnerOf(t *testing.T) {
	if !vfs.HasOwners {
		t.Skip("files have no owners here")
	}
	top := string(filepath.Separator)
	if os.Getuid() == 0 {
		top = t.TempDir()
		if err := os.Chown(top, 1234, -1); err != nil {
			t.Fatal(err)
		}
	}
	why := &fs.PathError{Op: "mkdir", Path: top, Err: fs.ErrPermission}
	if err := OwnerOf(filepath.Join(top, "no", "such"), why); err != error(why) {
		t.Errorf("below another user's: %v", err)
	}
	if err, ok := OwnerOf(top, why).(*OwnerError); !ok || err.Path != top {
		t.Errorf("another user's: %v", err)
	}
}
