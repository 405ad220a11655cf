package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

func TestPick(t *testing.T) {
	dir := t.TempDir()
	if err := makeFiles(dir, 500); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".gitignore", "with space", "a*", "\xff"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	from := func(seed uint64, n int) []string {
		names, err := pick(dir, n, rand.New(rand.NewPCG(seed, 0)))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}

	if diff := cmp.Diff(from(1, 60), from(1, 60)); diff != "" {
		t.Errorf("two picks by one seed (-first +second):\n%s", diff)
	}
	if slices.Equal(from(1, 60), from(2, 60)) {
		t.Error("seeds 1 and 2 pick the same files")
	}
	all := from(1, 502)
	slices.Sort(all)
	if got := len(slices.Compact(all)); got != 500 || all[0] != fileName(0) {
		t.Errorf("pick of all has %d different names, the first %q, want the 500 of plain names", got, all[0])
	}
}

func TestChange(t *testing.T) {
	dir := t.TempDir()
	if err := makeFiles(dir, 2); err != nil {
		t.Fatal(err)
	}
	if err := change(dir, []string{fileName(1)}, "more\n"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		fileName(0): "file 0\n",
		fileName(1): "file 1\nmore\n",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q (%v), want %q", name, got, err, want)
		}
	}
	if err := change(dir, []string{"nope"}, "more\n"); err == nil {
		t.Error("change of a file that does not exist succeeded")
	}
}

func TestAllowance(t *testing.T) {
	dir := t.TempDir()
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{
		"top":   "x", // too short to compress
		"a/one": strings.Repeat("line\n", 1000),
		"a/b/c": "y",
	}
	for name, text := range content {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	packed := int64(len(encoder.EncodeAll([]byte(content["a/one"]), nil)))
	for _, test := range []struct {
		names []string
		want  int64
	}{
		{nil, 0},
		{[]string{"top"}, 1 + perDirectory},
		{[]string{"a/one"}, packed + 2*perDirectory},
		{[]string{"a/one", "a/b/c", "top"}, packed + 2 + 3*perDirectory},
	} {
		if got, err := allowance(dir, test.names, encoder); err != nil || got != test.want {
			t.Errorf("allowance(%q) = %d, %v; want %d", test.names, got, err, test.want)
		}
	}
}
