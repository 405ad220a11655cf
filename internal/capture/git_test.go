//go:build unix

package capture

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/testseed"
	"github.com/boocode/filestore/internal/trees"
	"github.com/boocode/filestore/internal/vfs/vfstest"
)

// git runs git, the oracle, away from the user's configuration.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := gitCommand(dir, args...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, err.(*exec.ExitError).Stderr)
	}
	return string(out)
}

func gitCommand(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+filepath.Join(dir, "no-home"), "XDG_CONFIG_HOME=",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	return cmd
}

func needGit(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("NOT TESTED: git, the oracle, is not installed")
	}
}

// gitFiles lists what git tracks or would add, as far as it is on the disk.
func gitFiles(t testing.TB, root string) []string {
	t.Helper()
	var out []string
	for name := range strings.SplitSeq(git(t, root, "ls-files", "-co", "--exclude-standard", "-z"), "\x00") {
		if name == "" {
			continue
		}
		if st, err := os.Lstat(filepath.Join(root, name)); err == nil && !st.IsDir() {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestGitOracle: in random repositories a capture holds just what git tracks
// or would add, through changes of rules, files and index.
func TestGitOracle(t *testing.T) {
	testseed.Sequential(t)
	needGit(t)
	r := testseed.Rand(t)
	s := openStore(t, vfstest.NewMem())
	for range 12 {
		root := t.TempDir()
		git(t, root, "init", "-q")
		for i := range 60 {
			write(t, filepath.Join(root, fmt.Sprintf("d%d/s%d/f%d.%s", i%4, i%3, i, []string{"c", "o", "txt"}[i%3])),
				"x")
		}
		for range 6 {
			for range 1 + r.IntN(4) {
				mutate(t, r, root, ".gitignore")
			}
			if r.IntN(2) == 0 {
				name := filepath.Join(root, fmt.Sprintf("d%d/.gitignore", r.IntN(4)))
				os.RemoveAll(name) // it may have become a directory
				if st, err := os.Lstat(filepath.Dir(name)); err == nil && !st.IsDir() {
					os.Remove(filepath.Dir(name))
				}
				write(t, name,
					[]string{"*.o\n", "s1/\n!s1/\n", "*\n!*.c\n!s*/\n", "/s2/*\n!/s2/f2*\n"}[r.IntN(4)])
			}
			switch r.IntN(4) {
			case 0: // track files, ignored or not
				if files := gitFiles(t, root); len(files) > 0 {
					git(t, root, "add", "-f", "--", files[r.IntN(len(files))])
				}
				if ignored := strings.Split(git(t, root, "ls-files", "-oi", "--exclude-standard", "-z"),
					"\x00"); len(ignored) > 1 {
					git(t, root, "add", "-f", "--", ignored[r.IntN(len(ignored)-1)])
				}
			case 1:
				git(t, root, "rm", "-rqf", "--cached", "--ignore-unmatch", "--", fmt.Sprintf("d%d", r.IntN(4)))
			case 2:
				write(t, filepath.Join(root, ".git/info/exclude"), []string{"f1*\n", "", "*.txt\n"}[r.IntN(3)])
			}
			if r.IntN(2) == 0 {
				settle()
			}
			ws := openWorkspace(t, s, root)
			want := gitFiles(t, root)
			res := snapshot(t, s, ws, nil)
			var got []string
			for e, err := range trees.Walk(t.Context(), s, res.Tree) {
				if err != nil {
					t.Fatal(err)
				}
				if !e.Mode.IsDir() {
					got = append(got, e.Path)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("in %s (-git +captured):\n%s", root, diff)
			}
		}
	}
}

// TestTracked: what git tracks is captured though a rule ignores it, also
// below an ignored directory, and as soon as it is tracked.
func TestTracked(t *testing.T) {
	needGit(t)
	root := t.TempDir()
	git(t, root, "init", "-q")
	write(t, filepath.Join(root, ".gitignore"), "build/\n*.log\n")
	write(t, filepath.Join(root, "build/deep/kept"), "tracked")
	write(t, filepath.Join(root, "build/deep/other"), "not tracked")
	write(t, filepath.Join(root, "build/more/other"), "not tracked")
	write(t, filepath.Join(root, "a.log"), "not tracked at first")
	git(t, root, "add", "-f", "build/deep/kept")
	s := openStore(t, vfstest.NewMem())
	settle()
	want := []string{".gitignore", "build", "build/deep", "build/deep/kept"}
	for range 2 {
		r := snapshot(t, s, openWorkspace(t, s, root), nil)
		if diff := cmp.Diff(want, paths(t, s, r.Tree)); diff != "" {
			t.Errorf("tree (-want +got):\n%s", diff)
		}
		wantLeft := []string{".git vcs", "a.log ignored", "build/deep/other ignored", "build/more ignored"}
		if diff := cmp.Diff(wantLeft, omissions(t, s, r.Coverage)); diff != "" {
			t.Errorf("coverage (-want +got):\n%s", diff)
		}
	}
	git(t, root, "add", "-f", "a.log")
	r := snapshot(t, s, openWorkspace(t, s, root), nil)
	if diff := cmp.Diff([]string{".gitignore", "a.log", "build", "build/deep", "build/deep/kept"},
		paths(t, s, r.Tree)); diff != "" {
		t.Errorf("tree after git add -f a.log (-want +got):\n%s", diff)
	}
}

// TestGitUntouched: nothing below any .git changes, not even a time stamp,
// and our own exclusion does not depend on where the repository is.
func TestGitUntouched(t *testing.T) {
	needGit(t)
	root := t.TempDir()
	git(t, root, "init", "-q")
	write(t, filepath.Join(root, "f"), "x")
	git(t, root, "add", "f")
	git(t, root, "commit", "-qm", "first")
	git(t, root, "worktree", "add", "-q", filepath.Join(root, "wt"))
	git(t, filepath.Join(root, "wt"), "init", "-q", "nested")
	before := gitState(t, root)
	s := openStore(t, vfstest.NewMem())
	for _, dir := range []string{root, filepath.Join(root, "wt"), filepath.Join(root, "wt/nested")} {
		write(t, filepath.Join(dir, "new"), "y")
		ws := openWorkspace(t, s, dir)
		if _, err := ws.Head(); err != nil {
			t.Error(err)
		}
		snapshot(t, s, ws, nil)
	}
	if diff := cmp.Diff(before, gitState(t, root)); diff != "" {
		t.Errorf("git's files changed (-before +after):\n%s", diff)
	}
}

// gitState describes everything below directories called .git, and files of
// that name.
func gitState(t *testing.T, root string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	err := filepath.Walk(root, func(p string, st os.FileInfo, err error) error {
		if err != nil || !strings.Contains(p+"/", "/.git/") {
			return err
		}
		out[p] = fmt.Sprint(st.Mode(), st.ModTime())
		if st.Mode().IsRegular() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			out[p] += string(b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestScope: below the root of a repository the rules above still hold, and
// worktrees share a project but not an identity.
func TestScope(t *testing.T) {
	needGit(t)
	root := t.TempDir()
	git(t, root, "init", "-q")
	write(t, filepath.Join(root, ".gitignore"), "*.o\n/sub/private\n")
	write(t, filepath.Join(root, "sub/.gitignore"), "!keep.o\n")
	for _, name := range []string{"a.o", "keep.o", "private", "open", "deep/b.o"} {
		write(t, filepath.Join(root, "sub", name), "x")
	}
	s := openStore(t, vfstest.NewMem())
	ws := openWorkspace(t, s, filepath.Join(root, "sub"))
	r := snapshot(t, s, ws, nil)
	if diff := cmp.Diff([]string{".gitignore", "deep", "keep.o", "open"}, paths(t, s, r.Tree)); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}

	write(t, filepath.Join(root, "f"), "x")
	git(t, root, "add", "f")
	git(t, root, "commit", "-qm", "first")
	wt := filepath.Join(t.TempDir(), "wt")
	git(t, root, "worktree", "add", "-q", wt)
	main, err := FindProject(root)
	if err != nil {
		t.Fatal(err)
	}
	linked, err := FindProject(wt)
	if err != nil {
		t.Fatal(err)
	}
	if main.Hash() != linked.Hash() || main.Hash() != ws.Hash() {
		t.Errorf("stores %s, %s and %s of one repository", main.Hash(), linked.Hash(), ws.Hash())
	}
	if main.Worktree == linked.Worktree {
		t.Errorf("two worktrees with one identity")
	}
}
