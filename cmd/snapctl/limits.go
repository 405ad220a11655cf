package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/boocode/filestore/tree"
)

// limitFlags are the flags that bound a capture. As in [tree.Limits], 0 is
// the default and a negative number no limit.
type limitFlags struct {
	fileSize, newBytes, files quantity
}

func (l *limitFlags) addFileSize(f *pflag.FlagSet) {
	f.Var(&l.fileSize, "max-file-size", "leave out files above `SIZE`, e.g. 300MB, 2GiB or none (default 100MiB)")
}

func (l *limitFlags) addTotals(f *pflag.FlagSet) {
	f.Var(&l.newBytes, "max-bytes", "read at most `SIZE` that is new or changed, or none (default 4GiB)")
	f.Var(&l.files, "max-files", "capture at most `N` files and links, or none (default 2000000)")
}

func (l *limitFlags) limits() tree.Limits {
	return tree.Limits{FileSize: int64(l.fileSize), NewBytes: int64(l.newBytes), Files: int64(l.files)}
}

// A quantity is a flag that takes a number with or without a unit of bytes.
type quantity int64

func (*quantity) Type() string { return "SIZE" }

func (q *quantity) String() string {
	if *q == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*q), 10)
}

// units are in the order of need to look at: the longer ending first.
var units = []struct {
	name  string
	bytes float64
}{
	{"KIB", 1 << 10}, {"MIB", 1 << 20}, {"GIB", 1 << 30}, {"TIB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1},
}

func (q *quantity) Set(text string) error {
	if text == "none" {
		*q = -1
		return nil
	}
	number, factor := strings.ToUpper(text), 1.0
	for _, u := range units {
		if n, ok := strings.CutSuffix(number, u.name); ok {
			number, factor = n, u.bytes
			break
		}
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(f > 0) || f*factor < 1 || f*factor >= math.MaxInt64 {
		return fmt.Errorf("want a number above 0, with a unit such as MB or GiB, or none")
	}
	*q = quantity(f * factor)
	return nil
}
