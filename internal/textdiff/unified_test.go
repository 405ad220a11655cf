package textdiff

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/boocode/filestore/internal/words"
)

const (
	regular = 0o100644
	program = 0o100755
	link    = 0o120000
)

// A pair is one diff to make, named by what is special about it.
type pair struct {
	name     string
	old, new File
}

// renames are pairs of different names, which git finds only if asked to.
func renames() []pair {
	var list []pair
	for _, names := range [][2]string{{"x", "y"}, {"d/x", "e/f/x"}, {"a b", "c d"}, {"x", "c d"}, {"x", "c "},
		{" a", "b"}, {"a b", "y"}, {"\n", "\t\xff"}} {
		for _, content := range []string{"1\n", "2\n"} {
			for _, mode := range []uint32{regular, program} {
				list = append(list, pair{
					fmt.Sprintf("rename %q to %q, mode %o, content %q", names[0], names[1], mode, content),
					File{Name: names[0], Content: []byte("1\n"), Mode: regular},
					File{Name: names[1], Content: []byte(content), Mode: mode},
				})
			}
		}
	}
	return list
}

func text(s string) File { return File{Name: "x", Content: []byte(s), Mode: regular} }

func edgeCases() []pair {
	const seven = "1\n2\n3\n4\n5\n6\n7\n"
	list := []pair{
		{"changed line", text(seven), text("1\n2\n3\nfour\n5\n6\n7\n")},
		{"first and last line", text(seven), text("one\n2\n3\n4\n5\n6\nseven\n")},
		{"two hunks", text(seven + seven), text("0\n" + seven + seven + "8\n")},
		{"hunks that just merge", text("-\n1\n2\n3\n4\n5\n6\n-\n"), text("+\n1\n2\n3\n4\n5\n6\n+\n")},
		{"hunks that just do not", text("-\n1\n2\n3\n4\n5\n6\n7\n-\n"), text("+\n1\n2\n3\n4\n5\n6\n7\n+\n")},
		{"no final newline, old", text("1\n2"), text("1\n2\n")},
		{"no final newline, new", text("1\n2\n"), text("1\n2")},
		{"no final newline, both, in context", text("1\n2"), text("0\n2")},
		{"no final newline, both, changed", text("1\n2"), text("1\n3")},
		{"no final newline, line moves up", text("1\n2\n3"), text("1\n2")},
		{"only line without newline", text("1"), text("2")},
		{"CRLF", text("1\r\n2\r\n3\r\n"), text("1\r\n2\n3\r\n")},
		{"CRLF throughout", text("1\r\n2\r\n"), text("1\r\n3\r\n")},
		{"CRLF to LF", text("1\r\n2\r\n"), text("1\n2\n")},
		{"CR at the end", text("1\n2\r"), text("1\n2\r\n")},
		{"lone CR", text("1\r2\r3\n"), text("1\r2\r\r\n")},
		{"not UTF-8", text("\xff\xfe\n1\n"), text("\xff\xfd\n1\n")},
		{"form feed and vertical tab", text("1\f2\v\n"), text("1\f3\v\n")},
		{"lines like diff syntax", text("-- a\n++ b\n@@ -1 +1 @@\n\\ No newline at end of file\ndiff --git a/x b/x\n"),
			text("-- a/y\n++ b/y\n@@ -1 +1 @@\n\\ No newline\ndiff --git a/y b/x\n")},
		{"blank lines", text("\n\n\n"), text("\n\n\n\n")},
		{"emptied", text("1\n"), text("")},
		{"filled", text(""), text("1")},
		{"created", File{}, text("1\n2")},
		{"created empty", File{}, text("")},
		{"created program", File{}, File{Name: "x", Content: []byte("#!\n"), Mode: program}},
		{"created empty program", File{}, File{Name: "x", Content: nil, Mode: program}},
		{"deleted", text("1\n2\n"), File{}},
		{"deleted without newline", text("1"), File{}},
		{"deleted empty", text(""), File{}},
		{"mode only", text("1\n"), File{Name: "x", Content: []byte("1\n"), Mode: program}},
		{"mode only, back", File{Name: "x", Content: []byte("1\n"), Mode: program}, text("1\n")},
		{"mode only, empty", text(""), File{Name: "x", Content: nil, Mode: program}},
		{"mode and text", text("1\n"), File{Name: "x", Content: []byte("2\n"), Mode: program}},
		{"link created", File{}, File{Name: "x", Content: []byte("to/there"), Mode: link}},
		{"link deleted", File{Name: "x", Content: []byte("to/there"), Mode: link}, File{}},
		{"link moved", File{Name: "x", Content: []byte("to/there"), Mode: link},
			File{Name: "x", Content: []byte("elsewhere"), Mode: link}},
		{"file to link", text("1\n"), File{Name: "x", Content: []byte("1"), Mode: link}},
		{"link to file", File{Name: "x", Content: []byte("1"), Mode: link},
			File{Name: "x", Content: []byte("1\n"), Mode: program}},
		{"link to file of the same bytes", File{Name: "x", Content: []byte("1"), Mode: link}, text("1")},
		{"in a directory", File{Name: "d/e/x", Content: []byte("1\n"), Mode: regular},
			File{Name: "d/e/x", Content: []byte("2\n"), Mode: regular}},
	}
	for _, name := range []string{
		"a b", " a", "a ", "a  b/ c", "tab\there", "new\nline", "\r", `quo"te`, `back\slash`, "caf\u00e9", "\xff\xfe",
		"\x01\x02\a\b\v\f\x1b\x7f", "all \"of\"\n\x80 it", "-x", "a -> b", "'", "dev/null", "b", "a/x b/x", "1\\061",
		"x.orig",
	} {
		one, two := File{Name: name, Content: []byte("1\n"), Mode: regular},
			File{Name: name, Content: []byte("2\n"), Mode: regular}
		exec, empty := File{Name: name, Content: []byte("1\n"), Mode: program},
			File{Name: name, Content: nil, Mode: regular}
		list = append(list,
			pair{fmt.Sprintf("name %q, changed", name), one, two},
			pair{fmt.Sprintf("name %q, created", name), File{}, one},
			pair{fmt.Sprintf("name %q, deleted", name), one, File{}},
			pair{fmt.Sprintf("name %q, mode", name), one, exec},
			pair{fmt.Sprintf("name %q, created empty", name), File{}, empty},
			pair{fmt.Sprintf("name %q, deleted empty", name), empty, File{}})
	}
	return list
}

// A form is one way to write a diff, with the tools that must apply it.
type form struct {
	name     string
	noPrefix bool
	tools    [][]string
}

var forms = []form{
	{"prefixes", false, [][]string{
		{"git", "apply", "--whitespace=nowarn"},
		{"patch", "-p1", "--batch", "--quiet"},
	}},
	{"no prefixes", true, [][]string{
		{"git", "apply", "-p0", "--whitespace=nowarn"},
		{"patch", "-p0", "--batch", "--quiet"},
	}},
}

// withTools runs test as a subtest for each form and tool.
func withTools(t *testing.T, test func(t *testing.T, f form, tool []string)) {
	for _, f := range forms {
		for _, tool := range f.tools {
			t.Run(f.name+"/"+tool[0], func(t *testing.T) {
				needTool(t, tool[0])
				test(t, f, tool)
			})
		}
	}
}

// apply runs tool with diff in dir, and returns its output if it failed.
func apply(dir string, diff []byte, tool ...string) error {
	cmd := exec.Command(tool[0], tool[1:]...)
	cmd.Dir = dir
	cmd.Env = toolEnv()
	cmd.Stdin = bytes.NewReader(diff)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %s", err, out)
	}
	return nil
}

// checkFile reports how dir differs from holding f, or nothing at name.
func checkFile(dir, name string, f File) error {
	path := filepath.Join(dir, name)
	info, err := os.Lstat(path)
	if f.Mode == 0 {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return nil
		}
		return fmt.Errorf("%q is there (%v)", name, err)
	}
	if err != nil {
		return err
	}
	got, mode := []byte(nil), uint32(regular)
	if info.Mode()&fs.ModeSymlink != 0 {
		target, _ := os.Readlink(path)
		got, mode = []byte(target), link
	} else {
		got, err = os.ReadFile(path)
		if info.Mode()&0o100 != 0 {
			mode = program
		}
	}
	if err != nil || mode != f.Mode || !bytes.Equal(got, f.Content) {
		return fmt.Errorf("%q is %o %q (%v), want %o %q", name, mode, got, err, f.Mode, f.Content)
	}
	return nil
}

// checkPair reports how dir differs from what p leaves.
func checkPair(dir string, p pair) error {
	switch {
	case p.new.Mode == 0:
		return checkFile(dir, p.old.Name, File{})
	case p.old.Mode == 0 || p.old.Name == p.new.Name:
		return checkFile(dir, p.new.Name, p.new)
	}
	return errors.Join(checkFile(dir, p.new.Name, p.new), checkFile(dir, p.old.Name, File{}))
}

var every = flag.Bool("every", false, "have each tool apply each diff by itself, not one of four")

func TestUnifiedApplies(t *testing.T) {
	tools := 0
	withTools(t, func(t *testing.T, f form, tool []string) {
		tools++
		for n, p := range append(edgeCases(), renames()...) {
			if n%4 != tools%4 && !*every {
				continue
			}
			dir := t.TempDir()
			writeFile(t, dir, p.old)
			diff := AppendUnified(nil, p.old, p.new, &UnifiedOptions{NoPrefix: f.noPrefix})
			if err := apply(dir, diff, tool...); err != nil {
				t.Errorf("%s: %v\n%s", p.name, err, diff)
			} else if err := checkPair(dir, p); err != nil {
				t.Errorf("%s: after %s: %v\n%s", p.name, tool[0], err, diff)
			}
		}
	})
}

// All cases in one diff, in random order: what one of them leaves out must not
// be taken from the next.
func TestUnifiedAppliesTogether(t *testing.T) {
	rnd := newRand(t)
	withTools(t, func(t *testing.T, f form, tool []string) {
		for range 2 {
			pairs := append(edgeCases(), renames()...)
			rnd.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
			checkTogether(t, pairs, f, tool, 0)
		}
	})
}

// checkTogether applies the diffs of all pairs at once, each in a directory of
// its own below one scratch directory.
func checkTogether(t *testing.T, pairs []pair, f form, tool []string, context int) {
	t.Helper()
	dir := t.TempDir()
	var diff []byte
	list := make([]pair, len(pairs))
	for n, p := range pairs {
		for _, side := range []*File{&p.old, &p.new} {
			if side.Mode != 0 {
				side.Name = fmt.Sprintf("%03d/%s", n, side.Name)
			}
		}
		list[n] = p
		writeFile(t, dir, p.old)
		diff = AppendUnified(diff, p.old, p.new, &UnifiedOptions{NoPrefix: f.noPrefix, Context: context})
	}
	if err := apply(dir, diff, tool...); err != nil {
		t.Errorf("context %d: %v", context, err)
	}
	for _, p := range list {
		if err := checkPair(dir, p); err != nil {
			t.Errorf("%s, context %d: after %s: %v\n%s", p.name, context, tool[0], err,
				AppendUnified(nil, p.old, p.new, &UnifiedOptions{NoPrefix: f.noPrefix, Context: context}))
		}
	}
}

// Diffs that get in each other's way.
func TestUnifiedAppliesInOrder(t *testing.T) {
	file := func(name, content string) File { return File{Name: name, Content: []byte(content), Mode: regular} }
	symlink := func(name string) File { return File{Name: name, Content: []byte("to"), Mode: link} }
	tests := []struct {
		name    string
		refused bool // by GNU patch, as AppendUnified's doc says
		pairs   []pair
	}{
		{"names exchanged", false, []pair{
			{"", file("a", "1\n2\n3\n"), file("b", "1\n2\n4\n")}, {"", file("b", "5\n"), file("a", "5\n")}}},
		{"name passed on", false, []pair{
			{"", file("a", "1\n"), file("b", "1\n")}, {"", file("b", "2\n"), file("c", "2\n")}}},
		{"name passed on, reverse order", false, []pair{
			{"", file("b", "2\n"), file("c", "2\n")}, {"", file("a", "1\n"), file("b", "1\n")}}},
		{"rename to where a link was", false, []pair{
			{"", symlink("b"), File{}}, {"", file("a", "1\n"), file("b", "1\n")}}},
		{"file to directory", true, []pair{{"", file("d", "1\n"), File{}}, {"", File{}, file("d/x", "1\n")}}},
		{"link to directory", true, []pair{{"", symlink("d"), File{}}, {"", File{}, file("d/x", "1\n")}}},
		{"directory to file", true, []pair{{"", file("d/x", "1\n"), File{}}, {"", File{}, file("d", "1\n")}}},
		{"directory to link", true, []pair{{"", file("d/x", "1\n"), File{}}, {"", File{}, symlink("d")}}},
	}
	withTools(t, func(t *testing.T, f form, tool []string) {
		for _, tt := range tests {
			dir := t.TempDir()
			var diff []byte
			became := make(map[string]bool)
			for _, p := range tt.pairs {
				writeFile(t, dir, p.old)
				diff = AppendUnified(diff, p.old, p.new, &UnifiedOptions{NoPrefix: f.noPrefix})
				became[p.new.Name] = p.new.Mode != 0
				became[path.Dir(p.new.Name)] = true
			}
			err := apply(dir, diff, tool...)
			if tool[0] == "patch" && tt.refused {
				if err == nil {
					t.Errorf("%s: GNU patch applies it now: AppendUnified's doc says it does not", tt.name)
				}
				continue
			}
			for _, p := range tt.pairs {
				if p.new.Mode != 0 {
					err = errors.Join(err, checkFile(dir, p.new.Name, p.new))
				}
				if p.old.Mode != 0 && !became[p.old.Name] {
					err = errors.Join(err, checkFile(dir, p.old.Name, File{}))
				}
			}
			if err != nil {
				t.Errorf("%s: %v\n%s", tt.name, err, diff)
			}
		}
	})
}

// Both tools, many files in one diff, every size of context.
func TestUnifiedAppliesRandom(t *testing.T) {
	rnd := newRand(t)
	for context := -1; context <= 4; context++ {
		var pairs []pair
		for n := range 100 {
			name := fmt.Sprintf("%03d", n)
			old := randomText(rnd, 40, 1+rnd.IntN(30))
			new := mutate(rnd, old, 6)
			p := pair{name, File{Name: name, Content: old, Mode: randomMode(rnd)},
				File{Name: name, Content: new, Mode: randomMode(rnd)}}
			pairs = append(pairs, p)
			d := AppendUnified(nil, p.old, p.new, &UnifiedOptions{Context: context})
			if got := applyHunks(t, old, d); !bytes.Equal(got, new) {
				t.Fatalf("context %d: %q to %q: diff rebuilds %q:\n%s", context, old, new, got, d)
			}
		}
		// Without context neither tool can place a change among repeated lines
		// with certainty, so it is for applyHunks alone, which trusts the numbers.
		if context < 0 {
			continue
		}
		withTools(t, func(t *testing.T, f form, tool []string) { checkTogether(t, pairs, f, tool, context) })
	}
}

func randomMode(rnd *rand.Rand) uint32 {
	if rnd.IntN(4) == 0 {
		return program
	}
	return regular
}

// applyHunks trusts the numbers in diff and checks that they hold.
func applyHunks(t *testing.T, old, diff []byte) []byte {
	t.Helper()
	lines := SplitLines(diff)
	a := SplitLines(old)
	var b []string
	at := 0
	for n := 0; n < len(lines); n++ {
		var oldStart, newStart int
		oldCount, newCount := 1, 1
		if !strings.HasPrefix(lines[n], "@@ ") {
			continue
		}
		fields := strings.Fields(lines[n])
		fmt.Sscanf(fields[1], "-%d,%d", &oldStart, &oldCount)
		fmt.Sscanf(fields[2], "+%d,%d", &newStart, &newCount)
		if oldCount > 0 {
			oldStart--
		}
		if newCount > 0 {
			newStart--
		}
		b = append(b, a[at:oldStart]...)
		at = oldStart
		if len(b) != newStart {
			t.Fatalf("hunk %q starts at line %d of new", lines[n], len(b))
		}
		for oldCount > 0 || newCount > 0 {
			n++
			mark, line := lines[n][0], lines[n][1:]
			if n+1 < len(lines) && strings.HasPrefix(lines[n+1], `\`) {
				line = strings.TrimSuffix(line, "\n")
			}
			if mark != '+' {
				if a[at] != line {
					t.Fatalf("line %d is %q, diff has %q", at, a[at], line)
				}
				at++
				oldCount--
			}
			if mark != '-' {
				b = append(b, line)
				newCount--
			}
			if n+1 < len(lines) && strings.HasPrefix(lines[n+1], `\`) {
				n++
			}
		}
	}
	return []byte(strings.Join(append(b, a[at:]...), ""))
}

var unquote = strings.NewReplacer(`"`, "", "\t\n", "\n")

// The diff is what git writes, byte for byte. Lines of the cases begin with no
// letter: git would put those into its hunk headers as the name of the function.
func TestUnifiedIsWhatGitWrites(t *testing.T) {
	needTool(t, "git")
	git := func(dir string, args ...string) []byte {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = toolEnv()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
		return out
	}
	binary := []byte("1\x00\n")
	cases := append(edgeCases(),
		pair{"binary", File{Name: "a b", Content: binary, Mode: regular},
			File{Name: "a b", Content: nil, Mode: regular}},
		pair{"binary created", File{}, File{Name: "x", Content: binary, Mode: regular}},
		pair{"binary deleted", File{Name: "\n", Content: binary, Mode: regular}, File{}},
		pair{"binary mode", File{Name: "x", Content: binary, Mode: regular},
			File{Name: "x", Content: binary, Mode: program}})
	dir := t.TempDir()
	git(dir, "init", "-q")
	in := func(n int, f File) File { // each case has a directory of its own
		f.Name = fmt.Sprintf("%03d/%s", n, f.Name)
		return f
	}
	for n, p := range cases {
		writeFile(t, dir, in(n, p.old))
	}
	git(dir, "add", "-A")
	git(dir, "-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "-m", "old")
	for n, p := range cases {
		if p.old.Mode != 0 {
			if err := os.Remove(filepath.Join(dir, in(n, p.old).Name)); err != nil {
				t.Fatal(err)
			}
		}
		writeFile(t, dir, in(n, p.new))
	}
	git(dir, "add", "-A")
	of := make(map[bool][]string) // of each case, with names quoted or not
	for _, quote := range []bool{false, true} {
		of[quote] = make([]string, len(cases))
		all := git(dir, "-c", fmt.Sprintf("core.quotePath=%t", quote), "diff", "--cached", "--no-renames")
		n := 0
		for line := range strings.Lines(string(all)) {
			if m := gitHead.FindStringSubmatch(line); m != nil {
				n, _ = strconv.Atoi(m[1])
			}
			of[quote][n] += line
		}
	}
	for n, p := range cases {
		name := p.old.Name + p.new.Name
		want := of[!utf8.ValidString(name)][n] // if not asked to, git leaves bytes that are not UTF-8
		got := string(AppendUnified(nil, in(n, p.old), in(n, p.new), nil))
		// Where only quotes and the tab that they make needless differ, it is for
		// GNU patch's sake; TestUnifiedApplies holds git to read it the same.
		if strings.Contains(name, " ") && words.Quote(name) == name {
			want, got = unquote.Replace(want), unquote.Replace(got)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-git +got):\n%s", p.name, diff)
		}
	}
}

var gitHead = regexp.MustCompile(`^diff --git "?a/(\d{3})/`)

func TestUnifiedForms(t *testing.T) {
	same := File{Name: "x", Content: []byte("1\n"), Mode: regular}
	noPrefix := &UnifiedOptions{NoPrefix: true}
	tests := []struct {
		name     string
		old, new File
		opts     *UnifiedOptions
		want     string
	}{
		{"equal", same, same, nil, ""},
		{"both absent", File{}, File{}, nil, ""},
		{"no prefix", text("original content\n"), text("modified content\n"), noPrefix,
			"--- x\n+++ x\n@@ -1 +1 @@\n-original content\n+modified content\n"},
		{"no prefix, created", File{}, text("1\n"), noPrefix, "--- /dev/null\n+++ x\n@@ -0,0 +1 @@\n+1\n"},
		{"no prefix, deleted", text("1\n"), File{}, noPrefix, "--- x\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n"},
		{"no prefix, deleted program", File{Name: "x", Content: []byte("1\n"), Mode: program}, File{}, noPrefix,
			"--- x\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n"},
		{"no prefix, program", File{Name: "x", Content: []byte("1\n"), Mode: program},
			File{Name: "x", Content: []byte("2\n"), Mode: program}, noPrefix, "--- x\n+++ x\n@@ -1 +1 @@\n-1\n+2\n"},
		{"no prefix, created program", File{}, File{Name: "x", Content: []byte("1\n"), Mode: program}, noPrefix,
			"diff --git x x\nnew file mode 100755\nindex 0000000..d00491f\n--- /dev/null\n+++ x\n@@ -0,0 +1 @@\n+1\n"},
		{"no prefix, created empty", File{}, text(""), noPrefix,
			"diff --git x x\nnew file mode 100644\nindex 0000000..e69de29\n" + EndOfHeader},
		{"no prefix, mode", same, File{Name: "x", Content: []byte("1\n"), Mode: program}, noPrefix,
			"diff --git x x\nold mode 100644\nnew mode 100755\n" + EndOfHeader},
		{"no prefix, rename", same, File{Name: "y", Content: []byte("2\n"), Mode: regular}, noPrefix,
			"diff --git x y\nrename from x\nrename to y\nindex d00491f..0cfbf08 100644\n--- x\n+++ y\n@@ -1 +1 @@\n" +
				"-1\n+2\n"},
		{"no prefix, link", File{Name: "x", Content: []byte("1"), Mode: link},
			File{Name: "x", Content: []byte("2"), Mode: link}, noPrefix,
			"diff --git x x\nindex 56a6051..d8263ee 120000\n--- x\n+++ x\n@@ -1 +1 @@\n" +
				"-1\n\\ No newline at end of file\n+2\n\\ No newline at end of file\n"},
		{"no prefix, binary", text("\x00"), text("1"), noPrefix,
			"diff --git x x\nindex f76dd23..56a6051 100644\nBinary files x and x differ\n" + EndOfHeader},
		{"absent side's content counts for nothing", File{Name: "y", Content: []byte("old"), Mode: 0}, text("1\n"),
			noPrefix, "--- /dev/null\n+++ x\n@@ -0,0 +1 @@\n+1\n"},
		{"one line of context", text("1\n2\n3\n4\n5\n"), text("1\n2\nx\n4\n5\n"),
			&UnifiedOptions{NoPrefix: true, Context: 1}, "--- x\n+++ x\n@@ -2,3 +2,3 @@\n 2\n-3\n+x\n 4\n"},
		{"no context", text("1\n2\n3\n"), text("1\n2\nx\n3\n"), &UnifiedOptions{NoPrefix: true, Context: -1},
			"--- x\n+++ x\n@@ -2,0 +3 @@\n+x\n"},
		{"absent new side's content counts for nothing", text("1\n"), File{Name: "y", Content: []byte("new"), Mode: 0},
			noPrefix, "--- x\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n"},
		{"more context than there is", text("1\n2\n3\n"), text("2\n"),
			&UnifiedOptions{NoPrefix: true, Context: math.MaxInt}, "--- x\n+++ x\n@@ -1,3 +1 @@\n-1\n 2\n-3\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := string(AppendUnified([]byte("kept\n"), tt.old, tt.new, tt.opts))
			if diff := cmp.Diff("kept\n"+tt.want, got); diff != "" {
				t.Errorf("AppendUnified (-want +got):\n%s", diff)
			}
		})
	}
}
