package capture

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/boocode/filestore/internal/gitrepo"
	"github.com/boocode/filestore/internal/ignore"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/tree"
)

// ruled returns what the last capture had of a name, if that says what the rules say of it; else nil.
func (j *dirJob) ruled(s *slot) entry {
	if s.old < 0 || j.old.rules() != j.rulesID {
		return nil
	}
	e := j.old.entry(s.old)
	switch {
	case e.reason() == trees.Sparse, e.reason() == trees.OverBudget, // nobody has asked the rules
		(e.kind() == vfs.Directory) != (s.kind == vfs.Directory):
		return nil
	}
	return e
}

// ignored reports whether a name is to be left out by the rules. What git
// tracks is captured all the same.
func (j *dirJob) ignored(s *slot) bool {
	isDir := s.kind == vfs.Directory
	e := j.ruled(s)
	if e != nil {
		s.matched = e.flags()&flagMatched != 0
	} else {
		s.matched = j.forced || j.rules.Match(s.name, isDir)
	}
	if !s.matched {
		return false
	}
	if e != nil && j.c.asked {
		return e.reason() == trees.Ignored
	}
	return !j.c.tracked(trees.Join(j.path(), s.name), isDir)
}

// tracked reports whether git tracks a path, or anything below it.
func (c *capture) tracked(path string, isDir bool) bool {
	index, err := c.readIndex()
	if index == nil || err != nil {
		return false
	}
	path = c.ws.gitPath(path)
	if isDir {
		return index.TrackedUnder(path)
	}
	return index.Tracked(path)
}

// readIndex returns git's index, nil outside of git. An error is noted, too.
func (c *capture) readIndex() (*gitrepo.Index, error) {
	index, err := c.index()
	if err != nil {
		if isFatal(err) {
			c.fail(err)
		}
		c.unasked.Store(true) // Workspace.gitIndex has logged the error
	}
	return index, err
}

var patternFiles = [2]string{".gitignore", ".booignore"}

// A patternFile is what the rules of a directory were made from.
type patternFile struct {
	content []byte   // nil: no such file, or it cannot be read
	st      vfs.Stat // that the content belongs to
}

// readPatterns reads the pattern files of the directory and sets its rules.
func (j *dirJob) readPatterns(w *worker) {
	if j.forced {
		j.rules, j.rulesID = nil, forcedRules
		return
	}
	var old [2][]byte
	if j.old != nil {
		old[0], old[1] = j.old.files()
	}
	found := false
	for i, name := range patternFiles {
		at, ok := j.findName(name)
		if !ok {
			continue
		}
		if err := j.dir.Lstat(name, &w.st); err != nil || w.st.Kind != vfs.Regular {
			continue // git does not follow a link here, either
		}
		if e := j.oldEntry(at); e != nil && old[i] != nil && e.flags()&flagRacy == 0 &&
			e.same(&w.st, j.st.Dev) && e.ctime() < j.c.reliable {
			j.patterns[i] = patternFile{old[i], w.st}
		} else {
			p, err := readPatternFile(j.dir, name)
			if err == errTooLarge {
				j.c.ws.log.Warn("patterns are not used: what they would leave out is captured",
					"path", trees.Join(j.path(), name), "bytes", p.st.Size, "most", maxPatternFile)
			}
			if err != nil {
				continue // as in git; the name itself is recorded as unreadable
			}
			j.patterns[i] = p
		}
		found = true
	}
	if found {
		j.rules = j.rules.WithFiles(j.patterns[0].content, j.patterns[1].content)
	}
	j.rulesID = j.rules.ID()
}

// forcedRules is the id of the rule that everything is ignored.
var forcedRules = [16]byte{'f', 'o', 'r', 'c', 'e', 'd'}

// findName finds a name among the slots, or in the old block if there are
// none yet.
func (j *dirJob) findName(name string) (int, bool) {
	if j.slots != nil {
		i := sort.Search(len(j.slots), func(i int) bool { return j.slots[i].name >= name })
		return i, i < len(j.slots) && j.slots[i].name == name
	}
	if j.old == nil {
		return 0, false
	}
	i := sort.Search(j.old.count(), func(i int) bool { return j.old.name(i) >= name })
	return i, i < j.old.count() && j.old.name(i) == name
}

// oldEntry returns what the cache knows of the name that findName found.
func (j *dirJob) oldEntry(at int) entry {
	if j.slots != nil {
		if at = j.slots[at].old; at < 0 {
			return nil
		}
	}
	return j.old.entry(at)
}

// maxPatternFile is less than git's own limit, which is 100 MiB (dir.c, PATTERN_MAX_FILE_SIZE): a
// pattern of two bytes takes 200 in memory or more, and each name is asked of all.
const maxPatternFile = 2 << 20

func readPatternFile(dir vfs.Dir, name string) (p patternFile, err error) {
	f, err := dir.Open(name, &p.st)
	if err != nil {
		return p, err
	}
	defer f.Close()
	if p.st.Size > maxPatternFile {
		return p, errTooLarge
	}
	if p.content, err = io.ReadAll(io.LimitReader(f, maxPatternFile)); err != nil {
		return patternFile{}, err
	}
	return p, nil
}

// outsideGit is ignored where no git repository says what to ignore.
const outsideGit = "node_modules/\n.pi/\n"

// findRules makes the rules that hold at the root of the workspace, which
// may lie below the root of the repository.
func (ws *Workspace) findRules(env tree.GitEnv) error {
	own := ws.ownPatterns()
	if ws.repo.Load() == nil {
		ws.rules = ignore.Root(ignore.Options{Defaults: []byte(outsideGit), Own: own})
		return nil
	}
	opts, err := ws.repo.Load().IgnoreOptions(gitrepo.Env{
		Home: env.Home, XDGConfigHome: env.XDGConfigHome, SystemConfig: env.SystemConfig,
	})
	if err != nil {
		// As git does, go on with what the repository itself says.
		ws.log.Warn("git configuration cannot be read", "root", ws.Root, "err", err)
		if opts, err = ws.repo.Load().IgnoreOptions(gitrepo.Env{}); err != nil {
			opts = ignore.Options{}
		}
	}
	opts.Own = own
	ws.rules = ignore.Root(opts)
	below := ws.gitPath("")
	if below == "" {
		return nil
	}
	dir := ws.repo.Load().Root
	for name := range strings.SplitSeq(below, "/") {
		ws.rules = ws.rules.WithFiles(patternFilesIn(dir)).Sub(name)
		dir = filepath.Join(dir, name)
	}
	return nil
}

// ownPatterns reads the user's own patterns. A file that is not there has none, and a pipe or a device
// in its place is not waited for.
func (ws *Workspace) ownPatterns() []byte {
	if ws.ignoreFile == "" {
		return nil
	}
	var b []byte
	st, err := os.Stat(ws.ignoreFile)
	switch {
	case err != nil:
	case !st.IsDir() && !st.Mode().IsRegular():
		err = errors.New("it is no file")
	case st.Size() > maxPatternFile:
		err = errTooLarge
	default:
		b, err = os.ReadFile(ws.ignoreFile)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			ws.log.Warn("patterns for all projects cannot be read: what they leave out is captured",
				"path", ws.ignoreFile, "err", err)
		}
		return nil
	}
	return b
}

// patternFilesIn reads the pattern files of a directory above the root.
func patternFilesIn(dir string) (gitignore, booignore []byte) {
	d, err := vfs.OpenDir(dir)
	if err != nil {
		return nil, nil
	}
	defer d.Close()
	// As in git, one that cannot be read has no patterns.
	git, _ := readPatternFile(d, patternFiles[0])
	boo, _ := readPatternFile(d, patternFiles[1])
	return git.content, boo.content
}
