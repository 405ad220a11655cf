package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var words = strings.Fields(`if for range return err nil func type struct string int error switch case default var const
	package import context ctx open read write close name path file dir size count index key value list node tree store
	snapshot session turn entry blob pack journal lock flush sync commit record time buffer bytes offset length limit
	parse format print encode decode check restore merge diff walk visit match found missing invalid unexpected`)

// line returns a line as source code has them.
func line(rng *rand.Rand) string {
	var b strings.Builder
	b.WriteString(strings.Repeat("\t", rng.IntN(4)))
	for i := range 2 + rng.IntN(9) {
		if i > 0 {
			b.WriteByte(" .(,"[rng.IntN(4)])
		}
		b.WriteString(words[rng.IntN(len(words))])
		if rng.IntN(5) == 0 {
			fmt.Fprint(&b, rng.IntN(1000))
		}
	}
	b.WriteByte('\n')
	return b.String()
}

// source returns the content of a source file: 3 KB mostly, sometimes 50.
func source(rng *rand.Rand) []byte {
	var b bytes.Buffer
	for range min(2000, 5+int(80*math.Exp(rng.NormFloat64()))) {
		b.WriteString(line(rng))
	}
	return b.Bytes()
}

// newName is a path that may be taken, some twenty files to a directory.
func newName(rng *rand.Rand, files int) string {
	dirs := max(1, files/20)
	d := rng.IntN(dirs)
	return fmt.Sprintf("m%d/p%d/%s_%s%d.go", d%23, d, words[rng.IntN(len(words))],
		words[rng.IntN(len(words))], rng.IntN(100))
}

func makeTree(root string, files int, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	for made := 0; made < files; {
		name := filepath.Join(root, newName(rng, files))
		if _, err := os.Lstat(name); err == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(name, source(rng), 0o666); err != nil {
			return err
		}
		made++
	}
	return nil
}

// A worker edits a tree as agents do: a turn changes files of a few directories,
// some again and again.
type worker struct {
	root  string
	rng   *rand.Rand
	names []string // relative, in no order
	hot   []string // worked on in this session

	changed changed
}

// changed is how much a worker did.
type changed struct {
	Edited int64 `json:"edited"` // bytes of lines that came
	Whole  int64 `json:"whole"`  // bytes of the files that changed
	Files  int   `json:"files"`  // changed, made and deleted
}

func newWorker(root string, seed uint64) (*worker, error) {
	w := &worker{root: root, rng: rand.New(rand.NewPCG(seed, 1))}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var rel string
			rel, err = filepath.Rel(root, path)
			w.names = append(w.names, rel)
		}
		return err
	})
	return w, err
}

// session chooses what the next turns are about.
func (w *worker) session() {
	w.hot = w.hot[:0]
	for range 40 {
		w.hot = append(w.hot, w.names[w.rng.IntN(len(w.names))])
	}
}

// turn changes one to ten files, mostly few.
func (w *worker) turn() error {
	for range 1 + min(w.rng.IntN(10), w.rng.IntN(10)) {
		var err error
		switch n := w.rng.IntN(20); {
		case n == 0:
			err = w.remove()
		case n == 1:
			err = w.create()
		default:
			err = w.edit()
		}
		if err != nil {
			return err
		}
		w.changed.Files++
	}
	return nil
}

func (w *worker) edit() error {
	name := w.names[w.rng.IntN(len(w.names))]
	if w.rng.IntN(5) > 0 {
		name = w.hot[w.rng.IntN(len(w.hot))]
	}
	path := filepath.Join(w.root, name)
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return w.create() // it was deleted in this session
	}
	if err != nil {
		return err
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	for range 1 + w.rng.IntN(3) {
		at := w.rng.IntN(len(lines))
		var put [][]byte
		for range w.rng.IntN(8) {
			put = append(put, []byte(line(w.rng)))
			w.changed.Edited += int64(len(put[len(put)-1]))
		}
		lines = slices.Replace(lines, at, min(len(lines), at+w.rng.IntN(8)), put...)
		if len(lines) == 0 {
			break
		}
	}
	b = append(bytes.Join(lines, nil), line(w.rng)...) // it is another file in any case
	w.changed.Whole += int64(len(b))
	return os.WriteFile(path, b, 0o666)
}

func (w *worker) create() error {
	name := newName(w.rng, len(w.names))
	path := filepath.Join(w.root, name)
	if _, err := os.Lstat(path); err != nil {
		w.names = append(w.names, name)
	}
	w.hot[w.rng.IntN(len(w.hot))] = name
	b := source(w.rng)
	w.changed.Edited += int64(len(b))
	w.changed.Whole += int64(len(b))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o666)
}

func (w *worker) remove() error {
	i := w.rng.IntN(len(w.names))
	name := w.names[i]
	w.names = slices.Delete(w.names, i, i+1)
	return os.Remove(filepath.Join(w.root, name))
}
