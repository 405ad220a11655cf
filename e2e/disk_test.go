package e2e

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A disk is what was in a directory at some time, as somebody saw it who knows nothing
// of snapshots: the mode and the bytes of each file and link, by path. Directories are
// told by what is in them.
type disk map[string]string

// diskOf looks at a directory. What git has for itself is left out.
func diskOf(t testing.TB, dir string) disk {
	t.Helper()
	d := disk{}
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err):
			return nil // it went meanwhile
		case err != nil:
			return err
		case e.IsDir() && e.Name() == ".git":
			return fs.SkipDir
		case e.IsDir():
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		var content []byte
		if e.Type() == fs.ModeSymlink {
			target, _ := os.Readlink(name)
			content = []byte(target)
		} else if content, err = os.ReadFile(name); err != nil {
			return nil
		}
		path, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		d[path] = fmt.Sprintf("%v %s", info.Mode(), content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// changes returns what has to be done to a disk to have another, a line per path as
// "snapctl log --name-status" has them.
func (d disk) changes(to disk) []string {
	var list []string
	all := maps.Clone(d)
	maps.Copy(all, to)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		before, was := d[path]
		after, is := to[path]
		switch {
		case !was:
			list = append(list, "A "+path)
		case !is:
			list = append(list, "D "+path)
		case before != after:
			list = append(list, "M "+path)
		}
	}
	return list
}
