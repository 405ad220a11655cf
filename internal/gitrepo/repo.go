package gitrepo

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/boocode/filestore/internal/vfs"
)

// A Repo is where the parts of a repository with a working tree are. All
// paths are absolute.
type Repo struct {
	Root      string // the root of the working tree
	GitDir    string // of this working tree: HEAD, index
	CommonDir string // of all working trees: config, refs, info; equal to GitDir but in a linked one
	MainRoot  string // the root of the main working tree; the common directory if that is bare
}

// Find looks for a repository in dir, an absolute path without symbolic
// links, and in the directories above it. ok is false if there is none. A
// .git that is a file and leads nowhere is an error, as it is for git. One that
// another user has put there is passed over, and is the error where none is above
// it: it is a [*vfs.ForeignError].
func Find(dir string) (r *Repo, ok bool, err error) {
	var foreign error
	for asked := dir; ; {
		gitDir := filepath.Join(dir, ".git")
		st, err := os.Lstat(gitDir)
		if err == nil {
			err = checkOwner(gitDir, st, dir, asked)
		}
		if err == nil && st.Mode()&fs.ModeSymlink != 0 {
			st, err = os.Stat(gitDir)
		}
		_, isForeign := errors.AsType[*vfs.ForeignError](err)
		switch {
		case isForeign:
			foreign = cmp.Or(foreign, err)
		case err == nil && st.IsDir():
			if r, ok, err := open(dir, gitDir); ok || err != nil {
				return r, ok, err
			}
		case err == nil && st.Mode().IsRegular():
			if gitDir, err = readLink(gitDir, "gitdir: "); err != nil {
				return nil, false, err
			}
			r, ok, err := open(dir, gitDir)
			if !ok && err == nil {
				err = fmt.Errorf("%q is no git directory, but %q names it", gitDir, filepath.Join(dir, ".git"))
			}
			return r, ok, err
		case err != nil && !missing(err):
			return nil, false, err
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil, false, foreign
		}
		dir = up
	}
}

// checkOwner refuses a .git that is, by st, of another user than this process, root, and those
// whose the directory is that it lies in, or the one that was asked about: they decide on
// what is in it anyway. In /tmp, say, anybody can put one for all who work below.
func checkOwner(gitDir string, st fs.FileInfo, dirs ...string) error {
	owner, self, ok := vfs.Owners(st)
	if !ok || owner == self || owner == 0 {
		return nil
	}
	for _, dir := range dirs {
		if st, err := os.Stat(dir); err == nil {
			if of, _, _ := vfs.Owners(st); of == owner {
				return nil
			}
		}
	}
	return fmt.Errorf("%q is not used: %w", gitDir, &vfs.ForeignError{Owner: owner, Self: self})
}

// open describes the repository at gitDir. ok is false if git would not take
// it for one.
func open(root, gitDir string) (r *Repo, ok bool, err error) {
	r = &Repo{Root: root, GitDir: gitDir, CommonDir: gitDir, MainRoot: root}
	common, err := readLink(filepath.Join(gitDir, "commondir"), "")
	switch {
	case err == nil:
		r.CommonDir = common
		if !isSame(filepath.Dir(gitDir), filepath.Join(common, "worktrees")) {
			break // it says itself that it belongs there, and is none of that repository's
		}
		if r.MainRoot, err = mainRoot(common); err != nil {
			return nil, false, err
		}
	case !missing(err):
		return nil, false, err
	}
	if _, err := os.Lstat(filepath.Join(r.GitDir, "HEAD")); err != nil {
		return nil, false, ignoreMissing(err)
	}
	for _, name := range []string{"objects", "refs"} {
		if _, err := os.Stat(filepath.Join(r.CommonDir, name)); err != nil {
			return nil, false, ignoreMissing(err)
		}
	}
	return r, true, nil
}

func ignoreMissing(err error) error {
	if missing(err) {
		return nil
	}
	return err
}

// mainRoot returns the root of the working tree that a common directory
// belongs to.
func mainRoot(common string) (string, error) {
	if filepath.Base(common) == ".git" {
		return filepath.Dir(common), nil
	}
	// A submodule has its git directory elsewhere and says where it is.
	c := configReader{}
	if err := c.file(filepath.Join(common, "config")); err != nil {
		return "", err
	}
	if tree, ok := c.last("core", "worktree"); ok && tree.set {
		root := join(common, tree.value)
		if gitDir, err := readLink(filepath.Join(root, ".git"), "gitdir: "); err == nil && isSame(gitDir, common) {
			return root, nil
		} // else it is another's directory, of which that knows nothing
	}
	return common, nil
}

// isSame reports whether two paths lead to one directory.
func isSame(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// readLink reads a file that holds a path, relative to the file's directory,
// after a prefix.
func readLink(name, prefix string) (string, error) {
	data, err := readFile(name, maxLink)
	if err != nil {
		return "", err
	}
	text, ok := strings.CutPrefix(string(data), prefix)
	text = strings.TrimRight(text, "\r\n")
	if !ok || text == "" || strings.ContainsRune(text, 0) {
		return "", fmt.Errorf("%q holds no path", name)
	}
	return join(filepath.Dir(name), text), nil
}

// join returns path, from dir if it is relative.
func join(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// A Head is what HEAD says.
type Head struct {
	Ref    string // the full name of the current branch, "" if detached
	Commit string // the commit's id in hex, "" if the branch has none yet
}

// Head reads HEAD and the ref it names.
func (r *Repo) Head() (Head, error) {
	var head Head
	name := "HEAD"
	for range 5 { // as many symbolic refs in a row as git follows
		text, err := r.ref(name)
		if err != nil {
			return Head{}, fmt.Errorf("HEAD: %w", err)
		}
		target, symbolic := strings.CutPrefix(text, "ref:")
		if !symbolic {
			if text != "" && !isID(text) {
				return Head{}, fmt.Errorf("HEAD: %s holds %.80q, which is no commit", name, text)
			}
			head.Commit = text
			return head, nil
		}
		name = strings.TrimSpace(target)
		switch {
		case name == "refs/heads/.invalid":
			return Head{}, fmt.Errorf("HEAD: the refs of %q are in a reftable, which we do not read", r.CommonDir)
		case !strings.HasPrefix(name, "refs/") || !filepath.IsLocal(name) || strings.ContainsRune(name, 0):
			return Head{}, fmt.Errorf("HEAD: bad ref name %.80q", name)
		}
		if head.Ref == "" {
			head.Ref = name
		}
	}
	return Head{}, fmt.Errorf("HEAD: symbolic refs go in a circle at %q", name)
}

// ref returns the text of a ref: an id, "ref: " and a name, or nothing if
// there is no such ref.
func (r *Repo) ref(name string) (string, error) {
	dir := r.CommonDir
	if name == "HEAD" || strings.HasPrefix(name, "refs/worktree/") || strings.HasPrefix(name, "refs/bisect/") ||
		strings.HasPrefix(name, "refs/rewritten/") {
		dir = r.GitDir
	}
	file := filepath.Join(dir, filepath.FromSlash(name))
	st, err := os.Stat(file)
	if err == nil && !st.IsDir() { // an empty directory may be left of other refs
		data, err := readFile(file, maxLink)
		return strings.TrimSpace(string(data)), err
	}
	if err != nil && !missing(err) {
		return "", err
	}
	packed, err := readFile(filepath.Join(r.CommonDir, "packed-refs"), maxRefs)
	if err != nil {
		return "", ignoreMissing(err)
	}
	for line := range bytes.Lines(packed) {
		id, rest, _ := bytes.Cut(line, []byte(" "))
		if string(bytes.TrimRight(rest, "\r\n")) == name {
			return string(id), nil
		}
	}
	return "", nil
}

func isID(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && (len(s) == 40 || len(s) == 64)
}
