package livedir

import (
	"iter"
	"strings"

	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
)

// A file system may find one file by several spellings of its name: in capitals or not, or
// with an accent as one character or two. Then "readme" seems to be there when "README" is.
// So where two paths of one set may be such, the names in their directories are read: a
// path is there only in its own spelling.

// spellings returns those of some paths that may be spellings of another of them, or may
// lie in directories that are.
func spellings(paths iter.Seq[string]) map[string]bool {
	type place struct {
		up   int    // the number of the directory; 0: the root
		name string // folded
	}
	type spelt struct {
		name   string
		number int
	}
	first := make(map[place]spelt)
	doubtful := make(map[int]bool) // by number
	for p := range paths {
		up := 0
		for name := range strings.SplitSeq(p, "/") {
			at := place{up, folded(name)}
			was, ok := first[at]
			if !ok {
				was = spelt{name, len(first) + 1}
				first[at] = was
			} else if was.name != name {
				doubtful[was.number] = true
			}
			up = was.number
		}
	}
	if len(doubtful) == 0 { // as nearly everywhere
		return nil
	}
	is := make(map[string]bool)
	for p := range paths {
		up := 0
		for name := range strings.SplitSeq(p, "/") {
			if up = first[place{up, folded(name)}].number; doubtful[up] {
				is[p] = true
				break
			}
		}
	}
	return is
}

// folded returns what all spellings of a name have in common, whatever file system has them.
// Other names may have it, too: what is not ASCII is not told apart.
func folded(name string) string {
	if strings.IndexFunc(name, func(r rune) bool { return r >= 0x80 }) >= 0 {
		return "?"
	}
	return strings.ToLower(name)
}

// distinguish has Entry tell paths of a set from each other that differ in spelling alone.
// It holds until it is called again.
func (r *Root) distinguish(paths iter.Seq[string]) {
	r.spellings, r.names = spellings(paths), nil
}

// isSpelt reports whether a path that was found is there in this spelling.
func (r *Root) isSpelt(path string) (bool, error) {
	up, name := trees.Split(path)
	if r.names == nil {
		r.names = make(map[string]map[string]bool)
	}
	names, known := r.names[up]
	if !known {
		dir, err := r.enter(up)
		if err != nil {
			return false, err
		}
		names = make(map[string]bool)
		if err := dir.ReadNames(func(name []byte, _ vfs.Kind) { names[string(name)] = true }); err != nil {
			return false, err
		}
		r.names[up] = names
	}
	if !names[name] || up == "" {
		return names[name], nil
	}
	return r.isSpelt(up)
}
