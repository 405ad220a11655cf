package textdiff

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pmezard/go-difflib/difflib"

	"github.com/boocode/filestore/internal/similar"
	"github.com/boocode/filestore/internal/testseed"
)

// applyEdits is what Edits promises, written as plainly as possible.
func applyEdits(t *testing.T, old, new []byte, list []Edit) []byte {
	t.Helper()
	a, b := SplitLines(old), SplitLines(new)
	var out strings.Builder
	at := 0
	for n, e := range list {
		if e.OldStart > e.OldEnd || e.NewStart > e.NewEnd || e.OldEnd-e.OldStart+e.NewEnd-e.NewStart == 0 {
			t.Fatalf("edit %d is empty or backwards: %+v", n, e)
		}
		if n > 0 && e.OldStart <= at {
			t.Fatalf("edit %d touches the one before: %+v", n, e)
		}
		for _, line := range a[at:e.OldStart] {
			out.WriteString(line)
		}
		for _, line := range b[e.NewStart:e.NewEnd] {
			out.WriteString(line)
		}
		at = e.OldEnd
	}
	for _, line := range a[at:] {
		out.WriteString(line)
	}
	return []byte(out.String())
}

func newRand(t testing.TB) *rand.Rand {
	return rand.New(rand.NewPCG(testseed.Of(t), 0))
}

// randomText returns up to n lines, of which about distinct differ, some ended
// by CRLF, sometimes without the last newline.
func randomText(rnd *rand.Rand, n, distinct int) []byte {
	var b []byte
	for range rnd.IntN(n + 1) {
		b = fmt.Appendf(b, "\t%d", rnd.IntN(distinct))
		switch rnd.IntN(20) {
		case 0:
			b = append(b, '\r')
		case 1:
			b = append(b, "\rx\xff\x80"...)
		case 2:
			b = append(b, "\n\n"...)
		}
		b = append(b, '\n')
	}
	if rnd.IntN(3) == 0 {
		b = bytes.TrimSuffix(b, []byte("\n"))
	}
	return b
}

// mutate returns b with up to n lines deleted, added, changed or moved.
func mutate(rnd *rand.Rand, b []byte, n int) []byte {
	lines := SplitLines(b)
	for range rnd.IntN(n + 1) {
		at := rnd.IntN(len(lines) + 1)
		switch line := fmt.Sprintf("\t%d\n", rnd.IntN(30)); {
		case at == len(lines) || rnd.IntN(3) == 0:
			lines = append(lines[:at], append([]string{line}, lines[at:]...)...)
		case rnd.IntN(3) == 0:
			lines = append(lines[:at], lines[at+1:]...)
		case rnd.IntN(3) == 0:
			to := rnd.IntN(len(lines))
			lines[at], lines[to] = lines[to], lines[at]
		default:
			lines[at] = line
		}
	}
	out := []byte(strings.Join(lines, ""))
	if rnd.IntN(3) == 0 {
		out = bytes.TrimSuffix(out, []byte("\n"))
	}
	return out
}

func TestEditsRebuildNew(t *testing.T) {
	rnd := newRand(t)
	for range 5000 {
		old := randomText(rnd, 60, 1+rnd.IntN(50))
		new := mutate(rnd, old, 12)
		if rnd.IntN(8) == 0 {
			new = randomText(rnd, 60, 10)
		}
		list := Edits(old, new)
		if got := applyEdits(t, old, new, list); !bytes.Equal(got, new) {
			t.Fatalf("Edits(%q, %q) = %v rebuilds %q", old, new, list, got)
		}
		if bytes.Equal(old, new) != (len(list) == 0) {
			t.Fatalf("Edits(%q, %q) = %v", old, new, list)
		}
	}
}

// The three ways to fill a gap must each rebuild the new text, whichever the
// budget would choose.
func TestEachStepRebuildsNew(t *testing.T) {
	fill := map[string]func(m *matcher, g gap){
		"difflib": func(m *matcher, g gap) {
			m.left.difflib = 1e18
			if !m.matchByDifflib(g) {
				t.Error("matchByDifflib refused a small gap")
			}
		},
		"myers":  func(m *matcher, g gap) { m.matchByMyers(g) },
		"unique": func(m *matcher, g gap) { m.splitAtUnique(g) },
		"none":   func(m *matcher, g gap) {},
	}
	rnd := newRand(t)
	for name, fill := range fill {
		t.Run(name, func(t *testing.T) {
			for range 2000 {
				a := SplitLines(randomText(rnd, 30, 1+rnd.IntN(20)))
				b := SplitLines(mutate(rnd, []byte(strings.Join(a, "")), 9))
				whole := gap{0, len(a), 0, len(b)}
				m := newMatcher(len(a), textEffort())
				m.prepare(m.intern(a, b, whole), whole)
				fill(m, whole)
				next := 0
				for i, j := range m.partner {
					if j < 0 {
						continue
					}
					if j < next || a[i] != b[j] {
						t.Fatalf("match %q, %q: %v crosses or pairs unequal lines at %d", a, b, m.partner, i)
					}
					next = j + 1
				}
			}
		})
	}
}

// matchByMyers promises the fewest edits; a table of longest common
// subsequences tells how few that is.
func TestMyersIsMinimal(t *testing.T) {
	rnd := newRand(t)
	for range 2000 {
		a := SplitLines(randomText(rnd, 25, 1+rnd.IntN(5)))
		b := SplitLines(mutate(rnd, []byte(strings.Join(a, "")), 9))
		m := newMatcher(len(a), textEffort())
		whole := gap{0, len(a), 0, len(b)}
		m.prepare(m.intern(a, b, whole), whole)
		m.matchByMyers(whole)
		got := 0
		for _, j := range m.partner {
			if j >= 0 {
				got++
			}
		}
		longest := make([][]int, len(a)+1)
		for i := range longest {
			longest[i] = make([]int, len(b)+1)
		}
		for i := range a {
			for j := range b {
				longest[i+1][j+1] = max(longest[i][j+1], longest[i+1][j])
				if a[i] == b[j] {
					longest[i+1][j+1] = longest[i][j] + 1
				}
			}
		}
		if want := longest[len(a)][len(b)]; got != want {
			t.Fatalf("myers of %q and %q pairs %d lines, want %d", a, b, got, want)
		}
	}
}

func TestEdits(t *testing.T) {
	tests := []struct {
		name, old, new string
		want           []Edit
	}{
		{"both empty", "", "", nil},
		{"equal", "a\nb", "a\nb", nil},
		{"from empty", "", "a\nb\n", []Edit{{0, 0, 0, 2}}},
		{"to empty", "a\nb\n", "", []Edit{{0, 2, 0, 0}}},
		{"final newline added", "a\nb", "a\nb\n", []Edit{{1, 2, 1, 2}}},
		{"carriage return added", "a\nb\n", "a\r\nb\n", []Edit{{0, 1, 0, 1}}},
		{"lone carriage return ends no line", "a\rb\n", "a\rc\n", []Edit{{0, 1, 0, 1}}},
		{"blank line is not an end", "a\n", "a\n\n", []Edit{{1, 1, 1, 2}}},
		{"two edits", "a\nb\nc\nd\n", "a\nB\nc\nd\ne\n", []Edit{{1, 2, 1, 2}, {4, 4, 4, 5}}},
		{"repeated lines", "x\nx\nx\n", "x\nx\nx\nx\n", []Edit{{3, 3, 3, 4}}},
		{"function appended", "a{\n}\n", "a{\n}\nb{\n}\n", []Edit{{2, 2, 2, 4}}},
		{"lines swapped", "a\nb\nc\n", "b\na\nc\n", []Edit{{0, 1, 0, 0}, {2, 2, 1, 2}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Edits([]byte(tt.old), []byte(tt.new))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Edits(%q, %q) (-want +got):\n%s", tt.old, tt.new, diff)
			}
		})
	}
}

// Why we do not use difflib's own lines and rendering.
func TestDifflibLosesTheFinalNewline(t *testing.T) {
	got, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines("a"), B: difflib.SplitLines("a\n"), Context: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := "@@ -1 +1,2 @@\n a\n+\n"; got != want {
		t.Errorf("difflib now says %q of an added final newline, want the wrong %q", got, want)
	}
	if got, want := plain("a", "a\n"), "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"; got != want {
		t.Errorf("AppendUnified says %q, want %q", got, want)
	}
}

// plain returns only the hunks between two texts.
func plain(old, new string) string {
	return string(appendHunks(nil, SplitLines([]byte(old)), SplitLines([]byte(new)), 3))
}

func TestIsBinary(t *testing.T) {
	at := func(n int) []byte { b := bytes.Repeat([]byte{'x'}, 9000); b[n] = 0; return b }
	for _, tt := range []struct {
		name string
		b    []byte
		want bool
	}{
		{"nothing", nil, false},
		{"text", []byte("a\r\n\xff\x01"), false},
		{"first byte", at(0), true},
		{"last that counts", at(7999), true},
		{"first that does not", at(8000), false},
	} {
		if got := similar.IsBinary(tt.b); got != tt.want {
			t.Errorf("similar.IsBinary(%s) = %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Stat must agree with git where there is only one smallest diff.
func TestStatAgreesWithGit(t *testing.T) {
	needTool(t, "git")
	rnd := newRand(t)
	long := make([]string, 400)
	for i := range long {
		long[i] = fmt.Sprintf("line %d\n", i)
	}
	text := strings.Join(long, "")
	var cases [][2]string
	for range 20 { // distinct lines: what is kept in order is the only smallest diff
		lines := append([]string(nil), long...)
		for range rnd.IntN(40) {
			at := rnd.IntN(len(lines))
			switch rnd.IntN(3) {
			case 0:
				lines[at] = fmt.Sprintf("changed %d\n", rnd.Uint64())
			case 1:
				lines = append(lines[:at], lines[at+1:]...)
			case 2:
				lines[at] += fmt.Sprintf("added %d\n", rnd.Uint64())
			}
		}
		cases = append(cases, [2]string{text, strings.Join(lines, "")})
	}
	cases = append(cases, [2]string{"", text}, [2]string{text, ""}, [2]string{"a\nb", "a\nb\n"},
		[2]string{"a\n", "a\r\n"}, [2]string{"a\x00", "b"}, [2]string{"a", "\x00"}, [2]string{"x\nx\n", "x\nx\nx\n"})
	for _, c := range cases {
		dir := t.TempDir()
		writeFile(t, dir, File{Name: "old", Content: []byte(c[0]), Mode: 0o100644})
		writeFile(t, dir, File{Name: "new", Content: []byte(c[1]), Mode: 0o100644})
		cmd := exec.Command("git", "diff", "--no-index", "--numstat", "old", "new")
		cmd.Dir, cmd.Env = dir, toolEnv()
		out, _ := cmd.Output() // exit code 1 says that they differ
		added, deleted, binary := Stat([]byte(c[0]), []byte(c[1]))
		got := fmt.Sprintf("%d\t%d\t", added, deleted)
		if binary {
			got = "-\t-\t"
		}
		if c[0] != c[1] && !strings.HasPrefix(string(out), got) {
			t.Errorf("Stat(%.40q…, %.40q…) = %q, git says %q", c[0], c[1], got, out)
		}
	}
}

func needTool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("NOT CHECKED against %s: %v", name, err)
	}
}

// toolEnv is the environment without the user's git: neither configuration nor
// the repository that a hook running these tests would name.
func toolEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "GIT_") })
	return append(env, "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CEILING_DIRECTORIES="+os.TempDir(), "LC_ALL=C")
}

func writeFile(t *testing.T, dir string, f File) {
	t.Helper()
	path := filepath.Join(dir, f.Name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	switch {
	case err != nil || f.Mode == 0:
	case f.Mode == 0o120000:
		err = os.Symlink(string(f.Content), path)
	default:
		err = os.WriteFile(path, f.Content, os.FileMode(f.Mode&0o777))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func FuzzEdits(f *testing.F) {
	f.Add([]byte("a\nb"), []byte("a\nb\n"))
	f.Add([]byte("\r\n\x00\n\n"), []byte("\n\r\n"))
	f.Add([]byte("a\nb\na\nb\n"), []byte("b\na\nb\na"))
	f.Add([]byte("\n\n\n\n\\ No newline at end of file\n"), []byte("--- a\n+++ b\n@@ -1 +1 @@\n"))
	f.Fuzz(func(t *testing.T, old, new []byte) {
		if got := applyEdits(t, old, new, Edits(old, new)); !bytes.Equal(got, new) {
			t.Errorf("Edits rebuild %q", got)
		}
		checkMergeEdits(t, old, new)
		a, b := File{Name: "x", Content: old, Mode: 0o100644}, File{Name: "x", Content: new, Mode: 0o100644}
		diff := AppendUnified(nil, a, b, &UnifiedOptions{NoPrefix: true})
		if similar.IsBinary(old) || similar.IsBinary(new) {
			return
		}
		if got := applyHunks(t, old, diff); !bytes.Equal(got, new) {
			t.Errorf("diff rebuilds %q:\n%q", got, diff)
		}
		if diff := AppendUnified(nil, b, b, nil); diff != nil {
			t.Errorf("diff of equal files: %q", diff)
		}
	})
}
