package capture

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/tree"
)

// A sizeRule is how large files may be that a pattern matches.
type sizeRule struct {
	pattern string
	most    int64
}

// parseSizes reads tree.Limits.FileSizes.
func parseSizes(text string) (rules []sizeRule, err error) {
	for word := range strings.FieldsSeq(text) {
		pattern, size, _ := strings.Cut(word, "=")
		_, err := path.Match(pattern, "")
		n, serr := strconv.ParseInt(size, 10, 64)
		if err != nil || serr != nil || pattern == "" || n == 0 {
			return nil, fmt.Errorf("limit %q: want PATTERN=BYTES, or PATTERN=-1 for none", word)
		}
		if n < 0 {
			n = noLimit
		}
		rules = append(rules, sizeRule{pattern, n})
	}
	return rules, nil
}

// most returns how large a file may be: by the last rule that matches it, else as others.
func (j *dirJob) most(name string, size int64) int64 {
	c := j.c
	if size <= c.least {
		return c.least
	}
	return mostOf(c.limits.FileSize, c.sizes, name, j.path)
}

// mostOf is most of a name in a directory, of which the path is asked for if a rule needs it.
func mostOf(most int64, rules []sizeRule, name string, dir func() string) int64 {
	for _, r := range rules {
		of := name
		if strings.Contains(r.pattern, "/") {
			of = trees.Join(dir(), name)
		}
		if ok, _ := path.Match(strings.TrimPrefix(r.pattern, "/"), of); ok {
			most = r.most
		}
	}
	return most
}

// MostOf returns how large a file may be at a path for captures with such limits to take it.
func MostOf(limits tree.Limits, at string) (int64, error) {
	rules, err := parseSizes(limits.FileSizes)
	dir, name := trees.Split(at)
	return mostOf(withDefaults(limits).FileSize, rules, name, func() string { return dir }), err
}
