package ignore

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/testseed"
)

// A repo is a directory tree that git and we are asked about. Paths of
// directories end in a slash.
type repo struct {
	t       *testing.T
	git     string // the git directory
	tree    string // the working tree
	opts    Options
	files   map[string][]byte // pattern files by path
	paths   []string          // to ask, parents before children
	scratch int
}

// newRepo makes an empty repository for the working trees of a test.
func newRepo(t *testing.T) *repo {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("NOT TESTED AGAINST GIT: there is no git in PATH, and git is the specification")
	}
	home := memoryDir(t)
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "xdg"))
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(home, "config"))
	r := &repo{t: t, git: filepath.Join(home, "git")}
	if out, err := exec.Command("git", "init", "-q", "--bare", r.git).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	return r
}

// memoryDir is like t.TempDir, but in memory where the system has a place for
// that: the random test then takes 5 s instead of 50.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "ignore-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// reset starts a new working tree with the same git directory.
func (r *repo) reset() {
	if r.tree != "" {
		if err := os.RemoveAll(r.tree); err != nil {
			r.t.Fatal(err)
		}
	}
	r.scratch++
	r.tree = filepath.Join(filepath.Dir(r.git), fmt.Sprintf("tree%d", r.scratch))
	r.opts, r.files, r.paths = Options{}, map[string][]byte{}, nil
}

// write puts everything on the disk; the files that are asked about only if
// wanted, as git check-ignore does not look for them.
func (r *repo) write(withFiles bool) {
	r.t.Helper()
	if err := os.Mkdir(r.tree, 0o700); err != nil {
		r.t.Fatal(err)
	}
	for _, p := range r.paths {
		name := r.tree + "/" + p
		if !strings.HasSuffix(p, "/") {
			if withFiles {
				r.put(name, nil)
			}
		} else if err := os.MkdirAll(name, 0o700); err != nil {
			r.t.Fatal(err)
		}
	}
	r.writePatterns()
}

// writePatterns puts the pattern files on the disk.
func (r *repo) writePatterns() {
	r.t.Helper()
	r.put(r.git+"/info/exclude", r.opts.Info)
	r.put(filepath.Dir(r.git)+"/excludes", r.opts.Excludes)
	for p, text := range r.files {
		r.put(r.tree+"/"+p, text)
	}
}

func (r *repo) put(name string, data []byte) {
	r.t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repo) run(stdin []byte, args ...string) []byte {
	r.t.Helper()
	args = append([]string{
		"--git-dir=" + r.git, "--work-tree=" + r.tree,
		"-c", "core.bare=false",
		"-c", "core.excludesFile=" + filepath.Dir(r.git) + "/excludes",
		"-c", fmt.Sprintf("core.ignoreCase=%v", r.opts.IgnoreCase),
	}, args...)
	cmd := exec.Command("git", args...)
	cmd.Dir = r.tree
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); err != nil && (!ok || exit.ExitCode() != 1) { // 1: none is ignored
		r.t.Fatalf("git %q: %v\n%s", args, err, stderr.Bytes())
	}
	return out
}

// gitIgnored asks git about all paths.
func (r *repo) gitIgnored() map[string]bool {
	r.t.Helper()
	var in bytes.Buffer
	for _, p := range r.paths {
		in.WriteString("./" + strings.TrimSuffix(p, "/") + "\x00") // "./": or ":x" would be pathspec magic
	}
	out := r.run(in.Bytes(), "check-ignore", "--no-index", "-v", "-n", "--stdin", "-z")
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(fields) != 4*len(r.paths) { // source, line number, pattern, path
		r.t.Fatalf("git check-ignore answers %d fields to %d paths", len(fields), len(r.paths))
	}
	ignored := map[string]bool{}
	for i, p := range r.paths {
		pattern := fields[4*i+2]
		ignored[p] = fields[4*i+1] != "" && !strings.HasPrefix(pattern, "!")
	}
	return ignored
}

// ourIgnored asks us, as a walk would.
func (r *repo) ourIgnored() map[string]bool {
	ignored := map[string]bool{}
	rules := map[string]*Rules{"": Root(r.opts).WithFiles(r.files[".gitignore"], nil)}
	for _, p := range r.paths {
		clean := strings.TrimSuffix(p, "/")
		dir, name := clean[:strings.LastIndexByte(clean, '/')+1], clean[strings.LastIndexByte(clean, '/')+1:]
		in := rules[dir]
		ignored[p] = in == nil || in.Match(name, clean != p)
		if clean != p && !ignored[p] {
			rules[p] = in.Sub(name).WithFiles(r.files[p+".gitignore"], nil)
		}
	}
	return ignored
}

// twinIgnored asks the plain twin, as a walk would.
func (r *repo) twinIgnored() map[string]bool {
	tw := twin{fold: r.opts.IgnoreCase, files: []twinFile{{text: string(r.opts.Excludes)}, {text: string(r.opts.Info)}}}
	ignored := map[string]bool{}
	for _, p := range r.paths {
		clean := strings.TrimSuffix(p, "/")
		one := twin{fold: tw.fold, files: slices.Clone(tw.files)}
		for i := range len(p) {
			if i > 0 && p[i-1] != '/' {
				continue
			}
			dir := p[:i]
			if i > 0 && clean != dir[:i-1] && ignored[dir] {
				ignored[p] = true
			}
			one.files = append(one.files, twinFile{dir, string(r.files[dir+".gitignore"])})
		}
		ignored[p] = ignored[p] || one.ignored(clean, clean != p)
	}
	return ignored
}

func (r *repo) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "ignoreCase %v\nexcludesFile %q\ninfo/exclude %q\n", r.opts.IgnoreCase, r.opts.Excludes,
		r.opts.Info)
	for _, p := range slices.Sorted(maps.Keys(r.files)) {
		fmt.Fprintf(&b, "%q %q\n", p, r.files[p])
	}
	return b.String()
}

// disagreements returns the paths on which two answers differ.
func disagreements(got, want map[string]bool) []string {
	var paths []string
	for p := range want {
		if got[p] != want[p] {
			paths = append(paths, fmt.Sprintf("%q: git says %v", p, want[p]))
		}
	}
	slices.Sort(paths)
	return paths
}

var trees = flag.Int("trees", 400, "trees of TestRandomRepositories; 30,000 by make crash")

// TestRandomRepositories compares with git on trees full of patterns and
// names that nobody would write.
func TestRandomRepositories(t *testing.T) {
	s := testseed.Of(t)
	r := newRepo(t)
	questions, yes := 0, 0
	for i := range *trees / treesPerRepo {
		rnd := rand.New(rand.NewPCG(s, uint64(i)))
		r.reset()
		randomRepo(r, rnd)
		list := i%4 == 0
		r.write(list)
		want := r.gitIgnored()
		got := r.ourIgnored()
		if bad := disagreements(got, want); bad != nil {
			t.Errorf("repository %d of seed %d:\n%s%s", i, s, r.describe(), strings.Join(bad, "\n"))
		}
		if bad := disagreements(r.twinIgnored(), want); bad != nil {
			t.Errorf("the twin, repository %d of seed %d:\n%s%s", i, s, r.describe(), strings.Join(bad, "\n"))
		}
		if list {
			compareWithListing(r, got)
		}
		for _, ignored := range want {
			questions++
			if ignored {
				yes++
			}
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%d trees, %d paths, %d of them ignored", *trees, questions, yes)
}

// compareWithListing checks that git ls-files lists what we do not ignore.
func compareWithListing(r *repo, ignored map[string]bool) {
	r.t.Helper()
	out := string(r.run(nil, "ls-files", "-co", "--exclude-standard", "-z"))
	want := strings.FieldsFunc(out, func(c rune) bool { return c == 0 })
	want = slices.DeleteFunc(want, func(p string) bool { return filepath.Base(p) == ".gitignore" })
	var got []string
	for p, no := range ignored {
		if !no && !strings.HasSuffix(p, "/") {
			got = append(got, p)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		diff := cmp.Diff(want, got)
		r.t.Errorf("git ls-files (-) and we (+):\n%s%s", r.describe(), diff)
	}
}

// treesPerRepo trees with .gitignore files of their own share one repository:
// starting git is what the test spends its time on.
const treesPerRepo = 8

// randomRepo fills r with trees of up to four levels, the first of them at
// the root.
func randomRepo(r *repo, rnd *rand.Rand) {
	var names []string
	var fill func(dir string, depth int)
	fill = func(dir string, depth int) {
		seen := map[string]bool{}
		for range 2 + rnd.IntN(6) {
			name := names[rnd.IntN(len(names))]
			if seen[name] {
				continue
			}
			seen[name] = true
			if depth < 3 && rnd.IntN(5) < 2 {
				r.paths = append(r.paths, dir+name+"/")
				fill(dir+name+"/", depth+1)
			} else {
				r.paths = append(r.paths, dir+name)
			}
		}
		if depth == 0 || rnd.IntN(4) == 0 {
			r.files[dir+".gitignore"] = randomFile(rnd, names)
		}
	}
	for i := range treesPerRepo {
		names = []string{"a", "b", "foo"}
		for range 4 + rnd.IntN(8) {
			names = append(names, randomName(rnd))
		}
		dir := ""
		if i > 0 {
			dir = fmt.Sprintf("tree%d/", i)
			r.paths = append(r.paths, dir)
		}
		fill(dir, 0)
	}
	if rnd.IntN(3) == 0 {
		r.opts.Info = randomFile(rnd, names)
	}
	if rnd.IntN(3) == 0 {
		r.opts.Excludes = randomFile(rnd, names)
	}
	r.opts.IgnoreCase = rnd.IntN(3) == 0
}

var nameBytes = []string{
	"a", "b", "c", "A", "B", "foo", ".o", ".c", ".", "-", "_", "~", "1", "é", "É", "\xff", "\x80", " ", "\t", "\r",
	"\n",
	"#", "!", "[", "]", "*", "?", "\\", "+", "(", ")", "|", "^", "$", "{", "}", ":", "\x01", "\x7f", "\v",
}

func randomName(rnd *rand.Rand) string {
	for {
		var name string
		for range 1 + rnd.IntN(4) {
			k := len(nameBytes)
			if rnd.IntN(2) == 0 {
				k = 12
			}
			name += nameBytes[rnd.IntN(k)]
		}
		if name != "." && name != ".." {
			return name
		}
	}
}

var patternBytes = []string{
	"*", "*", "**", "***", "?", "/", "/", "**/", "/**", "/**/", "[a-c]", "[!a]", "[^b-]", "[]a]", "[!]]", "[z-a]",
	"[\\]]", "[a\\-c]",
	"[[:alpha:]]", "[[:upper:]]", "[![:digit:]]", "[[:space:]]", "[[:punct:]]", "[[:cntrl:]x]", "[[:foo:]]",
	"[[:alpha]", "[[.a.]]", "[A-C]", "[B]",
	"[a", "[", "]", "\\", "\\a", "\\A", "\\*", "\\/", "\\ ", " ", "  ", "\r", "\t", "!", "#", "{a,b}", "\x00", "[*]",
	"[/]", "[!/]", "[\xc3-\xff]", "[--0]", "[a-", "[\\a-\\c]",
}

func randomFile(rnd *rand.Rand, names []string) []byte {
	var text strings.Builder
	if rnd.IntN(20) == 0 {
		text.WriteString("\xef\xbb\xbf")
	}
	for range 1 + rnd.IntN(7) {
		if rnd.IntN(4) == 0 {
			text.WriteString("!")
		}
		text.WriteString([]string{"", "", "", "", "", "", "/", "/", "tree1/", "/tree*/"}[rnd.IntN(10)])
		for range 1 + rnd.IntN(4) {
			name := names[rnd.IntN(len(names))]
			switch rnd.IntN(6) {
			case 0, 1:
				text.WriteString(name)
			case 2: // with some of its bytes made wild
				for i := range len(name) {
					switch rnd.IntN(6) {
					case 0:
						text.WriteString("*")
					case 1:
						text.WriteString("?")
					case 2:
						fmt.Fprintf(&text, "[%s]", name[i:i+1])
					case 3:
						text.WriteString("\\" + name[i:i+1])
					default:
						text.WriteString(name[i : i+1])
					}
				}
			default:
				text.WriteString(patternBytes[rnd.IntN(len(patternBytes))])
			}
		}
		if rnd.IntN(5) == 0 {
			text.WriteString("/")
		}
		text.WriteString([]string{"\n", "\n", "\n", "\n", "\r\n", " \n", "\n\n", "\\\n"}[rnd.IntN(8)])
	}
	out := text.String()
	if rnd.IntN(5) == 0 {
		out = strings.TrimSuffix(out, "\n")
	}
	return []byte(out)
}
