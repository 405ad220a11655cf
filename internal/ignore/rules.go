package ignore

import (
	"encoding/binary"
	"slices"

	"github.com/zeebo/blake3"
)

// Options are what applies to a whole repository. The byte slices are kept
// and must not change.
type Options struct {
	IgnoreCase bool   // core.ignoreCase: ASCII letters match in either case
	Excludes   []byte // content of core.excludesFile, the lowest of git's levels
	Info       []byte // content of $GIT_DIR/info/exclude, above Excludes
	Defaults   []byte // patterns of ours below all others, such as "node_modules/\n"
	Own        []byte // patterns of the user's for all projects, above git's levels and below the .booignore files
}

// Rules are the patterns in force in one directory.
type Rules struct {
	up   *Rules // the parent directory, nil for the root
	name string // of the directory in its parent
	base int    // length of the directory's path from the root, with a final slash
	in   *force
}

// force is what a directory shares with the subdirectories that have no
// pattern files of their own.
type force struct {
	git, boo *list // highest precedence first
	fold     bool
	id       [16]byte
}

// version is part of every ID: it changes when equal bytes get other answers.
const version = "ignore 1"

// Root returns the rules for the root of a repository, before the pattern
// files that lie in it.
func Root(o Options) *Rules {
	in := &force{fold: o.IgnoreCase}
	in.boo = push(in.boo, o.Own, 0, in.fold)
	for _, text := range [][]byte{o.Defaults, o.Excludes, o.Info} {
		in.git = push(in.git, text, 0, in.fold)
	}
	fold := byte(0)
	if o.IgnoreCase {
		fold = 1
	}
	parts := [][]byte{[]byte(version), {fold}, o.Defaults, o.Excludes, o.Info}
	if len(o.Own) > 0 { // otherwise the ID is that of a program that knows of none
		parts = append(parts, o.Own)
	}
	in.id = sum(parts...)
	return &Rules{in: in}
}

// WithFiles returns the rules for the same directory with the contents of
// the .gitignore and the .booignore that lie in it; nil where there is none.
// The slices are kept and must not change.
func (r *Rules) WithFiles(gitignore, booignore []byte) *Rules {
	if len(gitignore) == 0 && len(booignore) == 0 {
		return r
	}
	// The place is part of the ID, because "/x" here is not "/x" in the
	// parent; within one chain of directories the length of the path says it.
	place := binary.BigEndian.AppendUint64(nil, uint64(r.base))
	in := &force{
		git:  push(r.in.git, gitignore, r.base, r.in.fold),
		boo:  push(r.in.boo, booignore, r.base, r.in.fold),
		fold: r.in.fold,
		id:   sum(r.in.id[:], place, gitignore, booignore),
	}
	return &Rules{up: r.up, name: r.name, base: r.base, in: in}
}

// Sub returns the rules that the subdirectory name inherits, before the
// pattern files that lie in it.
func (r *Rules) Sub(name string) *Rules {
	return &Rules{up: r, name: name, base: r.base + len(name) + len("/"), in: r.in}
}

// ID identifies the patterns in force: rules with equal IDs, asked in the
// same directory, give equal answers. It survives the process.
func (r *Rules) ID() [16]byte { return r.in.id }

// Match reports whether name, one component, in this directory is ignored.
// The directory itself is taken not to be; isDir is false for a symbolic link
// to a directory.
func (r *Rules) Match(name string, isDir bool) bool {
	var space [256]byte
	path := r.path(space[:0], name)
	if r.in.fold {
		lower(path)
	}
	for _, l := range [...]*list{r.in.boo, r.in.git} {
		for ; l != nil; l = l.below {
			if v := l.last(path[l.base:], path[r.base:], isDir); v != 0 {
				return !v.negated()
			}
		}
	}
	return false
}

// path returns the path of name from the root, in buf if it fits.
func (r *Rules) path(buf []byte, name string) []byte {
	p := slices.Grow(buf, r.base+len(name))[:r.base+len(name)]
	copy(p[r.base:], name)
	for d := r; d.up != nil; d = d.up {
		copy(p[d.up.base:], d.name)
		p[d.base-1] = '/'
	}
	return p
}

// sum hashes the parts so that no two sequences of parts look the same.
func sum(parts ...[]byte) (id [16]byte) {
	var b []byte
	for _, p := range parts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	h := blake3.Sum256(b)
	return [16]byte(h[:16])
}

// lower folds ASCII letters in place and leaves all other bytes alone, which
// bytes.ToLower does not.
func lower(b []byte) {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
}
