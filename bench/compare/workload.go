package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// pick chooses n different regular files from the output of git ls-files -s -z,
// in random order: the same for the same index and the same state of rng.
// It never holds more than n names: the memory of this process shows in the
// peak RSS of those that it starts.
func pick(index io.Reader, n int, rng *rand.Rand) ([]string, error) {
	var picked []string
	seen := 0
	lines := bufio.NewScanner(index)
	lines.Split(splitNUL)
	for lines.Scan() {
		info, name, _ := bytes.Cut(lines.Bytes(), []byte("\t"))
		if !bytes.HasPrefix(info, []byte("100")) { // a link or a submodule
			continue
		}
		seen++
		if len(picked) < n {
			picked = append(picked, string(name))
		} else if i := rng.IntN(seen); i < n {
			picked[i] = string(name)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(picked) < n {
		return nil, fmt.Errorf("the tree has %d regular files, of which %d are to be changed", seen, n)
	}
	rng.Shuffle(n, func(i, j int) { picked[i], picked[j] = picked[j], picked[i] })
	return picked, nil
}

// splitNUL is a [bufio.SplitFunc] for strings that each end in a NUL.
func splitNUL(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
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
