package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sample makes a tree with an empty file and directory, a link, and a
// directory that is more than one batch.
func sample(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "tree")
	if err := makeFiles(filepath.Join(root, "large"), 3*batch+1); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.MkdirAll(filepath.Join(root, "a", "b", "empty"), 0o777),
		os.WriteFile(filepath.Join(root, "a", "b", "none"), nil, 0o666),
		os.WriteFile(filepath.Join(root, "a", "big"), make([]byte, 3<<20), 0o666),
		os.Symlink("../nowhere", filepath.Join(root, "a", "link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestStatFloor(t *testing.T) {
	root := sample(t)
	files, size := 0, int64(0)
	err := filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			files, size = files+1, size+info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := runFloor("stat", []string{root}, &out); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d files, %d bytes\n", files, size); out.String() != want {
		t.Errorf("stat floor printed %q, want %q", out.String(), want)
	}
}

func TestCreateFloor(t *testing.T) {
	from, to := sample(t), t.TempDir()
	if err := runFloor("create", []string{from, to}, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(contents(t, from), contents(t, to)); diff != "" {
		t.Errorf("created tree (-want +got):\n%s", diff)
	}
}

func TestPackFloorSize(t *testing.T) {
	root, pack := sample(t), filepath.Join(t.TempDir(), "pack")
	if err := runFloor("pack", []string{root, pack}, nil); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(pack)
	if err != nil {
		t.Fatal(err)
	}
	// The small files compress together, though none does by itself; the big one is all zeros.
	small := int64(0)
	for name, text := range contents(t, root) {
		if filepath.Dir(name) == "large" {
			small += int64(len(text))
		}
	}
	if got := info.Size(); got < small/10 || got > small/2 {
		t.Errorf("pack has %d bytes, of %d in small files", got, small)
	}
}

func TestFloorErrors(t *testing.T) {
	for _, args := range [][]string{
		{"nope"},
		{"stat"},
		{"stat", filepath.Join(t.TempDir(), "nope")},
		{"hash", filepath.Join(t.TempDir(), "nope")},
	} {
		if err := runFloor(args[0], args[1:], nil); err == nil {
			t.Errorf("runFloor(%q) succeeded", args)
		}
	}
}

// contents returns what lies below root: content by path, links with their
// target after an arrow, and directories with a slash.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			all[name] = "/"
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			all[name] = "-> " + target
			return err
		default:
			data, err := os.ReadFile(path)
			all[name] = string(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
