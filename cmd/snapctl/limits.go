package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/boocode/filestore/tree"
)

// addParsed adds a flag of which parse reads the value.
func addParsed[T any](f *pflag.FlagSet, value *T, parse func(string) (T, error), name, usage string) {
	f.Func(name, usage, func(text string) (err error) {
		*value, err = parse(text)
		return err
	})
}

// limitFlags are the flags that bound a capture. As in [tree.Limits], 0 is
// the default and a negative number no limit.
type limitFlags struct {
	fileSize, newBytes, files int64
}

func (l *limitFlags) addFileSize(f *pflag.FlagSet) {
	addParsed(f, &l.fileSize, parseQuantity, "max-file-size",
		"leave out files above `SIZE`, e.g. 300MB, 2GiB or none (default 100MiB)")
}

func (l *limitFlags) addTotals(f *pflag.FlagSet) {
	addParsed(f, &l.newBytes, parseQuantity, "max-bytes",
		"read at most `SIZE` that is new or changed, or none (default 4GiB)")
	addParsed(f, &l.files, parseQuantity, "max-files", "capture at most `N` files and links, or none (default 2000000)")
}

// limits returns what the flags say, and the configuration where there is none.
func (l *limitFlags) limits(a *app) tree.Limits {
	set := func(key string) int64 {
		n, _ := parseQuantity(a.setting(key)) // as it was checked
		return n
	}
	sizes := ""
	if l.fileSize == 0 { // a flag is for all files
		sizes, _ = parseSizes(a.setting("max-file-sizes"))
	}
	return tree.Limits{FileSize: cmp.Or(l.fileSize, set("max-file-size")), FileSizes: sizes,
		NewBytes: cmp.Or(l.newBytes, set("max-bytes")), Files: cmp.Or(l.files, set("max-files"))}
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

// parseQuantity reads a number with or without a unit of bytes, -1 for none.
func parseQuantity(text string) (int64, error) {
	if text == "none" {
		return -1, nil
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
		return 0, errors.New("want a number above 0, with a unit such as MB or GiB, or none")
	}
	return int64(f * factor), nil
}

// parseSizes reads limits of single files, such as "*.psd=500MB assets/*=none", and writes
// them as [tree.Limits] has them.
func parseSizes(text string) (string, bool) {
	var words []string
	for word := range strings.FieldsSeq(text) {
		i := strings.LastIndexByte(word, '=')
		if i < 1 {
			return "", false
		}
		n, err := parseQuantity(word[i+1:])
		if _, bad := path.Match(word[:i], ""); err != nil || bad != nil || strings.Contains(word[:i], "=") {
			return "", false
		}
		words = append(words, fmt.Sprintf("%s=%d", word[:i], n))
	}
	return strings.Join(words, " "), true
}

// parsePercent reads a part of something, in percent.
func parsePercent(text string) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !strings.HasSuffix(text, "%") || !(n > 0 && n <= 100) {
		return 0, errors.New("want a part above 0% and up to 100%")
	}
	return n, nil
}
