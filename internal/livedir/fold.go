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
	first := make(map[string]string) // by what spellings have in common, of a path or one above it
	doubtful := make(map[string]bool)
	for p := range paths {
		for at := p; at != ""; at, _ = trees.Split(at) {
			common := folded(at)
			if was, ok := first[common]; !ok {
				first[common] = at
			} else if was != at {
				doubtful[common] = true
			}
		}
	}
	if len(doubtful) == 0 { // as nearly everywhere
		return nil
	}
	is := make(map[string]bool)
	for p := range paths {
		for at := p; at != ""; at, _ = trees.Split(at) {
			if doubtful[folded(at)] {
				is[p] = true
				break
			}
		}
	}
	return is
}

// folded returns what all spellings of a path have in common, whatever file system has them.
// Other paths may have it, too: what is not ASCII is not told apart.
func folded(path string) string {
	names := strings.Split(path, "/")
	for i, name := range names {
		names[i] = strings.ToLower(name)
		if strings.IndexFunc(name, func(r rune) bool { return r >= 0x80 }) >= 0 {
			names[i] = "?"
		}
	}
	return strings.Join(names, "/")
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
