package main

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

func generated(t *testing.T, n, seed string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	if err := generateTree([]string{dir, n, seed}, nil); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestGeneratedTwice(t *testing.T) {
	a := generated(t, "300", "1")
	if diff := cmp.Diff(a, generated(t, "300", "1")); diff != "" {
		t.Errorf("two trees of one seed (-first +second):\n%s", diff)
	}
	if cmp.Equal(a, generated(t, "300", "2")) {
		t.Error("seeds 1 and 2 make the same tree")
	}
}

// TestGeneratedShape checks what generateTree says of its trees.
func TestGeneratedShape(t *testing.T) {
	const n = 1000
	all := generated(t, "1000", "1")
	if len(all) != n {
		t.Fatalf("%d files, want %d", len(all), n)
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int64
	sum, packed, empty, deepest := int64(0), 0, 0, 0
	dirs := map[string]int{}
	for name, text := range all {
		if text == "" {
			empty++
		}
		sizes, sum = append(sizes, int64(len(text))), sum+int64(len(text))
		packed += len(encoder.EncodeAll([]byte(text), nil))
		dirs[filepath.Dir(name)]++
		deepest = max(deepest, strings.Count(name, "/"))
	}
	for what, test := range map[string]struct{ got, low, high int64 }{
		"median size":            {median(sizes), 3000, 4000},
		"mean size":              {sum / n, 5000, 7500},
		"compressed, percent":    {int64(packed) * 100 / sum, 18, 30},
		"empty files":            {int64(empty), n / 100, n / 25},
		"directories with files": {int64(len(dirs)), n / 15, n / 5},
		"depth":                  {int64(deepest), 4, 12},
	} {
		if test.got < test.low || test.got > test.high {
			t.Errorf("%s: %d, want %d to %d", what, test.got, test.low, test.high)
		}
	}
}

func TestFileSizeSomeLarge(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	var sizes []int
	for range 20_000 {
		sizes = append(sizes, fileSize(rng))
	}
	if largest := slices.Max(sizes); largest < 256<<10 || largest > 2<<20 {
		t.Errorf("the largest of 20,000 files has %d bytes, want 256 KiB to 2 MiB", largest)
	}
}

func TestAppendSourceLength(t *testing.T) {
	for _, n := range []int{0, 1, 200, 201, 5000} {
		b := appendSource([]byte("before"), rand.New(rand.NewPCG(1, 0)), n)
		if len(b) != n+len("before") || !bytes.HasPrefix(b, []byte("before")) {
			t.Errorf("appendSource of %d bytes appended %d", n, len(b)-len("before"))
		}
	}
}
