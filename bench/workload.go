package main

import (
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/klauspost/compress/zstd"
)

// pick chooses n different regular files below root, in random order: the same
// for the same tree and the same state of rng. It leaves out names that begin
// with a dot, since rules may be in them, and what means something to a shell
// or as a pattern. It never holds more than n names: the memory of this process
// shows in the peaks of those that it starts.
func pick(root string, n int, rng *rand.Rand) ([]string, error) {
	var picked []string
	seen := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name()[0] == '.' || strings.ContainsFunc(path, unusual) {
			return err
		}
		name, err := filepath.Rel(root, path)
		seen++
		if len(picked) < n {
			picked = append(picked, name)
		} else if i := rng.IntN(seen); i < n {
			picked[i] = name
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	rng.Shuffle(len(picked), func(i, j int) { picked[i], picked[j] = picked[j], picked[i] })
	return picked, nil
}

func unusual(r rune) bool {
	return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-", r)
}

// change appends a line to each of names below root.
func change(root string, names []string, line string) error {
	for _, name := range names {
		f, err := os.OpenFile(filepath.Join(root, name), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = io.WriteString(f, line)
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// perDirectory is what the growth goal allows for a changed directory.
const perDirectory = 2560

// allowance returns how much a store may grow by a turn that changed names:
// their compressed content, and perDirectory for each directory above them.
func allowance(root string, names []string, encoder *zstd.Encoder) (int64, error) {
	var sum int64
	dirs := map[string]bool{}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return 0, err
		}
		sum += int64(min(len(data), len(encoder.EncodeAll(data, nil))))
		for dir := path.Dir(name); !dirs[dir]; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	return sum + int64(len(dirs))*perDirectory, nil
}

// makeFiles makes n small files in a new directory.
func makeFiles(dir string, n int) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fileName(i)), fmt.Appendf(nil, "file %d\n", i), 0o666); err != nil {
			return err
		}
	}
	return nil
}

func fileName(i int) string { return fmt.Sprintf("file-%06d", i) }
