package capture

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/gitrepo"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/store"
)

// What git sparse-checkout has taken out of the directory is neither there nor
// deleted. It is listed in the coverage, by directory: a directory of which all
// is taken out is one line. So what is listed follows the patterns of the
// checkout and the directories that are there, whatever the index holds.
//
// The stat cache notes with each name what git has taken out there, even if somebody
// has put something else in its place. So a capture reads the index only when that has
// changed, and looks at the directories again only when git has taken out other files.

// An outKind says what git has taken out at a name. The numbers are part of the
// stat cache.
type outKind uint8

const (
	outNone outKind = iota
	outFile
	outLink
	outDir  // all that git tracks below it
	outPart // something below it
)

// kind returns what would be there.
func (o outKind) kind() vfs.Kind {
	return [...]vfs.Kind{outFile: vfs.Regular, outLink: vfs.Symlink, outDir: vfs.Directory, outPart: vfs.Directory}[o]
}

// validOut checks what an entry of the stat cache says of what is taken out.
func validOut(e entry) bool {
	switch out := e.out(); {
	case out > outPart:
		return false
	case e.reason() != trees.Sparse:
		return true
	case out == outNone || e.kind() != out.kind():
		return false
	default:
		return (out == outPart) == !e.id().IsZero()
	}
}

// unknownOut stands in a cache of which the directories were captured while git took
// out different files.
var unknownOut = [16]byte(slices.Repeat([]byte{0xff}, 16))

// outCount returns how many omissions with the reason Sparse there are at a
// name of the stat cache.
func outCount(kind vfs.Kind, reason trees.Reason, out outKind, size int64) int64 {
	switch {
	case reason == trees.Sparse && out == outPart:
		return size
	case reason == trees.Sparse, reason == 0 && kind == vfs.Directory && out == outDir:
		return 1
	}
	return 0
}

// A sparseAt is what git had taken out when the index had a stamp.
type sparseAt struct {
	stamp  [16]byte
	sparse *gitrepo.Sparse
}

// findOut finds out whether git has taken out what it had when the cache was
// written.
func (c *capture) findOut() {
	was := c.cache.batch.out
	if s := c.left; s != nil {
		c.sparse = func() *gitrepo.Sparse { return s }
		c.outID, c.outSame = s.ID(), s.ID() == was
		return
	}
	c.sparse = c.readSparse()
	c.outID, c.outSame = was, was != unknownOut
	if c.asked && c.outSame {
		return
	}
	repo := c.ws.repo.Load()
	if repo != nil {
		if may, err := repo.MaySkip(); may || err != nil {
			s := c.sparse()
			if s == nil {
				return // as far as we know, it is as it was
			}
			c.outID, c.outSame = s.ID(), s.ID() == was
			return
		}
	}
	c.outID, c.outSame = [16]byte{}, was == [16]byte{}
}

// readSparse returns a function that reads what git has taken out once it is
// asked, unless it has been read for this state of the index before.
func (c *capture) readSparse() func() *gitrepo.Sparse {
	return sync.OnceValue(func() *gitrepo.Sparse {
		if known := c.ws.sparse.Load(); known != nil && known.stamp == c.stamp && c.stamp != [16]byte{} {
			return known.sparse
		}
		index, err := c.readIndex()
		if err != nil {
			return nil
		}
		s := new(gitrepo.Sparse)
		if index != nil {
			s = index.Sparse()
		}
		c.ws.sparse.Store(&sparseAt{c.stamp, s})
		return s
	})
}

// gitPath returns a path as the repository has it, which may be around the workspace.
// It may be called while a capture finds the repository anew.
func (ws *Workspace) gitPath(path string) string {
	repo := ws.repo.Load()
	if repo == nil {
		return path
	}
	below := filepath.ToSlash(strings.TrimPrefix(ws.Root, repo.Root))
	return trees.Join(strings.TrimPrefix(below, "/"), path)
}

// outPath returns a path as what is taken out has it.
func (c *capture) outPath(path string) string {
	if c.left != nil {
		return path
	}
	return c.ws.gitPath(path)
}

// readLeft returns what was left out when the directory was cloned, nil if nothing was. Nobody may
// take a path for deleted because this cannot be read.
func (ws *Workspace) readLeft() (*gitrepo.Sparse, error) {
	if ws.store == nil {
		return nil, nil
	}
	left, err := layout.ReadLeft(ws.store.FS(), layout.Worktree(ws.Worktree))
	if left == nil || err != nil {
		return nil, err
	}
	return gitrepo.NewSparse(left.Paths, left.Links), nil
}

// An outName is a name at which git has taken something out.
type outName struct {
	name string
	out  outKind
}

// outNames returns what git has taken out in the directory, in order of name.
func (j *dirJob) outNames() []outName {
	c := j.c
	var sparse *gitrepo.Sparse
	if !c.outSame || j.old == nil && j.out == outPart {
		sparse = c.sparse()
	}
	var list []outName
	switch {
	case sparse != nil:
		if j.out != outPart {
			return nil
		}
		if sparse.ID() != c.outID {
			c.outMoved.Store(true)
		}
		for _, n := range sparse.Names(c.outPath(j.path())) {
			if trees.ValidName(n.Name) { // or else git would not have it there
				list = append(list, outName{n.Name, outKindOf(n)})
			}
		}
	case j.old != nil:
		for i := range j.old.count() {
			if out := j.old.entry(i).out(); out != outNone {
				list = append(list, outName{j.old.name(i), out})
			}
		}
	}
	return list
}

func outKindOf(n gitrepo.SparseName) outKind {
	switch {
	case !n.Whole:
		return outPart
	case n.Kind == gitrepo.Symlink:
		return outLink
	case n.Kind == gitrepo.Dir:
		return outDir
	}
	return outFile
}

// mergeOut adds to the slots, which are in order of name, what git has taken
// out. Whether something is there all the same is found out by a visit.
func (j *dirJob) mergeOut() {
	if j.c.outSame && j.c.outID == [16]byte{} {
		return
	}
	for i := range j.slots {
		j.slots[i].out = outNone
	}
	n := len(j.slots)
	for _, out := range j.outNames() {
		i, ok := slices.BinarySearchFunc(j.slots[:n], out.name, func(s slot, name string) int {
			return strings.Compare(s.name, name)
		})
		if ok {
			j.slots[i].out = out.out
		} else {
			j.slots = append(j.slots, slot{name: out.name, old: -1, out: out.out})
		}
	}
	if len(j.slots) > n {
		slices.SortFunc(j.slots, byName)
	}
}

// takeOut makes an omission of a name that is gone, or was one before, and which
// git has taken out.
func (j *dirJob) takeOut(s *slot) error {
	out := slot{name: s.name, old: s.old, out: s.out, kind: s.out.kind(), reason: trees.Sparse}
	e := j.oldEntryOf(s)
	switch {
	case s.out != outPart:
	case e != nil && e.reason() == trees.Sparse && e.out() == outPart && j.c.outSame && !j.c.lookup:
		out.id, out.st.Size = e.id(), e.fileSize()
	default:
		sparse := j.c.sparse()
		if sparse == nil {
			s.gone = true // what is below it is not known
			return nil
		}
		var err error
		if out.id, out.st.Size, err = j.c.putOut(sparse, trees.Join(j.path(), s.name)); err != nil || out.st.Size == 0 {
			return err
		}
	}
	*s = out
	return nil
}

// putOut stores the coverage of a directory that is not there, of which git has
// taken out a part. It returns how many omissions are in it.
func (c *capture) putOut(sparse *gitrepo.Sparse, dir string) (cover store.ID, n int64, err error) {
	if sparse.ID() != c.outID {
		c.outMoved.Store(true)
	}
	var items []trees.Item
	for _, name := range sparse.Names(c.outPath(dir)) {
		if !trees.ValidName(name.Name) {
			continue
		}
		it := trees.Item{Name: name.Name}
		switch out := outKindOf(name); out {
		case outPart:
			below, m, err := c.putOut(sparse, trees.Join(dir, name.Name))
			if err != nil {
				return store.ID{}, 0, err
			}
			if n += m; m == 0 {
				continue
			}
			it.Attr, it.ID = trees.CoverageAttr(vfs.Directory, 0), below
		default:
			it.Attr, n = trees.CoverageAttr(out.kind(), trees.Sparse), n+1
		}
		items = append(items, it)
	}
	if len(items) == 0 {
		return store.ID{}, 0, nil
	}
	cover, err = trees.CoverageWriter(c.sink).Dir(items)
	return cover, n, err
}

// WhyTakenOut is why a restore does not put a file back that was there: git has
// taken it out of the directory since (git sparse-checkout), and nobody has
// asked for it by name.
const WhyTakenOut = "git's sparse checkout has taken it out"

// WhyLeftOut is the same of what was left out when the directory was cloned.
const WhyLeftOut = "'clone --only' has left it out"

// A Checkout says which files git has put into a workspace, and which it has
// taken out, by its index as it is when something is asked first.
type Checkout struct {
	ws     *Workspace
	index  func() *gitrepo.Index  // nil: there is none, or it cannot be read
	sparse func() *gitrepo.Sparse // nil: nothing is taken out
	left   *gitrepo.Sparse        // that, if it was clone that left it out; known once sparse was asked
}

// Checkout returns what git says of the workspace. Where it has taken out
// nothing, that costs the reading of a few bytes. If the index cannot be read,
// that is logged, and git has nothing to say.
func (ws *Workspace) Checkout() *Checkout {
	c := &Checkout{ws: ws}
	c.index = sync.OnceValue(func() *gitrepo.Index {
		index, _ := ws.gitIndex() // which has logged the error
		return index
	})
	c.sparse = sync.OnceValue(func() *gitrepo.Sparse {
		if left, err := ws.readLeft(); err != nil {
			ws.log.Warn("what was left out of the clone is not known", "root", ws.Root, "err", err)
		} else if c.left = left; left != nil {
			return left
		}
		repo := ws.repo.Load()
		if repo == nil {
			return nil
		}
		if may, err := repo.MaySkip(); !may && err == nil {
			return nil
		}
		if index := c.index(); index != nil {
			return index.Sparse()
		}
		return nil
	})
	return c
}

// TakenOut reports whether git tracks a file and has taken it out of the
// directory. Somebody may have put one there all the same.
func (c *Checkout) TakenOut(path string) bool {
	sparse := c.sparse()
	if c.left != nil {
		return c.left.Has(path)
	}
	path = c.ws.gitPath(path)
	return sparse != nil && sparse.Has(path) && c.index().Tracked(path)
}

// WhyOut says why a file is taken out that is.
func (c *Checkout) WhyOut() string {
	if c.left != nil {
		return WhyLeftOut
	}
	return WhyTakenOut
}

// Holds reports whether git tracks a file and has not taken it out.
func (c *Checkout) Holds(path string) bool {
	index := c.index()
	return index != nil && index.Tracked(c.ws.gitPath(path)) && !c.TakenOut(path)
}
