package livedir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/internal/vfs/vfstest"
	"github.com/boocode/filestore/rollback"
)

// A renameDir calls on before each rename.
type renameDir struct {
	vfs.Dir
	on func() error
}

func (d *renameDir) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.Dir.OpenDir(name)
	return &renameDir{sub, d.on}, err
}

func (d *renameDir) Rename(name string, to vfs.Dir, newname string, mode vfs.RenameMode) error {
	return errors.Join(d.on(), d.Dir.Rename(name, to.(*renameDir).Dir, newname, mode))
}

// TestModeChangedMeanwhile: a directory whose mode somebody changes while the restore puts files in
// place keeps that.
func TestModeChangedMeanwhile(t *testing.T) {
	vfstest.NeedPerm(t, 0o711)
	left := world{"d": "dir 755", "e": "dir 755", "f": "file 644 2"}
	want := world{"d": "dir 750", "e": "dir 750", "f": "file 644 1"}
	b := newBench(t)
	left.write(t, b.dir)
	p := b.plan(b.wants(left, want), rollback.Skip)
	dir, err := vfs.OpenDir(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	root := NewRoot(&renameDir{dir, func() error { return os.Chmod(filepath.Join(b.dir, "d"), 0o711) }})
	defer root.Close()
	err = p.Save(t.Context(), root, b.w)
	if err == nil {
		err = p.Apply(t.Context(), root, b.store, "testtest")
	}
	if err != nil {
		t.Fatal(err)
	}
	want["d"] = "dir 711"
	b.expect(want)
	if got := outcome(p)["d"]; got != "skipped: its mode was changed since" {
		t.Errorf("of the directory it says %q", got)
	}
}
