package gitrepo

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/nearmiss"
)

// setup isolates git from the machine's configuration and returns an empty
// directory, without symbolic links in its path, and a home.
func setup(t *testing.T) (dir, home string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("NOT TESTED AGAINST GIT: there is no git in PATH, and git is the specification")
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, home = filepath.Join(top, "work"), filepath.Join(top, "home")
	mkdir(t, dir)
	mkdir(t, home)
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "n")
		t.Setenv("GIT_"+who+"_EMAIL", "e")
	}
	return dir, home
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	mkdir(t, filepath.Dir(name))
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// git runs git in dir and returns what it prints.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, stderr.Bytes())
	}
	return string(out)
}

// commit makes a repository with some files committed.
func commit(t *testing.T, dir string, initArgs ...string) {
	t.Helper()
	git(t, dir, append([]string{"init", "-q", "-b", "main"}, initArgs...)...)
	for _, name := range []string{"a.txt", "dir/b.txt", "dir/sub/c.txt", "dir2/d", "é", "new\nline", "z/\xff"} {
		write(t, filepath.Join(dir, name), name)
	}
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "one")
}

func find(t *testing.T, dir string) *Repo {
	t.Helper()
	r, ok, err := Find(dir)
	if !ok || err != nil {
		t.Fatalf("Find(%q) = %v, %v", dir, ok, err)
	}
	return r
}

func TestFind(t *testing.T) {
	dir, _ := setup(t)
	if r, ok, err := Find(dir); ok || err != nil {
		t.Fatalf("Find without a repository = %+v, %v, %v", r, ok, err)
	}
	main := filepath.Join(dir, "main")
	mkdir(t, main)
	commit(t, main)
	linked := filepath.Join(dir, "linked")
	git(t, main, "worktree", "add", "-q", linked)
	lib := filepath.Join(dir, "lib")
	mkdir(t, lib)
	commit(t, lib)
	git(t, main, "-c", "protocol.file.allow=always", "submodule", "add", "-q", lib, "mod")
	sub := filepath.Join(main, "mod")
	subLinked := filepath.Join(dir, "sub-linked")
	git(t, sub, "worktree", "add", "-q", subLinked)
	bare := filepath.Join(dir, "bare.git")
	git(t, dir, "clone", "-q", "--bare", lib, bare)
	ofBare := filepath.Join(dir, "of-bare")
	git(t, bare, "worktree", "add", "-q", ofBare)
	moved := filepath.Join(dir, "moved")
	mkdir(t, moved)
	if err := os.Symlink(filepath.Join(lib, ".git"), filepath.Join(moved, ".git")); err != nil {
		t.Fatal(err)
	}
	mkdir(t, filepath.Join(main, "empty", ".git"))

	tests := []struct{ from, root, mainRoot string }{
		{main, main, main},
		{filepath.Join(main, "dir", "sub"), main, main},
		{filepath.Join(main, "empty"), main, main}, // an empty .git is none
		{linked, linked, main},
		{filepath.Join(linked, "dir"), linked, main},
		{sub, sub, sub},
		{subLinked, subLinked, sub},
		{ofBare, ofBare, bare},
		{moved, moved, moved},
	}
	for _, tt := range tests {
		r := find(t, tt.from)
		want := &Repo{
			Root:   tt.root,
			GitDir: strings.TrimSuffix(git(t, tt.from, "rev-parse", "--absolute-git-dir"), "\n"),
			CommonDir: strings.TrimSuffix(git(t, tt.from, "rev-parse", "--path-format=absolute", "--git-common-dir"),
				"\n"),
			MainRoot: tt.mainRoot,
		}
		if tt.from == moved { // git names the target of the link, we the link
			want.GitDir, want.CommonDir = filepath.Join(moved, ".git"), filepath.Join(moved, ".git")
		}
		if diff := cmp.Diff(want, r); diff != "" {
			t.Errorf("Find(%q): git (-), we (+)\n%s", tt.from, diff)
		}
	}
}

// TestFindStrangersTree: a git directory that names another repository's as the one that it belongs to is
// not taken for one of its working trees, whose history it would share.
func TestFindStrangersTree(t *testing.T) {
	dir, _ := setup(t)
	victim, tree := filepath.Join(dir, "victim"), filepath.Join(dir, "tree")
	mkdir(t, victim)
	commit(t, victim)
	write(t, filepath.Join(tree, ".git"), "gitdir: common/worktrees/x\n")
	mkdir(t, filepath.Join(tree, "common", "objects"))
	mkdir(t, filepath.Join(tree, "common", "refs"))
	gitDir := filepath.Join(tree, "common", "worktrees", "x")
	write(t, filepath.Join(gitDir, "HEAD"), "ref: refs/heads/main\n")
	for _, common := range []string{filepath.Join(victim, ".git"), "../.."} {
		write(t, filepath.Join(gitDir, "commondir"), common+"\n")
		write(t, filepath.Join(tree, "common", "config"), "[core]\nworktree = "+victim+"\n")
		if r := find(t, tree); r.Root != tree || r.MainRoot == victim {
			t.Errorf("Find of a tree that names %q as its common directory = %+v", common, r)
		}
	}
}

func TestFindRefusesBadGitFile(t *testing.T) {
	dir, _ := setup(t)
	for _, text := range []string{"", "gitdir: ", "gitdir: /nowhere\n", "gitdir: .\n", "x", "gitdir: \x00"} {
		write(t, filepath.Join(dir, ".git"), text)
		if r, ok, err := Find(dir); ok || err == nil {
			t.Errorf("Find with .git of %q = %+v, %v, %v; want an error", text, r, ok, err)
		}
	}
}

func TestHead(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		dir, _ := setup(t)
		check := func(what string) {
			t.Helper()
			want := Head{}
			if out, err := exec.Command("git", "-C", dir, "rev-parse", "-q", "--verify", "HEAD").Output(); err == nil {
				want.Commit = strings.TrimSpace(string(out))
			}
			if out, err := exec.Command("git", "-C", dir, "symbolic-ref", "-q", "HEAD").Output(); err == nil {
				want.Ref = strings.TrimSpace(string(out))
			}
			got, err := find(t, dir).Head()
			if err != nil || got != want {
				t.Errorf("%s, %s: Head() = %+v, %v; want %+v", format, what, got, err, want)
			}
		}
		git(t, dir, "init", "-q", "-b", "topic/x", "--object-format="+format)
		check("unborn")
		commit(t, dir)
		check("loose")
		git(t, dir, "tag", "-a", "-m", "v", "v1") // makes a peeled line in packed-refs
		git(t, dir, "pack-refs", "--all")
		check("packed")
		git(t, dir, "commit", "-q", "--allow-empty", "-m", "two")
		check("loose over packed")
		git(t, dir, "symbolic-ref", "refs/heads/alias", "refs/heads/topic/x")
		git(t, dir, "symbolic-ref", "HEAD", "refs/heads/alias")
		if got, err := find(t, dir).Head(); err != nil || got.Ref != "refs/heads/alias" || got.Commit == "" {
			t.Errorf("symbolic twice: Head() = %+v, %v", got, err)
		}
		git(t, dir, "checkout", "-q", "--detach", "topic/x")
		check("detached")
		git(t, dir, "worktree", "add", "-q", "-b", "other", filepath.Join(dir, "wt"), "v1")
		dir = filepath.Join(dir, "wt")
		check("linked")
		git(t, dir, "pack-refs", "--all")
		check("linked, packed")
	}
}

func TestHeadRefusesDamage(t *testing.T) {
	dir, _ := setup(t)
	git(t, dir, "init", "-q")
	r := find(t, dir)
	write(t, filepath.Join(dir, "secret"), strings.Repeat("a", 40)) // what a ref may hold
	for _, text := range []string{
		"ref: ../secret", "ref: refs/../../secret", "ref: /etc/passwd", "ref: refs/heads/\x00", "zzz",
		"ref: refs/heads/loop", "ref: refs/heads/.invalid", "1234",
	} {
		write(t, filepath.Join(r.GitDir, "HEAD"), text)
		write(t, filepath.Join(r.GitDir, "refs/heads/loop"), "ref: refs/heads/loop")
		if head, err := r.Head(); err == nil {
			t.Errorf("Head() with %q = %+v, want an error", text, head)
		}
	}
}

func TestFilesTooLargeAreRefused(t *testing.T) {
	dir, _ := setup(t)
	git(t, dir, "init", "-q")
	r := find(t, dir)
	if err := os.Truncate(filepath.Join(r.GitDir, "config"), maxText+1); err != nil {
		t.Fatal(err)
	}
	if _, err := r.IgnoreOptions(Env{}); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("IgnoreOptions() with a large file: %v", err)
	}
}

// FuzzHead reads any HEAD, branch and packed-refs: what comes of them is a commit
// in a ref, or an error.
func FuzzHead(f *testing.F) {
	id := strings.Repeat("0123456789", 4)
	packed := "# pack-refs with: peeled fully-peeled sorted \n" + id + " refs/heads/main\n^" + id + "\n" + id +
		" refs/heads/x\n"
	for _, b := range nearmiss.Of([]byte("ref: refs/heads/main\n")) {
		f.Add(b, []byte(id+"\n"), []byte(packed))
	}
	for _, b := range nearmiss.Of([]byte(id + "\n")) {
		f.Add([]byte("ref: refs/heads/main\n"), b, []byte(nil))
	}
	for _, b := range nearmiss.Of([]byte(packed)) {
		f.Add([]byte("ref: refs/heads/main\n"), []byte(nil), b)
	}
	f.Add([]byte("ref: refs/heads/main"), []byte("ref: refs/heads/main"), []byte("ref: refs/heads/main"))
	dir := f.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "refs", "heads"), 0o700); err != nil {
		f.Fatal(err)
	}
	r := &Repo{Root: dir, GitDir: dir, CommonDir: dir}
	f.Fuzz(func(t *testing.T, head, branch, packed []byte) {
		for name, b := range map[string][]byte{"HEAD": head, "refs/heads/main": branch, "packed-refs": packed} {
			name = filepath.Join(dir, name)
			os.Remove(name) // what is written over waits for the disk
			if len(b) == 0 {
				continue
			}
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := r.Head()
		if err != nil {
			if got != (Head{}) {
				t.Errorf("Head = %+v and %v", got, err)
			}
			return
		}
		if got.Commit != "" && !isID(got.Commit) ||
			got.Ref != "" && (!strings.HasPrefix(got.Ref, "refs/") || !filepath.IsLocal(got.Ref)) {
			t.Errorf("Head = %+v", got)
		}
	})
}
