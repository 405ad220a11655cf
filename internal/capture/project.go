package capture

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/boocode/filestore/internal/gitrepo"
	"github.com/boocode/filestore/internal/object"
	"github.com/boocode/filestore/tree"
)

// A CaptureProject is a [tree.Project] and the git repository around it.
type Project struct {
	tree.Project
	repo    atomic.Pointer[gitrepo.Repo] // nil outside of git
	repoErr error                        // why the repository cannot be read, if there seems to be one
}

// FindProject looks at a directory and for the git repository around it.
// Nothing is read but what says where things are.
func FindProject(root string) (*Project, error) {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, err
	}
	if real, err = filepath.Abs(real); err != nil {
		return nil, err
	}
	st, err := os.Stat(real)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("%q: not a directory", root)
	}
	p := &Project{Project: tree.Project{Root: real, Main: real, Worktree: PathHash(real)}}
	// A repository that is broken, say a .git file that points nowhere, is
	// no reason to leave the user without snapshots.
	repo, ok, err := gitrepo.Find(real)
	p.repoErr = err
	if ok && err == nil {
		p.Main = repo.MainRoot
		p.repo.Store(repo)
	}
	return p, nil
}

// ProjectAround is FindProject of the root of the git repository around a directory, or
// of the directory itself.
func ProjectAround(dir string) (*Project, error) {
	p, err := FindProject(dir)
	if err == nil && p.repo.Load() != nil {
		p.Root = p.repo.Load().Root
		p.Worktree = PathHash(p.Root)
	}
	return p, err
}

// Hash names the project's store: half a BLAKE3 hash of the main path, as 32
// hex digits. All linked worktrees of a repository share it.
func (p *Project) Hash() string { return PathHash(p.Main) }

// GitDir returns the git directory of the working tree, "" outside of git. A linked
// one has its own, <main>/.git/worktrees/<name>, which it keeps when it is moved.
func (p *Project) GitDir() (dir string, linked bool) {
	r := p.repo.Load()
	if r == nil {
		return "", false
	}
	return r.GitDir, r.GitDir != r.CommonDir
}

// PathHash is half a BLAKE3 hash of a path, as 32 hex digits: what projects and
// worktrees are called by default.
func PathHash(path string) string {
	id := object.Hash(object.Blob, []byte(path))
	return hex.EncodeToString(id[:16])
}

// Head returns the commit that the project's git repository is at; "" if
// there is none, or it has no commit yet.
func (p *Project) Head() (string, error) {
	if p.repo.Load() == nil {
		return "", nil
	}
	head, err := p.repo.Load().Head()
	return head.Commit, err
}

// TooBroad says why a directory is too broad to be captured without being
// asked for: it is a whole disk, or the user's home or holds it, or is where
// everything is put. home is the path of the home directory, "" if unknown.
// The result is "" for any other directory.
func (p *Project) TooBroad(home string) string {
	if filepath.Dir(p.Root) == p.Root {
		return "the root of a file system"
	}
	if home == "" {
		return ""
	}
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	switch {
	case p.Root == home:
		return "your home directory"
	case strings.HasPrefix(home, p.Root+string(filepath.Separator)):
		return "around your home directory"
	case p.Root == filepath.Join(home, "Desktop"), p.Root == filepath.Join(home, "Downloads"):
		return "a place where everything is put"
	}
	return ""
}
