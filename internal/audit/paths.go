package audit

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/internal/progress"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/store"
)

// A PathAmount is what a path has taken in several trees.
type PathAmount struct {
	Path     string
	IsDir    bool  // all files below it together
	Versions int   // different contents
	Size     int64 // of the newest
	Amount         // of the contents, each once: other paths may have them, too
}

// Paths returns what files and links take at each path of some trees, newest
// first, the most first. With a depth above 0, paths of more names are counted
// as the directory of so many names that they are in. Directories themselves
// count as nothing.
//
// A page is read once for each path at which it is.
func (t *Tally) Paths(ctx context.Context, roots []store.ID, depth int) ([]PathAmount, error) {
	t.progress = progress.Of(ctx)
	p := &pathTally{t: t, ctx: ctx, depth: depth}
	if err := p.dir("", 0, roots, true, nil); err != nil {
		return nil, err
	}
	slices.SortFunc(p.rows, func(a, b PathAmount) int {
		return cmp.Or(cmp.Compare(b.Stored, a.Stored), strings.Compare(a.Path, b.Path))
	})
	return p.rows, nil
}

type pathTally struct {
	t     *Tally
	ctx   context.Context
	depth int
	rows  []PathAmount
}

// dir counts what was below a path, of which it had the trees ids. newest says
// that the first of them is that of row's newest. row is where to count it; nil:
// in rows of its own. names is how many names the path has.
func (p *pathTally) dir(path string, names int, ids []store.ID, newest bool, row *PathAmount) error {
	found, err := p.read(path, ids)
	if err != nil {
		return err
	}
	for name, v := range found {
		path := trees.Join(path, name)
		if len(v.files) > 0 {
			if err := p.files(path, v, newest, row); err != nil {
				return err
			}
		}
		if len(v.dirs) == 0 {
			continue
		}
		below, newest := row, newest && v.newestDir
		if row == nil && names+1 == p.depth {
			p.t.round++
			below, newest = &PathAmount{Path: path, IsDir: true}, true
		}
		if err := p.dir(path, names+1, v.dirs, newest, below); err != nil {
			return err
		}
		if row == nil && below != nil {
			p.rows = append(p.rows, *below)
		}
	}
	return nil
}

// read collects the names in the trees of a directory.
func (p *pathTally) read(path string, ids []store.ID) (map[string]*versions, error) {
	names := &nameVisitor{p.t, make(map[string]*versions), make(map[named]bool), true}
	for _, id := range ids {
		top := topOf(trees.TreeReader(p.t.s), id)
		top.dir = path
		if err := top.visit(p.ctx, byPage, names); err != nil {
			return nil, err
		}
		names.newest = false
	}
	return names.found, nil
}

// A nameVisitor collects the names in several trees of one directory.
type nameVisitor struct {
	*Tally
	found  map[string]*versions
	seen   map[named]bool
	newest bool // the tree is the newest
}

// named is what a name stands for; "" is a page.
type named struct {
	name string
	id   store.ID
}

func (v *nameVisitor) enter(_ context.Context, p *place) (goOn bool, err error) {
	if v.seen[named{p.name, p.id}] {
		return false, nil
	}
	v.seen[named{p.name, p.id}] = true
	if p.name == "" {
		return true, nil
	}
	of := v.found[p.name]
	if of == nil {
		of = new(versions)
		v.found[p.name] = of
	}
	if !p.isBlob() {
		of.dirs = append(of.dirs, p.id)
		of.newestDir = of.newestDir || v.newest
	} else if of.files = append(of.files, p.id); len(of.files) == 1 {
		of.size, of.newestFile = int64(p.item.Size), v.newest
	}
	return false, nil
}

func (v *nameVisitor) leave(*place) {}

// files counts the versions of a file.
func (p *pathTally) files(path string, v *versions, newest bool, row *PathAmount) error {
	mine := row
	if mine == nil {
		p.t.round++
		mine = &PathAmount{Path: path}
	}
	for _, id := range v.files {
		n, err := p.t.blob(&place{kind: object.Blob, id: id, dir: path})
		if err != nil {
			return err
		}
		if p.t.objects[n].round != p.t.round {
			mine.Versions++
		}
		p.t.each([]Root{Root(n)}, func(n uint32) { mine.add(&p.t.objects[n]) })
	}
	if row == nil {
		mine.Size, mine.Versions = v.size, len(v.files)
		p.rows = append(p.rows, *mine)
	} else if newest && v.newestFile {
		mine.Size += v.size
	}
	return nil
}

// versions are what a name has been in a directory, newest first. Newest says
// that the directory's newest tree has it.
type versions struct {
	files      []store.ID
	size       int64 // of the first
	dirs       []store.ID
	newestFile bool
	newestDir  bool
}
