package gitrepo

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"unsafe"
)

// A Kind is what git tracks at a path.
type Kind uint8

// Kinds of what git tracks.
const (
	File    Kind = iota // a regular file
	Symlink             // a symbolic link
	Dir                 // a directory: a submodule, or one that stands in the index as a whole
)

func kindOf(mode uint32) Kind {
	switch mode &^ 0o7777 {
	case 0o120000:
		return Symlink
	case 0o040000, 0o160000:
		return Dir
	}
	return File
}

// A Sparse is what git has taken out of the working tree, as
// "git sparse-checkout" does: the index has it with the skip-worktree bit. It
// says nothing of the disk, where somebody may have put a file all the same.
//
// A directory below which everything that git tracks is taken out is one path,
// and the highest such: what there is of a Sparse follows the patterns of the
// checkout, not the size of the repository. It is the same whether the index
// is sparse or not.
//
// The zero value has taken out nothing. A Sparse is immutable.
type Sparse struct {
	paths []string // sorted; a directory ends in a slash
	links []string // those of paths that are symbolic links
	id    [16]byte
}

// A SparseName is a name in a directory, at which or below which something is
// taken out.
type SparseName struct {
	Name  string
	Kind  Kind
	Whole bool // all of it; otherwise it is a directory, and something below it is
}

// ID tells two Sparse apart. It is zero for one that has taken out nothing.
func (s *Sparse) ID() [16]byte { return s.id }

// Has reports whether a path is taken out, or a directory above it.
func (s *Sparse) Has(path string) bool {
	for i := range len(path) {
		if path[i] == '/' && s.has(path[:i+1]) {
			return true
		}
	}
	return s.has(path) || s.has(path+"/")
}

func (s *Sparse) has(path string) bool {
	_, ok := slices.BinarySearch(s.paths, path)
	return ok
}

// Names returns what is taken out in the directory dir, in order of name; ""
// is the root. There is nothing in one that is taken out as a whole. It costs
// what it returns.
func (s *Sparse) Names(dir string) []SparseName {
	prefix := ""
	if dir != "" {
		prefix = dir + "/"
	}
	var list []SparseName
	for i := s.search(prefix); i < len(s.paths); {
		rest, ok := strings.CutPrefix(s.paths[i], prefix)
		if !ok {
			break
		}
		if rest == "" { // dir itself
			return nil
		}
		name, below, isDir := strings.Cut(rest, "/")
		switch {
		case !isDir:
			kind := File
			if _, ok := slices.BinarySearch(s.links, s.paths[i]); ok {
				kind = Symlink
			}
			list = append(list, SparseName{name, kind, true})
			i++
		case below == "":
			list = append(list, SparseName{name, Dir, true})
			i++
		default:
			list = append(list, SparseName{name, Dir, false})
			i = s.search(prefix + name + "0") // which comes after the slash
		}
	}
	// A file "a.b" sorts before what is in a directory "a".
	slices.SortStableFunc(list, func(a, b SparseName) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(list, func(a, b SparseName) bool { return a.Name == b.Name })
}

func (s *Sparse) search(path string) int { return sort.SearchStrings(s.paths, path) }

// sparseDirs are the directories around the index entry that Index.Sparse looks
// at, from the root on.
type sparseDirs struct {
	of   *Sparse
	dirs []sparseDir
}

type sparseDir struct {
	name  string // with a slash at its end
	begin int    // where paths in it begin among those of the Sparse
	whole bool   // all in it is taken out, so far
}

// enter leaves the directories that do not hold name, and enters those that do.
func (d *sparseDirs) enter(name string) {
	keep := len(d.dirs) // mostly all: the deepest tells for those around it
	for keep > 0 && !(strings.HasPrefix(name, d.dirs[keep-1].name) && len(name) > len(d.dirs[keep-1].name)) {
		keep--
	}
	d.leave(keep)
	from := 0
	if keep > 0 {
		from = len(d.dirs[keep-1].name)
	}
	for i := strings.IndexByte(name[from:], '/'); i >= 0; i = strings.IndexByte(name[from:], '/') {
		if from += i + 1; from == len(name) { // a directory as a whole
			break
		}
		d.dirs = append(d.dirs, sparseDir{name[:from], len(d.of.paths), true})
	}
}

// leave leaves all but the first n directories; one of which all is taken out
// stands for the paths in it.
func (d *sparseDirs) leave(n int) {
	s := d.of
	for len(d.dirs) > n {
		left := d.dirs[len(d.dirs)-1]
		d.dirs = d.dirs[:len(d.dirs)-1]
		if !left.whole {
			d.holdMore()
			continue
		}
		s.paths = append(s.paths[:left.begin], left.name)
		// Links in it are no paths of their own any more.
		for len(s.links) > 0 && strings.HasPrefix(s.links[len(s.links)-1], left.name) {
			s.links = s.links[:len(s.links)-1]
		}
	}
}

// holdMore notes that the innermost directory holds something that is not taken out.
func (d *sparseDirs) holdMore() {
	if len(d.dirs) > 0 {
		d.dirs[len(d.dirs)-1].whole = false
	}
}

// Sparse returns what the index says is taken out.
func (x *Index) Sparse() *Sparse {
	s := new(Sparse)
	if !x.skips() {
		return s
	}
	around := sparseDirs{of: s}
	for name, e := range x.sorted() {
		around.enter(name)
		if !e.skip {
			around.holdMore()
			continue
		}
		if e.kind == Dir && !strings.HasSuffix(name, "/") { // a submodule
			name += "/"
		}
		if n := len(s.paths); n > 0 && s.paths[n-1] == name { // it is there in several stages
			continue
		}
		s.paths = append(s.paths, name)
		if e.kind == Symlink {
			s.links = append(s.links, name)
		}
	}
	around.leave(0)
	slices.Sort(s.paths) // "m/", a submodule, comes after "m.c"
	s.paths = slices.Clip(slices.Compact(s.paths))
	for _, list := range [][]string{s.paths, s.links} { // the index may go
		for i, p := range list {
			list[i] = strings.Clone(p)
		}
	}
	s.name()
	return s
}

// NewSparse returns what was taken out by others than git: paths, of which directories end in a
// slash and none is in another, and those of them that are symbolic links.
func NewSparse(paths, links []string) *Sparse {
	s := &Sparse{paths: slices.Sorted(slices.Values(paths)), links: slices.Sorted(slices.Values(links))}
	s.name()
	return s
}

// name gives a Sparse its ID.
func (s *Sparse) name() {
	h := sha256.New()
	for _, p := range s.paths {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	if len(s.paths) > 0 {
		copy(s.id[:], h.Sum(nil))
	}
}

// skips reports whether an entry has the skip-worktree bit.
func (x *Index) skips() bool {
	return slices.ContainsFunc(x.parts, func(n names) bool {
		return slices.ContainsFunc(n.span, func(s span) bool { return s.skip })
	})
}

// sorted yields the entries of all parts in order of name. A name is a piece of
// the index: who keeps it copies it.
func (x *Index) sorted() func(func(string, span) bool) {
	return func(yield func(string, span) bool) {
		next := make([]int, len(x.parts))
		for {
			first := -1
			for i, n := range x.parts {
				if next[i] < len(n.span) && (first < 0 ||
					string(n.at(next[i])) < string(x.parts[first].at(next[first]))) {
					first = i
				}
			}
			if first < 0 {
				return
			}
			n := x.parts[first]
			e := n.span[next[first]]
			next[first]++
			name := e.in(n.buf)
			if !yield(unsafe.String(unsafe.SliceData(name), len(name)), e) {
				return
			}
		}
	}
}

// MaySkip reports whether the index may have entries with the skip-worktree
// bit. It reads a few bytes: an index of version 2 has no room for the bit,
// and git writes that version as long as it needs no other.
func (r *Repo) MaySkip() (bool, error) {
	f, _, err := openFile(filepath.Join(r.GitDir, "index"))
	if f == nil || err != nil {
		return false, ignoreMissing(err)
	}
	defer f.Close()
	head := make([]byte, 8)
	if _, err := f.ReadAt(head, 0); err != nil {
		return true, nil // whoever reads it will say what is wrong
	}
	if string(head) != "DIRC\x00\x00\x00\x02" {
		return true, nil
	}
	names, err := os.ReadDir(r.GitDir)
	return slices.ContainsFunc(names, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), "sharedindex.") }),
		err
}
