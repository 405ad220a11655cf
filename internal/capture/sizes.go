package capture

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/boocode/filestore/internal/trees"
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
	most := c.limits.FileSize
	for _, r := range c.sizes {
		of := name
		if strings.Contains(r.pattern, "/") {
			of = trees.Join(j.path(), name)
		}
		if ok, _ := path.Match(strings.TrimPrefix(r.pattern, "/"), of); ok {
			most = r.most
		}
	}
	return most
}
