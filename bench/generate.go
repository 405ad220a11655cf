package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// generateTree makes a tree of N files in DIR, the same for the same N and
// SEED. Its shape is that of a large source tree:
//
//   - a directory with more than about 25 files below it has up to 20 files of
//     its own and 2 to 10 directories, of unlike sizes; 800,000 files come to
//     some 60,000 directories, most of them 6 to 9 deep;
//   - 1 file in 50 is empty, 1 in 5,000 has 256 KiB to 2 MiB, and the sizes of
//     the others are log-normal with a median of 3.5 KiB and a mean of 6 KiB;
//   - files are lines of words and names as in source code, of which each file
//     has some of its own, and compress to about a quarter.
func generateTree(args []string, stdout io.Writer) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return err
	}
	type job struct {
		number int
		path   string
	}
	jobs := make(chan job, 64)
	errs := make([]error, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			var buf []byte
			for j := range jobs {
				rng := rand.New(rand.NewPCG(seed, uint64(j.number)+1))
				buf = appendSource(buf[:0], rng, fileSize(rng))
				if err := os.WriteFile(j.path, buf, 0o666); err != nil {
					errs[w] = err
				}
			}
		})
	}
	number := 0
	err = layOut(args[0], n, rand.New(rand.NewPCG(seed, 0)), func(path string) {
		number++
		jobs <- job{number, path}
	})
	close(jobs)
	wg.Wait()
	return errors.Join(append(errs, err)...)
}

// layOut makes the directories for n files in dir and calls file with the path
// of each, when its directory is there.
func layOut(dir string, n int, rng *rand.Rand, file func(path string)) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	own := n
	if n > 5+rng.IntN(40) {
		own = rng.IntN(min(20, n))
	}
	for i := range own {
		file(filepath.Join(dir, words[rng.IntN(len(words))]+"_"+strconv.Itoa(i)+".c"))
	}
	rest := n - own
	for i := 2 + rng.IntN(9); rest > 0; i-- {
		part := rest
		if i > 1 {
			part = min(rest, 1+rng.IntN(2*rest/i+1))
		}
		if err := layOut(filepath.Join(dir, fmt.Sprintf("%s%d", words[rng.IntN(len(words))], i)),
			part, rng, file); err != nil {
			return err
		}
		rest -= part
	}
	return nil
}

func fileSize(rng *rand.Rand) int {
	switch {
	case rng.IntN(50) == 0:
		return 0
	case rng.IntN(5000) == 0:
		return 256<<10 + rng.IntN(1792<<10)
	}
	return min(256<<10, 1+int(3584*math.Exp(rng.NormFloat64())))
}

var words = strings.Fields(`if else for while return static int char void struct const unsigned long size_t u32 NULL err ret
	goto out case break switch sizeof list node entry buffer offset length flags state index count device driver page lock
	unlock queue event handler init probe remove register read write alloc free update check parse copy next prev head`)

// appendSource appends size bytes of what looks like source code.
func appendSource(b []byte, rng *rand.Rand, size int) []byte {
	end := len(b) + size
	var own [16]string // the names that this file is about
	for i := range own {
		own[i] = words[rng.IntN(len(words))] + "_" + words[rng.IntN(len(words))]
		if i%4 == 0 {
			own[i] += strconv.Itoa(rng.IntN(1000))
		}
	}
	begin := len(b)
	for len(b) < end {
		if have := len(b) - begin; have > 200 && rng.IntN(3) == 0 {
			from := begin + rng.IntN(have-150)
			b = append(b, b[from:from+50+rng.IntN(100)]...) // much in source code is there twice
		}
		b = append(b, "\t\t\t\t"[:rng.IntN(4)]...)
		for i := range 1 + rng.IntN(9) {
			if i > 0 {
				b = append(b, " ->(, = "[rng.IntN(8)])
			}
			switch rng.IntN(10) {
			case 0:
				b = strconv.AppendInt(b, rng.Int64N(5000), 10)
			case 1, 2, 3, 4:
				b = append(b, own[rng.IntN(1+rng.IntN(len(own)))]...) // the first ones more often
			default:
				b = append(b, words[rng.IntN(1+rng.IntN(len(words)))]...)
			}
		}
		b = append(b, ";\n"...)
	}
	return b[:end]
}

// wideTree makes N small files in DIR.
func wideTree(args []string, _ io.Writer) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	return makeFiles(args[0], n)
}
